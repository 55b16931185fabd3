/* ptx_memory.c: loads and stores. After `legalise` an access has 1, 2, 4, 8 or 16 bytes. */
#include <inttypes.h>

#include "backend/ptx/ptx_state.h"
#include "ir/dtype.h"

/* ---- addresses ---- */
const char *ptx_space(const Ptx *p, const Op *op, const Value *memory) {
  if (op_has(op, ATTR_peer)) return "shared::cluster";
  return ptx_is_shared(p, memory) ? "shared" : "global";
}

int64_t ptx_alloc_base(const Value *memory) {
  const Attr *base = memory->def ? op_attr(memory->def, ATTR_base) : NULL;
  return base ? base->integer : 0;
}

static int64_t bytes_of(const Value *memory, int64_t elements) {
  return elements * dtype_memory_bits(memory->type->dtype) / 8;
}

const char *ptx_operand_at(Ptx *p, const Value *memory, const Value *offset, int64_t elements) {
  Reg address = ptx_address(p, memory, offset);
  return arena_printf(p->arena, "[%s+%" PRId64 "]", address.name,
                      ptx_alloc_base(memory) + bytes_of(memory, elements));
}

const char *ptx_operand(Ptx *p, const Value *memory, const Value *offset) {
  return ptx_operand_at(p, memory, offset, 0);
}

/* The address plus `bytes`, in the shared memory of the op's `peer`. */
static Reg peer_address(Ptx *p, const Op *op, Reg address, int64_t bytes) {
  Reg rank = ptx_expr(p, op, op_attr(op, ATTR_peer)->sym, DTYPE_i32, NULL);
  Reg here = ptx_new(p, REG_R), there = ptx_new(p, REG_R);
  if (!target_has(p->target, FEATURE_CLUSTER)) ptx_fail(p, op, "another workgroup's shared memory");
  ptx_line(p, "add.s32 %s, %s, %" PRId64, here.name, address.name, bytes);
  ptx_line(p, "mapa.shared::cluster.u32 %s, %s, %s", there.name, here.name, rank.name);
  return there;
}

const char *ptx_peer_operand(Ptx *p, const Op *op, const Value *memory, const Value *offset) {
  Reg there = peer_address(p, op, ptx_address(p, memory, offset), ptx_alloc_base(memory));
  return arena_printf(p->arena, "[%s]", there.name);
}

/* [address + immediate] for an access whose memory is operand `at`. */
static const char *operand_of(Ptx *p, const Op *op, int at, int64_t more) {
  int64_t bytes = bytes_of(op->args[at], op_imm(op, ATTR_imm)) + ptx_alloc_base(op->args[at]);
  Reg address = ptx_address(p, op->args[at], op->args[at + 1]);
  if (bytes + more != (int32_t)(bytes + more)) ptx_fail(p, op, "an immediate beyond 32 bits");
  if (op_has(op, ATTR_peer)) address = peer_address(p, op, address, bytes), bytes = 0;
  return arena_printf(p->arena, "[%s+%" PRId64 "]", address.name, bytes + more);
}

const char *ptx_peer_access(Ptx *p, const Op *store) { return operand_of(p, store, 1, 0); }

static bool is_nibble(const Value *memory) { return dtype_memory_bits(memory->type->dtype) == 4; }

/* Which half of its byte: the element's index may be odd. */
static Reg half_of_byte(Ptx *p, const Op *op, int at, int64_t element) {
  Reg from = ptx_elems_of(p, ptx_get(p, op->args[at + 1]))[0], half = ptx_new(p, REG_R);
  if (from.class == REG_RD) ptx_line(p, "cvt.u32.u64 %s, %s", half.name, from.name);
  else ptx_line(p, "mov.b32 %s, %s", half.name, from.name);
  ptx_line(p, "add.s32 %s, %s, %" PRId64, half.name, half.name, op_imm(op, ATTR_imm) + element);
  ptx_line(p, "and.b32 %s, %s, 1", half.name, half.name);
  return half;
}

