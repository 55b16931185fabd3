/* ir.h: one intermediate representation, two levels.
 *
 * A Kernel is a list of constraints and one Region. A Region is a list of Ops; an Op has operands
 * (Values), results (Values), attributes and, for loops and conditionals, a body Region. There are
 * no blocks and no branches: control flow is nesting. A value may be used by later ops of its own
 * region and of every region nested in those (there is no other form of capture).
 *
 * At TILE level a value is a whole tile of a logical tensor; at THREAD level it is what one lane
 * holds. The same structure, printer, parser and verifier serve both: ops.def says at which level
 * an op may occur.
 *
 * Types, symbols and names are interned in the Context: equality is ==. Ops and values live in the
 * kernel's arena. Analyses keep their results in arrays indexed by op->id or value->id, never in
 * these structs. */
#ifndef WV_IR_H
#define WV_IR_H

#include "base/diag.h"
#include "sym/sym.h"
#include "target/descriptor.h"

/* ---- tables -------------------------------------------------------------------------------- */

typedef enum DType {
#define DTYPE(name, class, bits, exponent, mantissa, doc) DTYPE_##name,
#include "ir/types.def"
  DTYPE_COUNT
} DType;

typedef enum DTypeClass { DTYPE_FLOAT, DTYPE_INT, DTYPE_UINT, DTYPE_BOOL, DTYPE_INDEX } DTypeClass;

typedef struct DTypeInfo {
  const char *name, *doc;
  DTypeClass class;
  int bits, exponent, mantissa;
} DTypeInfo;

extern const DTypeInfo dtype_info[DTYPE_COUNT];

typedef enum OpKind {
#define OP(name, level, args, results, flags, rule, lead, attrs, doc) OP_##name,
#include "ir/ops.def"
  OP_COUNT
} OpKind;

typedef enum AttrKey {
#define ATTR(name, kind, doc) ATTR_##name,
#include "ir/attrs.def"
  ATTR_COUNT,
  ATTR_NONE = -1
} AttrKey;

typedef enum AttrKind {
  ATTR_KIND_NUMBER,
  ATTR_KIND_EXPR,
  ATTR_KIND_DIM,
  ATTR_KIND_EXPRS,
  ATTR_KIND_INT,
  ATTR_KIND_INTS,
  ATTR_KIND_FLAG,
  ATTR_KIND_TEXT,
  ATTR_KIND_WORD,
  ATTR_KIND_TEXTS,
  ATTR_KIND_BOUNDS,
  ATTR_KIND_MAPPING,
  ATTR_KIND_MMA,
  ATTR_KIND_COUNTS,
  ATTR_KIND_ITERS,
  ATTR_KIND_MEMORY,
  ATTR_KIND_DESCRIPTOR,
  ATTR_KIND_STEPS
} AttrKind;

typedef enum ConstraintKind {
#define CONSTRAINT(name, doc, clauses) CONSTRAINT_##name,
#include "ir/constraints.def"
  CONSTRAINT_COUNT
} ConstraintKind;

typedef enum Level { LEVEL_TILE = 1, LEVEL_THREAD = 2, LEVEL_BOTH = 3 } Level;

enum OpFlags {
  OPF_PURE = 1,
  OPF_COMM = 2,
  OPF_READS = 4,
  OPF_WRITES = 8,
  OPF_SYNC = 16,
  OPF_REGION = 32,
  OPF_ENDS = 64,
  OPF_HINT = 128,
  OPF_ZERO = 256
};

enum { OP_ANY = -1, OP_MANY = -1 };

typedef struct OpInfo {
  const char *name, *doc;
  Level level;
  int least, most; /* operands; most OP_ANY: no limit */
  int results;     /* OP_MANY: one per carried value */
  unsigned flags;
  int rule;     /* InferRule of infer.c */
  AttrKey lead; /* written bare after the name, or ATTR_NONE */
} OpInfo;

typedef struct AttrInfo {
  const char *name, *doc;
  AttrKind kind;
} AttrInfo;

extern const OpInfo op_info[OP_COUNT];
extern const AttrInfo attr_info[ATTR_COUNT];
extern const char *const constraint_name[CONSTRAINT_COUNT];

bool op_admits(OpKind kind, AttrKey key); /* whether it may carry the attribute, including the lead
                                           * one */

