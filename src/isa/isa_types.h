/* isa_types.h: the types of isa.def, as C types and as a lane's registers (lo, hi: a pair) hold
 * them. For the loops over lanes, in which `x` is the IsaLanes and `l` the lane. */
#ifndef WV_ISA_TYPES_H
#define WV_ISA_TYPES_H

#include "isa/isa_number.h"

#define TYPE_u uint32_t
#define TYPE_x uint32_t
#define TYPE_k uint32_t
#define TYPE_i int32_t
#define TYPE_f float
#define TYPE_h float
#define TYPE_b float
#define TYPE_w uint16_t
#define TYPE_t int16_t
#define TYPE_q uint64_t
#define TYPE_l int64_t
#define TYPE_d double

#define SATURATE_u(v) (uint32_t) isa_saturate(v, 0, UINT32_MAX)
#define SATURATE_i(v) (int32_t) isa_saturate(v, INT32_MIN, INT32_MAX)
#define SATURATE_w(v) (uint16_t) isa_saturate(v, 0, UINT16_MAX)
#define SATURATE_t(v) (int16_t) isa_saturate(v, INT16_MIN, INT16_MAX)

#define LANE_u(n) x->lo[n][l]
#define LANE_x(n) x->lo[n][l]
#define LANE_i(n) (int32_t) x->lo[n][l]
#define LANE_f(n) isa_float(x->lo[n][l])
#define LANE_h(n) isa_from_f16(x->lo[n][l] & 0xffff)
#define LANE_w(n) (uint16_t) x->lo[n][l]
#define LANE_t(n) (int16_t) x->lo[n][l]
#define LANE_q(n) ((uint64_t)x->hi[n][l] << 32 | x->lo[n][l])
#define LANE_l(n) (int64_t) LANE_q(n)
#define LANE_d(n) isa_double(LANE_q(n))

#endif
