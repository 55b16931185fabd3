/* llvm_region.c: regions as basic blocks. Carried values become phi nodes, one per vector of a
 * form. The body of a loop is written to a separate buffer, because the phi nodes before it mention
 * what it yields. */
#include <inttypes.h>

#include "backend/llvm/llvm_state.h"
#include "ir/dtype.h"
#include "ir/region_facts.h"

/* ---- carried values ---- */

/* A value that will be carried. Elements of 4 and 6 bits are carried packed. */
static Held *carried_new(Llvm *p, const Value *v) {
  Held *h = llvm_held_new(p, v);
  if (llvm_is_packed(h)) h->packed = llvm_packed_new(p, h);
  return h;
}

/* The parts of a value in the form in which `like` is carried; the part of a memory is its
 * address. */
static const char *const *carried_parts(Llvm *p, Held *h, const Held *like) {
  if (h->memory) return &h->base;
  if (like->matrix.rows) return p->machine->tiles->of(p, h, &like->matrix);
  if (like->packed) h = llvm_packed_of(p, h);
  return llvm_parts_of(p, h, llvm_memory_width(p, h->dtype));
}

static int carried_width(const Llvm *p, const Held *h) {
  int width = llvm_memory_width(p, h->dtype);
  return width < h->n ? width : h->n;
}

static int carried_count(const Llvm *p, const Held *h) {
  if (h->matrix.rows) return p->machine->tiles->count(&h->matrix);
  if (h->packed) h = h->packed;
  return h->memory ? 1 : part_count(h->n, carried_width(p, h));
}

static const char *carried_type(Llvm *p, const Held *h, int i) {
  if (h->memory) return llvm_pointer_type(h->space);
  if (h->matrix.rows) return "x86_amx";
  if (h->packed) h = h->packed;
  return llvm_held_type(p, h->dtype, part_size(h->n, carried_width(p, h), i));
}

static void set_carried(Llvm *p, Held *h, const char *const *part) {
  if (h->memory) h->base = part[0];
  else if (h->matrix.rows) p->machine->tiles->set(p, h, &h->matrix, part);
  else {
    if (h->packed) h = h->packed;
    llvm_held_set(p, h, llvm_memory_width(p, h->dtype), part);
  }
}

/* One phi node for each part of `v`: first the names, then the lines when both sides are known. */
static const char *const *phi_names(Llvm *p, const Held *like) {
  int count = carried_count(p, like);
  const char **name = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count; i++) name[i] = llvm_new(p);
  return name;
}

typedef struct Side {
  const char *block;
  const char *const *part;
} Side;

static void put_phis(Llvm *p, StrBuf *out, const Held *like, const char *const *name, Side a,
                     Side b) {
  for (int i = 0; i < carried_count(p, like); i++)
    sb_printf(out, "  %s = phi %s [ %s, %%%s ], [ %s, %%%s ]%s\n", name[i],
              carried_type(p, like, i), a.part[i], a.block, b.part[i], b.block, p->place);
}

/* ---- loops ---- */

/* Values that a region carries: n of them, with their initial operands. */
typedef struct Loop {
  int n;
  int bits;                /* of the counter of a for loop */
  bool once;               /* it has one iteration, or none */
  Held **body;             /* the arguments of the body */
  const char *const **in;  /* parts of the initial values */
  const char *const **out; /* parts of the yielded values */
  const char *const **phi; /* names in the body */
} Loop;

/* A predecessor of an iteration: its block, the iteration number, and the carried values. */
typedef struct Entry {
  const char *block, *number;
  const char *const **part;
} Entry;

static Loop open_loop(Llvm *p, Value *const *from, Value *const *args, int n) {
  Loop l = {.n = n};
  l.body = ARENA_ARRAY(p->arena, Held *, n);
  l.in = ARENA_ARRAY(p->arena, const char *const *, n);
  l.out = ARENA_ARRAY(p->arena, const char *const *, n);
  l.phi = ARENA_ARRAY(p->arena, const char *const *, n);
  for (int i = 0; i < n; i++) {
    Held *h = llvm_held_get(p, from[i]);
    l.body[i] = carried_new(p, args[i]);
    l.in[i] = carried_parts(p, h, l.body[i]);
    l.phi[i] = phi_names(p, l.body[i]);
    set_carried(p, l.body[i], l.phi[i]);
  }
  return l;
}

