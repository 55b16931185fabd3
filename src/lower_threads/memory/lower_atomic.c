/* lower_atomic.c: atomics on tiles: one for each element that a lane acts on. */
#include "ir/ops/atomics.h"
#include "lower_threads/memory/lower_walk.h"

/* The number of registers of one vector of a thread. Consecutive vectors along a dim form one run
 * of registers; a vector is at most as long as what a wave covers of the dim at a time. */
static int vector_length(const Lower *l, const LaneAccess *a) {
  const Digits *regs = &a->layout->part[LAYOUT_REG];
  if (!regs->n || regs->at[0].stride != 1) return 1;
  int64_t shape = anchor_vector_shape(l->d, a->op, a->op->args[0]->type->dims[regs->at[0].dim]);
  return shape > 0 && shape < regs->at[0].radix ? (int)shape : regs->at[0].radix;
}

/* The op may limit how many elements of each vector are acted on: the first ones. */
static bool is_acted_on(const Lower *l, const LaneAccess *a, int reg) {
  const Attr *ept = op_attr(a->op, ATTR_ept);
  int64_t each;
  if (!ept || !sym_is_int(distribute_expr(l->d, a->op, ept->sym), &each)) return true;
  return reg % vector_length(l, a) < each;
}

/* The first lane that holds the same element; NULL: that is every lane itself. */
static const Sym *first_lane(Lower *l, const Layout *layout) {
  const Digits *lanes = &layout->part[LAYOUT_LANE];
  const Sym *lane = l->lane, *zero = sym_int(l->sym, 0);
  int weight = 1;
  for (int i = 0; i < lanes->n; i++) {
    int radix = lanes->at[i].radix;
    const Sym *above = sym_floordiv(l->sym, l->lane, sym_int(l->sym, weight));
    const Sym *digit = sym_mod(l->sym, above, sym_int(l->sym, radix));
    if (!lanes->at[i].stride)
      lane = sym_sub(l->sym, lane, sym_mul(l->sym, digit, sym_int(l->sym, weight)));
    weight *= radix;
  }
  lane = sym_simplify(l->sym, emit_facts(l), lane);
  return sym_sub(l->sym, lane, l->lane) == zero ? NULL : lane;
}

int atomic_waves(const Lower *l, const Op *op) {
  const HardwareSpec *hardware = kernel_hardware(l->k);
  switch (atomic_by(op)) {
  case ATOMIC_BY_OWNER: return l->machine.waves;
  case ATOMIC_BY_WAVE: return hardware ? ceil_div(hardware->threads, l->machine.lanes) : 1;
  case ATOMIC_BY_THREAD: return 0;
  }
  WV_BUG("no such case");
}

/* Of the threads that hold the same element one has acted, and it passes the result on to the
 * others. */
static bool share_result(Lower *l, const Op *op, const Walk *w, int waves, Value **v) {
  if (!uniform_answer(l->uniform, op)) return true;
  if (w->nseveral || layout_wave_copies(w->a->layout, waves) > 1)
    return emit_refuse(l, op, "the result of an element held by several threads");
  const Sym *from = first_lane(l, w->a->layout);
  if (!from) return true;
  if (!uniform_require(l->uniform, op, UNIFORM_WAVE)) return false;
  Value *args[] = {*v, emit_expr(l, from, DTYPE_i32)};
  *v = emit_op(l, OP_shuffle_idx, args, 2, NULL, 0, (*v)->type);
  return true;
}

static Value *act_on(Lower *l, Walk *w, int reg, Value *v) {
  const Op *op = w->a->op;
  WalkStep s = walk_step(w, reg);
  s.args[0] = v;
  if (op->kind == OP_atomic_compare_exchange) {
    Value *pair[] = {v, emit_pick(l, l->value[op->args[2]->id], &reg, 1)};
    s.args[0] = emit_join(l, pair, 2);
  }
  const char *mode = atomic_mode(op->kind).word;
  s.attrs[s.nattrs++] = (Attr){.key = ATTR_mode, .text = intern(&l->k->cx->names, mode)};
  return emit_op(l, OP_atomic, s.args, s.nargs + 1, s.attrs, s.nattrs, v->type);
}

bool lower_atomic(Lower *l, const Op *op) {
  const Value *v = op->args[0];
  Layout whole = lane_undivided(l);
  LaneAccess a;
  if (!open_access(l, op, l->bounds[op->id], v->layout ? v->layout : &whole, &a)) return false;
  a.width = 1; /* an atomic acts on one element */
  int n = layout_size(a.layout, LAYOUT_REG), waves = atomic_waves(l, op);
  Walk w = walk_begin(l, &a, waves);
  const int *first = lane_first_twins(l, a.layout);
  Value **old = ARENA_ARRAY(l->arena, Value *, n);
  for (int r = 0; r < n; r++) {
    bool again = waves && first[r] < r; /* this thread has already acted on the element */
    old[r] = again ? old[first[r]] : emit_pick(l, l->value[v->id], &r, 1);
    if (!again && is_acted_on(l, &a, r) && !walk_is_idle(&w, r)) old[r] = act_on(l, &w, r, old[r]);
  }
  if (!op->nresults) return true;
  Value *all = emit_join(l, old, n);
  bool shared = share_result(l, op, &w, waves, &all);
  l->value[op->results[0].id] = all;
  return shared;
}
