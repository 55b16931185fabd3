/* wave.h: the C interface of Wave, a kernel language and compiler for machine learning.
 *
 * Everything here is experimental until the first release: names may still change.
 *
 *   - A context (wv_ctx) owns symbols, types and diagnostics. It is used by one thread at a time;
 *     different threads use different contexts. There is no other state.
 *   - Calls that can fail return NULL or false and leave diagnostics in the context. NULL operands
 *     are accepted and give NULL, so a chain of calls needs one check at its end.
 *   - Compiler bugs and running out of memory do not end the process: the call fails with I0002 or
 *     I0003, which names a file with the kernel (`wavec again FILE`). Its context is then in an
 *     unknown state: its diagnostics can be read, kernels that the call was not changing can be
 *     copied to another context, and everything else fails with E0002. Programs can still be
 *     launched, each call with a usable context.
 *   - NULL or a handle of another kind where a handle is expected makes a call fail (E0001).
 *   - Handles belong to the context (expressions, types) or to their kernel (values) and are freed
 *     with it. Strings returned by this interface live as long as the context unless stated
 *     otherwise.
 *
 * A GEMM, built without Python, is in tests/unit/test_api.c. The file is long because it is the whole
 * interface. */
#ifndef WAVE_H
#define WAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WV_API __attribute__((visibility("default")))
#else
#define WV_API
#endif

typedef struct wv_ctx wv_ctx;
typedef struct wv_builder wv_builder;
typedef struct wv_kernel wv_kernel;
typedef struct wv_value wv_value;
typedef const struct wv_expr_s *wv_expr; /* interned: equal expressions are the same pointer */
typedef const struct wv_type_s *wv_type; /* interned likewise */

WV_API wv_ctx *wv_ctx_new(void);
WV_API void wv_ctx_free(wv_ctx *cx);         /* kernels and builders must be freed first */
WV_API bool wv_ctx_usable(const wv_ctx *cx); /* false after an internal error; see above */
/* The file left behind by an internal error, for `wavec again`; NULL: none. */
WV_API const char *wv_ctx_saved(const wv_ctx *cx);
WV_API const char *wv_version(void);

/* ---- diagnostics --------------------------------------------------------------------------- */

/* A place in the user's sources; line 0: unknown. Lines and columns count from 1. */
typedef struct wv_place {
  const char *file; /* NULL: unknown */
  uint32_t line, col, len;
} wv_place;

typedef struct wv_note {
  wv_place at;
  const char *text;
} wv_note;

typedef struct wv_diag {
  const char *severity; /* "error", "warning", "remark" */
  const char *code;     /* "E0203" */
  const char *text;
  const char *hint; /* NULL: none */
  wv_place at;
  const char *rendered; /* with source line, caret, notes and hint; ends with a newline */
} wv_diag;

WV_API int wv_diag_count(const wv_ctx *cx);
WV_API int wv_diag_errors(const wv_ctx *cx);
WV_API bool wv_diag_get(wv_ctx *cx, int i, wv_diag *out);
WV_API int wv_diag_notes(wv_ctx *cx, int i, wv_note *out, int cap); /* returns how many there are */
WV_API void wv_diag_clear(wv_ctx *cx); /* also frees the texts that wv_diag_get returned */
/* Reports a mistake found by a front end. `code` is one of `wavec --list=diagnostics`. */
WV_API void wv_diag_report(wv_ctx *cx, const char *code, wv_place at, const char *text,
                           const char *hint);
/* The text of a source that is not on disk (a notebook cell), for the lines in diagnostics. */
WV_API void wv_source(wv_ctx *cx, const char *file, const char *text);
WV_API const char *wv_explain(const char *code); /* NULL: no such code; static storage */
/* The word of `words` nearest to `word`, or NULL: for "did you mean" hints. */
WV_API const char *wv_nearest(const char *word, const char *const *words, int n);

/* ---- expressions --------------------------------------------------------------------------- */

/* Operators of wv_expr_op, in sym/sym.def's spelling: "add" "mul" (any number of operands), "sub"
 * "div" "floordiv" "ceildiv" "mod" "pow" "xor" "eq" "ne" "lt" "le" "gt" "ge" (two), "neg" "floor"
 * "ceil" "not" (one), "min" "max" "and" "or" (any number), "select" (condition, yes, no),
 * "piecewise" (value, condition, value, condition, ...: the value of the first condition that
 * holds; an error unless it is proved that one does). */
typedef struct wv_binding {
  wv_expr from, to;
} wv_binding;

WV_API wv_expr wv_int(wv_ctx *cx, int64_t v);
WV_API wv_expr wv_rational(wv_ctx *cx, int64_t num, int64_t den);
WV_API wv_expr wv_bool(wv_ctx *cx, bool v);
WV_API wv_expr wv_symbol(wv_ctx *cx, const char *name, bool nonneg);
WV_API wv_expr wv_expr_op(wv_ctx *cx, const char *op, const wv_expr *args, int n);
WV_API wv_expr wv_expr_parse(wv_ctx *cx, const char *text);
WV_API const char *wv_expr_text(wv_ctx *cx, wv_expr e);

/* The structure of an expression: kind is one of sym.def's names ("int", "rational", "symbol",
 * "add", …); wv_expr_op(kind, args) gives the same expression. */
WV_API const char *wv_expr_kind(wv_expr e);
WV_API int wv_expr_nargs(wv_expr e);
WV_API wv_expr wv_expr_arg(wv_ctx *cx, wv_expr e, int i);
WV_API bool wv_expr_is_bool(wv_expr e);
WV_API bool wv_expr_constant(wv_expr e, int64_t *num, int64_t *den); /* of int, rational, bool */
WV_API const char *wv_expr_name(wv_expr e);                          /* of a symbol, else NULL */
WV_API bool wv_expr_nonneg(wv_expr e);                               /* of a symbol */
WV_API uint64_t wv_expr_hash(wv_expr e);                             /* the same in every context */
WV_API wv_expr wv_expr_copy(wv_ctx *to, wv_expr e); /* from any context, even an unusable one */
WV_API int wv_expr_symbols(wv_expr e, wv_expr *out, int cap); /* returns how many; -1: out of
                                                               * memory */

WV_API wv_expr wv_expr_subst(wv_ctx *cx, wv_expr e, const wv_binding *b, int n);
/* Values may mention other symbols of the list; a cycle is an error. In place. */
WV_API bool wv_resolve(wv_ctx *cx, wv_binding *b, int n);
/* Simplifies, assuming the facts: any boolean expressions. */
WV_API wv_expr wv_expr_simplify(wv_ctx *cx, wv_expr e, const wv_expr *facts, int nfacts);
/* 1 always, 0 never, -1 unknown. */
WV_API int wv_expr_prove(wv_ctx *cx, wv_expr cond, const wv_expr *facts, int nfacts);
WV_API bool wv_expr_range(wv_ctx *cx, wv_expr e, const wv_expr *facts, int nfacts, int64_t *lo,
                          int64_t *hi); /* INT64_MIN / INT64_MAX: unbounded */
WV_API bool wv_expr_eval(wv_ctx *cx, wv_expr e, const wv_binding *b, int n, int64_t *out);

/* ---- types --------------------------------------------------------------------------------- */

