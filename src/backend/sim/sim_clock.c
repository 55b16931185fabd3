/* sim_clock.c: happens-before.
 *
 * Every unit counts its releases. An access is recorded as (unit, its clock); a later access is
 * ordered after it if its actor knows that unit's clock to be at least as high. Lanes that met at a
 * barrier share one Clock; what a lane did since is in its Lane. So a barrier costs one vector, not
 * one per thread, and 1024 threads are affordable.
 *
 * Asynchronous operations use units of their own, with the number of their group or phase as clock:
 * a thread that waits for a group learns that clock. Program order does not apply within such a
 * unit: two copies in flight to the same address are a race.
 *
 * A cell records the last ordinary write, the atomic ones since, and all reads since the last of
 * either. One wave's reads of a cell are one entry, and so are its atomics. */
#include <string.h>

#include "backend/sim/sim_state.h"

/* ---- clocks ---- */

Clock *clock_new(Sim *s) {
  Clock *c = s->free_clocks;
  size_t bytes = sizeof(uint32_t) * (size_t)s->nunits;
  if (c) {
    s->free_clocks = (Clock *)(void *)c->at;
    c->at = c->fenced - s->nunits;
    memset(c->at, 0, 2 * bytes);
  } else {
    c = ARENA_NEW(s->gang_home, Clock);
    c->at = arena_alloc(s->gang_home, 2 * bytes);
    c->fenced = c->at + s->nunits;
  }
  c->refs = 1;
  c->floor = 0;
  c->number = ++s->clocks;
  c->joined = 0;
  return c;
}

Clock *clock_keep(Clock *c) {
  if (c) c->refs++;
  return c;
}

/* The free list uses `at`, which is recovered from `fenced`. */
void clock_drop(Sim *s, Clock *c) {
  if (!c || --c->refs) return;
  c->at = (uint32_t *)(void *)s->free_clocks;
  s->free_clocks = c;
}

static void raise(uint32_t *at, uint32_t v) {
  if (*at < v) *at = v;
}

/* A clock that lanes know no longer changes: waves that know the same one join it once. */
void clock_join(Sim *s, Clock *into, const Clock *from) {
  if (!from || into == from || into->joined == from->number) return;
  into->joined = from->number;
  for (int i = 0; i < 2 * s->nunits; i++) raise(&into->at[i], from->at[i]);
}

void clock_finish(Sim *s, Clock *c) {
  uint32_t floor = UINT32_MAX;
  for (int g = 0; g < s->gang.ngroups; g++)
    for (int u = 0; u < s->units.copies; u++) {
      uint32_t v = c->at[g * s->units.all + u];
      if (v < floor) floor = v;
    }
  c->floor = floor;
}

/* ---- units ---- */

uint32_t sim_unit_in(const Group *g, int local) {
  const Sim *s = g->waves[0].sim;
  return (uint32_t)(g->index * s->units.all + local);
}

static int local_unit(const Wave *w, int lane) {
  return w->sim->per_unit == 1 ? w->index * w->sim->wave + lane : w->index;
}

/* Releases what a lane did on its own, beyond what it shares with others. */
static void release_own(Wave *w, int l, Clock *c) {
  const Units *u = &w->sim->units;
  Lane *lane = &w->lane[l];
  int local = local_unit(w, l);
  uint32_t self = sim_unit_in(w->group, local);
  raise(&c->at[self], lane->own);
  raise(&c->fenced[self], lane->fenced);
  if (u->reads > u->copies) {
    raise(&c->at[sim_unit_in(w->group, u->copies + local)], lane->done);
    raise(&c->fenced[sim_unit_in(w->group, u->copies + local)], lane->fenced_copies);
  }
  if (u->wgmma > u->reads) {
    raise(&c->at[sim_unit_in(w->group, u->reads + local)], lane->read);
    raise(&c->at[sim_unit_in(w->group, u->writes + local)], lane->written);
  }
  if (u->mbars > u->wgmma) raise(&c->at[sim_unit_in(w->group, u->wgmma + w->index)], w->wgmma_done);
  lane->own++;
}