/* ---- context ------------------------------------------------------------------------------- */

typedef struct Type Type;

typedef struct Context {
  Arena *arena;
  SymCtx *sym;
  Intern names;
  Sources sources;
  Diags diags;
  struct TypeTable *types;
  const Sym *global_space, *shared_space; /* $GLOBAL_ADDRESS_SPACE, $SHARED_ADDRESS_SPACE */
} Context;

Context *context_new(void);
void context_free(Context *cx);
Context *context_owned(Context *cx); /* as arena_owned */

/* ---- types --------------------------------------------------------------------------------- */

enum { IR_MAX_RANK = 8, IR_MAX_VEC = 4096, IR_MAX_PARAMS = 1024, IR_MAX_ROWS = 4096 };

typedef enum TypeKind {
  TYPE_scalar, /* one number: f32 */
  TYPE_vec,    /* vec<4, f32>: what one lane holds in n registers; n >= 2, otherwise it is a
                * scalar */
  TYPE_tile,   /* tile<M, N, f32>: a logical tensor, distributed; rank >= 1 */
  TYPE_mem,    /* mem<M, K, f16>: memory; rank >= 1 */
  TYPE_token   /* token: an asynchronous operation in flight */
} TypeKind;

/* A dimension is an expression: a symbol, `symbol * rational` (a scaled dimension, which belongs to
 * its symbol), or any other expression, which is a dimension of its own. */
struct Type {
  TypeKind kind;
  DType dtype;
  int n; /* elements of a vec; 1 for a scalar, 0 for the others */
  int rank;
  const Sym *const *dims;
  const Sym *space;         /* mem: placement request, global unless it resolves to shared */
  const Sym *const *layout; /* mem: physical extents, NULL entry: the tensor's own; NULL: none */
};

/* NULL if a dim is NULL, occurs twice, or there are more than IR_MAX_RANK. */
const Type *type_scalar(Context *cx, DType dtype);
const Type *type_vec(Context *cx, int n, DType dtype); /* n 1: scalar; NULL when n < 1 */
const Type *type_tile(Context *cx, const Sym *const *dims, int rank,
                      DType dtype); /* rank 0: scalar */
const Type *type_mem(Context *cx, const Sym *const *dims, int rank, DType dtype, const Sym *space,
                     const Sym *const *layout);
const Type *type_token(Context *cx);
const Type *type_with_dtype(Context *cx, const Type *t, DType dtype); /* tile, vec or scalar */

int type_base_dim(const Type *t, const Sym *dim);    /* the one with the same base; -1: none */
int type_repeated(const Type *from, const Type *to); /* the dim in which two types of the same rank
                                                      * differ */
/* Elements along `fine` per element along `coarse`: 32 for `K` and `K/32`. 0: not a whole
 * number. */
int dim_ratio(const Sym *fine, const Sym *coarse);
bool type_has_dim(const Type *t, const Sym *dim); /* by base dimension */
const Sym *dim_base(const Sym *dim);              /* K for K/32; itself otherwise */
bool type_is_value(const Type *t);                /* tile, vec or scalar */
bool dtype_parse(const char *name, DType *out);
void type_print(StrBuf *out, const Context *cx, const Type *t);
const char *type_text(Arena *a, const Context *cx, const Type *t);

/* ---- attributes ---------------------------------------------------------------------------- */

typedef struct SymPair {
  const Sym *key, *value;
} SymPair;

typedef struct SymPairs {
  SymPair *at;
  int n;
} SymPairs;

/* out[outputs(it)] = in[inputs(it), dynamic values] for all iterators $index0 .. $index(n-1).
 * `dynamic[i]` gives the coordinates of the i-th dynamic value: {dimension: expression}. */
typedef struct Mapping {
  int niterators;
  SymPairs inputs, outputs;
  SymPairs *dynamic;
  int ndynamic;
} Mapping;

/* A matrix instruction by name (target/mma.def), or a dot product without one. */
typedef struct MmaChoice {
  const char *name; /* NULL: a GenericDot with the fields below */
  int out_vec, k_vec, k_mult;
  char along;                  /* 'M' or 'N' */
  bool swap;                   /* computes the transposed product, with lhs and rhs exchanged */
  bool shared_lhs, shared_rhs; /* operands that are read from shared memory, not from registers */
  Digits order;     /* positions along k in mixed radix -> the program's k, for both operands; n 0:
                 * unchanged */
  Digits across[2]; /* likewise along the instruction's m and n, for the part of a group of waves in
                     * one operand and in the result */
} MmaChoice;

