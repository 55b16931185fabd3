/* sim_barrier.c: where threads meet.
 *
 * Who arrives releases what it knows into the meeting's clock; when all are there, everybody who
 * waits acquires it. An mbarrier does the same over phases: a phase is complete when its arrivals
 * and its bytes are, and waiters of a phase join the arrivals and the copies of that phase. */
#include <string.h>

#include "backend/sim/sim_state.h"

/* ---- meetings of waves ---- */

static void arrive(Wave *w, const SimOp *s, Rendezvous *r) {
  if (!r->gathering) r->gathering = clock_new(w->sim);
  clock_release(w, w->lanes,
                r->gathering); /* a part of a wave has been reported: it counts whole */
  r->arrived += mask_count(w->lanes);
  r->op = s->op;
  w->sim->events++;
}

static void park(Wave *w, Rendezvous *r) {
  Sim *s = w->sim;
  if (!r->parked) r->parked = ARENA_ARRAY(s->gang_home, Wave *, s->nwaves * s->gang.ngroups);
  r->parked[r->nparked++] = w;
  w->parked = true;
}

/* Everybody is there: those who wait go on and know what the others did. All share one clock. */
static void open_gate(Sim *s, Rendezvous *r) {
  clock_finish(s, r->gathering);
  for (int i = 0; i < r->nparked; i++) {
    Wave *w = r->parked[i];
    w->parked = false;
    EACH_LANE(l, w->lanes) {
      clock_drop(s, w->lane[l].known);
      w->lane[l].known = clock_keep(r->gathering);
    }
  }
  clock_drop(s, r->gathering);
  r->gathering = NULL;
  r->arrived = r->nparked = 0;
  s->events++;
}

static Step meet(Wave *w, const SimOp *s, Rendezvous *r, int wanted, bool waits) {
  wave_whole(w, s);
  arrive(w, s, r);
  if (waits) park(w, r);
  if (r->arrived > wanted)
    report(w, s, DIAG_E0805, NULL, "%d threads have arrived at a barrier of %d", r->arrived,
           wanted);
  if (r->arrived >= wanted) open_gate(w->sim, r);
  return w->parked ? STEP_PARK : STEP_NEXT;
}

Step step_workgroup_barrier(Wave *w, SimOp *s) {
  return meet(w, s, &w->group->workgroup, w->sim->threads, true);
}

static Step meet_named(Wave *w, SimOp *s) {
  int64_t bar = op_attr(s->op, ATTR_bar)->integer, member = 0, count = 0;
  if (!wave_uniform(w, s, s->expr, &count)) return STEP_NEXT;
  if (s->peer && !wave_uniform(w, s, s->peer, &member)) return STEP_NEXT;
  bar += member;
  if (bar < 0 || bar >= SIM_NAMED || count < 1 || count % w->sim->wave) {
    report(w, s, DIAG_E0805, NULL,
           "named barrier %lld of %lld threads: ids are 0 to %d, counts whole waves",
           (long long)bar, (long long)count, SIM_NAMED - 1);
    return STEP_NEXT;
  }
  return meet(w, s, &w->group->named[bar], (int)count, !op_has(s->op, ATTR_arrive));
}

Step step_barrier(Wave *w, SimOp *s) {
  const char *mode = op_attr(s->op, ATTR_mode)->text;
  if (strcmp(mode, "workgroup") == 0) return step_workgroup_barrier(w, s);
  if (strcmp(mode, "named") == 0) return meet_named(w, s);
  if (strcmp(mode, "wave") == 0)
    return meet(w, s, &w->group->wave[w->index], mask_count(w->lanes), true);
  return meet(w, s, &cluster_peer(w->group, 0)->cluster, w->sim->threads * cluster_size(w->sim),
              true);
}

/* The halves of a split barrier meet at a named one: signal arrives, wait is satisfied when all
 * have. */
Step step_barrier_signal(Wave *w, SimOp *s) {
  const Attr *bar = op_attr(s->op, ATTR_bar);
  Rendezvous *r = &w->group->named[bar && bar->integer > 0 ? bar->integer % SIM_NAMED : 0];
  wave_whole(w, s);
  arrive(w, s, r);
  return STEP_NEXT;
}

