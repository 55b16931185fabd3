/* stages: software pipelining: copies to shared memory run some iterations ahead of the reads.
 *
 *                                       copy %a, %s {iteration = {K: 0}, slot = 0, ...}
 *                                       async_commit
 *                                       copy %a, %s {iteration = {K: 1}, slot = 1, ...}
 *     for K carry ... {                 async_commit
 *       copy %a, %s              =>     for K carry ... {
 *       %x = read %s                      async_wait 1
 *       ...                               %x = read %s {slot = Mod($ARGK, 3)}
 *     }                                   copy %a, %s {iteration = {K: $ARGK + 2},
 *                                                      slot = Mod($ARGK + 2, 3), ...}
 *                                         async_commit
 *                                         ...
 *                                       }
 *                                       async_wait 0       (if shared memory is used later)
 *
 * The allocation becomes a ring (%s {ring = 3}). Each iteration commits one group, whether or not
 * there is still something to copy, so the group that it needs is always the same number of groups
 * ago. A group ends with the last copy that is needed soonest: copies that are issued after it, and
 * needed later, belong to the next group, so that a wait leaves them in flight. `sync` finds that one barrier serves both ends: after it, the tile being read has arrived
 * for all threads, and the slot to be filled next has been read by all. A copy past the last
 * iteration has no elements (its mask says so) and leaves zeros that are never read; if shared
 * memory is reused after the loop, they are waited for there.
 *
 * What a copy engine moves (mode = tma) arrives on a barrier in shared memory, one for each slot:
 *
 *     mbar_init %full {count = 1}
 *     copy %a, %s, %full {iteration = {K: 0}, slot = 0, mode = tma}
 *     for K carry ... {
 *       copy %a, %s, %full {mask = [$ARGK + 2 < K/64], iteration = {K: $ARGK + 2}, ...}
 *       mbar_wait %full {slot = Mod($ARGK, 3), parity = Mod(floor($ARGK/3), 2)}
 *       %x = read %s {slot = Mod($ARGK, 3)}
 *
 * Every thread waits on its own, and nothing is copied past the last iteration. Such copies are
 * issued first: the workgroup barrier before them ensures that their slot has been read.
 *
 * Copies that cannot be asynchronous are read into registers at the start of the previous
 * iteration, and stored at its end: to the other slot of two, or, after a barrier, to the only one;
 * or in the next iteration, if rows of a schedule say so: the loop then carries the tile. A product
 * that reads shared memory itself may still be in flight when the next iteration begins (`pending`);
 * its slot is filled one iteration later.
 *
 * Ops may be computed some iterations early (stages_lead.h, stages_carry.h): their tiles must have
 * arrived by then. If coordinates of a copy come from tables, these are read one iteration before the
 * copy is issued, so that it does not wait for them.
 *
 * stages_plan decides what is prefetched, and stages_depth how many slots there are, both as far as
 * rows of a schedule (stages_rows) leave it open. Without rows only the innermost loop with copies is
 * pipelined.
 * Needs DISTRIBUTE, BOUNDS, MEMORY; breaks what counts ops. */
#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "transform/copy/copy_mode.h"
#include "transform/copy/copy_parts.h"
#include "transform/copy/copy_plan.h"
#include "transform/stages/roles/stages_roles.h"
#include "transform/stages/roles/stages_single.h"
#include "transform/stages/roles/stages_turns.h"
#include "transform/stages/stages_carry.h"
#include "transform/stages/stages_lead.h"
#include "transform/stages/stages_ops.h"
#include "transform/stages/stages_rows.h"

/* Barriers on which boxes of the loop arrive, one for each slot of their rings. */
typedef struct Barriers {
  Value *ring;
  int lead; /* in iteration i the loop waits for the boxes of iteration i + lead */
  Op *reader; /* before this op of the body; NULL: when the iteration begins, or before what reads early */
} Barriers;

