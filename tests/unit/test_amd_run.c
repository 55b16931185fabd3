/* test_amd_run.c: machine code for AMD GPUs, run by the executor and compared with the simulator:
 * elementwise ops of every type, memory, exchange between lanes, matrix instructions. Each chip of
 * chips.def that an installed LLVM knows takes part. */
#include "unit/amd_kit.h"
#include "unit/ops_kit.h"

static int lanes_of(const char *chip) { return target_find(chip).machine->lanes; }

/* ---- elementwise ops ---- */

/* `op` on one or two vectors of n elements in each lane. */
static bool op_agrees(const char *chip, const char *op, int nargs, const char *type,
                      const char *out, int n, double tolerance) {
  char text[1024], in[64], result[64];
  int lanes = lanes_of(chip);
  n = whole_bytes(type, out, n);
  fill_count = n * lanes;
  bool given = strcmp(op, "cast") == 0;
  vector_text(in, sizeof in, type, n);
  snprintf(text, sizeof text,
           "thread kernel @k(%%a: mem<N, %s>, %%b: mem<N, %s>, %%c: mem<N, %s>)\n"
           "  launch grid (1) block (%d) wave %d\n  bind N = %d\n{\n"
           "  %%at = expr $T0*%d : index\n"
           "  %%x = load %%a, %%at : %s\n  %%y = load %%b, %%at : %s\n"
           "  %%z = %s %%x%s%s%s\n  store %%z, %%c, %%at\n}\n",
           type, type, out, lanes, lanes, fill_count, n, in, in, op, nargs == 2 ? ", %y" : "",
           given ? " : " : "", given ? vector_text(result, sizeof result, out, n) : "");
  bool ok = amd_agrees(text, chip, fill_bits, tolerance);
  if (!ok) printf("in `%s` of %s to %s, %d elements, on %s\n", op, type, out, n, chip);
  return ok;
}

static int length_of(int i) {
  static const int lengths[] = {1, 4, 8, 16, 2};
  return lengths[i % 5];
}

static int chip_count(void) {
  int n = 0;
  while (chip_at(n)) n++;
  return n;
}

static const char *chip_of(int i) { return chip_at(i % chip_count())->name; }

/* The first one with its instructions. */
static bool is_first(int i) { return strcmp(chip_at(i)->like, chip_at(i)->name) == 0; }

static const char *const int_types[] = {"i64", "i32", "i16", "i8", "i4", "u32", "u8"};
static const char *const float_types[] = {"f64",       "f32",        "f16",     "bf16",
                                          "f8e4m3fn",  "f8e4m3fnuz", "f8e5m2",  "f8e5m2fnuz",
                                          "f8e8m0fnu", "f6e2m3fn",   "f4e2m1fn"};
static const char *const binary_ops[] = {"add", "sub", "mul", "div", "maximum", "minimum"};
static const char *const exact_binary_ints[] = {"mod", "floordiv", "and", "or", "xor"};
static const char *const compares[] = {"eq", "ne", "lt", "le", "gt", "ge"};
static const char *const unary[] = {"neg", "abs"};
static const char *const rounding[] = {"floor", "ceil", "trunc", "round", "roundeven"};
static const char *const functions[] = {"sqrt", "rsqrt", "reciprocal", "exp", "exp2",
                                        "log",  "log2",  "log10",      "sin", "cos",
                                        "tanh", "erf",   "sigmoid"};

/* Every op and type on one chip each, in turn. */
TEST(integers) {
  int turn = 0;
  for (size_t t = 0; t < WV_LEN(int_types); t++) {
    const char *type = int_types[t];
    for (size_t i = 0; i < WV_LEN(binary_ops); i++, turn++)
      CHECK(op_agrees(chip_of(turn), binary_ops[i], 2, type, type, length_of(turn), 0));
    for (size_t i = 0; i < WV_LEN(exact_binary_ints); i++, turn++)
      CHECK(op_agrees(chip_of(turn), exact_binary_ints[i], 2, type, type, length_of(turn), 0));
    for (size_t i = 0; i < WV_LEN(compares); i++, turn++)
      CHECK(op_agrees(chip_of(turn), compares[i], 2, type, "i1", length_of(turn), 0));
    for (size_t i = 0; i < WV_LEN(unary); i++, turn++)
      CHECK(op_agrees(chip_of(turn), unary[i], 1, type, type, length_of(turn), 0));
  }
}

