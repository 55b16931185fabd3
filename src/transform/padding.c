/* padding: keeps elements that do not exist out of reductions, products and memory.
 *
 *     workgroup M by 64 on 0; workgroup N by 32 on 1
 *     %p = exp %x                       %p = exp %x
 *     %s = sum %p {dim = N}      =>     %e = exists N {mask = [$x0 < N]}
 *                                       %z = fill 0.0 : tile<N, f32>
 *                                       %q = select %e, %p, %z
 *                                       %s = sum %q {dim = N}
 *
 * An element exists if its coordinate is below the size of its dimension, with the symbols in force
 * where its tile was made. For elements that do not exist, reductions get their neutral element,
 * products get 0 in both operands, and an op without a neutral element (reductions.def) gets the
 * tile of `exists` itself. Nothing changes if all elements are proved to exist, or if those that do
 * not are known to hold the neutral element already: reads are 0 there.
 *
 * An access tests the size of each dimension itself, with the symbols in force there. If they were
 * different when the tile was made, a store gets `bounds` with the smaller of both sizes.
 *
 * What a read gives outside its memory (`other`) is selected in the same way, by the op `inside`:
 * those elements exist and count.
 *
 * The value of padding is unspecified, so any op may see another value there: what follows in the
 * region uses %q instead of %p, and %p is computed only for %q. */
#include "analysis/access/in_bounds.h"
#include "analysis/analysis.h"
#include "ir/ops/reductions.h"
#include "transform/pass.h"

typedef struct Pad {
  Kernel *k;
  Arena *arena;
  SymCtx *sym;
  Standing here;  /* at the op under consideration */
  SetSymbols set; /* symbols whose sizes change during the kernel */
  bool changed;
} Pad;

/* An operand, the dimension along which it is combined, and what its padding must be. */
typedef struct Operand {
  Op *user;
  int arg;
  const Sym *dim; /* as written in the operand's type */
  Padding padding;
} Operand;

static Value *value_of(const Operand *o) { return o->user->args[o->arg]; }

/* ---- which elements exist ---- */

/* The op at which the symbols in force are those that a value was made with. Arguments of a region
 * count as made in it. */
static const Op *maker_of(const Value *v) { return v->def ? v->def : v->owner->first; }

static const Sym *end_of(Pad *p, const Value *v, const Sym *dim) {
  return standing_extent(&p->here, maker_of(v), dim);
}

/* A position without an expression was reported, or will be. */
static bool all_exist(Pad *p, const Operand *o) {
  const Sym *e = access_tile_position(p->sym, 0), *end = end_of(p, value_of(o), o->dim);
  DimRange range;
  if (!end || !standing_range(&p->here, o->user, o->dim, &range)) return true;
  SymFacts *facts = sym_facts_new(p->arena, p->sym, p->here.facts);
  sym_assume(facts, sym_le(p->sym, e, sym_sub(p->sym, range.size, sym_int(p->sym, 1))));
  standing_learn_remainders(p->sym, facts, range.start);
  const Sym *inside = sym_lt(p->sym, sym_add(p->sym, range.start, e), end);
  return inside && sym_proves(p->sym, facts, inside);
}

/* ---- what padding holds ---- */

/* The entry of an operand's type that belongs to a dimension. */
static const Sym *entry_of(const Type *t, const Sym *dim) {
  int i = type_base_dim(t, dim);
  return i < 0 ? NULL : t->dims[i];
}

static bool holds(Pad *p, const Value *v, const Sym *dim, Padding want);

/* Everything written to the scratch memory holds it, and by name, so that padding stays padding. */
static bool scratch_holds(Pad *p, const Value *memory, const Sym *dim, Padding want) {
  const Value *root = memory_root(memory);
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    const Value *written = memory_written(op);
    if (!written || memory_root(written) != root) continue;
    bool plain = !op_has(op, ATTR_mapping) && !op_has(op, ATTR_bounds);
    if (op->kind == OP_copy ? want != PADDING_ZERO || op_has(op, ATTR_bounds)
                            : op->kind != OP_write || !plain || !holds(p, op->args[0], dim, want))
      return false;
  }
  return true;
}

