/* sim.h: runs one lane's program (THREAD level) for the whole grid, lane by lane, and judges it.
 *
 * What counts as an error is design.md 3.16; docs/simulator.md explains a report. Findings are
 * diagnostics in the kernel's context. Timing is never simulated: an asynchronous operation is a
 * thread of its own from its issue until something waits for it, so a verdict does not depend on
 * luck, and a missing wait, fence or barrier is found under every schedule. */
#ifndef WV_SIM_H
#define WV_SIM_H

#include "backend/sim/eval_tile.h"
#include "target/target.h"

typedef enum SimSchedule { SIM_ROUND_ROBIN, SIM_REVERSE, SIM_RANDOM } SimSchedule;

typedef struct SimOptions {
  const TargetInfo *machine; /* NULL: one with waves of the kernel's size */
  SimSchedule schedule;
  uint64_t seed;  /* of SIM_RANDOM */
  bool nonfinite; /* report where infinities and NaN appear */
  int findings;   /* after so many the run ends; 0: 20 */
  uint64_t steps; /* instructions of a wave after which the run ends; 0: no limit */
} SimOptions;

/* What the ops of one source line cost, over the whole grid. */
typedef struct SimLine {
  Span at;
  uint64_t instructions;            /* issued by waves */
  uint64_t lane_ops;                /* by lanes */
  uint64_t shared, conflicts;       /* accesses of shared memory; extra cycles for bank conflicts */
  uint64_t sectors, sectors_needed; /* 32 bytes of global memory: moved, and asked for */
  uint64_t lines;                   /* 128 bytes of global memory touched */
} SimLine;

typedef struct SimReport {
  SimLine *line; /* by place, in source order; in the kernel's context */
  int nlines;
  SimLine total;
  int findings;
} SimReport;

/* False after reporting; buffers may then be partly written. */
bool sim_run(Kernel *k, const EvalArg *args, int nargs, const SimOptions *o, SimReport *out);

/* A table of the counters, one line per source line. */
void sim_print(StrBuf *out, const Context *cx, const SimReport *r);

#endif
