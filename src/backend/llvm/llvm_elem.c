/* llvm_elem.c: elementwise ops, from the templates of llvm.def. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/llvm/llvm_state.h"
#include "ir/dtype.h"

typedef enum Column { COL_F32, COL_F64, COL_INT, COL_BOOL, COLUMNS } Column;

static const char *const template_of[OP_COUNT][COLUMNS] = {
#define LLVM_OP(op, f32, f64, integer, truth) [OP_##op] = {f32, f64, integer, truth},
#define LLVM_UNSIGNED(op, text)
#define LLVM_FAST(op, f32)
#include "backend/llvm/llvm.def"
};

/* For unsigned integers, where they differ. */
static const char *const unsigned_template[OP_COUNT] = {
#define LLVM_OP(op, f32, f64, integer, truth)
#define LLVM_UNSIGNED(op, text) [OP_##op] = text,
#define LLVM_FAST(op, f32)
#include "backend/llvm/llvm.def"
};

/* Under fast math. */
static const char *const fast_of[OP_COUNT] = {
#define LLVM_OP(op, f32, f64, integer, truth)
#define LLVM_UNSIGNED(op, text)
#define LLVM_FAST(op, f32) [OP_##op] = f32,
#include "backend/llvm/llvm.def"
};

/* One instruction where the general text takes several. */
static const char *const nan_template[OP_COUNT] = {
    [OP_maximum] = "!llvm.maximum $a, $b", [OP_minimum] = "!llvm.minimum $a, $b"};

bool llvm_has_elementwise(OpKind kind) {
  for (int i = 0; i < COLUMNS; i++)
    if (template_of[kind][i]) return true;
  return false;
}

static Column column_of(Lane l) {
  if (strcmp(l.elem, "float") == 0) return COL_F32;
  if (strcmp(l.elem, "double") == 0) return COL_F64;
  return l.bits == 1 ? COL_BOOL : COL_INT;
}

/* The machine's own. */
static const char *own_template(const Llvm *p, OpKind kind) {
  const LlvmMachine *m = p->machine;
  if (m->fast_math && m->fast && m->fast[kind]) return m->fast[kind];
  return m->f32 ? m->f32[kind] : NULL;
}

static const char *text_of(const Llvm *p, OpKind kind, Lane lane) {
  Column col = column_of(lane);
  bool is_float = col == COL_F32 || col == COL_F64;
  const char *own = col == COL_F32 ? own_template(p, kind) : NULL;
  if (own) return own;
  if (p->machine->fast_math && col == COL_F32 && fast_of[kind]) return fast_of[kind];
  if (is_float && p->machine->keeps_nan && nan_template[kind]) return nan_template[kind];
  if (lane.is_unsigned && unsigned_template[kind]) return unsigned_template[kind];
  const char *text = template_of[kind][col];
  return text && !*text ? template_of[kind][COL_F32] : text;
}

/* ---- templates ---- */

typedef struct Fill {
  Llvm *p;
  Lane lane;
  const char *const *args;
  const char *fresh[10];
} Fill;

static const char *splat_int(Llvm *p, int bits, int n, int64_t v) {
  const char *one = bits == 1 ? (v & 1 ? "true" : "false") : arena_printf(p->arena, "%" PRId64, v);
  return llvm_splat_of(p, arena_printf(p->arena, "i%d", bits), one, n);
}

static const char *int_elem(Llvm *p, Lane l) { return arena_printf(p->arena, "i%d", l.bits); }

/* The replacement of a hole; *at is moved past it. */
static const char *hole(Fill *f, const char **at) {
  Llvm *p = f->p;
  int n = f->lane.n;
  char sign = *(*at)++, *end;
  if (sign == '#') {
    double v = strtod(*at, &end);
    *at = end;
    DType t = f->lane.bits == 64 ? DTYPE_f64 : DTYPE_f32;
    return llvm_splat_of(p, f->lane.elem, llvm_float_literal(p, t, v), n);
  }
  if (sign == '~') {
    int64_t v = strtoll(*at, &end, 10);
    *at = end;
    return splat_int(p, f->lane.bits, n, v);
  }
  char what = *(*at)++;
  switch (what) {
  case 't': return llvm_vec_type(p, f->lane.elem, n);
  case 'i': return llvm_vec_type(p, int_elem(p, f->lane), n);
  case 'm': return llvm_vec_type(p, "i1", n);
  case 'w': return llvm_vec_type(p, "double", n);
  case 'a':
  case 'b': return f->args[what - 'a'];
  default: return f->fresh[what - '0'];
  }
}

static bool is_hole(char c) { return c == '$' || c == '#' || c == '~'; }

