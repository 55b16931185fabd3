/* register_tile.h: which block of a matmul one thread keeps in registers, and how it multiplies.
 *
 * An m x n block of the result, n a multiple of the vector length, is updated by outer products:
 * each step of k loads each vector of B once, broadcasts each element (or pair, or four) of A, and
 * does m*n multiplications. Machines with registers for whole matrices hold 2x2 of them. */
#ifndef WV_REGISTER_TILE_H
#define WV_REGISTER_TILE_H

#include "target/target.h"

typedef struct RegisterTile {
  DotForm form;
  int m, n;
} RegisterTile;

typedef struct TileProduct {
  unsigned a, b, sum; /* MmaType; operands 0: their type is not in the table */
  int bits;           /* of a sum */
  int rows, columns;
} TileProduct;

/* Takes the last form of register_tile.def that the machine has and that fits; among its blocks,
 * the one with the fewest cycles for the whole product, edges included, then the fewest loads. */
RegisterTile register_tile(const TargetInfo *t, const TileProduct *p);

#endif
