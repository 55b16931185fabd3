/* schedule_check.c: whether the rows of a schedule fit the kernel, on whatever machine.
 *
 * All rows that name nothing are reported, with the nearest names: after a change of the kernel they
 * tell what a schedule that was kept in a file no longer fits. */
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/turn_ops.h"

typedef struct Check {
  Kernel *k;
  Diags *diags;
  Arena *arena;
} Check;

typedef Vec(const char *) NameList;

static bool hint_names(Check *c, Diag *d, const char *word, const NameList *known) {
  const char *near = diag_nearest(word, known->at, known->n);
  StrBuf all = {.arena = c->arena};
  if (near) return diag_hint(c->diags, d, "did you mean `%s`?", near);
  for (int i = 0; i < known->n && i < 12; i++)
    sb_printf(&all, "%s`%s`", i ? ", " : "", known->at[i]);
  return known->n && diag_hint(c->diags, d, "there is %s", sb_text(&all));
}

static void add_name(Check *c, NameList *list, const char *name) {
  if (!name || !*name) return;
  for (int i = 0; i < list->n; i++)
    if (strcmp(list->at[i], name) == 0) return;
  vec_push(c->arena, list, name);
}

/* ---- words ---- */

static const char *const kinds[] = {
#define SCHEDULE_KIND(name, depth, doc) #name,
#include "ir/schedule/schedule.def"
};
static const char *const drains[] = {
#define SCHEDULE_DRAIN(name, doc) #name,
#include "ir/schedule/schedule.def"
};

static bool check_word(Check *c, const Constraint *row, const char *what, const char *word,
                       const char *const *known, int n) {
  NameList list = {(const char **)(uintptr_t)known, n, n};
  for (int i = 0; i < n; i++)
    if (!word || strcmp(word, known[i]) == 0) return true;
  Diag *d = diag_add(c->diags, DIAG_E0217, row->at, "unknown %s `%s`", what, word);
  return hint_names(c, d, word, &list);
}

static bool check_target(Check *c, const Constraint *row) {
  const char *prefix = schedule_target(row);
  const TargetInfo *t;
  NameList names = {0};
  for (int i = 0; prefix && (t = target_at(i)); i++) {
    if (schedule_is_for(row, t)) return true;
    vec_push(c->arena, &names, t->name);
  }
  if (!prefix) return true;
  Diag *d = diag_add(c->diags, DIAG_E0217, row->at, "no machine has a name that begins with `%s`",
                     prefix);
  const char *near = diag_nearest(prefix, names.at, names.n);
  return near ? diag_hint(c->diags, d, "did you mean `%s`?", near)
              : diag_hint(c->diags, d, "`wavec --list=targets` lists the machines");
}

/* ---- numbers ---- */

static bool check_unroll(Check *c, const Constraint *row) {
  if (row->schedule.unroll >= 0 && row->schedule.unroll <= SCHEDULE_STAGES) return true;
  return diag_fail(c->diags, DIAG_E0212, row->at, "a loop is unrolled 1 to %d times, not %d",
                   SCHEDULE_STAGES, row->schedule.unroll);
}

static bool check_most(Check *c, const Constraint *row, const char *what, int n) {
  if (n >= 0 && n <= SCHEDULE_STAGES) return true;
  return diag_fail(c->diags, DIAG_E0212, row->at, "a loop has 1 to %d %s, not %d", SCHEDULE_STAGES,
                   what, n);
}

/* ---- roles ---- */

/* Both rows apply to some machine. */
static bool meet(const Constraint *a, const Constraint *b) {
  const char *x = schedule_target(a), *y = schedule_target(b);
  size_t n = x && y ? (strlen(x) < strlen(y) ? strlen(x) : strlen(y)) : 0;
  return strcmp(a->scheduled.loop, b->scheduled.loop) == 0 && (!n || strncmp(x, y, n) == 0);
}

static const Role *find_role(const Constraint *row, const char *name) {
  for (int i = 0; i < row->roles.groups.n; i++)
    if (strcmp(row->roles.groups.at[i].name, name) == 0) return &row->roles.groups.at[i];
  return NULL;
}

static bool check_role(Check *c, const Constraint *row, const Role *role) {
  int n = role->registers, step = ROLE_REGISTERS_STEP;
  if (find_role(row, role->name) != role)
    return diag_fail(c->diags, DIAG_E0208, row->at, "the role `%s` is given twice", role->name);
  if (!n || (n >= ROLE_REGISTERS_LEAST && n <= ROLE_REGISTERS_MOST && n % step == 0)) return true;
  return diag_fail(c->diags, DIAG_E0212, row->at,
                   "the threads of a role have %d to %d registers, a multiple of %d, not %d",
                   ROLE_REGISTERS_LEAST, ROLE_REGISTERS_MOST, step, n);
}

