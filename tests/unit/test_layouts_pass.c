/* The layouts pass on many kernels, tile sizes and machines: valid afterwards, the same results,
 * and layouts that do not depend on the order in which anchors are found. */
#include "anchors/spread.h"
#include "transform/pass_manager.h"
#include "unit/eval_kit.h"

static const char *const machines[] = {"gfx942",  "sm_80",   "sm_90a", "toy8",
                                       "gfx1100", "gfx1201", "toy1"};

static bool run_passes(Kernel *k, const char *passes, const char *target) {
  PassOptions o = {.passes = passes, .verify_each = true, .target = target};
  return passes_run(k, &o);
}

static int count_ops(const Kernel *k, OpKind kind) {
  int n = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) n += op->kind == kind;
  return n;
}

/* ---- order ---- */

static void shuffle(Anchors *anchors, uint64_t seed) {
  for (int i = anchors->n - 1; i > 0; i--) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    int j = (int)((seed >> 33) % (uint64_t)(i + 1));
    Anchor a = anchors->at[i];
    anchors->at[i] = anchors->at[j];
    anchors->at[j] = a;
  }
}

static const Layout **spread_shuffled(const Distribution *d, const Machine *m, uint64_t seed,
                                      Arena *a) {
  Anchors anchors = {0};
  if (!find_anchors(d, m, a, &anchors)) return NULL;
  if (seed) shuffle(&anchors, seed);
  return spread_layouts(d, m, &anchors, a);
}

static bool same_layouts(const Layout *const *x, const Layout *const *y, int n) {
  for (int i = 0; i < n; i++) {
    if (!x[i] != !y[i]) return false;
    if (x[i] && !layout_equal(x[i], y[i])) return false;
  }
  return true;
}

static void check_order(Harness *harness, Kernel *k, const char *target) {
  Arena *a = arena_new();
  const MachineSpec *row = kernel_machine(k);
  Machine m = machine_from(target_find(target).machine, row);
  const Distribution *d = facts_of(k, a, FACT_distribute).distribute;
  const Layout **first = spread_shuffled(d, &m, 0, a);
  CHECK(first != NULL);
  for (uint64_t seed = 1; first && seed < 6; seed++) {
    const Layout **again = spread_shuffled(d, &m, seed, a);
    CHECK(again && same_layouts(first, again, k->nvalues));
  }
  arena_free(a);
}

/* ---- one kernel on one machine ---- */

/* Floats are small multiples of 1/8: sums of them are exact in any order. */
static void make_tensors(Lab *l) {
  for (int i = 0; i < l->k->params.n; i++) {
    const Type *t = l->k->body->args[i]->type;
    EvalBuffer *b = &l->tensors[l->nargs];
    *b = (EvalBuffer){.dtype = t->dtype, .rank = t->rank};
    int64_t count = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
      const Constraint *size = kernel_constraint(l->k, CONSTRAINT_bind, dim_base(t->dims[d]));
      const Sym *symbol;
      int64_t n = 1, num = 1, den = 1;
      if (size) sym_is_int(size->bind.value, &n);
      sym_scaled_symbol(t->dims[d], &symbol, &num, &den);
      b->shape[d] = n * num / den;
      b->strides[d] = count;
      count *= b->shape[d];
    }
    b->data = calloc(dtype_bytes(t->dtype, count) + 1, 1);
    for (int64_t e = 0; e < count; e++)
      put(l, l->nargs, e, dtype_is_float(t->dtype) ? lab_random(l) / 8.0 : lab_random(l) & 7);
    l->args[l->nargs++].buffer = b;
  }
}

static uint64_t sum_of(const Lab *l) {
  uint64_t h = 1;
  for (int i = 0; i < l->nargs; i++) {
    const unsigned char *bytes = l->tensors[i].data;
    size_t n = dtype_bytes(l->tensors[i].dtype, lab_count(&l->tensors[i]));
    for (size_t b = 0; b < n; b++) h = (h ^ bytes[b]) * 1099511628211u;
  }
  return h;
}

