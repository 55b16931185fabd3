/* launch.c: the general path of a call; launch_again.c is the fast path for a call like the last
 * one. */
#include "runtime/launch/launch.h"

#include <string.h>

enum { WORKSPACE_MOST = 1 << 30 }; /* bytes: more is a mistake */

/* ---- derived arguments ---- */

uint32_t launch_shift(int64_t divisor) {
  uint32_t n = 0;
  if (divisor > INT64_C(1) << 32) return 33; /* dividends are below 2**32: magic 0 gives 0 */
  while (n < 32 && (INT64_C(1) << n) < divisor) n++;
  return n;
}

uint32_t launch_magic(int64_t divisor) {
  if (divisor < 1 || divisor > INT64_C(1) << 32) return 0;
  uint64_t d = (uint64_t)divisor, over = ((UINT64_C(1) << launch_shift(divisor)) - d) << 32;
  return (uint32_t)(over / d + (over % d != 0));
}

static void put_number(unsigned char *to, int64_t v, int bytes) {
  int32_t narrow = (int32_t)v;
  if (bytes == 8) memcpy(to, &v, 8);
  else memcpy(to, &narrow, 4);
}

static bool put_value(LaunchPlan *p, const ArtArg *a, const LaunchValue *v) {
  unsigned char *to = p->args + a->offset;
  switch (a->kind) {
  case ART_VALUE:
    put_number(to, v->value, a->bytes);
    return !v->undefined && (a->bytes == 8 || v->value == (int32_t)v->value);
  case ART_MAGIC: put_number(to, launch_magic(v->value), a->bytes); return !v->undefined;
  case ART_SHIFT: put_number(to, launch_shift(v->value), a->bytes); return !v->undefined;
  case ART_WORKSPACE: /* NULL: the caller passes the memory */
    put_number(to, (int64_t)(intptr_t)(p->workspace ? p->workspace + v->value : NULL), a->bytes);
    return !v->undefined;
  case ART_POINTER:
  case ART_SCALAR:
  case ART_MAP:
  case ART_ARG_KINDS: break;
  }
  return true;
}

/* ---- planning ---- */

static bool refuse_grid(const Launcher *l, Diags *diags, const int64_t *grid) {
  const int64_t *most = l->device->kind->grid_most, threads = l->device->kind->threads_most;
  DeviceReport r = launch_report(l, diags, l->at);
  Diag *d = diag_add(
      diags, DIAG_E0905, r.at,
      "`%s` needs a grid of (%lld, %lld, %lld) workgroups; the device supports at most (%lld, "
      "%lld, %lld), and only whole clusters",
      l->art->name, (long long)grid[0], (long long)grid[1], (long long)grid[2], (long long)most[0],
      (long long)most[1], (long long)most[2]);
  if (threads)
    diag_note(diags, d, (Span){0}, "it supports at most %lld threads along a dimension",
              (long long)threads);
  return false;
}

static bool plan_grid(const Launcher *l, Diags *diags, const ArtVariant *v,
                      const LaunchValue *values, LaunchPlan *p) {
  const DeviceKind *kind = l->device->kind;
  int64_t grid[3];
  bool fits = true;
  p->is_empty = false;
  for (int i = 0; i < 3; i++) {
    const LaunchValue *n = &values[v->grid[i]];
    grid[i] = n->undefined ? -1 : n->value;
    p->is_empty |= grid[i] == 0;
    fits &= grid[i] >= 0 && grid[i] <= kind->grid_most[i];
    if (kind->threads_most) fits &= grid[i] <= kind->threads_most / v->block[i];
    if (v->cluster[i] > 1) fits &= grid[i] % v->cluster[i] == 0;
  }
  if (!fits && !p->is_empty) return refuse_grid(l, diags, grid);
  for (int i = 0; i < 3; i++) p->grid[i] = p->is_empty ? 0 : (unsigned)grid[i];
  return true;
}