typedef struct Rewrite {
  Kernel *k;
  SymCtx *sym;
  PassCtx *cx;
  StagedLoop *l;
  Carry *carry; /* NULL: no op of the loop is early */
  Vec(Barriers) full;
} Rewrite;

/* ---- attributes ---- */
static void set_expr(Rewrite *w, Op *op, AttrKey key, const Sym *e) {
  op_set_attr(w->k, op, (Attr){.key = key, .sym = e});
}

static void set_slot(Rewrite *w, Op *op, const Sym *iteration, int slots) {
  staged_set_slot(w->k, op, staged_number(w->k, w->l, iteration), slots);
}

static void take_attrs(Rewrite *w, const Op *from, Op *to, const Sym *iteration) {
  staged_take_attrs(w->k, w->l, from, to, iteration);
  staged_test(w->k, w->cx, w->l, to, iteration);
}

/* ---- ops ---- */

static bool is_part(const StagedCopy *c) { return op_has(c->copy, ATTR_part); }

/* Parts of a tile arrive separately: each is awaited where it is read. */
static Op *awaited_before(const Rewrite *w, const StagedCopy *c) {
  return is_part(c) ? staged_reader(w->l, c) : NULL;
}

/* Boxes arrive on the same barriers if they have equally many slots, unless they are read early and
 * others are not issued by then. */
static int awaited_lead(const Rewrite *w, const StagedCopy *c) {
  int lead = c->lead;
  for (int i = 0; !is_part(c) && i < w->l->copies.n; i++) {
    const StagedCopy *other = &w->l->copies.at[i];
    if (other->boxes && !is_part(other) && !other->role &&
        alloc_slots(other->alloc) == alloc_slots(c->alloc) && other->lead > lead &&
        other->lead < c->ahead)
      lead = other->lead;
  }
  return lead;
}

/* The barriers for these boxes; NULL: there are none yet. */
static Value *barriers_for(const Rewrite *w, const StagedCopy *c) {
  for (int i = 0; c->boxes && i < w->full.n; i++)
    if (alloc_slots(w->full.at[i].ring->def) == alloc_slots(c->alloc) &&
        w->full.at[i].lead == awaited_lead(w, c) && w->full.at[i].reader == awaited_before(w, c))
      return w->full.at[i].ring;
  return NULL;
}

/* What the coordinates of a copy are computed from, for iteration number n, before the loop; n -1: in
 * the loop. */
static void take_coords(const Rewrite *w, const StagedCopy *c, int n, Value **out) {
  for (int i = 2; i < c->copy->nargs; i++) {
    Value *v = c->copy->args[i];
    out[i - 2] = n >= 0 ? carry_first(w->carry, v, n) : c->coords ? c->coords[i - 2] : v;
  }
}

/* n: as of take_coords. */
static void insert_copy(Rewrite *w, Op *before, const StagedCopy *c, const Sym *iteration, int n) {
  Value **args = ARENA_ARRAY(w->cx->scratch, Value *, c->copy->nargs + 1);
  args[0] = c->copy->args[0];
  args[1] = c->copy->args[1];
  if (c->boxes) args[2] = barriers_for(w, c);
  else take_coords(w, c, n, args + 2);
  Op *op = ir_insert(w->k, before, OP_copy, c->copy->at, args, c->boxes ? 3 : c->copy->nargs, NULL);
  take_attrs(w, c->copy, op, iteration);
  set_slot(w, op, iteration, alloc_slots(c->alloc));
}

static void insert_commit(Rewrite *w, Op *before) {
  ir_insert(w->k, before, OP_async_commit, w->l->loop->at, NULL, 0, NULL);
}

static Op *new_wait(Rewrite *w, int pending) {
  Op *op = ir_op_new(w->k, OP_async_wait, w->l->loop->at, NULL, 0);
  op_set_attr(w->k, op, (Attr){.key = ATTR_pending, .integer = pending});
  return op;
}

