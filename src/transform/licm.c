/* licm: pure ops that do not depend on a loop move in front of it.
 *     for K carry %acc = %z {            %s = mul %a, %b
 *       %s = mul %a, %b           =>     for K carry %acc = %z {
 *       ...                                ...
 * Inner loops go first, so that an op can leave several. Nothing leaves a conditional: there it is
 * computed only when it is needed. Reads stay: whether memory changes in the loop is not known
 * here. */
#include "transform/pass.h"

static bool is_made_in(const Value *v, const Region *r) {
  return v->owner == r || (v->def && v->def->parent == r);
}

static bool is_invariant(const Kernel *k, const Op *op, const Region *body) {
  if (!op_is_pure(op) || !op_same_outside(k, op, body)) return false;
  for (int i = 0; i < op->nargs; i++)
    if (is_made_in(op->args[i], body)) return false;
  return true;
}

static bool is_loop(const Op *op) { return op && (op->kind == OP_for || op->kind == OP_while); }

static void hoist(const Kernel *k, Region *r) {
  for (Op *op = r->first; op; op = op->next)
    if (op->body) hoist(k, op->body);
  for (Op *op = r->first, *next; is_loop(r->owner) && op; op = next) {
    next = op->next;
    if (!is_invariant(k, op, r)) continue;
    ir_remove(op);
    ir_insert_before(r->owner, op);
  }
}

bool pass_licm(Kernel *k, PassCtx *cx) {
  (void)cx;
  hoist(k, k->body);
  return true;
}
