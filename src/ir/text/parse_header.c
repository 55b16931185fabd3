/* parse_header.c: the rows between a kernel's parameters and its body (constraints.def). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ir/schedule/schedule.h"
#include "ir/text/parse.h"

static const char *const *clause_words(Parser *p, ConstraintKind row, int *n) {
  const char **words = ARENA_ARRAY(p->scratch, const char *, constraint_clauses[row].n);
  *n = 0;
  EACH_CLAUSE(cl, row)
    if (*cl->word) words[(*n)++] = cl->word;
  return words;
}

static const Clause *find_clause(ConstraintKind row, const char *word) {
  EACH_CLAUSE(cl, row)
    if (strcmp(cl->word, word) == 0) return cl;
  return NULL;
}

static bool at_row_end(const Parser *p) {
  return p->tok.first || p->tok.kind == TOK_end || parse_at_punct(p, ';') || parse_at_punct(p, '{');
}

static bool parse_three(Parser *p, const Sym **out) {
  if (!parse_expect(p, '(', NULL)) return false;
  for (int i = 0; i < 3; i++) {
    bool more = i == 0 || parse_accept(p, ',');
    out[i] = more ? parse_expr(p) : sym_int(p->cx->sym, 1);
    if (!out[i]) return false;
  }
  return parse_expect(p, ')', "after three numbers");
}

static const char *int_name(Parser *p, const Constraint *c, const Clause *cl) {
  const char *word = *cl->word ? cl->word : constraint_name[c->kind];
  return arena_printf(p->scratch, "the number after `%s`", word);
}

/* A name that is not a word is written as a string. */
static bool parse_name(Parser *p, const char *what, const char **out) {
  bool named = p->tok.kind == TOK_word || p->tok.kind == TOK_string;
  if (!named || at_row_end(p)) return parse_fail_expected(p, what);
  *out = p->tok.text;
  parse_advance(p);
  return true;
}

/* `2.0` is a number of its own for the lexer. */
static bool parse_place(Parser *p, Place *out) {
  char *end = NULL;
  errno = 0;
  long stage = p->tok.kind == TOK_float ? strtol(p->tok.at, &end, 10) : 0;
  long cycle = end && *end == '.' ? strtol(end + 1, &end, 10) : 0;
  if (p->tok.kind != TOK_float || end != p->tok.at + p->tok.len)
    return parse_fail_expected(p, "STAGE.CYCLE, such as `2.0`");
  if (errno == ERANGE || stage > PLACE_MOST || cycle > PLACE_MOST)
    return diag_fail(&p->cx->diags, DIAG_E0511, p->tok.span,
                     "stages and cycles must be between 0 and %d, found %.*s", PLACE_MOST,
                     (int)p->tok.len, p->tok.at);
  *out = (Place){(int)stage, (int)cycle};
  parse_advance(p);
  return true;
}

/* `1/3`: a number below the one after the stroke. */
static bool parse_ratio(Parser *p, StrBuf *out) {
  int64_t at, of;
  Token first = p->tok;
  if (!parse_expect_int(p, 0, SCHEDULE_PARTS - 1, "the number of a part", &at) ||
      !parse_expect(p, '/', "between a number and how many there are") ||
      !parse_expect_int(p, 1, SCHEDULE_PARTS, "how many there are", &of))
    return false;
  if (at >= of)
    return diag_fail(&p->cx->diags, DIAG_E0511, parse_span_from(p, first.span),
                     "the parts of %d are 0 to %d, found %d", (int)of, (int)of - 1, (int)at);
  sb_printf(out, "%d/%d", (int)at, (int)of);
  return true;
}

/* `[1/3, K 0/2]`: which of the ops, and which part of it along each dimension. */
static bool parse_selection(Parser *p, const char **name) {
  StrBuf out = {.arena = p->scratch};
  int parts = 0;
  sb_printf(&out, "%s[", *name);
  parse_advance(p);
  do {
    if (parts) sb_puts(&out, ", ");
    if (parts++ > NAME_PARTS)
      return diag_fail(&p->cx->diags, DIAG_E0511, p->tok.span,
                       "an op has parts along at most %d dimensions", NAME_PARTS);
    if (p->tok.kind == TOK_word) {
      sb_printf(&out, "%s ", p->tok.text);
      parse_advance(p);
    }
    if (!parse_ratio(p, &out)) return false;
  } while (parse_accept(p, ','));
  sb_putc(&out, ']');
  *name = sb_text(&out);
  return parse_expect(p, ']', "after the part of an op");
}

