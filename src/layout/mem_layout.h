/* mem_layout.h: the layout of a tile's elements in memory.
 *
 * The inverse direction of layout.h: each coordinate is written in mixed radix and each digit moves
 * the element offset by its stride; then some bits of the offset may be xored with higher bits (a
 * *swizzle*), which spreads rows over the banks of shared memory without using more bytes.
 *
 *     [64, 64] d1/64:1 d0/64:64 : 16 bits                    rows of 128 bytes
 *     [64, 64] d1/64:1 d0/64:68 : 16 bits                    padded by 8 bytes
 *     [64, 64] d1/64:1 d0/64:64 xor 0x38>>3 : 16 bits        NVIDIA's 128-byte swizzle
 *     [64, 128] d1/64:1 d0/64:64 d1/2:4096 : 16 bits         boxes of 64 columns
 *     [3, 64, 64] d2/64:1 d1/64:64 d0/3:4096 : 16 bits       a ring of three slots
 *
 * The digits of one dim are listed fastest first; the product of their radices is at least its
 * extent. */
#ifndef WV_MEM_LAYOUT_H
#define WV_MEM_LAYOUT_H

#include "layout/layout.h"

/* offset ^= (offset >> shift) & mask. Its own inverse: the bits that are flipped (mask) and those
 * that control the flip (mask << shift) are disjoint. Mask 0: none. */
typedef struct Swizzle {
  unsigned mask; /* of the element offset */
  int shift;
} Swizzle;

typedef struct MemLayout {
  int dims;
  int extent[LAYOUT_DIMS];
  Digits digits; /* strides in elements */
  Swizzle swizzle;
  int bits; /* of an element */
} MemLayout;

/* Row-major, with rows `pad` elements longer than the last extent. */
MemLayout mem_rows(int dims, const int *extent, int bits, int pad);

/* The last dim is cut into boxes of `width`, each box row-major, one after the other: the way a
 * bulk copy engine delivers a tile that is wider than a box. */
MemLayout mem_boxes(int dims, const int *extent, int bits, int width);

/* In units of `unit` elements: bits [0, n) of the unit index are xored with bits [shift, shift+n).
 * Unit is a power of two, 0 < n <= shift. */
MemLayout mem_swizzled(const MemLayout *m, int unit, int n, int shift);

/* NVIDIA's swizzle of 32, 64 or 128 bytes, over boxes of that width. */
MemLayout mem_nvidia(int dims, const int *extent, int bits, int span);

/* `slots` copies of the layout one after the other, each aligned to `align` bytes; the slot becomes
 * dim 0. */
MemLayout mem_ring(const MemLayout *m, int slots, int align);

int mem_swizzle(Swizzle s, int offset);
int mem_linear_offset(const MemLayout *m, const int coord[LAYOUT_DIMS]); /* before the swizzle */
int mem_offset(const MemLayout *m, const int coord[LAYOUT_DIMS]);        /* in elements */
int mem_offset_of(const MemLayout *m, int element); /* by its row-major number */
int mem_size(const MemLayout *m); /* number of elements from 0 through the last one */
int64_t mem_bytes(const MemLayout *m);

bool mem_equal(const MemLayout *a, const MemLayout *b);
bool mem_is_valid(const MemLayout *m); /* digits cover, swizzle is an involution */
bool mem_is_injective(Arena *scratch, const MemLayout *m); /* no two elements share an offset */

/* The largest power of two of elements along `dim` that stay contiguous from each of its
 * multiples. */
int mem_vector(const MemLayout *m, int dim);

/* The text form shown in the head comment; layout_text.c. Mistakes are reported as by
 * layout_parse. */
void mem_print(StrBuf *out, const MemLayout *m);
const char *mem_parse(const char **text, MemLayout *out);

#endif
