/* ptx_region.c: loops and conditionals. The values that a region carries have registers of their
 * own, their homes, which are set before the region and updated by its yield. */
#include <inttypes.h>

#include "backend/ptx/ptx_state.h"
#include "ir/region_facts.h"

typedef struct Carried {
  Held *homes;
  int n;
} Carried;

/* Memory has no registers, so it cannot be carried. */
static bool carries_values(Ptx *p, const Op *op) {
  for (int i = op_carried(op); i < op->nargs; i++)
    if (!type_is_value(op->args[i]->type)) return ptx_fail(p, op, "loop-carried memory");
  return true;
}

/* A conditional may change registers that nothing else needs: it would otherwise copy them even
 * where it does not run. */
static bool takes_over(Ptx *p, const Op *op, const Value *v, bool words, Held *home) {
  Held *from = ptx_get(p, v);
  if (op->kind != OP_if || words || !ptx_has_elems(p, from) || !ptx_may_overwrite(p, op, v))
    return false;
  *home = *from;
  home->word = NULL;
  home->own = true;
  return true;
}

/* The registers for the values that a region carries, initialised. */
static Carried open_carried(Ptx *p, const Op *op, Value *const *from, int first) {
  const Region *body = op->body;
  Carried c = {.n = body->nargs - first};
  c.homes = ARENA_ARRAY(p->arena, Held, c.n);
  for (int i = 0; i < c.n; i++) {
    const Type *t = from[i]->type;
    bool words = ptx_is_packed(t->dtype) && t->n * dtype_info[t->dtype].bits % 32 == 0;
    if (!takes_over(p, op, from[i], words, &c.homes[i])) {
      c.homes[i] = held_new(p, t->dtype, t->n, words);
      ptx_move_held(p, &c.homes[i], ptx_get(p, from[i]));
    }
    ptx_set(p, body->args[first + i], c.homes[i]);
  }
  return c;
}

/* The value is already in its home. */
static bool is_home(Ptx *p, const Held *home, Held *v) {
  const Reg *to = home->word ? home->word : home->elem;
  const Reg *from = home->word ? ptx_words_of(p, v) : ptx_elems_of(p, v);
  int n = home->word ? ptx_word_count(home->dtype, home->n) : home->n;
  for (int i = 0; i < n; i++)
    if (to[i].name != from[i].name) return false;
  return true;
}

static bool holds(const Held *h, Reg r) {
  int words = h->word ? ptx_word_count(h->dtype, h->n) : 0;
  for (int i = 0; i < words; i++)
    if (h->word[i].name == r.name) return true;
  for (int i = 0; h->elem && i < h->n; i++)
    if (h->elem[i].name == r.name) return true;
  return false;
}

/* The value is in registers of some home: another one, or its own in another order. */
static bool is_in_homes(const Carried *c, const Held *v) {
  for (int i = 0; i < c->n; i++) {
    const Held *home = &c->homes[i];
    const Reg *regs = home->word ? home->word : home->elem;
    int n = home->word ? ptx_word_count(home->dtype, home->n) : home->n;
    for (int r = 0; r < n; r++)
      if (holds(v, regs[r])) return true;
  }
  return false;
}

/* A yielded value may be held by another home; such values are copied before any home is
 * written. */
static void yield_carried(Ptx *p, const Carried *c, const Op *yield, int first) {
  Held *next = ARENA_ARRAY(p->arena, Held, c->n);
  bool *stays = ARENA_ARRAY(p->arena, bool, c->n);
  for (int i = 0; i < c->n; i++) {
    const Held *home = &c->homes[i];
    Held *v = ptx_get(p, yield->args[first + i]);
    stays[i] = is_home(p, home, v);
    if (stays[i]) continue;
    next[i] = *v;
    if (!is_in_homes(c, v)) continue;
    next[i] = held_new(p, home->dtype, home->n, home->word != NULL);
    ptx_move_held(p, &next[i], v);
  }
  for (int i = 0; i < c->n; i++)
    if (!stays[i]) ptx_move_held(p, &c->homes[i], &next[i]);
}

