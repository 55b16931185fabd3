/* test_text.c: every kernel of tests/ir/roundtrip survives print and parse, and together they
 * contain every op, attribute, element type and header clause: the test fails if a table has a row
 * that no kernel uses. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>

#include "base/os.h"
#include "ir/text/text.h"
#include "unit/harness.h"

/* ---- the corpus ---- */

typedef struct Seen {
  bool op[OP_COUNT], attr[ATTR_COUNT], row[CONSTRAINT_COUNT], dtype[DTYPE_COUNT];
  unsigned clauses[CONSTRAINT_COUNT]; /* bit i: clause i of the row */
  int kernels;
} Seen;

static bool is_written(const Constraint *c, const Clause *cl) {
  static const char zeros[sizeof(Constraint)];
  static const size_t size[] = {
      [CLAUSE_DIM] = sizeof(Sym *),       [CLAUSE_EXPR] = sizeof(Sym *),
      [CLAUSE_INT] = sizeof(int),         [CLAUSE_FLAG] = sizeof(bool),
      [CLAUSE_THREE] = 3 * sizeof(Sym *), [CLAUSE_MMA] = sizeof(MmaChoice),
      [CLAUSE_PAIRS] = sizeof(SymPairs),  [CLAUSE_DIMS] = sizeof(SymPairs),
      [CLAUSE_COUNT] = sizeof(int),       [CLAUSE_WORD] = sizeof(char *),
      [CLAUSE_PLACE] = sizeof(Place),     [CLAUSE_OPS] = sizeof(OpNames),
      [CLAUSE_ROLES] = sizeof(Roles),
  };
  return memcmp(clause_field(c, cl), zeros, size[cl->kind]) != 0;
}

static void see(const Kernel *k, Seen *seen) {
  seen->kernels++;
  for (int i = 0; i < k->body->nargs; i++) seen->dtype[k->body->args[i]->type->dtype] = true;
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *c = &k->constraints.at[i];
    seen->row[c->kind] = true;
    Clauses all = constraint_clauses[c->kind];
    for (int j = 0; j < all.n; j++)
      if (is_written(c, &all.at[j])) seen->clauses[c->kind] |= 1u << j;
  }
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    seen->op[op->kind] = true;
    for (int i = 0; i < op->nattrs; i++) seen->attr[op->attrs[i].key] = true;
  }
}

static const char *printed(Context *cx, const Kernel *k) {
  StrBuf text = {.arena = cx->arena};
  ir_print(&text, k);
  return sb_text(&text);
}

static void check_round_trip(Harness *harness, Kernel *k) {
  const char *text = printed(k->cx, k);
  KernelList again = ir_parse(k->cx, "<printed>", text, k->cx->arena);
  CHECK_INT(again.n, 1);
  if (again.n != 1) return;
  CHECK(ir_equal(k, again.at[0]));
  CHECK_STR(printed(k->cx, again.at[0]), text);
  kernel_free(again.at[0]);
}

static void check_file(Harness *harness, const char *path, Seen *seen) {
  Context *cx = context_new();
  size_t len;
  const char *text = os_read_file(cx->arena, path, &len);
  CHECK(text);
  KernelList list = text ? ir_parse(cx, path, text, cx->arena) : (KernelList){0};
  CHECK_INT(cx->diags.errors, 0);
  CHECK(list.n > 0);
  for (int i = 0; i < list.n; i++) {
    see(list.at[i], seen);
    check_round_trip(harness, list.at[i]);
    kernel_free(list.at[i]);
  }
  context_free(cx);
}

/* The folder next to this file's own. */
static void corpus_folder(char *out, size_t cap) {
  snprintf(out, cap, "%s", __FILE__);
  char *end = strstr(out, "unit/test_text.c");
  if (end) snprintf(end, cap - (size_t)(end - out), "ir/roundtrip");
}

static void check_corpus(Harness *harness, Seen *seen) {
  char folder[4096], path[8192];
  corpus_folder(folder, sizeof folder);
  DIR *dir = opendir(folder);
  CHECK(dir);
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    if (!strstr(entry->d_name, ".wave")) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    check_file(harness, path, seen);
  }
  if (dir) closedir(dir);
}