static void yield_loop(Llvm *p, Loop *l, const Op *yield) {
  if (p->failed) return;
  for (int i = 0; i < l->n; i++)
    l->out[i] = carried_parts(p, llvm_held_get(p, yield->args[i]), l->body[i]);
}

/* The results of a region: merged from two blocks. */
static void merge_results(Llvm *p, const Op *op, const Loop *l, const char *before,
                          const char *behind) {
  for (int i = 0; i < op->nresults && !p->failed; i++) {
    Held *h = carried_new(p, &op->results[i]);
    const char *const *name = phi_names(p, h);
    put_phis(p, &p->body, h, name, (Side){before, l->in[i]}, (Side){behind, l->out[i]});
    set_carried(p, h, name);
  }
}

/* Redirects output to a separate buffer. */
static StrBuf divert(Llvm *p) {
  StrBuf before = p->body;
  p->body = (StrBuf){.arena = p->arena};
  return before;
}

/* The first iteration of a loop; none has a negative number. */
const char *llvm_loop_start(Llvm *p, const Op *loop, int bits) {
  if (!op_carried(loop)) return "0";
  const char *from = llvm_in_bits(p, llvm_number_of(p, loop->args[0]), bits);
  const char *early = llvm_let(p, "icmp slt i%d %s, 0", bits, from);
  return llvm_let(p, "select i1 %s, i%d 0, i%d %s", early, bits, bits, from);
}

/* The width of a loop's counter: the number after the last iteration must fit too. A start beyond
 * the end is not cut off. */
static int counter_bits(Llvm *p, const Op *op) {
  if (!p->machine->narrow) return 64;
  SymRange trips = sym_range(p->sym, p->facts, op_attr(op, ATTR_trips)->sym);
  sym_take_error(p->sym);
  if (op_carried(op) && llvm_number_of(p, op->args[0]).bits == 64) return 64;
  return trips.hi <= INT32_MAX - op_step(op) && trips.lo >= INT32_MIN ? 32 : 64;
}

/* The head of a for loop. */
static void put_head(Llvm *p, StrBuf *out, const Loop *l, const char *head, Entry name, Entry a,
                     Entry b) {
  sb_printf(out, "%s:\n  %s = phi i%d [ %s, %%%s ], [ %s, %%%s ]\n", head, name.number, l->bits,
            a.number, a.block, b.number, b.block);
  for (int i = 0; i < l->n && !p->failed; i++)
    put_phis(p, out, l->body[i], name.part[i], (Side){a.block, a.part[i]},
             (Side){b.block, b.part[i]});
}

/* A loop around a long one: each of its iterations runs a number of the inner ones, then checks
 * whether the launch was stopped. The inner loop contains nothing extra. */
typedef struct Stretch {
  const char *head, *behind; /* blocks; `behind` follows a stretch */
  const char *stop;          /* the number of the first iteration after it */
  Entry begin;               /* its initial state */
} Stretch;

static Stretch open_stretch(Llvm *p, const Loop *l) {
  Stretch s = {llvm_label(p, "stretch"), llvm_label(p, "ran"), llvm_new(p), {0}};
  s.begin = (Entry){s.head, llvm_new(p), ARENA_ARRAY(p->arena, const char *const *, l->n)};
  for (int i = 0; i < l->n; i++) s.begin.part[i] = phi_names(p, l->body[i]);
  return s;
}

/* After the inner loop: checks, unless no iterations remain; leaves the block that continues. */
static void ask_behind(Llvm *p, const Stretch *s, const char *next, const char *trips,
                       const char *end) {
  const char *asking = llvm_label(p, "ask");
  llvm_block(p, s->behind);
  const char *more = llvm_let(p, "icmp slt i64 %s, %s", next, trips);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", more, asking, end);
  llvm_block(p, asking);
  p->machine->watch->ask(p);
  llvm_line(p, "br label %%%s", s->head);
}

