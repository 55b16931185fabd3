/* sim_setup.c: prepares a kernel and its arguments: symbols of the launch, the geometry of the
 * grid, buffers, registers, compiled expressions. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/eval/arg_check.h"
#include "backend/sim/sim_state.h"
#include "ir/ops/alloc_layout.h"
#include "ir/ops/inline_ptx.h"

/* ---- symbols ---- */
static int symbol_slot(Sim *s, const char *name) {
  name = intern(&s->cx->names, name);
  uintptr_t found = (uintptr_t)map_get(&s->symbol_of, map_key(name));
  if (found) return (int)found - 1;
  vec_push(s->home, &s->symbols, ((Symbol){.name = name}));
  map_set(s->home, &s->symbol_of, map_key(name), (void *)(uintptr_t)s->symbols.n);
  return s->symbols.n - 1;
}

/* The pointer is only valid until the next call. */
static Symbol *symbol_called(Sim *s, const char *name) {
  int slot = symbol_slot(s, name);
  return &s->symbols.at[slot];
}

static void define(Sim *s, const char *name, int64_t v) {
  Symbol *symbol = symbol_called(s, name);
  symbol->known = symbol->constant = true;
  symbol->value = v;
}

static int varying_slot(Sim *s, const char *name) {
  int slot = symbol_slot(s, name);
  s->symbols.at[slot].varies = true;
  return slot;
}

/* The value of an expression over symbols of the launch. */
static bool launch_value(Sim *s, const Sym *e, Span at, int64_t *out) {
  if (!e) return *out = 1, true;
  FreeSymbols vars = sym_symbols(s->home, e);
  SymBinding *env = ARENA_ARRAY(s->home, SymBinding, vars.n + 1);
  for (int i = 0; i < vars.n; i++) {
    const Symbol *symbol = symbol_called(s, sym_name(vars.at[i]));
    if (!symbol->known) return ir_fail_unknown(s->k, symbol->name);
    env[i] = (SymBinding){vars.at[i], sym_int(s->cx->sym, symbol->value)};
  }
  if (sym_eval(e, env, vars.n, out)) return true;
  return sim_fail_setup(s, DIAG_E0710, at, "the value of `%s` is not an integer",
                        sym_text(s->cx->diags.arena, e));
}

/* NULL: it has not been used yet. */
static const Symbol *find_symbol(Sim *s, const Sym *symbol) {
  const char *name = intern(&s->cx->names, sym_name(symbol));
  uintptr_t found = (uintptr_t)map_get(&s->symbol_of, map_key(name));
  return found ? &s->symbols.at[found - 1] : NULL;
}

static bool has_value(Sim *s, const Sym *e, bool may_vary) {
  FreeSymbols vars = sym_symbols(s->home, e);
  for (int i = 0; i < vars.n; i++) {
    const Symbol *symbol = find_symbol(s, vars.at[i]);
    if (!symbol || !(symbol->known || (may_vary && symbol->varies))) return false;
  }
  return true;
}

/* Bind rows either give the sizes of tensors or follow from them; the latter are bound `later`. */
static bool bind_rows(Sim *s, bool later) {
  const Kernel *k = s->k;
  SymBinding *b = ARENA_ARRAY(s->home, SymBinding, k->constraints.n + 1);
  int n = 0;
  EACH_ROW(k, bind, c) b[n++] = (SymBinding){c->bind.symbol, c->bind.value};
  if (!sym_resolve_bindings(s->cx->sym, b, n))
    return sim_fail_setup(s, DIAG_E0104, k->at, "%s", sym_take_error(s->cx->sym));
  for (int i = 0; i < n; i++) {
    int64_t v;
    /* An address space, which is part of types by now. */
    if (b[i].to == k->cx->global_space || b[i].to == k->cx->shared_space) continue;
    if (later ? symbol_called(s, sym_name(b[i].from))->known : !has_value(s, b[i].to, false))
      continue;
    if (!launch_value(s, b[i].to, k->at, &v)) return false;
    define(s, sym_name(b[i].from), v);
  }
  return true;
}

