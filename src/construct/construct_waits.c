/* construct_waits.c: barriers that a schedule function writes, compared with what its loop needs.
 *
 * Waits and barriers are always derived, so written ones have no effect here. They matter where a
 * schedule is also used with another compiler, and they say what its author believes. In the requested
 * order, a tile must be stored before it is read, and read before its slot is filled again:
 *
 *     store of iteration i      -> fetch of iteration i          stages of both apart
 *     fetch of iteration i      -> store of iteration i + slots  slots less that
 *
 * Each such pair needs a barrier on the way, one that waits for accesses to shared memory. A barrier
 * that no pair needs is needless. Split barriers, counters and waves that are staggered are not
 * judged. */
#include <string.h>

#include "construct/construct.h"

static Diags *diags_of(const Construct *c) { return &c->k->cx->diags; }

/* Two accesses that must not change places, and how many iterations of the loop lie between them. */
typedef struct Pair {
  const Node *first, *second;
  int from, to; /* their places: the last instruction of the one, the first of the other */
  int distance;
} Pair;

typedef struct Judge {
  Construct *c;
  const PipelineCall *p;
  const Op *loop;
  Vec(Pair) pairs;
  bool *needless; /* by number of the barrier */
} Judge;

/* ---- places ---- */

/* Instructions have even places, and what is written between them odd ones. */
static bool is_here(const Judge *j, const Node *node) {
  return node->segment == SEGMENT_kernel && !node->unrolled && node->stage != NODE_NONE &&
         node->rank != NODE_NONE && construct_loop(node) == j->loop;
}

static int place_of(const Judge *j, const WrittenBarrier *b) {
  if (b->after != NODE_NONE && is_here(j, &j->c->nodes.at[b->after]))
    return 2 * j->c->nodes.at[b->after].rank + 1;
  if (b->before != NODE_NONE && is_here(j, &j->c->nodes.at[b->before]))
    return 2 * j->c->nodes.at[b->before].rank - 1;
  return NODE_NONE;
}

/* The first and the last place of the instructions of an op. */
static void span_of(const Judge *j, const Node *of, int *first, int *last) {
  *first = INT32_MAX, *last = NODE_NONE;
  for (int i = 0; i < j->c->nodes.n; i++) {
    const Node *node = &j->c->nodes.at[i];
    if (node->op != of->op || node->class != of->class || !is_here(j, node)) continue;
    if (2 * node->rank < *first) *first = 2 * node->rank;
    if (2 * node->rank > *last) *last = 2 * node->rank;
  }
}

/* ---- pairs ---- */

static bool fills(const Node *node) {
  return node->class == OP_CLASS_store || node->class == OP_CLASS_copy;
}

/* Fetches; a matmul, if it reads the tile from shared memory itself. */
static bool reads(Judge *j, const Node *read, const Node *move) {
  Node whole = *read, tile = *move;
  whole.nparts = tile.nparts = 0; /* any of their instructions */
  if (!construct_depends(j->c, &whole, &tile)) return false;
  if (read->class != OP_CLASS_mma) return read->class == OP_CLASS_fetch;
  for (int i = 0; i < j->c->nodes.n; i++) {
    Node other = j->c->nodes.at[i];
    other.nparts = 0;
    if (other.class == OP_CLASS_fetch && is_here(j, &j->c->nodes.at[i]) &&
        construct_depends(j->c, &other, &tile))
      return false;
  }
  return true;
}

static bool is_first(const Judge *j, const Node *node) {
  for (const Node *other = j->c->nodes.at; other < node; other++)
    if (other->op == node->op && other->class == node->class && is_here(j, other)) return false;
  return true;
}

/* Without a number of buffers there are as many as the order needs. */
static void add_pairs(Judge *j, const Node *move, const Node *read) {
  int filled, stored, fetched, done;
  span_of(j, move, &filled, &stored);
  span_of(j, read, &fetched, &done);
  int apart = read->stage - move->stage, least = done < filled && apart > 0 ? apart : apart + 1;
  int slots = j->p->slots > least ? j->p->slots : least;
  vec_push(j->c->arena, &j->pairs, ((Pair){move, read, stored, fetched, apart}));
  vec_push(j->c->arena, &j->pairs, ((Pair){read, move, done, filled, slots - apart}));
}

