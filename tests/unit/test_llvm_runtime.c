/* test_llvm_runtime.c: libLLVM through dlopen, its errors, and the loader of object code. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/cpu_kit.h"

static const char good[] = "define i64 @twice(i64 %x) nounwind {\n"
                           "  %y = add i64 %x, %x\n  ret i64 %y\n}\n";

/* Compiles for this machine; NULL: *error. */
static const LlvmCode *compiled(Arena *a, const LlvmLibrary *l, const char *ir,
                                const char **error) {
  LlvmCode *code = ARENA_NEW(a, LlvmCode);
  LlvmCompile o = {.target = cpu_host_target(l, a)};
  return llvm_compile(l, a, ir, &o, code, error) ? code : NULL;
}

static CpuImage *loaded(Arena *a, const LlvmLibrary *l, const char *ir, const char **error) {
  const LlvmCode *code = compiled(a, l, ir, error);
  return code ? cpu_object_load(code->bytes, code->size, a, error) : NULL;
}

enum { OPENERS = 4, PROCESSES = 100 };

static void *open_and_search(void *start) {
  Arena *a = arena_new();
  const char *error = NULL;
  LlvmRef target = NULL;
  char *why = NULL;
  pthread_barrier_wait(start);
  const LlvmLibrary *l = llvm_library_open(a, "the test needs", 0, &error);
  if (l) l->GetTargetFromTriple("no-such-machine", &target, &why); /* visits the whole list */
  return NULL;
}

/* A process ends by itself, or is killed. */
static void open_at_once(void) {
  pthread_t threads[OPENERS];
  pthread_barrier_t start;
  alarm(30);
  pthread_barrier_init(&start, NULL, OPENERS);
  for (int i = 0; i < OPENERS; i++) pthread_create(&threads[i], NULL, open_and_search, &start);
  for (int i = 0; i < OPENERS; i++) pthread_join(threads[i], NULL);
  _exit(0);
}

/* Before this process loads it. Without the lock three of a hundred processes did not end. */
TEST(threads_open_it_at_once) {
  for (int i = 0; i < PROCESSES; i++) {
    int status = 0;
    pid_t child = fork();
    if (!child) open_at_once();
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (!WIFEXITED(status)) break;
  }
}

TEST(compile_and_call) {
  Arena *a = arena_new();
  const char *error = NULL;
  const LlvmLibrary *l = kit_llvm(a);
  CpuImage *image = l ? loaded(a, l, good, &error) : NULL;
  if (l) CHECK(image && l->version >= 16 && strchr(l->path, '/'));
  if (image) {
    int64_t (*twice)(int64_t);
    *(void **)&twice = cpu_object_symbol(image, "twice");
    CHECK(twice && twice(21) == 42);
    CHECK(!cpu_object_symbol(image, "thrice"));
  }
  cpu_object_unload(image);
  arena_free(a);
}

/* Constants, jump tables, internal calls and calls of the C library. */
TEST(relocations) {
  static const char ir[] =
      "@table = internal constant [4 x double] [double 1.0, double 2.0, double 4.0, double 8.0]\n"
      "@state = internal global i64 5\n"
      "define internal double @inner(i64 %i) noinline {\n"
      "  %p = getelementptr [4 x double], ptr @table, i64 0, i64 %i\n"
      "  %v = load double, ptr %p\n  ret double %v\n}\n"
      "declare double @pow(double, double)\n"
      "define double @outer(i64 %i) {\n"
      "  %x = call double @inner(i64 %i)\n"
      "  %n = load i64, ptr @state\n  %m = add i64 %n, 1\n  store i64 %m, ptr @state\n"
      "  %f = sitofp i64 %n to double\n"
      "  %y = call double @pow(double %x, double %f)\n  ret double %y\n}\n";
  Arena *a = arena_new();
  const char *error = NULL;
  const LlvmLibrary *l = kit_llvm(a);
  CpuImage *image = l ? loaded(a, l, ir, &error) : NULL;
  if (l && !image) printf("%s\n", error);
  if (image) {
    double (*outer)(int64_t);
    *(void **)&outer = cpu_object_symbol(image, "outer");
    CHECK(outer && outer(1) == 32);
    CHECK(outer && outer(2) == 4096); /* what it stored is still there */
  }
  CHECK(!l || image);
  cpu_object_unload(image);
  arena_free(a);
}