/* Elements that do not exist are not read, unless `bounds` says otherwise. */
static bool read_holds(Pad *p, const Op *op, const Sym *dim, Padding want) {
  if (want != PADDING_ZERO || op_has(op, ATTR_bounds)) return false;
  if (!memory_is_scratch(op->args[0])) return true;
  return !op_has(op, ATTR_mapping) && scratch_holds(p, op->args[0], dim, want);
}

/* A select by `exists` of exactly this dimension, made with the same symbols. */
static bool is_kept_by(Pad *p, const Op *select, const Sym *dim) {
  const Op *exists = select->args[0]->def;
  return exists && exists->kind == OP_exists && op_attr(exists, ATTR_dim)->sym == dim &&
         end_of(p, &exists->results[0], dim) == end_of(p, &select->results[0], dim);
}

static bool select_holds(Pad *p, const Op *op, const Sym *dim, Padding want) {
  return holds(p, op->args[2], dim, want) &&
         (is_kept_by(p, op, dim) || holds(p, op->args[1], dim, want));
}

static bool operands_hold(Pad *p, const Op *op, const Sym *dim, Padding want) {
  for (int i = 0; i < op->nargs; i++)
    if (!holds(p, op->args[i], dim, want)) return false;
  return true;
}

/* All bits 0 is the number 0, or a finite scale. */
static bool bitcast_holds(Pad *p, const Op *op, const Sym *dim, Padding want) {
  const Sym *from = entry_of(op->args[0]->type, dim);
  return want == PADDING_ZERO && from && holds(p, op->args[0], from, want);
}

/* Whether the padding of v along dim, as far as v was made with the symbols in force now, holds the
 * neutral element. An operand made with other symbols may exist where v does not, and one without
 * the dimension is repeated along it. */
static bool holds(Pad *p, const Value *v, const Sym *dim, Padding want) {
  const Op *op = v->def;
  if (!op) return false;
  if (op->kind == OP_fill || op->kind == OP_scalar) return padding_fills(op, want);
  if (type_base_dim(v->type, dim) < 0) return false;
  for (int i = 0; i < op->nargs; i++)
    if (op->args[i]->type->kind == TYPE_tile && end_of(p, op->args[i], dim) != end_of(p, v, dim))
      return false;
  switch (op->kind) {
  case OP_read: return read_holds(p, op, dim, want);
  case OP_select: return select_holds(p, op, dim, want);
  case OP_bitcast: return bitcast_holds(p, op, dim, want);
  case OP_broadcast:
  case OP_permute:
  case OP_squeeze:
  case OP_convert: return holds(p, op->args[0], dim, want);
  default: return want == PADDING_ZERO && op_keeps_zeros(op) && operands_hold(p, op, dim, want);
  }
}

/* ---- what is inserted ---- */

static Op *insert(Pad *p, Op *before, OpKind kind, Value *const *args, int nargs,
                  const Type *type) {
  p->changed = true;
  return ir_insert(p->k, before, kind, before->at, args, nargs, type);
}

static const Type *along(Pad *p, const Sym *dim, DType t) {
  return type_tile(p->k->cx, &dim, 1, t);
}

/* Computes where the elements of v along dim exist. */
static Value *insert_exists(Pad *p, Op *before, const Value *v, const Sym *dim) {
  const Sym **test = ARENA_ARRAY(p->k->arena, const Sym *, 1);
  test[0] = sym_lt(p->sym, access_x(p->sym, 0), end_of(p, v, dim));
  Op *op = insert(p, before, OP_exists, NULL, 0, along(p, dim, DTYPE_i1));
  op_set_attr(p->k, op, (Attr){.key = ATTR_dim, .sym = dim});
  op_set_attr(p->k, op, (Attr){.key = ATTR_mask, .exprs = test, .n = 1});
  return &op->results[0];
}

