/* emit.h: writing programs of one lane (lower_threads) or one thread (lower_tiles).
 *
 * Both lowerings walk a kernel of tiles and append ops to a program that has none. What they share
 * is here: where expressions are computed (once, before the loops that they do not depend on), how
 * an element's offset and tests follow from its coordinates, and how a failure is reported. */
#ifndef WV_EMIT_H
#define WV_EMIT_H

#include "analysis/access/in_bounds.h"
#include "analysis/uniform.h"
#include "anchors/anchors.h"
#include "transform/pass.h"

/* An open region of the lane's program. */
typedef struct LowerScope {
  Region *region;
  Op *open;              /* its last op, whose body is being filled; NULL: it is the innermost */
  const SymFacts *facts; /* facts that hold there, including those about thread ids */
  Map exprs, wide;       /* expression -> its value there; wide: as `index` */
  struct LowerScope *outer;
} LowerScope;

/* A symbol that has a value only inside a scope: a counter, a version. */
typedef struct LowerSymbol {
  const Sym *symbol;
  LowerScope *scope;
} LowerSymbol;

typedef struct Lower {
  Kernel *k;
  PassCtx *cx;
  Arena *arena; /* scratch */
  SymCtx *sym;
  const Distribution *d;
  const AccessBounds *const *bounds; /* by op id of the tile kernel */
  const Uniformity *uniform;
  Machine machine;
  struct Divisors *divisors; /* from the facts at entry; NULL: not created yet */
  const Sym *lane, *wave;    /* of this thread, over $T0, $T1, $T2 */
  const Sym *elected;        /* true in one thread of the workgroup */
  Value **value;             /* by value id of the tile kernel: what a lane holds; NULL: nothing */
  LowerScope *scope;         /* innermost: ops are appended to its region */
  Vec(LowerSymbol) symbols;
  const Region *tiles;        /* the body being lowered */
  Standing standing;          /* of the op being lowered */
  Span at;                    /* its source location */
  SetSymbols hidden;          /* symbols whose meaning at entry is hidden by some region */
  const char *refused;        /* why the op being lowered cannot be; NULL: it can */
  Vec(const Value *) copying; /* allocations that asynchronous copies in flight write to */
  Vec(const Value *) flying;  /* results of products in flight, oldest first */
  struct Guards *guards;      /* of selects (lower_guard.c) */
  int group;                  /* waves that execute a matrix instruction together */
  int pending;                /* how many of them may stay in flight at a synchronisation */
} Lower;

/* ---- scopes and the kernel (emit_scope.c) ----------------------------------------------------- */

/* Reports E0601 at the op: something that cannot be lowered yet. Always false. */
bool emit_refuse(Lower *l, const Op *op, const char *what);

/* Opens the body of a loop or conditional, with the facts that hold there; ops are appended to it
 * until it is closed. */
LowerScope *emit_open_scope(Lower *l, Region *region, const SymFacts *facts);
void emit_close_scope(Lower *l);
void emit_define(Lower *l, const Sym *symbol); /* it has a value until the scope is closed */

/* Code emitted in between runs if the condition holds; consecutive code under the same condition
 * shares one region. */
void emit_open_if(Lower *l, const Sym *condition);
void emit_close_if(Lower *l);
void emit_open_if_true(Lower *l, Value *condition); /* the same with a truth value */

/* The outermost scope, with the kernel's arguments; the header of the program. */
void emit_open_kernel(Lower *l);
void emit_replace_header(Lower *l, Constraint launch);

/* ---- ops and expressions (emit.c) ------------------------------------------------------------ */

/* Appends an op; returns its result, or NULL if it has none. */
Value *emit_op(Lower *l, OpKind kind, Value *const *args, int nargs, const Attr *attrs, int nattrs,
               const Type *type);

/* An integer expression of symbols, as `dtype` (i32 or index). Hoisted out of loops whose symbols
 * it does not mention, unless it may be undefined there. */
Value *emit_expr(Lower *l, const Sym *e, DType dtype);

/* The same with operands in registers: $APPLY_EXPR_ARG_i is args[i]. Not hoisted. */
Value *emit_expr_of(Lower *l, const Sym *e, DType dtype, Value *const *args, int nargs);
const Sym *emit_arg(Lower *l, int i); /* $APPLY_EXPR_ARG_i */

/* An address: terms that are invariant in inner loops are summed before them, and terms that all
 * lanes share are summed separately from those of the lane. */
Value *emit_address(Lower *l, const Sym *e, DType dtype);

/* The address e, which is the address `from` plus `step`. */
Value *emit_step(Lower *l, Value *from, const Sym *step, const Sym *e, DType dtype);

/* e, or 0 if e is NULL after an overflow: the op is then refused once it has been lowered. */
const Sym *emit_sound(Lower *l, const Sym *e);

/* An expression with the meaning its symbols have at entry, for use where a region may hide them:
 * in text, `N` is the version in force. */
const Sym *emit_at_entry(Lower *l, const Sym *e);
const Sym *emit_param_symbol(Lower *l, int param, const char *what, int dim); /* $SIZE_a_0 */

/* A condition; NULL if it always holds. */
Value *emit_test(Lower *l, const Sym *condition);

