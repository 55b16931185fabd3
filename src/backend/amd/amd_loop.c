/* amd_loop.c: which loops are unrolled.
 *
 *     %o = expr ... + 4096*Mod($ARGK, 2)      an address in a ring of two slots: two iterations,
 *                                             each with an immediate instead of an addition
 *
 * LLVM then sees which slot an iteration uses. */
#include "backend/amd/amd_state.h"

enum { MOST_TIMES = 4 };

static int common_multiple(int a, int b) {
  int m = a;
  while (m % b) m += a;
  return m;
}

/* The period of an expression of the counter: of its remainders by numbers. */
static int period_of(Llvm *p, const Sym *e, const Sym *counter) {
  int period = 1;
  int64_t n;
  bool is_rest = sym_kind(e) == SYM_mod && sym_is_int(sym_arg(p->sym, e, 1), &n) && n >= 2;
  if (is_rest && n <= MOST_TIMES && sym_contains(sym_arg(p->sym, e, 0), counter)) return (int)n;
  for (int i = 0; i < sym_nargs(e); i++)
    period = common_multiple(period, period_of(p, sym_arg(p->sym, e, i), counter));
  return period;
}

/* Whether a truth value mentions lanes. */
static bool differs(Llvm *p, const Value *v) {
  const Op *def = v->def;
  if (def && def->kind == OP_and) return differs(p, def->args[0]) || differs(p, def->args[1]);
  const Sym *e = amd_expression(p, v);
  FreeSymbols all = e ? sym_symbols(p->arena, e) : (FreeSymbols){0};
  for (int i = 0; i < all.n; i++)
    if (sym_name(all.at[i])[0] == '$' && sym_name(all.at[i])[1] == 'T') return true;
  return false;
}

/* Whether lanes are masked one by one: a tile does not end with the tensor. */
static bool masks_lanes(Llvm *p, const Op *op) {
  return op->kind == OP_load && op->nargs > 2 && differs(p, op->args[2]);
}

/* Loops for sizes that are not known and do not fit are many instructions and rare: they stay as
 * short as they are. */
int amd_unroll(Llvm *p, const Op *loop) {
  bool has_trips = sym_is_int(op_attr(loop, ATTR_trips)->sym, &(int64_t){0});
  const Sym *counter = ir_loop_counter(p->k, op_attr(loop, ATTR_axis)->sym);
  int period = 1;
  bool multiplies = false;
  for (const Op *op = loop->body->first; op; op = op->next) {
    if (op->body || (!has_trips && masks_lanes(p, op))) return 1;
    multiplies |= op->kind == OP_wave_mma;
    if (op->kind == OP_expr)
      period = common_multiple(period, period_of(p, op_attr(op, ATTR_expr)->sym, counter));
  }
  return multiplies && period <= MOST_TIMES ? period : 1;
}
