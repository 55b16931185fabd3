/* lower_lane.c: ops on the elements that one thread holds, whatever their coordinates.
 *
 *     %e = extract %x {offset = [2]}        register 2 of each vector of %x
 *
 * Such a result differs between threads and takes the layout that its users require: only the
 * number of registers is tied to the operand's. A thread's part of a tile is a sequence of vectors,
 * with the vectors of different tiles of a wave one after the other (docs/language.md, section
 * 13.3). */
#include "lower_threads/lower.h"

static bool refuse_count(Lower *l, const Op *op, int have, int want) {
  Diag *d = diag_add(
      &l->k->cx->diags, DIAG_E0614, op->at,
      "`%s` returns %d elements per thread, but each thread holds %d elements of its result",
      op_info[op->kind].name, have, want);
  return diag_hint(
      &l->k->cx->diags, d,
      "the number is determined by the users of the result: change their elements per thread "
      "or vector shape");
}

static const Sym *number_of(Lower *l, const Op *op, AttrKey key, int64_t otherwise) {
  const Attr *a = op_attr(op, key);
  if (!a || !a->n) return sym_int(l->sym, otherwise);
  return emit_sound(l, distribute_expr(l->d, op, a->exprs[0]));
}

/* Register `at`, an expression, of the vector that begins at `first`. */
static Value *pick_at(Lower *l, Value *v, int first, int length, const Sym *at) {
  int reg = first + length - 1;
  Value *found = emit_pick(l, v, &reg, 1);
  for (int i = length - 2; i >= 0; i--) {
    Value *test = emit_test(l, sym_eq(l->sym, at, sym_int(l->sym, i)));
    reg = first + i;
    Value *here = emit_pick(l, v, &reg, 1);
    found = test ? emit_select(l, test, here, found) : here;
  }
  return found;
}

static bool check_element(Lower *l, const Op *op, int64_t element, int length) {
  if (element >= 0 && element < length) return true;
  return diag_fail(&l->k->cx->diags, DIAG_E0614, op->at,
                   "`%s` takes element %lld, but a thread holds %d elements",
                   op_info[op->kind].name, (long long)element, length);
}

bool lower_extract(Lower *l, const Op *op) {
  const Value *from = op->args[0], *to = &op->results[0];
  Value *v = l->value[from->id];
  int have = regs_of(from), want = regs_of(to), length = have / want;
  const Sym *at = number_of(l, op, ATTR_offset, 0);
  int64_t constant;
  bool fixed = sym_is_int(at, &constant);
  if (have % want) return refuse_count(l, op, 1, want);
  if (fixed && !check_element(l, op, constant, length)) return false;
  Value **parts = ARENA_ARRAY(l->arena, Value *, want);
  for (int i = 0; i < want; i++) {
    int reg = i * length + (fixed ? (int)constant : 0);
    parts[i] = fixed ? emit_pick(l, v, &reg, 1) : pick_at(l, v, i * length, length, at);
  }
  l->value[to->id] = emit_join(l, parts, want);
  return true;
}

/* offset, size and stride of extract_slice count registers of a thread's vector. */
bool lower_extract_slice(Lower *l, const Op *op) {
  const Value *from = op->args[0], *to = &op->results[0];
  int have = regs_of(from), want = regs_of(to);
  const AttrKey keys[] = {ATTR_offset, ATTR_size, ATTR_stride};
  int64_t number[3];
  for (int i = 0; i < 3; i++)
    if (!sym_is_int(number_of(l, op, keys[i], i == 0 ? 0 : 1), &number[i]))
      return emit_refuse(l, op, "a slice with a non-constant offset");
  if (number[1] != want) return refuse_count(l, op, (int)number[1], want);
  if (!check_element(l, op, number[0], have)) return false;
  int64_t last = want == 1 ? number[0] : have; /* the stride is past all of them */
  if (number[2] > -have && number[2] < have) last = number[0] + (want - 1) * number[2];
  if (!check_element(l, op, last, have)) return false;
  int *regs = ARENA_ARRAY(l->arena, int, want);
  for (int i = 0; i < want; i++) regs[i] = (int)(number[0] + i * number[2]);
  l->value[to->id] = emit_pick(l, l->value[from->id], regs, want);
  return true;
}

/* Concatenates the vectors. */
bool lower_reshape(Lower *l, const Op *op) {
  int have = 0, want = regs_of(&op->results[0]);
  Value **parts = ARENA_ARRAY(l->arena, Value *, op->nargs);
  for (int i = 0; i < op->nargs; i++) {
    parts[i] = l->value[op->args[i]->id];
    have += parts[i]->type->n;
  }
  if (have != want) return refuse_count(l, op, have, want);
  l->value[op->results[0].id] = emit_join(l, parts, op->nargs);
  return true;
}
