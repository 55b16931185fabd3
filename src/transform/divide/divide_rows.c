/* divide_rows.c: see divide_rows.h. */
#include "transform/divide/divide_rows.h"

#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/ops/reductions.h"

typedef struct Query {
  Kernel *k;
  const Distribution *d;
  Arena *scratch;
  const Sym *dim; /* of the row in question */
} Query;

/* ---- what a division would change ---- */

/* An alias is divided with the dimension it stands for. */
static bool is_divided(const Query *q, const Sym *dim) {
  const Sym *base = dim_base(dim);
  const Constraint *alias = kernel_constraint(q->k, CONSTRAINT_alias, base);
  return base == q->dim || (alias && alias->alias.of == q->dim);
}

static bool has_divided_dim(const Query *q, const Type *t) {
  for (int i = 0; i < t->rank; i++)
    if (is_divided(q, t->dims[i])) return true;
  return false;
}

static bool combines(const Query *q, const Op *op) {
  const Attr *dim = op_attr(op, ATTR_dim);
  Product p;
  if (op_is_product(op)) return !product_of(q->k, op, &p) && is_divided(q, p.roles.k);
  return (op_is_reduction(op) || op_is_scan(op) || op->kind == OP_topk) && is_divided(q, dim->sym);
}

/* What the op does would no longer be the same; NULL: it would. */
static const char *why_not_with(const Query *q, const Op *op) {
  if (combines(q, op)) return "combines elements along it";
  if (op->kind == OP_alloc) return "is memory of the whole workgroup";
  if (op_has(op, ATTR_volatile)) return "may depend on what other workgroups do";
  bool each = op_is_atomic(op) || op->kind == OP_scatter_add || op->kind == OP_report;
  if (each && !has_divided_dim(q, op->args[0]->type)) return "is done once by each workgroup";
  if (op->kind == OP_set_symbol && is_divided(q, op_attr(op, ATTR_symbol)->sym))
    return "sets its position";
  return NULL;
}

static bool has_cluster(const HardwareSpec *hardware) {
  return hardware && ir_is_cluster(hardware->cluster);
}

/* The tile of an alias must follow that of the dimension. */
static const char *why_not_aliases(const Query *q, const Constraint *row) {
  int64_t one, two;
  EACH_ROW(q->k, alias, alias) {
    if (alias->alias.of != q->dim) continue;
    const Sym *twice = sym_mul(q->k->cx->sym, row->workgroup.size, sym_int(q->k->cx->sym, 2));
    const Sym *a = ir_alias_of(q->k->cx, alias, row->workgroup.size);
    const Sym *b = ir_alias_of(q->k->cx, alias, twice);
    bool linear = a && b && sym_is_int(a, &one) && sym_is_int(b, &two) && two == 2 * one;
    if (!linear || row->workgroup.start) return "an alias is not divided with it";
  }
  return NULL;
}

static const char *why_not_row(const Query *q, const Constraint *row) {
  const struct workgroup_row *w = &row->workgroup;
  if (q->d->explicit_grid) return "a grid row sets the number of workgroups";
  int peers;
  if (has_cluster(kernel_hardware(q->k)) || kernel_split_axis(q->k, &peers) >= 0)
    return "workgroups form clusters";
  if (kernel_constraint(q->k, CONSTRAINT_device, w->dim)) return "it is divided over devices";
  if (w->axis > 1)
    EACH_ROW(q->k, workgroup, other)
      if (other->workgroup.axis > 2) return "its workgroups share an id with those of others";
  return why_not_aliases(q, row);
}

/* ---- rows ---- */

/* A row that alone gives a dimension its tile. */
static bool is_tile_of_workgroup(const Query *q, const Constraint *row, int *tile) {
  int64_t n;
  int rows = 0;
  if (row->workgroup.secondary || !sym_is_int(row->workgroup.size, &n)) return false;
  EACH_ROW(q->k, workgroup, other) rows += other->workgroup.dim == row->workgroup.dim;
  EACH_ROW(q->k, tile, other) rows += other->tile.dim == row->workgroup.dim;
  *tile = n > 1 && n <= 1 << 20 ? (int)n : 1;
  return rows == 1 && *tile > 1;
}

