/* program.c: compiled evaluators.
 *
 * An expression becomes a straight-line program of checked 64-bit operations over slots. A value
 * that may be a fraction takes a pair of slots (numerator, positive denominator), so that nothing
 * is rounded before a floor. Each slot has an "undefined" flag (overflow, division by zero), which
 * propagates through operations but not out of a select branch that is not taken: the program
 * computes both branches and still agrees with sym_eval. A box is evaluated a hundred points at a
 * time. */
#include <string.h>

#include "base/host_steps.h"
#include "sym/node.h"

struct SymProgram {
  const HostStep *code;
  int n;
  const int *results;
  int nresults;
};

/* den < 0: the value is an integer. */
typedef struct Pair {
  int num, den;
} Pair;

typedef struct Compiler {
  Arena *arena; /* of the program */
  Arena *scratch;
  const Sym *const *vars;
  int nvars;
  Vec(HostStep) code;
  Map pairs;  /* expression -> Pair */
  Map instrs; /* hash of an instruction -> index + 1 */
  bool unbound;
} Compiler;

/* ---- emitting */

static int emit(Compiler *c, HostStep in) {
  uint64_t h = hash_mix((uint64_t)in.kind << 32 | (uint32_t)in.a,
                        (uint64_t)(uint32_t)in.b << 32 | (uint32_t)in.c);
  h = hash_mix(h, (uint64_t)in.value) | 1;
  uintptr_t at = (uintptr_t)map_get(&c->instrs, h);
  if (at && !memcmp(&c->code.at[at - 1], &in, sizeof in)) return (int)at - 1;
  vec_push(c->scratch, &c->code, in);
  map_set(c->scratch, &c->instrs, h, (void *)(uintptr_t)c->code.n);
  return c->code.n - 1;
}

static HostStep instr(HostStepKind kind, int a, int b, int c, int64_t value) {
  HostStep in;
  memset(&in, 0, sizeof in); /* padding too: instructions are compared as bytes */
  in.kind = kind, in.a = a, in.b = b, in.c = c, in.value = value;
  return in;
}

static int emit2(Compiler *c, HostStepKind kind, int a, int b) {
  return emit(c, instr(kind, a, b, 0, 0));
}
static int emit1(Compiler *c, HostStepKind kind, int a) { return emit(c, instr(kind, a, 0, 0, 0)); }
static int constant(Compiler *c, int64_t v) { return emit(c, instr(HOST_CONST, 0, 0, 0, v)); }

static int times(Compiler *c, int a, int b) {
  const HostStep *x = &c->code.at[a], *y = &c->code.at[b];
  if (x->kind == HOST_CONST && x->value == 1) return b;
  if (y->kind == HOST_CONST && y->value == 1) return a;
  return emit2(c, HOST_MUL, a, b);
}

/* The exponent of a constant power of two in slot b, or -1. */
static int log2_of(const Compiler *c, int b) {
  int64_t v = c->code.at[b].value;
  if (c->code.at[b].kind != HOST_CONST || v <= 0 || (v & (v - 1))) return -1;
  int n = 0;
  while (v >> n > 1) n++;
  return n;
}

static int quotient(Compiler *c, int a, int b) {
  int n = log2_of(c, b);
  return n >= 0 ? emit(c, instr(HOST_SHIFT, a, 0, 0, n)) : emit2(c, HOST_FLOORDIV, a, b);
}

static int remainder_of(Compiler *c, int a, int b) {
  int n = log2_of(c, b);
  if (n >= 0) return emit(c, instr(HOST_MASK, a, 0, 0, (INT64_C(1) << n) - 1));
  return emit2(c, HOST_MOD, a, b);
}

static int den_of(Compiler *c, Pair p) { return p.den < 0 ? constant(c, 1) : p.den; }

static Pair reduce_den(Compiler *c, Pair p) {
  if (p.den >= 0 && c->code.at[p.den].kind == HOST_CONST && c->code.at[p.den].value == 1)
    p.den = -1;
  return p;
}

static Pair pair_mul(Compiler *c, Pair a, Pair b) {
  Pair p = {times(c, a.num, b.num), -1};
  p.den = a.den < 0 ? b.den : b.den < 0 ? a.den : times(c, a.den, b.den);
  return p;
}

static Pair pair_add(Compiler *c, Pair a, Pair b) {
  if (a.den == b.den) return (Pair){emit2(c, HOST_ADD, a.num, b.num), a.den};
  int x = b.den < 0 ? a.num : times(c, a.num, b.den),
      y = a.den < 0 ? b.num : times(c, b.num, a.den);
  int den = a.den < 0 ? b.den : b.den < 0 ? a.den : times(c, a.den, b.den);
  return (Pair){emit2(c, HOST_ADD, x, y), den};
}