/* $SIZE_a_0 and $STRIDE_a_0 are those of %a. */
static void bind_shape(Sim *s, int i) {
  const Type *t = s->k->body->args[i]->type;
  const EvalBuffer *b = s->args[i].buffer;
  if (t->kind != TYPE_mem || !b) return;
  char base[128];
  snprintf(base, sizeof base, "$BASE_%s", s->k->params.at[i].name);
  define(s, base, (int64_t)((uintptr_t)b->data % 256));
  for (int d = 0; d < t->rank && d < b->rank; d++) {
    char name[128];
    snprintf(name, sizeof name, "$STRIDE_%s_%d", s->k->params.at[i].name, d);
    define(s, name, b->strides[d]);
    snprintf(name, sizeof name, "$SIZE_%s_%d", s->k->params.at[i].name, d);
    define(s, name, b->shape[d]);
  }
}

/* A symbol that is not bound takes the size of a tensor; so do those that the value of a bound one mentions. */
static bool bind_sizes(Sim *s, const Sym *e, Span at) {
  FreeSymbols symbols = sym_symbols(s->home, e);
  for (int i = 0; i < symbols.n; i++) {
    int64_t v;
    const Symbol *symbol = find_symbol(s, symbols.at[i]);
    if (symbol && symbol->known) continue;
    const Constraint *row = kernel_constraint(s->k, CONSTRAINT_bind, symbols.at[i]);
    if (row && !bind_sizes(s, row->bind.value, at)) return false; /* rows refer to no cycle */
    if (row) continue;
    const Sym *size = ir_symbol_size(s->k, symbols.at[i]);
    if (size && !launch_value(s, size, at, &v)) return false;
    if (size) define(s, sym_name(symbols.at[i]), v);
  }
  return true;
}

static bool bind_shapes(Sim *s, int given) {
  for (int i = 0; i < given; i++) {
    bool is_memory = s->k->body->args[i]->type->kind == TYPE_mem;
    if (is_memory && !arg_is_tensor(s->k, i, s->args[i].buffer)) return false;
    bind_shape(s, i);
  }
  for (int i = 0; i < given; i++) {
    const Type *t = s->k->body->args[i]->type;
    Span at = s->k->params.at[i].at;
    for (int d = 0; t->kind == TYPE_mem && d < t->rank; d++)
      if (!bind_sizes(s, t->dims[d], at) || (t->layout && !bind_sizes(s, t->layout[d], at)))
        return false;
  }
  return true;
}

/* Arguments that the caller does not pass: tensors of debug logs, sized by their dims. */
static bool open_logs(Sim *s, int given) {
  EvalArg *args = ARENA_ARRAY(s->home, EvalArg, s->k->params.n);
  if (given) memcpy(args, s->args, sizeof *args * (size_t)given);
  s->args = args;
  for (int i = given; i < s->k->params.n; i++) {
    const Type *t = s->k->body->args[i]->type;
    const Param *p = &s->k->params.at[i];
    EvalBuffer *b = ARENA_NEW(s->home, EvalBuffer);
    *b = (EvalBuffer){.dtype = t->dtype, .rank = t->rank};
    for (int d = 0; d < t->rank; d++)
      if (!launch_value(s, t->dims[d], p->at, &b->shape[d])) return false;
    if (!log_allocate(s->home, b))
      return sim_fail_setup(s, DIAG_E0706, p->at, "the %s `%s` would have more than %lld elements",
                            p->log ? "debug log" : "workspace", p->log ? p->log : p->name,
                            (long long)LOG_MOST);
    if (p->undefined) log_fill(b);
    args[i].buffer = b;
    bind_shape(s, i);
  }
  return true;
}

static bool bind_scalars(Sim *s) {
  for (int i = 0; i < s->k->params.n; i++) {
    const Sym *symbol = s->k->params.at[i].binds;
    if (s->k->body->args[i]->type->kind == TYPE_mem) continue;
    if (!arg_is_value(s->k, i, s->args[i].integer)) return false;
    if (!symbol) continue;
    if (!arg_fits_symbol(s->k, i, s->args[i].integer)) return false;
    define(s, sym_name(symbol), s->args[i].integer);
  }
  return true;
}

/* An expression without an integer value is not true either. */
static bool holds(Sim *s, const Sym *e) {
  FreeSymbols vars = sym_symbols(s->home, e);
  SymBinding *env = ARENA_ARRAY(s->home, SymBinding, vars.n + 1);
  int64_t v;
  for (int i = 0; i < vars.n; i++) {
    int64_t value = symbol_called(s, sym_name(vars.at[i]))->value;
    env[i] = (SymBinding){vars.at[i], sym_int(s->cx->sym, value)};
  }
  return sym_eval(e, env, vars.n, &v) && v;
}

