/* sym.h: exact symbolic integers.
 *
 * Expressions are immutable and hash-consed in a SymCtx: equal expressions are the same pointer, so
 * equality is ==. Constructors canonicalise (sums are collected, constants folded, comparisons
 * normalised), so `sym_add(a, b) == sym_add(b, a)`. Coefficients are rationals: `BLOCK_M / 2` stays
 * exact until a floor or ceil requires an integer.
 *
 * Nothing here guesses. A simplification is proved by rule from the facts, or decided by exhaustive
 * evaluation over thread ids, or not made. NULL in gives NULL out; a constructor that overflows 64
 * bits or divides by zero returns NULL and leaves the reason in sym_error(). */
#ifndef WV_SYM_H
#define WV_SYM_H

#include "base/map.h"
#include "base/strbuf.h"

typedef struct Sym Sym;
typedef struct SymCtx SymCtx;

typedef enum SymKind {
#define SYM(name, spelling, doc) SYM_##name,
#include "sym/sym.def"
  SYM_COUNT
} SymKind;

/* ---- context ------------------------------------------------------------------------------- */

SymCtx *sym_ctx_new(void);
void sym_ctx_free(SymCtx *cx);
const Sym *sym_copy(SymCtx *to, const Sym *s); /* into another context */
/* The same for many expressions: what they share is copied once. */
typedef struct SymCopies {
  SymCtx *to;
  Arena *arena; /* of `done` */
  Map done;     /* original -> copy */
} SymCopies;
const Sym *sym_copy_with(SymCopies *c, const Sym *s);
uint64_t sym_hash(const Sym *s); /* the same in every context */
void sym_ctx_owned(SymCtx *cx);  /* as arena_owned */

/* Why the last constructor, parse or substitution returned NULL ("" if none did); reading it
 * through sym_take_error also clears it. */
typedef enum SymError { SYM_FINE, SYM_INVALID, SYM_OVERFLOW, SYM_ZERO_DIVISION } SymError;
const char *sym_error(const SymCtx *cx);
SymError sym_error_kind(const SymCtx *cx);
const char *sym_take_error(SymCtx *cx);
const Sym *
sym_too_deep(SymCtx *cx);    /* returns NULL with the error that the expression is nested too
                              * deeply */
int sym_depth(const Sym *s); /* of the tree */

/* ---- building ------------------------------------------------------------------------------ */

const Sym *sym_int(SymCtx *cx, int64_t v);
const Sym *sym_rational(SymCtx *cx, int64_t num, int64_t den);
const Sym *sym_bool(SymCtx *cx, bool v);

/* Symbols are identified by name and assumption: `M` that may be negative and `M` that may not
 * are different symbols. All symbols are integers. */
const Sym *sym_symbol(SymCtx *cx, const char *name, bool nonneg);
const Sym *sym_numbered(SymCtx *cx, const char *prefix, int i, bool nonneg); /* `$x` and 2: $x2 */

