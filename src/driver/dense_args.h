/* dense_args.h: makes tensors row-major, as a program without `view` rows requires.
 *
 * The simulator runs one program, while a launch on a device chooses among several by the strides
 * of its tensors. A tensor with other strides (a transposed view, a part of a larger tensor) is
 * therefore copied for the run, and back if the kernel writes it. Two views of the same elements
 * become two tensors. */
#ifndef WV_DENSE_ARGS_H
#define WV_DENSE_ARGS_H

#include "backend/eval/eval_tile.h"

typedef struct DenseArgs {
  EvalArg *args; /* what is passed to the program */
  const EvalArg *given;
  int n;
} DenseArgs;

/* False: a copy would be too large, which was reported. */
bool dense_args_open(Kernel *k, Arena *a, const EvalArg *given, int n, DenseArgs *out);
void dense_args_close(Kernel *k, const DenseArgs *d); /* copies back what was written */

#endif
