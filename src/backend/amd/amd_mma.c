/* amd_mma.c: matrix instructions: MFMA and WMMA.
 *
 * LLVM moves a WMMA, with what computes its operands, into a branch in which only some lanes use
 * its result; the lanes that do not enter the branch then contribute nothing. The result therefore
 * passes through an empty assembly statement with side effects, which stays where it is. */
#include <inttypes.h>
#include <string.h>

#include "backend/amd/amd_state.h"
#include "ir/dtype.h"
#include "target/mma.h"

/* What an intrinsic takes besides the fragments. */
typedef enum Shape {
  MFMA,     /* a, b, c, three numbers */
  WMMA,     /* a, b, c */
  WMMA_INT, /* sign, a, sign, b, c, clamp */
} Shape;

typedef struct WaveMma {
  Llvm *p;
  const MmaInfo *row;
  Shape shape;
  const char *name;             /* of the intrinsic */
  const char *operand[2], *sum; /* types in the intrinsic */
  Held *a, *b, *acc;
  int each[3];   /* elements of a fragment */
  int slices;    /* instructions of a virtual row */
  int copies[3]; /* of fragments, along m, n and k */
} WaveMma;

/* ---- the intrinsic ---- */

static const char *spelling(DType t) {
  switch (t) {
  case DTYPE_f16: return "f16";
  case DTYPE_bf16: return "bf16.1k";
  case DTYPE_f8e4m3fn:
  case DTYPE_f8e4m3fnuz: return "fp8";
  case DTYPE_f8e5m2:
  case DTYPE_f8e5m2fnuz: return "bf8";
  default: return "";
  }
}

static const char *intrinsic(Llvm *p, const MmaInfo *row, DType a, DType b) {
  StrBuf out = {.arena = p->arena};
  sb_puts(&out, "llvm.amdgcn.");
  for (const char *at = row->emit; *at; at++) {
    if (*at != '%') sb_putc(&out, *at);
    else sb_puts(&out, spelling(*++at == 'b' ? b : a));
  }
  return sb_text(&out);
}

/* A fragment of an operand, as the intrinsic takes it: f16 as such, bf16 as i16, except where the
 * intrinsic names the type; bytes in words. */
static const char *operand_type(Llvm *p, const MmaInfo *row, DType t, int n) {
  bool wmma = strncmp(row->emit, "wmma", 4) == 0;
  if (t == DTYPE_f16) return llvm_vec_type(p, "half", n);
  if (t == DTYPE_bf16 && target_has(p->amd->target, FEATURE_MFMA_K32) && n == 8)
    return llvm_vec_type(p, "bfloat", n);
  if (llvm_elem_bits(t) >= 16) return llvm_held_type(p, t, n);
  if (wmma) return llvm_vec_type(p, "i32", n / 4);
  return n == 4 ? "i32" : "i64";
}

static int fragment_size(const MmaInfo *row, MmaOperand part) {
  Layout l;
  return mma_fragment(row, part, &l) ? layout_size(&l, LAYOUT_REG) : 0;
}

/* The row of the instruction that a virtual one consists of: the same intrinsic. */
static const MmaInfo *native_row(const MmaInfo *row) {
  const MmaInfo *at;
  for (int i = 0; row->form == MMA_VIRTUAL && (at = mma_at(i)); i++)
    if (at->form == MMA_NATIVE && at->emit && strcmp(at->emit, row->emit) == 0) return at;
  return row;
}

/* ---- one instruction ---- */

static const char *recast(Llvm *p, const char *from, const char *v, const char *to) {
  return strcmp(from, to) == 0 ? v : llvm_let(p, "bitcast %s %s to %s", from, v, to);
}

/* Slice number `i` of an operand. */
static const char *fragment(const WaveMma *w, int which, int i) {
  Held *h = which ? w->b : w->a;
  int n = w->each[which];
  return recast(w->p, llvm_held_type(w->p, h->dtype, n), llvm_parts_of(w->p, h, n)[i],
                w->operand[which]);
}

static const char *call_product(const WaveMma *w, const char *a, const char *b, const char *c) {
  Llvm *p = w->p;
  const char *ta = w->operand[0], *tb = w->operand[1], *tc = w->sum;
  switch (w->shape) {
  case MFMA:
    return llvm_call(
        p, tc, w->name, arena_printf(p->arena, "%s, %s, %s, i32, i32, i32", ta, tb, tc),
        arena_printf(p->arena, "%s %s, %s %s, %s %s, i32 0, i32 0, i32 0", ta, a, tb, b, tc, c));
  case WMMA:
    return llvm_call(p, tc, w->name, arena_printf(p->arena, "%s, %s, %s", ta, tb, tc),
                     arena_printf(p->arena, "%s %s, %s %s, %s %s", ta, a, tb, b, tc, c));
  case WMMA_INT:
    return llvm_call(p, tc, w->name, arena_printf(p->arena, "i1, %s, i1, %s, %s, i1", ta, tb, tc),
                     arena_printf(p->arena, "i1 true, %s %s, i1 true, %s %s, %s %s, i1 false", ta,
                                  a, tb, b, tc, c));
  }
  return c;
}

