/* register_tile.h: which block of a product one thread keeps in registers, and how it multiplies.
 *
 * An m x n block of the result, n a number of vectors, is updated by outer products: per step of k
 * one load of each vector of B, one broadcast of each element (or pair, or four) of A, and m*n
 * products. Machines with registers for whole matrices hold 2x2 of them. */
#ifndef WV_REGISTER_TILE_H
#define WV_REGISTER_TILE_H

#include "target/target.h"

typedef struct RegisterTile {
  DotForm form;
  int m, n;
} RegisterTile;

typedef struct TileProduct {
  unsigned a, b, sum; /* MmaType; operands 0: as they are they have no type of the table */
  int bits;           /* of a sum */
  int rows, columns;
} TileProduct;

/* The last form of register_tile.def that the machine has and that fits; of it the block with the
 * fewest cycles for the whole product, what is left at the edges included; of those the one with
 * the fewest loads. */
RegisterTile register_tile(const TargetInfo *t, const TileProduct *p);

#endif
