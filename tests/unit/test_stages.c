/* test_stages.c: loops whose copies are prefetched: the same results with any number of
 * iterations, one barrier for each, and no redundant wait. */
#include "ir/ops/alloc_layout.h"
#include "unit/lane_kit.h"

#define BODY                                                                                       \
  "{\n"                                                                                            \
  "  %z = fill 0.0 : tile<M, N, f32>\n"                                                            \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %x = read %a\n"                                                                             \
  "    %y = read %b\n"                                                                             \
  "    %n = mma %x, %y, %acc\n"                                                                    \
  "    yield %n\n"                                                                                 \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

#define GEMM(rows)                                                                                 \
  "kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"     \
  "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 16\n"                               \
  "  wave M by 16; wave N by 16; hardware threads 64, mma F32_16x16x16_F16\n"                      \
  "  dynamic M; dynamic N; dynamic K\n" rows BODY

/* Four waves that multiply from shared memory, if the machine can. */
#define GEMM_SHARED(rows)                                                                          \
  "kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"     \
  "  workgroup M by 64 on 0; workgroup N by 32 on 1; tile K by 16\n"                               \
  "  wave M by 64; wave N by 32; hardware threads 128\n"                                           \
  "  dynamic M; dynamic N; dynamic K\n" rows BODY

#define ALIGNED "assume Eq(Mod(K, 8), 0)\n"

/* Every number of iterations from none to more than there are slots, whole and ragged. */
static int trips_differ(const Sample *s, const char *target, int by) {
  int wrong = 0, number = 0;
  for (int k = 0; k <= 7 * 16 && !wrong; k += by, number++) {
    SampleSizes sizes = {{s->dims[0].tile, s->dims[1].tile + 1, k}};
    wrong += !lane_agrees(s, &sizes, target, number);
  }
  return wrong;
}

static const Sample asynchronous[] = {
    {"chosen", GEMM(ALIGNED), {{"M", 32}, {"N", 32}, {"K", 16}}},
    {"two", GEMM(ALIGNED "stages 2\n"), {{"M", 32}, {"N", 32}, {"K", 16}}},
    {"three", GEMM(ALIGNED "stages 3\n"), {{"M", 32}, {"N", 32}, {"K", 16}}},
    {"five", GEMM(ALIGNED "stages 5\n"), {{"M", 32}, {"N", 32}, {"K", 16}}},
    {"shared", GEMM_SHARED(ALIGNED), {{"M", 64}, {"N", 32}, {"K", 16}}},
    {"shared, two", GEMM_SHARED(ALIGNED "stages 2\n"), {{"M", 64}, {"N", 32}, {"K", 16}}},
    {"shared, three", GEMM_SHARED(ALIGNED "stages 3\n"), {{"M", 64}, {"N", 32}, {"K", 16}}},
    {"shared, five", GEMM_SHARED(ALIGNED "stages 5\n"), {{"M", 64}, {"N", 32}, {"K", 16}}},
};

TEST(any_number_of_iterations) {
  for (size_t i = 0; i < WV_LEN(asynchronous); i++) {
    CHECK_INT(trips_differ(&asynchronous[i], "sm_80", 8), 0);
    CHECK_INT(trips_differ(&asynchronous[i], "sm_90a", 8), 0);
  }
}

/* Two bytes cannot be copied asynchronously, and some machines have no asynchronous copies. */
static const Sample by_registers[] = {
    {"unaligned", GEMM(""), {{"M", 32}, {"N", 32}, {"K", 16}}},
    {"unaligned, shared", GEMM_SHARED(""), {{"M", 64}, {"N", 32}, {"K", 16}}},
    {"requested", GEMM("stages 2\n"), {{"M", 32}, {"N", 32}, {"K", 16}}},
};

TEST(tiles_wait_in_registers) {
  for (size_t i = 0; i < WV_LEN(by_registers); i++)
    EACH_TARGET(t) CHECK_INT(trips_differ(&by_registers[i], t, 5), 0);
}

