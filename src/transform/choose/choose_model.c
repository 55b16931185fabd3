/* choose_model.c: what a kernel does, listed for the model of choose_model.h. */
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/live.h"
#include "ir/ops/reductions.h"
#include "ir/region_facts.h"
#include "transform/choose/choose_items.h"
#include "transform/split/split_sums.h"

/* ---- expressions ---- */

/* Numbers of workgroups are those of one in the middle of the grid: loops of causal kernels differ. */
static const Sym *plain(ChooseModel *m, const Sym *e) {
  SymCtx *sym = m->k->cx->sym;
  const Sym *s = e ? distribute_fixed(m->d, e) : NULL;
  for (int i = 0; i < 3 && s; i++)
    for (int nonneg = 0; nonneg < 2 && s; nonneg++) {
      const Sym *id = ir_numbered_symbol(m->k->cx, "$WG", i, nonneg);
      const Sym *middle = m->d->grid[i] ? sym_floordiv(sym, m->d->grid[i], sym_int(sym, 2)) : NULL;
      if (sym_contains(s, id)) s = sym_subst(sym, s, &(SymBinding){id, middle}, middle ? 1 : 0);
    }
  s = s ? kernel_expected(m->k, s) : NULL;
  FreeSymbols symbols = sym_symbols(m->arena, s);
  for (int i = 0; i < symbols.n && s; i++) {
    bool is_open = false;
    for (int j = 0; j < m->open->n; j++)
      is_open |= sym_same_name(symbols.at[i], m->open->at[j].symbol);
    int64_t value = sym_name(symbols.at[i])[0] == '$' ? 1 : CHOOSE_UNKNOWN;
    SymBinding to = {symbols.at[i], sym_int(sym, value)};
    if (!is_open) s = sym_subst(sym, s, &to, 1);
  }
  if (!s) sym_take_error(sym);
  return s;
}

static int expr_of(ChooseModel *m, const Sym *e) {
  const Sym *s = plain(m, e);
  if (!s) return m->broken = true, 0;
  for (int i = 0; i < m->exprs.n; i++)
    if (m->exprs.at[i] == s) return i;
  vec_push(m->arena, &m->exprs, s);
  return m->exprs.n - 1;
}

static void add_dim(ChooseModel *m, Extents *out, const Sym *size, const Sym *dim) {
  const Sym *base;
  int64_t num = 1, den = 1;
  if (out->n == CHOOSE_RANK || !size) {
    m->broken = true;
    return;
  }
  if (!dim || !sym_scaled_symbol(dim, &base, &num, &den)) num = den = 1;
  out->expr[out->n] = expr_of(m, size);
  out->scale[out->n++] = (double)num / (double)den;
}

static Extents extents_at(ChooseModel *m, const Op *op, const Type *t) {
  Extents out = {0};
  for (int i = 0; i < t->rank; i++)
    add_dim(m, &out, distribute_reach(m->d, op, t->dims[i]), t->dims[i]);
  return out;
}

/* ---- what the kernel does ---- */

static int loop_around(const ChooseModel *m, const Op *op) {
  for (const Op *outer = op->parent->owner; outer; outer = outer->parent->owner) {
    if (!op_is_loop(outer)) continue;
    for (int i = m->loops.n - 1; i >= 0; i--)
      if (outer->kind == OP_for && m->loops.at[i].axis == op_attr(outer, ATTR_axis)->sym) return i;
  }
  return -1;
}

static void add_loop(ChooseModel *m, const Op *op) {
  Loop l = {.axis = op_attr(op, ATTR_axis)->sym, .around = loop_around(m, op)};
  l.trips = expr_of(m, distribute_trips(m->d, op));
  if (m->loops.n < CHOOSE_LOOPS) vec_push(m->arena, &m->loops, l);
  else m->broken = true;
}

/* What is the same in each iteration is computed before the loop. */
static int loop_of(const ChooseModel *m, const Op *op) {
  int loop = loop_around(m, op);
  if (loop >= 0 && op->kind == OP_read && op_same_outside(m->k, op, op->parent))
    loop = m->loops.at[loop].around;
  return loop;
}

static bool is_staged(const ChooseModel *m, const Op *op) {
  return distribute_expr(m->d, NULL, op->args[0]->type->space) == m->k->cx->shared_space;
}

