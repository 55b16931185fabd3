/* construct_rows.c: rows of a schedule for what a function requests, and a remark for the rest.
 *
 * Rows place whole ops. An op whose instructions are in several stages is placed in the last of
 * them, and where its first instruction is in the order. */
#include <stdlib.h>
#include <string.h>

#include "construct/construct.h"
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/schedule/turn_ops.h"

/* An op in one of its classes, placed. */
typedef struct Entry {
  const Op *op;
  OpClass class;
  const Node *node;                     /* the first */
  int stage, cycle, first, last, count; /* ranks of its nodes; first NODE_NONE: in no order */
  bool split;                           /* its nodes are in different stages */
  int prio;                             /* the highest of its nodes */
} Entry;

typedef struct Rows {
  Construct *c;
  const PipelineCall *p;
  const Op *loop, *original; /* in the kernel that has the ops, and as it was written */
  const char *name;
  RowsLevel level;
  Vec(Entry) entries;
  int last, interval; /* stage, cycles */
} Rows;

static Diags *diags_of(const Construct *c) { return &c->k->cx->diags; }

/* ---- entries ---- */

/* It brings a tile to shared memory. */
static bool is_move(const Entry *e) {
  return e->class == OP_CLASS_copy || e->class == OP_CLASS_store ||
         (e->class == OP_CLASS_load && (schedule_fills(e->op) || e->op->kind == OP_read));
}

/* As is_move, but a load that stays in registers is not one. */
static bool moves(const Rows *r, const Entry *e) {
  if (!is_move(e)) return false;
  if (e->class != OP_CLASS_load || schedule_fills(e->op)) return true;
  for (int i = 0; i < r->entries.n; i++)
    if (r->entries.at[i].op == e->op && r->entries.at[i].class == OP_CLASS_store) return true;
  return false;
}

static Entry *entry_of(Rows *r, const Op *op, OpClass class) {
  for (int i = 0; i < r->entries.n; i++)
    if (r->entries.at[i].op == op && r->entries.at[i].class == class) return &r->entries.at[i];
  return NULL;
}

/* A machine that copies without registers has no op that stores. */
static bool is_direct(const Op *op) {
  return op->kind == OP_copy && (copy_is_awaited(op) || copy_goes_by(op, "tma"));
}

static Entry *add_entry(Rows *r, const Node *node, OpClass class) {
  Entry made = {.op = node->op, .class = class, .node = node, .stage = node->stage};
  made.cycle = node->cycle;
  made.first = made.last = NODE_NONE;
  vec_push(r->c->arena, &r->entries, made);
  return &r->entries.at[r->entries.n - 1];
}

static void add_node(Rows *r, const Node *node) {
  OpClass class = is_direct(node->op) ? OP_CLASS_copy : node->class;
  if (is_direct(node->op) && node->class == OP_CLASS_store) {
    construct_drop(r->c,
                   arena_printf(r->c->arena, "the store of `%s`",
                                schedule_plain_name(r->c->arena, construct_plain_name(r->c, node))),
                   "it is copied without registers", node->placed);
    return;
  }
  Entry *e = entry_of(r, node->op, class);
  if (!e) e = add_entry(r, node, class);
  e->split |= node->stage != e->stage;
  if (node->prio > e->prio) e->prio = node->prio;
  if (node->stage > e->stage) e->stage = node->stage, e->cycle = node->cycle, e->node = node;
  if (node->rank == NODE_NONE) return;
  e->count++;
  if (e->first == NODE_NONE || node->rank < e->first) e->first = node->rank;
  if (node->rank > e->last) e->last = node->rank;
}

static void collect(Rows *r) {
  for (int i = 0; i < r->c->nodes.n; i++) {
    const Node *node = &r->c->nodes.at[i];
    if (node->stage != NODE_NONE && node->segment == SEGMENT_kernel && !node->unrolled &&
        construct_loop(node) == r->loop)
      add_node(r, node);
  }
}

static bool is_ordered(const Rows *r) {
  for (int i = 0; i < r->entries.n; i++)
    if (r->entries.at[i].first != NODE_NONE) return true;
  return false;
}

/* ---- the order as cycles ---- */

static int by_rank(const void *x, const void *y) {
  const Entry *a = *(const Entry *const *)x, *b = *(const Entry *const *)y;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a < b ? -1 : a > b;
}

static bool needs(Construct *c, const Entry *later, const Entry *first) {
  Node l = *later->node, f = *first->node;
  l.nparts = f.nparts = 0; /* any of their instructions */
  return later->stage == first->stage && construct_depends(c, &l, &f);
}

