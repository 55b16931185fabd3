/* text.h: what the printer and the parser of *.wave agree on. Private to src/ir. */
#ifndef WV_TEXT_H
#define WV_TEXT_H

#include "ir/ir.h"

typedef enum ClauseKind {
  CLAUSE_DIM,
  CLAUSE_EXPR,
  CLAUSE_INT,
  CLAUSE_FLAG,
  CLAUSE_THREE,
  CLAUSE_MMA,
  CLAUSE_PAIRS
} ClauseKind;

typedef struct Clause {
  ConstraintKind row;
  const char *word;
  ClauseKind kind;
  size_t field; /* offset in Constraint */
  bool must;
} Clause;

extern const Clause clauses[]; /* in the order of constraints.def */
extern const int nclauses;

/* The field that a clause sets. */
static inline void *clause_field(Constraint *c, const Clause *cl) { return (char *)c + cl->field; }

/* An attribute that is written before the braces: a region's in its first line, otherwise the
 * lead. */
bool attr_is_in_head(OpKind kind, AttrKey key);

/* Names of values: letters, digits and `_ $ .`, not beginning with a digit unless all digits. */
bool is_name_char(char c);

/* A float that reads back as the same bits and cannot be mistaken for an integer. */
void float_print(StrBuf *out, double v);
/* NaN with this sign and payload; payload 0: the usual quiet one. */
double float_nan(bool negative, uint64_t payload);

#endif
