/* isa_named.c: barriers for some of the waves of a workgroup (gfx1250).
 *
 * A wave signals any barrier, but waits only for the one that it joined last. A barrier is complete
 * when as many waves have signalled it as the signals say; then it begins again.
 *
 * Such barriers order what some waves do, so epochs (isa_lds.c) do not describe it. Each signal is a
 * point in the workgroup's time. A wave that passes a barrier knows, of each wave that signalled it,
 * everything up to that signal, and what that wave knew by then. */
#include <string.h>

#include "isa/isa_state.h"

static void learn(uint32_t *to, const uint32_t *from) {
  for (int n = 0; n < ISA_WAVES; n++)
    if ((int32_t)(from[n] - to[n]) > 0) to[n] = from[n];
}

void isa_named_signal(IsaWave *w, uint32_t which, uint32_t members) {
  IsaGroup *g = w->group;
  IsaBarrier *b = &g->named[which];
  if (members && b->signals && members != b->members)
    return isa_fault(w, ISA_BARRIER, -1, "barrier %u is signalled for %u waves, and was for %u",
                     which, members, b->members);
  if (members) b->members = members;
  if (!b->members)
    return isa_fault(w, ISA_BARRIER, -1, "barrier %u is signalled, which has no members", which);
  if ((uint32_t)w->joined == which) w->phase = b->phase + 1;
  w->met[w->index % ISA_WAVES] = ++g->time;
  IsaSignal *s = &w->signals[w->nsignals++ % ISA_SIGNALS];
  s->time = g->time;
  memcpy(s->done, w->done, sizeof w->done);
  learn(b->met, w->met);
  if (++b->signals < b->members) return;
  b->signals = 0;
  b->phase++;
}

/* The signal may be older than those that are kept: then the oldest of them is taken. */
const IsaDone *isa_named_done(const IsaWave *w, const IsaWave *other) {
  uint32_t kept = other->nsignals < ISA_SIGNALS ? other->nsignals : ISA_SIGNALS;
  const IsaSignal *s = NULL;
  for (uint32_t n = 0; n < kept; n++) {
    s = &other->signals[(other->nsignals - 1 - n) % ISA_SIGNALS];
    if ((int32_t)(w->met[other->index] - s->time) >= 0) break;
  }
  return s ? s->done : other->done;
}

void isa_named_wait(IsaWave *w) {
  if (!w->joined || !w->phase)
    isa_fault(w, ISA_BARRIER, -1, "the wave waits for a barrier it never signals");
  w->state = ISA_MEETING;
  w->stop = true;
}

static bool is_complete(const IsaWave *w) { return w->group->named[w->joined].phase >= w->phase; }

bool isa_named_release(IsaGroup *g) {
  bool any = false;
  for (int n = 0; n < g->nwaves; n++) {
    IsaWave *w = &g->waves[n];
    if (w->state != ISA_MEETING || !is_complete(w)) continue;
    learn(w->met, g->named[w->joined].met);
    w->state = ISA_RUNNING;
    w->phase = 0;
    any = true;
  }
  return any;
}

void isa_named_stuck(IsaWave *w) {
  const IsaBarrier *b = &w->group->named[w->joined];
  isa_fault(w, ISA_BARRIER, -1,
            "%u of %u waves have signalled barrier %d, and no other wave can continue", b->signals,
            b->members, w->joined);
}