/* Some instructions of an op may come before some of another that it needs; the whole op cannot. */
static void pull_needed(Rows *r) {
  bool pulled = true;
  for (int round = 0; pulled && round < r->entries.n; round++) {
    pulled = false;
    for (int i = 0; i < r->entries.n; i++)
      for (int j = 0; j < r->entries.n; j++) {
        Entry *first = &r->entries.at[i];
        const Entry *later = &r->entries.at[j];
        if (later->first == NODE_NONE || first->first <= later->first) continue;
        if (!needs(r->c, later, first)) continue;
        first->first = later->first, pulled = true;
      }
  }
}

/* Neighbours of one class and stage share a cycle. */
static void number_cycles(Rows *r) {
  int cycle = 0;
  const Entry **sorted = ARENA_ARRAY(r->c->arena, const Entry *, r->entries.n + 1);
  r->interval = r->p->interval;
  if (!is_ordered(r)) return;
  pull_needed(r);
  for (int i = 0; i < r->entries.n; i++) sorted[i] = &r->entries.at[i];
  qsort(sorted, (size_t)r->entries.n, sizeof *sorted, by_rank);
  for (int i = 0; i < r->entries.n; i++) {
    const Entry *e = sorted[i];
    if (i && (sorted[i - 1]->class != e->class || sorted[i - 1]->stage != e->stage)) cycle++;
    r->entries.at[e - r->entries.at].cycle = cycle;
  }
  r->interval = cycle + 1;
}

/* ---- how far ahead ---- */

static bool reads_tile(const Rows *r, const Entry *move, const Entry *e) {
  const Value *memory = schedule_fills(move->op);
  if (!r->c->target || !memory) return e->op == move->op && e->class == OP_CLASS_fetch;
  if (e->op->kind == OP_read) return memory_root(e->op->args[0]) == memory;
  for (int i = 0; i < e->op->nargs; i++) {
    const Op *read = e->op->args[i]->def;
    if (read && read->kind == OP_read && memory_root(read->args[0]) == memory) return true;
  }
  return false;
}

/* The last op that reads a tile: a fetch, or a matmul that reads shared memory itself. */
static const Entry *reader_of(const Rows *r, const Entry *move) {
  const Entry *last = NULL;
  for (int i = 0; i < r->entries.n; i++) {
    const Entry *e = &r->entries.at[i];
    if (!moves(r, e) && reads_tile(r, move, e) && (!last || e->class == OP_CLASS_fetch) &&
        !(last && last->class == OP_CLASS_fetch && last->stage >= e->stage))
      last = e;
  }
  return last;
}

static int ahead_of(const Rows *r, const Entry *move) {
  const Entry *reader = reader_of(r, move);
  return (reader ? reader->stage : r->p->depth - 1) - move->stage;
}

/* A tile waits in registers for at most one iteration. */
static int distance(Rows *r, const Entry *move) {
  const Entry *store = move->class == OP_CLASS_load ? entry_of(r, move->op, OP_CLASS_store) : NULL;
  int kept = store && store->stage > move->stage ? 1 : 0;
  return store ? ahead_of(r, store) + kept : ahead_of(r, move);
}

/* Ops that compute are in the last stage; copies run as far ahead of them as requested. */
static void relax(Rows *r) {
  int *ahead = ARENA_ARRAY(r->c->arena, int, r->entries.n + 1);
  r->last = 0;
  for (int i = 0; i < r->entries.n; i++) {
    if (moves(r, &r->entries.at[i])) ahead[i] = distance(r, &r->entries.at[i]);
    if (ahead[i] > r->last) r->last = ahead[i];
  }
  for (int i = 0; i < r->entries.n; i++) r->entries.at[i].stage = r->last - ahead[i];
}

/* ---- names ---- */

typedef struct Wanted {
  Rows *r;
  const Entry *e;
} Wanted;

/* Another op of the same name must have the same place. */
static bool has_place(const void *user, const Op *op) {
  const Wanted *w = user;
  OpClass class = is_move(w->e) ? w->e->class : schedule_class(op);
  const Entry *e = entry_of(w->r, op, op == w->e->op ? w->e->class : class);
  return e && e->stage == w->e->stage && e->cycle == w->e->cycle;
}

static const char *name_of(Rows *r, const Entry *e) {
  Arena *a = r->c->arena;
  Wanted w = {r, e};
  const char *name = schedule_name_of(a, r->c->k, r->loop, e->op, has_place, &w);
  if (!name) return NULL;
  if (is_move(e) || e->class == OP_CLASS_fetch)
    name = arena_printf(a, "%s.%s", schedule_plain_name(a, name), op_class_name[e->class]);
  return schedule_find(a, r->c->written, r->original, name).n ? name : NULL;
}

