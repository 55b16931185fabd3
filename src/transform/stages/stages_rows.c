/* stages_rows.c: see stages_rows.h. */
#include "transform/stages/stages_rows.h"

#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/region_facts.h"
#include "transform/stages/stages_lead.h"
#include "transform/stages/stages_order.h"

/* Something that may be prefetched; other ops stay in the last stage. */
static bool is_copy(const Op *op) { return op->kind == OP_copy && schedule_fills(op); }

/* The last stage: that of everything but copies and an early product; -1: no row says. */
static int last_stage(const StagedLoop *l) {
  int computed = l->depth - 1, copied = -1;
  for (int i = 0; !l->depth && i < l->pins.n; i++) {
    int *last = is_copy(l->pins.at[i].op) ? &copied : &computed;
    if (l->pins.at[i].to.stage > *last) *last = l->pins.at[i].to.stage;
  }
  return computed >= 0 || copied < 0 ? computed : copied + 1;
}

/* ---- reporting ---- */

static Diag *refuse(Kernel *k, const Constraint *row, const char *why) {
  return diag_add(&k->cx->diags, DIAG_E0620, row->at, "%s", why);
}

static void note_op(Kernel *k, Diag *d, const Op *op, const char *text) {
  diag_note(&k->cx->diags, d, op->at, "%s", text);
}

/* A place that an op has anyway: ops act for the iteration that they name, as a rule their own. */
static bool is_own_place(Kernel *k, const StagedLoop *l, const StagedPin *pin) {
  return last_stage(l) - pin->to.stage == schedule_ahead(k, l->loop, pin->op);
}

static bool is_own_ring(const StagedPin *ring) {
  return ring->to.stage == alloc_slots(schedule_fills(ring->op)->def);
}

int staged_own_depth(Kernel *k, const Op *loop) {
  int depth = 1;
  for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op))
    if (schedule_ahead(k, loop, op) >= depth) depth = schedule_ahead(k, loop, op) + 1;
  return depth;
}

/* The row that asks for something to be prefetched, or for that of this copy; NULL: none. */
static const Constraint *asking_row(Kernel *k, const StagedLoop *l, const Op *copy) {
  if (!copy && l->depth > 1 && l->depth != staged_own_depth(k, l->loop)) return l->row;
  for (int i = 0; i < l->rings.n; i++)
    if ((!copy || l->rings.at[i].op == copy) && !is_own_ring(&l->rings.at[i]))
      return l->rings.at[i].row;
  for (int i = 0; i < l->pins.n; i++)
    if ((!copy || l->pins.at[i].op == copy) && !is_own_place(k, l, &l->pins.at[i]))
      return l->pins.at[i].row;
  return NULL;
}

bool staged_refuse(Kernel *k, const StagedLoop *l, const Op *copy, const char *why) {
  const Constraint *row = asking_row(k, l, copy);
  if (!row) return true;
  const char *what = copy ? arena_printf(k->cx->diags.arena, "the copy of `%s` is not prefetched",
                                         memory_name(k, copy->args[0]))
                          : arena_printf(k->cx->diags.arena, "the loop `%s` is not pipelined",
                                         schedule_loop_name(k->cx->diags.arena, l->loop));
  Diag *d = refuse(k, row, arena_printf(k->cx->diags.arena, "%s: %s", what, why));
  note_op(k, d, copy ? copy : l->loop, copy ? "the copy" : "the loop");
  return false;
}

/* ---- collecting ---- */

static void add_pins(Kernel *k, Arena *a, StagedLoop *l, const Constraint *row) {
  bool ring = row->kind == CONSTRAINT_ring;
  const OpNames *names = schedule_ops(row);
  for (int i = 0; i < names->n; i++) {
    OpList found = schedule_find(a, k, l->loop, names->at[i]);
    StagedPin pin = {.class = schedule_named_class(names->at[i]), .name = names->at[i], .row = row};
    pin.to = ring ? (Place){row->ring.slots, 0} : row->place.to;
    for (int j = 0; j < found.n; j++) {
      pin.op = found.at[j];
      if (!ring) vec_push(a, &l->pins, pin);
      else if (is_copy(pin.op)) vec_push(a, &l->rings, pin);
    }
  }
}

