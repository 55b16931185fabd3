/* lower_wgmma.c: products whose operands stay in shared memory.
 *
 *     %n = mma %x, %y, %acc {mma = wgmma_m64n32k16_f32_f16 shared_lhs shared_rhs}
 *
 *     wgmma_fence
 *     %p = wgmma ... %acc, %a.1, %at, %b.1, %bt {desc_a = [16, 512, 64, 0], ...}      for each copy
 *     wgmma_commit
 *     wgmma_wait 0
 *
 * Copies that follow immediately are issued before the wait. With `pending` on the tile's op, that
 * many groups may still be in flight after it: those of the previous iterations are complete, and
 * the last is waited for after the loop.
 *
 * The address at which an instruction begins to read, and its strides, are derived from the layout
 * of the allocation and checked (descriptor.h). The slot of a ring is a term of that address; each
 * coordinate of a batch is a separate product, and all are waited for together. Threads that write
 * such an allocation make it visible to the asynchronous reads before the next barrier. */
#include "ir/ops/alloc_layout.h"
#include "lower_threads/lower_mma.h"
#include "target/descriptor.h"

/* An operand in shared memory. */
typedef struct Shared {
  const Value *memory; /* the allocation */
  MemLayout layout;    /* of a slot */
  DescriptorPart part;
  Descriptor descriptor;
  const Sym *row;  /* the first of this group of waves */
  const Sym *slot; /* elements before the slot of a ring that is read */
} Shared;

/* ---- finding descriptors ---- */

/* Whether the descriptor of the parts checked before also serves this part of the operand. */
static bool reads_part(Shared *s, int row, int k) {
  Descriptor found;
  int64_t first;
  DescriptorPart part = s->part;
  part.at[part.row_dim] = row;
  part.at[part.k_dim] = k;
  if (row + part.rows > s->layout.extent[part.row_dim]) return false;
  if (k + part.k > s->layout.extent[part.k_dim]) return false;
  if (!descriptor_find(&part, &found, &first)) return false;
  Descriptor *d = &s->descriptor;
  if (!d->stride) *d = found;
  return d->leading == found.leading && d->stride == found.stride;
}

/* Every instruction of every group of waves. The contributions of the row and of k to an address
 * are independent (descriptor.c). */
static bool reads_parts(Shared *s, int rows, int deep) {
  for (int k = 0; k < deep; k += s->part.k)
    if (!reads_part(s, 0, k)) return false;
  for (int row = 0; row < rows; row += s->part.rows)
    if (!reads_part(s, row, 0)) return false;
  return true;
}

/* Sets the coordinates of the batch to those of this product. */
static void stand_at(const LaneProduct *p, const Type *t, int *at) {
  const Type *acc = p->op->results[0].type;
  for (int i = 0; i < t->rank; i++) {
    int same = type_base_dim(acc, t->dims[i]);
    at[i] = same >= 0 ? p->point[same] : 0;
  }
}

static bool open_shared(LaneProduct *p, MmaOperand role, const Value *v, Shared *out) {
  Lower *l = p->l;
  const Op *read = v->def;
  bool rows_of_a = role == MMA_A;
  if (!read || read->kind != OP_read || op_has(read, ATTR_mapping)) return false;
  *out = (Shared){.memory = read->args[0]};
  if (!memory_slot_layout(l, out->memory, read, &out->layout, &out->slot)) return false;
  if (out->layout.dims != v->type->rank) return false;
  out->part = (DescriptorPart){.tile = &out->layout, .k = p->div.row->k};
  stand_at(p, v->type, out->part.at);
  out->part.rows = rows_of_a ? p->div.row->m : p->div.row->n;
  out->part.row_dim = type_base_dim(v->type, rows_of_a ? p->div.m : p->div.n);
  out->part.k_dim = type_base_dim(v->type, p->div.k);
  const Sym *warpgroup = sym_floordiv(l->sym, l->wave, sym_int(l->sym, 4));
  const Sym *along_n = sym_int(l->sym, p->div.along[1]),
            *along_m = sym_int(l->sym, p->div.along[0]);
  const Sym *group = rows_of_a ? sym_mod(l->sym, sym_floordiv(l->sym, warpgroup, along_n), along_m)
                               : sym_mod(l->sym, warpgroup, along_n);
  int axis = rows_of_a ? 0 : 1, tile = p->div.tile[axis];
  out->row = sym_mul(l->sym, group, sym_int(l->sym, tile));
  return reads_parts(out, p->div.along[axis] * tile, p->div.copies[2] * p->div.row->k);
}

