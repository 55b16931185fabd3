/* equal.c: structural equality of kernels, ignoring names and source locations. Values correspond
 * if they are defined at the same point of the walk. */
#include "ir/attr.h"

typedef struct Pairing {
  const Value **of; /* by id in the first kernel: the value of the second */
} Pairing;

static bool same_values(const Pairing *p, Value *const *a, Value *const *b, int n) {
  for (int i = 0; i < n; i++)
    if (p->of[a[i]->id] != b[i]) return false;
  return true;
}

static bool pair_value(Pairing *p, const Value *a, const Value *b) {
  p->of[a->id] = b;
  if (a->type != b->type || a->varying != b->varying || !a->layout != !b->layout) return false;
  return !a->layout || layout_equal(a->layout, b->layout);
}

static bool same_region(Pairing *p, const Region *a, const Region *b);

static bool same_op(Pairing *p, const Op *a, const Op *b) {
  if (a->kind != b->kind || a->nargs != b->nargs || a->nresults != b->nresults) return false;
  if (a->nattrs != b->nattrs || !a->body != !b->body) return false;
  if (!same_values(p, a->args, b->args, a->nargs)) return false;
  for (int i = 0; i < a->nattrs; i++)
    if (!attr_equal(&a->attrs[i], &b->attrs[i])) return false;
  for (int i = 0; i < a->nresults; i++)
    if (!pair_value(p, &a->results[i], &b->results[i])) return false;
  return !a->body || same_region(p, a->body, b->body);
}

static bool same_region(Pairing *p, const Region *a, const Region *b) {
  if (a->nargs != b->nargs) return false;
  for (int i = 0; i < a->nargs; i++)
    if (!pair_value(p, a->args[i], b->args[i])) return false;
  const Op *x = a->first, *y = b->first;
  for (; x && y; x = x->next, y = y->next)
    if (!same_op(p, x, y)) return false;
  return !x && !y;
}

static bool same_header(const Kernel *a, const Kernel *b) {
  if (a->name != b->name || a->level != b->level || a->params.n != b->params.n) return false;
  if (a->constraints.n != b->constraints.n) return false;
  for (int i = 0; i < a->params.n; i++)
    if (a->params.at[i].name != b->params.at[i].name ||
        a->params.at[i].binds != b->params.at[i].binds ||
        a->params.at[i].log != b->params.at[i].log ||
        a->params.at[i].workspace != b->params.at[i].workspace ||
        a->params.at[i].undefined != b->params.at[i].undefined ||
        a->params.at[i].report != b->params.at[i].report)
      return false;
  for (int i = 0; i < a->constraints.n; i++)
    if (!constraint_equal(&a->constraints.at[i], &b->constraints.at[i])) return false;
  return true;
}

bool ir_equal(const Kernel *a, const Kernel *b) {
  if (a->cx != b->cx || !same_header(a, b)) return false;
  Arena *scratch = arena_new();
  Pairing p = {ARENA_ARRAY(scratch, const Value *, a->nvalues)};
  bool same = same_region(&p, a->body, b->body);
  arena_free(scratch);
  return same;
}
