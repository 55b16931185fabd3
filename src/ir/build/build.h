/* build.h: the only way to make a kernel. The Python tracer, the C interface and the text parser
 * all end here, so a rule checked here holds for every front end.
 *
 * NULL operands are accepted and give NULL: a mistake is reported once, and its consequences are
 * silent. set_symbol is SSA: it opens a version of its symbol (`N_Q.2`), and every expression that
 * a later op of that scope carries mentions the version instead. */
#ifndef WV_BUILD_H
#define WV_BUILD_H

#include "ir/ir.h"

typedef struct Builder Builder;

Builder *builder_new(Context *cx, const char *name, Span at);
Kernel *builder_kernel(Builder *b); /* the kernel under construction */

bool build_constraint(Builder *b, Constraint c);
Value *build_param(Builder *b, const char *name, const Type *type, const Sym *binds, Span at);

/* Appends an op; `given` is the author's result type or NULL. NULL on a mistake. */
Op *build_op(Builder *b, OpKind kind, Span at, Value *const *args, int nargs, const Attr *attrs,
             int nattrs, const Type *given);

/* The largest (OP_max) or smallest (OP_min) element along a dimension, and its index (i32): out[0]
 * and out[1]. args: the values, optionally followed by the best so far and its index, which rank
 * first. This is not an op: it becomes reductions and elementwise ops. */
bool build_arg(Builder *b, OpKind kind, Span at, Value *const *args, int nargs, const Attr *attrs,
               int nattrs, Value **out);

/* Four words (u32) of random bits, a function of four words of a counter and two of a key: args.
 * Also composed of several ops. */
bool build_philox(Builder *b, Span at, Value *const *args, int nargs, Value **out);

/* args[0] must be true for every element that exists; otherwise the launch reports where it is not,
 * with the other values: op `report`. attrs: `label`, the message. */
bool build_assert(Builder *b, Span at, Value *const *args, int nargs, const Attr *attrs,
                  int nattrs);

/* A number as an operand next to `like`. */
typedef struct Number {
  bool is_integer;
  bool is_unsigned; /* the integer is 2**63 or more, given by its bits */
  int64_t integer;
  double real;
} Number;
Value *build_literal(Builder *b, Number n, const Value *like, Span at);

/* read or write (value NULL: read) with coordinates in the kernel's iterators. */
typedef struct Coord {
  const Sym *expr;
  Value *value; /* when expr is NULL */
} Coord;
Op *build_access(Builder *b, Value *value, Value *memory, const Coord *source, int nsource,
                 const Coord *target, int ntarget, const Attr *attrs, int nattrs, Span at);

/* A loop or conditional: ops go into its body until build_end. False on a mistake; the region is
 * opened regardless, so that begin and end pair up. */
bool build_begin(Builder *b, OpKind kind, Span at, Value *const *args, int nargs, const Attr *attrs,
                 int nattrs);
Region *build_region(Builder *b); /* the innermost open region */

/* Ends the body of an `if` that carries nothing and begins the else branch; build_end then takes as
 * many values, of the same types, and its op has the results. There is no such op: it becomes a
 * second `if` with the opposite condition, which carries what the first one yielded. */
bool build_else(Builder *b, Value *const *yields, int n, Span at);
Op *build_end(Builder *b, Value *const *yields, int n, Span at);

/* The finished, verified kernel, or NULL after errors. Frees the builder. */
Kernel *build_finish(Builder *b);
void builder_free(Builder *b);

/* Checks a mapping as its author wrote it: iterator conflicts, iterators without an extent. */
bool build_check_mapping(Context *cx, const Mapping *m, Span at);
/* Checks the mapping of an op: no entry may be missing. If a size is 1, `i // size` has become a
 * bare `i` next to another dimension's. */
bool build_check_mapping_entries(Context *cx, const Mapping *m, Span at);

#endif
