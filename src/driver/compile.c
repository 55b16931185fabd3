/* compile.c: a kernel and the facts of a variant become code: passes, then a backend. */
#include "driver/compile.h"

#include <string.h>

#include "backend/ptx/ptx.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "runtime/device.h"

/* ---- NVIDIA ---- */

/* Bits are copied, whatever they mean: the driver's codes for unsigned integers. */
static int map_element(DType d) {
  int bits = dtype_memory_bits(d);
  return bits == 64 ? 4 : bits == 32 ? 2 : bits == 16 ? 1 : 0;
}

static void add_clip(ArtMap *m, int clip) {
  m->clip = clip;
  for (int i = 0; i < 2; i++, m->rank++) m->dim[m->rank] = m->dim[clip], m->box[m->rank] = 1;
}

static ArtMap map_of(const PtxArg *a) {
  ArtMap m = {.param = a->param, .rank = a->rank, .swizzle = a->swizzle};
  m.bytes = dtype_memory_bits(a->dtype) / 8;
  m.element = map_element(a->dtype);
  for (int i = 0; i < a->rank; i++) {
    m.dim[i] = a->rank - 1 - i; /* the driver counts from the innermost */
    if (!a->im2col) m.box[i] = (int)a->box[a->rank - 1 - i];
    m.step[i] = 1;
  }
  m.joined = a->joined ? a->rank - 1 - a->joined : 0;
  if (a->clip >= 0) add_clip(&m, a->rank - 1 - a->clip);
  if (!a->im2col) return m;
  m.im2col = 1;
  m.box[0] = (int)a->box[1], m.box[1] = (int)a->box[0];
  for (int i = 1; i < a->rank - 1; i++) {
    int from = a->rank - 2 - i;
    m.lowest[i] = (int)a->lowest[from], m.highest[i] = (int)a->highest[from];
    m.step[i] = (int)a->step[from];
  }
  return m;
}

static bool add_arg(ArtVariant *v, LaunchValues *values, const PtxArg *from) {
  static const ArtArgKind kinds[] = {
      [PTX_POINTER] = ART_POINTER, [PTX_SCALAR] = ART_SCALAR, [PTX_VALUE] = ART_VALUE,
      [PTX_MAGIC] = ART_MAGIC,     [PTX_SHIFT] = ART_SHIFT,   [PTX_TENSOR_MAP] = ART_MAP};
  ArtArg *a = &v->args[v->nargs++];
  *a = (ArtArg){.kind = kinds[from->kind], .param = from->param, .bytes = from->bytes};
  if (from->kind == PTX_POINTER && launch_is_workspace(values, from->param))
    return launch_add_workspace(values, from->param, v, a);
  if (from->value) return (a->value = launch_value(values, from->value)) >= 0;
  if (a->kind != ART_MAP) return true;
  a->value = v->nmaps;
  if (v->nmaps == ARTEFACT_MAPS) return false;
  v->maps[v->nmaps++] = map_of(from);
  return true;
}

static void take_cluster(const Kernel *k, ArtVariant *out) {
  const LaunchSpec *launch = kernel_launch(k);
  for (int i = 0; i < 3; i++) {
    int64_t n;
    if (launch->cluster[i] && sym_is_int(launch->cluster[i], &n)) out->cluster[i] = (int)n;
  }
}

static bool emit_ptx(Kernel *k, const CompileOptions *o, LaunchValues *values, ArtVariant *out) {
  Arena *a = values->symbols->arena;
  PtxKernel ptx;
  PtxOptions options = {.fast_math = o->fast_math};
  if (!ptx_emit(k, o->machine, &options, a, &ptx)) return false;
  out->entry = ptx.entry;
  out->code = ptx.text;
  out->code_bytes = (int)strlen(ptx.text);
  out->shared = ptx.shared;
  out->args = ARENA_ARRAY(a, ArtArg, ptx.nargs + 1);
  out->maps = ARENA_ARRAY(a, ArtMap, ARTEFACT_MAPS);
  bool ok = true;
  take_cluster(k, out);
  for (int i = 0; i < 3 && ok; i++) {
    int64_t threads;
    ok = (out->grid[i] = launch_value(values, ptx.grid[i])) >= 0;
    if (ok && !sym_is_int(ptx.block[i], &threads)) ok = false;
    if (ok) out->block[i] = (int)threads;
  }
  for (int i = 0; i < ptx.nargs && ok; i++)
    ok = ptx.nargs <= ARTEFACT_ARGS && add_arg(out, values, &ptx.args[i]);
  if (ok && artefact_set_offsets(out)) return true;
  if (!k->cx->diags.errors)
    diag_add(&k->cx->diags, DIAG_E0601, k->at, "`%s` has more arguments than a launch supports",
             k->name);
  return false;
}