/* Tiles of 16 KB: a second slot would take the LDS of another workgroup, so the next tile is stored
 * to the only one, after all waves have read it. */
static const Sample only_slot = {
    "only slot",
    "kernel @gemm(%a: mem<M, K, f32, shared>, %b: mem<N, K, f32, shared>, %c: mem<M, N, f32>)\n"
    "  workgroup M by 64 on 0; workgroup N by 64 on 1; tile K by 64\n"
    "  wave M by 32; wave N by 32; hardware threads 64\n"
    "  dynamic M; dynamic N; dynamic K\n" BODY,
    {{"M", 64}, {"N", 64}, {"K", 64}}};

TEST(tiles_wait_for_the_only_slot) {
  static const int sizes[] = {0, 1, 64, 65, 128, 200};
  for (size_t i = 0; i < WV_LEN(sizes); i++)
    CHECK(lane_agrees(&only_slot, &(SampleSizes){{64, 65, sizes[i]}}, "gfx942", (int)i));
}

/* ---- other loops ---- */

#define TWICE(rows)                                                                                \
  "kernel @twice(%a: mem<B, M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, "        \
  "f32>)\n"                                                                                        \
  "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 16; tile B by 1\n"                  \
  "  wave M by 16; wave N by 16; hardware threads 64, mma F32_16x16x16_F16, vector {B: 0}\n" rows  \
  "{\n"                                                                                            \
  "  %z = fill 0.0 : tile<M, N, f32>\n"                                                            \
  "  %r = for B carry %o = %z {\n"                                                                 \
  "    %s = for K carry %acc = %o {\n"                                                             \
  "      %x = read %a {mapping = map 2 {B: $ARGB, M: $index0, K: $index1} ->"                      \
  " {M: $index0, K: $index1}} : tile<M, K, f16>\n"                                                 \
  "      %y = read %b\n      %n = mma %x, %y, %acc\n      yield %n\n"                              \
  "    }\n"                                                                                        \
  "    yield %s\n"                                                                                 \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

static const Sample others[] = {
    {"operands at different points",
     "kernel @chain(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>,"
     " %v: mem<P, N, f16, shared>, %c: mem<M, P, f32>)\n"
     "  workgroup M by 32 on 0; tile N by 16\n"
     "  wave M by 16; hardware threads 64, mma F32_16x16x16_F16\n"
     "  dynamic M; dynamic N; bind K = 16; bind P = 16\n"
     "{\n"
     "  %z = fill 0.0 : tile<P, M, f32>\n"
     "  %r = for N carry %acc = %z {\n"
     "    %x = read %a\n    %y = read %b\n    %s = fill 0.0 : tile<N, M, f32>\n"
     "    %p = mma %y, %x, %s\n"
     "    %h = cast %p : tile<N, M, f16>\n    %t = permute %h : tile<M, N, f16>\n"
     "    %w = read %v\n    %n = mma %w, %t, %acc\n    yield %n\n"
     "  }\n"
     "  %o = permute %r : tile<M, P, f32>\n  write %o, %c\n"
     "}",
     {{"M", 32}, {"N", 16}, {"K", -16}, {"P", -16}}},
    {"a loop in a loop",
     TWICE("  dynamic M; dynamic N; dynamic K; dynamic B\n"),
     {{"M", 32}, {"N", 32}, {"K", 16}, {"B", 2}}},
};

TEST(other_loops) {
  for (size_t i = 0; i < WV_LEN(others); i++)
    EACH_TARGET(t) CHECK_INT(lane_differs(&others[i], t), 0);
}

