/* open_tiles.h: tiles whose size is not known before a call.
 *
 *     kernel @softmax(%x: mem<M, N, f32>, ...)   workgroup M by 4 on 0; dynamic M; dynamic N
 *
 * No row divides N, so each workgroup holds all of it and its tiles have N elements. Registers are
 * allocated at compile time, but N is an argument: the kernel is *open* in N. It is compiled when a
 * call provides N, with tiles that are large enough (driver/fit.h). */
#ifndef WV_OPEN_TILES_H
#define WV_OPEN_TILES_H

#include "analysis/distribute.h"

enum { OPEN_MOST = 8 };

typedef struct OpenSymbol {
  const Sym *symbol;
  /* False: the symbol is only used as the size of its own dimension. A larger tile gives the same
   * results, because padding never reaches them. True: the value determines how the kernel is
   * divided. */
  bool by_value;
} OpenSymbol;

typedef struct OpenSymbols {
  OpenSymbol at[OPEN_MOST];
  int n;
} OpenSymbols;

/* Empty if some tile size is not known at the call either. Ids must be dense (ir_renumber). */
OpenSymbols open_symbols(Kernel *k);

/* Elements of the largest tile of a workgroup; 0 if a size is not a number. Ids must be dense. */
int64_t open_largest_tile(Kernel *k);

#endif
