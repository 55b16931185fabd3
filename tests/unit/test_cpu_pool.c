/* test_cpu_pool.c: the thread pool: every workgroup once, from several threads at the same time,
 * with few and many workgroups, after a fork, and what happens if one reports an error. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cpu/cpu_pool.h"
#include "unit/harness.h"

enum { MOST = 4096 };

typedef struct Marks {
  atomic_int count[MOST];
  atomic_int bad; /* scratch memory that another thread wrote, or that is not aligned */
} Marks;

static int mark(const void *args, int64_t first, int64_t last, void *scratch, CpuWatch *watch) {
  Marks *m = *(Marks *const *)args;
  (void)watch;
  int64_t *own = scratch;
  if ((uintptr_t)scratch % 64) m->bad++;
  own[0] = own[63] = first;
  for (int64_t i = first; i < last; i++) m->count[i]++;
  if (own[0] != first || own[63] != first) m->bad++;
  return 0;
}

static bool marks_all(CpuPool *p, int64_t n) {
  Marks *m = calloc(1, sizeof *m);
  CpuTask t = {.run = mark, .args = &m, .count = n, .scratch = 512};
  bool ok = !cpu_pool_run(p, &t) && !m->bad;
  for (int64_t i = 0; i < MOST; i++) ok &= m->count[i] == (i < n);
  free(m);
  return ok;
}

TEST(every_workgroup_once) {
  static const int counts[] = {0, 1, 2, 3, 7, 64, 1000, 4096};
  for (int threads = 1; threads <= 5; threads++) {
    CpuPool *p = cpu_pool_new(threads);
    CHECK_INT(cpu_pool_threads(p), threads);
    for (int turn = 0; turn < 50; turn++) CHECK(marks_all(p, counts[turn % 8]));
    cpu_pool_free(p);
  }
}

static void *launch_often(void *user) {
  for (int i = 0; i < 200; i++)
    if (!marks_all(user, i * 7 % 300)) return user;
  return NULL;
}

TEST(several_launches) {
  CpuPool *p = cpu_pool_new(3);
  pthread_t thread[4];
  void *wrong;
  for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, launch_often, p);
  for (int i = 0; i < 4; i++) {
    pthread_join(thread[i], &wrong);
    CHECK(!wrong);
  }
  cpu_pool_free(p);
}

static int nested(const void *args, int64_t first, int64_t last, void *scratch, CpuWatch *watch) {
  CpuPool *p = *(CpuPool *const *)args;
  (void)scratch, (void)watch;
  for (int64_t i = first; i < last; i++)
    if (!marks_all(p, 20)) abort();
  return 0;
}

/* A kernel that launches a kernel: the inner one runs alone. */
TEST(launch_in_a_launch) {
  CpuPool *p = cpu_pool_new(2);
  CpuTask t = {.run = nested, .args = &p, .count = 9, .scratch = 0};
  CHECK_INT(cpu_pool_run(p, &t), 0);
  cpu_pool_free(p);
}

/* ---- errors ---- */

typedef struct Failing {
  atomic_long ran;
  int64_t bad; /* the workgroup that fails */
  bool wait;   /* ranges without it end after it has failed */
  atomic_bool failed;
} Failing;

static int fail_at(const void *args, int64_t first, int64_t last, void *scratch, CpuWatch *watch) {
  Failing *f = *(Failing *const *)args;
  (void)scratch, (void)watch;
  f->ran += last - first;
  if (first <= f->bad && f->bad < last) {
    f->failed = true;
    return 7;
  }
  while (f->wait && !f->failed) usleep(20);
  return 0;
}

/* An error in one workgroup ends the launch: others are not started. The next launch is not
 * affected. A small number is in the first range of the launching thread. */
TEST(an_error_stops_the_rest) {
  enum { COUNT = 1 << 20 };
  for (int threads = 1; threads <= 3; threads++) {
    CpuPool *p = cpu_pool_new(threads);
    for (int64_t bad = 0; bad < COUNT; bad = 2 * bad + 1) {
      Failing own = {.bad = bad, .wait = bad < COUNT / 64}, *f = &own;
      CpuTask t = {.run = fail_at, .args = &f, .count = COUNT, .scratch = 0};
      CHECK_INT(cpu_pool_run(p, &t), 7);
      CHECK(f->ran > 0);
      if (threads > 1 && f->wait) CHECK(f->ran < COUNT);
    }
    CHECK(marks_all(p, 100));
    cpu_pool_free(p);
  }
}