/* dtypes by name: "f32", "bf16", "f8e4m3fn", "i1", … (ir/types.def). */
WV_API int wv_dtype_count(void);
WV_API const char *wv_dtype_name(int i, int *bits,
                                 const char **cls); /* cls: float int uint bool index */

WV_API wv_type wv_scalar_type(wv_ctx *cx, const char *dtype);
WV_API wv_type wv_tile_type(wv_ctx *cx, const wv_expr *dims, int rank, const char *dtype);
/* space: NULL for global; layout: NULL, or `rank` physical extents (a NULL entry: the tensor's own)
 */
WV_API wv_type wv_mem_type(wv_ctx *cx, const wv_expr *dims, int rank, const char *dtype,
                           wv_expr space, const wv_expr *layout);
WV_API const char *wv_type_text(wv_ctx *cx, wv_type t);
WV_API const char *wv_type_kind(wv_type t); /* "scalar" "vec" "tile" "mem" "token" */
WV_API const char *wv_type_dtype(wv_type t);
WV_API int wv_type_rank(wv_type t);
WV_API wv_expr wv_type_dim(wv_type t, int i);
WV_API wv_expr wv_type_space(wv_type t);
WV_API wv_expr wv_type_extent(wv_type t, int i); /* a memory's physical extent, if given */

/* ---- constraints --------------------------------------------------------------------------- */

typedef struct wv_pair {
  wv_expr key, value;
} wv_pair;

/* A matrix instruction by name, also as the public package spells it (`MMAType.F32_16x16x16_F16`,
 * `MFMA_F32_16x16x16_F16`), or a GenericDot (name NULL, k_vec > 0). All zero: none. */
typedef struct wv_mma {
  const char *name;
  int out_vec, k_vec, k_mult;
  char along; /* 'M' or 'N' */
} wv_mma;

/* One row of a kernel's header. `kind` says which fields are used; the others are zero:
 *
 *   "workgroup"  dim size axis [start: replaces id * size] [count] [secondary]
 *   "wave"       dim size [expr: a given wave id]
 *   "tile"       dim [size: NULL is 1] [start] [count] [expr: a given loop counter]
 *   "hardware"   threads [waves] [cluster] [mma] [pairs: vector shapes] [load_bits] [service_waves]
 *   "device"     dim size axis
 *   "grid"       size
 *   "reorder"    expr axis
 *   "iterators"  pairs: iterator symbol -> dimension
 *   "alias"      dim; start: the dimension it derives from; expr: its tile, over the symbol $ALIAS
 *   "assume"     expr
 *   "bind"       dim; size: the value
 *   "dynamic"    dim
 *   "expect"     dim; size: the value that a dynamic symbol is expected to have, for decisions
 *   "stages"     size: tiles of an operand that a loop keeps in shared memory; 1: no pipeline,
 *                0: any
 *   "boxes"      size 0: do not use the copy engine for boxes of tensors
 *   "swizzle"    size 0: tiles in shared memory are row-major
 *   "overlap"    size 0: allocations share no bytes while there is room
 *   "timeline"   size: the first iteration of loops that is measured [secondary: all its ops in each
 *                iteration, not in turn] */
typedef struct wv_constraint {
  const char *kind;
  wv_place at;
  wv_expr dim, size, start, count, expr;
  int axis;
  bool secondary;
  int threads, load_bits, service_waves;
  wv_expr waves[3], cluster[3];
  wv_mma mma;
  const wv_pair *pairs;
  int npairs;
} wv_constraint;

/* ---- building kernels ---------------------------------------------------------------------- */

typedef struct wv_mapping {
  int niterators; /* expressions mention $index0 .. and $dynamic_val0 .. */
  const wv_pair *inputs, *outputs;
  int ninputs, noutputs;
  const wv_pair *const *dynamic; /* one list per dynamic value */
  const int *ndynamic_pairs;
  int ndynamic;
} wv_mapping;

/* Checks a mapping on its own (iterator conflicts, iterators without an extent). */
WV_API bool wv_check_mapping(wv_ctx *cx, const wv_mapping *m, wv_place at);

typedef struct wv_count {
  const char *name;
  int64_t count;
} wv_count;

/* An attribute of an op, by name (ir/attrs.def). Its kind there says which field is used:
 *
 *   NUMBER       number or expr             EXPR, DIM   expr
 *   EXPRS, INTS  exprs                      INT         integer
 *   FLAG         none                       TEXT        text
 *   TEXTS        texts                      BOUNDS      pairs
 *   MAPPING      mapping                    MMA         mma
 *   COUNTS       counts                     ITERS       exprs: (symbol, axis, count) each
 *
 * `n` is the length of a list. */
typedef struct wv_attr {
  const char *key;
  int n;
  double number;
  int64_t integer;
  const char *text;
  wv_expr expr;
  const wv_expr *exprs;
  const char *const *texts;
  const wv_pair *pairs;
  const wv_mapping *mapping;
  const wv_mma *mma;
  const wv_count *counts;
} wv_attr;

WV_API wv_builder *wv_build(wv_ctx *cx, const char *name, wv_place at);
WV_API bool wv_add_constraint(wv_builder *b, const wv_constraint *c);
/* binds: the symbol that a scalar argument defines (SymbolBind), or NULL. */
WV_API wv_value *wv_param(wv_builder *b, const char *name, wv_type t, wv_expr binds, wv_place at);

/* Appends an op (ir/ops.def). `given`: the result type, for ops whose type is chosen by the author
 * (fill, scalar, alloc, self_index, cast, bitcast, broadcast, permute); NULL otherwise. Results are
 * written to `results` (as many as the op has). "argmax" and "argmin" are composed of several ops:
 * they take a value, optionally the best so far and its index, and the attributes of max, and give
 * the best and its index. So is "philox": four words (u32) of a counter and two of a key give four
 * words of random bits. */
WV_API bool wv_op(wv_builder *b, const char *op, wv_value *const *args, int nargs,
                  const wv_attr *attrs, int nattrs, wv_type given, wv_place at, wv_value **results);

/* read and write with source= and target= (docs/language.md, section 6.6): coordinates are
 * expressions in the kernel's iterators, or values. `value` NULL: a read. Needs an "iterators"
 * constraint. */
typedef struct wv_coord {
  wv_expr expr;
  wv_value *value; /* used if expr is NULL */
} wv_coord;
WV_API bool wv_access(wv_builder *b, wv_value *value, wv_value *memory, const wv_coord *source,
                      int nsource, const wv_coord *target, int ntarget, const wv_attr *attrs,
                      int nattrs, wv_place at, wv_value **result);

/* A number as an operand next to `like`: a scalar of its dtype. Integers in float contexts are
 * converted; a float next to integers is an error. An integer from 2**63 up is given by its bits in
 * `integer` and, rounded, in `number`. */
WV_API wv_value *wv_literal(wv_builder *b, double number, int64_t integer, bool is_integer,
                            const wv_value *like, wv_place at);

/* Regions: "for" and "while" over attribute axis, "if". The arguments follow ir/ops.def: carried
 * values, preceded by the start of a for with the flag `from`, by the start of a while, or by the
 * condition of an if without `expr`. Ops then go into the body until wv_end, which takes the values
 * that the body yields. Carried arguments inside the body: wv_region_args. After wv_begin or wv_end
 * returned false, the builder can only be abandoned.
 *
 * "reduce" and "scan" take the elements, their initial value and the attribute dim; the body is the
 * function they combine with: its arguments are two elements, and it yields one. */
