/* retarget_parts.h: mma ops whose sum over k several waves share.
 *
 *     tile K by 64; wave K by 32                       %z = fill 0.0 : tile<2, M, N, f32>
 *     %r = for K carry %c = %i {                       %p = for K carry %c = %z {
 *       %d = mma %x, %y, %c                     =>       %d = mma %x, %y, %c {into = 2}
 *       yield %d                                         yield %d
 *     }                                                }
 *                                                      %r = sum %p, %i {dim = 2, block}
 *
 * Waves that share the tile of a loop each multiply their own part of it. A loop carries its
 * accumulator in parts, one per wave, if it only adds products to it and scales it; the parts are
 * added after the loop. Otherwise they are added right after the product. */
#ifndef WV_RETARGET_PARTS_H
#define WV_RETARGET_PARTS_H

#include "anchors/anchors.h"
#include "transform/pass.h"

/* Rewrites each mma whose k tile divides evenly among the waves that share it, if the parts fit into
 * shared memory. In the others all waves divide the rows and columns. Each rewrite is a remark. */
void retarget_share_products(Kernel *k, PassCtx *cx, const Machine *m);

#endif