/* Each element is held as often as its layout says, no more and no less; operands of matmuls have
 * the layouts of their instruction. */
static void check_layouts(Harness *harness, Kernel *k, const char *target) {
  Arena *a = arena_new();
  const MachineSpec *row = kernel_machine(k);
  Machine m = machine_from(target_find(target).machine, row);
  const Distribution *d = facts_of(k, a, FACT_distribute).distribute;
  for (Op *op = ir_first(k); op; op = ir_next(op)) {
    for (int i = 0; i < op->nresults; i++)
      if (op->results[i].layout) CHECK(layout_cover(a, op->results[i].layout).exact);
    for (int i = -1; op->kind == OP_mma && i < 2; i++) {
      const Layout *have = i < 0 ? op->results[0].layout : op->args[i]->layout;
      Layout want;
      if (anchor_mma(d, &m, a, op, i, &want)) CHECK(have && layout_equal(have, &want));
    }
  }
  arena_free(a);
}

/* Returns the number of conversions; -1 after a failure. */
static int check_kernel(Harness *harness, const char *text, const char *target) {
  Lab before = lab_open(text), after = lab_open(text);
  int converts = -1;
  if (before.k && after.k) {
    make_tensors(&before);
    make_tensors(&after);
    bool ok = run_passes(after.k, "bind,simplify,cse,licm,dce,retarget", target);
    if (ok) check_order(harness, after.k, target);
    ok = ok && run_passes(after.k, "layouts,cse,dce", target);
    if (ok) check_layouts(harness, after.k, target);
    ok = ok && lab_run(&before) && lab_run(&after);
    if (ok && sum_of(&before) == sum_of(&after)) converts = count_ops(after.k, OP_convert);
  }
  if (converts < 0) {
    lab_print_errors(&after);
    printf("%s on\n%s\n", target, text);
  }
  CHECK(converts >= 0);
  lab_close(&before);
  lab_close(&after);
  return converts;
}

static void check_everywhere(Harness *harness, const char *text) {
  for (size_t i = 0; i < WV_LEN(machines); i++) check_kernel(harness, text, machines[i]);
}

/* ---- kernels ---- */

static const int tiles[] = {1, 16, 48, 80, 96};

TEST(gemm_of_any_tile) {
  for (size_t i = 0; i < WV_LEN(tiles); i++) {
    char text[1024];
    int m = tiles[i], n = tiles[(i + 1) % WV_LEN(tiles)], k = tiles[(i + 2) % WV_LEN(tiles)];
    snprintf(text, sizeof text,
             "kernel @gemm(%%a: mem<M, K, f16>, %%b: mem<N, K, f16>, %%c: mem<M, N, f32>)\n"
             "workgroup M by %d on 0; workgroup N by %d on 1; tile K by %d\n"
             "hardware threads 64, waves (2, 2, 1), mma F32_16x16x16_F16\n"
             "bind M = %d; bind N = %d; bind K = %d\n"
             "{ %%z = fill 0.0 : tile<M, N, f32>\n"
             "%%r = for K carry %%acc = %%z { %%x = read %%a\n %%y = read %%b\n"
             "%%n = mma %%x, %%y, %%acc\n yield %%n }\n"
             "write %%r, %%c }",
             m, n, k, m + 1, n + 3, 2 * k + 1);
    check_everywhere(harness, text);
  }
}

static const int rows[] = {1, 48, 192, 768, 1536};

TEST(softmax_of_any_row) {
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "kernel @softmax(%%a: mem<M, N, f32>, %%c: mem<M, N, f32>)\n"
             "workgroup M by %d on 1; hardware threads 64, waves (1, 2, 1)\n"
             "bind M = 5; bind N = %d\n"
             "{ %%x = read %%a\n %%m = max %%x {dim = N}\n"
             "%%mb = broadcast %%m : tile<M, N, f32>\n %%d = sub %%x, %%mb\n"
             "%%s = sum %%d {dim = N}\n %%sb = broadcast %%s : tile<M, N, f32>\n"
             "%%y = mul %%d, %%sb\n write %%y, %%c }",
             1 + (int)i, rows[i]);
    for (size_t t = 0; t < WV_LEN(machines); t++)
      CHECK_INT(check_kernel(harness, text, machines[t]), 0);
  }
}

