/* parts_overlap.c: whether parts of two accesses to a tile in shared memory have elements in common.
 *
 * Parts are compared along each dimension of the tile. A copy fills a slice. A fetch has a share of the
 * instructions of each wave, and what these load besides: an instruction fills several registers. */
#include "analysis/memory_uses.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/schedule/op_parts.h"

enum { MOST_EXTENT = 1024, ACCESS_BITS = 128 };

/* What an op touches along a dimension. */
typedef struct Reach {
  OpPart slice;         /* 0 of 1: all of it */
  const Op *op;         /* a fetch ... */
  const Layout *layout; /* ... : the slice is of what a wave holds */
  int dim;              /* of the layout */
  int bits;             /* of an element */
} Reach;

static int dim_of(const Op *op, const Sym *dim) {
  const Sym *dims[PART_DIMS];
  for (int i = 0, n = parts_dims(op, dims); i < n; i++)
    if (dim_base(dims[i]) == dim_base(dim)) return i;
  return -1;
}

static Reach reach_of(const Op *op, const Sym *dim) {
  Reach all = {.slice = {0, 1}};
  bool by_name = op && (parts_of_copy(op) || !op_has(op, ATTR_mapping)); /* in shared memory */
  int d = by_name ? dim_of(op, dim) : -1;
  if (d < 0 || parts_along(op, d).of == 1) return all;
  Reach r = {.slice = parts_along(op, d), .dim = d};
  if (parts_of_copy(op) || op_is_product(op)) return r; /* products read slices of their sum */
  if (op->kind != OP_read || !op->results[0].layout) return all;
  r.op = op, r.layout = op->results[0].layout;
  r.bits = dtype_memory_bits(op->results[0].type->dtype);
  return r.layout->extent[d] <= MOST_EXTENT ? r : all;
}

static bool slices_overlap(OpPart a, OpPart b) {
  return a.at * b.of < (b.at + 1) * a.of && b.at * a.of < (a.at + 1) * b.of;
}

/* ---- fetches ---- */

/* Adds what other digits than those of registers reach from the elements that are marked. */
static void spread(const Reach *r, bool *marked) {
  int extent = r->layout->extent[r->dim];
  EACH_DIGIT(r->layout, p, g)
    if (p != LAYOUT_REG && g->stride && g->dim == r->dim)
      for (int x = extent - 1; x >= 0; x--)
        for (int i = 1; marked[x] && i < g->radix && x + i * g->stride < extent; i++)
          marked[x + i * g->stride] = true;
}

/* Which elements along its dimension a fetch touches. */
static void mark(const Reach *r, bool *marked) {
  int regs = layout_size(r->layout, LAYOUT_REG), n = ACCESS_BITS / r->bits, coord[LAYOUT_DIMS];
  int extent = r->layout->extent[r->dim];
  for (int x = 0; x < extent; x++) marked[x] = false;
  for (int first = 0; first < regs; first += n)
    for (int i = first; parts_have(r->op, r->layout, first, n) && i < first + n && i < regs; i++) {
      layout_at(r->layout, i, 0, 0, coord);
      if (coord[r->dim] < extent) marked[coord[r->dim]] = true;
    }
  spread(r, marked);
}

static bool touches_slice(const Reach *r, OpPart slice) {
  bool marked[MOST_EXTENT];
  int extent = r->layout->extent[r->dim];
  mark(r, marked);
  for (int x = 0; x < extent; x++)
    if (marked[x] && x * slice.of / extent == slice.at) return true;
  return false;
}

bool parts_overlap(const Op *a, const Op *b, const Type *memory) {
  for (int i = 0; a && b && i < memory->rank; i++) {
    Reach x = reach_of(a, memory->dims[i]), y = reach_of(b, memory->dims[i]);
    if (x.slice.of == 1 || y.slice.of == 1 || (x.layout && y.layout)) continue;
    bool meet = x.layout   ? touches_slice(&x, y.slice)
                : y.layout ? touches_slice(&y, x.slice)
                           : slices_overlap(x.slice, y.slice);
    if (!meet) return false;
  }
  return true;
}
