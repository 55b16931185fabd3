/* test_isa_divide.c: division as LLVM expands it (v_div_scale, v_div_fmas, v_div_fixup), run by the
 * executor: every quotient is the host's, also if it is subnormal or out of range. */
#include <math.h>

#include "unit/isa_kit.h"

enum { THREADS = 64, GROUPS = 300, COUNT = THREADS * GROUPS };

typedef struct Format {
  const char *type;
  int bytes, fraction, bias;
} Format;

static const Format f32 = {"float", 4, 23, 127}, f64 = {"double", 8, 52, 1023};
static const char *const chips[] = {"gfx942", "gfx1201"};

static uint64_t random_bits(uint64_t *state) {
  *state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t x = *state;
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* ---- numbers as memory holds them ---- */

static double get(const Format *f, const void *data, int i) {
  if (f->bytes == 4) return ((const float *)data)[i];
  return ((const double *)data)[i];
}

static void put(const Format *f, void *data, int i, double v) {
  if (f->bytes == 4) ((float *)data)[i] = (float)v;
  else ((double *)data)[i] = v;
}

static double quotient(const Format *f, double x, double y) {
  return f->bytes == 4 ? (float)x / (float)y : x / y;
}

/* ---- operands ---- */

/* Any bits: every exponent is as likely as the others. */
static void draw_any(const Format *f, void *x, void *y) {
  uint64_t state = 5, bits[2];
  for (int i = 0; i < COUNT; i++) {
    for (int n = 0; n < 2; n++) bits[n] = random_bits(&state);
    memcpy((char *)x + i * f->bytes, &bits[0], (size_t)f->bytes);
    memcpy((char *)y + i * f->bytes, &bits[1], (size_t)f->bytes);
  }
}

/* Quotients that are subnormal. Half of the divisors have few bits, so that some quotients lie
 * halfway between two numbers, and others next to that. */
static void draw_subnormal(const Format *f, void *x, void *y) {
  uint64_t state = 7;
  for (int i = 0; i < COUNT; i++) {
    double a = ldexp((double)(random_bits(&state) >> (64 - f->fraction)), -f->fraction) + 1;
    double b = (double)(random_bits(&state) >> (i % 2 ? 60 : 64 - f->fraction)) + 1;
    int lost = (int)(random_bits(&state) % (uint64_t)(f->fraction + 2)), middle = f->bias / 2;
    put(f, x, i, ldexp(a, -middle));
    put(f, y, i, ldexp(b, f->bias - middle + lost - ilogb(b)));
  }
}

/* ---- running ---- */

static const char *kernel_of(Arena *a, const char *type) {
  StrBuf out = {.arena = a};
  sb_puts(&out, "declare i32 @llvm.amdgcn.workitem.id.x()\n"
                "declare i32 @llvm.amdgcn.workgroup.id.x()\n"
                "define amdgpu_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y, "
                "ptr addrspace(1) %z) #0 {\n"
                "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
                "  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n");
  sb_printf(&out, "  %%s = mul i32 %%g, %d\n  %%i = add i32 %%s, %%t\n", THREADS);
  for (const char *p = "xyz"; *p; p++)
    sb_printf(&out, "  %%p%c = getelementptr %s, ptr addrspace(1) %%%c, i32 %%i\n", *p, type, *p);
  sb_printf(&out, "  %%a = load %s, ptr addrspace(1) %%px\n", type);
  sb_printf(&out, "  %%b = load %s, ptr addrspace(1) %%py\n", type);
  sb_printf(&out, "  %%q = fdiv %s %%a, %%b\n", type);
  sb_printf(&out, "  store %s %%q, ptr addrspace(1) %%pz\n  ret void\n}\n", type);
  sb_puts(&out, "attributes #0 = { nounwind \"amdgpu-flat-work-group-size\"=\"64,64\" }\n");
  return sb_text(&out);
}

/* How many quotients are not the host's; the first is printed. */
static int wrong(const Format *f, const char *chip, const void *x, const void *y, const void *z) {
  int bad = 0;
  for (int i = 0; i < COUNT; i++) {
    double a = get(f, x, i), b = get(f, y, i), want = quotient(f, a, b), got = get(f, z, i);
    bool is_zero = want == 0 && got == 0 && !signbit(want) == !signbit(got);
    if (is_zero || (want != 0 && got == want) || (isnan(want) && isnan(got))) continue;
    if (!bad++) printf("%s, %s: %a / %a is %a, expected %a\n", chip, f->type, a, b, got, want);
  }
  return bad;
}

static int run(const Format *f, const char *chip, void (*draw)(const Format *, void *, void *)) {
  static double x[COUNT], y[COUNT], z[COUNT];
  Arena *a = arena_new();
  IsaKit k = isa_kit(kernel_of(a, f->type), chip);
  draw(f, x, y);
  isa_kit_tensor(&k, "x", x, sizeof x);
  isa_kit_tensor(&k, "y", y, sizeof y);
  isa_kit_tensor(&k, "z", z, sizeof z);
  bool ok = isa_kit_runs(&k, GROUPS, THREADS);
  int bad = ok && !k.skipped ? wrong(f, chip, x, y, z) : !ok;
  isa_kit_close(&k);
  arena_free(a);
  return bad;
}

TEST(any_quotients) {
  for (size_t c = 0; c < WV_LEN(chips); c++) {
    CHECK_INT(run(&f32, chips[c], draw_any), 0);
    CHECK_INT(run(&f64, chips[c], draw_any), 0);
  }
}

TEST(subnormal_quotients) {
  for (size_t c = 0; c < WV_LEN(chips); c++) {
    CHECK_INT(run(&f32, chips[c], draw_subnormal), 0);
    CHECK_INT(run(&f64, chips[c], draw_subnormal), 0);
  }
}

TESTS_MAIN(RUN(any_quotients) RUN(subnormal_quotients))
