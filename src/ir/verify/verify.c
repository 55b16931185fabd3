/* verify.c: the rules every kernel obeys, after building and after each pass.
 *
 *   - an op is at a level it allows, with a permitted number of operands
 *   - it carries only attributes of its row, its lead attribute among them
 *   - an operand is defined before it is used, in the same region or in an enclosing one
 *   - result types are those that follow from the operands
 *   - a region op has a body whose arguments match the carried operands, ended by one yield of the
 *     same types; no other op has a body, and a kernel's body has no yield
 *   - a slot is one of its ring's
 *   - a mask tests conditions on coordinates that its access has
 *   - a version of a symbol is opened once; a loop runs over a dimension with a tile row
 *   - where a symbol has a version, expressions mention the version: in text the symbol denotes it
 */
#include <string.h>

#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/schedule/op_parts.h"
#include "ir/schedule/schedule.h"

typedef struct Verify {
  Kernel *k;
  bool *defined;            /* by value id: defined earlier and still in scope */
  Vec(SymBinding) versions; /* in force: a symbol that was set, and its current version */
  Arena *scratch;
} Verify;

#define FAIL(k, op, code, ...) diag_fail(&(k)->cx->diags, DIAG_##code, (op)->at, __VA_ARGS__)

#define FAIL_HINT(k, op, code, hint, ...)                                                          \
  diag_hint(&(k)->cx->diags, diag_add(&(k)->cx->diags, DIAG_##code, (op)->at, __VA_ARGS__), "%s",  \
            hint)

static bool verify_region(Verify *v, const Region *r);

static bool verify_shape(Verify *v, const Op *op) {
  const OpInfo *info = &op_info[op->kind];
  if (!(info->level & v->k->level))
    return FAIL(v->k, op, E0409, "`%s` is not allowed at %s level", info->name,
                v->k->level == LEVEL_TILE ? "TILE" : "THREAD");
  if (op->nargs < info->least || (info->most != OP_ANY && op->nargs > info->most))
    return FAIL(v->k, op, E0309, "`%s` has %d operands", info->name, op->nargs);
  if (!op->body != !(info->flags & OPF_REGION))
    return FAIL(v->k, op, E0408, "`%s` %s a body", info->name, op->body ? "has" : "lacks");
  if ((info->flags & OPF_ENDS) && (op->next || !op->parent->owner))
    return FAIL(v->k, op, E0408, "`%s` must end a region", info->name);
  return true;
}

static bool verify_attrs(Verify *v, const Op *op) {
  const OpInfo *info = &op_info[op->kind];
  for (int i = 0; i < op->nattrs; i++) {
    if (!op_admits(op->kind, op->attrs[i].key))
      return FAIL(v->k, op, E0318, "`%s` has no attribute `%s`", info->name,
                  attr_info[op->attrs[i].key].name);
    if (i && op->attrs[i - 1].key >= op->attrs[i].key)
      return FAIL(v->k, op, E0318, "attributes of `%s` are out of order", info->name);
  }
  if (info->lead != ATTR_NONE && !op_has(op, info->lead))
    return FAIL(v->k, op, E0318, "`%s` needs `%s`", info->name, attr_info[info->lead].name);
  return true;
}

/* Numbers that passes and machines compute with. */
static bool verify_numbers(Verify *v, const Op *op) {
  static const struct {
    AttrKey key;
    int64_t least, most;
  } ranges[] = {{ATTR_pending, 0, UINT16_MAX},
                {ATTR_base, 0, INT32_MAX},
                {ATTR_rows, 1, 1 << 12},
                {ATTR_imm, -IMM_MOST, IMM_MOST},
                {ATTR_imm_from, -IMM_MOST, IMM_MOST}};
  for (size_t i = 0; i < WV_LEN(ranges); i++) {
    const Attr *a = op_attr(op, ranges[i].key);
    if (!a || (a->integer >= ranges[i].least && a->integer <= ranges[i].most)) continue;
    return FAIL(v->k, op, E0318, "`%s` of `%s` is %lld, expected %lld to %lld",
                attr_info[ranges[i].key].name, op_info[op->kind].name, (long long)a->integer,
                (long long)ranges[i].least, (long long)ranges[i].most);
  }
  return true;
}

static bool verify_operands(Verify *v, const Op *op) {
  for (int i = 0; i < op->nargs; i++)
    if (!op->args[i] || op->args[i]->id >= v->k->nvalues || !v->defined[op->args[i]->id])
      return FAIL(v->k, op, E0402, "operand %d of `%s` is not defined here", i + 1,
                  op_info[op->kind].name);
  return true;
}

static bool verify_types(Verify *v, const Op *op) {
  const Type **types = ARENA_ARRAY(v->scratch, const Type *, op->nargs + 2);
  const Type *given = op->nresults ? op->results[0].type : NULL;
  if (!ir_infer(v->k, op, given, types)) return false;
  int results = op_info[op->kind].results;
  int n = results == OP_MANY ? op->nargs - op_carried(op) : results;
  bool same = n == op->nresults;
  for (int i = 0; same && i < n; i++) same = op->results[i].type == types[i];
  return same ||
         FAIL(v->k, op, E0316, "`%s` has a result type that does not follow from its operands",
              op_info[op->kind].name);
}

/* Tests are conditions, and mention only those of $x, $y and $n that the access has. */
static bool verify_mask(Verify *v, const Op *op) {
  const Attr *mask = op_attr(op, ATTR_mask);
  MemAccess a;
  if (!mask || !access_of(op, &a)) return true;
  for (int i = 0; i < mask->n; i++) {
    const char *text = sym_text(v->k->cx->diags.arena, mask->exprs[i]);
    if (!sym_is_bool(mask->exprs[i]))
      return FAIL(v->k, op, E0321, "the mask tests `%s`, which is not a condition", text);
    const char *stray = access_stray(&a, mask->exprs[i]);
    if (stray)
      return FAIL(v->k, op, E0321, "the mask tests `%s`, but there is no `%s`", text, stray);
  }
  return true;
}

/* NULL: it mentions a symbol instead of its version. */
static const Sym *no_old_symbol(void *user, const Sym *s) {
  Verify *v = user;
  return sym_subst(v->k->cx->sym, s, v->versions.at, v->versions.n) == s ? s : NULL;
}

static bool verify_versions(Verify *v, const Op *op) {
  ArenaMark mark = arena_mark(v->k->arena);
  bool ok = true;
  for (int i = 0; v->versions.n && ok && i < op->nattrs; i++) {
    Attr a = op->attrs[i];
    ok = a.key == ATTR_mask || attr_rewrite(v->k, &a, no_old_symbol, v); /* sizes at entry */
  }
  arena_rewind(v->k->arena, mark);
  return ok || FAIL(v->k, op, E0408, "`%s` refers to a symbol that was set, instead of its version",
                    op_info[op->kind].name);
}

static void open_version(Verify *v, const Op *op, AttrKey symbol) {
  const Attr *version = op_attr(op, ATTR_version);
  SymBinding b = {op_attr(op, symbol)->sym, version ? version->sym : NULL};
  if (version) vec_push(v->scratch, &v->versions, b);
}

bool ir_check_slot(const Kernel *k, const Op *op) {
  const Attr *slot = op_attr(op, ATTR_slot);
  MemAccess a;
  int64_t n;
  bool mbar = op->kind == OP_mbar_wait || op->kind == OP_mbar_arrive;
  if (!slot || (!mbar && !access_of(op, &a))) return true;
  const Value *memory = mbar                  ? op->args[0]
                        : op->kind == OP_copy ? op->args[a.memory_arg == 0 ? 1 : 0]
                                              : a.memory;
  const Op *alloc = memory_root(memory)->def;
  if (!alloc || !op_has(alloc, ATTR_ring))
    return FAIL(k, op, E0318, "`slot` of a memory that is not a ring");
  if (sym_is_bool(slot->sym) || (sym_is_int(slot->sym, &n) && (n < 0 || n >= alloc_slots(alloc))))
    return FAIL(k, op, E0318, "slot `%s` is out of range for a ring of %d",
                sym_text(k->cx->diags.arena, slot->sym), alloc_slots(alloc));
  return true;
}

/* Iterations are those of loops with a tile row. */
static bool verify_iteration(Verify *v, const Op *op) {
  const Attr *at = op_attr(op, ATTR_iteration);
  for (int i = 0; at && i < at->n; i++) {
    const Sym *axis = at->pairs[i].key;
    const char *name = sym_text(v->k->cx->diags.arena, axis);
    if (!kernel_constraint(v->k, CONSTRAINT_tile, axis))
      return FAIL(v->k, op, E0211, "`iteration` names a loop over `%s`, which is not tiled", name);
    if (pairs_get((SymPairs){at->pairs, i}, axis) || i == IR_MAX_RANK)
      return FAIL(v->k, op, E0318, "`iteration` names `%s` twice, or names too many loops", name);
    if (sym_is_bool(at->pairs[i].value))
      return FAIL(v->k, op, E0318, "iteration `%s` of a loop is not an integer",
                  sym_text(v->k->cx->diags.arena, at->pairs[i].value));
  }
  return true;
}

static bool verify_part(Verify *v, const Op *op) {
  const char *wrong = parts_wrong(op);
  return !wrong || FAIL(v->k, op, E0318, "`part` of `%s`: %s", op_info[op->kind].name, wrong);
}

static void define(Verify *v, const Value *value, bool defined) { v->defined[value->id] = defined; }

static bool verify_body(Verify *v, const Op *op) {
  const Region *r = op->body;
  int axis = op->kind == OP_while ? 1 : 0, carried = op_carried(op);
  if (r->nargs != op->nargs - carried + axis)
    return FAIL(v->k, op, E0404,
                "the body of `%s` has %d arguments, which does not match its operands",
                op_info[op->kind].name, r->nargs);
  for (int i = axis; i < r->nargs; i++)
    if (r->args[i]->type != op->args[carried + i - axis]->type)
      return FAIL(v->k, op, E0401, "argument %d of the body has a different type than its operand",
                  i + 1);
  const Op *end = r->last;
  if (!end || end->kind != OP_yield || end->nargs != r->nargs)
    return FAIL(v->k, op, E0404, "the body of `%s` does not end by yielding %d values",
                op_info[op->kind].name, r->nargs);
  for (int i = axis; i < r->nargs; i++)
    if (end->args[i]->type != r->args[i]->type)
      return FAIL(v->k, end, E0401, "yielded value %d has a different type than its argument",
                  i + 1);
  return verify_region(v, r);
}

static bool verify_rounds(Verify *v, const Op *op) {
  const Attr *unroll = op_attr(op, ATTR_unroll), *peel = op_attr(op, ATTR_peel);
  if (unroll && (unroll->integer < 1 || unroll->integer > SCHEDULE_STAGES))
    return FAIL(v->k, op, E0406, "a loop is unrolled 1 to %d times, not %lld", SCHEDULE_STAGES,
                (long long)unroll->integer);
  if (peel && (peel->integer < 0 || peel->integer > SCHEDULE_STAGES))
    return FAIL(v->k, op, E0406, "0 to %d iterations are peeled, not %lld", SCHEDULE_STAGES,
                (long long)peel->integer);
  return true;
}

/* What a position of `until` must not depend on, since waves compute it before the loop. */
static bool differs_inside(Verify *v, const Op *loop, const Sym *symbol) {
  const Sym *axis = op_attr(loop, ATTR_axis)->sym;
  const Constraint *tile = kernel_constraint(v->k, CONSTRAINT_tile, axis);
  const char *name = sym_name(symbol);
  static const char *const numbered[] = {"$index", "$dynamic_val", "$T"};
  if (strcmp(name, sym_name(ir_loop_counter(v->k, axis))) == 0) return true;
  if (tile && tile->tile.counter && strcmp(name, sym_name(tile->tile.counter)) == 0) return true;
  for (size_t i = 0; i < WV_LEN(numbered); i++) {
    size_t n = strlen(numbered[i]);
    if (strncmp(name, numbered[i], n) == 0 && strspn(name + n, "0123456789") == strlen(name + n))
      return strcmp(name, "$index0") != 0;
  }
  return false;
}

static bool verify_position(Verify *v, const Op *op, const Sym *position) {
  Arena *names = v->k->cx->diags.arena;
  const char *hint =
      "a position follows from the index along the dimension, iterator(0), sizes and symbols";
  if (sym_is_bool(position))
    return FAIL_HINT(v->k, op, E0406, hint, "`until` is `%s`, a condition, not a position",
                     sym_text(names, position));
  FreeSymbols symbols = sym_symbols(v->scratch, position);
  for (int i = 0; i < symbols.n; i++)
    if (differs_inside(v, op, symbols.at[i]))
      return FAIL_HINT(v->k, op, E0406, hint, "`until` depends on `%s`",
                       sym_text(names, symbols.at[i]));
  return true;
}

static bool verify_until(Verify *v, const Op *op) {
  const Attr *until = op_attr(op, ATTR_until);
  if (!until) return true;
  if (until->n != 1)
    return FAIL(v->k, op, E0406, "`until` names %d dimensions, expected one", until->n);
  const Sym *dim = until->pairs[0].key;
  const char *name = sym_text(v->k->cx->diags.arena, dim);
  if (dim == op_attr(op, ATTR_axis)->sym)
    return FAIL_HINT(v->k, op, E0406, "name a dimension of the results",
                     "`until` names `%s`, the dimension of the loop", name);
  for (int i = 0; i < op->nresults; i++) {
    const Type *t = op->results[i].type;
    if (type_dim(t, dim) >= 0 || !ir_count_uses(v->k->body, &op->results[i])) continue;
    return FAIL_HINT(v->k, op, E0406, "name a dimension that all of them have",
                     "result %d of the loop does not have the dimension `%s`, which `until` names",
                     i + 1, name);
  }
  return verify_position(v, op, until->pairs[0].value);
}

static bool verify_tiled(Verify *v, const Op *op, const Sym *axis) {
  if (kernel_constraint(v->k, CONSTRAINT_tile, axis)) return true;
  const char *name = sym_text(v->k->cx->diags.arena, axis);
  Diag *d =
      diag_add(&v->k->cx->diags, DIAG_E0211, op->at, "a loop over `%s`, which is not tiled", name);
  return diag_hint(&v->k->cx->diags, d, "add a tiling constraint on `%s`", name);
}

static bool verify_loop(Verify *v, const Op *op) {
  bool runs = op->kind == OP_for || op->kind == OP_while;
  if (!runs && op->kind != OP_runs) return true;
  const Sym *axis = op_attr(op, ATTR_axis)->sym;
  const Attr *step = op_attr(op, ATTR_step);
  if (step && step->integer <= 0)
    return FAIL(v->k, op, E0406, "the step of a loop must be positive, not %lld",
                (long long)step->integer);
  if (!verify_rounds(v, op) || !verify_until(v, op)) return false;
  if (!runs) return verify_tiled(v, op, axis);
  bool counted = op->kind == OP_while || op_has(op, ATTR_trips);
  if (v->k->level == LEVEL_THREAD)
    return counted || FAIL(v->k, op, E0406, "a loop in a thread kernel needs `with {trips = ...}`");
  if (op_has(op, ATTR_trips))
    return FAIL(v->k, op, E0318,
                "`trips` is not allowed at TILE level: the tile row of the loop's axis gives the "
                "number of iterations");
  return verify_tiled(v, op, axis);
}

/* Workgroups meet at sums of the grid, along one dimension of it. */
static bool verify_grid_sum(Verify *v, const Op *op) {
  const Op *first = ir_first(v->k);
  if (!op_has(op, ATTR_grid)) return true;
  if (op->parent->owner)
    return FAIL_HINT(v->k, op, E0408, "move it before or after, and use its result there",
                     "`%s` over workgroups is in a loop or conditional", op_info[op->kind].name);
  while (!op_has(first, ATTR_grid)) first = ir_next(first);
  const Sym *dim = op_attr(op, ATTR_dim)->sym, *other = op_attr(first, ATTR_dim)->sym;
  Arena *names = v->k->cx->diags.arena;
  return dim == other ||
         FAIL_HINT(v->k, op, E0408, "divide one dimension over the workgroups, or use two kernels",
                   "`%s` over workgroups along `%s`, but another one is along `%s`",
                   op_info[op->kind].name, sym_text(names, dim), sym_text(names, other));
}

static bool verify_op(Verify *v, const Op *op) {
  bool ok = verify_shape(v, op) && verify_attrs(v, op) && verify_numbers(v, op) &&
            verify_operands(v, op) && verify_loop(v, op) && verify_types(v, op) &&
            verify_mask(v, op) && ir_check_slot(v->k, op) && verify_iteration(v, op) &&
            verify_part(v, op) && verify_versions(v, op) && verify_grid_sum(v, op) &&
            (!op->body || verify_body(v, op));
  for (int i = 0; ok && i < op->nresults; i++) define(v, &op->results[i], true);
  if (ok && op->kind == OP_set_symbol) open_version(v, op, ATTR_symbol);
  return ok;
}

static bool verify_region(Verify *v, const Region *r) {
  for (int i = 0; i < r->nargs; i++) define(v, r->args[i], true);
  int versions = v->versions.n;
  if (r->owner && r->owner->kind == OP_while) open_version(v, r->owner, ATTR_axis);
  bool ok = true;
  for (const Op *op = r->first; ok && op; op = op->next) ok = verify_op(v, op);
  for (int i = 0; i < r->nargs; i++) define(v, r->args[i], false);
  for (const Op *op = r->first; op; op = op->next)
    for (int i = 0; i < op->nresults; i++) define(v, &op->results[i], false);
  v->versions.n = versions;
  return ok;
}

static bool has_undefined(const Kernel *k) {
  for (int i = kernel_given(k); i < k->params.n; i++)
    if (k->params.at[i].undefined) return true;
  return false;
}

/* Memory that a launch left undefined must not be where the next one expects zeros. */
static bool is_fixed_if_mixed(const Kernel *k, int param) {
  const Type *t = k->body->args[param]->type;
  const Param *p = &k->params.at[param];
  if (!p->workspace || p->undefined || !has_undefined(k)) return true;
  for (int i = 0; i < t->rank; i++) {
    const Constraint *row = kernel_constraint(k, CONSTRAINT_bind, t->dims[i]);
    if (!sym_is_int(row ? row->bind.value : t->dims[i], &(int64_t){0})) return false;
  }
  return true;
}

static bool verify_params(Verify *v) {
  Kernel *k = v->k;
  WV_ASSERT(k->params.n == k->body->nargs);
  for (int i = 0; i < k->params.n; i++) {
    const Param *p = &k->params.at[i];
    const Type *t = k->body->args[i]->type;
    int kinds = (p->log != NULL) + p->workspace + (p->report != NULL);
    bool behind = i >= kernel_given(k);
    if (p->report && t->kind == TYPE_mem && (t->dtype != DTYPE_i64 || t->rank != 1))
      return diag_fail(&k->cx->diags, DIAG_E0319, p->at,
                       "parameter `%s`: a report must be an i64 memory with one dimension",
                       p->name);
    if (kinds ? !behind || t->kind != TYPE_mem || kinds > 1 : behind)
      return diag_fail(
          &k->cx->diags, DIAG_E0319, p->at,
          "parameter `%s`: debug logs, workspaces and reports must be memories and come after "
          "the other parameters",
          p->name);
    if (!is_fixed_if_mixed(k, i))
      return diag_fail(&k->cx->diags, DIAG_E0319, p->at,
                       "parameter `%s`: beside an undefined workspace, the size of one with zeros "
                       "must be a number",
                       p->name);
    bool fits = t->kind == TYPE_mem ||
                (t->kind == TYPE_scalar &&
                 (!p->binds || (!dtype_is_float(t->dtype) && !dtype_is_unsigned(t->dtype))));
    if (fits && (t->kind == TYPE_scalar || !p->binds)) continue;
    return diag_fail(&k->cx->diags, DIAG_E0319, p->at, "parameter `%s` of type %s%s", p->name,
                     type_text(k->cx->diags.arena, k->cx, t),
                     p->binds ? " cannot give a symbol its value" : "");
  }
  return true;
}

/* The allocations of one lane's program must fit in the shared memory that its launch requests. An
 * allocation whose size depends on symbols is checked where these are known. */
static bool verify_allocations(Kernel *k) {
  const LaunchSpec *launch = kernel_launch(k);
  int64_t end = 0;
  if (k->level != LEVEL_THREAD || !launch) return true;
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    int64_t bytes = op->kind == OP_alloc ? alloc_bytes(op) : -1;
    if (bytes < 0) continue;
    int64_t last = alloc_base(op, end) + bytes;
    if (last > end) end = last;
    if (end <= launch->shared) continue;
    return diag_fail(&k->cx->diags, DIAG_E0813, op->at,
                     "an allocation ends at byte %lld, but shared memory has %lld bytes",
                     (long long)last, (long long)launch->shared);
  }
  return true;
}

bool ir_verify(Kernel *k) {
  Verify v = {.k = k, .scratch = arena_new()};
  v.defined = ARENA_ARRAY(v.scratch, bool, k->nvalues + 1);
  bool ok = verify_params(&v) && verify_region(&v, k->body) && verify_allocations(k);
  arena_free(v.scratch);
  return ok && ir_verify_layouts(k);
}
