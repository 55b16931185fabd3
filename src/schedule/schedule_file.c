/* schedule_file.c: see schedule_file.h. */
#include "schedule/schedule_file.h"

#include <string.h>

#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "schedule/interval/free_graph.h"

typedef struct Event {
  const Op *op;
  const char *name;
  int ahead, cycle;
} Event;

typedef struct Loop {
  Arena *arena;
  const ScheduledKernel *s;
  Kernel *k;
  const Kernel *written;
  const Op *loop, *original; /* in each of the two */
  const char *name;          /* of the loop */
  const TargetInfo *target;
  Vec(Event) events;
  OpList placed; /* ops without a class that rows place */
  bool around;   /* it contains another loop */
  int depth, interval;
} Loop;

/* ---- events ---- */

/* The op is computed further ahead than those that use it: rows must say so. */
static bool waits_for_users(const Loop *l, const Op *op) {
  int ahead = schedule_ahead(l->k, l->loop, op), most = 0;
  if (!ahead || schedule_class(op) != OP_CLASS_none || op->nresults != 1) return false;
  for (const Op *user = op->next; user; user = user->next) {
    int own = op_takes(user, &op->results[0]) ? schedule_ahead(l->k, l->loop, user) : 0;
    if (own > most) most = own;
  }
  for (const Op *user = l->loop->body->first; user != op; user = user->next)
    if (op_takes(user, &op->results[0])) return false; /* not in the order of an iteration */
  return ahead > most && op_is_pure(op);
}

/* Elementwise ops that rows place, or must. */
static void find_placed(Loop *l) {
  for (Op *op = l->loop->body->first; op; op = op->next)
    if (waits_for_users(l, op)) vec_push(l->arena, &l->placed, op);
  EACH_ROW(l->k, place, row) {
    if (strcmp(row->place.loop, l->name) != 0 || !schedule_is_for(row, l->target)) continue;
    for (int i = 0; i < row->place.ops.n; i++) {
      OpList found = schedule_find(l->arena, l->k, l->loop, row->place.ops.at[i]);
      for (int j = 0; j < found.n; j++)
        if (schedule_class(found.at[j]) == OP_CLASS_none)
          vec_push(l->arena, &l->placed, found.at[j]);
    }
  }
}

static bool is_placed(const Loop *l, const Op *op) {
  for (int i = 0; i < l->placed.n; i++)
    if (l->placed.at[i] == op) return true;
  return false;
}

/* What a matrix instruction reads from shared memory itself is not fetched. */
static bool is_event(const Loop *l, const Op *op) {
  OpClass class = schedule_class(op);
  bool stays = class == OP_CLASS_fetch && !op->results[0].layout;
  for (const Op *outer = op->parent->owner; outer != l->loop; outer = outer->parent->owner)
    if (!outer || outer->kind != OP_if) return false;
  return (class != OP_CLASS_none && !stays) || is_placed(l, op);
}

static const Event *event_of(const Loop *l, const Op *op) {
  for (int i = 0; i < l->events.n; i++)
    if (l->events.at[i].op == op) return &l->events.at[i];
  return NULL;
}

/* Some product is still in flight when the next iteration begins. */
static bool has_flight(const Op *loop) {
  for (const Op *op = loop->body->first; op; op = op->next)
    if (op_is_product(op) && op_has(op, ATTR_pending)) return true;
  return false;
}

/* Service waves run as far ahead as their rings allow. */
static int ahead_of(const Loop *l, const Op *op) {
  const Value *ring = op_is_served(l->k, op) ? schedule_fills(op) : NULL;
  if (ring && ring->def) return alloc_slots(ring->def) - 1 - has_flight(l->loop);
  return schedule_ahead(l->k, l->loop, op);
}

static void add_event(Loop *l, const Op *op) {
  const Event *last = l->events.n ? &l->events.at[l->events.n - 1] : NULL;
  Event e = {.op = op, .ahead = ahead_of(l, op)};
  bool joins = last && last->ahead == e.ahead && schedule_class(last->op) == schedule_class(op);
  e.cycle = !last ? 0 : joins ? last->cycle : last->cycle + 1;
  if (e.ahead >= l->depth) l->depth = e.ahead + 1;
  l->interval = e.cycle + 1;
  vec_push(l->arena, &l->events, e);
}

