/* stages_carry.c: see stages_carry.h. */
#include "transform/stages/stages_carry.h"

#include "analysis/motion.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/region_facts.h"
#include "transform/stages/stages_ops.h"

/* A variable of the loop: an earlier iteration's value. */
typedef struct Carried {
  Value *first, *next; /* its value before the loop, and what an iteration passes on */
} Carried;

struct Carry {
  Kernel *k;
  const PassCtx *cx;
  StagedLoop *l;
  Arena *arena;
  const Region *body;
  Value *const *yields; /* of the loop as it was */
  int nvalues;
  Value ***made; /* by value id and iteration: before the loop */
  Value ***held; /* by value id and distance: the variable that holds it */
  Vec(Carried) carried;
};

/* ---- before the loop ---- */

static bool is_of_body(const Carry *c, const Value *v) {
  return v->def && v->def->parent == c->body;
}

/* The value in one of the first iterations, which is computed before the loop. */
static Value *value_at(const Carry *c, Value *v, int iteration) {
  if (is_of_body(c, v)) return c->made[v->id][iteration];
  if (v->owner != c->body) return v;
  if (iteration == 0) return c->l->loop->args[op_carried(c->l->loop) + v->index];
  return value_at(c, c->yields[v->index], iteration - 1);
}

/* What an access reads past the last iteration must not be outside its memory. */
static void limit(const Carry *c, Op *op, const Sym *iteration) {
  bool known = op->kind == OP_read && memory_is_scratch(op->args[0]) && op->nargs == 1;
  if (!known) staged_test(c->k, c->cx, c->l, op, iteration);
}

static void act_for(const Carry *c, const Op *from, Op *op, const Sym *iteration) {
  staged_take_attrs(c->k, c->l, from, op, iteration);
  limit(c, op, iteration);
  const StagedCopy *copy = op->kind == OP_read ? staged_copy_to(c->l, op->args[0]) : NULL;
  if (copy)
    staged_set_slot(c->k, op, staged_copy_number(c->k, c->l, copy, iteration),
                    alloc_slots(copy->alloc));
}

static void insert_before_loop(const Carry *c, const Op *from, int iteration) {
  Value **args = ARENA_ARRAY(c->arena, Value *, from->nargs);
  const Type **types = ARENA_ARRAY(c->arena, const Type *, from->nresults);
  for (int i = 0; i < from->nargs; i++) args[i] = value_at(c, from->args[i], iteration);
  for (int i = 0; i < from->nresults; i++) types[i] = from->results[i].type;
  Op *op = ir_op_new(c->k, from->kind, from->at, args, from->nargs);
  act_for(c, from, op, staged_iteration(c->k, c->l, iteration));
  ir_set_results(c->k, op, types, from->nresults);
  for (int i = 0; i < from->nresults; i++) {
    const Value *like = &from->results[i];
    op->results[i].name = like->name, op->results[i].varying = like->varying;
    ir_set_layout(c->k, &op->results[i], like->layout);
    c->made[like->id][iteration] = &op->results[i];
  }
  ir_insert_before(c->l->loop, op);
}

static bool is_table(const Carry *c, const Op *op) {
  for (int i = 0; i < c->l->tables.n; i++)
    if (c->l->tables.at[i] == op) return true;
  return false;
}

/* As if the loop had begun earlier: coordinates of copies, or other ops. */
static void begin(const Carry *c, bool tables) {
  for (int turn = tables ? -c->l->table_lead : -c->l->lead; turn < 0; turn++)
    for (const Op *op = c->body->first; op; op = op->next) {
      int lead = is_table(c, op) == tables ? staged_lead(c->l, op) : 0;
      if (lead && turn + lead >= 0) insert_before_loop(c, op, turn + lead);
    }
}

Value *carry_first(const Carry *c, Value *v, int iteration) {
  return c ? value_at(c, v, iteration) : v;
}

/* ---- in the loop ---- */

