/* test_construct.c: nodes of a kernel, stages, dependences, and the rows that they become. */
#include <string.h>

#include "base/base.h"
#include "unit/harness.h"
#include "wave.h"

#define LOOP                                                                                       \
  "kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"     \
  "  workgroup M by 64 on 0; workgroup N by 64 on 1; tile K by 64; wave M by 32; wave N by 32\n"   \
  "  hardware threads 64, mma F32_16x16x16_F16\n"                                                  \
  "  bind M = 128; bind N = 128; bind K = 320\n{\n"                                                \
  "  %zero = fill 0.0 : tile<M, N, f32>\n"                                                         \
  "  %sum = for K with {tag = [\"loop\"]} carry %acc = %zero {\n"                                  \
  "    %x = read %a {tag = [\"read_a\"]}\n"                                                        \
  "    %y = read %b {tag = [\"read_b\"]}\n"

static const char gemm[] = LOOP "    %n = neg %x {tag = [\"neg\"]}\n"
                                "    %next = mma %n, %y, %acc {tag = [\"mma\", \"second\"]}\n"
                                "    yield %next\n  }\n"
                                "  write %sum, %c\n}\n";

typedef struct Bench {
  wv_ctx *cx;
  wv_kernel *k;
  wv_construct *c;
} Bench;

static const wv_place here = {"f.py", 3, 1, 1};

static Bench bench_open(const char *kernel, const char *target, bool direct) {
  Bench b = {.cx = wv_ctx_new()};
  if (wv_parse(b.cx, "gemm.wave", kernel, &b.k, 1) != 1) return b;
  b.c = wv_construct_open(b.k, "f", target, direct, here);
  return b;
}

static void bench_close(Bench *b) {
  wv_construct_free(b->c);
  wv_kernel_free(b->k);
  wv_ctx_free(b->cx);
}

static wv_nodes tagged(const Bench *b, const char *tag) {
  wv_nodes out = {0};
  return wv_construct_find(b->c, &tag, 1, false, here, &out) ? out : (wv_nodes){0};
}

static wv_nodes typed(const Bench *b, const char *tag, const char *type) {
  wv_nodes out = {0}, all = tagged(b, tag);
  return wv_construct_filter(b->c, all, "any", type, -1, here, &out) ? out : (wv_nodes){0};
}

/* Whether the last diagnostic has this code and text. */
static bool said(const Bench *b, const char *code, const char *text) {
  wv_diag d, last = {0};
  for (int i = 0; wv_diag_get(b->cx, i, &d); i++) last = d;
  bool ok = last.code && strcmp(last.code, code) == 0 && strstr(last.text, text);
  if (!ok) printf("%s %s\n", last.code ? last.code : "-", last.text ? last.text : "-");
  return ok;
}

/* The kernel has this row, after everything was applied. */
static bool has_row(const Bench *b, const char *row) {
  char *text = wv_print(b->k);
  bool found = text && strstr(text, row);
  if (!found) printf("%s\n", text ? text : "-");
  wv_free(text);
  return found;
}

TEST(nodes_are_instructions_of_the_machine) {
  static const struct {
    const char *target;
    int products, fetches;
  } machines[] = {{"gfx942", 16, 8}, {"gfx1250", 4, 2}, {NULL, 1, 1}, {"cpu", 1, 1}};
  for (size_t i = 0; i < WV_LEN(machines); i++) {
    Bench b = bench_open(gemm, machines[i].target, true);
    CHECK_INT(tagged(&b, "loop").n, 1);
    CHECK_INT(tagged(&b, "mma").n, machines[i].products);
    CHECK_INT(typed(&b, "read_a", "Read").n, machines[i].fetches);
    CHECK_INT(typed(&b, "neg", "UnaryPyOp").n, machines[i].fetches);
    CHECK(typed(&b, "read_a", "GatherToLDS").n > 0);
    CHECK_INT(typed(&b, "read_a", "Write").n, 0);
    bench_close(&b);
  }
}

TEST(a_schedule_may_see_loads_and_stores) {
  Bench b = bench_open(gemm, "gfx942", false);
  wv_nodes out[2];
  wv_nodes loads = typed(&b, "read_a", "Read"), stores = typed(&b, "read_a", "Write");
  CHECK_INT(typed(&b, "read_a", "GatherToLDS").n, 0);
  CHECK(wv_construct_by_space(b.c, loads, "global", here, out));
  CHECK_INT(out[0].n, stores.n);
  CHECK_INT(out[1].n, 8);
  bench_close(&b);
}

