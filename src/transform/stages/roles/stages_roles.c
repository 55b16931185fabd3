/* stages_roles.c: see stages_roles.h. */
#include "transform/stages/roles/stages_roles.h"

#include <string.h>

#include "ir/ops/access.h"
#include "ir/ops/live.h"
#include "ir/region_facts.h"
#include "transform/stages/roles/stages_common.h"
#include "transform/stages/stages_lead.h"
#include "transform/stages/stages_ops.h"
#include "transform/stages/stages_room.h"

/* Whether the loop is inside another one: service waves then fill slots for its next run. */
static bool runs_again(const Kernel *k, const StagedLoop *l) {
  return l->runs.before != sym_int(k->cx->sym, 0);
}

enum {
  COPIES_NEED = 24, /* registers of a thread that only issues copies, */
  TILES_NEED =
      40, /* and if it also divides numbers that a launch gives, to find tiles: 32 also do */
  TILES_NEED_LEAST = 32,
  USEFUL_MOST = 240,  /* that are worth taking */
  PRODUCT_NEEDS = 26, /* besides its sums: ptxas rejects 72 for 48 of them, and needs 74 */
  GROUP = 4           /* waves that exchange registers together */
};

/* ---- the plan ---- */

static int round_down(int64_t n) { return (int)(n - n % ROLE_REGISTERS_STEP); }

static Diag *refuse(Kernel *k, const Constraint *row, const char *why) {
  return diag_add(&k->cx->diags, DIAG_E0620, row->at, "the loop `%s` has no roles: %s",
                  row->roles.loop, why);
}

static bool fail_at(Kernel *k, const Constraint *row, const char *why, const Op *op,
                    const char *what) {
  diag_note(&k->cx->diags, refuse(k, row, why), op->at, "%s", what);
  return false;
}

/* Copies that rows place in the other role stay where they are. */
static bool place_member(Kernel *k, PassCtx *cx, StagedLoop *l, const Constraint *in,
                         const Role *copying) {
  bool copies = strcmp(in->member.role, copying->name) == 0;
  for (int i = 0; i < in->member.ops.n; i++) {
    OpList found = schedule_find(cx->scratch, k, l->loop, in->member.ops.at[i]);
    for (int j = 0; j < found.n; j++) {
      if (copies && found.at[j]->kind != OP_copy) {
        Diag *d = diag_add(&k->cx->diags, DIAG_E0620, in->at,
                           "waves that copy do nothing else: `%s` cannot have the role `%s`",
                           in->member.ops.at[i], copying->name);
        diag_note(&k->cx->diags, d, found.at[j]->at, "the op");
        return false;
      }
      for (int c = 0; !copies && c < l->copies.n; c++)
        if (l->copies.at[c].copy == found.at[j]) l->copies.at[c].role = NULL;
    }
  }
  return true;
}

/* The parts of a tile are counted together. */
static bool check_parts(Kernel *k, const StagedLoop *l, const Constraint *row) {
  for (int i = 0; i < l->copies.n; i++)
    for (int j = 0; j < i; j++) {
      const StagedCopy *a = &l->copies.at[i], *b = &l->copies.at[j];
      if (a->alloc != b->alloc || !a->role == !b->role) continue;
      Diag *d = diag_add(&k->cx->diags, DIAG_E0620, row->at,
                         "parts of the copy of `%s` have different roles",
                         memory_name(k, a->copy->args[0]));
      diag_note(&k->cx->diags, d, a->copy->at, "the copy");
      return diag_hint(&k->cx->diags, d, "give all of its parts one role");
    }
  return true;
}

/* Slots and phases are those of an iteration's number, counted through all runs of the loop. */
static bool fail_to_count(Kernel *k, PassCtx *cx, const StagedLoop *l, const Constraint *row) {
  const char *why = arena_printf(cx->scratch, "it %s", l->runs.why);
  Diag *d = refuse(k, row, why);
  diag_note(&k->cx->diags, d, l->runs.blamed->at, "this");
  return diag_hint(&k->cx->diags, d, "%s", l->runs.hint);
}

static bool is_in_loop(const Op *op) {
  for (const Op *owner = op->parent->owner; owner; owner = owner->parent->owner)
    if (owner->kind != OP_if) return true;
  return false;
}

