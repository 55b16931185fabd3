/* loop_free.c: see loop_free.h. */
#include "schedule/interval/loop_free.h"

#include <string.h>

#include "ir/ops/live.h"
#include "ir/region_facts.h"
#include "schedule/interval/free_proof.h"
#include "schedule/interval/interval_place.h"

enum {
  WORK = 30000,   /* wrong choices of the search, times the square of events: half a millisecond */
  FAR = 8,        /* an eighth above the bound: the search may find a shorter one */
  CLOSE = 100,    /* a hundredth is good enough where the model is not exact */
  PROOF = 500000, /* as WORK, for proofs: about a millisecond */
  MOST_BOUND = 120, /* events; with more, only units count */
  MOST_PROVED = 32, /* the same for proofs: nothing comes of it */
  PROVED = 200      /* the share of an interval by which it may be too long */
};

/* ---- whole iterations ----
 *
 * The units that an event takes are as free some whole iterations later, so every event can be as late
 * as the others allow: tiles and values then wait as briefly as possible. */

/* Whether another op of its iteration needs what it does. */
static bool is_needed(const Free *f, int i) {
  for (int j = 0; j < f->forward; j++) {
    const Edge *e = &f->edges.at[j];
    if (e->from == i && e->distance == 0 && e->to != f->twin[i]) return true;
  }
  return false;
}

static int64_t slack_of(const Edge *e, const Interval *found) {
  return found->start[e->to] + e->distance * found->cycles - e->delay - found->start[e->from];
}

/* The iterations by which an event can be later. */
static int64_t delay_of(const Free *f, const Interval *found, int i) {
  int64_t least = INT32_MAX;
  for (int j = 0; j < f->forward; j++) {
    const Edge *e = &f->edges.at[j];
    if (e->from != i || e->to == i || e->to == f->twin[i]) continue;
    int64_t by = floor_div64(slack_of(e, found), found->cycles);
    if (by < least) least = by;
  }
  return least;
}

/* With the other wave's. */
static bool move_late(const Free *f, Interval *found, int i) {
  int other = f->twin[i];
  int64_t own = delay_of(f, found, i), by = delay_of(f, found, other);
  if (own < by) by = own;
  if (by <= 0 || by == INT32_MAX) return false;
  found->start[i] += by * found->cycles;
  if (other != i) found->start[other] += by * found->cycles;
  return true;
}

static bool is_valid(const Free *f, const Interval *found) {
  for (int i = 0; i < f->edges.n; i++)
    if (slack_of(&f->edges.at[i], found) < 0) return false;
  return true;
}

/* Stages that rows give may be in the way: then everything stays where it is. */
static void move_all_late(const Free *f, Interval *found) {
  size_t bytes = sizeof(int64_t) * (size_t)f->n;
  int64_t *before = arena_copy(f->arena, found->start, bytes);
  bool moved = true;
  for (int round = 0; moved && round < f->n; round++) {
    moved = false;
    for (int i = f->origin - 1; i >= 0; i--)
      if (is_needed(f, i)) moved |= move_late(f, found, i);
  }
  if (!is_valid(f, found)) memcpy(found->start, before, bytes);
}

/* ---- places ---- */

typedef struct Phase {
  int64_t begin; /* of an iteration of the loop */
  int last;      /* stage */
  int64_t cost;
} Phase;

static int stage_at(const Interval *found, int64_t begin, int i) {
  return (int)floor_div64(found->start[i] - begin, found->cycles);
}

static int result_registers(const Op *op) {
  return op->nresults && op->results[0].layout ? live_registers(&op->results[0]) : 0;
}

/* Registers that carry values from one iteration of the loop to the next; INT32_MAX: a tile would
 * wait in them for too long. */
static Phase phase_at(const Free *f, const Interval *found, int64_t begin) {
  Phase p = {begin, INT32_MIN, 0};
  for (int i = 0; i < f->origin; i++)
    if (free_is_first(f, i) && stage_at(found, begin, i) > p.last)
      p.last = stage_at(found, begin, i);
  for (int i = 0; i < f->edges.n; i++) {
    const Edge *e = &f->edges.at[i];
    if (e->from >= f->origin || e->to >= f->origin || !free_is_first(f, e->to)) continue;
    const Op *op = free_event(f, e->from)->op, *user = free_event(f, e->to)->op;
    if (op == user || !result_registers(op) || !op_takes(user, &op->results[0])) continue;
    int kept = stage_at(found, begin, e->to) - stage_at(found, begin, e->from);
    p.cost += (int64_t)kept * result_registers(op);
    if (schedule_class(user) == OP_CLASS_store && kept > 1) p.cost = INT32_MAX;
  }
  return p;
}