typedef struct NamedCount {
  const char *name;
  int64_t count;
} NamedCount;

typedef struct LogIter {
  const Sym *symbol, *axis, *count;
} LogIter;

/* A function of $0 and $1 in steps; $2 is the first one's result, and the last one's is the result
 * of the function. Each is an elementwise op, or `scalar` with a number (ir/ops/combine.h). */
enum { STEP_ARGS = 3 };
typedef struct CombineStep {
  OpKind kind;
  DType dtype; /* of the result */
  int nargs;
  int args[STEP_ARGS];
  double number;  /* of `scalar`, when sym is NULL */
  const Sym *sym; /* of `scalar`: an integer */
} CombineStep;

typedef struct Attr {
  AttrKey key;
  int n; /* entries of the lists below */
  union {
    double number;            /* NUMBER when sym is NULL */
    int64_t integer;          /* INT */
    const char *text;         /* TEXT, WORD */
    const Sym *const *exprs;  /* EXPRS */
    const int64_t *ints;      /* INTS */
    const char *const *texts; /* TEXTS, sorted */
    SymPair *pairs;           /* BOUNDS, in the order written */
    const Mapping *mapping;
    const MmaChoice *mma;
    NamedCount *counts;
    LogIter *iters;
    const MemLayout *memory;
    const Descriptor *descriptor;
    const CombineStep *steps; /* STEPS */
  };
  const Sym *sym; /* EXPR, DIM, and NUMBER when it is an expression */
} Attr;

/* ---- values, ops, regions ------------------------------------------------------------------ */

typedef struct Op Op;
typedef struct Region Region;
typedef struct Kernel Kernel;

typedef struct Value {
  const Type *type;
  Op *def;          /* the op it is a result of; NULL for a region's argument */
  Region *owner;    /* the region it is an argument of; NULL for a result */
  int index;        /* which result or argument */
  int id;           /* dense within the kernel, in program order after ir_renumber */
  const char *name; /* a hint for the printer; may be NULL */
  bool varying;     /* differs between threads at equal coordinates: no pass treats it as a tile */
  const Layout *layout; /* which thread holds which element, over the dims of the type; normalised;
                         * NULL: not decided yet, or the tile stays in shared memory */
} Value;

struct Op {
  OpKind kind;
  int id; /* dense within the kernel, in program order after ir_renumber */
  Span at;
  Op *prev, *next;
  Region *parent;
  Value **args;
  int nargs;
  Value *results;
  int nresults;
  Attr *attrs; /* sorted by key */
  int nattrs;
  Region *body; /* NULL without one */
};

struct Region {
  Op *owner;    /* NULL for a kernel's body */
  Value **args; /* carried values; for a kernel its parameters; for a while loop the axis first */
  int nargs;
  Op *first, *last;
};

/* ---- constraints and kernels --------------------------------------------------------------- */

/* Where an op of a pipelined loop runs: in iteration i of the loop, an op of stage s is that of
 * iteration i - s; ops with smaller cycles come first. */
typedef struct Place {
  int stage, cycle;
} Place;

/* Names of ops, as schedules write them (ir/schedule/schedule.h). */
typedef struct OpNames {
  const char *const *at;
  int n;
} OpNames;

/* A group of waves of a workgroup. */
typedef struct Role {
  const char *name;
  int waves, registers; /* of a thread; 0: as many as are useful */
} Role;

typedef struct Roles {
  const Role *at;
  int n;
} Roles;

/* A row of the header. The fields of each kind are the clauses that constraints.def lists:
 * `c->workgroup.axis`, `c->assume.condition`. */