/* "x, y" as operands; returns how many. */
static int read_operands(Fill *f, const char *at, const char **out) {
  int n = 0;
  while (*at && n < 4) {
    if (is_hole(*at)) out[n++] = hole(f, &at);
    else at++;
  }
  return n;
}

static const char *call_intrinsic(Fill *f, const char *name, size_t len, const char *rest) {
  Llvm *p = f->p;
  const char *arg[4], *type = llvm_vec_type(p, f->lane.elem, f->lane.n);
  StrBuf types = {.arena = p->arena}, args = {.arena = p->arena};
  int n = read_operands(f, rest, arg);
  for (int i = 0; i < n; i++) {
    sb_printf(&types, "%s%s", i ? ", " : "", type);
    sb_printf(&args, "%s%s %s", i ? ", " : "", type, arg[i]);
  }
  name = arena_printf(p->arena, "%.*s.%s", (int)len, name, llvm_suffix(p, f->lane.elem, f->lane.n));
  return llvm_call(p, type, name, sb_text(&types), sb_text(&args));
}

/* The intrinsic of one operand, for each element. */
static const char *call_each(Fill *f, const char *name, size_t len, const char *rest) {
  Llvm *p = f->p;
  const char *arg[4], *elem = f->lane.elem, *type = llvm_vec_type(p, elem, f->lane.n);
  const char *out = "poison";
  read_operands(f, rest, arg);
  name = arena_printf(p->arena, "%.*s.%s", (int)len, name, llvm_suffix(p, elem, 1));
  for (int i = 0; i < f->lane.n; i++) {
    const char *x = arg[0];
    if (f->lane.n > 1) x = llvm_let(p, "extractelement %s %s, i32 %d", type, x, i);
    x = llvm_call(p, elem, name, elem, arena_printf(p->arena, "%s %s", elem, x));
    out = f->lane.n == 1 ? x
                         : llvm_let(p, "insertelement %s %s, %s %s, i32 %d", type, out, elem, x, i);
  }
  return out;
}

static const char *call_row(Fill *f, char how, const char *name, size_t len, const char *rest) {
  const char *arg[4];
  Lane lane = f->lane;
  read_operands(f, rest, arg);
  if (how == '^') lane = (Lane){"double", 64, f->lane.n, false};
  return llvm_apply(f->p, op_find(arena_strndup(f->p->arena, name, len)), lane, arg);
}

/* x clamped to at most or at least the number y. Machines without an instruction that preserves NaN
 * compare and select. */
static const char *call_limit(Fill *f, bool at_most, const char *rest) {
  Llvm *p = f->p;
  int n = f->lane.n;
  const char *arg[4], *type = llvm_vec_type(p, f->lane.elem, n);
  read_operands(f, rest, arg);
  if (p->machine->keeps_nan) return llvm_apply(p, at_most ? OP_minimum : OP_maximum, f->lane, arg);
  const char *order = at_most ? "ogt" : "olt";
  const char *beyond = llvm_let(p, "fcmp %s %s %s, %s", order, type, arg[0], arg[1]);
  return llvm_let(p, "select %s %s, %s %s, %s %s", llvm_vec_type(p, "i1", n), beyond, type, arg[1],
                  type, arg[0]);
}

const char *llvm_multiply_add(Llvm *p, const char *elem, int n, const char *a, const char *b,
                              const char *c) {
  const char *type = llvm_vec_type(p, elem, n);
  if (!p->machine->fma) { /* it would call a function for each element */
    const char *product = llvm_let(p, "fmul %s %s, %s", type, a, b);
    return llvm_let(p, "fadd %s %s, %s", type, product, c);
  }
  return llvm_call(p, type, arena_printf(p->arena, "llvm.fma.%s", llvm_suffix(p, elem, n)),
                   arena_printf(p->arena, "%s, %s, %s", type, type, type),
                   arena_printf(p->arena, "%s %s, %s %s, %s %s", type, a, type, b, type, c));
}

static const char *plain_instruction(Fill *f, const char *text) {
  StrBuf line = {.arena = f->p->arena};
  for (const char *at = text; *at;) {
    if (is_hole(*at)) sb_puts(&line, hole(f, &at));
    else sb_putc(&line, *at++);
  }
  return llvm_let(f->p, "%s", sb_text(&line));
}