/* The tile of the next iteration, in registers, in the layout of the copy; n: as of take_coords. */
static Value *insert_read(Rewrite *w, Op *before, const StagedCopy *c, const Sym *iteration,
                          int n) {
  const Type *t = c->copy->args[1]->type;
  const Type *tile = type_tile(w->k->cx, t->dims, t->rank, t->dtype);
  CopyPlan plan;
  if (!copy_plan(w->cx->facts.distribute, w->cx->machine, w->cx->facts.in_bounds[c->copy->id],
                 &plan))
    return NULL;
  Value **args = ARENA_ARRAY(w->cx->scratch, Value *, c->copy->nargs);
  args[0] = c->copy->args[0];
  take_coords(w, c, n, args + 1);
  Op *op = ir_insert(w->k, before, OP_read, c->copy->at, args, c->copy->nargs - 1, tile);
  take_attrs(w, c->copy, op, iteration);
  op_drop_attr(op, ATTR_mode);
  op->results[0].name = c->copy->args[0]->name;
  ir_set_layout(w->k, &op->results[0], &plan.layout);
  return &op->results[0];
}

static void insert_write(Rewrite *w, Op *before, const StagedCopy *c, Value *v,
                         const Sym *iteration) {
  Value *args[] = {v, c->copy->args[1]};
  Op *op = ir_insert(w->k, before, OP_write, c->copy->at, args, 2, NULL);
  op_set_attr(w->k, op, (Attr){.key = ATTR_mask});
  staged_set_iteration(w->k, w->l, op, iteration);
  set_slot(w, op, iteration, alloc_slots(c->alloc));
  if (is_part(c)) op_set_attr(w->k, op, *op_attr(c->copy, ATTR_part));
}

/* ---- barriers of slots ---- */

static Op *new_mbar_op(Rewrite *w, OpKind kind, Value *full) {
  return ir_op_new(w->k, kind, w->l->loop->at, &full, 1);
}

/* A ring of barriers: the boxes of an iteration arrive on one of them. */
static void make_ring(Rewrite *w, int slots, int lead, Op *reader, int arrivals) {
  const Sym *one = sym_int(w->sym, 1), **physical = ARENA_ARRAY(w->k->arena, const Sym *, 1);
  const Type *t = type_mem(w->k->cx, &one, 1, DTYPE_i64, w->k->cx->shared_space, NULL);
  Op *alloc = ir_insert(w->k, w->k->body->first, OP_alloc, w->l->loop->at, NULL, 0, t);
  physical[0] = one;
  op_set_attr(w->k, alloc, (Attr){.key = ATTR_physical, .n = 1, .exprs = physical});
  op_set_attr(w->k, alloc, (Attr){.key = ATTR_ring, .integer = slots});
  alloc->results[0].name = intern(&w->k->cx->names, "full");
  vec_push(w->cx->scratch, &w->full, ((Barriers){&alloc->results[0], lead, reader}));
  Op *init = new_mbar_op(w, OP_mbar_init, &alloc->results[0]);
  set_expr(w, init, ATTR_count, sym_int(w->sym, arrivals));
  ir_insert_before(w->l->loop, init);
}

static void make_barriers(Rewrite *w) {
  w->full.n = 0;
  for (int i = 0; i < w->l->copies.n; i++) {
    const StagedCopy *c = &w->l->copies.at[i];
    int slots = alloc_slots(c->alloc), lead = awaited_lead(w, c), boxes = 0;
    if (!c->boxes || c->role || barriers_for(w, c)) continue;
    for (int j = i; j < w->l->copies.n; j++) {
      const StagedCopy *other = &w->l->copies.at[j];
      boxes += other->boxes && !other->role && alloc_slots(other->alloc) == slots &&
               awaited_lead(w, other) == lead && awaited_before(w, other) == awaited_before(w, c);
    }
    make_ring(w, slots, lead, awaited_before(w, c), boxes);
  }
}

