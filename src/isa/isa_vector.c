/* isa_vector.c: arithmetic of vector instructions: a loop over the lanes for each row of isa.def.
 *
 * Results go to arrays of their own, so that the loops can be vectorised; inactive lanes are
 * computed like the others and not written (isa_operand.c). */
#include "isa/isa_state.h"
#include "isa/isa_types.h"

/* ---- results ---- */

#define STORE_u(v) x->to_lo[l] = (v)
#define STORE_i(v) x->to_lo[l] = (uint32_t)(v)
#define STORE_f(v) x->to_lo[l] = isa_bits(v)
#define STORE_h(v) x->to_lo[l] = isa_to_f16(v)
#define STORE_w(v) x->to_lo[l] = (v)
#define STORE_t(v) x->to_lo[l] = (uint16_t)(v)
#define STORE_q(v) store_pair(x, l, v)
#define STORE_l(v) store_pair(x, l, (uint64_t)(v))
#define STORE_d(v) store_pair(x, l, isa_bits64(v))

static inline void store_pair(IsaLanes *x, int l, uint64_t v) {
  x->to_lo[l] = (uint32_t)v;
  x->to_hi[l] = (uint32_t)(v >> 32);
}

/* ---- words of the expressions in isa.def ---- */

#define MASK(n) (x->mask[n] >> l & 1)
#define FNUZ x->w->k->is_fnuz
#define SMALL(format, bits) isa_bits(isa_from_small(isa_format(format, FNUZ), (bits)&0xff))
#define TO_SMALL(format, v) isa_to_small(isa_format(format, FNUZ), v)
#define PAIR32(low, high) ((uint64_t)(high) << 32 | (low))
#define PACK(low, high) ((uint32_t)(low)&0xffff) | (uint32_t)(high) << 16
#define SIGN24(v) ((int32_t)((v) << 8) >> 8)
#define SIGNED_FIELD(v, bits) ((int32_t)((uint32_t)(v) << (32 - (bits))) >> (32 - (bits)))

/* ---- the loops ---- */

#define LANES for (int l = 0; l < x->n; l++)
#define V1(name, aliases, D, A, expression)                                                        \
  static void name(IsaLanes *x) {                                                                  \
    LANES {                                                                                        \
      TYPE_##A a = LANE_##A(0);                                                                    \
      STORE_##D(expression);                                                                       \
    }                                                                                              \
  }
#define V2(name, aliases, D, A, B, expression)                                                     \
  static void name(IsaLanes *x) {                                                                  \
    LANES {                                                                                        \
      TYPE_##A a = LANE_##A(0);                                                                    \
      TYPE_##B b = LANE_##B(1);                                                                    \
      STORE_##D(expression);                                                                       \
    }                                                                                              \
  }
#define V3(name, aliases, D, A, B, C, expression)                                                  \
  static void name(IsaLanes *x) {                                                                  \
    LANES {                                                                                        \
      TYPE_##A a = LANE_##A(0);                                                                    \
      TYPE_##B b = LANE_##B(1);                                                                    \
      TYPE_##C c = LANE_##C(2);                                                                    \
      STORE_##D(expression);                                                                       \
    }                                                                                              \
  }
#define VA(name, aliases, D, A, B, expression) V3(name, aliases, D, A, B, D, expression)
#define VS(name, aliases, T, expression)                                                           \
  static void name(IsaLanes *x) {                                                                  \
    if (x->i->clamp) LANES {                                                                       \
        int64_t a = LANE_##T(0), b = LANE_##T(1);                                                  \
        STORE_##T(SATURATE_##T(expression));                                                       \
      }                                                                                            \
    else LANES {                                                                                   \
        int64_t a = LANE_##T(0), b = LANE_##T(1);                                                  \
        STORE_##T((TYPE_##T)(expression));                                                         \
      }                                                                                            \
  }
#define VM2 V2
#define VM3 V3
#define VC(name, aliases, types, expression, carry)                                                \
  static void name(IsaLanes *x) {                                                                  \
    uint64_t out = 0;                                                                              \
    LANES {                                                                                        \
      uint32_t a = x->lo[0][l], b = x->lo[1][l];                                                   \
      x->to_lo[l] = (expression);                                                                  \
      out |= (uint64_t)(carry) << l;                                                               \
    }                                                                                              \
    x->to_mask = out;                                                                              \
  }

/* Packed: each half chooses its half of each operand (op_sel, op_sel_hi) and its sign. */
static inline uint32_t half_of(const IsaLanes *x, int arg, int l, int half, uint32_t sign) {
  const IsaInstr *i = x->i;
  int which = (half ? i->op_sel_hi : i->op_sel) >> arg & 1;
  bool neg = (half ? i->neg_hi : i->neg_lo) >> arg & 1;
  return (x->lo[arg][l] >> 16 * which & 0xffff) ^ (neg ? sign : 0);
}