/* Why the service waves could not run the loop without the others; NULL: they can. */
static const char *why_not_alone(const Kernel *k, const PassCtx *cx, const Op **blamed) {
  const bool *common = common_values(k, cx);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    *blamed = op;
    if (op->kind == OP_set_symbol && !common[op->args[0]->id])
      return "the kernel sets a symbol to what its waves compute together";
    if (op->kind == OP_barrier_signal || op->kind == OP_barrier_wait)
      return "the kernel has barriers of two halves";
    if (op_is_barrier_of(op, "cluster")) return "all threads of a cluster meet at a barrier";
  }
  return NULL;
}

static void remark(Kernel *k, const Constraint *row, const char *why) {
  for (const Diag *d = k->cx->diags.first; d; d = d->next)
    if (d->code == DIAG_R0615 && memcmp(&d->at, &row->at, sizeof row->at) == 0) return;
  diag_add(&k->cx->diags, DIAG_R0615, row->at, "the loop `%s` has no roles: %s", row->roles.loop,
           why);
}

static const char *why_not_machine(const PassCtx *cx) {
  const TargetInfo *t = cx->target;
  if (!target_has(t, SERVICE_FEATURES))
    return "the machine has no copies that arrive on barriers in shared memory";
  return NULL;
}

/* Registers of a thread with which that many waves begin. They exchange these: what the machine has
 * beyond them is not theirs. */
static int entry_registers(const TargetInfo *t, int waves) {
  return round_down(target_most_registers(t, waves));
}

bool roles_have_room(const PassCtx *cx, const Op *loop) {
  int waves = cx->machine->waves + SERVICE_WAVES, most = 0;
  if (waves > target_waves(cx->target)) return false;
  for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op))
    if (op_is_product(op) && live_registers(&op->results[0]) > most)
      most = live_registers(&op->results[0]);
  return most + PRODUCT_NEEDS <= entry_registers(cx->target, waves);
}

static int taken_registers(const TargetInfo *t, int waves, int copying, int few) {
  int64_t all = (int64_t)entry_registers(t, waves + copying) * (waves + copying);
  int many = round_down((all - (int64_t)few * copying) / waves);
  return many > USEFUL_MOST ? USEFUL_MOST : many;
}

int roles_registers(const TargetInfo *t, int waves, int copying) {
  int entry = entry_registers(t, waves + copying);
  int many = taken_registers(t, waves, copying, COPIES_NEED);
  bool moves = target_has(t, FEATURE_SETMAXNREG) && copying % GROUP == 0 && waves % GROUP == 0;
  return moves && many > entry ? many : entry;
}

static bool check_waves(Kernel *k, PassCtx *cx, const Constraint *row, const Role *copying) {
  const Role *math = copying + 1;
  const Machine *m = cx->machine;
  int all = math->waves + copying->waves, given = copying->registers && math->registers;
  if (math->waves != m->waves) {
    Diag *d = diag_add(&k->cx->diags, DIAG_E0620, row->at,
                       "the role `%s` computes: it has the %d waves of the workgroup, not %d",
                       math->name, m->waves, math->waves);
    return diag_hint(&k->cx->diags, d, "the first role copies, and the second computes");
  }
  if (all > target_waves(cx->target))
    return diag_fail(&k->cx->diags, DIAG_E0620, row->at, "a workgroup has at most %d waves, not %d",
                     target_waves(cx->target), all);
  if (!copying->registers && !math->registers) return true;
  int entry = entry_registers(cx->target, all);
  if (!given || copying->waves % GROUP || math->waves % GROUP)
    return diag_fail(&k->cx->diags, DIAG_E0620, row->at,
                     "registers move between groups of %d waves, and both roles say how many "
                     "they have",
                     GROUP);
  if (copying->registers > entry || math->registers < entry)
    return diag_fail(&k->cx->diags, DIAG_E0620, row->at,
                     "%d waves begin with %d registers a thread: `%s` must have at most, and `%s` "
                     "at least as many",
                     all, entry, copying->name, math->name);
  int64_t need = (int64_t)copying->registers * copying->waves + math->registers * math->waves;
  int64_t have = (int64_t)entry * all;
  return need <= have ||
         diag_fail(
             &k->cx->diags, DIAG_E0620, row->at,
             "the roles need %lld registers for each of %d lanes, and %d waves begin with %lld",
             (long long)need, m->lanes, all, (long long)have);
}

