/* warn_parts.c: reductions that see only a part of their dimension (W0404).
 *
 *     workgroup N by 64 on 0; wave N by 32; bind N = 256
 *     %s = sum %x {dim = N}           each of 2 waves, in each of 4 workgroups, sums its own 32
 *
 * The public package defines this meaning, so the kernel is compiled as it is. There is no warning
 * if one workgroup and one wave are proved to have the whole dimension, if a loop over it covers
 * the rest, if `block` requests the workgroup's part, or if atomics combine the parts. A kernel
 * with a grid of its own places its tiles itself. */
#include "ir/launch_facts.h"
#include "ir/ops/access.h"
#include "ir/ops/reductions.h"
#include "ir/region_facts.h"
#include "ir/schedule/schedule.h"

typedef struct Parts {
  Kernel *k;
  Arena *arena;
  SymCtx *sym;
  const SymFacts *facts;
  SymBinding *bound;
  int nbound;
} Parts;

/* ---- which ops ---- */
/* The dimension along which an op combines elements; NULL: it does not. */
static const Sym *combined_dim(Kernel *k, const Op *op) {
  if (op_is_reduction(op)) return op_attr(op, ATTR_dim)->sym;
  Product p;
  return op_is_product(op) && !product_of(k, op, &p) ? p.roles.k : NULL;
}

static bool is_in_loop_over(const Op *op, const Sym *base) {
  for (const Op *at = op->parent->owner; at; at = at->parent->owner)
    if (op_has(at, ATTR_axis) && op_attr(at, ATTR_axis)->sym == base) return true;
  return false;
}

static bool moves_elements(const Op *op) {
  return op->kind == OP_cast || op->kind == OP_broadcast || op->kind == OP_permute;
}

/* Whether the value is used by atomics only. */
static bool feeds_atomics(const Kernel *k, const Value *v) {
  bool used = false;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (!op_takes(op, v)) continue;
    bool taken = op_is_atomic(op) || (moves_elements(op) && feeds_atomics(k, &op->results[0]));
    if (!taken) return false;
    used = true;
  }
  return used;
}

/* ---- how many parts ---- */

/* The number of parts as far as it is known; NULL: it is proved to be at most one, or the compiler chooses
 * the tile, which is then the whole dimension. */
static const Sym *several(const Parts *p, const Sym *count) {
  const Sym *n = count ? sym_subst(p->sym, count, p->bound, p->nbound) : NULL;
  if (n && !ir_is_of_launch(p->k, n)) n = NULL;
  if (!n || sym_proves(p->sym, p->facts, sym_le(p->sym, n, sym_int(p->sym, 1)))) n = NULL;
  sym_take_error(p->sym);
  return n;
}

static const Sym *row_count(const Parts *p, const Constraint *row) {
  if (row->workgroup.count) return row->workgroup.count;
  return row->workgroup.size ? sym_ceildiv(p->sym, row->workgroup.dim, row->workgroup.size)
                             : row->workgroup.dim;
}

/* The number of workgroups with different tiles of the row's dimension; one that follows another's
 * id has as many. */
static const Sym *workgroups_of(const Parts *p, const Constraint *row) {
  if (row->workgroup.start && !ir_expr_mentions(row->workgroup.start, "$WG")) return NULL;
  EACH_ROW(p->k, workgroup, c)
    if (row->workgroup.secondary && !c->workgroup.secondary &&
        c->workgroup.axis == row->workgroup.axis)
      return several(p, row_count(p, c));
  return several(p, row_count(p, row));
}

static const Sym *waves_of(const Parts *p, const Constraint *row) {
  const Constraint *wave = kernel_constraint(p->k, CONSTRAINT_wave, row->workgroup.dim);
  if (!wave || !row->workgroup.size) return NULL;
  return several(p, sym_ceildiv(p->sym, row->workgroup.size, wave->wave.size));
}

/* ---- the warning ---- */

static Diag *warn(const Parts *p, const Op *op, const Sym *dim, const Sym *count,
                  const char *holders) {
  Diags *diags = &p->k->cx->diags;
  const char *name = op_info[op->kind].name, *along = sym_text(diags->arena, dim);
  int64_t n;
  if (sym_is_int(count, &n))
    return diag_add(diags, DIAG_W0404, op->at,
                    "`%s` along `%s` gives each of %lld %ss only its own partial result", name,
                    along, (long long)n, holders);
  return diag_add(diags, DIAG_W0404, op->at,
                  "`%s` along `%s` gives each %s only its own partial result, unless `%s` is 1",
                  name, along, holders, sym_text(diags->arena, count));
}

static void warn_waves(const Parts *p, const Op *op, const Sym *dim, const Sym *waves) {
  Diags *diags = &p->k->cx->diags;
  Diag *d = warn(p, op, dim, waves, "wave");
  if (op_admits(op->kind, ATTR_block))
    diag_hint(diags, d, "use `block=True` to combine the waves of a workgroup");
  else
    diag_hint(diags, d, "assign the whole tile of `%s` to one wave", sym_text(diags->arena, dim));
}

static void warn_workgroups(const Parts *p, const Op *op, const Sym *dim, const Sym *groups) {
  Diags *diags = &p->k->cx->diags;
  Diag *d = warn(p, op, dim, groups, "workgroup");
  bool scans = op->kind == OP_cumsum || op->kind == OP_scan || op->kind == OP_topk;
  diag_hint(diags, d, "%s%s",
            scans ? "assign the whole dimension to one workgroup"
                  : "loop over the dimension, or combine the partial results with an atomic",
            op_admits(op->kind, ATTR_block)
                ? "; `block=True` states that the partial result is intended"
                : "");
}

static void warn_op(const Parts *p, const Op *op) {
  const Sym *dim = combined_dim(p->k, op);
  if (!dim || op_has(op, ATTR_block) || op_has(op, ATTR_grid) || op_has(op, ATTR_into)) return;
  const Sym *base = dim_base(dim);
  const Constraint *alias = kernel_constraint(p->k, CONSTRAINT_alias, base);
  const Constraint *row =
      kernel_constraint(p->k, CONSTRAINT_workgroup, alias ? alias->alias.of : base);
  if (!row || is_in_loop_over(op, base) || (alias && is_in_loop_over(op, alias->alias.of))) return;
  const Sym *waves = waves_of(p, row), *groups = workgroups_of(p, row);
  if (waves) warn_waves(p, op, dim, waves);
  if (groups && !feeds_atomics(p->k, &op->results[0])) warn_workgroups(p, op, dim, groups);
}

void ir_warn(Kernel *k) {
  if (k->warned) return;
  k->warned = true;
  schedule_warn(k);
  if (k->level != LEVEL_TILE || kernel_constraint(k, CONSTRAINT_grid, NULL)) return;
  if (kernel_constraint(k, CONSTRAINT_machine, NULL))
    return; /* a dump: its source was warned
                                                               * about */
  Parts p = {.k = k, .arena = arena_new(), .sym = k->cx->sym};
  p.facts = launch_size_facts(p.arena, k);
  p.bound = ARENA_ARRAY(p.arena, SymBinding, k->constraints.n + 1);
  p.nbound = kernel_bindings(k, p.bound);
  if (!sym_resolve_bindings(p.sym, p.bound, p.nbound)) p.nbound = 0, sym_take_error(p.sym);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) warn_op(&p, op);
  arena_free(p.arena);
}
