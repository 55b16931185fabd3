/* stages_lead.c: see stages_lead.h. */
#include "transform/stages/stages_lead.h"

#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "transform/stages/stages_ops.h"

typedef struct Leads {
  Kernel *k;
  StagedLoop *l;
  const MemoryUses *m;
  int last;
  const StagedPin **pin; /* by op id: the row that places it; NULL: none */
  const Op **because;    /* by op id: the op that needs it that early */
  bool changed;
} Leads;

static const Region *body_of(const Leads *x) { return x->l->loop->body; }
static int *lead_of(const Leads *x, const Op *op) { return &x->l->leads[op->id]; }

/* ---- reporting ---- */

/* The row that asks for the op to be early, or for an op that needs it. */
static const Constraint *asking_row(const Leads *x, const Op *op) {
  while (!x->pin[op->id]) op = x->because[op->id];
  return x->pin[op->id]->row;
}

static Diag *refuse(const Leads *x, const Constraint *row, const char *text) {
  return diag_add(&x->k->cx->diags, DIAG_E0620, row->at, "%s", text);
}

static void note(const Leads *x, Diag *d, const Op *op, const char *text) {
  diag_note(&x->k->cx->diags, d, op->at, "%s", text);
}

static bool fail_late(const Leads *x, const Op *op, int need, const Op *user) {
  const StagedPin *pin = x->pin[op->id], *other = x->pin[user->id];
  Diags *diags = &x->k->cx->diags;
  const char *needs = other ? arena_printf(diags->arena, "`%s` needs its result", other->name)
                            : "its result is needed";
  Diag *d = diag_add(diags, DIAG_E0620, pin->row->at, "`%s` is in stage %d, but %s in stage %d",
                     pin->name, pin->to.stage, needs, x->last - need);
  note(x, d, op, "computed here");
  note(x, d, user, "needed here");
  return diag_hint(diags, d, "place `%s` in a stage up to %d", pin->name, x->last - need);
}

static bool fail_stays(const Leads *x, const Op *op, int need, const Op *user, const char *why) {
  const Constraint *row = asking_row(x, user ? user : op);
  Diag *d = diag_add(&x->k->cx->diags, DIAG_E0620, row->at, "stage %d is before the last, %d",
                     x->last - need, x->last);
  diag_note(&x->k->cx->diags, d, op->at, "this op stays in the last stage: %s", why);
  if (user) note(x, d, user, "this one needs it earlier");
  return diag_hint(&x->k->cx->diags, d, "place it in stage %d", x->last);
}

/* ---- what an op needs ---- */

/* Another op that computes the same. */
static Op *insert_again(Kernel *k, const Op *op, Op *before) {
  const Value *result = &op->results[0];
  Op *own = ir_insert(k, before, op->kind, op->at, op->args, op->nargs, result->type);
  own->attrs = arena_copy(k->arena, op->attrs, sizeof(Attr) * (size_t)op->nattrs);
  own->nattrs = op->nattrs;
  own->results[0].name = result->name;
  own->results[0].varying = result->varying;
  ir_set_layout(k, &own->results[0], result->layout);
  return own;
}

bool lead_is_left(const Op *op) {
  return op->kind == OP_read && !op->results[0].layout && memory_is_scratch(op->args[0]);
}

static bool writes_scratch(const Op *op) {
  const Value *memory = op->kind == OP_write ? memory_root(op->args[1]) : NULL;
  return memory && memory_is_scratch(memory) && memory->def && memory->def->kind == OP_alloc;
}

/* Why an op cannot be computed early; NULL: it can. Past the last iteration, what an early op
 * computes is not used. */
static const char *why_stays(const Op *op) {
  if (op_has(op, ATTR_iteration)) return "it names the iteration for which it acts";
  if (op_has(op, ATTR_volatile)) return "what it reads may change";
  if (op->body) return "it is a region";
  if (op->kind == OP_copy) return "its tile is not prefetched";
  if (op_is_private(op) || writes_scratch(op)) return NULL;
  return "its effect outlasts the iteration";
}

