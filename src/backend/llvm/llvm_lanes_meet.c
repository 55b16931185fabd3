/* llvm_lanes_meet.c: a lane reads what another lane of its wave has kept. */
#include "backend/llvm/llvm_lanes.h"

/* The operand of `op` in another lane, counted within the wave; alike values are the same there. */
static void read_lane(Llvm *p, const Op *op, const char *own, const char *lane) {
  const Lanes *l = p->lanes;
  const Value *from = op->args[0];
  if (l->alike[from->id]) {
    p->held[op->results[0].id] = llvm_held_get(p, from);
    return;
  }
  const char *first = llvm_let(p, "sub i64 %s, %s", l->thread, own);
  const char *who = llvm_let(p, "add i64 %s, %s", first, lane);
  lanes_load(p, llvm_held_new(p, &op->results[0]), from, who);
}

static const char *lane_of(Llvm *p) {
  return llvm_let(p, "urem i64 %s, %d", p->lanes->thread, p->lanes->wave);
}

/* Where there is no such lane, its own. */
void lanes_shuffle(Llvm *p, const Op *op) {
  const char *mode = op_attr(op, ATTR_mode)->text, *own = lane_of(p);
  const char *how = *mode == 'x' ? "xor" : *mode == 'u' ? "sub" : "add";
  const char *lane = llvm_let(p, "%s i64 %s, %d", how, own, (int)op_attr(op, ATTR_by)->integer);
  const char *there = llvm_let(p, "icmp ult i64 %s, %d", lane, p->lanes->wave);
  read_lane(p, op, own, llvm_let(p, "select i1 %s, i64 %s, i64 %s", there, lane, own));
}

void lanes_shuffle_idx(Llvm *p, const Op *op) {
  const char *index = llvm_index_of(p, op->args[1]);
  read_lane(p, op, lane_of(p), llvm_let(p, "urem i64 %s, %d", index, p->lanes->wave));
}
