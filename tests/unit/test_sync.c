/* test_sync.c: barriers, checked by following every path of small programs: any two accesses that
 * need an order have a barrier between them, and removing any inserted barrier leaves such a pair
 * without one. The test does not share code with the pass. */
#include "unit/path_kit.h"
#include "unit/tile_samples.h"

/* ---- accesses that need an order ---- */

typedef struct Touched {
  const Value *memory[2];
  char how[2]; /* r w a */
  int n;
} Touched;

static Touched touched(const Op *op) {
  switch (op->kind) {
  case OP_read: return (Touched){{op->args[0]}, "r", 1};
  case OP_write: return (Touched){{op->args[1]}, "w", 1};
  case OP_atomic_add: return (Touched){{op->args[1]}, "a", 1};
  case OP_copy: return (Touched){{op->args[0], op->args[1]}, {'r', 'w'}, 2};
  default: return (Touched){.n = 0};
  }
}

/* Allocations of 16 bytes at their base. */
static bool same_bytes(const Value *a, const Value *b) {
  if (a == b || !a->def || !b->def) return a == b;
  const Attr *x = op_attr(a->def, ATTR_base), *y = op_attr(b->def, ATTR_base);
  return x && y && x->integer < y->integer + 16 && y->integer < x->integer + 16;
}

static bool needs_order(const Op *a, const Op *b) {
  Touched x = touched(a), y = touched(b);
  for (int i = 0; a != b && i < x.n; i++)
    for (int j = 0; j < y.n; j++) {
      bool both = strchr("ra", x.how[i]) && x.how[i] == y.how[j]; /* reads, or atomics */
      if (!both && same_bytes(x.memory[i], y.memory[j])) return true;
    }
  return false;
}

static bool is_fence(const Op *op, const Op *removed) {
  return op != removed && (op->kind == OP_barrier || op->kind == OP_shared_barrier);
}

static bool path_is_ordered(const Path *p, const void *removed) {
  for (int i = 0; i < p->nevents; i++)
    for (int j = i + 1; j < p->nevents && !is_fence(p->events[j], removed); j++)
      if (needs_order(p->events[i], p->events[j])) return false;
  return true;
}

static int is_ordered(const Kernel *k, const Op *removed) {
  return every_path(k, path_is_ordered, removed);
}

/* ---- programs ---- */

static void write_leaf(StrBuf *out, Random *r, int *names) {
  static const char *const memories[] = {"%s0", "%s1", "%s2", "%g"};
  const char *m = memories[pick(r, 4)];
  switch (pick(r, 6)) {
  case 0:
  case 1: sb_printf(out, "%%x%d = read %s\n", (*names)++, m); break;
  case 2: sb_printf(out, "write %%v, %s\n", m); break;
  case 3: sb_printf(out, "%%x%d = atomic_add %%v, %s\n", (*names)++, m); break;
  case 4: sb_printf(out, "copy %%a, %%s%d\n", pick(r, 3)); break;
  default: sb_puts(out, pick(r, 3) ? "write %v, %s0\n" : "shared_barrier\n");
  }
}

static Lab random_program(uint64_t seed) {
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  Random r = {seed};
  int names = 0;
  sb_puts(&out, "kernel @p(%a: mem<M, i32>, %g: mem<M, i32>)\n"
                "  workgroup M by 4 on 0; tile K by 4; tile L by 4; tile I by 4\n"
                "  hardware threads 2, waves (2, 1, 1), vector {M: 4}\n{\n"
                "%s0 = alloc {physical = [4], base = 0} : mem<M, i32, shared>\n"
                "%s1 = alloc {physical = [4], base = 16} : mem<M, i32, shared>\n"
                "%s2 = alloc {physical = [4], base = 24} : mem<M, i32, shared>\n"
                "%v = fill 1 : tile<M, i32>\n");
  write_region(&out, &r, write_leaf, 3, 9, 0, &names);
  sb_puts(&out, "}\n");
  Lab l = lab_open(sb_text(&out));
  arena_free(a);
  return l;
}

/* ---- tests ---- */

static int count_barriers(const Kernel *k) {
  int n = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) n += op->kind == OP_barrier;
  return n;
}

/* False after printing the program. */
static bool is_minimal(Lab *l, int *judged, int *barriers) {
  int ordered = is_ordered(l->k, NULL);
  const Op *needless = NULL;
  for (const Op *op = ir_first(l->k); op && ordered > 0; op = ir_next(op))
    if (op->kind == OP_barrier && is_ordered(l->k, op) == 1) needless = op;
  *judged += ordered >= 0;
  *barriers += count_barriers(l->k);
  if (ordered && !needless) return true;
  StrBuf out = {.arena = l->cx->arena};
  ir_print(&out, l->k);
  printf("%s:\n%s", needless ? "a barrier is needless" : "a pair is not ordered", sb_text(&out));
  return false;
}

TEST(every_path_is_in_order_and_every_barrier_needed) {
  int judged = 0, barriers = 0, wrong = 0;
  for (uint64_t seed = 1; seed <= 1500 && wrong < 3; seed++) {
    Lab l = random_program(seed);
    wrong += !sample_transform(&l, "sync") || !is_minimal(&l, &judged, &barriers);
    lab_close(&l);
  }
  CHECK_INT(wrong, 0);
  CHECK(judged > 1000);
  CHECK(barriers > 1000);
}

TEST(results_stay) { EACH_SAMPLE(s) CHECK_INT(sample_differs(s, "promote,mask,version,sync"), 0); }

TESTS_MAIN(RUN(every_path_is_in_order_and_every_barrier_needed) RUN(results_stay))
