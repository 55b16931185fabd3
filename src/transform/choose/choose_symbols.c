/* choose_symbols.c: see choose_symbols.h. */
#include "transform/choose/choose_symbols.h"

#include "ir/ops/access.h"
#include "ir/ops/reductions.h"
#include "transform/choose/choose_cpu.h"

/* ---- which are open ---- */

typedef struct Search {
  Kernel *k;
  const Distribution *d;
  Arena *arena;
  SetSymbols set;
  ChooseTiles *out;
} Search;

static bool mentions(const Search *s, const Sym *e, const Sym *symbol) {
  FreeSymbols symbols = sym_symbols(s->arena, e ? distribute_fixed(s->d, e) : NULL);
  for (int i = 0; i < symbols.n; i++)
    if (sym_same_name(symbols.at[i], symbol)) return true;
  return false;
}

/* A tensor whose shape depends on the symbol was made for one value of it. */
static bool is_of_tensor(const Search *s, const Sym *symbol) {
  for (int i = 0; i < s->k->params.n; i++) {
    const Type *t = s->k->body->args[i]->type;
    for (int j = 0; t->kind == TYPE_mem && j < t->rank; j++)
      if (mentions(s, t->dims[j], symbol) || (t->layout && mentions(s, t->layout[j], symbol)))
        return true;
  }
  return false;
}

static bool is_open(const Search *s, const Sym *symbol) {
  return sym_name(symbol)[0] != '$' && !ir_is_of_launch(s->k, symbol) &&
         !kernel_constraint(s->k, CONSTRAINT_dynamic, symbol) && !symbol_is_set(&s->set, symbol) &&
         !is_of_tensor(s, symbol);
}

static void add_symbols(Search *s, const Constraint *row, const Sym *size) {
  int64_t number;
  if (!size || sym_is_int(size, &number)) return;
  FreeSymbols symbols = sym_symbols(s->arena, distribute_fixed(s->d, size));
  for (int i = 0; i < symbols.n; i++) {
    const Sym *symbol = symbols.at[i];
    int at = 0;
    while (at < s->out->n && !sym_same_name(s->out->at[at].symbol, symbol)) at++;
    if (at < s->out->n || !is_open(s, symbol)) continue;
    if (at < CHOOSE_SYMBOLS) s->out->at[s->out->n++] = (ChooseTile){.symbol = symbol, .row = row};
    else if (!s->out->too_many) s->out->too_many = symbol, s->out->too_many_row = row;
  }
}

static bool is_division(const Constraint *c) {
  return c->kind == CONSTRAINT_workgroup || c->kind == CONSTRAINT_tile ||
         c->kind == CONSTRAINT_wave;
}

ChooseTiles choose_open(const Distribution *d, Arena *scratch) {
  ChooseTiles found = {0};
  Search s = {.k = d->k, .d = d, .arena = scratch, .out = &found};
  s.set = set_symbols(d->k, scratch);
  for (int i = 0; i < d->k->constraints.n; i++) {
    const Constraint *c = &d->k->constraints.at[i];
    if (is_division(c)) add_symbols(&s, c, c->divided.size);
    for (int j = 0; c->kind == CONSTRAINT_hardware && j < 3; j++)
      add_symbols(&s, c, c->hardware.waves[j]);
  }
  return found;
}

/* ---- what a symbol is for ---- */

typedef struct Use {
  bool m, n, k;          /* its dimension has this role in a product */
  bool waves;            /* it is a number of waves */
  bool only_waves;       /* only wave rows and numbers of waves mention it */
  bool workgroup;        /* a workgroup row mentions it */
  const Constraint *row; /* whose size is the symbol itself; NULL: none is */
  int64_t size;          /* of that row's dimension; 0: unknown */
  int64_t expected;      /* the same, as far as it is expected */
  const Op *whole; /* combines elements along it: the tile is the whole dimension; NULL: none */
} Use;

static void add_roles(const Search *s, const Sym *dim, Use *use) {
  for (const Op *op = ir_first(s->k); op; op = ir_next(op)) {
    Product p;
    if (!op_is_product(op) || product_of(s->k, op, &p)) continue;
    use->m |= dim_base(p.roles.m) == dim;
    use->n |= dim_base(p.roles.n) == dim;
    use->k |= dim_base(p.roles.k) == dim;
  }
}

