/* mask: records with each access what it must test for an element before it touches memory.
 *
 *     workgroup M by 64 on 0; tile K by 32; bind M = 100; bind K = 64
 *     %x = read %a               =>     %x = read %a {mask = [$x0 < 100]}
 *     write %x, %b {bounds = {}} =>     write %x, %b {bounds = {}, mask = []}
 *
 * The list is minimal and complete: lowering tests exactly these conditions and does no further
 * reasoning. An existing mask is replaced. Needs in_bounds; keeps everything else. */
#include "analysis/access/in_bounds.h"
#include "transform/pass.h"

static bool is_promised(const Op *op) {
  const Attr *bounds = op_attr(op, ATTR_bounds);
  return bounds && bounds->n == 0;
}

static bool fail_far(Kernel *k, const Op *op, const Sym *symbol) {
  return diag_fail(&k->cx->diags, DIAG_E0601, op->at,
                   "`%s`: a coordinate that is a product of `%s`, whose values are unknown, is not "
                   "supported yet",
                   op_info[op->kind].name, sym_text(k->cx->diags.arena, symbol));
}

static bool fail_wide(Kernel *k, const Op *op, const Sym *dim) {
  return diag_fail(&k->cx->diags, DIAG_E0101, op->at,
                   "`%s`: what is tested along `%s` does not fit in 64 bits",
                   op_info[op->kind].name, sym_text(k->cx->diags.arena, dim));
}

static bool record(Kernel *k, Op *op, const AccessBounds *b) {
  if (b->no_position) return false;
  if (b->far && !is_promised(op)) return fail_far(k, op, b->far);
  const Sym **tests = ARENA_ARRAY(k->arena, const Sym *, b->nbounds);
  Attr mask = {.key = ATTR_mask, .exprs = tests};
  for (int i = 0; i < b->nbounds; i++) {
    const Bound *bound = &b->bounds[i];
    if (bound->verdict != BOUND_tested && bound->verdict != BOUND_filled) continue;
    if (!bound->test) return fail_wide(k, op, bound->dim);
    tests[mask.n++] = bound->test;
  }
  op_set_attr(k, op, mask);
  return true;
}

bool pass_mask(Kernel *k, PassCtx *cx) {
  for (Op *op = ir_first(k); op; op = ir_next(op))
    if (cx->facts.in_bounds[op->id] && !record(k, op, cx->facts.in_bounds[op->id])) return false;
  return true;
}
