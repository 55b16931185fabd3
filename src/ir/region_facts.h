/* region_facts.h: positions in regions, and what is known about symbols inside them.
 *
 * The symbols of a region are its own. `$ARGK` in a loop over K inside another loop over K counts
 * the inner one, and `$GET_ITER_ARG_0` in the condition of a while loop is what that loop carries:
 * facts about the outer symbol say nothing about the inner one. */
#ifndef WV_REGION_FACTS_H
#define WV_REGION_FACTS_H

#include "ir/ir.h"

/* The region in which a value is made. */
static inline const Region *region_of_value(const Value *v) {
  return v->def ? v->def->parent : v->owner;
}
const Op *op_loop_around(const Op *op); /* the innermost; NULL: none */
static inline bool op_is_loop(const Op *op) {
  return op && (op->kind == OP_for || op->kind == OP_while);
}
/* The only loop of the kernel, if it is a `for` from 0 directly in the body; NULL: there is none, or a
 * second one. */
Op *kernel_only_loop(const Kernel *k);
/* The outermost loop that contains op, or is op; NULL: none. */
const Op *op_outermost_loop(const Op *op);
/* The op of region `r` that contains op, or op itself; NULL: it is elsewhere. */
const Op *op_ancestor_in(const Op *op, const Region *r);
/* The innermost region that contains both. */
const Region *region_around_both(const Op *a, const Op *b);
/* Whether they are in conditionals with opposite conditions, so that only one of them is executed. In a
 * loop around both conditionals each could be, one after the other. */
bool op_excludes(const Kernel *k, const Op *a, const Op *b);
/* The conditional that follows this one, has the opposite condition, and like it no results; NULL: none. */
const Op *op_alternative(const Kernel *k, const Op *op);
bool op_comes_before(const Op *a, const Op *b); /* in one region; also if they are the same */

/* True when s mentions a symbol whose name begins with `prefix`. */
bool ir_expr_mentions(const Sym *s, const char *prefix);

/* The part of a region's condition that is true throughout the body: what it says about carried
 * values is left out, because no other expression can name them (E0410). `true` if nothing is
 * left. */
const Sym *region_condition_inside(SymCtx *cx, const Sym *condition);

/* What holds in the body of a for loop of one lane's program. `around` is what holds at the loop,
 * `entry` what holds everywhere in the kernel. */
const SymFacts *loop_facts(Kernel *k, Arena *a, const Op *loop, const SymFacts *entry,
                           const SymFacts *around);

/* The same for the body of any loop or conditional, at either level: its condition, its counter. */
const SymFacts *region_facts(Kernel *k, Arena *a, const Op *op, const SymFacts *entry,
                             const SymFacts *around);

#endif
