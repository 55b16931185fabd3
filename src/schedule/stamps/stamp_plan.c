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

StampPlan stamp_plan(Arena *a, const Distribution *d, const Machine *m, const MemoryUses *uses) {
  StampPlan plan = {0};
  int next = 0;
  for (Op *loop = NULL; (loop = schedule_next_loop(d->k, loop, NULL));) {
    StampedLoop l = {.loop = loop, .first = next};
    l.times = loop_times(a, d, m, uses, loop);
    if (l.times.why_not || op_has(loop, ATTR_from)) continue;
    find_events(a, &l);
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
