/* distribute.h, compared with the evaluator: at every op of every kernel, for every workgroup and
 * for some iterations, the expressions give the numbers eval_position.c computes. Then random
 * headers. */
#include "analysis/analysis.h"
#include "backend/eval/eval.h"
#include "unit/eval_kit.h"

enum { GROUPS = 12 }; /* workgroups compared per kernel */

typedef struct Judge {
  Eval ev;
  const Distribution *d;
  Harness *harness;
  int compared;
} Judge;

/* The initial state of the evaluator: symbols, rows, grid. */
static bool open_eval(Judge *j, Kernel *k, const SymBinding *values, int n) {
  Eval *ev = &j->ev;
  *ev = (Eval){.k = k, .cx = k->cx, .at = k->at, .home = arena_new(), .group = arena_new()};
  ev->arena = ev->home;
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *c = &k->constraints.at[i];
    if (c->kind == CONSTRAINT_bind) env_define(ev, c->bind.symbol, c->bind.value);
  }
  for (int i = 0; i < n; i++) {
    int64_t v = 0;
    sym_is_int(values[i].to, &v);
    env_set(ev, env_slot(ev, sym_name(values[i].from)), v);
  }
  position_aliases(ev);
  return position_setup(ev);
}

static void close_eval(Judge *j) {
  for (int i = 0; i < j->ev.arenas.n; i++) arena_free(j->ev.arenas.at[i]);
  arena_free(j->ev.home);
  arena_free(j->ev.group);
}

static void compare_dim(Judge *j, const Op *op, const Sym *dim) {
  Harness *harness = j->harness;
  Axis axis;
  TileRange range;
  int64_t start, extent, size, whole;
  j->ev.at = op->at;
  if (!position_axis(&j->ev, dim, &axis) || !position_dim_size(&j->ev, dim, &whole)) return;
  if (!distribute_dim(j->d, op, dim, &range)) { /* a position that is even here, not everywhere */
    CHECK(dim != axis.base && j->ev.cx->diags.last->code == DIAG_E0605);
    return;
  }
  CHECK(expr_value(&j->ev, range.start, &start));
  CHECK(expr_value(&j->ev, range.extent, &extent));
  CHECK(expr_extent(&j->ev, range.size, &size)); /* `N` in a size is never a loop's position */
  CHECK_INT(start, axis.lo);
  CHECK_INT(extent < 0 ? 0 : extent, axis.n);
  CHECK_INT(size, whole);
  j->compared++;
}

static void compare_region(Judge *j, const Region *r, int iteration);

static void compare_loop(Judge *j, const Op *op, int iteration) {
  Eval *ev = &j->ev;
  Loop loop = {.axis = op_attr(op, ATTR_axis)->sym, .counter = iteration, .outer = ev->loops};
  int mark = env_mark(ev);
  if (op->kind == OP_while) {
    env_set(ev, env_slot(ev, sym_name(op_attr(op, ATTR_version)->sym)), iteration);
    env_set_position(ev, env_slot(ev, sym_name(loop.axis)), iteration);
  } else {
    Harness *harness = j->harness;
    int64_t trips, counted;
    if (position_trips(ev, loop.axis, &trips)) {
      CHECK(expr_value(ev, distribute_trips(j->d, op), &counted));
      CHECK_INT(counted, trips);
    }
  }
  env_set(ev, env_slot(ev, sym_name(ir_loop_counter(ev->k, loop.axis))), iteration);
  ev->loops = &loop;
  compare_region(j, op->body, iteration + 1);
  ev->loops = loop.outer;
  env_rewind(ev, mark);
}

/* A symbol is set to a number that no tile has: a use of the wrong version gives another result. */
static void set_symbol(Judge *j, const Op *op) {
  const Sym *symbol = op_attr(op, ATTR_symbol)->sym;
  int64_t v = 37 + op->id;
  const Op *owner = op->parent->owner;
  env_set(&j->ev, env_slot(&j->ev, sym_name(op_attr(op, ATTR_version)->sym)), v);
  if (owner && owner->kind == OP_while)
    env_set_position(&j->ev, env_slot(&j->ev, sym_name(symbol)), v);
  else env_set(&j->ev, env_slot(&j->ev, sym_name(symbol)), v);
}