WV_API bool wv_begin(wv_builder *b, const char *op, wv_value *const *args, int nargs,
                     const wv_attr *attrs, int nattrs, wv_place at);
WV_API int wv_region_args(wv_builder *b, wv_value **out, int cap); /* returns how many are
                                                                    * carried */
/* Ends the body of an "if" that carries nothing and begins the body of its else. The values that
 * the two yield, here and to wv_end, have the same types. */
WV_API bool wv_else(wv_builder *b, wv_value *const *yields, int n, wv_place at);
WV_API bool wv_end(wv_builder *b, wv_value *const *yields, int n, wv_place at, wv_value **results);
WV_API void wv_abandon(wv_builder *b); /* frees a builder without making a kernel */

WV_API wv_type wv_value_type(const wv_value *v);
WV_API void wv_value_name(wv_builder *b, wv_value *v, const char *name); /* for the printer */
WV_API bool wv_value_add_tag(wv_builder *b, wv_value *v, const char *tag);

/* Ends and verifies; frees the builder. NULL if anything was wrong. */
WV_API wv_kernel *wv_finish(wv_builder *b);

/* ---- kernels ------------------------------------------------------------------------------- */

WV_API void wv_kernel_free(wv_kernel *k);
WV_API wv_kernel *wv_kernel_clone(wv_kernel *k);
/* A copy in another context, which another thread may then use. */
WV_API wv_kernel *wv_kernel_copy(wv_kernel *k, wv_ctx *to);
/* Adds header rows to a finished kernel (bind, dynamic, assume) and checks the header again; a
 * value that is already bound is replaced. Values of an instruction scheduler's parameters
 * ($MMA_DELAY, $MMA_UNITS) are ignored. */
WV_API bool wv_kernel_constrain(wv_kernel *k, const wv_constraint *c, int n);
/* Lets tensors disagree about symbols that take their values from them: the smallest size counts,
 * and the accesses to each tensor end with the tensor. By default it is a mistake (E0702). */
WV_API void wv_kernel_free_sizes(wv_kernel *k);
/* How `assume` rows are used. By default they are facts of code for launches that satisfy all of
 * them, and other launches use code compiled without them (remark R0701). */
typedef enum wv_assume {
  WV_ASSUME_IGNORED, /* the rows are removed */
  WV_ASSUME_REQUIRED /* launches that do not satisfy them are refused (E0709) */
} wv_assume;
WV_API void wv_kernel_assume(wv_kernel *k, wv_assume how);
/* Removes assertions (op `device_assert`): the kernel need not be waited for, and may be captured
 * into a graph. */
WV_API void wv_kernel_drop_asserts(wv_kernel *k);
WV_API const char *wv_kernel_name(const wv_kernel *k);
WV_API int wv_kernel_nparams(const wv_kernel *k);
WV_API bool wv_kernel_param(const wv_kernel *k, int i, const char **name, wv_type *t,
                            bool *is_output);
/* Whether results depend on the previous content of a tensor: it is read, or added to. */
WV_API bool wv_kernel_param_is_read(const wv_kernel *k, int i);

/* The i-th row of the header: its kind, and its dim and size if it has them; false past the
 * last. */
WV_API bool wv_kernel_row(const wv_kernel *k, int i, const char **kind, wv_expr *dim,
                          wv_expr *size);

/* What a launch runs: workgroups, and threads of one, in each dimension, over symbols of the
 * kernel; bytes of shared memory. For one lane's program these are exact; for a tile kernel they
 * are what its rows declare, and shared is 0. */
typedef struct wv_launch_shape {
  wv_expr grid[3], threads[3];
  int shared;
} wv_launch_shape;
WV_API wv_launch_shape wv_kernel_launch_shape(wv_kernel *k);

/* Parses the kernels of a text, at most `cap`; returns how many there are, -1 on errors. */
WV_API int wv_parse(wv_ctx *cx, const char *name, const char *text, wv_kernel **out, int cap);
WV_API char *wv_print(wv_kernel *k); /* free with wv_free */
WV_API void wv_free(char *text);

/* A kernel at THREAD level as PTX text for an NVIDIA target; NULL after reporting. Free with
 * wv_free. fast_math: the approximations that docs/numerics.md lists. */
WV_API char *wv_emit_ptx(wv_kernel *k, const char *target, bool fast_math);
/* The same as LLVM IR for a kind of CPU, "cpu_neon", "cpu_avx2", ... ("cpu": this one), or for an
 * AMD GPU, "gfx942", ... */
WV_API char *wv_emit_llvm(wv_kernel *k, const char *target, bool fast_math);
/* The same compiled by libLLVM, as an ELF object or (assembly) as text; *n: the number of bytes.
 * The kind of CPU need not be this one's; "cpu": for this CPU, with all its features. Objects for
 * AMD GPUs are relocatable. */
WV_API char *wv_emit_object(wv_kernel *k, const char *target, bool assembly, bool fast_math,
                            size_t *n);
/* The same for an AMD GPU, as a code object that its drivers load. */
WV_API char *wv_emit_hsaco(wv_kernel *k, const char *target, bool fast_math, size_t *n);
/* A code object for an AMD GPU, not necessarily ours, as text: "asm" its instructions, "loops" what
 * limits the speed of loops with matrix instructions: instructions by kind, and the cycles of each
 * unit of the machine. `name`: of the file, for errors. It needs libLLVM. NULL after reporting;
 * free with wv_free. */
WV_API char *wv_code_text(wv_ctx *cx, const char *what, const char *name, const void *bytes,
                          size_t n);
/* Checks a kernel, and warns about constructs that mean something else than they seem to. */
WV_API bool wv_verify(wv_kernel *k);
WV_API bool wv_equal(wv_kernel *a, wv_kernel *b);

/* ---- passes -------------------------------------------------------------------------------- */

typedef struct wv_pass_options {
  const char *passes;      /* comma-separated names; NULL: the pipeline of the target */
  const char *stop_after;  /* a pass, or NULL */
  const char *start_after; /* the kernel is a dump taken after this pass: the ones after it run; or
                            * NULL */
  const char *dump;        /* "all", or comma-separated names of passes to dump after; NULL: none */
  const char *dump_before; /* the same, to dump before they run */
  bool verify_each;
  bool time;
  /* Receives dumps, which begin with a line `# after NAME` or `# before NAME`; at the end, with
   * pass NULL, the times. */
  void (*write)(void *user, const char *pass, const char *text);
  void *user;
  const char
      *target; /* the machine that a kernel is compiled for, as wv_target_info names it; NULL:
                * none */
} wv_pass_options;

WV_API bool wv_run_passes(wv_kernel *k, const wv_pass_options *o);
WV_API const char *wv_kernel_level(const wv_kernel *k); /* "tile"; "thread": one lane's program */
/* Whether tile sizes depend on symbols that get their values from the arguments of a call, because
 * no row divides their dimension. wv_compile returns a program that is compiled when it is launched,
 * and wv_sim lowers the kernel for its arguments; wv_lower rejects it (E0606). */
WV_API bool wv_kernel_is_open(wv_kernel *k);
/* The copy of an open kernel that wv_compile would compile for a call in which the symbols have these
 * values; a plain copy of any other kernel. NULL after reporting that a symbol has no value, or a
 * row that makes no sense for these. */