/* The variable that holds a value of `distance` iterations ago. */
static Value *hold(Carry *c, Value *v, int distance) {
  Value **held = &c->held[v->id][distance];
  if (distance == 0) return v;
  if (*held) return *held;
  Value *next = hold(c, v, distance - 1);
  *held = ir_add_arg(c->k, c->l->loop->body, v->type, v->name);
  (*held)->varying = v->varying;
  ir_set_layout(c->k, *held, v->layout);
  Value *first = value_at(c, v, staged_lead(c->l, v->def) - distance);
  vec_push(c->arena, &c->carried, ((Carried){first, next}));
  return *held;
}

/* The value of `later` iterations later than that which the loop is in. */
static Value *value_in(Carry *c, Value *v, int later) {
  if (is_of_body(c, v)) return hold(c, v, staged_lead(c->l, v->def) - later);
  if (v->owner != c->body || later == 0) return v;
  return value_in(c, c->yields[v->index], later - 1);
}

static void use_held(Carry *c, Op *op, int lead) {
  for (int i = 0; i < op->nargs; i++)
    if (op->args[i]->id < c->nvalues) op->args[i] = value_in(c, op->args[i], lead);
}

/* Of the copy as it is in the loop from now on. */
static void find_coords(Carry *c, StagedCopy *copy) {
  int n = copy->boxes ? 0 : copy->copy->nargs - 2;
  copy->coords = ARENA_ARRAY(c->arena, Value *, n);
  for (int i = 0; i < n; i++)
    copy->coords[i] = value_in(c, copy->copy->args[i + 2], copy->ahead + copy->kept);
}

static void run_ahead(Carry *c) {
  for (int i = 0; i < c->l->copies.n; i++) find_coords(c, &c->l->copies.at[i]);
  for (Op *op = c->body->first; op && op_is_inside(op, c->l->loop); op = ir_next(op))
    if (!staged_copies(c->l, op))
      use_held(c, op, op->parent == c->body ? staged_lead(c->l, op) : 0);
  for (Op *op = c->body->first; op; op = op->next) {
    int lead = staged_lead(c->l, op);
    if (lead) act_for(c, op, op, staged_later(c->k, c->l, lead));
  }
}

/* ---- reads that are the same in each iteration ---- */

void carry_fixed(Kernel *k, const PassCtx *cx, StagedLoop *l) {
  const bool *written = find_written(k, cx->scratch);
  for (Op *op = l->loop->body->first, *next; op; op = next) {
    next = op->next;
    if (!staged_lead(l, op) || !motion_is_fixed_read(k, l->loop, written, op)) continue;
    l->leads[op->id] = 0;
    ir_remove(op);
    ir_insert_before(l->loop, op);
    staged_set_iteration(k, l, op, staged_iteration(k, l, 0));
    staged_test(k, cx, l, op, staged_iteration(k, l, 0));
  }
}

static Value ***lists(const Carry *c, int n) {
  Value ***all = ARENA_ARRAY(c->arena, Value **, c->nvalues);
  for (const Op *op = c->body->first; op; op = op->next)
    for (int i = 0; i < op->nresults; i++)
      all[op->results[i].id] = ARENA_ARRAY(c->arena, Value *, n);
  return all;
}

Carry *carry_open(Kernel *k, const PassCtx *cx, StagedLoop *l) {
  const Op *yield = l->loop->body->last;
  int most = l->lead > l->table_lead ? l->lead : l->table_lead;
  if (!most) return NULL;
  Carry *c = ARENA_NEW(cx->scratch, Carry);
  *c = (Carry){.k = k, .cx = cx, .l = l, .arena = cx->scratch, .body = l->loop->body};
  c->yields = arena_copy(c->arena, yield->args, sizeof(Value *) * (size_t)yield->nargs);
  c->nvalues = k->nvalues;
  c->made = lists(c, most);
  c->held = lists(c, most + 1);
  begin(c, true);
  return c;
}

void carry_leads(Carry *c) {
  begin(c, false);
  run_ahead(c);
  for (int i = 0; i < c->carried.n; i++)
    staged_carry(c->k, c->l, c->carried.at[i].first, c->carried.at[i].next);
}
