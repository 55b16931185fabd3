/* construct_rows.c: rows of a schedule for what a function requests, and a remark for the rest. */
#include <string.h>

#include "construct/entries.h"
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/schedule/turn_ops.h"

static Diags *diags_of(const Construct *c) { return &c->k->cx->diags; }

/* ---- entries ---- */

/* It brings a tile to shared memory. */
static bool is_move(const Entry *e) {
  OpClass class = e->node.class;
  return class == OP_CLASS_copy || class == OP_CLASS_store ||
         (class == OP_CLASS_load && (schedule_fills(e->node.op) || e->node.op->kind == OP_read));
}

/* As is_move, but a load that stays in registers is not one. */
static bool moves(const Rows *r, const Entry *e) {
  if (!is_move(e)) return false;
  return e->node.class != OP_CLASS_load || schedule_fills(e->node.op) ||
         entries_of(r, e->node.op, OP_CLASS_store);
}

/* ---- how far ahead ---- */

static bool reads_tile(const Rows *r, const Entry *move, const Entry *e) {
  const Value *memory = schedule_fills(move->node.op);
  if (!r->c->target || !memory)
    return e->node.op == move->node.op && e->node.class == OP_CLASS_fetch;
  if (e->node.op->kind == OP_read) return memory_root(e->node.op->args[0]) == memory;
  for (int i = 0; i < e->node.op->nargs; i++) {
    const Op *read = e->node.op->args[i]->def;
    if (read && read->kind == OP_read && memory_root(read->args[0]) == memory) return true;
  }
  return false;
}

/* The last op that reads a tile: a fetch, or a matmul that reads shared memory itself. */
static const Entry *reader_of(const Rows *r, const Entry *move) {
  const Entry *last = NULL;
  for (int i = 0; i < r->entries.n; i++) {
    const Entry *e = &r->entries.at[i];
    if (!moves(r, e) && reads_tile(r, move, e) && (!last || e->node.class == OP_CLASS_fetch) &&
        !(last && last->node.class == OP_CLASS_fetch && last->node.stage >= e->node.stage))
      last = e;
  }
  return last;
}

static int ahead_of(const Rows *r, const Entry *move) {
  const Entry *reader = reader_of(r, move);
  return (reader ? reader->node.stage : r->p->depth - 1) - move->node.stage;
}

/* A tile waits in registers for at most one iteration. */
static int distance(const Rows *r, const Entry *move) {
  const Entry *store =
      move->node.class == OP_CLASS_load ? entries_of(r, move->node.op, OP_CLASS_store) : NULL;
  int kept = store && store->node.stage > move->node.stage ? 1 : 0;
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
  for (int i = 0; i < r->entries.n; i++) r->entries.at[i].node.stage = r->last - ahead[i];
}

/* ---- names ---- */

typedef struct Wanted {
  const Rows *r;
  const Entry *e;
  bool whole; /* all parts of the op are meant */
} Wanted;

static bool are_parts_equal(const Node *a, const Node *b) {
  for (int i = 0; i < a->nparts || i < b->nparts; i++) {
    if (i >= a->nparts || i >= b->nparts) return false;
    const NodePart *x = &a->parts[i], *y = &b->parts[i];
    if (x->of != y->of || (x->of > 1 && (x->at != y->at || x->dim != y->dim))) return false;
  }
  return true;
}

static bool is_whole(const Node *node) {
  for (int i = 0; i < node->nparts; i++)
    if (node->parts[i].of > 1) return false;
  return true;
}

/* All entries of an op that are meant have the place, and there is one. */
static bool has_place(const Wanted *w, const Op *op, OpClass class) {
  bool any = false;
  for (int i = 0; i < w->r->entries.n; i++) {
    const Node *node = &w->r->entries.at[i].node, *mine = &w->e->node;
    if (node->op != op || node->class != class) continue;
    if (!w->whole && !are_parts_equal(node, mine)) continue;
    any = true;
    if (node->stage != mine->stage || node->cycle != mine->cycle) return false;
  }
  return any;
}

