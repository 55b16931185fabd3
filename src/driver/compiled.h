/* compiled.h: a kernel compiled for a target, with variants compiled on demand. */
#ifndef WV_COMPILED_H
#define WV_COMPILED_H

#include <pthread.h>

#include "driver/api/api.h"
#include "driver/compile.h"
#include "driver/fit.h"
#include "driver/repack/repack.h"
#include "runtime/cache/cache.h"
#include "runtime/launch/launch.h"

typedef struct VariantState {
  bool from_cache;
  double compile_ms, load_ms;
} VariantState;

/* A program for calls with certain sizes. It lives as long as the program it belongs to. */
typedef struct Fitted {
  Fit fit;
  struct wv_program *program; /* NULL if it does not compile */
  const char *why;            /* the error in that case */
  struct Fitted *next;
} Fitted;

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
  bool failed; /* a variant did not compile */
  /* The program of an open kernel (fit.h) has no variants of its own, but a list of programs. The
   * list and `last` are read without the mutex. */
  OpenSymbols open;                  /* empty for other kernels */
  int open_value[OPEN_MOST];         /* their indices among the values of the signature's program */
  _Atomic(Fitted *) fitted;          /* newest first */
  _Atomic(struct wv_program *) last; /* used by the previous call, or NULL */
  /* Those that copy tensors of some rank and size of elements; NULL: not needed yet. */
  _Atomic(struct wv_program *) repacker[REPACK_RANKS][REPACK_SIZES];
};

/* A program without kernel and code. */
wv_program *program_blank(void);
/* A program with a copy of the kernel. */
wv_program *program_new(wv_kernel *k, const CompileOptions *o);
/* Works out the signature. `may_open`: false for a kernel that is already fitted. False after
 * reporting. */
bool program_describe(wv_program *p, bool may_open);
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

bool program_open_device(wv_program *p); /* the same */

/* Compiled and loaded on a device; the same. */
bool program_load(wv_program *p, int variant, int device);

/* The program that handles a call, which is `p` itself unless the kernel is open. Compiles it if
 * necessary. NULL after reporting. */
wv_program *program_for(wv_program *p, Diags *diags, const LaunchCall *c);
/* The program whose code is inspected: `p` itself, or for an open kernel the one used last. NULL
 * after reporting that there is none. */
wv_program *program_shown(wv_program *p, Diags *diags);
void program_free_fitted(wv_program *p);

/* Moves what was reported in the program's own context to another list. */
void program_forward(wv_program *p, Diags *to);

#endif