static bool plan_values(const Launcher *l, Diags *diags, const ArtVariant *v,
                        const LaunchValue *values, LaunchPlan *p) {
  for (int i = 0; i < v->nargs; i++) {
    const ArtArg *a = &v->args[i];
    bool derived = a->kind == ART_VALUE || a->kind == ART_MAGIC || a->kind == ART_SHIFT ||
                   a->kind == ART_WORKSPACE;
    if (!derived || put_value(p, a, &values[a->value])) continue;
    DeviceReport r = launch_report(l, diags, l->at);
    return diag_fail(diags, DIAG_E0710, r.at, "an expression in `%s` has no value for these sizes",
                     l->art->name);
  }
  return true;
}

static int encode_map(const Launcher *l, const ArtVariant *v, const ArtArg *a, void *address,
                      LaunchPlan *p, bool changed) {
  const ArtMap *m = &v->maps[a->value];
  const ArtParam *param = &l->art->params[m->param];
  const int64_t *sizes = &p->slot[param->slot + 1];
  p->mapped[a->value] = address;
  return l->device->kind->encode(l->device, p->device, m, p->args + a->offset, address, sizes,
                                 sizes + param->rank, changed);
}

/* The first of these variants whose guard holds; the last of those that are not aliased has none. */
static int first_fitting(const Launcher *l, LaunchRun *signature, bool aliased) {
  const Artefact *art = l->art;
  for (int i = 0; i < art->nvariants; i++) {
    const ArtVariant *v = &art->variant[i];
    if (!v->aliased != !aliased || (v->repacked && !l->repack)) continue;
    if (v->guard < 0) return i;
    LaunchValue holds = launch_expr_result(signature, v->guard);
    if (!holds.undefined && holds.value) return i;
  }
  return -1;
}

static int choose_variant(const Launcher *l, const LaunchCall *c, LaunchRun *signature) {
  int aliased = launch_is_aliased(l->art, c->args) ? first_fitting(l, signature, true) : -1;
  return aliased >= 0 ? aliased : first_fitting(l, signature, false);
}

bool launch_refuse_capture(const Launcher *l, Diags *diags, const char *facts, void *stream) {
  if (!l->device->kind->is_captured(l->device, stream)) return true;
  DeviceReport r = launch_report(l, diags, l->at);
  Diag *d = diag_add(diags, DIAG_E0904, r.at,
                     "`%s` is not ready for launches like this one (%s), and the stream is being "
                     "captured",
                     l->art->name, *facts ? facts : "any tensors");
  return diag_hint(diags, d, "launch it once with the same arguments before the capture");
}

static bool get_code(Launcher *l, Diags *diags, int variant, void *stream, LaunchPlan *p) {
  _Atomic(DeviceCode *) *code = &l->code[variant][p->device];
  p->code = atomic_load_explicit(code, memory_order_acquire);
  if (p->code) return true;
  if (!l->prepare(l, variant, p->device, stream, diags)) return false;
  p->code = atomic_load_explicit(code, memory_order_acquire);
  return p->code != NULL;
}

/* A kernel that arrived with decisions made accepts only the tensors they were made for. */
static bool refuse_variants(const Launcher *l, Diags *diags) {
  DeviceReport r = launch_report(l, diags, l->at);
  return diag_fail(diags, DIAG_E0905, r.at, "`%s` was compiled only for these tensors: %s",
                   l->art->name, l->art->variant[l->art->nvariants - 1].facts);
}

