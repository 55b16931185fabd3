/* report_json.c: a simulation as JSON. docs/simulator.md documents the schema. */
#include <string.h>

#include "report/report.h"

const Counter counters[NCOUNTERS] = {
    {"instructions", "instructions", "issued by waves", offsetof(SimLine, instructions)},
    {"lane_ops", "lane ops", "done by lanes", offsetof(SimLine, lane_ops)},
    {"shared", "shared", "accesses of shared memory", offsetof(SimLine, shared)},
    {"conflicts", "conflicts", "extra cycles due to bank conflicts", offsetof(SimLine, conflicts)},
    {"sectors", "sectors", "32-byte sectors of global memory moved", offsetof(SimLine, sectors)},
    {"sectors_needed", "needed", "sectors that were requested", offsetof(SimLine, sectors_needed)},
};

uint64_t report_counter_of(const SimLine *c, int i) {
  uint64_t v;
  memcpy(&v, (const char *)c + counters[i].field, sizeof v);
  return v;
}

static Sources *sources(const Report *r) { return &r->k->cx->sources; }

static void put_place(Json *j, const Report *r, Span at) {
  if (at.file) json_text(j, "file", sources_name(sources(r), at.file));
  else json_null(j, "file");
  json_int(j, "line", at.line);
  json_int(j, "col", at.col);
}

static void put_counters(Json *j, const SimLine *c) {
  for (int i = 0; i < NCOUNTERS; i++) json_uint(j, counters[i].key, report_counter_of(c, i));
}

static void put_maybe(Json *j, const char *key, int64_t v) {
  if (v < 0) json_null(j, key);
  else json_int(j, key, v);
}

static void put_other(Json *j, const Report *r, const SimFinding *f) {
  if (!f->other.line) {
    json_null(j, "other");
    return;
  }
  json_open(j, "other", '{');
  put_place(j, r, f->other);
  put_maybe(j, "wave", f->other_wave);
  put_maybe(j, "lane", f->other_lane);
  json_close(j, '}');
}

static void put_finding(Json *j, const Report *r, const SimFinding *f) {
  const DiagInfo *info = &diag_info[f->diag->code];
  json_open(j, NULL, '{');
  json_text(j, "code", info->code);
  json_text(j, "title", info->title);
  json_text(j, "message", f->diag->text);
  json_text(j, "hint", f->diag->hint);
  json_int(j, "count", (int64_t)f->count);
  put_place(j, r, f->diag->at);
  json_ints(j, "workgroup", f->workgroup, 3);
  put_maybe(j, "wave", f->wave);
  put_maybe(j, "lane", f->lane);
  json_text(j, "buffer", f->buffer);
  if (f->rank) json_ints(j, "index", f->index, f->rank);
  else json_null(j, "index");
  put_maybe(j, "address", f->address);
  put_other(j, r, f);
  json_open(j, "notes", '[');
  for (const DiagNote *n = f->diag->notes; n; n = n->next) {
    json_open(j, NULL, '{');
    put_place(j, r, n->at);
    json_text(j, "message", n->text);
    json_close(j, '}');
  }
  json_close(j, ']');
  json_close(j, '}');
}

static void put_launch(Json *j, const Report *r) {
  const SimReport *s = r->sim;
  json_open(j, "machine", '{');
  json_text(j, "name", s->machine->name);
  json_text(j, "doc", s->machine->doc);
  json_int(j, "lanes", s->machine->lanes);
  json_int(j, "banks", s->machine->banks);
  json_int(j, "shared_bytes", s->machine->shared_most);
  json_close(j, '}');
  json_open(j, "launch", '{');
  json_ints(j, "grid", s->grid, 3);
  json_ints(j, "block", s->block, 3);
  json_int(j, "wave", s->wave);
  json_int(j, "waves", s->nwaves);
  json_int(j, "shared_bytes", s->shared_bytes);
  json_text(j, "schedule", r->schedule);
  json_close(j, '}');
}