/* ---- rows ---- */

static OpNames one_name(Arena *a, const char *name) {
  const char **names = ARENA_ARRAY(a, const char *, 1);
  names[0] = arena_strndup(a, name, strlen(name));
  return (OpNames){names, 1};
}

static bool is_said(const Rows *r, const Entry *e) {
  bool main = e->class == OP_CLASS_fetch || e->class == OP_CLASS_mma;
  if (r->level == ROWS_copies) return moves(r, e);
  return r->level == ROWS_all ? e->class != OP_CLASS_none || e->stage < r->last
                              : moves(r, e) || main;
}

/* The row that places ops there; NULL: none yet. */
static Constraint *row_at(ConstructRows *out, const char *loop, Place to) {
  for (int i = 0; i < out->n; i++) {
    Constraint *row = &out->at[i];
    if (row->kind == CONSTRAINT_place && strcmp(row->place.loop, loop) == 0 &&
        row->place.to.stage == to.stage && row->place.to.cycle == to.cycle)
      return row;
  }
  return NULL;
}

static void add_name(Arena *a, OpNames *list, const char *name) {
  const char **names = ARENA_ARRAY(a, const char *, list->n + 1);
  for (int i = 0; i < list->n; i++) {
    if (strcmp(list->at[i], name) == 0) return;
    names[i] = list->at[i];
  }
  names[list->n] = arena_strndup(a, name, strlen(name));
  *list = (OpNames){names, list->n + 1};
}

static void add_place(Rows *r, const Entry *e, const char *name, Arena *a, ConstructRows *out) {
  Place to = {e->stage, r->level == ROWS_copies ? 0 : e->cycle};
  Constraint *row = row_at(out, r->name, to);
  if (!row) {
    vec_push(a, out, constraint_empty(CONSTRAINT_place, e->node->placed));
    row = &out->at[out->n - 1];
    row->place.loop = r->name, row->place.to = to;
  }
  add_name(a, &row->place.ops, name);
}

static void add_places(Rows *r, Arena *a, ConstructRows *out) {
  for (int i = 0; i < r->entries.n; i++) {
    const Entry *e = &r->entries.at[i];
    if (!is_said(r, e)) continue;
    const char *name = name_of(r, e);
    if (name) add_place(r, e, name, a, out);
    else
      construct_drop(
          r->c, arena_printf(r->c->arena, "the place of `%s`", construct_plain_name(r->c, e->node)),
          "other ops have the same name", e->node->placed);
  }
}

static void add_loop(Rows *r, Arena *a, ConstructRows *out) {
  const UnrollCall *unroll = construct_unrolled(r->c, r->loop);
  Constraint row = constraint_empty(CONSTRAINT_schedule, r->p->at);
  row.schedule.loop = r->name;
  row.schedule.interval = r->level == ROWS_copies ? 1 : r->interval;
  row.schedule.depth = r->last + 1;
  row.schedule.unroll = unroll ? unroll->factor : 0;
  vec_push(a, out, row);
}

/* ---- priorities ---- */

/* Ops of one priority are in one row. */
static void add_prios(Rows *r, Arena *a, ConstructRows *out) {
  for (int level = 1; level <= PRIO_MOST && construct_has_prio(r->c); level++) {
    Constraint row = constraint_empty(CONSTRAINT_prio, r->p->at);
    row.prio.loop = r->name, row.prio.level = level;
    for (int i = 0; i < r->entries.n; i++) {
      const Entry *e = &r->entries.at[i];
      const char *name = e->prio == level ? name_of(r, e) : NULL;
      if (name) add_name(a, &row.prio.ops, name);
    }
    if (row.prio.ops.n) vec_push(a, out, row);
  }
}

/* ---- turns ---- */

/* Halves of the waves that are staggered take turns at the products. */
static void add_turns(Rows *r, Arena *a, ConstructRows *out) {
  const StaggerCall *call = NULL;
  for (int i = 0; i < r->c->staggers.n; i++)
    if (r->c->staggers.at[i].loop == r->loop) call = &r->c->staggers.at[i];
  if (!call) return;
  Constraint row = constraint_empty(CONSTRAINT_turns, call->at);
  row.turns.loop = r->name, row.turns.groups = TURN_LEAST;
  for (int i = 0; i < r->entries.n; i++) {
    const Entry *e = &r->entries.at[i];
    const char *name = e->class == OP_CLASS_mma ? name_of(r, e) : NULL;
    if (name) add_name(a, &row.turns.ops, name);
  }
  if (row.turns.ops.n) vec_push(a, out, row);
  else construct_drop(r->c, CONSTRUCT_STAGGERED, "no stage has a product", call->at);
}

