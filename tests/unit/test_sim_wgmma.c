/* test_sim_wgmma.c: every row of wgmma, executed in the simulator by four waves: B in shared
 * memory, A there or in registers, in every form that a descriptor can express, compared with a
 * dense matmul.
 *
 * The address of an element is computed here from the manual's canonical layouts (unswizzled) and
 * from mem_layout.h (swizzled), not from the simulator's own formula. */
#include "unit/mma_kit.h"

typedef struct Form {
  int span; /* of the swizzle; 0: none */
  bool transposed;
} Form;

typedef struct Case {
  const MmaInfo *row;
  const TargetInfo *machine;
  DType a, b, c;
  Form form;
  bool a_in_registers;
  Values values;
} Case;

/* ---- operands in shared memory ---- */

/* A tile that is longer along k than the instruction, which reads its last slice. */
typedef struct Tile {
  int rows, k, size; /* elements; bytes of one */
  Form form;
  int deep;            /* elements of k in memory */
  int elements, first; /* of the tile; where the slice begins */
  int64_t leading, stride;
  MemLayout memory; /* swizzled */
} Tile;

static Tile tile_of(const Case *c, int rows, DType t) {
  Tile x = {.rows = rows, .k = c->row->k, .size = dtype_info[t].bits / 8, .form = c->form};
  int span = x.form.span, wide = (span ? span : 16) / x.size, slices = span ? span / 32 : 2;
  if (x.form.transposed) { /* [k][rows], boxes of `wide` rows */
    int boxes = (rows + wide - 1) / wide;
    x.deep = 3 * x.k;
    x.elements = x.deep * boxes * wide;
    x.first = 2 * x.k * wide;
    x.leading = span ? x.deep * span : 128;
    x.stride = span ? 8 * span : x.deep / 8 * 128;
    int extent[2] = {x.deep, boxes * wide};
    if (span) x.memory = mem_nvidia(2, extent, 8 * x.size, span);
    return x;
  }
  x.deep = slices * x.k;
  x.elements = (rows + 7) / 8 * 8 * x.deep;
  x.leading = span ? 16 : (rows + 7) / 8 * 128;
  x.stride = span ? 8 * span : 128;
  x.first = (slices - 1) * (span ? x.k : 2 * (int)x.leading / x.size);
  int extent[2] = {(rows + 7) / 8 * 8, x.deep};
  if (span) x.memory = mem_nvidia(2, extent, 8 * x.size, span);
  return x;
}

/* Element (row, e) of the slice that the instruction reads. */
static int index_in(const Tile *x, int row, int e) {
  int piece = 16 / x->size;
  int skipped = x->deep - x->k, k = e + skipped;
  if (x->form.span) {
    int coord[LAYOUT_DIMS] = {x->form.transposed ? k : row, x->form.transposed ? row : k};
    return mem_offset(&x->memory, coord);
  }
  if (x->form.transposed)
    return (int)(row % piece + k % 8 * piece + k / 8 * (x->leading / x->size) +
                 row / piece * (x->stride / x->size));
  return (int)(row % 8 * piece + k % piece + k / piece * (x->leading / x->size) +
               row / 8 * (x->stride / x->size));
}

static void add_tile(Lab *l, const Dense *d, MmaOperand o, const Tile *x) {
  int t = lab_tensor(l, d->type[o], 1, x->elements);
  lab_fill(l, t, 77); /* what no instruction may read */
  for (int i = 0; i < x->rows; i++)
    for (int e = 0; e < x->k; e++) put(l, t, index_in(x, i, e), d->at[o][i * d->k + e]);
}

/* ---- operands in registers ---- */

static int regs_of(const MmaInfo *row, MmaOperand o) {
  Layout l;
  mma_fragment(row, o, &l);
  return layout_size(&l, LAYOUT_REG);
}

static int element_in(const MmaInfo *row, MmaOperand o, int thread, int reg) {
  Layout l;
  int at[LAYOUT_DIMS];
  mma_fragment(row, o, &l);
  layout_at(&l, reg, thread % 32, thread / 32, at);
  return layout_number(&l, at);
}

static void add_fragment(Lab *l, const MmaInfo *row, const Dense *d, MmaOperand o) {
  int regs = regs_of(row, o), t = lab_tensor(l, d->type[o], 1, 128 * regs);
  for (int i = 0; i < 128 * regs; i++)
    put(l, t, i, d->at[o][element_in(row, o, i / regs, i % regs)]);
}

/* ---- the kernel ---- */

