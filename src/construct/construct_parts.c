/* construct_parts.c: how few parts of an op say where its instructions are. See entries.h. */
#include <stdlib.h>
#include <string.h>

#include "anchors/anchors.h"
#include "construct/entries.h"
#include "ir/ops/access.h"
#include "sym/rational.h"

/* The instructions of an op. A run is a sequence of them between other ops. */
typedef struct Own {
  Rows *r;
  Division *by;
  const Node **at; /* in their usual order */
  int n;
  const int *place; /* by node: its number in the order of all of them */
  int *run;         /* by instruction */
  bool *usual;      /* by run: its instructions are in their usual order */
} Own;

bool entries_have(const Rows *r, const Node *node) {
  return node->stage != NODE_NONE && node->segment == SEGMENT_kernel && !node->unrolled &&
         construct_loop(node) == r->loop;
}

/* ---- the order of all instructions ---- */

static int by_place(const void *x, const void *y) {
  const Node *a = *(const Node *const *)x, *b = *(const Node *const *)y;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return a < b ? -1 : a > b;
}

/* Instructions without a rank are nowhere: NODE_NONE. */
static const int *places(const Rows *r) {
  const Construct *c = r->c;
  const Node **sorted = ARENA_ARRAY(c->arena, const Node *, c->nodes.n + 1);
  int *place = ARENA_ARRAY(c->arena, int, c->nodes.n + 1), n = 0;
  for (int i = 0; i < c->nodes.n; i++) {
    place[i] = NODE_NONE;
    const Node *node = &c->nodes.at[i];
    if (entries_have(r, node) && entries_class(node) != OP_CLASS_COUNT && node->rank != NODE_NONE)
      sorted[n++] = node;
  }
  qsort(sorted, (size_t)n, sizeof *sorted, by_place);
  for (int i = 0; i < n; i++) place[sorted[i] - c->nodes.at] = i;
  return place;
}

static int place_of(const Own *o, const Node *node) { return o->place[node - o->r->c->nodes.at]; }

/* ---- parts ---- */

NodePart entries_part(const Division *by, const Node *node, int dim) {
  NodePart part = node->parts[dim];
  return (NodePart){part.dim, part.at * by->of[dim] / part.of, by->of[dim]};
}

static bool are_together(const Division *by, const Node *a, const Node *b) {
  for (int i = 0; i < a->nparts; i++)
    if (entries_part(by, a, i).at != entries_part(by, b, i).at) return false;
  return true;
}

/* ---- runs ---- */

static bool continues(const Own *o, const Node *a, const Node *b) {
  int from = place_of(o, a);
  return from != NODE_NONE && a->stage == b->stage && place_of(o, b) == from + 1;
}

/* The instruction that is next in the order; NULL: it is of another op, or the last. */
static const Node *next_of(const Own *o, const Node *node) {
  for (int i = 0; i < o->n; i++)
    if (continues(o, node, o->at[i])) return o->at[i];
  return NULL;
}

static bool begins_run(const Own *o, const Node *node) {
  for (int i = 0; i < o->n; i++)
    if (continues(o, o->at[i], node)) return false;
  return true;
}

static int number_of(const Own *o, const Node *node) {
  int i = 0;
  while (o->at[i] != node) i++;
  return i;
}

static void find_runs(Own *o) {
  int runs = 0;
  for (int i = 0; i < o->n; i++) {
    if (place_of(o, o->at[i]) == NODE_NONE || !begins_run(o, o->at[i])) continue;
    o->usual[runs] = true;
    for (const Node *now = o->at[i], *next; now; now = next) {
      o->run[number_of(o, now)] = runs;
      next = next_of(o, now);
      o->usual[runs] &= !next || next > now;
    }
    runs++;
  }
}

/* Two instructions of one part, with none of it between them: nothing else is, either. */
static bool are_neighbours(const Own *o, int i, int j) {
  const Node *a = o->at[i], *b = o->at[j];
  int from = place_of(o, a), to = place_of(o, b);
  if (a->stage != b->stage || (from == NODE_NONE) != (to == NODE_NONE)) return false;
  if (from == NODE_NONE) return a->cycle == b->cycle;
  return o->run[i] == o->run[j] && (o->usual[o->run[i]] || to == from + 1);
}

/* Each part is in one run, and its instructions are in their usual order. */
static bool says_all(const Own *o) {
  for (int i = 0; i < o->n; i++)
    for (int j = i + 1; j < o->n; j++) {
      if (!are_together(o->by, o->at[i], o->at[j])) continue;
      if (!are_neighbours(o, i, j)) return false;
      break;
    }
  return true;
}

/* ---- the fewest parts ---- */

static int count(const int *of, int n) {
  int all = 1;
  for (int i = 0; i < n; i++) all *= of[i];
  return all;
}

/* The next combination of divisors; false: there is none. */
static bool next_division(const Node *node, int *of) {
  for (int i = node->nparts - 1; i >= 0; i--) {
    while (++of[i] <= node->parts[i].of)
      if (node->parts[i].of % of[i] == 0) return true;
    of[i] = 1;
  }
  return false;
}

/* Sets the division; false: too many parts would be needed. */
static bool find_fewest(Own *o) {
  int try[NODE_DIMS] = {1, 1, 1, 1}, n = o->at[0]->nparts, best[NODE_DIMS], least = INT32_MAX;
  do {
    if (count(try, n) >= least || count(try, n) > ENTRY_PARTS) continue;
    memcpy(o->by->of, try, sizeof try);
    if (says_all(o)) memcpy(best, try, sizeof try), least = count(try, n);
  } while (next_division(o->at[0], try));
  for (int i = 0; i < NODE_DIMS; i++) o->by->of[i] = least == INT32_MAX ? 1 : best[i];
  return least != INT32_MAX;
}

