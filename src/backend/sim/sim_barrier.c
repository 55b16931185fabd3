/* sim_barrier.c: barriers.
 *
 * A thread that arrives releases its knowledge into the barrier's clock; when all have arrived,
 * those that wait acquire it. An mbarrier does the same in phases: a phase is complete when its
 * arrivals and its bytes are, and threads that wait for a phase acquire the arrivals and the copies
 * of that phase. */
#include <string.h>

#include "backend/sim/sim_state.h"
#include "ir/schedule/schedule.h"

/* ---- meetings of waves ---- */

static bool sees_stores_late(const Sim *s) { return s->machine->vendor == VENDOR_AMD; }

/* All barriers order memory, except two of AMD's, which do not wait for stores. A partial wave has
 * been reported; it counts as whole. */
static void arrive(Wave *w, const SimOp *s, Rendezvous *r) {
  bool bare = s->op->kind == OP_workgroup_barrier || op_has(s->op, ATTR_no_ds_wait);
  if (!r->gathering) r->gathering = clock_new(w->sim);
  if (bare && sees_stores_late(w->sim)) clock_release_settled(w, w->lanes, r->gathering);
  else clock_release(w, w->lanes, r->gathering);
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

/* All have arrived: waiting threads continue and know what the others did. They share one clock. */
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

/* A barrier counts up to what the first of its threads specified. */
static bool agree(Wave *w, const SimOp *s, Rendezvous *r, int wanted) {
  if (!r->arrived) r->wanted = wanted;
  if (r->wanted == wanted) return true;
  Diag *d = sim_report(w, s, DIAG_E0805, r->op,
                       "wave %d arrives at a barrier of %d threads, but other waves expect %d",
                       w->index, wanted, r->wanted);
  if (d) diag_note(&w->sim->cx->diags, d, r->op->at, "the other wave arrives here");
  return false;
}

static Step meet(Wave *w, const SimOp *s, Rendezvous *r, int wanted, bool waits) {
  wave_whole(w, s);
  if (!agree(w, s, r, wanted)) return STEP_NEXT;
  arrive(w, s, r);
  if (waits) park(w, r);
  if (r->arrived > wanted)
    sim_report(w, s, DIAG_E0805, NULL, "%d threads have arrived at a barrier of %d", r->arrived,
               wanted);
  if (r->arrived >= wanted) open_gate(w->sim, r);
  return w->parked ? STEP_PARK : STEP_NEXT;
}

Step step_workgroup_barrier(Wave *w, SimOp *s) {
  return meet(w, s, &w->group->workgroup, w->sim->threads, true);
}

/* ---- named barriers ---- */

/* A wave that arrives again counts for one that is still missing: those that wait would continue
 * without that one. No machine has workgroups of more waves than there are bits. */
static void note_arrival(Wave *w, const SimOp *s, Rendezvous *r, int bar) {
  uint64_t bit = w->index < 64 ? UINT64_C(1) << w->index : 0;
  if (!r->arrived) r->came = 0;
  if (r->came & bit)
    sim_report(w, s, DIAG_E0805, NULL,
               "wave %d arrives again at named barrier %d, at which %d of %d threads have arrived",
               w->index, bar, r->arrived, r->wanted);
  r->came |= bit;
}

static Step meet_named(Wave *w, SimOp *s) {
  int64_t bar = op_attr(s->op, ATTR_bar)->integer, member = 0, count = 0;
  if (!wave_uniform(w, s, s->expr, &count)) return STEP_NEXT;
  if (s->peer && !wave_uniform(w, s, s->peer, &member)) return STEP_NEXT;
  bar += member;
  if (bar < 1 || bar >= SIM_NAMED || count < 1 || count % w->sim->wave) { /* 0: the workgroup's */
    sim_report(
        w, s, DIAG_E0805, NULL,
        "named barrier %lld of %lld threads: the id must be 1 to %d, and the count a multiple "
        "of the wave size",
        (long long)bar, (long long)count, SIM_NAMED - 1);
    return STEP_NEXT;
  }
  Rendezvous *r = &w->group->named[bar];
  note_arrival(w, s, r, (int)bar);
  return meet(w, s, r, (int)count, !op_has(s->op, ATTR_arrive));
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

/* The halves of a split barrier use a named one: signal arrives, wait completes when all have
 * arrived. */
static int split_number(const Op *op) {
  const Attr *bar = op_attr(op, ATTR_bar);
  return bar && bar->integer > 0 ? (int)(bar->integer % SIM_NAMED) : 0;
}

/* A wave must alternate between signalling and waiting. */
static bool in_turn(Wave *w, const SimOp *s, bool signals) {
  uint32_t bit = UINT32_C(1) << split_number(s->op);
  bool did = w->signalled & bit;
  w->signalled ^= bit;
  if (did != signals) return true;
  w->signalled ^= bit;
  sim_report(w, s, DIAG_E0805, NULL,
             signals ? "wave %d signals a split barrier twice without waiting at it"
                     : "wave %d waits at a split barrier that it has not signalled",
             w->index);
  return false;
}

Step step_barrier_signal(Wave *w, SimOp *s) {
  wave_whole(w, s);
  if (in_turn(w, s, true)) arrive(w, s, &w->group->named[split_number(s->op)]);
  return STEP_NEXT;
}

Step step_barrier_wait(Wave *w, SimOp *s) {
  Rendezvous *r = &w->group->named[split_number(s->op)];
  wave_whole(w, s);
  if (!in_turn(w, s, false)) return STEP_NEXT;
  park(w, r);
  if (r->nparked == w->sim->nwaves && r->arrived >= w->sim->threads) open_gate(w->sim, r);
  return w->parked ? STEP_PARK : STEP_NEXT;
}

Step step_shared_barrier(Wave *w, SimOp *s) {
  if (op_has(s->op, ATTR_wait_async)) sim_wait_for_copies(w);
  return step_workgroup_barrier(w, s);
}

/* Registers of a thread with which a kernel begins that exchanges them. */
static int entry_registers(const Sim *s) {
  int most = target_most_registers(s->machine, s->nwaves);
  return most - most % ROLE_REGISTERS_STEP;
}

Step step_wave_registers(Wave *w, SimOp *s) {
  bool takes = strcmp(op_attr(s->op, ATTR_mode)->text, "take") == 0;
  int64_t count = 0;
  wave_whole(w, s);
  if (!sym_is_int(op_attr(s->op, ATTR_count)->sym, &count)) return STEP_NEXT;
  if (!w->registers) w->registers = entry_registers(w->sim);
  w->group->taken += count - w->registers;
  w->registers = count;
  if (takes) w->group->takes = s;
  return STEP_NEXT;
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

/* A counter counts the accesses of its kind in the order of their issue, for the whole wave: loads
 * of global memory and direct copies, stores to it, accesses of shared memory. */
static void wait_counter(Wave *w, const char *name, int64_t left) {
  bool loads = strcmp(name, "load") == 0, stores = strcmp(name, "store") == 0;
  bool shared = strcmp(name, "ds") == 0;
  uint32_t done = loads && left < w->counted ? w->counted - (uint32_t)left : 0;
  EACH_LANE(l, w->lanes) {
    Lane *lane = &w->lane[l];
    if (lane->done < done) lane->done = done;
    if (left == 0 && (stores || shared)) lane->pending[shared] = false;
  }
}

static void wait_counted(Wave *w, const SimOp *s) {
  const Attr *counters = op_attr(s->op, ATTR_counters);
  for (int i = 0; counters && i < counters->n; i++)
    wait_counter(w, counters->counts[i].name, counters->counts[i].count);
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

enum { MBAR_BYTES = 8, MBAR_MOST_BYTES = (1 << 20) - 1 };

int mbar_unit(const Group *g, const Mbar *m) {
  return g->waves[0].sim->units.mbars + (int)(m - g->mbars.at);
}

/* Phase numbers continue when an mbarrier is initialised again: its copies are later ones. */
uint32_t mbar_clock(const Mbar *m, int64_t phase) { return (uint32_t)(m->earlier + phase); }

static Mbar *find_mbar(Group *g, int64_t address) {
  for (int i = 0; i < g->mbars.n; i++)
    if (g->mbars.at[i].address == address) return &g->mbars.at[i];
  return NULL;
}

static int most_mbars(const Sim *s) { return s->units.all - s->units.mbars; }

/* NULL: there are too many. */
static Mbar *make_mbar(Wave *w, int64_t address) {
  Group *g = w->group;
  Mbar *m = find_mbar(g, address);
  if (m || g->mbars.n == most_mbars(w->sim)) return m;
  vec_push(w->sim->gang_home, &g->mbars, ((Mbar){.address = address}));
  m = &g->mbars.at[g->mbars.n - 1];
  m->waited = ARENA_ARRAY(w->sim->gang_home, int64_t, w->sim->threads);
  return m;
}

static bool check_mbar(Wave *w, const SimOp *s, const Buffer *b, int64_t index, int lane) {
  if (buffer_inside(b, index)) return access_aligned(w, s, b, index, MBAR_BYTES, lane);
  sim_report(w, s, DIAG_E0801, NULL, "`%s`%s accessed by %s is out of bounds", b->name,
             buffer_index(w->sim, b, index), sim_who(w, lane));
  return false;
}

/* Using an mbarrier is an atomic access to its memory: it must be ordered after the init. */
Mbar *mbar_at(const Actor *by, const Buffer *b, int64_t index) {
  Wave *w = by->w;
  const SimOp *s = by->s;
  if (!check_mbar(w, s, b, index, by->lane)) return NULL;
  Mbar *m = find_mbar(by->home, buffer_address(b, index));
  if (!m || !m->live) {
    sim_report(w, s, DIAG_E0809, NULL, "`%s`%s used by %s is not an initialised mbarrier", b->name,
               buffer_index(w->sim, b, index), sim_who(w, by->lane));
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
  m->gathering->at[sim_unit_in(g, mbar_unit(g, m))] = mbar_clock(m, m->phase);
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

static void mark_barrier(const Group *g, const Buffer *b, int64_t index, int how) {
  memset(g->written + buffer_address(b, index), how, MBAR_BYTES);
}

static void init_mbar(Wave *w, SimOp *s, int l, int64_t count) {
  const Buffer *b = bar_buffer(w, s);
  int64_t index = bar_index(w, s, l);
  if (!check_mbar(w, s, b, index, l)) return;
  Actor a = actor_lane(w, s, l, false);
  w->sim->stamp++;
  shadow_write(&a, b, index, false);
  mark_barrier(w->group, b, index, SIM_BYTE | SIM_BARRIER);
  Mbar *m = make_mbar(w, buffer_address(b, index));
  if (!m) {
    sim_report(w, s, DIAG_E0813, NULL, "a workgroup has more than %d mbarriers",
               most_mbars(w->sim));
    return;
  }
  if (m->live) {
    Diag *d = sim_report(w, s, DIAG_E0809, m->init, "`%s`%s is initialised again by %s%s", b->name,
                         buffer_index(w->sim, b, index), sim_who(w, l),
                         m->waiting ? " while threads wait at it" : "");
    if (d) diag_note(&w->sim->cx->diags, d, m->init->at, "it was initialised here");
  }
  if (count < 1 || count >= 1 << 20)
    sim_report(w, s, DIAG_E0809, NULL, "an mbarrier with %lld arrivals, which is out of range",
               (long long)count);
  *m = (Mbar){.address = m->address,
              .live = true,
              .count = count,
              .pending = count,
              .earlier = m->earlier + m->phase + 1,
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
      sim_report(w, s, DIAG_E0809, NULL,
                 "an mbarrier is invalidated by %s while threads wait at it", sim_who(w, l));
    if (m->pending != m->count || m->bytes)
      sim_report(w, s, DIAG_E0809, NULL,
                 "an mbarrier is invalidated by %s in the middle of a phase", sim_who(w, l));
    if (m->loading > m->observed)
      sim_report(w, s, DIAG_E0809, m->load->op,
                 "an mbarrier is invalidated by %s while a tensor copy may still arrive at it",
                 sim_who(w, l));
    m->live = false;
    mark_barrier(w->group, bar_buffer(w, s), bar_index(w, s, l), 0);
  }
  return STEP_NEXT;
}

static bool bytes_fit(Wave *w, const SimOp *s, int l, int64_t bytes) {
  if (bytes >= 0 && bytes <= MBAR_MOST_BYTES) return true;
  sim_report(w, s, DIAG_E0809, NULL,
             "%s expects %lld bytes at an mbarrier, more than the limit of %d", sim_who(w, l),
             (long long)bytes, MBAR_MOST_BYTES);
  return false;
}

Step step_mbar_expect(Wave *w, SimOp *s) {
  int64_t bytes[64];
  if (!wave_expr(w, s, s->expr, w->mask, bytes)) return STEP_NEXT;
  EACH_LANE(l, w->mask) {
    Mbar *m = own_mbar(w, s, l);
    if (m && bytes_fit(w, s, l, bytes[l])) m->bytes += bytes[l];
  }
  return STEP_NEXT;
}

/* An mbarrier that can take one more arrival in this phase, and the clock it gathers; NULL:
 * none. */
static Mbar *arrival_at(const Actor *a) {
  Wave *w = a->w;
  Mbar *m = mbar_at(a, bar_buffer(w, a->s), bar_index(w, a->s, a->lane));
  if (m && !m->pending) {
    sim_report(w, a->s, DIAG_E0809, m->init,
               "%s arrives at an mbarrier whose %lld arrivals are complete", sim_who(w, a->lane),
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
    if (bytes_fit(w, s, l, bytes[l])) m->bytes += bytes[l];
    count_arrival(&a, m);
  }
  return STEP_NEXT;
}

/* The arrival belongs to the copies: waiting threads learn that these are complete, and nothing
 * else of what the thread did. */
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

/* The phase that a wait refers to: the first with this parity that is not before the last one the
 * thread waited for, or knows to be complete because it synchronised with a thread that waited for
 * it. Phase -1 is complete from the start, so that a producer may wait on a fresh barrier. */
static int64_t awaited_phase(const Wave *w, const Mbar *m, int l, int64_t parity) {
  int64_t last = m->waited[w->index * w->sim->wave + l];
  uint32_t clock = clock_known(w, l, sim_unit_in(w->group, mbar_unit(w->group, m)));
  int64_t known = (int64_t)clock - m->earlier - 1;
  if (last < known) last = known;
  return ((last & 1) == (parity & 1)) ? last : last + 1;
}

/* 1: complete, 0: not yet, -1: error. */
static int try_wait(Wave *w, SimOp *s, int l) {
  Mbar *m = own_mbar(w, s, l);
  if (!m) return -1;
  int64_t phase = awaited_phase(w, m, l, wave_regs(w, s->op->args[2])[l].i);
  if (m->phase >= phase + 2) {
    sim_report(w, s, DIAG_E0809, m->init,
               "%s waits for phase %lld of an mbarrier that is two phases ahead", sim_who(w, l),
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
    int64_t phase = awaited_phase(w, m, l, wave_regs(w, s->op->args[2])[l].i);
    m->waited[w->index * w->sim->wave + l] = phase;
    if (m->observed <= phase) m->observed = phase + 1;
    if (m != last && lanes) clock_acquire(w, lanes, last->complete), lanes = 0;
    last = m;
    if (m->complete) lanes |= UINT64_C(1) << l;
  }
  if (lanes) clock_acquire(w, lanes, last->complete);
  return STEP_NEXT;
}

/* ---- the end of a workgroup ---- */

/* The shared memory of a workgroup that has ended may belong to another. */
static void report_under_way(Wave *w, const SimOp *s, const char *what, const char *how) {
  const Group *g = w->group;
  Diag *d =
      sim_report(w, s, DIAG_E0818, NULL,
                 "workgroup (%lld, %lld, %lld) ends while this tensor copy may still %s its shared "
                 "memory",
                 (long long)g->id[0], (long long)g->id[1], (long long)g->id[2], what);
  if (d) diag_hint(&w->sim->cx->diags, d, "%s", how);
}

static void check_stores_end(Wave *w) {
  EACH_LANE(l, w->lanes) {
    const Lane *lane = &w->lane[l];
    if (lane->stored > lane->read)
      report_under_way(w, lane->store, "read",
                       "execute `bulk_commit` and `bulk_wait` in the issuing thread first");
  }
}

void sim_group_check_end(Group *g) {
  Wave *w = &g->waves[0];
  if (g->takes && g->taken > 0)
    sim_report(w, g->takes, DIAG_E0807, NULL,
               "waves wait for registers: for each lane, they take %lld more than others of the "
               "workgroup, which begin with %d, release",
               (long long)g->taken, entry_registers(w->sim));
  for (int i = 0; i < w->sim->nwaves; i++) check_stores_end(&g->waves[i]);
  for (int i = 0; i < g->mbars.n; i++)
    if (g->mbars.at[i].loading > g->mbars.at[i].observed)
      report_under_way(w, g->mbars.at[i].load, "write", "wait for the phase of its mbarrier first");
  for (int i = 0; i < g->mbars.n; i++) {
    const Mbar *m = &g->mbars.at[i];
    if (!m->live || (m->pending == m->count && !m->bytes)) continue;
    sim_report(
        w, &w->sim->ops[m->init->id], DIAG_E0809, NULL,
        "at the end of workgroup (%lld, %lld, %lld) this mbarrier still waits for %lld of %lld "
        "arrivals and %lld bytes",
        (long long)g->id[0], (long long)g->id[1], (long long)g->id[2], (long long)m->pending,
        (long long)m->count, (long long)m->bytes);
  }
}
