/* pass.h: what every pass gets, and the list of passes. */
#ifndef WV_PASS_H
#define WV_PASS_H

#include "analysis/analysis.h"
#include "target/target.h"

typedef struct PassCtx {
  Arena *scratch;           /* empty when a pass begins, reset when it ends */
  Facts facts;              /* the analyses its row of passes.def needs; the others are NULL */
  const TargetInfo *target; /* NULL: none was chosen, and nothing is machine-specific */
  const Machine *machine;   /* the kernel's `machine` row, with `target`; NULL: it has none */
  bool unproved;            /* loops are not proved: the caller does it */
  bool may_finish;          /* a pass may set `finished` */
  Kernel *finished; /* the result of all later passes, on a copy; NULL: they still have to run */
  bool idle;        /* set by a pass that did not change the kernel: nothing is
                             * invalidated */
} PassCtx;

/* A pipeline of passes.def, or both. */
typedef enum PassMachines { PASS_LANES = 1, PASS_LOOPS = 2, PASS_BOTH = 3 } PassMachines;

/* The target, if any, runs waves of lanes; otherwise one thread runs a workgroup (lower_tiles), and
 * decisions about lanes are not made. */
static inline PassMachines pass_machines(const TargetInfo *target) {
  return target && target_has(target, FEATURE_REGISTER_TILES) ? PASS_LOOPS : PASS_LANES;
}

/* False after reporting a user's mistake; the kernel is then discarded. */
typedef bool PassFn(Kernel *k, PassCtx *cx);

#define PASS(name, level, machines, needs, breaks, summary) PassFn pass_##name;
#include "transform/passes.def"

#endif
