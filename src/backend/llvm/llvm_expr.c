/* llvm_expr.c: index expressions as integer instructions (sym_code decides which).
 *
 * On CPUs everything is computed in 64 bits: registers are that wide anyway, and addresses need no
 * extension. Only divisions use 32 bits if both operands fit, because they are faster. On GPUs
 * 64-bit arithmetic takes several instructions, and is used only where numbers do not fit. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/llvm/llvm_state.h"
#include "ir/dtype.h"

void llvm_define(Llvm *p, const Sym *symbol, LlvmNumber number) {
  vec_push(p->arena, &p->symbols, ((SymName){sym_name(symbol), number}));
}

static const LlvmNumber *symbol_known(const Llvm *p, const char *symbol) {
  for (int i = p->symbols.n - 1; i >= 0; i--)
    if (strcmp(p->symbols.at[i].symbol, symbol) == 0) return &p->symbols.at[i].number;
  return NULL;
}

typedef struct Code {
  Llvm *p;
  const Op *op;
  const SymCode *code;
  LlvmNumber *number; /* by operation */
} Code;

static const char *constant(Llvm *p, int64_t v) { return arena_printf(p->arena, "%" PRId64, v); }

static bool is_constant(const Code *c, int i) { return c->code->ops[i].kind == SYM_OP_const; }

/* Operand i in `bits`; a constant is cut off. */
static const char *in(Code *c, int i, int bits) {
  int64_t value = c->code->ops[i].value;
  if (is_constant(c, i)) return constant(c->p, bits == 32 ? (int32_t)(uint32_t)value : value);
  return llvm_in_bits(c->p, c->number[i], bits);
}

/* The operand that $APPLY_EXPR_ARG_i stands for; NULL: it is another symbol. */
static const Value *operand_called(const Op *op, const char *name) {
  int i;
  char end;
  if (sscanf(name, "$APPLY_EXPR_ARG_%d%c", &i, &end) != 1) return NULL;
  return i >= 0 && i < op->nargs ? op->args[i] : NULL;
}

/* What an operation needs: 64 bits, except on machines where 32 are cheaper. */
static int bits_of(const Code *c, const SymOp *s) { return c->p->machine->narrow ? s->bits : 64; }

static LlvmNumber launch_value(Code *c, const SymOp *s, LlvmSlotKind kind) {
  int bits = bits_of(c, s);
  LlvmSlot slot = {.kind = kind, .value = s->sym, .bytes = bits / 8};
  return (LlvmNumber){llvm_slot(c->p, slot), bits};
}

static LlvmNumber symbol_value(Code *c, const SymOp *s) {
  const Value *operand = operand_called(c->op, sym_name(s->sym));
  if (operand) return llvm_number_of(c->p, operand);
  const LlvmNumber *known = symbol_known(c->p, sym_name(s->sym));
  return known ? *known : launch_value(c, s, LLVM_VALUE);
}

static LlvmNumber let(Code *c, int bits, const char *name, const char *a, const char *b) {
  return (LlvmNumber){llvm_let(c->p, "%s i%d %s, %s", name, bits, a, b), bits};
}

/* The width of an operand as it is; the result may be narrower. */
static int operand_bits(const Code *c, int i) {
  int64_t value = c->code->ops[i].value;
  if (!c->p->machine->narrow) return 64;
  if (is_constant(c, i)) return value == (int32_t)value ? 32 : 64;
  return c->number[i].bits == 64 ? 64 : 32;
}

static int common_bits(const Code *c, const SymOp *s) {
  return operand_bits(c, s->a) == 64 || operand_bits(c, s->b) == 64 ? 64 : 32;
}

static LlvmNumber binary(Code *c, const SymOp *s, const char *name) {
  int bits = bits_of(c, s);
  return let(c, bits, name, in(c, s->a, bits), in(c, s->b, bits));
}

static bool is_truth(const Code *c, int i) { return !is_constant(c, i) && c->number[i].bits == 1; }

/* Also of two comparisons. */
static LlvmNumber bitwise(Code *c, const SymOp *s, const char *name) {
  bool truths = is_truth(c, s->a) && is_truth(c, s->b);
  if (truths) return let(c, 1, name, c->number[s->a].name, c->number[s->b].name);
  return binary(c, s, name);
}

