/* unroll: repeats the body of a loop, and runs its last iterations in a loop of their own.
 *
 *     %r = for K with {trips = T,            %m = for K with {trips = floor(Max(T - 3, 0)/2)}
 *         unroll = 2, peel = 3}                  carry %acc = %z {
 *         carry %acc = %z {                    body of iteration 2*$ARGK
 *       %p = expr $ARGK + 3 < T : i1    =>     body of iteration 2*$ARGK + 1
 *       copy_async ..., %p                   }
 *       ...                                  %s = expr 2*floor(Max(T - 3, 0)/2) : index
 *     }                                      %r = for K from %s with {trips = T} carry %acc = %m {
 *                                              the body as it was
 *                                            }
 *
 * The rows `schedule L unroll n` and `drain peeled` request it; `stages` notes them on the loop. Lanes
 * execute the same instructions in the same order as before, for any number of iterations: waits and
 * slots stay right. In the first loop the iterations that copies run ahead to exist, so that their
 * tests are known; slots and parities are known if as many iterations become one as a ring has slots.
 * `once` removes a second loop that is known to be empty. */
#include "ir/region_facts.h"
#include "transform/loops/counter.h"
#include "transform/loops/two_loops.h"
#include "transform/pass.h"

typedef struct Unroll {
  Kernel *k;
  Arena *scratch;
  SymCtx *sym;
  const SymFacts *entry; /* facts that hold throughout the kernel */
  bool changed;
} Unroll;

/* A loop that is divided: its first iterations in `rounds` of `times`, then the others. */
typedef struct Division {
  Op *loop, *first;
  int64_t times, peel;
  const Sym *all, *rounds; /* iterations of the loop, and rounds of the first one */
  const SymFacts *inside;  /* of a round */
} Division;

static int64_t number_of(const Op *loop, AttrKey key, int64_t usual) {
  const Attr *a = op_attr(loop, key);
  return a ? a->integer : usual;
}

/* ---- the first loop ---- */

/* If a round runs, all of its iterations do, and as many after them as are peeled. */
static const SymFacts *facts_inside(Unroll *x, const Division *v, const SymFacts *around) {
  SymCtx *cx = x->sym;
  const Sym *counter = ir_loop_counter(x->k, op_attr(v->loop, ATTR_axis)->sym);
  SymFacts *f =
      sym_facts_new(x->scratch, cx, region_facts(x->k, x->scratch, v->first, x->entry, around));
  const Sym *end = sym_mul(cx, sym_add(cx, counter, sym_int(cx, 1)), sym_int(cx, v->times));
  const Sym *last = sym_add(cx, end, sym_int(cx, v->peel - 1));
  const Sym *value = sym_mul(cx, last, sym_int(cx, op_step(v->loop)));
  if (!sym_contains(v->all, counter)) /* otherwise it is the counter of the enclosing loop */
    sym_assume(f, sym_lt(cx, value, op_attr(v->loop, ATTR_trips)->sym));
  sym_take_error(cx);
  return f;
}

/* The counter of iteration number `turn` of a round. */
static CounterSwap swap_for(Unroll *x, const Division *v, int turn) {
  SymCtx *cx = x->sym;
  const Sym *counter = ir_loop_counter(x->k, op_attr(v->loop, ATTR_axis)->sym);
  const Sym *number = sym_add(cx, sym_mul(cx, counter, sym_int(cx, v->times)), sym_int(cx, turn));
  CounterSwap c = counter_swap(x->k, v->loop, sym_mul(cx, number, sym_int(cx, op_step(v->loop))));
  c.facts = v->inside;
  return c;
}

/* Every expression has a value in every iteration of a round. */
static bool can_repeat(Unroll *x, const Division *v) {
  for (int turn = 0; turn < v->times; turn++) {
    CounterSwap c = swap_for(x, v, turn);
    for (Op *op = v->loop->body->first; op; op = op->next)
      if (!counter_replace(&c, op, false)) return false;
  }
  return true;
}

static void repeat_body(Unroll *x, const Division *v) {
  const Region *from = v->loop->body;
  Region *to = v->first->body;
  Value **map = ARENA_ARRAY(x->scratch, Value *, x->k->nvalues);
  Value **now = ARENA_ARRAY(x->scratch, Value *, from->nargs + 1);
  for (int i = 0; i < from->nargs; i++) now[i] = to->args[i];
  for (int turn = 0; turn < v->times; turn++) {
    CounterSwap c = swap_for(x, v, turn);
    for (int i = 0; i < from->nargs; i++) map[from->args[i]->id] = now[i];
    for (const Op *op = from->first; op != from->last; op = op->next) {
      ir_clone_op(x->k, to, op, map);
      counter_replace(&c, to->last, true);
    }
    for (int i = 0; i < from->nargs; i++) {
      Value *last = from->last->args[i];
      now[i] = map[last->id] ? map[last->id] : last;
    }
  }
  ir_append(to, ir_op_new(x->k, OP_yield, from->last->at, now, from->nargs));
}

/* ---- loops ---- */

static void divide(void *user, const SymFacts *around, Op *loop) {
  Unroll *x = user;
  SymCtx *cx = x->sym;
  Division v = {.loop = loop};
  v.times = number_of(loop, ATTR_unroll, 1), v.peel = number_of(loop, ATTR_peel, 0);
  if (v.times < 2 && !v.peel) return;
  op_drop_attr(loop, ATTR_unroll), op_drop_attr(loop, ATTR_peel);
  x->changed = true;
  v.all = op_iterations(x->k, loop, op_attr(loop, ATTR_trips)->sym);
  const Sym *most = sym_max(cx, sym_sub(cx, v.all, sym_int(cx, v.peel)), sym_int(cx, 0));
  v.rounds = sym_simplify(cx, around, sym_floordiv(cx, most, sym_int(cx, v.times)));
  sym_take_error(cx);
  if (!v.rounds || v.rounds == sym_int(cx, 0)) return;
  v.first = two_loops_first(x->k, x->scratch, loop, v.rounds);
  v.inside = facts_inside(x, &v, around);
  if (!can_repeat(x, &v)) {
    ir_remove(v.first);
    return;
  }
  repeat_body(x, &v);
  const Sym *done = sym_mul(cx, v.rounds, sym_int(cx, v.times * op_step(loop)));
  two_loops_second(x->k, around, loop, v.first, done);
}

bool pass_unroll(Kernel *k, PassCtx *cx) {
  Unroll x = {.k = k, .scratch = cx->scratch, .sym = k->cx->sym, .entry = cx->facts.header};
  two_loops_search(k, x.scratch, x.entry, divide, &x);
  cx->idle = !x.changed;
  return true;
}
