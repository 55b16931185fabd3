/* ptx_memory.c: loads, stores, atomics and asynchronous copies. */
#include <inttypes.h>
#include <string.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"

/* ---- addresses ---- */

static bool is_shared(const Ptx *p, const Value *memory) {
  return memory->type->space == p->k->cx->shared_space;
}

static const char *space_of(const Ptx *p, const Op *op, const Value *memory) {
  if (op_has(op, ATTR_peer)) return "shared::cluster";
  return is_shared(p, memory) ? "shared" : "global";
}

int64_t ptx_alloc_base(const Value *memory) {
  const Attr *base = memory->def ? op_attr(memory->def, ATTR_base) : NULL;
  return base ? base->integer : 0;
}

static int64_t bytes_of(const Value *memory, int64_t elements) {
  return elements * dtype_memory_bits(memory->type->dtype) / 8;
}

/* Elements of half a byte are addressed by the byte they are in. */
static Reg byte_offset(Ptx *p, const Value *memory, Reg offset) {
  Reg half = ptx_new(p, offset.class);
  if (dtype_memory_bits(memory->type->dtype) >= 8) return offset;
  ptx_line(p, "shr.s%d %s, %s, 1", offset.class == REG_RD ? 64 : 32, half.name, offset.name);
  return half;
}

static Reg global_address(Ptx *p, const Value *memory, Reg offset, int size) {
  Reg base = ptx_get(p, memory)->elem[0], to = ptx_new(p, REG_RD);
  const char *how = offset.class == REG_RD ? "mad.lo.s64" : "mad.wide.s32";
  ptx_line(p, "%s %s, %s, %d, %s", how, to.name, offset.name, size, base.name);
  return to;
}

static Reg shared_address(Ptx *p, Reg offset, int size) {
  Reg to = ptx_new(p, REG_R), word = offset;
  if (offset.class == REG_RD) {
    word = ptx_new(p, REG_R);
    ptx_line(p, "cvt.u32.u64 %s, %s", word.name, offset.name);
  }
  ptx_line(p, "mad.lo.s32 %s, %s, %d, %s", to.name, word.name, size, p->shared.name);
  return to;
}

Reg ptx_address(Ptx *p, const Value *memory, const Value *offset) {
  for (int i = p->addresses.n - 1; i >= 0; i--)
    if (p->addresses.at[i].memory == memory && p->addresses.at[i].offset == offset)
      return p->addresses.at[i].reg;
  int bits = dtype_memory_bits(memory->type->dtype), size = bits >= 8 ? bits / 8 : 1;
  Reg from = byte_offset(p, memory, elems_of(p, ptx_get(p, offset))[0]);
  Reg to =
      is_shared(p, memory) ? shared_address(p, from, size) : global_address(p, memory, from, size);
  vec_push(p->arena, &p->addresses, ((Address){memory, offset, to}));
  return to;
}

const char *ptx_place(Ptx *p, const Value *memory, const Value *offset) {
  Reg address = ptx_address(p, memory, offset);
  return arena_printf(p->arena, "[%s+%" PRId64 "]", address.name, ptx_alloc_base(memory));
}

/* The address of `bytes` behind it in the shared memory of the op's `peer`. */
static Reg peer_address(Ptx *p, const Op *op, Reg address, int64_t bytes) {
  Reg rank = ptx_expr(p, op, op_attr(op, ATTR_peer)->sym, DTYPE_i32, NULL);
  Reg here = ptx_new(p, REG_R), there = ptx_new(p, REG_R);
  if (!target_has(p->target, FEATURE_CLUSTER)) ptx_fail(p, op, "another workgroup's shared memory");
  ptx_line(p, "add.s32 %s, %s, %" PRId64, here.name, address.name, bytes);
  ptx_line(p, "mapa.shared::cluster.u32 %s, %s, %s", there.name, here.name, rank.name);
  return there;
}

const char *ptx_peer_place(Ptx *p, const Op *op, const Value *memory, const Value *offset) {
  Reg there = peer_address(p, op, ptx_address(p, memory, offset), ptx_alloc_base(memory));
  return arena_printf(p->arena, "[%s]", there.name);
}

/* [address + immediate] of an access whose memory is operand `at`. */
static const char *place_of(Ptx *p, const Op *op, int at, int64_t more) {
  const Attr *imm = op_attr(op, ATTR_imm);
  int64_t bytes = bytes_of(op->args[at], imm ? imm->integer : 0) + ptx_alloc_base(op->args[at]);
  Reg address = ptx_address(p, op->args[at], op->args[at + 1]);
  if (op_has(op, ATTR_peer)) address = peer_address(p, op, address, bytes), bytes = 0;
  return arena_printf(p->arena, "[%s+%" PRId64 "]", address.name, bytes + more);
}

