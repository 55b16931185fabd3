/* fuzz_orders.c: two judges of the order in which a loop accesses memory agree.
 *
 *     fuzz_orders [--seed N] [--count N] [--seconds N]
 *
 * A case is a kernel with a loop over K, random rows of a schedule and a random machine
 * (order_kernels.h), compiled up to `turns`. Then waits, barriers and turns are dropped, moved or made
 * weaker, in up to DRAWS different ways. The proof (loop_proof.h) judges each such program for any number of
 * iterations, and the simulator runs of it with 0 to TRIPS. What is proved must have no finding and
 * the evaluator's results; what is not proved must have a finding in some run. Of kernels with small
 * workgroups, all of the latter run and a share of the others; of large ones a smaller share of both.
 *
 * The proof is stricter in five ways, and such programs are counted: it does not know which elements
 * a wave accesses, so a barrier may be missing between accesses of one wave each (order_elements.h);
 * that loads end in order, so what waits for one that ends in registers may wait for a direct copy,
 * too; and, if the number of iterations is known, what is not copied or read past the last one, and the
 * last arrivals, for which nothing waits. Between two runs of a loop in which halves of the waves are a
 * barrier apart, it expects a barrier of all. And it reports turns that are not taken and passed in turn, which
 * only matters for speed where halves of the waves are a barrier apart, or where whole groups of service
 * waves open a turn, too. The proof does not rely on other
 * turns, but their barriers order memory in the simulator: such programs run again without them. If halves of
 * the waves are a barrier apart, programs of known sizes run again with whole tiles. The last lines are the
 * counts (order_counts.h) and "N passed, M failed", of cases. */
#include <inttypes.h>

#include "analysis/analysis.h"
#include "fuzz/order_counts.h"
#include "fuzz/order_elements.h"
#include "fuzz/settings.h"
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/region_facts.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/turn_ops.h"
#include "schedule/groups/loop_lag.h"
#include "schedule/proof/loop_proof.h"
#include "unit/lane_kit.h"

enum {
  DRAWS = 96,     /* programs of a case */
  EDITS = 3,      /* of a program, at most */
  FARTHEST = 6,   /* ops that a wait is moved by */
  SMALL = 8,      /* one case in this number has a small workgroup */
  LEGAL = 6,      /* one program in this number runs: of those proved ... */
  OF_LARGE = 200, /* ... and of large workgroups; */
  UNCHANGED = 64, /* of what was compiled for those */
  EXCUSED = 2,    /* runs, if there is a reason why none may have a finding ... */
  THOROUGH = 16,  /* ... but all for one program in this number */
};

/* ---- what is changed ---- */

/* A change that can be taken back. */
typedef struct Edit {
  OrderEdit how;
  size_t site;
  Op *op;
  Op *next; /* moved or dropped: what came after it */
  int by;
  uint64_t key; /* the same for equal changes of one kernel */
} Edit;

static bool is_before_loop(const Op *op) {
  for (; op; op = op->next)
    if (op->kind == OP_for) return true;
  return false;
}

/* Where the program of service waves begins. */
static bool divides_roles(const Op *op) {
  return op->kind == OP_barrier && strcmp(op_attr(op, ATTR_mode)->text, "roles") == 0;
}

/* A wait, barrier or arrival that the proof of a loop is about, or what a wait leaves in flight. */
static bool may_edit(const Op *op) {
  const Op *outer = op->parent->owner;
  if (divides_roles(op)) return false;
  if (op->kind == OP_turn) return !op_is_turn(op, "close"); /* machines allow arrivals to be left */
  if (!(outer && outer->kind == OP_for) && !is_before_loop(op)) return false;
  return op->kind == OP_barrier || op->kind == OP_mbar_wait || op->kind == OP_async_wait ||
         op->kind == OP_mbar_arrive || op_has(op, ATTR_pending);
}

typedef Vec(Op *) Sites;

static Sites find_sites(Arena *a, const Kernel *k) {
  Sites found = {0};
  for (Op *op = ir_first(k); op; op = ir_next(op))
    if (may_edit(op)) vec_push(a, &found, op);
  return found;
}

