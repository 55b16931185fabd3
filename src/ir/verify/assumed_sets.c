/* assumed_sets.c: checks assumptions about a symbol where the kernel sets it.
 *
 *     assume LEN < 100
 *     set_symbol LEN %n {version = LEN.1}
 *     report (LEN.1 < 100), %failures, ... LEN.1
 *
 * No launch can check such an assumption, so it is never a fact. Symbols have the version in force
 * there; an assumption that mentions one without a value yet is checked where that one is set. */
#include <string.h>

#include "ir/ops/reports.h"

typedef struct InForce {
  const Sym *symbol, *version;
} InForce;

typedef struct Sets {
  Kernel *k;
  Arena *arena;
  Vec(InForce) versions; /* the latest last */
  Vec(Op *) ops;         /* the ops that a check consists of */
} Sets;

/* ---- the condition ---- */

static bool mentions(const Sets *s, const Sym *e, const Sym *symbol) {
  return sym_contains(e, sym_symbol(s->k->cx->sym, sym_name(symbol), true)) ||
         sym_contains(e, sym_symbol(s->k->cx->sym, sym_name(symbol), false));
}

/* `e` with the versions in force, or with 0 for each of them. */
static const Sym *with_versions(const Sets *s, const Sym *e, bool as_zero) {
  SymCtx *sym = s->k->cx->sym;
  for (int i = s->versions.n - 1; e && i >= 0; i--) {
    const InForce *v = &s->versions.at[i];
    for (int nonneg = 0; e && nonneg < 2; nonneg++) {
      const Sym *from = sym_symbol(sym, sym_name(v->symbol), nonneg);
      e = sym_subst(sym, e, &(SymBinding){from, as_zero ? sym_int(sym, 0) : v->version}, 1);
    }
  }
  if (!e) sym_take_error(sym);
  return e;
}

/* Everything it mentions has a value: from the launch, or from an earlier set_symbol. */
static bool is_known(const Sets *s, const Sym *e) {
  const Sym *rest = with_versions(s, e, true);
  return rest && ir_is_of_launch(s->k, rest);
}

/* ---- the check ---- */

static Value *scalar_of(Sets *s, Span at, const Sym *e, DType t) {
  Op *op = ir_op_new(s->k, OP_scalar, at, NULL, 0);
  const Type *type = type_scalar(s->k->cx, t);
  op_set_attr(s->k, op, (Attr){.key = ATTR_value, .sym = e});
  ir_set_results(s->k, op, &type, 1);
  vec_push(s->arena, &s->ops, op);
  return &op->results[0];
}

static void add_check(Sets *s, const Op *set, const Constraint *row) {
  Kernel *k = s->k;
  const Sym *cond = with_versions(s, row->assume.condition, false),
            *version = op_attr(set, ATTR_version)->sym;
  ReportSite site = {row->assume.required ? FAILURE_REQUIRE : FAILURE_ASSUME, NULL,
                     sym_text(k->arena, row->assume.condition), set->at};
  site.columns = arena_printf(k->arena, "g g g i%s", sym_name(op_attr(set, ATTR_symbol)->sym));
  if (!cond || !report_is_new(k, &site)) return;
  Value *args[6] = {scalar_of(s, set->at, cond, DTYPE_i1)};
  const Mapping *where;
  args[1] = report_add(k, &site, args[0]->type, &where);
  for (int i = 0; i < 3; i++)
    args[2 + i] = scalar_of(s, set->at, ir_numbered_symbol(k->cx, "$WG", i, true), DTYPE_i64);
  args[5] = scalar_of(s, set->at, version, DTYPE_i64);
  Op *report = ir_op_new(k, OP_report, set->at, args, 6);
  op_set_attr(k, report, (Attr){.key = ATTR_mapping, .mapping = where});
  vec_push(s->arena, &s->ops, report);
}

static void check_set(Sets *s, Op *set) {
  const Sym *symbol = op_attr(set, ATTR_symbol)->sym;
  s->ops.n = 0;
  for (int i = 0; i < s->k->constraints.n; i++) {
    const Constraint row = s->k->constraints.at[i]; /* a report may add rows */
    if (row.kind == CONSTRAINT_assume && mentions(s, row.assume.condition, symbol) &&
        is_known(s, row.assume.condition))
      add_check(s, set, &row);
  }
  for (int i = 0; i < s->ops.n; i++) {
    ir_insert_after(set, s->ops.at[i]);
    set = s->ops.at[i];
  }
}

static void check_region(Sets *s, Region *r) {
  int outside = s->versions.n;
  const Attr *version = r->owner ? op_attr(r->owner, ATTR_version) : NULL;
  if (version)
    vec_push(s->arena, &s->versions, ((InForce){op_attr(r->owner, ATTR_axis)->sym, version->sym}));
  for (Op *op = r->first; op; op = op->next) {
    if (op->body) check_region(s, op->body);
    if (op->kind != OP_set_symbol) continue;
    vec_push(s->arena, &s->versions,
             ((InForce){op_attr(op, ATTR_symbol)->sym, op_attr(op, ATTR_version)->sym}));
    check_set(s, op);
  }
  s->versions.n = outside;
}

void kernel_check_sets(Kernel *k) {
  bool some = false;
  for (int i = 0; i < k->constraints.n; i++) some |= k->constraints.at[i].kind == CONSTRAINT_assume;
  if (!some || k->level != LEVEL_TILE) return;
  Sets s = {.k = k, .arena = arena_new()};
  check_region(&s, k->body);
  arena_free(s.arena);
}

bool kernel_has_checks(const Kernel *k) {
  const Value *v = kernel_report(k);
  const char *text = v ? k->params.at[v->index].report : "";
  for (; *text; text += strcspn(text, "\n") + (strchr(text, '\n') != NULL))
    if (strncmp(text, FAILURE_ASSERT, strlen(FAILURE_ASSERT)) != 0) return true;
  return false;
}
