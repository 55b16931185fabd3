/* amd_image.c: see amd_image.h. */
#include "runtime/amd/amd_image.h"

#include <string.h>

#include "runtime/amd/amd_lines.h"

#include "target/target.h"

enum { IMAGE_MOST = 1 << 28, ALIGN = 4096 }; /* bytes; a segment's alignment */

static bool load_segments(AmdFile *f, AmdImage *out) {
  const Elf64_Ehdr *h = &f->head;
  uint64_t n = (uint64_t)h->e_phnum * sizeof(Elf64_Phdr), size = 0;
  const uint8_t *at = amd_file_at(f, h->e_phoff, n, "the segments");
  if (!at) return false;
  Elf64_Phdr *p = arena_copy(f->arena, at, n);
  for (int i = 0; i < h->e_phnum; i++) {
    if (p[i].p_type != PT_LOAD) continue;
    if (!amd_file_at(f, p[i].p_offset, p[i].p_filesz, "a segment")) return false;
    if (p[i].p_filesz > p[i].p_memsz || p[i].p_memsz > IMAGE_MOST || p[i].p_vaddr > IMAGE_MOST)
      return amd_file_fail(f, h->e_phoff, "segment %d is too large", i);
    if (p[i].p_vaddr + p[i].p_memsz > size) size = p[i].p_vaddr + p[i].p_memsz;
  }
  uint8_t *memory = arena_alloc(f->arena, size + ALIGN);
  memory += (ALIGN - (uintptr_t)memory % ALIGN) % ALIGN; /* code is aligned to 256 */
  for (int i = 0; i < h->e_phnum; i++)
    if (p[i].p_type == PT_LOAD)
      memcpy(memory + p[i].p_vaddr, f->bytes + p[i].p_offset, p[i].p_filesz);
  out->memory = memory, out->size = size;
  out->segments = p, out->nsegments = h->e_phnum;
  return true;
}

uint64_t amd_image_offset(const AmdImage *image, const uint8_t *at) {
  uint64_t address = (uint64_t)(at - image->memory);
  for (int i = 0; i < image->nsegments; i++) {
    const Elf64_Phdr *p = &image->segments[i];
    if (p->p_type == PT_LOAD && address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz)
      return p->p_offset + (address - p->p_vaddr);
  }
  return address;
}

/* Where each kernel's descriptor and function are, by the symbols. */
typedef struct Place {
  uint64_t descriptor, code, bytes;
} Place;

static const Elf64_Sym *find_symbol(const AmdFile *f, const char *name) {
  for (size_t i = 0; i < f->nsymbols; i++)
    if (strcmp(amd_symbol_name(f, &f->symbols[i]), name) == 0) return &f->symbols[i];
  return NULL;
}

/* Assemblers leave out sizes: the code then ends with its section. */
static uint64_t code_size(const AmdFile *f, const Elf64_Sym *s) {
  if (s->st_size || s->st_shndx >= f->nsections) return s->st_size;
  const Elf64_Shdr *in = &f->sections[s->st_shndx];
  uint64_t before = s->st_value - in->sh_addr;
  return before < in->sh_size ? in->sh_size - before : 0;
}

static bool find_places(AmdFile *f, AmdImage *out) {
  AmdKernelNote *kernels = (AmdKernelNote *)out->note.kernels;
  Place *places = ARENA_ARRAY(f->arena, Place, out->note.nkernels + 1);
  out->places = places;
  for (int i = 0; i < out->note.nkernels; i++) {
    const Elf64_Sym *d = find_symbol(f, kernels[i].symbol), *c = find_symbol(f, kernels[i].name);
    if (!d || !c)
      return amd_file_fail(f, f->head.e_shoff, "no symbol `%s`",
                           d ? kernels[i].name : kernels[i].symbol);
    places[i] = (Place){d->st_value, c->st_value, code_size(f, c)};
    if (d->st_value > out->size || out->size - d->st_value < 64 || d->st_value % 64)
      return amd_file_fail(f, d->st_value, "the descriptor of `%s` is not in memory",
                           kernels[i].name);
    if (c->st_value > out->size || out->size - c->st_value < places[i].bytes || c->st_value % 256)
      return amd_file_fail(f, c->st_value, "the code of `%s` is not in memory", kernels[i].name);
    if (c->st_size > f->size)
      return amd_file_fail(f, c->st_value, "the code of `%s` is larger than the file",
                           kernels[i].name);
  }
  return true;
}

