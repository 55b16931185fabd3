/* cpu_shares.h: which thread runs which workgroups of a launch.
 *
 * Each thread has a *share*: consecutive workgroups, the same ones whenever a kernel of that size is
 * launched, so that it finds in its core's cache what it left there. It takes ranges from the front
 * of its share, each half of what is left, and then half of another's share, from the end. */
#ifndef WV_CPU_SHARES_H
#define WV_CPU_SHARES_H

#include <stdatomic.h>

#include "base/base.h"

/* In units of a number of workgroups, so that two numbers are one word: first * 2^32 + last. */
typedef atomic_ullong CpuShare;

typedef struct CpuShares {
  int64_t count, unit; /* workgroups in all, and of one unit */
  int threads;
  char *first;   /* the share of the first thread */
  size_t stride; /* bytes from one share to the next: no two are in one cache line */
} CpuShares;

/* Divides `count` workgroups among s->threads. */
void cpu_shares_divide(CpuShares *s, int64_t count);

/* Takes the next range for thread `t`. False: none is left. */
bool cpu_shares_take(const CpuShares *s, int t, int64_t *first, int64_t *last);

#endif
