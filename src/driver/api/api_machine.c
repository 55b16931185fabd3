/* api_machine.c: which machine runs a kernel: the one that options name, or one that is here. */
#include <string.h>

#include "base/environment/environment.h"
#include "driver/api/api.h"
#include "driver/compile.h"

static wv_machine blank(const char *kind) { return (wv_machine){.kind = kind, .device = -1}; }

/* A CPU that cannot be compiled for evaluates its kernels. */
static wv_machine on_cpu(wv_ctx *cx, const char *target) {
  wv_machine m = blank("cpu");
  m.target = target;
  if (wv_device_count(cx, WV_HOST) == 0)
    m.evaluated =
        "runs on the reference evaluator, which is slow: no libLLVM of version 16 or newer "
        "can be loaded to compile for this CPU (`apt-get install libllvm19`, or "
        "WAVE_LLVM=/path/libLLVM.so)";
  return m;
}

/* The first NVIDIA GPU, even if no target supports it; false: there is none. */
static bool find_nvidia(wv_ctx *cx, wv_machine *out) {
  wv_device_info info;
  *out = blank("cuda");
  if (wv_device_count(cx, WV_CUDA) < 1) return false;
  if (!wv_device_get(cx, (wv_device){WV_CUDA, 0}, &info)) return false;
  out->target = info.target;
  out->device = 0;
  return true;
}

/* The first AMD GPU of a target, or of any that code is generated for; false: there is none. CPUs
 * often contain a small GPU that no target supports. */
static bool find_amd(wv_ctx *cx, const TargetInfo *named, wv_machine *out) {
  wv_device_info info;
  *out = blank("hip");
  for (int i = 0, n = wv_device_count(cx, WV_HIP); i < n; i++) {
    if (!wv_device_get(cx, (wv_device){WV_HIP, i}, &info)) return false;
    if (!backend_serves(info.target) || (named && strcmp(info.target, named->name) != 0)) continue;
    out->target = info.target;
    out->device = i;
    return true;
  }
  return false;
}

/* This machine: its GPU, or its CPU. Calls with tensors elsewhere compile for where they are. */
static wv_machine on_this(wv_ctx *cx) {
  wv_machine m;
  if (!find_nvidia(cx, &m) && !find_amd(cx, NULL, &m)) m = on_cpu(cx, NULL);
  m.anywhere = true;
  return m;
}

/* Without a GPU, code is compiled to be looked at: for the oldest one that is supported. */
static wv_machine on_nvidia(wv_ctx *cx, const TargetInfo *named) {
  wv_machine m;
  bool found = find_nvidia(cx, &m);
  if (named) m.target = named->name;
  else if (!found) m.target = target_find("sm_80").machine->name;
  return m;
}

/* What executes the GPU's code without the GPU, in brackets; "": nothing does. */
static const char *emulation_of(Arena *a, const TargetInfo *named) {
  const char *chip = named ? named->name : "gfx942";
  if (!backend_serves(chip)) return "";
  return arena_printf(a, " (target `emu:%s` executes its machine code on the host)", chip);
}

/* Without such a GPU the kernel is compiled for this machine instead, unless only the code is
 * wanted. False after reporting. */
static bool on_amd(wv_ctx *cx, const wv_machine_options *o, const TargetInfo *named,
                   wv_machine *out) {
  if (find_amd(cx, named, out)) return true;
  if (o->code_only && named && backend_serves(named->name))
    return *out = blank("hip"), out->target = named->name, true;
  Arena *a = cx->cx->arena;
  const char *text = arena_printf(a, "there is no AMD device here to run `%s`", o->target);
  if (o->strict) {
    Diags *diags = &cx->cx->diags;
    Diag *d = diag_add(diags, DIAG_E0601, api_span(cx->cx, o->at), "%s", text);
    return diag_hint(
        diags, d,
        "remove strict=True to compile the kernel for this machine, execute the device's machine "
        "code on the host (target `emu:%s`), or simulate the device: target `sim:%s`",
        named ? named->name : "gfx942", named ? named->name : "gfx942");
  }
  *out = on_this(cx);
  const char *instead = out->target ? arena_printf(a, "`%s`", out->target) : "this machine's CPU";
  out->remark = arena_printf(a, "%s; compiled for %s%s", text, instead, emulation_of(a, named));
  if (named) out->shown = named->name;
  return true;
}

/* `device` counts only if the target names no machine. Its default is "hip", so that one says
 * nothing. */
static TargetKind kind_of(const wv_machine_options *o, const TargetChoice *t) {
  if (t->kind != TARGET_UNKNOWN || !o->device) return t->kind;
  TargetKind kind = target_kind_called(o->device);
  return kind == TARGET_HIP ? TARGET_UNKNOWN : kind;
}

