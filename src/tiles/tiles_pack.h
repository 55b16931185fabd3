/* tiles_pack.h: what the files that make panels of operands share. */
#ifndef WV_TILES_PACK_H
#define WV_TILES_PACK_H

#include "tiles/tiles.h"

/* A panel that is being made. */
typedef struct Packing {
  const Panels *to;
  const PackSource *from;
  const Sym *base;   /* offset of the panel */
  const Sym *first;  /* its first row, relative */
  int rows, group;   /* of the panel; of the block */
  const Sym *at_row; /* of the block, in the panel */
} Packing;

/* The operand at a point, as what the product computes in. */
Value *pack_source_at(Tiles *t, const PackSource *from, const Point *p);

/* Row number `row` of the source, or, where nobody needs it, the last that somebody does. */
const Sym *pack_row_at(Tiles *t, const PackSource *from, const Sym *row);

/* Grants what holds of every row that it gives. */
void pack_grant_rows(Tiles *t, const PackSource *from);

/* The point with a further dim. */
Point pack_point(Point p, const Sym *dim, const Sym *at);

/* `n` vecs of n elements, a power of two of them and at most PACK_MOST: row r of column c to row c
 * of column r. Elements are `unit` registers each. */
void pack_transpose(Tiles *t, Value **v, int n, int unit);

/* Rows and elements of k that are transposed together: 8, or as many as long registers hold. */
enum { PACK_LEAST = 8, PACK_MOST = 16 };
int pack_block(const Tiles *t);

/* A panel in which several elements of k lie side by side (tiles_sides.c). */
bool pack_sides(Tiles *t, Packing *x, bool along_rows);

#endif
