/* retarget_cluster.h: tiles that several workgroups share.
 *
 *     workgroup N by 65536; wave N by 1024               machine lanes 32 waves 64 cluster 4
 *     %r = sum %x {dim = N, block}                 =>    %p = sum %x {dim = N, into = 64, block}
 *                                                        write %p, %s {peers = 4}
 *                                                        barrier cluster
 *                                                        %q = read %s ...
 *
 * A row that declares more waves than a workgroup can have is held by a cluster of workgroups: it is
 * read once, and by several compute units. For layouts they are one workgroup whose waves are numbered
 * across the cluster, along the last dimension of the grid. What waves exchange is written to the
 * shared memory of each workgroup (exchange.c), whose barriers are those of the cluster (sync.c). */
#ifndef WV_RETARGET_CLUSTER_H
#define WV_RETARGET_CLUSTER_H

#include "transform/pass.h"

/* The number of workgroups that share the tiles of a tile-pure kernel with this many waves, which is
 * made a multiple of it; 1: it stays in one. A division is a remark. */
int retarget_cluster(Kernel *k, PassCtx *cx, int *waves);

#endif
