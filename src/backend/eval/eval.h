/* eval.h: what the files of the tile evaluator share.
 *
 * A workgroup holds, for every dimension, a contiguous range of logical coordinates: the Box of a
 * value. A Tile is a dense row-major array over its box. Operands are matched by dimension and by
 * logical coordinate: tile_at gives any value on any box it covers, broadcasting the dimensions it
 * lacks, so every op below works on flat arrays of equal length.
 *
 * Symbols live in slots, found by name. A slot holds the value in force: an argument's, a
 * set_symbol's, a loop counter's; leaving a region restores what it set. Workgroups run one after
 * the other, ops in program order; every failure is a diagnostic at the op under evaluation. */
#ifndef WV_EVAL_H
#define WV_EVAL_H

#include "backend/eval/eval_tile.h"
#include "base/vec.h"
#include "ir/dtype.h"

enum {
  EVAL_AXES = IR_MAX_RANK + 2, /* of a box: a contraction adds one dimension to its result's */
  TILE_MOST = 1 << 28,         /* elements of a tile */
  TILE_WORK = 64,              /* what making a tile costs besides its elements */
  WORK_MOST = 1 << 20,         /* between two calls of `interrupted` */
  EVAL_GRID = 5                /* workgroup dimensions that constraints may name */
};

/* ---- boxes and tiles ------------------------------------------------------------------------ */

typedef struct Axis {
  const Sym *dim;   /* as the type writes it: K/32 */
  const Sym *base;  /* the dimension it belongs to: K */
  int64_t num, den; /* dim is base * num / den */
  int64_t lo, n;    /* coordinates lo .. lo + n - 1, in units of dim */
  int64_t end;      /* coordinates from there on do not exist; INT64_MAX: all do */
  bool batch;       /* vector shape 0: one coordinate at a time */
  bool coordinate;  /* set by set_symbol, or the id of another dimension: no size limits it */
} Axis;

typedef struct Box {
  int rank;
  Axis axis[EVAL_AXES];
} Box;

/* Floats are in f, everything else in i; the other is NULL. A tile is immutable once made. The ends
 * of its axes are the sizes of its dimensions where it was made: elements past them are padding,
 * which no op combines, writes or tests. */
typedef struct Tile {
  DType dtype;
  Box box;
  Arena *home;
  double *f;
  int64_t *i;
} Tile;

/* An argument's buffer, a debug log, or scratch of the workgroup. */
typedef struct Memory {
  const char *name;
  const Sym *const *dims;
  DType dtype;
  int rank;
  void *data;
  int64_t size[IR_MAX_RANK], stride[IR_MAX_RANK]; /* in elements */
  unsigned char *written; /* scratch: which elements hold a value; NULL for the others */
  int slots;              /* scratch: of its ring */
  int64_t slot_elements;  /* from one slot to the next */
} Memory;

typedef struct Binding {
  Tile *tile;
  Memory *memory;
  int made; /* env_mark when its op ran */
} Binding;

/* ---- symbols -------------------------------------------------------------------------------- */

typedef struct Expr {
  const Sym *sym;
  SymProgram *program;
  int *slots; /* of its free symbols, in the program's order */
  int nslots, scratch;
} Expr;

/* `value` is the symbol's value in expressions, `extent` its value in the size of a dimension. They
 * differ only for a while loop's axis, which keeps its size although its value is a position. */
typedef struct Slot {
  const char *name;
  bool has_value, has_extent;
  bool was_set; /* by set_symbol, to something other than a loop position */
  int64_t value, extent;
  const Expr *definition; /* from a bind row: used when no value was set; NULL: none */
} Slot;

typedef struct Undo {
  int slot;
  Slot old;
} Undo;

typedef enum Meaning { MEAN_VALUE, MEAN_EXTENT } Meaning;

/* ---- constraints ---------------------------------------------------------------------------- */

typedef struct Loop {
  const Sym *axis;
  int64_t counter; /* of a while loop: the axis value */
  const struct Loop *outer;
} Loop;

typedef struct Log {
  const Op *op;       /* NULL: a parameter */
  const char *label;  /* of a debug log; NULL: not a log */
  const char *report; /* of failed assertions; NULL: workspace, unless it is a log */
  bool undefined;     /* a workspace that may contain anything */
  Memory memory;
} Log;

