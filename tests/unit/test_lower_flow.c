/* test_lower_flow.c: loops, conditionals, atomics and counters, as tiles and as one lane's program.
 */
#include "ir/attr.h"
#include "unit/lane_kit.h"

static const Sample flow_samples[] = {
    {"results", /* the results of atomics, written and summed */
     "kernel @results(%a: mem<M, N, i32>, %c: mem<M, N, i32>, %b: mem<M, N, i32>, %d: mem<M, "
     "i32>)\n"
     "  workgroup M by 8 on 0; workgroup N by 3 on 1; hardware threads 8, vector {M: 8, N: 3}\n"
     "  dynamic M; dynamic N\n"
     "{ %x = read %a\n  %o = atomic_add %x, %c\n  %p = atomic_min %x, %c\n  %q = add %o, %p\n"
     "  write %q, %b\n  }",
     {{"M", 8}, {"N", 3}}},
    {"counter",
     "kernel @counter(%a: mem<M, K, i32>, %c: mem<M, K, i32>)\n"
     "  workgroup M by 4 on 0; tile K by 4 counter STEP; hardware threads 8, vector {M: 4, K: 4}\n"
     "  dynamic M; dynamic K\n"
     "{ for K { %x = read %a\n  %s = scalar STEP : i32\n  %y = add %x, %s\n  write %y, %c\n  yield "
     "} }",
     {{"M", 4}, {"K", 4}}},
    {"from",
     "kernel @from(%a: mem<M, K, i32>, %c: mem<M, K, i32>)\n"
     "  workgroup M by 4 on 0; tile K by 2; hardware threads 8, vector {M: 4, K: 2}\n"
     "  dynamic M; dynamic K\n"
     "{ %one = scalar 1 : i32\n  for K from %one step 2 { %x = read %a\n  write %x, %c\n  yield } "
     "}",
     {{"M", 4}, {"K", 4}}},
    {"nested",
     "kernel @nested(%a: mem<M, K, i32>, %c: mem<M, i32>)\n"
     "  workgroup M by 4 on 0; tile K by 2; hardware threads 8, vector {M: 4, K: 2}\n"
     "  dynamic M; dynamic K\n"
     "{ %z = fill 0 : tile<M, i32>\n"
     "  %r = for K carry %p = %z { %q = for K carry %u = %p { %x = read %a\n %v = sum %x, %u {dim "
     "= K}\n yield %v }\n"
     "    %y = read %a\n  %w = max %y, %q {dim = K}\n  yield %w }\n"
     "  write %r, %c }",
     {{"M", 4}, {"K", 4}}},
    {"while2",
     "kernel @while2(%a: mem<M, K, i32>, %b: mem<M, K, i32>, %c: mem<M, i32>)\n"
     "  workgroup M by 4 on 0; tile K by 1; hardware threads 8, vector {M: 4, K: 1}\n"
     "  dynamic M; dynamic K\n"
     "{\n"
     "  %first = scalar 0 : index\n  %z = fill 0 : tile<M, i32>\n  %o = fill 1 : tile<M, i32>\n"
     "  %r, %t = while K as signed(K.2) (%k) from %first cond (signed(K.2) < 5) carry %p = %z, %q "
     "= %o {\n"
     "    %x = read %a\n"
     "    write %x, %b\n  %y = sum %x, %p {dim = K}\n  %w = add %q, %p\n"
     "    %two = scalar 2 : index\n"
     "    %next = add %k, %two\n"
     "    yield %next, %y, %w\n"
     "  }\n  %u = add %r, %t\n  write %u, %c\n"
     "}",
     {{"M", 4}, {"K", 4}}},
    {"if_value",
     "kernel @if_value(%n: mem<B, i32>, %a: mem<M, i32>, %c: mem<M, i32>)\n"
     "  workgroup M by 4 on 0; workgroup B by 1 on 1; hardware threads 8, vector {M: 4, B: 0}\n"
     "  dynamic M; dynamic B\n"
     "{ %l = read %n\n  %z = fill 0 : tile<B, i32>\n  %p = gt %l, %z\n  %x = read %a\n"
     "  if %p { %y = add %x, %x\n  write %y, %c } }",
     {{"M", 4}, {"B", -1}}},
    {"scatter",
     "kernel @scatter(%a: mem<N, i32>, %i: mem<N, i32>, %h: mem<B, i32>)\n"
     "  workgroup N by 8 on 0; hardware threads 8, vector {N: 8, B: 8}; dynamic N; workgroup B by "
     "8 on 1; bind B = 8\n"
     "{\n"
     "  %z = fill 0 : tile<B, i32>\n"
     "  %s = alloc : mem<B, i32, shared>\n"
     "  write %z, %s\n"
     "  %x = read %a\n"
     "  %at = read %i\n"
     "  scatter_add %x, %at, %s {pos = 0, mapping = map 1 {N: $index0} -> {B: 0}}\n"
     "  %sum = read %s\n"
     "  write %sum, %h {bounds = {B: 8 - 8 * $WG0}}\n"
     "}",
     {{"N", 8}, {"B", -8}}},
};

