/* cpu_lanes_region.c: regions in which threads meet, around the loops over threads.
 *
 * If all threads take the same path, branches and counters are the CPU's. Otherwise each thread has
 * a truth value that says whether it takes part; after the region, the one of the enclosing region
 * is restored. */
#include "backend/cpu/lanes/cpu_lanes.h"

#include <inttypes.h>

#include "ir/region_facts.h"

/* ---- participating threads ---- */

/* Allocates truth values; no thread takes part yet. */
static int64_t new_mask(Llvm *p) {
  const Lanes *l = p->cpu->lanes;
  int64_t mask = lanes_reserve(p, l->copies);
  const char *at = lanes_at(p, mask, 1, l->from);
  llvm_call_void(
      p, "llvm.memset.p0.i64", "ptr, i8, i64, i1",
      arena_printf(p->arena, "ptr %s, i8 0, i64 %d, i1 false", at, l->copies / l->apart));
  return mask;
}

static void store_byte(Llvm *p, int64_t offset, const char *who, const char *byte) {
  llvm_line(p, "store i8 %s, ptr %s, align 1", byte, lanes_at(p, offset, 1, who));
}

static const char *load_byte(Llvm *p, int64_t offset, const char *who) {
  return llvm_let(p, "load i8, ptr %s, align 1", lanes_at(p, offset, 1, who));
}

static void open_vote(Llvm *p) { store_byte(p, p->cpu->lanes->any, p->cpu->lanes->own, "0"); }

/* In a loop over threads: records `byte` for this thread. */
static void say(Llvm *p, const char *byte) {
  const Lanes *l = p->cpu->lanes;
  const char *any = load_byte(p, l->any, l->own);
  store_byte(p, l->any, l->own, llvm_let(p, "or i8 %s, %s", any, byte));
}

/* Records whether this thread takes part. */
static void vote(Llvm *p, int64_t mask, const char *test) {
  const char *byte = llvm_let(p, "zext i1 %s to i8", test);
  store_byte(p, mask, p->cpu->lanes->thread, byte);
  say(p, byte);
}

static const char *somebody(Llvm *p) {
  return llvm_let(p, "icmp ne i8 %s, 0", load_byte(p, p->cpu->lanes->any, p->cpu->lanes->own));
}

/* ---- symbols inside ---- */

typedef struct Inside {
  ScopeMark mark;
  int symbols;
  int64_t mask;
  const SymFacts *facts;
} Inside;

static Inside go_inside(Llvm *p, int64_t mask) {
  Lanes *l = p->cpu->lanes;
  Inside in = {llvm_scope_open(p), l->symbols.n, l->mask, p->facts};
  l->mask = mask;
  return in;
}

static void come_out(Llvm *p, const Inside *in) {
  llvm_scope_close(p, in->mark);
  p->cpu->lanes->symbols.n = in->symbols;
  p->cpu->lanes->mask = in->mask;
  p->facts = in->facts;
}

static void see(Llvm *p, const Sym *symbol, const Value *value, int64_t offset) {
  vec_push(p->arena, &p->cpu->lanes->symbols, ((LaneSymbol){symbol, value, offset}));
}

/* ---- for ---- */

static const Sym *counter_of(const Llvm *p, const Op *op) {
  return ir_loop_counter(p->k, op_attr(op, ATTR_axis)->sym);
}

static void body_of_for(Llvm *p, const Op *op) {
  p->facts = loop_facts(p->k, p->arena, op, p->entry, p->facts);
  lanes_region(p, op->body);
  if (!p->failed) lanes_copy(p, op->body->args, op->body->last->args, op->body->nargs);
  if (p->machine->watch->rounds[op->id] != LLVM_NEVER_ASKS) cpu_round(p, 1);
}