static void add_listed(Kernel *k, Arena *a, StagedLoop *l, const Constraint *row) {
  const OpNames *names = schedule_ops(row);
  l->order = row;
  for (int i = 0; i < names->n; i++) {
    OpList found = schedule_find(a, k, l->loop, names->at[i]);
    StagedListed x = {.class = schedule_named_class(names->at[i]), .name = names->at[i]};
    for (int j = 0; j < found.n; j++) {
      x.op = found.at[j];
      vec_push(a, &l->listed, x);
    }
  }
}

void staged_read_rows(Kernel *k, Arena *a, const TargetInfo *t, StagedLoop *l) {
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *row = &k->constraints.at[i];
    if (!schedule_is_row(row) || !schedule_is_for(row, t)) continue;
    if (!schedule_is_called(l->loop, row->scheduled.loop)) continue;
    if (row->kind == CONSTRAINT_schedule) l->row = row, l->depth = schedule_depth(row);
    else if (row->kind == CONSTRAINT_ring || row->kind == CONSTRAINT_place) add_pins(k, a, l, row);
    else if (row->kind == CONSTRAINT_order) add_listed(k, a, l, row);
  }
}

/* ---- rows that found nothing ---- */

static bool fail_idle(Kernel *k, const Constraint *row, const Op *loop) {
  Diags *diags = &k->cx->diags;
  bool ring = row->kind == CONSTRAINT_ring;
  Diag *d = ring
                ? diag_add(diags, DIAG_E0620, row->at,
                           "nothing is copied to shared memory for `%s`", row->ring.ops.at[0])
                : diag_add(diags, DIAG_E0620, row->at,
                           "the loop `%s` is not pipelined: it copies nothing to shared memory, or "
                           "a loop in it does",
                           row->scheduled.loop);
  note_op(k, d, loop, "the loop");
  return diag_hint(
      diags, d,
      "a read is copied if its argument is in the shared address space, or if a matrix "
      "instruction reads it there");
}

/* Names that the kernel had as it was written. */
static bool check_names(Kernel *k, Arena *a, const Constraint *row) {
  const OpNames *ops = schedule_ops(row);
  for (int i = 0; ops && i < ops->n; i++) {
    if (schedule_finds(a, k, row, ops->at[i])) continue;
    return diag_fail(&k->cx->diags, DIAG_E0620, row->at,
                     "the loop `%s` has no op `%s` on this machine, or it was removed, because its "
                     "result is not used or another op computes the same",
                     row->scheduled.loop, ops->at[i]);
  }
  return true;
}

bool staged_check_rows(Kernel *k, Arena *a, const TargetInfo *t, const bool *obeyed) {
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *row = &k->constraints.at[i];
    if (!schedule_is_row(row) || !schedule_is_for(row, t)) continue;
    bool asks = row->kind == CONSTRAINT_ring ||
                (row->kind == CONSTRAINT_schedule && schedule_depth(row) > 1);
    const Op *loop = schedule_next_loop(k, NULL, row->scheduled.loop);
    if (asks && loop && !obeyed[i]) return fail_idle(k, row, loop);
    if (loop && !check_names(k, a, row)) return false;
  }
  return true;
}

/* ---- cycles ---- */

/* The op of the body that is at the place of the pin; NULL: a copy that will be prefetched, which has
 * no place yet, or a tile that no op fetches. */
static Op *anchor_of(const StagedLoop *l, const Op *op) {
  if (staged_copies(l, op) || lead_is_left(op)) return NULL;
  return (Op *)(uintptr_t)op_ancestor_in(op, l->loop->body);
}

int staged_rank(const StagedLoop *l, const StagedCopy *c, bool stores) {
  for (int i = 0; i < l->listed.n; i++) {
    OpClass class = l->listed.at[i].class;
    if (l->listed.at[i].op == c->copy && (class == OP_CLASS_store) == stores) return i;
  }
  return STAGED_FREE;
}

