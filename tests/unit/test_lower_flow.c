/* test_lower_flow.c: loops, conditionals, atomics and counters, as tiles and as one lane's program.
 */
#include "unit/lane_kit.h"

static const Sample flow_samples[] = {
    {"results", /* what atomics return, written and summed */
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

TESTS_MAIN(RUN(the_same_after_passes_of_tiles) RUN(on_all_machines))
