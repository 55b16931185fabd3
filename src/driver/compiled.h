/* compiled.h: a kernel compiled for a target, its variants as they are needed. */
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

/* The launcher is first: what the runtime hands back is the program. Everything but the launcher is
 * touched by one thread at a time, who holds the mutex. */
struct wv_program {
  Launcher launcher;
  pthread_mutex_t mutex;
  Arena *arena;
  wv_ctx *own;       /* a context of its own, for a kernel of its own */
  wv_kernel *kernel; /* NULL: it was loaded, and all variants are there */
  Artefact art;
  LaunchSymbols symbols;
  Variants variants;
  CompileOptions options;
  CacheSettings cache;
  const char *key; /* of the cache, but for the variant */
  VariantState state[ARTEFACT_VARIANTS];
};

/* One without kernel and code. */
wv_program *program_blank(void);
DeviceReport program_report(const wv_program *p); /* in its own context */

/* Compiled, or from the cache; false after reporting to the program's own context. */
bool program_compile(wv_program *p, int variant);

/* Compiled and loaded on a device; the same. */
bool program_load(wv_program *p, int variant, int device);

/* Moves what was reported in the program's own context to another list. */
void program_forward(wv_program *p, Diags *to);

#endif
