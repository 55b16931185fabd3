/* again: after a barrier, computes values again from elements of fewer registers, instead of keeping them.
 *
 *     %a = load %x : vec<32, bf16>                   %a = load %x : vec<32, bf16>
 *     %v = cast %a : vec<32, f32>                    ... the maximum, two elements of %a at a time ...
 *     ... the maximum of %v ...                      barrier
 *     barrier                                  =>    %m = load %0 : f32
 *     %m = load %0 : f32                             %b = after %a, %m : vec<32, bf16>
 *     %e = sub %v, splat(%m) : vec<32, f32>          %c = pick [0, 1] %b : vec<2, bf16>
 *                                                    %d = cast %c : vec<2, f32>
 *
 * The rows of a norm or softmax stay in registers while waves exchange what they reduce. As loaded, elements of
 * 16 bits take half of the registers that they take in f32, so that more workgroups fit on a compute unit: some
 * load and store while others exchange. Issue slots are the price: nothing changes if the arithmetic would then
 * take longer than memory does. Assemblers merge equal values, so `after` hides that they are equal; and ops are
 * written part by part, because a vector's elements are otherwise all there at once (again_parts.h). */
#include "transform/again/again_parts.h"

#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "schedule/loop_cost.h"
#include "target/units/units.h"
#include "transform/pass.h"

enum {
  BESIDES = 16, /* registers for addresses, one part on its way, and what a reduction leaves */
  ENOUGH = 4    /* workgroups on a compute unit */
};

typedef struct Again {
  Kernel *k;
  PassCtx *cx;
  const TargetInfo *target;
  Phases p;
  int threads;
} Again;

/* ---- which values ---- */

static bool is_loaded(const Again *a, const Op *op) {
  return !op || a->p.late[op->id] || !again_moves(&a->p, op);
}

/* Of the values that are divided, those that are computed again in each phase: they follow from packed values
 * that were loaded, and from scalars. */
static bool find_again(Again *a) {
  bool found = false, *follows = ARENA_ARRAY(a->cx->scratch, bool, a->k->nvalues + 1);
  for (const Op *op = a->k->body->first; op; op = op->next)
    for (int i = 0; i < op->nresults; i++) {
      const Value *v = &op->results[i];
      bool all = v->type->kind == TYPE_vec && (!is_loaded(a, op) || again_is_packed(v));
      for (int j = 0; all && !is_loaded(a, op) && j < op->nargs; j++)
        all = op->args[j]->type->kind != TYPE_vec || follows[op->args[j]->id];
      follows[v->id] = all;
      a->p.again[v->id] = all && a->p.divided[v->id] && op->kind != OP_splat;
      found |= a->p.again[v->id] && !again_is_packed(v) && a->p.needed[v->id] > a->p.made[v->id];
    }
  return found;
}

/* Marks the vectors that v follows from. */
static void mark_roots(const Again *a, const Value *v, bool *roots, bool *seen) {
  if (v->type->kind != TYPE_vec || seen[v->id]) return;
  seen[v->id] = true;
  if (is_loaded(a, v->def)) roots[v->id] = true;
  else
    for (int i = 0; i < v->def->nargs; i++) mark_roots(a, v->def->args[i], roots, seen);
}

/* ---- registers ---- */

static int registers_of(const Value *v) {
  int64_t bits = (int64_t)dtype_info[v->type->dtype].bits * v->type->n;
  return (int)((bits + 31) / 32);
}

/* Registers of vectors at the end of a phase; those that are computed again, as what they follow from. */
static int kept_after(const Again *a, int phase, bool again) {
  int sum = 0, n = a->k->nvalues;
  bool *kept = ARENA_ARRAY(a->cx->scratch, bool, n + 1);
  bool *seen = ARENA_ARRAY(a->cx->scratch, bool, n + 1);
  for (const Op *op = a->k->body->first; op; op = op->next)
    for (int i = 0; i < op->nresults; i++) {
      const Value *v = &op->results[i];
      if (v->type->kind != TYPE_vec || a->p.made[v->id] > phase || a->p.needed[v->id] <= phase)
        continue;
      if (op->kind == OP_splat || op->kind == OP_pick || op->kind == OP_join) continue;
      if (again && a->p.again[v->id]) mark_roots(a, v, kept, seen);
      else kept[v->id] = true;
    }
  for (const Op *op = a->k->body->first; op; op = op->next)
    for (int i = 0; i < op->nresults; i++)
      if (kept[op->results[i].id]) sum += registers_of(&op->results[i]);
  return sum;
}

