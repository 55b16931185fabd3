/* matrices.c: see matrices.h. */
#include "target/matrices.h"

int matrix_dim(const MemLayout *m) {
  for (int d = m->dims - 1; d >= 0; d--)
    if (mem_vector(m, d) * m->bits >= MATRIX_ROW_BITS) return d;
  return -1;
}

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

static bool waves_are_aligned(const Layout *l, int along, int bits) {
  const Digits *waves = &l->part[LAYOUT_WAVE];
  for (int i = 0; i < waves->n; i++)
    if (waves->at[i].dim == along && waves->at[i].stride % (MATRIX_ROW_BITS / bits)) return false;
  return true;
}

bool matrix_plan(const Layout *l, int bits, int along, MatrixPlan *out) {
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
  return gets_all(out, l, along, bits) && waves_are_aligned(l, along, bits);
}
