/* stages_order.c: see stages_order.h. */
#include "transform/stages/stages_order.h"

#include <string.h>

#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "transform/stages/stages_lead.h"

typedef struct Body {
  Kernel *k;
  Arena *arena;
  const MemoryUses *m;
  StagedLoop *l;
  int n;
  Op **ops;              /* that stay in the loop, without its yield */
  const StagedPin **pin; /* by place in `ops`; NULL: no row places it */
  int *rank;             /* in the `order` row; -1: it does not list it */
  int *cycle;            /* given, or derived */
  bool *uses;            /* [from * n + to]: `to` uses what `from` computes or writes */
  bool listed;           /* `follows` has the order of the row, too */
  bool *follows;         /* the same or another reason for which `to` comes after `from` */
} Body;

static int place_of(const Body *b, const Op *op) {
  for (int i = 0; op && i < b->n; i++)
    if (b->ops[i] == op) return i;
  return -1;
}

static int lead_at(const Body *b, int i) { return staged_lead(b->l, b->ops[i]); }

static void add_edge(const Body *b, bool *edges, int from, int to) {
  if (from >= 0 && from != to) edges[from * b->n + to] = true;
}

/* ---- dependences ---- */

/* The op that makes the value of `later` iterations later in the same run of the body; NULL: it was
 * made before. */
static const Op *maker_of(const Body *b, const Value *v, int later) {
  const Region *body = b->l->loop->body;
  for (; v->owner == body && later > 0; later--) v = body->last->args[v->index];
  if (!v->def || v->def->parent != body || staged_lead(b->l, v->def) != later) return NULL;
  return v->def;
}

static void add_values(Body *b, int to) {
  const Op *top = b->ops[to];
  for (const Op *op = top; op && op_is_inside(op, top); op = ir_next(op))
    for (int i = 0; i < op->nargs; i++)
      add_edge(b, b->uses, place_of(b, maker_of(b, op->args[i], lead_at(b, to))), to);
}

static void add_accesses(Body *b, const MemoryUse *first, const MemoryUse *second) {
  const Region *body = b->l->loop->body;
  int from = place_of(b, op_ancestor_in(first->op, body));
  int to = place_of(b, op_ancestor_in(second->op, body));
  if (from < 0 || to <= from || lead_at(b, from) != lead_at(b, to)) return;
  if (first->how == TOUCH_READ && second->how == TOUCH_READ) return;
  if (!uses_overlap(b->m, first, second)) return;
  add_edge(b, first->how != TOUCH_READ && second->how == TOUCH_READ ? b->uses : b->follows, from,
           to);
}

/* Barriers, hints, regions and what writes to arguments keep their order; of the first two, no access
 * to memory moves past them. */
static bool is_fence(const Op *op, bool *all) {
  *all = op_info[op->kind].flags & OPF_SYNC;
  const Value *written = memory_written(op);
  return !op_is_private(op) && (!written || !memory_is_scratch(written));
}

static void add_fences(Body *b, int i, int j) {
  bool all, others;
  bool first = is_fence(b->ops[i], &all), second = is_fence(b->ops[j], &others);
  bool pure = op_is_pure(b->ops[i]) || op_is_pure(b->ops[j]);
  if ((first && second) || (!pure && (all || others))) add_edge(b, b->follows, i, j);
}

/* What follows from it, directly or not. */
static void close(const Body *b, bool *edges) {
  for (int middle = 0; middle < b->n; middle++)
    for (int i = 0; i < b->n; i++)
      for (int j = 0; edges[i * b->n + middle] && j < b->n; j++)
        edges[i * b->n + j] |= edges[middle * b->n + j];
}

static void find_edges(Body *b) {
  for (int i = 0; i < b->n; i++) add_values(b, i);
  for (int i = 0; i < b->m->uses.n; i++)
    for (int j = 0; j < b->m->uses.n; j++) add_accesses(b, &b->m->uses.at[i], &b->m->uses.at[j]);
  for (int i = 0; i < b->n; i++)
    for (int j = i + 1; j < b->n; j++) add_fences(b, i, j);
  for (int i = 0; i < b->n * b->n; i++) b->follows[i] |= b->uses[i];
  close(b, b->uses);
  close(b, b->follows);
}

/* ---- cycles ---- */

