/* order_kernels.h: the loops that fuzz_orders judges: kernels, sizes, rows of schedules, machines. */
#ifndef WV_TESTS_ORDER_KERNELS_H
#define WV_TESTS_ORDER_KERNELS_H

#include "backend/sim/sim.h"
#include "fuzz/corpus.h"
#include "unit/tile_kit.h"

/* ---- kernels ---- */

#define LOOP_KINDS(X)                                                                              \
  X(gemm) X(two_products) X(attention) X(scaled) X(stencil) X(nested) X(gathered)

#define LOOP_KIND_ENUM(name) LOOP_##name,
#define LOOP_KIND_NAME(name) #name,
typedef enum LoopKind { LOOP_KINDS(LOOP_KIND_ENUM) N_LOOP_KINDS } LoopKind;
static const char *const loop_kinds[] = {LOOP_KINDS(LOOP_KIND_NAME)};

/* Tiles are BM, BN and BK elements; a large workgroup has twice as many along M and K, and twice the
 * waves. Sizes in runs are one tile of M and N, or one element less; what reads a few rows past its
 * tile has as many more, and a loop over N around that over K has several tiles. */
typedef struct Program {
  LoopKind kind;
  const char *head, *body;
  const char *reads[5], *ops[6]; /* what rows may name */
  int m, n, k;                   /* tiles of a small workgroup */
  int past;                      /* rows */
  int runs;                      /* of the loop over K, one for each tile of N; 0: one */
} Program;

#define DIVIDED "  workgroup M by BM on 0; workgroup N by BN on 1; tile K by BK\n"

#define SUMMED                                                                                     \
  "{\n  %z = fill 0.0 : tile<M, N, f32>\n"                                                         \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %x = read %a\n    %y = read %b\n    %n = mma %x, %y, %acc\n    yield %n\n  }\n"             \
  "  write %r, %c\n}"

#define TWO_PRODUCTS                                                                               \
  "kernel @k(%a: mem<M, D, f16, shared>, %b: mem<K, D, f16, shared>, %v: mem<N, K, f16, shared>,"  \
  " %c: mem<N, M, f32>)\n" DIVIDED "  wave M by 64; hardware threads 128; bind D = 16\n"

#define FIRST_PRODUCT                                                                              \
  "    %y = read %b\n    %x = read %a\n    %s = fill 0.0 : tile<K, M, f32>\n"                      \
  "    %p = mma %y, %x, %s\n"

#define SECOND_PRODUCT                                                                             \
  "    %h = cast %e : tile<K, M, f16>\n    %t = permute %h : tile<M, K, f16>\n"                    \
  "    %w = read %v\n    %n = mma %w, %t, %acc\n"

