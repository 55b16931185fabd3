/* divide_rows.h: which workgroup rows may be divided, and what a division changes.
 *
 *     workgroup M by 256 on 0; wave M by 128        workgroup M by 128 on 0; wave M by 64
 *
 * Each workgroup becomes `parts` workgroups with as many waves. Workgroup number n along the axis is
 * part n mod parts of the one that was number floor(n/parts): expressions that mention the number get
 * the latter, and then there are exactly `parts` times as many workgroups. */
#ifndef WV_DIVIDE_ROWS_H
#define WV_DIVIDE_ROWS_H

#include "analysis/analysis.h"

enum { DIVIDE_MOST = 3 }; /* rows that are divided */

typedef struct DivideRow {
  int row; /* its number in the header */
  const Sym *dim;
  int axis, tile;
} DivideRow;

typedef struct DivideRows {
  DivideRow at[DIVIDE_MOST];
  int n;
  /* If there is none: why a row cannot be divided, with the op to blame, or NULL. */
  const Constraint *refused;
  const char *why;
  const Op *blamed;
} DivideRows;

/* The rows whose division does not change results, of a tile-pure kernel after `bind`. */
DivideRows divide_rows(const Distribution *d, Arena *scratch);

/* Divides the tile of a row, which they divide evenly. False: waves or dims like M/32 do not. */
bool divide_row(Kernel *k, const DivideRow *row, int parts);
/* Gives a workgroup `factor` times as many waves; false: the wave tiles cannot be halved. */
bool divide_waves(Kernel *k, int factor);

#endif
