/* fuzz_orders.c: two judges of the order in which a loop accesses memory agree.
 *
 *     fuzz_orders [--seed N] [--count N] [--seconds N]
 *
 * Kernels with a loop over K, random rows of a schedule and a random machine are compiled up to
 * `sync`. Then waits and barriers are dropped or made weaker. The proof (loop_proof.h) judges each
 * such program for any number of iterations, and the simulator runs of it with 0 to TRIPS. What is
 * proved must have no finding and the evaluator's results; what is not proved must have a finding in
 * some run. All of the latter run, and a share of the others.
 *
 * The proof is stricter in three ways, and such programs are counted: it does not know which elements
 * a wave accesses, so a barrier may be missing between accesses of one wave each; that loads end in
 * order, so what waits for one that ends in registers may wait for a direct copy, too; and, if the
 * number of iterations is known, which copies are past the last. The last
 * line is "N passed, M failed", of cases. */
#include <inttypes.h>

#include "analysis/analysis.h"
#include "fuzz/corpus.h"
#include "fuzz/settings.h"
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/schedule/schedule.h"
#include "schedule/loop_proof.h"
#include "unit/lane_kit.h"

enum { TILE = 16, TRIPS = 12, ROOM = 4096, MUTANTS = 12, SHARE = 8 };

/* ---- kernels ---- */

typedef struct Program {
  const char *name, *head, *body;
  const char *reads[4], *ops[6]; /* what rows may name */
  int m, n;                      /* tiles; sizes are these, or one less */
} Program;

#define SUMMED                                                                                     \
  "{\n  %z = fill 0.0 : tile<M, N, f32>\n"                                                         \
  "  %r = for K carry %acc = %z {\n"                                                               \
  "    %x = read %a\n    %y = read %b\n    %n = mma %x, %y, %acc\n    yield %n\n  }\n"             \
  "  write %r, %c\n}"

#define TWO_PRODUCTS                                                                               \
  "(%a: mem<M, D, f16, shared>, %b: mem<K, D, f16, shared>, %v: mem<N, K, f16, shared>,"           \
  " %c: mem<N, M, f32>)\n"                                                                         \
  "  workgroup M by 64 on 0; workgroup N by 16 on 1; tile K by 16\n"                               \
  "  wave M by 64; hardware threads 128; bind D = 16\n"

#define FIRST_PRODUCT                                                                              \
  "    %y = read %b\n    %x = read %a\n    %s = fill 0.0 : tile<K, M, f32>\n"                      \
  "    %p = mma %y, %x, %s\n"

#define SECOND_PRODUCT(value)                                                                      \
  "    %h = cast " value " : tile<K, M, f16>\n    %t = permute %h : tile<M, K, f16>\n"             \
  "    %w = read %v\n    %n = mma %w, %t, %acc\n"

static const Program programs[] = {
    {"gemm",
     "kernel @k(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"
     "  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 16\n"
     "  wave M by 16; wave N by 16; hardware threads 64, mma F32_16x16x16_F16\n",
     SUMMED,
     {"x", "y"},
     {"n"},
     32,
     32},
    {"gemm from shared memory",
     "kernel @k(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"
     "  workgroup M by 64 on 0; workgroup N by 32 on 1; tile K by 16\n"
     "  wave M by 64; wave N by 32; hardware threads 128\n",
     SUMMED,
     {"x", "y"},
     {"n"},
     64,
     32},
    {"one operand in registers",
     "kernel @k(%a: mem<M, K, f16>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)\n"
     "  workgroup M by 64 on 0; workgroup N by 32 on 1; tile K by 16\n"
     "  wave M by 32; wave N by 32; hardware threads 64\n",
     SUMMED,
     {"x", "y"},
     {"n"},
     64,
     32},
    {"two products",
     "kernel @k" TWO_PRODUCTS,
     "{\n  %z = fill 0.0 : tile<N, M, f32>\n  %r = for K carry %acc = %z {\n" FIRST_PRODUCT
     "    %e = abs %p\n" SECOND_PRODUCT("%e") "    yield %n\n  }\n  write %r, %c\n}",
     {"y", "x", "w"},
     {"p", "e", "h", "n"},
     64,
     16},
    {"attention",
     "kernel @k" TWO_PRODUCTS,
     "{\n  %z = fill 0.0 : tile<N, M, f32>\n  %lo = fill -1000.0 : tile<M, f32>\n"
     "  %r, %most = for K carry %acc = %z, %m = %lo {\n" FIRST_PRODUCT
     "    %g = max %p, %m {dim = K}\n    %gs = broadcast %g : tile<K, M, f32>\n"
     "    %e = sub %p, %gs\n" SECOND_PRODUCT("%e") "    yield %n, %g\n  }\n  write %r, %c\n}",
     {"y", "x", "w"},
     {"p", "g", "e", "n"},
     64,
     16},
    {"several rings",
     "kernel @k(%a: mem<M, K, f32, shared>, %b: mem<K, M, f32, shared>, %v: mem<M, K, f32, shared>,"
     " %c: mem<M, K, f32>)\n"
     "  workgroup M by 32 on 0; tile K by 16; wave M by 16\n"
     "  hardware threads 64, vector {M: 32, K: 16}\n",
     "{\n  for K {\n    %x = read %a\n    %y = read %b\n    %w = read %v\n"
     "    %t = permute %y : tile<M, K, f32>\n    %s = add %x, %t\n    %n = mul %s, %w\n"
     "    write %n, %c\n  }\n}",
     {"x", "y", "w"},
     {"s", "n"},
     32,
     32},
};

