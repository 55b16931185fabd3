/* in_bounds.c: for each access and dimension, is 0 <= index < size always true? (docs/language.md,
 * section 6.2)
 *
 *     workgroup M by 64 on 0; tile K by 32; assume Eq(Mod(K, 32), 0)
 *     for K { %x = read %a }      $x0 < M   tested: 64*$WG0 + $e0 < M does not hold for every M
 *                                 $x1 < K   proved: $ARGK <= K/32 - 1, so 32*$ARGK + 31 <= K - 1
 *
 * An element is active when its own coordinates are below their bounds and every coordinate in
 * memory is inside the memory. Each of these conditions is proved for all workgroups, iterations
 * and elements, or becomes a test. A test that follows from the others is dropped, so the list is
 * minimal. An index that comes from memory has no range, so it is never proved. */
#include "analysis/access/in_bounds.h"

#include "analysis/analysis.h"
#include "ir/ops/alloc_layout.h"

typedef struct Finder {
  Kernel *k;
  Arena *arena;
  SymCtx *sym;
  AccessBounds **found; /* by op id */
  const Sym ***scratch; /* by op id of an alloc: its sizes; NULL entries are unknown */
} Finder;

/* ---- sizes of memories ---- */

/* An allocation has its declared extents, or those of the workgroup's tile at its position. */
static void note_alloc(Finder *f, const Standing *s, const Op *op) {
  const Type *t = op->results[0].type;
  const Sym **sizes = ARENA_ARRAY(f->arena, const Sym *, t->rank);
  DimRange here;
  for (int i = 0; i < t->rank; i++) {
    const Sym *given = alloc_extent(f->k, op, i);
    sizes[i] = given                                      ? distribute_expr(s->d, op, given)
               : standing_range(s, op, t->dims[i], &here) ? here.size
                                                          : NULL;
  }
  f->scratch[op->id] = sizes;
}

/* NULL: known only at run time, from the memory itself. */
static const Sym *memory_size(const Finder *f, const Standing *s, const MemAccess *a, int m) {
  const Type *t = a->memory->type;
  const Value *root = memory_root(a->memory);
  if (root->def) return root == a->memory ? f->scratch[root->def->id][m] : NULL;
  if (root != a->memory) return NULL; /* a carried memory may have changed by now */
  if (!t->layout) return standing_entry_extent(s, t->dims[m]);
  return t->layout[m] ? distribute_expr(s->d, NULL, t->layout[m]) : NULL;
}

/* ---- conditions ---- */

typedef struct Work {
  Finder *f;
  const Standing *s;
  AccessBounds *b;
  SymFacts *facts;                  /* facts at the op, plus those about the $e */
  SymBinding position[IR_MAX_RANK]; /* $xi is start + $ei */
  const Sym *coords[IR_MAX_RANK];   /* $yi over the $x */
  const Sym *sizes[IR_MAX_RANK];    /* of the memory; NULL: not known */
  const Bound *never;               /* a bound that no element meets; NULL: none is known */
} Work;

static const Sym *at_position(const Work *w, const Sym *e) {
  return sym_subst(w->f->sym, e, w->position, w->b->access.tile->rank);
}

/* Adds that b.coord is below b.limit, or not negative; `name` and `named` are how a test spells
 * them. */
static void add_bound(Work *w, Bound b, const Sym *name, const Sym *named) {
  SymCtx *cx = w->f->sym;
  const Sym *zero = sym_int(cx, 0);
  WV_ASSERT(w->b->nbounds < MAX_BOUNDS);
  b.test = named ? sym_lt(cx, name, named) : sym_ge(cx, name, zero);
  b.at = at_position(w, b.coord);
  b.meaning = named ? sym_lt(cx, b.at, b.limit) : sym_ge(cx, b.at, zero);
  w->b->bounds[w->b->nbounds++] = b;
}

/* The bound of a dimension: from `bounds`, or its size. NULL: none. */
static const Sym *dim_bound(const Work *w, const Sym *dim) {
  const MemAccess *a = &w->b->access;
  const Sym *bound = NULL;
  const Attr *bounds = op_attr(a->op, ATTR_bounds);
  if (!bounds) return a->test_extents ? standing_extent(w->s, a->op, dim) : NULL;
  for (int p = 0; p < bounds->n; p++) {
    const SymPair *pair = &bounds->pairs[p];
    if (dim_base(pair->key) != dim_base(dim)) continue;
    const Sym *symbol;
    int64_t num = 1, den = 1;
    bound = distribute_expr(w->s->d, a->op, pair->value);
    if (pair->key != dim) sym_scaled_symbol(dim, &symbol, &num, &den);
    bound = sym_mul(w->f->sym, bound, sym_rational(w->f->sym, num, den));
    bound = pair->key != dim ? sym_ceil(w->f->sym, bound) : sym_floor(w->f->sym, bound);
  }
  return bound;
}

