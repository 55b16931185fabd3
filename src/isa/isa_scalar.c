/* isa_scalar.c: scalar arithmetic: one function for each row of isa.def. */
#include "isa/isa_state.h"
#include "isa/isa_types.h"

#define LOAD_u(v) (uint32_t)(v)
#define LOAD_i(v) (int32_t)(uint32_t)(v)
#define LOAD_k(v) (uint32_t)(v)
#define LOAD_f(v) isa_float((uint32_t)(v))
#define LOAD_h(v) isa_from_f16((uint32_t)(v)&0xffff)
#define LOAD_q(v) (v)
#define LOAD_l(v) (int64_t)(v)
#define STORE_u(v) (v)
#define STORE_i(v) (uint32_t)(v)
#define STORE_f(v) isa_bits(v)
#define STORE_h(v) isa_to_f16(v)
#define STORE_q(v) (v)
#define STORE_l(v) (uint64_t)(v)

#define SCC (uint32_t) w->scc
#define KEEP w->scc
#define FIELD_MASK(bits) ((bits) >= 64 ? UINT64_MAX : (UINT64_C(1) << (bits)) - 1)
#define FIELD(v, first, bits) ((v) >> (first)&FIELD_MASK(bits))
#define SIGNED_FIELD64(v, first, bits) signed_field(v, (int)(first), (int)(bits))

static int64_t signed_field(uint64_t v, int first, int bits) {
  if (!bits) return 0;
  if (bits > 64) bits = 64;
  return (int64_t)(v >> first << (64 - bits)) >> (64 - bits);
}

#define S1(name, aliases, D, A, expression, condition)                                             \
  static void name(IsaWave *w, const IsaInstr *i, uint64_t *d, const uint64_t *s) {                \
    TYPE_##A a = LOAD_##A(s[0]);                                                                   \
    TYPE_##D r = (expression);                                                                     \
    (void)i;                                                                                       \
    w->scc = (condition);                                                                          \
    *d = STORE_##D(r);                                                                             \
  }
#define S2(name, aliases, D, A, B, expression, condition)                                          \
  static void name(IsaWave *w, const IsaInstr *i, uint64_t *d, const uint64_t *s) {                \
    TYPE_##A a = LOAD_##A(s[0]);                                                                   \
    TYPE_##B b = LOAD_##B(s[1]);                                                                   \
    TYPE_##D r = (expression);                                                                     \
    (void)i;                                                                                       \
    w->scc = (condition);                                                                          \
    *d = STORE_##D(r);                                                                             \
  }
#define SK(name, aliases, D, A, expression, condition)                                             \
  S2(name, aliases, D, A, D, expression, condition)
#define SC(name, aliases, A, B, expression)                                                        \
  static void name(IsaWave *w, const IsaInstr *i, uint64_t *d, const uint64_t *s) {                \
    TYPE_##A a = LOAD_##A(s[0]);                                                                   \
    TYPE_##B b = LOAD_##B(s[1]);                                                                   \
    (void)i, (void)d;                                                                              \
    w->scc = (expression);                                                                         \
  }
#define SX(name, aliases, expression)                                                              \
  static void name(IsaWave *w, const IsaInstr *i, uint64_t *d, const uint64_t *s) {                \
    uint64_t a = s[0], e = isa_exec(w), r = (expression);                                          \
    if (i->d[0].count == 1) r &= UINT32_MAX;                                                       \
    w->s[ISA_EXEC] = (uint32_t)r;                                                                  \
    w->s[ISA_EXEC + 1] = (uint32_t)(r >> 32);                                                      \
    w->scc = r != 0;                                                                               \
    *d = e;                                                                                        \
  }
#include "isa/isa.def"

static void step_scalar(IsaWave *w, const IsaInstr *i) {
  uint64_t d = 0, s[ISA_ARGS];
  for (int n = 0; n < i->ns; n++) s[n] = isa_read_scalar(w, &i->s[n]);
  i->row->scalar(w, i, &d, s);
  if (i->nd) isa_write_scalar(w, &i->d[0], d);
}

/* ---- what is not an expression of its operands ---- */

