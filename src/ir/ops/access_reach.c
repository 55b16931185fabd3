/* access_reach.c: how large may a value from memory be for arithmetic on it to stay in 64 bits?
 *
 *     $dynamic_val0                      any: it is only compared
 *     2*$dynamic_val0 + $x0              2^59: its term is 2^60 at most
 *     K*$dynamic_val0                    floor(2^60/Max(K, 1))
 *     Mod($dynamic_val0, K)              any
 *
 * No memory has 2^60 elements, so anything larger is outside in any case, and a few such terms can
 * be added without overflowing 64 bits. */
#include "ir/ops/access.h"
#include "ir/region_facts.h"

enum { FAR_BITS = 60 };

typedef struct Reach {
  SymCtx *cx;
  const Sym *value, *limit; /* limit NULL: none yet */
  bool offset;              /* coordinates are inside by now, or it is not used */
  bool ok;
} Reach;

/* The factor that an expression is multiplied by; NULL: neither multiplied nor added to
 * anything. */
typedef const Sym *Factor;

static bool is_from_memory(const Reach *r, const Sym *e) {
  return sym_contains(e, r->value) || ir_expr_mentions(e, "$dynamic_val") ||
         ir_expr_mentions(e, "$replaced");
}

/* `of`: how many values from memory are multiplied with each other. */
static void take_limit(Reach *r, Factor by, int of) {
  SymCtx *cx = r->cx;
  const Sym *most = sym_max(cx, sym_max(cx, by, sym_neg(cx, by)), sym_int(cx, 1));
  const Sym *limit = sym_floordiv(cx, sym_int(cx, INT64_C(1) << FAR_BITS / of), most);
  r->ok = r->ok && limit;
  r->limit = r->limit && limit ? sym_min(cx, r->limit, limit) : limit;
}

/* A fraction times its denominator, which is what is computed. */
static const Sym *whole(SymCtx *cx, const Sym *s) {
  for (int by = 2; !sym_is_integer(s) && by <= 1024; by++) {
    const Sym *times = sym_mul(cx, s, sym_int(cx, by));
    if (times && sym_is_integer(times)) return times;
  }
  return s;
}

static void visit(Reach *r, const Sym *e, Factor by);

/* In a product, one factor may be any function of the value; several must be values themselves. */
static void visit_product(Reach *r, const Sym *e, Factor by) {
  const Sym *function = NULL;
  int of = 0;
  if (!by) by = sym_int(r->cx, 1);
  for (int i = 0; i < sym_nargs(e); i++) {
    const Sym *factor = sym_arg(r->cx, e, i);
    if (!is_from_memory(r, factor)) by = sym_mul(r->cx, by, factor);
    else function = factor, of++;
    r->ok = r->ok && (of < 2 || sym_name(factor));
  }
  if (of > 1) take_limit(r, by, of);
  else visit(r, function, by);
}

static void visit_power(Reach *r, const Sym *e, Factor by) {
  int64_t power;
  bool plain = sym_arg(r->cx, e, 0) == r->value && sym_is_int(sym_arg(r->cx, e, 1), &power);
  r->ok = r->ok && plain && power > 0 && power < FAR_BITS;
  if (r->ok) take_limit(r, by ? by : sym_int(r->cx, 1), (int)power);
}

static void visit_all(Reach *r, const Sym *e, Factor by) {
  for (int i = 0; i < sym_nargs(e); i++) visit(r, sym_arg(r->cx, e, i), by);
}

static void visit(Reach *r, const Sym *e, Factor by) {
  if (!r->ok || !sym_contains(e, r->value)) return;
  switch (sym_kind(e)) {
  case SYM_symbol:
    if (by) take_limit(r, by, 1);
    return;
  case SYM_add: visit_all(r, e, by ? by : sym_int(r->cx, 1)); return;
  case SYM_mul: visit_product(r, e, by); return;
  case SYM_pow: visit_power(r, e, by); return;
  case SYM_floor:
  case SYM_ceil: visit(r, whole(r->cx, sym_arg(r->cx, e, 0)), by); return;
  case SYM_mod: visit_all(r, e, NULL); return; /* it is as small as its divisor */
  case SYM_min:
  case SYM_max:
  case SYM_select: visit_all(r, e, r->offset ? NULL : by); return;
  default: visit_all(r, e, NULL); return;
  }
}

bool access_reach(SymCtx *cx, const Sym *const *coords, int n, const Sym *offset, const Sym *value,
                  const Sym **limit) {
  Reach r = {.cx = cx, .value = value, .ok = true};
  for (int i = 0; i < n; i++)
    if (coords[i]) visit(&r, coords[i], NULL);
  r.offset = true;
  if (offset) visit(&r, offset, NULL);
  *limit = r.limit;
  if (!r.ok) sym_take_error(cx);
  return r.ok;
}

const Sym *access_clamp(SymCtx *cx, const Sym *e, const Sym *value, const Sym *limit) {
  SymBinding to = {value, sym_min(cx, sym_max(cx, value, sym_neg(cx, limit)), limit)};
  return sym_subst(cx, e, &to, 1);
}

const Sym *access_kept(SymCtx *cx, const Sym *e, const Sym *const *values, int n) {
  for (int i = 0; e && i < n; i++) {
    const Sym *limit = NULL;
    if (!sym_contains(e, values[i])) continue;
    if (access_reach(cx, &e, 1, NULL, values[i], &limit) && limit)
      e = access_clamp(cx, e, values[i], limit);
  }
  return e;
}
