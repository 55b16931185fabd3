/* tiles_region.h: loops and conditionals of the tile kernel. */
#ifndef WV_TILES_REGION_H
#define WV_TILES_REGION_H

#include "lower_tiles/tiles.h"

TilesFn tiles_region_op;
bool tiles_lower_region(Tiles *t, const Region *r); /* lower_tiles.c: without its yield */

SavedScope tiles_open_scope(Tiles *t, Region *region, const SymFacts *facts);
void tiles_close_scope(Tiles *t, SavedScope saved);
void tiles_define(Tiles *t, const Sym *symbol); /* it has a value in this scope only */
void tiles_insert(Tiles *t, Op *op);            /* at the end of the scope, or before its open op */

#endif