TEST(floats) {
  int turn = 0;
  for (size_t t = 0; t < WV_LEN(float_types); t++) {
    const char *type = float_types[t];
    for (size_t i = 0; i < WV_LEN(binary_ops); i++, turn++)
      CHECK(op_agrees(chip_of(turn), binary_ops[i], 2, type, type, length_of(turn), 0));
    for (size_t i = 0; i < WV_LEN(compares); i++, turn++)
      CHECK(op_agrees(chip_of(turn), compares[i], 2, type, "i1", length_of(turn), 0));
    for (size_t i = 0; i < WV_LEN(unary); i++, turn++)
      CHECK(op_agrees(chip_of(turn), unary[i], 1, type, type, length_of(turn), 0));
    for (size_t i = 0; i < WV_LEN(rounding); i++, turn++)
      CHECK(op_agrees(chip_of(turn), rounding[i], 1, type, type, length_of(turn), 0));
  }
}

TEST(functions_of_f32) {
  for (size_t i = 0; i < WV_LEN(functions); i++)
    for (int c = 0; c < chip_count(); c++)
      CHECK(op_agrees(chip_of(c), functions[i], 1, "f32", "f32", 4, 1e-6));
}

/* Large angles, and the ends of the range. */
static void fill_large(Lab *l) {
  for (int t = 0; t < 3; t++) lab_tensor(l, DTYPE_f32, 1, fill_count);
  for (int64_t e = 0; e < fill_count; e++) {
    double v = ldexp(1 + (double)(e % 7) / 8, (int)(e * 128 / fill_count));
    put(l, 0, e, e % 2 ? -v : v);
  }
  put(l, 0, 1, INFINITY), put(l, 0, 2, -INFINITY), put(l, 0, 3, NAN);
}

TEST(large_operands) {
  static const char *const ops[] = {"sin", "cos", "exp", "exp2", "tanh"};
  for (size_t i = 0; i < WV_LEN(ops); i++)
    for (int c = 0; c < chip_count(); c++) {
      char text[512];
      int lanes = lanes_of(chip_of(c));
      fill_count = 4 * lanes;
      snprintf(text, sizeof text,
               "thread kernel @k(%%a: mem<N, f32>, %%b: mem<N, f32>, %%c: mem<N, f32>)\n"
               "  launch grid (1) block (%d) wave %d\n  bind N = %d\n{\n"
               "  %%at = expr 4*$T0 : i32\n  %%x = load %%a, %%at : vec<4, f32>\n"
               "  %%z = %s %%x\n  store %%z, %%c, %%at\n}\n",
               lanes, lanes, fill_count, ops[i]);
      CHECK(amd_agrees(text, chip_of(c), fill_large, 1e-6));
    }
}

TEST(casts) {
  int turn = 0;
  const char *all[WV_LEN(int_types) + WV_LEN(float_types) + 1];
  size_t n = 0;
  for (size_t i = 0; i < WV_LEN(int_types); i++) all[n++] = int_types[i];
  for (size_t i = 0; i < WV_LEN(float_types); i++) all[n++] = float_types[i];
  all[n++] = "i1";
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < n; j++, turn++)
      CHECK(op_agrees(chip_of(turn), "cast", 1, all[i], all[j], length_of(turn), 0));
}

/* ---- lanes ---- */

static bool shuffle_agrees(const char *chip, const char *op, const char *type, int n) {
  char text[1024], in[64];
  int lanes = lanes_of(chip);
  fill_count = n * lanes;
  vector_text(in, sizeof in, type, n);
  snprintf(text, sizeof text,
           "thread kernel @k(%%a: mem<N, %s>, %%b: mem<N, %s>, %%c: mem<N, %s>)\n"
           "  launch grid (1) block (%d) wave %d\n  bind N = %d\n{\n"
           "  %%at = expr %d*$T0 : i32\n  %%x = load %%a, %%at : %s\n"
           "  %%i = expr Mod(7*$T0 + 3, %d) : i32\n  %%z = %s\n  store %%z, %%c, %%at\n}\n",
           type, type, type, lanes, lanes, fill_count, n, in, lanes, op);
  bool ok = amd_agrees(text, chip, fill_bits, 0);
  if (!ok) printf("in `%s` of %s, %d elements, on %s\n", op, type, n, chip);
  return ok;
}

