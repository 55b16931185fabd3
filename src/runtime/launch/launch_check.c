/* launch_check.c: do these arguments fit the kernel? A fast check first; on failure, the report
 * says which argument it was, what was expected and what was found. */
#include <inttypes.h>

#include "runtime/launch/launch.h"

DeviceReport launch_report(const Launcher *l, Diags *diags, wv_place at) {
  Span span = {0};
  if (at.file && at.line)
    span = (Span){sources_file(diags->sources, at.file, NULL), at.line, at.col, at.len};
  return (DeviceReport){diags, span, l->art->name};
}

/* ---- slots ---- */
static void fill_strides(const wv_tensor *t, int64_t *to) {
  uint64_t stride = 1; /* it may wrap for a tensor that cannot exist */
  for (int d = t->rank - 1; d >= 0; d--) {
    to[d] = t->strides ? t->strides[d] : (int64_t)stride;
    stride *= (uint64_t)t->shape[d];
  }
}

static bool tensor_fits(const Launcher *l, const ArtParam *p, const wv_tensor *t) {
  return t && t->rank == p->rank && (t->shape || !t->rank) && (unsigned)t->dtype < 63 &&
         (p->accepts >> t->dtype & 1) && t->device.kind == l->art->device_kind &&
         (unsigned)t->device.index < DEVICE_MOST;
}

static bool fill_tensor(const wv_tensor *t, const ArtParam *p, int64_t *slots) {
  int64_t *to = slots + p->slot;
  *to++ = (int64_t)((uintptr_t)t->data % ARTEFACT_ALIGN);
  bool exists = t->data != NULL, empty = false;
  for (int d = 0; d < t->rank; d++) {
    to[d] = t->shape[d];
    exists &= t->shape[d] >= 0;
    empty |= t->shape[d] == 0;
  }
  fill_strides(t, to + t->rank);
  return exists || empty;
}

bool launch_fill(const Launcher *l, const wv_launch_arg *args, int nargs, int64_t *slots,
                 int *device) {
  const Artefact *art = l->art;
  *device = -1;
  for (int i = 0; i < nargs; i++) {
    const ArtParam *p = &art->params[i];
    const wv_tensor *t = args[i].tensor;
    if (p->rank < 0) {
      slots[p->slot] = launch_scalar_slot(p, &args[i]);
      if (t || !launch_scalar_is_valid(p, &args[i])) return false;
      if (p->not_negative && slots[p->slot] < 0) return false;
      continue;
    }
    if (!tensor_fits(l, p, t) || !fill_tensor(t, p, slots)) return false;
    if (*device < 0) *device = t->device.index;
    if (*device != t->device.index) return false;
  }
  if (*device < 0) *device = 0;
  return true;
}

/* ---- explaining ---- */

static const char *device_name(int kind) {
  const DeviceKind *k = device_kind(kind);
  return k ? k->name : kind == DEVICE_HOST ? "cpu" : "an unknown kind of device";
}

static bool wrong(const Launcher *l, Diags *diags, int i, const char *fmt, ...) WV_PRINTF(4, 5);
static bool wrong(const Launcher *l, Diags *diags, int i, const char *fmt, ...) {
  DeviceReport r = launch_report(l, diags, l->param_at ? l->param_at[i] : l->at);
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(diags->arena, fmt, ap);
  va_end(ap);
  return diag_fail(diags, DIAG_E0702, r.at, "argument `%s` %s", l->art->params[i].name, text);
}

static bool explain_tensor(const Launcher *l, Diags *diags, int i, const wv_tensor *t) {
  const ArtParam *p = &l->art->params[i];
  if (!t) return wrong(l, diags, i, "is not a tensor, expected %s", p->type);
  if (t->rank != p->rank)
    return wrong(l, diags, i, "has rank %d, expected %d: %s", t->rank, p->rank, p->type);
  if (t->rank && !t->shape) return wrong(l, diags, i, "has no shape, expected %s", p->type);
  if ((unsigned)t->dtype >= 63 || !(p->accepts >> t->dtype & 1)) {
    const char *found = wv_dtype_name(t->dtype, NULL, NULL);
    return wrong(l, diags, i, "has dtype %s, expected %s", found ? found : "an unknown dtype",
                 p->type);
  }
  if (t->device.kind != l->art->device_kind)
    return wrong(l, diags, i, "is on `%s`, expected `%s`", device_name(t->device.kind),
                 device_name(l->art->device_kind));
  if ((unsigned)t->device.index >= DEVICE_MOST)
    return wrong(l, diags, i, "is on device %d; the last usable device is %d", t->device.index,
                 DEVICE_MOST - 1);
  bool empty = false;
  for (int d = 0; d < t->rank; d++) {
    if (t->shape[d] < 0)
      return wrong(l, diags, i, "has invalid size %" PRId64 " along dim %d", t->shape[d], d);
    empty |= t->shape[d] == 0;
  }
  return t->data || empty || wrong(l, diags, i, "has a null data pointer");
}

