/* cpu_gang.h: threads that wait for each other: waves of a workgroup, workgroups of a grid.
 *
 * Each of them is a *member*. It is running, at a barrier, or *still*: in a loop whose last
 * iteration changed nothing. When all members that have not ended are at barriers or still, and
 * every still one has iterated once more since any other member last did something, nothing will
 * ever change: that is a deadlock, and its detection does not depend on timing. */
#ifndef WV_CPU_GANG_H
#define WV_CPU_GANG_H

#include <pthread.h>

#include "runtime/cpu/cpu_watch.h"

enum { CPU_BARRIERS = 17 }; /* per workgroup: its own, and the numbered ones */

typedef enum CpuMemberState {
  MEMBER_RUNS,
  MEMBER_IS_STILL,
  MEMBER_MEETS,
  MEMBER_ENDED
} CpuMemberState;

typedef struct CpuMember {
  CpuMemberState state;
  int wait;       /* what it waits for: an index into the waits of the kernel */
  uint64_t since; /* event count when its last iteration began */
  bool agreed;    /* it has iterated since the last event and found nothing new */
} CpuMember;

typedef struct CpuBarrier {
  int arrived, asleep; /* asleep: those of them that wait for the rest */
  uint64_t turn;       /* how often it has been complete */
} CpuBarrier;

struct CpuGang {
  CpuOrders *orders;
  pthread_mutex_t lock;
  pthread_cond_t moved; /* a barrier is complete, or all are told to stop */
  int members, waves;   /* waves: members per workgroup, which are consecutive */
  CpuMember *member;
  CpuBarrier (*barrier)[CPU_BARRIERS]; /* of each workgroup */
  int live, meeting, agreed; /* members that have not ended; of these at barriers; agreed */
  uint64_t events;           /* counts members that stopped running */
};

/* False: out of memory. */
bool cpu_gang_open(CpuGang *g, CpuOrders *orders, int groups, int waves);
void cpu_gang_close(CpuGang *g);
void cpu_gang_again(CpuGang *g);             /* back to its initial state, when all members have
                                              * ended */
void cpu_gang_leave(CpuGang *g, int member); /* it has ended */
void cpu_gang_wake(CpuGang *g);              /* wakes those at barriers: the launch is being
                                              * stopped */

#endif
