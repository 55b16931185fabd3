/* legalise.h: an op written with other ops, in front of it. */
#ifndef WV_LEGALISE_H
#define WV_LEGALISE_H

#include "transform/pass.h"

typedef struct Expansion {
  Kernel *k;
  Op *op;      /* what is replaced; new ops stand in front of it */
  DType dtype; /* what is computed in */
} Expansion;

/* Appends an op of this kind; its type is that of a register of the expansion's dtype for each of
 * op's, unless given. b, c may be NULL. */
Value *grow(Expansion *x, OpKind kind, Value *a, Value *b, Value *c);
Value *grow_as(Expansion *x, OpKind kind, Value *a, Value *b, DType dtype);
Value *grow_number(Expansion *x, double v, DType dtype);
Value *grow_expr(Expansion *x, const Sym *e, DType dtype); /* an expression of symbols */

/* The value of the op, or NULL: it stays as it is. */
typedef Value *ExpandFn(Expansion *x);
ExpandFn expand_softsign, expand_remf, expand_mod, expand_powf, expand_cbrt, expand_sinh,
    expand_atan2, expand_erf, expand_sigmoid, expand_f64, expand_wave_mma;

/* Of an f64, in front of the op. */
Value *f64_exp2(Expansion *x, Value *a);
Value *f64_exp(Expansion *x, Value *a);
Value *f64_log2(Expansion *x, Value *a);

/* ---- legalise_access.c ---- */

/* A load or store that is too wide, or wider than it is aligned, becomes several. */
void split_access(Kernel *k, const TargetInfo *target, Arena *scratch, Op *op);

#endif