Step step_barrier_wait(Wave *w, SimOp *s) {
  const Attr *bar = op_attr(s->op, ATTR_bar);
  Rendezvous *r = &w->group->named[bar && bar->integer > 0 ? bar->integer % SIM_NAMED : 0];
  wave_whole(w, s);
  park(w, r);
  if (r->nparked == w->sim->nwaves && r->arrived >= w->sim->threads) open_gate(w->sim, r);
  return w->parked ? STEP_PARK : STEP_NEXT;
}

Step step_fence_proxy(Wave *w, SimOp *s) {
  (void)s;
  EACH_LANE(l, w->mask) {
    w->lane[l].fenced = w->lane[l].own++;
    w->lane[l].fenced_copies = w->lane[l].done;
  }
  return STEP_NEXT;
}

/* ---- counters ---- */

static void wait_counted(Wave *w, const SimOp *s) {
  const Attr *counters = op_attr(s->op, ATTR_counters);
  for (int i = 0; counters && i < counters->n; i++) {
    if (strcmp(counters->counts[i].name, "load") != 0) continue;
    int64_t left = counters->counts[i].count;
    uint32_t done = left < w->counted ? w->counted - (uint32_t)left : 0;
    EACH_LANE(l, w->mask) {
      if (w->lane[l].done < done) w->lane[l].done = done;
    }
  }
}

Step step_counter_wait(Wave *w, SimOp *s) {
  wait_counted(w, s);
  return STEP_NEXT;
}

Step step_counter_barrier(Wave *w, SimOp *s) {
  wait_counted(w, s);
  return step_workgroup_barrier(w, s);
}

/* ---- mbarriers ---- */

int mbar_unit(const Group *g, const Mbar *m) {
  return g->waves[0].sim->units.mbars + (int)(m - g->mbars.at);
}

static Mbar *find_mbar(Group *g, int64_t address) {
  for (int i = 0; i < g->mbars.n; i++)
    if (g->mbars.at[i].address == address) return &g->mbars.at[i];
  return NULL;
}

/* NULL: there are too many. */
static Mbar *make_mbar(Wave *w, int64_t address) {
  Group *g = w->group;
  Mbar *m = find_mbar(g, address);
  if (m || g->mbars.n == SIM_MBARS) return m;
  vec_push(w->sim->gang_home, &g->mbars, ((Mbar){.address = address}));
  m = &g->mbars.at[g->mbars.n - 1];
  m->waited = ARENA_ARRAY(w->sim->gang_home, int64_t, w->sim->threads);
  return m;
}

static bool check_place(Wave *w, const SimOp *s, const Buffer *b, int64_t index, int lane) {
  if (buffer_inside(b, index)) return true;
  report(w, s, DIAG_E0801, NULL, "`%s`%s by %s is outside of its shape", b->name,
         buffer_index(w->sim, b, index), who(w, lane));
  return false;
}

/* Using an mbarrier is an atomic access of its memory: it must be ordered after the init. */
Mbar *mbar_at(const Actor *by, const Buffer *b, int64_t index) {
  Wave *w = by->w;
  const SimOp *s = by->s;
  if (!check_place(w, s, b, index, by->lane)) return NULL;
  Mbar *m = find_mbar(by->home, buffer_address(b, index));
  if (!m || !m->live) {
    report(w, s, DIAG_E0809, NULL, "`%s`%s used by %s is not an initialised mbarrier", b->name,
           buffer_index(w->sim, b, index), who(w, by->lane));
    return NULL;
  }
  Actor a = actor_lane(w, s, by->lane, true);
  a.home = by->home;
  a.issues = by->issues;
  w->sim->stamp++;
  shadow_read(&a, b, index);
  return m;
}

static const Buffer *bar_buffer(Wave *w, const SimOp *s) {
  return w->sim->buffer[s->op->args[0]->id];
}

static int64_t bar_index(Wave *w, const SimOp *s, int l) {
  return wave_regs(w, s->op->args[1])[l].i;
}

static Mbar *own_mbar(Wave *w, const SimOp *s, int l) {
  Actor a = actor_lane(w, s, l, true);
  return mbar_at(&a, bar_buffer(w, s), bar_index(w, s, l));
}

