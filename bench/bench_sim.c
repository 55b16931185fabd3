/* bench_sim.c: how many lane-ops per second the simulator executes, with every check on.
 *
 *     bench_sim [--rounds N] [--only NAME]
 *
 * A lane-op is one op in one active lane, whatever its width: a load of eight elements is one, a
 * matrix instruction one per lane. Times are CPU time, not wall-clock time; the best of N rounds is
 * reported (default 3). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/sim/sim.h"
#include "ir/dtype.h"

typedef struct Bench {
  const char *name, *machine, *text;
  DType dtype;
  int shape[3][2]; /* of each argument; 0: no more */
} Bench;

static const Bench benches[] = {
    {"copy",
     "sm_90a",
     "thread kernel @copy(%a: mem<M, N, f32>, %b: mem<M, N, f32>)\n"
     "  launch grid (M/64) block (256) wave 32\n  bind M = 1024; bind N = 256\n{\n"
     "  for I with {trips = 16} {\n"
     "    %at = expr $WG0*64*N + $ARGI*1024 + 4*$T0 : index\n"
     "    %in = expr $WG0*64*N + $ARGI*1024 + 4*$T0 < M*N : i1\n"
     "    %x = load %a, %at, %in : vec<4, f32>\n    store %x, %b, %at, %in\n  }\n}\n",
     DTYPE_f32,
     {{1024, 256}, {1024, 256}}},
    {"transpose",
     "sm_90a",
     "thread kernel @transpose(%a: mem<M, N, f32>, %b: mem<N, M, f32>)\n"
     "  launch grid (M/32, N/8) block (32, 8) wave 32 shared 1056\n  bind M = 1024; bind N = "
     "256\n{\n"
     "  %s = alloc {base = 0, physical = [8, 33]} : mem<8, 32, f32, shared>\n"
     "  %from = expr ($WG0*32 + $T0)*N + $WG1*8 + $T1 : index\n"
     "  %x = load %a, %from {coords = [$WG0*32 + $T0, $WG1*8 + $T1]} : f32\n"
     "  %to = expr $T1*33 + $T0 : i32\n  store %x, %s, %to\n  barrier workgroup\n"
     "  %at = expr Mod($T0, 8)*33 + 4*$T1 + floor($T0/8) : i32\n  %y = load %s, %at : f32\n"
     "  %out = expr ($WG1*8 + Mod($T0, 8))*M + $WG0*32 + 4*$T1 + floor($T0/8) : index\n"
     "  store %y, %b, %out\n}\n",
     DTYPE_f32,
     {{1024, 256}, {256, 1024}}},
    {"shared",
     "sm_90a",
     "thread kernel @shared(%a: mem<M, N, f32>, %b: mem<M, N, f32>)\n"
     "  launch grid (M) block (N) wave 32 shared 1024\n  bind M = 64; bind N = 256\n{\n"
     "  %s = alloc : mem<256, f32, shared>\n  %at = expr $WG0*N + $T0 : index\n"
     "  %x = load %a, %at : f32\n"
     "  %r = for I with {trips = 64} carry %acc = %x {\n"
     "    %to = expr Mod($T0 + $ARGI, 256) : i32\n    store %acc, %s, %to\n    barrier workgroup\n"
     "    %from = expr Mod(255 - $T0 + $ARGI, 256) : i32\n    %y = load %s, %from : f32\n"
     "    %n = add %acc, %y\n    barrier workgroup\n    yield %n\n  }\n"
     "  store %r, %b, %at\n}\n",
     DTYPE_f32,
     {{64, 256}, {64, 256}}},
    {"reduce",
     "sm_90a",
     "thread kernel @reduce(%a: mem<M, N, i32>, %b: mem<M, N, i32>)\n"
     "  launch grid (M) block (N) wave 32 shared 32\n  bind M = 512; bind N = 256\n{\n"
     "  %s = alloc : mem<8, i32, shared>\n  %at = expr $WG0*N + $T0 : index\n"
     "  %x = load %a, %at : i32\n"
     "  %y16 = shuffle xor %x {by = 16}\n  %x16 = add %x, %y16\n"
     "  %y8 = shuffle xor %x16 {by = 8}\n  %x8 = add %x16, %y8\n"
     "  %y4 = shuffle xor %x8 {by = 4}\n  %x4 = add %x8, %y4\n"
     "  %y2 = shuffle xor %x4 {by = 2}\n  %x2 = add %x4, %y2\n"
     "  %y1 = shuffle xor %x2 {by = 1}\n  %sum = add %x2, %y1\n"
     "  %wave = expr floor($T0/32) : i32\n  %first = expr Eq(Mod($T0, 32), 0) : i1\n"
     "  store %sum, %s, %wave, %first\n  barrier workgroup\n"
     "  if ($T0 < 1) {\n    %zero = scalar 0 : i32\n    %all = load %s, %zero : vec<4, i32>\n"
     "    %lo = pick [0] %all\n    store %lo, %b, %at\n  }\n}\n",
     DTYPE_i32,
     {{512, 256}, {512, 256}}},
    {"mma_sync",
     "sm_90a",
     "thread kernel @mma(%a: mem<M, N, f16>, %b: mem<M, N, f16>, %c: mem<M, N, f16>)\n"
     "  launch grid (64) block (32) wave 32\n  bind M = 1024; bind N = 256\n{\n"
     "  %at = expr $WG0*16*256 + 8*$T0 : index\n  %h = scalar 0.0 : f16\n"
     "  %z = splat %h : vec<16, f16>\n"
     "  %r = for K with {trips = 16} carry %acc = %z {\n"
     "    %off = expr $APPLY_EXPR_ARG_0 + 256*$ARGK %at : index\n"
     "    %x = load %a, %off : vec<8, f16>\n    %y = load %b, %off : vec<8, f16>\n"
     "    %w = join %x, %x\n"
     "    %n = wave_mma mma_m16n8k16_f16_f16 %w, %y, %acc {copies = [2, 2, 1]}\n    yield %n\n  }\n"
     "  %o = pick [0, 1, 2, 3, 4, 5, 6, 7] %r\n  store %o, %c, %at\n}\n",
     DTYPE_f16,
     {{1024, 256}, {1024, 256}, {1024, 256}}},
    {"mfma",
     "gfx942",
     "thread kernel @mfma(%a: mem<M, N, f16>, %b: mem<M, N, f16>, %c: mem<M, N, f16>)\n"
     "  launch grid (64) block (256) wave 64 shared 8192\n  bind M = 1024; bind N = 256\n{\n"
     "  %s = alloc : mem<16, 256, f16, shared>\n  %at = expr $WG0*16*256 + 4*$T0 : index\n"
     "  %i = expr 4*$T0 : i32\n  %f = scalar 0.0 : f32\n  %z = splat %f : vec<16, f32>\n"
     "  %r = for K with {trips = 16} carry %acc = %z {\n"
     "    %off = expr $WG0*16*256 + 4*Mod($T0 + 16*$ARGK, 1024) : index\n"
     "    %x = load %a, %off : vec<4, f16>\n    store %x, %s, %i\n    barrier workgroup\n"
     "    %j = expr 4*Mod(255 - $T0, 256) : i32\n    %y = load %s, %j : vec<4, f16>\n"
     "    %w = join %y, %y\n"
     "    %n = wave_mma F32_16x16x16_F16 %w, %w, %acc {copies = [2, 2, 1]}\n"
     "    barrier workgroup\n    yield %n\n  }\n"
     "  %o = pick [0, 1, 2, 3] %r\n  %p = cast %o : vec<4, f16>\n  store %p, %c, %at\n}\n",
     DTYPE_f16,
     {{1024, 256}, {1024, 256}, {1024, 256}}},
};

