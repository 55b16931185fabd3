/* sym_print.c: expressions as text, in Python's (SymPy's) spelling.
 *
 * The printer never builds expressions, so it needs no context. A sum whose terms share a factor is
 * printed with the factor in front, `K*(a + b)`, or with a common denominator, `(x + y)/4`, when
 * that is shorter; the parser multiplies it out again, so the text still denotes the same node. */
#include <ctype.h>
#include <string.h>

#include "sym/node.h"

/* Binding strength of text; an operand that binds more weakly than its position requires gets
 * parentheses. */
typedef enum Prec { PREC_CMP, PREC_OR, PREC_AND, PREC_SUM, PREC_MUL, PREC_POW, PREC_ATOM } Prec;

static const char *const spelling[SYM_COUNT] = {
#define SYM(name, text, doc) [SYM_##name] = text,
#include "sym/sym.def"
};

static void print(StrBuf *out, const Sym *s, Prec at);

/* ---- names */

static bool is_reserved(const char *name) {
  static const char *const words[] = {"True", "False", "signed", "And", "Or", "Not"};
  for (size_t i = 0; i < WV_LEN(words); i++)
    if (!strcmp(name, words[i])) return true;
  for (int i = 0; i < SYM_COUNT; i++)
    if (spelling[i][0] && spelling[i][0] == *name && !strcmp(name, spelling[i])) return true;
  return false;
}

static bool is_plain_name(const char *s) {
  if (!isalpha((unsigned char)*s) && *s != '_' && *s != '$') return false;
  for (const char *c = s + 1; *c; c++) {
    bool version = *c == '.' && isdigit((unsigned char)c[1]);
    if (!isalnum((unsigned char)*c) && *c != '_' && *c != '$' && !version) return false;
  }
  return !is_reserved(s);
}

static void print_name(StrBuf *out, const char *name) {
  if (is_plain_name(name)) {
    sb_puts(out, name);
    return;
  }
  sb_putc(out, '`');
  for (; *name; name++) {
    if (*name == '`') sb_putc(out, '`');
    sb_putc(out, *name);
  }
  sb_putc(out, '`');
}

/* ---- products */

typedef struct Common {
  Rat coeff; /* > 0 */
  Factor factor[4];
  int n;
} Common;

static int64_t exponent_left(const Common *common, Factor f) {
  for (int i = 0; i < common->n; i++)
    if (common->factor[i].base == f.base) return f.exp - common->factor[i].exp;
  return f.exp;
}

static void print_power(StrBuf *out, const Sym *base, int64_t exp) {
  print(out, base, exp == 1 ? PREC_POW : PREC_ATOM);
  if (exp == 1) return;
  sb_puts(out, "**");
  sb_int(out, exp);
}

/* |coeff| * base / common, without the sign. */
static void print_term(StrBuf *out, Rat coeff, const Sym *base, const Common *common) {
  int n = base ? factor_count(base) : 0, printed = 0, below = 0;
  int64_t top = coeff.num < 0 ? -coeff.num : coeff.num;
  for (int i = 0; i < n; i++) printed += exponent_left(common, factor_at(base, i)) > 0;
  if (top != 1 || !printed) {
    sb_int(out, top);
    if (printed) sb_putc(out, '*');
  }
  for (int i = 0, first = 1; i < n; i++) {
    int64_t e = exponent_left(common, factor_at(base, i));
    if (e <= 0) {
      below += e < 0;
      continue;
    }
    if (!first) sb_putc(out, '*');
    print_power(out, factor_at(base, i).base, e);
    first = 0;
  }
  below += coeff.den != 1;
  if (!below) return;
  sb_puts(out, below > 1 ? "/(" : "/");
  bool first = coeff.den == 1;
  if (!first) sb_int(out, coeff.den);
  for (int i = 0; i < n; i++) {
    int64_t e = exponent_left(common, factor_at(base, i));
    if (e >= 0) continue;
    if (!first) sb_putc(out, '*');
    print_power(out, factor_at(base, i).base, -e);
    first = false;
  }
  if (below > 1) sb_putc(out, ')');
}

/* ---- sums */

static void common_of(const Sym *sum, Common *common) {
  const Sym *first = sum->term[0].base;
  *common = (Common){.coeff = RAT_ONE};
  if (sum->k.num) return;
  for (int i = 0; i < factor_count(first) && common->n < (int)WV_LEN(common->factor); i++)
    common->factor[common->n++] = factor_at(first, i);
  for (int t = 1; t < sum->n; t++)
    for (int i = 0; i < common->n; i++) {
      Factor *c = &common->factor[i];
      int64_t e = factor_exponent(sum->term[t].base, c->base);
      if (!e || (e > 0) != (c->exp > 0)) *c = common->factor[--common->n], i--;
      else if (e > 0 ? e < c->exp : e > c->exp) c->exp = e;
    }
}

