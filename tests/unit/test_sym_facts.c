/* test_sym_facts.c: proofs, ranges, congruences, linear forms. */
#include "sym_kit.h"

static bool assume(Env *e, const char *text) { return sym_assume(e->f, parse(e, text)); }
static SymTruth prove(Env *e, const char *text) { return sym_prove(e->cx, e->f, parse(e, text)); }

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

/* Of $T0 only the ends are tried, unless a fact excludes one of them. */
TEST(enumeration_of_ends) {
  Env e = env_new();
  CHECK(assume(&e, "$T0 < 200") && assume(&e, "$T1 < 132"));
  CHECK(prove(&e, "$T0 + 200*Mod(5*$T1, 7) < 1400") == SYM_ALWAYS);
  CHECK(prove(&e, "$T0 + 200*Mod(5*$T1, 7) < 1399") == SYM_UNKNOWN);
  CHECK(prove(&e, "200*Mod(5*$T1, 7) - $T0 > -200") == SYM_ALWAYS);
  CHECK(prove(&e, "200*Mod(5*$T1, 7) - $T0 > 1200") == SYM_NEVER);
  CHECK(prove(&e, "200*Mod(5*$T1, 7) - $T0 > -199") == SYM_UNKNOWN);
  CHECK(assume(&e, "Mod($T0*$T0, 5) != 1")); /* not 199 */
  CHECK(prove(&e, "$T0 + 200*Mod(5*$T1, 7) < 1399") == SYM_ALWAYS);
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

/* An element of a tensor is before its end, which has a bound, although M and K have none. */
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

TEST(products_of_rounded_sizes) {
  Env e = env_new();
  CHECK(assume(&e, "M*N <= 65536") && assume(&e, "M <= 4194304") && assume(&e, "N <= 4194304"));
  CHECK(assume(&e, "K*M*N <= 1000000"));
  SymRange r = sym_range(e.cx, e.f, parse(&e, "ceiling(M/64)*ceiling(N/128)"));
  CHECK_INT(r.lo, 0);
  CHECK_INT(r.hi, (65536 + (127 + 63) * INT64_C(4194304) + 63 * 127) / (64 * 128));
  r = sym_range(e.cx, e.f, parse(&e, "K*ceiling(M/64)*floor(N/128)")); /* K has no bound */
  CHECK_INT(r.lo, 0);
  CHECK_INT(r.hi, 1000000 / 128);
  r = sym_range(e.cx, e.f, parse(&e, "ceiling(M/64)*ceiling(signed(j)/64)"));
  CHECK(r.hi == SYM_MAX_INF);
  env_free(&e);
}

/* 2^27 tiles would be a bound that fits 32 bits, but not 128 rows of each. */
TEST(multiples_of_products_of_rounded_sizes) {
  Env e = env_new();
  CHECK(assume(&e, "M*N <= 1048576") && assume(&e, "M <= 1048576") && assume(&e, "N <= 1048576"));
  int64_t tiles = (1048576 + (127 + 63) * INT64_C(1048576) + 63 * 127) / (64 * 128);
  CHECK_INT(sym_range(e.cx, e.f, parse(&e, "ceiling(M/64)*ceiling(N/128)")).hi, tiles);
  CHECK_INT(sym_range(e.cx, e.f, parse(&e, "128*ceiling(M/64)*ceiling(N/128)")).hi, 128 * tiles);
  CHECK(prove(&e, "128*ceiling(M/64)*ceiling(N/128) < 2147483648") == SYM_ALWAYS);
  CHECK(prove(&e, "128*ceiling(M/64)*ceiling(N/128) < 1048576") == SYM_UNKNOWN);
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
  CHECK(prove(&e, "Mod(M*M, 4) < 2") == SYM_UNKNOWN); /* M has no range: no guess */
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

/* ---- lasting facts ---- */

static SymFacts *extend(Env *e, const SymFacts *parent, const char *first, const char *second) {
  SymFacts *f = sym_facts_new(e->arena, e->cx, parent);
  sym_assume(f, parse(e, first));
  if (second) sym_assume(f, parse(e, second));
  return f;
}

static bool proves(Env *e, const SymFacts *f, const char *text) {
  return sym_proves(e->cx, f, parse(e, text));
}

TEST(histories_do_not_mix) {
  Env e = env_new();
  const SymFacts *root = sym_facts_lasting(e.arena, e.cx);
  SymFacts *a = extend(&e, root, "i < N", "N <= 64"), *b = extend(&e, root, "i < N", "N <= 32");
  SymFacts *c = extend(&e, root, "N <= 64", NULL), *d = extend(&e, root, "i < N", NULL);
  CHECK(proves(&e, a, "i < 64") && !proves(&e, a, "i < 32"));
  CHECK(proves(&e, b, "i < 32") && !proves(&e, c, "i < 64") && !proves(&e, d, "i < 64"));
  sym_assume(d, parse(&e, "N <= 32")); /* joins the history of b */
  CHECK(proves(&e, d, "i < 32") && !proves(&e, a, "i < 32"));
  SymFacts *inner = extend(&e, a, "Mod(i, 8) == 0", NULL), *again = extend(&e, a, "j < i", NULL);
  CHECK(proves(&e, inner, "Mod(i, 4) == 0") && !proves(&e, again, "Mod(i, 4) == 0"));
  CHECK(proves(&e, again, "j < 63") && !proves(&e, inner, "j < 63"));
  CHECK_INT(sym_range(e.cx, a, parse(&e, "i")).hi, 63);
  CHECK(sym_divides(e.cx, inner, 8, parse(&e, "i")) && !sym_divides(e.cx, a, 8, parse(&e, "i")));
  env_free(&e);
}

/* Ranges are learned, not kept, and an open end is a different history from a closed one. */
TEST(histories_of_ranges) {
  Env e = env_new();
  const SymFacts *root = sym_facts_lasting(e.arena, e.cx);
  const Sym *x = sym_symbol(e.cx, "x", false);
  SymFacts *f[4];
  for (int i = 0; i < 4; i++) f[i] = sym_facts_new(e.arena, e.cx, root);
  CHECK(sym_assume_range(f[0], x, 0, 7) && sym_assume_range(f[1], x, SYM_MIN_INF, 7));
  CHECK(sym_assume_range(f[2], x, 0, SYM_MAX_INF) && sym_assume_range(f[3], x, 0, 7));
  CHECK_INT(sym_range(e.cx, f[0], x).lo, 0);
  CHECK(sym_range(e.cx, f[1], x).lo == SYM_MIN_INF && sym_range(e.cx, f[2], x).hi == SYM_MAX_INF);
  CHECK_INT(sym_range(e.cx, f[3], x).hi, 7);
  CHECK(!sym_assume_range(f[0], x, 9, 9)); /* a contradiction, again when it is recalled */
  CHECK(!sym_assume_range(f[3], x, 9, 9));
  env_free(&e);
}

/* Repeating an assumption and its proofs takes no memory, and gives the same answers. */
TEST(what_was_proved_is_remembered) {
  Env e = env_new();
  Arena *proofs = arena_new();
  const SymFacts *root = sym_facts_lasting(proofs, e.cx);
  size_t bytes[3];
  for (int i = 0; i < 3; i++) {
    ArenaMark mark = arena_mark(e.arena);
    SymFacts *f = extend(&e, root, "$T0 < 64", "$G < 4");
    CHECK(proves(&e, f, "xor(4*$T0, Mod($T0, 2)) >= 4*$T0")); /* by enumeration */
    CHECK_INT(sym_range(e.cx, f, parse(&e, "K + 4*$T0 - K")).hi, 252);
    CHECK_STR(sym_text(e.arena, sym_simplify(e.cx, f, parse(&e, "Mod($T0, 64)"))), "$T0");
    arena_rewind(e.arena, mark);
    bytes[i] = arena_bytes(proofs);
  }
  CHECK(bytes[0] > 0 && bytes[1] == bytes[0] && bytes[2] == bytes[0]);
  arena_free(proofs);
  env_free(&e);
}

TEST(differences) {
  Env e = env_new();
  int64_t by = 0;
  CHECK(sym_differ_by(parse(&e, "M*N + i + 7"), parse(&e, "i + M*N - 2"), &by) && by == 9);
  CHECK(sym_differ_by(parse(&e, "12"), parse(&e, "20"), &by) && by == -8);
  CHECK(sym_differ_by(parse(&e, "x/2 + 3/2"), parse(&e, "x/2 + 1/2"), &by) && by == 1);
  CHECK(!sym_differ_by(parse(&e, "x/2 + 1/2"), parse(&e, "x/2"), &by));
  CHECK(!sym_differ_by(parse(&e, "2*i"), parse(&e, "i"), &by));
  CHECK(!sym_differ_by(parse(&e, "i + j"), parse(&e, "i"), &by));
  CHECK(!sym_differ_by(NULL, parse(&e, "i"), &by));
  CHECK(sym_numbered(e.cx, "$x", 0, true) == parse(&e, "$x0"));
  CHECK(sym_numbered(e.cx, "$x", 2147483647, true) == parse(&e, "$x2147483647"));
  env_free(&e);
}

TESTS_MAIN(RUN(ranges) RUN(congruences_tighten_intervals) RUN(enumeration_of_ends)
               RUN(two_congruences_meet) RUN(relations_are_transitive)
                   RUN(products_that_have_a_bound) RUN(facts_extend_a_parent)
                       RUN(any_boolean_is_a_fact) RUN(small_boxes_are_decided_exactly)
                           RUN(products_of_rounded_sizes)
                               RUN(multiples_of_products_of_rounded_sizes) RUN(linear_forms)
                                   RUN(histories_do_not_mix) RUN(histories_of_ranges)
                                       RUN(what_was_proved_is_remembered) RUN(differences))
