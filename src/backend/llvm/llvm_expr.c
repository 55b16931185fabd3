/* llvm_expr.c: index expressions as integer instructions (sym_code decides which).
 *
 * Everything is computed in 64 bits: registers are that wide anyway, and addresses need no
 * extension. Only divisions use 32 bits if both operands fit, because they are faster. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/llvm/llvm_state.h"
#include "ir/dtype.h"

void llvm_define(Llvm *p, const Sym *symbol, const char *name) {
  vec_push(p->arena, &p->symbols, ((SymName){sym_name(symbol), name}));
}

static const char *symbol_known(const Llvm *p, const char *symbol) {
  for (int i = p->symbols.n - 1; i >= 0; i--)
    if (strcmp(p->symbols.at[i].symbol, symbol) == 0) return p->symbols.at[i].name;
  return NULL;
}

typedef struct Code {
  Llvm *p;
  const Op *op;
  const SymCode *code;
  const char **name; /* by operation */
} Code;

static const char *constant(Llvm *p, int64_t v) { return arena_printf(p->arena, "%" PRId64, v); }

/* The operand that $APPLY_EXPR_ARG_i stands for; NULL: it is another symbol. */
static const Value *operand_called(const Op *op, const char *name) {
  int i;
  char end;
  if (sscanf(name, "$APPLY_EXPR_ARG_%d%c", &i, &end) != 1) return NULL;
  return i >= 0 && i < op->nargs ? op->args[i] : NULL;
}

static const char *symbol_value(Code *c, const SymOp *s) {
  const Value *operand = operand_called(c->op, sym_name(s->sym));
  if (operand) return llvm_index_of(c->p, operand);
  const char *known = symbol_known(c->p, sym_name(s->sym));
  return known ? known : llvm_slot(c->p, (LlvmSlot){.kind = LLVM_VALUE, .value = s->sym});
}

static const char *binary(Code *c, const SymOp *s, const char *name) {
  return llvm_let(c->p, "%s i64 %s, %s", name, c->name[s->a], c->name[s->b]);
}

static const char *compare(Code *c, const SymOp *s, const char *how) {
  const char *t = llvm_let(c->p, "icmp %s i64 %s, %s", how, c->name[s->a], c->name[s->b]);
  return llvm_let(c->p, "zext i1 %s to i64", t);
}

static const char *pick_of(Code *c, const SymOp *s, const char *how) {
  const char *t = llvm_let(c->p, "icmp %s i64 %s, %s", how, c->name[s->a], c->name[s->b]);
  return llvm_let(c->p, "select i1 %s, i64 %s, i64 %s", t, c->name[s->a], c->name[s->b]);
}

static const char *choose(Code *c, const SymOp *s) {
  const char *t = llvm_let(c->p, "icmp ne i64 %s, 0", c->name[s->a]);
  return llvm_let(c->p, "select i1 %s, i64 %s, i64 %s", t, c->name[s->b], c->name[s->c]);
}

static const char *in_bits(Llvm *p, const char *name, int bits) {
  if (bits == 64 || *name != '%') return name;
  return llvm_let(p, "trunc i64 %s to i%d", name, bits);
}

/* Symbols of a launch may be 0 unexpectedly, and x86-64 would trap. */
static const char *never_zero(Llvm *p, const char *divisor, int bits) {
  if (*divisor != '%') return divisor;
  const char *zero = llvm_let(p, "icmp eq i%d %s, 0", bits, divisor);
  return llvm_let(p, "select i1 %s, i%d 1, i%d %s", zero, bits, bits, divisor);
}

/* Rounds down; the divisor is positive. */
static const char *divide(Code *c, const SymOp *s, bool rest) {
  Llvm *p = c->p;
  const SymOp *ops = c->code->ops;
  int bits = s->bits == 32 && ops[s->a].bits == 32 && ops[s->b].bits == 32 ? 32 : 64;
  const char *a = in_bits(p, c->name[s->a], bits);
  const char *b = never_zero(p, in_bits(p, c->name[s->b], bits), bits);
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
  return bits == 64 ? out : llvm_let(p, "sext i32 %s to i64", out);
}

/* floor(a / d) = (mulhi(a, magic) + a) >> shift; all are below 2^32, so 64 bits suffice. */
static const char *divide_by_magic(Code *c, const SymOp *s) {
  Llvm *p = c->p;
  const char *a = c->name[s->a];
  const char *product = llvm_let(p, "mul i64 %s, %s", a, c->name[s->b]);
  const char *high = llvm_let(p, "lshr i64 %s, 32", product);
  const char *sum = llvm_let(p, "add i64 %s, %s", high, a);
  return llvm_let(p, "lshr i64 %s, %s", sum, c->name[s->c]);
}

