/* layout_links.h: which layouts of an op's operands and results hang together.
 *
 * Between two tiles of an op there is a link when one of them, the `part`, lies as the other, the
 * `whole`, does: dims they share have the same digits, dims that only the whole has are left out
 * (registers disappear, lanes and waves hold copies), dims that only the part has lie in its
 * registers.
 *
 *     add %x, %y          result -> %x, result -> %y     %y may lack dims: it is broadcast
 *     sum %x {dim = N}    %x -> result
 *     sum %x {dim = N, into = 4}    the same, and waves that lie along N lie along the new dim
 *     repeat %x           result -> %x                   lanes inside of a block hold copies
 *     for carry %a = %x   result -> %x, %a, and what the body yields
 *
 * mma ties only its accumulator to its result: lhs and rhs lie as the instruction wants. The
 * verifier demands every link; the layout pass spreads along them. */
#ifndef WV_LAYOUT_LINKS_H
#define WV_LAYOUT_LINKS_H

#include "ir/ir.h"

typedef struct LayoutLink {
  Value *whole, *part;
  Op *user;    /* the op whose operand it ties ... */
  int operand; /* ... and which; -1: between results or arguments, no conversion can stand there */
  int ratio;   /* bitcast: elements of the part for one of the whole, along the last dim; else 1 */
  int along, repeats; /* repeat: elements of the whole for one of the part, along a dim; else 0 */
  const Sym
      *into; /* dim of the part along which waves lie that move in dims it lacks; NULL: none */
} LayoutLink;

typedef Vec(LayoutLink) LayoutLinks;

/* Appends the links of one op, those with its body's arguments and yields included. */
void layout_links(Arena *a, Op *op, LayoutLinks *out);

/* How the part lies when the whole lies like this. `extent`: of the part. False when a shared dim
 * has another extent there. */
bool layout_of_part(const LayoutLink *link, const Layout *whole, const int *extent, Layout *out);

/* A layout of the whole under which the part lies like this: dims that only the whole has are laid
 * over lanes and waves that would hold copies, then in registers. False: there is none. */
bool layout_of_whole(const LayoutLink *link, const Layout *part, const int *extent, Layout *out);

/* Which dim of `t` is `dim`; -1: none. */
int type_dim(const Type *t, const Sym *dim);

#endif
