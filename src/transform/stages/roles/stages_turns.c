/* stages_turns.c: see stages_turns.h. */
#include "transform/stages/roles/stages_turns.h"

#include "ir/attr.h"
#include "ir/ops/live.h"
#include "ir/region_facts.h"
#include "ir/schedule/schedule.h"
#include "ir/schedule/turn_ops.h"

enum { GROUPS = 2 };

/* ---- whether ---- */

/* H200, attention under a causal mask: heads of 128, 2048 tokens 316 to 302 us. Workgroups that compute several tiles
 * lose (479 to 492 us), and so does attention whose sums are larger than the scores (heads of 256: 276 to 281),
 * because products then take most of the time. Three groups gain nothing (heads of 64: 4096 tokens 1186 to 1215
 * us, 16384 4483 to 4415), and four lose, whose turns are shorter (1217 to 1266). */
static bool is_worthwhile(const StagedLoop *l) {
  return l->late && l->roles && op_outermost_loop(l->loop) == l->loop &&
         live_registers(&l->early->results[0]) >= live_registers(&l->late->results[0]);
}

static int count_groups(const PassCtx *cx, const StagedLoop *l) {
  int together = turn_waves(cx->scratch, l->early, cx->target->lanes);
  return together && cx->machine->waves % together == 0 ? cx->machine->waves / together : 1;
}

static bool has_turns(const Kernel *k) {
  for (int i = 0; i < k->constraints.n; i++)
    if (k->constraints.at[i].kind == CONSTRAINT_turns) return true;
  return false;
}

/* ---- what ---- */

/* The products and what scales the sum between them; false: something else is there. */
static bool name_ops(Kernel *k, const StagedLoop *l, OpNames *out) {
  Vec(const char *) names = {0};
  for (const Op *op = l->early; op; op = op->next) {
    if (op->kind == OP_mbar_wait || (op->kind == OP_read && !op->results[0].layout)) continue;
    if (!op_is_product(op) && !op_is_elementwise(op)) return false;
    const char *name = schedule_exact_name(k->arena, k, l->loop, op, NULL, NULL);
    if (!name) return false;
    vec_push(k->arena, &names, name);
    *out = (OpNames){names.at, names.n};
    if (op == l->late) return true;
  }
  return false;
}

void stages_add_turns(Kernel *k, const PassCtx *cx, const StagedLoop *l) {
  Constraint row = constraint_empty(CONSTRAINT_turns, l->loop->at);
  if (!l->chosen || has_turns(k) || !is_worthwhile(l)) return;
  if (count_groups(cx, l) != GROUPS) return;
  row.turns.groups = GROUPS;
  if (!target_has(cx->target, FEATURE_NAMED_BARRIER) || !name_ops(k, l, &row.turns.ops)) return;
  row.turns.loop = schedule_loop_name(k->arena, l->loop);
  row.turns.target = cx->target->name;
  vec_push(k->arena, &k->constraints, row);
}