static const Program programs[] = {
    {LOOP_gemm,
     "kernel @k(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, "
     "f32>)\n" DIVIDED "  wave M by 16; wave N by 16; hardware threads 64, mma F32_16x16x16_F16\n",
     SUMMED,
     {"x", "y"},
     {"n"},
     32,
     16,
     16,
     0,
     0},
    {LOOP_gemm, /* operands stay in shared memory, if a machine's product reads it */
     "kernel @k(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, "
     "f32>)\n" DIVIDED "  wave M by 64; wave N by 16; hardware threads 128\n",
     SUMMED,
     {"x", "y"},
     {"n"},
     64,
     16,
     16,
     0,
     0},
    {LOOP_gemm, /* one operand in registers */
     "kernel @k(%a: mem<M, K, f16>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n" DIVIDED
     "  wave M by 32; wave N by 16; hardware threads 64\n",
     SUMMED,
     {"x", "y"},
     {"n"},
     64,
     16,
     16,
     0,
     0},
    {LOOP_two_products,
     TWO_PRODUCTS,
     "{\n  %z = fill 0.0 : tile<N, M, f32>\n  %r = for K carry %acc = %z {\n" FIRST_PRODUCT
     "    %e = abs %p\n" SECOND_PRODUCT "    yield %n\n  }\n  write %r, %c\n}",
     {"y", "x", "w"},
     {"p", "e", "h", "n"},
     64,
     16,
     16,
     0,
     0},
    {LOOP_attention,
     TWO_PRODUCTS,
     "{\n  %z = fill 0.0 : tile<N, M, f32>\n  %lo = fill -1000.0 : tile<M, f32>\n"
     "  %r, %most = for K carry %acc = %z, %m = %lo {\n" FIRST_PRODUCT
     "    %g = max %p, %m {dim = K}\n    %gs = broadcast %g : tile<K, M, f32>\n"
     "    %e = sub %p, %gs\n" SECOND_PRODUCT "    yield %n, %g\n  }\n  write %r, %c\n}",
     {"y", "x", "w"},
     {"p", "g", "e", "n"},
     64,
     16,
     16,
     0,
     0},
    {LOOP_scaled,
     "kernel @k(%a: mem<M, K, f8e4m3fn, shared>, %as: mem<M, K/32, f8e8m0fnu>,"
     " %b: mem<N, K, f8e4m3fn, shared>, %bs: mem<N, K/32, f8e8m0fnu>, %c: mem<M, N, f32>)\n" DIVIDED
     "  wave M by 16; wave N by 16; hardware threads 64, mma F32_16x16x128_F8F6F4\n",
     "{\n  %z = fill 0.0 : tile<M, N, f32>\n  %r = for K carry %acc = %z {\n"
     "    %x = read %a\n    %p = read %as\n    %y = read %b\n    %q = read %bs\n"
     "    %n = scaled_mma %x, %p, %y, %q, %acc\n    yield %n\n  }\n  write %r, %c\n}",
     {"x", "y", "p"},
     {"n", "p"},
     32,
     16,
     128,
     0,
     0},
    {LOOP_stencil, /* rings of one tensor at three offsets */
     "kernel @k(%a: mem<M, K, f32, shared>, %b: mem<M, K, f32, shared>, %c: mem<M, K, f32>)\n"
     "  workgroup M by BM on 0; tile K by BK; wave M by 16\n"
     "  hardware threads 64, vector {M: 16, K: 16}\n",
     "{\n  for K {\n    %u = read %a\n"
     "    %v = read %a {mapping = map 2 {M: $index0 + 1, K: $index1} -> {M: $index0, K: $index1}}\n"
     "    %w = read %a {mapping = map 2 {M: $index0 + 2, K: $index1} -> {M: $index0, K: $index1}}\n"
     "    %x = read %b\n    %s = add %u, %v\n    %t = add %s, %w\n    %n = mul %t, %x\n"
     "    write %n, %c\n  }\n}",
     {"u", "v", "w", "x"},
     {"s", "t", "n"},
     32,
     32,
     16,
     2,
     0},
    {LOOP_nested, /* a workgroup computes several tiles, one after another */
     "kernel @k(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"
     "  workgroup M by BM on 0; tile N by BN; tile K by BK; wave M by 64; hardware threads 128\n",
     "{\n  for N {\n    %z = fill 0.0 : tile<M, N, f32>\n    %r = for K carry %acc = %z {\n"
     "      %x = read %a\n      %y = read %b\n      %n = mma %x, %y, %acc\n      yield %n\n    }\n"
     "    write %r, %c\n  }\n}",
     {"x", "y"},
     {"n"},
     64,
     16,
     16,
     0,
     3},
    {LOOP_nested, /* each has one iteration more than the one before it */
     "kernel @k(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"
     "  workgroup M by BM on 0; tile N by BN; tile K by BK iters ceiling(K/BK) + $ARGN\n"
     "  wave M by 64; hardware threads 128\n",
     "{\n  for N {\n    %z = fill 0.0 : tile<M, N, f32>\n    %r = for K carry %acc = %z {\n"
     "      %x = read %a\n      %y = read %b\n      %n = mma %x, %y, %acc\n      yield %n\n    }\n"
     "    write %r, %c\n  }\n}",
     {"x", "y"},
     {"n"},
     64,
     16,
     16,
     0,
     3},
    {LOOP_nested, /* its sums go from run to run, through an op that cancels none of them */
     "kernel @k(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, "
     "f32>)\n" DIVIDED "  wave M by 16; wave N by 16; hardware threads 64, mma F32_16x16x16_F16\n"
     "  tile D by 4; bind D = 16\n",
     "{\n  %z = fill 0.0 : tile<M, N, f32>\n  %all = for D carry %s = %z {\n"
     "    %r = for K carry %acc = %s {\n      %x = read %a\n      %y = read %b\n"
     "      %n = mma %x, %y, %acc\n      yield %n\n    }\n    %o = add %r, %r\n    yield %o\n  }\n"
     "  write %all, %c\n}",
     {"x", "y"},
     {"n"},
     32,
     16,
     16,
     0,
     0},
    {LOOP_stencil, /* one of the rings is transposed: its tiles are read by other waves */
     "kernel @k(%a: mem<M, K, f32, shared>, %b: mem<K, M, f32, shared>, %v: mem<M, K, f32, shared>,"
     " %c: mem<M, K, f32>)\n"
     "  workgroup M by BM on 0; tile K by BK; wave M by 16\n"
     "  hardware threads 64, vector {M: 16, K: 16}\n",
     "{\n  for K {\n    %x = read %a\n    %y = read %b\n    %w = read %v\n"
     "    %t = permute %y : tile<M, K, f32>\n    %s = add %x, %t\n    %n = mul %s, %w\n"
     "    write %n, %c\n  }\n}",
     {"x", "y", "w"},
     {"s", "n"},
     32,
     32,
     16,
     0,
     0},
    {LOOP_gathered, /* along K: rows of both tensors come from one table */
     "kernel @k(%a: mem<D, M, f16, shared, layout(_, M)>, %b: mem<D, N, f16, shared, layout(_, N)>,"
     " %t: mem<K, i32>, %c: mem<M, N, f32>)\n" DIVIDED
     "  wave M by 16; wave N by 16; hardware threads 64, mma F32_16x16x16_F16; bind D = 16\n",
     "{\n  %z = fill 0.0 : tile<M, N, f32>\n  %r = for K carry %acc = %z {\n    %i = read %t\n"
     "    %x = read %a, %i {mapping = map 2 {D: $dynamic_val0, M: $index0} -> {M: $index0, K: "
     "$index1} with {K: $index1}} : tile<M, K, f16>\n"
     "    %y = read %b, %i {mapping = map 2 {D: $dynamic_val0, N: $index0} -> {N: $index0, K: "
     "$index1} with {K: $index1}} : tile<N, K, f16>\n"
     "    %n = mma %x, %y, %acc\n    yield %n\n  }\n  write %r, %c\n}",
     {"x", "y", "i"},
     {"n", "i"},
     32,
     16,
     16,
     0,
     0},
    {LOOP_gathered, /* by arithmetic on two tables, one of which the loop does not change */
     "kernel @k(%a: mem<D, K, f16, shared, layout(_, K)>, %b: mem<N, K, f16, shared>,"
     " %t: mem<M, i32>, %u: mem<K, i32>, %c: mem<M, N, f32>)\n" DIVIDED
     "  wave M by 64; wave N by 16; hardware threads 128; bind D = 16\n",
     "{\n  %z = fill 0.0 : tile<M, N, f32>\n  %i = read %t\n  %r = for K carry %acc = %z {\n"
     "    %j = read %u\n    %h = add %j, %j\n    %e = abs %h\n"
     "    %x = read %a, %i {mapping = map 2 {D: $dynamic_val0, K: $index1} -> {M: $index0, K: "
     "$index1} with {M: $index0}} : tile<M, K, f16>\n"
     "    %y = read %a, %e {mapping = map 2 {D: $dynamic_val0, K: $index0} -> {N: $index0, K: "
     "$index1} with {K: $index1}} : tile<N, K, f16>\n"
     "    %w = read %b\n    %s = add %w, %y\n    %n = mma %x, %s, %acc\n    yield %n\n  }\n"
     "  write %r, %c\n}",
     {"x", "y", "w"},
     {"n", "j", "e"},
     64,
     16,
     16,
     0,
     0},
};