static void compare_region(Judge *j, const Region *r, int iteration) {
  int mark = env_mark(&j->ev);
  for (const Op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->nresults; i++)
      for (int d = 0; d < op->results[i].type->rank; d++)
        compare_dim(j, op, op->results[i].type->dims[d]);
    if (op->kind == OP_set_symbol) set_symbol(j, op);
    if (op->kind == OP_if) compare_region(j, op->body, iteration);
    else if (op->body) compare_loop(j, op, iteration);
  }
  env_rewind(&j->ev, mark);
}

static void compare_grid(Judge *j) {
  Harness *harness = j->harness;
  for (int i = 0; i < 3; i++) {
    int64_t n;
    CHECK(expr_value(&j->ev, j->d->grid[i], &n));
    CHECK_INT(n, j->ev.grid[i]);
  }
}

static void compare_groups(Judge *j) {
  const int64_t *grid = j->ev.grid;
  int64_t all = grid[0] * grid[1] * grid[2], step = all / GROUPS + 1;
  for (int64_t g = 0; g < all; g += step) {
    int mark = env_mark(&j->ev);
    position_enter_group(&j->ev, g % grid[0], g / grid[0] % grid[1], g / grid[0] / grid[1]);
    for (int iteration = 0; iteration < 3; iteration += 2)
      compare_region(j, j->ev.k->body, iteration);
    env_rewind(&j->ev, mark);
  }
}

/* The number of positions compared; symbols that the header does not bind get sizes. */
static int compare(Harness *harness, const char *text, const char *const *names,
                   const int64_t *values, int n) {
  Lab l = lab_open(text);
  CHECK(l.k != NULL);
  if (!l.k) return 0;
  Arena *a = arena_new();
  SymBinding given[8];
  for (int i = 0; i < n; i++)
    given[i] = (SymBinding){sym_symbol(l.cx->sym, names[i], true), sym_int(l.cx->sym, values[i])};
  ir_renumber(l.k);
  Judge j = {.harness = harness, .d = facts_of(l.k, a, FACT_distribute).distribute};
  int before = harness->failures_here;
  if (open_eval(&j, l.k, given, n)) {
    compare_grid(&j);
    compare_groups(&j);
  }
  if (harness->failures_here > before) printf("in\n%s\n", text);
  close_eval(&j);
  arena_free(a);
  lab_close(&l);
  return j.compared;
}

#define BODY                                                                                       \
  "{ %m = fill 0 : tile<M, N, i32>\n"                                                              \
  "  for K { %k = fill 0 : tile<M, K, i32>\n"                                                      \
  "    %h = fill 0 : tile<N, K/2, i32>\n"                                                          \
  "    for N { %n = fill 0 : tile<K, N, i32> }\n"                                                  \
  "    if (K > 3) { %i = fill 0 : tile<K, i32> } }\n"                                              \
  "  %o = fill 0 : tile<M, K, i32> }\n"

static const char *const sizes[] = {"M", "N", "K", "B", "S"};

static void check_rows(Harness *harness, const char *rows) {
  static const int64_t values[][5] = {{1, 1, 2, 1, 3}, {100, 70, 62, 5, 4}, {256, 128, 64, 2, 7}};
  for (size_t i = 0; i < WV_LEN(values); i++) {
    char text[2048];
    snprintf(text, sizeof text, "kernel @k(%%p: mem<M, N, K, B, i32>)\n%s\n%s", rows, BODY);
    CHECK(compare(harness, text, sizes, values[i], 5) > 0);
  }
}

TEST(plain) {
  check_rows(harness, "workgroup M by 64 on 0; workgroup N by 32 on 1; tile K by 16; tile N by 8\n"
                      "hardware threads 64");
}

TEST(starts_and_counts) {
  check_rows(harness, "workgroup M by 32 on 0 start 16*$WG0 + S iters S\n"
                      "workgroup N by 8 on 0 start $WG0//4 secondary\n"
                      "tile K by 16 from 32*$WG0 iters 3; tile N by 4; hardware threads 64");
}

TEST(folded_and_reordered) {
  check_rows(harness, "workgroup M by 64 on 0; workgroup N by 32 on 1; workgroup B by 1 on 2\n"
                      "workgroup K by 16 on 3; tile K by 8; tile N by 8\n"
                      "reorder 0 to Mod($WG0 + $WG1, 2); reorder 2 to $WG2//2 + Mod($WG2, 2)\n"
                      "hardware threads 64, vector {B: 0}");
}

TEST(explicit_grid) {
  check_rows(harness, "workgroup M by 64 on 0; workgroup N by 32 on 1; tile K by 16; tile N by 8\n"
                      "grid 3*S; hardware threads 64");
}

