/* fuzz_passes.c: no pass changes what a kernel means.
 *
 *     fuzz_passes [--seed N] [--count N] [--seconds N]        fuzz_passes SEED COUNT
 *
 * Random kernels over small integer tensors, with loops, conditionals, set symbols, repeated and
 * unused ops, are evaluated as written and after one to four random passes: every element stored
 * must be the same, and every mask exact. A quarter is lowered and runs in the simulator, which
 * must find nothing. Integers wrap, so rounding cannot explain a difference. A failing case
 * is printed with its number and its passes. The last line is "N passed, M failed". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sim/sim.h"
#include "base/os.h"
#include "fuzz/settings.h"
#include "transform/pass_manager.h"

/* ---- random choices ---- */

typedef struct Random {
  uint64_t state;
} Random;

static uint32_t next(Random *r) { /* splitmix64 */
  uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)(z >> 32);
}

static int below(Random *r, int n) { return n > 0 ? (int)(next(r) % (uint32_t)n) : 0; }

/* ---- random kernels ---- */

/* M is divided over workgroups, N and K are the axes of loops, W of while loops. */
enum { SIZE_M = 5, SIZE_N = 7 };

typedef enum Shape { SHAPE_M, SHAPE_MN, SHAPE_SCALAR, SHAPE_COUNT } Shape;

static const char *const shape_type[] = {"tile<M, i32>", "tile<M, N, i32>", "i32"};

typedef struct Visible {
  int id;
  Shape shape;
} Visible;

typedef struct Gen {
  Random r;
  StrBuf *out;
  Vec(Visible) values; /* in scope */
  int ids, depth;
  bool in_n, in_k;
  int whiles; /* around the current position: the first is over W, one inside it over V */
} Gen;

#define EMIT(g, ...) sb_printf((g)->out, __VA_ARGS__)

static int fresh(Gen *g, Shape shape) {
  Visible v = {g->ids++, shape};
  vec_push(g->out->arena, &g->values, v);
  return v.id;
}

/* A value of this shape; one is made if there is none. */
static int pick(Gen *g, Shape shape) {
  int found = -1, seen = 0;
  for (int i = 0; i < g->values.n; i++)
    if (g->values.at[i].shape == shape && below(&g->r, ++seen) == 0) found = g->values.at[i].id;
  if (found >= 0) return found;
  int id = fresh(g, shape), constant = below(&g->r, 5);
  const char *op = shape == SHAPE_SCALAR ? "scalar" : "fill";
  EMIT(g, "%%v%d = %s %d : %s\n", id, op, constant, shape_type[shape]);
  return id;
}

static Shape any_shape(Gen *g) { return (Shape)below(&g->r, SHAPE_COUNT); }

/* Expressions of the kinds that bind and simplify work on. */
static const char *any_expr(Gen *g) {
  static const char *const exprs[] = {
      "M",          "Max(M, 2)",   "$WG0*2 + 1", "Min($WG0, 7)", "Min($WG0, 1)",
      "floor(N/2)", "S",           "Mod(S, 4)",  "S + 3*M - S",  "floor(S/3)*3",
      "N - M",      "Mod(M*4, 4)", "W",          "Max(W, 2)",    "V - W"};
  static const char *const counters[] = {"Mod($ARGK, 3)", "$ARGK*2 + $ARGK"};
  return g->in_k && below(&g->r, 3) == 0 ? counters[below(&g->r, 2)]
                                         : exprs[below(&g->r, (int)WV_LEN(exprs))];
}

static void gen_binary(Gen *g) {
  static const char *const ops[] = {"add", "sub", "mul", "maximum", "minimum",
                                    "and", "or",  "xor", "shl",     "shr"};
  Shape shape = any_shape(g);
  Shape other = shape != SHAPE_SCALAR && below(&g->r, 4) == 0 ? SHAPE_SCALAR : shape;
  int a = pick(g, shape), b = pick(g, other);
  EMIT(g, "%%v%d = %s %%v%d, %%v%d\n", fresh(g, shape), ops[below(&g->r, (int)WV_LEN(ops))], a, b);
}

