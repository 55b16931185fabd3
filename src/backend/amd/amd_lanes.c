/* amd_lanes.c: exchange of registers between the lanes of a wave.
 *
 * Neighbours are reached by the instruction that uses the value (DPP), other rows of 16 lanes by
 * instructions that exchange rows. What these do not reach goes through the LDS's crossbar, which
 * is slower: a swizzle of 32 lanes, or any permutation, which also needs addresses (ds_bpermute). */
#include <inttypes.h>
#include <string.h>

#include "backend/amd/amd_state.h"
#include "ir/dtype.h"

const char *amd_uniform(Llvm *p, const char *word) {
  bool typed = amd_knows(p->amd, "readfirstlane.i32");
  const char *name = typed ? "llvm.amdgcn.readfirstlane.i32" : "llvm.amdgcn.readfirstlane";
  return llvm_call(p, "i32", name, "i32", arena_printf(p->arena, "i32 %s", word));
}

/* The number of the lane in its wave. */
static const char *own_lane(Llvm *p) {
  const char *low = llvm_call(p, "i32", "llvm.amdgcn.mbcnt.lo", "i32, i32", "i32 -1, i32 0");
  if (p->amd->target->lanes == 32) return low;
  return llvm_call(p, "i32", "llvm.amdgcn.mbcnt.hi", "i32, i32",
                   arena_printf(p->arena, "i32 -1, i32 %s", low));
}

/* ---- one word ---- */

/* How the words of a value travel. */
typedef struct Way {
  const char *from; /* the lane to read, in i32; NULL: as `by` says */
  int by;           /* xor of lanes */
} Way;

static bool is_rdna(const Llvm *p) { return p->amd->target->lanes == 32; }

/* The control word of a DPP move that exchanges lanes whose numbers differ by xor; -1: none. */
static int dpp_of(const Llvm *p, int by) {
  enum { ROW_ROTATE = 0x120, ROW_MIRROR = 0x140, HALF_MIRROR = 0x141, ROW_XOR = 0x160 };
  if (by < 4) return (0 ^ by) | (1 ^ by) << 2 | (2 ^ by) << 4 | (3 ^ by) << 6;
  if (by < 16 && is_rdna(p)) return ROW_XOR + by;
  if (by == 7) return HALF_MIRROR;
  if (by == 15) return ROW_MIRROR;
  return by == 8 ? ROW_ROTATE + 8 : -1;
}

/* `old`: what lanes get that are not among `banks`, groups of four lanes of each row. */
static const char *move_banks(Llvm *p, int control, int banks, const char *old, const char *word) {
  return llvm_call(p, "i32", "llvm.amdgcn.update.dpp.i32", "i32, i32, i32, i32, i32, i1",
                   arena_printf(p->arena, "i32 %s, i32 %s, i32 %d, i32 15, i32 %d, i1 true", old,
                                word, control, banks));
}

static const char *move_dpp(Llvm *p, int control, const char *word) {
  return move_banks(p, control, 15, "poison", word);
}

/* Even banks read four lanes above, odd ones four lanes below. */
static const char *swap_banks(Llvm *p, const char *word) {
  enum { ROW_SHIFT_LEFT = 0x100, ROW_SHIFT_RIGHT = 0x110 };
  const char *even = move_dpp(p, ROW_SHIFT_LEFT + 4, word);
  return move_banks(p, ROW_SHIFT_RIGHT + 4, 0xa, even, word);
}

/* ---- between rows ---- */

/* RDNA: each lane reads the lane of the other row that it names: four bits for each lane. */
static const char *swap_rows(Llvm *p, int by, const char *word) {
  uint32_t select[2] = {0};
  for (int i = 0; i < 16; i++) select[i / 8] |= (uint32_t)((i ^ by) & 15) << 4 * (i % 8);
  bool typed = amd_knows(p->amd, "permlanex16.i32");
  word = llvm_call(p, "i32", typed ? "llvm.amdgcn.permlanex16.i32" : "llvm.amdgcn.permlanex16",
                   "i32, i32, i32, i32, i1, i1",
                   arena_printf(p->arena,
                                "i32 poison, i32 %s, i32 %" PRIu32 ", i32 %" PRIu32
                                ", i1 false, i1 true",
                                word, select[0], select[1]));
  return amd_pinned(p, "i32", word);
}

static bool swaps_halves(const Llvm *p, int by) {
  return (by == 16 || by == 32) &&
         amd_knows(p->amd, by == 16 ? "permlane16.swap" : "permlane32.swap");
}

/* gfx950: the upper rows of one register are swapped with the lower rows of another, here of the
 * same value: one then holds the lower rows twice, the other the upper ones. */
static const char *swap_halves(Llvm *p, int by, const char *word) {
  const char *name = by == 16 ? "llvm.amdgcn.permlane16.swap" : "llvm.amdgcn.permlane32.swap";
  const char *both =
      llvm_call(p, "{ i32, i32 }", name, "i32, i32, i1, i1",
                arena_printf(p->arena, "i32 %s, i32 %s, i1 false, i1 true", word, word));
  const char *low = llvm_let(p, "extractvalue { i32, i32 } %s, 0", both);
  const char *high = llvm_let(p, "extractvalue { i32, i32 } %s, 1", both);
  const char *bit = llvm_let(p, "and i32 %s, %d", own_lane(p), by);
  const char *is_low = llvm_let(p, "icmp eq i32 %s, 0", bit);
  return amd_pinned(p, "i32", llvm_let(p, "select i1 %s, i32 %s, i32 %s", is_low, high, low));
}

