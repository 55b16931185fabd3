/* ptx_mma.c: matrix instructions. Operands are words, as the fragments hold them in registers;
 * accumulators are elements of their own type, or words for f16. */
#include <inttypes.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"

static const char *spelling(DType t, const MmaInfo *row) {
  switch (t) {
  case DTYPE_f32: return row->operand_types & MMA_tf32 ? "tf32" : "f32";
  case DTYPE_f64: return "f64";
  case DTYPE_f16: return "f16";
  case DTYPE_bf16: return "bf16";
  case DTYPE_f8e4m3fn: return "e4m3";
  case DTYPE_f8e5m2: return "e5m2";
  case DTYPE_i8: return "s8";
  case DTYPE_i32: return "s32";
  default: return NULL;
  }
}

static const char *accumulator_type(DType t) {
  return t == DTYPE_f32   ? "f32"
         : t == DTYPE_f64 ? "f64"
         : t == DTYPE_f16 ? "f16"
         : t == DTYPE_i32 ? "s32"
                          : NULL;
}

/* The row's spelling with %d, %a, %b replaced by types. */
static const char *instruction(Ptx *p, const MmaInfo *row, const char *d, const char *a,
                               const char *b) {
  StrBuf out = {.arena = p->arena};
  for (const char *at = row->emit; *at; at++) {
    if (*at != '%') sb_printf(&out, "%c", *at);
    else sb_puts(&out, *++at == 'd' ? d : *at == 'a' ? a : b);
  }
  return sb_text(&out);
}

static void put_list(StrBuf *out, const Reg *regs, int n) {
  sb_puts(out, "{");
  for (int i = 0; i < n; i++) sb_printf(out, "%s%s", i ? ", " : "", regs[i].name);
  sb_puts(out, "}");
}

/* Registers of an operand: words, or f64 elements. */
static const Reg *registers(Ptx *p, Held *h) {
  return h->dtype == DTYPE_f64 ? ptx_elems_of(p, h) : ptx_words_of(p, h);
}

static int register_count(DType t, int n) { return t == DTYPE_f64 ? n : ptx_word_count(t, n); }

static int fragment_size(const MmaInfo *row, MmaOperand part) {
  Layout l;
  return mma_fragment(row, part, &l) ? layout_size(&l, LAYOUT_REG) : 0;
}

static bool is_accumulated_in_words(DType t) { return t == DTYPE_f16; }

/* The accumulator's registers, which instructions update in place; a copy if they are needed
 * afterwards. */
static Held accumulator(Ptx *p, const Op *op, int arg) {
  p->multiplies = true;
  Held *from = ptx_get(p, op->args[arg]);
  bool formed =
      is_accumulated_in_words(from->dtype) ? ptx_has_words(p, from) : ptx_has_elems(p, from);
  if (formed && ptx_may_overwrite(p, op, op->args[arg])) {
    Held same = *from;
    if (same.word && same.elem)
      *(is_accumulated_in_words(same.dtype) ? &same.elem : &same.word) = NULL;
    same.own = true;
    return same;
  }
  Held to = held_new(p, from->dtype, from->n, is_accumulated_in_words(from->dtype));
  ptx_move_held(p, &to, from);
  return to;
}

/* A register that holds 0 without ptxas knowing: a bit of an address that is never set. */
static const char *unknown_zero(Ptx *p) {
  for (int i = 0; i < p->args.n; i++) {
    if (p->args.at[i].kind != PTX_POINTER) continue;
    Reg high = ptx_new(p, REG_RD), zero = ptx_new(p, REG_R);
    ptx_line(p, "shr.u64 %s, %s, 62", high.name, p->arg_regs.at[i].name);
    ptx_line(p, "cvt.u32.u64 %s, %s", zero.name, high.name);
    return zero.name;
  }
  return "0";
}

/* On sm_90, where products of 8-bit floats are computed in f16, ptxas of CUDA 13.0 treats a word of
 * e4m3 that it knows to be 0 as numbers of 2^-7, so elements outside a tile would contribute. */
static Held *hidden_zeros(Ptx *p, Held *h) {
  if (h->dtype != DTYPE_f8e4m3fn) return h;
  const Reg *from = ptx_words_of(p, h);
  const char *zero = unknown_zero(p);
  Held *to = ARENA_ARRAY(p->arena, Held, 1);
  *to = held_new(p, h->dtype, h->n, true);
  for (int i = 0; i < ptx_word_count(h->dtype, h->n); i++)
    ptx_line(p, "or.b32 %s, %s, %s", to->word[i].name, from[i].name, zero);
  return to;
}

typedef struct WaveMma {
  const MmaInfo *row;
  const char *name;
  Held *a, *b, acc;
  int each[3], copies[3];
} WaveMma;

