/* test_clone.c: a copy of a kernel in another context is the same kernel, and needs nothing from
 * the original's context.
 *
 *     test_clone [FOLDER...]     folders of kernels as text; without one: those of the tests
 *
 * Each kernel is checked as read, and lowered for machines of several kinds: tiles, layouts, lanes
 * and loops. */
#include "fuzz/corpus.h"
#include "ir/text/text.h"
#include "transform/pass_manager.h"
#include "unit/harness.h"

typedef struct Checked {
  int kernels, lowered;
} Checked;

static const char *printed(Arena *a, const Kernel *k) {
  StrBuf text = {.arena = a};
  ir_print(&text, k);
  return sb_text(&text);
}

static bool same_place(const Context *a, Span x, const Context *b, Span y) {
  return x.line == y.line && x.col == y.col && x.len == y.len &&
         strcmp(sources_name(&a->sources, x.file), sources_name(&b->sources, y.file)) == 0;
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

/* Properties that text does not carry: source locations, and names that the printer makes up. */
static bool same_op(const Context *a, const Op *x, const Context *b, const Op *y) {
  if (x->kind != y->kind || !same_place(a, x->at, b, y->at)) return false;
  for (int i = 0; i < x->nresults; i++)
    if (!same_text(x->results[i].name, y->results[i].name) ||
        x->results[i].varying != y->results[i].varying)
      return false;
  return true;
}

static bool same_header(const Kernel *a, const Kernel *b) {
  if (!same_place(a->cx, a->at, b->cx, b->at) || a->warned != b->warned) return false;
  for (int i = 0; i < a->params.n; i++)
    if (!same_place(a->cx, a->params.at[i].at, b->cx, b->params.at[i].at)) return false;
  for (int i = 0; i < a->constraints.n; i++)
    if (!same_place(a->cx, a->constraints.at[i].at, b->cx, b->constraints.at[i].at)) return false;
  return true;
}

static bool same_places(const Kernel *a, const Kernel *b) {
  const Op *x = ir_first(a), *y = ir_first(b);
  for (; x && y && same_op(a->cx, x, b->cx, y); x = ir_next(x), y = ir_next(y)) continue;
  return !x && !y && same_header(a, b);
}

/* The copy's kernel, read from its text, is equal to it: expressions are those that the context's
 * own constructors make. */
static void check_interned(Harness *harness, Kernel *copy, const char *text) {
  KernelList again = ir_parse(copy->cx, "<printed>", text, copy->cx->arena);
  CHECK_INT(again.n, 1);
  CHECK(again.n == 1 && ir_equal(copy, again.at[0]));
  for (int i = 0; i < again.n; i++) kernel_free(again.at[i]);
}

/* Consumes the original. Its context is freed before the copy is used. */
static void check_copy(Harness *harness, Kernel *k) {
  Arena *a = arena_new();
  Context *other = context_new(), *cx = k->cx;
  const char *text = printed(a, k);
  sources_file(&other->sources, "other.wave", ""); /* so that files have other numbers there */
  Kernel *near = kernel_clone(k), *copy = kernel_clone_to(other, k);
  CHECK(same_places(k, copy) && same_places(k, near));
  CHECK_STR(printed(a, k), text);
  kernel_free(k);
  CHECK_STR(printed(a, near), text);
  kernel_free(near);
  context_free(cx);
  CHECK_STR(printed(a, copy), text);
  CHECK(ir_verify_constraints(copy) && ir_verify(copy));
  check_interned(harness, copy, text);
  kernel_free(copy);
  context_free(other);
  arena_free(a);
}

/* Kernel number i of a text, alone in a context. */
static Kernel *parsed(const char *text, int i) {
  Context *cx = context_new();
  KernelList list = ir_parse(cx, "corpus.wave", text, cx->arena);
  Kernel *k = i < list.n ? list.at[i] : NULL;
  for (int j = 0; j < list.n; j++)
    if (j != i) kernel_free(list.at[j]);
  if (!k) context_free(cx);
  return k;
}

static void check_lowered(Harness *harness, const char *text, int i, Checked *done) {
  static const char *const targets[] = {"sm_90a", "gfx942", "cpu"};
  Kernel *k = parsed(text, i);
  PassOptions o = {.target = targets[done->kernels % (int)WV_LEN(targets)]};
  bool ok = k->level == LEVEL_TILE && passes_run(k, &o);
  Context *cx = k->cx;
  if (ok) return done->lowered++, check_copy(harness, k);
  kernel_free(k); /* the tests have kernels that cannot be lowered */
  context_free(cx);
}

static void check_text(Harness *harness, const char *text, Checked *done) {
  Kernel *k;
  for (int i = 0; (k = parsed(text, i)); i++) {
    check_copy(harness, k);
    check_lowered(harness, text, i, done);
    done->kernels++;
  }
}

int main(int argc, char **argv) {
  static const char *const folders[] = {"ir", "run", "ptx", "llvm", "../bench/kernels"};
  Harness h = {0};
  Corpus c = {.arena = arena_new()};
  Checked done = {0};
  for (int i = 1; i < argc; i++) add_folder(&c, argv[i]);
  if (argc < 2) add_tests(&c, __FILE__, folders, WV_LEN(folders));
  for (int i = 0; i < c.texts.n; i++) {
    h.failures_here = 0;
    check_text(&h, c.texts.at[i], &done);
    h.failures_here ? h.failed++ : h.passed++;
    if (h.failures_here) printf("in\n%s\n", c.texts.at[i]);
  }
  printf("%d kernels, %d of them lowered\n", done.kernels, done.lowered);
  if (done.kernels < c.texts.n / 2 || !done.lowered) h.failed++;
  arena_free(c.arena);
  printf("%d passed, %d failed\n", h.passed, h.failed);
  return h.failed != 0;
}
