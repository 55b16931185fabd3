/* divide: divides tiles of workgroups that do not fit a machine.
 *
 *     workgroup M by 256 on 0        workgroup M by 128 on 0
 *     workgroup N by 256 on 1   =>   workgroup N by 256 on 1
 *     wave M by 128                  wave M by 64
 *
 * A kernel written for a machine with more registers would spill them in its loops. Each of its
 * workgroups becomes several with smaller tiles, or one with more waves: whatever fits and computes and
 * reads the least. Only tile-pure kernels, whose results do not depend on it (divide_rows.h). The
 * choice is a remark, and so is the reason if there is none.
 *
 * Like `solve`, it runs other passes on copies of the kernel, but only if the tiles nearly fill the
 * registers. Needs DISTRIBUTE and UNIFORM; runs before `retarget`, which chooses instructions. */
#include "anchors/contract.h"
#include "transform/divide/divide_room.h"
#include "transform/divide/divide_rows.h"
#include "transform/pass.h"

enum {
  MOST_CHOICES = 512,
  MOST_TRIALS = 24, /* that are lowered */
  MOST_PARTS = 64,  /* of a tile: one that is larger still is a mistake */
  LEAST_TILE = 16,  /* of what instructions multiply */
  MOST_FACTOR = 4   /* times as many waves */
};

typedef struct Divide {
  Kernel *k;
  PassCtx *cx;
  DivideRows rows;
  DivideRoom room;   /* as declared */
  DivideTrial trial; /* as declared */
} Divide;

/* One of the ways to divide. */
typedef struct Choice {
  int parts[DIVIDE_MOST], all; /* of each row, in all */
  int factor;                  /* of waves */
  DivideRoom room;
} Choice;

typedef Vec(Choice) Choices;

#define DIAGS(v) (&(v)->k->cx->diags)

/* ---- what could be done ---- */

static bool apply(Kernel *k, const DivideRows *rows, const Choice *c) {
  for (int i = 0; i < rows->n; i++)
    if (c->parts[i] > 1 && !divide_row(k, &rows->at[i], c->parts[i])) return false;
  return c->factor == 1 || divide_waves(k, c->factor);
}

/* The kernel so divided; NULL: it cannot be. */
static Kernel *divided(const Divide *v, const Choice *c) {
  Diag *before = DIAGS(v)->last;
  Kernel *copy = kernel_clone(v->k);
  bool ok = apply(copy, &v->rows, c) && ir_verify_constraints(copy);
  diags_cut(DIAGS(v), before);
  if (ok) return copy;
  kernel_free(copy);
  return NULL;
}

/* Of a lane of all waves. More waves do not have more of them once they share all that there are. The number of
 * waves may not be known. */
static int registers_of(const Divide *v, const DivideRoom *r) {
  return r->waves ? r->waves * target_most_registers(v->cx->target, r->waves) : 0;
}

static void add_choice(const Divide *v, Choices *out, Choice c) {
  Kernel *copy = c.all * c.factor > 1 && out->n < MOST_CHOICES ? divided(v, &c) : NULL;
  if (!copy) return;
  c.room = divide_room_in_parts(copy, v->cx->target, c.all);
  bool gains = c.factor == 1 || registers_of(v, &c.room) > registers_of(v, &v->room) * 9 / 8;
  if (divide_may_fit(&c.room, v->cx->target) && gains) vec_push(v->cx->scratch, out, c);
  kernel_free(copy);
}

/* Fewest products, then fewest bytes, then as many waves as declared, then the first rows. */
static bool is_cheaper(const Choice *a, const Choice *b) {
  if (a->room.multiplied != b->room.multiplied) return a->room.multiplied < b->room.multiplied;
  if (a->room.moved != b->room.moved) return a->room.moved < b->room.moved;
  if (a->factor != b->factor) return a->factor < b->factor;
  for (int i = 0; i < DIVIDE_MOST; i++)
    if (a->parts[i] != b->parts[i]) return a->parts[i] > b->parts[i];
  return false;
}

static void sort_choices(Choices *list) {
  for (int i = 1; i < list->n; i++)
    for (int j = i; j > 0 && is_cheaper(&list->at[j], &list->at[j - 1]); j--) {
      Choice other = list->at[j];
      list->at[j] = list->at[j - 1], list->at[j - 1] = other;
    }
}

static void add_factors(const Divide *v, Choices *out, Choice c) {
  for (c.factor = 1; c.factor <= MOST_FACTOR; c.factor *= 2) add_choice(v, out, c);
}

static void add_parts(const Divide *v, Choices *out, Choice c, int row) {
  if (row == v->rows.n) {
    add_factors(v, out, c);
    return;
  }
  int tile = v->rows.at[row].tile, least = tile < LEAST_TILE ? 2 : LEAST_TILE, all = c.all;
  for (int parts = 1; parts <= MOST_PARTS; parts++) {
    if (tile % parts || (parts > 1 && tile / parts < least)) continue;
    c.parts[row] = parts, c.all = all * parts;
    add_parts(v, out, c, row + 1);
  }
}

/* ---- what is done ---- */

/* The first that fits, preferably with the machine's best instructions; else the one that needs the
 * fewest registers, if that is far fewer than before. */
