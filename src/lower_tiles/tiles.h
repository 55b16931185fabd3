/* tiles.h: from tiles to one thread's loops over the workgroup's tile (docs/cpu.md).
 *
 *     %x = read %a : tile<M, N, f32>            for $i0 with {trips = 64} {
 *     %y = mul %x, %two                  =>       for $i1 step 16 with {trips = 256} {
 *     write %y, %b                                  %x = load %a, ... : vec<16, f32>
 *                                                   %y = mul %x, ... : vec<16, f32>
 *                                                   store %y, %b, ...
 *
 * For a machine of one lane. A tile value is held in one of three ways:
 *
 *     SCALAR   one element: a register
 *     INLINE   recomputed at each point where it is used: elementwise ops, reads of memory that the
 *              kernel does not write. Nothing is emitted at the op itself.
 *     BUFFER   memory of the workgroup: results of products, reductions and scans, values that
 *              loops carry, and values that are expensive and used more than once
 *
 * So code is pulled by the ops that have an effect: each opens a nest of loops over its tile and
 * evaluates its operands at a Point, the coordinates of one element, or of `width` elements along
 * one dimension. Code size grows with the number of ops, never with the size of tiles.
 *
 * lower_tiles.c walks the kernel; the other files handle one family of ops each. Ops are appended
 * by the functions of lower.h, which decide where expressions are computed. Loads and stores are
 * aligned to elements, not to vectors. */
#ifndef WV_TILES_H
#define WV_TILES_H

#include "emit/emit.h"
#include "ir/ops/alloc_layout.h"

/* ---- how a value is held ------------------------------------------------------------------- */

/* Scratch memory of a tile, dense; the contiguous dim was chosen to suit its readers. */
typedef struct TileBuffer {
  Value *memory; /* of rank 1 */
  int64_t stride[IR_MAX_RANK];
} TileBuffer;

typedef enum TileHeld { TILE_ABSENT, TILE_SCALAR, TILE_INLINE, TILE_BUFFER } TileHeld;

typedef struct Tile {
  TileHeld held;
  Value *scalar;
  const TileBuffer *buffer;
  const TileBuffer *later; /* of an INLINE one: the reduction that uses it next fills this buffer */
  const Sym *start[IR_MAX_RANK]; /* coordinates of its first element, by dim of its type */
  int extent[IR_MAX_RANK];
  const Sym *end[IR_MAX_RANK]; /* of a BUFFER: from this coordinate on nothing is stored, and loads
                                * give 0; NULL: everything is */
  LowerScope *scope; /* where it was computed; for an INLINE one, the outermost scope where it can
                      * be */
} Tile;

/* Decisions that tiles_plan makes before anything is emitted. */
typedef struct TilePlan {
  bool *is_inline; /* by value id: recomputed where it is used */
  bool *is_kept;   /* kept for later workgroups (tiles_kept_values.c) */
  int *cost;       /* of computing it, in additions; 0: only loops of products use it */
} TilePlan;

/* ---- points -------------------------------------------------------------------------------- */

/* Elements of a tile: a coordinate for each dimension, by its base. Along one dimension there may
 * be `width` adjacent elements. */
typedef struct Point {
  const Sym *dim[IR_MAX_RANK], *at[IR_MAX_RANK];
  int n;
  int along; /* the dim with several elements; -1: none */
  int width;
  bool elsewhere; /* may be outside the tile: proofs about the tile do not apply */
} Point;

/* A bound on a coordinate that holds in the loops being emitted: x < limit. */
typedef struct Granted {
  const Sym *dim, *limit;
} Granted;

typedef Vec(Granted) GrantedList;

/* An open loop of a nest, and the values computed in it. The outermost level has no counter. */
typedef struct NestLevel {
  LowerScope *scope;
  const Sym *counter;
  int granted; /* number of bounds in force when it was opened */
  Map made;
  struct NestLevel *outer;
} NestLevel;

