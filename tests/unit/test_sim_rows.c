/* test_sim_rows.c: every row of mma.def with operands in registers, executed in the simulator on
 * every machine that has it, and compared with a dense matmul: one instruction and several along m,
 * n and k, in every pair of types that the row accepts. Rows of wgmma are in test_sim_wgmma.c. */
#include "unit/mma_kit.h"

typedef struct Case {
  const MmaInfo *row;
  const TargetInfo *machine;
  const char *spelling; /* of the instruction in text */
  DType a, b, c;
  int copies[3]; /* m, n, k */
  Values values;
} Case;

/* ---- fragments as the lanes hold them ---- */

typedef struct Part {
  Layout layout;
  int regs, outer, inner; /* of a lane for one instruction; copies along its rows and columns */
} Part;

static Part part_of(const Case *c, MmaOperand o) {
  Part p;
  bool b = o == MMA_B || o == MMA_SB;
  mma_fragment(c->row, o, &p.layout);
  p.regs = layout_size(&p.layout, LAYOUT_REG);
  p.outer = c->copies[b ? 1 : 0];
  p.inner = c->copies[o == MMA_C ? 1 : 2];
  return p;
}

static int part_regs(const Part *p) { return p->regs * p->outer * p->inner; }

/* The distance between lanes in memory, in elements: the elements of every lane are aligned, even
 * four-bit ones. */
static int stride_of(const Part *p) { return (part_regs(p) + 15) / 16 * 16; }

/* The element of the whole operand in a register of a lane; -1: none. */
static int element_in(const Dense *d, MmaOperand o, const Part *p, int lane, int reg) {
  int copy = reg / p->regs, at[LAYOUT_DIMS];
  layout_at(&p->layout, reg % p->regs, lane, 0, at);
  if (layout_number(&p->layout, at) < 0) return -1;
  int row = copy / p->inner * p->layout.extent[0] + at[0];
  int column = copy % p->inner * p->layout.extent[1] + at[1];
  return row * dense_columns(d, o) + column;
}

/* A tensor with the registers of every lane, one lane after another. */
static void add_operand(Lab *l, const Case *c, const Dense *d, MmaOperand o) {
  Part p = part_of(c, o);
  int stride = stride_of(&p), t = lab_tensor(l, d->type[o], 1, stride * c->row->lanes);
  lab_fill(l, t, 0);
  for (int lane = 0; lane < c->row->lanes; lane++)
    for (int r = 0; r < part_regs(&p); r++) {
      int e = element_in(d, o, &p, lane, r);
      if (e >= 0) put(l, t, lane * stride + r, d->at[o][e]);
    }
}

static bool results_agree(const Lab *l, const Case *c, const Dense *d) {
  Part p = part_of(c, MMA_C);
  for (int lane = 0; lane < c->row->lanes; lane++)
    for (int r = 0; r < part_regs(&p); r++) {
      int e = element_in(d, MMA_C, &p, lane, r);
      double got = get(l, 2, lane * stride_of(&p) + r);
      if (e >= 0 && !dense_agrees(d, e / d->n, e % d->n, got, c->copies[2])) return false;
    }
  return true;
}

/* ---- the kernel ---- */

