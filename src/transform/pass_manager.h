/* pass_manager.h: runs passes, with everything that surrounds them: analyses, verification, dumps,
 * times. */
#ifndef WV_PASS_MANAGER_H
#define WV_PASS_MANAGER_H

#include "transform/pass.h"

typedef struct PassInfo {
  const char *name, *summary;
  PassFn *run;
  Level level;            /* of the kernels it works on */
  PassMachines machines;  /* it works for */
  unsigned needs, breaks; /* AnalysisSet */
} PassInfo;

const PassInfo *pass_at(int i); /* in the order of the pipelines; NULL past the end */
/* The first row with this name, or with this former name; NULL: there is none. */
const PassInfo *pass_called(const char *name, size_t len);
void pass_unknown(Diags *diags, Span at, const char *name, size_t len); /* reports E0604 */

typedef struct PassOptions {
  const char *passes;      /* comma-separated, run in this order; NULL: all */
  const char *stop_after;  /* a pass, or NULL */
  const char *start_after; /* the kernel is a dump taken after this pass: run what follows; or
                            * NULL */
  const char *dump;        /* "all" or comma-separated: print the kernel after these; NULL: none */
  const char *dump_before; /* the same, before they run */
  bool verify_each;        /* after every pass, not only after the last */
  bool trial;              /* not even after that: what is chosen will be compiled again */
  bool unproved;           /* `sync` does not prove loops: the caller does */
  bool time;
  /* Receives each dump as text that parses again and, at the end, with pass NULL, the times. */
  void (*write)(void *user, const char *pass, const char *text);
  void (*after)(void *user, Kernel *k); /* called with the kernel after each pass; may be NULL */
  void *user;
  const char *target; /* a machine of targets.def, or NULL */
} PassOptions;

bool passes_run(Kernel *k, const PassOptions *o);

#endif