static const char *const machines[] = {"sm_90a", "sm_80", "gfx942", "gfx950", "gfx1250", "toy8"};

/* ---- rows ---- */

/* ROW(name): what rows of a kernel ask for. */
#define LOOP_ROWS(X)                                                                               \
  X(none)                                                                                          \
  X(depth)                                                                                         \
  X(unroll)                                                                                        \
  X(peeled)                                                                                        \
  X(slots)                                                                                         \
  X(copy) X(fetch) X(lag) X(split) X(roles) X(turns) X(step) X(order) X(parts) X(copy_parts)

#define LOOP_ROW_ENUM(name) ROW_##name,
#define LOOP_ROW_NAME(name) #name,
typedef enum LoopRow { LOOP_ROWS(LOOP_ROW_ENUM) N_LOOP_ROWS } LoopRow;
static const char *const loop_rows[] = {LOOP_ROWS(LOOP_ROW_NAME)};

/* Sizes, and the order in which the simulator runs waves. */
typedef struct Run {
  int k;
  bool ragged; /* M and N */
  int schedule;
} Run;

enum {
  TRIPS = 12,
  WARPS = 4, /* of 32 threads in a small workgroup */
  ROOM = 4096
};

typedef struct Case {
  uint64_t seed;
  const Program *p;
  int machine;
  bool large;
  int step;    /* of the loop */
  bool known;  /* sizes */
  bool whole;  /* M and N are known, and K is a multiple of its tile */
  Run run;     /* if they are known */
  bool lagged; /* halves of the waves are a barrier apart */
  bool rows[N_LOOP_ROWS];
  char drawn[ROOM / 2]; /* rows that do not depend on sizes */
  char text[ROOM];
  Sample sample;
} Case;

