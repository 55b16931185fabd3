/* verify_header.c: checks the constraints of a kernel against each other, with the values of the
 * symbols as far as they are bound (docs/language.md, section 4). A size that is still symbolic is
 * checked again once it is bound. */
#include <string.h>

#include "ir/attr.h"
#include "ir/build/build_state.h"

typedef struct Header {
  Kernel *k;
  SymBinding *bound;
  int nbound;
} Header;

#define REPORT(h, c, code, ...) diag_add(&(h)->k->cx->diags, DIAG_##code, (c)->at, __VA_ARGS__)
#define FAIL(h, c, code, ...) diag_fail(&(h)->k->cx->diags, DIAG_##code, (c)->at, __VA_ARGS__)
#define HINT(h, d, ...) diag_hint(&(h)->k->cx->diags, d, __VA_ARGS__)

static const char *text(Header *h, const Sym *s) { return sym_text(h->k->cx->diags.arena, s); }

static const Sym *bound_value(Header *h, const Sym *s) {
  return sym_subst(h->k->cx->sym, s, h->bound, h->nbound);
}

static bool bound_int(Header *h, const Sym *s, int64_t *v) {
  const Sym *value = s ? bound_value(h, s) : NULL;
  return value && sym_is_int(value, v);
}

/* ---- bindings ---- */

/* A scalar argument gives its symbol a value, and no row gives it another. */
static bool check_not_argument(Header *h, const Constraint *c, const char *what) {
  const Kernel *k = h->k;
  for (int i = 0; i < k->params.n; i++) {
    const Param *p = &k->params.at[i];
    if (!p->binds || !sym_same_name(p->binds, c->subject)) continue;
    Diag *d = REPORT(h, c, E0208, "`%s` is %s, but argument `%s` gives it its value",
                     sym_name(c->subject), what, p->name);
    return HINT(h, d, "leave it out of `subs` and `dynamic_symbols`, or pass an ordinary scalar");
  }
  return true;
}

static bool check_bindings(Header *h) {
  Kernel *k = h->k;
  SymCtx *sym = k->cx->sym;
  EACH_ROW(k, bind, c) {
    if (sym_kind(c->bind.symbol) != SYM_symbol)
      return FAIL(h, c, E0212, "only a symbol can be bound, not `%s`", text(h, c->bind.symbol));
    if (sym_name(c->bind.symbol)[0] == '$')
      return FAIL(h, c, E0212, "`%s` is a built-in symbol and cannot be bound",
                  sym_name(c->bind.symbol));
    if (kernel_constraint(k, CONSTRAINT_bind, c->bind.symbol) != c)
      return FAIL(h, c, E0208, "`%s` is bound twice", sym_name(c->bind.symbol));
    const Constraint *dynamic = kernel_constraint(k, CONSTRAINT_dynamic, c->bind.symbol);
    if (dynamic)
      return FAIL(h, c, E0208, "`%s` is both bound and dynamic", sym_name(c->bind.symbol));
    if (!check_not_argument(h, c, "bound")) return false;
  }
  const Constraint *first = kernel_constraint(k, CONSTRAINT_bind, NULL);
  if (!first) first = kernel_constraint(k, CONSTRAINT_alias, NULL);
  h->nbound = kernel_bindings(k, h->bound);
  return sym_resolve_bindings(sym, h->bound, h->nbound) ||
         FAIL(h, first, E0104, "%s", sym_take_error(sym));
}

/* ---- single rows ---- */

/* Only a symbol of the author's: an expression has no name under which a launch could give it a
 * value. */
static bool check_dynamic(Header *h, const Constraint *c) {
  if (sym_kind(c->dynamic.symbol) != SYM_symbol)
    return FAIL(h, c, E0212, "only a symbol can be dynamic, not `%s`", text(h, c->dynamic.symbol));
  if (sym_name(c->dynamic.symbol)[0] == '$')
    return FAIL(h, c, E0212, "`%s` is a built-in symbol and cannot be dynamic",
                sym_name(c->dynamic.symbol));
  return check_not_argument(h, c, "dynamic");
}

