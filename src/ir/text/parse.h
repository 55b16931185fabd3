/* parse.h: the parser's state and the functions its files share. Private to src/ir.
 *
 *   parse_tokens.c  looking at tokens, and reporting them
 *   parse_value.c   expressions, types, values of attributes
 *   parse_header.c  header rows
 *   parse_schedule.c  rows of schedules in files of their own
 *   parse.c         kernels, statements, regions
 *
 * Every parse_ function returns false (or NULL) after reporting what is wrong; the caller passes
 * that up to the nearest place that can recover: a parameter, a header row, a statement, a kernel.
 * Kernels are built only through build.h. */
#ifndef WV_PARSE_H
#define WV_PARSE_H

#include "ir/build/build.h"
#include "ir/text/lex.h"
#include "ir/text/text.h"

enum {
  PARSE_DEPTH = 64,  /* maximum nesting of regions */
  PARSE_ERRORS = 50, /* after this many the rest of the text is not read */
};

/* A value's name; value NULL: its definition failed and was reported. */
typedef struct Definition {
  const char *name;
  Value *value;
  Span at;
  bool ended; /* the region it belongs to has ended */
} Definition;

typedef struct Parser {
  Context *cx;
  Arena *scratch;
  Lexer lx;
  Token tok, last; /* the next token, and the one before it */
  int braces;      /* { read and not yet closed */
  int errors;      /* reported while parsing, by any function: when to give up */

  Builder *b;
  Intern spellings;
  Map by_name;               /* spelling -> Definition */
  Vec(Definition *) visible; /* in scope, innermost last */
  int depth;
  bool params_full, rows_full; /* one too many was reported */
} Parser;

/* ---- parse_tokens.c */
void parse_advance(Parser *p);
bool parse_at_punct(const Parser *p, char c);
bool parse_at_word(const Parser *p, const char *word);
Token parse_peek_token(const Parser *p); /* the one after p->tok */
bool parse_accept(Parser *p, char c);
bool parse_accept_word(Parser *p, const char *word);
bool parse_expect(Parser *p, char c, const char *what); /* what: "to begin the body"; may be NULL */
bool parse_expect_word(Parser *p, const char *word);
bool parse_expect_int(Parser *p, int64_t least, int64_t most, const char *what, int64_t *out);
bool parse_expect_text(Parser *p, TokenKind kind, const char *what, const char **out);

Span parse_span_from(const Parser *p, Span start); /* up to the last token, on one line */
/* Report the next token, where something should begin, and where something should continue. */
bool parse_fail_here(Parser *p, const char *what);
bool parse_fail_expected(Parser *p, const char *what);
/* Reports an unknown word, with the nearest known one as a hint. */
bool parse_fail_unknown(Parser *p, DiagCode code, const Token *t, const char *what,
                        const char *const *known, int n);
/* Skips to the end of a row or statement that began with `braces` open. */
void parse_skip_statement(Parser *p, int braces);

/* ---- parse_value.c */
const Sym *parse_expr(Parser *p);
const Sym *parse_symbol(Parser *p); /* N, N.2, signed(J) */
bool parse_pairs(Parser *p, SymPairs *out);
bool parse_mma(Parser *p, MmaChoice *out);
const Type *parse_type(Parser *p);
const Layout *parse_layout_of(Parser *p, const Type *t); /* @ and a layout over the dims of t */
bool parse_attr_value(Parser *p, AttrKey key, Attr *out);

/* ---- parse_header.c */
void parse_rows(Parser *p);
bool parse_one_row(Parser *p, Constraint *out); /* any but `dynamic M, N` */

#endif
