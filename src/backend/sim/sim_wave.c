/* sim_wave.c: one wave: its program counter, regions and masks.
 *
 * Loops and conditionals are entered if any active lane takes them; the others wait inactive. A
 * lane that leaves a loop keeps the values it last carried, because every copy is masked. */
#include <string.h>

#include "backend/sim/sim_state.h"

/* ---- expressions ---- */

/* The values of a variable in these lanes, one after the other. */
static void read_var(Wave *w, const SimOp *s, int var, uint64_t mask, int64_t *to) {
  size_t lanes = (size_t)w->sim->wave;
  if (var >= 0) {
    const int64_t *from = w->sym + (size_t)var * lanes;
    if (mask_count(mask) == w->sim->wave) memcpy(to, from, sizeof *to * lanes);
    else EACH_LANE(l, mask) *to++ = from[l];
  } else {
    const Reg *from = wave_regs(w, s->op->args[-1 - var]);
    EACH_LANE(l, mask) *to++ = from[l].i;
  }
}

static void fail_expr(Wave *w, const SimOp *s, const SimExpr *e, int lane) {
  sim_report(w, s, DIAG_E0802, NULL,
             "`%s` has no value in %s: it overflows 64 bits or divides by zero",
             sym_text(w->sim->cx->diags.arena, e->sym), sim_who(w, lane));
}

/* Evaluates for all lanes at once, or only for one if the result is the same in all. */
static bool run_expr(Wave *w, const SimOp *s, const SimExpr *e, uint64_t mask, int64_t *out) {
  uint64_t asked = e->varies ? mask : mask & -mask;
  int n = mask_count(asked), at = 0;
  int64_t *vars = w->sim->expr_work, *slots = vars + e->nvars * n;
  for (int i = 0; i < e->nvars; i++) read_var(w, s, e->var[i], asked, vars + i * n);
  SymPoints points = sym_run_points(e->program, n, vars, slots);
  int64_t wrong = 0;
  for (int i = 0; i < n; i++) wrong |= points.undefined[i];
  if (wrong) {
    while (!points.undefined[at]) at++, asked &= asked - 1;
    return fail_expr(w, s, e, lowest_bit(asked)), false;
  }
  if (!e->varies) EACH_LANE(l, mask) out[l] = points.value[0];
  else if (n == w->sim->wave) memcpy(out, points.value, sizeof *out * (size_t)n);
  else EACH_LANE(l, mask) out[l] = points.value[at++];
  return true;
}

/* An expression of the thread alone is computed once, the first time all lanes need it. */
bool wave_expr(Wave *w, const SimOp *s, const SimExpr *e, uint64_t mask, int64_t *out) {
  if (!mask) return true;
  size_t bytes = sizeof *out * (size_t)w->sim->wave;
  int64_t *fixed = e->fixed ? e->fixed + (ptrdiff_t)w->index * w->sim->wave : NULL;
  if (fixed && e->known[w->index]) return memcpy(out, fixed, bytes), true;
  if (!run_expr(w, s, e, mask, out)) return false;
  if (fixed && mask == w->lanes && mask_count(mask) == w->sim->wave) {
    memcpy(fixed, out, bytes);
    e->known[w->index] = true;
  }
  return true;
}

bool wave_uniform(Wave *w, const SimOp *s, const SimExpr *e, int64_t *out) {
  int64_t value[64];
  if (!w->mask || !wave_expr(w, s, e, w->mask, value)) return false;
  *out = value[lowest_bit(w->mask)];
  return true;
}

/* ---- checks ---- */

bool wave_whole(Wave *w, const SimOp *s) {
  if (w->mask == w->lanes) return true;
  sim_report(w, s, DIAG_E0805, NULL,
             "`%s` is executed by only part of wave %d of workgroup (%lld, %lld, %lld): lane %d is "
             "inactive",
             op_info[s->op->kind].name, w->index, (long long)w->group->id[0],
             (long long)w->group->id[1], (long long)w->group->id[2],
             lowest_bit(w->lanes & ~w->mask));
  return false;
}

bool wave_full(Wave *w, const SimOp *s) {
  if (!wave_whole(w, s)) return false;
  if (mask_count(w->lanes) == w->sim->wave) return true;
  sim_report(w, s, DIAG_E0805, NULL, "`%s` is executed by wave %d, which has only %d of %d lanes",
             op_info[s->op->kind].name, w->index, mask_count(w->lanes), w->sim->wave);
  return false;
}