TEST(tags_are_one_or_all) {
  Bench b = bench_open(gemm, "gfx942", true);
  const char *both[] = {"second", "mma"};
  wv_nodes out;
  CHECK(wv_construct_find(b.c, both, 2, true, here, &out) && out.n == 16);
  CHECK(wv_construct_find(b.c, both, 1, true, here, &out) && out.n == 0);
  CHECK(wv_construct_find(b.c, both, 1, false, here, &out) && out.n == 16);
  CHECK(wv_construct_find(b.c, NULL, 0, true, here, &out) && out.n == 0);
  CHECK_INT(tagged(&b, "reed_a").n, 0);
  CHECK(said(&b, "W0202", "has the tag `reed_a`"));
  bench_close(&b);
}

/* Copies `ahead` stages before the rest; -1: that failed. */
static int staged(const Bench *b, int ahead, wv_nodes *copies) {
  wv_nodes fetches = typed(b, "read_a", "Read"), cycles[2] = {{0}};
  *copies = typed(b, "read_a", "GatherToLDS");
  int p = wv_construct_pipeline(b->c, tagged(b, "loop"), here);
  cycles[0] = *copies;
  bool ok = wv_construct_stage(b->c, p, cycles, 2, here);
  for (int i = 1; i < ahead; i++)
    ok &= wv_construct_stage(b->c, p, (wv_nodes[2]){{0}, {0}}, 2, here);
  cycles[0] = fetches, cycles[1] = tagged(b, "mma");
  return ok && wv_construct_stage(b->c, p, cycles, 2, here) ? p : -1;
}

TEST(copies_run_as_far_ahead_as_stages_say) {
  for (int ahead = 1; ahead < 3; ahead++) {
    Bench b = bench_open(gemm, "gfx942", true);
    wv_nodes copies, all, part;
    int p = staged(&b, ahead, &copies);
    CHECK(wv_construct_close(b.c, p, 0, false));
    CHECK(wv_construct_copies(b.c, copies, &all) && all.n == copies.n * (ahead + 1));
    CHECK(wv_construct_filter(b.c, all, "prologue", NULL, -1, here, &part));
    CHECK_INT(part.n, copies.n * ahead);
    CHECK(wv_construct_apply(b.c));
    char row[64];
    snprintf(row, sizeof row, "schedule loop interval 2 depth %d", ahead + 1);
    CHECK(has_row(&b, row) && has_row(&b, "at loop 0.0 read_a.copy"));
    bench_close(&b);
  }
}

TEST(what_has_no_room_is_dropped) {
  Bench b = bench_open(gemm, "gfx942", true);
  wv_nodes copies;
  int p = staged(&b, 4, &copies);
  CHECK(wv_construct_close(b.c, p, 0, false) && wv_construct_apply(b.c));
  CHECK(said(&b, "R0616", "is not obeyed on gfx942") && said(&b, "R0616", "of shared memory"));
  bench_close(&b);
}

TEST(slots_are_enough_or_refused) {
  Bench b = bench_open(gemm, "gfx942", true);
  wv_nodes copies;
  int p = staged(&b, 3, &copies);
  CHECK(wv_construct_close(b.c, p, 2, false) && !wv_construct_apply(b.c));
  CHECK(said(&b, "E0620", "with 2 buffers `read_a.copy` of iteration i + 3"));
  bench_close(&b);
  b = bench_open(gemm, "gfx942", true);
  p = staged(&b, 1, &copies);
  CHECK(wv_construct_close(b.c, p, 3, true) && wv_construct_apply(b.c));
  CHECK(has_row(&b, "ring loop read_a.copy slots 3"));
  bench_close(&b);
}

