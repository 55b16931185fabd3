/* sym_parse.c: text to expressions, by recursive descent.
 *
 *     compare  := or (("<" | "<=" | ">" | ">=" | "==" | "!=") or)*       chains as in Python
 *     or       := and ("|" and)*           and := sum ("&" sum)*
 *     sum      := product (("+" | "-") product)*
 *     product  := unary (("*" | "/" | "//" | "%") unary)*
 *     unary    := ("-" | "+" | "~") unary | atom ("**" integer)?
 *     atom     := integer | name | `any name` | name "(" arguments ")" | "(" compare ")"
 *
 * All factors of a product are collected before it is built, so that a product the printer left
 * unexpanded is not expanded pair by pair on the way back.
 *
 * Printed addresses are repetitive: the same `ceiling(N/256)` occurs dozens of times. The arguments
 * of a call are therefore looked up by their text before they are parsed; the context caches the
 * last few hundred. */
#include <string.h>

#include "sym/node.h"

/* A text in parentheses: its hash and where it ends. */
typedef struct Group {
  uint32_t hash, close; /* close 0: not balanced */
} Group;

typedef struct Parser {
  SymCtx *cx;
  const char *start, *at, *end;
  const char *bad;     /* where the first error is */
  bool is_prefix;      /* more text follows the expression: reporting a column would mislead */
  const Group *groups; /* by offset of the opening parenthesis; NULL: the text is short */
  int depth;
} Parser;

enum { DEPTH_LIMIT = 256, NAME = 1, DIGIT = 2, SPACE = 4 };

static const unsigned char class_of[256] = {
    [' '] = SPACE, ['\t'] = SPACE, ['\n'] = SPACE, ['\r'] = SPACE, ['0'] = DIGIT, ['1'] = DIGIT,
    ['2'] = DIGIT, ['3'] = DIGIT,  ['4'] = DIGIT,  ['5'] = DIGIT,  ['6'] = DIGIT, ['7'] = DIGIT,
    ['8'] = DIGIT, ['9'] = DIGIT,  ['_'] = NAME,   ['$'] = NAME,   ['A'] = NAME,  ['B'] = NAME,
    ['C'] = NAME,  ['D'] = NAME,   ['E'] = NAME,   ['F'] = NAME,   ['G'] = NAME,  ['H'] = NAME,
    ['I'] = NAME,  ['J'] = NAME,   ['K'] = NAME,   ['L'] = NAME,   ['M'] = NAME,  ['N'] = NAME,
    ['O'] = NAME,  ['P'] = NAME,   ['Q'] = NAME,   ['R'] = NAME,   ['S'] = NAME,  ['T'] = NAME,
    ['U'] = NAME,  ['V'] = NAME,   ['W'] = NAME,   ['X'] = NAME,   ['Y'] = NAME,  ['Z'] = NAME,
    ['a'] = NAME,  ['b'] = NAME,   ['c'] = NAME,   ['d'] = NAME,   ['e'] = NAME,  ['f'] = NAME,
    ['g'] = NAME,  ['h'] = NAME,   ['i'] = NAME,   ['j'] = NAME,   ['k'] = NAME,  ['l'] = NAME,
    ['m'] = NAME,  ['n'] = NAME,   ['o'] = NAME,   ['p'] = NAME,   ['q'] = NAME,  ['r'] = NAME,
    ['s'] = NAME,  ['t'] = NAME,   ['u'] = NAME,   ['v'] = NAME,   ['w'] = NAME,  ['x'] = NAME,
    ['y'] = NAME,  ['z'] = NAME,
};

static bool is_class(char c, int class) { return class_of[(unsigned char)c] & class; }

static const Sym *parse_compare(Parser *p);

static const Sym *fail(Parser *p, const char *at, const char *what) {
  if (p->bad) return NULL;
  p->bad = at;
  if (p->is_prefix) return sym_fail(p->cx, "%s", what);
  return sym_fail(p->cx, "%s at column %zu", what, (size_t)(at - p->start) + 1);
}

