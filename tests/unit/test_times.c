/* test_times.c: predicted times of loops: what limits them, and that more room never costs time. */
#include <stdio.h>

#include "ir/schedule/schedule.h"
#include "schedule/loop_times.h"
#include "unit/lane_kit.h"

#define GEMM_HEAD                                                                                  \
  "kernel @gemm(%a: mem<M, K, bf16, shared>, %b: mem<N, K, bf16, shared>, %c: mem<M, N, f32>)\n"   \
  "  bind M = 4096; bind N = 4096; bind K = 4096\n"
#define GEMM_BODY                                                                                  \
  "{\n"                                                                                            \
  "  %z = fill 0.0 : tile<M, N, f32>\n"                                                            \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %x = read %a\n    %y = read %b\n    %n = mma %x, %y, %acc\n    yield %n\n"                  \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"
#define GEMM(rows)                                                                                 \
  GEMM_HEAD "  workgroup M by 128 on 0; workgroup N by 256 on 1; tile K by 64\n"                   \
            "  wave M by 64; wave N by 256; hardware threads 128; persist 0\n" rows GEMM_BODY
#define SMALL(rows)                                                                                \
  GEMM_HEAD "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 32\n"                     \
            "  wave M by 16; wave N by 16; hardware threads 64\n" rows GEMM_BODY
#define ALONE(rows)                                                                                \
  GEMM_HEAD "  workgroup M by 16 on 0; workgroup N by 16 on 1; tile K by 32\n"                     \
            "  wave M by 16; wave N by 16; hardware threads 64\n" rows GEMM_BODY
/* Operands are loaded to registers. */
#define DIRECT                                                                                     \
  "kernel @gemm(%%a: mem<M, K, bf16>, %%b: mem<N, K, bf16>, %%c: mem<M, N, f32>)\n"                \
  "  bind M = 4096; bind N = 4096; bind K = 4096\n"                                                \
  "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 16\n"                               \
  "  wave M by 32; wave N by 32; hardware threads 64; %s{\n"                                       \
  "  %%z = fill 0.0 : tile<M, N, f32>\n"                                                           \
  "  %%r = for K carry %%acc = %%z {\n"                                                            \
  "    %%x = read %%a\n    %%y = read %%b\n    %%n = mma %%x, %%y, %%acc\n    yield %%n\n"         \
  "  }\n  write %%r, %%c\n}"
/* A row of exponentials, with a maximum and a sum that are carried. */
#define SOFTMAX(rows)                                                                              \
  "kernel @softmax(%a: mem<M, K, f32, shared>, %c: mem<M, f32>)\n"                                 \
  "  bind M = 4096; bind K = 4096\n"                                                               \
  "  workgroup M by 64 on 0; tile K by 64; wave M by 16; hardware threads 64\n" rows "{\n"         \
  "  %low = fill -10000.0 : tile<M, f32>\n  %z = fill 0.0 : tile<M, f32>\n"                        \
  "  %p, %r = for K carry %m = %low, %s = %z {\n"                                                  \
  "    %x = read %a\n    %top = max %x, %m {dim = K}\n    %d = broadcast %top : tile<M, K, f32>\n" \
  "    %y = sub %x, %d\n    %e = exp2 %y\n    %t = sum %e, %s {dim = K}\n"                         \
  "    yield %top, %t\n"                                                                           \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"
/* The tile of each iteration is multiplied by the same one. `from`: what the maximum begins with. */
#define AGAIN(from)                                                                                \
  "kernel @again(%a: mem<M, D, f16>, %b: mem<K, D, f16, shared>, %c: mem<M, f32>)\n"               \
  "  bind M = 4096; bind K = 4096; bind D = 64\n"                                                  \
  "  workgroup M by 64 on 0; tile K by 64; wave M by 16; hardware threads 64\n{\n"                 \
  "  %low = fill -1000.0 : tile<M, f32>\n"                                                         \
  "  %r = for K carry %m = %low {\n"                                                               \
  "    %x = read %a\n    %y = read %b\n    %z = fill 0.0 : tile<M, K, f32>\n"                      \
  "    %h = mul %m, %low\n    %p = mma %x, %y, %z\n"                                               \
  "    %t = max %p, " from " {dim = K}\n    yield %t\n"                                            \
  "  }\n  write %r, %c\n}"

static const char *const machines[] = {"sm_90a",  "sm_80",   "gfx942",  "gfx950",
                                       "gfx1100", "gfx1201", "gfx1250", "sm_89"};