/* ---- through the crossbar ---- */

/* Lane i reads lane i ^ by of its 32. */
static const char *swizzle(Llvm *p, int by, const char *word) {
  enum { XOR_SHIFT = 10, ALL_BITS = 31 };
  return llvm_call(p, "i32", "llvm.amdgcn.ds.swizzle", "i32, i32",
                   arena_printf(p->arena, "i32 %s, i32 %d", word, by << XOR_SHIFT | ALL_BITS));
}

static const char *permute(Llvm *p, const char *lane, const char *word) {
  const char *at = llvm_let(p, "shl i32 %s, 2", lane);
  return llvm_call(p, "i32", "llvm.amdgcn.ds.bpermute", "i32, i32",
                   arena_printf(p->arena, "i32 %s, i32 %s", at, word));
}

static const char *move_word(Llvm *p, const Way *w, const char *word) {
  if (w->from) return permute(p, w->from, word);
  int by = w->by, control = dpp_of(p, by);
  if (control >= 0) return move_dpp(p, control, word);
  if (by == 4) return swap_banks(p, word);
  if (by >= 16 && is_rdna(p)) return swap_rows(p, by, word);
  if (swaps_halves(p, by)) return swap_halves(p, by, word);
  return swizzle(p, by, word);
}

/* ---- values as words ---- */

/* One element of 64 bits: two words. */
static const char *move_long(Llvm *p, const Way *w, const char *elem, const char *v) {
  const char *pair = llvm_let(p, "bitcast %s %s to <2 x i32>", elem, v), *out = "poison";
  for (int i = 0; i < 2; i++) {
    const char *word = llvm_let(p, "extractelement <2 x i32> %s, i32 %d", pair, i);
    word = move_word(p, w, word);
    out = llvm_let(p, "insertelement <2 x i32> %s, i32 %s, i32 %d", out, word, i);
  }
  return llvm_let(p, "bitcast <2 x i32> %s to %s", out, elem);
}

/* LLVM 22 folds a move between lanes into v_bitop3_b16, and forgets which function that computes:
 * what 16-bit instructions may use is hidden from it. */
static const char *hidden_moves(Llvm *p, const char *word) {
  return target_has(p->amd->target, FEATURE_WMMA_1250) ? amd_hidden(p, "i32", word) : word;
}

/* As many elements as fit into a word. */
static const char *move_part(Llvm *p, const Way *w, DType t, int n, const char *v) {
  const char *type = llvm_held_type(p, t, n);
  int bits = llvm_elem_bits(t) * n;
  if (bits > 32) return move_long(p, w, type, v);
  const char *exact = arena_printf(p->arena, "i%d", bits);
  if (strcmp(type, exact) != 0) v = llvm_let(p, "bitcast %s %s to %s", type, v, exact);
  if (bits < 32) v = llvm_let(p, "zext %s %s to i32", exact, v);
  v = move_word(p, w, v);
  if (llvm_elem_bits(t) < 32) v = hidden_moves(p, v);
  if (bits < 32) v = llvm_let(p, "trunc i32 %s to %s", v, exact);
  if (strcmp(type, exact) != 0) v = llvm_let(p, "bitcast %s %s to %s", exact, v, type);
  return v;
}

static void move_value(Llvm *p, const Op *op, const Way *w) {
  Held *from = llvm_held_get(p, op->args[0]), *to = llvm_held_new(p, &op->results[0]);
  if (llvm_is_packed(from)) {
    from = llvm_packed_of(p, from);
    to = to->packed = llvm_packed_new(p, to);
  }
  int bits = llvm_elem_bits(from->dtype), width = bits == 1 || bits >= 32 ? 1 : 32 / bits;
  int count = part_count(from->n, width);
  const char *const *in = llvm_parts_of(p, from, width);
  const char **part = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count; i++)
    part[i] = move_part(p, w, from->dtype, part_size(from->n, width, i), in[i]);
  llvm_held_set(p, to, width, part);
}

/* ---- ops ---- */

/* The lane `by` lower or higher; its own where there is none. */
static const char *shifted_lane(Llvm *p, bool up, int by) {
  const char *own = own_lane(p);
  const char *other = llvm_let(p, "%s i32 %s, %d", up ? "sub" : "add", own, by);
  const char *exists = up ? llvm_let(p, "icmp sge i32 %s, 0", other)
                          : llvm_let(p, "icmp slt i32 %s, %d", other, p->amd->target->lanes);
  return llvm_let(p, "select i1 %s, i32 %s, i32 %s", exists, other, own);
}

void amd_shuffle(Llvm *p, const Op *op) {
  const char *mode = op_attr(op, ATTR_mode)->text;
  Way w = {.by = (int)op_attr(op, ATTR_by)->integer};
  bool xors = strcmp(mode, "xor") == 0;
  if (!xors) w.from = shifted_lane(p, strcmp(mode, "up") == 0, w.by);
  else if (w.by >= 32 && !swaps_halves(p, w.by))
    w.from = llvm_let(p, "xor i32 %s, %d", own_lane(p), w.by);
  move_value(p, op, &w);
}

void amd_shuffle_idx(Llvm *p, const Op *op) {
  Way w = {.from = llvm_in_bits(p, llvm_number_of(p, op->args[1]), 32)};
  move_value(p, op, &w);
}
