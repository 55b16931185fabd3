/* open_tiles.c: see open_tiles.h. */
#include "driver/open_tiles.h"

#include "analysis/analysis.h"
#include "anchors/contract.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "transform/choose/choose_symbols.h"

typedef struct Search {
  Kernel *k;
  const Distribution *d;
  Arena *arena;
  OpenSymbols *out;
  ChooseTiles chosen; /* which the compiler gives values, once the others have some */
  bool hopeless;      /* a size is not known at the call, or there are too many symbols */
} Search;

static bool mentions(const Search *s, const Sym *e, const Sym *symbol) {
  FreeSymbols symbols = sym_symbols(s->arena, e ? distribute_fixed(s->d, e) : NULL);
  for (int i = 0; i < symbols.n; i++)
    if (sym_same_name(symbols.at[i], symbol)) return true;
  return false;
}

static bool mentions3(const Search *s, const Sym *const e[3], const Sym *symbol) {
  return mentions(s, e[0], symbol) || mentions(s, e[1], symbol) || mentions(s, e[2], symbol);
}

/* ---- sizes ---- */
static bool is_chosen(const Search *s, const Sym *symbol) {
  for (int i = 0; i < s->chosen.n; i++)
    if (sym_same_name(s->chosen.at[i].symbol, symbol)) return true;
  return false;
}

static void add_symbol(Search *s, const Sym *symbol, bool by_value) {
  OpenSymbols *out = s->out;
  if (is_chosen(s, symbol)) return;
  int i = 0;
  while (i < out->n && !sym_same_name(out->at[i].symbol, symbol)) i++;
  if (i == OPEN_MOST || !ir_is_of_launch(s->k, symbol)) {
    s->hopeless = true;
    return;
  }
  if (i == out->n) out->at[out->n++] = (OpenSymbol){symbol, false};
  out->at[i].by_value |= by_value;
}

/* A size that must be a number. `whole`: the dimension it may be the whole of, or NULL. */
static void add_size(Search *s, const Sym *size, const Sym *whole) {
  FreeSymbols symbols = sym_symbols(s->arena, size);
  for (int i = 0; i < symbols.n; i++) add_symbol(s, symbols.at[i], size != whole);
}

static void add_type(Search *s, const Op *op, const Type *t) {
  for (int i = 0; i < t->rank; i++)
    add_size(s, distribute_reach(s->d, op, t->dims[i]), dim_base(t->dims[i]));
}

static void add_alloc(Search *s, const Op *op) {
  const Type *t = op->results[0].type;
  for (int i = 0; i < t->rank; i++) {
    const Sym *given = alloc_extent(s->k, op, i);
    if (given) add_size(s, distribute_expr(s->d, op, given), NULL);
    else add_size(s, distribute_reach(s->d, op, t->dims[i]), dim_base(t->dims[i]));
  }
}

static void add_op(Search *s, const Op *op) {
  bool stores = op->kind == OP_write || op_is_atomic(op);
  const Type *spread = stores ? access_spread(s->k->cx, op) : NULL;
  if (op->kind == OP_alloc) add_alloc(s, op);
  if (spread) add_type(s, op, spread);
  for (int i = 0; i < op->nresults; i++)
    if (op->results[i].type->kind == TYPE_tile) add_type(s, op, op->results[i].type);
}

/* ---- which tiles may be larger ---- */

/* The tile of K/32 would no longer match that of K. */
static bool is_divided(const Type *t, const Sym *symbol) {
  for (int i = 0; i < t->rank; i++)
    if (sym_same_name(dim_base(t->dims[i]), symbol) && t->dims[i] != dim_base(t->dims[i]))
      return true;
  return false;
}

static bool has_divided_dim(const Search *s, const Sym *symbol) {
  for (int i = 0; i < s->k->params.n; i++)
    if (is_divided(s->k->body->args[i]->type, symbol)) return true;
  for (const Op *op = ir_first(s->k); op; op = ir_next(op))
    for (int i = 0; i < op->nresults; i++)
      if (is_divided(op->results[i].type, symbol)) return true;
  return false;
}

static bool pairs_need(const Search *s, const SymPairs *pairs, const Sym *symbol) {
  for (int i = 0; i < pairs->n; i++)
    if (!sym_same_name(pairs->at[i].key, symbol) && mentions(s, pairs->at[i].value, symbol))
      return true;
  return false;
}

/* Whether the row uses the value for anything but the symbol's own dimension. */
static bool row_needs(const Search *s, const Constraint *c, const Sym *symbol) {
  switch (c->kind) {
  case CONSTRAINT_workgroup:
    return sym_same_name(c->workgroup.dim, symbol) && (c->workgroup.start || c->workgroup.count);
  case CONSTRAINT_wave: /* its own waves may share the tile of a loop */
    return sym_same_name(c->wave.dim, symbol)
               ? !kernel_constraint(s->k, CONSTRAINT_workgroup, c->wave.dim)
               : mentions(s, c->wave.size, symbol);
  case CONSTRAINT_hardware:
    return mentions3(s, c->hardware.waves, symbol) || mentions3(s, c->hardware.cluster, symbol) ||
           pairs_need(s, &c->hardware.vector, symbol);
  case CONSTRAINT_alias:
    return sym_same_name(c->alias.dim, symbol) || sym_same_name(c->alias.of, symbol) ||
           mentions(s, c->alias.rule, symbol);
  case CONSTRAINT_device:
    return sym_same_name(c->device.dim, symbol) || mentions(s, c->device.size, symbol);
  default: return false;
  }
}

static bool needs_value(const Search *s, const Sym *symbol) {
  if (sym_kind(symbol) != SYM_symbol || has_divided_dim(s, symbol)) return true;
  for (int i = 0; i < s->k->constraints.n; i++)
    if (row_needs(s, &s->k->constraints.at[i], symbol)) return true;
  return false;
}

OpenSymbols open_symbols(Kernel *k) {
  OpenSymbols found = {0};
  Facts f = facts_of(k, arena_new(), FACT_distribute);
  Search s = {.k = k, .arena = f.arena, .d = f.distribute, .out = &found};
  s.chosen = choose_open(f.distribute, f.arena);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) add_op(&s, op);
  for (int i = 0; i < 3; i++) add_size(&s, s.d->threads[i], s.d->threads[i]);
  if (s.hopeless) found.n = 0;
  if (found.n) facts_supply(&f, k, FACT_uniform);
  bool pure = found.n && !contract_of(s.d, f.uniform, f.arena).op;
  for (int i = 0; i < found.n; i++)
    found.at[i].by_value |= !pure || needs_value(&s, found.at[i].symbol);
  arena_free(f.arena);
  return found;
}

/* ---- the largest tile ---- */

static int64_t elements_of(const Distribution *d, const Op *op, const Type *t) {
  int64_t all = 1, n;
  for (int i = 0; i < t->rank; i++) {
    const Sym *reach = distribute_reach(d, op, t->dims[i]);
    if (!reach || !sym_is_int(reach, &n) || n < 1 || all > INT64_MAX / n) return 0;
    all *= n;
  }
  return all;
}

int64_t open_largest_tile(Kernel *k) {
  Arena *a = arena_new();
  const Distribution *d = facts_of(k, a, FACT_distribute).distribute;
  int64_t most = 1;
  for (const Op *op = ir_first(k); op && most; op = ir_next(op))
    for (int i = 0; i < op->nresults && most; i++) {
      int64_t n =
          op->results[i].type->kind == TYPE_tile ? elements_of(d, op, op->results[i].type) : 1;
      most = n > most || n == 0 ? n : most;
    }
  arena_free(a);
  return most;
}
