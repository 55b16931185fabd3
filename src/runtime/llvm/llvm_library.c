/* llvm_library.c: see llvm_library.h. */
#define _GNU_SOURCE
#include "runtime/llvm/llvm_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment/environment.h"
#include "base/landing.h"
#include "base/os.h"
#include "base/strbuf.h"
#include "runtime/cpu/cpu_gate.h"

/* ---- finding ---- */

/* Kernels are tested and measured with version 19: installing another does not change what is
 * compiled. Chips that need a newer one get the newest. */
enum { OLDEST = 16, PREFERRED = 19, NEWEST = 40 };

static void *symbol_of(void *library, const char *name, StrBuf *why) {
  void *found = dlsym(library, name);
  if (!found) sb_printf(why, "it lacks %s", name);
  return found;
}

/* Binds every function of the table. Versions before 16 lack LLVMGetVersion. */
static bool bind_all(LlvmLibrary *l, StrBuf *why) {
  if (!dlsym(l->library, "LLVMGetVersion"))
    return sb_puts(why, "it is older than version 16"), false;
#define LLVM_FN(result, name, parameters)                                                          \
  if (!(*(void **)&l->name = symbol_of(l->library, "LLVM" #name, why))) return false;
#include "runtime/llvm/llvm_library.def"
  unsigned minor, patch;
  l->GetVersion(&l->version, &minor, &patch);
  if (l->version >= OLDEST) return true;
  sb_printf(why, "it is version %u", l->version);
  return false;
}

/* The functions of the C header for this are inline and not in the library. */
static bool init_target(const LlvmLibrary *l, const char *target, StrBuf *why) {
  static const char *const parts[] = {"TargetInfo", "Target", "TargetMC", "AsmPrinter",
                                      "Disassembler"};
  enum { NEEDED = 4 };
  for (size_t i = 0; i < WV_LEN(parts); i++) {
    void (*init)(void);
    const char *name = arena_printf(why->arena, "LLVMInitialize%s%s", target, parts[i]);
    *(void **)&init = symbol_of(l->library, name, why);
    if (!init) return i >= NEEDED;
    init();
  }
  return true;
}

/* This machine's architecture; and others, which libraries usually contain: AMD GPUs, and CPUs of
 * another kind, for inspecting code. */
static bool init_targets(LlvmLibrary *l, StrBuf *why) {
#if defined(__aarch64__)
  const char *own = "AArch64", *other = "X86";
#else
  const char *own = "X86", *other = "AArch64";
#endif
  StrBuf unheard = {.arena = why->arena};
  init_target(l, other, &unheard);
  l->amdgpu = init_target(l, "AMDGPU", &unheard);
  return init_target(l, own, why);
}

/* Of all threads: searching takes longer than opening a library that is already loaded, so its path
 * is remembered, since it stays loaded. */
typedef struct Remembered {
  pthread_mutex_t lock;
  char path[2][1024]; /* the preferred one, the newest; "": none yet */
} Remembered;

static Remembered *remembered(void) {
  static Remembered last = {.lock = PTHREAD_MUTEX_INITIALIZER};
  return &last;
}

static void unlock(void *lock) { pthread_mutex_unlock(lock); }

/* One thread at a time: LLVM's list of targets becomes a ring if two add to it at once. */
static bool init_alone(LlvmLibrary *l, StrBuf *why) {
  Held held;
  pthread_mutex_t *lock = &remembered()->lock;
  pthread_mutex_lock(lock);
  landing_hold(&held, unlock, lock);
  bool ok = init_targets(l, why);
  landing_let_go(&held);
  pthread_mutex_unlock(lock);
  return ok;
}

static bool try_open(LlvmLibrary *l, Arena *a, const char *path, StrBuf *tried) {
  l->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!l->library) {
    if (strchr(path, '/')) sb_printf(tried, "\n  %s: %s", path, dlerror());
    return false;
  }
  StrBuf why = {.arena = a};
  if (bind_all(l, &why) && init_alone(l, &why)) {
    Dl_info info;
    bool known = dladdr(*(void **)&l->GetVersion, &info) && info.dli_fname;
    l->path = arena_strdup(a, known ? info.dli_fname : path);
    return true;
  }
  sb_printf(tried, "\n  %s: %s", path, sb_text(&why));
  return false;
}

/* By the names that distributions use. */
static bool try_version(LlvmLibrary *l, Arena *a, int version, StrBuf *tried) {
  static const char *const forms[] = {"libLLVM.so.%d.1", "libLLVM-%d.so.1", "libLLVM-%d.so"};
  for (size_t i = 0; i < WV_LEN(forms); i++) {
    StrBuf name = {.arena = a};
    const char *hole = strstr(forms[i], "%d");
    sb_printf(&name, "%.*s%d%s", (int)(hole - forms[i]), forms[i], version, hole + 2);
    if (try_open(l, a, sb_text(&name), tried)) return true;
  }
  return false;
}

static bool try_names(LlvmLibrary *l, Arena *a, bool newest, StrBuf *tried) {
  if (!newest && try_version(l, a, PREFERRED, tried)) return true;
  for (int version = NEWEST; version >= OLDEST; version--)
    if ((newest || version != PREFERRED) && try_version(l, a, version, tried)) return true;
  return false;
}

static void free_files(void *files) { globfree(files); }

static bool try_folders(LlvmLibrary *l, Arena *a, StrBuf *tried) {
  static const char *const patterns[] = {
      "/usr/lib/llvm-*/lib/libLLVM*.so*", "/usr/lib64/llvm*/lib*/libLLVM*.so*",
      "/opt/rocm*/lib/llvm/lib/libLLVM*.so*", "/usr/local/lib/libLLVM*.so*"};
  bool found = false;
  for (size_t i = 0; i < WV_LEN(patterns) && !found; i++) {
    glob_t files;
    if (glob(patterns[i], 0, NULL, &files) != 0) continue;
    Held held;
    landing_hold(&held, free_files, &files);
    for (size_t f = files.gl_pathc; f-- > 0 && !found;)
      found = try_open(l, a, files.gl_pathv[f], tried);
    landing_let_go(&held);
    globfree(&files);
  }
  return found;
}

static bool try_remembered(LlvmLibrary *l, Arena *a, bool newest) {
  Remembered *r = remembered();
  StrBuf unheard = {.arena = a};
  char path[sizeof r->path[0]];
  pthread_mutex_lock(&r->lock);
  strcpy(path, r->path[newest]);
  pthread_mutex_unlock(&r->lock);
  return *path && try_open(l, a, path, &unheard);
}

static const LlvmLibrary *remember(const LlvmLibrary *l, bool newest) {
  Remembered *r = remembered();
  pthread_mutex_lock(&r->lock);
  if (strlen(l->path) < sizeof r->path[0]) strcpy(r->path[newest], l->path);
  pthread_mutex_unlock(&r->lock);
  return l;
}

static const LlvmLibrary *find(Arena *a, const char *user, unsigned wanted, const char **error) {
  LlvmLibrary *l = ARENA_NEW(a, LlvmLibrary);
  StrBuf tried = {.arena = a};
  bool newest = wanted > PREFERRED;
  const char *given = environment_text(VARIABLE_LLVM);
  if (given) { /* an explicit choice has no fallback */
    if (try_open(l, a, given, &tried)) return l;
    *error = arena_printf(a, "the libLLVM set by WAVE_LLVM cannot be used:%s%s%s",
                          strchr(given, '/') ? "" : "\n  ", strchr(given, '/') ? "" : given,
                          sb_text(&tried));
    return NULL;
  }
  if (try_remembered(l, a, newest)) return l;
  if (try_names(l, a, newest, &tried) || try_folders(l, a, &tried)) return remember(l, newest);
  *error =
      arena_printf(a,
                   "%s libLLVM %d or newer, which was not found (`apt-get install libllvm19`, or "
                   "set WAVE_LLVM=/path/libLLVM.so)%s%s",
                   user, OLDEST, tried.n ? "; tried:" : "", sb_text(&tried));
  return NULL;
}

static void leave_gate(void *unused) {
  (void)unused;
  cpu_gate_out();
}

const LlvmLibrary *llvm_library_open(Arena *a, const char *user, unsigned wanted,
                                     const char **error) {
  Held inside;
  cpu_gate_in(false);
  landing_hold(&inside, leave_gate, NULL);
  const LlvmLibrary *l = find(a, user, wanted, error);
  landing_let_go(&inside);
  cpu_gate_out();
  return l;
}
