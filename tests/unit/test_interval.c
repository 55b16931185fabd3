/* test_interval.c: intervals of loops, compared with a search through all starts. */
#include "schedule/interval/interval_place.h"
#include "unit/harness.h"

#define N(list) (int)(sizeof(list) / sizeof(list)[0])

/* A copy engine fills a ring that a product reads: the figures are those of a GEMM of 128x256x64
 * on Hopper, with two operands. */
enum { COPY_A, COPY_B, PRODUCT, RELEASE, GEMM_EVENTS };
enum { ENGINE, MATRIX };

static Interval solve_gemm(Arena *a, int slots, long budget, int *cycle, int *n) {
  Edge edges[] = {{COPY_A, PRODUCT, 1000, 0},
                  {COPY_B, PRODUCT, 1100, 0},
                  {PRODUCT, RELEASE, 1024, 0},
                  {RELEASE, COPY_A, 0, slots},
                  {RELEASE, COPY_B, 0, slots}};
  UnitUse uses[] = {{COPY_A, ENGINE, 350}, {COPY_B, ENGINE, 700}, {PRODUCT, MATRIX, 1024}};
  IntervalProblem p = {.events = GEMM_EVENTS,
                       .nedges = N(edges),
                       .nuses = N(uses),
                       .edges = edges,
                       .uses = uses,
                       .budget = budget};
  Interval found = interval_solve(a, &p);
  if (cycle) *n = interval_cycle(a, &p, &found, cycle);
  return found;
}

static Interval gemm(Arena *a, int slots, long budget) {
  return solve_gemm(a, slots, budget, NULL, NULL);
}

static int gemm_cycle(Arena *a, int slots, int *cycle) {
  int n;
  solve_gemm(a, slots, 1000, cycle, &n);
  return n;
}

TEST(a_ring_of_three_reaches_the_copy_engines_bound) {
  Arena *a = arena_new();
  CHECK_INT(gemm(a, 3, 1000).cycles, 1050);
  CHECK_INT(gemm(a, 3, 1000).bound, 1050);
  arena_free(a);
}

/* One slot: copy, product, copy. Two: half of that, which the order of the copies makes longer. */
TEST(fewer_slots_take_longer) {
  Arena *a = arena_new();
  Interval one = gemm(a, 1, 1000), two = gemm(a, 2, 1000);
  CHECK_INT(one.cycles, one.bound);
  CHECK_INT(two.cycles, two.bound);
  CHECK_INT(one.cycles, 350 + 1100 + 1024);
  CHECK_INT(two.cycles, (350 + 1100 + 1024) / 2);
  arena_free(a);
}

/* With two slots a shorter interval would break the cycle through the ring; with three the copy
 * engine is always busy. */
TEST(a_cycle_of_events_limits_the_interval) {
  Arena *a = arena_new();
  int cycle[GEMM_EVENTS];
  CHECK_INT(gemm_cycle(a, 2, cycle), 4);
  CHECK_INT(gemm_cycle(a, 3, cycle), 2);
  CHECK_INT(cycle[0] + cycle[1], COPY_A + COPY_B);
  arena_free(a);
}

TEST(a_cycle_without_distance_never_fits) {
  Arena *a = arena_new();
  Edge edges[] = {{0, 1, 3, 0}, {1, 0, 1, 0}};
  IntervalProblem p = {.events = 2, .nedges = N(edges), .edges = edges, .budget = 100};
  CHECK(interval_solve(a, &p).cycles == PATHS_NEVER);
  CHECK(interval_bound(a, &p) == PATHS_NEVER);
  arena_free(a);
}

TEST(nothing_takes_one_cycle) {
  Arena *a = arena_new();
  CHECK_INT(interval_solve(a, &(IntervalProblem){0}).cycles, 1);
  CHECK_INT(interval_solve(a, &(IntervalProblem){.events = 3}).cycles, 1);
  arena_free(a);
}

/* ---- random problems against all starts ---- */

static uint64_t state;
static int below(int n) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((state >> 33) % (uint64_t)n);
}

