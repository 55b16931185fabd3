/* trial.c: see trial.h. */
#include "transform/solve/trial.h"

#include <string.h>

#include "anchors/anchors.h"
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/ops/live.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/turn_ops.h"
#include "schedule/proof/loop_proof.h"
#include "transform/pass_manager.h"
#include "transform/stages/roles/stages_roles.h"

enum {
  ENOUGH_WAVES = 2,   /* of a SIMD: while one waits, the other computes */
  BESIDES_TILES = 48, /* registers for addresses and the like, */
  BESIDES_BOXES = 26, /* and where lanes compute none: GEMM on sm_90a 26, attention 15 to 40 */
  LEAST_BESIDES = 36  /* with fewer of them ptxas spills: attention on sm_90a needs 26 to 36 */
};
#define ENOUGH_BETTER 0.99 /* predictions are not exact */
#define FULL 1.000001      /* sums are not, either */

bool solve_is_about(const SolveLoop *s, const Constraint *row) {
  bool pins = schedule_is_row(row) && row->kind != CONSTRAINT_prio && row->kind != CONSTRAINT_fence;
  return pins && schedule_is_for(row, s->target) && strcmp(row->scheduled.loop, s->name) == 0;
}

/* ---- the copy ---- */

static Kernel *copy_with(const SolveLoop *s, const RowList *rows) {
  Kernel *k = kernel_clone(s->k);
  int n = 0;
  for (int i = 0; i < k->constraints.n; i++)
    if (!solve_is_about(s, &k->constraints.at[i])) k->constraints.at[n++] = k->constraints.at[i];
  k->constraints.n = n;
  for (int i = 0; i < rows->n; i++)
    vec_push(k->arena, &k->constraints, constraint_copy(k, &rows->at[i]));
  return k;
}

/* ---- what it costs ---- */

/* Whether the loop computes or carries a value. */
static bool is_from_loop(const Trial *t, const Value *v) {
  const Op *home = v->def ? v->def : v->owner->owner;
  return home && (home == t->loop || op_is_inside(home, t->loop));
}

static int outside_registers(const Trial *t) {
  bool *seen = ARENA_ARRAY(t->arena, bool, t->k->nvalues);
  int sum = 0;
  for (const Op *op = t->loop->body->first; op && op_is_inside(op, t->loop); op = ir_next(op))
    for (int i = 0; i < op->nargs; i++) {
      const Value *v = op->args[i];
      if (is_from_loop(t, v) || seen[v->id] || !v->layout) continue;
      seen[v->id] = true;
      sum += live_registers(v);
    }
  return sum;
}

static bool is_named_before(const Op *op, int arg) {
  for (int i = 0; i < arg; i++)
    if (op->args[i] == op->args[arg]) return true;
  return false;
}

int trial_least_registers(const Trial *t, const Op **at) {
  int least = t->outside;
  *at = t->loop;
  for (const Op *op = t->loop->body->first; op && op_is_inside(op, t->loop); op = ir_next(op)) {
    int sum = t->outside;
    for (int i = 0; op != t->loop->body->last && i < op->nargs; i++)
      if (is_from_loop(t, op->args[i]) && op->args[i]->layout && !is_named_before(op, i))
        sum += live_registers(op->args[i]);
    if (sum > least) least = sum, *at = op;
  }
  return least;
}

/* Groups of waves that take turns in the loop. */
static int groups_in(const Op *loop) {
  for (const Op *op = loop->body->first; op; op = op->next)
    if (op->kind == OP_turn) return turn_groups(op);
  return 0;
}

/* Whether lanes compute addresses in the loop: not of boxes that an engine copies, nor of what products
 * read from shared memory themselves. */
static bool has_addresses(const Trial *t) {
  for (const Op *op = t->loop->body->first; op && op_is_inside(op, t->loop); op = ir_next(op)) {
    OpClass class = schedule_class(op);
    bool boxed = class == OP_CLASS_copy && copy_goes_by(op, "tma");
    bool direct = class == OP_CLASS_fetch && !op->results[0].layout;
    bool moves = class != OP_CLASS_none && class != OP_CLASS_mma && class != OP_CLASS_reduce;
    if (moves && !boxed && !direct) return true;
  }
  return false;
}

