/* test_cpu_together.c: waves and workgroups that wait for each other: barriers, memory, deadlocks,
 * requests to stop. The kernels are written in C here. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <unistd.h>

#include "runtime/cpu/cpu_together.h"
#include "unit/harness.h"

enum { WAVES = 3, ROUNDS = 200, PLACE = 5 };

typedef struct World {
  atomic_int flag[64];
  int plain[64];    /* written and read by different waves, ordered by barriers */
  atomic_int wrong; /* values that should not have been seen */
  atomic_int ran;
} World;

static int run(CpuRange *kernel, World *w, int64_t count, int waves, int groups) {
  CpuTask t = {.run = kernel, .args = &w, .count = count, .waves = waves, .scratch = 100};
  return cpu_run_together(&t, groups);
}

#define WORLD World *w = *(World *const *)args
#define KERNEL(name)                                                                               \
  static int name(const void *args, int64_t first, int64_t last, void *scratch, CpuWatch *watch)
#define LEAVE_IF(call)                                                                             \
  do {                                                                                             \
    int why = (call);                                                                              \
    if (why) return why;                                                                           \
  } while (0)

/* Until `flag` is `value`. */
static int await(CpuWatch *watch, atomic_int *flag, int value, int wait) {
  for (int seen = -1; seen != value;) {
    int now = atomic_load(flag);
    LEAVE_IF(cpu_watch_wait(watch, now != seen, wait));
    seen = now;
  }
  return CPU_DONE;
}

/* ---- barriers ---- */

/* Every wave writes, waits at a barrier, reads what the others wrote, and waits again. */
KERNEL(meet_often) {
  WORLD;
  int wave = (int)(first % WAVES), *own = scratch;
  (void)last;
  for (int i = 0; i < ROUNDS; i++) {
    own[wave] = i + wave;
    LEAVE_IF(cpu_watch_meet(watch, 0, WAVES, 0, PLACE));
    for (int other = 0; other < WAVES; other++) w->wrong += own[other] != i + other;
    LEAVE_IF(cpu_watch_meet(watch, 1 + i % 2, WAVES, 0, PLACE));
  }
  w->ran++;
  return CPU_DONE;
}

TEST(barriers) {
  static const int at_once[] = {1, 2, 7};
  for (size_t i = 0; i < WV_LEN(at_once); i++) {
    World w = {0};
    CHECK_INT(run(meet_often, &w, 7, WAVES, at_once[i]), CPU_DONE);
    CHECK_INT(w.wrong, 0);
    CHECK_INT(w.ran, 7 * WAVES);
  }
}

/* The first arrives and continues; the last waits for it. */
KERNEL(arrive_and_go_on) {
  WORLD;
  (void)scratch, (void)last;
  if (first == 0) {
    w->plain[0] = 7;
    LEAVE_IF(cpu_watch_meet(watch, 3, 2, 1, PLACE));
  } else {
    LEAVE_IF(cpu_watch_meet(watch, 3, 2, 0, PLACE));
    w->wrong += w->plain[0] != 7;
  }
  w->ran++;
  return CPU_DONE;
}

TEST(arrivals) {
  World w = {0};
  CHECK_INT(run(arrive_and_go_on, &w, 1, 2, 1), CPU_DONE);
  CHECK_INT(w.wrong, 0);
  CHECK_INT(w.ran, 2);
}

/* ---- memory ---- */

/* A number is passed around a ring: each waits for the one before it, the first for the last. */
KERNEL(hand_on) {
  WORLD;
  int all = 12, me = (int)first;
  (void)scratch, (void)last;
  for (int i = 0; i < 50; i++) {
    LEAVE_IF(await(watch, &w->flag[0], i * all + me, PLACE));
    w->plain[0]++;
    atomic_store(&w->flag[0], i * all + me + 1);
  }
  return CPU_DONE;
}

TEST(everybody_waits_for_the_one_before) {
  World w = {0};
  CHECK_INT(run(hand_on, &w, 4, WAVES, 4), CPU_DONE);
  CHECK_INT(w.plain[0], 600);
}

/* ---- deadlocks ---- */

KERNEL(wait_for_nothing) {
  WORLD;
  (void)scratch, (void)last;
  return await(watch, &w->flag[0], 1, first == 0 ? PLACE : PLACE + 1);
}

