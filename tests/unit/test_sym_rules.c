/* test_sym_rules.c: every group of tests/sym/(*).sym: expression, facts, expected simplified form.
 */
#include "base/os.h"
#include "harness.h"
#include "sym/sym.h"

typedef struct Reader {
  Arena *arena;
  char *at;
  int line;
} Reader;

/* The next line that is neither blank nor a comment; NULL at the end. */
static char *next_line(Reader *r) {
  while (*r->at) {
    char *line = r->at;
    size_t n = strcspn(line, "\n");
    r->at += n + (line[n] == '\n');
    r->line++;
    line[n] = 0;
    if (n && line[0] != '#') return line;
  }
  return NULL;
}

static const Sym *parse(SymCtx *cx, const char *text) {
  return sym_parse(cx, text, strlen(text), NULL);
}

static bool assume_all(SymCtx *cx, SymFacts *f, char *facts) {
  if (!strcmp(facts, "-")) return true;
  for (char *fact = strtok(facts, ";"); fact; fact = strtok(NULL, ";")) {
    const Sym *c = parse(cx, fact);
    if (!c || !sym_assume(f, c)) return false;
  }
  return true;
}

static void check_group(Harness *harness, Reader *r, const char *file, const char *expr,
                        char *facts, const char *want) {
  SymCtx *cx = sym_ctx_new();
  SymFacts *f = sym_facts_new(r->arena, cx, NULL);
  CHECK(assume_all(cx, f, facts));
  const Sym *s = parse(cx, expr), *w = parse(cx, want), *got = sym_simplify(cx, f, s);
  if (!s || !w || got != w || strcmp(sym_text(r->arena, got), want) != 0) {
    harness->failures_here++;
    printf("%s:%d: %s\n  became   %s\n  expected %s\n", file, r->line, expr,
           got ? sym_text(r->arena, got) : sym_error(cx), want);
  }
  sym_ctx_free(cx);
}

static void check_file(Harness *harness, const char *name, int least) {
  Arena *a = arena_new();
  const char *here = __FILE__, *unit = strstr(here, "unit/test_sym_rules.c");
  CHECK(unit != NULL);
  const char *path = arena_printf(a, "%.*ssym/%s.sym", unit ? (int)(unit - here) : 0, here, name);
  size_t len;
  Reader r = {.arena = a, .at = os_read_file(a, path, &len)};
  CHECK(r.at != NULL);
  int groups = 0;
  for (char *expr; r.at && (expr = next_line(&r)); groups++) {
    char *facts = next_line(&r), *want = next_line(&r);
    CHECK(facts && want);
    if (facts && want) check_group(harness, &r, path, expr, facts, want);
  }
  CHECK(groups >= least); /* a file that was not found or not read is a failure */
  arena_free(a);
}

TEST(divmod) { check_file(harness, "divmod", 30); }
TEST(logic) { check_file(harness, "logic", 25); }

TESTS_MAIN(RUN(divmod) RUN(logic))
