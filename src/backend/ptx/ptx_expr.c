/* ptx_expr.c: index expressions as integer instructions (sym_code decides which). */
#include <inttypes.h>
#include <string.h>

#include "backend/ptx/ptx_state.h"

void ptx_define(Ptx *p, const Sym *symbol, Reg reg) {
  vec_push(p->arena, &p->symbols, ((SymReg){sym_name(symbol), reg}));
}

static const Reg *symbol_reg(const Ptx *p, const char *name) {
  for (int i = p->symbols.n - 1; i >= 0; i--)
    if (strcmp(p->symbols.at[i].name, name) == 0) return &p->symbols.at[i].reg;
  return NULL;
}

/* A comparison stays a predicate until it is needed as a number. */
static Reg widen(Ptx *p, Reg r, int bits) {
  if (r.class == REG_P) {
    return ptx_let(p, bits == 64 ? REG_RD : REG_R, "selp.b%d 1, 0, %s", bits, r.name);
  }
  if ((r.class == REG_RD) == (bits == 64)) return r;
  Reg to = ptx_new(p, bits == 64 ? REG_RD : REG_R);
  ptx_line(p, bits == 64 ? "cvt.s64.s32 %s, %s" : "cvt.u32.u64 %s, %s", to.name, r.name);
  return to;
}

typedef struct Code {
  Ptx *p;
  const Op *op;
  const SymCode *code;
  const ExprRegs *args;
  Reg *reg; /* by operation */
} Code;

static Reg constant(Ptx *p, int64_t v, int bits) {
  Reg r = {arena_printf(p->arena, "%" PRId64, v), bits == 64 ? REG_RD : REG_R};
  return r;
}

/* Operand `i` of the code in `bits`; constants fit everywhere. */
static Reg in(Code *c, int i, int bits) {
  const SymOp *s = &c->code->ops[i];
  if (s->kind == SYM_OP_const)
    return constant(c->p, bits == 32 ? (int32_t)(uint32_t)s->value : s->value, bits);
  return widen(c->p, c->reg[i], bits);
}

static Reg symbol_value(Code *c, const SymOp *s) {
  Ptx *p = c->p;
  const char *name = sym_name(s->sym), *arg = "$APPLY_EXPR_ARG_";
  size_t n = strlen(arg);
  if (strncmp(name, arg, n) == 0) {
    int i = 0;
    for (const char *at = name + n; *at; at++) i = i * 10 + (*at - '0');
    return ptx_elems_of(p, ptx_get(p, c->args->args[i]))[0];
  }
  const Reg *known = symbol_reg(p, name);
  if (known) return *known;
  return ptx_argument(p, (PtxArg){.kind = PTX_VALUE, .value = s->sym, .bytes = s->bits / 8});
}

/* The width in which two operands are compared or divided; the result may be narrower than both. */
static int operand_bits(const Code *c, int i) {
  const SymOp *s = &c->code->ops[i];
  if (s->kind == SYM_OP_const) return s->value == (int32_t)s->value ? 32 : 64;
  return c->reg[i].class == REG_RD ? 64 : 32;
}

static int common_bits(const Code *c, const SymOp *s) {
  return operand_bits(c, s->a) == 64 || operand_bits(c, s->b) == 64 ? 64 : 32;
}

static void compare(Code *c, const SymOp *s, int i, const char *how) {
  int bits = common_bits(c, s);
  Reg t = ptx_new(c->p, REG_P), a = in(c, s->a, bits), b = in(c, s->b, bits);
  ptx_line(c->p, "setp.%s.s%d %s, %s, %s", how, bits, t.name, a.name, b.name);
  c->reg[i] = t;
}

static bool is_truth(const Code *c, int i) {
  return c->code->ops[i].kind != SYM_OP_const && c->reg[i].class == REG_P;
}

/* Combines two comparisons: and, or, xor. */
static void connect(Code *c, const SymOp *s, int i, const char *name) {
  Reg t = ptx_let(c->p, REG_P, "%s.pred %s, %s", name, c->reg[s->a].name, c->reg[s->b].name);
  c->reg[i] = t;
}

/* $T0 divided by 32 or more is derived from the wave's number. */
static bool shift_wave(Code *c, const SymOp *s, int i) {
  Ptx *p = c->p;
  const SymOp *a = &c->code->ops[s->a], *b = &c->code->ops[s->b];
  bool of_wave = s->kind == SYM_OP_shr && a->kind == SYM_OP_symbol && b->kind == SYM_OP_const &&
                 b->value >= 5 && a->sym == ir_numbered_symbol(p->k->cx, "$T", 0, true);
  if (!of_wave || !p->wave.name) return false;
  int by = (int)b->value - 5;
  Reg out = by ? ptx_let(p, REG_R, "shr.u32 %s, %d", p->wave.name, by) : p->wave;
  c->reg[i] = out;
  return true;
}

