/* construct_pipeline.c: loops cut into stages, and unrolled. */
#include "construct/construct.h"

static Diags *diags_of(const Construct *c) { return &c->k->cx->diags; }

const PipelineCall *construct_pipeline_of(const Construct *c, const Op *loop) {
  for (int i = 0; i < c->pipelines.n; i++)
    if (c->nodes.at[c->pipelines.at[i].loop].op == loop) return &c->pipelines.at[i];
  return NULL;
}

static bool check_loop(Construct *c, Nodes loop, const char *what, Span at) {
  if (construct_is_loop(c, loop)) return true;
  Diag *d = loop.n == 1 ? diag_add(diags_of(c), DIAG_E0218, at, "%s takes a loop, not `%s`", what,
                                   construct_name(c, loop.at[0]))
                        : diag_add(diags_of(c), DIAG_E0218, at, "%s takes one loop, not %d nodes",
                                   what, loop.n);
  return diag_hint(diags_of(c), d,
                   "give the loop a tag, `iterate(K, tag=\"k_loop\")`, and select it by that");
}

int construct_pipeline(Construct *c, Nodes loop, Span at) {
  if (!check_loop(c, loop, "`pipeline`", at)) return -1;
  const PipelineCall *first = construct_pipeline_of(c, c->nodes.at[loop.at[0]].op);
  if (first) {
    Diag *d = diag_add(diags_of(c), DIAG_E0218, at, "the loop `%s` is pipelined twice",
                       construct_name(c, loop.at[0]));
    diag_note(diags_of(c), d, first->at, "the first time is here");
    return -1;
  }
  PipelineCall made = {.loop = loop.at[0], .at = at};
  made.repeated = invariant_repeated(c->k, c->arena, c->nodes.at[loop.at[0]].op);
  vec_push(c->arena, &c->pipelines, made);
  return c->pipelines.n - 1;
}

/* ---- placing ---- */

static bool place(Construct *c, const PipelineCall *p, int i, int cycle, Span at) {
  Node *node = &c->nodes.at[i];
  if (construct_loop(node) != c->nodes.at[p->loop].op || i == p->loop) {
    Diag *d = diag_add(diags_of(c), DIAG_E0218, at, "`%s` is not in the loop `%s`",
                       construct_name(c, i), construct_name(c, p->loop));
    diag_note(diags_of(c), d, node->op->at, "the op");
    return false;
  }
  if (op_is_repeated(&p->repeated, node->op)) return true; /* of no iteration */
  if (node->stage != NODE_NONE) {
    Diag *d = diag_add(diags_of(c), DIAG_E0218, at, "`%s` is in stage %d and in stage %d",
                       construct_name(c, i), node->stage, p->depth);
    diag_note(diags_of(c), d, node->placed, "the first is here");
    return diag_hint(diags_of(c), d, "leave it out of one of them");
  }
  node->stage = p->depth, node->cycle = cycle, node->placed = at;
  return true;
}

bool construct_stage(Construct *c, int pipeline, const Nodes *cycles, int n, Span at) {
  PipelineCall *p = &c->pipelines.at[pipeline];
  if (p->closed || n < 1 || p->depth == SCHEDULE_STAGES)
    return diag_fail(diags_of(c), DIAG_E0218, at,
                     p->closed ? "the loop is pipelined already"
                     : n < 1   ? "a stage has at least one cycle"
                               : "a loop has at most 64 stages");
  if (p->depth && n != p->interval) {
    Diag *d = diag_add(diags_of(c), DIAG_E0218, at,
                       "stage %d has %d cycle%s, but the stages before it have %d", p->depth, n,
                       n == 1 ? "" : "s", p->interval);
    return diag_hint(diags_of(c), d,
                     "all stages have the same number of cycles; an empty one is `()`");
  }
  p->interval = n;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < cycles[i].n; j++)
      if (!place(c, p, cycles[i].at[j], i, at)) return false;
  p->depth++;
  return true;
}

/* ---- checking ---- */

static int time_of(const PipelineCall *p, const Node *node) {
  return node->stage * p->interval + node->cycle;
}

static bool fail_flow(Construct *c, int first, int later) {
  const Node *f = &c->nodes.at[first], *l = &c->nodes.at[later];
  Diag *d = diag_add(diags_of(c), DIAG_E0620, l->placed,
                     "`%s` needs `%s`, but its stage is %s: %d.%d before %d.%d",
                     construct_name(c, later), construct_name(c, first),
                     l->stage == f->stage ? "the same, and its cycle is earlier" : "earlier",
                     l->stage, l->cycle, f->stage, f->cycle);
  diag_note(diags_of(c), d, f->op->at, "computes `%s`, in stage %d", construct_plain_name(c, f),
            f->stage);
  diag_note(diags_of(c), d, l->op->at, "uses it, in stage %d", l->stage);
  return diag_hint(diags_of(c), d, "place `%s` in stage %d, cycle %d, or later",
                   construct_plain_name(c, l), f->stage, f->cycle);
}

static bool is_in(const Construct *c, const PipelineCall *p, const Node *node) {
  return node->stage != NODE_NONE && node->segment == SEGMENT_any &&
         construct_loop(node) == c->nodes.at[p->loop].op;
}

