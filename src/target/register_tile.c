/* register_tile.c: see register_tile.h.
 *
 * The model is a machine with two multipliers, two load ports, and a latency of four cycles: a step
 * of a block of m rows and v vectors takes max(m*v, m + v, 8) half cycles. Blocks that reach m*v
 * run at the machine's peak; which of them do depends on the tile. A block uses at most three
 * quarters of the registers, and at most four vectors of B next to it: compilers spill when it is
 * fuller (9 x 3 of 32 registers), and one spill costs more than the larger block gains. m is a
 * power of two, so that rows can be transposed in blocks when they are packed. */
#include "target/register_tile.h"

enum { LEAST_STEP = 8, MOST_ROWS = 16, MOST_VECTORS = 4 };

typedef struct StepCost {
  int64_t cycles, loads;
} StepCost;

static int most(int a, int b) { return a > b ? a : b; }

static void add_block(StepCost *c, int64_t times, int m, int v) {
  if (m == 0 || v == 0) return;
  c->cycles += times * most(most(m * v, m + v), LEAST_STEP);
  c->loads += times * (m + v);
}

/* Cost of one step of k over the whole product. */
static StepCost cost_of(int rows, int columns, int m, int v, int lanes) {
  StepCost c = {0};
  int down = rows / m, right = columns / (v * lanes);
  int below = rows % m, beside = (columns % (v * lanes) + lanes - 1) / lanes;
  add_block(&c, (int64_t)down * right, m, v);
  add_block(&c, down, m, beside);
  add_block(&c, right, below, v);
  add_block(&c, 1, below, beside);
  return c;
}

static bool fits(const TargetInfo *t, const TileProduct *p, DotForm form) {
  const DotInfo *row = dot_info(form);
  const CpuInfo *here = cpu_named(t->name);
  unsigned types = row->types | row->from;
  return here && here->tiles >> form & 1 && types & p->a && types & p->b && row->sums & p->sum &&
         p->rows % row->grain == 0 && p->columns % row->grain == 0;
}

static DotForm form_of(const TargetInfo *t, const TileProduct *p) {
  DotForm best = DOT_tile;
  for (int i = 0; i < DOT_COUNT; i++)
    if (fits(t, p, (DotForm)i)) best = (DotForm)i;
  return best;
}

/* Registers of 16 rows: two of A, two of B, four of sums. */
static RegisterTile matrix_tile(DotForm form, const TileProduct *p) {
  enum { ROWS = 16 };
  return (RegisterTile){form, p->rows > ROWS ? 2 * ROWS : ROWS,
                        p->columns > ROWS ? 2 * ROWS : ROWS};
}

RegisterTile register_tile(const TargetInfo *t, const TileProduct *p) {
  int lanes = t->global_access * 8 / p->bits, registers = t->registers * 4 / t->global_access;
  RegisterTile best = {form_of(t, p), 1, lanes};
  if (dot_info(best.form)->grain > MOST_VECTORS) return matrix_tile(best.form, p);
  StepCost least = cost_of(p->rows, p->columns, 1, 1, lanes);
  for (int v = 1; v <= MOST_VECTORS; v++)
    for (int m = 1; m <= MOST_ROWS && m * v <= registers * 3 / 4; m *= 2) {
      StepCost c = cost_of(p->rows, p->columns, m, v, lanes);
      bool fewer = c.cycles == least.cycles && c.loads < least.loads;
      if (c.cycles > least.cycles || (c.cycles == least.cycles && !fewer)) continue;
      least = c;
      best.m = m;
      best.n = v * lanes;
    }
  return best;
}
