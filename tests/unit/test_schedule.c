/* test_schedule.c: rows of schedules: every one that is obeyed gives the same results with any
 * number of iterations and is proved to be in order. */
#include "ir/ops/alloc_layout.h"
#include "schedule/proof/loop_proof.h"
#include "unit/lane_kit.h"
#include "wave.h"

#define BODY                                                                                       \
  "{\n"                                                                                            \
  "  %z = fill 0.0 : tile<M, N, f32>\n"                                                            \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %x = read %a\n"                                                                             \
  "    %y = read %b\n"                                                                             \
  "    %n = mma %x, %y, %acc\n"                                                                    \
  "    yield %n\n"                                                                                 \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

/* From registers; from shared memory, where the machine can; two chained matmuls. */
#define GEMM                                                                                       \
  "kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"     \
  "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 16\n"                               \
  "  wave M by 16; wave N by 16; hardware threads 64, mma F32_16x16x16_F16\n"
#define GEMM_SHARED                                                                                \
  "kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"     \
  "  workgroup M by 64 on 0; workgroup N by 32 on 1; tile K by 16\n"                               \
  "  wave M by 64; wave N by 32; hardware threads 128\n"
#define CHAIN                                                                                      \
  "kernel @chain(%a: mem<M, D, f16, shared>, %b: mem<K, D, f16, shared>,"                          \
  " %v: mem<N, K, f16, shared>, %c: mem<N, M, f32>)\n"                                             \
  "  workgroup M by 64 on 0; workgroup N by 16 on 1; tile K by 16\n"                               \
  "  wave M by 64; hardware threads 128; bind D = 16\n"
#define CHAIN_BODY                                                                                 \
  "{\n"                                                                                            \
  "  %z = fill 0.0 : tile<N, M, f32>\n"                                                            \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %y = read %b\n    %x = read %a\n    %s = fill 0.0 : tile<K, M, f32>\n"                      \
  "    %p = mma %y, %x, %s\n    %e = abs %p\n"                                                     \
  "    %h = cast %e : tile<K, M, f16>\n    %t = permute %h : tile<M, K, f16>\n"                    \
  "    %w = read %v\n    %n = mma %w, %t, %acc\n    yield %n\n"                                    \
  "  }\n"                                                                                          \
  "  write %r, %c\n"                                                                               \
  "}"

static const char *const machines[] = {"sm_90a", "sm_80", "gfx942", "gfx950"};