typedef struct TileAlloc {
  Op *op;
  int64_t base, bytes;
  bool lasting; /* in use from an outer region on: not released at the end of a region */
} TileAlloc;

/* The result of a product, or of a loop that sums products, that goes straight to memory
 * (tiles_straight.c). */
typedef struct Straight {
  const Op *maker, *write;          /* the loop, or the product; the write of its result */
  const Value *result, *init, *arg; /* of the loop: what it carries */
  const Sym *counter, *trips;       /* of the loop; NULL: there is none */
  Tile outside;                     /* position of the result outside of the loop */
  const TileBuffer *buffer;         /* of what the loop carries, not filled before it */
  LowerScope *scope;                /* outside of the loop */
  int run;                          /* elements of a row of a block that are contiguous in memory */
  bool used;                        /* the product does it */
} Straight;

typedef struct Tiles {
  Lower l;
  Tile *tile; /* by value id of the tile kernel */
  TilePlan plan;
  NestLevel *level; /* innermost; NULL outside nests */
  int depth;        /* open loops of nests, used to name counters */
  GrantedList granted;
  Vec(TileAlloc) allocs;
  int64_t top, most, lasting; /* bytes: in use now, at most, of lasting ones */
  const Sym *band;            /* workgroups that are run for all columns before the next ones;
                               * NULL: all of them (tiles_kept_panels.c) */
  const Sym *bands;           /* if that gives no more than this number */
  bool keeps;                 /* values that do not change may be kept for later workgroups */
  Map iotas;                  /* width and dtype -> 0, 1, 2, ... */
  Vec(struct Panels *) panels;
  Vec(Straight *) straight;
  bool *fetched; /* by value id: prefetches for its next rows have been emitted */
} Tiles;

typedef bool TilesFn(Tiles *t, const Op *op);
TilesFn tiles_write, tiles_atomic, tiles_report, tiles_reduce, tiles_scan, tiles_topk, tiles_mma;
TilesFn tiles_alloc, tiles_copy;

/* An op without an effect: computes its value now, or notes that it is computed where it is used. */
TilesFn tiles_hold;

/* The op that uses v next is a reduction of v alone, which can store v while reducing it. */
bool reduce_can_store(const Tiles *t, const Value *v);

/* Reports E0601 at the op. Always false. */
bool tiles_refuse(Tiles *t, const Op *op, const char *what);

/* ---- plan (tiles_plan.c) ------------------------------------------------------------------- */

void tiles_plan(Tiles *t);
bool tiles_is_function(const Op *op); /* it takes many instructions, like an exponential */

/* v is computed from `of` where it is used: directly, or through values that are recomputed. */
bool tiles_depends(const Tiles *t, const Value *v, const Value *of);
/* The same, and some element of v needs an element of `of` at another position. */
bool tiles_depends_elsewhere(const Tiles *t, const Value *v, const Value *of);
/* Whether an op after `op`, or in its body, or another workgroup may still use `v`. */
bool tiles_used_later(const Tiles *t, const Op *op, const Value *v);

/* Coordinates along `dim` from this one on are never used; NULL: all are needed
 * (tiles_needed.c). */
const Sym *tiles_needed(Tiles *t, const Sym *dim);
/* The same of the elements of v, apart from what `except` (NULL: none) does with them. */
const Sym *tiles_used_below(Tiles *t, const Value *v, const Sym *dim, const Op *except);

/* ---- values (tiles_value.c, tiles_expr.c) -------------------------------------------------- */

/* The elements of v at a point: a register, or a vec of p->width if v has the dim p->along. NULL
 * after reporting. */
Value *tiles_at(Tiles *t, const Value *v, const Point *p);
/* The same, always with p->width elements. */
Value *tiles_wide_at(Tiles *t, const Value *v, const Point *p);
/* Emits a prefetch of the memory that v is read from at a point, if v is just a read. */
void tiles_prefetch(Tiles *t, const Value *v, const Point *p);
/* Inside a nest: the same for everything that v is computed from, for the next rows, unless already
 * done; `sum`: also for what is read after this reduction; NULL: for everything
 * (tiles_prefetch.c). */
