/* widen: adds the missing dimensions to what is written to a memory with more dimensions.
 *
 *     workgroup M by 4 on 0; workgroup N by 64 on 1
 *     write %row, %c            =>     %0 = broadcast %row : tile<N, M, f32>
 *                                      write %0, %c
 *
 * A register is broadcast over the workgroup's tile along each dimension that it lacks. A tile of
 * one element needs nothing: accesses are made at the workgroup's position. Atomics are done once
 * for each element, so their result must not be used: it would be one of several old values.
 *
 * A value that differs between waves is written by each wave at its own position, so each wave's
 * part of the tile must be one element too.
 *
 * A memory may also lack a dimension that workgroups divide, such as row maxima when columns are
 * divided. Then several workgroups write the same elements, and `agreed` says that they write the
 * same values. The simulator checks that they do. */
#include "ir/ops/access.h"
#include "transform/pass.h"

/* One element along the dimension: of the tile, or of each wave's part of it. */
static bool is_one(const Distribution *d, const Op *op, const Sym *dim) {
  int64_t n;
  if (distribute_is_one(d, op, dim)) return true;
  bool own = op->kind == OP_write && op->args[0]->varying;
  const Sym *part = own ? distribute_wave_part(d, dim) : NULL;
  return part && sym_is_int(part, &n) && n == 1;
}

/* The first dimension that the register lacks and that has more than one element; NULL: none. */
static const Sym *lacked(const Distribution *d, const Op *op, const Type *spread) {
  for (int i = op->args[0]->type->rank; i < spread->rank; i++)
    if (!is_one(d, op, spread->dims[i])) return spread->dims[i];
  return NULL;
}

static bool fail(Kernel *k, const Op *op, const Sym *dim, const char *what) {
  Diags *diags = &k->cx->diags;
  Diag *e = diag_add(diags, DIAG_E0304, op->at, "`%s` %s: the register lacks dimension `%s` of %s",
                     op_info[op->kind].name, what, sym_text(diags->arena, dim),
                     type_text(diags->arena, k->cx, op->args[1]->type));
  return diag_hint(diags, e, "`broadcast` the register to all dimensions of the memory");
}

static void widen(Kernel *k, Op *op, const Type *spread) {
  bool expects = op->kind == OP_atomic_compare_exchange;
  for (int i = 0; i < (expects ? 3 : 1); i += 2) {
    Op *made = ir_insert(k, op, OP_broadcast, op->at, &op->args[i], 1, spread);
    op->args[i] = &made->results[0];
  }
  if (op->nresults) ir_set_results(k, op, &spread, 1);
}

/* Whether workgroups differ along `axis` because of the row: not if all have the same start. */
static bool is_cut_along(const DivisionRow *r, int axis) {
  int64_t start;
  bool stands = r->secondary && r->start && sym_is_int(r->start, &start);
  return r->kind == CONSTRAINT_workgroup && r->axis == axis && !stands;
}

/* Workgroups differ along `axis` of the grid, but neither the value nor the memory does. */
static bool is_repeated_along(const Distribution *d, const Op *op, int axis) {
  bool divided = false;
  for (int i = 0; i < d->rows.n; i++) {
    const DivisionRow *r = &d->rows.at[i];
    if (!is_cut_along(r, axis)) continue;
    if (type_has_dim(op->args[0]->type, r->dim) || type_has_dim(op->args[1]->type, r->dim))
      return false;
    divided = true;
  }
  SymCtx *sym = d->k->cx->sym;
  return divided && sym_equal(sym, d->facts, d->count[axis], sym_int(sym, 1)) != SYM_ALWAYS;
}

static bool is_iterator(SymCtx *sym, const Mapping *m, const Sym *symbol) {
  for (int i = 0; i < m->niterators; i++)
    if (access_iterator(sym, i) == symbol) return true;
  return false;
}

/* Whether the address depends on dimensions only: symbols may keep workgroups apart. */
static bool goes_by_dims(SymCtx *sym, const Op *op) {
  const Attr *mapping = op_attr(op, ATTR_mapping);
  const Mapping *m = mapping ? mapping->mapping : NULL;
  for (int i = 0; m && i < m->outputs.n; i++) {
    const Sym *symbols[IR_MAX_RANK];
    int n = sym_free_symbols(m->outputs.at[i].value, symbols, IR_MAX_RANK);
    if (n > IR_MAX_RANK) return false;
    for (int j = 0; j < n; j++)
      if (!is_iterator(sym, m, symbols[j])) return false;
  }
  return true;
}

static bool is_repeated(const Distribution *d, const Op *op) {
  if (op->kind != OP_write || d->explicit_grid || memory_is_scratch(op->args[1])) return false;
  if (op_has(op, ATTR_volatile) || !goes_by_dims(d->k->cx->sym, op)) return false;
  for (int axis = 0; axis < WORKGROUP_DIMS; axis++)
    if (is_repeated_along(d, op, axis)) return true;
  return false;
}

static bool is_store(const Op *op) { return op->kind == OP_write || op_is_atomic(op); }

bool pass_widen(Kernel *k, PassCtx *cx) {
  cx->idle = true;
  for (Op *op = ir_first(k); op; op = ir_next(op)) {
    if (is_repeated(cx->facts.distribute, op) && !op_has(op, ATTR_agreed)) {
      op_set_attr(k, op, (Attr){.key = ATTR_agreed});
      cx->idle = false;
    }
    const Type *spread = is_store(op) ? access_spread(k->cx, op) : NULL;
    if (!spread || spread == op->args[0]->type) continue;
    const Sym *dim = lacked(cx->facts.distribute, op, spread);
    if (!dim) continue;
    if (op->args[0]->varying) return fail(k, op, dim, "of a value that differs between threads");
    if (op->nresults && value_is_used(k, &op->results[0]))
      return fail(k, op, dim, "whose result is used");
    widen(k, op, spread);
    cx->idle = false;
  }
  return true;
}
