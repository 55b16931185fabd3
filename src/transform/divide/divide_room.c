/* divide_room.c: see divide_room.h. */
#include "transform/divide/divide_room.h"

#include <string.h>

#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/live.h"
#include "ir/schedule/schedule.h"
#include "transform/pass_manager.h"

enum {
  BESIDES = 10, /* registers that ptxas needs besides those that live_most counts */
  OUTSIDE = 16, /* that a tile may need beyond those there are, outside inner loops */
  STEP = 16     /* along m and n of matrix instructions, at least */
};

typedef struct Sizes {
  const Distribution *d;
  int64_t threads;
} Sizes;

/* Elements of a workgroup's tile; 0: not a number. Reports nothing. */
static int64_t elements_at(const Distribution *d, const Op *op, const Type *t) {
  int64_t all = 1, n;
  for (int i = 0; i < t->rank; i++) {
    const Sym *reach = distribute_reach(d, op, t->dims[i]);
    if (!reach || !sym_is_int(reach, &n) || n < 1 || all > INT32_MAX / n) return 0;
    all *= n;
  }
  return all;
}

/* Operands of products are read in parts, or not at all. */
static bool is_operand_only(const Distribution *d, const Value *v) {
  if (!v->def || v->def->kind != OP_read) return false;
  for (const Op *op = ir_first(d->k); op; op = ir_next(op))
    if (op_takes(op, v) && !op_is_product(op)) return false;
  return true;
}

/* The result of a product that adds to nothing may be computed for the next iteration while that of
 * this one is used. */
static bool is_computed_early(const Op *op) {
  const Op *acc = op_is_product(op) ? op->args[product_acc(op)]->def : NULL;
  return acc && acc->kind == OP_fill && op->parent->owner;
}

static int registers_of(void *user, const Value *v) {
  const Sizes *s = user;
  const Op *at = v->def ? v->def : v->owner->first;
  if (v->type->kind != TYPE_tile || !at || at->kind == OP_fill) return 0;
  int bits = dtype_info[v->type->dtype].bits;
  if (bits == 1 || is_operand_only(s->d, v)) return 0;
  int64_t times = v->def && is_computed_early(v->def) ? 2 : 1;
  return (int)(times * elements_at(s->d, at, v->type) * bits / 32 / s->threads);
}

/* ---- what it costs ---- */

static int64_t extent_at(const Distribution *d, const Op *op, const Sym *dim) {
  int64_t n;
  const Sym *reach = distribute_reach(d, op, dim);
  return reach && sym_is_int(reach, &n) && n > 0 && n < 1 << 20 ? n : 1;
}

static int64_t whole_steps(int64_t n) { return ceil_div64(n, STEP) * STEP; }

static int64_t products_of(const Distribution *d, const Op *op) {
  Product p;
  if (product_of(d->k, op, &p)) return 0;
  return whole_steps(extent_at(d, op, p.roles.m)) * whole_steps(extent_at(d, op, p.roles.n)) *
         extent_at(d, op, p.roles.k);
}

static int64_t bits_read(const Distribution *d, const Op *op) {
  const Type *t = op->results[0].type;
  return elements_at(d, op, t) * dtype_info[t->dtype].bits;
}

static bool is_staged(const Distribution *d, const Op *op) {
  if (op->kind != OP_read || memory_is_scratch(op->args[0])) return false;
  return distribute_expr(d, NULL, op->args[0]->type->space) == d->k->cx->shared_space;
}

/* ---- room ---- */

/* The machine's waves for the declared threads; 0: not known. */
static int waves_for(const Distribution *d, const TargetInfo *t) {
  const HardwareSpec *hardware = kernel_hardware(d->k);
  int64_t threads = hardware ? hardware->threads : 0, n;
  for (int i = 0; i < 3; i++) threads *= sym_is_int(d->waves[i], &n) && n > 0 && n <= 1024 ? n : 0;
  int64_t waves = ceil_div64(threads, t->lanes);
  return (int)(waves > target_waves(t) ? target_waves(t) : waves);
}

DivideRoom divide_room(const Distribution *d, const TargetInfo *t, Arena *scratch) {
  DivideRoom r = {.waves = waves_for(d, t)};
  Sizes sizes = {d, (int64_t)r.waves * t->lanes};
  if (!r.waves) return r;
  r.limit = target_most_registers(t, r.waves) - BESIDES;
  const int *live = live_at_ops_by(scratch, d->k, registers_of, &sizes);
  for (const Op *op = ir_first(d->k); op; op = ir_next(op)) {
    if (live[op->id] > r.held) r.held = live[op->id];
    if (op_is_product(op)) r.multiplied += products_of(d, op);
    if (op->kind == OP_read) r.moved += bits_read(d, op);
    if (is_staged(d, op)) r.bytes += bits_read(d, op) / 8;
  }
  return r;
}