static bool check_roles(Check *c, const Constraint *row) {
  const Roles *roles = &row->roles.groups;
  if (roles->n != 2)
    return diag_fail(c->diags, DIAG_E0212, row->at,
                     "a loop has two roles, one that copies and one that computes, not %d",
                     roles->n);
  return check_role(c, row, &roles->at[0]) && check_role(c, row, &roles->at[1]);
}

/* The role is one of the loop's. */
static bool check_member(Check *c, const Constraint *row) {
  NameList names = {0};
  EACH_ROW(c->k, roles, roles) {
    if (!meet(roles, row)) continue;
    if (find_role(roles, row->member.role)) return true;
    for (int i = 0; i < roles->roles.groups.n; i++)
      add_name(c, &names, roles->roles.groups.at[i].name);
  }
  Diag *d = diag_add(c->diags, DIAG_E0217, row->at, "the loop `%s` has no role `%s`",
                     row->member.loop, row->member.role);
  if (names.n) return hint_names(c, d, row->member.role, &names);
  return diag_hint(c->diags, d, "add a row `roles %s ...`", row->member.loop);
}

static bool check_turns(Check *c, const Constraint *row) {
  int n = row->turns.groups;
  if (n >= TURN_LEAST && n <= TURN_MOST) return true;
  Diag *d = diag_add(c->diags, DIAG_E0212, row->at, "%d to %d groups of waves take turns, not %d",
                     TURN_LEAST, TURN_MOST, n);
  return diag_hint(c->diags, d, "write `turns %s %d %s`, or remove the row", row->turns.loop,
                   TURN_LEAST, row->turns.ops.n ? row->turns.ops.at[0] : "mma");
}

static bool check_order(Check *c, const Constraint *row) {
  const OpNames *ops = &row->order.ops;
  for (int i = 0; i < ops->n; i++)
    for (int j = 0; j < i; j++)
      if (strcmp(ops->at[i], ops->at[j]) == 0)
        return diag_fail(c->diags, DIAG_E0208, row->at, "`%s` is listed twice", ops->at[i]);
  return true;
}

static bool check_numbers(Check *c, const Constraint *row) {
  if (row->kind == CONSTRAINT_fence) return true;
  if (row->kind == CONSTRAINT_order) return check_order(c, row);
  if (row->kind == CONSTRAINT_turns) return check_turns(c, row);
  if (row->kind == CONSTRAINT_roles) return check_roles(c, row);
  if (row->kind == CONSTRAINT_member) return check_member(c, row);
  if (row->kind == CONSTRAINT_schedule)
    return check_most(c, row, "stages", row->schedule.depth) && check_unroll(c, row) &&
           check_word(c, row, "kind of schedule", row->schedule.how, kinds, WV_LEN(kinds)) &&
           check_word(c, row, "way to end a loop", row->schedule.drain, drains, WV_LEN(drains));
  if (row->kind == CONSTRAINT_ring) return check_most(c, row, "slots", row->ring.slots);
  if (row->kind == CONSTRAINT_prio)
    return row->prio.level <= PRIO_MOST ||
           diag_fail(c->diags, DIAG_E0212, row->at, "priorities are 1 to %d, not %d", PRIO_MOST,
                     row->prio.level);
  return check_most(c, row, "stages", row->place.to.stage + 1);
}

/* ---- loops and ops ---- */

static void note_stale(Check *c, const Constraint *row, Diag *d) {
  EACH_ROW(c->k, schedule, s) {
    const Op *loop = schedule_next_loop(c->k, NULL, s->schedule.loop);
    if (!s->schedule.hash || strcmp(s->schedule.loop, row->scheduled.loop) != 0) continue;
    if (!loop || strcmp(schedule_hash(c->arena, loop), s->schedule.hash) != 0)
      diag_note(c->diags, d, s->at, "the schedule was written for another version of the loop");
  }
}

static bool fail_loop(Check *c, const Constraint *row) {
  NameList names = {0};
  for (const Op *loop = NULL; (loop = schedule_next_loop(c->k, loop, NULL));)
    add_name(c, &names, schedule_loop_name(c->arena, loop));
  Diag *d = diag_add(c->diags, DIAG_E0217, row->at, "no loop is called `%s`", row->scheduled.loop);
  note_stale(c, row, d);
  return hint_names(c, d, row->scheduled.loop, &names);
}

static bool accept_any(const void *user, const Op *op) { return user == NULL && op != NULL; }

/* Without its class, which the author's ops do not have yet. */
static const char *plain_name(Check *c, const Op *loop, const Op *op) {
  const char *name = schedule_name_of(c->arena, c->k, loop, op, accept_any, NULL);
  return name ? schedule_plain_name(c->arena, name) : NULL;
}