/* Small values, so that sums stay finite. */
static EvalBuffer tensor(Arena *a, DType t, int rows, int columns) {
  EvalBuffer b = {.dtype = t, .rank = 2, .shape = {rows, columns}, .strides = {columns, 1}};
  b.data = arena_alloc(a, dtype_bytes(t, (int64_t)rows * columns));
  for (int64_t i = 0; i < (int64_t)rows * columns; i++) {
    int v = (int)(i * 7 % 5) - 2;
    dtype_store(t, b.data, i, dtype_is_float(t) ? dtype_encode(t, v) : dtype_int_bits(t, v));
  }
  return b;
}

/* Seconds of CPU time, and what was executed; exits if the simulator reports a finding. */
static double run(const Bench *b, uint64_t *lane_ops) {
  Context *cx = context_new();
  Arena *a = arena_new();
  KernelList list = ir_parse(cx, b->name, b->text, cx->arena);
  EvalBuffer buffers[3];
  EvalArg args[3] = {0};
  int n = 0;
  for (; n < 3 && b->shape[n][0]; n++) {
    buffers[n] = tensor(a, b->dtype, b->shape[n][0], b->shape[n][1]);
    args[n].buffer = &buffers[n];
  }
  SimOptions o = {.machine = target_find(b->machine).machine};
  SimReport r = {0};
  clock_t start = clock();
  bool ok = list.n && sim_run(list.at[0], args, n, &o, &r);
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  if (!ok) {
    StrBuf out = {.arena = a};
    diags_render(&cx->diags, &out);
    fprintf(stderr, "%s", sb_text(&out));
    exit(1);
  }
  *lane_ops = r.total.lane_ops;
  kernel_free(list.at[0]);
  arena_free(a);
  context_free(cx);
  return seconds;
}

int main(int argc, char **argv) {
  const char *only = "";
  int rounds = 3;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--rounds")) rounds = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--only")) only = argv[i + 1];
  }
  printf("%-10s %12s %9s %14s\n", "kernel", "lane-ops", "ms", "M lane-ops/s");
  for (size_t i = 0; i < WV_LEN(benches); i++) {
    if (!strstr(benches[i].name, only)) continue;
    uint64_t lane_ops = 0;
    double best = 1e9;
    for (int r = 0; r < rounds; r++) {
      double t = run(&benches[i], &lane_ops);
      if (t < best) best = t;
    }
    printf("%-10s %12llu %9.1f %14.1f\n", benches[i].name, (unsigned long long)lane_ops, best * 1e3,
           (double)lane_ops / best * 1e-6);
  }
  return 0;
}
