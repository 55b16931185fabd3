/* lower_tile.c: ops on the registers that a lane holds: elementwise, constants, other shapes. */
#include "ir/dtype.h"
#include "ir/schedule/op_parts.h"
#include "lower_threads/lower.h"
#include "sym/rational.h"

static void set_value(Lower *l, const Value *of, Value *v) {
  if (v->def && !v->name) v->name = of->name;
  l->value[of->id] = v;
}

/* ---- parts ---- */

/* Which registers of its result an op computes; those of `group` neighbours go together. */
static int *part_registers(Lower *l, const Op *op, int group, int *n) {
  int all = regs_of(&op->results[0]), *regs = ARENA_ARRAY(l->arena, int, all);
  *n = 0;
  for (int r = 0; r < all; r += group) {
    bool in = parts_have(op, op->results[0].layout, r, group);
    for (int i = 0; in && i < group; i++) regs[(*n)++] = r + i;
  }
  return regs;
}

/* The whole of which `v` has these registers; the others are undefined. */
static Value *put_back(Lower *l, Value *v, const int *regs, int n, int all) {
  int *from = ARENA_ARRAY(l->arena, int, all);
  for (int i = 0; i < n; i++) from[regs[i]] = i;
  return n < all ? emit_pick(l, v, from, all) : v;
}

/* ---- elementwise ---- */

bool lower_elementwise(Lower *l, const Op *op) {
  const Value *out = &op->results[0];
  int n, *regs = part_registers(l, op, 1, &n);
  Value **args = ARENA_ARRAY(l->arena, Value *, op->nargs);
  for (int i = 0; i < op->nargs; i++)
    args[i] = emit_pick(l, lower_operand(l, op->args[i], out->type, out->layout), regs, n);
  const Type *type = type_vec(l->k->cx, n, out->type->dtype);
  Value *v = emit_op(l, op->kind, args, op->nargs, op->attrs, op->nattrs, type);
  op_drop_attr(v->def, ATTR_iteration); /* of a tile */
  op_drop_attr(v->def, ATTR_part);
  set_value(l, out, put_back(l, v, regs, n, regs_of(out)));
  return true;
}

/* Registers may have other widths: `group` of the result have the bits of `ratio` of the operand. */
bool lower_bitcast(Lower *l, const Op *op) {
  const Value *out = &op->results[0], *in = op->args[0];
  int to = regs_of(out), from = regs_of(in), common = (int)int_gcd(to, from), n;
  int group = to / common, ratio = from / common, *regs = part_registers(l, op, group, &n);
  int *picked = ARENA_ARRAY(l->arena, int, from), m = 0;
  for (int i = 0; i < n; i += group)
    for (int j = 0; j < ratio; j++) picked[m++] = regs[i] / group * ratio + j;
  Value *v = emit_pick(l, l->value[in->id], picked, m);
  v = emit_op(l, OP_bitcast, &v, 1, NULL, 0, type_vec(l->k->cx, n, out->type->dtype));
  set_value(l, out, put_back(l, v, regs, n, to));
  return true;
}

static bool lower_number(Lower *l, const Op *op, Attr value) {
  const Value *out = &op->results[0];
  if (value.sym) value.sym = emit_sound(l, distribute_expr(l->d, op, value.sym));
  Value *one = emit_op(l, OP_scalar, NULL, 0, &value, 1, type_scalar(l->k->cx, out->type->dtype));
  set_value(l, out, emit_splat(l, one, regs_of(out)));
  return true;
}

bool lower_fill(Lower *l, const Op *op) { return lower_number(l, op, *op_attr(op, ATTR_value)); }

bool lower_runs(Lower *l, const Op *op) {
  return lower_number(l, op, (Attr){.key = ATTR_value, .sym = distribute_runs(l->d, op)});
}

