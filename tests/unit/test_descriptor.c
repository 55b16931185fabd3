/* test_descriptor.c: descriptors of operands in shared memory, compared with the layouts that
 * tensor copies write.
 */
#include "target/descriptor.h"
#include "unit/harness.h"

/* The instruction finds its elements where the layout puts them, including swizzles. */
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

/* Every rows x k part of the tile is described by some descriptor with these strides. */
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
  return descriptor_layout(&t, 1, &m) ? descriptor_span(&m) : -1;
}

TEST(layouts_for_tiles) {
  CHECK_INT(span_for((DescriptorTile){2, {128, 32}, 16, 0, 1, 0, 64, 16}), 128); /* as it is */
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

/* Whatever layout is chosen for adjacent columns, each instruction finds its part of them. */
TEST(parts_that_are_no_whole_spans) {
  static const struct {
    int columns, each, span;
  } widths[] = {{48, 48, 32},  {48, 24, 0},  {96, 48, 32},   {112, 56, 0}, {128, 64, 128},
                {64, 32, 128}, {64, 8, 128}, {80, 40, 0},    {80, 16, 32}, {192, 96, 64},
                {24, 24, 0},   {72, 24, 0},  {256, 128, 128}};
  for (size_t i = 0; i < WV_LEN(widths); i++) {
    DescriptorTile t = {2, {32, widths[i].columns}, 16, 1, 0, 1, widths[i].each, 16};
    MemLayout m;
    CHECK(descriptor_layout(&t, 1, &m));
    CHECK_INT(descriptor_span(&m), widths[i].span);
    DescriptorPart p = {.tile = &m, .row_dim = 1, .k_dim = 0, .rows = t.rows, .k = t.k};
    Descriptor d;
    int64_t first;
    CHECK(descriptor_find(&p, &d, &first) && reads(&m, 1, t.rows, t.k, d));
  }
}

/* One matmul uses the tile's columns as k, another as its rows. */
TEST(a_tile_of_two_products) {
  DescriptorTile along = {2, {64, 48}, 16, 0, 1, 1, 64, 16},
                 across = {2, {64, 48}, 16, 1, 0, 1, 24, 16};
  MemLayout m;
  CHECK(descriptor_layout(&along, 1, &m) && descriptor_span(&m) == 32);
  CHECK(descriptor_layout((DescriptorTile[]){along, across}, 2, &m) && descriptor_span(&m) == 0);
  CHECK(reads(&m, 0, 64, 16, (Descriptor){1024, 128, 0, false}));
  CHECK(reads(&m, 1, 24, 16, (Descriptor){128, 1024, 0, true}));
  across.bits = along.bits = 8;
  CHECK(!descriptor_layout((DescriptorTile[]){along, across}, 2, &m));
}

TESTS_MAIN(RUN(layouts_for_tiles) RUN(rows_along_k) RUN(rows_side_by_side)
               RUN(what_no_descriptor_reads) RUN(parts_that_are_no_whole_spans)
                   RUN(a_tile_of_two_products))
