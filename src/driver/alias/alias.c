/* alias.c: see alias.h.
 *
 * The tiles are the same only where both tensors have elements. Beyond the last column of the second, the first
 * may have more, which do not matter: no result depends on elements of a tile that are beyond the extents of its
 * own dimensions. */
#include "driver/alias/alias.h"

#include "ir/attr.h"

static const Type *tensor_type(const Kernel *k, int param) {
  const Type *t = k->body->args[param]->type;
  return param < kernel_given(k) && t->kind == TYPE_mem ? t : NULL;
}

static bool is_read_of(const Op *op, const Value *memory) {
  return op->kind == OP_read && op->nargs && op->args[0] == memory;
}

static bool is_only_read(const Kernel *k, const Value *memory) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op_takes(op, memory) && !is_read_of(op, memory)) return false;
  return true;
}

static bool are_equal_pairs(SymPairs a, SymPairs b) {
  if (a.n != b.n) return false;
  for (int i = 0; i < a.n; i++)
    if (pairs_get(b, a.at[i].key) != a.at[i].value) return false;
  return true;
}

/* Whether both mappings give the same coordinates, dim by dim. */
static bool are_equal_places(const Mapping *a, const Type *of_a, const Mapping *b,
                             const Type *of_b) {
  if (a->niterators != b->niterators || a->ndynamic != b->ndynamic) return false;
  if (a->inputs.n != of_a->rank || b->inputs.n != of_b->rank) return false;
  for (int d = 0; d < of_a->rank; d++) {
    const Sym *at = pairs_get(a->inputs, of_a->dims[d]);
    if (!at || at != pairs_get(b->inputs, of_b->dims[d])) return false;
  }
  for (int i = 0; i < a->ndynamic; i++)
    if (!are_equal_pairs(a->dynamic[i], b->dynamic[i])) return false;
  return are_equal_pairs(a->outputs, b->outputs);
}

static bool are_equal_attrs(const Op *a, const Op *b) {
  if (a->nattrs != b->nattrs) return false;
  for (int i = 0; i < a->nattrs; i++) {
    bool places = a->attrs[i].key == ATTR_mapping && b->attrs[i].key == ATTR_mapping;
    if (!places && !attr_equal(&a->attrs[i], &b->attrs[i])) return false;
  }
  return true;
}

/* Whether two reads of tensors of the same elements give the same tile. */
static bool are_equal_reads(const Op *a, const Op *b) {
  const Attr *ma = op_attr(a, ATTR_mapping), *mb = op_attr(b, ATTR_mapping);
  if (!ma || !mb || a->nargs != b->nargs || a->results[0].type != b->results[0].type) return false;
  for (int i = 1; i < a->nargs; i++)
    if (a->args[i] != b->args[i]) return false;
  return are_equal_attrs(a, b) &&
         are_equal_places(ma->mapping, a->args[0]->type, mb->mapping, b->args[0]->type);
}

/* The read of `memory` before `op`, in its region, that gives the same tile; NULL: there is none. */
static Op *find_equal(const Op *op, const Value *memory) {
  for (Op *before = op->prev; before; before = before->prev)
    if (is_read_of(before, memory) && are_equal_reads(before, op)) return before;
  return NULL;
}

static bool is_part_of(const Kernel *k, int part, int whole) {
  const Type *a = tensor_type(k, whole), *b = tensor_type(k, part);
  const Value *memory = k->body->args[part];
  int reads = 0;
  if (!a || !b || part == whole || a->rank != b->rank || a->dtype != b->dtype) return false;
  if (!is_only_read(k, memory) || !is_only_read(k, k->body->args[whole])) return false;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (!op_takes(op, memory)) continue;
    if (!find_equal(op, k->body->args[whole])) return false;
    reads++;
  }
  return reads > 0;
}

Alias alias_find(const Kernel *k) {
  for (int part = 0; part < k->params.n; part++)
    for (int whole = 0; whole < k->params.n; whole++)
      if (is_part_of(k, part, whole)) return (Alias){true, whole, part};
  return (Alias){0};
}

const Sym *alias_condition(const LaunchSymbols *s, Alias a) {
  SymCtx *cx = s->k->cx->sym;
  int rank = tensor_type(s->k, a.whole)->rank;
  const Sym *all = sym_bool(cx, true);
  for (int d = 0; d < rank; d++) {
    const Sym *size = launch_slot(s, a.part, "SIZE", d), *most = launch_slot(s, a.whole, "SIZE", d);
    const Sym *fits = d + 1 < rank ? sym_eq(cx, size, most) : sym_le(cx, size, most);
    const Sym *stride = launch_slot(s, a.part, "STRIDE", d);
    all = sym_and(cx, all, fits);
    all = sym_and(cx, all, sym_eq(cx, stride, launch_slot(s, a.whole, "STRIDE", d)));
  }
  return all;
}

void alias_merge(Kernel *k, Alias a) {
  const Value *whole = k->body->args[a.whole], *part = k->body->args[a.part];
  for (Op *op = ir_first(k), *next; op; op = next) {
    next = ir_next(op);
    if (!is_read_of(op, part)) continue;
    Op *same = find_equal(op, whole);
    WV_ASSERT(same);
    ir_replace_uses(k, &op->results[0], &same->results[0]);
    ir_remove(op);
  }
}