WV_API wv_kernel *wv_kernel_fit(wv_kernel *k, const wv_binding *values, int n);
/* Runs passes until the kernel is one lane's program; does nothing if it already is, unless
 * start_after says which passes are left. A kernel that this version cannot lower for the target is
 * an error (E0601). */
WV_API bool wv_lower(wv_kernel *k, const wv_pass_options *o);

/* ---- bounds -------------------------------------------------------------------------------- */

/* What the compiler knows about every access: one row per coordinate that must lie within its
 * bound. */
typedef struct wv_proof_row {
  int access;         /* rows of one access are consecutive */
  const char *op;     /* "read" */
  const char *memory; /* the argument's name; "" for an op without one, such as `exists` */
  wv_place at;
  wv_expr dim;
  bool of_memory;      /* a coordinate of the memory; otherwise of the tile */
  wv_expr condition;   /* at the op; $e0, $e1, ... are positions inside the tile */
  const char *verdict; /* "proved", "tested" at run time, "implied" by tests, "promised" by
                          `bounds={}` */
  wv_expr test;        /* what is tested, over $x (tile), $y (memory) and $n (sizes); else NULL */
  int offset_bits;     /* 32 or 64, of byte offsets of this access */
  int run;             /* elements that one instruction may move */
  wv_expr run_dim;     /* along this dimension; NULL if run is 1 */
} wv_proof_row;

typedef struct wv_proof wv_proof;
WV_API wv_proof *wv_prove(wv_kernel *k); /* must be freed before the kernel */
WV_API void wv_proof_free(wv_proof *p);
WV_API bool wv_proof_get(const wv_proof *p, int i, wv_proof_row *out); /* false past the last */
WV_API const char *wv_proof_text(const wv_proof *p); /* lives as long as the proof */

/* ---- schedules (docs/schedules.md) ---------------------------------------------------------- */

/* How the loops of a kernel are pipelined on a machine, as rows that would pin it; the text of a
 * schedule file. Of the variant that is compiled first; for "sim:NAME", of what is simulated. Free
 * with wv_free; NULL after reporting. */
WV_API char *wv_schedule(wv_kernel *k, const char *target);
/* The same with what it is predicted to take, drawn: "html", a page; "fragment", the same as a part of
 * a page; "svg", the picture of the first loop that has one; "json", the numbers; "text",
 * what wv_schedule returns. */
WV_API char *wv_schedule_as(wv_kernel *k, const char *target, const char *form);
/* The best schedules that were found for the kernel's loops, by predicted cycles, each as the text of
 * a schedule file: at most `most`, to be freed with wv_free. Rows that the kernel has are obeyed.
 * Returns their number; -1 after reporting. */
WV_API int wv_schedules(wv_kernel *k, const char *target, int most, char **texts);
/* What was decided about each line of a kernel on a machine, and why: how tiles are copied and where
 * they are kept, which waves do what, how much room there is, how long a launch is predicted to take and could
 * not take less than. form: "text", or "html", a page. Of the variant that is compiled first. Free with
 * wv_free; NULL after reporting. */
WV_API char *wv_decisions(wv_kernel *k, const char *target, const char *form);
/* The tiles that the compiler compares where symbols of a kernel's tiles have no value, one line each:
 * `BLOCK_M=128 BLOCK_N=256 # 153.2 us`, at most `most`. First come those that no other dominates, by
 * estimated time; then the others, which say so. Empty if no tile is open. Free with wv_free; NULL
 * after reporting. */
WV_API char *wv_choices(wv_kernel *k, const char *target, int most);
/* Times that a launch has recorded: the log "$timeline" of a kernel with the row `timeline FIRST`,
 * which records them from iteration FIRST of each loop on. */
typedef struct wv_stamps {
  const int64_t *at;
  int64_t n;
} wv_stamps;
/* What was measured of the loops of such a kernel on a machine, beside what is predicted: "text",
 * "fragment", "svg" or "json". For launches of the variant that is compiled first. */
WV_API char *wv_timeline_as(wv_kernel *k, const char *target, const char *form, wv_stamps stamps);
/* Adds the rows of such a text to a kernel, in place of those it has for the same loops. `name` is
 * shown in diagnostics. False after reporting: rows that do not fit the kernel (E0217). */
WV_API bool wv_kernel_schedule(wv_kernel *k, const char *name, const char *text);

/* ---- schedule functions (docs/schedules.md) -------------------------------------------------- */

/* What a schedule function selects and asks for. Nodes are numbered from 0, one for each instruction
 * of an op with a tag; lists of them live as long as the construct. All calls return false (or -1)
 * after reporting at `at`. */
typedef struct wv_construct wv_construct;
typedef struct wv_nodes {
  const int *at;
  int n;
} wv_nodes;

/* For a kernel with all its rows, and a machine: `target` is NULL or a machine without waves for
 * nodes of the kernel as it was written. `name` is that of the function. direct: tiles are copied to
 * shared memory by one op, otherwise loaded and stored. Must be freed before the kernel. */
WV_API wv_construct *wv_construct_open(wv_kernel *k, const char *name, const char *target,
                                       bool direct, wv_place at);
WV_API void wv_construct_free(wv_construct *c);

typedef struct wv_node {
  const char *name;    /* "read_a.load[K 0/2]" */
  const char *op;      /* "read" */
  const char *segment; /* "any", or in a pipelined loop "prologue", "kernel", "epilogue" */
  int stage;           /* -1: not placed */
  int unrolled;        /* which copy of an unrolled body */
  int nparts;
  wv_expr dims[4]; /* dimensions with several instructions, and which of them it is */
  int parts[4];
  wv_place at;
} wv_node;
/* Lives as long as the construct. */
WV_API bool wv_construct_node(wv_construct *c, int node, wv_node *out);

/* Selecting. `exact`: no other tags. `segment`, `type` (a class of the public package) and `unrolled`
 * restrict a list; "any", NULL and -1 do not. */
WV_API bool wv_construct_find(wv_construct *c, const char *const *tags, int n, bool exact,
                              wv_place at, wv_nodes *out);
WV_API bool wv_construct_filter(wv_construct *c, wv_nodes from, const char *segment,
                                const char *type, int unrolled, wv_place at, wv_nodes *out);
/* out[0]: in the space "global" or "shared"; out[1]: the others. */
WV_API bool wv_construct_by_space(wv_construct *c, wv_nodes from, const char *space, wv_place at,
                                  wv_nodes *out);
WV_API bool wv_construct_by_dim(wv_construct *c, wv_nodes from, wv_expr dim, int parts, wv_place at,
                                wv_nodes *out); /* `parts` lists */

/* Stages: a pipeline has a number; each stage has a list for each cycle; wv_construct_close ends it.
 * slots 0: the compiler decides. */
WV_API int wv_construct_pipeline(wv_construct *c, wv_nodes loop, wv_place at);
WV_API bool wv_construct_stage(wv_construct *c, int pipeline, const wv_nodes *cycles, int n,
                               wv_place at);
WV_API bool wv_construct_close(wv_construct *c, int pipeline, int slots, bool masked);
/* With their copies in the prologue and the epilogue. */
WV_API bool wv_construct_copies(wv_construct *c, wv_nodes from, wv_nodes *out);
WV_API bool wv_construct_unroll(wv_construct *c, wv_nodes loop, int factor, wv_place at);

