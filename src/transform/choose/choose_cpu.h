/* choose_cpu.h: the tiles of products for which CPUs take the shortest time. */
#ifndef WV_CHOOSE_CPU_H
#define WV_CHOOSE_CPU_H

#include "analysis/analysis.h"
#include "target/target.h"

typedef struct CpuTiles {
  int m, n, k; /* m is 0: not known */
} CpuTiles;

/* For the only product of a kernel, by the sizes that are expected. */
CpuTiles choose_cpu_tiles(const Distribution *d, const TargetInfo *t);

#endif