static const char *kernel_text(Arena *a, const Case *c, bool scaled) {
  static const char names[MMA_OPERANDS][4] = {"a", "b", "c", "sa", "sb"};
  DType type[MMA_OPERANDS] = {c->a, c->b, c->c, DTYPE_f8e8m0fnu, DTYPE_f8e8m0fnu};
  int n = scaled ? MMA_OPERANDS : 3;
  StrBuf out = {.arena = a}, body = {.arena = a};
  sb_puts(&out, "thread kernel @k(");
  for (int o = 0; o < n; o++) {
    Part p = part_of(c, (MmaOperand)o);
    int regs = part_regs(&p);
    sb_printf(&out, "%s%%%s: mem<%d, %s>", o ? ", " : "", names[o], stride_of(&p) * c->row->lanes,
              dtype_info[type[o]].name);
    sb_printf(&body, "  %%i%d = expr $T0*%d : i32\n  %%x%d = load %%%s, %%i%d : %s\n", o,
              stride_of(&p), o, names[o], o, vec_text(a, regs, type[o]));
  }
  sb_printf(&out, ")\n  launch grid (1) block (%d) wave %d\n{\n%s", c->row->lanes, c->row->lanes,
            sb_text(&body));
  sb_printf(&out, "  %%d = wave_mma %s %%x0, %%x1, %%x2%s {copies = [%d, %d, %d]}\n", c->spelling,
            scaled ? ", %x3, %x4" : "", c->copies[0], c->copies[1], c->copies[2]);
  sb_puts(&out, "  store %d, %c, %i2\n}\n");
  return sb_text(&out);
}

static bool runs(const Case *c) {
  bool scaled = c->row->form == MMA_SCALED;
  Arena *a = arena_new();
  Dense d = {.arena = a, .m = c->row->m * c->copies[0], .n = c->row->n * c->copies[1]};
  d.k = c->row->k * c->copies[2];
  d.type[MMA_A] = c->a, d.type[MMA_B] = c->b, d.type[MMA_C] = c->c;
  d.type[MMA_SA] = d.type[MMA_SB] = DTYPE_f8e8m0fnu;
  d.values = c->values;
  d.tf32 = !(c->row->operand_types & MMA_f32) && (c->row->operand_types & MMA_tf32);
  d.seed = 17;
  dense_fill(&d, scaled);
  Lab l = lab_open(kernel_text(a, c, scaled));
  for (int o = 0; o < (scaled ? MMA_OPERANDS : 3); o++) add_operand(&l, c, &d, (MmaOperand)o);
  SimOptions options = {.machine = c->machine};
  bool ok = sim_lab(&l, &options, NULL);
  if (!ok) lab_print_errors(&l);
  ok = ok && results_agree(&l, c, &d);
  if (!ok)
    printf("%s on %s: %s, %s, copies [%d, %d, %d], %s values\n", c->spelling, c->machine->name,
           dtype_info[c->a].name, dtype_info[c->b].name, c->copies[0], c->copies[1], c->copies[2],
           c->values == EXACT ? "small" : "general");
  lab_close(&l);
  arena_free(a);
  return ok;
}

static bool runs_all_ways(Case c) {
  static const int copies[2][3] = {{1, 1, 1}, {2, 3, 2}};
  bool ok = true;
  for (int i = 0; i < 2; i++)
    for (int v = EXACT; v <= ROUGH; v++) {
      memcpy(c.copies, copies[i], sizeof c.copies);
      c.values = (Values)v;
      ok &= runs(&c);
    }
  return ok;
}

/* ---- the table ---- */

/* Executes the row on the machine in every pair of types; returns the types of A and B that were
 * executed. 0: a result was wrong. */
static unsigned run_row_on(const MmaInfo *row, const TargetInfo *machine, int *pairs) {
  unsigned types = 0;
  for (int a = 0; a < DTYPE_COUNT; a++)
    for (int b = 0; b < DTYPE_COUNT; b++) {
      Case c = {.row = row, .machine = machine, .spelling = row->name};
      c.a = (DType)a, c.b = (DType)b, c.c = acc_type(row);
      if (!multiplies(machine, row, c.a, c.b)) continue;
      if (!runs_all_ways(c)) return 0;
      types |= mma_type_bits(row, c.a) | mma_type_bits(row, c.b);
      (*pairs)++;
    }
  return types;
}

/* Nothing is left out: every row, on every machine that has it, in every type it names. A type with
 * which no machine executes the row is a mistake in the table. */