static void find_pairs(Judge *j) {
  int n = j->c->nodes.n;
  for (int m = 0; m < n; m++) {
    const Node *move = &j->c->nodes.at[m];
    if (!fills(move) || !is_here(j, move) || !is_first(j, move)) continue;
    for (int r = 0; r < n; r++) {
      const Node *read = &j->c->nodes.at[r];
      if (is_here(j, read) && is_first(j, read) && reads(j, read, move)) add_pairs(j, move, read);
    }
  }
}

/* ---- verdicts ---- */

static bool serves(const Judge *j, const WrittenBarrier *b, const Pair *x) {
  int at = place_of(j, b);
  if (at == NODE_NONE) return false;
  if (x->distance > 1) return true;
  return x->distance == 1 ? at > x->from || at < x->to : at > x->from && at < x->to;
}

/* Some barrier that is kept serves the pair, as well as `than` does. */
static bool is_served(const Judge *j, const Pair *x, const WrittenBarrier *than) {
  for (int i = 0; i < j->c->barriers.n; i++) {
    const WrittenBarrier *b = &j->c->barriers.at[i];
    if (b != than && !j->needless[i] && serves(j, b, x) && (!than || b->waits >= than->waits))
      return true;
  }
  return false;
}

static bool is_needed(const Judge *j, const WrittenBarrier *b) {
  for (int i = 0; i < j->pairs.n; i++)
    if (serves(j, b, &j->pairs.at[i]) && !is_served(j, &j->pairs.at[i], b)) return true;
  return false;
}

/* The barrier that serves a pair, one that waits if there is one; NULL: none. */
static const WrittenBarrier *serving(const Judge *j, const Pair *x) {
  const WrittenBarrier *best = NULL;
  for (int i = 0; i < j->c->barriers.n; i++) {
    const WrittenBarrier *b = &j->c->barriers.at[i];
    if (serves(j, b, x) && (!best || b->waits > best->waits)) best = b;
  }
  return best;
}

/* ---- the remark ---- */

static Diag *remark(const Judge *j, Diag *d) {
  if (d) return d;
  return diag_add(diags_of(j->c), DIAG_R0619, j->c->at,
                  "barriers of the schedule `%s` are not those that the loop `%s` needs",
                  j->c->name, schedule_loop_name(j->c->arena, j->loop));
}

static Diag *say_needless(const Judge *j, Diag *d) {
  for (int i = j->c->barriers.n - 1; i >= 0; i--) {
    const WrittenBarrier *b = &j->c->barriers.at[i];
    if (place_of(j, b) == NODE_NONE || is_needed(j, b)) continue;
    j->needless[i] = true;
    d = remark(j, d);
    diag_note(diags_of(j->c), d, b->at, "needless: without this %s all accesses are in order",
              b->type);
  }
  return d;
}

static Diag *say_weak(const Judge *j, Diag *d) {
  for (int i = 0; i < j->pairs.n; i++) {
    const Pair *x = &j->pairs.at[i];
    const WrittenBarrier *b = serving(j, x);
    if (b && b->waits) continue;
    d = remark(j, d);
    diag_note(
        diags_of(j->c), d, b ? b->at : x->second->placed,
        b ? "too weak: between `%s` and `%s`, a WorkgroupBarrier does not wait for accesses to "
            "shared memory; a SharedMemoryBarrier does"
          : "missing: there is no barrier between `%s` and `%s`",
        construct_plain_name(j->c, x->first), construct_plain_name(j->c, x->second));
  }
  return d;
}

void construct_judge_barriers(Construct *c, const PipelineCall *p) {
  Judge j = {.c = c, .p = p, .loop = c->nodes.at[p->loop].op};
  bool any = false;
  for (int i = 0; i < c->barriers.n; i++) any |= place_of(&j, &c->barriers.at[i]) != NODE_NONE;
  if (!any || c->unjudged) return;
  j.needless = ARENA_ARRAY(c->arena, bool, c->barriers.n);
  find_pairs(&j);
  Diag *d = say_weak(&j, NULL);
  d = say_needless(&j, d);
  if (d) diag_hint(diags_of(c), d, "leave barriers out: those that are needed are derived");
}
