/* choose_model.h: how long a launch takes with certain tiles, as far as the kernel's tiles tell.
 *
 * A compute unit runs workgroups in rounds, as many at a time as it holds:
 *
 *     time = rounds * (prologue + iterations * interval + epilogue)
 *
 * and never less than memory needs for every tensor once, or than the effort of all units allows: the clock of
 * a busy machine falls. Where waves that only copy fill the rings (`persist`), one prologue and no epilogue but
 * the last is exposed. The interval of a loop is the time of its busiest unit, or that in which copies arrive
 * with as many slots as shared memory has room for. Matrix and vector instructions of one wave follow each
 * other; two waves, or workgroups, fill each other's gaps. These are the unit times of units.def without
 * layouts, waits and order: an estimate that ranks candidates quickly. The best few are then lowered
 * (choose_trial.h), and what that shows replaces the estimate.
 *
 * All sizes are expressions of the open symbols, which are compiled once and evaluated for each candidate.
 * Sizes of tensors that are not known are taken for those that a row `expect` gives, or for CHOOSE_UNKNOWN. */
#ifndef WV_CHOOSE_MODEL_H
#define WV_CHOOSE_MODEL_H

#include "target/units/units.h"
#include "transform/choose/choose_symbols.h"

enum { CHOOSE_UNKNOWN = 4096, CHOOSE_LOOPS = 8, CHOOSE_PARTS = 8 };

/* What lowering shows about a candidate. */
typedef struct ChooseFound {
  bool known;
  bool full;            /* it was refused because it needs too many registers */
  int waves, registers; /* of the machine; of a thread, for tiles and addresses */
  int64_t bytes;        /* of shared memory */
  int slots;            /* of the shortest ring; 0: there is none */
  bool alone;           /* a compute unit holds one workgroup */
  bool persistent;
  double interval[CHOOSE_LOOPS]; /* cycles of an iteration; 0: not known */
  double busy[CHOOSE_LOOPS];     /* of these, in which the busiest unit works */
} ChooseFound;

typedef struct Candidate {
  int64_t value[CHOOSE_SYMBOLS];
  double cycles;  /* of a launch */
  double rank;    /* by which candidates are compared: the cycles, and what they may be wrong by */
  double moved;   /* bytes between memory and compute units */
  int64_t held;   /* registers of a thread for its tiles */
  int64_t bytes;  /* of a tile of each operand in shared memory */
  int64_t groups; /* workgroups that a compute unit holds */
  int64_t tiles;  /* of the grid */
  int64_t parts;  /* workgroups that share the iterations of a tile (split.c); 1: none do */
  bool persistent;
} Candidate;

/* Why a candidate is none. */
typedef struct Refusal {
  const char *why;
  const Constraint *row; /* NULL: no row in particular */
} Refusal;

typedef struct ChooseModel ChooseModel;

/* NULL: an expression cannot be evaluated, or the kernel has too many loops. */
ChooseModel *choose_model(const Distribution *d, const TargetInfo *t, const ChooseTiles *open,
                          Arena *a);
/* Whether times can be predicted; otherwise candidates are ranked by how far they are from what is usual. */
bool choose_predicts(const ChooseModel *m);
/* Predicts a launch. parts: as in Candidate, unless the kernel says how many. False: the values are refused. */
bool choose_estimate(ChooseModel *m, const int64_t *value, int64_t parts, const ChooseFound *found,
                     Candidate *out, Refusal *why);
/* Whether that many workgroups may share the iterations of a tile of the candidate, which has none that do: a grid of
 * known size leaves compute units for them, and the kernel does not say how many. */
bool choose_may_split(const ChooseModel *m, const Candidate *c, int64_t parts);
/* Parts of the candidate that no row requests; 1: none. */
int64_t choose_own_parts(const ChooseModel *m, const Candidate *c);
/* Whether sizes of tensors are known only at the call, and whether some of these have no row `expect` either. */
bool choose_has_unknown_sizes(const Kernel *k);
bool choose_has_unexpected_sizes(const Kernel *k);
/* Whether the estimate relies on matrix instructions of several waves. */
bool choose_expects_wide(ChooseModel *m, const int64_t *value);

/* Cycles below which no tiles can be: memory, and products. Of the last estimate. */
typedef struct ChooseFloor {
  double memory, matrix; /* cycles; 0: not known, or nothing */
  double bytes, flops;
} ChooseFloor;
ChooseFloor choose_floor(const ChooseModel *m);

/* The number of a loop in ChooseFound, by its axis; -1: there is none, or several. */
int choose_loop(const ChooseModel *m, const Sym *axis);

#endif
