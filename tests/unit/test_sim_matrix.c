/* test_sim_matrix.c: ldmatrix and stmatrix behave as the manual says and agree with the fragments
 * of mma.def, and every misuse is detected; copies that arrive at mbarriers. */
#include "unit/sim_kit.h"

/* ---- element positions ---- */

typedef struct Form {
  DType dtype;
  int count; /* matrices */
  bool transposed;
} Form;

/* The 16-bit unit of matrix `i` that half `h` of a lane's register belongs to, as the manual draws
 * it: lane 4*row + column holds two neighbours in a row, or in a column. */
static void unit_of(const Form *f, int lane, int h, int *row, int *column) {
  *row = f->transposed ? 2 * (lane % 4) + h : lane / 4;
  *column = f->transposed ? lane / 4 : 2 * (lane % 4) + h;
}

/* Rows of 16 bytes are 48 bytes apart, matrices in reverse order. */
static int row_unit(const Form *f, int matrix, int row) {
  return 24 * (8 * (f->count - 1 - matrix) + row);
}

/* Shared memory is filled from %a and the registers are stored to %b, or the reverse; lanes that do
 * not give a row address hold garbage. */
static const char *form_text(Arena *a, const Form *f, bool loads) {
  const DTypeInfo *t = &dtype_info[f->dtype];
  int n = f->count * 32 / t->bits, all = 24 * 8 * f->count * 16 / t->bits;
  const char *vec = n == 1 ? t->name : arena_printf(a, "vec<%d, %s>", n, t->name);
  const char *flag = f->transposed ? " {transposed}" : "";
  StrBuf out = {.arena = a};
  sb_printf(&out, "thread kernel @k(%%a: mem<%d, %s>, %%b: mem<%d, %s>)\n", loads ? all : 32 * n,
            t->name, loads ? 32 * n : all, t->name);
  sb_printf(&out,
            "  launch grid (1) block (32) wave 32 shared 4096\n{\n"
            "  %%s = alloc : mem<%d, %s, shared>\n  %%regs = expr %d*$T0 : i32\n"
            "  %%in = expr $T0 < %d : i1\n  %%z = expr -7 : i32\n"
            "  %%row = expr %d*(8*(%d - floor($T0/8)) + Mod($T0, 8)) : i32\n"
            "  %%named = select %%in, %%row, %%z\n",
            all, t->name, n, 8 * f->count, 24 * 16 / t->bits, f->count - 1);
  if (!loads) sb_printf(&out, "  %%m = load %%a, %%regs : %s\n", vec);
  sb_printf(&out,
            "  for I with {trips = %d} {\n    %%i = expr 32*$ARGI + $T0 : i32\n"
            "    %%e = load %%%c, %%i : %s\n    store %%e, %%s, %%i\n  }\n  barrier wave\n",
            all / 32, loads ? 'a' : 'b', t->name);
  if (loads)
    sb_printf(&out, "  %%m = ldmatrix %%s, %%named%s : %s\n  store %%m, %%b, %%regs\n}\n", flag,
              vec);
  else
    sb_printf(&out,
              "  stmatrix %%m, %%s, %%named%s\n  barrier wave\n"
              "  for O with {trips = %d} {\n    %%j = expr 32*$ARGO + $T0 : i32\n"
              "    %%o = load %%s, %%j : %s\n    store %%o, %%b, %%j\n  }\n}\n",
              flag, all / 32, t->name);
  return sb_text(&out);
}

/* Every unit of every register against the memory it belongs to. */
static bool units_agree(const Lab *l, const Form *f, bool loads) {
  int bits = dtype_info[f->dtype].bits, per16 = 16 / bits, n = f->count * 32 / bits;
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < f->count; i++)
      for (int h = 0; h < 2; h++)
        for (int e = 0; e < (per16 ? per16 : 1); e++) {
          int row, column;
          unit_of(f, lane, h, &row, &column);
          int unit = row_unit(f, i, row) + column; /* in units of 16 bits */
          int memory = per16 ? unit * per16 + e : unit / 2;
          int reg = per16 ? (2 * i + h) * per16 + e : i;
          int a = loads ? memory : lane * n + reg, b = loads ? lane * n + reg : memory;
          if (get(l, 0, a) != get(l, 1, b)) return false;
        }
  return true;
}

