/* launch_again.c: the fast path for a call like the last one: compare, store addresses, launch.
 * Every nanosecond here is paid at every launch. */
#include <string.h>

#include "runtime/launch/launch.h"

/* ---- access to the record ---- */

/* A thread that does not get the record does without. */
static bool take_record(Launcher *l) {
  return !atomic_flag_test_and_set_explicit(&l->busy, memory_order_acquire);
}

static void give_record(Launcher *l) { atomic_flag_clear_explicit(&l->busy, memory_order_release); }

/* ---- rows ---- */

/* Few branches: all differences are accumulated. */
static inline bool tensor_is_like(const wv_tensor *t, const LaunchRow *row) {
  if (!t || !t->data || memcmp(&t->rank, &row->head, sizeof row->head) != 0) return false;
  int rank = row->head.rank;
  const int64_t *shape = t->shape, *strides = t->strides;
  const int64_t *sizes = row->slot + 1, *old = sizes + rank;
  int64_t differ = (int64_t)((uintptr_t)t->data % ARTEFACT_ALIGN) ^ row->slot[0];
  if (WV_LIKELY(strides != NULL)) {
    for (int d = rank - 1; d >= 0; d--) differ |= (shape[d] ^ sizes[d]) | (strides[d] ^ old[d]);
    return differ == 0;
  }
  int64_t stride = 1; /* for the sizes as before; where they differ it does not matter */
  for (int d = rank - 1; d >= 0; stride *= sizes[d--])
    differ |= (shape[d] ^ sizes[d]) | (stride ^ old[d]);
  return differ == 0;
}

static bool take_scalar(const Launcher *l, int i, const LaunchRow *row, const wv_launch_arg *a,
                        unsigned char *args) {
  const ArtParam *p = &l->art->params[i];
  if (a->tensor || !launch_scalar_is_valid(p, a)) return false;
  if (launch_scalar_slot(p, a) != row->slot[0]) return false;
  if (row->offset >= 0) launch_put_scalar(args + row->offset, p, a);
  return true;
}

/* If a row differs, addresses of earlier rows have already been stored, which is harmless: the next
 * call stores its own. */
static inline bool take_rows(Launcher *l, const wv_launch_arg *a) {
  LaunchRecord *r = &l->last;
  for (int i = 0; i < r->nrows; i++) {
    const LaunchRow *row = &r->row[i];
    const wv_tensor *t = a[i].tensor;
    if (WV_LIKELY(row->head.rank >= 0)) {
      if (!tensor_is_like(t, row)) return false;
      if (row->offset >= 0) memcpy(r->plan.args + row->offset, &t->data, sizeof t->data);
    } else if (!take_scalar(l, i, row, &a[i], r->plan.args)) return false;
  }
  return true;
}

static int patch_others(Launcher *l, const wv_launch_arg *args) {
  LaunchRecord *r = &l->last;
  int error = 0;
  for (int i = 0; i < r->nothers && !error; i++) {
    const ArtArg *a = &r->plan.code->variant->args[r->other[i]];
    if (a->kind == ART_MAP) error = launch_patch_map(l, args, a, &r->plan, false);
    else memcpy(r->plan.args + a->offset, &args[a->param].tensor->data, sizeof(void *));
  }
  return error;
}

bool launch_again(Launcher *l, const LaunchCall *c, int *error) {
  LaunchRecord *r = &l->last;
  if (!take_record(l)) return false;
  bool like = c->nargs == r->nrows && r->nrows && take_rows(l, c->args);
  if (like) like = r->aliased == launch_is_aliased(l->art, c->args);
  if (r->owner && like) like = r->owner == launch_owner(l, c->stream);
  if (like) {
    *error = r->nothers ? patch_others(l, c->args) : 0;
    r->launch.stream = c->stream;
    r->launch.given = c->args, r->launch.ngiven = c->nargs;
    r->launch.overlap = c->flags & WV_LAUNCH_OVERLAP;
    r->launch.interrupted = c->interrupted;
    r->launch.user = c->interrupted_user;
    if (*error) r->nrows = 0; /* a map may be half written */
    else if (!c->only_plan) *error = launch_now(l, &r->launch);
  }
  give_record(l);
  return like;
}

/* ---- recording ---- */

static void record_row(Launcher *l, int i, const LaunchPlan *p, const wv_launch_arg *a) {
  const ArtParam *param = &l->art->params[i];
  LaunchRow *row = &l->last.row[i];
  int slots = param->rank < 0 ? 1 : 1 + 2 * param->rank;
  row->head = a->tensor ? launch_head(a->tensor) : (LaunchHead){.rank = -1};
  row->offset = -1;
  memcpy(row->slot, p->slot + param->slot, sizeof *row->slot * (size_t)slots);
}

/* Each address and number belongs to the row of its parameter; the rest are `others`. */
static void record_args(LaunchRecord *r, const ArtVariant *v) {
  r->nothers = 0;
  for (int i = 0; i < v->npatched; i++) {
    const ArtArg *a = &v->args[i];
    bool gives = a->kind == ART_WORKSPACE && !r->owner;
    bool of_row = a->kind == ART_POINTER || a->kind == ART_SCALAR;
    if (of_row && r->row[a->param].offset < 0) r->row[a->param].offset = a->offset;
    else if (of_row || a->kind == ART_MAP || gives) r->other[r->nothers++] = (short)i;
  }
}

void launch_remember(Launcher *l, const LaunchPlan *p, const LaunchCall *c) {
  const ArtVariant *v = p->code->variant;
  LaunchRecord *r = &l->last;
  LaunchPlan *to = &r->plan;
  if (!take_record(l)) return;
  to->code = p->code;
  to->device = p->device;
  memcpy(to->args, p->args, (size_t)v->arg_bytes);
  memcpy(to->slot, p->slot, sizeof *to->slot * (size_t)l->art->nslots);
  memcpy(to->mapped, p->mapped, sizeof *to->mapped * (size_t)v->nmaps);
  launch_point_at_args(to);
  for (int i = 0; i < c->nargs; i++) record_row(l, i, p, &c->args[i]);
  r->aliased = launch_is_aliased(l->art, c->args);
  r->owner = p->workspace ? launch_owner(l, c->stream) : NULL;
  record_args(r, v);
  r->launch = (DeviceLaunch){
      .code = p->code, .args = to->pointer, .packed = to->args, .params = l->art->params};
  memcpy(r->launch.grid, p->grid, sizeof p->grid);
  r->nrows = c->nargs;
  give_record(l);
}
