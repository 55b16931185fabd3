/* lex.c: see lex.h. */
#include "ir/text/lex.h"

#include <ctype.h>
#include <string.h>

#include "ir/text/text.h"

Lexer lex_new(Arena *a, uint32_t file, const char *text) {
  return (Lexer){a, text, text + strlen(text), text, file, 1, true};
}

void lex_seek(Lexer *lx, const char *to) {
  for (; lx->at < to; lx->at++)
    if (*lx->at == '\n') lx->line++, lx->line_start = lx->at + 1;
}

static char peek(const Lexer *lx, size_t n) {
  return (size_t)(lx->end - lx->at) > n ? lx->at[n] : '\0';
}

static void skip_blanks(Lexer *lx) {
  for (;;) {
    if (peek(lx, 0) == '#') {
      while (lx->at < lx->end && *lx->at != '\n') lx->at++;
    } else if (lx->at < lx->end && isspace((unsigned char)*lx->at)) {
      lx->fresh |= *lx->at == '\n';
      lex_seek(lx, lx->at + 1);
    } else {
      return;
    }
  }
}

static size_t name_length(const Lexer *lx, size_t from) {
  size_t n = from;
  while (text_is_name_char(peek(lx, n))) n++;
  return n - from;
}

static bool is_digit_at(const Lexer *lx, size_t n) { return isdigit((unsigned char)peek(lx, n)); }

static size_t digits(const Lexer *lx, size_t n) {
  while (is_digit_at(lx, n)) n++;
  return n;
}

/* `1.` followed by a digit is a float; `1.e` is not, so that a stray dot is reported where it
 * is. */
static void lex_number(const Lexer *lx, Token *t) {
  size_t n = digits(lx, 0);
  t->kind = TOK_int;
  if (peek(lx, n) == '.' && is_digit_at(lx, n + 1)) {
    n = digits(lx, n + 1);
    t->kind = TOK_float;
  }
  size_t sign = peek(lx, n + 1) == '-' || peek(lx, n + 1) == '+';
  if ((peek(lx, n) == 'e' || peek(lx, n) == 'E') && is_digit_at(lx, n + 1 + sign)) {
    n = digits(lx, n + 1 + sign);
    t->kind = TOK_float;
  }
  t->len = n;
}

static void bad(Token *t, size_t len, const char *why) {
  t->kind = TOK_bad;
  t->len = len;
  t->text = why;
}

/* A string with the escapes that sb_quote writes: \" \\ \n. */
static void lex_string(Lexer *lx, Token *t, size_t quote) {
  StrBuf text = {.arena = lx->arena};
  size_t n = quote + 1;
  for (; peek(lx, n) != '"'; n++) {
    char c = peek(lx, n);
    if (c == '\0' || c == '\n') {
      bad(t, n, "unterminated string");
      return;
    }
    if (c == '\\') {
      c = peek(lx, ++n);
      if (c == 'n') c = '\n';
      else if (c != '"' && c != '\\') {
        bad(t, n, "unknown escape in a string: expected \\\", \\\\ or \\n");
        return;
      }
    }
    sb_putc(&text, c);
  }
  t->text = sb_text(&text);
  t->len = n + 1;
}

static void lex_sigil(Lexer *lx, Token *t, TokenKind kind) {
  size_t n = name_length(lx, 1);
  if (n == 0) {
    t->kind = TOK_punct;
    t->punct = *lx->at;
    t->len = 1;
    return;
  }
  t->kind = kind;
  t->text = arena_strndup(lx->arena, lx->at + 1, n);
  t->len = n + 1;
}

static void lex_word(Lexer *lx, Token *t) {
  t->kind = TOK_word;
  t->len = name_length(lx, 0);
  t->text = arena_strndup(lx->arena, lx->at, t->len);
}

static void lex_punct(const Lexer *lx, Token *t) {
  unsigned char c = (unsigned char)*lx->at;
  if (c == '-' && peek(lx, 1) == '>') {
    t->kind = TOK_arrow;
    t->len = 2;
  } else if (isprint(c)) {
    t->kind = TOK_punct;
    t->punct = (char)c;
    t->len = 1;
  } else {
    bad(t, 1, arena_printf(lx->arena, "the byte 0x%02x is not allowed in a kernel", c));
  }
}

static void scan(Lexer *lx, Token *t) {
  char c = peek(lx, 0);
  if (lx->at == lx->end) t->kind = TOK_end;
  else if (isdigit((unsigned char)c)) lex_number(lx, t);
  else if (isalpha((unsigned char)c) || c == '_' || c == '$') lex_word(lx, t);
  else if (c == '"') t->kind = TOK_string, lex_string(lx, t, 0);
  else if (c == '@' && peek(lx, 1) == '"') t->kind = TOK_kernel, lex_string(lx, t, 1);
  else if (c == '@') lex_sigil(lx, t, TOK_kernel);
  else if (c == '%') lex_sigil(lx, t, TOK_value);
  else lex_punct(lx, t);
}

Token lex_next(Lexer *lx) {
  skip_blanks(lx);
  Token t = {.at = lx->at, .first = lx->fresh};
  lx->fresh = false;
  t.span = (Span){lx->file, lx->line, (uint32_t)(lx->at - lx->line_start) + 1, 0};
  scan(lx, &t);
  t.span.len = (uint32_t)t.len;
  lx->at += t.len;
  return t;
}
