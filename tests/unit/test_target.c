/* The table of machines and its spellings. */
#include "harness.h"
#include "target/units/units.h"
#include "wave.h"

TEST(rows_are_sane) {
  int n = 0;
  for (const TargetInfo *t; (t = target_at(n)); n++) {
    CHECK(t->lanes >= 1 && t->threads % t->lanes == 0 && target_waves(t) >= 1);
    CHECK(t->shared <= t->shared_most && t->shared_most > 0);
    CHECK(t->registers > 0 && t->global_access > 0 && t->shared_access > 0);
    CHECK(t->phase4 >= t->phase8 && t->phase8 >= t->phase16 && t->lanes % t->phase16 == 0);
    if (t->banks && t->lanes > 1) CHECK_INT(t->phase16 * 16, t->banks * BANK_BYTES);
    if (t->banks && t->lanes > 1) CHECK_INT(t->phase8 * 8, t->banks * BANK_BYTES);
    CHECK(t->doc[0] && target_find(t->name).machine == t && !target_find(t->name).simulated);
  }
  CHECK_INT(n, 32);
  CHECK(!target_at(-1) && !target_at(n));
}

/* A host gets the best row whose features it has; only whole words match. */
TEST(cpus_of_hosts) {
  const char *x86 = "x86_64-unknown-linux-gnu", *arm = "aarch64-unknown-linux-gnu";
  const char *avx512 = "+sse2,+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl";
  const char *amx = "+sse2,+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512vnni,"
                    "+avx512bf16,+amx-tile,+amx-bf16,+amx-int8,-amx-fp16";
  const struct {
    HostWords host;
    const char *target;
  } hosts[] = {{{arm, "+fp-armv8,+neon,+dotprod,-i8mm,-bf16", 0}, "cpu_neon_dot"},
               {{arm, "+neon,-dotprod", 0}, "cpu_neon"},
               {{arm, "+neon,+dotprod,+i8mm,+bf16,+sve", 16}, "cpu_neon_mm"},
               {{arm, "+neon,+dotprod,+i8mm,+bf16,+sve", 0}, "cpu_neon_mm"},
               {{arm, "+neon,+dotprod,+i8mm,+bf16,+sve", 32}, "cpu_sve256"},
               {{arm, "+neon,+dotprod,+i8mm,+bf16,+sve", 256}, "cpu_neon_mm"},
               {{arm, "+neon,-dotprod,+sve", 64}, "cpu_sve512"},
               {{x86, "+sse2", 0}, "cpu_sse"},
               {{x86, "+sse2,+avx2,-fma,+f16c", 0}, "cpu_sse"},
               {{x86, "+sse2,+avx2,+fma,+f16c,+avx512fp16", 0}, "cpu_avx2"},
               {{x86, avx512, 0}, "cpu_avx512"},
               {{x86, amx, 0}, "cpu_amx"}};
  for (size_t i = 0; i < WV_LEN(hosts); i++) {
    const CpuInfo *p = cpu_of_host(&hosts[i].host);
    CHECK_STR(p ? p->target : NULL, hosts[i].target);
  }
  for (int i = 0; cpu_at(i); i++) {
    const CpuInfo *p = cpu_at(i);
    CHECK(cpu_named(p->target) == p && target_find(p->target).machine);
    CHECK(p->tiles >> DOT_tile & 1);
    HostWords host = {p->arch, p->features, p->vector_bytes};
    if (*p->arch) CHECK(cpu_of_host(&host) == p);
  }
  CHECK(!cpu_named("sm_90a") && !cpu_at(-1));
  CHECK(!cpu_of_host(&(HostWords){"riscv64-linux", "+v", 0}));
}

/* The error names what is missing. */
TEST(what_cpus_lack) {
  HostWords host = {"aarch64-unknown-linux-gnu", "+neon,+dotprod,-bf16,+sve", 64};
  const struct {
    const char *target, *lacks;
  } rows[] = {{"cpu_neon_mm", "i8mm, bf16"},
              {"cpu_sve256", "i8mm, bf16"},
              {"cpu_avx2", "the architecture x86_64"}};
  Arena *a = arena_new();
  for (size_t i = 0; i < WV_LEN(rows); i++)
    CHECK_STR(cpu_lacks(a, &host, cpu_named(rows[i].target)), rows[i].lacks);
  CHECK(!cpu_lacks(a, &host, cpu_named("cpu_neon_dot")));
  CHECK(!cpu_lacks(a, &host, cpu_named("cpu_sve512")));
  host.scalable_bytes = 16;
  CHECK_STR(cpu_lacks(a, &host, cpu_named("cpu_sve512")), "vectors of 64 bytes (it has 16)");
  arena_free(a);
}