/* Sizes of what the caller does not pass follow from the others; it is row-major. */
static void fill_own(const Launcher *l, int given, LaunchRun *signature, int64_t *slots) {
  const Artefact *art = l->art;
  for (int i = 0; i < art->nsizes; i++) {
    const ArtSize *s = &art->sizes[i];
    LaunchValue v = {0};
    if (s->param >= given) v = launch_expr_result(signature, s->value);
    if (s->param >= given && !v.undefined) slots[art->params[s->param].slot + 1 + s->dim] = v.value;
  }
  for (int i = given; i < art->nparams; i++) {
    const ArtParam *p = &art->params[i];
    uint64_t stride = 1;
    slots[p->slot] = 0; /* blocks are aligned */
    for (int d = p->rank - 1; d >= 0; d--) {
      slots[p->slot + 1 + p->rank + d] = (int64_t)stride;
      stride *= (uint64_t)slots[p->slot + 1 + d];
    }
  }
}

static bool plan_workspace(Launcher *l, Diags *diags, const LaunchCall *c, const LaunchValue *bytes,
                           LaunchPlan *p) {
  if (!bytes->undefined && bytes->value >= 0 && bytes->value <= WORKSPACE_MOST) {
    p->workspace = launch_workspace(l, diags, p->device, c->stream, bytes->value);
    return p->workspace != NULL;
  }
  DeviceReport r = launch_report(l, diags, l->at);
  return diag_fail(diags, DIAG_E0710, r.at, "the workspace of `%s` has no size for these arguments",
                   l->art->name);
}

/* Everything that does not depend on addresses and scalars; p has slots and device. */
static bool make_plan(Launcher *l, Diags *diags, const LaunchCall *c, LaunchPlan *p) {
  LaunchValue values[LAUNCH_VALUES];
  LaunchRun signature;
  launch_expr_open(&signature, &l->art->signature, p->slot);
  if (c->nargs < l->art->nparams) fill_own(l, c->nargs, &signature, p->slot);
  if (!launch_check(l, diags, &signature)) return false;
  int variant = choose_variant(l, c, &signature);
  if (variant < 0) return refuse_variants(l, diags);
  p->repacked = 0;
  if (l->art->variant[variant].repacked) launch_plan_copies(l, &l->art->variant[variant], p);
  if (!get_code(l, diags, variant, c->stream, p)) return false;
  if (variant >= l->art->fallback) launch_tell_fallback(l, diags, &signature);
  const ArtVariant *v = p->code->variant;
  launch_expr_run(&v->program, p->slot, values);
  if (!plan_grid(l, diags, v, values, p)) return false;
  p->workspace = NULL;
  if (p->is_empty) return true;
  if (v->workspace >= 0 && c->nargs < l->art->nparams &&
      !plan_workspace(l, diags, c, &values[v->workspace], p))
    return false;
  return plan_values(l, diags, v, values, p);
}

/* ---- launching ---- */

void launch_put_scalar(unsigned char *to, const ArtParam *p, const wv_launch_arg *from) {
  float narrow = (float)from->number;
  switch (p->scalar) {
  case ART_I32: put_number(to, from->integer, 4); break;
  case ART_I64: put_number(to, from->integer, 8); break;
  case ART_F32: memcpy(to, &narrow, 4); break;
  case ART_F64: memcpy(to, &from->number, 8); break;
  case ART_SMALL_FLOAT: wv_data_set(p->type, to, 0, from->number); break;
  case ART_SCALARS: break;
  }
}

int launch_patch_map(Launcher *l, const wv_launch_arg *args, const ArtArg *a, LaunchPlan *p,
                     bool fresh) {
  const ArtVariant *v = p->code->variant;
  void *address = args[v->maps[a->value].param].tensor->data;
  if (!fresh && address == p->mapped[a->value]) return 0;
  return encode_map(l, v, a, address, p, fresh);
}

/* Everything that does not follow from sizes. Returns the driver's error for a tensor map. */
static int fill_args(Launcher *l, const wv_launch_arg *args, LaunchPlan *p) {
  const ArtArg *a = p->code->variant->args, *end = a + p->code->variant->npatched;
  int error = 0;
  for (; a < end && !error; a++) {
    unsigned char *to = p->args + a->offset;
    bool given = a->kind == ART_POINTER || (a->kind == ART_WORKSPACE && !p->workspace);
    if (given) memcpy(to, &args[a->param].tensor->data, sizeof(void *));
    if (a->kind == ART_SCALAR) launch_put_scalar(to, &l->art->params[a->param], &args[a->param]);
    if (a->kind == ART_MAP) error = launch_patch_map(l, args, a, p, true);
  }
  return error;
}

