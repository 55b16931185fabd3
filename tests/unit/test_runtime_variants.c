/* test_runtime_variants.c: which variant a launch uses, when it is compiled, and recompiled dumps.
 */
#include "unit/runtime_kit.h"

static const char copy_text[] = "kernel @copy(%a: mem<M, N, f16>, %b: mem<M, N, f16>)\n"
                                "  dynamic M; dynamic N\n"
                                "  hardware threads 32\n"
                                "  workgroup M by 4 on 0; workgroup N by 64 on 1; wave M by 4\n"
                                "{\n"
                                "  %x = read %a : tile<M, N, f16>\n"
                                "  write %x, %b\n"
                                "}\n";

enum { A = 0x10000, B = 0x20000 };

/* Before each there is the same for tensors with 32-bit offsets: NEAR(WHOLE), ... */
enum { WHOLE = 1, DENSE = 3, ROWS = 5, ANY = 7, VARIANTS = 8 };
#define NEAR(variant) ((variant)-1)

typedef struct Args {
  Tensor a, b;
  wv_launch_arg arg[2];
} Args;

static Args *args_of(Args *s, int64_t m, int64_t n) {
  tensor(&s->a, A, "f16", 2, (int64_t[]){m, n});
  tensor(&s->b, B, "f16", 2, (int64_t[]){m, n});
  s->arg[0] = (wv_launch_arg){.tensor = &s->a.t};
  s->arg[1] = (wv_launch_arg){.tensor = &s->b.t};
  return s;
}

static bool launch(Bench *b, const Args *s) {
  wv_diag_clear(b->cx);
  return wv_launch(b->p, b->cx, s->arg, 2, NULL, 0);
}

static bool is_compiled(const Bench *b, int i) {
  wv_variant v;
  return wv_program_variant(b->p, i, &v) && v.compiled;
}

/* The launch succeeds, and the variants so far are those of the set. */
static void check_compiled(Harness *harness, Bench *b, const Args *s, unsigned set) {
  CHECK(launch(b, s));
  for (int i = 0; i < VARIANTS; i++) CHECK_INT(is_compiled(b, i), set >> i & 1);
}

TEST(first_that_fits) {
  Bench b = bench_open(copy_text, NULL);
  Args s;
  wv_variant v;
  CHECK(wv_program_variant(b.p, WHOLE, &v) && has(v.facts, "rows a multiple of 16 bytes"));
  CHECK(wv_program_variant(b.p, ANY, &v) && !*v.facts);
  CHECK(!wv_program_variant(b.p, VARIANTS, &v) && !wv_program_variant(b.p, -1, &v));
  unsigned rows = 1 << NEAR(ROWS), any = 1 << NEAR(ANY), dense = 1 << NEAR(DENSE);
  check_compiled(harness, &b, args_of(&s, 8, 64), 1);
  s.a.strides[0] = 128; /* padded rows */
  check_compiled(harness, &b, &s, 1 | rows);
  s.a.strides[0] = 127;
  check_compiled(harness, &b, &s, 1 | rows | any);
  check_compiled(harness, &b, args_of(&s, 8, 63), 1 | dense | rows | any);
  CHECK_INT(b.fake->loads, 4);
  bench_close(&b);
}

static void check_takes(Harness *harness, const Args *s, int variant) {
  Bench b = bench_open(copy_text, NULL);
  CHECK(launch(&b, s));
  for (int i = 1; i < VARIANTS; i++) CHECK_INT(is_compiled(&b, i), i == variant);
  bench_close(&b);
}

static const char rows_text[] =
    "kernel @rows(%a: mem<P, N, f16>, %t: mem<M, i32>, %b: mem<M, N, f16>)\n"
    "  dynamic M; dynamic N; dynamic P\n"
    "  hardware threads 32\n"
    "  workgroup M by 4 on 0; workgroup N by 64 on 1; wave M by 4\n"
    "{\n"
    "  %i = read %t\n"
    "  %x = read %a, %i {mapping = map 2 {P: $dynamic_val0, N: $index1} -> {M: $index0, N: $index1}"
    " with {M: $index0}} : tile<M, N, f16>\n"
    "  write %x, %b\n"
    "}\n";

