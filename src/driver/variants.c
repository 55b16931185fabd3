/* variants.c: see variants.h.
 *
 * Wide loads need addresses that are multiples of 16 bytes: the tensor must begin at one, and so
 * must its rows. Kernels are compiled for launches where that holds, and once more for all others:
 *
 *     whole    tensors row-major, 16-byte aligned, rows a multiple of 16 bytes
 *     dense    tensors row-major, 16-byte aligned
 *     rows     the same, except that rows may be apart: strides are multiples of 16 bytes; tables and the
 *              like may be anywhere
 *     any      any tensors
 *
 * Operands of products whose rows do not begin at multiples of 16 bytes may be copied to rows that do
 * (repack.h), if all of them either pay for it or are aligned anyway:
 *
 *     repacked the operands as in `rows`, with the strides of their copies; the others as in `dense`
 *
 * It comes before `dense`, unless rows of dense operands are whole whatever a launch passes.
 *
 * A table is a tensor of integers that only say where the kernel accesses others: page numbers, or where
 * sequences begin. It is small, and often part of a larger tensor. What threads access element by element
 * may be anywhere, too: sums of rows that are tokens and heads at once, or of one head. And a tensor of which
 * a workgroup has one element may be anywhere in all of them: one scale for all heads, with the stride 0.
 *
 * Each of them first for tensors in which every byte offset fits into 32 bits, including what tiles
 * reach past the edges; then for those of any size.
 *
 * On CPUs a product with few rows needs another program than one with many: what is read once is
 * not packed. So the first is followed by
 *
 *     few      as dense, and at most 8 elements along one dimension of products
 *
 * to which the first leaves those launches.
 *
 * If a tensor may be the first columns of another one (alias.h), there are `whole` and `rows` for launches
 * in which it is. They need nothing from that tensor, which they do not access, and are preferred.
 *
 * A kernel with assumptions has all of these twice: first with the assumptions as facts, for
 * launches that satisfy all of them, then without any. */
#include "driver/variants.h"

#include "analysis/analysis.h"
#include "driver/repack/repack.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"

enum { WIDE_BITS = 128, WIDE_BYTES = WIDE_BITS / 8 };

typedef struct Plan {
  const LaunchSymbols *s;
  SymCtx *cx;
  Variant *v;
  SymBinding *copied; /* slots of repacked tensors: those of their copies */
  int ncopied;
} Plan;

/* The type of a tensor that a caller passes; NULL: it is not one. What the launch itself supplies
 * is always row-major. */
static const Type *tensor_type(const Plan *p, int param) {
  const Type *t = p->s->k->body->args[param]->type;
  if (param >= kernel_given(p->s->k)) return NULL;
  return t->kind == TYPE_mem ? t : NULL;
}

static void require(Plan *p, const Sym *cond) {
  p->v->guard = p->v->guard ? sym_and(p->cx, p->v->guard, cond) : cond;
}

static bool is_stated(const Plan *p, const Sym *fact) {
  for (int i = 0; i < p->v->nassume; i++)
    if (p->v->assume[i] == fact) return true;
  return false;
}

/* A fact for the compiler that a launch must satisfy, with its tensors and with their copies. */
static void assume(Plan *p, const Sym *fact) {
  int64_t always;
  const Sym *cond = launch_resolve(p->s, fact);
  if (!cond || cond == sym_bool(p->cx, true)) return;
  if (cond == sym_bool(p->cx, false) || sym_is_int(cond, &always)) return;
  if (is_stated(p, fact)) return;
  p->v->assume[p->v->nassume++] = fact;
  require(p, cond);
  if (p->ncopied) require(p, sym_subst(p->cx, cond, p->copied, p->ncopied));
}

static bool is_view(const Plan *p, int param) { return variant_has_view(p->v, param); }

static const Sym *is_multiple(Plan *p, const Sym *e, int64_t of) {
  return sym_eq(p->cx, sym_mod(p->cx, e, sym_int(p->cx, of)), sym_int(p->cx, 0));
}