/* A barrier that need not wait for shared memory. */
static bool may_be_weaker(const Op *op) {
  bool ends = op_is_turn(op, "open") || op_is_turn(op, "close");
  return turn_is_lagged(op) && !ends && !op_has(op, ATTR_no_ds_wait);
}

static OrderEdit any_edit(const Op *op, Random *r) {
  bool drop = below(r, 3) != 0;
  if (op_is_product(op)) return EDIT_product_weaker;
  if (may_be_weaker(op) && below(r, 2)) return EDIT_turn_weaker;
  if (op->kind == OP_turn) return drop ? EDIT_turn_dropped : EDIT_turn_moved;
  if (op->kind == OP_barrier) return drop ? EDIT_barrier_dropped : EDIT_barrier_moved;
  if (op->kind == OP_mbar_wait) return drop ? EDIT_phase_wait_dropped : EDIT_phase_wait_moved;
  if (op->kind == OP_mbar_arrive) return drop ? EDIT_arrival_dropped : EDIT_arrival_moved;
  if (below(r, 2)) return EDIT_group_wait_weaker;
  return drop ? EDIT_group_wait_dropped : EDIT_group_wait_moved;
}

static bool is_move(OrderEdit e) {
  return e == EDIT_barrier_moved || e == EDIT_phase_wait_moved || e == EDIT_group_wait_moved ||
         e == EDIT_arrival_moved || e == EDIT_turn_moved;
}

static bool defines(const Op *op, const Op *user) {
  for (int i = 0; i < op->nresults; i++)
    if (op_takes(user, &op->results[i])) return true;
  return false;
}

/* The op before which it would be `by` ops later, or earlier if that is negative; NULL: there is a
 * region or the end of its own region in the way. */
static Op *find_place(Op *op, int by) {
  Op *at = by > 0 ? op->next : op;
  for (; by > 0 && at; by--) at = at->body || !at->next ? NULL : at->next;
  for (; by < 0 && at; by++)
    at = !at->prev || at->prev->body || defines(at->prev, op) ? NULL : at->prev;
  return at;
}

static void take_back(const Edit *e) {
  if (e->how == EDIT_product_weaker || e->how == EDIT_group_wait_weaker) {
    ((Attr *)op_attr(e->op, ATTR_pending))->integer -= e->by;
    return;
  }
  if (e->how == EDIT_turn_weaker) {
    op_drop_attr(e->op, ATTR_no_ds_wait);
    return;
  }
  if (is_move(e->how)) ir_remove(e->op);
  ir_insert_before(e->next, e->op);
}

/* What is chosen, at its place in this kernel. False: it was dropped, or cannot be moved. */
static bool apply_edit(Kernel *k, const Sites *sites, Edit *e) {
  Op *op = e->op = sites->at[e->site];
  if (!op->parent) return false;
  e->next = op->next;
  if (e->how == EDIT_product_weaker || e->how == EDIT_group_wait_weaker) {
    ((Attr *)op_attr(op, ATTR_pending))->integer += e->by;
  } else if (e->how == EDIT_turn_weaker) {
    op_set_attr(k, op, (Attr){.key = ATTR_no_ds_wait});
  } else {
    Op *place = is_move(e->how) ? find_place(op, e->by) : NULL;
    if (is_move(e->how) && !place) return false;
    ir_remove(op);
    if (place) ir_insert_before(place, op);
  }
  return true;
}

/* False: there is nothing to change, or it was dropped, or cannot be moved. */
static bool make_edit(Kernel *k, const Sites *sites, Random *r, Edit *e) {
  size_t site = below(r, (size_t)sites->n);
  const Op *op = sites->n ? sites->at[site] : NULL;
  if (!op || !op->parent) return false;
  *e = (Edit){.how = any_edit(op, r), .site = site};
  if (e->how == EDIT_product_weaker || e->how == EDIT_group_wait_weaker)
    e->by = 1 + (int)below(r, 2);
  if (is_move(e->how)) e->by = (1 + (int)below(r, FARTHEST)) * (below(r, 2) ? 1 : -1);
  e->key = hash_mix(hash_mix(site + 1, e->how), (uint64_t)(e->by + FARTHEST));
  return apply_edit(k, sites, e);
}