void tiles_prefetch_rows(Tiles *t, const Op *sum, const Value *v, const Point *p);
/* Inside the nest of a reduction: prefetches where the row that p is in will be written after it. */
void tiles_prefetch_written(Tiles *t, const Op *sum, const Point *p);
/* The only element of a tile. */
Value *tiles_scalar(Tiles *t, const Value *v);

const Sym *point_get(const Point *p, const Sym *dim); /* NULL: it has none */
Point tile_origin(const Tiles *t, const Value *v);    /* of its first element; along -1 */

/* Whether the extents of a tile are numbers at an op: a dimension whose size only the launch knows
 * has one inside the loop that divides it. */
bool tile_has_size(const Tiles *t, const Op *op, const Type *type);
/* The position of v at an op; false after reporting. */
bool tile_set_ranges(Tiles *t, const Op *op, const Type *type, Tile *out);
/* The outermost scope to which an op that is recomputed at each point could move; not outside a
 * conditional. */
LowerScope *tile_home(const Tiles *t, const Op *op);
int64_t tile_elements(const Type *type, const Tile *tile);

Value *tile_iota(Tiles *t, int width, DType dtype); /* 0, 1, 2, ... */
/* An expression some of whose symbols are vecs: vec[i] for symbol[i], `width` elements each. */
typedef struct VectorSymbols {
  const Sym *symbol[16];
  Value *vec[16];
  int n, width;
} VectorSymbols;
Value *tiles_vector_expr(Tiles *t, const Sym *e, const VectorSymbols *s, DType dtype);

/* A bitcast to elements of another size (tiles_bitcast.c). */
Value *bitcast_at(Tiles *t, const Value *v, const Point *p);
/* Computes each element of the point separately and joins them. */
Value *tiles_one_by_one(Tiles *t, const Point *p, Value *(*at)(const void *user, const Point *),
                        const void *user);

/* ---- accesses (tiles_access.c) ------------------------------------------------------------- */

Value *access_load(Tiles *t, const Op *op, const Point *p);
Value *access_exists(Tiles *t, const Op *op, const Point *p); /* of `exists` and `inside` */
bool access_store(Tiles *t, const Op *op, const Point *p, Value *v);
bool access_atomic(Tiles *t, const Op *op, const Point *p, Value *v, Value **old);
/* The address of the element's table, and whether the element exists and `holds` is false. */
bool access_report(Tiles *t, const Op *op, const Point *p, Value *holds, Reported *out);

/* Prefetches the first element at a point: a hint, omitted if it has no simple address. */
void access_prefetch(Tiles *t, const Op *op, const Point *p);

/* Masks: the first n of `width` elements; how many of them fit into `left`. */
Value *tile_first(Tiles *t, Value *n, int width);
const Sym *tile_room(Tiles *t, const Sym *left, int width);

/* Loads rows of `width` elements, `apart` elements from one to the next, without tests. */
Value *access_rows(Tiles *t, const Op *op, const Point *p, const Sym *apart, int rows, int width);
/* Whether it tests anything that is not already granted. */
bool access_is_tested(Tiles *t, const Op *op);

/* The stride along `dim`; NULL: it is not constant. */
const Sym *access_apart(Tiles *t, const Op *op, const Sym *dim);
/* The dim along which elements are contiguous in memory; NULL: none. */
const Sym *access_contiguous(Tiles *t, const Op *op);
/* How many elements along `dim` are contiguous, at least, from each multiple of that number after
 * the coordinate `start` on: a power of two, at most `most`, which is one. Rows of an image in a tile
 * of its pixels, for example. */
enum { ACCESS_RUN = 16 }; /* long enough for vectors */
int access_run(Tiles *t, const Op *op, const Sym *dim, const Sym *start, int extent, int most);
/* The limit if every coordinate x along `dim` that is accessed, or exists, is tested by x < limit;
 * NULL: no such test. */
