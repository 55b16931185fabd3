/* api_construct.c: schedule functions, through wave.h. */
#include <string.h>

#include "analysis/analysis.h"
#include "construct/construct.h"
#include "driver/api/api.h"
#include "driver/fit.h"
#include "driver/variants.h"
#include "transform/pass_manager.h"

struct wv_construct {
  HandleKind handle;
  wv_kernel *kernel;
  TargetChoice target; /* machine NULL: none with waves */
  Construct c;
};

static wv_ctx *cx_of(const wv_construct *c) {
  return api_is(c, HANDLE_CONSTRUCT) ? api_kernel_cx(c->kernel) : NULL;
}

/* A function that takes a construct begins like this. */
#define API_CONSTRUCT(c, ...) API_ENTER(api_usable(cx_of(c)), cx_of(c), (void)0, __VA_ARGS__)

static Span span_of(const wv_construct *c, wv_place at) { return api_span(c->c.k->cx, at); }

/* ---- arguments ---- */

static bool check_nodes(const wv_construct *c, wv_nodes list) {
  if (!api_list(c->kernel->cx, list.at, list.n, "nodes")) return false;
  for (int i = 0; i < list.n; i++)
    if (list.at[i] < 0 || list.at[i] >= c->c.nodes.n)
      return diag_fail(&c->c.k->cx->diags, DIAG_E0001, (Span){0}, "there is no node %d",
                       list.at[i]);
  return true;
}

static Nodes nodes_of(wv_nodes list) { return (Nodes){list.at, list.n}; }

static wv_nodes nodes_to(Nodes list) { return (wv_nodes){list.at, list.n}; }

static const char *const segment_name[SEGMENT_COUNT] = {"any", "prologue", "kernel", "epilogue"};

static bool find_segment(const wv_construct *c, const char *word, Segment *out) {
  for (int i = 0; i < SEGMENT_COUNT; i++)
    if (word && strcmp(segment_name[i], word) == 0) {
      *out = (Segment)i;
      return true;
    }
  return diag_fail(&c->c.k->cx->diags, DIAG_E0001, (Span){0}, "unknown part of a pipeline `%s`",
                   word ? word : "");
}

static bool check_pipeline(const wv_construct *c, int number) {
  if (number >= 0 && number < c->c.pipelines.n) return true;
  return diag_fail(&c->c.k->cx->diags, DIAG_E0001, (Span){0}, "there is no pipeline %d", number);
}

/* ---- opening ---- */

/* Runs passes for the machine on a copy; remarks about it come again later. */
static Kernel *lowered(Kernel *k, const TargetChoice *t, const char *last, Arena *a) {
  Diag *before = k->cx->diags.last;
  Kernel *copy = variant_first(k, t, a);
  PassOptions o = {.target = t->machine->name, .stop_after = last};
  if (!passes_run(copy, &o)) {
    kernel_free(copy);
    return NULL;
  }
  diags_cut(&k->cx->diags, before);
  return copy;
}

static bool has_waves(const TargetChoice *t) {
  return t->machine && !target_has(t->machine, FEATURE_REGISTER_TILES);
}

static bool open_construct(wv_construct *made, Kernel *k, const char *target) {
  Construct *c = &made->c;
  if (target) made->target = target_resolve(&k->cx->diags, target);
  if (target && !made->target.machine) return false;
  bool waves = has_waves(&made->target) && fit_open(k).n == 0;
  c->written = k;
  c->target = waves ? made->target.machine : NULL;
  ir_renumber(k);
  c->k = waves ? lowered(k, &made->target, "mask", c->arena) : kernel_clone(k);
  if (!c->k) return false;
  ir_renumber(c->k);
  c->d = facts_of(c->k, c->arena, FACT_distribute).distribute;
  construct_fill(c);
  return true;
}

