/* split_sums.c: see split_sums.h. */
#include "transform/split/split_sums.h"

#include "anchors/contract.h"
#include "ir/attr.h"
#include "ir/region_facts.h"
#include "target/units/units.h"

enum {
  GRID_DIMS = 3,
  /* H200, 25 GEMMs whose tiles 2, 4 and 8 workgroups share: within 2 us of what they took longer. */
  WAITS = 3,      /* for memory: what was written, the counter, what is read */
  LANES_TIMES = 3 /* as long as L2 needs: lanes write and read pairs of neighbours */
};

/* ---- sums ---- */

/* Whether `v` is `carried` plus what the body of the loop adds to it. No other op may see the sum on
 * its way, so nothing that is added depends on a carried value. */
static bool adds_to(const Region *body, const Value *v, const Value *carried) {
  if (ir_count_uses(body, v) != 1) return false;
  if (v == carried) return true;
  const Op *op = v->def;
  if (!op || op->parent != body) return false;
  if (op_is_product(op)) return adds_to(body, op->args[product_acc(op)], carried);
  if (op->kind == OP_sum) return op->nargs == 2 && adds_to(body, op->args[1], carried);
  return op->kind == OP_add &&
         (adds_to(body, op->args[0], carried) || adds_to(body, op->args[1], carried));
}

bool split_has_sum_type(const Value *v) {
  DType t = v->type->dtype;
  if (v->type->kind != TYPE_tile || v->type->rank == IR_MAX_RANK || v->varying) return false;
  for (int i = 0; i < v->type->rank; i++)
    if (dim_base(v->type->dims[i]) != v->type->dims[i]) return false;
  return t == DTYPE_f32 || t == DTYPE_f64 || t == DTYPE_i32 || t == DTYPE_i64;
}

static const char *obstacle_in_sums(const Op *loop) {
  const Region *body = loop->body;
  if (!body->nargs) return "its loop carries nothing";
  for (int i = 0; i < body->nargs; i++) {
    if (!split_has_sum_type(body->args[i]))
      return "its loop carries a value that is not a tile of 32 or 64 bits";
    if (!adds_to(body, body->last->args[i], body->args[i]))
      return "its loop carries a value that is not a sum";
  }
  return NULL;
}

/* ---- other effects ---- */

static const char *obstacle_in_ops(const Kernel *k, const Op *loop) {
  const unsigned effects = OPF_WRITES | OPF_SYNC | OPF_REGION;
  bool is_before = true;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    unsigned flags = op_info[op->kind].flags;
    bool inside = op != loop && op_is_inside(op, loop);
    if (op_has(op, ATTR_volatile)) return "its workgroups wait for others";
    if (op == loop) is_before = false;
    else if (inside && (flags & effects)) return "its loop does more than add";
    else if (is_before && (flags & effects)) return "it does more than read before its loop";
  }
  return loop->next ? NULL : "nothing follows its loop";
}

static bool has_dim(const Type *t, const Sym *dim) {
  for (int i = 0; i < t->rank; i++)
    if (dim_base(t->dims[i]) == dim) return true;
  return false;
}

static bool is_tile_of(const Value *v, const Sym *dim) {
  return v->type->kind == TYPE_tile && has_dim(v->type, dim);
}

/* Outside of the loop, its dimension would be cut as well. */
static bool is_dim_elsewhere(const Kernel *k, const Op *loop, const Sym *dim) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (op != loop && op_is_inside(op, loop)) continue;
    for (int i = 0; i < op->nargs; i++)
      if (is_tile_of(op->args[i], dim)) return true;
    for (int i = 0; i < op->nresults; i++)
      if (is_tile_of(&op->results[i], dim)) return true;
  }
  return false;
}

/* ---- symbols that change their meaning ---- */

static bool is_in(const void *symbol, const Sym *s) { return sym_contains(s, symbol); }

static bool is_named(Kernel *k, const Sym *symbol) {
  return kernel_has_sym(k, (SymSearch){is_in, symbol, true});
}

/* ---- the grid ---- */

static bool is_free(const Kernel *k, int axis) {
  EACH_ROW(k, workgroup, c)
    if (c->workgroup.axis == axis || c->workgroup.axis >= GRID_DIMS) return false;
  EACH_ROW(k, reorder, c)
    if (c->reorder.axis == axis) return false;
  return true;
}