#define FIELD_DIM(name) const Sym *name;
#define FIELD_EXPR(name) const Sym *name;
#define FIELD_INT(name) int name;
#define FIELD_FLAG(name) bool name;
#define FIELD_THREE(name) const Sym *name[3];
#define FIELD_MMA(name) MmaChoice name;
#define FIELD_PAIRS(name) SymPairs name;
#define FIELD_DIMS(name) SymPairs name;
#define FIELD_COUNT(name) int name;
#define FIELD_WORD(name) const char *name;
#define FIELD_PLACE(name) Place name;
#define FIELD_OPS(name) OpNames name;
#define FIELD_ROLES(name) Roles name;
typedef struct Constraint {
  ConstraintKind kind;
  Span at;
  union {
    /* What kinds have in common, as the first fields of each. */
    const Sym *subject; /* the dimension, symbol or argument that a row with a DIM after its
                         * keyword is about */
    struct {
      const Sym *dim, *size;
    } divided; /* workgroup, wave, tile, device: a dimension and its tile */
    struct {
      const Sym *allowed;
    } option; /* boxes, repack, again, warm, fetch, swizzle, overlap, subnormals, buffers: 0 or 1; occupancy: a number */
    struct {
      const char *loop;
    } scheduled; /* schedule, ring, place, prio, fence, roles, member, turns, order */
#define CONSTRAINT(name, doc, clauses)                                                             \
  struct name##_row {                                                                              \
    clauses                                                                                        \
  } name;
#define CLAUSE(row, word, kind, field, need, api) FIELD_##kind(field)
#define INNER(row, word, kind, field, need) FIELD_##kind(field)
#include "ir/constraints.def"
  };
} Constraint;

typedef struct hardware_row HardwareSpec;
typedef struct machine_row MachineSpec;
#define IN_BANDS "$WGBANDS" /* in lowered programs: 1 if a CPU runs the grid in bands, or 0 */
enum { CLUSTER_AXIS = 2 }; /* of the grid: workgroups that share tiles follow each other along it */
typedef struct launch_row LaunchSpec;

typedef struct Param {
  const char *name;
  const Sym *binds;   /* the symbol a scalar argument defines, or NULL */
  const char *log;    /* the label of a debug log kept there, which no caller passes; else NULL */
  bool workspace;     /* not passed by the caller: zeros initially, which the kernel restores */
  bool undefined;     /* a workspace that contains anything, before and after the kernel */
  const char *report; /* not passed by the caller: zeros initially, then the failures; the text of
                       * base/failures.h; else NULL */
  Span at;
} Param;

struct Kernel {
  Context *cx;
  Arena *arena;
  const char *name;
  Span at;
  Level level;
  Region *body;
  Vec(Param) params; /* one per argument of the body; those with `log` last */
  Vec(Constraint) constraints;
  int nops, nvalues; /* upper bounds of the ids */
  bool warned;       /* by ir_warn */
  Arena *proofs;     /* arena of `facts` and of what extends them */
  const SymFacts *facts;
  Vec(SymBinding) counters; /* of axes, as ir_loop_counter names them */
};

/* ---- edit.c: structure --------------------------------------------------------------------- */

Kernel *kernel_new(Context *cx, const char *name, Span at);
void kernel_free(Kernel *k);
const SymFacts *kernel_facts(Kernel *k); /* empty and lasting: what extends them is kept with k */
Value *kernel_add_param(Kernel *k, const char *name, const Type *type, const Sym *binds, Span at);
void kernel_set_log(Kernel *k, const Value *param, const char *label);
void kernel_set_report(Kernel *k, const Value *param, const char *text);
const Value *kernel_report(const Kernel *k); /* the parameter of failed assertions; NULL: none */
Value *kernel_logged(const Kernel *k, const char *label); /* NULL: no log has this label */
int kernel_given(const Kernel *k); /* parameters that a caller passes: no logs, workspace, report */
bool kernel_has_param(const Kernel *k, const char *name);
Op *ir_op_new(Kernel *k, OpKind kind, Span at, Value *const *args, int nargs);
void ir_set_results(Kernel *k, Op *op, const Type *const *types, int n);
Value *ir_add_arg(Kernel *k, Region *r, const Type *type, const char *name);
void ir_add_operand(Kernel *k, Op *op, Value *v); /* after the others */
Region *ir_region_new(Kernel *k, Op *owner);
void ir_append(Region *r, Op *op);
void ir_insert_before(Op *where, Op *op);
void ir_insert_after(Op *where, Op *op);
/* Makes an op, with one result of `type` (NULL: none), and inserts it before `before`. */
Op *ir_insert(Kernel *k, Op *before, OpKind kind, Span at, Value *const *args, int nargs,
              const Type *type);
