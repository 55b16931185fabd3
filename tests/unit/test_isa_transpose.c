/* test_isa_transpose.c: LDS reads that transpose, compiled by LLVM and run by the executor, against
 * the tiles that AMD's manuals describe. */
#include "unit/isa_kit.h"

typedef struct Form {
  const char *chip, *name, *type; /* of the intrinsic, of its result */
  int bits, bytes;                /* of an element; that a lane reads */
} Form;

static const Form forms[] = {
    {"gfx950", "ds.read.tr16.b64.v4i16", "<4 x i16>", 16, 8},
    {"gfx950", "ds.read.tr8.b64.v2i32", "<2 x i32>", 8, 8},
    {"gfx950", "ds.read.tr4.b64.v2i32", "<2 x i32>", 4, 8},
    {"gfx950", "ds.read.tr6.b96.v3i32", "<3 x i32>", 6, 12},
    {"gfx1250", "ds.load.tr16.b128.v8i16", "<8 x i16>", 16, 16},
    {"gfx1250", "ds.load.tr8.b64.v2i32", "<2 x i32>", 8, 8},
    {"gfx1250", "ds.load.tr4.b64.v2i32", "<2 x i32>", 4, 8},
};

/* Lane t copies its bytes to LDS, 16 bytes after those of lane t - 1, and reads there. */
static const char *text_of(Arena *a, const Form *f) {
  return arena_printf(a,
                      "@sm = internal addrspace(3) global [1024 x i8] poison, align 16\n"
                      "declare i32 @llvm.amdgcn.workitem.id.x()\n"
                      "declare %s @llvm.amdgcn.%s(ptr addrspace(3))\n"
                      "define amdgpu_kernel void @k(ptr addrspace(1) %%x, ptr addrspace(1) %%y) {\n"
                      "  %%t = call i32 @llvm.amdgcn.workitem.id.x()\n"
                      "  %%i = mul i32 %%t, %d\n  %%j = mul i32 %%t, 16\n"
                      "  %%p = getelementptr i8, ptr addrspace(1) %%x, i32 %%i\n"
                      "  %%q = getelementptr i8, ptr addrspace(1) %%y, i32 %%i\n"
                      "  %%s = getelementptr i8, ptr addrspace(3) @sm, i32 %%j\n"
                      "  %%v = load %s, ptr addrspace(1) %%p, align 4\n"
                      "  store %s %%v, ptr addrspace(3) %%s, align 16\n"
                      "  %%m = call %s @llvm.amdgcn.%s(ptr addrspace(3) %%s)\n"
                      "  store %s %%m, ptr addrspace(1) %%q, align 4\n  ret void\n}\n",
                      f->type, f->name, f->bytes, f->type, f->type, f->type, f->name, f->type);
}

static unsigned element(const uint8_t *bytes, int bits, int n) {
  unsigned v = 0;
  for (int b = 0; b < bits; b++) {
    int at = n * bits + b;
    v |= (unsigned)(bytes[at / 8] >> at % 8 & 1) << b;
  }
  return v;
}

/* The element, counted in lane order, that element r of a lane's result is. gfx950: 16 lanes read a
 * tile with 16 columns, row by row. gfx1250: see target/matrices.c. */
static int origin(const Form *f, int lane, int r) {
  int n = f->bytes * 8 / f->bits;
  if (f->chip[3] == '9') return lane / 16 * 16 * n + r * 16 + lane % 16;
  if (f->bits == 16) return (lane / 8 * 8 + r) * 8 + lane % 8;
  if (f->bits == 8) return (lane / 16 * 16 + r / 4 * 8 + lane / 8 % 2 * 4 + r % 4) * 8 + lane % 8;
  return (r / 8 * 16 + lane / 16 * 8 + r % 8) * 16 + lane % 16;
}

static bool transposes(const Form *f) {
  static uint8_t x[1024], y[1024];
  Arena *a = arena_new();
  int lanes = f->chip[3] == '9' ? 64 : 32, n = f->bytes * 8 / f->bits, bad = 0;
  for (int i = 0; i < 1024; i++) x[i] = (uint8_t)(i * 89 + i / 7), y[i] = 0;
  IsaKit k = isa_kit(text_of(a, f), f->chip);
  isa_kit_tensor(&k, "x", x, sizeof x);
  isa_kit_tensor(&k, "y", y, sizeof y);
  bool ok = isa_kit_runs(&k, 1, (unsigned)lanes);
  for (int lane = 0; ok && !k.skipped && lane < lanes; lane++)
    for (int r = 0; r < n; r++)
      bad += element(y, f->bits, lane * n + r) != element(x, f->bits, origin(f, lane, r));
  if (bad) printf("%s: %d elements are wrong\n", f->name, bad);
  isa_kit_close(&k);
  arena_free(a);
  return ok && !bad;
}

TEST(forms) {
  for (size_t i = 0; i < WV_LEN(forms); i++) CHECK(transposes(&forms[i]));
}

TESTS_MAIN(RUN(forms))
