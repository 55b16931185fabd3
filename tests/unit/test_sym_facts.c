/* test_sym_facts.c: proofs, ranges, congruences, linear forms, strides. */
#include "sym_kit.h"

static bool assume(Env *e, const char *text) { return sym_assume(e->f, parse(e, text)); }
static SymTruth prove(Env *e, const char *text) { return sym_prove(e->cx, e->f, parse(e, text)); }
static const char *stride(Env *e, const char *text, const char *symbol) {
  const Sym *s = sym_stride(e->cx, e->f, parse(e, text), parse(e, symbol), 1);
  return s ? sym_text(e->arena, s) : "none";
}

TEST(ranges) {
  Env e = env_new();
  CHECK(assume(&e, "$T0 < 256") && assume(&e, "$T1 < 4"));
  SymRange r = sym_range(e.cx, e.f, parse(&e, "64*$T1 + Mod($T0, 64) - 3"));
  CHECK_INT(r.lo, -3);
  CHECK_INT(r.hi, 252);
  r = sym_range(e.cx, e.f, parse(&e, "xor($T0, 64*$T1)"));
  CHECK_INT(r.lo, 0);
  CHECK_INT(r.hi, 255);
  r = sym_range(e.cx, e.f, parse(&e, "M*$T0"));
  CHECK_INT(r.lo, 0);
  CHECK(r.hi == SYM_MAX_INF);
  r = sym_range(e.cx, e.f, parse(&e, "Piecewise(($T0, M < 4), (-7, True))"));
  CHECK_INT(r.lo, -7);
  CHECK_INT(r.hi, 255);
  env_free(&e);
}

TEST(congruences_tighten_intervals) {
  Env e = env_new();
  CHECK(assume(&e, "Mod(K, 256) == 0") && assume(&e, "K >= 1"));
  CHECK_INT(sym_range(e.cx, e.f, parse(&e, "K")).lo, 256);
  int64_t d, r;
  sym_congruence(e.cx, e.f, parse(&e, "K/32 + 3"), &d, &r);
  CHECK_INT(d, 8);
  CHECK_INT(r, 3);
  CHECK(sym_divides(e.cx, e.f, 16, parse(&e, "K*x/8")) &&
        !sym_divides(e.cx, e.f, 64, parse(&e, "K/8")));
  CHECK(!sym_divides(e.cx, e.f, 1, parse(&e, "x/2")));
  CHECK(sym_divides(e.cx, e.f, 8,
                    parse(&e, "448*floor(x/24) + 8*Mod(x, 24)"))); /* simpler: in thirds */
  CHECK(assume(&e, "Mod(3*n, 8) == 5"));                           /* n = 7 (mod 8) */
  sym_congruence(e.cx, e.f, parse(&e, "n"), &d, &r);
  CHECK_INT(d, 8);
  CHECK_INT(r, 7);
  env_free(&e);
}

TEST(two_congruences_meet) {
  Env e = env_new();
  int64_t d, r;
  CHECK(assume(&e, "Mod(x, 4) == 3") && assume(&e, "Mod(x, 6) == 5"));
  sym_congruence(e.cx, e.f, parse(&e, "x"), &d, &r);
  CHECK_INT(d, 12);
  CHECK_INT(r, 11);
  CHECK(!assume(&e, "Mod(x, 3) == 1"));
  env_free(&e);
}

TEST(relations_are_transitive) {
  Env e = env_new();
  CHECK(assume(&e, "i < N") && assume(&e, "j <= i") && assume(&e, "N <= 100"));
  CHECK(prove(&e, "j < N") == SYM_ALWAYS);
  CHECK(prove(&e, "j >= N") == SYM_NEVER);
  CHECK(prove(&e, "N >= 1") == SYM_ALWAYS);
  CHECK(prove(&e, "j < 100") == SYM_ALWAYS);
  CHECK(prove(&e, "j < 99") == SYM_UNKNOWN);
  CHECK(prove(&e, "2*j < N + i") == SYM_ALWAYS);
  CHECK(prove(&e, "i < j") == SYM_NEVER);
  env_free(&e);
}

/* An element of a tensor lies before its end, which has a bound, though M and K have none. */
TEST(products_that_have_a_bound) {
  Env e = env_new();
  CHECK(assume(&e, "M*K <= 1000000") && assume(&e, "K <= 5000"));
  CHECK(assume(&e, "$WG0 < ceiling(M/64)") && assume(&e, "$T0 < 64"));
  SymRange r = sym_range(e.cx, e.f, parse(&e, "64*$WG0*K"));
  CHECK_INT(r.lo, 0);
  CHECK_INT(r.hi, 1000000); /* 64*$WG0 < M */
  r = sym_range(e.cx, e.f, parse(&e, "2*K*(64*$WG0 + $T0) + 7"));
  CHECK_INT(r.hi, 2 * (1000000 + 63 * 5000) + 7);
  r = sym_range(e.cx, e.f, parse(&e, "64*$WG0*signed(j)")); /* j may be negative */
  CHECK(r.hi == SYM_MAX_INF && r.lo == SYM_MIN_INF);
  r = sym_range(e.cx, e.f, parse(&e, "64*$WG0*N"));
  CHECK(r.hi == SYM_MAX_INF);
  env_free(&e);
}