TEST(spellings) {
  const struct {
    const char *text, *name;
    bool simulated;
  } good[] = {{"eval", "eval", false},
              {"sim", "gfx942", true},
              {"sim:toy8", "toy8", true},
              {"sim:hip/gfx950", "gfx950", true},
              {"hip/gfx942", "gfx942", false},
              {"cuda/sm_90a", "sm_90a", false},
              {"gfx942:sramecc+", "gfx942", false},
              {"hip/gfx90a:sramecc+:xnack-", "gfx90a", false}};
  for (size_t i = 0; i < WV_LEN(good); i++) {
    TargetChoice c = target_find(good[i].text);
    CHECK_STR(c.machine ? c.machine->name : NULL, good[i].name);
    CHECK(c.simulated == good[i].simulated);
  }
  const char *bad[] = {
      "", "sm_9", "sm_90aa", "gfx", "sim:", "sim:sim", "sm_90a:x", "cuda/", "toy8:"};
  for (size_t i = 0; i < WV_LEN(bad); i++) {
    if (target_find(bad[i]).machine) printf("%s\n", bad[i]);
    CHECK(!target_find(bad[i]).machine);
  }
}

TEST(kinds) {
  const struct {
    const char *text;
    TargetKind kind;
    bool is_kind;
    const char *machine;
  } rows[] = {{"eval", TARGET_EVAL, false, "eval"},
              {"cpu", TARGET_CPU, true, "cpu"},
              {"llvm-cpu", TARGET_CPU, true, "cpu"},
              {"local-task", TARGET_CPU, true, "cpu"},
              {"cpu_neon", TARGET_CPU, false, "cpu_neon"},
              {"cuda", TARGET_CUDA, true, ""},
              {"nvidia", TARGET_CUDA, true, ""},
              {"cuda/", TARGET_CUDA, true, ""},
              {"nvidia/sm_90a", TARGET_CUDA, false, "sm_90a"},
              {"sm_90", TARGET_CUDA, false, ""},
              {"hip", TARGET_HIP, true, ""},
              {"rocm/gfx1100", TARGET_HIP, false, "gfx1100"},
              {"gfx1030", TARGET_HIP, false, ""},
              {"emu:gfx942", TARGET_EMU, false, "gfx942"},
              {"emu:gfx1201", TARGET_EMU, false, "gfx1201"},
              {"sim", TARGET_SIM, true, "gfx942"},
              {"sim:cpu", TARGET_SIM, false, "cpu"},
              {"sim:rocm/gfx950", TARGET_SIM, false, "gfx950"},
              {"toy8", TARGET_TOY, false, "toy8"}};
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    TargetChoice c = target_find(rows[i].text);
    CHECK_STR(c.machine ? c.machine->name : "", rows[i].machine);
    CHECK(c.kind == rows[i].kind && c.is_kind == rows[i].is_kind);
  }
  const char *bad[] = {
      "",          "evl",       "vulkan/sm_90", "hip/mi300", "cuda:0",  "cuda/cuda/sm_90",
      "emu:sm_80", "emu:",      "emu",          "emu:hip",   "emu:cpu", "emu:gfx9421",
      "sim:cuda",  "sim:sm_91", "sm_75",        "sm_90aa",   "sm_-90",  "sm_99999999999"};
  for (size_t i = 0; i < WV_LEN(bad); i++) {
    if (target_find(bad[i]).kind != TARGET_UNKNOWN) printf("%s\n", bad[i]);
    CHECK(target_find(bad[i]).kind == TARGET_UNKNOWN && !target_find(bad[i]).machine);
  }
  CHECK_STR(target_find("sm_90").stand_in->name, "sm_90a");
  CHECK_STR(target_find("sm_87").stand_in->name, "sm_86");
  CHECK_STR(target_find("sm_82").stand_in->name, "sm_80");
  CHECK_STR(target_find("cuda/sm_120a").stand_in->name, "sm_89");
  CHECK(!target_find("sm_80").stand_in && !target_find("cuda").stand_in);
  CHECK(target_kind_called("rocm") == TARGET_HIP && target_kind_called("gfx942") == TARGET_UNKNOWN);
}

