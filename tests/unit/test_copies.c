/* test_copies.c: tiles in shared memory, with every layout of their elements. */
#include "transform/copy/copy_order.h"
#include "unit/lane_kit.h"

#define GEMM(dtype, block_m, block_n, block_k, vector, memory_a, memory_b)                         \
  "kernel @gemm(%a: mem<M, K, " dtype ">, %b: mem<N, K, " dtype ">, %c: mem<M, N, f32>)\n"         \
  "  workgroup M by " block_m " on 0; workgroup N by " block_n " on 1; tile K by " block_k "\n"    \
  "  hardware threads 8, vector {M: " vector ", N: " vector ", K: " vector "}\n"                   \
  "  dynamic M; dynamic N; dynamic K\n"                                                            \
  "{\n"                                                                                            \
  "  %sa = alloc {" memory_a "} : mem<M, K, " dtype ", shared>\n"                                  \
  "  %sb = alloc {" memory_b "} : mem<N, K, " dtype ", shared>\n"                                  \
  "  %z = fill 0.0 : tile<M, N, f32>\n"                                                            \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    copy %a, %sa\n"                                                                             \
  "    copy %b, %sb\n"                                                                             \
  "    %x = read %sa\n"                                                                            \
  "    %y = read %sb\n"                                                                            \
  "    %n = mma %x, %y, %acc\n"                                                                    \
  "    yield %n\n"                                                                                 \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

/* Layouts given by hand: padding, swizzles, boxes, columns before rows, a swizzle with gaps in its
 * mask. */
static const Sample by_hand[] = {
    {"padded",
     GEMM("f16", "16", "16", "16", "4", "memory = [16, 16] d1/16:1 d0/16:20 : 16 bits",
          "memory = [16, 16] d1/16:1 d0/16:24 : 16 bits"),
     {{"M", 16}, {"N", 16}, {"K", 16}}},
    {"swizzled",
     GEMM("f16", "16", "16", "32", "4", "memory = [16, 32] d1/32:1 d0/16:32 xor 0x18>>3 : 16 bits",
          "memory = [16, 32] d1/32:1 d0/16:32 xor 0x1c>>4 : 16 bits"),
     {{"M", 16}, {"N", 16}, {"K", 32}}},
    {"boxes",
     GEMM("f16", "16", "16", "32", "4",
          "memory = [16, 32] d1/16:1 d0/16:16 d1/2:256 xor 0x8>>3 : 16 bits",
          "memory = [16, 32] d1/8:1 d0/16:8 d1/4:136 : 16 bits"),
     {{"M", 16}, {"N", 16}, {"K", 32}}},
    {"columns",
     GEMM("f32", "16", "16", "16", "4", "memory = [16, 16] d0/16:1 d1/16:16 : 32 bits",
          "memory = [16, 16] d0/4:1 d1/16:4 d0/4:64 xor 0x5>>4 : 32 bits"),
     {{"M", 16}, {"N", 16}, {"K", 16}}},
    {"odd",
     GEMM("f32", "12", "16", "20", "4", "memory = [12, 20] d1/20:1 d0/12:20 : 32 bits",
          "memory = [16, 20] d1/5:1 d0/16:5 d1/4:81 : 32 bits"),
     {{"M", 12}, {"N", 16}, {"K", 20}}},
};

TEST(layouts_by_hand) {
  for (size_t i = 0; i < WV_LEN(by_hand); i++)
    EACH_TARGET(t) CHECK_INT(lane_differs(&by_hand[i], t), 0);
}

/* Read through shared memory: the compiler chooses the layout of the tiles and how they are
 * copied. */
#define STAGED(dtype, acc, block_m, block_n, block_k, vector)                                      \
  "kernel @gemm(%a: mem<M, K, " dtype ", shared>, %b: mem<N, K, " dtype ", shared>,"               \
  " %c: mem<M, N, " acc ">)\n"                                                                     \
  "  workgroup M by " block_m " on 0; workgroup N by " block_n " on 1; tile K by " block_k "\n"    \
  "  hardware threads 8, vector {M: " vector ", N: " vector ", K: " vector "}\n"                   \
  "  dynamic M; dynamic N; dynamic K\n"                                                            \
  "{\n"                                                                                            \
  "  %z = fill 0 : tile<M, N, " acc ">\n"                                                          \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %x = read %a\n    %y = read %b\n    %n = mma %x, %y, %acc\n    yield %n\n"                  \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