wv_construct *wv_construct_open(wv_kernel *k, const char *name, const char *target, bool direct,
                                wv_place at) {
  API_KERNEL_USES(k, NULL);
  if (!api_text(k->cx, name, "name")) return NULL;
  if (k->k->level != LEVEL_TILE) {
    diag_add(&k->k->cx->diags, DIAG_E0409, k->k->at, "a thread kernel has no schedule");
    return NULL;
  }
  Arena *a = arena_new();
  wv_construct *made = ARENA_NEW(a, wv_construct);
  *made = (wv_construct){.handle = HANDLE_CONSTRUCT, .kernel = k};
  made->c.arena = a, made->c.direct = direct;
  made->c.name = arena_strndup(a, name, strlen(name));
  made->c.at = api_span(k->k->cx, at);
  if (open_construct(made, k->k, target)) return made;
  arena_free(a);
  return NULL;
}

void wv_construct_free(wv_construct *c) {
  API_ASKS();
  if (!api_is(c, HANDLE_CONSTRUCT)) return;
  kernel_free(c->c.k);
  arena_free(c->c.arena);
}

bool wv_construct_node(wv_construct *c, int node, wv_node *out) {
  API_CONSTRUCT(c, false);
  if (!api_expected(c->kernel->cx, out != NULL, "a node") || !check_nodes(c, (wv_nodes){&node, 1}))
    return false;
  const Node *n = &c->c.nodes.at[node];
  *out = (wv_node){.name = construct_name(&c->c, node),
                   .op = op_info[n->op->kind].name,
                   .segment = segment_name[n->segment],
                   .stage = n->stage,
                   .unrolled = n->unrolled,
                   .nparts = n->nparts,
                   .at = api_place(c->c.k->cx, n->op->at)};
  for (int i = 0; i < n->nparts; i++) {
    out->dims[i] = api_expr(n->parts[i].dim);
    out->parts[i] = n->parts[i].at;
  }
  return true;
}

/* ---- selecting ---- */

bool wv_construct_find(wv_construct *c, const char *const *tags, int n, bool exact, wv_place at,
                       wv_nodes *out) {
  API_CONSTRUCT(c, false);
  if (!api_list(c->kernel->cx, tags, n, "tags")) return false;
  if (!api_expected(c->kernel->cx, out != NULL, "a list")) return false;
  for (int i = 0; i < n; i++)
    if (!api_text(c->kernel->cx, tags[i], "a tag")) return false;
  *out = nodes_to(construct_find(&c->c, tags, n, exact, span_of(c, at)));
  return true;
}

bool wv_construct_filter(wv_construct *c, wv_nodes from, const char *segment, const char *type,
                         int unrolled, wv_place at, wv_nodes *out) {
  API_CONSTRUCT(c, false);
  Segment where;
  Nodes list;
  if (!check_nodes(c, from) || !find_segment(c, segment, &where)) return false;
  if (!api_expected(c->kernel->cx, out != NULL, "a list")) return false;
  if (!construct_filter(&c->c, nodes_of(from), where, type, unrolled, span_of(c, at), &list))
    return false;
  *out = nodes_to(list);
  return true;
}

bool wv_construct_by_space(wv_construct *c, wv_nodes from, const char *space, wv_place at,
                           wv_nodes *out) {
  API_CONSTRUCT(c, false);
  Nodes lists[2];
  if (!check_nodes(c, from) || !api_text(c->kernel->cx, space, "an address space")) return false;
  if (!api_expected(c->kernel->cx, out != NULL, "two lists")) return false;
  if (!construct_by_space(&c->c, nodes_of(from), space, span_of(c, at), lists)) return false;
  for (int i = 0; i < 2; i++) out[i] = nodes_to(lists[i]);
  return true;
}