TEST(facts_extend_a_parent) {
  Env e = env_new();
  CHECK(assume(&e, "j <= i"));
  SymFacts *inner = sym_facts_new(e.arena, e.cx, e.f);
  CHECK(sym_assume(inner, parse(&e, "i < 8")));
  CHECK(sym_prove(e.cx, inner, parse(&e, "j < 8")) == SYM_ALWAYS);
  CHECK(prove(&e, "j < 8") == SYM_UNKNOWN);
  CHECK(!sym_assume(inner, parse(&e, "j > 20")));
  env_free(&e);
}

TEST(any_boolean_is_a_fact) {
  Env e = env_new();
  CHECK(assume(&e, "(x < 4) | (y < 4)"));
  CHECK(prove(&e, "(x < 4) | (y < 4)") == SYM_ALWAYS);
  CHECK(prove(&e, "(x >= 4) & (y >= 4)") == SYM_NEVER);
  CHECK(assume(&e, "Ne(z, 0)"));
  CHECK(prove(&e, "z >= 1") == SYM_ALWAYS);
  env_free(&e);
}

TEST(small_boxes_are_decided_exactly) {
  Env e = env_new();
  CHECK(assume(&e, "$T0 < 64"));
  CHECK(prove(&e, "Eq(xor(xor($T0, floor($T0/8)), floor($T0/8)), $T0)") == SYM_ALWAYS);
  CHECK(prove(&e, "Mod($T0*$T0, 4) < 2") == SYM_ALWAYS);
  CHECK(prove(&e, "Mod($T0*$T0, 8) < 4") == SYM_UNKNOWN);
  CHECK(sym_equal(e.cx, e.f, parse(&e, "Mod($T0*($T0 + 1), 2)"), sym_int(e.cx, 0)) == SYM_ALWAYS);
  CHECK(prove(&e, "Mod(M*M, 4) < 2") == SYM_UNKNOWN); /* M is not ranged: no guess */
  env_free(&e);
}

TEST(linear_forms) {
  Env e = env_new();
  const Sym *symbols[] = {parse(&e, "i"), parse(&e, "j")}, *coeff[2], *rest;
  CHECK(sym_linear(e.cx, parse(&e, "K*(i + 2*j) + floor(M/4)*i + N"), symbols, 2, coeff, &rest));
  CHECK_STR(sym_text(e.arena, coeff[0]), "K + floor(M/4)");
  CHECK_STR(sym_text(e.arena, coeff[1]), "2*K");
  CHECK_STR(sym_text(e.arena, rest), "N");
  CHECK(!sym_linear(e.cx, parse(&e, "i*j"), symbols, 2, coeff, &rest));
  CHECK(!sym_linear(e.cx, parse(&e, "floor(i/2)"), symbols, 2, coeff, &rest));
  CHECK(sym_linear(e.cx, parse(&e, "i*j"), symbols, 1, coeff, &rest));
  env_free(&e);
}

TEST(strides) {
  Env e = env_new();
  CHECK(assume(&e, "$T0 < 64") && assume(&e, "$G < 4"));
  CHECK_STR(stride(&e, "K*$G + $T0", "$G"), "K");
  CHECK_STR(stride(&e, "4*$G + 16*floor($T0/16)", "$G"), "4");
  CHECK_STR(stride(&e, "floor($T0/16)", "$T0"), "none");
  CHECK_STR(stride(&e, "xor(4*$T0, 0) + $G", "$G"), "1");
  CHECK_STR(stride(&e, "floor((4*$T0 + $G)/4)", "$T0"), "1");
  CHECK_STR(stride(&e, "xor(8*$T0, Mod($T0, 2)) - Mod($T0, 2)", "$T0"), "8"); /* by enumeration */
  env_free(&e);
}

TESTS_MAIN(RUN(ranges) RUN(congruences_tighten_intervals) RUN(two_congruences_meet)
               RUN(relations_are_transitive) RUN(products_that_have_a_bound)
                   RUN(facts_extend_a_parent) RUN(any_boolean_is_a_fact)
                       RUN(small_boxes_are_decided_exactly) RUN(linear_forms) RUN(strides))