static bool fail_order(const Body *b, int from, int to) {
  const StagedPin *first = b->pin[from], *later = b->pin[to];
  Diags *diags = &b->k->cx->diags;
  bool needs = b->uses[from * b->n + to], listed = !needs && b->listed;
  Diag *d = diag_add(
      diags, DIAG_E0620, later->row->at,
      listed  ? "`%s` is at cycle %d, before `%s` at cycle %d, which the `order` row puts first"
      : needs ? "`%s` is at cycle %d, before `%s` at cycle %d, whose result it needs"
              : "`%s` is at cycle %d, before `%s` at cycle %d, but accesses to the same "
                "memory, and ops with an effect, keep their order",
      later->name, later->to.cycle, first->name, first->to.cycle);
  diag_note(diags, d, first->op->at, "`%s` comes first", first->name);
  diag_note(diags, d, later->op->at, needs ? "`%s` uses what it computes" : "`%s` comes second",
            later->name);
  return diag_hint(diags, d, "place `%s` at cycle %d or later", later->name, first->to.cycle);
}

/* ---- the `order` row ---- */

static const char *listed_name(const Body *b, int i) { return b->l->listed.at[b->rank[i]].name; }

/* `to` is listed before `from`, which it follows. */
static bool fail_listed(const Body *b, int from, int to) {
  Diags *diags = &b->k->cx->diags;
  const char *first = listed_name(b, from), *later = listed_name(b, to);
  bool needs = b->uses[from * b->n + to];
  Diag *d = diag_add(diags, DIAG_E0620, b->l->order->at,
                     needs ? "`%s` is listed before `%s`, whose result it needs"
                           : "`%s` is listed before `%s`, but accesses to the same memory, and ops "
                             "with an effect, keep their order",
                     later, first);
  diag_note(diags, d, b->ops[from]->at, "`%s` comes first", first);
  diag_note(diags, d, b->ops[to]->at, needs ? "`%s` uses what it computes" : "`%s` comes second",
            later);
  return diag_hint(diags, d, "list `%s` after `%s`", later, first);
}

static bool fail_cycle(const Body *b, int first, int later) {
  Diags *diags = &b->k->cx->diags;
  const StagedPin *one = b->pin[first], *two = b->pin[later];
  Diag *d = diag_add(diags, DIAG_E0620, b->l->order->at,
                     "`%s` is listed before `%s`, but its cycle is later: %d after %d",
                     listed_name(b, first), listed_name(b, later), one->to.cycle, two->to.cycle);
  diag_note(diags, d, one->row->at, "at cycle %d", one->to.cycle);
  diag_note(diags, d, two->row->at, "at cycle %d", two->to.cycle);
  return diag_hint(diags, d, "list them in the order of their cycles");
}

static bool check_listed(const Body *b) {
  for (int i = 0; i < b->n; i++)
    for (int j = 0; j < b->n; j++) {
      if (b->rank[i] < 0 || b->rank[j] <= b->rank[i]) continue;
      if (b->follows[j * b->n + i]) return fail_listed(b, j, i);
      if (b->pin[i] && b->pin[j] && b->pin[i]->to.cycle > b->pin[j]->to.cycle)
        return fail_cycle(b, i, j);
    }
  return true;
}

/* The least rank of an op that uses its result; INT32_MAX: none is listed. */
static int rank_of_user(const Body *b, int i) {
  int least = INT32_MAX;
  for (int j = 0; j < b->n; j++)
    if (b->uses[i * b->n + j] && b->rank[j] >= 0 && b->rank[j] < least) least = b->rank[j];
  return least;
}

/* A tile that nothing fetches comes with what reads it. */
static void follow_user(Body *b, int i) {
  int rank = lead_is_left(b->ops[i]) && b->rank[i] < 0 ? rank_of_user(b, i) : INT32_MAX;
  for (int j = 0; rank < INT32_MAX && j < b->n; j++)
    if (b->rank[j] >= 0 && b->rank[j] < rank && !b->follows[i * b->n + j])
      add_edge(b, b->follows, j, i);
}

/* Each op that is listed follows those before it. */
static void follow_listed(Body *b) {
  for (int i = 0; i < b->n; i++) follow_user(b, i);
  for (int i = 0; i < b->n; i++)
    for (int j = 0; j < b->n; j++)
      if (b->rank[i] >= 0 && b->rank[j] > b->rank[i]) add_edge(b, b->follows, i, j);
  close(b, b->follows);
  b->listed = b->l->listed.n > 0;
}

