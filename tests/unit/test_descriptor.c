/* test_descriptor.c: descriptors of shared operands, against the layouts that tensor copies write.
 */
#include "target/descriptor.h"
#include "unit/harness.h"

/* The instruction's elements are where the layout has put them, flips and all. */
static bool reads_each(const MemLayout *m, const DescriptorPart *p, const Descriptor *d,
                       int64_t first) {
  int bytes = m->bits / 8;
  for (int row = 0; row < p->rows; row++)
    for (int k = 0; k < p->k; k++) {
      int coord[LAYOUT_DIMS] = {0};
      coord[p->row_dim] = p->at[p->row_dim] + row;
      coord[p->k_dim] = p->at[p->k_dim] + k;
      int64_t address = descriptor_swizzle(first + descriptor_offset(d, bytes, row, k), d->span);
      if (address != (int64_t)mem_offset(m, coord) * bytes) return false;
    }
  return true;
}

/* Every instruction of rows x k over the tile is read by some descriptor with these strides. */
static bool reads(const MemLayout *m, int row_dim, int rows, int k, Descriptor expected) {
  DescriptorPart p = {.tile = m, .row_dim = row_dim, .k_dim = 1 - row_dim, .rows = rows, .k = k};
  for (int i = 0; i < m->extent[row_dim]; i += rows)
    for (int j = 0; j < m->extent[1 - row_dim]; j += k) {
      Descriptor d;
      int64_t first;
      p.at[row_dim] = i;
      p.at[1 - row_dim] = j;
      if (!descriptor_find(&p, &d, &first)) return false;
      if (d.leading != expected.leading || d.stride != expected.stride || d.span != expected.span ||
          d.transposed != expected.transposed)
        return false;
      if (!reads_each(m, &p, &d, first)) return false;
    }
  return true;
}

TEST(rows_along_k) {
  MemLayout m128 = mem_nvidia(2, (int[]){64, 64}, 16, 128),
            m64 = mem_nvidia(2, (int[]){64, 32}, 16, 64);
  MemLayout m32 = mem_nvidia(2, (int[]){64, 16}, 16, 32),
            boxes = mem_nvidia(2, (int[]){64, 128}, 16, 128);
  CHECK(reads(&m128, 0, 64, 16, (Descriptor){16, 1024, 128, false}));
  CHECK(reads(&m64, 0, 64, 16, (Descriptor){16, 512, 64, false}));
  CHECK(reads(&m32, 0, 64, 16, (Descriptor){16, 256, 32, false}));
  CHECK(reads(&boxes, 0, 64, 16, (Descriptor){16, 1024, 128, false}));
  MemLayout bytes = mem_nvidia(2, (int[]){128, 128}, 8, 128);
  CHECK(reads(&bytes, 0, 64, 32, (Descriptor){16, 1024, 128, false}));
}

TEST(rows_side_by_side) {
  MemLayout m = mem_nvidia(2, (int[]){32, 128}, 16, 128); /* k, n: two boxes of 64 columns */
  CHECK(reads(&m, 1, 128, 16, (Descriptor){4096, 1024, 128, true}));
  CHECK(reads(&m, 1, 64, 16, (Descriptor){16, 1024, 128, true}));
}

TEST(what_no_descriptor_reads) {
  MemLayout plain = mem_rows(2, (int[]){64, 64}, 16, 0),
            padded = mem_rows(2, (int[]){64, 64}, 16, 8);
  MemLayout other = mem_swizzled(&plain, 8, 2, 4);
  Descriptor d;
  int64_t first;
  const MemLayout *bad[] = {&plain, &padded, &other};
  for (size_t i = 0; i < WV_LEN(bad); i++) {
    DescriptorPart p = {.tile = bad[i], .row_dim = 0, .k_dim = 1, .rows = 64, .k = 16};
    CHECK(!descriptor_find(&p, &d, &first));
  }
}

static int span_for(DescriptorTile t) {
  MemLayout m;
  if (!descriptor_layout(&t, &m)) return -1;
  return m.swizzle.mask * (unsigned)t.bits / 8 == 0x70   ? 128
         : m.swizzle.mask * (unsigned)t.bits / 8 == 0x30 ? 64
                                                         : 32;
}

TEST(layouts_for_tiles) {
  CHECK_INT(span_for((DescriptorTile){2, {128, 32}, 16, 0, 1, 0, 64, 16}), 128); /* as it lies */
  CHECK_INT(span_for((DescriptorTile){3, {1, 16, 64}, 16, 2, 1, 1, 64, 16}), 32);
  CHECK_INT(span_for((DescriptorTile){2, {128, 32}, 8, 0, 1, 0, 64, 32}), -1);
  CHECK_INT(span_for((DescriptorTile){2, {64, 64}, 16, 0, 1, 1, 64, 16}), 128);
  CHECK_INT(span_for((DescriptorTile){2, {64, 32}, 16, 0, 1, 1, 64, 16}), 64);
  CHECK_INT(span_for((DescriptorTile){2, {64, 48}, 16, 0, 1, 1, 64, 16}), 32);
  CHECK_INT(span_for((DescriptorTile){3, {1, 128, 64}, 16, 1, 2, 2, 64, 16}), 128);
  CHECK_INT(span_for((DescriptorTile){2, {32, 128}, 16, 1, 0, 1, 64, 16}), 128); /* transposed */
  CHECK_INT(span_for((DescriptorTile){2, {32, 128}, 8, 1, 0, 1, 64, 32}), -1);   /* not of bytes */
  CHECK_INT(span_for((DescriptorTile){2, {64, 24}, 16, 0, 1, 1, 64, 16}), -1);   /* half a k */
  CHECK_INT(span_for((DescriptorTile){3, {64, 1, 64}, 16, 0, 2, 2, 64, 16}), 128);
  CHECK_INT(span_for((DescriptorTile){3, {64, 64, 1}, 16, 0, 1, 2, 64, 16}),
            -1); /* neither is last */
}

TESTS_MAIN(RUN(layouts_for_tiles) RUN(rows_along_k) RUN(rows_side_by_side)
               RUN(what_no_descriptor_reads))
