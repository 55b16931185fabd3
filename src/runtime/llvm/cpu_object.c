/* cpu_object.c: see cpu_object.h.
 *
 * All sections are in one mapping: first what is only read or executed, then the stubs (jumps to
 * far functions, addresses that code loads), then, starting on a new page, what is written. */
#define _GNU_SOURCE
#include "runtime/llvm/cpu_object.h"

#include <elf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/landing.h"
#include "runtime/cpu/cpu_watch.h"
#include "runtime/llvm/cpu_debug.h"
#include "runtime/llvm/cpu_reloc.h"

enum { PAGE = 65536, STUB = 16 }; /* the largest page size of AArch64 kernels */

typedef struct NamedAddress {
  const char *name;
  void *at;
} NamedAddress;

struct CpuImage {
  uint8_t *map;
  size_t size, executable; /* of the mapping; of its part that is not written */
  char *names;
  NamedAddress *symbols;
  int nsymbols;
  CpuDebug *debug;
};

typedef struct Object {
  const uint8_t *bytes;
  size_t size;
  const Elf64_Ehdr *head;
  const Elf64_Shdr *sections;
  const Elf64_Sym *symbols;
  size_t nsymbols;
  const char *names; /* of symbols */
  size_t names_size;
  uint64_t *section_at; /* by section: its address; 0: not loaded */
  Arena *arena;
  const char *error;
} Object;

static bool fail(Object *o, const char *what) {
  o->error = what;
  return false;
}

/* ---- reading ---- */

static bool holds(const Object *o, uint64_t offset, uint64_t n) {
  return offset <= o->size && n <= o->size - offset;
}

/* Rows of a table can be read in place: a damaged object may put them anywhere. */
static bool is_aligned(const Object *o, uint64_t offset) {
  return ((uintptr_t)o->bytes + offset) % sizeof(uint64_t) == 0;
}

static bool is_table(const Elf64_Shdr *s) {
  return s->sh_type == SHT_SYMTAB || s->sh_type == SHT_RELA;
}

static bool read_symbols(Object *o) {
  for (int i = 0; i < o->head->e_shnum; i++) {
    const Elf64_Shdr *s = &o->sections[i];
    if (s->sh_type != SHT_NOBITS && !holds(o, s->sh_offset, s->sh_size))
      return fail(o, "a section is outside the object");
    if (is_table(s) && !is_aligned(o, s->sh_offset)) return fail(o, "a table is not aligned");
    if (s->sh_type != SHT_SYMTAB) continue;
    if (s->sh_link >= o->head->e_shnum) return fail(o, "symbols without names");
    const Elf64_Shdr *text = &o->sections[s->sh_link];
    if (!holds(o, text->sh_offset, text->sh_size)) return fail(o, "symbols without names");
    o->symbols = (const Elf64_Sym *)(const void *)(o->bytes + s->sh_offset);
    o->nsymbols = s->sh_size / sizeof *o->symbols;
    o->names = (const char *)o->bytes + text->sh_offset;
    o->names_size = text->sh_size;
  }
  return true;
}

static bool read_object(Object *o) {
#if defined(__aarch64__)
  enum { MACHINE = EM_AARCH64 };
#else
  enum { MACHINE = EM_X86_64 };
#endif
  o->head = (const Elf64_Ehdr *)(const void *)o->bytes;
  if (o->size < sizeof *o->head || memcmp(o->head->e_ident, ELFMAG, SELFMAG) != 0 ||
      o->head->e_type != ET_REL)
    return fail(o, "it is not an ELF object");
  if (o->head->e_machine != MACHINE) return fail(o, "it is for another CPU");
  if (o->head->e_shentsize != sizeof *o->sections ||
      !holds(o, o->head->e_shoff, (uint64_t)o->head->e_shnum * sizeof *o->sections))
    return fail(o, "its section table is outside the object");
  if (!is_aligned(o, o->head->e_shoff)) return fail(o, "its section table is not aligned");
  o->sections = (const Elf64_Shdr *)(const void *)(o->bytes + o->head->e_shoff);
  return read_symbols(o);
}

static const char *name_of(const Object *o, const Elf64_Sym *s) {
  return s->st_name < o->names_size ? o->names + s->st_name : "";
}

