/* tensor_rows.c: see tensor_rows.h. */
#include "analysis/tensor_rows.h"

#include "ir/dtype.h"

bool tensor_rows_cross(const Distribution *d, const Type *t, int bytes) {
  int64_t size;
  if (t->kind != TYPE_mem || t->rank < 2) return false;
  const Sym *last = kernel_expected(d->k, distribute_fixed(d, t->dims[t->rank - 1]));
  return last && sym_is_int(last, &size) && size * dtype_memory_bits(t->dtype) % (8 * bytes);
}
