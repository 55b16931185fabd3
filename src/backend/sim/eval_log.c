/* eval_log.c: debug_log. Each op has one tensor for the whole launch, zero where nothing was
 * logged: the register's dimensions at full size, after one slot per logged iteration of each loop
 * asked for. The last slot keeps the iterations that have none. */
#include "backend/sim/eval.h"

/* Default labels count the logs of inner regions before those of the regions around them. */
static void find_logs(Eval *ev, const Region *r) {
  for (const Op *op = r->first; op; op = op->next)
    if (op->body) find_logs(ev, op->body);
  for (const Op *op = r->first; op; op = op->next) {
    if (op->kind != OP_debug_log) continue;
    const Attr *label = op_attr(op, ATTR_label);
    bool named = label && label->text && label->text[0];
    const char *text =
        named ? label->text : arena_printf(ev->home, "debug_log_output_%d", ev->logs.n);
    vec_push(ev->home, &ev->logs, ((Log){.op = op, .label = text}));
  }
}

static SymPairs log_mapping(const Op *op) {
  const Attr *mapping = op_attr(op, ATTR_mapping);
  return mapping ? mapping->mapping->outputs : (SymPairs){0};
}

static const Sym *log_dim(const Op *op, int i) {
  SymPairs mapped = log_mapping(op);
  return mapped.n ? mapped.at[i].key : op->args[0]->type->dims[i];
}

static bool open_log(Eval *ev, Log *log) {
  const Op *op = log->op;
  const Attr *iters = op_attr(op, ATTR_iters);
  int slots = iters ? iters->n : 0, mapped = log_mapping(op).n;
  int rank = slots + (mapped ? mapped : op->args[0]->type->rank);
  ev->at = op->at;
  if (rank > IR_MAX_RANK)
    return eval_fail(ev, DIAG_E0706, "the logged tensor has %d dimensions, at most %d are possible",
                     rank, IR_MAX_RANK);
  const Sym **dims = ARENA_ARRAY(ev->home, const Sym *, rank);
  Memory m = {.name = log->label, .dims = dims, .dtype = op->args[0]->type->dtype, .rank = rank};
  for (int i = 0; i < rank; i++) {
    dims[i] = i < slots ? iters->iters[i].symbol : log_dim(op, i - slots);
    if (i < slots ? !expr_value(ev, iters->iters[i].count, &m.size[i])
                  : !place_dim_size(ev, dims[i], &m.size[i]))
      return false;
  }
  int64_t n = 1;
  for (int i = rank - 1; i >= 0; i--) m.stride[i] = n, n *= m.size[i] > 0 ? m.size[i] : 0;
  m.data = arena_alloc(ev->home, dtype_bytes(m.dtype, n) + 1);
  log->memory = m;
  return true;
}

bool logs_setup(Eval *ev) {
  find_logs(ev, ev->k->body);
  for (int i = 0; i < ev->logs.n; i++)
    if (!open_log(ev, &ev->logs.at[i])) return false;
  return true;
}

void logs_deliver(Eval *ev) {
  if (!ev->options || !ev->options->log) return;
  for (int i = 0; i < ev->logs.n; i++) {
    const Memory *m = &ev->logs.at[i].memory;
    EvalBuffer b = {.data = m->data, .dtype = m->dtype, .rank = m->rank};
    for (int d = 0; d < m->rank; d++) b.shape[d] = m->size[d], b.strides[d] = m->stride[d];
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
  slice.rank -= slots;
  slice.dims += slots;
  for (int i = 0; i < slots; i++)
    if (log->memory.size[i] <= 0) return true;
  for (int i = 0; i < slice.rank; i++)
    slice.size[i] = log->memory.size[i + slots], slice.stride[i] = log->memory.stride[i + slots];
  Box box;
  if (!place_box(ev, op->args[0]->type, &box)) return false;
  Tile *value = tile_at(ev, op->args[0], &box);
  if (!value) return false;
  Access a = {.op = op, .box = &box, .memory = &slice, .test_extents = true, .replaced = -1};
  a.dynamic = op->args + 1;
  a.ndynamic = op->nargs - 1;
  if (mapping) {
    a.mapping = mapping->mapping;
    a.coords = a.mapping->outputs;
    a.iterated = a.mapping->inputs;
  }
  int64_t *offsets = access_offsets(ev, &a), start = slot_start(ev, log);
  for (int64_t e = 0, n = box_count(&box); offsets && e < n; e++)
    if (offsets[e] != EVAL_INACTIVE) offsets[e] += start;
  return memory_write(ev, &log->memory, offsets, value);
}