static void add_waves(ChooseModel *m, Item *item, const Type *t) {
  for (int i = 0; i < t->rank; i++) {
    const Sym *waves = distribute_waves(m->d, dim_base(t->dims[i]));
    if (waves) vec_push(m->arena, &item->waves, expr_of(m, waves));
  }
}

/* The rates of the fastest instructions for the operands, of one wave and of several. */
static void find_rates(const ChooseModel *m, const Product *p, Item *item) {
  MmaType lhs = dtype_mma(p->lhs->type->dtype), rhs = dtype_mma(p->rhs->type->dtype);
  for (int i = 0; i < mma_count(); i++) {
    const MmaInfo *row = mma_at(i);
    unsigned types = target_has_mma(m->t, row) ? target_mma_types(m->t, row) : 0;
    if (!(types & lhs) || !(types & rhs)) continue;
    double cycles = unit_matrix_cycles(m->t, row, item->bits);
    int shared_by = row->lanes > m->t->lanes ? row->lanes / m->t->lanes : 1;
    if (cycles <= 0) continue;
    double rate = (double)row->m * row->n * row->k / cycles * m->t->simds / shared_by;
    if (shared_by == 1 && rate > item->rate) item->rate = rate;
    if (shared_by == 1 || rate <= item->wide_rate) continue;
    item->wide_rate = rate, item->wide_rows = row->m, item->wide_lanes = row->lanes;
  }
  if (item->rate <= 0) item->rate = (double)m->rates->lanes * m->t->simds;
}

static const Type *accessed(const Op *op) {
  return op->args[op->kind == OP_read ? 0 : op->nargs - 1]->type;
}

/* The elements along the last dimension of a memory that an op accesses. */
static int row_of(ChooseModel *m, const Op *op) {
  const Type *t = accessed(op);
  const Sym *last = t->kind == TYPE_mem && t->rank ? t->dims[t->rank - 1] : NULL;
  const Sym *reach = last ? distribute_reach(m->d, op, last) : NULL;
  return reach && last == dim_base(last) ? expr_of(m, reach) : -1;
}

/* Whether some product of its loop starts from zero in each iteration: its result is used there. */
static bool is_chained(const Op *op) {
  const Op *loop = op->parent->owner;
  for (const Op *other = op->parent->first; loop && other; other = other->next) {
    const Op *acc = op_is_product(other) ? other->args[product_acc(other)]->def : NULL;
    if (acc && acc->kind == OP_fill) return true;
  }
  return false;
}

static void add_product(ChooseModel *m, const Op *op) {
  Product p;
  if (product_of(m->k, op, &p)) return;
  Item item = {.kind = ITEM_PRODUCT, .loop = loop_around(m, op), .chained = is_chained(op)};
  item.bits = dtype_info[p.lhs->type->dtype].bits;
  item.tile = extents_at(m, op, op->results[0].type);
  item.m = expr_of(m, distribute_reach(m->d, op, p.roles.m));
  item.n = expr_of(m, distribute_reach(m->d, op, p.roles.n));
  item.k = expr_of(m, distribute_reach(m->d, op, p.roles.k));
  add_waves(m, &item, op->results[0].type);
  if (m->rates) find_rates(m, &p, &item);
  vec_push(m->arena, &m->items, item);
  Extents whole = {0};
  const Type *t = op->results[0].type;
  for (int i = 0; i < t->rank; i++) add_dim(m, &whole, dim_base(t->dims[i]), t->dims[i]);
  add_dim(m, &whole, p.roles.k, p.roles.k);
  vec_push(m->arena, &m->products, whole);
}

static void add_item(ChooseModel *m, const Op *op) {
  const Type *t = op->nresults ? op->results[0].type : op->nargs ? op->args[0]->type : NULL;
  bool reduces = op_is_reduction(op) || op_is_scan(op);
  if (op_is_product(op)) {
    add_product(m, op);
    return;
  }
  if (reduces) t = op->args[0]->type;
  bool writes = op->kind == OP_write || op_is_atomic(op);
  Item item = {.kind = op->kind == OP_read ? ITEM_READ : writes ? ITEM_WRITE : ITEM_COMPUTE};
  item.weight = cost_weight(op);
  bool computes = item.weight.vector + item.weight.special > 0;
  if (!t || t->kind != TYPE_tile || (item.kind == ITEM_COMPUTE && !computes)) return;
  if (item.kind == ITEM_READ && memory_is_scratch(op->args[0])) return;
  item.bits = dtype_info[t->dtype].bits;
  item.tile = extents_at(m, op, t);
  item.exchanged = reduces && op_has(op, ATTR_block);
  item.loop = loop_of(m, op);
  item.staged = item.kind == ITEM_READ && is_staged(m, op);
  if (item.kind == ITEM_READ) add_waves(m, &item, t);
  item.row = item.kind == ITEM_COMPUTE ? -1 : row_of(m, op);
  item.crosses = item.kind != ITEM_COMPUTE && tensor_rows_cross(m->d, accessed(op));
  vec_push(m->arena, &m->items, item);
}

