/* retarget_cluster.c: see retarget_cluster.h. */
#include "transform/retarget/retarget_cluster.h"

#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/reductions.h"
#include "ir/region_facts.h"

/* Workgroups of 16 waves leave room for two on a compute unit, so that one loads while the other
 * computes. All machines with clusters run 8 workgroups in one. */
enum { OWN_WAVES = 16, MOST = 8 };
/* Bytes that a thread holds as they were loaded, if four such workgroups are to fit. */
enum { HELD = 64 };

/* ---- the dimension of the grid ---- */

static bool names_axis(const void *id, const Sym *s) { return ir_expr_mentions(s, id); }

/* Nothing else uses the last dimension: the workgroups of a cluster follow each other along it. */
static bool has_free_axis(Kernel *k, const Distribution *d) {
  const HardwareSpec *hardware = kernel_hardware(k);
  int peers;
  if (d->explicit_grid || (hardware && hardware->cluster[0])) return false;
  if (kernel_split_axis(k, &peers) >= 0) return false;
  EACH_ROW(k, workgroup, c)
    if (c->workgroup.axis >= CLUSTER_AXIS) return false;
  EACH_ROW(k, reorder, c)
    if (c->reorder.axis >= CLUSTER_AXIS) return false;
  return !kernel_has_sym(k, (SymSearch){names_axis, "$WG2", true});
}

/* ---- ops ---- */

static bool is_staged(const Distribution *d, const Value *memory) {
  return memory_is_scratch(memory) ||
         distribute_expr(d, NULL, memory->type->space) == d->k->cx->shared_space;
}

/* All workgroups of a cluster reach it, and it needs no shared memory except for what is exchanged. */
static bool can_share(const Distribution *d, const Op *op) {
  if (op->kind == OP_for || op->kind == OP_yield) return true;
  if (op->kind == OP_read) return !is_staged(d, op->args[0]);
  if (op->kind == OP_write) return !is_staged(d, op->args[1]) && !op_has(op, ATTR_volatile);
  if (op_is_scan(op) || op->kind == OP_topk || op_is_product(op)) return false;
  return op_is_pure(op);
}

static bool can_divide(Kernel *k, const Distribution *d) {
  bool reduces = false;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (!can_share(d, op)) return false;
    reduces |= op_is_reduction(op);
  }
  return reduces && !d->has_versions && has_free_axis(k, d);
}

/* ---- how much a thread holds ---- */

static bool may_compute_again(const Kernel *k) {
  const Constraint *row = kernel_constraint(k, CONSTRAINT_again, NULL);
  int64_t allowed = 1;
  if (row) sym_is_int(row->again.allowed, &allowed);
  for (const Op *op = k->body->first; op; op = op->next)
    if (op->body) return false;
  return allowed != 0;
}

/* By value id: a reduction needs it. */
static const bool *find_reduced(const Kernel *k, Arena *scratch) {
  bool *reduced = ARENA_ARRAY(scratch, bool, k->nvalues + 1);
  for (const Op *op = k->body->last; op; op = op->prev) {
    bool needed = op_is_reduction(op);
    for (int i = 0; i < op->nresults; i++) needed |= reduced[op->results[i].id];
    for (int i = 0; needed && i < op->nargs; i++) reduced[op->args[i]->id] = true;
  }
  return reduced;
}

/* The most dimensions of a tile that is read and of one that is written; 0: these differ. */
static int most_dims(const Kernel *k) {
  int read = 0, written = 0;
  for (const Op *op = k->body->first; op; op = op->next) {
    if (op->kind == OP_read && op->results[0].type->rank > read) read = op->results[0].type->rank;
    if (op->kind == OP_write && op->args[0]->type->rank > written)
      written = op->args[0]->type->rank;
  }
  return read == written ? read : 0;
}

/* Bytes of the tiles with most dimensions that are read; 0: the pass `again` does not keep them as they are
 * read, since that takes as many registers as what is computed from them. */
static int64_t bytes_held(const Kernel *k, const PassCtx *cx) {
  const bool *reduced = find_reduced(k, cx->scratch);
  int rank = most_dims(k), extent[IR_MAX_RANK];
  int64_t all = 0;
  for (const Op *op = k->body->first; rank && op; op = op->next) {
    const Type *t = op->kind == OP_read ? op->results[0].type : NULL;
    if (!t || (t->rank < rank && !reduced[op->results[0].id])) continue;
    int64_t bits = dtype_info[t->dtype].bits;
    bool known = t->rank == rank && distribute_extents(cx->facts.distribute, op, t, extent);
    if (!known || bits >= 32) return 0;
    for (int i = 0; i < t->rank; i++) bits *= extent[i];
    all += bits / 8;
  }
  return all;
}

/* Fewer waves, if the pass `again` keeps what more elements of a thread are computed from: of the registers
 * of a compute unit, half then are for bytes on their way. */
static int fewer_waves(const Kernel *k, const PassCtx *cx, int waves) {
  int64_t bytes = may_compute_again(k) ? bytes_held(k, cx) : 0;
  while (bytes && waves % 2 == 0 && waves / 2 > OWN_WAVES &&
         bytes <= (int64_t)HELD * cx->target->lanes * (waves / 2))
    waves /= 2;
  return waves;
}

int retarget_cluster(Kernel *k, PassCtx *cx, int *waves) {
  const TargetInfo *t = cx->target;
  int cluster = 1;
  if (*waves <= target_waves(t) || !target_has(t, FEATURE_CLUSTER)) return 1;
  if (!can_divide(k, cx->facts.distribute)) return 1;
  *waves = fewer_waves(k, cx, *waves);
  while (cluster < MOST && cluster * OWN_WAVES < *waves) cluster *= 2;
  *waves = ceil_div(*waves, cluster) * cluster;
  diag_add(&k->cx->diags, DIAG_R0625, k->at, "%d workgroups share the %d waves of `%s`", cluster,
           *waves, k->name);
  return cluster;
}