static void skip_space(Parser *p) {
  while (p->at < p->end && is_class(*p->at, SPACE)) p->at++;
}

static char peek(Parser *p) {
  skip_space(p);
  return p->at < p->end ? *p->at : 0;
}

static char peek2(const Parser *p) { return p->end - p->at > 1 ? p->at[1] : 0; }

static bool take(Parser *p, char c) {
  if (peek(p) != c) return false;
  p->at++;
  return true;
}

static bool expect(Parser *p, char c) {
  static const char *const what[] = {
      ['('] = "expected `(`", [')'] = "expected `)`", [','] = "expected `,`"};
  return take(p, c) || fail(p, p->at, what[(unsigned char)c]);
}

/* ---- names and calls */

static size_t name_length(const Parser *p) {
  const char *c = p->at;
  while (c < p->end) {
    bool version = *c == '.' && c + 1 < p->end && is_class(c[1], DIGIT);
    if (!is_class(*c, NAME | DIGIT) && !version) break;
    c++;
  }
  return (size_t)(c - p->at);
}

/* `text`, a doubled backtick standing for one. */
static const Sym *parse_quoted(Parser *p, bool nonneg) {
  const char *open = p->at++;
  StrBuf name = {.arena = p->cx->scratch};
  for (;; p->at++) {
    if (p->at == p->end) return fail(p, open, "unterminated name");
    if (*p->at == '`') {
      if (peek2(p) != '`') break;
      p->at++;
    }
    sb_putc(&name, *p->at);
  }
  p->at++;
  return sym_symbol_n(p->cx, sb_text(&name), name.n, nonneg);
}

static const Sym *parse_signed(Parser *p) {
  const Sym *s = NULL;
  if (!expect(p, '(')) return NULL;
  char c = peek(p);
  if (c == '`') {
    s = parse_quoted(p, false);
  } else if (is_class(c, NAME)) {
    size_t n = name_length(p);
    s = sym_symbol_n(p->cx, p->at, n, false);
    p->at += n;
  } else {
    return fail(p, p->at, "expected a name");
  }
  return expect(p, ')') ? s : NULL;
}

/* (value, condition) pairs */
static const Sym *parse_piecewise(Parser *p, const void *what) {
  const char *start = p->at;
  (void)what;
  Vec(const Sym *) parts = {0};
  if (!expect(p, '(')) return NULL;
  do {
    if (!expect(p, '(')) return NULL;
    const Sym *value = parse_compare(p);
    if (!value || !expect(p, ',')) return NULL;
    const Sym *cond = parse_compare(p);
    if (!cond || !expect(p, ')')) return NULL;
    vec_push(p->cx->scratch, &parts, value);
    vec_push(p->cx->scratch, &parts, cond);
  } while (take(p, ','));
  if (!expect(p, ')')) return NULL;
  const Sym *s = sym_piecewise(p->cx, parts.at, parts.n);
  return s ? s : fail(p, start, sym_take_error(p->cx));
}

/* ---- texts seen before */

enum { GROUP_DEPTH = 64, LONG_TEXT = 48, WORTH_REMEMBERING = 12 };

/* Computes the hashes and ends of all groups, innermost first, in one walk. */
static const Group *find_groups(SymCtx *cx, const char *text, size_t len) {
  struct {
    uint32_t hash, open;
  } stack[GROUP_DEPTH];
  if (len < LONG_TEXT || len >= UINT32_MAX) return NULL;
  Group *groups = ARENA_ARRAY(cx->scratch, Group, len);
  int depth = 0;
  for (uint32_t i = 0; i < len; i++) {
    if (text[i] == '(') {
      if (depth == GROUP_DEPTH) return NULL;
      stack[depth].hash = 0x811c9dc5u, stack[depth++].open = i;
    } else if (text[i] == ')' && depth > 0) {
      uint32_t hash = stack[--depth].hash;
      groups[stack[depth].open] = (Group){hash, i};
      if (depth) stack[depth - 1].hash = (stack[depth - 1].hash ^ hash) * 0x01000193u;
    } else if (depth) {
      stack[depth - 1].hash = (stack[depth - 1].hash ^ (unsigned char)text[i]) * 0x01000193u;
    }
  }
  return groups;
}

