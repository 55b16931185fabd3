/* loop_free.h: the shortest interval of a loop whose ops may be in any stage and in any order.
 *
 * The events and costs are those of a kernel that is pipelined somehow (loop_times.h). Its waits,
 * its barriers and the order of its program are forgotten; what remains is what every schedule of
 * the loop has to obey:
 *
 *     data        a value is used after it was computed, in the same iteration or in the next
 *     memory      a tile is read after it was filled; a slot of n is filled again, n iterations
 *                 later, after it was read. Between waves a barrier lies between the two
 *     registers   a value is used before those of n iterations later take its registers
 *     units       ops of both waves take turns
 *     issue       a wave starts one op at a time: it is a unit, too
 *     stages      what has an effect outside the iteration is in the last stage, what rows place is
 *                 where they say
 *
 * all of which are edges and uses of interval.h. The bound holds for all schedules; the places that
 * are found are those of a wave whose companion follows it closely. */
#ifndef WV_SCHEDULE_LOOP_FREE_H
#define WV_SCHEDULE_LOOP_FREE_H

#include "schedule/loop_times.h"

/* What rows of a schedule leave open. */
typedef struct FreeLimits {
  /* The slots that a tile in shared memory may have. */
  int (*slots)(const void *user, const Op *alloc);
  /* Whether the place of an op is given: the stages from it to the last one, and its cycle. */
  bool (*is_placed)(const void *user, const Op *op, Place *at);
  const void *user;
  int copies;    /* iterations whose results of an op may be in registers at the same time */
  int registers; /* for values of the loop; 0: any number */
  int spare;     /* of these, that should be left for values that are not known */
  int64_t bytes; /* of shared memory, for all slots of tiles, in schedules that are looked for */
  int64_t room;  /* the same in any schedule */
  int depth;     /* stages, at most */
  bool bounds;   /* for bounds: reads that may be made before the loop are not looked at */
  bool served;   /* for bounds: other waves make the copies, so that none meet at barriers */
  bool early;    /* matmuls and other computations may be in earlier stages than the last */
  const MemoryUses *uses;
} FreeLimits;

typedef struct FreePlace {
  const Op *op;
  int lead;   /* stages from it to the last one */
  int64_t at; /* cycles from the start of an iteration of the loop */
} FreePlace;

/* The slots that a tile then needs. */
typedef struct FreeRing {
  const Op *alloc;
  int slots;
} FreeRing;

typedef struct FreeTimes {
  int64_t cycles, bound; /* of the places; of every schedule. PATHS_NEVER: there is none */
  Vec(FreePlace) places; /* of ops that take time, in the order of `at` */
  Vec(FreeRing) rings;
  int registers; /* that its values need */
  bool passing;  /* ops that pass values between waves are in one stage with what needs them */
} FreeTimes;

/* The bound of all schedules alone. With one wave it takes less time, and leaves out what follows from
 * barriers at which two meet. */
int64_t loop_free_bound(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits,
                        int waves);

/* A better one, of both waves, where `known` cycles are possible. */
int64_t loop_free_raise(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits,
                        int64_t bound, int64_t known);

/* `t` are times that are known of the loop. waves: 1 or 2; with 1 the other wave is assumed to follow
 * closely, which is not exact, but much quicker to solve. */
FreeTimes loop_free(Arena *a, Kernel *k, const LoopTimes *t, const FreeLimits *limits, int waves);

#endif