static bool pull(Leads *x, Op *op, int need, const Op *user) {
  if (*lead_of(x, op) >= need) return true;
  if (x->pin[op->id]) return fail_late(x, op, need, user);
  const char *why = why_stays(op);
  if (why) return fail_stays(x, op, need, user, why);
  *lead_of(x, op) = need;
  x->because[op->id] = user;
  return x->changed = true;
}

/* The value of `need` iterations later. What the loop carries is what the iteration before yields. */
static bool pull_value(Leads *x, const Value *v, int need, const Op *user) {
  const Region *body = body_of(x);
  if (need <= 0) return true;
  if (v->owner == body) return pull_value(x, body->last->args[v->index], need - 1, user);
  return !v->def || v->def->parent != body || pull(x, v->def, need, user);
}

/* ---- memory ---- */

static bool fail_outside(const Leads *x, const Op *op, const Op *other) {
  Diag *d = refuse(x, asking_row(x, op),
                   "an op that is computed early writes a tile that is also used "
                   "outside the loop");
  note(x, d, op, "writes the tile");
  note(x, d, other, "uses it outside the loop");
  return false;
}

static bool fail_shared(const Leads *x, const Op *op, const Op *other) {
  Diag *d =
      refuse(x, asking_row(x, op),
             "an op that is computed early accesses memory to which another iteration writes");
  note(x, d, op, "computed early");
  note(x, d, other, "accesses the same memory");
  return false;
}

/* Two accesses to a memory, at least one of which writes: they stay together. Tiles that copies fill
 * have as many slots as they need. */
static bool pull_access(Leads *x, Op *op, const MemoryUse *own, const MemoryUse *use) {
  const Value *memory = x->m->memories.at[own->memory];
  Op *other = (Op *)(uintptr_t)op_ancestor_in(use->op, body_of(x));
  if (own->how == TOUCH_READ && use->how == TOUCH_READ) return true;
  if (!uses_overlap(x->m, own, use)) return true;
  if (!other && (own->how == TOUCH_READ || op_excludes(x->k, op, use->op))) return true;
  if (!other) return fail_outside(x, op, use->op);
  if (other == op || staged_copies(x->l, other)) return true;
  if (!memory_is_scratch(memory)) return fail_shared(x, op, other);
  return pull(x, other, *lead_of(x, op), op);
}

static bool pull_memory(Leads *x, Op *op) {
  for (int i = 0; i < x->m->uses.n; i++)
    for (int j = 0; x->m->uses.at[i].op == op && j < x->m->uses.n; j++)
      if (!pull_access(x, op, &x->m->uses.at[i], &x->m->uses.at[j])) return false;
  return true;
}

static bool pull_needs(Leads *x, Op *op) {
  int lead = *lead_of(x, op);
  for (int i = 0; lead && i < op->nargs; i++)
    if (!pull_value(x, op->args[i], lead, op)) return false;
  return !lead || pull_memory(x, op);
}

static bool pull_all(Leads *x) {
  do {
    x->changed = false;
    for (Op *op = body_of(x)->last; op; op = op->prev)
      if (!pull_needs(x, op)) return false;
  } while (x->changed);
  return true;
}

/* ---- rows ---- */

static bool place(Leads *x, const StagedPin *pin) {
  Op *op = pin->op;
  int lead = x->last - pin->to.stage - schedule_ahead(x->k, x->l->loop, op);
  if (lead_is_left(op) || staged_copies(x->l, op)) return true;
  x->pin[op->id] = pin;
  if (lead == 0) return true;
  const char *why = op->parent != body_of(x) ? "it is in a region" : why_stays(op);
  if (why) return fail_stays(x, op, lead, NULL, why);
  *lead_of(x, op) = lead;
  return true;
}

/* Leads of the ops as they were, and of new ones. */
static void more_leads(const Kernel *k, Arena *a, StagedLoop *l) {
  int *leads = ARENA_ARRAY(a, int, k->nops);
  for (int i = 0; i < l->nleads; i++) leads[i] = l->leads[i];
  l->leads = leads, l->nleads = k->nops;
}