void ir_remove(Op *op);
void ir_replace_uses(Kernel *k, const Value *from, Value *to);
void op_rename_args(Op *op, Value *const *to);       /* by value id; NULL: the operand stays */
int ir_count_uses(const Region *r, const Value *v);  /* in it and in the regions inside */
bool op_takes(const Op *op, const Value *v);         /* as an operand */
bool op_is_inside(const Op *op, const Op *outer);    /* it is `outer`, or in a region of it */
bool value_is_used(const Kernel *k, const Value *v); /* by any op */
bool value_is_zero(const Value *v);                  /* a fill with 0 */
void ir_renumber(Kernel *k);
void ir_set_layout(Kernel *k, Value *v, const Layout *l); /* a copy, normalised; NULL: none */

/* Program order, parents before children. */
Op *ir_next(const Op *op);
Op *ir_first(const Kernel *k);

const Attr *op_attr(const Op *op, AttrKey key); /* NULL: absent */
void op_set_attr(Kernel *k, Op *op, Attr attr);
void op_drop_attr(Op *op, AttrKey key);
static inline bool op_has(const Op *op, AttrKey key) { return op_attr(op, key) != NULL; }
/* The range of an immediate, in elements: their bytes are a number of 64 bits. */
#define IMM_MOST (INT64_C(1) << 48)
static inline int64_t op_imm(const Op *op, AttrKey key) { /* of ATTR_imm, ATTR_imm_from */
  const Attr *a = op_attr(op, key);
  return a ? a->integer : 0;
}
/* It may be moved, repeated, or removed if its result is not used. */
static inline bool op_is_pure(const Op *op) {
  return (op_info[op->kind].flags & OPF_PURE) && !op_has(op, ATTR_volatile);
}
/* Its result at a position follows from its operands at that position. */
static inline bool op_is_elementwise(const Op *op) {
  const OpInfo *info = &op_info[op->kind];
  return info->level == LEVEL_BOTH && (info->flags & OPF_PURE) && op->nargs && !op->body;
}
/* If all operands are 0, so is the result. */
static inline bool op_keeps_zeros(const Op *op) { return op_info[op->kind].flags & OPF_ZERO; }
OpKind op_find(const char *name);    /* OP_COUNT: none */
AttrKey attr_find(const char *name); /* ATTR_NONE: none */

/* Operands of a region op. A for loop with `from` has its start first; an if without `expr` has its
 * condition first; a while loop has the axis value first, and it is carried. */
int op_carried(const Op *op);      /* index of the first carried operand */
int64_t op_step(const Op *op);     /* of a for loop: 1 unless it says more */
Value *op_condition(const Op *op); /* of an if: its condition value, or NULL */
/* How often a for loop from 0 runs whose counter stays below `trips`. */
const Sym *op_iterations(const Kernel *k, const Op *loop, const Sym *trips);
/* Whether its counter is `to` a known number of iterations after it was `from`. */
bool op_iterations_apart(const Kernel *k, const Op *loop, const Sym *from, const Sym *to, int *n);

/* The symbol that counts the iterations of a loop over `axis`: $ARG<axis>, or the name given by its
 * tile constraint. */
const Sym *ir_loop_counter(Kernel *k, const Sym *axis);
/* Properties of an argument known at launch: $SIZE_a_0, $STRIDE_a_0; with dim -1 $BASE_a. */
const Sym *ir_param_symbol(const Kernel *k, int param, const char *what, int dim);
/* The launch value of a symbol to which the header gives none, over $SIZE_a_0 and the like; NULL:
 * no tensor determines it. */
