/* reports.c: see reports.h. */
#include "ir/ops/reports.h"

#include <string.h>

#include "ir/dtype.h"

FailureType report_type(DType t) {
  if (t == DTYPE_i1) return FAILURE_TRUTH;
  if (dtype_is_float(t)) return t == DTYPE_f64 ? FAILURE_F64 : FAILURE_F32;
  return dtype_is_unsigned(t) ? FAILURE_UNSIGNED : FAILURE_INT;
}

static const char *free_name(const Kernel *k) {
  const char *name = "failures";
  for (int i = 0; kernel_has_param(k, name); i++) name = arena_printf(k->arena, "failures%d", i);
  return name;
}

/* The row that gives the number of words. */
static Constraint *words_row(const Kernel *k, const Sym *dim) {
  for (int i = 0; i < k->constraints.n; i++)
    if (k->constraints.at[i].kind == CONSTRAINT_bind && k->constraints.at[i].bind.symbol == dim)
      return &k->constraints.at[i];
  return NULL;
}

static Value *add_memory(Kernel *k, Span at) {
  const Sym *dim = NULL;
  for (int i = 0; !dim || words_row(k, dim); i++)
    dim = ir_numbered_symbol(k->cx, "failure_words", i, true);
  Constraint row = {.kind = CONSTRAINT_bind, .at = at, .bind = {dim, sym_int(k->cx->sym, 0)}};
  vec_push(k->arena, &k->constraints, row);
  const Type *type = type_mem(k->cx, &dim, 1, DTYPE_i64, k->cx->global_space, NULL);
  Value *v = kernel_add_param(k, free_name(k), type, NULL, at);
  kernel_set_report(k, v, "");
  return v;
}

static const char *line_of(const Kernel *k, Arena *a, const ReportSite *s) {
  StrBuf out = {.arena = a};
  failures_describe(&out, s->kind, sources_name(&k->cx->sources, s->at.file), s->at, s->columns,
                    s->message);
  return sb_text(&out);
}

bool report_is_new(Kernel *k, const ReportSite *site) {
  const Value *v = kernel_report(k);
  return !v || !strstr(k->params.at[v->index].report, line_of(k, k->arena, site));
}

static const Mapping *map_to(Kernel *k, const Value *memory, int64_t word, const Type *cond) {
  Mapping *m = ARENA_NEW(k->arena, Mapping);
  SymPair *to = ARENA_NEW(k->arena, SymPair),
          *from = ARENA_ARRAY(k->arena, SymPair, cond->rank + 1);
  *to = (SymPair){memory->type->dims[0], sym_int(k->cx->sym, word)};
  for (int i = 0; i < cond->rank; i++)
    from[i] = (SymPair){dim_base(cond->dims[i]), ir_numbered_symbol(k->cx, "$index", i, true)};
  m->inputs = (SymPairs){to, 1};
  m->outputs = (SymPairs){from, cond->rank};
  m->niterators = cond->rank;
  return m;
}

Value *report_add(Kernel *k, const ReportSite *site, const Type *cond, const Mapping **mapping) {
  Value *v = (Value *)kernel_report(k);
  if (!v) v = add_memory(k, site->at);
  Constraint *row = words_row(k, v->type->dims[0]);
  int64_t words = 0;
  WV_ASSERT(row && sym_is_int(row->bind.value, &words));
  *mapping = map_to(k, v, words, cond);
  row->bind.value = sym_int(k->cx->sym, words + FAILURE_WORDS);
  const char *text = k->params.at[v->index].report;
  kernel_set_report(k, v, arena_printf(k->arena, "%s%s", text, line_of(k, k->arena, site)));
  return v;
}

static void remove_row(Kernel *k, const Constraint *row) {
  Constraint *end = k->constraints.at + k->constraints.n--;
  size_t behind = (size_t)(end - (row + 1));
  memmove((Constraint *)row, row + 1, sizeof *row * behind);
}

void kernel_drop_reports(Kernel *k) {
  const Value *v = kernel_report(k);
  if (!v) return;
  for (Op *op = ir_first(k), *next; op; op = next) {
    next = ir_next(op);
    if (op->kind == OP_report) ir_remove(op);
  }
  if (v->index != k->params.n - 1) return; /* logs come after it: it stays, and is empty */
  remove_row(k, words_row(k, v->type->dims[0]));
  k->params.n--;
  k->body->nargs--;
}
