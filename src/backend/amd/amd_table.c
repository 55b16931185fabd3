/* amd_table.c: casts of packed 4-bit floats to 16 bits by tables.
 *
 * An instruction takes four bytes from eight, by the numbers in the bytes of a third operand. The
 * magnitudes of a 4-bit float are such numbers, so one instruction each gives the lower and the
 * upper bytes of four results. Element by element, a matmul's operands are thousands of instructions
 * in one block, for which LLVM needs a minute. */
#include <inttypes.h>

#include "backend/amd/amd_state.h"
#include "ir/dtype.h"

/* Byte i of the result is byte number sel[i] of the eight bytes of `low` and `high`. */
static const char *permuted(Llvm *p, const char *high, const char *low, const char *sel) {
  return llvm_call(p, "i32", "llvm.amdgcn.perm", "i32, i32, i32",
                   arena_printf(p->arena, "i32 %s, i32 %s, i32 %s", high, low, sel));
}

/* The eight magnitudes as the target type, of which a byte each: the first four in word[0]. */
typedef struct Table {
  const char *word[2];
} Table;

static Table table_of(Llvm *p, DType from, DType to, int byte) {
  Table t;
  for (int half = 0; half < 2; half++) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < 4; i++) {
      uint64_t code = dtype_encode(to, dtype_decode(from, (uint64_t)half * 4 + i));
      word |= (uint32_t)(code >> 8 * byte & 0xff) << 8 * i;
    }
    t.word[half] = arena_printf(p->arena, "%" PRIu32, word);
  }
  return t;
}

/* Four results in two words, of elements in the lower halves of four bytes. `sign`: their sign bits,
 * at the top of the bytes. */
static void cast_bytes(Llvm *p, const Table table[2], const char *codes, const char *sign,
                       const char *out[2]) {
  const char *which = llvm_let(p, "and i32 %s, 117901063", codes); /* 7 in each byte */
  const char *low = permuted(p, table[0].word[1], table[0].word[0], which);
  const char *high = permuted(p, table[1].word[1], table[1].word[0], which);
  high = llvm_let(p, "or i32 %s, %s", high, llvm_let(p, "and i32 %s, u0x80808080", sign));
  out[0] = permuted(p, high, low, "u0x05010400");
  out[1] = permuted(p, high, low, "u0x07030602");
}

/* Eight elements of a word: the even ones, then the odd ones, then in turn. */
static const char *cast_word(Llvm *p, const Table table[2], const char *word) {
  const char *even[2], *odd[2], *out = "poison";
  cast_bytes(p, table, word, llvm_let(p, "shl i32 %s, 4", word), even);
  cast_bytes(p, table, llvm_let(p, "lshr i32 %s, 4", word), word, odd);
  for (int i = 0; i < 4; i++) {
    const char *pair = permuted(p, odd[i / 2], even[i / 2], i % 2 ? "u0x07060302" : "u0x05040100");
    out = llvm_let(p, "insertelement <4 x i32> %s, i32 %s, i32 %d", out, pair, i);
  }
  return out;
}

bool amd_cast_packed(Llvm *p, Held *from, Held *to) {
  enum { EACH = 8 }; /* elements of a word */
  bool is_table =
      from->dtype == DTYPE_f4e2m1fn && dtype_is_float(to->dtype) && llvm_elem_bits(to->dtype) == 16;
  if (!is_table || !from->packed || from->n % EACH || !amd_knows(p->amd, "perm")) return false;
  const Table table[2] = {table_of(p, from->dtype, to->dtype, 0),
                          table_of(p, from->dtype, to->dtype, 1)};
  int count = from->n / EACH;
  const char *const *bytes = llvm_parts_of(p, from->packed, 4);
  const char **part = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count; i++) {
    const char *word = amd_recast(p, "<4 x i8>", bytes[i], "i32");
    part[i] =
        amd_recast(p, "<4 x i32>", cast_word(p, table, word), llvm_held_type(p, to->dtype, EACH));
  }
  llvm_held_set(p, to, EACH, part);
  return true;
}