static void print_copy(StrBuf *out, char name, const Tile *x, DType t) {
  int each = 16 / x->size, pieces = x->elements / each;
  sb_printf(out,
            "  for %c with {trips = %d} {\n    %%at%c = expr (128*$ARG%c + $T0)*%d : i32\n"
            "    %%in%c = expr 128*$ARG%c + $T0 < %d : i1\n",
            name, (pieces + 127) / 128, name, name, each, name, name, pieces);
  sb_printf(out, "    %%x%c = load %%%c, %%at%c, %%in%c : %s\n", name, name, name, name,
            vec_text(out->arena, each, t));
  sb_printf(out, "    store %%x%c, %%%cs, %%at%c, %%in%c\n  }\n", name, name, name, name);
}

static void print_descriptor(StrBuf *out, const char *name, const Tile *x) {
  sb_printf(out, "desc_%s = [%lld, %lld, %d, %d]", name, (long long)x->leading,
            (long long)x->stride, x->form.span, x->form.transposed);
}

static void print_load(StrBuf *out, const char *name, int regs, DType t) {
  sb_printf(out, "  %%i%s = expr $T0*%d : i32\n  %%r%s = load %%%s, %%i%s : %s\n", name, regs, name,
            name, name, vec_text(out->arena, regs, t));
}

static const char *kernel_text(Arena *arena, const Case *c, const Tile *a, const Tile *b) {
  StrBuf out = {.arena = arena};
  const MmaInfo *row = c->row;
  int acc = regs_of(row, MMA_C), base = (a->elements * a->size + 1023) / 1024 * 1024;
  sb_printf(&out, "thread kernel @k(%%a: mem<%d, %s>, %%b: mem<%d, %s>, %%c: mem<%d, %s>)\n",
            c->a_in_registers ? 128 * regs_of(row, MMA_A) : a->elements, dtype_info[c->a].name,
            b->elements, dtype_info[c->b].name, 128 * acc, dtype_info[c->c].name);
  sb_printf(&out, "  launch grid (1) block (128) wave 32 shared %d\n{\n",
            base + b->elements * b->size);
  if (!c->a_in_registers)
    sb_printf(&out, "  %%as = alloc {base = 0} : mem<%d, %s, shared>\n", a->elements,
              dtype_info[c->a].name);
  sb_printf(&out, "  %%bs = alloc {base = %d} : mem<%d, %s, shared>\n", base, b->elements,
            dtype_info[c->b].name);
  if (!c->a_in_registers) print_copy(&out, 'a', a, c->a);
  print_copy(&out, 'b', b, c->b);
  sb_puts(&out, "  fence_proxy\n  barrier workgroup\n");
  if (c->a_in_registers) print_load(&out, "a", regs_of(row, MMA_A), c->a);
  print_load(&out, "c", acc, c->c);
  sb_printf(&out, "  %%fa = expr %d : i32\n  %%fb = expr %d : i32\n  wgmma_fence\n", a->first,
            b->first);
  sb_printf(&out, "  %%d = wgmma %s %%rc, %s, %%bs, %%fb {", row->name,
            c->a_in_registers ? "%ra" : "%as, %fa");
  if (!c->a_in_registers) print_descriptor(&out, "a", a), sb_puts(&out, ", ");
  print_descriptor(&out, "b", b);
  sb_puts(&out, "}\n  wgmma_commit\n  wgmma_wait 0\n  store %d, %c, %ic\n}\n");
  return sb_text(&out);
}

static bool results_agree(const Lab *l, const Case *c, const Dense *d) {
  int regs = regs_of(c->row, MMA_C);
  for (int i = 0; i < 128 * regs; i++) {
    int e = element_in(c->row, MMA_C, i / regs, i % regs);
    if (!dense_agrees(d, e / d->n, e % d->n, get(l, 2, i), 1)) return false;
  }
  return true;
}

static bool runs(const Case *c) {
  Arena *arena = arena_new();
  const MmaInfo *row = c->row;
  Dense d = {.arena = arena, .m = row->m, .n = row->n, .k = row->k, .values = c->values};
  d.type[MMA_A] = c->a, d.type[MMA_B] = c->b, d.type[MMA_C] = c->c;
  d.tf32 = (row->operand_types & MMA_tf32) != 0;
  d.seed = 23;
  dense_fill(&d, false);
  Tile a = tile_of(c, row->m, c->a), b = tile_of(c, row->n, c->b);
  Lab l = lab_open(kernel_text(arena, c, &a, &b));
  if (c->a_in_registers) add_fragment(&l, row, &d, MMA_A);
  else add_tile(&l, &d, MMA_A, &a);
  add_tile(&l, &d, MMA_B, &b);
  add_fragment(&l, row, &d, MMA_C);
  SimOptions options = {.machine = c->machine};
  bool ok = sim_lab(&l, &options, NULL);
  if (!ok) lab_print_errors(&l);
  ok = ok && results_agree(&l, c, &d);
  if (!ok)
    printf("%s: %s, %s, swizzle %d%s, A in %s\n", row->name, dtype_info[c->a].name,
           dtype_info[c->b].name, c->form.span, c->form.transposed ? " transposed" : "",
           c->a_in_registers ? "registers" : "shared memory");
  lab_close(&l);
  arena_free(arena);
  return ok;
}

