/* api_explain.c: what was decided about each line of a kernel, and why, through wave.h.
 *
 * Remarks of passes say most of it; what they do not say is read from the kernel after `turns`: the slots of
 * rings, the waves of roles, how long an iteration takes. The time of a launch is that of the pass `choose`. */
#include <stdlib.h>
#include <string.h>

#include "driver/api/api.h"
#include "driver/schedule/explain.h"
#include "driver/variants.h"
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/schedule/schedule.h"
#include "report/page.h"
#include "schedule/loop_times.h"
#include "transform/choose/choose_search.h"
#include "transform/choose/choose_trial.h"
#include "transform/pass_manager.h"

typedef struct Entry {
  Span at;
  int number; /* entries of a line stay in this order */
  const char *text;
} Entry;

typedef struct Explain {
  Arena *arena;
  Kernel *k; /* after `turns` */
  const TargetInfo *target;
  Vec(const char *) about; /* the kernel as a whole */
  Vec(Entry) entries;
} Explain;

static bool is_known(const Explain *e, Span at, const char *text) {
  for (int i = 0; i < e->entries.n; i++) {
    const Entry *old = &e->entries.at[i];
    if (old->at.line == at.line && old->at.file == at.file && strcmp(old->text, text) == 0)
      return true;
  }
  return false;
}

static void add(Explain *e, Span at, const char *text) {
  if (!at.line) vec_push(e->arena, &e->about, text);
  else if (!is_known(e, at, text))
    vec_push(e->arena, &e->entries, ((Entry){at, e->entries.n, text}));
}

/* ---- remarks ---- */

static void add_remarks(Explain *e, const Diags *diags, const Diag *before) {
  for (const Diag *d = before ? before->next : diags->first; d; d = d->next) {
    StrBuf out = {.arena = e->arena};
    if (diag_info[d->code].severity != SEVERITY_remark) continue;
    sb_printf(&out, "%s [%s]", d->text, diag_info[d->code].code);
    for (const DiagNote *n = d->notes; n; n = n->next)
      if (!n->at.line) sb_printf(&out, "\n  %s", n->text);
    add(e, d->at, sb_text(&out));
  }
}

/* ---- what the kernel says itself ---- */

/* "`a`: ", or "" for what is not an argument. */
static const char *name_of(const Explain *e, const Value *memory) {
  for (int i = 0; i < e->k->params.n; i++)
    if (e->k->body->args[i] == memory_root(memory))
      return arena_printf(e->arena, "`%s`: ", e->k->params.at[i].name);
  return "";
}

/* Copies before the loop fill the same ring. */
static void add_ring(Explain *e, const Op *op) {
  const Op *alloc = memory_root(op->args[1])->def;
  if (!alloc || alloc->kind != OP_alloc) return;
  int slots = alloc_slots(alloc);
  const char *who = op_is_served(e->k, op) ? ", filled by waves that only copy" : "";
  add(e, op->at,
      arena_printf(e->arena, "%sring of %d slot%s, %lld bytes%s", name_of(e, op->args[0]), slots,
                   slots > 1 ? "s" : "", (long long)alloc_bytes(alloc), who));
}

static void add_roles(Explain *e, const Op *loop) {
  const Constraint *row = schedule_roles(e->k, loop, e->target);
  if (!row) return;
  StrBuf out = {.arena = e->arena};
  ir_print_row(&out, e->k, row);
  add(e, loop->at,
      arena_printf(e->arena, "waves: `%s`", sb_text(&out) + strspn(sb_text(&out), " ")));
}

static void add_times(Explain *e, const Facts *f, const Machine *m, const Op *loop) {
  LoopTimes t = loop_times(e->arena, f->distribute, m, f->memory_uses, loop, 0);
  StrBuf out = {.arena = e->arena};
  if (t.why_not) return;
  sb_printf(&out, "an iteration takes %lld cycles", (long long)t.cycles);
  const char *before = "; busy: ";
  for (int u = 0; u < UNIT_COUNT; u++) {
    if (t.busy[u] < 0.005) continue;
    sb_printf(&out, "%s%s %.0f %%", before, unit_info[u].name, t.busy[u] * 100);
    before = ", ";
  }
  add(e, loop->at, sb_text(&out));
}