static void one_instruction(Ptx *p, const WaveMma *w, int m, int n, int k) {
  const Reg *acc = w->acc.word ? w->acc.word : w->acc.elem;
  int c = w->acc.word ? ptx_word_count(w->acc.dtype, w->each[2]) : w->each[2];
  int a = register_count(w->a->dtype, w->each[0]), b = register_count(w->b->dtype, w->each[1]);
  const Reg *d = acc + (m * w->copies[1] + n) * c;
  StrBuf out = {.arena = p->arena};
  sb_printf(&out, "%s ", w->name);
  put_list(&out, d, c);
  sb_puts(&out, ", ");
  put_list(&out, registers(p, w->a) + (m * w->copies[2] + k) * a, a);
  sb_puts(&out, ", ");
  put_list(&out, registers(p, w->b) + (n * w->copies[2] + k) * b, b);
  sb_puts(&out, ", ");
  put_list(&out, d, c);
  ptx_line(p, "%s", sb_text(&out));
}

/* The machine has the row for these types; a tf32 row takes f32. */
static bool check_row(Ptx *p, const Op *op, const MmaInfo *row, DType a, DType b, DType acc) {
  unsigned types = row ? target_mma_types(p->target, row) : 0;
  unsigned ta = (unsigned)dtype_mma(a) | (a == DTYPE_f32 ? (unsigned)MMA_tf32 : 0);
  unsigned tb = (unsigned)dtype_mma(b) | (b == DTYPE_f32 ? (unsigned)MMA_tf32 : 0);
  bool fits = row && (row->storage_b == MMA_SHARED) == (op->kind == OP_wgmma) &&
              target_has_mma(p->target, row) && (types & ta) && (types & tb) &&
              (row->mixed || a == b) && (row->acc_types & (unsigned)dtype_mma(acc));
  if (fits && accumulator_type(acc) && spelling(a, row) && spelling(b, row)) return true;
  return ptx_fail(p, op, "this matrix instruction");
}

/* An operand has the registers of all its copies of the fragment. */
static bool check_size(Ptx *p, const Op *op, int arg, int64_t registers) {
  const Type *t = op->args[arg]->type;
  if (t->n == registers) return true;
  return ptx_fail(p, op,
                  arena_printf(p->arena, "operand %d of %d registers instead of %" PRId64, arg + 1,
                               t->n, registers));
}

void ptx_wave_mma(Ptx *p, const Op *op) {
  const MmaChoice *choice = op_attr(op, ATTR_mma)->mma;
  const Attr *copies = op_attr(op, ATTR_copies);
  WaveMma w = {.row = choice->name ? mma_find(choice->name) : NULL, .copies = {1, 1, 1}};
  DType at = op->args[0]->type->dtype, bt = op->args[1]->type->dtype, ct = op->args[2]->type->dtype;
  const char *d = accumulator_type(ct);
  if (!check_row(p, op, w.row, at, bt, ct)) return;
  int64_t times[3] = {1, 1, 1};
  for (int i = 0; copies && i < 3; i++) times[i] = copies->ints[i];
  for (int i = 0; i < 3; i++) w.each[i] = fragment_size(w.row, (MmaOperand)i);
  if (times[0] > IR_MAX_VEC || times[1] > IR_MAX_VEC || times[2] > IR_MAX_VEC ||
      !check_size(p, op, 0, times[0] * times[2] * w.each[0]) ||
      !check_size(p, op, 1, times[1] * times[2] * w.each[1]) ||
      !check_size(p, op, 2, times[0] * times[1] * w.each[2])) {
    ptx_fail(p, op, "this many copies");
    return;
  }
  for (int i = 0; i < 3; i++) w.copies[i] = (int)times[i];
  if (w.row->needs & FEATURE_MMA_SYNC_F8) ptx_needs(p, ct == DTYPE_f16 ? 87 : 84);
  w.name = instruction(p, w.row, d, spelling(at, w.row), spelling(bt, w.row));
  w.a = ptx_get(p, op->args[0]);
  w.b = ptx_get(p, op->args[1]);
  if (w.row->needs & FEATURE_MMA_SYNC_F8) {
    w.a = hidden_zeros(p, w.a);
    w.b = hidden_zeros(p, w.b);
  }
  w.acc = accumulator(p, op, 2);
  for (int k = 0; k < w.copies[2]; k++)
    for (int m = 0; m < w.copies[0]; m++)
      for (int n = 0; n < w.copies[1]; n++) one_instruction(p, &w, m, n, k);
  ptx_set(p, &op->results[0], w.acc);
}

/* ---- wgmma ---- */
/* Registers that the following instructions read are formed before the fence. */
void ptx_wgmma_fence(Ptx *p, const Op *op) {
  for (const Op *next = op->next; next && next->kind != OP_wgmma_commit; next = next->next) {
    const Value *a = next->kind == OP_wgmma ? next->args[1] : NULL;
    if (a && a->type->kind != TYPE_mem && ptx_get(p, a)) ptx_words_of(p, ptx_get(p, a));
  }
  ptx_line(p, "wgmma.fence.sync.aligned");
}
void ptx_wgmma_commit(Ptx *p, const Op *op) {
  (void)op, ptx_line(p, "wgmma.commit_group.sync.aligned");
}
/* Fewer elements are not worth a second copy of what follows the wait. */
enum { LEAST_OVERLAPPED = 8 };

