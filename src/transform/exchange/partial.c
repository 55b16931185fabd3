/* partial: threads keep parts of what a loop reduces, and combine them after the loop.
 *
 *     %r = for N carry %s = %zero {          %p = for N carry %s = %zeros {
 *       %t = mul %s, %f                        %t = mul %s, %f
 *       %u = sum %x, %t {dim = N}       =>     %u = sum %x, %t {dim = N, into = 8, each = thread}
 *       yield %u                               yield %u
 *     }                                      }
 *                                            %r = sum %p {dim = 8}
 *
 * Lanes and waves then exchange values once, instead of in each iteration. Nothing else in the loop may
 * see the carried value. A sum may be scaled by what all of its threads agree on, if it starts from
 * 0: a sum of multiples is a multiple of the sum.
 *
 * Floating-point sums are added in another order, and a part that is 0 becomes NaN if the factor is infinite. Narrow floats are left alone, because each iteration rounds
 * them. Runs before `exchange`, which sends values between waves. */
#include "ir/layout_links.h"
#include "ir/ops/reductions.h"
#include "ir/region_facts.h"
#include "transform/pass.h"

typedef struct Partial {
  Kernel *k;
  PassCtx *cx;
  bool changed;
} Partial;

/* A reduction of which the loop carries the result. */
typedef struct Carried {
  Op *loop;
  int index; /* among what the loop carries */
  Op *reduce;
  Op *scaled; /* what scales the carried value; NULL: nothing does */
} Carried;

/* ---- what is found ---- */

static Value *start_of(const Carried *c) { return c->loop->args[op_carried(c->loop) + c->index]; }

static Padding neutral_of(const Carried *c) { return reduction_info[c->reduce->kind].padding; }

/* Combines elements that all exist, by an op. */
static bool is_simple(const Op *op) {
  return op_is_reduction(op) && !op_is_scan(op) && reduction_info[op->kind].combine != OP_COUNT &&
         !op_has(op, ATTR_into) && !op_has(op, ATTR_grid);
}

static bool is_wide(DType t) { return !dtype_is_float(t) || dtype_info[t].bits >= 32; }

static bool is_agreed(const Value *v) {
  return v->type->kind != TYPE_tile || (v->layout && !v->varying);
}

/* What scales the carried value before it is added to; NULL: nothing of that form. */
static Op *find_scale(const Region *body, const Op *reduce, const Value *carried) {
  Op *op = reduce->args[1]->def;
  bool scales = op && op->kind == OP_mul && op->parent == body && op_takes(op, carried) &&
                reduce->kind == OP_sum && ir_count_uses(body, &op->results[0]) == 1 &&
                op->results[0].type == carried->type;
  return scales && is_agreed(op->args[0]) && is_agreed(op->args[1]) ? op : NULL;
}

static bool find_carried(Op *loop, int index, Carried *out) {
  const Region *body = loop->body;
  const Value *carried = body->args[index], *next = body->last->args[index];
  Op *reduce = next->def;
  if (!reduce || reduce->parent != body || !is_simple(reduce) || reduce->nargs != 2) return false;
  if (!is_wide(next->type->dtype) || !is_agreed(next) || !is_agreed(carried)) return false;
  if (!next->layout || !reduce->args[0]->layout || reduce->args[0]->varying) return false;
  if (carried->type != next->type || ir_count_uses(body, next) != 1 ||
      ir_count_uses(body, carried) != 1)
    return false;
  *out = (Carried){loop, index, reduce, NULL};
  if (reduce->args[1] == carried) return true;
  out->scaled = find_scale(body, reduce, carried);
  const Op *start = start_of(out)->def;
  return out->scaled && start && start->kind == OP_fill && padding_fills(start, neutral_of(out));
}

/* ---- parts ---- */

/* How many threads share a row. */
static int count_threads(const Layout *l, int dim) {
  int n = 1;
  for (int p = LAYOUT_LANE; p <= LAYOUT_WAVE; p++)
    for (int i = 0; i < l->part[p].n; i++)
      if (l->part[p].at[i].stride && l->part[p].at[i].dim == dim) n *= l->part[p].at[i].radix;
  return n;
}

/* The type of the whole with a last dimension for the parts; NULL: it cannot have one more, or has one of that
 * name. */
static const Type *type_of_parts(const Partial *p, const Type *whole, const Sym *threads) {
  const Sym *dims[IR_MAX_RANK];
  if (whole->rank == IR_MAX_RANK || type_dim(whole, threads) >= 0) return NULL;
  for (int i = 0; i < whole->rank; i++) dims[i] = whole->dims[i];
  dims[whole->rank] = threads;
  return type_tile(p->k->cx, dims, whole->rank + 1, whole->dtype);
}

