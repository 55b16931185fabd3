/* retarget_cluster.c: see retarget_cluster.h. */
#include "transform/retarget/retarget_cluster.h"

#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/ops/reductions.h"
#include "ir/region_facts.h"

/* Workgroups of 16 waves leave room for two on a compute unit, so that one loads while the other
 * computes. All machines with clusters run 8 workgroups in one. */
enum { OWN_WAVES = 16, MOST = 8 };

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

int retarget_cluster(Kernel *k, PassCtx *cx, int *waves) {
  const TargetInfo *t = cx->target;
  int cluster = 1;
  if (*waves <= target_waves(t) || !target_has(t, FEATURE_CLUSTER)) return 1;
  if (!can_divide(k, cx->facts.distribute)) return 1;
  while (cluster < MOST && cluster * OWN_WAVES < *waves) cluster *= 2;
  *waves = ceil_div(*waves, cluster) * cluster;
  diag_add(&k->cx->diags, DIAG_R0625, k->at, "%d workgroups share the %d waves of `%s`", cluster,
           *waves, k->name);
  return cluster;
}
