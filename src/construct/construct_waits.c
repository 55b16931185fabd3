/* construct_waits.c: barriers and waits that a schedule function writes, compared with what its loop
 * needs.
 *
 * Waits and barriers are always derived, so written ones have no effect here. They matter where a
 * schedule is also used with another compiler, and they say what its author believes. In the requested
 * order, a tile must be stored before it is read, and read before its slot is filled again:
 *
 *     store of iteration i      -> fetch of iteration i          stages of both apart
 *     fetch of iteration i      -> store of iteration i + slots  slots less that
 *
 * On the way from the first access to the second, waves wait until the first has ended, and then meet
 * at a barrier. A direct copy has ended after a wait for loads that leaves fewer in flight than were
 * issued since; other accesses, after a wait for shared memory, and a fetch once products have used its
 * tile. If half of the waves is one barrier behind, two barriers must follow: by the first, the later
 * half has only reached what the other half left a barrier ago (schedule/groups/loop_lag.h).
 *
 * A wait or a barrier that no pair needs is needless, and a count too small if a larger one would do.
 * Where waves are staggered, barriers are also what gives each half its turns: none is needless. */
#include <string.h>

#include "construct/construct.h"

static Diags *diags_of(const Construct *c) { return &c->k->cx->diags; }

/* Two accesses that must not be swapped, and how many iterations of the loop lie between them. */
typedef struct Pair {
  const Node *first, *second;
  int from, to; /* their places: the last instruction of the one, the first of the other */
  int used;     /* the place after which products have used what the first one fetched; NODE_NONE */
  int distance;
} Pair;

typedef struct Judge {
  Construct *c;
  const PipelineCall *p;
  const Op *loop;
  bool staggered;
  Vec(Pair) pairs;
  Vec(WrittenWait) waits; /* of this loop, in their order */
  Vec(int) places;        /* of each */
  Vec(int) loads;         /* places of loads of global memory, direct copies included */
} Judge;

/* ---- places ---- */

/* Instructions have even places, and what is written between them odd ones. */
static bool is_here(const Judge *j, const Node *node) {
  return node->segment == SEGMENT_kernel && !node->unrolled && node->stage != NODE_NONE &&
         node->rank != NODE_NONE && construct_loop(node) == j->loop;
}

static int place_of(const Judge *j, const WrittenWait *w) {
  const Node *nodes = j->c->nodes.at;
  if (w->loop) return w->loop != j->loop ? NODE_NONE : w->last ? 2 * j->c->nodes.n + 1 : 0;
  if (w->after != NODE_NONE && is_here(j, &nodes[w->after])) return 2 * nodes[w->after].rank + 3;
  if (w->before != NODE_NONE && is_here(j, &nodes[w->before])) return 2 * nodes[w->before].rank + 1;
  return NODE_NONE;
}

static int place_of_node(const Node *node) { return 2 * node->rank + 2; }

/* The first and the last place of the instructions of an op. */
static void span_of(const Judge *j, const Node *of, int *first, int *last) {
  *first = INT32_MAX, *last = NODE_NONE;
  for (int i = 0; i < j->c->nodes.n; i++) {
    const Node *node = &j->c->nodes.at[i];
    if (node->op != of->op || node->class != of->class || !is_here(j, node)) continue;
    if (place_of_node(node) < *first) *first = place_of_node(node);
    if (place_of_node(node) > *last) *last = place_of_node(node);
  }
}

/* By place; what is at one place stays in the order in which it was written. */
static void find_waits(Judge *j) {
  for (int i = 0; i < j->c->waits.n; i++) {
    int place = place_of(j, &j->c->waits.at[i]), at = j->waits.n;
    if (place == NODE_NONE) continue;
    vec_push(j->c->arena, &j->waits, j->c->waits.at[i]);
    vec_push(j->c->arena, &j->places, place);
    for (; at > 0 && j->places.at[at - 1] > place; at--) {
      j->waits.at[at] = j->waits.at[at - 1];
      j->places.at[at] = j->places.at[at - 1];
    }
    j->waits.at[at] = j->c->waits.at[i], j->places.at[at] = place;
  }
}

