/* cse: replaces an op that repeats an earlier one by that one.
 *
 *     %x = add %a, %b                    %x = add %a, %b
 *     %y = add %b, %a             =>     write %x, %c
 *     write %y, %c
 *
 * The earlier op must be in the same region or in an enclosing one; across the border of a region
 * only ops that mean the same on both sides are merged (a `fill` of a tile over K is one tile
 * inside `for K`). The walk is in program order, so one sweep suffices: operands are renamed before
 * an op is looked up. In one lane's program, a load from memory that is never written is treated
 * like any other op. */
#include "analysis/motion.h"
#include "ir/attr.h"
#include "transform/pass.h"

typedef struct Entry {
  Op *op;
  struct Entry *next; /* with the same hash */
} Entry;

typedef struct Cse {
  Kernel *k;
  Arena *scratch;
  const bool *written; /* by id of a memory's root; NULL: loads are not merged */
  Map symbols;         /* region -> RegionSymbols */
  Map table;           /* hash -> Entry */
  Value **rename;      /* by value id; NULL: itself */
} Cse;

static bool commutes(const Op *op) {
  return (op_info[op->kind].flags & OPF_COMM) && op->nargs == 2;
}

/* Hashes what distinguishes most ops of a kind; the rest is compared. */
static uint64_t hash_attr(uint64_t h, const Attr *a) {
  AttrKind kind = attr_info[a->key].kind;
  if (kind == ATTR_KIND_EXPR || kind == ATTR_KIND_NUMBER) h = hash_mix(h, map_key(a->sym));
  if (kind == ATTR_KIND_INT) h = hash_mix(h, (uint64_t)a->integer);
  for (int i = 0; kind == ATTR_KIND_EXPRS && i < a->n; i++) h = hash_mix(h, map_key(a->exprs[i]));
  for (int i = 0; kind == ATTR_KIND_INTS && i < a->n; i++) h = hash_mix(h, (uint64_t)a->ints[i]);
  return h;
}

static uint64_t hash_op(const Op *op) {
  uint64_t h = hash_mix((uint64_t)op->kind + 1, (uint64_t)op->nattrs), args = 0;
  for (int i = 0; i < op->nargs; i++) {
    uint64_t arg = hash_mix(0, map_key(op->args[i]));
    args = commutes(op) ? args + arg : hash_mix(args, arg);
  }
  h = hash_mix(h, args);
  for (int i = 0; i < op->nattrs; i++) h = hash_attr(h, &op->attrs[i]);
  for (int i = 0; i < op->nresults; i++) h = hash_mix(h, map_key(op->results[i].type));
  return h ? h : 1;
}

static bool same_args(const Op *a, const Op *b) {
  if (a->nargs != b->nargs) return false;
  if (commutes(a) && a->args[0] == b->args[1] && a->args[1] == b->args[0]) return true;
  for (int i = 0; i < a->nargs; i++)
    if (a->args[i] != b->args[i]) return false;
  return true;
}

static bool same_result(const Value *a, const Value *b) {
  if (a->type != b->type || a->varying != b->varying || !a->layout != !b->layout) return false;
  return !a->layout || layout_equal(a->layout, b->layout);
}

/* Only its tests say which version of the dimension's symbol `exists` refers to. */
static bool same_op(const Op *a, const Op *b) {
  if (a->kind != b->kind || a->nattrs != b->nattrs || !same_args(a, b)) return false;
  if (a->kind == OP_exists && !op_has(a, ATTR_mask)) return false;
  for (int i = 0; i < a->nattrs; i++)
    if (!attr_equal(&a->attrs[i], &b->attrs[i])) return false;
  for (int i = 0; i < a->nresults; i++)
    if (!same_result(&a->results[i], &b->results[i])) return false;
  return true;
}

static bool means_the_same(Cse *c, const Op *op, const Region *r) {
  if (c->k->level != LEVEL_THREAD) return op_same_outside(c->k, op, r);
  RegionSymbols *symbols = map_get(&c->symbols, map_key(r));
  if (!symbols) {
    symbols = region_symbols(c->k, c->scratch, r);
    map_set(c->scratch, &c->symbols, map_key(r), symbols);
  }
  return !op_is_tied(op, symbols);
}

/* `earlier` comes first in the walk: it is available at `op` if its region encloses op. */
static bool can_stand_for(Cse *c, const Op *earlier, const Op *op) {
  const Region *r = op->parent;
  while (r != earlier->parent) {
    if (!r->owner || !means_the_same(c, op, r)) return false;
    r = r->owner->parent;
  }
  return true;
}

static Op *find_earlier(Cse *c, uint64_t hash, const Op *op) {
  for (Entry *e = map_get(&c->table, hash); e; e = e->next)
    if (same_op(e->op, op) && can_stand_for(c, e->op, op)) return e->op;
  return NULL;
}

static void remember(Cse *c, uint64_t hash, Op *op) {
  Entry *e = ARENA_NEW(c->scratch, Entry);
  *e = (Entry){op, map_get(&c->table, hash)};
  map_set(c->scratch, &c->table, hash, e);
}

bool pass_cse(Kernel *k, PassCtx *cx) {
  Cse c = {.k = k, .scratch = cx->scratch, .rename = ARENA_ARRAY(cx->scratch, Value *, k->nvalues)};
  if (k->level == LEVEL_THREAD) c.written = find_written(k, cx->scratch);
  for (Op *op = ir_first(k), *next; op; op = next) {
    next = ir_next(op);
    op_rename_args(op, c.rename);
    if (!op_is_pure(op) && !(c.written && motion_is_invariant_load(op, c.written))) continue;
    uint64_t hash = hash_op(op);
    Op *earlier = find_earlier(&c, hash, op);
    if (!earlier) {
      remember(&c, hash, op);
      continue;
    }
    for (int i = 0; i < op->nresults; i++) c.rename[op->results[i].id] = &earlier->results[i];
    ir_remove(op);
  }
  return true;
}
