/* cpu_lanes_plan.c: which ops run in one phase, what is uniform, and what is kept. */
#include <string.h>

#include "backend/cpu/lanes/cpu_lanes.h"

typedef struct Planner {
  Llvm *p;
  Lanes *l;
  Vec(const Sym *) varying; /* symbols in scope that differ between threads */
  Vec(const Sym *) counted; /* counters in scope: the last of a name applies */
  int open;                 /* the phase that ops join; 0: start a new one */
} Planner;

/* ---- where threads meet ---- */

static bool is_meeting(const Op *op) {
  bool waits = op_info[op->kind].flags & OPF_SYNC && !(op_info[op->kind].flags & OPF_HINT);
  return waits || op->kind == OP_wave_mma || op->kind == OP_shuffle || op->kind == OP_shuffle_idx ||
         cpu_is_waiting(op);
}

/* Whether some thread waits in a loop for what another one does. */
static bool somebody_waits(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (cpu_is_waiting(op)) return true;
  return false;
}

static bool find_meetings(Lanes *l, const Region *r) {
  bool any = false;
  for (const Op *op = r->first; op; op = op->next) {
    bool inside = op->body && find_meetings(l, op->body);
    any |= l->meets[op->id] = inside || is_meeting(op);
  }
  return any;
}

static bool is_split(const Lanes *l, const Op *op) { return op->body && l->meets[op->id]; }

/* ---- what is uniform ---- */

static bool is_thread_id(const Sym *s) {
  const char *name = sym_name(s);
  return strncmp(name, "$T", 2) == 0 && name[2] >= '0' && name[2] <= '2' && !name[3];
}

/* A counter hides one of an outer loop with the same name, which may be of the other kind. */
static bool symbol_is_uniform(const Planner *n, const Sym *s) {
  if (is_thread_id(s)) return false;
  for (int i = n->varying.n - 1; i >= 0; i--)
    if (n->varying.at[i] == s) return n->counted.at[i] == s;
  return true;
}

static bool expr_is_uniform(const Planner *n, const Sym *e) {
  FreeSymbols all = sym_symbols(n->p->arena, e);
  for (int i = 0; i < all.n; i++)
    if (!symbol_is_uniform(n, all.at[i])) return false;
  return true;
}

static void see_symbol(Planner *n, const Sym *s, bool uniform) {
  vec_push(n->p->arena, &n->varying, s);
  vec_push(n->p->arena, &n->counted, uniform ? s : NULL);
}

static bool operands_are_uniform(const Planner *n, const Op *op) {
  for (int i = 0; i < op->nargs; i++)
    if (!n->l->uniform[op->args[i]->id]) return false;
  return true;
}

static bool op_is_uniform(const Planner *n, const Op *op) {
  const Attr *e = op_attr(op, ATTR_expr), *value = op_attr(op, ATTR_value);
  if (op->kind == OP_alloc) return true;
  if (op_info[op->kind].flags & OPF_HINT) return operands_are_uniform(n, op);
  if (op->body || !(op_is_pure(op) || op->kind == OP_set_symbol)) return false;
  if (e && !expr_is_uniform(n, e->sym)) return false;
  if (value && value->sym && !expr_is_uniform(n, value->sym)) return false;
  return operands_are_uniform(n, op);
}

/* Whether all threads of a split region take the same path: the same trip count, or the same
 * condition. While loops test carried values, which are not tracked. */
static bool region_is_uniform(const Planner *n, const Op *op) {
  const Value *test = op->kind == OP_if ? op_condition(op) : NULL;
  const Attr *e = op_attr(op, op->kind == OP_for ? ATTR_trips : ATTR_expr);
  if (op->kind == OP_while) return false;
  if (op->kind == OP_for && op_carried(op) && !n->l->uniform[op->args[0]->id]) return false;
  return test ? n->l->uniform[test->id] : expr_is_uniform(n, e->sym);
}

/* ---- phases ---- */

static void plan_region(Planner *n, const Region *r);

static void open_symbols(Planner *n, const Op *op) {
  if (op->kind == OP_for)
    see_symbol(n, ir_loop_counter(n->p->k, op_attr(op, ATTR_axis)->sym),
               n->l->uniform_region[op->id]);
  if (op->kind == OP_while) see_symbol(n, op_attr(op, ATTR_version)->sym, false);
  for (int i = 1; op->kind == OP_while && i < op->body->nargs; i++)
    see_symbol(n, ir_iter_arg(n->p->k->cx, i - 1), false);
}

/* The block arguments of a conditional are its operands. */
static void plan_split(Planner *n, const Op *op) {
  int symbols = n->varying.n, first = op_carried(op);
  n->l->uniform_region[op->id] = region_is_uniform(n, op);
  open_symbols(n, op);
  for (int i = 0; op->kind == OP_if && i < op->body->nargs; i++)
    n->l->uniform[op->body->args[i]->id] = n->l->uniform[op->args[first + i]->id];
  n->open = 0;
  plan_region(n, op->body);
  n->open = 0;
  n->varying.n = n->counted.n = symbols;
}

static bool is_in_phase(const Planner *n, const Value *v) {
  return v->def && n->open && n->l->phase[v->def->id] == n->open;
}

