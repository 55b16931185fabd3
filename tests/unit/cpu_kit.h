/* cpu_kit.h: one-lane thread kernels run twice: by the simulator, and as machine code.
 *
 *     Lab l = lab_open("thread kernel ...");  ... lab_tensor(&l, ...) ...
 *     CpuRun r = cpu_run(&l);                    the same arguments, after lab_sim(&l)
 *
 * Without a libLLVM on the machine every test here passes with a line that says so. */
#ifndef WV_CPU_KIT_H
#define WV_CPU_KIT_H

#include <math.h>

#include "backend/cpu/cpu.h"
#include "runtime/cpu/cpu_together.h"
#include "runtime/llvm/cpu_host.h"
#include "runtime/llvm/cpu_object.h"
#include "unit/sim_kit.h"

static inline const LlvmLibrary *kit_llvm(Arena *a) {
  const char *error = NULL;
  const LlvmLibrary *l = llvm_library_open(a, "CPU targets need", 0, &error);
  if (!l) printf("skipped: %s\n", error);
  return l;
}

/* ---- values that a launch computes ---- */

typedef struct KitEnv {
  SymBinding at[128];
  int n;
} KitEnv;

static inline void env_put(KitEnv *e, Lab *l, const char *name, int64_t v) {
  for (int nonneg = 0; nonneg < 2; nonneg++)
    e->at[e->n++] = (SymBinding){sym_symbol(l->cx->sym, name, nonneg), sym_int(l->cx->sym, v)};
}

static inline KitEnv env_of(Lab *l) {
  KitEnv e = {.n = 0};
  for (int i = 0; i < l->k->constraints.n; i++) {
    const Constraint *c = &l->k->constraints.at[i];
    int64_t v;
    if (c->kind == CONSTRAINT_bind && sym_is_int(c->bind.value, &v))
      env_put(&e, l, sym_name(c->bind.symbol), v);
  }
  for (int i = 0; i < l->nargs; i++) {
    const Type *t = l->k->body->args[i]->type;
    for (int d = 0; t->kind == TYPE_mem && d < t->rank; d++)
      if (sym_name(t->dims[d])) env_put(&e, l, sym_name(t->dims[d]), l->tensors[i].shape[d]);
    if (l->k->params.at[i].binds)
      env_put(&e, l, sym_name(l->k->params.at[i].binds), l->args[i].integer);
  }
  return e;
}

static inline int64_t env_value(const KitEnv *e, const Sym *s) {
  int64_t v = 0;
  if (!sym_eval(s, e->at, e->n, &v)) printf("an expression has no value\n");
  return v;
}

static inline uint64_t slot_value(Lab *l, const KitEnv *e, const LlvmSlot *s) {
  int64_t d = s->value ? env_value(e, s->value) : 1, shift = 0;
  while ((INT64_C(1) << shift) < d) shift++;
  switch (s->kind) {
  case LLVM_POINTER: return (uint64_t)(uintptr_t)l->tensors[s->param].data;
  case LLVM_SCALAR:
    return dtype_is_float(s->dtype) ? dtype_encode(s->dtype, l->args[s->param].number)
                                    : (uint64_t)l->args[s->param].integer;
  case LLVM_VALUE: return (uint64_t)d;
  case LLVM_MAGIC:
    return (uint64_t)((((unsigned __int128)1 << (32 + shift)) + (unsigned __int128)d - 1) /
                          (unsigned __int128)d -
                      ((unsigned __int128)1 << 32));
  case LLVM_SHIFT: break;
  }
  return (uint64_t)shift;
}

/* ---- running ---- */

typedef struct CpuRun {
  bool skipped, ok;
  int result; /* as cpu_pool_run */
  const CpuWait *waits;
  const char *text; /* LLVM IR, in the context's arena; NULL: none */
} CpuRun;

/* In order by one thread, or all at the same time if workgroups wait for each other. */
static inline int kit_run_task(const CpuTask *task) {
  if (task->waves > 1 && task->count <= 16) return cpu_run_together(task, (int)task->count);
  CpuPool *pool = cpu_pool_new(1);
  int result = cpu_pool_run(pool, task);
  cpu_pool_free(pool);
  return result;
}

/* For a CPU, NULL: this one; with another description of the host, NULL: the real one. */
static inline CpuRun cpu_run_as(Lab *l, const LlvmTarget *given, const CpuHost *described) {
  Arena *a = l->cx->arena;
  const LlvmLibrary *llvm = kit_llvm(a);
  CpuRun r = {.skipped = !llvm, .ok = true};
  if (!llvm) return r;
  r.ok = false;
  LlvmCompile o = {.target = given ? *given : cpu_host_target(llvm, a)};
  CpuHost host = described ? *described : cpu_host(&o.target.words);
  CpuKernel k;
  if (!l->k || !cpu_emit(l->k, &host, a, &k)) return lab_print_errors(l), r;
  r.text = k.text;
  if (k.large) o.effort = LLVM_LEAST_EFFORT;
  LlvmCode code;
  const char *error = NULL;
  CpuImage *image = NULL;
  if (!llvm_compile(llvm, a, k.text, &o, &code, &error) ||
      !(image = cpu_object_load(code.bytes, code.size, a, &error))) {
    printf("%s\n%s\n", error, k.text);
    return r;
  }
  CpuTask task = {.waves = k.waves, .scratch = (size_t)k.scratch, .count = 1};
  *(void **)&task.run = cpu_object_symbol(image, k.entry);
  KitEnv env = env_of(l);
  uint64_t *slots = ARENA_ARRAY(a, uint64_t, k.nslots + 1);
  for (int i = 0; i < k.nslots; i++) slots[i] = slot_value(l, &env, &k.slots[i]);
  task.args = slots;
  for (int i = 0; i < 3; i++) task.count *= env_value(&env, k.grid[i]);
  r.result = kit_run_task(&task);
  r.waits = k.waits;
  cpu_object_unload(image);
  r.ok = r.result == CPU_DONE;
  return r;
}

static inline CpuRun cpu_run_for(Lab *l, const LlvmTarget *t) { return cpu_run_as(l, t, NULL); }
static inline CpuRun cpu_run(Lab *l) { return cpu_run_as(l, NULL, NULL); }

/* Equal bits, or both NaN, or within `ulps` steps of the type of f32. */
static inline bool kit_close(double x, double y, double tolerance) {
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  return x == y || fabs(x - y) <= tolerance * fmax(fabs(x), fabs(y));
}

/* Runs both ways on the same arguments; `tolerance` is relative, 0: equal. */
static inline bool cpu_agrees(const char *text, void (*fill)(Lab *l), double tolerance) {
  Lab sim = lab_open(text), cpu = lab_open(text);
  if (!sim.k || !cpu.k) return false;
  fill(&sim);
  fill(&cpu);
  SimOptions o = {.machine = target_find("cpu").machine};
  CpuRun r = {0};
  bool ok = sim_lab(&sim, &o, NULL);
  if (!ok) lab_print_errors(&sim);
  if (ok) r = cpu_run(&cpu), ok = r.ok;
  for (int t = 0; ok && !r.skipped && t < sim.nargs; t++)
    for (int64_t e = 0; ok && sim.args[t].buffer && e < lab_count(&sim.tensors[t]); e++) {
      ok = kit_close(get(&sim, t, e), get(&cpu, t, e), tolerance);
      if (!ok)
        printf("argument %d, element %lld: %.17g, expected %.17g\n%s", t, (long long)e,
               get(&cpu, t, e), get(&sim, t, e), r.text ? r.text : "");
    }
  lab_close(&sim);
  lab_close(&cpu);
  return ok;
}

#endif