static bool check_expect(Header *h, const Constraint *c) {
  int64_t value;
  if (sym_kind(c->expect.symbol) != SYM_symbol)
    return FAIL(h, c, E0212, "only a symbol has an expected value, not `%s`",
                text(h, c->expect.symbol));
  if (kernel_constraint(h->k, CONSTRAINT_expect, c->expect.symbol) != c)
    return FAIL(h, c, E0208, "`%s` has two expected values", sym_name(c->expect.symbol));
  if (sym_is_int(c->expect.value, &value) && value > 0) return true;
  return FAIL(h, c, E0212, "the expected value of `%s` is `%s`, not a positive number",
              sym_name(c->expect.symbol), text(h, c->expect.value));
}

static bool check_size(Header *h, const Constraint *c) {
  int64_t size;
  if (!bound_int(h, c->divided.size, &size) || size > 0) return true;
  bool plain = c->kind == CONSTRAINT_tile; /* or "the workgroup tile", "the wave tile" */
  Diag *d =
      REPORT(h, c, E0204, "the %s%stile of `%s` is %lld", plain ? "" : constraint_name[c->kind],
             plain ? "" : " ", text(h, c->divided.dim), (long long)size);
  if (c->divided.size != bound_value(h, c->divided.size))
    HINT(h, d, "`%s` has this value", text(h, c->divided.size));
  else HINT(h, d, "a tile has at least one element");
  return false;
}

static bool check_axis(Header *h, const Constraint *c, int axis, int most) {
  if (axis >= 0 && axis <= most) return true;
  Diag *d = REPORT(h, c, E0207, "%s dimension %d is out of range 0 to %d", constraint_name[c->kind],
                   axis, most);
  return HINT(h, d, "number the dimensions from 0");
}

/* ---- sizes of a launch ---- */

/* A symbol that only exists inside a launch, such as a thread id; NULL: none. */
static const Sym *inner_symbol(const Header *h, const Sym *s) {
  FreeSymbols symbols = sym_symbols(h->k->arena, s);
  for (int i = 0; i < symbols.n; i++)
    if (sym_name(symbols.at[i])[0] == '$') return symbols.at[i];
  return NULL;
}

/* How much runs is decided before there are any ids. Bound symbols may mention ids (a part of K for
 * each workgroup), so their values are checked. */
static bool check_outer(Header *h, const Constraint *c, const Sym *s) {
  const Sym *inner = s ? inner_symbol(h, bound_value(h, s)) : NULL;
  if (!inner) return true;
  Diag *d = REPORT(h, c, E0212, "the launch size cannot depend on `%s`", sym_name(inner));
  for (int i = 0; i < h->nbound; i++) {
    const SymBinding *b = &h->bound[i];
    bool takes_part = sym_subst(h->k->cx->sym, s, b, 1) != s && inner_symbol(h, b->to) == inner;
    const Constraint *row = kernel_constraint(h->k, CONSTRAINT_bind, b->from);
    if (takes_part && row)
      diag_note(&h->k->cx->diags, d, row->at, "`%s` is `%s`", sym_name(b->from), text(h, b->to));
  }
  return false;
}

static bool check_outer3(Header *h, const Constraint *c, const Sym *const sizes[3]) {
  return check_outer(h, c, sizes[0]) && check_outer(h, c, sizes[1]) && check_outer(h, c, sizes[2]);
}

static bool check_count(Header *h, const Constraint *c) {
  if (c->workgroup.secondary) return true;
  if (c->workgroup.count) return check_outer(h, c, c->workgroup.count);
  return check_outer(h, c, c->workgroup.dim) && check_outer(h, c, c->workgroup.size);
}

