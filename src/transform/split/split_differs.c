/* split_differs.c: what differs between the workgroups that share a sum.
 *
 *     %x = read %a : tile<PART, M, N, f32>       differs: workgroups have other elements of PART
 *     %y = sum %x {dim = PART}                   so does what each of them has of the sum
 *     %s = sum %x {dim = PART, grid}             the same for all, unless what it begins with differs
 *     write %s, %c
 *
 * What follows the sum is done once, by one workgroup or a part by each, so it must not use what differs.
 * Values and memories differ if they are computed from such ones, or name the workgroup or the dimension. */
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "transform/split/split_build.h"
#include "transform/split/split_join.h"

typedef struct Differs {
  const Join *j;
  const Sym *rank;
  bool *values; /* by id; of memories: some element */
  bool changed;
} Differs;

static bool names_either(const void *user, const Sym *s) {
  const Differs *d = user;
  return sym_contains(s, d->rank) || sym_contains(s, d->j->dim);
}

/* The workgroup may have iterations of its own. */
static bool row_names_workgroup(const Differs *d, const Sym *dim) {
  const Constraint *row = kernel_constraint(d->j->k, CONSTRAINT_tile, dim_base(dim));
  return row && constraint_has_sym(d->j->k, row, (SymSearch){names_either, d, true});
}

static bool names_workgroup(const Differs *d, const Op *op) {
  if (op->kind == OP_for && row_names_workgroup(d, op_attr(op, ATTR_axis)->sym)) return true;
  if (op_has_sym(d->j->k, op, (SymSearch){names_either, d, true})) return true;
  for (int i = 0; i < op->nresults; i++) {
    const Type *t = op->results[i].type;
    if (type_has_dim(t, d->j->dim)) return true;
    for (int n = 0; n < t->rank; n++)
      if (row_names_workgroup(d, t->dims[n])) return true;
  }
  return false;
}

static void mark(Differs *d, const Value *v, bool differs) {
  if (!differs || d->values[v->id]) return;
  d->values[v->id] = d->changed = true;
}

/* What a body begins with, what it yields and the results are in the same order, at the end of each list. */
static void mark_carried(Differs *d, const Op *op, bool differs) {
  const Region *body = op->body;
  const Op *yield = body->last;
  for (int i = 1; i <= op->nresults; i++) {
    bool own = differs || d->values[yield->args[yield->nargs - i]->id];
    if (i <= op->nargs) own |= d->values[op->args[op->nargs - i]->id];
    mark(d, &op->results[op->nresults - i], own);
    if (i <= body->nargs) mark(d, body->args[body->nargs - i], own);
  }
}

/* A loop over tiles has as many iterations everywhere; others have operands that decide it. */
static void mark_op(Differs *d, const Op *op) {
  bool sum = op_has(op, ATTR_grid), loop = op->kind == OP_for;
  bool differs = !sum && names_workgroup(d, op);
  for (int i = sum; i < op->nargs && !loop; i++) differs |= d->values[op->args[i]->id];
  const Value *written = memory_written(op);
  if (written) mark(d, memory_root(written), differs);
  if (op->body) return mark_carried(d, op, differs);
  for (int i = 0; i < op->nresults; i++) mark(d, &op->results[i], differs);
}

static bool uses_difference(const Differs *d, const Op *op) {
  const Value *written = memory_written(op);
  for (int i = 0; i < op->nargs; i++)
    if (op->args[i] != written && d->values[op->args[i]->id]) return true;
  return false;
}

const Op *split_differs(const Join *j) {
  Differs d = {.j = j, .rank = split_rank(j->k, j->axis), .changed = true};
  d.values = ARENA_ARRAY(j->cx->scratch, bool, j->k->nvalues);
  while (d.changed) {
    d.changed = false;
    for (const Op *op = ir_first(j->k); op; op = ir_next(op)) mark_op(&d, op);
  }
  for (const Op *op = join_rest(j); op; op = ir_next(op))
    if (names_workgroup(&d, op) || uses_difference(&d, op)) return op;
  return NULL;
}
