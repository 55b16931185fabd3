/* test_sim_kernels.c: the kernels of tests/run/sim_*.wave give the right results under every
 * schedule without a finding, and each fault put into them is detected under every schedule. */
#include "unit/sim_kit.h"

static const TargetInfo *machine(const char *name) { return target_find(name).machine; }

/* The kernel as it is, or with `from` replaced by `to`. */
static Trial kernel(const char *name, void (*fill)(Lab *), const char *from, const char *to) {
  Trial t = trial_of(name);
  t.fill = fill;
  if (from) trial_replace(&t, from, to);
  return t;
}

#define PASSES(name, fill, check)                                                                  \
  do {                                                                                             \
    Trial trial = kernel(name, fill, NULL, NULL);                                                  \
    CHECK(trial_passes(&trial, check));                                                            \
  } while (0)
#define FAULT(name, fill, from, to, code, blamed, noted)                                           \
  do {                                                                                             \
    Trial trial = kernel(name, fill, from, to);                                                    \
    CHECK(trial_finds(&trial, code, blamed, noted));                                               \
  } while (0)

/* ---- copy ---- */

static void fill_copy(Lab *l) {
  lab_tensor(l, DTYPE_i32, 1, 70);
  lab_tensor(l, DTYPE_i32, 1, 70);
}

static bool is_copy(const Lab *l) {
  for (int i = 0; i < 70; i++)
    if (get(l, 0, i) != get(l, 1, i)) return false;
  return true;
}

TEST(copy) {
  PASSES("sim_copy", fill_copy, is_copy);
  FAULT("sim_copy", fill_copy, "%m3 = expr $WG0*64 + $T0*4 + 3 < N",
        "%m3 = expr $WG0*64 + $T0*4 + 1 < N + 1", "E0801", "load %a", NULL);
  FAULT("sim_copy", fill_copy, "store %z, %b, %at, %m", "store %z, %b, %at", "E0801", "store %z",
        NULL);
  FAULT("sim_copy", fill_copy, "%at = expr $WG0*64 + $T0*4", "%at = expr $WG0*64 + $T0*4 + 1",
        "E0806", "store %z", NULL);
  FAULT("sim_copy", fill_copy, "$WG0*64 + $T0*4 : index", "$WG0*60 + $T0*4 : index", "E0808",
        "store %z", "store %z");
}

/* ---- transpose ---- */

static void fill_transpose(Lab *l) {
  lab_tensor(l, DTYPE_f32, 2, 64, 16);
  lab_tensor(l, DTYPE_f32, 2, 16, 64);
}

static bool is_transposed(const Lab *l) {
  for (int i = 0; i < 64; i++)
    for (int j = 0; j < 16; j++)
      if (get(l, 0, i * 16 + j) != get(l, 1, j * 64 + i)) return false;
  return true;
}

TEST(transpose) {
  PASSES("sim_transpose", fill_transpose, is_transposed);
  FAULT("sim_transpose", fill_transpose, "  barrier workgroup\n", "", "E0803", "load %s",
        "store %x");
  FAULT("sim_transpose", fill_transpose, "barrier workgroup", "barrier wave", "E0803", "load %s",
        "store %x");
  FAULT("sim_transpose", fill_transpose, "$T1*33 + $T0 : i32", "$T1*33 + $T0 + 1 : i32", "E0801",
        "store %x", NULL);
  /* inside the buffer, but past the end of a row */
  FAULT("sim_transpose", fill_transpose, "coords = [$WG0*32 + $T0, $WG1*8 + $T1]",
        "coords = [$WG0*32 + $T0 - 1, $WG1*8 + $T1 + 16]", "E0801", "load %a", NULL);
}

static void fill_lanes(Lab *l) { lab_tensor(l, DTYPE_i32, 1, 64); }

/* A wave of a lockstep machine is one thread: its lanes do not need a barrier. */
TEST(lockstep) {
  Trial t = trial_text(
      "thread kernel @k(%b: mem<64, i32>)\n  launch grid (1) block (64) wave 64 shared 256\n{\n"
      "  %s = alloc : mem<64, i32, shared>\n  %i = expr $T0 : i32\n  %j = expr 63 - $T0 : i32\n"
      "  store %i, %s, %i\n  %x = load %s, %j : i32\n  store %x, %b, %i\n}\n");
  Trial free_lanes = t;
  free_lanes.arena = arena_new();
  free_lanes.text = arena_strdup(free_lanes.arena, t.text);
  trial_replace(&free_lanes, "block (64) wave 64", "block (64) wave 32");
  t.fill = free_lanes.fill = fill_lanes;
  CHECK(trial_passes(&t, NULL));
  CHECK(trial_finds(&free_lanes, "E0803", "load %s", "store %i"));
}

/* ---- reduce ---- */