static bool check_launch(Header *h, const Constraint *c) {
  const LaunchSpec *l = &c->launch;
  int64_t threads = 1, v;
  if (!check_outer3(h, c, l->grid) || !check_outer3(h, c, l->block) ||
      !check_outer3(h, c, l->cluster))
    return false;
  if (l->lanes < 1 || l->lanes > 64)
    return FAIL(h, c, E0212, "a wave has %d lanes, expected 1 to 64", l->lanes);
  for (int i = 0; i < 3; i++) {
    if (bound_int(h, l->grid[i], &v) && v < 0)
      return FAIL(h, c, E0212, "the grid has %lld workgroups along %d", (long long)v, i);
    if (!bound_int(h, l->block[i], &v)) continue;
    if (v < 1 || v > 1024)
      return FAIL(h, c, E0212, "a workgroup has %lld threads along %d", (long long)v, i);
    threads *= v;
  }
  return threads <= 1024 || FAIL(h, c, E0212, "a workgroup has %lld threads, expected at most 1024",
                                 (long long)threads);
}

static bool check_stages(Header *h, const Constraint *c) {
  int64_t n;
  if (!bound_int(h, c->stages.count, &n) || (n >= 0 && n <= 64)) return true;
  return FAIL(h, c, E0212, "a loop has 1 to 64 stages, or 0 to let the compiler choose, not %lld",
              (long long)n);
}

static bool check_occupancy(Header *h, const Constraint *c) {
  enum { WAVES = 20 };
  int64_t n;
  if (!bound_int(h, c->occupancy.waves, &n) || (n >= 0 && n <= WAVES)) return true;
  return FAIL(h, c, E0212, "a SIMD runs 1 to %d waves, or 0 for any number, not %lld", WAVES,
              (long long)n);
}

static bool check_persist(Header *h, const Constraint *c) {
  int64_t n;
  if (!bound_int(h, c->persist.workgroups, &n) || n >= 0) return true;
  return FAIL(h, c, E0212,
              "`persist` takes a number of workgroups, or 0 for one per tile, not %lld",
              (long long)n);
}

enum { SPLIT_MOST = 64 }; /* as many reads follow each other */

static bool check_split(Header *h, const Constraint *c) {
  int64_t n;
  if (!bound_int(h, c->split.parts, &n) || (n >= 0 && n <= SPLIT_MOST)) return true;
  return FAIL(h, c, E0212, "`split` takes a number of workgroups from 0 to %d, not %lld",
              SPLIT_MOST, (long long)n);
}

static bool check_timeline(Header *h, const Constraint *c) {
  int64_t n;
  if (!bound_int(h, c->timeline.first, &n) || n >= 0) return true;
  return FAIL(h, c, E0212, "the first iteration of a timeline is 0 or more, not %lld",
              (long long)n);
}

static bool check_switch(Header *h, const Constraint *c) {
  int64_t n;
  if (!bound_int(h, c->option.allowed, &n) || n == 0 || n == 1) return true;
  return FAIL(h, c, E0212, "`%s` must be 0 or 1, not %lld", constraint_name[c->kind], (long long)n);
}

/* A symbol that takes its value from the arguments of a launch. */
static bool is_given_late(const Kernel *k, const Sym *symbol) {
  if (kernel_constraint(k, CONSTRAINT_dynamic, symbol)) return true;
  for (int i = 0; i < k->params.n; i++)
    if (k->params.at[i].binds == symbol) return true;
  return false;
}

/* No later row can give this condition a value. */
static bool is_settled(const Header *h, const Sym *s) {
  FreeSymbols symbols = sym_symbols(h->k->arena, s);
  for (int i = 0; i < symbols.n; i++)
    if (!is_given_late(h->k, symbols.at[i])) return false;
  return true;
}

/* A kernel runs on one device, which must have the whole dimension: launches on several devices are
 * not supported yet. */