/* s_cmov: keeps the destination if SCC is clear. */
static void step_cmov(IsaWave *w, const IsaInstr *i) {
  if (w->scc) isa_write_scalar(w, &i->d[0], isa_read_scalar(w, &i->s[0]));
}

static void step_bitset(IsaWave *w, const IsaInstr *i) {
  uint64_t before = isa_read_scalar(w, &i->s[1]);
  uint64_t bit = UINT64_C(1) << (isa_read_scalar(w, &i->s[0]) & (uint64_t)i->row->param[1]);
  isa_write_scalar(w, &i->d[0], i->row->param[0] ? before | bit : before & ~bit);
}

static void step_getpc(IsaWave *w, const IsaInstr *i) {
  isa_write_scalar(w, &i->d[0], (uint64_t)(uintptr_t)w->k->image.code + i->next_pc);
}

/* gfx12: a floating-point multiply-add that overwrites its addend. */
static void step_fmac(IsaWave *w, const IsaInstr *i) {
  float a = isa_float((uint32_t)isa_read_scalar(w, &i->s[0]));
  float b = isa_float((uint32_t)isa_read_scalar(w, &i->s[1]));
  float c = isa_float((uint32_t)isa_read_scalar(w, &i->s[2]));
  isa_write_scalar(w, &i->d[0], isa_bits(fmaf(a, b, c)));
}

static void step_fmac_f16(IsaWave *w, const IsaInstr *i) {
  float x[3];
  for (int n = 0; n < 3; n++) x[n] = isa_from_f16((uint32_t)isa_read_scalar(w, &i->s[n]) & 0xffff);
  isa_write_scalar(w, &i->d[0], isa_to_f16(isa_fma_narrow(x[0], x[1], x[2])));
}

IsaRows isa_scalar_rows(void) {
  static const IsaRow rows[] = {
#define S1(name, aliases, D, A, e, c) {#name, aliases, #D "=" #A, step_scalar, NULL, name, {0}},
#define S2(name, aliases, D, A, B, e, c)                                                           \
  {#name, aliases, #D "=" #A #B, step_scalar, NULL, name, {0}},
#define SK(name, aliases, D, A, e, c) {#name, aliases, #D "=" #A "+", step_scalar, NULL, name, {0}},
#define SC(name, aliases, A, B, e) {#name, aliases, "=" #A #B, step_scalar, NULL, name, {0}},
#define SX(name, other, e)                                                                         \
  {#name "_b64", "", "q=q", step_scalar, NULL, name, {0}},                                         \
      {#name "_b32", "", "u=u", step_scalar, NULL, name, {0}},                                     \
      {other "_b64", "", "q=q", step_scalar, NULL, name, {0}},                                     \
      {other "_b32", "", "u=u", step_scalar, NULL, name, {0}},
#include "isa/isa.def"
      {"s_cmov_b32", "", "u=u", step_cmov, NULL, NULL, {0}},
      {"s_cmovk_i32", "", "u=k", step_cmov, NULL, NULL, {0}},
      {"s_cmov_b64", "", "q=q", step_cmov, NULL, NULL, {0}},
      {"s_bitset0_b32", "", "u=u+", step_bitset, NULL, NULL, {0, 31}},
      {"s_bitset1_b32", "", "u=u+", step_bitset, NULL, NULL, {1, 31}},
      {"s_bitset0_b64", "", "q=u+", step_bitset, NULL, NULL, {0, 63}},
      {"s_bitset1_b64", "", "q=u+", step_bitset, NULL, NULL, {1, 63}},
      {"s_getpc_b64", "s_get_pc_i64", "q=", step_getpc, NULL, NULL, {0}},
      {"s_fmac_f16", "", "h=hh+", step_fmac_f16, NULL, NULL, {0}},
      {"s_fmac_f32", "", "f=ff+", step_fmac, NULL, NULL, {0}},
      {"s_fmaak_f32", "s_fmamk_f32", "f=fff", step_fmac, NULL, NULL, {0}},
  };
  return (IsaRows){rows, WV_LEN(rows)};
}