void wave_check_use(Wave *w, const SimOp *s, const Value *v, uint64_t mask, const char *what) {
  for (int e = 0; e < v->type->n; e++) {
    uint64_t wrong = wave_undef(w, v)[e] & mask;
    if (!wrong) continue;
    if (wrong & w->divided_lanes)
      sim_report(w, w->divided, DIAG_E0707, NULL, "%s depends on an integer divided by zero in %s",
                 what, sim_who(w, lowest_bit(wrong & w->divided_lanes)));
    else if (wrong & w->wrapped_lanes)
      sim_report(w, w->wrapped, DIAG_E0802, NULL,
                 "%s depends on `%s`, which does not fit in %s in %s", what,
                 sym_text(w->sim->cx->diags.arena, w->wrapped->expr->sym),
                 dtype_info[w->wrapped->op->results[0].type->dtype].name,
                 sim_who(w, lowest_bit(wrong & w->wrapped_lanes)));
    else
      sim_report(w, s, DIAG_E0804, NULL,
                 "%s depends on uninitialised memory or an uninitialised register, in %s", what,
                 sim_who(w, lowest_bit(wrong)));
    return;
  }
}

/* Accumulators of a wgmma in flight may only go into another wgmma, or be passed on. */
static void check_flight(Wave *w, const SimOp *s) {
  OpKind kind = s->op->kind;
  if (kind == OP_yield || kind == OP_wgmma || s->op->body) return;
  for (int i = 0; i < s->op->nargs; i++) {
    uint32_t group = w->flight[s->op->args[i]->id];
    if (group <= w->wgmma_done) continue;
    Diag *d = sim_report(w, s, DIAG_E0812, NULL,
                         "operand %d of `%s` is the accumulator of a wgmma that is still in flight",
                         i + 1, op_info[kind].name);
    if (d) diag_hint(&w->sim->cx->diags, d, "execute `wgmma_wait` first");
  }
}

/* ---- moving values ---- */

static void copy_lanes(Reg *to, const Reg *from, int lanes, uint64_t mask, uint64_t all) {
  if (mask == all) memcpy(to, from, sizeof(Reg) * (size_t)lanes);
  else EACH_LANE(l, mask) to[l] = from[l];
}

/* All at once: a loop may exchange the values it carries. */
static void copy_values(Wave *w, Value *const *to, Value *const *from, int n, uint64_t mask) {
  Sim *s = w->sim;
  size_t lanes = (size_t)s->wave;
  ArenaMark mark = arena_mark(s->scratch);
  int regs = 0;
  for (int i = 0; i < n; i++) regs += from[i]->type->kind == TYPE_mem ? 0 : from[i]->type->n;
  Reg *values = ARENA_ARRAY(s->scratch, Reg, (size_t)regs * lanes);
  uint64_t *undef = ARENA_ARRAY(s->scratch, uint64_t, regs);
  uint32_t *flight = ARENA_ARRAY(s->scratch, uint32_t, n);
  uint64_t *made = ARENA_ARRAY(s->scratch, uint64_t, n);
  for (int i = 0, at = 0; i < n; at += from[i++]->type->n) {
    size_t k = (size_t)from[i]->type->n;
    memcpy(values + (size_t)at * lanes, wave_regs(w, from[i]), sizeof(Reg) * k * lanes);
    memcpy(undef + at, wave_undef(w, from[i]), sizeof(uint64_t) * k);
    flight[i] = w->flight[from[i]->id];
    made[i] = w->made[from[i]->id];
  }
  for (int i = 0, at = 0; i < n; i++) {
    for (int e = 0; e < to[i]->type->n; e++, at++) {
      copy_lanes(wave_regs(w, to[i]) + (size_t)e * lanes, values + (size_t)at * lanes, s->wave,
                 mask, w->lanes);
      wave_undef(w, to[i])[e] = (wave_undef(w, to[i])[e] & ~mask) | (undef[at] & mask);
    }
    w->flight[to[i]->id] = flight[i];
    w->made[to[i]->id] = made[i]; /* registers are passed on, not written */
  }
  arena_rewind(s->scratch, mark);
}

