/* build_symbols.c: set_symbol as SSA.
 *
 *     set_symbol N_Q %len             set_symbol N_Q %len {version = signed(N_Q.2)}
 *     read %q {bounds = {M: N_Q}}  =>  read %q {bounds = {M: signed(N_Q.2)}}
 *
 * A version is signed: its value comes from memory or arithmetic, and nothing is assumed about it.
 * A region has its own scope; after it the outer version is in force again. */
#include <stdlib.h>
#include <string.h>

#include "ir/build/build_state.h"
#include "ir/region_facts.h"

/* ---- numbering ---- */

/* The number in `NAME.7` if `version` is a version of `base`, else 0. */
static int version_number(const Sym *base, const Sym *version) {
  const char *b = sym_name(base), *v = sym_name(version);
  size_t n = b ? strlen(b) : 0;
  if (!b || !v || strncmp(b, v, n) != 0 || v[n] != '.') return 0;
  return atoi(v + n + 1);
}

static int last_number(const Builder *b, const Sym *base) {
  int last = 1; /* the symbol itself is the first version */
  for (int i = 0; i < b->counters.n; i++) {
    int number = version_number(base, b->counters.at[i].version);
    if (b->counters.at[i].base == base && number > last) last = number;
  }
  return last;
}

/* In one lane's program, waves with different roles set symbols in regions of their own, to the same versions. */
static bool is_open(const Builder *b, const Sym *version) {
  bool lane = b->k->level == LEVEL_THREAD;
  int n = lane ? b->versions.n : b->counters.n;
  const Version *all = lane ? b->versions.at : b->counters.at;
  for (int i = 0; i < n; i++)
    if (all[i].version == version) return true;
  return false;
}

/* The version that an op opens: as its text says, or the next number. NULL after reporting. */
static const Sym *open_version(Builder *b, Op *op, const Sym *base, Value *value) {
  const Attr *given = op_attr(op, ATTR_version);
  const Sym *version = given ? given->sym : NULL;
  if (version && !version_number(base, version)) {
    BUILD_DIAG(b, op->at, E0407, "`%s` is not a version of `%s`",
               sym_text(b->k->cx->diags.arena, version), sym_name(base));
    return NULL;
  }
  if (version && is_open(b, version)) {
    BUILD_DIAG(b, op->at, E0407, "version `%s` is opened twice", sym_name(version));
    return NULL;
  }
  if (!version) {
    char *name = arena_printf(b->k->arena, "%s.%d", sym_name(base), last_number(b, base) + 1);
    version = sym_symbol(b->k->cx->sym, name, false);
    op_set_attr(b->k, op, (Attr){.key = ATTR_version, .sym = version});
  }
  Version v = {base, version, value};
  vec_push(b->k->arena, &b->versions, v);
  vec_push(b->k->arena, &b->counters, v);
  return version;
}

/* ---- meaning ---- */

/* `N` and `signed(N)` are the same symbol; less is known about the latter. */
static const Sym *with_versions(void *user, const Sym *s) {
  Builder *b = user;
  Arena *a = b->k->arena;
  SymCtx *sym = b->k->cx->sym;
  ArenaMark mark = arena_mark(a);
  SymBinding *bindings = ARENA_ARRAY(a, SymBinding, 2 * b->versions.n);
  int n = 0;
  for (int i = b->versions.n - 1; i >= 0; i--) { /* innermost first: it hides the others */
    const Version *v = &b->versions.at[i];
    bool hidden = false;
    for (int j = 0; j < n; j++) hidden |= bindings[j].from == v->base;
    if (hidden) continue;
    bindings[n++] = (SymBinding){v->base, v->version};
    const Sym *plain = sym_symbol(sym, sym_name(v->base), false);
    if (plain != v->base) bindings[n++] = (SymBinding){plain, v->version};
  }
  const Sym *result = sym_subst(sym, s, bindings, n);
  arena_rewind(a, mark);
  return result;
}

/* scalar(K) inside `for K` is the iteration number, not the size of K. */
static void bind_loop_counter(Builder *b, Op *op) {
  const Attr *value = op_attr(op, ATTR_value);
  if (op->kind != OP_scalar || !value->sym) return;
  for (int i = b->frames.n - 1; i > 0; i--) {
    const Op *loop = b->frames.at[i].op;
    const Attr *axis = op_attr(loop, ATTR_axis);
    if (!axis || axis->sym != value->sym) continue;
    if (loop->kind == OP_for) {
      const Sym *counter = ir_loop_counter(b->k, axis->sym);
      op_set_attr(b->k, op, (Attr){.key = ATTR_value, .sym = counter});
      build_warn_counter(b, op, axis->sym);
    }
    return;
  }
}

/* ---- carried values in conditions ---- */

static const Sym *without_iter_args(void *user, const Sym *s) {
  (void)user;
  return ir_expr_mentions(s, WV_ITER_ARG) ? NULL : s;
}

