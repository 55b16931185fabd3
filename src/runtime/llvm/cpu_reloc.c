/* cpu_reloc.c: the relocations that LLVM emits for standalone code (small code model, position
 * independent). */
#include "runtime/llvm/cpu_reloc.h"

#include <elf.h>
#include <string.h>

static void put32(uint64_t at, uint32_t v) { memcpy((void *)(uintptr_t)at, &v, sizeof v); }
static void put64(uint64_t at, uint64_t v) { memcpy((void *)(uintptr_t)at, &v, sizeof v); }

#if defined(__aarch64__)

static uint32_t get32(uint64_t at) {
  uint32_t v;
  memcpy(&v, (const void *)(uintptr_t)at, sizeof v);
  return v;
}

/* The low 12 bits of an address, scaled by the access size. */
static bool put_low12(const CpuReloc *r, uint64_t value, int shift) {
  put32(r->patch, get32(r->patch) | (uint32_t)((value & 0xfff) >> shift) << 10);
  return true;
}

static bool put_page(const CpuReloc *r, uint64_t value) {
  int64_t pages = (int64_t)((value & ~UINT64_C(0xfff)) - (r->patch & ~UINT64_C(0xfff))) >> 12;
  uint32_t low = (uint32_t)pages & 3, high = (uint32_t)(pages >> 2) & 0x7ffff;
  put32(r->patch, (get32(r->patch) & 0x9f00001f) | low << 29 | high << 5);
  return true;
}

/* Calls reach 128 MB; beyond that they go through a stub: ldr x16, [pc, 8]; br x16; address. */
static bool put_call(CpuReloc *r, uint64_t value) {
  int64_t distance = (int64_t)(value - r->patch), reach = INT64_C(1) << 27;
  if (distance < -reach || distance >= reach) {
    if (!r->outside) return false;
    put32(r->stub, 0x58000050);
    put32(r->stub + 4, 0xd61f0200);
    put64(r->stub + 8, value);
    r->used_stub = true;
    distance = (int64_t)(r->stub - r->patch);
  }
  put32(r->patch, (get32(r->patch) & 0xfc000000) | ((uint32_t)(distance >> 2) & 0x3ffffff));
  return true;
}

bool cpu_relocate(CpuReloc *r) {
  uint64_t value = r->symbol + (uint64_t)r->addend;
  switch (r->kind) {
  case R_AARCH64_NONE: return true;
  case R_AARCH64_ABS64: return put64(r->patch, value), true;
  case R_AARCH64_PREL32: return put32(r->patch, (uint32_t)(value - r->patch)), true;
  case R_AARCH64_PREL64: return put64(r->patch, value - r->patch), true;
  case R_AARCH64_ADR_PREL_PG_HI21: return put_page(r, value);
  case R_AARCH64_ADD_ABS_LO12_NC:
  case R_AARCH64_LDST8_ABS_LO12_NC: return put_low12(r, value, 0);
  case R_AARCH64_LDST16_ABS_LO12_NC: return put_low12(r, value, 1);
  case R_AARCH64_LDST32_ABS_LO12_NC: return put_low12(r, value, 2);
  case R_AARCH64_LDST64_ABS_LO12_NC: return put_low12(r, value, 3);
  case R_AARCH64_LDST128_ABS_LO12_NC: return put_low12(r, value, 4);
  case R_AARCH64_CALL26:
  case R_AARCH64_JUMP26: return put_call(r, value);
  default: return false;
  }
}

#else

static bool is_near(int64_t distance) { return distance == (int32_t)distance; }

/* A call beyond 2 GB goes through a stub: jmp [rip]; address. The addend is relative to the end of
 * the instruction. */
static bool put_call(CpuReloc *r) {
  static const uint8_t jump[6] = {0xff, 0x25};
  int64_t distance = (int64_t)(r->symbol - r->patch) + r->addend;
  if (!is_near(distance)) {
    if (!r->outside) return false;
    memcpy((void *)(uintptr_t)r->stub, jump, sizeof jump);
    put64(r->stub + sizeof jump, r->symbol);
    r->used_stub = true;
    distance = (int64_t)(r->stub - r->patch) + r->addend;
  }
  return put32(r->patch, (uint32_t)distance), true;
}

/* The address is loaded from the stub. */
static bool put_indirect(CpuReloc *r) {
  put64(r->stub, r->symbol);
  r->used_stub = true;
  put32(r->patch, (uint32_t)((int64_t)(r->stub - r->patch) + r->addend));
  return true;
}

bool cpu_relocate(CpuReloc *r) {
  uint64_t value = r->symbol + (uint64_t)r->addend;
  switch (r->kind) {
  case R_X86_64_NONE: return true;
  case R_X86_64_64: return put64(r->patch, value), true;
  case R_X86_64_PC64: return put64(r->patch, value - r->patch), true;
  case R_X86_64_PC32:
    if (!is_near((int64_t)(value - r->patch))) return false;
    return put32(r->patch, (uint32_t)(value - r->patch)), true;
  case R_X86_64_PLT32: return put_call(r);
  case R_X86_64_GOTPCREL:
  case R_X86_64_GOTPCRELX:
  case R_X86_64_REX_GOTPCRELX: return put_indirect(r);
  default: return false;
  }
}

#endif