static bool moves(Form f, bool loads) {
  Arena *a = arena_new();
  Lab l = lab_open(form_text(a, &f, loads));
  int all = 24 * 8 * f.count * 16 / dtype_info[f.dtype].bits;
  int regs = 32 * f.count * 32 / dtype_info[f.dtype].bits;
  lab_tensor(&l, f.dtype, 1, loads ? all : regs);
  lab_tensor(&l, f.dtype, 1, loads ? regs : all);
  bool ok = sim_lab(&l, NULL, NULL);
  if (!ok) lab_print_errors(&l);
  ok = ok && units_agree(&l, &f, loads);
  if (!ok)
    printf("%s of %d matrices%s of %s\n", loads ? "ldmatrix" : "stmatrix", f.count,
           f.transposed ? ", transposed," : "", dtype_info[f.dtype].name);
  lab_close(&l);
  arena_free(a);
  return ok;
}

TEST(forms) {
  static const DType types[] = {DTYPE_f16,      DTYPE_bf16, DTYPE_i16, DTYPE_i8,
                                DTYPE_f8e4m3fn, DTYPE_f32,  DTYPE_i32};
  for (size_t t = 0; t < WV_LEN(types); t++)
    for (int count = 1; count <= 4; count *= 2)
      for (int transposed = 0; transposed <= (dtype_info[types[t]].bits < 32); transposed++) {
        CHECK(moves((Form){types[t], count, transposed != 0}, true));
        CHECK(moves((Form){types[t], count, transposed != 0}, false));
      }
}

/* ---- AMD's transposing reads ---- */

typedef struct Columns {
  DType dtype;
  int lanes, n; /* elements that a lane addresses, and gets */
} Columns;

/* The element, counted in lane order, that register r of a lane gets. In waves of 64 lanes, 16 lanes
 * address a tile of n rows and 16 columns in row-major order, and each gets a column. In waves of 32,
 * tiles have n columns; those of 8 bits are two groups of four rows, the first and third of which
 * belong to lanes 0 to 7; those of 4 bits, two groups of eight rows for each half of the wave. */
static int column_element(const Columns *c, int lane, int r) {
  if (c->lanes == 64) return lane / 16 * 16 * c->n + r * 16 + lane % 16;
  if (c->n == 8 && dtype_info[c->dtype].bits == 16) return (lane / 8 * 8 + r) * 8 + lane % 8;
  if (c->n == 8) return (lane / 16 * 16 + r / 4 * 8 + lane / 8 % 2 * 4 + r % 4) * 8 + lane % 8;
  return (r / 8 * 16 + lane / 16 * 8 + r % 8) * 16 + lane % 16;
}

/* Lanes address rows in reverse order. */
static const char *columns_text(Arena *a, const Columns *c) {
  const char *t = dtype_info[c->dtype].name;
  int all = c->lanes * c->n;
  return arena_printf(
      a,
      "thread kernel @k(%%a: mem<%d, %s>, %%b: mem<%d, %s>)\n"
      "  launch grid (1) block (%d) wave %d shared 1024\n{\n"
      "  %%s = alloc {base = 0} : mem<%d, %s, shared>\n"
      "  %%i = expr %d*$T0 : i32\n  %%j = expr %d - %d*$T0 : i32\n"
      "  %%x = load %%a, %%i : vec<%d, %s>\n  store %%x, %%s, %%j\n  barrier wave\n"
      "  %%m = ldmatrix %%s, %%j {columns} : vec<%d, %s>\n  store %%m, %%b, %%i\n}\n",
      all, t, all, t, c->lanes, c->lanes, all, t, c->n, all - c->n, c->n, c->n, t, c->n, t);
}

