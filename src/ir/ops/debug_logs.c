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
    if (log.rank > IR_MAX_RANK) {
      diag_add(&k->cx->diags, DIAG_E0706, op->at,
               "the logged tensor has %d dimensions, expected at most %d", log.rank, IR_MAX_RANK);
      return false;
    }
    vec_push(a, out, log);
  }
  return true;
}

bool debug_logs_find(Arena *a, Kernel *k, DebugLogs *out) { return find_in(a, k, k->body, out); }

const Sym *debug_log_dim(const DebugLog *log, int i) {
  SymPairs mapped = mapped_dims(log->op);
  const Type *t = log->op->args[0]->type;
  if (mapped.n) return mapped.at[i].key;
  return i < t->rank ? t->dims[i] : NULL;
}