static bool check_device(Header *h, const Constraint *c) {
  SymCtx *sym = h->k->cx->sym;
  const Sym *dim = bound_value(h, c->device.dim), *size = bound_value(h, c->device.size);
  const Sym *whole = dim && size ? sym_le(sym, dim, size) : NULL;
  if (!whole || sym_proves(sym, NULL, whole)) return true;
  if (!is_settled(h, whole) && sym_prove(sym, NULL, whole) == SYM_UNKNOWN) return true;
  int64_t extent, part;
  Diag *d = REPORT(h, c, E0215, "`%s` is split across devices, which is not supported yet",
                   text(h, c->device.dim));
  if (sym_is_int(dim, &extent) && sym_is_int(size, &part))
    HINT(h, d,
         "`%s` is %lld and each device has %lld of it: assign the whole dimension to one device",
         text(h, c->device.dim), (long long)extent, (long long)part);
  else
    HINT(h, d,
         "whether `%s` fits in `%s` must be known at compile time: bind both, or use `%s` as the "
         "tile",
         text(h, c->device.dim), text(h, c->device.size), text(h, c->device.dim));
  return false;
}

/* ---- every row ---- */

static bool check_view(Header *h, const Constraint *c) {
  const char *name = sym_name(c->view.argument);
  for (int i = 0; name && i < h->k->params.n; i++)
    if (strcmp(h->k->params.at[i].name, name) == 0 && h->k->body->args[i]->type->kind == TYPE_mem)
      return true;
  return FAIL(h, c, E0212, "`%s` is not a tensor among the arguments", text(h, c->view.argument));
}

/* Of what exists: no wave has more than 64 lanes, and no workgroup more threads than check_launch
 * allows. The waves of a cluster are divided evenly. */
static bool check_machine(Header *h, const Constraint *c) {
  enum { LANES = 64, THREADS = 1024, CLUSTER = 16 };
  const MachineSpec *m = &c->machine;
  if (m->cluster && (m->cluster < 1 || m->cluster > CLUSTER || m->waves % m->cluster ||
                     m->service || m->observable))
    return FAIL(h, c, E0212,
                "a cluster has 1 to %d workgroups, which share the waves of a tile-pure kernel "
                "evenly and have no service waves",
                CLUSTER);
  int64_t waves = m->cluster ? m->waves / m->cluster : m->waves;
  return (m->lanes > 0 && m->lanes <= LANES && waves > 0 && m->service >= 0 &&
          waves + m->service <= THREADS / m->lanes) ||
         FAIL(h, c, E0212, "a machine has 1 to %d lanes and at most %d threads", LANES, THREADS);
}

/* Waves of a workgroup along each dimension, where they are known. */
static bool check_waves(Header *h, const Constraint *c) {
  enum { WAVES = 1024 };
  for (int d = 0; d < 3; d++) {
    const Sym *waves = c->hardware.waves[d] ? bound_value(h, c->hardware.waves[d]) : NULL;
    int64_t n;
    if (waves && sym_is_int(waves, &n) && (n < 1 || n > WAVES))
      return FAIL(h, c, E0212, "a workgroup has 1 to %d waves along %d, not %lld", WAVES, d,
                  (long long)n);
  }
  return true;
}

