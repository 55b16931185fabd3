/* isa_run.c: runs the waves of a workgroup, each until it waits for a barrier or ends. */
#include <string.h>

#include "isa/isa_state.h"

/* ---- memory ---- */

static int waves_of(const IsaLaunch *l) {
  unsigned items = l->block[0] * l->block[1] * l->block[2];
  return (int)((items + (unsigned)l->kernel->lanes - 1) / (unsigned)l->kernel->lanes);
}

/* Parts of the machine's memory, one after the other. */
typedef struct Parts {
  uint8_t *at; /* NULL: only the size is counted */
  size_t used;
} Parts;

static void *part(Parts *p, size_t bytes) {
  void *at = p->at ? p->at + p->used : NULL;
  p->used += (bytes + 63) & ~(size_t)63;
  return at;
}

static IsaMachine *divide(Parts *p, const IsaLaunch *l) {
  const IsaImage *image = &l->kernel->image;
  size_t lds = image->group_bytes + l->group_bytes, n = (size_t)waves_of(l);
  size_t scratch = (size_t)image->private_bytes * (size_t)l->kernel->lanes;
  IsaMachine *m = part(p, sizeof *m);
  IsaGroup g = {.nwaves = (int)n, .lds_bytes = (uint32_t)lds};
  g.waves = part(p, sizeof *g.waves * n);
  g.lds = part(p, lds + 8);
  g.shadow = part(p, sizeof *g.shadow * (lds / 4 + 2));
  g.bytes = part(p, sizeof *g.bytes * (lds + 8));
  if (l->kernel->has_named) g.reads = part(p, sizeof *g.reads * n * (lds / 4 + 2 + lds + 8));
  if (l->kernel->has_named) g.added = part(p, sizeof *g.added * n * (lds / 4 + 2));
  for (size_t w = 0; w < n; w++) {
    uint32_t(*v)[ISA_LANES] = part(p, sizeof *v * (l->kernel->is_1250 ? ISA_VGPRS : 512));
    uint8_t *own = part(p, scratch + 8);
    uint32_t *unset = part(p, sizeof *unset * (scratch / 4 + 1));
    if (p->at) g.waves[w].v = v, g.waves[w].scratch = own, g.waves[w].unset = unset;
  }
  if (m) m->group = g;
  return m;
}

size_t isa_machine_bytes(const IsaLaunch *l) {
  Parts p = {0};
  divide(&p, l);
  return p.used;
}

IsaMachine *isa_machine(void *memory, const IsaLaunch *l) {
  Parts p = {.at = memory};
  return divide(&p, l);
}

/* ---- the registers with which a wave starts ---- */

static void set_scalar(IsaWave *w, int *next, uint32_t value) {
  w->reg[ISA_VGPRS + *next] = ISA_READY;
  w->s[(*next)++] = value;
}

static void set_pair(IsaWave *w, int *next, uint64_t value) {
  set_scalar(w, next, (uint32_t)value);
  set_scalar(w, next, (uint32_t)(value >> 32));
}

/* By the descriptor's properties, in this order. */
static void set_user_registers(IsaWave *w, int *next) {
  enum {
    SEGMENT_BUFFER = 1,
    DISPATCH = 2,
    QUEUE = 4,
    ARGUMENTS = 8,
    DISPATCH_ID = 16,
    FLAT_SCRATCH = 32,
    SEGMENT_SIZE = 64
  };
  const IsaImage *image = &w->k->image;
  const IsaLaunch *l = w->group->launch;
  unsigned p = image->properties;
  if (p & SEGMENT_BUFFER) {
    set_pair(w, next, isa_scratch_base());
    set_pair(w, next, 0xffffffffu);
  }
  if (p & DISPATCH) set_pair(w, next, 0);
  if (p & QUEUE) set_pair(w, next, 0);
  if (p & ARGUMENTS) set_pair(w, next, (uint64_t)(uintptr_t)l->args);
  if (p & DISPATCH_ID) set_pair(w, next, 0);
  if (p & FLAT_SCRATCH) set_pair(w, next, 0);
  if (p & SEGMENT_SIZE) set_scalar(w, next, image->private_bytes);
  int count = image->preload & 127, first = image->preload >> 7;
  for (int n = 0; n < count; n++) {
    uint32_t word = 0;
    size_t at = 4 * (size_t)(first + n);
    if (at + 4 <= l->args_bytes) memcpy(&word, (const uint8_t *)l->args + at, 4);
    set_scalar(w, next, word);
  }
}

static void set_group_id(IsaWave *w, int *next) {
  const IsaImage *image = &w->k->image;
  const unsigned *id = w->group->id;
  if (w->k->generation == ISA_GFX12) {
    w->s[ISA_TTMP + 9] = id[0];
    w->s[ISA_TTMP + 7] = (id[1] & 0xffff) | id[2] << 16;
    return;
  }
  for (int d = 0; d < 3; d++)
    if (image->rsrc2 >> (7 + d) & 1) set_scalar(w, next, id[d]);
  if (image->rsrc2 >> 10 & 1) set_scalar(w, next, 0);
  if (image->rsrc2 & 1) set_scalar(w, next, 0); /* the wave's offset in scratch memory */
}