/* A loop that runs again reads its first tiles early once more, before it releases any of them. */
static bool check_slots(Kernel *k, const StagedLoop *l, const Constraint *row) {
  for (int i = 0; i < l->copies.n; i++) {
    const StagedCopy *c = &l->copies.at[i];
    int need = c->lead + 1 + staged_flights(l);
    if (!c->role || !runs_again(k, l) || c->slots >= need) continue;
    Diag *d = refuse(k, row, "it is inside another loop, and has too few slots");
    diag_note(&k->cx->diags, d, c->copy->at, "its tile is read %d iteration%s early", c->lead,
              c->lead == 1 ? "" : "s");
    return diag_hint(&k->cx->diags, d, "it needs %d slots", need);
  }
  return true;
}

static bool plan_loop(Kernel *k, PassCtx *cx, StagedLoop *l, const Constraint *row) {
  const Op *blamed = NULL;
  const Role *copying = &row->roles.groups.at[0];
  l->runs = runs_of(cx->facts.distribute, l->loop);
  const char *why = why_not_alone(k, cx, &blamed);
  int boxes = 0;
  if (l->runs.why) return fail_to_count(k, cx, l, row);
  if (why) return fail_at(k, row, why, blamed, "this");
  if (cx->machine->observable)
    return refuse(k, row, "its threads hold what the kernel declares"), false;
  for (int i = 0; i < l->copies.n; i++) {
    StagedCopy *c = &l->copies.at[i];
    c->role = c->boxes && c->alloc->parent == k->body ? copying->name : NULL;
  }
  EACH_ROW(k, member, in)
    if (schedule_is_for(in, cx->target) && schedule_is_called(l->loop, in->member.loop) &&
        !place_member(k, cx, l, in, copying))
      return false;
  for (int i = 0; i < l->copies.n; i++) boxes += l->copies.at[i].role != NULL;
  if (!boxes) return remark(k, row, "no copy engine fills its rings"), true;
  l->roles = row, l->copying = copying;
  return check_parts(k, l, row) && check_waves(k, cx, row, copying) && check_slots(k, l, row);
}

/* ---- without a row ---- */

static bool has_rows(const Kernel *k) {
  for (int i = 0; i < k->constraints.n; i++) {
    ConstraintKind kind = k->constraints.at[i].kind;
    if (kind == CONSTRAINT_roles || kind == CONSTRAINT_turns || kind == CONSTRAINT_member)
      return true;
  }
  return false;
}

/* Into rings: a slot is filled while another one is read. */
static bool all_by_boxes(const Kernel *k, const StagedLoop *l) {
  for (int i = 0; i < l->copies.n; i++) {
    const StagedCopy *c = &l->copies.at[i];
    if (!c->boxes || c->slots < 2 || c->alloc->parent != k->body) return false;
  }
  return true;
}

/* The next iteration or another product adds to the result, and nothing else uses it. */
static bool is_only_added_to(const Region *body, const Op *product) {
  const Value *sum = &product->results[0];
  for (const Op *op = body->first; op; op = op->next) {
    bool adds = op == body->last || (op_is_product(op) && op->args[product_acc(op)] == sum);
    if (op_takes(op, sum) && !adds) return false;
  }
  return true;
}

/* Several products are waited for in an iteration, since it computes with their results. While one group
 * of waves does so, another can multiply, unless they meet at a barrier. */
static bool waits_for_products(const StagedLoop *l) {
  const Region *body = l->loop->body;
  int waits = 0;
  for (const Op *op = body->first; op; op = op->next) {
    if (op->body) return false;
    waits += op_is_product(op) && !is_only_added_to(body, op);
  }
  return waits > 1 && !l->early;
}

/* Another workgroup beside this one would hide what its waves wait for. */
static bool is_alone(Kernel *k, const PassCtx *cx, const StagedLoop *l, bool waits) {
  if (stages_residents(cx, l->loop) == 1) return true;
  StagesRoom room = stages_room(k, cx);
  return waits && staged_waves(&room, staged_registers(&room, l, 1), 0) <= cx->machine->waves / 4;
}

