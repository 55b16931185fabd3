/* entries.h: the ops of a pipelined loop, divided and placed as a schedule function asks for it.
 *
 * Rows name ops and equal parts of them. A function handles single instructions; so an op gets as few
 * parts as say where its instructions are: in which stage, and between which other ops. What has no
 * such parts, on this machine or at all, is placed as a whole: in the last stage of its instructions,
 * where the first of them is. */
#ifndef WV_CONSTRUCT_ENTRIES_H
#define WV_CONSTRUCT_ENTRIES_H

#include "construct/construct.h"

enum { ENTRY_PARTS = 64 /* of an op; more make a program too slow to compile */ };

/* An op in one of its classes, or a part of it. */
typedef struct Entry {
  Node node;   /* its stage and cycle, and as `parts` those of the entry */
  int first;   /* where it is in the order; NODE_NONE: nowhere */
  bool listed; /* the function says where; otherwise it follows from what it needs */
  int prio;    /* the highest of its instructions */
} Entry;

/* How many parts an op has along each of its nodes' dimensions. */
typedef struct Division {
  const Op *op;
  OpClass class;
  int of[NODE_DIMS];
} Division;

typedef struct Rows {
  Construct *c;
  const PipelineCall *p;
  const Op *loop, *original; /* in the kernel that has the ops, and as it was written */
  const char *name;
  RowsLevel level;
  Vec(Division) divisions;
  Vec(Entry) entries;
  bool ordered;       /* reorder_graph was called */
  int last, interval; /* stage, cycles */
} Rows;

/* Whether a node is one of those that rows are about: of the steady state, and of the first copy of an
 * unrolled body. */
bool entries_have(const Rows *r, const Node *node);
/* The class in which rows place a node; OP_CLASS_COUNT: in none. */
OpClass entries_class(const Node *node);

/* ---- construct_parts.c ---- */

/* Divides the ops; whatever cannot be divided is dropped. */
void entries_divide(Rows *r);
const Division *entries_division(const Rows *r, const Op *op, OpClass class);
/* Which part a node belongs to. */
NodePart entries_part(const Division *by, const Node *node, int dim);

/* ---- construct_entries.c ---- */

void entries_collect(Rows *r);
/* The entry that a node belongs to; NULL: none. */
const Entry *entries_with(const Rows *r, const Node *node);
/* The last entry of the op in that class; NULL: none. */
const Entry *entries_of(const Rows *r, const Op *op, OpClass class);
/* Cycles that say the order: neighbours of one class and stage share one. */
void entries_number(Rows *r);
/* All of them, in the order of an iteration. */
const Entry **entries_sorted(const Rows *r);

#endif
