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
 *     INLINE   made again at each point where it is asked for: elementwise ops, reads of what the
 *              kernel does not write. Nothing is emitted where the op stands.
 *     BUFFER   memory of the workgroup: results of products, reductions and scans, what loops
 *              carry, and what is expensive and needed more than once
 *
 * So code is pulled by the ops that have an effect: each opens a nest of loops over its tile and
 * asks for its operands at a Point, the coordinates of one element, or of `width` of them along one
 * dimension. Code grows with the number of ops, never with the size of tiles.
 *
 * lower_tiles.c walks the kernel; the other files have one family each. Ops are appended by the
 * functions of lower.h, which find places for expressions. Loads and stores are aligned to their
 * elements, not to vectors. */
#ifndef WV_TILES_H
#define WV_TILES_H

#include "ir/alloc_layout.h"
#include "lower/lower.h"

/* ---- how a value is held ------------------------------------------------------------------- */

/* Scratch memory of a tile, dense; which dim is contiguous was chosen for those who read it. */
typedef struct TileBuffer {
  Value *memory; /* of rank 1 */
  int64_t stride[IR_MAX_RANK];
} TileBuffer;

typedef enum TileHeld { TILE_ABSENT, TILE_SCALAR, TILE_INLINE, TILE_BUFFER } TileHeld;

typedef struct Tile {
  TileHeld held;
  Value *scalar;
  const TileBuffer *buffer;
  const TileBuffer *later; /* of an INLINE one: the reduction that asks for it next fills it */
  const Sym *start[IR_MAX_RANK]; /* coordinates of its first element, by dim of its type */
  int extent[IR_MAX_RANK];
  LowerScope *scope; /* where it was made; of an INLINE one: the outermost where it can be */
} Tile;

/* What tiles_plan decided before anything is emitted. */
typedef struct TilePlan {
  bool *is_inline; /* by value id: made again where it is asked for */
  bool *is_steady; /* kept for other workgroups (tiles_steady.c) */
  int *cost;       /* of making it, in additions; 0: no loops but those of products ask for it */
} TilePlan;

/* ---- points -------------------------------------------------------------------------------- */

/* Elements of a tile: a coordinate for each dimension, by its base. Along one of them there may be
 * `width` elements side by side. */
typedef struct Point {
  const Sym *dim[IR_MAX_RANK], *at[IR_MAX_RANK];
  int n;
  int along; /* which dim has several; -1: none */
  int width;
} Point;

/* A bound on a coordinate that holds in the loops being emitted: x < limit. */
typedef struct Granted {
  const Sym *dim, *limit;
} Granted;

typedef Vec(Granted) GrantedList;

/* An open loop of a nest, and what was made in it. The outermost has no counter. */
typedef struct NestLevel {
  LowerScope *scope;
  const Sym *counter;
  int granted; /* so many bounds held when it was opened */
  Map made;
  struct NestLevel *outer;
} NestLevel;

typedef struct TileAlloc {
  Op *op;
  int64_t base, bytes;
  bool lasting; /* in use from an outer region on: not given back at the end of a region */
} TileAlloc;

typedef struct Tiles {
  Lower l;
  Tile *tile; /* by value id of the tile kernel */
  TilePlan plan;
  NestLevel *level; /* innermost; NULL outside of nests */
  int depth;        /* open loops of nests, for the names of counters */
  GrantedList granted;
  Vec(TileAlloc) allocs;
  int64_t top, most, lasting; /* bytes: in use now, at most, of lasting ones */
  bool keeps;                 /* what does not change may be kept for the next workgroups */
  Map iotas;                  /* width and dtype -> 0, 1, 2, ... */
  Vec(struct Panels *) panels;
  bool *fetched; /* by value id: the next rows of what it is made of are asked for */
} Tiles;

typedef bool TilesFn(Tiles *t, const Op *op);
TilesFn tiles_write, tiles_atomic, tiles_report, tiles_reduce, tiles_scan, tiles_topk, tiles_mma;
TilesFn tiles_alloc, tiles_copy;

/* The op that asks for v next is a reduction of just v, which can store it on its way. */
bool reduce_can_store(const Tiles *t, const Value *v);

/* E0601 at the op. Always false. */
bool tiles_refuse(Tiles *t, const Op *op, const char *what);

/* ---- plan (tiles_plan.c) ------------------------------------------------------------------- */

void tiles_plan(Tiles *t);
bool tiles_is_function(const Op *op); /* it takes many instructions: an exponential */

