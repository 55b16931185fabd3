/* fuzz_parse.c: no text crashes the parser, and every kernel that parses is valid.
 *
 *     fuzz_parse [--seed N] [--count N] [--seconds N] [FILE.wave...]
 *     fuzz_parse SEED COUNT
 *
 * Cases are mutations of a corpus (the files, or tests/ir and tests/run) and random sequences of
 * tokens. Whatever parses must print to text that parses to an equal kernel and prints the same,
 * pass the verifier, survive all passes, and still round-trip afterwards; so must a copy of it in
 * another context. A case that fails is
 * printed with its number; the same seed and number make it again. The last line is
 * "N passed, M failed". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/corpus.h"
#include "fuzz/settings.h"
#include "ir/ir.h"
#include "transform/pass_manager.h"

/* ---- mutations ---- */

/* clang-format off */
static const char *const words[] = {
    "kernel", "thread", "@k", "%a", "%x", "%0", "%", "%% 7", "{", "}", "(", ")", "[", "]", "<", ">",
    ",", ";", ":", "=", "->", "\n", "\t", "#", "\"", "\"t\"", "\\", "`", "`s`", "//", "\xff", "-",
    "M", "K", "N", "K/2", "K.2", "$index0", "$WG0", "signed(J)", "Mod(K, 3)", "M < N", "M**-2",
    "floor(M/3)", "1/0", "Piecewise((1, M > 0), (2, True))", "9999999999999999999999",
    "0", "1", "64", "0.0", "1e9", "inf", "nan",
    "tile", "mem", "token", "f32", "f16", "i32", "i1", "index", "shared", "space", "layout", "_",
    "varying", "tile<M, K, f16>", "mem<M, K, f16>", "binds",
    "workgroup", "wave", "hardware", "grid", "assume", "bind", "dynamic", "alias", "iterators",
    "reorder", "device", "by", "on", "from", "iters", "start", "counter", "id", "secondary",
    "threads", "waves", "mma", "dot", "vector", "to", "of",
    "for", "while", "if", "yield", "carry", "cond", "as", "step", "with",
    "read", "write", "add", "fill", "scalar", "sum", "topk", "set_symbol",
    "map", "mapping", "bounds", "ept", "tag", "dim"};
/* clang-format on */

static const char *random_word(Random *r) { return words[below(r, WV_LEN(words))]; }

static void token_soup(Random *r, StrBuf *out) {
  bool framed = below(r, 2);
  if (framed)
    sb_puts(out,
            "kernel @k(%a: mem<M, K, f32>)\n workgroup M by 64 on 0; hardware threads 64\n{\n");
  for (size_t n = below(r, 60); n; n--) sb_printf(out, "%s ", random_word(r));
  if (framed && below(r, 2)) sb_puts(out, "\n}\n");
}

static size_t word_length(const char *at) {
  size_t n = strcspn(at, " \t\n,;:(){}<>[]=");
  return n ? n : 1;
}

/* One change at `at`: what is removed, and what is inserted. */
static void change_at(Random *r, const Corpus *c, const char *text, size_t at, StrBuf *out) {
  size_t len = strlen(text), rest = len - at;
  const char *here = text + at;
  size_t word = rest ? word_length(here) : 0,
         line = strcspn(here, "\n") + (strchr(here, '\n') != NULL);
  const char *other = c->texts.at[below(r, (size_t)c->texts.n)];
  switch (below(r, 9)) {
  case 0: sb_putc(out, (char)(1 + below(r, 255))), here += rest > 0; break;
  case 1: here += rest > 0; break;
  case 2: sb_puts(out, random_word(r)); break;
  case 3: sb_puts(out, random_word(r)), here += word; break;
  case 4: here += word; break;
  case 5: here += line; break;
  case 6: sb_write(out, here, line); break;
  case 7: here += below(r, rest + 1); break;
  default: here = other + below(r, strlen(other) + 1); break;
  }
  sb_puts(out, here);
}

static void mutate(Random *r, const Corpus *c, StrBuf *out) {
  const char *text = c->texts.at[below(r, (size_t)c->texts.n)];
  for (size_t n = below(r, 4); n; n--) {
    StrBuf changed = {.arena = out->arena};
    size_t at = below(r, strlen(text) + 1);
    sb_write(&changed, text, at);
    change_at(r, c, text, at, &changed);
    text = sb_text(&changed);
  }
  sb_puts(out, text);
}

/* ---- one case ---- */

typedef struct Case {
  Context *cx;
  const char *text;
  const char *problem; /* NULL: none */
} Case;

static const char *printed(Case *c, const Kernel *k) {
  StrBuf text = {.arena = c->cx->arena};
  ir_print(&text, k);
  return sb_text(&text);
}

