/* once: replaces a loop that is sure to run exactly once by its body.
 *
 *     %r = for K with {trips = 1} carry %acc = %z {        %p = expr $T0 : i32
 *       %p = expr 32*$ARGK + $T0 : i32                     %x = load %a, %p : f32
 *       %x = load %a, %p : f32                      =>     %n = add %z, %x
 *       %n = add %acc, %x                                  store %n, %c, %at
 *       yield %n
 *     }
 *     store %r, %c, %at
 *
 * A loop that is sure never to run is replaced by its initial values. The trip count may be an
 * expression: the facts of the header and of the regions around decide. A while loop stays. So does
 * a loop whose body divides by the counter, if that is 0: such an expression has no other spelling.
 * A conditional whose condition is False, such as one for what a further iteration would need, is removed. An op
 * is rewritten once for each such loop around it. */
#include "ir/region_facts.h"
#include "transform/loops/counter.h"
#include "transform/pass.h"

typedef struct Once {
  Kernel *k;
  Arena *scratch;
  SymCtx *sym;
  const SymFacts *entry; /* facts that hold throughout the kernel */
  Value **rename;        /* by value id; NULL: itself */
  bool changed;
} Once;

/* ---- how often a loop runs ---- */

typedef enum Runs { RUNS_NEVER, RUNS_ONCE, RUNS_UNKNOWN } Runs;

static Value *renamed(const Once *o, Value *v) {
  while (o->rename[v->id]) v = o->rename[v->id];
  return v;
}

/* The first value of the counter, if it is a number. */
static bool first_value(const Op *loop, int64_t *first) {
  *first = 0;
  if (!op_has(loop, ATTR_from)) return true;
  const Op *def = loop->args[0]->def;
  if (!def || def->nargs || (def->kind != OP_scalar && def->kind != OP_expr)) return false;
  const Attr *a = op_attr(def, def->kind == OP_expr ? ATTR_expr : ATTR_value);
  if (!a->sym || !sym_is_int(a->sym, first)) return false;
  if (*first < 0) *first = 0;
  return true;
}

/* The counter begins at `first` and continues while it is below the trips. */
static Runs how_often(Once *o, const SymFacts *facts, const Op *loop, int64_t first) {
  const Sym *trips = op_attr(loop, ATTR_trips)->sym, *from = sym_int(o->sym, first);
  const Sym *second = sym_add(o->sym, from, sym_int(o->sym, op_step(loop)));
  Runs runs = RUNS_UNKNOWN;
  if (sym_proves(o->sym, facts, sym_ge(o->sym, second, trips))) {
    SymTruth any = sym_prove(o->sym, facts, sym_lt(o->sym, from, trips));
    if (any != SYM_UNKNOWN) runs = any == SYM_ALWAYS ? RUNS_ONCE : RUNS_NEVER;
  }
  sym_take_error(o->sym);
  return runs;
}

/* Replaces the counter in the body. Without `keep` it only says whether every expression has a value
 * then. */
static bool replace_counter(Once *o, const Op *loop, int64_t first, bool keep) {
  CounterSwap c = counter_swap(o->k, loop, sym_int(o->sym, first));
  for (Op *op = loop->body->first; op; op = op->next)
    if (!counter_replace(&c, op, keep)) return false;
  return true;
}

/* ---- replacing loops ---- */

static void give_name(Value *to, const Value *from) {
  if (to->def && !to->name) to->name = from->name;
}

/* The op to continue with: the first of the body, or the one after the loop. */
static Op *take_out(Once *o, Op *loop, Runs runs) {
  Region *body = loop->body;
  Value **initial = loop->args + op_carried(loop);
  for (int i = 0; i < loop->nresults; i++) {
    Value *last = runs == RUNS_ONCE ? body->last->args[i] : initial[i];
    o->rename[body->args[i]->id] = initial[i];
    o->rename[loop->results[i].id] = last;
    give_name(last, &loop->results[i]);
  }
  Op *next = loop->next;
  ir_remove(body->last);
  for (Op *op; runs == RUNS_ONCE && (op = body->first);) {
    if (next == loop->next) next = op;
    ir_remove(op);
    ir_insert_before(loop, op);
  }
  ir_remove(loop);
  o->changed = true;
  return next;
}

/* Whether the loop can be replaced; its body then no longer mentions the counter. */
static bool may_go(Once *o, const SymFacts *facts, Op *loop, Runs *runs) {
  int64_t first;
  if (loop->kind != OP_for || !first_value(loop, &first)) return false;
  *runs = how_often(o, facts, loop, first);
  if (*runs != RUNS_ONCE) return *runs == RUNS_NEVER;
  return replace_counter(o, loop, first, false) && replace_counter(o, loop, first, true);
}

static bool is_never_taken(const Once *o, const Op *op) {
  const Attr *condition = op->kind == OP_if ? op_attr(op, ATTR_expr) : NULL;
  return condition && condition->sym == sym_bool(o->sym, false);
}

static void search(Once *o, const SymFacts *facts, const Region *r) {
  for (Op *op = r->first, *next; op; op = next) {
    Runs runs;
    next = op->next;
    for (int i = 0; i < op->nargs; i++) op->args[i] = renamed(o, op->args[i]);
    if (is_never_taken(o, op)) next = take_out(o, op, RUNS_NEVER);
    else if (may_go(o, facts, op, &runs)) next = take_out(o, op, runs);
    else if (op->body) search(o, region_facts(o->k, o->scratch, op, o->entry, facts), op->body);
  }
}

bool pass_once(Kernel *k, PassCtx *cx) {
  Once o = {.k = k, .scratch = cx->scratch, .sym = k->cx->sym, .entry = cx->facts.header};
  o.rename = ARENA_ARRAY(cx->scratch, Value *, k->nvalues);
  search(&o, o.entry, k->body);
  cx->idle = !o.changed;
  return true;
}
