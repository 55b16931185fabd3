/* inline_ptx.c: checks PTX written by a kernel's author.
 *
 * The assembler checks instructions. This file ensures that the text stays inside its braces: it
 * names operands that exist, declares only registers, neither jumps out nor is jumped into, and has
 * no effect besides its result unless it is volatile. */
#include "ir/ops/inline_ptx.h"

#include <ctype.h>
#include <string.h>

#include "ir/infer/infer.h"

bool inline_unknown(Context *cx, const Op *op, const char *who) {
  Diag *d = diag_add(&cx->diags, DIAG_E0619, op->at,
                     "%s cannot run `inline_ptx` without its meaning", who);
  return diag_hint(&cx->diags, d,
                   "add `meaning=`: a function that computes the result from the operands in ops");
}

/* Types that can be used in the text: those with a register class of their own in PTX. */
static bool inline_takes(DType t) {
  switch (dtype_info[t].class) {
  case DTYPE_FLOAT: return dtype_info[t].bits >= 16;
  case DTYPE_INT:
  case DTYPE_UINT: return dtype_info[t].bits >= 32;
  case DTYPE_INDEX:
  case DTYPE_BOOL: return false;
  }
  return false;
}

bool inline_results(const Op *op, InlineResults *out) {
  const Attr *types = op_attr(op, ATTR_types), *which = op_attr(op, ATTR_which);
  *out = (InlineResults){.which = which ? (int)which->integer : 0};
  if (!types) {
    out->dtype[0] = op->nresults ? op->results[0].type->dtype : DTYPE_f32;
    out->n = 1;
    return !which;
  }
  for (const char *at = types->text; *at;) {
    size_t n = strcspn(at, " ");
    char name[16];
    if (out->n == INLINE_RESULTS || n == 0 || n >= sizeof name) return false;
    memcpy(name, at, n);
    name[n] = 0;
    DType t;
    if (!dtype_parse(name, &t) || !inline_takes(t)) return false;
    out->dtype[out->n++] = t;
    at += n + (at[n] == ' ');
  }
  return which && which->integer >= 0 && which->integer < out->n;
}

/* ---- words ---- */

static bool is_among(const char *word, size_t n, const char *const *list) {
  for (; *list; list++)
    if (strlen(*list) == n && memcmp(*list, word, n) == 0) return true;
  return false;
}

static size_t word_length(const char *at) {
  size_t n = 0;
  while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '$') n++;
  return n;
}

static const char *after_space(const char *at) {
  while (isspace((unsigned char)*at)) at++;
  return at;
}

/* `%r3`: registers are numbered by the emitter, so a text that names one would mean another. */
static bool is_our_register(const char *at) {
  static const char *const prefix[] = {"p", "h", "r", "rd", "f", "fd", NULL};
  size_t letters = 0;
  while (isalpha((unsigned char)at[1 + letters])) letters++;
  return isdigit((unsigned char)at[1 + letters]) && is_among(at + 1, letters, prefix);
}

static bool is_time(const char *at) {
  static const char *const names[] = {"clock", "clock_hi", "clock64", "globaltimer", NULL};
  return is_among(at + 1, word_length(at + 1), names);
}

/* ---- a statement ---- */

/* At the start of a statement: a directive, or an instruction that leaves the braces. */
static const char *statement_mistake(Arena *a, const char *at, bool is_volatile) {
  static const char *const leave[] = {"bra",  "brx",   "ret",     "exit", "call",
                                      "trap", "brkpt", "pmevent", NULL};
  static const char *const act[] = {
      "ld",       "st",   "atom",     "red",       "bar",        "barrier",        "membar",
      "fence",    "cp",   "prefetch", "prefetchu", "discard",    "mbarrier",       "ldmatrix",
      "stmatrix", "ldu",  "multimem", "tex",       "tld4",       "suld",           "sust",
      "shfl",     "vote", "match",    "redux",     "activemask", "elect",          "nanosleep",
      "mma",      "wmma", "wgmma",    "tcgen05",   "setmaxnreg", "griddepcontrol", NULL};
  if (*at == '@') at = after_space(at + 1 + (at[1] == '!') + word_length(at + 1 + (at[1] == '!')));
  size_t n = word_length(at);
  if (*at == '.' && strncmp(at, ".reg", 4) != 0)
    return arena_printf(a, "the directive `.%.*s`; only `.reg` is allowed",
                        (int)word_length(at + 1), at + 1);
  if (n && *after_space(at + n) == ':') return arena_printf(a, "the label `%.*s`", (int)n, at);
  if (is_among(at, n, leave))
    return arena_printf(a, "`%.*s`, which leaves the inline code", (int)n, at);
  if (!is_volatile && is_among(at, n, act))
    return arena_printf(a, "`%.*s`, which has side effects: add `volatile`", (int)n, at);
  return NULL;
}

/* ---- the text ---- */

/* The number after `$`; -1: none. */
static int operand_number(const char **at) {
  int n = isdigit((unsigned char)**at) ? 0 : -1;
  for (; isdigit((unsigned char)**at) && n < 1000; ++*at) n = 10 * n + (**at - '0');
  return n;
}

static const char *character_mistake(Arena *a, const char *at, bool is_volatile) {
  if ((*at < ' ' && *at != '\n' && *at != '\t') || *at > '~')
    return "a character that is not printable ASCII";
  if (*at == '"') return "a string";
  if (*at == '/' && (at[1] == '/' || at[1] == '*')) return "a comment";
  if (*at != '%') return NULL;
  if (is_our_register(at))
    return arena_printf(a, "the register `%%%.*s`; declare one with `.reg`",
                        (int)word_length(at + 1), at + 1);
  if (!is_volatile && is_time(at))
    return arena_printf(a, "`%%%.*s`, which changes between reads: add `volatile`",
                        (int)word_length(at + 1), at + 1);
  return NULL;
}

