/* dense_args.h: tensors as a program without `view` rows takes them, row after row.
 *
 * The simulator runs one program, while a launch on a device chooses among several by how its
 * tensors lie. One that lies otherwise (a transposed view, a part of a larger tensor) is therefore
 * copied for the run, and back if the kernel writes it. Two views of the same elements become two
 * tensors. */
#ifndef WV_DENSE_ARGS_H
#define WV_DENSE_ARGS_H

#include "backend/sim/eval_tile.h"

typedef struct DenseArgs {
  EvalArg *args; /* what the program is given */
  const EvalArg *given;
  int n;
} DenseArgs;

/* False: a copy would be too large, which was reported. */
bool dense_args_open(Kernel *k, Arena *a, const EvalArg *given, int n, DenseArgs *out);
void dense_args_close(Kernel *k, const DenseArgs *d); /* what was written goes back */

#endif