static bool columns_move(Columns c, const char *target) {
  Arena *a = arena_new();
  Lab l = lab_open(columns_text(a, &c));
  lab_tensor(&l, c.dtype, 1, c.lanes * c.n);
  lab_tensor(&l, c.dtype, 1, c.lanes * c.n);
  bool ok = sim_lab(&l, &(SimOptions){.machine = target_find(target).machine}, NULL);
  if (!ok) lab_print_errors(&l);
  for (int lane = 0; ok && lane < c.lanes; lane++)
    for (int r = 0; r < c.n; r++)
      ok = ok && get(&l, 1, lane * c.n + r) == get(&l, 0, column_element(&c, lane, r));
  if (!ok) printf("%s in waves of %d\n", dtype_info[c.dtype].name, c.lanes);
  lab_close(&l);
  arena_free(a);
  return ok;
}

TEST(columns) {
  CHECK(columns_move((Columns){DTYPE_f16, 64, 4}, "gfx950"));
  CHECK(columns_move((Columns){DTYPE_bf16, 64, 4}, "gfx950"));
  CHECK(columns_move((Columns){DTYPE_i8, 64, 8}, "gfx950"));
  CHECK(columns_move((Columns){DTYPE_f8e4m3fn, 64, 8}, "gfx950"));
  CHECK(columns_move((Columns){DTYPE_i4, 64, 16}, "gfx950"));
  CHECK(columns_move((Columns){DTYPE_f16, 32, 8}, "gfx1250"));
  CHECK(columns_move((Columns){DTYPE_i8, 32, 8}, "gfx1250"));
  CHECK(columns_move((Columns){DTYPE_i4, 32, 16}, "gfx1250"));
}

/* Two waves; each reads a tile that the other wrote. */
static const char exchanged[] =
    "thread kernel @k(%a: mem<512, f16>, %b: mem<512, f16>)\n"
    "  launch grid (1) block (128) wave 64 shared 1024\n{\n"
    "  %s = alloc {base = 0} : mem<512, f16, shared>\n"
    "  %i = expr 4*$T0 : i32\n  %j = expr 4*Mod($T0 + 64, 128) : i32\n"
    "  %x = load %a, %i : vec<4, f16>\n  store %x, %s, %i\n  barrier workgroup\n"
    "  %m = ldmatrix %s, %j {columns} : vec<4, f16>\n  store %m, %b, %i\n}\n";

static void fill_exchanged(Lab *l) {
  lab_tensor(l, DTYPE_f16, 1, 512);
  lab_tensor(l, DTYPE_f16, 1, 512);
}

static bool exchange_finds(const char *from, const char *to, const char *machine, const char *code,
                           const char *blamed, const char *noted) {
  Trial t = trial_edited(trial_text(exchanged), fill_exchanged, from, to);
  t.options.machine = target_find(machine).machine;
  return trial_finds(&t, code, blamed, noted);
}

TEST(misused_columns) {
  const char *read = "ldmatrix %s", *index = "%j = expr 4*Mod($T0 + 64, 128) : i32";
  CHECK(exchange_finds("  barrier workgroup\n", "", "gfx950", "E0803", read, "store %x"));
  CHECK(exchange_finds(index, "%j = expr 4*Mod($T0 + 64, 127) + 2 : i32", "gfx950", "E0806", read,
                       NULL));
  CHECK(exchange_finds(index, "%j = expr 4*Mod($T0 + 64, 128) + 4 : i32", "gfx950", "E0801", read,
                       NULL));
  CHECK(exchange_finds("  store %x, %s, %i\n", "", "gfx950", "E0804", "store %m", NULL));
  CHECK(exchange_finds("  %m = ldmatrix %s, %j {columns} : vec<4, f16>\n",
                       "  %h = scalar 0.0 : f16\n  %e = splat %h : vec<4, f16>\n"
                       "  %m = if ($T0 < 100) carry %p = %e {\n"
                       "    %q = ldmatrix %s, %j {columns} : vec<4, f16>\n    yield %q\n  }\n",
                       "gfx950", "E0805", read, NULL));
  CHECK(exchange_finds("  barrier workgroup\n", "  barrier workgroup\n", "gfx942", "E0813", read,
                       NULL));
  CHECK(exchange_finds(" {columns}", "", "gfx950", "E0813", read, NULL));
}

