/* sync: inserts barriers where threads of a workgroup would conflict in memory.
 *
 *     copy %a, %s                             copy %a, %s
 *     %x = read %s                 =>         barrier workgroup
 *                                             %x = read %s
 *
 * Two accesses to one memory need a barrier between them if one of them writes, or one is atomic
 * and the other is not: write and read, read and write, write and write, atomic and either.
 * Memories are allocations, together with those whose bytes they share, and arguments. An access by
 * name touches, in the next iteration, the same elements in the same threads, which is in order.
 *
 * The state at a point is the set of accesses since the last barrier on any path to it: a loop's
 * body may follow itself, and a loop or conditional may not run at all. A conflicting pair gets a
 * barrier before the later access, in the innermost region around both, so that it is not executed
 * more often than the pair. Afterwards each barrier is removed again unless a pair then conflicts,
 * so no barrier is redundant. Branches that exclude each other do not follow each other. Accesses
 * to different slots of a ring do not conflict, nor do those of an argument by which each thread
 * reads and writes its own elements. A volatile write may be a flag: every thread's
 * writes to arguments come before it. The workgroups of a cluster meet before the first of them
 * writes to the memory of others. The author's barriers that order memory (shared_barrier,
 * barrier) count if all waves reach them. Loops that rows of a schedule pin are then proved to be in
 * order (schedule/proof/loop_proof.h). Needs memory_uses, standing, distribute, uniform. */
#include <string.h>

#include "analysis/access/in_bounds.h"
#include "analysis/memory_uses.h"
#include "analysis/uniform.h"
#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "ir/schedule/schedule.h"
#include "schedule/proof/loop_proof.h"
#include "transform/pass.h"

typedef struct Sync {
  Kernel *k;
  Arena *arena;
  const MemoryUses *m;
  const Uniformity *uniform;
  const Distribution *d;
  const SymFacts *facts;
  const Standing *standing;         /* at entry */
  const char *scope;                /* the threads that must synchronise */
  bool *barrier;                    /* by op id: there is a barrier before it */
  int words;                        /* of a set of uses */
  const MemoryUse *earlier, *later; /* a conflicting pair, if one was searched for and found */
  struct Passage *passages;         /* by op id: for loops, during the search */
  const int *first, *next; /* by op id: its first use; by use: the op's next one; -1: none */
  uint8_t *met;            /* for each When, by earlier and later use: an Answer */
} Sync;

typedef enum Answer { NOT_ASKED, NO, YES } Answer; /* whether two uses meet */

/* ---- slots of rings ----
 *
 * Two accesses to one ring do not conflict if their slots differ. A slot is an expression of loop
 * counters, so it matters when the earlier access was made: in this iteration of the loop around
 * the later one, in the previous one, or in any. */

typedef enum When { THIS_ITERATION, LAST_ITERATION, ANY_TIME, WHENS } When;

static const Op *loop_around(const Op *op) {
  const Op *loop = op->parent->owner;
  while (loop && loop->kind == OP_if) loop = loop->parent->owner;
  return loop;
}

/* Mod(x, n) and Mod(y, n) differ if x - y is a number that is not a multiple of n. */
static bool differ_by_remainder(SymCtx *cx, const Sym *a, const Sym *b) {
  int64_t n, m, by;
  if (sym_kind(a) != SYM_mod || sym_kind(b) != SYM_mod) return false;
  if (!sym_is_int(sym_arg(cx, a, 1), &n) || !sym_is_int(sym_arg(cx, b, 1), &m) || n != m || n < 1)
    return false;
  const Sym *step = sym_sub(cx, sym_arg(cx, a, 0), sym_arg(cx, b, 0));
  return step && sym_is_int(step, &by) && by % n != 0;
}

/* The slot of the earlier access, for any values of its loops' counters. */
static const Sym *at_any_time(const Sync *s, const Op *op, const Sym *slot) {
  int depth = 0;
  for (const Op *loop = loop_around(op); loop && slot; loop = loop_around(loop)) {
    SymBinding to = {ir_loop_counter(s->k, op_attr(loop, ATTR_axis)->sym),
                     ir_numbered_symbol(s->k->cx, "$earlier", depth++, true)};
    slot = sym_subst(s->k->cx->sym, slot, &to, 1);
  }
  return slot;
}

