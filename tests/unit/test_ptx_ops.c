/* test_ptx_ops.c: every op of one lane's program has instructions, or `legalise` removes it; facts
 * that a launch needs are stored with the text. */
#include "backend/ptx/ptx.h"
#include "ir/dtype.h"
#include "transform/pass_manager.h"
#include "unit/harness.h"

typedef struct Emitted {
  Context *cx;
  KernelList list;
  Arena *arena;
  PtxKernel ptx;
  bool ok;
} Emitted;

static Emitted emit(const char *text, const char *target, const PtxOptions *o) {
  Emitted e = {.cx = context_new(), .arena = arena_new()};
  KernelList list = e.list = ir_parse(e.cx, "k.wave", text, e.cx->arena);
  PassOptions passes = {.passes = "legalise", .target = target};
  e.ok = list.n == 1 && passes_run(list.at[0], &passes) &&
         ptx_emit(list.at[0], target_find(target).machine, o, e.arena, &e.ptx);
  return e;
}

static void drop(Emitted *e) {
  for (int i = 0; i < e->list.n; i++) kernel_free(e->list.at[i]);
  arena_free(e->arena);
  context_free(e->cx);
}

static bool said(const Emitted *e, const char *words) {
  for (const Diag *d = e->cx->diags.first; d; d = d->next)
    if (strstr(d->text, words)) return true;
  return false;
}

/* ---- ops ---- */

/* Expressed by other ops on every GPU: legal.def. */
static bool is_expanded(OpKind kind) {
  static const OpKind rows[] = {
#define LEGAL(op, where, natively, otherwise) OP_##op,
#include "transform/legalise/legal.def"
  };
  for (size_t i = 0; i < WV_LEN(rows); i++)
    if (rows[i] == kind) return true;
  return false;
}

TEST(every_op_is_written) {
  for (int i = 0; i < OP_COUNT; i++) {
    bool lane = op_info[i].level & LEVEL_THREAD;
    if (lane && !ptx_writes((OpKind)i) && !is_expanded((OpKind)i))
      printf("`%s` has no PTX\n", op_info[i].name), CHECK(!"written");
  }
}

/* ---- what a launch needs ---- */

static const char copies[] =
    "thread kernel @copies(%n: i1, %a: mem<M, 64, f16>, %s: f16)\n"
    "  launch grid (ceiling(M/64)) block (32, 2) wave 32 shared 16400 cluster (2)\n  dynamic M\n{\n"
    "  %t = alloc {base = 0} : mem<64, 64, f16, shared>\n"
    "  %bar = alloc {base = 16384} : mem<1, i64, shared>\n  %z = scalar 0 : i32\n"
    "  if %n {\n"
    "    tma_load %t, %z, %bar, %z, %a, %z, %z {box = [32, 64], swizzle = 128}\n"
    "    tma_load %t, %z, %bar, %z, %a, %z, %z {box = [64, 32], swizzle = 64}\n"
    "    tma_load %t, %z, %bar, %z, %a, %z, %z {box = [32, 64], swizzle = 128}\n"
    "    store %s, %t, %z\n  }\n}\n";

TEST(arguments) {
  Emitted e = emit(copies, "sm_90a", NULL);
  CHECK(e.ok);
  CHECK_STR(e.ptx.entry, "copies");
  CHECK_INT(e.ptx.nargs, 5);
  CHECK(e.ptx.args[0].kind == PTX_SCALAR && e.ptx.args[0].dtype == DTYPE_i1);
  CHECK(e.ptx.args[1].kind == PTX_POINTER && e.ptx.args[1].bytes == 8);
  CHECK(e.ptx.args[2].kind == PTX_SCALAR && e.ptx.args[2].dtype == DTYPE_f16);
  const PtxArg *map = &e.ptx.args[3]; /* equal boxes share one */
  CHECK(map[0].kind == PTX_TENSOR_MAP && map[0].param == 1 && map[0].bytes == 128);
  CHECK(map[0].rank == 2 && map[0].box[0] == 32 && map[0].box[1] == 64 && map[0].swizzle == 128);
  CHECK(map[1].kind == PTX_TENSOR_MAP && map[1].box[0] == 64 && map[1].swizzle == 64);
  CHECK(e.ptx.is_cluster && e.ptx.shared == 16400);
  CHECK(strstr(e.ptx.text, ".maxntid 64, 1, 1") != NULL);
  drop(&e);
}

TEST(lines_and_fast_math) {
  static const char text[] = "thread kernel @f(%a: mem<64, f32>)\n"
                             "  launch grid (1) block (32) wave 32\n{\n  %i = expr $T0 : i32\n"
                             "  %x = load %a, %i : f32\n  %y = sqrt %x\n  store %y, %a, %i\n}\n";
  Emitted plain = emit(text, "sm_80", NULL);
  CHECK(plain.ok && strstr(plain.ptx.text, ".file 1 \"k.wave\""));
  CHECK(plain.ok && strstr(plain.ptx.text, ".loc 1 6 ") && strstr(plain.ptx.text, "sqrt.rn.f32"));
  Emitted fast = emit(text, "sm_80", &(PtxOptions){.fast_math = true, .no_lines = true});
  CHECK(fast.ok && !strstr(fast.ptx.text, ".loc") && !strstr(fast.ptx.text, ".file"));
  CHECK(fast.ok && strstr(fast.ptx.text, "sqrt.approx.ftz.f32"));
  drop(&plain);
  drop(&fast);
}