/* ---- judges ---- */

/* By the waves themselves, each a part of the elements. */
static bool is_divided(const LoopAccess *x) {
  bool elected = x->begins[1] < 0 || x->how == TOUCH_ATOMIC;
  return !elected && !op_is_product(x->op);
}

static bool is_direct(const LoopAccess *x) {
  return x->op->kind == OP_copy && copy_goes_by(x->op, "direct");
}

/* A copy engine copies nothing past the last iteration. */
static bool may_be_past_end(const LoopAccess *x) {
  return x->op->kind == OP_copy && copy_barriers(x->op);
}

/* From that iteration of the loop on, it copies or reads what is past the last one, of a known number:
 * nothing may be left of it. In a loop inside this one, what counts is its last iteration. */
static bool is_past_end(const Distribution *d, const Op *loop, const LoopAccess *x, int64_t from) {
  SymCtx *cx = d->k->cx->sym;
  OpKind kind = x->op->kind;
  int64_t trips, first;
  const Attr *at = op_attr(x->op, ATTR_iteration);
  if ((kind != OP_copy && kind != OP_read && kind != OP_write) || !at) return false;
  const Sym *axis = at->pairs[0].key, *count = distribute_trips_over(d, x->op, axis);
  if (!count || !sym_is_int(count, &trips)) return false;
  if (axis != op_attr(loop, ATTR_axis)->sym) from = trips - 1;
  SymBinding start = {ir_loop_counter(d->k, axis), sym_int(cx, from)};
  return sym_is_int(sym_subst(cx, at->pairs[0].value, &start, 1), &first) && first >= trips;
}

/* Halves of the waves are a barrier apart in a loop inside this one. */
static bool is_around_lagged(const Distribution *d, const Op *loop) {
  for (const Op *op = loop->body->first; op && op_is_inside(op, loop); op = ir_next(op))
    if (op->kind == OP_for && loop_is_lagged(d, op)) return true;
  return false;
}

static OrderReason reason_of(const Distribution *d, const Op *loop, const LoopPair *f, bool known) {
  int apart = f->distance; /* the first comes later if it is negative */
  bool past = is_past_end(d, loop, f->first, apart < 0 ? -apart : 0) ||
              is_past_end(d, loop, f->second, apart > 0 ? apart : 0);
  if (is_around_lagged(d, loop)) return REASON_lagged_runs;
  if (known && past) return REASON_known_trips;
  if (f->other_wave && is_divided(f->first) && is_divided(f->second))
    return REASON_elements_of_waves;
  if (is_direct(f->first) || is_direct(f->second)) return REASON_loads_in_order;
  bool engine = may_be_past_end(f->first) || may_be_past_end(f->second);
  return known && engine ? REASON_known_trips : N_ORDER_REASONS;
}

typedef struct Judgement {
  bool legal;
  OrderReason reason; /* for which the simulator may find nothing; of all findings */
  bool apart;         /* of some: waves access elements of their own */
} Judgement;

/* Service waves open a turn, too: if they are whole groups, the first groups only go too early. */
static bool is_opened_by_all(const Kernel *k, const Op *op) {
  const Op *parting = op_parting(k->body);
  return op_is_turn(op, "open") && parting && op->parent == k->body && op_comes_before(op, parting);
}

/* Halves of the waves that are a barrier apart reach as many barriers, but not in turn. */
static bool is_out_of_turn(const Kernel *k, const LoopProof *p) {
  int more = 0;
  if (p->unbalanced && is_opened_by_all(k, p->unbalanced)) return true;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    more += op_is_turn(op, "open") - op_is_turn(op, "close");
  return p->unbalanced && p->graph.lagged && !more;
}