/* The phases of a slot's barrier are the iterations that fill it. */
static void insert_mbar_wait(Rewrite *w, Op *before, Value *full, const Sym *number) {
  int n = alloc_slots(full->def);
  const Sym *slots = sym_int(w->sym, n), *two = sym_int(w->sym, 2);
  Op *op = new_mbar_op(w, OP_mbar_wait, full);
  staged_set_slot(w->k, op, number, n);
  set_expr(w, op, ATTR_parity, sym_mod(w->sym, sym_floordiv(w->sym, number, slots), two));
  ir_insert_before(before, op);
}

/* ---- a loop ---- */

static const Sym *nth(const Rewrite *w, int iteration) {
  return staged_iteration(w->k, w->l, iteration);
}

static const Sym *later(const Rewrite *w, int iterations) {
  return staged_later(w->k, w->l, iterations);
}

/* The number of the iteration that a wait is for. */
static const Sym *at_most_last(const Rewrite *w, const Sym *iteration) {
  return staged_number_at_most(w->k, w->cx, w->l, iteration);
}

typedef enum Mover { BY_THREADS, BY_BOXES, BY_REGISTERS, BY_SERVICE } Mover;

static Mover mover_of(const StagedCopy *c) {
  return c->role ? BY_SERVICE : c->boxes ? BY_BOXES : c->async ? BY_THREADS : BY_REGISTERS;
}

/* How many iterations ahead the copies of that kind are issued, at most; 0: there are none. */
static int most_ahead(const Rewrite *w, Mover by) {
  int most = 0;
  for (int i = 0; i < w->l->copies.n; i++)
    if (mover_of(&w->l->copies.at[i]) == by && w->l->copies.at[i].ahead > most)
      most = w->l->copies.at[i].ahead;
  return most;
}

/* The groups that are closed from the one that a copy belongs to, before an iteration needs it. */
static int groups_later(const StagedCopy *c) { return staged_slack(c) - c->late; }

/* The most and the least of these of copies by threads; INT32_MAX: there are none. */
static int least_slack(const Rewrite *w, int *most) {
  int least = INT32_MAX;
  *most = 0;
  for (int i = 0; i < w->l->copies.n; i++) {
    const StagedCopy *c = &w->l->copies.at[i];
    if (mover_of(c) != BY_THREADS) continue;
    if (groups_later(c) < least) least = groups_later(c);
    if (groups_later(c) > *most) *most = groups_later(c);
  }
  return least;
}

/* False if none is filled. */
static bool fill_slots(Rewrite *w, Mover by, int turn, bool late) {
  int ahead = most_ahead(w, by);
  bool filled = false;
  for (int i = 0; i < w->l->copies.n; i++) {
    const StagedCopy *c = &w->l->copies.at[i];
    int iteration = turn - (ahead - c->ahead);
    if (mover_of(c) != by || c->late != late || iteration < 0) continue;
    insert_copy(w, w->l->loop, c, nth(w, iteration), iteration);
    filled = true;
  }
  return filled;
}

/* Before the loop: as if it had begun `ahead` iterations earlier. Copies that run fewer iterations
 * ahead start later. */
static void fill_rings(Rewrite *w, Mover by) {
  for (int turn = 0; turn < most_ahead(w, by); turn++) {
    bool filled = fill_slots(w, by, turn, false) || turn;
    if (by == BY_THREADS && filled) insert_commit(w, w->l->loop);
    fill_slots(w, by, turn, true);
  }
}

/* Groups end in order: a wait for the latest of the tiles that an iteration needs also waits for
 * tiles of copies with more slack in its group, which then have arrived before they are needed. Those
 * of iteration 0 do so before the loop, as does what is read before the loop. */
static void await_first(Rewrite *w) {
  int most, least = least_slack(w, &most);
  if (least < most || (w->l->lead && least < INT32_MAX))
    ir_insert_before(w->l->loop, new_wait(w, least));
  for (int i = 0; i < w->full.n; i++)
    for (int n = 0; n < w->full.at[i].lead; n++)
      insert_mbar_wait(w, w->l->loop, w->full.at[i].ring, at_most_last(w, nth(w, n)));
}

