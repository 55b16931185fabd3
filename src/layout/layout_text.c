/* layout_text.c: layouts as text, both ways.
 *
 *     register layout   [16, 16] reg d0/4:1 | lane d1/16:1 d0/4:4
 *     memory layout     [64, 32] d1/32:1 d0/64:40 xor 0x18>>3 : 16 bits
 *
 * Printing and parsing are inverse: printed text parses to the same digits, and parsed digits print
 * as the same text. */
#include <limits.h>
#include <string.h>

#include "layout/layout.h"
#include "layout/mem_layout.h"

static const char *const part_names[LAYOUT_PARTS] = {"reg", "lane", "wave"};

/* ---- printing -------------------------------------------------------------------------------- */

static void print_extents(StrBuf *out, int dims, const int *extent) {
  sb_putc(out, '[');
  for (int d = 0; d < dims; d++) sb_printf(out, "%s%d", d ? ", " : "", extent[d]);
  sb_putc(out, ']');
}

static void print_digits(StrBuf *out, const Digits *digits) {
  for (int i = 0; i < digits->n; i++) {
    Digit d = digits->at[i];
    if (d.stride) sb_printf(out, " d%d/%d:%d", d.dim, d.radix, d.stride);
    else sb_printf(out, " ~/%d", d.radix);
  }
}

void layout_print(StrBuf *out, const Layout *l) {
  print_extents(out, l->dims, l->extent);
  const char *before = " ";
  for (int p = 0; p < LAYOUT_PARTS; p++) {
    if (l->part[p].n == 0) continue;
    sb_printf(out, "%s%s", before, part_names[p]);
    print_digits(out, &l->part[p]);
    before = " | ";
  }
}

void mem_print(StrBuf *out, const MemLayout *m) {
  print_extents(out, m->dims, m->extent);
  print_digits(out, &m->digits);
  if (m->swizzle.mask) sb_printf(out, " xor 0x%x>>%d", m->swizzle.mask, m->swizzle.shift);
  sb_printf(out, " : %d bits", m->bits);
}

/* ---- parsing --------------------------------------------------------------------------------- */

typedef struct Cursor {
  const char *at;
  const char *wrong; /* the first mistake; NULL: none */
  const char *wrong_at;
} Cursor;

static void fail(Cursor *c, const char *why) {
  if (c->wrong) return;
  c->wrong = why;
  c->wrong_at = c->at;
}

static void skip_blanks(Cursor *c) {
  while (*c->at == ' ' || *c->at == '\t') c->at++;
}

static bool accept(Cursor *c, const char *word) {
  skip_blanks(c);
  size_t n = strlen(word);
  if (strncmp(c->at, word, n) != 0) return false;
  c->at += n;
  return true;
}

static void expect(Cursor *c, const char *word, const char *why) {
  if (!accept(c, word)) fail(c, why);
}

static int digit_value(char ch, int base) {
  if (ch >= '0' && ch <= '9') return ch - '0';
  if (base == 16 && ch >= 'a' && ch <= 'f') return ch - 'a' + 10;
  return -1;
}

static int number(Cursor *c, int base) {
  skip_blanks(c);
  int64_t v = 0;
  if (digit_value(*c->at, base) < 0) fail(c, "expected a number");
  for (int d; !c->wrong && (d = digit_value(*c->at, base)) >= 0; c->at++) {
    v = v * base + d;
    if (v > INT_MAX) fail(c, "the number is too large");
  }
  return c->wrong ? 0 : (int)v;
}

static void parse_extents(Cursor *c, int *dims, int *extent) {
  *dims = 0;
  expect(c, "[", "expected `[` and the extents of the tile");
  if (accept(c, "]")) return;
  do {
    if (*dims == LAYOUT_DIMS) fail(c, "a layout has at most 8 dims");
    if (c->wrong) return;
    int e = number(c, 10);
    if (e < 1) fail(c, "an extent must be at least 1");
    extent[(*dims)++] = e;
  } while (accept(c, ","));
  expect(c, "]", "expected `,` or `]`");
}

static void parse_digit(Cursor *c, int dims, Digits *to) {
  Digit d = {0};
  bool moves = !accept(c, "~");
  if (moves) {
    expect(c, "d", "expected a digit such as `d0/4:1`");
    d.dim = number(c, 10);
    if (d.dim >= dims) fail(c, "the tile has no such dim");
  }
  expect(c, "/", "expected `/` and the radix");
  d.radix = number(c, 10);
  if (d.radix < 1) fail(c, "a radix must be at least 1");
  if (moves) {
    expect(c, ":", "expected `:` and the stride");
    d.stride = number(c, 10);
  }
  if (d.stride == 0) d.dim = 0;
  if (to->n == LAYOUT_DIGITS) fail(c, "too many digits");
  if (!c->wrong) to->at[to->n++] = d;
}

static bool at_digit(Cursor *c) {
  skip_blanks(c);
  return *c->at == '~' || (*c->at == 'd' && digit_value(c->at[1], 10) >= 0);
}

static void parse_parts(Cursor *c, Layout *l) {
  int next = 0; /* parts must come in order */
  do {
    int p = next;
    while (p < LAYOUT_PARTS && !accept(c, part_names[p])) p++;
    if (p == LAYOUT_PARTS) {
      if (next) fail(c, "expected `lane` or `wave`"); /* after a bar */
      return;
    }
    while (!c->wrong && at_digit(c)) parse_digit(c, l->dims, &l->part[p]);
    next = p + 1;
  } while (!c->wrong && next < LAYOUT_PARTS && accept(c, "|"));
}

/* Text is user input: nothing computed later may overflow. */
static bool is_small(const Layout *l) {
  enum { MOST = 1 << 24 };
  int64_t elements = 1, positions = 1, reach = 0;
  for (int d = 0; d < l->dims; d++)
    if ((elements *= l->extent[d]) > MOST) return false;
  EACH_DIGIT(l, p, d) {
    if ((positions *= d->radix) > MOST || (reach += (int64_t)d->radix * d->stride) > MOST)
      return false;
  }
  return true;
}

static const char *finish(const Cursor *c, const char **text) {
  *text = c->wrong ? c->wrong_at : c->at;
  return c->wrong;
}

const char *layout_parse_digits(const char **text, Layout *l) {
  Cursor c = {.at = *text};
  parse_parts(&c, l);
  return finish(&c, text);
}

const char *layout_parse(const char **text, Layout *out) {
  Cursor c = {.at = *text};
  *out = (Layout){0};
  parse_extents(&c, &out->dims, out->extent);
  if (!c.wrong) parse_parts(&c, out);
  if (!c.wrong && !is_small(out)) fail(&c, "the layout is too large");
  return finish(&c, text);
}

const char *mem_parse(const char **text, MemLayout *out) {
  Cursor c = {.at = *text};
  *out = (MemLayout){0};
  parse_extents(&c, &out->dims, out->extent);
  while (!c.wrong && at_digit(&c)) parse_digit(&c, out->dims, &out->digits);
  if (!c.wrong && accept(&c, "xor")) {
    expect(&c, "0x", "expected a mask such as `0x38`");
    out->swizzle.mask = (unsigned)number(&c, 16);
    expect(&c, ">>", "expected `>>` and the shift");
    out->swizzle.shift = number(&c, 10);
  }
  expect(&c, ":", "expected `:` and the size of an element");
  out->bits = number(&c, 10);
  expect(&c, "bits", "expected `bits`");
  if (!c.wrong && !mem_is_valid(out))
    fail(&c, "the digits do not cover all elements, or the xor is not invertible");
  return finish(&c, text);
}