static Pair pair_const(Compiler *c, Rat v) {
  return (Pair){constant(c, v.num), v.den == 1 ? -1 : constant(c, v.den)};
}

/* 1 / p: the sign moves to the numerator. */
static Pair pair_inverse(Compiler *c, Pair p) {
  int num = times(c, den_of(c, p), emit1(c, HOST_SIGN, p.num));
  return (Pair){num, emit1(c, HOST_ABS, p.num)};
}

static int whole(Compiler *c, Pair p) {
  return p.den < 0 ? p.num : emit2(c, HOST_EXACT, p.num, p.den);
}

/* ---- expressions */

static Pair compile(Compiler *c, const Sym *s);

/* Terms over one integer denominator are summed before anything else. */
static Pair compile_add(Compiler *c, const Sym *s) {
  Sum sum;
  int64_t den, k;
  sum_of(s, &sum);
  if (!sum_denominator(&sum, &den) || !int_lcm(den, s->k.den, &den)) den = 0;
  if (!den) return c->unbound = true, (Pair){constant(c, 0), -1};
  Pair all = {-1, -1};
  for (int i = 0; i < s->n; i++) {
    Pair t = compile(c, s->term[i].base);
    Rat scaled;
    if (!rat_mul(s->term[i].coeff, rat_int(den), &scaled)) c->unbound = true, scaled = RAT_ZERO;
    t.num = times(c, t.num, constant(c, scaled.num));
    all = all.num < 0 ? t : pair_add(c, all, t);
  }
  if (s->k.num && !__builtin_mul_overflow(s->k.num, den / s->k.den, &k))
    all = pair_add(c, all, (Pair){constant(c, k), -1});
  else if (s->k.num) c->unbound = true;
  if (den == 1) return all;
  all.den = all.den < 0 ? constant(c, den) : times(c, all.den, constant(c, den));
  return all;
}

static Pair compile_mul(Compiler *c, const Sym *s) {
  Pair all = pair_const(c, s->kind == SYM_mul ? s->k : RAT_ONE);
  for (int i = 0; i < s->n; i++) {
    Pair f = compile(c, s->factor[i].base);
    int64_t e = s->factor[i].exp;
    if (e < 0) f = pair_inverse(c, f), e = -e;
    if (e > 64) c->unbound = true, e = 1;
    for (int64_t j = 0; j < e; j++) all = pair_mul(c, all, f);
  }
  return all;
}

/* Mod(a/b, m/d) = Mod(a*d, m*b)/(b*d) */
static Pair compile_mod(Compiler *c, const Sym *s) {
  Pair a = compile(c, s->arg[0]), m = compile(c, s->arg[1]);
  int x = m.den < 0 ? a.num : times(c, a.num, m.den),
      y = a.den < 0 ? m.num : times(c, m.num, a.den);
  int den = a.den < 0 ? m.den : m.den < 0 ? a.den : times(c, a.den, m.den);
  return (Pair){remainder_of(c, x, y), den};
}

static Pair choose(Compiler *c, int cond, Pair yes, Pair no) {
  Pair p = {emit(c, instr(HOST_SELECT, cond, yes.num, no.num, 0)), -1};
  if (yes.den >= 0 || no.den >= 0)
    p.den = emit(c, instr(HOST_SELECT, cond, den_of(c, yes), den_of(c, no), 0));
  return p;
}

static Pair compile_extreme(Compiler *c, const Sym *s) {
  Pair all = compile(c, s->arg[0]);
  for (int i = 1; i < s->n; i++) {
    Pair t = compile(c, s->arg[i]);
    int x = t.den < 0 ? all.num : times(c, all.num, t.den),
        y = all.den < 0 ? t.num : times(c, t.num, all.den);
    int less = emit2(c, HOST_LT, x, y);
    all = s->kind == SYM_min ? choose(c, less, all, t) : choose(c, less, t, all);
    /* Both operands must be defined, whichever is chosen. */
    all.num = emit2(c, HOST_TIE, all.num, less);
  }
  return all;
}

/* Compares the sides as they are: their difference might not fit in 64 bits. */
static Pair compile_order(Compiler *c, const Sym *s) {
  int a = whole(c, compile(c, s->arg[0])), b = whole(c, compile(c, s->arg[1]));
  if (s->kind == SYM_lt) return (Pair){emit2(c, HOST_LT, a, b), -1};
  return (Pair){emit1(c, HOST_EQ0, emit2(c, HOST_LT, b, a)), -1};
}

