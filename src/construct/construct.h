/* construct.h: what a schedule function selects and asks for, and rows that say the same.
 *
 * A schedule function of the public package handles *nodes*, one for each instruction of an op: a
 * tile of 32 x 32 that is multiplied by instructions for 16 x 16 has four nodes for the matmul, each
 * with its position along the dimensions. A read that goes through shared memory is several ops: what
 * copies the tile there (or loads and stores it, as the schedule wants to see it), and what fetches
 * it. Only ops with a tag have nodes, because nothing else can be selected.
 *
 * Nodes are those of the kernel as a machine with waves has it before its loops are pipelined; of a
 * kernel that is not compiled yet, or for a machine without waves, those of the kernel as it was
 * written, one for each op.
 *
 * Calls are recorded, and checked against the dependences at once. construct_rows turns them into
 * rows of a schedule (ir/schedule/schedule.h), which `stages` obeys like any others. */
#ifndef WV_CONSTRUCT_H
#define WV_CONSTRUCT_H

#include "analysis/analysis.h"
#include "analysis/distribute.h"
#include "ir/schedule/schedule.h"

enum { NODE_DIMS = 4, NODE_MOST = 1 << 16, NODE_NONE = -1 };

/* Where a node of a pipelined loop is: before the steady state, in it, or after it. */
typedef enum Segment {
  SEGMENT_any, /* not in a pipelined loop */
  SEGMENT_prologue,
  SEGMENT_kernel,
  SEGMENT_epilogue,
  SEGMENT_COUNT
} Segment;

/* The i-th of n instructions along a dimension. */
typedef struct NodePart {
  const Sym *dim; /* a symbol: K for the dimension K/2 */
  int at, of;
} NodePart;

typedef struct Node {
  const Op *op;
  OpClass class; /* as the schedule sees it: OP_CLASS_load for one half of a copy */
  NodePart parts[NODE_DIMS];
  int nparts;
  int unrolled; /* which copy of an unrolled body, from 0 */
  Segment segment;
  int base;         /* the node of the loop that it is a copy of; itself otherwise */
  int flight;       /* which of the iterations in flight it belongs to, oldest first */
  int stage, cycle; /* NODE_NONE: not placed */
  int rank;         /* in the order that reorder_graph gives; NODE_NONE: none */
  int prio;         /* of the waves while they execute it */
  Span placed;      /* the call that placed it */
} Node;

typedef struct Nodes {
  const int *at; /* indices of nodes */
  int n;
} Nodes;
typedef Vec(int) NodeVec;

/* A loop that is cut into stages. */
typedef struct PipelineCall {
  int loop; /* a node */
  Span at;
  int depth, interval;  /* stages and cycles so far */
  RepeatedOps repeated; /* they have no stage, wherever the function places them */
  int slots;            /* of each operand; 0: not given */
  bool masked;          /* without an epilogue */
  bool closed;
} PipelineCall;

typedef struct UnrollCall {
  const Op *loop;
  int factor;
  Span at;
} UnrollCall;

/* Half of the waves run a loop one barrier later than the other half. */
typedef struct StaggerCall {
  const Op *loop;
  Span at;
} StaggerCall;

/* Whether waves meet at an op, or at two: the first half of a barrier, and the second. */
typedef enum Meeting { MEETS_none, MEETS_all, MEETS_signal, MEETS_await } Meeting;

enum { WAITS_FOR_NONE = -1, WORKGROUP_ID = -1, CLUSTER_ID = -3 };

/* A barrier or wait that a function writes between nodes, or at the begin or end of a loop. */
typedef struct WrittenWait {
  const char *type;
  Meeting meets;
  int id;            /* of the barrier, if it has two halves; above 0: not of all waves */
  bool shared;       /* waves wait for their accesses to shared memory */
  int loads;         /* they wait until at most this many loads are in flight; WAITS_FOR_NONE */
  int after, before; /* nodes; NODE_NONE: it begins or ends its cluster */
  const Op *loop;    /* at its begin, or at its end if `last`; NULL: between nodes */
  bool last;
  Span at;
} WrittenWait;

/* A fence for instructions, before a node or after it. */
typedef struct WrittenFence {
  int node;
  bool after;
  Span at;
} WrittenFence;

/* A request that rows cannot express. */
typedef struct Dropped {
  const char *what, *why;
  int n; /* of that kind; 0: `what` says it all */
  Span at;
} Dropped;

typedef struct Construct {
  Arena *arena;
  Kernel *k;             /* the one that has the ops */
  const Kernel *written; /* as its author wrote it */
  const Distribution *d;
  const TargetInfo *target; /* NULL: a kernel as it was written */
  const char *name;         /* of the function */
  Span at;
  bool direct; /* tiles are copied by one op, otherwise loaded and stored */
  Vec(Node) nodes;
  Vec(PipelineCall) pipelines;
  Vec(UnrollCall) unrolls; /* one for each loop */
  Vec(StaggerCall) staggers;
  Vec(Dropped) dropped;
  Vec(WrittenWait) waits;
  Vec(WrittenFence) fences;
  bool unjudged;           /* it also writes barriers whose waves or place are not known */
  const struct Flow *flow; /* of the last loop that was asked about: construct_flow.c */
} Construct;

/* ---- nodes: construct_nodes.c ---- */

