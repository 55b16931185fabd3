/* amd_object.c: see amd_object.h.
 *
 *     offset 0   header, segments, note, .dynsym, .hash, .dynstr, constants    mapped at offset
 *                code, aligned to 256                                          offset + 0x1000
 *                .dynamic                                                      offset + 0x2000
 *                .debug_*                                                      not mapped
 *                .symtab, .strtab, .shstrtab, section headers                  not mapped
 *
 * The HSA runtime finds kernels in .symtab, other tools in .dynsym. The section headers come last:
 * hipModuleLoadData is not told the size of a file and derives it from them. */
#include "runtime/amd/amd_object.h"

#include <string.h>

#include "base/strbuf.h"
#include "runtime/amd/amd_file.h"

enum { PAGE = 0x1000, CODE_ALIGN = 256, SEGMENTS = 5 };
/* OWN_SECTIONS: those that are not copied from the object. */
enum { SECTIONS = 32, OWN_SECTIONS = 8 };

typedef struct Link {
  AmdFile in;
  StrBuf out;            /* the file */
  StrBuf names, symbols; /* .dynstr and .strtab; .dynsym and .symtab */
  StrBuf section_names;
  Elf64_Shdr section[SECTIONS];
  int nsections;
  Elf64_Phdr segment[SEGMENTS];
  int nsymbols;
  uint64_t *offset, *address; /* by section of the object; 0: not in the file */
  int *index;                 /* of the section in the file */
} Link;

/* ---- writing ---- */

static uint64_t pad(Link *k, uint64_t align) {
  while (k->out.n % (align ? align : 1)) sb_putc(&k->out, 0);
  return k->out.n;
}

static uint64_t append(Link *k, const void *bytes, size_t n, uint64_t align) {
  uint64_t at = pad(k, align);
  sb_write(&k->out, bytes, n);
  return at;
}

static uint32_t name_section(Link *k, const char *name) {
  uint32_t at = (uint32_t)k->section_names.n;
  sb_write(&k->section_names, name, strlen(name) + 1);
  return at;
}

static int add_section(Link *k, const char *name, Elf64_Shdr s) {
  s.sh_name = name_section(k, name);
  k->section[k->nsections] = s;
  return k->nsections++;
}

/* ---- what the object may not contain ---- */

static bool is_global(const Elf64_Sym *s) { return ELF64_ST_BIND(s->st_info) != STB_LOCAL; }

static bool check_symbols(Link *k) {
  AmdFile *f = &k->in;
  for (size_t i = 1; i < f->nsymbols; i++) {
    const Elf64_Sym *s = &f->symbols[i];
    if (is_global(s) && s->st_shndx == SHN_UNDEF)
      return amd_file_fail(f, i * sizeof *s, "undefined symbol `%s`", amd_symbol_name(f, s));
  }
  return true;
}

static bool is_constant(const Elf64_Shdr *s) {
  return s->sh_flags & SHF_ALLOC && s->sh_type == SHT_PROGBITS && !(s->sh_flags & SHF_EXECINSTR) &&
         s->sh_size;
}

static bool is_code(const Elf64_Shdr *s) { return s->sh_flags & SHF_EXECINSTR && s->sh_size; }

/* Source lines, for the executor and for debuggers. */
static bool is_debug(const Link *k, int i) {
  const Elf64_Shdr *s = &k->in.sections[i];
  return s->sh_type == SHT_PROGBITS && !(s->sh_flags & SHF_ALLOC) && s->sh_size &&
         strncmp(amd_section_name(&k->in, i), ".debug_", 7) == 0;
}

static bool check_sections(Link *k) {
  AmdFile *f = &k->in;
  int copied = 0;
  for (int i = 0; i < f->nsections; i++) {
    const Elf64_Shdr *s = &f->sections[i];
    bool allocated = s->sh_flags & (SHF_ALLOC | SHF_EXECINSTR) && s->sh_size;
    if (allocated && (s->sh_flags & SHF_WRITE || s->sh_type == SHT_NOBITS))
      return amd_file_fail(f, s->sh_offset,
                           "section `%s` is written at run time, which needs a "
                           "linker",
                           amd_section_name(f, i));
    copied += (s->sh_type == SHT_NOTE) + is_constant(s) + is_code(s) + is_debug(k, i);
  }
  return copied <= SECTIONS - OWN_SECTIONS ||
         amd_file_fail(f, f->head.e_shoff, "%d sections, of at most %d", copied,
                       SECTIONS - OWN_SECTIONS);
}

/* ---- symbols ---- */