/* "@%p " of the mask that is operand `at`, or "". */
static const char *guard_of(Ptx *p, const Op *op, int at) {
  if (op->nargs <= at) return "";
  Held *mask = ptx_get(p, op->args[at]);
  if (mask->n != 1) ptx_fail(p, op, "a mask for each element");
  return arena_printf(p->arena, "@%s ", elems_of(p, mask)[0].name);
}

/* ---- shapes of accesses ---- */

static const char *list_of(Ptx *p, const Reg *regs, int n) {
  StrBuf out = {.arena = p->arena};
  if (n == 1) return regs[0].name;
  for (int i = 0; i < n; i++) sb_printf(&out, "%s%s", i ? ", " : "{", regs[i].name);
  sb_puts(&out, "}");
  return sb_text(&out);
}

static const char *vector_of(int n) { return n == 1 ? "" : n == 2 ? ".v2" : ".v4"; }

static const char *type_of(RegClass class) {
  static const char *const names[] = {"pred", "b16", "b32", "b64", "f32", "f64"};
  return names[class];
}

static const char *order_of(const Op *op) { return op_has(op, ATTR_volatile) ? ".volatile" : ""; }

static bool moves_words(const Type *t) {
  return is_packed(t->dtype) && t->n * dtype_info[t->dtype].bits % 32 == 0;
}

/* ---- loads ---- */

static void clear(Ptx *p, Reg r) {
  switch (r.class) {
  case REG_H: ptx_line(p, "mov.b16 %s, 0", r.name); break;
  case REG_R: ptx_line(p, "mov.b32 %s, 0", r.name); break;
  case REG_RD: ptx_line(p, "mov.b64 %s, 0", r.name); break;
  case REG_F: ptx_line(p, "mov.f32 %s, 0f00000000", r.name); break;
  case REG_FD: ptx_line(p, "mov.f64 %s, 0d0000000000000000", r.name); break;
  default: break;
  }
}

static void load_registers(Ptx *p, const Op *op, const Reg *regs, int n, const char *type,
                           int64_t at) {
  const char *guard = guard_of(p, op, 2), *place = place_of(p, op, 0, at);
  for (int i = 0; *guard && i < n; i++) clear(p, regs[i]);
  ptx_line(p, "%sld%s.%s%s.%s %s, %s", guard, order_of(op), space_of(p, op, op->args[0]),
           vector_of(n), type, list_of(p, regs, n), place);
}

/* Less than a word, or truth values: one byte or two at a time. */
static void load_small(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  int bytes = dtype_memory_bits(t->dtype) * t->n / 8;
  if (class_of(t->dtype) == REG_P) {
    Held h = held_new(p, t->dtype, t->n, false);
    for (int i = 0; i < t->n; i++) {
      Reg byte = ptx_new(p, REG_R);
      load_registers(p, op, &byte, 1, "u8", i);
      ptx_line(p, "setp.ne.s32 %s, %s, 0", h.elem[i].name, byte.name);
    }
    ptx_set(p, &op->results[0], h);
    return;
  }
  Held h = held_new(p, t->dtype, t->n, true);
  if (bytes == 1) {
    load_registers(p, op, h.word, 1, "u8", 0);
  } else if (bytes == 2) {
    Reg half = ptx_new(p, REG_H);
    load_registers(p, op, &half, 1, "b16", 0);
    ptx_line(p, "cvt.u32.u16 %s, %s", h.word[0].name, half.name);
    if (class_of(t->dtype) == REG_H)
      h = (Held){.dtype = t->dtype, .n = 1, .elem = arena_copy(p->arena, &half, sizeof half)};
  } else {
    ptx_fail(p, op, "a load of this many bytes");
  }
  ptx_set(p, &op->results[0], h);
}

void ptx_load(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  bool words = moves_words(t);
  if (class_of(t->dtype) == REG_P || (is_packed(t->dtype) && !words)) {
    load_small(p, op);
    return;
  }
  Held h = held_new(p, t->dtype, t->n, words);
  const Reg *regs = words ? h.word : h.elem;
  load_registers(p, op, regs, words ? word_count(t->dtype, t->n) : t->n, type_of(regs[0].class), 0);
  ptx_set(p, &op->results[0], h);
}

/* ---- stores ---- */