enum { EVENTS = 4, EDGES = 6, USES = 5, WAVE = 7 };

/* However many choices may be made, the bound is one; with enough of them it is the optimum. A guess,
 * right or wrong, changes nothing. */
static void check_bounds(Harness *harness, Arena *a, const IntervalProblem *p,
                         const Interval *best) {
  IntervalProblem q = *p;
  int64_t least = interval_bound(a, p);
  q.close = 1000;
  for (int i = 0; i < 3; i++) {
    q.total = i == 2 ? 100000 : 1 + below(20);
    int64_t bound = interval_raise(a, &q, least, best->cycles + below(5));
    CHECK(bound >= least && bound <= best->cycles);
    if (i == 2) CHECK_INT(bound, best->cycles);
  }
  q = *p, q.guess = 1 + below(20);
  CHECK_INT(interval_solve(a, &q).cycles, best->cycles);
}

static bool fits(const IntervalProblem *p, const int64_t *start, int64_t interval) {
  for (int i = 0; i < p->nedges; i++) {
    const Edge *e = &p->edges[i];
    if (start[e->to] - start[e->from] < e->delay - e->distance * interval) return false;
  }
  for (int i = 0; i < p->nuses; i++)
    for (int j = 0; j < p->nuses; j++) {
      const UnitUse *x = &p->uses[i], *y = &p->uses[j];
      if (x->cycles > interval) return false; /* it would meet itself */
      if (x->unit != y->unit || x->event == y->event || !x->cycles || !y->cycles) continue;
      int64_t apart = (start[y->event] - start[x->event]) % interval;
      apart = apart < 0 ? apart + interval : apart;
      if (apart < x->cycles || apart > interval - y->cycles) return false;
    }
  return true;
}

/* Starts from 0 to `most`, for all events. */
static bool exists(const IntervalProblem *p, int64_t *start, int64_t interval, int64_t most) {
  for (int i = 0; i < p->events; i++) start[i] = 0;
  for (int i = 0; i < p->events;) {
    if (fits(p, start, interval)) return true;
    for (i = 0; i < p->events && ++start[i] > most; i++) start[i] = 0;
  }
  return false;
}

static void draw(Edge *edges, UnitUse *uses, IntervalProblem *p) {
  *p = (IntervalProblem){.events = 2 + below(EVENTS - 1),
                         .nedges = below(EDGES + 1),
                         .nuses = below(USES + 1),
                         .edges = edges,
                         .uses = uses,
                         .budget = 10000};
  for (int i = 0; i < p->nedges; i++)
    edges[i] = (Edge){below(p->events), below(p->events), below(5), below(3)};
  for (int i = 0; i < p->nuses; i++) uses[i] = (UnitUse){below(p->events), below(2), below(4)};
}

/* An event that uses a unit twice would conflict with itself. */
static void use_once(IntervalProblem *p, UnitUse *uses) {
  for (int i = 0; i < p->nuses; i++)
    for (int j = 0; j < i; j++)
      if (uses[j].event == uses[i].event && uses[j].unit == uses[i].unit) uses[i].cycles = 0;
}

TEST(intervals_are_the_shortest) {
  Edge edges[EDGES];
  UnitUse uses[USES];
  IntervalProblem p;
  int64_t start[EVENTS];
  int cycle[EVENTS];
  state = 1;
  for (int i = 0; i < 600; i++) {
    Arena *a = arena_new();
    draw(edges, uses, &p);
    use_once(&p, uses);
    Interval found = interval_solve(a, &p);
    if (found.cycles != PATHS_NEVER) {
      CHECK_INT(found.bound, found.cycles);
      CHECK(fits(&p, found.start, found.cycles));
      if (found.cycles > 1) CHECK(!exists(&p, start, found.cycles - 1, 18));
      CHECK(interval_cycle(a, &p, &found, cycle) > 0 || found.cycles == 1);
      CHECK(interval_bound(a, &p) <= found.cycles);
      check_bounds(harness, a, &p, &found);
    } else {
      CHECK(!exists(&p, start, 12, 18));
    }
    arena_free(a);
  }
}