static Judgement prove(Kernel *k, bool known) {
  Arena *a = arena_new();
  OrderReason reason = N_ORDER_REASONS;
  int findings = 0, excused = 0, unbalanced = 0, out_of_turn = 0;
  bool apart = false;
  ir_renumber(k);
  Facts facts = facts_of(k, a, FACT_memory_uses | FACT_distribute);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    if (op->kind != OP_for) continue;
    LoopProof p = loop_prove(a, facts.distribute, facts.memory_uses, op);
    findings += p.findings.n + p.waiting.n;
    bool swapped = is_out_of_turn(k, &p);
    out_of_turn += swapped, unbalanced += p.unbalanced && !swapped;
    for (int i = 0; i < p.findings.n; i++) {
      reason = reason_of(facts.distribute, op, &p.findings.at[i], known);
      excused += reason != N_ORDER_REASONS;
      apart |= reason == REASON_elements_of_waves;
    }
  }
  arena_free(a);
  if (out_of_turn && !findings) reason = REASON_out_of_turn;
  if (unbalanced && known) reason = REASON_known_trips;
  if (excused < findings || (unbalanced && !known)) reason = N_ORDER_REASONS;
  return (Judgement){!findings && !unbalanced && !out_of_turn, reason, apart};
}

typedef enum Verdict { RIGHT, FOUND, WRONG } Verdict;

/* Tensors of these sizes; scales are powers of two, so that sums are exact. */
static Lab open_tensors(const Case *c, Kernel *k, const SampleSizes *sizes) {
  Lab l = {.cx = k->cx, .k = k, .seed = 7};
  for (int i = 0; i < kernel_given(k); i++) {
    const Type *t = k->body->args[i]->type;
    sample_tensor(&l, &c->sample, sizes, t);
    int64_t n = t->dtype == DTYPE_f8e8m0fnu ? lab_count(&l.tensors[i]) : 0;
    for (int64_t e = 0; e < n; e++) put(&l, i, e, e % 3 ? 2.0 : 0.5);
  }
  l.options.check_masks = true;
  return l;
}

static void close_tensors(Lab *l) {
  for (int i = 0; i < l->nargs; i++) free(l->tensors[i].data);
}

static bool is_right(const Case *c, Kernel *source, const SampleSizes *sizes, const Lab *after) {
  Lab before = open_tensors(c, source, sizes);
  bool right = lab_run(&before) && lab_equal(&before, after);
  close_tensors(&before);
  return right;
}

/* One lane's program; NULL: it was refused. */
static Kernel *lower(const Case *c, const Kernel *staged) {
  PassOptions rest = {.target = machines[c->machine], .start_after = "turns"};
  Kernel *k = kernel_clone(staged);
  ir_renumber(k);
  if (passes_run(k, &rest)) return k;
  kernel_free(k);
  return NULL;
}

/* `source`: the kernel before the passes. `exact`: its results matter, too. */
static Verdict simulate(const Case *c, Kernel *source, Kernel *lowered, Run run, bool exact) {
  SampleSizes sizes = sizes_of(c, run);
  SimReport report = {0};
  SimOptions o = {.machine = target_find(machines[c->machine]).machine,
                  .schedule = (SimSchedule)run.schedule,
                  .seed = c->seed,
                  .findings = 1};
  Lab after = open_tensors(c, source, &sizes);
  for (int i = 0; i < after.nargs; i++) after.args[i].buffer = &after.tensors[i];
  bool ran = sim_run(lowered, after.args, after.nargs, &o, &report);
  bool right = ran && (!exact || is_right(c, source, &sizes, &after));
  close_tensors(&after);
  return report.findings ? FOUND : right ? RIGHT : WRONG;
}

/* ---- one program ---- */

/* A case that is being judged. */
typedef struct OrderTrial {
  const Case *c;
  Kernel *source, *staged;
  Sites sites;
  Random *r;
  Counts *n;
  Edit edits[EDITS];
  int nedits;
} OrderTrial;

static void count(OrderTrial *t, OrderColumn column) {
  Counts *n = t->n;
  const Case *c = t->c;
  bool done[N_ORDER_EDITS] = {0};
  n->all.of[column]++;
  n->small.of[column] += !c->large;
  n->kind[c->p->kind].of[column]++;
  n->machine[c->machine].of[column]++;
  for (int i = 0; i < N_LOOP_ROWS; i++) n->row[i].of[column] += c->rows[i];
  done[EDIT_unchanged] = !t->nedits;
  for (int i = 0; i < t->nedits; i++) done[t->edits[i].how] = true;
  for (int i = 0; i < N_ORDER_EDITS; i++) n->edit[i].of[column] += done[i];
}