/* ---- emission ---- */

/* The address at which the instruction begins to read. A group of waves may begin inside a span, so
 * the addresses of groups, and of the instructions of one, need not be equidistant. */
static Value *offset_of(LaneProduct *p, const Shared *s, int row, int k) {
  Lower *l = p->l;
  const Sym *coords[LAYOUT_DIMS];
  for (int i = 0; i < s->layout.dims; i++) coords[i] = sym_int(l->sym, s->part.at[i]);
  coords[s->part.row_dim] = sym_add(l->sym, s->row, sym_int(l->sym, row));
  coords[s->part.k_dim] = sym_int(l->sym, k);
  const Sym *at = emit_cheaper(l, memory_linear_offset(l, &s->layout, coords));
  return emit_address(l, sym_add(l->sym, at, s->slot), DTYPE_i32);
}

typedef struct Operands {
  bool a_shared;
  Shared a, b;
  Value **a_parts; /* for each copy of A, if it is in registers */
} Operands;

static Value *one_instruction(LaneProduct *p, Operands *o, Value *acc, int m, int n, int k) {
  Lower *l = p->l;
  const MmaInfo *row = p->div.row;
  MmaChoice choice = {.name = row->name};
  Value *args[6] = {acc};
  Attr attrs[3] = {{.key = ATTR_mma, .mma = &choice}};
  int nargs = 1, nattrs = 1;
  if (o->a_shared) {
    args[nargs++] = l->value[o->a.memory->id];
    args[nargs++] = offset_of(p, &o->a, m * row->m, (p->first[2] + k) * row->k);
    attrs[nattrs++] = (Attr){.key = ATTR_desc_a, .descriptor = &o->a.descriptor};
  } else {
    args[nargs++] = o->a_parts[m * p->count[2] + k];
  }
  args[nargs++] = l->value[o->b.memory->id];
  args[nargs++] = offset_of(p, &o->b, n * row->n, (p->first[2] + k) * row->k);
  attrs[nattrs++] = (Attr){.key = ATTR_desc_b, .descriptor = &o->b.descriptor};
  return emit_op(l, OP_wgmma, args, nargs, attrs, nattrs, acc->type);
}

/* All instructions of a product; `parts` holds the accumulator of each copy along m and n. */
static void all_instructions(LaneProduct *p, Operands *o, Value **parts) {
  Lower *l = p->l;
  const int *copies = p->count;
  emit_op(l, OP_wgmma_fence, NULL, 0, NULL, 0, NULL);
  for (int m = 0; m < copies[0]; m++)
    for (int n = 0; n < copies[1]; n++)
      for (int k = 0; k < copies[2]; k++) {
        Value **acc = &parts[m * copies[1] + n];
        *acc = one_instruction(p, o, *acc, m, n, k);
      }
}

void lower_wait_products(Lower *l, int most) {
  int done = l->flying.n - most;
  if (done <= 0) return;
  emit_op(l, OP_wgmma_wait, NULL, 0, &(Attr){.key = ATTR_pending, .integer = most}, 1, NULL);
  for (int i = 0; i < most; i++) l->flying.at[i] = l->flying.at[done + i];
  l->flying.n = most;
}