/* Without proof: possible, and not below the bound. */
TEST(a_small_budget_leaves_a_gap) {
  Edge edges[EDGES];
  UnitUse uses[USES];
  IntervalProblem p;
  state = 7;
  for (int i = 0; i < 2000; i++) {
    Arena *a = arena_new();
    draw(edges, uses, &p);
    use_once(&p, uses);
    Interval best = interval_solve(a, &p);
    p.budget = 1;
    Interval found = interval_solve(a, &p);
    CHECK(found.bound <= best.cycles && best.cycles <= found.cycles);
    CHECK((found.cycles == PATHS_NEVER) == (best.cycles == PATHS_NEVER));
    if (found.cycles != PATHS_NEVER) CHECK(fits(&p, found.start, found.cycles));
    arena_free(a);
  }
}

/* ---- registers ---- */

enum { VALUES = 3, COPIES = 2, TURNS = 6 };

/* Whether the value of iteration `turn` is in registers when `event` starts in iteration 0. */
static bool is_held(const HeldValues *h, const int64_t *start, int64_t interval, int i, int turn,
                    int event) {
  int64_t last = INT64_MIN;
  for (int j = 0; j < h->n; j++) {
    int64_t use = start[h->at[j].to] + (turn + h->at[j].distance) * interval;
    if (h->at[j].value == h->at[i].value && use > last) last = use;
  }
  return start[h->at[i].from] + turn * interval < start[event] && start[event] <= last;
}

static int64_t registers_at(const HeldValues *h, const int64_t *start, int64_t interval,
                            int event) {
  int64_t sum = 0;
  for (int i = 0; i < h->n; i++)
    for (int turn = -TURNS; turn <= TURNS; turn++)
      if (!i || h->at[i].value != h->at[i - 1].value)
        sum += is_held(h, start, interval, i, turn, event) ? h->at[i].registers : 0;
  return sum;
}

static bool fits_registers(const IntervalProblem *p, const int64_t *start, int64_t interval) {
  if (!fits(p, start, interval)) return false;
  for (int e = 0; e < p->events; e++)
    if (registers_at(&p->held, start, interval, e) > p->held.most) return false;
  return true;
}

static bool exists_registers(const IntervalProblem *p, int64_t interval, int64_t most) {
  int64_t start[EVENTS] = {0};
  for (int i = 0; i < p->events;) {
    if (fits_registers(p, start, interval)) return true;
    for (i = 0; i < p->events && ++start[i] > most; i++) start[i] = 0;
  }
  return false;
}

/* Events start one at a time. A value has one or two uses, and a few copies. */
static void draw_held(Edge *edges, UnitUse *uses, HeldValue *held, IntervalProblem *p) {
  int events = 3, nedges = 0, n = 0;
  for (int v = 1 + below(VALUES); v > 0; v--) {
    int from = below(events), registers = 1 + below(3);
    for (int i = 1 + below(2); i > 0; i--) {
      int to = below(events), distance = to <= from ? 1 : below(2);
      held[n++] = (HeldValue){v, from, to, distance, registers};
      edges[nedges++] = (Edge){from, to, 1 + below(5), distance};
      edges[nedges++] = (Edge){to, from, 0, COPIES - distance};
    }
  }
  for (int i = 0; i < events; i++) uses[i] = (UnitUse){i, WAVE, 1 + below(2)};
  *p = (IntervalProblem){.events = events,
                         .nedges = nedges,
                         .nuses = events,
                         .edges = edges,
                         .uses = uses,
                         .held = {held, n, 1 + below(8), 0},
                         .budget = 10000};
}

static void check_placed(Harness *harness, Arena *a, const IntervalProblem *p, int64_t best) {
  Interval placed = interval_place(a, p);
  CHECK(placed.bound <= best);
  if (placed.cycles == PATHS_NEVER) return;
  CHECK(placed.cycles >= best);
  CHECK(fits_registers(p, placed.start, placed.cycles));
  int64_t most = 0;
  for (int e = 0; e < p->events; e++) {
    int64_t held = registers_at(&p->held, placed.start, placed.cycles, e);
    if (held > most) most = held;
  }
  CHECK_INT(pressure_of(a, &p->held, placed.start, placed.cycles), most);
  CHECK(most <= p->held.most);
}