void construct_fill(Construct *c);
/* The tags by which an op is selected; n 0: none. */
int construct_tags(const Construct *c, const Op *op, const char *const **out);
/* `read_a.load[K 0/2]`; copies in a prologue or epilogue end like `_1_2`. */
const char *construct_name(const Construct *c, int node);
/* `read_a.load`, which may be the name of several ops. */
const char *construct_plain_name(const Construct *c, const Node *node);
/* The loop that contains a node; NULL: none. */
const Op *construct_loop(const Node *node);
bool construct_is_loop(const Construct *c, Nodes list);

/* ---- selecting: construct_select.c ---- */

/* Nodes that have all these tags, and no others if `exact`. Warns about tags that nothing has. */
Nodes construct_find(Construct *c, const char *const *tags, int n, bool exact, Span at);
/* Those of a segment, of a class of construct.def (NULL: any) and of a copy of an unrolled body (-1:
 * any). False after reporting. */
bool construct_filter(Construct *c, Nodes from, Segment segment, const char *type, int unrolled,
                      Span at, Nodes *out);
/* Those that access an address space, `global` or `shared`, and the others. */
bool construct_by_space(Construct *c, Nodes from, const char *space, Span at, Nodes out[2]);
/* Runs of neighbours along a dimension, the first ones longer; the last ones are empty if there are
 * too few. */
bool construct_by_dim(Construct *c, Nodes from, const Sym *dim, int parts, Span at, Nodes *out);

/* ---- dependences: construct_flow.c ---- */

/* `later` needs what `first` computes, in the same iteration. */
bool construct_depends(Construct *c, const Node *later, const Node *first);

/* ---- stages: construct_pipeline.c ---- */

int construct_pipeline(Construct *c, Nodes loop, Span at); /* its number; -1 after reporting */
bool construct_stage(Construct *c, int pipeline, const Nodes *cycles, int n, Span at);
/* Checks the stages, and makes the nodes of prologue and epilogue. slots 0: not given. */
bool construct_close(Construct *c, int pipeline, int slots, bool masked);
/* The nodes with their copies in the prologue and the epilogue. */
Nodes construct_copies(Construct *c, Nodes from);
bool construct_unroll(Construct *c, Nodes loop, int factor, Span at);
/* How often the body of a loop is repeated; NULL: it is not. */
const UnrollCall *construct_unrolled(const Construct *c, const Op *loop);
const PipelineCall *construct_pipeline_of(const Construct *c, const Op *loop); /* NULL: none */

/* ---- order: construct_order.c ---- */

typedef struct Interleaved {
  Nodes ops;
  int interval, offset;
  Nodes after; /* numbers of groups that must be used up first */
} Interleaved;

bool construct_interleave(Construct *c, Nodes base, const Interleaved *groups, int n, Span at,
                          Nodes *out);
bool construct_reorder(Construct *c, Nodes order, Span at);

typedef struct ClusterItem {
  int node;          /* NODE_NONE: an op that is inserted */
  const char *type;  /* of that */
  int value;         /* of SetWavePrio */
  const char *given; /* its arguments, as "4 ds=0"; NULL: none */
} ClusterItem;
/* An op of construct.def that the function inserts "before" or "after" a node, or at the "start" or
 * "end" of a loop; where NULL: elsewhere. */
bool construct_insert(Construct *c, const ClusterItem *item, const char *where, Nodes target,
                      Span at);
/* Nodes and inserted ops, in order: nodes after SetWavePrio have that priority. */
bool construct_cluster(Construct *c, const ClusterItem *items, int n, Span at);
/* Whether the machine has priorities, and fences for instructions. */
bool construct_has_prio(const Construct *c);
void construct_drop_fence(Construct *c, const WrittenFence *f, const char *why);
bool construct_stagger(Construct *c, Nodes loop, Span at);
#define CONSTRUCT_STAGGERED "staggered waves" /* what is dropped if a machine does not do it */
void construct_drop(Construct *c, const char *what, const char *why, Span at);

/* ---- barriers and waits: construct_written.c, construct_waits.c ---- */

/* Note what is written for the comparison. False: it is something else, or its place is not known. */
bool construct_note_wait(Construct *c, const ClusterItem *items, int n, int i, Span at);
bool construct_note_inserted(Construct *c, const ClusterItem *item, const char *where, Nodes target,
                             Span at);

/* A remark about barriers that are needless, too weak or missing, if any are written. */
void construct_judge_barriers(Construct *c, const PipelineCall *p);

/* ---- rows: construct_rows.c ---- */

/* How much of a schedule is said in rows. */
typedef enum RowsLevel {
  ROWS_all,    /* every op that was placed, its parts, and their order */
  ROWS_whole,  /* every op that was placed, as a whole */
  ROWS_moves,  /* copies, and where fetches and matmuls are in an iteration */
  ROWS_copies, /* only how far ahead copies run */
  ROWS_LEVELS
} RowsLevel;

typedef Vec(Constraint) ConstructRows;
/* False after reporting. */
bool construct_rows(Construct *c, RowsLevel level, Arena *a, ConstructRows *out);
/* One remark with all that was dropped; why: why no more was obeyed, or NULL. */
void construct_remark(Construct *c, RowsLevel level, const char *why);

#endif
