/* lower_lookup.c: elements of a tile at coordinates other than those a lane holds.
 *
 *     %page = read %table                                   table[floor(t/4)], loaded again by
 *     %x = read %cache, %page {... with {B: floor($index0 / 4)}}      the lane that needs it
 *
 * Values that mappings look up come from tables: memory that was read, and arithmetic on it. So
 * they are recomputed where they are needed, instead of being passed from lane to lane. A table
 * that the kernel writes might have changed by then, and is refused. */
#include "ir/dtype.h"
#include "lower_threads/lower.h"

/* A value that was recomputed at other coordinates. */
typedef struct Made {
  const Value *of;
  const Sym *const *coords;
  Value *value;
  const struct Made *next; /* with the same hash */
} Made;

typedef struct Lookup {
  Lower *l;
  const Op *user;
  Map made; /* hash of value and coordinates -> Made: operands often share operands */
} Lookup;

static Value *value_at(Lookup *u, const Value *v, const Sym *const *coords);

static Value *refuse(Lookup *u, const char *what) {
  emit_refuse(u->l, u->user, what);
  return NULL;
}

/* The element of an operand: dims that it shares with `t`, whose element is needed. */
static Value *operand_at(Lookup *u, const Value *v, const Type *t, const Sym *const *coords) {
  const Sym *own[IR_MAX_RANK];
  for (int i = 0; i < v->type->rank; i++) {
    int dim = type_base_dim(t, v->type->dims[i]);
    if (dim < 0) return refuse(u, "a lookup of a value with other dims at other coordinates");
    own[i] = coords[dim];
  }
  return value_at(u, v, own);
}

static bool is_written(const Lower *l, const Value *memory) {
  for (const Op *op = ir_first(l->k); op; op = ir_next(op)) {
    MemAccess a;
    bool writes = (op_info[op->kind].flags & OPF_WRITES) && access_of(op, &a);
    if (writes && memory_root(a.memory) == memory_root(memory)) return true;
  }
  return false;
}

