/* isa_atomic.c: atomic operations, as loops of compare-and-swap. */
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
