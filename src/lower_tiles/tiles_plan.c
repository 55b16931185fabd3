/* tiles_plan.c: which values are recomputed where they are used, and which are kept.
 *
 * A value that several nests of loops use, or several rows of one nest, is recomputed for each if
 * that is cheaper than storing and loading it. Memory that the kernel writes is read immediately,
 * because it may change later. */
#include "analysis/motion.h"
#include "ir/dtype.h"
#include "lower_tiles/tiles.h"

/* Costs, in additions. */
enum { LOAD_COST = 1, STORE_COST = 2, SIMPLE = 1, DIVISION = 4, FUNCTION = 12, MOST_COST = 1024 };

typedef struct Plan {
  Tiles *t;
  const Op **ops; /* in program order */
  int nops;
  const bool *written; /* memories, by the id of their root */
  uint64_t **askers;   /* by value id: a bit for each op with an effect that uses it */
  int words;
  int *cost; /* by value id */
  bool first_round;
} Plan;

/* ---- what may be recomputed ---- */

static bool has_loop_over(const Region *r, const Sym *axis) {
  for (const Op *op = r->first; op; op = op->next) {
    if (!op->body) continue;
    if (op->kind == OP_for && op_attr(op, ATTR_axis)->sym == axis) return true;
    if (has_loop_over(op->body, axis)) return true;
  }
  return false;
}

/* A loop inside another one over the same axis has a counter of the same name. An expression that
 * mentions the outer counter would mean something else there. */
static bool mentions_hidden_counter(const Plan *p, const Op *op) {
  for (const Op *loop = op->parent->owner; loop; loop = loop->parent->owner) {
    const Sym *axis = loop->kind == OP_for ? op_attr(loop, ATTR_axis)->sym : NULL;
    if (!axis) continue;
    RegionSymbols counter = {0};
    vec_push(p->t->l.arena, &counter.at, ir_loop_counter(p->t->l.k, axis));
    if (op_is_tied(op, &counter) && has_loop_over(loop->body, axis)) return true;
  }
  return false;
}

static bool may_be_inline(const Plan *p, const Op *op) {
  if (op->nresults != 1 || op->results[0].type->kind != TYPE_tile) return false;
  if (mentions_hidden_counter(p, op)) return false;
  switch (op->kind) {
  case OP_fill:
  case OP_self_index:
  case OP_exists:
  case OP_inside:
  case OP_apply_expr:
  case OP_broadcast:
  case OP_repeat:
  case OP_permute:
  case OP_squeeze:
  case OP_convert: return true;
  case OP_read: {
    MemAccess a;
    return access_of(op, &a) && !p->written[memory_root(a.memory)->id] &&
           !op_has(op, ATTR_volatile);
  }
  default: return op_is_elementwise(op);
  }
}

/* For narrow floats, in vectors: bf16 is the upper half of an f32, f16 is converted, others are
 * decoded. */
static int cast_cost(const Op *op) {
  DType from = op->args[0]->type->dtype;
  if (!dtype_is_float(from) || dtype_info[from].bits >= 32) return 1;
  return from == DTYPE_bf16 ? 1 : from == DTYPE_f16 ? 2 : 4;
}

static const int elementwise_cost[OP_COUNT] = {
#define ELEMENTWISE(name, kind, flags, rule, cost, doc) [OP_##name] = cost,
#include "ir/elementwise.def"
};

static int own_cost(const Op *op) {
  switch (op->kind) {
  case OP_cast: return cast_cost(op);
  case OP_fill:
  case OP_exists:
  case OP_broadcast:
  case OP_repeat:
  case OP_permute:
  case OP_squeeze:
  case OP_convert: return 0;
  case OP_select: return op->args[0]->def && op->args[0]->def->kind == OP_exists ? 0 : 1;
  case OP_read: return LOAD_COST + 4 * (op->nargs > 1);
  default: return elementwise_cost[op->kind] ? elementwise_cost[op->kind] : SIMPLE;
  }
}

bool tiles_is_function(const Op *op) { return own_cost(op) == FUNCTION; }

/* ---- uses ---- */

static void note_askers(Plan *p, const Op *op) {
  bool again = p->t->plan.is_inline[op->nresults ? op->results[0].id : 0] && may_be_inline(p, op);
  for (int i = 0; i < op->nargs; i++) {
    uint64_t *of = p->askers[op->args[i]->id];
    if (again)
      for (int w = 0; w < p->words; w++) of[w] |= p->askers[op->results[0].id][w];
    else of[op->id / 64] |= UINT64_C(1) << (op->id % 64);
  }
}

/* How often the loops of a nest recompute v: those around the innermost loop that v has a
 * coordinate of. */
static int repeats(const Plan *p, const Op *op, const Value *v) {
  enum { MANY = 16 };
  const Type *nest = op->nargs ? op->args[0]->type : NULL;
  int64_t times = 1, around = 1, n;
  for (int i = 0; nest && nest->kind == TYPE_tile && i < nest->rank; i++) {
    TileRange range;
    if (type_base_dim(v->type, nest->dims[i]) >= 0) times *= around, around = 1;
    else if (distribute_dim(p->t->l.d, op, nest->dims[i], &range) && sym_is_int(range.extent, &n))
      around *= n < MANY ? n : MANY;
  }
  return times < MANY ? (int)times : MANY;
}