/* Outstanding copies must not overwrite the tiles of the next outer iteration. */
TEST(missing_waits_behind_a_loop_are_found) {
  SampleSizes sizes = {{32, 32, 3 * 16, 2}};
  const Sample twice = {"twice",
                        TWICE("  bind M = 32; bind N = 32; bind K = 48; bind B = 2\n"),
                        {{"M", 32}, {"N", 32}, {"K", 16}, {"B", 2}}};
  int waits = 0, found = 0;
  for (int which = 0, n = 1; which < n; which++) {
    Lab l = sample_open(&twice, &sizes);
    CHECK(lane_transform(&l, "sm_80"));
    n = 0;
    for (Op *op = ir_first(l.k), *next; op; op = next) {
      next = ir_next(op);
      if (op->kind == OP_async_wait && n++ == which) ir_remove(op);
    }
    waits = n;
    found += !lane_run(&l, "sm_80", which) && has_code(l.cx, "E0803");
    lab_close(&l);
  }
  CHECK_INT(waits, 2); /* in the loop, and after it */
  CHECK_INT(found, 2);
}

/* ---- what must not be prefetched ---- */

static int rings_of(const char *text, const char *target) {
  Lab l = lab_open(text);
  PassOptions o = {.target = target, .stop_after = "stages", .verify_each = true};
  int rings = l.k && passes_run(l.k, &o) ? 0 : -1;
  for (const Op *op = ir_first(l.k); op; op = ir_next(op))
    rings += op->kind == OP_alloc && alloc_slots(op) > 1;
  lab_close(&l);
  return rings;
}

#define LOOP(row, before, ops)                                                                     \
  "kernel @k(%a: mem<M, K, f32, shared>, %c: mem<M, K, f32>)\n"                                    \
  "  workgroup M by 64 on 0; tile K by 16; wave M by 32; hardware threads 64\n" row "{\n" before   \
  "  for K {\n    %x = read %a\n" ops "  }\n}"

TEST(what_stays_where_it_is) {
  const char *plain = LOOP("bind M = 64; bind K = 64\n", "", "    write %x, %c\n");
  CHECK_INT(rings_of(plain, "sm_80"), 1);
  CHECK_INT(rings_of(plain, "gfx942"), 1);
  CHECK_INT(rings_of(plain, "toy8"), 0); /* its registers are not known, and it was not requested */
  CHECK_INT(
      rings_of(LOOP("bind M = 64; bind K = 64; stages 1\n", "", "    write %x, %c\n"), "gfx942"),
      0);
  CHECK_INT(
      rings_of(LOOP("bind M = 64; bind K = 64; stages 0\n", "", "    write %x, %c\n"), "gfx942"),
      1);
  CHECK_INT(
      rings_of(LOOP("bind M = 64; bind K = 64; stages 2\n", "", "    write %x, %c\n"), "gfx942"),
      1);
  CHECK_INT(
      rings_of(LOOP("bind M = 64; bind K = 64; stages 1\n", "", "    write %x, %c\n"), "sm_80"), 0);
  CHECK_INT(rings_of(LOOP("bind M = 64; bind K = 16\n", "", "    write %x, %c\n"), "sm_80"), 0);
  CHECK_INT(rings_of(LOOP("bind M = 64; bind K = 64\n", "", "    write %x, %a\n"), "sm_80"), 0);
}

/* Shared memory decides: rings as deep as it allows, or none. */
static int slots_of(const char *text, const char *target) {
  Lab l = lab_open(text);
  PassOptions o = {.target = target, .stop_after = "allocs", .verify_each = true};
  int slots = l.k && passes_run(l.k, &o) ? 1 : -1;
  for (const Op *op = ir_first(l.k); op; op = ir_next(op))
    if (op->kind == OP_alloc && alloc_slots(op) > slots) slots = alloc_slots(op);
  lab_close(&l);
  return slots;
}

#define SIZED(m, n, k, rows)                                                                       \
  "kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"     \
  "  workgroup M by " m " on 0; workgroup N by " n " on 1; tile K by " k "\n"                      \
  "  wave M by 64; wave N by 64; hardware threads 64, mma F32_16x16x16_F16\n"                      \
  "  bind M = 1024; bind N = 1024; bind K = 1024\n" rows BODY