static int most_kept(const Again *a, bool again) {
  int most = 0;
  for (int phase = 0; phase + 1 < a->p.count; phase++) {
    int n = kept_after(a, phase, again);
    if (n > most) most = n;
  }
  return most;
}

/* Registers of what is loaded late, if each memory has a load on its way. Part of BESIDES are those of one. */
static int loaded_late(const Again *a, int *most) {
  int sum = 0;
  const Op *last = NULL;
  *most = 0;
  for (const Op *op = a->k->body->first; op; op = op->next) {
    if (!a->p.late[op->id]) continue;
    int n = registers_of(&op->results[0]);
    if (!last || last->args[0] != op->args[0]) sum += n;
    if (n > *most) *most = n;
    last = op;
  }
  return sum;
}

static int registers_needed(const Again *a, int kept) {
  int most, sum = loaded_late(a, &most);
  return kept + sum - most + BESIDES;
}

static int64_t workgroups(const Again *a, int kept) {
  int waves = a->threads / a->target->lanes, granule = unit_rates(a->target->name)->granule;
  int registers = ceil_div(registers_needed(a, kept), granule) * granule;
  return unit_groups(a->target, waves, registers, 0);
}

/* Whether that many workgroups leave registers for twice as many late loads. */
static bool has_room_ahead(const Again *a, int kept, int64_t groups) {
  int most, sum = loaded_late(a, &most), granule = unit_rates(a->target->name)->granule;
  int64_t waves = groups * (a->threads / a->target->lanes);
  int64_t each = (int64_t)a->target->file * a->target->simds / waves;
  return each - each % granule >= registers_needed(a, kept) + sum;
}

/* ---- time ---- */

/* How often an op is computed: once in each phase that needs its result, or something that follows from it.
 * `phases`, by value id: a bit for each such phase. */
static void count_phases(const Again *a, uint64_t *phases) {
  for (const Op *op = a->k->body->last; op; op = op->prev) {
    uint64_t here = 0;
    for (int i = 0; i < op->nresults; i++) {
      const Value *v = &op->results[i];
      uint64_t first = (uint64_t)1 << a->p.made[v->id];
      if (!a->p.again[v->id]) phases[v->id] = phases[v->id] ? first : 0;
      here |= phases[v->id];
    }
    if (!again_moves(&a->p, op))
      here = op->nresults ? (uint64_t)1 << a->p.made[op->results[0].id] : 0;
    for (int i = 0; i < op->nargs; i++) phases[op->args[i]->id] |= here;
  }
}

/* Phases of ops that stay: their operands are needed there. */
static void count_fixed(const Again *a, uint64_t *phases) {
  int phase = 0;
  for (const Op *op = a->k->body->first; op; op = op->next) {
    phase += again_ends_phase(op);
    for (int i = 0; !again_moves(&a->p, op) && i < op->nargs; i++)
      phases[op->args[i]->id] |= (uint64_t)1 << phase;
  }
}

static int64_t bytes_of(const Op *op) {
  const Value *v = op->kind == OP_load    ? &op->results[0]
                   : op->kind == OP_store ? op->args[0]
                                          : NULL;
  const Value *memory = op->kind == OP_load ? op->args[0] : v ? op->args[1] : NULL;
  if (!v || memory_is_scratch(memory)) return 0;
  return (int64_t)dtype_info[v->type->dtype].bits * v->type->n / 8;
}