typedef struct Timed {
  Lab lab;
  Machine machine;
  LoopTimes times;
} Timed;

static bool timed(const char *text, const char *target, Timed *out) {
  *out = (Timed){.lab = lab_open(text), .machine = {.target = target_find(target).machine}};
  Lab *l = &out->lab;
  PassOptions o = {.target = target, .stop_after = "turns", .verify_each = true};
  bool ok = l->k && passes_run(l->k, &o);
  const Op *loop = ok ? schedule_next_loop(l->k, NULL, NULL) : NULL;
  if (!loop) return lab_print_errors(l), false;
  const MachineSpec *row = kernel_machine(l->k);
  out->machine.lanes = row->lanes, out->machine.waves = row->waves;
  Facts facts = facts_of(l->k, l->cx->arena, FACT_memory_uses | FACT_distribute);
  out->times =
      loop_times(l->cx->arena, facts.distribute, &out->machine, facts.memory_uses, loop, 0);
  return true;
}

static int64_t cycles_of(const char *text, const char *target) {
  Timed t;
  bool ok = timed(text, target, &t) && !t.times.why_not;
  int64_t cycles = ok ? t.times.cycles : -1;
  lab_close(&t.lab);
  return cycles;
}

/* Two iterations are between a load and its use, so that two hide its latency, but not one. */
TEST(values_of_earlier_iterations_take_their_time) {
  const char *rows = "schedule K depth 3; at K 2.0 n.mma; at K 0.1 x.load y.load\n";
  for (size_t i = 0; i < WV_LEN(machines); i++) {
    char text[1024];
    snprintf(text, sizeof text, DIRECT, rows);
    int64_t cycles = cycles_of(text, machines[i]);
    CHECK(cycles >= unit_latencies(machines[i])->global / 2);
  }
}

/* 128 x 256 x 64 products at 2048 a cycle; 48 KiB come through L2 in the meantime. */
TEST(a_large_gemm_is_limited_by_its_products) {
  Timed t;
  CHECK(timed(GEMM("stages 4\n"), "sm_90a", &t));
  CHECK_INT(t.times.cycles, 1024);
  CHECK_INT(t.times.bound, 1024);
  CHECK_INT(t.times.limit, UNIT_matrix);
  CHECK(t.times.busy[UNIT_matrix] > 0.99 && t.times.busy[UNIT_copy] < 0.8);
  lab_close(&t.lab);
}

/* With one slot less, the product must end before the copy that fills its slot begins. */
TEST(fewer_slots_take_longer) {
  static const char *const kernels[] = {GEMM("stages 2\n"), GEMM("stages 3\n"), GEMM("stages 4\n")};
  int64_t last = INT64_MAX;
  for (size_t i = 0; i < WV_LEN(kernels); i++) {
    int64_t cycles = cycles_of(kernels[i], "sm_90a");
    CHECK(cycles > 0 && cycles <= last);
    last = cycles;
  }
  CHECK(cycles_of(kernels[0], "sm_90a") > cycles_of(kernels[2], "sm_90a") * 5 / 4);
}

/* A wave that starts a bulk copy and tests whether another has ended does nothing else meanwhile. */
TEST(bulk_copies_take_time_to_start) {
  const UnitLatencies *l = unit_latencies("sm_90a");
  int64_t boxes = cycles_of(SMALL("stages 4; boxes 1\n"), "sm_90a");
  CHECK(boxes >= 2 * l->start + l->test + l->barrier);
}

/* What is the same in each iteration is in the cache after the first one. */
TEST(a_tile_that_is_loaded_again_is_near) {
  int64_t global = unit_latencies("sm_80")->global;
  CHECK(cycles_of(AGAIN("%m"), "sm_80") < global);
}

/* What a maximum takes besides being issued, at most; -1: there is none. */
static int64_t latency_of_max(const char *text) {
  Timed t;
  int64_t found = -1;
  bool ok = timed(text, "sm_80", &t);
  for (int i = 0; ok && i < t.times.graph.events.n; i++) {
    const LoopCost *cost = &t.times.cost[i];
    int64_t latency = cost->takes - cost->issue;
    if (t.times.graph.events.at[i].op->kind == OP_max && latency > found) found = latency;
  }
  lab_close(&t.lab);
  return found;
}

