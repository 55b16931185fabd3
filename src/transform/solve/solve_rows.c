/* solve_rows.c: see solve_rows.h. */
#include "transform/solve/solve_rows.h"

#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/schedule/schedule.h"
#include "schedule/interval/free_graph.h"

enum { MOST_DEPTH = 7 }; /* stages */

RowList rows_given(const SolveLoop *s, Arena *a) {
  RowList rows = {0};
  for (int i = 0; i < s->k->constraints.n; i++)
    if (solve_is_about(s, &s->k->constraints.at[i])) vec_push(a, &rows, s->k->constraints.at[i]);
  return rows;
}

/* The loop's row in the list; a new one if there is none. */
static Constraint *loop_row(const SolveLoop *s, Arena *a, RowList *rows) {
  for (int i = 0; i < rows->n; i++)
    if (rows->at[i].kind == CONSTRAINT_schedule) return &rows->at[i];
  Constraint row = constraint_empty(CONSTRAINT_schedule, s->k->at);
  row.schedule.loop = s->name, row.schedule.target = s->target->name;
  vec_push(a, rows, row);
  return &rows->at[rows->n - 1];
}

bool rows_with_depth(const SolveLoop *s, Arena *a, int depth, RowList *out) {
  *out = rows_given(s, a);
  Constraint *row = loop_row(s, a, out);
  if (schedule_depth(row)) return false;
  for (int i = 0; i < out->n; i++)
    if (out->at[i].kind == CONSTRAINT_place) return false;
  row = loop_row(s, a, out);
  row->schedule.depth = depth;
  return true;
}

bool rows_equal(const RowList *a, const RowList *b) {
  bool same = a->n == b->n;
  for (int i = 0; same && i < a->n; i++) same = constraint_equal(&a->at[i], &b->at[i]);
  return same;
}

/* ---- pins ---- */

/* A tile in shared memory, and the op of the loop that fills it. */
typedef struct Tile {
  const Op *alloc, *fill;
  int64_t bytes; /* of a slot */
} Tile;

typedef struct Pins {
  const SolveLoop *s;
  const Trial *t;
  RowsRoom room;
  Vec(Tile) tiles;
  int64_t shared; /* bytes for these, without what `stages` leaves between them, */
  int64_t least;  /* and what they need with one slot each */
} Pins;

static bool names(const Pins *p, const Constraint *row, const Op *op) {
  const OpNames *ops = schedule_ops(row);
  for (int i = 0; i < ops->n; i++) {
    OpList found = schedule_find(p->t->arena, p->t->k, p->t->loop, ops->at[i]);
    for (int j = 0; j < found.n; j++)
      if (found.at[j] == op) return true;
  }
  return false;
}

static const Constraint *row_naming(const Pins *p, ConstraintKind kind, const Op *op) {
  for (int i = 0; i < p->s->k->constraints.n; i++) {
    const Constraint *row = &p->s->k->constraints.at[i];
    if (row->kind == kind && solve_is_about(p->s, row) && names(p, row, op)) return row;
  }
  return NULL;
}

/* The op of the loop that fills a tile; NULL: none. */
static const Op *filled_by(const Pins *p, const Op *alloc) {
  for (const Op *op = p->t->loop->body->first; op && op_is_inside(op, p->t->loop); op = ir_next(op))
    if (schedule_fills(op) == &alloc->results[0]) return op;
  return NULL;
}

static void find_tiles(Pins *p) {
  p->shared = p->s->target->shared_most;
  for (const Op *op = ir_first(p->t->k); op; op = ir_next(op)) {
    const Op *fill = op->kind == OP_alloc ? filled_by(p, op) : NULL;
    if (!fill) continue;
    vec_push(p->t->arena, &p->tiles, ((Tile){op, fill, free_slot_bytes(op)}));
    p->shared -= alloc_align(op);
    p->least += free_slot_bytes(op);
  }
}

/* As many as fit if all others have one. */
static int slots_allowed(const void *user, const Op *alloc) {
  const Pins *p = user;
  for (int i = 0; i < p->tiles.n; i++) {
    const Tile *t = &p->tiles.at[i];
    if (t->alloc != alloc || !t->bytes) continue;
    if (row_naming(p, CONSTRAINT_ring, t->fill)) return alloc_slots(alloc);
    int64_t most = (p->shared - p->least) / t->bytes + 1;
    return most > p->room.slots ? p->room.slots : most < 1 ? 1 : (int)most;
  }
  return 1;
}