static void add_ops(Explain *e) {
  const MachineSpec *row = kernel_machine(e->k);
  if (!row || pass_machines(e->target) != PASS_LANES) return;
  ir_renumber(e->k);
  Facts f = facts_of(e->k, e->arena, FACT_memory_uses | FACT_distribute);
  Machine machine = machine_from(e->target, row);
  for (const Op *op = ir_first(e->k); op; op = ir_next(op)) {
    if (op->kind == OP_copy && memory_is_scratch(op->args[1])) add_ring(e, op);
    if (op->kind != OP_for || op->at.line == 0) continue;
    add_roles(e, op);
    add_times(e, &f, &machine, op);
  }
}

/* ---- the launch ---- */

static const char *time_text(const Explain *e, double cycles) {
  const UnitMemory *memory = unit_memory(e->target->name);
  return memory ? arena_printf(e->arena, "%.1f us", cycles / memory->mhz)
                : arena_printf(e->arena, "%.0f cycles", cycles);
}

static void add_floor(Explain *e, const ChooseModel *m) {
  ChooseFloor f = choose_floor(m);
  add(e, (Span){0},
      arena_printf(e->arena, "floor: %.3g bytes from memory, %s%s", f.bytes,
                   f.memory > 0 ? time_text(e, f.memory) : "not known",
                   f.flops > 0
                       ? arena_printf(e->arena, "; %.3g FLOP, %s", f.flops, time_text(e, f.matrix))
                       : ""));
}

static void add_launch(Explain *e, const Candidate *c, const ChooseFound *found) {
  Arena *a = e->arena;
  const TargetInfo *t = e->target;
  add(e, (Span){0},
      arena_printf(a, "%lld tiles of the grid, %s of %d waves; each of %d compute units holds %lld",
                   (long long)c->tiles,
                   c->persistent ? "by workgroups that stay," : "a workgroup each,", found->waves,
                   t->units, (long long)c->groups));
  add(e, (Span){0},
      arena_printf(a, "about %d registers of a thread; %lld of %d bytes of shared memory",
                   found->registers, (long long)found->bytes, t->shared_most));
  add(e, (Span){0}, arena_printf(a, "predicted: %s", time_text(e, c->cycles)));
}

/* Of a kernel whose tiles have values. */
static void add_prediction(Explain *e, Kernel *k) {
  ChooseTiles none = {0};
  ChooseFound found;
  Candidate c;
  Refusal refusal;
  const char *why;
  int64_t no_value[1] = {0};
  ir_renumber(k);
  const Distribution *d = facts_of(k, e->arena, FACT_distribute).distribute;
  ChooseModel *m = choose_model(d, e->target, &none, e->arena);
  if (!m || !choose_predicts(m) ||
      !choose_lower(k, e->target, m, &none, no_value, 1, false, &found, &why))
    return;
  if (!found.known || !choose_estimate(m, no_value, 1, &found, &c, &refusal)) return;
  add_launch(e, &c, &found);
  add_floor(e, m);
}

/* ---- text ---- */

static int compare(const void *x, const void *y) {
  const Entry *a = x, *b = y;
  if (a->at.file != b->at.file) return a->at.file < b->at.file ? -1 : 1;
  if (a->at.line != b->at.line) return a->at.line < b->at.line ? -1 : 1;
  return a->number < b->number ? -1 : a->number > b->number;
}

static void print_indented(StrBuf *out, const char *text) {
  sb_puts(out, "    ");
  for (; *text; text++) {
    sb_putc(out, *text);
    if (*text == '\n') sb_puts(out, "    ");
  }
  sb_putc(out, '\n');
}

static void print_line(StrBuf *out, Sources *sources, Span at) {
  size_t n;
  const char *text = sources_line(sources, at.file, at.line, &n);
  for (; text && n && (*text == ' ' || *text == '\t'); text++) n--;
  sb_printf(out, "%s:%u: %.*s\n", sources_name(sources, at.file), at.line, text ? (int)n : 0,
            text ? text : "");
}