static bool at_selection(const Parser *p) {
  return parse_at_punct(p, '[') && p->tok.at == p->last.at + p->last.len;
}

static bool at_clause(const Parser *p, ConstraintKind row) {
  return p->tok.kind == TOK_word && find_clause(row, p->tok.text);
}

static bool parse_names(Parser *p, ConstraintKind row, OpNames *out) {
  Vec(const char *) names = {0};
  do {
    const char *name = NULL;
    if (at_clause(p, row) && !at_row_end(p)) return parse_fail_expected(p, "the name of an op");
    if (!parse_name(p, "the name of an op", &name)) return false;
    if (at_selection(p) && !parse_selection(p, &name)) return false;
    vec_push(p->scratch, &names, name);
  } while (!at_row_end(p) && !at_clause(p, row));
  *out = (OpNames){names.at, names.n};
  return true;
}

/* `load 4 x 24, math 8 x 240`: groups of waves, with registers of a thread. */
static bool parse_roles(Parser *p, Roles *out) {
  Vec(Role) roles = {0};
  int64_t waves, registers = 0;
  do {
    Role role = {0};
    if (!parse_name(p, "the name of a role", &role.name)) return false;
    if (!parse_expect_int(p, 1, INT32_MAX, "a number of waves", &waves)) return false;
    bool budget = p->tok.kind == TOK_word && strcmp(p->tok.text, "x") == 0 && !at_row_end(p);
    if (budget) parse_advance(p);
    if (budget && !parse_expect_int(p, 1, INT32_MAX, "a number of registers", &registers))
      return false;
    role.waves = (int)waves, role.registers = budget ? (int)registers : 0;
    vec_push(p->scratch, &roles, role);
  } while (parse_accept(p, ','));
  *out = (Roles){roles.at, roles.n};
  return true;
}

static const char *word_name(const Constraint *c, const Clause *cl) {
  if (*cl->word) return "a name";
  return clause_field(c, cl) == (const void *)&c->scheduled.loop ? "the name of a loop"
                                                                 : "the name of a role";
}

static bool parse_clause_value(Parser *p, Constraint *c, const Clause *cl) {
  void *field = clause_field(c, cl);
  int64_t v;
  switch (cl->kind) {
  case CLAUSE_DIM:
  case CLAUSE_EXPR: return (*(const Sym **)field = parse_expr(p)) != NULL;
  case CLAUSE_INT:
    if (!parse_expect_int(p, 0, INT32_MAX, int_name(p, c, cl), &v)) return false;
    *(int *)field = (int)v;
    return true;
  case CLAUSE_COUNT:
    if (!parse_expect_int(p, 1, INT32_MAX, int_name(p, c, cl), &v)) return false;
    *(int *)field = (int)v;
    return true;
  case CLAUSE_FLAG: return *(bool *)field = true;
  case CLAUSE_THREE: return parse_three(p, field);
  case CLAUSE_MMA: return parse_mma(p, field);
  case CLAUSE_PAIRS:
  case CLAUSE_DIMS: return parse_pairs(p, field);
  case CLAUSE_WORD: return parse_name(p, word_name(c, cl), field);
  case CLAUSE_PLACE: return parse_place(p, field);
  case CLAUSE_OPS: return parse_names(p, c->kind, field);
  case CLAUSE_ROLES: return parse_roles(p, field);
  }
  return false;
}

/* The clause that begins here: a word of this row, or `=`. */
static const Clause *take_clause(Parser *p, ConstraintKind row) {
  const Clause *cl = NULL;
  if (p->tok.kind == TOK_word) cl = find_clause(row, p->tok.text);
  else if (parse_at_punct(p, '=')) cl = find_clause(row, "=");
  if (cl) parse_advance(p);
  return cl;
}

