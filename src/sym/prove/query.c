/* query.c: the queries of sym.h: proofs, ranges, strides, equality.
 *
 * A query is answered by rule if possible. If not, and every symbol in it has a small range, it is
 * answered by evaluating every point of the ranges: an exhaustive check, not a sample. Points
 * excluded by the other facts are skipped. */
#include "sym/prove/facts.h"

static const SymFacts *or_none(const SymCtx *cx, const SymFacts *f) { return f ? f : cx->no_facts; }

/* ---- ranges */

SymRange sym_range(SymCtx *cx, const SymFacts *f, const Sym *s) {
  if (!s) return (SymRange){SYM_MIN_INF, SYM_MAX_INF};
  f = or_none(cx, f);
  const Sym *simple = sym_simplify(cx, f, s), *opposite = sym_neg(cx, simple);
  Dom d = dom_of(f, simple);
  Rat hi = is_bool(s) ? d.hi : sym_upper_bound(f, simple);
  Rat lo = is_bool(s) || !opposite ? d.lo : rat_neg(sym_upper_bound(f, opposite));
  return (SymRange){rat_finite(lo) ? rat_floor(lo) : SYM_MIN_INF,
                    rat_finite(hi) ? rat_ceil(hi) : SYM_MAX_INF};
}

/* The simplified form may contain fractions whose remainders are unknown: floor(q/24) becomes (q -
 * Mod(q, 24))/24. Both forms are queried, and what either one says holds. d = 0: s is the constant
 * *r. */
void sym_congruence(SymCtx *cx, const SymFacts *f, const Sym *s, int64_t *d, int64_t *r) {
  *d = 1, *r = 0;
  if (!s) return;
  f = or_none(cx, f);
  const Sym *forms[] = {sym_simplify(cx, f, s), s};
  for (size_t i = 0; i < WV_LEN(forms) && *d == 1; i++) {
    Dom x = dom_of(f, forms[i]);
    if (dom_is_integer(&x)) *d = x.step.num, *r = x.offset.num;
  }
}

bool sym_divides(SymCtx *cx, const SymFacts *f, int64_t d, const Sym *s) {
  if (!s || d == 0) return false;
  f = or_none(cx, f);
  const Sym *forms[] = {sym_simplify(cx, f, s), s};
  for (size_t i = 0; i < WV_LEN(forms); i++) {
    Dom x = dom_of(f, forms[i]);
    if (dom_is_integer(&x) && x.step.num % d == 0 && x.offset.num % d == 0) return true;
  }
  return false;
}

/* ---- enumeration */

typedef struct Box {
  const Sym *symbol[BOX_SYMBOLS];
  int64_t lo[BOX_SYMBOLS], count[BOX_SYMBOLS], points;
  int64_t
      step[BOX_SYMBOLS]; /* from one point to the next; more than 1: only the ends of the range */
  int n;
} Box;

/* The ranges of all symbols of s; false when one is unbounded or they have too many points. */
static bool box_of(const SymFacts *f, const Sym *s, Box *box) {
  box->n = sym_free_symbols(s, box->symbol, BOX_SYMBOLS);
  box->points = 1;
  if (box->n > BOX_SYMBOLS) return false;
  for (int i = 0; i < box->n; i++) {
    Dom d = dom_of(f, box->symbol[i]);
    if (!rat_finite(d.lo) || !rat_finite(d.hi) || dom_empty(&d)) return false;
    if ((Wide)d.hi.num - d.lo.num >= BOX_POINTS) return false;
    box->lo[i] = d.lo.num, box->step[i] = 1;
    box->count[i] = d.hi.num - d.lo.num + 1;
    box->points *= box->count[i];
    if (box->points > BOX_POINTS) return false;
  }
  return true;
}

/* Whether both sides of a comparison differ by a multiple of the symbol and what does not depend on it. Then it is the
 * same at all values of the symbol if it is at the first and the last one. */
static bool is_monotonic(SymCtx *cx, const Sym *cond, const Sym *symbol) {
  const Sym *coeff, *rest;
  int64_t number;
  return (cond->kind == SYM_lt || cond->kind == SYM_le) &&
         sym_linear(cx, cond->base, &symbol, 1, &coeff, &rest) && sym_is_int(coeff, &number);
}

/* The box with the ends of such ranges only. */
static Box ends_of(SymCtx *cx, const Box *box, const Sym *cond) {
  Box ends = *box;
  for (int i = 0; i < box->n; i++) {
    if (box->count[i] <= 2 || !is_monotonic(cx, cond, box->symbol[i])) continue;
    ends.points = ends.points / box->count[i] * 2;
    ends.step[i] = box->count[i] - 1, ends.count[i] = 2;
  }
  return ends;
}

/* The facts that mention only symbols of the box, as a single condition; without those about ranges of which there are
 * only the ends, unless `all` of them. */