TEST(transposes_and_casts) {
  check_everywhere(harness,
                   "kernel @k(%a: mem<M, N, f32>, %b: mem<N, M, f16>, %c: mem<M, N, i32>)\n"
                   "workgroup M by 48 on 0; workgroup N by 40 on 1; hardware threads 64\n"
                   "bind M = 50; bind N = 60\n"
                   "{ %x = read %a\n %t = permute %x : tile<N, M, f32>\n"
                   "%h = cast %t : tile<N, M, f16>\n %o = read %b\n %s = add %h, %o\n"
                   "write %s, %b\n %i = cast %x : tile<M, N, i32>\n"
                   "%j = self_index N : tile<N, i32>\n %jb = broadcast %j : tile<M, N, i32>\n"
                   "%k = add %i, %jb\n write %k, %c }");
}

TEST(regions) {
  check_everywhere(harness, "kernel @k(%a: mem<M, N, f32>, %b: mem<M, f32>, %c: mem<M, N, f32>)\n"
                            "workgroup M by 24 on 0; tile N by 20; hardware threads 64\n"
                            "bind M = 50; bind N = 60\n"
                            "{ %z = fill 0.0 : tile<M, f32>\n %o = fill 1.0 : tile<M, f32>\n"
                            "%big = fill 3.0 : tile<M, N, f32>\n"
                            "%s, %t = for N carry %p = %z, %q = %o {\n"
                            "  %x = read %a\n %y = add %x, %big\n %u = sum %y, %p {dim = N}\n"
                            "  %v = if ($WG0 > 0) carry %w = %q { %d = mul %w, %u\n yield %d }\n"
                            "  write %y, %c\n yield %v, %u }\n"
                            "%r = add %s, %t\n write %r, %b }");
}

TEST(scans_bitcasts_topk) {
  check_everywhere(harness,
                   "kernel @k(%a: mem<M, N, i32>, %b: mem<M, 2*N, i16>, %c: mem<M, T, i32>)\n"
                   "workgroup M by 3 on 1; hardware threads 64, vector {M: 1, N: 64, T: 4}\n"
                   "bind M = 5; bind N = 70; bind T = 4\n"
                   "{ %x = read %a\n %s = cumsum %x {dim = N}\n"
                   "%h = bitcast %s : tile<M, 2*N, i16>\n write %h, %b\n"
                   "%f = cast %x : tile<M, N, f32>\n %v, %w = topk %f {dim = N, k_dim = T}\n"
                   "%i = cast %v : tile<M, T, i32>\n %j = add %i, %w\n write %j, %c }");
}

/* The matmul's layout conflicts with that of a column of sums from a reduction. */
TEST(conversions_are_small) {
  const char *text = "kernel @k(%a: mem<M, K, f16>, %b: mem<N, K, f16>, %v: mem<N, L, f32>,\n"
                     "          %c: mem<M, N, f32>)\n"
                     "workgroup M by 32 on 0; workgroup N by 32 on 1\n"
                     "hardware threads 64, mma F32_16x16x16_F16\n"
                     "bind M = 48; bind N = 40; bind K = 16; bind L = 80\n"
                     "{ %w = read %v\n %s = sum %w {dim = L}\n %z = fill 0.0 : tile<M, N, f32>\n"
                     "%x = read %a\n %y = read %b\n %n = mma %x, %y, %z\n"
                     "%sb = broadcast %s : tile<M, N, f32>\n %o = add %n, %sb\n write %o, %c }";
  CHECK_INT(check_kernel(harness, text, "sm_80"), 1);
  CHECK_INT(check_kernel(harness, text, "gfx942"), 1);
}