static bool check_flow(Construct *c, const PipelineCall *p) {
  for (int i = 0; i < c->nodes.n; i++)
    for (int j = 0; is_in(c, p, &c->nodes.at[i]) && j < c->nodes.n; j++) {
      const Node *first = &c->nodes.at[i], *later = &c->nodes.at[j];
      if (!is_in(c, p, later) || first->unrolled != later->unrolled) continue;
      if (time_of(p, later) < time_of(p, first) && construct_depends(c, later, first))
        return fail_flow(c, i, j);
    }
  return true;
}

/* ---- prologue and epilogue ---- */

static void add_copy(Construct *c, int base, Segment segment, int flight) {
  Node node = c->nodes.at[base];
  node.segment = segment, node.flight = flight, node.rank = NODE_NONE;
  vec_push(c->arena, &c->nodes, node);
}

/* An op of stage s runs for S - 1 - s iterations before the steady state, and for s after it. */
static void add_copies(Construct *c, const PipelineCall *p, int base) {
  int stage = c->nodes.at[base].stage, last = p->depth - 1;
  for (int i = 0; i < last - stage; i++) add_copy(c, base, SEGMENT_prologue, i);
  for (int i = last - stage; !p->masked && i < last; i++) add_copy(c, base, SEGMENT_epilogue, i);
}

/* `slots` are enough for what the stages say, if the copy is issued when the slot has been read. */
static bool check_slots(Construct *c, const PipelineCall *p) {
  if (p->slots >= 0 && p->slots <= SCHEDULE_STAGES) return true;
  return diag_fail(diags_of(c), DIAG_E0218, p->at, "an operand has 1 to %d buffers, not %d",
                   SCHEDULE_STAGES, p->slots);
}

bool construct_close(Construct *c, int pipeline, int slots, bool masked) {
  PipelineCall *p = &c->pipelines.at[pipeline];
  int n = c->nodes.n;
  if (p->closed) return true;
  p->slots = slots, p->masked = masked, p->closed = true;
  if (!p->depth) {
    Diag *d = diag_add(diags_of(c), DIAG_E0218, p->at, "the pipeline of `%s` has no stages",
                       construct_name(c, p->loop));
    return diag_hint(diags_of(c), d, "call `set_stage` once for each stage");
  }
  if (!check_slots(c, p) || !check_flow(c, p)) return false;
  for (int i = 0; i < n; i++) {
    Node *node = &c->nodes.at[i];
    if (!is_in(c, p, node)) continue;
    node->segment = SEGMENT_kernel;
    node->flight = p->depth - 1 - node->stage;
    if (c->nodes.n < NODE_MOST) add_copies(c, p, i);
  }
  return true;
}

Nodes construct_copies(Construct *c, Nodes from) {
  static const Segment order[] = {SEGMENT_prologue, SEGMENT_kernel, SEGMENT_epilogue};
  NodeVec out = {0};
  for (size_t s = 0; s < WV_LEN(order); s++)
    for (int i = 0; i < from.n; i++)
      for (int j = 0; j < c->nodes.n; j++)
        if (c->nodes.at[j].base == c->nodes.at[from.at[i]].base &&
            c->nodes.at[j].segment == order[s])
          vec_push(c->arena, &out, j);
  return out.n ? (Nodes){out.at, out.n} : from;
}

/* ---- unrolling ---- */

const UnrollCall *construct_unrolled(const Construct *c, const Op *loop) {
  for (int i = 0; i < c->unrolls.n; i++)
    if (c->unrolls.at[i].loop == loop) return &c->unrolls.at[i];
  return NULL;
}

static bool check_factor(Construct *c, const Op *loop, int factor, Span at) {
  int64_t trips;
  const Sym *count = distribute_trips(c->d, loop);
  const UnrollCall *before = construct_unrolled(c, loop);
  if (factor < 2 || factor > SCHEDULE_STAGES)
    return diag_fail(diags_of(c), DIAG_E0218, at, "a loop is unrolled 2 to %d times, not %d",
                     SCHEDULE_STAGES, factor);
  if (before) {
    Diag *d = diag_add(diags_of(c), DIAG_E0218, at, "the loop `%s` is unrolled twice",
                       schedule_loop_name(c->arena, loop));
    diag_note(diags_of(c), d, before->at, "the first time is here");
    return diag_hint(diags_of(c), d, "unroll it once, by the product of both factors");
  }
  if (!count || !sym_is_int(count, &trips) || trips % factor == 0) return true;
  if (construct_pipeline_of(c, loop)) return true; /* a rest runs in the epilogue */
  Diag *d = diag_add(diags_of(c), DIAG_E0218, at,
                     "the loop `%s` has %lld iterations, which %d does not divide",
                     schedule_loop_name(c->arena, loop), (long long)trips, factor);
  diag_note(diags_of(c), d, loop->at, "the loop");
  return false;
}

bool construct_unroll(Construct *c, Nodes loop, int factor, Span at) {
  if (!check_loop(c, loop, "`unroll`", at)) return false;
  const Op *op = c->nodes.at[loop.at[0]].op;
  if (!check_factor(c, op, factor, at)) return false;
  int n = c->nodes.n;
  for (int u = 1; u < factor; u++)
    for (int i = 0; i < n && c->nodes.n < NODE_MOST; i++) {
      Node node = c->nodes.at[i];
      bool kernel = node.segment == SEGMENT_any || node.segment == SEGMENT_kernel;
      if (i == loop.at[0] || construct_loop(&node) != op || !kernel || node.unrolled) continue;
      node.unrolled = u, node.base = c->nodes.n;
      vec_push(c->arena, &c->nodes, node);
    }
  vec_push(c->arena, &c->unrolls, ((UnrollCall){op, factor, at}));
  return true;
}