/* There are only ordinary accesses: a lane only knows about itself. */
static void release_plain(Wave *w, uint64_t lanes, Clock *c) {
  uint32_t *at = c->at + unit_of_lane(w, 0), *fenced = c->fenced + unit_of_lane(w, 0);
  EACH_LANE(l, lanes) {
    int unit = w->sim->per_unit == 1 ? l : 0;
    raise(&at[unit], w->lane[l].own++);
    raise(&fenced[unit], w->lane[l].fenced);
  }
}

void clock_release(Wave *w, uint64_t lanes, Clock *c) {
  const Clock *last = NULL;
  EACH_LANE(l, lanes) {
    if (w->lane[l].known != last) clock_join(w->sim, c, w->lane[l].known);
    last = w->lane[l].known;
  }
  if (w->sim->units.mbars == w->sim->units.copies) release_plain(w, lanes, c);
  else EACH_LANE(l, lanes) release_own(w, l, c);
}

/* all stores of the lane are visible */
static void clock_settle(Wave *w, int l) {
  Lane *lane = &w->lane[l];
  lane->settled = lane->own++;
  lane->pending[false] = lane->pending[true] = false;
}

void clock_release_settled(Wave *w, uint64_t lanes, Clock *c) {
  EACH_LANE(l, lanes) {
    Lane *lane = &w->lane[l];
    uint32_t own = lane->own;
    if (!lane->pending[false] && !lane->pending[true]) clock_settle(w, l), own = lane->own;
    lane->own = lane->settled;
    clock_release(w, UINT64_C(1) << l, c);
    lane->own = own;
  }
}

void clock_release_copies(Wave *w, int l, Clock *c) {
  const Units *u = &w->sim->units;
  if (u->reads > u->copies)
    raise(&c->at[sim_unit_in(w->group, u->copies + local_unit(w, l))], w->lane[l].copying++);
}

/* Lanes that knew the same before know the same afterwards. */
void clock_acquire(Wave *w, uint64_t lanes, const Clock *c) {
  Sim *s = w->sim;
  Clock *before = NULL, *after = NULL;
  EACH_LANE(l, lanes) {
    Lane *lane = &w->lane[l];
    if (!after || lane->known != before) {
      clock_drop(s, before);
      clock_drop(s, after);
      before = clock_keep(lane->known);
      after = clock_new(s);
      clock_join(s, after, before);
      clock_join(s, after, c);
      clock_finish(s, after);
    }
    clock_drop(s, lane->known);
    lane->known = clock_keep(after);
  }
  clock_drop(s, before);
  clock_drop(s, after);
}

/* ---- what threads know ---- */

Actor sim_actor_async(Wave *w, const SimOp *s, int lane, int unit, uint32_t clock) {
  return (Actor){.w = w,
                 .s = s,
                 .home = w->group,
                 .lane = lane,
                 .unit = sim_unit_in(w->group, unit),
                 .clock = clock,
                 .async = true,
                 .proxy = true};
}

/* What the acting lane, or the lane that issued the operation, knows of a unit. */
uint32_t clock_known(const Wave *w, int l, uint32_t unit) {
  const Sim *s = w->sim;
  const Lane *lane = &w->lane[l];
  const Units *u = &s->units;
  uint32_t shared = lane->known ? lane->known->at[unit] : 0;
  if (unit / (uint32_t)u->all != (uint32_t)w->group->index) return shared;
  int local = (int)unit % u->all, self = local_unit(w, l);
  if (local == self) return UINT32_MAX; /* program order; the issue orders what came before it */
  uint32_t own = local == u->copies + self                             ? lane->done
                 : local == u->reads + self                            ? lane->read
                 : local == u->writes + self                           ? lane->written
                 : local == u->wgmma + w->index && u->mbars > u->wgmma ? w->wgmma_done
                                                                       : 0;
  return own > shared ? own : shared;
}