static bool check_fields(Header *h, const Constraint *c) {
  switch (c->kind) {
  case CONSTRAINT_workgroup:
    return check_axis(h, c, c->workgroup.axis, 4) && check_size(h, c) && check_count(h, c);
  case CONSTRAINT_device:
    return check_axis(h, c, c->device.axis, 2) && check_size(h, c) && check_device(h, c);
  case CONSTRAINT_reorder: return check_axis(h, c, c->reorder.axis, 2);
  case CONSTRAINT_wave: return check_size(h, c) && check_outer(h, c, c->wave.size);
  case CONSTRAINT_tile: return check_size(h, c);
  case CONSTRAINT_hardware:
    if (c->hardware.threads <= 0)
      return FAIL(h, c, E0212, "threads per wave is %d, expected a positive number",
                  c->hardware.threads);
    return check_outer3(h, c, c->hardware.waves) && check_waves(h, c) &&
           check_outer3(h, c, c->hardware.cluster) &&
           build_check_mma_name(h->k->cx, c->hardware.mma.name, c->at);
  case CONSTRAINT_launch: return check_launch(h, c);
  case CONSTRAINT_machine: return check_machine(h, c);
  case CONSTRAINT_assume:
    if (sym_is_bool(c->assume.condition)) return true;
    return FAIL(h, c, E0212, "an assumption must be a condition, not `%s`",
                text(h, c->assume.condition));
  case CONSTRAINT_grid: return check_outer(h, c, c->grid.workgroups);
  case CONSTRAINT_persist: return check_outer(h, c, c->persist.workgroups) && check_persist(h, c);
  case CONSTRAINT_split: return check_outer(h, c, c->split.parts) && check_split(h, c);
  case CONSTRAINT_raster: return check_axis(h, c, c->raster.axis, 1);
  case CONSTRAINT_view: return check_view(h, c);
  case CONSTRAINT_dynamic: return check_dynamic(h, c);
  case CONSTRAINT_expect: return check_expect(h, c);
  case CONSTRAINT_stages: return check_outer(h, c, c->stages.count) && check_stages(h, c);
  case CONSTRAINT_occupancy: return check_outer(h, c, c->occupancy.waves) && check_occupancy(h, c);
  case CONSTRAINT_timeline: return check_outer(h, c, c->timeline.first) && check_timeline(h, c);
  case CONSTRAINT_boxes:
  case CONSTRAINT_repack:
  case CONSTRAINT_again:
  case CONSTRAINT_warm:
  case CONSTRAINT_fetch:
  case CONSTRAINT_subnormals:
  case CONSTRAINT_buffers:
  case CONSTRAINT_swizzle:
  case CONSTRAINT_overlap: return check_outer(h, c, c->option.allowed) && check_switch(h, c);
  case CONSTRAINT_schedule: /* schedule_check */
  case CONSTRAINT_ring:
  case CONSTRAINT_place:
  case CONSTRAINT_prio:
  case CONSTRAINT_fence:
  case CONSTRAINT_roles:
  case CONSTRAINT_member:
  case CONSTRAINT_turns:
  case CONSTRAINT_order:
  case CONSTRAINT_iterators:
  case CONSTRAINT_alias:
  case CONSTRAINT_bind:
  case CONSTRAINT_COUNT: return true;
  }
  return true;
}

/* A row that was not parsed may lack what the parser would insist on. */
static bool has_operands(const Constraint *c) {
  EACH_CLAUSE(cl, c->kind) {
    bool is_sym = cl->kind == CLAUSE_DIM || cl->kind == CLAUSE_EXPR || cl->kind == CLAUSE_THREE;
    bool is_word = cl->kind == CLAUSE_WORD;
    if (cl->must && (is_sym || is_word) && !*(void **)clause_field(c, cl)) return false;
  }
  return true;
}

static bool check_rows(Header *h) {
  bool ok = true;
  for (int i = 0; i < h->k->constraints.n; i++) ok &= check_fields(h, &h->k->constraints.at[i]);
  return ok;
}

static bool check_complete(Header *h) {
  for (int i = 0; i < h->k->constraints.n; i++) {
    const Constraint *c = &h->k->constraints.at[i];
    if (!has_operands(c))
      return FAIL(h, c, E0212, "this %s constraint has no expression", constraint_name[c->kind]);
  }
  return true;
}

/* ---- rows against each other ---- */

static bool check_hardware(Header *h) {
  const Constraint *first = NULL;
  EACH_ROW(h->k, hardware, c) {
    if (first) {
      Diag *d = REPORT(h, c, E0202, "a second hardware constraint");
      diag_note(&h->k->cx->diags, d, first->at, "the first is here");
      return HINT(h, d, "merge the fields of both into one");
    }
    first = c;
  }
  if (first) return true;
  Diag *d = diag_add(&h->k->cx->diags, DIAG_E0201, h->k->at,
                     "kernel `%s` has no hardware constraint", h->k->name);
  return HINT(h, d,
              "add `HardwareConstraint(threads_per_wave=64)`, or in text IR `hardware threads 64`");
}