static void gen_unary(Gen *g) {
  Shape shape = any_shape(g);
  int a = pick(g, shape);
  EMIT(g, "%%v%d = %s %%v%d\n", fresh(g, shape), below(&g->r, 2) ? "neg" : "abs", a);
}

static void gen_select(Gen *g) {
  Shape shape = any_shape(g);
  int a = pick(g, shape), b = pick(g, shape), cond = g->ids++;
  EMIT(g, "%%v%d = lt %%v%d, %%v%d\n", cond, a, b);
  EMIT(g, "%%v%d = select %%v%d, %%v%d, %%v%d\n", fresh(g, shape), cond, b, a);
}

static void gen_constant(Gen *g) {
  Shape shape = any_shape(g);
  const char *op = shape == SHAPE_SCALAR ? "scalar" : "fill";
  EMIT(g, "%%v%d = %s %s : %s\n", fresh(g, shape), op, any_expr(g), shape_type[shape]);
}

static void gen_index(Gen *g) {
  EMIT(g, "%%v%d = self_index M : tile<M, i32>\n", fresh(g, SHAPE_M));
  int row = g->ids++;
  EMIT(g, "%%v%d = self_index N : tile<N, i32>\n", row);
  EMIT(g, "%%v%d = broadcast %%v%d : tile<M, N, i32>\n", fresh(g, SHAPE_MN), row);
}

static void gen_shape(Gen *g) {
  int kind = below(&g->r, 5);
  if (kind < 2) {
    int a = pick(g, SHAPE_M);
    EMIT(g, "%%v%d = broadcast %%v%d : tile<M, N, i32>\n", fresh(g, SHAPE_MN), a);
  } else if (kind < 3) {
    int a = pick(g, SHAPE_MN);
    EMIT(g, "%%v%d = cumsum %%v%d {dim = N}\n", fresh(g, SHAPE_MN), a);
  } else {
    int a = pick(g, SHAPE_MN), init = pick(g, SHAPE_M);
    EMIT(g, "%%v%d = sum %%v%d, %%v%d {dim = N}\n", fresh(g, SHAPE_M), a, init);
  }
}

static void gen_read(Gen *g) {
  if (below(&g->r, 2)) EMIT(g, "%%v%d = read %%a\n", fresh(g, SHAPE_MN));
  else EMIT(g, "%%v%d = read %%b {bounds = {M: %s}}\n", fresh(g, SHAPE_M), any_expr(g));
}

/* Also to a memory with a dim that the register lacks. */
static void gen_write(Gen *g) {
  int kind = below(&g->r, 5);
  if (kind < 2) EMIT(g, "write %%v%d, %%c\n", pick(g, SHAPE_MN));
  else if (kind < 3) EMIT(g, "write %%v%d, %%c\n", pick(g, SHAPE_M));
  else EMIT(g, "write %%v%d, %%d\n", pick(g, SHAPE_M));
}

/* By name, also along a dim that the register lacks, or at indices from memory; the result is not
 * used, and nothing else accesses %e and %f. */
static void gen_atomic(Gen *g) {
  int kind = below(&g->r, 4), value = pick(g, kind == 0 ? SHAPE_MN : SHAPE_M), index = g->ids++;
  if (kind == 3) EMIT(g, "%%v%d = read %%b\n", index);
  EMIT(g, "%%v%d = atomic_add %%v%d, %%%s", g->ids++, value, kind < 2 ? "f" : "e");
  if (kind == 3)
    EMIT(g,
         ", %%v%d {mapping = map 1 {M: signed($dynamic_val0) + 1} -> {M: $index0} with {M: "
         "$index0}}",
         index);
  EMIT(g, "\n");
}