/* ---- slots ---- */

/* An instruction reads its tile before the next one is written in the same iteration of the loop, in
 * the requested order: of one cycle, older iterations come first. */
static bool comes_before(const Node *read, const Entry *move) {
  if (move->first != NODE_NONE && read->rank != NODE_NONE) return read->rank < move->first;
  return read->cycle <= move->cycle;
}

/* The slots without which an instruction of the reader would find the tile of another iteration. */
static int slots_needed(const Rows *r, const Entry *move, const Entry *reader) {
  int need = 1;
  for (int i = 0; i < r->c->nodes.n; i++) {
    const Node *read = &r->c->nodes.at[i];
    if (read->op != reader->op || read->class != reader->class || read->segment != SEGMENT_kernel ||
        read->unrolled)
      continue;
    int apart = read->stage - move->stage, slots = comes_before(read, move) ? apart : apart + 1;
    if (slots > need) need = slots;
  }
  return need;
}

static bool fail_slots(Rows *r, const Entry *move, const Entry *reader, int need) {
  Construct *c = r->c;
  int ahead = reader->stage - move->stage;
  Diag *d = diag_add(diags_of(c), DIAG_E0620, r->p->at,
                     "with %d buffer%s `%s` of iteration i + %d overwrites the tile that `%s` of "
                     "iteration i reads after it",
                     r->p->slots, r->p->slots == 1 ? "" : "s", construct_plain_name(c, move->node),
                     ahead, construct_plain_name(c, reader->node));
  diag_note(diags_of(c), d, move->node->placed, "fills the buffer, in stage %d", move->stage);
  diag_note(diags_of(c), d, move->op->at, "what it copies");
  diag_note(diags_of(c), d, reader->op->at, "reads the buffer, in stage %d", reader->stage);
  return diag_hint(diags_of(c), d, "give it %d buffers: `multi_buffer_count=%d`", need, need);
}

/* Slots that an operand has, 0: the compiler decides; -1 after reporting that they are too few. */
static int slots_of(Rows *r, const Entry *move) {
  const Entry *reader = reader_of(r, move);
  if (!reader || move->class == OP_CLASS_load) return 0;
  int ahead = reader->stage - move->stage, given = r->p->slots;
  if (ahead < 1) return 0;
  bool waits = move->class == OP_CLASS_store;
  int need = slots_needed(r, move, reader);
  bool late = reader->stage == r->p->depth - 1; /* otherwise it runs early, too */
  if (!given) return need > ahead && late && is_ordered(r) ? need : 0;
  if (given < need) return fail_slots(r, move, reader, need) ? 0 : -1;
  if (given > ahead || (waits && ahead == 1)) return given;
  construct_drop(r->c,
                 arena_printf(r->c->arena, "%d buffers of `%s`", given,
                              construct_plain_name(r->c, move->node)),
                 arena_printf(r->c->arena, "a tile that is copied %d iterations ahead has %d",
                              ahead, ahead + 1),
                 r->p->at);
  return 0;
}

static void add_rings(Rows *r, const int *slots, Arena *a, ConstructRows *out) {
  for (int i = 0; i < r->entries.n; i++) {
    const char *name = slots[i] > 0 ? name_of(r, &r->entries.at[i]) : NULL;
    if (!name) continue;
    Constraint row = constraint_empty(CONSTRAINT_ring, r->p->at);
    row.ring.loop = r->name;
    row.ring.ops = one_name(a, name);
    row.ring.slots = slots[i];
    vec_push(a, out, row);
  }
}

/* ---- loops ---- */

/* The only loop of its name, and one that no row is about yet. */
static bool is_free(Construct *c, const char *what, const char *name, Span at) {
  const Op *first = schedule_next_loop(c->written, NULL, name);
  const char *why = !first ? "the loop is gone"
                    : schedule_next_loop(c->written, first, name)
                        ? "another loop has the same name; a tag would distinguish them"
                        : NULL;
  for (int i = 0; !why && i < c->written->constraints.n; i++) {
    const Constraint *row = &c->written->constraints.at[i];
    if (schedule_is_row(row) && strcmp(row->scheduled.loop, name) == 0)
      why = "other rows say how it is pipelined";
  }
  if (why) construct_drop(c, arena_printf(c->arena, "%s of `%s`", what, name), why, at);
  return !why;
}