static void set_results(Ptx *p, const Op *op, const Carried *c) {
  for (int i = 0; i < op->nresults; i++) ptx_set(p, &op->results[i], c->homes[i]);
}

/* Values defined in a region are not visible after it. */
typedef struct Mark {
  int symbols, addresses;
} Mark;

static Mark open_mark(Ptx *p) {
  vec_push(p->arena, &p->regions, ++p->nregions);
  return (Mark){p->symbols.n, p->addresses.n};
}

static void close_mark(Ptx *p, Mark m) {
  p->symbols.n = m.symbols, p->addresses.n = m.addresses;
  p->regions.n--;
}

typedef struct Loop {
  const Op *op;
  int label, bits; /* bits of the counter */
  Reg at, trips;
  Carried c;
} Loop;

/* The counter of a loop that begins at 0, or where its operand says. */
static void open_counter(Ptx *p, Loop *l) {
  const Sym *count = op_attr(l->op, ATTR_trips)->sym;
  bool from = op_carried(l->op) > 0;
  Reg start = {0};
  if (from) start = ptx_elems_of(p, ptx_get(p, l->op->args[0]))[0];
  bool small = (!from || start.class == REG_R) &&
               sym_range(p->sym, p->facts, count).hi <= INT32_MAX - op_step(l->op);
  l->bits = small ? 32 : 64;
  if (from && !small && start.class == REG_R)
    start = ptx_let(p, REG_RD, "cvt.s64.s32 %s", start.name);
  l->trips = ptx_expr(p, l->op, count, small ? DTYPE_i32 : DTYPE_index, NULL);
  l->at = ptx_new(p, small ? REG_R : REG_RD);
  l->c = open_carried(p, l->op, l->op->args + from, 0);
  if (from) ptx_line(p, "max.s%d %s, %s, 0", l->bits, l->at.name, start.name);
  else ptx_line(p, "mov.b%d %s, 0", l->bits, l->at.name);
}

static void branch_if_done(Ptx *p, const Loop *l, Reg counter, const char *label) {
  Reg done = ptx_let(p, REG_P, "setp.ge.s%d %s, %s", l->bits, counter.name, l->trips.name);
  ptx_line(p, "@%s bra $%s%d", done.name, label, l->label);
}

static void end_iteration(Ptx *p, const Loop *l, const Op *from, const char *label) {
  ptx_ops(p, from, NULL);
  if (p->failed) return;
  yield_carried(p, &l->c, l->op->body->last, 0);
  if (!label) return;
  ptx_line(p, "add.s%d %s, %s, %" PRId64, l->bits, l->at.name, l->at.name, op_step(l->op));
  ptx_line(p, "bra $%s%d", label, l->label);
}

/* The wait for products that overlap the ops before it. ptxas would hoist the wait and the ops that follow
 * it, but it moves nothing across a branch: so the loop exits before the wait, and the ops from there on are
 * emitted twice. NULL if there is no such wait, or if one of those ops cannot be emitted twice. */
static const Op *late_wait(const Region *body) {
  const Op *found = NULL;
  for (const Op *op = body->first; op; op = op->next) {
    if (!found && ptx_is_late_wait(op)) found = op;
    if (found && (op_is_loop(op) || op->kind == OP_inline_ptx)) return NULL;
  }
  return found;
}

/*     $loop: done? bra $end            $loop: done? bra $end
 *            body                      $next: body up to the wait; the last one? bra $last
 *            bra $loop          or            rest of the body
 *     $end:                                   bra $next
 *                                      $last: rest of the body
 *                                      $end: */
