/* test_api.c: a GEMM through include/wave.h alone, equal to the same GEMM written as text; and the
 * errors that the interface reports. */
#include <stdlib.h>

#include "unit/harness.h"
#include "wave.h"

static const char gemm_text[] =
    "kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"
    "  workgroup M by BLOCK_M on 0; workgroup N by BLOCK_N on 1; tile K by BLOCK_K\n"
    "  wave M by BLOCK_M / 2; wave N by BLOCK_N / 2\n"
    "  hardware threads 64, mma F32_16x16x16_F16\n"
    "  assume K > BLOCK_K * 4\n"
    "{\n"
    "  %zero = fill 0.0 : tile<M, N, f32>\n"
    "  %sum = for K carry %acc = %zero {\n"
    "    %x = read %a\n"
    "    %y = read %b\n"
    "    %next = mma %x, %y, %acc\n"
    "    yield %next\n"
    "  }\n"
    "  write %sum, %c\n"
    "}\n";

typedef struct Gemm {
  wv_ctx *cx;
  wv_builder *b;
  wv_expr m, n, k, bm, bn, bk;
} Gemm;

static wv_expr binary(wv_ctx *cx, const char *op, wv_expr a, wv_expr b) {
  return wv_expr_op(cx, op, (wv_expr[]){a, b}, 2);
}

static Gemm gemm_begin(wv_ctx *cx) {
  Gemm g = {.cx = cx, .b = wv_build(cx, "gemm", (wv_place){0})};
  g.m = wv_symbol(cx, "M", true), g.bm = wv_symbol(cx, "BLOCK_M", true);
  g.n = wv_symbol(cx, "N", true), g.bn = wv_symbol(cx, "BLOCK_N", true);
  g.k = wv_symbol(cx, "K", true), g.bk = wv_symbol(cx, "BLOCK_K", true);
  return g;
}

static void gemm_constraints(Gemm *g) {
  wv_expr two = wv_int(g->cx, 2), four = wv_int(g->cx, 4);
  wv_constraint rows[] = {
      {.kind = "workgroup", .dim = g->m, .size = g->bm, .axis = 0},
      {.kind = "workgroup", .dim = g->n, .size = g->bn, .axis = 1},
      {.kind = "tile", .dim = g->k, .size = g->bk},
      {.kind = "wave", .dim = g->m, .size = binary(g->cx, "div", g->bm, two)},
      {.kind = "wave", .dim = g->n, .size = binary(g->cx, "div", g->bn, two)},
      {.kind = "hardware", .threads = 64, .mma = {.name = "F32_16x16x16_F16"}},
      {.kind = "assume", .expr = binary(g->cx, "gt", g->k, binary(g->cx, "mul", g->bk, four))},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) wv_add_constraint(g->b, &rows[i]);
}

static wv_value *param(Gemm *g, const char *name, wv_expr d0, wv_expr d1, const char *dtype,
                       bool shared) {
  wv_expr space = shared ? wv_symbol(g->cx, "$SHARED_ADDRESS_SPACE", true) : NULL;
  wv_type t = wv_mem_type(g->cx, (wv_expr[]){d0, d1}, 2, dtype, space, NULL);
  return wv_param(g->b, name, t, NULL, (wv_place){0});
}

static wv_value *one(Gemm *g, const char *op, wv_value **args, int n) {
  wv_value *result = NULL;
  wv_op(g->b, op, args, n, NULL, 0, NULL, (wv_place){0}, &result);
  return result;
}

