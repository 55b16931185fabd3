/* api_expr.c: expressions through wave.h. */
#include <string.h>

#include "driver/api/api.h"

/* Everything that walks an expression recurses, so the nesting depth that callers may reach is
 * limited, to about that of text. Operands are within the limit, so no operation goes far beyond
 * it. */
static const Sym *not_too_deep(SymCtx *cx, const Sym *s) {
  enum { DEPTH_LIMIT = 512 };
  return s && sym_depth(s) > DEPTH_LIMIT ? sym_too_deep(cx) : s;
}

/* Turns the error left by a symbolic operation into a diagnostic. */
static wv_expr api_checked(wv_ctx *cx, const Sym *s) {
  static const DiagCode codes[] = {[SYM_FINE] = DIAG_E0105,
                                   [SYM_INVALID] = DIAG_E0105,
                                   [SYM_OVERFLOW] = DIAG_E0101,
                                   [SYM_ZERO_DIVISION] = DIAG_E0102};
  s = not_too_deep(cx->cx->sym, s);
  DiagCode code = codes[sym_error_kind(cx->cx->sym)];
  const char *why = s ? "" : sym_take_error(cx->cx->sym);
  if (*why) diag_add(&cx->cx->diags, code, (Span){0}, "%s", why);
  return api_expr(s);
}

wv_expr wv_int(wv_ctx *cx, int64_t v) {
  API_CHANGES(cx, NULL);
  return api_expr(sym_int(cx->cx->sym, v));
}
wv_expr wv_rational(wv_ctx *cx, int64_t num, int64_t den) {
  API_CHANGES(cx, NULL);
  return api_checked(cx, sym_rational(cx->cx->sym, num, den));
}
wv_expr wv_bool(wv_ctx *cx, bool v) {
  API_CHANGES(cx, NULL);
  return api_expr(sym_bool(cx->cx->sym, v));
}
wv_expr wv_symbol(wv_ctx *cx, const char *name, bool nonneg) {
  API_CHANGES(cx, NULL);
  if (!api_text(cx, name, "the name of a symbol")) return NULL;
  return api_expr(sym_symbol(cx->cx->sym, name, nonneg));
}

typedef const Sym *Unary(SymCtx *, const Sym *);
typedef const Sym *Binary(SymCtx *, const Sym *, const Sym *);

static const struct {
  const char *name;
  Unary *unary;
  Binary *binary; /* folded over any number of operands when `fold` */
  bool fold;
} operators[] = {
    {"add", NULL, sym_add, true},          {"mul", NULL, sym_mul, true},
    {"min", NULL, sym_min, true},          {"max", NULL, sym_max, true},
    {"and", NULL, sym_and, true},          {"or", NULL, sym_or, true},
    {"xor", NULL, sym_xor, false},         {"sub", NULL, sym_sub, false},
    {"div", NULL, sym_div, false},         {"floordiv", NULL, sym_floordiv, false},
    {"ceildiv", NULL, sym_ceildiv, false}, {"mod", NULL, sym_mod, false},
    {"eq", NULL, sym_eq, false},           {"ne", NULL, sym_ne, false},
    {"lt", NULL, sym_lt, false},           {"le", NULL, sym_le, false},
    {"gt", NULL, sym_gt, false},           {"ge", NULL, sym_ge, false},
    {"neg", sym_neg, NULL, false},         {"floor", sym_floor, NULL, false},
    {"ceil", sym_ceil, NULL, false},       {"not", sym_not, NULL, false},
};

static const Sym *power(SymCtx *cx, const Sym *base, const Sym *exponent) {
  int64_t e;
  return exponent && sym_is_int(exponent, &e) ? sym_pow(cx, base, e) : NULL;
}

static const Sym *piecewise(SymCtx *cx, const wv_expr *args, int n) {
  Arena *arena = arena_new();
  const Sym **parts = ARENA_ARRAY(arena, const Sym *, n + 1);
  for (int i = 0; i < n; i++) parts[i] = api_sym(args[i]);
  const Sym *s = sym_piecewise(cx, parts, n);
  arena_free(arena);
  return s;
}