static const char *statement(Fill *f, const char *text) {
  bool named = text[0] == '$' && strncmp(text + 2, " = ", 3) == 0;
  const char *body = named ? text + 5 : text, *result, *arg[4];
  size_t len = strcspn(body + 1, " ");
  switch (*body) {
  case '<':
  case '>': result = call_limit(f, *body == '<', body + 1); break;
  case '*':
    read_operands(f, body + 1, arg);
    result = llvm_multiply_add(f->p, f->lane.elem, f->lane.n, arg[0], arg[1], arg[2]);
    break;
  case '!': result = call_intrinsic(f, body + 1, len, body + 1 + len); break;
  case '%': result = call_each(f, body + 1, len, body + 1 + len); break;
  case '@':
  case '^': result = call_row(f, *body, body + 1, len, body + 1 + len); break;
  default: result = plain_instruction(f, body);
  }
  if (named) f->fresh[text[1] - '0'] = result;
  return result;
}

static const char *expand(Fill *f, const char *text) {
  const char *result = NULL;
  while (*text) {
    size_t n = strcspn(text, ";");
    result = statement(f, arena_strndup(f->p->arena, text, n));
    text += n;
    text += strspn(text, "; ");
  }
  return result;
}

/* ---- the C library, element by element ---- */

static const char *call_library(Llvm *p, const char *name, Lane l, int nargs,
                                const char *const *args) {
  const char *type = llvm_vec_type(p, l.elem, l.n), *out = "poison";
  bool single = l.bits == 32;
  for (int i = 0; i < l.n; i++) {
    StrBuf text = {.arena = p->arena};
    for (int a = 0; a < nargs; a++) {
      const char *x =
          l.n == 1 ? args[a] : llvm_let(p, "extractelement %s %s, i32 %d", type, args[a], i);
      if (single) x = llvm_let(p, "fpext float %s to double", x);
      sb_printf(&text, "%sdouble %s", a ? ", " : "", x);
    }
    const char *r =
        llvm_call(p, "double", name, nargs == 2 ? "double, double" : "double", sb_text(&text));
    if (single) r = llvm_let(p, "fptrunc double %s to float", r);
    out = l.n == 1 ? r : llvm_let(p, "insertelement %s %s, %s %s, i32 %d", type, out, l.elem, r, i);
  }
  return out;
}

/* ---- far arguments of sine and cosine ---- */

/* Reduction by pi/2 in two parts is accurate enough up to here; for larger arguments, which are
 * rare, the C library is called. */
#define SINE_LIMIT 1073741824.0

static const char *any_far(Llvm *p, Lane l, const char *x) {
  const char *type = llvm_vec_type(p, l.elem, l.n), *suffix = llvm_suffix(p, l.elem, l.n);
  const char *size = llvm_call(p, type, arena_printf(p->arena, "llvm.fabs.%s", suffix), type,
                               arena_printf(p->arena, "%s %s", type, x));
  const char *limit = llvm_splat_of(p, l.elem, llvm_float_literal(p, DTYPE_f64, SINE_LIMIT), l.n);
  const char *far = llvm_let(p, "fcmp ogt %s %s, %s", type, size, limit);
  if (l.n == 1) return far;
  const char *truth = llvm_vec_type(p, "i1", l.n);
  return llvm_call(p, "i1", arena_printf(p->arena, "llvm.vector.reduce.or.v%di1", l.n), truth,
                   arena_printf(p->arena, "%s %s", truth, far));
}

/* The same for an angle that may be large. */
static const char *far_sine(Llvm *p, OpKind kind, Lane l, const char *x) {
  if (p->machine->library) return call_library(p, op_info[kind].name, l, 1, &x);
  const char *angle = p->machine->reduce_angle(p, l.n, x);
  Fill f = {.p = p, .lane = l, .args = &angle};
  return expand(&f, text_of(p, kind, l));
}

static const char *guard_sine(Llvm *p, OpKind kind, Lane l, const char *x, const char *near) {
  const char *slow = llvm_label(p, "far"), *end = llvm_label(p, "near"), *before = p->block;
  const char *test = any_far(p, l, x);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", test, slow, end);
  llvm_block(p, slow);
  const char *exact = far_sine(p, kind, l, x);
  llvm_line(p, "br label %%%s", end);
  llvm_block(p, end);
  return llvm_let(p, "phi %s [ %s, %%%s ], [ %s, %%%s ]", llvm_vec_type(p, l.elem, l.n), near,
                  before, exact, slow);
}

/* ---- ops ---- */

const char *llvm_apply(Llvm *p, OpKind kind, Lane lane, const char *const *args) {
  const char *text = text_of(p, kind, lane);
  if (!text) return NULL;
  bool divides = (kind == OP_mod || kind == OP_remf) && column_of(lane) == COL_F64;
  if (divides && p->machine->remainder)
    return p->machine->remainder(p, lane.n, args[0], args[1]);
  if (*text == '=') return call_library(p, text + 1, lane, op_info[kind].least, args);
  Fill f = {.p = p, .lane = lane, .args = args};
  const char *result = expand(&f, text);
  bool sine = (kind == OP_sin || kind == OP_cos) && lane.bits == 64;
  return sine ? guard_sine(p, kind, lane, args[0], result) : result;
}

