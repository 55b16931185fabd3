/* gpu_library.c: finds a driver's library and its functions. Nothing is linked: a machine without a
 * GPU runs everything else. Once loaded, a library stays loaded: its threads cannot be stopped. */
#include <dlfcn.h>
#include <string.h>

#include "runtime/gpu/gpu.h"

enum { NAMES_MOST = 8 };

static void report_absent(const GpuLibrary *l, const char *const *names, const char *const *why,
                          int n, const DeviceReport *r) {
  Diag *d = diag_add(r->diags, DIAG_E0901, r->at, "no %s found", l->driver);
  for (int i = 0; i < n; i++) diag_note(r->diags, d, (Span){0}, "tried `%s`: %s", names[i], why[i]);
  diag_hint(r->diags, d, "%s; if the library is in an unusual place, set %s to its path",
            l->install, environment_table[l->variable].name);
}

/* The copy that the process uses already, under any of the names: another one would know neither its
 * streams nor its memory. PyTorch brings its own. */
static void *open_loaded(const char *const *names, int n, const char **opened) {
  void *library = NULL;
  for (int i = 0; !library && i < n; i++) {
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    *opened = names[i];
  }
  return library;
}

static void *open_library(Arena *a, const GpuLibrary *l, const char **opened,
                          const DeviceReport *r) {
  const char *given = environment_text(l->variable), *why[NAMES_MOST];
  const char *const *names = given ? &given : l->names; /* a given one has no alternatives */
  int n = given ? 1 : l->nnames;
  WV_ASSERT(n <= NAMES_MOST);
  void *library = open_loaded(names, n, opened);
  for (int i = 0; !library && i < n; i++) {
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    const char *error = library ? NULL : dlerror();
    why[i] = arena_strdup(a, error ? error : "it cannot be loaded");
    *opened = names[i];
  }
  if (!library) report_absent(l, names, why, n, r);
  else *opened = arena_strdup(a, *opened);
  return library;
}

const char *gpu_library_load(Arena *a, const GpuLibrary *l, void *functions,
                             const DeviceReport *r) {
  const char *name;
  void *library = open_library(a, l, &name, r);
  if (!library) return NULL;
  for (int i = 0; i < l->nfunctions; i++) {
    const GpuFunction *f = &l->functions[i];
    void *found = dlsym(library, f->symbol);
    memcpy((char *)functions + f->at, &found, sizeof found);
    if (found || !f->must) continue;
    Diag *d = diag_add(r->diags, DIAG_E0901, r->at, "`%s` lacks `%s`", name, f->symbol);
    diag_hint(r->diags, d, "%s", l->newer);
    return NULL;
  }
  return name;
}