static const Sym *is_aligned(Plan *p, int param) {
  return is_multiple(p, launch_slot(p->s, param, "BASE", -1), WIDE_BYTES);
}

/* The number of elements in 16 bytes; 1 if elements are not whole bytes. */
static int64_t wide_elements(const Type *t) {
  int bits = dtype_memory_bits(t->dtype);
  return WIDE_BITS % bits == 0 ? WIDE_BITS / bits : 1;
}

/* Along a dim of one element the stride does not matter. */
static void require_dense(Plan *p, int param) {
  const Type *t = tensor_type(p, param);
  const Sym *stride = sym_int(p->cx, 1);
  for (int d = t->rank - 1; d >= 0; d--) {
    const Sym *size = launch_slot(p->s, param, "SIZE", d);
    const Sym *single = sym_le(p->cx, size, sym_int(p->cx, 1));
    const Sym *right = sym_eq(p->cx, launch_slot(p->s, param, "STRIDE", d), stride);
    require(p, sym_or(p->cx, single, right));
    stride = sym_mul(p->cx, stride, size);
  }
  require(p, is_aligned(p, param));
}

/* Rows are whole vectors: a fact about the symbol of which the last dim is a multiple. */
static void assume_whole(Plan *p, int param) {
  const Type *t = tensor_type(p, param);
  const Sym *base, *last = t->layout ? t->layout[t->rank - 1] : t->dims[t->rank - 1];
  int64_t num, den, wide = wide_elements(t);
  if (!last || !sym_scaled_symbol(last, &base, &num, &den) || num != 1) return;
  assume(p, is_multiple(p, base, wide * den));
}

static void assume_rows(Plan *p, int param) {
  const Type *t = tensor_type(p, param);
  assume(p, sym_eq(p->cx, launch_slot(p->s, param, "STRIDE", t->rank - 1), sym_int(p->cx, 1)));
  for (int d = 0; d + 1 < t->rank; d++)
    assume(p, is_multiple(p, launch_slot(p->s, param, "STRIDE", d), wide_elements(t)));
  assume(p, is_aligned(p, param));
}

/* ---- copies with aligned rows ---- */

/* The stride of a copy along dim d. */
static const Sym *copied_stride(const Plan *p, int param, int d) {
  const Type *t = tensor_type(p, param);
  const Sym *wide = sym_int(p->cx, ARTEFACT_ROW * 8 / dtype_memory_bits(t->dtype));
  const Sym *stride = sym_int(p->cx, 1);
  for (int i = t->rank - 1; i > d; i--) {
    const Sym *size = launch_slot(p->s, param, "SIZE", i);
    if (i == t->rank - 1) size = sym_mul(p->cx, wide, sym_ceildiv(p->cx, size, wide));
    stride = sym_mul(p->cx, stride, size);
  }
  return stride;
}

/* What is known about an operand, or its copy; no launch has to satisfy it. */
static const Sym *state_rows(Plan *p, int param) {
  const Type *t = tensor_type(p, param);
  const Sym *base = launch_slot(p->s, param, "BASE", -1), *all = is_aligned(p, param);
  p->v->assume[p->v->nassume++] = all;
  p->copied[p->ncopied++] = (SymBinding){base, sym_int(p->cx, 0)};
  for (int d = t->rank - 1; d >= 0; d--) {
    const Sym *stride = launch_slot(p->s, param, "STRIDE", d);
    const Sym *fact = d == t->rank - 1 ? sym_eq(p->cx, stride, sym_int(p->cx, 1))
                                       : is_multiple(p, stride, wide_elements(t));
    p->copied[p->ncopied++] = (SymBinding){stride, copied_stride(p, param, d)};
    if (fact == sym_bool(p->cx, true)) continue; /* elements of 16 bytes */
    p->v->assume[p->v->nassume++] = fact;
    all = sym_and(p->cx, all, fact);
  }
  return all;
}

