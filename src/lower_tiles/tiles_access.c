/* tiles_access.c: elements of memory at a point.
 *
 * Contiguous elements are one access; elements a constant stride apart are several accesses with
 * one address; others have an address each. A test that bounds the coordinate along the vector
 * becomes a comparison of 0, 1, 2, ... with the distance to the limit; tests that hold in the
 * surrounding loops (granted, or proved) are omitted. */
#include "ir/ops/atomics.h"
#include "lower_tiles/tiles.h"

/* An access at a point. $APPLY_EXPR_ARG_i in its expressions is dynamic[i]. */
typedef struct TileAccess {
  Tiles *t;
  const Op *op;
  const AccessBounds *b;
  const Point *p;
  int along; /* the dim of the tile with several elements; -1: none */
  int width;
  SymBinding x[IR_MAX_RANK]; /* $xi: its coordinate */
  int rank;
  ElementValues dynamic;
  bool scattered;    /* a dynamic value has one element per element of the access */
  const Sym *within; /* 0 .. width - 1, with that range in `facts` */
  const SymFacts *facts;
} TileAccess;

/* ---- tests ---- */
/* The limit of a test `$xi < limit`, however it is written; NULL: it is another test. */
static const Sym *limit_of(SymCtx *sym, const Sym *test, int i) {
  const Sym *x = access_x(sym, i), *coeff, *rest;
  SymKind kind = sym_kind(test);
  if (kind != SYM_lt && kind != SYM_le) return NULL;
  const Sym *room = sym_sub(sym, sym_arg(sym, test, 1), sym_arg(sym, test, 0));
  if (!room || !sym_linear(sym, room, &x, 1, &coeff, &rest) || coeff != sym_int(sym, -1))
    return NULL;
  return kind == SYM_lt ? rest : sym_add(sym, rest, sym_int(sym, 1));
}

/* Test i of the op over $x; NULL: there is no expression for it. */
static const Sym *test_of(Tiles *t, const Op *op, int i) {
  return element_test(&t->l, t->l.bounds[op->id], op_attr(op, ATTR_mask)->exprs[i]);
}

/* A value computed before a loop along its dim d is used inside it, one iteration's tile at a time,
 * and the last of these may extend past its end. Returns the test that an element must pass to be
 * part of the value; NULL: op is inside the loop, or there is no loop. */
static const Sym *test_of_part(Tiles *t, const Op *op, int d) {
  const Type *tile = t->l.bounds[op->id]->access.tile;
  if (!op->nresults || tile->kind == TYPE_scalar || d >= tile->rank) return NULL;
  const Sym *counter = ir_loop_counter(t->l.k, dim_base(tile->dims[d]));
  const Tile *own = &t->tile[op->results[0].id];
  bool open = false;
  for (int i = 0; i < t->l.symbols.n; i++) open |= t->l.symbols.at[i].symbol == counter;
  if (!open || !own->start[d] || sym_contains(own->start[d], counter)) return NULL;
  const Sym *end = sym_add(t->l.sym, own->start[d], sym_int(t->l.sym, own->extent[d]));
  return sym_lt(t->l.sym, access_x(t->l.sym, d), emit_sound(&t->l, end));
}

/* It contains neither coordinates of the tile nor values from memory. */
static bool is_fixed(Tiles *t, const AccessBounds *b, const Sym *e) {
  for (int i = 0; i < b->access.tile->rank; i++)
    if (sym_contains(e, access_x(t->l.sym, i))) return false;
  for (int i = 0; i < b->access.ndynamic; i++)
    if (sym_contains(e, access_dynamic(t->l.sym, i, false))) return false;
  return true;
}

