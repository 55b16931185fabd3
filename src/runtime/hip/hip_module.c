/* hip_module.c: a code object becomes code on a device. HIP does not copy the image and takes its
 * size from the image's own headers: a copy is kept until the code is unloaded, and a damaged image,
 * or one whose arguments are not those of the launch, is rejected here. */
#include <stdlib.h>
#include <string.h>

#include "runtime/amd/amd_note.h"
#include "runtime/hip/hip_driver.h"
#include "target/target.h"

static bool refuse_image(const char *fault, const DeviceReport *r) {
  Diag *d = diag_add(r->diags, DIAG_E0903, r->at, "the code object of `%s` is damaged: %s",
                     r->kernel, fault);
  return diag_hint(r->diags, d,
                   "compile the kernel again; `wavec cache clear` removes cached ones");
}

/* HIP takes the end of the image from its sections, of any type, and copies its segments. */
static bool check_ends(AmdFile *f) {
  for (int i = 0; i < f->nsections; i++) {
    const Elf64_Shdr *s = &f->sections[i];
    uint64_t n = s->sh_type == SHT_NOBITS ? 0 : s->sh_size;
    if (!amd_file_at(f, s->sh_offset, n, "a section")) return false;
  }
  uint64_t n = f->head.e_phnum;
  if (n && f->head.e_phentsize != sizeof(Elf64_Phdr))
    return amd_file_fail(f, offsetof(Elf64_Ehdr, e_phentsize), "program headers of %u bytes",
                         f->head.e_phentsize);
  const uint8_t *at = amd_file_at(f, f->head.e_phoff, n * sizeof(Elf64_Phdr), "program headers");
  for (uint64_t i = 0; at && i < n; i++) {
    Elf64_Phdr p;
    memcpy(&p, at + i * sizeof p, sizeof p);
    if (!amd_file_at(f, p.p_offset, p.p_filesz, "a segment")) return false;
  }
  return at != NULL;
}

/* ---- against the note ---- */

static bool is_hidden(const AmdArg *a) { return a->kind && strncmp(a->kind, "hidden_", 7) == 0; }

/* What a launch passes is what the code reads. */
static bool check_args(Arena *a, const ArtVariant *v, const AmdKernelNote *k,
                       const DeviceReport *r) {
  int n = k->nargs;
  while (n > 0 && is_hidden(&k->args[n - 1])) n--;
  if (n != v->nargs)
    return refuse_image(arena_printf(a, "it has %d arguments, expected %d", n, v->nargs), r);
  for (int i = 0; i < n; i++) {
    const AmdArg *has = &k->args[i];
    const ArtArg *passed = &v->args[i];
    if ((int)has->offset != passed->offset || (int)has->size != passed->bytes)
      return refuse_image(arena_printf(a,
                                       "argument %d has %u bytes at offset %u, expected %d at %d",
                                       i, has->size, has->offset, passed->bytes, passed->offset),
                          r);
  }
  return true;
}

static bool check_kernel(AmdFile *f, const ArtVariant *v, const DeviceReport *r) {
  AmdNote note;
  if (!amd_note_read(f, &note)) return refuse_image(f->error, r);
  const AmdKernelNote *k = amd_note_find(&note, v->entry);
  if (!k) return refuse_image(arena_printf(f->arena, "it contains no kernel `%s`", v->entry), r);
  int threads = v->block[0] * v->block[1] * v->block[2];
  if (threads > (int)k->threads)
    return refuse_image(arena_printf(f->arena, "its workgroups have at most %u threads, not %d",
                                     k->threads, threads),
                        r);
  return check_args(f->arena, v, k, r);
}

/* ---- loading ---- */

/* What code to compile for a device. */
static void hint_chip(Diags *diags, Diag *d, const char *device) {
  const char *name = arena_printf(diags->arena, "%.*s", (int)strcspn(device, ":"), device);
  if (chip_named(name))
    diag_hint(diags, d, "it was compiled for another chip: compile it for target `%s`", name);
  else diag_hint(diags, d, "no code is generated for `%s`", name);
}

static bool refuse(Gpu *g, int error, const AmdFile *f, int index, const DeviceReport *r) {
  const char *name, *text, *compiled = amd_file_chip(f);
  char chip[HIP_CHIP_BYTES];
  g->vendor->describe(g, error, &name, &text);
  Diag *d = diag_add(r->diags, DIAG_E0903, r->at, "the driver rejects `%s`: %s (%s)", r->kernel,
                     text ? text : "unknown error", name ? name : "?");
  if (hip_chip(hip_state(g), index, chip) != GPU_OK) return false;
  diag_note(r->diags, d, (Span){0}, "the code is for `%s`, and the device is `%s`",
            compiled ? compiled : "an unknown chip", chip);
  if (error == GPU_NO_BINARY) hint_chip(r->diags, d, chip);
  return false;
}

static void *copy_of(const char *image, size_t bytes) {
  void *copy = malloc(bytes);
  if (!copy) landing_no_memory(bytes);
  return memcpy(copy, image, bytes);
}

static bool load_file(Gpu *g, AmdFile *f, const ArtVariant *v, DeviceCode *out,
                      const DeviceReport *r) {
  if (!check_kernel(f, v, r)) return false;
  out->image = copy_of(v->code, (size_t)v->code_bytes);
  int error = hip_state(g)->f.module_load(&out->module, out->image);
  if (!error) error = g->call.function(&out->function, out->module, v->entry);
  if (error) return refuse(g, error, f, out->device, r);
  gpu_remark_spills(g, out, r);
  return true;
}

/* The shared memory of a code object is in its descriptor: a launch adds none. */
bool hip_load(Gpu *g, const ArtVariant *v, DeviceCode *out, const DeviceReport *r) {
  Arena *a = arena_new();
  AmdFile f;
  bool ok = amd_file_open(&f, a, v->code, (size_t)v->code_bytes, ET_DYN) && check_ends(&f)
                ? load_file(g, &f, v, out, r)
                : refuse_image(f.error, r);
  out->shared = 0;
  arena_free(a);
  return ok;
}