static void set_results(Wave *w, const Op *op, Value *const *from, uint64_t lanes) {
  ArenaMark mark = arena_mark(w->sim->scratch);
  Value **to = ARENA_ARRAY(w->sim->scratch, Value *, op->nresults);
  for (int i = 0; i < op->nresults; i++) to[i] = &op->results[i];
  copy_values(w, to, from, op->nresults, lanes);
  arena_rewind(w->sim->scratch, mark);
}

/* ---- regions ---- */

static SimFrame *top(Wave *w) { return &w->frames[w->depth - 1]; }

static void go_behind(Wave *w, const Op *op) { w->pc = op->next; }

static SimFrame *enter(Wave *w, const Op *op) {
  WV_ASSERT(w->depth < w->sim->depth);
  SimFrame *f = &w->frames[w->depth++];
  *f = (SimFrame){.op = op, .mask = w->mask, .counter = f->counter, .trips = f->trips};
  return f;
}

static Step leave(Wave *w, Value *const *results) {
  const Op *op = top(w)->op;
  w->mask = top(w)->mask;
  w->depth--;
  set_results(w, op, results, w->mask);
  go_behind(w, op);
  return STEP_JUMP;
}

static Step run_body(Wave *w, const Op *op, uint64_t mask) {
  w->mask = mask;
  w->pc = op->body->first;
  return STEP_JUMP;
}

/* ---- for ---- */

static void set_counter(Wave *w, int slot, uint64_t mask, const SimFrame *f) {
  EACH_LANE(l, mask) w->sym[(size_t)slot * (size_t)w->sim->wave + (size_t)l] = f->counter[l];
}

/* After a loop its axis counts as it did before: for an outer loop over the same axis. */
static Step leave_for(Wave *w, const SimOp *s) {
  Step step = leave(w, s->op->body->args);
  for (int i = w->depth - 1; i >= 0; i--) {
    const SimFrame *f = &w->frames[i];
    if (f->op->kind != OP_for || w->sim->ops[f->op->id].counter != s->counter) continue;
    set_counter(w, s->counter, w->mask, f);
    break;
  }
  return step;
}

static Step iterate_for(Wave *w, const SimOp *s) {
  SimFrame *f = top(w);
  uint64_t mask = 0;
  EACH_LANE(l, f->mask) mask |= (uint64_t)(f->counter[l] < f->trips[l]) << l;
  if (!mask) return leave_for(w, s);
  set_counter(w, s->counter, mask, f);
  return run_body(w, s->op, mask);
}

static Step step_for(Wave *w, SimOp *s) {
  const Op *op = s->op;
  int64_t trips[64];
  int first = op_carried(op);
  if (!wave_expr(w, s, s->expr, w->mask, trips)) return STEP_NEXT;
  SimFrame *f = enter(w, op);
  memcpy(f->trips, trips, sizeof(int64_t) * (size_t)w->sim->wave);
  if (op_has(op, ATTR_from)) wave_check_use(w, s, op->args[0], w->mask, "the start of a loop");
  const Reg *start = op_has(op, ATTR_from) ? wave_regs(w, op->args[0]) : NULL;
  EACH_LANE(l, w->mask) f->counter[l] = start && start[l].i > 0 ? start[l].i : 0;
  copy_values(w, op->body->args, op->args + first, op->body->nargs, w->mask);
  return iterate_for(w, s);
}

/* ---- while ---- */

static void set_axis(Wave *w, const SimOp *s, uint64_t mask) {
  const Region *body = s->op->body;
  const Reg *axis = wave_regs(w, body->args[0]);
  EACH_LANE(l, mask) w->sym[(size_t)s->counter * (size_t)w->sim->wave + (size_t)l] = axis[l].i;
  for (int i = 1; i < body->nargs; i++) {
    if (s->iter_slot[i] < 0) continue;
    const Reg *r = wave_regs(w, body->args[i]);
    EACH_LANE(l, mask) w->sym[(size_t)s->iter_slot[i] * (size_t)w->sim->wave + (size_t)l] = r[l].i;
  }
}

static Step iterate_while(Wave *w, const SimOp *s, uint64_t candidates) {
  int64_t go[64];
  uint64_t mask = 0;
  set_axis(w, s, candidates);
  for (int i = 0; i < s->op->body->nargs; i++)
    wave_check_use(w, s, s->op->body->args[i], candidates, "the condition of a loop");
  if (!wave_expr(w, s, s->expr, candidates, go)) return leave(w, s->op->body->args + 1);
  EACH_LANE(l, candidates) mask |= (uint64_t)(go[l] != 0) << l;
  if (!mask) return leave(w, s->op->body->args + 1);
  top(w)->events = w->sim->events;
  return run_body(w, s->op, mask);
}

