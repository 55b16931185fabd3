/* launch_repack.c: tensors whose rows do not begin at multiples of 16 bytes, for kernels that need such
 * rows: the launch copies them to memory of its own first. */
#include "runtime/launch/launch.h"

enum { PIECE = 16 }; /* bytes: tensors and rows begin at multiples of this */

static int element_bytes(const ArtParam *p) {
  int bits = 8;
  wv_dtype_name(p->dtype, &bits, NULL);
  return bits / 8;
}

/* `slots`: address, sizes and strides; the guard has made sure that elements of rows are adjacent. */
static bool is_aligned(const ArtParam *p, const int64_t *slots) {
  const int64_t *strides = slots + 1 + p->rank;
  bool aligned = slots[0] % PIECE == 0;
  for (int d = 0; d + 1 < p->rank; d++) aligned &= strides[d] * element_bytes(p) % PIECE == 0;
  return aligned;
}

static void set_strides(const ArtParam *p, int64_t *slots) {
  const int64_t *sizes = slots + 1;
  int64_t *strides = slots + 1 + p->rank, wide = ARTEFACT_ROW / element_bytes(p), next = 1;
  slots[0] = 0; /* blocks are aligned */
  for (int d = p->rank - 1; d >= 0; d--) {
    strides[d] = next;
    next *= d == p->rank - 1 ? (sizes[d] + wide - 1) / wide * wide : sizes[d];
  }
}

void launch_plan_copies(const Launcher *l, const ArtVariant *v, LaunchPlan *p) {
  for (int i = 0; i < l->art->ngiven; i++) {
    const ArtParam *param = &l->art->params[i];
    int64_t *slots = p->slot + param->slot;
    if (!(v->repacked >> i & 1) || is_aligned(param, slots)) continue;
    p->repacked |= INT64_C(1) << i;
    set_strides(param, slots);
  }
}

/* In bytes; the slots are those of the copy. */
static int64_t copy_bytes(const ArtParam *p, const int64_t *slots) {
  int64_t bytes = slots[1] * slots[1 + p->rank] * element_bytes(p);
  return (bytes + ARTEFACT_ALIGN - 1) / ARTEFACT_ALIGN * ARTEFACT_ALIGN;
}

bool launch_make_copies(Launcher *l, Diags *diags, const LaunchCall *c, LaunchPlan *p,
                        LaunchCopies *out) {
  int64_t bytes = 0;
  for (int i = 0; i < c->nargs; i++) {
    const ArtParam *param = &l->art->params[i];
    out->args[i] = c->args[i];
    if (p->repacked >> i & 1) bytes += copy_bytes(param, p->slot + param->slot);
  }
  char *at = launch_copies(l, diags, p->device, c->stream, bytes);
  for (int i = 0; at && i < c->nargs; i++) {
    const ArtParam *param = &l->art->params[i];
    const int64_t *slots = p->slot + param->slot;
    wv_tensor *to = &out->tensor[i];
    if (!(p->repacked >> i & 1)) continue;
    *to = *c->args[i].tensor;
    to->data = at, to->strides = slots + 1 + param->rank;
    out->args[i].tensor = to;
    at += copy_bytes(param, slots);
    if (!c->only_plan && !l->repack(l, diags, c->args[i].tensor, to, c->stream)) return false;
  }
  return at != NULL;
}
