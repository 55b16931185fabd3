/* amd_direct.c: loads that end in the LDS, and the waits for them.
 *
 *     copy_async %s, p, %a, o {bytes = 4, counted}      buffer_load_dword v, s, soffset offen lds
 *                                       gfx1250:        global_load_async_to_lds_b32 v, v, s
 *
 * On CDNA lane i of a wave fills the bytes after those of lane i - 1; M0 says where the first lane's
 * are. So the offset in the LDS must be that of lane 0 plus the bytes of the lanes before. Where
 * this, or an offset of 32 bits in the tensor, cannot be proved, the copy goes through registers.
 *
 * LLVM waits for all of these loads before any read of the LDS, unless it is told that reads and
 * copies do not overlap; version 22 is the first that listens. The kernel's own waits and barriers
 * keep them apart.
 *
 * On gfx1250 each lane has an address in the LDS. These loads have a counter of their own, which LLVM
 * leaves to the program. */
#include <inttypes.h>
#include <string.h>

#include "backend/amd/amd_state.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"

bool amd_is_direct(const Op *op) { return op->kind == OP_copy_async && op_has(op, ATTR_counted); }

/* ---- what LLVM is told ---- */

enum { DOMAIN = 1000000, READS, COPIES, READS_ONLY, COPIES_ONLY };

const char *amd_apart(const Llvm *p, bool is_copy) {
  if (!p->amd->direct) return "";
  return arena_printf(p->arena, ", !alias.scope !%d, !noalias !%d",
                      is_copy ? COPIES_ONLY : READS_ONLY, is_copy ? READS_ONLY : COPIES_ONLY);
}

void amd_put_scopes(const Llvm *p, StrBuf *out) {
  if (!p->amd->direct) return;
  sb_printf(out, "!%d = distinct !{!%d}\n", DOMAIN, DOMAIN);
  for (int scope = READS; scope <= COPIES; scope++) {
    sb_printf(out, "!%d = distinct !{!%d, !%d}\n", scope, scope, DOMAIN);
    sb_printf(out, "!%d = !{!%d}\n", scope - READS + READS_ONLY, scope);
  }
}

/* ---- copies ---- */

static bool has_operands(Llvm *p, const Sym *e) {
  FreeSymbols all = sym_symbols(p->arena, e);
  for (int i = 0; i < all.n; i++)
    if (strncmp(sym_name(all.at[i]), "$APPLY", 6) == 0) return true;
  return false;
}

/* The offset in the LDS of the wave's first lane, in elements; NULL: lanes are not contiguous. */
static const Sym *first_lane(Llvm *p, const Op *op, int64_t units) {
  SymCtx *sym = p->sym;
  const Sym *e = amd_expression_at(p, op, op->args[1]),
            *t = ir_numbered_symbol(p->k->cx, "$T", 0, true);
  const Sym *lanes = sym_int(sym, p->amd->target->lanes);
  if (!e || !p->wave.name || has_operands(p, e)) return NULL;
  SymBinding to = {t, sym_mul(sym, sym_floordiv(sym, t, lanes), lanes)};
  const Sym *first = sym_subst(sym, e, &to, 1);
  const Sym *before = sym_mul(sym, sym_mod(sym, t, lanes), sym_int(sym, units));
  const Sym *rest = first ? sym_sub(sym, sym_sub(sym, e, first), before) : NULL;
  if (rest) rest = sym_simplify(sym, p->facts, rest);
  sym_take_error(sym);
  return rest == sym_int(sym, 0) ? sym_simplify(sym, p->facts, first) : NULL;
}

/* "i32 offset, i32 scalar offset". The immediate of the instruction would be added on both sides. */
static const char *source(Llvm *p, const AmdAddress *a, const char *test) {
  const char *near = a->near, *scalar = a->common ? a->common : "0";
  bool apart = a->counts && a->imm >= 0;
  if (!apart) near = llvm_let(p, "add i32 %s, %" PRId64, near, a->imm);
  else if (a->imm) scalar = llvm_let(p, "add i32 %s, %" PRId64, scalar, a->imm);
  if (test) near = llvm_let(p, "select i1 %s, i32 %s, i32 " AMD_NOWHERE, test, near);
  return arena_printf(p->arena, "i32 %s, i32 %s", near, scalar);
}

static const char *target_of(Llvm *p, const Op *op, const Sym *first) {
  const Held *memory = llvm_held_get(p, op->args[0]);
  int bits = dtype_memory_bits(op->args[0]->type->dtype);
  const Sym *bytes = sym_add(p->sym, first, sym_int(p->sym, op_imm(op, ATTR_imm)));
  bytes = sym_mul(p->sym, bytes, sym_rational(p->sym, bits, 8));
  const char *at = llvm_in_bits(p, llvm_number(p, op, bytes), 32);
  return llvm_let(p, "getelementptr i8, ptr addrspace(3) %s, i32 %s", memory->base, at);
}

