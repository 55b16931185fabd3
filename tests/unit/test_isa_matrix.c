/* test_isa_matrix.c: matrix instructions, compiled from intrinsics, against a product in f64.
 *
 * Fragments are packed by the layouts of isa_layouts.def, which test_isa_layouts.py compares with
 * AMD's own. */
#include <ctype.h>
#include <math.h>

#include "isa/isa_matrix.h"
#include "unit/isa_kit.h"

typedef struct Case {
  const char *chip, *name; /* of the executor's row */
  IsaChips chips;
  const char *intrinsic; /* after llvm.amdgcn. */
  const char *a, *b, *d; /* types of a lane's operands */
  const char *extra;     /* further operands */
  const char *front;     /* operands before a, b and c, separated by bars */
  const char *signs;     /* A, B, C: negated; |: the absolute value of C, before that */
} Case;

#define SIGNS "i1 0, |i1 0, |i16 0, "

static const Case cases[] = {
    {"gfx90a", "v_mfma_f32_16x16x16_f16", ISA_CDNA, "mfma.f32.16x16x16f16", "<4 x half>",
     "<4 x half>", "<4 x float>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx942", "v_mfma_f32_16x16x16_f16", ISA_CDNA, "mfma.f32.16x16x16f16", "<4 x half>",
     "<4 x half>", "<4 x float>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx942", "v_mfma_f32_32x32x8_f16", ISA_CDNA, "mfma.f32.32x32x8f16", "<4 x half>",
     "<4 x half>", "<16 x float>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx90a", "v_mfma_f32_16x16x16_bf16", ISA_CDNA, "mfma.f32.16x16x16bf16.1k", "<4 x i16>",
     "<4 x i16>", "<4 x float>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx942", "v_mfma_f32_32x32x8_bf16", ISA_CDNA, "mfma.f32.32x32x8bf16.1k", "<4 x i16>",
     "<4 x i16>", "<16 x float>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx942", "v_mfma_f32_16x16x4_f32", ISA_CDNA, "mfma.f32.16x16x4f32", "float", "float",
     "<4 x float>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx90a", "v_mfma_f32_32x32x2_f32", ISA_CDNA, "mfma.f32.32x32x2f32", "float", "float",
     "<16 x float>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx942", "v_mfma_f64_16x16x4_f64", ISA_CDNA, "mfma.f64.16x16x4f64", "double", "double",
     "<4 x double>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx90a", "v_mfma_i32_16x16x16i8", ISA_CDNA, "mfma.i32.16x16x16i8", "i32", "i32", "<4 x i32>",
     ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx90a", "v_mfma_i32_32x32x8i8", ISA_CDNA, "mfma.i32.32x32x8i8", "i32", "i32", "<16 x i32>",
     ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx942", "v_mfma_i32_16x16x32_i8", ISA_CDNA, "mfma.i32.16x16x32.i8", "i64", "i64",
     "<4 x i32>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx942", "v_mfma_i32_32x32x16_i8", ISA_CDNA, "mfma.i32.32x32x16.i8", "i64", "i64",
     "<16 x i32>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx942", "v_mfma_f32_16x16x32_fp8_fp8", ISA_CDNA, "mfma.f32.16x16x32.fp8.fp8", "i64", "i64",
     "<4 x float>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx942", "v_mfma_f32_16x16x32_bf8_fp8", ISA_CDNA, "mfma.f32.16x16x32.bf8.fp8", "i64", "i64",
     "<4 x float>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx942", "v_mfma_f32_32x32x16_fp8_bf8", ISA_CDNA, "mfma.f32.32x32x16.fp8.bf8", "i64", "i64",
     "<16 x float>", ", i32 0, i32 0, i32 0", "||", ""},
    {"gfx1100", "v_wmma_f32_16x16x16_f16", ISA_RDNA3, "wmma.f32.16x16x16.f16.v8f32.v16f16",
     "<16 x half>", "<16 x half>", "<8 x float>", "", "||", ""},
    {"gfx1100", "v_wmma_f32_16x16x16_bf16", ISA_RDNA3, "wmma.f32.16x16x16.bf16.v8f32.v16i16",
     "<16 x i16>", "<16 x i16>", "<8 x float>", "", "||", ""},
    {"gfx1201", "v_wmma_f32_16x16x16_f16", ISA_RDNA4, "wmma.f32.16x16x16.f16.v8f32.v8f16",
     "<8 x half>", "<8 x half>", "<8 x float>", "", "||", ""},
    {"gfx1201", "v_wmma_f32_16x16x16_bf16", ISA_RDNA4, "wmma.f32.16x16x16.bf16.v8f32.v8i16",
     "<8 x i16>", "<8 x i16>", "<8 x float>", "", "||", ""},
    {"gfx1201", "v_wmma_f32_16x16x16_fp8_bf8", ISA_RDNA4, "wmma.f32.16x16x16.fp8.bf8.v8f32.v2i32",
     "<2 x i32>", "<2 x i32>", "<8 x float>", "", "||", ""},
    {"gfx1250", "v_wmma_f32_16x16x32_f16", ISA_CDNA5, "wmma.f32.16x16x32.f16.v8f32.v16f16",
     "<16 x half>", "<16 x half>", "<8 x float>", ", i1 0, i1 0", SIGNS, ""},
    {"gfx1250", "v_wmma_f32_16x16x32_bf16", ISA_CDNA5, "wmma.f32.16x16x32.bf16.v8f32.v16bf16",
     "<16 x bfloat>", "<16 x bfloat>", "<8 x float>", ", i1 0, i1 0", SIGNS, ""},
    {"gfx1250", "v_wmma_f32_16x16x4_f32", ISA_CDNA5, "wmma.f32.16x16x4.f32.v8f32.v2f32",
     "<2 x float>", "<2 x float>", "<8 x float>", ", i1 0, i1 0", SIGNS, ""},
    {"gfx1250", "v_wmma_f32_16x16x64_fp8_bf8", ISA_CDNA5, "wmma.f32.16x16x64.fp8.bf8.v8f32.v8i32",
     "<8 x i32>", "<8 x i32>", "<8 x float>", ", i1 0, i1 0", "||i16 0, ", ""},
    {"gfx1250", "v_wmma_i32_16x16x64_iu8", ISA_CDNA5, "wmma.i32.16x16x64.iu8.v8i32.v8i32",
     "<8 x i32>", "<8 x i32>", "<8 x i32>", ", i1 0, i1 0, i1 0", "i1 1, |i1 1, |", ""},
    {"gfx1100", "v_wmma_f32_16x16x16_f16", ISA_RDNA3, "wmma.f32.16x16x16.f16.v8f32.v16f16",
     "<16 x half>", "<16 x half>", "<8 x float>", "", "||", "A"},
    {"gfx1201", "v_wmma_f32_16x16x16_f16", ISA_RDNA4, "wmma.f32.16x16x16.f16.v8f32.v8f16",
     "<8 x half>", "<8 x half>", "<8 x float>", "", "||", "AC"},
    {"gfx1201", "v_wmma_f32_16x16x16_f16", ISA_RDNA4, "wmma.f32.16x16x16.f16.v8f32.v8f16",
     "<8 x half>", "<8 x half>", "<8 x float>", "", "||", "BC|"},
    {"gfx1201", "v_wmma_f32_16x16x16_fp8_bf8", ISA_RDNA4, "wmma.f32.16x16x16.fp8.bf8.v8f32.v2i32",
     "<2 x i32>", "<2 x i32>", "<8 x float>", "", "||", "|"},
    {"gfx1250", "v_wmma_f32_16x16x32_f16", ISA_CDNA5, "wmma.f32.16x16x32.f16.v8f32.v16f16",
     "<16 x half>", "<16 x half>", "<8 x float>", ", i1 0, i1 0", "i1 0, |i1 1, |i16 3, ", "BC|"},
    {"gfx1250", "v_wmma_f32_16x16x32_bf16", ISA_CDNA5, "wmma.f32.16x16x32.bf16.v8f32.v16bf16",
     "<16 x bfloat>", "<16 x bfloat>", "<8 x float>", ", i1 0, i1 0", "i1 1, |i1 0, |i16 2, ",
     "A|"},
    {"gfx1250", "v_wmma_f32_16x16x4_f32", ISA_CDNA5, "wmma.f32.16x16x4.f32.v8f32.v2f32",
     "<2 x float>", "<2 x float>", "<8 x float>", ", i1 0, i1 0", "i1 1, |i1 0, |i16 1, ", "AC"},
};