static wv_kernel *gemm_in_c(wv_ctx *cx) {
  Gemm g = gemm_begin(cx);
  gemm_constraints(&g);
  wv_value *a = param(&g, "a", g.m, g.k, "f16", true), *b = param(&g, "b", g.n, g.k, "f16", true);
  wv_value *c = param(&g, "c", g.m, g.n, "f32", false);
  wv_value *zero = NULL, *acc = NULL, *sum = NULL;
  wv_attr value = {.key = "value"}, axis = {.key = "axis", .expr = g.k};
  wv_op(g.b, "fill", NULL, 0, &value, 1, wv_tile_type(cx, (wv_expr[]){g.m, g.n}, 2, "f32"),
        (wv_place){0}, &zero);
  wv_begin(g.b, "for", &zero, 1, &axis, 1, (wv_place){0});
  wv_region_args(g.b, &acc, 1);
  wv_value *operands[] = {one(&g, "read", &a, 1), one(&g, "read", &b, 1), acc};
  wv_value *next = one(&g, "mma", operands, 3);
  wv_end(g.b, &next, 1, (wv_place){0}, &sum);
  one(&g, "write", (wv_value *[]){sum, c}, 2);
  return wv_finish(g.b);
}

static const char else_text[] =
    "kernel @gemm(%a: mem<M, N, f32>, %c: mem<M, N, f32>)\n"
    "  workgroup M by BLOCK_M on 0; workgroup N by BLOCK_N on 1; tile K by BLOCK_K\n"
    "  wave M by BLOCK_M / 2; wave N by BLOCK_N / 2\n"
    "  hardware threads 64, mma F32_16x16x16_F16\n  assume K > BLOCK_K * 4\n{\n"
    "  %x = read %a\n  %z = fill 0.0 : tile<M, N, f32>\n"
    "  %y = if (M > 2) carry %e = %z { %n = neg %x\n    yield %n }\n"
    "  %w = if (M <= 2) carry %f = %y { %r = abs %x\n    yield %r }\n"
    "  write %w, %c\n}\n";

/* An else is a second `if`, with the opposite condition, that carries the results of the first
 * one. */
TEST(else_in_c) {
  wv_ctx *cx = wv_ctx_new();
  Gemm g = gemm_begin(cx);
  gemm_constraints(&g);
  wv_value *a = param(&g, "a", g.m, g.n, "f32", false), *c = param(&g, "c", g.m, g.n, "f32", false);
  wv_value *x = one(&g, "read", &a, 1), *result = NULL;
  wv_attr expr = {.key = "expr", .expr = binary(cx, "gt", g.m, wv_int(cx, 2))};
  CHECK(wv_begin(g.b, "if", NULL, 0, &expr, 1, (wv_place){0}));
  wv_value *minus = one(&g, "neg", &x, 1);
  CHECK(wv_else(g.b, &minus, 1, (wv_place){0}));
  wv_value *plus = one(&g, "abs", &x, 1);
  CHECK(wv_end(g.b, &plus, 1, (wv_place){0}, &result));
  one(&g, "write", (wv_value *[]){result, c}, 2);
  wv_kernel *built = wv_finish(g.b), *parsed = NULL;
  CHECK_INT(wv_parse(cx, "else.wave", else_text, &parsed, 1), 1);
  CHECK(built && parsed && wv_equal(built, parsed));
  wv_kernel_free(built);
  wv_kernel_free(parsed);
  wv_ctx_free(cx);
}

static const char combine_text[] =
    "kernel @gemm(%a: mem<M, N, f32>, %c: mem<M, f32>)\n"
    "  workgroup M by BLOCK_M on 0; workgroup N by BLOCK_N on 1; tile K by BLOCK_K\n"
    "  wave M by BLOCK_M / 2; wave N by BLOCK_N / 2\n"
    "  hardware threads 64, mma F32_16x16x16_F16\n  assume K > BLOCK_K * 4\n{\n"
    "  %x = read %a\n  %z = scalar 0.0 : f32\n"
    "  %r = reduce %x, %z {combine = [abs $0 : f32, abs $1 : f32, add $2 $3 : f32], dim = N}\n"
    "  write %r, %c\n}\n";