static const char *const rows[] = {
    "schedule K depth 1\n",
    "schedule K depth 2\n",
    "schedule K depth 3\n",
    "schedule K kind prefetch drain masked\n",
    "schedule K kind four_stage\n",
    "ring K x slots 2\n",
    "ring K x slots 4; ring K y slots 2\n",
    "ring K x slots 3; ring K y slots 5; stages 2\n",
    "stages 1; ring K y slots 3\n",
    "schedule K depth 3; ring K x y slots 4\n",
    "schedule K depth 2; ring K x slots 5\n",
    "at K 0.0 x.copy; at K 1.0 y.copy; at K 2.1 n\n",
    "at K 0.0 x.copy; at K 2.0 y.copy; at K 2.0 n; stages 4\n",
    "at K 1.0 x.fetch y.fetch; at K 0.1 x.copy y.copy; at K 1.2 n\n",
    "at K 2.0 x.fetch y.fetch; at K 2.1 n; at K 0.2 x.copy y.copy; schedule K interval 3 depth 3\n",
    "at K 0.0 y.copy; at K 2.0 x.fetch y.fetch; at K 2.1 n; at K 0.2 x.copy\n",
    "boxes 0; schedule K depth 4\n",
    /* tiles that wait in registers for an iteration, where copies need registers */
    "at K 0.0 x.load y.load; at K 1.1 x.store y.store; at K 1.2 x.fetch y.fetch n\n",
    "at K 1.0 x.store y.store; at K 1.1 x.fetch y.fetch n; at K 0.2 x.load y.load\n",
    "at K 0.0 x.load; at K 1.3 x.store; at K 2.2 x.fetch y.fetch n; at K 1.0 y.copy\n",
    "at K 0.1 x.load; at K 1.0 x.store; schedule K depth 3; ring K x slots 4\n",
    "boxes 0; ring K x slots 4; ring K y slots 3\n",
    "boxes 1; schedule K depth 3\n", /* on AMD: loads that end in shared memory */
    "boxes 1; ring K x slots 2; ring K y slots 4\n",
    /* tiles are fetched some iterations before they are multiplied */
    "at K 0.0 x.copy y.copy; at K 1.1 x.fetch y.fetch; at K 2.1 n\n",
    "at K 0.1 x.copy y.copy; at K 1.0 x.fetch y.fetch; at K 2.1 n\n",
    "at K 0.0 x.copy y.copy; at K 0.1 x.fetch y.fetch; at K 1.2 n\n",
    "at K 0.0 x.load y.load; at K 1.0 x.store y.store; at K 1.1 x.fetch y.fetch; at K 2.2 n\n",
    "at K 1.0 x.store y.store; at K 1.1 x.fetch y.fetch; at K 0.2 x.load y.load; at K 2.1 n\n",
    "at K 0.0 x.copy y.copy; at K 1.0 x.fetch; at K 3.0 y.fetch; at K 3.1 n\n",
    "at K 0.0 x.copy; at K 1.0 y.copy; at K 2.0 x.fetch; at K 3.1 y.fetch n; ring K x slots 5\n",
    "at K 1.0 x.copy y.copy; at K 1.1 x.fetch; at K 4.0 y.fetch n; boxes 0\n",
    /* the sum itself runs ahead */
    "at K 0.0 x.copy y.copy; at K 1.0 n; schedule K depth 4\n",
    "at K 0.0 x.copy y.copy; at K 1.0 x.fetch y.fetch; at K 2.0 n; schedule K depth 4; boxes 1\n",
};

static const char *const chain_rows[] = {
    "schedule K depth 3\n",
    "schedule K depth 2\n",
    "ring K y slots 4; ring K w slots 2\n",
    "ring K y slots 2; ring K w slots 4\n",
    "ring K y slots 3; ring K w slots 3; boxes 0\n",
    "at K 2.0 p; at K 2.1 n; schedule K depth 3\n", /* not early */
    "at K 0.0 w.copy; at K 1.0 y.copy; at K 2.1 n\n",
    "at K 1.0 p; at K 2.1 n; schedule K depth 3\n", /* early */
    "at K 1.0 p; at K 2.1 n; at K 1.0 y.copy\n",
    "at K 1.1 e; at K 2.0 n; schedule K depth 3\n",
    "at K 1.0 p; at K 2.0 h; at K 3.0 n\n",
    "at K 0.0 y.copy w.copy; at K 1.0 y.fetch; at K 2.2 p; at K 3.0 w.fetch; at K 4.1 n\n",
    "at K 0.0 y.copy; at K 0.1 p; at K 3.0 w.copy; at K 3.1 n; boxes 0\n",
};

/* ---- results ---- */

/* Loops of the kernel before lowering that are not proved to be in order. */
static int unproved(const char *text, const char *target) {
  Lab l = lab_open(text);
  PassOptions o = {.target = target, .stop_after = "sync", .verify_each = true};
  int wrong = l.k && passes_run(l.k, &o) ? 0 : 1;
  Facts facts = {0};
  if (!wrong) facts = facts_of(l.k, l.cx->arena, FACT_memory_uses | FACT_distribute);
  for (const Op *op = wrong ? NULL : ir_first(l.k); op; op = ir_next(op)) {
    if (op->kind != OP_for) continue;
    LoopProof p = loop_prove(l.cx->arena, facts.distribute, facts.memory_uses, op);
    wrong += p.findings.n + p.waiting.n;
  }
  if (wrong) lab_print_errors(&l), printf("not proved on %s:\n%s", target, text);
  lab_close(&l);
  return wrong;
}

/* ---- kernels ---- */

