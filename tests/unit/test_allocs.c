/* test_allocs.c: offsets in shared memory, checked by following every path of small programs byte by
 * byte: data written to an allocation is still there when it is read. */
#include "unit/path_kit.h"
#include "unit/tile_samples.h"

enum { UNIT = 16, MAX_UNITS = 1024 }; /* offsets are multiples of a unit */

typedef struct Range {
  int64_t base, bytes;
} Range;

/* i32 allocations with physical extents. */
static Range range_of(const Value *memory) {
  const Attr *physical = op_attr(memory->def, ATTR_physical);
  int64_t n = 1, extent;
  for (int i = 0; i < physical->n; i++)
    if (sym_is_int(physical->exprs[i], &extent)) n *= extent;
  return (Range){op_attr(memory->def, ATTR_base)->integer, 4 * n};
}

static bool reads(const Op *op, const Value **memory) {
  *memory = op->kind == OP_read ? op->args[0] : op->kind == OP_atomic_add ? op->args[1] : NULL;
  return *memory && (*memory)->def;
}

static bool writes(const Op *op, const Value **memory) {
  bool is_write = op->kind == OP_write || op->kind == OP_atomic_add || op->kind == OP_copy;
  *memory = is_write ? op->args[1] : NULL;
  return *memory && (*memory)->def;
}

/* Every unit records the allocation it was last written for. Data that was never written cannot be
 * lost. */
static bool path_keeps_values(const Path *p, const void *unused) {
  const Value *owner[MAX_UNITS] = {NULL}, *memory;
  bool written[64] = {false};
  (void)unused;
  for (int e = 0; e < p->nevents; e++) {
    const Op *op = p->events[e];
    if (reads(op, &memory) && written[memory->def->id]) {
      Range r = range_of(memory);
      for (int64_t b = 0; b < r.bytes; b += UNIT)
        if (owner[(r.base + b) / UNIT] != memory) return false;
    }
    if (!writes(op, &memory)) continue;
    Range r = range_of(memory);
    written[memory->def->id] = true;
    for (int64_t b = 0; b < r.bytes; b += UNIT) owner[(r.base + b) / UNIT] = memory;
  }
  return true;
}

static void write_leaf(StrBuf *out, Random *r, int *names) {
  int m = pick(r, 4);
  switch (pick(r, 5)) {
  case 0:
  case 1: sb_printf(out, "%%x%d = read %%s%d\n", (*names)++, m); break;
  case 2: sb_printf(out, "write %%v, %%s%d\n", m); break;
  case 3: sb_printf(out, "copy %%a, %%s%d\n", m); break;
  default: sb_printf(out, "%%x%d = atomic_add %%v, %%s%d\n", (*names)++, m);
  }
}

/* Four allocations; the last is larger than the tile, so that no write covers it. */
static Lab random_program(uint64_t seed, int elements) {
  Arena *a = arena_new();
  StrBuf out = {.arena = a};
  Random r = {seed};
  int names = 0;
  sb_printf(&out,
            "kernel @p(%%a: mem<M, i32>)\n"
            "  workgroup M by %d on 0; tile K by 4; tile L by 4; tile I by 4\n"
            "  hardware threads 2, vector {M: 4}\n{\n"
            "%%s0 = alloc : mem<M, i32, shared>\n"
            "%%s1 = alloc : mem<M, i32, shared>\n"
            "%%s2 = alloc {physical = [%d]} : mem<M, i32, shared>\n"
            "%%s3 = alloc {physical = [%d]} : mem<M, i32, shared>\n"
            "%%v = fill 1 : tile<M, i32>\n",
            elements, elements, elements + 1);
  write_region(&out, &r, write_leaf, 4, 8, 0, &names);
  sb_puts(&out, "}\n");
  Lab l = lab_open(sb_text(&out));
  arena_free(a);
  return l;
}

static bool overlaps_any(const Kernel *k) {
  for (const Op *a = ir_first(k); a; a = ir_next(a))
    for (const Op *b = ir_next(a); a->kind == OP_alloc && b; b = ir_next(b)) {
      if (b->kind != OP_alloc) continue;
      Range x = range_of(&a->results[0]), y = range_of(&b->results[0]);
      if (x.base < y.base + y.bytes && y.base < x.base + x.bytes) return true;
    }
  return false;
}

typedef struct Tally {
  int judged, shared, refused, wrong;
} Tally;

/* Programs whose allocations have that many elements, packed for a machine (NULL: any). */
static Tally judge_programs(int programs, int elements, const char *target) {
  Tally t = {0};
  PassOptions o = {.passes = "allocs", .verify_each = true, .target = target};
  for (uint64_t seed = 1; seed <= (uint64_t)programs && t.wrong < 3; seed++) {
    Lab l = random_program(seed, elements);
    bool ok = l.k && passes_run(l.k, &o);
    int kept = ok ? every_path(l.k, path_keeps_values, NULL) : -1;
    t.judged += kept >= 0;
    t.shared += ok && overlaps_any(l.k);
    t.refused += !ok;
    t.wrong += !kept;
    if (!kept) {
      StrBuf out = {.arena = l.cx->arena};
      ir_print(&out, l.k);
      printf("seed %d: a value is lost:\n%s", (int)seed, sb_text(&out));
    }
    lab_close(&l);
  }
  return t;
}

TEST(values_are_kept_on_every_path) {
  Tally t = judge_programs(1500, 260, NULL);
  CHECK_INT(t.wrong, 0);
  CHECK_INT(t.refused, 0);
  CHECK(t.judged > 1000 && t.shared > 200);
}

/* Not all four fit, so that those of one loop also share bytes, or do not fit at all. */
TEST(a_small_machine_is_crowded) {
  Tally t = judge_programs(80, 600, "toy8");
  CHECK_INT(t.wrong, 0);
  CHECK(t.judged > 20 && t.shared > 20 && t.refused > 5);
}

TEST(results_stay) {
  EACH_SAMPLE(s) CHECK_INT(sample_differs(s, "promote,mask,version,allocs,sync"), 0);
}

TESTS_MAIN(RUN(values_are_kept_on_every_path) RUN(a_small_machine_is_crowded) RUN(results_stay))
