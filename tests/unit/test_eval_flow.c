/* test_eval_flow.c: positions of workgroups, loops, conditionals and symbols of the tile evaluator,
 * and its errors. */
#include <math.h>

#include "unit/eval_kit.h"

#define ONE_GROUP "  workgroup M by 1 on 0\n  hardware threads 64, vector {M: 0}\n  bind M = 1\n"

/* ---- loops ---- */

/* Iterations 1, 3, 5 of 6 (K = 21 in tiles of 4): the last one is ragged. */
TEST(for_with_start_and_step) {
  Lab l = lab_open("kernel @f(%a: mem<K, i32>, %n: i32, %b: mem<M, i32>)\n" ONE_GROUP
                   "  tile K by 4; bind K = 21\n"
                   "{\n"
                   "  %z = fill 0 : tile<M, i32>\n"
                   "  %r = for K from %n step 2 carry %acc = %z {\n"
                   "    %x = read %a\n"
                   "    %s = sum %x {dim = K}\n"
                   "    %y = add %acc, %s\n"
                   "    yield %y\n"
                   "  }\n"
                   "  write %r, %b\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_i32, 1, 21), n = lab_number(&l, 1),
      b = lab_tensor(&l, DTYPE_i32, 1, 1);
  double want = 0;
  for (int k = 0; k < 21; k++) want += k / 4 % 2 ? get(&l, a, k) : 0;
  CHECK(lab_run(&l));
  CHECK(get(&l, b, 0) == want);
  l.args[n].integer = 6; /* no iteration: the result is the initial value */
  CHECK(lab_run(&l));
  CHECK(get(&l, b, 0) == 0);
  lab_close(&l);
}

/* The same axis twice, with another size in between; a tile made outside is used in every
 * iteration. */
TEST(two_loops_over_one_axis) {
  Lab l = lab_open("kernel @f(%a: mem<K, i32>, %b: mem<M, i32>)\n" ONE_GROUP
                   "  tile K by 4; dynamic K\n"
                   "{\n"
                   "  %z = fill 0 : tile<M, i32>\n"
                   "  %all = read %a\n"
                   "  %i = self_index K : tile<K, i32>\n"
                   "  %w = mul %i, %i\n"
                   "  %p = for K carry %acc = %z {\n"
                   "    %x = read %a\n    %y = mul %x, %w\n"
                   "    %s = sum %y {dim = K}\n    %n = add %acc, %s\n    yield %n\n"
                   "  }\n"
                   "  %five = scalar 5 : index\n"
                   "  set_symbol K %five\n"
                   "  %q = for K carry %acc2 = %p {\n"
                   "    %s2 = read %a\n"
                   "    %t = sum %s2 {dim = K}\n    %n2 = add %acc2, %t\n    yield %n2\n"
                   "  }\n"
                   "  write %q, %b\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_i32, 1, 10), b = lab_tensor(&l, DTYPE_i32, 1, 1);
  double want = 0;
  for (int k = 0; k < 10; k++) want += get(&l, a, k) * k * k + (k < 5 ? get(&l, a, k) : 0);
  CHECK(lab_run(&l));
  CHECK(get(&l, b, 0) == want);
  lab_close(&l);
}

/* Carried values that stay unchanged, and that are swapped. */
TEST(carried_values_change_places) {
  Lab l = lab_open("kernel @f(%b: mem<M, i32>, %c: mem<M, i32>)\n" ONE_GROUP
                   "  tile K by 1; bind K = 5\n"
                   "{\n"
                   "  %x = fill 1 : tile<M, i32>\n  %y = fill 2 : tile<M, i32>\n"
                   "  %p, %q, %s = for K carry %a = %x, %d = %y, %k = %x {\n"
                   "    %e = add %a, %k\n"
                   "    yield %d, %e, %k\n"
                   "  }\n"
                   "  write %p, %b\n  write %q, %c\n"
                   "}");
  int b = lab_tensor(&l, DTYPE_i32, 1, 1), c = lab_tensor(&l, DTYPE_i32, 1, 1);
  CHECK(lab_run(&l));
  int p = 1, q = 2;
  for (int k = 0; k < 5; k++) {
    int e = p + 1;
    p = q, q = e;
  }
  CHECK(get(&l, b, 0) == p && get(&l, c, 0) == q);
  lab_close(&l);
}

/* The axis of a while loop is a position in its dimension; its size stays. The carried value has
 * the axis as a batch dimension and moves with it. */
TEST(while_over_batches) {
  Lab l =
      lab_open("kernel @w(%a: mem<B, N, i32>, %b: mem<B, N, i32>, %s: mem<N, i32>, %from: i32)\n"
               "  workgroup N by 8 on 0; tile B\n  hardware threads 64, vector {B: 0, N: 8}\n"
               "  bind B = 7; bind N = 10\n"
               "{\n"
               "  %z = fill 0 : tile<B, N, i32>\n"
               "  %sum = while B as signed(B.2) (%at) from %from cond B < 7 carry %acc = %z {\n"
               "    %x = read %a\n"
               "    write %x, %b\n"
               "    %y = add %acc, %x\n"
               "    %two = scalar 2 : index\n"
               "    %next = add %at, %two\n"
               "    set_symbol B %next\n"
               "    yield %y\n"
               "  }\n"
               "  %flat = sum %sum {dim = B}\n"
               "  write %flat, %s\n"
               "}");
  int a = lab_tensor(&l, DTYPE_i32, 2, 7, 10), b = lab_tensor(&l, DTYPE_i32, 2, 7, 10);
  int s = lab_tensor(&l, DTYPE_i32, 1, 10);
  lab_number(&l, 1);
  lab_fill(&l, b, 77);
  CHECK(lab_run(&l));
  for (int n = 0; n < 10; n++) {
    double sum = 0;
    for (int i = 0; i < 7; i++) {
      bool visited = i % 2 == 1;
      CHECK(get(&l, b, i * 10 + n) == (visited ? get(&l, a, i * 10 + n) : 77));
      if (visited) sum += get(&l, a, i * 10 + n);
    }
    CHECK(get(&l, s, n) == sum);
  }
  lab_close(&l);
}

/* A flag that another workgroup would have to set. */
TEST(waiting_is_reported) {
  Lab l = lab_open("kernel @w(%flag: mem<M, i32>)\n" ONE_GROUP "  tile W\n  bind W = 1\n"
                   "{\n"
                   "  %zero = scalar 0 : index\n"
                   "  while W as signed(W.2) (%at) from %zero cond Eq(W, 0) {\n"
                   "    %x = read %flag {volatile}\n"
                   "    %y = cast %x : tile<M, index>\n"
                   "    set_symbol W %y\n"
                   "    yield\n"
                   "  }\n"
                   "}");
  int flag = lab_tensor(&l, DTYPE_i32, 1, 1);
  lab_fill(&l, flag, 1);
  CHECK(lab_run(&l));
  lab_fill(&l, flag, 0);
  CHECK_STR(lab_error(&l), "E0708");
  lab_close(&l);
}

TEST(iter_args_in_the_condition) {
  Lab l = lab_open("kernel @w(%b: mem<M, i32>)\n" ONE_GROUP "  tile W\n  bind W = 1\n"
                   "{\n"
                   "  %zero = scalar 0 : index\n  %one = scalar 1 : index\n"
                   "  %v = fill 1 : tile<M, i32>\n"
                   "  %r = while W as signed(W.2) (%at) from %zero cond signed($GET_ITER_ARG_0) < "
                   "100 carry %c = %v {\n"
                   "    %d = add %c, %c\n"
                   "    %next = add %at, %one\n"
                   "    set_symbol W %next\n"
                   "    yield %d\n"
                   "  }\n"
                   "  write %r, %b\n"
                   "}");
  int b = lab_tensor(&l, DTYPE_i32, 1, 1);
  CHECK(lab_run(&l));
  CHECK(get(&l, b, 0) == 128);
  lab_close(&l);
}

/* A value read for the next iteration: carried along its own axis it keeps its elements. */
TEST(carried_along_its_own_axis) {
  Lab l = lab_open("kernel @f(%a: mem<K, i32>, %b: mem<K, i32>)\n" ONE_GROUP
                   "  tile K by 4; bind K = 12\n"
                   "{\n"
                   "  %z = fill 7 : tile<K, i32>\n"
                   "  %r = for K carry %before = %z {\n"
                   "    write %before, %b\n"
                   "    %x = read %a\n"
                   "    yield %x\n"
                   "  }\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_i32, 1, 12), b = lab_tensor(&l, DTYPE_i32, 1, 12);
  CHECK(lab_run(&l));
  for (int k = 0; k < 12; k++) CHECK(get(&l, b, k) == (k < 4 ? 7 : get(&l, a, k - 4)));
  lab_close(&l);
}

/* ---- conditionals and symbols ---- */

TEST(conditionals) {
  Lab l = lab_open("kernel @c(%a: mem<N, i32>, %b: mem<N, i32>, %flag: i32)\n"
                   "  workgroup N by 4 on 0\n  hardware threads 64, vector {N: 4}\n  bind N = 10\n"
                   "{\n"
                   "  %x = read %a\n"
                   "  %y = if $WG0 > 0 carry %v = %x {\n"
                   "    %d = add %v, %v\n    yield %d\n"
                   "  }\n"
                   "  if %flag {\n    write %y, %b\n    yield\n  }\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_i32, 1, 10), b = lab_tensor(&l, DTYPE_i32, 1, 10);
  int flag = lab_number(&l, 0);
  lab_fill(&l, b, 77);
  CHECK(lab_run(&l));
  CHECK(get(&l, b, 3) == 77);
  l.args[flag].integer = 2;
  CHECK(lab_run(&l));
  for (int n = 0; n < 10; n++) CHECK(get(&l, b, n) == get(&l, a, n) * (n < 4 ? 1 : 2));
  lab_close(&l);
}

/* A symbol set in a region reverts at its end. */
TEST(symbols_have_scopes) {
  Lab l = lab_open("kernel @s(%b: mem<M, i32>, %c: mem<M, i32>)\n" ONE_GROUP "{\n"
                   "  %one = scalar 1 : i32\n  %two = scalar 2 : i32\n"
                   "  set_symbol X %one\n"
                   "  if X < 5 {\n"
                   "    set_symbol X %two\n"
                   "    %in = fill X * 10 : tile<M, i32>\n"
                   "    write %in, %b\n"
                   "    yield\n"
                   "  }\n"
                   "  %out = fill X * 10 : tile<M, i32>\n"
                   "  write %out, %c\n"
                   "}");
  int b = lab_tensor(&l, DTYPE_i32, 1, 1), c = lab_tensor(&l, DTYPE_i32, 1, 1);
  CHECK(lab_run(&l));
  CHECK(get(&l, b, 0) == 20 && get(&l, c, 0) == 10);
  lab_close(&l);
}

TEST(apply_expr_is_signed) {
  Lab l = lab_open("kernel @e(%a: mem<N, i32>, %b: mem<N, i32>)\n"
                   "  workgroup N by 8 on 0\n  hardware threads 64, vector {N: 8}\n  bind N = 10\n"
                   "{\n"
                   "  %x = read %a\n"
                   "  %y = apply_expr %x, %x {expr = Max(signed($APPLY_EXPR_ARG_0), 0) * N + "
                   "Mod(signed($APPLY_EXPR_ARG_1), 4)}\n"
                   "  write %y, %b\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_i32, 1, 10), b = lab_tensor(&l, DTYPE_i32, 1, 10);
  CHECK(lab_run(&l));
  for (int n = 0; n < 10; n++) {
    int x = (int)get(&l, a, n);
    CHECK_INT((int)get(&l, b, n), (x > 0 ? x : 0) * 10 + (x & 3));
  }
  lab_close(&l);
}

/* ---- positions of workgroups ---- */

/* Each element of %b says which workgroup wrote it. */
#define WHO_WROTE                                                                                  \
  "{\n  %w = fill $WG0 + 10 * $WG1 + 100 * $WG2 : tile<M, N, i32>\n  write %w, %b\n}"

TEST(reordered_workgroups) {
  Lab l = lab_open("kernel @p(%b: mem<M, N, i32>)\n"
                   "  workgroup M by 2 on 0; workgroup N by 3 on 1\n"
                   "  hardware threads 64, vector {M: 2, N: 3}\n  bind M = 4; bind N = 6\n"
                   "  reorder 0 to $WG1; reorder 1 to $WG0\n" WHO_WROTE);
  int b = lab_tensor(&l, DTYPE_i32, 2, 4, 6);
  CHECK(lab_run(&l));
  for (int m = 0; m < 4; m++)
    for (int n = 0; n < 6; n++) CHECK_INT((int)get(&l, b, m * 6 + n), n / 3 + 10 * (m / 2));
  lab_close(&l);
}

/* Two query heads share a kv head: its position uses the same id. */
TEST(secondary_with_start) {
  Lab l =
      lab_open("kernel @p(%a: mem<H, i32>, %q: mem<Q, i32>)\n"
               "  workgroup Q by 1 on 0; workgroup H by 1 on 0 start floor($WG0 / 2) secondary\n"
               "  hardware threads 64, vector {Q: 0, H: 0}\n  bind Q = 6; bind H = 3\n"
               "{\n"
               "  %x = read %a {mapping = map 2 {H: $index1} -> {Q: $index0, H: $index1}}\n"
               "  %y = sum %x {dim = H}\n"
               "  write %y, %q\n"
               "}");
  int a = lab_tensor(&l, DTYPE_i32, 1, 3), q = lab_tensor(&l, DTYPE_i32, 1, 6);
  CHECK(lab_run(&l));
  for (int i = 0; i < 6; i++) CHECK(get(&l, q, i) == get(&l, a, i / 2));
  lab_close(&l);
}

TEST(alias_follows_its_dimension) {
  Lab l = lab_open("kernel @p(%a: mem<K, i32>, %b: mem<U, i32>)\n"
                   "  workgroup K by 8 on 0; alias U of K by ceiling($ALIAS / 8)\n"
                   "  hardware threads 64, vector {K: 8}\n  bind K = 20\n"
                   "{\n"
                   "  %x = read %a\n  %s = sum %x {dim = K}\n"
                   "  %u = broadcast %s : tile<U, i32>\n"
                   "  write %u, %b\n"
                   "}");
  int a = lab_tensor(&l, DTYPE_i32, 1, 20), b = lab_tensor(&l, DTYPE_i32, 1, 3);
  CHECK(lab_run(&l));
  for (int u = 0; u < 3; u++) {
    double sum = 0;
    for (int k = u * 8; k < 20 && k < u * 8 + 8; k++) sum += get(&l, a, k);
    CHECK(get(&l, b, u) == sum);
  }
  lab_close(&l);
}

/* One device has the whole dimension, however large its tile. */
TEST(one_device) {
  Lab l = lab_open("kernel @p(%a: mem<M, i32>, %b: mem<M, i32>)\n"
                   "  workgroup M by 4 on 0; device M by 16 on 0\n"
                   "  hardware threads 64, vector {M: 4}\n  bind M = 10\n"
                   "{ %x = read %a\n  %y = add %x, %x\n  write %y, %b }");
  int a = lab_tensor(&l, DTYPE_i32, 1, 10), b = lab_tensor(&l, DTYPE_i32, 1, 10);
  CHECK(lab_run(&l));
  for (int m = 0; m < 10; m++) CHECK(get(&l, b, m) == 2 * get(&l, a, m));
  lab_close(&l);
}

/* ---- errors ---- */

typedef struct Refused {
  const char *code, *rows, *body;
} Refused;

TEST(refusals) {
  static const Refused cases[] = {
      {"E0701", "", "%t = fill $T0 : tile<N, i32>\n  write %t, %a"},
      {"E0701", "", "if $T0 < 4 {\n    yield\n  }"},
      {"E0701", "", "%x = read %a\n  set_symbol X %x"},
      {"E0701", "", "%x = read %a\n  if %x {\n    yield\n  }"},
      {"E0701", "", "%x = read %a\n  %y = extract %x {offset = [0]}"},
      {"E0701", "  wave N by 4\n", "%x = read %a\n  %y = sum %x {dim = N}"},
      {"E0701", "  bind TID = $T1\n", "%t = fill TID : tile<N, i32>\n  write %t, %a"},
      {"E0103", "", "%t = fill NOBODY : tile<N, i32>\n  write %t, %a"},
      {"E0103", "  tile L by 2\n", "for L {\n    yield\n  }"},
      {"E0706", "", "%t = self_index N/3 : tile<N/3, i32>\n  debug_log \"x\" %t"},
      {"E0709", "  assume Eq(Mod(N, 3), 0) required\n", "%x = read %a"},
      {"E0710", "  bind ZERO = 0\n", "%t = fill floor(N / ZERO) : tile<N, i32>\n  write %t, %a"},
      {"E0705", "  tile N by 2 from 8 iters 1\n",
       "%x = read %a\n  for N {\n    %d = add %x, %x\n    yield\n  }"},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    char text[600];
    snprintf(text, sizeof text,
             "kernel @r(%%a: mem<N, i32>)\n  workgroup N by 8 on 0\n"
             "  hardware threads 64, vector {N: 8}\n  bind N = 16\n%s{\n  %s\n}",
             cases[i].rows, cases[i].body);
    Lab l = lab_open(text);
    int a = lab_tensor(&l, DTYPE_i32, 1, 16);
    for (int e = 0; e < 16; e++) put(&l, a, e, e % 8);
    const char *found = lab_error(&l);
    if (strcmp(found, cases[i].code) != 0)
      printf("case %zu: %s\n%s\n", i, found, text), lab_print_errors(&l);
    CHECK_STR(found, cases[i].code);
    lab_close(&l);
  }
}

TEST(arguments_that_do_not_fit) {
  const char *text = "kernel @k(%a: mem<N, f16>, %s: f32)\n  workgroup N by 8 on 0\n"
                     "  hardware threads 64, vector {N: 8}\n  bind N = 16\n{ %x = read %a }";
  for (int i = 0; i < 4; i++) {
    Lab l = lab_open(text);
    if (i == 0) lab_tensor(&l, DTYPE_f32, 1, 16);
    else if (i == 1) lab_tensor(&l, DTYPE_f16, 2, 16, 1);
    else if (i == 2) lab_tensor(&l, DTYPE_bf16, 1, 15);
    else lab_number(&l, 3);
    lab_number(&l, 1);
    CHECK_STR(lab_error(&l), "E0702");
    lab_close(&l);
  }
  Lab l = lab_open(text);
  lab_tensor(&l, DTYPE_f16, 1, 16);
  CHECK_STR(lab_error(&l), "E0702");
  lab_close(&l);
}

/* ---- interruption ---- */

typedef struct Long {
  int n; /* the size of N */
  int calls;
  const char *body;
} Long;

typedef struct Patience {
  int asked, calls;
} Patience;

static bool has_none_left(void *user) {
  Patience *p = user;
  return ++p->asked >= p->calls;
}

/* `interrupted` is called when the body is entered, and then within each op that takes long: the
 * last of `calls` is within the last op. */
TEST(one_op_can_be_interrupted) {
#define FILLED "%x = fill 1.0 : tile<N, f32>\n  "
  static const Long cases[] = {
      {1200000, 2, "%x = read %a"},
      {200, 2,
       "%x = fill 1.0 : tile<N, K, f32>\n  %y = fill 1.0 : tile<M, K, f32>\n"
       "  %z = fill 0.0 : tile<N, M, f32>\n  %r = mma %x, %y, %z"},
      {6000, 2, "%x = read %a\n  %y, %at = topk %x {dim = N, k_dim = K}"},
      {12000, 2,
       "%x = read %a\n  %z = scalar 0 : i32\n"
       "  %r = reduce %x, %z {combine = [xor $0 $1 : i32], dim = N}"},
      {500000, 2,
       "%i = self_index N : tile<N, i32>\n"
       "  %r = apply_expr %i {expr = $APPLY_EXPR_ARG_0 + 1}"},
      {1200000, 2, "%x = fill 1.0 : tile<N, f32>"},
      {1200000, 2, "%i = self_index N : tile<N, i32>"},
      {1200000, 4, FILLED "%r = neg %x"}, /* computed, then rounded */
      {1200000, 4, FILLED "%r = add %x, %x"},
      {1200000, 3, FILLED "%r = gt %x, %x"},
      {1200000, 4, FILLED "%c = gt %x, %x\n  %r = select %c, %x, %x"},
      {1200000, 3, FILLED "%r = cast %x : tile<N, f16>"},
      {1200000, 3, FILLED "%r = bitcast %x : tile<N, i32>"},
      {1200000, 4, FILLED "%r = softsign %x"},
      {1200000, 3, FILLED "%r = sum %x {dim = N}"},
      {1200000, 4, FILLED "%r = cumsum %x {dim = N}"},
      {6000, 3, "%x = fill 1.0 : tile<N, K, f32>\n  %r = sum %x {dim = K}"},
      {6000, 3, "%x = fill 1.0 : tile<N, K, f32>\n  %r = permute %x : tile<K, N, f32>"},
  };
#undef FILLED
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    char text[600];
    Patience p = {0, cases[i].calls};
    snprintf(text, sizeof text,
             "kernel @long(%%a: mem<N, i32>)\n  workgroup B by 1 on 0; hardware threads 64\n"
             "  bind B = 1; bind N = %d; bind M = 200; bind K = 200\n{\n  %s\n}",
             cases[i].n, cases[i].body);
    Lab l = lab_open(text);
    lab_tensor(&l, DTYPE_i32, 1, cases[i].n);
    CHECK(lab_run(&l));
    l.options.interrupted = has_none_left, l.options.user = &p;
    CHECK_STR(lab_error(&l), "E0712");
    CHECK_INT(p.asked, p.calls);
    lab_close(&l);
  }
}

TESTS_MAIN(RUN(for_with_start_and_step) RUN(two_loops_over_one_axis)
               RUN(carried_values_change_places) RUN(while_over_batches) RUN(waiting_is_reported)
                   RUN(iter_args_in_the_condition) RUN(carried_along_its_own_axis) RUN(conditionals)
                       RUN(symbols_have_scopes) RUN(apply_expr_is_signed) RUN(reordered_workgroups)
                           RUN(secondary_with_start) RUN(alias_follows_its_dimension)
                               RUN(one_device) RUN(refusals) RUN(arguments_that_do_not_fit)
                                   RUN(one_op_can_be_interrupted))
