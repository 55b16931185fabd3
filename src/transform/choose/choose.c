/* choose: gives values to the tiles that a kernel leaves open.
 *
 *     workgroup M by BLOCK_M on 0               bind BLOCK_M = 128
 *     workgroup N by BLOCK_N on 1          =>   bind BLOCK_N = 256
 *     tile K by BLOCK_K                         bind BLOCK_K = 64
 *
 * Symbols in the sizes of workgroup, tile and wave rows that nothing gives a value (choose_symbols.h). All
 * legal values are compared by a quick estimate (choose_model.h), where a grid is small also with several
 * workgroups for each tile (`split`); copies of the kernel with the best few are lowered
 * (choose_trial.h), and the one with the shortest predicted launch is taken. On machines for
 * which no times are known, CPUs among them, the legal values nearest to the usual ones are taken. The
 * choice is a remark.
 *
 * It is the first pass: all variants of a program have the same tiles, and all that follows sees a kernel
 * whose author wrote them. Needs DISTRIBUTE; does nothing without a target. */
#include <string.h>

#include "transform/choose/choose_search.h"
#include "transform/choose/choose_trial.h"
#include "transform/pass.h"

#define DIAGS(k) (&(k)->cx->diags)

/* ---- diagnostics ---- */

static const char *names_of(Arena *a, const ChooseTiles *open) {
  StrBuf out = {.arena = a};
  for (int i = 0; i < open->n; i++)
    sb_printf(&out, "%s`%s`", i ? ", " : "", sym_name(open->at[i].symbol));
  return sb_text(&out);
}

static bool fail_many(Kernel *k, const ChooseTiles *open) {
  return diag_fail(DIAGS(k), DIAG_E0622, open->too_many_row->at,
                   "`%s` leaves more than %d tiles open: `%s` needs a value", k->name,
                   CHOOSE_SYMBOLS, sym_name(open->too_many));
}

static bool fail_whole(Kernel *k, const ChooseTiles *open) {
  for (int i = 0; i < open->n; i++) {
    const ChooseTile *t = &open->at[i];
    if (!t->why) continue;
    Diag *d = diag_add(DIAGS(k), DIAG_E0622, t->row->at, "no value can be chosen for `%s`: `%s` %s",
                       sym_name(t->symbol), op_info[t->blamed->kind].name, t->why);
    diag_note(DIAGS(k), d, t->blamed->at, "this");
    return diag_hint(DIAGS(k), d, "bind the dimension, or give `%s` a value", sym_name(t->symbol));
  }
  return false;
}

static bool fail_none(Kernel *k, const ChooseSearch *s, const char *why) {
  const ChooseTiles *open = &s->open;
  Arena *a = DIAGS(k)->arena;
  const Constraint *row = !s->all.n && s->refusal.row ? s->refusal.row : open->at[0].row;
  StrBuf text = {.arena = a};
  ir_print_row(&text, k, row);
  const char *shown = sb_text(&text) + strspn(sb_text(&text), " ");
  const char *of = !s->all.n && s->refusal.row ? arena_printf(a, "`%s` ", shown) : "";
  if (!why) why = s->refusal.why ? s->refusal.why : "it does not compile";
  Diag *d = diag_add(DIAGS(k), DIAG_E0622, row->at, "no value of %s is legal on %s: %s%s",
                     names_of(a, open), s->t->name, of, why);
  return diag_hint(DIAGS(k), d, "give %s values to see what is wrong with them", names_of(a, open));
}

/* ---- the remark ---- */

static const char *time_text(Arena *a, const TargetInfo *t, double cycles) {
  const UnitMemory *memory = unit_memory(t->name);
  if (!memory) return arena_printf(a, "%.0f cycles", cycles);
  return arena_printf(a, "%.1f us", cycles / memory->mhz);
}

static const char *floor_text(Arena *a, const ChooseSearch *s) {
  ChooseFloor f = choose_floor(s->model);
  bool matrix = f.matrix > f.memory;
  if (f.matrix <= 0 && f.memory <= 0) return "";
  return arena_printf(a, "; the floor is %s (%s)", time_text(a, s->t, matrix ? f.matrix : f.memory),
                      matrix ? arena_printf(a, "%.3g FLOP", f.flops)
                             : arena_printf(a, "%.3g bytes", f.bytes));
}

static void remark(Kernel *k, const ChooseSearch *s, const Chosen *c) {
  Diags *diags = DIAGS(k);
  Arena *a = diags->arena;
  const char *values = choose_text(a, s, &c->best, "`");
  if (!choose_predicts(s->model)) {
    diag_add(diags, DIAG_R0623, k->at,
             "%s: the legal tiles of `%s` nearest to the usual ones on %s", values, k->name,
             s->t->name);
    return;
  }
  Diag *d = diag_add(diags, DIAG_R0623, k->at,
                     "%s: of %d legal tiles of `%s` the best on %s, with %s%s", values, s->all.n,
                     k->name, s->t->name, time_text(a, s->t, c->best.cycles), floor_text(a, s));
  diag_note(diags, d, (Span){0},
            "%lld tiles of the grid, %lld at a time on each of %d compute units%s",
            (long long)c->best.tiles, (long long)c->best.groups, s->t->units,
            c->best.persistent ? ", by workgroups that stay" : "");
  if (c->best.parts > 1)
    diag_note(diags, d, (Span){0}, "%lld workgroups share the iterations of a tile",
              (long long)c->best.parts);
  if (c->has_other)
    diag_note(diags, d, (Span){0}, "next: %s, with %s", choose_text(a, s, &c->other, "`"),
              time_text(a, s->t, c->other.cycles));
  if (choose_has_unexpected_sizes(k))
    diag_note(diags, d, (Span){0}, "sizes that are not known are taken for %d", CHOOSE_UNKNOWN);
}

/* ---- the pass ---- */

bool pass_choose(Kernel *k, PassCtx *cx) {
  ChooseSearch s;
  Chosen chosen;
  cx->idle = true;
  if (!cx->target) return true;
  ChooseTiles open = choose_open(cx->facts.distribute, cx->scratch);
  if (!open.n) return true;
  if (open.too_many) return fail_many(k, &open);
  if (!choose_search(cx->facts.distribute, cx->target, &open, cx->scratch, &s))
    return fail_whole(k, &s.open);
  if (!s.model) return true; /* which is reported later */
  if (!s.all.n) return fail_none(k, &s, NULL);
  if (!choose_best(&s, &chosen)) return fail_none(k, &s, chosen.why);
  remark(k, &s, &chosen);
  choose_bind(k, &s.open, chosen.best.value, choose_own_parts(s.model, &chosen.best));
  cx->idle = false;
  return true;
}