/* A read that `stages` moved before the loop: it is the same in each iteration, and a row places it in
 * an early stage. */
static bool is_fixed(const Loop *l, const Op *op) {
  const Attr *at = op_attr(op, ATTR_iteration);
  const Sym *axis = op_attr(l->loop, ATTR_axis)->sym;
  return op->kind == OP_read && at && at->pairs[0].key == axis &&
         ir_count_uses(l->loop->body, &op->results[0]) > 0;
}

/* Before all others, in the first stage. */
static void find_fixed(Loop *l) {
  for (const Op *op = l->loop->parent->first; op != l->loop; op = op->next)
    if (is_fixed(l, op)) vec_push(l->arena, &l->events, ((Event){.op = op, .ahead = -1}));
}

static void find_events(Loop *l) {
  find_fixed(l);
  int fixed = l->events.n;
  if (fixed) l->depth = 2;
  for (const Op *op = l->loop->body->first; op && op_is_inside(op, l->loop); op = ir_next(op)) {
    l->around |= op->kind == OP_for || op->kind == OP_while;
    if (is_event(l, op)) add_event(l, op);
  }
  for (int i = 0; i < fixed; i++) l->events.at[i].ahead = l->depth - 1;
}

/* ---- names ---- */

typedef struct Wanted {
  const Loop *l;
  const Event *event;
} Wanted;

/* Another op of the same name must have the same place; one that has none must keep it so. */
static bool has_place(const void *user, const Op *op) {
  const Wanted *w = user;
  const Event *e = event_of(w->l, op);
  bool elementwise = schedule_class(w->event->op) == OP_CLASS_none;
  if (!e && elementwise) return false;
  if (!e) return schedule_class(op) == OP_CLASS_none || !is_event(w->l, op);
  return e->ahead == w->event->ahead && e->cycle == w->event->cycle;
}

/* What the loop had when it was written, */
static bool is_written(const Loop *l, const char *name) {
  return schedule_find(l->arena, l->written, l->original, name).n > 0;
}

/* or what the compiler made, by its kind; in a loop around others, these bring ops of their own. */
static bool is_known(const void *user, const char *name) {
  const Loop *l = user;
  if (is_written(l, name)) return true;
  return !l->around && op_find(schedule_plain_name(l->arena, name)) != OP_COUNT;
}

static const char *exact_name(const Loop *l, const Op *op) {
  return schedule_exact_name(l->arena, l->k, l->loop, op, is_known, l);
}

/* With a number, which says that the compiler may have made the op. */
static const char *place_name(const Loop *l, const Op *op) {
  const char *name = exact_name(l, op);
  bool plain = name && !*schedule_split_name(l->arena, name).selection;
  return plain && !is_written(l, name) ? arena_printf(l->arena, "%s[0/1]", name) : name;
}

/* What passes values on through memory stays with what needs them, and has no place of its own. */
/* The name that an op had before it was moved out of the loop. */
static const char *original_name(const Loop *l, const Op *moved) {
  const Span at = moved->at;
  for (Op *op = l->original->body->first; op; op = op->next)
    if (op->kind == moved->kind && op->at.file == at.file && op->at.line == at.line &&
        op->at.col == at.col)
      return schedule_exact_name(l->arena, l->written, l->original, op, is_known, l);
  return NULL;
}

static void name_events(Loop *l) {
  for (int i = 0; i < l->events.n; i++) {
    Event *e = &l->events.at[i];
    Wanted w = {l, e};
    if (!op_is_inside(e->op, l->loop)) {
      e->name = original_name(l, e->op);
      continue;
    }
    const char *name = schedule_name_of(l->arena, l->k, l->loop, e->op, has_place, &w);
    if (name && is_written(l, name)) e->name = name;
    else if (!free_is_passing(l->loop, e->op)) e->name = place_name(l, e->op);
  }
}