/* Whether the arithmetic of a wave occupies its units for less time than its accesses occupy memory. */
static bool is_affordable(const Again *a) {
  const UnitRates *rates = unit_rates(a->target->name);
  const UnitMemory *memory = unit_memory(a->target->name);
  uint64_t *phases = ARENA_ARRAY(a->cx->scratch, uint64_t, a->k->nvalues + 1);
  double vector = 0, special = 0, bytes = 0;
  if (!rates || !memory || a->p.count > 64) return false;
  count_fixed(a, phases);
  count_phases(a, phases);
  for (const Op *op = a->k->body->first; op; op = op->next) {
    bytes += (double)bytes_of(op);
    if (!again_moves(&a->p, op) || a->p.late[op->id]) continue;
    if (op->kind == OP_splat || op->kind == OP_pick || op->kind == OP_join) continue;
    OpWeight weight = cost_weight(op);
    int n = op->results[0].type->n * __builtin_popcountll(phases[op->results[0].id]);
    vector += (double)weight.vector * n / rates->lanes;
    special += (double)weight.special * n / rates->special;
  }
  double each = (double)memory->gigabytes * 1000 / memory->mhz / a->target->units;
  double time = vector > special ? vector : special;
  return time / a->target->simds <= bytes / each;
}

/* ---- the pass ---- */

static bool is_straight(const Kernel *k) {
  bool waits = false;
  for (const Op *op = k->body->first; op; op = op->next) {
    if (op->body || op->kind == OP_set_symbol) return false;
    waits |= again_ends_phase(op);
  }
  return waits;
}

/* The elements of a register in the narrowest packed type that is loaded; 0: none is. */
static int elements_of_register(const Kernel *k) {
  int bits = 32;
  for (const Op *op = k->body->first; op; op = op->next)
    for (int i = 0; i < op->nresults; i++)
      if (op->kind == OP_load && again_is_packed(&op->results[i]) &&
          dtype_info[op->results[i].type->dtype].bits < bits)
        bits = dtype_info[op->results[i].type->dtype].bits;
  return bits < 32 && 32 % bits == 0 ? 32 / bits : 0;
}

/* Whether the header says so; without a row, where exchanges take long, between workgroups of a cluster, or few
 * workgroups fit. Four overlap well: rows of up to 4096 elements gained nothing (H200), but a layer norm of 8192 takes 140 us
 * by three on a unit and 131 by four. */
static bool is_wanted(const Kernel *k, int64_t workgroups) {
  const Constraint *row = kernel_constraint(k, CONSTRAINT_again, NULL);
  int64_t n;
  if (row && sym_is_int(row->again.allowed, &n)) return n != 0;
  return workgroups < ENOUGH || ir_is_cluster(kernel_launch(k)->cluster);
}

static bool open_again(Again *a) {
  const LaunchSpec *launch = kernel_launch(a->k);
  if (!a->target || !a->target->simds || !a->target->file || !launch || !is_straight(a->k))
    return false;
  a->threads = launch_threads(launch);
  a->p = (Phases){.k = a->k, .scratch = a->cx->scratch, .part = elements_of_register(a->k)};
  if (!a->p.part || !a->threads || !unit_rates(a->target->name)) return false;
  again_find_phases(&a->p);
  return find_again(a);
}

/* Without being told, ptxas takes registers for one of these workgroups less. */
static void request_occupancy(Again *a, int64_t groups) {
  int64_t waves = groups * a->threads / a->target->lanes / a->target->simds;
  if (!waves || kernel_constraint(a->k, CONSTRAINT_occupancy, NULL)) return;
  Constraint row = {.kind = CONSTRAINT_occupancy, .at = a->k->at};
  row.occupancy.waves = sym_int(a->k->cx->sym, waves);
  vec_push(a->k->arena, &a->k->constraints, row);
}

bool pass_again(Kernel *k, PassCtx *cx) {
  Again a = {.k = k, .cx = cx, .target = cx->target};
  cx->idle = true;
  if (!open_again(&a)) return true;
  int before = most_kept(&a, false), after = most_kept(&a, true);
  int64_t fewer = workgroups(&a, before), more = workgroups(&a, after);
  if (more <= fewer || !is_wanted(k, fewer) || !is_affordable(&a)) return true;
  a.p.ahead = has_room_ahead(&a, after, more);
  again_write(&a.p);
  request_occupancy(&a, more);
  diag_add(
      &k->cx->diags, DIAG_R0627, k->at,
      "`%s` keeps %d registers instead of %d at barriers, so that %d workgroups instead of %d fit "
      "on a compute unit",
      k->name, after, before, (int)more, (int)fewer);
  cx->idle = false;
  return true;
}