static bool is_placed(const void *user, const Op *op, Place *at) {
  const Pins *p = user;
  const Constraint *row = row_naming(p, CONSTRAINT_place, op);
  if (row) *at = (Place){schedule_ahead(p->t->k, p->t->loop, op), row->place.to.cycle};
  return row != NULL;
}

FreeLimits rows_limits(const SolveLoop *s, const Trial *t, RowsRoom room) {
  Pins *p = ARENA_NEW(t->arena, Pins);
  *p = (Pins){.s = s, .t = t, .room = room};
  find_tiles(p);
  return (FreeLimits){.slots = slots_allowed,
                      .copies = room.copies,
                      .is_placed = is_placed,
                      .user = p,
                      .registers = trial_most_registers(t) - t->outside,
                      .spare = room.spare,
                      .bytes = p->shared - s->target->shared_most + trial_most_bytes(t),
                      .room = p->shared,
                      .depth = MOST_DEPTH,
                      .early = room.early,
                      .uses = t->facts.memory_uses};
}

/* ---- places ---- */

typedef struct Placed {
  const Op *op;
  const char *name; /* NULL: none stands for it alone */
  int stage, cycle;
} Placed;

typedef struct Rows {
  const SolveLoop *s;
  Arena *arena;
  const Trial *t;
  const Op *original; /* the loop before `stages` */
  bool passing;       /* ops that pass values between waves have places, too */
  Vec(Placed) all;
} Rows;

static const Placed *placed_at(const Rows *r, const Op *op) {
  for (int i = 0; i < r->all.n; i++)
    if (r->all.at[i].op == op) return &r->all.at[i];
  return NULL;
}

typedef struct Wanted {
  const Rows *rows;
  const Placed *as;
} Wanted;

/* Another op of the same name must have the same place. */
static bool has_place(const void *user, const Op *op) {
  const Wanted *w = user;
  const Placed *p = placed_at(w->rows, op);
  if (!p) return schedule_class(op) == OP_CLASS_none || op->kind == OP_read;
  return p->stage == w->as->stage && p->cycle == w->as->cycle;
}

/* Whether the loop has such an op as it was written. */
static bool is_found(const void *user, const char *name) {
  const Rows *r = user;
  return schedule_find(r->arena, r->s->k, r->original, name).n > 0;
}

static void find_names(Rows *r) {
  for (int i = 0; i < r->all.n; i++) {
    Placed *p = &r->all.at[i];
    Wanted w = {r, p};
    if (!r->passing && free_is_passing(r->t->loop, p->op)) continue;
    const char *name = schedule_name_of(r->arena, r->t->k, r->t->loop, p->op, has_place, &w);
    if (name && is_found(r, name)) p->name = name;
    else p->name = schedule_exact_name(r->arena, r->t->k, r->t->loop, p->op, is_found, r);
  }
}

/* The stages from an op to the last one. A tile waits in registers for at most one of them. */
static int lead_of(const FreeTimes *free, const FreePlace *p) {
  const Value *memory = schedule_class(p->op) == OP_CLASS_load ? schedule_fills(p->op) : NULL;
  for (int i = 0; memory && i < free->places.n; i++) {
    const FreePlace *store = &free->places.at[i];
    bool stores =
        schedule_class(store->op) == OP_CLASS_store && memory_written(store->op) == memory;
    if (stores && p->lead > store->lead + 1) return store->lead + 1;
  }
  return p->lead;
}

/* The other ops of its event are where it is. */
static void add_run(Rows *r, Placed head) {
  vec_push(r->arena, &r->all, head);
  for (const Op *op = head.op->next; op; op = op->next)
    if (r->t->times.head[op->id] == head.op)
      vec_push(r->arena, &r->all, ((Placed){op, NULL, head.stage, head.cycle}));
}