/* A table at any address, of any length, does not make rows of other tensors narrow. */
TEST(tables_may_be_anywhere) {
  Bench b = bench_open(rows_text, NULL);
  Tensor t[3];
  wv_launch_arg arg[3] = {{.tensor = &t[0].t}, {.tensor = &t[1].t}, {.tensor = &t[2].t}};
  tensor(&t[0], A, "f16", 2, (int64_t[]){100, 64});
  tensor(&t[1], B + 4, "i32", 1, (int64_t[]){7});
  tensor(&t[2], 2 * B, "f16", 2, (int64_t[]){7, 64});
  CHECK(wv_launch(b.p, b.cx, arg, 3, NULL, 0));
  CHECK(is_compiled(&b, NEAR(ROWS)) && !is_compiled(&b, NEAR(ANY)));
  t[1].strides[0] = 3;
  CHECK(wv_launch(b.p, b.cx, arg, 3, NULL, 0));
  CHECK(!is_compiled(&b, NEAR(ANY)));
  tensor(&t[0], A + 2, "f16", 2, (int64_t[]){100, 64});
  CHECK(wv_launch(b.p, b.cx, arg, 3, NULL, 0));
  CHECK(is_compiled(&b, NEAR(ANY)));
  bench_close(&b);
}

static const char sums_text[] =
    "kernel @sums(%a: mem<M, N, f16>, %s: mem<P, Q, f32>)\n"
    "  dynamic P\n"
    "  hardware threads 32\n"
    "  workgroup M by 4 on 0; wave M by 4\n"
    "  bind M = 4*P; bind N = 64; bind Q = 4\n"
    "{\n"
    "  %x = read %a\n"
    "  %w = cast %x : tile<M, N, f32>\n"
    "  %t = sum %w {dim = N}\n"
    "  write %t, %s {mapping = map 1 {M: $index0} -> {P: floor($index0/4), Q: Mod($index0, 4)}}\n"
    "}\n";

/* Neither do sums that threads find one by one. */
TEST(scattered_elements_may_be_anywhere) {
  enum {
    WHOLE_ONLY = 2
  }; /* rows have 64 elements: dense ones are whole, which needs no variants */
  Bench b = bench_open(sums_text, NULL);
  Tensor t[2];
  wv_launch_arg arg[2] = {{.tensor = &t[0].t}, {.tensor = &t[1].t}};
  tensor(&t[0], A, "f16", 2, (int64_t[]){28, 64});
  tensor(&t[1], B + 4, "f32", 2, (int64_t[]){7, 4});
  t[1].strides[0] = 1, t[1].strides[1] = 7; /* transposed */
  CHECK(wv_launch(b.p, b.cx, arg, 2, NULL, 0));
  CHECK(is_compiled(&b, NEAR(ROWS) - WHOLE_ONLY) && !is_compiled(&b, NEAR(ANY) - WHOLE_ONLY));
  bench_close(&b);
}

static const char scales_text[] =
    "kernel @scaled(%a: mem<H, N, f16>, %s: mem<H, f16>, %b: mem<H, N, f16>)\n"
    "  dynamic H; dynamic N\n"
    "  hardware threads 32\n"
    "  workgroup H by 1 on 0; workgroup N by 64 on 1; wave N by 64\n"
    "{\n"
    "  %x = read %a\n"
    "  %f = read %s\n"
    "  %w = broadcast %f : tile<H, N, f16>\n"
    "  %y = mul %x, %w\n"
    "  write %y, %b\n"
    "}\n";

/* A tensor of which a workgroup has one element does not ask for other code, whatever its strides. */
TEST(single_elements_may_be_anywhere) {
  Bench b = bench_open(scales_text, NULL);
  Tensor t[3];
  wv_launch_arg arg[3] = {{.tensor = &t[0].t}, {.tensor = &t[1].t}, {.tensor = &t[2].t}};
  tensor(&t[0], A, "f16", 2, (int64_t[]){8, 64});
  tensor(&t[1], B + 2, "f16", 1, (int64_t[]){8});
  tensor(&t[2], B, "f16", 2, (int64_t[]){8, 64});
  t[1].strides[0] = 0; /* one for all */
  CHECK(wv_launch(b.p, b.cx, arg, 3, NULL, 0));
  CHECK(is_compiled(&b, 0) && !is_compiled(&b, NEAR(ROWS)) && !is_compiled(&b, NEAR(ANY)));
  bench_close(&b);
}

static const char unused_text[] =
    "kernel @copy(%a: mem<M, N, f16>, %bias: mem<M, N, f16>, %b: mem<M, N, f16>)\n"
    "  dynamic M; dynamic N\n"
    "  hardware threads 32\n"
    "  workgroup M by 4 on 0; workgroup N by 64 on 1; wave M by 4\n"
    "{\n"
    "  %x = read %a\n"
    "  write %x, %b\n"
    "}\n";