static bool complain(const OrderTrial *t, const char *what, Run run) {
  Arena *a = arena_new();
  StrBuf text = {.arena = a};
  const Case *c = t->c;
  ir_print(&text, t->staged);
  ir_renumber(t->staged);
  Facts facts = facts_of(t->staged, a, FACT_memory_uses | FACT_distribute);
  loop_proof_print(&text, facts.distribute, facts.memory_uses);
  printf("seed %" PRIu64 ", %s on %s, K = %d%s:", c->seed, loop_kinds[c->p->kind],
         machines[c->machine], run.k, run.ragged ? ", ragged" : "");
  for (int i = 0; i < t->nedits; i++) printf(" %s,", order_edits[t->edits[i].how]);
  printf(" %s\n%s\n--- after turns:\n%s---\n", what, c->text, sb_text(&text));
  arena_free(a);
  return false;
}

/* A proved program: one run. */
static bool check_legal(OrderTrial *t, Kernel *lowered) {
  Run run = any_run(t->c, t->r);
  Verdict v = simulate(t->c, t->source, lowered, run, true);
  count(t, N_simulated_legal);
  count(t, N_runs);
  if (v == FOUND) return complain(t, "proved, but the simulator has a finding", run);
  return v == RIGHT || complain(t, "proved, but the result is wrong", run);
}

/* Some waves share an element, in a pair of accesses that is out of order and excused by that they do
 * not. */
static bool waves_meet(const OrderTrial *t) {
  Arena *a = arena_new();
  Kernel *k = t->staged;
  bool found = false;
  ir_renumber(k);
  Facts facts = facts_of(k, a, ELEMENT_FACTS);
  Machine m = machine_of_kernel(k, target_find(machines[t->c->machine]).machine);
  for (const Op *op = ir_first(k); op && !found; op = ir_next(op)) {
    if (op->kind != OP_for) continue;
    LoopProof p = loop_prove(a, facts.distribute, facts.memory_uses, op);
    for (int i = 0; i < p.findings.n && !found; i++) {
      const LoopPair *f = &p.findings.at[i];
      found = reason_of(facts.distribute, op, f, t->c->known) == REASON_elements_of_waves &&
              waves_share(a, &facts, &m, f->first->op, f->second->op, p.graph.lagged);
    }
  }
  arena_free(a);
  return found;
}

/* Whether no other runs are needed: layouts say why there is no finding. */
static bool is_excused(const OrderTrial *t, const Judgement *j) {
  if (j->reason == N_ORDER_REASONS || below(t->r, THOROUGH) == 0) return false;
  return !j->apart || !waves_meet(t);
}

static const int trips[] = {3, 5, TRIPS, 1, 2, 4, 7, 0};

/* Runs, until one has a finding. The kernel may have other code for whole tiles. Halves of the waves that
 * are a barrier apart may access memory one after the other, but the wrong one first: then only the
 * result tells. */
static bool find_any(OrderTrial *t, Kernel *lowered, const Judgement *j) {
  int runs = t->c->known ? 2 * N_SIM_SCHEDULES : 2 * (int)WV_LEN(trips);
  for (int i = 0; i < runs; i++) {
    if (i == EXCUSED && is_excused(t, j)) return false;
    Run run = run_of(t->c, trips[i / 2], i % 2, (i + i / 2) % N_SIM_SCHEDULES);
    count(t, N_runs);
    if (simulate(t->c, t->source, lowered, run, t->c->lagged) != RIGHT) return true;
  }
  return false;
}

/* The proof does not rely on the named barriers of turns, which order memory in the simulator, nor on the
 * wait for products between the repeated bodies of a loop and its last iterations. */
