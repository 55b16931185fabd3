/* amd_math.c: elementwise ops with instructions of their own (amd.def), and the reduction of large
 * arguments of sine and cosine. */
#include <inttypes.h>

#include "backend/amd/amd_state.h"

const char *const amd_f32_templates[OP_COUNT] = {
#define AMD_F32(op, text) [OP_##op] = text,
#define AMD_FAST(op, text)
#include "backend/amd/amd.def"
};

const char *const amd_fast_templates[OP_COUNT] = {
#define AMD_F32(op, text)
#define AMD_FAST(op, text) [OP_##op] = text,
#include "backend/amd/amd.def"
};

/* ---- quarter turns ---- */

/* Vectors of n elements. */
typedef struct Turn {
  Llvm *p;
  int n;
  const char *i32, *i64, *f32, *f64, *truth; /* types */
} Turn;

static const char *word(Turn *t, uint64_t v) {
  return llvm_splat_of(t->p, "i32", arena_printf(t->p->arena, "%" PRId32, (int32_t)v), t->n);
}

static const char *whole(Turn *t, int64_t v) {
  return llvm_splat_of(t->p, "i64", arena_printf(t->p->arena, "%" PRId64, v), t->n);
}

static const char *op32(Turn *t, const char *op, const char *a, const char *b) {
  return llvm_let(t->p, "%s %s %s, %s", op, t->i32, a, b);
}

static const char *op64(Turn *t, const char *op, const char *a, const char *b) {
  return llvm_let(t->p, "%s %s %s, %s", op, t->i64, a, b);
}

static const char *widened(Turn *t, const char *v) {
  return llvm_let(t->p, "zext %s %s to %s", t->i32, v, t->i64);
}

/* Whether a bit is set. */
static const char *is_set(Turn *t, const char *v, int bit) {
  const char *one = op32(t, "and", v, word(t, UINT64_C(1) << bit));
  return llvm_let(t->p, "icmp ne %s %s, %s", t->i32, one, word(t, 0));
}

static const char *choose(Turn *t, const char *test, const char *yes, const char *no) {
  return llvm_let(t->p, "select %s %s, %s %s, %s %s", t->truth, test, t->i32, yes, t->i32, no);
}

/* The bits of 2/pi from position 32 * number on, of which `high` and `low` select the row: two bits
 * of the exponent. */
static const char *bits_of_quotient(Turn *t, const char *low, const char *high, int number) {
  static const uint32_t table[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                   0xf534ddc0, 0xdb629599, 0x3c439041};
  const char *a = choose(t, low, word(t, table[number + 1]), word(t, table[number]));
  const char *b = choose(t, low, word(t, table[number + 3]), word(t, table[number + 2]));
  return choose(t, high, b, a);
}

/* The high word of (a, b) << by, modulo 32. */
static const char *funnel(Turn *t, const char *a, const char *b, const char *by) {
  Llvm *p = t->p;
  const char *name = arena_printf(p->arena, "llvm.fshl.%s", llvm_suffix(p, "i32", t->n));
  return llvm_call(p, t->i32, name, arena_printf(p->arena, "%s, %s, %s", t->i32, t->i32, t->i32),
                   arena_printf(p->arena, "%s %s, %s %s, %s %s", t->i32, a, t->i32, b, t->i32, by));
}

/* The mantissa of a float times the bits of 2/pi that matter, in units of 2^-62 quarter turns,
 * modulo 4. `bits`: of its magnitude. */
static const char *quarter_turns(Turn *t, const char *bits) {
  const char *mantissa = op32(t, "or", op32(t, "shl", bits, word(t, 8)), word(t, 0x80000000u));
  const char *exponent = op32(t, "lshr", bits, word(t, 23)), *row[4], *at[3];
  const char *low = is_set(t, exponent, 5), *high = is_set(t, exponent, 6);
  for (int i = 0; i < 4; i++) row[i] = bits_of_quotient(t, low, high, i);
  for (int i = 0; i < 3; i++) at[i] = widened(t, funnel(t, row[i], row[i + 1], exponent));
  mantissa = widened(t, mantissa);
  const char *first = op64(t, "shl", op64(t, "mul", mantissa, at[0]), whole(t, 32));
  const char *last = op64(t, "lshr", op64(t, "mul", mantissa, at[2]), whole(t, 32));
  return op64(t, "add", op64(t, "add", first, op64(t, "mul", mantissa, at[1])), last);
}

/* The table begins where exponents do not fit into seven bits: angles below that stay as they
 * are. */
static const char *is_near(Turn *t, const char *x) {
  Llvm *p = t->p;
  const char *name = arena_printf(p->arena, "llvm.fabs.%s", llvm_suffix(p, "double", t->n));
  const char *size = llvm_call(p, t->f64, name, t->f64, arena_printf(p->arena, "%s %s", t->f64, x));
  const char *limit = llvm_splat_of(p, "double", llvm_float_literal(p, DTYPE_f64, 65536), t->n);
  return llvm_let(p, "fcmp olt %s %s, %s", t->f64, size, limit);
}

/* An angle with the same sine and cosine as x, which is a float: of one turn if x is large. */
const char *amd_reduce_angle(Llvm *p, int n, const char *x) {
  Turn t = {p,
            n,
            llvm_vec_type(p, "i32", n),
            llvm_vec_type(p, "i64", n),
            llvm_vec_type(p, "float", n),
            llvm_vec_type(p, "double", n),
            llvm_vec_type(p, "i1", n)};
  const char *small = llvm_let(p, "fptrunc %s %s to %s", t.f64, x, t.f32);
  const char *bits = llvm_let(p, "bitcast %s %s to %s", t.f32, small, t.i32);
  const char *turns = quarter_turns(&t, op32(&t, "and", bits, word(&t, 0x7fffffff)));
  const char *angle = llvm_let(p, "sitofp %s %s to %s", t.i64, turns, t.f64);
  const char *unit = llvm_float_literal(p, DTYPE_f64, 0x1.921fb54442d18p-62);
  angle = llvm_let(p, "fmul %s %s, %s", t.f64, angle, llvm_splat_of(p, "double", unit, n));
  const char *minus = llvm_let(p, "fneg %s %s", t.f64, angle);
  const char *below = llvm_let(p, "fcmp olt %s %s, zeroinitializer", t.f64, x);
  angle = llvm_let(p, "select %s %s, %s %s, %s %s", t.truth, below, t.f64, minus, t.f64, angle);
  const char *nothing = llvm_let(p, "fsub %s %s, %s", t.f64, x, x); /* NaN for infinities */
  angle = llvm_let(p, "fadd %s %s, %s", t.f64, angle, nothing);
  return llvm_let(p, "select %s %s, %s %s, %s %s", t.truth, is_near(&t, x), t.f64, x, t.f64, angle);
}
