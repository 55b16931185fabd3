/* api_data.c: the parts of wave.h that tools need to call a kernel: header rows, extents, elements
 * in memory. */
#include "analysis/analysis.h"
#include "driver/api/api.h"
#include "ir/dtype.h"

bool wv_kernel_row(const wv_kernel *k, int i, const char **kind, wv_expr *dim, wv_expr *size) {
  API_PLAIN;
  if (!api_is(k, HANDLE_KERNEL) || i < 0 || i >= k->k->constraints.n) return false;
  const Constraint *c = &k->k->constraints.at[i];
  *kind = constraint_name[c->kind];
  api_row(c, dim, size);
  return true;
}

static wv_launch_shape shape_of(const Sym *const *grid, const Sym *const *threads, int shared) {
  wv_launch_shape out = {.shared = shared};
  for (int i = 0; i < 3; i++) {
    out.grid[i] = api_expr(grid[i]);
    out.threads[i] = api_expr(threads[i]);
  }
  return out;
}

wv_launch_shape wv_kernel_launch_shape(wv_kernel *k) {
  API_KERNEL_USES(k, (wv_launch_shape){0});
  const LaunchSpec *launch = kernel_launch(k->k);
  if (launch) return shape_of(launch->grid, launch->block, launch->shared);
  Arena *scratch = arena_new();
  ir_renumber(k->k);
  const Distribution *d = facts_of(k->k, scratch, FACT_distribute).distribute;
  wv_launch_shape out = shape_of(d->grid, d->threads, 0);
  arena_free(scratch);
  return out;
}

wv_expr wv_type_extent(wv_type handle, int i) {
  API_PLAIN;
  const Type *t = api_type(handle);
  return t && i >= 0 && i < t->rank && t->layout ? api_expr(t->layout[i]) : NULL;
}

size_t wv_data_bytes(const char *dtype, int64_t elements) {
  API_PLAIN;
  DType t;
  return dtype && elements >= 0 && dtype_parse(dtype, &t) ? dtype_bytes(t, elements) : 0;
}

double wv_data_get(const char *dtype, const void *data, int64_t element) {
  API_PLAIN;
  DType t;
  if (!dtype || !data || !dtype_parse(dtype, &t)) return 0;
  uint64_t bits = dtype_load(t, data, element);
  return dtype_is_float(t) ? dtype_decode(t, bits)
                           : dtype_int_value(t, dtype_wrap(t, (int64_t)bits));
}

void wv_data_set(const char *dtype, void *data, int64_t element, double v) {
  API_PLAIN;
  DType t;
  if (!dtype || !data || !dtype_parse(dtype, &t)) return;
  bool is_float = dtype_is_float(t);
  dtype_store(t, data, element,
              is_float ? dtype_encode(t, v) : dtype_int_bits(t, dtype_truncate(t, v)));
}
