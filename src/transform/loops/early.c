/* early: computes what waits and matrix instructions of a loop are addressed by before its first wait.
 *
 *     for K {                                    for K {
 *       barrier                                    %o = expr 4096*Mod($ARGK, 8)
 *       mbar_wait %full, %s, %p             =>     barrier
 *       %o = expr 4096*Mod($ARGK, 8)               mbar_wait %full, %s, %p
 *       wgmma %acc, %a, %o, %b, %o                 wgmma %acc, %a, %o, %b, %o
 *
 * ptxas leaves these numbers in the basic block in which they are written, and a wait ends one. There they are a
 * chain of dependent instructions of the uniform datapath: after the wait it delays the first matrix instruction,
 * before it the chain is computed while the wave would wait anyway. */
#include "ir/region_facts.h"
#include "transform/pass.h"

typedef struct Early {
  bool *wanted; /* by op id: a wait or matrix instruction depends on its number */
  bool moved;
} Early;

static bool is_addressed(const Op *op) { return op->kind == OP_mbar_wait || op->kind == OP_wgmma; }

static void find_wanted(Early *e, const Region *r) {
  for (const Op *op = r->last; op; op = op->prev) {
    bool passes = op->kind == OP_expr && e->wanted[op->id];
    for (int i = 0; (passes || is_addressed(op)) && i < op->nargs; i++) {
      const Op *def = op->args[i]->def;
      if (def && def->parent == r && def->kind == OP_expr) e->wanted[def->id] = true;
    }
  }
}

/* Its operands are there when an iteration begins, or move as well. */
static bool may_move(const Early *e, const Region *r, const Op *op) {
  bool moves = op->kind == OP_expr && e->wanted[op->id];
  for (int i = 0; moves && i < op->nargs; i++) {
    const Op *def = op->args[i]->def;
    if (def && def->parent == r && !e->wanted[def->id]) moves = false;
  }
  return moves;
}

/* What sets a symbol ends what expressions before it mean. */
static bool sets_symbols(const Region *r) {
  for (const Op *op = r->first; op; op = op->next)
    if (op->kind == OP_set_symbol) return true;
  return false;
}

static void compute_early(Early *e, Region *r) {
  Op *first = r->first;
  find_wanted(e, r);
  while (first && may_move(e, r, first)) first = first->next;
  for (Op *op = first, *next; op; op = next) {
    next = op->next;
    e->wanted[op->id] = may_move(e, r, op);
    if (!e->wanted[op->id]) continue;
    ir_remove(op);
    ir_insert_before(first, op);
    e->moved = true;
  }
}

static void visit(Early *e, Region *r) {
  for (Op *op = r->first; op; op = op->next)
    if (op->body) visit(e, op->body);
  if (r->owner && op_is_loop(r->owner) && !sets_symbols(r)) compute_early(e, r);
}

bool pass_early(Kernel *k, PassCtx *cx) {
  Early e = {.wanted = ARENA_ARRAY(cx->scratch, bool, k->nops + 1)};
  visit(&e, k->body);
  cx->idle = !e.moved;
  return true;
}
