/* retarget_runs.h: orders of k, m and n in which a lane's operands are runs of neighbours.
 *
 *     positions of k in a lane's registers      0 1 8 9, 16 17 24 25      0 1 2 3, 4 5 6 7
 *
 * Narrow elements are then loaded by whole words, and converted or scaled together. */
#ifndef WV_RETARGET_RUNS_H
#define WV_RETARGET_RUNS_H

#include "anchors/anchors.h"
#include "transform/pass.h"

/* An order of `k` elements in which a lane's operands are runs of neighbours, as long as one load
 * of elements of `bits` bits brings, rather than a few of each copy of the instruction: narrow
 * elements are then loaded, and scaled, together. Empty: there is none. */
Digits retarget_order_in_runs(const MmaInfo *row, int k, int bits);

/* Gives the product of a wave such an order if an operand is read from rows along k and converted to
 * wider elements, while the other one stays the same in all iterations of the loop; or if several
 * elements of an operand are in one of what is read. */
void retarget_order_converted(Kernel *k, const Distribution *d, const Machine *m, Op *op);

/* The same along the instruction's m or n, if an operand is read from rows along it. Each wave must have its part
 * of k already. */
void retarget_order_across(Kernel *k, const Distribution *d, const Machine *m, Arena *a, Op *op);

#endif
