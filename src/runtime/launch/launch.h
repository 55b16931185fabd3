/* launch.h: turns the arguments of a call into a launch.
 *
 * Every call fills the slots of the artefact from its arguments. If they are those of the last call
 * (the same sizes, strides and alignments), what was computed then is reused; otherwise the
 * artefact's programs check the signature, choose the variant and compute the grid and derived
 * arguments. Several threads may launch at once: the record of the last call is guarded by one
 * flag, and a thread that does not get it computes everything itself. */
#ifndef WV_LAUNCH_H
#define WV_LAUNCH_H

#include <stdatomic.h>

#include "runtime/device.h"
#include "wave.h"

/* One call. `only_plan`: everything except the launch itself. */
typedef struct LaunchCall {
  const wv_launch_arg *args;
  int nargs;
  void *stream;
  unsigned flags;
  bool only_plan;
  /* Called with each debug log when the kernel has run; NULL: they are dropped. */
  void (*log)(void *user, const char *label, const wv_buffer *value);
  void *user;
  bool (*interrupted)(void *user); /* as in DeviceLaunch; NULL: none */
  void *interrupted_user;
} LaunchCall;

enum { LAUNCH_LOG_MOST = 1 << 28 }; /* elements of a debug log, as in a simulation */

/* What a launch consists of; addresses and scalars are in `args` too. */
typedef struct LaunchPlan {
  const DeviceCode *code; /* NULL: none yet */
  bool is_empty;          /* no workgroups: nothing is launched */
  int device;
  unsigned grid[3];
  int64_t slot[ARTEFACT_SLOTS];
  _Alignas(64) unsigned char args[ARTEFACT_ARG_BYTES];
  void *pointer[ARTEFACT_ARGS]; /* into args */
  void *mapped[ARTEFACT_MAPS];  /* addresses in tensor maps */
  char *workspace;              /* the block; NULL: the kernel has none, or the caller passed it */
  int64_t repacked; /* parameters, as bits, that are copied first: their slots are the copies' */
} LaunchPlan;

/* What describes a tensor besides address, sizes and strides: two words for comparison. */
typedef struct LaunchHead {
  int rank, dtype;
  wv_device device;
} LaunchHead;

_Static_assert(offsetof(wv_tensor, device) - offsetof(wv_tensor, rank) ==
                   offsetof(LaunchHead, device),
               "the fields follow each other");

/* What a parameter of the next call is compared with, and where its address or number goes. A
 * tensor of two dims fills one cache line. */
typedef struct LaunchRow {
  _Alignas(64) LaunchHead head; /* rank -1: a scalar */
  int offset;                   /* among the arguments; -1: it is not one of them */
  int64_t slot[1 + 2 * ARTEFACT_RANK];
} LaunchRow;

/* The last call. What every call touches is kept together: the driver's own launch leaves little of
 * it in the caches. */
typedef struct LaunchRecord {
  int nrows;   /* parameters; 0: nothing is recorded */
  int nothers; /* arguments that are in no row: tensor maps */
  DeviceLaunch launch;
  const void *owner; /* of the workspace; NULL: none */
  bool aliased;      /* as launch_is_aliased says */
  LaunchRow row[ARTEFACT_PARAMS];
  short other[ARTEFACT_ARGS];
  LaunchPlan plan;
} LaunchRecord;

/* The workspace of one stream, or memory for copies of its tensors. Blocks live as long as the program, since
 * kernels in flight may use them. */
typedef struct LaunchBlock {
  int device;
  bool for_copies; /* it contains anything; otherwise zeros, between launches */
  const void *owner;
  int64_t bytes;
  char *memory;
  struct LaunchBlock *next;
} LaunchBlock;

typedef struct Launcher Launcher;

struct Launcher {
  const Artefact *art;
  Device *device; /* NULL until something is loaded */
  bool has_logs;
  _Atomic(LaunchBlock *) blocks; /* the latest first */
  _Atomic(DeviceCode *) code[ARTEFACT_VARIANTS][DEVICE_MOST];
  /* Compiles and loads a variant, unless the stream is being captured. False after reporting.
   * Called by several threads. */
  bool (*prepare)(Launcher *l, int variant, int device, void *stream, Diags *diags);
  bool (*open)(Launcher *l, Diags *diags); /* sets `device`; likewise */
  /* Launches a copy of one tensor to another of the same sizes; likewise. NULL: none can be made. */
  bool (*repack)(Launcher *l, Diags *diags, const wv_tensor *from, const wv_tensor *to,
                 void *stream);
  atomic_bool told;     /* that assumptions do not hold: reported once */
  atomic_bool captured; /* a graph may launch it again, whatever becomes of the program */
  wv_place at, *param_at, *assumption_at;
  atomic_flag busy; /* guards the following */
  LaunchRecord last;
};