static bool fail_op(Check *c, const Constraint *row, const char *name) {
  NameList names = {0};
  for (const Op *loop = NULL; (loop = schedule_next_loop(c->k, loop, row->scheduled.loop));)
    for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op))
      if (schedule_class(op) != OP_CLASS_none) add_name(c, &names, plain_name(c, loop, op));
  Diag *d = diag_add(c->diags, DIAG_E0217, row->at, "the loop `%s` has no op `%s`",
                     row->scheduled.loop, name);
  note_stale(c, row, d);
  return hint_names(c, d, name, &names);
}

/* An order may also list ops that the compiler inserts, by their kinds. */
static bool may_find(Check *c, const Constraint *row, const char *name) {
  if (schedule_finds(c->arena, c->k, row, name)) return true;
  bool counts = row->kind == CONSTRAINT_place && schedule_split_name(c->arena, name).of;
  if (row->kind != CONSTRAINT_order && !counts) return false;
  return op_find(schedule_plain_name(c->arena, name)) != OP_COUNT;
}

static bool check_names(Check *c, const Constraint *row) {
  bool ok = true;
  if (!schedule_next_loop(c->k, NULL, row->scheduled.loop)) return fail_loop(c, row);
  const OpNames *ops = schedule_ops(row);
  for (int i = 0; ops && i < ops->n; i++)
    if (!may_find(c, row, ops->at[i])) ok = fail_op(c, row, ops->at[i]);
  return ok;
}

/* ---- rows against each other ---- */

/* The first op that both rows name; NULL: none. */
static const char *shared_op(Check *c, const Constraint *a, const Constraint *b) {
  const OpNames *x = schedule_ops(a), *y = schedule_ops(b);
  for (const Op *loop = NULL; x && y && (loop = schedule_next_loop(c->k, loop, a->scheduled.loop));)
    for (int i = 0; i < x->n; i++)
      for (int j = 0; j < y->n; j++) {
        if (strcmp(x->at[i], y->at[j]) == 0) return x->at[i];
        if (a->kind != CONSTRAINT_ring && a->kind != CONSTRAINT_member &&
            a->kind != CONSTRAINT_turns)
          continue; /* `x.load` and `x.store` are two places */
        OpList one = schedule_find(c->arena, c->k, loop, x->at[i]);
        OpList two = schedule_find(c->arena, c->k, loop, y->at[j]);
        for (int m = 0; m < one.n; m++)
          for (int n = 0; n < two.n; n++)
            if (one.at[m] == two.at[n]) return y->at[j];
      }
  return NULL;
}

static bool fail_twice(Check *c, const Constraint *first, const Constraint *row, const char *what,
                       const char *of) {
  Diag *d = diag_add(c->diags, DIAG_E0208, row->at, "%s of `%s` is given twice", what, of);
  diag_note(c->diags, d, first->at, "the first is here");
  return diag_hint(c->diags, d,
                   "remove one of the rows, or give them different machines with `on`");
}

static bool check_pair(Check *c, const Constraint *a, const Constraint *b) {
  if (a->kind != b->kind || !meet(a, b)) return true;
  if (a->kind == CONSTRAINT_schedule) return fail_twice(c, a, b, "the schedule", a->schedule.loop);
  if (a->kind == CONSTRAINT_roles)
    return fail_twice(c, a, b, "the division into roles", a->roles.loop);
  if (a->kind == CONSTRAINT_order) return fail_twice(c, a, b, "the order", a->order.loop);
  const char *op = shared_op(c, a, b);
  if (!op) return true;
  const char *what = a->kind == CONSTRAINT_ring     ? "the ring"
                     : a->kind == CONSTRAINT_prio   ? "the priority"
                     : a->kind == CONSTRAINT_fence  ? "the fence"
                     : a->kind == CONSTRAINT_member ? "the role"
                     : a->kind == CONSTRAINT_turns  ? "the turn"
                                                    : "the place";
  return fail_twice(c, a, b, what, op);
}

/* Places lie within the stages and cycles that the loop's row gives. */
static bool check_within(Check *c, const Constraint *row, const Constraint *place) {
  if (row->kind != CONSTRAINT_schedule || place->kind != CONSTRAINT_place || !meet(row, place))
    return true;
  int depth = schedule_depth(row), interval = row->schedule.interval;
  Place to = place->place.to;
  bool stage = depth && to.stage >= depth, cycle = interval && to.cycle >= interval;
  if (!stage && !cycle) return true;
  Diag *d = stage ? diag_add(c->diags, DIAG_E0212, place->at,
                             "stage %d is past the last: the loop has %d", to.stage, depth)
                  : diag_add(c->diags, DIAG_E0212, place->at,
                             "cycle %d is past the last: the interval is %d", to.cycle, interval);
  diag_note(c->diags, d, row->at, "the schedule of the loop is here");
  return false;
}