static void gen_set_symbol(Gen *g) { EMIT(g, "set_symbol S %%v%d\n", pick(g, SHAPE_SCALAR)); }

/* Rows from the set value on do not exist: some workgroups have nothing to write. */
static void gen_length(Gen *g) {
  static const char *const lengths[] = {"3 - $WG0", "$WG0",         "2*$WG0 + 1", "5 - 2*$WG0",
                                        "-1",       "Max(M, $WG0)", "1"};
  int id = g->ids++;
  EMIT(g, "%%n%d = scalar %s : i32\nset_symbol M %%n%d\n", id,
       lengths[below(&g->r, (int)WV_LEN(lengths))], id);
}

static void gen_statements(Gen *g, int n);

/* Values made inside stay inside; the shape of one carried value. */
static void gen_body(Gen *g, int arg, Shape shape, const char *last) {
  int outside = g->values.n;
  Visible carried = {arg, shape};
  vec_push(g->out->arena, &g->values, carried);
  g->depth++;
  gen_statements(g, 1 + below(&g->r, 6));
  int yielded = pick(g, shape);
  if (below(&g->r, 2)) { /* a value that changes in each iteration */
    int sum = fresh(g, shape);
    EMIT(g, "%%v%d = add %%v%d, %%v%d\n", sum, arg, yielded);
    yielded = sum;
  }
  EMIT(g, "%syield %%v%d\n}\n", last, yielded);
  g->depth--;
  g->values.n = outside;
}

/* Enters a loop over N. It uses one tile of a value over N from outside; half of the loops use
 * none: values read outside cannot be laid out for that. */
static void enter_n(Gen *g) {
  g->in_n = true;
  if (below(&g->r, 2)) return;
  Gen before = *g;
  memset(&g->values, 0, sizeof g->values);
  for (int i = 0; i < before.values.n; i++)
    if (before.values.at[i].shape != SHAPE_MN)
      vec_push(g->out->arena, &g->values, before.values.at[i]);
}

/* An unknown start: perhaps before the first iteration, never after the second. */
static void gen_start(Gen *g, int id, char *out, size_t size) {
  int start = pick(g, SHAPE_SCALAR);
  EMIT(g, "%%one%d = scalar 1 : i32\n%%low%d = minimum %%v%d, %%one%d\n", id, id, start, id);
  EMIT(g, "%%from%d = cast %%low%d : index\n", id, id);
  snprintf(out, size, " from %%from%d", id);
}

static void gen_loop(Gen *g) {
  bool over_n = !g->in_n && below(&g->r, 2);
  if (!over_n && g->in_k && below(&g->r, 2)) return;
  Shape shape = below(&g->r, 2) ? SHAPE_M : SHAPE_SCALAR;
  int init = pick(g, shape), arg = g->ids++, result = g->ids++;
  char from[32] = "";
  if (below(&g->r, 4) == 0) gen_start(g, arg, from, sizeof from);
  EMIT(g, "%%v%d = for %s%s carry %%v%d = %%v%d {\n", result, over_n ? "N" : "K", from, arg, init);
  Gen before = *g;
  if (over_n) enter_n(g);
  else g->in_k = true;
  gen_body(g, arg, shape, "");
  g->values.at = before.values.at;
  g->values.n = before.values.n;
  g->values.cap = before.values.cap;
  g->in_n = before.in_n;
  g->in_k = before.in_k;
  Visible v = {result, shape};
  vec_push(g->out->arena, &g->values, v);
}

/* A while loop may test the number that it carries besides its axis. */
static const char *any_condition(Gen *g, Shape shape) {
  static const char *const conditions[] = {"True", "(signed($GET_ITER_ARG_0) < 3)",
                                           "Eq(signed($GET_ITER_ARG_0), 0)",
                                           "((S > 2) | (signed($GET_ITER_ARG_0) >= 0))"};
  return conditions[shape == SHAPE_SCALAR ? below(&g->r, (int)WV_LEN(conditions)) : 0];
}