static Step step_while(Wave *w, SimOp *s) {
  const Op *op = s->op;
  enter(w, op);
  copy_values(w, op->body->args, op->args, op->nargs, w->mask);
  return iterate_while(w, s, w->mask);
}

static bool same_values(Wave *w, Value *const *a, Value *const *b, int n, uint64_t mask) {
  for (int i = 0; i < n; i++)
    for (int e = 0; e < a[i]->type->n; e++) {
      size_t at = (size_t)e * (size_t)w->sim->wave;
      EACH_LANE(l, mask) {
        if (wave_regs(w, a[i])[at + (size_t)l].i != wave_regs(w, b[i])[at + (size_t)l].i)
          return false;
      }
    }
  return true;
}

/* An iteration that changed nothing, while nothing else changed, will repeat itself: the wave is
 * stuck until something happens. */
static Step next_while(Wave *w, const SimOp *s, const Op *yield) {
  uint64_t mask = w->mask;
  const Region *body = s->op->body;
  bool idle = top(w)->events == w->sim->events &&
              same_values(w, body->args, yield->args, body->nargs, mask);
  copy_values(w, body->args, yield->args, body->nargs, mask);
  w->stuck = idle;
  w->tried = w->sim->events;
  Step step = iterate_while(w, s, mask);
  if (w->depth == 0 || top(w)->op != s->op) w->stuck = false; /* the loop ended */
  return step;
}

/* ---- if ---- */

static Step step_if(Wave *w, SimOp *s) {
  const Op *op = s->op;
  int64_t value[64];
  uint64_t mask = 0;
  int first = op_carried(op);
  const Value *cond = op_condition(op);
  if (cond) wave_check_use(w, s, cond, w->mask, "a condition");
  else if (!wave_expr(w, s, s->expr, w->mask, value)) return STEP_NEXT;
  EACH_LANE(l, w->mask) {
    bool holds = cond ? wave_regs(w, cond)[l].i != 0 : value[l] != 0;
    mask |= (uint64_t)holds << l;
  }
  set_results(w, op, op->args + first, w->mask);
  if (!mask) return STEP_NEXT;
  copy_values(w, op->body->args, op->args + first, op->body->nargs, mask);
  enter(w, op);
  return run_body(w, op, mask);
}

/* ---- yield ---- */

static Step step_yield(Wave *w, SimOp *s) {
  const Op *op = s->op;
  SimFrame *f = top(w);
  const SimOp *owner = &w->sim->ops[f->op->id];
  if (f->op->kind == OP_while) return next_while(w, owner, op);
  if (f->op->kind == OP_if) {
    set_results(w, f->op, op->args, w->mask);
    w->mask = f->mask;
    w->depth--;
    go_behind(w, f->op);
    return STEP_JUMP;
  }
  copy_values(w, f->op->body->args, op->args, f->op->body->nargs, w->mask);
  EACH_LANE(l, f->mask) f->counter[l] += op_step(f->op);
  return iterate_for(w, owner);
}

/* ---- others ---- */

/* Once per op: a remark, or an error if it is required. */
static void check_assumed(Wave *w, SimOp *s) {
  int64_t value[64];
  bool required, holds = true;
  if (!s->expr || !wave_expr(w, s, s->expr, w->mask, value)) return;
  EACH_LANE(l, w->mask) holds &= value[l] != 0;
  if (holds) return;
  Sim *sim = w->sim;
  const Sym *all = kernel_assumed_of(sim->k, op_attr(s->op, ATTR_symbol)->sym, &required);
  const char *text = sym_text(sim->cx->diags.arena, all);
  if (required)
    sim_report(w, s, DIAG_E0709, NULL, "the assumption `%s` does not hold where the symbol is set",
               text);
  else
    diag_add(&sim->cx->diags, DIAG_R0701, s->op->at,
             "the assumption `%s` does not hold where the symbol is set", text);
  s->expr = NULL;
}

