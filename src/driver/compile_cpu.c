/* compile_cpu.c: one lane's program as object code for this machine's CPU. */
#include "backend/cpu/cpu.h"
#include "driver/compile.h"
#include "runtime/cpu/cpu_watch.h"
#include "runtime/llvm/cpu_host.h"

_Static_assert((int)CPU_CODE_GIVEN_UP == (int)CPU_GIVEN_UP, "what compiled code returns");

static void keep_waits(const CpuKernel *code, LaunchValues *values, ArtVariant *out) {
  const Sources *sources = &values->symbols->k->cx->sources;
  Arena *a = values->symbols->arena;
  out->nwaits = code->nwaits < ARTEFACT_WAITS ? code->nwaits : ARTEFACT_WAITS;
  out->waits = ARENA_ARRAY(a, ArtNote, out->nwaits + 1);
  for (int i = 0; i < out->nwaits; i++) {
    Span at = code->waits[i].at;
    out->waits[i] = (ArtNote){at.file ? arena_strdup(a, sources_name(sources, at.file)) : "",
                              (int)at.line, (int)at.col, (int)at.len, code->waits[i].what};
  }
}

static bool fill_variant(const CpuKernel *code, LaunchValues *values, ArtVariant *out) {
  out->entry = code->entry;
  out->listing = code->text;
  out->shared = (int)code->scratch;
  keep_waits(code, values, out);
  for (int i = 0; i < 3; i++) {
    out->block[i] = i ? 1 : code->waves;
    if ((out->grid[i] = launch_value(values, code->grid[i])) < 0) return false;
  }
  return compile_slots(code->slots, code->nslots, values, out);
}

/* A target that was named gives the same code on every machine. */
static LlvmTarget target_of(const LlvmLibrary *l, Arena *a, const CompileOptions *o) {
  const CpuInfo *row = cpu_named(o->machine->name);
  return o->native || !row || !*row->arch ? cpu_host_target(l, a) : cpu_target_of(a, row);
}

static const LlvmLibrary *open_llvm(Kernel *k, Arena *a) {
  const char *error = NULL;
  const LlvmLibrary *llvm = llvm_library_open(a, "CPU targets need", 0, &error);
  if (!llvm) diag_add(&k->cx->diags, DIAG_E0901, k->at, "%s", error);
  return llvm;
}

/* The text, and LLVM's output for it. */
static bool compile_text(Kernel *k, const LlvmLibrary *llvm, LlvmCompile *o, bool fast_math,
                         Arena *a, CpuKernel *code, LlvmCode *object) {
  const char *error = NULL;
  CpuHost host = cpu_host(&o->target.words);
  host.fast_math = fast_math;
  if (!cpu_emit(k, &host, a, code)) return false;
  if (code->large) {
    o->effort = LLVM_LEAST_EFFORT;
    diag_add(&k->cx->diags, DIAG_R0903, k->at,
             "`%s` is compiled without optimisations: the program of a lane is too large", k->name);
  }
  if (llvm_compile(llvm, a, code->text, o, object, &error)) return true;
  return diag_fail(&k->cx->diags, DIAG_E0903, k->at, "`%s`: %s", k->name, error);
}

bool compile_object(Kernel *k, const char *target, bool assembly, bool fast_math, Arena *a,
                    LlvmCode *out) {
  TargetChoice t = target_resolve(&k->cx->diags, target);
  if (!t.machine) return false;
  if (!t.simulated && t.machine->vendor == VENDOR_AMD)
    return compile_amd_object(k, t.machine, assembly, fast_math, a, out);
  if (t.simulated || !cpu_named(t.machine->name))
    return diag_fail(&k->cx->diags, DIAG_E0906, k->at, "`%s` is neither a CPU nor an AMD GPU",
                     target);
  const LlvmLibrary *llvm = open_llvm(k, a);
  if (!llvm) return false;
  CompileOptions options = {.machine = t.machine};
  LlvmCompile o = {.target = target_of(llvm, a, &options), .assembly = assembly};
  return compile_text(k, llvm, &o, fast_math, a, &(CpuKernel){0}, out);
}

bool compile_cpu_object(Kernel *k, const CompileOptions *options, LaunchValues *values,
                        ArtVariant *out) {
  Arena *a = values->symbols->arena;
  Diags *diags = &k->cx->diags;
  const LlvmLibrary *llvm = open_llvm(k, a);
  if (!llvm) return false;
  LlvmCompile o = {.target = target_of(llvm, a, options)};
  CpuKernel code;
  LlvmCode object;
  if (!compile_text(k, llvm, &o, options->fast_math, a, &code, &object)) return false;
  out->llvm_ms = (object.parse + object.optimise + object.emit) * 1e3;
  out->code = object.bytes;
  out->code_bytes = (int)object.size;
  if (fill_variant(&code, values, out)) return true;
  if (!diags->errors)
    diag_add(diags, DIAG_E0601, k->at, "`%s` has more arguments than a launch supports", k->name);
  return false;
}

const char cpu_key_word[] = " processor ";

const char *cpu_key(Arena *a, const CompileOptions *o) {
  const char *error = NULL;
  const LlvmLibrary *llvm = llvm_library_open(a, "CPU targets need", 0, &error);
  if (!llvm) return "no LLVM";
  LlvmTarget t = target_of(llvm, a, o);
  return arena_printf(a, "LLVM %u%s%s %s %s %d", llvm->version, cpu_key_word, t.words.triple, t.cpu,
                      t.words.features, t.words.scalable_bytes);
}

const char *cpu_misfit(Arena *a, const TargetInfo *machine) {
  const char *error = NULL;
  const LlvmLibrary *llvm = llvm_library_open(a, "CPU targets need", 0, &error);
  const CpuInfo *p = cpu_named(machine->name);
  if (!llvm || !p || !*p->arch) return NULL; /* the problem is reported elsewhere */
  LlvmTarget host = cpu_host_target(llvm, a);
  const char *lacks = cpu_lacks(a, &host.words, p);
  if (!lacks) return NULL;
  return arena_printf(a, "this CPU (%s) lacks %s", host.cpu, lacks);
}