static bool check_workgroups(Header *h) {
  const Constraint *primary[5] = {0};
  int used = 0, most = -1, least = 5;
  EACH_ROW(h->k, workgroup, c) {
    int axis = c->workgroup.axis;
    used |= 1 << axis;
    most = axis > most ? axis : most;
    least = axis < least ? axis : least;
    if (c->workgroup.secondary) continue;
    if (primary[axis]) {
      Diag *d = REPORT(h, c, E0206, "`%s` and `%s` are both primary on workgroup dimension %d",
                       text(h, primary[axis]->workgroup.dim), text(h, c->workgroup.dim), axis);
      diag_note(&h->k->cx->diags, d, primary[axis]->at, "the first is here");
      return HINT(h, d, "give one of them `primary=False`, or another workgroup dimension");
    }
    primary[axis] = c;
  }
  bool grid = kernel_constraint(h->k, CONSTRAINT_grid, NULL) != NULL;
  if (most < 0 && !grid)
    return diag_fail(&h->k->cx->diags, DIAG_E0209, h->k->at,
                     "kernel `%s` has no workgroup constraint", h->k->name);
  for (int i = least; i < most; i++) {
    if (used >> i & 1) continue;
    Diag *d = REPORT(h, kernel_constraint(h->k, CONSTRAINT_workgroup, NULL), E0207,
                     "workgroup dimensions %d and %d are used, but %d is not", least, most, i);
    return HINT(h, d, "move a dimension to workgroup dimension %d", i);
  }
  return true;
}

static bool fail_axis(Header *h, const Constraint *wave, const Constraint *tile) {
  const char *dim = text(h, wave->wave.dim);
  if (tile->kind == CONSTRAINT_tile) {
    Diag *d =
        REPORT(h, wave, E0213, "the waves of three other dimensions leave none for `%s`", dim);
    return HINT(h, d, "remove one of the `WaveConstraint`s");
  }
  Diag *d = REPORT(h, wave, E0213, "`%s` is on workgroup dimension %d, which has no waves", dim,
                   tile->workgroup.axis);
  return HINT(h, d, "move `%s` to workgroup dimension 0, 1 or 2, or remove its `WaveConstraint`",
              dim);
}

static bool check_wave(Header *h, const Constraint *wave) {
  const Constraint *tile = kernel_wave_tile(h->k, wave->wave.dim);
  const char *dim = text(h, wave->wave.dim);
  if (!tile) {
    Diag *d = REPORT(h, wave, E0205,
                     "`%s` has a wave constraint but no tile that waves could share", dim);
    return HINT(h, d,
                "add `WorkgroupConstraint(%s, ...)`, or `TilingConstraint(%s, ...)` for a loop",
                dim, dim);
  }
  if (kernel_wave_axis(h->k, wave->wave.dim) > 2) return fail_axis(h, wave, tile);
  int64_t whole = 1, wave_tile;
  if (tile->divided.size && !bound_int(h, tile->divided.size, &whole)) return true;
  const Sym *size = bound_value(h, wave->wave.size);
  if (!bound_int(h, wave->wave.size, &wave_tile)) {
    int64_t num, den;
    if (!size || !sym_is_rational(size, &num, &den)) return true;
    wave_tile = 0; /* a fraction divides nothing */
  }
  if (wave_tile > 0 && whole % wave_tile == 0) return true;
  const char *of = tile->kind == CONSTRAINT_tile ? "loop's" : "workgroup";
  Diag *d = REPORT(h, wave, E0203, "the wave tile %s of `%s` does not divide the %s tile %lld",
                   size ? text(h, size) : "?", dim, of, (long long)whole);
  diag_note(&h->k->cx->diags, d, tile->at, "the %s tile is set here", of);
  return HINT(h, d, "choose a wave tile that divides %lld", (long long)whole);
}