static bool find_without_help(OrderTrial *t, const Judgement *j) {
  Kernel *plain = kernel_clone(t->staged);
  for (Op *op = ir_first(plain), *next; op; op = next) {
    next = ir_next(op);
    op_drop_attr(op, ATTR_unroll);
    if (op->kind == OP_turn && !turn_is_lagged(op)) ir_remove(op);
  }
  Kernel *lowered = lower(t->c, plain);
  bool found = lowered && find_any(t, lowered, j);
  kernel_free(lowered);
  kernel_free(plain);
  return found;
}

/* The kernel, up to where programs are judged; without `k`: it was refused. */
static Lab compile(const Case *c) {
  Lab l = lab_open(c->text);
  PassOptions o = {.target = machines[c->machine], .stop_after = "turns"};
  if (l.k && schedule_check(l.k) && passes_run(l.k, &o)) return l;
  lab_close(&l);
  return (Lab){0};
}

static bool have_same_ops(const Kernel *a, const Kernel *b) {
  const Op *x = ir_first(a), *y = ir_first(b);
  for (; x && y && x->kind == y->kind; x = ir_next(x)) y = ir_next(y);
  return !x && !y;
}

/* The same changes of the same program, but for whole tiles. False: it is another program, or proved. */
static bool change_whole(const OrderTrial *t, OrderTrial *whole) {
  whole->sites = find_sites(whole->staged->cx->arena, whole->staged);
  if (whole->sites.n != t->sites.n) return false;
  for (whole->nedits = 0; whole->nedits < t->nedits; whole->nedits++) {
    Edit *e = &whole->edits[whole->nedits];
    *e = t->edits[whole->nedits];
    if (whole->sites.at[e->site]->kind != e->op->kind ||
        !apply_edit(whole->staged, &whole->sites, e))
      return false;
  }
  return have_same_ops(t->staged, whole->staged) && !prove(whole->staged, whole->c->known).legal;
}

/* Where halves of the waves are a barrier apart, only results tell which of them came first, but not if
 * what they miss is past the end of a tensor. The proof does not know the ends: the same loop has a finding
 * if its tiles are whole. */
static bool find_in_whole(OrderTrial *t, const Judgement *j) {
  Case c;
  make_whole(t->c, &c);
  Lab l = compile(&c), source = lab_open(c.text);
  OrderTrial whole = {.c = &c, .source = source.k, .staged = l.k, .r = t->r, .n = t->n};
  bool found = false;
  if (l.k && change_whole(t, &whole)) {
    Kernel *lowered = lower(&c, l.k);
    found = lowered && find_any(&whole, lowered, j);
    kernel_free(lowered);
  }
  lab_close(&l);
  lab_close(&source);
  return found;
}

/* With every order of waves for all trips: some findings need one of them, and enough trips. */
static bool find_in_all(OrderTrial *t, Kernel *lowered) {
  for (int i = 0; i < 2 * (int)WV_LEN(trips) * N_SIM_SCHEDULES; i++) {
    Run run = run_of(t->c, trips[i / 2 / N_SIM_SCHEDULES], i % 2, i / 2 % N_SIM_SCHEDULES);
    count(t, N_runs);
    if (simulate(t->c, t->source, lowered, run, t->c->lagged) != RIGHT) return true;
  }
  return false;
}

static bool check_illegal(OrderTrial *t, Kernel *lowered, const Judgement *j) {
  count(t, N_simulated_illegal);
  if (find_any(t, lowered, j)) return true;
  bool helped = (t->c->rows[ROW_turns] && !t->c->lagged) || t->c->rows[ROW_unroll];
  if (helped && find_without_help(t, j)) return true;
  bool ends = t->c->known || t->c->whole;
  if (t->c->lagged && ends && find_in_whole(t, j)) return true;
  if (j->reason == N_ORDER_REASONS || (j->apart && waves_meet(t)))
    return find_in_all(t, lowered) ||
           complain(t, "not proved, but no run has a finding", t->c->run);
  count(t, N_excused);
  t->n->reason[j->reason]++;
  return true;
}

/* The loop over K has no iteration, unless another loop's counter adds some. */
static bool never_runs(const Case *c) {
  return c->known && !c->run.k && !strstr(c->p->head, " iters ");
}

