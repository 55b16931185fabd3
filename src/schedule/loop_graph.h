/* loop_graph.h: the events of a loop, and what the program orders.
 *
 * The loop is one of a kernel's tiles after `sync`: its copies, waits and barriers are ops. All
 * waves of a workgroup run the same body, so two of them stand for any two: each op is an event in
 * both, in program order. A barrier is one event of both. Where service waves copy for the others
 * (transform/stages/roles/stages_roles.h), a third stands for them: it executes ops with a role. A copy that is not done by a wave's own
 * loads and stores, and a product that reads shared memory, ends with an event of its own, which
 * only a wait orders before anything else; what one elected thread does belongs to the first wave
 * that executes it.
 *
 * Regions inside the loop order nothing outside of them. What a conditional touches is divided by its
 * barriers; a loop inside is one access for all that it touches. */
#ifndef WV_SCHEDULE_LOOP_GRAPH_H
#define WV_SCHEDULE_LOOP_GRAPH_H

#include "analysis/distribute.h"
#include "analysis/memory_uses.h"
#include "analysis/runs.h"
#include "schedule/loop_counts.h"
#include "schedule/loop_order.h"

enum {
  LOOP_COMPUTING = 2, /* waves 0 and 1 compute ... */
  LOOP_SERVICE = 2,   /* ... and this one copies, if ops have a role */
  LOOP_WAVES = 3
};

typedef struct LoopAccess {
  const Op *op;
  int memory; /* in MemoryUses.memories */
  Touch how;
  bool by_name;                             /* as in MemoryUse */
  int begins[LOOP_WAVES], ends[LOOP_WAVES]; /* events; -1: this wave does not do it */
  int ahead, slots; /* to the slot of `ahead` iterations later; slots is 1: always the same place */
  const Sym *slot;  /* as the op names it; NULL: it does not */
  const Op *part;   /* as in MemoryUse */
  bool only_first;  /* it does nothing after the first iteration */
  bool goes_on;     /* iterations are those of all runs of the loop, since service waves continue */
  bool late;        /* it ends later for other waves; those of one wave are in order */
} LoopAccess;

typedef enum LoopEventKind {
  LOOP_STARTS, /* the op */
  LOOP_WAITS,  /* the wave waits for something before the op */
  LOOP_ENDS    /* the copy or product that was in flight */
} LoopEventKind;

typedef struct LoopEvent {
  const Op *op;
  LoopEventKind kind;
  int wave; /* LOOP_WAVES: all of them */
} LoopEvent;

/* Something that ends later: a copy or a product. */
typedef struct LoopFlight {
  const Op *op;
  int done[LOOP_WAVES]; /* events; -1: not in this wave */
  int group;            /* groups of copies closed before it; -1: in a region */
  bool published;       /* by the wait for it: products read what it fills */
} LoopFlight;

/* A wait for groups or phases. */
typedef struct LoopWait {
  const Op *op;
  int event[LOOP_WAVES];
  int closed;  /* groups of copies closed before it */
  int left;    /* groups that may still be in flight after it */
  bool added;  /* by lowering, before the op: for other copies, but all groups end */
  bool silent; /* it does not publish what was copied */
  bool phases; /* not groups */
} LoopWait;

/* Each wave that computes releases the slot of an iteration. */
typedef struct LoopArrival {
  const Op *op;
  int event[LOOP_WAVES];
} LoopArrival;

/* A group of waves takes its turn, or passes it on. In a loop whose groups are a barrier apart
 * (loop_lag.h), any barrier: a wave arrives, and then leaves. */
typedef struct LoopTurn {
  const Op *op;
  int event[LOOP_WAVES], leaves[LOOP_WAVES];
} LoopTurn;

typedef struct LoopGraph {
  const Op *loop;
  Vec(LoopEvent) events;
  Vec(Order) enforced;
  Vec(LoopAccess) accesses;
  int first[LOOP_WAVES], last[LOOP_WAVES]; /* events; -1: there are none */
  Vec(LoopFlight) copies; /* that end with a group or a barrier that the kernel waits for */
  Vec(LoopFlight) products;
  Vec(LoopWait) waits;
  Vec(LoopArrival) arrivals;
  Vec(LoopTurn) turns;
  int groups;  /* of copies */
  bool lagged; /* the second of the two computing waves runs one barrier after the first */
} LoopGraph;

typedef bool LoopOpFn(const void *user, const Op *op);

/* Ops that touch no shared memory are events if `counts`, which may be NULL, says so. */
LoopGraph loop_graph(Arena *a, const Distribution *d, const MemoryUses *m, const Op *loop,
                     LoopOpFn *counts, const void *user);

/* The same of what comes before the loop in its region, which runs once: all distances are 0, and
 * accesses to a ring are to the slot `ahead`. */
LoopGraph loop_entry_graph(Arena *a, const Distribution *d, const MemoryUses *m, const Op *loop);

/* The same of ops from `first` to before `end` (NULL: to the end) of a loop's body, between loops that are
 * inside it. */
LoopGraph loop_part_graph(Arena *a, const Distribution *d, const MemoryUses *m, const Op *loop,
                          const Op *first, const Op *end);

/* The number of the iteration that an attribute names which does not depend on the loop's counter. */
bool loop_names_iteration(const Kernel *k, const Op *loop, const Attr *at, int *number);

/* The first iteration of the loop in which a wait is for the phase that the copies of iteration
 * `filled` end, which were issued before the loop; -1: none, or unknown. */
int loop_waits_in(const Distribution *d, const Op *loop, const Op *wait, int64_t filled);

/* The wave that makes a copy; -1: none does. */
int loop_maker(const int *done);

/* Whether a wait of service waves is for the slot of the iteration that is *by above the counter: for
 * the release of what was there before, as many iterations earlier as there are slots. */
bool loop_awaits_slot(const Distribution *d, const Op *loop, const Op *wait, int *by);

/* Whether a wait before the loop is for the copy of an iteration, which the loop itself makes. */
bool loop_awaits_copy(const Distribution *d, const Op *loop, const Op *wait, const Op *copy,
                      int iteration);

#endif
