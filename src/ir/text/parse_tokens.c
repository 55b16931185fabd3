/* parse_tokens.c: looking at tokens, and reporting them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text/parse.h"

void parse_advance(Parser *p) {
  if (parse_at_punct(p, '{')) p->braces++;
  if (parse_at_punct(p, '}')) p->braces--;
  p->last = p->tok;
  p->tok = lex_next(&p->lx);
}

bool parse_at_punct(const Parser *p, char c) {
  return p->tok.kind == TOK_punct && p->tok.punct == c;
}

bool parse_at_word(const Parser *p, const char *word) {
  return p->tok.kind == TOK_word && strcmp(p->tok.text, word) == 0;
}

Token parse_peek_token(const Parser *p) {
  Lexer ahead = p->lx;
  return lex_next(&ahead);
}

bool parse_accept(Parser *p, char c) {
  if (!parse_at_punct(p, c)) return false;
  parse_advance(p);
  return true;
}

bool parse_accept_word(Parser *p, const char *word) {
  if (!parse_at_word(p, word)) return false;
  parse_advance(p);
  return true;
}

/* How a token is shown in a message. */
static const char *describe(Parser *p, const Token *t) {
  enum { SHOWN = 40 };
  if (t->kind == TOK_end) return "the end of the text";
  return arena_printf(p->scratch, "`%.*s`%s", t->len < SHOWN ? (int)t->len : SHOWN, t->at,
                      t->len < SHOWN ? "" : "...");
}

bool parse_fail_here(Parser *p, const char *what) {
  if (p->tok.kind == TOK_bad) diag_add(&p->cx->diags, DIAG_E0502, p->tok.span, "%s", p->tok.text);
  else
    diag_add(&p->cx->diags, DIAG_E0501, p->tok.span, "expected %s, found %s", what,
             describe(p, &p->tok));
  return false;
}

/* What is missing at the end of a line is reported there, not at the beginning of the next. */
bool parse_fail_expected(Parser *p, const char *what) {
  bool line_ended = p->tok.first && p->last.at;
  if (!line_ended) return parse_fail_here(p, what);
  Span at = p->last.span;
  at.col += at.len;
  at.len = 1;
  return diag_fail(&p->cx->diags, DIAG_E0501, at, "expected %s, found the end of the %s", what,
                   p->tok.kind == TOK_end ? "text" : "line");
}

bool parse_fail_unknown(Parser *p, DiagCode code, const Token *t, const char *what,
                        const char *const *known, int n) {
  Diag *d = diag_add(&p->cx->diags, code, t->span, "unknown %s %s", what, describe(p, t));
  const char *near = t->text ? diag_nearest(t->text, known, n) : NULL;
  if (near) diag_hint(&p->cx->diags, d, "did you mean `%s`?", near);
  return false;
}

bool parse_expect(Parser *p, char c, const char *what) {
  if (parse_accept(p, c)) return true;
  return parse_fail_expected(
      p, arena_printf(p->scratch, "`%c`%s%s", c, what ? " " : "", what ? what : ""));
}

bool parse_expect_word(Parser *p, const char *word) {
  if (parse_accept_word(p, word)) return true;
  return parse_fail_expected(p, arena_printf(p->scratch, "`%s`", word));
}

bool parse_expect_int(Parser *p, int64_t least, int64_t most, const char *what, int64_t *out) {
  Span start = p->tok.span;
  bool negative = parse_accept(p, '-');
  if (p->tok.kind != TOK_int) return parse_fail_expected(p, what);
  const char *text =
      arena_printf(p->scratch, "%s%.*s", negative ? "-" : "", (int)p->tok.len, p->tok.at);
  errno = 0;
  long long v = strtoll(text, NULL, 10);
  parse_advance(p);
  if (errno != ERANGE && v >= least && v <= most) return *out = v, true;
  return diag_fail(&p->cx->diags, DIAG_E0511, parse_span_from(p, start),
                   "%s must be between %lld and %lld, found %s", what, (long long)least,
                   (long long)most, text);
}

bool parse_expect_text(Parser *p, TokenKind kind, const char *what, const char **out) {
  if (p->tok.kind != kind) return parse_fail_expected(p, what);
  *out = p->tok.text;
  parse_advance(p);
  return true;
}

Span parse_span_from(const Parser *p, Span start) {
  if (p->last.span.line == start.line && p->last.span.col >= start.col)
    start.len = p->last.span.col + p->last.span.len - start.col;
  return start;
}

void parse_skip_statement(Parser *p, int braces) {
  while (p->tok.kind != TOK_end) {
    bool swallowed = p->tok.kind == TOK_bad && *p->tok.at == '"';
    if (swallowed) p->braces = braces; /* the closing braces are inside the unterminated string */
    if (p->braces <= braces && (p->tok.first || parse_at_punct(p, '}') || parse_at_punct(p, ';')))
      return;
    parse_advance(p);
  }
}