typedef const Sym *ParseArguments(Parser *p, const void *what);

/* Parses the group that begins here, or reuses the result of an equal text. `what` distinguishes
 * calls of different functions. */
static const Sym *parse_group(Parser *p, ParseArguments *parse, const void *what) {
  const Group *g = p->groups && peek(p) == '(' ? &p->groups[p->at - p->start] : NULL;
  size_t n = g && g->close ? g->close - (size_t)(p->at - p->start) + 1 : 0;
  if (n < WORTH_REMEMBERING) return parse(p, what);
  uint32_t h = g->hash ^ (uint32_t)(uintptr_t)what;
  ParsedText *known = &p->cx->texts[(h ^ h >> 13) & (PARSED_TEXTS - 1)];
  const char *text = p->at;
  if (known->result && known->n == n && known->what == what && !memcmp(known->text, text, n)) {
    p->at += n;
    return known->result;
  }
  const Sym *s = parse(p, what);
  if (s) *known = (ParsedText){arena_strndup(p->cx->arena, text, n), n, what, s};
  return s;
}

typedef struct Call {
  const char *name;
  size_t n;
  int kind; /* SymKind, or SYM_COUNT for Not */
  int least, most;
} Call;

#define CALL(name, kind, least, most)                                                              \
  { name, sizeof name - 1, kind, least, most }
static const Call calls[] = {
    CALL("ceiling", SYM_ceil, 1, 1), CALL("floor", SYM_floor, 1, 1), CALL("Mod", SYM_mod, 2, 2),
    CALL("Max", SYM_max, 1, 64),     CALL("Min", SYM_min, 1, 64),    CALL("xor", SYM_xor, 2, 64),
    CALL("Eq", SYM_eq, 2, 2),        CALL("Ne", SYM_ne, 2, 2),       CALL("And", SYM_and, 1, 64),
    CALL("Or", SYM_or, 1, 64),       CALL("Not", SYM_COUNT, 1, 1),
};
#undef CALL

static const Sym *parse_call(Parser *p, const void *what) {
  const Call *call = what;
  const Sym *args[64];
  const char *open = p->at;
  int n = 0;
  if (!expect(p, '(')) return NULL;
  do {
    if (n == call->most) return fail(p, p->at, "too many arguments");
    if (!(args[n++] = parse_compare(p))) return NULL;
  } while (take(p, ','));
  if (!expect(p, ')')) return NULL;
  if (n < call->least) return fail(p, open, "too few arguments");
  return call->kind == SYM_COUNT ? sym_not(p->cx, args[0])
                                 : sym_build(p->cx, (SymKind)call->kind, args, n);
}

static bool is_word(const char *s, size_t n, const char *word) {
  return !strncmp(s, word, n) && !word[n];
}

static const Sym *parse_name(Parser *p) {
  const char *name = p->at;
  size_t n = name_length(p);
  p->at += n;
  if (peek(p) == '(') {
    for (size_t i = 0; i < WV_LEN(calls); i++)
      if (calls[i].n == n && calls[i].name[0] == *name && !memcmp(name, calls[i].name, n))
        return parse_group(p, parse_call, &calls[i]);
    if (is_word(name, n, "Piecewise")) return parse_group(p, parse_piecewise, NULL);
    if (is_word(name, n, "signed")) return parse_signed(p);
    return fail(p, name, "unknown function");
  }
  if (*name == 'T' && is_word(name, n, "True")) return p->cx->yes;
  if (*name == 'F' && is_word(name, n, "False")) return p->cx->no;
  return sym_symbol_n(p->cx, name, n, true);
}

