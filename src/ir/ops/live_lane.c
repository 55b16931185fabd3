/* live_lane.c: the registers of one lane's program, register by register (live.h).
 *
 *     %x = pick [0, 1] %acc          no register of its own: it is two of %acc's
 *     %n = wgmma ... %x ...          takes their place; the other registers of %acc live on
 *
 * Assemblers move instructions: the tiles that a wave_mma reads from shared memory are not counted
 * whole, since parts of them are read before each step along k, and elementwise ops whose results only
 * others take are computed with these, element by element. */
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/live.h"
#include "ir/region_facts.h"

/* Where an element of a value is: it lives from the end of one op to that of another. */
typedef struct LanePlace {
  const Value *value; /* that it was made for */
  int first, last;    /* ids of ops */
  int bits;
  bool scalar; /* in a register that all lanes share */
} LanePlace;

typedef Vec(LanePlace) Places;

/* Of two conditionals of which one runs, the one that is left out. */
typedef enum Without { WITHOUT_NONE, WITHOUT_FIRST, WITHOUT_SECOND } Without;

typedef struct Lane {
  Arena *arena;
  const Kernel *k;
  Without without;
  Places places;
  int **at;           /* by value id: the place of each element */
  bool *late;         /* by value id: it is computed only when the ops that take it are, */
  const Value **root; /* and from this value alone; NULL: from several */
  int *used;          /* by value id: the last op for which its operands were used */
  const bool *scalar; /* by value id; or NULL */
} Lane;

static int elements_of(const Type *t) {
  return t->kind == TYPE_vec ? t->n : t->kind == TYPE_scalar ? 1 : 0;
}

/* Constants are part of instructions, and conditions are not in registers. */
static int bits_of(const Value *v) {
  int bits = dtype_info[v->type->dtype].bits;
  return bits == 1 || (v->def && v->def->kind == OP_scalar) ? 0 : bits;
}

static bool is_left_out(const Lane *l, const Op *op) {
  const Op *outer = l->without ? op->parent->owner : NULL;
  for (; outer; outer = outer->parent->owner) {
    const Op *first = l->without == WITHOUT_FIRST ? outer : outer->prev;
    const Op *second = first ? op_alternative(l->k, first) : NULL;
    if (second && (outer == first || outer == second)) return true;
  }
  return false;
}

static void add_places(Lane *l, const Value *v, int first) {
  int n = elements_of(v->type);
  bool scalar = l->scalar && l->scalar[v->id];
  l->at[v->id] = ARENA_ARRAY(l->arena, int, n + 1);
  for (int i = 0; i < n; i++) {
    l->at[v->id][i] = l->places.n;
    vec_push(l->arena, &l->places, ((LanePlace){v, first, first, bits_of(v), scalar}));
  }
}

/* Parameters are loaded where they are needed: they take no registers. */
static void add_parameters(Lane *l) {
  for (int i = 0; i < l->k->body->nargs; i++) add_places(l, l->k->body->args[i], 0);
  for (int i = 0; i < l->places.n; i++) l->places.at[i].bits = 0;
}

/* Gives the elements of a result the places of those that they are; false: they are new. */
static bool only_renames(Lane *l, const Op *op) {
  const Value *v = op->nresults == 1 ? &op->results[0] : NULL;
  const Attr *regs = op->kind == OP_pick ? op_attr(op, ATTR_regs) : NULL;
  bool same = op->kind == OP_bitcast && elements_of(op->args[0]->type) == elements_of(v->type);
  if (!regs && !same && op->kind != OP_join && op->kind != OP_splat) return false;
  int n = elements_of(v->type), from = 0, part = 0;
  int *at = l->at[v->id] = ARENA_ARRAY(l->arena, int, n + 1);
  for (int i = 0; i < n; i++, part++) {
    while (op->kind == OP_join && part == elements_of(op->args[from]->type)) from++, part = 0;
    const int *given = l->at[op->args[from]->id];
    at[i] = given[regs ? regs->ints[i] : op->kind == OP_splat ? 0 : part];
  }
  return true;
}