/* ---- the table ---- */

/* Every form with A in shared memory, one of each kind with A in registers. */
static int run_forms(Case c) {
  static const int spans[] = {0, 32, 64, 128};
  int n = 0;
  for (int transposed = 0; transposed <= (dtype_info[c.a].bits == 16); transposed++)
    for (size_t i = 0; i < WV_LEN(spans); i++)
      for (int registers = 0; registers <= (i == 0 || full_test()); registers++) {
        c.form = (Form){spans[i], transposed != 0};
        c.a_in_registers = registers != 0;
        c.values = (n & 1) ? ROUGH : EXACT;
        if (!runs(&c)) return -1;
        n++;
      }
  return n;
}

/* The number of kernels that ran; 0: one was wrong. `types`: the types that were multiplied. `all`:
 * in every form; otherwise each type in one. */
static int run_row(const MmaInfo *row, const TargetInfo *machine, bool all, unsigned *types) {
  int n = 0;
  for (int a = 0; a < DTYPE_COUNT; a++)
    for (int b = 0; b < DTYPE_COUNT; b++) {
      Case c = {.row = row, .machine = machine, .a = (DType)a, .b = (DType)b, .c = acc_type(row)};
      if (!multiplies(machine, row, c.a, c.b) || (!all && a != b)) continue;
      c.form.span = 32 << row->n / 8 % 3;
      c.a_in_registers = row->n / 8 % 2 == 0;
      c.values = ROUGH;
      int ran = all ? run_forms(c) : runs(&c) ? 1 : -1;
      if (ran < 0) return 0;
      *types |= mma_type_bits(row, c.a) | mma_type_bits(row, c.b);
      n += ran;
    }
  return n;
}

/* In every form; only some widths unless all tests run: the smallest, an odd multiple of eight, the
 * widest. */
static bool is_sample(const MmaInfo *row) { return row->n == 8 || row->n == 24 || row->n == 256; }

TEST(every_row_of_wgmma) {
  int rows = 0, some = 0, kernels = 0;
  const TargetInfo *machine = target_find("sm_90a").machine; /* the only one that has them */
  for (int i = 0; i < mma_count(); i++) {
    const MmaInfo *row = mma_at(i);
    if (row->storage_b != MMA_SHARED) continue;
    bool all = full_test() || is_sample(row);
    unsigned types = 0;
    int n = run_row(row, machine, all, &types);
    CHECK(n > 0);
    CHECK_INT(types, row->operand_types);
    rows++, some += !all, kernels += n;
  }
  for (int t = 0; target_at(t); t++)
    CHECK(target_at(t) == machine || !target_has(target_at(t), FEATURE_WGMMA));
  printf("%d rows in %d kernels; %d rows in every form only in `make test-full`\n", rows, kernels,
         some);
}

/* ---- invalid descriptors ---- */

static void fill(Lab *l) { lab_tensor(l, DTYPE_f16, 1, 64); }

static bool refuses(const char *type, const char *row, const char *descriptor) {
  Trial t = trial_text("");
  t.text = arena_printf(
      t.arena,
      "thread kernel @k(%%a: mem<64, f16>)\n  launch grid (1) block (128) wave 32 shared 65536\n{\n"
      "  %%s = alloc : mem<8192, %s, shared>\n  %%z = scalar 0.0 : f32\n  %%c = splat %%z : vec<4, "
      "f32>\n"
      "  %%i = expr 0 : i32\n  wgmma_fence\n"
      "  %%d = wgmma %s %%c, %%s, %%i, %%s, %%i {desc_a = [16, 1024, 128, 0], desc_b = %s}\n}\n",
      type, row, descriptor);
  t.fill = fill;
  return trial_finds(&t, "E0813", "wgmma wgmma", NULL);
}

TEST(wrong_descriptors) {
  CHECK(refuses("f16", "wgmma_m64n8k16_f32_f16", "[16, 1024, 48, 0]"));
  CHECK(refuses("f16", "wgmma_m64n8k16_f32_f16", "[8, 1024, 128, 0]"));
  CHECK(refuses("f16", "wgmma_m64n8k16_f32_f16", "[16, 1024, 128, 2]"));
  CHECK(refuses("f8e4m3fn", "wgmma_m64n8k32_f32_f8", "[16, 1024, 128, 1]"));
  CHECK(refuses("bf16", "wgmma_m64n8k16_f32_f16", "[16, 1024, 128, 0]")); /* another type */
}

TESTS_MAIN(RUN(every_row_of_wgmma) RUN(wrong_descriptors))
