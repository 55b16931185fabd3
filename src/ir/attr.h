/* attr.h: attributes and header rows as data: copying, comparing, rewriting their expressions. */
#ifndef WV_ATTR_H
#define WV_ATTR_H

#include "ir/ir.h"

/* Deep copies into the kernel's arena. */
Attr attr_copy(Kernel *k, const Attr *a);
Constraint constraint_copy(Kernel *k, const Constraint *c);

bool attr_equal(const Attr *a, const Attr *b);
bool constraint_equal(const Constraint *a, const Constraint *b);
bool mma_equal(const MmaChoice *a, const MmaChoice *b);
static inline bool mma_given(const MmaChoice *m) { return m->name || m->k_vec; }

/* A copy in which every expression that is evaluated is replaced by fn(expression). Names of
 * dimensions (keys, axes, symbols that are set) stay. If fn returns NULL, the result is false. */
typedef const Sym *SymFn(void *user, const Sym *s);
bool attr_rewrite(Kernel *k, Attr *a, SymFn *fn, void *user);
bool constraint_rewrite(Kernel *k, Constraint *c, SymFn *fn, void *user);
/* The same for every expression, names too. */
bool attr_rewrite_all(Kernel *k, Attr *a, SymFn *fn, void *user);
bool constraint_rewrite_all(Kernel *k, Constraint *c, SymFn *fn, void *user);

/* After a rewrite: spells a value that became a constant as the builder would, as a float for float
 * dtypes and as a number in range for the others. */
void op_fold_value(Kernel *k, Op *op);

/* Lookup of a key in a list of pairs; NULL: absent. */
const Sym *pairs_get(SymPairs pairs, const Sym *key);

#endif