/* ---- elements: small integers are exact in all types ---- */

static int bits_of(IsaElement e) {
  static const int bits[] = {[ISA_f16] = 16, [ISA_bf16] = 16, [ISA_f32] = 32, [ISA_f64] = 64,
                             [ISA_fp8] = 8,  [ISA_bf8] = 8,   [ISA_fp6] = 6,  [ISA_bf6] = 6,
                             [ISA_fp4] = 4,  [ISA_i8] = 8,    [ISA_iu8] = 8,  [ISA_i32] = 32};
  return bits[e];
}

/* A float format of `mantissa` bits: the bits of an integer in [-7, 7]. */
static uint64_t small_float(int v, int bits, int mantissa, int bias) {
  int size = abs(v), e = 0;
  if (!v) return 0;
  while (size >> (e + 1)) e++;
  uint64_t fraction = mantissa >= e ? (uint64_t)(size - (1 << e)) << (mantissa - e) : 0;
  return (uint64_t)(v < 0) << (bits - 1) | (uint64_t)(e + bias) << mantissa | fraction;
}

static uint64_t encode(IsaElement e, int v, bool is_fnuz) {
  switch (e) {
  case ISA_f16: return small_float(v, 16, 10, 15);
  case ISA_bf16: return small_float(v, 16, 7, 127);
  case ISA_f32: return small_float(v, 32, 23, 127);
  case ISA_f64: return small_float(v, 64, 52, 1023);
  case ISA_fp8: return small_float(v, 8, 3, is_fnuz ? 8 : 7);
  case ISA_bf8: return small_float(v, 8, 2, is_fnuz ? 16 : 15);
  case ISA_fp6: return small_float(v, 6, 3, 1);
  case ISA_bf6: return small_float(v, 6, 2, 3);
  case ISA_fp4: return small_float(v, 4, 1, 1);
  case ISA_mx8:
  case ISA_mx4: break;
  case ISA_i8:
  case ISA_iu8: return (uint8_t)v;
  case ISA_i32: return (uint32_t)v;
  }
  return 0;
}

