/* isa_lane.c: values that move between lanes, and vector instructions that are more than an
 * expression: several results, or operands whose meaning depends on modifiers. */
#include <string.h>

#include "isa/isa_number.h"
#include "isa/isa_state.h"

/* ---- between lanes and SGPRs ---- */

static int first_active(const IsaWave *w) {
  uint64_t exec = isa_exec(w);
  return exec ? lowest_bit(exec) : 0;
}

static void step_readfirstlane(IsaWave *w, const IsaInstr *i) {
  isa_write_scalar(w, &i->d[0], isa_lanes(w, i, 0, 0)[first_active(w)]);
}

static void step_readlane(IsaWave *w, const IsaInstr *i) {
  int lane = (int)isa_read_scalar(w, &i->s[1]) & (w->k->lanes - 1);
  isa_write_scalar(w, &i->d[0], isa_lanes(w, i, 0, 0)[lane]);
}

static void step_writelane(IsaWave *w, const IsaInstr *i) {
  int lane = (int)isa_read_scalar(w, &i->s[1]) & (w->k->lanes - 1);
  w->v[i->d[0].index][lane] = (uint32_t)isa_read_scalar(w, &i->s[0]);
}

/* ---- permutations ---- */

static void commit(IsaWave *w, const IsaInstr *i, const uint32_t *out) {
  isa_commit(w, &i->d[0], 0, out, isa_exec(w));
}

/* v_permlane16, v_permlanex16: each lane of a row names, in four bits of two SGPRs, a lane of its
 * own row or of the other one. op_sel[0]: inactive lanes may be read; op_sel[1]: else 0, not the
 * old value. */
static void step_permlane16(IsaWave *w, const IsaInstr *i) {
  uint64_t select = (uint32_t)isa_read_scalar(w, &i->s[1]);
  select |= isa_read_scalar(w, &i->s[2]) << 32;
  const uint32_t *from = isa_lanes(w, i, 0, 0), *old = w->v[i->d[0].index];
  uint32_t out[ISA_LANES];
  uint64_t exec = isa_exec(w);
  for (int l = 0; l < w->k->lanes; l++) {
    int row = (l & ~15) ^ (i->row->param[0] ? 16 : 0),
        at = row | (int)(select >> 4 * (l & 15) & 15);
    bool there = i->op_sel & 1 || exec >> at & 1;
    out[l] = there ? from[at] : i->op_sel & 2 ? 0 : old[l];
  }
  commit(w, i, out);
}

static void step_permlane64(IsaWave *w, const IsaInstr *i) {
  const uint32_t *from = isa_lanes(w, i, 0, 0);
  uint32_t out[ISA_LANES];
  for (int l = 0; l < w->k->lanes; l++) out[l] = from[w->k->lanes == 64 ? l ^ 32 : l];
  commit(w, i, out);
}

/* Rows of `param` lanes: the odd ones of the first register are swapped with the even ones of the
 * second. */
static void step_permlane_swap(IsaWave *w, const IsaInstr *i) {
  uint32_t *a = w->v[i->d[0].index], *b = w->v[i->s[0].index];
  int rows = i->row->param[0];
  for (int l = 0; l < w->k->lanes; l++) {
    if (!(l & rows)) continue;
    uint32_t kept = a[l];
    a[l] = b[l - rows], b[l - rows] = kept;
  }
}

static void step_swap(IsaWave *w, const IsaInstr *i) {
  uint32_t *a = w->v[i->d[0].index], *b = w->v[i->s[0].index];
  uint64_t exec = isa_exec(w);
  for (int l = 0; l < w->k->lanes; l++) {
    if (!(exec >> l & 1)) continue;
    uint32_t kept = a[l];
    a[l] = b[l], b[l] = kept;
  }
}

/* ---- permutations by the LDS hardware: they are waited for like LDS operations ---- */

static void finish_ds(IsaWave *w, const IsaInstr *i, const uint32_t *out) {
  commit(w, i, out);
  isa_fill(w, &i->d[0], 1, ISA_DS, isa_issue(w, ISA_DS));
}

