/* test_llvm_flow.c: machine code, compared with the simulator: masks, regions, expressions, moving
 * elements, allocations, atomics, matrix tiles. */
#include "unit/cpu_kit.h"

static int size_of_n;

static void fill_two(Lab *l) {
  for (int t = 0; t < l->k->params.n; t++)
    lab_tensor(l, l->k->body->args[t]->type->dtype, 1, size_of_n);
}

/* "$T" in the text becomes the type. */
static const char *with_type(Arena *a, const char *text, const char *type) {
  StrBuf out = {.arena = a};
  for (const char *at = text; *at; at++)
    if (strncmp(at, "$TYPE", 5) == 0) sb_puts(&out, type), at += 4;
    else sb_putc(&out, *at);
  return sb_text(&out);
}

static bool agrees(const char *text, const char *type, int n) {
  Arena *a = arena_new();
  size_of_n = n;
  bool ok = cpu_agrees(with_type(a, text, type), fill_two, 0);
  if (!ok) printf("with %s, %d elements\n", type, n);
  arena_free(a);
  return ok;
}

static const char *const types[] = {"f64", "f32", "f16", "i64",      "i32",     "i16",
                                    "i8",  "i4",  "i1",  "f6e2m3fn", "f4e2m1fn"};

/* Four-bit elements: sizes are even, so that no two workgroups share a byte. */
TEST(mask_of_the_whole) {
  static const char text[] = "thread kernel @k(%a: mem<N, $TYPE>, %b: mem<N, $TYPE>)\n"
                             "  launch grid (ceiling(N/8)) block (1) wave 1\n  dynamic N\n{\n"
                             "  %at = expr $WG0*8 : index\n"
                             "  %in = expr $WG0*8 + 8 <= N : i1\n"
                             "  %x = load %a, %at, %in : vec<8, $TYPE>\n"
                             "  store %x, %b, %at, %in\n}\n";
  for (size_t t = 0; t < WV_LEN(types); t++) CHECK(agrees(text, types[t], 70));
}

TEST(mask_per_element) {
  static const char text[] = "thread kernel @k(%a: mem<N, $TYPE>, %b: mem<N, $TYPE>)\n"
                             "  launch grid (ceiling(N/6)) block (1) wave 1\n  dynamic N\n{\n"
                             "  %at = expr $WG0*6 : index\n"
                             "  %m0 = expr $WG0*6 < N : i1\n  %m1 = expr $WG0*6 + 1 < N : i1\n"
                             "  %m2 = expr $WG0*6 + 2 < N : i1\n  %m3 = expr $WG0*6 + 3 < N : i1\n"
                             "  %m4 = expr $WG0*6 + 4 < N : i1\n  %m5 = expr $WG0*6 + 5 < N : i1\n"
                             "  %m = join %m0, %m1, %m2, %m3, %m4, %m5\n"
                             "  %x = load %a, %at, %m : vec<6, $TYPE>\n"
                             "  store %x, %b, %at, %m\n}\n";
  for (size_t t = 0; t < WV_LEN(types); t++) {
    CHECK(agrees(text, types[t], 16));
    CHECK(agrees(text, types[t], 2));
  }
}

/* An offset that may be odd; imm; volatile. */
TEST(odd_offsets) {
  static const char text[] = "thread kernel @k(%a: mem<N, $TYPE>, %b: mem<N, $TYPE>)\n"
                             "  launch grid (1) block (1) wave 1\n  dynamic N\n{\n"
                             "  %at = expr 1 : index\n  %zero = expr 0 : i32\n"
                             "  %x = load %a, %at {imm = 2, volatile} : vec<1, $TYPE>\n"
                             "  %y = load %a, %zero {imm = 1} : vec<1, $TYPE>\n"
                             "  %z = join %x, %y\n  %w = pick [1, 0] %z\n"
                             "  store %w, %b, %zero {imm = 4, volatile}\n}\n";
  Arena *a = arena_new();
  for (size_t t = 0; t < WV_LEN(types); t++) {
    const char *fixed = with_type(a, text, "X"); /* a vec of one is a scalar */
    StrBuf out = {.arena = a};
    for (const char *at = fixed; *at; at++)
      if (strncmp(at, "vec<1, X>", 9) == 0) sb_puts(&out, "$TYPE"), at += 8;
      else if (*at == 'X') sb_puts(&out, "$TYPE");
      else sb_putc(&out, *at);
    CHECK(agrees(sb_text(&out), types[t], 10));
  }
  arena_free(a);
}

