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

void ptx_for(Ptx *p, const Op *op) {
  if (!carries_values(p, op)) return;
  int n = p->labels++, first = op_carried(op);
  int64_t by = op_step(op);
  const Sym *counter = ir_loop_counter(p->k, op_attr(op, ATTR_axis)->sym);
  const Sym *count = op_attr(op, ATTR_trips)->sym;
  const SymFacts *outside = p->facts;
  bool small = !first && sym_range(p->sym, p->facts, count).hi <= INT32_MAX - by;
  int bits = small ? 32 : 64;
  Reg trips = ptx_expr(p, op, count, small ? DTYPE_i32 : DTYPE_index, NULL);
  Reg at = ptx_new(p, small ? REG_R : REG_RD), done = ptx_new(p, REG_P);
  Carried c = open_carried(p, op, op->args + first, 0);
  if (first)
    ptx_line(p, "max.s64 %s, %s, 0", at.name, ptx_elems_of(p, ptx_get(p, op->args[0]))[0].name);
  else ptx_line(p, "mov.b%d %s, 0", bits, at.name);
  ptx_addresses_before(p, op->body);
  ptx_label(p, "loop", n);
  ptx_line(p, "setp.ge.s%d %s, %s, %s", bits, done.name, at.name, trips.name);
  ptx_line(p, "@%s bra $end%d", done.name, n);
  Mark mark = open_mark(p);
  ptx_define(p, counter, at);
  p->facts = loop_facts(p->k, p->arena, op, p->entry, p->facts);
  ptx_region(p, op->body);
  if (p->failed) return;
  yield_carried(p, &c, op->body->last, 0);
  p->facts = outside;
  close_mark(p, mark);
  ptx_line(p, "add.s%d %s, %s, %" PRId64, bits, at.name, at.name, by);
  ptx_line(p, "bra $loop%d", n);
  ptx_label(p, "end", n);
  set_results(p, op, &c);
}

/* Branches to label `end` where the condition of `op` does not hold. */
static void branch_past(Ptx *p, const Op *op, int end) {
  if (ptx_branch_by_wave(p, op, end)) return;
  Value *value = op_condition(op);
  Reg test =
      value ? ptx_truth(p, value) : ptx_expr(p, op, op_attr(op, ATTR_expr)->sym, DTYPE_i1, NULL);
  ptx_line(p, "@!%s bra $end%d", test.name, end);
}

void ptx_if(Ptx *p, const Op *op) {
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
