/* sim_report.c: findings as diagnostics, costs as a table. */
#include <stdlib.h>

#include "backend/sim/sim_state.h"

/* ---- findings ---- */

bool fail_setup(Sim *s, DiagCode code, Span at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(s->cx->diags.arena, fmt, ap);
  va_end(ap);
  diag_add(&s->cx->diags, code, at, "%s", text);
  return false;
}

Diag *report(Wave *w, const SimOp *op, DiagCode code, const Op *other, const char *fmt, ...) {
  Sim *s = w->sim;
  uint64_t key =
      ((uint64_t)code << 48 | (uint64_t)op->op->id << 24 | (uint64_t)(other ? other->id + 1 : 0)) +
      1;
  if (s->stop || map_get(&s->reported, key)) return NULL;
  map_set(s->home, &s->reported, key, s);
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(s->cx->diags.arena, fmt, ap);
  va_end(ap);
  s->findings++;
  s->stop |= s->findings >= (s->o->findings ? s->o->findings : 20);
  return diag_add(&s->cx->diags, code, op->op->at, "%s", text);
}

const char *who(Wave *w, int lane) {
  const Group *g = w->group;
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

void report_costs(Sim *s, SimReport *out) {
  *out = (SimReport){.findings = s->findings};
  out->line = ARENA_ARRAY(s->k->arena, SimLine, s->k->nops + 1);
  for (int i = 0; i < s->k->nops; i++) {
    out->line[i] = s->ops[i].cost;
    out->line[i].at = s->ops[i].op->at;
    add_cost(&out->total, &s->ops[i].cost);
  }
  qsort(out->line, (size_t)s->k->nops, sizeof *out->line, by_place);
  for (int i = 0; i < s->k->nops; i++) {
    SimLine *last = out->nlines ? &out->line[out->nlines - 1] : NULL;
    if (last && by_place(last, &out->line[i]) == 0) add_cost(last, &out->line[i]);
    else out->line[out->nlines++] = out->line[i];
  }
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