static bool may_have(Kernel *k, const PassCtx *cx, const StagedLoop *l) {
  StagedLoop served = *l;
  served.early = l->may_be_early; /* with roles, fewer slots suffice for it */
  bool waits = waits_for_products(&served);
  if (l->depth || l->rings.n || l->pins.n || l->order) return false;
  if (!waits && (is_in_loop(l->loop) || !lead_find_second(k, cx->scratch, &served, true)))
    return false;
  return roles_have_room(cx, l->loop) && all_by_boxes(k, l) && is_alone(k, cx, l, waits) &&
         !runs_of(cx->facts.distribute, l->loop).why;
}

bool roles_add(Kernel *k, const PassCtx *cx, const StagesPlan *plan) {
  const Op *blamed;
  const Machine *m = cx->machine;
  if (why_not_machine(cx) || m->observable || has_rows(k) || !plan->loops.n) return false;
  if (m->waves % GROUP) return false;
  for (int i = 0; i < plan->loops.n; i++)
    if (!may_have(k, cx, &plan->loops.at[i])) return false;
  if (why_not_alone(k, cx, &blamed)) return false;
  for (int i = 0; i < plan->loops.n; i++) {
    const Op *loop = plan->loops.at[i].loop;
    if (schedule_roles(k, loop, cx->target)) continue; /* a copy that `version` made */
    Constraint row =
        schedule_service_row(k->arena, k, schedule_loop_name(k->arena, loop), m->waves);
    row.roles.target = cx->target->name;
    vec_push(k->arena, &k->constraints, row);
  }
  return true;
}

/* ---- asked ---- */

/* All loops share the service waves of the workgroup. */
static bool agree(Kernel *k, const StagesPlan *plan, const StagedLoop *l) {
  for (int i = 0; i < plan->loops.n; i++) {
    const StagedLoop *other = &plan->loops.at[i];
    if (other == l || !other->roles) continue;
    if (other->copying->waves == l->copying->waves &&
        other->copying->registers == l->copying->registers)
      continue;
    Diag *d = refuse(k, l->roles, "another loop has other roles");
    diag_note(&k->cx->diags, d, other->roles->at, "its row");
    return false;
  }
  return true;
}

bool roles_plan(Kernel *k, PassCtx *cx, StagesPlan *plan) {
  EACH_ROW(k, roles, row) {
    const char *why = why_not_machine(cx);
    bool found = false;
    if (!schedule_is_for(row, cx->target)) continue;
    for (int i = 0; !why && i < plan->loops.n; i++) {
      StagedLoop *l = &plan->loops.at[i];
      if (!schedule_is_called(l->loop, row->roles.loop)) continue;
      found = true;
      if (!plan_loop(k, cx, l, row) || (l->roles && !agree(k, plan, l))) return false;
    }
    if (why || !found) remark(k, row, why ? why : "it prefetches nothing");
  }
  return true;
}

/* ---- where roles part ---- */

static void insert_registers(Kernel *k, Op *before, const char *how, int count, const char *role) {
  Op *op = ir_insert(k, before, OP_wave_registers, before->at, NULL, 0, NULL);
  op_set_attr(k, op, (Attr){.key = ATTR_mode, .text = intern(&k->cx->names, how)});
  op_set_attr(k, op, (Attr){.key = ATTR_count, .sym = sym_int(k->cx->sym, count)});
  if (role) op_set_attr(k, op, (Attr){.key = ATTR_role, .text = role});
}

/* Waves that find tiles have more, unless those that compute would have less. */
static int few_registers(const Kernel *k, const PassCtx *cx, const StagedLoop *l) {
  int64_t n;
  int waves = cx->machine->waves, copying = l->copying->waves;
  if (l->copying->registers) return l->copying->registers;
  if (!runs_again(k, l) || sym_is_int(l->trips, &n)) return COPIES_NEED;
  int many = taken_registers(cx->target, waves, copying, TILES_NEED);
  return taken_registers(cx->target, waves, copying, TILES_NEED_LEAST) > many ? TILES_NEED_LEAST
                                                                              : TILES_NEED;
}

/* Registers move if rows say so, or if the waves that compute then have more. */
static void exchange_registers(Kernel *k, PassCtx *cx, const StagedLoop *l, Op *before) {
  const Role *copying = l->copying, *math = copying + 1;
  int waves = cx->machine->waves, entry = entry_registers(cx->target, waves + copying->waves);
  int few = few_registers(k, cx, l);
  int many = taken_registers(cx->target, waves, copying->waves, few);
  if (math->registers) many = math->registers;
  if (!target_has(cx->target, FEATURE_SETMAXNREG) || copying->waves % GROUP || waves % GROUP)
    return;
  if (!math->registers && many <= entry) return;
  insert_registers(k, before, "give", few, copying->name);
  insert_registers(k, before, "take", many, NULL);
}