/* The slot of the later access, one iteration on; NULL: unknown. */
static const Sym *one_later(const Sync *s, const Op *op, const Sym *slot) {
  const Op *loop = loop_around(op);
  SymCtx *cx = s->k->cx->sym;
  if (!loop || loop->kind != OP_for) return NULL;
  const Sym *counter = ir_loop_counter(s->k, op_attr(loop, ATTR_axis)->sym);
  SymBinding to = {counter, sym_add(cx, counter, sym_int(cx, op_step(loop)))};
  return sym_subst(cx, slot, &to, 1);
}

static bool slots_differ(const Sync *s, const MemoryUse *a, const MemoryUse *b, When when) {
  const Op *alloc = s->m->memories.at[a->memory]->def;
  SymCtx *cx = s->k->cx->sym;
  if (a->memory != b->memory || !alloc || alloc_slots(alloc) < 2) return false;
  const Sym *x = a->slot ? a->slot : sym_int(cx, 0), *y = b->slot ? b->slot : sym_int(cx, 0);
  if (when == LAST_ITERATION) {
    const Sym *later = one_later(s, b->op, y);
    if (later) y = later;
    else when = ANY_TIME;
  }
  if (when == ANY_TIME) x = at_any_time(s, a->op, x);
  if (!x || !y) return false;
  return sym_equal(cx, s->facts, x, y) == SYM_NEVER || differ_by_remainder(cx, x, y);
}

/* Done by one thread, always the same one. */
static bool is_elected(const Op *op) {
  return op->kind == OP_mbar_init || op->kind == OP_mbar_inval || copy_barriers(op);
}

/* Each thread waits for its own copies, which always have the same elements. For boxes every thread
 * waits, in each iteration for those that fill its slot, so none is in flight after the loop. */
static bool is_awaited(const Op *a, const Op *b) {
  if (copy_barriers(a)) return true;
  return (a->kind == OP_async_wait || b->kind == OP_async_wait) &&
         (memory_is_ahead(a) || memory_is_ahead(b) || a->kind == b->kind);
}

/* The later one may be a flag that signals completion of the earlier one: for all threads, unless
 * only some reach it, which can signal only their own writes. */
static bool is_announced(const Sync *s, const MemoryUse *a, const MemoryUse *b) {
  bool flag = b->op->kind == OP_write && op_has(b->op, ATTR_volatile);
  if (!flag || a->op == b->op || !(a->how & TOUCH_WRITE)) return false;
  if (memory_is_scratch(s->m->memories.at[a->memory])) return false;
  if (memory_is_scratch(s->m->memories.at[b->memory])) return false;
  const Op *later = op_ancestor_in(b->op, region_around_both(a->op, b->op));
  return uniform_around(s->uniform, later).level <= UNIFORM_WORKGROUP;
}

/* Service waves, which execute ops with a role, are ordered with the others by the barriers of slots:
 * those that this pass inserts are for the waves that compute. */
static bool is_served(const Sync *s, const MemoryUse *use) { return op_is_served(s->k, use->op); }

/* Threads that work in place: each has its own elements of an argument. Positions in loops differ. */
static bool is_apart(const Sync *s, const MemoryUse *a, const MemoryUse *b) {
  if (a->memory != b->memory || memory_is_scratch(s->m->memories.at[a->memory])) return false;
  if (s->d->has_versions || loop_around(a->op) || loop_around(b->op)) return false;
  return access_is_apart(s->standing, a->op, b->op);
}

static bool meets(const Sync *s, const MemoryUse *a, const MemoryUse *b, When when) {
  bool writes = (a->how | b->how) & TOUCH_WRITE, mixed = a->how != b->how;
  bool atomic = (a->how | b->how) & TOUCH_ATOMIC;
  if (!writes && !(mixed && atomic)) return false;
  if (is_served(s, a) || is_served(s, b)) return false;
  if (is_announced(s, a, b)) return !op_excludes(s->k, a->op, b->op);
  if ((a == b && a->by_name) || is_awaited(a->op, b->op)) return false;
  if (is_elected(a->op) && is_elected(b->op)) return false;
  return uses_overlap(s->m, a, b) && !op_excludes(s->k, a->op, b->op) &&
         !slots_differ(s, a, b, when) && !is_apart(s, a, b);
}