static int digits(int64_t v) {
  int n = 1;
  for (v = v < 0 ? -v : v; v >= 10; v /= 10) n++;
  return n;
}

/* Number of characters that a coefficient adds. */
static int coeff_length(Rat c) {
  return (c.num == 1 || c.num == -1 ? 0 : digits(c.num) + 1) + (c.den == 1 ? 0 : digits(c.den) + 1);
}

static int const_length(Rat c) {
  return c.num ? digits(c.num) + (c.den == 1 ? 0 : digits(c.den) + 1) : 0;
}

/* Factors the content out of the sum if that makes the text shorter. */
static void choose_content(const Sym *sum, Common *common) {
  Sum s;
  Rat content, c;
  sum_of(sum, &s);
  if (!sum_content(&s, &content) || !rat_gcd(content, s.k, &content) || rat_is(content, 1)) return;
  int apart = const_length(s.k), together = coeff_length(content) + (common->n ? 0 : 2);
  for (int i = 0; i < s.n; i++) {
    apart += coeff_length(s.term[i].coeff);
    if (!rat_div(s.term[i].coeff, content, &c)) return;
    together += coeff_length(c);
  }
  if (!rat_div(s.k, content, &c)) return;
  if (together + const_length(c) < apart + (content.den != 1)) common->coeff = content;
}

static void print_sign(StrBuf *out, bool first, bool negative) {
  if (first) sb_puts(out, negative ? "-" : "");
  else sb_puts(out, negative ? " - " : " + ");
}

/* The terms divided by their common part, starting with a positive one if there is one. */
static void print_terms(StrBuf *out, const Sym *s, const Common *common) {
  int lead = 0;
  while (lead < s->n && s->term[lead].coeff.num < 0) lead++;
  if (lead == s->n && s->k.num > 0) lead = -1;
  if (lead == s->n) lead = 0;
  Rat k = s->k, c;
  rat_div(k, common->coeff, &k);
  bool first = true;
  if (lead < 0) print_term(out, k, NULL, common), first = false;
  for (int i = -1; i < s->n; i++) {
    int t = i < 0 ? lead : i;
    if (t < 0 || (i >= 0 && t == lead)) continue;
    bool ok = rat_div(s->term[t].coeff, common->coeff, &c);
    WV_ASSERT(ok);
    print_sign(out, first, c.num < 0);
    print_term(out, c, s->term[t].base, common);
    first = false;
  }
  if (!k.num || lead < 0) return;
  print_sign(out, first, k.num < 0);
  print_term(out, k, NULL, common);
}

static void print_sum(StrBuf *out, const Sym *s, Prec at) {
  Common common;
  common_of(s, &common);
  choose_content(s, &common);
  bool factored = common.n || !rat_is(common.coeff, 1);
  bool parens = at > (factored ? PREC_MUL : PREC_SUM);
  int above = common.coeff.num != 1, below = common.coeff.den != 1;
  if (parens) sb_putc(out, '(');
  if (common.coeff.num != 1) sb_int(out, common.coeff.num);
  for (int i = 0; i < common.n; i++) {
    if (common.factor[i].exp < 0) {
      below++;
      continue;
    }
    if (above++) sb_putc(out, '*');
    print_power(out, common.factor[i].base, common.factor[i].exp);
  }
  if (factored) sb_puts(out, above ? "*(" : "(");
  print_terms(out, s, &common);
  if (factored) sb_putc(out, ')');
  if (below) {
    sb_puts(out, below > 1 ? "/(" : "/");
    bool first = common.coeff.den == 1;
    if (!first) sb_int(out, common.coeff.den);
    for (int i = 0; i < common.n; i++) {
      if (common.factor[i].exp > 0) continue;
      if (!first) sb_putc(out, '*');
      print_power(out, common.factor[i].base, -common.factor[i].exp);
      first = false;
    }
    if (below > 1) sb_putc(out, ')');
  }
  if (parens) sb_putc(out, ')');
}

/* ---- everything else */

static void print_call(StrBuf *out, const Sym *s) {
  sb_puts(out, spelling[s->kind]);
  sb_putc(out, '(');
  for (int i = 0; i < s->n; i++) {
    if (i) sb_puts(out, ", ");
    print(out, s->arg[i], PREC_CMP);
  }
  sb_putc(out, ')');
}

