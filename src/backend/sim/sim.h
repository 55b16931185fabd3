/* sim.h: runs one lane's program (THREAD level) for the whole grid, lane by lane, and checks it.
 *
 * docs/simulator.md says what counts as an error, and explains a report. Findings are diagnostics
 * in the kernel's context. Timing is never simulated: an asynchronous operation is a thread of its
 * own from its issue until something waits for it, so a verdict does not depend on luck, and a
 * missing wait, fence or barrier is found under every schedule. */
#ifndef WV_SIM_H
#define WV_SIM_H

#include "backend/eval/eval_tile.h"
#include "target/target.h"

typedef enum SimSchedule {
  SIM_ROUND_ROBIN, /* each wave runs as far as it can */
  SIM_REVERSE,     /* the same, from the last wave to the first */
  SIM_FIRST,       /* one instruction at a time, of the first wave that can run */
  SIM_LAST,        /* the same, of the last one */
  SIM_RANDOM,      /* any wave, for a few instructions */
  N_SIM_SCHEDULES
} SimSchedule;

typedef struct SimOptions {
  const TargetInfo *machine; /* NULL: one with waves of the kernel's size */
  SimSchedule schedule;
  uint64_t seed;  /* of SIM_RANDOM */
  bool nonfinite; /* report where infinities and NaN appear */
  int findings;   /* the run ends after this many; 0: 20 */
  uint64_t steps; /* instructions of a wave after which the run ends; 0: no limit */
  /* Set after a remark if assumptions do not hold: nothing was run, and the caller has a program
   * that does not rely on them. NULL: that is an error. */
  bool *without;
  bool (*interrupted)(void *user); /* called now and then; true ends the run. May be NULL */
  /* Called for every debug log after the run, even one with findings. May be NULL. */
  void (*log)(void *user, const char *label, const EvalBuffer *value);
  void *user;
} SimOptions;

/* What the ops of one source line cost, over the whole grid. */
typedef struct SimLine {
  Span at;
  uint64_t instructions;            /* issued by waves */
  uint64_t lane_ops;                /* by lanes */
  uint64_t shared, conflicts;       /* accesses to shared memory; extra cycles for bank conflicts */
  uint64_t sectors, sectors_needed; /* 32-byte sectors of global memory: moved, and requested */
  uint64_t lines;                   /* 128-byte lines of global memory touched */
} SimLine;

/* A finding: its diagnostic, and the numbers in its text. There is one for each code and pair of
 * lines; it describes the first of `count` instances. */
typedef struct SimFinding {
  Diag *diag;
  uint64_t count;
  const Op *op, *other_op; /* other_op: the other access of a race, or NULL */
  Span other;              /* the other access of a race; line 0: none */
  int64_t workgroup[3];
  int wave, lane, other_wave, other_lane; /* -1: no particular one */
  const char *buffer;                     /* NULL: not about memory */
  int rank;                               /* of index; 0: unknown */
  int64_t index[IR_MAX_RANK];
  int64_t address; /* in bytes from the start of the buffer, or of shared memory; -1: unknown */
} SimFinding;

/* The most expensive execution of a memory op: what the lanes of a wave did. */
typedef struct SimAccess {
  const char *buffer;
  bool shared, is_read;
  int bytes;           /* of a lane */
  int cost;            /* conflicts, or sectors moved beyond those needed */
  uint64_t executions; /* of the op, by all waves */
  int64_t address[64]; /* by lane, in bytes; -1: inactive */
} SimAccess;

typedef struct SimBuffer {
  const char *name;
  const Op *alloc;
  int64_t base, bytes; /* in shared memory */
} SimBuffer;

/* Lives in `arena`, given by the caller; NULL: the kernel's. `op` and `access` are by op id. */
typedef struct SimReport {
  Arena *arena;
  SimLine *line; /* by place, in source order */
  int nlines;
  SimLine total, *op;
  SimAccess **access; /* NULL: the op accesses no memory, or never ran */
  SimFinding *finding;
  int findings;
  SimBuffer *shared; /* in program order */
  int nshared;
  const TargetInfo *machine;
  int64_t grid[3], block[3], shared_bytes;
  int wave, nwaves;
  bool ran, interrupted; /* ran: the arguments fitted, and the grid was started */
} SimReport;

/* False after reporting; buffers may then be partly written. */
bool sim_run(Kernel *k, const EvalArg *args, int nargs, const SimOptions *o, SimReport *out);

/* A table of the counters, one line per source line. */
void sim_print(StrBuf *out, const Context *cx, const SimReport *r);

#endif
