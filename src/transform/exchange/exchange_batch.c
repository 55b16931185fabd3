/* exchange_batch.c: see exchange_batch.h. */
#include "transform/exchange/exchange_batch.h"

typedef Vec(Op *) Ops;

/* ---- what is computed earlier ---- */

static bool is_needed(const Ops *needed, const Op *op) {
  for (int i = 0; i < needed->n; i++)
    for (int j = 0; j < op->nresults; j++)
      if (op_takes(needed->at[i], &op->results[j])) return true;
  return false;
}

static bool may_move(const Op *op) { return op_is_pure(op) && !op->body; }

/* The write and what it needs of the ops after `read`, last first; false: it needs one that must stay
 * where it is, such as `read` itself. A symbol that is set between them would not be set yet: which elements
 * exist depends on it. */
static bool find_needed(Arena *a, const Op *read, Op *write, Ops *needed) {
  vec_push(a, needed, write);
  for (Op *op = write->prev; op != read; op = op->prev) {
    if (!op) return false; /* `read` is in another region */
    if (op->kind == OP_set_symbol) return false;
    if (!is_needed(needed, op)) continue;
    if (!may_move(op)) return false;
    vec_push(a, needed, op);
  }
  return !is_needed(needed, read);
}

static void move_before(const Ops *needed, Op *read) {
  for (int i = needed->n - 1; i >= 0; i--) {
    ir_remove(needed->at[i]);
    ir_insert_before(read, needed->at[i]);
  }
}

/* ---- loops ---- */

/* A loop that keeps staged tiles has barriers for them. */
static bool can_alternate(const Op *loop) {
  if (!loop || loop->kind != OP_for) return false;
  for (const Op *op = loop->body->first; op; op = op->next)
    if (op->body || op->kind == OP_copy) return false;
  return true;
}

/* One slot in even iterations, and the other in odd ones. */
static void alternate(Kernel *k, const Op *loop, const Exchanged *x) {
  enum { SLOTS = 2 };
  SymCtx *sym = k->cx->sym;
  const Sym *counter = ir_loop_counter(k, op_attr(loop, ATTR_axis)->sym);
  const Sym *number = sym_floordiv(sym, counter, sym_int(sym, op_step(loop)));
  Attr slot = {.key = ATTR_slot, .sym = sym_mod(sym, number, sym_int(sym, SLOTS))};
  op_set_attr(k, x->read->args[0]->def, (Attr){.key = ATTR_ring, .integer = SLOTS});
  op_set_attr(k, x->write, slot);
  op_set_attr(k, x->read, slot);
}

/* ---- batches ---- */

/* The number of batches in a region, by the batch of each exchange. */
static int count_batches(const Exchanges *all, const int *batch, const Region *r) {
  int n = 0, last = -1;
  for (int i = 0; i < all->n; i++)
    if (all->at[i].read->parent == r && batch[i] != last) last = batch[i], n++;
  return n;
}

void exchange_batch(Kernel *k, Arena *scratch, const Exchanges *all) {
  int *batch = ARENA_ARRAY(scratch, int, all->n + 1); /* by exchange: the first of its batch */
  for (int i = 1; i < all->n; i++) {
    Ops needed = {0};
    Op *first = all->at[batch[i - 1]].read;
    bool joins = find_needed(scratch, first, all->at[i].write, &needed);
    if (joins) move_before(&needed, first);
    batch[i] = joins ? batch[i - 1] : i;
  }
  for (int i = 0; i < all->n; i++) {
    const Region *r = all->at[i].read->parent;
    if (can_alternate(r->owner) && count_batches(all, batch, r) == 1)
      alternate(k, r->owner, &all->at[i]);
  }
}
