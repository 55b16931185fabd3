/* construct_order.c: the order of nodes in an iteration, and what is inserted between them. */
#include <string.h>

#include "construct/construct.h"

static Diags *diags_of(const Construct *c) { return &c->k->cx->diags; }

/* ---- interleaving ---- */

typedef struct Mix {
  const Interleaved *groups;
  int n, *used;
  NodeVec out;
} Mix;

static bool is_ready(const Mix *m, const Interleaved *g) {
  for (int i = 0; i < g->after.n; i++)
    if (m->used[g->after.at[i]] < m->groups[g->after.at[i]].ops.n) return false;
  return true;
}

static void take(Construct *c, Mix *m, int g) {
  vec_push(c->arena, &m->out, m->groups[g].ops.at[m->used[g]++]);
}

static bool check_groups(Construct *c, const Interleaved *groups, int n, Span at) {
  for (int i = 0; i < n; i++) {
    if (groups[i].interval < 1)
      return diag_fail(diags_of(c), DIAG_E0218, at,
                       "the interval of group %d is %d: it must be "
                       "at least 1",
                       i, groups[i].interval);
    for (int j = 0; j < groups[i].after.n; j++)
      if (groups[i].after.at[j] < 0 || groups[i].after.at[j] >= n)
        return diag_fail(diags_of(c), DIAG_E0218, at,
                         "group %d starts after group %d, which does not exist: there are %d", i,
                         groups[i].after.at[j], n);
  }
  return true;
}

bool construct_interleave(Construct *c, Nodes base, const Interleaved *groups, int n, Span at,
                          Nodes *out) {
  if (!check_groups(c, groups, n, at)) return false;
  Mix m = {.groups = groups, .n = n, .used = ARENA_ARRAY(c->arena, int, n + 1)};
  for (int i = 0; i < base.n; i++) {
    vec_push(c->arena, &m.out, base.at[i]);
    for (int g = 0; g < n; g++) {
      int past = i - groups[g].offset;
      if (past >= 0 && past % groups[g].interval == 0 && m.used[g] < groups[g].ops.n &&
          is_ready(&m, &groups[g]))
        take(c, &m, g);
    }
  }
  for (int g = 0; g < n; g++)
    while (m.used[g] < groups[g].ops.n) take(c, &m, g);
  *out = (Nodes){m.out.at, m.out.n};
  return true;
}

/* ---- reordering ---- */

static bool fail_order(Construct *c, int first, int later, Span at) {
  const Node *f = &c->nodes.at[first], *l = &c->nodes.at[later];
  Diag *d = diag_add(diags_of(c), DIAG_E0620, at, "`%s` comes before `%s`, which it needs",
                     construct_name(c, later), construct_name(c, first));
  diag_note(diags_of(c), d, f->op->at, "computes `%s`", construct_plain_name(c, f));
  diag_note(diags_of(c), d, l->op->at, "uses it");
  return diag_hint(diags_of(c), d,
                   "put `%s` before `%s` in the clusters, or place them in "
                   "different stages",
                   construct_plain_name(c, f), construct_plain_name(c, l));
}

/* Both are of the same iteration. */
static bool go_together(const Node *a, const Node *b) {
  return a->segment == b->segment && a->flight == b->flight && a->unrolled == b->unrolled;
}

static bool check_order(Construct *c, Nodes order, Span at) {
  for (int i = 0; i < order.n; i++)
    for (int j = i + 1; j < order.n; j++) {
      const Node *early = &c->nodes.at[order.at[i]], *late = &c->nodes.at[order.at[j]];
      if (go_together(early, late) && construct_depends(c, early, late))
        return fail_order(c, order.at[j], order.at[i], at);
    }
  return true;
}

/* A node that is mentioned twice keeps its first place. */
bool construct_reorder(Construct *c, Nodes order, Span at) {
  if (!check_order(c, order, at)) return false;
  for (int i = 0; i < order.n; i++) c->nodes.at[order.at[i]].rank = NODE_NONE;
  for (int i = 0; i < order.n; i++) {
    Node *node = &c->nodes.at[order.at[i]];
    if (node->rank == NODE_NONE) node->rank = i;
  }
  return true;
}

/* ---- what is inserted ---- */

typedef struct HintRow {
  const char *name, *one, *many, *why;
} HintRow;

#define HINT_GROUP(name, one, many, why)                                                           \
  static const char *const name##_one = one, *const name##_many = many, *const name##_why = why;
#include "construct/construct.def"

void construct_drop(Construct *c, const char *what, const char *why, Span at) {
  for (int i = 0; i < c->dropped.n; i++)
    if (strcmp(c->dropped.at[i].what, what) == 0) {
      c->dropped.at[i].n++;
      return;
    }
  vec_push(c->arena, &c->dropped, ((Dropped){what, why, 1, at}));
}

