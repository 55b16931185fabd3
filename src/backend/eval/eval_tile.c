/* eval_tile.c: the evaluator on one page: arguments, grid, workgroups, and how each op is run. */
#include "backend/eval/eval.h"

/* ---- ops ---- */

/* Barriers and hints: a workgroup runs alone, its ops one after the other. */
bool run_nothing(Eval *ev, Op *op) {
  (void)ev, (void)op;
  return true;
}

/* Ops on what one thread holds have a meaning here only if there is a single element. */
bool run_lane_op(Eval *ev, Op *op) {
  Tile *t = ev->values[op->args[0]->id].tile;
  Box box;
  if (box_count(&t->box) != 1 || op->nargs != 1)
    return eval_fail(ev, DIAG_E0701, "`%s` depends on which elements a thread holds",
                     op_info[op->kind].name);
  if (!position_box(ev, op->results[0].type, &box)) return false;
  t = tile_at(ev, op->args[0], &box);
  ev->values[op->results[0].id].tile = t;
  return t != NULL;
}

const OpEval op_eval[OP_COUNT] = {
    [OP_fill] = {.compute = compute_fill},
    [OP_scalar] = {.compute = compute_fill},
    [OP_runs] = {.compute = compute_runs},
    [OP_self_index] = {.compute = compute_self_index},
    [OP_exists] = {.compute = compute_exists},
    [OP_apply_expr] = {.compute = compute_apply},
    [OP_alloc] = {.run = run_alloc},
    [OP_set_symbol] = {.run = run_set_symbol},

    [OP_read] = {.run = run_read},
    [OP_inside] = {.run = run_inside},
    [OP_write] = {.run = run_write},
#define ATOMIC(op, word, combine) [OP_##op] = {.run = run_atomic},
#include "ir/ops/atomics.def"
    [OP_scatter_add] = {.run = run_scatter},
    [OP_report] = {.run = run_report},
    [OP_copy] = {.run = run_copy},
    [OP_prefetch] = {.run = run_prefetch},

    [OP_mma] = {.run = run_mma},
    [OP_scaled_mma] = {.run = run_scaled_mma},

#define ELEMENTWISE(name, kind, flags, rule, cost, doc) [OP_##name] = {.compute = compute_##kind},
#include "ir/elementwise.def"
    [OP_softsign] = {.compute = compute_softsign},
    [OP_select] = {.compute = compute_select},
    [OP_cast] = {.compute = compute_cast},
    [OP_bitcast] = {.compute = compute_bitcast},
    [OP_inline_ptx] = {.compute = compute_inline},

    [OP_broadcast] = {.compute = compute_view},
    [OP_repeat] = {.compute = compute_repeat},
    [OP_convert] = {.compute = compute_view},
    [OP_permute] = {.compute = compute_view},
    [OP_squeeze] = {.compute = compute_view},
    [OP_extract] = {.run = run_lane_op},
    [OP_extract_slice] = {.run = run_lane_op},
    [OP_reshape] = {.run = run_lane_op},

    [OP_sum] = {.run = run_reduce},
    [OP_prod] = {.run = run_reduce},
    [OP_max] = {.run = run_reduce},
    [OP_min] = {.run = run_reduce},
    [OP_cumsum] = {.run = run_cumsum},
    [OP_topk] = {.run = run_topk},
    [OP_reduce] = {.run = run_combine},
    [OP_scan] = {.run = run_combine},

    [OP_workgroup_barrier] = {.run = run_nothing},
    [OP_shared_barrier] = {.run = run_nothing},
    [OP_barrier] = {.run = run_nothing},
    [OP_barrier_signal] = {.run = run_nothing},
    [OP_barrier_wait] = {.run = run_nothing},
    [OP_counter_wait] = {.run = run_nothing},
    [OP_counter_barrier] = {.run = run_nothing},
    [OP_wave_prio] = {.run = run_nothing},
    [OP_stamp] = {.run = run_nothing}, /* the evaluator has no clock */
    [OP_sched_barrier] = {.run = run_nothing},
    [OP_sched_group] = {.run = run_nothing},
    [OP_async_commit] = {.run = run_nothing},
    [OP_async_wait] = {.run = run_nothing},
    [OP_bulk_wait] = {.run = run_nothing},
    [OP_mbar_init] = {.run = run_nothing},
    [OP_mbar_inval] = {.run = run_nothing},
    [OP_mbar_wait] = {.run = run_nothing},
    [OP_mbar_arrive] = {.run = run_nothing},
    [OP_turn] = {.run = run_nothing},
    [OP_wave_registers] = {.run = run_nothing},
    [OP_debug_log] = {.run = run_debug_log},

    [OP_for] = {.run = run_for},
    [OP_while] = {.run = run_while},
    [OP_if] = {.run = run_if},
    [OP_yield] = {.run = run_nothing},
};

