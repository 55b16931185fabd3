/* fuzz_calls.c: no call of wave.h crashes, whatever its arguments are.
 *
 *     fuzz_calls [--seed N] [--count N] [--seconds N]
 *
 * A case is a context and forty random calls in random order: texts that are NULL, empty, long or
 * wrong, numbers at and beyond every limit, lists that are NULL or have a negative length, handles
 * that are NULL or that an earlier call failed to make. Each must return, and none may report an
 * internal error; what it returns goes into the pool that later calls draw from. Invalid pointers
 * are not tried: they cannot be told from valid ones. A crash names its case. The last line is "N
 * passed, M failed". */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "wave.h"

enum { POOL = 32, CALLS = 40, ELEMENTS = 256, LISTED = 12 };

typedef struct Pool {
  void *at[POOL];
  int n;
} Pool;

typedef struct Case {
  uint64_t state;
  wv_ctx *cx;
  Pool exprs, types, values, kernels;
  wv_builder *builder;
  float data[2][ELEMENTS];
} Case;

/* ---- random choices ---- */

static uint32_t next(Case *c) { /* splitmix64 */
  uint64_t z = c->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)(z >> 32);
}

static int below(Case *c, int n) { return (int)(next(c) % (uint32_t)n); }

#define ANY(c, list) (list)[below(c, (int)(sizeof(list) / sizeof *(list)))]