const Sym *ir_symbol_size(const Kernel *k, const Sym *symbol);
/* Reports that a symbol has no value, where the first row divides work by it. False. */
bool ir_fail_unknown(const Kernel *k, const char *name);
/* What gives a symbol without a value one. */
const char *ir_unknown_hint(const Kernel *k, const char *name);
/* Lets tensors disagree about symbols that no row gives a value: each layout becomes free there. */
void kernel_free_sizes(Kernel *k);
/* In the condition of a while loop: element 0 of carried value i, an integer (E0410). */
#define WV_ITER_ARG "$GET_ITER_ARG_"
const Sym *ir_iter_arg(Context *cx, int i);
/* `$index0`, `$dynamic_val1`: the compiler's own numbered symbols. */
const Sym *ir_numbered_symbol(Context *cx, const char *prefix, int i, bool nonneg);
/* The first row of a kind, or the first one about `subject`; NULL: none. */
const Constraint *kernel_constraint(const Kernel *k, ConstraintKind kind, const Sym *subject);
/* The next row of a kind after `c`, or the first if that is NULL; NULL: none. */
const Constraint *kernel_next_row(const Kernel *k, ConstraintKind kind, const Constraint *c);
#define EACH_ROW(k, row_kind, c)                                                                   \
  for (const Constraint *c = NULL; (c = kernel_next_row(k, CONSTRAINT_##row_kind, c));)
/* The rows of which a kernel has at most one; NULL: none. */
const HardwareSpec *kernel_hardware(const Kernel *k);
const MachineSpec *kernel_machine(const Kernel *k);
/* The `persist` row, if workgroups loop over tiles of the grid; NULL: each computes one. */
const Constraint *kernel_persistent(const Kernel *k);
/* The dimension of the grid, 0 to 2, along which the workgroups of a cluster share the iterations of a
 * loop (the pass `split`), and how many they are; -1: none do. */
int kernel_split_axis(const Kernel *k, int *workgroups);
const LaunchSpec *kernel_launch(const Kernel *k);
/* e with the values that symbols are expected to have (`expect`), for decisions only: launches may have others. */
const Sym *kernel_expected(const Kernel *k, const Sym *e);
/* The workgroup dimension along which the waves of `dim` are arranged: that of its workgroup row, or
 * for waves that share the tile of a loop the first dimension that no other wave row uses. -1: no
 * wave row, or nothing it could divide; 3 and more: no waves can lie there. */
int kernel_wave_axis(const Kernel *k, const Sym *dim);
/* The row whose tile the wave row of `dim` divides: workgroup, else tile; NULL: there is none. */
const Constraint *kernel_wave_tile(const Kernel *k, const Sym *dim);
/* Threads of a workgroup, from a launch row; 0: unknown, or more than any machine has. */
int launch_threads(const LaunchSpec *launch);
/* Of more than one workgroup, as far as is known. */
bool ir_is_cluster(const Sym *const cluster[3]);
/* A row that divides a dimension over workgroups or over the iterations of a loop; the twin that an
 * alias gives it is also such a row. */
typedef struct DivisionRow {
  ConstraintKind kind;
  Span at;
  const Sym *dim, *size, *start, *count;
  const Sym *loop; /* tile: the axis whose loop moves it */
  int axis;        /* workgroup */
  bool secondary;
} DivisionRow;
DivisionRow kernel_division_row(const Kernel *k, const Constraint *c);
/* What an alias row derives from `x`: its expression with x for $ALIAS. */
const Sym *ir_alias_of(Context *cx, const Constraint *alias, const Sym *x);
/* Turns a row on the dimension that an alias derives from into its twin on the alias, with a tile
 * derived in the same way; a twin of size 0 does not exist. False: it is another dimension. */
bool ir_alias_row(Context *cx, const Constraint *alias, DivisionRow *row);
/* The values that the header gives to symbols, not yet resolved: bind rows, and alias rows of
 * dimensions without a size of their own. Writes at most one per row; returns how many. */
int kernel_bindings(const Kernel *k, SymBinding *out);

bool ir_equal(const Kernel *a, const Kernel *b); /* ignoring names and source locations */

/* ---- clone.c ------------------------------------------------------------------------------- */

/* Deep copies, which outlive the original: in its context, or in another one. */
Kernel *kernel_clone(const Kernel *k);
Kernel *kernel_clone_to(Context *cx, const Kernel *k);
/* Replaces the content of k with a copy of another kernel of the same context. */
void kernel_become(Kernel *k, const Kernel *other);

/* Appends a copy of op, including its body. `map` gives, by value id, the replacement of an operand
 * in the copy (NULL: itself) and receives the results. */
void ir_clone_op(Kernel *to, Region *dst, const Op *op, Value **map);

/* ---- assumptions.c ------------------------------------------------------------------------- */

/* Arguments give every symbol of e a value, so conditions on it can be checked at a launch. Only
 * such conditions become facts. */
bool ir_is_of_launch(const Kernel *k, const Sym *e);
/* Drops assumptions that are false for bound sizes, with a remark. False after reporting that one
 * of these is required. */
bool kernel_settle_assumptions(Kernel *k);
void kernel_drop_assumptions(Kernel *k);
void kernel_require_assumptions(Kernel *k); /* launches that do not satisfy them are refused */
/* It has assumptions, and launches that do not satisfy them use code compiled without them. */
bool kernel_has_fallback(const Kernel *k);
/* Turns errors after `before` (NULL: all) into notes of one that says that the kernel needs its
 * assumptions. */
void kernel_blame_assumptions(Kernel *k, Diag *before);
/* assumed_sets.c: turns assumptions about symbols that a tile kernel sets into reports. Needed
 * once. */
void kernel_check_sets(Kernel *k);
bool kernel_has_checks(const Kernel *k); /* they are there: nothing else needs to check */
/* All assumptions about a symbol, to be checked where an op sets it; NULL: none. */
const Sym *kernel_assumed_of(const Kernel *k, const Sym *symbol, bool *required);

/* ---- infer.c, verify.c --------------------------------------------------------------------- */

/* The result types of an op with these operands and attributes. `given`: what the author wrote, or
 * NULL. Writes op_info results types and returns true, or reports and returns false. */
bool ir_infer(Kernel *k, const Op *op, const Type *given, const Type **out);
/* True if the elements per thread, where they are a number, are one that a thread can hold. */
bool ir_check_ept(const Kernel *k, const Op *op);
/* True if the slot, where it is a number, is one of the ring that the access reaches. */
bool ir_check_slot(const Kernel *k, const Op *op);

bool ir_verify(Kernel *k);             /* structure, levels, types, attributes, dominance */
bool ir_has_layouts(const Kernel *k);  /* some result has one */
bool ir_verify_layouts(Kernel *k);     /* part of ir_verify: the layouts, if there are any */
bool ir_verify_constraints(Kernel *k); /* the header against itself and the bound symbols */

/* Warns, once, about constructs that mean something else than they seem to. For kernels with a
 * complete header: sizes that are bound later may make them right. */
void ir_warn(Kernel *k);

/* A dimension of which a value holds one coordinate at a time: its vector shape is 0 or 1, or its
 * tile is 1. Such a dimension may be dropped. */
bool ir_one_at_a_time(const Kernel *k, const Sym *dim);

/* An `mma` or a `scaled_mma`: lhs, rhs, acc; or lhs, its scales, rhs, its scales, acc. The roles of
 * dims follow by set logic: m and n are the last two dims of acc, k is shared by lhs and rhs
 * only. */
typedef struct MmaRoles {
  const Sym *m, *n, *k;
} MmaRoles;

typedef struct Product {
  Value *lhs, *rhs, *acc;
  Value *lhs_scale, *rhs_scale; /* NULL: none */
  MmaRoles roles;
} Product;

static inline bool value_is_read_of(const Value *v, const Value *memory) {
  return v->def && v->def->kind == OP_read && v->def->args[0] == memory;
}

bool op_is_product(const Op *op);
/* Operand numbers. */
static inline int product_rhs(const Op *op) { return op->nargs / 2; }
static inline int product_acc(const Op *op) { return op->nargs - 1; }
/* Return NULL or what is wrong. */
const char *product_of(Kernel *k, const Op *op, Product *out);
const char *ir_mma_roles(Kernel *k, const Type *lhs, const Type *rhs, const Type *acc,
                         MmaRoles *out);

/* Elements along k that share a scale, for operand 0 or 2 of `scaled_mma`. 0: not a whole
 * number. */
int ir_scale_block(Kernel *k, const Op *op, int operand);

/* ---- print.c, parse.c ---------------------------------------------------------------------- */

void ir_print(StrBuf *out, const Kernel *k);
void ir_print_row(StrBuf *out, const Kernel *k, const Constraint *c); /* of the header */

/* All kernels of a text, without NULL entries; on errors fewer (or no) kernels, and diagnostics.
 * `name` is shown in diagnostics; the list itself is in `a`. */
typedef struct KernelList {
  Kernel **at;
  int n;
} KernelList;
KernelList ir_parse(Context *cx, const char *name, const char *text, Arena *a);
/* The rows of a schedule (ir/schedule/schedule.h) in a text of their own. False after reporting. */
typedef Vec(Constraint) RowList;
bool ir_parse_schedule(Context *cx, const char *name, const char *text, Arena *a, RowList *out);

#endif