KERNEL(one_never_comes) {
  WORLD;
  (void)scratch, (void)last;
  if (first % WAVES == 1) {
    usleep(1000);
    return CPU_DONE;
  }
  LEAVE_IF(cpu_watch_meet(watch, 0, WAVES, 0, PLACE));
  w->ran++;
  return CPU_DONE;
}

/* One wave waits at the barrier for the other, which waits for memory that the first would
 * write. */
KERNEL(each_waits_for_the_other) {
  WORLD;
  (void)scratch, (void)last;
  if (first == 0) {
    LEAVE_IF(cpu_watch_meet(watch, 0, 2, 0, PLACE));
    atomic_store(&w->flag[0], 1);
    return CPU_DONE;
  }
  LEAVE_IF(await(watch, &w->flag[0], 1, PLACE + 1));
  return cpu_watch_meet(watch, 0, 2, 0, PLACE + 2);
}

/* The reported location is that of the first wave that waits, however the threads are scheduled. */
TEST(deadlocks) {
  for (int i = 0; i < 30; i++) {
    World w = {0};
    CHECK_INT(run(wait_for_nothing, &w, 1, 1, 1), CPU_STUCK + PLACE);
    CHECK_INT(run(wait_for_nothing, &w, 5, WAVES, 5), CPU_STUCK + PLACE);
    CHECK_INT(run(one_never_comes, &w, 1, WAVES, 1), CPU_STUCK + PLACE);
    CHECK_INT(run(one_never_comes, &w, 9, WAVES, 2), CPU_STUCK + PLACE);
    CHECK_INT(run(each_waits_for_the_other, &w, 1, 2, 1), CPU_STUCK + PLACE);
    CHECK_INT(w.ran, 0);
  }
}

/* A slow wave is not a deadlock: the flag is set late, after many iterations of the others. */
KERNEL(wait_for_the_slow) {
  WORLD;
  (void)scratch, (void)last;
  if (first > 0) return await(watch, &w->flag[0], 1, PLACE);
  usleep(20000);
  atomic_store(&w->flag[0], 1);
  return CPU_DONE;
}

TEST(slow_is_not_stuck) {
  for (int i = 0; i < 5; i++) {
    World w = {0};
    CHECK_INT(run(wait_for_the_slow, &w, 2, WAVES, 2), CPU_DONE);
  }
}

/* ---- the end ---- */

/* Not a deadlock: a counter changes in every iteration. */
KERNEL(never_ends) {
  WORLD;
  (void)scratch, (void)last;
  if (first % WAVES == 0) return cpu_watch_meet(watch, 0, WAVES, 0, PLACE);
  for (;;) {
    w->ran++;
    LEAVE_IF(cpu_watch_wait(watch, 1, PLACE));
  }
}

static bool after_some(void *user) {
  int *asked = user;
  return ++*asked > 2;
}

TEST(interrupted) {
  World own = {0}, *w = &own;
  int asked = 0;
  CpuTask t = {.run = never_ends, .args = &w, .count = 2, .waves = WAVES};
  t.interrupted = after_some, t.user = &asked;
  CHECK_INT(cpu_run_together(&t, 2), CPU_GIVEN_UP);
  CHECK_INT(asked, 3);
  CHECK(w->ran > 0);
}

/* An error in one wave ends those that wait for it. */
KERNEL(one_fails) {
  WORLD;
  (void)scratch, (void)last;
  if (first == 2) return 77;
  return await(watch, &w->flag[0], 1, PLACE);
}

TEST(one_reports) {
  World w = {0};
  CHECK_INT(run(one_fails, &w, 2, WAVES, 2), 77);
}

TEST(too_much_memory) {
  World own = {0}, *w = &own;
  CpuTask t = {.run = wait_for_nothing, .args = &w, .count = 2, .waves = 1};
  t.scratch = (size_t)1 << 61;
  CHECK_INT(cpu_run_together(&t, 2), CPU_POOL_NO_MEMORY);
}

TESTS_MAIN(RUN(barriers) RUN(arrivals) RUN(everybody_waits_for_the_one_before) RUN(deadlocks)
               RUN(slow_is_not_stuck) RUN(interrupted) RUN(one_reports) RUN(too_much_memory))
