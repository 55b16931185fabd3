/* tile_samples.h: kernels that exercise every way of addressing memory, for tests of tile passes.
 */
#ifndef WV_TILE_SAMPLES_H
#define WV_TILE_SAMPLES_H

#include "unit/tile_kit.h"

static const Sample tile_samples[] = {
    {"copy",
     "kernel @copy(%a: mem<M, N, f16>, %b: mem<M, N, f16>)\n"
     "  workgroup M by 4 on 0; workgroup N by 8 on 1; hardware threads 8, vector {M: 4, N: 8}\n"
     "  dynamic M; dynamic N\n"
     "{ %x = read %a\n  write %x, %b }",
     {{"M", 4}, {"N", 8}}},
    {"gemm",
     "kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"
     "  workgroup M by 4 on 0; workgroup N by 8 on 1; tile K by 4\n"
     "  hardware threads 8, vector {M: 4, N: 4, K: 4}\n"
     "  dynamic M; dynamic N; dynamic K\n"
     "{\n"
     "  %z = fill 0.0 : tile<M, N, f32>\n"
     "  %r = for K carry %acc = %z {\n"
     "    %x = read %a\n"
     "    %y = read %b\n"
     "    %n = mma %x, %y, %acc\n"
     "    yield %n\n"
     "  }\n"
     "  write %r, %c\n"
     "}",
     {{"M", 4}, {"N", 8}, {"K", 4}}},
    {"aligned",
     "kernel @aligned(%a: mem<M, N, f32, shared>, %b: mem<M, N, f32>)\n"
     "  workgroup M by 1 on 0; tile N by 1; hardware threads 8, vector {M: 1, N: 1}\n"
     "  dynamic M; dynamic N\n"
     "{ for N { %x = read %a\n  write %x, %b\n  yield } }",
     {{"M", 2}, {"N", 2}}},
    {"transpose",
     "kernel @transpose(%a: mem<N, M, f16, shared>, %b: mem<M, N, f16>)\n"
     "  workgroup M by 4 on 0; workgroup N by 4 on 1; hardware threads 8, vector {M: 4, N: 4}\n"
     "  dynamic M; dynamic N\n"
     "{ %x = read %a {mapping = map 2 {N: $index1, M: $index0} -> {M: $index0, N: $index1}}\n"
     "  write %x, %b }",
     {{"M", 4}, {"N", 4}}},
    {"by_name",
     "kernel @by_name(%a: mem<M, N, i32>, %b: mem<N, B, M, i32>)\n"
     "  workgroup M by 4 on 0; workgroup N by 4 on 1; workgroup B by 1 on 2\n"
     "  hardware threads 8, vector {M: 4, N: 4, B: 0}\n"
     "  dynamic M; dynamic N; dynamic B\n"
     "{ %x = read %a\n  write %x, %b }",
     {{"M", 4}, {"N", 4}, {"B", 1}}},
    {"offset",
     "kernel @offset(%a: mem<M, N, i32>, %b: mem<M, N, i32>)\n"
     "  grid 3; workgroup M by 4 on 0; workgroup N by 4 on 1\n"
     "  hardware threads 8, vector {M: 4, N: 4}\n"
     "  dynamic M; dynamic N\n"
     "{\n"
     "  %w = scalar $WG0 * 4 : index\n"
     "  set_symbol OFF %w\n"
     "  %x = read %a {mapping = map 2 {M: $index0, N: $index1 + OFF} -> {M: $index0, N: $index1}}\n"
     "  write %x, %b {mapping = map 2 {M: $index0, N: $index1} -> {M: $index0, N: $index1 + OFF}}\n"
     "}",
     {{"M", 4}, {"N", 4}}},
    {"ragged", /* the size of N is read from memory, and may be negative */
     "kernel @ragged(%len: mem<M, i32>, %a: mem<M, N, i32, shared>, %b: mem<M, N, i32>)\n"
     "  workgroup M by 1 on 0; tile N by 4; hardware threads 8, vector {M: 1, N: 4}\n"
     "  dynamic M; dynamic N\n"
     "{\n"
     "  %n = read %len\n"
     "  set_symbol N %n\n"
     "  for N { %x = read %a\n  write %x, %b\n  yield }\n"
     "}",
     {{"M", 2}, {"N", 4}}},
    {"paged", /* rows of the cache come from memory */
     "kernel @paged(%cache: mem<P, D, f16, shared, layout(_, D)>, %table: mem<T, i32>,\n"
     "              %b: mem<T, D, f16>)\n"
     "  workgroup D by 4 on 0; tile T by 4; hardware threads 8, vector {T: 4, D: 4}\n"
     "  dynamic T; dynamic P; dynamic D\n"
     "{\n"
     "  for T {\n"
     "    %page = read %table\n"
     "    %x = read %cache, %page {mapping = map 2 {P: $dynamic_val0, D: $index1} ->\n"
     "      {T: $index0, D: $index1} with {T: $index0}}\n"
     "    write %x, %b\n"
     "    yield\n"
     "  }\n"
     "}",
     {{"T", 4}, {"D", 4}, {"P", 3}}},
    {"blocks", /* four rows of a block, and which block comes from memory */
     "kernel @blocks(%cache: mem<P, D, f16>, %table: mem<B, i32>, %b: mem<T, D, f16>)\n"
     "  workgroup D by 4 on 0; tile T by 4; hardware threads 8, vector {T: 4, D: 4}\n"
     "  dynamic T; dynamic P; dynamic D; bind B = 6\n"
     "{\n"
     "  %block = read %table\n"
     "  %two = fill 2 : tile<B, i32>\n"
     "  %first = mul %block, %two\n"
     "  for T {\n"
     "    %x = read %cache, %first {mapping = map 2\n"
     "      {P: $dynamic_val0 + Mod($index0, 2), D: $index1} ->\n"
     "      {T: $index0, D: $index1} with {B: floor($index0 / 2)}}\n"
     "    write %x, %b\n"
     "    yield\n"
     "  }\n"
     "}",
     {{"T", 4}, {"D", 4}, {"P", 6}, {"B", -6}}},
    {"scaled",
     "kernel @scaled(%a: mem<M, K, f16>, %s: mem<M, K/2, f16, shared>, %b: mem<M, K/2, f16>)\n"
     "  workgroup M by 4 on 0; tile K by 4; hardware threads 8, vector {M: 4, K: 4}\n"
     "  dynamic M; bind K = 12\n"
     "{ for K { %x = read %s\n  write %x, %b\n  yield } }",
     {{"M", 4}, {"K", -12}}},
    {"patches", /* neighbours of a window: floor and remainder */
     "kernel @patches(%a: mem<H, W, f32, shared>, %b: mem<Q, N, f32>)\n"
     "  workgroup Q by 4 on 0; workgroup N by 3 on 1; hardware threads 8, vector {Q: 4, N: 3}\n"
     "  dynamic Q; dynamic N; dynamic H; dynamic W\n"
     "{\n"
     "  %x = read %a {mapping = map 2 {H: floor($index0 / 3) + floor($index1 / 2),\n"
     "    W: Mod($index0, 3) + Mod($index1, 2) - 1} -> {Q: $index0, N: $index1}}\n"
     "  write %x, %b\n"
     "}",
     {{"Q", 4}, {"N", 3}, {"H", 3}, {"W", 3}}},
    {"folded",
     "kernel @folded(%a: mem<A, B, M, N, f32>, %b: mem<A, B, M, N, f32>)\n"
     "  workgroup M by 2 on 0; workgroup N by 4 on 1; workgroup A by 1 on 2; workgroup B by 1 on "
     "3\n"
     "  hardware threads 8, vector {M: 2, N: 4, A: 0, B: 0}\n"
     "  dynamic M; dynamic N; dynamic A; dynamic B\n"
     "{ %x = read %a\n  write %x, %b }",
     {{"A", 2}, {"B", 2}, {"M", 2}, {"N", 4}}},
    {"reordered",
     "kernel @reordered(%a: mem<M, N, f32, shared>, %b: mem<M, N, f32>)\n"
     "  workgroup M by 4 on 0; workgroup N by 4 on 1; hardware threads 8, vector {M: 4, N: 4}\n"
     "  reorder 0 to Mod($WG0 + $WG1, ceiling(M/4)); dynamic M; dynamic N\n"
     "{ %x = read %a\n  write %x, %b }",
     {{"M", 4}, {"N", 4}}},
    {"bound_ids", /* ids of bound values are those of the launch, not the reordered ones */
     "kernel @bound_ids(%a: mem<M, K, i32>, %c: mem<S, M, K, i32>)\n"
     "  workgroup M by 4 on 0; workgroup S by 1 on 1 iters 2\n"
     "  tile K by 4 from OFF iters 2; bind OFF = 8 * $WG1; reorder 1 to 1 - $WG1\n"
     "  hardware threads 8, vector {M: 4, K: 4, S: 0}; dynamic M; dynamic K; bind S = 2\n"
     "{ for K { %x = read %a\n  write %x, %c\n  yield } }",
     {{"M", 4}, {"K", 6}, {"S", -2}}},
    {"own_ids", /* ids that a row mentions are reordered */
     "kernel @own_ids(%a: mem<M, K, i32>, %c: mem<S, M, K, i32>)\n"
     "  workgroup M by 4 on 0; workgroup S by 1 on 1 iters 2\n"
     "  tile K by 4 from 8 * $WG1 iters 2; reorder 1 to 1 - $WG1\n"
     "  hardware threads 8, vector {M: 4, K: 4, S: 0}; dynamic M; dynamic K; bind S = 2\n"
     "{ for K { %x = read %a\n  write %x, %c\n  yield } }",
     {{"M", 4}, {"K", 6}, {"S", -2}}},
    {"split", /* each workgroup sums a part of K; parts do not begin at tiles */
     "kernel @split(%a: mem<M, K, i32, shared>, %c: mem<M, i32>)\n"
     "  workgroup M by 4 on 1; workgroup S by 1 on 0 iters 2\n"
     "  tile K by 4 from 6 * $WG0 iters ceiling((Min(K, 6 * $WG0 + 6) - 6 * $WG0) / 4)\n"
     "  hardware threads 8, vector {M: 1, K: 8, S: 0}; dynamic M; dynamic K; bind S = 2\n"
     "{\n"
     "  %z = fill 0 : tile<M, i32>\n"
     "  %r = for K carry %acc = %z { %x = read %a\n  %n = sum %x, %acc {dim = K}\n  yield %n }\n"
     "  %old = atomic_add %r, %c\n"
     "}",
     {{"M", 4}, {"K", 6}}},
    {"guarded", /* in the body M > 6 is known */
     "kernel @guarded(%a: mem<M, N, f32, shared>, %b: mem<M, N, f32>)\n"
     "  workgroup N by 4 on 0; tile M by 4 iters 2; hardware threads 8, vector {M: 4, N: 4}\n"
     "  dynamic M; dynamic N\n"
     "{\n"
     "  if (M > 7) { for M { %x = read %a\n  write %x, %b\n  yield } }\n"
     "}",
     {{"M", 4}, {"N", 4}}},
    {"stepped",
     "kernel @stepped(%a: mem<M, K, f32, shared>, %b: mem<M, K, f32>)\n"
     "  workgroup M by 4 on 0; tile K by 2; hardware threads 8, vector {M: 4, K: 2}\n"
     "  dynamic M; dynamic K\n"
     "{ for K step 2 { %x = read %a\n  write %x, %b\n  yield } }",
     {{"M", 4}, {"K", 4}}},
    {"bounded", /* the author's bounds replace the sizes of dimensions */
     "kernel @bounded(%a: mem<M, N, f32, shared>, %b: mem<M, N, f32>)\n"
     "  workgroup M by 4 on 0; workgroup N by 4 on 1; hardware threads 8, vector {M: 4, N: 4}\n"
     "  dynamic M; dynamic N\n"
     "{ %x = read %a {bounds = {N: N - 1}}\n  write %x, %b {bounds = {M: 3}} }",
     {{"M", 4}, {"N", 4}}},
    {"while", /* begins before the first element */
     "kernel @while(%a: mem<M, K, i32, shared>, %b: mem<M, K, i32>)\n"
     "  workgroup M by 4 on 0; tile K by 1; hardware threads 8, vector {M: 4, K: 1}\n"
     "  dynamic M; dynamic K\n"
     "{\n"
     "  %first = scalar -2 : index\n"
     "  while K as signed(K.2) (%k) from %first cond (signed(K.2) < 5) {\n"
     "    %x = read %a\n"
     "    write %x, %b\n"
     "    %two = scalar 2 : index\n"
     "    %next = add %k, %two\n"
     "    yield %next\n"
     "  }\n"
     "}",
     {{"M", 4}, {"K", 4}}},
    {"scratch",
     "kernel @scratch(%a: mem<M, N, f32>, %b: mem<M, N, f32>)\n"
     "  workgroup M by 4 on 0; workgroup N by 4 on 1; hardware threads 8, vector {M: 4, N: 4}\n"
     "  dynamic M; dynamic N\n"
     "{\n"
     "  %s = alloc : mem<M, N, f32, shared>\n"
     "  %x = read %a\n"
     "  write %x, %s\n"
     "  %y = read %s\n"
     "  write %y, %b\n"
     "}",
     {{"M", 4}, {"N", 4}}},
    {"small_scratch", /* elements that do not fit are dropped */
     "kernel @small(%a: mem<M, N, i32>, %b: mem<M, N, i32>)\n"
     "  workgroup M by 4 on 0; workgroup N by 4 on 1; hardware threads 8, vector {M: 4, N: 4}\n"
     "  dynamic M; dynamic N\n"
     "{\n"
     "  %s = alloc {physical = [4, 3]} : mem<M, N, i32, shared>\n"
     "  %x = read %a\n"
     "  write %x, %s\n"
     "  %o = atomic_add %x, %s\n"
     "  %y = read %s\n"
     "  write %y, %b\n"
     "}",
     {{"M", 4}, {"N", 4}}},
    {"constant_outside", /* over K, which has no size outside its loop */
     "kernel @constant(%a: mem<M, K, i32>, %b: mem<M, i32>)\n"
     "  workgroup M by 4 on 0; tile K by 4; hardware threads 8, vector {M: 4, K: 4}\n"
     "  dynamic M; dynamic K\n"
     "{\n"
     "  %two = fill 2 : tile<M, K, i32>\n"
     "  %z = fill 0 : tile<M, i32>\n"
     "  %r = for K carry %acc = %z {\n"
     "    %x = read %a\n"
     "    %y = mul %x, %two\n"
     "    %s = sum %y, %acc {dim = K}\n"
     "    yield %s\n"
     "  }\n"
     "  write %r, %b\n"
     "}",
     {{"M", 4}, {"K", 4}}},
    {"histogram",
     "kernel @histogram(%a: mem<N, i32>, %i: mem<N, i32>, %h: mem<B, i32>)\n"
     "  workgroup N by 8 on 0; hardware threads 8, vector {N: 8, B: 6}; dynamic N; bind B = 6\n"
     "{\n"
     "  %z = fill 0 : tile<B, i32>\n"
     "  %s = alloc : mem<B, i32, shared>\n"
     "  write %z, %s\n"
     "  %x = read %a\n"
     "  %at = read %i\n"
     "  scatter_add %x, %at, %s {pos = 0, mapping = map 1 {N: $index0} -> {B: 0}}\n"
     "  %sum = read %s\n"
     "  %old = atomic_add %sum, %h\n"
     "}",
     {{"N", 8}, {"B", -6}}},
    {"twice", /* the same tile read by two ops, one in a conditional */
     "kernel @twice(%a: mem<M, N, f32, shared>, %b: mem<M, N, f32>, %c: mem<M, N, f32>)\n"
     "  workgroup M by 4 on 0; tile N by 4; hardware threads 8, vector {M: 4, N: 4}\n"
     "  dynamic M; dynamic N\n"
     "{\n"
     "  for N {\n"
     "    %x = read %a\n"
     "    %y = read %a\n"
     "    %s = add %x, %y\n"
     "    write %s, %b\n"
     "    if ($ARGN > 0) { %t = read %a\n  write %t, %c }\n"
     "    yield\n"
     "  }\n"
     "}",
     {{"M", 4}, {"N", 4}}},
    {"updated", /* an argument that is read, written, and read again */
     "kernel @updated(%a: mem<M, N, i32, shared>, %b: mem<M, N, i32>)\n"
     "  workgroup M by 4 on 0; tile N by 4; hardware threads 8, vector {M: 4, N: 4}\n"
     "  dynamic M; dynamic N\n"
     "{\n"
     "  for N {\n"
     "    %x = read %a\n"
     "    %y = add %x, %x\n"
     "    write %y, %a\n"
     "    %z = read %a\n"
     "    write %z, %b\n"
     "    yield\n"
     "  }\n"
     "}",
     {{"M", 4}, {"N", 4}}},
};

#define EACH_SAMPLE(s)                                                                             \
  for (const Sample *s = tile_samples; s < tile_samples + WV_LEN(tile_samples); s++)

#endif