/* ---- the fragments of mma.sync ---- */

static const char product[] =
    "thread kernel @k(%a: mem<16, 16, f16>, %b: mem<8, 16, f16>, %bt: mem<16, 8, f16>, %c: mem<16, "
    "8, f32>)\n"
    "  launch grid (1) block (32) wave 32 shared 1024\n{\n"
    "  %as = alloc {base = 0} : mem<16, 16, f16, shared>\n"
    "  %bs = alloc {base = 512} : mem<16, 8, f16, shared>\n"
    "  %i = expr 8*$T0 : i32\n  %j = expr 4*$T0 : i32\n"
    "  %x = load %a, %i : vec<8, f16>\n  store %x, %as, %i\n"
    "  %y = load %bt, %j : vec<4, f16>\n  store %y, %bs, %j\n  barrier wave\n"
    "  %ra = expr 16*Mod($T0, 16) + 8*floor($T0/16) : i32\n"
    "  %rb = expr 8*Mod($T0, 16) : i32\n"
    "  %fa = ldmatrix %as, %ra : vec<8, f16>\n"
    "  %fb = ldmatrix %bs, %rb {transposed} : vec<4, f16>\n"
    "  %zero = scalar 0.0 : f32\n  %z = splat %zero : vec<4, f32>\n"
    "  %d = wave_mma mma_m16n8k16_f32_f16 %fa, %fb, %z\n"
    "  %o = expr 8*floor($T0/4) + 2*Mod($T0, 4) : i32\n"
    "  %d0 = pick [0, 1] %d\n  store %d0, %c, %o\n  %d1 = pick [2, 3] %d\n  store %d1, %c, %o {imm "
    "= 64}\n}\n";

static void fill_product(Lab *l) {
  lab_tensor(l, DTYPE_f16, 2, 16, 16);
  lab_tensor(l, DTYPE_f16, 2, 8, 16);
  lab_tensor(l, DTYPE_f16, 2, 16, 8);
  lab_tensor(l, DTYPE_f32, 2, 16, 8);
}

static bool is_product(const Lab *l) {
  for (int m = 0; m < 16; m++)
    for (int n = 0; n < 8; n++) {
      double sum = 0;
      for (int k = 0; k < 16; k++) sum += get(l, 0, m * 16 + k) * get(l, 2, k * 8 + n);
      if (get(l, 3, m * 8 + n) != sum) return false;
    }
  return true;
}

static bool product_finds(const char *from, const char *to, const char *code, const char *blamed,
                          const char *noted) {
  Trial t = trial_edited(trial_text(product), fill_product, from, to);
  return trial_finds(&t, code, blamed, noted);
}

TEST(fragments) {
  Trial t = trial_text(product);
  t.fill = fill_product;
  CHECK(trial_passes(&t, is_product));
  CHECK(product_finds("  barrier wave\n", "", "E0803", "ldmatrix %as", "store %x"));
  CHECK(product_finds("16*Mod($T0, 16) + 8*floor($T0/16) : i32", "16*Mod($T0, 16) + 4 : i32",
                      "E0806", "ldmatrix %as", NULL));
  CHECK(product_finds("16*Mod($T0, 16) + 8*floor($T0/16) : i32", "16*Mod($T0, 16) + 16 : i32",
                      "E0801", "ldmatrix %as", NULL));
  CHECK(product_finds("%rb = expr 8*Mod($T0, 16) : i32", "%rb = expr 8*Mod($T0, 16) - 8 : i32",
                      "E0801", "ldmatrix %bs", NULL));
  CHECK(product_finds("  store %y, %bs, %j\n", "", "E0804", "store %d0", NULL));
  CHECK(product_finds("  %fb = ldmatrix %bs, %rb {transposed} : vec<4, f16>\n",
                      "  %h = scalar 0.0 : f16\n  %e = splat %h : vec<4, f16>\n"
                      "  %fb = if ($T0 < 8) carry %p = %e {\n"
                      "    %q = ldmatrix %bs, %rb {transposed} : vec<4, f16>\n    yield %q\n  }\n",
                      "E0805", "ldmatrix %bs", NULL));
  CHECK(product_finds("  %d0 = pick", "  store %x, %as, %i\n  %d0 = pick", "E0803",
                      "store %x, %as, %i", "ldmatrix %as"));
}

