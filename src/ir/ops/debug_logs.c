/* debug_logs.c: see debug_logs.h. */
#include "ir/ops/debug_logs.h"

static SymPairs mapped_dims(const Op *op) {
  const Attr *mapping = op_attr(op, ATTR_mapping);
  return mapping ? mapping->mapping->outputs : (SymPairs){0};
}

static DebugLog log_of(Arena *a, Op *op, int number) {
  const Attr *label = op_attr(op, ATTR_label), *iters = op_attr(op, ATTR_iters);
  DebugLog log = {.op = op, .slots = iters ? iters->iters : NULL, .nslots = iters ? iters->n : 0};
  bool named = label && label->text && label->text[0];
  log.label = named ? label->text : arena_printf(a, "debug_log_output_%d", number);
  int mapped = mapped_dims(op).n;
  log.rank = log.nslots + (mapped ? mapped : op->args[0]->type->rank);
  if (!log.rank) log.rank = 1;
  return log;
}

static bool find_in(Arena *a, Kernel *k, const Region *r, DebugLogs *out) {
  for (const Op *op = r->first; op; op = op->next)
    if (op->body && !find_in(a, k, op->body, out)) return false;
  for (Op *op = r->first; op; op = op->next) {
    if (op->kind != OP_debug_log) continue;
    DebugLog log = log_of(a, op, out->n);
    if (log.rank > IR_MAX_RANK)
      return diag_fail(&k->cx->diags, DIAG_E0706, op->at,
                       "the logged tensor has %d dimensions, expected at most %d", log.rank,
                       IR_MAX_RANK);
    vec_push(a, out, log);
  }
  return true;
}

/* The labels in use, each with the number of logs that were given it. */
typedef struct Labels {
  Arena *arena;
  Intern names;
  Map count;
} Labels;

static uintptr_t count_of(const Labels *x, const char *label) {
  return (uintptr_t)map_get(&x->count, map_key(label));
}

static void set_count(Labels *x, const char *label, uintptr_t n) {
  map_set(x->arena, &x->count, map_key(label), (void *)n);
}

/* The label, or if it is in use label.2, label.3, ... */
static const char *own_label(Labels *x, const char *label) {
  const char *given = intern(&x->names, label), *own = given;
  uintptr_t n = count_of(x, given);
  while (count_of(x, own))
    own = intern(&x->names, arena_printf(x->arena, "%s.%d", given, (int)++n));
  set_count(x, given, n > 1 ? n : 1);
  if (own != given) set_count(x, own, 1);
  return own;
}

/* Logs with the same label, in the order in which they are written. */
static void tell_apart(Arena *a, const Kernel *k, DebugLogs *logs) {
  Labels x = {.arena = a, .names = {.arena = a}};
  Map of = {0};
  for (int i = 0; i < logs->n; i++) map_set(a, &of, map_key(logs->at[i].op), &logs->at[i]);
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    DebugLog *log = map_get(&of, map_key(op));
    if (log) log->label = own_label(&x, log->label);
  }
}

bool debug_logs_find(Arena *a, Kernel *k, DebugLogs *out) {
  if (!find_in(a, k, k->body, out)) return false;
  tell_apart(a, k, out);
  return true;
}

const Sym *debug_log_dim(const DebugLog *log, int i) {
  SymPairs mapped = mapped_dims(log->op);
  const Type *t = log->op->args[0]->type;
  if (mapped.n) return mapped.at[i].key;
  return i < t->rank ? t->dims[i] : NULL;
}