/* It is worth copying, and not too large. NULL: no launch is like that. */
static const Sym *may_be_copied(Plan *p, int param) {
  const Type *t = tensor_type(p, param);
  const Sym *may = launch_resolve(p->s, repack_pays(p->s, param));
  const Sym *size[] = {launch_slot(p->s, param, "SIZE", 0),
                       launch_slot(p->s, param, "SIZE", t->rank - 1)};
  const Sym *elements = sym_mul(p->cx, copied_stride(p, param, 0), size[0]);
  int64_t most = (int64_t)REPACK_MOST * 8 / dtype_memory_bits(t->dtype);
  if (!may || may == sym_bool(p->cx, false)) return NULL;
  may = sym_and(p->cx, may, sym_le(p->cx, elements, sym_int(p->cx, most)));
  may = sym_and(p->cx, may, sym_le(p->cx, size[1], sym_int(p->cx, REPACK_COLUMNS)));
  if (t->rank < REPACK_RANK_MOST) return may;
  return sym_and(p->cx, may, sym_le(p->cx, size[0], sym_int(p->cx, REPACK_PLANES)));
}

/* Some operand has to be copied, and all that have to be may be. Returns whether such launches are
 * possible. */
static bool require_copies(Plan *p) {
  const Sym *aligned = sym_bool(p->cx, true);
  for (int i = 0; i < p->s->k->params.n; i++) {
    if (!(p->v->repacked >> i & 1)) continue;
    const Sym *inner = launch_slot(p->s, i, "STRIDE", tensor_type(p, i)->rank - 1);
    const Sym *rows = state_rows(p, i), *may = may_be_copied(p, i);
    if (!may) return false;
    aligned = sym_and(p->cx, aligned, rows);
    require(p, sym_eq(p->cx, inner, sym_int(p->cx, 1)));
    require(p, sym_or(p->cx, rows, may));
  }
  require(p, sym_not(p->cx, aligned));
  return true;
}

/* Rows of dense operands are whole in every launch. */
static bool are_whole(Plan *p, int64_t params) {
  for (int i = 0; i < p->s->k->params.n; i++) {
    if (!(params >> i & 1)) continue;
    const Type *t = tensor_type(p, i);
    const Sym *last = launch_resolve(p->s, t->dims[t->rank - 1]);
    int64_t n;
    if (!last || !sym_is_int(last, &n) || n % wide_elements(t)) return false;
  }
  return true;
}

/* ---- 32-bit offsets ---- */

/* Of the offsets that fit into 32 bits, one half is for elements, the other for what tiles and
 * prefetches reach past them: this many rows, and this many steps along outer dims. */
enum { NEAR_BYTES = 1 << 30, BEYOND_ROWS = 1 << 10, BEYOND_PLANES = 1 << 4, MOST_TILES = 1 << 30 };

static void assume_most(Plan *p, const Sym *e, int64_t most) {
  assume(p, sym_le(p->cx, e, sym_int(p->cx, most)));
}

/* The number of elements of the memory along a dim, in the compiler's terms. */
static const Sym *extent(const Plan *p, int param, int d) {
  const Type *t = tensor_type(p, param);
  if (!t->layout) return t->dims[d];
  return t->layout[d] ? t->layout[d] : launch_slot(p->s, param, "SIZE", d);
}

/* The stride along dim d of row-major tensors. */
static const Sym *dense_stride(const Plan *p, int param, int d) {
  const Sym *stride = sym_int(p->cx, 1);
  for (int i = d + 1; i < tensor_type(p, param)->rank; i++)
    stride = sym_mul(p->cx, stride, extent(p, param, i));
  return stride;
}

