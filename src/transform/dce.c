/* dce: pure ops and regions whose results nobody uses disappear.
 *     %1 = add %0, %0                 (gone)
 *     write %0, %c          =>        write %0, %c
 * Walks backwards, so that a chain of dead ops goes in one sweep. A loop or conditional goes when
 * nothing in it has an effect; a while loop stays, since it may be meant to wait. A read is not
 * pure: it stays, because `copies` owns that decision. */
#include <string.h>

#include "transform/pass.h"

static bool has_uses(const Op *op, const int *uses) {
  for (int i = 0; i < op->nresults; i++)
    if (uses[op->results[i].id]) return true;
  return false;
}

static bool has_effects(const Op *op) {
  if (op_is_pure(op) || op->kind == OP_yield) return false;
  if (op->kind != OP_for && op->kind != OP_if) return true;
  for (const Op *inner = op->body->first; inner; inner = inner->next)
    if (has_effects(inner)) return true;
  return false;
}

static void forget_uses(const Op *op, int *uses) {
  for (int i = 0; i < op->nargs; i++) uses[op->args[i]->id]--;
  for (const Op *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    forget_uses(inner, uses);
}

static void sweep(Region *r, int *uses) {
  for (Op *op = r->last, *prev; op; op = prev) {
    prev = op->prev;
    if (op->kind != OP_yield && !has_uses(op, uses) && !has_effects(op)) {
      forget_uses(op, uses);
      ir_remove(op);
    } else if (op->body) {
      sweep(op->body, uses);
    }
  }
}

bool pass_dce(Kernel *k, PassCtx *cx) {
  int *uses = ARENA_ARRAY(cx->scratch, int, k->nvalues);
  memcpy(uses, cx->facts.uses, sizeof *uses * (size_t)k->nvalues);
  sweep(k->body, uses);
  return true;
}