/* Assumptions about symbols that the program sets have no value yet. */
static bool check_assumptions(Sim *s) {
  EACH_ROW(s->k, assume, c) {
    if (!has_value(s, c->assume.condition, false) || holds(s, c->assume.condition)) continue;
    const char *text = sym_text(s->cx->diags.arena, c->assume.condition);
    if (s->o->without)
      diag_add(&s->cx->diags, DIAG_R0701, c->at,
               "the assumption `%s` does not hold for these arguments: `%s` runs code compiled "
               "without assumptions",
               text, s->k->name);
    if (s->o->without) return *s->o->without = true, false;
    return sim_fail_setup(s, DIAG_E0709, c->at,
                          "the assumption `%s` does not hold for these arguments", text);
  }
  return true;
}

/* ---- the launch ---- */

/* Without a machine: the best known one with waves of this size. */
static const TargetInfo *machine_for(int lanes) {
  static const char *const names[] = {"sm_90a", "gfx942", "toy8", "toy1"};
  for (size_t i = 0; i < WV_LEN(names); i++) {
    const TargetInfo *t = target_find(names[i]).machine;
    if (t && t->lanes == lanes) return t;
  }
  return target_find(names[0]).machine;
}

/* A CPU that emulates waves with as many lanes as the program has. */
static const TargetInfo *played_machine(Sim *s) {
  TargetInfo *played = ARENA_NEW(s->home, TargetInfo);
  *played = target_playing(s->machine, s->wave);
  return played;
}

/* The machine's limits on a launch: dimensions, clusters. */
static bool check_grid(Sim *s, const Constraint *c) {
  enum { MOST = 65535, PORTABLE = 8, CLUSTER_MOST = 16 };
  int64_t cluster = s->cluster[0] * s->cluster[1] * s->cluster[2];
  if (s->machine->vendor != VENDOR_NVIDIA) return true;
  for (int i = 1; i < 3; i++)
    if (s->grid[i] > MOST)
      return sim_fail_setup(s, DIAG_E0813, c->at,
                            "the grid has %lld workgroups along %d, expected at most %d",
                            (long long)s->grid[i], i, MOST);
  if (cluster > CLUSTER_MOST)
    return sim_fail_setup(s, DIAG_E0813, c->at,
                          "a cluster has %lld workgroups, expected at most %d", (long long)cluster,
                          CLUSTER_MOST);
  if (cluster > PORTABLE)
    diag_add(
        &s->cx->diags, DIAG_R0801, c->at,
        "a cluster of %lld workgroups is not portable: all machines with clusters support up to %d",
        (long long)cluster, PORTABLE);
  return true;
}

/* The maximum number of workgroups that the machine runs concurrently. */
static int64_t resident_most(const Sim *s) {
  enum { UNIT_THREADS = 2048, UNIT_GROUPS = 32 };
  const TargetInfo *m = s->machine;
  int64_t n = UNIT_THREADS / s->threads;
  if (!m->units) return INT32_MAX;
  if (s->shared_bytes && m->shared_most / s->shared_bytes < n) n = m->shared_most / s->shared_bytes;
  if (n > UNIT_GROUPS) n = UNIT_GROUPS;
  return m->units * (n > 1 ? n : 1);
}