/* ---- errors ---- */

#define LANES "  launch grid (1) block (32) wave 32 shared 1024\n{\n  %z = scalar 0 : i32\n"

static const struct {
  const char *target, *text, *words;
} refused[] = {
    {"sm_90a",
     "thread kernel @k(%a: mem<8, f16>, %c: mem<8, f32>)\n" LANES
     "  %x = load %a, %z : vec<2, f16>\n  %y = load %c, %z : vec<4, f32>\n"
     "  %r = wave_mma dot(2, 4, 8, N) %x, %x, %y {copies = [1, 2, 2]}\n}\n",
     "this matrix instruction"},
    {"sm_90a",
     "thread kernel @k(%a: mem<8, f16>, %c: mem<8, f32>)\n" LANES
     "  %x = load %a, %z : vec<8, f16>\n  %y = load %c, %z : vec<8, f32>\n"
     "  %r = wave_mma wgmma_m64n16k16_f32_f16 %x, %x, %y\n}\n",
     "this matrix instruction"},
    {"sm_90a",
     "thread kernel @k(%a: mem<8, f32>)\n" LANES "  %s = alloc {base = 0} : mem<8, f32, shared>\n"
     "  %r = for K with {trips = 4} carry %m = %s {\n    yield %m\n  }\n}\n",
     "loop-carried memory"},
    {"sm_90a",
     "thread kernel @k(%a: mem<8, f16>, %c: mem<8, f32>)\n" LANES
     "  %x = load %a, %z : vec<2, f16>\n  %y = load %c, %z : vec<4, f32>\n"
     "  %r = wave_mma mma_m16n8k16_f32_f16 %x, %x, %y\n}\n",
     "operand 1 of 2 registers instead of 8"},
    {"sm_90a",
     "thread kernel @k(%a: mem<8, bf16>, %c: mem<8, f32>)\n" LANES
     "  %x = load %a, %z : vec<8, bf16>\n  %y = load %c, %z : vec<4, f32>\n"
     "  %w = load %a, %z : vec<4, bf16>\n"
     "  %r = wave_mma mma_m16n8k16_f32_f16 %x, %w, %y\n}\n",
     "this matrix instruction"},
    {"sm_90a",
     "thread kernel @k(%a: mem<8, f16>, %c: mem<8, f32>)\n" LANES
     "  %s = alloc {base = 0} : mem<512, f16, shared>\n  %y = load %c, %z : vec<4, f32>\n"
     "  %r = wgmma wgmma_m64n16k16_f32_f16 %y, %s, %z, %s, %z {desc_a = [128, 256, 0, 0], "
     "desc_b = [128, 256, 0, 0]}\n}\n",
     "operand 1 of 4 registers instead of 8"},
    {"sm_90a", "thread kernel @k(%a: mem<8, f32>)\n  launch grid (1) block (64) wave 64\n{\n}\n",
     "a wave of 64 lanes"},
    {"sm_80", "thread kernel @k(%a: mem<8, i32>)\n" LANES "  barrier cluster\n}\n", "cluster"},
    {"sm_80",
     "thread kernel @k(%a: mem<8, i32>)\n" LANES
     "  %s = alloc {base = 0} : mem<8, i32, shared>\n  %x = load %s, %z {peer = 0} : i32\n}\n",
     "another workgroup's shared memory"},
    {"sm_80",
     "thread kernel @k(%a: mem<8, i32>)\n" LANES
     "  %s = alloc {base = 0} : mem<8, i64, shared>\n  mbar_init %s, %z {count = 1}\n}\n",
     "does not support `mbar_init`"},
    {"sm_90a",
     "thread kernel @k(%a: mem<8, f32>)\n" LANES
     "  %x = load %a, %z : f32\n  %y = atomic or %x, %a, %z : f32\n}\n",
     "`or` on f32"},
    {"sm_90a",
     "thread kernel @k(%a: mem<8, f16>, %c: mem<8, f32>)\n" LANES
     "  %x = load %a, %z : vec<4, f16>\n  %y = load %c, %z : vec<4, f32>\n"
     "  %r = wave_mma F32_16x16x16_F16 %x, %x, %y\n  store %r, %c, %z\n}\n",
     "this matrix instruction"},
};

TEST(refusals_say_why) {
  for (size_t i = 0; i < WV_LEN(refused); i++) {
    Emitted e = emit(refused[i].text, refused[i].target, NULL);
    CHECK(!e.ok);
    CHECK(said(&e, refused[i].words));
    drop(&e);
  }
}

TESTS_MAIN(RUN(every_op_is_written) RUN(arguments) RUN(lines_and_fast_math) RUN(refusals_say_why))