TEST(tensors_without_a_use_may_be_anything) {
  Bench b = bench_open(unused_text, NULL);
  Tensor t[3];
  wv_launch_arg arg[3] = {{.tensor = &t[0].t}, {.tensor = &t[1].t}, {.tensor = &t[2].t}};
  for (int i = 0; i < 3; i++) tensor(&t[i], A + (uintptr_t)i * B, "f16", 2, (int64_t[]){7, 64});
  t[1].strides[0] = 0, t[1].strides[1] = 0; /* one element that stands for all */
  CHECK(wv_launch(b.p, b.cx, arg, 3, NULL, 0));
  CHECK(is_compiled(&b, NEAR(WHOLE)) && !is_compiled(&b, NEAR(ROWS)) &&
        !is_compiled(&b, NEAR(ANY)));
  bench_close(&b);
}

TEST(facts_of_launches) {
  Args s;
  args_of(&s, 8, 64)->b.t.data = (void *)(B + 8); /* not aligned */
  check_takes(harness, &s, NEAR(ANY));
  args_of(&s, 8, 64)->a.strides[0] = 1, s.a.strides[1] = 8; /* transposed */
  check_takes(harness, &s, NEAR(ANY));
  args_of(&s, 8, 64)->a.strides[0] = 0; /* broadcast */
  check_takes(harness, &s, NEAR(ROWS));
  args_of(&s, 1, 64)->a.strides[0] = 12345; /* the stride of one row does not matter */
  check_takes(harness, &s, NEAR(WHOLE));
  args_of(&s, 8, 64)->a.t.strides = NULL;
  check_takes(harness, &s, NEAR(WHOLE));
  args_of(&s, 8, 1)->a.strides[0] = 16; /* strided elements */
  check_takes(harness, &s, NEAR(ANY));
}

/* Beyond the range of 32 bits there is the same variant with 64. */
TEST(tensors_of_any_size) {
  enum { LARGE = 1 << 20 };
  Args s;
  check_takes(harness, args_of(&s, LARGE, 512), NEAR(WHOLE));
  check_takes(harness, args_of(&s, LARGE + 1, 512), WHOLE); /* 2**30 bytes and a row */
  check_takes(harness, args_of(&s, LARGE + 1, 513), DENSE);
  check_takes(harness, args_of(&s, 1, LARGE), WHOLE); /* rows that would reach too far */
  args_of(&s, LARGE, 512)->a.strides[0] = 1024;
  check_takes(harness, &s, ROWS);
  args_of(&s, LARGE, 512)->a.strides[0] = 1025;
  check_takes(harness, &s, ANY);
  args_of(&s, 8, 64)->a.strides[0] = -64; /* in reverse order of rows: offsets may be negative */
  check_takes(harness, &s, ROWS);
  args_of(&s, 8, 64)->a.strides[0] = INT64_MAX / 2; /* no undetected overflow */
  check_takes(harness, &s, ANY);
}

/* The values computed in 32 bits. */
static int wide_lines(const char *ptx) {
  int n = 0;
  for (const char *at = ptx; (at = strstr(at, ".s64")); at++) n++;
  return n;
}

TEST(near_tensors_in_32_bits) {
  static const char gemm[] =
      "kernel @gemm(%a: mem<M, K, f16>, %b: mem<N, K, f16>, %c: mem<M, N, f32>)\n"
      "  hardware threads 64, mma F32_16x16x16_F16\n"
      "  workgroup M by 64 on 0; workgroup N by 64 on 1; tile K by 32\n"
      "  wave M by 32; wave N by 32\n"
      "  dynamic M; dynamic N; dynamic K\n"
      "{\n"
      "  %z = fill 0.0 : tile<M, N, f32>\n"
      "  %r = for K carry %acc = %z {\n"
      "    %x = read %a\n"
      "    %y = read %b\n"
      "    %n = mma %x, %y, %acc\n"
      "    yield %n\n"
      "  }\n"
      "  write %r, %c\n"
      "}\n";
  Bench b = bench_open(gemm, &(wv_compile_options){.target = "sm_80", .device = -1});
  wv_variant v;
  for (int i = 0; i < VARIANTS; i++) {
    CHECK(wv_program_variant(b.p, i, &v));
    CHECK_INT(has(v.facts, "32-bit offsets"), i % 2 == 0);
    int wide = wide_lines(wv_program_text(b.p, b.cx, i, "ptx"));
    if (i % 2 == 0) CHECK_INT(wide, 0);
    else CHECK(wide > 40);
  }
  bench_close(&b);
}

