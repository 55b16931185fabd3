/* tiles_next.c: prefetches the operands of the next workgroup while this one multiplies.
 *
 * Packing small matrices waits for memory, which is idle while blocks are multiplied. If each
 * workgroup computes all of a product, in a batch of many, the next workgroup packs the next pair of
 * matrices. Each block prefetches its share of them, a little in each iteration of its loop over k:
 * prefetches of many lines at once would occupy the fill buffers of the core, and loads would wait.
 * They replace those of panels, which are in the L2 cache then:
 *
 *     if there is one tile per product, and rows adjoin { blocks that prefetch the next operands }
 *     if not                                            { blocks that prefetch the next panels } */
#include "lower_tiles/product/tiles_product.h"

/* The first two ids of all workgroups are 0. */
static const Sym *group_id(const Tiles *t) {
  return ir_numbered_symbol(t->l.k->cx, "$WG", 2, true);
}

/* How many tiles of k there are; NULL: that is not known before the loop. */
static const Sym *trips_of(Tiles *t, const TiledProduct *p) {
  const Op *loop = p->op->parent->owner;
  if (!loop) return sym_int(t->l.sym, 1);
  if (loop->kind != OP_for || loop->parent->owner) return NULL;
  return emit_at_entry(&t->l, distribute_trips(t->l.d, loop));
}

/* The matrix is a run of elements: linear addresses reach all of it. */
static bool is_run(Tiles *t, const PackSource *s, const Sym **condition) {
  SymCtx *sym = t->l.sym;
  const Op *read = pack_plain_read(t, s->of);
  const Sym *along = read ? access_contiguous(t, read) : NULL;
  bool along_k = along && dim_base(along) == dim_base(s->k);
  if (!along || (!along_k && dim_base(along) != dim_base(s->row))) return false;
  const Sym *apart = access_apart(t, read, along_k ? s->row : s->k);
  const Sym *most = sym_int(sym, along_k ? s->depth : s->extent);
  if (apart) *condition = sym_and(sym, *condition, sym_le(sym, apart, most));
  return apart != NULL;
}

const Sym *next_condition(Tiles *t, const TiledProduct *p) {
  SymCtx *sym = t->l.sym;
  const Sym *const *grid = t->l.d->grid, *one = sym_int(sym, 1), *trips = trips_of(t, p);
  const Sym *no = sym_bool(sym, false);
  if (!product_has_fast_vectors(t, p) || !trips || grid[2] == one) return no;
  const Sym *is = sym_le(sym, trips, one);
  for (int i = 0; i < 2; i++) is = sym_and(sym, is, sym_le(sym, grid[i], one));
  if (!is_run(t, &p->source[0], &is) || !is_run(t, &p->source[1], &is)) return no;
  return emit_sound(&t->l, sym_simplify(sym, emit_facts(&t->l), is));
}

/* The first element that step k of the block prefetches. */
static const Sym *place_of(Tiles *t, const TiledProduct *p, const Block *b, const PackSource *s,
                           const Sym *k) {
  SymCtx *sym = t->l.sym;
  int rows = p->a->source.extent / p->a->rows, columns = p->b->source.extent / p->b->rows;
  int blocks = rows * columns > 0 ? rows * columns : 1;
  const Sym *row = sym_floordiv(sym, b->row, sym_int(sym, p->a->rows)),
            *column = sym_floordiv(sym, b->column, sym_int(sym, p->b->rows));
  const Sym *block = sym_add(sym, sym_mul(sym, column, sym_int(sym, rows)), row);
  const Sym *step = sym_add(sym, sym_mul(sym, block, pack_depth(t, s)), k);
  return sym_mul(sym, step, sym_int(sym, (s->extent + blocks - 1) / blocks));
}

static void fetch_operand(Tiles *t, const TiledProduct *p, const Block *b, const PackSource *s,
                          const Sym *k) {
  SymCtx *sym = t->l.sym;
  const Op *read = pack_plain_read(t, s->of);
  bool along_k = dim_base(access_contiguous(t, read)) == dim_base(s->k);
  const Sym *place = place_of(t, p, b, s, k), *zero = sym_int(sym, 0);
  const SymBinding next = {group_id(t), sym_add(sym, group_id(t), sym_int(sym, 1))};
  Point at = s->others;
  at.dim[at.n] = s->row;
  at.at[at.n++] = tiles_sum(t, s->row_start, along_k ? zero : place);
  at.dim[at.n] = s->k;
  at.at[at.n++] = tiles_sum(t, s->k_start, along_k ? place : zero);
  for (int i = 0; i < at.n; i++) at.at[i] = emit_sound(&t->l, sym_subst(sym, at.at[i], &next, 1));
  access_prefetch(t, read, &at);
}

void next_fetch(Tiles *t, const TiledProduct *p, const Block *b, const Sym *k) {
  fetch_operand(t, p, b, &p->a->source, k);
  fetch_operand(t, p, b, &p->b->source, k);
}