/* Order. */
typedef struct wv_interleaved {
  wv_nodes ops;
  int interval, offset;
  wv_nodes after; /* numbers of groups that come before it */
} wv_interleaved;
WV_API bool wv_construct_interleave(wv_construct *c, wv_nodes base, const wv_interleaved *groups,
                                    int n, wv_place at, wv_nodes *out);
WV_API bool wv_construct_reorder(wv_construct *c, wv_nodes order, wv_place at);
/* Nodes and ops that are inserted, in order. */
typedef struct wv_cluster_item {
  int node;          /* -1: an op that is inserted, */
  const char *type;  /* "SetWavePrio", */
  int value;         /* with this priority */
  const char *given; /* its other arguments: "load=4 ds=0", or in order, "4"; NULL: none */
} wv_cluster_item;
WV_API bool wv_construct_cluster(wv_construct *c, const wv_cluster_item *items, int n, wv_place at);
/* An op that is inserted "before" or "after" the first node, or at the "start" or "end" of a loop;
 * where NULL: elsewhere. */
WV_API bool wv_construct_insert(wv_construct *c, const wv_cluster_item *op, const char *where,
                                wv_nodes target, wv_place at);
WV_API bool wv_construct_stagger(wv_construct *c, wv_nodes loop, wv_place at);

/* Adds rows to the kernel that say the same, as far as the machine can obey them, and one remark
 * (R0616) about the rest. */
WV_API bool wv_construct_apply(wv_construct *c);

/* ---- running: the reference evaluator ------------------------------------------------------ */

/* A tensor in host memory; strides count elements. */
typedef struct wv_buffer {
  void *data;
  const char *dtype; /* of the same width as the parameter's */
  int rank;
  const int64_t *shape, *strides; /* strides NULL: row-major */
} wv_buffer;

typedef struct wv_arg {
  const wv_buffer *buffer; /* for memory parameters */
  double number;           /* for float scalars */
  int64_t integer;         /* for the others */
} wv_arg;

typedef struct wv_eval_options {
  /* Called once per debug_log after the run, with the whole logged tensor (row-major); a single
   * number is a tensor of one element. May be NULL. */
  void (*log)(void *user, const char *label, const wv_buffer *value);
  /* Called at every workgroup and loop iteration; true ends the run. May be NULL. */
  bool (*interrupted)(void *user);
  void *user;
  bool check_masks; /* report where masks recorded by passes differ from which elements are
                     * accessed */
} wv_eval_options;

/* Runs a kernel at TILE level on host buffers, one workgroup after the other, in the arithmetic of
 * its dtypes. This defines the meaning of a kernel. Slow. `o` may be NULL. */
WV_API bool wv_eval(wv_kernel *k, const wv_arg *args, int nargs, const wv_eval_options *o);

/* ---- running: the simulator ---------------------------------------------------------------- */

typedef struct wv_sim_options {
  const char *target;   /* "sim:sm_90a", or "sm_90a"; "sim" or NULL: one with the kernel's wave */
  const char *schedule; /* "round", "reverse", "first", "random", "random:SEED"; NULL: round */
  bool nonfinite;       /* also report where infinities and NaN appear */
  bool (*interrupted)(void *user); /* called now and then; true ends the run. May be NULL */
  /* Called once per debug_log after the run, even if the run had findings. May be NULL. */
  void (*log)(void *user, const char *label, const wv_buffer *value);
  void *user;
} wv_sim_options;

typedef struct wv_report wv_report;

/* Runs a kernel at THREAD level, or an open one (wv_kernel_is_open), lane by lane, and reports
 * races, accesses out of bounds, uninitialised values, deadlocks and the like as diagnostics. `o`
 * may be NULL. `report`, if not NULL, receives what happened, even if the result is false; NULL if
 * nothing ran. */
WV_API bool wv_sim(wv_kernel *k, const wv_arg *args, int nargs, const wv_sim_options *o,
                   wv_report **report);
WV_API void wv_report_free(wv_report *r); /* before its kernel */

/* As a table of costs per source line; as JSON (docs/simulator.md has the schema); as one
 * self-contained HTML page. The texts live as long as the report. */
WV_API const char *wv_report_text(wv_report *r);
WV_API const char *wv_report_json(wv_report *r);
WV_API const char *wv_report_html(wv_report *r);

/* A problem found by the simulator on a line, or a pair of lines: the first of `count`
 * instances. */
typedef struct wv_finding {
  wv_diag diag;
  uint64_t count;
  wv_place other; /* for a race: the other access; line 0: none */
  int64_t workgroup[3];
  int wave, lane, other_wave, other_lane; /* -1: no particular one */
  const char *buffer;                     /* NULL: not about memory */
  int rank;                               /* of index; 0: unknown */
  int64_t index[8];
  int64_t address; /* in bytes from the start of the buffer, or of shared memory; -1: unknown */
} wv_finding;
WV_API bool wv_report_finding(wv_report *r, int i, wv_finding *out); /* false past the last */

/* What the ops of one source line did, over the whole grid. */
typedef struct wv_cost {
  wv_place at;
  uint64_t instructions, lane_ops;  /* issued by waves; executed by lanes */
  uint64_t shared, conflicts;       /* accesses to shared memory; extra cycles for conflicts */
  uint64_t sectors, sectors_needed; /* 32-byte sectors of global memory: moved; requested */
} wv_cost;
WV_API bool wv_report_line(wv_report *r, int i, wv_cost *out); /* false past the last */
WV_API wv_cost wv_report_total(const wv_report *r);

/* Elements in host memory, as the evaluator reads them; numbers are rounded as by casts. */
WV_API size_t wv_data_bytes(const char *dtype, int64_t elements); /* 0: no such dtype */
WV_API double wv_data_get(const char *dtype, const void *data, int64_t element);
WV_API void wv_data_set(const char *dtype, void *data, int64_t element, double v);

/* ---- devices ------------------------------------------------------------------------------- */

/* Drivers are loaded on first use, never linked: WAVE_CUDA_LIB and WAVE_HIP_LIB name other libraries
 * than the system's libcuda and libamdhip64. */
enum { WV_HOST = 1, WV_CUDA = 2, WV_HIP = 10 }; /* kinds of devices, by DLPack's numbers */

typedef struct wv_device {
  int kind, index;
} wv_device;

typedef struct wv_device_info {
  char name[128];
  const char *target; /* the target of programs compiled for it, as wv_target_info names it */
  int64_t memory;     /* bytes */
  int units;          /* SMs, CUs, cores */
  int driver;         /* version of the driver: 13000 is CUDA 13.0, 60241133 HIP 6.2; 0: none */
} wv_device_info;

WV_API int wv_device_kind(int i);                 /* all kinds, best first; 0 past the end */
WV_API const char *wv_device_kind_name(int kind); /* "cuda", "hip", "cpu"; NULL: no such kind */

/* The number of devices; also 0 without a driver. */
WV_API int wv_device_count(wv_ctx *cx, int kind);
WV_API bool wv_device_get(wv_ctx *cx, wv_device d, wv_device_info *out); /* false after reporting
                                                                          * why */