/* Without the class, if that also finds the op. */
static const char *ring_name(const Loop *l, const Event *e) {
  const char *name = schedule_plain_name(l->arena, e->name);
  OpList found = schedule_find(l->arena, l->k, l->loop, name);
  for (int i = 0; i < found.n; i++)
    if (found.at[i] == e->op) return name;
  return e->name;
}

/* ---- rows ---- */

static void print_row(StrBuf *out, const Loop *l, Constraint row) {
  StrBuf text = {.arena = l->arena};
  ir_print_row(&text, l->k, &row);
  sb_printf(out, "%s\n", sb_text(&text) + strspn(sb_text(&text), " "));
}

static void print_loop_row(StrBuf *out, const Loop *l) {
  const Attr *unroll = op_attr(l->loop, ATTR_unroll);
  Constraint row = constraint_empty(CONSTRAINT_schedule, l->loop->at);
  row.schedule.loop = l->name;
  row.schedule.target = l->target->name;
  row.schedule.interval = l->interval;
  row.schedule.depth = l->depth;
  row.schedule.unroll = unroll ? (int)unroll->integer : 0;
  row.schedule.drain = op_has(l->loop, ATTR_peel) ? "peeled" : l->depth > 1 ? "masked" : NULL;
  row.schedule.hash = schedule_hash(l->arena, l->original);
  print_row(out, l, row);
}

/* How far ahead a tile is stored, not loaded. */
static int stored_ahead(const Loop *l, const Value *memory) {
  int ahead = 0;
  for (int i = 0; i < l->events.n; i++)
    if (memory_written(l->events.at[i].op) == memory && l->events.at[i].ahead > ahead)
      ahead = l->events.at[i].ahead;
  return ahead;
}

/* The ring that an op is the first of the loop to fill, or the only slot that is filled for another
 * iteration; NULL: none. */
static const Value *ring_of(const Loop *l, const Event *e) {
  const Value *memory = e->name ? schedule_fills(e->op) : NULL;
  bool ring = memory && memory->def && memory->def->kind == OP_alloc;
  for (const Event *f = l->events.at; ring && f < e; f++)
    if (f->name && schedule_fills(f->op) == memory) return NULL;
  return ring && (stored_ahead(l, memory) > 0 || alloc_slots(memory->def) > 1) ? memory : NULL;
}

