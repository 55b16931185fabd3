/* ptx_inline.c: instructions written by the kernel's author, once per element, each in its own
 * braces. Values that only define the meaning of such an op are not emitted. */
#include "ir/ops/inline_ptx.h"

#include <ctype.h>

#include "backend/ptx/ptx_state.h"

/* Some instructions accept only registers, not constants. */
static Reg in_register(Ptx *p, Reg r) {
  static const char *const type[] = {"pred", "b16", "b32", "b64", "f32", "f64"};
  if (r.name[0] == '%') return r;
  Reg to = ptx_new(p, r.class);
  ptx_line(p, "mov.%s %s, %s", type[r.class], to.name, r.name);
  return to;
}

/* operand[0] is the result. */
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

void ptx_inline(Ptx *p, const Op *op) {
  const Type *t = op->results[0].type;
  int inputs = inline_inputs(op), n = t->n;
  const Reg **arg = ARENA_ARRAY(p->arena, const Reg *, inputs);
  Reg *d = ARENA_ARRAY(p->arena, Reg, n), *operand = ARENA_ARRAY(p->arena, Reg, inputs + 1);
  for (int j = 0; j < inputs; j++) arg[j] = elems_of(p, held_spread(p, op->args[j], n));
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < inputs; j++) operand[j + 1] = in_register(p, arg[j][i]);
    operand[0] = d[i] = ptx_new(p, class_of(t->dtype));
    ptx_text(p, arena_printf(p->arena, "{ %s }", filled(p, op_attr(op, ATTR_ptx)->text, operand)));
  }
  ptx_set(p, &op->results[0], (Held){.dtype = t->dtype, .n = n, .elem = d, .own = true});
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