/* Global ones; their values follow when the sections have been placed. */
static void add_symbols(Link *k) {
  Elf64_Sym none = {0};
  sb_putc(&k->names, 0);
  sb_write(&k->symbols, (const char *)&none, sizeof none);
  k->nsymbols = 1;
  for (size_t i = 1; i < k->in.nsymbols; i++) {
    Elf64_Sym s = k->in.symbols[i];
    if (!is_global(&s)) continue;
    const char *name = amd_symbol_name(&k->in, &s);
    s.st_name = (uint32_t)k->names.n;
    sb_write(&k->names, name, strlen(name) + 1);
    sb_write(&k->symbols, (const char *)&s, sizeof s);
    k->nsymbols++;
  }
}

/* One bucket with a chain of all symbols. */
static uint64_t add_hash(Link *k) {
  uint32_t n = (uint32_t)k->nsymbols, head[3] = {1, n, n > 1};
  uint64_t at = append(k, head, sizeof head, 4);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t next = i > 0 && i + 1 < n ? i + 1 : 0;
    sb_write(&k->out, (const char *)&next, sizeof next);
  }
  return at;
}

static bool place_symbols(Link *k) {
  Elf64_Sym *s = (Elf64_Sym *)(void *)k->symbols.at;
  for (int i = 1; i < k->nsymbols; i++) {
    if (s[i].st_shndx == SHN_ABS) continue;
    if (s[i].st_shndx >= k->in.nsections || !k->index[s[i].st_shndx])
      return amd_file_fail(&k->in, (uint64_t)i * sizeof *s,
                           "symbol `%s` is in no section of the "
                           "code object",
                           k->names.at + s[i].st_name);
    s[i].st_value += k->address[s[i].st_shndx];
    s[i].st_shndx = (uint16_t)k->index[s[i].st_shndx];
  }
  return true;
}

/* ---- segments ---- */

static void set_segment(Link *k, int i, uint32_t type, uint32_t flags, uint64_t from, uint64_t to,
                        uint64_t shift, uint64_t align) {
  k->segment[i] = (Elf64_Phdr){.p_type = type, .p_flags = flags, .p_offset = from};
  k->segment[i].p_vaddr = k->segment[i].p_paddr = from + shift;
  k->segment[i].p_filesz = k->segment[i].p_memsz = to - from;
  k->segment[i].p_align = align;
}

static void copy_section(Link *k, int i, uint64_t align, uint64_t shift) {
  const Elf64_Shdr *s = &k->in.sections[i];
  uint64_t at = append(k, k->in.bytes + s->sh_offset, s->sh_size, align);
  k->offset[i] = at;
  k->address[i] = at + shift;
  Elf64_Shdr out = *s;
  out.sh_offset = at, out.sh_addr = at + shift, out.sh_addralign = align,
  out.sh_link = out.sh_info = 0;
  k->index[i] = add_section(k, amd_section_name(&k->in, i), out);
}

static void write_constants(Link *k) {
  for (int i = 0; i < k->in.nsections; i++)
    if (k->in.sections[i].sh_type == SHT_NOTE) {
      copy_section(k, i, 4, 0);
      set_segment(k, 4, PT_NOTE, PF_R, k->offset[i], k->out.n, 0, 4);
    }
  uint64_t symbols = append(k, k->symbols.at, k->symbols.n, 8);
  int dynsym = add_section(k, ".dynsym",
                           (Elf64_Shdr){.sh_type = SHT_DYNSYM,
                                        .sh_flags = SHF_ALLOC,
                                        .sh_addr = symbols,
                                        .sh_offset = symbols,
                                        .sh_size = k->symbols.n,
                                        .sh_info = 1,
                                        .sh_addralign = 8,
                                        .sh_entsize = sizeof(Elf64_Sym)});
  uint64_t hash = add_hash(k);
  add_section(k, ".hash",
              (Elf64_Shdr){.sh_type = SHT_HASH,
                           .sh_flags = SHF_ALLOC,
                           .sh_addr = hash,
                           .sh_offset = hash,
                           .sh_size = k->out.n - hash,
                           .sh_link = (uint32_t)dynsym,
                           .sh_addralign = 4,
                           .sh_entsize = 4});
  uint64_t names = append(k, k->names.at, k->names.n, 1);
  k->section[dynsym].sh_link = (uint32_t)k->nsections;
  add_section(k, ".dynstr",
              (Elf64_Shdr){.sh_type = SHT_STRTAB,
                           .sh_flags = SHF_ALLOC,
                           .sh_addr = names,
                           .sh_offset = names,
                           .sh_size = k->names.n,
                           .sh_addralign = 1});
  for (int i = 0; i < k->in.nsections; i++)
    if (is_constant(&k->in.sections[i])) copy_section(k, i, k->in.sections[i].sh_addralign, 0);
  set_segment(k, 0, PT_LOAD, PF_R, 0, k->out.n, 0, PAGE);
}