/* Facts stated in the header, or known from constants, do not create a variant. */
TEST(sizes_that_are_known) {
  static const char text[] = "kernel @copy(%a: mem<M, N, f16>, %b: mem<M, N, f16>)\n"
                             "  bind M = 8; bind N = 64\n"
                             "  hardware threads 32\n"
                             "  workgroup M by 4 on 0; workgroup N by 64 on 1; wave M by 4\n"
                             "{\n"
                             "  %x = read %a : tile<M, N, f16>\n"
                             "  write %x, %b\n"
                             "}\n";
  Bench b = bench_open(text, NULL);
  Args s;
  wv_variant v;
  CHECK(wv_program_variant(b.p, 0, &v));
  CHECK_STR(v.facts, "row-major, 16-byte aligned");
  CHECK(!wv_program_variant(b.p, 5, &v)); /* strides, 32-bit offsets twice */
  CHECK(launch(&b, args_of(&s, 8, 64)));
  CHECK(!launch(&b, args_of(&s, 8, 65)));
  CHECK(has(said(b.cx, "E0702"), "argument `a` has size 65 along `N`, expected 64"));
  bench_close(&b);
}

TEST(capture) {
  Bench b = bench_open(copy_text, NULL);
  Args s;
  int stream;
  b.fake->captured = &stream;
  wv_diag_clear(b.cx);
  CHECK(wv_launch(b.p, b.cx, args_of(&s, 8, 64)->arg, 2, &stream, 0)); /* was made at compile */
  s.a.strides[0] = 127;
  CHECK(!wv_launch(b.p, b.cx, s.arg, 2, &stream, 0));
  CHECK(has(said(b.cx, "E0904"), "`copy` is not ready for launches like this one"));
  CHECK(has(said(b.cx, "E0904"), "before the capture"));
  CHECK_INT(b.fake->launches, 1);
  b.fake->captured = NULL;
  wv_diag_clear(b.cx);
  CHECK(wv_program_warm(b.p, b.cx, s.arg, 2));
  CHECK_INT(b.fake->launches, 1);
  b.fake->captured = &stream;
  CHECK(wv_launch(b.p, b.cx, s.arg, 2, &stream, 0));
  CHECK_INT(b.fake->launches, 2);
  CHECK_INT(wv_diag_errors(b.cx), 0);
  bench_close(&b);
}

/* ---- assumptions ---- */

static const char assumed_text[] = "kernel @copy(%a: mem<M, N, f16>, %c: mem<M, N, f16>)\n"
                                   "  dynamic M; dynamic N; assume Eq(Mod(N, 64), 0)\n"
                                   "  hardware threads 32\n"
                                   "  workgroup M by 4 on 0; wave M by 4; workgroup N by 64 on 1\n"
                                   "{\n  %x = read %a\n  write %x, %c\n}\n";

/* After wv_program_prepare a launch that does not fulfil the assumption can be captured. */
TEST(prepared_without_assumptions) {
  Bench b = bench_open(assumed_text, NULL);
  Args s;
  int stream;
  wv_variant v;
  b.fake->captured = &stream;
  CHECK(!wv_launch(b.p, b.cx, args_of(&s, 8, 65)->arg, 2, &stream, 0));
  CHECK(has(said(b.cx, "E0904"), "`copy` is not ready for launches like this one"));
  b.fake->captured = NULL;
  wv_diag_clear(b.cx);
  CHECK(wv_program_prepare(b.p, b.cx, 0));
  for (int i = 0; wv_program_variant(b.p, i, &v); i++) CHECK(v.compiled);
  b.fake->captured = &stream;
  CHECK(wv_launch(b.p, b.cx, args_of(&s, 8, 65)->arg, 2, &stream, 0));
  CHECK(has(said(b.cx, "R0701"), "`Eq(Mod(N, 64), 0)` does not hold"));
  CHECK(wv_launch(b.p, b.cx, args_of(&s, 8, 64)->arg, 2, &stream, 0));
  CHECK_INT(b.fake->launches, 2);
  bench_close(&b);
}

/* ---- dumps ---- */

typedef struct Dump {
  char text[65536];
  int n;
} Dump;

static void take_dump(void *user, const char *pass, const char *text) {
  Dump *d = user;
  if (pass) snprintf(d->text, sizeof d->text, "%s", text);
  d->n++;
}

/* The next line that is code: the one after its source location. */
static const char *code_line(const char *text) {
  while (strncmp(text, "\t.loc", 5) == 0 || strncmp(text, ".file", 5) == 0)
    text += strcspn(text, "\n") + 1;
  return text;
}