static bool check_cycles(const Body *b) {
  for (int i = 0; i < b->n; i++)
    for (int j = 0; j < b->n; j++)
      if (b->follows[i * b->n + j] && b->pin[i] && b->pin[j] &&
          b->pin[i]->to.cycle > b->pin[j]->to.cycle)
        return fail_order(b, i, j);
  return true;
}

/* The cycle of the last op that it follows; -1: there is none. */
static int cycle_after(const Body *b, int i) {
  int last = -1;
  for (int j = 0; j < b->n; j++)
    if (b->follows[j * b->n + i] && b->pin[j] && b->pin[j]->to.cycle > last)
      last = b->pin[j]->to.cycle;
  return last;
}

/* The cycle of the first op that uses it. */
static int cycle_before(const Body *b, int i) {
  int first = INT32_MAX;
  for (int j = 0; j < b->n; j++)
    if (b->uses[i * b->n + j] && b->pin[j] && b->pin[j]->to.cycle < first)
      first = b->pin[j]->to.cycle;
  return first == INT32_MAX ? cycle_after(b, i) : first;
}

static void find_cycles(Body *b) {
  for (int i = 0; i < b->n; i++)
    b->cycle[i] = b->pin[i]       ? b->pin[i]->to.cycle
                  : lead_at(b, i) ? cycle_before(b, i)
                                  : cycle_after(b, i);
}

/* ---- the order ---- */

static bool is_ready(const Body *b, const bool *done, int i) {
  for (int j = 0; j < b->n; j++)
    if (b->follows[j * b->n + i] && !done[j]) return false;
  return !done[i];
}

/* Which of two ops goes first; those that were written first are tried first. */
static bool precedes(const Body *b, int i, int j) {
  if (b->cycle[i] != b->cycle[j]) return b->cycle[i] < b->cycle[j];
  return lead_at(b, i) < lead_at(b, j);
}

static void reorder(Body *b) {
  bool *done = ARENA_ARRAY(b->arena, bool, b->n);
  Op *yield = b->l->loop->body->last;
  for (int turn = 0; turn < b->n; turn++) {
    int next = -1;
    for (int i = 0; i < b->n; i++)
      if (is_ready(b, done, i) && (next < 0 || precedes(b, i, next))) next = i;
    done[next] = true;
    ir_remove(b->ops[next]);
    ir_insert_before(yield, b->ops[next]);
  }
}

static const StagedPin *pin_of(const StagedLoop *l, const Op *op) {
  for (int i = 0; i < l->pins.n; i++)
    if (op_ancestor_in(l->pins.at[i].op, l->loop->body) == op && !lead_is_left(op))
      return &l->pins.at[i];
  return NULL;
}

static int rank_of(const StagedLoop *l, const Op *op) {
  for (int i = 0; i < l->listed.n; i++)
    if (op_ancestor_in(l->listed.at[i].op, l->loop->body) == op) return i;
  return -1;
}

static void list_ops(Body *b) {
  const Region *body = b->l->loop->body;
  int all = 0;
  for (const Op *op = body->first; op; op = op->next) all++;
  b->ops = ARENA_ARRAY(b->arena, Op *, all);
  b->pin = ARENA_ARRAY(b->arena, const StagedPin *, all);
  b->rank = ARENA_ARRAY(b->arena, int, all);
  for (Op *op = body->first; op != body->last; op = op->next) {
    if (staged_copies(b->l, op)) continue;
    b->pin[b->n] = pin_of(b->l, op);
    b->rank[b->n] = rank_of(b->l, op);
    b->ops[b->n++] = op;
  }
  b->cycle = ARENA_ARRAY(b->arena, int, b->n);
  b->uses = ARENA_ARRAY(b->arena, bool, b->n * b->n);
  b->follows = ARENA_ARRAY(b->arena, bool, b->n * b->n);
}

bool order_body(Kernel *k, Arena *a, const MemoryUses *m, StagedLoop *l) {
  Body b = {.k = k, .arena = a, .m = m, .l = l};
  list_ops(&b);
  find_edges(&b);
  if (!check_listed(&b) || !check_cycles(&b)) return false;
  follow_listed(&b);
  if (!check_cycles(&b)) return false;
  find_cycles(&b);
  reorder(&b);
  return true;
}