static inline const char *any(Random *r, const char *const *names, size_t most) {
  size_t n = 0;
  while (n < most && names[n]) n++;
  return names[below(r, n)];
}

/* Rows that begin with `schedule`: one for a loop. */
static inline void draw_schedule(StrBuf *out, Random *r, Case *c) {
  sb_puts(out, "  schedule K");
  c->rows[ROW_depth] = below(r, 3) != 0;
  c->rows[ROW_unroll] = below(r, 3) == 0;
  c->rows[ROW_peeled] = below(r, 3) == 0;
  if (c->rows[ROW_depth]) sb_printf(out, " depth %d", 1 + (int)below(r, 4));
  if (c->rows[ROW_unroll]) sb_printf(out, " unroll %d", 2 + (int)below(r, 3));
  sb_printf(out, " drain %s\n", c->rows[ROW_peeled] ? "peeled" : "masked");
}

static inline LoopRow draw_row(StrBuf *out, Random *r, const Program *p) {
  const char *read = any(r, p->reads, WV_LEN(p->reads)), *op = any(r, p->ops, WV_LEN(p->ops));
  int a = (int)below(r, 4), b = (int)below(r, 4), c = (int)below(r, 3);
  switch (below(r, 6)) {
  case 0:
  case 1: sb_printf(out, "  ring K %s slots %d\n", read, 2 + a); return ROW_slots;
  case 2: sb_printf(out, "  at K %d.%d %s.copy\n", a, c, read); return ROW_copy;
  case 3: sb_printf(out, "  at K %d.%d %s.fetch\n", a, c, read); return ROW_fetch;
  case 4: sb_printf(out, "  at K %d.%d %s\n", a, c, op); return ROW_lag;
  default:
    sb_printf(out, "  at K %d.0 %s.load; at K %d.%d %s.store\n", a, read, b, c, read);
    return ROW_split;
  }
}

/* The parts of a copy, each at a place of its own. Not every tile has the dimension, and not every copy
 * can be divided along it. */
static inline void draw_copy_parts(StrBuf *out, Random *r, const Program *p) {
  static const char *const dims[] = {"M", "K", "K", "N"};
  static const char *const classes[] = {"copy", "copy", "load", "store"};
  const char *read = any(r, p->reads, WV_LEN(p->reads)), *class = classes[below(r, 4)];
  const char *dim = dims[strcmp(read, "x") == 0 ? below(r, 3) : 1 + below(r, 3)];
  int of = below(r, 4) ? 2 : 4, stage = (int)below(r, 3);
  for (int i = 0; i < of; i++)
    sb_printf(out, "  at K %d.%d %s.%s[%s %d/%d]\n", stage + (int)below(r, 2), (int)below(r, 3),
              read, class, dim, i, of);
}