typedef struct Seen {
  int results, inputs;
  bool begins;                 /* at the start of a statement */
  bool result[INLINE_RESULTS]; /* which of them were named */
  char last;                   /* the last non-space character */
  int open;                    /* braces */
} Seen;

static const char *take_operand(Arena *a, const char **at, Seen *s) {
  ++*at;
  int n = operand_number(at), inputs = s->inputs;
  if (n >= 0 && n < s->results) s->result[n] = true;
  if (n >= 0 && n < s->results + inputs) return NULL;
  if (n < 0) return "a `$` without an operand number";
  const char *beside = s->results > 1 ? arena_printf(a, " beside %d results", s->results) : "";
  return arena_printf(a, "`$%d`, but there %s %d operand%s%s", n, inputs == 1 ? "is" : "are",
                      inputs, inputs == 1 ? "" : "s", beside);
}

static const char *missing_result(Arena *a, const Seen *s) {
  for (int i = 0; i < s->results; i++)
    if (!s->result[i])
      return arena_printf(a, "no `$%d` (%s)", i, s->results > 1 ? "a result" : "the result");
  return NULL;
}

/* What is wrong with a text that has this many results and operands; NULL: nothing that can be
 * detected. */
static const char *inline_mistake(Arena *a, const char *text, int results, int inputs,
                                  bool is_volatile) {
  Seen s = {.begins = true, .results = results, .inputs = inputs};
  for (const char *at = text; *at;) {
    const char *wrong = character_mistake(a, at, is_volatile);
    bool space = isspace((unsigned char)*at);
    if (!wrong && s.begins && !space) wrong = statement_mistake(a, at, is_volatile);
    if (wrong) return wrong;
    if (!space) s.last = *at;
    if (!space) s.begins = *at == ';' || *at == '{' || *at == '}';
    s.open += (*at == '{') - (*at == '}');
    if (s.open < 0) return "an unmatched `}`";
    if (*at != '$') at++;
    else if ((wrong = take_operand(a, &at, &s))) return wrong;
  }
  if (s.open) return "an unmatched `{`";
  if (s.last != ';' && s.last != '}') return "an instruction that does not end in `;`";
  return missing_result(a, &s);
}

/* ---- its type ---- */

static bool has_shape_of(const Type *t, const Type *arg) {
  if (arg->kind == TYPE_vec) return t->kind == TYPE_vec && t->n == arg->n;
  for (int i = 0; i < arg->rank; i++)
    if (!type_has_dim(t, arg->dims[i])) return false;
  return true;
}

/* Each of its dimensions is a dimension of some operand. */
static bool is_covered(const Infer *in, const Type *t) {
  bool found = t->rank == 0;
  for (int d = 0; d < t->rank; d++) {
    found = false;
    for (int i = 0; i < inline_inputs(in->op) && !found; i++)
      found = type_has_dim(infer_arg(in, i), t->dims[d]);
    if (!found) return false;
  }
  return found;
}

static bool check_types(const Infer *in) {
  const Type *t = in->given;
  for (int i = 0; i < in->op->nargs; i++)
    if (!infer_need_value(in, i)) return false;
  for (int i = 0; i < inline_inputs(in->op); i++) {
    if (!has_shape_of(t, infer_arg(in, i)))
      return INFER_FAIL(in, E0316, "`inline_ptx` of %s cannot return %s, which lacks a dimension",
                        infer_shown(in, infer_arg(in, i)), infer_shown(in, t));
    if (!infer_need_class(in, i, inline_takes(infer_arg(in, i)->dtype),
                          "floats of at least 16 bits or integers of 32 or 64 bits"))
      return false;
  }
  if (!inline_takes(t->dtype))
    return INFER_FAIL(
        in, E0311,
        "`inline_ptx` returns floats of at least 16 bits or integers of 32 or 64 bits, not %s",
        infer_shown(in, t));
  if (is_covered(in, t)) return true;
  return INFER_FAIL(in, E0316, "`inline_ptx` cannot return %s: no operand has all its dimensions",
                    infer_shown(in, t));
}

bool rule_inline(Infer *in) {
  const Op *op = in->op;
  const Attr *text = op_attr(op, ATTR_ptx);
  const Value *meaning = inline_meaning(op);
  if (!in->given) return INFER_FAIL(in, E0309, "`inline_ptx` needs the type of its result");
  if (!text || inline_inputs(op) < 1)
    return INFER_FAIL(in, E0322, "`inline_ptx` needs a text and at least one operand");
  if (!check_types(in)) return false;
  InlineResults results;
  if (!inline_results(op, &results))
    return INFER_FAIL(
        in, E0322,
        "`types` of `inline_ptx` lists up to %d types of registers, and `which` names "
        "one of them by its number",
        INLINE_RESULTS);
  if (op_has(op, ATTR_types) && results.dtype[results.which] != in->given->dtype)
    return INFER_FAIL(in, E0322, "result %d of the text of `inline_ptx` is not %s", results.which,
                      infer_shown(in, in->given));
  const char *wrong = inline_mistake(in->k->cx->diags.arena, text->text, results.n,
                                     inline_inputs(op), op_has(op, ATTR_volatile));
  if (wrong) return INFER_FAIL(in, E0322, "the text of `inline_ptx` has %s", wrong);
  if (meaning && meaning->type != in->given)
    return INFER_FAIL(in, E0316, "the meaning of `inline_ptx` returns %s, but its result is %s",
                      infer_shown(in, meaning->type), infer_shown(in, in->given));
  return infer_result(in, in->given);
}