static int64_t any_number(Case *c) {
  static const int64_t list[] = {0,     1,         2,         -1,        3,        8,
                                 9,     64,        -64,       1023,      1025,     65535,
                                 65536, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  return ANY(c, list);
}

static int any_count(Case *c) { /* a list has LISTED entries */
  static const int list[] = {0, 0, 1, 1, 2, 2, 3, 8, 9, LISTED, -1, INT_MIN};
  return ANY(c, list);
}

static const char *any_text(Case *c) {
  static char large[5000];
  static const char *const list[] = {NULL,        "",
                                     "M",         "N",
                                     "f32",       "f16",
                                     "i1",        "nope",
                                     "%s%n",      "add",
                                     "min",       "max",
                                     "floordiv",  "mod",
                                     "lt",        "select",
                                     "read",      "write",
                                     "for",       "if",
                                     "mma",       "fill",
                                     "sum",       "expr",
                                     "dim",       "mapping",
                                     "bind",      "tile",
                                     "workgroup", "hardware",
                                     "dynamic",   "M < 3",
                                     "M +",       "((((",
                                     "sm_90a",    "cpu",
                                     "sim",       "sim:sm_80",
                                     "eval",      "gfx942",
                                     "simplify",  "bind,simplify",
                                     "all",       "lower_threads",
                                     "round",     "random:x",
                                     "value",     "axis",
                                     large};
  if (!*large) memset(large, 'x', sizeof large - 1);
  return ANY(c, list);
}

static void *any_of(Case *c, const Pool *p) {
  return p->n && below(c, 8) ? p->at[below(c, p->n)] : NULL;
}

static void keep(Case *c, Pool *p, const void *made) {
  if (!made) return;
  int at = p->n < POOL ? p->n++ : below(c, POOL);
  p->at[at] = (void *)(uintptr_t)made;
}

static wv_place any_place(Case *c) {
  return (wv_place){any_text(c), next(c), next(c), below(c, 2) ? 1 : UINT32_MAX};
}

/* ---- lists ---- */

static const wv_expr *any_exprs(Case *c, wv_expr list[LISTED]) {
  for (int i = 0; i < LISTED; i++) list[i] = any_of(c, &c->exprs);
  return below(c, 8) ? list : NULL;
}

static wv_value *const *any_values(Case *c, wv_value *list[LISTED]) {
  for (int i = 0; i < LISTED; i++) list[i] = any_of(c, &c->values);
  return below(c, 8) ? list : NULL;
}

static const wv_binding *any_bindings(Case *c, wv_binding list[LISTED]) {
  for (int i = 0; i < LISTED; i++)
    list[i] = (wv_binding){any_of(c, &c->exprs), any_of(c, &c->exprs)};
  return below(c, 8) ? list : NULL;
}

static const wv_attr *any_attrs(Case *c, wv_attr list[LISTED]) {
  for (int i = 0; i < LISTED; i++)
    list[i] = (wv_attr){.key = any_text(c),
                        .expr = any_of(c, &c->exprs),
                        .integer = any_number(c),
                        .number = (double)any_number(c),
                        .text = any_text(c)};
  return below(c, 8) ? list : NULL;
}

static wv_constraint any_constraint(Case *c) {
  return (wv_constraint){.kind = any_text(c),
                         .dim = any_of(c, &c->exprs),
                         .size = any_of(c, &c->exprs),
                         .axis = (int)any_number(c),
                         .threads = (int)any_number(c),
                         .npairs = any_count(c),
                         .at = any_place(c)};
}

/* ---- calls ---- */

static void call_exprs(Case *c) {
  wv_expr list[LISTED];
  wv_binding bound[LISTED];
  int64_t lo, hi;
  wv_expr e = any_of(c, &c->exprs);
  int n = any_count(c), m = any_count(c);
  keep(c, &c->exprs, wv_int(c->cx, any_number(c)));
  keep(c, &c->exprs, wv_symbol(c->cx, any_text(c), below(c, 2)));
  keep(c, &c->exprs, wv_rational(c->cx, any_number(c), any_number(c)));
  keep(c, &c->exprs, wv_expr_op(c->cx, any_text(c), any_exprs(c, list), n));
  keep(c, &c->exprs, wv_expr_parse(c->cx, any_text(c)));
  keep(c, &c->exprs, wv_expr_subst(c->cx, e, any_bindings(c, bound), n));
  keep(c, &c->exprs, wv_expr_simplify(c->cx, e, any_exprs(c, list), m));
  wv_expr_prove(c->cx, e, any_exprs(c, list), m);
  wv_expr_range(c->cx, e, any_exprs(c, list), m, &lo, &hi);
  wv_expr_eval(c->cx, e, any_bindings(c, bound), n, &lo);
  wv_resolve(c->cx, below(c, 8) ? bound : NULL, n);
  wv_expr_text(c->cx, e);
  wv_expr_arg(c->cx, e, (int)any_number(c));
  wv_expr_symbols(e, list, LISTED);
  wv_expr_copy(c->cx, e);
  wv_expr_constant(e, &lo, &hi);
}

static void call_types(Case *c) {
  wv_expr list[LISTED], layout[LISTED];
  int n = any_count(c);
  wv_type t = any_of(c, &c->types);
  keep(c, &c->types, wv_scalar_type(c->cx, any_text(c)));
  keep(c, &c->types, wv_tile_type(c->cx, any_exprs(c, list), n, any_text(c)));
  keep(c, &c->types,
       wv_mem_type(c->cx, any_exprs(c, list), n, "f32", any_of(c, &c->exprs),
                   below(c, 2) ? any_exprs(c, layout) : NULL));
  wv_type_text(c->cx, t);
  wv_type_dim(t, (int)any_number(c));
  wv_type_extent(t, (int)any_number(c));
}

static void call_builder(Case *c) {
  wv_value *list[LISTED], *results[LISTED] = {0};
  wv_attr attrs[LISTED];
  wv_constraint row = any_constraint(c);
  int n = any_count(c), m = any_count(c);
  if (!c->builder) c->builder = wv_build(c->cx, any_text(c), any_place(c));
  wv_builder *b = c->builder;
  keep(c, &c->values, wv_param(b, any_text(c), any_of(c, &c->types), NULL, any_place(c)));
  wv_add_constraint(b, below(c, 8) ? &row : NULL);
  wv_op(b, any_text(c), any_values(c, list), n, any_attrs(c, attrs), m, any_of(c, &c->types),
        any_place(c), below(c, 8) ? results : NULL);
  if (below(c, 4) == 0) wv_begin(b, any_text(c), list, 1, any_attrs(c, attrs), m, any_place(c));
  if (below(c, 4) == 0) wv_else(b, any_values(c, list), n, any_place(c));
  if (below(c, 4) == 0) wv_end(b, any_values(c, list), n, any_place(c), results);
  for (int i = 0; i < 4; i++) keep(c, &c->values, results[i]);
  wv_value_name(b, any_of(c, &c->values), any_text(c));
  wv_value_add_tag(b, any_of(c, &c->values), any_text(c));
  wv_value_type(any_of(c, &c->values));
  keep(c, &c->values, wv_literal(b, 1e300, any_number(c), below(c, 2), NULL, any_place(c)));
}

/* Values belong to the builder, which has been freed. */
static void call_finish(Case *c) {
  wv_kernel *k = below(c, 4) ? wv_finish(c->builder) : (wv_abandon(c->builder), NULL);
  c->builder = NULL;
  c->values.n = 0;
  keep(c, &c->kernels, k);
}

static void call_parse(Case *c) {
  static const char *const texts[] = {
      NULL,
      "",
      "kernel",
      "kernel @k(",
      "kernel @k(%x: mem<M, f32>, %y: mem<M, f32>)\n  workgroup M by 64 on 0\n"
      "  hardware threads 64, vector {M: 64}\n{\n  %p = read %x\n  write %p, %y\n}\n",
      "kernel @k(%x: mem<M, f32>, %y: mem<M, f32>)\n  workgroup M by 64 on 0\n  bind M = 100\n"
      "  hardware threads 64, vector {M: 64}\n{\n  %p = read %x\n  write %p, %y\n}\n"};
  wv_kernel *k = NULL;
  if (c->kernels.n == POOL) return; /* each is freed once */
  wv_parse(c->cx, any_text(c), ANY(c, texts), below(c, 8) ? &k : NULL, below(c, 2));
  keep(c, &c->kernels, k);
}

static void call_passes(Case *c) {
  wv_constraint rows[2] = {any_constraint(c), any_constraint(c)};
  wv_kernel *k = any_of(c, &c->kernels);
  wv_pass_options o = {.passes = any_text(c), .target = any_text(c)};
  static const int counts[] = {0, 1, 2, -1};
  wv_kernel_constrain(k, below(c, 8) ? rows : NULL, ANY(c, counts));
  if (below(c, 2)) wv_run_passes(k, below(c, 8) ? &o : NULL);
  else wv_lower(k, &o);
  wv_free(wv_emit_ptx(k, any_text(c), false));
  wv_free(wv_print(k));
  wv_verify(k);
  wv_kernel_launch_shape(k);
}

/* Any list of nodes, most of which exist; `list` has LISTED entries. */
static wv_nodes any_nodes(Case *c, int list[LISTED]) {
  for (int i = 0; i < LISTED; i++) list[i] = below(c, 8) ? below(c, 12) : (int)any_number(c);
  return (wv_nodes){below(c, 8) ? list : NULL, any_count(c)};
}

static const char *any_word(Case *c) {
  static const char *const list[] = {"any",  "prologue",     "kernel",    "epilogue",
                                     "Read", "GatherToLDS",  "MMA",       "WorkgroupBarrier",
                                     "loop", "SetWavePrio",  "shared",    "global",
                                     "r",    "TensorLoadTo", "BinaryPyOp"};
  return below(c, 4) ? ANY(c, list) : any_text(c);
}

static void call_construct_lists(Case *c, wv_construct *s) {
  int list[3][LISTED];
  const char *tags[LISTED];
  wv_nodes out[LISTED], from = any_nodes(c, list[0]);
  wv_node node;
  for (int i = 0; i < LISTED; i++) tags[i] = any_word(c);
  wv_construct_find(s, below(c, 8) ? tags : NULL, any_count(c), below(c, 2), any_place(c), out);
  wv_construct_filter(s, from, any_word(c), any_word(c), below(c, 4) - 1, any_place(c), out);
  wv_construct_by_space(s, from, any_word(c), any_place(c), below(c, 8) ? out : NULL);
  wv_construct_by_dim(s, from, any_of(c, &c->exprs), below(c, LISTED) - 1, any_place(c), out);
  wv_construct_copies(s, from, below(c, 8) ? out : NULL);
  wv_construct_node(s, (int)any_number(c), below(c, 8) ? &node : NULL);
  wv_construct_node(s, below(c, 12), &node);
}

static void call_construct_order(Case *c, wv_construct *s) {
  int list[3][LISTED];
  wv_nodes out, cycles[LISTED], loop = any_nodes(c, list[0]);
  wv_interleaved groups[LISTED];
  for (int i = 0; i < LISTED; i++) {
    cycles[i] = any_nodes(c, list[1]);
    groups[i] = (wv_interleaved){any_nodes(c, list[1]), (int)any_number(c), (int)any_number(c),
                                 any_nodes(c, list[2])};
  }
  int number = wv_construct_pipeline(s, below(c, 2) ? (wv_nodes){(int[]){below(c, 4)}, 1} : loop,
                                     any_place(c));
  if (!below(c, 4)) number = (int)any_number(c);
  for (int i = below(c, 4); i > 0; i--)
    wv_construct_stage(s, number, below(c, 8) ? cycles : NULL, any_count(c), any_place(c));
  wv_construct_close(s, number, below(c, 4) ? below(c, 4) : (int)any_number(c), below(c, 2));
  wv_construct_unroll(s, loop, (int)any_number(c), any_place(c));
  wv_construct_interleave(s, loop, below(c, 8) ? groups : NULL, any_count(c), any_place(c), &out);
  wv_construct_reorder(s, any_nodes(c, list[2]), any_place(c));
  wv_cluster_item items[LISTED];
  for (int i = 0; i < LISTED; i++)
    items[i] = (wv_cluster_item){below(c, 12) - 1, any_word(c), (int)any_number(c), any_word(c)};
  wv_construct_cluster(s, below(c, 8) ? items : NULL, any_count(c), any_place(c));
  wv_construct_insert(s, below(c, 8) ? items : NULL, any_word(c), any_nodes(c, list[2]),
                      any_place(c));
  wv_construct_stagger(s, loop, any_place(c));
}

/* A kernel with a loop, so that there is something to schedule. */
static wv_kernel *loop_kernel(Case *c) {
  static const char text[] =
      "kernel @k(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"
      "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 32; wave M by 16; wave N by 16\n"
      "  hardware threads 64, mma F32_16x16x16_F16\n  bind M = 40; bind N = 33; bind K = 100\n{\n"
      "  %z = fill 0.0 : tile<M, N, f32>\n"
      "  %s = for K with {tag = [\"loop\"]} carry %t = %z {\n    %x = read %a {tag = [\"r\"]}\n"
      "    %y = read %b {tag = [\"r\", \"M\"]}\n    %n = mma %x, %y, %t {tag = [\"mma\"]}\n"
      "    yield %n\n  }\n  write %s, %c\n}\n";
  wv_kernel *k = NULL;
  if (c->kernels.n < POOL && below(c, 4)) wv_parse(c->cx, "loop", text, &k, 1);
  keep(c, &c->kernels, k);
  return k ? k : any_of(c, &c->kernels);
}

static void call_construct(Case *c) {
  static const char *const targets[] = {"gfx942", "sm_90a", "sim:sm_80", "cpu", NULL};
  const char *target = below(c, 4) ? ANY(c, targets) : any_text(c);
  wv_kernel *k = loop_kernel(c);
  wv_construct *s =
      wv_construct_open(k, below(c, 8) ? "f" : NULL, target, below(c, 2), any_place(c));
  for (int i = below(c, 6); i > 0; i--) {
    if (below(c, 2)) call_construct_lists(c, s);
    else call_construct_order(c, s);
  }
  wv_construct_apply(s);
  wv_construct_free(s);
}

static void call_run(Case *c) {
  static const int64_t sizes[] = {0, 1, 5, 100, ELEMENTS, -5, INT64_MIN};
  static const int ranks[] = {1, 1, 1, 1, 0, 2, 100, -1};
  int64_t shape[2] = {ANY(c, sizes), 1};
  wv_buffer b[2];
  wv_arg args[3] = {{.buffer = below(c, 8) ? &b[0] : NULL}, {.buffer = &b[1]}, {.number = 1}};
  for (int i = 0; i < 2; i++)
    b[i] = (wv_buffer){.data = below(c, 8) ? c->data[i] : NULL,
                       .dtype = below(c, 8) ? "f32" : any_text(c),
                       .rank = ANY(c, ranks),
                       .shape = below(c, 8) ? shape : NULL};
  static const int counts[] = {2, 2, 2, 3, 1, 0, -1};
  int n = ANY(c, counts);
  wv_kernel *k = any_of(c, &c->kernels);
  wv_sim_options o = {.target = any_text(c), .schedule = below(c, 4) ? NULL : any_text(c)};
  wv_report *r = NULL;
  if (below(c, 2)) wv_eval(k, below(c, 8) ? args : NULL, n, NULL);
  else wv_sim(k, below(c, 8) ? args : NULL, n, below(c, 8) ? &o : NULL, below(c, 2) ? &r : NULL);
  wv_report_text(r);
  wv_report_free(r);
}

static void call_tables(Case *c) {
  int bits;
  const char *a, *b, *d;
  wv_diag diag;
  wv_note notes[2];
  int i = (int)any_number(c);
  wv_dtype_name(i, &bits, &a);
  wv_dtype_find(any_text(c));
  wv_op_info(i, &a, &b, &d);
  wv_pass_info(i, &a, &b);
  wv_target_info(i, &a, &b);
  wv_target_uses(i);
  wv_target_kind(c->cx, any_text(c));
  wv_diag_get(c->cx, i, &diag);
  wv_diag_notes(c->cx, i, notes, 2);
  wv_diag_report(c->cx, any_text(c), any_place(c), any_text(c), any_text(c));
  wv_source(c->cx, any_text(c), any_text(c));
  wv_explain(any_text(c));
  wv_data_bytes(any_text(c), any_number(c));
  wv_data_set(any_text(c), c->data[0], below(c, 32), 1e300);
  wv_data_get(any_text(c), c->data[0], below(c, 32));
  wv_program_load(c->cx, below(c, 2) ? c->data[0] : NULL, (size_t)below(c, 64), -1);
  wv_launch(NULL, c->cx, NULL, any_count(c), NULL, 0);
}

/* ---- the main program ---- */

static volatile sig_atomic_t at_case;
static uint64_t first_case;

static void crashed(int number) {
  char text[80];
  int n = snprintf(text, sizeof text, "signal %d in case %" PRIu64 "\n", number,
                   first_case + (uint64_t)at_case);
  if (fwrite(text, 1, (size_t)n, stderr) == 0) _Exit(2);
  fflush(stderr);
  _Exit(1);
}

/* Whether a call ended in an internal error, which is printed. From then on its context rejects
 * everything, so the rest of the case would test nothing. */
static bool internal_error(const Case *c, uint64_t seed) {
  wv_diag d;
  for (int i = 0; wv_diag_get(c->cx, i, &d); i++) {
    if (d.code[0] != 'I') continue;
    fprintf(stderr, "case %" PRIu64 ": %s %s\n", seed, d.code, d.text);
    return true;
  }
  return false;
}

static bool run_case(uint64_t seed) {
  static void (*const calls[])(Case *) = {call_exprs,  call_exprs,    call_types,  call_builder,
                                          call_parse,  call_finish,   call_passes, call_run,
                                          call_tables, call_construct};
  Case c = {.state = seed * UINT64_C(0x9e3779b97f4a7c15), .cx = wv_ctx_new()};
  bool ok = true;
  for (int i = 0; i < CALLS && ok; i++) {
    ANY(&c, calls)(&c);
    ok = !internal_error(&c, seed);
  }
  wv_abandon(c.builder);
  for (int i = 0; i < c.kernels.n; i++) wv_kernel_free(c.kernels.at[i]);
  wv_ctx_free(c.cx);
  return ok;
}

int main(int argc, char **argv) {
  uint64_t seed = 1, count = 1000;
  double seconds = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--count") == 0) count = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--seconds") == 0) seconds = strtod(argv[i + 1], NULL);
  }
  static const int signals[] = {SIGSEGV, SIGABRT, SIGFPE, SIGILL};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], crashed);
  first_case = seed;
  double began = os_seconds();
  uint64_t i = 0, failed = 0;
  for (; i < count || seconds > 0; i++) {
    if (seconds > 0 && os_seconds() - began > seconds) break;
    at_case = (sig_atomic_t)i;
    failed += !run_case(seed + i);
  }
  printf("%" PRIu64 " passed, %" PRIu64 " failed\n", i - failed, failed);
  return failed != 0;
}