TEST(orders_obey_the_data_flow_by_parts) {
  Bench b = bench_open(gemm, "gfx942", true);
  const char *k = "K";
  wv_nodes fetch[2], product[2];
  wv_expr dim = wv_symbol(b.cx, k, true);
  CHECK(wv_construct_by_dim(b.c, typed(&b, "read_a", "Read"), dim, 2, here, fetch));
  CHECK(wv_construct_by_dim(b.c, tagged(&b, "mma"), dim, 2, here, product));
  CHECK_INT(product[0].n, 8);
  int order[3] = {product[0].at[0], fetch[1].at[0], product[1].at[0]};
  CHECK(wv_construct_reorder(b.c, (wv_nodes){order, 3}, here)); /* through `neg` */
  order[2] = fetch[0].at[0];
  CHECK(!wv_construct_reorder(b.c, (wv_nodes){order, 3}, here));
  CHECK(said(&b, "E0620", "`mma[M 0/2, N 0/2, K 0/4]` comes before `read_a.fetch[M 0/2, K 0/4]`"));
  int sums[2] = {product[1].at[0], product[0].at[0]};
  CHECK(!wv_construct_reorder(b.c, (wv_nodes){sums, 2}, here));
  CHECK(said(&b, "E0620", "which it needs"));
  bench_close(&b);
}

static const char plain[] = LOOP "    %next = mma %x, %y, %acc {tag = [\"mma\"]}\n"
                                 "    yield %next\n  }\n"
                                 "  write %sum, %c\n}\n";

/* The fetch of A and the products, by turns, `n` parts of each along `dim`; NULL: one whole stage. */
static bool interleaved(const Bench *b, const char *dim, int n) {
  wv_nodes fetch[4], product[4], copies = typed(b, "read_a", "GatherToLDS");
  wv_nodes cycles[2] = {typed(b, "read_a", "Read"), tagged(b, "mma")};
  wv_expr along = wv_symbol(b->cx, dim, true);
  int p = wv_construct_pipeline(b->c, tagged(b, "loop"), here), order[64], all = 0;
  bool ok = wv_construct_stage(b->c, p, (wv_nodes[2]){copies, {0}}, 2, here) &&
            wv_construct_stage(b->c, p, cycles, 2, here) && wv_construct_close(b->c, p, 0, false) &&
            wv_construct_by_dim(b->c, cycles[0], along, n, here, fetch) &&
            wv_construct_by_dim(b->c, cycles[1], along, n, here, product);
  for (int i = 0; ok && i < n; i++) {
    for (int j = 0; j < fetch[i].n; j++) order[all++] = fetch[i].at[j];
    for (int j = 0; j < product[i].n; j++) order[all++] = product[i].at[j];
  }
  return ok && wv_construct_reorder(b->c, (wv_nodes){order, all}, here) && wv_construct_apply(b->c);
}

TEST(rows_have_as_few_parts_as_say_the_order) {
  static const struct {
    const char *dim;
    int n;
    const char *row;
  } cases[] = {
      {"K", 1, "order loop read_a.fetch mma\n"},
      {"K", 2, "order loop read_a.fetch[K 0/2] mma[K 0/2] read_a.fetch[K 1/2] mma[K 1/2]\n"},
      {"M", 2, "order loop read_a.fetch[M 0/2] mma[M 0/2] read_a.fetch[M 1/2] mma[M 1/2]\n"},
      {"K", 3, "mma[K 1/4] read_a.fetch[K 2/4] mma[K 2/4] read_a.fetch[K 3/4] mma[K 3/4]\n"},
  };
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    Bench b = bench_open(plain, "gfx942", true);
    wv_diag d;
    CHECK(interleaved(&b, cases[i].dim, cases[i].n) && has_row(&b, cases[i].row));
    CHECK(!wv_diag_get(b.cx, 0, &d));
    bench_close(&b);
  }
}

TEST(ops_between_a_fetch_and_a_matmul_are_divided_too) {
  Bench b = bench_open(gemm, "gfx942", true);
  CHECK(interleaved(&b, "K", 2));
  CHECK(has_row(&b, "order loop read_a.fetch[K 0/2] mma[K 0/2] read_a.fetch[K 1/2] mma[K 1/2]\n"));
  bench_close(&b);
}

TEST(what_has_no_parts_is_placed_as_a_whole) {
  Bench b = bench_open(plain, "gfx942", true);
  wv_note note;
  wv_nodes copies, fetches = typed(&b, "read_a", "Read");
  int p = staged(&b, 1, &copies), order[16], all = 0;
  CHECK(wv_construct_close(b.c, p, 0, false));
  CHECK_INT(copies.n, 2);
  order[all++] = copies.at[0];
  for (int i = 0; i < fetches.n; i++) order[all++] = fetches.at[i];
  order[all++] = copies.at[1];
  CHECK(wv_construct_reorder(b.c, (wv_nodes){order, all}, here) && wv_construct_apply(b.c));
  CHECK(has_row(&b, "order loop read_a.copy read_a.fetch\n"));
  CHECK(said(&b, "R0616", "is obeyed on gfx942, except for"));
  CHECK_INT(wv_diag_notes(b.cx, 0, &note, 1), 1);
  CHECK(
      strstr(note.text, "the order of the instructions of `read_a.copy`: it is copied as a whole"));
  bench_close(&b);
}