TEST(aliases_and_devices) {
  check_rows(harness, "workgroup M by 64 on 0; workgroup N by 32 on 1; tile K by 16 from 4*S\n"
                      "alias B of K by $ALIAS*2; alias Q of M by $ALIAS//128; tile N by 8\n"
                      "device M by 96 on 0; hardware threads 64");
}

TEST(versions) {
  const int64_t values[] = {100, 70, 62, 5, 4};
  int n =
      compare(harness,
              "kernel @k(%p: mem<M, N, K, B, i32>, %q: mem<M, i32>)\n"
              "workgroup M by 64 on 0; tile K by S from 3*S iters S + 1; tile N by 8 + Mod(N, 2)\n"
              "hardware threads 64\n"
              "{ %a = fill 0 : tile<M, N, K, i32>\n"
              "  %v = scalar 5 : i32\n"
              "  set_symbol S %v\n"
              "  for K { %b = fill 0 : tile<M, K, i32>\n"
              "    set_symbol N %v\n"
              "    for N { %c = fill 0 : tile<K, N, i32> }\n"
              "    %d = fill 0 : tile<N, i32> }\n"
              "  %e = fill 0 : tile<N, K, i32>\n"
              "  while N as N.9 (%n) from %v cond N < 9 { %f = fill 0 : tile<N, i32>\n"
              "    set_symbol N %v\n"
              "    %g = fill 0 : tile<N, K, i32> } }",
              sizes, values, 5);
  CHECK(n > 0);
}

/* ---- random headers ---- */

typedef struct Random {
  uint64_t state;
} Random;

static int pick(Random *r, int n) {
  r->state = r->state * 6364136223846793005u + 1442695040888963407u;
  return (int)((r->state >> 33) % (uint64_t)n);
}

static void put_row(StrBuf *out, Random *r, const char *dim, int axis) {
  static const char *const starts[] = {"", " start S*$WG0", " start $WG1 + 4*$WG0", " start 2*S"};
  sb_printf(out, "workgroup %s by %d on %d%s", dim, 2 << pick(r, 5), axis, starts[pick(r, 4)]);
  sb_puts(out, pick(r, 4) ? "\n" : " iters S\n");
}

static void put_header(StrBuf *out, Random *r) {
  static const char *const dims[] = {"M", "N", "K", "B"};
  static const char *const extra[] = {"",
                                      "reorder 0 to $WG1; reorder 1 to $WG0\n",
                                      "reorder 1 to Mod($WG1 + $WG0, S)\n",
                                      "reorder 0 to $WG0/2; reorder 1 to ($WG0 + $WG1)/3\n",
                                      "grid S + 2\n",
                                      "device N by 48 on 0\n",
                                      "alias B of K by $ALIAS*4\n",
                                      "alias B of M by $ALIAS//16\n"};
  int used = 1 + pick(r, 4), from = pick(r, 4);
  for (int i = 0; i < used; i++) put_row(out, r, dims[(from + i) % 4], i);
  if (pick(r, 2)) sb_printf(out, "workgroup S by %d on 0 secondary\n", 1 + pick(r, 9));
  sb_printf(out, "tile K by %d%s\n", 2 << pick(r, 4), pick(r, 2) ? " from 2*S" : "");
  sb_printf(out, "tile N by S + %d%s\n", pick(r, 3), pick(r, 3) ? "" : " iters 2");
  sb_puts(out, extra[pick(r, WV_LEN(extra))]);
  sb_printf(out, "hardware threads 64%s\n", pick(r, 3) ? "" : ", vector {B: 0, M: 16}");
}

TEST(random_headers) {
  Random r = {.state = 11};
  int compared = 0;
  for (int i = 0; i < 400; i++) {
    Arena *a = arena_new();
    StrBuf text = {.arena = a};
    int64_t values[5];
    sb_puts(&text, "kernel @k(%p: mem<M, N, K, B, S, i32>)\n");
    put_header(&text, &r);
    sb_puts(&text, BODY);
    for (int d = 0; d < 5; d++) values[d] = 2 * (1 + pick(&r, d == 4 ? 4 : 60));
    compared += compare(harness, sb_text(&text), sizes, values, 5);
    arena_free(a);
  }
  CHECK(compared > 20000);
}

/* ---- tiles that a workgroup computes one after another ---- */

enum { MOST_TILES = 48, MOST_GROUPS = 7, MOST_FIRST = 9, VALUES = 6 };

