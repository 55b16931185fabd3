/* loop_cost.h: what an op of a loop costs: how long it occupies the units of a machine, and when its
 * result is there (units.def). The kernel has layouts, and its copies know what moves them.
 *
 * Two waves stand for all of a workgroup, as in loop_graph.h. If there are more waves than SIMDs, the
 * two share one, and each stands for half of its waves; otherwise they run on different SIMDs. Either
 * way each stands for half of what the workgroup takes from units that its SIMDs share. */
#ifndef WV_SCHEDULE_LOOP_COST_H
#define WV_SCHEDULE_LOOP_COST_H

#include "anchors/anchors.h"
#include "schedule/loop_graph.h"
#include "target/units/units.h"

typedef struct CostModel {
  Arena *arena;
  const Distribution *d;
  const Machine *machine;
  const UnitRates *rates;
  const UnitLatencies *latencies;
  bool one_simd; /* the two waves share a SIMD */
  double waves;  /* of a SIMD that one of the two stands for */
} CostModel;

/* In cycles, for one of the two waves. */
typedef struct LoopCost {
  int64_t unit[UNIT_COUNT]; /* for which it occupies each unit */
  int64_t issue;            /* until the wave can start its next op */
  int64_t takes;            /* until its result is there */
  int64_t again;            /* until the sum of a product can be added to */
  int steps;                /* of a product whose operands are in registers: it begins when those of
                             * the first step are there; otherwise 1 */
  bool elected;             /* one thread does it all */
} LoopCost;

/* Instructions per element of an op that computes (units.def: WEIGHT). */
typedef struct OpWeight {
  int vector, special;
} OpWeight;
OpWeight cost_weight(const Op *op);

/* False: nothing is known about the machine. */
bool cost_model(Arena *a, const Distribution *d, const Machine *m, CostModel *out);

LoopCost loop_cost(const CostModel *c, const Op *op);

#endif