const Sym *access_limit(Tiles *t, const Op *op, const Sym *dim) {
  const AccessBounds *b = t->l.bounds[op->id];
  const Type *tile = b->access.tile;
  const Attr *mask = op_attr(op, ATTR_mask);
  for (int d = 0; tile->kind != TYPE_scalar && d < tile->rank; d++) {
    if (tile->dims[d] != dim) continue; /* K/2 has other units than K */
    for (int i = 0; i < mask->n; i++) {
      const Sym *test = test_of(t, op, i), *limit = test ? limit_of(t->l.sym, test, d) : NULL;
      if (limit && is_fixed(t, b, limit)) return limit;
    }
  }
  return NULL;
}

const Sym *access_exists_limit(Tiles *t, const Value *v, const Sym *dim) {
  const Op *op = v ? v->def : NULL;
  return op && op->kind == OP_exists ? access_limit(t, op, dim) : NULL;
}

const Sym *access_kept_limit(Tiles *t, const Value *v, const Sym *dim) {
  while (v->def && v->def->kind == OP_cast) v = v->def->args[0];
  return v->def && v->def->kind == OP_select ? access_exists_limit(t, v->def->args[0], dim) : NULL;
}

/* Each operand that has the dim is 0 from the same coordinate on. */
static const Sym *zeros_of_operands(Tiles *t, const Op *op, const Sym *dim) {
  const Sym *from = NULL;
  for (int i = 0; i < op->nargs; i++) {
    const Sym *own = access_zeros_from(t, op->args[i], dim);
    if (!own || (from && own != from)) return NULL;
    from = own;
  }
  return from;
}

static bool is_zero(const Value *v) {
  const Attr *value = v->def && v->def->kind == OP_fill ? op_attr(v->def, ATTR_value) : NULL;
  int64_t n;
  return value && (value->sym ? sym_is_int(value->sym, &n) && n == 0 : value->number == 0);
}

const Sym *access_zeros_from(Tiles *t, const Value *v, const Sym *dim) {
  const Op *op = v->def;
  if (!op || v->type->kind != TYPE_tile) return NULL;
  if (op->kind == OP_read) return op_has(op, ATTR_other) ? NULL : access_limit(t, op, dim);
  if (op->kind == OP_select) return is_zero(op->args[2]) ? access_kept_limit(t, v, dim) : NULL;
  if (op->kind == OP_permute) return access_zeros_from(t, op->args[0], dim);
  return op_keeps_zeros(op) ? zeros_of_operands(t, op, dim) : NULL;
}

static bool is_test_granted(const TileAccess *a, const Sym *test) {
  for (int d = 0; d < a->rank; d++) {
    const Sym *limit = limit_of(a->t->l.sym, test, d);
    if (limit && nest_is_granted(a->t, a->b->access.tile->dims[d], limit)) return true;
  }
  return false;
}

bool access_is_tested(Tiles *t, const Op *op) {
  TileAccess a = {.t = t, .op = op, .b = t->l.bounds[op->id]};
  const Attr *mask = op_attr(op, ATTR_mask);
  a.rank = a.b->access.tile->kind == TYPE_scalar ? 0 : a.b->access.tile->rank;
  for (int i = 0; i < mask->n; i++) {
    const Sym *test = test_of(t, op, i);
    if (!test || !is_test_granted(&a, test)) return true;
  }
  for (int d = 0; d < a.rank; d++) {
    const Sym *test = test_of_part(t, op, d);
    if (test && !is_test_granted(&a, test)) return true;
  }
  return false;
}

/* ---- dynamic values ---- */

/* e at element number `within` (NULL: the first) of the vector. */
static const Sym *at_element(const TileAccess *a, const Sym *e, const Sym *within) {
  SymBinding to[IR_MAX_RANK + ELEMENT_VALUES + 1];
  SymCtx *sym = a->t->l.sym;
  int n = 0;
  for (int i = 0; i < a->rank; i++) {
    to[n] = a->x[i];
    if (within && i == a->along) to[n].to = sym_add(sym, to[n].to, within);
    n++;
  }
  for (int i = 0; i < a->dynamic.n; i++) to[n++] = a->dynamic.name[i];
  return emit_sound(&a->t->l, sym_subst(sym, e, to, n));
}

