/* eval_log.c: debug_log. Each op, or parameter that a pass made from one, has one tensor for the
 * whole launch, zero where nothing was logged: the register's dimensions at full size, preceded by
 * one slot per logged iteration of each requested loop. The last slot takes the iterations that
 * have none. */
#include <string.h>

#include "backend/eval/eval.h"
#include "base/failures.h"
#include "ir/ops/debug_logs.h"

bool log_allocate(Arena *a, EvalBuffer *b) {
  int64_t n = 1;
  for (int i = b->rank - 1; i >= 0; i--) {
    b->strides[i] = n;
    if (b->shape[i] < 0) b->shape[i] = 0;
    if (b->shape[i] && n > LOG_MOST / b->shape[i]) return false;
    n *= b->shape[i];
  }
  b->data = arena_alloc(a, dtype_bytes(b->dtype, n) + 1);
  return true;
}

/* Ones: NaN, if they are read as numbers. */
void log_fill(EvalBuffer *b) {
  int64_t n = b->rank ? b->shape[0] * b->strides[0] : 1;
  memset(b->data, 0xff, dtype_bytes(b->dtype, n));
}

/* `m` has its dims and sizes set. */
static bool open_log(Eval *ev, const Op *op, const char *label, Memory m) {
  EvalBuffer b = {.dtype = m.dtype, .rank = m.rank};
  for (int i = 0; i < m.rank; i++) b.shape[i] = m.size[i];
  if (!log_allocate(ev->home, &b))
    return eval_fail(ev, DIAG_E0706, "the %s `%s` would have more than %lld elements",
                     label ? "debug log" : "workspace", label ? label : m.name,
                     (long long)LOG_MOST);
  m.data = b.data;
  for (int i = 0; i < m.rank; i++) m.size[i] = b.shape[i], m.stride[i] = b.strides[i];
  vec_push(ev->home, &ev->logs, ((Log){.op = op, .label = label, .memory = m}));
  return true;
}

static bool open_op(Eval *ev, const DebugLog *log) {
  const Sym **dims = ARENA_ARRAY(ev->home, const Sym *, log->rank);
  Memory m = {.name = log->label, .dims = dims, .dtype = log->op->args[0]->type->dtype};
  m.rank = log->rank;
  ev->at = log->op->at;
  for (int i = 0; i < m.rank; i++) {
    bool slot = i < log->nslots;
    dims[i] = slot ? log->slots[i].symbol : debug_log_dim(log, i - log->nslots);
    m.size[i] = 1;
    if (slot ? !expr_value(ev, log->slots[i].count, &m.size[i])
             : dims[i] && !position_dim_size(ev, dims[i], &m.size[i]))
      return false;
  }
  return open_log(ev, log->op, log->label, m);
}

static EvalBuffer buffer_of(const Memory *m) {
  EvalBuffer b = {.data = m->data, .dtype = m->dtype, .rank = m->rank};
  for (int d = 0; d < m->rank; d++) b.shape[d] = m->size[d], b.strides[d] = m->stride[d];
  return b;
}

static bool open_param(Eval *ev, int i) {
  const Param *p = &ev->k->params.at[i];
  const Value *v = ev->k->body->args[i];
  Memory m = {.name = p->name, .dims = v->type->dims, .dtype = v->type->dtype};
  m.rank = v->type->rank;
  ev->at = p->at;
  for (int d = 0; d < m.rank; d++)
    if (!position_dim_size(ev, m.dims[d], &m.size[d])) return false;
  if (!open_log(ev, NULL, p->log, m)) return false;
  Log *log = &ev->logs.at[ev->logs.n - 1];
  log->report = p->report, log->undefined = p->undefined;
  EvalBuffer b = buffer_of(&log->memory);
  if (p->undefined) log_fill(&b);
  ev->values[v->id].memory = arena_copy(ev->home, &log->memory, sizeof log->memory);
  return true;
}