static bool refused(const char *ir, const char *words) {
  Arena *a = arena_new();
  const char *error = NULL;
  const LlvmLibrary *l = kit_llvm(a);
  CpuImage *image = l ? loaded(a, l, ir, &error) : NULL;
  bool ok = !l || (!image && error && strstr(error, words));
  if (!ok) printf("not `%s` but `%s`\n", words, error ? error : "no error");
  cpu_object_unload(image);
  arena_free(a);
  return ok;
}

TEST(mistakes) {
  CHECK(refused("define i64 @f( {", "cannot be parsed"));
  CHECK(refused("define i64 @f() {\n  ret i64 %x\n}", "cannot be parsed"));
  CHECK(refused("define i64 @f(i1 %c) {\nentry:\n  br i1 %c, label %a, label %b\n"
                "a:\n  %x = add i64 1, 2\n  br label %b\nb:\n  ret i64 %x\n}",
                "not valid"));
  CHECK(refused("declare i64 @elsewhere()\ndefine i64 @f() {\n"
                "  %x = call i64 @elsewhere()\n  ret i64 %x\n}",
                "`elsewhere`, which is not provided"));
}

/* An instruction that does not exist is a fatal error inside LLVM; the next compile works. */
TEST(fatal_errors) {
#if defined(__aarch64__)
  static const char ir[] = "declare <2 x i64> @llvm.x86.sse42.crc32.64.64(i64, i64)\n"
                           "declare i64 @llvm.x86.rdtsc()\n"
                           "define i64 @f() {\n  %x = call i64 @llvm.x86.rdtsc()\n  ret i64 %x\n}";
#else
  static const char ir[] = "declare i64 @llvm.aarch64.crc32x(i32, i64)\n"
                           "declare i64 @llvm.read_register.i64(metadata)\n"
                           "define i64 @f() {\n"
                           "  %x = call i64 @llvm.read_register.i64(metadata !0)\n  ret i64 %x\n}\n"
                           "!0 = !{!\"no such register\"}";
#endif
  Arena *a = arena_new();
  const LlvmLibrary *l = kit_llvm(a);
  for (int i = 0; l && i < 3; i++) {
    const char *error = NULL;
    CHECK(!compiled(a, l, ir, &error));
    CHECK(error && strlen(error) > 10);
    CHECK(compiled(a, l, good, &error) != NULL);
  }
  arena_free(a);
}

/* Any byte of an object may be wrong: it loads, or it is rejected. */
TEST(damaged_objects) {
  Arena *a = arena_new();
  const char *error = NULL;
  const LlvmLibrary *l = kit_llvm(a);
  const LlvmCode *code = l ? compiled(a, l, good, &error) : NULL;
  for (size_t i = 0; code && i < 64; i++) {
    unsigned char *copy = arena_copy(a, code->bytes, code->size);
    copy[i] ^= 0x55;
    cpu_object_unload(cpu_object_load(copy, code->size, a, &error));
  }
  for (size_t n = 0; code && n < code->size; n += 7) /* the section table is at its end */
    CHECK(!cpu_object_load(code->bytes, n, a, &error));
  arena_free(a);
}

TEST(library_by_name) {
  Arena *a = arena_new();
  const char *error = NULL;
  setenv("WAVE_LLVM", "/nowhere/libLLVM.so", 1);
  CHECK(!llvm_library_open(a, "CPU targets need", 0, &error));
  CHECK(error && strstr(error, "WAVE_LLVM") && strstr(error, "/nowhere/libLLVM.so"));
  setenv("WAVE_LLVM", "libm.so.6", 1);
  CHECK(!llvm_library_open(a, "CPU targets need", 0, &error));
  CHECK(error && strstr(error, "older than version 16"));
  unsetenv("WAVE_LLVM");
  arena_free(a);
}

TESTS_MAIN(RUN(threads_open_it_at_once) RUN(compile_and_call) RUN(relocations) RUN(mistakes)
               RUN(fatal_errors) RUN(damaged_objects) RUN(library_by_name))