/* v is made of `of` where it is asked for: directly, or through values that are made again. */
bool tiles_depends(const Tiles *t, const Value *v, const Value *of);
/* The same, and some element of `of` is needed for an element of v at another place. */
bool tiles_depends_elsewhere(const Tiles *t, const Value *v, const Value *of);
/* Whether an op behind `op`, or in its body, or another workgroup may still ask for `v`. */
bool tiles_used_later(const Tiles *t, const Op *op, const Value *v);

/* Coordinates along `dim` from this one on are of no use to anybody; NULL: all are needed
 * (tiles_needed.c). */
const Sym *tiles_needed(Tiles *t, const Sym *dim);

/* ---- values (tiles_value.c, tiles_expr.c) -------------------------------------------------- */

/* The elements of v at a point: a register, or a vec of p->width where v has the dim p->along.
 * NULL after reporting. */
Value *tiles_at(Tiles *t, const Value *v, const Point *p);
/* The same, always with p->width elements. */
Value *tiles_wide_at(Tiles *t, const Value *v, const Point *p);
/* What v is read from at a point, if it is just that, is needed soon. */
void tiles_prefetch(Tiles *t, const Value *v, const Point *p);
/* Inside of a nest: the same of all that v is made of, for the rows behind this one, unless it was
 * done before; `sum`: of what is read behind this reduction, too; NULL: of all (tiles_ahead.c). */
void tiles_fetch_ahead(Tiles *t, const Op *sum, const Value *v, const Point *p);
/* The only element of a tile. */
Value *tiles_scalar(Tiles *t, const Value *v);

const Sym *point_get(const Point *p, const Sym *dim); /* NULL: it has none */
Point tile_origin(const Tiles *t, const Value *v);    /* of its first element; along -1 */

/* Whether the extents of a tile are numbers at an op: a dimension of a size that only a launch
 * knows has one inside of the loop that cuts it. */
bool tile_has_size(const Tiles *t, const Op *op, const Type *type);
/* Where v lies, at an op; false after reporting. */
bool tile_place(Tiles *t, const Op *op, const Type *type, Tile *out);
/* The outermost scope where an op could stand that is made again at each point; not outside of a
 * conditional. */
LowerScope *tile_home(const Tiles *t, const Op *op);
int64_t tile_elements(const Type *type, const Tile *tile);

Value *tile_iota(Tiles *t, int width, DType dtype); /* 0, 1, 2, ... */
/* An expression of which some symbols are vecs: vec[i] for symbol[i], elements of `width`. */
typedef struct VectorSymbols {
  const Sym *symbol[16];
  Value *vec[16];
  int n, width;
} VectorSymbols;
Value *vector_expr(Tiles *t, const Sym *e, const VectorSymbols *s, DType dtype);

/* A bitcast to elements of another size (tiles_bitcast.c). */
Value *bitcast_at(Tiles *t, const Value *v, const Point *p);
/* Each element of the point on its own, joined. */
Value *tiles_one_by_one(Tiles *t, const Point *p, Value *(*at)(const void *user, const Point *),
                        const void *user);

/* ---- accesses (tiles_access.c) ------------------------------------------------------------- */

Value *access_load(Tiles *t, const Op *op, const Point *p);
Value *access_exists(Tiles *t, const Op *op, const Point *p); /* of `exists` and `inside` */
bool access_store(Tiles *t, const Op *op, const Point *p, Value *v);
bool access_atomic(Tiles *t, const Op *op, const Point *p, Value *v, Value **old);
/* Where the element's table lies, and whether it exists and `holds` is false. */
bool access_report(Tiles *t, const Op *op, const Point *p, Value *holds, Reported *out);

/* The first element at a point is loaded soon: a hint, left out where it has no plain address. */
void access_prefetch(Tiles *t, const Op *op, const Point *p);

/* Rows of `width` elements that follow each other, `apart` elements from one to the next; nothing
 * is tested. */
Value *access_rows(Tiles *t, const Op *op, const Point *p, const Sym *apart, int rows, int width);
/* Whether it tests anything that is not granted. */
bool access_is_tested(Tiles *t, const Op *op);

/* The dim along which elements lie side by side in memory; NULL: none. */
const Sym *access_contiguous(Tiles *t, const Op *op);
/* x < limit for each coordinate x along `dim` that is accessed, or exists; NULL: no such test. */
const Sym *access_limit(Tiles *t, const Op *op, const Sym *dim);
/* v holds a neutral element along `dim` from this coordinate on: the pass `padding` saw to it.
 * NULL: it does not. */
