/* matrices.c: see matrices.h. */
#include "target/matrices.h"

/* ---- forms ---- */

/* AMD's reads. In waves of 64 lanes (gfx950), each 16 lanes address the rows of a tile with 16
 * columns, from left to right and from top to bottom, and the i-th of them gets column i (CDNA4 ISA,
 * 11.4). Waves of 32 lanes (gfx1250): as in AMD's part of the Triton compiler (TargetFeatures.cpp). */
static const MatrixForm forms[] = {
    {64, 16, 64, "l0 l1", "l2 l3 r0 r1 l4 l5"},      /* ds_read_b64_tr_b16: 4 rows */
    {64, 8, 64, "l0 l1 l2", "l3 r0 r1 r2 l4 l5"},    /* ds_read_b64_tr_b8: 8 rows */
    {64, 4, 64, "l0 l1 l2 l3", "r0 r1 r2 r3 l4 l5"}, /* ds_read_b64_tr_b4: 16 rows */
    {32, 16, 128, "l0 l1 l2", "r0 r1 r2 l3 l4"},     /* ds_load_tr16_b128 */
    {32, 8, 64, "l0 l1 l2", "r0 r1 l3 r2 l4"},       /* ds_load_tr8_b64 */
    {32, 4, 64, "l0 l1 l2 l3", "r0 r1 r2 l4 r3"},    /* ds_load_tr4_b64 */
};

const MatrixForm *matrix_form(int lanes, int bits) {
  for (size_t i = 0; i < WV_LEN(forms); i++)
    if (forms[i].lanes == lanes && forms[i].bits == bits) return &forms[i];
  return NULL;
}

/* A number whose bits, lowest first, are those that the words name: "l0 l1 r0". */
static int gathered(const char *words, int reg, int lane) {
  int number = 0;
  for (int bit = 0; *words; bit++, words += words[2] ? 3 : 2)
    number |= ((*words == 'r' ? reg : lane) >> (words[1] - '0') & 1) << bit;
  return number;
}

MatrixSource matrix_source(const MatrixForm *f, int reg, int lane) {
  return (MatrixSource){gathered(f->lane, reg, lane), gathered(f->element, reg, lane)};
}

static const MatrixForm *form_of(const TargetInfo *t, int bits) {
  return target_has(t, FEATURE_DS_TRANSPOSE) ? matrix_form(t->lanes, bits) : NULL;
}

bool matrix_is_read(const TargetInfo *t) {
  return target_has(t, FEATURE_LDMATRIX) || target_has(t, FEATURE_DS_TRANSPOSE);
}

int matrix_dim(const TargetInfo *t, const MemLayout *m) {
  const MatrixForm *form = form_of(t, m->bits);
  for (int d = m->dims - 1; d >= 0; d--)
    if (mem_vector(m, d) * m->bits >= (form ? form->row : MATRIX_ROW_BITS)) return d;
  return -1;
}

/* ---- layouts ---- */

/* Every position is an element: nothing is read past the tile. */
static bool stays_inside(const Layout *l) {
  for (int d = 0; d < l->dims; d++) {
    int last = 0;
    for (int p = 0; p < LAYOUT_PARTS; p++)
      for (int i = 0; i < l->part[p].n; i++)
        if (l->part[p].at[i].dim == d)
          last += (l->part[p].at[i].radix - 1) * l->part[p].at[i].stride;
    if (last >= l->extent[d]) return false;
  }
  return true;
}

/* The dim along which lane `to` is one element past lane 0; -1: none. */
static int dim_of_lane(const Layout *l, int to) {
  int from[LAYOUT_DIMS], at[LAYOUT_DIMS], dim = -1;
  layout_at(l, 0, 0, 0, from);
  layout_at(l, 0, to, 0, at);
  for (int d = 0; d < l->dims; d++) {
    if (at[d] == from[d]) continue;
    if (dim >= 0 || at[d] != from[d] + 1) return -1;
    dim = d;
  }
  return dim;
}

