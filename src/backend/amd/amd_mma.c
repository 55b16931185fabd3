/* amd_mma.c: matrix instructions: MFMA and WMMA, also with scales.
 *
 * LLVM moves a WMMA or a scaled MFMA, with what computes its operands, into a branch in which only
 * some lanes use its result; the lanes that do not enter the branch then contribute nothing. The
 * result therefore passes through an empty assembly statement, which stays where it is. */
#include <inttypes.h>
#include <string.h>

#include "backend/amd/amd_state.h"
#include "ir/dtype.h"
#include "target/mma.h"

/* The arguments of intrinsics: fragments, and constants as `type:value`. The constants of MFMA
 * broadcast blocks; those of WMMA change signs, saturate, and keep operands for the next
 * instruction: nothing of that is used, but bytes are signed. */
#define MFMA "a b c i32:0 i32:0 i32:0"
#define MFMA_SCALE "a b c i32:%d i32:%d %s %s" /* their types, the scales of a and b */
#define WMMA "a b c"
#define WMMA_INT "i1:true a i1:true b c i1:false"
#define WMMA_1250 "i1:false a i1:false b i16:0 c i1:false i1:false"
#define WMMA_1250_F8 "a b i16:0 c i1:false i1:false"
#define WMMA_1250_INT "i1:true a i1:true b c i1:false i1:false i1:false"
#define WMMA_1250_SCALE "i32:%d a i32:%d b i16:0 c %s %s i1:false i1:false"