bool ptx_is_late_wait(const Op *wait) {
  int computed = 0;
  if (wait->kind != OP_wgmma_wait) return false;
  const Op *op = wait->prev;
  for (; op && op->kind != OP_wgmma; op = op->prev) {
    if (op->kind == OP_mbar_wait || (op->kind == OP_wgmma_wait && !op_imm(op, ATTR_pending)))
      return false;
    const Type *t = op->nresults ? op->results[0].type : NULL;
    if (op_is_elementwise(op) && op->kind != OP_expr) computed += t->kind == TYPE_vec ? t->n : 1;
  }
  return op && computed >= LEAST_OVERLAPPED;
}

void ptx_wgmma_wait(Ptx *p, const Op *op) {
  ptx_line(p, "wgmma.wait_group.sync.aligned %d", (int)op_attr(op, ATTR_pending)->integer);
}

/* The descriptor of a shared operand: address, leading and stride bytes in units of 16, swizzle. */
static Reg descriptor(Ptx *p, const Op *op, int arg, AttrKey key) {
  const Descriptor *d = op_attr(op, key)->descriptor;
  unsigned mode = d->span == 128 ? 1 : d->span == 64 ? 2 : d->span == 32 ? 3 : 0;
  unsigned low = (unsigned)(d->leading >> 4 & 0x3fff) << 16;
  unsigned high = (unsigned)(d->stride >> 4 & 0x3fff) | mode << 30;
  int64_t added = ptx_alloc_base(op->args[arg]);
  Reg from = ptx_address_unit(p, op->args[arg], op->args[arg + 1], &added);
  Reg word = ptx_new(p, REG_R), out = ptx_new(p, REG_RD), upper = ptx_new(p, REG_R);
  /* The address is in the low 14 bits: nothing is carried out of them. */
  ptx_line(p, "add.u32 %s, %s, 0x%x", word.name, from.name, low + (unsigned)(added >> 4));
  ptx_line(p, "mov.b32 %s, 0x%x", upper.name, high);
  ptx_line(p, "mov.b64 %s, {%s, %s}", out.name, word.name, upper.name);
  return out;
}

/* Computes what it can of the descriptors of the products that follow a wait. */
void ptx_prepare_wgmma(Ptx *p, const Op *wait) {
  for (const Op *op = wait->next; op && !op->body && op->kind != OP_wgmma_commit; op = op->next) {
    for (int i = 1; op->kind == OP_wgmma && i + 1 < op->nargs; i++) {
      int64_t added = 0;
      const Value *memory = op->args[i], *offset = op->args[i + 1];
      if (memory->type->kind == TYPE_mem && ptx_can_address(p, memory, offset))
        ptx_address_unit(p, memory, offset, &added);
    }
  }
}

static int transposed(const Op *op, AttrKey key) {
  const Attr *a = op_attr(op, key);
  return a ? a->descriptor->transposed : 0;
}

void ptx_wgmma(Ptx *p, const Op *op) {
  const MmaChoice *choice = op_attr(op, ATTR_mma)->mma;
  const MmaInfo *row = choice->name ? mma_find(choice->name) : NULL;
  bool shared = op->args[1]->type->kind == TYPE_mem;
  int b = shared ? 3 : 2;
  DType at = op->args[1]->type->dtype, bt = op->args[b]->type->dtype, ct = op->args[0]->type->dtype;
  if (!check_row(p, op, row, at, bt, ct)) return;
  if (!check_size(p, op, 0, fragment_size(row, MMA_C)) ||
      (!shared && !check_size(p, op, 1, fragment_size(row, MMA_A))))
    return;
  Held acc = accumulator(p, op, 0);
  StrBuf out = {.arena = p->arena};
  Reg keep = {"1", REG_P};
  if (op->nargs > b + 2) keep = ptx_elems_of(p, ptx_get(p, op->args[b + 2]))[0];
  sb_printf(&out, "%s ",
            instruction(p, row, accumulator_type(ct), spelling(at, row), spelling(bt, row)));
  put_list(&out, acc.word ? acc.word : acc.elem, acc.word ? ptx_word_count(ct, acc.n) : acc.n);
  if (shared) {
    sb_printf(&out, ", %s", descriptor(p, op, 1, ATTR_desc_a).name);
  } else {
    Held *a = ptx_get(p, op->args[1]);
    sb_puts(&out, ", ");
    put_list(&out, ptx_words_of(p, a), ptx_word_count(a->dtype, a->n));
  }
  sb_printf(&out, ", %s, %s", descriptor(p, op, b, ATTR_desc_b).name, keep.name);
  bool integer = ct == DTYPE_i32, half = at == DTYPE_f16 || at == DTYPE_bf16;
  if (!integer) sb_puts(&out, ", 1, 1");
  if (half && shared) sb_printf(&out, ", %d", transposed(op, ATTR_desc_a));
  if (half) sb_printf(&out, ", %d", transposed(op, ATTR_desc_b));
  ptx_line(p, "%s", sb_text(&out));
  ptx_set(p, &op->results[0], acc);
}