static bool has_atomics(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op_is_atomic(op) || op->kind == OP_scatter_add) return true;
  return false;
}

static bool is_in_loop_over(const Op *op, const Sym *dim) {
  for (const Op *outer = op->parent->owner; outer; outer = outer->parent->owner)
    if (outer->kind == OP_for && op_attr(outer, ATTR_axis)->sym == dim) return true;
  return false;
}

/* The op that needs all elements of a workgroup's dimension; NULL: none. If workgroups add to each
 * other's results, each needs only its own. */
static const Op *needs_whole(const Search *s, const Sym *dim) {
  if (has_atomics(s->k)) return NULL;
  for (const Op *op = ir_first(s->k); op; op = ir_next(op)) {
    const Attr *along = op_attr(op, ATTR_dim);
    Product p;
    bool product = op_is_product(op) && !product_of(s->k, op, &p) && dim_base(p.roles.k) == dim;
    bool reduced = (op_is_reduction(op) || op_is_scan(op) || op->kind == OP_topk) &&
                   dim_base(along->sym) == dim;
    if ((product || reduced) && !is_in_loop_over(op, dim)) return op;
  }
  return NULL;
}

static int64_t size_of(const Search *s, const Sym *dim, bool expected) {
  int64_t n;
  const Sym *size = distribute_fixed(s->d, dim);
  if (size && expected) size = kernel_expected(s->k, size);
  return size && sym_is_int(size, &n) ? (n > 1 ? n : 1) : 0;
}

static void add_row(const Search *s, const ChooseTile *t, const Constraint *c, Use *use) {
  const Sym *size = distribute_fixed(s->d, c->divided.size);
  add_roles(s, dim_base(c->divided.dim), use);
  use->workgroup |= c->kind == CONSTRAINT_workgroup;
  use->only_waves &= c->kind == CONSTRAINT_wave;
  if (c->kind == CONSTRAINT_workgroup && !use->whole)
    use->whole = needs_whole(s, dim_base(c->divided.dim));
  bool better = !use->row || use->row->kind == CONSTRAINT_wave;
  if (!size || !sym_same_name(size, t->symbol) || !better) return;
  use->row = c, use->size = size_of(s, c->divided.dim, false);
  use->expected = size_of(s, c->divided.dim, true);
}

static Use use_of(const Search *s, const ChooseTile *t) {
  Use use = {.only_waves = true};
  for (int i = 0; i < s->k->constraints.n; i++) {
    const Constraint *c = &s->k->constraints.at[i];
    for (int j = 0; c->kind == CONSTRAINT_hardware && j < 3; j++)
      use.waves |= mentions(s, c->hardware.waves[j], t->symbol);
    if (is_division(c) && mentions(s, c->divided.size, t->symbol)) add_row(s, t, c, &use);
  }
  return use;
}

/* ---- values ---- */

/* In ascending order. */
static void add_value(ChooseTile *t, int64_t value) {
  int at = t->n;
  for (int i = 0; i < t->n; i++)
    if (t->value[i] == value) return;
  if (t->n == CHOOSE_VALUES) return;
  for (; at > 0 && t->value[at - 1] > value; at--) t->value[at] = t->value[at - 1];
  t->value[at] = value, t->n++;
}

static void add_list(ChooseTile *t, const int *list, int n) {
  for (int i = 0; i < n; i++) add_value(t, list[i]);
}

static void add_powers(ChooseTile *t, int64_t from, int64_t to) {
  for (int64_t v = from; v <= to; v *= 2) add_value(t, v);
}

/* What waves may have of a dimension that a workgroup has as a whole. */
static void add_shares(ChooseTile *t, int64_t size) {
  for (int waves = 1; waves <= 16 && size; waves *= 2)
    if (size % waves == 0) add_value(t, size / waves);
}