/* Other ops have a tile in registers before the iteration of the product that reads it from shared
 * memory: the product has a read of its own, which leaves it there. */
static bool needs_own_read(const Leads *x, const Op *product, int i) {
  const Attr *mma = product->kind == OP_mma ? op_attr(product, ATTR_mma) : NULL;
  if (!mma || !(i ? mma->mma->shared_rhs : mma->mma->shared_lhs)) return false;
  const Op *read = product->args[i]->def;
  if (!read || read->kind != OP_read || read->parent != body_of(x)) return false;
  return !lead_is_left(read) && *lead_of(x, read) != *lead_of(x, product);
}

static void add_own_reads(Leads *x, Arena *a) {
  for (Op *op = body_of(x)->first; op; op = op->next)
    for (int i = 0; i < 2; i++) {
      if (!needs_own_read(x, op, i)) continue;
      Op *own = insert_again(x->k, op->args[i]->def, op);
      ir_set_layout(x->k, &own->results[0], NULL);
      op->args[i] = &own->results[0];
      more_leads(x->k, a, x->l);
      *lead_of(x, own) = *lead_of(x, op);
    }
}

/* What is left in shared memory is read by what uses it: in the same iteration. */
static bool check_left(const Leads *x, const Op *op) {
  for (const Op *user = op->next; user; user = user->next) {
    if (!op_takes(user, &op->results[0]) || *lead_of(x, user) == *lead_of(x, op)) continue;
    Diag *d = refuse(x, asking_row(x, op),
                     "two matmuls that read the same tile from shared memory "
                     "must be in one stage");
    note(x, d, x->because[op->id], "the first");
    note(x, d, user, "the second");
    return false;
  }
  return true;
}

/* A place for a fetch that the machine does without. */
static void remark_left(const Leads *x, const StagedPin *pin) {
  if (lead_is_left(pin->op) && x->last - pin->to.stage != *lead_of(x, pin->op))
    diag_add(&x->k->cx->diags, DIAG_R0615, pin->row->at,
             "the matmul reads `%s` from shared memory: no op at this place fetches it",
             memory_name(x->k, pin->op->args[0]));
}

/* The reads of the tile that a copy fills. */
static void find_reads(const Leads *x, StagedCopy *c) {
  bool any = false;
  for (const Op *op = x->l->loop->body->first; op && op_is_inside(op, x->l->loop);
       op = ir_next(op)) {
    if (op->kind != OP_read || !staged_reads(c, op)) continue;
    int lead = op->parent == body_of(x) ? *lead_of(x, op) : 0;
    if (lead > c->lead) c->lead = lead;
    if (!any || lead < c->least_lead) c->least_lead = lead;
    any = true;
  }
}

static void make_leads(Kernel *k, Arena *a, StagedLoop *l) {
  l->nleads = k->nops;
  l->leads = ARENA_ARRAY(a, int, k->nops);
}

/* By op id: only coordinates of copies, or what they are computed from, use what the op computes. A copy
 * may come before it, where rows put it. */
static bool *find_tables(const Kernel *k, Arena *a, const StagedLoop *l) {
  const Region *body = l->loop->body;
  bool *only = ARENA_ARRAY(a, bool, k->nops), changed = true;
  for (const Op *op = body->first; op && op_is_inside(op, l->loop); op = ir_next(op))
    for (int i = 0; i < op->nargs; i++) {
      const Op *def = op->args[i]->def;
      if (def && def->parent == body) only[def->id] = def->nresults == 1 && !why_stays(def);
    }
  while (changed) {
    changed = false;
    for (const Op *user = body->first; user; user = user->next) {
      if (only[user->id] || staged_copies(l, user)) continue;
      for (const Op *in = user; in && op_is_inside(in, user); in = ir_next(in))
        for (int i = 0; i < in->nargs; i++) {
          const Op *def = in->args[i]->def;
          if (!def || def->parent != body || !only[def->id]) continue;
          only[def->id] = false, changed = true;
        }
    }
  }
  return only;
}

