/* amd_file.h: reads ELF files of AMD code, which may be damaged: every offset is checked, and an
 * error says which one is wrong. */
#ifndef WV_AMD_FILE_H
#define WV_AMD_FILE_H

#include <elf.h>

#include "base/arena.h"

enum {
  AMD_MACHINE = 224,
  AMD_OS = 64,
  AMD_NOTE = 32
}; /* EM_AMDGPU, ELFOSABI_AMDGPU_HSA,
                                                         * NT_AMDGPU_METADATA */

typedef struct AmdFile {
  Arena *arena;
  const uint8_t *bytes; /* aligned to 16 */
  size_t size;
  Elf64_Ehdr head;
  const Elf64_Shdr *sections;
  int nsections;
  const Elf64_Sym *symbols; /* of .symtab, otherwise of .dynsym; NULL: none */
  size_t nsymbols;
  const char *names; /* of symbols, and of sections: both end with a zero byte */
  size_t names_size;
  const char *section_names;
  size_t section_names_size;
  const char *error; /* what is wrong, with the offset */
} AmdFile;

/* False: f->error is set. `type`: ET_REL or ET_DYN. */
bool amd_file_open(AmdFile *f, Arena *a, const void *bytes, size_t size, int type);

/* The bytes at an offset; NULL after setting the error. */
const uint8_t *amd_file_at(AmdFile *f, uint64_t offset, uint64_t n, const char *what);
bool amd_file_fail(AmdFile *f, uint64_t offset, const char *fmt, ...) WV_PRINTF(3, 4);

const char *amd_symbol_name(const AmdFile *f, const Elf64_Sym *s);
const char *amd_section_name(const AmdFile *f, int i);
/* The metadata note's contents (MessagePack); NULL: there is none, or it is damaged. */
const uint8_t *amd_file_note(AmdFile *f, size_t *n);
/* The chip for which the file was compiled, by the number in its flags; NULL: unknown. */
const char *amd_file_chip(const AmdFile *f);

#endif