/* Reads of arguments before loops and in them. A tile that waits in registers is read before
 * the products of the iteration before, whether it has a slot of its own or not. */
static int reads_ahead(const char *text, const char *target) {
  Lab l = lab_open(text);
  PassOptions o = {.target = target, .stop_after = "stages", .verify_each = true};
  int reads = l.k && passes_run(l.k, &o) ? 0 : -1;
  for (const Op *op = ir_first(l.k); op; op = ir_next(op))
    reads += op->kind == OP_read && op_has(op, ATTR_iteration);
  lab_close(&l);
  return reads;
}

/* Registers and shared memory decide, so that a SIMD still runs two waves: two slots, one, or the
 * tiles are not prefetched at all. */
TEST(waves_limit_what_waits_in_registers) {
  static const struct {
    const char *text, *target;
    int reads, slots;
  } rows[] = {
      {SIZED("128", "128", "32", ""), "gfx942", 2, 2},
      {SIZED("128", "128", "64", ""), "gfx942", 2, 1}, /* 64 KB would be all there is */
      {SIZED("128", "128", "64", ""), "gfx950", 2, 2}, /* ... of 160 */
      {SIZED("128", "128", "64", "stages 0\n"), "gfx942", 2, 1},
      {SIZED("128", "128", "64", "stages 2\n"), "gfx950", 2, 2},
      {SIZED("128", "128", "64", "stages 1\n"), "gfx950", 0, 1},
      {SIZED("128", "128", "32", "occupancy 3\n"), "gfx942", 2, 1},
      {SIZED("128", "128", "64", ""), "gfx1100", 2, 1},
      {SIZED("256", "256", "64", ""), "gfx1100", 0, 1}, /* more than 256 registers */
  };
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    CHECK_INT(reads_ahead(rows[i].text, rows[i].target), rows[i].reads);
    CHECK_INT(slots_of(rows[i].text, rows[i].target), rows[i].slots);
  }
}

TEST(shared_memory_limits_the_depth) {
  CHECK_INT(slots_of(SIZED("64", "64", "32", ""), "sm_80"), 4);
  CHECK_INT(slots_of(SIZED("128", "128", "128", ""), "sm_80"), 2);
  CHECK_INT(slots_of(SIZED("256", "128", "128", ""), "sm_80"), 1);
  CHECK_INT(slots_of(SIZED("128", "128", "128", "stages 8\n"), "sm_90a"), 3);
  CHECK_INT(slots_of(SIZED("64", "64", "32", "stages 6\n"), "sm_80"), 6);
}

/* ---- seeded faults ---- */

static int count_kind(const Kernel *k, OpKind kind) {
  int n = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) n += op->kind == kind;
  return n;
}

/* The number of ops of a kind in the lowered kernel whose absence is not reported. */
static int silent(const Sample *s, const char *target, OpKind kind, int *n) {
  SampleSizes sizes = {{s->dims[0].tile, s->dims[1].tile, 6 * 16}};
  if (s->dims[2].tile < 0) sizes = (SampleSizes){{64, 6 * 16, 16, 16}};
  else if (s->dims[3].tile < 0) sizes.at[3] = -s->dims[3].tile;
  int quiet = 0;
  *n = 1;
  for (int which = 0; which < *n; which++) {
    Lab l = sample_open(s, &sizes);
    bool lowered = lane_transform(&l, target);
    *n = lowered ? count_kind(l.k, kind) : 0;
    int at = 0;
    for (Op *op = ir_first(l.k), *next; op; op = next) {
      next = ir_next(op);
      if (op->kind == kind && at++ == which) ir_remove(op);
    }
    quiet += lowered && *n && lane_run(&l, target, which);
    lab_close(&l);
  }
  return quiet;
}