/* Whether the two tensors for which there are variants have the same address. */
static inline bool launch_is_aliased(const Artefact *art, const wv_launch_arg *args) {
  return art->whole != art->part && args[art->whole].tensor->data == args[art->part].tensor->data;
}

/* Passes a launch to the driver, whose error it returns. Without a stream, nothing is being captured. */
void launch_note_capture(Launcher *l, void *stream);
static inline int launch_now(Launcher *l, const DeviceLaunch *d) {
  int error = l->device->kind->launch(l->device, d);
  if (d->stream && !error && !atomic_load_explicit(&l->captured, memory_order_relaxed))
    launch_note_capture(l, d->stream);
  return error;
}

bool launch_run(Launcher *l, Diags *diags, const LaunchCall *c); /* false after reporting */
/* The same for a call that is not like the last one. `failed`: it was, and this is the driver's
 * error. */
bool launch_anew(Launcher *l, Diags *diags, const LaunchCall *c, int failed);

/* launch_logs.c: the same with memory for debug logs; waits only if there are any. */
bool launch_logged(Launcher *l, Diags *diags, const LaunchCall *c);

/* ---- launch_workspace.c ---- */

/* The owner of a block: launches on one stream are ordered. */
const void *launch_owner(const Launcher *l, void *stream);
/* Zeroed, unless a kernel left something else; NULL after reporting. */
char *launch_workspace(Launcher *l, Diags *diags, int device, void *stream, int64_t bytes);
/* Memory for copies, which contains anything; likewise. */
char *launch_copies(Launcher *l, Diags *diags, int device, void *stream, int64_t bytes);
/* Zeroes it again, after a kernel that ended early. */
void launch_clear_workspace(Launcher *l, const char *memory);
void launch_release_workspace(Launcher *l, Diags *diags);

/* ---- launch_repack.c: copies of tensors whose rows are not aligned ---- */

/* Finds which of the variant's tensors must be copied; their slots become those of the copies. */
void launch_plan_copies(const Launcher *l, const ArtVariant *v, LaunchPlan *p);

/* The arguments of a call, some replaced by copies. */
typedef struct LaunchCopies {
  wv_launch_arg args[ARTEFACT_PARAMS];
  wv_tensor tensor[ARTEFACT_PARAMS];
} LaunchCopies;

/* Makes the copies, unless the call is only planned. False after reporting. */
bool launch_make_copies(Launcher *l, Diags *diags, const LaunchCall *c, LaunchPlan *p,
                        LaunchCopies *out);

/* False after reporting that nothing can be prepared while the stream is being captured. `facts`:
 * the launches it would be for. */
bool launch_refuse_capture(const Launcher *l, Diags *diags, const char *facts, void *stream);

/* ---- launch_check.c: arguments against the signature; false after reporting */
DeviceReport launch_report(const Launcher *l, Diags *diags, wv_place at);
/* The first arguments, or all. */
bool launch_fill(const Launcher *l, const wv_launch_arg *args, int nargs, int64_t *slots,
                 int *device);
bool launch_explain_args(const Launcher *l, Diags *diags, const wv_launch_arg *args, int nargs);
bool launch_check(const Launcher *l, Diags *diags, LaunchRun *signature);
/* A remark, the first time. */
void launch_tell_fallback(Launcher *l, Diags *diags, LaunchRun *signature);

/* What the kernel will see of a scalar in its slot; floats do not occur in expressions. */
static inline int64_t launch_scalar_slot(const ArtParam *p, const wv_launch_arg *a) {
  return p->scalar == ART_I64 ? a->integer : p->scalar == ART_I32 ? (int32_t)a->integer : 0;
}

/* Any float is rounded; an integer must be a value of its type. */
static inline bool launch_scalar_is_valid(const ArtParam *p, const wv_launch_arg *a) {
  return (p->scalar != ART_I64 && p->scalar != ART_I32) || wv_dtype_holds(p->dtype, a->integer);
}

/* ---- launch_again.c: calls like the last one ---- */

/* Launches as the last time, if the call differs only in addresses and floats. The driver's error
 * goes to *error. */
bool launch_again(Launcher *l, const LaunchCall *c, int *error);
void launch_remember(Launcher *l, const LaunchPlan *p, const LaunchCall *c);

/* ---- launch.c: parts of both ways ---- */
void launch_put_scalar(unsigned char *to, const ArtParam *p, const wv_launch_arg *from);
int launch_patch_map(Launcher *l, const wv_launch_arg *args, const ArtArg *a, LaunchPlan *p,
                     bool fresh); /* the driver's error */
void launch_point_at_args(LaunchPlan *p);

static inline LaunchHead launch_head(const wv_tensor *t) {
  return (LaunchHead){t->rank, t->dtype, t->device};
}

/* Multiplier and shift of sym_ops.def for divisions by `divisor`. */
uint32_t launch_magic(int64_t divisor);
uint32_t launch_shift(int64_t divisor);

#endif
