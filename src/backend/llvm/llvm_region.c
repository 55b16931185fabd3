/* llvm_region.c: regions as blocks. What is carried becomes phi nodes, one for each vector of a
 * form. The body of a loop is written to a buffer of its own, because the phi nodes in front of it
 * mention what it yields. */
#include <string.h>

#include "backend/llvm/llvm_lanes.h"
#include "backend/llvm/llvm_state.h"
#include "ir/region_facts.h"

/* ---- carried values ---- */

/* The parts of a value in the form in which `like` is carried; a memory is its address. */
static const char *const *carried_parts(Llvm *p, Held *h, const Held *like) {
  if (h->memory) return &h->base;
  if (like->matrix.rows) return llvm_tiles_of(p, h, &like->matrix);
  return llvm_parts_of(p, h, llvm_memory_width(p, h->dtype));
}

static int carried_width(const Llvm *p, const Held *h) {
  int width = llvm_memory_width(p, h->dtype);
  return width < h->n ? width : h->n;
}

static int carried_count(const Llvm *p, const Held *h) {
  if (h->matrix.rows) return llvm_matrix_count(&h->matrix);
  return h->memory ? 1 : part_count(h->n, carried_width(p, h));
}

static const char *carried_type(Llvm *p, const Held *h, int i) {
  if (h->memory) return "ptr";
  if (h->matrix.rows) return "x86_amx";
  return llvm_held_type(p, h->dtype, part_size(h->n, carried_width(p, h), i));
}

static void set_carried(Llvm *p, Held *h, const char *const *part) {
  if (h->memory) h->base = part[0];
  else if (h->matrix.rows) llvm_matrix_set(p, h, &h->matrix, part);
  else llvm_held_set(p, h, llvm_memory_width(p, h->dtype), part);
}