static bool read_launch(Sim *s) {
  const Constraint *c = kernel_constraint(s->k, CONSTRAINT_launch, NULL);
  s->wave = c->launch.lanes;
  if (!s->machine) s->machine = machine_for(s->wave);
  if (target_has(s->machine, FEATURE_REGISTER_TILES) && launch_threads(&c->launch) != 1)
    s->machine = played_machine(s);
  s->shared_bytes = c->launch.shared;
  s->threads = 1;
  for (int i = 0; i < 3; i++) {
    if (!launch_value(s, c->launch.grid[i], c->at, &s->grid[i]) ||
        !launch_value(s, c->launch.block[i], c->at, &s->block[i]) ||
        !launch_value(s, c->launch.cluster[i], c->at, &s->cluster[i]))
      return false;
    if (s->block[i] < 1 || s->block[i] > 1024 || s->grid[i] < 0 || s->grid[i] > INT32_MAX ||
        s->cluster[i] < 1 || (s->grid[i] % s->cluster[i]))
      return sim_fail_setup(
          s, DIAG_E0813, c->at,
          "invalid launch: %lld workgroups of %lld threads along %d, in clusters of %lld",
          (long long)s->grid[i], (long long)s->block[i], i, (long long)s->cluster[i]);
    s->threads *= (int)s->block[i];
  }
  s->nwaves = (s->threads + s->wave - 1) / s->wave;
  if (!check_grid(s, c)) return false;
  if (s->wave != s->machine->lanes)
    return sim_fail_setup(s, DIAG_E0813, c->at, "the wave has %d lanes, but those of `%s` have %d",
                          s->wave, s->machine->name, s->machine->lanes);
  if (s->threads > s->machine->threads)
    return sim_fail_setup(s, DIAG_E0813, c->at,
                          "a workgroup has %d threads, but `%s` runs at most %d", s->threads,
                          s->machine->name, s->machine->threads);
  if (s->shared_bytes > s->machine->shared_most)
    return sim_fail_setup(s, DIAG_E0813, c->at,
                          "the kernel needs %lld bytes of shared memory, but `%s` has %d",
                          (long long)s->shared_bytes, s->machine->name, s->machine->shared_most);
  return true;
}

/* ---- buffers ---- */

static Buffer *buffer_new(Sim *s, const char *name, const Type *t) {
  Buffer *b = ARENA_NEW(s->home, Buffer);
  *b = (Buffer){.name = name, .type = t, .dtype = t->dtype, .rank = t->rank};
  b->bytes = (int)dtype_bytes(t->dtype, 1);
  b->shared = t->space == s->cx->shared_space;
  return b;
}

static void finish_geometry(Buffer *b) {
  int64_t stride = 1;
  b->contiguous = true;
  for (int d = b->rank - 1; d >= 0; d--) {
    if (b->size[d] != 1 && b->stride[d] != stride) b->contiguous = false;
    stride *= b->size[d];
  }
  b->elements = stride;
}

/* Unknown sizes (of an empty kernel's dims, for example) are the tensor's own. */
static bool check_size(Sim *s, int param, int d) {
  const Type *t = s->k->body->args[param]->type;
  const Sym *size = t->layout ? t->layout[d] : t->dims[d];
  int64_t expected;
  if (!size || !has_value(s, size, false)) return true;
  Diag *before = s->cx->diags.last;
  if (launch_value(s, size, s->k->params.at[param].at, &expected))
    return arg_has_size(s->k, param, s->args[param].buffer, d, expected);
  diags_cut(&s->cx->diags, before);
  return arg_size_is_broken(s->k, param, s->args[param].buffer, d);
}

static bool bind_tensor(Sim *s, int i) {
  const Value *v = s->k->body->args[i];
  const EvalBuffer *from = s->args[i].buffer;
  const Param *p = &s->k->params.at[i];
  for (int d = 0; d < v->type->rank; d++)
    if (!check_size(s, i, d)) return false;
  Buffer *b = buffer_new(s, p->name, v->type);
  b->data = from->data;
  for (int d = 0; d < b->rank; d++) {
    b->size[d] = from->shape[d];
    b->stride[d] = from->strides[d];
  }
  finish_geometry(b);
  b->param = i;
  s->buffer[v->id] = b;
  return true;
}

/* Padding is outside, like any address without an element. */
static void lay_out(Sim *s, Buffer *b, const MemLayout *m) {
  int elements = 1, size = mem_size(m);
  int *at = ARENA_ARRAY(s->home, int, size);
  for (int d = 0; d < m->dims; d++) elements *= m->extent[d];
  for (int i = 0; i < size; i++) at[i] = -1;
  for (int e = 0; e < elements; e++) at[mem_offset_of(m, e)] = e;
  b->memory = arena_copy(s->home, m, sizeof *m);
  b->element_at = at;
  b->contiguous = false;
  b->elements = size;
}