static const char *operation(Code *c, const SymOp *s) {
  Llvm *p = c->p;
  switch (s->kind) {
  case SYM_OP_const: return constant(p, s->value);
  case SYM_OP_symbol: return symbol_value(c, s);
  case SYM_OP_launch: return llvm_slot(p, (LlvmSlot){.kind = LLVM_VALUE, .value = s->sym});
  case SYM_OP_magic: return llvm_slot(p, (LlvmSlot){.kind = LLVM_MAGIC, .value = s->sym});
  case SYM_OP_shift: return llvm_slot(p, (LlvmSlot){.kind = LLVM_SHIFT, .value = s->sym});
  case SYM_OP_add: return binary(c, s, "add");
  case SYM_OP_sub: return binary(c, s, "sub");
  case SYM_OP_mul: return binary(c, s, "mul");
  case SYM_OP_shl: return binary(c, s, "shl");
  case SYM_OP_shr: return binary(c, s, "ashr");
  case SYM_OP_and: return binary(c, s, "and");
  case SYM_OP_or: return binary(c, s, "or");
  case SYM_OP_xor: return binary(c, s, "xor");
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
  return "0";
}

/* Symbols with one value per launch: not a counter, version, id or operand. */
static int uniform_symbols(Llvm *p, const Op *op, const Sym *e, const Sym ***out) {
  int n = sym_free_symbols(e, NULL, 0), found = 0;
  const Sym **all = ARENA_ARRAY(p->arena, const Sym *, n + 1);
  sym_free_symbols(e, all, n);
  for (int i = 0; i < n; i++) {
    const char *name = sym_name(all[i]);
    if (!operand_called(op, name) && !symbol_known(p, name)) all[found++] = all[i];
  }
  *out = all;
  return found;
}

/* Values computed at launch are arguments, whose space is limited: beyond this number only symbols
 * are passed, and everything else is computed here where possible. */
enum { ENOUGH_ARGUMENTS = 128 };

static const SymCode *lower(Llvm *p, const Op *op, const Sym *e) {
  const Sym **uniform;
  const SymCode *code = NULL;
  if (p->slots.n >= ENOUGH_ARGUMENTS) code = sym_code(p->arena, p->sym, p->facts, &e, 1);
  if (code) return code;
  sym_take_error(p->sym);
  int n = uniform_symbols(p, op, e, &uniform);
  return sym_code_launch(p->arena, p->sym, p->facts, &e, 1, uniform, n);
}

const char *llvm_expr(Llvm *p, const Op *op, const Sym *e) {
  Code c = {.p = p, .op = op, .code = lower(p, op, e)};
  if (!c.code) return llvm_fail(p, op, "an expression that overflows"), "0";
  c.name = ARENA_ARRAY(p->arena, const char *, c.code->nops);
  for (int i = 0; i < c.code->nops; i++) c.name[i] = operation(&c, &c.code->ops[i]);
  return c.name[c.code->results[0]];
}

const char *llvm_truth(Llvm *p, const Op *op, const Sym *e) {
  const char *value = llvm_expr(p, op, e);
  if (*value != '%') return strcmp(value, "0") == 0 ? "false" : "true";
  return llvm_let(p, "icmp ne i64 %s, 0", value);
}

/* ---- ops ---- */

static void set_scalar(Llvm *p, Held *h, const char *name) {
  llvm_held_set(p, h, 1, arena_copy(p->arena, &name, sizeof name));
}

/* An integer in i64 as a value of its dtype, which can represent it. */
static void set_integer(Llvm *p, Held *h, const char *value) {
  h->wide = value;
  int bits = llvm_elem_bits(h->dtype);
  set_scalar(p, h, in_bits(p, value, bits));
}

void llvm_expr_op(Llvm *p, const Op *op) {
  Held *h = llvm_held_new(p, &op->results[0]);
  const Sym *e = op_attr(op, ATTR_expr)->sym;
  if (h->dtype == DTYPE_i1) set_scalar(p, h, llvm_truth(p, op, e));
  else set_integer(p, h, llvm_expr(p, op, e));
}

void llvm_set_symbol(Llvm *p, const Op *op) {
  llvm_define(p, op_attr(op, ATTR_version)->sym, llvm_index_of(p, op->args[0]));
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