/* The next op of the order that is in the body, or else the op after the last before it. */
static Op *before_listed(const StagedLoop *l, int rank, Op *usual) {
  for (int i = rank + 1; i < l->listed.n; i++) {
    Op *next = anchor_of(l, l->listed.at[i].op);
    while (next && next->prev && lead_is_left(next->prev)) next = next->prev; /* tiles it takes */
    if (next) return next;
  }
  for (int i = rank - 1; i >= 0; i--) {
    const Op *last = anchor_of(l, l->listed.at[i].op);
    if (last) return last->next;
  }
  return usual;
}

Op *staged_place(const StagedLoop *l, const StagedCopy *c, bool stores, Op *usual) {
  int rank = staged_rank(l, c, stores), other = staged_rank(l, c, !stores);
  if (rank != STAGED_FREE) return before_listed(l, rank, usual);
  usual = staged_before(l, stores ? c->store_cycle : c->cycle, usual);
  if (other == STAGED_FREE || c->async || c->kept) return usual;
  Op *half = before_listed(l, other, usual); /* a tile is loaded before it is stored */
  return op_comes_before(half, usual) == stores ? usual : half;
}

/* The first op that must come after it, or else the op after the last that must come before it. */
Op *staged_before(const StagedLoop *l, int cycle, Op *usual) {
  Op *next = NULL, *last = NULL;
  for (int i = 0; cycle != STAGED_FREE && i < l->pins.n; i++) {
    Op *at = anchor_of(l, l->pins.at[i].op);
    if (!at) continue;
    if (l->pins.at[i].to.cycle > cycle && (!next || op_comes_before(at, next))) next = at;
    if (l->pins.at[i].to.cycle < cycle && (!last || op_comes_before(last, at))) last = at;
  }
  if (next && !op_comes_before(usual, next)) return next;
  if (last && op_comes_before(usual, last)) return last->next;
  return usual;
}

/* ---- stages ---- */

/* A product is not computed early if a row says that it, or what it reads, is in the last stage. */
static void pin_early(Kernel *k, StagedLoop *l) {
  for (int i = 0; l->early && i < l->pins.n; i++) {
    const Op *op = l->pins.at[i].op;
    bool of = op == l->early || (op->nresults && op_takes(l->early, &op->results[0]));
    if (of && is_own_place(k, l, &l->pins.at[i])) l->early = NULL;
  }
}

/* The first read of the tile with that lead. */
static const Op *reader_of(const StagedLoop *l, const StagedCopy *c, int lead) {
  for (const Op *op = l->loop->body->first; op && op_is_inside(op, l->loop); op = ir_next(op))
    if (op->kind == OP_read && staged_reads(c, op) && staged_lead(l, op) == lead) return op;
  return c->copy;
}

static bool fail_stage(Kernel *k, const StagedLoop *l, const StagedCopy *c, const StagedPin *pin,
                       int last) {
  int read = last - c->lead;
  Diag *d = diag_add(&k->cx->diags, DIAG_E0620, pin->row->at,
                     "the copy of `%s` is in stage %d, but its tile is read in stage %d",
                     memory_name(k, c->copy->args[0]), pin->to.stage, read);
  note_op(k, d, c->copy, "the copy");
  note_op(k, d, reader_of(l, c, c->lead), "reads what the copy wrote");
  return diag_hint(&k->cx->diags, d, "place it in a stage up to %d", read);
}

static bool fail_twice(Kernel *k, const StagedLoop *l, const StagedCopy *c, const StagedPin *pin) {
  Diag *d = diag_add(&k->cx->diags, DIAG_E0620, pin->row->at,
                     "another row places the copy of `%s` in another stage than %d",
                     memory_name(k, c->copy->args[0]), pin->to.stage);
  note_op(k, d, c->copy, "the copy");
  for (int i = 0; i < l->pins.n; i++)
    if (l->pins.at[i].op == c->copy && l->pins.at[i].to.stage != pin->to.stage)
      diag_note(&k->cx->diags, d, l->pins.at[i].row->at, "the other row");
  return diag_hint(&k->cx->diags, d, "remove one of them");
}