static void consider(const Query *q, int number, DivideRows *out) {
  const Constraint *row = &q->k->constraints.at[number];
  DivideRow found = {.row = number, .dim = q->dim, .axis = row->workgroup.axis};
  if (out->n == DIVIDE_MOST || !is_tile_of_workgroup(q, row, &found.tile)) return;
  const Op *blamed = NULL;
  const char *why = why_not_row(q, row);
  for (const Op *op = ir_first(q->k); op && !why; op = ir_next(op))
    if ((why = why_not_with(q, op))) blamed = op;
  if (!why) out->at[out->n++] = found;
  else if (!out->why) out->refused = row, out->why = why, out->blamed = blamed;
}

DivideRows divide_rows(const Distribution *d, Arena *scratch) {
  DivideRows out = {0};
  Query q = {.k = d->k, .d = d, .scratch = scratch};
  for (int i = 0; i < d->k->constraints.n; i++) {
    if (d->k->constraints.at[i].kind != CONSTRAINT_workgroup) continue;
    q.dim = d->k->constraints.at[i].workgroup.dim;
    consider(&q, i, &out);
  }
  return out;
}

/* ---- workgroup ids ---- */

typedef struct Renumbering {
  SymCtx *sym;
  const Sym *id[2]; /* spelled as non-negative, or not */
  int parts;
} Renumbering;

static Renumbering renumbering(Kernel *k, int axis, int parts) {
  Renumbering r = {.sym = k->cx->sym, .parts = parts};
  for (int i = 0; i < 2; i++) r.id[i] = ir_numbered_symbol(k->cx, "$WG", axis, i);
  return r;
}

static bool is_of_id(const void *user, const Sym *s) {
  const Renumbering *r = user;
  return sym_contains(s, r->id[0]) || sym_contains(s, r->id[1]);
}

/* The number that the workgroup had. */
static const Sym *with_old_id(void *user, const Sym *s) {
  const Renumbering *r = user;
  const Sym *old = sym_floordiv(r->sym, r->id[1], sym_int(r->sym, r->parts));
  SymBinding to[] = {{r->id[0], old}, {r->id[1], old}};
  return sym_subst(r->sym, s, to, 2);
}

static const Sym *part_of(const Renumbering *r) {
  return sym_mod(r->sym, r->id[1], sym_int(r->sym, r->parts));
}

/* Ids in rows that follow one are not written, except in those of reordered ones. */
static bool mentions_id(Kernel *k, int row, const Renumbering *r) {
  int axis = k->constraints.at[row].workgroup.axis;
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *c = &k->constraints.at[i];
    bool follows = c->kind == CONSTRAINT_workgroup && c->workgroup.axis == axis && i != row;
    if (c->kind == CONSTRAINT_reorder || follows) return true;
  }
  return kernel_has_sym(k, (SymSearch){is_of_id, r, false});
}

/* A row that takes its position from the id. */
static void keep_position(Constraint *c, const Renumbering *r) {
  if (!c->workgroup.start) c->workgroup.start = sym_mul(r->sym, r->id[1], c->workgroup.size);
}

static bool renumber_row(Kernel *k, Constraint *c, int axis, Renumbering *r) {
  if (c->kind == CONSTRAINT_workgroup && c->workgroup.axis == axis) keep_position(c, r);
  if (!constraint_rewrite(k, c, with_old_id, r)) return false;
  if (c->kind == CONSTRAINT_reorder && c->reorder.axis == axis)
    c->reorder.id =
        sym_add(r->sym, sym_mul(r->sym, c->reorder.id, sym_int(r->sym, r->parts)), part_of(r));
  return true;
}

/* Everything but the row itself. */
static bool renumber(Kernel *k, int row, Renumbering *r) {
  int axis = k->constraints.at[row].workgroup.axis;
  for (int i = 0; i < k->constraints.n; i++)
    if (i != row && !renumber_row(k, &k->constraints.at[i], axis, r)) return false;
  for (Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; i < op->nattrs; i++)
      if (!attr_rewrite(k, &op->attrs[i], with_old_id, r)) return false;
  return true;
}