/* The number of the first iteration after a stretch of `n`. */
static void put_stop(Llvm *p, StrBuf *out, const Stretch *s, const char *trips, int64_t n,
                     const char *head) {
  const char *left = llvm_new(p), *few = llvm_new(p), *far = llvm_new(p), *at = s->begin.number;
  sb_printf(out, "  %s = sub nsw i64 %s, %s\n", left, trips, at);
  sb_printf(out, "  %s = icmp slt i64 %s, %" PRId64 "\n", few, left, n);
  sb_printf(out, "  %s = add i64 %s, %" PRId64 "\n", far, at, n);
  sb_printf(out, "  %s = select i1 %s, i64 %s, i64 %s\n  br label %%%s\n", s->stop, few, trips, far,
            head);
}

/* Matrix registers do not survive a call. */
static bool can_stretch(const Loop *l) {
  for (int i = 0; i < l->n; i++)
    if (l->body[i]->matrix.rows) return false;
  return true;
}

static int64_t rounds_of(const Llvm *p, const Op *op) {
  return p->machine->watch ? p->machine->watch->rounds[op->id] : LLVM_NEVER_ASKS;
}

/* How many iterations are repeated as one. */
static int times_of(Llvm *p, const Op *op) {
  return p->machine->unroll ? p->machine->unroll(p, op) : 1;
}

/* Whether the number of iterations is known. */
static bool has_trips(const Op *op) {
  return sym_is_int(op_attr(op, ATTR_trips)->sym, &(int64_t){0});
}

/* Appended to the branch back, for loops that LLVM should unroll. */
static const char *loop_word(Llvm *p, const Op *op) {
  int times = times_of(p, op);
  if (times < 2 || !has_trips(op)) return "";
  vec_push(p->arena, &p->unrolled, times);
  return arena_printf(p->arena, ", !llvm.loop !%d", LLVM_LOOPS + 2 * (p->unrolled.n - 1));
}

/* The body once, as iteration `at`; what it yields is in l->out. */
static void write_round(Llvm *p, const Op *op, Loop *l, const char *at) {
  const SymFacts *facts = p->facts;
  ScopeMark mark = llvm_scope_open(p);
  llvm_define(p, ir_loop_counter(p->k, op_attr(op, ATTR_axis)->sym), (LlvmNumber){at, l->bits});
  p->facts = loop_facts(p->k, p->arena, op, p->entry, p->facts);
  llvm_region(p, op->body);
  yield_loop(p, l, op->body->last);
  p->facts = facts;
  llvm_scope_close(p, mark);
}

/* The iterations in whole groups of `times`, if their number is not known: LLVM then does not unroll
 * loops with barriers. The rest, fewer than that, are left to the loop that follows. It begins where
 * the entry that is returned says. */
static Entry write_groups(Llvm *p, const Op *op, Loop *l, const char *trips, int times) {
  const char *head = llvm_label(p, "groups"), *end = llvm_label(p, "rest"), *at = llvm_new(p);
  const char *stop = llvm_let(p, "sub nsw i%d %s, %d", l->bits, trips, times - 1), *next = at;
  const char *any = llvm_let(p, "icmp slt i%d 0, %s", l->bits, stop);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", any, head, end);
  Entry from = {p->block, "0", l->in}, name = {head, at, l->phi};
  StrBuf outside = divert(p);
  p->block = head;
  for (int i = 0; i < times && !p->failed; i++) {
    write_round(p, op, l, next);
    next = llvm_let(p, "add nsw i%d %s, %d", l->bits, at, i + 1);
    for (int v = 0; v < l->n && i + 1 < times && !p->failed; v++)
      set_carried(p, l->body[v] = carried_new(p, op->body->args[v]), l->out[v]);
  }
  const char *more = llvm_let(p, "icmp slt i%d %s, %s", l->bits, next, stop);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", more, head, end);
  Entry again = {p->block, next,
                 arena_copy(p->arena, l->out, sizeof *l->out * (size_t)(l->n ? l->n : 1))};
  put_head(p, &outside, l, head, name, from, again);
  sb_puts(&outside, sb_text(&p->body));
  p->body = outside;
  Entry rest = {end, llvm_new(p), ARENA_ARRAY(p->arena, const char *const *, l->n)};
  for (int v = 0; v < l->n; v++) rest.part[v] = phi_names(p, l->body[v]);
  put_head(p, &p->body, l, end, rest, from, again);
  p->block = end;
  return rest;
}