static const char *const machines[] = {"sm_90a", "sm_80", "gfx942", "gfx950", "gfx1250", "toy8"};

/* ---- rows ---- */

static const char *any(Random *r, const char *const *names, size_t most) {
  size_t n = 0;
  while (n < most && names[n]) n++;
  return names[below(r, n)];
}

static void draw_row(StrBuf *out, Random *r, const Program *p) {
  const char *read = any(r, p->reads, WV_LEN(p->reads)), *op = any(r, p->ops, WV_LEN(p->ops));
  int a = (int)below(r, 4), b = (int)below(r, 4), c = (int)below(r, 3);
  switch (below(r, 8)) {
  case 0:
  case 1: sb_printf(out, "  schedule K depth %d\n", 1 + a); break;
  case 2:
  case 3: sb_printf(out, "  ring K %s slots %d\n", read, 2 + a); break;
  case 4: sb_printf(out, "  at K %d.%d %s.copy\n", a, c, read); break;
  case 5: sb_printf(out, "  at K %d.%d %s.fetch\n", a, c, read); break;
  case 6: sb_printf(out, "  at K %d.%d %s\n", a, c, op); break;
  default: sb_printf(out, "  at K %d.0 %s.load; at K %d.%d %s.store\n", a, read, b, c, read); break;
  }
}

/* Sizes, and the order in which the simulator runs waves. */
typedef struct Run {
  int k;
  bool ragged; /* M and N */
  int schedule;
} Run;

typedef struct Case {
  uint64_t seed;
  const Program *p;
  const char *machine;
  bool known; /* sizes */
  Run run;    /* if they are known */
  char text[ROOM];
  Sample sample;
} Case;

static Run any_run(Random *r) {
  return (Run){(int)below(r, 2 * TRIPS) * TILE / 2, below(r, 2) != 0, (int)below(r, 3)};
}

static void draw_case(Case *c, Random *r) {
  Arena *a = arena_new();
  StrBuf text = {.arena = a};
  c->p = &programs[below(r, WV_LEN(programs))];
  c->machine = machines[below(r, WV_LEN(machines))];
  c->known = below(r, 3) == 0;
  c->run = any_run(r);
  sb_puts(&text, c->p->head);
  if (c->known)
    sb_printf(&text, "  bind M = %d; bind N = %d; bind K = %d\n", c->p->m - c->run.ragged,
              c->p->n - c->run.ragged, c->run.k);
  else sb_puts(&text, "  dynamic M, N, K; assume Eq(Mod(K, 8), 0)\n");
  if (below(r, 3) == 0) sb_printf(&text, "  boxes %d\n", (int)below(r, 2));
  for (size_t rows = below(r, 4); rows; rows--) draw_row(&text, r, c->p);
  sb_puts(&text, c->p->body);
  snprintf(c->text, sizeof c->text, "%s", sb_text(&text));
  c->sample =
      (Sample){c->p->name, c->text, {{"M", c->p->m}, {"N", c->p->n}, {"K", TILE}, {"D", -TILE}}};
  arena_free(a);
}

