/* copy_parts.h: whether a copy to shared memory can be made in parts (op_parts.h).
 *
 * Each part is a copy of its own, made like the whole: by smaller boxes, or by all threads with fewer
 * accesses each. */
#ifndef WV_COPY_PARTS_H
#define WV_COPY_PARTS_H

#include "transform/copy/copy_mode.h"

/* NULL, or why the copy, whose mode is chosen, is not divided like this along dim `d`, which the
 * reason is about. */
const char *copy_why_whole(const CopyModes *w, const Op *copy, const CopySlice *s, int d);

/* The dim along which it could be divided into as many parts; -1: none. */
int copy_other_dim(const CopyModes *w, const Op *copy, int of);

#endif
