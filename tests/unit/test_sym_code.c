/* test_sym_code.c: evaluation, compiled programs, boxes, lowering. */
#include "sym_kit.h"

/* Of an expression in x and y. */
static bool eval(Env *e, const char *text, int64_t x, int64_t y, int64_t *out) {
  SymBinding env[] = {{parse(e, "x"), sym_int(e->cx, x)}, {parse(e, "y"), sym_int(e->cx, y)}};
  return sym_eval(parse(e, text), env, 2, out);
}

TEST(values) {
  Env e = env_new();
  int64_t v = 0;
  CHECK(eval(&e, "floor((x - 7)/4) + Mod(-x, 5)", 3, 0, &v));
  CHECK_INT(v, -1 + 2);
  CHECK(eval(&e, "Piecewise((x/y, y > 0), (-1, True))", 6, 0,
             &v)); /* the branch not taken divides by 0 */
  CHECK_INT(v, -1);
  CHECK(eval(&e, "Piecewise((x/y, y > 0), (-1, True))", 6, 3, &v));
  CHECK_INT(v, 2);
  CHECK(eval(&e, "(y < 4) | (x/y < 1)", 6, 0, &v) && v == 1);
  CHECK(!eval(&e, "x/y", 6, 0, &v));
  CHECK(!eval(&e, "x/2", 3, 0, &v)); /* not an integer */
  CHECK(!eval(&e, "x*y", INT64_MAX / 2, 5, &v));
  CHECK(eval(&e, "Min(7*x, x/y) < y**4", 72, 9690, &v) && v == 1); /* nor does the difference */
  CHECK(eval(&e, "x + y**2*x**4/65536", 2496, 1850, &v)); /* y**2*x**4 alone does not fit */
  CHECK(!eval(&e, "x + z", 1, 2, &v));                    /* unbound */
  env_free(&e);
}

TEST(programs_share_and_are_lazy) {
  Env e = env_new();
  const Sym *exprs[] = {parse(&e, "floor(x/(y + 1)) + x*y"), parse(&e, "x*y + 1"),
                        parse(&e, "Piecewise((Mod(x, y), y > 0), (7, True))")};
  const Sym *vars[] = {parse(&e, "x"), parse(&e, "y")};
  SymProgram *p = sym_compile(e.arena, e.cx, exprs, 3, vars, 2);
  CHECK(p != NULL);
  int64_t *slots = ARENA_ARRAY(e.arena, int64_t, sym_program_slots(p)), out[3];
  CHECK(sym_run(p, (const int64_t[]){17, 4}, slots, out));
  CHECK_INT(out[0], 3 + 68);
  CHECK_INT(out[1], 69);
  CHECK_INT(out[2], 1);
  CHECK(sym_run(p, (const int64_t[]){17, 0}, slots, out));
  CHECK_INT(out[2], 7);
  CHECK(!sym_run(p, (const int64_t[]){17, -1}, slots, out));
  CHECK(!sym_compile(e.arena, e.cx, exprs, 3, vars, 1)); /* y is not a variable */
  env_free(&e);
}

/* The values of a text at points with x in -2 .. 2, y in 10 .. 309. */
enum { POINTS = 1500, ROW = 300 };
static SymPoints at_points(Env *e, const char *text) {
  const Sym *vars[] = {parse(e, "x"), parse(e, "y")}, *s = parse(e, text);
  SymProgram *p = sym_compile(e->arena, e->cx, &s, 1, vars, 2);
  int64_t *values = ARENA_ARRAY(e->arena, int64_t, 2 * POINTS);
  for (int i = 0; i < POINTS; i++) values[i] = -2 + i / ROW, values[POINTS + i] = 10 + i % ROW;
  int64_t *scratch = ARENA_ARRAY(e->arena, int64_t, sym_program_slots(p) * POINTS);
  return sym_run_points(p, POINTS, values, scratch);
}

TEST(many_points_at_once) {
  Env e = env_new();
  SymPoints points = at_points(&e, "floor(x/2) + xor(y, 5)*x");
  for (int i = 0; i < POINTS; i += 7) {
    int64_t want;
    CHECK(eval(&e, "floor(x/2) + xor(y, 5)*x", -2 + i / ROW, 10 + i % ROW, &want));
    CHECK(!points.undefined[i]);
    CHECK_INT(points.value[i], want);
  }
  points = at_points(&e, "y//x");
  for (int i = 0; i < POINTS; i++) CHECK_INT(points.undefined[i] != 0, i / ROW == 2);
  env_free(&e);
}

