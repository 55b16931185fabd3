/* amd_registers.c: how many vector registers of a lane the program needs at once, as it is written.
 *
 * A SIMD has 512 registers for each lane, and a wave may use all of them only if it is alone there.
 * LLVM before version 22 then expects to need the upper half, which only matrix instructions and
 * copies can access: it keeps accumulators there, and a program that scales its sums in a loop
 * copies all of them to the lower half and back in every iteration.
 *
 * LLVM 22 uses the upper half only for what does not fit in the lower one, and decides that after it
 * has put instructions in an order that needs more registers than necessary: a GEMM with 256 sums of
 * a lane copied up to 460 registers in an iteration. In the order that needs the fewest registers it
 * copies none. */
#include "backend/amd/amd_state.h"
#include "ir/ops/live.h"

/* SPARE: how far LLVM exceeded the number computed here, in attention and GEMMs, is at most 10. */
enum { SPARE = 16 };

static int most_registers(Arena *a, const Kernel *k) {
  const int *live = live_at_ops(a, k);
  int most = 0;
  for (int i = 0; i < k->nops; i++)
    if (live[i] > most) most = live[i];
  return most;
}

static bool multiplies(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_wave_mma) return true;
  return false;
}

/* Loops do nothing with their products but add them up. */
static bool only_accumulates(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (!op->parent->owner || op->kind == OP_wave_mma || op->kind == OP_yield) continue;
    for (int i = 0; i < op->nargs; i++)
      if (op->args[i]->def && op->args[i]->def->kind == OP_wave_mma) return false;
  }
  return true;
}

AmdHalves amd_halves(Llvm *p) {
  const TargetInfo *t = p->amd->target;
  if (!target_has(t, FEATURE_MFMA) || !multiplies(p->k)) return AMD_ANY_HALF;
  int most = most_registers(p->arena, p->k), near = target_near_registers(t);
  if (most <= near - SPARE) return AMD_LOWER_HALF;
  return most > near && only_accumulates(p->k) ? AMD_BOTH_HALVES : AMD_ANY_HALF;
}
