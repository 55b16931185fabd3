/* register_tile.h: which block of a product one thread keeps in vector registers.
 *
 * An m x n block of the result, n a number of vectors, is updated by outer products: per step of k
 * one load of each vector of B, one broadcast of each element of A, and m*n products. */
#ifndef WV_REGISTER_TILE_H
#define WV_REGISTER_TILE_H

#include "target/target.h"

typedef struct RegisterTile {
  int m, n;
} RegisterTile;

/* For a product of rows x columns whose elements have this many bits. The block with the fewest
 * cycles for the whole of it, what is left at the edges included; of those the one with the fewest
 * loads. */
RegisterTile register_tile(const TargetInfo *t, int bits, int rows, int columns);

#endif
