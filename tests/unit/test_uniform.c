/* uniform.h: the level of every value of a few kernels, by its name. */
#include "analysis/analysis.h"
#include "unit/eval_kit.h"

static const char *const level_names[] = {"grid", "workgroup", "wave", "varying"};

/* "x:grid y:varying ..." of all named results, and "if:..." of regions. */
static const char *levels(Arena *a, const char *text) {
  Lab l = lab_open(text);
  StrBuf out = {.arena = a};
  if (!l.k) return "no kernel";
  ir_renumber(l.k);
  const Uniformity *u = facts_of(l.k, a, FACT_uniform).uniform;
  for (const Op *op = ir_first(l.k); op; op = ir_next(op)) {
    for (int i = 0; i < op->nresults; i++)
      sb_printf(&out, "%s:%s ", op->results[i].name,
                level_names[u->values[op->results[i].id].level]);
    if (op->body)
      sb_printf(&out, "%s:%s ", op_info[op->kind].name, level_names[u->regions[op->id].level]);
  }
  lab_close(&l);
  return sb_text(&out);
}

#define HEAD                                                                                       \
  "kernel @k(%a: mem<M, N, i32>, %n: i32)\n"                                                       \
  "workgroup M by 64 on 0; workgroup B by 1 on 1; tile N by 4; hardware threads 64\n"

static void check(Harness *harness, const char *body, const char *want) {
  Arena *a = arena_new();
  CHECK_STR(levels(a, body), want);
  arena_free(a);
}

TEST(values) {
  check(harness,
        HEAD
        "{ %c = scalar 4 : i32\n %s = add %c, %n\n %g = scalar $WG0 + M : i32\n"
        "%w = scalar $T1 : i32\n %t = scalar $T0 : i32\n %f = fill 1 : tile<M, i32>\n"
        "%h = add %f, %g\n %i = self_index M : tile<M, i32>\n %j = self_index B : tile<B, i32>\n"
        "%x = read %a : tile<M, N, i32>\n %y = sum %j {dim = B} }",
        "c:grid s:grid g:workgroup w:wave t:varying f:grid h:workgroup i:varying j:workgroup "
        "x:varying y:workgroup ");
}

TEST(reductions) {
  const char *rows = "kernel @k(%a: mem<M, N, f32>)\n"
                     "workgroup M by 1 on 1; workgroup N by 256 on 0; wave N by 64\n"
                     "hardware threads 64\n";
  const char *body = "{ %x = read %a\n %s = sum %x {dim = N}\n %b = sum %x {dim = N, block} }";
  char text[512];
  snprintf(text, sizeof text, "%s%s", rows, body);
  check(harness, text, "x:varying s:wave b:workgroup ");
}

/* A carried value is at best as uniform as in its worst iteration; the result of a region, as the
 * condition. */
TEST(regions) {
  check(harness,
        HEAD "{ %z = scalar 0 : i32\n"
             "%r = for N carry %c = %z { %t = scalar $T0 : i32\n %d = add %c, %t\n yield %d }\n"
             "%q = for N carry %e = %z { %o = scalar 1 : i32\n %f = add %e, %o\n yield %f }\n"
             "%v = if ($T0 < 3) carry %g = %z { %o2 = scalar 2 : i32\n yield %o2 }\n"
             "if (N > 3) { for N { %p = scalar $ARGN : i32 } } }",
        "z:grid r:varying for:grid t:varying d:varying q:grid for:grid o:grid f:grid v:varying "
        "if:varying "
        "o2:grid if:grid for:grid p:workgroup ");
}

TEST(set_symbols) {
  check(harness,
        HEAD "{ %i = self_index M : tile<M, i32>\n set_symbol S %i\n"
             "if (S > 3) { %x = scalar 1 : i32 }\n"
             "set_symbol S %n\n if (S > 3) { %y = scalar S : i32 } }",
        "i:varying if:varying x:grid if:workgroup y:workgroup ");
}

TEST(requirement) {
  Lab l = lab_open(HEAD "{ if ($T0 < 3) { workgroup_barrier } }");
  Arena *a = arena_new();
  ir_renumber(l.k);
  const Uniformity *u = facts_of(l.k, a, FACT_uniform).uniform;
  const Op *barrier = ir_first(l.k)->body->first;
  CHECK(uniform_require(u, ir_first(l.k), UNIFORM_WORKGROUP));
  CHECK(!uniform_require(u, barrier, UNIFORM_WORKGROUP));
  CHECK(l.cx->diags.last->code == DIAG_E0607);
  CHECK_STR(l.cx->diags.last->notes->text, "`$T0` differs between threads");
  arena_free(a);
  lab_close(&l);
}

TESTS_MAIN(RUN(values) RUN(reductions) RUN(regions) RUN(set_symbols) RUN(requirement))