static void fill_ring(Rewrite *w) {
  fill_rings(w, BY_BOXES);
  fill_rings(w, BY_THREADS);
  fill_rings(w, BY_REGISTERS);
  await_first(w);
  roles_await_first(w->k, w->cx, w->l);
}

/* A part of a tile that is copied in its own iteration, unlike others. */
static bool is_own_part(const Rewrite *w, const Op *op) {
  return op->kind == OP_copy && op_has(op, ATTR_part) && !staged_copies(w->l, op);
}

/* Reads of rings, in the body and nested regions, use the slot of their iteration. */
static void name_slots(Rewrite *w) {
  const Op *end = w->l->loop->body->last;
  for (Op *op = w->l->loop->body->first; op != end; op = ir_next(op)) {
    if (op->kind != OP_read && !is_own_part(w, op)) continue;
    const StagedCopy *c = staged_copy_to(w->l, op->args[op->kind == OP_copy]);
    if (c)
      staged_set_slot(w->k, op, staged_copy_number(w->k, w->l, c, w->l->counter),
                      alloc_slots(c->alloc));
  }
}

static bool reads_memory(const Op *product) {
  const Attr *mma = op_attr(product, ATTR_mma);
  return mma && (mma->mma->shared_lhs || mma->mma->shared_rhs);
}

/* Copies are issued once the first product has what it needs: its operands have been read into
 * registers, or it is in flight itself. If ops are computed early, the first product has that already. If the
 * product of the previous iteration may still be in flight, copies go first: otherwise the wave would
 * wait for that product before issuing them. */
static Op *issue_before(const StagedLoop *l, Op *first) {
  Op *op = first;
  if (l->lead || (l->product && staged_flights(l))) return op;
  while (op != l->loop->body->last && !op_is_product(op)) op = op->next;
  return op != l->loop->body->last && reads_memory(op) ? op->next : op;
}

/* The first op of the body that stays there. */
static Op *first_op(const StagedLoop *l) {
  Op *op = l->loop->body->first;
  while (staged_copies(l, op)) op = op->next;
  return op;
}

/* Decides where copies are issued and tiles are stored, before the body changes. */
static void find_places(Rewrite *w) {
  StagedLoop *l = w->l;
  Op *first = first_op(l), *behind = issue_before(l, first);
  for (int i = 0; i < l->copies.n; i++) {
    StagedCopy *c = &l->copies.at[i];
    c->issue = staged_place(l, c, false, mover_of(c) == BY_THREADS ? behind : first);
    c->store = staged_place(l, c, true, staged_slack(c) ? l->loop->body->last : first);
  }
}

/* Something that is inserted into the body: a copy, the load of a tile or its store. */
typedef struct Issue {
  StagedCopy *c;
  bool stores;
  Op *before;
  int64_t key; /* by which they are sorted: loads that no row places come first, and stores last */
} Issue;

static int put_issue(Issue *list, int n, Issue new) {
  int at = n;
  for (; at > 0 && list[at - 1].key > new.key; at--) list[at] = list[at - 1];
  list[at] = new;
  return n + 1;
}

/* The cycle, or what the `order` row says: then it comes with the other half of its copy if only that is
 * listed. */
static int64_t key_of(const StagedLoop *l, const StagedCopy *c, bool stores) {
  int rank = staged_rank(l, c, stores), other = staged_rank(l, c, !stores);
  bool last = stores && c->store_cycle == STAGED_FREE && staged_slack(c);
  if (!l->order) return last ? INT32_MAX : stores ? c->store_cycle : c->cycle;
  if (rank != STAGED_FREE) return 3 * (int64_t)rank + 1;
  if (other != STAGED_FREE && !c->async && !c->kept) return 3 * (int64_t)other + (stores ? 2 : 0);
  return stores ? INT32_MAX : -1;
}