/* ---- arithmetic */

static bool parse_integer(Parser *p, int64_t *v) {
  const char *start = p->at;
  *v = 0;
  for (; p->at < p->end && is_class(*p->at, DIGIT); p->at++)
    if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, *p->at - '0', v))
      return fail(p, start, "a number does not fit in 64 bits");
  return true;
}

static const Sym *parse_atom(Parser *p) {
  char c = peek(p);
  int64_t v;
  if (is_class(c, NAME)) return parse_name(p);
  if (is_class(c, DIGIT)) return parse_integer(p, &v) ? sym_int(p->cx, v) : NULL;
  if (c == '`') return parse_quoted(p, true);
  if (c != '(') return fail(p, p->at, c ? "unexpected character" : "unexpected end");
  p->at++;
  const Sym *s = parse_compare(p);
  return s && expect(p, ')') ? s : NULL;
}

static bool parse_exponent(Parser *p, int64_t *e) {
  bool negative = take(p, '-'), parens = !negative && take(p, '(');
  if (parens) negative = take(p, '-');
  if (!is_class(peek(p), DIGIT)) return fail(p, p->at, "expected an integer exponent");
  if (!parse_integer(p, e)) return false;
  if (negative) *e = -*e;
  return !parens || expect(p, ')');
}

/* An operand with its exponent. Negations are counted into `negative`. */
static const Sym *parse_unary(Parser *p, int64_t *exp, bool *negative) {
  const Sym *s = NULL;
  if (++p->depth > DEPTH_LIMIT) return fail(p, p->at, "nested too deeply");
  char c = peek(p);
  *exp = 1;
  if (c == '-' || c == '+') {
    p->at++;
    if (c == '-') *negative = !*negative;
    s = parse_unary(p, exp, negative);
  } else if (c == '~') {
    bool minus = false;
    p->at++;
    s = parse_unary(p, exp, &minus);
    if (s && (minus || *exp != 1)) s = fail(p, p->at, "expected a condition after `~`");
    s = sym_not(p->cx, s);
  } else {
    s = parse_atom(p);
    if (s && peek(p) == '*' && peek2(p) == '*') {
      p->at += 2;
      if (!parse_exponent(p, exp)) s = NULL;
    }
  }
  p->depth--;
  return s;
}

static bool at_product_operator(Parser *p) {
  char c = peek(p);
  return c == '*' || c == '/' || c == '%';
}

static bool multiply(Parser *p, Product *product, int64_t sign) {
  int64_t exp;
  bool negative = false;
  const Sym *s = parse_unary(p, &exp, &negative);
  if (!s || !product_gather(p->cx, product, s, exp * sign)) return false;
  if (negative) product->coeff = rat_neg(product->coeff);
  return true;
}

/* Divides the product so far by the operand after `//` or `%`. */
static bool divide(Parser *p, Product *product, bool mod) {
  SymCtx *cx = p->cx;
  Product divisor = {.coeff = RAT_ONE};
  const Sym *left = product_make(cx, product);
  if (!multiply(p, &divisor, 1)) return false;
  const Sym *right = product_make(cx, &divisor);
  left = mod ? sym_mod(cx, left, right) : sym_floordiv(cx, left, right);
  *product = (Product){.coeff = RAT_ONE};
  return product_gather(cx, product, left, 1);
}

