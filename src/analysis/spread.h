/* spread.h: from anchors to a layout for every tile.
 *
 * Each tile gets the layout that the strongest anchor reaching it brings, forward and backward
 * along the links of layout_links.h. Anchors spread in the order of anchor_before, each over tiles
 * that no stronger one has reached, nearest first. That is a join in a lattice: the result does not
 * depend on the order in which the anchors stand in the list. A row of sums says nothing of the
 * tile it was summed from, so parts extend to wholes only afterwards, where no anchor reached. What
 * is left then gets a layout of its own, and spreads it. */
#ifndef WV_SPREAD_H
#define WV_SPREAD_H

#include "analysis/anchors.h"

/* By value id; NULL for what is no tile, or stays in memory. NULL as a whole after reporting. */
const Layout **spread_layouts(const Distribution *d, const Machine *m, Anchors *anchors, Arena *a);

#endif
