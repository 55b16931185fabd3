/* sim.c: the simulator on one page: gangs of workgroups, schedules, deadlock. */
#include "backend/sim/sim_state.h"

#include <string.h>

#include "base/failures.h"
#include "ir/ops/alloc_layout.h"

/* ---- workgroups ---- */

static void start_lanes(Wave *w) {
  Sim *s = w->sim;
  w->lane = ARENA_ARRAY(s->gang_home, Lane, s->wave);
  for (int l = 0; l < s->wave; l++) {
    w->lane[l].own = w->lane[l].copying = w->lane[l].bulk = 1;
    int64_t thread = w->index * s->wave + l;
    if (thread < s->threads) w->lanes |= UINT64_C(1) << l;
    int64_t id[3] = {thread % s->block[0], thread / s->block[0] % s->block[1],
                     thread / s->block[0] / s->block[1]};
    for (int d = 0; d < 3; d++) w->sym[s->t_slot[d] * s->wave + l] = id[d];
  }
  w->mask = w->lanes;
}

static void set_arguments(Wave *w) {
  Sim *s = w->sim;
  for (int i = 0; i < s->k->params.n; i++) {
    const Value *v = s->k->body->args[i];
    if (v->type->kind == TYPE_mem) continue;
    DType t = v->type->dtype;
    Reg x = dtype_is_float(t) ? (Reg){.f = dtype_round(t, s->args[i].number)}
                              : (Reg){.i = s->args[i].integer};
    for (int l = 0; l < s->wave; l++) wave_regs(w, v)[l] = x;
    wave_undef(w, v)[0] = 0;
  }
}

static void start_wave(Sim *s, Group *g, int index) {
  Wave *w = &g->waves[index];
  *w = (Wave){.sim = s, .group = g, .index = index, .pc = ir_first(s->k), .wgmma_group = 1};
  w->unit = (uint32_t)(g->index * s->units.all + index * s->wave / s->per_unit);
  w->regs = ARENA_ARRAY(s->gang_home, Reg, s->nregs * s->wave);
  w->undef = ARENA_ARRAY(s->gang_home, uint64_t, s->nregs);
  memset(w->undef, 0xff, sizeof *w->undef * (size_t)s->nregs);
  w->flight = ARENA_ARRAY(s->gang_home, uint32_t, s->k->nvalues + 1);
  w->made = ARENA_ARRAY(s->gang_home, uint64_t, s->k->nvalues + 1);
  w->sym = ARENA_ARRAY(s->gang_home, int64_t, s->symbols.n * s->wave);
  for (int i = 0; i < s->symbols.n; i++)
    for (int l = 0; l < s->wave; l++) w->sym[i * s->wave + l] = s->symbols.at[i].value;
  for (int d = 0; d < 3; d++)
    for (int l = 0; l < s->wave; l++) w->sym[s->wg_slot[d] * s->wave + l] = g->id[d];
  w->frames = ARENA_ARRAY(s->gang_home, SimFrame, s->depth);
  int64_t *counts = ARENA_ARRAY(s->gang_home, int64_t, 2 * s->depth * s->wave);
  for (int i = 0; i < s->depth; i++) {
    w->frames[i].counter = counts + 2 * i * s->wave;
    w->frames[i].trips = counts + (2 * i + 1) * s->wave;
  }
  start_lanes(w);
  set_arguments(w);
  s->gang.waves_live++;
}

/* Every workgroup counts as the first of its thread here. */
static void open_kept(const Sim *s, Group *g) {
  for (const Op *op = ir_first(s->k); op; op = ir_next(op)) {
    if (op->kind != OP_alloc || !op_has(op, ATTR_kept)) continue;
    int64_t bytes = alloc_bytes(op); /* -1 of an empty one */
    if (bytes > 0) memset(g->written + s->buffer[op->results[0].id]->base, SIM_BYTE, (size_t)bytes);
  }
}

static void start_group(Sim *s, Group *g, int index, const int64_t *id) {
  *g = (Group){.gang = &s->gang, .index = index};
  memcpy(g->id, id, sizeof g->id);
  g->shared = ARENA_ARRAY(s->gang_home, unsigned char, s->shared_bytes + 16);
  g->written = ARENA_ARRAY(s->gang_home, unsigned char, s->shared_bytes + 16);
  g->shadow = shadow_new(s->gang_home, 2 * s->shared_bytes / s->shared_grain + 16, s->shared_grain);
  open_kept(s, g);
  g->wave = ARENA_ARRAY(s->gang_home, Rendezvous, s->nwaves);
  g->waves = ARENA_ARRAY(s->gang_home, Wave, s->nwaves);
  for (int i = 0; i < s->nwaves; i++) start_wave(s, g, i);
  wgmma_open(s, g);
  g->live = s->nwaves;
}

