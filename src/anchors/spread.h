/* spread.h: from anchors to a layout for every tile.
 *
 * Each tile gets the layout of the strongest anchor that reaches it, forward or backward along the
 * links of layout_links.h. Anchors spread in the order of anchor_before, each over tiles that no
 * stronger one has reached, nearest first. This is a join in a lattice: the result does not depend
 * on the order of the anchors in the list. A row of sums says nothing about the tile it was summed
 * from, so parts extend to wholes only afterwards, where no anchor reached. Each remaining tile
 * gets a default layout, which spreads in turn. */
#ifndef WV_SPREAD_H
#define WV_SPREAD_H

#include "anchors/anchors.h"

/* By value id; NULL entries: not a tile, or it stays in memory. Returns NULL after reporting. */
const Layout **spread_layouts(const Distribution *d, const Machine *m, Anchors *anchors, Arena *a);

#endif