/* Adds a name to a sorted list: the order of ops of one cycle has no meaning. */
static int list_name(const char **names, int n, const char *name) {
  int at = n;
  for (int i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return n;
  for (; at > 0 && strcmp(names[at - 1], name) > 0; at--) names[at] = names[at - 1];
  names[at] = name;
  return n + 1;
}

static void print_ring(StrBuf *out, const Loop *l, const char *name, int slots) {
  Constraint row = constraint_empty(CONSTRAINT_ring, l->loop->at);
  row.ring.loop = l->name;
  row.ring.ops = (OpNames){&name, 1};
  row.ring.slots = slots;
  row.ring.target = l->target->name;
  print_row(out, l, row);
}

static void print_rings(StrBuf *out, const Loop *l) {
  const char **names = ARENA_ARRAY(l->arena, const char *, l->events.n);
  int n = 0;
  for (int i = 0; i < l->events.n; i++)
    if (ring_of(l, &l->events.at[i])) n = list_name(names, n, ring_name(l, &l->events.at[i]));
  for (int i = 0; i < n; i++)
    for (int j = 0; j < l->events.n; j++) {
      const Value *memory = ring_of(l, &l->events.at[j]);
      if (!memory || strcmp(ring_name(l, &l->events.at[j]), names[i]) != 0) continue;
      print_ring(out, l, names[i], alloc_slots(memory->def));
      break;
    }
}

/* All ops of a cycle in one row. */
static void print_places(StrBuf *out, const Loop *l) {
  const char **names = ARENA_ARRAY(l->arena, const char *, l->events.n);
  for (int cycle = 0; cycle < l->interval; cycle++) {
    Constraint row = constraint_empty(CONSTRAINT_place, l->loop->at);
    int n = 0;
    for (int i = 0; i < l->events.n; i++) {
      const Event *e = &l->events.at[i];
      if (e->cycle != cycle || !e->name) continue;
      row.place.to = (Place){l->depth - 1 - e->ahead, cycle};
      n = list_name(names, n, e->name);
    }
    row.place.loop = l->name;
    row.place.ops = (OpNames){names, n};
    row.place.target = l->target->name;
    if (n) print_row(out, l, row);
  }
}

/* ---- the order ---- */

/* Whether rows say where the op is: not waits and the like, which are derived. */
static bool is_listed(const Loop *l, const Op *op) {
  bool derived = (op_info[op->kind].flags & OPF_SYNC) || op->kind == OP_yield ||
                 op->kind == OP_async_commit || op->kind == OP_turn || op->kind == OP_wave_prio;
  bool stays = schedule_class(op) == OP_CLASS_fetch && !op->results[0].layout;
  return !derived && !stays && !op_is_served(l->k, op);
}

static bool is_later(const Op *a, const Op *b) {
  if (a->at.file != b->at.file) return a->at.file > b->at.file;
  return a->at.line != b->at.line ? a->at.line > b->at.line : a->at.col > b->at.col;
}

/* Cycles say it all: each op has one and is whole, and those of one cycle are as they were written. */
static bool has_cycles(const Loop *l) {
  const Event *last = NULL;
  for (const Op *op = l->loop->body->first; op; op = op->next) {
    const Event *e = event_of(l, op);
    if (!is_listed(l, op)) continue;
    if (!e || !e->name || op_has(op, ATTR_part)) return false;
    if (last && last->cycle == e->cycle && is_later(last->op, op)) return false;
    last = e;
  }
  return true;
}

static void print_order(StrBuf *out, const Loop *l) {
  Vec(const char *) names = {0};
  Constraint row = constraint_empty(CONSTRAINT_order, l->loop->at);
  if (has_cycles(l)) return;
  for (const Op *op = l->loop->body->first; op; op = op->next) {
    const char *name = is_listed(l, op) ? exact_name(l, op) : NULL;
    if (name) vec_push(l->arena, &names, name);
  }
  row.order.loop = l->name;
  row.order.ops = (OpNames){names.at, names.n};
  row.order.target = l->target->name;
  if (names.n > 1) print_row(out, l, row);
}

/* ---- predicted times, as comments ---- */

/* "x.copy"; the kind of a barrier or wait; NULL for other ops. */
static const char *called(const Loop *l, const Op *op) {
  const Event *e = event_of(l, op);
  bool orders = op_info[op->kind].flags & OPF_SYNC;
  return e && e->name ? e->name : orders ? op_info[op->kind].name : NULL;
}

/* From the first op of the body around the loop. */
static int first_of_cycle(const LoopTimes *t) {
  int first = 0;
  for (int i = 1; i < t->cycle.n; i++)
    if (t->cycle.at[i]->id < t->cycle.at[first]->id) first = i;
  return first;
}

static void print_cycle(StrBuf *out, const Loop *l, const LoopTimes *t) {
  int first = first_of_cycle(t), others = 0;
  const char *before = "";
  for (int i = 0; i <= t->cycle.n; i++) {
    const Op *op = i < t->cycle.n ? t->cycle.at[(first + i) % t->cycle.n] : NULL;
    const char *name = op ? called(l, op) : NULL;
    if (op && !name && op->kind != OP_yield) others++;
    if (others && (name || !op)) {
      sb_printf(out, "%s%d other op%s", before, others, others > 1 ? "s" : "");
      others = 0, before = ", ";
    }
    if (name) sb_printf(out, "%s%s", before, name), before = ", ";
  }
}

static void print_limit(StrBuf *out, const Loop *l, const LoopTimes *t) {
  sb_puts(out, "# limited by ");
  if (t->limit >= 0) sb_printf(out, "the %s", unit_info[t->limit].doc);
  else print_cycle(out, l, t);
  sb_putc(out, '\n');
}

/* The two waves that stand for all are of the first group and the last one. */
static void print_lag(StrBuf *out, const LoopTimes *t) {
  int first = loop_product(&t->graph, 0), last = loop_product(&t->graph, 1);
  if (!t->graph.turns.n || first < 0 || last < 0) return;
  int64_t lag = t->at[last] - t->at[first];
  lag -= floor_div64(lag, t->cycles) * t->cycles;
  sb_printf(out, "# turns: the last group multiplies %lld cycles after the first\n",
            (long long)lag);
}

static void print_times(StrBuf *out, const Loop *l) {
  const ScheduledKernel *s = l->s;
  if (!s->uses) return;
  LoopTimes t = loop_times(l->arena, s->d, s->machine, s->uses, l->loop, 0);
  if (t.why_not) {
    sb_printf(out, "# no prediction: %s\n", t.why_not);
    return;
  }
  sb_printf(out, "# predicted: %lld cycles per iteration", (long long)t.cycles);
  if (t.bound < t.cycles) sb_printf(out, ", at least %lld", (long long)t.bound);
  const char *before = "\n# busy: ";
  for (int u = 0; u < UNIT_COUNT; u++) {
    if (t.busy[u] < 0.005) continue;
    sb_printf(out, "%s%s %.0f %%", before, unit_info[u].name, t.busy[u] * 100);
    before = ", ";
  }
  sb_putc(out, '\n');
  print_lag(out, &t);
  print_limit(out, l, &t);
}

/* Priorities, fences and turns are those the user gave. */
static void print_given(StrBuf *out, const Loop *l) {
  for (int i = 0; i < l->k->constraints.n; i++) {
    Constraint row = l->k->constraints.at[i];
    if (row.kind != CONSTRAINT_prio && row.kind != CONSTRAINT_fence && row.kind != CONSTRAINT_turns)
      continue;
    if (strcmp(row.scheduled.loop, l->name) != 0 || !schedule_is_for(&row, l->target)) continue;
    if (row.kind == CONSTRAINT_prio) row.prio.target = l->target->name;
    else if (row.kind == CONSTRAINT_fence) row.fence.target = l->target->name;
    else row.turns.target = l->target->name;
    print_row(out, l, row);
  }
}

/* So are roles, if copies have one. */
static void print_roles(StrBuf *out, const Loop *l) {
  bool has = false;
  for (int i = 0; i < l->events.n; i++) has |= op_is_served(l->k, l->events.at[i].op);
  for (int i = 0; has && i < l->k->constraints.n; i++) {
    Constraint row = l->k->constraints.at[i];
    if (row.kind != CONSTRAINT_roles && row.kind != CONSTRAINT_member) continue;
    if (strcmp(row.scheduled.loop, l->name) != 0 || !schedule_is_for(&row, l->target)) continue;
    if (row.kind == CONSTRAINT_roles) row.roles.target = l->target->name;
    else row.member.target = l->target->name;
    print_row(out, l, row);
  }
}

/* ---- loops ---- */

static void print_loop(StrBuf *out, Loop *l) {
  find_placed(l);
  find_events(l);
  name_events(l);
  sb_printf(out, "Initiation Interval: %d\nNumber of Stages: %d\n", l->interval, l->depth);
  print_loop_row(out, l);
  print_rings(out, l);
  print_places(out, l);
  print_order(out, l);
  print_given(out, l);
  print_roles(out, l);
  print_times(out, l);
}

void schedule_print(StrBuf *out, const ScheduledKernel *s) {
  const Kernel *written = s->written;
  for (const Op *op = ir_first(written); op; op = ir_next(op)) {
    if (op->kind != OP_for) continue;
    Arena *a = arena_new();
    const char *name = schedule_loop_name(a, op);
    Loop l = {.arena = a, .s = s, .k = s->k, .written = written, .original = op, .name = name};
    l.target = s->target;
    bool first = schedule_next_loop(written, NULL, name) == op;
    l.loop = schedule_next_loop(s->k, NULL, name);
    l.depth = l.interval = 1;
    if (l.loop && out->n) sb_putc(out, '\n');
    if (l.loop && first) print_loop(out, &l);
    else if (l.loop)
      sb_printf(out, "# `%s` is also the name of another loop: a tag would distinguish them\n",
                name);
    arena_free(a);
  }
}
