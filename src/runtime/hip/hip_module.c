/* hip_module.c: a code object becomes code on a device. HIP does not copy the image and takes its
 * size from the image's own headers: a copy is kept until the code is unloaded, and headers that
 * point past its end are rejected here. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/hip/hip_driver.h"
#include "target/target.h"

enum { MACHINE_AMDGPU = 224, MACHINE_CHIP = 0xff /* of the flags */ };

/* What is wrong with an image; NULL: nothing that HIP would not notice itself. */
static const char *image_fault(const char *image, size_t bytes) {
  Elf64_Ehdr e;
  if (bytes < sizeof e) return "it is shorter than an ELF header";
  memcpy(&e, image, sizeof e);
  if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64)
    return "it is not a 64-bit ELF file";
  if (e.e_machine != MACHINE_AMDGPU) return "it is not for an AMD GPU";
  if (e.e_shoff > bytes || e.e_shentsize != sizeof(Elf64_Shdr) ||
      (size_t)e.e_shnum * e.e_shentsize > bytes - e.e_shoff)
    return "its section headers are outside the file";
  for (size_t i = 0; i < e.e_shnum; i++) {
    Elf64_Shdr s;
    memcpy(&s, image + e.e_shoff + i * sizeof s, sizeof s);
    if (s.sh_type != SHT_NOBITS && (s.sh_offset > bytes || s.sh_size > bytes - s.sh_offset))
      return "a section is outside the file";
  }
  return NULL;
}

static bool refuse_image(const char *fault, const DeviceReport *r) {
  Diag *d = diag_add(r->diags, DIAG_E0903, r->at, "the code object of `%s` is damaged: %s",
                     r->kernel, fault);
  diag_hint(r->diags, d, "compile the kernel again; `wavec cache clear` removes cached ones");
  return false;
}

/* The chip of a code object; NULL: not in the table. */
static const AmdChip *chip_of(const char *image) {
  Elf64_Ehdr e;
  memcpy(&e, image, sizeof e);
  return chip_numbered(e.e_flags & MACHINE_CHIP);
}

static bool refuse(Gpu *g, int error, const ArtVariant *v, int index, const DeviceReport *r) {
  const char *name, *text;
  const AmdChip *compiled = chip_of(v->code);
  char chip[HIP_CHIP_BYTES];
  g->vendor->describe(g, error, &name, &text);
  Diag *d = diag_add(r->diags, DIAG_E0903, r->at, "the driver rejects `%s`: %s (%s)", r->kernel,
                     text ? text : "unknown error", name ? name : "?");
  if (error == GPU_NOT_FOUND)
    diag_note(r->diags, d, (Span){0}, "the code object contains no kernel `%s`", v->entry);
  if (hip_chip(hip_state(g), index, chip) != GPU_OK) return false;
  diag_note(r->diags, d, (Span){0}, "the code is for `%s`, and the device is `%s`",
            compiled ? compiled->name : "an unknown chip", chip);
  if (error == GPU_NO_BINARY)
    diag_hint(r->diags, d,
              "it was compiled for another device: compile it for this device's target");
  return false;
}

static void *copy_of(const char *image, size_t bytes) {
  void *copy = malloc(bytes);
  if (!copy) landing_no_memory(bytes);
  return memcpy(copy, image, bytes);
}

/* The shared memory of a code object is in its descriptor: a launch adds none. */
bool hip_load(Gpu *g, const ArtVariant *v, DeviceCode *out, const DeviceReport *r) {
  const char *fault = image_fault(v->code, (size_t)v->code_bytes);
  if (fault) return refuse_image(fault, r);
  out->shared = 0;
  out->image = copy_of(v->code, (size_t)v->code_bytes);
  int error = hip_state(g)->f.module_load(&out->module, out->image);
  if (!error) error = g->call.function(&out->function, out->module, v->entry);
  if (error) return refuse(g, error, v, out->device, r);
  gpu_remark_spills(g, out, r);
  return true;
}
