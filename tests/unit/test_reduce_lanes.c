/* test_reduce_lanes.c: reductions, scans and conversions between layouts, lane by lane on every
 * machine, compared with the evaluator. Integers and exact sums agree bit for bit; the others
 * within a tolerance, because the order of additions differs. */
#include <math.h>

#include "layout/convert.h"
#include "unit/lane_kit.h"

#define CONVERT_PASSES "exchange,mask,version,allocs,sync,lower_threads"

typedef struct Reduce {
  Sample sample;
  double tolerance; /* relative to 1 and to the result; 0: the same bits */
} Reduce;

static bool is_close(const Lab *a, const Lab *b, double tolerance) {
  for (int t = 0; t < a->nargs; t++) {
    if (!a->tensors[t].data) continue;
    for (int64_t e = 0; e < lab_count(&a->tensors[t]); e++) {
      double x = get(a, t, e), y = get(b, t, e);
      if (isnan(x) && isnan(y)) continue;
      if (x != y && !(fabs(x - y) <= tolerance * (1 + fabs(x)))) {
        printf("tensor %d, element %lld: %g expected, %g found\n", t, (long long)e, x, y);
        return false;
      }
    }
  }
  return true;
}

/* Every fifth element of the first argument is NaN in samples whose name says so. */
static Lab reduce_open(const Reduce *r, const SampleSizes *sizes) {
  Lab l = sample_open(&r->sample, sizes);
  bool nans = strstr(r->sample.name, "NaN");
  for (int64_t e = 2; nans && e < lab_count(&l.tensors[0]); e += 5) put(&l, 0, e, NAN);
  return l;
}

static bool reduce_agrees(const Reduce *r, const SampleSizes *sizes, const char *target,
                          int schedule) {
  const Sample *s = &r->sample;
  Lab before = reduce_open(r, sizes), after = reduce_open(r, sizes);
  bool same = lab_run(&before) && lane_transform(&after, target) && sample_reparses(&after) &&
              lane_run(&after, target, schedule);
  if (same && r->tolerance == 0) same = lab_equal(&before, &after);
  else if (same) same = is_close(&before, &after, r->tolerance);
  if (!same) lane_report(s, sizes, target, &after);
  lab_close(&before);
  lab_close(&after);
  return same;
}

static int reduce_differs(const Reduce *r, const char *target) {
  SampleSizes sizes = {0};
  int wrong = 0;
  for (int i = 0; sample_sizes(&r->sample, i, &sizes) && !wrong; i++)
    wrong += !reduce_agrees(r, &sizes, target, i);
  return wrong;
}

/* A reduction of one tile, by dtype, op, tile and position of the dim. */
#define ROWS(name, dtype, op, n, tolerance)                                                        \
  {                                                                                                \
    {name,                                                                                         \
     "kernel @rows(%a: mem<M, N, " dtype ">, %b: mem<M, " dtype ">)\n"                             \
     "  workgroup M by 4 on 0; hardware threads 8, vector {M: 1, N: " #n "}\n"                     \
     "  dynamic M; bind N = " #n "\n"                                                              \
     "{ %x = read %a\n  %r = " op " %x {dim = N}\n  write %r, %b }",                               \
     {{"M", 4}, {"N", -n}}},                                                                       \
        tolerance                                                                                  \
  }

