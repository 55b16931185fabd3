/* sim_report.c: findings as diagnostics and as records; costs per line and per op. */
#include <stdlib.h>
#include <string.h>

#include "backend/sim/sim_state.h"

/* ---- findings ---- */

bool sim_fail_setup(Sim *s, DiagCode code, Span at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(s->cx->diags.arena, fmt, ap);
  va_end(ap);
  return diag_fail(&s->cx->diags, code, at, "%s", text);
}

/* The same op, or two from the same line. Either may be NULL. */
static bool same_line(const Op *a, const Op *b) {
  return a == b || (a && b && a->at.line && a->at.line == b->at.line && a->at.file == b->at.file);
}

/* An earlier finding about the lines of these ops, in either order; NULL: none. */
static SimFinding *found_before(Sim *s, DiagCode code, const Op *op, const Op *other) {
  for (int i = 0; i < s->found.n; i++) {
    SimFinding *f = &s->found.at[i];
    bool same = (same_line(f->op, op) && same_line(f->other_op, other)) ||
                (same_line(f->op, other) && same_line(f->other_op, op));
    if (same && f->diag->code == code) return f;
  }
  return NULL;
}

Diag *sim_report(Wave *w, const SimOp *op, DiagCode code, const Op *other, const char *fmt, ...) {
  Sim *s = w->sim;
  SimFinding found = s->subject;
  sim_forget_subject(s);
  if (s->stop) return NULL;
  SimFinding *before = found_before(s, code, op->op, other);
  if (before) {
    before->count++;
    return NULL;
  }
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(s->cx->diags.arena, fmt, ap);
  va_end(ap);
  s->findings++;
  s->stop |= s->findings >= (s->o->findings ? s->o->findings : 20);
  Diag *d = diag_add(&s->cx->diags, code, op->op->at, "%s", text);
  found.diag = d;
  found.count = 1;
  found.op = op->op;
  found.other_op = other;
  if (other) found.other = other->at;
  found.wave = w->index;
  memcpy(found.workgroup, w->group->id, sizeof found.workgroup);
  vec_push(s->home, &s->found, found);
  return d;
}

void sim_note_counts(Sim *s) {
  for (int i = 0; i < s->found.n; i++) {
    const SimFinding *f = &s->found.at[i];
    if (f->count > 1)
      diag_note(&s->cx->diags, f->diag, (Span){0}, "found %llu times on %s; the first is described",
                (unsigned long long)f->count,
                f->other_op && !same_line(f->op, f->other_op) ? "these lines" : "this line");
  }
}

void sim_forget_subject(Sim *s) {
  s->subject =
      (SimFinding){.wave = -1, .lane = -1, .other_wave = -1, .other_lane = -1, .address = -1};
}

const char *sim_who(Wave *w, int lane) {
  const Group *g = w->group;
  w->sim->subject.lane = lane;
  return arena_printf(w->sim->cx->diags.arena, "workgroup (%lld, %lld, %lld), wave %d, lane %d",
                      (long long)g->id[0], (long long)g->id[1], (long long)g->id[2], w->index,
                      lane);
}

/* ---- costs ---- */

static void add_cost(SimLine *to, const SimLine *c) {
  to->instructions += c->instructions;
  to->lane_ops += c->lane_ops;
  to->shared += c->shared;
  to->conflicts += c->conflicts;
  to->sectors += c->sectors;
  to->sectors_needed += c->sectors_needed;
  to->lines += c->lines;
}

static int by_place(const void *a, const void *b) {
  const Span *x = &((const SimLine *)a)->at, *y = &((const SimLine *)b)->at;
  if (x->file != y->file) return x->file < y->file ? -1 : 1;
  return x->line == y->line ? 0 : x->line < y->line ? -1 : 1;
}

SimAccess *sim_note_access(SimOp *s, Arena *a, int cost) {
  bool first = !s->dearest;
  if (first) s->dearest = ARENA_NEW(a, SimAccess);
  s->dearest->executions++;
  return first || cost > s->dearest->cost ? s->dearest : NULL;
}