static bool choose(wv_ctx *cx, const wv_machine_options *o, const TargetChoice *t,
                   wv_machine *out) {
  const TargetInfo *named = t->is_kind ? NULL : t->machine ? t->machine : t->stand_in;
  switch (kind_of(o, t)) {
  case TARGET_EVAL: *out = blank("eval"); return true;
  case TARGET_SIM:
    *out = blank("sim"), out->target = arena_strdup(cx->cx->arena, o->target);
    return true;
  case TARGET_CPU: *out = on_cpu(cx, named ? named->name : NULL); return true;
  case TARGET_CUDA: *out = on_nvidia(cx, named); return true;
  case TARGET_HIP: return on_amd(cx, o, named, out);
  case TARGET_EMU:
    *out = blank("cpu"), out->target = arena_strdup(cx->cx->arena, o->target), out->device = 0;
    return true;
  case TARGET_TOY:
  case TARGET_UNKNOWN: break;
  }
  *out = on_this(cx);
  return true;
}

static bool find(wv_ctx *cx, const wv_machine_options *o, wv_machine *out) {
  TargetChoice t = o->target ? target_find(o->target) : (TargetChoice){0};
  if (o->target && *o->target && t.kind == TARGET_UNKNOWN)
    return target_unknown(&cx->cx->diags, api_span(cx->cx, o->at), o->target), false;
  if (!out) return true;
  if (!choose(cx, o, &t, out)) return false;
  if (!out->shown) out->shown = out->target;
  return true;
}

bool wv_machine_find(wv_ctx *cx, const wv_machine_options *o, wv_machine *out) {
  API_CHANGES(cx, false);
  static const wv_machine_options plain;
  return find(cx, o ? o : &plain, out);
}

static bool is_kind(const wv_machine *m, const char *kind) { return strcmp(m->kind, kind) == 0; }

/* Tensors are on another kind of device, or this is a device itself. */
static bool run_on(wv_ctx *cx, const wv_machine *m, const char *kind, wv_machine *out) {
  bool own = is_kind(m, kind);
  if (is_kind(m, "eval") || is_kind(m, "sim")) return *out = *m, true;
  if (!own && !m->anywhere) return false;
  *out = target_kind_called(kind) == TARGET_CPU ? on_cpu(cx, NULL) : blank(kind);
  out->kind = own ? m->kind : arena_strdup(cx->cx->arena, kind);
  out->target = own && m->target ? m->target : out->kind;
  out->device = own && !is_kind(m, "cpu") ? m->device : 0;
  return true;
}

bool wv_machine_on(wv_ctx *cx, const wv_machine *m, const char *kind, wv_machine *out) {
  API_CHANGES(cx, false);
  if (!api_expected(cx, m && m->kind, "machine") || !api_text(cx, kind, "kind of device"))
    return false;
  return run_on(cx, m, kind, out);
}

const char *wv_compile_fallback(wv_kernel *k, const char *target, bool strict) {
  API_KERNEL_READS(k, NULL);
  const Diag *first = NULL;
  if (strict || !target || target_find(target).kind != TARGET_CPU) return NULL;
  for (const Diag *d = k->k->cx->diags.first; d; d = d->next) {
    if (diag_info[d->code].severity != SEVERITY_error) continue;
    if (d->code != DIAG_E0601) return NULL;
    if (!first) first = d;
  }
  if (!first) return NULL;
  return arena_printf(k->k->cx->arena, "`%s` runs on the reference evaluator, which is slow: %s",
                      k->k->name, first->text);
}

const char *wv_target_device(const char *name) {
  API_PLAIN;
  static const char *const names[] = {
      [TARGET_EVAL] = "eval", [TARGET_SIM] = "sim", [TARGET_CPU] = "cpu", [TARGET_CUDA] = "cuda",
      [TARGET_HIP] = "hip",   [TARGET_EMU] = "cpu", [TARGET_TOY] = NULL};
  return names[target_find(name ? name : "").kind];
}

const char *wv_target_default(wv_ctx *cx, const char *gpu) {
  API_CHANGES(cx, NULL);
  const char *named = environment_text(VARIABLE_DEFAULT_ARCH);
  if (!named && gpu && *gpu) named = gpu;
  if (named) return arena_strdup(cx->cx->arena, named);
  wv_machine here = on_this(cx);
  return here.target ? here.target : "cpu";
}

const char *wv_target_family(const char *name) {
  API_PLAIN;
  return target_family(name ? name : "");
}