/* The point of dynamic value i for one element; or, along its dim *along, for all of them. */
static Point lookup_point(const TileAccess *a, int i, const Sym *within) {
  const Value *v = a->b->access.dynamic[i];
  Point p = {.along = -1, .width = 1};
  for (int d = 0; v->type->kind == TYPE_tile && d < v->type->rank; d++) {
    const Sym *dim = v->type->dims[d], *e, *own = element_own_coord(&a->t->l, a->b, dim);
    if (!element_lookup(&a->t->l, a->b, i, dim, &e) || !e) continue; /* it has one element there */
    e = at_element(a, e, within);
    p.elsewhere |= !own || e != at_element(a, own, within);
    p.dim[p.n] = dim;
    p.at[p.n++] = sym_simplify(a->t->l.sym, a->facts, e);
  }
  return p;
}

/* The same, if the elements are adjacent in it or all the same. */
static bool lookup_together(const TileAccess *a, int i, Point *out) {
  Point first = lookup_point(a, i, NULL), any = lookup_point(a, i, a->within);
  SymCtx *sym = a->t->l.sym;
  *out = first;
  for (int d = 0; d < first.n; d++) {
    const Sym *by = sym_sub(sym, any.at[d], first.at[d]);
    by = by ? sym_simplify(sym, a->facts, by) : NULL;
    if (by == sym_int(sym, 0)) continue;
    if (by != a->within || out->along >= 0) return false;
    out->along = d;
    out->width = a->width;
  }
  return true;
}

static Value *lookup(TileAccess *a, int i) {
  Tiles *t = a->t;
  const Value *v = a->b->access.dynamic[i];
  Point p;
  if (lookup_together(a, i, &p)) return tiles_at(t, v, &p);
  Value **parts = ARENA_ARRAY(t->l.arena, Value *, a->width);
  for (int e = 0; e < a->width; e++) {
    p = lookup_point(a, i, sym_int(t->l.sym, e));
    if (!(parts[e] = tiles_at(t, v, &p))) return NULL;
  }
  return emit_join(&t->l, parts, a->width);
}

static bool take_dynamic(TileAccess *a, const Sym *name, Value *v) {
  if (!element_take(&a->t->l, a->b, name, v, &a->dynamic)) return false;
  a->scattered |= a->dynamic.value[a->dynamic.n - 1]->type->n > 1;
  return true;
}

/* ---- opening ---- */

static bool open_at(Tiles *t, const Op *op, const Point *p, TileAccess *a) {
  Lower *l = &t->l;
  *a = (TileAccess){.t = t, .op = op, .b = l->bounds[op->id], .p = p, .along = -1, .width = 1};
  const MemAccess *m = &a->b->access;
  SymFacts *f = sym_facts_new(l->arena, l->sym, emit_facts(l));
  a->rank = m->tile->kind == TYPE_scalar ? 0 : m->tile->rank;
  for (int i = 0; i < a->rank; i++) {
    const Sym *at = point_get(p, m->tile->dims[i]);
    if (!at) return tiles_refuse(t, op, "a coordinate that is not given");
    a->x[i] = (SymBinding){access_x(l->sym, i), at};
    if (p->along < 0 || dim_base(p->dim[p->along]) != dim_base(m->tile->dims[i])) continue;
    a->along = i;
    a->width = p->width;
  }
  a->within = sym_symbol(l->sym, "$within", true);
  sym_assume_range(f, a->within, 0, a->width - 1);
  a->facts = f;
  for (int i = 0; i < m->ndynamic; i++)
    if (!take_dynamic(a, access_dynamic(l->sym, i, false), lookup(a, i))) return false;
  if (m->replaced < 0) return true;
  return take_dynamic(a, sym_symbol(l->sym, "$replaced", false), tiles_at(t, op->args[1], p));
}

/* ---- emission ---- */

