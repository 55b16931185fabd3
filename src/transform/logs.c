/* logs: turns debug logs into writes to parameters that no caller passes.
 *
 *     debug_log "total" %t {iters = [(STEP, N, 3)]}
 *   =>
 *     kernel @k(..., %log0: mem<log_slot0, M, f32> log "total")
 *       bind log_slot0 = 3
 *     write %t, %log0 {mapping = map 1 {M: $index0} -> {log_slot0: Min(STEP, 2), M: $index0}}
 *
 * From here on a log is an access like any other: it gets a layout, is masked and lowered. Whatever
 * runs the kernel supplies a tensor of zeros for each such parameter, and passes it on under its label.
 * Breaks all: the header has new rows. */
#include <string.h>

#include "ir/ops/debug_logs.h"
#include "transform/pass.h"

typedef struct Logs {
  Kernel *k;
  SymCtx *sym;
  int slots; /* symbols created */
} Logs;

/* An unused parameter name. */
static const char *free_name(const Kernel *k) {
  for (int i = 0;; i++) {
    const char *name = arena_printf(k->arena, "log%d", i);
    if (!kernel_has_param(k, name)) return name;
  }
}

static bool is_inside(const Op *op, const Sym *axis) {
  for (const Op *at = op->parent->owner; at; at = at->parent->owner)
    if (at->kind != OP_if && op_attr(at, ATTR_axis)->sym == axis) return true;
  return false;
}

/* The slot of this iteration: the last one takes those without a slot of their own. If there may be
 * no slots at all, the index is then 0, which is outside. */
static const Sym *slot_number(Logs *x, const Op *op, const LogIter *slot) {
  const Sym *zero = sym_int(x->sym, 0), *last = sym_sub(x->sym, slot->count, sym_int(x->sym, 1));
  int64_t n;
  if (!is_inside(op, slot->axis)) return zero;
  const Sym *number = sym_min(x->sym, ir_loop_counter(x->k, slot->axis), last);
  return sym_is_int(slot->count, &n) ? number : sym_max(x->sym, number, zero);
}

/* A new dimension with `count` elements, none if that is negative; its symbol does not occur in the
 * kernel. */
static const Sym *slot_dim(Logs *x, Span at, const Sym *count) {
  const Sym *dim;
  do dim = ir_numbered_symbol(x->k->cx, "log_slot", x->slots++, true);
  while (kernel_constraint(x->k, CONSTRAINT_bind, dim));
  Constraint row = {.kind = CONSTRAINT_bind, .at = at, .bind = {.symbol = dim}};
  row.bind.value = sym_max(x->sym, count, sym_int(x->sym, 0));
  vec_push(x->k->arena, &x->k->constraints, row);
  return dim;
}

/* Maps the value's coordinates to those of the log, `dims`; NULL: by name. */
static const Mapping *log_mapping(Logs *x, const DebugLog *log, const Sym *const *dims) {
  Arena *a = x->k->arena;
  const Attr *given = op_attr(log->op, ATTR_mapping);
  const Type *t = log->op->args[0]->type;
  if (!log->nslots && given) return given->mapping;
  if (!log->nslots && t->rank) return NULL;
  Mapping *m = ARENA_NEW(a, Mapping);
  if (given) *m = *given->mapping;
  SymPair *by_name = ARENA_ARRAY(a, SymPair, t->rank + 1), *to = ARENA_ARRAY(a, SymPair, log->rank);
  for (int i = 0; i < t->rank; i++)
    by_name[i] = (SymPair){dim_base(t->dims[i]), ir_numbered_symbol(x->k->cx, "$index", i, true)};
  if (!given) m->inputs = (SymPairs){by_name, t->rank}, m->niterators = t->rank;
  for (int i = 0; i < log->rank; i++) {
    int j = i - log->nslots;
    if (j < 0) to[i] = (SymPair){dims[i], slot_number(x, log->op, &log->slots[i])};
    else if (given) to[i] = given->mapping->outputs.at[j];
    else to[i] = j < t->rank ? by_name[j] : (SymPair){dims[i], sym_int(x->sym, 0)};
  }
  m->outputs = (SymPairs){to, log->rank};
  return m;
}

static Value *add_param(Logs *x, const DebugLog *log, const Sym **dims) {
  const Op *op = log->op;
  for (int i = 0; i < log->rank; i++) {
    const Sym *own = i < log->nslots ? NULL : debug_log_dim(log, i - log->nslots);
    const Sym *count = i < log->nslots ? log->slots[i].count : sym_int(x->sym, 1);
    dims[i] = own ? own : slot_dim(x, op->at, count);
  }
  const Type *type =
      type_mem(x->k->cx, dims, log->rank, op->args[0]->type->dtype, x->k->cx->global_space, NULL);
  if (!type) {
    diag_add(&x->k->cx->diags, DIAG_E0319, op->at, "a dimension occurs twice in the log");
    return NULL;
  }
  Value *v = kernel_add_param(x->k, free_name(x->k), type, NULL, op->at);
  kernel_set_log(x->k, v, log->label);
  return v;
}

static bool is_empty(const DebugLog *log) {
  int64_t n;
  for (int i = 0; i < log->nslots; i++)
    if (sym_is_int(log->slots[i].count, &n) && n < 1) return true;
  return false;
}

static bool replace_log(Logs *x, const DebugLog *log) {
  const Sym *dims[IR_MAX_RANK];
  Op *op = log->op;
  Value *memory = add_param(x, log, dims);
  if (!memory) return false;
  Value **args = ARENA_ARRAY(x->k->arena, Value *, op->nargs + 1);
  args[0] = op->args[0], args[1] = memory;
  for (int i = 1; i < op->nargs; i++) args[i + 1] = op->args[i];
  Op *write = ir_op_new(x->k, OP_write, op->at, args, op->nargs + 1);
  const Mapping *m = log_mapping(x, log, dims);
  if (m) op_set_attr(x->k, write, (Attr){.key = ATTR_mapping, .mapping = m});
  const Attr *tag = op_attr(op, ATTR_tag);
  if (tag) op_set_attr(x->k, write, *tag);
  if (!is_empty(log)) ir_insert_before(op, write);
  ir_remove(op);
  return true;
}

/* Where the pass `stamps` records times. */
static void add_timeline(Logs *x) {
  const Constraint *row = kernel_constraint(x->k, CONSTRAINT_timeline, NULL);
  if (!row || kernel_logged(x->k, TIMELINE_LABEL)) return;
  const Sym *dim = slot_dim(x, row->at, sym_int(x->sym, TIMELINE_ROOM));
  const Type *type = type_mem(x->k->cx, &dim, 1, DTYPE_i64, x->k->cx->global_space, NULL);
  Value *v = kernel_add_param(x->k, free_name(x->k), type, NULL, row->at);
  kernel_set_log(x->k, v, TIMELINE_LABEL);
}

bool pass_logs(Kernel *k, PassCtx *cx) {
  Logs x = {.k = k, .sym = k->cx->sym};
  DebugLogs found = {0};
  if (!debug_logs_find(cx->scratch, k, &found)) return false;
  for (int i = 0; i < found.n; i++)
    if (!replace_log(&x, &found.at[i])) return false;
  add_timeline(&x);
  return true;
}
