/* retarget_scales.h: rewrites products with scales as plain products.
 *
 *     %c = scaled_mma %a, %p, %b, %q, %acc       %x = cast %a : bf16
 *                                                %s = cast %p : bf16
 *                                         =>     %t = repeat %s : tile<M, K, bf16>
 *                                                %l = mul %t, %x          (and %r likewise)
 *                                                %c = mma %l, %r, %acc
 *
 * In bf16 and in f32, a float of at most 8 bits times such a scale is exact as long as it is in
 * range. */
#ifndef WV_RETARGET_SCALES_H
#define WV_RETARGET_SCALES_H

#include "target/mma.h"
#include "transform/pass.h"

/* Turns `op` into an `mma` of operands of this type, with a remark. */
void retarget_apply_scales(Kernel *k, Op *op, DType type, const TargetInfo *target);

#endif