/* ---- placing ---- */

static uint64_t round_up(uint64_t x, uint64_t to) { return to > 1 ? (x + to - 1) / to * to : x; }

static size_t count_relocations(const Object *o) {
  size_t n = 0;
  for (int i = 0; i < o->head->e_shnum; i++)
    if (o->sections[i].sh_type == SHT_RELA) n += o->sections[i].sh_size / sizeof(Elf64_Rela);
  return n;
}

/* Stores the offsets of the loaded sections, plus one, in `section_at`; the start of the stubs in
 * *stubs. */
static void lay_out(Object *o, CpuImage *image, uint64_t *stubs) {
  uint64_t at = 0;
  for (int writable = 0; writable < 2; writable++) {
    for (int i = 0; i < o->head->e_shnum; i++) {
      const Elf64_Shdr *s = &o->sections[i];
      bool here = s->sh_flags & SHF_ALLOC && !!(s->sh_flags & SHF_WRITE) == writable;
      if (!here) continue;
      at = round_up(at, s->sh_addralign);
      o->section_at[i] = at + 1;
      at += s->sh_size;
    }
    if (writable) continue;
    *stubs = round_up(at, STUB);
    at = round_up(*stubs + count_relocations(o) * STUB, PAGE);
    image->executable = at;
  }
  image->size = round_up(at, PAGE);
}

