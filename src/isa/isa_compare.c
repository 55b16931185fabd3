/* isa_compare.c: vector comparisons: one bit per lane, to a pair of SGPRs, VCC or EXEC. */
#include "isa/isa_state.h"
#include "isa/isa_types.h"

#define CMP(op, T, type, expression)                                                               \
  static void cmp_##op##_##type(IsaLanes *x) {                                                     \
    uint64_t out = 0;                                                                              \
    for (int l = 0; l < x->n; l++) {                                                               \
      TYPE_##T a = LANE_##T(0), b = LANE_##T(1);                                                   \
      (void)a, (void)b;                                                                            \
      out |= (uint64_t)(expression) << l;                                                          \
    }                                                                                              \
    x->to_mask = out;                                                                              \
  }
#include "isa/isa.def"

static void class_f32(IsaLanes *x) {
  x->to_mask = 0;
  for (int l = 0; l < x->n; l++) {
    uint32_t a = x->lo[0][l], rest = a & 0x7fffffffu;
    bool is = isa_is_class(isa_float(a), rest && rest < 0x800000u, x->lo[1][l], !(a & 0x400000u));
    x->to_mask |= (uint64_t)is << l;
  }
}

static void class_f16(IsaLanes *x) {
  x->to_mask = 0;
  for (int l = 0; l < x->n; l++) {
    uint32_t a = x->lo[0][l] & 0xffff, rest = a & 0x7fffu;
    bool is = isa_is_class(isa_from_f16(a), rest && rest < 0x400u, x->lo[1][l], !(a & 0x200u));
    x->to_mask |= (uint64_t)is << l;
  }
}

static void class_f64(IsaLanes *x) {
  x->to_mask = 0;
  for (int l = 0; l < x->n; l++) {
    uint64_t a = LANE_q(0), rest = a & ~(UINT64_C(1) << 63);
    bool is = isa_is_class(isa_double(a), rest && rest < UINT64_C(1) << 52, x->lo[1][l],
                           !(a & UINT64_C(1) << 51));
    x->to_mask |= (uint64_t)is << l;
  }
}

/* v_cmpx writes EXEC; on gfx9 also the mask that it names. */
static void step_cmpx(IsaWave *w, const IsaInstr *i) {
  uint64_t mask = 0, active = isa_compute(w, i, 0, &mask);
  if (i->nd) isa_write_mask(w, &i->d[0], mask & active);
  w->s[ISA_EXEC] = (uint32_t)(mask & active);
  w->s[ISA_EXEC + 1] = (uint32_t)((mask & active) >> 32);
}

IsaRows isa_compare_rows(void) {
  static const IsaRow rows[] = {
#define CMP(op, T, type, e)                                                                        \
  {"v_cmp_" #op "_" #type, "", "C=" #T #T, isa_vector_step, cmp_##op##_##type, NULL, {0}},         \
      {"v_cmpx_" #op "_" #type, "", "?C=" #T #T, step_cmpx, cmp_##op##_##type, NULL, {0}},
#include "isa/isa.def"
      {"v_cmp_class_f16", "", "C=hu", isa_vector_step, class_f16, NULL, {0}},
      {"v_cmp_class_f32", "", "C=fu", isa_vector_step, class_f32, NULL, {0}},
      {"v_cmp_class_f64", "", "C=du", isa_vector_step, class_f64, NULL, {0}},
      {"v_cmpx_class_f16", "", "?C=hu", step_cmpx, class_f16, NULL, {0}},
      {"v_cmpx_class_f32", "", "?C=fu", step_cmpx, class_f32, NULL, {0}},
      {"v_cmpx_class_f64", "", "?C=du", step_cmpx, class_f64, NULL, {0}},
  };
  return (IsaRows){rows, WV_LEN(rows)};
}
