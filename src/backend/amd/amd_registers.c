/* amd_registers.c: how many vector registers of a lane the program needs at once, as it is written.
 *
 * A SIMD has 512 registers for each lane, and a wave may use all of them only if it is alone there.
 * LLVM before version 22 then expects to need the upper half, which only matrix instructions and
 * copies can access: it keeps accumulators there, and a program that scales its sums in a loop
 * copies all of them to the lower half and back in every iteration. */
#include "backend/amd/amd_state.h"
#include "ir/dtype.h"
#include "ir/region_facts.h"

/* SPARE: how far LLVM exceeded the number computed here, in attention and GEMMs, is at most 10. */
enum { LOWER_HALF = 256, SPARE = 16 };

/* Ops whose results are registers of their operands. */
static bool only_renames(const Op *op) {
  return op->kind == OP_pick || op->kind == OP_join || op->kind == OP_bitcast;
}

/* Conditions are in scalar registers. */
static int registers_of(const Value *v) {
  const Type *t = v->type;
  if (t->kind != TYPE_vec && t->kind != TYPE_scalar) return 0;
  if (v->def && only_renames(v->def)) return 0;
  int bits = dtype_info[t->dtype].bits, n = t->kind == TYPE_vec ? t->n : 1;
  if (v->def && v->def->kind == OP_splat) n = 1;
  return bits == 1 ? 0 : (n * bits + 31) / 32;
}

/* The last op that needs a value of region `home` because of this use: in the loops between them it
 * is needed again in the next iteration. */
static const Op *end_of_use(const Op *use, const Region *home) {
  const Op *end = use;
  for (const Region *r = use->parent; r != home && r->owner; r = r->owner->parent)
    if (op_is_loop(r->owner)) end = r->last;
  return end;
}

/* By value id: the number of the last op that needs it. Uses come after definitions, so going
 * backwards the last use of a new name is known when its op is reached. */
static int *last_uses(Arena *a, const Kernel *k) {
  const Op **ops = ARENA_ARRAY(a, const Op *, k->nops);
  int *last = ARENA_ARRAY(a, int, k->nvalues);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) ops[op->id] = op;
  for (int at = k->nops - 1; at >= 0; at--) {
    const Op *op = ops[at];
    for (int i = 0; op && i < op->nargs; i++) {
      const Value *v = op->args[i];
      int end = end_of_use(op, region_of_value(v))->id;
      if (only_renames(op) && last[op->results[0].id] > end) end = last[op->results[0].id];
      if (end > last[v->id]) last[v->id] = end;
    }
  }
  return last;
}

/* By op id: the change of the number of registers in front of the op. */
static int *changes(Arena *a, const Kernel *k) {
  int *last = last_uses(a, k), *change = ARENA_ARRAY(a, int, k->nops + 2);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    int results = op->nresults, carried = op->body ? op->body->nargs : 0;
    for (int i = 0; i < results + carried; i++) {
      const Value *v = i < results ? &op->results[i] : op->body->args[i - results];
      int from = op->body && i < results ? op->body->last->id : op->id;
      if (last[v->id] <= from) continue;
      change[from + 1] += registers_of(v);
      change[last[v->id] + 1] -= registers_of(v);
    }
  }
  return change;
}

static int most_registers(Arena *a, const Kernel *k) {
  const int *change = changes(a, k);
  int now = 0, most = 0;
  for (int i = 0; i < k->nops; i++) {
    now += change[i];
    if (now > most) most = now;
  }
  return most;
}

bool amd_fits_lower_half(Llvm *p) {
  bool multiplies = false;
  if (!target_has(p->amd->target, FEATURE_MFMA)) return false;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) multiplies |= op->kind == OP_wave_mma;
  return multiplies && most_registers(p->arena, p->k) <= LOWER_HALF - SPARE;
}
