/* copy_box.h: a copy to shared memory as boxes of a tensor, which a copy engine (TMA) moves by
 * itself.
 *
 *     copy %a, %s     %a: mem<M, K, f16>, %s: [128, 64] d1/64:1 d0/128:64 xor 0x38>>3
 *
 *     one box of [128, 64] elements, swizzled over 128 bytes
 *
 * A box has the dims of the tensor, and its elements follow each other in shared memory in that
 * order. A tile is several boxes where its rows are longer than the swizzle, or an extent is beyond
 * what a box may have. Patches of a convolution are boxes of pixels and channels. */
#ifndef WV_COPY_BOX_H
#define WV_COPY_BOX_H

#include "analysis/copy_pixels.h"
#include "target/mem_layout.h"

typedef struct CopyBox {
  int rank;                /* of the tensor; 2 where it walks over pixels */
  int axis[IR_MAX_RANK];   /* by dim of the tensor: of the tile; -1: one coordinate for all */
  int extent[IR_MAX_RANK]; /* of a box */
  int count[IR_MAX_RANK];  /* boxes along that dim */
  int span;                /* bytes of the swizzle; 0: none */
  int bytes;               /* of all boxes */
  CopyPixels pixels;       /* where they are those of a walk */
} CopyBox;

/* `b`: of the copy; `slot`: where its tile lies in shared memory. NULL, or why it is no box. */
const char *copy_box(const Distribution *d, const AccessBounds *b, const MemLayout *slot,
                     CopyBox *out);

/* NULL, or why the tensor's elements are not known to lie as the copy engine needs them: none of
 * its dims is empty where the copy is made, it and its rows begin at multiples of 16 bytes. */
const char *copy_box_tensor(const Distribution *d, const AccessBounds *b, const CopyBox *box);

/* Elements in front of the box with these numbers along the dims of the tensor, before the swizzle.
 */
int copy_box_offset(const CopyBox *box, const MemLayout *slot, const int *number);

#endif