static void missing(Harness *harness, bool seen, const char *what, const char *name) {
  if (seen) return;
  harness->failures_here++;
  printf("tests/ir/roundtrip has no %s `%s`\n", what, name);
}

TEST(every_row_of_the_tables) {
  Seen seen = {0};
  check_corpus(harness, &seen);
  CHECK(seen.kernels >= 12);
  for (int i = 0; i < OP_COUNT; i++) missing(harness, seen.op[i], "op", op_info[i].name);
  for (int i = 0; i < ATTR_COUNT; i++)
    missing(harness, seen.attr[i], "attribute", attr_info[i].name);
  for (int i = 0; i < CONSTRAINT_COUNT; i++)
    missing(harness, seen.row[i], "row", constraint_name[i]);
  for (int i = 0; i < DTYPE_COUNT; i++)
    missing(harness, seen.dtype[i], "dtype", dtype_info[i].name);
  for (int i = 0; i < CONSTRAINT_COUNT; i++)
    for (int j = 0; j < constraint_clauses[i].n; j++)
      missing(harness, seen.clauses[i] >> j & 1, constraint_name[i],
              constraint_clauses[i].at[j].word);
}

/* If a dimension or a symbol follows the keyword, it is the row's `subject`. */
TEST(subjects_come_first) {
  for (int i = 0; i < CONSTRAINT_COUNT; i++)
    EACH_CLAUSE(cl, i)
      if (cl->kind == CLAUSE_DIM && !*cl->word)
        CHECK_INT((int)cl->field, (int)offsetof(Constraint, subject));
}

/* ---- the specification ---- */

static void check_documented(Harness *harness, const char *text, const char *name) {
  char quoted[80];
  snprintf(quoted, sizeof quoted, "`%s`", name);
  if (strstr(text, quoted)) return;
  harness->failures_here++;
  printf("docs/ir.md does not mention `%s`\n", name);
}

TEST(specification_is_complete) {
  Arena *a = arena_new();
  char path[4096];
  size_t len;
  snprintf(path, sizeof path, "%s", __FILE__);
  char *end = strstr(path, "tests/unit/test_text.c");
  if (end) snprintf(end, sizeof path - (size_t)(end - path), "docs/ir.md");
  const char *text = os_read_file(a, path, &len);
  CHECK(text);
  for (int i = 0; text && i < OP_COUNT; i++) check_documented(harness, text, op_info[i].name);
  for (int i = 0; text && i < ATTR_COUNT; i++) check_documented(harness, text, attr_info[i].name);
  for (int i = 0; text && i < DTYPE_COUNT; i++) check_documented(harness, text, dtype_info[i].name);
  for (int i = 0; text && i < CONSTRAINT_COUNT; i++) {
    CHECK(strstr(text, arena_printf(a, "`%s ", constraint_name[i])));
    EACH_CLAUSE(cl, i) CHECK(strstr(text, cl->word));
  }
  arena_free(a);
}

/* ---- floats ---- */

static uint64_t bits_of(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

/* The value of `fill TEXT` in a kernel. */
static double read_back(Context *cx, const char *text) {
  const char *kernel = arena_printf(cx->arena,
                                    "kernel @k()\n workgroup M by 1 on 0; hardware threads 1\n"
                                    "{\n %%x = fill %s : tile<M, f64>\n}\n",
                                    text);
  KernelList list = ir_parse(cx, "<float>", kernel, cx->arena);
  double v = list.n == 1 ? op_attr(ir_first(list.at[0]), ATTR_value)->number : 0;
  for (int i = 0; i < list.n; i++) kernel_free(list.at[i]);
  return v;
}

TEST(floats_keep_their_bits) {
  Context *cx = context_new();
  uint64_t state = 1;
  for (int i = 0; i < 2000; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t bits = state ^ state >> 29;
    double v;
    memcpy(&v, &bits, sizeof v);
    StrBuf text = {.arena = cx->arena};
    text_float_print(&text, v);
    CHECK(strpbrk(sb_text(&text), ".einf"));
    CHECK(bits_of(read_back(cx, sb_text(&text))) == bits);
  }
  CHECK_INT(cx->diags.errors, 0);
  context_free(cx);
}

TEST(floats_look_like_floats) {
  static const struct {
    double v;
    const char *text;
  } rows[] = {{0.0, "0.0"},
              {-0.0, "-0.0"},
              {1.0, "1.0"},
              {1e-6, "1e-06"},
              {0.1, "0.1"},
              {1e300, "1e+300"},
              {123456789.0, "123456789.0"},
              {INFINITY, "inf"},
              {-INFINITY, "-inf"}};
  Arena *a = arena_new();
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    StrBuf text = {.arena = a};
    text_float_print(&text, rows[i].v);
    CHECK_STR(sb_text(&text), rows[i].text);
  }
  arena_free(a);
}