/* Inner tiles only: each op occurs once. */
#define INNER "bind M = 64; bind N = 32; bind K = 96\n"

static const Sample mma_sync = {
    "mma.sync",
    "kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>,"
    " %c: mem<M, N, f32>)\n"
    "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 16\n"
    "  wave M by 16; wave N by 16; hardware threads 64,"
    " mma F32_16x16x16_F16\n" INNER "stages 3\n" BODY,
    {{"M", 64}, {"N", 32}, {"K", 16}}};
#define WGMMA(rows)                                                                                \
  "kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"     \
  "  workgroup M by 64 on 0; workgroup N by 32 on 1; tile K by 16\n"                               \
  "  wave M by 64; wave N by 32; hardware threads 128\n" INNER rows BODY

static const Sample by_threads = {
    "wgmma, by threads", WGMMA("stages 4; boxes 0\n"), {{"M", 64}, {"N", 32}, {"K", 16}}};
static const Sample by_boxes = {
    "wgmma, by boxes", WGMMA("stages 4\n"), {{"M", 64}, {"N", 32}, {"K", 16}}};

TEST(missing_waits_and_barriers_are_found) {
  int n;
  CHECK_INT(silent(&mma_sync, "sm_80", OP_barrier, &n), 0);
  CHECK_INT(n, 1);
  CHECK_INT(silent(&mma_sync, "sm_80", OP_async_wait, &n), 0);
  CHECK_INT(n, 1);
  CHECK_INT(silent(&mma_sync, "sm_80", OP_async_commit, &n), 0);
  CHECK_INT(n, 3);
  CHECK_INT(silent(&by_threads, "sm_90a", OP_barrier, &n), 0);
  CHECK_INT(n, 1);
  CHECK_INT(silent(&by_threads, "sm_90a", OP_async_wait, &n), 0);
  CHECK_INT(n, 1);
  CHECK_INT(silent(&by_threads, "sm_90a", OP_async_commit, &n), 0);
  CHECK_INT(n, 3);
  CHECK_INT(silent(&by_threads, "sm_90a", OP_wgmma_wait, &n), 0);
  CHECK_INT(n, 2);
  CHECK_INT(silent(&by_threads, "sm_90a", OP_fence_proxy, &n), 0);
  CHECK_INT(n, 1);
  CHECK_INT(silent(&by_threads, "sm_90a", OP_wgmma_fence, &n), 0);
  CHECK_INT(silent(&only_slot, "gfx942", OP_barrier, &n), 2); /* the version that does not run */
  CHECK_INT(n, 4); /* of each version: the tile has arrived; it has been read */
}

/* A ring of barriers is initialised for every run of the inner loop, and invalidated after it:
 * pending bytes, phases of the previous run, or a barrier that is initialised twice would be
 * reported. */
#define OUTER(rows)                                                                                \
  "kernel @twice(%a: mem<B, M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, "        \
  "f32>)\n"                                                                                        \
  "  workgroup M by 64 on 0; workgroup N by 32 on 1; tile K by 16; tile B by 1\n"                  \
  "  wave M by 64; wave N by 32; hardware threads 128, vector {B: 0}\n" rows "{\n"                 \
  "  %z = fill 0.0 : tile<M, N, f32>\n"                                                            \
  "  %r = for B carry %o = %z {\n"                                                                 \
  "    %s = for K carry %acc = %o {\n"                                                             \
  "      %x = read %a {mapping = map 2 {B: $ARGB, M: $index0, K: $index1} ->"                      \
  " {M: $index0, K: $index1}} : tile<M, K, f16>\n"                                                 \
  "      %y = read %b\n      %n = mma %x, %y, %acc\n      yield %n\n"                              \
  "    }\n"                                                                                        \
  "    yield %s\n"                                                                                 \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

