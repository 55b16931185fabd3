/* test_copies.c: tiles in shared memory, wherever their elements lie there. */
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

/* By hand: padding, swizzles, boxes, columns in front of rows, a swizzle with holes in its mask. */
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

TESTS_MAIN(RUN(layouts_by_hand))
