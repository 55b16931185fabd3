/* convert.h: how a tile gets from one layout to another.
 *
 * The cheapest of four methods, found by looking at every element of every thread:
 *
 *     NOTHING     each register already holds the right element
 *     REGISTERS   each thread has the elements, in other registers: renaming
 *     SHUFFLE     each wave has the elements, in other lanes: rounds of lane exchanges
 *     SHARED      through shared memory: written in one layout, read in the other
 *
 * Registers narrower than a word move in *groups* that fill one, where both layouts keep them
 * together. An element held several times is taken from the nearest holder. */
#ifndef WV_CONVERT_H
#define WV_CONVERT_H

#include "layout/layout.h"

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
  const int
      *lanes; /* for each lane, a lane that has its element; -1: keep what earlier rounds gave */
  int first;  /* flip -1: lane l reads first + step[i] for each set bit i of l */
  int step[LAYOUT_DIGITS];
  bool whole; /* every lane takes something, so the round needs no select */
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

/* Both layouts are over the same tile; `bits` of an element. */
ConvertPlan convert_plan(Arena *a, const Layout *from, const Layout *to, int bits);

/* The same where waves cannot exchange data: shuffles, whatever they cost. SHARED: some wave lacks
 * an element. */
ConvertPlan convert_plan_in_waves(Arena *a, const Layout *from, const Layout *to, int bits);

#endif