static const Reduce within_waves[] = {
    ROWS("sum of 48", "i32", "sum", 48, 0),
    ROWS("sum of 80", "f32", "sum", 80, 0),
    ROWS("sum of 96", "f16", "sum", 96, 0),
    ROWS("sum of 7", "bf16", "sum", 7, 0),
    ROWS("sum of 1", "i8", "sum", 1, 0),
    ROWS("max of 48", "i32", "max", 48, 0),
    ROWS("max of 5", "f32", "max", 5, 0),
    ROWS("min of 80", "f16", "min", 80, 0),
    ROWS("min of 3", "i64", "min", 3, 0),
    ROWS("max of 3", "i64", "max", 3, 0),
    ROWS("sum of 192", "i8", "sum", 192, 0),
    ROWS("max of NaN", "f32", "max", 12, 1e-9),
    ROWS("min of NaN", "f16", "min", 12, 1e-9),
    {{"first dim",
      "kernel @first(%a: mem<N, M, i32>, %b: mem<M, i32>)\n"
      "  workgroup M by 6 on 0; hardware threads 8, vector {M: 6, N: 20}\n"
      "  dynamic M; bind N = 20\n"
      "{ %x = read %a\n  %r = sum %x {dim = N}\n  write %r, %b }",
      {{"M", 6}, {"N", -20}}},
     0},
    {{"middle dim",
      "kernel @middle(%a: mem<A, N, M, i32>, %b: mem<A, M, i32>)\n"
      "  workgroup M by 4 on 0; workgroup A by 2 on 1; hardware threads 8, vector {M: 4, N: 12}\n"
      "  dynamic M; dynamic A; bind N = 12\n"
      "{ %x = read %a\n  %r = max %x {dim = N}\n  write %r, %b }",
      {{"A", 2}, {"M", 4}, {"N", -12}}},
     0},
    {{"all of it",
      "kernel @all(%a: mem<N, i32>, %b: mem<N, i32>)\n"
      "  workgroup N by 20 on 0; hardware threads 8, vector {N: 20}; dynamic N\n"
      "{ %x = read %a\n  %r = sum %x {dim = N}\n  %y = add %x, %r\n  write %y, %b }",
      {{"N", 20}}},
     0},
    {{"twice",
      "kernel @twice(%a: mem<M, N, f32>, %b: mem<M, f32>)\n"
      "  workgroup M by 4 on 0; workgroup N by 12 on 1; hardware threads 8, vector {M: 4, N: 12}\n"
      "  dynamic M; dynamic N\n"
      "{\n"
      "  %x = read %a\n  %one = fill 1.0 : tile<M, N, f32>\n  %y = add %x, %one\n"
      "  %r = max %y {dim = N}\n  %t = sum %r {dim = M}\n  %z = add %r, %t\n  write %z, %b\n"
      "}",
      {{"M", 4}, {"N", -12}}},
     0},
    {{"softmax",
      "kernel @softmax(%a: mem<M, N, f32>, %c: mem<M, N, f32>)\n"
      "  workgroup M by 4 on 1; hardware threads 8, vector {M: 1, N: 192}\n"
      "  dynamic M; bind N = 192\n"
      "{\n"
      "  %x = read %a\n"
      "  %m = max %x {dim = N}\n"
      "  %mb = broadcast %m : tile<M, N, f32>\n"
      "  %d = sub %x, %mb\n"
      "  %e = exp2 %d\n"
      "  %s = sum %e {dim = N}\n"
      "  %sb = broadcast %s : tile<M, N, f32>\n"
      "  %y = div %e, %sb\n"
      "  write %y, %c\n"
      "}",
      {{"M", 4}, {"N", -192}}},
     1e-6},
    {{"layer norm",
      "kernel @norm(%a: mem<M, N, f16>, %g: mem<N, f16>, %c: mem<M, N, f16>)\n"
      "  workgroup M by 2 on 1; hardware threads 8, vector {M: 1, N: 80}\n"
      "  dynamic M; bind N = 80\n"
      "{\n"
      "  %h = read %a\n"
      "  %x = cast %h : tile<M, N, f32>\n"
      "  %s = sum %x {dim = N}\n"
      "  %n = fill 0.0125 : tile<M, f32>\n"
      "  %mean = mul %s, %n\n"
      "  %d = sub %x, %mean\n"
      "  %q = mul %d, %d\n"
      "  %v = sum %q {dim = N}\n"
      "  %var = mul %v, %n\n"
      "  %eps = fill 1e-5 : tile<M, f32>\n"
      "  %ve = add %var, %eps\n"
      "  %rs = rsqrt %ve\n"
      "  %y = mul %d, %rs\n"
      "  %gh = read %g\n"
      "  %gf = cast %gh : tile<N, f32>\n"
      "  %yg = mul %y, %gf\n"
      "  %out = cast %yg : tile<M, N, f16>\n"
      "  write %out, %c\n"
      "}",
      {{"M", 2}, {"N", -80}}},
     1e-2},
    {{"online softmax", /* several carried values, one reduction each */
      "kernel @online(%a: mem<M, N, f32>, %m: mem<M, f32>, %s: mem<M, f32>)\n"
      "  workgroup M by 4 on 0; tile N by 12; hardware threads 8, vector {M: 4, N: 12}\n"
      "  dynamic M; dynamic N\n"
      "{\n"
      "  %mz = fill -1e6 : tile<M, f32>\n"
      "  %sz = fill 0.0 : tile<M, f32>\n"
      "  %rm, %rs = for N carry %m0 = %mz, %s0 = %sz {\n"
      "    %x = read %a\n"
      "    %m1 = max %x, %m0 {dim = N}\n"
      "    %d = sub %x, %m1\n"
      "    %e = exp2 %d\n"
      "    %dm = sub %m0, %m1\n"
      "    %em = exp2 %dm\n"
      "    %sm = mul %s0, %em\n"
      "    %s1 = sum %e, %sm {dim = N}\n"
      "    yield %m1, %s1\n"
      "  }\n"
      "  write %rm, %m\n"
      "  write %rs, %s\n"
      "}",
      {{"M", 4}, {"N", 12}}},
     1e-6},
};

