/* isa_matrix.c: matrix instructions, by the layouts that AMD publishes.
 *
 * The operands are gathered into dense matrices of doubles. Products are summed in f64 and rounded
 * once, when they are added to the accumulator: the hardware's order of summation is not
 * documented. */
#include "isa/isa_matrix.h"

#include <string.h>

#include "isa/isa_number.h"
#include "isa/isa_state.h"

#define PLACE(name, digits) static const char name[] = digits;
#include "isa/isa_layouts.def"

#define CDNA ISA_CDNA
#define RDNA3 ISA_RDNA3
#define RDNA4 ISA_RDNA4
#define CDNA5 ISA_CDNA5
static const IsaMatrix matrices[] = {
#define MATRIX(name, aliases, chips, m, n, k, A, B, D, cycles, a, b, d)                            \
  {#name, aliases, chips, m, n, k, ISA_##A, ISA_##B, ISA_##D, cycles, a, b, d},
#include "isa/isa_layouts.def"
};

const IsaMatrix *isa_matrix_at(int i) { return i < (int)WV_LEN(matrices) ? &matrices[i] : NULL; }

static bool is_kind(IsaElement row, IsaElement e) {
  if (row == ISA_mx8) return e == ISA_fp8 || e == ISA_bf8;
  return row != ISA_mx4 || e == ISA_fp6 || e == ISA_bf6 || e == ISA_fp4;
}

const IsaMatrix *isa_matrix_find(const char *name, IsaChips chips, IsaElement a, IsaElement b) {
  for (size_t i = 0; i < WV_LEN(matrices); i++) {
    const IsaMatrix *m = &matrices[i];
    bool fits = m->chips == chips && is_kind(m->a, a) && is_kind(m->b, b);
    if (fits && strcmp(m->name, name) == 0) return m;
  }
  return NULL;
}

Layout isa_matrix_layout(const IsaMatrix *m, int operand) {
  const char *digits = operand == 0 ? m->place_a : operand == 1 ? m->place_b : m->place_d;
  int extent[2] = {operand == 1 ? m->n : m->m, operand == 2 ? m->n : m->k};
  Layout l = layout_of(2, extent);
  const char *wrong = layout_parse_digits(&digits, &l);
  WV_ASSERT(!wrong && !*digits);
  return l;
}

/* ---- plans ---- */

typedef struct Plan {
  const IsaMatrix *m;
  const int *place[3];   /* [lane * elements + element]: row-major index in A, B, D */
  int elements[3];       /* of a lane */
  IsaElement type[2];    /* of A and B */
  const float *small[2]; /* the values of types of 8 bits and less */
  bool is_signed[2];     /* iu8 */
  bool is_negated[3];    /* A, B, C */
  bool is_absolute;      /* C, before it is negated */
} Plan;

enum { MATRIX_MOST = 32 * 64 };

static int bits_of(IsaElement e) {
  switch (e) {
  case ISA_f16:
  case ISA_bf16: return 16;
  case ISA_f32:
  case ISA_i32: return 32;
  case ISA_f64: return 64;
  case ISA_fp6:
  case ISA_bf6: return 6;
  case ISA_fp4: return 4;
  case ISA_fp8:
  case ISA_bf8:
  case ISA_mx8:
  case ISA_mx4:
  case ISA_i8:
  case ISA_iu8: break;
  }
  return 8;
}

static const float *small_values(Arena *a, IsaElement e, bool is_fnuz) {
  if (e < ISA_fp8 || e > ISA_fp4) return NULL;
  const IsaFormat *f = isa_format((IsaSmall)(e - ISA_fp8), is_fnuz);
  float *values = ARENA_ARRAY(a, float, 256);
  for (uint32_t b = 0; b < 1u << f->bits; b++) values[b] = isa_from_small(f, b);
  return values;
}

static IsaChips chips_of(const IsaKernel *k) {
  if (k->is_1250) return ISA_CDNA5;
  return k->generation == ISA_GFX9 ? ISA_CDNA : k->generation == ISA_GFX11 ? ISA_RDNA3 : ISA_RDNA4;
}

/* The registers that an operand takes, if it is one. */
static bool fits(const IsaArg *a, IsaElement e, int elements) {
  return a->kind == ISA_IMM || (a->kind == ISA_V && a->count == elements * bits_of(e) / 32);
}

/* Of an instruction that names the types of A and B in cbsz and blgp. */
static IsaElement type_of(IsaElement row, unsigned named) {
  bool leaves = row == ISA_mx8 || row == ISA_mx4;
  return leaves ? (IsaElement)(ISA_fp8 + (int)named) : row;
}

static bool choose_row(const IsaKernel *k, const IsaInstr *i, Plan *p) {
  if (i->cbsz > 4 || i->blgp > 4) return false;
  p->m = isa_matrix_find(i->row->name, chips_of(k), (IsaElement)(ISA_fp8 + i->cbsz),
                         (IsaElement)(ISA_fp8 + i->blgp));
  if (!p->m) return false;
  p->type[0] = type_of(p->m->a, i->cbsz), p->type[1] = type_of(p->m->b, i->blgp);
  return p->type[0] != p->m->a || !(i->cbsz || i->blgp); /* else they exchange lanes */
}

/* The signs of WMMA. neg_lo and neg_hi negate the even and the odd elements of A and B: LLVM sets
 * both or neither, elements of 32 bits have neg_lo alone, smaller ones than 16 bits none. Of C they
 * mean negated and absolute. Of iu8, neg_lo says which of A and B are signed. */
static bool choose_signs(const IsaInstr *i, Plan *p) {
  enum { A_AND_B = 3, C = 4 };
  bool is_iu8 = p->m->a == ISA_iu8;
  for (int n = 0; n < 2; n++) p->is_signed[n] = !is_iu8 || i->neg_lo >> n & 1;
  if (is_iu8) return !i->neg_hi && !(i->neg_lo & C);
  for (int n = 0; n < 3; n++) p->is_negated[n] = i->neg_lo >> n & 1;
  p->is_absolute = i->neg_hi & C;
  int low = i->neg_lo & A_AND_B, high = i->neg_hi & A_AND_B, bits = bits_of(p->m->a);
  return high == (bits == 16 ? low : 0) && (bits >= 16 || !low);
}

bool isa_matrix_plan(Arena *a, const IsaKernel *k, IsaInstr *i) {
  Plan *p = ARENA_NEW(a, Plan);
  if (!choose_row(k, i, p) || !choose_signs(i, p) || i->abid || i->clamp) return false;
  for (int n = 0; n < 3; n++) {
    Layout l = isa_matrix_layout(p->m, n);
    if (layout_size(&l, LAYOUT_LANE) != k->lanes) return false;
    p->elements[n] = layout_size(&l, LAYOUT_REG);
    p->place[n] = layout_table(a, &l);
  }
  for (int n = 0; n < 2; n++) p->small[n] = small_values(a, p->type[n], k->is_fnuz);
  i->plan = p;
  return fits(&i->s[0], p->type[0], p->elements[0]) && fits(&i->s[1], p->type[1], p->elements[1]) &&
         fits(&i->s[2], p->m->d, p->elements[2]) && fits(&i->d[0], p->m->d, p->elements[2]);
}

/* ---- gathering ---- */

static double number(const Plan *p, int operand, IsaElement e, uint32_t low, uint32_t high) {
  switch (e) {
  case ISA_f16: return isa_from_f16(low);
  case ISA_bf16: return isa_from_bf16(low);
  case ISA_f32: return isa_float(low);
  case ISA_f64: return isa_double((uint64_t)high << 32 | low);
  case ISA_fp8:
  case ISA_bf8:
  case ISA_fp6:
  case ISA_bf6:
  case ISA_fp4: return p->small[operand][low];
  case ISA_mx8:
  case ISA_mx4: break;
  case ISA_i8:
  case ISA_iu8: return p->is_signed[operand] ? (int8_t)low : (double)low;
  case ISA_i32: return (int32_t)low;
  }
  return 0;
}

/* Element `n` of a lane, in the order of its registers. */
static double stored(const Plan *p, const IsaWave *w, const IsaArg *a, int operand, IsaElement e,
                     int n, int lane) {
  int bits = bits_of(e);
  if (a->kind == ISA_IMM)
    return number(p, operand, e, (uint32_t)a->value, (uint32_t)(a->value >> 32));
  if (bits == 64)
    return number(p, operand, e, w->v[a->index + 2 * n][lane], w->v[a->index + 2 * n + 1][lane]);
  int first = n * bits / 32, at = n * bits % 32;
  uint32_t word = w->v[a->index + first][lane];
  if (bits == 32) return number(p, operand, e, word, 0);
  uint32_t low = word >> at;
  if (at + bits > 32) low |= w->v[a->index + first + 1][lane] << (32 - at);
  return number(p, operand, e, low & ((1u << bits) - 1), 0);
}

static double element(const Plan *p, const IsaWave *w, const IsaArg *a, int operand, IsaElement e,
                      int n, int lane) {
  double v = stored(p, w, a, operand, e, n, lane);
  if (operand == 2 && p->is_absolute) v = fabs(v);
  return p->is_negated[operand] ? -v : v;
}

/* A with k innermost; B with n innermost. */
static void gather(const Plan *p, const IsaWave *w, const IsaArg *a, int operand, double *to) {
  const IsaMatrix *m = p->m;
  IsaElement e = p->type[operand];
  for (int n = 0; n < p->elements[operand]; n++)
    for (int l = 0; l < w->k->lanes; l++) {
      int place = p->place[operand][l * p->elements[operand] + n];
      if (operand == 1) place = place % m->k * m->n + place / m->k;
      to[place] = element(p, w, a, operand, e, n, l);
    }
}

/* ---- scaling ---- */

enum { SCALE_BLOCK = 32 };

static double power(uint32_t bits) { return bits == 0xff ? NAN : ldexp(1, (int)bits - 127); }

/* gfx1250: lane l has the scales of row l, in one word. */
static void scale_rows(const IsaMatrix *m, const uint32_t *scales, int operand, double *to) {
  for (int row = 0; row < (operand ? m->n : m->m); row++)
    for (int k = 0; k < m->k; k++)
      to[operand ? k * m->n + row : row * m->k + k] *=
          power(scales[row] >> 8 * (k / SCALE_BLOCK) & 0xff);
}

/* A scale in a VGPR is the byte that op_sel names, one in an SGPR or a constant the exponent of an
 * f32: LLVM uses VGPRs only for that reason (llvm-project#158117). */
static int shift_of_scale(const IsaInstr *i, int operand) {
  if (i->s[3 + operand].kind != ISA_V) return 23;
  return 8 * ((i->op_sel >> operand & 1) | (i->op_sel_hi >> operand & 1) << 1);
}

/* Multiplies A or B, gathered, by its scales: powers of two. */
static void scale(const Plan *p, IsaWave *w, const IsaInstr *i, int operand, double *to) {
  const IsaMatrix *m = p->m;
  const uint32_t *scales = isa_lanes(w, i, 3 + operand, 0);
  if (w->k->is_1250) {
    scale_rows(m, scales, operand, to);
    return;
  }
  int rows = operand ? m->n : m->m, shift = shift_of_scale(i, operand);
  for (int l = 0; l < w->k->lanes; l++) {
    int row = l % rows, first = l / rows * SCALE_BLOCK;
    double by = power(scales[l] >> shift & 0xff);
    for (int k = first; k < first + SCALE_BLOCK; k++)
      to[operand ? k * m->n + row : row * m->k + k] *= by;
  }
}

/* ---- multiplying ---- */

static void multiply(const IsaMatrix *m, const double *restrict a, const double *restrict b,
                     double *restrict to) {
  for (int i = 0; i < m->m; i++) {
    double *row = to + i * m->n;
    memset(row, 0, sizeof *row * (size_t)m->n);
    for (int k = 0; k < m->k; k++)
      for (int j = 0; j < m->n; j++) row[j] += a[i * m->k + k] * b[k * m->n + j];
  }
}

static void put(IsaWave *w, const IsaArg *d, IsaElement e, int n, int lane, double v) {
  if (e == ISA_f64) {
    uint64_t bits = isa_bits64(v);
    w->v[d->index + 2 * n][lane] = (uint32_t)bits;
    w->v[d->index + 2 * n + 1][lane] = (uint32_t)(bits >> 32);
  } else w->v[d->index + n][lane] = e == ISA_i32 ? (uint32_t)(int64_t)v : isa_bits((float)v);
}

/* All lanes take part. MFMA ignores EXEC; WMMA has no defined result unless EXEC is full. */
static bool is_whole(IsaWave *w, const IsaInstr *i) {
  uint64_t all = w->k->lanes == 64 ? UINT64_MAX : UINT32_MAX;
  if (i->row->name[2] == 'm' || (isa_exec(w) & all) == all) return true;
  isa_fault(w, ISA_DIVERGED, -1, "a matrix instruction is executed while some lanes are inactive");
  return false;
}

/* C and D may overlap in part, so all of C is read before anything is written. */
void isa_matrix_step(IsaWave *w, const IsaInstr *i) {
  const Plan *p = i->plan;
  double a[MATRIX_MOST], b[MATRIX_MOST], product[32 * 32], sum[32 * 32];
  int lanes = w->k->lanes, elements = p->elements[2];
  if (!is_whole(w, i)) return;
  gather(p, w, &i->s[0], 0, a);
  gather(p, w, &i->s[1], 1, b);
  if (i->ns > 3) scale(p, w, i, 0, a), scale(p, w, i, 1, b);
  multiply(p->m, a, b, product);
  for (int l = 0; l < lanes; l++)
    for (int n = 0; n < elements; n++)
      sum[l * elements + n] =
          element(p, w, &i->s[2], 2, p->m->d, n, l) + product[p->place[2][l * elements + n]];
  for (int n = 0; n < elements; n++)
    for (int l = 0; l < lanes; l++) put(w, &i->d[0], p->m->d, n, l, sum[l * elements + n]);
}

#define TYPES_f32 "v=vvu"
#define TYPES_i32 "v=vvu"
#define TYPES_f64 "v=vvd"

IsaRows isa_matrix_rows(void) {
  static const IsaRow rows[] = {
#define MATRIX(name, aliases, chips, m, n, k, A, B, D, cycles, a, b, d)                            \
  {#name, aliases, TYPES_##D, isa_matrix_step, NULL, NULL, {0}},
#define SCALED(name, aliases, ...) {#name, aliases, "v=vvuuu", isa_matrix_step, NULL, NULL, {0}},
#include "isa/isa_layouts.def"
  };
  return (IsaRows){rows, WV_LEN(rows)};
}
