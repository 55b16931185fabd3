/* dense_args.c: copies tensors that are not row-major. */
#include "driver/dense_args.h"

#include <string.h>

#include "ir/dtype.h"
#include "ir/ops/access.h"

static bool is_dense(const EvalBuffer *b) {
  int64_t stride = 1;
  bool dense = true;
  for (int d = b->rank - 1; d >= 0; d--) {
    if (b->shape[d] == 0) return true;
    dense &= b->shape[d] == 1 || b->strides[d] == stride;
    stride *= b->shape[d];
  }
  return dense;
}

/* The next coordinates; false after the last. */
static bool step(const EvalBuffer *b, int64_t *index) {
  for (int d = b->rank - 1; d >= 0; d--) {
    if (++index[d] < b->shape[d]) return true;
    index[d] = 0;
  }
  return false;
}

static char *element(const EvalBuffer *b, const int64_t *index, size_t bytes) {
  int64_t offset = 0;
  for (int d = 0; d < b->rank; d++) offset += index[d] * b->strides[d];
  return (char *)b->data + offset * (int64_t)bytes;
}

static void copy_elements(const EvalBuffer *to, const EvalBuffer *from) {
  int64_t index[EVAL_MAX_RANK] = {0};
  size_t bytes = dtype_bytes(from->dtype, 1);
  do memcpy(element(to, index, bytes), element(from, index, bytes), bytes);
  while (step(from, index));
}

static bool is_copied(const Kernel *k, const EvalArg *given, int i) {
  const EvalBuffer *b = given[i].buffer;
  return b && i < kernel_given(k) && dtype_info[b->dtype].bits >= 8 && !is_dense(b) &&
         !memory_is_view(k, k->body->args[i]);
}

bool dense_args_open(Kernel *k, Arena *a, const EvalArg *given, int n, DenseArgs *out) {
  *out = (DenseArgs){arena_copy(a, given, sizeof *given * (size_t)n), given, n};
  for (int i = 0; i < n; i++) {
    if (!is_copied(k, given, i)) continue;
    EvalBuffer *b = arena_copy(a, given[i].buffer, sizeof *b);
    if (!log_allocate(a, b))
      return diag_fail(&k->cx->diags, DIAG_E0702, k->params.at[i].at,
                       "argument `%s` is not dense and has more than %d elements, too many to copy",
                       k->params.at[i].name, LOG_MOST);
    copy_elements(b, given[i].buffer);
    out->args[i].buffer = b;
  }
  return true;
}

void dense_args_close(Kernel *k, const DenseArgs *d) {
  for (int i = 0; i < d->n; i++)
    if (d->args[i].buffer != d->given[i].buffer && memory_is_written(k, k->body->args[i]))
      copy_elements(d->given[i].buffer, d->args[i].buffer);
}
