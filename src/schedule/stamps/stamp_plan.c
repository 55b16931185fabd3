/* stamp_plan.c: see stamp_plan.h. */
#include "schedule/stamps/stamp_plan.h"

#include "ir/ops/debug_logs.h"
#include "ir/schedule/schedule.h"

static void find_events(Arena *a, StampedLoop *l) {
  const LoopGraph *g = &l->times.graph;
  for (int i = 0; i < g->events.n; i++) {
    const LoopEvent *e = &g->events.at[i];
    bool here = e->wave == 0 || e->wave == LOOP_WAVES;
    if (here && e->kind == LOOP_STARTS && e->op->parent == l->loop->body && e->op->kind != OP_yield)
      vec_push(a, &l->events, i);
  }
  l->stamps = l->events.n + 2;
}

/* If the number of iterations is known to be small, several stamps have the same turn. */
static int count_turns(const Distribution *d, const StampedLoop *l) {
  const Constraint *row = kernel_constraint(d->k, CONSTRAINT_timeline, NULL);
  int64_t trips, first = 0, turns = l->stamps > 3 ? l->stamps - 2 : 1;
  if (row && row->timeline.whole) return 1;
  if (row) (void)sym_is_int(row->timeline.first, &first);
  const Sym *known = distribute_trips(d, l->loop);
  if (!known || !sym_is_int(known, &trips)) return (int)turns;
  int64_t measured = (trips + op_step(l->loop) - 1) / op_step(l->loop) - first;
  if (measured < turns * STAMP_SAMPLES) turns = measured / STAMP_SAMPLES;
  return turns > 1 ? (int)turns : 1;
}

StampPlan stamp_plan(Arena *a, const Distribution *d, const Machine *m, const MemoryUses *uses) {
  StampPlan plan = {0};
  int next = 0;
  for (Op *loop = NULL; (loop = schedule_next_loop(d->k, loop, NULL));) {
    StampedLoop l = {.loop = loop, .first = next};
    l.times = loop_times(a, d, m, uses, loop);
    if (l.times.why_not || op_has(loop, ATTR_from)) continue;
    find_events(a, &l);
    l.turns = count_turns(d, &l);
    l.waves = m->waves < 1             ? 1
              : m->waves < STAMP_WAVES ? m->waves
                                       : STAMP_WAVES; /* 0: a part of one */
    int room = (TIMELINE_ROOM - next) / (l.stamps * l.waves);
    l.trips = room < STAMP_TRIPS ? room : STAMP_TRIPS;
    if (l.trips < 2) continue;
    next += l.trips * l.stamps * l.waves;
    vec_push(a, &plan, l);
  }
  return plan;
}

const Sym *stamp_element(SymCtx *cx, const StampedLoop *l, const Sym *iteration) {
  const Sym *at = sym_mul(cx, iteration, sym_int(cx, (int64_t)l->stamps * l->waves));
  return sym_add(cx, at, sym_int(cx, l->first));
}
