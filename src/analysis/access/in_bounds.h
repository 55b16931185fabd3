/* in_bounds.h: what each access must test (docs/language.md, section 6.2), and what was proved so
 * that it need not. */
#ifndef WV_IN_BOUNDS_H
#define WV_IN_BOUNDS_H

#include "analysis/standing.h"
#include "ir/ops/access.h"

typedef enum BoundVerdict {
  BOUND_proved,
  BOUND_implied, /* follows from the tests */
  BOUND_tested,
  BOUND_filled,  /* the copy itself tests it */
  BOUND_promised /* `bounds = {}`: the author guarantees it */
} BoundVerdict;

extern const char *const bound_verdict_name[];

/* A condition that must hold for every element accessed. */
typedef struct Bound {
  const Sym *dim;
  bool of_memory;   /* a coordinate of the memory; otherwise of the tile */
  const Sym *coord; /* over the $x: must be below `limit` or, without one, not negative */
  const Sym *limit;
  const Sym *at;      /* coord at the op, over the $e: positions inside the tile */
  const Sym *meaning; /* the comparison made there */
  const Sym *test;    /* over $x, $y, $n: what the op records if it must be tested */
  BoundVerdict verdict;
} Bound;

enum { FAR_MOST = 8, MAX_BOUNDS = 6 * IR_MAX_RANK + FAR_MOST };

/* Bounds of an access, or of the op `exists`, which has a tile and no memory. */
typedef struct AccessBounds {
  MemAccess access;
  Bound bounds[MAX_BOUNDS];
  int nbounds;
  bool no_position;   /* its tile has no position, which was reported */
  const Sym *far;     /* a symbol whose value cannot be tested; NULL: none */
  unsigned inhabited; /* not of atomics: bit m is set if dim m is known to have elements there */
  const Sym *bytes;   /* of the whole memory; NULL: unknown */
  const Sym *coords[IR_MAX_RANK]; /* $yi over the $x; NULL: there is no expression */
  const Sym *sizes[IR_MAX_RANK];  /* of the memory, allocations with their padding; NULL: unknown */
  int offset_bits; /* 32: the byte offset of every element that passes the tests fits in a signed 32-bit
                    * integer; those of others may wrap around */

  /* `run` elements that begin at a multiple of run along tile dimension `run_axis` are adjacent in
   * memory, aligned like the memory itself, and tested together. run 1: no axis. */
  int run_axis, run;
  /* The same except for the tests: what a copy engine, which tests elements itself, needs to know. */
  int piece_axis, piece;
} AccessBounds;

const Sym *access_tile_position(SymCtx *cx, int i); /* $ei */

/* Prints all of this for a kernel: wavec --proof. */
void proof_print(StrBuf *out, Kernel *k, const AccessBounds *const *all);

/* access_coord.c: $y along memory dim m over the $x, at the op; NULL: there is no expression. */
const Sym *access_coord(const MemAccess *a, const Standing *s, int m);

/* The rank in the cluster of the workgroup in whose memory a write stores, over the $x; NULL: in this one's. */
const Sym *access_peer(const MemAccess *a, const Standing *s);

/* True when the i-th dynamic value is the same for all `run` elements from a multiple of run along
 * $x(axis). */
bool access_dynamic_is_even(const MemAccess *a, const Standing *s, int i, int axis, int run);

/* access_run.c: fills in the fields about addresses. `inside` holds the facts of `s` and of the $e;
 * `coords` the $y over the $x; `position` the value of $xi at the op. */
void find_addresses(AccessBounds *b, const Standing *s, const SymFacts *inside,
                    const SymFacts *tested, const Sym *const *coords, const Sym *const *sizes,
                    const SymBinding *position);

/* access_apart.c: whether no thread accesses, by one of two reads or writes of an argument outside
 * loops, an element that another thread accesses by the other one. */
bool access_is_apart(const Standing *s, const Op *a, const Op *b);

#endif