/* The machine for which a kernel is compiled, and what runs it there. */
typedef struct wv_machine {
  const char *kind;      /* "eval", "sim", "cpu", "cuda" or "hip" */
  const char *target;    /* as wv_target_info names it, after "sim:" for a simulation; NULL: the
                          * evaluator, or all that this CPU has */
  int device;            /* the GPU on which code is loaded; -1: there is none here */
  bool anywhere;         /* calls with tensors on another kind of device compile for that one */
  const char *remark;    /* why it is not the machine that was named; NULL: it is */
  const char *evaluated; /* why the evaluator runs its kernels although they are for a CPU, as the
                          * end of a sentence; NULL: it does not */
  const char *shown;     /* the target for which passes are shown: the one that was named, even if
                          * another machine runs the kernel */
} wv_machine;

typedef struct wv_machine_options {
  const char *target; /* NULL, "": this machine, its GPU if it has one. Also a kind of device
                       * ("cuda"), names of other tools ("llvm-cpu", "hip/gfx942"), and GPUs without
                       * a row ("sm_87": the newest row that is not newer) */
  const char *device; /* the kind of device if `target` is empty; NULL, "hip": any */
  bool strict;        /* a machine that is not here is an error, and is not replaced by this one */
  bool code_only;     /* nothing is launched: an AMD GPU that is named need not be here */
  wv_place at;        /* for diagnostics */
} wv_machine_options;

/* False after reporting a name that means nothing (E0603), or a machine that is not here (E0601).
 * `out` NULL: only checks the name. The texts live as long as the context. */
WV_API bool wv_machine_find(wv_ctx *cx, const wv_machine_options *o, wv_machine *out);

/* The machine that runs a call with tensors on a kind of device ("cpu", "cuda", "hip"): `m` itself,
 * or one of that kind if m->anywhere. Its target and device are those that wv_compile takes. False:
 * `m` does not run such calls. */
WV_API bool wv_machine_on(wv_ctx *cx, const wv_machine *m, const char *kind, wv_machine *out);

/* Memory of a device, for programs that have no other library for it; wv_device_copy copies between
 * the device and the host in either direction, and waits. */
WV_API void *wv_device_alloc(wv_ctx *cx, wv_device d, size_t bytes);
WV_API void wv_device_release(wv_ctx *cx, wv_device d, void *memory);
WV_API bool wv_device_copy(wv_ctx *cx, wv_device d, void *to, const void *from, size_t bytes);
/* Waits for everything on a stream; an error of a kernel that ran there is reported. */
WV_API bool wv_device_wait(wv_ctx *cx, wv_device d, void *stream);

/* ---- compiled programs --------------------------------------------------------------------- */

/* A kernel compiled for a target. It keeps a copy of the kernel in a context of its own: kernel and
 * context may be freed before it. There may be several *variants*, compiled with properties of a
 * launch (contiguous rows, addresses that are multiples of 16) as facts; a launch uses the first
 * whose guard holds, and compiles it if necessary. */
typedef struct wv_program wv_program;

typedef struct wv_compile_options {
  const char *target; /* "sm_90a"; "cuda", "cpu": that of the device; NULL: the best device here */
  int device;         /* code is loaded there immediately; -1: nowhere, for a machine without one */
  int cache;          /* 1: used; -1: not used; 0: according to WAVE_CACHE_ON, used without it */
  const char *cache_dir;       /* NULL: WAVE_CACHE_DIR, or a folder in the user's cache */
  bool fast_math;              /* the approximations that docs/numerics.md lists */
  const char *start_after;     /* the kernel is a dump taken after this pass, possibly edited */
  const wv_pass_options *dump; /* dumps, times and checks of passes; its passes and target are
                                * ignored. If given, a cached program is compiled again */
} wv_compile_options;

/* NULL after reporting to the kernel's context. `o` may be NULL. */
WV_API wv_program *wv_compile(wv_kernel *k, const wv_compile_options *o);
/* After wv_compile failed for a CPU: why the evaluator (wv_eval) runs the kernel instead, as a
 * sentence. NULL: it does not, because an error says more than that the CPU does not support the
 * kernel yet (E0601), or because such an error is final (`strict`). */
WV_API const char *wv_compile_fallback(wv_kernel *k, const char *target, bool strict);
WV_API void wv_program_free(wv_program *p); /* no launch of it may be in progress on the host */
WV_API const char *wv_program_name(const wv_program *p);
WV_API const char *wv_program_target(const wv_program *p);
WV_API int wv_program_kind(const wv_program *p); /* the kind of device it runs on: WV_CUDA */

typedef struct wv_variant {
  const char *facts; /* what must hold for a launch; "" for the last: nothing */
  bool compiled;
  bool from_cache;
  double compile_ms, load_ms; /* load_ms: in the driver */
  double llvm_ms;             /* part of compile_ms: in LLVM */
  int shared;                 /* bytes of shared memory per workgroup, once compiled */
} wv_variant;
WV_API bool wv_program_variant(wv_program *p, int i, wv_variant *out); /* false past the last */

/* Texts of a variant, which is compiled if necessary: "ir" is one lane's program; "ptx" or "llvm"
 * (also "asm") what the device's driver, or LLVM, is given; on AMD GPUs "asm" is the machine code,
 * and "loops" what limits its speed (wv_code_text); "remarks" what the compiler and the driver
 * reported. They live as long as the program. NULL: the program has no such text, or the reason was
 * reported to `cx`. */
WV_API const char *wv_program_text(wv_program *p, wv_ctx *cx, int variant, const char *what);

/* What the device loads, as it would be in a file: PTX, or an ELF object. *n: the number of bytes.
 * It lives as long as the program; NULL after reporting to `cx`. */
WV_API const void *wv_program_code(wv_program *p, wv_ctx *cx, int variant, size_t *n);

typedef struct wv_resources {
  int registers;    /* per thread */
  int shared;       /* bytes per workgroup */
  int spilled;      /* bytes per thread that did not fit into registers */
  int threads;      /* per workgroup */
  int workgroups;   /* that an SM holds at once */
  double occupancy; /* the fraction of its threads that is then in use */
} wv_resources;
/* Loads the variant on the device if necessary. */
WV_API bool wv_program_resources(wv_program *p, wv_ctx *cx, int variant, int device,
                                 wv_resources *out);

/* Compiles all variants, including those for launches whose assumptions do not hold, and loads them
 * on the device (-1: on none): afterwards no launch compiles anything, not even while a stream is
 * being captured. False after reporting to `cx`. */
WV_API bool wv_program_prepare(wv_program *p, wv_ctx *cx, int device);

/* A program with all its variants as bytes, for applications that embed it: they need no compiler,
 * kernel or cache. The bytes are from malloc; free with wv_free. NULL after reporting to `cx`. */
WV_API char *wv_program_save(wv_program *p, wv_ctx *cx, size_t *n);
/* `device`: code is loaded there immediately; -1: at the first launch. NULL after reporting. The
 * bytes contain machine code: damage is detected, malice is not (docs/security.md). */
WV_API wv_program *wv_program_load(wv_ctx *cx, const void *bytes, size_t n, int device);
/* The same as C source and header, with functions NAME_load and NAME_launch; `header_name`: the
 * file that the source includes. Free the texts with wv_free. */
WV_API bool wv_program_emit_c(wv_program *p, wv_ctx *cx, const char *header_name, char **source,
                              char **header);