static Rows rows_of(Construct *c, const PipelineCall *p, RowsLevel level) {
  Rows r = {.c = c, .p = p, .level = level, .loop = c->nodes.at[p->loop].op};
  r.name = schedule_loop_name(c->arena, r.loop);
  r.original = schedule_next_loop(c->written, NULL, r.name);
  r.last = p->depth - 1;
  collect(&r);
  return r;
}

/* What no level says. */
static void drop_parts(Rows *r) {
  Construct *c = r->c;
  for (int i = 0; i < r->entries.n; i++) {
    const Entry *e = &r->entries.at[i];
    if (e->split)
      construct_drop(c,
                     arena_printf(c->arena, "parts of `%s` in different stages",
                                  construct_plain_name(c, e->node)),
                     arena_printf(c->arena, "the whole op is in stage %d", e->stage),
                     e->node->placed);
    if (e->count > 1 && e->last - e->first >= e->count)
      construct_drop(c, "instructions of one op apart from each other",
                     "ops are ordered as a whole, where their first instruction is", r->p->at);
  }
}

static bool add_rows(Construct *c, const PipelineCall *p, RowsLevel level, Arena *a,
                     ConstructRows *out) {
  Rows r = rows_of(c, p, level);
  int *slots = ARENA_ARRAY(c->arena, int, r.entries.n + 1);
  if (!is_free(c, "the pipeline", r.name, p->at)) return true;
  drop_parts(&r);
  number_cycles(&r);
  for (int i = 0; i < r.entries.n; i++)
    if (moves(&r, &r.entries.at[i]) && (slots[i] = slots_of(&r, &r.entries.at[i])) < 0)
      return false;
  if (level != ROWS_all) relax(&r);
  add_loop(&r, a, out);
  add_rings(&r, slots, a, out);
  add_places(&r, a, out);
  add_prios(&r, a, out);
  add_turns(&r, a, out);
  return true;
}

/* A loop that is only unrolled. */
static void add_unroll(Construct *c, const UnrollCall *call, Arena *a, ConstructRows *out) {
  Constraint row = constraint_empty(CONSTRAINT_schedule, call->at);
  row.schedule.loop = schedule_loop_name(c->arena, call->loop);
  row.schedule.unroll = call->factor;
  if (is_free(c, "unrolling", row.schedule.loop, call->at)) vec_push(a, out, row);
}

static void drop_staggers(Construct *c) {
  for (int i = 0; i < c->staggers.n; i++)
    if (!construct_pipeline_of(c, c->staggers.at[i].loop))
      construct_drop(c, CONSTRUCT_STAGGERED, "the loop is not pipelined", c->staggers.at[i].at);
}

bool construct_rows(Construct *c, RowsLevel level, Arena *a, ConstructRows *out) {
  for (int i = 0; i < c->pipelines.n; i++)
    if (c->pipelines.at[i].closed && !add_rows(c, &c->pipelines.at[i], level, a, out)) return false;
  for (int i = 0; i < c->unrolls.n; i++)
    if (!construct_pipeline_of(c, c->unrolls.at[i].loop)) add_unroll(c, &c->unrolls.at[i], a, out);
  drop_staggers(c);
  return true;
}

/* ---- the remark ---- */

static const char *const level_text[ROWS_LEVELS + 1] = {
    "is obeyed", "is obeyed, but only copies run ahead", "is obeyed as far as copies run ahead",
    "is not obeyed"};

/* "the schedule `f` is obeyed on gfx942, except for this:" */
static const char *title(const Construct *c, RowsLevel level, const char *why) {
  StrBuf out = {.arena = c->arena};
  sb_printf(&out, "the schedule `%s` %s", c->name, level_text[level]);
  if (c->target) sb_printf(&out, " on %s", c->target->name);
  if (why) sb_printf(&out, ": %s", why);
  else if (c->dropped.n) sb_printf(&out, ", except for what follows");
  return sb_text(&out);
}

void construct_remark(Construct *c, RowsLevel level, const char *why) {
  for (int i = 0; level == ROWS_all && i < c->pipelines.n; i++)
    if (c->pipelines.at[i].closed) construct_judge_barriers(c, &c->pipelines.at[i]);
  if (!c->dropped.n && level == ROWS_all) return;
  Diag *d = diag_add(diags_of(c), DIAG_R0616, c->at, "%s", title(c, level, why));
  for (int i = 0; level != ROWS_LEVELS && i < c->dropped.n; i++) {
    const Dropped *lost = &c->dropped.at[i];
    const char *times = lost->n > 1 ? arena_printf(c->arena, " (%d)", lost->n) : "";
    diag_note(diags_of(c), d, lost->at, "dropped: %s%s: %s", lost->what, times, lost->why);
  }
}