/* The dynamic values of element e. */
static void dynamic_at(const TileAccess *a, int e, Value **out) {
  for (int i = 0; i < a->dynamic.n; i++)
    out[i] = a->dynamic.value[i]->type->n > 1 ? emit_pick(&a->t->l, a->dynamic.value[i], &e, 1)
                                              : a->dynamic.value[i];
}

static Value *number_of(const TileAccess *a, const Sym *e, int element, DType dtype) {
  Lower *l = &a->t->l;
  Value *args[ELEMENT_VALUES];
  bool uses = false;
  for (int i = 0; i < a->dynamic.n; i++) uses |= sym_contains(e, a->dynamic.name[i].to);
  if (!uses) return sym_is_bool(e) ? emit_expr(l, e, dtype) : emit_address(l, e, dtype);
  dynamic_at(a, element, args);
  return emit_expr_of(l, e, dtype, args, a->dynamic.n);
}

/* The test for element `element`; NULL: it holds. */
static Value *test_element(const TileAccess *a, const Sym *test, int element) {
  Lower *l = &a->t->l;
  const Sym *e = at_element(a, test, element ? sym_int(l->sym, element) : NULL);
  const Sym *simple = sym_simplify(l->sym, emit_facts(l), e);
  if (simple) e = simple;
  if (e == sym_bool(l->sym, true)) return NULL;
  return number_of(a, e, element, DTYPE_i1);
}

const Sym *tile_room(Tiles *t, const Sym *left, int width) {
  SymCtx *sym = t->l.sym;
  left = sym_max(sym, sym_min(sym, left, sym_int(sym, width)), sym_int(sym, 0));
  return emit_sound(&t->l, left);
}

Value *tile_first(Tiles *t, Value *n, int width) {
  Lower *l = &t->l;
  Value *args[] = {tile_iota(t, width, DTYPE_i32), emit_splat(l, n, width)};
  return emit_op(l, OP_lt, args, 2, NULL, 0, type_vec(l->k->cx, width, DTYPE_i1));
}

static Value *test_limit(const TileAccess *a, const Sym *limit) {
  const Sym *left = sym_sub(a->t->l.sym, at_element(a, limit, NULL), a->x[a->along].to);
  Value *n = number_of(a, tile_room(a->t, left, a->width), 0, DTYPE_i32);
  return tile_first(a->t, n, a->width);
}

static Value *test_each(const TileAccess *a, const Sym *test) {
  Lower *l = &a->t->l;
  Value **parts = ARENA_ARRAY(l->arena, Value *, a->width);
  for (int e = 0; e < a->width; e++) {
    parts[e] = test_element(a, test, e);
    if (!parts[e]) parts[e] = emit_number(l, DTYPE_i1, 1);
  }
  return emit_join(l, parts, a->width);
}

/* How an expression grows from the first element of the vector to the one that `within` names. */
static const Sym *growth(const TileAccess *a, const Sym *e) {
  SymCtx *sym = a->t->l.sym;
  const Sym *by = sym_sub(sym, at_element(a, e, a->within), at_element(a, e, NULL));
  return by ? sym_simplify(sym, a->facts, by) : NULL;
}

/* A comparison with a coordinate that grows or falls by one with the element, such as that of a pixel
 * with an edge of its image: elements before some number pass, or those from it on. NULL: another test. */
static Value *test_part(const TileAccess *a, const Sym *test) {
  Lower *l = &a->t->l;
  SymCtx *sym = l->sym;
  SymKind kind = sym_kind(test);
  if (kind != SYM_lt && kind != SYM_le) return NULL;
  const Sym *room = sym_sub(sym, sym_arg(sym, test, 1), sym_arg(sym, test, 0));
  if (room && kind == SYM_le) room = sym_add(sym, room, sym_int(sym, 1)); /* at least 1 */
  const Sym *by = room ? growth(a, room) : NULL;
  bool first = by && by == sym_neg(sym, a->within);
  if (!first && by != a->within) return NULL;
  const Sym *n = at_element(a, room, NULL);
  n = tile_room(a->t, first ? n : sym_sub(sym, sym_int(sym, 1), n), a->width);
  Value *number = number_of(a, n, 0, DTYPE_i32);
  if (first) return tile_first(a->t, number, a->width);
  Value *args[] = {emit_splat(l, number, a->width), tile_iota(a->t, a->width, DTYPE_i32)};
  return emit_op(l, OP_le, args, 2, NULL, 0, type_vec(l->k->cx, a->width, DTYPE_i1));
}