/* ---- options by name ------------------------------------------------------------------------ */

/* The options of front ends that take them by name: `wave_compile` of the Python package. The list
 * is in docs/compatibility.md. */
typedef struct wv_option_info {
  const char *name;
  const char *kind; /* "works"; "holds": what it requests is always so; "idle": it has no effect;
                     * "result": a compile fills it in */
  const char *text; /* what it does; of an idle one, why it has no effect */
  const char *on;   /* the kinds of machines where it works: "cpu,cuda"; "": all */
  const char *file; /* "read", "written": it names a file; "": it does not */
  bool is_key;      /* programs compiled with different values differ, even if their kernels do
                     * not */
} wv_option_info;
WV_API bool wv_option_row(int i, wv_option_info *out); /* false past the last */

/* An option whose value is not its default. */
typedef struct wv_option {
  const char *name;
  const char *value; /* a text, a number, True, False, the name of an enumerator, or the items of a
                      * list, separated by commas; NULL: an object of another type */
  const char *shown; /* the value as its author would write it, for messages */
} wv_option;

typedef struct wv_options {
  const wv_option *at;
  int n;
  bool has_schedule; /* the instructions of loops are ordered by hand */
  wv_place place;    /* where they were written, for diagnostics */
} wv_options;

/* Receives what options print, in pieces. NULL, or without a function: the standard output does. */
typedef struct wv_output {
  void (*print)(void *user, const char *text);
  void *user;
} wv_output;

/* False if options cannot be used: *mistake is a sentence about a value that is not allowed, or
 * about options that exclude each other; NULL: an unknown target (E0603) or a file that does not
 * exist (E0618) was reported. */
WV_API bool wv_options_check(wv_ctx *cx, const wv_options *o, const char **mistake);
/* Reports options without effect on kernels for a machine: a remark for each (R0609), or with the
 * option `strict` one error (E0617), and false. Names that are not those of options but resemble one get a
 * warning (W0601), with `strict` an error (E0602). */
WV_API bool wv_options_unused(wv_ctx *cx, const wv_options *o, const wv_machine *m);
/* The same if they request dumps, and passes run only when the kernel is called
 * (wv_kernel_is_open). */
WV_API bool wv_options_undumped(wv_kernel *k, const wv_options *o);
/* Changes a kernel as options request: pipelines, use of shared memory (not if `override_mlir` gave
 * its text, which says so itself), sizes, assumptions, assertions. */
WV_API bool wv_options_apply(wv_kernel *k, const wv_options *o);

/* wv_machine_find for `target`, `device` and `strict`. */
WV_API bool wv_options_machine(wv_ctx *cx, const wv_options *o, wv_machine *out);
/* The option by which kernels are compiled to text only, and cannot be called; NULL: none. */
WV_API const char *wv_options_text_only(const wv_options *o);
/* The kernel that `override_mlir` gives instead of `k`, in the same context; *out NULL: there is no
 * such option. False after reporting, or with a sentence in *mistake. */
WV_API bool wv_options_override(wv_kernel *k, const wv_options *o, wv_kernel **out,
                                const char **mistake);
/* Prints the kernel and its parameters, or writes them to a file, if options request it. */
WV_API bool wv_options_show(wv_kernel *k, const wv_options *o, const wv_output *out);
/* Whether options, or WAVE_DUMP, request output while passes run, or files with code: a kernel that
 * was compiled before must then be compiled again. */
WV_API bool wv_options_dump(wv_ctx *cx, const wv_options *o);
/* What programs for the same machine depend on: the kernel's text and options. Free with wv_free. */
WV_API char *wv_options_key(wv_kernel *k, const wv_options *o);
/* wv_lower for a simulated machine and wv_compile, with dumps, arithmetic and the first pass as
 * options request. An open kernel is not lowered. */
WV_API bool wv_options_lower(wv_kernel *k, const wv_options *o, const wv_machine *m,
                             const wv_output *out);
WV_API wv_program *wv_options_compile(wv_kernel *k, const wv_options *o, const wv_machine *m,
                                      int cache, const char *cache_dir, const wv_output *out);
/* wv_compile_fallback after that. */
WV_API const char *wv_options_fallback(wv_kernel *k, const wv_options *o, const wv_machine *m);

/* ---- launching ----------------------------------------------------------------------------- */

/* A tensor, on any device. Strides count elements. */
typedef struct wv_tensor {
  void *data;
  const int64_t *shape, *strides; /* strides NULL: row-major */
  int rank;
  int dtype; /* index of wv_dtype_name */
  wv_device device;
} wv_tensor;
WV_API int wv_dtype_find(const char *name); /* -1: there is none */
/* Whether an integer dtype has the value: wv_launch, wv_eval and wv_sim take no other (E0702). u64
 * and index take any, as 64 bits. */
WV_API bool wv_dtype_holds(int dtype, int64_t v);

typedef struct wv_launch_arg {
  const wv_tensor *tensor; /* for memory parameters */
  double number;           /* for float scalars */
  int64_t integer;         /* for the others */
} wv_launch_arg;

enum {
  WV_LAUNCH_OVERLAP = 1 /* may begin before the previous kernel on the stream has ended, up to where
                         * it waits for it (programmatic dependent launch) */
};

/* Checks the arguments against the kernel's signature and launches it on the caller's stream (the
 * driver's own handle; NULL: the default one), on the device where the tensors are. Does not wait,
 * allocate or lock, unless the kernel has debug logs (wv_launch_logged). May be called by several
 * threads at once, each with a context of its own, to which mistakes are reported; nothing has been
 * launched then. In a stream that is being captured, everything must have been compiled and loaded
 * before: launch it once, or call wv_program_warm. */
WV_API bool wv_launch(wv_program *p, wv_ctx *cx, const wv_launch_arg *args, int nargs, void *stream,
                      unsigned flags);
/* Launches that report to this context and return when the kernel has run, as on the CPU, call
 * `interrupted` every few milliseconds, in the launching thread. True: the part of the kernel that
 * has not begun is abandoned, loops that wait end, and the launch fails with E0712. NULL: never. */
WV_API void wv_ctx_interrupt(wv_ctx *cx, bool (*interrupted)(void *user), void *user);
/* A program that calls exit() while other threads may be compiling for the CPU must call this
 * first, with true: it returns when libLLVM is at rest; a thread that then wants to compile waits,
 * and the process ends without it. Without this, exit() while libLLVM is being loaded may crash.
 * False: the process continues after all. */
WV_API void wv_exiting(bool is_exiting);
/* The same with the output of the kernel's debug_logs: when it has run, `log` (may be NULL) is
 * called once for each, with the whole logged tensor in host memory (row-major; a single number is
 * a tensor of one element). Kernels with debug logs allocate memory for them and are waited for at
 * every launch, also with wv_launch, where the logs are dropped; in a stream that is being captured
 * they are refused. */
WV_API bool wv_launch_logged(wv_program *p, wv_ctx *cx, const wv_launch_arg *args, int nargs,
                             void *stream,
                             void (*log)(void *user, const char *label, const wv_buffer *value),
                             void *user);
/* The same up to the launch itself: compiles and loads what these arguments need. */
WV_API bool wv_program_warm(wv_program *p, wv_ctx *cx, const wv_launch_arg *args, int nargs);