/* A single operand is returned as it is: a condition in parentheses is not a number. */
static const Sym *parse_product(Parser *p, Rat *coeff) {
  int64_t exp;
  bool negative = false;
  *coeff = RAT_ONE;
  const Sym *s = parse_unary(p, &exp, &negative);
  if (!s) return NULL;
  if (negative) *coeff = rat_int(-1);
  if (exp == 1 && !at_product_operator(p)) return s;
  Product product = {.coeff = *coeff};
  if (!product_gather(p->cx, &product, s, exp)) return NULL;
  while (at_product_operator(p)) {
    char c = *p->at++;
    bool whole = c == '/' && p->at < p->end && *p->at == '/';
    p->at += whole;
    if (!(whole || c == '%' ? divide(p, &product, c == '%')
                            : multiply(p, &product, c == '*' ? 1 : -1)))
      return NULL;
  }
  return product_split(p->cx, &product, coeff);
}

enum { TERMS = 16 };

static const Sym *parse_sum(Parser *p) {
  SymCtx *cx = p->cx;
  Term small[TERMS], *terms = small;
  int n = 0, cap = TERMS;
  Rat k = RAT_ZERO;
  for (bool minus = false;;) {
    Rat c;
    const Sym *s = parse_product(p, &c);
    if (!s) return NULL;
    if (minus) c = rat_neg(c);
    char next = peek(p);
    if (!n && !k.num && !minus && next != '+' && next != '-')
      return rat_is(c, 1) ? s : sym_scale(cx, sym_as_number(cx, s), c);
    if (!sum_gather(cx, sym_as_number(cx, s), c, &terms, &n, &cap, &k)) return NULL;
    if (next != '+' && next != '-') return sum_collect(cx, k, terms, n);
    minus = next == '-';
    p->at++;
  }
}

/* ---- conditions */

static const Sym *parse_and(Parser *p) {
  const Sym *s = parse_sum(p);
  while (s && take(p, '&')) s = sym_and(p->cx, s, parse_sum(p));
  return s;
}

static const Sym *parse_or(Parser *p) {
  const Sym *s = parse_and(p);
  while (s && take(p, '|')) s = sym_or(p->cx, s, parse_and(p));
  return s;
}

typedef const Sym *Compare(SymCtx *, const Sym *, const Sym *);

static Compare *take_comparison(Parser *p) {
  char c = peek(p);
  bool equals = peek2(p) == '=';
  if (c != '<' && c != '>' && !((c == '=' || c == '!') && equals)) return NULL;
  p->at += 1 + equals;
  switch (c) {
  case '<': return equals ? sym_le : sym_lt;
  case '>': return equals ? sym_ge : sym_gt;
  case '=': return sym_eq;
  default: return sym_ne;
  }
}

static const Sym *parse_compare(Parser *p) {
  const Sym *left = parse_or(p), *all = NULL;
  for (Compare *op; left && (op = take_comparison(p));) {
    const Sym *right = parse_or(p), *one = op(p->cx, left, right);
    all = all ? sym_and(p->cx, all, one) : one;
    if (!all) return NULL;
    left = right;
  }
  return all ? all : left;
}

const Sym *sym_parse(SymCtx *cx, const char *text, size_t len, size_t *error_at) {
  Parser p = {.cx = cx, .start = text, .at = text, .end = text + len};
  ArenaMark mark = arena_mark(cx->scratch);
  p.groups = find_groups(cx, text, len);
  const Sym *s = parse_compare(&p);
  if (s && peek(&p)) s = fail(&p, p.at, "unexpected text after the expression");
  arena_rewind(cx->scratch, mark);
  if (!s && error_at) *error_at = (size_t)((p.bad ? p.bad : p.at) - text);
  return s;
}

const Sym *sym_parse_prefix(SymCtx *cx, const char *text, size_t len, bool comparisons,
                            size_t *used) {
  Parser p = {.cx = cx, .start = text, .at = text, .end = text + len, .is_prefix = true};
  ArenaMark mark = arena_mark(cx->scratch);
  const Sym *s = comparisons ? parse_compare(&p) : parse_or(&p);
  arena_rewind(cx->scratch, mark);
  *used = (size_t)((p.bad ? p.bad : p.at) - text);
  return s;
}