/* One test for all elements: one truth value, or one per element; NULL: it holds. */
static Value *test_all(const TileAccess *a, const Sym *test) {
  SymCtx *sym = a->t->l.sym;
  if (!a->p->elsewhere && is_test_granted(a, test)) return NULL;
  if (a->along < 0) return test_element(a, test, 0);
  bool scattered = false;
  for (int i = 0; i < a->dynamic.n; i++)
    scattered |= a->dynamic.value[i]->type->n > 1 && sym_contains(test, a->dynamic.name[i].from);
  const Sym *any = sym_simplify(sym, a->facts, at_element(a, test, a->within));
  if (any == sym_bool(sym, true)) return NULL;
  if (!scattered && any && !sym_contains(any, a->within)) return test_element(a, test, 0);
  const Sym *limit = scattered ? NULL : limit_of(sym, test, a->along);
  if (limit) return test_limit(a, limit);
  Value *part = scattered ? NULL : test_part(a, test);
  return part ? part : test_each(a, test);
}

/* NULL and *ok: no test is needed. Elsewhere even what holds of the tile is tested. */
static Value *mask_of(const TileAccess *a, bool *ok) {
  Lower *l = &a->t->l;
  ElementTests tests;
  Value *all = a->dynamic.near;
  *ok = element_tests(l, a->b, a->p->elsewhere, &tests);
  for (int i = 0; *ok && i < tests.n; i++) all = emit_both(l, all, test_all(a, tests.at[i]));
  for (int d = 0; *ok && d < a->rank; d++) {
    const Sym *test = test_of_part(a->t, a->op, d);
    if (test) all = emit_both(l, all, test_all(a, test));
  }
  return all;
}

Value *access_exists(Tiles *t, const Op *op, const Point *p) {
  TileAccess a;
  bool ok;
  if (!open_at(t, op, p, &a)) return NULL;
  Value *mask = mask_of(&a, &ok);
  return mask || !ok ? mask : emit_number(&t->l, DTYPE_i1, 1);
}

typedef struct Spread {
  enum { SPREAD_SAME, SPREAD_UNIT, SPREAD_STRIDE, SPREAD_EACH } kind;
  int64_t stride;
  const Sym *offset; /* over the $x */
} Spread;

/* Each of `n` elements that are `stride` apart can be reached from the first. */
static bool fits_immediate(int64_t stride, int n) {
  return stride >= -IMM_MOST / n && stride <= IMM_MOST / n;
}

/* How the elements are spread in memory. */
static bool spread_of(const TileAccess *a, Spread *out) {
  Lower *l = &a->t->l;
  const Sym *coeff, *rest;
  *out = (Spread){.kind = SPREAD_SAME, .offset = element_offset(l, a->b)};
  if (!out->offset) return tiles_refuse(a->t, a->op, "an address that cannot be expressed");
  if (a->along < 0) return true;
  out->kind = SPREAD_EACH;
  for (int i = 0; i < a->dynamic.n; i++)
    if (a->dynamic.value[i]->type->n > 1) return true;
  const Sym *by = growth(a, out->offset);
  if (by == sym_int(l->sym, 0)) out->kind = SPREAD_SAME;
  else if (by == a->within) out->kind = SPREAD_UNIT;
  else if (by && sym_linear(l->sym, by, &a->within, 1, &coeff, &rest) &&
           sym_is_int(coeff, &out->stride) && rest == sym_int(l->sym, 0) &&
           fits_immediate(out->stride, a->width))
    out->kind = SPREAD_STRIDE;
  return true;
}