void ptx_for(Ptx *p, const Op *op) {
  if (!carries_values(p, op)) return;
  Loop l = {.op = op, .label = p->labels++};
  const SymFacts *outside = p->facts;
  const Op *wait = late_wait(op->body);
  open_counter(p, &l);
  ptx_addresses_before(p, op->body);
  ptx_label(p, "loop", l.label);
  branch_if_done(p, &l, l.at, "end");
  Mark mark = open_mark(p);
  ptx_define(p, ir_loop_counter(p->k, op_attr(op, ATTR_axis)->sym), l.at);
  p->facts = loop_facts(p->k, p->arena, op, p->entry, p->facts);
  if (wait) {
    ptx_label(p, "next", l.label);
    ptx_ops(p, op->body->first, wait);
    Reg after = ptx_let(p, l.at.class, "add.s%d %s, %" PRId64, l.bits, l.at.name, op_step(op));
    branch_if_done(p, &l, after, "last");
    Mark rest = open_mark(p);
    end_iteration(p, &l, wait, "next");
    close_mark(p, rest);
    ptx_label(p, "last", l.label);
    end_iteration(p, &l, wait, NULL);
  } else end_iteration(p, &l, op->body->first, "loop");
  if (p->failed) return;
  p->facts = outside;
  close_mark(p, mark);
  ptx_label(p, "end", l.label);
  set_results(p, op, &l.c);
}

/* Branches to label `end` where the condition of `op` does not hold. */
static void branch_past(Ptx *p, const Op *op, int end) {
  if (ptx_branch_by_wave(p, op, end)) return;
  Value *value = op_condition(op);
  Reg test =
      value ? ptx_truth(p, value) : ptx_expr(p, op, op_attr(op, ATTR_expr)->sym, DTYPE_i1, NULL);
  ptx_line(p, "@!%s bra $end%d", test.name, end);
}

/* A conditional and its alternative: told so, ptxas knows that what both use is not needed after the first. */
static void either(Ptx *p, const Op *op, const Op *other) {
  int first = p->labels++;
  branch_past(p, op, first);
  Mark mark = open_mark(p);
  ptx_region(p, op->body);
  close_mark(p, mark);
  int second = p->labels++;
  ptx_line(p, "bra $end%d", second);
  ptx_label(p, "end", first);
  mark = open_mark(p);
  if (!p->failed) ptx_region(p, other->body);
  close_mark(p, mark);
  ptx_label(p, "end", second);
}

void ptx_if(Ptx *p, const Op *op) {
  const Op *other = op_alternative(p->k, op);
  if (other) either(p, op, other);
  if (other || (op->prev && op_alternative(p->k, op->prev) == op)) return;
  if (!carries_values(p, op)) return;
  int n = p->labels++;
  Carried c = open_carried(p, op, op->args + op_carried(op), 0);
  branch_past(p, op, n);
  Mark mark = open_mark(p);
  ptx_region(p, op->body);
  if (p->failed) return;
  yield_carried(p, &c, op->body->last, 0);
  close_mark(p, mark);
  ptx_label(p, "end", n);
  set_results(p, op, &c);
}

void ptx_while(Ptx *p, const Op *op) {
  if (!carries_values(p, op)) return;
  int n = p->labels++;
  Carried c = open_carried(p, op, op->args, 0);
  ptx_addresses_before(p, op->body);
  Mark mark = open_mark(p);
  ptx_label(p, "loop", n);
  ptx_define(p, op_attr(op, ATTR_version)->sym, c.homes[0].elem[0]);
  for (int i = 1; i < c.n; i++) {
    RegClass class = ptx_class_of(c.homes[i].dtype);
    if (c.homes[i].elem && (class == REG_R || class == REG_RD || class == REG_P))
      ptx_define(p, ir_iter_arg(p->k->cx, i - 1), c.homes[i].elem[0]);
  }
  Reg test = ptx_expr(p, op, op_attr(op, ATTR_expr)->sym, DTYPE_i1, NULL);
  ptx_line(p, "@!%s bra $end%d", test.name, n);
  ptx_region(p, op->body);
  if (p->failed) return;
  yield_carried(p, &c, op->body->last, 0);
  ptx_line(p, "bra $loop%d", n);
  close_mark(p, mark);
  ptx_label(p, "end", n);
  for (int i = 0; i < op->nresults; i++) ptx_set(p, &op->results[i], c.homes[i + 1]);
}
