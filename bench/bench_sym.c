/* bench_sym.c: the time to build and simplify a file of expressions, and the size of the results.
 *
 *     bench_sym EXPRESSIONS FACTS [--print OUT] [--rounds N]
 *
 * One expression, one fact per line. "warm" is one pass over the file in one fresh context, the way
 * a compile uses it; "cold" makes a new context and its facts for every expression (creating the
 * context and the facts is not timed). The best of N rounds is reported (default 10). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/vec.h"
#include "sym/sym.h"

typedef struct Line {
  const char *text;
  size_t n;
} Line;

typedef Vec(Line) Lines;

typedef struct Times {
  double parse, simplify, worst;
  size_t chars_in, chars_out, nodes_in, nodes_out;
} Times;

static Lines read_lines(Arena *a, const char *path) {
  Lines lines = {0};
  size_t len;
  char *text = os_read_file(a, path, &len);
  if (!text) {
    fprintf(stderr, "bench_sym: cannot read %s\n", path);
    exit(2);
  }
  for (char *at = text; *at;) {
    size_t n = strcspn(at, "\n");
    if (n) vec_push(a, &lines, ((Line){at, n}));
    at += n + (at[n] == '\n');
  }
  return lines;
}

static const Sym *parse(SymCtx *cx, Line line) {
  const Sym *s = sym_parse(cx, line.text, line.n, NULL);
  if (s) return s;
  fprintf(stderr, "bench_sym: %s in %.*s\n", sym_error(cx), (int)line.n, line.text);
  exit(1);
}

static SymFacts *make_facts(Arena *a, SymCtx *cx, const Lines *facts) {
  SymFacts *f = sym_facts_new(a, cx, NULL);
  for (int i = 0; i < facts->n; i++) sym_assume(f, parse(cx, facts->at[i]));
  return f;
}

static void measure(SymCtx *cx, const SymFacts *f, Line line, Times *t, FILE *out) {
  double start = os_seconds();
  const Sym *s = parse(cx, line);
  double parsed = os_seconds();
  const Sym *r = sym_simplify(cx, f, s);
  double end = os_seconds();
  t->parse += parsed - start;
  t->simplify += end - parsed;
  if (end - start > t->worst) t->worst = end - start;
  Arena *a = arena_new();
  const char *text = sym_text(a, r);
  t->chars_in += line.n;
  t->chars_out += strlen(text);
  t->nodes_in += sym_size(s);
  t->nodes_out += sym_size(r);
  if (out) fprintf(out, "%s\n", text);
  arena_free(a);
}

static Times warm(const Lines *exprs, const Lines *facts, FILE *out) {
  Times t = {0};
  Arena *a = arena_new();
  SymCtx *cx = sym_ctx_new();
  SymFacts *f = make_facts(a, cx, facts);
  for (int i = 0; i < exprs->n; i++) measure(cx, f, exprs->at[i], &t, out);
  sym_ctx_free(cx);
  arena_free(a);
  return t;
}

static Times cold(const Lines *exprs, const Lines *facts) {
  Times t = {0};
  for (int i = 0; i < exprs->n; i++) {
    Arena *a = arena_new();
    SymCtx *cx = sym_ctx_new();
    measure(cx, make_facts(a, cx, facts), exprs->at[i], &t, NULL);
    sym_ctx_free(cx);
    arena_free(a);
  }
  return t;
}

static void report(const char *name, const Times *t, int n) {
  double us = 1e6 / n;
  printf("%s: mean %.2f us (parse %.2f, simplify %.2f), worst %.1f us\n", name,
         (t->parse + t->simplify) * us, t->parse * us, t->simplify * us, t->worst * 1e6);
}

static void keep_best(Times *best, Times t) {
  if (!best->chars_in || t.parse + t.simplify < best->parse + best->simplify) *best = t;
}

int main(int argc, char **argv) {
  const char *print = NULL;
  int rounds = 10;
  for (int i = 3; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--print")) print = argv[i + 1];
    if (!strcmp(argv[i], "--rounds")) rounds = atoi(argv[i + 1]);
  }
  if (argc < 3) {
    fprintf(stderr, "usage: bench_sym EXPRESSIONS FACTS [--print OUT] [--rounds N]\n");
    return 2;
  }
  Arena *a = arena_new();
  Lines exprs = read_lines(a, argv[1]), facts = read_lines(a, argv[2]);
  FILE *out = print ? fopen(print, "w") : NULL;
  if (out) warm(&exprs, &facts, out), fclose(out);
  Times w = {0}, c = {0};
  for (int i = 0; i < rounds; i++)
    keep_best(&w, warm(&exprs, &facts, NULL)), keep_best(&c, cold(&exprs, &facts));
  printf("%d expressions, %d facts, best of %d rounds\n", exprs.n, facts.n, rounds);
  report("warm", &w, exprs.n);
  report("cold", &c, exprs.n);
  printf("characters: %zu -> %zu, nodes: %zu -> %zu\n", w.chars_in, w.chars_out, w.nodes_in,
         w.nodes_out);
  arena_free(a);
  return 0;
}