/* Takes the factor `by` from the fastest register digit; returns its digit, or radix 0 if it is not
 * there. */
static Digit take_registers(Digits *regs, int by) {
  if (!regs->n || regs->at[0].radix % by) return (Digit){0};
  Digit taken = {regs->at[0].dim, by, regs->at[0].stride};
  regs->at[0].radix /= by;
  regs->at[0].stride *= by;
  if (regs->at[0].radix > 1) return taken;
  for (int i = 1; i < regs->n; i++) regs->at[i - 1] = regs->at[i];
  regs->n--;
  return taken;
}

/* Doubles the number of matrices as long as the next ones are consecutive in the registers. */
static void add_matrices(MatrixPlan *p, Digits *regs) {
  for (p->count = 1; p->count < MATRIX_LANES / MATRIX_ROWS; p->count *= 2) {
    Digit next = take_registers(regs, 2);
    if (!next.radix || !next.stride) break;
    layout_push(&p->rows, LAYOUT_LANE, next.dim, 2, next.stride);
  }
  layout_repeat(&p->rows, LAYOUT_LANE, MATRIX_LANES / MATRIX_ROWS / p->count);
  p->rows.part[LAYOUT_REG] = *regs;
}

/* By lane, at register 0: the coordinates of its element, and of the first element of the row that
 * it addresses. */
typedef struct LaneCoords {
  int element[MATRIX_LANES][LAYOUT_DIMS], row[MATRIX_LANES][LAYOUT_DIMS];
} LaneCoords;

static bool gets_elements(const MatrixPlan *p, const Layout *l, int along, int bits,
                          const LaneCoords *lanes, int reg) {
  int within = reg % p->each, matrix = reg / p->each % p->count;
  int begin[LAYOUT_DIMS], at[LAYOUT_DIMS];
  layout_at(&p->rows, reg / p->each / p->count, 0, 0, begin);
  layout_at(l, reg, 0, 0, at);
  for (int lane = 0; lane < MATRIX_LANES; lane++) {
    int row = lane / 4, unit = p->each * (lane % 4) + within;
    if (p->transposed) row = 2 * (lane % 4) + within, unit = lane / 4;
    const int *named = lanes->row[MATRIX_ROWS * matrix + row];
    for (int d = 0; d < l->dims; d++)
      if (at[d] + lanes->element[lane][d] != begin[d] + named[d] + (d == along ? unit : 0))
        return false;
    if ((begin[along] + named[along]) % (MATRIX_ROW_BITS / bits)) return false;
  }
  return true;
}

static bool gets_all(const MatrixPlan *p, const Layout *l, int along, int bits) {
  LaneCoords lanes;
  for (int lane = 0; lane < MATRIX_LANES; lane++) {
    layout_at(l, 0, lane, 0, lanes.element[lane]);
    layout_at(&p->rows, 0, lane, 0, lanes.row[lane]);
  }
  for (int r = 0; r < layout_size(l, LAYOUT_REG); r++)
    if (!gets_elements(p, l, along, bits, &lanes, r)) return false;
  return true;
}

/* `row`: the elements of a row. */
static bool waves_are_aligned(const Layout *l, int along, int row) {
  const Digits *waves = &l->part[LAYOUT_WAVE];
  for (int i = 0; i < waves->n; i++)
    if (waves->at[i].dim == along && waves->at[i].stride % row) return false;
  return true;
}