/* Sets the sizes, and the number of elements through the last one. */
static bool shape_alloc(Sim *s, const Op *op, Buffer *b, int64_t *elements) {
  const Type *t = op->results[0].type;
  const Attr *physical = op_attr(op, ATTR_physical), *memory = op_attr(op, ATTR_memory);
  *elements = 1;
  for (int d = b->rank - 1; d >= 0; d--) {
    int64_t extent;
    if (!launch_value(s, t->dims[d], op->at, &b->size[d])) return false;
    if (!launch_value(s, physical ? physical->exprs[d] : t->dims[d], op->at, &extent)) return false;
    if (memory && b->size[d] != memory->memory->extent[d])
      return sim_fail_setup(s, DIAG_E0813, op->at,
                            "`memory` has different extents than the allocation");
    b->stride[d] = *elements;
    if (extent < 0 || b->size[d] < 0 || extent > INT32_MAX || b->size[d] > INT32_MAX ||
        (*elements *= extent) > INT32_MAX)
      return sim_fail_setup(s, DIAG_E0813, op->at, "an allocation has more than %d elements",
                            INT32_MAX);
  }
  finish_geometry(b);
  b->elements = b->contiguous ? b->elements : *elements;
  if (!memory) return true;
  lay_out(s, b, memory->memory);
  *elements = b->elements;
  return true;
}

/* A shared allocation; without `base` it follows the previous one. */
static bool address_alloc(Sim *s, const Op *op, int64_t *end) {
  const Value *v = &op->results[0];
  Buffer *b = buffer_new(s, v->name ? v->name : "shared", v->type);
  int64_t elements;
  if (!b->shared)
    return sim_fail_setup(s, DIAG_E0813, op->at, "an allocation must be in shared memory");
  if (!shape_alloc(s, op, b, &elements)) return false;
  int64_t bytes = (int64_t)dtype_bytes(b->dtype, elements);
  b->base = alloc_base(op, *end);
  if (b->base + bytes > *end) *end = b->base + bytes;
  if (s->shared_grain > buffer_halves(b)) s->shared_grain = buffer_halves(b);
  s->buffer[v->id] = b;
  if (b->base >= 0 && b->base + bytes <= s->shared_bytes) return true;
  return sim_fail_setup(s, DIAG_E0813, op->at,
                        "an allocation ends at byte %lld, but shared memory has %lld bytes",
                        (long long)(b->base + bytes), (long long)s->shared_bytes);
}

/* ---- expressions ---- */

/* Thread ids and launch-uniform symbols only: the same in every workgroup. */
static bool depends_on_thread(const Sim *s, const SimExpr *x) {
  for (int i = 0; i < x->nvars; i++) {
    bool thread =
        x->var[i] == s->t_slot[0] || x->var[i] == s->t_slot[1] || x->var[i] == s->t_slot[2];
    const Symbol *symbol = x->var[i] < 0 ? NULL : &s->symbols.at[x->var[i]];
    if (!thread && (!symbol || !symbol->constant || symbol->varies)) return false;
  }
  return x->varies;
}

static SimExpr *compile(Sim *s, const Op *op, const Sym *e, bool *ok) {
  SimExpr *x = ARENA_NEW(s->home, SimExpr);
  FreeSymbols vars = sym_symbols(s->home, e);
  *x = (SimExpr){.sym = e, .nvars = vars.n, .var = ARENA_ARRAY(s->home, int, vars.n + 1)};
  for (int i = 0; i < vars.n; i++) {
    int operand;
    char end;
    if (sscanf(sym_name(vars.at[i]), "$APPLY_EXPR_ARG_%d%c", &operand, &end) == 1 && operand >= 0 &&
        operand < op->nargs) {
      x->var[i] = -1 - operand;
      x->varies = true;
      continue;
    }
    x->var[i] = symbol_slot(s, sym_name(vars.at[i]));
    x->varies |= s->symbols.at[x->var[i]].varies;
  }
  const Sym *whole = sym_is_bool(e) ? e : sym_floor(s->cx->sym, e);
  x->program = whole ? sym_compile(s->home, s->cx->sym, &whole, 1, vars.at, vars.n) : NULL;
  if (!x->program)
    *ok = sim_fail_setup(s, DIAG_E0710, op->at, "`%s` cannot be evaluated",
                         sym_text(s->cx->diags.arena, e));
  if (depends_on_thread(s, x)) {
    x->fixed = ARENA_ARRAY(s->home, int64_t, s->nwaves * s->wave);
    x->known = ARENA_ARRAY(s->home, bool, s->nwaves);
  }
  size_t slots = x->program ? (size_t)(vars.n + sym_program_slots(x->program)) : 0;
  if (s->expr_room < slots) s->expr_room = slots;
  return x;
}