static bool judge(OrderTrial *t) {
  Judgement j = prove(t->staged, t->c->known);
  if (!j.legal && never_runs(t->c)) j.reason = REASON_known_trips, j.apart = false;
  size_t share = (size_t)((t->c->large ? OF_LARGE : 1) * (j.legal ? LEGAL : 1));
  if (!t->nedits) share = t->c->large && !t->c->rows[ROW_parts] ? UNCHANGED : 1;
  count(t, N_judged);
  count(t, j.legal ? N_legal : N_illegal);
  if (below(t->r, share)) return true;
  Kernel *lowered = lower(t->c, t->staged);
  if (!lowered) return complain(t, "judged, but not lowered", t->c->run);
  bool ok = j.legal ? check_legal(t, lowered) : check_illegal(t, lowered, &j);
  kernel_free(lowered);
  return ok;
}

/* ---- one case ---- */

/* The programs that were judged, by all changes. */
typedef struct Seen {
  Arena *arena;
  Map programs;
} Seen;

static bool is_new(Seen *seen, uint64_t key) {
  if (map_get(&seen->programs, key | 1)) return false;
  map_set(seen->arena, &seen->programs, key | 1, seen);
  return true;
}

/* A few changes, judged if nothing equal was, and taken back. */
static bool draw_program(OrderTrial *t, Seen *seen) {
  uint64_t key = hash_mix(hash_bytes(t->c->text, strlen(t->c->text)), (uint64_t)t->c->machine);
  bool ok = true;
  t->nedits = 0;
  do {
    if (!make_edit(t->staged, &t->sites, t->r, &t->edits[t->nedits])) break;
    key += hash_mix(7, t->edits[t->nedits++].key);
  } while (t->nedits < EDITS && below(t->r, 3) == 0);
  if (t->nedits && is_new(seen, key)) ok = judge(t);
  else t->n->repeated++;
  while (t->nedits) take_back(&t->edits[--t->nedits]);
  return ok;
}

static bool run_case(Case *c, Random *r, Counts *n, Seen *seen) {
  Lab l = compile(c), source = lab_open(c->text);
  bool ok = true;
  n->kernels++, n->refused += !l.k;
  if (l.k) {
    const MachineSpec *m = kernel_machine(l.k);
    c->rows[ROW_roles] = m && m->service;
    n->served += c->rows[ROW_roles];
    for (const Op *op = ir_first(l.k); op; op = ir_next(op))
      c->rows[ROW_turns] |= op->kind == OP_turn, c->lagged |= turn_is_lagged(op);
    OrderTrial t = {.c = c, .source = source.k, .staged = l.k, .r = r, .n = n};
    t.sites = find_sites(l.cx->arena, l.k);
    ok = judge(&t);
    for (int i = 0; i < DRAWS && ok; i++) ok = draw_program(&t, seen);
  }
  lab_close(&l);
  lab_close(&source);
  return ok;
}

/* ---- all cases ---- */

static int fuzz(const Settings *s) {
  Counts n = {0};
  Seen seen = {.arena = arena_new()};
  double began = os_seconds();
  for (long i = 0; i < s->count && n.failed < 5; i++) {
    if (s->seconds > 0 && os_seconds() - began > s->seconds) break;
    Case c = {.seed = s->seed + (uint64_t)i};
    Random r = {c.seed * UINT64_C(1000003)};
    draw_case(&c, &r, c.seed % SMALL != 0);
    bool ok = run_case(&c, &r, &n, &seen);
    n.passed += ok, n.failed += !ok;
  }
  arena_free(seen.arena);
  n.failed += find_missing(&n);
  print_counts(&n);
  printf("%" PRId64 " passed, %" PRId64 " failed\n", n.passed, n.failed);
  return n.failed != 0;
}

int main(int argc, char **argv) {
  Settings s = {.seed = 1, .count = 100};
  for (int i = 1; i + 1 < argc && take_setting(&s, argv[i], argv[i + 1]);) i += 2;
  return fuzz(&s);
}