static bool is_shuffle(const Op *op) {
  return op->kind == OP_shuffle || op->kind == OP_shuffle_idx;
}

/* A shuffle reads what others have kept: it may begin a phase or join one, but not the phase that
 * computes its operand. */
static void join_phase(Planner *n, const Op *op) {
  if (is_shuffle(op) && is_in_phase(n, op->args[0])) n->open = 0;
  if (!n->open) n->open = ++n->l->phases;
  n->l->phase[op->id] = n->open;
  if (op->kind == OP_set_symbol) see_symbol(n, op_attr(op, ATTR_version)->sym, false);
}

static void plan_op(Planner *n, const Op *op) {
  Lanes *l = n->l;
  l->phase[op->id] = LANES_ALONE;
  if (is_split(l, op)) {
    plan_split(n, op);
  } else if (op->kind == OP_yield || (l->meets[op->id] && !is_shuffle(op))) {
    n->open = 0;
  } else if (!is_shuffle(op) && op_is_uniform(n, op)) {
    l->phase[op->id] = LANES_ONCE;
    for (int i = 0; i < op->nresults; i++) l->uniform[op->results[i].id] = true;
  } else {
    join_phase(n, op);
  }
}

static void plan_region(Planner *n, const Region *r) {
  for (const Op *op = r->first; op; op = op->next) plan_op(n, op);
}

/* ---- kept values ---- */

/* Keeps every operand that another phase made. Ops nested in a phase's regions belong to that
 * phase. */
static void keep_operands(Planner *n, const Region *r, int within) {
  Lanes *l = n->l;
  for (const Op *op = r->first; op; op = op->next) {
    int phase = within ? within : l->phase[op->id];
    for (int i = 0; i < op->nargs; i++) {
      const Value *v = op->args[i];
      bool other = phase <= 0 || !v->def || l->phase[v->def->id] != phase;
      bool exchanged = (is_shuffle(op) && i == 0) || op->kind == OP_set_symbol;
      if (other || exchanged) l->is_kept[v->id] = true;
    }
    if (op->body) keep_operands(n, op->body, is_split(l, op) ? 0 : phase);
  }
}

static void reserve_value(Planner *n, const Value *v) {
  Lanes *l = n->l;
  if (l->uniform[v->id] || l->offset[v->id] != LANES_NOWHERE) return;
  l->offset[v->id] = lanes_reserve(n->p, l->copies * lanes_bytes(v->type));
}

/* The results of a loop are stored where it carries them. */
static void reserve_carried(Planner *n, const Op *op) {
  Lanes *l = n->l;
  int first = op_carried(op), axis = op->kind == OP_while ? 1 : 0;
  for (int i = 0; i < op->body->nargs; i++) {
    const Value *arg = op->body->args[i];
    if (op->kind == OP_if) l->offset[arg->id] = l->offset[op->args[first + i]->id];
    else reserve_value(n, arg);
  }
  for (int i = 0; i < op->nresults; i++)
    if (op->kind == OP_if) reserve_value(n, &op->results[i]);
    else l->offset[op->results[i].id] = l->offset[op->body->args[axis + i]->id];
}

static void reserve_region(Planner *n, const Region *r) {
  Lanes *l = n->l;
  for (const Op *op = r->first; op; op = op->next) {
    if (is_split(l, op)) {
      reserve_carried(n, op);
      reserve_region(n, op->body);
      continue;
    }
    for (int i = 0; i < op->nresults; i++)
      if (l->is_kept[op->results[i].id] || op->kind == OP_wave_mma)
        reserve_value(n, &op->results[i]);
  }
}

/* ---- the whole ---- */

Lanes *lanes_plan(Llvm *p, const LaunchSpec *launch) {
  Kernel *k = p->k;
  Lanes *l = ARENA_NEW(p->arena, Lanes);
  Planner n = {.p = p, .l = l};
  *l = (Lanes){.threads = launch_threads(launch), .wave = launch->lanes};
  l->mask = l->staging = LANES_NOWHERE;
  if (l->threads < 1 || l->wave < 1) return NULL;
  l->copies = part_count(l->threads, l->wave) * l->wave;
  l->apart = somebody_waits(k) ? l->copies / l->wave : 1;
  for (int i = 0; i < 3; i++) sym_is_int(launch->block[i], &l->block[i]);
  l->meets = ARENA_ARRAY(p->arena, bool, k->nops);
  l->uniform_region = ARENA_ARRAY(p->arena, bool, k->nops);
  l->phase = ARENA_ARRAY(p->arena, int, k->nops);
  l->uniform = ARENA_ARRAY(p->arena, bool, k->nvalues);
  l->is_kept = ARENA_ARRAY(p->arena, bool, k->nvalues);
  l->offset = ARENA_ARRAY(p->arena, int64_t, k->nvalues);
  l->read_in = ARENA_ARRAY(p->arena, int, k->nvalues);
  for (int i = 0; i < k->nvalues; i++) l->offset[i] = LANES_NOWHERE;
  for (int i = 0; i < k->body->nargs; i++) l->uniform[k->body->args[i]->id] = true;
  find_meetings(l, k->body);
  plan_region(&n, k->body);
  keep_operands(&n, k->body, 0);
  l->any = lanes_reserve(p, l->apart);
  reserve_region(&n, k->body);
  return l;
}