#define EACH_FLOW(s)                                                                               \
  for (const Sample *s = flow_samples; s < flow_samples + WV_LEN(flow_samples); s++)

TEST(the_same_after_passes_of_tiles) {
  EACH_FLOW(s) {
    CHECK_INT(sample_differs(s, "bind"), 0);
    CHECK_INT(sample_differs(s, "bind,simplify,cse,licm,dce,mask,version"), 0);
  }
}

TEST(on_all_machines) { EACH_FLOW(s) EACH_TARGET(t) CHECK_INT(lane_differs(s, t), 0); }

/* ---- chains of matmuls ---- */

#define CHAIN(NAME, TYPE, MMA)                                                                     \
  {                                                                                                \
    NAME,                                                                                          \
        "kernel @chain(%q: mem<M, L, " TYPE ">, %k: mem<K, L, " TYPE ">, %v: mem<N, K, " TYPE      \
        ">,\n"                                                                                     \
        "              %c: mem<M, N, f32>)\n"                                                      \
        "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 32; wave M by 16\n"           \
        "  hardware threads 64, mma " MMA "; dynamic M; dynamic N; dynamic K; bind L = 32\n"       \
        "{\n"                                                                                      \
        "  %oz = fill 0.0 : tile<N, M, f32>\n"                                                     \
        "  %rc = for K carry %acc = %oz {\n"                                                       \
        "    %kk = read %k\n    %qq = read %q\n"                                                   \
        "    %z = fill 0.0 : tile<K, M, f32>\n"                                                    \
        "    %t = mma %kk, %qq, %z\n"                                                              \
        "    %p = permute %t : tile<M, K, f32>\n"                                                  \
        "    %eh = cast %p : tile<M, K, " TYPE ">\n"                                               \
        "    %vv = read %v\n"                                                                      \
        "    %o = mma %vv, %eh, %acc\n"                                                            \
        "    yield %o\n"                                                                           \
        "  }\n"                                                                                    \
        "  %po = permute %rc : tile<M, N, f32>\n"                                                  \
        "  write %po, %c\n"                                                                        \
        "}",                                                                                       \
    {                                                                                              \
      {"M", 32}, {"N", 32}, {"K", 32}, { "L", -32 }                                                \
    }                                                                                              \
  }

static const struct {
  Sample sample;
  const char *target;
  int orders; /* matmuls with k in another order */
} chains[] = {
    {CHAIN("f16", "f16", "F32_16x16x16_F16"), "gfx942", 0},
    {CHAIN("f16 of 32", "f16", "F32_16x16x32_F16"), "gfx950", 1},
    {CHAIN("f16 of 32x32", "f16", "F32_32x32x8_F16"), "gfx942", 0},
    {CHAIN("f8", "f8e4m3fnuz", "F32_16x16x32_F8"), "gfx942", 1},
    {CHAIN("f16 on sm_80", "f16", "F32_16x16x16_F16"), "sm_80", 0},
    {CHAIN("f16 on gfx1201", "f16", "F32_16x16x16_F16"), "gfx1201", 0},
};

static void count_chain(const Sample *s, const char *target, int *orders, int *converts) {
  SampleSizes sizes = {0};
  sample_sizes(s, 0, &sizes);
  Lab l = sample_open(s, &sizes);
  PassOptions o = {.passes = "bind,simplify,retarget,layouts", .target = target};
  *orders = *converts = 0;
  if (passes_run(l.k, &o))
    for (const Op *op = ir_first(l.k); op; op = ir_next(op)) {
      *converts += op->kind == OP_convert;
      if (op->kind == OP_mma) *orders += op_attr(op, ATTR_mma)->mma->order.n > 0;
    }
  lab_close(&l);
}

/* The first result is an operand of the second without a conversion, and the results are the
 * same. */
TEST(chains_move_nothing) {
  for (size_t i = 0; i < WV_LEN(chains); i++) {
    int orders, converts;
    count_chain(&chains[i].sample, chains[i].target, &orders, &converts);
    CHECK_INT(orders, chains[i].orders);
    CHECK_INT(converts, 0);
    CHECK_INT(lane_differs(&chains[i].sample, chains[i].target), 0);
  }
}

TESTS_MAIN(RUN(the_same_after_passes_of_tiles) RUN(on_all_machines) RUN(chains_move_nothing))
