/* test_sym_build.c: canonical form, errors, text, substitution. */
#include "harness.h"
#include "sym/sym.h"

typedef struct Env {
  SymCtx *cx;
  Arena *arena;
} Env;

static Env env_new(void) { return (Env){sym_ctx_new(), arena_new()}; }

static void env_free(Env *e) {
  sym_ctx_free(e->cx);
  arena_free(e->arena);
}

static const Sym *parse(Env *e, const char *text) {
  return sym_parse(e->cx, text, strlen(text), NULL);
}
static const char *show(Env *e, const Sym *s) {
  return s ? sym_text(e->arena, s) : sym_error(e->cx);
}

#define SHOWS(text, want) CHECK_STR(show(&e, parse(&e, text)), want)

TEST(equal_expressions_are_the_same_pointer) {
  Env e = env_new();
  CHECK(parse(&e, "a + b*c") == parse(&e, "c*b + a"));
  CHECK(parse(&e, "(a + b)*(a - b)") == parse(&e, "a**2 - b**2"));
  CHECK(parse(&e, "x < 256") == parse(&e, "x <= 255"));
  CHECK(parse(&e, "~(x < 256)") == parse(&e, "x >= 256"));
  CHECK(parse(&e, "Piecewise((a, x < 4), (b, True))") ==
        parse(&e, "Piecewise((b, x >= 4), (a, True))"));
  CHECK(parse(&e, "Max(a, b, a)") == parse(&e, "Max(b, a)"));
  CHECK(parse(&e, "x") != parse(&e, "signed(x)"));
  CHECK(parse(&e, "x // 4") == parse(&e, "floor(x/4)"));
  CHECK(parse(&e, "x % 4") == parse(&e, "Mod(x, 4)"));
  env_free(&e);
}

TEST(rationals_stay_exact) {
  Env e = env_new();
  SHOWS("BLOCK_M/2 + BLOCK_M/2", "BLOCK_M");
  SHOWS("K/32*64", "2*K");
  SHOWS("7/2", "7/2");
  SHOWS("(x + y)/4", "(x + y)/4");
  const Sym *symbol;
  int64_t n, d;
  CHECK(sym_scaled_symbol(parse(&e, "3*K/32"), &symbol, &n, &d));
  CHECK_STR(sym_name(symbol), "K");
  CHECK_INT(n, 3);
  CHECK_INT(d, 32);
  CHECK(!sym_scaled_symbol(parse(&e, "H*C"), &symbol, &n, &d));
  CHECK(sym_is_integer(parse(&e, "floor(x/2)")) && !sym_is_integer(parse(&e, "x/2")));
  env_free(&e);
}

TEST(overflow_and_division_by_zero_are_errors) {
  Env e = env_new();
  CHECK(!parse(&e, "x*9223372036854775807*2"));
  CHECK(strstr(sym_take_error(e.cx), "64 bits") != NULL);
  CHECK_STR(sym_error(e.cx), "");
  CHECK(!parse(&e, "9223372036854775808"));
  CHECK(!parse(&e, "x/0"));
  CHECK_STR(sym_error(e.cx), "division by zero");
  CHECK(!sym_mod(e.cx, parse(&e, "x"), sym_int(e.cx, 0)));
  CHECK(!sym_int(e.cx, INT64_MIN));
  CHECK(!sym_add(e.cx, NULL, sym_int(e.cx, 1)));
  const Sym *big = sym_int(e.cx, INT64_MAX);
  CHECK(!sym_add(e.cx, big, sym_int(e.cx, 1)) && !sym_mul(e.cx, big, big) &&
        sym_sub(e.cx, big, big) == sym_int(e.cx, 0));
  env_free(&e);
}

TEST(names_and_text) {
  Env e = env_new();
  SHOWS("$T0 + N_Q.2", "$T0 + N_Q.2");
  SHOWS("`$ARGC*HF*WF` + 1", "`$ARGC*HF*WF` + 1");
  SHOWS("signed(`a b`)", "signed(`a b`)");
  SHOWS("`floor`", "`floor`");
  CHECK_STR(sym_name(parse(&e, "`a``b`")), "a`b");
  SHOWS("`a``b`", "`a``b`");
  SHOWS("M > 0", "M >= 1");
  SHOWS("(x < 4) & (y < 5) | Eq(z, 1)", "Eq(z, 1) | (x < 4) & (y < 5)");
  SHOWS("-x**2", "-x**2");
  SHOWS("x**-1", "1/x");
  SHOWS("2*x/(3*y)", "2*x/(3*y)");
  SHOWS("x*(y + z)/K", "x*(y + z)/K");
  SHOWS("b - a", "b - a");
  env_free(&e);
}

