/* launch.h: arguments of a call become a launch.
 *
 * Every call fills the slots of the artefact from its arguments. If they are those of the last call
 * (the same sizes, strides and alignments), what was computed then is used again; else the
 * artefact's programs check the signature, choose the variant and compute grid and derived
 * arguments. Several threads may launch at once: the record of the last call is guarded by one
 * flag, and who does not get it computes for himself. */
#ifndef WV_LAUNCH_H
#define WV_LAUNCH_H

#include <stdatomic.h>

#include "runtime/device.h"
#include "wave.h"

/* One call. `only_plan`: everything but the launch itself. */
typedef struct LaunchCall {
  const wv_launch_arg *args;
  int nargs;
  void *stream;
  unsigned flags;
  bool only_plan;
  /* Called with each debug log when the kernel has run; NULL: they are dropped. */
  void (*log)(void *user, const char *label, const wv_buffer *value);
  void *user;
} LaunchCall;

enum { LAUNCH_LOG_MOST = 1 << 28 }; /* elements of a debug log, as in a simulation */

/* What a launch is made of; addresses and scalars are in `args`, too. */
typedef struct LaunchPlan {
  const DeviceCode *code; /* NULL: none yet */
  bool is_empty;          /* no workgroups: nothing is launched */
  int device;
  unsigned grid[3];
  int64_t slot[ARTEFACT_SLOTS];
  _Alignas(64) unsigned char args[ARTEFACT_ARG_BYTES];
  void *pointer[ARTEFACT_ARGS]; /* into args */
  void *mapped[ARTEFACT_MAPS];  /* addresses in tensor maps */
} LaunchPlan;

/* What a tensor is beside its address, sizes and strides: two words to be compared. */
typedef struct LaunchHead {
  int rank, dtype;
  wv_device device;
} LaunchHead;

_Static_assert(offsetof(wv_tensor, device) - offsetof(wv_tensor, rank) ==
                   offsetof(LaunchHead, device),
               "the fields follow each other");

typedef struct Launcher Launcher;

struct Launcher {
  const Artefact *art;
  Device *device; /* NULL until something is loaded */
  _Atomic(DeviceCode *) code[ARTEFACT_VARIANTS][DEVICE_MOST];
  /* Compiles and loads a variant, unless the stream is being captured. False after reporting.
   * Called by several threads. */
  bool (*prepare)(Launcher *l, int variant, int device, void *stream, Diags *diags);
  bool (*open)(Launcher *l, Diags *diags); /* `device` is there afterwards; the same */
  bool ignore_assumptions;
  wv_place at, *param_at, *assumption_at;
  atomic_flag busy; /* guards what follows */
  LaunchPlan last;
  LaunchHead head[ARTEFACT_PARAMS]; /* of the tensors of the last call */
};

bool launch_run(Launcher *l, Diags *diags, const LaunchCall *c); /* false after reporting */

/* launch_logs.c: the same with memory for debug logs; only where there are any it waits. */
bool launch_logged(Launcher *l, Diags *diags, const LaunchCall *c);

/* False after reporting that nothing can be prepared while the stream is captured. */
bool launch_refuse_capture(const Launcher *l, Diags *diags, int variant, int device, void *stream);

/* ---- launch_check.c: arguments against the signature; false after reporting */
DeviceReport launch_report(const Launcher *l, Diags *diags, wv_place at);
/* The call is like the last one but for addresses and floats. */
bool launch_is_like(const Launcher *l, const LaunchCall *c);
/* The first arguments, or all. */
bool launch_fill(const Launcher *l, const wv_launch_arg *args, int nargs, int64_t *slots,
                 int *device);
bool launch_explain_args(const Launcher *l, Diags *diags, const wv_launch_arg *args, int nargs);
bool launch_check(const Launcher *l, Diags *diags, const int64_t *slots, const LaunchValue *values);

static inline LaunchHead launch_head(const wv_tensor *t) {
  return (LaunchHead){t->rank, t->dtype, t->device};
}

/* Multiplier and shift of sym_ops.def for divisions by `divisor`. */
uint32_t launch_magic(int64_t divisor);
uint32_t launch_shift(int64_t divisor);

#endif