typedef struct Scheduled {
  const char *head, *body;
  const char *const *rows;
  int nrows, m, n; /* sizes */
} Scheduled;

static const Scheduled kernels[] = {
    {GEMM, BODY, rows, WV_LEN(rows), 32, 31},
    {GEMM_SHARED, BODY, rows, WV_LEN(rows), 63, 32},
    {CHAIN, CHAIN_BODY, chain_rows, WV_LEN(chain_rows), 64, 15},
};

enum { TILE = 16, TRIPS = 11, ROOM = 4096 };

static const Sample *sample_of(const Scheduled *s, const char *row, const char *sizes, char *text) {
  static Sample sample;
  snprintf(text, ROOM, "%s  %s\n%s%s", s->head, sizes, row, s->body);
  sample = (Sample){row, text, {{"M", s->m}, {"N", s->n}, {"K", TILE}, {"D", -TILE}}};
  return &sample;
}

/* More iterations than stages and slots together, at every `by`-th size. */
static int differs(const Scheduled *s, const char *row, const char *target, bool known, int by) {
  char text[ROOM], sizes[128] = "dynamic M, N, K; assume Eq(Mod(K, 8), 0)";
  int wrong = 0;
  for (int k = 0; k <= TRIPS * TILE && !wrong; k += by) {
    if (known)
      snprintf(sizes, sizeof sizes, "bind M = %d; bind N = %d; bind K = %d", s->m, s->n, k);
    const Sample *sample = sample_of(s, row, sizes, text);
    SampleSizes at = {{s->m, s->n, k, TILE}};
    wrong += !lane_agrees(sample, &at, target, k / by);
    if (k == 0 || (known && k == TRIPS * TILE)) wrong += unproved(text, target);
  }
  return wrong;
}

/* Each row on two of the machines; the last iteration is sometimes half. */
TEST(any_number_of_iterations) {
  for (size_t i = 0; i < WV_LEN(kernels); i++)
    for (int r = 0; r < kernels[i].nrows; r++)
      for (size_t t = (i + (size_t)r) % 2; t < WV_LEN(machines); t += 2)
        CHECK_INT(differs(&kernels[i], kernels[i].rows[r], machines[t], false, 24), 0);
}

TEST(known_numbers_of_iterations) {
  for (size_t i = 0; i < WV_LEN(kernels); i++)
    for (int r = 0; r < kernels[i].nrows; r++) {
      const char *target = machines[(i + (size_t)r) % WV_LEN(machines)];
      CHECK_INT(differs(&kernels[i], kernels[i].rows[r], target, true, TILE), 0);
    }
}

/* ---- text ---- */

/* The schedule of the kernel with the rows of a file; NULL: it is refused. From malloc. */
static char *printed(const char *text, const char *file, const char *target) {
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = NULL;
  char *out = NULL;
  bool ok = wv_parse(cx, "test.wave", text, &k, 1) == 1;
  if (ok && file) ok = wv_kernel_schedule(k, "test.schedule", file);
  if (ok) out = wv_schedule(k, target);
  wv_kernel_free(k);
  wv_ctx_free(cx);
  return out;
}

/* Drops the comments: the order of ops in one cycle is open, and predicted times may depend on it. */
static char *without_comments(char *text) {
  char *to = text;
  for (char *line = text; line && *line;) {
    size_t n = strcspn(line, "\n") + 1;
    if (*line != '#') memmove(to, line, n), to += n;
    line += n;
  }
  if (to) *to = '\0';
  return text;
}

/* A schedule that is printed and read again gives the same rows, whether it was written or solved. */
static int changes(const Scheduled *s, const char *row, const char *target) {
  char text[ROOM], plain[ROOM];
  sample_of(s, row, "bind M = 64; bind N = 32; bind K = 256", text);
  sample_of(s, "", "bind M = 64; bind N = 32; bind K = 256", plain);
  char *asked = printed(text, NULL, target);
  char *again = without_comments(asked ? printed(plain, asked, target) : NULL);
  without_comments(asked);
  int wrong = !asked || !again || strcmp(asked, again) != 0;
  if (wrong) printf("%s on %s\n%s\n%s", row, target, asked ? asked : "-", again ? again : "-");
  wv_free(asked);
  wv_free(again);
  return wrong;
}

