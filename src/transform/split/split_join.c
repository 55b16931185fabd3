/* split_join.c: see split_join.h. */
#include "transform/split/split_join.h"

#include "anchors/contract.h"
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "transform/split/split_build.h"
#include "transform/split/split_sums.h"

Op *join_rest(const Join *j) { return j->sums[j->n - 1]->next; }

double split_bytes(const Distribution *d, const Op *op, const Type *t) {
  Diags *diags = &d->k->cx->diags;
  Diag *before = diags->last;
  double elements = 1;
  for (int i = 0; i < t->rank; i++) {
    TileRange range;
    int64_t n = 0;
    if (!distribute_dim(d, op, t->dims[i], &range)) diags_cut(diags, before);
    else if (!sym_is_int(range.extent, &n)) n = 0;
    elements *= (double)n;
  }
  return elements * dtype_memory_bits(t->dtype) / 8;
}

/* ---- the sums ---- */

static void find_sums(Join *j) {
  int most = 0;
  for (const Op *op = ir_first(j->k); op; op = ir_next(op)) most += op_has(op, ATTR_grid);
  j->sums = ARENA_ARRAY(j->cx->scratch, Op *, most + 1);
  j->parts = ARENA_ARRAY(j->cx->scratch, Value *, most + 1);
  for (Op *op = ir_first(j->k); op; op = ir_next(op))
    if (op_has(op, ATTR_grid)) j->sums[j->n++] = op;
}

/* Whether an op gives the same earlier. */
static bool can_move(const Kernel *k, const Op *op) {
  if (op->kind != OP_read || op_has(op, ATTR_volatile))
    return op_is_pure(op) || op->kind == OP_alloc;
  return !memory_is_written(k, memory_root(op->args[0]));
}

/* What comes between the sums and does not need them goes before them; they then follow each other. False: one
 * needs another, or what comes between has effects: j->culprit. */
static bool gather_sums(Join *j) {
  bool *needs = ARENA_ARRAY(j->cx->scratch, bool, j->k->nvalues);
  needs[j->sums[0]->results[0].id] = true;
  int found = 1;
  for (Op *op = j->sums[0]->next, *next; op && found < j->n; op = next) {
    next = op->next;
    bool later = false, sum = op_has(op, ATTR_grid);
    for (int i = 0; i < op->nargs; i++) later |= needs[op->args[i]->id];
    if (later ? sum : !can_move(j->k, op)) return j->culprit = op, false;
    for (int i = 0; i < op->nresults; i++) needs[op->results[i].id] = later;
    if (later) continue;
    ir_remove(op);
    if (sum) ir_insert_after(j->sums[found - 1], op), found++;
    else ir_insert_before(j->sums[0], op);
  }
  return true;
}

static const char *obstacle_between(Join *j) {
  if (op_has(j->culprit, ATTR_grid)) {
    j->hint = "compute the other one in a kernel of its own";
    return "another depends on it";
  }
  j->hint = "write the sums below each other";
  return "another follows what cannot be moved";
}

/* A sum that is a number is computed as a tile of one element, which is then added up. */
static void widen_numbers(Join *j) {
  const Sym *one = NULL;
  for (int i = 0; i < j->n; i++) {
    Op *sum = j->sums[i];
    const Type *t = sum->args[0]->type;
    if (sum->results[0].type->kind != TYPE_scalar) continue;
    if (!one) one = split_dim(j->k, "split_number", sym_int(j->k->cx->sym, 1));
    const Sym *dims[] = {t->dims[0], one};
    const Type *wide = type_tile(j->k->cx, dims, 2, t->dtype);
    const Type *own = type_tile(j->k->cx, &one, 1, t->dtype);
    Op *x = ir_insert(j->k, sum, OP_broadcast, sum->at, sum->args, 1, wide);
    Op *all = ir_insert(j->k, sum, OP_sum, sum->at, &(Value *){&x->results[0]}, 1, own);
    op_set_attr(j->k, all, *op_attr(sum, ATTR_dim));
    op_set_attr(j->k, all, (Attr){.key = ATTR_grid});
    sum->args[0] = &all->results[0];
    op_drop_attr(sum, ATTR_grid);
    op_set_attr(j->k, sum, (Attr){.key = ATTR_dim, .sym = one});
    j->sums[i] = all;
  }
}

/* What a workgroup adds to a sum, without the dimension that the workgroups divide; before all sums. */
static Value *part_of(Join *j, const Op *sum) {
  Value *x = sum->args[0];
  const Type *t = x->type;
  const Sym *dims[IR_MAX_RANK];
  int rank = 0;
  if (x->def && x->def->kind == OP_broadcast && !type_has_dim(x->def->args[0]->type, j->dim) &&
      x->def->args[0]->type->rank == t->rank - 1)
    return x->def->args[0];
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] != j->dim) dims[rank++] = t->dims[i];
  const Type *type = type_tile(j->k->cx, dims, rank, t->dtype);
  return &ir_insert(j->k, j->sums[0], OP_squeeze, sum->at, &x, 1, type)->results[0];
}

/* ---- what prevents it ---- */