static void assume_near(Plan *p, int param) {
  const Type *t = tensor_type(p, param);
  int bits = dtype_memory_bits(t->dtype), rank = t->rank;
  int64_t all = (int64_t)NEAR_BYTES * 8 / bits, parts = 1;
  while (is_view(p, param) && parts < rank) parts *= 2; /* offsets are sums over dims */
  for (int d = 0; d < rank; d++) {
    const Sym *size = extent(p, param, d), *zero = sym_int(p->cx, 0);
    const Sym *stride =
        is_view(p, param) ? launch_slot(p->s, param, "STRIDE", d) : dense_stride(p, param, d);
    int64_t beyond = d + 2 < rank ? BEYOND_PLANES : BEYOND_ROWS;
    assume_most(p, size, NEAR_BYTES);
    assume_most(p, sym_mul(p->cx, size, stride), all / parts);
    if (d + 1 < rank || is_view(p, param)) assume_most(p, stride, all / parts / beyond);
    if (is_view(p, param)) assume(p, sym_ge(p->cx, stride, zero));
  }
}

/* Numbers of tiles have 32 bits, as those of workgroups of a launch have: a workgroup may compute several tiles. */
static void assume_tiles(Plan *p) {
  const Distribution *d = facts_of(p->s->k, p->s->arena, FACT_distribute).distribute;
  const Sym *all = d->tiles[0];
  for (int i = 1; i < 3 && all; i++) all = d->tiles[i] ? sym_mul(p->cx, all, d->tiles[i]) : NULL;
  if (all) assume_most(p, all, MOST_TILES);
}

/* ---- the list ---- */

typedef struct Shape {
  const char *facts;
  bool views;
  void (*each[2])(Plan *p, int param); /* for every tensor */
  bool strict;                         /* even if a workgroup has one element of it */
} Shape;

enum { WHOLE, DENSE, ROWS, REPACKED, ANY, SHAPES };

static const Shape shapes[] = {
    [WHOLE] = {"row-major, 16-byte aligned, rows a multiple of 16 bytes",
               false,
               {require_dense, assume_whole}},
    [DENSE] = {"row-major, 16-byte aligned", false, {require_dense}},
    [ROWS] = {"contiguous 16-byte aligned rows, a multiple of 16 bytes",
              true,
              {assume_rows, assume_whole}},
    [REPACKED] = {"operands copied to 16-byte aligned rows, others row-major, 16-byte aligned",
                  false,
                  {require_dense}},
    [ANY] = {"", true, {0}},
};

/* ---- tables ---- */

static bool is_coordinate_of(const Op *op, const Value *v) {
  MemAccess a;
  if (!access_of(op, &a) || !a.ndynamic) return false;
  for (int i = 0; i < op->nargs - a.ndynamic; i++)
    if (op->args[i] == v) return false;
  return true;
}

/* Nothing but coordinates and symbols is computed from the value. */
static bool only_places(const Kernel *k, const Value *v, bool *seen) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (!op_takes(op, v) || op->kind == OP_set_symbol || is_coordinate_of(op, v)) continue;
    if (!op_is_pure(op) || op->body || op_is_product(op) || op->nresults != 1) return false;
    if (seen[op->id]) continue;
    seen[op->id] = true;
    if (!only_places(k, &op->results[0], seen)) return false;
  }
  return true;
}

static bool is_table(const Plan *p, int param) {
  const Kernel *k = p->s->k;
  const Value *memory = k->body->args[param];
  if (dtype_is_float(memory->type->dtype)) return false;
  bool *seen = ARENA_ARRAY(p->s->arena, bool, k->nops);
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op_takes(op, memory) && (op->kind != OP_read || !only_places(k, &op->results[0], seen)))
      return false;
  return true;
}

/* A workgroup has one element along the dim. */
static bool is_one_of(const Kernel *k, const Sym *dim) {
  const Constraint *group = kernel_constraint(k, CONSTRAINT_workgroup, dim);
  int64_t n;
  return sym_is_int(group ? group->workgroup.size : dim, &n) && n == 1;
}

/* Whether a tile has one position along the iterator. */
static bool is_one_along(const Kernel *k, const MemAccess *a, const Sym *iterator) {
  for (int i = 0; i < a->iterated.n; i++)
    if (a->iterated.at[i].value == iterator) return is_one_of(k, a->iterated.at[i].key);
  return false;
}

/* Whether threads find each of its elements by itself: where an element of a row is does not follow
 * linearly from where it is in a tile, or the tile has only one of each row, so that no access is wide. */