TEST(reductions_within_waves) {
  for (size_t i = 0; i < WV_LEN(within_waves); i++)
    EACH_TARGET(t) CHECK_INT(reduce_differs(&within_waves[i], t), 0);
}

/* ---- several waves along the dim ---- */

#define WAVES(name, dtype, op, attrs, n, wave, tolerance)                                          \
  {                                                                                                \
    {name,                                                                                         \
     "kernel @waves(%a: mem<M, N, " dtype ">, %i: mem<M, " dtype ">, %b: mem<M, " dtype ">)\n"     \
     "  workgroup M by 3 on 1; workgroup N by " #n " on 0; wave N by " #wave "\n"                  \
     "  hardware threads 8, vector {M: 1, N: " #wave "}\n"                                         \
     "  dynamic M; bind N = " #n "\n"                                                              \
     "{ %x = read %a\n  %z = read %i\n  %r = " op " %x, %z {dim = N" attrs "}\n  write %r, %b }",  \
     {{"M", 3}, {"N", -n}}},                                                                       \
        tolerance                                                                                  \
  }

static const Reduce across_waves[] = {
    WAVES("block sum", "i32", "sum", ", block", 192, 48, 0),
    WAVES("block sum of f16", "f16", "sum", ", block", 96, 48, 0),
    WAVES("block max of bf16", "bf16", "max", ", block", 80, 40, 0),
    WAVES("block min", "i8", "min", ", block", 768, 192, 0),
    WAVES("block max of i64", "i64", "max", ", block", 48, 16, 0),
    WAVES("block sum of 1536", "f32", "sum", ", block", 1536, 192, 0),
    WAVES("block sum of 8 waves", "f32", "sum", ", block", 256, 32, 0),
    WAVES("block max of 24 waves", "f16", "max", ", block", 192, 8, 0),
    WAVES("block sum of 64 waves", "f16", "sum", ", block", 1024, 16, 0),
    {{"all of it, by blocks", /* there is no other dim */
      "kernel @all(%a: mem<N, i32>, %b: mem<N, i32>)\n"
      "  workgroup N by 64 on 0; wave N by 16; hardware threads 8, vector {N: 16}; dynamic N\n"
      "{ %x = read %a\n  %r = sum %x {dim = N, block}\n  %y = add %x, %r\n  write %y, %b }",
      {{"N", 64}}},
     0},
    {{"in a loop", /* the next iteration must not overtake the readers of the previous one */
      "kernel @loop(%a: mem<M, N, i32>, %b: mem<M, i32>, %c: mem<M, i32>)\n"
      "  workgroup M by 2 on 1; tile N by 64; hardware threads 8, waves (4, 1, 1)\n"
      "  dynamic M; dynamic N\n"
      "{\n"
      "  %z = fill 0 : tile<M, i32>\n"
      "  %w = fill -100 : tile<M, i32>\n"
      "  %r, %t = for N carry %s = %z, %m = %w {\n"
      "    %x = read %a\n"
      "    %m1 = max %x, %m {dim = N, block}\n"
      "    %d = sub %x, %m1\n"
      "    %s1 = sum %d, %s {dim = N, block}\n"
      "    yield %s1, %m1\n"
      "  }\n"
      "  write %r, %b\n"
      "  write %t, %c\n"
      "}",
      {{"M", 2}, {"N", 64}}},
     0},
    {{"in a branch",
      "kernel @branch(%a: mem<M, N, i32>, %b: mem<M, i32>)\n"
      "  workgroup M by 2 on 1; workgroup N by 64 on 0; hardware threads 8, waves (4, 1, 1)\n"
      "  dynamic M; bind N = 64\n"
      "{\n"
      "  %z = fill 0 : tile<M, i32>\n"
      "  %x = read %a\n"
      "  %r = if (M > 3) carry %s = %z { %t = sum %x, %s {dim = N, block}\n  yield %t }\n"
      "  write %r, %b\n"
      "}",
      {{"M", 2}, {"N", -64}}},
     0},
    {{"block softmax",
      "kernel @softmax(%a: mem<M, N, f32>, %c: mem<M, N, f32>)\n"
      "  workgroup M by 1 on 1; workgroup N by 768 on 0; wave N by 192\n"
      "  hardware threads 8, vector {M: 1, N: 192}; dynamic M; bind N = 768\n"
      "{\n"
      "  %x = read %a\n"
      "  %m = max %x {dim = N, block}\n"
      "  %mb = broadcast %m : tile<M, N, f32>\n"
      "  %d = sub %x, %mb\n"
      "  %e = exp2 %d\n"
      "  %s = sum %e {dim = N, block}\n"
      "  %sb = broadcast %s : tile<M, N, f32>\n"
      "  %y = div %e, %sb\n"
      "  write %y, %c\n"
      "}",
      {{"M", 2}, {"N", -768}}},
     1e-6},
};