/* bf8 has two bits after the point: 5 and 7 are not among its numbers. */
static int pick(IsaElement e, int n) {
  static const int eight[] = {0, 1, -2, 3, -4, 6, -1, 2};
  return e == ISA_bf8 ? eight[n & 7] : n % 15 - 7;
}

static double decode_d(IsaElement e, const uint8_t *at) {
  float f;
  double d;
  int32_t i;
  memcpy(&f, at, 4), memcpy(&i, at, 4), memcpy(&d, at, e == ISA_f64 ? 8 : 4);
  return e == ISA_f64 ? d : e == ISA_i32 ? (double)i : (double)f;
}

/* ---- kernels ---- */

/* "i1 0, " to "i1, ": what a declaration says. */
static const char *types_of(Arena *a, const char *operands) {
  char *out = arena_strdup(a, operands), *to = out;
  for (const char *at = out; *at; at++) {
    if (*at == ' ' && isdigit((unsigned char)at[1])) at++;
    else *to++ = *at;
  }
  *to = 0;
  return out;
}

/* The instructions of gfx1250 have operands for signs; those of other chips take them from fneg and
 * fabs. Defines %a of %a0. */
static const char *sign(Arena *a, const Case *c, char operand, const char *type) {
  bool is_folded = c->chips != ISA_CDNA5;
  bool negates = is_folded && strchr(c->signs, operand);
  bool is_absolute = is_folded && operand == 'C' && strchr(c->signs, '|');
  int name = operand - 'A' + 'a', from = is_absolute ? 1 : 0;
  StrBuf s = {.arena = a};
  if (is_absolute) sb_printf(&s, " %%c1 = call %s @llvm.fabs.v8f32(%s %%c0)\n", type, type);
  if (negates) sb_printf(&s, " %%%c = fneg %s %%%c%d\n", name, type, name, from);
  else sb_printf(&s, " %%%c = bitcast %s %%%c%d to %s\n", name, type, name, from, type);
  return sb_text(&s);
}