TEST(too_much_scratch) {
  CpuPool *p = cpu_pool_new(2);
  Marks *m = NULL;
  CpuTask t = {.run = mark, .args = &m, .count = 4, .scratch = (size_t)1 << 62};
  CHECK_INT(cpu_pool_run(p, &t), CPU_POOL_NO_MEMORY);
  CHECK(marks_all(p, 4));
  cpu_pool_free(p);
}

/* ---- several launches at the same time ---- */

typedef struct Beside {
  CpuPool *pool;
  atomic_int running, done; /* the concurrent launch has begun; may end */
  pthread_t self;
  atomic_int others; /* workgroups that a thread other than `self` ran */
} Beside;

static int wait_for_end(const void *args, int64_t first, int64_t last, void *scratch,
                        CpuWatch *watch) {
  Beside *b = *(Beside *const *)args;
  (void)first, (void)last, (void)scratch, (void)watch;
  b->running = 1;
  while (!b->done) usleep(100);
  return 0;
}

static void *launch_and_wait(void *user) {
  Beside *b = user;
  CpuTask t = {.run = wait_for_end, .args = &b, .count = 1, .scratch = 0};
  return cpu_pool_run(b->pool, &t) ? user : NULL;
}

static int count_others(const void *args, int64_t first, int64_t last, void *scratch,
                        CpuWatch *watch) {
  Beside *b = *(Beside *const *)args;
  (void)scratch, (void)watch;
  if (!pthread_equal(pthread_self(), b->self)) b->others += (int)(last - first);
  usleep(200 * (useconds_t)(last - first)); /* long enough for helpers to wake up */
  return 0;
}

/* Two threads launch and there are two CPU cores: neither gets a helper. */
TEST(launching_threads_use_cpus) {
  Beside own = {.pool = cpu_pool_new(2), .self = pthread_self()}, *b = &own;
  CpuTask t = {.run = count_others, .args = &b, .count = 200, .scratch = 0};
  pthread_t thread;
  void *wrong;
  pthread_create(&thread, NULL, launch_and_wait, b);
  while (!b->running) usleep(100);
  CHECK_INT(cpu_pool_run(b->pool, &t), 0);
  CHECK_INT(b->others, 0);
  b->done = 1;
  pthread_join(thread, &wrong);
  CHECK(!wrong);
  CHECK_INT(cpu_pool_run(b->pool, &t), 0);
  CHECK(b->others > 0);
  cpu_pool_free(b->pool);
}