/* ---- scans and topk ---- */

#define SCAN(name, dtype, attrs, n, wave, tolerance)                                               \
  {                                                                                                \
    {name,                                                                                         \
     "kernel @scan(%a: mem<M, N, " dtype ">, %i: mem<M, " dtype ">, %b: mem<M, N, " dtype ">)\n"   \
     "  workgroup M by 3 on 1; workgroup N by " #n " on 0; wave N by " #wave "\n"                  \
     "  hardware threads 8, vector {M: 1, N: " #wave "}\n"                                         \
     "  dynamic M; bind N = " #n "\n"                                                              \
     "{ %x = read %a\n  %z = read %i\n  %r = cumsum %x, %z {dim = N" attrs "}\n  write %r, %b }",  \
     {{"M", 3}, {"N", -n}}},                                                                       \
        tolerance                                                                                  \
  }

#define TOPK(name, dtype, n, k, waves)                                                             \
  {                                                                                                \
    {name,                                                                                         \
     "kernel @topk(%a: mem<M, N, " dtype ">, %v: mem<M, K, " dtype ">, %w: mem<M, K, i32>)\n"      \
     "  workgroup M by 2 on 1; hardware threads 8, waves (1, " #waves ", 1), vector {M: 1, N: " #n \
     "}\n"                                                                                         \
     "  dynamic M; bind N = " #n "; bind K = " #k "\n"                                             \
     "{\n"                                                                                         \
     "  %x = read %a\n"                                                                            \
     "  %r, %p = topk %x {dim = N, k_dim = K}\n"                                                   \
     "  write %r, %v\n"                                                                            \
     "  write %p, %w\n"                                                                            \
     "}",                                                                                          \
     {{"M", 2}, {"N", -n}, {"K", -k}}},                                                            \
        0                                                                                          \
  }

static const Reduce scans[] = {
    SCAN("scan of 48", "i32", "", 48, 48, 0),
    SCAN("scan of 7", "f32", "", 7, 7, 0),
    SCAN("scan of 1", "i8", "", 1, 1, 0),
    SCAN("scan of 80", "f16", "", 80, 80, 0),
    SCAN("scan of 192", "bf16", "", 192, 192, 1e-2),
    SCAN("block scan of 192", "i32", ", block", 192, 48, 0),
    SCAN("block scan of 384", "f32", ", block", 384, 96, 0),
    {{"scan of columns",
      "kernel @columns(%a: mem<N, M, i32>, %b: mem<N, M, i32>)\n"
      "  workgroup M by 6 on 0; hardware threads 8, vector {M: 6, N: 20}\n"
      "  dynamic M; bind N = 20\n"
      "{ %x = read %a\n  %r = cumsum %x {dim = N}\n  write %r, %b }",
      {{"M", 6}, {"N", -20}}},
     0},
    TOPK("best of 48", "f32", 48, 5, 1),
    TOPK("best of 9, NaN last", "f32", 9, 8, 1),
    TOPK("all of 7", "i32", 7, 7, 1),
    TOPK("one of 1", "f16", 1, 1, 1),
    TOPK("best of 192", "i64", 192, 3, 1),
    TOPK("best of 80 by waves", "bf16", 80, 4, 8),
};

TEST(scans_and_topk) {
  for (size_t i = 0; i < WV_LEN(scans); i++)
    EACH_TARGET(t) CHECK_INT(reduce_differs(&scans[i], t), 0);
}

