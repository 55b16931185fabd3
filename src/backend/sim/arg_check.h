/* arg_check.h: does an argument fit its parameter? For the evaluator and the simulator alike. */
#ifndef WV_ARG_CHECK_H
#define WV_ARG_CHECK_H

#include "backend/sim/eval_tile.h"

/* Reports E0702 and returns false where `b` (NULL: the argument is no tensor) is not of the rank
 * and elements of the parameter's type. */
bool arg_is_tensor(Kernel *k, int param, const EvalBuffer *b);

/* The same where its size along dim d is not `expected`. */
bool arg_has_size(Kernel *k, int param, const EvalBuffer *b, int d, int64_t expected);

#endif