/* The axis is the position in expressions, and is set at the end of the body. */
static void gen_while(Gen *g) {
  static const char axes[] = "WV";
  if (g->whiles == 2) return;
  char axis = axes[g->whiles];
  Shape shape = below(&g->r, 4) ? SHAPE_SCALAR : SHAPE_M;
  int init = pick(g, shape), at = g->ids++, arg = g->ids++, result = g->ids++;
  EMIT(g, "%%at%d = scalar %d : index\n%%one%d = scalar 1 : index\n", at, below(&g->r, 3) - 1, at);
  EMIT(g,
       "%%v%d = while %c as signed(%c.%d) (%%w%d) from %%at%d cond (%c < 2) & %s carry %%v%d = "
       "%%v%d {\n",
       result, axis, axis, at + 2, at, at, axis, any_condition(g, shape), arg, init);
  char last[96];
  snprintf(last, sizeof last, "%%next%d = add %%w%d, %%one%d\nset_symbol %c %%next%d\n", at, at, at,
           axis, at);
  g->whiles++;
  gen_body(g, arg, shape, last);
  g->whiles--;
  Visible v = {result, shape};
  vec_push(g->out->arena, &g->values, v);
}

static void gen_if(Gen *g) {
  static const char *const conditions[] = {"$WG0 > 0", "$WG0 < 1", "Eq($WG0, 1)",
                                           "S > 2",    "M < N",    "Eq(Mod(M, 2), 0)"};
  Shape shape = below(&g->r, 2) ? SHAPE_M : SHAPE_SCALAR;
  int init = pick(g, shape), arg = g->ids++, result = g->ids++;
  EMIT(g, "%%v%d = if (%s) carry %%v%d = %%v%d {\n", result, conditions[below(&g->r, 6)], arg,
       init);
  gen_body(g, arg, shape, "");
  Visible v = {result, shape};
  vec_push(g->out->arena, &g->values, v);
}

static void gen_statements(Gen *g, int n) {
  static void (*const kinds[])(Gen *) = {gen_binary, gen_binary, gen_binary,     gen_unary,
                                         gen_select, gen_shape,  gen_constant,   gen_index,
                                         gen_read,   gen_write,  gen_set_symbol, gen_atomic};
  static void (*const regions[])(Gen *) = {gen_loop, gen_loop, gen_if, gen_while, gen_while};
  for (; n > 0; n--) {
    if (g->depth < 3 && below(&g->r, 5) == 0) regions[below(&g->r, (int)WV_LEN(regions))](g);
    else kinds[below(&g->r, (int)WV_LEN(kinds))](g);
  }
}

/* Stores most values computed outside regions, so that a difference anywhere is visible. */
static int gen_total(Gen *g) {
  int n = g->values.n, total = pick(g, SHAPE_M);
  for (int i = 0; i < n; i++) {
    Visible v = g->values.at[i];
    if (v.shape == SHAPE_MN || below(&g->r, 4) == 0) continue;
    int sum = fresh(g, SHAPE_M);
    EMIT(g, "%%v%d = add %%v%d, %%v%d\n", sum, total, v.id);
    total = sum;
  }
  return total;
}

static const char *random_kernel(Random r, Arena *a) {
  static const int trips[] = {3, 3, 1, 0}; /* of loops over K */
  StrBuf out = {.arena = a};
  Gen g = {.r = r, .out = &out};
  EMIT(&g,
       "kernel @k(%%a: mem<M, N, i32>, %%b: mem<M, i32>, %%c: mem<M, N, i32>, %%d: mem<M, i32>,\n"
       "          %%f: mem<M, N, i32>, %%e: mem<M, i32>)\n"
       "  workgroup M by 2 on 0; tile N by 2; tile K by 1; tile W; tile V\n"
       "  hardware threads 64, vector {M: 2, N: 2}\n"
       "  bind M = %d; bind N = %d; bind K = %d; bind S = 5; bind W = 3; bind V = 2\n{\n",
       SIZE_M, SIZE_N, trips[below(&g.r, (int)WV_LEN(trips))]);
  if (below(&g.r, 4) == 0) gen_length(&g);
  gen_statements(&g, 4 + below(&g.r, 16));
  EMIT(&g, "write %%v%d, %%d\n", gen_total(&g));
  sb_puts(&out, "}\n");
  return sb_text(&out);
}