/* The first dimension of the grid that no row uses: parts with the same number are then neighbours. */
static int free_axis(Kernel *k) {
  int axis = 0;
  while (axis < GRID_DIMS && !is_free(k, axis)) axis++;
  bool taken = axis == GRID_DIMS || is_named(k, ir_numbered_symbol(k->cx, "$WG", axis, true)) ||
               is_named(k, ir_numbered_symbol(k->cx, "$WG", axis, false));
  return taken ? -1 : axis;
}

/* Whether workgroups have tiles of each carried value of their own. */
static bool are_tiles_apart(const Distribution *d, const Op *loop) {
  EACH_ROW(d->k, workgroup, c) {
    if (c->workgroup.secondary || d->count[c->workgroup.axis] == sym_int(d->k->cx->sym, 1))
      continue;
    if (c->workgroup.start) return false;
    for (int i = 0; i < loop->body->nargs; i++)
      if (!has_dim(loop->body->args[i]->type, c->workgroup.dim)) return false;
  }
  return true;
}

/* ---- all of it ---- */

static const char *obstacle_in_header(const Distribution *d) {
  const HardwareSpec *hardware = kernel_hardware(d->k);
  const Constraint *persist = kernel_constraint(d->k, CONSTRAINT_persist, NULL);
  if (d->explicit_grid || d->has_versions) return "it computes positions itself";
  if (hardware && hardware->cluster[0]) return "its workgroups form clusters";
  if (kernel_constraint(d->k, CONSTRAINT_device, NULL)) return "several devices share its grid";
  if (persist && !distribute_is_off(d, CONSTRAINT_persist))
    return "its workgroups compute several tiles";
  /* Code without assumptions is compiled for the same parameters. */
  if (kernel_has_fallback(d->k)) return "launches need not satisfy its assumptions";
  for (int i = kernel_given(d->k); i < d->k->params.n; i++)
    if (d->k->params.at[i].workspace) return "it has a workspace of its own";
  for (const Op *op = ir_first(d->k); op; op = ir_next(op))
    if (op_has(op, ATTR_grid)) return "it adds up what workgroups have itself";
  return NULL;
}

static const char *obstacle_to_loop(const Distribution *d, SplitLoop *s) {
  Op *loop = s->loop;
  const Sym *dim = op_attr(loop, ATTR_axis)->sym;
  const char *why = obstacle_in_sums(loop);
  if (!why) why = obstacle_in_ops(d->k, loop);
  if (why) return why;
  s->tile = kernel_constraint(d->k, CONSTRAINT_tile, dim);
  s->trips = s->tile ? distribute_trips(d, loop) : NULL;
  if (!s->trips) return "the number of iterations is not known";
  if (is_named(d->k, ir_loop_counter(d->k, dim))) return "an expression names the loop's counter";
  if (is_dim_elsewhere(d->k, loop, dim)) return "the dimension of its loop occurs outside of it";
  if (!are_tiles_apart(d, loop)) return "workgroups carry the same elements";
  return NULL;
}

const char *split_obstacle_early(const Distribution *d, SplitLoop *out) {
  const char *why = obstacle_in_header(d);
  if (why) return why;
  out->loop = kernel_only_loop(d->k);
  if (!out->loop) return "it does not have exactly one loop";
  why = obstacle_to_loop(d, out);
  if (why) return why;
  out->axis = free_axis(d->k);
  return out->axis < 0 ? "its grid has no dimension left" : NULL;
}

const char *split_obstacle(const Distribution *d, const Uniformity *u, Arena *scratch,
                           SplitLoop *out) {
  const char *why = split_obstacle_early(d, out);
  if (why) return why;
  return contract_of(d, u, scratch).op ? "its threads hold what the kernel declares" : NULL;
}

/* ---- what it costs ---- */

double split_cycles(const TargetInfo *t, int64_t parts, double bytes) {
  const UnitRates *rates = unit_rates(t->name);
  const UnitLatencies *latencies = unit_latencies(t->name);
  if (!rates || !latencies) return 0;
  return WAITS * latencies->global + (double)(parts + 1) * bytes * LANES_TIMES / rates->l2;
}