/* $T0 divided by the lanes of a wave, or more, follows from the number of the wave. */
static bool is_of_wave(const Code *c, const SymOp *s, int *by) {
  const SymOp *a = &c->code->ops[s->a];
  if (!c->p->wave.name || a->kind != SYM_OP_symbol || !is_constant(c, s->b)) return false;
  *by = (int)c->code->ops[s->b].value - c->p->wave_log;
  return *by >= 0 && a->sym == ir_numbered_symbol(c->p->k->cx, "$T", 0, true);
}

static LlvmNumber shift_right(Code *c, const SymOp *s) {
  int bits = operand_bits(c, s->a), by;
  if (is_of_wave(c, s, &by))
    return by ? let(c, 32, "lshr", c->p->wave.name, constant(c->p, by)) : c->p->wave;
  return let(c, bits, "ashr", in(c, s->a, bits), in(c, s->b, bits));
}

static LlvmNumber compare(Code *c, const SymOp *s, const char *how) {
  int bits = common_bits(c, s);
  const char *a = in(c, s->a, bits), *b = in(c, s->b, bits);
  const char *t = llvm_let(c->p, "icmp %s i%d %s, %s", how, bits, a, b);
  if (c->p->machine->narrow) return (LlvmNumber){t, 1};
  return (LlvmNumber){llvm_let(c->p, "zext i1 %s to i64", t), 64};
}

static LlvmNumber pick_of(Code *c, const SymOp *s, const char *how) {
  int bits = common_bits(c, s);
  const char *a = in(c, s->a, bits), *b = in(c, s->b, bits);
  const char *t = llvm_let(c->p, "icmp %s i%d %s, %s", how, bits, a, b);
  return (LlvmNumber){llvm_let(c->p, "select i1 %s, i%d %s, i%d %s", t, bits, a, bits, b), bits};
}

static LlvmNumber choose(Code *c, const SymOp *s) {
  int bits = bits_of(c, s), of = operand_bits(c, s->a);
  const char *t = is_truth(c, s->a) ? c->number[s->a].name
                                    : llvm_let(c->p, "icmp ne i%d %s, 0", of, in(c, s->a, of));
  const char *yes = in(c, s->b, bits), *no = in(c, s->c, bits);
  return (LlvmNumber){llvm_let(c->p, "select i1 %s, i%d %s, i%d %s", t, bits, yes, bits, no), bits};
}

/* Symbols of a launch may be 0 unexpectedly, and x86-64 would trap. */
static const char *never_zero(Llvm *p, const char *divisor, int bits) {
  if (*divisor != '%') return divisor;
  const char *zero = llvm_let(p, "icmp eq i%d %s, 0", bits, divisor);
  return llvm_let(p, "select i1 %s, i%d 1, i%d %s", zero, bits, bits, divisor);
}

static int division_bits(const Code *c, const SymOp *s) {
  const SymOp *ops = c->code->ops;
  if (c->p->machine->narrow) return common_bits(c, s);
  return s->bits == 32 && ops[s->a].bits == 32 && ops[s->b].bits == 32 ? 32 : 64;
}

/* Rounds down; the divisor is positive. */
static LlvmNumber divide(Code *c, const SymOp *s, bool rest) {
  Llvm *p = c->p;
  int bits = division_bits(c, s);
  const char *a = in(c, s->a, bits);
  const char *b = never_zero(p, in(c, s->b, bits), bits);
  const char *r = llvm_let(p, "srem i%d %s, %s", bits, a, b), *out;
  const char *below = llvm_let(p, "icmp slt i%d %s, 0", bits, r);
  if (rest) {
    const char *up = llvm_let(p, "add i%d %s, %s", bits, r, b);
    out = llvm_let(p, "select i1 %s, i%d %s, i%d %s", below, bits, up, bits, r);
  } else {
    const char *q = llvm_let(p, "sdiv i%d %s, %s", bits, a, b);
    const char *down = llvm_let(p, "sext i1 %s to i%d", below, bits);
    out = llvm_let(p, "add i%d %s, %s", bits, q, down);
  }
  LlvmNumber result = {out, bits};
  return p->machine->narrow ? result : (LlvmNumber){llvm_in_bits(p, result, 64), 64};
}

