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

/* Iterations that are measured; 0: that is not known. */
static int64_t count_measured(const Distribution *d, const StampedLoop *l, const Constraint *row) {
  const Sym *known = distribute_trips(d, l->loop);
  int64_t trips, first = 0, step = op_step(l->loop);
  if (!known || !sym_is_int(known, &trips)) return 0;
  if (row) (void)sym_is_int(row->timeline.first, &first);
  int64_t left = (trips + step - 1) / step - first;
  return left > 1 ? left : 1;
}

/* A short loop has more stamps in an iteration: samples follow each other, and stamps share turns. */
static void divide_stamps(const Distribution *d, StampedLoop *l) {
  const Constraint *row = kernel_constraint(d->k, CONSTRAINT_timeline, NULL);
  int64_t turns = l->stamps > 3 ? l->stamps - 2 : 1, apart = STAMP_APART;
  int64_t samples = count_measured(d, l, row) / STAMP_SAMPLES;
  l->turns = l->apart = 1;
  if (row && row->timeline.whole) return;
  if (samples && samples < turns) turns = samples;
  if (samples && samples < turns * apart) apart = samples / turns;
  l->turns = (int)(turns > 1 ? turns : 1), l->apart = (int)(apart > 1 ? apart : 1);
}

StampPlan stamp_plan(Arena *a, const Distribution *d, const Machine *m, const MemoryUses *uses) {
  StampPlan plan = {0};
  int next = 0;
  for (Op *loop = NULL; (loop = schedule_next_loop(d->k, loop, NULL));) {
    StampedLoop l = {.loop = loop, .first = next};
    l.times = loop_times(a, d, m, uses, loop, 0);
    if (l.times.why_not || op_has(loop, ATTR_from)) continue;
    find_events(a, &l);
    divide_stamps(d, &l);
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

const Sym *stamp_element(SymCtx *cx, const StampedLoop *l, const Sym *sample) {
  const Sym *at = sym_mul(cx, sample, sym_int(cx, (int64_t)l->stamps * l->waves));
  return sym_add(cx, at, sym_int(cx, l->first));
}
