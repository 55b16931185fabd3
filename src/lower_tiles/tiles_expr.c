/* tiles_expr.c: expressions on vectors. `expr` computes one number; if some of its symbols are
 * vecs, an expression becomes elementwise ops, in 64 bits, because expressions are exact. */
#include "lower_tiles/tiles.h"

Value *tile_iota(Tiles *t, int width, DType dtype) {
  Lower *l = &t->l;
  uint64_t key = (uint64_t)width * DTYPE_COUNT + dtype + 1;
  Value *known = map_get(&t->iotas, key);
  if (known) return known;
  LowerScope *here = l->scope;
  while (l->scope->outer) l->scope = l->scope->outer;
  Value **parts = ARENA_ARRAY(l->arena, Value *, width);
  for (int i = 0; i < width; i++) parts[i] = emit_number(l, dtype, i);
  Value *v = emit_join(l, parts, width);
  l->scope = here;
  map_set(l->arena, &t->iotas, key, v);
  return v;
}

typedef struct VectorExpr {
  Tiles *t;
  const VectorSymbols *s;
} VectorExpr;

static Value *vector_of(VectorExpr *x, const Sym *e);

static bool is_uniform(const VectorExpr *x, const Sym *e) {
  for (int i = 0; i < x->s->n; i++)
    if (sym_contains(e, x->s->symbol[i])) return false;
  return true;
}

static Value *uniform_of(VectorExpr *x, const Sym *e) {
  Lower *l = &x->t->l;
  Value *v = emit_expr(l, e, sym_is_bool(e) ? DTYPE_i1 : DTYPE_index);
  return emit_splat(l, v, x->s->width);
}

static Value *symbol_of(VectorExpr *x, const Sym *e) {
  for (int i = 0; i < x->s->n; i++)
    if (x->s->symbol[i] == e && x->s->vec[i]->type->dtype != DTYPE_i1)
      return emit_cast(&x->t->l, x->s->vec[i], DTYPE_index);
  return NULL;
}

/* Combines all operands by a binary op. */
static Value *chain_of(VectorExpr *x, const Sym *e, OpKind kind) {
  Value *all = NULL;
  for (int i = 0; i < sym_nargs(e); i++) {
    Value *v = vector_of(x, sym_arg(x->t->l.sym, e, i));
    if (!v) return NULL;
    all = all ? emit_binary(&x->t->l, kind, all, v) : v;
  }
  return all;
}

static Value *compare_of(VectorExpr *x, const Sym *e, OpKind kind) {
  Lower *l = &x->t->l;
  Value *args[2];
  for (int i = 0; i < 2; i++)
    if (!(args[i] = vector_of(x, sym_arg(l->sym, e, i)))) return NULL;
  return emit_op(l, kind, args, 2, NULL, 0, type_vec(l->k->cx, x->s->width, DTYPE_i1));
}

static Value *select_of(VectorExpr *x, const Sym *e) {
  Value *args[3];
  for (int i = 0; i < 3; i++)
    if (!(args[i] = vector_of(x, sym_arg(x->t->l.sym, e, i)))) return NULL;
  return emit_select(&x->t->l, args[0], args[1], args[2]);
}

/* floor(a / n), whose terms may be fractions: all are multiplied by the denominator first. */
static Value *floor_of(VectorExpr *x, const Sym *e) {
  Lower *l = &x->t->l;
  const Sym *inner = sym_arg(l->sym, e, 0);
  for (int64_t d = 2; d <= 4096; d++) {
    const Sym *whole = sym_mul(l->sym, inner, sym_int(l->sym, d));
    if (!whole || !sym_is_integer(whole)) continue;
    Value *v = vector_of(x, whole), *n = uniform_of(x, sym_int(l->sym, d));
    return v ? emit_binary(l, OP_floordiv, v, n) : NULL;
  }
  sym_take_error(l->sym);
  return NULL;
}

/* a - n*floor(a/n) */
static Value *mod_of(VectorExpr *x, const Sym *e) {
  Lower *l = &x->t->l;
  Value *a = vector_of(x, sym_arg(l->sym, e, 0)), *n = vector_of(x, sym_arg(l->sym, e, 1));
  if (!a || !n) return NULL;
  Value *times = emit_binary(l, OP_mul, emit_binary(l, OP_floordiv, a, n), n);
  return emit_binary(l, OP_sub, a, times);
}

/* NULL: it cannot be expressed as ops on vectors. */
static Value *vector_of(VectorExpr *x, const Sym *e) {
  if (is_uniform(x, e)) return sym_is_bool(e) || sym_is_integer(e) ? uniform_of(x, e) : NULL;
  switch (sym_kind(e)) {
  case SYM_symbol: return symbol_of(x, e);
  case SYM_add: return sym_is_integer(e) ? chain_of(x, e, OP_add) : NULL;
  case SYM_mul: return sym_is_integer(e) ? chain_of(x, e, OP_mul) : NULL;
  case SYM_min: return chain_of(x, e, OP_minimum);
  case SYM_max: return chain_of(x, e, OP_maximum);
  case SYM_and: return chain_of(x, e, OP_and);
  case SYM_or: return chain_of(x, e, OP_or);
  case SYM_lt: return compare_of(x, e, OP_lt);
  case SYM_le: return compare_of(x, e, OP_le);
  case SYM_eq: return compare_of(x, e, OP_eq);
  case SYM_ne: return compare_of(x, e, OP_ne);
  case SYM_select: return select_of(x, e);
  case SYM_floor: return floor_of(x, e);
  case SYM_mod: return mod_of(x, e);
  default: return NULL;
  }
}

/* One number at a time. */
static Value *each_element(VectorExpr *x, const Sym *e, DType dtype) {
  Lower *l = &x->t->l;
  Value **parts = ARENA_ARRAY(l->arena, Value *, x->s->width);
  SymBinding to[WV_LEN(x->s->symbol)];
  for (int i = 0; i < x->s->n; i++) to[i] = (SymBinding){x->s->symbol[i], emit_arg(l, i)};
  e = emit_sound(l, sym_subst(l->sym, e, to, x->s->n));
  for (int w = 0; w < x->s->width; w++) {
    Value *args[WV_LEN(x->s->symbol)];
    for (int i = 0; i < x->s->n; i++) args[i] = emit_pick(l, x->s->vec[i], &w, 1);
    parts[w] = emit_expr_of(l, e, dtype, args, x->s->n);
  }
  return emit_join(l, parts, x->s->width);
}

Value *tiles_vector_expr(Tiles *t, const Sym *e, const VectorSymbols *s, DType dtype) {
  VectorExpr x = {t, s};
  Value *v = vector_of(&x, e);
  return v ? emit_cast(&t->l, v, dtype) : each_element(&x, e, dtype);
}