/* The body of a reduction is its function: an attribute, once it has ended. */
TEST(combine_in_c) {
  wv_ctx *cx = wv_ctx_new();
  Gemm g = gemm_begin(cx);
  gemm_constraints(&g);
  wv_value *a = param(&g, "a", g.m, g.n, "f32", false), *pair[2], *sum = NULL;
  wv_type rows = wv_mem_type(cx, &g.m, 1, "f32", NULL, NULL);
  wv_value *c = wv_param(g.b, "c", rows, NULL, (wv_place){0});
  wv_value *x = one(&g, "read", &a, 1);
  wv_value *z = wv_literal(g.b, 0, 0, false, x, (wv_place){0});
  wv_attr dim = {.key = "dim", .expr = g.n};
  CHECK(wv_begin(g.b, "reduce", (wv_value *[]){x, z}, 2, &dim, 1, (wv_place){0}));
  CHECK_INT(wv_region_args(g.b, pair, 2), 2);
  pair[0] = one(&g, "abs", &pair[0], 1), pair[1] = one(&g, "abs", &pair[1], 1);
  wv_value *both = one(&g, "add", pair, 2);
  CHECK(wv_end(g.b, &both, 1, (wv_place){0}, &sum));
  one(&g, "write", (wv_value *[]){sum, c}, 2);
  wv_kernel *built = wv_finish(g.b), *parsed = NULL;
  CHECK_INT(wv_parse(cx, "combine.wave", combine_text, &parsed, 1), 1);
  CHECK(built && parsed && wv_equal(built, parsed));
  wv_kernel_free(built);
  wv_kernel_free(parsed);
  wv_ctx_free(cx);
}

TEST(combine_of_two_results) {
  wv_ctx *cx = wv_ctx_new();
  Gemm g = gemm_begin(cx);
  gemm_constraints(&g);
  wv_value *a = param(&g, "a", g.m, g.n, "f32", false), *pair[2], *sum = NULL;
  wv_value *x = one(&g, "read", &a, 1);
  wv_value *z = wv_literal(g.b, 0, 0, false, x, (wv_place){0});
  wv_attr dim = {.key = "dim", .expr = g.n};
  CHECK(wv_begin(g.b, "scan", (wv_value *[]){x, z}, 2, &dim, 1, (wv_place){0}));
  wv_region_args(g.b, pair, 2);
  CHECK(!wv_else(g.b, NULL, 0, (wv_place){0}));
  CHECK(!wv_end(g.b, pair, 2, (wv_place){0}, &sum));
  CHECK_INT(wv_diag_count(cx), 2);
  wv_abandon(g.b);
  wv_ctx_free(cx);
}

TEST(else_without_an_if) {
  wv_ctx *cx = wv_ctx_new();
  Gemm g = gemm_begin(cx);
  gemm_constraints(&g);
  wv_attr axis = {.key = "axis", .expr = g.k};
  CHECK(!wv_else(g.b, NULL, 0, (wv_place){0}));
  CHECK(wv_begin(g.b, "for", NULL, 0, &axis, 1, (wv_place){0}));
  CHECK(!wv_else(g.b, NULL, 0, (wv_place){0}));
  CHECK_INT(wv_diag_count(cx), 2);
  wv_abandon(g.b);
  wv_ctx_free(cx);
}

TEST(c_and_text_give_the_same_kernel) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *built = gemm_in_c(cx), *parsed = NULL, *again = NULL;
  CHECK(built != NULL);
  CHECK_INT(wv_parse(cx, "gemm.wave", gemm_text, &parsed, 1), 1);
  CHECK(built && parsed && wv_equal(built, parsed));
  char *text = wv_print(built);
  CHECK_INT(wv_parse(cx, "printed.wave", text, &again, 1), 1);
  CHECK(again && wv_equal(built, again));
  wv_free(text);
  CHECK_INT(wv_diag_count(cx), 0);
  wv_kernel_free(built);
  wv_kernel_free(parsed);
  wv_kernel_free(again);
  wv_ctx_free(cx);
}