/* ---- the cache of compiled programs -------------------------------------------------------- */

typedef struct wv_cache_entry {
  const char *path, *kernel, *target; /* kernel and target: "" if the file is damaged */
  int64_t bytes;
  const char *damage; /* what is wrong with the file; NULL: nothing */
  int64_t used;       /* when it was last written or used: seconds since 1970 */
} wv_cache_entry;

WV_API const char *wv_cache_dir(wv_ctx *cx); /* the default of cache_dir */
/* The maximum total size of a cache's files in bytes: WAVE_CACHE_SIZE, or 512 MiB; 0: unlimited.
 * Writing a file removes the least recently used ones. */
WV_API int64_t wv_cache_limit(wv_ctx *cx);
/* Calls `each` for the files of a cache, ordered by name; returns how many there are. */
WV_API int wv_cache_each(wv_ctx *cx, const char *dir,
                         void (*each)(void *user, const wv_cache_entry *e), void *user);
WV_API int wv_cache_clear(wv_ctx *cx, const char *dir); /* returns how many files were removed */

/* ---- a page of measurements ---------------------------------------------------------------- */

/* Another implementation of a kernel's computation. */
typedef struct wv_rival {
  const char *name; /* "NumPy" */
  double ms;
} wv_rival;

/* A measurement of a kernel on a device. Unknown texts may be NULL, unknown numbers 0. */
typedef struct wv_measured {
  const char *kernel, *about;     /* its name; a sentence about it */
  const char *target, *arguments; /* "cpu"; "500x300 390x300 500x390" */
  double compile_ms, code_ms;     /* by Wave; by LLVM or the driver */
  double run_ms;                  /* of one call */
  double error, allowed;          /* from the exact result: the largest, and the permitted one */
  double operations, bytes;       /* per call; bytes: of the arguments */
  const wv_rival *rivals;         /* on the same device */
  int nrivals;
  const char *source; /* lines of `file` from `line` on */
  const char *file;
  uint32_t line;
  const wv_diag *remarks; /* shown below the lines they refer to */
  int nremarks;
  const char *program; /* what one thread does, as text */
} wv_measured;

typedef struct wv_measurements {
  const char *title;
  const char *const *machine; /* lines about it */
  int nmachine;
  const wv_measured *rows;
  int n;
} wv_measurements;

/* One self-contained HTML page: a table, plots, the kernels' sources with remarks. Free with
 * wv_free. */
WV_API char *wv_measurements_html(const wv_measurements *m);

/* ---- environment variables ----------------------------------------------------------------- */

/* Variables are read when they are needed; docs/environment.md lists them. */
typedef struct wv_variable_info {
  const char *name;   /* "WAVE_CACHE_ON" */
  const char *reader; /* "any" program that uses this interface; only the "Python" package, only the
                       * project's own "tools"; "none": it has no effect */
  const char *kind;   /* "text"; "switch": 0, off, no, false or 1, on, yes, true; "count": from 0;
                       * "some": from 1; "size": bytes, or with K, M, G multiples of 1024 */
  const char *text;   /* what it does */
} wv_variable_info;
WV_API bool wv_variable_row(int i, wv_variable_info *out); /* false past the last */
/* The value of a variable of the list; NULL: it is not set, or empty. Valid until the environment
 * changes. */
WV_API const char *wv_variable_text(const char *name);
/* The value of one that is not a text; `otherwise` if it is not set, or not valid. */
WV_API int64_t wv_variable_number(const char *name, int64_t otherwise);
/* Reports, as warnings (W0902), variables whose names begin with WAVE_ and are unknown, and those
 * with values that are not valid. */
WV_API void wv_variables_check(wv_ctx *cx);

/* ---- tests of what happens when the compiler fails ------------------------------------------ */

/* In this thread, the n-th of these from now on fails, once; n 0: none does.
 *
 *   "malloc"  memory that the compiler requests from the system
 *   "alloc"   any allocation              }
 *   "assert"  an assertion                } in builds with WAVE_FAULTS
 *   "site"    an assertion's first time   }
 *
 * Returns how many there were since the last call; -1: they cannot fail in this build. */
WV_API long wv_test_fault(const char *what, long n);

/* ---- tests of the executor of machine code --------------------------------------------------- */

/* An instruction of a program for `emu:`. Of waits and barriers: what the launches so far made of
 * them. */
typedef struct wv_instruction {
  uint64_t at;      /* distance from the start of the kernel, in bytes */
  const char *text; /* lives as long as the program */
  bool executed;
  bool needed; /* something was accessed that no other wait covered, or that no other barrier
                * ordered */
} wv_instruction;
/* Loads the variant if necessary. False past the last one, and after reporting to `cx`. */
WV_API bool wv_test_instruction(wv_program *p, wv_ctx *cx, int variant, int i, wv_instruction *out);
/* A seeded fault: launches execute nothing in place of instruction `i` from now on; -1: all of them
 * are executed again. No launch may be in progress. False: `i` is not an instruction. */
WV_API bool wv_test_remove(wv_program *p, wv_ctx *cx, int variant, int i);

/* ---- tables -------------------------------------------------------------------------------- */

/* Rows of the compiler's tables, for help texts and front ends; false past the last one. */
WV_API bool wv_op_info(int i, const char **name, const char **level, const char **doc);
WV_API bool wv_pass_info(int i, const char **name, const char **doc);
/* The machines that it works for: "lanes" (those that run waves of lanes), "loops" (those where one
 * thread runs a workgroup), "both"; NULL past the last pass. */
WV_API const char *wv_pass_machines(int i);
WV_API bool wv_target_info(int i, const char **name, const char **doc);
/* What that row can be used for, as words: "code": code is generated for it; "sim": `sim:NAME`
 * simulates it; "emu": `emu:NAME` executes its machine code on the host. NULL past the last. */
WV_API const char *wv_target_uses(int i);
/* What runs kernels for a target: "eval", "sim" (for "sim:gfx942"), "cpu", "device"; NULL after
 * reporting a name that does not exist. */
WV_API const char *wv_target_kind(wv_ctx *cx, const char *name);
/* The kind of device that it names: "eval", "sim", "cpu", "cuda", "hip"; NULL: there is none. */
WV_API const char *wv_target_device(const char *name);
/* The target of this machine, for front ends that always name one: WAVE_DEFAULT_ARCH; `gpu`, a GPU
 * that the caller knows of and this interface may not (NULL: none); the one that wv_machine_find
 * finds; or "cpu". It lives as long as the context. */
WV_API const char *wv_target_default(wv_ctx *cx, const char *gpu);
/* The family of AMD GPUs by which public code chooses kernels: "CDNA" (also for machines of other
 * vendors), "RDNA", "GFX1250". */
WV_API const char *wv_target_family(const char *name);
WV_API bool wv_diag_info(int i, const char **code, const char **title, const char **explanation);

typedef struct wv_mma_info {
  const char *name;
  int code; /* the value in the public package's enumeration */
  bool scaled;
  int m, n, k, lanes;
  int operand_elems, acc_elems; /* per lane; 0: not defined */
} wv_mma_info;
WV_API bool wv_mma_row(int i, wv_mma_info *out);
WV_API bool wv_mma_find(const char *name, wv_mma_info *out); /* in any spelling; false: unknown */

#ifdef __cplusplus
}
#endif
#endif
