/* test_cpu_rows.c: register tiles of every form, run for every CPU whose code this machine can
 * execute: the same bits as in the simulator.
 *
 *     test_cpu_rows [ROW...]      only these, which must run: used on an emulated machine */
#include "unit/dot_kit.h"

static void fill_numbers(Lab *l, const MmaInfo *row, DType type, DType sums, int steps) {
  int count[] = {row->m * row->k * steps, row->n * row->k * steps, row->m * row->n};
  for (int i = 0; i < 3; i++) {
    DType t = i < 2 ? type : sums;
    int at = lab_tensor(l, t, 1, count[i]);
    for (int e = 0; e < count[i]; e++) {
      int number = (e * 7919 + i * 104729) % 256 - 128; /* the smallest byte is among them */
      double v = dtype_is_float(t) ? number / 16.0 : number;
      put(l, at, e, v);
    }
  }
}

/* All sums are exact. */
static bool block_runs(const LlvmTarget *t, const CpuInfo *p, const MmaInfo *row, DType type) {
  enum { STEPS = 3 };
  Arena *a = arena_new();
  DType sums = sums_of(type);
  const char *text = loop_text(a, row, type, sums, STEPS);
  Lab sim = lab_open(text), cpu = lab_open(text);
  fill_numbers(&sim, row, type, sums, STEPS);
  fill_numbers(&cpu, row, type, sums, STEPS);
  SimOptions o = {.machine = target_find(p->target).machine};
  bool ok = sim_lab(&sim, &o, NULL);
  if (!ok) lab_print_errors(&sim);
  CpuRun r = cpu_run_for(&cpu, t);
  size_t bytes = dtype_bytes(sums, (int64_t)row->m * row->n);
  ok = ok && r.ok && (r.skipped || memcmp(sim.tensors[2].data, cpu.tensors[2].data, bytes) == 0);
  if (!ok) printf("%s of %s on %s differs\n", row->name, dtype_info[type].name, p->target);
  lab_close(&sim);
  lab_close(&cpu);
  arena_free(a);
  return ok;
}

/* Whole blocks and edges: odd sizes, and sizes that do not fill a register of any length. */
static bool form_runs(const LlvmTarget *t, const CpuInfo *p, DotForm form, DType type) {
  static const int shapes[][2] = {{1, 1}, {8, 12}, {5, 7}, {4, 32}, {2, 10}, {16, 31}, {32, 32}};
  Arena *a = arena_new();
  bool ok = true, matrices = dot_info(form)->grain == 16; /* for others such blocks are too large */
  for (size_t s = 0; s < WV_LEN(shapes); s++)
    if (matrices || shapes[s][0] < 16)
      ok &= block_runs(t, p, mma_register_tile(a, form, shapes[s][0], shapes[s][1], 0), type);
  arena_free(a);
  return ok;
}

/* With only the features of the row. */
static bool row_runs(const CpuInfo *p) {
  Arena *a = arena_new();
  LlvmTarget t = cpu_target_of(a, p);
  bool ok = form_runs(&t, p, DOT_tile, DTYPE_f64) && form_runs(&t, p, DOT_tile, DTYPE_i32);
  for (int f = 0; f < DOT_COUNT; f++)
    if (p->tiles >> f & 1) ok &= form_runs(&t, p, (DotForm)f, operands_of((DotForm)f));
  arena_free(a);
  return ok;
}

static bool is_asked(int argc, char **argv, const CpuInfo *p) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], p->target) == 0) return true;
  return argc <= 1;
}

int main(int argc, char **argv) {
  Arena *a = arena_new();
  const LlvmLibrary *llvm = kit_llvm(a);
  LlvmTarget host = llvm ? cpu_host_target(llvm, a) : (LlvmTarget){0};
  int passed = 0, failed = 0;
  for (int i = 0; llvm && cpu_at(i); i++) {
    const CpuInfo *p = cpu_at(i);
    if (!is_asked(argc, argv, p)) continue;
    const char *lacks = cpu_lacks(a, &host.words, p);
    if (lacks && argc <= 1) continue;
    if (lacks) printf("%s: %s lacks %s\n", p->target, host.cpu, lacks);
    bool ok = !lacks && row_runs(p);
    printf("%s %s\n", p->target, ok ? "ran" : "FAILED");
    passed += ok, failed += !ok;
  }
  printf("%d passed, %d failed\n", passed, failed);
  arena_free(a);
  return failed != 0;
}
