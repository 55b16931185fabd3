/* construct_entries.c: the ops of a loop and their parts, placed. See entries.h. */
#include <stdlib.h>

#include "construct/entries.h"
#include "ir/ops/access.h"

/* ---- collecting ---- */

/* A machine that copies without registers has no op that stores. */
static bool is_direct(const Op *op) {
  return op->kind == OP_copy && (copy_is_awaited(op) || copy_goes_by(op, "tma"));
}

OpClass entries_class(const Node *node) {
  if (!is_direct(node->op)) return node->class;
  return node->class == OP_CLASS_store ? OP_CLASS_COUNT : OP_CLASS_copy;
}

static bool has_parts(const Entry *e, const Division *by, const Node *node) {
  for (int i = 0; i < node->nparts; i++)
    if (e->node.parts[i].at != entries_part(by, node, i).at) return false;
  return true;
}

static Entry *find_entry(const Rows *r, const Node *node, OpClass class) {
  const Division *by = entries_division(r, node->op, class);
  for (int i = 0; by && i < r->entries.n; i++) {
    Entry *e = &r->entries.at[i];
    if (e->node.op == node->op && e->node.class == class && has_parts(e, by, node)) return e;
  }
  return NULL;
}

const Entry *entries_with(const Rows *r, const Node *node) {
  return entries_have(r, node) ? find_entry(r, node, entries_class(node)) : NULL;
}

static Entry *entry_of(Rows *r, const Node *node, OpClass class) {
  const Division *by = entries_division(r, node->op, class);
  Entry *found = find_entry(r, node, class);
  if (found) return found;
  Entry made = {.node = *node, .first = NODE_NONE};
  made.node.class = class;
  for (int i = 0; i < node->nparts; i++) made.node.parts[i] = entries_part(by, node, i);
  vec_push(r->c->arena, &r->entries, made);
  return &r->entries.at[r->entries.n - 1];
}

static void add_node(Rows *r, const Node *node) {
  OpClass class = entries_class(node);
  if (class == OP_CLASS_COUNT) {
    construct_drop(r->c,
                   arena_printf(r->c->arena, "the store of `%s`",
                                schedule_plain_name(r->c->arena, construct_plain_name(r->c, node))),
                   "it is copied without registers", node->placed);
    return;
  }
  Entry *e = entry_of(r, node, class);
  if (node->prio > e->prio) e->prio = node->prio;
  if (node->stage > e->node.stage)
    e->node.stage = node->stage, e->node.cycle = node->cycle, e->node.placed = node->placed;
  if (node->rank == NODE_NONE) return;
  e->listed = true;
  if (e->first == NODE_NONE || node->rank < e->first) e->first = node->rank;
}

void entries_collect(Rows *r) {
  entries_divide(r);
  for (int i = 0; i < r->c->nodes.n; i++)
    if (entries_have(r, &r->c->nodes.at[i])) add_node(r, &r->c->nodes.at[i]);
}

const Entry *entries_of(const Rows *r, const Op *op, OpClass class) {
  const Entry *found = NULL;
  for (int i = 0; i < r->entries.n; i++) {
    const Entry *e = &r->entries.at[i];
    if (e->node.op == op && e->node.class == class && (!found || e->node.stage > found->node.stage))
      found = e;
  }
  return found;
}

/* ---- the order ---- */

static bool needs(const Rows *r, const Entry *later, const Entry *first) {
  return later->node.stage == first->node.stage &&
         construct_depends(r->c, &later->node, &first->node);
}

/* Some instructions of an op may come before some of another that it needs; what is placed as a whole
 * cannot. What the function does not mention comes as early as what it needs allows. */
static bool move(Entry *first, Entry *later) {
  if (later->listed && first->listed && first->first > later->first)
    return first->first = later->first, true;
  if (!later->listed && first->first > later->first) return later->first = first->first, true;
  return false;
}

static void settle(Rows *r) {
  bool moved = true;
  for (int round = 0; moved && round < r->entries.n; round++) {
    moved = false;
    for (int i = 0; i < r->entries.n; i++)
      for (int j = 0; j < r->entries.n; j++)
        if (i != j && needs(r, &r->entries.at[j], &r->entries.at[i]))
          moved |= move(&r->entries.at[i], &r->entries.at[j]);
  }
}

/* By the order, or else by cycles, of which older iterations come first; then as they were written. */
static int by_order(const void *x, const void *y) {
  const Entry *a = *(const Entry *const *)x, *b = *(const Entry *const *)y;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  if (a->node.cycle != b->node.cycle) return a->node.cycle < b->node.cycle ? -1 : 1;
  if (a->node.stage != b->node.stage) return a->node.stage > b->node.stage ? -1 : 1;
  return a < b ? -1 : a > b;
}

const Entry **entries_sorted(const Rows *r) {
  const Entry **sorted = ARENA_ARRAY(r->c->arena, const Entry *, r->entries.n + 1);
  for (int i = 0; i < r->entries.n; i++) sorted[i] = &r->entries.at[i];
  qsort(sorted, (size_t)r->entries.n, sizeof *sorted, by_order);
  return sorted;
}

void entries_number(Rows *r) {
  int cycle = 0;
  r->interval = r->p->interval;
  if (!r->ordered) return;
  settle(r);
  for (int i = 0; i < r->entries.n; i++) r->entries.at[i].node.cycle = 0;
  const Entry **sorted = entries_sorted(r);
  for (int i = 0; i < r->entries.n; i++) {
    const Node *node = &sorted[i]->node, *before = i ? &sorted[i - 1]->node : node;
    if (before->class != node->class || before->stage != node->stage) cycle++;
    r->entries.at[sorted[i] - r->entries.at].node.cycle = cycle;
  }
  r->interval = cycle + 1;
}