/* Operand i, which is not negative, in i64. */
static const char *counted(Code *c, int i) {
  LlvmNumber n = c->number[i];
  if (is_constant(c, i) || n.bits == 64) return in(c, i, 64);
  return llvm_let(c->p, "zext i%d %s to i64", n.bits, n.name);
}

/* floor(a / d) = (mulhi(a, magic) + a) >> shift; all are below 2^32, so 64 bits suffice. */
static LlvmNumber divide_by_magic(Code *c, const SymOp *s) {
  Llvm *p = c->p;
  const char *a = counted(c, s->a);
  const char *product = llvm_let(p, "mul i64 %s, %s", a, counted(c, s->b));
  const char *high = llvm_let(p, "lshr i64 %s, 32", product);
  const char *sum = llvm_let(p, "add i64 %s, %s", high, a);
  return (LlvmNumber){llvm_let(p, "lshr i64 %s, %s", sum, counted(c, s->c)), 64};
}

static LlvmNumber operation(Code *c, const SymOp *s) {
  switch (s->kind) {
  case SYM_OP_const: return (LlvmNumber){constant(c->p, s->value), 64};
  case SYM_OP_symbol: return symbol_value(c, s);
  case SYM_OP_launch: return launch_value(c, s, LLVM_VALUE);
  case SYM_OP_magic: return launch_value(c, s, LLVM_MAGIC);
  case SYM_OP_shift: return launch_value(c, s, LLVM_SHIFT);
  case SYM_OP_add: return binary(c, s, "add");
  case SYM_OP_sub: return binary(c, s, "sub");
  case SYM_OP_mul: return binary(c, s, "mul");
  case SYM_OP_shl: return binary(c, s, "shl");
  case SYM_OP_shr: return shift_right(c, s);
  case SYM_OP_and: return bitwise(c, s, "and");
  case SYM_OP_or: return bitwise(c, s, "or");
  case SYM_OP_xor: return bitwise(c, s, "xor");
  case SYM_OP_div: return divide(c, s, false);
  case SYM_OP_rem: return divide(c, s, true);
  case SYM_OP_divmagic: return divide_by_magic(c, s);
  case SYM_OP_min: return pick_of(c, s, "slt");
  case SYM_OP_max: return pick_of(c, s, "sgt");
  case SYM_OP_lt: return compare(c, s, "slt");
  case SYM_OP_le: return compare(c, s, "sle");
  case SYM_OP_eq: return compare(c, s, "eq");
  case SYM_OP_ne: return compare(c, s, "ne");
  case SYM_OP_select: return choose(c, s);
  case SYM_OP_COUNT: break;
  }
  return (LlvmNumber){"0", 64};
}

/* Symbols with one value per launch: not a counter, version, id or operand. */
static FreeSymbols uniform_symbols(Llvm *p, const Op *op, const Sym *e) {
  FreeSymbols all = sym_symbols(p->arena, e), uniform = {.at = all.at};
  for (int i = 0; i < all.n; i++) {
    const char *name = sym_name(all.at[i]);
    if (!operand_called(op, name) && !symbol_known(p, name)) uniform.at[uniform.n++] = all.at[i];
  }
  return uniform;
}

/* Values computed at launch are arguments, whose space is limited: beyond this number only symbols
 * are passed, and everything else is computed here where possible. */
enum { ENOUGH_ARGUMENTS = 128 };

static SymCode *lower(Llvm *p, const Op *op, const Sym *e) {
  SymCode *code = NULL;
  if (p->slots.n >= ENOUGH_ARGUMENTS) code = sym_code(p->arena, p->sym, p->facts, &e, 1);
  if (code) return code;
  sym_take_error(p->sym);
  FreeSymbols uniform = uniform_symbols(p, op, e);
  return sym_code_launch(p->arena, p->sym, p->facts, &e, 1, uniform.at, uniform.n);
}