static void put_lines(Json *j, const Report *r) {
  json_open(j, "lines", '[');
  for (int i = 0; i < r->sim->nlines; i++) {
    const SimLine *c = &r->sim->line[i];
    size_t len = 0;
    const char *text = sources_line(sources(r), c->at.file, c->at.line, &len);
    json_open(j, NULL, '{');
    if (c->at.file) json_text(j, "file", sources_name(sources(r), c->at.file));
    else json_null(j, "file");
    json_int(j, "line", c->at.line);
    json_text_n(j, "source", text, len);
    put_counters(j, c);
    json_close(j, '}');
  }
  json_close(j, ']');
  json_open(j, "total", '{');
  put_counters(j, &r->sim->total);
  json_close(j, '}');
}

static void put_accesses(Json *j, const Report *r) {
  json_open(j, "accesses", '[');
  for (const Op *op = ir_first(r->k); op; op = ir_next(op)) {
    const SimAccess *a = r->sim->access[op->id];
    if (!a) continue;
    json_open(j, NULL, '{');
    json_text(j, "op", op_info[op->kind].name);
    put_place(j, r, op->at);
    json_text(j, "buffer", a->buffer);
    json_text(j, "space", a->shared ? "shared" : "global");
    json_int(j, "bytes", a->bytes);
    json_uint(j, "executions", a->executions);
    json_int(j, "dearest", a->cost);
    json_ints(j, "addresses", a->address, r->sim->wave);
    json_close(j, '}');
  }
  json_close(j, ']');
}

static void put_shared(Json *j, const Report *r) {
  json_open(j, "shared", '[');
  for (int i = 0; i < r->sim->nshared; i++) {
    const SimBuffer *b = &r->sim->shared[i];
    json_open(j, NULL, '{');
    json_text(j, "name", b->name);
    json_text(j, "type", type_text(r->sim->arena, r->k->cx, b->alloc->results[0].type));
    json_int(j, "line", b->alloc->at.line);
    json_int(j, "offset", b->base);
    json_int(j, "bytes", b->bytes);
    json_close(j, '}');
  }
  json_close(j, ']');
}

static void put_layouts(Json *j, const Report *r, Arena *a) {
  int n = 0;
  LayoutGroup *groups = layout_groups(a, r->tiles, &n);
  json_open(j, "layouts", '[');
  for (int i = 0; i < n; i++) {
    StrBuf text = {.arena = a};
    layout_print(&text, groups[i].values[0]->layout);
    json_open(j, NULL, '{');
    json_text(j, "type", type_text(a, r->k->cx, groups[i].values[0]->type));
    json_text(j, "layout", sb_text(&text));
    json_open(j, "values", '[');
    for (int v = 0; v < groups[i].n; v++) {
      const Value *value = groups[i].values[v];
      json_open(j, NULL, '{');
      json_text(j, "name", value->name);
      json_text(j, "op", op_info[value->def->kind].name);
      json_int(j, "line", value->def->at.line);
      json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
  }
  json_close(j, ']');
}

void report_json(StrBuf *out, const Report *r) {
  Arena *a = arena_new();
  Json j = {.out = out};
  json_open(&j, NULL, '{');
  json_text(&j, "schema", "wave-simulation/1");
  json_text(&j, "kernel", r->k->name);
  json_bool(&j, "ok", r->sim->findings == 0 && !r->sim->interrupted);
  json_bool(&j, "interrupted", r->sim->interrupted);
  put_launch(&j, r);
  json_open(&j, "findings", '[');
  for (int i = 0; i < r->sim->findings; i++) put_finding(&j, r, &r->sim->finding[i]);
  json_close(&j, ']');
  put_lines(&j, r);
  put_accesses(&j, r);
  put_shared(&j, r);
  put_layouts(&j, r, a);
  StrBuf text = {.arena = a};
  ir_print(&text, r->k);
  json_text(&j, "ir", sb_text(&text));
  json_close(&j, '}');
  sb_putc(out, '\n');
  arena_free(a);
}
