/* legalise.h: expands an op into other ops, inserted before it. */
#ifndef WV_LEGALISE_H
#define WV_LEGALISE_H

#include "transform/pass.h"

typedef struct Expansion {
  Kernel *k;
  Op *op;      /* the op being replaced; new ops are inserted before it */
  DType dtype; /* the type of the computation */
  const TargetInfo *target;
} Expansion;

/* Appends an op of this kind; its type has the expansion's dtype in each of op's registers, unless
 * given. b, c may be NULL. */
Value *legalise_grow(Expansion *x, OpKind kind, Value *a, Value *b, Value *c);
Value *grow_as(Expansion *x, OpKind kind, Value *a, Value *b, DType dtype);
Value *grow_number(Expansion *x, double v, DType dtype);
Value *grow_expr(Expansion *x, const Sym *e, DType dtype); /* an expression of symbols */

/* The value that replaces the op, or NULL: it stays unchanged. */
typedef Value *ExpandFn(Expansion *x);
ExpandFn expand_softsign, expand_div, expand_remf, expand_mod, expand_powf, expand_cbrt,
    expand_sinh, expand_atan2, expand_erf, expand_sigmoid, expand_f64, expand_wave_mma;

/* For f64, before the op. */
Value *f64_exp2(Expansion *x, Value *a);
Value *f64_exp(Expansion *x, Value *a);
Value *f64_log2(Expansion *x, Value *a);

/* ---- legalise_steps.c ---- */

ExpandFn legalise_steps; /* of wave_mma */

/* ---- legalise_access.c ---- */

/* Splits a load or store that is too wide, or wider than its alignment. */
void legalise_split_access(Kernel *k, const TargetInfo *target, Arena *scratch, Op *op);

#endif
