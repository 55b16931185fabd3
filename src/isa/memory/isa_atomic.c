/* isa_atomic.c: atomic operations, as loops of compare-and-swap.
 *
 * Atomic operations have at least four bytes, so that smaller elements are updated together with the
 * rest of an aligned word, which may be outside the tensor. Such bytes must not be changed; here they
 * are not accessed either, and read as zero. */
#include <stdatomic.h>

#include "isa/isa_number.h"
#include "isa/isa_state.h"

static uint32_t both_f16(uint32_t a, uint32_t b) {
  uint32_t low = isa_to_f16(isa_from_f16(a & 0xffff) + isa_from_f16(b & 0xffff));
  return low | isa_to_f16(isa_from_f16(a >> 16) + isa_from_f16(b >> 16)) << 16;
}

static uint32_t both_bf16(uint32_t a, uint32_t b) {
  uint32_t low = isa_to_bf16(isa_from_bf16(a & 0xffff) + isa_from_bf16(b & 0xffff));
  return low | isa_to_bf16(isa_from_bf16(a >> 16) + isa_from_bf16(b >> 16)) << 16;
}

static int64_t signed_of(uint64_t v, int bits) {
  return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

/* Of integers with this many bits, in the low bits of the operands and of the result. */
static uint64_t apply_integer(IsaAtomic op, int bits, uint64_t old, uint64_t v, uint64_t compare) {
  switch (op) {
  case ATOMIC_ADD: return old + v;
  case ATOMIC_SUB: return old - v;
  case ATOMIC_SMIN: return signed_of(old, bits) < signed_of(v, bits) ? old : v;
  case ATOMIC_UMIN: return old < v ? old : v;
  case ATOMIC_SMAX: return signed_of(old, bits) > signed_of(v, bits) ? old : v;
  case ATOMIC_UMAX: return old > v ? old : v;
  case ATOMIC_AND: return old & v;
  case ATOMIC_OR: return old | v;
  case ATOMIC_XOR: return old ^ v;
  case ATOMIC_INC: return old >= v ? 0 : old + 1;
  case ATOMIC_DEC: return old == 0 || old > v ? v : old - 1;
  case ATOMIC_SWAP: return v;
  case ATOMIC_CAS: return old == compare ? v : old;
  default: return old; /* floats */
  }
}

static uint32_t apply32(IsaAtomic op, uint32_t old, uint32_t v, uint32_t compare) {
  switch (op) {
  case ATOMIC_FADD: return isa_bits(isa_float(old) + isa_float(v));
  case ATOMIC_FMIN: return isa_bits(isa_min_f32(isa_float(old), isa_float(v)));
  case ATOMIC_FMAX: return isa_bits(isa_max_f32(isa_float(old), isa_float(v)));
  case ATOMIC_PKF16: return both_f16(old, v);
  case ATOMIC_PKBF16: return both_bf16(old, v);
  default: return (uint32_t)apply_integer(op, 32, old, v, compare);
  }
}

static uint64_t apply64(IsaAtomic op, uint64_t old, uint64_t v, uint64_t compare) {
  switch (op) {
  case ATOMIC_FADD: return isa_bits64(isa_double(old) + isa_double(v));
  case ATOMIC_FMIN: return isa_bits64(isa_min_f64(isa_double(old), isa_double(v)));
  case ATOMIC_FMAX: return isa_bits64(isa_max_f64(isa_double(old), isa_double(v)));
  default: return apply_integer(op, 64, old, v, compare);
  }
}

bool isa_atomic_aligned(IsaWave *w, int lane, const uint8_t *at, int bytes) {
  int beyond = (int)((uintptr_t)at % (unsigned)bytes);
  if (!beyond) return true;
  isa_fault(
      w, ISA_UNALIGNED, lane,
      "an atomic operation on %d bytes is %d bytes beyond an address that is a multiple of %d",
      bytes, beyond, bytes);
  return false;
}

uint64_t isa_atomic(int op, uint8_t *at, int bytes, uint64_t value, uint64_t compare) {
  if (bytes == 8) {
    _Atomic uint64_t *p = (_Atomic uint64_t *)(void *)at;
    uint64_t old = atomic_load(p);
    while (!atomic_compare_exchange_weak(p, &old, apply64((IsaAtomic)op, old, value, compare))) {
    }
    return old;
  }
  _Atomic uint32_t *p = (_Atomic uint32_t *)(void *)at;
  uint32_t old = atomic_load(p);
  uint32_t v = (uint32_t)value, c = (uint32_t)compare;
  while (!atomic_compare_exchange_weak(p, &old, apply32((IsaAtomic)op, old, v, c))) {
  }
  return old;
}

/* ---- words of which only a part is the launch's ---- */

static uint8_t byte_of(uint64_t v, int b) { return (uint8_t)(v >> 8 * b); }

unsigned isa_atomic_changes(int op, int bytes, uint64_t value, uint64_t compare) {
  unsigned changed = 0;
  for (int b = 0; b < bytes; b++) {
    bool keeps = op == ATOMIC_AND                      ? byte_of(value, b) == 0xff
                 : op == ATOMIC_OR || op == ATOMIC_XOR ? byte_of(value, b) == 0
                 : op == ATOMIC_CAS                    ? byte_of(value, b) == byte_of(compare, b)
                                                       : false;
    if (!keeps) changed |= 1u << b;
  }
  return changed;
}

/* The bytes are independent of each other. */
static uint64_t apply_bytes(int op, uint8_t *at, unsigned inside, uint64_t value) {
  uint64_t old = 0;
  for (int b = 0; b < 4; b++) {
    _Atomic uint8_t *p = (_Atomic uint8_t *)at + b;
    if (!(inside >> b & 1)) continue;
    uint64_t was = op == ATOMIC_AND   ? atomic_fetch_and(p, byte_of(value, b))
                   : op == ATOMIC_OR  ? atomic_fetch_or(p, byte_of(value, b))
                   : op == ATOMIC_XOR ? atomic_fetch_xor(p, byte_of(value, b))
                                      : atomic_load(p);
    old |= was << 8 * b;
  }
  return old;
}

/* The bytes that stay the same need not be compared in the same instant. */
static uint64_t swap_bytes(uint8_t *at, unsigned inside, unsigned changed, uint64_t value,
                           uint64_t compare) {
  uint64_t old = apply_bytes(ATOMIC_CAS, at, inside, 0);
  if (old != compare || !changed) return old;
  int b = 0;
  while (!(changed >> b & 1)) b++;
  if (changed >> b == 1) {
    uint8_t seen = byte_of(compare, b);
    atomic_compare_exchange_strong((_Atomic uint8_t *)at + b, &seen, byte_of(value, b));
    return (old & ~(UINT64_C(0xff) << 8 * b)) | (uint64_t)seen << 8 * b;
  }
  uint16_t seen = (uint16_t)(compare >> 8 * b);
  atomic_compare_exchange_strong((_Atomic uint16_t *)(void *)(at + b), &seen,
                                 (uint16_t)(value >> 8 * b));
  return (old & ~(UINT64_C(0xffff) << 8 * b)) | (uint64_t)seen << 8 * b;
}

bool isa_atomic_splits(unsigned changed) {
  bool is_byte = !(changed & (changed - 1));
  return is_byte || changed == 3 || changed == 12;
}

uint64_t isa_atomic_part(int op, uint8_t *at, unsigned inside, uint64_t value, uint64_t compare) {
  unsigned changed = isa_atomic_changes(op, 4, value, compare);
  return op == ATOMIC_CAS ? swap_bytes(at, inside, changed, value, compare)
                          : apply_bytes(op, at, inside, value);
}
