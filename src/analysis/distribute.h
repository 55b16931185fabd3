/* distribute.h: the position of a workgroup. The header's rows give every dimension, at every op,
 * the range of coordinates that the workgroup works on (docs/language.md, section 4.8):
 *
 *     start    sum of its workgroup rows and, inside a loop over it, of its tile rows
 *     extent   the tile of the last such row; 1 for a batch dimension; else the whole dimension,
 *              or 1 if that is empty
 *     size     of the whole dimension: coordinates from there on do not exist
 *              (both are 1 where set_symbol made a coordinate of a dimension of vector shape 1; a
 *              dimension that follows another's workgroup id, 1 at a time, ends after its start)
 *
 *     workgroup M by 64 on 0; tile K by 32
 *     in `for K`:   M  start 64*$WG0  extent 64  size M        K  start 32*$ARGK  extent 32  size K
 *
 * Starts mention workgroup ids, loop counters and symbols that are uniform over the workgroup.
 * Symbols changed by set_symbol appear in the version in force at the op. Waves and lanes do not
 * appear: the division of a tile among them is a layout. eval_tile applies the same rules to
 * numbers, op by op; tests compare the two. */
#ifndef WV_DISTRIBUTE_H
#define WV_DISTRIBUTE_H

#include "ir/ir.h"

enum { WORKGROUP_DIMS = 5 }; /* that rows may name; dimensions from 2 on share $WG2 */

/* The coordinates of a tile along one dimension. */
typedef struct TileRange {
  const Sym *start, *extent, *size; /* in units of the dimension: of K/32, not of K */
  bool batch;                       /* vector shape 0: one coordinate at a time */
} TileRange;

/* Symbols that may hold any 64-bit number: versions of values from memory. */
typedef Vec(const Sym *) FarSymbols;

typedef struct Distribution {
  Kernel *k;
  Arena *arena;
  const SymFacts *facts; /* of the header */
  Vec(DivisionRow) rows;
  SymBinding *bound; /* the bind rows, resolved, starting with symbols that keep their value */
  int nfixed, nbound;
  bool has_versions; /* some op sets a symbol */
  FarSymbols far;
  bool explicit_grid;               /* there is a grid row: workgroup ids do not determine
                                     * positions */
  const Sym *count[WORKGROUP_DIMS]; /* workgroups along each dimension that rows name */
  const Sym *id[WORKGROUP_DIMS];    /* as used for positions: unfolded, reordered */
  const Sym *grid[3];               /* workgroups of a launch */
  const Sym *tiles[3];   /* what they compute: the same, unless the kernel is persistent */
  const Sym *waves[3];   /* of a workgroup, as declared */
  const Sym *threads[3]; /* of a workgroup, as declared */
} Distribution;

/* The positions of the tiles of `op` along `dim`: its results, and what it accesses. False after
 * reporting (K/32 where a position of K is not known to be a multiple of 32; an overflow). */
bool distribute_dim(const Distribution *d, const Op *op, const Sym *dim, TileRange *out);

/* Extents as numbers; false after reporting the symbol that has no value yet. */
bool distribute_extents(const Distribution *d, const Op *op, const Type *t, int *extent);
bool distribute_value(const Distribution *d, const Value *v, int *extent);

/* The extent of a tile along the base dimension: along K for K/32. Reports nothing; NULL on
 * overflow. */
const Sym *distribute_reach(const Distribution *d, const Op *op, const Sym *dim);

/* Whether a tile has one element along `dim`; reports nothing. */
bool distribute_is_one(const Distribution *d, const Op *op, const Sym *dim);

/* The trip count of a loop over `axis`, according to its tile row. */
const Sym *distribute_trips(const Distribution *d, const Op *loop);
const Sym *distribute_trips_over(const Distribution *d, const Op *op, const Sym *axis); /* at op */
const Sym *distribute_runs(const Distribution *d, const Op *op); /* what the op `runs` gives */

/* The ids that a workgroup with one tile would have, where the rows `persist` and `raster` of the kernel let it
 * compute several: without reordering, as expressions name them. */
void distribute_tile_ids(const Distribution *d, const Sym *out[WORKGROUP_DIMS]);

/* How many of so many tiles a workgroup computes. `first` is its number, or that of the first of its cluster. */
const Sym *distribute_tile_count(const Distribution *d, const Constraint *row, const Sym *tiles,
                                 const Sym *first);

/* The number of waves that share the tile of `dim`, of a workgroup or of a loop, as declared. */
const Sym *distribute_waves(const Distribution *d, const Sym *dim);
/* Of these, the waves that each reduce their own part along `dim` unless `block` is given: those that
 * share the tile of a workgroup. Waves that share the tile of a loop reduce it together. */
const Sym *distribute_waves_apart(const Distribution *d, const Sym *dim);

/* The offset of the calling thread's wave from the workgroup's position along `dim`, as declared; 0
 * where waves do not divide it. An alias is divided like the dimension it stands for. */
const Sym *distribute_wave_offset(const Distribution *d, const Sym *dim);
const Sym *distribute_wave_part(const Distribution *d, const Sym *dim); /* of each; NULL: none */

/* An expression with bindings and the versions in force at `op` substituted. */
const Sym *distribute_expr(const Distribution *d, const Op *op, const Sym *s);

FarSymbols far_symbols(Kernel *k, Arena *a); /* far_symbols.c */

/* Whether a row such as `boxes 0` switches the feature off. */
bool distribute_is_off(const Distribution *d, ConstraintKind kind);
bool distribute_is_on(const Distribution *d, ConstraintKind kind); /* `boxes 1`: requests it */

/* An expression of the header, which is used at many ops: symbols that are set somewhere remain. */
const Sym *distribute_fixed(const Distribution *d, const Sym *s);

#endif
