/* choose_cpu.c: see choose_cpu.h.
 *
 * Panels of a tile along k are long, since a tile reads and writes the sums of its blocks once; and
 * a tile is a few blocks of registers (register_tile.h) wide, since it packs its rows of A for as many
 * columns. The numbers were measured (bench/NOTES.md). Between half and twice of them times differ
 * by a few percent.
 *
 * With few rows, B is read once, in place: rows that are contiguous along k as far as possible, others
 * for 1024 columns, since hardware prefetchers follow a row to the end of its page of 4 KB. */
#include "transform/choose/choose_cpu.h"

#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/reductions.h"
#include "target/register_tile.h"

enum { FEW_ROWS = 8 };

static const CpuTiles vectors = {128, 192, 256}, /* registers hold rows of a block */
    matrices = {64, 128, 256},                   /* registers hold blocks of 16 rows */
    few_rows = {FEW_ROWS, 64, 1024},             /* one operand is read in place (tiles_skinny.c) */
    few_across = {FEW_ROWS, 1024, 256};          /* the same, contiguous along its columns */

static const Op *only_product(const Kernel *k) {
  const Op *found = NULL;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (!op_is_product(op)) continue;
    if (found) return NULL;
    found = op;
  }
  return found;
}

static bool has_few(const Distribution *d, const Sym *dim) {
  const Sym *size = distribute_fixed(d, dim_base(dim));
  int64_t n;
  size = size ? kernel_expected(d->k, size) : NULL;
  return size && sym_is_int(size, &n) && n <= FEW_ROWS;
}

/* Whether elements that are adjacent along `dim` are adjacent in the memory that v is read from. */
static bool is_contiguous(const Value *v, const Sym *dim) {
  MemAccess a;
  while (v->def && (v->def->kind == OP_cast || v->def->kind == OP_permute)) v = v->def->args[0];
  if (!v->def || v->def->kind != OP_read || !access_of(v->def, &a) || a.memory->type->rank == 0)
    return false;
  const Sym *last = a.memory->type->dims[a.memory->type->rank - 1];
  if (!a.mapping) return dim_base(last) == dim_base(dim);
  return access_pair(a.coords, last) == access_pair(a.iterated, dim);
}

CpuTiles choose_cpu_tiles(const Distribution *d, const TargetInfo *t) {
  const Op *op = cpu_named(t->name) ? only_product(d->k) : NULL;
  Product p;
  if (!op || product_of(d->k, op, &p)) return (CpuTiles){0};
  if (has_few(d, p.roles.m)) return is_contiguous(p.rhs, p.roles.n) ? few_across : few_rows;
  TileProduct wanted = {.a = (unsigned)dtype_mma(p.lhs->type->dtype),
                        .b = (unsigned)dtype_mma(p.rhs->type->dtype),
                        .sum = (unsigned)dtype_mma(p.acc->type->dtype),
                        .bits = dtype_info[p.acc->type->dtype].bits,
                        .rows = matrices.m,
                        .columns = matrices.n};
  bool matrix = dot_info(register_tile(t, &wanted).form)->grain > 2;
  return matrix ? matrices : vectors;
}