/* Operands of products are read in parts, or not at all; constants need no registers. */
static bool has_registers(const ChooseModel *m, const Value *v) {
  if (v->type->kind != TYPE_tile || dtype_info[v->type->dtype].bits == 1) return false;
  if (v->def && v->def->kind == OP_fill) return false;
  if (!v->def || v->def->kind != OP_read) return true;
  for (const Op *op = ir_first(m->k); op; op = ir_next(op))
    if (op_takes(op, v) && !op_is_product(op)) return true;
  return false;
}

static void add_value(ChooseModel *m, const Value *v) {
  const Op *at = v->def ? v->def : v->owner->first;
  if (!at || !has_registers(m, v)) return;
  HeldTile held = {v, extents_at(m, at, v->type), dtype_info[v->type->dtype].bits};
  vec_push(m->arena, &m->held, held);
}

static void add_values(ChooseModel *m, const Op *op) {
  for (int i = 0; i < op->nresults; i++) add_value(m, &op->results[i]);
  for (int i = 0; op->body && i < op->body->nargs; i++) add_value(m, op->body->args[i]);
}

static int is_that(void *user, const Value *v) { return v == user; }

static bool same_moment(const Moment *a, const Moment *b) {
  bool same = a->n == b->n && a->in_loop == b->in_loop;
  for (int i = 0; same && i < a->n; i++) same = a->held[i] == b->held[i];
  return same;
}

/* Which tiles are in registers at the same time: found once, one tile after another. */
static void add_moments(ChooseModel *m) {
  const int **live = ARENA_ARRAY(m->arena, const int *, m->held.n + 1);
  m->registers = ARENA_ARRAY(m->arena, double, m->held.n + 1);
  for (int i = 0; i < m->held.n; i++)
    live[i] = live_at_ops_by(m->arena, m->k, is_that, (void *)(uintptr_t)m->held.at[i].value);
  for (const Op *op = ir_first(m->k); op; op = ir_next(op)) {
    Moment now = {ARENA_ARRAY(m->arena, int, m->held.n + 1), 0, op_outermost_loop(op)};
    for (int i = 0; i < m->held.n; i++)
      if (live[i][op->id] > 0) now.held[now.n++] = i;
    bool known = false;
    for (int i = 0; !known && i < m->moments.n; i++) known = same_moment(&m->moments.at[i], &now);
    if (!known) vec_push(m->arena, &m->moments, now);
  }
}

static void add_tensors(ChooseModel *m) {
  m->tensor = ARENA_ARRAY(m->arena, Extents, m->k->params.n + 1);
  for (int i = 0; i < m->k->params.n; i++) {
    const Type *t = m->k->body->args[i]->type;
    for (int j = 0; t->kind == TYPE_mem && j < t->rank; j++)
      add_dim(m, &m->tensor[i], t->dims[j], NULL);
  }
}

/* Whether several waves would each combine a part of the dimension, and their number is open. */
static bool combines_apart(const ChooseModel *m, const Sym *dim) {
  int64_t number;
  const Sym *waves = distribute_waves_apart(m->d, dim);
  if (!waves || sym_is_int(waves, &number)) return false;
  for (const Op *op = ir_first(m->k); op; op = ir_next(op)) {
    bool combines = op_is_reduction(op) || op_is_scan(op) || op->kind == OP_topk;
    if (combines && !op_has(op, ATTR_block) && dim_base(op_attr(op, ATTR_dim)->sym) == dim)
      return true;
  }
  return false;
}