static void binary(Code *c, const SymOp *s, int i, const char *name, const char *type) {
  if (shift_wave(c, s, i)) return;
  bool whole = s->kind == SYM_OP_min || s->kind == SYM_OP_max;
  bool shift = s->kind == SYM_OP_shl || s->kind == SYM_OP_shr;
  int bits = whole ? common_bits(c, s) : s->kind == SYM_OP_shr ? operand_bits(c, s->a) : s->bits;
  if (*type == 'b' && is_truth(c, s->a) && is_truth(c, s->b)) {
    connect(c, s, i, name);
    return;
  }
  Reg out = ptx_new(c->p, bits == 64 ? REG_RD : REG_R), a = in(c, s->a, bits);
  Reg b = in(c, s->b, shift ? 32 : bits);
  ptx_line(c->p, "%s.%s%d %s, %s, %s", name, type, bits, out.name, a.name, b.name);
  c->reg[i] = out;
}

static bool is_product(const Code *c, int i) {
  const SymOp *s = &c->code->ops[i], *ops = c->code->ops;
  return s->kind == SYM_OP_mul && ops[s->a].kind != SYM_OP_const && ops[s->b].kind != SYM_OP_const;
}

/* Only shift_factor uses it. */
static bool is_only_shifted(const Code *c, int i) {
  bool used = false;
  for (int j = i + 1; j < c->code->nops; j++) {
    const SymOp *s = &c->code->ops[j];
    if (s->kind == SYM_OP_const || (s->a != i && s->b != i && s->c != i)) continue;
    if (s->kind != SYM_OP_shl || s->a != i) return false;
    used = true;
  }
  return used && is_product(c, i) && c->code->results[0] != i;
}

/* x*y << n as x*(y << n). ptxas does this itself, and version 13.0 confuses t & 3 scaled by 4 with
 * t & 3 scaled by 2 where both 4*x*(t & 3) and 2*y*(t & 3) are computed (tests/ptx/scaled). */
static void shift_factor(Code *c, const SymOp *s, int i) {
  Ptx *p = c->p;
  const SymOp *of = &c->code->ops[s->a];
  bool left = c->code->ops[of->b].kind == SYM_OP_launch; /* it does not confuse arguments */
  RegClass class = s->bits == 64 ? REG_RD : REG_R;
  Reg other = in(c, left ? of->b : of->a, s->bits), factor = in(c, left ? of->a : of->b, s->bits);
  Reg shifted = ptx_new(p, class), out = ptx_new(p, class);
  ptx_line(p, "shl.b%d %s, %s, %" PRId64, s->bits, shifted.name, factor.name,
           c->code->ops[s->b].value);
  ptx_line(p, "mul.lo.s%d %s, %s, %s", s->bits, out.name, other.name, shifted.name);
  c->reg[i] = out;
}

/* floor(2**(bits - 1 + log) / d) + 1 for a d between 2**(log - 1) and 2**log that is not a power of
 * two: a number of `bits` bits. Computed digit by digit, because the numerator has twice as
 * many. */
static uint64_t magic_of(uint64_t d, int bits, int log) {
  uint64_t q = 0, rest = 0;
  for (int i = bits - 1 + log; i >= 0; i--) {
    bool carry = rest >> 63;
    rest = rest << 1 | (i == bits - 1 + log);
    q <<= 1;
    if (carry || rest >= d) rest -= d, q |= 1;
  }
  return q + 1;
}

/* Division by a constant without a division instruction: for a >= 0, floor(a / d) is the upper half
 * of a times magic_of(d), shifted; a negative one is mirrored at -1/2, and so is its quotient. */
static void divide_by_constant(Code *c, const SymOp *s, int i, uint64_t d, bool rest) {
  Ptx *p = c->p;
  int bits = common_bits(c, s), log = 1;
  while ((uint64_t)1 << log < d) log++;
  RegClass class = bits == 64 ? REG_RD : REG_R;
  Reg a = in(c, s->a, bits), sign = ptx_new(p, class), m = ptx_new(p, class);
  Reg q = ptx_new(p, class), out = q;
  ptx_line(p, "shr.s%d %s, %s, %d", bits, sign.name, a.name, bits - 1);
  ptx_line(p, "xor.b%d %s, %s, %s", bits, m.name, a.name, sign.name);
  ptx_line(p, "mul.hi.u%d %s, %s, 0x%" PRIx64, bits, q.name, m.name, magic_of(d, bits, log));
  if (log > 1) ptx_line(p, "shr.u%d %s, %s, %d", bits, q.name, q.name, log - 1);
  ptx_line(p, "xor.b%d %s, %s, %s", bits, q.name, q.name, sign.name);
  if (rest) {
    out = ptx_new(p, class);
    ptx_line(p, "mad.lo.s%d %s, %s, -%" PRIu64 ", %s", bits, out.name, q.name, d, a.name);
  }
  c->reg[i] = out;
}