TEST(a_machine_may_have_fewer_instructions) {
  Bench b = bench_open(gemm, "gfx942", true);
  wv_nodes parts[6];
  CHECK(wv_construct_by_dim(b.c, tagged(&b, "mma"), wv_symbol(b.cx, "K", true), 6, here, parts));
  CHECK_INT(parts[3].n, 4);
  CHECK_INT(parts[4].n + parts[5].n, 0);
  CHECK(wv_construct_apply(b.c));
  CHECK(said(&b, "R0616", "the schedule `f` is obeyed on gfx942, except for"));
  bench_close(&b);
}

TEST(bad_arguments) {
  Bench b = bench_open(gemm, "gfx942", true);
  wv_nodes out, none = {NULL, 3}, wrong = {(int[]){1 << 20}, 1};
  wv_node node;
  CHECK(!wv_construct_open(NULL, "f", NULL, false, here));
  CHECK(!wv_construct_open(b.k, NULL, NULL, false, here));
  CHECK(!wv_construct_open(b.k, "f", "nope", false, here));
  CHECK(!wv_construct_find(NULL, NULL, 0, false, here, &out));
  CHECK(!wv_construct_find(b.c, NULL, 2, false, here, &out));
  CHECK(!wv_construct_filter(b.c, none, "any", NULL, -1, here, &out));
  CHECK(!wv_construct_filter(b.c, wrong, "any", NULL, -1, here, &out));
  CHECK(!wv_construct_filter(b.c, (wv_nodes){0}, "middle", NULL, -1, here, &out));
  CHECK(!wv_construct_filter(b.c, (wv_nodes){0}, "any", "Reed", -1, here, &out));
  CHECK(said(&b, "E0218", "no class `Reed`"));
  CHECK(!wv_construct_by_space(b.c, (wv_nodes){0}, "nope", here, &out));
  CHECK(!wv_construct_by_dim(b.c, (wv_nodes){0}, NULL, 2, here, &out));
  CHECK(!wv_construct_by_dim(b.c, (wv_nodes){0}, wv_symbol(b.cx, "K", true), -1, here, &out));
  CHECK_INT(wv_construct_pipeline(b.c, wrong, here), -1);
  CHECK(!wv_construct_stage(b.c, 0, NULL, 0, here) && !wv_construct_close(b.c, 0, 0, false));
  CHECK(!wv_construct_unroll(b.c, tagged(&b, "loop"), 3, here)); /* of 5 iterations */
  CHECK(!wv_construct_insert(b.c, &(wv_cluster_item){.type = "Nope"}, NULL, none, here));
  CHECK(!wv_construct_insert(b.c, NULL, "end", none, here));
  CHECK(!wv_construct_insert(b.c, &(wv_cluster_item){0}, "end", none, here));
  CHECK(!wv_construct_insert(b.c, &(wv_cluster_item){.type = "WorkgroupBarrier"}, "end", wrong,
                             here));
  CHECK(!wv_construct_stagger(b.c, none, here));
  CHECK(!wv_construct_node(b.c, -1, &node) && !wv_construct_node(b.c, 0, NULL));
  CHECK(!wv_construct_copies(b.c, none, &out) && !wv_construct_apply(NULL));
  wv_construct_free(NULL);
  bench_close(&b);
}

TESTS_MAIN(RUN(nodes_are_instructions_of_the_machine) RUN(a_schedule_may_see_loads_and_stores)
               RUN(tags_are_one_or_all) RUN(copies_run_as_far_ahead_as_stages_say)
                   RUN(what_has_no_room_is_dropped) RUN(slots_are_enough_or_refused)
                       RUN(orders_obey_the_data_flow_by_parts)
                           RUN(rows_have_as_few_parts_as_say_the_order)
                               RUN(ops_between_a_fetch_and_a_matmul_are_divided_too)
                                   RUN(what_has_no_parts_is_placed_as_a_whole)
                                       RUN(a_machine_may_have_fewer_instructions)
                                           RUN(bad_arguments))
