/* copy_box.h: a copy to shared memory as boxes of a tensor, which a copy engine (TMA) moves on its
 * own.
 *
 *     copy %a, %s     %a: mem<M, K, f16>, %s: [128, 64] d1/64:1 d0/128:64 xor 0x38>>3
 *
 *     one box of [128, 64] elements, swizzled over 128 bytes
 *
 * A box has the dims of the tensor, and its elements are stored in shared memory in that order. A
 * tile takes several boxes if its rows are longer than the swizzle, or if an extent exceeds what a
 * box may have. Patches of a convolution are boxes of pixels and channels.
 *
 * The rows of a box may end before the tensor does, at a coordinate that is only known to the
 * workgroup: where a sequence ends in a tensor of many. Zeros are copied for the others. */
#ifndef WV_COPY_BOX_H
#define WV_COPY_BOX_H

#include "layout/mem_layout.h"
#include "transform/copy/copy_join.h"
#include "transform/copy/copy_pixels.h"
#include "transform/copy/copy_plan.h"

typedef struct CopyBox {
  int rank;                /* of the tensor; 2 when traversing pixels */
  int axis[IR_MAX_RANK];   /* for each dim of the tensor, the dim of the tile; -1: a single
                            * coordinate */
  int extent[IR_MAX_RANK]; /* of a box */
  int count[IR_MAX_RANK];  /* boxes along that dim ... */
  int first[IR_MAX_RANK];  /* ... from that one on */
  int span;                /* bytes of the swizzle; 0: none */
  int bytes;               /* of all boxes */
  int clip;                /* the dim along which rows end before the tensor does; -1: none */
  const Sym *end;          /* the coordinate at which they do */
  CopyJoin join;           /* outer dims that are one: boxes have one coordinate for them */
  CopyPixels pixels;       /* if the box traverses pixels */
} CopyBox;

/* `b`: bounds of the copy; `slot`: the layout of its tile in shared memory. Returns NULL, or why
 * the copy is not made of boxes. */
const char *copy_box(const Distribution *d, const AccessBounds *b, const MemLayout *slot,
                     CopyBox *out);
const char *copy_box_slice(const Distribution *d, const AccessBounds *b, const MemLayout *slot,
                           const CopySlice *s, CopyBox *out);

/* Divides the boxes along one dim so that each of `peers` workgroups can copy as many of them; returns
 * that dim of the tensor, or -1: it cannot be done. */
int copy_box_share(CopyBox *box, const MemLayout *slot, int peers);

/* The boxes of a tile that is not copied, only brought to the cache; NULL, or why there are none. */
const char *copy_box_of_tile(const Distribution *d, const AccessBounds *b, CopyBox *out);

/* The boxes of one of several parts of such a tile, along the first dim that it has more than one element of.
 * Returns that dim of the tensor, or -1: it cannot be divided so. */
int copy_box_divide(CopyBox *box, int parts);

/* NULL, or why the tensor is not known to meet the copy engine's requirements: no dim is empty
 * where the copy is made, and the tensor and its rows begin at multiples of 16 bytes. */
const char *copy_box_tensor(const Distribution *d, const AccessBounds *b, const CopyBox *box);

/* The coordinate along dim m of the tensor, over the $x; with joined dims, 0 along the first of them. */
const Sym *copy_box_coord(const Distribution *d, const AccessBounds *b, const CopyBox *box, int m);

/* Number of elements before the box with these indices along the tensor's dims, before the
 * swizzle. */
int copy_box_offset(const CopyBox *box, const MemLayout *slot, const int *number);

#endif