static void add_rows(ChooseModel *m) {
  for (int i = 0; i < m->k->constraints.n; i++) {
    const Constraint *c = &m->k->constraints.at[i];
    bool divides = c->kind == CONSTRAINT_workgroup || c->kind == CONSTRAINT_tile;
    if (divides && c->divided.size) {
      int size = expr_of(m, c->divided.size);
      vec_push(m->arena, &m->sizes, ((Division){expr_of(m, c->divided.dim), size, c, false}));
    }
    if (c->kind != CONSTRAINT_wave) continue;
    const Constraint *of = kernel_wave_tile(m->k, c->wave.dim);
    if (!of || !of->divided.size) continue;
    Division d = {expr_of(m, of->divided.size), expr_of(m, c->wave.size), c, false};
    d.alone = combines_apart(m, dim_base(c->wave.dim));
    vec_push(m->arena, &m->waves, d);
  }
  for (int i = 0; i < 3; i++) {
    m->tiles[i] = expr_of(m, m->d->tiles[i]);
    m->threads[i] = expr_of(m, m->d->threads[i]);
  }
}

/* ---- workgroups that share iterations ---- */

static bool is_unknown(const Kernel *k, const Sym *size) {
  return sym_kind(size) == SYM_symbol && !kernel_constraint(k, CONSTRAINT_bind, size);
}

static bool is_unexpected(const Kernel *k, const Sym *size) {
  return is_unknown(k, size) && !kernel_constraint(k, CONSTRAINT_expect, size);
}

static bool has_size(const Kernel *k, bool (*is)(const Kernel *k, const Sym *size)) {
  for (int i = 0; i < k->params.n; i++) {
    const Type *t = k->body->args[i]->type;
    for (int j = 0; t->kind == TYPE_mem && j < t->rank; j++)
      if (is(k, t->dims[j])) return true;
  }
  return false;
}

bool choose_has_unknown_sizes(const Kernel *k) { return has_size(k, is_unknown); }

bool choose_has_unexpected_sizes(const Kernel *k) { return has_size(k, is_unexpected); }

/* Without a row, only grids of known size are divided: there is a counter for each of their tiles. */
static void add_sums(ChooseModel *m) {
  SplitLoop at;
  const Constraint *row = kernel_constraint(m->k, CONSTRAINT_split, NULL);
  bool lanes = !target_has(m->t, FEATURE_REGISTER_TILES) && m->t->lanes > 1;
  if (!lanes || !m->rates || split_obstacle_early(m->d, &at)) return;
  const Sym *given = row ? distribute_expr(m->d, NULL, row->split.parts) : NULL;
  if (row && (!given || !sym_is_int(given, &m->parts) || m->parts < 2)) m->parts = 1;
  if (row ? m->parts == 1 : choose_has_unknown_sizes(m->k)) return;
  m->sums = at.loop;
  for (int i = 0; i < at.loop->body->nargs; i++) {
    const Value *v = at.loop->body->args[i];
    HeldTile tile = {v, extents_at(m, at.loop->body->first, v->type),
                     dtype_memory_bits(v->type->dtype)};
    vec_push(m->arena, &m->carried, tile);
  }
}

static bool compile_model(ChooseModel *m) {
  const Sym *vars[CHOOSE_SYMBOLS];
  for (int i = 0; i < m->open->n; i++) vars[i] = m->open->at[i].symbol;
  if (m->broken) return false;
  m->program = sym_compile(m->arena, m->k->cx->sym, m->exprs.at, m->exprs.n, vars, m->open->n);
  if (!m->program) return false;
  m->scratch = ARENA_ARRAY(m->arena, int64_t, sym_program_slots(m->program) + 1);
  m->value = ARENA_ARRAY(m->arena, int64_t, m->exprs.n + 1);
  return true;
}

ChooseModel *choose_model(const Distribution *d, const TargetInfo *t, const ChooseTiles *open,
                          Arena *a) {
  ChooseModel *m = ARENA_NEW(a, ChooseModel);
  *m = (ChooseModel){.d = d, .k = d->k, .t = t, .open = open, .arena = a};
  if (t->simds && t->units) m->rates = unit_rates(t->name), m->latencies = unit_latencies(t->name);
  m->memory = unit_memory(t->name);
  for (const Op *op = ir_first(m->k); op; op = ir_next(op)) {
    if (op->kind == OP_for) add_loop(m, op);
    else add_item(m, op);
    add_values(m, op);
  }
  add_moments(m);
  add_tensors(m);
  add_rows(m);
  add_sums(m);
  return compile_model(m) ? m : NULL;
}

bool choose_predicts(const ChooseModel *m) { return m->rates && m->latencies; }

int choose_loop(const ChooseModel *m, const Sym *axis) {
  int found = -1;
  for (int i = 0; i < m->loops.n; i++)
    if (m->loops.at[i].axis == axis) found = found < 0 ? i : -2;
  return found < 0 ? -1 : found;
}
