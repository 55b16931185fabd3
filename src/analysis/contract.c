/* contract.c: the four rules of contract.h. */
#include "analysis/contract.h"

#include <string.h>

#include "analysis/anchors.h"
#include "ir/attr.h"
#include "ir/layout_links.h"

typedef struct Query {
  Kernel *k;
  const Distribution *d;
  const Uniformity *u;
  Arena *scratch;
  const Op *op;
  bool found;
} Query;

/* ---- (a) thread ids -------------------------------------------------------------------------- */

static bool is_thread_id(const Sym *s) {
  const char *name = sym_name(s);
  return strcmp(name, "$T0") == 0 || strcmp(name, "$T1") == 0 || strcmp(name, "$T2") == 0 ||
         strcmp(name, "$GPR_NUM") == 0;
}

static const Sym *look_for_threads(void *user, const Sym *s) {
  Query *q = user;
  const Sym *seen = distribute_expr(q->d, q->op, s);
  int n = seen ? sym_free_symbols(seen, NULL, 0) : 0;
  const Sym **symbols = ARENA_ARRAY(q->scratch, const Sym *, n);
  if (seen) sym_free_symbols(seen, symbols, n);
  for (int i = 0; i < n; i++) q->found |= is_thread_id(symbols[i]);
  return s;
}

static bool mentions_threads(Query *q) {
  for (int i = 0; i < q->op->nattrs; i++) {
    Attr copy = q->op->attrs[i];
    attr_rewrite(q->k, &copy, look_for_threads, q);
  }
  return q->found;
}

/* ---- (b) reductions -------------------------------------------------------------------------- */

/* A product along a dim of the grid that waves divide: each wave has its part of the sum. */
static bool multiplies_within_waves(const Query *q) {
  const Op *op = q->op;
  int acc = op->kind == OP_scaled_mma ? 4 : 2;
  MmaRoles roles;
  if (op->kind != OP_mma && op->kind != OP_scaled_mma) return false;
  if (ir_mma_roles(q->k, op->args[0]->type, op->args[acc / 2]->type, op->args[acc]->type, &roles))
    return false;
  int axis = anchor_wave_axis(q->d, roles.k);
  return axis >= 0 && anchor_waves_on(q->d, axis) > 1;
}

static bool reduces_within_waves(const Query *q) {
  const Op *op = q->op;
  if (multiplies_within_waves(q)) return true;
  bool reduces = op->kind == OP_sum || op->kind == OP_max || op->kind == OP_min ||
                 op->kind == OP_cumsum || op->kind == OP_topk;
  if (!reduces || op_has(op, ATTR_block)) return false;
  int64_t waves;
  const Sym *shared = distribute_waves(q->d, op_attr(op, ATTR_dim)->sym);
  return !shared || !sym_is_int(shared, &waves) || waves > 1;
}

/* ---- (c) atomics ----------------------------------------------------------------------------- */

static bool has_kind(const Kernel *k, OpKind a, OpKind b, OpKind c) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == a || op->kind == b || op->kind == c) return true;
  return false;
}

/* Every dim that waves divide is a dim of the value: else waves hold it several times. */
static bool waves_divide_it(const Query *q, const Type *t) {
  for (int i = 0; i < q->k->constraints.n; i++) {
    const Constraint *c = &q->k->constraints.at[i];
    int64_t waves;
    if (c->kind != CONSTRAINT_wave || type_has_dim(t, c->dim)) continue;
    const Sym *n = distribute_waves(q->d, c->dim);
    if (!n || !sym_is_int(n, &waves) || waves > 1) return false;
  }
  return true;
}

/* The value is the result of such an op, through ops on each element. */
static bool is_of(const Value *v, OpKind kind, OpKind other) {
  for (int depth = 0; v->def && depth < 32; depth++) {
    const Op *op = v->def;
    if (op->kind == kind || op->kind == other) return true;
    if (op->kind == OP_for || op->kind == OP_if) v = op->body->last->args[v->index];
    else if (op->nargs && op_info[op->kind].level == LEVEL_BOTH) v = op->args[0];
    else return false;
  }
  return false;
}

static bool adds_copies(const Query *q) {
  const Op *op = q->op;
  if (op->kind != OP_atomic_add && op->kind != OP_atomic_min && op->kind != OP_scatter_add)
    return false;
  if (op_has(op, ATTR_ept)) return true; /* says how often a thread executes it */
  const Value *v = op->args[0];
  if (!waves_divide_it(q, v->type)) return true;
  if (has_kind(q->k, OP_mma, OP_scaled_mma, OP_mma)) return !is_of(v, OP_mma, OP_scaled_mma);
  if (has_kind(q->k, OP_sum, OP_max, OP_min)) return true;
  return !is_of(v, OP_read, OP_read) || !anchor_declared_once(q->d, op, v->type);
}

/* ---- (d) elements and branches --------------------------------------------------------------- */

static bool differs(const Query *q, const Value *v) {
  return q->u->values[v->id].level == UNIFORM_VARYING;
}

static bool takes_elements(const Op *op) {
  return op->kind == OP_extract || op->kind == OP_extract_slice || op->kind == OP_reshape;
}

bool contract_parts_threads(const Distribution *d, const Op *op, Arena *scratch) {
  Query q = {.k = d->k, .d = d, .scratch = scratch, .op = op};
  return mentions_threads(&q) || reduces_within_waves(&q) || takes_elements(op) ||
         op->kind == OP_atomic_add || op->kind == OP_atomic_min;
}

/* ---- all ------------------------------------------------------------------------------------- */

static const char *observes(Query *q) {
  const Op *op = q->op;
  for (int i = 0; i < op->nresults; i++)
    if (op->results[i].varying) return "makes a value that differs between threads";
  if (mentions_threads(q)) return "mentions thread ids";
  if (reduces_within_waves(q)) return "gives each wave a result of its own";
  if (adds_copies(q)) return "may add what several threads hold";
  if (takes_elements(op)) return "takes elements of what a thread holds";
  if (op->kind == OP_set_symbol && differs(q, op->args[0]))
    return "sets a symbol that differs between lanes";
  if (op->body && q->u->regions[op->id].level == UNIFORM_VARYING)
    return "goes different ways in different lanes";
  return NULL;
}

Contract contract_of(const Distribution *d, const Uniformity *u, Arena *scratch) {
  for (const Op *op = ir_first(d->k); op; op = ir_next(op)) {
    Query q = {d->k, d, u, scratch, op, false};
    const char *why = observes(&q);
    if (why) return (Contract){op, why};
  }
  return (Contract){0};
}