/* A grid of `first` by `second` by `third` tiles, whose sizes are known or not, as `text` says. */
typedef struct TileCase {
  Harness *harness;
  const Distribution *d;
  const Sym *count, *tile[WORKGROUP_DIMS]; /* the second: as rows that name ids see them */
  const char *row;
  int size[3], groups;
  SymBinding values[VALUES];
  int times[MOST_TILES];     /* that each tile is computed */
  int64_t cost[MOST_GROUPS]; /* of each workgroup: the places along the first dimension */
} TileCase;

static int64_t value_of(const TileCase *c, const Sym *e) {
  Harness *harness = c->harness;
  int64_t v = -1;
  CHECK(e != NULL && sym_eval(e, c->values, VALUES, &v));
  return v;
}

static void set_value(TileCase *c, int i, const char *name, int value) {
  SymCtx *sym = c->d->k->cx->sym;
  c->values[i] = (SymBinding){sym_symbol(sym, name, true), sym_int(sym, value)};
}

static void compute_tile(TileCase *c, int group) {
  Harness *harness = c->harness;
  int64_t at[3];
  bool inside = true;
  for (int i = 0; i < 3; i++) {
    at[i] = value_of(c, c->d->id[i]);
    CHECK_INT(value_of(c, c->tile[i]), at[i]);
    inside &= at[i] >= 0 && at[i] < c->size[i];
  }
  CHECK(inside);
  c->cost[group] += at[0] + 1;
  if (inside) c->times[(at[2] * c->size[1] + at[1]) * c->size[0] + at[0]]++;
}

static void compute_tiles(TileCase *c) {
  Harness *harness = c->harness;
  int all = c->size[0] * c->size[1] * c->size[2], before = harness->failures_here;
  memset(c->times, 0, sizeof c->times);
  memset(c->cost, 0, sizeof c->cost);
  for (int i = 0; i < 3; i++) set_value(c, i, (const char *[]){"M", "N", "B"}[i], c->size[i]);
  set_value(c, 5, "P", c->groups);
  set_value(c, 4, "$ARG$TILES", 0);
  set_value(c, 3, "$WG0", 0);
  int64_t groups = value_of(c, c->d->grid[0]);
  CHECK_INT(groups, all < c->groups ? all : c->groups);
  for (int g = 0; g < groups; g++) {
    set_value(c, 3, "$WG0", g);
    int64_t count = value_of(c, c->count);
    CHECK(count >= 0 && count <= all);
    for (int i = 0; i < count && i < all; i++) {
      set_value(c, 4, "$ARG$TILES", i);
      compute_tile(c, g);
    }
  }
  for (int i = 0; i < all; i++) CHECK_INT(c->times[i], 1);
  if (harness->failures_here > before)
    printf("%d x %d x %d tiles, %d workgroups: %s\n", c->size[0], c->size[1], c->size[2], c->groups,
           c->row);
}

static void check_tiles(TileCase *c, const char *text) {
  Harness *harness = c->harness;
  Arena *a = arena_new();
  Lab l = lab_open(text);
  CHECK(l.k != NULL);
  if (l.k) {
    ir_renumber(l.k);
    c->d = facts_of(l.k, a, FACT_distribute).distribute;
    SymCtx *sym = l.cx->sym;
    const Sym *tiles = sym_mul(sym, sym_mul(sym, c->d->tiles[0], c->d->tiles[1]), c->d->tiles[2]);
    const Sym *first = ir_numbered_symbol(l.cx, "$WG", 0, true);
    c->count = distribute_tile_count(c->d, kernel_persistent(l.k), tiles, first);
    distribute_tile_ids(c->d, c->tile);
    compute_tiles(c);
  }
  lab_close(&l);
  arena_free(a);
}

#define TILED                                                                                      \
  "kernel @k(%%p: mem<M, N, B, i32>)\n"                                                            \
  "  workgroup M by 1 on 0; workgroup N by 1 on 1; workgroup B by 1 on 2; tile $TILES by 1\n"      \
  "  hardware threads 64, vector {M: 0, N: 0, B: 0}; %s\n"                                         \
  "  persist %s loop $TILES %s\n{ }\n"