static bool says(wv_ctx *cx, const char *code) {
  wv_diag d;
  bool found = false;
  for (int i = 0; wv_diag_get(cx, i, &d); i++) found |= strcmp(d.code, code) == 0;
  wv_diag_clear(cx);
  return found;
}

/* NULL, or a handle of another kind, is rejected by every function that takes one. */
TEST(handles_are_looked_at) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = gemm_in_c(cx);
  wv_program *wrong = (wv_program *)(void *)k;
  wv_instruction instruction;
  wv_resources r;
  size_t n;
  CHECK(!wv_launch(NULL, cx, NULL, 0, NULL, 0) && says(cx, "E0001"));
  CHECK(!wv_launch(wrong, cx, NULL, 0, NULL, 0) && says(cx, "E0001"));
  CHECK(!wv_launch(NULL, NULL, NULL, 0, NULL, 0) && !wv_launch(wrong, NULL, NULL, 0, NULL, 0));
  CHECK(!wv_launch_logged(NULL, cx, NULL, 0, NULL, NULL, NULL) && says(cx, "E0001"));
  CHECK(!wv_program_warm(wrong, cx, NULL, 0) && says(cx, "E0001"));
  CHECK(!wv_program_save(NULL, cx, &n) && says(cx, "E0001"));
  CHECK(!wv_program_text(wrong, cx, 0, "ir") && says(cx, "E0001"));
  CHECK(!wv_program_resources(NULL, cx, 0, 0, &r) && says(cx, "E0001"));
  CHECK(!wv_test_instruction(wrong, cx, 0, 0, &instruction) && says(cx, "E0001"));
  CHECK(!wv_test_remove(NULL, cx, 0, 0) && says(cx, "E0001"));
  CHECK(!wv_program_name(wrong) && !wv_program_target(NULL) && wv_program_kind(NULL) == 0);
  CHECK(!wv_kernel_copy((wv_kernel *)(void *)cx, cx) && says(cx, "E0001"));
  CHECK(!wv_print((wv_kernel *)(void *)cx) && !wv_verify(NULL) && !wv_compile(NULL, NULL));
  CHECK(!wv_kernel_name(NULL) && wv_kernel_nparams(NULL) == 0 && !wv_kernel_level(NULL));
  CHECK(!wv_int((wv_ctx *)(void *)k, 1) && !wv_symbol(NULL, "M", true));
  CHECK(!wv_finish(NULL) && !wv_param(NULL, "a", NULL, NULL, (wv_place){0}));
  CHECK(wv_diag_count(NULL) == 0 && wv_diag_errors(NULL) == 0 && !wv_ctx_usable(NULL));
  CHECK(!wv_report_text(NULL) && !wv_proof_text(NULL));
  wv_program_free(wrong); /* it is not a program: nothing happens */
  wv_kernel_free((wv_kernel *)(void *)cx);
  wv_ctx_free((wv_ctx *)(void *)k);
  wv_abandon((wv_builder *)(void *)k);
  CHECK_INT(wv_kernel_nparams(k), 3);
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