static bool write_code(Link *k) {
  uint64_t first = pad(k, CODE_ALIGN);
  for (int i = 0; i < k->in.nsections; i++)
    if (is_code(&k->in.sections[i])) copy_section(k, i, CODE_ALIGN, PAGE);
  if (k->out.n == first) return amd_file_fail(&k->in, k->in.head.e_shoff, "no code");
  set_segment(k, 1, PT_LOAD, PF_R | PF_X, first, k->out.n, PAGE, PAGE);
  return true;
}

/* References to a section that is not mapped are offsets in it. */
static void write_debug(Link *k) {
  for (int i = 0; i < k->in.nsections; i++) {
    if (!is_debug(k, i)) continue;
    copy_section(k, i, 1, 0);
    k->section[k->index[i]].sh_addr = k->address[i] = 0;
  }
}

static uint64_t address_of(const Link *k, uint32_t type, uint64_t *size) {
  for (int i = 0; i < k->nsections; i++)
    if (k->section[i].sh_type == type) return *size = k->section[i].sh_size, k->section[i].sh_addr;
  return 0;
}

static void write_dynamic(Link *k) {
  uint64_t size = 0, unused, names = address_of(k, SHT_STRTAB, &size);
  Elf64_Dyn rows[] = {
      {DT_SYMTAB, {address_of(k, SHT_DYNSYM, &unused)}},
      {DT_SYMENT, {sizeof(Elf64_Sym)}},
      {DT_STRTAB, {names}},
      {DT_STRSZ, {size}},
      {DT_HASH, {address_of(k, SHT_HASH, &unused)}},
      {DT_NULL, {0}},
  };
  uint64_t at = append(k, rows, sizeof rows, 16), shift = 2 * PAGE;
  uint32_t link = 0;
  while (k->section[link].sh_type != SHT_STRTAB) link++;
  add_section(k, ".dynamic",
              (Elf64_Shdr){.sh_type = SHT_DYNAMIC,
                           .sh_flags = SHF_ALLOC | SHF_WRITE,
                           .sh_addr = at + shift,
                           .sh_offset = at,
                           .sh_size = sizeof rows,
                           .sh_link = link,
                           .sh_addralign = 16,
                           .sh_entsize = sizeof *rows});
  set_segment(k, 2, PT_LOAD, PF_R | PF_W, at, k->out.n, shift, PAGE);
  set_segment(k, 3, PT_DYNAMIC, PF_R | PF_W, at, k->out.n, shift, 8);
}

/* ---- relocations ---- */

enum {
  R_ABS32_LO = 1,
  R_ABS64 = 3,
  R_REL32 = 4,
  R_REL64 = 5,
  R_ABS32 = 6,
  R_REL32_LO = 10,
  R_REL32_HI = 11
};

/* Addresses of sections are known only relative to the code, except to a debugger. */
static bool is_absolute(const Link *k, int section, unsigned type, const Elf64_Sym *s) {
  if (is_debug(k, section)) return type == R_ABS32 || type == R_ABS64;
  return (type == R_ABS32 || type == R_ABS32_LO) && s->st_shndx == SHN_ABS;
}

static bool symbol_address(Link *k, const Elf64_Sym *s, uint64_t at, uint64_t *out) {
  if (s->st_shndx == SHN_ABS) return *out = s->st_value, true;
  if (s->st_shndx < k->in.nsections && k->index[s->st_shndx])
    return *out = k->address[s->st_shndx] + s->st_value, true;
  return amd_file_fail(&k->in, at, "a relocation refers to `%s`, which is outside the code",
                       amd_symbol_name(&k->in, s));
}