/* ---- evaluation ---- */

typedef struct Stored {
  int32_t c[SIZE_M * SIZE_N], d[SIZE_M], f[SIZE_M * SIZE_N], e[SIZE_M];
} Stored;

/* Tiles run in the evaluator; one lane's program in the simulator, which also checks it. */
static bool evaluate(Kernel *k, const TargetInfo *machine, Stored *out) {
  int32_t a[SIZE_M * SIZE_N], b[SIZE_M];
  for (int i = 0; i < SIZE_M * SIZE_N; i++) a[i] = i * 7 % 13 - 5;
  for (int i = 0; i < SIZE_M; i++) b[i] = i * 5 % 7 - 2;
  memset(out, 0, sizeof *out);
  int32_t *data[] = {a, b, out->c, out->d, out->f, out->e};
  enum { ARGS = 6 };
  EvalBuffer buffers[ARGS];
  EvalArg args[ARGS] = {{0}};
  for (int i = 0; i < ARGS; i++) {
    bool wide = i % 2 == 0;
    buffers[i] = (EvalBuffer){.data = data[i], .dtype = DTYPE_i32, .rank = wide ? 2 : 1};
    buffers[i].shape[0] = SIZE_M;
    buffers[i].strides[0] = wide ? SIZE_N : 1;
    buffers[i].shape[1] = SIZE_N;
    buffers[i].strides[1] = 1;
    args[i].buffer = &buffers[i];
  }
  if (k->level == LEVEL_TILE) return eval_tile(k, args, ARGS, &(EvalOptions){.check_masks = true});
  SimReport report = {0};
  return sim_run(k, args, ARGS, &(SimOptions){.machine = machine}, &report) && !report.findings;
}

/* ---- one case ---- */

typedef struct Case {
  Context *cx;
  const char *text, *passes, *target;
  const char *problem; /* NULL: none */
  bool ran, fitted;    /* evaluated; on a machine, with layouts */
  bool lowered;
} Case;

static int pass_number(const char *name) {
  int n = 0;
  while (strcmp(pass_at(n)->name, name) != 0) n++;
  return n;
}

/* From the passes before lower_threads, which comes last, after all that it needs. Masks are those
 * of whole tiles: first registers get the dims they lack, and padding is removed from
 * reductions. */
static const char *random_passes(Random *r, Arena *a) {
  StrBuf out = {.arena = a};
  int n = pass_number("lower_threads");
  sb_puts(&out, "padding,widen");
  for (int left = 1 + below(r, 4); left; left--) sb_printf(&out, ",%s", pass_at(below(r, n))->name);
  return sb_text(&out);
}

/* Half of the kernels are compiled for a machine, and half of these are lowered. */
static const char *passes_for_target(Random *r, Arena *a, const char *passes) {
  StrBuf out = {.arena = a};
  sb_printf(&out, "%s,bind,retarget,layouts", passes);
  if (below(r, 2)) return sb_text(&out);
  int lower = pass_number("lower_threads");
  for (int i = pass_number("layouts") + 1; i <= lower; i++)
    sb_printf(&out, ",%s", pass_at(i)->name);
  sb_puts(&out, ",simplify");
  for (int i = lower + 1; pass_at(i); i++) sb_printf(&out, ",%s", pass_at(i)->name);
  return sb_text(&out);
}