static void measure(Trial *t) {
  const int *live = live_at_ops(t->arena, t->k);
  t->bytes = alloc_end(t->k);
  t->outside = outside_registers(t);
  t->besides = has_addresses(t) ? BESIDES_TILES : BESIDES_BOXES;
  t->turns = groups_in(t->loop);
  t->depth = 1;
  /* Waves exchange registers only if a compute unit holds no other workgroup. */
  int taken = live_taken(t->k);
  t->alone = taken > 0;
  int least = t->besides > LEAST_BESIDES ? t->besides : LEAST_BESIDES;
  t->room = (taken ? taken : t->machine.target->registers) - least;
  for (const Op *op = t->loop->body->first; op && op_is_inside(op, t->loop); op = ir_next(op)) {
    int ahead = schedule_ahead(t->k, t->loop, op);
    if (ahead >= t->depth) t->depth = ahead + 1;
    if (live[op->id] > t->registers) t->registers = live[op->id];
  }
}

static bool find_loop(Trial *t, const SolveLoop *s) {
  const MachineSpec *row = kernel_machine(t->k);
  t->loop = schedule_next_loop(t->k, NULL, s->name);
  if (!row || !t->loop) return false;
  t->machine = machine_from(s->target, row);
  ir_renumber(t->k);
  measure(t);
  return true;
}

Trial *trial_in(const SolveLoop *s, Kernel *k, Arena *a) {
  Trial *t = ARENA_NEW(a, Trial);
  *t = (Trial){.arena = a, .k = k};
  return find_loop(t, s) ? t : NULL;
}

void trial_time(Trial *t, int64_t guess) {
  t->facts = facts_of(t->k, t->arena, FACT_memory_uses | FACT_distribute);
  t->times =
      loop_times(t->arena, t->facts.distribute, &t->machine, t->facts.memory_uses, t->loop, guess);
}

LoopTimes trial_apart(const Trial *t, Arena *a) {
  return loop_times_apart(a, t->facts.distribute, &t->machine, t->facts.memory_uses, t->loop);
}

static Trial *try_rows(const SolveLoop *s, const RowList *rows, bool reports, bool proved) {
  Arena *a = arena_new();
  Trial *t = ARENA_NEW(a, Trial);
  Diags *diags = &s->k->cx->diags;
  Diag *before = diags->last;
  PassOptions o = {.passes = "stages,allocs,sync,turns",
                   .trial = true,
                   .unproved = !proved,
                   .target = s->target->name};
  *t = (Trial){.arena = a, .k = copy_with(s, rows)};
  for (int i = 0; i < rows->n; i++) vec_push(a, &t->rows, constraint_copy(t->k, &rows->at[i]));
  bool ok = passes_run(t->k, &o) && find_loop(t, s);
  if (ok || !reports) diags_cut(diags, before);
  if (ok) return t;
  trial_free(t);
  return NULL;
}

Trial *trial_new(const SolveLoop *s, const RowList *rows, bool proved) {
  return try_rows(s, rows, false, proved);
}
Trial *trial_first(const SolveLoop *s, const RowList *rows) {
  return try_rows(s, rows, true, false);
}

bool trial_prove(const Trial *t) {
  Diags *diags = &t->k->cx->diags;
  Diag *before = diags->last;
  bool ok = loop_proof_check(t->facts.distribute, t->facts.memory_uses, t->machine.target);
  if (!ok) diags_cut(diags, before);
  return ok;
}

void trial_free(Trial *t) {
  if (!t) return;
  kernel_free(t->k);
  arena_free(t->arena);
}

/* ---- comparing ---- */

/* Workgroups that a compute unit holds. */
static int64_t groups_with(const Trial *t, int64_t registers) {
  int64_t waves = t->machine.waves + t->machine.service;
  return t->alone ? 1 : unit_groups(t->machine.target, waves, registers + t->besides, t->bytes);
}

static int waves_with(const Trial *t, int64_t registers) {
  int64_t waves = t->machine.waves + t->machine.service, simds = t->machine.target->simds;
  return (int)((groups_with(t, registers) * waves + simds - 1) / simds);
}

