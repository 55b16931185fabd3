/* amd_image.h: a code object in memory, as a driver would load it, and the descriptors of its
 * kernels. */
#ifndef WV_AMD_IMAGE_H
#define WV_AMD_IMAGE_H

#include "isa/isa.h"
#include "runtime/amd/amd_note.h"

typedef struct AmdImage {
  const uint8_t *memory; /* the segments at their addresses, in the arena */
  uint64_t size;
  const char *chip;
  AmdNote note;
  const uint8_t *lines; /* .debug_line; NULL: none */
  size_t lines_size;
  const Elf64_Phdr *segments;
  int nsegments;
  const void *places; /* of the kernels, private to amd_image.c */
} AmdImage;

/* False: *error says what is wrong, with the offset. */
bool amd_image_load(Arena *a, const void *bytes, size_t size, AmdImage *out, const char **error);

/* The kernel `name` for the executor. False: *error. */
bool amd_image_kernel(Arena *a, const AmdImage *image, const char *name, IsaImage *out,
                      const char **error);

/* Where bytes of the image's memory are in the file. */
uint64_t amd_image_offset(const AmdImage *image, const uint8_t *at);

#endif