#define STAGED_COPY(dtype, block)                                                                  \
  "kernel @copy(%a: mem<M, N, " dtype ", shared>, %b: mem<M, N, " dtype ">)\n"                     \
  "  workgroup M by 4 on 0; workgroup N by " block " on 1\n"                                       \
  "  hardware threads 8, vector {M: 4, N: " block "}\n"                                            \
  "  dynamic M; dynamic N\n"                                                                       \
  "{ %x = read %a\n  write %x, %b }"

/* Four-bit rows of odd length share bytes, so elements are written one by one. */
#define STAGED_CAST(dtype, block, wide)                                                            \
  "kernel @copy(%a: mem<M, N, " dtype ", shared>, %b: mem<M, N, " wide ">)\n"                      \
  "  workgroup M by 4 on 0; workgroup N by " block " on 1\n"                                       \
  "  hardware threads 8, vector {M: 4, N: " block "}\n"                                            \
  "  dynamic M; dynamic N\n"                                                                       \
  "{ %x = read %a\n  %y = cast %x : tile<M, N, " wide ">\n  write %y, %b }"

static const Sample staged[] = {
    {"f32", STAGED("f32", "f32", "16", "16", "16", "4"), {{"M", 16}, {"N", 16}, {"K", 16}}},
    {"f16", STAGED("f16", "f32", "16", "32", "16", "4"), {{"M", 16}, {"N", 32}, {"K", 16}}},
    {"i8", STAGED("i8", "i32", "16", "16", "32", "8"), {{"M", 16}, {"N", 16}, {"K", 32}}},
    {"rows of 48", STAGED_COPY("f16", "48"), {{"M", 4}, {"N", 48}}},
    {"rows of 80", STAGED_COPY("f32", "80"), {{"M", 4}, {"N", 80}}},
    {"rows of 96", STAGED_COPY("f8e4m3fn", "96"), {{"M", 4}, {"N", 96}}},
    {"rows of 20", STAGED_COPY("i8", "20"), {{"M", 4}, {"N", 20}}},
    {"nibbles", STAGED_CAST("f4e2m1fn", "32", "f32"), {{"M", 4}, {"N", 32}}},
    {"rows of 48 nibbles", STAGED_CAST("i4", "48", "i32"), {{"M", 4}, {"N", 48}}},
    {"64 bits", STAGED_COPY("f64", "16"), {{"M", 4}, {"N", 16}}},
};

TEST(staged_tiles) {
  for (size_t i = 0; i < WV_LEN(staged); i++)
    EACH_TARGET(t) CHECK_INT(lane_differs(&staged[i], t), 0);
}

#define STAGED_FULL(dtype, block_k, size_k)                                                        \
  "kernel @gemm(%a: mem<M, K, " dtype ", shared>, %b: mem<N, K, " dtype ", shared>,"               \
  " %c: mem<M, N, f32>)\n"                                                                         \
  "  workgroup M by 64 on 0; workgroup N by 64 on 1; tile K by " block_k "\n"                      \
  "  wave M by 32; wave N by 32; hardware threads 64, mma F32_16x16x16_F16\n"                      \
  "  bind M = 64; bind N = 64; bind K = " size_k "\n"                                              \
  "{\n"                                                                                            \
  "  %z = fill 0.0 : tile<M, N, f32>\n"                                                            \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %x = read %a\n    %y = read %b\n    %n = mma %x, %y, %acc\n    yield %n\n"                  \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

/* Conflicts that the simulator counts in shared memory; -1: it did not run. */
static int64_t conflicts_of(const char *text, int k, const char *target) {
  Lab l = lab_open(text);
  SimReport r = {0};
  SimOptions o = {.machine = target_find(target).machine};
  lab_tensor(&l, DTYPE_f16, 2, 64, k, 0, 0);
  lab_tensor(&l, DTYPE_f16, 2, 64, k, 0, 0);
  lab_tensor(&l, DTYPE_f32, 2, 64, 64, 0, 0);
  bool ok = lane_transform(&l, target) && sim_lab(&l, &o, &r);
  int64_t n = ok ? (int64_t)r.total.conflicts : -1;
  if (!ok) lab_print_errors(&l);
  lab_close(&l);
  return n;
}

TEST(no_bank_conflicts) {
  CHECK_INT(conflicts_of(STAGED_FULL("f16", "32", "64"), 64, "gfx942"), 0);
  CHECK_INT(conflicts_of(STAGED_FULL("f16", "32", "64"), 64, "sm_80"), 0);
  CHECK_INT(conflicts_of(STAGED_FULL("f16", "64", "128"), 128, "gfx942"), 0);
  CHECK_INT(conflicts_of(STAGED_FULL("f16", "64", "128"), 128, "sm_80"), 0);
}