static void move_allocs(Op *before) {
  for (Op *op = before, *next; op; op = next) {
    next = op->next;
    if (op->kind != OP_alloc) continue;
    ir_remove(op);
    ir_insert_before(before, op);
  }
}

void roles_open(Kernel *k, PassCtx *cx, const StagesPlan *plan) {
  const StagedLoop *l = NULL;
  for (int i = 0; !l && i < plan->loops.n; i++)
    if (plan->loops.at[i].roles) l = &plan->loops.at[i];
  if (!l) return;
  for (int i = 0; i < k->constraints.n; i++)
    if (k->constraints.at[i].kind == CONSTRAINT_machine)
      k->constraints.at[i].machine.service = l->copying->waves;
  Op *first = k->body->first;
  while (first->kind == OP_alloc) first = first->next;
  Op *meet = ir_insert(k, first, OP_barrier, l->loop->at, NULL, 0, NULL);
  op_set_attr(k, meet, (Attr){.key = ATTR_mode, .text = intern(&k->cx->names, "roles")});
  exchange_registers(k, cx, l, first);
  move_allocs(meet);
}

/* ---- barriers ---- */

Value *roles_barrier(Kernel *k, const Op *of, const char *name, int slots, int count) {
  const Sym *one = sym_int(k->cx->sym, 1), **physical = ARENA_ARRAY(k->arena, const Sym *, 1);
  const Type *t = type_mem(k->cx, &one, 1, DTYPE_i64, k->cx->shared_space, NULL);
  Op *alloc = ir_insert(k, k->body->first, OP_alloc, of->at, NULL, 0, t);
  Value *ring = &alloc->results[0];
  physical[0] = one;
  op_set_attr(k, alloc, (Attr){.key = ATTR_physical, .n = 1, .exprs = physical});
  op_set_attr(k, alloc, (Attr){.key = ATTR_ring, .integer = slots});
  ring->name = intern(&k->cx->names, name);
  Op *init = ir_insert(k, op_parting(k->body), OP_mbar_init, of->at, &ring, 1, NULL);
  op_set_attr(k, init, (Attr){.key = ATTR_count, .sym = sym_int(k->cx->sym, count)});
  return ring;
}

/* The number of workgroups that copy tiles of the loop for each other. */
static int peers_of(const StagedLoop *l) {
  for (int i = 0; i < l->copies.n; i++)
    if (l->copies.at[i].role && op_peers(l->copies.at[i].copy) > 1)
      return op_peers(l->copies.at[i].copy);
  return 1;
}

/* A slot that several workgroups fill is empty when the waves of all have finished with it. */
static void share_ring(Kernel *k, const StagedLoop *l, Op *op) {
  if (peers_of(l) > 1) op_set_attr(k, op, (Attr){.key = ATTR_peers, .integer = peers_of(l)});
}

/* How many iterations early a tile is read for the last time. */
static int least_lead(const StagedLoop *l, const StagedCopy *c) {
  int least = c->lead;
  for (const Op *op = l->loop->body->first; op && op_is_inside(op, l->loop); op = ir_next(op))
    if (op->kind == OP_read && staged_reads(c, op) && staged_lead(l, op) < least)
      least = staged_lead(l, op);
  return least;
}

static int tokens_for(PassCtx *cx, StagedLoop *l, const StagedCopy *c) {
  StagedTokens mine = {.slots = alloc_slots(c->alloc), .lead = c->lead, .copies = 1};
  mine.least_lead = least_lead(l, c);
  mine.reader = staged_reader(l, c);
  for (int i = 0; i < l->tokens.n; i++) {
    StagedTokens *t = &l->tokens.at[i];
    if (t->slots != mine.slots || t->lead != mine.lead || t->least_lead != mine.least_lead ||
        t->reader != mine.reader)
      continue;
    t->copies++;
    return i;
  }
  vec_push(cx->scratch, &l->tokens, mine);
  return l->tokens.n - 1;
}