void launch_point_at_args(LaunchPlan *p) {
  const ArtVariant *v = p->code->variant;
  for (int i = 0; i < v->nargs; i++) p->pointer[i] = p->args + v->args[i].offset;
}

void launch_note_capture(Launcher *l, void *stream) {
  if (l->device->kind->is_captured(l->device, stream)) atomic_store(&l->captured, true);
}

static int launch_plan(Launcher *l, LaunchPlan *p, const LaunchCall *c) {
  DeviceLaunch d = {.code = p->code,
                    .grid = {p->grid[0], p->grid[1], p->grid[2]},
                    .args = p->pointer,
                    .packed = p->args,
                    .stream = c->stream,
                    .given = c->args,
                    .ngiven = c->nargs,
                    .params = l->art->params,
                    .overlap = (c->flags & WV_LAUNCH_OVERLAP) != 0,
                    .interrupted = c->interrupted,
                    .user = c->interrupted_user};
  return c->only_plan || p->is_empty ? 0 : launch_now(l, &d);
}

static bool refuse_launch(Launcher *l, Diags *diags, const LaunchPlan *p, int error) {
  DeviceLaunch d = {.code = p->code, .grid = {p->grid[0], p->grid[1], p->grid[2]}};
  DeviceReport r = launch_report(l, diags, l->at);
  l->device->kind->explain(l->device, error, &d, &r);
  if (p->workspace) launch_clear_workspace(l, p->workspace);
  return false;
}

/* Copies tensors, and launches the kernel with the copies. A call like this one is planned again: it is
 * not recorded. Neither kernel may overlap with the one before it. */
static WV_NOINLINE bool launch_with_copies(Launcher *l, Diags *diags, const LaunchCall *c,
                                           LaunchPlan *p) {
  LaunchCopies copies;
  LaunchCall own = *c;
  if (!launch_make_copies(l, diags, c, p, &copies)) return false;
  own.args = copies.args;
  own.flags &= ~(unsigned)WV_LAUNCH_OVERLAP;
  launch_point_at_args(p);
  int error = fill_args(l, own.args, p);
  if (!error) error = launch_plan(l, p, &own);
  return error ? refuse_launch(l, diags, p, error) : true;
}

/* Checks and computes everything. `failed`: the driver's error if the launch was made as the last
 * time; then it is only explained. Not inlined: a plan is large, and calls on the fast path should
 * not reserve stack space for it. */
WV_NOINLINE bool launch_anew(Launcher *l, Diags *diags, const LaunchCall *c, int failed) {
  LaunchPlan p; /* only initialised as far as it is used */
  int error = failed;
  int expected = l->has_logs ? l->art->nparams : l->art->ngiven;
  if (c->nargs != expected || !launch_fill(l, c->args, c->nargs, p.slot, &p.device))
    return launch_explain_args(l, diags, c->args, c->nargs);
  if (!make_plan(l, diags, c, &p)) return false;
  if (error) return refuse_launch(l, diags, &p, error);
  if (p.repacked && !p.is_empty) return launch_with_copies(l, diags, c, &p);
  if (!p.is_empty) {
    launch_point_at_args(&p);
    error = fill_args(l, c->args, &p);
    if (!error) launch_remember(l, &p, c);
  }
  if (!error) error = launch_plan(l, &p, c);
  return error ? refuse_launch(l, diags, &p, error) : true;
}

bool launch_run(Launcher *l, Diags *diags, const LaunchCall *c) {
  int error = 0;
  if (launch_again(l, c, &error) && !error) return true;
  return launch_anew(l, diags, c, error);
}