static void fill_rows(Lab *l) {
  lab_tensor(l, DTYPE_f16, 2, 16, 16);
  lab_tensor(l, DTYPE_f16, 2, 16, 16);
}

static bool is_transposed(const Lab *l) {
  for (int i = 0; i < 256; i++)
    if (get(l, 0, i) != get(l, 1, i % 16 * 16 + i / 16)) return false;
  return true;
}

static bool store_finds(const char *from, const char *to, const char *code, const char *blamed,
                        const char *noted) {
  Trial t = trial_edited(trial_of("sim_ldmatrix"), fill_rows, from, to);
  return trial_finds(&t, code, blamed, noted);
}

TEST(store) {
  Trial t = trial_of("sim_ldmatrix");
  t.fill = fill_rows;
  CHECK(trial_passes(&t, is_transposed));
  CHECK(store_finds("  barrier wave\n  %y", "  %y", "E0803", "load %t", "stmatrix"));
  CHECK(store_finds("8*Mod(floor($T0/8), 2) : i32", "4*Mod(floor($T0/8), 2) : i32", "E0806",
                    "stmatrix", NULL));
  CHECK(store_finds("16*(Mod($T0, 8) + 8*floor($T0/16)) + 8",
                    "16*(Mod($T0, 8) + 16*floor($T0/16)) + 8", "E0801", "stmatrix", NULL));
  /* two rows at one address */
  CHECK(store_finds("%to = expr 16*(Mod($T0, 8) + 8*floor($T0/16))", "%to = expr 16*(Mod($T0, 8))",
                    "E0803", "stmatrix", "stmatrix"));
  CHECK(store_finds("  store %x, %s, %own\n", "", "E0804", "stmatrix", NULL));
  CHECK(store_finds("  stmatrix %m, %t, %to\n",
                    "  if ($T0 < 31) {\n    stmatrix %m, %t, %to\n  }\n", "E0805", "stmatrix",
                    NULL));
  Trial old = trial_of("sim_ldmatrix");
  old.fill = fill_rows;
  old.options.machine = target_find("sm_80").machine;
  CHECK(trial_finds(&old, "E0813", "stmatrix", NULL));
}

/* Eight rows 16 bytes apart are one access; 128 bytes apart they conflict. */
TEST(costs) {
  Lab l = lab_open(
      "thread kernel @k(%b: mem<32, f16>)\n  launch grid (1) block (32) wave 32 shared 1024\n{\n"
      "  %s = alloc : mem<512, f16, shared>\n  %i = expr 8*Mod($T0, 8) : i32\n"
      "  %j = expr 64*Mod($T0, 8) : i32\n  %x = ldmatrix %s, %i : vec<2, f16>\n"
      "  %y = ldmatrix %s, %j : vec<2, f16>\n}\n");
  lab_tensor(&l, DTYPE_f16, 1, 32);
  SimReport r = {0};
  CHECK(sim_lab(&l, NULL, &r));
  CHECK_INT((long long)r.total.shared, 2);
  CHECK_INT((long long)r.total.conflicts, 7);
  lab_close(&l);
}

/* ---- copies that arrive at mbarriers ---- */

static void fill_copies(Lab *l) {
  lab_tensor(l, DTYPE_f32, 3, 5, 32, 4);
  lab_tensor(l, DTYPE_f32, 2, 32, 4);
}