static bool fail_backwards(Kernel *k, const StagedCopy *c, const StagedPin *pin) {
  Diag *d = diag_add(&k->cx->diags, DIAG_E0620, pin->row->at,
                     "the tile of `%s` is stored to shared memory in %d.%d, before it is loaded in "
                     "%d.%d",
                     memory_name(k, c->copy->args[0]), c->store_stage, c->store_cycle,
                     c->load_stage, c->cycle);
  note_op(k, d, c->copy, "the copy consists of this load and this store");
  return diag_hint(&k->cx->diags, d, "place the store at %d.%d or later", c->load_stage, c->cycle);
}

static bool fail_kept(Kernel *k, const StagedCopy *c, const StagedPin *pin) {
  Diag *d = diag_add(&k->cx->diags, DIAG_E0620, pin->row->at,
                     "the tile of `%s` would wait in registers for %d iterations; it can for one",
                     memory_name(k, c->copy->args[0]), c->kept);
  note_op(k, d, c->copy, "the copy");
  return diag_hint(&k->cx->diags, d, "place its load in stage %d or %d", c->store_stage - 1,
                   c->store_stage);
}

/* `load` places what fills registers, `store` what leaves them, `copy` both. */
static bool pin_copy(Kernel *k, const StagedLoop *l, StagedCopy *c, const StagedPin *pin) {
  bool loads = pin->class != OP_CLASS_store, stores = pin->class != OP_CLASS_load;
  int stage = pin->to.stage;
  if ((loads && c->load_stage != STAGED_FREE && c->load_stage != stage) ||
      (stores && c->store_stage != STAGED_FREE && c->store_stage != stage))
    return fail_twice(k, l, c, pin);
  if (loads) c->load_stage = stage, c->cycle = pin->to.cycle;
  if (stores) c->store_stage = stage;
  if (pin->class != OP_CLASS_store) return true;
  if (!c->async) c->store_cycle = pin->to.cycle;
  else
    diag_add(&k->cx->diags, DIAG_R0615, pin->row->at,
             "`%s` is copied without registers, so that no op at this cycle stores it",
             memory_name(k, c->copy->args[0]));
  return true;
}

static const StagedPin *pin_of(const StagedLoop *l, const StagedCopy *c) {
  for (int i = l->pins.n - 1; i >= 0; i--)
    if (l->pins.at[i].op == c->copy) return &l->pins.at[i];
  return NULL;
}

/* A tile may wait in registers for an iteration; an asynchronous copy needs none. */
static bool pin_stages(Kernel *k, const StagedLoop *l, StagedCopy *c, int last) {
  const StagedPin *pin = pin_of(l, c);
  if (c->load_stage == STAGED_FREE) c->load_stage = c->store_stage;
  if (c->store_stage == STAGED_FREE || c->async) c->store_stage = c->load_stage;
  if (!pin) return true;
  c->kept = c->store_stage - c->load_stage;
  c->pinned_ahead = last - c->store_stage;
  bool same = c->cycle != STAGED_FREE && c->store_cycle != STAGED_FREE && !c->kept;
  if (c->pinned_ahead < c->lead) return fail_stage(k, l, c, pin, last);
  if (c->kept < 0 || (same && c->store_cycle < c->cycle)) return fail_backwards(k, c, pin);
  bool here =
      !c->kept && c->pinned_ahead == c->lead; /* it is read in the iteration that loads it */
  if (here && c->store_cycle == STAGED_FREE) c->store_cycle = c->cycle;
  return c->kept <= 1 || fail_kept(k, c, pin);
}

/* One slot for each iteration from what arrives to what is read last; before the loop, one for each
 * that it begins with. */
int staged_slots(const StagedCopy *c, int ahead) {
  int slots = ahead + (c->least_lead ? 0 : 1);
  return c->boxes && slots < 2 ? 2 : slots; /* a box waits for a phase of its slot */
}