/* The body and the increment, with `stop` instead of the trip count; returns the back edge. */
static Entry write_rounds(Llvm *p, const Op *op, Loop *l, const char *at, const char *stop,
                          const char *head, const char *behind) {
  p->block = head;
  write_round(p, op, l, at);
  if (rounds_of(p, op) == LLVM_ROUNDS_DIFFER) p->machine->watch->round(p);
  const char *next = llvm_let(p, "add nsw i%d %s, %" PRId64, l->bits, at, op_step(op));
  const char *more = l->once ? "false" : llvm_let(p, "icmp slt i%d %s, %s", l->bits, next, stop);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s%s", more, head, behind, loop_word(p, op));
  return (Entry){p->block, next, l->out};
}

/* Tested before the first iteration and after each: the form that LLVM handles best. */
void llvm_for(Llvm *p, const Op *op) {
  int bits = counter_bits(p, op);
  const char *trips = llvm_in_bits(p, llvm_number(p, op, op_attr(op, ATTR_trips)->sym), bits);
  const char *start = llvm_loop_start(p, op, bits), *at = llvm_new(p);
  const char *head = llvm_label(p, "loop"), *end = llvm_label(p, "end");
  Loop l = open_loop(p, op->args + op_carried(op), op->body->args, op->body->nargs);
  l.bits = bits;
  int times = has_trips(op) || op_carried(op) || op_step(op) != 1 ? 1 : times_of(p, op);
  if (times > 1) {
    Entry rest = write_groups(p, op, &l, trips, times);
    start = rest.number;
    l = open_loop(p, op->args + op_carried(op), op->body->args, op->body->nargs);
    l.bits = bits, l.in = rest.part, l.once = times == 2;
  }
  int64_t rounds = can_stretch(&l) ? rounds_of(p, op) : LLVM_NEVER_ASKS;
  Stretch s = rounds > 0 ? open_stretch(p, &l) : (Stretch){head, end, trips, {0}};
  const char *any = llvm_let(p, "icmp slt i%d %s, %s", bits, start, trips);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", any, s.head, end);
  Entry from = {p->block, start, l.in}, name = {head, at, l.phi};
  StrBuf outside = divert(p);
  Entry again = write_rounds(p, op, &l, at, s.stop, head, s.behind);
  const char *last = rounds > 0 ? s.behind : again.block;
  if (rounds > 0) {
    ask_behind(p, &s, again.number, trips, end);
    put_head(p, &outside, &l, s.head, s.begin, from, (Entry){p->block, again.number, l.out});
    put_stop(p, &outside, &s, trips, rounds * op_step(op), head);
    put_head(p, &outside, &l, head, name, s.begin, again);
  } else {
    put_head(p, &outside, &l, head, name, from, again);
  }
  sb_puts(&outside, sb_text(&p->body));
  p->body = outside;
  llvm_block(p, end);
  merge_results(p, op, &l, from.block, last);
}

bool llvm_is_integer(const Value *v) {
  return v->type->kind == TYPE_scalar && !dtype_is_float(v->type->dtype);
}

/* Defines what the condition may mention. */
static void define_carried(Llvm *p, const Op *op) {
  const Region *body = op->body;
  llvm_define(p, op_attr(op, ATTR_version)->sym, llvm_number_of(p, body->args[0]));
  for (int i = 1; i < body->nargs; i++)
    if (llvm_is_integer(body->args[i]))
      llvm_define(p, ir_iter_arg(p->k->cx, i - 1), llvm_number_of(p, body->args[i]));
}

/* The position of a while loop is an index, whatever the width of its values. */
static const char *const *position(Llvm *p, const Value *v) {
  const char **part = ARENA_NEW(p->arena, const char *);
  *part = llvm_index_of(p, v);
  return part;
}

