/* pass.h: what every pass gets, and the list of them. */
#ifndef WV_PASS_H
#define WV_PASS_H

#include "analysis/analysis.h"
#include "target/target.h"

typedef struct PassCtx {
  Arena *scratch;           /* empty when a pass begins; forgotten when it ends */
  Facts facts;              /* the analyses its row of passes.def needs */
  const TargetInfo *target; /* NULL: none was chosen, and nothing is fitted to a machine */
  bool idle;                /* set by a pass that left the kernel as it was: nothing is broken */
} PassCtx;

/* The target, if any, runs waves of lanes; else one thread runs a workgroup (lower_tiles), and what
 * lanes need is not decided. */
static inline bool pass_for_lanes(const PassCtx *cx) {
  return !cx->target || !target_has(cx->target, FEATURE_REGISTER_TILES);
}

/* False after reporting a user's mistake; the kernel is then not used any more. */
typedef bool PassFn(Kernel *k, PassCtx *cx);

#define PASS(name, level, needs, breaks, summary) PassFn pass_##name;
#include "transform/passes.def"

#endif