static bool check_once(Header *h, ConstraintKind kind, bool per_dim, const char *what) {
  for (const Constraint *c = NULL; (c = kernel_next_row(h->k, kind, c));) {
    const Constraint *first = kernel_constraint(h->k, kind, per_dim ? c->subject : NULL);
    if (first == c) continue;
    Diag *d = REPORT(h, c, E0208, "%s is given twice", what);
    diag_note(&h->k->cx->diags, d, first->at, "the first is here");
    return false;
  }
  return true;
}

static bool check_repeats(Header *h) {
  static const struct {
    ConstraintKind kind;
    bool per_dim;
    const char *what;
  } once[] = {{CONSTRAINT_workgroup, true, "the workgroup constraint of a dimension"},
              {CONSTRAINT_wave, true, "the wave constraint of a dimension"},
              {CONSTRAINT_tile, true, "the tiling constraint of a dimension"},
              {CONSTRAINT_device, true, "the device constraint of a dimension"},
              {CONSTRAINT_grid, false, "the grid constraint"},
              {CONSTRAINT_persist, false, "the `persist` row"},
              {CONSTRAINT_split, false, "the `split` row"},
              {CONSTRAINT_raster, false, "the `raster` row"},
              {CONSTRAINT_stages, false, "the number of stages"},
              {CONSTRAINT_timeline, false, "the `timeline` row"},
              {CONSTRAINT_boxes, false, "the `boxes` row"},
              {CONSTRAINT_repack, false, "the `repack` row"},
              {CONSTRAINT_again, false, "the `again` row"},
              {CONSTRAINT_warm, false, "the `warm` row"},
              {CONSTRAINT_fetch, false, "the `fetch` row"},
              {CONSTRAINT_swizzle, false, "the `swizzle` row"},
              {CONSTRAINT_overlap, false, "the `overlap` row"},
              {CONSTRAINT_occupancy, false, "the `occupancy` row"},
              {CONSTRAINT_subnormals, false, "the `subnormals` row"},
              {CONSTRAINT_buffers, false, "the `buffers` row"},
              {CONSTRAINT_machine, false, "the machine"},
              {CONSTRAINT_iterators, false, "the list of iterators"}};
  for (size_t i = 0; i < WV_LEN(once); i++)
    if (!check_once(h, once[i].kind, once[i].per_dim, once[i].what)) return false;
  return true;
}

/* A tile kernel says how the machine is divided; a lane's program says what it runs on. */
static bool check_level(Header *h) {
  const Constraint *launch = kernel_constraint(h->k, CONSTRAINT_launch, NULL);
  if (h->k->level == LEVEL_TILE)
    return !launch || FAIL(h, launch, E0212, "a `launch` row is allowed only in a thread kernel");
  if (launch) return check_once(h, CONSTRAINT_launch, false, "the launch");
  Diag *d = diag_add(&h->k->cx->diags, DIAG_E0214, h->k->at,
                     "thread kernel `%s` has no `launch` row", h->k->name);
  return HINT(h, d, "add `launch grid (1) block (32) wave 32`");
}

bool ir_verify_constraints(Kernel *k) {
  Arena *scratch = arena_new();
  Header h = {k, ARENA_ARRAY(scratch, SymBinding, k->constraints.n + 1), 0};
  bool ok = check_complete(&h) && check_bindings(&h) && check_level(&h) &&
            (k->level == LEVEL_THREAD || check_hardware(&h)) && check_rows(&h) &&
            (k->level == LEVEL_THREAD || check_workgroups(&h)) && check_repeats(&h);
  EACH_ROW(k, wave, c) ok = ok && check_wave(&h, c);
  arena_free(scratch);
  return ok;
}
