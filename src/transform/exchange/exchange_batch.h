/* exchange_batch.h: reductions that do not depend on each other are exchanged at once.
 *
 *     write %p, %s                     write %p, %s
 *     %a = read %s                     %q = sum %y {into = 8}
 *     ...                        =>    write %q, %t
 *     %q = sum %y {into = 8}           %a = read %s
 *     write %q, %t                     ...
 *     %b = read %t                     %b = read %t
 *
 * What the second one needs is computed before the first one is read, so that `sync` needs one barrier
 * for both. If the body of a loop has only one such batch, a second barrier would keep a wave from
 * writing the parts of the next iteration before all have read those of this one: its allocations
 * become rings of two slots, which take turns. */
#ifndef WV_EXCHANGE_BATCH_H
#define WV_EXCHANGE_BATCH_H

#include "ir/ir.h"

/* Parts of a reduction, on their way between waves. */
typedef struct Exchanged {
  Op *write, *read;
} Exchanged;
typedef Vec(Exchanged) Exchanges;

/* `all`: those of a kernel, in program order. */
void exchange_batch(Kernel *k, Arena *scratch, const Exchanges *all);

#endif
