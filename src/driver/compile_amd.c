/* compile_amd.c: one lane's program as object code for an AMD GPU. */
#include "backend/amd/amd.h"
#include "driver/compile.h"
#include "runtime/amd/amd_compile.h"
#include "runtime/amd/amd_object.h"

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

/* The text, and LLVM's output for it. */
static bool compile_text(Kernel *k, const TargetInfo *t, bool assembly, bool fast_math, Arena *a,
                         AmdKernel *code, LlvmCode *out) {
  const char *error = NULL;
  const AmdChip *chip = chip_named(t->name);
  const LlvmLibrary *l = amd_library_open(a, chip, &error);
  Diags *diags = &k->cx->diags;
  if (!l) return diag_add(diags, DIAG_E0901, k->at, "%s", error), false;
  AmdOptions options = {.llvm = l->version, .fast_math = fast_math};
  if (!amd_emit(k, t, &options, a, code)) return false;
  if (code->waits_all)
    diag_add(
        diags, DIAG_R0607, k->at,
        "LLVM %u waits for all loads to shared memory before it is read; version 22 waits only "
        "for those that it needs",
        l->version);
  if (amd_compile(l, a, code->text, chip, assembly, out, &error)) return true;
  diag_add(diags, DIAG_E0903, k->at, "`%s`: %s", k->name, error);
  return false;
}

bool compile_amd_object(Kernel *k, const TargetInfo *t, bool assembly, bool fast_math, Arena *a,
                        LlvmCode *out) {
  return compile_text(k, t, assembly, fast_math, a, &(AmdKernel){0}, out);
}

bool compile_amd_file(Kernel *k, const TargetInfo *t, bool fast_math, Arena *a, AmdCode *out) {
  LlvmCode object;
  const char *error = NULL;
  if (!compile_text(k, t, false, fast_math, a, &(AmdKernel){0}, &object)) return false;
  if (amd_object_link(a, object.bytes, object.size, out, &error)) return true;
  diag_add(&k->cx->diags, DIAG_E0903, k->at, "`%s`: %s", k->name, error);
  return false;
}

static bool fill_variant(const AmdKernel *code, LaunchValues *values, ArtVariant *out) {
  out->entry = code->entry;
  out->listing = code->text;
  out->shared = code->shared; /* it is part of the code object: a launch adds none */
  for (int i = 0; i < 3; i++) {
    int64_t threads;
    if (!sym_is_int(code->block[i], &threads)) return false;
    out->block[i] = (int)threads;
    if ((out->grid[i] = launch_value(values, code->grid[i])) < 0) return false;
  }
  return compile_slots(code->slots, code->nslots, values, out);
}

bool compile_amd(Kernel *k, const CompileOptions *o, LaunchValues *values, ArtVariant *out) {
  Arena *a = values->symbols->arena;
  Diags *diags = &k->cx->diags;
  const char *error = NULL;
  AmdKernel code;
  LlvmCode object;
  AmdCode linked;
  if (!compile_text(k, o->machine, false, o->fast_math, a, &code, &object)) return false;
  if (!amd_object_link(a, object.bytes, object.size, &linked, &error))
    return diag_add(diags, DIAG_E0903, k->at, "`%s`: %s", k->name, error), false;
  out->llvm_ms = (object.parse + object.optimise + object.emit) * 1e3;
  out->code = (const char *)linked.bytes;
  out->code_bytes = (int)linked.size;
  if (fill_variant(&code, values, out)) return true;
  if (!diags->errors)
    diag_add(diags, DIAG_E0601, k->at, "`%s` has more arguments than a launch supports", k->name);
  return false;
}

const char *compile_amd_key(Arena *a, const CompileOptions *o) {
  const char *error = NULL;
  const AmdChip *chip = chip_named(o->machine->name);
  const LlvmLibrary *l = chip ? amd_library_open(a, chip, &error) : NULL;
  return l ? arena_printf(a, "LLVM %u %s", l->version, chip->name) : "no LLVM";
}
