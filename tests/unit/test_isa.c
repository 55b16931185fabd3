/* test_isa.c: the executor of AMD machine code on whole kernels: memory, LDS and barriers, lanes,
 * control flow. */
#include "unit/isa_kit.h"

#define HEAD                                                                                       \
  "declare i32 @llvm.amdgcn.workitem.id.x()\n"                                                     \
  "declare i32 @llvm.amdgcn.workgroup.id.x()\n"                                                    \
  "declare void @llvm.amdgcn.s.barrier()\n"                                                        \
  "declare i32 @llvm.amdgcn.ds.swizzle(i32, i32)\n"                                                \
  "declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)\n"                                               \
  "declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32, i32, i32, i1)\n"                         \
  "declare i32 @llvm.amdgcn.readfirstlane(i32)\n"                                                  \
  "attributes #0 = { nounwind \"amdgpu-flat-work-group-size\"=\"64,256\" "                         \
  "\"uniform-work-group-size\"=\"true\" }\n"

static const char *const chips[] = {"gfx90a", "gfx942", "gfx1100", "gfx1201", "gfx1250"};
enum { CHIPS = 4 };

static const char saxpy[] = HEAD "define amdgpu_kernel void @k(ptr addrspace(1) %x, ptr "
                                 "addrspace(1) %y, float %a, i32 %n) #0 {\n"
                                 "e: %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
                                 "  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
                                 "  %b = mul i32 %g, 256\n"
                                 "  %i = add i32 %b, %t\n"
                                 "  %c = icmp slt i32 %i, %n\n"
                                 "  br i1 %c, label %in, label %out\n"
                                 "in: %i64 = zext i32 %i to i64\n"
                                 "  %p = getelementptr float, ptr addrspace(1) %x, i64 %i64\n"
                                 "  %q = getelementptr float, ptr addrspace(1) %y, i64 %i64\n"
                                 "  %u = load float, ptr addrspace(1) %p\n"
                                 "  %v = load float, ptr addrspace(1) %q\n"
                                 "  %w = fmul float %u, %a\n"
                                 "  %z = fadd float %w, %v\n"
                                 "  store float %z, ptr addrspace(1) %q\n"
                                 "  br label %out\n"
                                 "out: ret void\n"
                                 "}\n";

enum { N = 1000 };

static void fill(float *x, float *y) {
  for (int i = 0; i < N; i++) x[i] = (float)(i % 37) - 5, y[i] = (float)(i % 11) * 0.25f;
}

TEST(saxpy) {
  for (int c = 0; c < CHIPS; c++) {
    static float x[N], y[N];
    float a = 1.5f;
    int n = N, bad = 0;
    fill(x, y);
    IsaKit k = isa_kit(saxpy, chips[c]);
    isa_kit_tensor(&k, "x", x, sizeof x);
    isa_kit_tensor(&k, "y", y, sizeof y);
    isa_kit_number(&k, &a, 4);
    isa_kit_number(&k, &n, 4);
    CHECK(isa_kit_runs(&k, 4, 256));
    for (int i = 0; i < N && !k.skipped; i++)
      bad += y[i] != ((float)(i % 37) - 5) * 1.5f + (float)(i % 11) * 0.25f;
    CHECK_INT(bad, 0);
    isa_kit_close(&k);
  }
}

/* Element n + 1 is read: the fault names the tensor, the byte and the lane. */
TEST(outside) {
  for (int c = 0; c < CHIPS; c++) {
    static float x[N], y[N];
    float a = 1.5f;
    int n = N + 1;
    IsaKit k = isa_kit(saxpy, chips[c]);
    isa_kit_tensor(&k, "x", x, sizeof x);
    isa_kit_tensor(&k, "y", y, sizeof y);
    isa_kit_number(&k, &a, 4);
    isa_kit_number(&k, &n, 4);
    if (k.skipped) return;
    CHECK(!isa_kit_run(&k, 4, 256));
    CHECK_INT(k.fault.kind, ISA_OUTSIDE);
    CHECK(strstr(k.fault.text, "4 bytes are read at byte 4000 of `") != NULL);
    CHECK(strstr(k.fault.text, "which has 4000") != NULL);
    CHECK_INT(k.fault.group[0], 3);
    CHECK_INT(k.fault.wave * isa_wave_size(k.kernel) + k.fault.lane, N - 3 * 256);
    isa_kit_close(&k);
  }
}

