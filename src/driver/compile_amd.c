/* compile_amd.c: one lane's program as object code for an AMD GPU. */
#include "backend/amd/amd.h"
#include "driver/compile.h"
#include "runtime/amd/amd_compile.h"

/* A version of LLVM whose dialect all newer ones accept, for text that is only looked at. */
enum { ORDINARY_LLVM = 19 };

bool compile_amd_text(Kernel *k, const TargetInfo *t, bool fast_math, Arena *a, const char **text) {
  const char *error = NULL;
  const AmdChip *chip = chip_named(t->name);
  const LlvmLibrary *l = chip ? amd_library_open(a, chip, &error) : NULL;
  AmdKernel code;
  AmdOptions options = {.llvm = l ? l->version : ORDINARY_LLVM, .fast_math = fast_math};
  if (!amd_emit(k, t, &options, a, &code)) return false;
  *text = code.text;
  return true;
}

bool compile_amd_object(Kernel *k, const TargetInfo *t, bool assembly, bool fast_math, Arena *a,
                        LlvmCode *out) {
  const char *error = NULL;
  const AmdChip *chip = chip_named(t->name);
  const LlvmLibrary *l = amd_library_open(a, chip, &error);
  Diags *diags = &k->cx->diags;
  AmdKernel code;
  if (!l) return diag_add(diags, DIAG_E0901, k->at, "%s", error), false;
  AmdOptions options = {.llvm = l->version, .fast_math = fast_math};
  if (!amd_emit(k, t, &options, a, &code)) return false;
  if (amd_compile(l, a, code.text, chip, assembly, out, &error)) return true;
  diag_add(diags, DIAG_E0903, k->at, "`%s`: %s", k->name, error);
  return false;
}