/* Whatever a name is, what is found fits together. */
TEST(random_names) {
  static const char *const parts[] = {
      "sim", ":",   "/", "cuda",  "hip",  "rocm", "cpu", "llvm-",    "sm_", "gfx",      "90",
      "80",  "942", "a", "_neon", "toy8", "eval", "-1",  "\xc3\xa9", " ",   "999999999"};
  uint64_t seed = 1;
  int known = 0;
  for (int i = 0; i < 200000; i++) {
    char name[64] = "";
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = seed >> 20;
    for (int n = 1 + (int)(bits % 4); n > 0; n--, bits /= WV_LEN(parts))
      strcat(name, parts[bits % WV_LEN(parts)]);
    TargetChoice c = target_find(name);
    known += c.kind != TARGET_UNKNOWN;
    CHECK(!c.machine || c.kind != TARGET_UNKNOWN);
    CHECK(!c.simulated || (c.machine != NULL) == (c.kind == TARGET_SIM));
    CHECK(!c.is_kind || c.kind != TARGET_UNKNOWN);
    CHECK(!c.stand_in || (c.kind == TARGET_CUDA && !c.machine && !c.simulated));
    CHECK(c.kind != TARGET_SIM || c.simulated);
  }
  CHECK(known > 1000);
}

TEST(capabilities) {
  const struct {
    int capability;
    const char *name;
  } rows[] = {{75, ""},      {80, "sm_80"},  {86, "sm_86"},  {87, "sm_86"},
              {89, "sm_89"}, {90, "sm_90a"}, {100, "sm_89"}, {120, "sm_89"}};
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    const TargetInfo *t = target_of_capability(rows[i].capability);
    CHECK_STR(t ? t->name : "", rows[i].name);
  }
}

TEST(families) {
  CHECK_STR(target_family("gfx942"), "CDNA");
  CHECK_STR(target_family("hip/gfx1201"), "RDNA");
  CHECK_STR(target_family("gfx1030"), "RDNA");
  CHECK_STR(target_family("gfx1250"), "GFX1250");
  CHECK_STR(target_family("sm_90a"), "CDNA");
}

static bool has(const char *target, const char *mma) {
  const MmaInfo *row = mma_find(mma);
  return row && target_has_mma(target_find(target).machine, row);
}

TEST(machines_have_their_matrix_instructions) {
  CHECK(has("gfx90a", "F32_16x16x16_F16") && has("gfx950", "F32_16x16x16_F16"));
  CHECK(!has("gfx90a", "F32_16x16x32_F8") && has("gfx942", "F32_16x16x32_F8"));
  CHECK(has("gfx90a", "I32_16x16x16_I8") && !has("gfx942", "I32_16x16x16_I8"));
  CHECK(!has("gfx942", "F32_16x16x32_F16") && has("gfx950", "F32_16x16x32_F16"));
  CHECK(has("gfx950", "F32_32x32x64_F8F6F4") && !has("gfx942", "F32_32x32x64_F8F6F4"));
  CHECK(has("gfx1100", "wmma11_16x16x16_f32_f16") && !has("gfx1201", "wmma11_16x16x16_f32_f16"));
  CHECK(has("gfx1201", "RDNA4_WAVE32_F32_16x16x16_F16"));
  CHECK(has("gfx1250", "GFX1250_F32_16x16x32_F16") &&
        has("gfx1250", "GFX1250_F32_16x16x128_F8F6F4"));
  CHECK(!has("gfx1250", "RDNA4_WAVE32_F32_16x16x16_F16") &&
        !has("gfx1201", "GFX1250_F32_16x16x32_F16"));
  CHECK(has("sm_80", "mma_m16n8k16_f32_bf16") && !has("sm_80", "mma_m16n8k32_f32_f8"));
  CHECK(has("sm_89", "mma_m16n8k32_f32_f8") && !has("sm_89", "wgmma_m64n256k16_f32_f16"));
  CHECK(has("sm_90a", "wgmma_m64n256k16_f32_f16") && !has("sm_80", "wgmma_m64n256k16_f32_f16"));
  CHECK(!has("cpu", "F32_16x16x16_F16") && !has("toy8", "mma_m16n8k8_f32_f16"));
}

