/* fake_object.h: the smallest ELF file that the runtime accepts as a code object. Instead of code and
 * a note it has one section of text, which fake_hip reads:
 *
 *   kernel scale chip gfx942 args 0:8 8:8 16:4        offset:bytes of each argument
 *
 * Chips are gfx942 and gfx90a. */
#ifndef WV_FAKE_OBJECT_H
#define WV_FAKE_OBJECT_H

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_OBJECT_MACHINE = 224, FAKE_OBJECT_TEXT = 8192 };

/* Freed with free(). `bytes` of each argument; they are laid out as a C struct would be. */
static inline char *fake_object(const char *kernel, const char *chip, const int *bytes, int n,
                                size_t *size) {
  char text[FAKE_OBJECT_TEXT];
  int at = 0, used = snprintf(text, sizeof text, "kernel %s chip %s args", kernel, chip);
  for (int i = 0; i < n; i++) {
    at = (at + bytes[i] - 1) / bytes[i] * bytes[i];
    used += snprintf(text + used, sizeof text - (size_t)used, " %d:%d", at, bytes[i]);
    at += bytes[i];
  }
  Elf64_Shdr sections[2] = {{0}};
  Elf64_Ehdr e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 64},
                  .e_type = ET_DYN,
                  .e_machine = FAKE_OBJECT_MACHINE,
                  .e_version = EV_CURRENT,
                  .e_flags = strcmp(chip, "gfx942") == 0 ? 0x4c : 0x3f,
                  .e_ehsize = sizeof e,
                  .e_shentsize = sizeof *sections,
                  .e_shnum = 2};
  e.e_shoff = (sizeof e + (size_t)used + 1 + 7) / 8 * 8;
  sections[1] = (Elf64_Shdr){
      .sh_type = SHT_PROGBITS, .sh_offset = sizeof e, .sh_size = (Elf64_Xword)used + 1};
  *size = e.e_shoff + sizeof sections;
  char *out = calloc(1, *size);
  if (!out) abort();
  memcpy(out, &e, sizeof e);
  memcpy(out + sizeof e, text, (size_t)used + 1);
  memcpy(out + e.e_shoff, sections, sizeof sections);
  return out;
}

/* The text of such a file; NULL: it is none. */
static inline const char *fake_object_text(const void *image) {
  Elf64_Ehdr e;
  Elf64_Shdr s;
  memcpy(&e, image, sizeof e);
  if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_machine != FAKE_OBJECT_MACHINE ||
      e.e_shnum != 2)
    return NULL;
  memcpy(&s, (const char *)image + e.e_shoff + sizeof s, sizeof s);
  return (const char *)image + s.sh_offset;
}

#endif
