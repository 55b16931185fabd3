/* test_line.c: programs of a loop that are timed without being compiled. */
#include "schedule/interval/line.h"
#include "unit/harness.h"

#define N(list) (int)(sizeof(list) / sizeof(list)[0])

/* Two waves load a tile, store it, fetch it and multiply. */
enum { LOAD, STORE, FETCH, PRODUCT, OPS };
enum { MEMORY, SHARED, MATRIX };

static const Edge edges[] = {{0, 2, 400, 0}, {1, 3, 400, 0}, {4, 6, 30, 0},
                             {5, 7, 30, 0},  {6, 6, 100, 1}, {7, 7, 100, 1}};
static const UnitUse uses[] = {{0, MEMORY, 40},  {1, MEMORY, 40}, {2, SHARED, 20},
                               {3, SHARED, 20},  {4, SHARED, 20}, {5, SHARED, 20},
                               {6, MATRIX, 100}, {7, MATRIX, 100}};
static const LineNeed needs[] = {{LOAD, STORE, 0, 400, true, true},
                                 {STORE, FETCH, 0, 60, false, false},
                                 {FETCH, PRODUCT, 0, 30, true, false}};
static const LineTile tiles[] = {{.fill = STORE, .read = FETCH, .ring = 0, .stored = true}};
static const LineOp ops[] = {{.start = {0, 1}, .end = {-1, -1}, .issue = {10, 10}},
                             {.start = {2, 3}, .end = {-1, -1}, .issue = {10, 10}, .arrives = 50},
                             {.start = {4, 5}, .end = {-1, -1}, .issue = {10, 10}},
                             {.start = {6, 7}, .end = {-1, -1}, .issue = {90, 90}, .last = true}};

static const IntervalProblem interval = {.events = 2 * OPS,
                                         .nedges = N(edges),
                                         .nuses = N(uses),
                                         .edges = edges,
                                         .uses = uses,
                                         .wave = 7};

static LineProblem gemm(const LineRing *ring, int64_t bytes) {
  return (LineProblem){.p = &interval,
                       .nedges = N(edges),
                       .ops = ops,
                       .needs = needs,
                       .tiles = tiles,
                       .rings = ring,
                       .nops = OPS,
                       .nneeds = N(needs),
                       .ntiles = 1,
                       .nrings = 1,
                       .bytes = bytes,
                       .barrier = 16,
                       .waves = 2,
                       .depth = 6,
                       .copies = 2};
}

static Line line_of(Arena *a, const LineProblem *p, const int *order, const int *lead) {
  Line line = line_new(a, p);
  for (int i = 0; i < OPS; i++)
    line.order[i] = order[i], line.place[order[i]] = i, line.lead[i] = lead[i];
  return line;
}

static int barriers_of(const Line *line) {
  int n = 0;
  for (int i = 0; i < OPS; i++) n += line->met[i];
  return n;
}

static const int written[] = {LOAD, STORE, FETCH, PRODUCT};
static const int rotated[] = {FETCH, PRODUCT, STORE, LOAD};

/* In one iteration: the load, the store until it has arrived, a barrier, the fetches of both waves, and
 * the products, of which the second wave's comes last. */
TEST(without_overlap_everything_adds_up) {
  Arena *a = arena_new();
  LineRing ring = {1024, 4};
  LineProblem p = gemm(&ring, 4096);
  Line line = line_of(a, &p, written, (int[]){0, 0, 0, 0});
  CHECK(line_arrange(&p, &line));
  CHECK_INT(line.slots[0], 1);
  CHECK_INT(barriers_of(&line), 2);
  line_time(line_run_new(a, &p), &line, 100000);
  CHECK(line.cycles > 400 + 50 + 30 + 100);
  CHECK(line.cycles < 800);
  arena_free(a);
}

/* The tile of the next iteration is stored while this one is multiplied: with two slots one barrier is
 * enough, and the matrix unit is always busy. With room for one slot, both barriers remain. */
TEST(slots_save_barriers) {
  Arena *a = arena_new();
  LineRing ring = {1024, 4};
  for (int slots = 1; slots <= 2; slots++) {
    LineProblem p = gemm(&ring, slots * 1024);
    Line line = line_of(a, &p, rotated, (int[]){2, 1, 0, 0});
    CHECK(line_arrange(&p, &line));
    CHECK_INT(line.slots[0], slots);
    CHECK_INT(barriers_of(&line), 3 - slots);
    line_time(line_run_new(a, &p), &line, 100000);
    CHECK(line.cycles >= 200 && line.cycles <= 420);
  }
  arena_free(a);
}