/* So are lists of a negative length, lists and texts that are NULL. */
TEST(lists_and_texts_are_looked_at) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = gemm_in_c(cx);
  wv_expr m = wv_symbol(cx, "M", true), none[2] = {0};
  wv_constraint row = {.kind = NULL};
  wv_value *missing[2] = {0}, *result = NULL;
  wv_place at = {0};
  wv_builder *b = wv_build(cx, "k", at);
  CHECK(!wv_eval(k, NULL, 3, NULL) && says(cx, "E0001"));
  CHECK(!wv_eval(k, NULL, -1, NULL) && says(cx, "E0001"));
  CHECK(!wv_sim(k, NULL, 3, NULL, NULL) && says(cx, "E0001"));
  CHECK(!wv_kernel_constrain(k, NULL, 2) && says(cx, "E0001"));
  CHECK(!wv_kernel_constrain(k, &row, 1) && says(cx, "E0212"));
  CHECK(!wv_kernel_constrain(k, &(wv_constraint){.kind = "bind"}, 1) && wv_diag_count(cx) > 0);
  wv_diag_clear(cx);
  CHECK(!wv_build(cx, NULL, at) && says(cx, "E0001"));
  CHECK(!wv_op(b, NULL, NULL, 0, NULL, 0, NULL, at, &result) && says(cx, "E0001"));
  CHECK(!wv_op(b, "add", NULL, 2, NULL, 0, NULL, at, &result) && says(cx, "E0001"));
  CHECK(!wv_op(b, "add", missing, 2, NULL, 0, NULL, at, &result) && says(cx, "E0001"));
  CHECK(!wv_op(b, "add", missing, -3, NULL, -1, NULL, at, NULL) && says(cx, "E0001"));
  CHECK(!wv_end(b, NULL, 1, at, NULL) && says(cx, "E0001"));
  CHECK(!wv_end(b, NULL, 0, at, NULL) && says(cx, "E0408"));
  CHECK(!wv_param(b, NULL, NULL, NULL, at) && says(cx, "E0001"));
  CHECK(!wv_symbol(cx, NULL, true) && says(cx, "E0001"));
  CHECK(!wv_expr_subst(cx, m, NULL, 1) && says(cx, "E0001"));
  CHECK(!wv_expr_op(cx, "add", none, -1) && says(cx, "E0001"));
  CHECK(!wv_expr_op(cx, "min", none, 100000) && says(cx, "E0105"));
  CHECK(!wv_program_load(cx, NULL, 8, -1) && says(cx, "E0001"));
  CHECK(wv_parse(cx, "k", "kernel @a()\n grid 1; hardware threads 64\n{\n}\n", NULL, 1) == 1);
  CHECK(wv_data_bytes(NULL, 3) == 0 && wv_data_bytes("f32", -5) == 0 && !wv_value_type(NULL));
  wv_abandon(b);
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

/* After an internal error a context rejects all calls; intact kernels can be moved to another
 * one. */
TEST(a_broken_context) {
  wv_ctx *cx = wv_ctx_new(), *other = wv_ctx_new();
  wv_kernel *k = gemm_in_c(cx), *half = wv_kernel_clone(k);
  wv_expr e = wv_expr_parse(cx, "Min(M, 3*N) + K//2 < 7");
  wv_diag d;
  wv_test_fault("malloc", 8);
  CHECK(!wv_run_passes(half, NULL));
  CHECK(wv_test_fault("malloc", 0) == 8 && !wv_ctx_usable(cx));
  CHECK(wv_diag_errors(cx) == 1 && wv_diag_get(cx, 0, &d) && strcmp(d.code, "I0003") == 0);
  CHECK(wv_ctx_saved(cx) && strstr(d.rendered, wv_ctx_saved(cx)) && strstr(d.rendered, "again"));
  CHECK(!wv_int(cx, 1) && says(cx, "E0002"));
  CHECK(!wv_kernel_clone(k) && says(cx, "E0002"));
  wv_kernel *copy = wv_kernel_copy(k, other);
  CHECK(copy && wv_verify(copy));
  CHECK(!wv_kernel_copy(half, other) && says(other, "E0002"));
  CHECK_STR(wv_expr_text(other, wv_expr_copy(other, e)), wv_expr_text(cx, e));
  CHECK(wv_expr_copy(other, e) == wv_expr_parse(other, "Min(M, 3*N) + K//2 < 7"));
  CHECK(wv_expr_hash(e) == wv_expr_hash(wv_expr_copy(other, e)));
  if (wv_ctx_saved(cx)) remove(wv_ctx_saved(cx));
  wv_kernel_free(k);
  wv_kernel_free(half);
  wv_kernel_free(copy);
  wv_ctx_free(cx);
  wv_ctx_free(other);
}

