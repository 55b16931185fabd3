/* sync: barriers where threads of a workgroup would meet in memory.
 *     copy %a, %s                             copy %a, %s
 *     %x = read %s                            barrier workgroup
 *                                  =>         %x = read %s
 * Two accesses of one memory need a barrier between them when one of them writes, or one is atomic
 * and the other is not: write and read, read and write, write and write, atomic and either.
 * Memories are allocations, with those whose bytes they share, and arguments. An access by name
 * meets itself in the next iteration at the same elements in the same threads, which is in order.
 *
 * The state at a point is the set of accesses since the last barrier on any path to it: a loop's
 * body may follow itself, and a loop or conditional may not run at all. A pair that can meet gets a
 * barrier in front of the later one, in the innermost region around both, so that it is not
 * repeated more often than the pair. Afterwards each barrier is taken away again unless a pair then
 * meets: none is left that could be. Branches of which only one is taken do not follow each other.
 * The author's barriers that order memory (shared_barrier, barrier) count, if all waves meet there.
 * Needs memory_uses, distribute. */
#include "analysis/memory_uses.h"
#include "transform/pass.h"

#include <string.h>

typedef struct Sync {
  Kernel *k;
  Arena *arena;
  const MemoryUses *m;
  const char *scope;                /* who must meet */
  bool *barrier;                    /* by op id: one stands in front of it */
  int words;                        /* of a set of uses */
  const MemoryUse *earlier, *later; /* a pair that meets, when one was looked for and found */
} Sync;

/* ---- pairs ---- */

static const Op *ancestor_in(const Op *op, const Region *r) {
  while (op && op->parent != r) op = op->parent->owner;
  return op;
}

static const Region *common_region(const Op *a, const Op *b) {
  const Region *r = a->parent;
  while (!ancestor_in(b, r)) r = r->owner->parent;
  return r;
}

static bool is_in_loop(const Region *r) {
  for (; r->owner; r = r->owner->parent)
    if (r->owner->kind != OP_if) return true;
  return false;
}

/* Each stands in a conditional, and the one's condition is the other's opposite. In a loop both
 * could be taken, one after the other. */
static bool is_exclusive(const Sync *s, const Op *a, const Op *b) {
  const Region *r = common_region(a, b);
  const Op *x = ancestor_in(a, r), *y = ancestor_in(b, r);
  if (x == y || x->kind != OP_if || y->kind != OP_if || is_in_loop(r)) return false;
  const Attr *p = op_attr(x, ATTR_expr), *q = op_attr(y, ATTR_expr);
  return p && q && sym_not(s->k->cx->sym, p->sym) == q->sym;
}

static bool meets(const Sync *s, const MemoryUse *a, const MemoryUse *b) {
  bool writes = (a->how | b->how) & TOUCH_WRITE, mixed = a->how != b->how;
  bool atomic = (a->how | b->how) & TOUCH_ATOMIC;
  if (!writes && !(mixed && atomic)) return false;
  if (a == b && a->by_name) return false;
  return memories_overlap(s->m, a->memory, b->memory) && !is_exclusive(s, a->op, b->op);
}

/* ---- paths ---- */

typedef uint64_t *Set; /* of uses, by number */

static Set set_copy(Sync *s, const uint64_t *from) {
  return arena_copy(s->arena, from, sizeof *from * (size_t)s->words);
}

/* True when `to` grew. */
static bool set_join(const Sync *s, Set to, const uint64_t *from) {
  bool grew = false;
  for (int i = 0; i < s->words; i++) {
    grew |= (from[i] & ~to[i]) != 0;
    to[i] |= from[i];
  }
  return grew;
}

static void flow_use(Sync *s, Set since, int number) {
  const MemoryUse *use = &s->m->uses.at[number];
  for (int i = 0; !s->later && i < s->m->uses.n; i++)
    if (since[i / 64] >> (i % 64) & 1 && meets(s, &s->m->uses.at[i], use))
      s->earlier = &s->m->uses.at[i], s->later = use;
}

/* All uses of an op happen at once: a copy does not meet itself. */
static void flow_op(Sync *s, Set since, const Op *op) {
  for (int i = 0; i < s->m->uses.n; i++)
    if (s->m->uses.at[i].op == op) flow_use(s, since, i);
  for (int i = 0; i < s->m->uses.n; i++)
    if (s->m->uses.at[i].op == op) since[i / 64] |= UINT64_C(1) << (i % 64);
}

static bool orders_memory(const Sync *s, const Op *op) {
  if (op->kind != OP_barrier) return op->kind == OP_shared_barrier;
  const char *who = op_attr(op, ATTR_mode)->text;
  return strcmp(who, s->scope) == 0 || strcmp(who, "workgroup") == 0 || strcmp(who, "cluster") == 0;
}

static void flow_region(Sync *s, Set since, const Region *r);

/* The body follows what was before and, in a loop, itself. */
static void flow_body(Sync *s, Set since, const Op *op) {
  bool again;
  do {
    Set inside = set_copy(s, since);
    flow_region(s, inside, op->body);
    again = set_join(s, since, inside) && op->kind != OP_if;
  } while (again && !s->later);
}

static void flow_region(Sync *s, Set since, const Region *r) {
  for (const Op *op = r->first; op && !s->later; op = op->next) {
    if (s->barrier[op->id] || orders_memory(s, op))
      memset(since, 0, sizeof *since * (size_t)s->words);
    if (op->body) flow_body(s, since, op);
    else flow_op(s, since, op);
  }
}

static bool finds_pair(Sync *s) {
  ArenaMark mark = arena_mark(s->arena);
  s->earlier = s->later = NULL;
  flow_region(s, ARENA_ARRAY(s->arena, uint64_t, s->words), s->k->body);
  arena_rewind(s->arena, mark);
  return s->later != NULL;
}

/* ---- barriers ---- */

static void separate_pairs(Sync *s) {
  while (finds_pair(s)) {
    const Region *r = common_region(s->earlier->op, s->later->op);
    const Op *before = ancestor_in(s->later->op, r);
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

/* Who must meet: all waves of the machine or, before one was chosen, of the declaration. */
static const char *scope_of(const Kernel *k, const Distribution *d) {
  const Constraint *machine = kernel_constraint(k, CONSTRAINT_machine, NULL);
  if (machine) return machine->groups == 1 ? "wave" : "workgroup";
  for (int i = 0; i < 3; i++)
    if (d->waves[i] != sym_int(k->cx->sym, 1)) return "workgroup";
  return "wave";
}

static void insert_barriers(Sync *s) {
  for (Op *op = ir_first(s->k), *next; op; op = next) {
    next = ir_next(op);
    if (!s->barrier[op->id]) continue;
    Op *barrier = ir_op_new(s->k, OP_barrier, op->at, NULL, 0);
    op_set_attr(s->k, barrier,
                (Attr){.key = ATTR_mode, .text = intern(&s->k->cx->names, s->scope)});
    ir_insert_before(op, barrier);
  }
}

bool pass_sync(Kernel *k, PassCtx *cx) {
  Sync s = {.k = k, .arena = cx->scratch, .m = cx->facts.memory_uses};
  s.barrier = ARENA_ARRAY(cx->scratch, bool, k->nops);
  s.words = s.m->uses.n / 64 + 1;
  s.scope = scope_of(k, cx->facts.distribute);
  separate_pairs(&s);
  drop_needless(&s);
  insert_barriers(&s);
  return true;
}
