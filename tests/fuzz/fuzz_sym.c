/* fuzz_sym.c: random expressions and facts, compared with an evaluator that does not share code
 * with src/sym.
 *
 *     fuzz_sym [--seed N] [--count N] [--seconds N]
 *
 * An expression is made twice: as a tree of this file, which is evaluated in 128-bit fractions, and
 * through the constructors of sym.h. At points that satisfy random facts the two must agree: as
 * built, simplified, proved, bounded, decomposed, lowered, compiled, substituted and parsed back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "sym/sym.h"

__extension__ typedef __int128 Wide;

/* ---- random numbers */

typedef struct Rng {
  uint64_t state;
} Rng;

static uint64_t rng_next(Rng *r) { /* splitmix64 */
  uint64_t z = r->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static int rng_below(Rng *r, int n) { return (int)(rng_next(r) % (uint64_t)n); }
static int rng_pick(Rng *r, const int *from, int n) { return from[rng_below(r, n)]; }

/* ---- the oracle's trees */

typedef enum Op {
  CONST,
  VAR,
  ADD,
  SUB,
  MUL,
  DIV,
  FLOOR,
  CEIL,
  MOD,
  MIN,
  MAX,
  XOR,
  SELECT,
  POW,
  LE,
  LT,
  EQ,
  NE,
  AND,
  OR,
  NOT
} Op;

typedef struct Tree {
  Op op;
  int64_t value; /* of CONST, index of VAR, exponent of POW */
  struct Tree *kid[3];
} Tree;

enum { VARS = 5, POINTS = 8, MAX_FACTS = 8 };

static const char *const var_name[VARS] = {"$T0", "K", "i", "N", "J"};
static const bool var_nonneg[VARS] = {true, true, true, true, false};

typedef struct Frac {
  Wide num, den;
} Frac;

static Wide wide_abs(Wide x) { return x < 0 ? -x : x; }

static bool frac_make(Wide n, Wide d, Frac *out) {
  if (d == 0) return false;
  Wide a = wide_abs(n), b = wide_abs(d);
  while (b) {
    Wide t = a % b;
    a = b, b = t;
  }
  if (d < 0) a = -a;
  *out = (Frac){n / a, d / a};
  Wide limit = (Wide)1 << 62;
  return wide_abs(out->num) < limit && out->den < limit;
}

static Wide floor_div(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static bool frac_op(Op op, Frac a, Frac b, Frac *out) {
  Frac q;
  switch (op) {
  case ADD: return frac_make(a.num * b.den + b.num * a.den, a.den * b.den, out);
  case SUB: return frac_make(a.num * b.den - b.num * a.den, a.den * b.den, out);
  case MUL: return frac_make(a.num * b.num, a.den * b.den, out);
  case DIV: return b.num != 0 && frac_make(a.num * b.den, a.den * b.num, out);
  case MOD:
    if (!frac_op(DIV, a, b, &q)) return false;
    return frac_make(floor_div(q.num, q.den), 1, &q) && frac_op(MUL, b, q, &q) &&
           frac_op(SUB, a, q, out);
  case XOR: return a.den == 1 && b.den == 1 && frac_make((int64_t)a.num ^ (int64_t)b.num, 1, out);
  case MIN: return *out = a.num * b.den < b.num * a.den ? a : b, true;
  case MAX: return *out = a.num * b.den > b.num * a.den ? a : b, true;
  case LE: return frac_make(a.num * b.den <= b.num * a.den, 1, out);
  case LT: return frac_make(a.num * b.den < b.num * a.den, 1, out);
  case EQ: return frac_make(a.num * b.den == b.num * a.den, 1, out);
  case NE: return frac_make(a.num * b.den != b.num * a.den, 1, out);
  default: return false;
  }
}

static bool evaluate(const Tree *t, const int64_t *point, Frac *out);

/* False & undefined is False, True | undefined is True. */
static bool evaluate_junction(const Tree *t, const int64_t *point, Frac *out) {
  Frac a, b;
  bool absorbing = t->op == OR;
  bool ok_a = evaluate(t->kid[0], point, &a), ok_b = evaluate(t->kid[1], point, &b);
  if (ok_a && (a.num != 0) == absorbing) return *out = (Frac){absorbing, 1}, true;
  if (ok_b && (b.num != 0) == absorbing) return *out = (Frac){absorbing, 1}, true;
  *out = (Frac){!absorbing, 1};
  return ok_a && ok_b;
}

static bool evaluate(const Tree *t, const int64_t *point, Frac *out) {
  Frac a, b;
  switch (t->op) {
  case CONST: return *out = (Frac){t->value, 1}, true;
  case VAR: return *out = (Frac){point[t->value], 1}, true;
  case AND:
  case OR: return evaluate_junction(t, point, out);
  case NOT: return evaluate(t->kid[0], point, &a) && (*out = (Frac){a.num == 0, 1}, true);
  case SELECT: return evaluate(t->kid[0], point, &a) && evaluate(t->kid[a.num ? 1 : 2], point, out);
  case FLOOR:
    return evaluate(t->kid[0], point, &a) && (*out = (Frac){floor_div(a.num, a.den), 1}, true);
  case CEIL:
    return evaluate(t->kid[0], point, &a) && (*out = (Frac){-floor_div(-a.num, a.den), 1}, true);
  case POW:
    if (!evaluate(t->kid[0], point, &a)) return false;
    *out = (Frac){1, 1};
    for (int64_t i = 0; i < t->value; i++)
      if (!frac_op(MUL, *out, a, out)) return false;
    return true;
  default:
    return evaluate(t->kid[0], point, &a) && evaluate(t->kid[1], point, &b) &&
           frac_op(t->op, a, b, out);
  }
}

/* ---- making trees */

static Tree *node(Arena *a, Op op, Tree *x, Tree *y, Tree *z) {
  Tree *t = ARENA_NEW(a, Tree);
  *t = (Tree){.op = op, .kid = {x, y, z}};
  return t;
}

static Tree *leaf(Arena *a, Op op, int64_t value) {
  Tree *t = node(a, op, NULL, NULL, NULL);
  t->value = value;
  return t;
}

static const int nice[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 64, 100, 128, 255, 256};

static Tree *make_const(Arena *a, Rng *r) {
  int v = rng_pick(r, nice, (int)WV_LEN(nice));
  return leaf(a, CONST, rng_below(r, 5) == 0 ? -v : v);
}

static Tree *make_leaf(Arena *a, Rng *r) {
  return rng_below(r, 4) == 0 ? make_const(a, r) : leaf(a, VAR, rng_below(r, VARS));
}

static Tree *make_bool(Arena *a, Rng *r, int depth);

static Tree *make_num(Arena *a, Rng *r, int depth) {
  if (depth == 0) return make_leaf(a, r);
  int roll = rng_below(r, 100);
  Tree *x = make_num(a, r, depth - 1);
  if (roll < 14) return node(a, ADD, x, make_num(a, r, depth - 1), NULL);
  if (roll < 24) return node(a, SUB, x, make_num(a, r, depth - 1), NULL);
  if (roll < 36)
    return node(a, MUL, x, rng_below(r, 3) ? make_const(a, r) : make_num(a, r, depth - 1), NULL);
  if (roll < 56) {
    Tree *d =
        rng_below(r, 4) ? leaf(a, CONST, rng_pick(r, nice, (int)WV_LEN(nice))) : make_leaf(a, r);
    Tree *q = node(a, DIV, x, d, NULL);
    return rng_below(r, 8) ? node(a, rng_below(r, 3) ? FLOOR : CEIL, q, NULL, NULL) : q;
  }
  if (roll < 74) return node(a, MOD, x, rng_below(r, 4) ? make_const(a, r) : make_leaf(a, r), NULL);
  if (roll < 79) return node(a, MIN, x, make_num(a, r, depth - 1), NULL);
  if (roll < 84) return node(a, MAX, x, make_num(a, r, depth - 1), NULL);
  if (roll < 89)
    return node(a, XOR, node(a, FLOOR, x, NULL, NULL),
                node(a, FLOOR, make_num(a, r, depth - 1), NULL, NULL), NULL);
  if (roll < 97) return node(a, SELECT, make_bool(a, r, depth - 1), x, make_num(a, r, depth - 1));
  Tree *p = node(a, POW, x, NULL, NULL);
  p->value = 2;
  return p;
}

static Tree *make_bool(Arena *a, Rng *r, int depth) {
  int roll = rng_below(r, 100), below = depth > 0 ? depth - 1 : 0;
  if (depth > 0 && roll < 15)
    return node(a, AND, make_bool(a, r, below), make_bool(a, r, below), NULL);
  if (depth > 0 && roll < 30)
    return node(a, OR, make_bool(a, r, below), make_bool(a, r, below), NULL);
  if (depth > 0 && roll < 36) return node(a, NOT, make_bool(a, r, below), NULL, NULL);
  Op op = (Op)(LE + rng_below(r, 4));
  return node(a, op, make_num(a, r, below),
              rng_below(r, 2) ? make_const(a, r) : make_num(a, r, below), NULL);
}

/* ---- trees through the constructors */

static const Sym *build(SymCtx *cx, const Tree *t) {
  const Sym *a = t->kid[0] ? build(cx, t->kid[0]) : NULL,
            *b = t->kid[1] ? build(cx, t->kid[1]) : NULL;
  switch (t->op) {
  case CONST: return sym_int(cx, t->value);
  case VAR: return sym_symbol(cx, var_name[t->value], var_nonneg[t->value]);
  case ADD: return sym_add(cx, a, b);
  case SUB: return sym_sub(cx, a, b);
  case MUL: return sym_mul(cx, a, b);
  case DIV: return sym_div(cx, a, b);
  case FLOOR: return sym_floor(cx, a);
  case CEIL: return sym_ceil(cx, a);
  case MOD: return sym_mod(cx, a, b);
  case MIN: return sym_min(cx, a, b);
  case MAX: return sym_max(cx, a, b);
  case XOR: return sym_xor(cx, a, b);
  case SELECT: return sym_select(cx, a, b, build(cx, t->kid[2]));
  case POW: return sym_pow(cx, a, t->value);
  case LE: return sym_le(cx, a, b);
  case LT: return sym_lt(cx, a, b);
  case EQ: return sym_eq(cx, a, b);
  case NE: return sym_ne(cx, a, b);
  case AND: return sym_and(cx, a, b);
  case OR: return sym_or(cx, a, b);
  case NOT: return sym_not(cx, a);
  }
  return NULL;
}

/* ---- facts and points */

typedef struct Case {
  Rng *rng;
  Arena *arena;
  SymCtx *cx;
  SymFacts *facts;
  Tree *fact[MAX_FACTS];
  int nfacts;
  const Sym *var[VARS];
  int64_t point[POINTS][VARS];
  int npoints;
  uint64_t seed;
  const Sym *expr;
  bool failed;
  long long compared;
} Case;

static void add_fact(Case *c, Tree *t) {
  if (c->nfacts < MAX_FACTS) c->fact[c->nfacts++] = t;
}

static Tree *var(Case *c, int i) { return leaf(c->arena, VAR, i); }
static Tree *lit(Case *c, int64_t v) { return leaf(c->arena, CONST, v); }

static void make_facts(Case *c) {
  Arena *a = c->arena;
  Rng *r = c->rng;
  static const int sizes[] = {4, 16, 64, 128, 256};
  if (rng_below(r, 4)) add_fact(c, node(a, LT, var(c, 0), lit(c, rng_pick(r, sizes, 5)), NULL));
  if (rng_below(r, 2)) add_fact(c, node(a, LE, lit(c, 1), var(c, 1), NULL));
  if (rng_below(r, 2)) {
    int v = rng_below(r, VARS);
    int64_t m = rng_pick(r, nice, (int)WV_LEN(nice)),
            rest = rng_below(r, 3) ? 0 : rng_below(r, (int)m);
    add_fact(c, node(a, EQ, node(a, MOD, var(c, v), lit(c, m), NULL), lit(c, rest), NULL));
  }
  if (rng_below(r, 2)) add_fact(c, node(a, LT, var(c, 2), var(c, 3), NULL));
  if (rng_below(r, 3) == 0)
    add_fact(c, node(a, LE, var(c, rng_below(r, VARS)), var(c, rng_below(r, VARS)), NULL));
  if (rng_below(r, 3) == 0) add_fact(c, node(a, LE, lit(c, -5), var(c, 4), NULL));
  if (rng_below(r, 3) == 0) add_fact(c, make_bool(a, r, 1 + rng_below(r, 2)));
}

static int64_t random_value(Rng *r, bool nonneg) {
  int64_t v;
  switch (rng_below(r, 4)) {
  case 0: v = rng_below(r, 4); break;
  case 1: v = rng_below(r, 300); break;
  case 2: v = (int64_t)rng_pick(r, nice, (int)WV_LEN(nice)) * rng_below(r, 40); break;
  default: v = rng_below(r, 2000); break;
  }
  return nonneg || rng_below(r, 2) ? v : -v;
}

static bool satisfies(const Case *c, const int64_t *point) {
  for (int i = 0; i < c->nfacts; i++) {
    Frac v;
    if (!evaluate(c->fact[i], point, &v) || v.num == 0) return false;
  }
  return true;
}

static void make_points(Case *c) {
  for (int tries = 0; tries < 400 && c->npoints < POINTS; tries++) {
    int64_t *p = c->point[c->npoints];
    for (int v = 0; v < VARS; v++) p[v] = random_value(c->rng, var_nonneg[v]);
    if (satisfies(c, p)) c->npoints++;
  }
}

/* ---- reporting */

static void report(Case *c, const char *what, const Sym *got, const int64_t *point) {
  Arena *a = c->arena;
  c->failed = true;
  printf("FAILED %s (seed %llu)\n  expression  %s\n", what, (unsigned long long)c->seed,
         sym_text(a, c->expr));
  if (got) printf("  became      %s\n", sym_text(a, got));
  for (int i = 0; i < c->nfacts; i++)
    printf("  fact        %s\n", sym_text(a, build(c->cx, c->fact[i])));
  if (!point) return;
  printf("  point      ");
  for (int v = 0; v < VARS; v++) printf(" %s=%lld", var_name[v], (long long)point[v]);
  printf("\n");
}

static bool eval_at(Case *c, const Sym *s, const int64_t *point, int64_t *out) {
  SymBinding env[VARS];
  for (int v = 0; v < VARS; v++) env[v] = (SymBinding){c->var[v], sym_int(c->cx, point[v])};
  return sym_eval(s, env, VARS, out);
}

/* The value of s by this file's arithmetic, only from its operands. Overflow of Frac is
 * distinguished from a division by zero. */
typedef enum Outcome { DEFINED, UNDEFINED, TOO_LARGE } Outcome;

static Outcome walk(Case *c, const Sym *s, const int64_t *point, Frac *out);

static Outcome walk_junction(Case *c, const Sym *s, const int64_t *point, Frac *out) {
  bool absorbing = sym_kind(s) == SYM_or;
  Outcome all = DEFINED;
  for (int i = 0; i < sym_nargs(s); i++) {
    Frac v;
    Outcome o = walk(c, sym_arg(c->cx, s, i), point, &v);
    if (o == DEFINED && (v.num != 0) == absorbing) return *out = v, DEFINED;
    if (o > all) all = o;
  }
  return *out = (Frac){!absorbing, 1}, all;
}

static Outcome walk_fold(Case *c, const Sym *s, Op op, const int64_t *point, Frac *out) {
  Frac b;
  Outcome o = walk(c, sym_arg(c->cx, s, 0), point, out);
  for (int i = 1; i < sym_nargs(s) && o == DEFINED; i++) {
    o = walk(c, sym_arg(c->cx, s, i), point, &b);
    bool zero = (op == MOD && b.num == 0) || (op == XOR && (b.den != 1 || out->den != 1));
    if (o == DEFINED && zero) return UNDEFINED;
    if (o == DEFINED && !frac_op(op, *out, b, out)) o = TOO_LARGE;
  }
  return o;
}

static Outcome walk_pow(Case *c, const Sym *s, const int64_t *point, Frac *out) {
  Frac b;
  int64_t e;
  sym_is_int(sym_arg(c->cx, s, 1), &e);
  Outcome o = walk(c, sym_arg(c->cx, s, 0), point, &b);
  *out = (Frac){1, 1};
  if (o == DEFINED && e < 0 && b.num == 0) return UNDEFINED;
  for (int64_t i = 0; i < (e < 0 ? -e : e) && o == DEFINED; i++)
    if (!frac_op(e < 0 ? DIV : MUL, *out, b, out)) o = TOO_LARGE;
  return o;
}

static Outcome walk(Case *c, const Sym *s, const int64_t *point, Frac *out) {
  static const Op ops[SYM_COUNT] = {
      [SYM_add] = ADD, [SYM_mul] = MUL, [SYM_mod] = MOD, [SYM_xor] = XOR, [SYM_min] = MIN,
      [SYM_max] = MAX, [SYM_le] = LE,   [SYM_lt] = LT,   [SYM_eq] = EQ,   [SYM_ne] = NE};
  int64_t n = 0, d = 1;
  Frac a;
  Outcome o;
  switch (sym_kind(s)) {
  case SYM_symbol:
    for (int v = 0; v < VARS; v++)
      if (c->var[v] == s) *out = (Frac){point[v], 1};
    return DEFINED;
  case SYM_int:
  case SYM_rational: sym_is_rational(s, &n, &d); return *out = (Frac){n, d}, DEFINED;
  case SYM_bool: return *out = (Frac){s == sym_bool(c->cx, true), 1}, DEFINED;
  case SYM_pow: return walk_pow(c, s, point, out);
  case SYM_floor:
  case SYM_ceil:
    o = walk(c, sym_arg(c->cx, s, 0), point, &a);
    if (o == DEFINED)
      *out =
          (Frac){sym_kind(s) == SYM_floor ? floor_div(a.num, a.den) : -floor_div(-a.num, a.den), 1};
    return o;
  case SYM_select:
    o = walk(c, sym_arg(c->cx, s, 0), point, &a);
    return o == DEFINED ? walk(c, sym_arg(c->cx, s, a.num ? 1 : 2), point, out) : o;
  case SYM_and:
  case SYM_or: return walk_junction(c, s, point, out);
  default: return walk_fold(c, s, ops[sym_kind(s)], point, out);
  }
}

/* ---- checks */

/* If the oracle has a value, s must have the same, and so must sym_eval if it has one. */
static void check_values(Case *c, const Tree *t, const Sym *s, const char *what) {
  for (int i = 0; i < c->npoints && !c->failed; i++) {
    Frac want, have;
    int64_t got;
    if (!evaluate(t, c->point[i], &want)) continue;
    Outcome o = walk(c, s, c->point[i], &have);
    if (o == TOO_LARGE) continue;
    if (o == UNDEFINED || have.num != want.num || have.den != want.den)
      report(c, what, s, c->point[i]);
    bool ok = eval_at(c, s, c->point[i], &got);
    if (ok ? want.den != 1 || got != want.num : want.den == 1)
      report(c, "sym_eval", s, c->point[i]);
    c->compared++;
  }
}

static void check_text(Case *c, const Sym *s) {
  const char *text = sym_text(c->arena, s);
  const Sym *back = sym_parse(c->cx, text, strlen(text), NULL);
  if (back != s) report(c, "print and parse", back ? back : s, NULL);
}

static void check_rebuild(Case *c, const Sym *s) {
  int n = sym_nargs(s);
  if (n == 0) return;
  const Sym **args = ARENA_ARRAY(c->arena, const Sym *, n);
  for (int i = 0; i < n; i++) args[i] = sym_arg(c->cx, s, i);
  const Sym *back = sym_build(c->cx, sym_kind(s), args, n);
  if (back != s) report(c, "rebuilding from operands", back ? back : s, NULL);
}

static void check_simplify(Case *c, const Tree *t, const Sym *s) {
  const Sym *r = sym_simplify(c->cx, c->facts, s);
  check_values(c, t, r, "simplify");
  if (sym_size(r) > sym_size(s)) report(c, "simplify made it larger", r, NULL);
  const Sym *again = sym_simplify(c->cx, c->facts, r);
  if (again != r) report(c, "simplify is not idempotent", again, NULL);
  check_text(c, r);
}

static void check_bounds(Case *c, const Tree *t, const Sym *s) {
  SymRange range = sym_range(c->cx, c->facts, s);
  int64_t d, r;
  sym_congruence(c->cx, c->facts, s, &d, &r);
  for (int i = 0; i < c->npoints; i++) {
    Frac v;
    if (!evaluate(t, c->point[i], &v)) continue;
    Wide lo = floor_div(v.num, v.den), hi = -floor_div(-v.num, v.den);
    if ((range.lo != SYM_MIN_INF && hi < range.lo) || (range.hi != SYM_MAX_INF && lo > range.hi))
      report(c, "range", NULL, c->point[i]);
    if (v.den != 1) continue;
    bool in = d == 0 ? v.num == r : (v.num - r) % d == 0;
    if (!in) report(c, "congruence", NULL, c->point[i]);
    if (c->failed) return;
  }
}

static void check_prove(Case *c, const Tree *t, const Sym *s) {
  SymTruth truth = sym_prove(c->cx, c->facts, s);
  for (int i = 0; i < c->npoints && truth != SYM_UNKNOWN && !c->failed; i++) {
    Frac v;
    if (evaluate(t, c->point[i], &v) && (v.num != 0) != (truth == SYM_ALWAYS))
      report(c, "prove", NULL, c->point[i]);
  }
}

static void check_linear(Case *c, const Tree *t, const Sym *s) {
  const Sym *coeff[VARS], *rest;
  int n = 1 + rng_below(c->rng, VARS);
  if (!sym_linear(c->cx, s, c->var, n, coeff, &rest)) return;
  const Sym *sum = rest;
  for (int i = 0; i < n; i++) {
    sum = sym_add(c->cx, sum, sym_mul(c->cx, coeff[i], c->var[i]));
    for (int j = 0; j < n; j++)
      if (sym_contains(coeff[i], c->var[j]) || sym_contains(rest, c->var[j]))
        report(c, "linear: not free of the symbols", sum, NULL);
  }
  if (sum) check_values(c, t, sum, "linear");
}

static void check_subst(Case *c, const Tree *t, const Sym *s) {
  Tree *with = make_num(c->arena, c->rng, 1);
  int v = rng_below(c->rng, VARS);
  SymBinding b = {c->var[v], build(c->cx, with)};
  if (!b.to || !sym_is_integer(b.to)) return;
  const Sym *r = sym_subst(c->cx, s, &b, 1);
  for (int i = 0; r && i < c->npoints && !c->failed; i++) {
    Frac x, want, have;
    int64_t point[VARS], got;
    memcpy(point, c->point[i], sizeof point);
    if (!evaluate(with, c->point[i], &x) || (var_nonneg[v] && x.num < 0)) continue;
    point[v] = (int64_t)x.num;
    if (!evaluate(t, point, &want) || want.den != 1) continue;
    if (walk(c, r, c->point[i], &have) == TOO_LARGE) continue; /* on the way to the value */
    if (!eval_at(c, r, c->point[i], &got) || got != want.num)
      report(c, "substitution", r, c->point[i]);
  }
}

static void check_program(Case *c, const Tree *t, const Sym *s) {
  SymProgram *p = sym_compile(c->arena, c->cx, &s, 1, c->var, VARS);
  if (!p) return;
  int64_t *slots = ARENA_ARRAY(c->arena, int64_t, sym_program_slots(p)), got;
  for (int i = 0; i < c->npoints && !c->failed; i++) {
    Frac want;
    bool ok = sym_run(p, c->point[i], slots, &got);
    if (!evaluate(t, c->point[i], &want)) continue;
    /* A program may overflow in a cross product even if the fraction itself does not. */
    if (ok && (want.den != 1 || got != want.num)) report(c, "compiled program", s, c->point[i]);
  }
}

/* ---- an interpreter of SymCode */

/* False: too large, which a launch reports. An expression without a value is not used: 0 will
 * do. */
static bool launch_value(Case *c, const SymOp *op, const int64_t *point, Wide *out) {
  int64_t v;
  Frac exact;
  *out = 0;
  if (walk(c, op->sym, point, &exact) == TOO_LARGE) return false;
  if (!eval_at(c, op->sym, point, &v)) return true;
  int shift = 0;
  while (((Wide)1 << shift) < v) shift++;
  if (op->kind == SYM_OP_launch) *out = v;
  else if (op->kind == SYM_OP_shift) *out = shift;
  else if (v > 0) *out = -floor_div(-((Wide)1 << (32 + shift)), v) - ((Wide)1 << 32);
  return true;
}

/* False: a division by zero or a value beyond 64 bits, which the machine would wrap. */
static bool run_op(Case *c, const SymOp *op, const Wide *v, const int64_t *point, Wide *out) {
  Wide a = v[op->a], b = v[op->b], x = v[op->c], r = 0;
  switch (op->kind) {
  case SYM_OP_const: r = op->value; break;
  case SYM_OP_symbol:
    for (int i = 0; i < VARS; i++)
      if (c->var[i] == op->sym) r = point[i];
    break;
  case SYM_OP_launch:
  case SYM_OP_magic:
  case SYM_OP_shift:
    if (!launch_value(c, op, point, &r)) return false;
    break;
  case SYM_OP_add: r = a + b; break;
  case SYM_OP_sub: r = a - b; break;
  case SYM_OP_mul: r = a * b; break;
  case SYM_OP_shl: r = a * ((Wide)1 << b); break;
  case SYM_OP_shr: r = floor_div(a, (Wide)1 << b); break;
  case SYM_OP_and: r = (int64_t)a & (int64_t)b; break;
  case SYM_OP_or: r = (int64_t)a | (int64_t)b; break;
  case SYM_OP_xor: r = (int64_t)a ^ (int64_t)b; break;
  case SYM_OP_div:
  case SYM_OP_rem:
    if (b <= 0) return report(c, "lowering: a divisor that is not positive", NULL, point), false;
    r = op->kind == SYM_OP_div ? floor_div(a, b) : a - b * floor_div(a, b);
    break;
  case SYM_OP_divmagic: r = ((a * b >> 32) + a) >> x; break;
  case SYM_OP_min: r = a < b ? a : b; break;
  case SYM_OP_max: r = a > b ? a : b; break;
  case SYM_OP_lt: r = a < b; break;
  case SYM_OP_le: r = a <= b; break;
  case SYM_OP_eq: r = a == b; break;
  case SYM_OP_ne: r = a != b; break;
  case SYM_OP_select: r = a ? b : x; break;
  case SYM_OP_COUNT: break;
  }
  *out = r;
  return wide_abs(r) < (Wide)1 << 62;
}

static void check_lower(Case *c, const Tree *t, const Sym *s) {
  int uniform = rng_below(c->rng, 2) ? 2 : 0;
  const Sym *launch[2] = {c->var[1], c->var[3]};
  SymCode *code = sym_code_launch(c->arena, c->cx, c->facts, &s, 1, launch, uniform);
  if (!code && !strstr(sym_error(c->cx), "64 bits") && !strstr(sym_error(c->cx), "too large"))
    report(c, sym_error(c->cx), s, NULL);
  if (!code) return;
  Wide *v = ARENA_ARRAY(c->arena, Wide, code->nops);
  for (int i = 0; i < c->npoints && !c->failed; i++) {
    Frac want;
    if (!evaluate(t, c->point[i], &want) || want.den != 1) continue;
    bool ok = true;
    for (int k = 0; k < code->nops && ok; k++) ok = run_op(c, &code->ops[k], v, c->point[i], &v[k]);
    if (!ok) continue;
    int r = code->results[0];
    if (v[r] != want.num) report(c, "lowering", s, c->point[i]);
    if (code->ops[r].bits == 32 && (v[r] > INT32_MAX || v[r] < INT32_MIN))
      report(c, "lowering: not 32 bits", s, c->point[i]);
  }
}

/* The low 32 bits of what it computes are still right. */
static void check_narrow(Case *c, const Tree *t, const Sym *s) {
  SymCode *code = sym_code(c->arena, c->cx, c->facts, &s, 1);
  if (!code) return;
  sym_narrow(c->arena, code);
  Wide *v = ARENA_ARRAY(c->arena, Wide, code->nops);
  for (int i = 0; i < c->npoints && !c->failed; i++) {
    Frac want;
    if (!evaluate(t, c->point[i], &want) || want.den != 1) continue;
    bool ok = true;
    for (int k = 0; k < code->nops && ok; k++) {
      const SymOp *op = &code->ops[k];
      ok = run_op(c, op, v, c->point[i], &v[k]);
      bool given = op->kind == SYM_OP_const || op->kind == SYM_OP_symbol;
      if (op->bits == 32 && !given) v[k] = (int32_t)(uint32_t)v[k];
    }
    if (ok && (uint32_t)v[code->results[0]] != (uint32_t)want.num)
      report(c, "narrowing", s, c->point[i]);
  }
}

/* ---- one case */

static void check_number(Case *c) {
  Tree *t = make_num(c->arena, c->rng, 1 + rng_below(c->rng, 4));
  const Sym *s = c->expr = build(c->cx, t);
  if (!s) return;
  check_values(c, t, s, "constructors");
  check_text(c, s);
  check_rebuild(c, s);
  check_simplify(c, t, s);
  if (c->failed) return;
  switch (rng_below(c->rng, 5)) {
  case 0: check_bounds(c, t, s); break;
  case 1: check_linear(c, t, s); break;
  case 2: check_subst(c, t, s); break;
  case 3: check_program(c, t, s); break;
  default:
    check_lower(c, t, sym_simplify(c->cx, c->facts, s));
    if (!c->failed) check_narrow(c, t, s);
    break;
  }
}

static void check_condition(Case *c) {
  Tree *t = make_bool(c->arena, c->rng, 1 + rng_below(c->rng, 3));
  const Sym *s = c->expr = build(c->cx, t);
  if (!s) return;
  check_values(c, t, s, "constructors");
  check_text(c, s);
  check_simplify(c, t, s);
  if (!c->failed) check_prove(c, t, s);
  if (!c->failed) check_program(c, t, s);
  if (!c->failed) check_lower(c, t, s);
}

/* A context is used for many expressions, as in a compile; facts change now and then. */
static bool run_group(uint64_t seed, int count, long long *compared) {
  Rng rng = {seed};
  Case c = {.rng = &rng, .arena = arena_new(), .cx = sym_ctx_new(), .seed = seed};
  for (int v = 0; v < VARS; v++) c.var[v] = sym_symbol(c.cx, var_name[v], var_nonneg[v]);
  make_facts(&c);
  make_points(&c);
  c.facts = sym_facts_new(c.arena, c.cx, NULL);
  for (int i = 0; i < c.nfacts; i++) {
    c.expr = build(c.cx, c.fact[i]);
    if (c.expr && !sym_assume(c.facts, c.expr) && c.npoints)
      report(&c, "facts that hold somewhere contradict", NULL, c.point[0]);
  }
  for (int i = 0; i < count && !c.failed; i++) {
    if (rng_below(&rng, 4)) check_number(&c);
    else check_condition(&c);
  }
  sym_ctx_free(c.cx);
  arena_free(c.arena);
  *compared += c.compared;
  return !c.failed;
}

enum { GROUP = 20 };

int main(int argc, char **argv) {
  uint64_t seed = 1;
  long long count = 30000, done = 0, compared = 0;
  double seconds = 1e9;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[i + 1], NULL, 10);
    if (!strcmp(argv[i], "--count")) count = atoll(argv[i + 1]);
    if (!strcmp(argv[i], "--seconds")) seconds = atof(argv[i + 1]), count = INT64_MAX;
  }
  double start = os_seconds();
  int failed = 0;
  for (int n; done < count && os_seconds() - start < seconds && failed < 10; done += n) {
    n = count - done < GROUP ? (int)(count - done) : GROUP;
    failed += !run_group(seed++, n, &compared);
    if (done % 100000 == 0)
      fprintf(stderr, "fuzz_sym: %lld expressions, %lld values, %d failed\n", done, compared,
              failed);
  }
  printf("%lld passed, %d failed\n", done, failed);
  return failed != 0;
}