const Sym *sym_add(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_sum(SymCtx *cx, const Sym *const *terms, int n);       /* 0 for none */
const Sym *sym_product(SymCtx *cx, const Sym *const *factors, int n); /* 1 for none */
const Sym *sym_sub(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_neg(SymCtx *cx, const Sym *a);
const Sym *sym_mul(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_div(SymCtx *cx, const Sym *a, const Sym *b); /* exact: 7 / 2 is the rational 7/2 */
const Sym *sym_pow(SymCtx *cx, const Sym *base,
                   int64_t exponent); /* negative: of a symbol's inverse */
const Sym *sym_floor(SymCtx *cx, const Sym *a);
const Sym *sym_ceil(SymCtx *cx, const Sym *a);
const Sym *sym_floordiv(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_ceildiv(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_mod(SymCtx *cx, const Sym *a, const Sym *b); /* a - b*floor(a/b): sign of b */
const Sym *sym_min(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_max(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_xor(SymCtx *cx, const Sym *a, const Sym *b); /* bitwise, two's complement */
const Sym *sym_select(SymCtx *cx, const Sym *cond, const Sym *yes, const Sym *no);
/* n / 2 pairs (value, condition): the value of the first condition that holds. NULL with an error
 * unless it is proved that one of them does. */
const Sym *sym_piecewise(SymCtx *cx, const Sym *const *parts, int n);
const Sym *sym_eq(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_ne(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_lt(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_le(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_gt(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_ge(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_and(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_or(SymCtx *cx, const Sym *a, const Sym *b);
const Sym *sym_not(SymCtx *cx, const Sym *a);

/* ---- looking ------------------------------------------------------------------------------- */

SymKind sym_kind(const Sym *s);
uint32_t sym_size(const Sym *s);           /* nodes of the tree; sym_simplify never increases it */
bool sym_is_bool(const Sym *s);            /* comparison, and/or/not, true, false */
bool sym_is_integer(const Sym *s);         /* integer for every integer value of its symbols */
bool sym_is_int(const Sym *s, int64_t *v); /* a constant integer */
bool sym_is_rational(const Sym *s, int64_t *num, int64_t *den); /* a constant */
const char *sym_name(const Sym *s);                             /* of a symbol; NULL otherwise */
bool sym_same_name(const Sym *a, const Sym *b); /* one variable: it may be non-negative in one */
bool sym_is_nonneg_symbol(const Sym *s);

/* Operands in canonical order. A sum's operands are its terms (coefficient included), a product's
 * are its coefficient (when not 1) and factors, a power's are base and exponent. */
int sym_nargs(const Sym *s);
const Sym *sym_arg(SymCtx *cx, const Sym *s, int i);

/* Rebuilds an expression of this kind from operands: sym_build(kind(s), args(s)) == s. */
const Sym *sym_build(SymCtx *cx, SymKind kind, const Sym *const *args, int n);

/* s with these operands instead of its own: s itself if they are the same. */
const Sym *sym_with_args(SymCtx *cx, const Sym *s, const Sym *const *args);

bool sym_contains(const Sym *s, const Sym *symbol);

/* True when a - b is the integer *by. Builds no expressions. */
bool sym_differ_by(const Sym *a, const Sym *b, int64_t *by);

/* The distinct free symbols in order of first appearance. Returns how many there are; writes at
 * most `cap`. */
int sym_free_symbols(const Sym *s, const Sym **out, int cap);

/* All of them, in `a`; none if s is NULL. */
typedef struct FreeSymbols {
  const Sym **at;
  int n;
} FreeSymbols;
FreeSymbols sym_symbols(Arena *a, const Sym *s);

/* If s is `symbol * rational` (a scaled dimension such as K/32), its symbol and factor. A bare
 * symbol has factor 1. */
bool sym_scaled_symbol(const Sym *s, const Sym **symbol, int64_t *num, int64_t *den);

/* ---- substitution -------------------------------------------------------------------------- */

typedef struct SymBinding {
  const Sym *from, *to; /* from: a symbol */
} SymBinding;

/* Applies all bindings simultaneously. */
const Sym *sym_subst(SymCtx *cx, const Sym *s, const SymBinding *bindings, int n);

/* Resolves values that mention other bound symbols, in place: {K: 8192, S: K/32} gives S: 256.
 * A cycle is an error that names its symbols. */
bool sym_resolve_bindings(SymCtx *cx, SymBinding *bindings, int n);

/* ---- facts and proofs ---------------------------------------------------------------------- */

typedef struct SymFacts SymFacts;

typedef enum SymTruth { SYM_NEVER, SYM_ALWAYS, SYM_UNKNOWN } SymTruth;

#define SYM_MIN_INF INT64_MIN
#define SYM_MAX_INF INT64_MAX

typedef struct SymRange {
  int64_t lo, hi; /* inclusive; SYM_MIN_INF / SYM_MAX_INF: unbounded */
} SymRange;

/* Facts belong to an arena and may extend a parent (NULL: none), which must not change
 * afterwards. */
SymFacts *sym_facts_new(Arena *a, SymCtx *cx, const SymFacts *parent);

/* Empty facts, to be extended. Descendants made by the same assumptions in the same order are
 * shared and live as long as the arena, so nothing is derived about them twice. */
const SymFacts *sym_facts_lasting(Arena *a, SymCtx *cx);

/* Assumes any boolean expression: intervals, `Eq(Mod(K, 32), 0)`, relations `i < N`, conjunctions.
 * What it cannot use it keeps for syntactic matches. False: cond contradicts the facts. */
bool sym_assume(SymFacts *f, const Sym *cond);
bool sym_assume_range(SymFacts *f, const Sym *symbol, int64_t lo, int64_t hi);

/* An expression equal to s wherever s is defined and the facts hold; never larger by sym_size;
 * idempotent. It may be defined where s is not (x/x is 1). f may be NULL. */
const Sym *sym_simplify(SymCtx *cx, const SymFacts *f, const Sym *s);
SymTruth sym_prove(SymCtx *cx, const SymFacts *f, const Sym *cond);
bool sym_proves(SymCtx *cx, const SymFacts *f, const Sym *cond); /* == SYM_ALWAYS */
SymRange sym_range(SymCtx *cx, const SymFacts *f, const Sym *s); /* of floor(s) .. ceil(s) */

/* The largest known d >= 1 with s = r (mod d); r in [0, d). d = 0: s is the constant r. */
void sym_congruence(SymCtx *cx, const SymFacts *f, const Sym *s, int64_t *d, int64_t *r);
bool sym_divides(SymCtx *cx, const SymFacts *f, int64_t d, const Sym *s);

/* ---- linear forms -------------------------------------------------------------------------- */

/* s = sum coeff[i] * symbols[i] + rest, where neither the coefficients nor rest mention any of the
 * symbols. False when s is not linear in them. */
bool sym_linear(SymCtx *cx, const Sym *s, const Sym *const *symbols, int n, const Sym **coeff,
                const Sym **rest);

/* True when a == b at every point that the facts allow: proved by rule, or checked at all points of
 * the symbols' ranges. */
SymTruth sym_equal(SymCtx *cx, const SymFacts *f, const Sym *a, const Sym *b);

/* ---- evaluation ---------------------------------------------------------------------------- */

/* Exact value; false on an unbound symbol, a division by zero, overflow or a non-integer result
 * (booleans are 0 and 1). */
bool sym_eval(const Sym *s, const SymBinding *env, int n, int64_t *out);

/* A compiled evaluator: many expressions over the same variables, sharing subexpressions. */
typedef struct SymProgram SymProgram;

SymProgram *sym_compile(Arena *a, SymCtx *cx, const Sym *const *exprs, int nexprs,
                        const Sym *const *vars, int nvars);
/* out[nexprs]; false as for sym_eval. Reentrant: `scratch` has sym_program_slots() entries. */
int sym_program_slots(const SymProgram *p);
bool sym_run(const SymProgram *p, const int64_t *vars, int64_t *scratch, int64_t *out);
/* The steps of the program, for another interpreter; *results has one step per expression. */
const struct HostStep *sym_program_steps(const SymProgram *p, int *n, const int **results);

/* Evaluates the first expression at n points at once: variable v of point i is vars[v*n + i];
 * `scratch` has n * sym_program_slots() entries. The values, and a flag for each that is undefined,
 * are left there. */
typedef struct SymPoints {
  const int64_t *value, *undefined;
} SymPoints;
SymPoints sym_run_points(const SymProgram *p, int n, const int64_t *vars, int64_t *scratch);

/* ---- lowering to integer ops --------------------------------------------------------------- */

/* A straight-line program of two's complement integer ops. Divisions by powers of two become shifts
 * and masks where the operand is known to be non-negative or an arithmetic shift rounds correctly;
 * division by another constant is left as `div` for the target's legaliser; division by a run-time
 * value that is uniform for a launch uses launch constants (multiplier and shift). */
typedef enum SymOpKind {
#define SYM_OP(name, cost, doc) SYM_OP_##name,
#include "sym/sym_ops.def"
  SYM_OP_COUNT
} SymOpKind;

typedef struct SymOp {
  SymOpKind kind;
  int a, b, c;    /* earlier ops */
  int64_t value;  /* of const */
  const Sym *sym; /* of symbol and of launch constants: what to compute at launch */
  int bits;       /* 32 when every value fits in 32 bits signed, else 64 */
} SymOp;

typedef struct SymCode {
  SymOp *ops;
  int nops;
  int *results; /* one per expression */
  int nresults;
  int cost;
} SymCode;

SymCode *sym_code(Arena *a, SymCtx *cx, const SymFacts *f, const Sym *const *exprs, int n);

/* The same, given the symbols that have one value per launch (dimensions, strides): what depends
 * only on them becomes `launch` operations, and division by it `divmagic`. NULL on overflow. */
SymCode *sym_code_launch(Arena *a, SymCtx *cx, const SymFacts *f, const Sym *const *exprs, int n,
                         const Sym *const *uniform, int nuniform);

/* For results of which only the low 32 bits are needed: operations that need no more become 32 bits
 * wide and wrap around. Constants are unchanged. */
void sym_narrow(Arena *scratch, SymCode *code);

/* ---- text ---------------------------------------------------------------------------------- */

/* Python's (SymPy's) spelling; sym_parse(sym_print(s)) == s in the same context. */
void sym_print(StrBuf *out, const Sym *s);
const char *sym_text(Arena *a, const Sym *s);

/* Parses one expression. A plain name is a non-negative symbol; `signed(J)` is the symbol J that
 * may be negative. A number used as a condition is true when it is not 0. On failure returns NULL, with the reason in
 * sym_error and, if error_at is given, the offset of the first bad character. */
const Sym *sym_parse(SymCtx *cx, const char *text, size_t len, size_t *error_at);

/* Parses the longest expression at the start of `text` and stops where it cannot continue (`M` of
 * `M by 64`); *used is the length read. Without `comparisons`, `<`, `>`, `<=` and `>=` outside
 * parentheses end it too. On failure returns NULL, and *used is the offset of the first bad
 * character. */
const Sym *sym_parse_prefix(SymCtx *cx, const char *text, size_t len, bool comparisons,
                            size_t *used);

#endif