/* ---- faults ---- */

static bool is_before_loop(const Op *op) {
  for (; op; op = op->next)
    if (op->kind == OP_for) return true;
  return false;
}

/* A wait or barrier that the proof of a loop is about, or what a wait leaves in flight. */
static bool may_weaken(const Op *op) {
  const Op *outer = op->parent->owner;
  if (!(outer && outer->kind == OP_for) && !is_before_loop(op)) return false;
  return op->kind == OP_barrier || op->kind == OP_mbar_wait || op->kind == OP_async_wait ||
         op_has(op, ATTR_pending);
}

static Op *any_to_weaken(Kernel *k, Random *r) {
  Op *found = NULL;
  size_t seen = 0;
  for (Op *op = ir_first(k); op; op = ir_next(op))
    if (may_weaken(op) && below(r, ++seen) == 0) found = op;
  return found;
}

/* Drops the op, or leaves one more in flight; false: there is none. */
static bool weaken(Kernel *k, Random *r) {
  Op *op = any_to_weaken(k, r);
  if (!op) return false;
  if (op_has(op, ATTR_pending) && (op_is_product(op) || below(r, 2)))
    ((Attr *)op_attr(op, ATTR_pending))->integer++;
  else ir_remove(op);
  return true;
}

/* ---- judges ---- */

typedef enum Proof { PROVED, STRICT, UNPROVED } Proof;

/* By the waves themselves, each a part of the elements. */
static bool is_divided(const LoopAccess *x) {
  bool elected = x->begins[1] < 0 || x->how == TOUCH_ATOMIC;
  return !elected && !op_is_product(x->op);
}

static bool is_direct(const LoopAccess *x) {
  return x->op->kind == OP_copy && copy_goes_by(x->op, "direct");
}

/* Why the simulator may find nothing. */
static bool is_strict(const LoopPair *f) {
  return (f->other_wave && is_divided(f->first) && is_divided(f->second)) || is_direct(f->first) ||
         is_direct(f->second);
}

static Proof proof_of(Kernel *k) {
  Arena *a = arena_new();
  int findings = 0, strict = 0;
  ir_renumber(k);
  Facts facts = facts_of(k, a, FACT_memory_uses | FACT_distribute);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (op->kind != OP_for) continue;
    LoopProof p = loop_prove(a, facts.distribute, facts.memory_uses, op);
    findings += p.findings.n + p.waiting.n;
    for (int i = 0; i < p.findings.n; i++) strict += is_strict(&p.findings.at[i]);
  }
  arena_free(a);
  return !findings ? PROVED : strict == findings ? STRICT : UNPROVED;
}

typedef enum Verdict { RIGHT, FOUND, WRONG, REFUSED } Verdict;

static Verdict simulate(const Case *c, const Kernel *k, Run run) {
  SampleSizes sizes = {{c->p->m - run.ragged, c->p->n - run.ragged, run.k, TILE}};
  Lab before = sample_open(&c->sample, &sizes), after = sample_open(&c->sample, &sizes);
  kernel_free(after.k);
  after.k = kernel_clone_to(after.cx, k);
  ir_renumber(after.k);
  PassOptions rest = {.target = c->machine, .start_after = "sync"};
  SimReport report = {0};
  SimOptions o = {.machine = target_find(c->machine).machine, .seed = c->seed};
  o.schedule = (SimSchedule)run.schedule;
  Verdict v = REFUSED;
  for (int i = 0; i < after.nargs; i++) after.args[i].buffer = &after.tensors[i];
  if (passes_run(after.k, &rest)) {
    bool ran = sim_run(after.k, after.args, after.nargs, &o, &report);
    bool right = !report.findings && ran && lab_run(&before) && lab_equal(&before, &after);
    v = report.findings ? FOUND : right ? RIGHT : WRONG;
  }
  lab_close(&before);
  lab_close(&after);
  return v;
}

/* ---- one case ---- */