static const Backend backends[] = {
    {VENDOR_NVIDIA, FEATURE_NONE, DEVICE_CUDA, emit_ptx, NULL, NULL},
    {VENDOR_AMD, FEATURE_NONE, DEVICE_HIP, compile_amd, compile_amd_key, NULL},
    {VENDOR_HOST, FEATURE_REGISTER_TILES, DEVICE_HOST, compile_cpu_object, cpu_key, cpu_misfit},
};

const Backend *backend_for(const TargetInfo *t) {
  for (size_t i = 0; i < WV_LEN(backends); i++)
    if (backends[i].vendor == t->vendor && target_has(t, backends[i].needs)) return &backends[i];
  return NULL;
}

/* The executor of machine code takes the host's tensors. */
const Backend *backend_of(const CompileOptions *o) {
  static const Backend executor = {VENDOR_AMD,  FEATURE_NONE,    DEVICE_HOST,
                                   compile_amd, compile_amd_key, NULL};
  return o->emulated ? &executor : backend_for(o->machine);
}

bool backend_serves(const char *target) {
  const TargetInfo *machine = target ? target_find(target).machine : NULL;
  return machine && backend_for(machine);
}

/* ---- the whole way ---- */

/* A loop that continues until memory changes waits for another workgroup to change it. */
static bool waits_for_others(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (op->kind != OP_load || !op_has(op, ATTR_volatile) || memory_is_scratch(op->args[0]))
      continue;
    for (const Op *outer = op->parent->owner; outer; outer = outer->parent->owner)
      if (outer->kind == OP_while) return true;
  }
  return false;
}

static const char last_of_signature[] = "split";

bool compile_signature(Kernel *k, const CompileOptions *o) {
  PassOptions p = o->passes;
  p.start_after = o->start_after, p.stop_after = last_of_signature;
  p.target = o->machine->name;
  p.time = false;
  return passes_run(k, &p);
}

/* A lane's program is what its author wrote, in terms of what the machine has. */
static bool lower(Kernel *k, const CompileOptions *o) {
  PassOptions p = o->passes;
  bool is_lowered = k->level == LEVEL_THREAD && !o->start_after;
  p.passes = is_lowered ? "legalise" : NULL, p.stop_after = NULL;
  p.start_after = is_lowered || o->start_after ? o->start_after : last_of_signature;
  p.target = o->machine->name;
  if (!passes_run(k, &p)) return false;
  if (k->level == LEVEL_THREAD) return true;
  return diag_fail(&k->cx->diags, DIAG_E0601, k->at, "`%s` is not yet supported on target `%s`",
                   k->name, o->machine->name);
}

static void remark_copies(Kernel *k, const Variant *v) {
  for (int i = 0; i < kernel_given(k); i++)
    if (v->repacked >> i & 1)
      diag_add(&k->cx->diags, DIAG_R0624, k->params.at[i].at.line ? k->params.at[i].at : k->at,
               "`%s` is copied before `%s` runs if its rows do not begin at multiples of 16 bytes",
               k->params.at[i].name, k->name);
}

bool compile_variant(const LaunchSymbols *s, const Variant *v, const CompileOptions *o,
                     ArtVariant *out) {
  const Diags *diags = &s->k->cx->diags;
  const Diag *before = diags->last;
  LaunchValues values = {.symbols = s};
  Kernel *k = variant_kernel(s->k, v);
  out->workspace = -1;
  remark_copies(k, v);
  bool ok = lower(k, o) && backend_of(o)->emit(k, o, &values, out) &&
            launch_values_program(&values, &out->program);
  if (ok) {
    StrBuf text = {.arena = s->arena};
    ir_print(&text, k);
    out->ir = sb_text(&text);
    out->together = waits_for_others(k);
    remarks_keep(s->arena, diags, before, out);
    out->compiled = true;
  }
  kernel_free(k);
  return ok;
}