/* Whether the bound that was added last is met by no element. */
static void note_never(Work *w) {
  const Bound *last = &w->b->bounds[w->b->nbounds - 1];
  const Sym *beyond = last->at ? sym_ge(w->f->sym, last->at, last->limit) : NULL;
  if (!w->never && beyond && sym_proves(w->f->sym, w->facts, beyond)) w->never = last;
}

/* An access that acts for another iteration has elements only if that iteration exists. This is
 * tested first: if it does, the tile lies as in the loop. */
static void bound_iteration(Work *w) {
  const MemAccess *a = &w->b->access;
  const Attr *at = op_attr(a->op, ATTR_iteration);
  for (int i = 0; at && !a->local && i < at->n; i++) {
    const Sym *counter = distribute_expr(w->s->d, a->op, at->pairs[i].value);
    Bound b = {.dim = at->pairs[i].key, .coord = counter};
    add_bound(w, b, counter, NULL);
    b.limit = distribute_trips_over(w->s->d, a->op, b.dim);
    add_bound(w, b, counter, b.limit);
    note_never(w);
  }
}

static void bound_tile(Work *w) {
  const Type *t = w->b->access.tile;
  for (int i = 0; i < t->rank; i++) {
    const Sym *x = access_x(w->f->sym, i), *limit = dim_bound(w, t->dims[i]);
    if (limit) add_bound(w, (Bound){.dim = t->dims[i], .coord = x, .limit = limit}, x, limit);
  }
}

/* A store whose register lacks dimensions of the memory goes to the workgroup's position along
 * them (`widen`), which may be beyond a size that was set since. */
static void bound_lacked(Work *w) {
  const MemAccess *a = &w->b->access;
  const Type *t = a->memory->type;
  if (!memory_written(a->op) || a->op->kind == OP_copy || a->mapping) return;
  for (int m = 0; m < t->rank; m++) {
    const Sym *y = access_y(w->f->sym, m);
    const Sym *limit = type_base_dim(a->tile, t->dims[m]) < 0 ? dim_bound(w, t->dims[m]) : NULL;
    Bound b = {.dim = t->dims[m], .coord = w->coords[m], .limit = limit};
    if (limit) add_bound(w, b, y, limit);
  }
}

/* A size that is a number is written as one; otherwise it is read from the memory ($ni). */
static void bound_memory(Work *w) {
  const Type *t = w->b->access.memory->type;
  for (int m = 0; m < t->rank; m++) {
    int64_t known = 1;
    const Sym *y = access_y(w->f->sym, m), *n = access_n(w->f->sym, m), *size = w->sizes[m];
    if (size && sym_is_int(size, &known)) n = size;
    Bound b = {.dim = t->dims[m], .of_memory = true, .coord = w->coords[m]};
    add_bound(w, b, y, NULL);
    b.limit = size ? size : n;
    add_bound(w, b, y, n);
    if (n == size && !known) note_never(w); /* the memory has no element */
  }
}

/* The offset computed from the coordinates: their sum, weighted by the strides of the memory. */
static const Sym *offset_of(const Work *w) {
  SymCtx *cx = w->f->sym;
  const Value *memory = w->b->access.memory;
  const Sym *offset = sym_int(cx, 0), *stride = sym_int(cx, 1);
  bool known = !memory_is_view(w->f->k, memory);
  for (int m = 1; m < memory->type->rank; m++) known = known && w->sizes[m];
  for (int m = memory->type->rank - 1; m >= 0; m--) {
    if (!known) stride = ir_param_symbol(w->f->k, memory->index, "STRIDE", m);
    if (w->coords[m]) offset = sym_add(cx, offset, sym_mul(cx, w->coords[m], stride));
    if (known && m) stride = sym_mul(cx, stride, w->sizes[m]);
  }
  return offset;
}

/* Symbols that may hold any number are clamped to where arithmetic stays in 64 bits, and tested for
 * having been in that range. */
static void bound_symbols(Work *w) {
  SymCtx *cx = w->f->sym;
  int rank = w->b->access.memory->type->rank, tested = 0;
  for (int i = 0; i < w->s->d->far.n; i++) {
    const Sym *symbol = w->s->d->far.at[i], *limit = NULL;
    bool occurs = false;
    for (int m = 0; m < rank; m++) occurs |= w->coords[m] && sym_contains(w->coords[m], symbol);
    if (!occurs) continue;
    if (!access_reach(cx, w->coords, rank, offset_of(w), symbol, &limit) || tested == FAR_MOST)
      w->b->far = symbol;
    if (!limit || w->b->far) continue;
    const Sym *near = sym_eq(cx, access_clamp(cx, symbol, symbol, limit), symbol);
    w->b->bounds[w->b->nbounds++] =
        (Bound){.dim = symbol, .coord = symbol, .at = symbol, .test = near, .meaning = near};
    for (int m = 0; m < rank; m++)
      w->coords[m] = w->coords[m] ? access_clamp(cx, w->coords[m], symbol, limit) : NULL;
    tested++;
  }
  for (int m = 0; m < rank; m++) w->b->coords[m] = w->coords[m];
}