typedef struct Counts {
  int64_t passed, failed, refused, programs, proved, strict, runs;
} Counts;

static bool complain(const Case *c, const Kernel *k, const char *what, Run run) {
  Arena *a = arena_new();
  StrBuf text = {.arena = a};
  ir_print(&text, k);
  ir_renumber((Kernel *)k);
  Facts facts = facts_of((Kernel *)k, a, FACT_memory_uses | FACT_distribute);
  loop_proof_print(&text, facts.distribute, facts.memory_uses);
  printf("seed %" PRIu64 ", %s on %s, K = %d%s: %s\n%s\n--- after sync:\n%s---\n", c->seed,
         c->p->name, c->machine, run.k, run.ragged ? ", ragged" : "", what, c->text,
         sb_text(&text));
  arena_free(a);
  return false;
}

/* A proved program: one run. */
static bool check_proved(const Case *c, const Kernel *k, Random *r, Counts *n) {
  Run run = c->known ? c->run : any_run(r);
  Verdict v = simulate(c, k, run);
  n->runs++;
  if (v == FOUND) return complain(c, k, "proved, but the simulator has a finding", run);
  return v == RIGHT || v == REFUSED || complain(c, k, "proved, but the result is wrong", run);
}

/* A program that is not proved: runs, until one has a finding. The kernel may have other code for
 * whole tiles. */
static bool check_unproved(const Case *c, const Kernel *k, bool strict, Counts *n) {
  static const int trips[] = {3, 5, TRIPS, 1, 2, 4, 7};
  for (int i = 0; i < (c->known ? 1 : 2 * (int)WV_LEN(trips)); i++) {
    int ragged = i % 2, tiles = trips[i / 2];
    Run run = c->known ? c->run : (Run){tiles * TILE - ragged * TILE / 2, ragged, i % 3};
    n->runs++;
    if (simulate(c, k, run) != RIGHT) return true;
  }
  n->strict += strict;
  return strict || complain(c, k, "not proved, but no run has a finding", c->run);
}

static bool judge(const Case *c, Kernel *k, Random *r, bool run, Counts *n) {
  Proof p = proof_of(k);
  n->programs++;
  n->proved += p == PROVED;
  if (p != PROVED) return check_unproved(c, k, p == STRICT || c->known, n);
  return !run || check_proved(c, k, r, n);
}

static bool run_case(Case *c, Random *r, Counts *n) {
  Lab l = lab_open(c->text);
  PassOptions o = {.target = c->machine, .stop_after = "sync"};
  bool ok = true, compiled = l.k && schedule_check(l.k) && passes_run(l.k, &o);
  n->refused += !compiled;
  if (compiled) ok = judge(c, l.k, r, true, n);
  for (int i = 0; i < MUTANTS && compiled && ok; i++) {
    Kernel *k = kernel_clone(l.k);
    bool changed = weaken(k, r);
    if (changed && below(r, 4) == 0) weaken(k, r);
    if (changed) ok = judge(c, k, r, below(r, SHARE) == 0, n);
    kernel_free(k);
  }
  lab_close(&l);
  return ok;
}

/* ---- all cases ---- */

static int fuzz(const Settings *s) {
  Counts n = {0};
  double began = os_seconds();
  for (long i = 0; i < s->count && n.failed < 5; i++) {
    if (s->seconds > 0 && os_seconds() - began > s->seconds) break;
    Case c = {.seed = s->seed + (uint64_t)i};
    Random r = {c.seed * UINT64_C(1000003)};
    draw_case(&c, &r);
    bool ok = run_case(&c, &r, &n);
    n.passed += ok, n.failed += !ok;
  }
  printf("%" PRId64 " kernels refused; %" PRId64 " programs: %" PRId64
         " proved, of the others %" PRId64 " without a finding; %" PRId64 " runs\n",
         n.refused, n.programs, n.proved, n.strict, n.runs);
  printf("%" PRId64 " passed, %" PRId64 " failed\n", n.passed, n.failed);
  return n.failed != 0;
}

int main(int argc, char **argv) {
  Settings s = {.seed = 1, .count = 100};
  for (int i = 1; i + 1 < argc && take_setting(&s, argv[i], argv[i + 1]);) i += 2;
  return fuzz(&s);
}