static bool drop_hint(Construct *c, const char *type, Span at, bool judged) {
  const HintRow rows[] = {
#define HINT(name, group) {#name, group##_one, group##_many, group##_why},
#include "construct/construct.def"
  };
  const char *names[WV_LEN(rows)];
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    names[i] = rows[i].name;
    if (strcmp(rows[i].name, type) != 0) continue;
    c->unjudged |= rows[i].many == wait_many && !judged;
    construct_drop(c, rows[i].many, rows[i].why, at);
    return true;
  }
  Diag *d = diag_add(diags_of(c), DIAG_E0218, at, "`%s` is not an op that schedules insert", type);
  const char *near = diag_nearest(type, names, WV_LEN(rows));
  return near && diag_hint(diags_of(c), d, "did you mean `%s`?", near);
}

/* A scheduling barrier that nothing crosses, beside one of the nodes. */
static bool note_fence(Construct *c, const ClusterItem *item, int before, int after, Span at) {
  bool is = item->node == NODE_NONE && strcmp(item->type, "SchedulingBarrier") == 0;
  bool whole = !item->given || !*item->given || strcmp(item->given, "0") == 0;
  if (!is || !whole || !construct_has_prio(c) || (before == NODE_NONE && after == NODE_NONE))
    return false;
  WrittenFence f = {before == NODE_NONE ? after : before, before == NODE_NONE, at};
  vec_push(c->arena, &c->fences, f);
  return true;
}

static bool fences_cluster(Construct *c, const ClusterItem *items, int n, int i, Span at) {
  int before = NODE_NONE, after = NODE_NONE;
  for (int j = i + 1; j < n && before == NODE_NONE; j++) before = items[j].node;
  for (int j = i - 1; j >= 0 && after == NODE_NONE; j--) after = items[j].node;
  return note_fence(c, &items[i], before, after, at);
}

void construct_drop_fence(Construct *c, const WrittenFence *f, const char *why) {
  construct_drop(c, fence_many, why, f->at);
}

bool construct_insert(Construct *c, const ClusterItem *item, const char *where, Nodes target,
                      Span at) {
  bool beside = where && target.n && !construct_is_loop(c, target);
  if (beside && strcmp(where, "before") == 0 && note_fence(c, item, target.at[0], NODE_NONE, at))
    return true;
  if (beside && strcmp(where, "after") == 0 && note_fence(c, item, NODE_NONE, target.at[0], at))
    return true;
  return drop_hint(c, item->type, at, construct_note_inserted(c, item, where, target, at));
}

bool construct_has_prio(const Construct *c) { return c->target && c->target->vendor == VENDOR_AMD; }

bool construct_cluster(Construct *c, const ClusterItem *items, int n, Span at) {
  int prio = 0;
  for (int i = 0; i < n; i++) {
    const ClusterItem *item = &items[i];
    bool sets = item->node == NODE_NONE && strcmp(item->type, "SetWavePrio") == 0;
    if (sets && (item->value < 0 || item->value > PRIO_MOST))
      return diag_fail(diags_of(c), DIAG_E0218, at, "priorities are 0 to %d, not %d", PRIO_MOST,
                       item->value);
    if (sets) prio = item->value;
    if (item->node != NODE_NONE) c->nodes.at[item->node].prio = prio;
    else if (fences_cluster(c, items, n, i, at)) continue;
    else if (!(sets && construct_has_prio(c)) &&
             !drop_hint(c, item->type, at, construct_note_wait(c, items, n, i, at)))
      return false;
  }
  return true;
}

/* Elsewhere two workgroups on one processor overlap, or `roles` do the same. */
bool construct_stagger(Construct *c, Nodes loop, Span at) {
  const Constraint *machine = kernel_constraint(c->k, CONSTRAINT_machine, NULL);
  if (!construct_is_loop(c, loop))
    return diag_fail(diags_of(c), DIAG_E0218, at, "`stagger` takes one loop, not %d nodes", loop.n);
  if (machine && machine->machine.waves % 2) {
    Diag *d = diag_add(diags_of(c), DIAG_E0218, at,
                       "`stagger` divides the waves in halves, but a workgroup has %d",
                       machine->machine.waves);
    return diag_hint(diags_of(c), d, "leave it out, or divide the tile among an even number");
  }
  if (c->target && c->target->vendor == VENDOR_AMD)
    vec_push(c->arena, &c->staggers, ((StaggerCall){c->nodes.at[loop.at[0]].op, at}));
  else
    construct_drop(c, CONSTRUCT_STAGGERED, "all waves of a workgroup run one program together", at);
  return true;
}