static void store_registers(Ptx *p, const Op *op, const Reg *regs, int n, const char *type,
                            int64_t at) {
  const char *guard = guard_of(p, op, 3), *place = place_of(p, op, 1, at);
  ptx_line(p, "%sst%s.%s%s.%s %s, %s", guard, order_of(op), space_of(p, op, op->args[1]),
           vector_of(n), type, place, list_of(p, regs, n));
}

static void store_small(Ptx *p, const Op *op) {
  Held *h = ptx_get(p, op->args[0]);
  int bytes = dtype_memory_bits(h->dtype) * h->n / 8;
  if (class_of(h->dtype) == REG_P) {
    for (int i = 0; i < h->n; i++) {
      Reg byte = ptx_new(p, REG_R);
      ptx_line(p, "selp.b32 %s, 1, 0, %s", byte.name, elems_of(p, h)[i].name);
      store_registers(p, op, &byte, 1, "u8", i);
    }
  } else if (bytes == 2 && class_of(h->dtype) == REG_H) {
    store_registers(p, op, elems_of(p, h), 1, "b16", 0);
  } else if (bytes == 1 || bytes == 2) {
    Reg word = words_of(p, h)[0], half = ptx_new(p, REG_H);
    if (bytes == 1) store_registers(p, op, &word, 1, "u8", 0);
    if (bytes == 2) ptx_line(p, "cvt.u16.u32 %s, %s", half.name, word.name);
    if (bytes == 2) store_registers(p, op, &half, 1, "b16", 0);
  } else {
    ptx_fail(p, op, "a store of this many bytes");
  }
}

void ptx_store(Ptx *p, const Op *op) {
  Held *h = ptx_get(p, op->args[0]);
  const Type *t = op->args[0]->type;
  bool words = moves_words(t);
  if (class_of(t->dtype) == REG_P || (is_packed(t->dtype) && !words)) {
    store_small(p, op);
    return;
  }
  const Reg *regs = words ? words_of(p, h) : elems_of(p, h);
  store_registers(p, op, regs, words ? word_count(t->dtype, t->n) : t->n, type_of(regs[0].class),
                  0);
}

/* ---- matrices of 8x8 ---- */

static void move_matrices(Ptx *p, const Op *op, const Reg *words, int n, bool load) {
  const char *list = arena_printf(p->arena, n == 1 ? "{%s}" : "%s", list_of(p, words, n));
  const char *at = place_of(p, op, load ? 0 : 1, 0);
  ptx_line(p, "%smatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s, %s", load ? "ld" : "st", n,
           op_has(op, ATTR_transposed) ? ".trans" : "", load ? list : at, load ? at : list);
}

/* Transposing moves units of 16 bits; smaller elements stay together in theirs. */
void ptx_ldmatrix(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  int n = word_count(t->dtype, t->n);
  Held h = held_new(p, t->dtype, t->n, true);
  move_matrices(p, op, h.word, n, true);
  ptx_set(p, &op->results[0], h);
}

void ptx_stmatrix(Ptx *p, const Op *op) {
  Held *h = ptx_get(p, op->args[0]);
  move_matrices(p, op, words_of(p, h), word_count(h->dtype, h->n), false);
}

/* ---- atomics ---- */

void ptx_atomic(Ptx *p, const Op *op) {
  Held *h = ptx_get(p, op->args[0]);
  const char *mode = op_attr(op, ATTR_mode)->text;
  bool bitwise = strcmp(mode, "and") == 0 || strcmp(mode, "or") == 0 || strcmp(mode, "xchg") == 0;
  RegClass class = class_of(h->dtype);
  bool added = strcmp(mode, "add") == 0;
  const char *type = strcmp(mode, "xchg") == 0 || bitwise ? (class == REG_RD ? "b64" : "b32")
                     : class == REG_F                     ? "f32"
                     : class == REG_FD                    ? "f64"
                     : class == REG_RD                    ? (added ? "u64" : "s64")
                                                          : (added ? "u32" : "s32");
  bool fits = class == REG_R || class == REG_RD || ((class == REG_F || class == REG_FD) && added);
  if (h->n != 1 || !fits || is_packed(h->dtype)) {
    ptx_fail(p, op, "an atomic of this type");
    return;
  }
  const char *guard = guard_of(p, op, 3), *place = place_of(p, op, 1, 0);
  Held old = held_new(p, h->dtype, 1, false);
  if (*guard) clear(p, old.elem[0]);
  ptx_line(p, "%satom.%s.%s.%s %s, %s, %s", guard, space_of(p, op, op->args[1]), mode, type,
           old.elem[0].name, place, elems_of(p, h)[0].name);
  ptx_set(p, &op->results[0], old);
}