static bool is_lane_unit(const Sim *s, uint32_t unit) {
  return (int)unit % s->units.all < s->units.copies;
}

static bool ordered_after(const Actor *a, uint32_t unit, uint32_t clock, uint32_t gang) {
  const Sim *s = a->w->sim;
  if (gang != s->gang.number) return false;
  if (a->unit == unit && a->clock == clock) return true; /* the same lane or operation group */
  const Clock *c = a->w->lane[a->lane].known;
  if (c && clock <= c->floor && is_lane_unit(s, unit)) return true;
  return clock_known(a->w, a->lane, unit) >= clock;
}

/* The unit of copies that threads issue, which write like the threads themselves. */
static bool is_copies_unit(const Sim *s, uint32_t unit) {
  int local = (int)unit % s->units.all;
  return local >= s->units.copies && local < s->units.reads;
}

/* Ordinary writes must be fenced before an asynchronous operation reads or overwrites them. */
static bool fenced_before(const Actor *a, uint32_t unit, uint32_t clock) {
  const Wave *w = a->w;
  bool copied = is_copies_unit(w->sim, unit);
  if (!a->proxy || !(copied || is_lane_unit(w->sim, unit))) return true;
  const Lane *lane = &w->lane[a->lane];
  int self = local_unit(w, a->lane) + (copied ? w->sim->units.copies : 0);
  if (unit == sim_unit_in(w->group, self))
    return (copied ? lane->fenced_copies : lane->fenced) >= clock;
  return lane->known && lane->known->fenced[unit] >= clock;
}

/* ---- races ---- */

static const char *what_it_is(const Actor *a, bool writes) {
  return a->async ? (writes ? "an asynchronous write" : "an asynchronous read")
                  : (writes ? "a write" : "a read");
}

static const char *unit_text(Wave *w, uint32_t unit, uint32_t gang) {
  Sim *s = w->sim;
  Arena *arena = s->cx->diags.arena;
  int local = (int)unit % s->units.all;
  if (gang != s->gang.number) return "another workgroup";
  if (local >= s->units.mbars) return "a tensor copy";
  if (local >= s->units.wgmma)
    return arena_printf(arena, "the wgmma of wave %d", local - s->units.wgmma);
  if (local >= s->units.copies) return "an asynchronous copy";
  int thread = local * s->per_unit;
  s->subject.other_wave = thread / s->wave;
  if (s->per_unit == 1) s->subject.other_lane = thread % s->wave;
  const Group *g = &s->gang.groups[unit / (uint32_t)s->units.all];
  const char *where = g == w->group ? "" : " of another workgroup";
  if (s->per_unit > 1) return arena_printf(arena, "wave %d%s", thread / s->wave, where);
  return arena_printf(arena, "wave %d, lane %d%s", thread / s->wave, thread % s->wave, where);
}

typedef struct Conflict {
  uint32_t unit, op, gang;
  bool wrote;
} Conflict;

static void report_race(const Actor *a, const Buffer *b, int64_t element, bool writes, Conflict c) {
  Wave *w = a->w;
  Sim *s = w->sim;
  const Op *other = s->ops[c.op].op;
  bool groups = writes && c.wrote && !b->shared &&
                (c.gang != s->gang.number || (int)c.unit / s->units.all != w->group->index);
  DiagCode code = groups ? DIAG_E0808 : DIAG_E0803;
  Diag *d = sim_report(w, a->s, code, other,
                       "%s of `%s`%s at address %lld by %s is not ordered after the %s of %s",
                       what_it_is(a, writes), b->name, buffer_index(s, b, element),
                       (long long)buffer_address(b, element), sim_who(w, a->lane),
                       c.wrote ? "write" : "read", unit_text(w, c.unit, c.gang));
  if (d) diag_note(&s->cx->diags, d, other->at, "the %s is here", c.wrote ? "write" : "read");
}