/* ---- names ---- */

/* Hints from a front end may be anything, and the same for many values. */
TEST(names_become_unique) {
  Context *cx = context_new();
  KernelList list = ir_parse(cx, "<names>",
                             "kernel @k(%x: f32)\n workgroup M by 1 on 0; hardware threads 1\n"
                             "{\n %a = neg %x\n %b = neg %a\n %c = neg %b\n %d = neg %c\n}\n",
                             cx->arena);
  CHECK_INT(list.n, 1);
  static const char *const hints[] = {"x", "x.1", "two words", "7up"};
  int i = 0;
  for (Op *op = ir_first(list.at[0]); op; op = op->next) op->results[0].name = hints[i++];
  const char *text = printed(cx, list.at[0]);
  CHECK(strstr(text, "%x.1 = neg %x : f32\n"));
  CHECK(strstr(text, "%x.1.1 = neg %x.1 : f32\n"));
  CHECK(strstr(text, "%two_words = neg %x.1.1 : f32\n"));
  CHECK(strstr(text, "%_7up = neg %two_words : f32\n"));
  check_round_trip(harness, list.at[0]);
  kernel_free(list.at[0]);
  context_free(cx);
}

/* ---- mistakes ---- */

static int errors_of(const char *text) {
  Context *cx = context_new();
  KernelList list = ir_parse(cx, "<mistake>", text, cx->arena);
  int errors = cx->diags.errors;
  for (int i = 0; i < list.n; i++) kernel_free(list.at[i]);
  StrBuf rendered = {.arena = cx->arena};
  diags_render(&cx->diags, &rendered);
  context_free(cx);
  return errors;
}

TEST(depth_is_limited) {
  Arena *a = arena_new();
  StrBuf text = {.arena = a};
  sb_puts(&text, "kernel @k()\n workgroup M by 1 on 0; hardware threads 1\n{\n");
  for (int i = 0; i < 100000; i++) sb_puts(&text, "if (N > 0) {\n");
  CHECK(errors_of(sb_text(&text)) > 0);
  text.n = 0;
  sb_puts(&text, "kernel @k()\n grid ");
  for (int i = 0; i < 100000; i++) sb_putc(&text, '(');
  CHECK(errors_of(sb_text(&text)) > 0);
  arena_free(a);
}

TEST(errors_are_limited) {
  Arena *a = arena_new();
  StrBuf text = {.arena = a};
  sb_puts(&text, "kernel @k()\n{\n");
  for (int i = 0; i < 10000; i++) sb_puts(&text, "%x = nonsense\n");
  int errors = errors_of(sb_text(&text));
  CHECK(errors > 10 && errors < 100);
  arena_free(a);
}

TEST(many_errors_are_reported) {
  CHECK_INT(errors_of("kernel @k(%a: mem<M, f32>)\n workgroup M by 1 on 0; hardware threads 1\n"
                      "{\n %x = raed %a\n %y = read %b\n write %x, %a\n %z = add %y, %y\n}\n"),
            2);
}

TESTS_MAIN(RUN(every_row_of_the_tables) RUN(subjects_come_first) RUN(specification_is_complete)
               RUN(floats_keep_their_bits) RUN(floats_look_like_floats) RUN(names_become_unique)
                   RUN(depth_is_limited) RUN(errors_are_limited) RUN(many_errors_are_reported))