static bool check_rows(Check *c) {
  bool ok = true;
  for (int i = 0; i < c->k->constraints.n; i++) {
    const Constraint *row = &c->k->constraints.at[i];
    if (schedule_is_row(row))
      ok &= check_target(c, row) && check_numbers(c, row) && check_names(c, row);
  }
  return ok;
}

static bool check_pairs(Check *c) {
  const Constraint *rows = c->k->constraints.at;
  for (int i = 0; i < c->k->constraints.n; i++)
    for (int j = 0; schedule_is_row(&rows[i]) && j < c->k->constraints.n; j++) {
      if (!schedule_is_row(&rows[j]) || i == j) continue;
      if (j > i && !check_pair(c, &rows[i], &rows[j])) return false;
      if (!check_within(c, &rows[i], &rows[j])) return false;
    }
  return true;
}

/* A kernel that passes have changed names other ops. */
static bool is_as_written(const Kernel *k) {
  return k->level == LEVEL_TILE && !kernel_constraint(k, CONSTRAINT_machine, NULL);
}

bool schedule_check(Kernel *k) {
  if (!kernel_has_schedule(k) || !is_as_written(k)) return true;
  Check c = {k, &k->cx->diags, arena_new()};
  bool ok = check_rows(&c) && check_pairs(&c);
  arena_free(c.arena);
  return ok;
}

/* ---- versions of a loop ---- */

static uint64_t hash_text(uint64_t h, const char *text) {
  return hash_mix(h, hash_bytes(text, strlen(text)));
}

static uint64_t hash_attr(Arena *a, uint64_t h, const Attr *attr) {
  AttrKind kind = attr_info[attr->key].kind;
  h = hash_text(h, attr_info[attr->key].name);
  if (attr->sym) h = hash_text(h, sym_text(a, attr->sym));
  if (kind == ATTR_KIND_INT) h = hash_mix(h, (uint64_t)attr->integer);
  if (kind == ATTR_KIND_TEXT || kind == ATTR_KIND_WORD) h = hash_text(h, attr->text);
  for (int i = 0; kind == ATTR_KIND_TEXTS && i < attr->n; i++) h = hash_text(h, attr->texts[i]);
  for (int i = 0; kind == ATTR_KIND_EXPRS && i < attr->n; i++)
    h = hash_text(h, sym_text(a, attr->exprs[i]));
  return hash_mix(h, (uint64_t)attr->n);
}

static int first_value(const Op *loop) {
  for (const Op *op = loop; op && op_is_inside(op, loop); op = ir_next(op)) {
    if (op->nresults) return op->results[0].id;
    if (op->body && op->body->nargs) return op->body->args[0]->id;
  }
  return 0;
}

/* Values of the loop count from its first one; others are what they are made by, or called. */
static uint64_t hash_value(uint64_t h, const Op *loop, const Value *v) {
  const Op *owner = v->def ? v->def : v->owner->owner;
  if (owner && op_is_inside(owner, loop)) return hash_mix(h, (uint64_t)(v->id - first_value(loop)));
  return hash_text(h, v->def ? op_info[v->def->kind].name : v->name ? v->name : "");
}

static uint64_t hash_op(Arena *a, uint64_t h, const Op *loop, const Op *op) {
  h = hash_text(h, op_info[op->kind].name);
  for (int i = 0; i < op->nargs; i++) h = hash_value(h, loop, op->args[i]);
  for (int i = 0; i < op->nattrs; i++) h = hash_attr(a, h, &op->attrs[i]);
  for (int i = 0; i < op->nresults; i++)
    h = hash_mix(h,
                 ((uint64_t)op->results[i].type->dtype << 8) + (unsigned)op->results[i].type->rank);
  return h;
}

const char *schedule_hash(Arena *a, const Op *loop) {
  uint64_t h = 0;
  for (const Op *op = loop; op && op_is_inside(op, loop); op = ir_next(op))
    h = hash_op(a, h, loop, op);
  return arena_printf(a, "x%016llx", (unsigned long long)h);
}

void schedule_warn(Kernel *k) {
  if (!kernel_has_schedule(k) || !is_as_written(k)) return;
  Arena *a = arena_new();
  EACH_ROW(k, schedule, row) {
    bool found = !row->schedule.hash;
    for (const Op *loop = NULL; !found && (loop = schedule_next_loop(k, loop, row->schedule.loop));)
      found = strcmp(schedule_hash(a, loop), row->schedule.hash) == 0;
    if (found) continue;
    Diag *d =
        diag_add(&k->cx->diags, DIAG_W0201, row->at,
                 "the loop `%s` has changed since its schedule was written", row->schedule.loop);
    diag_hint(&k->cx->diags, d, "all rows still fit; write the schedule again to silence this");
  }
  arena_free(a);
}