/* A sum over a workgroup of 256 through LDS, with a barrier in every step. */
static const char reduction[] =
    HEAD "@sm = internal addrspace(3) global [256 x float] poison, align 16\n"
         "define amdgpu_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) #0 {\n"
         "e: %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
         "  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
         "  %b = mul i32 %g, 256\n"
         "  %i = add i32 %b, %t\n"
         "  %p = getelementptr float, ptr addrspace(1) %x, i32 %i\n"
         "  %s = getelementptr float, ptr addrspace(3) @sm, i32 %t\n"
         "  %v = load float, ptr addrspace(1) %p\n"
         "  store float %v, ptr addrspace(3) %s\n"
         "  br label %loop\n"
         "loop: %w = phi i32 [128, %e], [%w2, %next]\n"
         "  fence syncscope(\"workgroup\") release\n"
         "  call void @llvm.amdgcn.s.barrier()\n"
         "  fence syncscope(\"workgroup\") acquire\n"
         "  %c = icmp ult i32 %t, %w\n"
         "  br i1 %c, label %add, label %next\n"
         "add: %o = add i32 %t, %w\n"
         "  %q = getelementptr float, ptr addrspace(3) @sm, i32 %o\n"
         "  %v1 = load float, ptr addrspace(3) %s\n"
         "  %v2 = load float, ptr addrspace(3) %q\n"
         "  %v3 = fadd float %v1, %v2\n"
         "  store float %v3, ptr addrspace(3) %s\n"
         "  br label %next\n"
         "next: %w2 = lshr i32 %w, 1\n"
         "  %d = icmp eq i32 %w2, 0\n"
         "  br i1 %d, label %last, label %loop\n"
         "last: %f = icmp eq i32 %t, 0\n"
         "  br i1 %f, label %put, label %out\n"
         "put: %r = load float, ptr addrspace(3) @sm\n"
         "  %z = getelementptr float, ptr addrspace(1) %y, i32 %g\n"
         "  store float %r, ptr addrspace(1) %z\n"
         "  br label %out\n"
         "out: ret void\n"
         "}\n";

static IsaKit reduction_kit(const char *chip, float *x, float *y) {
  for (int i = 0; i < 768; i++) x[i] = (float)(i * i % 97);
  IsaKit k = isa_kit(reduction, chip);
  isa_kit_tensor(&k, "x", x, 768 * sizeof *x);
  isa_kit_tensor(&k, "y", y, 3 * sizeof *y);
  return k;
}

TEST(reduction) {
  for (int c = 0; c < CHIPS; c++) {
    static float x[768], y[3];
    IsaKit k = reduction_kit(chips[c], x, y);
    CHECK(isa_kit_runs(&k, 3, 256));
    for (int g = 0; g < 3 && !k.skipped; g++) {
      float sum = 0; /* integers: any order gives the same */
      for (int i = 0; i < 256; i++) sum += x[256 * g + i];
      CHECK(y[g] == sum);
    }
    isa_kit_close(&k);
  }
}

/* Every lane passes its value on to a lane of another wave, n times. All waits and all barriers are
 * needed: a wait or a barrier that is missing is always seen. */
static const char rotation[] =
    HEAD "@sm = internal addrspace(3) global [256 x i32] poison, align 16\n"
         "define amdgpu_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) #0 {\n"
         "e: %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
         "  %p = getelementptr i32, ptr addrspace(1) %x, i32 %t\n"
         "  %s = getelementptr i32, ptr addrspace(3) @sm, i32 %t\n"
         "  %v = load i32, ptr addrspace(1) %p\n"
         "  store i32 %v, ptr addrspace(3) %s\n"
         "  %t97 = add i32 %t, 97\n"
         "  %o = and i32 %t97, 255\n"
         "  %q = getelementptr i32, ptr addrspace(3) @sm, i32 %o\n"
         "  br label %loop\n"
         "loop: %i = phi i32 [0, %e], [%i1, %loop]\n"
         "  fence syncscope(\"workgroup\") release\n"
         "  call void @llvm.amdgcn.s.barrier()\n"
         "  fence syncscope(\"workgroup\") acquire\n"
         "  %u = load i32, ptr addrspace(3) %q\n"
         "  fence syncscope(\"workgroup\") release\n"
         "  call void @llvm.amdgcn.s.barrier()\n"
         "  fence syncscope(\"workgroup\") acquire\n"
         "  %u1 = add i32 %u, 1\n"
         "  store i32 %u1, ptr addrspace(3) %s\n"
         "  %i1 = add i32 %i, 1\n"
         "  %c = icmp slt i32 %i1, %n\n"
         "  br i1 %c, label %loop, label %out\n"
         "out: %r = load i32, ptr addrspace(3) %s\n"
         "  %z = getelementptr i32, ptr addrspace(1) %y, i32 %t\n"
         "  store i32 %r, ptr addrspace(1) %z\n"
         "  ret void\n"
         "}\n";

