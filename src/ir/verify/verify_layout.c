/* verify_layout.c: checks layouts against each other. A kernel has none, or:
 *
 *   - it has a `machine` row, and every layout has that row's lanes and waves
 *   - a layout holds every element of its tile
 *   - every tile has one, except a read that only matrix instructions use: it stays in memory
 *   - the two ends of a link (layout_links.h) agree; only `convert` changes a layout
 *   - a write to the memory of all workgroups of a cluster is to an allocation, and names as many as
 *     share the tile */
#include "ir/layout_links.h"
#include "ir/ops/access.h"

typedef struct Check {
  Kernel *k;
  const MachineSpec *machine;
  Arena *scratch;
  bool *in_registers; /* by value id: some user needs it there */
} Check;

static const char *text_of(Check *c, const Layout *l) {
  StrBuf text = {.arena = c->k->cx->diags.arena};
  if (l) layout_print(&text, l);
  else sb_puts(&text, "in memory");
  return sb_text(&text);
}

static bool fail(Check *c, const Op *op, const char *what, const Layout *a, const Layout *b) {
  Diag *d =
      diag_add(&c->k->cx->diags, DIAG_E0514, op->at, "`%s`: %s", op_info[op->kind].name, what);
  diag_note(&c->k->cx->diags, d, (Span){0}, "%s", text_of(c, a));
  if (b) diag_note(&c->k->cx->diags, d, (Span){0}, "%s", text_of(c, b));
  return false;
}

bool ir_has_layouts(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; i < op->nresults; i++)
      if (op->results[i].layout) return true;
  return false;
}

static void find_uses_in_registers(Check *c) {
  for (const Op *op = ir_first(c->k); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++)
      if (!op_is_product(op) || i == product_acc(op)) c->in_registers[op->args[i]->id] = true;
}

static bool check_value(Check *c, const Op *op, const Value *v) {
  const Layout *l = v->layout;
  bool may_stay = op->kind == OP_read && !c->in_registers[v->id];
  if (v->type->kind != TYPE_tile)
    return !l || fail(c, op, "a value that is not a tile has a layout", l, NULL);
  if (!l) return may_stay || fail(c, op, "this tile has no layout", l, NULL);
  if (l->dims != v->type->rank)
    return fail(c, op, "the layout has a different rank than the tile", l, NULL);
  if (layout_size(l, LAYOUT_LANE) != c->machine->lanes ||
      layout_size(l, LAYOUT_WAVE) != c->machine->waves)
    return fail(c, op, "the number of lanes or waves in the layout differs from the `machine` row",
                l, NULL);
  if (!layout_covers(c->scratch, l))
    return fail(c, op, "the layout does not cover all elements", l, NULL);
  return true;
}

static bool check_link(Check *c, const LayoutLink *link) {
  const Layout *whole = link->whole->layout, *part = link->part->layout;
  Layout wanted;
  if (!whole || !part)
    return whole == part ||
           fail(c, link->user, "only one of operand and result has a layout", whole, part);
  if (!layout_of_part(link, whole, part->extent, &wanted))
    return fail(c, link->user, "the tiles have different extents", whole, part);
  return layout_equal(&wanted, part) ||
         fail(c, link->user, "operand and result have different layouts", &wanted, part);
}

static bool check_peers(Check *c, const Op *op) {
  int peers = op->kind == OP_write ? op_peers(op) : 1;
  if (peers == 1 || (peers == c->machine->cluster && memory_is_scratch(op->args[1]))) return true;
  return fail(c, op, "`peers` are the workgroups of the `machine` row, for an allocation",
              op->args[0]->layout, NULL);
}

static bool check_op(Check *c, Op *op) {
  LayoutLinks links = {0};
  if (!check_peers(c, op)) return false;
  for (int i = 0; i < op->nresults; i++)
    if (!check_value(c, op, &op->results[i])) return false;
  layout_links(c->scratch, op, &links);
  for (int i = 0; i < links.n; i++)
    if (!check_link(c, &links.at[i])) return false;
  return true;
}

bool ir_verify_layouts(Kernel *k) {
  if (!ir_has_layouts(k)) return true;
  Check c = {.k = k, .machine = kernel_machine(k)};
  if (!c.machine)
    return diag_fail(&k->cx->diags, DIAG_E0514, k->at, "layouts without a `machine` row");
  c.scratch = arena_new();
  c.in_registers = ARENA_ARRAY(c.scratch, bool, k->nvalues);
  find_uses_in_registers(&c);
  bool ok = true;
  for (Op *op = ir_first(k); ok && op; op = ir_next(op)) ok = check_op(&c, op);
  arena_free(c.scratch);
  return ok;
}