static bool fail_slots(Kernel *k, const StagedLoop *l, const StagedCopy *c, const StagedPin *ring) {
  Diag *d =
      diag_add(&k->cx->diags, DIAG_E0620, ring->row->at,
               "the copy of `%s` runs %d iteration%s ahead, so with %d slot%s it overwrites a "
               "tile that is still read",
               memory_name(k, c->copy->args[0]), c->pinned_ahead, c->pinned_ahead == 1 ? "" : "s",
               c->pinned_slots, c->pinned_slots == 1 ? "" : "s");
  diag_note(&k->cx->diags, d, c->copy->at, "copies the tile of iteration i + %d", c->pinned_ahead);
  const Op *read = reader_of(l, c, c->least_lead);
  if (!c->least_lead) note_op(k, d, read, "reads the tile of iteration i");
  else diag_note(&k->cx->diags, d, read->at, "reads the tile of iteration i + %d", c->least_lead);
  return diag_hint(&k->cx->diags, d, "it needs %d slots", staged_slots(c, c->pinned_ahead));
}

static bool fail_ring(Kernel *k, const StagedLoop *l, const StagedCopy *c, const StagedPin *ring) {
  const StagedPin *pin = pin_of(l, c);
  Diag *d =
      diag_add(&k->cx->diags, DIAG_E0620, ring->row->at,
               "the tile of `%s` is read in the iteration that stores it, so it has one slot, "
               "not %d",
               memory_name(k, c->copy->args[0]), c->pinned_slots);
  note_op(k, d, c->copy, "the copy");
  note_op(k, d, reader_of(l, c, c->lead), "is read here");
  if (pin) diag_note(&k->cx->diags, d, pin->row->at, "this row gives both the same stage");
  if (!c->store_stage) return diag_hint(&k->cx->diags, d, "remove the row");
  return diag_hint(&k->cx->diags, d, "place the store in stage %d", c->store_stage - 1);
}

/* A tile that waits in registers may be stored to the only slot when that has been read. */
static bool fits_ring(const StagedCopy *c) {
  bool waits = !c->async && !c->lead && c->pinned_ahead == 1 && c->pinned_slots == 1;
  return waits || c->pinned_ahead == STAGED_FREE ||
         c->pinned_slots >= staged_slots(c, c->pinned_ahead);
}

static bool pin_ring(Kernel *k, const StagedLoop *l, StagedCopy *c) {
  for (int i = 0; i < l->rings.n; i++) {
    const StagedPin *ring = &l->rings.at[i];
    if (ring->op != c->copy) continue;
    c->pinned_slots = ring->to.stage;
    if (!fits_ring(c)) return fail_slots(k, l, c, ring);
  }
  return true;
}

/* Other parts of its tile run ahead, and need the slots. */
static bool has_part_ahead(const StagedLoop *l, const StagedCopy *c) {
  for (int i = 0; i < l->copies.n; i++) {
    const StagedCopy *other = &l->copies.at[i];
    if (other->alloc == c->alloc && other->pinned_ahead != 0) return true;
  }
  return false;
}

static bool check_rings(Kernel *k, const StagedLoop *l) {
  for (int i = 0; i < l->copies.n; i++)
    for (int j = 0; j < l->rings.n; j++) {
      const StagedCopy *c = &l->copies.at[i];
      if (l->rings.at[j].op == c->copy && c->pinned_slots > 1 && !has_part_ahead(l, c))
        return fail_ring(k, l, c, &l->rings.at[j]);
    }
  return true;
}

static bool pin_one(Kernel *k, StagedLoop *l, StagedCopy *c, int last) {
  for (int i = 0; i < l->pins.n; i++)
    if (l->pins.at[i].op == c->copy && !pin_copy(k, l, c, &l->pins.at[i])) return false;
  if (!pin_stages(k, l, c, last)) return false;
  if (c->pinned_ahead == STAGED_FREE && last >= 0) c->pinned_ahead = last;
  return pin_ring(k, l, c);
}

/* A copy in a region of its own, for instance, cannot be prefetched. */
static bool check_candidates(Kernel *k, const StagedLoop *l) {
  const char *why = "it is not an op of the loop itself";
  for (int i = 0; i < l->pins.n; i++)
    if (is_copy(l->pins.at[i].op) && !staged_copies(l, l->pins.at[i].op))
      if (!staged_refuse(k, l, l->pins.at[i].op, why)) return false;
  for (int i = 0; i < l->rings.n; i++)
    if (!staged_copies(l, l->rings.at[i].op) && !staged_refuse(k, l, l->rings.at[i].op, why))
      return false;
  return true;
}

