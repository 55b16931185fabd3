/* lower_walk.h: goes through the registers of an access, `width` at a time.
 *
 * Each access of `width` registers has an offset; those that differ from an earlier one by a
 * constant share its address and carry the difference as an immediate. */
#ifndef WV_LOWER_WALK_H
#define WV_LOWER_WALK_H

#include "lower_threads/lower.h"

/* An emitted address; others are this one plus a constant. */
typedef struct Base {
  FormParts parts; /* of its offset */
  const Sym *offset;
  Value *value;
} Base;

/* A test of a walk: a condition, or `whole` <= 0 if many offsets are compared with a number. */
typedef struct Test {
  TileForm *form;
  bool repeated; /* it has several positions */
  bool compares;
} Test;

/* A test at one position. */
typedef struct Tested {
  int test;
  FormParts parts;
  Value *value; /* NULL: it always holds */
} Tested;

typedef struct Walk {
  Lower *l;
  const LaneAccess *a;
  TileForm *offset, *coords[IR_MAX_RANK];
  Test tests[MAX_BOUNDS];
  const Sym *owner; /* this thread acts for those that hold the same; NULL: all act */
  const DimHolders *several[LAYOUT_DIMS]; /* dims along which digits overlap, if only one acts */
  int nseveral;
  Vec(Base) bases;
  Vec(Tested) tested;
  int reg;                     /* the first of the registers being accessed */
  Value *args[ELEMENT_VALUES]; /* dynamic values of `reg` */
} Walk;

/* offset, immediate, mask and coordinates of the registers from `reg` on. */
typedef struct WalkStep {
  Value *args[4];
  int nargs; /* memory, offset [, mask] after a free slot for the value */
  Attr attrs[6]; /* one is free for a peer */
  int nattrs;
} WalkStep;

/* `waves`: of the threads that hold an element in that many waves, the innermost, one acts; 0: all
 * do. */
Walk walk_begin(Lower *l, const LaneAccess *a, int waves);
void walk_to(Walk *w, int reg); /* offset and mask are then those of the registers from `reg` on */
Value *walk_offset(Walk *w, Attr *imm);
Value *walk_mask(Walk *w, int reg);            /* NULL: it is always active */
bool walk_coords(Walk *w, int reg, Attr *out); /* false: they are unknown, or not consecutive */

WalkStep walk_step(Walk *w, int reg); /* all of these */
bool walk_is_idle(Walk *w, int reg);  /* this thread never acts for these registers */

#endif
