/* stages_depth.c: see stages_depth.h. */
#include "transform/stages/stages_depth.h"

#include "ir/ops/alloc_layout.h"
#include "ir/region_facts.h"
#include "ir/schedule/schedule.h"
#include "transform/stages/stages_rows.h"

enum {
  MOST_SLOTS = 4,
  MOST_ALONE = 8,        /* where no other workgroup of the compute unit hides latency */
  SLOTS_IN_FLIGHT = 4,   /* minimum for a product to stay in flight: copies run two ahead */
  SLOTS_EARLY = 3,       /* minimum for a product to be computed early: the same */
  WORTH_SHARING = 3,     /* slots that each of two workgroups on one SM should have */
  BARRIER = 16,          /* bytes of one in a ring of them */
  RESERVED = 1024,       /* bytes of shared memory that the system takes per workgroup */
  WAVES_HIDE_LATENCY = 2 /* of a SIMD: while one waits, the other computes */
};

/* ---- shared memory ---- */

static int64_t ring_bytes(const Op *alloc, int slots) {
  MemLayout m;
  if (!alloc_slot_layout(alloc, &m)) return 0;
  m = mem_ring(&m, slots, alloc_align(alloc));
  return mem_bytes(&m);
}

static bool is_staged(const StagesPlanner *p, const Op *alloc, int64_t *bytes) {
  *bytes = 0;
  for (int i = 0; i < p->plan.loops.n; i++) {
    const StagedLoop *l = &p->plan.loops.at[i];
    for (int j = 0; j < l->copies.n; j++) {
      if (l->copies.at[j].alloc != alloc) continue;
      int64_t need = ring_bytes(alloc, l->copies.at[j].slots);
      if (need > *bytes) *bytes = need;
    }
  }
  return *bytes > 0;
}

static int64_t bytes_of(const StagesPlanner *p, const Op *alloc) {
  int64_t own, plain = alloc_bytes(alloc);
  return is_staged(p, alloc, &own) ? own : plain > 0 ? plain : 0;
}

/* The bytes that may be left free before an allocation, to align it: those that are larger come
 * first (allocs.c). */
static int64_t gap_before(const StagesPlanner *p, const Op *alloc) {
  int64_t align = alloc_align(alloc) > ALLOC_COPY_ALIGN ? alloc_align(alloc) : ALLOC_COPY_ALIGN;
  int64_t own = bytes_of(p, alloc);
  for (const Op *op = own ? ir_first(p->k) : NULL; op; op = ir_next(op))
    if (op->kind == OP_alloc && bytes_of(p, op) >= own && bytes_of(p, op) % align && op != alloc)
      return align;
  return 0;
}

/* Used only after all pipelined loops: it may overlap a ring, unless other workgroups, which may be ahead, write
 * to it. */
static bool is_used_later(const StagesPlanner *p, const Op *alloc) {
  const Op *last = p->plan.loops.at[p->plan.loops.n - 1].loop;
  int first = INT32_MAX;
  for (int i = 0; i < p->m->uses.n; i++) {
    const MemoryUse *use = &p->m->uses.at[i];
    if (p->m->memories.at[use->memory]->def != alloc) continue;
    if (op_has(use->op, ATTR_peer)) return false;
    if (use->op->id < first) first = use->op->id;
  }
  for (const Op *around = last->parent->owner; around; around = around->parent->owner)
    if (op_is_loop(around)) return false;
  return first > last->body->last->id;
}

/* ---- rings ---- */

/* Whether a product may be in flight as far as the ring of this copy is concerned. */
static bool allows_flight(const StagedCopy *c, int slots, bool served) {
  bool is_free = c->pinned_ahead == STAGED_FREE && c->pinned_slots == STAGED_FREE;
  int least = c->async ? SLOTS_IN_FLIGHT - 2 : 1;
  int ahead = c->pinned_ahead == STAGED_FREE ? c->pinned_slots - 2 : c->pinned_ahead;
  if (is_free) return slots >= (served ? SERVICE_SLOTS : SLOTS_IN_FLIGHT);
  return ahead >= least && (c->pinned_slots == STAGED_FREE || c->pinned_slots >= ahead + 2);
}

