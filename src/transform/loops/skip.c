/* skip: waves do not compute in iterations that change nothing for them.
 *
 *     %r = for K with {trips = T, wanted = W}       %r = for K with {trips = W} carry ... {
 *         carry %acc = %z {                           the body as it was
 *       mbar_wait %full, ...                        }
 *       %n = wgmma %acc, ...                  =>    %w = expr W
 *       wgmma_wait 0                                for K from %w with {trips = T} {
 *       mbar_arrive %empty, ...                       mbar_wait %full, ...
 *       yield %n                                      mbar_arrive %empty, ...
 *     }                                             }
 *
 * Tiles of keys that a causal mask hides from the first rows of a tile are visited for its last rows. The waves
 * that have the first ones go on to take part in the barriers, so that the slots of a ring are free for the next
 * tiles.
 *
 * Only loops with wgmma, where nothing but products, copies and barriers would be left out or repeated. Comes
 * before `peel` and `guards`, which divide the first of the two loops again. */
#include "ir/region_facts.h"
#include "transform/loops/last_wait.h"
#include "transform/loops/two_loops.h"
#include "transform/pass.h"

typedef struct Skip {
  Kernel *k;
  Arena *scratch;
  bool changed;
} Skip;

/* What keeps waves and copies in step; the rest of a body is computing. */
static bool keeps_step(const Op *op) {
  switch (op->kind) {
  case OP_mbar_wait:
  case OP_mbar_arrive:
  case OP_tma_load: return true;
  case OP_if:
    for (const Op *in = op->body->first; in; in = in->next)
      if (!keeps_step(in) && !op_is_pure(in) && in->kind != OP_yield) return false;
    return true;
  default: return false;
  }
}

static bool is_of_products(const Op *op) {
  return op->kind == OP_wgmma || op->kind == OP_wgmma_fence || op->kind == OP_wgmma_commit ||
         op->kind == OP_wgmma_wait;
}

static bool only_computes(const Op *op) {
  if (op->kind != OP_if) return op_is_pure(op) || is_of_products(op) || op->kind == OP_yield;
  for (const Op *in = op->body->first; in; in = in->next)
    if (!only_computes(in)) return false;
  return true;
}

/* By op id: ops of the body that keep step, and what they need; NULL if something else has an effect. */
static const bool *find_needed(Skip *x, const Op *loop) {
  bool *needed = ARENA_ARRAY(x->scratch, bool, x->k->nops);
  bool *used = ARENA_ARRAY(x->scratch, bool, x->k->nvalues);
  for (const Op *op = loop->body->last->prev; op; op = op->prev) {
    bool computes = only_computes(op);
    if (!computes && !keeps_step(op)) return NULL;
    needed[op->id] = !computes;
    for (int i = 0; i < op->nresults; i++) needed[op->id] |= used[op->results[i].id];
    if (needed[op->id] && is_of_products(op)) return NULL;
    for (const Op *in = op; needed[op->id] && in && (in == op || op_is_inside(in, op));
         in = ir_next(in))
      for (int i = 0; i < in->nargs; i++) used[in->args[i]->id] = true;
  }
  return needed;
}

/* The loop as it was, but without results: what it would have carried is what it got. */
static void keep_step_only(Skip *x, const SymFacts *around, Op *loop, const bool *needed) {
  for (int i = 0; i < loop->nresults; i++) {
    ir_replace_uses(x->k, &loop->results[i], loop->args[op_carried(loop) + i]);
    ir_replace_uses(x->k, loop->body->args[i], loop->args[op_carried(loop) + i]);
  }
  for (Op *op = loop->body->first, *next; op; op = next) {
    next = op->next;
    if (op->kind == OP_yield) continue;
    if (!needed[op->id]) ir_remove(op);
    else last_wait_omit(x->k, around, loop, op, op_attr(loop, ATTR_trips)->sym);
  }
  ir_set_results(x->k, loop, NULL, 0);
  loop->nargs = op_carried(loop);
  loop->body->nargs = loop->body->last->nargs = 0;
}

static void divide(void *user, const SymFacts *around, Op *loop) {
  Skip *x = user;
  const Attr *wanted = op_attr(loop, ATTR_wanted);
  if (!wanted) return;
  const Sym *rounds = wanted->sym;
  op_drop_attr(loop, ATTR_wanted);
  x->changed = true;
  const bool *needed = two_loops_multiply(loop) ? find_needed(x, loop) : NULL;
  if (!needed) return;
  two_loops_divide(x->k, x->scratch, around, loop, rounds);
  keep_step_only(x, around, loop, needed);
  const char *axis = sym_text(x->k->cx->diags.arena, op_attr(loop, ATTR_axis)->sym);
  diag_add(&x->k->cx->diags, DIAG_R0626, loop->at,
           "waves leave out iterations of the loop over `%s` that change none of their rows", axis);
}

bool pass_skip(Kernel *k, PassCtx *cx) {
  Skip x = {.k = k, .scratch = cx->scratch};
  two_loops_search(k, cx->scratch, cx->facts.header, divide, &x);
  cx->idle = !x.changed;
  return true;
}
