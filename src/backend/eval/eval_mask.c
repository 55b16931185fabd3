/* eval_mask.c: does a recorded mask say which elements exist?
 *
 * Results never depend on masks here: the language alone decides what is accessed. Under
 * EvalOptions.check_masks each element is checked a second time, with the tests that the op
 * carries, and a difference is reported: a mask that admits too much is an out-of-bounds access on
 * a machine, one that admits too little is a wrong result. */
#include "backend/eval/eval.h"

const char *point_text(Eval *ev, const int64_t *at, int n) {
  StrBuf out = {.arena = ev->cx->diags.arena};
  sb_putc(&out, '(');
  for (int i = 0; i < n; i++) {
    if (i) sb_puts(&out, ", ");
    if (at[i] == EVAL_NO_VALUE) sb_putc(&out, '?');
    else sb_int(&out, at[i]);
  }
  sb_putc(&out, ')');
  return sb_text(&out);
}

/* Sets $x, $y and $n for this element, until the caller rewinds. */
static void set_coordinates(Eval *ev, const Access *a, const int64_t *x, const int64_t *y) {
  for (int i = 0; i < a->box->rank; i++) env_set(ev, env_numbered_slot(ev, "$x", i), x[i]);
  for (int i = 0; a->memory && i < a->memory->rank; i++) {
    env_set(ev, env_numbered_slot(ev, "$y", i), y[i]);
    env_set(ev, env_numbered_slot(ev, "$n", i), a->memory->size[i]);
  }
}

/* Whether every test holds. Symbols are sizes here, even if a loop also uses one for its
 * position. */
static bool mask_value(Eval *ev, const Attr *mask, bool *out) {
  *out = true;
  for (int i = 0; *out && i < mask->n; i++) {
    int64_t holds;
    if (!expr_extent(ev, mask->exprs[i], &holds)) return false;
    *out = holds != 0;
  }
  return true;
}

bool mask_check(Eval *ev, const Access *a, const int64_t *index, const int64_t *y, bool active) {
  int64_t x[EVAL_AXES];
  bool on;
  for (int i = 0; i < a->box->rank; i++) x[i] = a->box->axis[i].lo + index[i];
  int mark = env_mark(ev);
  set_coordinates(ev, a, x, y);
  bool known = mask_value(ev, op_attr(a->op, ATTR_mask), &on);
  env_rewind(ev, mark);
  if (!known || on == active) return known;
  if (!a->memory)
    return eval_fail(ev, DIAG_E0713, "the mask %s element %s, which %s", on ? "admits" : "excludes",
                     point_text(ev, x, a->box->rank), active ? "exists" : "does not exist");
  return eval_fail(ev, DIAG_E0713, "the mask %s element %s, at %s of `%s`, which is %s",
                   on ? "admits" : "excludes", point_text(ev, x, a->box->rank),
                   point_text(ev, y, a->memory->rank), a->memory->name,
                   active ? "inside" : "outside");
}