/* The coordinates along the vector are those of the memory's last dim, as checks expect. */
static bool steps_along_last(const TileAccess *a, const Spread *s) {
  if (a->scattered || a->dynamic.n) return false;
  if (s->kind != SPREAD_UNIT) return true;
  int last = a->b->access.memory->type->rank - 1;
  return growth(a, a->b->coords[last]) == a->within;
}

/* A load, store or atomic: the operands after a free slot for the value. */
typedef struct Emitted {
  Value *args[4];
  int nargs;
  Attr attrs[6];
  int nattrs;
} Emitted;

static void add_coords(const TileAccess *a, int element, Emitted *out) {
  Lower *l = &a->t->l;
  const Value *memory = a->b->access.memory;
  int rank = memory->type->rank;
  const Sym **coords = ARENA_ARRAY(l->arena, const Sym *, rank + 1);
  for (int m = 0; m < rank; m++)
    coords[m] = at_element(a, a->b->coords[m], element ? sym_int(l->sym, element) : NULL);
  memory_add_slot(l, memory, a->op, coords);
  for (int m = 0; m < l->value[memory->id]->type->rank; m++)
    coords[m] = emit_at_entry(l, coords[m]);
  out->attrs[out->nattrs++] =
      (Attr){.key = ATTR_coords, .n = l->value[memory->id]->type->rank, .exprs = coords};
}

/* Divisions of a counter may be those of an outer one. */
static const Sym *offset_at(const TileAccess *a, const Spread *s, const Sym *within) {
  Lower *l = &a->t->l;
  const Sym *offset = at_element(a, s->offset, within);
  return emit_sound(l, sym_simplify(l->sym, emit_facts(l), offset));
}

static Emitted access_at(const TileAccess *a, const Spread *s, int element, Value *mask,
                         bool named) {
  Lower *l = &a->t->l;
  Emitted out = {.nargs = 2};
  int64_t imm = s->kind == SPREAD_STRIDE ? element * s->stride : 0;
  bool first = element == 0 || s->kind == SPREAD_STRIDE;
  const Sym *within = first ? NULL : sym_int(l->sym, element);
  out.args[1] = l->value[a->b->access.memory->id];
  out.args[2] = number_of(a, offset_at(a, s, within), element, DTYPE_index);
  if (mask) out.args[++out.nargs] = mask;
  if (imm) out.attrs[out.nattrs++] = (Attr){.key = ATTR_imm, .integer = imm};
  if (op_has(a->op, ATTR_volatile)) out.attrs[out.nattrs++] = (Attr){.key = ATTR_volatile};
  if (op_has(a->op, ATTR_agreed)) out.attrs[out.nattrs++] = (Attr){.key = ATTR_agreed};
  if (op_has(a->op, ATTR_nontemporal) && s->kind == SPREAD_UNIT)
    out.attrs[out.nattrs++] = (Attr){.key = ATTR_nontemporal};
  if (named) add_coords(a, element, &out);
  return out;
}

static Value *mask_element(Tiles *t, Value *mask, int e) {
  return mask && mask->type->n > 1 ? emit_pick(&t->l, mask, &e, 1) : mask;
}

/* An access with its tests; *mask is NULL if there are none. False after reporting. */
static bool open_masked(Tiles *t, const Op *op, const Point *p, TileAccess *a, Spread *s,
                        Value **mask) {
  bool ok;
  if (!open_at(t, op, p, a) || !spread_of(a, s)) return false;
  *mask = mask_of(a, &ok);
  return ok;
}

/* ---- loads ---- */