/* The last op that needs a value of region `home` because of this use. */
static int end_of_use(const Op *use, const Region *home) {
  int end = use->id;
  for (const Region *r = use->parent; r != home && r->owner; r = r->owner->parent)
    if (op_is_loop(r->owner)) end = r->last->id;
  return end;
}

static void use(Lane *l, const Op *op, const Value *v) {
  const int *at = l->at[v->id];
  if (l->late[v->id]) {
    bool done = l->used[v->id] == op->id;
    l->used[v->id] = op->id;
    for (int i = 0; !done && i < v->def->nargs; i++) use(l, op, v->def->args[i]);
    return;
  }
  for (int i = 0; at && i < elements_of(v->type); i++) {
    LanePlace *p = &l->places.at[at[i]];
    int end = end_of_use(op, region_of_value(p->value));
    if (end > p->last) p->last = end;
  }
}

static bool is_read_late(const LanePlace *p, const Op *product) {
  const Op *def = p->value->def;
  if (!def || def->parent != product->parent || p->last != product->id) return false;
  return def->kind == OP_ldmatrix || (def->kind == OP_load && memory_is_scratch(def->args[0]));
}

/* Reads the operands of a product in as many steps as it has along k: those of the next one while it
 * multiplies those of this one. */
static void read_in_steps(Lane *l, const Op *product) {
  const Attr *copies = op_attr(product, ATTR_copies);
  int steps = copies && copies->n == 3 ? (int)copies->ints[2] : 1;
  for (int i = 0; i < 2; i++) {
    const Value *v = product->args[i];
    for (int e = 0; e < elements_of(v->type); e++) {
      LanePlace *p = &l->places.at[l->at[v->id][e]];
      if (!is_read_late(p, product)) continue;
      p->first = product->id - 1;
      if (steps > 2) p->bits = ceil_div(2 * p->bits, steps);
    }
  }
}

static void make_results(Lane *l, const Op *op) {
  bool none = is_left_out(l, op);
  for (int i = 0; op->body && i < op->body->nargs; i++) add_places(l, op->body->args[i], op->id);
  if (op->nargs && only_renames(l, op)) return;
  bool late = op->nresults && l->late[op->results[0].id];
  for (int i = 0; !late && !none && i < op->nargs; i++) use(l, op, op->args[i]);
  if (op->kind == OP_wave_mma) read_in_steps(l, op);
  for (int i = 0; i < op->nresults; i++)
    add_places(l, &op->results[i], op->body ? op->body->last->id : op->id);
}

/* ---- what is computed late ---- */

/* Whether it gives elements of its operand several times, as broadcasts do. */
static bool repeats(const Op *op) {
  return op->kind == OP_pick && elements_of(op->results[0].type) > elements_of(op->args[0]->type);
}

static bool may_take_late(const Op *op, const Value *v) {
  bool each = op_is_elementwise(op) && elements_of(op->results[0].type) == elements_of(v->type);
  return op->parent == v->def->parent && (each || repeats(op));
}

/* By value id: whether other ops need it than those, directly or repeated. */
static const bool *find_others(const Lane *l) {
  bool *others = ARENA_ARRAY(l->arena, bool, l->k->nvalues);
  const Op **again = ARENA_ARRAY(l->arena, const Op *, l->k->nops);
  int n = 0;
  for (const Op *op = ir_first(l->k); op; op = ir_next(op)) {
    for (int i = 0; i < op->nargs; i++) {
      const Value *v = op->args[i];
      others[v->id] |= !v->def || !may_take_late(op, v);
    }
    if (repeats(op)) again[n++] = op;
  }
  while (n-- > 0) others[again[n]->args[0]->id] |= others[again[n]->results[0].id];
  return others;
}

static bool is_constant(const Value *v) {
  return v->def && (v->def->kind == OP_scalar || v->def->kind == OP_splat);
}

/* The one value that the op is computed from, constants aside; NULL: there are several, or none. */
static const Value *root_of(const Lane *l, const Op *op) {
  const Value *found = NULL;
  for (int i = 0; i < op->nargs; i++) {
    const Value *v = op->args[i], *root = l->late[v->id] ? l->root[v->id] : v;
    if (is_constant(v)) continue;
    if (!root || (found && root != found)) return NULL;
    found = root;
  }
  return found;
}