/* Lanes that hold parts of a row exchange what they have, unless only the next iteration needs it. */
TEST(reductions_exchange_values_of_lanes) {
  int64_t exchange = unit_latencies("sm_80")->exchange;
  CHECK(latency_of_max(AGAIN("%h")) >= 2 * exchange); /* of four lanes */
  int64_t parts = latency_of_max(AGAIN("%m"));
  CHECK(parts >= 0 && parts < exchange);
}

TEST(a_loop_without_prefetching_waits_for_memory) {
  for (size_t i = 0; i < WV_LEN(machines); i++) {
    int64_t global = unit_latencies(machines[i])->global;
    CHECK(cycles_of(SMALL("stages 1\n"), machines[i]) > global);
  }
}

/* ---- turns ---- */

#define SHORT(rows)                                                                                \
  GEMM_HEAD "  workgroup M by 128 on 0; workgroup N by 64 on 1; tile K by 16; wave M by 16\n"      \
            "  hardware threads 32, mma F32_16x16x16_F16; ring K x y slots 8\n" rows GEMM_BODY

/* A turn is passed on through a barrier, in each direction. */
TEST(turns_take_time) {
  int64_t barrier = unit_latencies("sm_90a")->barrier, free = cycles_of(SHORT(""), "sm_90a");
  int64_t two = cycles_of(SHORT("  turns K 2 n\n"), "sm_90a");
  CHECK(free > 0 && two > free && two >= 2 * barrier);
}

/* Where a unit is always busy, groups that follow each other cost nothing. */
TEST(turns_hide_behind_a_busy_unit) {
  int64_t free = cycles_of(GEMM("  roles K load 4, math 8\n"), "sm_90a");
  CHECK(cycles_of(GEMM("  roles K load 4, math 8; turns K 2 n\n"), "sm_90a") == free);
}

/* ---- any loop ---- */

static const char *const kernels[] = {
    GEMM("stages 1\n"),  GEMM("stages 2\n"),    SMALL(""),
    SMALL("stages 2\n"), SMALL("boxes 0\n"),    ALONE("stages 2\n"),
    ALONE("stages 1\n"), SOFTMAX("stages 2\n"), SOFTMAX("stages 1\n"),
};

static bool is_sane(const LoopTimes *t) {
  bool ok = !t->why_not && t->cycles > 0 && t->bound > 0 && t->bound <= t->cycles;
  for (int u = 0; ok && u < UNIT_COUNT; u++) ok = t->busy[u] >= 0 && t->busy[u] <= 1.0001;
  for (int i = 1; ok && i < t->start.n; i++) ok = t->start.at[i - 1] <= t->start.at[i];
  return ok && t->ops.n > 0 && t->ops.n == t->start.n && (t->limit >= 0 || t->cycle.n > 0);
}

TEST(no_unit_is_busier_than_always) {
  for (size_t i = 0; i < WV_LEN(kernels); i++)
    for (size_t m = 0; m < WV_LEN(machines); m++) {
      Timed t;
      bool ok = timed(kernels[i], machines[m], &t) && is_sane(&t.times);
      if (!ok) printf("%s on %s: %lld\n", kernels[i], machines[m], (long long)t.times.cycles);
      CHECK(ok);
      lab_close(&t.lab);
    }
}

/* ---- no prediction ---- */

TEST(loops_without_a_prediction) {
  Timed t;
  CHECK(timed("kernel @k(%a: mem<B, M, K, f32, shared>, %c: mem<B, M, K, f32>)\n"
              "  workgroup M by 64 on 0; tile K by 16; tile B by 1; hardware threads 64\n"
              "  bind M = 64; bind K = 64; bind B = 4\n"
              "{ for B {\n for K {\n %x = read %a\n write %x, %c\n }\n }\n }",
              "sm_80", &t));
  CHECK_STR(t.times.why_not, "it contains another loop");
  lab_close(&t.lab);
  CHECK(timed(SMALL(""), "toy8", &t));
  CHECK_STR(t.times.why_not, "the units of the machine are unknown");
  lab_close(&t.lab);
}

TESTS_MAIN(RUN(a_large_gemm_is_limited_by_its_products) RUN(fewer_slots_take_longer)
               RUN(bulk_copies_take_time_to_start) RUN(a_tile_that_is_loaded_again_is_near)
                   RUN(reductions_exchange_values_of_lanes)
                       RUN(a_loop_without_prefetching_waits_for_memory)
                           RUN(no_unit_is_busier_than_always) RUN(turns_take_time)
                               RUN(turns_hide_behind_a_busy_unit)
                                   RUN(values_of_earlier_iterations_take_their_time)
                                       RUN(loops_without_a_prediction))