/* Another op of the same name must have the same place. */
static bool is_there(const void *user, const Op *op) {
  const Wanted *w = user;
  bool own = op == w->e->node.op || is_move(w->e);
  return has_place(w, op, own ? w->e->node.class : schedule_class(op));
}

/* Its class, and which part it is: `read_a.fetch[K 0/2]` for `read_a`. */
static const char *full_name(Arena *a, const Entry *e, bool whole, const char *text) {
  OpName name = schedule_split_name(a, text);
  StrBuf out = {.arena = a};
  const char *separator = "[";
  bool classed = is_move(e) || e->node.class == OP_CLASS_fetch;
  if (classed) sb_printf(&out, "%s.%s", name.plain, op_class_name[e->node.class]);
  else sb_puts(&out, name.called);
  if (name.of) sb_printf(&out, "[%d/%d", name.at, name.of), separator = ", ";
  for (int i = 0; !whole && i < e->node.nparts; i++) {
    const NodePart *part = &e->node.parts[i];
    if (part->of < 2) continue;
    sb_printf(&out, "%s%s %d/%d", separator, sym_name(part->dim), part->at, part->of);
    separator = ", ";
  }
  if (*separator == ',') sb_putc(&out, ']');
  return sb_text(&out);
}

static bool is_written(const void *user, const char *name) {
  const Rows *r = user;
  return schedule_find(r->c->arena, r->c->written, r->original, name).n > 0;
}

/* A name for the entry alone; NULL: there is none. */
static const char *exact_name(const Rows *r, const Entry *e, bool whole) {
  Arena *a = r->c->arena;
  const char *name = schedule_exact_name(a, r->c->k, r->loop, e->node.op, is_written, r);
  if (name) name = full_name(a, e, whole, name);
  return name && is_written(r, name) ? name : NULL;
}

/* A name for it, and perhaps for others that have the same place. */
static const char *name_of(const Rows *r, const Entry *e, bool whole) {
  Arena *a = r->c->arena;
  Wanted w = {r, e, whole};
  const char *name = schedule_name_of(a, r->c->k, r->loop, e->node.op, is_there, &w);
  if (!name) return exact_name(r, e, whole);
  name = full_name(a, e, whole, name);
  return is_written(r, name) ? name : NULL;
}

/* All parts of its op are at the same place. */
static bool is_in_one_place(const Rows *r, const Entry *e) {
  Wanted w = {r, e, .whole = true};
  return has_place(&w, e->node.op, e->node.class);
}

/* ---- rows ---- */

static OpNames one_name(Arena *a, const char *name) {
  const char **names = ARENA_ARRAY(a, const char *, 1);
  names[0] = arena_strndup(a, name, strlen(name));
  return (OpNames){names, 1};
}

static bool is_said(const Rows *r, const Entry *e) {
  bool main = e->node.class == OP_CLASS_fetch || e->node.class == OP_CLASS_mma;
  if (r->level == ROWS_copies) return moves(r, e);
  return r->level <= ROWS_whole ? e->node.class != OP_CLASS_none || e->node.stage < r->last
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
  Place to = {e->node.stage, r->level == ROWS_copies ? 0 : e->node.cycle};
  Constraint *row = row_at(out, r->name, to);
  if (!row) {
    vec_push(a, out, constraint_empty(CONSTRAINT_place, e->node.placed));
    row = &out->at[out->n - 1];
    row->place.loop = r->name, row->place.to = to;
  }
  add_name(a, &row->place.ops, name);
}