/* ---- dividing ---- */

/* A dim like M/32 of a tile of 16 elements of M would have half an element. */
static bool divides_dims(const Type *t, const Sym *dim, int tile) {
  const Sym *symbol;
  int64_t num, den;
  for (int i = 0; i < t->rank; i++)
    if (dim_base(t->dims[i]) == dim && t->dims[i] != dim &&
        (!sym_scaled_symbol(t->dims[i], &symbol, &num, &den) || tile % den))
      return false;
  return true;
}

static bool divides_all_dims(const Kernel *k, const Sym *dim, int tile) {
  for (int i = 0; i < k->params.n; i++)
    if (!divides_dims(k->body->args[i]->type, dim, tile)) return false;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    for (int i = 0; i < op->nresults; i++)
      if (!divides_dims(op->results[i].type, dim, tile)) return false;
  return true;
}

/* As many waves as before have smaller tiles. */
static bool divide_wave_row(Kernel *k, const Sym *dim, int parts) {
  int64_t n;
  for (int i = 0; i < k->constraints.n; i++) {
    Constraint *c = &k->constraints.at[i];
    if (c->kind != CONSTRAINT_wave || c->wave.dim != dim) continue;
    if (!sym_is_int(c->wave.size, &n) || n % parts) return false;
    c->wave.size = sym_int(k->cx->sym, n / parts);
  }
  return true;
}

bool divide_row(Kernel *k, const DivideRow *row, int parts) {
  SymCtx *sym = k->cx->sym;
  struct workgroup_row *w = &k->constraints.at[row->row].workgroup;
  int tile = row->tile / parts;
  Renumbering r = renumbering(k, row->axis, parts);
  if (!divides_all_dims(k, row->dim, tile) || !divide_wave_row(k, row->dim, parts)) return false;
  bool exact = mentions_id(k, row->row, &r);
  if (exact && !renumber(k, row->row, &r)) return sym_take_error(sym), false;
  const Sym *tiles = w->count ? w->count : sym_ceildiv(sym, w->dim, w->size);
  if (w->start) {
    const Sym *within = sym_mul(sym, part_of(&r), sym_int(sym, tile));
    w->start = sym_add(sym, with_old_id(&r, w->start), within);
  }
  if (exact || w->count) w->count = sym_mul(sym, tiles, sym_int(sym, parts));
  w->size = sym_int(sym, tile);
  return true;
}

/* ---- waves ---- */

/* The number of waves along an axis that the hardware row gives, times a factor. */
static void scale_given(Kernel *k, int axis, int factor, bool must) {
  SymCtx *sym = k->cx->sym;
  for (int i = 0; i < k->constraints.n; i++) {
    Constraint *c = &k->constraints.at[i];
    if (c->kind != CONSTRAINT_hardware) continue;
    const Sym *given = c->hardware.waves[axis];
    if (!given && !must) continue;
    for (int j = 0; j < 3; j++)
      if (must && !c->hardware.waves[j]) c->hardware.waves[j] = sym_int(sym, 1);
    c->hardware.waves[axis] = sym_mul(sym, c->hardware.waves[axis], sym_int(sym, factor));
  }
}

/* The longest tile of a wave that a workgroup's tile is divided into. */
bool divide_waves(Kernel *k, int factor) {
  Constraint *longest = NULL;
  int64_t n, most = 0;
  for (int i = 0; i < k->constraints.n; i++) {
    Constraint *c = &k->constraints.at[i];
    if (c->kind != CONSTRAINT_wave || !kernel_constraint(k, CONSTRAINT_workgroup, c->wave.dim))
      continue;
    if (sym_is_int(c->wave.size, &n) && n > most && n % factor == 0) longest = c, most = n;
  }
  if (!longest) {
    if (kernel_constraint(k, CONSTRAINT_wave, NULL)) return false;
    return scale_given(k, 0, factor, true), true;
  }
  longest->wave.size = sym_int(k->cx->sym, most / factor);
  scale_given(k, kernel_wave_axis(k, longest->wave.dim), factor, false);
  return true;
}