bool launch_explain_args(const Launcher *l, Diags *diags, const wv_launch_arg *args, int nargs) {
  const Artefact *art = l->art;
  int device = -1;
  if (nargs != art->ngiven) {
    DeviceReport r = launch_report(l, diags, l->at);
    return diag_fail(diags, DIAG_E0702, r.at, "`%s` got %d arguments, expected %d", art->name,
                     nargs, art->ngiven);
  }
  for (int i = 0; i < nargs; i++) {
    const ArtParam *p = &art->params[i];
    const wv_tensor *t = args[i].tensor;
    if (p->rank < 0 && t) return wrong(l, diags, i, "is a tensor, expected a number: %s", p->type);
    if (p->rank < 0 && !launch_scalar_is_valid(p, &args[i]))
      return wrong(l, diags, i, "is %" PRId64 ", which is not a valid %s", args[i].integer,
                   p->type);
    if (p->rank < 0 && p->not_negative && launch_scalar_slot(p, &args[i]) < 0)
      return wrong(l, diags, i, "is %" PRId64 ", but the symbol that it defines is not negative",
                   launch_scalar_slot(p, &args[i]));
    if (p->rank < 0) continue;
    if (!explain_tensor(l, diags, i, t)) return false;
    if (device < 0) device = t->device.index;
    if (device != t->device.index)
      return wrong(l, diags, i, "is on device %d, but earlier tensors are on device %d",
                   t->device.index, device);
  }
  WV_BUG("arguments that fit were refused");
}

/* ---- the signature's program ---- */

static Span assumption_place(const Launcher *l, Diags *diags, int i) {
  return launch_report(l, diags, l->assumption_at ? l->assumption_at[i] : l->at).at;
}

/* The first that does not hold; -1: all hold. */
static int broken_assumption(const Artefact *art, LaunchRun *signature) {
  for (int i = 0; i < art->nassumptions; i++) {
    LaunchValue v = launch_expr_result(signature, art->assumptions[i].value);
    if (v.undefined || !v.value) return i;
  }
  return -1;
}

bool launch_check(const Launcher *l, Diags *diags, LaunchRun *signature) {
  const Artefact *art = l->art;
  for (int i = 0; i < art->nsizes; i++) {
    const ArtSize *s = &art->sizes[i];
    LaunchValue v = launch_expr_result(signature, s->value);
    int64_t found = signature->vars[art->params[s->param].slot + 1 + s->dim];
    if (v.undefined)
      return wrong(l, diags, s->param,
                   "has size %" PRId64 " along dim %d; `%s` is not an integer for these sizes",
                   found, s->dim, s->text);
    if (v.value == found) continue;
    wrong(l, diags, s->param, "has size %" PRId64 " along `%s`, expected %" PRId64, found, s->text,
          v.value);
    diag_hint_size(diags, diags->last, art->params[s->param].rank, s->is_given);
    return false;
  }
  int broken = art->fallback < art->nvariants ? -1 : broken_assumption(art, signature);
  if (broken < 0) return true;
  return diag_fail(diags, DIAG_E0709, assumption_place(l, diags, broken),
                   "the assumption `%s` does not hold for these arguments",
                   art->assumptions[broken].text);
}

void launch_tell_fallback(Launcher *l, Diags *diags, LaunchRun *signature) {
  int broken = broken_assumption(l->art, signature);
  if (broken < 0 || atomic_exchange(&l->told, true)) return;
  diag_add(diags, DIAG_R0701, assumption_place(l, diags, broken),
           "the assumption `%s` does not hold for these arguments: `%s` runs code compiled without "
           "assumptions",
           l->art->assumptions[broken].text, l->art->name);
}