/* A machine, or none. */
static const char *random_target(Random *r) {
  static const char *const targets[] = {"gfx942", "sm_80", "sm_89",   "sm_90a", "toy8",
                                        "eval",   "toy1",  "gfx1201", "cpu",    "cpu_neon"};
  return below(r, 2) ? targets[below(r, (int)WV_LEN(targets))] : NULL;
}

/* A machine may be unable to run a kernel: the kernel declares more threads than it has, or takes a
 * part of a tile by a loop's counter. */
static bool may_be_refused(const Case *c) {
  const Diag *d = c->cx->diags.last;
  bool known = d && (d->code == DIAG_E0608 || d->code == DIAG_E0610 || d->code == DIAG_E0611 ||
                     d->code == DIAG_E0612 || d->code == DIAG_E0601);
  return c->target && known;
}

static void fail(Case *c, const char *what, const Kernel *k) {
  StrBuf out = {.arena = c->cx->arena};
  sb_printf(&out, "%s\n", what);
  diags_render(&c->cx->diags, &out);
  if (k) ir_print(&out, k);
  c->problem = sb_text(&out);
}

static void check_passes(Case *c, Kernel *k) {
  Stored before, after;
  PassOptions o = {.passes = c->passes, .verify_each = true, .target = c->target};
  const TargetInfo *machine = c->target ? target_find(c->target).machine : NULL;
  if (!evaluate(k, NULL, &before)) return; /* no meaning: out of range, for example */
  c->ran = true;
  if (!passes_run(k, &o)) {
    if (!may_be_refused(c)) fail(c, "a pass refuses the kernel", k);
  } else if (!evaluate(k, machine, &after)) fail(c, "it cannot be evaluated any more", k);
  else if (memcmp(&before, &after, sizeof before) != 0) fail(c, "it stores something else", k);
  else c->fitted = c->target != NULL, c->lowered = k->level == LEVEL_THREAD;
}

static void run_case(Case *c) {
  KernelList list = ir_parse(c->cx, "<case>", c->text, c->cx->arena);
  if (list.n != 1) fail(c, "the generator wrote an invalid kernel", NULL);
  else check_passes(c, list.at[0]);
  for (int i = 0; i < list.n; i++) kernel_free(list.at[i]);
}

/* ---- all cases ---- */

static int fuzz(const Settings *s) {
  int failed = 0, passed = 0, ran = 0, fitted = 0, lowered = 0;
  double began = os_seconds();
  for (long n = 0; n < s->count && failed < 5; n++) {
    if (s->seconds > 0 && os_seconds() - began > s->seconds) break;
    Random r = {s->seed * UINT64_C(1000003) + (uint64_t)n};
    Context *cx = context_new();
    Case c = {
        .cx = cx, .passes = random_passes(&r, cx->arena), .text = random_kernel(r, cx->arena)};
    c.target = random_target(&r);
    if (c.target) c.passes = passes_for_target(&r, cx->arena, c.passes);
    run_case(&c);
    if (c.problem)
      printf("seed %" PRIu64 ", case %ld, passes %s on %s: %s\n--- the kernel was:\n%s---\n",
             s->seed, n, c.passes, c.target ? c.target : "no target", c.problem, c.text);
    failed += c.problem != NULL;
    passed += c.problem == NULL;
    ran += c.ran;
    fitted += c.fitted;
    lowered += c.lowered;
    context_free(cx);
  }
  printf("%d of %d kernels were evaluated, %d compiled for a machine, %d of these lowered\n", ran,
         passed + failed, fitted, lowered);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}

int main(int argc, char **argv) {
  Settings s = {.seed = 1, .count = 1000};
  int numbers = 0;
  for (int i = 1; i < argc; i++) {
    if (i + 1 < argc && take_setting(&s, argv[i], argv[i + 1])) i++;
    else if (numbers++ == 0) s.seed = strtoull(argv[i], NULL, 10);
    else s.count = strtol(argv[i], NULL, 10);
  }
  return fuzz(&s);
}
