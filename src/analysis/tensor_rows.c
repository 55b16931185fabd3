/* tensor_rows.c: see tensor_rows.h. */
#include "analysis/tensor_rows.h"

#include "ir/dtype.h"

enum { PIECE = 16 };

bool tensor_rows_cross(const Distribution *d, const Type *t) {
  int64_t size;
  if (t->kind != TYPE_mem || t->rank < 2) return false;
  const Sym *last = kernel_expected(d->k, distribute_fixed(d, t->dims[t->rank - 1]));
  if (!last || !sym_is_int(last, &size)) return false;
  int64_t bits = size * dtype_memory_bits(t->dtype);
  return bits % (8 * TENSOR_LINE) && bits % (8 * PIECE) == 0;
}