TEST(reductions_across_waves) {
  for (size_t i = 0; i < WV_LEN(across_waves); i++)
    EACH_TARGET(t) CHECK_INT(reduce_differs(&across_waves[i], t), 0);
}

/* ---- elements that a layout holds more than once ---- */

/* Waves that overlap by 8 elements, registers that overlap by 1, and both. */
TEST(overlaps_count_once) {
  static const char *const layouts[] = {
      "[40] reg d0/4:8 | lane d0/8:1 | wave d0/2:24",
      "[40] reg d0/3:1 d0/3:2 | lane d0/8:6 | wave ~/2",
      "[40] reg d0/3:1 d0/2:2 | lane d0/8:4 | wave d0/2:20",
  };
  static const char apart[] = "[40] reg d0/5:1 | lane d0/8:5 | wave ~/2";
  static const char form[] = "kernel @k(%%a: mem<N, i32>, %%b: mem<N, i32>)\n"
                             "  workgroup N by 40 on 0; hardware threads 8, waves (2, 1, 1)\n"
                             "  machine lanes 8 waves 2; bind N = 40\n"
                             "{ %%x = read %%a : tile<N, i32> @ %s\n"
                             "  %%r = %s %%x {dim = N, block}\n"
                             "  %%z = read %%a : tile<N, i32> @ %s\n"
                             "  %%y = add %%z, %%r : tile<N, i32> @ %s\n"
                             "  write %%y, %%b }";
  for (size_t i = 0; i < 2 * WV_LEN(layouts); i++) {
    const char *layout = layouts[i / 2], *op = i % 2 ? "min" : "sum";
    Arena *a = arena_new();
    Lab l = lab_open(arena_printf(a, form, layout, op, apart, apart));
    int in = lab_tensor(&l, DTYPE_i32, 1, 40), out = lab_tensor(&l, DTYPE_i32, 1, 40);
    PassOptions o = {.passes = CONVERT_PASSES, .verify_each = true, .target = "toy8"};
    double expected = get(&l, in, 0);
    for (int e = 1; e < 40; e++) {
      double x = get(&l, in, e);
      expected = i % 2 ? fmin(expected, x) : expected + x;
    }
    bool ok = l.k && passes_run(l.k, &o) && lane_run(&l, "toy8", (int)i);
    if (!ok) lab_print_errors(&l);
    CHECK(ok);
    for (int e = 0; ok && e < 40; e++) CHECK(get(&l, out, e) == get(&l, in, e) + expected);
    lab_close(&l);
    arena_free(a);
  }
}

/* ---- seeded faults ---- */

static Op *nth_barrier(const Kernel *k, int n) {
  for (Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_barrier && n-- == 0) return op;
  return NULL;
}

/* Without barrier n: reported for some sizes, under every schedule. Inner and outer tiles run
 * different copies of the kernel, so that no sizes reach all barriers. -1: there is no such
 * barrier. */
static int reports_missing(const Reduce *r, const char *target, int n) {
  SampleSizes sizes = {0};
  int reported[3] = {0};
  for (int i = 0; sample_sizes(&r->sample, i, &sizes); i++)
    for (int schedule = 0; schedule < 3; schedule++) {
      Lab l = reduce_open(r, &sizes);
      Op *barrier = lane_transform(&l, target) ? nth_barrier(l.k, n) : NULL;
      if (barrier) ir_remove(barrier);
      if (barrier) ir_renumber(l.k);
      bool done = barrier && lane_run(&l, target, schedule);
      reported[schedule] |= barrier && !done && has_code(l.cx, "E0803");
      lab_close(&l);
      if (!barrier) return -1;
    }
  return reported[0] && reported[1] && reported[2];
}

TEST(missing_barriers_are_reported) {
  static const char *const targets[] = {"gfx942", "toy8"};
  int removed = 0;
  for (size_t i = 0; i < WV_LEN(across_waves); i++)
    for (size_t t = 0; t < WV_LEN(targets); t++)
      for (int n = 0, found; (found = reports_missing(&across_waves[i], targets[t], n)) >= 0; n++) {
        if (!found) printf("%s on %s: barrier %d\n", across_waves[i].sample.name, targets[t], n);
        CHECK(found);
        removed++;
      }
  CHECK(removed > 20);
}

/* ---- conversions ---- */

