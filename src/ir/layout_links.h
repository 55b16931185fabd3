/* layout_links.h: how the layouts of an op's operands and results are tied together.
 *
 * There is a link between two tiles of an op if the layout of one of them, the `part`, follows from
 * that of the other, the `whole`: dims they share have the same digits, dims that only the whole
 * has are dropped (registers disappear, lanes and waves replicate), dims that only the part has are
 * in its registers.
 *
 *     add %x, %y          result -> %x, result -> %y     %y may lack dims: it is broadcast
 *     sum %x {dim = N}    %x -> result
 *     sum %x {dim = N, into = 4}    the same, and waves along N become waves along the new dim;
 *                                   with `each = thread` lanes do so, too
 *     repeat %x           result -> %x                   lanes inside a block hold copies
 *     for carry %a = %x   result -> %x, %a, and what the body yields
 *
 * mma ties only its accumulator to its result: lhs and rhs have the layouts of the instruction. The
 * verifier requires every link to hold; the layout pass spreads along them. */
#ifndef WV_LAYOUT_LINKS_H
#define WV_LAYOUT_LINKS_H

#include "ir/ir.h"

typedef struct LayoutLink {
  Value *whole, *part;
  Op *user;           /* the op whose operand it ties ... */
  int operand;        /* ... and which; -1: between results or arguments, where no conversion is
                * possible */
  int ratio, group;   /* bitcast: along the last dim, `ratio` elements of the part are `group`
                       * elements of the whole; else 1 */
  int along, repeats; /* repeat: elements of the whole per element of the part, along a dim; else
                       * 0 */
  const Sym *into;    /* dim of the part for waves that move along dims it lacks; NULL: none */
  bool threads;       /* it is for lanes, too */
} LayoutLink;

typedef Vec(LayoutLink) LayoutLinks;

/* Of a bitcast: a layout of the whole, like `whole`, of which every lane holds whole groups. */
Layout layout_of_groups(const LayoutLink *link, const Layout *whole, int lanes, int waves);

/* Appends the links of one op, including those with its body's arguments and yields. */
void layout_links(Arena *a, Op *op, LayoutLinks *out);

/* The layout of the part, given that of the whole. `extent`: of the part. False if a shared dim has
 * another extent there. */
bool layout_of_part(const LayoutLink *link, const Layout *whole, const int *extent, Layout *out);

/* A layout of the whole that gives the part this layout: dims that only the whole has are spread
 * over lanes and waves that would hold copies, then over registers. False: there is none. */
bool layout_of_whole(const LayoutLink *link, const Layout *part, const int *extent, Layout *out);
/* The same, but over registers only: a thread that holds an element of the part holds all of its row. */
bool layout_of_rows(const LayoutLink *link, const Layout *part, const int *extent, Layout *out);

/* The index of `dim` in `t`; -1: none. */
int type_dim(const Type *t, const Sym *dim);

#endif