static const Attr *expression_of(const Op *op) {
  static const AttrKey keys[] = {ATTR_expr, ATTR_trips, ATTR_bytes, ATTR_count};
  for (size_t i = 0; i < WV_LEN(keys); i++)
    if (op_has(op, keys[i])) return op_attr(op, keys[i]);
  const Attr *value = op_attr(op, op->kind == OP_softsign ? ATTR_cap : ATTR_value);
  return value && value->sym ? value : NULL;
}

/* In bands, so that all slots of panels are used. */
static void open_bands(Sim *s) {
  int slot = symbol_slot(s, IN_BANDS);
  s->symbols.at[slot].known = true;
  s->symbols.at[slot].value = 1;
}

/* Registers the symbols that ops set, before any expression asks whether they vary. */
static void open_symbols(Sim *s) {
  open_bands(s);
  for (int i = 0; i < 3; i++) {
    char name[8];
    snprintf(name, sizeof name, "$T%d", i);
    s->t_slot[i] = varying_slot(s, name);
    snprintf(name, sizeof name, "$WG%d", i);
    s->wg_slot[i] = symbol_slot(s, name);
    s->symbols.at[s->wg_slot[i]].known = true;
  }
  for (const Op *op = ir_first(s->k); op; op = ir_next(op)) {
    SimOp *x = &s->ops[op->id];
    if (op->kind == OP_for) {
      x->counter = symbol_slot(s, sym_name(ir_loop_counter(s->k, op_attr(op, ATTR_axis)->sym)));
      s->symbols.at[x->counter].known = true;
      s->symbols.at[x->counter].varies |= op_has(op, ATTR_from); /* lanes may start apart */
    }
    if (op->kind == OP_while || op->kind == OP_set_symbol) {
      x->counter = varying_slot(s, sym_name(op_attr(op, ATTR_version)->sym));
      s->symbols.at[x->counter].known = true;
    }
    if (op->kind != OP_while) continue;
    x->iter_slot = ARENA_ARRAY(s->home, int, op->body->nargs);
    for (int i = 1; i < op->body->nargs; i++) {
      char name[32];
      snprintf(name, sizeof name, WV_ITER_ARG "%d", i - 1);
      bool whole = !dtype_is_float(op->body->args[i]->type->dtype);
      x->iter_slot[i] = whole ? varying_slot(s, name) : -1;
      if (whole) s->symbols.at[x->iter_slot[i]].known = true;
    }
  }
}

/* The features that an op requires besides a row of mma.def; emulated ones need nothing. */
static unsigned needed_features(const Op *op) {
  static const unsigned needs[OP_COUNT] = {
      [OP_ldmatrix] = FEATURE_LDMATRIX,
      [OP_stmatrix] = FEATURE_STMATRIX,
      [OP_mbar_init] = FEATURE_MBARRIER,
      [OP_mbar_arrive_async] = FEATURE_MBARRIER | FEATURE_CP_ASYNC,
      [OP_copy_async] = FEATURE_CP_ASYNC,
      [OP_tma_load] = FEATURE_TMA,
      [OP_tma_store] = FEATURE_TMA,
      [OP_tma_prefetch] = FEATURE_TMA,
  };
  if (op->kind == OP_copy_async && op_has(op, ATTR_counted)) return FEATURE_DIRECT_LDS;
  if (op->kind == OP_ldmatrix && op_has(op, ATTR_columns)) return FEATURE_DS_TRANSPOSE;
  if (op->kind == OP_barrier && op_has(op, ATTR_bar)) return FEATURE_NAMED_BARRIER;
  if (op_has(op, ATTR_peer) || op_has(op, ATTR_multicast)) return needs[op->kind] | FEATURE_CLUSTER;
  return needs[op->kind];
}

static bool check_op(Sim *s, const Op *op) {
  if (op->kind == OP_inline_ptx && !inline_meaning(op))
    return inline_unknown(s->cx, op, "the simulator");
  if (!sim_step[op->kind])
    return sim_fail_setup(s, DIAG_E0409, op->at, "`%s` is not a thread-level op",
                          op_info[op->kind].name);
  if (!target_has(s->machine, needed_features(op)))
    return sim_fail_setup(s, DIAG_E0813, op->at, "`%s` does not have `%s`", s->machine->name,
                          op_info[op->kind].name);
  return true;
}