/* Ops of one class that follow each other in one stage share a cycle. */
static int find_stages(Rows *r, const FreeTimes *free, int deeper) {
  int depth = 1;
  Placed last = {.cycle = -1};
  for (int i = 0; i < free->places.n; i++) {
    const FreePlace *p = &free->places.at[i];
    int lead = lead_of(free, p) + (schedule_fills(p->op) ? deeper : 0);
    bool joins = last.op && last.stage == lead && schedule_class(last.op) == schedule_class(p->op);
    last = (Placed){p->op, NULL, lead, joins ? last.cycle : last.cycle + 1};
    add_run(r, last);
    if (lead >= depth) depth = lead + 1;
  }
  for (int i = 0; i < r->all.n; i++) r->all.at[i].stage = depth - 1 - r->all.at[i].stage;
  return depth;
}

/* ---- rings ---- */

static bool is_ring_given(const Rows *r, const Op *fill) {
  Pins p = {.s = r->s, .t = r->t};
  return row_naming(&p, CONSTRAINT_ring, fill) != NULL;
}

/* Where the number of slots does not follow from the stages: a tile that waits in registers needs
 * one, a matmul that is in flight keeps another. */
static int slots_beside_stages(const Rows *r, const Placed *p, int depth, const FreeTimes *free,
                               int deeper) {
  const Value *memory = schedule_fills(p->op);
  OpClass class = schedule_class(p->op);
  int ahead = depth - 1 - p->stage;
  if (!memory || class == OP_CLASS_load || is_ring_given(r, p->op)) return 0;
  for (int i = 0; i < free->rings.n; i++) {
    if (&free->rings.at[i].alloc->results[0] != memory) continue;
    int slots = free->rings.at[i].slots + deeper;
    if (class == OP_CLASS_store && slots == 1 && ahead == 1) return 1;
    if (class == OP_CLASS_copy && slots > ahead + 1) return slots;
  }
  return 0;
}

static void add_rings(const Rows *r, int depth, const FreeTimes *free, int deeper, Constraint like,
                      RowList *out) {
  for (int i = 0; i < r->all.n; i++) {
    const Placed *p = &r->all.at[i];
    int slots = p->name ? slots_beside_stages(r, p, depth, free, deeper) : 0;
    if (!slots) continue;
    const char **name = ARENA_ARRAY(r->arena, const char *, 1);
    Constraint row = constraint_empty(CONSTRAINT_ring, like.at);
    name[0] = schedule_plain_name(r->arena, p->name);
    row.ring.loop = like.schedule.loop, row.ring.target = like.schedule.target;
    row.ring.ops = (OpNames){name, 1}, row.ring.slots = slots;
    vec_push(r->arena, out, row);
  }
}

/* ---- all rows ---- */

/* One row for all names of a cycle. */
static void add_places(const Rows *r, Constraint like, RowList *out) {
  for (int i = 0, next; i < r->all.n; i = next) {
    const char **list = ARENA_ARRAY(r->arena, const char *, r->all.n);
    int n = 0;
    for (next = i; next < r->all.n && r->all.at[next].cycle == r->all.at[i].cycle; next++)
      if (r->all.at[next].name) list[n++] = r->all.at[next].name;
    Constraint row = constraint_empty(CONSTRAINT_place, like.at);
    row.place.loop = like.schedule.loop, row.place.target = like.schedule.target;
    row.place.to = (Place){r->all.at[i].stage, r->all.at[i].cycle};
    row.place.ops = (OpNames){list, n};
    if (n) vec_push(r->arena, out, row);
  }
}

RowList rows_placed(const SolveLoop *s, Arena *a, const Trial *t, const FreeTimes *free,
                    int deeper) {
  Rows r = {.s = s, .arena = a, .t = t, .original = schedule_next_loop(s->k, NULL, s->name)};
  RowList rows = {0}, given = rows_given(s, a);
  int depth = find_stages(&r, free, deeper);
  r.passing = free->passing;
  find_names(&r);
  for (int i = 0; i < given.n; i++)
    if (given.at[i].kind != CONSTRAINT_place) vec_push(a, &rows, given.at[i]);
  Constraint *row = loop_row(s, a, &rows);
  if (depth > row->schedule.depth) row->schedule.depth = depth;
  Constraint like = *row;
  add_rings(&r, depth, free, deeper, like, &rows);
  add_places(&r, like, &rows);
  return rows;
}