/* A workgroup of a gang: of those that need each other's values (eval_gang.c). */
typedef struct Rank {
  int64_t id[3];
  Binding *values;
  Memory **scratch;
} Rank;

typedef struct Eval {
  Kernel *k;
  Context *cx;
  const EvalArg *args;
  const EvalOptions *options;

  Arena *home;         /* the whole run */
  Arena *group;        /* one workgroup */
  Arena *arena;        /* what an op allocates from: the workgroup's or a loop iteration's */
  Vec(Arena *) arenas; /* two per loop depth: the current iteration's and the previous one's */
  int depth;

  Span at;      /* of the op under evaluation */
  int64_t work; /* since `interrupted` was last called, roughly in elements */
  bool stopped; /* it returned true: the run ends after the op, whose result has no meaning */

  Vec(Slot) slots;
  Map slot_of; /* interned name -> index + 1 */
  Map expr_of; /* Sym -> Expr */
  Vec(Undo) undo;
  int back; /* how many of them, the latest, are undone temporarily */

  Vec(DivisionRow) rows;
  bool explicit_grid;        /* there is a grid row: workgroup ids do not determine positions */
  int64_t counts[EVAL_GRID]; /* workgroups per constraint dimension */
  int64_t grid[3];
  int wg_slot[EVAL_GRID], position_slot[3];
  bool folded;            /* dims 2, 3, 4 share $WG2 */
  const Sym *ids[EVAL_GRID]; /* of this workgroup, as used for positions */
  const Sym *tile_loop;   /* in whose iterations a workgroup computes several tiles; NULL: none */
  int64_t tiles[3];       /* the grid of tiles, which ... */
  int64_t limit;          /* ... this many workgroups share */
  int64_t first_tile;     /* of this workgroup */
  const Loop *loops;      /* innermost first */
  const Attr *named;      /* the iterations that the op acts for, if it names any */
  bool beyond;            /* ... which do not exist */

  Binding *values;  /* by value id */
  Memory **scratch; /* by op id of the alloc: this workgroup's memory */
  Vec(Log) logs;
  Rank *gang;       /* workgroups that run together, by id; NULL: one runs alone */
  int ngang, axis;  /* along this dimension of the grid */
  uint64_t changes; /* counts changes to memory: a loop that changes nothing is waiting */
} Eval;

/* ---- eval_env.c ----------------------------------------------------------------------------- */

/* Reports at the op under evaluation; always false, for use in a return statement. */
bool eval_fail(Eval *ev, DiagCode code, const char *fmt, ...) WV_PRINTF(3, 4);
void eval_hint(Eval *ev, const char *fmt, ...) WV_PRINTF(2, 3); /* to the last one */
/* Counts work and calls `interrupted` when enough was done: false after reporting that it said so.
 * tile_new counts the elements of each tile; loops that do more than that call this themselves. */
bool eval_goes_on(Eval *ev, int64_t work);
/* A loop over the elements from..n-1, which ends early if the run is stopped. No element pays for
 * that: the inner loop is over a part of them. */