static void print(StrBuf *out, Explain *e, const char *name) {
  Sources *sources = &e->k->cx->sources;
  sb_printf(out, "`%s` on %s\n", name, e->target->name);
  for (int i = 0; i < e->about.n; i++) print_indented(out, e->about.at[i]);
  if (e->entries.n) qsort(e->entries.at, (size_t)e->entries.n, sizeof *e->entries.at, compare);
  for (int i = 0; i < e->entries.n; i++) {
    const Entry *now = &e->entries.at[i], *last = i ? now - 1 : NULL;
    if (!last || last->at.line != now->at.line || last->at.file != now->at.file)
      print_line(out, sources, now->at);
    print_indented(out, now->text);
  }
}

/* ---- all of it ---- */

/* The copy with tiles, and another that is lowered; what both report is in the entries. */
static bool explain(StrBuf *out, Kernel *k, const TargetChoice *t, Arena *a) {
  Explain e = {.arena = a, .target = t->machine};
  Diags *diags = &k->cx->diags;
  Diag *before = diags->last;
  bool lanes = pass_machines(e.target) == PASS_LANES;
  PassOptions first = {.passes = "choose", .target = e.target->name};
  PassOptions rest = {.start_after = "choose", .target = e.target->name};
  rest.stop_after = lanes ? "turns" : "mask";
  Kernel *tiles = variant_first(k, t, a);
  bool ok = passes_run(tiles, &first);
  e.k = ok ? kernel_clone(tiles) : NULL;
  ok = ok && passes_run(e.k, &rest);
  if (ok) {
    add_prediction(&e, tiles);
    add_remarks(&e, diags, before);
    add_ops(&e);
    diags_cut(diags, before);
    print(out, &e, k->name);
  }
  kernel_free(e.k);
  kernel_free(tiles);
  return ok;
}

bool api_explain(StrBuf *out, Kernel *k, const char *target, Arena *a) {
  TargetChoice t = target_resolve(&k->cx->diags, target);
  if (!t.machine) return false;
  if (k->level != LEVEL_TILE || kernel_constraint(k, CONSTRAINT_machine, NULL))
    return diag_fail(&k->cx->diags, DIAG_E0409, k->at, "the decisions about this kernel are made");
  return explain(out, k, &t, a);
}

void api_explain_tiles(StrBuf *out, Kernel *k, const TargetInfo *t, Arena *a) {
  Explain e = {.arena = a, .k = k, .target = t};
  add_ops(&e);
  if (e.entries.n) print(out, &e, k->name);
}

static void put_page(StrBuf *out, const char *name, const char *text) {
  page_begin(out, name);
  page_put(out,
           "<header>\n<h1>%s</h1>\n<p>What was decided, line by line.</p>\n</header>\n<main>\n",
           name);
  page_put(out, "<pre class=\"program\">%s</pre>\n</main>\n", text);
  page_end(out);
}

char *wv_decisions(wv_kernel *k, const char *target, const char *form) {
  API_KERNEL_USES(k, NULL);
  if (!api_text(k->cx, target, "target") || !api_text(k->cx, form, "form")) return NULL;
  bool html = strcmp(form, "html") == 0;
  Arena *a = arena_new();
  StrBuf text = {.arena = a}, page = {.arena = a};
  api_attempt(k->cx, k->k, arena_printf(a, "--emit=explain --target=%s", target));
  bool ok = html || strcmp(form, "text") == 0 ||
            diag_fail(&k->k->cx->diags, DIAG_E0602, (Span){0},
                      "an explanation has no form `%s`: use `text` or `html`", form);
  ok = ok && api_explain(&text, k->k, target, a);
  if (ok && html) put_page(&page, k->k->name, sb_text(&text));
  char *made = ok ? api_given_away(sb_text(html ? &page : &text)) : NULL;
  arena_free(a);
  return made;
}
