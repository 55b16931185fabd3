/* convert.h: how a tile gets from one layout to another.
 *
 * The cheapest of four ways, found by looking at every element of every thread:
 *
 *     NOTHING     each register already holds what it should
 *     REGISTERS   each thread has what it needs, in other registers: renaming
 *     SHUFFLE     each wave has what it needs, in other lanes: rounds of lane exchanges
 *     SHARED      through shared memory: written in one layout, read in the other
 *
 * Registers narrower than a word move in *groups* that fill one, where both layouts keep them
 * together. A value that is held several times is taken from the nearest holder. */
#ifndef WV_CONVERT_H
#define WV_CONVERT_H

#include "target/layout.h"

typedef enum ConvertKind {
  CONVERT_NOTHING,
  CONVERT_REGISTERS,
  CONVERT_SHUFFLE,
  CONVERT_SHARED
} ConvertKind;

/* Destination group `to` takes source group `from` of another lane, in some or all lanes. */
typedef struct ConvertRound {
  int to, from;
  int flip; /* lane l reads lane l ^ flip: a butterfly; 0: its own. -1: see `first` */
  const int *
      lanes; /* a lane that has what each lane needs; -1: the lane keeps what earlier rounds gave */
  int first; /* flip -1: lane l reads first + step[i] for each bit i of l that is set */
  int step[LAYOUT_DIGITS];
  bool whole; /* no lane keeps anything: the round needs no select */
} ConvertRound;

typedef struct ConvertPlan {
  ConvertKind kind;
  int unit;                   /* registers of a group */
  int groups;                 /* of the destination */
  const int *source;          /* NOTHING, REGISTERS: the source group of each */
  const ConvertRound *rounds; /* SHUFFLE: grouped by `to`, in order */
  int nrounds;
  int cost; /* instructions of a thread, roughly; 0 for NOTHING and REGISTERS */
} ConvertPlan;

/* Both over the same tile; `bits` of an element. */
ConvertPlan convert_plan(Arena *a, const Layout *from, const Layout *to, int bits);

/* The same where waves may not take anything from each other: shuffles, whatever they cost. SHARED:
 * a wave lacks something. */
ConvertPlan convert_plan_in_waves(Arena *a, const Layout *from, const Layout *to, int bits);

#endif