static Step step_set_symbol(Wave *w, SimOp *s) {
  const Reg *r = wave_regs(w, s->op->args[0]);
  wave_check_use(w, s, s->op->args[0], w->mask, "the value of a symbol");
  EACH_LANE(l, w->mask) w->sym[(size_t)s->counter * (size_t)w->sim->wave + (size_t)l] = r[l].i;
  check_assumed(w, s);
  return STEP_NEXT;
}

static Step step_nothing(Wave *w, SimOp *s) {
  (void)w, (void)s;
  return STEP_NEXT;
}

StepFn *const sim_step[OP_COUNT] = {
    [OP_scalar] = step_scalar,
    [OP_alloc] = step_nothing, /* its address is set by setup */
    [OP_set_symbol] = step_set_symbol,

#define ELEMENTWISE(name, kind, flags, rule, cost, doc) [OP_##name] = step_##kind,
#include "ir/elementwise.def"
    [OP_softsign] = step_softsign,
    [OP_select] = step_select,
    [OP_inline_ptx] = step_inline,
    [OP_cast] = step_cast,
    [OP_bitcast] = step_bitcast,

    [OP_workgroup_barrier] = step_workgroup_barrier,
    [OP_shared_barrier] = step_shared_barrier,
    [OP_barrier_signal] = step_barrier_signal,
    [OP_barrier_wait] = step_barrier_wait,
    [OP_counter_wait] = step_counter_wait,
    [OP_counter_barrier] = step_counter_barrier,
    [OP_prefetch] = step_nothing,
    [OP_wave_prio] = step_nothing,
    [OP_wave_registers] = step_wave_registers,
    [OP_sched_barrier] = step_nothing,
    [OP_sched_group] = step_nothing,

    [OP_clock] = step_clock,
    [OP_expr] = step_expr,
    [OP_splat] = step_splat,
    [OP_join] = step_join,
    [OP_after] = step_after,
    [OP_pick] = step_pick,
    [OP_shuffle] = step_shuffle,
    [OP_shuffle_idx] = step_shuffle_idx,
    [OP_load] = step_load,
    [OP_store] = step_store,
    [OP_load_rows] = step_load_rows,
    [OP_store_rows] = step_store_rows,
    [OP_ldmatrix] = step_ldmatrix,
    [OP_stmatrix] = step_stmatrix,
    [OP_atomic] = step_atomic,
    [OP_wave_mma] = step_wave_mma,

    [OP_barrier] = step_barrier,
    [OP_fence_proxy] = step_fence_proxy,
    [OP_mbar_init] = step_mbar_init,
    [OP_mbar_inval] = step_mbar_inval,
    [OP_mbar_expect] = step_mbar_expect,
    [OP_mbar_arrive] = step_mbar_arrive,
    [OP_mbar_arrive_async] = step_mbar_arrive_async,
    [OP_mbar_wait] = step_mbar_wait,

    [OP_copy_async] = step_copy_async,
    [OP_async_commit] = step_async_commit,
    [OP_async_wait] = step_async_wait,
    [OP_tma_load] = step_tma_load,
    [OP_tma_store] = step_tma_store,
    [OP_tma_prefetch] = step_tma_prefetch,
    [OP_bulk_commit] = step_bulk_commit,
    [OP_bulk_wait] = step_bulk_wait,
    [OP_wgmma_fence] = step_wgmma_fence,
    [OP_wgmma] = step_wgmma,
    [OP_wgmma_commit] = step_wgmma_commit,
    [OP_wgmma_wait] = step_wgmma_wait,

    [OP_for] = step_for,
    [OP_while] = step_while,
    [OP_if] = step_if,
    [OP_yield] = step_yield,
};

/* ---- one step ---- */

Step wave_step(Wave *w) {
  const Op *at = w->pc;
  SimOp *s = &w->sim->ops[at->id];
  if (w->wgmma_issued > w->wgmma_done) check_flight(w, s);
  uint64_t active = (uint64_t)mask_count(w->mask);
  Step step = s->run(w, s);
  if (step == STEP_AGAIN) {
    w->stuck = true;
    w->tried = w->sim->events;
    return step;
  }
  w->steps++;
  bool writes = !at->body && at->kind != OP_wgmma; /* it writes asynchronously */
  for (int i = 0; writes && i < at->nresults; i++) w->made[at->results[i].id] = w->steps;
  if (s->run != step_nothing) {
    s->cost.instructions++;
    s->cost.lane_ops += active;
  }
  if (step != STEP_JUMP) w->pc = at->next;
  return step;
}
