/* choose_model.c: see choose_model.h. */
#include "transform/choose/choose_model.h"

#include <math.h>

#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/live.h"
#include "ir/ops/reductions.h"
#include "ir/region_facts.h"
#include "schedule/loop_cost.h"

enum {
  MOST_RANK = 8,
  SLOTS = 4,        /* of rings, as far as they fit */
  BESIDES = 32,     /* registers for addresses and the like */
  RESERVED = 10,    /* registers that ptxas needs besides those that are counted */
  START = 600,      /* cycles from the start of a workgroup to its first access */
  NARROW_SIDE = 16, /* of an instruction of one wave */
  WIDE_COLUMNS = 8, /* of an instruction of several waves, in steps, */
  WIDE_MOST = 256   /* and at most */
};

/* Rows of a copy that are shorter than a line of the cache, by which it is half as fast again. */
enum { LINE_BYTES = 128 };

/* The elements of a tile. */
typedef struct Extents {
  int n, expr[MOST_RANK];
  double scale[MOST_RANK]; /* 1/32 for K/32 */
} Extents;

typedef enum ItemKind { ITEM_READ, ITEM_WRITE, ITEM_PRODUCT, ITEM_COMPUTE } ItemKind;

typedef struct Item {
  ItemKind kind;
  Extents tile; /* of a product: all of its dimensions */
  int m, n, k;  /* of a product: expressions */
  int bits;
  OpWeight weight;
  int loop;       /* -1: none */
  bool staged;    /* read through shared memory */
  int row;        /* expression: elements that are next to each other in memory; -1: not known */
  Vec(int) waves; /* expressions: that share the tile, along each dimension */
  double rate,
      wide_rate; /* multiplications of a compute unit in a cycle, by one wave and by several */
  int wide_rows, wide_lanes;
  bool chained; /* its result, or that of another product of the loop, is an operand of another */
} Item;

typedef struct Loop {
  const Sym *axis;
  int trips, around; /* expression; the loop around it, or -1 */
} Loop;

/* A tile that waves divide. */
typedef struct Division {
  int whole, part; /* expressions */
  const Constraint *row;
  bool alone; /* each wave would combine its own part: one has all of it */
} Division;

/* A tile in registers. */
typedef struct HeldTile {
  const Value *value;
  Extents tile;
  int bits;
} HeldTile;

/* Tiles that are in registers when an op begins: numbers of `held`. */
typedef struct Moment {
  int *held, n;
} Moment;

