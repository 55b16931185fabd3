/* tiles_pack.h: what the files that pack operands into panels share. */
#ifndef WV_TILES_PACK_H
#define WV_TILES_PACK_H

#include "lower_tiles/tiles.h"

/* A panel under construction. */
typedef struct Packing {
  const Panels *to;
  const PackSource *from;
  const Sym *base;      /* offset of the panel */
  const Sym *first;     /* its first row, relative to the source */
  int rows, block_rows; /* of the panel; of the block */
  const Sym *at_row;    /* of the block, in the panel */
  int in_runs;          /* this many rows are contiguous, the next are elsewhere; 0: all are */
  bool whole;           /* all elements along k of this run of several are needed */
  int run;              /* elements along k that are contiguous, the next are elsewhere */
} Packing;

/* The operand at a point, in the type that the product is computed in. */
Value *pack_source_at(Tiles *t, const PackSource *from, const Point *p);

/* Row number `row` of the source, or the last needed row if that one is not needed. */
const Sym *pack_row_at(Tiles *t, const PackSource *from, const Sym *row);

/* Grants what holds for every row that pack_row_at gives. */
void pack_grant_rows(Tiles *t, const PackSource *from);

/* The point with one more dim. */
Point pack_point(Point p, const Sym *dim, const Sym *at);

/* The number of elements along k that are contiguous, if that is not all of them: a power of two; 1:
 * they are not (tiles_pack_runs.c). */
int pack_run_along_k(Tiles *t, const PackSource *from);
/* Runs the body for elements [from, to) along k, the last dim of the point, `width` at a time. `needed`:
 * none of them is skipped. What addresses need is computed once for each run. */
bool pack_vectors(Tiles *t, Packing *x, Point p, const Sym *from, const Sym *to, int width,
                  bool needed, NestBody *body);

/* Transposes `n` vecs of n elements, a power of two and at most TURN_MOST: row r of column c to row
 * c of column r. An element is `unit` registers. */
void pack_transpose(Tiles *t, Value **v, int n, int unit);

/* A panel in which several elements of k are contiguous (tiles_k_groups.c). */
bool pack_k_groups(Tiles *t, Packing *x, bool along_rows);

#endif
