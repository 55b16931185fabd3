/* op_parts.c: see op_parts.h. */
#include "ir/schedule/op_parts.h"

#include "ir/attr.h"

bool parts_keep_positions(const Op *op) {
  return op_is_elementwise(op) || op->kind == OP_select || op->kind == OP_cast ||
         op->kind == OP_bitcast;
}

bool parts_may_be(const Op *op) {
  return op->kind == OP_read || op_is_product(op) || parts_keep_positions(op);
}

int parts_dims(const Op *op, const Sym **dims) {
  int n = 0;
  if (!op->nresults || op->results[0].type->kind != TYPE_tile) return 0;
  const Type *t = op->results[0].type;
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

const char *parts_wrong(const Op *op) {
  const Sym *dims[PART_DIMS];
  const Attr *part = op_attr(op, ATTR_part);
  if (!part) return NULL;
  if (!parts_may_be(op)) return "only reads, matmuls and elementwise ops have parts";
  if (part->n != 2 * parts_dims(op, dims)) return "it has two numbers for each dimension";
  for (int i = 0; i < part->n; i += 2)
    if (part->ints[i] < 0 || part->ints[i] >= part->ints[i + 1] || part->ints[i + 1] > 256)
      return "a part has a number below how many there are";
  return NULL;
}