/* ---- proofs ---- */

static bool follows(const Work *w, const SymFacts *facts, const Bound *b) {
  return b->meaning && sym_proves(w->f->sym, facts, b->meaning);
}

static bool is_made_sure(const Bound *b) {
  return b->verdict == BOUND_tested || b->verdict == BOUND_filled;
}

/* The facts, plus every tested bound except number `but`. */
static const SymFacts *tested_facts(const Work *w, int but) {
  SymFacts *facts = sym_facts_new(w->f->arena, w->f->sym, w->facts);
  for (int i = 0; i < w->b->nbounds; i++)
    if (i != but && is_made_sure(&w->b->bounds[i]) && w->b->bounds[i].meaning)
      sym_assume(facts, w->b->bounds[i].meaning);
  return facts;
}

static BoundVerdict judge(const Work *w, const Bound *b, int tests, int but) {
  if (follows(w, w->facts, b)) return BOUND_proved;
  return tests && follows(w, tested_facts(w, but), b) ? BOUND_implied : BOUND_tested;
}

/* The copy of a box determines by itself which elements the tensor has. */
static int decide_filled(Work *w) {
  int filled = 0;
  for (int i = 0; i < w->b->nbounds; i++) {
    Bound *bound = &w->b->bounds[i];
    if (!bound->of_memory) continue;
    bound->verdict = follows(w, w->facts, bound) ? BOUND_proved : BOUND_filled;
    filled += bound->verdict == BOUND_filled;
  }
  return filled;
}

/* No element exists, so every bound follows from one test. The others would follow from each other,
 * too, and the test kept might be one that differs between neighbours. */
static void decide_never(Work *w) {
  for (int i = 0; i < w->b->nbounds; i++) {
    Bound *bound = &w->b->bounds[i];
    bound->verdict = bound == w->never ? BOUND_tested : BOUND_implied;
  }
}

/* In order: a bound that is not known becomes a test and is known from then on. Then a second time,
 * because an early test may follow from later ones. */
static void decide(Work *w) {
  AccessBounds *b = w->b;
  const Attr *bounds = op_attr(b->access.op, ATTR_bounds);
  bool promised = bounds && bounds->n == 0 && !b->access.local;
  bool fills = !promised && copy_goes_by(b->access.op, "tma");
  if (w->never && !promised && !fills) return decide_never(w);
  int tests = fills ? decide_filled(w) : 0;
  for (int i = 0; i < b->nbounds; i++) {
    Bound *bound = &b->bounds[i];
    if (fills && bound->of_memory) continue;
    bound->verdict = promised ? BOUND_promised : judge(w, bound, tests, -1);
    tests += bound->verdict == BOUND_tested;
  }
  for (int i = 0; tests > 1 && i < b->nbounds; i++) {
    if (b->bounds[i].verdict != BOUND_tested) continue;
    b->bounds[i].verdict = judge(w, &b->bounds[i], tests, i);
    tests -= b->bounds[i].verdict != BOUND_tested;
  }
}

/* ---- one access ---- */

const Sym *access_tile_position(SymCtx *cx, int i) { return sym_numbered(cx, "$e", i, true); }

/* $xi is start + $ei with 0 <= $ei < size; a position without an expression may be anywhere. */
static void open_tile(Work *w) {
  const Type *t = w->b->access.tile;
  SymCtx *cx = w->f->sym;
  for (int i = 0; i < t->rank; i++) {
    DimRange here;
    const Sym *e = access_tile_position(cx, i);
    if (!standing_range(w->s, w->b->access.op, t->dims[i], &here)) {
      w->b->no_position = true;
      here = (DimRange){.start = sym_symbol(cx, "$somewhere", false)};
    }
    if (here.size) sym_assume(w->facts, sym_le(cx, e, sym_sub(cx, here.size, sym_int(cx, 1))));
    if (here.size == sym_int(cx, 1)) e = sym_int(cx, 0);
    w->position[i] = (SymBinding){access_x(cx, i), sym_add(cx, here.start, e)};
    standing_learn_remainders(cx, w->facts, here.start);
  }
}

/* Whether some tile of n elements exists, which follows from a workgroup's and an iteration's existence. */
static bool has_tile(const Work *w, const Sym *size, int64_t n) {
  SymCtx *cx = w->f->sym;
  const Sym *tiles = size ? sym_ceil(cx, sym_mul(cx, size, sym_rational(cx, 1, n))) : NULL;
  return tiles && sym_proves(cx, w->facts, sym_ge(cx, tiles, sym_int(cx, 1)));
}

