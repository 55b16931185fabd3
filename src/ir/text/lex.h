/* lex.h: the tokens of *.wave. Private to src/ir.
 *
 * The lexer never reports: what it cannot read becomes a TOK_bad with the reason, and the parser
 * reports it if it gets there. Expressions do not consist of these tokens: the parser passes their
 * text to sym/ and moves the lexer past it (lex_seek). */
#ifndef WV_LEX_H
#define WV_LEX_H

#include "base/span.h"

typedef enum TokenKind {
  TOK_end,
  TOK_word,   /* add  N_Q.2  $T0 */
  TOK_value,  /* %x */
  TOK_kernel, /* @gemm or @"any name" */
  TOK_int,    /* 128 */
  TOK_float,  /* 1.5  1e-06 */
  TOK_string, /* "text" */
  TOK_arrow,  /* -> */
  TOK_punct,  /* any one other character */
  TOK_bad
} TokenKind;

typedef struct Token {
  TokenKind kind;
  char punct;     /* of TOK_punct */
  bool first;     /* the first on its line */
  const char *at; /* in the source text */
  size_t len;
  const char *text; /* what it spells: a name without its sigil, a string without its escapes; for
                     * TOK_bad the reason */
  Span span;
} Token;

typedef struct Lexer {
  Arena *arena; /* for Token.text */
  const char *at, *end, *line_start;
  uint32_t file, line;
  bool fresh; /* the next token is the first on its line */
} Lexer;

Lexer lex_new(Arena *a, uint32_t file, const char *text);
Token lex_next(Lexer *lx);
void lex_seek(Lexer *lx, const char *to); /* forward */

#endif