void llvm_while(Llvm *p, const Op *op) {
  const char *head = llvm_label(p, "while"), *body = llvm_label(p, "do"),
             *end = llvm_label(p, "end");
  Loop l = open_loop(p, op->args, op->body->args, op->body->nargs);
  l.in[0] = position(p, op->args[0]);
  const char *before = p->block;
  llvm_line(p, "br label %%%s", head);
  StrBuf outside = divert(p);
  ScopeMark mark = llvm_scope_open(p);
  p->block = head;
  define_carried(p, op);
  const char *go = llvm_truth(p, op, op_attr(op, ATTR_expr)->sym);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", go, body, end);
  llvm_block(p, body);
  llvm_region(p, op->body);
  yield_loop(p, &l, op->body->last);
  if (!p->failed) l.out[0] = position(p, op->body->last->args[0]);
  if (p->machine->watch) p->machine->watch->end_of_while(p, op);
  llvm_scope_close(p, mark);
  llvm_line(p, "br label %%%s", head);
  sb_printf(&outside, "%s:\n", head);
  for (int i = 0; i < l.n && !p->failed; i++)
    put_phis(p, &outside, l.body[i], l.phi[i], (Side){before, l.in[i]}, (Side){p->block, l.out[i]});
  sb_puts(&outside, sb_text(&p->body));
  p->body = outside;
  llvm_block(p, end);
  for (int i = 0; i < op->nresults; i++) {
    Held *h = carried_new(p, &op->results[i]);
    set_carried(p, h, l.phi[i + 1]);
  }
}

const char *llvm_is_set(Llvm *p, Held *h) {
  return llvm_cast_vector(p, h->dtype, DTYPE_i1, 1, llvm_scalar_of(p, h));
}

void llvm_if(Llvm *p, const Op *op) {
  const char *then = llvm_label(p, "then"), *end = llvm_label(p, "end");
  Value *value = op_condition(op);
  int first = op_carried(op);
  const char *test = value ? llvm_is_set(p, llvm_held_get(p, value))
                           : llvm_truth(p, op, op_attr(op, ATTR_expr)->sym);
  Loop l = {.n = op->nresults};
  l.in = ARENA_ARRAY(p->arena, const char *const *, l.n);
  l.out = ARENA_ARRAY(p->arena, const char *const *, l.n);
  l.body = ARENA_ARRAY(p->arena, Held *, l.n);
  for (int i = 0; i < l.n; i++) {
    l.body[i] = carried_new(p, &op->results[i]); /* carried in the form of the result */
    l.in[i] = carried_parts(p, llvm_held_get(p, op->args[first + i]), l.body[i]);
    p->held[op->body->args[i]->id] = llvm_held_get(p, op->args[first + i]);
  }
  const char *before = p->block;
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", test, then, end);
  ScopeMark mark = llvm_scope_open(p);
  llvm_block(p, then);
  llvm_region(p, op->body);
  yield_loop(p, &l, op->body->last);
  llvm_scope_close(p, mark);
  llvm_line(p, "br label %%%s", end);
  const char *behind = p->block;
  llvm_block(p, end);
  merge_results(p, op, &l, before, behind);
}

/* ---- ops ---- */

void llvm_nothing(Llvm *p, const Op *op) { (void)p, (void)op; }

static LlvmFn *const writer[OP_COUNT] = {
    [OP_scalar] = llvm_scalar, [OP_expr] = llvm_expr_op,    [OP_set_symbol] = llvm_set_symbol,
    [OP_splat] = llvm_splat,   [OP_join] = llvm_join,       [OP_pick] = llvm_pick,
    [OP_after] = llvm_after,   [OP_bitcast] = llvm_bitcast, [OP_cast] = llvm_cast,
    [OP_select] = llvm_select, [OP_for] = llvm_for,         [OP_while] = llvm_while,
    [OP_if] = llvm_if,         [OP_yield] = llvm_nothing,
};

bool llvm_writes_op(OpKind kind) {
  return writer[kind] || llvm_has_elementwise(kind) || op_info[kind].flags & OPF_HINT;
}

void llvm_op(Llvm *p, const Op *op) {
  LlvmFn *fn = p->machine->writer[op->kind] ? p->machine->writer[op->kind] : writer[op->kind];
  const char *outer = p->place;
  if (!fn && llvm_has_elementwise(op->kind)) fn = llvm_elementwise;
  llvm_at(p, op);
  llvm_limit_block(p);
  if (fn) fn(p, op);
  else if (!(op_info[op->kind].flags & OPF_HINT)) llvm_fail(p, op, "this op");
  p->place = outer;
}

void llvm_region(Llvm *p, const Region *r) {
  for (const Op *op = r->first; op && !p->failed; op = op->next) llvm_op(p, op);
}
