/* leave: workgroups that have nothing to write leave at once.
 *
 *     set_symbol ROWS %n {version = ROWS.2}        set_symbol ROWS %n {version = ROWS.2}
 *     %x = read ...                                if (64*$WG0 < ROWS.2) {
 *     ...                                     =>     %x = read ...
 *     write %x, %a {mask = [$x0 < ROWS.2]}           ...
 *                                                    write %x, %a {mask = [$x0 < ROWS.2]}
 *                                                  }
 *
 * A kernel over sequences of different lengths has workgroups for the longest one. In shorter ones, some of
 * them have rows beyond the end: everything that they compute is masked.
 *
 * All writes must have a test that fails for all elements under one condition, which a symbol decides that
 * the kernel sets. Other grids have no such workgroups. */
#include "analysis/access/in_bounds.h"
#include "analysis/memory_uses.h"
#include "ir/region_facts.h"
#include "transform/edges/access_ends.h"
#include "transform/pass.h"

#include <string.h>

enum { MAX_SYMBOLS = 16 };

typedef struct Leave {
  Kernel *k;
  Arena *arena;
  SymCtx *sym;
  const Facts *facts;
} Leave;

/* ---- when nothing is written ---- */

typedef Vec(const Sym *) Conditions;

/* Each is enough for an access to have no elements. */
static Conditions conditions_of(const Leave *l, const AccessBounds *b) {
  Conditions out = {0};
  AccessEnds ends;
  if (!b || !access_ends(l->k, l->facts, &b->access, &ends)) return out;
  for (int i = 0; i < b->nbounds; i++) {
    const Bound *one = &b->bounds[i];
    if (one->verdict != BOUND_tested || one->of_memory || !one->limit) continue;
    const Sym *least = access_least(&ends, one->at);
    const Sym *beyond = least ? sym_ge(l->sym, least, one->limit) : NULL;
    if (beyond) vec_push(l->arena, &out, sym_simplify(l->sym, l->facts->header, beyond));
  }
  return out;
}

static bool has(const Conditions *all, const Sym *e) {
  for (int i = 0; i < all->n; i++)
    if (all->at[i] == e) return true;
  return false;
}

static void keep_common(Conditions *all, const Conditions *with) {
  int n = 0;
  for (int i = 0; i < all->n; i++)
    if (has(with, all->at[i])) all->at[n++] = all->at[i];
  all->n = n;
}

/* Others wait for what the workgroup does, or see it. */
static bool is_awaited(const Op *op) {
  bool waits = op->kind == OP_barrier && strcmp(op_attr(op, ATTR_mode)->text, "workgroup") != 0;
  return waits || op->kind == OP_debug_log || op_is_atomic(op) || op_peers(op) > 1;
}

/* What all writes to arguments have in common. */
static Conditions common_conditions(const Leave *l) {
  const MemoryUses *m = l->facts->memory_uses;
  Conditions all = {0}, none = {0};
  bool first = true;
  for (const Op *op = ir_first(l->k); op; op = ir_next(op))
    if (is_awaited(op)) return none;
  for (int i = 0; i < m->uses.n; i++) {
    const MemoryUse *u = &m->uses.at[i];
    if (u->how == TOUCH_READ || m->memories.at[u->memory]->def) continue;
    Conditions here = conditions_of(l, l->facts->in_bounds[u->op->id]);
    if (first) all = here;
    else keep_common(&all, &here);
    first = false;
  }
  return all;
}

/* ---- where it is known ---- */

/* All threads of a workgroup set the symbol to the same value. */
static bool is_uniform(const Leave *l, const Op *set) {
  const Value *v = set->args[0];
  int extent[IR_MAX_RANK];
  if (v->varying) return false;
  if (v->type->kind != TYPE_tile) return true;
  if (!distribute_extents(l->facts->distribute, set, v->type, extent)) return false;
  for (int d = 0; d < v->type->rank; d++)
    if (extent[d] != 1) return false;
  return true;
}

static Op *setter_of(const Leave *l, const Sym *version) {
  for (Op *op = l->k->body->first; op; op = op->next)
    if (op->kind == OP_set_symbol && op_attr(op, ATTR_version)->sym == version) return op;
  return NULL;
}

/* The last op that sets a symbol of the expression; NULL: none does, or one is set elsewhere. */
static Op *last_setter(const Leave *l, const Sym *e) {
  const Sym *symbols[MAX_SYMBOLS];
  int n = sym_free_symbols(e, symbols, MAX_SYMBOLS);
  Op *last = NULL;
  for (int i = 0; i < n && i < MAX_SYMBOLS; i++) {
    const char *name = sym_name(symbols[i]);
    if (name[0] == '$' && strncmp(name, "$WG", 3) != 0) return NULL;
    if (!strchr(name, '.')) continue;
    Op *set = setter_of(l, symbols[i]);
    if (!set || !is_uniform(l, set)) return NULL;
    if (!last || op_comes_before(last, set)) last = set;
  }
  return n <= MAX_SYMBOLS ? last : NULL;
}

static bool comes_before_loops(const Op *op) {
  for (; op; op = op->prev)
    if (op->body) return false;
  return true;
}

static void wrap(Leave *l, Op *after, const Sym *condition) {
  Op *guard = ir_op_new(l->k, OP_if, after->at, NULL, 0);
  op_set_attr(l->k, guard, (Attr){.key = ATTR_expr, .sym = condition});
  Region *body = ir_region_new(l->k, guard);
  for (Op *op = after->next, *next; op; op = next) {
    next = op->next;
    if (op->kind == OP_alloc) continue;
    ir_remove(op);
    ir_append(body, op);
  }
  ir_append(l->k->body, guard);
  ir_append(body, ir_op_new(l->k, OP_yield, after->at, NULL, 0));
}

bool pass_leave(Kernel *k, PassCtx *cx) {
  Leave l = {.k = k, .arena = cx->scratch, .sym = k->cx->sym, .facts = &cx->facts};
  cx->idle = true;
  int peers;
  if (kernel_persistent(k) || (cx->machine && cx->machine->cluster > 1)) return true;
  if (kernel_split_axis(k, &peers) >= 0) return true; /* others add what this workgroup sends */
  Conditions all = common_conditions(&l);
  for (int i = 0; cx->idle && i < all.n; i++) {
    Op *set = last_setter(&l, all.at[i]);
    const Sym *some = set ? sym_not(l.sym, all.at[i]) : NULL;
    if (!some || !comes_before_loops(set)) continue;
    wrap(&l, set, some);
    cx->idle = false;
  }
  sym_take_error(k->cx->sym);
  return true;
}
