/* lower_turns.c: groups of waves that take turns, each with a named barrier of its own, or by the barrier
 * of the workgroup.
 *
 *     turn open {bar = 1, count = 2}         if (last group) { barrier named {bar = 1, arrive} }
 *     for K ... {                            for K ... {
 *       turn take {bar = 1, count = 2}         barrier named {bar = 1, member = group}
 *       %n = mma ...                    =>     wgmma ...
 *       turn pass {bar = 1, count = 2}         barrier named {bar = 1, member = next group, arrive}
 *     }                                      }
 *     turn close {bar = 1, count = 2}        if (first group) { barrier named {bar = 1} }
 *
 * A barrier counts the threads of two groups: the one that waits for its turn, and the one before it,
 * which arrives without waiting.
 *
 *     turn open {bar = 0, count = 2}         if (second group) { shared_barrier }
 *     for K ... {                            for K ... {
 *       turn take {bar = 0, count = 2}         shared_barrier; sched_barrier
 *       %n = mma ...                    =>     wave_mma ...
 *       turn pass {bar = 0, count = 2}         sched_barrier; shared_barrier
 *     }                                      }
 *     turn close {bar = 0, count = 2}        if (first group) { shared_barrier }
 *
 * What only computes would otherwise be moved across a barrier by the machine's compiler. */
#include "ir/schedule/turn_ops.h"
#include "lower_threads/lower.h"

static void meet(Lower *l, const Op *op, const Sym *member, bool arrive) {
  int64_t known = 0;
  bool one = sym_is_int(member, &known);
  int threads = 2 * l->machine.lanes * l->machine.waves / turn_groups(op);
  Attr attrs[5] = {{.key = ATTR_mode, .text = intern(&l->k->cx->names, "named")},
                   {.key = ATTR_bar, .integer = op_attr(op, ATTR_bar)->integer + known},
                   {.key = ATTR_count, .sym = sym_int(l->sym, threads)}};
  int n = 3;
  if (!one) attrs[n++] = (Attr){.key = ATTR_member, .sym = emit_cheaper(l, member)};
  if (arrive) attrs[n++] = (Attr){.key = ATTR_arrive};
  emit_op(l, OP_barrier, NULL, 0, attrs, n, NULL);
}

/* Half of the waves, or all of them. */
static void meet_all(Lower *l, const Op *op) {
  bool waits = !op_has(op, ATTR_no_ds_wait);
  emit_op(l, waits ? OP_shared_barrier : OP_workgroup_barrier, NULL, 0, NULL, 0, NULL);
}

static void fence(Lower *l) { emit_op(l, OP_sched_barrier, NULL, 0, NULL, 0, NULL); }

static bool lower_lagged(Lower *l, const Op *op) {
  const Sym *half = sym_int(l->sym, l->machine.waves / turn_groups(op));
  bool opens = op_is_turn(op, "open");
  if (l->machine.waves % turn_groups(op)) return emit_refuse(l, op, "turns of half of a wave");
  if (opens || op_is_turn(op, "close")) {
    emit_open_if(l, opens ? sym_le(l->sym, half, l->wave) : sym_lt(l->sym, l->wave, half));
    meet_all(l, op);
    emit_close_if(l);
    return true;
  }
  if (op_is_turn(op, "pass")) fence(l);
  meet_all(l, op);
  if (op_is_turn(op, "take")) fence(l);
  return true;
}

bool lower_turn(Lower *l, const Op *op) {
  SymCtx *sym = l->sym;
  int groups = turn_groups(op);
  if (turn_is_lagged(op)) return lower_lagged(l, op);
  if (!target_has(l->machine.target, FEATURE_NAMED_BARRIER) || l->machine.waves % groups)
    return emit_refuse(l, op, "turns of groups of waves");
  const Sym *none = sym_int(sym, 0), *one = sym_int(sym, 1), *last = sym_int(sym, groups - 1);
  const Sym *group = sym_floordiv(sym, l->wave, sym_int(sym, l->machine.waves / groups));
  if (op_is_turn(op, "take")) {
    meet(l, op, group, false);
  } else if (op_is_turn(op, "pass")) {
    meet(l, op, sym_mod(sym, sym_add(sym, group, one), sym_int(sym, groups)), true);
  } else {
    bool opens = op_is_turn(op, "open");
    emit_open_if(l, opens ? sym_le(sym, last, group) : sym_le(sym, group, none));
    meet(l, op, none, opens);
    emit_close_if(l);
  }
  return true;
}
