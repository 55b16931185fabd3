/* retarget_parts.c: mma ops whose sum over k several waves share (retarget_parts.h). */
#include "transform/retarget/retarget_parts.h"

#include "analysis/uniform.h"
#include "ir/dtype.h"
#include "ir/layout_links.h"

typedef struct Shared {
  Kernel *k;
  PassCtx *cx;
  const Machine *machine;
} Shared;

typedef Vec(Op *) Ops;

/* ---- which products ---- */
/* The number of declared waves that share the loop tile along the product's k; 1: none do. */
static int waves_of(const Shared *s, const Op *op) {
  const Distribution *d = s->cx->facts.distribute;
  Product p;
  int64_t n;
  if (product_of(s->k, op, &p) || !anchor_shares_loop(d, p.roles.k)) return 1;
  const Sym *waves = distribute_waves(d, p.roles.k);
  return waves && sym_is_int(waves, &n) && n <= s->machine->waves ? (int)n : 1;
}

/* True if each part is a whole number of instructions and the machine's waves divide evenly among
 * the parts. Instructions of several waves read k from shared memory and are left as they are. */
static bool divides(const Shared *s, Op *op, int waves) {
  const Distribution *d = s->cx->facts.distribute;
  const Type *lhs = op->args[0]->type;
  MmaDivision div;
  int extent[IR_MAX_RANK];
  if (!anchor_mma_division(d, s->machine, s->cx->scratch, op, &div)) return false;
  if (div.row->lanes != s->machine->lanes || s->machine->waves % waves) return false;
  return distribute_extents(d, op, lhs, extent) &&
         extent[type_base_dim(lhs, div.k)] % (waves * div.row->k) == 0;
}

/* Adding the parts needs a barrier, which all waves of the workgroup must reach. */
static bool all_come(const Shared *s, const Op *at) {
  const Op *owner = at->parent->owner;
  return !owner || s->cx->facts.uniform->regions[owner->id].level <= UNIFORM_WORKGROUP;
}

static bool may_share(const Shared *s, Op *op) {
  if (op->kind != OP_mma || op_has(op, ATTR_into)) return false;
  const Type *acc = op->args[2]->type;
  int waves = waves_of(s, op);
  return waves > 1 && acc->rank < IR_MAX_RANK && !op->results[0].varying &&
         type_dim(acc, sym_int(s->k->cx->sym, waves)) < 0 && all_come(s, op) &&
         divides(s, op, waves);
}

/* The parts are exchanged through shared memory, in padded rows; they may take 1/share of it. */
static bool has_room(const Shared *s, const Op *op, int waves, int share) {
  const Type *acc = op->args[2]->type;
  int extent[IR_MAX_RANK];
  int64_t bytes = (int64_t)waves * dtype_info[acc->dtype].bits / 8;
  if (!distribute_extents(s->cx->facts.distribute, op, acc, extent)) return false;
  for (int i = 0; i < acc->rank; i++) bytes *= extent[i];
  return bytes + bytes / 4 <= s->machine->target->shared_most / share;
}

/* ---- making ops ---- */

static const Type *in_parts(const Shared *s, const Type *t, int waves) {
  const Sym *dims[IR_MAX_RANK] = {sym_int(s->k->cx->sym, waves)};
  for (int i = 0; i < t->rank; i++) dims[i + 1] = t->dims[i];
  return type_tile(s->k->cx, dims, t->rank + 1, t->dtype);
}

static Value *insert_zero(const Shared *s, Op *before, const Type *type) {
  Attr value = {.key = ATTR_value};
  if (!dtype_is_float(type->dtype)) value.sym = sym_int(s->k->cx->sym, 0);
  Op *op = ir_insert(s->k, before, OP_fill, before->at, NULL, 0, type);
  op_set_attr(s->k, op, value);
  return &op->results[0];
}

/* Replaces the parts by their sum in all uses. `more` is added once; it may be NULL. */
static void sum_up(const Shared *s, Value *parts, Value *more, const Type *type) {
  Value *args[] = {parts, more};
  if (!parts->def->next) return; /* the loop ends the kernel: they are unused */
  Op *sum =
      ir_insert(s->k, parts->def->next, OP_sum, parts->def->next->at, args, more ? 2 : 1, type);
  op_set_attr(s->k, sum, (Attr){.key = ATTR_dim, .sym = parts->type->dims[0]});
  op_set_attr(s->k, sum, (Attr){.key = ATTR_block});
  ir_replace_uses(s->k, parts, &sum->results[0]);
  sum->args[0] = parts;
}