static void find_loads(Judge *j) {
  for (int i = 0; i < j->c->nodes.n; i++) {
    const Node *node = &j->c->nodes.at[i];
    bool loads = node->class == OP_CLASS_load || node->class == OP_CLASS_copy;
    if (loads && is_here(j, node)) vec_push(j->c->arena, &j->loads, place_of_node(node));
  }
}

/* ---- pairs ---- */

static bool fills(const Node *node) {
  return node->class == OP_CLASS_store || node->class == OP_CLASS_copy;
}

/* Any instruction of the one needs any of the other. */
static bool needs(Judge *j, const Node *later, const Node *first) {
  Node whole = *later, tile = *first;
  whole.nparts = tile.nparts = 0;
  return construct_depends(j->c, &whole, &tile);
}

/* Fetches; a matmul, if it reads the tile from shared memory itself. */
static bool reads(Judge *j, const Node *read, const Node *move) {
  if (!needs(j, read, move)) return false;
  if (read->class != OP_CLASS_mma) return read->class == OP_CLASS_fetch;
  for (int i = 0; i < j->c->nodes.n; i++) {
    const Node *other = &j->c->nodes.at[i];
    if (other->class == OP_CLASS_fetch && is_here(j, other) && needs(j, other, move)) return false;
  }
  return true;
}

static bool is_first(const Judge *j, const Node *node) {
  for (const Node *other = j->c->nodes.at; other < node; other++)
    if (other->op == node->op && other->class == node->class && is_here(j, other)) return false;
  return true;
}

/* Products of the same iteration wait for what they use. */
static int last_use(Judge *j, const Node *fetch) {
  int last = NODE_NONE, from, to;
  for (int i = 0; i < j->c->nodes.n; i++) {
    const Node *node = &j->c->nodes.at[i];
    if (node->class != OP_CLASS_mma || !is_here(j, node) || !is_first(j, node)) continue;
    if (!needs(j, node, fetch)) continue;
    if (node->stage != fetch->stage) return NODE_NONE;
    span_of(j, node, &from, &to);
    if (to > last) last = to;
  }
  return last;
}

/* The first and the last cycle of the instructions of an op, stages included. */
static void cycles_of(const Judge *j, const Node *of, int *first, int *last) {
  *first = INT32_MAX, *last = NODE_NONE;
  for (int i = 0; i < j->c->nodes.n; i++) {
    const Node *node = &j->c->nodes.at[i];
    if (node->op != of->op || node->class != of->class || !is_here(j, node)) continue;
    int at = node->stage * j->p->interval + node->cycle;
    if (at < *first) *first = at;
    if (at > *last) *last = at;
  }
}

/* Without a number of buffers there are as many as iterations have begun while a tile is in use. */
static int slots_of(const Judge *j, const Node *move, const Node *read) {
  int filled, done, other;
  if (j->p->slots || j->p->interval < 1) return j->p->slots;
  cycles_of(j, move, &filled, &other);
  cycles_of(j, read, &other, &done);
  return ceil_div(done - filled + 1, j->p->interval);
}