/* Loops that swap their carried values, with any number of iterations. */
TEST(loops) {
  static const char text[] = "thread kernel @k(%a: mem<N, $TYPE>, %b: mem<N, $TYPE>)\n"
                             "  launch grid (3, 2, 2) block (1) wave 1\n  dynamic N\n{\n"
                             "  %at = expr ($WG0 + 3*$WG1 + 6*$WG2)*8 : index\n"
                             "  %x = load %a, %at : vec<8, $TYPE>\n  %one = pick [0] %x\n"
                             "  %r, %s = for K with {trips = $WG0} carry %p = %x, %q = %one {\n"
                             "    %u = add %p, %q\n    %first = pick [3] %p\n"
                             "    %w = for J with {trips = $ARGK + $WG1} carry %v = %u {\n"
                             "      %n = sub %v, %first\n      yield %n\n    }\n"
                             "    yield %w, %first\n  }\n"
                             "  %t = add %r, %s\n  store %t, %b, %at\n}\n";
  CHECK(agrees(text, "i32", 96));
  CHECK(agrees(text, "f32", 96));
  CHECK(agrees(text, "i8", 96));
  CHECK(agrees(text, "f16", 96));
}

TEST(loop_from_with_step) {
  static const char text[] =
      "thread kernel @k(%a: mem<N, i32>, %b: mem<N, i32>)\n"
      "  launch grid (4) block (1) wave 1\n  dynamic N\n{\n"
      "  %at = expr $WG0 : index\n  %start = expr 2*$WG0 - 1 : index\n  %x = load %a, %at : i32\n"
      "  %r = for K from %start step 3 with {trips = 8} carry %p = %x {\n"
      "    %i = expr $ARGK : i32\n    %n = add %p, %i\n    yield %n\n  }\n"
      "  store %r, %b, %at\n}\n";
  CHECK(agrees(text, "i32", 4));
}

TEST(while_and_if) {
  static const char text[] =
      "thread kernel @k(%a: mem<N, i32>, %b: mem<N, i32>)\n"
      "  launch grid (16) block (1) wave 1\n  dynamic N\n{\n"
      "  %at = expr $WG0 : index\n  %x = load %a, %at : i32\n"
      "  %zero = scalar 0 : i32\n  %i = scalar 1 : index\n"
      "  %r = while W as signed(W.1) (%w) from %i cond (signed(W.1) < 40) & "
      "(signed($GET_ITER_ARG_0) < 100) carry %p = %x {\n"
      "    %n = add %p, %x\n    %j = expr signed(W.1)*2 + 1 : index\n    yield %j, %n\n  }\n"
      "  %c = lt %r, %zero\n"
      "  %s = if %c carry %q = %r {\n    %m = neg %q\n    yield %m\n  }\n"
      "  %t = if ($WG0 < 3) carry %q2 = %s {\n    %m2 = add %q2, %q2\n    yield %m2\n  "
      "}\n"
      "  store %t, %b, %at\n}\n";
  CHECK(agrees(text, "i32", 16));
}

/* Divisions that round down, by constants and by values known only at the launch. */
TEST(expressions) {
  static const char text[] =
      "thread kernel @k(%a: mem<N, i32>, %b: mem<N, i32>)\n"
      "  launch grid (N) block (1) wave 1\n  dynamic N\n{\n"
      "  %at = expr $WG0 : index\n  %x = load %a, %at : i32\n"
      "  %y = expr $WG0//(N//7) + Mod($WG0, N//3)*3 + ($WG0*$WG0)//5 : i32\n"
      "  %z = expr floor($APPLY_EXPR_ARG_0/3) + Mod($APPLY_EXPR_ARG_0, 5)*Max(2, $WG0) %x : i32\n"
      "  %w = expr floor($APPLY_EXPR_ARG_0/(N + 1)) + Min($APPLY_EXPR_ARG_0, 4) %x : i32\n"
      "  %s = add %y, %z\n  %t = add %s, %w\n  store %t, %b, %at\n}\n";
  CHECK(agrees(text, "i32", 70));
}