/* Copies of the iteration itself stay where they are. */
static void drop_idle(StagedLoop *l) {
  int n = 0;
  for (int i = 0; i < l->copies.n; i++) {
    const StagedCopy *c = &l->copies.at[i];
    bool idle = c->pinned_ahead == 0 || (c->pinned_ahead == STAGED_FREE && c->pinned_slots == 1);
    if (c->kept || !idle) l->copies.at[n++] = *c;
  }
  l->copies.n = n;
}

/* Where what a copy brings has been issued: before this op. */
static const Op *issued_before(const StagedLoop *l, const StagedCopy *c) {
  return staged_place(l, c, !c->async, l->loop->body->first);
}

/* The cycle that a row gives an op of the body, or something in it. */
static int cycle_of(const StagedLoop *l, const Op *op) {
  for (int i = 0; i < l->pins.n; i++)
    if (anchor_of(l, l->pins.at[i].op) == op) return l->pins.at[i].to.cycle;
  return STAGED_FREE;
}

/* `late` is `c`, or a copy of the same group. */
static bool fail_after(Kernel *k, const StagedLoop *l, const StagedCopy *late, const StagedCopy *c,
                       const Op *read) {
  const StagedPin *pin = pin_of(l, late);
  const char *what = late->async ? "copied" : "stored to shared memory";
  int at = late->async ? late->cycle : late->store_cycle, reads = cycle_of(l, read);
  Diags *diags = &k->cx->diags;
  Diag *d = diag_add(diags, DIAG_E0620, pin ? pin->row->at : l->pins.at[0].row->at,
                     "the tile of `%s` is %s at cycle %d, after %s is read in the same iteration",
                     memory_name(k, late->copy->args[0]), what, at,
                     late == c ? "it" : "a tile of the same group of copies");
  diag_note(diags, d, late->copy->at, "is %s, at cycle %d", what, at);
  if (reads == STAGED_FREE) note_op(k, d, read, "is read here");
  else diag_note(diags, d, read->at, "is read at cycle %d", reads);
  const char *move = late->async ? "copy" : late->cycle > reads ? "load and the store" : "store";
  return diag_hint(diags, d, "place the %s at cycle %d%s", move, reads > 0 ? reads : 0,
                   reads > 0 ? " or earlier" : "");
}

/* What is read in the iteration that brings it must be there; copies of one group end together, unless
 * the next iteration does not need them either. */
static bool check_arrival(Kernel *k, const StagedLoop *l, const StagedCopy *c) {
  const Op *read = op_ancestor_in(reader_of(l, c, c->lead), l->loop->body);
  for (int i = 0; read && i < l->copies.n; i++) {
    const StagedCopy *other = &l->copies.at[i];
    bool later = other->pinned_ahead != STAGED_FREE && other->pinned_ahead - other->lead > 1;
    bool grouped = c->async && !c->boxes && other->async && !other->boxes && !later;
    const Op *before = other == c || grouped ? issued_before(l, other) : NULL;
    if (before && before != read && op_comes_before(read, before))
      return fail_after(k, l, other, c, read);
  }
  return true;
}

/* The last op of the body that reads the tile, or takes it from shared memory itself. */
static const Op *last_reader(const StagedLoop *l, const StagedCopy *c) {
  const Op *last = NULL;
  for (const Op *op = l->loop->body->first; op; op = op->next)
    for (const Op *inner = op; inner && op_is_inside(inner, op); inner = ir_next(inner))
      if (staged_reads(c, inner)) last = op;
  return last;
}