static bool allows_early(const StagedCopy *c, int slots, bool served) {
  if (c->pinned_ahead != STAGED_FREE) return !c->async || c->pinned_ahead >= SLOTS_EARLY - 1;
  int least = served ? SERVICE_SLOTS_EARLY : SLOTS_EARLY;
  return (c->pinned_slots == STAGED_FREE ? slots : c->pinned_slots) >= least;
}

static void set_ring(const StagedLoop *l, StagedCopy *c, int flights, int slots, bool single) {
  int own = c->pinned_slots == STAGED_FREE ? slots : c->pinned_slots;
  bool is_free = c->pinned_ahead == STAGED_FREE && c->pinned_slots == STAGED_FREE;
  c->ahead = c->pinned_ahead != STAGED_FREE ? c->pinned_ahead
             : is_free && slots < 2         ? 0
             : is_free && !c->async         ? 1
                                            : own - 1 - flights;
  c->slots = c->pinned_slots != STAGED_FREE ? c->pinned_slots : staged_slots(c, c->ahead) + flights;
  bool listed = staged_rank(l, c, true) != STAGED_FREE; /* possibly before what reads the slot */
  if (is_free && !c->async && single && !listed) c->slots = 1;
}

/* Gives every copy its ring if those that no row pins have this many slots. */
static void set_rings(StagesPlanner *p, int slots) {
  p->slots = slots;
  for (int i = 0; i < p->plan.loops.n; i++) {
    StagedLoop *l = &p->plan.loops.at[i];
    l->product = l->may_fly, l->early = l->may_be_early;
    bool served = schedule_roles(p->k, l->loop, p->target) != NULL;
    if (l->only_served && !served) l->early = NULL;
    for (int j = 0; j < l->copies.n; j++) {
      if (!allows_flight(&l->copies.at[j], slots, served)) l->product = NULL;
      if (!allows_early(&l->copies.at[j], slots, served)) l->early = NULL;
    }
    for (int j = 0; j < l->copies.n; j++)
      set_ring(l, &l->copies.at[j], staged_flights(l), slots, p->single);
  }
}

/* The most that barriers of rings take, which are allocated later: a copy may have its own. */
static int64_t barrier_bytes(const StagesPlanner *p) {
  int64_t sum = 0;
  for (int i = 0; i < p->plan.loops.n; i++) {
    const StagedLoop *l = &p->plan.loops.at[i];
    int each = schedule_roles(p->k, l->loop, p->target) ? 2 : 1; /* full, and empty */
    for (int j = 0; j < l->copies.n; j++)
      if (l->copies.at[j].boxes)
        sum += each * (l->copies.at[j].slots * BARRIER / ALLOC_COPY_ALIGN + 1) * ALLOC_COPY_ALIGN;
  }
  return sum;
}

/* The shared memory of a workgroup with rings of this many slots. */
static int64_t bytes_with(StagesPlanner *p, int slots) {
  int64_t sum, later = 0, own;
  set_rings(p, slots);
  sum = barrier_bytes(p);
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    if (op->kind != OP_alloc) continue;
    int64_t all = bytes_of(p, op) + gap_before(p, op);
    if (!is_staged(p, op, &own) && is_used_later(p, op)) later += all;
    else sum += all;
  }
  return later > sum ? later : sum;
}

/* The largest number of slots, at most `most`, with which a workgroup needs at most `budget`; 1:
 * none. */
static int slots_within(StagesPlanner *p, int most, int64_t budget) {
  int slots = most;
  while (slots > 1 && bytes_with(p, slots) > budget) slots--;
  return slots;
}

/* How many workgroups the registers of an SM can hold at once; 2 suffice to hide each other's
 * latency. */
static int residents(const StagesPlanner *p) {
  int least = 2;
  for (int i = 0; i < p->plan.loops.n; i++)
    if (stages_residents(p->room.cx, p->plan.loops.at[i].loop) < least) least = 1;
  return least;
}

/* ---- tiles that wait in registers ---- */

/* What bytes_with adds to what allocations have. */
static int64_t padding(const StagesPlanner *p) {
  int64_t sum = barrier_bytes(p);
  for (const Op *op = ir_first(p->k); op; op = ir_next(op))
    if (op->kind == OP_alloc) sum += gap_before(p, op);
  return sum;
}

