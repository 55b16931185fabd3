/* text.c: see text.h. */
#include "ir/text/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool text_attr_is_in_head(OpKind kind, AttrKey key) {
  if (kind == OP_for) return key == ATTR_axis || key == ATTR_from || key == ATTR_step;
  if (kind == OP_while) return key == ATTR_axis || key == ATTR_version || key == ATTR_expr;
  return key == (kind == OP_if ? ATTR_expr : op_info[kind].lead);
}

bool text_is_name_char(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.';
}

/* ---- floats ---- */

#define NAN_QUIET (UINT64_C(1) << 51)
#define NAN_EXPONENT (UINT64_C(0x7ff) << 52)
#define NAN_PAYLOAD ((UINT64_C(1) << 52) - 1)

static uint64_t bits_of(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

double text_float_nan(bool negative, uint64_t payload) {
  uint64_t bits = NAN_EXPONENT | (payload ? payload & NAN_PAYLOAD : NAN_QUIET);
  if (negative) bits |= UINT64_C(1) << 63;
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static void nan_print(StrBuf *out, double v) {
  uint64_t payload = bits_of(v) & NAN_PAYLOAD;
  sb_puts(out, signbit(v) ? "-nan" : "nan");
  if (payload != NAN_QUIET) sb_printf(out, "(%llu)", (unsigned long long)payload);
}

void text_float_print(StrBuf *out, double v) {
  if (isnan(v)) {
    nan_print(out, v);
    return;
  }
  if (isinf(v)) {
    sb_puts(out, v < 0 ? "-inf" : "inf");
    return;
  }
  char text[40];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v);
    if (strtod(text, NULL) == v) break;
  }
  sb_puts(out, text);
  if (!strpbrk(text, ".e")) sb_puts(out, ".0");
}
