/* llvm_packed.c: elements of 4 and 6 bits, several to a byte, and one to a byte.
 *
 * A value whose elements fill whole bytes can be held *packed*: as the bytes that contain it, the
 * first element in the lowest bits. It stays so where elements are only moved, and an op that
 * computes with elements unpacks them. */
#include "backend/llvm/llvm_state.h"
#include "ir/dtype.h"

static int bits_of(const Held *h) { return dtype_info[h->dtype].bits; }

bool llvm_is_packed(const Held *h) {
  int bits = bits_of(h);
  return !h->memory && (bits == 4 || bits == 6) && h->n * bits % 8 == 0;
}

/* ---- between bytes and elements ---- */

const char *llvm_nibble_extended(Llvm *p, DType t, int n, const char *v) {
  const char *type = llvm_vec_type(p, "i8", n), *four = llvm_splat_of(p, "i8", "4", n);
  if (t != DTYPE_i4) return llvm_let(p, "and %s %s, %s", type, v, llvm_splat_of(p, "i8", "15", n));
  v = llvm_let(p, "shl %s %s, %s", type, v, four);
  return llvm_let(p, "ashr %s %s, %s", type, v, four);
}

/* Even elements, then odd ones, as those of one vector in turn. */
static const char *interleaved(Llvm *p, int half, const char *even, const char *odd) {
  const char *type = llvm_vec_type(p, "i8", half);
  StrBuf mask = {.arena = p->arena};
  if (half == 1) {
    const char *two = llvm_let(p, "insertelement <2 x i8> poison, i8 %s, i32 0", even);
    return llvm_let(p, "insertelement <2 x i8> %s, i8 %s, i32 1", two, odd);
  }
  for (int i = 0; i < 2 * half; i++)
    sb_printf(&mask, "%si32 %d", i ? ", " : "", i / 2 + (i % 2) * half);
  return llvm_let(p, "shufflevector %s %s, %s %s, <%d x i32> <%s>", type, even, type, odd, 2 * half,
                  sb_text(&mask));
}

const char *llvm_nibbles_of_bytes(Llvm *p, DType t, int n, const char *v) {
  int half = n / 2, words = half / 4;
  const char *bytes = llvm_vec_type(p, "i8", half), *type = llvm_vec_type(p, "i32", words);
  if (t == DTYPE_i4 || half % 4) {
    const char *four = llvm_splat_of(p, "i8", "4", half);
    const char *high = llvm_let(p, "lshr %s %s, %s", bytes, v, four);
    return llvm_nibble_extended(p, t, n, interleaved(p, half, v, high));
  }
  const char *four = llvm_splat_of(p, "i32", "4", words);
  const char *low = llvm_splat_of(p, "i32", "u0xf0f0f0f", words);
  v = llvm_let(p, "bitcast %s %s to %s", bytes, v, type);
  const char *even = llvm_let(p, "and %s %s, %s", type, v, low);
  const char *odd = llvm_let(p, "lshr %s %s, %s", type, v, four);
  odd = llvm_let(p, "and %s %s, %s", type, odd, low);
  even = llvm_let(p, "bitcast %s %s to %s", type, even, bytes);
  odd = llvm_let(p, "bitcast %s %s to %s", type, odd, bytes);
  return interleaved(p, half, even, odd);
}

const char *llvm_bytes_of_nibbles(Llvm *p, int n, const char *v) {
  int half = n / 2;
  const char *in = llvm_vec_type(p, "i8", n), *type = llvm_vec_type(p, "i8", half), *side[2];
  for (int odd = 0; odd < 2; odd++) {
    StrBuf mask = {.arena = p->arena};
    for (int i = 0; i < half; i++) sb_printf(&mask, "%si32 %d", i ? ", " : "", 2 * i + odd);
    side[odd] = half == 1 ? llvm_let(p, "extractelement %s %s, i32 %d", in, v, odd)
                          : llvm_let(p, "shufflevector %s %s, %s poison, <%d x i32> <%s>", in, v,
                                     in, half, sb_text(&mask));
  }
  side[0] = llvm_let(p, "and %s %s, %s", type, side[0], llvm_splat_of(p, "i8", "15", half));
  side[1] = llvm_let(p, "shl %s %s, %s", type, side[1], llvm_splat_of(p, "i8", "4", half));
  return llvm_let(p, "or %s %s, %s", type, side[0], side[1]);
}

/* Shifts part of each word down next to the rest, which is `low`; it is `high` afterwards. */
static const char *closed_up(Llvm *p, int words, const char *v, const char *low, const char *by,
                             const char *high) {
  const char *type = llvm_vec_type(p, "i32", words);
  const char *kept = llvm_let(p, "and %s %s, %s", type, v, llvm_splat_of(p, "i32", low, words));
  v = llvm_let(p, "lshr %s %s, %s", type, v, llvm_splat_of(p, "i32", by, words));
  v = llvm_let(p, "and %s %s, %s", type, v, llvm_splat_of(p, "i32", high, words));
  return llvm_let(p, "or %s %s, %s", type, kept, v);
}