static IsaKit rotation_kit(const char *chip, int *x, int *y) {
  static const int n = 3;
  for (int i = 0; i < 256; i++) x[i] = 1000 * i;
  IsaKit k = isa_kit(rotation, chip);
  isa_kit_tensor(&k, "x", x, 256 * sizeof *x);
  isa_kit_tensor(&k, "y", y, 256 * sizeof *y);
  isa_kit_number(&k, &n, 4);
  return k;
}

TEST(rotation) {
  for (int c = 0; c < CHIPS; c++) {
    static int x[256], y[256];
    int bad = 0;
    IsaKit k = rotation_kit(chips[c], x, y);
    CHECK(isa_kit_runs(&k, 1, 256));
    for (int i = 0; i < 256 && !k.skipped; i++) bad += y[i] != x[(i + 3 * 97) % 256] + 3;
    CHECK_INT(bad, 0);
    isa_kit_close(&k);
  }
}

static bool is_named(const char *text, const char *const *names) {
  for (; *names; names++)
    if (strncmp(text, *names, strlen(*names)) == 0) return true;
  return false;
}

/* Removes each of these instructions in turn; counts those whose absence is not reported. */
static int unreported(const char *chip, const char *const *names, int *removed) {
  static int x[256], y[256];
  int missed = 0;
  *removed = 0;
  IsaKit whole = rotation_kit(chip, x, y);
  for (int i = 0; whole.kernel && i < isa_instructions(whole.kernel); i++) {
    uint64_t at;
    const char *text = isa_text(whole.kernel, i, &at);
    if (!is_named(text, names)) continue;
    IsaKit k = rotation_kit(chip, x, y);
    isa_remove(k.kernel, i);
    ++*removed;
    if (isa_kit_run(&k, 1, 256)) {
      missed++;
      printf("%s: 0x%llx `%s` was removed without a fault\n", chip, (unsigned long long)at, text);
    }
    isa_kit_close(&k);
  }
  isa_kit_close(&whole);
  return missed;
}

TEST(removed_waits) {
  static const char *const names[] = {"s_waitcnt lgkmcnt", "s_waitcnt vmcnt(0)", "s_wait_kmcnt",
                                      "s_wait_loadcnt",    "s_wait_dscnt",       NULL};
  for (int c = 0; c < CHIPS; c++) {
    int removed;
    CHECK_INT(unreported(chips[c], names, &removed), 0);
    CHECK(removed >= 4 || removed == 0);
  }
}

TEST(removed_barriers) {
  static const char *const names[] = {"s_barrier", NULL};
  for (int c = 0; c < CHIPS; c++) {
    int removed;
    CHECK_INT(unreported(chips[c], names, &removed), 0);
    CHECK(removed >= 2 || removed == 0);
  }
}

/* Lane i gets a value from lanes that it names in different ways. */
static const char shuffles[] = HEAD
    "define amdgpu_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) #0 {\n"
    "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %p = getelementptr i32, ptr addrspace(1) %x, i32 %t\n"
    "  %v = load i32, ptr addrspace(1) %p\n"
    "  %a = call i32 @llvm.amdgcn.ds.swizzle(i32 %v, i32 1055)\n"  /* xor 1 */
    "  %b = call i32 @llvm.amdgcn.ds.swizzle(i32 %v, i32 32795)\n" /* quad_perm 3 2 1 0 */
    "  %m = xor i32 %t, 21\n"
    "  %m4 = shl i32 %m, 2\n"
    "  %c = call i32 @llvm.amdgcn.ds.bpermute(i32 %m4, i32 %v)\n"
    "  %d = call i32 @llvm.amdgcn.update.dpp.i32(i32 -1, i32 %v, i32 275, i32 15, i32 15, i1 "
    "false)\n"
    "  %e = call i32 @llvm.amdgcn.update.dpp.i32(i32 7, i32 %v, i32 177, i32 15, i32 15, i1 true)\n"
    "  %f = call i32 @llvm.amdgcn.readfirstlane(i32 %v)\n"
    "  %t8 = mul i32 %t, 8\n"
    "  %q0 = getelementptr i32, ptr addrspace(1) %y, i32 %t8\n"
    "  store i32 %a, ptr addrspace(1) %q0\n"
    "  %q1 = getelementptr i32, ptr addrspace(1) %q0, i32 1\n"
    "  store i32 %b, ptr addrspace(1) %q1\n"
    "  %q2 = getelementptr i32, ptr addrspace(1) %q0, i32 2\n"
    "  store i32 %c, ptr addrspace(1) %q2\n"
    "  %q3 = getelementptr i32, ptr addrspace(1) %q0, i32 3\n"
    "  store i32 %d, ptr addrspace(1) %q3\n"
    "  %q4 = getelementptr i32, ptr addrspace(1) %q0, i32 4\n"
    "  store i32 %e, ptr addrspace(1) %q4\n"
    "  %q5 = getelementptr i32, ptr addrspace(1) %q0, i32 5\n"
    "  store i32 %f, ptr addrspace(1) %q5\n"
    "  ret void\n"
    "}\n";