void lead_find_most(const Kernel *k, Arena *a, StagedLoop *l) {
  const bool *only = find_tables(k, a, l);
  l->lead = 0;
  for (const Op *op = l->loop->body->first; op; op = op->next)
    if (staged_lead(l, op) > l->lead && !only[op->id]) l->lead = staged_lead(l, op);
}

bool lead_pin(Kernel *k, Arena *a, const MemoryUses *m, StagedLoop *l, int last) {
  Leads x = {.k = k, .l = l, .m = m, .last = last};
  x.pin = ARENA_ARRAY(a, const StagedPin *, k->nops);
  x.because = ARENA_ARRAY(a, const Op *, k->nops);
  make_leads(k, a, l);
  for (int i = 0; i < l->pins.n; i++)
    if (!place(&x, &l->pins.at[i])) return false;
  if (!pull_all(&x)) return false;
  add_own_reads(&x, a);
  for (const Op *op = l->loop->body->first; op; op = op->next)
    if (lead_is_left(op) && !check_left(&x, op)) return false;
  lead_find_most(k, a, l);
  for (int i = 0; i < l->pins.n; i++) remark_left(&x, &l->pins.at[i]);
  for (int i = 0; i < l->copies.n; i++) find_reads(&x, &l->copies.at[i]);
  return true;
}

/* ---- tables of coordinates ---- */

static const char *why_not_table(const MemoryUses *m, const Op *loop, const Value *v, bool *seen) {
  const Op *op = v->def;
  if (!op && v->owner == loop->body) return "its coordinates are loop-carried";
  if (!op || op->parent != loop->body || seen[op->id]) return NULL;
  seen[op->id] = true;
  if (!op_is_private(op) || op->kind == OP_turn || op->nresults != 1 || why_stays(op))
    return "its coordinates are computed by an op that stays in its iteration";
  if (op->kind == OP_read && memory_is_scratch(op->args[0]))
    return "its coordinates are exchanged through shared memory";
  if (op->kind == OP_read && memory_is_stored_to(m, op->args[0], loop))
    return "the loop writes to the table of its coordinates";
  for (int i = 0; i < op->nargs; i++) {
    const char *why = why_not_table(m, loop, op->args[i], seen);
    if (why) return why;
  }
  return NULL;
}

const char *lead_why_not_tables(const Kernel *k, Arena *a, const MemoryUses *m, const Op *loop,
                                const Op *copy) {
  const char *why = NULL;
  if (copy->nargs == 2 || copy_barriers(copy)) return NULL;
  bool *seen = ARENA_ARRAY(a, bool, k->nops);
  for (int i = 2; !why && i < copy->nargs; i++) why = why_not_table(m, loop, copy->args[i], seen);
  return why;
}

typedef struct Tables {
  Kernel *k;
  Arena *arena;
  StagedLoop *l;
  const bool *only; /* by op id: it computes for copies alone */
  Op **own;  /* by op id: the op that computes the same for copies alone; NULL: not known yet */
  int *need; /* by op id: the lead that its operands have at least */
} Tables;

static Value *own_table(Tables *x, Value *v) {
  Op *op = v->def;
  if (!op || op->parent != x->l->loop->body) return v;
  if (x->own[op->id]) return &x->own[op->id]->results[0];
  Op *own = x->only[op->id] ? op : insert_again(x->k, op, op);
  x->own[op->id] = own;
  for (int i = 0; i < own->nargs; i++) own->args[i] = own_table(x, own->args[i]);
  vec_push(x->arena, &x->l->tables, own);
  return &own->results[0];
}