static Value *insert_neutral(Pad *p, Op *before, Padding padding, const Sym *dim, DType t) {
  Attr value = {.key = ATTR_value};
  bool whole = !dtype_is_float(t);
  int64_t n = whole ? padding_integer(padding, t) : 0;
  bool complement = whole && dtype_by_complement(t, n);
  if (whole) value.sym = sym_int(p->sym, complement ? ~n : n);
  else value.number = padding_number(padding, t);
  Op *op = insert(p, before, OP_fill, NULL, 0, along(p, dim, t));
  op_set_attr(p->k, op, value);
  Value *v = &op->results[0];
  return complement ? &insert(p, before, OP_not, &v, 1, v->type)->results[0] : v;
}

static Value *insert_select(Pad *p, Op *before, Value *v, const Sym *dim, Padding padding) {
  Value *args[] = {insert_exists(p, before, v, dim), v,
                   insert_neutral(p, before, padding, dim, v->type->dtype)};
  return &insert(p, before, OP_select, args, 3, v->type)->results[0];
}

/* Where to insert `exists` so that it matches the user: right after the op that made v if symbols
 * have changed since. A tile that is larger outside a loop is divided inside it. */
static Op *insertion_point(Pad *p, const Operand *o, const Value *v) {
  const Op *maker = maker_of(v);
  if (end_of(p, v, o->dim) == standing_extent(&p->here, o->user, o->dim)) return o->user;
  return v->def ? maker->next : v->owner->first;
}

/* Whether lanes hold it only because they computed it. A tile that is read is not: it may be an
 * operand of a product where it is, in shared memory. */
static bool is_computed(const Op *op) {
  while (op && op->kind == OP_permute) op = op->args[0]->def;
  return op && (op_is_elementwise(op) || op_is_product(op));
}

static void use_instead(Value *v, Value *kept) {
  if (!is_computed(v->def)) return;
  for (Op *op = kept->def->next; op; op = op->next)
    for (int i = 0; i < op->nargs && !op->body; i++)
      if (op->args[i] == v) op->args[i] = kept;
}

/* v with the neutral element as padding. A cast preserves zeros, and one value may need several
 * versions. */
static Value *kept(Pad *p, const Operand *o, Value *v) {
  const Op *def = v->def;
  if (holds(p, v, o->dim, o->padding)) return v;
  if (def && def->kind == OP_cast && o->padding == PADDING_ZERO && def->parent == o->user->parent &&
      end_of(p, v, o->dim) == end_of(p, def->args[0], o->dim)) {
    Value *of = kept(p, o, def->args[0]);
    return &insert(p, o->user, OP_cast, &of, 1, v->type)->results[0];
  }
  Value *to = insert_select(p, insertion_point(p, o, v), v, o->dim, o->padding);
  use_instead(v, to);
  return to;
}

/* ---- ops that combine ---- */

static void keep_operand(Pad *p, Operand o) {
  Value *v = value_of(&o);
  if (v->type->kind != TYPE_tile || v->varying || all_exist(p, &o)) return;
  o.user->args[o.arg] = kept(p, &o, v);
}

static void pad_reduction(Pad *p, Op *op) {
  Operand o = {op, 0, op_attr(op, ATTR_dim)->sym, reduction_info[op->kind].padding};
  Value *v = value_of(&o);
  if (o.padding == PADDING_BEHIND) return;
  if (o.padding != PADDING_PREDICATE) keep_operand(p, o);
  else if (!reduction_exists(op) && !v->varying && !all_exist(p, &o))
    ir_add_operand(p->k, op, insert_exists(p, insertion_point(p, &o, v), v, o.dim));
}

/* All operands except the last, the accumulator. A scale that does not exist might be NaN. */
static void pad_product(Pad *p, Op *op) {
  Product product;
  if (product_of(p->k, op, &product)) return;
  for (int i = 0; i < product_acc(op); i++) {
    const Sym *dim = entry_of(op->args[i]->type, product.roles.k);
    if (dim) keep_operand(p, (Operand){op, i, dim, PADDING_ZERO});
  }
}