/* All of them, sorted: what is inserted before the same op keeps that order. */
static Issue *list_issues(Rewrite *w, int *n) {
  StagedLoop *l = w->l;
  Issue *list = ARENA_ARRAY(w->cx->scratch, Issue, 2 * l->copies.n);
  *n = 0;
  for (int i = 0; i < l->copies.n; i++) {
    StagedCopy *c = &l->copies.at[i];
    if (c->role) continue;
    *n = put_issue(list, *n, (Issue){c, false, c->issue, key_of(l, c, false)});
    if (!c->async) *n = put_issue(list, *n, (Issue){c, true, c->store, key_of(l, c, true)});
  }
  return list;
}

/* Whether x is issued after y. */
static bool is_issued_after(const Issue *x, const Issue *y) {
  return x->before == y->before ? x > y : op_comes_before(y->before, x->before);
}

/* Copies after the last one that is needed soonest are late. If something is read in the iteration that
 * copies it, the wait is there, and covers what the next iteration needs when it begins. */
static void find_late(Rewrite *w, const Issue *list, int n) {
  int most, least = least_slack(w, &most);
  const Issue *last = NULL;
  for (const Issue *x = list; x < list + n; x++)
    if (mover_of(x->c) == BY_THREADS && staged_slack(x->c) <= (least ? least : 1) &&
        (!last || is_issued_after(x, last)))
      last = x;
  for (const Issue *x = list; x < list + n; x++)
    if (mover_of(x->c) == BY_THREADS) x->c->late = is_issued_after(x, last);
}

/* Boxes are issued before anything waits, if the body begins with them. */
static bool leads(const Issue *list, const Issue *box, const Op *first) {
  for (const Issue *x = list; x < box; x++)
    if (x->before == first && !x->c->boxes) return false;
  return box->c->boxes && box->before == first;
}

/* What the loop carries from the load in one iteration to the store in the next. */
static bool begin_kept(Rewrite *w, StagedCopy *c) {
  if (!c->kept) return true;
  c->first = insert_read(w, w->l->loop, c, nth(w, c->ahead), c->ahead);
  if (!c->first) return false;
  c->stored = ir_add_arg(w->k, w->l->loop->body, c->first->type, c->first->name);
  ir_set_layout(w->k, c->stored, c->first->layout);
  return true;
}

static bool insert_issue(Rewrite *w, const Issue *x) {
  StagedCopy *c = x->c;
  if (c->async) return insert_copy(w, x->before, c, later(w, c->ahead), -1), true;
  if (x->stores) return insert_write(w, x->before, c, c->stored, later(w, c->ahead)), true;
  c->loaded = insert_read(w, x->before, c, later(w, c->ahead + c->kept), -1);
  if (!c->kept) c->stored = c->loaded;
  return c->loaded != NULL;
}

/* Closes the group of the iteration after its last copy, or the last that is not late. If something
 * is read in the iteration that copies it, all groups end there. */
static void close_group(Rewrite *w, bool ends) {
  Op *last = NULL;
  for (Op *op = w->l->loop->body->first; op; op = op->next) {
    const StagedCopy *c = memory_is_ahead(op) ? staged_copy_of(w->l, op) : NULL;
    if (c && !c->late) last = op;
  }
  Op *next = last ? last->next : NULL;
  if (next) insert_commit(w, next);
  if (next && ends) ir_insert_before(next, new_wait(w, 0));
}

/* The first op of the body that reads early what arrives on these barriers; `first` if none does. */
static Op *first_read(const Rewrite *w, const Barriers *full, Op *first) {
  if (full->reader) return full->reader;
  if (!full->lead) return first;
  for (Op *op = first; op; op = op->next) {
    const StagedCopy *c = op->kind == OP_read ? staged_copy_to(w->l, op->args[0]) : NULL;
    if (c && staged_lead(w->l, op) == full->lead && barriers_for(w, c) == full->ring) return op;
  }
  return first;
}