static bool relocate(Link *k, int section, const Elf64_Rela *r, uint64_t at) {
  AmdFile *f = &k->in;
  unsigned type = ELF64_R_TYPE(r->r_info), n = type == R_REL64 || type == R_ABS64 ? 8 : 4;
  size_t index = ELF64_R_SYM(r->r_info);
  uint64_t size = f->sections[section].sh_size, target = 0;
  if (index >= f->nsymbols || r->r_offset > size || n > size - r->r_offset)
    return amd_file_fail(f, at, "a relocation out of range");
  const Elf64_Sym *s = &f->symbols[index];
  bool absolute = is_absolute(k, section, type, s);
  if (!absolute && type != R_REL64 && type != R_REL32 && type != R_REL32_LO && type != R_REL32_HI)
    return amd_file_fail(f, at, "relocation %u of `%s` needs a linker", type,
                         amd_symbol_name(f, s));
  if (!symbol_address(k, s, at, &target)) return false;
  uint64_t value = target + (uint64_t)r->r_addend;
  if (!absolute) value -= k->address[section] + r->r_offset;
  if (type == R_REL32_HI) value >>= 32;
  memcpy(k->out.at + k->offset[section] + r->r_offset, &value, n);
  return true;
}

static bool relocate_all(Link *k) {
  AmdFile *f = &k->in;
  for (int i = 0; i < f->nsections; i++) {
    const Elf64_Shdr *s = &f->sections[i];
    if (s->sh_type != SHT_RELA || s->sh_info >= (unsigned)f->nsections || !k->index[s->sh_info])
      continue;
    for (uint64_t n = 0; n + sizeof(Elf64_Rela) <= s->sh_size; n += sizeof(Elf64_Rela)) {
      Elf64_Rela r;
      memcpy(&r, f->bytes + s->sh_offset + n, sizeof r);
      if (!relocate(k, (int)s->sh_info, &r, s->sh_offset + n)) return false;
    }
  }
  return true;
}

/* ---- the end of the file, and its beginning ---- */

static void write_tables(Link *k) {
  uint64_t symbols = append(k, k->symbols.at, k->symbols.n, 8);
  add_section(k, ".symtab",
              (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                           .sh_offset = symbols,
                           .sh_size = k->symbols.n,
                           .sh_link = (uint32_t)k->nsections + 1,
                           .sh_info = 1,
                           .sh_addralign = 8,
                           .sh_entsize = sizeof(Elf64_Sym)});
  uint64_t names = append(k, k->names.at, k->names.n, 1);
  add_section(
      k, ".strtab",
      (Elf64_Shdr){
          .sh_type = SHT_STRTAB, .sh_offset = names, .sh_size = k->names.n, .sh_addralign = 1});
  int last = add_section(k, ".shstrtab", (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_addralign = 1});
  k->section[last].sh_offset = append(k, k->section_names.at, k->section_names.n, 1);
  k->section[last].sh_size = k->section_names.n;
  uint64_t headers = append(k, k->section, sizeof *k->section * (size_t)k->nsections, 8);
  Elf64_Ehdr h = k->in.head;
  h.e_type = ET_DYN;
  h.e_phoff = sizeof h, h.e_phentsize = sizeof *k->segment, h.e_phnum = SEGMENTS;
  h.e_shoff = headers, h.e_shentsize = sizeof *k->section;
  h.e_shnum = (uint16_t)k->nsections, h.e_shstrndx = (uint16_t)last;
  memcpy(k->out.at, &h, sizeof h);
  memcpy(k->out.at + sizeof h, k->segment, sizeof k->segment);
}

static bool link_all(Link *k) {
  static const char zeros[sizeof(Elf64_Ehdr) + SEGMENTS * sizeof(Elf64_Phdr)];
  size_t note;
  if (!amd_file_note(&k->in, &note) || !check_symbols(k) || !check_sections(k)) return false;
  size_t n = (size_t)k->in.nsections + 1;
  k->offset = ARENA_ARRAY(k->in.arena, uint64_t, n);
  k->address = ARENA_ARRAY(k->in.arena, uint64_t, n);
  k->index = ARENA_ARRAY(k->in.arena, int, n);
  add_section(k, "", (Elf64_Shdr){0});
  sb_write(&k->out, zeros, sizeof zeros);
  add_symbols(k);
  uint64_t unused;
  write_constants(k);
  if (!write_code(k)) return false;
  write_dynamic(k);
  write_debug(k);
  if (!place_symbols(k) || !relocate_all(k)) return false;
  memcpy(k->out.at + address_of(k, SHT_DYNSYM, &unused), k->symbols.at, k->symbols.n);
  write_tables(k);
  return true;
}

bool amd_object_link(Arena *a, const void *object, size_t size, AmdCode *out, const char **error) {
  Link k = {.out = {.arena = a},
            .names = {.arena = a},
            .symbols = {.arena = a},
            .section_names = {.arena = a}};
  if (amd_file_open(&k.in, a, object, size, ET_REL) && link_all(&k)) {
    *out = (AmdCode){(const uint8_t *)k.out.at, k.out.n};
    return true;
  }
  *error = k.in.error;
  return false;
}