TEST(shuffles) {
  for (int c = 0; c < CHIPS; c++) {
    static int x[64], y[64][8];
    for (int i = 0; i < 64; i++) x[i] = 100 + 3 * i;
    IsaKit k = isa_kit(shuffles, chips[c]);
    isa_kit_tensor(&k, "x", x, sizeof x);
    isa_kit_tensor(&k, "y", y, sizeof y);
    CHECK(isa_kit_runs(&k, 1, 64));
    int wave = k.skipped ? 64 : isa_wave_size(k.kernel), bad = 0;
    for (int i = 0; i < 64 && !k.skipped; i++) {
      int first = i / wave * wave;
      bad += y[i][0] != x[i ^ 1];
      bad += y[i][1] != x[i ^ 3];
      bad += y[i][2] != x[first + ((i ^ 21) & (wave - 1))];
      bad += y[i][3] != (i % 16 >= 3 ? x[i - 3] : -1); /* row_shr:3 */
      bad += y[i][4] != x[i ^ 1];                      /* quad_perm:[1,0,3,2] */
      bad += y[i][5] != x[first];
    }
    CHECK_INT(bad, 0);
    isa_kit_close(&k);
  }
}

/* Lanes leave the loop at different times; the quotient needs the steps of a division. */
static const char loops[] =
    HEAD "define amdgpu_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) #0 {\n"
         "e: %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
         "  %p = getelementptr i32, ptr addrspace(1) %x, i32 %t\n"
         "  %start = load i32, ptr addrspace(1) %p\n"
         "  br label %loop\n"
         "loop: %v = phi i32 [%start, %e], [%v2, %loop]\n"
         "  %s = phi i32 [0, %e], [%s2, %loop]\n"
         "  %odd = and i32 %v, 1\n"
         "  %is = icmp eq i32 %odd, 1\n"
         "  %half = lshr i32 %v, 1\n"
         "  %three = mul i32 %v, 3\n"
         "  %more = add i32 %three, 1\n"
         "  %v2 = select i1 %is, i32 %more, i32 %half\n"
         "  %s2 = add i32 %s, 1\n"
         "  %done = icmp ule i32 %v2, 1\n"
         "  br i1 %done, label %out, label %loop\n"
         "out: %d = sdiv i32 %start, %n\n"
         "  %r = srem i32 %start, %n\n"
         "  %h = mul i32 %s2, 10000\n"
         "  %h1 = mul i32 %d, 100\n"
         "  %h2 = add i32 %h, %h1\n"
         "  %h3 = add i32 %h2, %r\n"
         "  %q = getelementptr i32, ptr addrspace(1) %y, i32 %t\n"
         "  store i32 %h3, ptr addrspace(1) %q\n"
         "  ret void\n"
         "}\n";

static int collatz(int v) {
  int s = 0;
  do v = v & 1 ? 3 * v + 1 : v / 2, s++;
  while (v > 1);
  return s;
}

TEST(loops) {
  for (int c = 0; c < CHIPS; c++) {
    static int x[128], y[128];
    int n = 7, bad = 0;
    for (int i = 0; i < 128; i++) x[i] = 2 + 5 * i;
    IsaKit k = isa_kit(loops, chips[c]);
    isa_kit_tensor(&k, "x", x, sizeof x);
    isa_kit_tensor(&k, "y", y, sizeof y);
    isa_kit_number(&k, &n, 4);
    CHECK(isa_kit_runs(&k, 1, 128));
    for (int i = 0; i < 128 && !k.skipped; i++)
      bad += y[i] != collatz(x[i]) * 10000 + x[i] / 7 * 100 + x[i] % 7;
    CHECK_INT(bad, 0);
    isa_kit_close(&k);
  }
}

TEST(endless) {
  static int x[128], y[128];
  int n = 7;
  x[3] = 0x40000000; /* a long way down */
  IsaKit k = isa_kit(loops, "gfx942");
  isa_kit_tensor(&k, "x", x, sizeof x);
  isa_kit_tensor(&k, "y", y, sizeof y);
  isa_kit_number(&k, &n, 4);
  k.most = 100;
  if (!k.skipped) {
    CHECK(!isa_kit_run(&k, 1, 64));
    CHECK_INT(k.fault.kind, ISA_ENDLESS);
  }
  isa_kit_close(&k);
}

TESTS_MAIN(RUN(saxpy) RUN(outside) RUN(reduction) RUN(rotation) RUN(removed_waits)
               RUN(removed_barriers) RUN(shuffles) RUN(loops) RUN(endless))