static Phase best_phase(const Free *f, const Interval *found) {
  Phase best = phase_at(f, found, found->start[f->origin]);
  for (int i = 0; !f->fixed && i < f->origin; i++) {
    if (!free_is_first(f, i)) continue;
    Phase p = phase_at(f, found, found->start[i]);
    if (i == 0 || p.cost < best.cost) best = p;
  }
  return best;
}

static void add_place(const Free *f, FreePlace p, FreeTimes *out) {
  int at = out->places.n;
  vec_push(f->arena, &out->places, p);
  for (; at > 0 && out->places.at[at - 1].at > p.at; at--)
    out->places.at[at] = out->places.at[at - 1];
  out->places.at[at] = p;
}

static void find_places(const Free *f, const Interval *found, FreeTimes *out) {
  Phase phase = best_phase(f, found);
  for (int i = 0; i < f->origin; i++) {
    int stage = stage_at(found, phase.begin, i);
    if (!free_is_first(f, i) || !free_cost(f, i)->issue) continue;
    add_place(f,
              (FreePlace){free_event(f, i)->op, phase.last - stage,
                          found->start[i] - phase.begin - stage * found->cycles},
              out);
  }
}

static void add_ring(const Free *f, const Op *alloc, int slots, FreeTimes *out) {
  for (int i = 0; i < out->rings.n; i++) {
    if (out->rings.at[i].alloc != alloc) continue;
    if (slots > out->rings.at[i].slots) out->rings.at[i].slots = slots;
    return;
  }
  vec_push(f->arena, &out->rings, ((FreeRing){alloc, slots}));
}

/* From the edges by which tiles are filled again. */
static void find_rings(const Free *f, const Interval *found, FreeTimes *out) {
  for (int i = 0; i < f->tiles.n; i++) {
    const Edge *e = &f->edges.at[f->tiles.at[i].edge];
    int64_t after = found->start[e->from] + e->delay - found->start[e->to];
    add_ring(f, f->tiles.at[i].alloc, (int)ceil_div64(after, found->cycles), out);
  }
}

/* ---- the loop ---- */

int64_t loop_free_bound(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits,
                        int waves) {
  FreeLimits all = *limits;
  all.bounds = true;
  Free f = free_graph(a, k, t, &all, waves);
  IntervalProblem p = free_problem(&f);
  if (p.events > MOST_BOUND) p.nedges = 0, p.held.most = 0;
  return interval_bound(a, &p);
}

int64_t loop_free_raise(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits,
                        int64_t bound, int64_t known) {
  FreeLimits all = *limits;
  all.bounds = true;
  Free f = free_graph(a, k, t, &all, 2);
  if (f.n > MOST_PROVED) return bound;
  free_prove(&f);
  IntervalProblem p = free_problem(&f);
  int64_t each = (int64_t)f.n * f.n;
  p.close = PROVED, p.total = PROOF / each + 1;
  return interval_raise(a, &p, bound, known);
}

/* If the other wave is only assumed to follow closely, the bound is that of units and cycles. */
FreeTimes loop_free(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits, int waves) {
  Free f = free_graph(a, k, t, limits, waves);
  FreeTimes out = {0};
  IntervalProblem p = free_problem(&f);
  p.budget = WORK / (f.n * f.n) / 16 + 1;
  p.total = WORK / (f.n * f.n) + 1;
  p.close = waves == 1 ? CLOSE : 0;
  if (waves == 1) p.known = t->cycles;
  Interval found = waves == 1 ? interval_place(a, &p) : interval_solve(a, &p);
  if (waves == 1 && found.crowded && found.cycles - found.bound > found.bound / FAR) {
    p.held.most -= p.held.spare;
    if (found.cycles < p.known) p.known = found.cycles;
    Interval other = interval_solve(a, &p);
    other.bound = found.bound; /* the other wave does not always follow closely */
    if (other.cycles < found.cycles) found = other;
  }
  out.cycles = found.cycles, out.bound = found.bound;
  if (found.cycles == PATHS_NEVER) return out;
  move_all_late(&f, &found);
  out.registers = (int)pressure_of(a, &p.held, found.start, found.cycles);
  find_places(&f, &found, &out);
  find_rings(&f, &found, &out);
  return out;
}
