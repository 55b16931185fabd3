/* sim_overlap.c: tensors that overlap share one shadow, so that a race between accesses through
 * different tensors is detected. Passing an array twice is not an error in itself. */
#include "backend/sim/sim_state.h"
#include "ir/ops/access.h"

typedef struct Extent {
  Buffer *b;
  uintptr_t from, end;
  bool checked; /* it is written, and races matter */
} Extent;

static Extent extent_of(Sim *s, int i) {
  const Value *v = s->k->body->args[i];
  Buffer *b = s->buffer[v->id];
  int64_t last = 0;
  for (int d = 0; d < b->rank; d++) last += (b->size[d] ? b->size[d] - 1 : 0) * b->stride[d];
  uintptr_t from = (uintptr_t)b->data;
  int64_t bytes = (last + 1) * buffer_halves(b) / 2 + 1; /* a half byte counts as a whole one */
  if (buffer_halves(b) > 1) bytes--;
  /* Several threads may log the same element; any of them may win. */
  return (Extent){b, from, from + (uintptr_t)bytes,
                  memory_is_written(s->k, v) && !s->k->params.at[i].log};
}

/* Adds everything that overlaps with `family` to it; true if something was added. */
static bool join(Extent *all, int n, Extent *family, int number) {
  bool more = false;
  for (int i = 0; i < n; i++) {
    Extent *e = &all[i];
    if (e->b->family == number || e->from >= family->end || family->from >= e->end) continue;
    e->b->family = number;
    if (e->from < family->from) family->from = e->from;
    if (e->end > family->end) family->end = e->end;
    family->checked |= e->checked;
    more = true;
  }
  return more;
}

/* The cell size: that of the smallest element; half bytes if elements do not begin at whole
 * cells. */
static int grain_of(const Extent *all, int n, const Extent *family, int number) {
  int grain = 64;
  for (int i = 0; i < n; i++)
    if (all[i].b->family == number && buffer_halves(all[i].b) < grain)
      grain = buffer_halves(all[i].b);
  for (int i = 0; i < n; i++)
    if (all[i].b->family == number && 2 * (all[i].from - family->from) % (uintptr_t)grain) return 1;
  return grain;
}

static void open_shadow(Sim *s, Extent *all, int n, int number) {
  Extent family = all[number];
  family.b->family = number;
  while (join(all, n, &family, number)) {
  }
  if (!family.checked) return;
  int grain = grain_of(all, n, &family, number);
  int64_t cells = (int64_t)(2 * (family.end - family.from) / (uintptr_t)grain) + 1;
  Shadow shadow = shadow_new(s->home, cells, grain);
  for (int i = 0; i < n; i++) {
    Buffer *b = all[i].b;
    if (b->family != number || s->k->params.at[b->param].log) continue;
    b->shadow = shadow;
    b->shadow_base = (int64_t)(all[i].from - family.from);
  }
}

void overlap_open(Sim *s) {
  int n = 0;
  Extent *all = ARENA_ARRAY(s->scratch, Extent, s->k->params.n);
  for (int i = 0; i < s->k->params.n; i++)
    if (s->k->body->args[i]->type->kind == TYPE_mem) {
      all[n] = extent_of(s, i);
      all[n++].b->family = -1;
    }
  for (int i = 0; i < n; i++)
    if (all[i].b->family < 0) open_shadow(s, all, n, i);
}
