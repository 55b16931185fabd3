/* cpu_lanes_meet.c: lanes read what other lanes of their wave have kept; barriers of waves that
 * run apart. */
#include <string.h>

#include "backend/cpu/lanes/cpu_lanes.h"

/* Reads the operand of `op` in another lane, counted within the wave; values that are uniform need no
 * exchange. */
static void read_lane(Llvm *p, const Op *op, const char *own, const char *lane) {
  const Lanes *l = p->cpu->lanes;
  const Value *from = op->args[0];
  if (l->uniform[from->id]) {
    p->held[op->results[0].id] = llvm_held_get(p, from);
    return;
  }
  const char *first = llvm_let(p, "sub i64 %s, %s", l->thread, own);
  const char *who = llvm_let(p, "add i64 %s, %s", first, lane);
  lanes_load(p, llvm_held_new(p, &op->results[0]), from, who);
}

static const char *lane_of(Llvm *p) {
  return llvm_let(p, "urem i64 %s, %d", p->cpu->lanes->thread, p->cpu->lanes->wave);
}

/* A lane without such a partner reads its own value. */
void lanes_shuffle(Llvm *p, const Op *op) {
  const char *mode = op_attr(op, ATTR_mode)->text, *own = lane_of(p);
  const char *how = *mode == 'x' ? "xor" : *mode == 'u' ? "sub" : "add";
  const char *lane = llvm_let(p, "%s i64 %s, %d", how, own, (int)op_attr(op, ATTR_by)->integer);
  const char *there = llvm_let(p, "icmp ult i64 %s, %d", lane, p->cpu->lanes->wave);
  read_lane(p, op, own, llvm_let(p, "select i1 %s, i64 %s, i64 %s", there, lane, own));
}

void lanes_shuffle_idx(Llvm *p, const Op *op) {
  const char *index = llvm_index_of(p, op->args[1]);
  read_lane(p, op, lane_of(p), llvm_let(p, "urem i64 %s, %d", index, p->cpu->lanes->wave));
}

/* ---- barriers ---- */

/* Numbered barriers come after the workgroup's own. */
static const char *barrier_number(Llvm *p, const Op *op) {
  const Attr *bar = op_attr(op, ATTR_bar), *member = op_attr(op, ATTR_member);
  const char *first = arena_printf(p->arena, "%d", 1 + (bar ? (int)bar->integer : 0));
  if (!member) return first;
  return llvm_let(p, "add i64 %s, %s", first, llvm_expr(p, op, member->sym));
}

/* The number of waves that meet at a barrier; 0: unknown. */
static int barrier_members(const Llvm *p, const Op *op) {
  const Attr *count = op_attr(op, ATTR_count);
  int64_t threads;
  if (!count) return p->cpu->lanes->apart;
  return sym_is_int(count->sym, &threads) ? (int)(threads / p->cpu->lanes->wave) : 0;
}

/* A split barrier waits at its second half. */
void lanes_barrier(Llvm *p, const Op *op) {
  const Attr *mode = op_attr(op, ATTR_mode);
  bool numbered = op->kind == OP_barrier_wait || (mode && strcmp(mode->text, "named") == 0);
  if (op->kind == OP_yield || op->kind == OP_counter_wait || op->kind == OP_barrier_signal) return;
  if (op_info[op->kind].flags & OPF_HINT || (mode && strcmp(mode->text, "wave") == 0)) return;
  int members = numbered ? barrier_members(p, op) : p->cpu->lanes->apart;
  if (!members) {
    llvm_fail(p, op, "a barrier with an unknown number of threads");
    return;
  }
  cpu_meet(p, op, numbered ? barrier_number(p, op) : "0", members, op_has(op, ATTR_arrive));
}