TEST(bad_text_says_where) {
  Env e = env_new();
  size_t at = 0;
  CHECK(!sym_parse(e.cx, "floor(x", 7, &at));
  CHECK_INT((long long)at, 7);
  CHECK_STR(sym_error(e.cx), "expected `)` at column 8");
  CHECK(!sym_parse(e.cx, "x + frob(2)", 11, &at));
  CHECK_INT((long long)at, 4);
  CHECK(!parse(&e, "x y") && !parse(&e, "") && !parse(&e, "x +") && !parse(&e, "Mod(x)") &&
        !parse(&e, "x**y"));
  char deep[2001];
  memset(deep, '(', 2000);
  deep[2000] = 0;
  CHECK(!parse(&e, deep));
  CHECK(strstr(sym_error(e.cx), "deeply") != NULL);
  env_free(&e);
}

TEST(operands_rebuild_the_expression) {
  Env e = env_new();
  static const char *const texts[] = {"3*x*y + z/2 + 5",
                                      "x**3",
                                      "-2*x**2*y",
                                      "floor(x/3)",
                                      "Mod(x, N)",
                                      "Max(a, b, 3)",
                                      "Piecewise((a, x < 4), (b, True))",
                                      "xor(a, b)",
                                      "(a < b) & (c < 4)",
                                      "Ne(a, b)"};
  for (size_t i = 0; i < WV_LEN(texts); i++) {
    const Sym *s = parse(&e, texts[i]), *args[8];
    for (int k = 0; k < sym_nargs(s); k++) args[k] = sym_arg(e.cx, s, k);
    CHECK(sym_build(e.cx, sym_kind(s), args, sym_nargs(s)) == s);
  }
  env_free(&e);
}

TEST(substitution_is_simultaneous) {
  Env e = env_new();
  const Sym *x = parse(&e, "x"), *y = parse(&e, "y");
  SymBinding swap[] = {{x, y}, {y, x}};
  CHECK_STR(show(&e, sym_subst(e.cx, parse(&e, "x - 2*y + floor(x/8)"), swap, 2)),
            "y - 2*x + floor(y/8)");
  SymBinding value = {x, sym_int(e.cx, 19)};
  CHECK(sym_subst(e.cx, parse(&e, "floor(x/8) + Mod(x, 8)"), &value, 1) == sym_int(e.cx, 5));
  env_free(&e);
}

TEST(chained_values_are_resolved) {
  Env e = env_new();
  SymBinding chain[] = {{parse(&e, "S"), parse(&e, "K/32")},
                        {parse(&e, "K"), parse(&e, "2*B")},
                        {parse(&e, "B"), sym_int(e.cx, 4096)}};
  CHECK(sym_resolve_bindings(e.cx, chain, 3));
  CHECK(chain[0].to == sym_int(e.cx, 256));
  SymBinding cycle[] = {{parse(&e, "A"), parse(&e, "B + 1")},
                        {parse(&e, "B"), parse(&e, "C")},
                        {parse(&e, "C"), parse(&e, "A")}};
  CHECK(!sym_resolve_bindings(e.cx, cycle, 3));
  CHECK_STR(sym_error(e.cx), "values depend on each other in a cycle: A -> B -> C -> A");
  env_free(&e);
}

TEST(free_symbols_in_order) {
  Env e = env_new();
  const Sym *out[4], *s = parse(&e, "floor(b/2) + a*c + Mod(b, a)");
  CHECK_INT(sym_free_symbols(s, out, 4), 3);
  CHECK(sym_contains(s, parse(&e, "c")) && !sym_contains(s, parse(&e, "d")));
  CHECK_INT(sym_free_symbols(s, NULL, 0), 3);
  env_free(&e);
}

/* However many there are, and however large the expression is: shared parts are visited once. */
TEST(free_symbols_of_large_expressions) {
  Env e = env_new();
  const Sym *out[40], *s = sym_int(e.cx, 0);
  for (int i = 0; i < 40; i++) {
    const Sym *x = sym_symbol(e.cx, arena_printf(e.arena, "s%d", i), true);
    s = sym_add(e.cx, s, sym_mod(e.cx, x, sym_int(e.cx, 7)));
  }
  CHECK_INT(sym_free_symbols(s, out, 40), 40);
  CHECK_INT(sym_free_symbols(s, out, 2), 40);
  for (int i = 0; i < 60; i++) s = sym_mod(e.cx, sym_mul(e.cx, s, s), sym_add(e.cx, s, out[0]));
  CHECK(s && sym_size(s) > 1u << 20);
  CHECK_INT(sym_free_symbols(s, out, 40), 40);
  env_free(&e);
}

TESTS_MAIN(RUN(equal_expressions_are_the_same_pointer) RUN(rationals_stay_exact)
               RUN(overflow_and_division_by_zero_are_errors) RUN(names_and_text)
                   RUN(bad_text_says_where) RUN(operands_rebuild_the_expression)
                       RUN(substitution_is_simultaneous) RUN(chained_values_are_resolved)
                           RUN(free_symbols_in_order) RUN(free_symbols_of_large_expressions))
