/* fit.h: kernels that are compiled when they are called (driver/open_tiles.h).
 *
 * When a call provides the symbols, a copy of the kernel is *fitted* to their values. A symbol that
 * is only the size of its own dimension stays dynamic; the tile gets the next power of two:
 *
 *     workgroup M by 4 on 0; dynamic N              N = 1000
 *     workgroup N by 1024 on 0 start 0 secondary    is added: all workgroups start at 0
 *
 * One program then handles every N up to 1024. Large tiles get more waves. Other symbols are bound to
 * their values; if the larger tile does not compile, so are these. */
#ifndef WV_FIT_H
#define WV_FIT_H

#include "backend/eval/eval_tile.h"
#include "driver/open_tiles.h"

/* What a copy is for: tile sizes or values, in the order of the open symbols. */
typedef struct Fit {
  int64_t size[OPEN_MOST];
  bool exact; /* all are values */
} Fit;

/* The open symbols of a kernel as it would be compiled. Reports nothing. */
OpenSymbols fit_open(Kernel *k);

Fit fit_of(const OpenSymbols *open, const int64_t *values, bool exact);
bool fit_equal(const OpenSymbols *open, const Fit *a, const Fit *b);
const char *fit_text(Arena *a, const OpenSymbols *open, const Fit *f); /* "N at most 1024" */
/* NULL after reporting a row that makes no sense for these sizes. */
Kernel *fit_kernel(Kernel *k, const OpenSymbols *open, const Fit *f);

/* The values given by the arguments of a simulation; false after reporting. */
bool fit_values(Kernel *k, const OpenSymbols *open, const EvalArg *args, int nargs,
                int64_t *values);

void fit_remark(Kernel *k, const OpenSymbols *open);
/* Reports that the kernel would have to be compiled before it is called. `hint`: an alternative to
 * binding the symbols, or "". */
void fit_refuse(Diags *diags, Span at, const char *name, const OpenSymbols *open, DiagCode code,
                const char *hint);

#endif