const Sym *kept_limit(Tiles *t, const Value *v, const Sym *dim);

/* ---- buffers (tiles_buffer.c) -------------------------------------------------------------- */

/* `last`: the dim that is contiguous; NULL: the last. */
const TileBuffer *buffer_new(Tiles *t, const Type *type, const Tile *tile, const Sym *last);
const TileBuffer *buffer_new_kept(Tiles *t, const Type *type, const Tile *tile, const Sym *last);
void scratch_place(Tiles *t, Op *alloc, int64_t bytes, bool lasting);
Value *scratch_new(Tiles *t, DType dtype, int64_t elements, bool lasting);
Value *buffer_load(Tiles *t, const TileBuffer *b, const Type *type, const Tile *tile,
                   const Point *p);
void buffer_store(Tiles *t, const TileBuffer *b, const Type *type, const Tile *tile, const Point *p,
                  Value *v);
/* Stores all elements of v, which lies like `tile`, to b. */
bool buffer_fill(Tiles *t, const Value *v, const Type *type, const Tile *tile, const TileBuffer *b);
/* The dim along which most of what v is made of is contiguous. */
const Sym *tile_contiguous(Tiles *t, const Value *v);
/* Gives v, the result of an op that was lowered, its buffer; NULL after reporting. */
const TileBuffer *tile_new_buffer(Tiles *t, const Value *v);

/* ---- nests (tiles_nest.c) ------------------------------------------------------------------ */

/* Scopes of the program under construction. Unlike those of lower_threads they may be opened inside
 * of a scope that already has an open one: what is emitted then stands in front of that. */
typedef struct SavedScope {
  LowerScope *outer;
  Op *open; /* of the outer one */
} SavedScope;

/* A loop under construction. */
typedef struct NestLoop {
  Op *op;
  const Sym *counter;
  SavedScope saved;
  int granted;
} NestLoop;

/* Opens a nest where the op stands, and closes it. Nests may be opened inside of nests. */
void nest_open(Tiles *t);
void nest_close(Tiles *t);

/* for counter = from (NULL: 0), from + step, ... < trips; `carried` values in its body's arguments.
 * `most`: what trips does not exceed, 0: not known. */
NestLoop loop_open(Tiles *t, const Sym *from, const Sym *trips, int64_t most, int step,
                   Value *const *carried, int n);
void loop_close(Tiles *t, NestLoop *loop, Value *const *yields);
static inline Value *loop_arg(const NestLoop *l, int i) { return l->op->body->args[i]; }
static inline Value *loop_result(const NestLoop *l, int i) { return &l->op->results[i]; }

/* What follows is done if the condition holds. */
typedef struct Branch {
  SavedScope saved;
  NestLevel *level;
} Branch;
Branch branch_open(Tiles *t, const Sym *condition);
void branch_close(Tiles *t, Branch *b);

void grant(Tiles *t, const Sym *dim, const Sym *limit);
bool is_granted(const Tiles *t, const Sym *dim, const Sym *limit);

/* What a nest runs over. */
typedef struct NestBox {
  const Sym *dim[IR_MAX_RANK], *start[IR_MAX_RANK];
  int extent[IR_MAX_RANK];
  const Sym *end[IR_MAX_RANK]; /* coordinates from there on are left out; NULL: none */
  int rank, along, width;      /* along -1: one element at a time */
  const Sym *split;            /* along `along`: full vectors below it are run apart, where this
                                  limit of an access holds; NULL: none */
  bool cheap;                  /* what is left in front of `end` may be run one by one: masks would
                                  be more code and no faster */
} NestBox;

NestBox nest_box(const Tiles *t, const Type *type, const Tile *tile);
NestBox nest_without(const NestBox *b, int dim); /* the box of the other dims */
/* Vectors along this dim, for loops that make `of`, or that move elements of so many bytes. */
void nest_choose_width(Tiles *t, NestBox *b, const Sym *along, const Value *of);
void nest_choose_moved(Tiles *t, NestBox *b, const Sym *along, int bytes);

/* Full vectors of the box along `dim` whose elements all lie below `limit`: as many elements. */
const Sym *nest_below(Tiles *t, const NestBox *b, int dim, const Sym *limit);

/* Runs the body at every point of the box; false when it returned that. */
typedef bool NestBody(Tiles *t, const Point *p, void *user);
bool nest_run(Tiles *t, const NestBox *b, NestBody *body, void *user);
/* The same along one dim only, which is `along`; `p` has the other coordinates. */
bool nest_along(Tiles *t, const NestBox *b, Point p, NestBody *body, void *user);