static bool fail_table(Kernel *k, const StagedLoop *l, const StagedPin *pin, const StagedCopy *c) {
  Diag *d = diag_add(&k->cx->diags, DIAG_E0620, pin->row->at,
                     "`%s` is not read one iteration before the copy whose coordinates it has",
                     pin->name);
  diag_note(&k->cx->diags, d, c->copy->at, "the copy of `%s` runs %d iteration%s ahead",
            memory_name(k, c->copy->args[0]), c->ahead + c->kept,
            c->ahead + c->kept == 1 ? "" : "s");
  diag_note(&k->cx->diags, d, l->loop->at, "the loop");
  return diag_hint(&k->cx->diags, d, "leave out the row, or name an earlier stage");
}

/* The ops of `tables` that compute v are computed early enough for the copy. */
static bool lead_table(const Tables *x, const Value *v, const StagedCopy *c, int need) {
  const Op *op = v->def;
  StagedLoop *l = x->l;
  if (!op || op->parent != l->loop->body || x->need[op->id] >= need) return true;
  int *lead = &l->leads[op->id];
  for (int i = 0; *lead < need && i < l->pins.n; i++)
    if (l->pins.at[i].op == op) return fail_table(x->k, l, &l->pins.at[i], c);
  if (*lead < need) *lead = need;
  if (*lead > l->table_lead) l->table_lead = *lead;
  x->need[op->id] = *lead;
  for (int i = 0; i < op->nargs; i++)
    if (!lead_table(x, op->args[i], c, *lead)) return false;
  return true;
}

/* Rows order ops by the leads that they had before: what is now computed for the same iteration comes
 * after its operands. */
static void order_tables(const StagedLoop *l) {
  for (int i = 0; i < l->tables.n; i++) { /* operands first */
    Op *op = l->tables.at[i];
    for (int j = 0; j < op->nargs; j++) {
      Op *from = op->args[j]->def;
      if (!from || from->parent != op->parent || !op_comes_before(op, from)) continue;
      ir_remove(op);
      ir_insert_after(from, op);
    }
  }
}

bool lead_tables(Kernel *k, Arena *a, StagedLoop *l) {
  Tables x = {.k = k, .arena = a, .l = l};
  bool any = false;
  for (int i = 0; i < l->copies.n; i++) any |= l->copies.at[i].copy->nargs > 2;
  if (!any) return true;
  x.only = find_tables(k, a, l);
  x.own = ARENA_ARRAY(a, Op *, k->nops);
  for (int i = 0; i < l->copies.n; i++) {
    Op *copy = l->copies.at[i].copy;
    for (int j = 2; j < copy->nargs; j++) copy->args[j] = own_table(&x, copy->args[j]);
  }
  more_leads(k, a, l);
  x.need = ARENA_ARRAY(a, int, k->nops);
  for (int i = 0; i < l->copies.n; i++) {
    const StagedCopy *c = &l->copies.at[i];
    for (int j = 2; j < c->copy->nargs; j++)
      if (!lead_table(&x, c->copy->args[j], c, c->ahead + c->kept + 1)) return false;
  }
  order_tables(l);
  return true;
}

/* ---- a product, without rows ---- */

static bool writes_to(const Op *op, const Value *memory) {
  MemAccess a;
  if (op->kind == OP_copy) return op->args[1] == memory;
  return op->kind != OP_read && access_of(op, &a) && memory_root(a.memory) == memory;
}

/* The tile can be read one iteration early: copies run that far ahead, or it does not change while
 * the loop runs. */
static bool is_there_early(const StagedLoop *l, const Value *tile) {
  const Op *read = tile->def;
  if (!read || read->kind != OP_read || read->nargs != 1 || op_has(read, ATTR_mapping))
    return false;
  const Value *memory = read->args[0];
  const StagedCopy *c = staged_copy_to(l, memory);
  if (c) return c->async && read->parent == l->loop->body;
  for (const Op *op = l->loop->body->first; op && op_is_inside(op, l->loop); op = ir_next(op))
    if (writes_to(op, memory)) return false;
  return memory_is_scratch(memory) && memory->def && memory->def->kind == OP_alloc;
}

static bool reads_both(const Op *op) {
  const Attr *mma = op->kind == OP_mma ? op_attr(op, ATTR_mma) : NULL;
  return mma && mma->mma->shared_lhs && mma->mma->shared_rhs;
}