static const Choice *best_of(Divide *v, Choices *list, DivideTrial *out) {
  const Choice *best = NULL, *least = NULL;
  int before = v->trial.registers, fewest = v->trial.full ? before : before - before / 4;
  for (int i = 0; i < list->n && i < MOST_TRIALS; i++) {
    const Choice *c = &list->at[i];
    if (best &&
        (c->room.multiplied > best->room.multiplied || c->room.moved > 2 * best->room.moved))
      break;
    Kernel *copy = divided(v, c);
    if (!copy) continue;
    DivideTrial now = divide_trial(copy, v->cx->target, NULL);
    kernel_free(copy);
    bool fits = divide_trial_fits(&now);
    if (!best && !fits && now.registers < fewest) least = c, fewest = now.registers, *out = now;
    if (!fits || (best && now.narrow)) continue;
    best = c, *out = now;
    if (!now.narrow) return best;
  }
  return best ? best : least;
}

/* ---- remarks ---- */

static const char *tile_text(const Divide *v, const Choice *c) {
  StrBuf out = {.arena = DIAGS(v)->arena};
  for (int i = 0; i < v->rows.n; i++)
    sb_printf(&out, "%s`%s` %d", i ? ", " : "", sym_text(DIAGS(v)->arena, v->rows.at[i].dim),
              v->rows.at[i].tile / (c ? c->parts[i] : 1));
  return sb_text(&out);
}

static const char *why_divided(const Divide *v) {
  const TargetInfo *t = v->cx->target;
  if (v->trial.full) return v->trial.full;
  return arena_printf(DIAGS(v)->arena,
                      "it needs about %d registers of a thread, and %d waves of %s have %d",
                      v->trial.registers, v->room.waves, t->name, v->trial.have);
}

static void remark_choice(const Divide *v, const Choice *c, const DivideTrial *now) {
  Diags *diags = DIAGS(v);
  Diag *d;
  if (c->all > 1)
    d = diag_add(diags, DIAG_R0620, v->k->at,
                 "the tile %s of a workgroup of `%s` is divided into %d of %s: %s",
                 tile_text(v, NULL), v->k->name, c->all, tile_text(v, c), why_divided(v));
  else
    d = diag_add(diags, DIAG_R0620, v->k->at, "a workgroup of `%s` gets %d waves: %s", v->k->name,
                 c->room.waves, why_divided(v));
  diag_note(diags, d, (Span){0}, "now about %d registers of %d%s", now->registers, now->have,
            divide_trial_fits(now) ? "" : ": no division fits");
}

/* `along`: "along `M`: `sum` combines elements", or what else is wrong. */
static void remark_none(const Divide *v, const char *along, Span at, const Op *blamed) {
  Diag *d = diag_add(DIAGS(v), DIAG_R0620, at, "the tile of a workgroup of `%s` is not divided%s",
                     v->k->name, along);
  if (blamed) diag_note(DIAGS(v), d, blamed->at, "this");
  diag_note(DIAGS(v), d, (Span){0}, "%s", why_divided(v));
}

static void remark_refused(const Divide *v) {
  const DivideRows *r = &v->rows;
  Arena *a = DIAGS(v)->arena;
  if (!r->refused) {
    remark_none(v, ": no workgroup row has a tile of several elements", v->k->at, NULL);
    return;
  }
  const char *op = r->blamed ? arena_printf(a, "`%s` ", op_info[r->blamed->kind].name) : "";
  const char *along =
      arena_printf(a, " along `%s`: %s%s", sym_text(a, r->refused->workgroup.dim), op, r->why);
  remark_none(v, along, r->refused->at, r->blamed);
}

/* ---- the pass ---- */

static bool is_near_limit(Divide *v) {
  const TargetInfo *t = v->cx->target;
  if (!t || v->cx->machine || !t->file) return false;
  v->room = divide_room(v->cx->facts.distribute, t, v->cx->scratch);
  return v->room.waves && !divide_surely_fits(&v->room, t);
}

static bool divide(Divide *v) {
  Choices list = {0};
  DivideTrial now;
  v->rows = divide_rows(v->cx->facts.distribute, v->cx->scratch);
  add_parts(v, &list, (Choice){.all = 1}, 0);
  sort_choices(&list);
  const Choice *best = best_of(v, &list, &now);
  if (!best && v->rows.n == 0) remark_refused(v);
  else if (!best) remark_none(v, ": smaller tiles need as many registers", v->k->at, NULL);
  if (!best) return true;
  remark_choice(v, best, &now);
  v->cx->idle = false;
  return apply(v->k, &v->rows, best);
}

bool pass_divide(Kernel *k, PassCtx *cx) {
  Divide v = {.k = k, .cx = cx};
  cx->idle = true;
  if (!is_near_limit(&v)) return true;
  if (contract_of(cx->facts.distribute, cx->facts.uniform, cx->scratch).op) return true;
  v.trial = divide_trial(k, cx->target, cx->may_finish ? &cx->finished : NULL);
  bool wrong = v.trial.registers == INT32_MAX && !v.trial.full; /* which is reported later */
  return wrong || divide_trial_fits(&v.trial) || divide(&v);
}