/* The optimum needs no more registers than there are; with fewer cycles nothing fits, and no bound is
 * above it, however little was searched. */
TEST(values_fit_their_registers) {
  Edge edges[4 * VALUES];
  UnitUse uses[EVENTS];
  HeldValue held[2 * VALUES];
  IntervalProblem p;
  int limited = 0, never = 0;
  state = 23;
  for (int i = 0; i < 1500; i++) {
    Arena *a = arena_new();
    draw_held(edges, uses, held, &p);
    Interval found = interval_solve(a, &p), free;
    IntervalProblem any = p, hasty = p;
    any.held.most = 0, hasty.budget = 1;
    free = interval_solve(a, &any);
    if (found.cycles != PATHS_NEVER) {
      CHECK_INT(found.bound, found.cycles);
      CHECK(fits_registers(&p, found.start, found.cycles));
      if (found.cycles > 1) CHECK(!exists_registers(&p, found.cycles - 1, 24));
      CHECK(interval_bound(a, &p) <= found.cycles);
      CHECK(interval_solve(a, &hasty).bound <= found.cycles);
      check_bounds(harness, a, &p, &found);
      limited += found.cycles > free.cycles;
    } else {
      CHECK(!exists_registers(&p, 12, 24));
      never++;
    }
    check_placed(harness, a, &p, found.cycles);
    arena_free(a);
  }
  CHECK(limited > 50);
  CHECK(never > 50);
}

/* ---- two waves ---- */

enum { PAIRS = 2 };

/* Events 2i and 2i + 1 are the same op of two waves. */
static const int twins[] = {1, 0, 3, 2};

/* How many iterations separate two events of a wave, rounded down. */
static int64_t rounds(const int64_t *start, int64_t interval, int a, int b) {
  return floor_div64(start[b] - start[a], interval);
}

static bool fits_twins(const IntervalProblem *p, const int64_t *start, int64_t interval) {
  IntervalProblem other = *p;
  UnitUse uses[USES + 1];
  for (int i = 0; i < p->nuses; i++) {
    uses[i] = p->uses[i];
    if (uses[i].unit == WAVE) uses[i].event = p->twin[uses[i].event];
  }
  other.uses = uses; /* the second wave starts one op at a time, too */
  return fits(p, start, interval) && fits(&other, start, interval) &&
         rounds(start, interval, 0, 2) == rounds(start, interval, 1, 3);
}

static bool exists_twins(const IntervalProblem *p, int64_t interval, int64_t most) {
  int64_t start[2 * PAIRS] = {0};
  for (int i = 0; i < p->events;) {
    if (fits_twins(p, start, interval)) return true;
    for (i = 0; i < p->events && ++start[i] > most; i++) start[i] = 0;
  }
  return false;
}

/* Two ops of each wave, which start one at a time; the waves stay within an iteration of each other. */
static void draw_twins(Edge *edges, UnitUse *uses, IntervalProblem *p) {
  int n = 0;
  for (int i = 0; i < 2 * PAIRS; i++) edges[n++] = (Edge){i, twins[i], 0, 1};
  for (int i = below(3); i > 0; i--) {
    Edge e = {2 * below(PAIRS), 2 * below(PAIRS), below(6), below(3)};
    edges[n++] = e;
    edges[n++] = (Edge){e.from + 1, e.to + 1, e.delay, e.distance};
  }
  uses[0] = (UnitUse){0, WAVE, 1 + below(3)};
  uses[1] = (UnitUse){2, WAVE, 1 + below(3)};
  for (int i = 2; i < USES; i++) uses[i] = (UnitUse){i - 1, below(2), below(4)};
  *p = (IntervalProblem){.events = 2 * PAIRS,
                         .nedges = n,
                         .nuses = USES,
                         .edges = edges,
                         .uses = uses,
                         .budget = 10000,
                         .twin = twins,
                         .wave = WAVE};
}