/* The user's: each workgroup gets the sum, and would add it. */
static const char *obstacle_in_rest(Join *j, bool divided) {
  for (const Op *op = join_rest(j); op && !divided; op = ir_next(op)) {
    if (!op_is_atomic(op) || op->kind == OP_report) continue;
    j->culprit = op;
    j->hint = "combine what each workgroup has atomically, without `grid`";
    return "an atomic follows it, which each of the workgroups would do";
  }
  j->culprit = divided ? NULL : access_reread(j->k);
  if (j->culprit) {
    j->hint = "read it before the sum";
    return "one of the workgroups may read what another one has written after it";
  }
  j->culprit = split_differs(j);
  if (!j->culprit) return NULL;
  j->hint = "move what follows, and differs between the workgroups, to a kernel of its own";
  return "what follows it differs between workgroups";
}

/* The row that divides the dimension, of one element for each workgroup. */
static const char *obstacle_in_row(Join *j) {
  const Constraint *row = kernel_constraint(j->k, CONSTRAINT_workgroup, j->dim);
  if (!row || row->workgroup.axis > 2 || row->workgroup.size != sym_int(j->k->cx->sym, 1) ||
      row->workgroup.start || row->workgroup.secondary) {
    j->hint = arena_printf(j->cx->scratch, "divide it by `WorkgroupConstraint(%s, 1, ...)`",
                           sym_text(j->cx->scratch, j->dim));
    return "no `workgroup` row divides the dimension by 1";
  }
  j->axis = row->workgroup.axis;
  EACH_ROW(j->k, workgroup, c)
    if (c->workgroup.axis > 2) return "the grid has more than three dimensions";
  if (j->d->explicit_grid) return "the kernel computes positions itself";
  if (j->d->has_versions) return "the kernel sets a symbol, as a `while` loop does";
  if (sym_is_int(j->d->count[j->axis], &j->workgroups)) return NULL;
  j->hint = arena_printf(j->cx->scratch, "give `%s` a number in `subs`",
                         sym_text(j->cx->scratch, j->dim));
  return "their number is not known";
}

static const char *obstacle(Join *j, bool divided) {
  const TargetInfo *t = j->cx->target;
  j->dim = op_attr(j->sums[0], ATTR_dim)->sym;
  const char *why = divided ? NULL : obstacle_in_row(j);
  if (why) return why;
  if (!divided && j->workgroups <= 1) return NULL;
  if (!gather_sums(j)) return obstacle_between(j);
  for (int i = 0; i < j->n; i++) {
    j->parts[i] = part_of(j, j->sums[i]);
    if (split_has_sum_type(j->parts[i])) continue;
    j->culprit = j->sums[i];
    j->hint = "cast the operand to f32, f64, i32 or i64";
    return "its operand is not a tile of f32, f64, i32 or i64";
  }
  if (!divided && t && (pass_machines(t) != PASS_LANES || t->lanes < 2))
    return "the machine has no waves";
  if (!divided && contract_of(j->d, j->cx->facts.uniform, j->cx->scratch).op)
    return "threads hold what the kernel declares";
  if (!divided && kernel_constraint(j->k, CONSTRAINT_persist, NULL) &&
      !distribute_is_off(j->d, CONSTRAINT_persist)) {
    j->hint = "leave out `persistent_workgroups`";
    return "workgroups compute several tiles";
  }
  return obstacle_in_rest(j, divided);
}

/* One workgroup has all of the dimension, or there is none. */
static bool leave_alone(const Join *j) {
  for (int i = 0; i < j->n; i++) op_drop_attr(j->sums[i], ATTR_grid);
  return true;
}

/* Nothing takes the operands of the sums any more. */
static bool drop_wide(const Join *j) {
  for (int i = 0; i < j->n; i++) {
    Op *wide = j->sums[i]->args[0]->def;
    if (wide && wide->kind == OP_broadcast && !value_is_used(j->k, &wide->results[0]))
      ir_remove(wide);
  }
  return true;
}

static bool report(const Join *j, const char *why) {
  Diags *diags = &j->k->cx->diags;
  Diag *d = diag_add(diags, DIAG_E0601, j->sums[0]->at,
                     "`sum` over the workgroups along `%s` is not supported here: %s",
                     sym_text(diags->arena, j->dim), why);
  if (j->culprit && j->culprit != j->sums[0])
    diag_note(diags, d, j->culprit->at, "at this `%s`", op_info[j->culprit->kind].name);
  return j->hint && diag_hint(diags, d, "%s", j->hint);
}

bool split_join(Kernel *k, PassCtx *cx, const Sym *dim, int axis, int64_t workgroups) {
  Join j = {.k = k, .cx = cx, .d = cx->facts.distribute, .axis = axis, .workgroups = workgroups};
  find_sums(&j);
  if (!j.n) return true;
  widen_numbers(&j);
  const char *why = obstacle(&j, dim != NULL);
  if (!why && j.workgroups <= 1) return leave_alone(&j);
  if (!why && split_by_cluster(&j)) return drop_wide(&j);
  if (!why && !(why = split_workspace_obstacle(&j))) return split_by_workspace(&j), drop_wide(&j);
  return report(&j, why);
}
