/* persist_body.h: what the body of a kernel becomes when a workgroup runs it for several tiles.
 *
 *     %n = scalar KEY : i32                     %n = scalar KEY : i32
 *     set_symbol LENGTH %n                      set_symbol LENGTH %n
 *     %q = read %a {X: 8*$WG1 + ...}     =>     for $TILES {
 *     %r = for K { ... }                          %q = read %a {X: 8*<id of the tile> + ...}
 *     write %r, %c                                %r = for K { ... }
 *                                                 write %r, %c
 *                                               }
 *
 * Numbers that are the same for all tiles, and symbols that are set to them, stay before the loop. */
#ifndef WV_PERSIST_BODY_H
#define WV_PERSIST_BODY_H

#include "analysis/distribute.h"
#include "base/vec.h"

typedef struct PersistBody {
  Kernel *k;
  bool *stays;             /* by op id: the same for all tiles */
  Vec(const Sym *) differ; /* versions of symbols that are set to something else for each tile */
} PersistBody;

PersistBody persist_body(Kernel *k, Arena *scratch);

/* Whether the expression names a symbol that may be set to another value for another tile. */
bool persist_is_set(const PersistBody *b, const Sym *s);
/* The same, or an id of a workgroup. */
bool persist_differs(const PersistBody *b, const Sym *s);

/* The expression with what symbols are set to, as far as that is an expression, too. */
const Sym *persist_set_values(const PersistBody *b, const Sym *e);

/* Expressions of ops, and of the first `rows` rows of the header, name the ids of the tile instead of
 * those of the workgroup. Positions follow the loop over tiles by themselves (distribute.c). */
void persist_rename_ids(const PersistBody *b, const Sym *const ids[WORKGROUP_DIMS], int rows);

/* Puts what does not stay into a loop over this axis. */
Op *persist_enclose(const PersistBody *b, const Sym *axis);

/* A loop that is not as long for each tile: slots and phases of its rings follow from the iterations of all tiles
 * before this one, so these are counted. Tiles without iterations leave it out.
 *
 *     for $TILES {                            for $TILES carry %n = 0 {
 *       %r = for K carry %x = %a { ... }        set_symbol $RUN %n {version = $RUN.2}
 *       ...                                     %r = if (trips >= 1) carry %x = %a {
 *     }                                           %l = for K carry ... {earlier = $RUN.2}
 *                                        =>       yield %l
 *                                               }
 *                                               ...
 *                                               %m = runs K {earlier = $RUN.2}
 *                                               yield %m
 *                                             } */
void persist_count_runs(const PersistBody *b, Op *tiles, Op *loop, const Sym *trips);

#endif