TEST(parameters_know_their_direction) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = gemm_in_c(cx);
  const char *name;
  wv_type t;
  bool output;
  CHECK_INT(wv_kernel_nparams(k), 3);
  CHECK(wv_kernel_param(k, 0, &name, &t, &output) && !output);
  CHECK_STR(name, "a");
  CHECK_STR(wv_type_text(cx, t), "mem<M, K, f16, shared>");
  CHECK(wv_kernel_param(k, 2, &name, &t, &output) && output);
  CHECK(!wv_kernel_param(k, 3, &name, &t, &output));
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

TEST(gemm_computes) {
  enum { M = 5, N = 7, K = 70 };
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = gemm_in_c(cx);
  const char *names[] = {"M", "N", "K", "BLOCK_M", "BLOCK_N", "BLOCK_K"};
  const int64_t values[] = {M, N, K, 4, 4, 16};
  wv_constraint binds[6];
  for (int i = 0; i < 6; i++)
    binds[i] = (wv_constraint){
        .kind = "bind", .dim = wv_symbol(cx, names[i], true), .size = wv_int(cx, values[i])};
  CHECK(wv_kernel_constrain(k, binds, 6));
  uint16_t a[M * K], b[N * K]; /* 1.0 and 2.0 as f16 */
  float c[M * N];
  for (int i = 0; i < M * K; i++) a[i] = 0x3c00;
  for (int i = 0; i < N * K; i++) b[i] = i / K % 2 ? 0x4000 : 0x3c00;
  wv_buffer buffers[] = {{a, "f16", 2, (int64_t[]){M, K}, NULL},
                         {b, "f16", 2, (int64_t[]){N, K}, NULL},
                         {c, "f32", 2, (int64_t[]){M, N}, NULL}};
  wv_arg args[] = {{.buffer = &buffers[0]}, {.buffer = &buffers[1]}, {.buffer = &buffers[2]}};
  CHECK(wv_eval(k, args, 3, NULL));
  for (int i = 0; i < M * N; i++) CHECK(c[i] == (i % N % 2 ? 2 * K : K));
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

/* The others are symbols like any other. */
TEST(parameters_of_a_scheduler_are_not_bound) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = gemm_in_c(cx);
  const char *names[] = {"$MMA_DELAY", "$GLOBAL_MEMORY_UNITS", "MY_DELAY", "MMA_UNITS"};
  for (int i = 0; i < 4; i++) {
    wv_constraint bind = {
        .kind = "bind", .dim = wv_symbol(cx, names[i], true), .size = wv_int(cx, 3)};
    CHECK(wv_kernel_constrain(k, &bind, 1));
    char *text = wv_print(k);
    CHECK((strstr(text, names[i]) != NULL) == (i >= 2));
    wv_free(text);
  }
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

TEST(mistakes_leave_structured_diagnostics) {
  wv_ctx *cx = wv_ctx_new();
  Gemm g = gemm_begin(cx);
  gemm_constraints(&g);
  wv_value *a = param(&g, "a", g.m, g.k, "f16", true), *out = NULL;
  wv_place at = {"kernel.py", 12, 5, 9};
  CHECK(!wv_op(g.b, "exp2", &a, 1, NULL, 0, NULL, at, &out));
  CHECK(!wv_op(g.b, "no_such_op", &a, 1, NULL, 0, NULL, at, &out));
  CHECK(!wv_op(g.b, "read", &a, 1, &(wv_attr){.key = "nope"}, 1, NULL, at, &out));
  wv_diag d;
  CHECK_INT(wv_diag_count(cx), 3);
  CHECK(wv_diag_get(cx, 0, &d));
  CHECK_STR(d.code, "E0310");
  CHECK_STR(d.severity, "error");
  CHECK_STR(d.at.file, "kernel.py");
  CHECK_INT(d.at.line, 12);
  CHECK(d.hint != NULL);
  CHECK(strncmp(d.rendered, "kernel.py:12:5: error[E0310]: ", 30) == 0);
  CHECK(!wv_diag_get(cx, 3, &d));
  CHECK(wv_finish(g.b) == NULL);
  wv_diag_clear(cx);
  CHECK_INT(wv_diag_errors(cx), 0);
  wv_ctx_free(cx);
}

TEST(bad_text_gives_no_kernel) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = NULL;
  CHECK_INT(wv_parse(cx, "bad.wave", "kernel @x( {", &k, 1), -1);
  CHECK(k == NULL && wv_diag_errors(cx) > 0);
  wv_ctx_free(cx);
}