bool lower_self_index(Lower *l, const Op *op) {
  const Value *out = &op->results[0];
  DType dtype = dtype_is_float(out->type->dtype) ? DTYPE_index : out->type->dtype;
  DimRange here;
  if (!standing_range(&l->standing, op, out->type->dims[0], &here)) return false;
  const Sym *base = sym_add(l->sym, here.start, lane_coord(l, out->layout, 0));
  int n = regs_of(out), coord[LAYOUT_DIMS];
  Value **parts = ARENA_ARRAY(l->arena, Value *, n), *first = emit_address(l, base, dtype);
  for (int r = 0; r < n; r++) {
    layout_at(out->layout, r, 0, 0, coord);
    const Sym *e = sym_add(l->sym, emit_arg(l, 0), sym_int(l->sym, coord[0]));
    parts[r] = coord[0] ? emit_expr_of(l, e, dtype, &first, 1) : first;
  }
  set_value(l, out, emit_cast(l, emit_join(l, parts, n), out->type->dtype));
  return true;
}

/* One test for each register. An empty mask: all elements exist, and `fold` removes its uses. */
bool lower_exists(Lower *l, const Op *op) {
  const Value *out = &op->results[0];
  const AccessBounds *b = l->bounds[op->id];
  int n = regs_of(out), coord[LAYOUT_DIMS];
  Value **parts = ARENA_ARRAY(l->arena, Value *, n), *all = emit_number(l, DTYPE_i1, 1);
  DimRange here;
  if (!standing_range(&l->standing, op, out->type->dims[0], &here)) return false;
  const Sym *base = sym_add(l->sym, here.start, lane_coord(l, out->layout, 0));
  for (int r = 0; r < n; r++) {
    layout_at(out->layout, r, 0, 0, coord);
    const Sym *x = sym_add(l->sym, base, sym_int(l->sym, coord[0]));
    Value *test = NULL;
    for (int i = 0; i < b->nbounds && op_attr(op, ATTR_mask)->n; i++)
      test = emit_bound(l, sym_lt(l->sym, x, b->bounds[i].limit));
    parts[r] = test ? test : all;
  }
  set_value(l, out, emit_join(l, parts, n));
  return true;
}

bool lower_apply(Lower *l, const Op *op) {
  const Value *out = &op->results[0];
  int n = regs_of(out);
  const Sym *e = distribute_expr(l->d, op, op_attr(op, ATTR_expr)->sym);
  Value **parts = ARENA_ARRAY(l->arena, Value *, n), *args[16], *at[16];
  if (op->nargs > (int)WV_LEN(args)) return emit_refuse(l, op, "more than 16 operands");
  for (int i = 0; i < op->nargs; i++)
    args[i] = lower_operand(l, op->args[i], out->type, out->layout);
  for (int r = 0; r < n; r++) {
    for (int i = 0; i < op->nargs; i++) at[i] = emit_pick(l, args[i], &r, 1);
    parts[r] = emit_expr_of(l, e, out->type->dtype, at, op->nargs);
  }
  set_value(l, out, emit_join(l, parts, n));
  return true;
}

bool lower_reshaped(Lower *l, const Op *op) {
  const Value *out = &op->results[0];
  set_value(l, out, lower_operand(l, op->args[0], out->type, out->layout));
  return true;
}

bool lower_repeat(Lower *l, const Op *op) {
  const Value *from = op->args[0], *out = &op->results[0];
  int dim = type_repeated(from->type, out->type), n = regs_of(out), coord[LAYOUT_DIMS] = {0};
  int ratio = dim_ratio(out->type->dims[dim], from->type->dims[dim]);
  int *regs = ARENA_ARRAY(l->arena, int, n);
  const RegisterIndex *x = register_index(l, from->layout, ALL_DIMS);
  for (int r = 0; r < n; r++) {
    layout_at(out->layout, r, 0, 0, coord);
    coord[dim] /= ratio;
    regs[r] = register_at(x, coord);
    WV_ASSERT(regs[r] >= 0); /* the verifier requires linked layouts to agree */
  }
  set_value(l, out, emit_pick(l, l->value[from->id], regs, n));
  return true;
}