static void fill_reduce(Lab *l) {
  lab_tensor(l, DTYPE_i32, 1, 64);
  lab_tensor(l, DTYPE_i32, 1, 1);
}

static bool is_sum(const Lab *l) {
  double sum = 0;
  for (int i = 0; i < 64; i++) sum += get(l, 0, i);
  return get(l, 1, 0) == sum;
}

TEST(reduce) {
  PASSES("sim_reduce", fill_reduce, is_sum);
  FAULT("sim_reduce", fill_reduce, "store %sum, %s, %wave, %first", "store %x2, %s, %wave", "E0803",
        "store %x2", NULL);
  FAULT("sim_reduce", fill_reduce, "  barrier workgroup\n", "", "E0803", "load %s", "store %sum");
}

/* ---- matrix instructions ---- */

static bool is_product(const Lab *l, int m, int n, int k) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int e = 0; e < k; e++) sum += get(l, 0, i * k + e) * get(l, 1, j * k + e);
      if (get(l, 2, i * n + j) != sum) return false;
    }
  return true;
}

static void fill_gemm(Lab *l, int m, int n, int k) {
  lab_tensor(l, DTYPE_f16, 2, m, k);
  lab_tensor(l, DTYPE_f16, 2, n, k);
  lab_fill(l, lab_tensor(l, DTYPE_f32, 2, m, n), -1000);
}

static void fill_mfma(Lab *l) { fill_gemm(l, 16, 16, 32); }
static bool is_mfma(const Lab *l) { return is_product(l, 16, 16, 32); }
static void fill_mma_sync(Lab *l) { fill_gemm(l, 16, 16, 16); }
static bool is_mma_sync(const Lab *l) { return is_product(l, 16, 16, 16); }

TEST(matrix_instructions) {
  PASSES("sim_mfma", fill_mfma, is_mfma);
  PASSES("sim_mma_sync", fill_mma_sync, is_mma_sync);
  FAULT("sim_mma_sync", fill_mma_sync, "{copies = [1, 2, 1]}", "{copies = [2, 1, 1]}", "E0813",
        "wave_mma", NULL);
}

/* ---- copies in flight ---- */

static void fill_copies(Lab *l) {
  lab_tensor(l, DTYPE_f32, 3, 5, 64, 4);
  lab_tensor(l, DTYPE_f32, 2, 64, 4);
}

static bool is_reversed_sum(const Lab *l) {
  for (int i = 0; i < 256; i++) {
    double sum = 0;
    for (int t = 0; t < 5; t++) sum += get(l, 0, t * 256 + (63 - i / 4) * 4 + i % 4);
    if (get(l, 1, i) != sum) return false;
  }
  return true;
}

TEST(copy_async) {
  PASSES("sim_copy_async", fill_copies, is_reversed_sum);
  FAULT("sim_copy_async", fill_copies, "    async_wait 1\n", "", "E0803", "load %s", "copy_async");
  FAULT("sim_copy_async", fill_copies, "async_wait 1", "async_wait 2", "E0803", "load %s",
        "copy_async");
  FAULT("sim_copy_async", fill_copies, "    async_wait 1\n    barrier workgroup\n",
        "    async_wait 1\n", "E0803", "load %s", "copy_async");
  FAULT("sim_copy_async", fill_copies, "    barrier workgroup\n    yield", "    yield", "E0803",
        "copy_async", "load %s");
  FAULT("sim_copy_async", fill_copies, "%more = expr $ARGT + 1 < T", "%more = expr $ARGT < T",
        "E0801", "%next, %more", NULL);
}

/* ---- mbarriers and tensor copies ---- */

static void fill_ring(Lab *l) {
  lab_tensor(l, DTYPE_f32, 2, 90, 32);
  lab_tensor(l, DTYPE_f32, 1, 32);
}

static bool is_column_sum(const Lab *l) {
  for (int j = 0; j < 32; j++) {
    double sum = 0;
    for (int i = 0; i < 90; i++) sum += get(l, 0, i * 32 + j);
    if (get(l, 1, j) != sum) return false;
  }
  return true;
}

