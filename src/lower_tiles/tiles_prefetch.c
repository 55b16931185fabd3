/* tiles_prefetch.c: prefetches what the next rows of a nest read while the current one is computed.
 *
 * CPUs recognise a stream of addresses, but not the jump from the end of a tile's row to the
 * beginning of the next. Long rows are not prefetched: data fetched that early would have left the
 * L1 cache when it is needed. Neither is data that is read once to be summed: the hardware follows
 * a single stream best without help.
 *
 * Stores of a row wait for its lines, and little else is left to do then. So the row that is written
 * after a reduction is prefetched while that is computed. */
#include "ir/dtype.h"
#include "lower_tiles/tiles.h"

/* Bytes: of the prefetch, of a row, of a tile that is written, of a line. */
enum { DISTANCE = 1024, LONGEST = 16384, LARGEST_WRITTEN = 131072, LINE = 64 };

/* The dim along which the read's next row lies: a loop of the nest, or the next workgroup; -1:
 * there is none. */
static int next_dim(const Tiles *t, const Value *read, int along) {
  const Tile *tile = &t->tile[read->id];
  int groups = -1;
  for (int i = read->type->rank - 1; i >= 0; i--) {
    if (i == along) continue;
    if (tile->extent[i] > 1) return i;
    if (groups < 0 && kept_differs(t, tile->start[i])) groups = i;
  }
  return groups;
}

/* The point this many elements further along a dim. */
static Point further(Tiles *t, Point p, const Sym *dim, int64_t elements) {
  for (int i = 0; i < p.n; i++)
    if (dim_base(p.dim[i]) == dim_base(dim))
      p.at[i] = emit_sound(&t->l, sym_add(t->l.sym, p.at[i], sym_int(t->l.sym, elements)));
  return p;
}

static void fetch(Tiles *t, const Value *read, const Point *p) {
  const Type *type = read->type;
  int along = type_base_dim(type, p->dim[p->along]);
  if (along < 0 || access_contiguous(t, read->def) != type->dims[along]) return;
  int next = next_dim(t, read, along);
  int64_t row = (int64_t)dtype_bytes(type->dtype, t->tile[read->id].extent[along]);
  if (next < 0 || row < 1 || row > LONGEST) return;
  Point q = further(t, *p, type->dims[next], row < DISTANCE ? DISTANCE / row : 1);
  int line = LINE * 8 / dtype_memory_bits(type->dtype);
  for (int i = 0; i < p->width; i += line) {
    Point at = further(t, q, type->dims[along], i);
    access_prefetch(t, read->def, &at);
  }
}

void tiles_prefetch_rows(Tiles *t, const Op *sum, const Value *v, const Point *p) {
  if (p->along < 0 || t->tile[v->id].held != TILE_INLINE || !v->def || t->fetched[v->id]) return;
  t->fetched[v->id] = true;
  if (v->def->kind == OP_read && (!sum || tiles_used_later(t, sum, v))) fetch(t, v, p);
  for (int i = 0; i < v->def->nargs; i++) tiles_prefetch_rows(t, sum, v->def->args[i], p);
}

/* The next op with an effect that uses the reduction, if it writes its result to memory, row by row. */
static const Op *write_after(const Tiles *t, const Op *sum) {
  for (const Op *op = sum->next; op; op = op->next) {
    bool uses = false;
    if (op->nresults && t->plan.is_inline[op->results[0].id]) continue;
    for (int i = 0; i < op->nargs; i++)
      uses = uses || tiles_depends(t, op->args[i], &sum->results[0]);
    if (uses) return op->kind == OP_write ? op : NULL;
  }
  return NULL;
}

/* Whether the point has all coordinates of what is written, and vectors along its rows, and the tile is
 * not too large. */
static bool has_row_of(Tiles *t, const Op *write, const Op *sum, const Point *p) {
  const Value *of = sum->args[0];
  const Type *type = write->args[0]->type;
  const Sym *along = access_contiguous(t, write);
  int64_t elements = tile_elements(of->type, &t->tile[of->id]);
  for (int i = 0; i < type->rank; i++)
    if (!point_get(p, type->dims[i])) return false;
  return along && dim_base(along) == dim_base(p->dim[p->along]) &&
         (int64_t)dtype_bytes(type->dtype, elements) <= LARGEST_WRITTEN;
}

void tiles_prefetch_written(Tiles *t, const Op *sum, const Point *p) {
  bool *fetched = &t->fetched[sum->results[0].id];
  const Op *write = p->along < 0 || *fetched ? NULL : write_after(t, sum);
  if (!write || !has_row_of(t, write, sum, p)) return;
  *fetched = true;
  int line = LINE * 8 / dtype_memory_bits(write->args[0]->type->dtype);
  for (int i = 0; i < p->width; i += line) {
    Point at = further(t, *p, p->dim[p->along], i);
    access_prefetch(t, write, &at);
  }
}