/* A sum that starts over in each iteration. */
static bool begins_anew(const Op *product) {
  const Op *acc = product->args[2]->def;
  return acc && acc->kind == OP_fill;
}

/* Past the last iteration a product reads a tile that it does not need. Where the copies of other tiles of the grid may
 * follow at once, `peel` has to leave it out, which it can in loops without a step. */
static bool may_go_beyond(const StagedLoop *l) {
  return l->step == 1 || !op_has(l->loop, ATTR_earlier);
}

Op *lead_find_product(const StagedLoop *l) {
  Op *op = may_go_beyond(l) ? l->loop->body->first : NULL;
  while (op && op->kind != OP_mma) op = op->next;
  if (!op || !reads_both(op) || !begins_anew(op) || op_takes(l->loop->body->last, &op->results[0]))
    return NULL;
  bool there = is_there_early(l, op->args[0]) && is_there_early(l, op->args[1]);
  bool staged =
      staged_copy_to(l, op->args[0]->def->args[0]) || staged_copy_to(l, op->args[1]->def->args[0]);
  return there && staged ? op : NULL;
}

/* Ops that leave elements in the registers where they are. A select does if its mask is seldom needed
 * (lower_guard.c). */
static bool only_renames(const Op *op) {
  return op->kind == OP_permute || op->kind == OP_squeeze || op->kind == OP_select;
}

/* Of two ops of a region, either of which may be NULL. */
static Op *later_of(Op *a, Op *b) {
  for (Op *op = a; op && b; op = op->next)
    if (op == b) return b;
  return a ? a : b;
}

static bool uses_inside(const Op *op, const Value *v) {
  for (const Op *user = op; user && op_is_inside(user, op); user = ir_next(user))
    if (op_takes(user, v)) return true;
  return false;
}

/* The last op of the body that needs the registers of `v`; NULL: none. */
static Op *last_use(const Region *body, const Value *v) {
  Op *last = NULL;
  for (Op *op = body->first; op; op = op->next) {
    if (!uses_inside(op, v)) continue;
    last = later_of(last, op);
    if (only_renames(op)) last = later_of(last, last_use(body, &op->results[0]));
  }
  return last;
}

/* The op before which the next product begins. */
static Op *find_point(const StagedLoop *l) {
  const Region *body = l->loop->body;
  Op *last = last_use(body, &l->early->results[0]);
  if (!last) return body->first;
  return last == body->last ? last : last->next;
}

/* An operand of l->early that no other op uses. */
static Op *own_operand(Kernel *k, const StagedLoop *l, int i) {
  Op *op = l->early->args[i]->def;
  if (ir_count_uses(k->body, &op->results[0]) == 1 && op->parent == l->loop->body) return op;
  Op *own = insert_again(k, op, l->early);
  l->early->args[i] = &own->results[0];
  return own;
}

void lead_product(Kernel *k, Arena *a, StagedLoop *l) {
  Op *ops[] = {own_operand(k, l, 0), own_operand(k, l, 1), own_operand(k, l, 2), l->early};
  Op *point = find_point(l);
  make_leads(k, a, l);
  for (size_t i = 0; i < WV_LEN(ops); i++) {
    ir_remove(ops[i]);
    ir_insert_before(point, ops[i]);
    l->leads[ops[i]->id] = 1;
  }
  l->lead = 1;
  for (int i = 0; i < l->copies.n; i++) {
    StagedCopy *c = &l->copies.at[i];
    c->lead = c->alloc == ops[0]->args[0]->def || c->alloc == ops[1]->args[0]->def;
  }
}

/* ---- all but the second product, without rows ---- */

/* The only other product of the loop, after the first. */
static Op *second_product(const StagedLoop *l) {
  Op *found = NULL;
  for (Op *op = l->loop->body->first; op; op = op->next) {
    if (op->body) return NULL;
    if (!op_is_product(op) || op == l->early) continue;
    if (found || op->kind != OP_mma || !op_comes_before(l->early, op)) return NULL;
    found = op;
  }
  return found;
}