static const char *kernel_of(Arena *a, const Case *c) {
  const char *front[3], *type[3], *at = c->front;
  for (int i = 0; i < 3; i++) {
    size_t n = strcspn(at, "|");
    front[i] = arena_strndup(a, at, n);
    type[i] = types_of(a, front[i]);
    at += n + (at[n] == '|');
  }
  return arena_printf(
      a,
      "declare i32 @llvm.amdgcn.workitem.id.x()\n"
      "declare <8 x float> @llvm.fabs.v8f32(<8 x float>)\n"
      "declare %s @llvm.amdgcn.%s(%s%s, %s%s, %s%s%s)\n"
      "define amdgpu_kernel void @k(ptr addrspace(1) %%x, ptr addrspace(1) %%y, ptr addrspace(1) "
      "%%z) #0 {\n"
      " %%t = call i32 @llvm.amdgcn.workitem.id.x()\n"
      " %%px = getelementptr %s, ptr addrspace(1) %%x, i32 %%t\n"
      " %%py = getelementptr %s, ptr addrspace(1) %%y, i32 %%t\n"
      " %%pz = getelementptr %s, ptr addrspace(1) %%z, i32 %%t\n"
      " %%a0 = load %s, ptr addrspace(1) %%px\n"
      " %%b0 = load %s, ptr addrspace(1) %%py\n"
      " %%c0 = load %s, ptr addrspace(1) %%pz\n"
      "%s%s%s"
      " %%r = call %s @llvm.amdgcn.%s(%s%s %%a, %s%s %%b, %s%s %%c%s)\n"
      " store %s %%r, ptr addrspace(1) %%pz\n ret void\n}\n"
      "attributes #0 = { nounwind \"amdgpu-flat-work-group-size\"=\"32,64\" }\n",
      c->d, c->intrinsic, type[0], c->a, type[1], c->b, type[2], c->d, types_of(a, c->extra), c->a,
      c->b, c->d, c->a, c->b, c->d, sign(a, c, 'A', c->a), sign(a, c, 'B', c->b),
      sign(a, c, 'C', c->d), c->d, c->intrinsic, front[0], c->a, front[1], c->b, front[2], c->d,
      c->extra, c->d);
}

enum { MOST = 64 * 1024 };

/* Packs a dense matrix: lane by lane, elements from the low end. */
static size_t pack(Arena *a, const IsaMatrix *m, int operand, IsaElement e, const int *dense,
                   bool is_fnuz, uint8_t *to) {
  Layout l = isa_matrix_layout(m, operand);
  const int *table = layout_table(a, &l);
  int n = layout_positions(&l), bytes = bits_of(e) / 8;
  for (int i = 0; i < n; i++) {
    uint64_t bits = encode(e, dense[table[i]], is_fnuz);
    memcpy(to + (size_t)i * (size_t)bytes, &bits, (size_t)bytes);
  }
  return (size_t)(n * bytes);
}

static int wrong_elements(Arena *a, const IsaMatrix *m, const int *dense_a, const int *dense_b,
                          const int *dense_c, const uint8_t *z) {
  Layout l = isa_matrix_layout(m, 2);
  const int *table = layout_table(a, &l);
  int bad = 0, bytes = bits_of(m->d) / 8;
  for (int i = 0; i < layout_positions(&l); i++) {
    int row = table[i] / m->n, column = table[i] % m->n, sum = dense_c[table[i]];
    for (int k = 0; k < m->k; k++) sum += dense_a[row * m->k + k] * dense_b[column * m->k + k];
    bad += decode_d(m->d, z + i * bytes) != sum;
  }
  return bad;
}

static void apply(const Case *c, char operand, int *dense, int n) {
  for (int i = 0; i < n; i++) {
    if (operand == 'C' && strchr(c->signs, '|')) dense[i] = abs(dense[i]);
    if (strchr(c->signs, operand)) dense[i] = -dense[i];
  }
}

static int run(const Case *c) {
  static uint8_t x[MOST], y[MOST], z[MOST];
  Arena *a = arena_new();
  const IsaMatrix *m = isa_matrix_find(c->name, c->chips, ISA_fp8, ISA_fp8);
  int da[32 * 64], db[32 * 64], dc[32 * 32], bad = 1;
  bool is_fnuz = strcmp(c->chip, "gfx942") == 0;
  for (int i = 0; i < m->m * m->k; i++) da[i] = pick(m->a, 7 * i + i / 13);
  for (int i = 0; i < m->n * m->k; i++) db[i] = pick(m->b, 5 * i + i / 7);
  for (int i = 0; i < m->m * m->n; i++) dc[i] = i % 15 - 7;
  IsaKit k = isa_kit(kernel_of(a, c), c->chip);
  isa_kit_tensor(&k, "x", x, pack(a, m, 0, m->a, da, is_fnuz, x));
  isa_kit_tensor(&k, "y", y, pack(a, m, 1, m->b, db, is_fnuz, y));
  isa_kit_tensor(&k, "z", z, pack(a, m, 2, m->d, dc, is_fnuz, z));
  apply(c, 'A', da, m->m * m->k), apply(c, 'B', db, m->n * m->k), apply(c, 'C', dc, m->m * m->n);
  if (isa_kit_runs(&k, 1, c->chips == ISA_CDNA ? 64 : 32))
    bad = k.skipped ? 0 : wrong_elements(a, m, da, db, dc, z);
  if (bad) printf("%s on %s: %d elements are wrong\n", c->name, c->chip, bad);
  isa_kit_close(&k);
  arena_free(a);
  return bad;
}