static bool is_scattered(const Plan *p, int param) {
  const Kernel *k = p->s->k;
  const Value *memory = k->body->args[param];
  const Sym *last = memory->type->dims[memory->type->rank - 1];
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    MemAccess a;
    const Sym *iterator[IR_MAX_RANK], *coeff[IR_MAX_RANK], *rest;
    if (!op_takes(op, memory)) continue;
    const Sym *at = access_of(op, &a) && a.memory == memory ? access_pair(a.coords, last) : NULL;
    if (!at || !a.mapping) return false;
    int n = a.mapping->niterators < IR_MAX_RANK ? a.mapping->niterators : IR_MAX_RANK;
    for (int i = 0; i < n; i++) iterator[i] = access_iterator(p->cx, i);
    if (!sym_linear(p->cx, at, iterator, n, coeff, &rest)) continue;
    for (int i = 0; i < n; i++)
      if (coeff[i] != sym_int(p->cx, 0) && !is_one_along(k, &a, iterator[i])) return false;
  }
  return true;
}

/* Whether every access is to a single element, so that none is wide. */
static bool is_single(const Plan *p, int param) {
  const Kernel *k = p->s->k;
  const Value *memory = k->body->args[param];
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    MemAccess a;
    if (!op_takes(op, memory)) continue;
    if (!access_of(op, &a) || a.memory != memory || !a.tile) return false;
    for (int d = 0; d < a.tile->rank; d++)
      if (!is_one_of(k, a.tile->dims[d])) return false;
  }
  return true;
}

/* A tensor that no op uses may be anything: a mask that this form of a kernel does not apply. */
static bool is_used(const Plan *p, int param) {
  return ir_count_uses(p->s->k->body, p->s->k->body->args[param]) > 0;
}

/* `repacked`: parameters, as bits. Without a guard if no launch is for it. */
static Variant make_variant(const LaunchSymbols *s, const Shape *shape, bool near, int64_t repacked,
                            Alias alias) {
  Variant v = {.facts = shape->facts, .views = shape->views, .repacked = repacked, .alias = alias};
  Plan p = {.s = s, .cx = s->k->cx->sym, .v = &v};
  bool narrows = false;
  if (repacked) p.copied = ARENA_ARRAY(s->arena, SymBinding, s->nslots);
  if (repacked && !require_copies(&p)) return v.guard = NULL, v;
  for (int i = 0; i < s->k->params.n; i++) {
    if (!tensor_type(&p, i) || !is_used(&p, i) || (alias.found && i == alias.part)) continue;
    bool asks = shape->views && shape->each[0], single = !shape->strict && is_single(&p, i);
    bool found = asks && (is_table(&p, i) || is_scattered(&p, i));
    bool anywhere = found || single || repacked >> i & 1;
    if (single && !shape->views) v.single |= INT64_C(1) << i;
    for (int f = 0; !anywhere && f < 2 && shape->each[f]; f++) shape->each[f](&p, i);
    int before = v.nassume;
    if (near) assume_near(&p, i);
    narrows |= v.nassume > before;
  }
  if (narrows) assume_tiles(&p);
  if (near) v.facts = arena_printf(s->arena, "%s%s32-bit offsets", v.facts, *v.facts ? ", " : "");
  sym_take_error(p.cx); /* an expression that overflowed is NULL, and not a fact */
  return v;
}

/* ---- few rows ---- */

enum { FEW = 8, FEW_DIMS = 2 };

/* Dimensions of products that may have at most FEW elements, although a workgroup's tile has
 * more. */