/* Whether a dimension, such as the pixels of all images, is empty if the size is 0. */
static bool is_empty_without(const Work *w, const Sym *extent, const Sym *size) {
  SymCtx *cx = w->f->sym;
  const Sym *zero = sym_int(cx, 0);
  SymBinding none = {size, zero};
  if (!extent || !sym_name(size)) return false;
  return sym_simplify(cx, w->facts, sym_subst(cx, extent, &none, 1)) == zero;
}

/* A size is positive if a tile of it exists, or of a dimension that it is a factor of. */
static bool is_positive(const Work *w, const Sym *size) {
  SymCtx *cx = w->f->sym;
  const MemAccess *a = &w->b->access;
  int64_t n;
  if (sym_proves(cx, w->facts, sym_ge(cx, size, sym_int(cx, 1)))) return true;
  for (int i = 0; i < a->tile->rank; i++) {
    DimRange here;
    if (!standing_range(w->s, a->op, a->tile->dims[i], &here) || !here.size) continue;
    if (!sym_is_int(here.size, &n) || n < 1) continue;
    if (has_tile(w, size, n)) return true;
    const Sym *extent = standing_extent(w->s, a->op, a->tile->dims[i]);
    if (is_empty_without(w, extent, size) && has_tile(w, extent, n)) return true;
  }
  return false;
}

/* Only used for what the copy engine may do. */
static unsigned inhabited_dims(const Work *w) {
  OpKind kind = w->b->access.op->kind;
  unsigned found = 0;
  bool read = kind == OP_prefetch || (kind == OP_read && !w->b->access.local);
  if (kind != OP_copy && kind != OP_write && !read) return 0;
  for (int m = 0; m < w->b->access.memory->type->rank; m++)
    if (w->sizes[m] && is_positive(w, w->sizes[m])) found |= 1u << m;
  return found;
}

static void find_access(Finder *f, const Standing *s, const MemAccess *a) {
  AccessBounds *b = ARENA_NEW(f->arena, AccessBounds);
  *b = (AccessBounds){
      .access = *a, .run = 1, .run_axis = -1, .piece = 1, .piece_axis = -1, .offset_bits = 64};
  Work w = {.f = f, .s = s, .b = b, .facts = sym_facts_new(f->arena, f->sym, s->facts)};
  open_tile(&w);
  for (int m = 0; m < a->memory->type->rank; m++) {
    w.coords[m] = access_coord(a, s, m);
    w.sizes[m] = memory_size(f, s, a, m);
    b->sizes[m] = w.sizes[m];
    standing_learn_remainders(f->sym, w.facts, at_position(&w, w.coords[m]));
  }
  bound_symbols(&w);
  bound_iteration(&w);
  bound_tile(&w);
  bound_lacked(&w);
  bound_memory(&w);
  decide(&w);
  b->inhabited = inhabited_dims(&w);
  find_addresses(b, s, w.facts, tested_facts(&w, -1), w.coords, w.sizes, w.position);
  sym_take_error(f->sym); /* an overflow above only means that no proof was found */
  f->found[a->op->id] = b;
}

/* The tests of `exists`: those of an access without a memory. */
static void find_existing(Finder *f, const Standing *s, const Op *op) {
  AccessBounds *b = ARENA_NEW(f->arena, AccessBounds);
  *b = (AccessBounds){.run = 1, .run_axis = -1, .piece = 1, .piece_axis = -1, .offset_bits = 64};
  b->access =
      (MemAccess){.op = op, .tile = op->results[0].type, .test_extents = true, .replaced = -1};
  Work w = {.f = f, .s = s, .b = b, .facts = sym_facts_new(f->arena, f->sym, s->facts)};
  open_tile(&w);
  bound_tile(&w);
  decide(&w);
  sym_take_error(f->sym);
  f->found[op->id] = b;
}

static void walk(Finder *f, Standing s, const Region *r) {
  for (const Op *op = r->first; op; op = op->next) {
    MemAccess a;
    if (op->kind == OP_alloc) note_alloc(f, &s, op);
    if (access_of(op, &a)) find_access(f, &s, &a);
    if (op->kind == OP_exists) find_existing(f, &s, op);
    if (op->body) walk(f, standing_inside(&s, op), op->body);
    s = standing_after(&s, op);
  }
}

const AccessBounds *const *find_in_bounds(Kernel *k, const Facts *known) {
  Arena *a = known->arena;
  Finder f = {.k = k, .arena = a, .sym = k->cx->sym};
  f.found = ARENA_ARRAY(a, AccessBounds *, k->nops);
  f.scratch = ARENA_ARRAY(a, const Sym **, k->nops);
  walk(&f, *known->standing, k->body);
  return (const AccessBounds *const *)f.found;
}