/* The ids of a work-item, ten bits each. */
static void set_item_ids(IsaWave *w) {
  const unsigned *block = w->group->launch->block;
  unsigned items = block[0] * block[1] * block[2];
  w->live = 0;
  for (int l = 0; l < w->k->lanes; l++) {
    unsigned item = (unsigned)(w->index * w->k->lanes + l);
    unsigned x = item % block[0], y = item / block[0] % block[1], z = item / block[0] / block[1];
    w->v[0][l] = x | y << 10 | z << 20;
    if (item < items) w->live |= UINT64_C(1) << l;
  }
  w->reg[0] = ISA_READY;
}

static void start_wave(IsaGroup *g, int index, const IsaKernel *k) {
  IsaWave *w = &g->waves[index];
  uint32_t(*v)[ISA_LANES] = w->v;
  uint8_t *scratch = w->scratch;
  uint32_t *unset = w->unset;
  memset(w, 0, offsetof(IsaWave, room));
  w->v = v, w->scratch = scratch, w->unset = unset, w->k = k, w->group = g, w->index = index;
  memset(unset, 0xff, (size_t)k->image.private_bytes * (size_t)k->lanes / 4 * sizeof *unset);
  for (int c = 0; c < ISA_COUNTERS; c++) w->done[c].by = -1;
  w->mode = k->image.rsrc1 >> 12 & 0xff;
  int next = 0;
  set_user_registers(w, &next);
  /* Padded to a fixed number on gfx11. */
  int user = (int)(k->image.rsrc2 >> 1 & (k->is_1250 ? 63 : 31));
  if (next < user) next = user;
  set_group_id(w, &next);
  set_item_ids(w);
  w->s[ISA_EXEC] = (uint32_t)w->live;
  w->s[ISA_EXEC + 1] = (uint32_t)(w->live >> 32);
}

/* ---- running ---- */

static void run_wave(IsaWave *w) {
  const IsaKernel *k = w->k;
  uint64_t most = w->group->launch->most;
  w->stop = false;
  while (!w->stop) {
    if (w->pc >= k->n) {
      isa_fault(w, ISA_OUTSIDE, -1, "execution runs past the end of the kernel");
      return;
    }
    const IsaInstr *i = &k->code[w->pc++];
    if (!isa_ready(w, i)) return;
    i->step(w, i);
    if (++w->executed == most)
      isa_fault(w, ISA_ENDLESS, -1, "the wave has executed %llu instructions and has not ended",
                (unsigned long long)most);
  }
}

static bool any_in(const IsaGroup *g, IsaWaveState state, int *which) {
  for (int w = 0; w < g->nwaves; w++)
    if (g->waves[w].state == state) return *which = w, true;
  return false;
}

/* Which instruction ends the epoch, and for how long it has been the only one. */
static void note_barrier(IsaGroup *g) {
  int at = g->waves[0].pc - 1;
  for (int n = 1; n < g->nwaves; n++)
    if (g->waves[n].pc - 1 != at) at = -1;
  if (at < 0 || at != g->barrier) g->run = g->waves[0].epoch;
  g->barrier = at;
}

/* All waves are at the barrier, or some have ended without it. */
static bool pass_barrier(IsaGroup *g) {
  int ended, waiting;
  if (isa_named_release(g)) return true;
  if (any_in(g, ISA_MEETING, &waiting)) return isa_named_stuck(&g->waves[waiting]), false;
  if (!any_in(g, ISA_WAITING, &waiting)) return true;
  if (any_in(g, ISA_ENDED, &ended)) {
    isa_fault(&g->waves[waiting], ISA_BARRIER, -1, "wave %d has ended without this barrier", ended);
    return false;
  }
  note_barrier(g);
  for (int n = 0; n < g->nwaves; n++) {
    IsaWave *w = &g->waves[n];
    w->state = ISA_RUNNING;
    w->has_signalled = false;
    w->epoch++;
  }
  return true;
}

void isa_start(IsaGroup *g, const IsaLaunch *l, const unsigned id[3], IsaFault *fault) {
  *fault = (IsaFault){.kind = ISA_OK};
  g->launch = l, g->fault = fault, g->last = NULL, g->barrier = -1, g->run = 0;
  g->time = 0;
  memset(g->named, 0, sizeof g->named);
  memcpy(g->id, id, sizeof g->id);
  memset(g->shadow, 0, sizeof *g->shadow * (g->lds_bytes / 4 + 1));
  for (int w = 0; w < g->nwaves; w++) start_wave(g, w, l->kernel);
}

bool isa_run(IsaMachine *m, const IsaLaunch *l, const unsigned id[3], IsaFault *fault) {
  IsaGroup *g = &m->group;
  int running;
  isa_start(g, l, id, fault);
  while (any_in(g, ISA_RUNNING, &running)) {
    for (int w = 0; w < g->nwaves && fault->kind == ISA_OK; w++)
      if (g->waves[w].state == ISA_RUNNING) run_wave(&g->waves[w]);
    if (fault->kind != ISA_OK || !pass_barrier(g)) return false;
  }
  return true;
}
