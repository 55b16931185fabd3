/* tiles_product.h: what the files that multiply tiles share. */
#ifndef WV_TILES_PRODUCT_H
#define WV_TILES_PRODUCT_H

#include "lower_tiles/tiles.h"
#include "target/register_tile.h"

/* Which operands are read in place instead of being packed (tiles_skinny.c). */
typedef enum SkinnyForm {
  SKINNY_NOT,  /* none */
  SKINNY_DOTS, /* both, along k */
  SKINNY_AXPY  /* axpy: the rhs along its rows; the lhs from panels */
} SkinnyForm;

/* A product as loops over blocks of the result. */
typedef struct TiledProduct {
  const Op *op;
  Product of;
  const Value *out;
  Tile at[3]; /* positions of lhs, rhs and the accumulator */
  int m, n, k, dim_m, dim_n;
  DType dtype, operands; /* the type of sums; the type of factors */
  RegisterTile tile;
  SkinnyForm skinny;
  PackSource source[2]; /* lhs and rhs */
  const Panels *a, *b;
  Panels in_place;          /* rows of a, not packed */
  const Sym *in_place_if;   /* the condition under which it can be used */
  bool next;                /* prefetches the operands of the next workgroup, not panels */
  const Value *old;         /* the value whose buffer is reused; NULL: a new one is needed */
  Value *fill;              /* the value of all of acc; NULL: acc is in the buffer */
  const Straight *straight; /* NULL: the result stays in its buffer */
  Value *initial;           /* of a loop in `straight` */
  bool made;                /* acc is not in the buffer: blocks compute their initial value */
  Point batch;              /* coordinates of the other dims */
} TiledProduct;

/* A block of the result. */
typedef struct Block {
  int m, n;
  const Sym *row, *column;    /* relative */
  const Sym *a_base, *b_base; /* of the panels */
  int b_rows;                 /* of the panel of b, of which the block uses the first n */
  const Sym *k_from, *k_to;   /* the part of k that is added now; NULL: all of it */
} Block;

/* The block of the accumulator, row by row; `offset` is product_offset. */
Value *product_offset(Tiles *t, const TiledProduct *p, const Block *b);
Value *product_load(Tiles *t, const TiledProduct *p, const Block *b, Value *offset);
/* Whether vectors use up panels faster than hardware prefetchers bring them. */
bool product_has_fast_vectors(const Tiles *t, const TiledProduct *p);
/* The extent of k in whole steps of the instruction. */
const Sym *product_steps(Tiles *t, const TiledProduct *p);
void product_store(Tiles *t, const TiledProduct *p, const Block *b, Value *offset, Value *v);

/* ---- results that go straight to memory (tiles_straight.c) ---- */

/* Sets p->straight, if possible; false after reporting. */
bool straight_open(Tiles *t, TiledProduct *p);
/* Whether sums of earlier tiles of k are in the buffer. */
const Sym *straight_has_sums(Tiles *t, const Straight *s);
/* Prefetches what the block will be written to: all at once, or line by line if addresses are linear. That
 * many lines at once would occupy all fill buffers of a core, and the loop over k would wait. */
void straight_fetch(Tiles *t, const TiledProduct *p, const Block *b);
bool straight_is_linear(Tiles *t, const TiledProduct *p);
int straight_lines(const TiledProduct *p, const Block *b);
void straight_fetch_line(Tiles *t, const TiledProduct *p, const Block *b, const Sym *line);
/* Whether the block will be written now. */
const Sym *straight_fetches(Tiles *t, const TiledProduct *p, const Block *b);
/* Writes the block, if it is complete, or stores it to the buffer. */
bool straight_store(Tiles *t, const TiledProduct *p, const Block *b, Value *offset, Value *v);

/* ---- operands of the next workgroup (tiles_next.c) ---- */

/* When to prefetch them; false: never. */
const Sym *next_condition(Tiles *t, const TiledProduct *p);
/* Prefetches the share of step k of the block. */
void next_fetch(Tiles *t, const TiledProduct *p, const Block *b, const Sym *k);

/* ---- the lhs in place (tiles_in_place.c) ---- */

/* Whether matrix registers can load the lhs in place; sets p->in_place and p->in_place_if. */
bool in_place_choose(Tiles *t, TiledProduct *p);
/* A step of k of `rows` rows of it. */
Value *in_place_load(Tiles *t, const Panels *from, const Sym *row, const Sym *k, int rows);

/* ---- products with few rows or columns (tiles_skinny.c) ---- */

/* Sets p->skinny from p->source; the block then consists of plain elements. */
void skinny_choose(Tiles *t, TiledProduct *p);
bool skinny_open(Tiles *t, TiledProduct *p); /* after open_accumulator */
bool skinny_multiply(Tiles *t, TiledProduct *p);

/* Shared by both forms. */
int skinny_needed_rows(Tiles *t, const PackSource *s);          /* how many rows can be needed */
int skinny_few(Tiles *t, const TiledProduct *p);                /* the operand with fewer rows */
int skinny_lanes(const Tiles *t, DType dtype);                  /* of a register */
const Sym *skinny_whole(Tiles *t, const Sym *depth, int piece); /* the part in whole pieces */
bool skinny_is_contiguous(Tiles *t, const PackSource *s, const Sym *dim);

bool dots_multiply(Tiles *t, const TiledProduct *p); /* SKINNY_DOTS (tiles_dots.c) */

#endif