TEST(shuffles) {
  static const char *const types[] = {"f32", "f16", "i8", "f64", "i1"};
  for (int turn = 0, by = 1; by < 64; by++, turn++)
    for (int c = 0; c < chip_count(); c++) {
      char op[64];
      if (by >= lanes_of(chip_of(c))) continue;
      snprintf(op, sizeof op, "shuffle xor %%x {by = %d}", by);
      CHECK(shuffle_agrees(chip_of(c), op, types[turn % 5], turn % 2 ? 1 : 4));
    }
  for (int c = 0; c < chip_count(); c++) {
    CHECK(shuffle_agrees(chip_of(c), "shuffle up %x {by = 3}", "f32", 2));
    CHECK(shuffle_agrees(chip_of(c), "shuffle down %x {by = 17}", "bf16", 3));
    CHECK(shuffle_agrees(chip_of(c), "shuffle_idx %x, %i", "i16", 4));
  }
}

/* ---- matrix instructions ---- */

static int mma_count_of[3];
static DType mma_type_of[3];

static void fill_products(Lab *l) {
  for (int t = 0; t < 3; t++) lab_tensor(l, mma_type_of[t], 1, mma_count_of[t]);
}

static DType type_of(unsigned set, int from) {
  for (int t = from; t < DTYPE_COUNT; t++)
    if (set & (unsigned)dtype_mma((DType)t)) return (DType)t;
  return DTYPE_COUNT;
}

static bool product_agrees(const char *chip, const MmaInfo *row, DType a, DType b, DType c) {
  char text[1024];
  int lanes = lanes_of(chip), each[3];
  const DType types[] = {a, b, c};
  int distinct = row->needs & FEATURE_WMMA_11 ? 16 : lanes; /* RDNA3 holds operands twice */
  for (int i = 0; i < 3; i++) {
    Layout l;
    each[i] = mma_fragment(row, (MmaOperand)i, &l) ? layout_size(&l, LAYOUT_REG) : 0;
    mma_count_of[i] = each[i] * lanes;
    mma_type_of[i] = types[i];
  }
  snprintf(text, sizeof text,
           "thread kernel @k(%%a: mem<A, %s>, %%b: mem<B, %s>, %%c: mem<C, %s>)\n"
           "  launch grid (1) block (%d) wave %d\n  bind A = %d\n  bind B = %d\n  bind C = %d\n{\n"
           "  %%ia = expr %d*Mod($T0, %d) : i32\n  %%ib = expr %d*Mod($T0, %d) : i32\n"
           "  %%ic = expr %d*$T0 : i32\n"
           "  %%x = load %%a, %%ia : vec<%d, %s>\n  %%y = load %%b, %%ib : vec<%d, %s>\n"
           "  %%z = load %%c, %%ic : vec<%d, %s>\n"
           "  %%p = wave_mma %s %%x, %%y, %%z\n  store %%p, %%c, %%ic\n}\n",
           dtype_info[a].name, dtype_info[b].name, dtype_info[c].name, lanes, lanes,
           mma_count_of[0], mma_count_of[1], mma_count_of[2], each[0], distinct, each[1], distinct,
           each[2], each[0], dtype_info[a].name, each[1], dtype_info[b].name, each[2],
           dtype_info[c].name, row->name);
  for (char *one = text; (one = strstr(one, "vec<1, "));) { /* a scalar */
    char *end = strchr(one, '>');
    memmove(end, end + 1, strlen(end));
    memmove(one, one + 7, strlen(one + 7) + 1);
  }
  bool ok = amd_agrees(text, chip, fill_products, 0);
  if (!ok)
    printf("%s of %s and %s on %s\n", row->name, dtype_info[a].name, dtype_info[b].name, chip);
  return ok;
}

/* Small integers, so that every sum is exact. */
TEST(products) {
  int count = 0;
  const MmaInfo *row;
  for (int c = 0; c < chip_count(); c++)
    for (int i = 0; is_first(c) && (row = mma_at(i)); i++) {
      const TargetInfo *t = target_find(chip_of(c)).machine;
      if (!target_has_mma(t, row) || row->form > MMA_VIRTUAL) continue;
      unsigned types = target_mma_types(t, row);
      DType first = type_of(types, 0), second = type_of(types, (int)first + 1), acc;
      acc = type_of(row->acc_types, 0);
      CHECK(product_agrees(chip_of(c), row, first, first, acc));
      if (second < DTYPE_COUNT)
        CHECK(product_agrees(chip_of(c), row, row->mixed ? first : second, second, acc));
      count++;
    }
  CHECK(count > 20);
}