/* Two 4-bit elements share a byte: with an odd element and an odd immediate, the byte is known only
 * at run time. */
static Reg nibble_address(Ptx *p, const Op *op, int at, int64_t element) {
  Reg from = ptx_elems_of(p, ptx_get(p, op->args[at + 1]))[0], sum = ptx_new(p, from.class);
  int bits = from.class == REG_RD ? 64 : 32;
  const Value *memory = op->args[at];
  ptx_line(p, "add.s%d %s, %s, %" PRId64, bits, sum.name, from.name,
           op_imm(op, ATTR_imm) + element);
  ptx_line(p, "shr.s%d %s, %s, 1", bits, sum.name, sum.name);
  return ptx_address_of(p, memory, sum, 1);
}

Reg ptx_element_address(Ptx *p, const Op *op, int at, int element, Reg *nibble) {
  const Value *memory = op->args[at];
  int64_t bytes = ptx_alloc_base(memory);
  Reg base;
  if (is_nibble(memory)) {
    *nibble = half_of_byte(p, op, at, element);
    base = nibble_address(p, op, at, element);
  } else {
    base = ptx_address(p, memory, op->args[at + 1]);
    bytes += bytes_of(memory, op_imm(op, ATTR_imm) + element);
  }
  if (op_has(op, ATTR_peer)) return peer_address(p, op, base, bytes);
  if (!bytes) return base;
  return ptx_let(p, base.class, "add.s%d %s, %" PRId64, base.class == REG_RD ? 64 : 32, base.name,
                 bytes);
}

/* "@%p " for the mask in operand `at`, or "". */
static const char *guard_of(Ptx *p, const Op *op, int at) {
  if (op->nargs <= at) return "";
  Held *mask = ptx_get(p, op->args[at]);
  if (mask->n != 1) ptx_fail(p, op, "a mask for each element, which `legalise` takes apart,");
  return arena_printf(p->arena, "@%s ", ptx_elems_of(p, mask)[0].name);
}

/* ---- shapes of accesses ---- */

const char *ptx_list_of(Ptx *p, const Reg *regs, int n) {
  StrBuf out = {.arena = p->arena};
  if (n <= 1) return regs[0].name;
  for (int i = 0; i < n; i++) sb_printf(&out, "%s%s", i ? ", " : "{", regs[i].name);
  sb_puts(&out, "}");
  return sb_text(&out);
}

const char *ptx_vector_of(int n) { return n <= 1 ? "" : n == 2 ? ".v2" : ".v4"; }

static const char *type_of(RegClass class) {
  static const char *const names[] = {"pred", "b16", "b32", "b64", "f32", "f64"};
  return names[class];
}

/* A flag is read before the data it guards and written after it. What several workgroups write is
 * `relaxed`: ordinary stores would be a data race, even of the same value. */
static const char *order_of(const Ptx *p, const Op *op, const Value *memory) {
  if (op_has(op, ATTR_agreed)) return ".relaxed.gpu";
  if (!op_has(op, ATTR_volatile)) return "";
  if (ptx_is_shared(p, memory)) return op->kind == OP_load ? ".acquire.cta" : ".release.cta";
  return op->kind == OP_load ? ".acquire.gpu" : ".release.gpu";
}

/* Data that is not reused soon is evicted first. */
static const char *hint_of(const Ptx *p, const Op *op, const Value *memory) {
  bool weak = !op_has(op, ATTR_volatile) && !op_has(op, ATTR_agreed);
  bool plain = weak && !ptx_is_shared(p, memory);
  return plain && op_has(op, ATTR_nontemporal) ? ".cs" : "";
}

static int access_bytes(const Type *t) { return dtype_memory_bits(t->dtype) * t->n / 8; }

static bool moves_words(const Type *t) {
  return ptx_is_packed(t->dtype) && access_bytes(t) % 4 == 0 && access_bytes(t);
}