/* All assumptions about the symbol that an op sets, for its new value; NULL: none. */
static const Sym *assumed_of(Sim *s, const Op *op) {
  bool required;
  const Sym *symbol = op_attr(op, ATTR_symbol)->sym, *version = op_attr(op, ATTR_version)->sym;
  const Sym *all = kernel_has_checks(s->k) ? NULL : kernel_assumed_of(s->k, symbol, &required);
  for (int nonneg = 0; all && nonneg < 2; nonneg++) {
    const Sym *from = sym_symbol(s->cx->sym, sym_name(symbol), nonneg);
    all = sym_subst(s->cx->sym, all, &(SymBinding){from, version}, 1);
  }
  return all && has_value(s, all, true) ? all : NULL;
}

static bool prepare_op(Sim *s, const Op *op) {
  SimOp *x = &s->ops[op->id];
  bool ok = true;
  x->run = sim_step[op->kind];
  if (!check_op(s, op)) return false;
  const Attr *e = expression_of(op);
  if (e) x->expr = compile(s, op, e->sym, &ok);
  const Sym *assumed = op->kind == OP_set_symbol ? assumed_of(s, op) : NULL;
  if (assumed) x->expr = compile(s, op, assumed, &ok);
  const Attr *peer = op_attr(op, op->kind == OP_tma_load  ? ATTR_multicast
                                 : op->kind == OP_barrier ? ATTR_member
                                                          : ATTR_peer);
  if (peer) x->peer = compile(s, op, peer->sym, &ok);
  const Attr *coords = op_attr(op, ATTR_coords);
  if (coords) x->coords = ARENA_ARRAY(s->home, SimExpr *, coords->n);
  for (int i = 0; coords && i < coords->n; i++)
    x->coords[i] = compile(s, op, coords->exprs[i], &ok);
  for (int i = 0; op->body && i < op->body->nargs; i++)
    if (op->body->args[i]->type->kind == TYPE_mem)
      return sim_fail_setup(s, DIAG_E0813, op->at,
                            "memory cannot be carried by a loop: carry an offset instead");
  if (op->kind == OP_wave_mma || op->kind == OP_wgmma) ok = ok && mma_plan(s, x);
  return ok;
}

static bool check_symbols(Sim *s) {
  for (int i = 0; i < s->symbols.n; i++) {
    const Symbol *x = &s->symbols.at[i];
    if (!x->known && !x->varies) return ir_fail_unknown(s->k, x->name);
  }
  return true;
}

/* ---- registers ---- */

static void number_value(Sim *s, const Value *v) {
  s->reg_of[v->id] = s->nregs;
  s->nregs += v->type->kind == TYPE_mem ? 0 : v->type->n;
}

static int depth_of(const Op *op) {
  int depth = 0;
  for (; op; op = op->parent ? op->parent->owner : NULL) depth += op->body != NULL;
  return depth;
}

static void number_registers(Sim *s) {
  for (int i = 0; i < s->k->body->nargs; i++) number_value(s, s->k->body->args[i]);
  for (const Op *op = ir_first(s->k); op; op = ir_next(op)) {
    if (op->body && s->depth < depth_of(op)) s->depth = depth_of(op);
    for (int i = 0; i < op->nresults; i++) number_value(s, &op->results[i]);
    for (int i = 0; op->body && i < op->body->nargs; i++) number_value(s, op->body->args[i]);
  }
}

/* ---- units ---- */

static bool has_op(const Kernel *k, OpKind a, OpKind b) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == a || op->kind == b) return true;
  return false;
}

/* As many as its allocations have room for. */
static int count_mbars(const Kernel *k) {
  int64_t all = 0;
  for (const Op *alloc = ir_first(k); alloc; alloc = ir_next(alloc)) {
    bool is_one = false;
    if (alloc->kind != OP_alloc) continue;
    for (const Op *op = ir_first(k); op && !is_one; op = ir_next(op))
      is_one = op->kind == OP_mbar_init && op->args[0] == &alloc->results[0];
    const Type *t = alloc->results[0].type;
    int64_t elements = is_one, n;
    for (int i = 0; i < t->rank; i++) elements *= sym_is_int(t->dims[i], &n) ? n : 1;
    all += elements;
  }
  return all < SIM_MBARS ? (int)all : SIM_MBARS;
}

