/* tiles_in_place.c: operands whose rows matrix registers can load in place.
 *
 * A register of 16 rows loads 64 bytes from each of 16 addresses at equal distances. An operand
 * that is read along k, in the type of the factors, already has that form. It must be packed only
 * where the tile ends within a register, so that nothing is read past the end:
 *
 *     if every row exists, and k ends with a step { products of rows in place }
 *     if not                                      { pack; products of panels } */
#include "lower_tiles/product/tiles_product.h"

/* Nothing is tested except the ends of rows and of k. */
static bool is_plain(Tiles *t, const Op *read, const PackSource *s, const Sym *end) {
  int granted = t->granted.n;
  const MemAccess *m = &t->l.bounds[read->id]->access;
  if (m->ndynamic || m->replaced >= 0 || memory_is_scratch(m->memory)) return false;
  if (end) nest_grant(t, s->row, end);
  if (s->k_end) nest_grant(t, s->k, s->k_end);
  bool tested = access_is_tested(t, read);
  t->granted.n = granted;
  return !tested;
}

bool in_place_choose(Tiles *t, TiledProduct *p) {
  const PackSource *s = &p->source[0];
  const Op *read = pack_plain_read(t, s->of);
  SymCtx *sym = t->l.sym;
  bool matrix = dot_info(p->tile.form)->grain > 2;
  if (!matrix || !read || read->results[0].type->dtype != s->dtype || s->depth % s->step ||
      pack_is_hoisted(t, s))
    return false;
  const Sym *apart = access_apart(t, read, s->row), *end = access_limit(t, read, s->row);
  if (!apart || access_apart(t, read, s->k) != sym_int(sym, 1) || !is_plain(t, read, s, end))
    return false;
  const Sym *step = sym_int(sym, s->step), *rows = sym_int(sym, s->extent);
  const Sym *whole = sym_eq(sym, sym_mod(sym, pack_depth(t, s), step), sym_int(sym, 0));
  if (end) whole = sym_and(sym, whole, sym_ge(sym, sym_sub(sym, end, s->row_start), rows));
  p->in_place_if = emit_sound(&t->l, sym_simplify(sym, emit_facts(&t->l), whole));
  p->in_place = (Panels){.source = *s, .rows = p->tile.m, .base = sym_int(sym, 0), .read = read};
  p->in_place.apart = emit_sound(&t->l, apart);
  p->in_place.source.end = NULL; /* all of them exist */
  return p->in_place_if && p->in_place_if != sym_bool(sym, false);
}

Value *in_place_load(Tiles *t, const Panels *from, const Sym *row, const Sym *k, int rows) {
  const PackSource *s = &from->source;
  SymCtx *sym = t->l.sym;
  Point p = s->others;
  p.dim[p.n] = s->row;
  p.at[p.n++] = emit_sound(&t->l, sym_add(sym, s->row_start, row));
  p.dim[p.n] = s->k;
  p.at[p.n++] = emit_sound(&t->l, sym_add(sym, s->k_start, k));
  return access_rows(t, from->read, &p, from->apart, rows, s->step);
}