const Sym *access_limit(Tiles *t, const Op *op, const Sym *dim);
/* The same if v (which may be NULL) is an `exists`; NULL: it is another value. */
const Sym *access_exists_limit(Tiles *t, const Value *v, const Sym *dim);
/* The coordinate along `dim` from which on v holds a neutral element, as the pass `padding`
 * arranged; NULL: it does not. */
const Sym *access_kept_limit(Tiles *t, const Value *v, const Sym *dim);
/* The coordinate along `dim` from which on v is 0; NULL: unknown. */
const Sym *access_zeros_from(Tiles *t, const Value *v, const Sym *dim);

/* ---- buffers (tiles_buffer.c) -------------------------------------------------------------- */

/* `last`: the contiguous dim; NULL: the last. */
const TileBuffer *buffer_new(Tiles *t, const Type *type, const Tile *tile, const Sym *last);
const TileBuffer *buffer_new_kept(Tiles *t, const Type *type, const Tile *tile, const Sym *last);
void scratch_reserve(Tiles *t, Op *alloc, int64_t bytes, bool lasting);
Value *scratch_new(Tiles *t, DType dtype, int64_t elements, bool lasting);
Value *buffer_load(Tiles *t, const TileBuffer *b, const Type *type, const Tile *tile,
                   const Point *p);
void buffer_store(Tiles *t, const TileBuffer *b, const Type *type, const Tile *tile, const Point *p,
                  Value *v);
/* Stores all elements of v, whose position is `tile`, to b. */
bool buffer_fill(Tiles *t, const Value *v, const Type *type, const Tile *tile, const TileBuffer *b);
/* The dim along which most of the memory that v is computed from is contiguous. */
const Sym *tile_contiguous(Tiles *t, const Value *v);
/* Gives v, the result of an op that was lowered, its buffer; NULL after reporting. */
const TileBuffer *tile_new_buffer(Tiles *t, const Value *v);

/* ---- nests (tiles_nest.c) ------------------------------------------------------------------ */

const Sym *tiles_sum(Tiles *t, const Sym *a, const Sym *b);

/* Scopes of the program under construction. Unlike those of lower_threads they may be opened inside
 * a scope that already has an open one: what is then emitted comes before that one. */
typedef struct SavedScope {
  LowerScope *outer;
  Op *open; /* the open op of the outer scope */
} SavedScope;

/* A loop under construction. */
typedef struct NestLoop {
  Op *op;
  const Sym *counter;
  SavedScope saved;
  int granted;
} NestLoop;

/* Opens a nest at the op, and closes it. Nests may be nested. */
void nest_open(Tiles *t);
void nest_close(Tiles *t);

/* for counter = from (NULL: 0), from + step, ... < trips; `carried` values are the body's
 * arguments. `most`: an upper bound on trips, 0: unknown. */
NestLoop loop_open(Tiles *t, const Sym *from, const Sym *trips, int64_t most, int step,
                   Value *const *carried, int n);
void loop_close(Tiles *t, NestLoop *loop, Value *const *yields);
static inline Value *loop_arg(const NestLoop *l, int i) { return l->op->body->args[i]; }
static inline Value *loop_result(const NestLoop *l, int i) { return &l->op->results[i]; }

/* The code that follows runs if the condition holds. */
typedef struct Branch {
  SavedScope saved;
  NestLevel *level;
} Branch;
Branch branch_open(Tiles *t, const Sym *condition);
void branch_close(Tiles *t, Branch *b);

void nest_grant(Tiles *t, const Sym *dim, const Sym *limit);
bool nest_is_granted(const Tiles *t, const Sym *dim, const Sym *limit);

/* The box that a nest iterates over. */
typedef struct NestBox {
  const Sym *dim[IR_MAX_RANK], *start[IR_MAX_RANK];
  int extent[IR_MAX_RANK];
  const Sym *end[IR_MAX_RANK]; /* coordinates from there on are skipped; NULL: none */
  int rank, along, width;      /* along -1: one element at a time */
  const Sym *split;            /* along `along`: full vectors below this limit of an access get a
                                * loop of their own; NULL: none */
  bool cheap;                  /* the rest before `end` may be run element by element: masks would
                                * be more code and no faster */
} NestBox;