/* `cut`: only the low 32 bits are needed. */
static LlvmNumber number_of(Llvm *p, const Op *op, const Sym *e, bool cut) {
  SymCode *code = lower(p, op, e);
  Code c = {.p = p, .op = op, .code = code};
  if (!code) return llvm_fail(p, op, "an expression that overflows"), (LlvmNumber){"0", 64};
  if (cut && p->machine->narrow) sym_narrow(p->arena, code);
  c.number = ARENA_ARRAY(p->arena, LlvmNumber, code->nops);
  for (int i = 0; i < code->nops; i++) c.number[i] = operation(&c, &code->ops[i]);
  return c.number[code->results[0]];
}

LlvmNumber llvm_number(Llvm *p, const Op *op, const Sym *e) { return number_of(p, op, e, false); }

const char *llvm_expr(Llvm *p, const Op *op, const Sym *e) {
  return llvm_in_bits(p, llvm_number(p, op, e), 64);
}

const char *llvm_truth(Llvm *p, const Op *op, const Sym *e) {
  LlvmNumber n = llvm_number(p, op, e);
  if (*n.name != '%') return strcmp(n.name, "0") == 0 ? "false" : "true";
  return n.bits == 1 ? n.name : llvm_let(p, "icmp ne i%d %s, 0", n.bits, n.name);
}

/* ---- ops ---- */

static void set_scalar(Llvm *p, Held *h, const char *name) {
  llvm_held_set(p, h, 1, arena_copy(p->arena, &name, sizeof name));
}

/* An integer as a value of its dtype, which can represent it. */
static void set_integer(Llvm *p, Held *h, LlvmNumber n) {
  int bits = llvm_elem_bits(h->dtype);
  if (n.bits == 1) n = (LlvmNumber){llvm_in_bits(p, n, 32), 32};
  h->wide = n;
  if (!p->machine->narrow || bits == n.bits) set_scalar(p, h, llvm_in_bits(p, n, bits));
}

void llvm_expr_op(Llvm *p, const Op *op) {
  Held *h = llvm_held_new(p, &op->results[0]);
  const Sym *e = op_attr(op, ATTR_expr)->sym;
  if (h->dtype == DTYPE_i1) set_scalar(p, h, llvm_truth(p, op, e));
  else set_integer(p, h, number_of(p, op, e, llvm_elem_bits(h->dtype) <= 32));
}

void llvm_set_symbol(Llvm *p, const Op *op) {
  llvm_define(p, op_attr(op, ATTR_version)->sym, llvm_number_of(p, op->args[0]));
}

/* LLVM writes an f32 as the double of the same value. */
const char *llvm_float_literal(Llvm *p, DType t, double v) {
  uint64_t bits = dtype_encode(t, v);
  if (llvm_elem_bits(t) < 32) return constant(p, (int64_t)bits);
  return arena_printf(p->arena, "0x%016" PRIX64, dtype_encode(DTYPE_f64, dtype_decode(t, bits)));
}

void llvm_scalar(Llvm *p, const Op *op) {
  const Attr *value = op_attr(op, ATTR_value);
  Held *h = llvm_held_new(p, &op->results[0]);
  int64_t v;
  bool is_float = dtype_is_float(h->dtype);
  if (!value->sym && is_float) set_scalar(p, h, llvm_float_literal(p, h->dtype, value->number));
  else if (value->sym && sym_is_int(value->sym, &v) && is_float)
    set_scalar(p, h, llvm_float_literal(p, h->dtype, dtype_round_int(h->dtype, DTYPE_i64, v)));
  else if (!value->sym || sym_is_int(value->sym, &v)) {
    v = dtype_from_int(h->dtype, value->sym ? v : (int64_t)value->number);
    int unused = 64 - dtype_info[h->dtype].bits; /* LLVM writes them as signed numbers */
    v = (int64_t)((uint64_t)v << unused) >> unused;
    if (h->dtype == DTYPE_i1) set_scalar(p, h, v ? "true" : "false");
    else set_scalar(p, h, constant(p, v));
  } else {
    const char *wide = llvm_expr(p, op, value->sym);
    set_scalar(p, h, llvm_cast_vector(p, DTYPE_index, h->dtype, 1, wide));
  }
}
