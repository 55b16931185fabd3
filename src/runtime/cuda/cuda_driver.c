/* cuda_driver.c: finds libcuda and its functions. Nothing is linked: a machine without a GPU runs
 * everything else. Once loaded, the library stays loaded: its threads cannot be stopped. */
#include "runtime/cuda/cuda_driver.h"

#include <dlfcn.h>
#include <string.h>

#include "base/environment/environment.h"

typedef struct Function {
  const char *symbol;
  size_t at; /* in CudaDriver */
  bool must;
} Function;

enum { MUST = 1, MAY = 0 };

static const Function functions[] = {
#define CUDA_FN(need, name, symbol, arguments) {#symbol, offsetof(CudaDriver, name), need},
#include "runtime/cuda/cuda_driver.def"
};

static bool report_absent(const DeviceReport *r, const char *why[], const char *const names[],
                          int n) {
  Diag *d = diag_add(r->diags, DIAG_E0901, r->at, "no CUDA driver found");
  for (int i = 0; i < n; i++) diag_note(r->diags, d, (Span){0}, "tried `%s`: %s", names[i], why[i]);
  diag_hint(r->diags, d,
            "install NVIDIA's GPU driver; if the library is in an unusual place, set WAVE_CUDA_LIB "
            "to its path");
  return false;
}

static void *open_library(Arena *a, const char **opened, const DeviceReport *r) {
  const char *given = environment_text(VARIABLE_CUDA_LIB), *why[2];
  const char *const names[2] = {given ? given : "libcuda.so.1", "libcuda.so"};
  int n = given ? 1 : 2;
  for (int i = 0; i < n; i++) {
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library) return *opened = arena_strdup(a, names[i]), library;
    const char *error = dlerror();
    why[i] = arena_strdup(a, error ? error : "it cannot be loaded");
  }
  report_absent(r, why, names, n);
  return NULL;
}

bool cuda_driver_load(Arena *a, CudaDriver *out, const DeviceReport *r) {
  void *library = open_library(a, &out->library, r);
  if (!library) return false;
  for (size_t i = 0; i < WV_LEN(functions); i++) {
    void *found = dlsym(library, functions[i].symbol);
    memcpy((char *)out + functions[i].at, &found, sizeof found);
    if (found || !functions[i].must) continue;
    Diag *d =
        diag_add(r->diags, DIAG_E0901, r->at, "`%s` lacks `%s`", out->library, functions[i].symbol);
    diag_hint(r->diags, d, "install a driver for CUDA 11.0 or newer");
    return false;
  }
  return true;
}