static bool plan_ldmatrix(const Layout *l, int bits, int along, MatrixPlan *out) {
  Digits regs = l->part[LAYOUT_REG];
  int lanes_along = dim_of_lane(l, 4);
  *out = (MatrixPlan){.rows = layout_of(l->dims, l->extent), .each = 32 / bits};
  if (bits < 8 || bits > 32 || layout_size(l, LAYOUT_LANE) != MATRIX_LANES || lanes_along < 0)
    return false;
  Digit own = out->each > 1 ? take_registers(&regs, out->each) : (Digit){along, 1, 1};
  if (!own.radix || own.stride != 1 || !stays_inside(l)) return false;
  out->transposed = lanes_along == along;
  if (out->transposed && bits != 16) return false;
  layout_push(&out->rows, LAYOUT_LANE, out->transposed ? own.dim : lanes_along, MATRIX_ROWS, 1);
  add_matrices(out, &regs);
  out->rows.part[LAYOUT_WAVE] = l->part[LAYOUT_WAVE];
  return gets_all(out, l, along, bits) && waves_are_aligned(l, along, MATRIX_ROW_BITS / bits);
}

/* ---- layouts and forms ---- */

/* By how much a register or a lane that is a power of two is away from the first; false: in more
 * than one dim. */
static bool find_step(const Layout *l, int reg, int lane, Digit *out) {
  int from[LAYOUT_DIMS], at[LAYOUT_DIMS];
  layout_at(l, 0, 0, 0, from);
  layout_at(l, reg, lane, 0, at);
  *out = (Digit){0, 2, 0};
  for (int d = 0; d < l->dims; d++) {
    if (at[d] == from[d]) continue;
    if (out->stride) return false;
    *out = (Digit){d, 2, at[d] - from[d]};
  }
  return true;
}

/* Lane by lane, where rows begin: a bit of the lane's number moves the row as the bit of the result
 * moves the element. */
static bool add_rows(const MatrixForm *f, const Layout *l, MatrixPlan *p) {
  for (const char *word = f->lane; *word; word += word[2] ? 3 : 2) {
    int by = 1 << (word[1] - '0');
    Digit step;
    if (!find_step(l, *word == 'r' ? by : 0, *word == 'l' ? by : 0, &step)) return false;
    if (step.stride) layout_push(&p->rows, LAYOUT_LANE, step.dim, 2, step.stride);
    else layout_repeat(&p->rows, LAYOUT_LANE, 2);
  }
  return true;
}

static bool gets_columns(const MatrixPlan *p, const Layout *l, int along) {
  int row = p->form->row / p->form->bits, registers = layout_size(l, LAYOUT_REG);
  for (int reg = 0; reg < registers; reg++)
    for (int lane = 0; lane < p->form->lanes; lane++) {
      MatrixSource from = matrix_source(p->form, reg % row, lane);
      int begin[LAYOUT_DIMS], at[LAYOUT_DIMS];
      layout_at(&p->rows, reg / row, from.lane, 0, begin);
      layout_at(l, reg, lane, 0, at);
      if (begin[along] % row) return false;
      begin[along] += from.element;
      for (int d = 0; d < l->dims; d++)
        if (at[d] != begin[d]) return false;
    }
  return true;
}

static bool plan_form(const MatrixForm *f, const Layout *l, int along, MatrixPlan *out) {
  Digits regs = l->part[LAYOUT_REG];
  int row = f->row / f->bits;
  *out = (MatrixPlan){.rows = layout_of(l->dims, l->extent), .count = 1, .each = row};
  out->form = f;
  out->transposed = true;
  if (layout_size(l, LAYOUT_LANE) != f->lanes || !stays_inside(l)) return false;
  for (int n = 1; n < row; n *= 2)
    if (!take_registers(&regs, 2).radix) return false;
  if (!add_rows(f, l, out)) return false;
  out->rows.part[LAYOUT_REG] = regs;
  out->rows.part[LAYOUT_WAVE] = l->part[LAYOUT_WAVE];
  return gets_columns(out, l, along) && waves_are_aligned(l, along, row);
}

bool matrix_plan(const TargetInfo *t, const Layout *l, int bits, int along, MatrixPlan *out) {
  const MatrixForm *form = form_of(t, bits);
  if (target_has(t, FEATURE_LDMATRIX)) return plan_ldmatrix(l, bits, along, out);
  return form && plan_form(form, l, along, out);
}
