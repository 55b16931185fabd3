/* timeline.c: see timeline.h. */
#include "schedule/stamps/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "schedule/schedule_file.h"
#include "schedule/stamps/stamp_plan.h"

typedef struct Reading {
  Arena *arena;
  const ScheduledKernel *s;
  const StampedLoop *l;
  const int64_t *stamps;
} Reading;

typedef Vec(double) Samples;

enum { SHORT_CLOCK = 1 << 20 }; /* RDNA3's starts again after this many cycles */

/* ---- stamps ---- */

/* 0: it was not recorded. */
static int64_t stamp_at(const Reading *r, int sample, int stamp, int wave) {
  const StampedLoop *l = r->l;
  if (sample >= l->trips) return 0;
  return r->stamps[l->first + (sample * l->stamps + stamp) * l->waves + wave];
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(Samples *all) {
  if (!all->n) return 0;
  qsort(all->at, (size_t)all->n, sizeof *all->at, by_size);
  return (all->at[(all->n - 1) / 2] + all->at[all->n / 2]) / 2;
}

/* The stamps of a sample. */
static int count_taken(const StampedLoop *l, int sample) {
  int n = 1;
  for (int i = 1; i < l->stamps; i++) n += stamp_turn(l, i) == sample % l->turns;
  return n;
}

/* From one stamp of a sample to another, or to that of the next sample if `to` is not larger; without
 * what the stamps between them take, if one takes `takes`. */
static double between(const Reading *r, int from, int to, double takes) {
  Samples all = {0};
  for (int w = 0; w < r->l->waves; w++)
    for (int i = 0; i < r->l->trips; i++) {
      bool next = to <= from;
      int64_t begin = stamp_at(r, i, from, w), end = stamp_at(r, i + next, to, w);
      if (!begin || !end) continue;
      int64_t apart = end < begin ? end - begin + SHORT_CLOCK : end - begin;
      int taken = next ? count_taken(r->l, i) : 1 + (to - 1) / r->l->turns;
      if (apart >= 0) vec_push(r->arena, &all, (double)apart - takes * taken);
    }
  double middle = median(&all);
  return middle > 0 ? middle : 0;
}

/* ---- ops ---- */

/* When the first wave has issued the op of event i of the plan, and no longer waits for what the op
 * waits for. */
static int64_t issued(const StampedLoop *l, int i) {
  const LoopGraph *g = &l->times.graph;
  int event = l->events.at[i];
  int64_t last = l->times.at[event] + l->times.cost[event].issue;
  for (int j = 0; j < g->events.n; j++) {
    const LoopEvent *e = &g->events.at[j];
    bool waits = e->kind == LOOP_WAITS && e->op == g->events.at[event].op && e->wave == 0;
    int64_t ends = waits ? l->times.at[j] + l->times.cost[j].issue : last;
    if (ends > last) last = ends;
  }
  return last;
}

static bool is_any(const void *user, const Op *op) { return !user || op; }

static const char *name_of(const Reading *r, const Op *op) {
  bool orders = op_info[op->kind].flags & OPF_SYNC;
  const char *name =
      orders ? NULL : schedule_name_of(r->arena, r->s->k, r->l->loop, op, is_any, NULL);
  return name ? name : op_info[op->kind].name;
}

static const char *place_of(const Reading *r, Span at) {
  if (!at.file) return "";
  return arena_printf(r->arena, "%s:%u", sources_name(&r->s->k->cx->sources, at.file), at.line);
}

/* The iteration begins when the last op of the one before it has been issued. */
static TimedOp timed_op(const Reading *r, int i, double stamp) {
  const StampedLoop *l = r->l;
  const Op *op = l->times.graph.events.at[l->events.at[i]].op;
  int64_t begins = issued(l, l->events.n - 1) - l->times.cycles;
  TimedOp t = {.name = name_of(r, op), .place = place_of(r, op->at)};
  t.ahead = schedule_ahead(r->s->k, l->loop, op);
  t.reached = (i ? issued(l, i - 1) : begins) - begins;
  t.takes = issued(l, i) - begins - t.reached;
  t.measured_at = i ? between(r, 0, i, stamp) : 0;
  t.measured = between(r, 0, i + 1, stamp) - t.measured_at;
  if (t.measured < 0) t.measured = 0;
  return t;
}

static void count_recorded(const Reading *r, LoopTimeline *out) {
  for (int w = 0; w < r->l->waves; w++) {
    int n = 0;
    for (int i = 0; i < r->l->trips; i++) n += stamp_at(r, i, 0, w) != 0;
    out->waves += n > 0;
    if (n > out->iterations) out->iterations = n;
  }
}

static LoopTimeline loop_timeline(const Reading *r) {
  const StampedLoop *l = r->l;
  LoopTimeline out = {.name = schedule_loop_name(r->arena, l->loop), .cycles = l->times.cycles};
  out.place = place_of(r, l->loop->at);
  count_recorded(r, &out);
  out.stamp = between(r, l->stamps - 2, l->stamps - 1, 0);
  out.measured = out.iterations > 1 ? between(r, 0, 0, 0) / l->apart : 0;
  out.stamps = (1 + (double)(l->stamps - 1) / l->turns) / l->apart;
  out.plain = out.measured;
  if (out.measured > 0 && l->apart == 1) out.plain = between(r, 0, 0, out.stamp);
  for (int i = 0; i < l->events.n; i++) vec_push(r->arena, &out.ops, timed_op(r, i, out.stamp));
  return out;
}

bool timeline_is_comparable(const Timeline *t) { return strcmp(t->unit, "cycles") == 0; }

Timeline timeline_of(Arena *a, const ScheduledKernel *s, const int64_t *stamps, int64_t n) {
  Timeline out = {.kernel = s->k->name, .target = s->target->name, .unit = "cycles"};
  StampPlan plan = {0};
  if (s->uses) plan = stamp_plan(a, s->d, s->machine, s->uses);
  for (int i = 0; i < plan.n; i++) {
    const StampedLoop *l = &plan.at[i];
    Reading r = {a, s, l, stamps};
    if (l->first + (int64_t)l->trips * l->stamps * l->waves > n) break;
    LoopTimeline timeline = loop_timeline(&r);
    if (timeline.iterations) vec_push(a, &out.loops, timeline);
  }
  return out;
}