static void fill_sunk(Lab *l) {
  lab_tensor(l, DTYPE_f16, 1, 512);
  lab_tensor(l, DTYPE_f32, 1, 256);
}

/* A product that only some lanes store: LLVM 19 and 22 would move it, and what computes its
 * operands, into their branch, where the other lanes contribute nothing. Fails if the result does
 * not pass through the assembly statement of amd_mma.c. */
TEST(products_in_branches) {
  static const struct {
    const char *chip, *row;
    int n;
  } cases[] = {{"gfx1100", "wmma11_16x16x16_f32_f16", 16},
               {"gfx1201", "RDNA4_WAVE32_F32_16x16x16_F16", 8},
               {"gfx1250", "GFX1250_F32_16x16x32_F16", 16}};
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    char text[1024];
    int n = cases[i].n;
    snprintf(text, sizeof text,
             "thread kernel @k(%%a: mem<A, f16>, %%c: mem<C, f32>)\n"
             "  launch grid (1) block (32) wave 32\n  bind A = 512\n  bind C = 256\n{\n"
             "  %%ia = expr %d*%s : i32\n  %%ic = expr 8*$T0 : i32\n"
             "  %%x = load %%a, %%ia : vec<%d, f16>\n  %%y = add %%x, %%x\n"
             "  %%s = scalar 0.0 : f32\n  %%z = splat %%s : vec<8, f32>\n"
             "  %%p = wave_mma %s %%y, %%x, %%z\n  %%m = expr $T0 < 8 : i1\n"
             "  if %%m {\n    store %%p, %%c, %%ic\n  }\n}\n",
             n, strcmp(cases[i].chip, "gfx1100") ? "$T0" : "Mod($T0, 16)", n, cases[i].row);
    CHECK(amd_agrees(text, cases[i].chip, fill_sunk, 1e-6));
  }
}

static void fill_scaled(Lab *l) {
  lab_tensor(l, DTYPE_f8e4m3fn, 1, 2048);
  lab_tensor(l, DTYPE_f32, 1, 1024);
}

/* The same for scaled products, which LLVM 22 moves together with the choice of the scales. */
TEST(scaled_products_in_branches) {
  static const struct {
    const char *row;
    int n; /* elements of the result in a lane */
  } cases[] = {{"F32_16x16x128_F8F6F4", 4}, {"F32_32x32x64_F8F6F4", 16}};
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "thread kernel @k(%%a: mem<A, f8e4m3fn>, %%c: mem<C, f32>)\n"
             "  launch grid (1) block (64) wave 64\n  bind A = 2048\n  bind C = 1024\n{\n"
             "  %%ia = expr 32*$T0 : i32\n  %%ic = expr %d*$T0 : i32\n"
             "  %%x = load %%a, %%ia : vec<32, f8e4m3fn>\n"
             "  %%one = scalar 1.0 : f8e8m0fnu\n  %%two = scalar 2.0 : f8e8m0fnu\n"
             "  %%o = expr $T0 < 32 : i1\n  %%q = select %%o, %%one, %%two\n"
             "  %%s = scalar 0.0 : f32\n  %%z = splat %%s : vec<%d, f32>\n"
             "  %%p = wave_mma %s %%x, %%x, %%z, %%q, %%q\n  %%m = expr $T0 < 8 : i1\n"
             "  if %%m {\n    store %%p, %%c, %%ic\n  }\n}\n",
             cases[i].n, cases[i].n, cases[i].row);
    CHECK(amd_agrees(text, "gfx950", fill_scaled, 1e-6));
  }
}

/* Two scales of 2^-127 are not two that are absent. */
TEST(least_scales) {
  static const char text[] =
      "thread kernel @k(%a: mem<A, f8e4m3fn>, %c: mem<C, f32>)\n"
      "  launch grid (1) block (64) wave 64\n  bind A = 2048\n  bind C = 1024\n{\n"
      "  %ia = expr 32*$T0 : i32\n  %ic = expr 16*$T0 : i32\n"
      "  %x = load %a, %ia : vec<32, f8e4m3fn>\n  %q = scalar 0.0 : f8e8m0fnu\n"
      "  %s = scalar 1.0 : f32\n  %z = splat %s : vec<16, f32>\n"
      "  %p = wave_mma F32_32x32x64_F8F6F4 %x, %x, %z, %q, %q\n  store %p, %c, %ic\n}\n";
  CHECK(amd_agrees(text, "gfx950", fill_scaled, 0));
}

