/* compile_slots.c: the arguments of a kernel that LLVM compiled, as a launch passes them. */
#include "backend/llvm/llvm.h"
#include "driver/compile.h"

static ArtArgKind kind_of(LlvmSlotKind k) {
  static const ArtArgKind kinds[] = {[LLVM_POINTER] = ART_POINTER,
                                     [LLVM_SCALAR] = ART_SCALAR,
                                     [LLVM_VALUE] = ART_VALUE,
                                     [LLVM_MAGIC] = ART_MAGIC,
                                     [LLVM_SHIFT] = ART_SHIFT};
  return kinds[k];
}

bool compile_slots(const LlvmSlot *slots, int n, LaunchValues *values, ArtVariant *out) {
  if (n > ARTEFACT_ARGS) return false;
  out->args = ARENA_ARRAY(values->symbols->arena, ArtArg, n + 1);
  out->nargs = n;
  for (int i = 0; i < n; i++) {
    const LlvmSlot *s = &slots[i];
    out->args[i] = (ArtArg){.kind = kind_of(s->kind), .param = s->param, .bytes = s->bytes};
    if (s->kind == LLVM_POINTER && launch_is_workspace(values, s->param) &&
        !launch_add_workspace(values, s->param, out, &out->args[i]))
      return false;
    if (s->value && (out->args[i].value = launch_value(values, s->value)) < 0) return false;
  }
  return artefact_set_offsets(out);
}