Shadow shadow_new(Arena *a, int64_t cells, int grain) {
  Shadow s = {.cells = ARENA_ARRAY(a, Cell, cells), .grain = grain};
  while (1 << s.shift < grain) s.shift++;
  WV_ASSERT(1 << s.shift == grain);
  return s;
}

static Cell *cell_of(const Actor *a, const Buffer *b, int64_t element) {
  const Shadow *shadow = b->shared ? &a->home->shadow : &b->shadow;
  int64_t halves = 2 * (b->base + b->shadow_base) + element * buffer_halves(b);
  return shadow->cells ? &shadow->cells[halves >> shadow->shift] : NULL;
}

/* The number of cells of an element: shared memory may hold elements of several sizes. */
static int cells_of(const Actor *a, const Buffer *b) {
  const Shadow *shadow = b->shared ? &a->home->shadow : &b->shadow;
  int halves = buffer_halves(b);
  return halves > shadow->grain ? halves / shadow->grain : 1;
}

/* Unlinks the entry at *link and keeps it for reuse. */
static void free_reader(Sim *s, const Buffer *b, Readers **link) {
  Readers *r = *link;
  *link = r->next;
  r->next = s->free_readers[b->shared];
  s->free_readers[b->shared] = r;
}

static Readers *new_reader(Sim *s, const Buffer *b) {
  Readers *r = s->free_readers[b->shared];
  if (!r) return ARENA_NEW(b->shared ? s->gang_home : s->home, Readers);
  s->free_readers[b->shared] = r->next;
  return r;
}

static bool all_ordered(const Actor *a, const Readers *r, uint32_t *unit) {
  const Clock *c = a->w->lane[a->lane].known;
  if (r->gang == a->w->sim->gang.number && c && r->clock <= c->floor &&
      is_lane_unit(a->w->sim, r->first))
    return true;
  EACH_LANE(l, r->mask) {
    *unit = r->first + (uint32_t)l;
    if (!ordered_after(a, *unit, r->clock, r->gang)) return false;
  }
  return true;
}

static void report_unfenced(const Actor *a, const Buffer *b, int64_t element, bool writes,
                            uint32_t op) {
  Sim *s = a->w->sim;
  const Op *other = s->ops[op].op;
  Diag *d = sim_report(a->w, a->s, DIAG_E0810, other,
                       "%s of `%s`%s by %s: the write before it was not followed by `fence_proxy`",
                       what_it_is(a, writes), b->name, buffer_index(s, b, element),
                       sim_who(a->w, a->lane));
  if (!d) return;
  diag_note(&s->cx->diags, d, other->at, "the write is here");
  diag_hint(&s->cx->diags, d,
            "execute `fence_proxy` in the threads that wrote, before the barrier");
}

/* Checks that the access is ordered after what one wave wrote, and that this was fenced if
 * necessary. */
static void check_writers(const Actor *a, const Buffer *b, int64_t element, const Readers *r,
                          bool writes) {
  uint32_t unit = r->first;
  bool fenced = true;
  if (!all_ordered(a, r, &unit)) {
    report_race(a, b, element, writes, (Conflict){unit, r->op, r->gang, true});
    return;
  }
  EACH_LANE(l, a->proxy ? r->mask : 0) fenced &= fenced_before(a, r->first + (uint32_t)l, r->clock);
  if (!fenced) report_unfenced(a, b, element, writes, r->op);
}

static void check_write(const Actor *a, const Buffer *b, int64_t element, const Cell *cell,
                        bool writes) {
  const Access *last = &cell->write;
  Readers one = {NULL, 1, last->unit, last->clock, last->op, last->gang, false};
  if (last->stamp) check_writers(a, b, element, &one, writes);
  for (const Readers *r = a->atomic ? NULL : cell->atomics; r; r = r->next)
    check_writers(a, b, element, r, writes);
}