/* One register in every thread, for a tile of this rank. */
static Layout one_register(const Lower *l, int rank) {
  const int ones[LAYOUT_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
  Layout out = layout_of(rank, ones);
  layout_repeat(&out, LAYOUT_LANE, l->machine.lanes);
  layout_repeat(&out, LAYOUT_WAVE, l->machine.waves);
  return out;
}

static Value *read_at(Lookup *u, const Op *op, const Sym *const *coords) {
  Lower *l = u->l;
  const AccessBounds *b = l->bounds[op->id];
  LaneAccess a;
  if (b->access.ndynamic) return refuse(u, "a lookup table indexed through another table");
  if (op_has(op, ATTR_volatile) || memory_is_scratch(b->access.memory) ||
      is_written(l, b->access.memory))
    return refuse(u, "a lookup at other coordinates in a table that the kernel writes");
  Layout *layout = ARENA_NEW(l->arena, Layout);
  *layout = one_register(l, b->access.tile->rank);
  if (!open_access(l, op, b, layout, &a) || !open_elsewhere(l, &a, b)) return NULL;
  for (int i = 0; i < b->access.tile->rank; i++) a.x[i] = coords[i];
  return lane_load(l, &a);
}

static Value *apply_at(Lookup *u, const Op *op, const Sym *const *coords) {
  Lower *l = u->l;
  Value *args[16];
  if (op->nargs > (int)WV_LEN(args)) return refuse(u, "more than 16 operands");
  for (int i = 0; i < op->nargs; i++)
    if (!(args[i] = operand_at(u, op->args[i], op->results[0].type, coords))) return NULL;
  const Sym *e = distribute_expr(l->d, op, op_attr(op, ATTR_expr)->sym);
  return emit_expr_of(l, e, op->results[0].type->dtype, args, op->nargs);
}

static Value *elementwise_at(Lookup *u, const Op *op, const Sym *const *coords) {
  const Type *t = op->results[0].type;
  Value **args = ARENA_ARRAY(u->l->arena, Value *, op->nargs);
  for (int i = 0; i < op->nargs; i++)
    if (!(args[i] = operand_at(u, op->args[i], t, coords))) return NULL;
  return emit_op(u->l, op->kind, args, op->nargs, op->attrs, op->nattrs,
                 type_scalar(u->l->k->cx, t->dtype));
}

static Value *repeat_at(Lookup *u, const Op *op, const Sym *const *coords) {
  const Type *from = op->args[0]->type, *to = op->results[0].type;
  SymCtx *sym = u->l->sym;
  const Sym *own[IR_MAX_RANK];
  int dim = type_repeated(from, to), ratio = dim_ratio(to->dims[dim], from->dims[dim]);
  for (int i = 0; i < to->rank; i++) own[i] = coords[i];
  own[dim] = sym_floordiv(sym, coords[dim], sym_int(sym, ratio));
  if (!own[dim]) return refuse(u, "a coordinate that cannot be expressed");
  return value_at(u, op->args[0], own);
}

static Value *make_at(Lookup *u, const Value *v, const Sym *const *coords) {
  const Op *op = v->def;
  Lower *l = u->l;
  if (v->type->kind != TYPE_tile) return lower_scalar(l, v);
  if (!op || v->varying)
    return refuse(u, "a lookup of a loop-carried or per-thread value at other coordinates");
  switch (op->kind) {
  case OP_read: return read_at(u, op, coords);
  case OP_self_index:
    if (!dtype_is_float(v->type->dtype)) return emit_expr(l, coords[0], v->type->dtype);
    return emit_cast(l, emit_expr(l, coords[0], DTYPE_index), v->type->dtype);
  case OP_exists:
    return emit_expr(l, sym_lt(l->sym, coords[0], l->bounds[op->id]->bounds[0].limit), DTYPE_i1);
  case OP_apply_expr: return apply_at(u, op, coords);
  case OP_fill: return emit_pick(l, l->value[v->id], (int[]){0}, 1);
  case OP_broadcast:
  case OP_permute: return operand_at(u, op->args[0], v->type, coords);
  case OP_repeat: return repeat_at(u, op, coords);
  default: break;
  }
  if (op_is_elementwise(op)) return elementwise_at(u, op, coords);
  return refuse(u, "a lookup at other coordinates of a value computed from several elements");
}

static bool is_made_at(const Made *m, const Value *v, const Sym *const *coords) {
  if (m->of != v) return false;
  for (int i = 0; i < v->type->rank; i++)
    if (m->coords[i] != coords[i]) return false;
  return true;
}

static Value *value_at(Lookup *u, const Value *v, const Sym *const *coords) {
  Arena *a = u->l->arena;
  size_t rank = (size_t)v->type->rank;
  uint64_t key = hash_mix(1, map_key(v));
  for (size_t i = 0; i < rank; i++) key = hash_mix(key, map_key(coords[i]));
  key = key ? key : 1;
  const Made *first = map_get(&u->made, key);
  for (const Made *m = first; m; m = m->next)
    if (is_made_at(m, v, coords)) return m->value;
  Value *made = make_at(u, v, coords);
  if (!made) return NULL;
  const Sym **kept = rank ? arena_copy(a, coords, rank * sizeof *coords) : NULL;
  Made *m = ARENA_NEW(a, Made);
  *m = (Made){v, kept, made, map_get(&u->made, key)};
  map_set(a, &u->made, key, m);
  return made;
}

/* The coordinates of dynamic value i of an access, over the $x. */
static bool lookup_coords(Lower *l, const LaneAccess *a, const AccessBounds *b, int i,
                          const Sym **out) {
  const Type *t = a->access->dynamic[i]->type;
  for (int d = 0; d < t->rank; d++) {
    DimRange here;
    if (!element_lookup(l, b, i, t->dims[d], &out[d]))
      return emit_refuse(l, a->op, "a coordinate that cannot be expressed");
    if (out[d]) continue;
    if (!standing_range(&l->standing, a->op, t->dims[d], &here)) return false;
    out[d] = distribute_expr(l->d, a->op, here.start);
  }
  return true;
}

Value *lower_lookup(Lower *l, const LaneAccess *a, const AccessBounds *b, int i) {
  const MemAccess *m = a->access;
  int n = layout_size(a->layout, LAYOUT_REG), coord[LAYOUT_DIMS], rank = m->tile->rank;
  Lookup u = {.l = l, .user = a->op};
  Value **parts = ARENA_ARRAY(l->arena, Value *, n);
  const Sym *over_x[IR_MAX_RANK], *here[IR_MAX_RANK];
  if (!lookup_coords(l, a, b, i, over_x)) return NULL;
  for (int r = 0; r < n; r++) {
    SymBinding to[IR_MAX_RANK];
    layout_at(a->layout, r, 0, 0, coord);
    for (int d = 0; d < rank; d++)
      to[d] =
          (SymBinding){access_x(l->sym, d), sym_add(l->sym, a->x[d], sym_int(l->sym, coord[d]))};
    for (int d = 0; d < m->dynamic[i]->type->rank; d++) {
      const Sym *e = sym_subst(l->sym, over_x[d], to, rank);
      here[d] = e ? sym_simplify(l->sym, emit_facts(l), e) : NULL;
      if (!here[d]) return refuse(&u, "a coordinate that cannot be expressed");
    }
    if (!(parts[r] = value_at(&u, m->dynamic[i], here))) return NULL;
  }
  return emit_join(l, parts, n);
}