Value *access_load(Tiles *t, const Op *op, const Point *p) {
  TileAccess a;
  Spread s;
  Value *mask;
  if (!open_masked(t, op, p, &a, &s, &mask)) return NULL;
  DType dtype = a.b->access.memory->type->dtype;
  bool named = steps_along_last(&a, &s), vector_mask = mask && mask->type->n > 1;
  if (s.kind == SPREAD_UNIT || (s.kind == SPREAD_SAME && !vector_mask)) {
    Emitted e = access_at(&a, &s, 0, mask, named);
    const Type *type = type_vec(t->l.k->cx, s.kind == SPREAD_UNIT ? a.width : 1, dtype);
    Value *v = emit_op(&t->l, OP_load, e.args + 1, e.nargs, e.attrs, e.nattrs, type);
    return emit_splat(&t->l, v, v->type->n < a.width ? a.width : 1);
  }
  Value **parts = ARENA_ARRAY(t->l.arena, Value *, a.width);
  for (int i = 0; i < a.width; i++) {
    Emitted e = access_at(&a, &s, i, mask_element(t, mask, i), named);
    parts[i] = emit_op(&t->l, OP_load, e.args + 1, e.nargs, e.attrs, e.nattrs,
                       type_scalar(t->l.k->cx, dtype));
  }
  return emit_join(&t->l, parts, a.width);
}

/* ---- stores ---- */

bool access_store(Tiles *t, const Op *op, const Point *p, Value *v) {
  TileAccess a;
  Spread s;
  Value *mask;
  if (!open_masked(t, op, p, &a, &s, &mask)) return false;
  bool named = steps_along_last(&a, &s), together = a.width == 1 || s.kind == SPREAD_UNIT;
  for (int i = 0; i < (together ? 1 : a.width); i++) {
    Emitted e = access_at(&a, &s, i, together ? mask : mask_element(t, mask, i), named);
    e.args[0] = together || v->type->n == 1 ? v : emit_pick(&t->l, v, &i, 1);
    emit_op(&t->l, OP_store, e.args, e.nargs + 1, e.attrs, e.nattrs, NULL);
  }
  return true;
}

bool access_atomic(Tiles *t, const Op *op, const Point *p, Value *v, Value **old) {
  TileAccess a;
  Spread s;
  Value *mask;
  WV_ASSERT(p->width == 1);
  if (!open_masked(t, op, p, &a, &s, &mask)) return false;
  Emitted e = access_at(&a, &s, 0, mask, steps_along_last(&a, &s));
  const char *mode = atomic_mode(op->kind).word;
  e.args[0] = v;
  e.attrs[e.nattrs++] = (Attr){.key = ATTR_mode, .text = intern(&t->l.k->cx->names, mode)};
  const Type *element = type_scalar(t->l.k->cx, v->type->dtype);
  *old = emit_op(&t->l, OP_atomic, e.args, e.nargs + 1, e.attrs, e.nattrs, element);
  if (mask) *old = emit_select(&t->l, mask, *old, emit_number(&t->l, v->type->dtype, 0));
  return true;
}

bool access_report(Tiles *t, const Op *op, const Point *p, Value *holds, Reported *out) {
  TileAccess a;
  Spread s;
  Value *mask;
  WV_ASSERT(p->width == 1);
  if (!open_masked(t, op, p, &a, &s, &mask)) return false;
  Emitted e = access_at(&a, &s, 0, mask, false);
  Value *failed = emit_op(&t->l, OP_not, &holds, 1, NULL, 0, holds->type);
  if (mask) failed = emit_binary(&t->l, OP_and, failed, mask);
  *out = (Reported){.memory = e.args[1], .offset = e.args[2], .failed = failed};
  return true;
}

void access_prefetch(Tiles *t, const Op *op, const Point *p) {
  const MemAccess *m = &t->l.bounds[op->id]->access;
  TileAccess a;
  Spread s;
  if (m->ndynamic || m->replaced >= 0 || memory_is_scratch(m->memory)) return;
  if (!open_at(t, op, p, &a) || !spread_of(&a, &s)) return;
  Value *args[] = {t->l.value[m->memory->id],
                   number_of(&a, offset_at(&a, &s, NULL), 0, DTYPE_index)};
  emit_op(&t->l, OP_prefetch, args, 2, NULL, 0, NULL);
}