/* The pairs are looked at again for each barrier. */
static bool meets_again(Sync *s, int a, int b, When when) {
  int n = s->m->uses.n;
  uint8_t *met = &s->met[((int)when * n + a) * n + b];
  if (*met == NOT_ASKED) *met = meets(s, &s->m->uses.at[a], &s->m->uses.at[b], when) ? YES : NO;
  return *met == YES;
}

static void number_uses(Sync *s) {
  int n = s->m->uses.n;
  int *first = ARENA_ARRAY(s->arena, int, s->k->nops), *next = ARENA_ARRAY(s->arena, int, n);
  for (int i = 0; i < s->k->nops; i++) first[i] = -1;
  for (int i = n - 1; i >= 0; i--) {
    int *head = &first[s->m->uses.at[i].op->id];
    next[i] = *head, *head = i;
  }
  s->first = first, s->next = next;
  s->met = ARENA_ARRAY(s->arena, uint8_t, WHENS * n * n);
}

/* ---- paths ---- */

typedef uint64_t *Set; /* of uses, by number, for each When */

/* A loop: the accesses that may have happened before its body, and after it. */
typedef struct Passage {
  Set entry, inside;
} Passage;

static size_t set_bytes(const Sync *s) { return sizeof(uint64_t) * (size_t)(s->words * WHENS); }

static Set set_copy(Sync *s, const uint64_t *from) {
  return arena_copy(s->arena, from, set_bytes(s));
}

/* True if `to` grew. */
static bool set_join(const Sync *s, Set to, const uint64_t *from) {
  bool grew = false;
  for (int i = 0; i < s->words * WHENS; i++) {
    grew |= (from[i] & ~to[i]) != 0;
    to[i] |= from[i];
  }
  return grew;
}

static void flow_use(Sync *s, Set since, int number) {
  for (int word = 0; word < s->words * WHENS; word++)
    for (uint64_t rest = since[word]; rest && !s->later; rest &= rest - 1) {
      int i = word % s->words * 64 + lowest_bit(rest);
      if (meets_again(s, i, number, (When)(word / s->words)))
        s->earlier = &s->m->uses.at[i], s->later = &s->m->uses.at[number];
    }
}

/* All accesses of an op happen at once: a copy does not conflict with itself. */
static void flow_op(Sync *s, Set since, const Op *op) {
  for (int i = s->first[op->id]; i >= 0; i = s->next[i]) flow_use(s, since, i);
  for (int i = s->first[op->id]; i >= 0; i = s->next[i]) since[i / 64] |= UINT64_C(1) << (i % 64);
}

static void flow_region(Sync *s, Set since, const Region *r);

static Set uses_of(const Sync *s, Set set, When when) { return set + (int)when * s->words; }

/* Moves accesses recorded as `from` to `to`, as seen from later. */
static void age(const Sync *s, Set set, When from, When to) {
  Set old = uses_of(s, set, from), new = uses_of(s, set, to);
  for (int i = 0; i < s->words; i++) new[i] |= old[i];
  memset(old, 0, sizeof *old * (size_t)s->words);
}

static void flow_if(Sync *s, Set since, const Op *op) {
  Set inside = set_copy(s, since);
  flow_region(s, inside, op->body);
  set_join(s, since, inside);
}

/* The loop is known to have no second iteration. */
static bool runs_once(const Sync *s, const Op *op) {
  const Sym *trips = op->kind == OP_for ? distribute_trips(s->d, op) : NULL;
  return trips && sym_range(s->k->cx->sym, s->facts, trips).hi <= op_step(op);
}

/* One pass over the body; true if another one would see more. */
static bool flow_body(Sync *s, Passage *p, const Op *op) {
  p->inside = set_copy(s, p->entry);
  flow_region(s, p->inside, op->body);
  if (runs_once(s, op)) return false;
  Set next = set_copy(s, p->inside);
  age(s, next, LAST_ITERATION, ANY_TIME);
  age(s, next, THIS_ITERATION, LAST_ITERATION);
  return set_join(s, p->entry, next);
}

/* The body follows what came before it and itself. What an outer loop brings the next time includes
 * what it brought before, so the state of the last visit is the starting point of this one, and
 * nothing is repeated if nothing is new: the work does not multiply with the nesting depth. */