/* A tile waits in registers for one stage at most; an op does not precede what it needs; and the last
 * stage is the last one. */
TEST(what_is_not_allowed) {
  Arena *a = arena_new();
  LineRing ring = {1024, 4};
  LineProblem p = gemm(&ring, 1 << 20);
  static const int leads[][OPS] = {{0, 1, 0, 0}, {3, 1, 0, 0}, {1, 0, 1, 0}, {2, 1, 1, 1}};
  for (int i = 0; i < N(leads); i++) {
    Line line = line_of(a, &p, written, leads[i]);
    CHECK(!line_arrange(&p, &line));
  }
  p.bytes = 512;
  Line line = line_of(a, &p, written, (int[]){0, 0, 0, 0});
  CHECK(!line_arrange(&p, &line));
  arena_free(a);
}

/* Values that go from wave to wave are in the stage of what needs them; other ops may come between. */
TEST(ops_come_between_a_store_and_its_fetch) {
  Arena *a = arena_new();
  LineRing ring = {1024, 1};
  LineOp passing[OPS];
  LineProblem p = gemm(&ring, 1024);
  for (int i = 0; i < OPS; i++) passing[i] = ops[i];
  passing[STORE].passes = passing[FETCH].passes = true;
  p.ops = passing;
  static const int order[] = {STORE, LOAD, FETCH, PRODUCT};
  Line line = line_of(a, &p, order, (int[]){1, 3, 2, 0});
  CHECK(line_arrange(&p, &line));
  for (int i = 0; i < OPS; i++) CHECK_INT(line.order[i], order[i]);
  CHECK_INT(line.lead[STORE], 0);
  CHECK_INT(line.lead[FETCH], 0);
  line_time(line_run_new(a, &p), &line, 100000);
  line_improve(a, line_run_new(a, &p), &line, 0, 200);
  CHECK_INT(line.lead[STORE], line.lead[FETCH]);
  arena_free(a);
}

/* What is early runs an iteration ahead of the rest: the product of a tile while the next one is loaded. */
TEST(iterations_overlap_at_first) {
  Arena *a = arena_new();
  LineRing ring = {1024, 4};
  LineProblem p = gemm(&ring, 4096);
  LineRun *run = line_run_new(a, &p);
  Line line = line_of(a, &p, written, (int[]){0, 0, 0, 0});
  CHECK(line_arrange(&p, &line));
  line_time(run, &line, 100000);
  int64_t before = line.cycles;
  CHECK(line_begin(a, run, &line, before) == 0); /* that is good enough */
  CHECK_INT(line.cycles, before);
  CHECK(line_begin(a, run, &line, 0) > 0);
  CHECK(line.cycles < before - before / 8);
  CHECK(line_arrange(&p, &line));
  arena_free(a);
}

/* Nothing is shorter than what a unit needs; the same steps find the same line. */
TEST(lines_become_shorter) {
  Arena *a = arena_new();
  LineRing ring = {1024, 4};
  LineProblem p = gemm(&ring, 4096);
  int64_t found[2];
  for (int i = 0; i < 2; i++) {
    LineRun *run = line_run_new(a, &p);
    Line line = line_of(a, &p, written, (int[]){0, 0, 0, 0});
    CHECK(line_arrange(&p, &line));
    line_time(run, &line, 100000);
    int64_t before = line.cycles;
    line_improve(a, run, &line, 0, 200);
    CHECK(line.cycles < before);
    CHECK(line.cycles >= 200);
    found[i] = line.cycles;
    Line again = line_new(a, &p);
    line_copy(&p, &again, &line);
    CHECK(line_arrange(&p, &again));
    line_time(run, &again, 100000);
    CHECK_INT(again.cycles, line.cycles);
  }
  CHECK_INT(found[0], found[1]);
  CHECK(found[0] <= 260);
  arena_free(a);
}

TESTS_MAIN(RUN(without_overlap_everything_adds_up) RUN(slots_save_barriers) RUN(what_is_not_allowed)
               RUN(ops_come_between_a_store_and_its_fetch) RUN(iterations_overlap_at_first)
                   RUN(lines_become_shorter))