static Lane lane_of(DType t, int n) {
  bool small = dtype_is_float(t) && llvm_elem_bits(t) < 32;
  if (small) return (Lane){"float", 32, n, false};
  return (Lane){llvm_elem_type(t), llvm_elem_bits(t), n, dtype_is_unsigned(t)};
}

const char *llvm_combine(Llvm *p, const Op *op, OpKind kind, DType t, int n, const char *a,
                         const char *b) {
  const char *args[] = {llvm_to_compute(p, t, n, a), b ? llvm_to_compute(p, t, n, b) : NULL};
  const char *r = llvm_apply(p, kind, lane_of(t, n), args);
  if (!r) return llvm_fail(p, op, "this op on this type"), "poison";
  return r;
}

/* Truth values come in vectors as wide as the comparison that made them. */
static int width_for(const Llvm *p, Held *const *args, int nargs, DType t) {
  if (t != DTYPE_i1) return llvm_compute_width(p, t);
  for (int i = 0; i < nargs; i++)
    if (args[i]->n > 1) return llvm_form_width(args[i]);
  return 1;
}

/* Finite types of 4 and 6 bits have no NaN, so that changing the sign is changing a bit. LLVM 19 loses
 * the negation of one of two elements that were made of integers on AMD GPUs with packed f32. */
static const char *with_sign_flipped(Llvm *p, OpKind kind, DType t, int n, const char *v) {
  if (kind != OP_neg || !dtype_is_float(t) || dtype_info[t].bits >= 8) return NULL;
  const char *sign = arena_printf(p->arena, "%d", 1 << (dtype_info[t].bits - 1));
  return llvm_let(p, "xor %s %s, %s", llvm_vec_type(p, "i8", n), v,
                  llvm_splat_of(p, "i8", sign, n));
}

void llvm_elementwise(Llvm *p, const Op *op) {
  Held *args[2] = {llvm_held_get(p, op->args[0]),
                   op->nargs > 1 ? llvm_held_get(p, op->args[1]) : NULL};
  DType in = args[0]->dtype;
  Held *to = llvm_held_new(p, &op->results[0]);
  bool truth = to->dtype == DTYPE_i1;
  LlvmRounding rounding = llvm_rounding_of(op);
  int width = width_for(p, args, op->nargs, in), count = part_count(to->n, width);
  const char **part = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count && !p->failed; i++) {
    int n = part_size(to->n, width, i);
    const char *a = llvm_slice_of(p, args[0], i * width, n, width);
    const char *b = args[1] ? llvm_slice_of(p, args[1], i * width, n, width) : NULL;
    part[i] = with_sign_flipped(p, op->kind, in, n, a);
    if (part[i]) continue;
    part[i] = llvm_combine(p, op, op->kind, in, n, a, b);
    if (rounding == LLVM_CUTS) part[i] = llvm_cut_to_bf16(p, n, part[i]);
    else if (rounding == LLVM_ROUNDS_ALL) part[i] = llvm_round_to_bf16(p, n, part[i]);
    else if (!truth) part[i] = llvm_from_compute(p, to->dtype, n, part[i]);
  }
  llvm_held_set(p, to, width, part);
}

void llvm_select(Llvm *p, const Op *op) {
  Held *test = llvm_held_get(p, op->args[0]), *yes = llvm_held_get(p, op->args[1]),
       *no = llvm_held_get(p, op->args[2]), *to = llvm_held_new(p, &op->results[0]);
  Held *all[] = {test, yes, no};
  int width = width_for(p, all, 3, DTYPE_i1), count;
  if (width == 1 || test->n == 1) width = llvm_memory_width(p, to->dtype);
  count = part_count(to->n, width);
  const char **part = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count; i++) {
    int n = part_size(to->n, width, i), m = test->n == 1 ? 1 : n;
    const char *type = llvm_held_type(p, to->dtype, n);
    part[i] = llvm_let(p, "select %s %s, %s %s, %s %s", llvm_vec_type(p, "i1", m),
                       test->n == 1 ? llvm_scalar_of(p, test)
                                    : llvm_slice_of(p, test, i * width, n, width),
                       type, llvm_slice_of(p, yes, i * width, n, width), type,
                       llvm_slice_of(p, no, i * width, n, width));
  }
  llvm_held_set(p, to, width, part);
}