static void flow_loop(Sync *s, Set since, const Op *op) {
  Passage *p = &s->passages[op->id];
  Set entry = set_copy(s, since);
  age(s, entry, LAST_ITERATION, ANY_TIME); /* of the loop around this one */
  bool again = !p->entry || set_join(s, p->entry, entry);
  if (!p->entry) p->entry = entry;
  while (again && !s->later) again = flow_body(s, p, op);
  Set out = set_copy(s, p->inside);
  age(s, out, THIS_ITERATION, ANY_TIME);
  age(s, out, LAST_ITERATION, ANY_TIME);
  set_join(s, since, out);
}

static void flow_region(Sync *s, Set since, const Region *r) {
  for (const Op *op = r->first; op && !s->later; op = op->next) {
    if (s->barrier[op->id] || memory_is_ordered_by(op, s->scope)) memset(since, 0, set_bytes(s));
    if (!op->body) flow_op(s, since, op);
    else if (op->kind == OP_if) flow_if(s, since, op);
    else flow_loop(s, since, op);
  }
}

static bool finds_pair(Sync *s) {
  ArenaMark mark = arena_mark(s->arena);
  s->earlier = s->later = NULL;
  s->passages = ARENA_ARRAY(s->arena, Passage, s->k->nops);
  flow_region(s, ARENA_ARRAY(s->arena, uint64_t, s->words * WHENS), s->k->body);
  arena_rewind(s->arena, mark);
  return s->later != NULL;
}

/* ---- barriers ---- */

/* Consecutive copies are issued together: what one of them waits for comes before all. */
static const Op *first_of_copies(const Op *later, const Op *earlier) {
  while (later->kind == OP_copy && later->prev && later->prev->kind == OP_copy &&
         later->prev != earlier)
    later = later->prev;
  return later;
}

static void separate_pairs(Sync *s) {
  while (finds_pair(s)) {
    const Region *r = region_around_both(s->earlier->op, s->later->op);
    const Op *before = first_of_copies(op_ancestor_in(s->later->op, r), s->earlier->op);
    WV_ASSERT(!s->barrier[before->id]);
    s->barrier[before->id] = true;
  }
}

static void drop_needless(Sync *s) {
  for (int i = s->k->nops - 1; i >= 0; i--) {
    if (!s->barrier[i]) continue;
    s->barrier[i] = false;
    s->barrier[i] = finds_pair(s);
  }
}

/* Which threads must synchronise: all waves of the machine or, before one was chosen, as
 * declared. */
static const char *scope_of(const PassCtx *cx) {
  const Distribution *d = cx->facts.distribute;
  if (cx->machine && cx->machine->cluster > 1) return "cluster";
  if (cx->machine) return cx->machine->waves == 1 ? "wave" : "workgroup";
  for (int i = 0; i < 3; i++)
    if (d->waves[i] != sym_int(d->k->cx->sym, 1)) return "workgroup";
  return "wave";
}

static void insert_barrier(Sync *s, Op *before) {
  Op *barrier = ir_insert(s->k, before, OP_barrier, before->at, NULL, 0, NULL);
  op_set_attr(s->k, barrier, (Attr){.key = ATTR_mode, .text = intern(&s->k->cx->names, s->scope)});
}

static void insert_barriers(Sync *s) {
  for (Op *op = ir_first(s->k), *next; op; op = next) {
    next = ir_next(op);
    if (s->barrier[op->id]) insert_barrier(s, op);
  }
}

/* Shared memory of another workgroup of a cluster exists once that has started. */
static void wait_for_peers(Sync *s) {
  Op *first = ir_first(s->k);
  while (first && !(first->kind == OP_write && op_peers(first) > 1)) first = ir_next(first);
  while (first && first->parent->owner) first = first->parent->owner;
  if (first) insert_barrier(s, first);
}

bool pass_sync(Kernel *k, PassCtx *cx) {
  Sync s = {.k = k, .arena = cx->scratch, .m = cx->facts.memory_uses};
  s.uniform = cx->facts.uniform;
  s.barrier = ARENA_ARRAY(cx->scratch, bool, k->nops);
  s.words = s.m->uses.n / 64 + 1;
  s.scope = scope_of(cx);
  s.d = cx->facts.distribute;
  s.facts = s.d->facts;
  s.standing = cx->facts.standing;
  number_uses(&s);
  separate_pairs(&s);
  drop_needless(&s);
  insert_barriers(&s);
  wait_for_peers(&s);
  return !kernel_has_schedule(k) || cx->unproved || loop_proof_check(s.d, s.m, cx->target);
}