/* Some copies may be left to the waves that compute. */
static inline void draw_roles(StrBuf *out, Random *r, const Case *c) {
  sb_printf(out, "  roles K load %d, math %d\n", 1 + (int)below(r, 4), WARPS << c->large);
  if (below(r, 3) == 0)
    sb_printf(out, "  in K math %s.copy\n", any(r, c->p->reads, WV_LEN(c->p->reads)));
}

/* Of small workgroups, those with matmuls of four waves are refused. */
static inline void draw_turns(StrBuf *out, Random *r, const Case *c) {
  sb_printf(out, "  turns K %d %s\n", below(r, 4) ? 2 : 4, any(r, c->p->ops, WV_LEN(c->p->ops)));
}

/* Fetches and other ops mostly as they were written, and copies anywhere among them. */
static inline void draw_order(StrBuf *out, Random *r, Case *c) {
  const Program *p = c->p;
  const char *names[4 * WV_LEN(p->reads) + WV_LEN(p->ops) + 1], *class[WV_LEN(names)];
  bool halves = c->rows[ROW_parts] =
      c->large && !below(r, 2); /* along K: of fetches, or only of `n` */
  bool copied = !below(r, 3);   /* halves of copies along K */
  size_t n = 0, fetched = halves ? below(r, 2) : 0;
  for (size_t i = 0; i < WV_LEN(p->reads) && p->reads[i]; i++) {
    if (!below(r, 4)) continue;
    names[n] = p->reads[i], class[n++] = fetched ? ".fetch[K 0/2]" : ".fetch";
    if (fetched) names[n] = p->reads[i], class[n++] = ".fetch[K 1/2]";
  }
  for (size_t i = 0; i < WV_LEN(p->ops) && p->ops[i]; i++) {
    bool last = halves && strcmp(p->ops[i], "n") == 0;
    if (!last && !below(r, 4)) continue;
    names[n] = p->ops[i], class[n++] = last ? "[K 0/2]" : "";
    if (last) names[n] = p->ops[i], class[n++] = "[K 1/2]";
  }
  if (n > 1 && !below(r, 4)) {
    size_t at = below(r, n - 1);
    const char *name = names[at], *kind = class[at];
    names[at] = names[at + 1], class[at] = class[at + 1];
    names[at + 1] = name, class[at + 1] = kind;
  }
  for (size_t i = 0; i < WV_LEN(p->reads) && p->reads[i]; i++) {
    size_t at = below(r, n + 1);
    if (!below(r, 3)) continue;
    for (size_t j = n; j > at; j--) names[j] = names[j - 1], class[j] = class[j - 1];
    names[at] = p->reads[i], class[at] = below(r, 2) ? ".copy" : ".store", n++;
    if (!copied || below(r, 2)) continue;
    class[at] = ".copy[K 0/2]", c->rows[ROW_copy_parts] = true;
    at += 1 + below(r, n - at);
    for (size_t j = n; j > at; j--) names[j] = names[j - 1], class[j] = class[j - 1];
    names[at] = p->reads[i], class[at] = ".copy[K 1/2]", n++;
  }
  if (n) sb_puts(out, "  order K");
  for (size_t i = 0; i < n; i++) sb_printf(out, " %s%s", names[i], class[i]);
  sb_puts(out, "\n");
}

static inline void draw_rows(StrBuf *out, Random *r, Case *c) {
  bool engine = strcmp(machines[c->machine], "sm_90a") == 0;
  size_t rows = below(r, 3);
  bool loop = below(r, 2);
  c->rows[ROW_none] = !rows && !loop;
  if (loop) draw_schedule(out, r, c);
  while (rows--) c->rows[draw_row(out, r, c->p)] = true;
  if (!below(r, 4)) draw_copy_parts(out, r, c->p), c->rows[ROW_copy_parts] = true;
  c->rows[ROW_order] = !below(r, 3);
  if (c->rows[ROW_order]) draw_order(out, r, c);
  if (!below(r, engine ? 2 : 16)) draw_roles(out, r, c);
  if (!below(r, c->large ? 4 : 16)) draw_turns(out, r, c);
}

