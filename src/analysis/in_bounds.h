/* in_bounds.h: what each access must test (docs/language.md, section 6.2), and what was proved so
 * that it need not. */
#ifndef WV_IN_BOUNDS_H
#define WV_IN_BOUNDS_H

#include "analysis/standing.h"
#include "ir/access.h"

typedef enum BoundVerdict {
  BOUND_proved,
  BOUND_implied, /* follows from what is tested */
  BOUND_tested,
  BOUND_filled,  /* the copy tests it by itself */
  BOUND_promised /* `bounds = {}`: the author vouches for it */
} BoundVerdict;

extern const char *const bound_verdict_name[];

/* One thing that must hold of every element that is accessed. */
typedef struct Bound {
  const Sym *dim;
  bool of_memory;   /* a coordinate of the memory; else of the tile */
  const Sym *coord; /* over the $x: what must be below `limit`, or, without one, not negative */
  const Sym *limit;
  const Sym *at;      /* coord where the op stands, over the $e: positions inside the tile */
  const Sym *meaning; /* what is compared there */
  const Sym *test;    /* over $x, $y, $n: what the op records when it must be tested */
  BoundVerdict verdict;
} Bound;

enum { FAR_MOST = 8, MAX_BOUNDS = 5 * IR_MAX_RANK + FAR_MOST };

/* Of an access, or of the op `exists`, which has a tile and no memory. */
typedef struct AccessBounds {
  MemAccess access;
  Bound bounds[MAX_BOUNDS];
  int nbounds;
  bool unplaced;                  /* its tile lies nowhere, which was reported */
  const Sym *far;                 /* a symbol whose value cannot be tested; NULL: none */
  bool inhabited;                 /* of a copy: the memory is known to have elements there */
  const Sym *bytes;               /* of the whole memory; NULL: not known */
  const Sym *coords[IR_MAX_RANK]; /* $yi over the $x; NULL: it cannot be written down */
  const Sym
      *sizes[IR_MAX_RANK]; /* of the memory, allocations with their padding; NULL: not known */
  int offset_bits; /* 32: no byte offset of any element, active or not, leaves 32 bits signed */

  /* `run` elements that begin at a multiple of run along tile dimension `run_axis` are adjacent in
   * memory, aligned like the memory itself, and tested alike. run 1: no axis. */
  int run_axis, run;
} AccessBounds;

const Sym *tile_position(SymCtx *cx, int i); /* $ei */

/* The kernel's text of all that: wavec --proof. */
void in_bounds_print(StrBuf *out, Kernel *k, const AccessBounds *const *all);

/* access_coord.c: $y along memory dim m over the $x, where the op stands; NULL: it cannot be
 * written down. */
const Sym *access_coord(const MemAccess *a, const Standing *s, int m);

/* True when the i-th dynamic value is the same for all `run` elements that begin where $x(axis) is
 * a multiple of run. */
bool access_dynamic_is_even(const MemAccess *a, const Standing *s, int i, int axis, int run);

/* access_run.c: fills the fields about addresses. `inside` are the facts of `s` and of the $e;
 * `coords` the $y over the $x; `place` what $xi is where the op stands. */
void find_addresses(AccessBounds *b, const Standing *s, const SymFacts *inside,
                    const Sym *const *coords, const Sym *const *sizes, const SymBinding *place);

#endif