/* The same copies without their wait, or without the barrier after it. */
static bool finds_without(const char *words, const char *codes) {
  const char *text = STAGED_FULL("f16", "32", "64");
  Lab l = lab_open(text);
  bool found = false;
  lab_tensor(&l, DTYPE_f16, 2, 64, 64, 0, 0);
  lab_tensor(&l, DTYPE_f16, 2, 64, 64, 0, 0);
  lab_tensor(&l, DTYPE_f32, 2, 64, 64, 0, 0);
  if (lane_transform(&l, "sm_80"))
    for (Op *op = ir_first(l.k); op && !found; op = ir_next(op)) {
      if (strcmp(op_info[op->kind].name, words) != 0) continue;
      ir_remove(op);
      SimOptions o = {.machine = target_find("sm_80").machine};
      found = !sim_lab(&l, &o, NULL) && has_code(l.cx, codes);
      break;
    }
  lab_close(&l);
  return found;
}

TEST(missing_waits_are_found) {
  CHECK(finds_without("async_wait", "E0803"));
  CHECK(finds_without("barrier", "E0803"));
}

/* A ring of `slots`: the tile of `ahead` iterations later is fetched while this one is read. */
#define RING(slots, ahead, shift)                                                                  \
  "kernel @ring(%a: mem<M, K, f16>, %b: mem<N, K, f16>, %c: mem<M, N, f32>)\n"                     \
  "  workgroup M by 16 on 0; workgroup N by 16 on 1; tile K by 16\n"                               \
  "  hardware threads 8, vector {M: 4, N: 4, K: 4}\n"                                              \
  "  dynamic M; dynamic N; dynamic K\n"                                                            \
  "{\n"                                                                                            \
  "  %sa = alloc {physical = [16, 16], ring = " slots "} : mem<M, K, f16, shared>\n"               \
  "  %sb = alloc {physical = [16, 16], ring = " slots "} : mem<N, K, f16, shared>\n"               \
  "  %z = fill 0.0 : tile<M, N, f32>\n"                                                            \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    if ($ARGK <= 0) {\n"                                                                        \
  "      copy %a, %sa {slot = 0}\n"                                                                \
  "      copy %b, %sb\n"                                                                           \
  "    }\n"                                                                                        \
  "    copy %a, %sa {mapping = map 2 {M: $index0, K: $index1 + " shift "} ->"                      \
  " {M: $index0, K: $index1}, slot = Mod($ARGK + " ahead ", " slots ")}\n"                         \
  "    copy %b, %sb {mapping = map 2 {N: $index0, K: $index1 + " shift "} ->"                      \
  " {N: $index0, K: $index1}, slot = Mod($ARGK + " ahead ", " slots ")}\n"                         \
  "    %x = read %sa {slot = Mod($ARGK, " slots ")}\n"                                             \
  "    %y = read %sb {slot = Mod($ARGK, " slots ")}\n"                                             \
  "    %n = mma %x, %y, %acc\n    yield %n\n"                                                      \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

static const Sample rings[] = {
    {"double", RING("2", "1", "16"), {{"M", 16}, {"N", 16}, {"K", 16}}},
    {"triple", RING("3", "1", "16"), {{"M", 16}, {"N", 16}, {"K", 16}}},
};

TEST(rings_hold_several_tiles) {
  for (size_t i = 0; i < WV_LEN(rings); i++)
    EACH_TARGET(t) CHECK_INT(lane_differs(&rings[i], t), 0);
}

/* The number of barriers of the lowered kernel whose absence is not reported. */
static int silent_barriers(const Sample *s, const char *target, int *barriers) {
  SampleSizes sizes = {{65, 40, 64}}; /* inner tiles, and edges */
  int silent = 0;
  *barriers = 1;
  for (int which = 0; which < *barriers; which++) {
    Lab l = sample_open(s, &sizes);
    int n = 0;
    if (!lane_transform(&l, target)) silent++;
    for (Op *op = ir_first(l.k), *next; op; op = next) {
      next = ir_next(op);
      if (op->kind == OP_barrier && n++ == which) ir_remove(op);
    }
    *barriers = n;
    bool reported = !lane_run(&l, target, which) && has_code(l.cx, "E0803");
    silent += !reported;
    lab_close(&l);
  }
  return silent;
}

