/* again_parts.h: writes a lane's program in parts of vectors, each when it is needed. */
#ifndef WV_AGAIN_PARTS_H
#define WV_AGAIN_PARTS_H

#include "ir/ir.h"

/* A program without loops and conditionals, in phases: a barrier begins the next one. */
typedef struct Phases {
  Kernel *k;
  Arena *scratch;
  int part;      /* elements of a part: those of a register in the narrowest type that is kept */
  int count;     /* of phases */
  int *made;     /* by value id: the phase that computes it; parameters: 0 */
  int *needed;   /* by value id: the last phase that uses it */
  bool *divided; /* by value id: it is computed part by part */
  bool *again;   /* by value id: later phases compute it again */
  bool *late;    /* by op id: a load, after a barrier, of what nothing writes */
  bool ahead;    /* there are registers for the next late load from a memory, while one is used */
} Phases;

/* Ops that are written when their results are needed; the others stay where they are. */
bool again_moves(const Phases *p, const Op *op);
bool again_ends_phase(const Op *op); /* a barrier of more than one wave */
/* A packed value: several elements in a register. */
bool again_is_packed(const Value *v);

/* Fills in the arrays but `again`. */
void again_find_phases(Phases *p);
void again_write(Phases *p);

#endif
