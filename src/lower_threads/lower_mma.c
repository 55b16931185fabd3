/* lower_mma.c: a matmul as instructions of a wave.
 *
 * A tile's registers hold the fragments of all its instructions; `wave_mma` takes them copy by
 * copy. If a layout keeps them in another order, the registers are renamed. Dims other than m, n
 * and k (a batch) are in registers, and each of their coordinates is a separate product; if waves
 * divide one, each has those of its part. The dim `into`, which numbers the parts of the sum, is
 * not: each wave has one part. */
#include "lower_threads/lower_mma.h"

#include "ir/attr.h"
#include "ir/schedule/op_parts.h"

static const Sym *dim_along(const MmaDivision *d, MmaOperand part, int axis) {
  if (part == MMA_C) return axis ? d->n : d->m;
  if (axis) return d->k;
  return part == MMA_A || part == MMA_SA ? d->m : d->n;
}

void product_part(LaneProduct *p) {
  const Sym *of[3] = {p->div.m, p->div.n, p->div.k}, *dims[PART_DIMS];
  int n = parts_dims(p->op, dims);
  for (int i = 0; i < 3; i++) p->first[i] = 0, p->count[i] = p->div.copies[i];
  for (int d = 0; d < n; d++)
    for (int i = 0; i < 3; i++) {
      OpPart part = parts_along(p->op, d);
      if (dim_base(dims[d]) != dim_base(of[i])) continue;
      p->count[i] /= part.of;
      p->first[i] = part.at * p->count[i];
    }
}

int *product_registers(LaneProduct *p, MmaOperand part, const Value *v, int *n) {
  Lower *l = p->l;
  const MmaInfo *row = p->div.row;
  const Type *acc = p->op->results[0].type;
  Layout fragment;
  int coord[LAYOUT_DIMS] = {0}, in[LAYOUT_DIMS];
  const RegisterIndex *index = register_index(l, v->layout, ALL_DIMS);
  mma_fragment(row, part, &fragment);
  int axis[2] = {type_base_dim(v->type, dim_along(&p->div, part, 0)),
                 type_base_dim(v->type, dim_along(&p->div, part, 1))};
  for (int i = 0; i < v->type->rank; i++) {
    int same = type_base_dim(acc, v->type->dims[i]);
    coord[i] = same >= 0 ? p->point[same] : 0;
  }
  int rows = part == MMA_B || part == MMA_SB ? 1 : 0, columns = part == MMA_C ? 1 : 2;
  int outer = p->count[rows], inner = p->count[columns], each = layout_size(&fragment, LAYOUT_REG);
  int *list = ARENA_ARRAY(l->arena, int, outer *inner *each);
  *n = 0;
  for (int i = 0; i < outer * inner; i++)
    for (int r = 0; r < each; r++) {
      layout_at(&fragment, r, 0, 0, in);
      coord[axis[0]] = (p->first[rows] + i / inner) * fragment.extent[0] + in[0];
      coord[axis[1]] = (p->first[columns] + i % inner) * fragment.extent[1] + in[1];
      if (part == MMA_A || part == MMA_B)
        coord[axis[1]] = mma_order_at(p->div.order, coord[axis[1]]);
      if (part == MMA_A || part == MMA_B || part == MMA_C)
        coord[axis[0]] = mma_order_at(p->div.across[part == MMA_B], coord[axis[0]]);
      if (part == MMA_C) coord[axis[1]] = mma_order_at(p->div.across[1], coord[axis[1]]);
      int found = register_at(index, coord);
      WV_ASSERT(found >= 0); /* the layout of a matrix operand has every element */
      list[(*n)++] = found;
    }
  return list;
}

Value *product_operand(LaneProduct *p, MmaOperand part, const Value *v) {
  Lower *l = p->l;
  Value *lane = l->value[v->id];
  bool from_memory = v->def && v->def->kind == OP_read;
  if (!from_memory) {
    Value *zero = emit_number(l, v->type->dtype, 0);
    lane = lane_cover(l, lane, v->layout, 1u << type_base_dim(v->type, p->div.k), zero);
  }
  int n, *regs = product_registers(p, part, v, &n);
  return emit_pick(l, lane, regs, n);
}

/* One product; its results go to registers `to` of the whole. */
static Value *multiply(LaneProduct *p, int **to, int *n) {
  Lower *l = p->l;
  const Op *op = p->op;
  const Product *of = &p->of;
  bool scaled = of->lhs_scale != NULL;
  Value *args[5];
  args[0] = product_operand(p, MMA_A, p->swap ? of->rhs : of->lhs);
  args[1] = product_operand(p, MMA_B, p->swap ? of->lhs : of->rhs);
  *to = product_registers(p, MMA_C, of->acc, n);
  args[2] = emit_pick(l, l->value[of->acc->id], *to, *n);
  if (scaled) args[3] = product_operand(p, MMA_SA, p->swap ? of->rhs_scale : of->lhs_scale);
  if (scaled) args[4] = product_operand(p, MMA_SB, p->swap ? of->lhs_scale : of->rhs_scale);
  MmaChoice choice = *op_attr(op, ATTR_mma)->mma;
  choice.swap = false;
  choice.order.n = choice.across[0].n = choice.across[1].n = 0;
  Attr attrs[] = {{.key = ATTR_mma, .mma = &choice}, attr_ints(l->k, ATTR_copies, p->count, 3)};
  return emit_op(l, OP_wave_mma, args, scaled ? 5 : 3, attrs, 2, args[2]->type);
}