/* The lower 6 bits of each of n bytes, n a multiple of 4: pairs, then four in three bytes. */
static const char *bytes_of_sixes(Llvm *p, int n, const char *v) {
  int words = n / 4;
  const char *bytes = llvm_vec_type(p, "i8", n), *type = llvm_vec_type(p, "i32", words);
  v = llvm_let(p, "bitcast %s %s to %s", bytes, v, type);
  v = closed_up(p, words, v, "u0x3f003f", "2", "u0xfc00fc0");
  v = closed_up(p, words, v, "u0xfff", "4", "u0xfff000");
  v = llvm_let(p, "bitcast %s %s to %s", type, v, bytes);
  StrBuf mask = {.arena = p->arena};
  for (int i = 0; i < 3 * words; i++)
    sb_printf(&mask, "%si32 %d", i ? ", " : "", i / 3 * 4 + i % 3);
  return llvm_let(p, "shufflevector %s %s, %s poison, <%d x i32> <%s>", bytes, v, bytes, 3 * words,
                  sb_text(&mask));
}

/* The inverse of closed_up: `high` before it is shifted. */
static const char *opened(Llvm *p, int words, const char *v, const char *low, const char *by,
                          const char *high) {
  const char *type = llvm_vec_type(p, "i32", words);
  const char *kept = llvm_let(p, "and %s %s, %s", type, v, llvm_splat_of(p, "i32", low, words));
  v = llvm_let(p, "and %s %s, %s", type, v, llvm_splat_of(p, "i32", high, words));
  v = llvm_let(p, "shl %s %s, %s", type, v, llvm_splat_of(p, "i32", by, words));
  return llvm_let(p, "or %s %s, %s", type, kept, v);
}

/* n elements, of 3/4 as many bytes. */
static const char *sixes_of_bytes(Llvm *p, int n, const char *v) {
  int words = n / 4;
  const char *from = llvm_vec_type(p, "i8", 3 * words), *bytes = llvm_vec_type(p, "i8", n);
  const char *type = llvm_vec_type(p, "i32", words);
  StrBuf mask = {.arena = p->arena};
  for (int i = 0; i < n; i++)
    if (i % 4 == 3) sb_printf(&mask, ", i32 undef");
    else sb_printf(&mask, "%si32 %d", i ? ", " : "", i / 4 * 3 + i % 4);
  v = llvm_let(p, "shufflevector %s %s, %s poison, <%d x i32> <%s>", from, v, from, n,
               sb_text(&mask));
  v = llvm_let(p, "bitcast %s %s to %s", bytes, v, type);
  v = opened(p, words, v, "u0xfff", "4", "u0xfff000");
  v = opened(p, words, v, "u0x3f003f", "2", "u0xfc00fc0");
  return llvm_let(p, "bitcast %s %s to %s", type, v, bytes);
}

/* ---- values ---- */

void llvm_unpack(Llvm *p, Held *h) {
  int each = bits_of(h), width = llvm_memory_width(p, h->dtype);
  if (width > h->n || h->n % width * each % 8) width = h->n;
  int count = part_count(h->n, width);
  const char *const *bytes = llvm_parts_of(p, h->packed, width * each / 8);
  const char **part = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count; i++) {
    int n = part_size(h->n, width, i);
    part[i] = each == 4 ? llvm_nibbles_of_bytes(p, h->dtype, n, bytes[i])
                        : sixes_of_bytes(p, n, bytes[i]);
  }
  llvm_held_set(p, h, width, part);
}

Held *llvm_packed_new(Llvm *p, const Held *h) {
  Held *bytes = ARENA_NEW(p->arena, Held);
  *bytes = (Held){.dtype = DTYPE_u8, .n = h->n * bits_of(h) / 8};
  return bytes;
}

Held *llvm_packed_of(Llvm *p, Held *h) {
  if (h->packed || !llvm_is_packed(h)) return h->packed;
  const char *v = llvm_parts_of(p, h, h->n)[0];
  v = bits_of(h) == 4 ? llvm_bytes_of_nibbles(p, h->n, v) : bytes_of_sixes(p, h->n, v);
  h->packed = llvm_packed_new(p, h);
  vec_push(p->arena, &p->made, ((Made){h, MADE_PACKED}));
  llvm_held_set(p, h->packed, h->packed->n, arena_copy(p->arena, &v, sizeof v));
  return h->packed;
}

bool llvm_packed_join(Llvm *p, const Op *op, Held *to) {
  if (!llvm_is_packed(to)) return false;
  Held *bytes = llvm_packed_new(p, to);
  Source *all = ARENA_ARRAY(p->arena, Source, bytes->n);
  int at = 0;
  for (int i = 0; i < op->nargs; i++) {
    Held *from = llvm_held_get(p, op->args[i])->packed;
    if (!from) return false;
    for (int e = 0; e < from->n; e++) all[at++] = (Source){from, e};
  }
  llvm_held_gather(p, bytes, all, llvm_memory_width(p, bytes->dtype));
  to->packed = bytes;
  return true;
}

bool llvm_packed_pick(Llvm *p, const Held *from, const int64_t *regs, Held *to) {
  if (!from->packed || !llvm_is_packed(to)) return false;
  int group = bits_of(to) == 4 ? 2 : 4, size = group * bits_of(to) / 8; /* elements, bytes */
  for (int i = 0; i < to->n; i++)
    if (regs[i] != regs[i - i % group] + i % group || regs[i - i % group] % group) return false;
  Held *bytes = llvm_packed_new(p, to);
  Source *all = ARENA_ARRAY(p->arena, Source, bytes->n);
  for (int i = 0; i < bytes->n; i++)
    all[i] = (Source){from->packed, (int)regs[i / size * group] / group * size + i % size};
  llvm_held_gather(p, bytes, all, llvm_memory_width(p, bytes->dtype));
  to->packed = bytes;
  return true;
}