static void complete_phase(Group *g, Mbar *m) {
  Sim *s = g->waves[0].sim;
  if (m->pending || m->bytes) return;
  m->phase++;
  m->pending = m->count;
  if (!m->gathering) m->gathering = clock_new(s);
  m->gathering->at[unit_in(g, mbar_unit(g, m))] = (uint32_t)m->phase;
  clock_join(s, m->gathering, m->complete); /* phases follow each other */
  clock_drop(s, m->complete);
  m->complete = m->gathering;
  m->gathering = NULL;
  s->events++;
}

void mbar_complete_bytes(Group *g, Mbar *m, int64_t bytes) {
  m->bytes -= bytes;
  complete_phase(g, m);
}

static void init_mbar(Wave *w, SimOp *s, int l, int64_t count) {
  const Buffer *b = bar_buffer(w, s);
  int64_t index = bar_index(w, s, l);
  if (!check_place(w, s, b, index, l)) return;
  Actor a = actor_lane(w, s, l, false);
  w->sim->stamp++;
  shadow_write(&a, b, index, false);
  mark_written(w->group, b, index);
  Mbar *m = make_mbar(w, buffer_address(b, index));
  if (!m) {
    report(w, s, DIAG_E0813, NULL, "a workgroup has more than %d mbarriers", SIM_MBARS);
    return;
  }
  if (m->live) {
    Diag *d = report(w, s, DIAG_E0809, m->init, "`%s`%s is initialised again by %s%s", b->name,
                     buffer_index(w->sim, b, index), who(w, l),
                     m->waiting ? " while threads wait at it" : "");
    if (d) diag_note(&w->sim->cx->diags, d, m->init->at, "it is initialised here");
  }
  if (count < 1 || count >= 1 << 20)
    report(w, s, DIAG_E0809, NULL, "an mbarrier of %lld arrivals", (long long)count);
  *m = (Mbar){.address = m->address,
              .live = true,
              .count = count,
              .pending = count,
              .waited = m->waited,
              .init = s->op};
  for (int t = 0; t < w->sim->threads; t++) m->waited[t] = -1;
  w->sim->events++;
}

Step step_mbar_init(Wave *w, SimOp *s) {
  int64_t count[64];
  wave_check_use(w, s, s->op->args[1], w->mask, "an address");
  if (wave_expr(w, s, s->expr, w->mask, count)) EACH_LANE(l, w->mask) init_mbar(w, s, l, count[l]);
  return STEP_NEXT;
}

Step step_mbar_inval(Wave *w, SimOp *s) {
  EACH_LANE(l, w->mask) {
    Mbar *m = own_mbar(w, s, l);
    if (!m) continue;
    if (m->waiting)
      report(w, s, DIAG_E0809, NULL, "an mbarrier is invalidated by %s while threads wait at it",
             who(w, l));
    if (m->pending != m->count || m->bytes)
      report(w, s, DIAG_E0809, NULL, "an mbarrier is invalidated by %s in the middle of a phase",
             who(w, l));
    m->live = false;
  }
  return STEP_NEXT;
}

Step step_mbar_expect(Wave *w, SimOp *s) {
  int64_t bytes[64];
  if (!wave_expr(w, s, s->expr, w->mask, bytes)) return STEP_NEXT;
  EACH_LANE(l, w->mask) {
    Mbar *m = own_mbar(w, s, l);
    if (m) m->bytes += bytes[l];
  }
  return STEP_NEXT;
}

/* An mbarrier that takes one more arrival in this phase, and the clock it gathers; NULL: none. */
static Mbar *arrival_at(const Actor *a) {
  Wave *w = a->w;
  Mbar *m = mbar_at(a, bar_buffer(w, a->s), bar_index(w, a->s, a->lane));
  if (m && !m->pending) {
    report(w, a->s, DIAG_E0809, m->init,
           "%s arrives at an mbarrier whose %lld arrivals are complete", who(w, a->lane),
           (long long)m->count);
    return NULL;
  }
  if (m && !m->gathering) m->gathering = clock_new(w->sim);
  return m;
}

static void count_arrival(const Actor *a, Mbar *m) {
  m->pending--;
  a->w->sim->events++;
  complete_phase(a->home, m);
}

