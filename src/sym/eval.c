/* eval.c: the exact value of one expression.
 *
 * An undefined operand (division by zero, overflow, an unbound symbol) makes the result undefined,
 * except where the operand does not matter: in a branch that is not taken, in `False & x` and in
 * `True | x`. */
#include "sym/node.h"

typedef struct Eval {
  const SymBinding *env;
  int n;
  Arena *arena; /* NULL: the expression is small enough to walk as a tree */
  Map memo;
} Eval;

typedef struct EvalResult {
  bool ok;
  Rat v;
} EvalResult;

static bool eval(Eval *e, const Sym *s, Rat *out);

static bool eval_symbol(Eval *e, const Sym *s, Rat *out) {
  for (int i = 0; i < e->n; i++)
    if (e->env[i].from == s)
      return e->env[i].to && is_num(e->env[i].to) && (*out = e->env[i].to->k, true);
  return false;
}

/* The coefficient is applied first: N**2*i**4/65536 may fit where N**2*i**4 does not. */
static bool eval_scaled(Eval *e, Rat coeff, const Sym *s, Rat *out) {
  Rat product = coeff, t;
  if (s->kind != SYM_mul && s->kind != SYM_pow) return eval(e, s, &t) && rat_mul(product, t, out);
  for (int i = 0; i < s->n; i++)
    if (!eval(e, s->factor[i].base, &t) || !rat_pow(t, s->factor[i].exp, &t) ||
        !rat_mul(product, t, &product))
      return false;
  return *out = product, true;
}

static bool eval_add(Eval *e, const Sym *s, Rat *out) {
  Rat sum = s->k, t;
  for (int i = 0; i < s->n; i++)
    if (!eval_scaled(e, s->term[i].coeff, s->term[i].base, &t) || !rat_add(sum, t, &sum))
      return false;
  return *out = sum, true;
}

static bool eval_mod(Eval *e, const Sym *s, Rat *out) {
  Rat a, m;
  if (!eval(e, s->arg[0], &a) || !eval(e, s->arg[1], &m) || !m.num) return false;
  if (m.num > 0) return rat_mod(a, m, out);
  if (!rat_mod(rat_neg(a), rat_neg(m), out)) return false;
  return *out = rat_neg(*out), true;
}

static bool eval_fold(Eval *e, const Sym *s, Rat *out) {
  Rat r, t;
  if (!eval(e, s->arg[0], &r)) return false;
  for (int i = 1; i < s->n; i++) {
    if (!eval(e, s->arg[i], &t)) return false;
    if (s->kind == SYM_xor && (!rat_is_int(r) || !rat_is_int(t))) return false;
    if (s->kind == SYM_xor) r.num ^= t.num;
    else if ((rat_cmp(t, r) < 0) == (s->kind == SYM_min)) r = t;
  }
  if (r.num == INT64_MIN) return false;
  return *out = r, true;
}

/* Compares the two sides as they are: both may fit where their difference does not. */
static bool eval_compare(Eval *e, const Sym *s, Rat *out) {
  Rat a, b;
  if (!eval(e, s->arg[0], &a) || !eval(e, s->arg[1], &b)) return false;
  int order = rat_cmp(a, b);
  switch ((SymKind)s->kind) {
  case SYM_le: *out = rat_int(order <= 0); return true;
  case SYM_lt: *out = rat_int(order < 0); return true;
  case SYM_eq: *out = rat_int(order == 0); return true;
  default: *out = rat_int(order != 0); return true;
  }
}

static bool eval_junction(Eval *e, const Sym *s, Rat *out) {
  int64_t absorbing = s->kind == SYM_or;
  bool known = true;
  for (int i = 0; i < s->n; i++) {
    Rat v;
    if (!eval(e, s->arg[i], &v)) known = false;
    else if (v.num == absorbing) return *out = v, true;
  }
  *out = rat_int(!absorbing);
  return known;
}

static bool eval_node(Eval *e, const Sym *s, Rat *out) {
  Rat v;
  switch ((SymKind)s->kind) {
  case SYM_symbol: return eval_symbol(e, s, out);
  case SYM_int:
  case SYM_rational:
  case SYM_bool: return *out = s->k, true;
  case SYM_add: return eval_add(e, s, out);
  case SYM_mul: return eval_scaled(e, s->k, s, out);
  case SYM_pow: return eval_scaled(e, RAT_ONE, s, out);
  case SYM_floor: return eval(e, s->arg[0], &v) && (*out = rat_int(rat_floor(v)), true);
  case SYM_ceil: return eval(e, s->arg[0], &v) && (*out = rat_int(rat_ceil(v)), true);
  case SYM_mod: return eval_mod(e, s, out);
  case SYM_xor:
  case SYM_min:
  case SYM_max: return eval_fold(e, s, out);
  case SYM_select: return eval(e, s->arg[0], &v) && eval(e, s->arg[v.num ? 1 : 2], out);
  case SYM_le:
  case SYM_lt:
  case SYM_eq:
  case SYM_ne: return eval_compare(e, s, out);
  case SYM_and:
  case SYM_or: return eval_junction(e, s, out);
  case SYM_COUNT: break;
  }
  WV_BUG("unknown kind of expression");
}

static bool eval(Eval *e, const Sym *s, Rat *out) {
  if (!e->arena || s->size < 8) return eval_node(e, s, out);
  EvalResult *r = map_get(&e->memo, map_key(s));
  if (!r) {
    r = ARENA_NEW(e->arena, EvalResult);
    r->ok = eval_node(e, s, &r->v);
    map_set(e->arena, &e->memo, map_key(s), r);
  }
  *out = r->v;
  return r->ok;
}

bool sym_eval(const Sym *s, const SymBinding *env, int n, int64_t *out) {
  Rat v;
  if (!s) return false;
  Eval e = {.env = env, .n = n, .arena = s->size > 512 ? arena_new() : NULL};
  bool ok = eval(&e, s, &v) && rat_is_int(v);
  arena_free(e.arena);
  if (ok) *out = v.num;
  return ok;
}