static void check_grid(TileCase *c, bool known) {
  char binds[100] = "", groups[16] = "P", text[1024];
  if (known) {
    snprintf(binds, sizeof binds, "bind M = %d; bind N = %d; bind B = %d", c->size[0], c->size[1],
             c->size[2]);
    snprintf(groups, sizeof groups, "%d", c->groups);
  }
  snprintf(text, sizeof text, TILED, known ? binds : "dynamic M; dynamic N; dynamic B",
           known ? groups : "P", c->row);
  check_tiles(c, text);
}

/* Every tile of a grid exactly once, whatever the number of workgroups. */
static void check_grids(Harness *harness, const char *row) {
  TileCase c = {.harness = harness, .row = row};
  for (c.groups = 1; c.groups <= MOST_GROUPS; c.groups++)
    for (c.size[0] = 1; c.size[0] <= MOST_FIRST; c.size[0]++)
      for (int all = c.size[0]; all <= MOST_TILES; all += c.size[0]) {
        int rest = all / c.size[0];
        for (c.size[2] = 1; c.size[2] <= rest; c.size[2] += 1 + (c.size[2] > 2) * 4) {
          if (rest % c.size[2]) continue;
          c.size[1] = rest / c.size[2];
          for (int known = 0; known < 2; known++) check_grid(&c, known);
        }
      }
}

TEST(each_tile_once) { check_grids(harness, ""); }

TEST(each_tile_once_in_pairs) { check_grids(harness, "pairs"); }

/* All workgroups have the same to do if a tile at x along the first dimension takes x + 1 iterations. */
TEST(pairs_are_balanced) {
  TileCase c = {.harness = harness, .row = "pairs", .size = {8, 6, 1}, .groups = 4};
  check_grid(&c, true);
  for (int g = 0; g < 4; g++) CHECK_INT(c.cost[g], 6 * 9);
}

/* ---- numbers, waves, mistakes ---- */

static const Distribution *open_header(Lab *l, Arena *a, const char *rows) {
  char text[1024];
  snprintf(text, sizeof text,
           "kernel @k(%%p: mem<M, K, f32>) %s { %%x = fill 0.0 : tile<M, K, f32>\n"
           " for K { %%y = fill 0.0 : tile<M, K/32, f32> } }",
           rows);
  *l = lab_open(text);
  return l->k ? facts_of(l->k, a, FACT_distribute).distribute : NULL;
}

static const char *shown(Arena *a, const Sym *s) { return s ? sym_text(a, s) : "none"; }

TEST(waves_and_threads) {
  Arena *a = arena_new();
  Lab l;
  const Distribution *d = open_header(&l, a,
                                      "workgroup M by 128 on 1; tile K by 32; wave M by 32\n"
                                      "hardware threads 64, service_waves 1");
  CHECK_STR(shown(a, d->waves[0]), "1");
  CHECK_STR(shown(a, d->waves[1]), "4");
  CHECK_STR(shown(a, d->threads[0]), "64");
  CHECK_STR(shown(a, d->threads[1]), "5");
  CHECK_STR(shown(a, d->grid[1]), "ceiling(M/128)");
  lab_close(&l);
  arena_free(a);
}

static const char *mistake(const char *rows) {
  Arena *a = arena_new();
  Lab l;
  const Distribution *d = open_header(&l, a, rows);
  int extent[IR_MAX_RANK];
  const char *code = "none";
  for (const Op *op = d ? ir_first(l.k) : NULL; op; op = ir_next(op))
    if (op->nresults && !distribute_extents(d, op, op->results[0].type, extent)) break;
  if (l.cx->diags.last) code = diag_info[l.cx->diags.last->code].code;
  lab_close(&l);
  arena_free(a);
  return code;
}

TEST(mistakes) {
  CHECK_STR(mistake("workgroup M by 64 on 0; tile K by 32; bind K = 64; hardware threads 64"),
            "none");
  CHECK_STR(mistake("workgroup M by 64 on 0; tile K by 32; hardware threads 64"), "E0606");
  CHECK_STR(mistake("workgroup M by 64 on 0; tile K by 16; bind K = 64; hardware threads 64"),
            "E0605");
  CHECK_STR(mistake("workgroup M by S on 0; tile K by 32; bind K = 64; hardware threads 64"),
            "E0606");
}

TESTS_MAIN(RUN(plain) RUN(starts_and_counts) RUN(folded_and_reordered) RUN(explicit_grid)
               RUN(aliases_and_devices) RUN(versions) RUN(random_headers) RUN(each_tile_once)
                   RUN(each_tile_once_in_pairs) RUN(pairs_are_balanced) RUN(waves_and_threads)
                       RUN(mistakes))