static void counted_for(Llvm *p, const Op *op) {
  const char *trips = llvm_expr(p, op, op_attr(op, ATTR_trips)->sym), *at = llvm_new(p);
  const char *start = llvm_loop_start(p, op, 64), *next = llvm_new(p);
  const char *head = llvm_label(p, "loop"), *latch = llvm_label(p, "again"),
             *end = llvm_label(p, "end");
  const char *any = llvm_let(p, "icmp slt i64 %s, %s", start, trips), *before = p->block;
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", any, head, end);
  llvm_block(p, head);
  llvm_line(p, "%s = phi i64 [ %s, %%%s ], [ %s, %%%s ]", at, start, before, next, latch);
  Inside in = go_inside(p, p->cpu->lanes->mask);
  llvm_define(p, counter_of(p, op), index_named(at));
  body_of_for(p, op);
  come_out(p, &in);
  llvm_line(p, "br label %%%s", latch);
  llvm_block(p, latch);
  llvm_line(p, "%s = add nsw i64 %s, %" PRId64, next, at, op_step(op));
  const char *more = llvm_let(p, "icmp slt i64 %s, %s", next, trips);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", more, head, end);
  llvm_block(p, end);
}

/* Each thread counts for itself: `count` and `trips` are kept. */
typedef struct OwnCount {
  int64_t mask, count, trips;
} OwnCount;

static const char *load_index(Llvm *p, int64_t offset) {
  return llvm_let(p, "load i64, ptr %s, align 8", lanes_at(p, offset, 8, p->cpu->lanes->thread));
}

static void store_index(Llvm *p, int64_t offset, const char *v) {
  llvm_line(p, "store i64 %s, ptr %s, align 8", v, lanes_at(p, offset, 8, p->cpu->lanes->thread));
}

static OwnCount open_counts(Llvm *p, const Op *op) {
  int64_t bytes = 8 * (int64_t)p->cpu->lanes->copies;
  OwnCount c = {new_mask(p), lanes_reserve(p, bytes), lanes_reserve(p, bytes)};
  LaneLoop loop = lanes_open(p);
  if (op_carried(op)) lanes_read(p, op->args[0]);
  store_index(p, c.count, llvm_loop_start(p, op, 64));
  store_index(p, c.trips, llvm_expr(p, op, op_attr(op, ATTR_trips)->sym));
  store_byte(p, c.mask, p->cpu->lanes->thread, "1");
  lanes_close(p, &loop);
  return c;
}

static void vote_counts(Llvm *p, const OwnCount *c) {
  open_vote(p);
  LaneLoop loop = lanes_open(p);
  const char *at = load_index(p, c->count), *trips = load_index(p, c->trips);
  vote(p, c->mask, llvm_let(p, "icmp slt i64 %s, %s", at, trips));
  lanes_close(p, &loop);
}

static void count_on(Llvm *p, const OwnCount *c, int64_t step) {
  LaneLoop loop = lanes_open(p);
  store_index(p, c->count, llvm_let(p, "add nsw i64 %s, %" PRId64, load_index(p, c->count), step));
  lanes_close(p, &loop);
}

/* Repeats until no thread continues: `test` votes, `body` runs for those that do. */
typedef struct Rounds {
  const char *head, *body, *end;
} Rounds;

static Rounds open_rounds(Llvm *p) {
  Rounds r = {llvm_label(p, "round"), llvm_label(p, "do"), llvm_label(p, "end")};
  llvm_line(p, "br label %%%s", r.head);
  llvm_block(p, r.head);
  return r;
}

static void begin_round(Llvm *p, const Rounds *r) {
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", somebody(p), r->body, r->end);
  llvm_block(p, r->body);
}

static void end_rounds(Llvm *p, const Rounds *r) {
  llvm_line(p, "br label %%%s", r->head);
  llvm_block(p, r->end);
}

static void own_for(Llvm *p, const Op *op) {
  OwnCount c = open_counts(p, op);
  Inside in = go_inside(p, c.mask);
  Rounds r = open_rounds(p);
  vote_counts(p, &c);
  begin_round(p, &r);
  see(p, counter_of(p, op), NULL, c.count);
  body_of_for(p, op);
  count_on(p, &c, op_step(op));
  come_out(p, &in);
  end_rounds(p, &r);
}

void lanes_for(Llvm *p, const Op *op) {
  lanes_copy(p, op->body->args, op->args + op_carried(op), op->body->nargs);
  if (p->cpu->lanes->uniform_region[op->id]) counted_for(p, op);
  else own_for(p, op);
}

/* ---- while ---- */