TEST(products) {
  for (size_t i = 0; i < WV_LEN(cases); i++) CHECK_INT(run(&cases[i]), 0);
}

/* LLVM lets the result of a product of four registers overlap a part of the sum that it is added to.
 * Empty assembly fixes both. */
TEST(overlap) {
  static const char ir[] =
      "declare i32 @llvm.amdgcn.workitem.id.x()\n"
      "declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half>, <4 x half>, <4 x float>, "
      "i32, i32, i32)\n"
      "define amdgpu_kernel void @k(ptr addrspace(1) %z) #0 {\n"
      "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
      "  %p = getelementptr <4 x float>, ptr addrspace(1) %z, i32 %t\n"
      "  %c = load <4 x float>, ptr addrspace(1) %p\n"
      "  %s = call <4 x float> asm sideeffect \"\", \"={v[2:5]},0\"(<4 x float> %c)\n"
      "  %r = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half> zeroinitializer, "
      "<4 x half> zeroinitializer, <4 x float> %s, i32 0, i32 0, i32 0)\n"
      "  %d = call <4 x float> asm sideeffect \"\", \"={v[4:7]},0\"(<4 x float> %r)\n"
      "  store <4 x float> %d, ptr addrspace(1) %p\n"
      "  ret void\n}\n"
      "attributes #0 = { nounwind \"amdgpu-flat-work-group-size\"=\"64,64\" "
      "\"amdgpu-waves-per-eu\"=\"2\" }\n";
  static float z[64 * 4];
  IsaKit k = isa_kit(ir, "gfx942");
  for (int i = 0; i < 64 * 4; i++) z[i] = (float)i;
  isa_kit_tensor(&k, "z", z, sizeof z);
  if (!k.skipped) {
    CHECK(isa_kit_run(&k, 1, 64));
    for (int i = 0; i < 64 * 4; i++) CHECK_INT((int)z[i], i);
  }
  isa_kit_close(&k);
}

/* WMMA needs all lanes: in a divergent branch its result is not defined. */
TEST(divergent) {
  static const char ir[] =
      "declare i32 @llvm.amdgcn.workitem.id.x()\n"
      "declare <8 x float> @llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v8f16(<8 x half>, <8 x half>, "
      "<8 x float>)\n"
      "define amdgpu_kernel void @k(ptr addrspace(1) %z) #0 {\n"
      "e: %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
      "  %p = getelementptr <8 x float>, ptr addrspace(1) %z, i32 %t\n"
      "  %c = load <8 x float>, ptr addrspace(1) %p\n"
      "  %q = icmp ult i32 %t, 16\n"
      "  br i1 %q, label %in, label %out\n"
      "in: %r = call <8 x float> @llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v8f16(<8 x half> "
      "zeroinitializer, <8 x half> zeroinitializer, <8 x float> %c)\n"
      "  store <8 x float> %r, ptr addrspace(1) %p\n"
      "  br label %out\n"
      "out: ret void\n}\n"
      "attributes #0 = { nounwind \"amdgpu-flat-work-group-size\"=\"32,32\" }\n";
  static float z[32 * 8];
  IsaKit k = isa_kit(ir, "gfx1201");
  isa_kit_tensor(&k, "z", z, sizeof z);
  if (!k.skipped) {
    CHECK(!isa_kit_run(&k, 1, 32));
    CHECK_INT(k.fault.kind, ISA_DIVERGED);
  }
  isa_kit_close(&k);
}

TESTS_MAIN(RUN(products) RUN(overlap) RUN(divergent))