/* The barriers of slots that are released together with these; NULL: there are none yet. */
static Value *released_with(const StagedLoop *l, int tokens) {
  const StagedTokens *mine = &l->tokens.at[tokens];
  for (const StagedTokens *t = l->tokens.at; t < mine; t++)
    if (t->slots == mine->slots && (t->least_lead == mine->least_lead || staged_flights(l)))
      return t->empty;
  return NULL;
}

void roles_begin_loop(Kernel *k, PassCtx *cx, StagedLoop *l) {
  for (int i = 0; i < l->copies.n; i++)
    if (l->copies.at[i].role) l->copies.at[i].tokens = tokens_for(cx, l, &l->copies.at[i]);
  for (int i = 0; i < l->tokens.n; i++) {
    StagedTokens *t = &l->tokens.at[i];
    t->full = roles_barrier(k, l->loop, "full", t->slots, t->copies);
    t->empty = released_with(l, i);
    if (t->empty) continue;
    t->empty = roles_barrier(k, l->loop, "empty", t->slots, cx->machine->waves);
    share_ring(k, l, op_parting(k->body)->prev);
  }
}

/* ---- waits and arrivals ---- */

/* Of the iteration, counted through all runs of the loop. */
static const Sym *number_of(Kernel *k, const StagedLoop *l, const Sym *iteration) {
  return sym_add(k->cx->sym, l->runs.before, staged_number(k, l, iteration));
}

Op *roles_wait(Kernel *k, Op *before, Value *ring, const Sym *number, int rounds) {
  SymCtx *sym = k->cx->sym;
  int n = alloc_slots(ring->def);
  const Sym *round = sym_floordiv(sym, number, sym_int(sym, n));
  const Sym *phase = sym_add(sym, round, sym_int(sym, rounds));
  Op *op = ir_insert(k, before, OP_mbar_wait, before->at, &ring, 1, NULL);
  op_set_attr(k, op, (Attr){.key = ATTR_slot, .sym = sym_int(sym, 0)});
  staged_set_slot(k, op, number, n);
  op_set_attr(k, op, (Attr){.key = ATTR_parity, .sym = sym_mod(sym, phase, sym_int(sym, 2))});
  return op;
}

/* Each wave that computes releases the tile of an iteration, if there is one: that may be before the
 * first, or past the last. */
static void insert_arrival(Kernel *k, PassCtx *cx, const StagedLoop *l, Op *before, Value *ring,
                           const Sym *iteration) {
  SymCtx *sym = k->cx->sym;
  const Sym **mask = ARENA_ARRAY(k->arena, const Sym *, 1), *number = number_of(k, l, iteration);
  int64_t by;
  bool early = sym_is_int(sym_sub(sym, iteration, l->counter), &by) && by < 0;
  const Sym *begun = sym_le(sym, sym_int(sym, 0), runs_again(k, l) ? number : iteration);
  const Sym *exists = early ? begun : sym_lt(sym, iteration, l->trips);
  bool own = iteration == l->counter || sym_proves(sym, cx->facts.distribute->facts, exists);
  int n = own ? 0 : 1;
  mask[0] = exists;
  Op *op = ir_insert(k, before, OP_mbar_arrive, before->at, &ring, 1, NULL);
  staged_set_iteration(k, l, op, iteration);
  staged_set_slot(k, op, number, alloc_slots(ring->def));
  op_set_attr(k, op, (Attr){.key = ATTR_mask, .n = n, .exprs = mask});
  share_ring(k, l, op);
}

/* Of a short loop, where a later iteration than this one is always the last, the proof still asks how much later. */
static const Sym *at_most_last_of_run(Kernel *k, PassCtx *cx, const StagedLoop *l,
                                      const Sym *iteration) {
  SymCtx *sym = k->cx->sym;
  const Sym *number = staged_number_at_most(k, cx, l, iteration);
  if (!sym_contains(iteration, l->counter) || sym_contains(number, l->counter)) return number;
  return sym_min(sym, staged_number(k, l, iteration), sym_sub(sym, l->count, sym_int(sym, 1)));
}

/* The number of an iteration, which may be one of the next run, or that of the last iteration of all. In
 * a loop without iterations this is -1, whose phase is complete from the start. If it is not known whether there is
 * a next run, that of the last iteration of this one, which then has at least one. */
