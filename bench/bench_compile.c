/* bench_compile.c: the time from a traced kernel to one lane's program, pass by pass, and the
 * amount of work in its innermost loop.
 *
 *     bench_compile FOLDER [--rounds N] [--passes] [--kernel NAME] [--target NAME]
 *                   [--stop PASS]
 *
 * NAME of a kernel: its file, or a row (`gemm dynamic`).
 *
 * FOLDER holds gemm.wave and the others. The best of N rounds (default 20) is shown, each on a
 * fresh context: nothing is reused from the round before. Parsing the text is not counted, and the
 * kernel is verified once, after the last pass, as in a compile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_kernels.h"
#include "transform/pass_manager.h"

enum { MOST_PASSES = 64 };

typedef struct Case {
  const char *label, *file;
  double goal; /* ms */
  Binding bind[MOST_BINDINGS];
} Case;

static const Case cases[] = {
    {"gemm 4096", "gemm", 10, {{"M", 4096}, {"N", 4096}, {"K", 4096}}},
    {"gemm dynamic", "gemm", 10, {{0}}},
    {"attention 4096", "attention", 10, {{"B", 32}, {"M", 4096}, {"K2", 4096}}},
    {"attention dynamic", "attention", 15, {{0}}},
    {"convolution", "convolution", 10, {{"N", 8}, {"H", 58}, {"W", 58}, {"C", 64}, {"NF", 128}}},
    {"convolution dynamic", "convolution", 40, {{0}}},
    {"softmax", "softmax", 2, {{0}}},
};

static const char *const targets[] = {"gfx942", "sm_80", "sm_90a", "cpu"};

typedef struct Times {
  char names[MOST_PASSES][32];
  double ms[MOST_PASSES];
  int n; /* the last row is the total */
  bool ok;
  char why[160];
  int ops, inner, cost; /* of the whole program, and of its innermost loops */
} Times;

/* ---- one compile ---- */

static void take_times(void *user, const char *pass, const char *text) {
  Times *t = user;
  if (pass) return;
  for (t->n = 0; t->n < MOST_PASSES && *text; t->n++) {
    if (sscanf(text, "%31s %lf", t->names[t->n], &t->ms[t->n]) != 2) break;
    text += strcspn(text, "\n");
    text += *text == '\n';
  }
}

static bool holds_loop(const Region *r) {
  for (const Op *op = r->first; op; op = op->next)
    if (op->body && (op->kind != OP_if || holds_loop(op->body))) return true;
  return false;
}

static void count_region(Times *t, Kernel *k, Arena *a, const Region *r, bool inner) {
  const SymFacts *facts = facts_of(k, a, FACT_header).header;
  for (const Op *op = r->first; op; op = op->next) {
    const Attr *e = op->kind == OP_expr ? op_attr(op, ATTR_expr) : NULL;
    t->ops++;
    if (inner) t->inner++;
    const SymCode *code = inner && e ? sym_code(a, k->cx->sym, facts, &e->sym, 1) : NULL;
    if (code) t->cost += code->cost;
    bool loop = op->kind == OP_for || op->kind == OP_while;
    if (op->body) count_region(t, k, a, op->body, inner || (loop && !holds_loop(op->body)));
  }
}

static Times compile(const char *path, const Case *c, const char *target, const char *stop) {
  Context *cx = context_new();
  Kernel *k = load_kernel(cx, path, c->bind);
  Times t = {0};
  PassOptions o = {.target = target, .time = true, .write = take_times, .user = &t};
  o.stop_after = stop;
  t.ok = passes_run(k, &o) && k->level == LEVEL_THREAD;
  if (t.ok) count_region(&t, k, cx->arena, k->body, false);
  for (const Diag *d = cx->diags.first; !t.ok && d; d = d->next)
    if (diag_info[d->code].severity == SEVERITY_error && !t.why[0])
      snprintf(t.why, sizeof t.why, "%s", d->text);
  kernel_free(k);
  context_free(cx);
  return t;
}

/* ---- the table ---- */

static Times best_of(const char *path, const Case *c, const char *target, const char *stop,
                     int rounds) {
  Times best = compile(path, c, target, stop);
  for (int i = 1; best.ok && i < rounds; i++) {
    Times t = compile(path, c, target, stop);
    for (int p = 0; p < best.n; p++)
      if (t.ms[p] < best.ms[p]) best.ms[p] = t.ms[p];
  }
  return best;
}

static void print_row(const Case *c, const char *target, const Times *t, bool passes) {
  double total = 0;
  if (!t->ok) {
    printf("%-20s %-7s %s\n", c->label, target, t->why);
    return;
  }
  for (int p = 0; p + 1 < t->n; p++) total += t->ms[p];
  printf("%-20s %-7s %8.2f ms", c->label, target, total);
  printf("  goal %2.0f ms %s", c->goal, total < c->goal ? "ok    " : "MISSED");
  printf("  %5d ops, innermost %4d ops, index arithmetic %d\n", t->ops, t->inner, t->cost);
  for (int p = 0; passes && p + 1 < t->n; p++)
    if (t->ms[p] >= 0.01) printf("    %-14s %8.3f ms\n", t->names[p], t->ms[p]);
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "bench/kernels", *kernel = NULL, *only = NULL;
  const char *stop = NULL;
  int rounds = 20;
  bool passes = false;
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--passes") == 0) passes = true;
    else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) rounds = atoi(argv[++i]);
    else if (strcmp(argv[i], "--kernel") == 0 && i + 1 < argc) kernel = argv[++i];
    else if (strcmp(argv[i], "--target") == 0 && i + 1 < argc) only = argv[++i];
    else if (strcmp(argv[i], "--stop") == 0 && i + 1 < argc) stop = argv[++i];
    else return fprintf(stderr, "bench_compile: what is %s?\n", argv[i]), 2;
  }
  for (size_t c = 0; c < WV_LEN(cases); c++)
    for (size_t t = 0; t < WV_LEN(targets); t++) {
      char path[512];
      if (kernel && strcmp(kernel, cases[c].file) != 0 && strcmp(kernel, cases[c].label) != 0)
        continue;
      if (only && strcmp(only, targets[t]) != 0) continue;
      snprintf(path, sizeof path, "%s/%s.wave", folder, cases[c].file);
      Times best = best_of(path, &cases[c], targets[t], stop, rounds);
      print_row(&cases[c], targets[t], &best, passes);
    }
  return 0;
}