/* "op op op" of the lowered expression, without constants and symbols. */
static const char *ops(Env *e, const char *text, const char *uniform) {
  static const char *const names[] = {
#define SYM_OP(name, cost, doc) #name,
#include "sym/sym_ops.def"
  };
  const Sym *s = sym_simplify(e->cx, e->f, parse(e, text)), *u = uniform ? parse(e, uniform) : NULL;
  SymCode *code = sym_code_launch(e->arena, e->cx, e->f, &s, 1, &u, u != NULL);
  StrBuf out = {.arena = e->arena};
  for (int i = 0; code && i < code->nops; i++) {
    if (code->ops[i].kind == SYM_OP_const || code->ops[i].kind == SYM_OP_symbol) continue;
    if (out.n) sb_putc(&out, ' ');
    sb_puts(&out, names[code->ops[i].kind]);
  }
  return sb_text(&out);
}

TEST(lowering_is_cheap) {
  Env e = env_new();
  CHECK(sym_assume(e.f, parse(&e, "$T0 < 256")) && sym_assume(e.f, parse(&e, "K >= 1")) &&
        sym_assume(e.f, parse(&e, "K < 65536")));
  CHECK_STR(ops(&e, "Mod($T0, 64)", NULL), "and");
  CHECK_STR(ops(&e, "floor(signed(J)/8)", NULL), "shr");
  CHECK_STR(ops(&e, "4*a + 4*b", NULL), "add shl");
  CHECK_STR(ops(&e, "K*a + K*b", NULL), "add mul");
  CHECK_STR(ops(&e, "floor($T0/3)", NULL), "div");
  CHECK_STR(ops(&e, "floor($T0/K)", NULL), "div");
  CHECK_STR(ops(&e, "floor($T0/K)", "K"), "magic shift divmagic");
  CHECK_STR(ops(&e, "floor($WG2/(K + 1))", NULL), "add div"); /* a sum divides as a symbol does */
  CHECK_STR(ops(&e, "Mod(floor($WG2/(K - 1)), 4)", "K"), "launch max div and");
  CHECK_STR(ops(&e, "Mod(floor($T0/(K - 1)), 4)", "K"), "magic shift divmagic and");
  CHECK_STR(ops(&e, "x*ceiling(K/128)", "K"), "launch mul");
  CHECK_STR(ops(&e, "ceiling(N/128)", NULL), "add shr");
  CHECK_STR(ops(&e, "floor($T0/16) + floor($T0/16)*x", NULL), "add shr mul");
  env_free(&e);
}

/* Neither divisor cancels against the other, nor against their product multiplied out. */
TEST(divisors_that_are_sums) {
  Env e = env_new();
  CHECK_STR(ops(&e, "floor(x/(K + 1) + y/(K + 1))", NULL), "add add div");
  CHECK(ops(&e, "floor(x/(K + 1) + y/(N + 2))", NULL)[0]);
  CHECK(ops(&e, "floor(x/Max(N - 4*M, 1) + y/(4*M - N))", NULL)[0]);
  CHECK(ops(&e, "Piecewise((floor(x/Max(N - 4*M, 1) + M*y/(4*M - N)), N > 4*M), (0, True))",
            NULL)[0]);
  env_free(&e);
}

TEST(lowering_knows_widths) {
  Env e = env_new();
  CHECK(sym_assume(e.f, parse(&e, "$T0 < 256")));
  const Sym *s[] = {parse(&e, "4*$T0 + 3"), parse(&e, "4*$T0 + N")};
  SymCode *code = sym_code(e.arena, e.cx, e.f, s, 2);
  CHECK_INT(code->ops[code->results[0]].bits, 32);
  CHECK_INT(code->ops[code->results[1]].bits, 64);
  CHECK(code->cost > 0);
  env_free(&e);
}

TEST(narrowing_keeps_the_low_bits) {
  Env e = env_new();
  const Sym *sum = parse(&e, "4*x + y"), *quotient = parse(&e, "floor((x + y)/3) + x");
  SymCode *code = sym_code(e.arena, e.cx, e.f, &sum, 1);
  CHECK_INT(code->ops[code->results[0]].bits, 64);
  sym_narrow(e.arena, code);
  for (int i = 0; i < code->nops; i++)
    CHECK_INT(code->ops[i].bits, code->ops[i].kind == SYM_OP_symbol ? 64 : 32);
  code = sym_code(e.arena, e.cx, e.f, &quotient, 1);
  sym_narrow(e.arena, code);
  CHECK_INT(code->ops[code->results[0]].bits, 32);
  for (int i = 0; i < code->nops; i++) /* both the dividend and the quotient are needed */
    if (code->ops[i].kind == SYM_OP_div) {
      CHECK_INT(code->ops[i].bits, 64);
      CHECK_INT(code->ops[code->ops[i].a].bits, 64);
    }
  env_free(&e);
}

TESTS_MAIN(RUN(values) RUN(programs_share_and_are_lazy) RUN(many_points_at_once)
               RUN(lowering_is_cheap) RUN(divisors_that_are_sums) RUN(lowering_knows_widths)
                   RUN(narrowing_keeps_the_low_bits))
