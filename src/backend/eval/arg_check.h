/* arg_check.h: does an argument fit its parameter? Shared by the evaluator and the simulator. */
#ifndef WV_ARG_CHECK_H
#define WV_ARG_CHECK_H

#include "backend/eval/eval_tile.h"

/* Reports E0702 and returns false if `b` (NULL: the argument is not a tensor) does not have the
 * rank and element type of the parameter. */
bool arg_is_tensor(Kernel *k, int param, const EvalBuffer *b);

/* The same if its size along dim d is not `expected`. */
bool arg_has_size(Kernel *k, int param, const EvalBuffer *b, int d, int64_t expected);

/* Reports that no size is right along dim d: K/32 is not a whole number. Always false. */
bool arg_size_is_broken(Kernel *k, int param, const EvalBuffer *b, int d);

/* Reports E0702 and returns false if the argument is an integer that its type does not have. */
bool arg_is_value(Kernel *k, int param, int64_t v);

/* Reports E0702 and returns false if the argument gives a non-negative symbol the negative value
 * `v`. */
bool arg_fits_symbol(Kernel *k, int param, int64_t v);

#endif
