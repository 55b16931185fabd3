/* tiles_product.h: what the files that multiply tiles share. */
#ifndef WV_TILES_PRODUCT_H
#define WV_TILES_PRODUCT_H

#include "target/register_tile.h"
#include "tiles/tiles.h"

/* Which operands are not packed, but read where they lie (tiles_thin.c). */
typedef enum ThinForm {
  THIN_NOT,  /* none */
  THIN_DOTS, /* both along k */
  THIN_ROWS  /* the rhs along its rows, the lhs from panels */
} ThinForm;

typedef struct Product {
  const Op *op;
  const Value *lhs, *rhs, *acc, *out;
  MmaRoles roles;
  Tile at[3]; /* where lhs, rhs and the accumulator lie */
  int m, n, k, dim_m, dim_n;
  DType dtype, operands; /* what is summed; what is multiplied */
  RegisterTile tile;
  ThinForm thin;
  PackSource source[2]; /* lhs and rhs */
  const Panels *a, *b;
  Panels rows;      /* of a, where they lie */
  const Sym *whole; /* when they can be taken from there */
  const Value *old; /* whose buffer is taken over; NULL: a new one is needed */
  Value *fill;      /* what all of acc is; NULL: it is in the buffer */
  bool made;        /* acc is not in the buffer: blocks make what they start with */
  Point batch;      /* coordinates of the other dims */
} Product;

/* Of the result. */
typedef struct Block {
  int m, n;
  const Sym *row, *column;    /* relative */
  const Sym *a_base, *b_base; /* of the panels */
} Block;

/* The block of the accumulator, row by row; `offset` is product_offset. */
Value *product_offset(Tiles *t, const Product *p, const Block *b);
Value *product_load(Tiles *t, const Product *p, const Block *b, Value *offset);
void product_store(Tiles *t, const Product *p, const Block *b, Value *offset, Value *v);

/* ---- rows of the lhs where they lie (tiles_rows.c) ---- */

/* Whether matrix registers can load the lhs from where it is: says p->rows and p->whole. */
bool rows_in_place(Tiles *t, Product *p);
/* A step of k of `rows` rows. */
Value *product_rows(Tiles *t, const Panels *from, const Sym *row, const Sym *k, int rows);

/* ---- products with few rows or columns (tiles_thin.c) ---- */

/* Says p->thin, by p->source; the block is one of plain elements then. */
void thin_choose(Tiles *t, Product *p);
bool thin_open(Tiles *t, Product *p); /* behind open_accumulator */
bool thin_multiply(Tiles *t, Product *p);

/* What both forms ask. */
int thin_rows(Tiles *t, const PackSource *s);                 /* how many can be needed */
int thin_few(Tiles *t, const Product *p);                     /* which operand has fewer */
int thin_lanes(const Tiles *t, DType dtype);                  /* of a register */
const Sym *thin_whole(Tiles *t, const Sym *depth, int piece); /* what of it is whole pieces */
bool thin_lies_along(Tiles *t, const PackSource *s, const Sym *dim);

bool dots_multiply(Tiles *t, const Product *p); /* THIN_DOTS (tiles_dots.c) */

#endif