static int find_thin(const LaunchSymbols *s, const Sym **out) {
  Kernel *k = s->k;
  int n = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    Product p;
    if (op->kind != OP_mma || product_of(k, op, &p)) continue;
    const Sym *dims[] = {p.roles.m, p.roles.n};
    for (int i = 0; i < 2; i++) {
      const Constraint *group = kernel_constraint(k, CONSTRAINT_workgroup, dims[i]);
      int64_t size;
      bool known = n && out[0] == dims[i], room = n < FEW_DIMS;
      if (!known && room && group && sym_is_int(group->workgroup.size, &size) && size > FEW &&
          sym_kind(dims[i]) == SYM_symbol && !kernel_constraint(k, CONSTRAINT_bind, dims[i]))
        out[n++] = dims[i];
    }
  }
  return n;
}

static Variant make_few(const LaunchSymbols *s, const Sym *dim) {
  Variant v = make_variant(s, &shapes[DENSE], false, 0, (Alias){0});
  Plan p = {.s = s, .cx = s->k->cx->sym, .v = &v};
  assume_most(&p, dim, FEW);
  v.facts = arena_printf(s->arena, "%s, %s at most %d", v.facts, sym_name(dim), FEW);
  return v;
}

/* Adds them after the existing variant, which is left to launches with more elements. */
static void add_few(const LaunchSymbols *s, Variants *out) {
  const Sym *dims[FEW_DIMS];
  Variant *first = &out->at[0];
  Plan p = {.s = s, .cx = s->k->cx->sym, .v = first};
  int n = find_thin(s, dims);
  for (int i = 0; i < n; i++) {
    const Sym *more = sym_gt(p.cx, dims[i], sym_int(p.cx, FEW));
    const Sym *cond = more ? launch_resolve(s, more) : NULL;
    if (!cond || cond == sym_bool(p.cx, true) || cond == sym_bool(p.cx, false)) continue;
    require(&p, cond);
    out->at[out->n++] = make_few(s, dims[i]);
  }
}

/* ---- assumptions ---- */

/* The condition for a launch to use code that relies on assumptions. */
static const Sym *all_hold(const LaunchSymbols *s) {
  SymCtx *cx = s->k->cx->sym;
  const Sym *all = NULL;
  EACH_ROW(s->k, assume, c) {
    const Sym *cond = launch_resolve(s, c->assume.condition);
    if (cond) all = all ? sym_and(cx, all, cond) : cond;
  }
  return all;
}

/* The same variants again, without assumptions; the earlier ones are for launches that satisfy
 * all. */
static void add_fallback(const LaunchSymbols *s, Variants *out) {
  const Sym *holds = all_hold(s);
  out->fallback = out->n;
  if (!holds || !kernel_has_fallback(s->k)) return;
  for (int i = 0; i < out->fallback; i++) {
    Variant *with = &out->at[i], *without = &out->at[out->n++];
    *without = *with;
    without->without = true;
    with->facts = arena_printf(s->arena, "%s%sassumptions", with->facts, *with->facts ? ", " : "");
    require(&(Plan){.s = s, .cx = s->k->cx->sym, .v = with}, holds);
  }
}

/* The shapes from the best on, SHAPES last. */
static const int *shape_order(const LaunchSymbols *s, int64_t repacked) {
  static const int plain[] = {WHOLE, DENSE, ROWS, ANY, SHAPES};
  static const int early[] = {WHOLE, REPACKED, DENSE, ROWS, ANY, SHAPES};
  static const int late[] = {WHOLE, DENSE, ROWS, REPACKED, ANY, SHAPES};
  Plan p = {.s = s, .cx = s->k->cx->sym};
  return !repacked ? plain : are_whole(&p, repacked) ? late : early;
}

/* For tensors with 32-bit offsets alone where those are faster: larger ones are not copied anyway. */
static void add_repacked(const LaunchSymbols *s, bool narrow, int64_t repacked, Variants *out) {
  Variant v = make_variant(s, &shapes[REPACKED], narrow, repacked, (Alias){0});
  if (v.guard && v.guard != sym_bool(s->k->cx->sym, false)) out->at[out->n++] = v;
}