bool product_next(LaneProduct *p, const Value *out) {
  const Attr *into = op_attr(p->op, ATTR_into);
  const Sym *parts = into ? into->sym : NULL; /* each wave has one */
  for (int i = out->type->rank - 1; i >= 0; i--) {
    const Sym *dim = out->type->dims[i];
    if (dim == p->div.m || dim == p->div.n || dim == parts) continue;
    int all = dim == p->div.batch ? p->div.each : out->layout->extent[i];
    if (++p->point[i] < all) return true;
    p->point[i] = 0;
  }
  return false;
}

/* Whether operands and result have the layouts that the instruction requires; text IR may
 * differ. */
static bool lies_right(Lower *l, const Op *op) {
  for (int i = -1; i < op->nargs - 1; i++) {
    const Value *v = i < 0 ? &op->results[0] : op->args[i];
    Layout wanted;
    if (!anchor_mma(l->d, &l->machine, l->arena, (Op *)op, i, &wanted)) continue; /* in memory */
    layout_normalise(&wanted);
    if (!v->layout || !layout_equal(v->layout, &wanted)) {
      StrBuf text = {.arena = l->k->cx->diags.arena};
      layout_print(&text, &wanted);
      Diag *d =
          diag_add(&l->k->cx->diags, DIAG_E0514, op->at,
                   i < 0 ? "the result of `%s` does not have the layout its instruction produces"
                         : "an operand of `%s` does not have the layout its instruction expects",
                   op_info[op->kind].name);
      diag_note(&l->k->cx->diags, d, i < 0 || !v->def ? op->at : v->def->at, "expected layout: %s",
                sb_text(&text));
      return false;
    }
  }
  return true;
}

/* Says which waves the instruction needs, if the machine row has others. */
static bool fail_waves(Lower *l, const Op *op, const MmaChoice *choice) {
  const MmaInfo *row = choice && choice->name ? mma_find(choice->name) : NULL;
  const Machine *m = &l->machine;
  int waves = row ? row->lanes / m->lanes : 0;
  if (!row) return emit_refuse(l, op, "an mma without an instruction");
  if (waves && row->lanes % m->lanes == 0 && m->waves % waves == 0)
    return emit_refuse(l, op, "tiles that its instruction does not divide");
  Diags *diags = &l->k->cx->diags;
  Diag *d = diag_add(diags, DIAG_E0601, op->at,
                     "`%s` runs on groups of %d lanes, and the machine has %d waves of %d",
                     choice->name, row->lanes, m->waves, m->lanes);
  const Constraint *machine = kernel_constraint(l->k, CONSTRAINT_machine, NULL);
  if (machine) diag_note(diags, d, machine->at, "the machine row");
  return diag_hint(diags, d,
                   "leave the row out, and the compiler chooses waves that fit the instruction");
}

bool lower_mma(Lower *l, const Op *op) {
  LaneProduct p = {.l = l, .op = op};
  const Value *out = &op->results[0];
  const MmaChoice *choice = op_attr(op, ATTR_mma) ? op_attr(op, ATTR_mma)->mma : NULL;
  if (!choice || product_of(l->k, op, &p.of) ||
      !anchor_mma_division(l->d, &l->machine, l->arena, (Op *)op, &p.div))
    return fail_waves(l, op, choice);
  if (!lies_right(l, op)) return false;
  p.swap = choice->swap;
  product_part(&p);
  if (choice->shared_lhs || choice->shared_rhs) return lower_wgmma(&p, choice);
  int regs = layout_size(out->layout, LAYOUT_REG), nparts = 0, done = 0;
  int *from = ARENA_ARRAY(l->arena, int, regs);
  Value **parts = ARENA_ARRAY(l->arena, Value *, regs + 1);
  bool divided = parts_all(op) > 1; /* other sums stay as they are */
  if (divided) parts[nparts++] = l->value[p.of.acc->id], done = regs;
  for (int i = 0; i < regs; i++) from[i] = i;
  do {
    int *to, n;
    parts[nparts++] = multiply(&p, &to, &n);
    for (int i = 0; i < n; i++) from[to[i]] = done + i;
    done += n;
  } while (product_next(&p, out));
  Value *v = emit_pick(l, emit_join(l, parts, nparts), from, regs);
  l->value[out->id] = v;
  return true;
}
