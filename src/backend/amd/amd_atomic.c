/* amd_atomic.c: atomic operations on elements of less than 32 bits.
 *
 * The instructions update words, so the aligned word around the element is updated. A part of it may
 * be outside the tensor; it is in the same allocation, since those are not divided more finely.
 * Three rules keep it harmless there, which the executor checks: only atomic operations access the
 * word, the bits around the element are not changed, and nothing depends on them. Hence the loops
 * below begin with a guess instead of a load. LLVM's own expansions read the word first, with an
 * ordinary load. */
#include <string.h>

#include "backend/amd/amd_state.h"
#include "ir/dtype.h"
#include "ir/ops/atomics.h"

/* Where an element is in its word. */
typedef struct Part {
  LlvmCell cell; /* of the word */
  const char *shift, *mask;
  const char *type; /* an integer with the bits of the element */
} Part;

/* The pointer's word, `low` bytes before it. LLVM checks the text before it knows how wide pointers
 * into the LDS are, so they are not masked. */
static const char *word_at(Llvm *p, LlvmCell cell, const char *low) {
  bool shared = strcmp(cell.type, llvm_pointer_type(AMD_LDS)) == 0;
  const char *back = shared ? llvm_let(p, "sub i32 0, %s", low) : NULL;
  if (shared) return llvm_let(p, "getelementptr i8, %s %s, i32 %s", cell.type, cell.at, back);
  return llvm_call(p, cell.type, "llvm.ptrmask.p1.i64",
                   arena_printf(p->arena, "%s, i64", cell.type),
                   arena_printf(p->arena, "%s %s, i64 -4", cell.type, cell.at));
}

static Part part_of(Llvm *p, LlvmCell cell, int bits) {
  Part x = {.cell = cell, .type = arena_printf(p->arena, "i%d", bits)};
  const char *address = llvm_let(p, "ptrtoint %s %s to i32", cell.type, cell.at);
  const char *low = llvm_let(p, "and i32 %s, 3", address);
  x.cell.at = word_at(p, cell, low);
  x.shift = llvm_let(p, "shl i32 %s, 3", low);
  x.mask = llvm_let(p, "shl i32 %u, %s", (1u << bits) - 1, x.shift);
  return x;
}

static const char *in_word(Llvm *p, const Part *x, const char *v) {
  return llvm_let(p, "shl i32 %s, %s", llvm_let(p, "zext %s %s to i32", x->type, v), x->shift);
}

static const char *out_of_word(Llvm *p, const Part *x, const char *word) {
  return llvm_let(p, "trunc i32 %s to %s", llvm_let(p, "lshr i32 %s, %s", word, x->shift), x->type);
}

static const char *update(Llvm *p, const Part *x, const char *mode, const char *v,
                          const char *order) {
  return llvm_let(p, "atomicrmw %s %s %s, i32 %s %s%s%s", mode, x->cell.type, x->cell.at, v,
                  x->cell.scope, order, x->cell.facts);
}

/* The bits around the element are those of the neutral element. If LLVM sees that all of them are, it
 * makes a load of the operation. */
static const char *update_bits(Llvm *p, const Part *x, const char *mode, const char *v,
                               const char *order) {
  const char *word = in_word(p, x, v);
  if (strcmp(mode, "and") == 0)
    word = llvm_let(p, "or i32 %s, %s", word, llvm_let(p, "xor i32 %s, -1", x->mask));
  return out_of_word(p, x, update(p, x, mode, amd_hidden(p, "i32", word), order));
}

/* What an element becomes. */
typedef struct Change {
  const Op *op;
  DType dtype;
  const char *v;
  const char *expected; /* of a compare-and-exchange; or NULL */
  const char *order;
} Change;

static const char *changed(Llvm *p, const Part *x, const Change *c, const char *old) {
  const char *mode = op_attr(c->op, ATTR_mode)->text, *elem = llvm_elem_type(c->dtype);
  const char *v = amd_recast(p, elem, c->v, x->type);
  if (c->expected) {
    const char *expected = amd_recast(p, elem, c->expected, x->type);
    const char *same = llvm_let(p, "icmp eq %s %s, %s", x->type, old, expected);
    return llvm_let(p, "select i1 %s, %s %s, %s %s", same, x->type, v, x->type, old);
  }
  if (strcmp(mode, "xchg") == 0) return v;
  const char *a = amd_recast(p, x->type, old, elem);
  const char *sum = llvm_combine(p, c->op, atomic_combine(mode), c->dtype, 1, a, c->v);
  return amd_recast(p, elem, llvm_from_compute(p, c->dtype, 1, sum), x->type);
}

/* Repeats until the word is what it was computed from; the first guess is zero. */
static const char *update_loop(Llvm *p, const Part *x, const Change *c) {
  const char *again = llvm_label(p, "again"), *end = llvm_label(p, "end"), *before = p->block;
  llvm_line(p, "br label %%%s", again);
  llvm_block(p, again);
  const char *word = llvm_new(p), *seen = llvm_new(p);
  sb_printf(&p->body, "  %s = phi i32 [ 0, %%%s ], [ %s, %%%s ]\n", word, before, seen, again);
  const char *old = out_of_word(p, x, word);
  const char *around = llvm_let(p, "and i32 %s, %s", word, llvm_let(p, "xor i32 %s, -1", x->mask));
  const char *next = llvm_let(p, "or i32 %s, %s", around, in_word(p, x, changed(p, x, c, old)));
  const char *pair = llvm_let(p, "cmpxchg %s %s, i32 %s, i32 %s %s%s monotonic, align 4",
                              x->cell.type, x->cell.at, word, next, x->cell.scope, c->order);
  sb_printf(&p->body, "  %s = extractvalue { i32, i1 } %s, 0\n", seen, pair);
  const char *done = llvm_let(p, "extractvalue { i32, i1 } %s, 1", pair);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", done, end, again);
  llvm_block(p, end);
  return old;
}

static bool is_bitwise(const char *mode) {
  return strcmp(mode, "and") == 0 || strcmp(mode, "or") == 0 || strcmp(mode, "xor") == 0;
}

const char *amd_atomic_part(Llvm *p, const Op *op, DType t, LlvmCell cell, const char *v,
                            const char *expected) {
  const char *mode = op_attr(op, ATTR_mode)->text;
  const char *order = op_has(op, ATTR_volatile) ? "acq_rel" : "monotonic";
  Change c = {op, t, v, expected, order};
  Part x = part_of(p, cell, llvm_elem_bits(t));
  if (!expected && is_bitwise(mode)) return update_bits(p, &x, mode, v, order);
  return amd_recast(p, x.type, update_loop(p, &x, &c), llvm_elem_type(t));
}

void amd_set_bits(Llvm *p, LlvmCell cell, const char *hole, const char *bits) {
  Part x = part_of(p, cell, 8);
  update_bits(p, &x, "and", hole, "monotonic");
  update_bits(p, &x, "or", bits, "monotonic");
}