/* Whether one instruction can do the access. */
static bool check_width(Ptx *p, const Op *op, const Type *t) {
  int bytes = access_bytes(t);
  bool single = dtype_memory_bits(t->dtype) == 4 && t->n == 1;
  if (single || ptx_class_of(t->dtype) == REG_P) return true;
  if (bytes <= 16 && (bytes & (bytes - 1)) == 0 && bytes * 8 == dtype_memory_bits(t->dtype) * t->n)
    return true;
  ptx_fail(p, op,
           arena_printf(p->arena, "an access of %d bytes, which `legalise` takes apart,", bytes));
  return false;
}

/* ---- loads ---- */

void ptx_clear(Ptx *p, Reg r) {
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
                           const char *operand) {
  const char *guard = guard_of(p, op, 2);
  const Value *memory = op->args[0];
  for (int i = 0; *guard && i < n; i++) ptx_clear(p, regs[i]);
  ptx_line(p, "%sld%s.%s%s%s.%s %s, %s", guard, order_of(p, op, memory), ptx_space(p, op, memory),
           hint_of(p, op, memory), ptx_vector_of(n), type, ptx_list_of(p, regs, n), operand);
}

/* One byte per element. */
static void load_truth(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  Held h = held_new(p, t->dtype, t->n, false);
  for (int i = 0; i < t->n; i++) {
    Reg byte = ptx_new(p, REG_R);
    load_registers(p, op, &byte, 1, "u8", operand_of(p, op, 0, i));
    ptx_line(p, "setp.ne.s32 %s, %s, 0", h.elem[i].name, byte.name);
  }
  ptx_set(p, &op->results[0], h);
}

static void load_nibble(Ptx *p, const Op *op) {
  Reg half, at = ptx_element_address(p, op, 0, 0, &half), byte = ptx_new(p, REG_R);
  Held h = held_new(p, op->results[0].type->dtype, 1, true);
  load_registers(p, op, &byte, 1, "u8", arena_printf(p->arena, "[%s]", at.name));
  ptx_line(p, "shl.b32 %s, %s, 2", half.name, half.name);
  ptx_line(p, "shr.u32 %s, %s, %s", byte.name, byte.name, half.name);
  ptx_line(p, "and.b32 %s, %s, 15", h.word[0].name, byte.name);
  ptx_set(p, &op->results[0], h);
}

/* Less than a word. */
static void load_small(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  const char *operand = operand_of(p, op, 0, 0);
  Held h = held_new(p, t->dtype, t->n, true);
  if (access_bytes(t) == 1) {
    load_registers(p, op, h.word, 1, "u8", operand);
    if (dtype_info[t->dtype].class != DTYPE_INT) h.elem = h.word; /* without a sign */
  } else {
    Reg half = ptx_new(p, REG_H);
    load_registers(p, op, &half, 1, "b16", operand);
    if (ptx_class_of(t->dtype) == REG_H)
      h = (Held){.dtype = t->dtype, .n = 1, .elem = arena_copy(p->arena, &half, sizeof half)};
    else ptx_line(p, "cvt.u32.u16 %s, %s", h.word[0].name, half.name);
  }
  ptx_set(p, &op->results[0], h);
}

void ptx_load(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  bool words = moves_words(t);
  if (!check_width(p, op, t)) return;
  if (ptx_class_of(t->dtype) == REG_P) load_truth(p, op);
  else if (dtype_memory_bits(t->dtype) == 4 && t->n == 1) load_nibble(p, op);
  else if (ptx_is_packed(t->dtype) && !words) load_small(p, op);
  else {
    Held h = held_new(p, t->dtype, t->n, words);
    const Reg *regs = words ? h.word : h.elem;
    load_registers(p, op, regs, words ? ptx_word_count(t->dtype, t->n) : t->n,
                   type_of(regs[0].class), operand_of(p, op, 0, 0));
    ptx_set(p, &op->results[0], h);
  }
}

/* ---- stores ---- */