/* A value that several ops take, and that is computed from several, takes the place of these instead. */
static void find_late(Lane *l) {
  int *takers = ARENA_ARRAY(l->arena, int, l->k->nvalues);
  const bool *others = find_others(l);
  l->late = ARENA_ARRAY(l->arena, bool, l->k->nvalues);
  l->used = ARENA_ARRAY(l->arena, int, l->k->nvalues);
  l->root = ARENA_ARRAY(l->arena, const Value *, l->k->nvalues);
  for (const Op *op = ir_first(l->k); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++) takers[op->args[i]->id]++;
  for (const Op *op = ir_first(l->k); op; op = ir_next(op)) {
    bool again = repeats(op) && l->late[op->args[0]->id];
    const Value *v = again || (op->nresults == 1 && op_is_elementwise(op)) ? &op->results[0] : NULL;
    if (!v || !takers[v->id] || others[v->id]) continue;
    l->root[v->id] = root_of(l, op);
    l->late[v->id] = takers[v->id] == 1 || l->root[v->id];
  }
}

/* By op id: how many bits more, or fewer, are occupied than before the op, in registers of one kind. */
static const int64_t *changes_of(const Lane *l, bool scalar) {
  int64_t *bits = ARENA_ARRAY(l->arena, int64_t, l->k->nops + 2);
  for (int i = 0; i < l->places.n; i++) {
    const LanePlace *p = &l->places.at[i];
    if (p->last <= p->first || p->scalar != scalar) continue;
    bits[p->first + 1] += p->bits;
    bits[p->last + 1] -= p->bits;
  }
  return bits;
}

/* By op id: whether it is in a loop without others inside, where a register that is stored to memory costs the most;
 * NULL: of all ops. */
static const bool *find_looped(Arena *a, const Kernel *k, bool looped) {
  if (!looped) return NULL;
  bool *found = ARENA_ARRAY(a, bool, k->nops + 1), *outer = ARENA_ARRAY(a, bool, k->nops + 1);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    const Op *loop = op_is_loop(op) ? op_loop_around(op) : NULL;
    if (loop) outer[loop->id] = true;
  }
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    const Op *loop = op_loop_around(op);
    found[op->id] = loop && !outer[loop->id];
  }
  return found;
}

static int most_without(Arena *a, const Kernel *k, const bool *scalar, bool looped,
                        Without without) {
  Lane l = {.arena = a, .k = k, .without = without, .scalar = scalar};
  l.at = ARENA_ARRAY(a, int *, k->nvalues);
  find_late(&l);
  add_parameters(&l);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) make_results(&l, op);
  const int64_t *own = changes_of(&l, false), *shared = changes_of(&l, true);
  const bool *only = find_looped(a, k, looped);
  int64_t now = 0, scalars = 0, most = 0;
  for (int i = 0; i < k->nops; i++) {
    now += own[i], scalars += shared[i];
    int64_t left = scalars - LIVE_SCALARS * 32, all = now + (left > 0 ? left : 0);
    if (all > most && (!only || only[i])) most = all;
  }
  return (int)((most + 31) / 32);
}

static int most_of(Arena *a, const Kernel *k, const bool *scalar, bool looped) {
  bool either = false;
  for (const Op *op = ir_first(k); op && !either; op = ir_next(op))
    either = op_alternative(k, op) != NULL;
  if (!either) return most_without(a, k, scalar, looped, WITHOUT_NONE);
  int first = most_without(a, k, scalar, looped, WITHOUT_SECOND);
  int second = most_without(a, k, scalar, looped, WITHOUT_FIRST);
  return first > second ? first : second;
}

int live_most(Arena *a, const Kernel *k, const bool *scalar) {
  return most_of(a, k, scalar, false);
}

int live_most_looped(Arena *a, const Kernel *k, const bool *scalar) {
  return most_of(a, k, scalar, true);
}