/* Keeps the product where it is. */
static const char *pinned(const WaveMma *w, const char *v) {
  if (w->shape == MFMA) return v;
  return llvm_let(w->p, "call %s asm sideeffect \"\", \"=v,0\"(%s %s)", w->sum, w->sum, v);
}

/* Adds step k of all products. Sums that do not depend on each other follow each other. */
static void add_products(const WaveMma *w, int k, const char **sum) {
  int all = w->copies[2] * w->slices;
  for (int m = 0; m < w->copies[0]; m++)
    for (int n = 0; n < w->copies[1]; n++) {
      const char *a = fragment(w, 0, m * all + k), *b = fragment(w, 1, n * all + k);
      const char **c = &sum[m * w->copies[1] + n];
      *c = call_product(w, a, b, *c);
    }
}

/* ---- the op ---- */

static bool check_row(Llvm *p, const Op *op, const MmaInfo *row) {
  DType a = op->args[0]->type->dtype, b = op->args[1]->type->dtype, c = op->args[2]->type->dtype;
  unsigned types = row ? target_mma_types(p->amd->target, row) : 0;
  bool fits = row && row->emit && op->nargs == 3 && target_has_mma(p->amd->target, row) &&
              (types & (unsigned)dtype_mma(a)) && (types & (unsigned)dtype_mma(b)) &&
              (row->mixed || a == b) && (row->acc_types & (unsigned)dtype_mma(c)) &&
              row->form != MMA_SCALED && !target_has(p->amd->target, FEATURE_WMMA_1250);
  return fits || llvm_fail(p, op, "this matrix instruction");
}

static bool open_product(WaveMma *w, const Op *op) {
  const Attr *copies = op_attr(op, ATTR_copies);
  const MmaInfo *native = native_row(w->row);
  Llvm *p = w->p;
  for (int i = 0; i < 3; i++) {
    w->copies[i] = copies ? (int)copies->ints[i] : 1;
    w->each[i] = fragment_size(native, (MmaOperand)i);
  }
  w->slices = fragment_size(w->row, MMA_A) / w->each[0];
  w->a = llvm_held_get(p, op->args[0]), w->b = llvm_held_get(p, op->args[1]);
  w->acc = llvm_held_get(p, op->args[2]);
  int64_t k = (int64_t)w->copies[2] * w->slices;
  if (w->a->n != w->copies[0] * k * w->each[0] || w->b->n != w->copies[1] * k * w->each[1] ||
      w->acc->n != (int64_t)w->copies[0] * w->copies[1] * w->each[2])
    return llvm_fail(p, op, "this many copies");
  bool wmma = strncmp(w->row->emit, "wmma", 4) == 0, integers = w->acc->dtype == DTYPE_i32;
  w->shape = !wmma ? MFMA : integers ? WMMA_INT : WMMA;
  w->name = intrinsic(p, w->row, w->a->dtype, w->b->dtype);
  w->operand[0] = operand_type(p, w->row, w->a->dtype, w->each[0]);
  w->operand[1] = operand_type(p, w->row, w->b->dtype, w->each[1]);
  w->sum = llvm_held_type(p, w->acc->dtype, w->each[2]);
  return true;
}

void amd_wave_mma(Llvm *p, const Op *op) {
  const MmaChoice *choice = op_attr(op, ATTR_mma)->mma;
  WaveMma w = {.p = p, .row = choice->name ? mma_named(p->arena, choice->name) : NULL};
  if (!check_row(p, op, w.row) || !open_product(&w, op)) return;
  int sums = w.copies[0] * w.copies[1];
  const char *const *acc = llvm_parts_of(p, w.acc, w.each[2]);
  const char **part = arena_copy(p->arena, acc, sizeof *part * (size_t)sums);
  for (int k = 0; k < w.copies[2] * w.slices; k++) add_products(&w, k, part);
  for (int i = 0; i < sums; i++) part[i] = pinned(&w, part[i]);
  llvm_held_set(p, llvm_held_new(p, &op->results[0]), w.each[2], part);
}