TEST(boxes_of_a_loop_in_a_loop) {
  const Sample outer = {"outer",
                        OUTER("  dynamic M; dynamic N; dynamic B; dynamic K\n"
                              "  assume Eq(Mod(K, 8), 0)\n"),
                        {{"M", 64}, {"N", 32}, {"K", 16}, {"B", 2}}};
  for (int k = 0; k <= 7 * 16; k += 8) {
    SampleSizes sizes = {{65, 31, k, 3}};
    CHECK(lane_agrees(&outer, &sizes, "sm_90a", k));
  }
}

/* Two boxes for each of two iterations before the loop, and in it. */
TEST(boxes_without_their_barriers_are_found) {
  int n;
  CHECK_INT(silent(&by_boxes, "sm_90a", OP_barrier, &n), 0);
  CHECK_INT(n, 1);
  CHECK_INT(silent(&by_boxes, "sm_90a", OP_mbar_init, &n), 0);
  CHECK_INT(n, 4);
  CHECK_INT(silent(&by_boxes, "sm_90a", OP_mbar_wait, &n), 0);
  CHECK_INT(n, 1);
  CHECK_INT(silent(&by_boxes, "sm_90a", OP_mbar_arrive, &n), 0);
  CHECK_INT(n, 6);
  CHECK_INT(silent(&by_boxes, "sm_90a", OP_tma_load, &n), 0);
  CHECK_INT(n, 6);
  CHECK_INT(silent(&by_boxes, "sm_90a", OP_wgmma_wait, &n), 0);
  CHECK_INT(n, 2);
  CHECK_INT(silent(&by_boxes, "sm_90a", OP_wgmma_fence, &n), 0);
}

/* ---- matmuls that are computed early ---- */

#define CHAIN(rows)                                                                                \
  "kernel @chain(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>,"                          \
  " %v: mem<P, N, f16, shared>, %c: mem<P, M, f32>)\n"                                             \
  "  workgroup M by 64 on 0; tile N by 16; wave M by 64; hardware threads 128\n"                   \
  "  bind K = 16; bind P = 16\n" rows "{\n"                                                        \
  "  %z = fill 0.0 : tile<P, M, f32>\n"                                                            \
  "  %r = for N carry %acc = %z {\n"                                                               \
  "    %y = read %b\n    %x = read %a\n    %s = fill 0.0 : tile<N, M, f32>\n"                      \
  "    %p = mma %y, %x, %s\n    %e = exp2 %p\n"                                                    \
  "    %h = cast %e : tile<N, M, f16>\n    %t = permute %h : tile<M, N, f16>\n"                    \
  "    %w = read %v\n    %n = mma %w, %t, %acc\n    yield %n\n"                                    \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

#define CHAIN_DIMS                                                                                 \
  {                                                                                                \
    {"M", 64}, {"N", 16}, {"K", -16}, { "P", -16 }                                                 \
  }

/* Whether there is also a matmul before the loop. */
static bool begins_early(const char *text, const char *target) {
  Lab l = lab_open(text);
  PassOptions o = {.target = target, .stop_after = "stages", .verify_each = true};
  bool early = false;
  if (l.k && passes_run(l.k, &o))
    for (const Op *op = ir_first(l.k); op; op = op->next) early |= op->kind == OP_mma;
  lab_close(&l);
  return early;
}

TEST(what_is_computed_early) {
  CHECK(begins_early(CHAIN("bind M = 64; bind N = 96\n"), "sm_90a"));
  CHECK(begins_early(CHAIN("bind M = 64; bind N = 96; stages 3\n"), "sm_90a"));
  CHECK(begins_early(CHAIN("bind M = 64; bind N = 96; boxes 0\n"), "sm_90a"));
  CHECK(!begins_early(CHAIN("bind M = 64; bind N = 96; stages 2\n"), "sm_90a"));
  CHECK(!begins_early(CHAIN("bind M = 64; bind N = 96; stages 1\n"), "sm_90a"));
  CHECK(!begins_early(CHAIN("bind M = 64; bind N = 96\n"), "sm_80")); /* from registers */
  CHECK(!begins_early(WGMMA("stages 4\n"), "sm_90a"));                /* it adds to a sum */
}