bool wv_construct_by_dim(wv_construct *c, wv_nodes from, wv_expr dim, int parts, wv_place at,
                         wv_nodes *out) {
  API_CONSTRUCT(c, false);
  if (!check_nodes(c, from) || !api_expected(c->kernel->cx, dim != NULL, "a dimension"))
    return false;
  if (!api_expected(c->kernel->cx, out != NULL, "lists")) return false;
  Nodes *lists = ARENA_ARRAY(c->c.arena, Nodes, parts > 0 && parts <= NODE_MOST ? parts : 1);
  if (!construct_by_dim(&c->c, nodes_of(from), api_sym(dim), parts, span_of(c, at), lists))
    return false;
  for (int i = 0; i < parts; i++) out[i] = nodes_to(lists[i]);
  return true;
}

/* ---- stages ---- */

int wv_construct_pipeline(wv_construct *c, wv_nodes loop, wv_place at) {
  API_CONSTRUCT(c, -1);
  return check_nodes(c, loop) ? construct_pipeline(&c->c, nodes_of(loop), span_of(c, at)) : -1;
}

bool wv_construct_stage(wv_construct *c, int pipeline, const wv_nodes *cycles, int n, wv_place at) {
  API_CONSTRUCT(c, false);
  if (!check_pipeline(c, pipeline) || !api_list(c->kernel->cx, cycles, n, "cycles")) return false;
  Nodes *lists = ARENA_ARRAY(c->c.arena, Nodes, n + 1);
  for (int i = 0; i < n; i++) {
    if (!check_nodes(c, cycles[i])) return false;
    lists[i] = nodes_of(cycles[i]);
  }
  return construct_stage(&c->c, pipeline, lists, n, span_of(c, at));
}

bool wv_construct_close(wv_construct *c, int pipeline, int slots, bool masked) {
  API_CONSTRUCT(c, false);
  return check_pipeline(c, pipeline) && construct_close(&c->c, pipeline, slots, masked);
}

bool wv_construct_copies(wv_construct *c, wv_nodes from, wv_nodes *out) {
  API_CONSTRUCT(c, false);
  if (!check_nodes(c, from) || !api_expected(c->kernel->cx, out != NULL, "a list")) return false;
  *out = nodes_to(construct_copies(&c->c, nodes_of(from)));
  return true;
}

bool wv_construct_unroll(wv_construct *c, wv_nodes loop, int factor, wv_place at) {
  API_CONSTRUCT(c, false);
  return check_nodes(c, loop) && construct_unroll(&c->c, nodes_of(loop), factor, span_of(c, at));
}

/* ---- order ---- */

bool wv_construct_interleave(wv_construct *c, wv_nodes base, const wv_interleaved *groups, int n,
                             wv_place at, wv_nodes *out) {
  API_CONSTRUCT(c, false);
  if (!check_nodes(c, base) || !api_list(c->kernel->cx, groups, n, "groups")) return false;
  if (!api_expected(c->kernel->cx, out != NULL, "a list")) return false;
  Interleaved *list = ARENA_ARRAY(c->c.arena, Interleaved, n + 1);
  for (int i = 0; i < n; i++) {
    const wv_interleaved *g = &groups[i];
    if (!check_nodes(c, g->ops) || !api_list(c->kernel->cx, g->after.at, g->after.n, "groups"))
      return false;
    list[i] = (Interleaved){nodes_of(g->ops), g->interval, g->offset, nodes_of(g->after)};
  }
  Nodes mixed;
  if (!construct_interleave(&c->c, nodes_of(base), list, n, span_of(c, at), &mixed)) return false;
  *out = nodes_to(mixed);
  return true;
}

bool wv_construct_reorder(wv_construct *c, wv_nodes order, wv_place at) {
  API_CONSTRUCT(c, false);
  return check_nodes(c, order) && construct_reorder(&c->c, nodes_of(order), span_of(c, at));
}

