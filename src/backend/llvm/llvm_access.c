/* llvm_access.c: parts of memory accesses: blocks under a condition, atomics. */
#include <string.h>

#include "backend/llvm/llvm_state.h"
#include "ir/dtype.h"
#include "ir/ops/atomics.h"

/* ---- blocks under a condition ---- */

LlvmGuard llvm_guard_open(Llvm *p, const char *test) {
  const char *then = llvm_label(p, "some");
  LlvmGuard g = {p->block, llvm_label(p, "all")};
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", test, then, g.end);
  llvm_block(p, then);
  return g;
}

const char *llvm_guard_close(Llvm *p, LlvmGuard g) {
  const char *inside = p->block;
  llvm_line(p, "br label %%%s", g.end);
  llvm_block(p, g.end);
  return inside;
}

const char *llvm_guard_phi(Llvm *p, LlvmGuard g, const char *type, const char *inside,
                           const char *block, const char *outside) {
  return llvm_let(p, "phi %s [ %s, %%%s ], [ %s, %%%s ]", type, inside, block, outside, g.before);
}

/* ---- atomics ---- */

/* The operation name for atomicrmw; NULL: there is none for this type. */
static const char *native_atomic(const char *mode, DType t) {
  bool is_float = dtype_is_float(t), plain = t == DTYPE_f32 || t == DTYPE_f64;
  if (strcmp(mode, "xchg") == 0)
    return plain || !is_float || llvm_elem_bits(t) >= 8 ? "xchg" : NULL;
  if (strcmp(mode, "add") == 0) return plain ? "fadd" : is_float ? NULL : "add";
  if (dtype_is_unsigned(t) && *mode == 'm') return mode[1] == 'a' ? "umax" : "umin";
  return is_float ? NULL : mode; /* min max and or xor */
}

/* Repeats until no other thread has interfered between reading and writing. */
static const char *atomic_loop(Llvm *p, const Op *op, DType t, LlvmCell cell, const char *v) {
  const char *again = llvm_label(p, "again"), *end = llvm_label(p, "end"), *before = p->block;
  OpKind kind = atomic_combine(op_attr(op, ATTR_mode)->text);
  const char *elem = llvm_elem_type(t), *word = arena_printf(p->arena, "i%d", llvm_elem_bits(t));
  int bytes = llvm_elem_bits(t) / 8;
  const char *first = llvm_let(p, "load atomic %s, %s %s %smonotonic, align %d", word, cell.type,
                               cell.at, cell.scope, bytes);
  llvm_line(p, "br label %%%s", again);
  llvm_block(p, again);
  const char *old = llvm_new(p), *seen = llvm_new(p);
  sb_printf(&p->body, "  %s = phi %s [ %s, %%%s ], [ %s, %%%s ]\n", old, word, first, before, seen,
            again);
  bool is_word = strcmp(elem, word) == 0;
  const char *a = is_word ? old : llvm_let(p, "bitcast %s %s to %s", word, old, elem);
  const char *sum = llvm_from_compute(p, t, 1, llvm_combine(p, op, kind, t, 1, a, v));
  if (!is_word) sum = llvm_let(p, "bitcast %s %s to %s", elem, sum, word);
  const char *pair = llvm_let(p, "cmpxchg %s %s, %s %s, %s %s %smonotonic monotonic, align %d",
                              cell.type, cell.at, word, old, word, sum, cell.scope, bytes);
  sb_printf(&p->body, "  %s = extractvalue { %s, i1 } %s, 0\n", seen, word, pair);
  const char *done = llvm_let(p, "extractvalue { %s, i1 } %s, 1", word, pair);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", done, end, again);
  llvm_block(p, end);
  return is_word ? old : llvm_let(p, "bitcast %s %s to %s", word, old, elem);
}

/* Replaces `expected`, which is compared bitwise, by `v`. */
static const char *compare_exchange(Llvm *p, DType t, LlvmCell cell, const char *v,
                                    const char *expected, const char *how) {
  int bits = llvm_elem_bits(t);
  const char *elem = llvm_elem_type(t), *word = arena_printf(p->arena, "i%d", bits);
  bool is_word = strcmp(elem, word) == 0;
  if (!is_word) v = llvm_let(p, "bitcast %s %s to %s", elem, v, word);
  if (!is_word) expected = llvm_let(p, "bitcast %s %s to %s", elem, expected, word);
  const char *pair = llvm_let(p, "cmpxchg %s %s, %s %s, %s %s %s%s monotonic, align %d", cell.type,
                              cell.at, word, expected, word, v, cell.scope, how, bits / 8);
  const char *old = llvm_let(p, "extractvalue { %s, i1 } %s, 0", word, pair);
  return is_word ? old : llvm_let(p, "bitcast %s %s to %s", word, old, elem);
}

const char *llvm_atomic_element(Llvm *p, const Op *op, DType t, LlvmCell cell, const char *v,
                                const char *expected) {
  const char *native = native_atomic(op_attr(op, ATTR_mode)->text, t);
  const char *how = op_has(op, ATTR_volatile) ? "acq_rel" : "monotonic";
  if (expected) return compare_exchange(p, t, cell, v, expected, how);
  if (!native) return atomic_loop(p, op, t, cell, v);
  return llvm_let(p, "atomicrmw %s %s %s, %s %s %s%s%s", native, cell.type, cell.at,
                  llvm_elem_type(t), v, cell.scope, how, cell.facts);
}