static unsigned next_random(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* A cover of a 16x16 tile by 8 lanes and 2 waves: bits of the coordinates, shuffled; half of the
 * time with a lane bit that holds copies. Without `waves` their bit is always the same. */
static Layout random_layout(unsigned *seed, bool waves) {
  int bits[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int i = waves ? 7 : 6; i > 0; i--) {
    int j = (int)(next_random(seed) % (unsigned)(i + 1)), t = bits[i];
    bits[i] = bits[j];
    bits[j] = t;
  }
  Layout l = layout_of(2, (int[]){16, 16});
  int lanes = next_random(seed) % 2 ? 3 : 2;
  if (lanes == 2) layout_repeat(&l, LAYOUT_LANE, 2);
  for (int i = 0; i < 8; i++) {
    LayoutPart part = i == 7 ? LAYOUT_WAVE : i < lanes ? LAYOUT_LANE : LAYOUT_REG;
    layout_push(&l, part, bits[i] / 4, 2, 1 << bits[i] % 4);
  }
  return l;
}

/* A layout that is not far from another: two digits are swapped. */
static Layout near_layout(unsigned *seed, const Layout *l) {
  Layout out = *l;
  int lane = (int)(next_random(seed) % 3);
  LayoutPart part = next_random(seed) % 2 ? LAYOUT_LANE : LAYOUT_REG;
  Digit *x = &out.part[LAYOUT_LANE].at[lane], *y = &out.part[part].at[next_random(seed) % 3];
  Digit t = *x;
  *x = *y, *y = t;
  return out;
}

static bool converts(unsigned *seed, const char *dtype, bool waves, ConvertKind *kind) {
  static const char form[] =
      "kernel @k(%%a: mem<M, N, %s>, %%b: mem<M, N, %s>)\n"
      "  workgroup M by 16 on 0; workgroup N by 16 on 1; hardware threads 8\n"
      "  machine lanes 8 waves 2; bind M = 16; bind N = 16\n"
      "{ %%x = read %%a : tile<M, N, %s> @ %s\n"
      "  %%y = convert %%x : tile<M, N, %s> @ %s\n"
      "  write %%y, %%b }";
  Arena *a = arena_new();
  StrBuf x = {.arena = a}, y = {.arena = a};
  DType t = DTYPE_f32;
  Layout from = random_layout(seed, waves), to = random_layout(seed, waves);
  if (next_random(seed) % 2) to = near_layout(seed, &from);
  layout_print(&x, &from);
  layout_print(&y, &to);
  dtype_parse(dtype, &t);
  *kind = convert_plan(a, &from, &to, dtype_info[t].bits).kind;
  Lab l = lab_open(arena_printf(a, form, dtype, dtype, dtype, sb_text(&x), dtype, sb_text(&y)));
  int in = lab_tensor(&l, t, 2, 16, 16), out = lab_tensor(&l, t, 2, 16, 16);
  for (int i = 0; i < 256; i++) put(&l, in, i, i % 101);
  PassOptions o = {.passes = CONVERT_PASSES, .verify_each = true, .target = "toy8"};
  bool ok = l.k && passes_run(l.k, &o) && sample_reparses(&l) && lane_run(&l, "toy8", (int)*kind);
  for (int i = 0; i < 256; i++) ok = ok && get(&l, out, i) == i % 101;
  if (!ok) {
    StrBuf text = {.arena = l.cx->arena};
    if (l.k) ir_print(&text, l.k);
    lab_print_errors(&l);
    printf("%s\nto\n%s\n%s", sb_text(&x), sb_text(&y), sb_text(&text));
  }
  lab_close(&l);
  arena_free(a);
  return ok;
}

TEST(conversions_of_random_layouts) {
  static const char *const dtypes[] = {"f32", "f16", "i8"};
  unsigned seed = 5;
  int kinds[4] = {0}, wrong = 0;
  for (int i = 0; i < 300 && !wrong; i++) {
    ConvertKind kind;
    wrong += !converts(&seed, dtypes[i % 3], i % 2, &kind);
    kinds[kind]++;
  }
  CHECK_INT(wrong, 0);
  CHECK(kinds[CONVERT_SHUFFLE] > 20 && kinds[CONVERT_SHARED] > 50);
}

TESTS_MAIN(RUN(reductions_within_waves); RUN(reductions_across_waves); RUN(scans_and_topk);
           RUN(overlaps_count_once); RUN(missing_barriers_are_reported);
           RUN(conversions_of_random_layouts))