TEST(expressions_through_the_interface) {
  wv_ctx *cx = wv_ctx_new();
  wv_expr k = wv_symbol(cx, "K", true), t0 = wv_symbol(cx, "$T0", true);
  wv_expr facts[] = {wv_expr_parse(cx, "$T0 < 256"), wv_expr_parse(cx, "Eq(Mod(K, 256), 0)"),
                     wv_expr_parse(cx, "K >= 1")};
  wv_expr zero = wv_expr_simplify(cx, binary(cx, "floordiv", t0, k), facts, 3);
  CHECK(zero == wv_int(cx, 0));
  CHECK_INT(wv_expr_prove(cx, binary(cx, "lt", t0, k), facts, 3), 1);
  CHECK_INT(wv_expr_prove(cx, binary(cx, "gt", t0, k), facts, 3), 0);
  CHECK_INT(wv_expr_prove(cx, binary(cx, "gt", k, wv_int(cx, 1000)), facts, 3), -1);
  int64_t lo, hi, v;
  CHECK(wv_expr_range(cx, t0, facts, 3, &lo, &hi) && lo == 0 && hi == 255);
  CHECK(wv_expr_eval(cx, binary(cx, "mul", k, k), &(wv_binding){k, wv_int(cx, 9)}, 1, &v) &&
        v == 81);
  wv_binding cycle[] = {{k, t0}, {t0, k}};
  CHECK(!wv_resolve(cx, cycle, 2));
  CHECK(wv_expr_parse(cx, "1 +") == NULL);
  CHECK(wv_expr_op(cx, "div", (wv_expr[]){k, wv_int(cx, 0)}, 2) == NULL);
  CHECK_INT(wv_diag_errors(cx), 3);
  wv_ctx_free(cx);
}

TEST(tables_end) {
  const char *a, *b, *c;
  wv_mma_info mma;
  int n = 0;
  while (wv_op_info(n, &a, &b, &c)) n++;
  CHECK(n > 60);
  int published = 0;
  for (n = 0; wv_mma_row(n, &mma); n++) published += mma.code != 0;
  CHECK_INT(published, 21); /* the enumerations of the public package */
  CHECK(wv_target_info(0, &a, &b) && !wv_target_info(99, &a, &b));
  CHECK(!wv_target_uses(-1) && !wv_target_uses(99));
  for (int i = 0; wv_target_info(i, &a, &b); i++) {
    bool amd = strncmp(a, "gfx", 3) == 0, toy = strncmp(a, "toy", 3) == 0;
    const char *uses = amd ? "code sim emu" : toy ? "sim" : "code sim";
    CHECK_STR(wv_target_uses(i), strcmp(a, "eval") == 0 ? "" : uses);
  }
  CHECK(wv_diag_info(0, &a, &b, &c) && !wv_diag_info(-1, &a, &b, &c));
  CHECK(wv_explain("E0203") != NULL && wv_explain("E9999") == NULL);
}

