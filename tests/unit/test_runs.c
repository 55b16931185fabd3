/* runs.h, compared with counting: the iterations of earlier runs of a loop or an op inside others, where these
 * are executed for some sizes; and what keeps them from being counted. */
#include "analysis/runs.h"

#include "analysis/analysis.h"
#include "ir/region_facts.h"
#include "unit/eval_kit.h"

enum { VALUES = 8 };

typedef struct Count {
  Harness *harness;
  const Distribution *d;
  Arena *arena;
  SymBinding values[VALUES];
  int nvalues;
  const Op *op;
  Runs runs;
  int64_t before; /* that were executed */
} Count;

static int64_t value_of(const Count *c, const Sym *e) {
  Harness *harness = c->harness;
  int64_t v = -1;
  CHECK(e != NULL && sym_eval(e, c->values, c->nvalues, &v));
  return v;
}

static void execute(Count *c, const Region *r);

static void execute_loop(Count *c, const Op *op) {
  const Sym *counter = ir_loop_counter(c->d->k, op_attr(op, ATTR_axis)->sym);
  int64_t trips = value_of(c, distribute_trips(c->d, op)), step = op_step(op);
  if (op == c->op) c->before += trips > 0 ? ceil_div64(trips, step) : 0;
  int at = c->nvalues++;
  for (int64_t i = 0; op != c->op && i < trips; i += step) {
    c->values[at] = (SymBinding){counter, sym_int(c->d->k->cx->sym, i)};
    execute(c, op->body);
  }
  c->nvalues = at;
}

static void execute(Count *c, const Region *r) {
  Harness *harness = c->harness;
  for (const Op *op = r->first; op; op = op->next) {
    if (op == c->op) CHECK_INT(value_of(c, c->runs.before), c->before);
    const Attr *test = op->kind == OP_if ? op_attr(op, ATTR_expr) : NULL;
    if (op->kind == OP_for) execute_loop(c, op);
    else if (op == c->op) c->before++;
    else if (op->body && (!test || value_of(c, test->sym))) execute(c, op->body);
  }
}

/* The op that the text names %x, or the loop over K. */
static const Op *find(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (op->nresults && op->results[0].name && strcmp(op->results[0].name, "x") == 0) return op;
    if (op->kind == OP_for && strcmp(sym_name(op_attr(op, ATTR_axis)->sym), "K") == 0) return op;
  }
  return NULL;
}

#define HEAD                                                                                       \
  "kernel @k(%%p: mem<M, T, N, K, i64>)\n"                                                         \
  "  workgroup M by 64 on 0; tile T by 1; tile N by 8; hardware threads 64, vector {T: 0}\n"       \
  "  tile K by 4 %s\n{ %%v = scalar 3 : i64\n %s }\n"

static Lab open_loops(Arena *a, const char *row, const char *body, Count *c) {
  char text[2048];
  snprintf(text, sizeof text, HEAD, row, body);
  Lab l = lab_open(text);
  if (!l.k) return l;
  ir_renumber(l.k);
  c->arena = a;
  c->d = facts_of(l.k, a, FACT_distribute).distribute;
  c->op = find(l.k);
  c->runs = c->op->kind == OP_for ? runs_of(c->d, c->op) : runs_of_op(c->d, c->op);
  return l;
}

static void check_counts(Harness *harness, const char *row, const char *body) {
  static const char *const names[] = {"M", "T", "N", "K"};
  static const int64_t sizes[][4] = {{64, 3, 24, 20}, {64, 1, 8, 4}, {64, 4, 30, 7}, {64, 2, 0, 5}};
  Arena *a = arena_new();
  Count c = {.harness = harness};
  Lab l = open_loops(a, row, body, &c);
  CHECK(l.k != NULL && c.runs.before != NULL && !c.runs.why);
  for (size_t s = 0; l.k && c.runs.before && s < WV_LEN(sizes); s++) {
    c.before = c.nvalues = 0;
    for (int i = 0; i < 4; i++)
      c.values[c.nvalues++] =
          (SymBinding){sym_symbol(l.cx->sym, names[i], true), sym_int(l.cx->sym, sizes[s][i])};
    execute(&c, l.k->body);
    if (c.runs.all) CHECK_INT(value_of(&c, c.runs.all), c.before);
  }
  lab_close(&l);
  arena_free(a);
}