/* A condition is false for elements that do not exist. */
static void pad_condition(Pad *p, Op *op) {
  const Type *t = op_condition(op)->type;
  for (int i = 0; t->kind == TYPE_tile && i < t->rank; i++)
    keep_operand(p, (Operand){op, 0, t->dims[i], PADDING_ZERO});
}

/* Inserts `other` outside the memory: however the elements arrive, by whichever kind of copy, they
 * are 0 there. */
static void expand_other(Pad *p, Op *read) {
  static const AttrKey taken[] = {ATTR_mapping, ATTR_bounds};
  Value *v = &read->results[0];
  Attr value = *op_attr(read, ATTR_other);
  Op *next = read->next;
  Op *inside = insert(p, next, OP_inside, read->args, read->nargs,
                      type_with_dtype(p->k->cx, v->type, DTYPE_i1));
  for (int i = 0; i < (int)WV_LEN(taken); i++)
    if (op_has(read, taken[i])) op_set_attr(p->k, inside, *op_attr(read, taken[i]));
  Op *fill = insert(p, next, OP_fill, NULL, 0, v->type);
  value.key = ATTR_value;
  op_set_attr(p->k, fill, value);
  op_drop_attr(read, ATTR_other);
  Value *args[] = {&inside->results[0], v, &fill->results[0]};
  Op *select = insert(p, next, OP_select, args, 3, v->type);
  inside->results[0].varying = select->results[0].varying = v->varying;
  ir_replace_uses(p->k, v, &select->results[0]);
  select->args[1] = v;
}

/* ---- what is stored ---- */

/* An expression with the sizes that symbols had before any set_symbol; NULL: one of them is
 * unknown. */
static const Sym *at_entry(Pad *p, const Sym *e) {
  for (int i = 0; e && i < p->set.n; i++) {
    const Sym *size = ir_symbol_size(p->k, p->set.at[i]);
    SymBinding to = {p->set.at[i], size ? size : sym_int(p->sym, 0)};
    const Sym *then = sym_subst(p->sym, e, &to, 1);
    e = size || then == e ? then : NULL;
  }
  return e;
}

static bool changes_size(Pad *p, const Sym *dim) {
  const Sym *size = distribute_fixed(p->here.d, dim_base(dim));
  return at_entry(p, size) != size;
}

/* The end of what is stored along a dimension; *fewer: possibly before the end of the access. A
 * size from before any set_symbol that is unknown is that of the tile. */
static const Sym *stored_end(Pad *p, const Op *op, const Sym *dim, bool *fewer) {
  const Sym *here = standing_extent(&p->here, op, dim);
  const Value *v = op->args[0];
  if (type_base_dim(v->type, dim) < 0 || !changes_size(p, dim)) return here;
  const Sym *made = end_of(p, v, dim);
  if (made == here || !here || !(made = at_entry(p, made))) return here;
  *fewer = true;
  return sym_min(p->sym, made, here);
}

static void pad_store(Pad *p, Op *op) {
  MemAccess a;
  bool fewer = false;
  if (!memory_written(op) || !access_of(op, &a) || !a.test_extents || op->kind == OP_copy) return;
  if (op_has(op, ATTR_bounds) || op->args[0]->varying) return;
  const Type *t = access_spread(p->k->cx, op);
  SymPair *ends = ARENA_ARRAY(p->k->arena, SymPair, t ? t->rank : 0);
  for (int i = 0; t && i < t->rank; i++)
    ends[i] = (SymPair){t->dims[i], stored_end(p, op, t->dims[i], &fewer)};
  for (int i = 0; fewer && i < t->rank; i++) fewer = ends[i].value != NULL;
  if (!fewer) return;
  op_set_attr(p->k, op, (Attr){.key = ATTR_bounds, .pairs = ends, .n = t->rank});
  p->changed = true;
}