TEST(public_spellings_of_matrix_instructions) {
  const char *const spelled[] = {"F32_16x16x16_F16", "MFMA_F32_16x16x16_F16",
                                 "MMAType.F32_16x16x16_F16", "MMAType.MFMA_F32_16x16x16_F16"};
  wv_mma_info m;
  for (size_t i = 0; i < WV_LEN(spelled); i++) {
    CHECK_STR(mma_plain_name(spelled[i]), "F32_16x16x16_F16");
    CHECK(wv_mma_find(spelled[i], &m) && m.code == 0x1020 && m.operand_elems == 4);
  }
  CHECK_STR(mma_plain_name(""), "");
  CHECK_STR(mma_plain_name("MFMA_"), "");
  CHECK(!wv_mma_find("MFMA_", &m) && !wv_mma_find(NULL, &m) && !wv_mma_find("F32_MFMA_", &m));
}

TEST(eight_bit_floats_follow_the_machine) {
  const MmaInfo *row = mma_find("F32_16x16x32_F8");
  CHECK_INT(target_mma_types(target_find("gfx942").machine, row), MMA_f8e4m3fnuz | MMA_f8e5m2fnuz);
  CHECK_INT(target_mma_types(target_find("gfx950").machine, row), MMA_f8e4m3fn | MMA_f8e5m2);
}

/* ---- units ---- */

static int cycles(const char *target, const char *mma, int bits) {
  return (int)unit_matrix_cycles(target_find(target).machine, mma_find(mma), bits);
}

static int bits_of(const MmaInfo *row) {
  static const struct {
    unsigned types;
    int bits;
  } sizes[] = {{MMA_f64, 64},
               {MMA_f32 | MMA_tf32, 32},
               {MMA_f16 | MMA_bf16, 16},
               {MMA_f6e2m3fn | MMA_f4e2m1fn, 4}};
  for (size_t i = 0; i < WV_LEN(sizes); i++)
    if (row->operand_types & sizes[i].types) return sizes[i].bits;
  return 8;
}

TEST(gpus_have_units) {
  const TargetInfo *t;
  for (int i = 0; (t = target_at(i)); i++) {
    if (t->vendor != VENDOR_AMD && t->vendor != VENDOR_NVIDIA) continue;
    CHECK(unit_rates(t->name) && unit_latencies(t->name));
    for (int m = 0; m < mma_count(); m++) {
      const MmaInfo *row = mma_at(m);
      if (!target_has_mma(t, row) || unit_matrix_cycles(t, row, bits_of(row)) > 0) continue;
      printf("%s: %s has no time\n", t->name, row->name);
      CHECK(false);
    }
  }
  CHECK(!unit_rates("cpu") && !unit_latencies("cpu"));
}

/* wgmma: n / 2 for k = 16; MFMA: as AMD's calculator says. */
TEST(matrix_instructions_take_time) {
  CHECK_INT(cycles("sm_90a", "wgmma_m64n256k16_f32_bf16", 16), 128);
  CHECK_INT(cycles("sm_90a", "wgmma_m64n64k32_f32_f8", 8), 32);
  CHECK_INT(cycles("sm_80", "mma_m16n8k16_f32_f16", 16), 8);
  CHECK_INT(cycles("gfx942", "F32_16x16x16_F16", 16), 16);
  CHECK_INT(cycles("gfx942", "F32_32x32x8_F16", 16), 32);
  CHECK_INT(cycles("gfx942", "F32_16x16x32_K8_F16", 16), 32); /* two of k = 16 */
  CHECK_INT(cycles("gfx90a", "F32_16x16x16_F16", 16), 32);
  CHECK_INT(cycles("gfx942", "mfma_16x16x4_f32_f32", 32), 32);
  CHECK_INT(cycles("gfx950", "F32_32x32x64_F8F6F4", 8), 64);
  CHECK_INT(cycles("gfx950", "F32_32x32x64_F6F4", 4), 32);
  CHECK_INT(cycles("gfx1201", "wmma12_16x16x16_f32_f8", 8), 8);
  CHECK_INT(cycles("gfx1200", "RDNA4_WAVE32_F32_16x16x16_F16", 16), 16);
  CHECK_INT(cycles("gfx1100", "wmma11_16x16x16_i32_i8", 8), 32);
}

TESTS_MAIN(RUN(rows_are_sane) RUN(cpus_of_hosts) RUN(what_cpus_lack) RUN(spellings) RUN(kinds)
               RUN(random_names) RUN(capabilities) RUN(families)
                   RUN(machines_have_their_matrix_instructions)
                       RUN(public_spellings_of_matrix_instructions)
                           RUN(eight_bit_floats_follow_the_machine) RUN(gpus_have_units)
                               RUN(matrix_instructions_take_time))