static const char *why(const char *row, const char *body) {
  static char text[256];
  Arena *a = arena_new();
  Count c = {0};
  Lab l = open_loops(a, row, body, &c);
  snprintf(text, sizeof text, "%s", !l.k ? "no kernel" : c.runs.why ? c.runs.why : "counted");
  lab_close(&l);
  arena_free(a);
  return text;
}

#define UNEVEN "does not run as often each time, nor more or less often by the same number"
#define SOMETIMES "runs in some iterations of another loop and not in others"

TEST(loops) {
  check_counts(harness, "", "for K { }");
  check_counts(harness, "", "for T { for K { } }");
  check_counts(harness, "", "for T { for N { for K { } } }");
  check_counts(harness, "iters K + 3*$ARGN", "for N { for K { } }");
  check_counts(harness, "iters K + $ARGT", "for T { for N { for K { } } }");
  check_counts(harness, "iters K", "for T { for K with {step = 3} { } }");
  check_counts(harness, "", "for T { if (M > 3) { for K { } } }");
}

TEST(other_ops) {
  check_counts(harness, "", "%x = scalar 1 : i64");
  check_counts(harness, "", "for T { %x = scalar 1 : i64 }");
  check_counts(harness, "", "for T { for N { %x = scalar 1 : i64 } }");
  check_counts(harness, "", "for T { for N with {step = 2} { %x = scalar 1 : i64 } }");
}

/* Another value each time, for all that is known; but one that is set before the loop is the same. */
TEST(symbols_that_are_set) {
  CHECK_STR(why("iters L", "for T { set_symbol L %v\n for K { } }"), UNEVEN);
  CHECK_STR(why("iters L", "for T { set_symbol L %v\n for N { for K { } } }"), UNEVEN);
  CHECK_STR(why("iters K + L", "for T { set_symbol L %v\n for N { for K { } } }"), UNEVEN);
  CHECK_STR(why("iters L", "set_symbol L %v\n for T { for K { } }"), "counted");
  CHECK_STR(why("iters L", "for T { for K { }\n set_symbol L %v }"), "counted");
  CHECK_STR(why("", "for T { set_symbol L %v\n if (L > 3) { for K { } } }"), SOMETIMES);
  CHECK_STR(why("", "for T { set_symbol L %v\n if (L > 3) { for N { for K { } } } }"), SOMETIMES);
  CHECK_STR(why("", "for T { set_symbol L %v\n if (L > 3) { %x = scalar 1 : i64 } }"), SOMETIMES);
  CHECK_STR(why("", "set_symbol L %v\n for T { if (L > 3) { for K { } } }"), "counted");
}

TEST(conditions) {
  CHECK_STR(why("", "for T { if ($ARGT > 3) { for K { } } }"), SOMETIMES);
  CHECK_STR(why("", "for T { if (M > 3) { %x = scalar 1 : i64 } }"), "counted");
}

/* A number that the loops carry. */
TEST(earlier_runs_that_are_counted) {
  Arena *a = arena_new();
  Count c = {.harness = harness};
  Lab l = open_loops(a, "iters L + 3*$ARGT*$ARGT",
                     "for T { set_symbol L %v\n for K with {earlier = L + 1} { } }", &c);
  CHECK(l.k && !c.runs.why && !c.runs.all);
  CHECK_STR(sym_text(a, c.runs.before), "signed(L.2) + 1");
  lab_close(&l);
  arena_free(a);
}

TESTS_MAIN(RUN(loops) RUN(other_ops) RUN(symbols_that_are_set) RUN(conditions)
               RUN(earlier_runs_that_are_counted))
