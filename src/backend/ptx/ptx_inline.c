/* ptx_inline.c: instructions written by the kernel's author, once per element, each in its own
 * braces. Values that only define the meaning of such an op are not emitted. */
#include "ir/ops/inline_ptx.h"

#include <ctype.h>

#include "backend/ptx/ptx_state.h"

/* Some instructions accept only registers, not constants. */
static Reg in_register(Ptx *p, Reg r) {
  static const char *const type[] = {"pred", "b16", "b32", "b64", "f32", "f64"};
  if (r.name[0] == '%') return r;
  return ptx_let(p, r.class, "mov.%s %s", type[r.class], r.name);
}

/* Results come first. */
static const char *filled(Ptx *p, const char *text, const Reg *operand) {
  StrBuf out = {.arena = p->arena};
  for (const char *at = text; *at;) {
    int n = 0;
    if (*at != '$') {
      sb_putc(&out, *at++);
      continue;
    }
    for (at++; isdigit((unsigned char)*at); at++) n = 10 * n + (*at - '0');
    sb_puts(&out, operand[n].name);
  }
  return sb_text(&out);
}

/* ---- one text ---- */

/* Registers of all results, by element: result r of element i is reg[r * n + i]. */
static Reg *write_text(Ptx *p, const Op *op, const InlineResults *results) {
  int inputs = inline_inputs(op), n = op->results[0].type->n, count = results->n;
  const Reg **arg = ARENA_ARRAY(p->arena, const Reg *, inputs);
  Reg *all = ARENA_ARRAY(p->arena, Reg, count * n);
  Reg *operand = ARENA_ARRAY(p->arena, Reg, count + inputs);
  for (int j = 0; j < inputs; j++) arg[j] = ptx_elems_of(p, held_spread(p, op->args[j], n));
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < inputs; j++) operand[count + j] = in_register(p, arg[j][i]);
    for (int r = 0; r < count; r++)
      operand[r] = all[r * n + i] = ptx_new(p, ptx_class_of(results->dtype[r]));
    ptx_text(p, arena_printf(p->arena, "{ %s }", filled(p, op_attr(op, ATTR_ptx)->text, operand)));
  }
  return all;
}

/* ---- several results ---- */

/* Both are results of one execution of a text, if nothing else is between them. */
static bool same_text(const Op *a, const Op *b) {
  if (b->kind != OP_inline_ptx || op_attr(a, ATTR_ptx)->text != op_attr(b, ATTR_ptx)->text ||
      !op_has(b, ATTR_types) || op_attr(a, ATTR_types)->text != op_attr(b, ATTR_types)->text ||
      op_has(a, ATTR_volatile) != op_has(b, ATTR_volatile) ||
      inline_inputs(a) != inline_inputs(b) || a->results[0].type->n != b->results[0].type->n)
    return false;
  for (int i = 0; i < inline_inputs(a); i++)
    if (a->args[i] != b->args[i]) return false;
  return true;
}

/* The op that writes the text of `op`: the first of those in a row whose numbers rise. */
static const Op *writer_of(const Op *op) {
  for (const Op *before = op->prev; before; before = before->prev) {
    if (before->kind != OP_inline_ptx) continue; /* what computes a meaning */
    int64_t number = op_attr(op, ATTR_which)->integer;
    if (!same_text(op, before) || op_attr(before, ATTR_which)->integer >= number) break;
    op = before;
  }
  return op;
}

void ptx_inline(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  InlineResults results;
  inline_results(op, &results);
  const Op *writer = results.n > 1 ? writer_of(op) : op;
  Reg *all = map_get(&p->inline_regs, map_key(writer));
  if (!all) all = write_text(p, op, &results);
  if (results.n > 1) map_set(p->arena, &p->inline_regs, map_key(writer), all);
  ptx_set(p, &op->results[0],
          (Held){.dtype = t->dtype, .n = t->n, .elem = all + results.which * t->n, .own = true});
}

/* ---- values that only a meaning uses ---- */

enum { FORGOTTEN = -1 }; /* the value was only used by a meaning */

static void forget(Ptx *p, const Value *v) {
  const Op *op = v->def;
  if (--p->uses[v->id] || !op || !op_is_pure(op) || op->nresults != 1) return;
  p->uses[v->id] = FORGOTTEN;
  for (int i = 0; i < op->nargs; i++) forget(p, op->args[i]);
}

void ptx_forget_meanings(Ptx *p) {
  for (const Op *op = ir_first(p->k); op; op = ir_next(op))
    if (op->kind == OP_inline_ptx && inline_meaning(op)) forget(p, inline_meaning(op));
}

bool ptx_is_forgotten(const Ptx *p, const Op *op) {
  return op->nresults == 1 && p->uses[op->results[0].id] == FORGOTTEN;
}
