/* banks.h: what an access to shared memory costs, and which layout makes it cheapest.
 *
 * Shared memory is divided into banks of 4 bytes, each of which serves one word at a time. The
 * lanes of a wave are served in *phases* (targets.def says which lanes); a phase takes as many
 * cycles as its busiest bank has distinct words to deliver. Lanes that access the same word share
 * it. */
#ifndef WV_BANKS_H
#define WV_BANKS_H

#include "layout/mem_layout.h"
#include "target/target.h"

enum { BANK_LANES = 64 }; /* most lanes of a wave */

typedef struct BankCost {
  int cycles;    /* of all phases together */
  int conflicts; /* of these, beyond one per phase that does something */
} BankCost;

/* One access of `bytes` per lane (a power of two) at byte addresses; -1: the lane is inactive. */
BankCost bank_cost(const TargetInfo *t, const int *address, int lanes, int bytes, bool is_read);

/* The banks that serve such an access. */
int bank_number(const TargetInfo *t, int bytes, bool is_read);

/* For each lane, the phase of such an access that serves it. */
void bank_phases(const TargetInfo *t, int lanes, int bytes, bool is_read, int phase[BANK_LANES]);

/* How the lanes of a wave visit a tile: `steps` accesses of `bytes` each, to elements adjacent
 * along the last dim. */
typedef struct BankPattern {
  int (*element)(const void *cx, int step, int lane); /* the row-major index of its first element,
                                                       * or -1 */
  const void *cx;
  int steps, lanes, bytes;
  bool is_read;
  int weight; /* how often it happens, relative to the others */
} BankPattern;

/* The accesses that a register layout makes along the last dim, for one wave. */
typedef struct BankLayout {
  const Layout *layout;
  int vector; /* elements of an access */
} BankLayout;

int bank_layout_element(const void *cx, int step, int lane); /* cx: a BankLayout */

typedef struct BankChoice {
  MemLayout layout;
  int64_t cycles, conflicts; /* weighted, over all patterns */
  int64_t bytes;
  bool found; /* false: no layout keeps the accesses whole within the budget */
} BankChoice;

typedef struct BankTile {
  int dims, extent[LAYOUT_DIMS];
  int bits; /* of an element */
  const BankPattern *patterns;
  int npatterns;
  int64_t budget; /* bytes */
  bool is_dense;  /* rows may not be padded: a bulk copy writes them */
  bool is_plain;  /* nothing is swizzled */
} BankTile;

/* What the tile's patterns cost in a layout; found is false if the layout splits or misaligns an
 * access. */
BankChoice bank_judge(const TargetInfo *t, const BankTile *tile, const MemLayout *m);

/* The cheapest layout within the budget: plain rows, xor swizzles, padded rows. Ties go to fewer
 * bytes, then to the simpler layout. */
BankChoice bank_choose(const TargetInfo *t, const BankTile *tile);

#endif
