/* op_parts.c: see op_parts.h. */
#include "ir/schedule/op_parts.h"

#include "ir/attr.h"
#include "ir/ops/access.h"

bool parts_keep_positions(const Op *op) {
  return op_is_elementwise(op) || op->kind == OP_select || op->kind == OP_cast ||
         op->kind == OP_bitcast;
}

static bool is_written(const Region *r, const Value *v) {
  for (const Op *op = r->first; op; op = op->next)
    if (op->kind == OP_write && op->args[0] == v && memory_is_scratch(op->args[1])) return true;
  return false;
}

/* What is read is stored to shared memory: here, in the next iteration, or in a loop that begins with it. */
static bool is_stored(const Op *read) {
  const Value *v = &read->results[0];
  const Region *r = read->parent;
  const Op *yield = r->last;
  bool stored = is_written(r, v);
  for (int i = 0; !stored && yield && yield->kind == OP_yield && i < yield->nargs; i++)
    stored = yield->args[i] == v && i < r->nargs && is_written(r, r->args[i]);
  for (const Op *loop = read->next; loop && !stored; loop = loop->next)
    for (int i = 0; loop->kind == OP_for && !stored && i < loop->body->nargs; i++)
      stored = loop->args[op_carried(loop) + i] == v && is_written(loop->body, loop->body->args[i]);
  return stored;
}

bool parts_of_copy(const Op *op) {
  if (op->kind == OP_copy || op->kind == OP_write) return memory_is_scratch(op->args[1]);
  return op->kind == OP_read && !memory_is_scratch(op->args[0]) && is_stored(op);
}

bool parts_may_be(const Op *op) {
  return op->kind == OP_read || op_is_product(op) || parts_keep_positions(op) || parts_of_copy(op);
}

/* The tile that is divided; NULL: none. */
static const Type *tile_of(const Op *op) {
  if (parts_of_copy(op) && !op->nresults) return op->args[1]->type;
  return op->nresults && op->results[0].type->kind == TYPE_tile ? op->results[0].type : NULL;
}

int parts_dims(const Op *op, const Sym **dims) {
  const Type *t = tile_of(op);
  int n = 0;
  if (!t) return 0;
  for (; n < t->rank; n++) dims[n] = t->dims[n];
  const Type *lhs = op_is_product(op) ? op->args[0]->type : NULL;
  for (int i = 0; lhs && i < lhs->rank; i++)
    if (type_base_dim(t, lhs->dims[i]) < 0) return dims[n] = dim_base(lhs->dims[i]), n + 1;
  return n;
}

OpPart parts_along(const Op *op, int dim) {
  const Attr *part = op_attr(op, ATTR_part);
  if (!part || 2 * dim + 1 >= part->n) return (OpPart){0, 1};
  return (OpPart){(int)part->ints[2 * dim], (int)part->ints[2 * dim + 1]};
}

int parts_all(const Op *op) {
  const Attr *part = op_attr(op, ATTR_part);
  int n = 1;
  for (int i = 0; part && 2 * i < part->n; i++) n *= parts_along(op, i).of;
  return n;
}

/* Elements of a dimension that a wave holds. */
static int held_by_wave(const Layout *l, int dim) {
  int last = 0;
  EACH_DIGIT(l, p, g)
    if (p != LAYOUT_WAVE && g->stride && g->dim == dim) last += (g->radix - 1) * g->stride;
  return last + 1;
}

static bool has_register(const Op *op, const Layout *l, int reg, bool slices) {
  int coord[LAYOUT_DIMS];
  layout_at(l, reg, 0, 0, coord);
  for (int i = 0; i < l->dims; i++) {
    OpPart part = parts_along(op, i);
    int each = (slices ? l->extent[i] : held_by_wave(l, i)) / part.of;
    if (part.of > 1 && coord[i] / (each ? each : 1) != part.at) return false;
  }
  return true;
}

bool parts_have(const Op *op, const Layout *l, int first, int n) {
  if (!op_has(op, ATTR_part)) return true;
  bool slices = parts_of_copy(op);
  int all = layout_size(l, LAYOUT_REG);
  for (int i = first; i < first + n && i < all; i++)
    if (has_register(op, l, i, slices)) return true;
  return false;
}

bool parts_equal(const Op *a, const Op *b) {
  for (int i = 0; i < PART_DIMS; i++) {
    OpPart x = parts_along(a, i), y = parts_along(b, i);
    if (x.at != y.at || x.of != y.of) return false;
  }
  return true;
}

const char *parts_wrong(const Op *op) {
  const Sym *dims[PART_DIMS];
  const Attr *part = op_attr(op, ATTR_part);
  if (!part) return NULL;
  if (!parts_may_be(op))
    return "only reads, copies to shared memory, matmuls and elementwise ops have parts";
  if (part->n != 2 * parts_dims(op, dims)) return "it has two numbers for each dimension";
  for (int i = 0; i < part->n; i += 2)
    if (part->ints[i] < 0 || part->ints[i] >= part->ints[i + 1] || part->ints[i + 1] > 256)
      return "a part has a number below how many there are";
  return NULL;
}