static void report_ops(Sim *s, SimReport *out) {
  int n = s->k->nops;
  out->op = ARENA_ARRAY(out->arena, SimLine, n + 1);
  out->access = ARENA_ARRAY(out->arena, SimAccess *, n + 1);
  for (int i = 0; i < n; i++) {
    out->op[i] = s->ops[i].cost;
    out->op[i].at = s->ops[i].op->at;
    add_cost(&out->total, &s->ops[i].cost);
    const SimAccess *a = s->ops[i].dearest;
    if (a) out->access[i] = arena_copy(out->arena, a, sizeof *a);
  }
}

static void report_lines(Sim *s, SimReport *out) {
  int n = s->k->nops;
  out->line = ARENA_ARRAY(out->arena, SimLine, n + 1);
  memcpy(out->line, out->op, sizeof *out->op * (size_t)n);
  qsort(out->line, (size_t)n, sizeof *out->line, by_place);
  for (int i = 0; i < n; i++) {
    SimLine *last = out->nlines ? &out->line[out->nlines - 1] : NULL;
    if (last && by_place(last, &out->line[i]) == 0) add_cost(last, &out->line[i]);
    else out->line[out->nlines++] = out->line[i];
  }
}

static void report_shared(Sim *s, SimReport *out) {
  out->shared = ARENA_ARRAY(out->arena, SimBuffer, s->k->nops + 1);
  for (const Op *op = ir_first(s->k); op; op = ir_next(op)) {
    const Buffer *b = op->kind == OP_alloc ? s->buffer[op->results[0].id] : NULL;
    if (!b || !b->shared) continue;
    int64_t bytes = (int64_t)dtype_bytes(b->dtype, b->elements);
    out->shared[out->nshared++] = (SimBuffer){b->name, op, b->base, bytes};
  }
}

void sim_make_report(Sim *s, SimReport *out) {
  Arena *home = out->arena ? out->arena : s->k->arena;
  *out = (SimReport){.arena = home,
                     .findings = s->found.n,
                     .machine = arena_copy(home, s->machine, sizeof *s->machine),
                     .shared_bytes = s->shared_bytes,
                     .wave = s->wave,
                     .nwaves = s->nwaves,
                     .ran = true,
                     .interrupted = s->interrupted};
  memcpy(out->grid, s->grid, sizeof out->grid);
  memcpy(out->block, s->block, sizeof out->block);
  out->finding = ARENA_ARRAY(home, SimFinding, s->found.n + 1);
  for (int i = 0; i < s->found.n; i++) out->finding[i] = s->found.at[i];
  report_ops(s, out);
  report_lines(s, out);
  report_shared(s, out);
}

static void print_cost(StrBuf *out, const SimLine *c) {
  sb_printf(out, "%12llu %12llu", (unsigned long long)c->instructions,
            (unsigned long long)c->lane_ops);
  sb_printf(out, " %10llu %9llu", (unsigned long long)c->shared, (unsigned long long)c->conflicts);
  sb_printf(out, " %10llu %10llu", (unsigned long long)c->sectors,
            (unsigned long long)c->sectors_needed);
}

void sim_print(StrBuf *out, const Context *cx, const SimReport *r) {
  sb_puts(out, "    line instructions     lane ops     shared conflicts    sectors     needed\n");
  for (int i = 0; i < r->nlines; i++) {
    const SimLine *c = &r->line[i];
    if (!c->instructions) continue;
    sb_printf(out, "%8u ", c->at.line);
    print_cost(out, c);
    size_t len = 0;
    const char *text =
        sources_line(&((Context *)(uintptr_t)cx)->sources, c->at.file, c->at.line, &len);
    while (text && len && *text == ' ') text++, len--;
    if (text) sb_printf(out, "  %.*s", (int)len, text);
    sb_putc(out, '\n');
  }
  sb_puts(out, "     all ");
  print_cost(out, &r->total);
  sb_putc(out, '\n');
}