static inline uint32_t word_of(const IsaLanes *x, int arg, int l, int half, uint32_t sign) {
  const IsaInstr *i = x->i;
  int which = (half ? i->op_sel_hi : i->op_sel) >> arg & 1;
  bool neg = (half ? i->neg_hi : i->neg_lo) >> arg & 1;
  return (which ? x->hi[arg][l] : x->lo[arg][l]) ^ (neg ? sign : 0);
}

#define GET_h(n) isa_from_f16(half_of(x, n, l, half, 0x8000))
#define GET_b(n) isa_from_bf16(half_of(x, n, l, half, 0x8000))
#define GET_w(n) (uint16_t) half_of(x, n, l, half, 0)
#define GET_t(n) (int16_t) half_of(x, n, l, half, 0)
#define GET_f(n) isa_float(word_of(x, n, l, half, 0x80000000u))
#define PUT_h(v) put_half(x, l, half, isa_to_f16(v))
#define PUT_b(v) put_half(x, l, half, isa_to_bf16(v))
#define PUT_w(v) put_half(x, l, half, (v))
#define PUT_t(v) put_half(x, l, half, (uint16_t)(v))
#define PUT_f(v) *(half ? &x->to_hi[l] : &x->to_lo[l]) = isa_bits(v)

static inline void put_half(IsaLanes *x, int l, int half, uint32_t v) {
  x->to_lo[l] = half ? (x->to_lo[l] & 0xffff) | v << 16 : v;
}

#define PK2(name, aliases, T, expression)                                                          \
  static void name(IsaLanes *x) {                                                                  \
    LANES for (int half = 0; half < 2; half++) {                                                   \
      TYPE_##T a = GET_##T(0), b = GET_##T(1);                                                     \
      PUT_##T(expression);                                                                         \
    }                                                                                              \
  }
#define PK3(name, aliases, T, expression)                                                          \
  static void name(IsaLanes *x) {                                                                  \
    LANES for (int half = 0; half < 2; half++) {                                                   \
      TYPE_##T a = GET_##T(0), b = GET_##T(1), c = GET_##T(2);                                     \
      PUT_##T(expression);                                                                         \
    }                                                                                              \
  }
#define PKS(name, aliases, T, expression)                                                          \
  static void name(IsaLanes *x) {                                                                  \
    LANES for (int half = 0; half < 2; half++) {                                                   \
      int64_t a = GET_##T(0), b = GET_##T(1), r = expression;                                      \
      PUT_##T(x->i->clamp ? SATURATE_##T(r) : (TYPE_##T)r);                                        \
    }                                                                                              \
  }
#include "isa/isa.def"

/* ---- the table ---- */

#define PACKED_h "p=p"
#define PACKED_b "b=b"
#define PACKED_w "y=y"
#define PACKED_t "y=y"
#define PACKED_f "P=P"
#define V1(name, aliases, D, A, e) {#name, aliases, #D "=" #A, isa_vector_step, name, NULL, {0}},
#define V2(name, aliases, D, A, B, e)                                                              \
  {#name, aliases, #D "=" #A #B, isa_vector_step, name, NULL, {0}},
#define V3(name, aliases, D, A, B, C, e)                                                           \
  {#name, aliases, #D "=" #A #B #C, isa_vector_step, name, NULL, {0}},
#define VA(name, aliases, D, A, B, e)                                                              \
  {#name, aliases, #D "=" #A #B "+", isa_vector_step, name, NULL, {0}},
#define VS(name, aliases, T, e)                                                                    \
  {#name, aliases, #T "=" #T #T, isa_vector_step, name, NULL, {[ISA_OWN_CLAMP] = 1}},
#define VM2(name, aliases, D, A, B, e)                                                             \
  {#name, aliases, #D "=" #A #B "C", isa_vector_step, name, NULL, {0}},
#define VM3(name, aliases, D, A, B, C, e)                                                          \
  {#name, aliases, #D "=" #A #B #C "C", isa_vector_step, name, NULL, {0}},
#define VC(name, aliases, types, e, carry)                                                         \
  {#name, aliases, types, isa_vector_step, name, NULL, {0}},
#define PK2(name, aliases, T, e)                                                                   \
  {#name, aliases, PACKED_##T "" PACKED_END_##T, isa_vector_step, name, NULL, {0}},
#define PK3(name, aliases, T, e)                                                                   \
  {#name, aliases, PACKED_##T PACKED_END_##T PACKED_END_##T, isa_vector_step, name, NULL, {0}},
#define PKS(name, aliases, T, e)                                                                   \
  {#name, aliases, PACKED_##T PACKED_END_##T, isa_vector_step, name, NULL, {[ISA_OWN_CLAMP] = 1}},
#define PACKED_END_h "p"
#define PACKED_END_b "b"
#define PACKED_END_w "y"
#define PACKED_END_t "y"
#define PACKED_END_f "P"

IsaRows isa_vector_rows(void) {
  static const IsaRow rows[] = {
#include "isa/isa.def"
  };
  return (IsaRows){rows, WV_LEN(rows)};
}