TEST(moving_elements) {
  static const char text[] =
      "thread kernel @k(%a: mem<N, $TYPE>, %b: mem<N, $TYPE>)\n"
      "  launch grid (1) block (1) wave 1\n  dynamic N\n{\n  %zero = scalar 0 : index\n"
      "  %x = load %a, %zero : vec<24, $TYPE>\n"
      "  %p = pick [23, 1, 7, 7, 0, 22, 12] %x\n  %q = pick [5] %x\n"
      "  %s = splat %q : vec<9, $TYPE>\n  %j = join %p, %s, %q, %p\n"
      "  store %j, %b, %zero\n}\n";
  for (size_t t = 0; t < WV_LEN(types); t++) CHECK(agrees(text, types[t], 24));
}

TEST(bits) {
  static const char *const pairs[][3] = {
      {"f32", "8", "vec<16, i16>"},      {"f16", "16", "vec<4, f64>"},
      {"i8", "12", "vec<3, i32>"},       {"f4e2m1fn", "16", "vec<2, i32>"},
      {"f6e2m3fn", "16", "vec<3, i32>"}, {"i64", "2", "vec<32, i4>"},
      {"i32", "3", "vec<16, f6e2m3fn>"}};
  Arena *a = arena_new();
  for (size_t i = 0; i < WV_LEN(pairs); i++) {
    const char *text = arena_printf(
        a,
        "thread kernel @k(%%a: mem<N, %s>, %%b: mem<N, %s>)\n"
        "  launch grid (1) block (1) wave 1\n  dynamic N\n{\n  %%zero = scalar 0 : index\n"
        "  %%x = load %%a, %%zero : vec<%s, %s>\n  %%y = bitcast %%x : %s\n"
        "  %%z = bitcast %%y : vec<%s, %s>\n  store %%z, %%b, %%zero\n}\n",
        pairs[i][0], pairs[i][0], pairs[i][1], pairs[i][0], pairs[i][2], pairs[i][1], pairs[i][0]);
    CHECK(agrees(text, "", 32));
  }
  arena_free(a);
}

TEST(choices) {
  static const char text[] =
      "thread kernel @k(%a: mem<N, $TYPE>, %b: mem<N, $TYPE>)\n"
      "  launch grid (1) block (1) wave 1\n  dynamic N\n{\n  %zero = scalar 0 : index\n"
      "  %x = load %a, %zero : vec<12, $TYPE>\n  %y = load %b, %zero : vec<12, $TYPE>\n"
      "  %one = pick [2] %x\n  %m = lt %x, %y\n  %n = ge %x, %one\n  %o = and %m, %n\n"
      "  %s = select %o, %x, %one\n  %c = pick [4] %m\n  %t = select %c, %s, %y\n"
      "  store %t, %b, %zero\n}\n";
  static const char *const ordered[] = {"f64", "f32", "f16", "bf16", "i64",
                                        "i32", "i16", "i8",  "i4"};
  for (size_t t = 0; t < WV_LEN(ordered); t++) CHECK(agrees(text, ordered[t], 12));
}

TEST(allocations) {
  static const char text[] =
      "thread kernel @k(%a: mem<N, $TYPE>, %b: mem<N, $TYPE>)\n"
      "  launch grid (4) block (1) wave 1 shared 1024\n  dynamic N\n{\n"
      "  %s = alloc : mem<16, $TYPE, shared>\n  %u = alloc {base = 512} : mem<16, $TYPE, shared>\n"
      "  %at = expr $WG0*16 : index\n  %zero = scalar 0 : index\n"
      "  %x = load %a, %at : vec<16, $TYPE>\n  store %x, %s, %zero\n"
      "  barrier workgroup\n  %y = load %s, %zero {imm = 8} : vec<8, $TYPE>\n"
      "  store %y, %u, %zero\n  %z = load %u, %zero : vec<8, $TYPE>\n"
      "  %w = load %s, %zero : vec<8, $TYPE>\n  %j = join %z, %w\n  store %j, %b, %at\n}\n";
  for (size_t t = 0; t < WV_LEN(types); t++) CHECK(agrees(text, types[t], 64));
}