/* The same for values that lanes exchange: only one lane stores what it got from the lane `by`
 * apart. */
TEST(exchanges_in_branches) {
  for (int c = 0; c < chip_count(); c++)
    for (int by = 1; is_first(c) && by < lanes_of(chip_of(c)); by *= 2) {
      char text[512];
      int lanes = lanes_of(chip_of(c));
      fill_count = lanes;
      snprintf(text, sizeof text,
               "thread kernel @k(%%a: mem<N, f32>, %%b: mem<N, f32>, %%c: mem<N, f32>)\n"
               "  launch grid (1) block (%d) wave %d\n  bind N = %d\n{\n"
               "  %%o = expr $T0 : i32\n  %%x = load %%a, %%o : f32\n"
               "  %%y = shuffle xor %%x {by = %d}\n  %%s = add %%x, %%y\n"
               "  %%m = expr Eq($T0, 0) : i1\n"
               "  if %%m {\n    store %%s, %%c, %%o\n  }\n}\n",
               lanes, lanes, lanes, by);
      bool ok = amd_agrees(text, chip_of(c), fill_bits, 0);
      if (!ok) printf("%d apart on %s\n", by, chip_of(c));
      CHECK(ok);
    }
}

/* ---- memory ---- */

static void fill_memory(Lab *l) {
  lab_tensor(l, DTYPE_f16, 1, 1024);
  lab_tensor(l, DTYPE_f16, 1, 1024);
  lab_tensor(l, DTYPE_i32, 1, 1024);
}

/* Masks of whole accesses and of elements, through buffers, branches and the LDS. */
static const char masks[] =
    "thread kernel @k(%%a: mem<N, f16>, %%c: mem<N, f16>, %%d: mem<N, i32>)\n"
    "  launch grid (2) block (%d) wave %d shared 2048\n  bind N = 1024\n{\n"
    "  %%s = alloc {base = 0} : mem<512, f16, shared>\n"
    "  %%o = expr 4*$T0 + 4*%d*$WG0 : %s\n  %%i = expr 4*$T0 : i32\n"
    "  %%m = expr $T0 < 37 : i1\n  %%e = expr Eq(Mod($T0, 3), 0) : i1\n"
    "  %%x = load %%a, %%o, %%m : vec<4, f16>\n  %%y = load %%a, %%o {imm = 8} : vec<2, f16>\n"
    "  store %%x, %%s, %%i\n  barrier workgroup\n"
    "  %%four = join %%m, %%e, %%m, %%e : vec<4, i1>\n"
    "  %%z = load %%s, %%i, %%e : vec<4, f16>\n  %%v = load %%a, %%o, %%four {imm = 4} : vec<4, "
    "f16>\n"
    "  %%u = add %%z, %%v\n  store %%u, %%c, %%o, %%four\n  store %%y, %%c, %%o, %%e {imm = 2}\n"
    "  %%w = cast %%x : vec<4, i32>\n  %%one = pick [1] %%w : i32\n"
    "  %%t = expr Mod($T0, 5) : i32\n  %%old = atomic add %%one, %%d, %%t\n"
    "  %%r = atomic max %%one, %%d, %%t, %%e {imm = 8}\n}\n";

TEST(masked_memory) {
  for (int c = 0; c < chip_count(); c++)
    for (int wide = 0; wide < 2; wide++) {
      char text[2048];
      int lanes = lanes_of(chip_of(c));
      snprintf(text, sizeof text, masks, lanes, lanes, lanes, wide ? "index" : "i32");
      CHECK(amd_agrees(text, chip_of(c), fill_memory, 0));
    }
}

TESTS_MAIN(RUN(integers) RUN(floats) RUN(functions_of_f32) RUN(large_operands) RUN(casts)
               RUN(shuffles) RUN(products) RUN(products_in_branches)
                   RUN(scaled_products_in_branches) RUN(least_scales) RUN(exchanges_in_branches)
                       RUN(masked_memory))