static void add_access(const Actor *a, const Buffer *b, Readers **list) {
  Sim *s = a->w->sim;
  uint32_t first = a->unit, unit;
  uint64_t bit = 1;
  if (!a->async && s->per_unit == 1) {
    first = unit_of_lane(a->w, 0);
    bit = UINT64_C(1) << a->lane;
  }
  Readers **link = list;
  for (Readers *r; (r = *link);) {
    if (r->first == first && r->clock == a->clock && r->gang == s->gang.number &&
        r->op == (uint32_t)a->s->op->id) {
      r->mask |= bit;
      r->atomic &= a->atomic;
      return;
    }
    if (r->first == first && all_ordered(a, r, &unit)) { /* this access replaces it */
      free_reader(s, b, link);
    } else {
      link = &r->next;
    }
  }
  Readers *r = new_reader(s, b);
  *r = (Readers){*list, bit, first, a->clock, (uint32_t)a->s->op->id, s->gang.number, a->atomic};
  *list = r;
}

void shadow_read(const Actor *a, const Buffer *b, int64_t element) {
  if (a->home != a->w->group && b->shared) cluster_note(a);
  Cell *cell = cell_of(a, b, element);
  for (int i = 0, n = cell ? cells_of(a, b) : 0; i < n; i++, cell++) {
    check_write(a, b, element, cell, false);
    add_access(a, b, &cell->readers);
  }
}

/* Two operations of one group, or of one phase, are not ordered among themselves. */
static bool is_beside(const Actor *a, const Access *last) {
  const Sim *s = a->w->sim;
  return a->async && last->stamp && last->stamp != s->stamp && last->unit == a->unit &&
         last->clock == a->clock && last->gang == s->gang.number;
}

/* Whether an unordered write of the same value is allowed: by the same op in one workgroup, or if
 * both ops say that workgroups agree. */
static bool may_repeat(const Actor *a, const Access *last) {
  const Sim *s = a->w->sim;
  bool in_group = last->gang == s->gang.number &&
                  last->unit / (uint32_t)s->units.all == (uint32_t)a->w->group->index;
  if (in_group && last->op == (uint32_t)a->s->op->id) return true;
  return op_has(a->s->op, ATTR_agreed) && op_has(s->ops[last->op].op, ATTR_agreed);
}

/* Atomics do not race with each other. */
void shadow_write(const Actor *a, const Buffer *b, int64_t element, bool same) {
  Sim *s = a->w->sim;
  Cell *cell = cell_of(a, b, element);
  uint32_t op = (uint32_t)a->s->op->id;
  if (a->home != a->w->group && b->shared) cluster_note(a);
  for (int i = 0, n = cell ? cells_of(a, b) : 0; i < n; i++, cell++) {
    const Access *last = &cell->write;
    bool repeated = same && last->stamp && !cell->atomics && may_repeat(a, last);
    bool one_op = last->stamp == s->stamp && !repeated && last->stamp;
    if ((one_op && !a->async) || is_beside(a, last))
      report_race(a, b, element, true, (Conflict){last->unit, last->op, last->gang, true});
    else if (!repeated) check_write(a, b, element, cell, true);
    uint32_t unit = 0;
    for (const Readers *r = cell->readers; r; r = r->next)
      if (!(r->atomic && a->atomic) && !all_ordered(a, r, &unit))
        report_race(a, b, element, true, (Conflict){unit, r->op, r->gang, false});
    while (cell->readers) free_reader(s, b, &cell->readers);
    if (a->atomic) {
      add_access(a, b, &cell->atomics);
      continue;
    }
    while (cell->atomics) free_reader(s, b, &cell->atomics);
    cell->write = (Access){a->unit, a->clock, op, s->stamp, s->gang.number};
  }
}