/* Swapping memories in a loop swaps addresses; the simulator has no names for them. */
TEST(carried_memory) {
  static const char text[] =
      "thread kernel @k(%a: mem<N, f32>, %b: mem<N, f32>)\n"
      "  launch grid (1) block (1) wave 1 shared 1024\n  dynamic N\n{\n"
      "  %s = alloc : mem<8, f32, shared>\n  %u = alloc : mem<8, f32, shared>\n"
      "  %zero = scalar 0 : index\n"
      "  %x = load %a, %zero : vec<8, f32>\n  store %x, %s, %zero\n  store %x, %u, %zero\n"
      "  %p, %q = for K with {trips = 3} carry %c = %s, %d = %u {\n"
      "    %y = load %c, %zero : vec<8, f32>\n    %z = add %y, %x\n    store %z, %d, %zero\n"
      "    yield %d, %c\n  }\n"
      "  %w = load %p, %zero : vec<8, f32>\n  store %w, %b, %zero\n}\n";
  Lab l = lab_open(text);
  size_of_n = 8;
  fill_two(&l);
  CpuRun r = cpu_run(&l);
  CHECK(r.ok);
  for (int e = 0; !r.skipped && e < 8; e++) CHECK(get(&l, 1, e) == 4 * get(&l, 0, e));
  lab_close(&l);
}

TEST(atomics) {
  static const char *const modes[] = {"add", "min", "max", "and", "or", "xchg", "cas"};
  static const char *const of[] = {"i32", "i64", "i16", "i8", "f32", "f64", "f16", "bf16"};
  Arena *a = arena_new();
  for (size_t m = 0; m < WV_LEN(modes); m++)
    for (size_t t = 0; t < WV_LEN(of); t++) {
      if (of[t][0] != 'i' && (m == 3 || m == 4)) continue; /* bitwise */
      const char *text = arena_printf(
          a,
          "thread kernel @k(%%a: mem<N, $TYPE>, %%b: mem<N, $TYPE>, %%c: mem<N, $TYPE>)\n"
          "  launch grid (8) block (1) wave 1\n  dynamic N\n{\n"
          "  %%at = expr $WG0*2 : index\n  %%to = expr 2*Mod($WG0, 3) : index\n"
          "  %%in = expr $WG0 < 7 : i1\n"
          "  %%x = load %%a, %%at : vec<2, $TYPE>\n"
          "  %%old = atomic %s %%x, %%b, %%to, %%in\n  store %%old, %%c, %%at, %%in\n}\n",
          modes[m]);
      CHECK(agrees(text, of[t], 16));
    }
  arena_free(a);
}

/* Small integers: sums are exact in every type. */
TEST(matrix_tiles) {
  static const struct {
    const char *in, *acc;
    int m, n, k;
  } rows[] = {{"f32", "f32", 8, 12, 1}, {"f32", "f32", 3, 7, 2},     {"f64", "f64", 4, 6, 1},
              {"f16", "f32", 8, 8, 1},  {"bf16", "f32", 4, 8, 2},    {"i8", "i32", 4, 8, 4},
              {"i8", "i32", 3, 5, 4},   {"f32", "f32", 1, 1, 1},     {"i8", "i32", 4, 8, 8},
              {"bf16", "f32", 4, 8, 4}, {"f8e4m3fn", "f32", 2, 4, 1}};
  Arena *a = arena_new();
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    int m = rows[i].m, n = rows[i].n, k = rows[i].k;
    const char *in = rows[i].in, *acc = rows[i].acc;
    char vec[3][64];
    int count[] = {m * k, n * k, m * n};
    for (int v = 0; v < 3; v++)
      if (count[v] == 1) snprintf(vec[v], 64, "%s", v < 2 ? in : acc);
      else snprintf(vec[v], 64, "vec<%d, %s>", count[v], v < 2 ? in : acc);
    const char *text = arena_printf(
        a,
        "thread kernel @k(%%a: mem<N, %s>, %%b: mem<N, %s>, %%c: mem<N, %s>)\n"
        "  launch grid (1) block (1) wave 1\n  dynamic N\n{\n  %%zero = scalar 0 : index\n"
        "  %%x = load %%a, %%zero : %s\n  %%y = load %%b, %%zero : %s\n"
        "  %%z = load %%c, %%zero : %s\n"
        "  %%r = for K with {trips = 3} carry %%s = %%z {\n"
        "    %%t = wave_mma tile_%dx%dx%d %%x, %%y, %%s\n    yield %%t\n  }\n"
        "  store %%r, %%c, %%zero\n}\n",
        in, in, acc, vec[0], vec[1], vec[2], m, n, k);
    CHECK(agrees(text, "", 128));
  }
  arena_free(a);
}