TEST(waves_run_the_same_program) {
  Edge edges[2 * PAIRS + EDGES];
  UnitUse uses[USES];
  IntervalProblem p;
  state = 11;
  for (int i = 0; i < 400; i++) {
    Arena *a = arena_new();
    draw_twins(edges, uses, &p);
    Interval found = interval_solve(a, &p);
    if (found.cycles != PATHS_NEVER) {
      CHECK_INT(found.bound, found.cycles);
      CHECK(fits_twins(&p, found.start, found.cycles));
      if (found.cycles > 1) CHECK(!exists_twins(&p, found.cycles - 1, 14));
      check_bounds(harness, a, &p, &found);
    } else {
      CHECK(!exists_twins(&p, 12, 14));
    }
    arena_free(a);
  }
}

/* ---- waves that meet ---- */

enum { MEETING = 2 * PAIRS, MEETING_EVENTS };

static const int meeting_twins[] = {1, 0, 3, 2, MEETING};

static bool fits_meeting(const IntervalProblem *p, const int64_t *start, int64_t interval) {
  return fits_twins(p, start, interval) &&
         rounds(start, interval, MEETING, 0) == rounds(start, interval, MEETING, 1) &&
         rounds(start, interval, MEETING, 2) == rounds(start, interval, MEETING, 3);
}

/* With the barrier in the middle: all times can be shifted. */
static bool exists_meeting(const IntervalProblem *p, int64_t interval, int64_t most) {
  int64_t start[MEETING_EVENTS] = {[MEETING] = most / 2};
  for (int i = 0; i < MEETING;) {
    if (fits_meeting(p, start, interval)) return true;
    for (i = 0; i < MEETING && ++start[i] > most; i++) start[i] = 0;
  }
  return false;
}

/* As draw_twins, with a barrier and some ops that the second wave starts later. */
static void draw_meeting(Edge *edges, UnitUse *uses, IntervalProblem *p) {
  draw_twins(edges, uses, p);
  for (int i = 0; i < 2 * PAIRS; i += 2)
    if (below(2)) edges[p->nedges++] = (Edge){i, i + 1, below(4), 0};
  uses[p->nuses++] = (UnitUse){MEETING, WAVE, 1 + below(2)};
  p->events = MEETING_EVENTS, p->twin = meeting_twins;
}

/* Each wave issues all of its ops between two meetings. So the waves are closer to each other than an
 * iteration, by as much: edges that say so exclude no schedule, and give a bound at once. */
TEST(waves_that_meet_are_close) {
  Edge edges[2 * PAIRS + EDGES + 4 * PAIRS];
  UnitUse uses[USES + 1];
  IntervalProblem p;
  int raised = 0;
  state = 31;
  for (int i = 0; i < 250; i++) {
    Arena *a = arena_new();
    draw_meeting(edges, uses, &p);
    Interval found = interval_solve(a, &p);
    int64_t bound = interval_bound(a, &p), all = uses[0].cycles + uses[1].cycles;
    all += uses[p.nuses - 1].cycles;
    if (found.cycles != PATHS_NEVER) {
      CHECK(fits_meeting(&p, found.start, found.cycles));
      if (found.cycles > 1) CHECK(!exists_meeting(&p, found.cycles - 1, 14));
    }
    for (int e = 0; e < 2 * PAIRS; e++) edges[p.nedges++] = (Edge){e, meeting_twins[e], all, 1};
    CHECK_INT(interval_solve(a, &p).cycles, found.cycles);
    CHECK(interval_bound(a, &p) <= found.cycles);
    raised += interval_bound(a, &p) > bound;
    arena_free(a);
  }
  CHECK(raised > 50);
}

/* If a barrier separates the ops, and another one the second from the first of the next iteration, one of
 * them is between other barriers than the op that lags most. */