static void await_boxes(Rewrite *w, Op *first, bool early) {
  for (int i = 0; i < w->full.n; i++) {
    const Barriers *full = &w->full.at[i];
    const Sym *iteration = later(w, full->lead);
    const Sym *number =
        full->lead ? at_most_last(w, iteration) : staged_number(w->k, w->l, iteration);
    if ((full->lead > 0 || full->reader) == early)
      insert_mbar_wait(w, first_read(w, full, first), full->ring, number);
  }
}

static bool run_ahead(Rewrite *w, const Issue *list, int n) {
  StagedLoop *l = w->l;
  Op *first = first_op(l);
  int most, slack = least_slack(w, &most);
  for (int i = 0; i < n; i++)
    if (leads(list, &list[i], first)) insert_issue(w, &list[i]);
  await_boxes(w, first, false);
  if (slack > 0 && slack < INT32_MAX) ir_insert_before(first, new_wait(w, slack - 1));
  for (int i = 0; i < l->copies.n; i++)
    if (!begin_kept(w, &l->copies.at[i])) return false;
  for (int i = 0; i < n; i++)
    if (!leads(list, &list[i], first) && !insert_issue(w, &list[i])) return false;
  if (slack < INT32_MAX) close_group(w, slack == 0);
  await_boxes(w, first, true);
  for (int i = 0; i < l->copies.n; i++)
    if (l->copies.at[i].kept) staged_carry(w->k, l, l->copies.at[i].first, l->copies.at[i].loaded);
  return true;
}

/* ---- after the loop ---- */