static bool is_sum(const Lab *l) {
  for (int i = 0; i < 32; i++)
    for (int e = 0; e < 4; e++) {
      double sum = 0;
      for (int t = 0; t < 5; t++) sum += get(l, 0, t * 128 + (31 - i) * 4 + e);
      if (get(l, 1, i * 4 + e) != sum) return false;
    }
  return true;
}

static bool copies_find(const char *from, const char *to, const char *code, const char *blamed,
                        const char *noted) {
  Trial t = trial_edited(trial_of("sim_copy_mbarrier"), fill_copies, from, to);
  return trial_finds(&t, code, blamed, noted);
}

TEST(copies_arrive) {
  Trial t = trial_of("sim_copy_mbarrier");
  t.fill = fill_copies;
  CHECK(trial_passes(&t, is_sum));
  /* an ordinary arrival does not wait for copies */
  CHECK(copies_find("mbar_arrive_async %full, %stage", "mbar_arrive %full, %stage", "E0803",
                    "load %ring", "copy_async"));
  /* copies issued after the arrival are not covered */
  CHECK(copies_find("      copy_async %ring, %to, %a, %from {bytes = 16}\n      mbar_arrive_async "
                    "%full, %stage\n",
                    "      mbar_arrive_async %full, %stage\n      copy_async %ring, %to, %a, %from "
                    "{bytes = 16}\n",
                    "E0803", "load %ring", "copy_async"));
  CHECK(copies_find("      mbar_wait %full, %slot, %parity\n", "", "E0803", "load %ring",
                    "copy_async"));
  CHECK(copies_find("      mbar_wait %empty, %stage, %fresh\n", "", "E0803 E0809", "", NULL));
  CHECK(copies_find("mbar_init %full, %s0 {count = 32}", "mbar_init %full, %s0 {count = 31}",
                    "E0809", "mbar_init %full, %s0", NULL));
  CHECK(copies_find("mbar_init %full, %s0 {count = 32}", "mbar_init %full, %s0 {count = 33}",
                    "E0807", "mbar_wait", NULL));
  /* ordinary stores are not covered */
  CHECK(copies_find("      copy_async %ring, %to, %a, %from {bytes = 16}\n",
                    "      %v = load %a, %from : vec<4, f32>\n      store %v, %ring, %to\n",
                    "E0803", "load %ring", "store %v"));
}

/* Groups are counted as before if copies also arrive at mbarriers. */
TEST(groups_beside_arrivals) {
  const char *text =
      "thread kernel @k(%a: mem<5, 32, 4, f32>, %b: mem<32, 4, f32>)\n"
      "  launch grid (1) block (32) wave 32 shared 272\n{\n"
      "  %s = alloc {base = 0} : mem<2, 32, f32, shared>\n  %m = alloc {base = 256} : mem<1, i64, "
      "shared>\n"
      "  %z = expr 0 : i32\n  %i = expr $T0 : i32\n  %j = expr $T0 + 32 : i32\n"
      "  if ($T0 < 1) {\n    mbar_init %m, %z {count = 32}\n  }\n  barrier wave\n"
      "  copy_async %s, %i, %a, %i {bytes = 4}\n  mbar_arrive_async %m, %z\n  async_commit\n"
      "  copy_async %s, %j, %a, %j {bytes = 4}\n  async_commit\n  async_wait 1\n"
      "  %x = load %s, %i : f32\n  store %x, %b, %i\n}\n";
  Trial t = trial_text(text), early = trial_text(text);
  t.fill = early.fill = fill_copies;
  trial_replace(&early, "load %s, %i", "load %s, %j");
  CHECK(trial_passes(&t, NULL));
  CHECK(trial_finds(&early, "E0803", "load %s", "copy_async %s, %j"));
}

TESTS_MAIN(RUN(forms) RUN(columns) RUN(misused_columns) RUN(fragments) RUN(store) RUN(costs)
               RUN(copies_arrive) RUN(groups_beside_arrivals))
