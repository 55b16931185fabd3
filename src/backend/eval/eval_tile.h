/* eval_tile.h: defines the meaning of a kernel. Runs TILE level IR on host buffers, workgroup by
 * workgroup, whole tiles at a time, in the arithmetic of the dtypes. It has no lanes: kernels whose
 * result depends on which thread holds what are refused with a diagnostic. */
#ifndef WV_EVAL_TILE_H
#define WV_EVAL_TILE_H

#include "ir/ir.h"

enum { EVAL_MAX_RANK = 8 };

typedef struct EvalBuffer {
  void *data;
  DType dtype;
  int rank;
  int64_t shape[EVAL_MAX_RANK], strides[EVAL_MAX_RANK]; /* in elements */
} EvalBuffer;

typedef struct EvalArg {
  const EvalBuffer *buffer; /* memory parameters */
  double number;            /* float scalars */
  int64_t integer;          /* other scalars */
} EvalArg;

typedef struct EvalOptions {
  void (*log)(void *user, const char *label, const EvalBuffer *value); /* may be NULL */
  bool (*interrupted)(void *user); /* called now and then; true ends the run; may be NULL */
  void *user;
  bool check_masks; /* report where a recorded mask differs from which elements are accessed */
} EvalOptions;

/* The tensor of a debug log: sets row-major strides for this dtype and shape, and allocates zeros
 * in `a`. False: it would have more than LOG_MOST elements. */
enum { LOG_MOST = 1 << 28 };
bool log_allocate(Arena *a, EvalBuffer *b);
bool log_is_zero(const EvalBuffer *b); /* still as it was allocated */
void log_fill(EvalBuffer *b);          /* with what an undefined workspace contains */

/* False after reporting to the kernel's context; buffers may then be partly written. */
bool eval_tile(Kernel *k, const EvalArg *args, int nargs, const EvalOptions *o);

#endif
