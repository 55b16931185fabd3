/* turn_ops.c: see turn_ops.h. */
#include "ir/schedule/turn_ops.h"

#include <string.h>

#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "target/mma.h"

bool op_is_turn(const Op *op, const char *mode) {
  return op->kind == OP_turn && strcmp(op_attr(op, ATTR_mode)->text, mode) == 0;
}

Op *turn_new(Kernel *k, Span at, const char *mode, int bar, int groups) {
  Op *op = ir_op_new(k, OP_turn, at, NULL, 0);
  op_set_attr(k, op, (Attr){.key = ATTR_mode, .text = intern(&k->cx->names, mode)});
  op_set_attr(k, op, (Attr){.key = ATTR_bar, .integer = bar});
  op_set_attr(k, op, (Attr){.key = ATTR_count, .sym = sym_int(k->cx->sym, groups)});
  return op;
}

bool turn_is_lagged(const Op *op) {
  return op->kind == OP_turn && op_attr(op, ATTR_bar)->integer == TURN_LAGGED;
}

int turn_groups(const Op *turn) {
  int64_t n = 0;
  sym_is_int(op_attr(turn, ATTR_count)->sym, &n);
  return (int)n;
}

int turn_barriers_free(const Kernel *k, const Region *r, const Op *at, int64_t n) {
  int first = 1;
  for (const Op *op = r->first; op; op = ir_next(op)) {
    const Attr *bar = op_attr(op, ATTR_bar);
    if (turn_is_lagged(op) || (bar && at && op_excludes(k, op, at))) continue;
    int64_t past = bar ? bar->integer + (op->kind == OP_turn ? turn_groups(op) : 1) : 0;
    if (past > first) first = past < NAMED_BARRIERS ? (int)past : NAMED_BARRIERS;
  }
  return first + n <= NAMED_BARRIERS ? first : 0;
}

int turn_waves(Arena *scratch, const Op *op, int lanes) {
  const Attr *mma = op_is_product(op) ? op_attr(op, ATTR_mma) : NULL;
  const MmaInfo *info = mma && mma->mma->name ? mma_named(scratch, mma->mma->name) : NULL;
  return info && info->lanes > lanes ? info->lanes / lanes : 1;
}