static void pad_op(Pad *p, Op *op) {
  if (p->set.n) pad_store(p, op);
  if (op->kind == OP_read && op_has(op, ATTR_other)) expand_other(p, op);
  if (op_is_reduction(op)) pad_reduction(p, op);
  if (op_is_product(op)) pad_product(p, op);
  if (op->kind == OP_if && op_condition(op)) pad_condition(p, op);
}

static void pad_region(Pad *p, Region *r) {
  Standing outside = p->here;
  for (Op *op = r->first; op; op = op->next) {
    pad_op(p, op);
    if (op->body) {
      Standing here = p->here;
      p->here = standing_inside(&here, op);
      pad_region(p, op->body);
      p->here = here;
    }
    p->here = standing_after(&p->here, op);
  }
  p->here = outside;
}

/* ---- the kernel ---- */

/* Whether a row divides its dimension into whole tiles, judged from numbers alone. */
static bool row_is_whole(const Kernel *k, const Constraint *c) {
  DivisionRow row = kernel_division_row(k, c);
  const Constraint *bind = kernel_constraint(k, CONSTRAINT_bind, row.dim);
  int64_t size, extent;
  if (row.start || row.count) return false;
  if (row.size == row.dim) return true;
  return bind && c->divided.size && sym_is_int(row.size, &size) &&
         sym_is_int(bind->bind.value, &extent) && size > 0 && extent % size == 0;
}

/* The tile of a dimension that no row divides is the whole of it, but has at least one element. */
static bool is_undivided_whole(const Kernel *k, const Sym *dim) {
  const Constraint *bind = kernel_constraint(k, CONSTRAINT_bind, dim_base(dim));
  int64_t size;
  return bind && sym_is_int(bind->bind.value, &size) && size > 0;
}

static bool is_whole(const Kernel *k, const Sym *dim) {
  int cut = 0;
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *row = &k->constraints.at[i];
    bool cuts = row->kind == CONSTRAINT_workgroup || row->kind == CONSTRAINT_tile;
    bool derives = row->kind == CONSTRAINT_alias;
    if ((!cuts && !derives) || row->subject != dim_base(dim)) continue;
    if (derives || !row_is_whole(k, row)) return false;
    cut++;
  }
  return cut ? cut == 1 : is_undivided_whole(k, dim); /* positions of several rows add up */
}

static bool is_plain_read(const Value *v) {
  while (v->def && (v->def->kind == OP_cast || v->def->kind == OP_bitcast)) v = v->def->args[0];
  return v->def && v->def->kind == OP_read && !op_has(v->def, ATTR_bounds) &&
         !memory_is_scratch(v->def->args[0]);
}

static bool product_may_need(Kernel *k, const Op *op) {
  Product p;
  bool plain = true;
  for (int i = 0; plain && i < product_acc(op); i++) plain = is_plain_read(op->args[i]);
  if (plain) return false;
  return product_of(k, op, &p) || !is_whole(k, p.roles.k);
}

/* Most kernels can be seen at a glance to need nothing. */
static bool may_need(Kernel *k, const Op *op) {
  switch (op->kind) {
  case OP_mma:
  case OP_scaled_mma: return product_may_need(k, op);
  case OP_if: return op_condition(op) != NULL;
  case OP_read: return op_has(op, ATTR_other);
  case OP_set_symbol: return true; /* of a dimension, after its tiles were made */
  default: return op_is_reduction(op) && !is_whole(k, op_attr(op, ATTR_dim)->sym);
  }
}

bool pass_padding(Kernel *k, PassCtx *cx) {
  Pad p = {.k = k, .arena = cx->scratch, .sym = k->cx->sym};
  bool any = false, fitted = cx->machine; /* it has run before */
  for (const Op *op = ir_first(k); op && !any && !fitted; op = ir_next(op)) any = may_need(k, op);
  if (any) {
    p.here = *cx->facts.standing;
    p.set = set_symbols(k, cx->scratch);
    pad_region(&p, k->body);
    sym_take_error(p.sym);
  }
  cx->idle = !p.changed;
  return true;
}