/* Slots in turn: the next tile may be fetched while others still read this one. */
static const Sample in_turn = {
    "in turn",
    "kernel @ring(%a: mem<M, K, f16>, %b: mem<N, K, f16>, %c: mem<M, N, f32>)\n"
    "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 16\n"
    "  wave M by 16; wave N by 16; hardware threads 64, mma F32_16x16x16_F16\n"
    "  dynamic M; dynamic N; dynamic K\n"
    "{\n"
    "  %sa = alloc {physical = [32, 16], ring = 2} : mem<M, K, f16, shared>\n"
    "  %sb = alloc {physical = [32, 16], ring = 2} : mem<N, K, f16, shared>\n"
    "  %z = fill 0.0 : tile<M, N, f32>\n"
    "  %r = for K carry %acc = %z {\n"
    "    copy %a, %sa {slot = Mod($ARGK, 2)}\n"
    "    copy %b, %sb {slot = Mod($ARGK, 2)}\n"
    "    %x = read %sa {slot = Mod($ARGK, 2)}\n"
    "    %y = read %sb {slot = Mod($ARGK, 2)}\n"
    "    %n = mma %x, %y, %acc\n    yield %n\n"
    "  }\n"
    "  write %r, %c\n"
    "}",
    {{"M", 32}, {"N", 32}, {"K", 16}}};

TEST(one_barrier_for_each_tile_of_a_ring) {
  static const char *const machines[] = {"gfx942", "sm_80", "toy8"};
  for (size_t i = 0; i < WV_LEN(machines); i++) {
    int barriers;
    CHECK_INT(lane_differs(&in_turn, machines[i]), 0);
    CHECK_INT(silent_barriers(&in_turn, machines[i], &barriers), 0);
    CHECK_INT(barriers, 2); /* in the loop of inner tiles, and in that of the others */
  }
}

/* There is also a barrier before the copy of the first tile: the pass does not see that it runs
 * only once. */
TEST(missing_barriers_of_rings_are_found) {
  static const char *const machines[] = {"sm_80", "toy8"};
  for (size_t i = 0; i < WV_LEN(machines); i++) {
    int barriers;
    CHECK_INT(silent_barriers(&rings[0], machines[i], &barriers), 2);
    CHECK_INT(barriers, 4); /* two for inner tiles, and two for the others */
  }
}

/* ---- the order of rows ---- */

/* Every order of rows is a layout that keeps all elements apart, with `inner` contiguous. */
static void check_order(Harness *harness, Arena *a, const CopyOrder *o) {
  MemLayout rows = copy_order_rows(o, 16), swizzled = mem_swizzled(&rows, 8, 1, 4);
  MemLayout back = copy_order_undo(o, &rows), other = copy_order_undo(o, &swizzled);
  CHECK(mem_is_valid(&back) && mem_is_injective(a, &back) && back.dims == o->dims);
  CHECK(mem_is_valid(&other) && mem_is_injective(a, &other));
  CHECK(mem_vector(&back, o->inner) >= 16);
}

TEST(orders_of_rows) {
  static const char *const lanes[] = {
      "[128, 32] lane d0/4:4 d1/4:1 d1/4:8", "[128, 32] lane d1/4:1 d0/4:4 d1/2:4 d0/2:16",
      "[128, 32] lane d1/2:8 d1/2:1 d0/16:8", "[128, 32] lane d0/64:2"};
  static const int extents[] = {1, 2, 8, 16, 24, 32, 40, 48, 64, 80, 96};
  Arena *a = arena_new();
  int split = 0;
  for (size_t l = 0; l < WV_LEN(lanes); l++)
    for (size_t e = 0; e < WV_LEN(extents); e++) {
      const char *text = lanes[l];
      Layout layout;
      CopyOrder o;
      MemLayout rows = mem_rows(2, (int[]){128, extents[e]}, 16, 0);
      CHECK(!layout_parse(&text, &layout));
      o = copy_order_with(&rows, 0);
      check_order(harness, a, &o);
      if (!copy_order_by_lanes(&rows, &layout, 0, &o)) continue;
      split += o.n > 2;
      check_order(harness, a, &o);
    }
  CHECK(split >= 8);
  arena_free(a);
}

TESTS_MAIN(RUN(orders_of_rows) RUN(layouts_by_hand) RUN(staged_tiles) RUN(no_bank_conflicts)
               RUN(missing_waits_are_found) RUN(rings_hold_several_tiles)
                   RUN(missing_barriers_of_rings_are_found)
                       RUN(one_barrier_for_each_tile_of_a_ring))