/* ---- random kernels ---- */

typedef struct Maker {
  StrBuf out;
  uint64_t state;
  int n;          /* values so far */
  int shape[256]; /* of each: index in shapes */
} Maker;

static const char *const shapes[] = {"tile<M, N, f32>", "tile<N, M, f32>", "tile<M, f32>",
                                     "tile<N, f32>"};

static int pick(Maker *m, int n) {
  m->state = m->state * 6364136223846793005u + 1442695040888963407u;
  return (int)((m->state >> 33) % (uint64_t)n);
}

static int add_value(Maker *m, int shape) {
  m->shape[m->n] = shape;
  return m->n++;
}

static int pick_of(Maker *m, int shape) {
  int n = 0, found = -1;
  for (int i = 0; i < m->n; i++)
    if (m->shape[i] == shape && pick(m, ++n) == 0) found = i;
  return found;
}

/* One op on values made so far: elementwise, permute, broadcast, reduction, constant. */
static void add_op(Maker *m) {
  int x = pick(m, m->n), s = m->shape[x], y = pick_of(m, s), r = m->n;
  switch (pick(m, 6)) {
  case 0: sb_printf(&m->out, "%%v%d = fill %d.0 : %s\n", r, pick(m, 3), shapes[s]); break;
  case 1: sb_printf(&m->out, "%%v%d = maximum %%v%d, %%v%d\n", r, x, y); break;
  case 2:
    if (s > 1) return;
    sb_printf(&m->out, "%%v%d = permute %%v%d : %s\n", r, x, shapes[s = 1 - s]);
    break;
  case 3:
    if (s < 2) return;
    sb_printf(&m->out, "%%v%d = broadcast %%v%d : %s\n", r, x, shapes[s = pick(m, 2)]);
    break;
  case 4: { /* the last dim is removed */
    if (s > 1) return;
    sb_printf(&m->out, "%%v%d = %s %%v%d {dim = %s}\n", r, pick(m, 2) ? "max" : "min", x,
              s ? "M" : "N");
    s = s ? 3 : 2;
    break;
  }
  default: sb_printf(&m->out, "%%v%d = sub %%v%d, %%v%d\n", r, y, x); break;
  }
  add_value(m, s);
}

static void make_kernel(Maker *m) {
  sb_printf(&m->out,
            "kernel @k(%%a: mem<M, N, f32>, %%b: mem<N, f32>, %%c: mem<M, N, f32>,\n"
            "%%d: mem<N, M, f32>, %%e: mem<M, f32>)\n"
            "workgroup M by %d on 0; workgroup N by %d on 1\n"
            "hardware threads 64, waves (%d, 1, 1)\n bind M = %d; bind N = %d\n"
            "{ %%v0 = read %%a\n %%v1 = read %%b\n %%v2 = read %%d\n",
            1 + pick(m, 40), 1 + pick(m, 40), 1 + pick(m, 4), 1 + pick(m, 60), 1 + pick(m, 60));
  add_value(m, 0), add_value(m, 3), add_value(m, 1);
  for (int i = 0; i < 24; i++) add_op(m);
  sb_printf(&m->out, "write %%v%d, %%c\n write %%v%d, %%d\n", pick_of(m, 0), pick_of(m, 1));
  if (pick_of(m, 2) >= 0) sb_printf(&m->out, "write %%v%d, %%e\n", pick_of(m, 2));
  sb_puts(&m->out, "}\n");
}

TEST(random_kernels) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    Arena *a = arena_new();
    Maker m = {.out = {.arena = a}, .state = seed};
    make_kernel(&m);
    check_kernel(harness, sb_text(&m.out), machines[seed % WV_LEN(machines)]);
    arena_free(a);
  }
}

TESTS_MAIN(RUN(gemm_of_any_tile) RUN(softmax_of_any_row) RUN(transposes_and_casts) RUN(regions)
               RUN(scans_bitcasts_topk) RUN(conversions_are_small) RUN(random_kernels))