#define EACH_ELEMENT(ev, e, from, n)                                                               \
  for (int64_t e = (from), e##_end; e < (e##_end = eval_part(ev, e, from, n));)                    \
    for (; e < e##_end; e++)
int64_t eval_part(Eval *ev, int64_t e, int64_t from, int64_t n); /* where the part at e ends */
const char *eval_text(Eval *ev, const Sym *s);                   /* for messages */

int env_slot(Eval *ev, const char *name);
int env_numbered_slot(Eval *ev, const char *prefix, int number);
void env_set(Eval *ev, int slot, int64_t v);          /* value and extent */
void env_set_position(Eval *ev, int slot, int64_t v); /* value only */
void env_define(Eval *ev, const Sym *symbol, const Sym *definition);
int env_mark(const Eval *ev);
void env_rewind(Eval *ev, int mark);
/* Restores symbols to their state at the mark, until env_forth undoes what env_back returned. */
int env_back(Eval *ev, int mark);
void env_forth(Eval *ev, int undone);

/* Remaining fractions are rounded down; truth values are 0 and 1. */
bool expr_value(Eval *ev, const Sym *s, int64_t *out);
const Sym *expr_kept(Eval *ev, const Sym *s); /* eval_access.c: clamped so that it stays in 64
                                               * bits */
/* Emits a remark if an assumption does not hold; false after reporting one that is required. */
bool eval_assumed(Eval *ev, const Sym *cond, bool required, const char *where);
bool expr_extent(Eval *ev, const Sym *s, int64_t *out);

/* An expression for many points: the symbols in `holes` (slots) change from point to point. */
typedef struct ExprRun {
  const Expr *expr;
  int64_t *vars, *scratch;
  int *hole; /* the index of hole i among the variables; -1: not mentioned */
} ExprRun;
bool expr_open(Eval *ev, const Sym *s, const int *holes, int nholes, ExprRun *run);
bool expr_is_known(Eval *ev, const Sym *s); /* every symbol has a value now */
const Expr *expr_of(Eval *ev, const Sym *s);
static inline void expr_put(ExprRun *run, int hole, int64_t v) {
  if (run->hole[hole] >= 0) run->vars[run->hole[hole]] = v;
}
bool expr_point(ExprRun *run, int64_t *out); /* false: no value at this point; reports nothing */

/* ---- eval_args.c ---------------------------------------------------------------------------- */

bool args_bind(Eval *ev, int nargs); /* bind and dynamic rows, parameters, their geometry */

/* ---- eval_position.c ------------------------------------------------------------------------ */

void position_aliases(Eval *ev); /* sizes of aliased dimensions */
bool position_setup(Eval *ev);   /* rows, aliases, grid */
void position_enter_group(Eval *ev, int64_t x, int64_t y, int64_t z);
void position_enter_tile(Eval *ev, int64_t turn);        /* the iteration of `tile_loop` */
Axis axis_of(const Sym *dim);                            /* without a range */
bool position_axis(Eval *ev, const Sym *dim, Axis *out); /* its range here and now */
bool position_box(Eval *ev, const Type *t, Box *out);
bool position_end(Eval *ev, Axis *a); /* sets its end to the current size of its dimension */
bool position_dim_size(Eval *ev, const Sym *dim, int64_t *out); /* also of K/32; exact */
bool position_trips(Eval *ev, const Sym *axis, int64_t *out);
bool position_waves(Eval *ev, const Sym *base, int64_t *out); /* waves that share the dimension */

/* ---- eval_value.c --------------------------------------------------------------------------- */

int64_t box_count(const Box *b);
int box_find(const Box *b, const Sym *base); /* -1: absent */
bool box_step(const Box *b, int64_t *index); /* next element in row-major order; false at the end */
int64_t axis_count(const Axis *a);           /* elements of it that exist */
bool box_exists(const Box *b, int64_t e);    /* element e in row-major order */
Box box_with(const Box *b, Axis axis);       /* axis appended */
Box box_without(const Box *b, const Sym *dim);

Tile *tile_new(Eval *ev, DType dtype, const Box *box);
Tile *tile_keep(Eval *ev, Tile *t); /* t, or a copy when it lives in another arena */
bool tile_equal(const Tile *a, const Tile *b);
Tile *
tile_on(Eval *ev, Tile *t,
        const Box *box); /* t must cover what exists of the box; the rest is 0, and its ends stay */
Tile *tile_made(Eval *ev, Tile *t); /* t as if it had been made here and now */
Tile *tile_at(Eval *ev, const Value *v, const Box *box);
Tile *tile_convert(Eval *ev, Tile *t, DType dtype);
/* The one integer held by all elements that exist; 0 if none does. */
bool tile_uniform(Eval *ev, const Tile *t, int64_t *out);
void tile_round(Eval *ev, Tile *t); /* every element to the dtype */

/* ---- ops: results go to ev->values ---------------------------------------------------------- */

typedef Tile *ComputeFn(Eval *ev, const Op *op, const Box *box);
typedef bool RunFn(Eval *ev, Op *op);

/* How an op is evaluated. An op with `compute` can be evaluated on any box, so a consumer that
 * needs it elsewhere recomputes it. */
typedef struct OpEval {
  RunFn *run;
  ComputeFn *compute;
} OpEval;
extern const OpEval op_eval[OP_COUNT];

bool eval_op(Eval *ev, Op *op);
bool eval_region(Eval *ev, const Region *r);

ComputeFn compute_fill, compute_runs, compute_self_index, compute_exists, compute_apply,
    compute_unary, compute_test, compute_binary, compute_compare, compute_select, compute_inline,
    compute_cast, compute_bitcast, compute_view, compute_repeat, compute_softsign;
RunFn run_set_symbol, run_alloc, run_read, run_prefetch, run_inside, run_write, run_atomic,
    run_scatter, run_copy, run_mma, run_scaled_mma, run_reduce, run_cumsum, run_topk, run_combine,
    run_debug_log, run_report, run_for, run_while, run_if, run_nothing, run_lane_op;

/* eval_reduce.c: the operand of a reduction as rows along its dimension, of which `along` says how
 * many elements exist; `rest` are its other dimensions. */
Tile *reduction_rows(Eval *ev, const Op *op, Box *rest, Axis *along);

/* Adds a workgroup's rows to *sum, which is NULL for the first one; false after reporting. */
bool reduce_rows(Eval *ev, const Op *op, Tile **sum);
bool reduce_finish(Eval *ev, const Op *op, Tile *sum); /* adds the initial value, rounds */

/* ---- eval_gang.c ---------------------------------------------------------------------------- */

bool gang_setup(Eval *ev); /* after position_setup */
/* The gang of which the workgroup is the first. */
bool gang_run(Eval *ev, int64_t x, int64_t y, int64_t z);
/* Whether the workgroup is the first of its gang. */
bool gang_begins(const Eval *ev, int64_t x, int64_t y, int64_t z);

/* ---- eval_access.c -------------------------------------------------------------------------- */

/* An access: the elements of `box` to or from `memory`. */
typedef struct Access {
  const Op *op;
  const Box *box;
  const Memory *memory;
  const Box *made;   /* of the tile that is stored, which says which elements exist; NULL: a read */
  SymPairs coords;   /* memory dim -> expression of the iterators; n 0: by name */
  SymPairs iterated; /* the dimensions $index0 .. run over */
  const Mapping *mapping;
  Value **dynamic;
  int ndynamic;
  bool local;        /* coordinates relative to the workgroup's tile */
  bool test_extents; /* elements beyond the size of their dimension are inactive */
  int replaced;      /* memory dim whose coordinate is `replacement`, or -1 */
  const Tile *replacement;
} Access;

#define EVAL_INACTIVE INT64_MIN
#define EVAL_NO_VALUE INT64_MIN /* of a coordinate */

/* The element offset of each element of the box, EVAL_INACTIVE where nothing is accessed. */
int64_t *access_offsets(Eval *ev, const Access *a);
/* The value of an expression over the iterators for each element of the box; NULL after reporting. */
int64_t *access_values(Eval *ev, const Access *a, const Sym *s);
/* eval_gang.c: writes each element in the memory of the workgroup of the gang that `peer` names. */
bool gang_write(Eval *ev, const Access *a, const Tile *value);

/* ---- eval_mask.c ---------------------------------------------------------------------------- */

/* Compares the mask that an access recorded with the evaluator's decision for one element, at
 * `index` of the box and at `y` in memory; also for `exists`, which has no memory. */
bool mask_check(Eval *ev, const Access *a, const int64_t *index, const int64_t *y, bool active);
const char *point_text(Eval *ev, const int64_t *at, int n); /* (3, ?, 7) */

/* ---- eval_memory.c -------------------------------------------------------------------------- */

bool memory_write(Eval *ev, Memory *m, const int64_t *offsets, const Tile *value);

/* ---- eval_log.c ----------------------------------------------------------------------------- */

bool logs_setup(Eval *ev);
void logs_deliver(Eval *ev);
bool logs_check_workspace(Eval *ev); /* false after reporting one that is not zero */
bool logs_check_report(Eval *ev);    /* false after reporting assertions that failed */

#endif
