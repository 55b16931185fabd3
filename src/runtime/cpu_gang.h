/* cpu_gang.h: threads that wait for each other: waves of a workgroup, workgroups of a grid.
 *
 * A *member* is one of them. It runs, or is at a barrier, or is *still*: in a loop whose last round
 * changed nothing. When all who have not ended are at barriers or still, and every still one has
 * gone round once more after the last of the others did anything, then nothing will ever change:
 * that is a deadlock, and it does not depend on how quick anybody is. */
#ifndef WV_CPU_GANG_H
#define WV_CPU_GANG_H

#include <pthread.h>

#include "runtime/cpu_watch.h"

enum { CPU_BARRIERS = 17 }; /* of a workgroup: its own, and those with numbers */

typedef enum CpuMemberState {
  MEMBER_RUNS,
  MEMBER_IS_STILL,
  MEMBER_MEETS,
  MEMBER_ENDED
} CpuMemberState;

typedef struct CpuMember {
  CpuMemberState state;
  int place;      /* where it waits */
  uint64_t since; /* events when its last round began */
  bool agreed;    /* it went round since the last event and found nothing new */
} CpuMember;

typedef struct CpuBarrier {
  int arrived, asleep; /* asleep: of these who wait for the rest */
  uint64_t turn;       /* how often it has been complete */
} CpuBarrier;

struct CpuGang {
  CpuOrders *orders;
  pthread_mutex_t lock;
  pthread_cond_t moved; /* a barrier is complete, or all are told to stop */
  int members, waves;   /* waves: members of a workgroup, which stand together */
  CpuMember *member;
  CpuBarrier (*barrier)[CPU_BARRIERS]; /* of each workgroup */
  int live, meeting, agreed; /* members that have not ended; of these at barriers; agreed */
  uint64_t events;           /* whoever stopped running */
};

/* False: there is no memory for it. */
bool cpu_gang_open(CpuGang *g, CpuOrders *orders, int groups, int waves);
void cpu_gang_close(CpuGang *g);
void cpu_gang_again(CpuGang *g);             /* as it was opened, when all have ended */
void cpu_gang_leave(CpuGang *g, int member); /* it has ended */
void cpu_gang_wake(CpuGang *g);              /* those at barriers: the launch is told to stop */

#endif
