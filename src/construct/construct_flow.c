/* construct_flow.c: which nodes of an iteration need the results of which others.
 *
 * An op needs another if it takes its result, directly or through others, or fetches what the other
 * copied. Parts of two ops are independent if they differ along a dimension that every op on the way
 * keeps: the matmul of the second half of K does not need the first half of its operands. */
#include <string.h>

#include "construct/construct.h"
#include "ir/ops/access.h"
#include "ir/ops/reductions.h"

enum { FLOW_DIMS = 31 };
#define REACHED (1u << FLOW_DIMS)

typedef struct Flow {
  const Op *loop;
  int nops, ndims;
  const Op **ops; /* of the loop, in program order */
  const Sym *dims[FLOW_DIMS];
  unsigned *in, *out; /* [from * nops + to]: REACHED, and dims that are kept up to its operands, and
                       * up to its result */
} Flow;

/* ---- dimensions ---- */

static void collect_dims(const Construct *c, Flow *f) {
  for (int i = 0; i < c->nodes.n; i++)
    for (int p = 0; p < c->nodes.at[i].nparts; p++) {
      const Sym *dim = c->nodes.at[i].parts[p].dim;
      bool known = f->ndims == FLOW_DIMS;
      for (int j = 0; j < f->ndims; j++) known |= f->dims[j] == dim;
      if (!known) f->dims[f->ndims++] = dim;
    }
}

/* The dims of a type, as bits. */
static unsigned dims_of(const Flow *f, const Type *t) {
  unsigned bits = 0;
  for (int i = 0; i < t->rank; i++) {
    const Sym *symbol[2];
    if (sym_free_symbols(t->dims[i], symbol, 2) != 1) continue;
    for (int j = 0; j < f->ndims; j++)
      if (f->dims[j] == symbol[0]) bits |= 1u << j;
  }
  return bits;
}

/* Each element of the result needs only the elements of its operands at the same position. */
static bool keeps_positions(const Op *op) {
  return op_is_elementwise(op) || op_is_product(op) || op->kind == OP_select ||
         op->kind == OP_cast || op->kind == OP_bitcast || op->kind == OP_broadcast ||
         op->kind == OP_permute || op->kind == OP_convert || op->kind == OP_repeat;
}

/* ---- paths ---- */

static int number_of(const Flow *f, const Op *op) {
  for (int i = 0; i < f->nops; i++)
    if (f->ops[i] == op) return i;
  return -1;
}

static void meet(unsigned *to, unsigned bits) {
  *to = *to ? *to & (bits | REACHED) : bits | REACHED;
}

/* What reaches op j from op i: by its operands, by memory, and from the ops of its regions. */
static unsigned reach(const Flow *f, int i, int j) {
  const Op *op = f->ops[j];
  unsigned in = 0;
  for (int d = i; d < j; d++) {
    unsigned out = f->out[i * f->nops + d];
    if (!out) continue;
    for (int a = 0; a < op->nargs; a++)
      if (op->args[a]->def == f->ops[d]) meet(&in, out & dims_of(f, op->args[a]->type));
    bool fetches = op->kind == OP_read && schedule_fills(f->ops[d]) == memory_root(op->args[0]);
    if (fetches && schedule_fills(f->ops[d])) meet(&in, 0);
  }
  return in;
}

/* A value of a region's op is that of the op which has the region. */
static void reach_outer(Flow *f, int i, int j) {
  const Op *outer = f->ops[j]->parent->owner;
  int o = outer == f->loop ? -1 : number_of(f, outer);
  if (o >= 0 && f->in[i * f->nops + j]) f->in[i * f->nops + o] = f->out[i * f->nops + o] = REACHED;
}

static void follow(Flow *f, int i) {
  const Op *from = f->ops[i];
  unsigned *in = &f->in[i * f->nops], *out = &f->out[i * f->nops];
  in[i] = REACHED | (REACHED - 1);
  out[i] = REACHED | (from->nresults ? dims_of(f, from->results[0].type) : 0);
  for (int j = i + 1; j < f->nops; j++) {
    const Op *op = f->ops[j];
    unsigned found = reach(f, i, j);
    if (found) in[j] = in[j] ? in[j] & found : found;
    if (in[j]) out[j] = REACHED;
    if (in[j] && op->nresults && keeps_positions(op))
      out[j] |= in[j] & dims_of(f, op->results[0].type);
    reach_outer(f, i, j);
  }
}

static const Flow *flow_of(Construct *c, const Op *loop) {
  if (c->flow && c->flow->loop == loop) return c->flow;
  Flow *f = ARENA_NEW(c->arena, Flow);
  f->loop = loop;
  collect_dims(c, f);
  for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op)) f->nops++;
  f->ops = ARENA_ARRAY(c->arena, const Op *, f->nops + 1);
  f->nops = 0;
  for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op))
    f->ops[f->nops++] = op;
  f->in = ARENA_ARRAY(c->arena, unsigned, f->nops * f->nops + 1);
  f->out = ARENA_ARRAY(c->arena, unsigned, f->nops * f->nops + 1);
  for (int i = 0; i < f->nops; i++) follow(f, i);
  c->flow = f;
  return f;
}

/* ---- nodes ---- */

static bool parts_meet(const NodePart *a, const NodePart *b) {
  return (int64_t)a->at * b->of < (int64_t)(b->at + 1) * a->of &&
         (int64_t)b->at * a->of < (int64_t)(a->at + 1) * b->of;
}

/* Whether they have elements in common, of the dims that are kept. */
static bool overlap(const Flow *f, unsigned kept, const Node *a, const Node *b) {
  for (int i = 0; i < a->nparts; i++)
    for (int j = 0; j < b->nparts; j++) {
      bool is_kept = false;
      for (int d = 0; d < f->ndims; d++)
        is_kept |= f->dims[d] == a->parts[i].dim && (kept >> d & 1);
      if (is_kept && a->parts[i].dim == b->parts[j].dim && !parts_meet(&a->parts[i], &b->parts[j]))
        return false;
    }
  return true;
}

/* The instructions of a matmul add to its result one after the other, along what it sums over. */
static bool sums_after(const Node *later, const Node *first) {
  const Type *result = later->op->results[0].type;
  bool after = false;
  for (int i = 0; i < later->nparts && i < first->nparts; i++) {
    const NodePart *l = &later->parts[i], *s = &first->parts[i];
    const Sym *symbol[2];
    bool is_result = false;
    for (int d = 0; d < result->rank; d++)
      is_result |= sym_free_symbols(result->dims[d], symbol, 2) == 1 && symbol[0] == l->dim;
    if (is_result && l->at != s->at) return false;
    if (!is_result) after = l->at > s->at;
  }
  return after;
}

/* Of one op: a tile is loaded, then stored, then fetched. */
static bool follows(const Flow *f, unsigned kept, const Node *later, const Node *first) {
  if (later->class != first->class)
    return later->class > first->class && overlap(f, kept, later, first);
  return op_is_product(later->op) && sums_after(later, first);
}

bool construct_depends(Construct *c, const Node *later, const Node *first) {
  const Op *loop = construct_loop(first);
  if (!loop || first->op == loop || later->op == loop || construct_loop(later) != loop)
    return false;
  const Flow *f = flow_of(c, loop);
  int from = number_of(f, first->op), to = number_of(f, later->op);
  if (from < 0 || to < 0) return false;
  unsigned kept = f->in[from * f->nops + to];
  if (from == to) return follows(f, kept, later, first);
  return kept && overlap(f, kept, later, first);
}
