/* descriptor.h: how a warpgroup instruction (wgmma) finds an operand in shared memory.
 *
 * An operand is rows x k elements, one row for each m (of A) or n (of B). It is stored in pieces of
 * 16 bytes; 8 of them, of 8 rows or 8 k, form a core matrix. A swizzle of S bytes keeps S bytes
 * contiguous and xors address bits 4..6 with bits 7..9 (as many as S needs).
 *
 *              K contiguous                               transposed: rows contiguous
 *   swizzled   stride: from 8 rows to the next            stride: from 8 k to the next
 *                                                         leading: from S bytes of rows to the next
 *   plain      stride: from 8 rows to the next            stride: from 16 bytes of rows to the next
 *              leading: from 16 bytes of k to the next    leading: from 8 k to the next */
#ifndef WV_DESCRIPTOR_H
#define WV_DESCRIPTOR_H

#include "layout/mem_layout.h"

typedef struct Descriptor {
  int64_t leading, stride; /* bytes */
  int span;                /* bytes of the swizzle: 0, 32, 64 or 128 */
  int transposed;          /* 0 or 1 */
} Descriptor;

bool descriptor_equal(const Descriptor *a, const Descriptor *b);

/* Bytes from the first element of the operand to element (row, k) of `bytes` each, before the
 * swizzle. */
int64_t descriptor_offset(const Descriptor *d, int bytes, int64_t row, int64_t k);

/* Applies the xor of address bits; its own inverse. */
int64_t descriptor_swizzle(int64_t address, int span);

/* The span whose swizzle is that of the layout, 0 if it has none; -1: there is no such span. */
int descriptor_span(const MemLayout *m);

/* The part of a tile that one instruction reads. */
typedef struct DescriptorPart {
  const MemLayout *tile; /* its first byte is aligned to 8 * span */
  int row_dim, k_dim;    /* dims of the tile */
  int rows, k;           /* of the instruction */
  int at[LAYOUT_DIMS];   /* coordinates of its first element */
} DescriptorPart;

/* The descriptor with which the instruction reads exactly these elements, and the byte of the tile
 * at which it begins; checked for every row and every k. False: no descriptor does. */
bool descriptor_find(const DescriptorPart *p, Descriptor *out, int64_t *first);

/* Boxes as wide as the swizzle whose rows run along dim `inner`, the other dims in order. Span 0:
 * pieces of 16 bytes without a swizzle. */
MemLayout descriptor_boxes(int dims, const int *extent, int bits, int inner, int span);

/* A tile from which instructions of rows x k read whole operands: one at each multiple of rows and
 * of k. */
typedef struct DescriptorTile {
  int dims, extent[LAYOUT_DIMS];
  int bits;
  int row_dim, k_dim;
  int inner;   /* row_dim or k_dim: elements along it are contiguous */
  int rows, k; /* of an instruction */
} DescriptorTile;

/* The layout of the tile in shared memory: with the widest swizzle such that its rows, and the part
 * that each instruction reads, are whole spans; without a swizzle if there is none. `t` is the tile
 * as each of `n` products reads it: they differ in row_dim, k_dim, rows and k. False: the
 * instructions cannot read it; only 16-bit elements may be transposed. */
bool descriptor_layout(const DescriptorTile *t, int n, MemLayout *out);

#endif