static const Sym *apply_operator(SymCtx *cx, const char *op, const wv_expr *args, int n) {
  if (strcmp(op, "pow") == 0 && n == 2) return power(cx, api_sym(args[0]), api_sym(args[1]));
  if (strcmp(op, "select") == 0 && n == 3)
    return sym_select(cx, api_sym(args[0]), api_sym(args[1]), api_sym(args[2]));
  if (strcmp(op, "piecewise") == 0) return piecewise(cx, args, n);
  for (size_t i = 0; i < WV_LEN(operators); i++) {
    if (strcmp(operators[i].name, op) != 0) continue;
    if (operators[i].unary) return n == 1 ? operators[i].unary(cx, api_sym(args[0])) : NULL;
    if (n < 1 || (!operators[i].fold && n != 2)) return NULL;
    const Sym *s = api_sym(args[0]);
    for (int j = 1; j < n; j++) s = operators[i].binary(cx, s, api_sym(args[j]));
    return s;
  }
  return NULL;
}

wv_expr wv_expr_op(wv_ctx *cx, const char *op, const wv_expr *args, int n) {
  API_CHANGES(cx, NULL);
  if (!api_text(cx, op, "an operator") || !api_list(cx, args, n, "operands")) return NULL;
  enum { MOST = 4096 }; /* about as many as an expression may have */
  if (n > MOST) {
    diag_add(&cx->cx->diags, DIAG_E0105, (Span){0}, "`%s` has more than %d operands", op, MOST);
    return NULL;
  }
  for (int i = 0; i < n; i++)
    if (!args[i]) return NULL;
  const Sym *s = apply_operator(cx->cx->sym, op, args, n);
  if (!s && !*sym_error(cx->cx->sym))
    diag_add(&cx->cx->diags, DIAG_E0105, (Span){0}, "`%s` cannot be applied to %d operands", op, n);
  return api_checked(cx, s);
}

wv_expr wv_expr_parse(wv_ctx *cx, const char *text) {
  API_CHANGES(cx, NULL);
  if (!text) return NULL;
  size_t at = 0;
  const Sym *s = sym_parse(cx->cx->sym, text, strlen(text), &at);
  if (s) return api_expr(s);
  Span span = {sources_file(&cx->cx->sources, "<expression>", text), 1, (uint32_t)at + 1, 1};
  diag_add(&cx->cx->diags, DIAG_E0105, span, "%s", sym_take_error(cx->cx->sym));
  return NULL;
}

const char *api_keep_text(wv_ctx *cx, const void *of, const char *text) {
  map_set(cx->cx->arena, &cx->texts, map_key(of), (void *)(uintptr_t)text);
  return text;
}

const char *wv_expr_text(wv_ctx *cx, wv_expr e) {
  API_READS(cx, e ? "?" : NULL);
  if (!e) return NULL;
  const char *text = map_get(&cx->texts, map_key(e));
  return text ? text : api_keep_text(cx, e, sym_text(cx->cx->arena, api_sym(e)));
}

const char *wv_expr_kind(wv_expr e) {
  API_PLAIN;
  static const char *const names[SYM_COUNT] = {
#define SYM(name, spelling, doc) [SYM_##name] = #name,
#include "sym/sym.def"
  };
  return e ? names[sym_kind(api_sym(e))] : NULL;
}

int wv_expr_nargs(wv_expr e) {
  API_PLAIN;
  return e ? sym_nargs(api_sym(e)) : 0;
}
wv_expr wv_expr_arg(wv_ctx *cx, wv_expr e, int i) {
  API_CHANGES(cx, NULL);
  bool there = i >= 0 && i < wv_expr_nargs(e);
  return there ? api_expr(sym_arg(cx->cx->sym, api_sym(e), i)) : NULL;
}
bool wv_expr_is_bool(wv_expr e) {
  API_PLAIN;
  return e && sym_is_bool(api_sym(e));
}

bool wv_expr_constant(wv_expr e, int64_t *num, int64_t *den) {
  API_PLAIN;
  const Sym *s = api_sym(e);
  if (!s) return false;
  if (sym_kind(s) != SYM_bool) return sym_is_rational(s, num, den);
  *den = 1;
  return sym_eval(s, NULL, 0, num);
}

const char *wv_expr_name(wv_expr e) {
  API_PLAIN;
  return e ? sym_name(api_sym(e)) : NULL;
}
bool wv_expr_nonneg(wv_expr e) {
  API_PLAIN;
  return e && sym_is_nonneg_symbol(api_sym(e));
}
uint64_t wv_expr_hash(wv_expr e) {
  API_PLAIN;
  return e ? sym_hash(api_sym(e)) : 0;
}

