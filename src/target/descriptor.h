/* descriptor.h: how a warpgroup instruction (wgmma) finds an operand in shared memory.
 *
 * An operand is rows x k elements, a row for each m (of A) or n (of B). It lies in pieces of 16
 * bytes; 8 of them, of 8 rows or 8 k, are a core matrix. A swizzle of S bytes puts S bytes side by
 * side and flips address bits 4..6 by bits 7..9 (as many as S needs).
 *
 *              rows of k side by side                     transposed: rows side by side along k
 *   swizzled   stride: from 8 rows to the next            stride: from 8 k to the next
 *                                                         leading: from S bytes of rows to the next
 *   plain      stride: from 8 rows to the next            stride: from 16 bytes of rows to the next
 *              leading: from 16 bytes of k to the next    leading: from 8 k to the next */
#ifndef WV_DESCRIPTOR_H
#define WV_DESCRIPTOR_H

#include "target/mem_layout.h"

typedef struct Descriptor {
  int64_t leading, stride; /* bytes */
  int span;                /* bytes of the swizzle: 0, 32, 64 or 128 */
  bool transposed;
} Descriptor;

/* Bytes from the operand's first to element (row, k) of `bytes` each, before the swizzle. */
int64_t descriptor_offset(const Descriptor *d, int bytes, int64_t row, int64_t k);

/* The flip of address bits; an involution. */
int64_t descriptor_swizzle(int64_t address, int span);

/* The span whose flips are those of the layout, 0 without any; -1: there is no such span. */
int descriptor_span(const MemLayout *m);

/* The part of a tile that one instruction reads. */
typedef struct DescriptorPart {
  const MemLayout *tile; /* its first byte is aligned to 8 * span */
  int row_dim, k_dim;    /* dims of the tile */
  int rows, k;           /* of the instruction */
  int at[LAYOUT_DIMS];   /* coordinates of its first element */
} DescriptorPart;

/* The descriptor with which the instruction reads exactly these elements, and the byte of the tile
 * it begins at; checked for every row and every k. False: no descriptor does. */
bool descriptor_find(const DescriptorPart *p, Descriptor *out, int64_t *first);

/* Boxes as wide as the swizzle whose rows lie along dim `inner`, the other dims in their order.
 * Span 0: pieces of 16 bytes, which nothing flips. */
MemLayout descriptor_boxes(int dims, const int *extent, int bits, int inner, int span);

/* A tile from which instructions of rows x k read whole operands: one at each multiple of rows and
 * of k. */
typedef struct DescriptorTile {
  int dims, extent[LAYOUT_DIMS];
  int bits;
  int row_dim, k_dim;
  int inner;   /* row_dim or k_dim: neighbours along it lie side by side */
  int rows, k; /* of an instruction */
} DescriptorTile;

/* How to put it into shared memory: with the widest swizzle of which its rows, and the part of each
 * instruction, are whole spans; without a swizzle where there is none. `t` is the tile as each of
 * `n` products reads it: they differ in row_dim, k_dim, rows and k. False: the instructions cannot
 * read it; only elements of 16 bits may be transposed. */
bool descriptor_layout(const DescriptorTile *t, int n, MemLayout *out);

#endif