/* The layout of the parts, from which that of the whole must follow. */
static bool layout_of_parts(const Partial *p, Op *parts, const Layout *whole, int threads,
                            Layout *out) {
  LayoutLinks links = {0};
  int extent[IR_MAX_RANK], last = whole->dims;
  for (int i = 0; i < last; i++) extent[i] = whole->extent[i];
  extent[last] = threads;
  layout_links(p->cx->scratch, parts, &links);
  if (!links.n || !layout_of_part(&links.at[0], parts->args[0]->layout, extent, out)) return false;
  Layout back = layout_drop(out, last);
  layout_normalise(&back);
  return layout_equal(&back, whole);
}

/* Makes the reduction one in parts, and gives their type and layout. False: it cannot be divided. */
static bool reduce_in_parts(Partial *p, const Carried *c, const Type **type, Layout *layout) {
  Op *reduce = c->reduce;
  const Value *from = reduce->args[0], *whole = &reduce->results[0];
  int threads = count_threads(from->layout, type_dim(from->type, op_attr(reduce, ATTR_dim)->sym));
  const Sym *into = sym_int(p->k->cx->sym, threads);
  *type = threads > 1 ? type_of_parts(p, whole->type, into) : NULL;
  if (!*type) return false;
  const Type *before = whole->type;
  reduce->results[0].type = *type;
  op_set_attr(p->k, reduce, (Attr){.key = ATTR_into, .sym = into});
  op_set_attr(p->k, reduce, (Attr){.key = ATTR_each, .text = intern(&p->k->cx->names, "thread")});
  if (layout_of_parts(p, reduce, whole->layout, threads, layout)) return true;
  reduce->results[0].type = before;
  op_drop_attr(reduce, ATTR_into);
  op_drop_attr(reduce, ATTR_each);
  return false;
}

/* ---- the loop ---- */

static Value *neutral_parts(Partial *p, const Carried *c, const Type *type, const Layout *layout) {
  Attr value = {.key = ATTR_value};
  if (dtype_is_float(type->dtype)) value.number = padding_number(neutral_of(c), type->dtype);
  else value.sym = sym_int(p->k->cx->sym, padding_integer(neutral_of(c), type->dtype));
  Op *fill = ir_insert(p->k, c->loop, OP_fill, c->reduce->at, NULL, 0, type);
  op_set_attr(p->k, fill, value);
  ir_set_layout(p->k, &fill->results[0], layout);
  return &fill->results[0];
}

/* After the loop, the parts are combined, with what it started from. */
static void combine_parts(Partial *p, const Carried *c, Value *start) {
  Value *result = &c->loop->results[c->index], *args[] = {result, start};
  Op *whole = ir_op_new(p->k, c->reduce->kind, c->reduce->at, args, c->scaled ? 1 : 2);
  ir_set_results(p->k, whole, &result->type, 1);
  ir_set_layout(p->k, &whole->results[0], result->layout);
  whole->results[0].name = result->name;
  op_set_attr(p->k, whole, (Attr){.key = ATTR_dim, .sym = op_attr(c->reduce, ATTR_into)->sym});
  if (op_has(c->reduce, ATTR_block)) op_set_attr(p->k, whole, (Attr){.key = ATTR_block});
  ir_insert_after(c->loop, whole);
  ir_replace_uses(p->k, result, &whole->results[0]);
  whole->args[0] = result;
}

static void divide(Partial *p, const Carried *c) {
  Region *body = c->loop->body;
  Value *start = start_of(c);
  const Type *type;
  Layout layout;
  if (!reduce_in_parts(p, c, &type, &layout)) return;
  combine_parts(p, c, start);
  c->loop->args[op_carried(c->loop) + c->index] = neutral_parts(p, c, type, &layout);
  Value *parts[] = {&c->reduce->results[0], &c->loop->results[c->index], body->args[c->index],
                    c->scaled ? &c->scaled->results[0] : NULL};
  for (size_t i = 0; i < WV_LEN(parts) && parts[i]; i++) {
    parts[i]->type = type;
    ir_set_layout(p->k, parts[i], &layout);
  }
  p->changed = true;
}

bool pass_partial(Kernel *k, PassCtx *cx) {
  Partial p = {.k = k, .cx = cx};
  bool works = cx->machine && !cx->machine->observable;
  for (Op *op = works ? ir_first(k) : NULL; op; op = ir_next(op)) {
    Carried c;
    for (int i = op->kind == OP_for ? op->nresults - 1 : -1; i >= 0; i--)
      if (find_carried(op, i, &c)) divide(&p, &c);
  }
  cx->idle = !p.changed;
  return true;
}