static void call_load(Llvm *p, const char *buffer, const char *to, int64_t bytes,
                      const char *from) {
  llvm_declare(p, "declare void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8), ptr "
                  "addrspace(3), i32, i32, i32, i32, i32)");
  llvm_line(p,
            "call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %s, ptr addrspace(3) "
            "%s, i32 %" PRId64 ", %s, i32 0, i32 0)%s",
            buffer, to, bytes, from, amd_apart(p, true));
}

/* ---- asynchronous copies ---- */

static bool has_async(const Llvm *p) { return amd_knows(p->amd, "global.load.async.to.lds.b32"); }

static const char *async_name(int64_t bytes) {
  if (bytes == 16) return "llvm.amdgcn.global.load.async.to.lds.b128";
  if (bytes == 8) return "llvm.amdgcn.global.load.async.to.lds.b64";
  return "llvm.amdgcn.global.load.async.to.lds.b32";
}

/* Where inactive lanes copy from. All lanes issue the copy, so that every wave counts as many. */
static const char *or_zeros(Llvm *p, const char *from, const char *test) {
  const char *zeros = "@zeros";
  if (!test) return from;
  llvm_declare(p, arena_printf(p->arena,
                               "%s = internal addrspace(1) constant [16 x i8] zeroinitializer, "
                               "align 16",
                               zeros));
  return llvm_let(p, "select i1 %s, ptr addrspace(1) %s, ptr addrspace(1) %s", test, from, zeros);
}

static void copy_async(Llvm *p, const Op *op, int64_t bytes) {
  AmdAddress to = amd_address(p, op, 0, op_imm(op, ATTR_imm));
  AmdAddress from = amd_address(p, op, 2, op_imm(op, ATTR_imm_from));
  const char *test = op->nargs > 4 ? llvm_scalar_of(p, llvm_held_get(p, op->args[4])) : NULL;
  const char *name = async_name(bytes);
  const char *in = or_zeros(p, amd_pointer(p, &from), test), *out = amd_pointer(p, &to);
  llvm_declare(p, arena_printf(p->arena,
                               "declare void @%s(ptr addrspace(1), ptr addrspace(3), i32, i32)",
                               name));
  llvm_line(p, "call void @%s(ptr addrspace(1) %s, ptr addrspace(3) %s, i32 0, i32 0)%s", name, in,
            out, amd_apart(p, true));
}

/* False: not possible. */
bool amd_copy_direct(Llvm *p, const Op *op, int64_t bytes) {
  if (has_async(p)) {
    copy_async(p, op, bytes);
    return true;
  }
  int bits = dtype_memory_bits(op->args[0]->type->dtype);
  bool has = bytes == 4 || target_has(p->amd->target, FEATURE_DIRECT_LDS_16);
  const Sym *first = has ? first_lane(p, op, bytes * 8 / bits) : NULL;
  Held *mask = op->nargs > 4 ? llvm_held_get(p, op->args[4]) : NULL;
  if (!first) return false;
  AmdAddress from = amd_address(p, op, 2, op_imm(op, ATTR_imm_from));
  const char *buffer = from.near ? amd_buffer(p, from.memory) : NULL;
  if (!buffer) return false;
  const char *test = mask ? llvm_scalar_of(p, mask) : NULL;
  call_load(p, buffer, target_of(p, op, first), bytes, source(p, &from, test));
  return true;
}

/* ---- waits ---- */

/* Bits of s_waitcnt: vmcnt in 0 to 3 and 14 to 15, expcnt in 4 to 6, lgkmcnt in 8 to 11. LDS
 * accesses are waited for too, as the barrier that follows does: LLVM takes the largest number,
 * "do not wait", for a wait that leaves as many in flight, and omits its own where there are
 * more. */
void amd_wait_loads(Llvm *p, int64_t left) {
  enum { NO_EXPORTS = 0x70, MOST = 62 }; /* 63: do not wait */
  int n = left > MOST ? MOST : (int)left;
  if (has_async(p)) {
    llvm_call_void(p, "llvm.amdgcn.s.wait.asynccnt", "i16", arena_printf(p->arena, "i16 %d", n));
    return;
  }
  llvm_call_void(p, "llvm.amdgcn.s.waitcnt", "i32",
                 arena_printf(p->arena, "i32 %d", NO_EXPORTS | (n & 15) | n >> 4 << 14));
}