static void print_xor(StrBuf *out, const Sym *s) {
  for (int i = 1; i < s->n; i++) sb_puts(out, "xor(");
  print(out, s->arg[0], PREC_CMP);
  for (int i = 1; i < s->n; i++) {
    sb_puts(out, ", ");
    print(out, s->arg[i], PREC_CMP);
    sb_putc(out, ')');
  }
}

static void print_piecewise(StrBuf *out, const Sym *s) {
  sb_puts(out, "Piecewise(");
  for (; s->kind == SYM_select; s = s->arg[2]) {
    sb_putc(out, '(');
    print(out, s->arg[1], PREC_CMP);
    sb_puts(out, ", ");
    print(out, s->arg[0], PREC_CMP);
    sb_puts(out, "), ");
  }
  sb_putc(out, '(');
  print(out, s, PREC_CMP);
  sb_puts(out, ", True))");
}

static void print_compare(StrBuf *out, const Sym *s, Prec at) {
  bool flip = is_num(s->arg[0]);
  const char *op = s->kind == SYM_lt ? (flip ? " > " : " < ") : (flip ? " >= " : " <= ");
  if (at > PREC_CMP) sb_putc(out, '(');
  print(out, s->arg[flip], PREC_OR);
  sb_puts(out, op);
  print(out, s->arg[!flip], PREC_OR);
  if (at > PREC_CMP) sb_putc(out, ')');
}

static void print_junction(StrBuf *out, const Sym *s, Prec at) {
  Prec own = s->kind == SYM_and ? PREC_AND : PREC_OR;
  if (at > own) sb_putc(out, '(');
  for (int i = 0; i < s->n; i++) {
    if (i) sb_puts(out, own == PREC_AND ? " & " : " | ");
    print(out, s->arg[i], own + 1);
  }
  if (at > own) sb_putc(out, ')');
}

static void print_number(StrBuf *out, Rat v, Prec at) {
  bool parens = at > (v.den == 1 ? PREC_POW : PREC_SUM) || (v.num < 0 && at > PREC_SUM);
  if (parens) sb_putc(out, '(');
  sb_int(out, v.num);
  if (v.den != 1) sb_putc(out, '/'), sb_int(out, v.den);
  if (parens) sb_putc(out, ')');
}

static void print_product(StrBuf *out, const Sym *s, Prec at) {
  const Common nothing = {.coeff = RAT_ONE};
  bool power = s->kind == SYM_pow && s->factor->exp > 0;
  bool parens = at > (power ? PREC_POW : s->k.num < 0 ? PREC_SUM : PREC_MUL);
  if (parens) sb_putc(out, '(');
  if (s->k.num < 0) sb_putc(out, '-');
  print_term(out, s->k, s->base ? s->base : s, &nothing);
  if (parens) sb_putc(out, ')');
}

static void print(StrBuf *out, const Sym *s, Prec at) {
  switch ((SymKind)s->kind) {
  case SYM_symbol:
    if (!(s->flags & SYM_NONNEG)) sb_puts(out, "signed(");
    print_name(out, s->name);
    if (!(s->flags & SYM_NONNEG)) sb_putc(out, ')');
    return;
  case SYM_int:
  case SYM_rational: print_number(out, s->k, at); return;
  case SYM_bool: sb_puts(out, s->k.num ? "True" : "False"); return;
  case SYM_add: print_sum(out, s, at); return;
  case SYM_mul:
  case SYM_pow: print_product(out, s, at); return;
  case SYM_xor: print_xor(out, s); return;
  case SYM_select: print_piecewise(out, s); return;
  case SYM_le:
  case SYM_lt: print_compare(out, s, at); return;
  case SYM_and:
  case SYM_or: print_junction(out, s, at); return;
  case SYM_floor:
  case SYM_ceil:
  case SYM_mod:
  case SYM_min:
  case SYM_max:
  case SYM_eq:
  case SYM_ne: print_call(out, s); return;
  case SYM_COUNT: break;
  }
  WV_BUG("unknown kind of expression");
}

void sym_print(StrBuf *out, const Sym *s) {
  if (s) print(out, s, PREC_CMP);
  else sb_puts(out, "(null)");
}

const char *sym_text(Arena *a, const Sym *s) {
  StrBuf out = {.arena = a};
  sym_print(&out, s);
  return sb_text(&out);
}