struct ChooseModel {
  const Distribution *d;
  Kernel *k;
  const TargetInfo *t;
  const UnitRates *rates;
  const UnitLatencies *latencies;
  const UnitMemory *memory;
  const ChooseTiles *open;
  Arena *arena;
  Vec(const Sym *) exprs;
  SymProgram *program;
  int64_t *scratch, *value;
  Vec(Item) items;
  Vec(Loop) loops;
  Vec(Division) waves;
  Vec(Division) sizes; /* rows; part is not used */
  int tiles[3], threads[3];
  Vec(HeldTile) held;
  Vec(Moment) moments;
  double *registers; /* of each held tile */
  Extents *tensor;   /* by parameter */
  Vec(Extents) products;
  bool broken;
  int64_t all_threads;
};

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
  if (out->n == MOST_RANK || !size) {
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

static double elements(const ChooseModel *m, const Extents *e) {
  double all = 1;
  for (int i = 0; i < e->n; i++) all *= (double)m->value[e->expr[i]] * e->scale[i];
  return all;
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

/* The elements along the last dimension of a memory that an op accesses. */
static int row_of(ChooseModel *m, const Op *op) {
  const Type *t = op->args[op->kind == OP_read ? 0 : op->nargs - 1]->type;
  const Sym *last = t->kind == TYPE_mem && t->rank ? t->dims[t->rank - 1] : NULL;
  const Sym *reach = last ? distribute_reach(m->d, op, last) : NULL;
  return reach && last == dim_base(last) ? expr_of(m, reach) : -1;
}

/* Some product of its loop starts from nothing in each iteration: what it computes is used there. */
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
  item.loop = loop_of(m, op);
  item.staged = item.kind == ITEM_READ && is_staged(m, op);
  if (item.kind == ITEM_READ) add_waves(m, &item, t);
  item.row = item.kind == ITEM_COMPUTE ? -1 : row_of(m, op);
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
  bool same = a->n == b->n;
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
    Moment now = {ARENA_ARRAY(m->arena, int, m->held.n + 1), 0};
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
    if (divides && c->divided.size)
      vec_push(m->arena, &m->sizes, ((Division){expr_of(m, c->divided.size), 0, c, false}));
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
  return compile_model(m) ? m : NULL;
}

bool choose_predicts(const ChooseModel *m) { return m->rates && m->latencies; }

int choose_loop(const ChooseModel *m, const Sym *axis) {
  int found = -1;
  for (int i = 0; i < m->loops.n; i++)
    if (m->loops.at[i].axis == axis) found = found < 0 ? i : -2;
  return found < 0 ? -1 : found;
}

/* ---- what is refused ---- */

static bool refuse(Refusal *out, const char *why, const Constraint *row) {
  *out = (Refusal){why, row};
  return false;
}

static bool is_legal(ChooseModel *m, const int64_t *value, Refusal *why) {
  if (!sym_run(m->program, value, m->scratch, m->value))
    return refuse(why, "a size is not a whole number", NULL);
  for (int i = 0; i < m->sizes.n; i++)
    if (m->value[m->sizes.at[i].whole] < 1) return refuse(why, "is empty", m->sizes.at[i].row);
  for (int i = 0; i < m->waves.n; i++) {
    const Division *w = &m->waves.at[i];
    if (m->value[w->part] < 1 || m->value[w->whole] % m->value[w->part])
      return refuse(why, "does not divide the tile", w->row);
    if (w->alone && m->value[w->part] != m->value[w->whole])
      return refuse(why, "divides what is combined without `block`", w->row);
  }
  int64_t threads = 1;
  for (int i = 0; i < 3; i++) {
    int64_t n = m->value[m->threads[i]];
    if (n < 1 || n > m->t->threads || (threads *= n) > m->t->threads)
      return refuse(why, "gives a workgroup more threads than the machine has", NULL);
  }
  m->all_threads = threads;
  return true;
}

/* ---- times ---- */

/* Cycles of the units of a compute unit. */
typedef struct Cycles {
  double unit[UNIT_COUNT];
  double bytes; /* that are read or written */
  bool waits;   /* for loads into registers */
} Cycles;

static double up_to(int64_t n, int step) { return (double)ceil_div64(n, step) * step; }

static int machine_waves(const ChooseModel *m) { return ceil_div(m->all_threads, m->t->lanes); }

/* Rows and columns of the instructions of several waves. A product may be computed transposed. */
typedef struct Wide {
  double rows, columns;
  bool fits; /* there are enough waves, and the rows are not mostly padding */
} Wide;

/* Where a product takes the result of another from registers, each group of waves has rows of its own. */
static bool has_own_rows(const ChooseModel *m, const Item *p) {
  int64_t groups = m->all_threads / p->wide_lanes;
  for (int i = 0; p->chained && i < m->waves.n; i++) {
    int64_t whole = m->value[m->waves.at[i].whole], part = m->value[m->waves.at[i].part];
    bool is_side = whole == m->value[p->m] || whole == m->value[p->n];
    if (whole != part && whole < groups * p->wide_rows) return false;
    if (is_side && whole % p->wide_rows) return false;
  }
  return true;
}

static Wide wide_of(const ChooseModel *m, const Item *p) {
  int64_t a = m->value[p->m], b = m->value[p->n];
  if (!p->wide_rate || machine_waves(m) % (p->wide_lanes / m->t->lanes)) return (Wide){0};
  if (!has_own_rows(m, p)) return (Wide){0};
  Wide w = {up_to(a, p->wide_rows), up_to(b, WIDE_COLUMNS), true};
  double turned = up_to(b, p->wide_rows) * up_to(a, WIDE_COLUMNS);
  if (turned < w.rows * w.columns)
    w.rows = up_to(b, p->wide_rows), w.columns = up_to(a, WIDE_COLUMNS);
  w.fits = p->wide_rate * (double)a * (double)b > p->rate * w.rows * w.columns;
  return w;
}

/* Bytes that the instructions of several waves read from shared memory: each block of rows needs all
 * columns of its group. */
static double wide_reads(const ChooseModel *m, const Item *p, const Wide *w) {
  double groups = (double)machine_waves(m) * m->t->lanes / p->wide_lanes;
  double blocks = w->rows / p->wide_rows, each = w->columns;
  bool by_rows = blocks / groups == (double)(int64_t)(blocks / groups);
  if (!by_rows) blocks *= groups, each /= groups; /* groups divide the columns */
  double times = each / WIDE_MOST > 1 ? each / WIDE_MOST : 1;
  return blocks * (times * p->wide_rows + each) * (double)m->value[p->k] * p->bits / 8;
}

/* One wave reads them through its registers. */
static double narrow_reads(const ChooseModel *m, const Item *p, double rows, double columns) {
  double along = p->waves.n ? (double)m->value[p->waves.at[0]] : 1;
  double read = rows * (machine_waves(m) / along) + columns * along;
  return read * (double)m->value[p->k] * p->bits / 8;
}

static void add_product_cycles(const ChooseModel *m, const Item *p, Cycles *out) {
  double others = elements(m, &p->tile) / ((double)m->value[p->m] * (double)m->value[p->n]);
  double banks = m->t->banks * BANK_BYTES;
  double rows = up_to(m->value[p->m], NARROW_SIDE), columns = up_to(m->value[p->n], NARROW_SIDE);
  Wide w = wide_of(m, p);
  double rate = w.fits ? p->wide_rate : p->rate;
  double read = w.fits ? wide_reads(m, p, &w) : narrow_reads(m, p, rows, columns);
  double area = w.fits ? w.rows * w.columns : rows * columns;
  out->unit[UNIT_matrix] += others * area * (double)m->value[p->k] / rate;
  if (banks > 0) out->unit[UNIT_shared] += others * read / banks;
}

/* Waves that do not divide the tile read all of it. */
static double read_times(const ChooseModel *m, const Item *item) {
  double shared = 1, waves = machine_waves(m);
  for (int i = 0; i < item->waves.n; i++) shared *= (double)m->value[item->waves.at[i]];
  return item->staged || shared >= waves ? 1 : waves / shared;
}

static void add_cycles(const ChooseModel *m, const Item *item, Cycles *out) {
  double all = elements(m, &item->tile), words = item->bits / 32.0;
  double lanes = (double)m->rates->lanes * m->t->simds;
  double special = (double)m->rates->special * m->t->simds;
  /* A workgroup with fewer waves than there are SIMDs uses only some. */
  double share = (double)machine_waves(m) / m->t->simds;
  if (share > 1) share = 1;
  if (item->kind == ITEM_PRODUCT) {
    add_product_cycles(m, item, out);
  } else if (item->kind == ITEM_COMPUTE) {
    words = words < 0.5 ? 0.5 : words;
    out->unit[UNIT_vector] += all * item->weight.vector * words / (lanes * share);
    out->unit[UNIT_special] += all * item->weight.special / (special * share);
  } else {
    double bytes = all * item->bits / 8 * read_times(m, item);
    double row = item->row < 0 ? LINE_BYTES : (double)m->value[item->row] * item->bits / 8;
    double slower = row < LINE_BYTES ? 0.5 + 0.5 * LINE_BYTES / row : 1;
    out->unit[UNIT_copy] += slower * bytes / m->rates->l2;
    out->bytes += bytes;
    out->waits |= item->kind == ITEM_READ && !item->staged;
  }
}

/* The time of two things that happen at once: the fourth root of a^4 + b^4, by operations whose results are
 * the same everywhere. */
static double together(double a, double b) {
  double most = a > b ? a : b, least = a > b ? b : a, x = most > 0 ? least / most : 0;
  return most * sqrt(sqrt(1 + x * x * x * x));
}

/* Units that are nearly as busy as the busiest one delay it. The root of the sum of squares was within 16 % of what
 * GEMMs of six tiles took on an H200 (docs/gpu.md), the busiest unit alone between 36 and 64 % less. */
static double most_of(const Cycles *c) {
  double sum = 0;
  for (int u = 0; u < UNIT_COUNT; u++) sum += c->unit[u] * c->unit[u];
  return sqrt(sum);
}

/* Of one workgroup: products and what depends on them follow each other. */
static double interval_of(const ChooseModel *m, const Cycles *c, bool served) {
  double vector =
      c->unit[UNIT_vector] > c->unit[UNIT_special] ? c->unit[UNIT_vector] : c->unit[UNIT_special];
  double moved = together(c->unit[UNIT_copy], c->unit[UNIT_shared]);
  double all = together(c->unit[UNIT_matrix] + vector, moved), least = most_of(c);
  if (all < least) all = least;
  if (c->waits) all = together(all, m->latencies->global);
  return all + (served ? 0 : m->latencies->barrier);
}

static double times_of(const ChooseModel *m, int loop) {
  double times = 1;
  for (; loop >= 0; loop = m->loops.at[loop].around)
    times *=
        (double)(m->value[m->loops.at[loop].trips] > 0 ? m->value[m->loops.at[loop].trips] : 0);
  return times;
}

typedef struct Work {
  double body, busy;    /* of a tile: its loops, and how long its busiest unit works */
  double before, after; /* until the first iteration, after the last */
  double bytes;
} Work;

static Work work_of(const ChooseModel *m, const ChooseFound *found, bool served) {
  Work w = {.before = START + m->latencies->global};
  Cycles all = {0};
  for (int l = -1; l < m->loops.n; l++) {
    Cycles own = {0};
    double times = times_of(m, l);
    for (int i = 0; i < m->items.n; i++)
      if (m->items.at[i].loop == l) add_cycles(m, &m->items.at[i], &own);
    for (int u = 0; u < UNIT_COUNT; u++) all.unit[u] += times * own.unit[u];
    w.bytes += times * own.bytes;
    if (l < 0) {
      w.after = interval_of(m, &own, true);
      continue;
    }
    double least = most_of(&own), cycles = least > 0 ? interval_of(m, &own, served) : 0;
    if (found && found->interval[l] > 0)
      cycles = found->interval[l] > least ? found->interval[l] : least;
    w.body += times * cycles;
    if (times > 0) w.before += own.unit[UNIT_copy]; /* until its first tiles are there */
  }
  w.busy = most_of(&all);
  return w;
}

static double rounds_of(const Work *w, int64_t each, int64_t groups) {
  double sum = 0;
  for (int64_t left = each; left > 0;) {
    int64_t now = left < groups ? left : groups, times = left / now;
    double alone = w->before + w->body + w->after, busy = w->before + (double)now * w->busy;
    sum += (double)times * (now > 1 ? together(alone, busy) : alone > busy ? alone : busy);
    left -= times * now;
  }
  return sum;
}

static bool has_served_loop(const ChooseModel *m) {
  for (int i = 0; i < m->items.n; i++)
    if (m->items.at[i].kind == ITEM_READ && m->items.at[i].loop >= 0 && !m->items.at[i].staged)
      return false;
  return m->loops.n == 1 && target_has(m->t, SERVICE_FEATURES | FEATURE_SETMAXNREG);
}

static int64_t staged_bytes(const ChooseModel *m) {
  double bytes = 0;
  for (int i = 0; i < m->items.n; i++)
    if (m->items.at[i].staged) bytes += elements(m, &m->items.at[i].tile) * m->items.at[i].bits / 8;
  return (int64_t)bytes;
}

static int64_t held_registers(const ChooseModel *m) {
  double most = 0;
  for (int i = 0; i < m->held.n; i++) {
    const HeldTile *v = &m->held.at[i];
    m->registers[i] = elements(m, &v->tile) * v->bits / 32 / (double)m->all_threads;
  }
  for (int i = 0; i < m->moments.n; i++) {
    const Moment *at = &m->moments.at[i];
    double sum = 0;
    for (int j = 0; j < at->n; j++) sum += m->registers[at->held[j]];
    if (sum > most) most = sum;
  }
  return (int64_t)most;
}

static double memory_cycles(const ChooseModel *m, double bytes) {
  if (!m->memory) return 0;
  return bytes * m->memory->mhz / (m->memory->gigabytes * 1e3);
}

static double tensor_bytes(const ChooseModel *m) {
  double bytes = 0;
  for (int i = 0; i < m->k->params.n; i++) {
    const Type *t = m->k->body->args[i]->type;
    if (t->kind == TYPE_mem) bytes += elements(m, &m->tensor[i]) * dtype_memory_bits(t->dtype) / 8;
  }
  return bytes;
}

/* Where nothing is predicted: how many times larger or smaller than usual the values are. */
static double distance_of(const ChooseModel *m, const int64_t *value) {
  double sum = 0;
  for (int i = 0; i < m->open->n; i++) {
    double a = (double)value[i], b = (double)m->open->at[i].usual;
    sum += a > b ? a / b : b > 0 ? b / a : a;
  }
  return sum + (double)m->all_threads / m->t->lanes * 0.01;
}

static void predict(ChooseModel *m, const ChooseFound *found, Candidate *out) {
  int64_t slots = out->bytes ? m->t->shared_most / out->bytes : 0;
  int64_t bytes = out->bytes * (slots < 1 ? 1 : slots < SLOTS ? slots : SLOTS);
  int64_t registers = out->held + BESIDES, waves = machine_waves(m);
  if (found) registers = found->registers, bytes = found->bytes, waves = found->waves;
  out->groups = found && found->alone ? 1 : unit_groups(m->t, waves, registers, bytes);
  int64_t each = ceil_div64(out->tiles, m->t->units);
  out->persistent = found ? found->persistent : out->groups == 1 && each > 1 && has_served_loop(m);
  Work w = work_of(m, found, out->persistent);
  out->moved = w.bytes * (double)out->tiles;
  if (out->persistent) out->cycles = w.before + (double)each * w.body + w.after;
  else out->cycles = rounds_of(&w, each, out->groups);
  out->cycles = together(out->cycles, memory_cycles(m, tensor_bytes(m)));
}

bool choose_estimate(ChooseModel *m, const int64_t *value, const ChooseFound *found, Candidate *out,
                     Refusal *why) {
  *out = (Candidate){.tiles = 1};
  for (int i = 0; i < m->open->n; i++) out->value[i] = value[i];
  if (!is_legal(m, value, why)) return false;
  for (int i = 0; i < 3; i++) {
    int64_t n = m->value[m->tiles[i]];
    out->tiles *= n > 0 && out->tiles < INT64_MAX / n ? n : 1;
  }
  out->bytes = staged_bytes(m);
  if (out->bytes > m->t->shared_most && !target_has(m->t, FEATURE_REGISTER_TILES))
    return refuse(why, "needs more shared memory than the machine has", NULL);
  if (!choose_predicts(m)) return out->cycles = distance_of(m, value), true;
  out->held = held_registers(m);
  /* Conversions and addresses take a quarter at most. */
  if (out->held > (target_most_registers(m->t, machine_waves(m)) - RESERVED) * 3 / 4)
    return refuse(why, "needs more registers than a thread has", NULL);
  predict(m, found, out);
  return true;
}

bool choose_expects_wide(ChooseModel *m, const int64_t *value) {
  Refusal why;
  if (!choose_predicts(m) || !is_legal(m, value, &why)) return false;
  for (int i = 0; i < m->items.n; i++)
    if (m->items.at[i].kind == ITEM_PRODUCT && wide_of(m, &m->items.at[i]).fits) return true;
  return false;
}

ChooseFloor choose_floor(const ChooseModel *m) {
  ChooseFloor f = {.bytes = tensor_bytes(m)};
  double rate = 0;
  for (int i = 0; i < m->products.n; i++) f.flops += 2 * elements(m, &m->products.at[i]);
  for (int i = 0; i < m->items.n; i++) {
    if (m->items.at[i].wide_rate > rate) rate = m->items.at[i].wide_rate;
    if (m->items.at[i].rate > rate) rate = m->items.at[i].rate;
  }
  f.memory = memory_cycles(m, f.bytes);
  if (rate > 0 && m->t->units) f.matrix = f.flops / 2 / (rate * m->t->units);
  return f;
}