/* Rounds down; the divisor is positive. */
static void divide(Code *c, const SymOp *s, int i, bool rest) {
  Ptx *p = c->p;
  int bits = common_bits(c, s);
  const SymOp *by = &c->code->ops[s->b];
  bool fits = by->kind == SYM_OP_const && by->value > 2 && (bits == 64 || by->value <= INT32_MAX);
  if (fits && (by->value & (by->value - 1))) {
    divide_by_constant(c, s, i, (uint64_t)by->value, rest);
    return;
  }
  RegClass class = bits == 64 ? REG_RD : REG_R;
  Reg a = in(c, s->a, bits), b = in(c, s->b, bits), q = ptx_new(p, class), r = ptx_new(p, class);
  Reg t = ptx_new(p, REG_P), less = ptx_new(p, class), out = ptx_new(p, class);
  ptx_line(p, "div.s%d %s, %s, %s", bits, q.name, a.name, b.name);
  ptx_line(p, "mul.lo.s%d %s, %s, %s", bits, r.name, q.name, b.name);
  ptx_line(p, "sub.s%d %s, %s, %s", bits, r.name, a.name, r.name);
  ptx_line(p, "setp.lt.s%d %s, %s, 0", bits, t.name, r.name);
  ptx_line(p, "add.s%d %s, %s, %s", bits, less.name, rest ? r.name : q.name, rest ? b.name : "-1");
  ptx_line(p, "selp.b%d %s, %s, %s, %s", bits, out.name, less.name, rest ? r.name : q.name, t.name);
  c->reg[i] = out;
}

/* floor(a / d) = (mulhi(a, magic) + a) >> shift in 33 bits: add, carry, shift by 64-bit registers.
 */
static void divide_by_magic(Code *c, const SymOp *s, int i) {
  Ptx *p = c->p;
  Reg a = in(c, s->a, 32), m = in(c, s->b, 32), shift = in(c, s->c, 32);
  Reg wide = ptx_new(p, REG_RD), sum = ptx_new(p, REG_RD), out = ptx_new(p, REG_R);
  Reg high = ptx_new(p, REG_R), high64 = ptx_new(p, REG_RD);
  ptx_line(p, "mul.hi.u32 %s, %s, %s", high.name, a.name, m.name);
  ptx_line(p, "cvt.u64.u32 %s, %s", high64.name, high.name);
  ptx_line(p, "cvt.u64.u32 %s, %s", wide.name, a.name);
  ptx_line(p, "add.u64 %s, %s, %s", sum.name, wide.name, high64.name);
  ptx_line(p, "shr.u64 %s, %s, %s", sum.name, sum.name, shift.name);
  ptx_line(p, "cvt.u32.u64 %s, %s", out.name, sum.name);
  c->reg[i] = out;
}

/* Operand i as a predicate. */
static Reg truth_of(Code *c, int i) {
  int bits = operand_bits(c, i);
  if (is_truth(c, i)) return c->reg[i];
  Reg t = ptx_new(c->p, REG_P), r = in(c, i, bits);
  ptx_line(c->p, "setp.ne.s%d %s, %s, 0", bits, t.name, r.name);
  return t;
}

static void choose(Code *c, const SymOp *s, int i) {
  int bits = s->bits;
  Reg t = truth_of(c, s->a), out = ptx_new(c->p, bits == 64 ? REG_RD : REG_R);
  Reg yes = in(c, s->b, bits), no = in(c, s->c, bits);
  ptx_line(c->p, "selp.b%d %s, %s, %s, %s", bits, out.name, yes.name, no.name, t.name);
  c->reg[i] = out;
}

static Reg launch_value(Code *c, const SymOp *s, PtxArgKind kind) {
  return ptx_argument(c->p, (PtxArg){.kind = kind, .value = s->sym, .bytes = s->bits / 8});
}