/* How often v is computed if it is not kept. Products pack their operands once, before loops. */
static int asks(const Plan *p, const Value *v) {
  int n = 0;
  for (int i = 0; i < p->nops; i++) {
    const Op *op = p->ops[i];
    if (!(p->askers[v->id][op->id / 64] >> (op->id % 64) & 1)) continue;
    if (op->kind == OP_mma) n += 1;
    else n += (v->def->parent != op->parent ? 4 : 1) * repeats(p, op, v);
  }
  return n;
}

static bool is_asked_by_product(const Plan *p, const Value *v) {
  for (int i = 0; i < p->nops; i++) {
    const Op *op = p->ops[i];
    if (op->kind == OP_mma && p->askers[v->id][op->id / 64] >> (op->id % 64) & 1) return true;
  }
  return false;
}

static bool is_worth_keeping(const Plan *p, const Value *v, int cost) {
  if (cost <= LOAD_COST || !tile_has_size(p->t, v->def, v->type)) return false;
  int n = asks(p, v);
  return n * (cost - LOAD_COST) > cost + STORE_COST;
}

static void decide(Plan *p, const Op *op) {
  if (!op->nresults) return;
  const Value *v = &op->results[0];
  int cost = own_cost(op);
  if (!may_be_inline(p, op)) {
    p->cost[v->id] = LOAD_COST;
    return;
  }
  for (int i = 0; i < op->nargs && cost < MOST_COST; i++) cost += p->cost[op->args[i]->id];
  if (cost > MOST_COST) cost = MOST_COST; /* squares of squares double it each time */
  p->t->plan.cost[v->id] = is_asked_by_product(p, v) ? 0 : cost;
  bool keep = p->t->plan.is_inline[v->id] == p->first_round && is_worth_keeping(p, v, cost);
  p->t->plan.is_inline[v->id] = !keep;
  p->cost[v->id] = keep ? LOAD_COST : cost;
}

void tiles_plan(Tiles *t) {
  Kernel *k = t->l.k;
  Arena *a = t->l.arena;
  Plan p = {.t = t, .words = k->nops / 64 + 1, .written = find_written(k, a)};
  t->plan.is_inline = ARENA_ARRAY(a, bool, k->nvalues + 1);
  t->plan.is_kept = ARENA_ARRAY(a, bool, k->nvalues + 1);
  t->plan.cost = ARENA_ARRAY(a, int, k->nvalues + 1);
  p.ops = ARENA_ARRAY(a, const Op *, k->nops + 1);
  p.cost = ARENA_ARRAY(a, int, k->nvalues + 1);
  p.askers = ARENA_ARRAY(a, uint64_t *, k->nvalues + 1);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    p.ops[p.nops++] = op;
    if (op->nresults) t->plan.is_inline[op->results[0].id] = may_be_inline(&p, op);
  }
  /* Values computed from one that is kept count as a single use, so some are not worth keeping
   * after all. */
  for (int round = 0; round < 2; round++) {
    p.first_round = round == 0;
    for (int i = 0; i < k->nvalues; i++) p.askers[i] = ARENA_ARRAY(a, uint64_t, p.words);
    for (int i = p.nops - 1; i >= 0; i--) note_askers(&p, p.ops[i]);
    for (int i = 0; i < p.nops; i++) decide(&p, p.ops[i]);
  }
}

/* ---- dependences ---- */

typedef struct Depends {
  const Tiles *t;
  const Value *of;
  bool *none[2]; /* by value id: known not to depend; [1]: on elements at other coordinates */
} Depends;

static Depends ask(const Tiles *t, const Value *of) {
  Depends d = {.t = t, .of = of};
  for (int i = 0; i < 2; i++) d.none[i] = ARENA_ARRAY(t->l.arena, bool, t->l.k->nvalues + 1);
  return d;
}

/* `elsewhere`: only if an element of v needs one at other coordinates. */
static bool depends(Depends *d, const Value *v, bool elsewhere) {
  if (v == d->of) return !elsewhere;
  if (!v->def || !d->t->plan.is_inline[v->id] || d->none[elsewhere][v->id]) return false;
  for (int i = 0; i < v->def->nargs; i++) {
    bool looked_up = v->def->kind == OP_read && i > 0;
    if (depends(d, v->def->args[i], elsewhere && !looked_up)) return true;
  }
  d->none[elsewhere][v->id] = true;
  return false;
}

bool tiles_depends(const Tiles *t, const Value *v, const Value *of) {
  Depends d = ask(t, of);
  return depends(&d, v, false);
}

bool tiles_depends_elsewhere(const Tiles *t, const Value *v, const Value *of) {
  Depends d = ask(t, of);
  return depends(&d, v, true);
}

bool tiles_used_later(const Tiles *t, const Op *op, const Value *v) {
  if (t->plan.is_kept[v->id]) return true;
  Depends d = ask(t, v);
  const Op *end = op->parent->owner;
  while (end && !end->next) end = end->parent->owner;
  const Op *stop = end ? end->next : NULL;
  for (const Op *q = ir_next(op); q && q != stop; q = ir_next(q))
    for (int i = 0; i < q->nargs; i++)
      if (depends(&d, q->args[i], false)) return true;
  return false;
}