TEST(files_are_the_same_rows) {
  for (size_t i = 0; i < WV_LEN(kernels); i++)
    for (int r = -1; r < kernels[i].nrows; r++)
      for (size_t t = 0; t < WV_LEN(machines); t++) {
        const char *row = r < 0 ? "" : kernels[i].rows[r];
        if (strstr(row, "boxes")) continue; /* a row that the file does not have */
        CHECK_INT(changes(&kernels[i], row, machines[t]), 0);
      }
}

/* ---- what is refused ---- */

static const struct {
  int kernel;
  const char *rows, *target, *why;
} refused[] = {
    {0, "schedule K depth 3; ring K x slots 2\n", "sm_80", "runs 2 iterations ahead"},
    {0, "schedule K depth 1; ring K x slots 2\n", "sm_80", "has one slot"},
    {0, "at K 1.0 x.copy; at K 0.0 n\n", "sm_80", "in stage 1, but its tile is read in stage 0"},
    {0, "at K 0.0 n; at K 0.1 x.fetch\n", "gfx942", "whose result it needs"},
    {0, "at K 0.0 x.load; at K 2.0 x.store; at K 2.0 n\n", "gfx942", "it can for one"},
    {0, "at K 1.0 x.load; at K 0.0 x.store; at K 1.0 n\n", "gfx942", "before it is loaded in"},
    {0, "at K 0.0 x.copy; at K 1.0 x.store; at K 1.0 n\n", "gfx942", "another row places"},
    {0, "at K 0.0 x.load; at K 1.2 x.store; at K 1.1 x.fetch\n", "gfx942", "after it is read"},
    {0, "at K 0.2 x.load; at K 0.1 x.store; at K 1.0 n\n", "gfx942", "before it is loaded in"},
    {0, "schedule K depth 64\n", "gfx942", "bytes of shared memory"},
    {0, "ring K x y slots 60\n", "gfx942", "bytes of shared memory"},
    {0, "ring K n slots 2\n", "sm_80", "nothing is copied to shared memory for `n`"},
    {0, "at K 0.1 x.copy; at K 0.0 x.fetch\n", "sm_80", "whose result it needs"},
    {0, "at K 1.0 x.fetch; at K 0.0 n; schedule K depth 3\n", "sm_80",
     "`n` needs its result in stage 0"},
    {0, "at K 1.0 x.copy; at K 0.0 x.fetch; at K 2.0 n\n", "sm_80", "is read in stage 0"},
    {0, "at K 0.1 x.copy; at K 0.0 x.fetch; at K 2.0 n\n", "sm_80",
     "is copied at cycle 1, after it"},
    {0, "at K 0.1 x.copy; at K 0.0 x.fetch; at K 2.0 n\n", "gfx942",
     "at cycle 1, after it is read"},
    {0, "at K 0.0 x.copy; at K 2.0 x.fetch; at K 3.0 n; ring K x slots 2\n", "sm_80",
     "3 iterations ahead"},
    {2, "at K 1.0 p; at K 2.1 n; at K 2.0 y.copy\n", "sm_90a", "is read in stage 1"},
    {2, "at K 1.0 p; at K 2.1 n y.fetch\n", "sm_80", "`p` needs its result in stage 1"},
    {2, "at K 1.1 p; at K 1.0 h; at K 2.1 n\n", "sm_80", "whose result it needs"},
};

TEST(what_cannot_be_obeyed_is_refused) {
  char text[ROOM];
  for (size_t i = 0; i < WV_LEN(refused); i++) {
    sample_of(&kernels[refused[i].kernel], refused[i].rows,
              "bind M = 64; bind N = 64; bind K = 256", text);
    Lab l = lab_open(text);
    PassOptions o = {.target = refused[i].target, .stop_after = "stages"};
    CHECK(l.k && !passes_run(l.k, &o));
    const Diag *last = l.cx->diags.last;
    bool found = last && last->code == DIAG_E0620 && strstr(last->text, refused[i].why);
    if (!found) printf("%s", refused[i].rows), lab_print_errors(&l);
    CHECK(found);
    lab_close(&l);
  }
}