static void multiply_part(const Shared *s, Op *op, int waves, const char *when) {
  Diags *diags = &s->k->cx->diags;
  op_set_attr(s->k, op, (Attr){.key = ATTR_into, .sym = sym_int(s->k->cx->sym, waves)});
  diag_add(diags, DIAG_R0612, op->at,
           "%d waves each multiply their part of the tile: the parts are added %s", waves, when);
}

/* ---- what a loop carries ---- */

/* Collects the ops between a loop's carried value and v if all of them can work on parts instead of
 * the sum: products, and factors that scale it. No other op may use a value in between. */
static bool leads_to(const Shared *s, const Value *carried, Value *v, int waves, Ops *out) {
  Op *op = v->def;
  if (ir_count_uses(s->k->body, v) != 1) return false;
  if (v == carried) return true;
  if (!op || op->parent != carried->owner) return false;
  vec_push(s->cx->scratch, out, op);
  if (op->kind == OP_mma)
    return waves_of(s, op) == waves && may_share(s, op) &&
           leads_to(s, carried, op->args[2], waves, out);
  int last = op->kind == OP_mul ? 1 : op->kind == OP_div && dtype_is_float(v->type->dtype) ? 0 : -1;
  for (int i = 0, n = out->n; i <= last; i++, out->n = n)
    if (op->args[i]->type == v->type && leads_to(s, carried, op->args[i], waves, out)) return true;
  return false;
}

static bool are_products(const Ops *ops) {
  for (int i = 0; i < ops->n; i++)
    if (ops->at[i]->kind != OP_mma) return false;
  return true;
}

/* The index of the loop's carried value that can pass through this product in parts; -1: none. */
static int carried_through(const Shared *s, Op *product, int waves, Ops *out) {
  Op *loop = product->parent->owner, *yield = product->parent->last;
  if (!loop || loop->kind != OP_for) return -1;
  for (int i = 0; i < loop->nresults; i++) {
    bool here = false;
    out->n = 0;
    if (!leads_to(s, loop->body->args[i], yield->args[i], waves, out)) continue;
    const Value *start = loop->args[op_carried(loop) + i];
    if (!value_is_zero(start) && !are_products(out)) continue; /* it would also be scaled */
    for (int j = 0; j < out->n; j++) here |= out->at[j] == product;
    if (here) return i;
  }
  return -1;
}

static void carry_parts(const Shared *s, Op *loop, int i, const Ops *ops, int waves) {
  int at = op_carried(loop) + i;
  Value *result = &loop->results[i], *start = loop->args[at];
  const Type *whole = result->type, *type = in_parts(s, whole, waves);
  loop->args[at] = insert_zero(s, loop, type);
  loop->body->args[i]->type = result->type = type;
  for (int j = 0; j < ops->n; j++) {
    ops->at[j]->results[0].type = type;
    if (ops->at[j]->kind == OP_mma) multiply_part(s, ops->at[j], waves, "after the loop");
  }
  sum_up(s, result, value_is_zero(start) ? NULL : start, whole);
}

static void sum_at_once(const Shared *s, Op *product, int waves) {
  Value *result = &product->results[0], *acc = product->args[2];
  const Type *whole = result->type;
  result->type = in_parts(s, whole, waves);
  product->args[2] = insert_zero(s, product, result->type);
  multiply_part(s, product, waves, "in each iteration");
  sum_up(s, result, acc, whole);
}

void retarget_share_products(Kernel *k, PassCtx *cx, const Machine *m) {
  Shared s = {.k = k, .cx = cx, .machine = m};
  for (Op *op = ir_first(k); op; op = ir_next(op)) {
    if (!may_share(&s, op)) continue;
    Ops ops = {0};
    int waves = waves_of(&s, op), i = carried_through(&s, op, waves, &ops);
    if (i >= 0 && has_room(&s, op, waves, 1)) carry_parts(&s, op->parent->owner, i, &ops, waves);
    else if (i < 0 && has_room(&s, op, waves, 2)) sum_at_once(&s, op, waves);
  }
}