static void add_plain(ChooseTile *t, const Use *use) {
  static const int sides[] = {16, 32, 64, 96, 128, 192, 256}, sums[] = {16, 32, 64, 128, 256};
  if (use->waves && use->only_waves) add_powers(t, 1, 16);
  else if (use->m || use->n) add_list(t, sides, WV_LEN(sides));
  else if (use->k) add_list(t, sums, WV_LEN(sums));
  else if (use->only_waves) add_shares(t, use->size), add_powers(t, 1, 1024);
  else if (use->workgroup) add_powers(t, 1, 2048);
  else add_powers(t, 8, 8192);
  t->usual = use->waves && use->only_waves ? 1
             : use->m                      ? 128
             : use->n || use->k            ? 256
             : use->workgroup              ? 16
                                           : 256;
}

/* What the tile must be a multiple of: the declared instruction, and 32 for dims like K/32. */
static int64_t step_of(const Search *s, const Use *use) {
  const HardwareSpec *hardware = kernel_hardware(s->k);
  const MmaInfo *row = hardware && hardware->mma.name ? mma_find(hardware->mma.name) : NULL;
  int64_t step = 1, num, den;
  if (row && use->m) step = row->m;
  if (row && use->n && row->n > step) step = row->n;
  if (row && use->k && row->k > step) step = row->k;
  const Sym *dim = use->row ? dim_base(use->row->divided.dim) : NULL, *base;
  for (const Op *op = ir_first(s->k); op && dim; op = ir_next(op))
    for (int i = 0; i < op->nresults; i++) {
      const Type *t = op->results[i].type;
      for (int j = 0; j < t->rank; j++)
        if (sym_scaled_symbol(t->dims[j], &base, &num, &den) && base == dim && den > step)
          step = den;
    }
  return step;
}

/* Keeps multiples of the step, up to the first that has the whole dimension. */
static void keep_useful(const Use *use, int64_t step, ChooseTile *t) {
  int n = 0;
  bool whole = false;
  for (int i = 0; i < t->n && !whole; i++) {
    if (t->value[i] % step) continue;
    t->value[n++] = t->value[i];
    whole = use->expected && t->value[i] >= use->expected;
  }
  if (n == 0) t->value[n++] = step;
  t->n = n;
}

/* The tile that waves divide, if its size is given: a wave may have all of it, also where that is no
 * multiple of an instruction. 0: it is not given. */
static int64_t divided_tile(const Search *s, const Use *use) {
  int64_t n;
  if (!use->only_waves || use->waves || !use->row) return 0;
  const Sym *dim = use->row->divided.dim;
  const Constraint *c = kernel_constraint(s->k, CONSTRAINT_workgroup, dim);
  if (!c) c = kernel_constraint(s->k, CONSTRAINT_tile, dim);
  const Sym *size = c ? distribute_fixed(s->d, c->divided.size) : NULL;
  return size && sym_is_int(size, &n) && n > 0 ? n : 0;
}

/* Where products are blocks of registers, their tiles follow from these. */
static void add_block(ChooseTile *t, const Use *use, const CpuTiles *tiles) {
  if (!tiles->m || use->waves || use->m + use->n + use->k != 1) return;
  t->usual = use->m ? tiles->m : use->n ? tiles->n : tiles->k;
  add_value(t, t->usual);
}

void choose_fill(const Distribution *d, const TargetInfo *machine, Arena *scratch,
                 ChooseTiles *open) {
  CpuTiles tiles = choose_cpu_tiles(d, machine);
  Search s = {.k = d->k, .d = d, .arena = scratch, .out = open};
  for (int i = 0; i < open->n; i++) {
    ChooseTile *t = &open->at[i];
    Use use = use_of(&s, t);
    bool whole = use.whole && use.row && !use.waves;
    if (whole && !use.size) t->why = "combines elements along a dimension of unknown size";
    if (whole && !use.size) t->blamed = use.whole;
    if (whole && use.size) add_value(t, use.size), t->usual = use.size;
    if (whole) continue;
    add_plain(t, &use);
    add_block(t, &use, &tiles);
    keep_useful(&use, step_of(&s, &use), t);
    int64_t tile = divided_tile(&s, &use);
    if (tile) add_value(t, tile);
  }
}