/* A loop without copies, of a kind that cannot be pipelined, or in which others are. */
#define COLUMNS "  workgroup M by 64 on 0; tile K by 16; tile B by 1; hardware threads 64\n"

static const struct {
  const char *text, *why;
} other[] = {
    {"kernel @k(%a: mem<M, K, f32>, %c: mem<M, K, f32>)\n" COLUMNS
     "  bind M = 64; bind K = 64; schedule K depth 2\n"
     "{ for K {\n %x = read %a\n write %x, %c\n }\n }",
     "it copies nothing to shared memory"},
    {"kernel @k(%a: mem<M, K, f32, shared>, %c: mem<M, K, f32>)\n" COLUMNS
     "  bind M = 64; bind K = 64; ring K x slots 3\n"
     "{ for K {\n %x = read %a\n write %x, %a\n write %x, %c\n }\n }",
     "the loop writes to it"},
    {"kernel @k(%a: mem<B, M, K, f32, shared>, %c: mem<B, M, K, f32>)\n" COLUMNS
     "  bind M = 64; bind K = 64; bind B = 4; schedule B depth 2\n"
     "{ for B {\n for K {\n %x = read %a\n write %x, %c\n }\n }\n }",
     "or a loop in it does"},
};

TEST(loops_that_cannot_be_pipelined) {
  for (size_t i = 0; i < WV_LEN(other); i++) {
    Lab l = lab_open(other[i].text);
    PassOptions o = {.target = "sm_80", .stop_after = "stages"};
    CHECK(l.k && !passes_run(l.k, &o));
    const Diag *last = l.cx->diags.last;
    bool found = last && last->code == DIAG_E0620 && strstr(last->text, other[i].why);
    if (!found) printf("%s", other[i].text), lab_print_errors(&l);
    CHECK(found);
    lab_close(&l);
  }
}

/* ---- files that do not fit ---- */

static bool is_refused(const char *file, const char *code) {
  char text[ROOM];
  sample_of(&kernels[0], "", "bind M = 64; bind N = 32; bind K = 256", text);
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = NULL;
  wv_diag d;
  bool ok =
      wv_parse(cx, "test.wave", text, &k, 1) == 1 && !wv_kernel_schedule(k, "a.schedule", file);
  bool found = wv_diag_get(cx, wv_diag_count(cx) - 1, &d) && strcmp(d.code, code) == 0;
  if (!ok || !found) printf("%s: %s\n", file, found ? "accepted" : "another diagnostic");
  wv_kernel_free(k);
  wv_ctx_free(cx);
  return ok && found;
}

TEST(files_that_do_not_fit) {
  CHECK(is_refused("Initiation Interval: 3\nNumber of Stages: 3\nschedule K depth 4\n", "E0212"));
  CHECK(is_refused("Initiation Interval: 0\n", "E0511"));
  CHECK(is_refused("Initiation Interval: 3\n", "E0505"));
  CHECK(is_refused("Number of Steps: 3\n", "E0501"));
  CHECK(is_refused("stages 3\n", "E0505"));
  CHECK(is_refused("schedule K depth 3; ring K z slots 4\n", "E0217"));
  CHECK(is_refused("schedule L depth 3\n", "E0217"));
  CHECK(is_refused("schedule K depth 3 {\n", "E0501"));
  CHECK(is_refused("\x01", "E0502"));
  CHECK(is_refused("Cycle | GLOBAL_MEMORY_UNITS | SHARED_MEMORY_UNITS\n", "E0505"));
}