static bool fail_clause(Parser *p, ConstraintKind row) {
  int n;
  const char *const *words = clause_words(p, row, &n);
  if (p->tok.kind != TOK_word || n == 0) return parse_fail_expected(p, "`;`, a new line or `{`");
  const char *what = arena_printf(p->scratch, "part of a `%s` row:", constraint_name[row]);
  return parse_fail_unknown(p, DIAG_E0505, &p->tok, what, words, n);
}

static bool fail_repeated(Parser *p, const char *word) {
  return diag_fail(&p->cx->diags, DIAG_E0508, p->last.span, "`%s` is given twice", word);
}

/* Bit i of a set of clauses is clause i of the row. */
static unsigned clause_bit(const Constraint *c, const Clause *cl) {
  return 1u << (cl - constraint_clauses[c->kind].at);
}

static bool check_complete(Parser *p, const Constraint *c, unsigned seen) {
  EACH_CLAUSE(cl, c->kind) {
    if (!cl->must || seen & clause_bit(c, cl)) continue;
    return diag_fail(&p->cx->diags, DIAG_E0505, c->at, "a `%s` row needs `%s`",
                     constraint_name[c->kind], cl->word);
  }
  return true;
}

static bool parse_clauses(Parser *p, Constraint *c) {
  unsigned seen = 0;
  EACH_CLAUSE(bare, c->kind) {
    if (*bare->word) continue;
    seen |= clause_bit(c, bare);
    if (!parse_clause_value(p, c, bare)) return false;
  }
  bool listed = c->kind == CONSTRAINT_hardware; /* its clauses are separated by commas */
  while (!at_row_end(p) || (listed && p->last.kind == TOK_punct && p->last.punct == ',')) {
    const Clause *cl = take_clause(p, c->kind);
    if (!cl) return fail_clause(p, c->kind);
    if (seen & clause_bit(c, cl)) return fail_repeated(p, cl->word);
    seen |= clause_bit(c, cl);
    if (!parse_clause_value(p, c, cl)) return false;
    if (listed && !parse_accept(p, ',')) break;
  }
  c->at = parse_span_from(p, c->at);
  return check_complete(p, c, seen);
}

/* One row too many is reported; the rows after it are only read. */
static void add_row(Parser *p, Constraint c) {
  if (!p->rows_full) p->rows_full = !build_constraint(p->b, c);
}

/* `dynamic M, N` is one row for each. */
static bool parse_dynamics(Parser *p, Constraint c) {
  do {
    if (!(c.dynamic.symbol = parse_expr(p))) return false;
    c.at = parse_span_from(p, c.at);
    add_row(p, c);
  } while (parse_accept(p, ','));
  return true;
}

static bool parse_keyword(Parser *p, Constraint *out) {
  int kind = 0;
  if (p->tok.kind != TOK_word) return parse_fail_here(p, "a header row or `{`");
  while (kind < CONSTRAINT_COUNT && !parse_at_word(p, constraint_name[kind])) kind++;
  if (kind == CONSTRAINT_COUNT)
    return parse_fail_unknown(p, DIAG_E0505, &p->tok, "header row", constraint_name,
                              CONSTRAINT_COUNT);
  *out = constraint_empty((ConstraintKind)kind, p->tok.span);
  parse_advance(p);
  return true;
}

static bool expect_row_end(Parser *p) {
  return at_row_end(p) || parse_fail_expected(p, "`;`, a new line or `{`");
}

bool parse_one_row(Parser *p, Constraint *out) {
  return parse_keyword(p, out) && parse_clauses(p, out) && expect_row_end(p);
}

static bool parse_row(Parser *p) {
  Constraint c;
  if (!parse_keyword(p, &c)) return false;
  if (c.kind == CONSTRAINT_dynamic) return parse_dynamics(p, c);
  if (!parse_clauses(p, &c)) return false;
  add_row(p, c);
  return expect_row_end(p);
}

void parse_rows(Parser *p) {
  while (p->tok.kind != TOK_end && !parse_at_punct(p, '{')) {
    const char *start = p->tok.at;
    if (parse_accept(p, ';') || parse_row(p)) continue;
    if (p->tok.at == start) parse_advance(p);
    while (!at_row_end(p)) parse_advance(p);
  }
}