/* Ops of machines whose lanes copy and multiply in lockstep; lower_threads never emits them for a
 * CPU, nor for one that emulates waves (target_playing). */
static bool is_of_gpus(OpKind kind) {
  static const OpKind kinds[] = {
      OP_ldmatrix,     OP_stmatrix,    OP_fence_proxy, OP_mbar_init,         OP_mbar_inval,
      OP_mbar_expect,  OP_mbar_arrive, OP_mbar_wait,   OP_mbar_arrive_async, OP_copy_async,
      OP_async_commit, OP_async_wait,  OP_tma_load,    OP_tma_store,         OP_bulk_commit,
      OP_bulk_wait,    OP_wgmma_fence, OP_wgmma,       OP_wgmma_commit,      OP_wgmma_wait};
  for (size_t i = 0; i < WV_LEN(kinds); i++)
    if (kinds[i] == kind) return true;
  return false;
}

/* Expressed by other ops on every machine: legal.def. */
static bool is_expanded(OpKind kind) {
  enum { GPU, OTHERS, ALL, EXPAND, EXPAND_F64, MEANING, ILLEGAL };
  static const struct {
    OpKind op;
    int where, otherwise;
  } rows[] = {
#define LEGAL(op, where, natively, otherwise) {OP_##op, where, otherwise},
#include "transform/legalise/legal.def"
  };
  for (size_t i = 0; i < WV_LEN(rows); i++)
    if (rows[i].op == kind &&
        ((rows[i].where == ALL && rows[i].otherwise == EXPAND) || rows[i].otherwise == MEANING))
      return true;
  return false;
}

TEST(every_op_is_written) {
  for (int i = 0; i < OP_COUNT; i++) {
    bool lane = op_info[i].level & LEVEL_THREAD;
    bool absent = is_of_gpus((OpKind)i) || is_expanded((OpKind)i);
    if (lane && cpu_writes((OpKind)i) == absent)
      printf("`%s` has no LLVM instructions, or is in the list\n", op_info[i].name),
          CHECK(!"written");
  }
}

/* The error for an op that cannot be emitted names it. */
TEST(refusals) {
  Lab l = lab_open("thread kernel @k(%a: mem<N, f32>)\n"
                   "  launch grid (1) block (1) wave 1\n  bind N = 8\n{\n"
                   "  %at = expr $T0 : index\n  %x = load %a, %at : f32\n"
                   "  %y = shuffle xor %x {by = 1}\n  store %y, %a, %at\n}\n");
  CpuHost host = cpu_host(&(HostWords){"aarch64-linux-gnu", "+neon", 0});
  CpuKernel k;
  CHECK(l.k && !cpu_emit(l.k, &host, l.cx->arena, &k));
  CHECK(l.cx->diags.last && strcmp(diag_info[l.cx->diags.last->code].code, "E0601") == 0);
  lab_close(&l);
}

TESTS_MAIN(RUN(mask_of_the_whole) RUN(mask_per_element) RUN(odd_offsets) RUN(loops)
               RUN(loop_from_with_step) RUN(while_and_if) RUN(expressions) RUN(moving_elements)
                   RUN(bits) RUN(choices) RUN(allocations) RUN(carried_memory) RUN(atomics)
                       RUN(matrix_tiles) RUN(every_op_is_written) RUN(refusals))