/* The only slot of a ring is filled when it has been read. */
static bool check_only_slot(Kernel *k, const StagedLoop *l, const StagedCopy *c) {
  const Op *read = last_reader(l, c);
  bool placed = c->store_cycle != STAGED_FREE || staged_rank(l, c, true) != STAGED_FREE;
  if (c->pinned_slots != 1 || !placed || !read) return true;
  const Op *before = staged_place(l, c, true, l->loop->body->last);
  if (before != read && op_comes_before(read, before)) return true;
  const StagedPin *pin = pin_of(l, c);
  Diag *d = refuse(k,
                   pin        ? pin->row
                   : l->order ? l->order
                              : l->pins.at[0].row,
                   "a tile with one slot must be stored after what reads it");
  note_op(k, d, c->copy, "the copy");
  note_op(k, d, read, "is read here");
  return diag_hint(&k->cx->diags, d, "give it 2 slots, or its store a later cycle");
}

static bool check_arrivals(Kernel *k, const StagedLoop *l) {
  for (int i = 0; i < l->copies.n; i++) {
    const StagedCopy *c = &l->copies.at[i];
    if (c->pinned_ahead == c->lead && !check_arrival(k, l, c)) return false;
    if (c->pinned_ahead > c->lead && !check_only_slot(k, l, c)) return false;
  }
  return true;
}

/* Some op that stays in the loop has a cycle. */
static bool has_cycles(const StagedLoop *l) {
  for (int i = 0; i < l->pins.n; i++)
    if (anchor_of(l, l->pins.at[i].op)) return true;
  return false;
}

/* A tile cannot be stored before it is loaded. */
static bool check_halves(Kernel *k, const StagedLoop *l) {
  for (int i = 0; i < l->copies.n; i++) {
    const StagedCopy *c = &l->copies.at[i];
    int loads = staged_rank(l, c, false), stores = staged_rank(l, c, true);
    if (c->async || c->kept || loads == STAGED_FREE || stores == STAGED_FREE || loads < stores)
      continue;
    Diag *d = diag_add(&k->cx->diags, DIAG_E0620, l->order->at,
                       "`%s` is listed before `%s`, which loads what it stores",
                       l->listed.at[stores].name, l->listed.at[loads].name);
    note_op(k, d, c->copy, "the copy consists of this load and this store");
    return diag_hint(&k->cx->diags, d, "list `%s` first, or place it in an earlier stage",
                     l->listed.at[loads].name);
  }
  return true;
}

bool staged_order(Kernel *k, Arena *a, const MemoryUses *m, StagedLoop *l) {
  if (!l->listed.n && !has_cycles(l)) return true;
  return check_halves(k, l) && order_body(k, a, m, l);
}

bool staged_pin(Kernel *k, Arena *a, const MemoryUses *m, StagedLoop *l) {
  int last = last_stage(l);
  if (!check_candidates(k, l)) return false;
  pin_early(k, l);
  if (l->pins.n && !lead_pin(k, a, m, l, last)) return false;
  if (l->lead) l->early = NULL;
  for (int i = 0; i < l->copies.n; i++)
    if (!pin_one(k, l, &l->copies.at[i], last)) return false;
  if (!check_rings(k, l)) return false;
  drop_idle(l);
  lead_find_most(k, a, l);
  if (l->lead) l->early = NULL;
  if (!staged_order(k, a, m, l)) return false;
  return check_arrivals(k, l);
}

/* ---- unrolling ---- */

static bool mark_loop(Kernel *k, const Constraint *row, Op *loop) {
  int times = row->schedule.unroll, ahead = staged_own_depth(k, loop) - 1;
  if (op_has(loop, ATTR_from) && times > 1) {
    Diag *d = refuse(k, row,
                     arena_printf(k->cx->diags.arena, "the loop `%s` is not unrolled: %s",
                                  row->schedule.loop, "its start is computed by the kernel"));
    note_op(k, d, loop, "the loop");
    return false;
  }
  if (times > 1) op_set_attr(k, loop, (Attr){.key = ATTR_unroll, .integer = times});
  if (schedule_peels(row) && ahead > 0)
    op_set_attr(k, loop, (Attr){.key = ATTR_peel, .integer = ahead});
  return true;
}

bool staged_mark_loops(Kernel *k, const TargetInfo *t) {
  EACH_ROW(k, schedule, row) {
    Op *loop = NULL;
    while (schedule_is_for(row, t) && (loop = schedule_next_loop(k, loop, row->schedule.loop)))
      if (!mark_loop(k, row, loop)) return false;
  }
  return true;
}