static void add_pairs(Judge *j, const Node *move, const Node *read) {
  int filled, stored, fetched, done;
  span_of(j, move, &filled, &stored);
  span_of(j, read, &fetched, &done);
  int apart = read->stage - move->stage, least = done < filled && apart > 0 ? apart : apart + 1;
  int given = slots_of(j, move, read), slots = given > least ? given : least;
  int used = read->class == OP_CLASS_fetch ? last_use(j, read) : NODE_NONE;
  vec_push(j->c->arena, &j->pairs, ((Pair){move, read, stored, fetched, NODE_NONE, apart}));
  vec_push(j->c->arena, &j->pairs, ((Pair){read, move, done, filled, used, slots - apart}));
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

/* ---- from the first access of a pair to the second ---- */

typedef struct Way {
  bool ended;                /* the first access has */
  int met;                   /* barriers after that */
  const WrittenWait *last;   /* barrier, whatever it waits for */
  int issued;                /* loads since the copy, there */
  const WrittenWait *counts; /* the last wait for loads that leaves the copy in flight */
  int enough;                /* the largest count that would not */
} Way;

/* Loads of global memory that are issued after a place, up to another one some iterations later. */
static int loads_between(const Judge *j, int from, int to, int iterations) {
  int n = 0;
  for (int i = 0; i < j->loads.n; i++)
    n += iterations + (j->loads.at[i] < to) - (j->loads.at[i] <= from);
  return n;
}

/* Whether a wait, some iterations after the first access, is for that. */
static bool ends(const Judge *j, const Pair *x, int i, int iterations, Way *way) {
  const WrittenWait *w = &j->waits.at[i];
  if (x->first->class != OP_CLASS_copy)
    return w->shared || (x->used != NODE_NONE && (iterations || j->places.at[i] > x->used));
  int issued = loads_between(j, x->from, j->places.at[i], iterations);
  if (w->loads != WAITS_FOR_NONE && w->loads <= issued) return true;
  if (w->loads != WAITS_FOR_NONE) way->counts = w, way->enough = issued;
  if (w->meets != MEETS_none) way->issued = issued;
  return false;
}

static bool is_between(const Judge *j, const Pair *x, int i, int iterations) {
  int at = j->places.at[i];
  return (iterations > 0 || at > x->from) && (iterations < x->distance || at < x->to);
}

static Way follow(const Judge *j, const Pair *x) {
  Way way = {0};
  bool arrived = false;
  for (int k = 0; k <= x->distance; k++)
    for (int i = 0; i < j->waits.n; i++) {
      const WrittenWait *w = &j->waits.at[i];
      if (!w->type || !is_between(j, x, i, k)) continue;
      way.ended = way.ended || ends(j, x, i, k, &way);
      if (w->id > 0) continue; /* some of the waves */
      if (w->meets == MEETS_signal) arrived = way.ended;
      if (w->meets == MEETS_all || w->meets == MEETS_await) way.last = w;
      way.met += w->meets == MEETS_all ? way.ended : w->meets == MEETS_await && arrived;
      if (w->meets == MEETS_await) arrived = false;
    }
  return way;
}

static int meetings_needed(const Judge *j) { return j->staggered ? 2 : 1; }

static bool is_served(const Judge *j, const Pair *x) {
  return follow(j, x).met >= meetings_needed(j);
}

/* How many pairs are in order. */
static int count_served(const Judge *j) {
  int n = 0;
  for (int i = 0; i < j->pairs.n; i++) n += is_served(j, &j->pairs.at[i]);
  return n;
}

/* The same with another wait in place of number i. */
static bool would_do(Judge *j, int i, WrittenWait other) {
  WrittenWait w = j->waits.at[i];
  int before = count_served(j);
  j->waits.at[i] = other;
  bool same = count_served(j) == before;
  j->waits.at[i] = w;
  return same;
}

/* ---- the remark ---- */

static Diag *remark(const Judge *j, Diag *d) {
  if (d) return d;
  return diag_add(diags_of(j->c), DIAG_R0619, j->c->at,
                  "barriers of the schedule `%s` are not those that the loop `%s` needs",
                  j->c->name, schedule_loop_name(j->c->arena, j->loop));
}

/* Pairs that are not in order might be, if something on their way was stronger. */
static bool is_disputed(const Judge *j, int i) {
  for (int n = 0; n < j->pairs.n; n++) {
    const Pair *x = &j->pairs.at[n];
    for (int k = 0; k <= x->distance; k++)
      if (is_between(j, x, i, k) && !is_served(j, x)) return true;
  }
  return false;
}

/* The largest count of loads with which the loop is still in order; `most`: any. */
static int most_loads(Judge *j, int i, int most) {
  WrittenWait weaker = j->waits.at[i];
  weaker.loads = most;
  if (would_do(j, i, weaker)) return most;
  for (weaker.loads = j->waits.at[i].loads; would_do(j, i, weaker);) weaker.loads++;
  return weaker.loads - 1;
}

static const char *find_fewer_loads(Judge *j, int i, WrittenWait *weaker) {
  const WrittenWait *w = &j->waits.at[i];
  int most = loads_between(j, 0, 0, j->p->depth + 1);
  if (w->loads == WAITS_FOR_NONE || w->loads >= most) return NULL;
  weaker->loads = most_loads(j, i, most);
  if (weaker->loads == w->loads) return NULL;
  if (weaker->loads < most)
    return arena_printf(j->c->arena,
                        "needless: load=%d of this %s is stricter than needed; load=%d is enough",
                        w->loads, w->type, weaker->loads);
  weaker->loads = WAITS_FOR_NONE;
  return arena_printf(j->c->arena, "needless: this %s need not wait for loads", w->type);
}

/* What a wait or barrier does for nothing, and one that does not; NULL: it does nothing for nothing. */
static const char *find_excess(Judge *j, int i, WrittenWait *weaker) {
  const WrittenWait *w = &j->waits.at[i];
  bool split = w->meets == MEETS_signal || w->meets == MEETS_await;
  bool turns = j->staggered && w->meets != MEETS_none;
  *weaker = (WrittenWait){.type = NULL};
  if (is_disputed(j, i)) return NULL;
  if (!split && !turns && would_do(j, i, *weaker))
    return arena_printf(j->c->arena, "needless: without this %s all accesses are in order",
                        w->type);
  *weaker = *w, weaker->shared = false;
  if (w->shared && would_do(j, i, *weaker))
    return arena_printf(j->c->arena,
                        "needless: this %s need not wait for accesses to shared memory", w->type);
  *weaker = *w;
  return find_fewer_loads(j, i, weaker);
}

static Diag *say_needless(Judge *j, Diag *d) {
  for (int i = j->waits.n - 1; i >= 0; i--) {
    WrittenWait weaker;
    const char *excess = find_excess(j, i, &weaker);
    if (!excess) continue;
    d = remark(j, d);
    diag_note(diags_of(j->c), d, j->waits.at[i].at, "%s", excess);
    j->waits.at[i] = weaker;
  }
  return d;
}

/* Why a pair is not in order. */
static const char *find_lack(const Judge *j, const Pair *x, const Way *way) {
  Arena *a = j->c->arena;
  const char *first = construct_plain_name(j->c, x->first),
             *second = construct_plain_name(j->c, x->second);
  if (!way->last)
    return arena_printf(a, "missing: there is no barrier between `%s` and `%s`", first, second);
  if (way->met)
    return arena_printf(a,
                        "too weak: half of the waves is one barrier behind, so two barriers must "
                        "come between a wait for `%s` and `%s`, not %d",
                        first, second, way->met);
  if (way->ended)
    return arena_printf(a, "too weak: no barrier comes between a wait for `%s` and `%s`", first,
                        second);
  if (way->counts)
    return arena_printf(
        a,
        "too weak: between `%s` and `%s`, load=%d of a %s leaves the copy in flight; "
        "load=%d does not",
        first, second, way->counts->loads, way->counts->type, way->enough);
  if (x->first->class == OP_CLASS_copy)
    return arena_printf(a,
                        "too weak: between `%s` and `%s`, a %s does not wait for copies; "
                        "MemoryCounterWaitBarrier(load=%d) does",
                        first, second, way->last->type, way->issued);
  return arena_printf(a,
                      "too weak: between `%s` and `%s`, a %s does not wait for accesses to shared "
                      "memory; a SharedMemoryBarrier does",
                      first, second, way->last->type);
}

static Diag *say_weak(const Judge *j, Diag *d) {
  for (int i = 0; i < j->pairs.n; i++) {
    const Pair *x = &j->pairs.at[i];
    Way way = follow(j, x);
    if (way.met >= meetings_needed(j)) continue;
    const WrittenWait *at = way.counts && !way.ended ? way.counts : way.last;
    d = remark(j, d);
    diag_note(diags_of(j->c), d, at ? at->at : x->second->placed, "%s", find_lack(j, x, &way));
  }
  return d;
}

static bool is_staggered(const Construct *c, const Op *loop) {
  for (int i = 0; i < c->staggers.n; i++)
    if (c->staggers.at[i].loop == loop) return true;
  return false;
}

void construct_judge_barriers(Construct *c, const PipelineCall *p) {
  Judge j = {.c = c, .p = p, .loop = c->nodes.at[p->loop].op};
  j.staggered = is_staggered(c, j.loop);
  find_waits(&j);
  find_loads(&j);
  if (!j.waits.n || c->unjudged) return;
  find_pairs(&j);
  Diag *d = say_weak(&j, NULL);
  d = say_needless(&j, d);
  if (d) diag_hint(diags_of(c), d, "leave barriers out: those that are needed are derived");
}
