/* trial.h: what a schedule of a loop would give: the passes `stages`, `allocs` and `sync` run on a copy
 * of the kernel with its rows, and its times are predicted. */
#ifndef WV_TRIAL_H
#define WV_TRIAL_H

#include "schedule/loop_times.h"
#include "transform/pass.h"

/* A loop whose schedule is searched for, of a kernel before `version`. */
typedef struct SolveLoop {
  Kernel *k;
  const TargetInfo *target;
  const char *name; /* of the loop */
} SolveLoop;

typedef struct Trial {
  Arena *arena;
  RowList rows;   /* of the loop, in place of those that it had */
  Kernel *k;      /* with these, after `sync` */
  const Op *loop; /* there */
  Machine machine;
  Facts facts;
  LoopTimes times;
  int64_t bytes; /* of shared memory */
  int registers; /* of a thread, for tiles in the loop */
  int room;      /* registers that it has for tiles */
  int outside;   /* of these, tiles that it does not compute: they occupy them throughout */
  int besides;   /* registers for addresses and the like */
  int depth;     /* stages */
  int turns;     /* groups of waves that take turns; 0: none do */
  bool alone;    /* a compute unit holds one workgroup, because its waves exchange registers */
} Trial;

/* Whether a row pins how the loop is pipelined on the machine. */
bool solve_is_about(const SolveLoop *s, const Constraint *row);

/* NULL: the rows are refused, or what they give cannot be proved, unless that is left for later. The trial
 * owns its memory. */
Trial *trial_new(const SolveLoop *s, const RowList *rows, bool proved);
/* Of the rows that the loop has: if they are refused, what was reported remains. It is not proved. */
Trial *trial_first(const SolveLoop *s, const RowList *rows);
/* Whether a trial whose times were predicted can be proved. */
bool trial_prove(const Trial *t);
/* Of a loop of a kernel that has been compiled up to `turns`, and stays the caller's; NULL: there is none. */
Trial *trial_in(const SolveLoop *s, Kernel *k, Arena *a);
/* Predicts how long an iteration takes; guess: as for loop_times. */
void trial_time(Trial *t, int64_t guess);
/* What bounds are made of (loop_times_apart). */
LoopTimes trial_apart(const Trial *t, Arena *a);
void trial_free(Trial *t);

/* Whether its tiles need more registers than a thread has: predictions are then worthless. */
bool trial_spills(const Trial *t);

/* The registers that every schedule of the loop needs at least, and the op at which it does: for its
 * operands, and for tiles that the loop does not compute. */
int trial_least_registers(const Trial *t, const Op **at);

/* Waves that a SIMD then holds. */
int trial_waves(const Trial *t);

/* Registers of a thread with which a SIMD still holds two waves, or as many as with the trial. */
int trial_most_registers(const Trial *t);

/* Whether a thread has registers for its tiles if that many waves besides its own make the copies. */
bool trial_may_be_served(const Trial *t, int copying);

/* Bytes of shared memory with which it does. */
int64_t trial_most_bytes(const Trial *t);

/* Workgroups that a compute unit then holds. They hide what the others wait for, until a unit is always
 * busy; whether that is so throughout a launch: then no schedule is faster. */
int trial_groups(const Trial *t);
bool trial_is_full(const Trial *t);

/* The most registers of a thread with which it holds that many; 0 or less: it cannot. */
int trial_registers_for(const Trial *t, int groups);

/* The cycles in which a compute unit completes an iteration of one workgroup, on average of a launch
 * whose number of workgroups is known, and otherwise while it is full; the same for a schedule that
 * takes `cycles` and of which it holds `groups`. */
double trial_load(const Trial *t);
double trial_load_with(const Trial *t, int64_t cycles, int groups);

/* The order of trials, by their loads: -1, 0 or 1; 0 if the difference is small. A loop whose times are
 * not known comes last. */
int trial_compare(const Trial *a, const Trial *b);

#endif
