/* build_warn.c: warns about constructs that mean something else than they seem to, as in the public
 * package.
 *
 * A warning gives the line, and how to write what was probably meant. The kernel is compiled
 * regardless. */
#include "ir/build/build_state.h"
#include "ir/region_facts.h"

void build_warn_counter(Builder *b, const Op *scalar, const Sym *axis) {
  Diags *diags = &b->k->cx->diags;
  const char *name = sym_text(diags->arena, axis);
  Diag *d = diag_add(diags, DIAG_W0401, scalar->at,
                     "inside a loop over `%s`, `scalar(%s)` is the iteration number, not the size",
                     name, name);
  diag_hint(diags, d,
            "use `self_index(%s)` for coordinates; for the size, call `scalar(%s)` before the loop",
            name, name);
}

/* ---- workgroups ---- */

/* The row of a dimension that is folded into the z dimension of the grid besides dimension 2. */
static const Constraint *folded_row(const Kernel *k) {
  for (int i = 0; i < k->constraints.n; i++)
    if (k->constraints.at[i].kind == CONSTRAINT_workgroup &&
        k->constraints.at[i].workgroup.axis > 2)
      return &k->constraints.at[i];
  return NULL;
}

static const Sym *without_z(void *user, const Sym *s) {
  (void)user;
  return ir_expr_mentions(s, "$WG2") ? NULL : s;
}

static bool mentions_z(Kernel *k, const Op *op) {
  ArenaMark mark = arena_mark(k->arena);
  bool ok = true;
  for (int i = 0; ok && i < op->nattrs; i++) {
    Attr copy = op->attrs[i];
    ok = attr_rewrite(k, &copy, without_z, NULL);
  }
  arena_rewind(k->arena, mark);
  return !ok;
}

static void warn_folded(Kernel *k) {
  const Constraint *row = folded_row(k);
  Diags *diags = &k->cx->diags;
  for (const Op *op = row ? ir_first(k) : NULL; op; op = ir_next(op)) {
    if (!mentions_z(k, op)) continue;
    Diag *d =
        diag_add(diags, DIAG_W0402, op->at,
                 "`WORKGROUP_2` is the id along z, which also includes workgroup dimension %d",
                 row->workgroup.axis);
    diag_hint(diags, d, "use `self_index` of the dimension for the position of a workgroup");
    return;
  }
}

static void warn_unused_start(Kernel *k) {
  Diags *diags = &k->cx->diags;
  if (!kernel_constraint(k, CONSTRAINT_grid, NULL)) return;
  EACH_ROW(k, workgroup, c) {
    if (!c->workgroup.start) continue;
    Diag *d =
        diag_add(diags, DIAG_W0403, c->at,
                 "the start of `%s` is ignored: workgroups of an explicit grid have no position",
                 sym_text(diags->arena, c->workgroup.dim));
    diag_hint(diags, d,
              "set positions with `set_symbol` and mappings, or remove the grid constraint");
  }
}

void build_warn_header(Kernel *k) {
  warn_folded(k);
  warn_unused_start(k);
}