/* ---- sizes ---- */

static inline int tile_m(const Case *c) { return c->p->m << c->large; }
static inline int tile_k(const Case *c) { return c->p->k << c->large; }

/* With this many iterations: what is known stays as it is. The last one may have fewer tiles than a
 * step. */
static inline Run run_of(const Case *c, int trips, bool ragged, int schedule) {
  if (c->known) return (Run){c->run.k, c->run.ragged, schedule};
  int part = ragged && !c->whole ? tile_k(c) / 2 : 0;
  int tiles = trips * c->step - (trips % 2 ? c->step - 1 : 0);
  return (Run){tiles * tile_k(c) - (trips ? part : 0), c->whole ? c->run.ragged : ragged, schedule};
}

static inline Run any_run(const Case *c, Random *r) {
  return run_of(c, (int)below(r, TRIPS), below(r, 2) != 0, (int)below(r, N_SIM_SCHEDULES));
}

static inline SampleSizes sizes_of(const Case *c, Run run) {
  int m = run.ragged ? tile_m(c) - 1 : tile_m(c) + c->p->past;
  int n = c->p->n * (c->p->runs ? c->p->runs : 1);
  return (SampleSizes){{m, n - run.ragged, run.k, 16}};
}

static inline void put_sizes(StrBuf *out, const Case *c) {
  SampleSizes known = sizes_of(c, c->run);
  if (c->known || c->whole)
    sb_printf(out, "  bind M = %d; bind N = %d\n", known.at[0], known.at[1]);
  if (c->known) sb_printf(out, "  bind K = %d\n", c->run.k);
  else if (c->whole) sb_printf(out, "  dynamic K; assume Eq(Mod(K, %d), 0)\n", tile_k(c));
  else sb_puts(out, "  dynamic M, N, K; assume Eq(Mod(K, 8), 0)\n");
}

/* The body, whose loop has a step if it is more than 1. */
static inline void put_body(StrBuf *out, const Case *c) {
  const char *loop = strstr(c->p->body, "for K ");
  int head = (int)(loop - c->p->body) + 6;
  sb_printf(out, "%.*s", head, c->p->body);
  if (c->step > 1) sb_printf(out, "step %d ", c->step);
  sb_puts(out, c->p->body + head);
}

/* The kernel's text, for the sizes of `run` if they are known. */
static inline void put_text(Case *c) {
  Arena *a = arena_new();
  StrBuf text = {.arena = a};
  sb_puts(&text, c->p->head);
  sb_printf(&text, "  bind BM = %d; bind BN = %d; bind BK = %d\n", tile_m(c), c->p->n, tile_k(c));
  put_sizes(&text, c);
  sb_puts(&text, c->drawn);
  put_body(&text, c);
  snprintf(c->text, sizeof c->text, "%s", sb_text(&text));
  c->sample = (Sample){loop_kinds[c->p->kind],
                       c->text,
                       {{"M", tile_m(c)}, {"N", c->p->n}, {"K", tile_k(c)}, {"D", -16}}};
  arena_free(a);
}

static inline void draw_case(Case *c, Random *r, bool large) {
  Arena *a = arena_new();
  StrBuf rows = {.arena = a};
  c->p = &programs[below(r, WV_LEN(programs))];
  c->machine = (int)below(r, WV_LEN(machines));
  c->large = large;
  c->step = below(r, 4) ? 1 : 2 << below(r, 2);
  c->rows[ROW_step] = c->step > 1;
  c->run = any_run(c, r);
  c->known = below(r, 3) == 0;
  c->whole = !c->known && below(r, 2);
  if (below(r, 3) == 0) sb_printf(&rows, "  boxes %d\n", (int)below(r, 2));
  draw_rows(&rows, r, c);
  snprintf(c->drawn, sizeof c->drawn, "%s", sb_text(&rows));
  put_text(c);
  arena_free(a);
}

/* The same case with as many iterations, all of whole tiles. */
static inline void make_whole(const Case *c, Case *whole) {
  *whole = *c;
  whole->run.k = (c->run.k + tile_k(c) - 1) / tile_k(c) * tile_k(c);
  whole->run.ragged = false;
  put_text(whole);
}

#endif