bool trial_spills(const Trial *t) { return t->registers > t->machine.target->registers; }

int trial_waves(const Trial *t) { return waves_with(t, t->registers); }

int trial_most_registers(const Trial *t) {
  int before = trial_waves(t), most = t->room;
  while (most > t->registers &&
         waves_with(t, most) < (before < ENOUGH_WAVES ? before : ENOUGH_WAVES))
    most--;
  return most > t->registers ? most : t->registers;
}

bool trial_may_be_served(const Trial *t, int copying) {
  const Machine *m = &t->machine;
  return t->registers <= roles_registers(m->target, m->waves, copying) - LEAST_BESIDES;
}

int64_t trial_most_bytes(const Trial *t) {
  const TargetInfo *target = t->machine.target;
  int waves = trial_waves(t) < ENOUGH_WAVES ? trial_waves(t) : ENOUGH_WAVES;
  int64_t groups = (int64_t)waves * target->simds / t->machine.waves;
  int64_t most = target->shared_most / (groups < 1 ? 1 : groups);
  return most > t->bytes ? most : t->bytes;
}

int trial_groups(const Trial *t) { return (int)groups_with(t, t->registers); }

/* A workgroup with fewer waves than there are SIMDs leaves the units of the others to others. */
static double share_of(const Trial *t, int unit) {
  double share = (double)t->machine.waves / t->machine.target->simds;
  return unit_info[unit].each_simd && share < 1 ? share : 1;
}

/* The cycles for which a workgroup occupies the unit that it needs longest. */
static double busiest_unit(const Trial *t) {
  double most = 0;
  for (int u = 0; u < UNIT_COUNT; u++)
    if (t->times.busy[u] * share_of(t, u) > most) most = t->times.busy[u] * share_of(t, u);
  return most * (double)t->times.cycles;
}

/* Cycles of an iteration of some workgroups that run at the same time, if one alone takes `cycles`. */
static double cycles_of(const Trial *t, int64_t cycles, int64_t groups) {
  double alone = (double)cycles, busy = (double)groups * busiest_unit(t);
  return alone > busy ? alone : busy;
}

/* Workgroups of a launch that a compute unit runs, one after the other or at the same time; 0: that is
 * not known, and taken for many. */
static int64_t groups_in_all(const Trial *t) {
  const Distribution *d = t->facts.distribute;
  int64_t product = 1, units = t->machine.target->units, n;
  for (int i = 0; i < 3; i++) {
    if (!units || !d->grid[i] || !sym_is_int(d->grid[i], &n) || n < 1) return 0;
    product *= n;
  }
  return ceil_div64(product, units);
}

/* A compute unit runs as many workgroups at a time as it holds, and then the rest. */
double trial_load_with(const Trial *t, int64_t cycles, int groups) {
  int64_t all = groups_in_all(t), rest = all % groups;
  if (!all) return cycles_of(t, cycles, groups) / groups;
  double sum = (double)(all / groups) * cycles_of(t, cycles, groups);
  if (rest) sum += cycles_of(t, cycles, rest);
  return sum / (double)all;
}

double trial_load(const Trial *t) { return trial_load_with(t, t->times.cycles, trial_groups(t)); }

int trial_registers_for(const Trial *t, int groups) {
  const TargetInfo *target = t->machine.target;
  const UnitRates *rates = unit_rates(target->name);
  int64_t all = (int64_t)groups * (t->machine.waves + t->machine.service);
  int waves = ceil_div(all, target->simds);
  if (rates && waves > rates->waves) return 0;
  int most = target->file / waves - t->besides;
  return most > target->registers ? target->registers : most;
}

bool trial_is_full(const Trial *t) { return trial_load(t) <= busiest_unit(t) * FULL; }

int trial_compare(const Trial *a, const Trial *b) {
  if (!a->times.why_not != !b->times.why_not) return a->times.why_not ? 1 : -1;
  if (a->times.why_not) return 0;
  double x = trial_load(a), y = trial_load(b);
  return x < y * ENOUGH_BETTER ? -1 : y < x * ENOUGH_BETTER;
}