/* Registers of a thread that the loops need, with `waiting` times the tiles that wait. */
static int64_t registers_with(const StagesPlanner *p, int steps, int waiting) {
  int64_t most = 0;
  for (int i = 0; i < p->plan.loops.n; i++) {
    StagedLoop *l = &p->plan.loops.at[i];
    int64_t n = staged_registers(&p->room, l, steps);
    if (waiting) n += waiting * staged_waiting(&p->room, l);
    if (n > most) most = n;
  }
  return most;
}

/* Registers that may be needed: operands are read early. A loop over two slots is unrolled, and its
 * copies overlap; its sums should then be where all instructions can access them. */
static int64_t most_registers(const StagesPlanner *p, int slots) {
  return registers_with(p, 2, slots);
}

static bool has_registers(const StagesPlanner *p, int slots) {
  int most = staged_most_registers(&p->room), near = target_near_registers(p->target);
  return most_registers(p, slots) <= (slots > 1 && near < most ? near : most);
}

/* The waves that a SIMD holds if no tile waits, or if tiles wait that have one slot, or two. */
static int waves_with(StagesPlanner *p, int slots) {
  p->single = slots < 2;
  int64_t bytes = bytes_with(p, 2);
  if (slots && !has_registers(p, slots)) return 0;
  if (slots > 1 && bytes > p->target->shared_most) return 0;
  int64_t registers = slots < 2 ? registers_with(p, 1, slots) : most_registers(p, slots);
  return staged_waves(&p->room, registers, bytes - padding(p));
}

/* The number of waves of a SIMD that must remain. */
static int waves_needed(const StagesPlanner *p, int before) {
  const Constraint *row = kernel_constraint(p->k, CONSTRAINT_occupancy, NULL);
  int64_t most = WAVES_HIDE_LATENCY, n;
  if (row && sym_is_int(distribute_expr(p->d, NULL, row->occupancy.waves), &n) && n > most)
    most = n;
  if (before < 1) return 1;
  return before < most ? before : (int)most;
}

static const char *why_not_waiting(StagesPlanner *p, int with, int without) {
  long long need = most_registers(p, 1);
  Arena *a = p->k->cx->diags.arena;
  if (!with)
    return arena_printf(a, "with the next tiles a thread would need about %lld of %d registers",
                        need, staged_most_registers(&p->room));
  return arena_printf(a,
                      "with the next tiles a thread would need about %lld registers, and a SIMD "
                      "would run %d instead of %d waves",
                      need, with, without);
}

bool depth_allows_waiting(StagesPlanner *p, const char **why) {
  if (p->asked || target_has(p->target, FEATURE_CP_ASYNC) || !p->target->file) return true;
  int before = waves_with(p, 0), one = waves_with(p, 1), two = waves_with(p, 2);
  int needed = waves_needed(p, before);
  bool fits = bytes_with(p, 2) <= p->target->shared_most;
  p->single = !fits || p->room.cx->machine->waves == 1 || (two < needed && one > two);
  bool willing = p->wanted && !p->single;
  if (willing || one >= needed) return true;
  *why = why_not_waiting(p, one, before);
  return false;
}

/* ---- rings that no row pins ---- */

/* Loops with fewer than `limit` iterations need no more slots than that. */
static int most_slots(const StagesPlanner *p, int limit) {
  int64_t most = 2, n;
  for (int i = 0; i < p->plan.loops.n; i++) {
    const StagedLoop *l = &p->plan.loops.at[i];
    const Sym *count = kernel_expected(p->k, l->count);
    int64_t of = count && sym_is_int(count, &n) ? n + staged_flights(l) : limit;
    if (of > most) most = of;
  }
  return most < limit ? (int)most : limit;
}

static bool any_async(const StagesPlanner *p) {
  for (int i = 0; i < p->plan.loops.n; i++)
    if (staged_has_async(&p->plan.loops.at[i])) return true;
  return false;
}