static Pair compile_compare(Compiler *c, const Sym *s) {
  static const HostStepKind kinds[] = {
      [SYM_le] = HOST_LE0, [SYM_lt] = HOST_LT0, [SYM_eq] = HOST_EQ0, [SYM_ne] = HOST_NE0};
  bool order = s->kind == SYM_le || s->kind == SYM_lt;
  if (order && is_integer(s->base)) return compile_order(c, s);
  Pair d = compile(c, s->base);
  int x = d.den < 0 ? d.num : emit2(c, HOST_TIE, d.num, d.den);
  return (Pair){emit1(c, kinds[cmp_kind(s)], x), -1};
}

static Pair compile_fold(Compiler *c, const Sym *s, HostStepKind kind) {
  int all = whole(c, compile(c, s->arg[0]));
  for (int i = 1; i < s->n; i++) all = emit2(c, kind, all, whole(c, compile(c, s->arg[i])));
  return (Pair){all, -1};
}

static Pair compile_round(Compiler *c, const Sym *s) {
  Pair p = compile(c, s->arg[0]);
  if (p.den < 0) return p;
  if (s->kind == SYM_floor) return (Pair){quotient(c, p.num, p.den), -1};
  int minus = constant(c, -1);
  return (Pair){times(c, quotient(c, times(c, p.num, minus), p.den), minus), -1};
}

static Pair compile_symbol(Compiler *c, const Sym *s) {
  for (int i = 0; i < c->nvars; i++)
    if (c->vars[i] == s) return (Pair){emit(c, instr(HOST_VAR, 0, 0, 0, i)), -1};
  c->unbound = true;
  return (Pair){constant(c, 0), -1};
}

static Pair compile_node(Compiler *c, const Sym *s) {
  switch ((SymKind)s->kind) {
  case SYM_symbol: return compile_symbol(c, s);
  case SYM_int:
  case SYM_rational:
  case SYM_bool: return pair_const(c, s->k);
  case SYM_add: return compile_add(c, s);
  case SYM_mul:
  case SYM_pow: return compile_mul(c, s);
  case SYM_floor:
  case SYM_ceil: return compile_round(c, s);
  case SYM_mod: return compile_mod(c, s);
  case SYM_xor: return compile_fold(c, s, HOST_XOR);
  case SYM_min:
  case SYM_max: return compile_extreme(c, s);
  case SYM_select: {
    int cond = compile(c, s->arg[0]).num;
    return choose(c, cond, compile(c, s->arg[1]), compile(c, s->arg[2]));
  }
  case SYM_le:
  case SYM_lt:
  case SYM_eq:
  case SYM_ne: return compile_compare(c, s);
  case SYM_and: return compile_fold(c, s, HOST_AND);
  case SYM_or: return compile_fold(c, s, HOST_OR);
  case SYM_COUNT: break;
  }
  WV_BUG("unknown kind of expression");
}

static Pair compile(Compiler *c, const Sym *s) {
  Pair *known = map_get(&c->pairs, map_key(s));
  if (known) return *known;
  known = ARENA_NEW(c->scratch, Pair);
  *known = reduce_den(c, compile_node(c, s));
  map_set(c->scratch, &c->pairs, map_key(s), known);
  return *known;
}

SymProgram *sym_compile(Arena *a, SymCtx *cx, const Sym *const *exprs, int nexprs,
                        const Sym *const *vars, int nvars) {
  Compiler c = {.arena = a, .scratch = arena_new(), .vars = vars, .nvars = nvars};
  SymProgram *p = ARENA_NEW(a, SymProgram);
  int *results = ARENA_ARRAY(a, int, nexprs);
  for (int i = 0; i < nexprs; i++) {
    if (!exprs[i]) c.unbound = true;
    else results[i] = whole(&c, compile(&c, exprs[i]));
  }
  p->results = results;
  p->nresults = nexprs;
  p->n = c.code.n;
  p->code = arena_copy(a, c.code.at, sizeof(HostStep) * (size_t)c.code.n);
  arena_free(c.scratch);
  if (!c.unbound) return p;
  sym_fail(cx, "an expression uses a symbol that is not a variable of the program, or a constant "
               "out of range");
  return NULL;
}

/* ---- running */

static int64_t floordiv_checked(int64_t a, int64_t b, int64_t *bad) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return *bad = 1, 0;
  return int_floordiv(a, b);
}

static int64_t mod_checked(int64_t a, int64_t b, int64_t *bad) {
  if (b == 0) return *bad = 1, 0;
  return b == -1 ? 0 : int_mod(a, b);
}

static int64_t exact_checked(int64_t a, int64_t b, int64_t *bad) {
  if (b == 0 || (b == -1 && a == INT64_MIN) || a % b) return *bad = 1, 0;
  return a / b;
}

