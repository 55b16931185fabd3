/* uniform.c: computes the levels of uniform.h, one rule per op, iterating until loops converge. */
#include "analysis/uniform.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "ir/attr.h"
#include "ir/ops/access.h"

typedef struct Walk {
  Kernel *k;
  const Distribution *d;
  UniformFact *values, *regions;
  bool changed;
} Walk;

static UniformFact worse(UniformFact a, UniformFact b) { return b.level > a.level ? b : a; }

static UniformFact at_level(UniformLevel level, const Op *op, const Sym *symbol) {
  return (UniformFact){level, op, symbol};
}

/* ---- symbols --------------------------------------------------------------------------------- */

static const Op *opens_version(const Walk *w, const Sym *version) {
  for (const Op *op = ir_first(w->k); op; op = ir_next(op)) {
    const Attr *a = op_attr(op, ATTR_version);
    if (a && a->sym == version) return op;
  }
  return NULL;
}

static bool has_prefix(const char *name, const char *prefix) {
  return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* The carried value of the innermost while loop around `op` that $GET_ITER_ARG_i refers to. */
static UniformFact iter_arg(const Walk *w, const Op *op, int i) {
  const Op *at = op;
  while (at && at->kind != OP_while) at = at->parent->owner;
  if (!at || 1 + i >= at->body->nargs) return at_level(UNIFORM_VARYING, op, NULL);
  return w->values[at->body->args[1 + i]->id];
}

static UniformLevel level_of_id(const Sym *s) {
  const char *name = sym_name(s);
  if (strcmp(name, "$T1") == 0 || strcmp(name, "$T2") == 0) return UNIFORM_WAVE;
  return strcmp(name, "$T0") == 0 || has_prefix(name, "$GPR") ? UNIFORM_VARYING : UNIFORM_GRID;
}

static UniformFact symbol_fact(const Walk *w, const Op *op, const Sym *s) {
  const char *name = sym_name(s);
  if (has_prefix(name, "$WG")) return at_level(UNIFORM_WORKGROUP, NULL, s);
  if (level_of_id(s)) return at_level(level_of_id(s), NULL, s);
  if (has_prefix(name, WV_ITER_ARG)) return iter_arg(w, op, atoi(name + strlen(WV_ITER_ARG)));
  for (const Op *at = op; at; at = at->parent->owner) {
    const Op *loop = at->parent->owner;
    const Attr *axis = loop ? op_attr(loop, ATTR_axis) : NULL;
    if (axis && ir_loop_counter(w->k, axis->sym) == s)
      return worse(at_level(UNIFORM_WORKGROUP, NULL, s), w->regions[loop->id]);
  }
  const Op *setter = opens_version(w, s);
  if (!setter) return at_level(UNIFORM_GRID, NULL, NULL);
  const Value *v = setter->kind == OP_while ? setter->body->args[0] : setter->args[0];
  return worse(at_level(UNIFORM_WORKGROUP, setter, s), w->values[v->id]);
}

static const Sym *with_thread(SymCtx *cx, const Sym *s, const Sym *thread) {
  SymBinding to[] = {{sym_symbol(cx, "$T0", true), thread}, {sym_symbol(cx, "$T0", false), thread}};
  s = sym_subst(cx, s, to, 2);
  return s && sym_is_bool(s) ? sym_select(cx, s, sym_int(cx, 1), sym_int(cx, 0)) : s;
}

/* $T0 is the index of the wave along dimension 0 times the threads of a wave, plus the lane:
 * `floor($T0 / 64)` and `$T0 < 128` are uniform over 64 lanes. */
static bool differs_in_wave(const Distribution *d, const Sym *s) {
  SymCtx *cx = d->k->cx->sym;
  const HardwareSpec *hardware = kernel_hardware(d->k);
  const Sym *waves = d->waves[0] ? distribute_fixed(d, d->waves[0]) : sym_int(cx, 1);
  int64_t n;
  if (!hardware || hardware->threads < 1 || !waves || !sym_is_int(waves, &n) || n < 1) return true;
  const Sym *lane = sym_symbol(cx, "$lane", true), *wave = sym_symbol(cx, "$wave", true);
  const Sym *first = sym_mul(cx, wave, sym_int(cx, hardware->threads));
  SymFacts *f = sym_facts_new(d->arena, cx, d->facts);
  sym_assume_range(f, lane, 0, hardware->threads - 1);
  sym_assume_range(f, wave, 0, n - 1);
  const Sym *any = with_thread(cx, s, sym_add(cx, first, lane)),
            *of_first = with_thread(cx, s, first);
  return !any || !of_first || sym_equal(cx, f, any, of_first) != SYM_ALWAYS;
}

UniformLevel uniform_by_threads(const Distribution *d, const Sym *s) {
  const Sym *symbols[64];
  UniformLevel level = UNIFORM_GRID;
  int n = s ? sym_free_symbols(s, symbols, WV_LEN(symbols)) : 0;
  if (n > (int)WV_LEN(symbols)) return UNIFORM_VARYING;
  for (int i = 0; i < n; i++) {
    UniformLevel next = level_of_id(symbols[i]);
    bool lanes = next == UNIFORM_VARYING && strcmp(sym_name(symbols[i]), "$T0") == 0;
    if (lanes && !differs_in_wave(d, s)) next = UNIFORM_WAVE;
    if (next > level) level = next;
  }
  return level;
}

static UniformFact expr_fact(const Walk *w, const Op *op, const Sym *s) {
  const Sym *symbols[64];
  UniformFact fact = {UNIFORM_GRID, NULL, NULL};
  const Sym *seen = s ? distribute_expr(w->d, op, s) : NULL;
  int n = seen ? sym_free_symbols(seen, symbols, WV_LEN(symbols)) : 0;
  if (n > (int)WV_LEN(symbols)) return at_level(UNIFORM_VARYING, op, NULL);
  for (int i = 0; i < n; i++) {
    UniformFact next = symbol_fact(w, op, symbols[i]);
    if (level_of_id(symbols[i])) next.level = uniform_by_threads(w->d, seen);
    fact = worse(fact, next);
  }
  return fact;
}

/* ---- attributes ------------------------------------------------------------------------------ */

typedef struct ExprWalk {
  const Walk *w;
  const Op *op;
  UniformFact fact;
} ExprWalk;

static const Sym *visit_expr(void *user, const Sym *s) {
  ExprWalk *e = user;
  e->fact = worse(e->fact, expr_fact(e->w, e->op, s));
  return s;
}

/* The level of everything that an op's attributes mention. */
static UniformFact attrs_fact(const Walk *w, const Op *op) {
  ExprWalk e = {w, op, {UNIFORM_GRID, NULL, NULL}};
  for (int i = 0; i < op->nattrs; i++) {
    Attr copy = op->attrs[i];
    attr_rewrite(w->k, &copy, visit_expr, &e);
  }
  return e.fact;
}

static UniformFact args_fact(const Walk *w, const Op *op, int from) {
  UniformFact fact = {UNIFORM_GRID, NULL, NULL};
  for (int i = from; i < op->nargs; i++)
    if (type_is_value(op->args[i]->type)) fact = worse(fact, w->values[op->args[i]->id]);
  return fact;
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* A tile of one element is the same for all of its holders. */
static bool is_single(const Walk *w, const Op *op, const Type *t) {
  for (int i = 0; i < t->rank; i++)
    if (!distribute_is_one(w->d, op, t->dims[i])) return false;
  return true;
}

static UniformFact by_elements(const Walk *w, const Op *op, const Type *t) {
  return at_level(is_single(w, op, t) ? UNIFORM_WORKGROUP : UNIFORM_VARYING, op, NULL);
}

static UniformFact reduction_fact(const Walk *w, const Op *op, const Type *t) {
  int64_t waves;
  const Sym *shared = distribute_waves_apart(w->d, op_attr(op, ATTR_dim)->sym);
  bool whole = op_has(op, ATTR_block) || (shared && sym_is_int(shared, &waves) && waves <= 1);
  UniformFact fact =
      worse(by_elements(w, op, t), at_level(whole ? UNIFORM_WORKGROUP : UNIFORM_WAVE, op, NULL));
  UniformFact arg = args_fact(w, op, 0);
  return is_single(w, op, op->args[0]->type) ? worse(fact, arg) : fact;
}

/* One thread acts and passes the result on, unless threads disagree or each acts on its own. */
static UniformFact atomic_fact(const Walk *w, const Op *op, const Type *t) {
  if (atomic_by(op) == ATOMIC_BY_THREAD) return at_level(UNIFORM_VARYING, op, NULL);
  const Op *owner = op->parent->owner;
  UniformFact fact = worse(by_elements(w, op, t), worse(attrs_fact(w, op), args_fact(w, op, 0)));
  return owner ? worse(fact, w->regions[owner->id]) : fact;
}

static UniformFact result_fact(const Walk *w, const Op *op, const Type *t) {
  if (op_is_atomic(op)) return atomic_fact(w, op, t);
  switch (op->kind) {
  case OP_runs: return expr_fact(w, op, distribute_runs(w->d, op));
  case OP_fill:
  case OP_scalar: return attrs_fact(w, op);
  case OP_exists:
  case OP_self_index: return by_elements(w, op, t);
  case OP_inside:
  case OP_read: return worse(by_elements(w, op, t), worse(attrs_fact(w, op), args_fact(w, op, 1)));
  case OP_sum:
  case OP_prod:
  case OP_max:
  case OP_reduce:
  case OP_min: return reduction_fact(w, op, t);
  case OP_extract:
  case OP_extract_slice:
  case OP_reshape: return at_level(UNIFORM_VARYING, op, NULL);
  case OP_mma:
  case OP_scaled_mma:
  case OP_cumsum:
  case OP_scan:
  case OP_topk: return by_elements(w, op, t);
  default: return worse(args_fact(w, op, 0), attrs_fact(w, op));
  }
}

static void raise_value(Walk *w, const Value *v, UniformFact fact, const Op *op) {
  if (v->varying) fact = at_level(UNIFORM_VARYING, op, NULL);
  if (fact.level <= w->values[v->id].level) return;
  w->values[v->id] = fact;
  w->changed = true;
}

/* ---- regions --------------------------------------------------------------------------------- */

static UniformFact control_fact(const Walk *w, const Op *op) {
  UniformFact fact = expr_fact(w, op, op_has(op, ATTR_expr) ? op_attr(op, ATTR_expr)->sym : NULL);
  if (op_condition(op)) return worse(fact, w->values[op_condition(op)->id]);
  if (op->kind == OP_for) {
    fact = worse(fact, expr_fact(w, op, distribute_trips(w->d, op)));
    if (op_has(op, ATTR_from)) fact = worse(fact, w->values[op->args[0]->id]);
  }
  if (op->kind == OP_while) fact = worse(fact, w->values[op->body->args[0]->id]);
  return fact;
}

static void visit_region(Walk *w, const Region *r);

static void visit_body(Walk *w, const Op *op) {
  UniformFact fact = control_fact(w, op);
  const Op *owner = op->parent->owner, *yield = op->body->last;
  if (owner) fact = worse(fact, w->regions[owner->id]);
  if (fact.level > w->regions[op->id].level) w->regions[op->id] = fact, w->changed = true;
  int first = op_carried(op), axis = op->kind == OP_while ? 1 : 0;
  if (axis) {
    raise_value(w, op->body->args[0], w->values[op->args[0]->id], op);
    raise_value(w, op->body->args[0], w->values[yield->args[0]->id], op);
  }
  for (int i = 0; i < op->nresults; i++) {
    const Value *arg = op->body->args[axis + i];
    raise_value(w, arg, w->values[op->args[first + i]->id], op);
    if (op->kind != OP_if) raise_value(w, arg, w->values[yield->args[axis + i]->id], op);
    raise_value(w, &op->results[i], w->values[arg->id], op);
    raise_value(w, &op->results[i], w->values[yield->args[axis + i]->id], op);
    raise_value(w, &op->results[i], fact, op);
  }
  visit_region(w, op->body);
}

static void visit_region(Walk *w, const Region *r) {
  for (const Op *op = r->first; op; op = op->next) {
    if (op->body) visit_body(w, op);
    for (int i = 0; !op->body && i < op->nresults; i++)
      raise_value(w, &op->results[i], result_fact(w, op, op->results[i].type), op);
  }
}

const Uniformity *find_uniform(Kernel *k, const Facts *known) {
  Arena *a = known->arena;
  Walk w = {.k = k, .d = known->distribute};
  w.values = ARENA_ARRAY(a, UniformFact, k->nvalues);
  w.regions = ARENA_ARRAY(a, UniformFact, k->nops);
  do {
    w.changed = false;
    visit_region(&w, k->body);
  } while (w.changed);
  UniformLevel *addresses = ARENA_ARRAY(a, UniformLevel, k->nops);
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_write) addresses[op->id] = attrs_fact(&w, op).level;
  Uniformity *u = ARENA_NEW(a, Uniformity);
  *u = (Uniformity){k, w.values, w.regions, addresses};
  return u;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* "the workgroup" */
static const char *uniform_name(UniformLevel level) {
  static const char *const names[] = {"the launch", "the workgroup", "the wave", "one thread"};
  return names[level];
}

UniformFact uniform_around(const Uniformity *u, const Op *op) {
  const Op *owner = op->parent->owner;
  return owner ? u->regions[owner->id] : (UniformFact){UNIFORM_GRID, NULL, NULL};
}

bool uniform_store(const Uniformity *u, const Op *write) {
  return !write->args[0]->varying && u->addresses[write->id] <= UNIFORM_WORKGROUP &&
         uniform_around(u, write).level <= UNIFORM_WORKGROUP;
}

bool uniform_answer(const Uniformity *u, const Op *atomic) {
  const Value *v = atomic->nresults ? &atomic->results[0] : NULL;
  if (!v || atomic_by(atomic) == ATOMIC_BY_THREAD) return false;
  for (const Op *op = ir_first(u->k); op; op = ir_next(op))
    if (op_takes(op, v) && (op->kind != OP_write || !uniform_store(u, op))) return true;
  return false;
}

bool uniform_require(const Uniformity *u, const Op *op, UniformLevel level) {
  UniformFact fact = uniform_around(u, op);
  if (fact.level <= level) return true;
  Diags *diags = &u->k->cx->diags;
  Diag *d =
      diag_add(diags, DIAG_E0607, op->at,
               "`%s` must be executed by %s as a whole, but the condition here differs within it",
               op_info[op->kind].name, uniform_name(level));
  if (fact.symbol)
    diag_note(diags, d, fact.op ? fact.op->at : op->at, "`%s` differs between threads",
              sym_text(diags->arena, fact.symbol));
  else if (fact.op)
    diag_note(diags, d, fact.op->at, "the result of `%s` differs between threads",
              op_info[fact.op->kind].name);
  return diag_hint(diags, d,
                   "move it out of the region, or branch on a value that is the same throughout %s",
                   uniform_name(level));
}