TEST(after_a_fork) {
  CpuPool *p = cpu_pool_new(3);
  CHECK(marks_all(p, 100));
  pid_t child = fork();
  if (child == 0) {
    cpu_pool_after_fork(p);
    _exit(marks_all(p, 100) && marks_all(p, 7) ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(marks_all(p, 100));
  cpu_pool_free(p);
}

/* A fork while another thread launches: in the child no thread does. */
TEST(fork_during_a_launch) {
  Beside own = {.pool = cpu_pool_new(3), .self = pthread_self()}, *b = &own;
  pthread_t thread;
  CHECK(marks_all(b->pool, 100));
  pthread_create(&thread, NULL, launch_and_wait, b);
  while (!b->running) usleep(100);
  pid_t child = fork();
  if (child == 0) {
    CpuTask t = {.run = count_others, .args = &b, .count = 200};
    cpu_pool_after_fork(b->pool);
    int result = cpu_pool_run(b->pool, &t);
    _exit(result || !b->others); /* it has helpers again */
  }
  int status = 1;
  waitpid(child, &status, 0);
  b->done = 1;
  pthread_join(thread, NULL);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  cpu_pool_free(b->pool);
}

/* ---- requests to stop ---- */

/* Like compiled code: a workgroup that checks for a stop now and then. */
static int ask_often(const void *args, int64_t first, int64_t last, void *scratch,
                     CpuWatch *watch) {
  Failing *f = *(Failing *const *)args;
  (void)scratch;
  int64_t span = 1, left = 1;
  for (int64_t i = first; i < last; i++) {
    usleep(50);
    f->ran++;
    if (--left == 0 && !(left = span = cpu_watch_ask(watch, span))) return CPU_GIVEN_UP;
  }
  return CPU_DONE;
}

static bool at_the_second(void *user) { return ++*(int *)user == 2; }

TEST(interrupted) {
  for (int threads = 1; threads <= 3; threads++) {
    CpuPool *p = cpu_pool_new(threads);
    Failing own = {0}, *f = &own;
    int asked = 0;
    CpuTask t = {.run = ask_often, .args = &f, .count = 1 << 30};
    t.interrupted = at_the_second, t.user = &asked;
    CHECK_INT(cpu_pool_run(p, &t), CPU_GIVEN_UP);
    CHECK_INT(asked, 2);
    CHECK(f->ran > 1 && f->ran < 100000);
    CHECK(marks_all(p, 100));
    cpu_pool_free(p);
  }
}

/* The caller has done its part, and notices the request while it waits for a helper. */
static int helper_is_slow(const void *args, int64_t first, int64_t last, void *scratch,
                          CpuWatch *watch) {
  Failing *f = *(Failing *const *)args;
  (void)first, (void)last, (void)scratch;
  f->ran++;
  while (f->ran < 2) usleep(100); /* both have begun */
  while (!watch->is_caller && cpu_watch_ask(watch, 1)) usleep(100);
  return watch->is_caller ? CPU_DONE : CPU_GIVEN_UP;
}

TEST(interrupted_while_it_waits) {
  CpuPool *p = cpu_pool_new(2);
  Failing own = {0}, *f = &own;
  int asked = 0;
  CpuTask t = {.run = helper_is_slow, .args = &f, .count = 2};
  t.interrupted = at_the_second, t.user = &asked;
  CHECK_INT(cpu_pool_run(p, &t), CPU_GIVEN_UP);
  CHECK_INT(asked, 2);
  cpu_pool_free(p);
}

/* ---- waiting ---- */

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* An idle process sleeps, whatever its threads wait for after a launch. */
TEST(idle_threads_sleep) {
  setenv("WAVE_SPIN_US", "2000", 1);
  CpuPool *p = cpu_pool_new(2);
  CHECK(marks_all(p, 100));
  usleep(50 * 1000);
  double start = cpu_seconds();
  usleep(200 * 1000);
  CHECK(cpu_seconds() - start < 0.02);
  CHECK(marks_all(p, 100));
  cpu_pool_free(p);
  unsetenv("WAVE_SPIN_US");
}

/* Threads that spin, that sleep, and that are about to. */
TEST(launches_apart) {
  static const char *const spins[] = {"0", "50", "2000"};
  for (int i = 0; i < 3; i++) {
    setenv("WAVE_SPIN_US", spins[i], 1);
    CpuPool *p = cpu_pool_new(2);
    for (int turn = 0; turn < 60; turn++) {
      CHECK(marks_all(p, 64));
      usleep((useconds_t)turn * 4);
    }
    cpu_pool_free(p);
  }
  unsetenv("WAVE_SPIN_US");
}

TEST(number_of_threads) {
  setenv("WAVE_NUM_THREADS", "3", 1);
  CpuPool *p = cpu_pool_new(0);
  CHECK_INT(cpu_pool_threads(p), 3);
  cpu_pool_free(p);
  unsetenv("WAVE_NUM_THREADS");
  setenv("OMP_NUM_THREADS", "2", 1);
  p = cpu_pool_new(0);
  CHECK_INT(cpu_pool_threads(p), 2);
  cpu_pool_free(p);
  unsetenv("OMP_NUM_THREADS");
  p = cpu_pool_new(0);
  CHECK(cpu_pool_threads(p) >= 1);
  cpu_pool_free(p);
}

TESTS_MAIN(RUN(every_workgroup_once) RUN(several_launches) RUN(launch_in_a_launch)
               RUN(an_error_stops_the_rest) RUN(too_much_scratch) RUN(launching_threads_use_cpus)
                   RUN(after_a_fork) RUN(fork_during_a_launch) RUN(interrupted)
                       RUN(interrupted_while_it_waits) RUN(idle_threads_sleep) RUN(launches_apart)
                           RUN(number_of_threads))