static bool open_operands(LaneProduct *p, const MmaChoice *choice, Operands *o) {
  const Value *a = p->swap ? p->of.rhs : p->of.lhs, *b = p->swap ? p->of.lhs : p->of.rhs;
  o->a_shared = p->swap ? choice->shared_rhs : choice->shared_lhs;
  if (!open_shared(p, MMA_B, b, &o->b)) return false;
  if (o->a_shared) return open_shared(p, MMA_A, a, &o->a);
  Value *all = product_operand(p, MMA_A, a);
  int parts = p->count[0] * p->count[2], each = all->type->n / parts;
  o->a_parts = ARENA_ARRAY(p->l->arena, Value *, parts);
  for (int i = 0; i < parts; i++) o->a_parts[i] = emit_range(p->l, all, i * each, each);
  return true;
}

/* The registers of one accumulator in order; any others are reassembled, and none of them may be in
 * flight then. */
static bool is_whole(Value *const *parts, int nparts, const int *from, int regs) {
  for (int i = 0; i < regs; i++)
    if (from[i] != i) return false;
  return nparts == 1 && parts[0]->type->n == regs;
}

bool lower_wgmma(LaneProduct *p, const MmaChoice *choice) {
  Lower *l = p->l;
  const Value *acc = p->of.acc, *out = &p->op->results[0];
  int copies = p->div.copies[0] * p->div.copies[1], regs = regs_of(out), nparts = 0, done = 0, n;
  int *from = ARENA_ARRAY(l->arena, int, regs);
  Value **parts = ARENA_ARRAY(l->arena, Value *, regs);
  do {
    Operands o = {0};
    if (p->op->kind != OP_mma || !open_operands(p, choice, &o))
      return emit_refuse(l, p->op, "an mma of tiles with these shared-memory layouts");
    const int *to = product_registers(p, MMA_C, acc, &n);
    Value *all = emit_pick(l, l->value[acc->id], to, n), **mine = parts + nparts;
    for (int i = 0; i < copies; i++) mine[i] = emit_range(l, all, i * (n / copies), n / copies);
    all_instructions(p, &o, mine);
    for (int i = 0; i < n; i++) from[to[i]] = done + i;
    nparts += copies, done += n;
  } while (product_next(p, out));
  emit_op(l, OP_wgmma_commit, NULL, 0, NULL, 0, NULL);
  const Attr *pending = op_attr(p->op, ATTR_pending);
  l->pending = pending ? (int)pending->integer : 0;
  /* NULL: of previous iterations. */
  for (int i = 0; i < l->pending; i++) vec_push(l->arena, &l->flying, NULL);
  vec_push(l->arena, &l->flying, out);
  if (!is_whole(parts, nparts, from, regs)) lower_wait_products(l, l->pending = 0);
  l->value[out->id] = emit_pick(l, emit_join(l, parts, nparts), from, regs);
  return true;
}

/* ---- writers ---- */

/* Other hardware than the threads' loads and stores accesses what was written to `memory`: a matrix
 * instruction or the copy engine reads it, or the latter overwrites it, perhaps as another allocation. */
static bool is_beyond_threads(const Op *op, const Value *memory) {
  if (op->kind == OP_copy && copy_goes_by(op, "bulk")) return op->args[0] == memory;
  if (op->kind == OP_copy && copy_goes_by(op, "tma"))
    return alloc_overlaps(memory_root(op->args[1])->def, memory_root(memory)->def);
  return anchor_takes_from(op, memory); /* perhaps beside an instruction that reads registers */
}

void lower_publish(Lower *l, const Value *memory) {
  for (const Op *op = l->tiles->first; op; op = ir_next(op)) {
    if (!is_beyond_threads(op, memory)) continue;
    const Op *last = l->scope->region->last;
    if (!last || last->kind != OP_fence_proxy) emit_op(l, OP_fence_proxy, NULL, 0, NULL, 0, NULL);
    return;
  }
}