TEST(every_row_in_registers) {
  int rows = 0, pairs = 0, wgmma = 0;
  for (int i = 0; i < mma_count(); i++) {
    const MmaInfo *row = mma_at(i);
    unsigned types = 0;
    wgmma += row->storage_b == MMA_SHARED;
    if (row->storage_b == MMA_SHARED) continue;
    for (int t = 0; target_at(t); t++) {
      if (!target_has_mma(target_at(t), row)) continue;
      unsigned ran = run_row_on(row, target_at(t), &pairs);
      if (!ran) printf("%s was not executed on %s\n", row->name, target_at(t)->name);
      CHECK(ran);
      types |= ran;
    }
    if (types != row->operand_types) printf("%s: types that were not multiplied\n", row->name);
    CHECK_INT(types, row->operand_types);
    rows++;
  }
  printf("%d rows, %d times a pair of types on a machine; %d of wgmma elsewhere\n", rows, pairs,
         wgmma);
  CHECK_INT(rows + wgmma, mma_count());
}

/* ---- register tiles ---- */

/* A form on a CPU in a type, with small and general values. Sums of `tile` have several types. */
static bool tile_runs(const MmaInfo *row, const TargetInfo *machine, DType t) {
  Case c = {.row = row, .machine = machine, .spelling = row->name, .a = t, .b = t};
  c.c = !dtype_is_float(t) ? DTYPE_i32 : t == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
  bool ok = true;
  c.copies[0] = c.copies[1] = c.copies[2] = 1;
  for (int v = EXACT; v <= ROUGH; v++) {
    c.values = (Values)v;
    ok &= runs(&c);
  }
  return ok;
}

static bool runs_in_all_types(const MmaInfo *row, const TargetInfo *machine) {
  unsigned types = MMA_tf32; /* not a type of the language */
  for (int t = 0; t < DTYPE_COUNT; t++) {
    unsigned type = (unsigned)dtype_mma((DType)t) & row->operand_types;
    if (type && tile_runs(row, machine, (DType)t)) types |= type;
  }
  if ((row->operand_types & ~types) == 0) return true;
  return printf("%s on %s: types %x were not multiplied\n", row->name, machine->name,
                row->operand_types & ~types),
         false;
}

/* Every row of register_tile.def, on every CPU that has it, in all its types, as a whole block and
 * at the edges of matmuls; nowhere else. */
TEST(every_register_tile) {
  static const int shapes[][2] = {{1, 1}, {8, 12}, {5, 7}, {32, 32}, {16, 31}};
  for (int f = 0; f < DOT_COUNT; f++)
    for (size_t s = 0; s < WV_LEN(shapes); s++) {
      Arena *a = arena_new();
      const MmaInfo *row = mma_register_tile(a, (DotForm)f, shapes[s][0], shapes[s][1], 0);
      int machines = 0;
      for (int i = 0; cpu_at(i); i++) {
        const TargetInfo *t = target_find(cpu_at(i)->target).machine;
        CHECK_INT(target_has_mma(t, row), cpu_at(i)->tiles >> f & 1);
        if (!target_has_mma(t, row)) continue;
        if (s == 0 || machines == 0) CHECK(runs_in_all_types(row, t));
        machines++;
      }
      CHECK(machines > 0 && !target_has_mma(target_find("sm_90a").machine, row));
      arena_free(a);
    }
}

/* ---- dot products ---- */

typedef struct DotTypes {
  DType a, b, c;
} DotTypes;

static bool dot_runs(const char *machine, MmaDot dot, DotTypes t) {
  Arena *a = arena_new();
  const TargetInfo *target = target_find(machine).machine;
  Case c = {.machine = target, .a = t.a, .b = t.b, .c = t.c};
  c.row = mma_dot(a, dot, target->lanes);
  c.spelling = arena_printf(a, "dot(%d, %d, %d, %c)", dot.out_vec, dot.k_vec, dot.k_mult,
                            dot.along == MMA_ALONG_M ? 'M' : 'N');
  bool ok = c.row && runs_all_ways(c);
  arena_free(a);
  return ok;
}