static void find_lines(const AmdFile *f, AmdImage *out) {
  for (int i = 0; i < f->nsections; i++) {
    if (strcmp(amd_section_name(f, i), ".debug_line") != 0) continue;
    if (f->sections[i].sh_type != SHT_PROGBITS) continue; /* whose bytes were checked */
    out->lines = f->bytes + f->sections[i].sh_offset;
    out->lines_size = f->sections[i].sh_size;
  }
}

bool amd_image_load(Arena *a, const void *bytes, size_t size, AmdImage *out, const char **error) {
  AmdFile f;
  *out = (AmdImage){0};
  bool ok = amd_file_open(&f, a, bytes, size, ET_DYN) && load_segments(&f, out) &&
            amd_note_read(&f, &out->note) && find_places(&f, out);
  if (ok) find_lines(&f, out);
  if (ok && !(out->chip = amd_file_chip(&f)))
    ok = amd_file_fail(&f, offsetof(Elf64_Ehdr, e_flags), "compiled for an unknown chip");
  *error = f.error;
  return ok;
}

static uint32_t word(const uint8_t *at) {
  uint32_t v;
  memcpy(&v, at, sizeof v);
  return v;
}

enum {
  GROUP = 0, /* offsets in the descriptor */
  PRIVATE = 4,
  ENTRY = 16,
  RSRC3 = 44,
  RSRC1 = 48,
  RSRC2 = 52,
  PROPERTIES = 56,
  PROLOGUE = 256,
  PRIVATE_MOST = 1 << 18 /* bytes: more than a driver gives a lane */
};

/* The descriptor's entry is relative to itself. Preloaded arguments: execution starts after a
 * prologue of 256 bytes that loads them for firmware that does not. */
static void read_descriptor(const AmdImage *image, const Place *p, IsaImage *out) {
  const uint8_t *d = image->memory + p->descriptor;
  out->group_bytes = word(d + GROUP), out->private_bytes = word(d + PRIVATE);
  out->rsrc1 = word(d + RSRC1), out->rsrc2 = word(d + RSRC2), out->rsrc3 = word(d + RSRC3);
  out->properties = (uint16_t)word(d + PROPERTIES);
  out->preload = (uint16_t)(word(d + PROPERTIES) >> 16);
  uint64_t skip = out->preload ? PROLOGUE : 0;
  out->code = image->memory + p->code + skip;
  out->bytes = skip < p->bytes ? p->bytes - skip : 0;
}

/* What is wrong with a kernel; NULL: nothing. */
static const char *wrong_descriptor(Arena *a, const AmdImage *image, const Place *p,
                                    const IsaImage *k) {
  const uint8_t *at = image->memory + p->descriptor + ENTRY;
  uint64_t entry = word(at) | (uint64_t)word(at + 4) << 32;
  const TargetInfo *t = target_find(image->chip).machine;
  if (p->descriptor + entry != p->code || !k->bytes) return "names another entry";
  if (k->group_bytes > (uint32_t)t->shared_most)
    return arena_printf(a, "asks for %u bytes of LDS, of which %s has %d", k->group_bytes,
                        image->chip, t->shared_most);
  if (k->private_bytes > PRIVATE_MOST)
    return arena_printf(a, "asks for %u bytes of scratch memory for a lane", k->private_bytes);
  return NULL;
}

bool amd_image_kernel(Arena *a, const AmdImage *image, const char *name, IsaImage *out,
                      const char **error) {
  for (int i = 0; i < image->note.nkernels; i++) {
    if (strcmp(image->note.kernels[i].name, name) != 0) continue;
    *out = (IsaImage){.name = image->note.kernels[i].name, .chip = image->chip};
    const Place *p = &((const Place *)image->places)[i];
    read_descriptor(image, p, out);
    const char *wrong = wrong_descriptor(a, image, p, out);
    if (!wrong) {
      uint64_t address = (uint64_t)(out->code - image->memory);
      out->lines = amd_lines(a, image->lines, image->lines_size, address, out->bytes, &out->nlines);
      return true;
    }
    *error = arena_printf(a, "offset 0x%llx: the descriptor of `%s` %s",
                          (unsigned long long)p->descriptor, name, wrong);
    return false;
  }
  *error = arena_printf(a, "the code object has no kernel `%s`", name);
  return false;
}