static void number_units(Sim *s) {
  s->per_unit = s->machine->lockstep ? s->wave : 1;
  int threads = s->nwaves * s->wave / s->per_unit;
  Units *u = &s->units;
  bool bulk = has_op(s->k, OP_tma_store, OP_tma_store);
  u->copies = threads;
  u->reads = u->copies + (has_op(s->k, OP_copy_async, OP_copy_async) ? threads : 0);
  u->writes = u->reads + (bulk ? threads : 0);
  u->wgmma = u->writes + (bulk ? threads : 0);
  u->mbars = u->wgmma + (has_op(s->k, OP_wgmma, OP_wgmma) ? s->nwaves : 0);
  u->all = u->mbars + count_mbars(s->k);
}

/* Whether a workgroup may learn from it what another has done: an atomic whose result nothing uses
 * only changes memory. */
static bool learns(const Kernel *k, const Op *op) {
  bool waits = op->kind == OP_load && op_has(op, ATTR_volatile);
  bool asks = op->kind == OP_atomic && ir_count_uses(k->body, &op->results[0]);
  return (waits || asks) && op->args[asks ? 1 : 0]->type->space != k->cx->shared_space;
}

/* Workgroups communicate if one may wait for what another writes. */
static bool talks(const Kernel *k) {
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (learns(k, op)) return true;
  return false;
}

/* Workgroups that communicate are all kept alive, with their registers and shared memory. */
static bool check_room(Sim *s) {
  const double most = 1 << 30; /* bytes */
  double groups = (double)s->grid[0] * (double)s->grid[1] * (double)s->grid[2];
  double cells = 2 * (double)s->shared_bytes / s->shared_grain, lanes = s->nwaves * s->wave;
  double registers = (s->nregs + s->symbols.n) * (double)sizeof(Reg);
  double each = 2 * (double)s->shared_bytes + cells * (double)sizeof(Cell) +
                lanes * ((double)sizeof(Lane) + registers);
  if (!s->talks || groups * each <= most) return true;
  const Constraint *c = kernel_constraint(s->k, CONSTRAINT_launch, NULL);
  return sim_fail_setup(s, DIAG_E0813, c->at,
                        "%.0f workgroups communicate through memory and must run together, but the "
                        "simulator has room for %.0f of this size",
                        groups, floor(most / each));
}

bool sim_setup(Sim *s, int nargs) {
  Kernel *k = s->k;
  if (k->level != LEVEL_THREAD)
    return sim_fail_setup(s, DIAG_E0409, k->at,
                          "`%s` is not a thread kernel: the simulator runs kernels at THREAD level",
                          k->name);
  int given = kernel_given(k);
  if (nargs != given)
    return sim_fail_setup(s, DIAG_E0702, k->at, "`%s` takes %d arguments, got %d", k->name, given,
                          nargs);
  s->ops = ARENA_ARRAY(s->home, SimOp, k->nops + 1);
  s->reg_of = ARENA_ARRAY(s->home, int, k->nvalues + 1);
  s->buffer = ARENA_ARRAY(s->home, Buffer *, k->nvalues + 1);
  s->shared_grain = 32;
  for (Op *op = ir_first(k); op; op = ir_next(op)) s->ops[op->id].op = op;
  if (!bind_scalars(s) || !bind_rows(s, false)) return false;
  if (!bind_shapes(s, given) || !bind_rows(s, true) || !open_logs(s, given)) return false;
  if (!check_assumptions(s) || !read_launch(s)) return false;
  for (int i = 0; i < k->params.n; i++)
    if (k->body->args[i]->type->kind == TYPE_mem && !bind_tensor(s, i)) return false;
  overlap_open(s);
  int64_t end = 0;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_alloc && !address_alloc(s, op, &end)) return false;
  number_registers(s);
  number_units(s);
  open_symbols(s);
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (!prepare_op(s, op)) return false;
  s->expr_work = ARENA_ARRAY(s->home, int64_t, s->expr_room *(size_t)s->wave);
  s->talks = talks(k);
  if (!check_room(s)) return false;
  s->resident = s->talks ? resident_most(s) : INT32_MAX;
  return check_symbols(s);
}