TEST(dot_products) {
  static const MmaDot dots[] = {{1, 1, 1, MMA_ALONG_N}, {1, 4, 4, MMA_ALONG_N},
                                {4, 2, 8, MMA_ALONG_M}, {3, 5, 2, MMA_ALONG_N},
                                {3, 5, 2, MMA_ALONG_M}, {2, 1, 8, MMA_ALONG_N}};
  static const DotTypes types[] = {
      {DTYPE_f16, DTYPE_f16, DTYPE_f32},       {DTYPE_f32, DTYPE_f32, DTYPE_f32},
      {DTYPE_f64, DTYPE_f64, DTYPE_f64},       {DTYPE_bf16, DTYPE_f8e4m3fn, DTYPE_f32},
      {DTYPE_f16, DTYPE_f16, DTYPE_f16},       {DTYPE_i8, DTYPE_i8, DTYPE_i32},
      {DTYPE_i32, DTYPE_i8, DTYPE_i32},        {DTYPE_f4e2m1fn, DTYPE_f6e2m3fn, DTYPE_f32},
      {DTYPE_f8e5m2fnuz, DTYPE_f16, DTYPE_f32}};
  static const char *const machines[] = {"toy8", "sm_90a", "gfx942"};
  for (size_t m = 0; m < WV_LEN(machines); m++)
    for (size_t i = 0; i < WV_LEN(dots); i++)
      for (size_t t = 0; t < WV_LEN(types); t++) CHECK(dot_runs(machines[m], dots[i], types[t]));
  /* one lane; a sum over the whole wave */
  CHECK(dot_runs("toy1", (MmaDot){4, 3, 1, MMA_ALONG_N}, types[0]));
  CHECK(dot_runs("cpu", (MmaDot){2, 8, 1, MMA_ALONG_M}, types[1]));
  CHECK(dot_runs("sm_80", (MmaDot){2, 2, 32, MMA_ALONG_N}, types[0]));
  CHECK(dot_runs("gfx942", (MmaDot){2, 2, 64, MMA_ALONG_M}, types[5]));
}

/* ---- errors ---- */

#define HEAD "thread kernel @k(%b: mem<4096, i32>)\n  launch grid (1) block (32) wave 32\n{\n"
#define VECS(a, b, c)                                                                              \
  HEAD "  %h = scalar 1.0 : f16\n  %f = scalar 0.0 : f32\n  %i = expr $T0 : i32\n  %j = cast %i "  \
       ": i8\n"                                                                                    \
       "  %x = splat " a "\n  %y = splat " b "\n  %z = splat " c "\n"

static void fill(Lab *l) { lab_tensor(l, DTYPE_i32, 1, 4096); }

static bool finds(const char *text, const char *code, const char *blamed) {
  Trial t = trial_text(text);
  t.fill = fill;
  return trial_finds(&t, code, blamed, NULL);
}