NestBox nest_box(const Tiles *t, const Type *type, const Tile *tile);
NestBox nest_without(const NestBox *b, int dim); /* the box of the other dims */
/* Chooses the vector width along this dim for loops that compute `of`, or that move elements of
 * that many bytes. */
void nest_choose_width(Tiles *t, NestBox *b, const Sym *along, const Value *of);
void nest_choose_moved(Tiles *t, NestBox *b, const Sym *along, int bytes);

/* How many elements from `start` on come before `end` (NULL: all do), at most `extent`. */
const Sym *nest_trips(Tiles *t, int extent, const Sym *start, const Sym *end);
/* The number of elements of the box along `dim` in full vectors that lie entirely below `limit`. */
const Sym *nest_below(Tiles *t, const NestBox *b, int dim, const Sym *limit);

/* Runs the body at every point of the box; false if the body failed. */
typedef bool NestBody(Tiles *t, const Point *p, void *user);
bool nest_run(Tiles *t, const NestBox *b, NestBody *body, void *user);
/* The same along one dim only, `along`; `p` has the other coordinates. */
bool nest_along(Tiles *t, const NestBox *b, Point p, NestBody *body, void *user);

/* The size in bytes of the widest element that v is computed from. */
int tile_bytes(Tiles *t, const Value *v);
/* Whether v is computed from an exponential or the like. */
bool tile_has_function(Tiles *t, const Value *v);
/* The limit of a test along `dim` in what v is computed from; NULL: none. */
const Sym *tile_limit(Tiles *t, const Value *v, const Sym *dim);

/* ---- operands of products (tiles_pack.c) --------------------------------------------------- */

/* An operand of a product: `extent` rows along `row`, `depth` elements along `k`. */
typedef struct PackSource {
  const Value *of;
  const Sym *row, *k, *row_start, *k_start;
  int extent, depth;
  int beside;        /* rows of the other operand */
  int vector;        /* sums that a vector holds */
  const Sym *end;    /* rows from this coordinate on are not needed; NULL: all are */
  const Sym *k_end;  /* elements from this coordinate on are skipped; NULL: none */
  Point others;      /* coordinates of its other dims */
  DType dtype;       /* the type that the product is computed in */
  int k_group, step; /* elements of k that are contiguous; that one step of the product reads */
  bool by_vectors;   /* of a panel that is less than full, only vectors that are needed are read */
  bool tied;         /* packed where it is used, not before loops */
} PackSource;

/* The number of elements along k that panels have room for: whole steps. */
static inline int pack_padded(const PackSource *s) {
  return (s->depth + s->step - 1) / s->step * s->step;
}
/* The number of elements of all panels. */
static inline int64_t pack_elements(const PackSource *s) {
  return (int64_t)s->extent * pack_padded(s);
}

/* Whether fewer vectors than a panel of `rows` has may hold what the last one needs. */
static inline bool pack_is_narrow(const PackSource *s, int rows) {
  return s->by_vectors && s->end && rows > s->vector && rows % s->vector == 0;
}

/* The operand in panels of `rows`: element (k, r) of panel p at base + p*rows*depth + k*(rows of p)
 * + r, where k counts groups of k_group elements, and an element is such a group. The last panel may
 * have fewer rows. */
typedef struct Panels {
  PackSource source;
  int rows;
  Value *memory;
  const Sym *base;   /* offset of the first panel in it */
  bool kept;         /* for later workgroups: packed rarely */
  LowerScope *scope; /* where it was packed */
  const Op *read;    /* not packed: rows are loaded in place from this read (tiles_in_place.c) */
  const Sym *apart;  /* in that case: elements from one row to the next */
} Panels;

/* `rows` vecs of `width` become `width` vecs of `rows`, in squares if possible; up to TURN_MOST of
 * both. The number that suits the machine's registers: 8, or as many as long ones hold. */