static bool load_sections(Object *o, CpuImage *image, uint64_t *stubs) {
  lay_out(o, image, stubs);
  void *map = mmap(NULL, image->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return fail(o, "out of memory");
  image->map = map;
  for (int i = 0; i < o->head->e_shnum; i++) {
    const Elf64_Shdr *s = &o->sections[i];
    if (!o->section_at[i]) continue;
    uint8_t *to = image->map + o->section_at[i] - 1;
    o->section_at[i] = (uint64_t)(uintptr_t)to;
    if (s->sh_type != SHT_NOBITS) memcpy(to, o->bytes + s->sh_offset, s->sh_size);
  }
  return true;
}

/* ---- relocating ---- */

static const void *function_called(const char *name) {
  typedef void Function(void);
  static const struct {
    const char *name;
    Function *at;
  } known[] = {
#define CPU_SYMBOL(name) {#name, (Function *)name},
#include "runtime/llvm/cpu_symbols.def"
  };
  for (size_t i = 0; i < WV_LEN(known); i++)
    if (strcmp(known[i].name, name) == 0) return *(void *const *)&known[i].at;
  return NULL;
}

static bool address_of(Object *o, const Elf64_Sym *s, CpuReloc *r) {
  r->outside = s->st_shndx == SHN_UNDEF;
  if (r->outside) {
    r->symbol = (uint64_t)(uintptr_t)function_called(name_of(o, s));
    if (r->symbol) return true;
    return fail(o, arena_printf(o->arena, "it calls `%s`, which is not provided", name_of(o, s)));
  }
  if (s->st_shndx == SHN_ABS) return r->symbol = s->st_value, true;
  if (s->st_shndx >= o->head->e_shnum || !o->section_at[s->st_shndx])
    return fail(o, "it refers to a section that is not loaded");
  r->symbol = o->section_at[s->st_shndx] + s->st_value;
  return true;
}

static bool relocate_section(Object *o, const Elf64_Shdr *s, uint64_t *stubs) {
  const Elf64_Rela *rows = (const Elf64_Rela *)(const void *)(o->bytes + s->sh_offset);
  for (size_t i = 0; i < s->sh_size / sizeof *rows; i++) {
    size_t symbol = ELF64_R_SYM(rows[i].r_info);
    CpuReloc r = {.kind = (unsigned)ELF64_R_TYPE(rows[i].r_info),
                  .addend = rows[i].r_addend,
                  .patch = o->section_at[s->sh_info] + rows[i].r_offset,
                  .stub = *stubs};
    if (symbol >= o->nsymbols || rows[i].r_offset >= o->sections[s->sh_info].sh_size)
      return fail(o, "a relocation is out of range");
    if (!address_of(o, &o->symbols[symbol], &r)) return false;
    if (!cpu_relocate(&r))
      return fail(o, arena_printf(o->arena, "it has an unsupported relocation type %u", r.kind));
    if (r.used_stub) *stubs += STUB;
  }
  return true;
}

/* Unwinding tables are not registered, so they are not needed. */
static bool is_unwinding(const Object *o, const Elf64_Shdr *s) {
  const Elf64_Shdr *text = &o->sections[o->head->e_shstrndx];
  const char *name = (const char *)o->bytes + text->sh_offset + s->sh_name;
  return s->sh_name < text->sh_size && strcmp(name, ".eh_frame") == 0;
}

static bool relocate(Object *o, uint64_t stubs) {
  for (int i = 0; i < o->head->e_shnum; i++) {
    const Elf64_Shdr *s = &o->sections[i];
    if (s->sh_type != SHT_RELA || s->sh_info >= o->head->e_shnum || !o->section_at[s->sh_info] ||
        is_unwinding(o, &o->sections[s->sh_info]))
      continue;
    if (!relocate_section(o, s, &stubs)) return false;
  }
  return true;
}

/* ---- the image ---- */

/* Exported definitions, by name. */
static void keep_symbols(const Object *o, CpuImage *image) {
  image->names = malloc(o->names_size + 1);
  image->symbols = calloc(o->nsymbols + 1, sizeof *image->symbols);
  if (!image->names || !image->symbols) landing_no_memory(o->names_size);
  memcpy(image->names, o->names, o->names_size);
  image->names[o->names_size] = '\0';
  for (size_t i = 0; i < o->nsymbols; i++) {
    const Elf64_Sym *s = &o->symbols[i];
    if (ELF64_ST_BIND(s->st_info) != STB_GLOBAL || s->st_shndx == SHN_UNDEF ||
        s->st_shndx >= o->head->e_shnum || !o->section_at[s->st_shndx])
      continue;
    void *at = (void *)(uintptr_t)(o->section_at[s->st_shndx] + s->st_value);
    if (ELF64_ST_TYPE(s->st_info) == STT_FUNC)
      cpu_perf_note(at, s->st_size, image->names + s->st_name);
    image->symbols[image->nsymbols++] = (NamedAddress){image->names + s->st_name, at};
  }
}

static bool make_executable(Object *o, CpuImage *image) {
  if (mprotect(image->map, image->executable, PROT_READ | PROT_EXEC) != 0)
    return fail(o, "the system does not allow executable memory");
  __builtin___clear_cache((char *)image->map, (char *)image->map + image->executable);
  return true;
}

static void unload(void *image) { cpu_object_unload(image); }

CpuImage *cpu_object_load(const void *bytes, size_t size, Arena *a, const char **error) {
  Object o = {.bytes = bytes, .size = size, .arena = a};
  CpuImage *image = calloc(1, sizeof *image);
  uint64_t stubs = 0;
  Held held;
  if (!image) landing_no_memory(sizeof *image);
  landing_hold(&held, unload, image);
  if (!is_aligned(&o, 0))
    o.bytes = arena_copy(a, bytes, size); /* it came from the middle of a
                                                                 * file */
  bool ok = read_object(&o);
  if (ok) o.section_at = ARENA_ARRAY(a, uint64_t, o.head->e_shnum);
  ok = ok && load_sections(&o, image, &stubs) &&
       relocate(&o, (uint64_t)(uintptr_t)image->map + stubs) && make_executable(&o, image);
  if (ok) {
    keep_symbols(&o, image);
    image->debug = cpu_debug_show(o.bytes, o.size, o.section_at);
    landing_let_go(&held);
    return image;
  }
  *error = arena_printf(a, "the object code cannot be loaded: %s", o.error);
  landing_let_go(&held);
  cpu_object_unload(image);
  return NULL;
}

void *cpu_object_symbol(const CpuImage *image, const char *name) {
  for (int i = 0; i < image->nsymbols; i++)
    if (strcmp(image->symbols[i].name, name) == 0) return image->symbols[i].at;
  return NULL;
}

void cpu_object_unload(CpuImage *image) {
  if (!image) return;
  cpu_debug_hide(image->debug);
  if (image->map) munmap(image->map, image->size);
  free(image->names);
  free(image->symbols);
  free(image);
}