/* A copy engine needs no registers and few instructions, however far ahead it copies. */
static bool engine_copies_all(const StagesPlanner *p) {
  for (int i = 0; i < p->plan.loops.n; i++)
    for (int j = 0; j < p->plan.loops.at[i].copies.n; j++)
      if (!p->plan.loops.at[i].copies.at[j].boxes) return false;
  return true;
}

static bool has_unit_for_each(const StagesPlanner *p) {
  SymCtx *sym = p->k->cx->sym;
  const Sym *const *grid = p->d->grid;
  int64_t n;
  if (!grid[0]) return false;
  const Sym *all = kernel_expected(p->k, sym_mul(sym, grid[0], sym_mul(sym, grid[1], grid[2])));
  return all && sym_is_int(all, &n) && n <= p->target->units;
}

static const char *choose_slots(StagesPlanner *p) {
  if (p->single && !any_async(p)) return set_rings(p, 2), NULL;
  int64_t all = p->target->shared_most, half = (all + RESERVED) / 2 - RESERVED;
  bool by_engine = engine_copies_all(p);
  bool alone = residents(p) < 2 || (by_engine && has_unit_for_each(p));
  int most = p->asked ? p->asked : most_slots(p, by_engine && alone ? MOST_ALONE : MOST_SLOTS);
  bool shares = !p->asked && !alone;
  int slots = slots_within(p, most, shares ? half : all);
  if (shares && slots < WORTH_SHARING && slots < most) {
    shares = false;
    slots = slots_within(p, most, all);
  }
  int64_t next = bytes_with(p, slots + 1);
  set_rings(p, slots);
  if (slots < 2) return "shared memory has no room for a second tile";
  if (slots == most) return p->asked ? "as requested" : "more would not help";
  return arena_printf(p->k->cx->diags.arena, "one more would need %lld of %lld bytes%s",
                      (long long)next, (long long)(shares ? half : all),
                      shares ? ", half of shared memory" : "");
}

/* ---- what rows ask for ---- */

static const Constraint *pinning_row(const StagedLoop *l) {
  return l->rings.n ? l->rings.at[0].row : l->row ? l->row : l->pins.at[0].row;
}

/* A product in flight is worth a slot, but no row requests it. */
static void forget_flights(StagesPlanner *p) {
  for (int i = 0; i < p->plan.loops.n; i++)
    if (staged_is_pinned(&p->plan.loops.at[i])) p->plan.loops.at[i].may_fly = NULL;
}

static bool is_used_in(const StagesPlanner *p, const Op *alloc, const Op *loop) {
  for (int i = 0; i < p->m->uses.n; i++) {
    const MemoryUse *use = &p->m->uses.at[i];
    if (p->m->memories.at[use->memory]->def == alloc && op_is_inside(use->op, loop)) return true;
  }
  return false;
}

/* The tiles that a loop uses, which hold values at the same time. */
static int64_t bytes_in(const StagesPlanner *p, const Op *loop) {
  int64_t sum = 0;
  for (const Op *op = ir_first(p->k); op; op = ir_next(op))
    if (op->kind == OP_alloc && is_used_in(p, op, loop)) sum += bytes_of(p, op);
  return sum;
}

/* Whether the tiles of each loop fit; which others share bytes with them, and what lies between them,
 * is known when they have addresses (allocs.c). */
static bool check_room(StagesPlanner *p) {
  int64_t all = p->target->shared_most;
  set_rings(p, p->slots);
  for (int i = 0; i < p->plan.loops.n; i++) {
    const StagedLoop *l = &p->plan.loops.at[i];
    int64_t bytes = staged_is_pinned(l) ? bytes_in(p, l->loop) : 0;
    if (bytes <= all) continue;
    Diag *d = diag_add(&p->k->cx->diags, DIAG_E0620, pinning_row(l)->at,
                       "the rings of the loop need %lld bytes of shared memory; `%s` has %lld",
                       (long long)bytes, p->target->name, (long long)all);
    return diag_hint(&p->k->cx->diags, d, "give the rings fewer slots, or choose smaller tiles");
  }
  return true;
}

bool depth_choose(StagesPlanner *p, const char **why) {
  *why = choose_slots(p);
  if (!p->obeyed) return true;
  if (bytes_with(p, p->slots) > p->target->shared_most) forget_flights(p);
  return check_room(p);
}
