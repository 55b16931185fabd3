/* scalar.h: what the elementwise ops compute, on one element. Both executors use it: results are
 * double or int64_t, before they are rounded or wrapped to the dtype. */
#ifndef WV_SCALAR_H
#define WV_SCALAR_H

#include "ir/ir.h"

typedef double FloatFn1(double);
typedef double FloatFn2(double, double);
typedef bool FloatTest(double);
typedef int64_t IntFn1(int64_t);
typedef int64_t IntFn2(int64_t, int64_t);

/* NULL: not defined for the class. */
typedef struct ScalarFn {
  FloatFn2 *f2;
  IntFn2 *i2, *u2; /* u2: for u64, where it differs */
  FloatFn1 *f1;
  IntFn1 *i1;
  FloatTest *test;
  bool divides; /* integers: refuses a zero divisor */
} ScalarFn;

extern const ScalarFn scalar_fn[OP_COUNT];

IntFn2 *scalar_ints(OpKind kind, DType t);       /* of two elements of that type */
bool scalar_less(DType t, int64_t a, int64_t b); /* a < b */

/* a / (1 + |a| / cap); `op` has the cap, unless `cap` points to the value of its expression. */
double scalar_softsign_cap(const Op *op, const int64_t *cap);
double scalar_softsign(double a, double cap);

/* Every comparison is ordered: false if an operand is NaN, even for !=. */
bool scalar_holds(OpKind comparison, bool less, bool equal, bool greater);

#endif