Step step_mbar_arrive(Wave *w, SimOp *s) {
  int64_t bytes[64] = {0};
  Group *home[64];
  wave_check_use(w, s, s->op->args[1], w->mask, "an address");
  if (s->expr && !wave_expr(w, s, s->expr, w->mask, bytes)) return STEP_NEXT;
  EACH_LANE(l, s->peer ? cluster_homes(w, s, w->mask, home) : w->mask) {
    Actor a = actor_lane(w, s, l, true);
    if (s->peer) a.home = home[l];
    Mbar *m = arrival_at(&a);
    if (!m) continue;
    clock_release(w, UINT64_C(1) << l, m->gathering);
    m->bytes += bytes[l];
    count_arrival(&a, m);
  }
  return STEP_NEXT;
}

/* The arrival belongs to the copies: waiters learn that these are complete, and nothing else of
 * what the thread did. */
Step step_mbar_arrive_async(Wave *w, SimOp *s) {
  wave_check_use(w, s, s->op->args[1], w->mask, "an address");
  EACH_LANE(l, w->mask) {
    Actor a = actor_lane(w, s, l, true);
    Mbar *m = arrival_at(&a);
    if (!m) continue;
    clock_release_copies(w, l, m->gathering);
    count_arrival(&a, m);
  }
  return STEP_NEXT;
}

/* The phase a wait is about: the first with this parity that is not before the last one waited for.
 * Phase -1 is complete from the start, so that a producer may wait on a fresh barrier. */
static int64_t awaited_phase(const Mbar *m, int thread, int64_t parity) {
  int64_t last = m->waited[thread];
  return ((last & 1) == (parity & 1)) ? last : last + 1;
}

/* 1: complete, 0: not yet, -1: wrong. */
static int try_wait(Wave *w, SimOp *s, int l) {
  Mbar *m = own_mbar(w, s, l);
  if (!m) return -1;
  int thread = w->index * w->sim->wave + l;
  int64_t phase = awaited_phase(m, thread, wave_regs(w, s->op->args[2])[l].i);
  if (m->phase >= phase + 2) {
    report(w, s, DIAG_E0809, m->init,
           "%s waits for phase %lld of an mbarrier that is two phases ahead", who(w, l),
           (long long)phase);
    return -1;
  }
  return m->phase > phase;
}

Step step_mbar_wait(Wave *w, SimOp *s) {
  uint64_t wrong = 0;
  wave_check_use(w, s, s->op->args[1], w->mask, "an address");
  wave_check_use(w, s, s->op->args[2], w->mask, "the parity of a wait");
  EACH_LANE(l, w->mask) {
    int ready = try_wait(w, s, l);
    if (ready == 0) return STEP_AGAIN;
    wrong |= (uint64_t)(ready < 0) << l;
  }
  const Mbar *last = NULL;
  uint64_t lanes = 0;
  EACH_LANE(l, w->mask & ~wrong) {
    Mbar *m = find_mbar(w->group, buffer_address(bar_buffer(w, s), bar_index(w, s, l)));
    int thread = w->index * w->sim->wave + l;
    m->waited[thread] = awaited_phase(m, thread, wave_regs(w, s->op->args[2])[l].i);
    if (m != last && lanes) clock_acquire(w, lanes, last->complete), lanes = 0;
    last = m;
    if (m->complete) lanes |= UINT64_C(1) << l;
  }
  if (lanes) clock_acquire(w, lanes, last->complete);
  return STEP_NEXT;
}

/* ---- the end of a workgroup ---- */

void group_check_end(Group *g) {
  Wave *w = &g->waves[0];
  for (int i = 0; i < g->mbars.n; i++) {
    const Mbar *m = &g->mbars.at[i];
    if (!m->live || (m->pending == m->count && !m->bytes)) continue;
    report(w, &w->sim->ops[m->init->id], DIAG_E0809, NULL,
           "at the end of workgroup (%lld, %lld, %lld) this mbarrier waits for %lld of %lld "
           "arrivals and %lld bytes",
           (long long)g->id[0], (long long)g->id[1], (long long)g->id[2], (long long)m->pending,
           (long long)m->count, (long long)m->bytes);
  }
}