bool logs_setup(Eval *ev) {
  DebugLogs found = {0};
  for (int i = kernel_given(ev->k); i < ev->k->params.n; i++)
    if (!open_param(ev, i)) return false;
  if (!debug_logs_find(ev->home, ev->k, &found)) return false;
  for (int i = 0; i < found.n; i++)
    if (!open_op(ev, &found.at[i])) return false;
  return true;
}

bool log_is_zero(const EvalBuffer *b) {
  int64_t n = b->rank ? b->shape[0] * b->strides[0] : 1;
  const unsigned char *bytes = b->data;
  for (size_t i = 0, end = dtype_bytes(b->dtype, n); i < end; i++)
    if (bytes[i]) return false;
  return true;
}

bool logs_check_workspace(Eval *ev) {
  for (int i = 0; i < ev->logs.n; i++) {
    EvalBuffer b = buffer_of(&ev->logs.at[i].memory);
    if (ev->logs.at[i].label || ev->logs.at[i].report || ev->logs.at[i].undefined) continue;
    if (log_is_zero(&b)) continue;
    ev->at = ev->k->at;
    return eval_fail(ev, DIAG_E0817, "the workspace `%s` is not zero at the end of the kernel",
                     ev->logs.at[i].memory.name);
  }
  return true;
}

bool logs_check_report(Eval *ev) {
  bool ok = true;
  for (int i = 0; i < ev->logs.n; i++) {
    const Log *log = &ev->logs.at[i];
    if (log->report)
      ok &= failures_report(&ev->cx->diags, log->report, log->memory.data, log->memory.size[0]);
  }
  return ok;
}

void logs_deliver(Eval *ev) {
  if (!ev->options || !ev->options->log) return;
  for (int i = 0; i < ev->logs.n; i++) {
    const Memory *m = &ev->logs.at[i].memory;
    if (!ev->logs.at[i].label) continue; /* workspace */
    EvalBuffer b = buffer_of(m);
    ev->options->log(ev->options->user, ev->logs.at[i].label, &b);
  }
}

/* ---- the op ---- */

/* The element at which this iteration's slot begins. */
static int64_t slot_start(const Eval *ev, const Log *log) {
  const Attr *iters = op_attr(log->op, ATTR_iters);
  int64_t start = 0;
  for (int i = 0; iters && i < iters->n; i++) {
    const Loop *l = ev->loops;
    while (l && l->axis != iters->iters[i].axis) l = l->outer;
    int64_t counter = l ? l->counter : 0, last = log->memory.size[i] - 1;
    start += (counter < last ? counter : last) * log->memory.stride[i];
  }
  return start;
}

bool run_debug_log(Eval *ev, Op *op) {
  Log *log = ev->logs.at;
  while (log->op != op) log++;
  const Attr *iters = op_attr(op, ATTR_iters), *mapping = op_attr(op, ATTR_mapping);
  int slots = iters ? iters->n : 0;
  Memory slice = log->memory; /* one slot: the dimensions after the iterations' */
  slice.rank = op->args[0]->type->rank || mapping ? slice.rank - slots : 0;
  slice.dims += slots;
  for (int i = 0; i < slots; i++)
    if (log->memory.size[i] <= 0) return true;
  for (int i = 0; i < slice.rank; i++)
    slice.size[i] = log->memory.size[i + slots], slice.stride[i] = log->memory.stride[i + slots];
  Box box;
  if (!position_box(ev, op->args[0]->type, &box)) return false;
  Tile *value = tile_at(ev, op->args[0], &box);
  if (!value) return false;
  Access a = {.op = op, .box = &box, .memory = &slice, .test_extents = true, .replaced = -1};
  a.made = &value->box;
  a.dynamic = op->args + 1;
  a.ndynamic = op->nargs - 1;
  if (mapping) {
    a.mapping = mapping->mapping;
    a.coords = a.mapping->outputs;
    a.iterated = a.mapping->inputs;
  }
  int64_t *offsets = access_offsets(ev, &a), start = slot_start(ev, log);
  EACH_ELEMENT(ev, e, 0, offsets ? box_count(&box) : 0)
    if (offsets[e] != EVAL_INACTIVE) offsets[e] += start;
  return memory_write(ev, &log->memory, offsets, value);
}