bool wv_construct_cluster(wv_construct *c, const wv_cluster_item *items, int n, wv_place at) {
  API_CONSTRUCT(c, false);
  if (!api_list(c->kernel->cx, items, n, "items")) return false;
  ClusterItem *list = ARENA_ARRAY(c->c.arena, ClusterItem, n + 1);
  for (int i = 0; i < n; i++) {
    bool inserted = items[i].node == NODE_NONE;
    if (inserted && !api_text(c->kernel->cx, items[i].type, "an op")) return false;
    if (!inserted && !check_nodes(c, (wv_nodes){&items[i].node, 1})) return false;
    list[i] = (ClusterItem){items[i].node, items[i].type, items[i].value, items[i].given};
  }
  return construct_cluster(&c->c, list, n, span_of(c, at));
}

bool wv_construct_insert(wv_construct *c, const wv_cluster_item *op, const char *where,
                         wv_nodes target, wv_place at) {
  API_CONSTRUCT(c, false);
  if (!api_expected(c->kernel->cx, op != NULL, "an op") ||
      !api_text(c->kernel->cx, op->type, "an op") || !check_nodes(c, target))
    return false;
  ClusterItem item = {NODE_NONE, op->type, op->value, op->given};
  return construct_insert(&c->c, &item, where, nodes_of(target), span_of(c, at));
}

bool wv_construct_stagger(wv_construct *c, wv_nodes loop, wv_place at) {
  API_CONSTRUCT(c, false);
  return check_nodes(c, loop) && construct_stagger(&c->c, nodes_of(loop), span_of(c, at));
}

/* ---- applying ---- */

static void add_rows(Kernel *k, const ConstructRows *rows) {
  for (int i = 0; i < rows->n; i++)
    vec_push(k->arena, &k->constraints, constraint_copy(k, &rows->at[i]));
}

/* The first error since `before`; NULL: none. */
static const char *error_since(const Construct *c, const Diag *before) {
  const Diags *diags = &c->written->cx->diags;
  for (const Diag *d = before ? before->next : diags->first; d; d = d->next)
    if (diag_info[d->code].severity == SEVERITY_error)
      return arena_strndup(c->arena, d->text, strlen(d->text));
  return NULL;
}

/* Whether the machine can obey these rows; *why: the reason if not. */
static bool try_rows(wv_construct *h, const ConstructRows *rows, const char **why) {
  Construct *c = &h->c;
  Diags *diags = &c->written->cx->diags;
  Diag *before = diags->last;
  Kernel *k = kernel_clone(h->kernel->k);
  add_rows(k, rows);
  bool ok = ir_verify_constraints(k) && schedule_check(k);
  Kernel *copy = ok && c->target ? lowered(k, &h->target, "stages", c->arena) : NULL;
  *why = error_since(c, before);
  diags_cut(diags, before);
  kernel_free(copy);
  kernel_free(k);
  return ok && (copy || !c->target);
}

/* As much as the machine can obey; *why: why not more. False after reporting. */
static bool choose_rows(wv_construct *h, Arena *a, ConstructRows *rows, RowsLevel *level,
                        const char **why) {
  const char *reason = NULL;
  *why = NULL;
  for (*level = h->c.target ? ROWS_all : ROWS_copies; *level < ROWS_LEVELS; ++*level) {
    int dropped = h->c.dropped.n;
    *rows = (ConstructRows){0};
    if (!construct_rows(&h->c, *level, a, rows)) return false;
    if (try_rows(h, rows, &reason)) return true;
    if (!*why) *why = reason;
    h->c.dropped.n = dropped;
  }
  *rows = (ConstructRows){0};
  return true;
}

bool wv_construct_apply(wv_construct *c) {
  API_CONSTRUCT(c, false);
  Kernel *k = c->kernel->k;
  Arena *a = arena_new();
  ConstructRows rows = {0};
  RowsLevel level = ROWS_all;
  const char *why = NULL;
  bool runs = has_waves(&c->target);
  bool ok = !runs || choose_rows(c, a, &rows, &level, &why);
  if (ok) {
    add_rows(k, &rows);
    ir_renumber(k);
    if (runs) construct_remark(&c->c, level, why);
    else construct_remark(&c->c, ROWS_LEVELS, "nothing runs in waves there");
  }
  arena_free(a);
  return ok;
}