/* What the loop carries from the product to the next iteration; NULL: it does something else with it. */
static const Value *carried_sum(const StagedLoop *l, const Op *product) {
  const Region *body = l->loop->body;
  const Value *sum = &product->results[0];
  if (ir_count_uses(body, sum) != 1) return NULL;
  for (int i = 0; i < body->nargs; i++)
    if (body->last->args[i] == sum) return body->args[i];
  return NULL;
}

/* By op id: the product, the tiles that it alone reads, and what it adds to: these ops are not early.
 * NULL: others use them too. */
static const bool *late_ops(const Kernel *k, Arena *a, const StagedLoop *l, const Op *product) {
  const Region *body = l->loop->body;
  const Value *carried = carried_sum(l, product);
  bool *late = ARENA_ARRAY(a, bool, k->nops), *sums = ARENA_ARRAY(a, bool, k->nvalues);
  if (!carried) return NULL;
  late[product->id] = sums[carried->id] = true;
  for (const Op *op = body->first; op != product; op = op->next)
    for (int i = 0; i < op->nargs; i++)
      if (sums[op->args[i]->id] && op->nresults == 1) late[op->id] = sums[op->results[0].id] = true;
  for (int i = 0; i < 2; i++) {
    const Op *read = product->args[i]->def;
    if (read && lead_is_left(read) && ir_count_uses(body, &read->results[0]) == 1)
      late[read->id] = true;
  }
  for (const Op *op = body->first; op; op = op->next)
    for (int i = 0; op != product && !late[op->id] && i < op->nargs; i++) {
      const Op *def = op->args[i]->def;
      bool of_late = sums[op->args[i]->id] || (def && def->parent == body && late[def->id]);
      if (of_late && !(op == body->last && def == product)) return NULL;
    }
  return late;
}

/* A mask is applied to the result of the product, possibly after it has been scaled. */
static bool is_masked(const Kernel *k, Arena *a, const Op *product) {
  bool *own = ARENA_ARRAY(a, bool, k->nvalues);
  own[product->results[0].id] = true;
  for (const Op *op = product->next; op; op = op->next)
    for (int i = 0; op->nresults == 1 && i < op->nargs; i++) {
      if (!own[op->args[i]->id]) continue;
      if (op->kind == OP_select) return true;
      if (op->kind == OP_mul || op->kind == OP_permute || op->kind == OP_squeeze)
        own[op->results[0].id] = true;
    }
  return false;
}

Op *lead_find_second(const Kernel *k, Arena *a, const StagedLoop *l, bool has_roles) {
  Op *product = l->early ? second_product(l) : NULL;
  if (!product || !(has_roles || is_masked(k, a, l->early))) return NULL;
  const bool *late = late_ops(k, a, l, product);
  if (!late || !product->results[0].layout || !l->early->results[0].layout) return NULL;
  for (const Op *op = l->loop->body->first; op != l->loop->body->last; op = op->next)
    if (!late[op->id] && !staged_copies(l, op) && why_stays(op)) return NULL;
  int sum = layout_size(product->results[0].layout, LAYOUT_REG);
  return l->only_served || sum >= layout_size(l->early->results[0].layout, LAYOUT_REG) ? product
                                                                                       : NULL;
}

void lead_first(Kernel *k, Arena *a, StagedLoop *l) {
  Leads x = {.k = k, .l = l};
  const bool *late = late_ops(k, a, l, l->late);
  Op *point = l->early->next;
  make_leads(k, a, l);
  for (Op *op = l->loop->body->first, *next; op != l->loop->body->last; op = next) {
    next = op->next;
    if (!late[op->id]) {
      l->leads[op->id] = staged_copies(l, op) ? 0 : 1;
      continue;
    }
    if (op == point) {
      point = next;
      continue;
    }
    ir_remove(op);
    ir_insert_before(point, op);
  }
  l->lead = 1;
  for (int i = 0; i < l->copies.n; i++) find_reads(&x, &l->copies.at[i]);
}
