/* test_cpu_size.c: code does not grow with tiles: a 64 x 64 matmul and a 256 x 256 one, and steps of k
 * that are multiplied in two parts and in more, have the same number of ops and bytes, within an
 * eighth; parts add a quarter at most. */
#include <stdlib.h>
#include <string.h>

#include "runtime/llvm/cpu_host.h"
#include "unit/harness.h"
#include "wave.h"

typedef struct CodeSize {
  long ops, bytes; /* of one lane's program; of the object */
} CodeSize;

static const char *gemm(Arena *a, const char *type, int m, int n, int k) {
  return arena_printf(a,
                      "kernel @gemm(%%a: mem<M, K, %s>, %%b: mem<N, K, %s>, %%c: mem<M, N, f32>)\n"
                      "  workgroup M by %d on 0; workgroup N by %d on 1; tile K by %d\n"
                      "  hardware threads 64; dynamic M, N, K\n"
                      "{\n  %%z = fill 0.0 : tile<M, N, f32>\n"
                      "  %%r = for K carry %%acc = %%z {\n    %%x = read %%a\n    %%y = read %%b\n"
                      "    %%n = mma %%x, %%y, %%acc\n    yield %%n\n  }\n  write %%r, %%c\n}\n",
                      type, type, m, n, k);
}

static long lines_of(const char *text) {
  long n = 0;
  for (; *text; text++) n += *text == '\n';
  return n;
}

static long bytes_of(Arena *a, const char *llvm) {
  const char *error = NULL;
  const LlvmLibrary *l = llvm_library_open(a, "CPU targets need", 0, &error);
  LlvmCode code;
  if (!l) return 0;
  LlvmCompile o = {.target = cpu_host_target(l, a)};
  return llvm_compile(l, a, llvm, &o, &code, &error) ? (long)code.size : 0;
}

static CodeSize size_of(const char *type, int m, int n, int k) {
  Arena *a = arena_new();
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *kernel = NULL;
  CodeSize s = {0};
  wv_compile_options o = {.target = "cpu", .cache = -1};
  const char *text = gemm(a, type, m, n, k);
  wv_parse(cx, "gemm.wave", text, &kernel, 1);
  wv_program *p = wv_compile(kernel, &o);
  if (p) {
    s.ops = lines_of(wv_program_text(p, cx, 0, "ir"));
    s.bytes = bytes_of(a, wv_program_text(p, cx, 0, "llvm"));
  }
  wv_program_free(p);
  wv_kernel_free(kernel);
  wv_ctx_free(cx);
  arena_free(a);
  return s;
}

/* Addresses of larger tiles may take longer instructions. */
static bool is_near(long a, long b) { return a > 0 && labs(a - b) * 8 <= a; }

/* Blocks of parts are loaded or not, and stored or written. */
static bool is_quarter_more(long a, long b) { return a > 0 && (b - a) * 4 <= a; }

static bool has_device(void) {
  wv_ctx *cx = wv_ctx_new();
  bool has = wv_device_count(cx, WV_HOST) > 0;
  wv_ctx_free(cx);
  if (!has) printf("skipped: there is no libLLVM\n");
  return has;
}

TEST(code_does_not_grow) {
  static const char *const types[] = {"f32", "f16"};
  for (size_t i = 0; has_device() && i < WV_LEN(types); i++) {
    CodeSize small = size_of(types[i], 64, 64, 64), large = size_of(types[i], 256, 256, 64),
             deep = size_of(types[i], 64, 64, 256), deeper = size_of(types[i], 64, 64, 1024);
    printf("%s: %ld, %ld and %ld ops, %ld, %ld and %ld bytes\n", types[i], small.ops, large.ops,
           deep.ops, small.bytes, large.bytes, deep.bytes);
    CHECK(is_near(small.ops, large.ops) && is_near(small.bytes, large.bytes));
    CHECK(is_quarter_more(small.ops, deep.ops) && is_quarter_more(small.bytes, deep.bytes));
    CHECK(is_near(deep.ops, deeper.ops) && is_near(deep.bytes, deeper.bytes));
  }
}

TESTS_MAIN(RUN(code_does_not_grow))