/* ---- schedules ---- */

/* Workgroups start in order, as soon as there is room for them. */
static bool is_resident(const Wave *w) {
  const Sim *s = w->sim;
  return w->group->index < s->resident + s->gang.ended;
}

static bool can_run(const Wave *w) {
  return is_resident(w) && !w->ended && !w->parked && (!w->stuck || w->tried != w->sim->events);
}

static uint64_t random_next(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* The wave to run after number `last`, and for how many steps; NULL: none can run. */
static Wave *choose(Sim *s, int *last, uint64_t *steps) {
  int n = s->gang.ngroups * s->nwaves, start = *last, by = 1;
  *steps = UINT64_MAX;
  if (s->o->schedule == SIM_REVERSE || s->o->schedule == SIM_LAST) by = n - 1;
  if (s->o->schedule == SIM_FIRST) start = n - 1, *steps = 1;
  if (s->o->schedule == SIM_LAST) start = 0, *steps = 1;
  if (s->o->schedule == SIM_RANDOM) {
    start = (int)(random_next(&s->random) % (uint64_t)n);
    *steps = 1 + random_next(&s->random) % 32;
  }
  for (int i = 1; i <= n; i++) {
    int at = (int)(((int64_t)start + (int64_t)i * by) % n);
    Wave *w = &s->gang.groups[at / s->nwaves].waves[at % s->nwaves];
    if (!can_run(w)) continue;
    *last = at;
    return w;
  }
  return NULL;
}

static void end_wave(Wave *w) {
  Sim *s = w->sim;
  w->ended = true;
  s->gang.waves_live--;
  if (--w->group->live == 0) {
    cluster_check_end(w->group);
    sim_group_check_end(w->group);
    wgmma_check_end(w->group);
    s->gang.ended++;
  }
  s->events++;
}

/* The user may have pressed Ctrl-C. */
static void ask_to_go_on(Sim *s) {
  if (++s->turns % 256 || !s->o->interrupted || !s->o->interrupted(s->o->user)) return;
  s->interrupted = s->stop = true;
}

static void run_wave(Wave *w, uint64_t steps) {
  Sim *s = w->sim;
  w->stuck = false;
  for (uint64_t i = 0; i < steps && w->pc && !s->stop; i++) {
    ask_to_go_on(s);
    Step step = wave_step(w);
    if (step == STEP_AGAIN || step == STEP_PARK || w->stuck) return;
    if (s->o->steps && w->steps >= s->o->steps) {
      sim_report(w, &s->ops[w->pc ? w->pc->id : 0], DIAG_E0814, NULL,
                 "wave %d did not finish within %llu instructions", w->index,
                 (unsigned long long)s->o->steps);
      s->stop = true;
    }
  }
  if (!w->pc) end_wave(w);
}

/* ---- deadlock ---- */

static const char *why(const Wave *w, const Op *at) {
  if (w->ended) return "has ended";
  if (!is_resident(w)) return "has not started: its workgroup waits for others to end";
  return w->parked                  ? "waits at a barrier that is not complete"
         : at->kind == OP_mbar_wait ? "waits for a phase that is not complete"
                                    : "waits for memory that no other thread changes";
}

static const Op *parked_at(const Wave *w) {
  const Group *g = w->group;
  const Rendezvous *all[3 + SIM_NAMED] = {&g->workgroup, &cluster_peer(g, 0)->cluster,
                                          &g->wave[w->index]};
  for (int i = 0; i < SIM_NAMED; i++) all[3 + i] = &g->named[i];
  for (size_t r = 0; r < WV_LEN(all); r++)
    for (int i = 0; i < all[r]->nparked; i++)
      if (all[r]->parked[i] == w) return all[r]->op;
  return NULL;
}

/* The op at which a wave is blocked; NULL: it has ended. */
static const Op *blocked_at(const Wave *w) {
  if (w->ended) return NULL;
  if (w->parked) return parked_at(w);
  return w->depth && w->pc->kind != OP_mbar_wait ? w->frames[w->depth - 1].op : w->pc;
}

/* One finding that says where every group of waves is. */
static void report_deadlock(Sim *s) {
  Wave *first = NULL;
  const Op *at = NULL;
  for (int g = 0; g < s->gang.ngroups && !first; g++)
    for (int i = 0; i < s->nwaves && !first; i++)
      if (!s->gang.groups[g].waves[i].ended) first = &s->gang.groups[g].waves[i];
  WV_ASSERT(first);
  at = blocked_at(first);
  bool ended = first->group->live < s->nwaves && first->parked;
  DiagCode code = ended ? DIAG_E0805 : DIAG_E0807;
  Diag *d = sim_report(first, &s->ops[at->id], code, NULL,
                       "deadlock: wave %d of workgroup (%lld, %lld, %lld) %s", first->index,
                       (long long)first->group->id[0], (long long)first->group->id[1],
                       (long long)first->group->id[2], why(first, at));
  const Op *told = at;
  for (int i = 0; d && i < s->nwaves; i++) {
    Wave *w = &first->group->waves[i];
    const Op *here = blocked_at(w);
    if (here == told) continue;
    told = here;
    diag_note(&s->cx->diags, d, here ? here->at : (Span){0}, "wave %d %s", i, why(w, here));
  }
}

/* ---- all of it ---- */

/* Runs these workgroups of the grid concurrently. */
static void run_gang(Sim *s, const int64_t (*ids)[3], int n) {
  arena_reset(s->gang_home);
  s->free_clocks = NULL;
  s->free_readers[true] = NULL;
  s->flags = (Map){0};
  s->gang = (Gang){.ngroups = n, .number = s->gang.number + 1};
  s->gang.groups = ARENA_ARRAY(s->gang_home, Group, n);
  s->nunits = s->units.all * n;
  for (int i = 0; i < n; i++) start_group(s, &s->gang.groups[i], i, ids[i]);
  int last = s->o->schedule == SIM_REVERSE ? 0 : n * s->nwaves - 1;
  while (s->gang.waves_live && !s->stop) {
    uint64_t steps;
    Wave *w = choose(s, &last, &steps);
    if (!w) {
      report_deadlock(s);
      s->stop = true;
      return;
    }
    run_wave(w, steps);
  }
}

static void run_grid(Sim *s) {
  const int64_t *size = s->talks ? s->grid : s->cluster;
  int n = (int)(size[0] * size[1] * size[2]);
  int64_t(*ids)[3] = arena_alloc(s->home, sizeof *ids * (size_t)n);
  int64_t at[3];
  for (at[2] = 0; at[2] < s->grid[2]; at[2] += size[2])
    for (at[1] = 0; at[1] < s->grid[1]; at[1] += size[1])
      for (at[0] = 0; at[0] < s->grid[0] && !s->stop; at[0] += size[0]) {
        for (int i = 0; i < n; i++) {
          ids[i][0] = at[0] + i % size[0];
          ids[i][1] = at[1] + i / size[0] % size[1];
          ids[i][2] = at[2] + i / size[0] / size[1];
        }
        run_gang(s, (const int64_t(*)[3])ids, n);
      }
}

static void deliver_logs(const Sim *s) {
  for (int i = kernel_given(s->k); s->o->log && i < s->k->params.n; i++)
    if (s->k->params.at[i].log) s->o->log(s->o->user, s->k->params.at[i].log, s->args[i].buffer);
}

/* Not checked for a run that stopped early. */
static bool check_workspace(Sim *s) {
  for (int i = kernel_given(s->k); !s->findings && !s->interrupted && i < s->k->params.n; i++) {
    const Param *p = &s->k->params.at[i];
    if (p->workspace && !p->undefined && !log_is_zero(s->args[i].buffer))
      return sim_fail_setup(s, DIAG_E0817, p->at,
                            "the workspace `%s` is not zero at the end of the kernel", p->name);
  }
  return true;
}

/* The findings may explain why an assertion failed, so both are reported. */
static bool check_report(const Sim *s) {
  bool ok = true;
  for (int i = kernel_given(s->k); !s->interrupted && i < s->k->params.n; i++) {
    const EvalBuffer *b = s->args[i].buffer;
    const char *report = s->k->params.at[i].report;
    if (report) ok &= failures_report(&s->cx->diags, report, b->data, b->shape[0]);
  }
  return ok;
}

bool sim_run(Kernel *k, const EvalArg *args, int nargs, const SimOptions *o, SimReport *out) {
  static const SimOptions plain;
  Sim s = {.k = k, .cx = k->cx, .args = args, .o = o ? o : &plain};
  s.home = arena_new();
  s.gang_home = arena_new();
  s.scratch = arena_new();
  s.machine = s.o->machine;
  s.random = s.o->seed;
  sim_forget_subject(&s);
  ir_renumber(k);
  bool ready = sim_setup(&s, nargs);
  bool empty = !s.grid[0] || !s.grid[1] || !s.grid[2] || !ir_first(k);
  if (ready && !empty) run_grid(&s);
  if (ready) deliver_logs(&s);
  bool clean = ready && check_workspace(&s);
  sim_note_counts(&s);
  clean &= ready && check_report(&s);
  if (ready && out) sim_make_report(&s, out);
  arena_free(s.scratch);
  arena_free(s.gang_home);
  arena_free(s.home);
  return clean && !s.findings && !s.interrupted;
}