static void store_registers(Ptx *p, const Op *op, const Reg *regs, int n, const char *type,
                            int64_t at) {
  const char *guard = guard_of(p, op, 3), *operand = operand_of(p, op, 1, at);
  const Value *memory = op->args[1];
  ptx_line(p, "%sst%s.%s%s%s.%s %s, %s", guard, order_of(p, op, memory), ptx_space(p, op, memory),
           hint_of(p, op, memory), ptx_vector_of(n), type, operand, ptx_list_of(p, regs, n));
}

static void store_truth(Ptx *p, const Op *op, Held *h) {
  for (int i = 0; i < h->n; i++) {
    Reg byte = ptx_new(p, REG_R);
    ptx_line(p, "selp.b32 %s, 1, 0, %s", byte.name, ptx_elems_of(p, h)[i].name);
    store_registers(p, op, &byte, 1, "u8", i);
  }
}

/* The other half of the byte may belong to another thread. */
static void store_nibble(Ptx *p, const Op *op, Held *h) {
  Held *mask = op->nargs > 3 ? ptx_get(p, op->args[3]) : NULL;
  Reg half, at = ptx_element_address(p, op, 1, 0, &half), value = ptx_elems_of(p, h)[0];
  int skip = p->labels++;
  if (mask) ptx_line(p, "@!%s bra $skip%d", ptx_elems_of(p, mask)[0].name, skip);
  ptx_exchange(p, ptx_space(p, op, op->args[1]), at, half, h->dtype, value);
  if (mask) ptx_label(p, "skip", skip);
}

static void store_small(Ptx *p, const Op *op, Held *h) {
  int bytes = access_bytes(op->args[0]->type);
  if (ptx_class_of(h->dtype) == REG_H) {
    store_registers(p, op, ptx_elems_of(p, h), 1, "b16", 0);
  } else if (bytes == 1) {
    store_registers(p, op, ptx_words_of(p, h), 1, "u8", 0);
  } else {
    Reg half = ptx_new(p, REG_H);
    ptx_line(p, "cvt.u16.u32 %s, %s", half.name, ptx_words_of(p, h)[0].name);
    store_registers(p, op, &half, 1, "b16", 0);
  }
}

void ptx_store(Ptx *p, const Op *op) {
  if (ptx_send(p, op)) return;
  Held *h = ptx_get(p, op->args[0]);
  const Type *t = op->args[0]->type;
  bool words = moves_words(t);
  if (!check_width(p, op, t)) return;
  if (ptx_class_of(t->dtype) == REG_P) store_truth(p, op, h);
  else if (dtype_memory_bits(t->dtype) == 4 && t->n == 1) store_nibble(p, op, h);
  else if (ptx_is_packed(t->dtype) && !words) store_small(p, op, h);
  else {
    const Reg *regs = words ? ptx_words_of(p, h) : ptx_elems_of(p, h);
    store_registers(p, op, regs, words ? ptx_word_count(t->dtype, t->n) : t->n,
                    type_of(regs[0].class), 0);
  }
}

/* ---- matrices of 8x8 ---- */

static void move_matrices(Ptx *p, const Op *op, const Reg *words, int n, bool load) {
  const char *list = arena_printf(p->arena, n == 1 ? "{%s}" : "%s", ptx_list_of(p, words, n));
  const char *at = operand_of(p, op, load ? 0 : 1, 0);
  ptx_line(p, "%smatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s, %s", load ? "ld" : "st", n,
           op_has(op, ATTR_transposed) ? ".trans" : "", load ? list : at, load ? at : list);
}

/* Transposing moves 16-bit units; smaller elements stay together within them. */
void ptx_ldmatrix(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  int n = ptx_word_count(t->dtype, t->n);
  Held h = held_new(p, t->dtype, t->n, true);
  move_matrices(p, op, h.word, n, true);
  ptx_set(p, &op->results[0], h);
}

void ptx_stmatrix(Ptx *p, const Op *op) {
  Held *h = ptx_get(p, op->args[0]);
  move_matrices(p, op, ptx_words_of(p, h), ptx_word_count(h->dtype, h->n), false);
}