static void see_carried(Llvm *p, const Op *op) {
  const Region *body = op->body;
  see(p, op_attr(op, ATTR_version)->sym, body->args[0], LANES_NOWHERE);
  for (int i = 1; i < body->nargs; i++)
    if (llvm_is_integer(body->args[i]))
      see(p, ir_iter_arg(p->k->cx, i - 1), body->args[i], LANES_NOWHERE);
}

static void take_all(Llvm *p, int64_t mask) {
  LaneLoop loop = lanes_open(p);
  store_byte(p, mask, p->cpu->lanes->thread, "1");
  lanes_close(p, &loop);
}

/* For a loop that waits: some thread found something new in this iteration. */
static const char *has_changed(Llvm *p, const Op *op) {
  const Region *body = op->body;
  if (!cpu_only_looks(op)) return "true";
  open_vote(p);
  LaneLoop loop = lanes_open(p);
  for (int i = 0; i < body->nargs; i++) {
    lanes_read(p, body->args[i]), lanes_read(p, body->last->args[i]);
    const char *a = llvm_index_of(p, body->args[i]), *b = llvm_index_of(p, body->last->args[i]);
    say(p, llvm_let(p, "zext i1 %s to i8", llvm_let(p, "icmp ne i64 %s, %s", a, b)));
  }
  lanes_close(p, &loop);
  return somebody(p);
}

static void end_of_round(Llvm *p, const Op *op) {
  const Region *body = op->body;
  bool waits = cpu_is_waiting(op);
  const char *changed = waits ? has_changed(p, op) : NULL;
  lanes_copy(p, body->args, body->last->args, body->nargs);
  if (waits) cpu_wait(p, op, changed);
}

void lanes_while(Llvm *p, const Op *op) {
  const Region *body = op->body;
  lanes_copy(p, body->args, op->args, body->nargs);
  int64_t mask = new_mask(p);
  take_all(p, mask);
  Inside in = go_inside(p, mask);
  Rounds r = open_rounds(p);
  see_carried(p, op);
  open_vote(p);
  LaneLoop loop = lanes_open(p);
  vote(p, mask, llvm_truth(p, op, op_attr(op, ATTR_expr)->sym));
  lanes_close(p, &loop);
  begin_round(p, &r);
  lanes_region(p, body);
  if (!p->failed) end_of_round(p, op);
  come_out(p, &in);
  cpu_round(p, 16);
  end_rounds(p, &r);
}

/* ---- if ---- */

static Value **results_of(Llvm *p, const Op *op) {
  Value **all = ARENA_ARRAY(p->arena, Value *, op->nresults + 1);
  for (int i = 0; i < op->nresults; i++) all[i] = &op->results[i];
  return all;
}

/* In i1; a value in a loop over threads, or one that is uniform. */
static const char *condition(Llvm *p, const Op *op) {
  const Value *v = op_condition(op);
  if (!v) return llvm_truth(p, op, op_attr(op, ATTR_expr)->sym);
  return llvm_is_set(p, lanes_read(p, v));
}

static const char *vote_condition(Llvm *p, const Op *op, int64_t mask) {
  open_vote(p);
  LaneLoop loop = lanes_open(p);
  vote(p, mask, condition(p, op));
  lanes_close(p, &loop);
  return somebody(p);
}

void lanes_if(Llvm *p, const Op *op) {
  Value **results = results_of(p, op);
  bool uniform = p->cpu->lanes->uniform_region[op->id];
  const char *then = llvm_label(p, "then"), *end = llvm_label(p, "end"), *test;
  int64_t mask = uniform ? p->cpu->lanes->mask : new_mask(p);
  lanes_copy(p, results, op->args + op_carried(op), op->nresults);
  test = uniform ? condition(p, op) : vote_condition(p, op, mask);
  for (int i = 0; i < op->body->nargs; i++) /* those that are uniform are the same as outside */
    p->held[op->body->args[i]->id] = llvm_held_get(p, op->args[op_carried(op) + i]);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", test, then, end);
  llvm_block(p, then);
  Inside in = go_inside(p, mask);
  lanes_region(p, op->body);
  if (!p->failed) lanes_copy(p, results, op->body->last->args, op->nresults);
  come_out(p, &in);
  llvm_line(p, "br label %%%s", end);
  llvm_block(p, end);
}