int wv_expr_symbols(wv_expr e, wv_expr *out, int cap) {
  API_ASKS(-1);
  if (!e) return 0;
  Arena *a = arena_new();
  FreeSymbols symbols = sym_symbols(a, api_sym(e));
  for (int i = 0; i < symbols.n && i < cap; i++) out[i] = api_expr(symbols.at[i]);
  arena_free(a);
  return symbols.n;
}

wv_expr wv_expr_copy(wv_ctx *to, wv_expr e) {
  API_CHANGES(to, NULL);
  if (!e) return NULL;
  return api_checked(to, sym_copy(to->cx->sym, api_sym(e)));
}

/* ---- substitution and proofs ---- */
static SymBinding *bindings_of(Arena *a, const wv_binding *from, int n) {
  SymBinding *out = ARENA_ARRAY(a, SymBinding, n);
  for (int i = 0; i < n; i++) out[i] = (SymBinding){api_sym(from[i].from), api_sym(from[i].to)};
  return out;
}

static bool has_bindings(wv_ctx *cx, const wv_binding *b, int n) {
  bool ok = api_list(cx, b, n, "bindings");
  for (int i = 0; ok && i < n; i++)
    ok = api_expected(cx, b[i].from && b[i].to, "a symbol and its value");
  return ok;
}

wv_expr wv_expr_subst(wv_ctx *cx, wv_expr e, const wv_binding *b, int n) {
  API_CHANGES(cx, NULL);
  if (!e || !has_bindings(cx, b, n)) return NULL;
  Arena *a = arena_new();
  const Sym *s = sym_subst(cx->cx->sym, api_sym(e), bindings_of(a, b, n), n);
  arena_free(a);
  return api_checked(cx, s);
}

bool wv_resolve(wv_ctx *cx, wv_binding *b, int n) {
  API_CHANGES(cx, false);
  if (!has_bindings(cx, b, n)) return false;
  Arena *a = arena_new();
  SymBinding *bindings = bindings_of(a, b, n);
  bool ok = sym_resolve_bindings(cx->cx->sym, bindings, n);
  for (int i = 0; ok && i < n; i++) b[i].to = api_expr(bindings[i].to);
  if (!ok) diag_add(&cx->cx->diags, DIAG_E0104, (Span){0}, "%s", sym_take_error(cx->cx->sym));
  arena_free(a);
  return ok;
}

static SymFacts *gather(wv_ctx *cx, Arena *a, const wv_expr *facts, int n) {
  SymFacts *f = sym_facts_new(a, cx->cx->sym, NULL);
  for (int i = 0; facts && i < n; i++)
    if (facts[i]) sym_assume(f, api_sym(facts[i]));
  return f;
}

wv_expr wv_expr_simplify(wv_ctx *cx, wv_expr e, const wv_expr *facts, int nfacts) {
  API_CHANGES(cx, NULL);
  if (!e) return NULL;
  Arena *a = arena_new();
  const Sym *s = sym_simplify(cx->cx->sym, gather(cx, a, facts, nfacts), api_sym(e));
  arena_free(a);
  return api_checked(cx, s);
}

int wv_expr_prove(wv_ctx *cx, wv_expr cond, const wv_expr *facts, int nfacts) {
  API_CHANGES(cx, -1);
  if (!cond) return -1;
  Arena *a = arena_new();
  SymTruth t = sym_prove(cx->cx->sym, gather(cx, a, facts, nfacts), api_sym(cond));
  arena_free(a);
  return t == SYM_ALWAYS ? 1 : t == SYM_NEVER ? 0 : -1;
}

bool wv_expr_range(wv_ctx *cx, wv_expr e, const wv_expr *facts, int nfacts, int64_t *lo,
                   int64_t *hi) {
  API_CHANGES(cx, false);
  if (!e) return false;
  Arena *a = arena_new();
  SymRange r = sym_range(cx->cx->sym, gather(cx, a, facts, nfacts), api_sym(e));
  arena_free(a);
  *lo = r.lo;
  *hi = r.hi;
  return true;
}

bool wv_expr_eval(wv_ctx *cx, wv_expr e, const wv_binding *b, int n, int64_t *out) {
  API_CHANGES(cx, false);
  if (!has_bindings(cx, b, n)) return false;
  Arena *a = arena_new();
  bool ok = e && sym_eval(api_sym(e), bindings_of(a, b, n), n, out);
  arena_free(a);
  return ok;
}
