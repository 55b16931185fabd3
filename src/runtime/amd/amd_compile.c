/* amd_compile.c: see amd_compile.h. */
#include "runtime/amd/amd_compile.h"

#include <elf.h>
#include <string.h>

const LlvmLibrary *amd_library_open(Arena *a, const AmdChip *chip, const char **error) {
  const char *user = arena_printf(a, "compiling for %s needs", chip->name);
  const LlvmLibrary *l = llvm_library_open(a, user, chip->llvm, error);
  if (!l) return NULL;
  if (!l->amdgpu)
    *error = arena_printf(a,
                          "%s was built without AMDGPU, which %s needs (`apt-get install "
                          "libllvm19`, or set WAVE_LLVM=/path/libLLVM.so)",
                          l->path, chip->name);
  else if (l->version < chip->llvm)
    *error = arena_printf(a,
                          "%s is version %u, and %s needs libLLVM %u or newer (`apt-get install "
                          "libllvm22`, or set WAVE_LLVM=/path/libLLVM.so)",
                          l->path, l->version, chip->name, chip->llvm);
  else return l;
  return NULL;
}

LlvmTarget amd_target(const AmdChip *chip) {
  /* gfx10 and later: a workgroup runs on one compute unit, so that its waves share a cache. Barriers
   * do not wait for loads: the feature that says so is newer than LLVM 19 for these chips. */
  bool rdna = strncmp(chip->name, "gfx1", 4) == 0;
  const char *words = rdna ? "+cumode,+back-off-barrier" : "";
  return (LlvmTarget){{"amdgcn-amd-amdhsa", words, 0}, chip->name};
}

/* ---- checks ---- */

typedef struct Object {
  const char *bytes;
  size_t n;
} Object;

static const Elf64_Shdr *section_at(const Object *o, int i) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)o->bytes;
  return (const Elf64_Shdr *)(o->bytes + head->e_shoff) + i;
}

/* An intrinsic that this LLVM does not know is a call of a function that does not exist. */
static const char *undefined_symbol(const Object *o) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)o->bytes;
  for (int i = 0; i < head->e_shnum; i++) {
    const Elf64_Shdr *s = section_at(o, i);
    if (s->sh_type != SHT_SYMTAB) continue;
    const Elf64_Sym *all = (const Elf64_Sym *)(o->bytes + s->sh_offset);
    const char *names = o->bytes + section_at(o, (int)s->sh_link)->sh_offset;
    for (size_t e = 1; e < s->sh_size / sizeof *all; e++)
      if (all[e].st_shndx == SHN_UNDEF) return names + all[e].st_name;
  }
  return NULL;
}

/* The number of the chip for which LLVM compiled. */
static unsigned chip_number(const Object *o) {
  enum { MACH = 0xff };
  return ((const Elf64_Ehdr *)o->bytes)->e_flags & MACH;
}

bool amd_compile(const LlvmLibrary *l, Arena *a, const char *ir, const AmdChip *chip, bool assembly,
                 LlvmCode *out, const char **error) {
  /* Shorter pipelines leave copies of accumulators in loops. */
  /* The highest level looks for equal values twice more: none of the loops of bench/NOTES.md has an
   * instruction less. */
  LlvmCompile o = {.target = amd_target(chip),
                   .passes = "default<O1>",
                   .effort = LLVM_USUAL_EFFORT,
                   .assembly = assembly};
  if (!llvm_compile(l, a, ir, &o, out, error)) return false;
  if (assembly) return true;
  Object object = {out->bytes, out->size};
  const char *missing = undefined_symbol(&object);
  if (!missing && chip_number(&object) == chip->elf) return true;
  *error = missing ? arena_printf(a, "LLVM %u: `%s` is not defined", l->version, missing)
                   : arena_printf(a, "LLVM %u compiled for another chip than %s (number 0x%x)",
                                  l->version, chip->name, chip_number(&object));
  return false;
}