static bool run_op(Eval *ev, Op *op) {
  const OpEval *how = &op_eval[op->kind];
  for (int i = 0; i < op->nresults; i++)
    if (op->results[i].varying)
      return eval_fail(ev, DIAG_E0701, "the result of `%s` is declared to differ between threads",
                       op_info[op->kind].name);
  if (how->run) return how->run(ev, op);
  if (!how->compute)
    return eval_fail(ev, DIAG_E0409,
                     "`%s` is not a tile op: the evaluator runs tile-level kernels only",
                     op_info[op->kind].name);
  Box box;
  if (!position_box(ev, op->results[0].type, &box)) return false;
  Tile *t = how->compute(ev, op, &box);
  if (t && op->nargs) t = tile_made(ev, t); /* it may be the operand itself */
  ev->values[op->results[0].id] = (Binding){.tile = t, .made = env_mark(ev)};
  return t != NULL;
}

/* Moves the op to the iterations that it names. */
static bool enter_iterations(Eval *ev, const Attr *named, Loop *loops) {
  for (int i = 0; i < named->n; i++) {
    Loop *loop = &loops[i];
    int64_t trips;
    *loop = (Loop){.axis = named->pairs[i].key, .outer = ev->loops};
    if (!expr_value(ev, named->pairs[i].value, &loop->counter)) return false;
    if (!position_trips(ev, loop->axis, &trips)) return false;
    ev->beyond |= loop->counter < 0 || loop->counter >= trips;
    ev->loops = loop;
  }
  return true;
}

bool eval_op(Eval *ev, Op *op) {
  const Attr *named = op_attr(op, ATTR_iteration);
  const Loop *around = ev->loops;
  Loop loops[IR_MAX_RANK];
  ev->at = op->at;
  if (!eval_goes_on(ev, 0)) return false;
  if (!named) return run_op(ev, op) && !ev->stopped;
  ev->named = named;
  bool ok = enter_iterations(ev, named, loops) && run_op(ev, op);
  ev->loops = around;
  ev->named = NULL;
  ev->beyond = false;
  return ok && !ev->stopped;
}

/* ---- the launch ---- */

static bool run_group(Eval *ev, int64_t x, int64_t y, int64_t z) {
  int mark = env_mark(ev);
  arena_reset(ev->group);
  ev->scratch = ARENA_ARRAY(ev->group, Memory *, ev->k->nops);
  ev->arena = ev->group;
  position_enter_group(ev, x, y, z);
  bool ok = eval_region(ev, ev->k->body);
  env_rewind(ev, mark);
  return ok;
}

static bool run_grid(Eval *ev) {
  for (int64_t z = 0; z < ev->grid[2]; z++)
    for (int64_t y = 0; y < ev->grid[1]; y++)
      for (int64_t x = 0; x < ev->grid[0]; x++)
        if (ev->ngang > 1 && !gang_begins(ev, x, y, z)) continue;
        else if (!(ev->ngang > 1 ? gang_run : run_group)(ev, x, y, z)) return false;
  return true;
}

static bool launch(Eval *ev, int nargs) {
  if (ev->k->level != LEVEL_TILE)
    return eval_fail(ev, DIAG_E0409, "`%s` is not a tile-level kernel", ev->k->name);
  if (!args_bind(ev, nargs) || !position_setup(ev) || !gang_setup(ev) || !logs_setup(ev) ||
      !run_grid(ev))
    return false;
  logs_deliver(ev);
  return logs_check_workspace(ev) && logs_check_report(ev);
}

bool eval_tile(Kernel *k, const EvalArg *args, int nargs, const EvalOptions *o) {
  Eval ev = {.k = k, .cx = k->cx, .args = args, .options = o, .at = k->at};
  ev.home = arena_new();
  ev.group = arena_new();
  ev.arena = ev.home;
  ev.values = ARENA_ARRAY(ev.home, Binding, k->nvalues + STEP_ARGS); /* operands of a step */
  bool ok = launch(&ev, nargs);
  for (int i = 0; i < ev.arenas.n; i++) arena_free(ev.arenas.at[i]);
  arena_free(ev.group);
  arena_free(ev.home);
  return ok;
}
