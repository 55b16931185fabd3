/* compiled.h: a kernel compiled for a target, with variants compiled on demand. */
#ifndef WV_COMPILED_H
#define WV_COMPILED_H

#include <pthread.h>

#include "driver/api.h"
#include "driver/compile.h"
#include "runtime/cache.h"
#include "runtime/launch.h"

typedef struct VariantState {
  bool from_cache;
  double compile_ms, load_ms;
} VariantState;

/* Everything except the launcher is used by one thread at a time, which holds the mutex. */
struct wv_program {
  HandleKind handle;
  Launcher launcher;
  pthread_mutex_t mutex;
  Arena *arena;
  wv_ctx *own;       /* a context of its own, for its own copy of the kernel */
  wv_kernel *kernel; /* NULL: it was loaded, and all variants are present */
  Artefact art;
  LaunchSymbols symbols;
  Variants variants;
  CompileOptions options;
  CacheSettings cache;
  const char *key; /* of the cache, without the variant */
  VariantState state[ARTEFACT_VARIANTS];
};

/* A program without kernel and code. */
wv_program *program_blank(void);
wv_program *program_of(Launcher *l);
void program_free(wv_program *p);

/* How functions that take a program begin (api.h). */
#define API_PROGRAM(p, cx, ...)                                                                    \
  API_ENTER(api_usable(cx) && api_expected(cx, api_is(p, HANDLE_PROGRAM), "a program"), cx,        \
            (void)0, __VA_ARGS__)

/* An internal error before program_unlock leaves the program without its own context: it launches
 * what is compiled, and compiles nothing more. */
typedef struct ProgramLock {
  wv_program *p;
  Held held;
} ProgramLock;
void program_lock(wv_program *p, ProgramLock *out);
void program_unlock(ProgramLock *l);
DeviceReport program_report(const wv_program *p); /* in its own context */

/* Compiled, or from the cache; false after reporting to the program's own context. */
bool program_compile(wv_program *p, int variant);

/* Compiled and loaded on a device; the same. */
bool program_load(wv_program *p, int variant, int device);

/* Moves what was reported in the program's own context to another list. */
void program_forward(wv_program *p, Diags *to);

#endif
