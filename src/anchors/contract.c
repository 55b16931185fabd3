/* contract.c: the four rules of contract.h. */
#include "anchors/contract.h"

#include "anchors/anchors.h"
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/ops/reductions.h"

typedef struct Query {
  Kernel *k;
  const Distribution *d;
  const Uniformity *u;
  Arena *scratch;
  const Op *op;
  UniformLevel level;
} Query;

/* ---- (a) thread ids -------------------------------------------------------------------------- */

static const Sym *look_for_threads(void *user, const Sym *s) {
  Query *q = user;
  UniformLevel level = uniform_by_threads(q->d, distribute_expr(q->d, q->op, s));
  if (level > q->level) q->level = level;
  return s;
}

/* The level at which everything that the op's attributes mention is uniform, judged by thread
 * ids. */
static UniformLevel level_of_attrs(Query *q) {
  q->level = UNIFORM_GRID;
  for (int i = 0; i < q->op->nattrs; i++) {
    Attr copy = q->op->attrs[i];
    attr_rewrite(q->k, &copy, look_for_threads, q);
  }
  return q->level;
}

/* ---- (b) reductions -------------------------------------------------------------------------- */

/* A product along a dim of the grid that waves divide: each wave computes a part of the sum. */
static bool multiplies_within_waves(const Query *q) {
  const Op *op = q->op;
  Product p;
  if (!op_is_product(op) || product_of(q->k, op, &p)) return false;
  int axis = anchor_wave_axis(q->d, p.roles.k);
  return axis >= 0 && !anchor_shares_loop(q->d, p.roles.k) && anchor_waves_on(q->d, axis) > 1;
}

static bool reduces_within_waves(const Query *q) {
  const Op *op = q->op;
  if (multiplies_within_waves(q)) return true;
  if (!op_is_reduction(op) || op_has(op, ATTR_block)) return false;
  int64_t waves;
  const Sym *apart = distribute_waves_apart(q->d, op_attr(op, ATTR_dim)->sym);
  return !apart || !sym_is_int(apart, &waves) || waves > 1;
}

/* ---- (c) atomics ----------------------------------------------------------------------------- */

static bool counts_threads(const Op *op) { return op_is_atomic(op) && op_has(op, ATTR_ept); }

/* ---- (d) elements and branches --------------------------------------------------------------- */

static bool differs(const Query *q, const Value *v) {
  return q->u->values[v->id].level == UNIFORM_VARYING;
}

static bool takes_elements(const Op *op) {
  return op->kind == OP_extract || op->kind == OP_extract_slice || op->kind == OP_reshape;
}

UniformLevel contract_parts(const Distribution *d, const Op *op, Arena *scratch) {
  Query q = {.k = d->k, .d = d, .scratch = scratch, .op = op};
  UniformLevel level = level_of_attrs(&q);
  if (takes_elements(op) || counts_threads(op)) return UNIFORM_VARYING;
  return level < UNIFORM_WAVE && reduces_within_waves(&q) ? UNIFORM_WAVE : level;
}

/* ---- all ------------------------------------------------------------------------------------- */

static const char *observes(Query *q) {
  const Op *op = q->op;
  for (int i = 0; i < op->nresults; i++)
    if (op->results[i].varying) return "returns a value that differs between threads";
  if (level_of_attrs(q) > UNIFORM_WORKGROUP) return "uses thread ids";
  if (reduces_within_waves(q)) return "gives each wave its own result";
  if (counts_threads(op)) return "specifies the elements per thread";
  if (takes_elements(op)) return "extracts elements held by a thread";
  if (op->kind == OP_set_symbol && differs(q, op->args[0]))
    return "sets a symbol that differs between lanes";
  if (op->body && q->u->regions[op->id].level == UNIFORM_VARYING)
    return "branches differently in different lanes";
  return NULL;
}

Contract contract_of(const Distribution *d, const Uniformity *u, Arena *scratch) {
  for (const Op *op = ir_first(d->k); op; op = ir_next(op)) {
    Query q = {.k = d->k, .d = d, .u = u, .scratch = scratch, .op = op};
    const char *why = observes(&q);
    if (why) return (Contract){op, why};
  }
  return (Contract){0};
}