/* The same for many conditions that differ by a constant, and e <= most. */
Value *emit_bound(Lower *l, const Sym *condition);
Value *emit_below(Lower *l, const Sym *e, int64_t most);
const Sym *emit_below_zero(Lower *l, const Sym *condition); /* e of `e <= 0`; NULL: it is not such a
                                                        * test */

Value *emit_number(Lower *l, DType dtype, double v);
Value *emit_splat(Lower *l, Value *scalar, int n);
Value *emit_pick(Lower *l, Value *v, const int *regs, int n); /* v itself if all of it is picked */
Value *emit_range(Lower *l, Value *v, int first, int n);      /* registers from `first` on */
Value *emit_join(Lower *l, Value *const *parts, int n);
Value *emit_binary(Lower *l, OpKind kind, Value *a, Value *b);
/* Both of two truth values, or of vectors of them; NULL: always true. */
Value *emit_both(Lower *l, Value *a, Value *b);
Value *emit_select(Lower *l, Value *condition, Value *yes, Value *no);
Value *emit_cast(Lower *l, Value *v, DType dtype); /* v itself if it already has that dtype */
Value *emit_shuffle(Lower *l, Value *v, int flip); /* from the lane whose number is ours xor flip */
Value *emit_shuffle_idx(Lower *l, Value *v, const Sym *lane);

const SymFacts *emit_facts(const Lower *l); /* at the point where ops are being appended */

/* e simplified (e itself on overflow); the same, unless e as written takes fewer operations. */
const Sym *emit_simplified(Lower *l, const Sym *e);
const Sym *emit_cheaper(Lower *l, const Sym *e);

/* a and b, vecs of the same length, combined by the user-defined function (emit_combine.c). */
Value *emit_combine(Lower *l, const Op *op, Value *a, Value *b);

/* The neutral element of a sum, maximum or minimum. */
Value *emit_neutral(Lower *l, OpKind kind, DType t);

/* ---- memory of the workgroup (emit_memory.c) ------------------------------------------------- */

/* The layout of an allocation; false: it is not an allocation, or its layout is unknown. */
bool memory_layout(const Value *memory, MemLayout *out);

/* The slot of a ring that `op` names: its layout, and the number of elements before it. */
bool memory_slot_layout(Lower *l, const Value *memory, const Op *op, MemLayout *out,
                        const Sym **before);

/* In elements, before the swizzle (mem_linear_offset). */
const Sym *memory_linear_offset(Lower *l, const MemLayout *m, const Sym *const *coords);

/* In elements, for coordinates relative to the tile, in the slot of a ring that `op` names. */
const Sym *memory_swizzled(Lower *l, const MemLayout *m, const Sym *plain); /* an involution */
const Sym *memory_offset(Lower *l, const MemLayout *m, const Value *memory, const Op *op,
                         const Sym *const *coords);

/* Prepends the slot that `op` names to the coordinates if the memory is a ring. */
void memory_add_slot(Lower *l, const Value *memory, const Op *op, const Sym **coords);

/* ---- one element of an access, over the coordinates $x of its tile (emit_element.c) ---------- */

typedef struct ElementTests {
  const Sym *at[MAX_BOUNDS]; /* all must hold */
  int n;
} ElementTests;

/* A test over $x, $y and $n, over the $x alone; NULL: a size is unknown. */
const Sym *element_test(Lower *l, const AccessBounds *b, const Sym *test);
/* Those of the mask. `elsewhere`: of single elements that may be outside the tile, so that what was
 * proved for the tile is tested, too. False after refusing. */
bool element_tests(Lower *l, const AccessBounds *b, bool elsewhere, ElementTests *out);

enum { ELEMENT_VALUES = 5 }; /* values that coordinates take from registers */

typedef struct ElementValues {
  Value *value[ELEMENT_VALUES];
  SymBinding name[ELEMENT_VALUES]; /* of the value in coordinates and tests: $APPLY_EXPR_ARG_i */
  int n;
  Value *near; /* truth values, one per element: the values are small enough for coordinates not to
                * overflow; NULL: always */
} ElementValues;

/* Adds a value, which is replaced by 0 where it is not near. False after refusing. */
bool element_take(Lower *l, const AccessBounds *b, const Sym *name, Value *v, ElementValues *to);
/* The element's own coordinate along a dim; NULL: the tile has no such dim. */
const Sym *element_own_coord(Lower *l, const AccessBounds *b, const Sym *dim);
/* The coordinate along a dim of its type at which dynamic value i is looked up; NULL: neither the
 * mapping nor the tile has one. False: it cannot be expressed. */
bool element_lookup(Lower *l, const AccessBounds *b, int i, const Sym *dim, const Sym **out);

/* The offset of an element, in elements, over the $x; NULL: there is no expression for it. */
const Sym *element_offset(Lower *l, const AccessBounds *b);

/* An element that may have failed: its table in memory, `imm` elements after `offset`. */
typedef struct Reported {
  Value *memory, *offset;
  int64_t imm;
  Value *failed; /* NULL: it has failed */
} Reported;
void emit_report(Lower *l, const Reported *r, Value *const *words, int n);

#endif
