/* solve_groups.c: see solve_groups.h. */
#include "transform/solve/solve_groups.h"

#include <string.h>

#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/turn_ops.h"

enum { GROUPS = 2 }; /* that take turns */

static bool is_given(const RowList *rows, ConstraintKind kind) {
  for (int i = 0; i < rows->n; i++)
    if (rows->at[i].kind == kind) return true;
  return false;
}

/* ---- roles ---- */

static bool can_copy(const Trial *t) {
  bool engine = target_has(t->machine.target, SERVICE_FEATURES);
  for (const Op *op = t->loop->body->first; engine && op; op = op->next)
    if (copy_goes_by(op, "tma")) return true;
  return false;
}

static bool add_roles(const SolveLoop *s, Arena *a, const Trial *like, RowList *rows) {
  if (is_given(rows, CONSTRAINT_roles) || !can_copy(like)) return false;
  Constraint row = schedule_service_row(a, s->k, s->name, like->machine.waves);
  row.roles.target = s->target->name;
  vec_push(a, rows, row);
  return true;
}

/* ---- turns ---- */

static bool is_product(const void *user, const Op *op) { return !user && op_is_product(op); }

static bool is_listed(const char *const *names, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

/* Names of all products; false: one has none, or there are none, or waves wait for one: then other
 * workgroups fill the gaps. */
static bool name_products(const SolveLoop *s, Arena *a, const Trial *like, OpNames *out) {
  const Op *loop = schedule_next_loop(s->k, NULL, s->name);
  const char **names = ARENA_ARRAY(a, const char *, s->k->nops + 1);
  int n = 0;
  for (const Op *op = loop ? loop->body->first : NULL; op; op = op->next) {
    if (!op_is_product(op)) continue;
    int waves = turn_waves(a, op, like->machine.lanes);
    if (waves == 1 || like->machine.waves % (GROUPS * waves)) return false;
    const char *name = schedule_name_of(a, s->k, loop, op, is_product, NULL);
    if (!name || !schedule_find(a, like->k, like->loop, name).n) return false;
    if (!is_listed(names, n, name)) names[n++] = name;
  }
  *out = (OpNames){names, n};
  return n > 0;
}

static bool add_turns(const SolveLoop *s, Arena *a, const Trial *like, RowList *rows) {
  Constraint row = constraint_empty(CONSTRAINT_turns, s->k->at);
  if (is_given(rows, CONSTRAINT_turns)) return false;
  if (!target_has(s->target, FEATURE_NAMED_BARRIER)) return false;
  if (!name_products(s, a, like, &row.turns.ops)) return false;
  row.turns.loop = s->name, row.turns.target = s->target->name, row.turns.groups = GROUPS;
  vec_push(a, rows, row);
  return true;
}

bool groups_add_rows(const SolveLoop *s, Arena *a, const Trial *like, int wanted, RowList *rows) {
  if (wanted & GROUPS_ROLES && !add_roles(s, a, like, rows)) return false;
  return !(wanted & GROUPS_TURNS) || add_turns(s, a, like, rows);
}
