/* test_version.c: a body in two copies, for inner and for edge workgroups, computes the same. */
#include "unit/tile_samples.h"

TEST(results_stay) { EACH_SAMPLE(s) CHECK_INT(sample_differs(s, "mask,version"), 0); }

/* Masks are the same when they are computed again, with the tests of the copies as facts: inside,
 * none of the hoisted tests is left. */
TEST(copies_prove_their_own_masks) {
  EACH_SAMPLE(s) CHECK_INT(sample_differs(s, "mask,version,mask"), 0);
}

static int count_ifs(const Kernel *k) {
  int n = 0;
  for (const Op *op = k->body->first; op; op = op->next) n += op->kind == OP_if;
  return n;
}

static int ifs_of(const char *text) {
  Lab l = lab_open(text);
  int n = sample_transform(&l, "mask,version") ? count_ifs(l.k) : -1;
  lab_close(&l);
  return n;
}

#define COPY_OF_M                                                                                  \
  "kernel @c(%a: mem<M, f32>, %b: mem<M, f32>)\n"                                                  \
  "  workgroup M by 64 on 0; hardware threads 64, vector {M: 64}\n"
#define COPY_BODY "{ %x = read %a\n  write %x, %b }"

TEST(only_where_a_test_is_saved) {
  CHECK_INT(ifs_of(COPY_OF_M "  dynamic M\n" COPY_BODY), 2);
  CHECK_INT(ifs_of(COPY_OF_M "  bind M = 100\n" COPY_BODY), 2);
  CHECK_INT(ifs_of(COPY_OF_M "  bind M = 128\n" COPY_BODY), 0); /* proved: nothing to test */
  CHECK_INT(ifs_of(COPY_OF_M "  bind M = 10\n" COPY_BODY), 0);  /* no workgroup is inside */
  CHECK_INT(ifs_of(COPY_OF_M "  dynamic M; assume Eq(Mod(M, 64), 0)\n" COPY_BODY), 0);
}

TESTS_MAIN(RUN(results_stay) RUN(copies_prove_their_own_masks) RUN(only_where_a_test_is_saved))