enum { TURN_LEAST = 8, TURN_MOST = 16 };
void tiles_turn(Tiles *t, Value **v, int rows, int width, Value **out);
int tiles_turn_width(const Tiles *t);

const Panels *pack_panels(Tiles *t, const PackSource *from, int rows);
/* Whether it is packed before the loop in which it is used. */
bool pack_is_hoisted(const Tiles *t, const PackSource *from);
/* The read that v is, up to order and type; NULL: it is something else. */
const Op *pack_plain_read(const Tiles *t, const Value *v);
/* The current number of elements of a row along k: `depth`, or up to `k_end`. */
const Sym *pack_depth(Tiles *t, const PackSource *from);

/* Among the panels of full size, or the `rest`, which is smaller: those that are needed; of these,
 * those all of whose rows are needed, and the others; those that lack less than a vector, and the
 * others. */
typedef enum PanelPart {
  PANELS_NEEDED,
  PANELS_WHOLE,
  PANELS_CUT,
  PANELS_WIDE,
  PANELS_NARROW
} PanelPart;

typedef struct PanelRun {
  NestLoop loop;
  bool looping;
  int rows;
  const Sym *first, *base; /* row, and offset of the panel */
} PanelRun;
/* Opens a loop over them; false: there are none. */
bool panels_open(Tiles *t, const Panels *p, bool rest, PanelPart part, PanelRun *out);
void panels_close(Tiles *t, PanelRun *r);

/* The dim along which rows of blocks of its result are, whose extent is given: n, or m if the product is
 * computed transposed. NULL: the op is not a product (tiles_columns.c). */
const Sym *product_columns(Tiles *t, const Op *op, const int *extent);

/* ---- results that go straight to memory (tiles_straight.c) ---------------------------------- */

/* Whether value number i that a loop carries in the buffer need not be there before the loop; false
 * after reporting. */
bool straight_defer(Tiles *t, const Op *loop, int i, const Tile *outside, const TileBuffer *b,
                    bool *deferred);
/* What the write writes, if that is written where it is computed; NULL: it is not. */
const Straight *straight_of(const Tiles *t, const Op *write);
/* What is left of the write, which `write` emits: that of a loop that never runs. */
bool straight_finish(Tiles *t, const Straight *s, TilesFn *write);

/* ---- panels for several workgroups (tiles_kept_panels.c) ------------------------------------ */

/* Whether e differs between consecutive workgroups. */
bool kept_differs(const Tiles *t, const Sym *e);
/* Whether e, or what is read, is the same in all workgroups and all iterations. */
bool kept_is_invariant(Tiles *t, const Sym *e);
bool kept_is_read_invariant(Tiles *t, const Op *read);

typedef struct Kept {
  const Sym *key, *tile; /* identifies these workgroups; the tile of the loop in which it is
                          * packed */
  const Sym *base;       /* of its slot, in elements */
  const Sym *slot;       /* in bands: its slot; NULL: slots are in the order of tiles */
  int slots;
  bool all; /* there is a slot for each tile */
  Value *cells;
  Op *op;
  SavedScope saved;
} Kept;

/* Whether the source, packed in `home`, is the same in consecutive workgroups. */
bool kept_plan(Tiles *t, const PackSource *from, const LowerScope *home, Kept *out);
/* For this many elements that are computed once, wherever they are computed. */
bool kept_plan_once(Tiles *t, DType dtype, int64_t elements, Kept *out);
void kept_open(Tiles *t, Kept *k);
void kept_close(Tiles *t, Kept *k);

/* ---- values shared by workgroups (tiles_kept_values.c) -------------------------------------- */

/* Whether v, which could be recomputed where it is used, is the same in all workgroups and worth
 * keeping, and there is room for it. */
bool kept_is_worthwhile(Tiles *t, const Value *v);
/* Computes it into a buffer, in the first workgroup only. */
bool kept_compute(Tiles *t, const Value *v);

#endif