static const Sym *guard(const SymFacts *f, const Box *box, bool all_of_them) {
  SymCtx *cx = f->cx;
  const Sym *all = cx->yes;
  for (; f; f = f->parent) {
    for (int i = 0; i < f->kept.n; i++) {
      const Sym *symbols[BOX_SYMBOLS];
      int n = sym_free_symbols(f->kept.at[i], symbols, BOX_SYMBOLS), inside = 0;
      for (int j = 0; j < n && n <= BOX_SYMBOLS; j++)
        for (int k = 0; k < box->n; k++)
          inside += symbols[j] == box->symbol[k] && (all_of_them || box->step[k] == 1);
      if (inside == n) all = sym_and(cx, all, f->kept.at[i]);
    }
  }
  return all;
}

static void point_at(const Box *box, int64_t number, int64_t *point) {
  for (int v = box->n - 1; v >= 0; number /= box->count[v], v--)
    point[v] = box->lo[v] + number % box->count[v] * box->step[v];
}

/* ---- proofs */

/* What a condition is at some points. */
typedef struct Decision {
  SymTruth truth;
  bool differs; /* it holds at one of them and not at another, or is undefined */
} Decision;

static void decide_point(Decision *d, bool defined, bool holds) {
  SymTruth here = holds ? SYM_ALWAYS : SYM_NEVER;
  d->differs |= !defined || (d->truth != SYM_UNKNOWN && d->truth != here);
  d->truth = here;
}

/* Evaluates a condition at the points of a box where the facts hold. Of a range of which there are only the ends, they
 * decide for all values between them, whatever the facts say about these. False: they do not, but
 * nothing says that the condition is not the same everywhere. */
static bool decide_points(Arena *a, const SymFacts *f, const Sym *cond, const Box *box,
                          SymTruth *truth) {
  Decision some = {SYM_UNKNOWN, false}, any = some;
  const Sym *of[3] = {cond, guard(f, box, true), guard(f, box, false)};
  SymProgram *p = of[1] && of[2] ? sym_compile(a, f->cx, of, 3, box->symbol, box->n) : NULL;
  *truth = SYM_UNKNOWN;
  if (!p) return true;
  int64_t *slots = ARENA_ARRAY(a, int64_t, sym_program_slots(p)), out[3], point[BOX_SYMBOLS];
  for (int64_t i = 0; i < box->points && !some.differs; i++) {
    point_at(box, i, point);
    bool defined = sym_run(p, point, slots, out);
    if (out[1]) decide_point(&some, defined, out[0]);
    if (out[2]) decide_point(&any, defined, out[0]);
  }
  if (!any.differs) *truth = any.truth;
  return some.differs || !any.differs;
}

static SymTruth prove_by_enumeration(const SymFacts *f, const Sym *cond) {
  Box box;
  if (!box_of(f, cond, &box)) return SYM_UNKNOWN;
  Arena *a = arena_new();
  Box ends = ends_of(f->cx, &box, cond);
  SymTruth truth = SYM_UNKNOWN;
  if (!decide_points(a, f, cond, &ends, &truth)) decide_points(a, f, cond, &box, &truth);
  arena_free(a);
  return truth;
}

static SymTruth prove(SymCtx *cx, const SymFacts *f, const Sym *cond) {
  SymTruth t = prove_by_rule(f, cond);
  if (t != SYM_UNKNOWN) return t;
  const Sym *simple = sym_simplify(cx, f, cond);
  if (simple) t = prove_by_rule(f, simple);
  return t != SYM_UNKNOWN ? t : prove_by_enumeration(f, cond);
}

/* The answer is memoised in the facts that know something about the condition's symbols. */
SymTruth sym_prove(SymCtx *cx, const SymFacts *f, const Sym *cond) {
  cond = sym_as_bool(cx, cond);
  if (!cond) return SYM_UNKNOWN;
  f = or_none(cx, f);
  if (f->contradiction || cond->kind == SYM_bool) return prove(cx, f, cond);
  f = facts_about(f, cond);
  const SymTruth *known = map_get(&f->memo->proved, map_key(cond));
  if (known) return *known;
  SymTruth t = prove(cx, f, cond);
  map_set(f->arena, &f->memo->proved, map_key(cond), &cx->truths[t]);
  return t;
}

bool sym_proves(SymCtx *cx, const SymFacts *f, const Sym *cond) {
  return sym_prove(cx, f, cond) == SYM_ALWAYS;
}

SymTruth sym_equal(SymCtx *cx, const SymFacts *f, const Sym *a, const Sym *b) {
  if (!a || !b) return SYM_UNKNOWN;
  if (a == b) return SYM_ALWAYS;
  return sym_prove(cx, f, sym_eq(cx, a, b));
}