/* Several points at a time: slot k of point i is v[k*w + i], its flag bad[k*w + i]. */
typedef struct Lanes {
  int64_t *v, *bad;
  const int64_t *vars; /* variable k of point i at k*w + i */
  int w;
} Lanes;

/* Computes r and wrong for every point from its a, b and their flags. */
#define EACH(compute)                                                                              \
  for (int i = 0; i < w; i++) {                                                                    \
    int64_t a = va[i], b = vb[i], wrong = bad_a[i] | bad_b[i], r = 0;                              \
    compute;                                                                                       \
    (void)b;                                                                                       \
    out[i] = r;                                                                                    \
    bad_out[i] = wrong != 0;                                                                       \
  }                                                                                                \
  break

static void step(const HostStep *in, const Lanes *l, int at) {
  const int w = l->w;
  const int64_t *va = l->v + in->a * w, *vb = l->v + in->b * w, *vc = l->v + in->c * w;
  const int64_t *bad_a = l->bad + in->a * w, *bad_b = l->bad + in->b * w,
                *bad_c = l->bad + in->c * w;
  int64_t *out = l->v + at * w, *bad_out = l->bad + at * w;
  switch (in->kind) {
  case HOST_CONST: EACH((void)a; r = in->value; wrong = 0);
  case HOST_VAR: EACH((void)a; r = l->vars[in->value * w + i]; wrong = 0);
  case HOST_ADD: EACH(wrong |= __builtin_add_overflow(a, b, &r));
  case HOST_MUL: EACH(wrong |= __builtin_mul_overflow(a, b, &r));
  case HOST_FLOORDIV: EACH(r = floordiv_checked(a, b, &wrong));
  case HOST_MOD: EACH(r = mod_checked(a, b, &wrong));
  case HOST_SHIFT: EACH(r = a >> in->value; wrong = bad_a[i]);
  case HOST_MASK: EACH(r = a & in->value; wrong = bad_a[i]);
  case HOST_EXACT: EACH(r = exact_checked(a, b, &wrong));
  case HOST_ABS:
    EACH(wrong = bad_a[i] | (a == 0) | (a == INT64_MIN); r = wrong ? 1 : a < 0 ? -a : a);
  case HOST_SIGN: EACH(r = (a > 0) - (a < 0); wrong = bad_a[i]);
  case HOST_TIE: EACH(r = a);
  case HOST_XOR: EACH(r = a ^ b);
  case HOST_LE0: EACH(r = a <= 0; wrong = bad_a[i]);
  case HOST_LT0: EACH(r = a < 0; wrong = bad_a[i]);
  case HOST_EQ0: EACH(r = a == 0; wrong = bad_a[i]);
  case HOST_NE0: EACH(r = a != 0; wrong = bad_a[i]);
  case HOST_LT: EACH(r = a < b);
  case HOST_AND: EACH(if ((!bad_a[i] && !a) || (!bad_b[i] && !b)) wrong = 0; else r = a & b);
  case HOST_OR: EACH(r = (a | b) != 0; if ((!bad_a[i] && a) || (!bad_b[i] && b)) wrong = 0);
  case HOST_SELECT: EACH(r = a ? b : vc[i]; wrong = bad_a[i] | (a ? bad_b[i] : bad_c[i]));
  case HOST_COUNT: break;
  }
}

#undef EACH

int sym_program_slots(const SymProgram *p) { return 2 * p->n; }

const HostStep *sym_program_steps(const SymProgram *p, int *n, const int **results) {
  *n = p->n;
  *results = p->results;
  return p->code;
}

static void run_lanes(const SymProgram *p, const Lanes *l) {
  /* Absent operands refer to slot 0, which the first instruction therefore reads. */
  for (int i = 0; i < l->w && p->n; i++) l->v[i] = l->bad[i] = 0;
  for (int i = 0; i < p->n; i++) step(&p->code[i], l, i);
}

bool sym_run(const SymProgram *p, const int64_t *vars, int64_t *scratch, int64_t *out) {
  Lanes l = {scratch, scratch + p->n, vars, 1};
  bool ok = true;
  run_lanes(p, &l);
  for (int i = 0; i < p->nresults; i++) {
    out[i] = l.v[p->results[i]];
    ok = ok && !l.bad[p->results[i]];
  }
  return ok;
}

SymPoints sym_run_points(const SymProgram *p, int n, const int64_t *vars, int64_t *scratch) {
  Lanes l = {scratch, scratch + (ptrdiff_t)p->n * n, vars, n};
  run_lanes(p, &l);
  ptrdiff_t at = (ptrdiff_t)p->results[0] * n;
  return (SymPoints){l.v + at, l.bad + at};
}
