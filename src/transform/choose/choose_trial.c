/* choose_trial.c: see choose_trial.h. */
#include "transform/choose/choose_trial.h"

#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/ops/live.h"
#include "ir/region_facts.h"
#include "ir/schedule/schedule.h"
#include "transform/pass_manager.h"
#include "transform/solve/trial.h"

enum {
  WIDE_BITS = 128, /* of the widest accesses */
  RESERVED = 10,   /* registers that ptxas needs besides those that are counted */
  BESIDES = 24     /* registers for addresses and the like, where there is no loop */
};

void choose_bind(Kernel *k, const ChooseTiles *open, const int64_t *value, int64_t parts) {
  for (int i = 0; i < open->n; i++) {
    Constraint row = constraint_empty(CONSTRAINT_bind, open->at[i].row->at);
    row.bind.symbol = open->at[i].symbol;
    row.bind.value = sym_int(k->cx->sym, value[i]);
    vec_push(k->arena, &k->constraints, row);
  }
  if (parts < 2) return;
  Constraint row = constraint_empty(CONSTRAINT_split, k->at);
  row.split.parts = sym_int(k->cx->sym, parts);
  vec_push(k->arena, &k->constraints, row);
}

/* ---- the copy ---- */

/* Rows of tensors are whole vectors: tiles are chosen for launches that copy as fast as possible, as the
 * first variant of a program does. */
static void assume_whole_rows(Kernel *k) {
  SymCtx *sym = k->cx->sym;
  for (int i = 0; i < k->params.n; i++) {
    const Type *t = k->body->args[i]->type;
    const Sym *last = t->kind == TYPE_mem && t->rank ? t->dims[t->rank - 1] : NULL, *base;
    int64_t num, den;
    if (!last || !sym_scaled_symbol(last, &base, &num, &den) || num != 1) continue;
    if (kernel_constraint(k, CONSTRAINT_bind, base)) continue;
    int bits = dtype_memory_bits(t->dtype);
    const Sym *of = sym_int(sym, (WIDE_BITS % bits ? 1 : WIDE_BITS / bits) * den);
    Constraint row = constraint_empty(CONSTRAINT_assume, k->at);
    row.assume.condition = sym_eq(sym, sym_mod(sym, base, of), sym_int(sym, 0));
    row.assume.required = true;
    vec_push(k->arena, &k->constraints, row);
  }
}

static const char *first_error(const Diags *diags, const Diag *before) {
  for (const Diag *d = before ? before->next : diags->first; d; d = d->next)
    if (diag_info[d->code].severity == SEVERITY_error) return d->text;
  return "it does not compile";
}

static bool multiplies_narrowly(const Kernel *k, const TargetInfo *t) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    const Attr *by = op_is_product(op) ? op_attr(op, ATTR_mma) : NULL;
    const MmaInfo *row = by && by->mma->name ? mma_find(by->mma->name) : NULL;
    if (op_is_product(op) && (!row || row->lanes <= t->lanes)) return true;
  }
  return false;
}

/* All passes but `divide`, which would look for other tiles: those that need it are refused. */
static bool lower(Kernel *k, const TargetInfo *t, bool wide, const char **why) {
  bool lanes = pass_machines(t) == PASS_LANES;
  if (lanes && t->vendor == VENDOR_HOST) return true; /* the evaluator runs it as it is */
  PassOptions first = {.start_after = "choose", .stop_after = "narrow", .target = t->name};
  PassOptions second = {.start_after = "divide", .stop_after = "retarget", .target = t->name};
  PassOptions third = {.start_after = "retarget", .target = t->name};
  third.stop_after = lanes ? "turns" : "mask";
  if (!passes_run(k, &first) || !passes_run(k, &second)) return false;
  if (!wide || !multiplies_narrowly(k, t)) return passes_run(k, &third);
  *why = "its products are those of one wave";
  return false;
}

/* ---- what it shows ---- */

static int most_registers(Arena *a, const Kernel *k) {
  const int *live = live_at_ops(a, k);
  int most = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (live[op->id] > most) most = live[op->id];
  return most;
}

/* Adds what the loop shows; false: it would spill. */
static bool look_at_loop(Kernel *k, const TargetInfo *t, const ChooseModel *m, const Op *loop,
                         Arena *a, ChooseFound *out) {
  int number = choose_loop(m, op_attr(loop, ATTR_axis)->sym);
  SolveLoop s = {k, t, schedule_loop_name(a, loop)};
  Trial *trial = number < 0 || out->interval[number] > 0 ? NULL : trial_in(&s, k, a);
  if (!trial) return true;
  trial_time(trial, 0);
  int registers = trial->registers + trial->besides;
  if (registers > out->registers) out->registers = registers;
  out->alone |= trial->alone;
  if (!trial->times.why_not) out->interval[number] = (double)trial->times.cycles;
  return trial->registers <= trial->room;
}

/* Of the rings that copies in loops fill. */
static int least_slots(const Kernel *k) {
  int least = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    const Op *alloc =
        op->kind == OP_copy && op_outermost_loop(op) ? memory_root(op->args[1])->def : NULL;
    if (!alloc || alloc->kind != OP_alloc) continue;
    int slots = alloc_slots(alloc);
    if (!least || slots < least) least = slots;
  }
  return least;
}

static bool look_at(Kernel *k, const TargetInfo *t, const ChooseModel *m, Arena *a,
                    ChooseFound *out, const char **why) {
  const MachineSpec *machine = kernel_machine(k);
  if (!machine || !choose_predicts(m)) return true;
  *out = (ChooseFound){.known = true, .waves = machine->waves + machine->service};
  *why = "it needs more registers than a thread has";
  out->full = true;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_for && !look_at_loop(k, t, m, op, a, out)) return false;
  ir_renumber(k);
  int held = most_registers(a, k);
  if (!out->registers) out->registers = held + BESIDES;
  out->bytes = alloc_end(k);
  out->slots = least_slots(k);
  out->persistent = kernel_persistent(k) != NULL;
  out->full = held > target_most_registers(t, out->waves) - RESERVED && !out->alone;
  return !out->full;
}

static bool is_split(const Kernel *k) {
  const Constraint *row = kernel_constraint(k, CONSTRAINT_split, NULL);
  return row && row->split.loop;
}

bool choose_lower(const Kernel *k, const TargetInfo *t, ChooseModel *m, const ChooseTiles *open,
                  const int64_t *value, int64_t parts, bool wide, ChooseFound *out,
                  const char **why) {
  Diags *diags = &k->cx->diags;
  Diag *before = diags->last;
  Kernel *copy = kernel_clone(k);
  Arena *a = arena_new();
  choose_bind(copy, open, value, parts);
  assume_whole_rows(copy);
  *out = (ChooseFound){0};
  *why = NULL;
  bool ok =
      ir_verify_constraints(copy) && lower(copy, t, wide && choose_expects_wide(m, value), why);
  if (!ok && !*why) *why = arena_strdup(diags->arena, first_error(diags, before));
  if (ok && parts > 1 && !is_split(copy)) ok = false, *why = "its iterations cannot be shared";
  diags_cut(diags, before);
  ok = ok && look_at(copy, t, m, a, out, why);
  arena_free(a);
  kernel_free(copy);
  return ok;
}