static void check_round_trip(Case *c, Kernel *k, const char *when) {
  const char *text = printed(c, k);
  KernelList again = ir_parse(c->cx, "<printed>", text, c->cx->arena);
  const char *wrong = NULL;
  if (again.n != 1) wrong = "the printed kernel does not parse";
  else if (!ir_equal(k, again.at[0])) wrong = "the printed kernel is another one";
  else if (strcmp(printed(c, again.at[0]), text) != 0) wrong = "it prints differently again";
  for (int i = 0; i < again.n; i++) kernel_free(again.at[i]);
  if (!wrong) return;
  StrBuf diags = {.arena = c->cx->arena};
  diags_render(&c->cx->diags, &diags);
  c->problem = arena_printf(c->cx->arena, "%s %s:\n%s%s", wrong, when, text, sb_text(&diags));
}

/* A copy in another context prints the same. */
static void check_clone(Case *c, Kernel *k, const char *when) {
  Context *other = context_new();
  Kernel *copy = kernel_clone_to(other, k);
  const char *text = printed(c, k), *copied = printed(c, copy);
  if (strcmp(text, copied) != 0)
    c->problem =
        arena_printf(c->cx->arena, "a copy prints differently %s:\n%s%s", when, text, copied);
  kernel_free(copy);
  context_free(other);
}

/* A pass may reject a kernel (a bound value makes an expression overflow), but never break it. */
static void check_passes(Case *c, Kernel *k) {
  PassOptions o = {.verify_each = true};
  bool ok = passes_run(k, &o);
  for (const Diag *d = c->cx->diags.first; d; d = d->next)
    if (d->code == DIAG_I0001) {
      StrBuf text = {.arena = c->cx->arena};
      diags_render(&c->cx->diags, &text);
      c->problem = sb_text(&text);
      return;
    }
  if (ok) check_round_trip(c, k, "after the passes");
  if (ok && !c->problem) check_clone(c, k, "after the passes");
}

static void check_kernel(Case *c, Kernel *k) {
  if (!ir_verify(k)) c->problem = "a parsed kernel is invalid";
  if (!c->problem) check_round_trip(c, k, "as read");
  if (!c->problem) check_clone(c, k, "as read");
  if (!c->problem) check_passes(c, k);
}

static void run_case(Case *c, int *parsed) {
  KernelList list = ir_parse(c->cx, "<case>", c->text, c->cx->arena);
  if (!list.n && !c->cx->diags.errors && strspn(c->text, " \t\n\r\f\v") != strlen(c->text) &&
      c->text[strspn(c->text, " \t\n\r\f\v")] != '#')
    c->problem = "no kernel and no diagnostic";
  *parsed += list.n > 0;
  StrBuf rendered = {.arena = c->cx->arena};
  diags_render(&c->cx->diags, &rendered);
  for (int i = 0; i < list.n; i++) {
    if (!c->problem) check_kernel(c, list.at[i]);
    kernel_free(list.at[i]);
  }
}

/* ---- all cases ---- */

static int fuzz(const Settings *s, const Corpus *corpus) {
  int failed = 0, passed = 0, parsed = 0;
  double began = os_seconds();
  for (long n = 0; n < s->count && failed < 10; n++) {
    if (s->seconds > 0 && os_seconds() - began > s->seconds) break;
    Random r = {s->seed * UINT64_C(1000003) + (uint64_t)n};
    Context *cx = context_new();
    StrBuf text = {.arena = cx->arena};
    if (corpus->texts.n && below(&r, 5)) mutate(&r, corpus, &text);
    else token_soup(&r, &text);
    Case c = {.cx = cx, .text = sb_text(&text)};
    double start = cpu_seconds();
    run_case(&c, &parsed);
    if (!c.problem && cpu_seconds() - start > 10) c.problem = "it takes more than ten seconds";
    if (c.problem)
      printf("seed %llu, case %ld: %s\n--- the text:\n%s\n---\n", (unsigned long long)s->seed, n,
             c.problem, c.text);
    failed += c.problem != NULL;
    passed += c.problem == NULL;
    context_free(cx);
  }
  printf("%d of %d cases were kernels\n%d passed, %d failed\n", parsed, passed + failed, passed,
         failed);
  return failed != 0;
}

/* Settings, two bare numbers for seed and count, the rest are files. */
int main(int argc, char **argv) {
  Settings s = {.seed = 1, .count = 2000};
  Corpus corpus = {.arena = arena_new()};
  int numbers = 0;
  for (int i = 1; i < argc; i++) {
    char *end;
    unsigned long long number = strtoull(argv[i], &end, 10);
    if (i + 1 < argc && take_setting(&s, argv[i], argv[i + 1])) i++;
    else if (*end || numbers == 2) add_file(&corpus, argv[i]);
    else if (numbers++ == 0) s.seed = number;
    else s.count = (long)number;
  }
  static const char *const folders[] = {"ir", "run", "diag"};
  if (!corpus.texts.n) add_tests(&corpus, __FILE__, folders, WV_LEN(folders));
  int status = fuzz(&s, &corpus);
  arena_free(corpus.arena);
  return status;
}