Value *access_rows(Tiles *t, const Op *op, const Point *p, const Sym *apart, int rows, int width) {
  const Value *memory = t->l.bounds[op->id]->access.memory;
  TileAccess a;
  Spread s;
  if (!open_at(t, op, p, &a) || !spread_of(&a, &s)) return NULL;
  Value *args[] = {t->l.value[memory->id], number_of(&a, offset_at(&a, &s, NULL), 0, DTYPE_index),
                   emit_address(&t->l, apart, DTYPE_index)};
  Attr count = {.key = ATTR_rows, .integer = rows};
  const Type *type = type_vec(t->l.k->cx, rows * width, memory->type->dtype);
  return emit_op(&t->l, OP_load_rows, args, 3, &count, 1, type);
}

/* ---- the dim that is contiguous ---- */

const Sym *access_contiguous(Tiles *t, const Op *op) {
  const AccessBounds *b = t->l.bounds[op->id];
  const Type *tile = b->access.tile;
  SymCtx *sym = t->l.sym;
  const Sym *offset = element_offset(&t->l, b), *coeff, *rest;
  for (int i = 0; offset && tile->kind != TYPE_scalar && i < tile->rank; i++) {
    const Sym *x = access_x(sym, i);
    if (sym_linear(sym, offset, &x, 1, &coeff, &rest) &&
        sym_simplify(sym, emit_facts(&t->l), coeff) == sym_int(sym, 1)) /* a stride, for example */
      return tile->dims[i];
  }
  return NULL;
}

const Sym *access_apart(Tiles *t, const Op *op, const Sym *dim) {
  const AccessBounds *b = t->l.bounds[op->id];
  const Type *tile = b->access.tile;
  SymCtx *sym = t->l.sym;
  const Sym *offset = element_offset(&t->l, b), *coeff, *rest, *found = NULL;
  for (int i = 0; offset && i < tile->rank; i++) {
    const Sym *x = access_x(sym, i);
    if (dim_base(tile->dims[i]) != dim_base(dim)) continue;
    if (sym_linear(sym, offset, &x, 1, &coeff, &rest)) found = coeff;
  }
  for (int i = 0; found && i < tile->rank; i++)
    if (sym_contains(found, access_x(sym, i))) found = NULL;
  return found;
}

/* Whether n elements from any multiple of n after `start` on are contiguous. */
static bool is_run(TileAccess *a, const Sym *start, int extent, int n) {
  SymCtx *sym = a->t->l.sym;
  SymFacts *f = sym_facts_new(a->t->l.arena, sym, emit_facts(&a->t->l));
  const Sym *block = sym_symbol(sym, "$block", true), *by = sym_int(sym, n);
  Spread s;
  sym_assume_range(f, a->within, 0, n - 1);
  sym_assume_range(f, block, 0, (extent - 1) / n);
  a->facts = f;
  a->width = n;
  a->x[a->along].to = sym_add(sym, start, sym_mul(sym, by, block));
  return a->x[a->along].to && spread_of(a, &s) && s.kind == SPREAD_UNIT;
}

int access_run(Tiles *t, const Op *op, const Sym *dim, const Sym *start, int extent, int most) {
  TileAccess a = {.t = t, .op = op, .b = t->l.bounds[op->id], .along = -1};
  const MemAccess *m = &a.b->access;
  a.rank = m->tile->kind == TYPE_scalar ? 0 : m->tile->rank;
  for (int i = 0; i < a.rank; i++) {
    a.x[i] = (SymBinding){access_x(t->l.sym, i), access_x(t->l.sym, i)};
    if (m->tile->dims[i] == dim) a.along = i;
  }
  if (a.along < 0 || m->ndynamic || m->replaced >= 0 || !element_offset(&t->l, a.b)) return 1;
  a.within = sym_symbol(t->l.sym, "$within", true);
  int n = most;
  while (n > 1 && !is_run(&a, start, extent, n)) n /= 2;
  return n;
}