static const Sample early[] = {
    {"by boxes", CHAIN("dynamic M; dynamic N; assume Eq(Mod(N, 8), 0)\n"), CHAIN_DIMS},
    {"three", CHAIN("dynamic M; dynamic N; assume Eq(Mod(N, 8), 0); stages 3\n"), CHAIN_DIMS},
    {"by threads", CHAIN("dynamic M; dynamic N; assume Eq(Mod(N, 8), 0); boxes 0\n"), CHAIN_DIMS},
    {"by registers", CHAIN("dynamic M; dynamic N\n"), CHAIN_DIMS},
};

TEST(early_products_of_any_number_of_iterations) {
  for (size_t i = 0; i < WV_LEN(early); i++)
    for (int n = 0; n <= 7 * 16; n += 8) {
      SampleSizes sizes = {{65, n, 16, 16}};
      CHECK(lane_agrees(&early[i], &sizes, "sm_90a", n));
    }
}

/* With a ring that six iterations fill again. */
static const Sample early_boxes = {"boxes", CHAIN("bind M = 64; bind N = 96; stages 4\n"),
                                   CHAIN_DIMS};
static const Sample early_threads = {"threads", CHAIN("bind M = 64; bind N = 96; boxes 0\n"),
                                     CHAIN_DIMS};

TEST(early_products_without_their_waits_are_found) {
  /* The last iteration (`peel`) has no copies to start or to wait for, and one product less. */
  static const struct {
    OpKind kind;
    int silent;
  } rows[] = {{OP_mbar_init, 0}, {OP_mbar_wait, 1}, {OP_mbar_arrive, 0},
              {OP_tma_load, 0},  {OP_barrier, 1},   {OP_wgmma_wait, 1}};
  int n;
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    CHECK_INT(silent(&early_boxes, "sm_90a", rows[i].kind, &n), rows[i].silent);
    CHECK(n > rows[i].silent);
  }
  CHECK_INT(silent(&early_threads, "sm_90a", OP_wgmma_wait, &n), 1);
  CHECK_INT(n, 4);
  CHECK_INT(silent(&early_threads, "sm_90a", OP_async_wait, &n), 2); /* two waits for iteration 0 */
  CHECK_INT(n, 4);
  CHECK_INT(silent(&early_threads, "sm_90a", OP_barrier, &n), 1); /* the one before the loop */
  CHECK_INT(n, 4);
}

/* ---- rows that tables name ---- */

#define GATHERED(rows)                                                                             \
  "kernel @gathered(%a: mem<P, M, f16, shared, layout(_, M)>,"                                     \
  " %b: mem<P, N, f16, shared, layout(_, N)>, %t: mem<K, i32>, %c: mem<M, N, f32>)\n"              \
  "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 16\n"                               \
  "  wave M by 16; wave N by 16; hardware threads 64, mma F32_16x16x16_F16; bind P = 16\n" rows    \
  "{\n"                                                                                            \
  "  %z = fill 0.0 : tile<M, N, f32>\n"                                                            \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %i = read %t\n"                                                                             \
  "    %x = read %a, %i {mapping = map 2 {P: $dynamic_val0, M: $index0} ->"                        \
  " {M: $index0, K: $index1} with {K: $index1}} : tile<M, K, f16>\n"                               \
  "    %y = read %b, %i {mapping = map 2 {P: $dynamic_val0, N: $index0} ->"                        \
  " {N: $index0, K: $index1} with {K: $index1}} : tile<N, K, f16>\n"                               \
  "    %n = mma %x, %y, %acc\n"                                                                    \
  "    yield %n\n"                                                                                 \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

