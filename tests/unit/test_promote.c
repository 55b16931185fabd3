/* test_promote.c: staging through shared memory never changes a value, and copies are few. */
#include "unit/tile_samples.h"

TEST(results_stay) { EACH_SAMPLE(s) CHECK_INT(sample_differs(s, "promote"), 0); }

TEST(masks_of_copies_are_exact) {
  EACH_SAMPLE(s) CHECK_INT(sample_differs(s, "bind,simplify,promote,mask"), 0);
}

TEST(inner_tiles_are_copied_without_masks) {
  EACH_SAMPLE(s) CHECK_INT(sample_differs(s, "promote,mask,version,mask"), 0);
}

static int count_ops(const Kernel *k, OpKind kind) {
  int n = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) n += op->kind == kind;
  return n;
}

/* The numbers of copies and allocations made for the sample. */
static void count_copies(const char *name, int *copies, int *allocs) {
  *copies = *allocs = -1;
  EACH_SAMPLE(s) {
    SampleSizes sizes;
    if (strcmp(s->name, name) != 0 || !sample_sizes(s, 0, &sizes)) continue;
    Lab l = sample_open(s, &sizes);
    int before = l.k ? count_ops(l.k, OP_alloc) : 0;
    if (sample_transform(&l, "promote")) {
      *copies = count_ops(l.k, OP_copy);
      *allocs = count_ops(l.k, OP_alloc) - before;
    }
    lab_close(&l);
  }
}

#define CHECK_COPIES(name, want)                                                                   \
  do {                                                                                             \
    int copies, allocs;                                                                            \
    count_copies(name, &copies, &allocs);                                                          \
    CHECK_INT(copies, want);                                                                       \
    CHECK_INT(allocs, want);                                                                       \
  } while (0)

TEST(every_read_that_asks_is_staged) {
  CHECK_COPIES("gemm", 2);
  CHECK_COPIES("copy", 0);
  CHECK_COPIES("twice", 1);   /* three reads of one tile */
  CHECK_COPIES("updated", 2); /* the second reads what was stored */
  CHECK_COPIES("scratch", 0); /* the author's allocation stays alone */
  CHECK_COPIES("ragged", 1);
  CHECK_COPIES("while", 1);
}

/* Its coordinates come from memory: the tile passes through registers. */
TEST(a_gather_is_read_and_written) {
  int copies, allocs;
  count_copies("paged", &copies, &allocs);
  CHECK_INT(copies, 0);
  CHECK_INT(allocs, 1);
}

TEST(a_tile_of_any_size_stays) {
  Lab l = lab_open("kernel @k(%a: mem<M, N, f32, shared>, %b: mem<M, N, f32>)\n"
                   "  workgroup M by 4 on 0; hardware threads 4, vector {M: 4, N: 4}\n"
                   "  dynamic M; dynamic N\n"
                   "{ %x = read %a\n  write %x, %b }");
  CHECK(sample_transform(&l, "promote"));
  CHECK_INT(count_ops(l.k, OP_copy), 0);
  CHECK(l.cx->diags.last && strcmp(diag_info[l.cx->diags.last->code].code, "R0605") == 0);
  lab_close(&l);
}

/* An allocation is copied out as well as in, with the same bounds tests as a write. */
TEST(copies_go_both_ways) {
  static const Sample out = {"copy out",
                             "kernel @k(%a: mem<M, N, f32>, %b: mem<N, M, f32>)\n"
                             "  workgroup M by 4 on 0; workgroup N by 4 on 1\n"
                             "  hardware threads 4, vector {M: 4, N: 4}\n"
                             "  dynamic M; dynamic N\n"
                             "{\n"
                             "  %s = alloc : mem<M, N, f32, shared>\n"
                             "  copy %a, %s\n"
                             "  copy %s, %b {mapping = map 2 {M: $index0, N: $index1} -> {N: "
                             "$index1, M: $index0}}\n"
                             "}",
                             {{"M", 4}, {"N", 4}}};
  CHECK_INT(sample_differs(&out, "mask"), 0);
  SampleSizes sizes = {{6, 7}};
  Lab l = sample_open(&out, &sizes);
  int wrong = 0;
  CHECK(lab_run(&l));
  for (int m = 0; m < 6; m++)
    for (int n = 0; n < 7; n++) wrong += get(&l, 1, n * 6 + m) != get(&l, 0, m * 7 + n);
  CHECK_INT(wrong, 0);
  lab_close(&l);
}

TESTS_MAIN(RUN(results_stay) RUN(masks_of_copies_are_exact)
               RUN(inner_tiles_are_copied_without_masks) RUN(every_read_that_asks_is_staged)
                   RUN(a_gather_is_read_and_written) RUN(a_tile_of_any_size_stays)
                       RUN(copies_go_both_ways))
