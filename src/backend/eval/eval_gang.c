/* eval_gang.c: workgroups that need each other's values.
 *
 *     barrier cluster                    all of a gang are here: each may write to the others' memory
 *     write %x, %s {peer = ...}
 *     barrier cluster
 *     %y = read %s
 *     %z = sum %y {dim = PART, grid}     each gets the sum of what all have
 *
 * All workgroups of a gang run the ops up to the next of these places, one workgroup after the other,
 * and then those that follow it. The places are in the body of the kernel, not in loops. */
#include <string.h>

#include "backend/eval/eval.h"
#include "ir/ops/access.h"

/* ---- what makes a gang ---- */

static bool is_grid_sum(const Op *op) { return op_has(op, ATTR_grid); }

static bool is_place(const Op *op) { return is_grid_sum(op) || op_is_barrier_of(op, "cluster"); }

static const Op *first_grid_sum(const Eval *ev) {
  for (const Op *op = ir_first(ev->k); op; op = ir_next(op))
    if (is_grid_sum(op)) return op;
  return NULL;
}

/* One workgroup runs what follows a sum after another. */
static bool can_read(Eval *ev) {
  const Op *read = access_reread(ev->k);
  if (!read) return true;
  ev->at = read->at;
  eval_fail(
      ev, DIAG_E0701,
      "one of the workgroups that share a sum may read what another one has written after it");
  return eval_hint(ev, "read it before the sum"), false;
}

bool gang_setup(Eval *ev) {
  const Op *sum = first_grid_sum(ev);
  const Constraint *row = NULL;
  ev->axis = kernel_split_axis(ev->k, &ev->ngang);
  if (sum) row = kernel_constraint(ev->k, CONSTRAINT_workgroup, op_attr(sum, ATTR_dim)->sym);
  if (row) ev->axis = row->workgroup.axis;
  if (ev->axis < 0 || ev->axis > 2) ev->ngang = 1;
  else ev->ngang = (int)ev->grid[ev->axis];
  if (sum && ev->ngang > 1 && !can_read(ev)) return false;
  ev->gang = ARENA_ARRAY(ev->home, Rank, ev->ngang);
  for (int i = 0; i < ev->ngang; i++) {
    ev->gang[i].values = ARENA_ARRAY(ev->home, Binding, ev->k->nvalues + STEP_ARGS);
    ev->gang[i].scratch = ARENA_ARRAY(ev->home, Memory *, ev->k->nops);
  }
  return true;
}

bool gang_begins(const Eval *ev, int64_t x, int64_t y, int64_t z) {
  const int64_t id[3] = {x, y, z};
  return id[ev->axis] == 0;
}

/* ---- running it ---- */

static void enter(Eval *ev, const Rank *r) {
  ev->values = r->values;
  ev->scratch = r->scratch;
  position_enter_group(ev, r->id[0], r->id[1], r->id[2]);
}

/* Symbols that ops set would not keep their values from one part to the next. */
static bool run_until(Eval *ev, const Rank *r, Op *first, const Op *end) {
  int mark = env_mark(ev);
  bool ok = true;
  enter(ev, r);
  for (Op *op = first; ok && op != end; op = op->next) {
    if (op->kind == OP_set_symbol && end)
      return eval_fail(ev, DIAG_E0701, "a symbol is set before workgroups exchange values");
    ok = eval_op(ev, op);
  }
  env_rewind(ev, mark);
  return ok;
}

static bool sum_up(Eval *ev, Op *op) {
  Tile *sum = NULL;
  int mark = env_mark(ev);
  bool ok = true;
  for (int i = 0; ok && i < ev->ngang; i++) {
    enter(ev, &ev->gang[i]);
    ok = reduce_rows(ev, op, &sum);
    env_rewind(ev, mark);
  }
  for (int i = 0; ok && i < ev->ngang; i++) {
    Tile *own = tile_new(ev, sum->dtype, &sum->box);
    size_t n = (size_t)box_count(&sum->box);
    if (own->f) memcpy(own->f, sum->f, n * sizeof *own->f);
    else memcpy(own->i, sum->i, n * sizeof *own->i);
    enter(ev, &ev->gang[i]);
    ok = reduce_finish(ev, op, own);
    env_rewind(ev, mark);
  }
  return ok;
}

bool gang_run(Eval *ev, int64_t x, int64_t y, int64_t z) {
  Binding *values = ev->values;
  bool ok = true;
  arena_reset(ev->group);
  ev->arena = ev->group;
  for (int i = 0; i < ev->ngang; i++) {
    Rank *r = &ev->gang[i];
    r->id[0] = x, r->id[1] = y, r->id[2] = z;
    r->id[ev->axis] = i;
    memcpy(r->values, values, sizeof *values * (size_t)(ev->k->nvalues + STEP_ARGS));
    memset(r->scratch, 0, sizeof *r->scratch * (size_t)ev->k->nops);
  }
  for (Op *first = ev->k->body->first, *end; ok && first; first = end ? end->next : NULL) {
    for (end = first; end && !is_place(end);) end = end->next;
    for (int i = 0; ok && i < ev->ngang; i++) ok = run_until(ev, &ev->gang[i], first, end);
    if (ok && end && is_grid_sum(end)) ok = sum_up(ev, end);
  }
  ev->values = values;
  return ok;
}

bool gang_write(Eval *ev, const Access *a, const Tile *value) {
  const Op *alloc = a->op->args[1]->def;
  const int64_t *offsets = access_offsets(ev, a), n = box_count(&value->box);
  const int64_t *peer = access_values(ev, a, op_attr(a->op, ATTR_peer)->sym);
  int64_t *own = ARENA_ARRAY(ev->arena, int64_t, n);
  if (!offsets || !peer) return false;
  for (int i = 0; i < ev->ngang; i++) {
    Memory *m = alloc ? ev->gang[i].scratch[alloc->id] : NULL;
    if (!m)
      return eval_fail(ev, DIAG_E0704,
                       "no barrier is between the start of a workgroup and this write");
    for (int64_t e = 0; e < n; e++) own[e] = peer[e] == i ? offsets[e] : EVAL_INACTIVE;
    if (!memory_write(ev, m, own, value)) return false;
  }
  for (int64_t e = 0; e < n; e++)
    if (offsets[e] != EVAL_INACTIVE && (peer[e] < 0 || peer[e] >= ev->ngang))
      return eval_fail(ev, DIAG_E0703, "an element is sent to workgroup %lld of a cluster of %d",
                       (long long)peer[e], ev->ngang);
  return true;
}