#define GATHERED_DIMS                                                                              \
  {                                                                                                \
    {"M", 32}, {"N", 32}, {"K", 16}, { "P", -16 }                                                  \
  }

#define GATHERED_SIZES "dynamic M, N, K; assume Eq(Mod(M, 8), 0); assume Eq(Mod(N, 8), 0)\n"

static const Sample gathered[] = {
    {"chosen", GATHERED(GATHERED_SIZES), GATHERED_DIMS},
    {"two", GATHERED(GATHERED_SIZES "stages 2\n"), GATHERED_DIMS},
    {"one earlier", GATHERED(GATHERED_SIZES "ring K x slots 2; ring K y slots 3\n"), GATHERED_DIMS},
    {"odd rows", GATHERED("dynamic M, N, K\n"), GATHERED_DIMS},
};

/* From none to more than there are slots and stages. */
TEST(gathers_of_any_number_of_iterations) {
  for (size_t i = 0; i < WV_LEN(gathered); i++)
    for (int k = 0, n = 0; k <= 8 * 16; k += k % 16 ? 11 : 5, n++) {
      SampleSizes sizes = {{i == 3 ? 31 : 24, 40, k, 16}};
      CHECK(lane_agrees(&gathered[i], &sizes, lane_targets[n % 3], n / 3));
    }
}

/* Tables are read one iteration before their rows are copied: five iterations early if there are four
 * slots, and three on machines without asynchronous copies. */
TEST(tables_are_read_before_their_rows) {
  const char *text = GATHERED("bind M = 32; bind N = 32; bind K = 160\n");
  CHECK_INT(rings_of(text, "sm_80"), 2);
  CHECK_INT(rings_of(text, "sm_90a"), 2);
  CHECK_INT(rings_of(text, "gfx942"), 2);
  CHECK_INT(slots_of(text, "sm_80"), 4);
  CHECK_INT(slots_of(text, "gfx942"), 2);
  CHECK_INT(reads_ahead(text, "sm_80"), 5);
  CHECK_INT(reads_ahead(text, "gfx942"), 3 + 2); /* and two tiles wait in registers */
}

static const Sample gathered_inner = {
    "gathered", GATHERED("bind M = 32; bind N = 32; bind K = 96; stages 3\n"), GATHERED_DIMS};

TEST(gathers_without_their_waits_are_found) {
  static const OpKind kinds[] = {OP_barrier, OP_async_wait, OP_async_commit};
  int n;
  for (size_t i = 0; i < WV_LEN(kinds); i++) {
    CHECK_INT(silent(&gathered_inner, "sm_80", kinds[i], &n), 0);
    CHECK_INT(n, kinds[i] == OP_async_commit ? 3 : 1);
    CHECK_INT(silent(&gathered_inner, "sm_90a", kinds[i], &n), 0);
    CHECK(n > 0);
  }
  CHECK_INT(silent(&gathered_inner, "gfx942", OP_barrier, &n), 0);
  CHECK(n > 0);
}

TESTS_MAIN(RUN(any_number_of_iterations) RUN(tiles_wait_in_registers)
               RUN(tiles_wait_for_the_only_slot) RUN(waves_limit_what_waits_in_registers)
                   RUN(other_loops) RUN(missing_waits_behind_a_loop_are_found)
                       RUN(what_stays_where_it_is) RUN(shared_memory_limits_the_depth)
                           RUN(missing_waits_and_barriers_are_found)
                               RUN(boxes_without_their_barriers_are_found)
                                   RUN(boxes_of_a_loop_in_a_loop) RUN(what_is_computed_early)
                                       RUN(early_products_of_any_number_of_iterations)
                                           RUN(early_products_without_their_waits_are_found)
                                               RUN(gathers_of_any_number_of_iterations)
                                                   RUN(tables_are_read_before_their_rows)
                                                       RUN(gathers_without_their_waits_are_found))