static void step_bpermute(IsaWave *w, const IsaInstr *i) {
  const uint32_t *at = w->v[i->s[0].index], *from = w->v[i->s[1].index];
  uint32_t out[ISA_LANES];
  uint64_t exec = isa_exec(w);
  for (int l = 0; l < w->k->lanes; l++) {
    int lane = (int)((at[l] + (uint32_t)i->offset) / 4) & (w->k->lanes - 1);
    out[l] = exec >> lane & 1 ? from[lane] : 0;
  }
  finish_ds(w, i, out);
}

static void step_permute(IsaWave *w, const IsaInstr *i) {
  const uint32_t *at = w->v[i->s[0].index], *from = w->v[i->s[1].index];
  uint32_t out[ISA_LANES] = {0};
  uint64_t exec = isa_exec(w);
  for (int l = 0; l < w->k->lanes; l++)
    if (exec >> l & 1)
      out[((at[l] + (uint32_t)i->offset) / 4) & (uint32_t)(w->k->lanes - 1)] = from[l];
  finish_ds(w, i, out);
}

static int swizzled(int l, int pattern) {
  if (pattern & 0x8000) return (l & ~3) | (pattern >> 2 * (l & 3) & 3);
  return (l & ~31) | ((((l & 31) & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31));
}

static void step_swizzle(IsaWave *w, const IsaInstr *i) {
  const uint32_t *from = w->v[i->s[0].index];
  uint32_t out[ISA_LANES];
  uint64_t exec = isa_exec(w);
  for (int l = 0; l < w->k->lanes; l++) {
    int lane = swizzled(l, i->offset);
    out[l] = exec >> lane & 1 ? from[lane] : 0;
  }
  finish_ds(w, i, out);
}

/* ---- more than an expression ---- */

static void div_scale_f32(IsaLanes *x) {
  x->to_mask = 0;
  for (int l = 0; l < x->n; l++) {
    bool scaled;
    float r = isa_div_scale_f32(isa_float(x->lo[0][l]), isa_float(x->lo[1][l]),
                                isa_float(x->lo[2][l]), &scaled);
    x->to_lo[l] = isa_bits(r);
    x->to_mask |= (uint64_t)scaled << l;
  }
}

static double pair(const IsaLanes *x, int n, int l) {
  return isa_double((uint64_t)x->hi[n][l] << 32 | x->lo[n][l]);
}

static void div_scale_f64(IsaLanes *x) {
  x->to_mask = 0;
  for (int l = 0; l < x->n; l++) {
    bool scaled;
    double r = isa_div_scale_f64(pair(x, 0, l), pair(x, 1, l), pair(x, 2, l), &scaled);
    uint64_t bits = isa_bits64(r);
    x->to_lo[l] = (uint32_t)bits, x->to_hi[l] = (uint32_t)(bits >> 32);
    x->to_mask |= (uint64_t)scaled << l;
  }
}

static void mad_u64_u32(IsaLanes *x) {
  x->to_mask = 0;
  for (int l = 0; l < x->n; l++) {
    uint64_t c = (uint64_t)x->hi[2][l] << 32 | x->lo[2][l];
    uint64_t r = (uint64_t)x->lo[0][l] * x->lo[1][l] + c;
    x->to_lo[l] = (uint32_t)r, x->to_hi[l] = (uint32_t)(r >> 32);
    x->to_mask |= (uint64_t)(r < c) << l;
  }
}

static void mad_i64_i32(IsaLanes *x) {
  x->to_mask = 0;
  for (int l = 0; l < x->n; l++) {
    uint64_t c = (uint64_t)x->hi[2][l] << 32 | x->lo[2][l];
    uint64_t product = (uint64_t)((int64_t)(int32_t)x->lo[0][l] * (int32_t)x->lo[1][l]),
             r = product + c;
    x->to_lo[l] = (uint32_t)r, x->to_hi[l] = (uint32_t)(r >> 32);
    x->to_mask |= (uint64_t)((~(product ^ c) & (product ^ r)) >> 63) << l;
  }
}

/* v_fma_mix: each operand is f32, or (op_sel_hi) the half of a register that op_sel names; param:
 * the high half is written; halves are bf16. */
static float mixed(const IsaLanes *x, int n, int l) {
  const IsaInstr *i = x->i;
  uint32_t v = x->lo[n][l], half = v >> (i->op_sel >> n & 1 ? 16 : 0) & 0xffff;
  float small = i->row->param[1] ? isa_from_bf16(half) : isa_from_f16(half);
  float f = i->op_sel_hi >> n & 1 ? small : isa_float(v);
  if (i->s[n].abs || i->neg_hi >> n & 1) f = fabsf(f);
  return i->s[n].neg || i->neg_lo >> n & 1 ? -f : f;
}

static void fma_mix(IsaLanes *x) {
  for (int l = 0; l < x->n; l++)
    x->to_lo[l] = isa_bits(fmaf(mixed(x, 0, l), mixed(x, 1, l), mixed(x, 2, l)));
}

/* The result is one half of the register, the other half is kept. */
static void fma_mix_half(IsaLanes *x) {
  bool high = x->i->row->param[0];
  const uint32_t *old = x->w->v[x->i->d[0].index];
  for (int l = 0; l < x->n; l++) {
    float r = fmaf(mixed(x, 0, l), mixed(x, 1, l), mixed(x, 2, l));
    if (x->i->clamp) r = r > 0 ? (r < 1 ? r : 1.0f) : 0.0f;
    uint32_t h = x->i->row->param[1] ? isa_to_bf16(r) : isa_to_f16(r);
    x->to_lo[l] = high ? h << 16 | (old[l] & 0xffff) : h | (old[l] & 0xffff0000u);
  }
}

/* One word of each operand, which op_sel names, unlike in other packed instructions. */
static void pk_mov(IsaLanes *x) {
  const uint32_t *low = x->i->op_sel & 1 ? x->hi[0] : x->lo[0];
  const uint32_t *high = x->i->op_sel & 2 ? x->hi[1] : x->lo[1];
  memcpy(x->to_lo, low, sizeof *low * (size_t)x->n);
  memcpy(x->to_hi, high, sizeof *high * (size_t)x->n);
}

/* Dot products of parts of two registers, added to a third. */
static void dot2_f16(IsaLanes *x) {
  for (int l = 0; l < x->n; l++) {
    uint32_t a = x->lo[0][l], b = x->lo[1][l];
    float low = isa_from_f16(a & 0xffff) * isa_from_f16(b & 0xffff);
    float high = isa_from_f16(a >> 16) * isa_from_f16(b >> 16);
    x->to_lo[l] = isa_bits((float)((double)low + high + isa_float(x->lo[2][l])));
  }
}

static void dot2_bf16(IsaLanes *x) {
  for (int l = 0; l < x->n; l++) {
    uint32_t a = x->lo[0][l], b = x->lo[1][l];
    double low = (double)isa_from_bf16(a & 0xffff) * isa_from_bf16(b & 0xffff);
    double high = (double)isa_from_bf16(a >> 16) * isa_from_bf16(b >> 16);
    x->to_lo[l] = isa_bits((float)(low + high + isa_float(x->lo[2][l])));
  }
}

/* param: whether A and B are signed; -1: neg_lo says so. */
static void dot4_8(IsaLanes *x) {
  const IsaInstr *i = x->i;
  bool a_signed = i->row->param[0] < 0 ? i->neg_lo & 1 : i->row->param[0];
  bool b_signed = i->row->param[0] < 0 ? i->neg_lo >> 1 & 1 : i->row->param[0];
  for (int l = 0; l < x->n; l++) {
    uint32_t sum = x->lo[2][l];
    for (int n = 0; n < 32; n += 8) {
      uint32_t a = x->lo[0][l] >> n & 0xff, b = x->lo[1][l] >> n & 0xff;
      int32_t va = a_signed ? (int8_t)a : (int32_t)a, vb = b_signed ? (int8_t)b : (int32_t)b;
      sum += (uint32_t)(va * vb);
    }
    x->to_lo[l] = sum;
  }
}

IsaRows isa_lane_rows(void) {
  static const IsaRow rows[] = {
      {"v_readfirstlane_b32", "", "u=u", step_readfirstlane, NULL, NULL, {0}},
      {"v_readlane_b32", "", "u=uu", step_readlane, NULL, NULL, {0}},
      {"v_writelane_b32", "", "u=uu", step_writelane, NULL, NULL, {0}},
      {"v_permlane16_b32", "", "u=uuu", step_permlane16, NULL, NULL, {0}},
      {"v_permlanex16_b32", "", "u=uuu", step_permlane16, NULL, NULL, {1}},
      {"v_permlane64_b32", "", "u=u", step_permlane64, NULL, NULL, {0}},
      {"v_permlane16_swap_b32", "", "u=u", step_permlane_swap, NULL, NULL, {16}},
      {"v_permlane32_swap_b32", "", "u=u", step_permlane_swap, NULL, NULL, {32}},
      {"v_swap_b32", "", "u=u", step_swap, NULL, NULL, {0}},
      {"ds_bpermute_b32", "", "u=uu", step_bpermute, NULL, NULL, {0}},
      {"ds_permute_b32", "", "u=uu", step_permute, NULL, NULL, {0}},
      {"ds_swizzle_b32", "", "u=u", step_swizzle, NULL, NULL, {0}},
      {"v_div_scale_f32", "", "fC=fff", isa_vector_step, div_scale_f32, NULL, {0}},
      {"v_div_scale_f64", "", "dC=ddd", isa_vector_step, div_scale_f64, NULL, {0}},
      {"v_mad_u64_u32", "v_mad_co_u64_u32", "qC=uuq", isa_vector_step, mad_u64_u32, NULL, {0}},
      {"v_mad_i64_i32", "v_mad_co_i64_i32", "qC=iil", isa_vector_step, mad_i64_i32, NULL, {0}},
      {"v_fma_mix_f32", "v_mad_mix_f32", "f=MMM", isa_vector_step, fma_mix, NULL, {0}},
      {"v_fma_mixlo_f16",
       "v_mad_mixlo_f16",
       "x=MMM",
       isa_vector_step,
       fma_mix_half,
       NULL,
       {0, 0, 0, 1}},
      {"v_fma_mixhi_f16",
       "v_mad_mixhi_f16",
       "x=MMM",
       isa_vector_step,
       fma_mix_half,
       NULL,
       {1, 0, 0, 1}},
      {"v_fma_mix_f32_bf16", "", "f=MMM", isa_vector_step, fma_mix, NULL, {0, 1}},
      {"v_fma_mixlo_bf16", "", "x=MMM", isa_vector_step, fma_mix_half, NULL, {0, 1, 0, 1}},
      {"v_fma_mixhi_bf16", "", "x=MMM", isa_vector_step, fma_mix_half, NULL, {1, 1, 0, 1}},
      {"v_pk_mov_b32", "", "P=LH", isa_vector_step, pk_mov, NULL, {0}},
      {"v_dot2_f32_f16", "", "f=ppf", isa_vector_step, dot2_f16, NULL, {0}},
      {"v_dot2c_f32_f16", "v_dot2acc_f32_f16", "f=pp+", isa_vector_step, dot2_f16, NULL, {0}},
      {"v_dot2_f32_bf16", "", "f=bbf", isa_vector_step, dot2_bf16, NULL, {0}},
      {"v_dot4_i32_i8", "", "u=uuu", isa_vector_step, dot4_8, NULL, {1}},
      {"v_dot4c_i32_i8", "", "u=uu+", isa_vector_step, dot4_8, NULL, {1}},
      {"v_dot4_u32_u8", "", "u=uuu", isa_vector_step, dot4_8, NULL, {0}},
      {"v_dot4_i32_iu8", "", "u=uuu", isa_vector_step, dot4_8, NULL, {-1}},
  };
  return (IsaRows){rows, WV_LEN(rows)};
}