/* Variants for launches in which a tensor is the first columns of another one. */
static void add_aliased(const LaunchSymbols *s, bool narrow, Variants *out) {
  static const int of[] = {WHOLE, ROWS};
  Alias alias = alias_find(s->k);
  for (size_t i = 0; alias.found && i < 2 * WV_LEN(of); i++) {
    bool near = i % 2 == 0;
    if (near && !narrow) continue;
    Variant *v = &out->at[out->n++];
    *v = make_variant(s, &shapes[of[i / 2]], near, 0, alias);
    v->facts = arena_printf(s->arena, "%s, `%s` the first columns of `%s`", v->facts,
                            s->k->params.at[alias.part].name, s->k->params.at[alias.whole].name);
    require(&(Plan){.s = s, .cx = s->k->cx->sym, .v = v}, alias_condition(s, alias));
  }
}

/* A variant without new facts is the same as the next one. */
static Variants plan_shapes(const LaunchSymbols *s, bool narrow, int64_t repacked) {
  Variants out = {ARENA_ARRAY(s->arena, Variant, ARTEFACT_VARIANTS), 0, 0};
  for (const int *i = shape_order(s, repacked); *i != SHAPES; i++) {
    if (*i == REPACKED) {
      add_repacked(s, narrow, repacked, &out);
      continue;
    }
    Variant v = make_variant(s, &shapes[*i], false, 0, (Alias){0});
    bool last = *i == ANY;
    if (*i == WHOLE && !v.nassume) continue;
    if (!last && !v.guard) v.facts = "", last = true; /* no tensors: one variant for all */
    Variant near = make_variant(s, &shapes[*i], true, 0, (Alias){0});
    if (*i == ROWS) add_aliased(s, narrow, &out);
    if (narrow && near.nassume > v.nassume) out.at[out.n++] = near;
    if (last) v.guard = NULL;
    out.at[out.n++] = v;
    if (!narrow && !last && out.n == 1) add_few(s, &out);
    if (last) break;
  }
  return out;
}

Variants variants_plan(const LaunchSymbols *s, const TargetInfo *machine, bool is_decided) {
  bool narrow = machine->vendor != VENDOR_HOST;
  Variants out = {0};
  if (is_decided) {
    Shape dense = shapes[DENSE];
    dense.strict = true;
    out.at = ARENA_NEW(s->arena, Variant);
    out.at[out.n++] = make_variant(s, &dense, false, 0, (Alias){0});
  } else {
    out = plan_shapes(s, narrow, repack_params(s, machine));
  }
  out.fallback = out.n;
  if (!is_decided) add_fallback(s, &out);
  return out;
}

_Static_assert(4 * (WV_LEN(shapes) + 2) <= ARTEFACT_VARIANTS &&
                   2 * (WV_LEN(shapes) + FEW_DIMS) <= ARTEFACT_VARIANTS,
               "an artefact holds them all");

static void add_row(Kernel *k, Constraint row) { vec_push(k->arena, &k->constraints, row); }

Kernel *variant_kernel(Kernel *k, const Variant *v) {
  Kernel *copy = kernel_clone(k);
  if (v->without) kernel_drop_assumptions(copy);
  if (v->alias.found) alias_merge(copy, v->alias);
  for (int i = 0; i < kernel_given(k); i++) {
    if (k->body->args[i]->type->kind != TYPE_mem || !variant_has_view(v, i)) continue;
    const Sym *name = sym_symbol(k->cx->sym, k->params.at[i].name, true);
    add_row(copy, (Constraint){.kind = CONSTRAINT_view, .at = k->params.at[i].at, .view = {name}});
  }
  for (int i = 0; i < v->nassume; i++)
    add_row(copy, (Constraint){.kind = CONSTRAINT_assume, .at = k->at, .assume = {v->assume[i]}});
  return copy;
}

Kernel *variant_first(Kernel *k, const TargetChoice *t, Arena *a) {
  LaunchSymbols symbols;
  Artefact *art = ARENA_NEW(a, Artefact);
  if (t->simulated || !launch_symbols(k, a, art, &symbols)) return kernel_clone(k);
  Variants all = variants_plan(&symbols, t->machine, false);
  return variant_kernel(k, &all.at[0]);
}