static bool same_code(const char *a, const char *b) {
  for (a = code_line(a), b = code_line(b); *a || *b; a = code_line(a + 1), b = code_line(b + 1)) {
    size_t n = strcspn(a, "\n");
    if (n != strcspn(b, "\n") || memcmp(a, b, n) != 0) return false;
    a += n, b += n;
    if (!*a || !*b) return *a == *b;
  }
  return true;
}

TEST(dumps_go_back_in) {
  Dump *dump = calloc(1, sizeof *dump);
  wv_pass_options passes = {.dump = "copies", .write = take_dump, .user = dump};
  Bench b = bench_open(copy_text, &(wv_compile_options){.dump = &passes});
  Args s;
  CHECK_INT(dump->n, 1);
  const char *first = wv_program_text(b.p, b.cx, 0, "ir");
  CHECK(has(first, "thread kernel @copy"));
  CHECK(has(dump->text, "kernel @copy") && !has(dump->text, "thread kernel"));
  wv_compile_options again = {.target = "sm_90a", .start_after = "copies"};
  wv_kernel *k = kit_parse(b.cx, dump->text);
  wv_program *p = k ? wv_compile(k, &again) : NULL;
  CHECK(p != NULL);
  wv_variant v;
  CHECK(p && !wv_program_variant(p, 1, &v)); /* decisions are made: one variant */
  CHECK_STR(wv_program_text(p, b.cx, 0, "ir"), first);
  CHECK(wv_launch(p, b.cx, args_of(&s, 8, 64)->arg, 2, NULL, 0));
  s.a.strides[0] = 128;
  CHECK(!wv_launch(p, b.cx, s.arg, 2, NULL, 0));
  CHECK(has(said(b.cx, "E0905"), "only for these tensors: row-major"));
  wv_program_free(p);
  wv_kernel_free(k);
  /* The printed form of one lane's program is itself a program. */
  k = kit_parse(b.cx, first);
  p = k ? wv_compile(k, &(wv_compile_options){0}) : NULL;
  CHECK(p && wv_launch(p, b.cx, args_of(&s, 8, 64)->arg, 2, NULL, 0));
  CHECK(same_code(wv_program_text(p, b.cx, 0, "ptx"), wv_program_text(b.p, b.cx, 0, "ptx")));
  wv_program_free(p);
  again.start_after = "nonsense";
  CHECK(!wv_compile(k, &again));
  CHECK(has(said(b.cx, "E0604"), "nonsense"));
  wv_kernel_free(k);
  bench_close(&b);
  free(dump);
}

TEST(targets_without_programs) {
  FakeCuda *fake = fake_open(FAKE_CUDA);
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = kit_parse(cx, copy_text);
  CHECK(!wv_compile(k, &(wv_compile_options){.target = "sim:sm_90a"}));
  CHECK(has(said(cx, "E0906"), "target `sim:sm_90a` is not available here"));
  CHECK(!wv_compile(k, &(wv_compile_options){.target = "sm_91"}));
  wv_program *p = wv_compile(k, &(wv_compile_options){.target = "cuda"});
  CHECK_STR(p ? wv_program_target(p) : "", "sm_90a");
  wv_program_free(p);
  CHECK(!wv_compile(k, &(wv_compile_options){.target = "sm_90a", .device = 99}));
  CHECK(has(said(cx, "E0902"), "device 99 is out of range: the last usable device is 15"));
  wv_diag_clear(cx);
  CHECK(!wv_compile(k, &(wv_compile_options){.target = "sm_90a", .device = 5}));
  CHECK(has(said(cx, "E0902"), "there is no CUDA device 5: 2 available"));
  fake->major = 7;
  wv_diag_clear(cx);
  CHECK(!wv_compile(k, &(wv_compile_options){.target = "cuda"}));
  CHECK(has(said(cx, "E0906"), "no target supports `Fake 0`"));
  wv_kernel_free(k);
  wv_ctx_free(cx);
}

TESTS_MAIN(RUN(first_that_fits) RUN(tables_may_be_anywhere) RUN(scattered_elements_may_be_anywhere)
               RUN(single_elements_may_be_anywhere) RUN(tensors_without_a_use_may_be_anything)
                   RUN(facts_of_launches) RUN(tensors_of_any_size) RUN(near_tensors_in_32_bits)
                       RUN(sizes_that_are_known) RUN(capture) RUN(prepared_without_assumptions)
                           RUN(dumps_go_back_in) RUN(targets_without_programs))