/* A chain of calls needs only one check, at its end. */
TEST(nothing_gives_nothing) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = NULL;
  int64_t v;
  CHECK_INT(wv_parse(cx, NULL, NULL, &k, 1), 0);
  CHECK(!wv_kernel_clone(k) && !wv_kernel_name(k) && !wv_print(k) && !wv_verify(k));
  CHECK(!wv_run_passes(k, NULL) && !wv_lower(k, NULL) && !wv_compile(k, NULL) && !wv_prove(k));
  CHECK(!wv_emit_ptx(k, "sm_80", false) && !wv_emit_llvm(k, "cpu", false) && !wv_kernel_level(k));
  CHECK(!wv_eval(k, NULL, 0, NULL) && !wv_sim(k, NULL, 0, NULL, NULL));
  wv_expr e = wv_expr_parse(cx, NULL), none[] = {NULL, NULL};
  CHECK(!e && !wv_expr_op(cx, NULL, NULL, 0) && !wv_expr_op(cx, "add", none, 2));
  CHECK(!wv_expr_kind(e) && !wv_expr_nargs(e) && !wv_expr_arg(cx, e, 0) && !wv_expr_name(e));
  CHECK(!wv_expr_arg(cx, wv_int(cx, 1), 0) && !wv_expr_constant(e, &v, &v) && !wv_expr_is_bool(e));
  CHECK(!wv_tile_type(cx, none, 2, "f32") && !wv_tile_type(cx, NULL, -1, "f32"));
  CHECK(!wv_type_kind(NULL) && !wv_type_dtype(NULL) && !wv_type_rank(NULL) &&
        !wv_type_dim(NULL, 0));
  CHECK(!wv_explain(NULL) && !wv_nearest(NULL, NULL, 0) && !wv_target_kind(cx, NULL));
  wv_diag_report(cx, "no such code", (wv_place){0}, "text", NULL);
  CHECK(wv_diag_errors(cx) > 0);
  size_t n = 0;
  CHECK(!wv_emit_object(NULL, "cpu", false, false, &n));
  CHECK(!wv_launch(NULL, cx, NULL, 0, NULL, 0));
  wv_ctx_free(cx);
}

TEST(tensors_that_cannot_exist) {
  static const char text[] = "kernel @copy(%a: mem<M, f32>, %b: mem<M, f32>)\n"
                             "  workgroup M by 64 on 0; hardware threads 64, vector {M: 64}\n"
                             "{\n  %x = read %a\n  write %x, %b\n}\n";
  float data[4] = {0};
  int64_t four[] = {4}, below[] = {-1}, huge[] = {INT64_MAX, INT64_MAX};
  const wv_buffer bad[] = {{data, NULL, 1, four, NULL},   {data, "f33", 1, four, NULL},
                           {data, "f32", -1, four, NULL}, {data, "f32", 99, four, NULL},
                           {data, "f32", 1, NULL, NULL},  {data, "f32", 1, below, NULL},
                           {data, "f32", 2, huge, NULL},  {NULL, "f32", 1, four, NULL}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    for (int lanes = 0; lanes < 2; lanes++) {
      wv_ctx *cx = wv_ctx_new();
      wv_kernel *k = NULL;
      CHECK_INT(wv_parse(cx, "copy", text, &k, 1), 1);
      CHECK(!lanes || wv_lower(k, &(wv_pass_options){.target = "gfx942"}));
      wv_arg args[] = {{.buffer = &bad[i]}, {.buffer = &bad[i]}};
      CHECK(!(lanes ? wv_sim(k, args, 2, NULL, NULL) : wv_eval(k, args, 2, NULL)));
      CHECK(wv_diag_errors(cx) > 0);
      wv_kernel_free(k);
      wv_ctx_free(cx);
    }
}

TESTS_MAIN(RUN(c_and_text_give_the_same_kernel) RUN(else_in_c) RUN(combine_in_c)
               RUN(combine_of_two_results) RUN(else_without_an_if) RUN(handles_are_looked_at)
                   RUN(lists_and_texts_are_looked_at) RUN(a_broken_context)
                       RUN(parameters_know_their_direction) RUN(gemm_computes)
                           RUN(parameters_of_a_scheduler_are_not_bound)
                               RUN(mistakes_leave_structured_diagnostics)
                                   RUN(bad_text_gives_no_kernel)
                                       RUN(expressions_through_the_interface) RUN(tables_end)
                                           RUN(nothing_gives_nothing)
                                               RUN(tensors_that_cannot_exist))
