/* test_in_bounds.c: masks are exact, minimal and complete: the evaluator checks every element, and
 * each test that is removed causes an error. */
#include "unit/tile_samples.h"

TEST(masks_are_exact) { EACH_SAMPLE(s) CHECK_INT(sample_differs(s, "mask"), 0); }

/* Masks are also right with bound symbols and simplified expressions. */
TEST(masks_after_other_passes) {
  EACH_SAMPLE(s) CHECK_INT(sample_differs(s, "bind,simplify,cse,licm,dce,mask"), 0);
}

/* Removes the n-th test of a kernel's masks; NULL: there are fewer. */
static const Op *drop_test(Kernel *k, int n) {
  for (Op *op = ir_first(k); op; op = ir_next(op)) {
    const Attr *mask = op_attr(op, ATTR_mask);
    if (!mask || n >= mask->n) {
      n -= mask ? mask->n : 0;
      continue;
    }
    Attr fewer = {.key = ATTR_mask, .n = 0};
    const Sym **tests = ARENA_ARRAY(k->arena, const Sym *, mask->n);
    for (int i = 0; i < mask->n; i++)
      if (i != n) tests[fewer.n++] = mask->exprs[i];
    fewer.exprs = tests;
    op_set_attr(k, op, fewer);
    return op;
  }
  return NULL;
}

/* Whether the evaluator notices that the n-th test is missing at one of the sample's sizes; -1:
 * there is none. */
static int is_missed(const Sample *s, int n) {
  SampleSizes sizes = {0};
  for (int i = 0; sample_sizes(s, i, &sizes); i++) {
    Lab l = sample_open(s, &sizes);
    bool there = sample_transform(&l, "mask") && drop_test(l.k, n);
    const char *error = there ? lab_error(&l) : "";
    lab_close(&l);
    if (!there) return -1;
    if (strcmp(error, "E0713") == 0) return 1;
  }
  return 0;
}

TEST(every_test_is_needed) {
  int tests = 0;
  EACH_SAMPLE(s) {
    for (int n = 0, missed; (missed = is_missed(s, n)) >= 0; n++, tests++)
      if (!missed) printf("%s: test %d of its masks has no effect\n", s->name, n), CHECK(missed);
  }
  CHECK(tests > 40);
}

/* A mask that excludes an element that exists is also a mistake. */
TEST(too_strong_a_mask_is_reported) {
  Lab l = lab_open("kernel @k(%a: mem<M, i32>, %b: mem<M, i32>)\n"
                   "  workgroup M by 4 on 0; hardware threads 4, vector {M: 4}; bind M = 4\n"
                   "{ %x = read %a {mask = [$x0 < 3]}\n  write %x, %b {mask = []} }");
  lab_tensor(&l, DTYPE_i32, 1, 4);
  lab_tensor(&l, DTYPE_i32, 1, 4);
  l.options.check_masks = true;
  CHECK_STR(lab_error(&l), "E0713");
  l.options.check_masks = false;
  CHECK(lab_run(&l));
  lab_close(&l);
}

TESTS_MAIN(RUN(masks_are_exact) RUN(masks_after_other_passes) RUN(every_test_is_needed)
               RUN(too_strong_a_mask_is_reported))