DivideRoom divide_room_in_parts(Kernel *copy, const TargetInfo *t, int parts) {
  Arena *a = arena_new();
  ir_renumber(copy);
  DivideRoom r = divide_room(facts_of(copy, a, FACT_distribute).distribute, t, a);
  r.multiplied *= parts, r.moved *= parts;
  arena_free(a);
  return r;
}

bool divide_may_fit(const DivideRoom *r, const TargetInfo *t) {
  return r->held <= (int64_t)r->limit * 5 / 4 && r->bytes <= t->shared_most;
}

/* Conversions and addresses take a quarter at most. */
bool divide_surely_fits(const DivideRoom *r, const TargetInfo *t) {
  return r->held <= (int64_t)r->limit * 3 / 4 && r->bytes <= t->shared_most;
}

/* ---- a trial ---- */

static bool has_narrow_products(const Kernel *k, const TargetInfo *t) {
  if (!target_has(t, FEATURE_WGMMA)) return false;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_wave_mma) return true;
  return false;
}

static int registers_had(const Kernel *k, const TargetInfo *t) {
  const LaunchSpec *launch = kernel_launch(k);
  int taken = live_taken(k), waves = ceil_div(launch_threads(launch), t->lanes);
  return taken ? taken : target_most_registers(t, waves);
}

static const char *find_full(const Diags *diags, const Diag *before) {
  for (const Diag *d = before ? before->next : diags->first; d; d = d->next)
    if (d->code == DIAG_E0613) return d->text;
  return NULL;
}

/* A schedule has no part in the decision, so that one which is read from a file finds the tiles for
 * which it was written. */
static void drop_schedule(Kernel *k) {
  int n = 0;
  for (int i = 0; i < k->constraints.n; i++)
    if (!schedule_is_row(&k->constraints.at[i])) k->constraints.at[n++] = k->constraints.at[i];
  k->constraints.n = n;
}

static bool mentions_other_ids(const Sym *s, SymCtx *cx) {
  return sym_contains(s, sym_symbol(cx, "$T1", true)) ||
         sym_contains(s, sym_symbol(cx, "$T2", true));
}

/* By value id: whether all lanes of a wave share a register for an expression, as for slots of rings and
 * what descriptors are made of. ptxas sees that a number is the same for all lanes if it is made of
 * workgroup ids, sizes, loop counters and the number of the wave along dimension 0. NULL: not known,
 * other than of machines whose matrix instructions take descriptors from such registers. */
static const bool *find_scalars(Kernel *k, const TargetInfo *t, Arena *a) {
  if (!target_has(t, FEATURE_WGMMA)) return NULL;
  const Distribution *d = facts_of(k, a, FACT_distribute).distribute;
  bool *scalar = ARENA_ARRAY(a, bool, k->nvalues);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    const Sym *s = op->kind == OP_expr ? op_attr(op, ATTR_expr)->sym : NULL;
    bool same = s && uniform_by_threads(d, s) <= UNIFORM_WAVE && !mentions_other_ids(s, k->cx->sym);
    for (int i = 0; same && i < op->nargs; i++) same = scalar[op->args[i]->id];
    if (same) scalar[op->results[0].id] = true;
  }
  return scalar;
}

DivideTrial divide_trial(const Kernel *k, const TargetInfo *t, Kernel **lowered) {
  Diags *diags = &k->cx->diags;
  Diag *before = diags->last;
  Kernel *copy = kernel_clone(k);
  Arena *a = arena_new();
  PassOptions o = {.start_after = "divide", .target = t->name};
  drop_schedule(copy);
  bool ok = passes_run(copy, &o) && copy->level == LEVEL_THREAD;
  DivideTrial trial = {.registers = INT32_MAX};
  if (ok) {
    const bool *scalars = find_scalars(copy, t, a);
    trial = (DivideTrial){.registers = live_most(a, copy, scalars),
                          .looped = live_most_looped(a, copy, scalars),
                          .have = registers_had(copy, t),
                          .narrow = has_narrow_products(copy, t)};
  } else trial.full = find_full(diags, before);
  arena_free(a);
  if (lowered && ok && !kernel_has_schedule(k) && divide_trial_fits(&trial))
    return *lowered = copy, trial;
  diags_cut(diags, before);
  kernel_free(copy);
  return trial;
}

/* A few stores to memory outside inner loops cost less than smaller tiles, and ptxas may find room for what live_most
 * counts: 8192x14336x4096 with a bias and a residual takes 1460 us, and 1683 with half of the tile (H200). */
bool divide_trial_fits(const DivideTrial *trial) {
  int most = trial->have - BESIDES, outside = trial->looped ? OUTSIDE : 0;
  return trial->looped <= most && trial->registers <= most + outside;
}
