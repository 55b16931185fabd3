/* amd_file.c: see amd_file.h. */
#include "runtime/amd/amd_file.h"

#include <stdarg.h>
#include <string.h>

#include "target/target.h"

bool amd_file_fail(AmdFile *f, uint64_t offset, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *what = arena_vprintf(f->arena, fmt, ap);
  va_end(ap);
  f->error = arena_printf(f->arena, "offset 0x%llx: %s", (unsigned long long)offset, what);
  return false;
}

const uint8_t *amd_file_at(AmdFile *f, uint64_t offset, uint64_t n, const char *what) {
  if (offset <= f->size && n <= f->size - offset) return f->bytes + offset;
  amd_file_fail(f, offset, "%s of %llu bytes, but the file ends at 0x%llx", what,
                (unsigned long long)n, (unsigned long long)f->size);
  return NULL;
}

static bool is_ours(AmdFile *f, int type) {
  const Elf64_Ehdr *h = &f->head;
  if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
      h->e_ident[EI_DATA] != ELFDATA2LSB)
    return amd_file_fail(f, 0, "not a 64-bit ELF file");
  if (h->e_machine != AMD_MACHINE)
    return amd_file_fail(f, offsetof(Elf64_Ehdr, e_machine), "for machine %u, not an AMD GPU",
                         h->e_machine);
  if (h->e_type != type)
    return amd_file_fail(f, offsetof(Elf64_Ehdr, e_type), "of type %u, expected %s", h->e_type,
                         type == ET_REL ? "a relocatable object" : "a code object");
  if (h->e_shentsize != sizeof(Elf64_Shdr))
    return amd_file_fail(f, offsetof(Elf64_Ehdr, e_shentsize), "section headers of %u bytes",
                         h->e_shentsize);
  return true;
}

/* Text that ends with a zero byte. */
static const char *strings(AmdFile *f, const Elf64_Shdr *s, size_t *n) {
  const uint8_t *at = amd_file_at(f, s->sh_offset, s->sh_size, "a table of names");
  *n = s->sh_size;
  if (!at) return NULL;
  if (s->sh_size && !at[s->sh_size - 1]) return (const char *)at;
  amd_file_fail(f, s->sh_offset, "a table of names without an end");
  return NULL;
}

static bool read_symbols(AmdFile *f, const Elf64_Shdr *s) {
  const uint8_t *at = amd_file_at(f, s->sh_offset, s->sh_size, "the symbols");
  if (!at) return false;
  if (s->sh_link >= (unsigned)f->nsections)
    return amd_file_fail(f, s->sh_offset, "symbols without names");
  f->nsymbols = s->sh_size / sizeof *f->symbols;
  f->symbols = arena_copy(f->arena, at, f->nsymbols * sizeof *f->symbols);
  return (f->names = strings(f, &f->sections[s->sh_link], &f->names_size)) != NULL;
}

static bool read_sections(AmdFile *f) {
  for (int i = 0; i < f->nsections; i++) {
    const Elf64_Shdr *s = &f->sections[i];
    if (s->sh_type != SHT_NOBITS && !amd_file_at(f, s->sh_offset, s->sh_size, "a section"))
      return false;
    if (s->sh_addralign > 4096 || (s->sh_addralign & (s->sh_addralign - 1)))
      return amd_file_fail(f, s->sh_offset, "a section aligned to %llu",
                           (unsigned long long)s->sh_addralign);
    /* .symtab; a file that was stripped has only .dynsym, which comes first */
    bool has_symbols = s->sh_type == SHT_SYMTAB || (s->sh_type == SHT_DYNSYM && !f->symbols);
    if (has_symbols && !read_symbols(f, s)) return false;
  }
  if (f->head.e_shstrndx >= f->nsections) return true; /* sections without names */
  f->section_names = strings(f, &f->sections[f->head.e_shstrndx], &f->section_names_size);
  return f->section_names != NULL;
}

bool amd_file_open(AmdFile *f, Arena *a, const void *bytes, size_t size, int type) {
  *f = (AmdFile){.arena = a, .size = size};
  f->bytes = arena_copy(a, bytes, size);
  const uint8_t *head = amd_file_at(f, 0, sizeof f->head, "the header");
  if (!head) return false;
  memcpy(&f->head, head, sizeof f->head);
  if (!is_ours(f, type)) return false;
  uint64_t n = (uint64_t)f->head.e_shnum * sizeof *f->sections;
  const uint8_t *sections = amd_file_at(f, f->head.e_shoff, n, "the section headers");
  if (!sections) return false;
  f->nsections = f->head.e_shnum;
  f->sections = arena_copy(a, sections, n);
  return read_sections(f);
}

const char *amd_symbol_name(const AmdFile *f, const Elf64_Sym *s) {
  return f->names && s->st_name < f->names_size ? f->names + s->st_name : "";
}

const char *amd_section_name(const AmdFile *f, int i) {
  uint32_t at = f->sections[i].sh_name;
  return f->section_names && at < f->section_names_size ? f->section_names + at : "";
}

/* The note of a section: sizes, "AMDGPU", contents; each part is padded to four bytes. */
static const uint8_t *note_in(AmdFile *f, const Elf64_Shdr *s, size_t *n) {
  Elf64_Nhdr h;
  for (uint64_t at = 0; at + sizeof h <= s->sh_size;) {
    memcpy(&h, f->bytes + s->sh_offset + at, sizeof h);
    uint64_t name = at + sizeof h, contents = name + (((uint64_t)h.n_namesz + 3) & ~UINT64_C(3));
    if (contents > s->sh_size || h.n_descsz > s->sh_size - contents) {
      amd_file_fail(f, s->sh_offset + at, "a note longer than its section");
      return NULL;
    }
    const uint8_t *bytes = f->bytes + s->sh_offset;
    if (h.n_type == AMD_NOTE && h.n_namesz == 7 && memcmp(bytes + name, "AMDGPU", 7) == 0)
      return *n = h.n_descsz, bytes + contents;
    at = contents + (((uint64_t)h.n_descsz + 3) & ~UINT64_C(3));
  }
  return NULL;
}

const uint8_t *amd_file_note(AmdFile *f, size_t *n) {
  for (int i = 0; i < f->nsections; i++) {
    if (f->sections[i].sh_type != SHT_NOTE) continue;
    const uint8_t *note = note_in(f, &f->sections[i], n);
    if (note || f->error) return note;
  }
  amd_file_fail(f, f->head.e_shoff, "no section holds the metadata note");
  return NULL;
}

const char *amd_file_chip(const AmdFile *f) {
  const AmdChip *chip = chip_numbered(f->head.e_flags & 0xff);
  return chip ? chip->name : NULL;
}