typedef struct WaveMma {
  Llvm *p;
  const MmaInfo *row;
  bool is_wmma;
  const char *name, *takes;     /* of the intrinsic: one of the lists above */
  const char *operand[2], *sum; /* types in the intrinsic */
  Held *a, *b, *acc;
  Held *scale[2];       /* of a and b; NULL: none */
  bool in_words[2];     /* four scales in a word */
  const char **word[2]; /* of scales, for MFMA */
  int each[3];          /* elements of a fragment */
  int slices;           /* instructions of a virtual row */
  int copies[3];        /* of fragments, along m, n and k */
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

/* How a scaled instruction numbers types. */
static int type_code(DType t) {
  switch (t) {
  case DTYPE_f8e5m2: return 1;
  case DTYPE_f6e2m3fn: return 2;
  case DTYPE_f4e2m1fn: return 4;
  default: return 0; /* f8e4m3fn */
  }
}

static int fragment_size(const MmaInfo *row, MmaOperand part) {
  Layout l;
  return mma_fragment(row, part, &l) ? layout_size(&l, LAYOUT_REG) : 0;
}

static int words_of(const MmaInfo *row, DType t) {
  return fragment_size(row, MMA_A) * dtype_info[t].bits / 32;
}

static const char *intrinsic(Llvm *p, const MmaInfo *row, DType a, DType b) {
  StrBuf out = {.arena = p->arena};
  sb_puts(&out, "llvm.amdgcn.");
  for (const char *at = row->emit; *at; at++) {
    if (*at != '%') sb_putc(&out, *at);
    else sb_puts(&out, spelling(*++at == 'b' ? b : a));
  }
  if (row->form == MMA_SCALED) /* the number of words of an operand */
    sb_printf(&out, ".v%di32.v%di32", words_of(row, a), words_of(row, b));
  return sb_text(&out);
}

static bool is_wmma(const MmaInfo *row) { return strncmp(row->emit, "wmma", 4) == 0; }

/* bf16 is i16 in the intrinsics of older chips. */
static bool takes_bfloat(const Llvm *p, int n) {
  const TargetInfo *t = p->amd->target;
  return target_has(t, FEATURE_WMMA_1250) || (target_has(t, FEATURE_MFMA_K32) && n == 8);
}

/* A fragment of an operand, as the intrinsic takes it: bytes in words. */
static const char *operand_type(Llvm *p, const MmaInfo *row, DType t, int n) {
  if (row->form == MMA_SCALED) return llvm_vec_type(p, "i32", n * dtype_info[t].bits / 32);
  if (t == DTYPE_f16) return llvm_vec_type(p, "half", n);
  if (t == DTYPE_bf16 && takes_bfloat(p, n)) return llvm_vec_type(p, "bfloat", n);
  if (llvm_elem_bits(t) >= 16) return llvm_held_type(p, t, n);
  if (is_wmma(row)) return llvm_vec_type(p, "i32", n / 4);
  return n == 4 ? "i32" : "i64";
}

/* The row of the instruction that a virtual one consists of: the same intrinsic. */
static const MmaInfo *native_row(const MmaInfo *row) {
  const MmaInfo *at;
  for (int i = 0; row->form == MMA_VIRTUAL && (at = mma_at(i)); i++)
    if (at->form == MMA_NATIVE && at->emit && strcmp(at->emit, row->emit) == 0) return at;
  return row;
}

/* ---- one instruction ---- */

/* Slice number `i` of an operand. 4- and 6-bit elements stay packed. */
static const char *fragment(const WaveMma *w, int which, int i) {
  Held *h = which ? w->b : w->a;
  int n = w->each[which] * dtype_info[h->dtype].bits / llvm_elem_bits(h->dtype);
  if (n != w->each[which]) h = llvm_packed_of(w->p, h);
  return amd_recast(w->p, llvm_held_type(w->p, h->dtype, n), llvm_parts_of(w->p, h, n)[i],
                    w->operand[which]);
}

/* Appends the next word of `takes` to the types and to the arguments of a call. */
static const char *put_argument(const WaveMma *w, const char *takes, const char *const v[3],
                                StrBuf *types, StrBuf *values) {
  static const char letters[] = "abc";
  int n = (int)strcspn(takes, " "), colon = (int)strcspn(takes, ":");
  const char *type[] = {w->operand[0], w->operand[1], w->sum}, *comma = types->n ? ", " : "";
  if (n == 1) {
    long which = strchr(letters, *takes) - letters;
    sb_printf(types, "%s%s", comma, type[which]);
    sb_printf(values, "%s%s %s", comma, type[which], v[which]);
  } else {
    sb_printf(types, "%s%.*s", comma, colon, takes);
    sb_printf(values, "%s%.*s %.*s", comma, colon, takes, n - colon - 1, takes + colon + 1);
  }
  return takes + n + (takes[n] == ' ');
}

enum { SCALES = 4 }; /* in a word */

/* Whether scales were loaded as words; single ones stay in registers of their own. */
static bool comes_in_words(const Value *v) {
  const Op *from = v->def;
  if (v->type->n % SCALES) return false;
  if (!from || (from->kind != OP_join && from->kind != OP_bitcast)) return true;
  for (int i = 0; i < from->nargs; i++)
    if (!comes_in_words(from->args[i])) return false;
  return true;
}

/* Whether every register was loaded as it is. */
static bool is_loaded(const Value *v) {
  const Op *from = v->def;
  if (!from) return false;
  if (from->kind == OP_load || from->kind == OP_ldmatrix) return true;
  if (from->kind != OP_join && from->kind != OP_bitcast && from->kind != OP_pick) return false;
  for (int i = 0; i < from->nargs; i++)
    if (!is_loaded(from->args[i])) return false;
  return true;
}

/* The words that MFMA takes scales from. Two bytes that LLVM knows to be 0 it takes for no scales,
 * though 0 is 2^-127; so scales that are not loaded are hidden from it. */
static const char **scale_words(const WaveMma *w, int which, const Value *v) {
  Llvm *p = w->p;
  Held *h = w->scale[which];
  bool whole = w->in_words[which], hides = !is_loaded(v);
  if (!amd_has_habit(p->amd->llvm, AMD_LANE_SCALES)) hides = true;
  int n = whole ? h->n / SCALES : h->n;
  const char **word = ARENA_ARRAY(p->arena, const char *, n);
  for (int i = 0; i < n; i++) {
    word[i] = whole ? amd_recast(p, "<4 x i8>", llvm_parts_of(p, h, SCALES)[i], "i32")
                    : llvm_let(p, "zext i8 %s to i32", llvm_element_of(p, h, i));
    if (hides) word[i] = amd_hidden(p, "i32", word[i]);
  }
  return word;
}

/* Scale number `i` of an operand, as the instruction takes it. MFMA: the number of a byte, and a
 * word; of scales that were loaded as a word, it takes the byte out. WMMA: the half of the lanes
 * that have the scales, their type, and a word of four. */
static const char *scale_of(const WaveMma *w, int which, int i) {
  Llvm *p = w->p;
  if (w->is_wmma) {
    const char *four = llvm_parts_of(p, w->scale[which], SCALES)[i];
    return arena_printf(p->arena, "i32:0 i32:0 i32:%s", amd_recast(p, "<4 x i8>", four, "i32"));
  }
  int each = w->in_words[which] ? SCALES : 1;
  return arena_printf(p->arena, "i32:%d i32:%s", i % each, w->word[which][i / each]);
}

static const char *scaled_arguments(const WaveMma *w, int a, int b) {
  int types[] = {type_code(w->a->dtype), type_code(w->b->dtype)};
  const char *scale[] = {scale_of(w, 0, a), scale_of(w, 1, b)};
  if (w->is_wmma)
    return arena_printf(w->p->arena, WMMA_1250_SCALE, types[0], types[1], scale[0], scale[1]);
  return arena_printf(w->p->arena, MFMA_SCALE, types[0], types[1], scale[0], scale[1]);
}

/* The product of slices `i` of A and `j` of B. */
static const char *call_product(const WaveMma *w, int i, int j, const char *c) {
  StrBuf types = {.arena = w->p->arena}, values = {.arena = w->p->arena};
  const char *const v[] = {fragment(w, 0, i), fragment(w, 1, j), c};
  const char *takes = w->scale[0] ? scaled_arguments(w, i, j) : w->takes;
  for (const char *at = takes; *at;) at = put_argument(w, at, v, &types, &values);
  return llvm_call(w->p, w->sum, w->name, sb_text(&types), sb_text(&values));
}

/* Keeps the product where it is. Sums of scaled MFMA may be in either half of the register file, and
 * memory accesses may pass them. LLVM does not move other MFMA. */
static const char *pinned(const WaveMma *w, const char *v) {
  Llvm *p = w->p;
  if (w->is_wmma) return amd_pinned(p, w->sum, v);
  if (!w->scale[0]) return v;
  const char *file = amd_has_habit(p->amd->llvm, AMD_EITHER_HALF) ? "^VA" : "v";
  return llvm_let(p, "call %s asm \"\", \"=%s,0\"(%s %s) convergent", w->sum, file, w->sum, v);
}

/* Adds step k of all products. Sums that do not depend on each other follow each other. */
static void add_products(const WaveMma *w, int k, const char **sum) {
  int all = w->copies[2] * w->slices;
  for (int m = 0; m < w->copies[0]; m++)
    for (int n = 0; n < w->copies[1]; n++) {
      const char **c = &sum[m * w->copies[1] + n];
      *c = call_product(w, m * all + k, n * all + k, *c);
    }
}

/* ---- the op ---- */

static bool check_row(Llvm *p, const Op *op, const MmaInfo *row) {
  DType a = op->args[0]->type->dtype, b = op->args[1]->type->dtype, c = op->args[2]->type->dtype;
  unsigned types = row ? target_mma_types(p->amd->target, row) : 0;
  bool scaled = row && row->form == MMA_SCALED;
  bool fits = row && row->emit && op->nargs == (scaled ? 5 : 3) && amd_knows_matrix(p->amd, row) &&
              (types & (unsigned)dtype_mma(a)) && (types & (unsigned)dtype_mma(b)) &&
              (row->mixed || a == b) && (row->acc_types & (unsigned)dtype_mma(c));
  return fits || llvm_fail(p, op, "this matrix instruction");
}

static const char *arguments(const WaveMma *w) {
  bool is_1250 = target_has(w->p->amd->target, FEATURE_WMMA_1250);
  if (!w->is_wmma) return MFMA;
  if (w->acc->dtype == DTYPE_i32) return is_1250 ? WMMA_1250_INT : WMMA_INT;
  if (!is_1250) return WMMA;
  return llvm_elem_bits(w->a->dtype) == 8 ? WMMA_1250_F8 : WMMA_1250;
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
  w->is_wmma = is_wmma(w->row);
  for (int i = 0; i < 2 && op->nargs == 5; i++) {
    w->scale[i] = llvm_held_get(p, op->args[3 + i]);
    w->in_words[i] = comes_in_words(op->args[3 + i]);
    if (!w->is_wmma) w->word[i] = scale_words(w, i, op->args[3 + i]);
  }
  w->takes = arguments(w);
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
