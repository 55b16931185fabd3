/* tiles_bitcast.c: bitcasts to elements of another size.
 *
 *     tile<M, K/2, i8> -> tile<M, K, f4e2m1fn>     element k is half Mod(k, 2) of byte floor(k/2)
 *
 * The dims differ only in one, which has other units. */
#include "ir/dtype.h"
#include "lower_tiles/tiles.h"

typedef struct Bitcast {
  Tiles *t;
  const Value *from, *to;
  int dim;
  int per, of; /* so many narrow elements are so many wide ones: 2 are 1, or 4 are 3 */
} Bitcast;

static Value *as(const Bitcast *b, Value *v, int n) {
  const Type *type = type_vec(b->t->l.k->cx, n, b->to->type->dtype);
  return emit_op(&b->t->l, OP_bitcast, &v, 1, NULL, 0, type);
}

/* The point in the source's dims: `at` along the dim that differs. */
static Point source_point(const Bitcast *b, const Point *p, const Sym *at) {
  Point q = *p;
  for (int i = 0; i < q.n; i++) q.dim[i] = b->from->type->dims[i];
  q.at[b->dim] = emit_sound(&b->t->l, sym_simplify(b->t->l.sym, emit_facts(&b->t->l), at));
  return q;
}

/* ---- from wide to narrow ---- */
/* Where the group of a narrow element begins, among the wide ones. */
static const Sym *group_at(const Bitcast *b, const Sym *at) {
  SymCtx *sym = b->t->l.sym;
  return sym_mul(sym, sym_floordiv(sym, at, sym_int(sym, b->per)), sym_int(sym, b->of));
}

/* One element along the dim: part number Mod(at, per) of each group of wide ones. */
static Value *part_at(const void *user, const Point *p) {
  const Bitcast *b = user;
  Lower *l = &b->t->l;
  const Sym *at = p->at[b->dim], *per = sym_int(l->sym, b->per);
  if (b->of > 1 && p->width > 1) return tiles_one_by_one(b->t, p, part_at, b);
  Point q = source_point(b, p, group_at(b, at));
  if (b->of > 1) q.along = b->dim, q.width = b->of;
  Value *v = tiles_wide_at(b->t, b->from, &q), *found = NULL;
  int n = p->width, *regs = ARENA_ARRAY(l->arena, int, n);
  if (!v) return NULL;
  v = as(b, v, n * b->per);
  for (int r = 0; r < b->per; r++) {
    for (int i = 0; i < n; i++) regs[i] = i * b->per + r;
    Value *part = emit_pick(l, v, regs, n);
    Value *here = emit_test(l, sym_eq(l->sym, sym_mod(l->sym, at, per), sym_int(l->sym, r)));
    if (!found || !here) found = part;
    else found = emit_select(l, emit_splat(l, here, n), part, found);
    if (!here) break; /* this is the one */
  }
  return found;
}

static Value *narrow_at(const Bitcast *b, const Point *p) {
  Lower *l = &b->t->l;
  if (p->along != b->dim) return part_at(b, p);
  bool whole = p->width % b->per == 0 && sym_divides(l->sym, emit_facts(l), b->per, p->at[b->dim]);
  if (whole) {
    Point q = source_point(b, p, group_at(b, p->at[b->dim]));
    q.width = p->width / b->per * b->of;
    Value *v = tiles_wide_at(b->t, b->from, &q);
    return v ? as(b, v, p->width) : NULL;
  }
  return tiles_one_by_one(b->t, p, part_at, b);
}

/* ---- from narrow to wide ---- */

static Value *wide_at(const void *user, const Point *p) {
  const Bitcast *b = user;
  Lower *l = &b->t->l;
  if (p->along < 0 || p->along == b->dim) {
    Point q = source_point(b, p, sym_mul(l->sym, p->at[b->dim], sym_int(l->sym, b->per)));
    q.along = b->dim;
    q.width = p->width * b->per;
    Value *v = tiles_wide_at(b->t, b->from, &q);
    return v ? as(b, v, p->width) : NULL;
  }
  return tiles_one_by_one(b->t, p, wide_at, b);
}

Value *bitcast_at(Tiles *t, const Value *v, const Point *p) {
  const Op *op = v->def;
  const Type *from = op->args[0]->type, *to = v->type;
  int has = dtype_info[from->dtype].bits, wants = dtype_info[to->dtype].bits, differ = 0;
  Bitcast b = {.t = t, .from = op->args[0], .to = v};
  for (int i = 0; from->rank == to->rank && i < to->rank; i++)
    if (from->dims[i] != to->dims[i]) b.dim = i, differ++;
  BitGroup g = dtype_bit_group(from->dtype, to->dtype);
  b.per = has > wants ? g.to : g.from, b.of = has > wants ? g.from : g.to;
  if (differ != 1 || from->kind != TYPE_tile) {
    tiles_refuse(t, op, "elements of another size without a dimension to split");
    return NULL;
  }
  return has > wants ? narrow_at(&b, p) : wide_at(&b, p);
}