static void operation(Code *c, int i) {
  const SymOp *s = &c->code->ops[i];
  switch (s->kind) {
  case SYM_OP_const: break;
  case SYM_OP_symbol: c->reg[i] = symbol_value(c, s); break;
  case SYM_OP_launch: c->reg[i] = launch_value(c, s, PTX_VALUE); break;
  case SYM_OP_magic: c->reg[i] = launch_value(c, s, PTX_MAGIC); break;
  case SYM_OP_shift: c->reg[i] = launch_value(c, s, PTX_SHIFT); break;
  case SYM_OP_add: binary(c, s, i, "add", "s"); break;
  case SYM_OP_sub: binary(c, s, i, "sub", "s"); break;
  case SYM_OP_mul:
    if (!is_only_shifted(c, i)) binary(c, s, i, "mul.lo", "s");
    break;
  case SYM_OP_shl:
    if (is_product(c, s->a)) shift_factor(c, s, i);
    else binary(c, s, i, "shl", "b");
    break;
  case SYM_OP_shr: binary(c, s, i, "shr", "s"); break;
  case SYM_OP_and: binary(c, s, i, "and", "b"); break;
  case SYM_OP_or: binary(c, s, i, "or", "b"); break;
  case SYM_OP_xor: binary(c, s, i, "xor", "b"); break;
  case SYM_OP_div: divide(c, s, i, false); break;
  case SYM_OP_rem: divide(c, s, i, true); break;
  case SYM_OP_divmagic: divide_by_magic(c, s, i); break;
  case SYM_OP_min: binary(c, s, i, "min", "s"); break;
  case SYM_OP_max: binary(c, s, i, "max", "s"); break;
  case SYM_OP_lt: compare(c, s, i, "lt"); break;
  case SYM_OP_le: compare(c, s, i, "le"); break;
  case SYM_OP_eq: compare(c, s, i, "eq"); break;
  case SYM_OP_ne: compare(c, s, i, "ne"); break;
  case SYM_OP_select: choose(c, s, i); break;
  case SYM_OP_COUNT: break;
  }
}

/* Symbols with one value per launch: not a counter, version, id or operand. */
static FreeSymbols uniform_symbols(Ptx *p, const Sym *e) {
  FreeSymbols all = sym_symbols(p->arena, e), uniform = {.at = all.at};
  for (int i = 0; i < all.n; i++) {
    const char *name = sym_name(all.at[i]);
    if (strncmp(name, "$APPLY", 6) != 0 && !symbol_reg(p, name))
      uniform.at[uniform.n++] = all.at[i];
  }
  return uniform;
}

/* Values computed at launch are arguments, whose space is limited: beyond this number only symbols
 * are passed, and everything else is computed here where possible. */
enum { ENOUGH_ARGUMENTS = 128 };

static SymCode *lower(Ptx *p, const Sym *e, const SymFacts *f) {
  SymCode *code = NULL;
  if (p->args.n >= ENOUGH_ARGUMENTS) code = sym_code(p->arena, p->sym, f, &e, 1);
  if (code) return code;
  sym_take_error(p->sym);
  FreeSymbols uniform = uniform_symbols(p, e);
  return sym_code_launch(p->arena, p->sym, f, &e, 1, uniform.at, uniform.n);
}

/* What holds here, and the ranges of operands. */
static const SymFacts *facts_with(Ptx *p, const ExprRegs *args) {
  SymFacts *f = NULL;
  for (int i = 0; args && i < args->nargs; i++) {
    const SymRange *r = p->ranges[args->args[i]->id];
    if (!r) continue;
    if (!f) f = sym_facts_new(p->arena, p->sym, p->facts);
    for (int nonneg = r->lo < 0 ? 0 : 1; nonneg >= 0; nonneg--)
      sym_assume_range(f, ir_numbered_symbol(p->k->cx, "$APPLY_EXPR_ARG_", i, nonneg), r->lo,
                       r->hi);
  }
  return f ? f : p->facts;
}

const SymRange *ptx_range(Ptx *p, const Sym *e, DType dtype, const ExprRegs *args) {
  if (dtype != DTYPE_i32 && dtype != DTYPE_index) return NULL;
  SymRange *r = ARENA_NEW(p->arena, SymRange);
  *r = sym_range(p->sym, facts_with(p, args), e);
  return r->lo >= INT32_MIN && r->hi <= INT32_MAX && r->lo <= r->hi ? r : NULL;
}

Reg ptx_expr(Ptx *p, const Op *op, const Sym *e, DType dtype, const ExprRegs *args) {
  Code c = {.p = p, .op = op, .args = args};
  SymCode *code = lower(p, e, facts_with(p, args));
  c.code = code;
  if (!c.code) return ptx_fail(p, op, "an expression that overflows"), constant(p, 0, 32);
  if (dtype != DTYPE_i1 && dtype_info[dtype].bits <= 32) sym_narrow(p->arena, code);
  c.reg = ARENA_ARRAY(p->arena, Reg, c.code->nops);
  int bits = dtype_info[dtype].bits == 64 ? 64 : 32, last = c.code->results[0];
  for (int i = 0; i < c.code->nops; i++) operation(&c, i);
  if (dtype == DTYPE_i1) return truth_of(&c, last);
  Reg r = in(&c, last, bits), out = r;
  if (c.code->ops[last].kind != SYM_OP_const) return r;
  out = ptx_new(p, bits == 64 ? REG_RD : REG_R);
  ptx_line(p, "mov.b%d %s, %s", bits, out.name, r.name);
  return out;
}