/* ---- what cannot be divided ---- */

static void drop(Rows *r, const Own *o, const char *why) {
  const Node *first = o->at[0];
  bool split = false;
  for (int i = 1; i < o->n; i++) split |= o->at[i]->stage != first->stage;
  construct_drop(r->c,
                 arena_printf(r->c->arena,
                              split ? "parts of `%s` in different stages"
                                    : "the order of the instructions of `%s`",
                              construct_plain_name(r->c, first)),
                 why, first->placed);
}

static bool is_copied(const Division *by) {
  return by->class == OP_CLASS_copy || by->class == OP_CLASS_store ||
         (by->class == OP_CLASS_load && schedule_fills(by->op));
}

static const char *why_whole(const Rows *r, const Division *by, const Sym *dim, int of) {
  const Construct *c = r->c;
  const Op *blame;
  if (r->level != ROWS_all) return "ops are placed as a whole, where their first instruction is";
  if (is_copied(by)) return "it is copied as a whole, where its first instruction is";
  if (by->op->parent != r->loop->body) return "it is not an op of the loop itself";
  Machine m = machine_from(c->target, kernel_machine(c->k));
  return anchor_whole(c->d, &m, c->arena, (Op *)(uintptr_t)by->op, dim, of, &blame);
}

/* Undoes what the machine does not divide. */
static void check(Rows *r, Own *o) {
  const Node *node = o->at[0];
  for (int i = 0; i < node->nparts; i++) {
    int *of = &o->by->of[i];
    const char *why = *of > 1 ? why_whole(r, o->by, node->parts[i].dim, *of) : NULL;
    if (why) drop(r, o, why), *of = 1;
  }
}

/* ---- operands ---- */

static const Node *first_of(const Rows *r, const Division *by) {
  for (int i = 0; i < r->c->nodes.n; i++) {
    const Node *node = &r->c->nodes.at[i];
    if (node->op == by->op && entries_have(r, node) && entries_class(node) == by->class)
      return node;
  }
  return NULL;
}

static int dim_at(const Node *node, const Sym *dim) {
  for (int i = 0; i < node->nparts; i++)
    if (node->parts[i].dim == dim) return i;
  return -1;
}

/* An op is divided like each of its operands that is divided. */
static bool agree(const Rows *r, Division *user, Division *operand) {
  const Node *node = first_of(r, user), *read = first_of(r, operand);
  bool changed = false;
  for (int i = 0; i < node->nparts; i++) {
    int at = dim_at(read, node->parts[i].dim), *mine = &user->of[i];
    int *other = at < 0 ? mine : &operand->of[at];
    int64_t both;
    if (*other == 1 || *other == *mine || !int_lcm(*mine, *other, &both)) continue;
    *mine = *other = (int)both, changed = true;
  }
  return changed;
}

/* Directly, or by way of ops without a tag. */
static bool takes(const Op *user, const Op *operand) {
  for (int i = 0; i < user->nargs; i++) {
    const Op *def = user->args[i]->def;
    if (!def || !def->nresults || !anchor_takes_part(user, def)) continue;
    if (def == operand || takes(def, operand)) return true;
  }
  return false;
}

static void agree_all(Rows *r) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < r->divisions.n; i++)
      for (int j = 0; j < r->divisions.n; j++)
        if (takes(r->divisions.at[i].op, r->divisions.at[j].op))
          changed |= agree(r, &r->divisions.at[i], &r->divisions.at[j]);
  }
}

/* ---- all ops ---- */

const Division *entries_division(const Rows *r, const Op *op, OpClass class) {
  for (int i = 0; i < r->divisions.n; i++)
    if (r->divisions.at[i].op == op && r->divisions.at[i].class == class)
      return &r->divisions.at[i];
  return NULL;
}

static void list_ops(Rows *r) {
  for (int i = 0; i < r->c->nodes.n; i++) {
    const Node *node = &r->c->nodes.at[i];
    OpClass class = entries_class(node);
    if (!entries_have(r, node) || class == OP_CLASS_COUNT) continue;
    if (!entries_division(r, node->op, class))
      vec_push(r->c->arena, &r->divisions, ((Division){node->op, class, {1, 1, 1, 1}}));
    r->ordered |= node->rank != NODE_NONE;
  }
}

/* The instructions of an op. */
static Own own_of(Rows *r, Division *by, const int *place) {
  Own o = {r, by, ARENA_ARRAY(r->c->arena, const Node *, r->c->nodes.n), 0, place, NULL, NULL};
  for (int i = 0; i < r->c->nodes.n; i++) {
    const Node *node = &r->c->nodes.at[i];
    if (node->op == by->op && entries_have(r, node) && entries_class(node) == by->class)
      o.at[o.n++] = node;
  }
  o.run = ARENA_ARRAY(r->c->arena, int, o.n), o.usual = ARENA_ARRAY(r->c->arena, bool, o.n);
  find_runs(&o);
  return o;
}

void entries_divide(Rows *r) {
  list_ops(r);
  const int *place = places(r);
  for (int i = 0; i < r->divisions.n; i++) {
    Own o = own_of(r, &r->divisions.at[i], place);
    if (find_fewest(&o)) check(r, &o);
    else drop(r, &o, arena_printf(r->c->arena, "it would have more than %d parts", ENTRY_PARTS));
  }
  agree_all(r);
}