TEST(ring) {
  PASSES("sim_tma_ring", fill_ring, is_column_sum);
  /* a consumer that never flips its parity reads stages that are not filled yet */
  FAULT("sim_tma_ring", fill_ring, "%parity = expr Mod(floor($ARGC/2), 2)", "%parity = expr 0",
        "E0803", "load %ring", "tma_load");
  FAULT("sim_tma_ring", fill_ring, "%parity = expr Mod(floor($ARGC/2), 2)",
        "%parity = expr 1 - Mod(floor($ARGC/2), 2)", "E0803", "load %ring", "tma_load");
  FAULT("sim_tma_ring", fill_ring, "      mbar_wait %empty, %stage, %fresh\n", "", "E0803",
        "tma_load", "load %ring");
  FAULT("sim_tma_ring", fill_ring, "mbar_arrive %full, %stage {bytes = 2048}",
        "mbar_arrive %full, %stage", "E0803", "load %ring", "tma_load");
  FAULT("sim_tma_ring", fill_ring, "{bytes = 2048}", "{bytes = 4096}", "E0807", "mbar_wait", NULL);
  FAULT("sim_tma_ring", fill_ring, "      mbar_arrive %empty, %slot\n", "", "E0807", "mbar_wait",
        NULL);
  FAULT("sim_tma_ring", fill_ring, "mbar_init %empty, %s1 {count = 32}",
        "mbar_init %empty, %s1 {count = 31}", "E0809", "mbar_init %empty, %s1", NULL);
  FAULT("sim_tma_ring", fill_ring, "  barrier workgroup\n", "", "E0803 E0809", "mbar_", NULL);
  FAULT("sim_tma_ring", fill_ring, "{base = 0} : mem<2, 16, 32", "{base = 64} : mem<2, 16, 31",
        "E0806", "tma_load", NULL);
}

/* ---- wgmma ---- */

static void fill_wgmma(Lab *l) { fill_gemm(l, 64, 64, 64); }

/* The kernel stores columns 0 to 15 and 56 to 63 only. */
static bool is_wgmma(const Lab *l) {
  for (int i = 0; i < 64; i++)
    for (int j = 0; j < 64; j++) {
      double sum = 0;
      for (int e = 0; e < 64; e++) sum += get(l, 0, i * 64 + e) * get(l, 1, j * 64 + e);
      if (get(l, 2, i * 64 + j) != (j < 16 || j >= 56 ? sum : -1000)) return false;
    }
  return true;
}

TEST(wgmma) {
  PASSES("sim_wgmma", fill_wgmma, is_wgmma);
  FAULT("sim_wgmma", fill_wgmma, "  wgmma_wait 0\n", "", "E0812", "pick [0, 1]", NULL);
  FAULT("sim_wgmma", fill_wgmma, "wgmma_wait 0", "wgmma_wait 1", "E0812", "pick [0, 1]", NULL);
  FAULT("sim_wgmma", fill_wgmma, "  wgmma_commit\n", "", "E0812", "pick [0, 1]", NULL);
  FAULT("sim_wgmma", fill_wgmma, "  wgmma_fence\n", "", "E0812", "wgmma wgmma_m64n64k16", NULL);
  FAULT("sim_wgmma", fill_wgmma, "  fence_proxy\n", "", "E0810", "wgmma wgmma_m64n64k16",
        "store %x");
  FAULT("sim_wgmma", fill_wgmma, "  fence_proxy\n  barrier workgroup\n",
        "  barrier workgroup\n  fence_proxy\n", "E0810", "wgmma wgmma_m64n64k16", "store %x");
  FAULT("sim_wgmma", fill_wgmma, "  mbar_wait %bar, %s0, %s0\n", "", "E0803",
        "wgmma wgmma_m64n64k16", "tma_load");
  FAULT("sim_wgmma", fill_wgmma, "  wgmma_wait 0\n",
        "  %h = scalar 1.0 : f16\n  store %h, %bs, %s0\n  wgmma_wait 0\n", "E0803", "store %h",
        "wgmma wgmma_m64n64k16");
}

/* ---- flags ---- */

static void fill_flag(Lab *l) {
  lab_tensor(l, DTYPE_i32, 1, 32);
  lab_fill(l, lab_tensor(l, DTYPE_i32, 1, 1), 0);
  lab_tensor(l, DTYPE_i32, 1, 32);
}

static bool is_flagged(const Lab *l) {
  for (int i = 0; i < 32; i++)
    if (get(l, 2, i) != 3 * i) return false;
  return true;
}

TEST(flag) {
  PASSES("sim_flag", fill_flag, is_flagged);
  FAULT("sim_flag", fill_flag, "    store %one, %flag, %zero, %first {volatile}\n", "", "E0807",
        "while F", NULL);
  FAULT("sim_flag", fill_flag, "    barrier workgroup\n", "", "E0803", "", "store %x");
  FAULT("sim_flag", fill_flag, "%first {volatile}", "%first", "E0803", "", NULL);
}

TEST(machines) {
  Trial t = kernel("sim_transpose", fill_transpose, NULL, NULL);
  t.options.machine = machine("gfx942");
  CHECK(trial_finds(&t, "E0813", "launch", NULL));
}

TESTS_MAIN(RUN(copy) RUN(transpose) RUN(lockstep) RUN(reduce) RUN(matrix_instructions)
               RUN(copy_async) RUN(ring) RUN(wgmma) RUN(flag) RUN(machines))