/* Also of things that are inserted before the same op. */
TEST(cycles_are_obeyed) {
  static const struct {
    const char *target, *rows;
  } asked[] = {
      {"gfx942", "at K 1.0 x.fetch y.fetch on gfx942\nat K 1.1 n.mma on gfx942\n"
                 "at K 0.2 x.load y.load on gfx942\nat K 0.3 x.store y.store on gfx942\n"},
      {"gfx942", "at K 0.0 y.load on gfx942\nat K 1.1 x.store y.store on gfx942\n"
                 "at K 0.2 x.load on gfx942\nat K 1.3 x.fetch y.fetch on gfx942\n"
                 "at K 1.4 n.mma on gfx942\n"},
      {"sm_80", "at K 2.0 x.fetch y.fetch on sm_80\nat K 0.1 y.copy on sm_80\n"
                "at K 1.2 x.copy on sm_80\nat K 2.3 n.mma on sm_80\n"},
      {"sm_90a",
       "at K 0.0 y.copy on sm_90a\nat K 1.1 x.copy on sm_90a\nat K 2.2 n.mma on sm_90a\n"},
  };
  char text[ROOM];
  for (size_t i = 0; i < WV_LEN(asked); i++) {
    int kernel = strcmp(asked[i].target, "sm_90a") == 0;
    sample_of(&kernels[kernel], "", "bind M = 64; bind N = 32; bind K = 256", text);
    char *out = printed(text, asked[i].rows, asked[i].target);
    if (!out || !strstr(out, asked[i].rows)) printf("%s%s", asked[i].rows, out ? out : "-\n");
    CHECK(out && strstr(out, asked[i].rows));
    wv_free(out);
  }
}

TEST(lines_give_what_the_row_leaves_out) {
  char text[ROOM];
  const char *file = "Number of Stages: 2\nschedule K on sm_80\n";
  sample_of(&kernels[0], "", "bind M = 64; bind N = 32; bind K = 256", text);
  char *out = printed(text, file, "sm_80");
  CHECK(out && strstr(out, "Number of Stages: 2\nschedule K on sm_80 interval 3 depth 2"));
  wv_free(out);
}

/* ---- the best ones ---- */

/* Their number, or -1; each of them can be applied. */
static int list_best(Harness *harness, const char *text, const char *target, int most) {
  char *texts[8] = {0};
  wv_ctx *cx = wv_ctx_new();
  wv_kernel *k = NULL;
  int n = wv_parse(cx, "test.wave", text, &k, 1) == 1 ? wv_schedules(k, target, most, texts) : -1;
  for (int i = 0; i < n; i++) {
    CHECK(strstr(texts[i], "Initiation Interval") != NULL);
    CHECK(wv_kernel_schedule(k, "best.schedule", texts[i]));
    wv_free(texts[i]);
  }
  wv_kernel_free(k);
  wv_ctx_free(cx);
  return n;
}

TEST(the_best_schedules) {
  char text[ROOM];
  sample_of(&kernels[0], "", "bind M = 64; bind N = 32; bind K = 256", text);
  for (size_t t = 0; t < WV_LEN(machines); t++) {
    CHECK_INT(list_best(harness, text, machines[t], 1), 1);
    CHECK(list_best(harness, text, machines[t], 8) >= 2);
  }
  CHECK_INT(list_best(harness, text, "cpu", 8), 0);    /* one thread runs a workgroup */
  CHECK_INT(list_best(harness, text, "gfx942", 0), 0); /* no room: nothing is written */
  CHECK_INT(list_best(harness, text, "gfx942", -1), -1);
  CHECK_INT(list_best(harness, text, "no machine", 1), -1);
  CHECK_INT(list_best(harness, text, NULL, 1), -1);
}

TESTS_MAIN(RUN(any_number_of_iterations) RUN(known_numbers_of_iterations)
               RUN(files_are_the_same_rows) RUN(what_cannot_be_obeyed_is_refused)
                   RUN(loops_that_cannot_be_pipelined) RUN(files_that_do_not_fit)
                       RUN(cycles_are_obeyed) RUN(lines_give_what_the_row_leaves_out)
                           RUN(the_best_schedules))