TEST(misfits) {
  const char *f = "E0813", *op = "wave_mma";
  CHECK(finds(VECS("%h : vec<4, f16>", "%h : vec<4, f16>", "%f : vec<4, f32>") //
              "  %d = wave_mma dot(4, 4, 3, N) %x, %y, %z\n}\n",
              f, op)); /* 3 does not divide 32 */
  CHECK(finds(VECS("%h : vec<4, f16>", "%h : vec<4, f16>", "%f : vec<4, f32>") //
              "  %d = wave_mma dot(4, 4, 1, N) %x, %y, %z\n}\n",
              f, op)); /* 16 registers of a */
  CHECK(finds(VECS("%h : vec<4, f16>", "%h : vec<4, f16>", "%f : vec<4, f32>") //
              "  %d = wave_mma dot(2147483647, 2147483647, 1, N) %x, %y, %z\n}\n",
              f, op));
  CHECK(finds(VECS("%h : vec<4, f16>", "%h : vec<4, f16>", "%f : vec<4, f32>") //
              "  %d = wave_mma dot(0, 4, 1, N) %x, %y, %z\n}\n",
              f, op));
  CHECK(finds(VECS("%j : vec<4, i8>", "%h : vec<4, f16>", "%f : vec<1, f32>") //
              "  %d = wave_mma dot(1, 4, 1, N) %x, %y, %z\n}\n",
              f, op)); /* integers and floats */
  CHECK(finds(VECS("%h : vec<8, f16>", "%h : vec<4, f16>", "%f : vec<4, f32>") //
              "  %d = wave_mma mma_m16n8k16_f32_bf16 %x, %y, %z\n}\n",
              f, op));                                                           /* other types */
  CHECK(finds(VECS("%h : vec<16, f16>", "%h : vec<16, f16>", "%f : vec<8, f32>") //
              "  %d = wave_mma wmma11_16x16x16_f32_f16 %x, %y, %z\n}\n",
              f, op)); /* of RDNA */
  CHECK(
      finds(VECS("%h : vec<8, f16>", "%h : vec<4, f16>", "%f : vec<4, f32>") //
            "  %d = wave_mma mma_m16n8k16_f32_f16 %x, %y, %z {copies = [1000000000000, 1, 1]}\n}\n",
            f, op));
  CHECK(finds(VECS("%h : vec<8, f16>", "%h : vec<4, f16>", "%f : vec<4, f32>") //
              "  %d = wave_mma mma_m16n8k16_f32_f16 %x, %y, %z, %x, %y\n}\n",
              f, op)); /* scales */
}

/* Lanes that hold the same element must agree about it, and undefined elements propagate. */
TEST(copies_agree) {
  const char *text = HEAD "  %i = expr $T0 : i32\n  %x = cast %i : i8\n  %z = expr 0 : i32\n"
                          "  %d = wave_mma dot(1, 1, 1, N) %x, %x, %z\n}\n";
  CHECK(finds(text, "E0815", "wave_mma"));
  Trial t = trial_text(text);
  t.fill = fill;
  trial_replace(&t, "%x, %x, %z", "%y, %x, %z");
  trial_replace(&t, "  %d = ", "  %one = expr 1 : i32\n  %y = cast %one : i8\n  %d = ");
  CHECK(trial_passes(&t, NULL));
}

TEST(holes_travel) {
  CHECK(finds(
      "thread kernel @k(%b: mem<4096, i32>)\n  launch grid (1) block (32) wave 32 shared 64\n{\n"
      "  %s = alloc : mem<32, i8, shared>\n  %i = expr $T0 : i32\n  %one = expr 1 : i32\n"
      "  %y = cast %one : i8\n  %in = expr $T0 < 31 : i1\n  store %y, %s, %i, %in\n"
      "  barrier wave\n  %x = load %s, %i : i8\n"
      "  %d = wave_mma dot(1, 1, 4, N) %y, %x, %i\n  store %d, %b, %i\n}\n",
      "E0804", "store %d"));
}

static bool wraps(const Lab *l) {
  for (int i = 0; i < 32; i++)
    if (get(l, 0, i) != (double)(int32_t)(4u * 0x7fffffffu * 0x7ffffffdu)) return false;
  return true;
}

/* 32-bit multiplications are exact before they wrap. */
TEST(integers_wrap) {
  Trial t = trial_text(HEAD "  %x = expr 2147483647 : i32\n  %y = expr 2147483645 : i32\n"
                            "  %z = expr 0 : i32\n  %i = expr $T0 : i32\n"
                            "  %d = wave_mma dot(1, 1, 4, M) %x, %y, %z\n  store %d, %b, %i\n}\n");
  t.fill = fill;
  CHECK(trial_passes(&t, wraps));
}

TESTS_MAIN(RUN(every_row_in_registers) RUN(every_register_tile) RUN(dot_products) RUN(misfits)
               RUN(copies_agree) RUN(holes_travel) RUN(integers_wrap))
