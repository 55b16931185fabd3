/* attr.h: attributes and header rows as data: copying, comparing, rewriting their expressions. */
#ifndef WV_ATTR_H
#define WV_ATTR_H

#include "ir/ir.h"

/* ---- header rows as lists of clauses (constraints.def) ---- */

typedef enum ClauseKind {
  CLAUSE_DIM,
  CLAUSE_EXPR,
  CLAUSE_INT,
  CLAUSE_FLAG,
  CLAUSE_THREE,
  CLAUSE_MMA,
  CLAUSE_PAIRS,
  CLAUSE_DIMS,
  CLAUSE_COUNT,
  CLAUSE_WORD,
  CLAUSE_PLACE,
  CLAUSE_OPS,
  CLAUSE_ROLES
} ClauseKind;

typedef struct Clause {
  const char *word;
  ClauseKind kind;
  size_t field; /* offset in Constraint */
  bool must;
} Clause;

typedef struct Clauses {
  const Clause *at;
  int n;
} Clauses;

extern const Clauses constraint_clauses[CONSTRAINT_COUNT];

/* The field that a clause sets. */
static inline void *clause_field(const Constraint *c, const Clause *cl) {
  return (char *)c + cl->field;
}

#define EACH_CLAUSE(cl, row_kind)                                                                  \
  for (const Clause *cl = constraint_clauses[row_kind].at,                                         \
                    *end_##cl = cl + constraint_clauses[row_kind].n;                               \
       cl < end_##cl; cl++)

/* ---- attributes and rows ---- */

/* A list of numbers. */
Attr attr_ints(Kernel *k, AttrKey key, const int *from, int n);

/* Deep copies into the kernel's arena. */
Attr attr_copy(Kernel *k, const Attr *a);
Constraint constraint_copy(Kernel *k, const Constraint *c);
Constraint constraint_empty(ConstraintKind kind, Span at); /* no clause is given */

bool attr_equal(const Attr *a, const Attr *b);
bool constraint_equal(const Constraint *a, const Constraint *b);
static inline bool mma_given(const MmaChoice *m) { return m->name || m->k_vec; }

/* A copy in which every expression that is evaluated is replaced by fn(expression). Names of
 * dimensions (keys, axes, symbols that are set) stay. If fn returns NULL, the result is false. */
typedef const Sym *SymFn(void *user, const Sym *s);
bool attr_rewrite(Kernel *k, Attr *a, SymFn *fn, void *user);
bool constraint_rewrite(Kernel *k, Constraint *c, SymFn *fn, void *user);
/* The same for every expression, names too. */
bool attr_rewrite_all(Kernel *k, Attr *a, SymFn *fn, void *user);
bool constraint_rewrite_all(Kernel *k, Constraint *c, SymFn *fn, void *user);

/* Whether the test holds for an expression in the attributes of an op, in a row, or in any of the kernel; with `names`
 * also for one that is a name. */
typedef bool SymTest(const void *user, const Sym *s);
typedef struct SymSearch {
  SymTest *test;
  const void *user;
  bool names;
} SymSearch;
bool op_has_sym(Kernel *k, const Op *op, SymSearch search);
bool constraint_has_sym(Kernel *k, const Constraint *c, SymSearch search);
bool kernel_has_sym(Kernel *k, SymSearch search);

/* After a rewrite: spells a value that became a constant as the builder would, as a float for float
 * dtypes and as a number in range for the others. */
void op_fold_value(Kernel *k, Op *op);

/* Lookup of a key in a list of pairs; NULL: absent. */
const Sym *pairs_get(SymPairs pairs, const Sym *key);

#endif