static bool mentions_iter_arg(Builder *b, const Attr *attr) {
  ArenaMark mark = arena_mark(b->k->arena);
  Attr copy = *attr;
  bool mentions = !attr_rewrite(b->k, &copy, without_iter_args, NULL);
  arena_rewind(b->k->arena, mark);
  return mentions;
}

/* `$GET_ITER_ARG_7` in the condition of a while loop: is value 7 carried, and an integer? */
static bool check_iter_arg(Builder *b, const Op *loop, const char *name) {
  int number = atoi(name + strlen(WV_ITER_ARG)), first = op_carried(loop);
  int carried = loop->nargs - first;
  if (number >= carried)
    return BUILD_FAIL(b, loop->at, E0410,
                      "the condition uses `GET_ITER_ARG(%d)`, but the loop carries %d value%s",
                      number, carried, carried == 1 ? "" : "s");
  const Value *v = loop->args[first + number];
  if (!v || (type_is_value(v->type) && dtype_info[v->type->dtype].class != DTYPE_FLOAT))
    return true;
  return BUILD_FAIL(
      b, loop->at, E0410,
      "`GET_ITER_ARG(%d)` in a condition must be an integer, but carried value %d is %s", number,
      number, type_text(b->k->cx->diags.arena, b->k->cx, v->type));
}

static bool check_condition(Builder *b, const Op *loop, const Sym *condition) {
  FreeSymbols symbols = sym_symbols(b->k->arena, condition);
  for (int i = 0; i < symbols.n; i++)
    if (ir_expr_mentions(symbols.at[i], WV_ITER_ARG) &&
        !check_iter_arg(b, loop, sym_name(symbols.at[i])))
      return false;
  return true;
}

/* Only the condition of a while loop may refer to carried values by number. */
static bool check_iter_args(Builder *b, const Op *op) {
  for (int i = 0; i < op->nattrs; i++) {
    const Attr *a = &op->attrs[i];
    if (!mentions_iter_arg(b, a)) continue;
    if (op->kind == OP_while && a->key == ATTR_expr) {
      if (!check_condition(b, op, a->sym)) return false;
      continue;
    }
    Diag *d = BUILD_DIAG(
        b, op->at, E0410,
        "`%s` uses `GET_ITER_ARG`, which is allowed only in the condition of a while loop",
        op_info[op->kind].name);
    return diag_hint(&b->k->cx->diags, d,
                     "use the carried value itself: the parameter of the loop body");
  }
  return true;
}

/* ---- an op ---- */

bool build_instantiate(Builder *b, Op *op) {
  bind_loop_counter(b, op);
  if (!check_iter_args(b, op)) return false;
  if (!b->versions.n) return true;
  for (int i = 0; i < op->nattrs;
       i++) /* a mask already refers to versions, and to sizes at entry */
    if (op->attrs[i].key != ATTR_mask && !attr_rewrite(b->k, &op->attrs[i], with_versions, b))
      return BUILD_FAIL(b, op->at, E0105, "%s", sym_take_error(b->k->cx->sym));
  return true;
}

bool build_set_symbol(Builder *b, Op *op) {
  const Sym *base = op_attr(op, ATTR_symbol)->sym;
  const Type *t = op->args[0]->type;
  if (sym_kind(base) != SYM_symbol)
    return BUILD_FAIL(b, op->at, E0407, "`set_symbol` takes a symbol, not the expression `%s`",
                      sym_text(b->k->cx->diags.arena, base));
  if (sym_name(base)[0] == '$' && !op_has(op, ATTR_version)) /* passes name versions of their own */
    return BUILD_FAIL(b, op->at, E0407, "`%s` is a built-in symbol and cannot be set",
                      sym_name(base));
  DTypeClass class = dtype_info[t->dtype].class;
  if (!type_is_value(t) || (class != DTYPE_INT && class != DTYPE_INDEX))
    return BUILD_FAIL(b, op->at, E0407, "`set_symbol` of `%s` takes an integer, not %s",
                      sym_name(base), type_text(b->k->cx->diags.arena, b->k->cx, t));
  return open_version(b, op, base, op->args[0]) != NULL;
}

bool build_while_version(Builder *b, Op *op) {
  const Sym *axis = op_attr(op, ATTR_axis)->sym;
  if (sym_kind(axis) != SYM_symbol)
    return BUILD_FAIL(b, op->at, E0407, "the axis of a while loop must be a symbol, not `%s`",
                      sym_text(b->k->cx->diags.arena, axis));
  return open_version(b, op, axis, NULL) != NULL;
}

Value *build_next_axis(Builder *b) {
  const Frame *f = build_frame(b);
  const Sym *axis = op_attr(f->op, ATTR_axis)->sym;
  for (int i = b->versions.n - 1; i > f->versions; i--) /* above the loop's own version */
    if (b->versions.at[i].base == axis && b->versions.at[i].value) return b->versions.at[i].value;
  Diag *d =
      BUILD_DIAG(b, f->op->at, E0405, "the body of this loop never sets `%s`", sym_name(axis));
  diag_hint(&b->k->cx->diags, d, "call `set_symbol(%s, next)` before the body ends",
            sym_name(axis));
  return NULL;
}