static const Sym *at_most_last(Kernel *k, PassCtx *cx, const StagedLoop *l, const Sym *iteration) {
  SymCtx *sym = k->cx->sym;
  if (!l->runs.all && iteration == sym_int(sym, 0)) return l->runs.before;
  if (!l->runs.all) return sym_add(sym, l->runs.before, at_most_last_of_run(k, cx, l, iteration));
  const Sym *last = sym_sub(sym, l->runs.all, sym_int(sym, 1));
  const Sym *number = sym_min(sym, number_of(k, l, iteration), last);
  return runs_again(k, l) ? number : at_most_last_of_run(k, cx, l, iteration);
}

void roles_await_first(Kernel *k, PassCtx *cx, const StagedLoop *l) {
  for (int i = 0; i < l->tokens.n; i++)
    for (int n = 0; n < l->tokens.at[i].lead; n++)
      roles_wait(k, l->loop, l->tokens.at[i].full,
                 at_most_last(k, cx, l, staged_iteration(k, l, n)), 0);
}

static void issue_copies(Kernel *k, const StagedLoop *l, Op *first) {
  Attr role = {.key = ATTR_role, .text = l->tokens.n ? l->copying->name : NULL};
  const Sym *number = number_of(k, l, l->counter);
  for (int t = 0; t < l->tokens.n; t++) {
    if (!released_with(l, t))
      op_set_attr(k, roles_wait(k, first, l->tokens.at[t].empty, number, 1), role);
    for (int i = 0; i < l->copies.n; i++) {
      const StagedCopy *c = &l->copies.at[i];
      if (!c->role || c->tokens != t) continue;
      Value *args[] = {c->copy->args[0], c->copy->args[1], l->tokens.at[t].full};
      Op *op = ir_insert(k, first, OP_copy, c->copy->at, args, 3, NULL);
      staged_take_attrs(k, l, c->copy, op, l->counter);
      staged_set_slot(k, op, number, l->tokens.at[t].slots);
      op_set_attr(k, op, role);
    }
  }
}

static Op *reader_of(const StagedLoop *l, int tokens) {
  Op *first = l->loop->body->last;
  for (int i = 0; i < l->copies.n; i++) {
    const StagedCopy *c = &l->copies.at[i];
    if (!c->role || c->tokens != tokens) continue;
    Op *reader = staged_reader(l, c);
    for (Op *op = reader; op; op = op->next)
      if (op == first) first = reader;
  }
  return first;
}

/* The shared memory of a workgroup must exist until others have arrived there for the last time: service waves wait
 * for each slot as if it were filled once more. Nothing releases the tile of a product that is in flight when the loop
 * ends. */
static void await_releases(Kernel *k, const StagedLoop *l) {
  SymCtx *sym = k->cx->sym;
  if (peers_of(l) == 1 || !l->runs.all) return;
  for (int t = 0; t < l->tokens.n; t++) {
    const StagedTokens *tokens = &l->tokens.at[t];
    for (int n = 0; !released_with(l, t) && n < tokens->slots - staged_flights(l); n++) {
      const Sym *number = sym_add(sym, l->runs.all, sym_int(sym, n));
      Op *wait = roles_wait(k, l->loop, tokens->empty, number, 1);
      op_set_attr(k, wait, (Attr){.key = ATTR_role, .text = l->copying->name});
      ir_remove(wait);
      ir_append(k->body, wait);
    }
  }
}

void roles_rewrite_loop(Kernel *k, PassCtx *cx, StagedLoop *l) {
  for (int t = 0; t < l->tokens.n; t++) {
    const StagedTokens *tokens = &l->tokens.at[t];
    const Sym *iteration = staged_later(k, l, tokens->lead);
    const Sym *number =
        tokens->lead ? at_most_last(k, cx, l, iteration) : number_of(k, l, iteration);
    roles_wait(k, reader_of(l, t), tokens->full, number, 0);
  }
  issue_copies(k, l, l->loop->body->first);
  for (int t = 0; t < l->tokens.n; t++) {
    const StagedTokens *tokens = &l->tokens.at[t];
    int released = staged_flights(l) ? -1 : tokens->least_lead;
    if (released_with(l, t)) continue;
    for (int n = 0; n < released; n++)
      insert_arrival(k, cx, l, l->loop, tokens->empty, staged_iteration(k, l, n));
    insert_arrival(k, cx, l, l->loop->body->last, tokens->empty, staged_later(k, l, released));
  }
  await_releases(k, l);
}
