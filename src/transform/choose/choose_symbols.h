/* choose_symbols.h: the tiles that a kernel leaves open, and the values that are considered.
 *
 *     workgroup M by BLOCK_M on 0; wave M by BLOCK_M/2; tile K by BLOCK_K
 *
 * BLOCK_M and BLOCK_K are *open*: symbols in the size of a workgroup, tile or wave row, or in the number
 * of waves, to which no row and no argument gives a value. Other symbols without a value are not: the size
 * of a tensor is the caller's. */
#ifndef WV_CHOOSE_SYMBOLS_H
#define WV_CHOOSE_SYMBOLS_H

#include "analysis/analysis.h"
#include "target/target.h"

enum { CHOOSE_SYMBOLS = 8, CHOOSE_VALUES = 16 };

typedef struct ChooseTile {
  const Sym *symbol;
  const Constraint *row; /* the first that mentions it */
  int64_t value[CHOOSE_VALUES];
  int n;
  int64_t usual;   /* preferred where nothing can be predicted */
  const char *why; /* no value is legal; NULL: some are */
  const Op *blamed;
} ChooseTile;

typedef struct ChooseTiles {
  ChooseTile at[CHOOSE_SYMBOLS];
  int n;
  const Sym *too_many; /* the first that has no place; NULL: all have */
  const Constraint *too_many_row;
} ChooseTiles;

/* Without values, which is quick. Ids must be dense. */
ChooseTiles choose_open(const Distribution *d, Arena *scratch);
/* Fills in the values: what instructions and dims like K/32 divide, up to the size of the dimension. A
 * workgroup that combines elements along a dimension has all of it. */
void choose_fill(const Distribution *d, const TargetInfo *t, Arena *scratch, ChooseTiles *open);

#endif