/* Bytes of the widest element that v is made of. */
int tile_bytes(Tiles *t, const Value *v);
/* An exponential or the like is among what v is made of. */
bool tile_has_function(Tiles *t, const Value *v);
/* The limit of a test along `dim` in what v is made of; NULL: none. */
const Sym *tile_limit(Tiles *t, const Value *v, const Sym *dim);

/* ---- operands of products (tiles_pack.c) --------------------------------------------------- */

/* An operand of a product: `extent` rows along `row`, `depth` elements along `k`. */
typedef struct PackSource {
  const Value *of;
  const Sym *row, *k, *row_start, *k_start;
  int extent, depth;
  const Sym *end;   /* rows from this coordinate on are not needed; NULL: all are */
  const Sym *k_end; /* elements from this coordinate on are left out; NULL: none */
  Point others;     /* coordinates of its other dims */
  DType dtype;      /* what the product computes in */
  int side, step;   /* elements of k that lie side by side; that one step of the product reads */
  bool tied;        /* packed where it is asked for, not in front of loops */
} PackSource;

/* Elements along k that panels have room for: whole steps. */
static inline int pack_padded(const PackSource *s) {
  return (s->depth + s->step - 1) / s->step * s->step;
}
/* Elements of all panels. */
static inline int64_t pack_elements(const PackSource *s) {
  return (int64_t)s->extent * pack_padded(s);
}

/* It in panels of `rows`: element (k, r) of panel p at base + p*rows*depth + k*(rows of p) + r,
 * where k counts sides, and elements are sides. The last panel may have fewer rows. */
typedef struct Panels {
  PackSource source;
  int rows;
  Value *memory;
  const Sym *base;   /* where in it the first panel lies */
  bool kept;         /* for other workgroups: packed seldom */
  LowerScope *scope; /* where it was packed */
  const Op *read;    /* it was not: rows are loaded from where they lie (tiles_rows.c) */
  const Sym *apart;  /* of those: elements from one to the next */
} Panels;

const Panels *pack_panels(Tiles *t, const PackSource *from, int rows);
/* It would be packed in front of the loop it is asked for in. */
bool pack_is_steady(const Tiles *t, const PackSource *from);
/* The read that v is, in another order or type; NULL: it is something else. */
const Op *pack_plain_read(const Tiles *t, const Value *v);
/* How many elements along k a row has now: `depth`, or up to `k_end`. */
const Sym *pack_depth(Tiles *t, const PackSource *from);

/* Of the panels of full size, or of the `rest`, which is smaller: those that are needed; of these,
 * those of which every row is needed, and the others. */
typedef enum PanelPart { PANELS_NEEDED, PANELS_WHOLE, PANELS_CUT } PanelPart;

typedef struct PanelRun {
  NestLoop loop;
  bool looping;
  int rows;
  const Sym *first, *base; /* row, and offset of the panel */
} PanelRun;
/* A loop over them; false: there is none. */
bool panels_open(Tiles *t, const Panels *p, bool rest, PanelPart part, PanelRun *out);
void panels_close(Tiles *t, PanelRun *r);

/* ---- panels for several workgroups (tiles_keep.c) ------------------------------------------ */

/* Whether e differs between workgroups that follow each other. */
bool keep_differs(const Tiles *t, const Sym *e);
/* Whether e, or what is read, is the same in all of them, and in all iterations. */
bool keep_is_steady(Tiles *t, const Sym *e);
bool keep_is_read_steady(Tiles *t, const Op *read);

typedef struct Kept {
  const Sym *key, *tile; /* of these workgroups; which tile of the loop it is packed in */
  const Sym *base;       /* of its slot, in elements */
  int slots;
  bool all; /* there is a slot for each tile */
  Value *cells;
  Op *op;
  SavedScope saved;
} Kept;

/* Whether the source, packed in `home`, is the same in workgroups that follow each other. */
bool keep_plan(Tiles *t, const PackSource *from, const LowerScope *home, Kept *out);
/* For so many elements that are made once, wherever they are made. */
bool keep_plan_once(Tiles *t, DType dtype, int64_t elements, Kept *out);
void keep_open(Tiles *t, Kept *k);
void keep_close(Tiles *t, Kept *k);

/* ---- values that workgroups have in common (tiles_steady.c) -------------------------------- */

/* Whether v, which can be made again where it is asked for, is one, worth it, and there is room. */
bool steady_is_kept(Tiles *t, const Value *v);
bool steady_keep(Tiles *t, const Value *v);

#endif