static bool touches_scratch(const Op *op) {
  for (int i = 0; i < op->nargs; i++)
    if (op->args[i]->type->kind == TYPE_mem && memory_is_scratch(op->args[i])) return true;
  for (const Op *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    if (touches_scratch(inner)) return true;
  return false;
}

/* At most one of the two runs, like the branches that `version` makes. */
static bool is_alternative(const Rewrite *w, const Op *a, const Op *b) {
  const Attr *x = op_attr(a, ATTR_expr), *y = op_attr(b, ATTR_expr);
  return a->kind == OP_if && b->kind == OP_if && x && y && sym_not(w->sym, x->sym) == y->sym;
}

/* Shared memory is used after the loop, possibly by the loop itself when it runs again. */
static bool is_used_after(const Rewrite *w) {
  for (const Op *op = w->l->loop; op; op = op->parent->owner) {
    if (op != w->l->loop && op->kind != OP_if) return true;
    for (const Op *next = op->next; next; next = next->next)
      if (!is_alternative(w, op, next) && touches_scratch(next)) return true;
  }
  return false;
}

static bool has_late(const Rewrite *w) {
  bool late = false;
  for (int i = 0; i < w->l->copies.n; i++) late |= w->l->copies.at[i].late;
  return late;
}

/* Zeros copied past the last iteration must not arrive on top of other data, and barriers must be
 * invalidated before their memory is reused. */
static void drain(Rewrite *w) {
  if (!is_used_after(w)) return;
  if (most_ahead(w, BY_THREADS)) {
    ir_insert_after(w->l->loop, new_wait(w, 0));
    if (has_late(w)) insert_commit(w, w->l->loop->next);
  }
  for (int i = 0; i < w->full.n; i++)
    ir_insert_after(w->l->loop, new_mbar_op(w, OP_mbar_inval, w->full.at[i].ring));
}

static bool rewrite_loop(Rewrite *w) {
  int n;
  if (w->l->late) lead_first(w->k, w->cx->scratch, w->l);
  else if (w->l->early) lead_product(w->k, w->cx->scratch, w->l);
  if (!lead_tables(w->k, w->cx->scratch, w->l)) return false;
  make_barriers(w);
  roles_begin_loop(w->k, w->cx, w->l);
  name_slots(w);
  if (w->l->lead || w->l->table_lead) carry_fixed(w->k, w->cx, w->l);
  find_places(w);
  Issue *list = list_issues(w, &n);
  find_late(w, list, n);
  w->carry = carry_open(w->k, w->cx, w->l);
  fill_ring(w);
  if (w->carry) carry_leads(w->carry);
  if (!run_ahead(w, list, n)) return false;
  roles_rewrite_loop(w->k, w->cx, w->l);
  drain(w);
  if (w->l->product)
    op_set_attr(w->k, w->l->product, (Attr){.key = ATTR_pending, .integer = staged_flights(w->l)});
  for (int i = 0; i < w->l->copies.n; i++) ir_remove(w->l->copies.at[i].copy);
  return true;
}

/* Loops that share an allocation, which `version` copied from one, agree on its slots. */
static void make_rings(Kernel *k, const StagesPlan *plan) {
  for (int i = 0; i < plan->loops.n; i++)
    for (int j = 0; j < plan->loops.at[i].copies.n; j++) {
      const StagedCopy *c = &plan->loops.at[i].copies.at[j];
      int now = alloc_slots(c->alloc);
      if (c->slots == 1) continue;
      op_set_attr(k, c->alloc,
                  (Attr){.key = ATTR_ring, .integer = c->slots > now ? c->slots : now});
    }
}

/* A copy that is not made of boxes cannot be divided into boxes. */
static bool check_part(const CopyModes *modes, const Op *copy) {
  CopySlice slice = copy_slice(copy);
  const char *why = NULL;
  for (int d = 0; !why && d < copy->args[1]->type->rank; d++)
    why = slice.of[d] > 1 ? copy_why_whole(modes, copy, &slice, d) : NULL;
  if (!why) return true;
  Diags *diags = &modes->k->cx->diags;
  Diag *d = diag_add(diags, DIAG_E0620, copy->at,
                     "a part of the copy of `%s` is not prefetched, and no copy of its own: %s",
                     memory_name(modes->k, copy->args[0]), why);
  return diag_hint(diags, d, "place it in an earlier stage");
}

static const StagedCopy *staged_copy(const StagesPlan *plan, const Op *op) {
  for (int i = 0; i < plan->loops.n; i++)
    for (int j = 0; j < plan->loops.at[i].copies.n; j++)
      if (plan->loops.at[i].copies.at[j].copy == op) return &plan->loops.at[i].copies.at[j];
  return NULL;
}

/* Boxes are worthwhile only if they are prefetched, or made by service waves. Only these copy for other
 * workgroups. */
static bool unbox_others(Kernel *k, PassCtx *cx, const StagesPlan *plan) {
  for (Op *op = ir_first(k); op; op = ir_next(op)) {
    if (!copy_goes_by(op, "tma") || copy_barriers(op)) continue;
    const StagedCopy *copy = staged_copy(plan, op);
    bool staged = copy || single_is_served(k, cx, plan, op);
    if (!copy || !copy->role) op_drop_attr(op, ATTR_peers);
    CopyModes modes = copy_modes(k, cx);
    if (!staged && !copy_choose_mode(&modes, op, "it is not prefetched by a loop")) return false;
    if (!staged && op_has(op, ATTR_part) && !check_part(&modes, op)) return false;
  }
  return true;
}

bool pass_stages(Kernel *k, PassCtx *cx) {
  StagesPlan plan = {0};
  if (!cx->machine || !cx->target) return cx->idle = true;
  if (!stages_plan(k, cx, &plan) || !roles_plan(k, cx, &plan)) return false;
  if (!unbox_others(k, cx, &plan)) return false;
  make_rings(k, &plan);
  roles_open(k, cx, &plan);
  single_serve(k, cx, &plan);
  Rewrite w = {.k = k, .sym = k->cx->sym, .cx = cx};
  for (int i = 0; i < plan.loops.n; i++) {
    w.l = &plan.loops.at[i];
    if (!rewrite_loop(&w)) return false;
  }
  for (int i = 0; i < plan.loops.n; i++) stages_add_turns(k, cx, &plan.loops.at[i]);
  return staged_mark_loops(k, cx->target);
}