/* One phi node for each part of `v`: names first, lines when both sides are known. */
static const char **phi_names(Llvm *p, const Held *like) {
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

/* Values that a region carries: n of them, with the operands they begin with. */
typedef struct Loop {
  int n;
  Held **body;             /* the arguments of the body */
  const char *const **in;  /* parts of what they begin with */
  const char *const **out; /* parts of what is yielded */
  const char ***phi;       /* names in the body */
} Loop;

static Loop open_loop(Llvm *p, Value *const *from, Value *const *args, int n) {
  Loop l = {.n = n};
  l.body = ARENA_ARRAY(p->arena, Held *, n);
  l.in = ARENA_ARRAY(p->arena, const char *const *, n);
  l.out = ARENA_ARRAY(p->arena, const char *const *, n);
  l.phi = ARENA_ARRAY(p->arena, const char **, n);
  for (int i = 0; i < n; i++) {
    Held *h = llvm_held_get(p, from[i]);
    l.body[i] = llvm_held_new(p, args[i]);
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

/* The results of a region: what one of two blocks hands on. */
static void merge_results(Llvm *p, const Op *op, const Loop *l, const char *before,
                          const char *behind) {
  for (int i = 0; i < op->nresults && !p->failed; i++) {
    Held *h = llvm_held_new(p, &op->results[i]);
    const char **name = phi_names(p, h);
    put_phis(p, &p->body, h, name, (Side){before, l->in[i]}, (Side){behind, l->out[i]});
    set_carried(p, h, name);
  }
}

/* What is written from here on goes to a buffer of its own. */
static StrBuf divert(Llvm *p) {
  StrBuf before = p->body;
  p->body = (StrBuf){.arena = p->arena};
  return before;
}

/* What a loop begins with; there are no iterations before number 0. */
const char *llvm_loop_start(Llvm *p, const Op *loop) {
  if (!op_carried(loop)) return "0";
  const char *from = llvm_index_of(p, loop->args[0]);
  const char *early = llvm_let(p, "icmp slt i64 %s, 0", from);
  return llvm_let(p, "select i1 %s, i64 0, i64 %s", early, from);
}

/* Tested before the first round and behind each: the form LLVM likes best. */
void llvm_for(Llvm *p, const Op *op) {
  const Attr *step = op_attr(op, ATTR_step), *axis = op_attr(op, ATTR_axis);
  int first = op_carried(op);
  const Sym *counter = ir_loop_counter(p->k, axis->sym), *count = op_attr(op, ATTR_trips)->sym;
  const char *trips = llvm_expr(p, op, count), *at = llvm_new(p), *next = llvm_new(p);
  const char *start = llvm_loop_start(p, op);
  const char *head = llvm_label(p, "loop"), *end = llvm_label(p, "end"), *before;
  Loop l = open_loop(p, op->args + first, op->body->args, op->body->nargs);
  const char *any = llvm_let(p, "icmp slt i64 %s, %s", start, trips);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", any, head, end);
  before = p->block;
  StrBuf outside = divert(p);
  const SymFacts *facts = p->facts;
  ScopeMark mark = llvm_scope_open(p);
  p->block = head;
  llvm_define(p, counter, at);
  p->facts = loop_facts(p->k, p->arena, op, p->entry, p->facts);
  llvm_region(p, op->body);
  yield_loop(p, &l, op->body->last);
  p->facts = facts;
  llvm_scope_close(p, mark);
  sb_printf(&p->body, "  %s = add nsw i64 %s, %d\n", next, at, step ? (int)step->integer : 1);
  const char *more = llvm_let(p, "icmp slt i64 %s, %s", next, trips);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", more, head, end);
  sb_printf(&outside, "%s:\n  %s = phi i64 [ %s, %%%s ], [ %s, %%%s ]\n", head, at, start, before,
            next, p->block);
  for (int i = 0; i < l.n && !p->failed; i++)
    put_phis(p, &outside, l.body[i], l.phi[i], (Side){before, l.in[i]}, (Side){p->block, l.out[i]});
  sb_puts(&outside, sb_text(&p->body));
  p->body = outside;
  const char *behind = p->block;
  llvm_block(p, end);
  merge_results(p, op, &l, before, behind);
}

/* What the condition may mention. */
static void define_carried(Llvm *p, const Op *op) {
  const Region *body = op->body;
  llvm_define(p, op_attr(op, ATTR_version)->sym, llvm_index_of(p, body->args[0]));
  for (int i = 1; i < body->nargs; i++)
    if (llvm_is_integer(body->args[i]))
      llvm_define(p, ir_iter_arg(p->k->cx, i - 1), llvm_index_of(p, body->args[i]));
}

/* The position of a while loop is an index, however wide the values are that it takes. */
static const char *const *position(Llvm *p, const Value *v) {
  const char **part = ARENA_NEW(p->arena, const char *);
  *part = llvm_index_of(p, v);
  return part;
}

/* Of a loop that waits: the round just run found something new. */
static const char *has_changed(Llvm *p, const Op *op) {
  const char *all = "false";
  if (!llvm_only_looks(op)) return "true";
  for (int i = 0; i < op->body->nargs; i++) {
    const char *a = llvm_index_of(p, op->body->args[i]);
    const char *b = llvm_index_of(p, op->body->last->args[i]);
    all = llvm_let(p, "or i1 %s, %s", all, llvm_let(p, "icmp ne i64 %s, %s", a, b));
  }
  return all;
}

void llvm_while(Llvm *p, const Op *op) {
  const char *head = llvm_label(p, "while"), *body = llvm_label(p, "do"),
             *end = llvm_label(p, "end");
  Loop l = open_loop(p, op->args, op->body->args, op->body->nargs);
  LlvmRounds rounds = llvm_rounds(p);
  bool waits = llvm_is_waiting(op);
  l.in[0] = position(p, op->args[0]);
  llvm_rounds_begin(p, &rounds, 16);
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
  if (!p->failed && waits) llvm_wait(p, op, has_changed(p, op));
  llvm_round(p, &rounds);
  llvm_scope_close(p, mark);
  llvm_line(p, "br label %%%s", head);
  sb_printf(&outside, "%s:\n", head);
  for (int i = 0; i < l.n && !p->failed; i++)
    put_phis(p, &outside, l.body[i], l.phi[i], (Side){before, l.in[i]}, (Side){p->block, l.out[i]});
  sb_puts(&outside, sb_text(&p->body));
  p->body = outside;
  llvm_block(p, end);
  for (int i = 0; i < op->nresults; i++) {
    Held *h = llvm_held_new(p, &op->results[i]);
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
    l.body[i] = llvm_held_new(p, &op->results[i]); /* carried as the result is */
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

/* A workgroup is one thread, so it never waits for itself. */
static void no_wait(Llvm *p, const Op *op) { (void)p, (void)op; }

static LlvmFn *const writer[OP_COUNT] = {
    [OP_alloc] = llvm_alloc,
    [OP_scalar] = llvm_scalar,
    [OP_expr] = llvm_expr_op,
    [OP_set_symbol] = llvm_set_symbol,
    [OP_splat] = llvm_splat,
    [OP_join] = llvm_join,
    [OP_pick] = llvm_pick,
    [OP_bitcast] = llvm_bitcast,
    [OP_cast] = llvm_cast,
    [OP_select] = llvm_select,
    [OP_load] = llvm_load,
    [OP_store] = llvm_store,
    [OP_load_rows] = llvm_load_rows,
    [OP_store_rows] = llvm_store_rows,
    [OP_prefetch] = llvm_prefetch,
    [OP_atomic] = llvm_atomic,
    [OP_wave_mma] = llvm_wave_mma,
    [OP_barrier] = no_wait,
    [OP_workgroup_barrier] = no_wait,
    [OP_shared_barrier] = no_wait,
    [OP_barrier_signal] = no_wait,
    [OP_barrier_wait] = no_wait,
    [OP_counter_wait] = no_wait, /* for copies, which have ended when they are issued */
    [OP_counter_barrier] = no_wait,
    [OP_for] = llvm_for,
    [OP_while] = llvm_while,
    [OP_if] = llvm_if,
    [OP_yield] = no_wait,
};

bool llvm_op_waits(const Op *op) {
  return writer[op->kind] == no_wait || op_info[op->kind].flags & OPF_HINT;
}

bool llvm_writes(OpKind kind) {
  return writer[kind] || llvm_has_elementwise(kind) || lanes_writes(kind) ||
         op_info[kind].flags & OPF_HINT;
}

void llvm_op(Llvm *p, const Op *op) {
  LlvmFn *fn = writer[op->kind];
  const char *outer = p->place;
  if (!fn && llvm_has_elementwise(op->kind)) fn = llvm_elementwise;
  llvm_at(p, op);
  if (fn) fn(p, op);
  else if (!(op_info[op->kind].flags & OPF_HINT)) llvm_fail(p, op, "this op");
  p->place = outer;
}

void llvm_region(Llvm *p, const Region *r) {
  for (const Op *op = r->first; op && !p->failed; op = op->next) llvm_op(p, op);
}