static void add_places(Rows *r, Arena *a, ConstructRows *out) {
  for (int i = 0; i < r->entries.n; i++) {
    const Entry *e = &r->entries.at[i];
    if (!is_said(r, e)) continue;
    const char *name = name_of(r, e, is_in_one_place(r, e));
    if (name) add_place(r, e, name, a, out);
    else
      construct_drop(
          r->c,
          arena_printf(r->c->arena, "the place of `%s`", construct_plain_name(r->c, &e->node)),
          "other ops have the same name", e->node.placed);
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

/* ---- the order ---- */

/* Without reorder_graph, cycles say the order of all but the parts of one op. */
static void add_order(Rows *r, Arena *a, ConstructRows *out) {
  Constraint row = constraint_empty(CONSTRAINT_order, r->p->at);
  const Entry **sorted = entries_sorted(r);
  row.order.loop = r->name;
  for (int i = 0; i < r->entries.n && r->level == ROWS_all; i++) {
    const Entry *e = sorted[i];
    if (r->ordered ? !e->listed : is_whole(&e->node)) continue;
    const char *name = exact_name(r, e, false);
    if (name) add_name(a, &row.order.ops, name);
    else
      construct_drop(
          r->c,
          arena_printf(r->c->arena, "the order of `%s`", construct_plain_name(r->c, &e->node)),
          "other ops have the same name", e->node.placed);
  }
  if (row.order.ops.n) vec_push(a, out, row);
}

/* ---- priorities ---- */

static bool has_one_prio(const Rows *r, const Entry *e) {
  for (int i = 0; i < r->entries.n; i++) {
    const Entry *other = &r->entries.at[i];
    if (other->node.op == e->node.op && other->node.class == e->node.class &&
        other->prio != e->prio)
      return false;
  }
  return true;
}

/* Ops of one priority are in one row. */
static void add_prios(Rows *r, Arena *a, ConstructRows *out) {
  for (int level = 1; level <= PRIO_MOST && construct_has_prio(r->c); level++) {
    Constraint row = constraint_empty(CONSTRAINT_prio, r->p->at);
    row.prio.loop = r->name, row.prio.level = level;
    for (int i = 0; i < r->entries.n; i++) {
      const Entry *e = &r->entries.at[i];
      const char *name = e->prio == level ? exact_name(r, e, has_one_prio(r, e)) : NULL;
      if (name) add_name(a, &row.prio.ops, name);
    }
    if (row.prio.ops.n) vec_push(a, out, row);
  }
}

/* ---- fences ---- */

/* All instructions of the node's entry are after the fence, or before it. */
static bool is_beside(const Rows *r, const WrittenFence *f, const Entry *e) {
  const Construct *c = r->c;
  int rank = c->nodes.at[f->node].rank;
  for (int i = 0; i < c->nodes.n; i++) {
    const Node *node = &c->nodes.at[i];
    if (entries_with(r, node) == e && (f->after ? node->rank > rank : node->rank < rank))
      return false;
  }
  return true;
}

/* The entry that begins after a fence; after the last one, the next iteration begins. */
static const Entry *fenced(const Rows *r, const WrittenFence *f, const char **why) {
  const Node *node = &r->c->nodes.at[f->node];
  const Entry *e = entries_with(r, node), *first = NULL;
  *why = "the order of ops is not given";
  if (!e || (f->after && node->rank == NODE_NONE)) return NULL;
  *why = "instructions on both sides are placed as a whole";
  if (!is_beside(r, f, e)) return NULL;
  if (!f->after) return e;
  const Entry **sorted = entries_sorted(r);
  for (int i = 0; i < r->entries.n; i++) {
    if (!sorted[i]->listed) continue;
    if (!first) first = sorted[i];
    if (sorted[i]->first > node->rank) return sorted[i];
  }
  return first;
}

static void add_fences(Rows *r, Arena *a, ConstructRows *out) {
  Constraint row = constraint_empty(CONSTRAINT_fence, r->p->at);
  row.fence.loop = r->name;
  for (int i = 0; i < r->c->fences.n; i++) {
    const WrittenFence *f = &r->c->fences.at[i];
    const char *why;
    if (construct_loop(&r->c->nodes.at[f->node]) != r->loop) continue;
    const Entry *e = fenced(r, f, &why);
    const char *name = e ? exact_name(r, e, false) : NULL;
    if (name && r->level == ROWS_all) add_name(a, &row.fence.ops, name);
    else construct_drop_fence(r->c, f, e ? "ops are placed as a whole" : why);
  }
  if (row.fence.ops.n) vec_push(a, out, row);
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
    const char *name = e->node.class == OP_CLASS_mma ? exact_name(r, e, true) : NULL;
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
  return read->cycle <= move->node.cycle;
}

/* The slots without which an instruction of the reader would find the tile of another iteration. */
static int slots_needed(const Rows *r, const Entry *move, const Entry *reader) {
  int need = 1;
  for (int i = 0; i < r->c->nodes.n; i++) {
    const Node *read = &r->c->nodes.at[i];
    if (read->op != reader->node.op || read->class != reader->node.class ||
        read->segment != SEGMENT_kernel || read->unrolled)
      continue;
    int apart = read->stage - move->node.stage,
        slots = comes_before(read, move) ? apart : apart + 1;
    if (slots > need) need = slots;
  }
  return need;
}

static bool fail_slots(Rows *r, const Entry *move, const Entry *reader, int need) {
  Construct *c = r->c;
  int ahead = reader->node.stage - move->node.stage;
  Diag *d = diag_add(diags_of(c), DIAG_E0620, r->p->at,
                     "with %d buffer%s `%s` of iteration i + %d overwrites the tile that `%s` of "
                     "iteration i reads after it",
                     r->p->slots, r->p->slots == 1 ? "" : "s", construct_plain_name(c, &move->node),
                     ahead, construct_plain_name(c, &reader->node));
  diag_note(diags_of(c), d, move->node.placed, "fills the buffer, in stage %d", move->node.stage);
  diag_note(diags_of(c), d, move->node.op->at, "what it copies");
  diag_note(diags_of(c), d, reader->node.op->at, "reads the buffer, in stage %d",
            reader->node.stage);
  return diag_hint(diags_of(c), d, "give it %d buffers: `multi_buffer_count=%d`", need, need);
}

/* Slots that an operand has, 0: the compiler decides; -1 after reporting that they are too few. */
static int slots_of(Rows *r, const Entry *move) {
  const Entry *reader = reader_of(r, move);
  if (!reader || move->node.class == OP_CLASS_load) return 0;
  int ahead = reader->node.stage - move->node.stage, given = r->p->slots;
  if (ahead < 1) return 0;
  bool waits = move->node.class == OP_CLASS_store;
  int need = slots_needed(r, move, reader);
  bool late = reader->node.stage == r->p->depth - 1; /* otherwise it runs early, too */
  if (!given) return need > ahead && late && r->ordered ? need : 0;
  if (given < need) return fail_slots(r, move, reader, need) ? 0 : -1;
  if (given > ahead || (waits && ahead == 1)) return given;
  construct_drop(r->c,
                 arena_printf(r->c->arena, "%d buffers of `%s`", given,
                              construct_plain_name(r->c, &move->node)),
                 arena_printf(r->c->arena, "a tile that is copied %d iterations ahead has %d",
                              ahead, ahead + 1),
                 r->p->at);
  return 0;
}

static void add_rings(Rows *r, const int *slots, Arena *a, ConstructRows *out) {
  for (int i = 0; i < r->entries.n; i++) {
    const char *name = slots[i] > 0 ? exact_name(r, &r->entries.at[i], true) : NULL;
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
  entries_collect(&r);
  return r;
}

static bool add_rows(Construct *c, const PipelineCall *p, RowsLevel level, Arena *a,
                     ConstructRows *out) {
  Rows r = rows_of(c, p, level);
  int *slots = ARENA_ARRAY(c->arena, int, r.entries.n + 1);
  if (!is_free(c, "the pipeline", r.name, p->at)) return true;
  entries_number(&r);
  for (int i = 0; i < r.entries.n; i++)
    if (moves(&r, &r.entries.at[i]) && (slots[i] = slots_of(&r, &r.entries.at[i])) < 0)
      return false;
  if (level > ROWS_whole) relax(&r);
  add_loop(&r, a, out);
  add_rings(&r, slots, a, out);
  add_places(&r, a, out);
  add_order(&r, a, out);
  add_prios(&r, a, out);
  add_fences(&r, a, out);
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
    "is obeyed", "is obeyed, but ops are placed as a whole", "is obeyed, but only copies run ahead",
    "is obeyed as far as copies run ahead", "is not obeyed"};

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