TEST(lags_between_different_barriers_add_up) {
  Edge edges[2 * PAIRS + EDGES + 12 * PAIRS];
  UnitUse uses[USES + 2];
  IntervalProblem p;
  static const int six[] = {1, 0, 3, 2, MEETING, MEETING + 1};
  int raised = 0;
  state = 37;
  for (int i = 0; i < 400; i++) {
    Arena *a = arena_new();
    draw_twins(edges, uses, &p);
    int64_t lags[] = {1 + below(4), 1 + below(4)}, all = uses[0].cycles + uses[1].cycles;
    for (int w = 0; w < 2; w++) {
      edges[p.nedges++] = (Edge){2 * w, 2 * w + 1, lags[w], 0};
      edges[p.nedges++] = (Edge){w, MEETING, 0, 0},
      edges[p.nedges++] = (Edge){MEETING, 2 + w, 1, 0};
      edges[p.nedges++] = (Edge){2 + w, MEETING + 1, 0, 0};
      edges[p.nedges++] = (Edge){MEETING + 1, w, 1, 1};
      uses[p.nuses++] = (UnitUse){MEETING + w, WAVE, 1}, all++;
    }
    p.events = MEETING + 2, p.twin = six;
    Interval found = interval_solve(a, &p);
    int64_t bound = interval_bound(a, &p);
    all += lags[0] < lags[1] ? lags[0] : lags[1];
    for (int e = 0; e < 2 * PAIRS; e++) edges[p.nedges++] = (Edge){e, six[e], all, 1};
    CHECK_INT(interval_solve(a, &p).cycles, found.cycles);
    raised += found.cycles != PATHS_NEVER && interval_bound(a, &p) > bound;
    arena_free(a);
  }
  CHECK(raised > 50);
}

/* ---- paths ---- */

TEST(edges_at_once_give_the_same_paths) {
  Edge edges[EDGES];
  UnitUse uses[USES];
  IntervalProblem p;
  state = 3;
  for (int i = 0; i < 2000; i++) {
    Arena *a = arena_new();
    draw(edges, uses, &p);
    Paths *one = paths_new(a, p.events), *all = paths_new(a, p.events);
    int64_t interval = 1 + below(6), needed = 0;
    paths_clear(one, interval);
    for (int e = 0; e < p.nedges && !needed; e++) needed = paths_add(one, edges[e]);
    CHECK_INT(paths_fill(all, interval, edges, p.nedges) != 0, needed != 0);
    for (int from = 0; !needed && from < p.events; from++)
      for (int to = 0; to < p.events; to++)
        CHECK(paths_between(one, from, to) == paths_between(all, from, to));
    arena_free(a);
  }
}

/* Paths between the first events are the same if only these are kept. */
TEST(paths_of_some_events_are_the_same) {
  Edge edges[EDGES];
  UnitUse uses[USES];
  IntervalProblem p;
  state = 5;
  for (int i = 0; i < 2000; i++) {
    Arena *a = arena_new();
    draw(edges, uses, &p);
    Paths *all = paths_new(a, p.events), *some = paths_new(a, p.events);
    int64_t interval = 1 + below(6);
    int first = below(p.events + 1);
    int64_t needed = paths_fill(all, interval, edges, p.nedges);
    CHECK_INT(paths_fill_first(some, interval, edges, p.nedges, first) != 0, needed != 0);
    for (int from = 0; !needed && from < first; from++)
      for (int to = 0; to < first; to++)
        CHECK(paths_between(some, from, to) == paths_between(all, from, to));
    arena_free(a);
  }
}

TESTS_MAIN(RUN(a_ring_of_three_reaches_the_copy_engines_bound) RUN(fewer_slots_take_longer)
               RUN(a_cycle_of_events_limits_the_interval) RUN(a_cycle_without_distance_never_fits)
                   RUN(nothing_takes_one_cycle) RUN(intervals_are_the_shortest)
                       RUN(a_small_budget_leaves_a_gap) RUN(values_fit_their_registers)
                           RUN(waves_run_the_same_program) RUN(waves_that_meet_are_close)
                               RUN(lags_between_different_barriers_add_up)
                                   RUN(edges_at_once_give_the_same_paths)
                                       RUN(paths_of_some_events_are_the_same))
