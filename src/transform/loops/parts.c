/* parts: divides ops of which rows of a schedule name parts.
 *
 *     order K x.fetch[K 0/2] x.load n[K 0/2] x.fetch[K 1/2] n[K 1/2]
 *
 *     %x = read %s                      %x0 = read %s {part = [0, 1, 0, 2]}
 *     %n = mma %x, %y, %acc      =>     %x1 = read %s {part = [0, 1, 1, 2]}
 *                                       %n0 = mma %x0, %y, %acc {part = [0, 1, 0, 1, 0, 2]}
 *                                       %n1 = mma %x1, %y, %n0 {part = [0, 1, 0, 1, 1, 2]}
 *
 * A part has as many instructions as the others. An op that uses a divided tile is divided in the same
 * way, so each of its parts needs one part of the operand: a matmul, or elementwise ops up to one. Sums are added in the order that they had, so
 * results are the same, bit for bit. Of a read, the instructions whose elements no matmul uses
 * are removed by `dce` once there are instructions.
 *
 * A copy to shared memory is divided by itself: its parts fill slices of the tile, whatever reads them. */
#include <string.h>

#include "anchors/anchors.h"
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "ir/schedule/op_parts.h"
#include "ir/schedule/schedule.h"
#include "transform/copy/copy_parts.h"
#include "transform/pass.h"

/* How an op is divided, and by which name of which row. */
typedef struct Cut {
  int of[PART_DIMS];
  const char *name[PART_DIMS];
  const Constraint *row;
  Op **parts; /* the parts that were made, the last dimension fastest */
} Cut;

typedef struct Parts {
  Kernel *k;
  PassCtx *cx;
  Arena *arena;
  Cut **cut; /* by op id; NULL: it stays whole */
  int nops;
  const Constraint *order; /* of the loop that is being divided; NULL: none */
} Parts;

/* ---- reporting ---- */

static Diag *report(const Parts *p, const Constraint *row, const Op *op, const char *name,
                    const char *why) {
  Diag *d =
      diag_add(&p->k->cx->diags, DIAG_E0620, row->at, "`%s` has no part of its own: %s", name, why);
  diag_note(&p->k->cx->diags, d, op->at, "the op");
  return d;
}

static bool refuse(const Parts *p, const Constraint *row, const Op *op, const char *name,
                   const char *why) {
  Diag *d = report(p, row, op, name, why);
  return diag_hint(&p->k->cx->diags, d, "name the whole op, or other parts");
}

static bool refuse_copy(const Parts *p, const Constraint *row, const Op *copy, const char *name,
                        const char *why, int of) {
  CopyModes modes = copy_modes(p->k, p->cx);
  Diag *d = report(p, row, copy, name, why);
  int dim = copy_other_dim(&modes, copy, of);
  if (dim < 0) return diag_hint(&p->k->cx->diags, d, "name the whole copy, or larger parts");
  return diag_hint(&p->k->cx->diags, d, "divide it along `%s`",
                   sym_name(dim_base(copy->args[1]->type->dims[dim])));
}

/* ---- what can be divided ---- */

static bool is_left(const Op *op) { return op->kind == OP_read && !op->results[0].layout; }

static bool is_copy(const Op *op) { return op->kind == OP_copy && schedule_fills(op); }

/* ---- collecting ---- */

static Cut *cut_of(Parts *p, const Op *op, const Constraint *row) {
  Cut **cut = &p->cut[op->id];
  if (*cut) return *cut;
  *cut = ARENA_NEW(p->arena, Cut);
  (*cut)->row = row;
  for (int i = 0; i < PART_DIMS; i++) (*cut)->of[i] = 1;
  return *cut;
}

/* A dimension that counts waves, each with a sum of its own, has no name. */
static bool is_called(const Sym *dim, const char *name) {
  const char *own = sym_name(dim_base(dim));
  return own && strcmp(own, name) == 0;
}

/* NULL, or why the op is not divided like this along dimension d, besides what was found before. */
static const char *why_whole(const Parts *p, Op *op, const Cut *cut, int d, int of,
                             const Op **blame) {
  const Sym *dims[PART_DIMS];
  int n = parts_dims(op, dims);
  if (!is_copy(op))
    return anchor_whole(p->cx->facts.distribute, p->cx->machine, p->arena, op, dims[d], of, blame);
  CopyModes modes = copy_modes(p->k, p->cx);
  CopySlice slice = copy_slice(op);
  for (int i = 0; i < n; i++) slice.of[i] = i == d ? of : cut->of[i];
  return copy_why_whole(&modes, op, &slice, d);
}

static bool add_cut(Parts *p, Op *op, const char *dim, int of, const char *name,
                    const Constraint *row) {
  const Sym *dims[PART_DIMS];
  int n = parts_dims(op, dims), d = 0;
  while (d < n && !is_called(dims[d], dim)) d++;
  if (d == n) return refuse(p, row, op, name, "it does not have this dimension");
  Cut *cut = cut_of(p, op, row);
  if (cut->of[d] != 1 && cut->of[d] != of)
    return refuse(p, row, op, name,
                  arena_printf(p->k->cx->diags.arena, "another name divides it into %d along %s",
                               cut->of[d], dim));
  const Op *blame = op;
  const char *why = cut->of[d] == 1 ? why_whole(p, op, cut, d, of, &blame) : NULL;
  if (why && is_copy(op)) return refuse_copy(p, row, op, name, why, of);
  if (why) return refuse(p, row, blame, name, why);
  cut->of[d] = of, cut->name[d] = name;
  return true;
}

/* Each op that uses a divided tile is divided, too. */
static bool add_users(Parts *p, const Op *op, const char *dim, int of, const char *name,
                      const Constraint *row) {
  for (Op *user = ir_first(p->k); user; user = ir_next(user)) {
    if (!op_takes(user, &op->results[0])) continue;
    if (!add_cut(p, user, dim, of, name, row)) return false;
    if (!op_is_product(user) && !add_users(p, user, dim, of, name, row)) return false;
  }
  return true;
}

static bool add_part(Parts *p, const Op *loop, Op *op, const OpName *name, const char *called,
                     const Constraint *row) {
  for (int i = 0; i < name->nparts; i++) {
    const NamePart *part = &name->parts[i];
    if (is_left(op) || part->of == 1) continue; /* nothing fetches it */
    if (op->parent != loop->body || (!is_copy(op) && (!parts_may_be(op) || !op->nresults)))
      return refuse(
          p, row, op, called,
          "only copies to shared memory, fetches, matmuls and elementwise ops of the loop itself "
          "have any");
    if (!add_cut(p, op, part->dim, part->of, called, row)) return false;
    if (!op_is_product(op) && !is_copy(op) && !add_users(p, op, part->dim, part->of, called, row))
      return false;
  }
  return true;
}

static bool add_names(Parts *p, const Constraint *row) {
  const OpNames *names = schedule_ops(row);
  for (int i = 0; names && i < names->n; i++) {
    OpName name = schedule_split_name(p->arena, names->at[i]);
    for (const Op *loop = NULL;
         name.nparts && (loop = schedule_next_loop(p->k, loop, row->scheduled.loop));) {
      OpList found = schedule_find(p->arena, p->k, loop, names->at[i]);
      for (int j = 0; j < found.n; j++)
        if (!add_part(p, loop, found.at[j], &name, names->at[i], row)) return false;
    }
  }
  return true;
}

/* ---- dividing ---- */

static int count(const Op *op, const Cut *cut) {
  const Sym *dims[PART_DIMS];
  int n = 1;
  for (int i = parts_dims(op, dims) - 1; i >= 0; i--) n *= cut->of[i];
  return n;
}

/* The numbers of part `i` along each dimension. */
static void number(const Op *op, const Cut *cut, int i, int *at) {
  const Sym *dims[PART_DIMS];
  for (int d = parts_dims(op, dims) - 1; d >= 0; d--) at[d] = i % cut->of[d], i /= cut->of[d];
}

static Op *make_part(Parts *p, Op *op, const Cut *cut, int i) {
  const Sym *dims[PART_DIMS];
  int n = parts_dims(op, dims), at[PART_DIMS], pairs[2 * PART_DIMS];
  Value **args = arena_copy(p->k->arena, op->args, sizeof(Value *) * (size_t)op->nargs);
  Op *made = ir_insert(p->k, op, op->kind, op->at, args, op->nargs,
                       op->nresults ? op->results[0].type : NULL);
  made->attrs = arena_copy(p->k->arena, op->attrs, sizeof(Attr) * (size_t)op->nattrs);
  made->nattrs = op->nattrs;
  number(op, cut, i, at);
  for (int d = 0; d < n; d++) pairs[2 * d] = at[d], pairs[2 * d + 1] = cut->of[d];
  op_set_attr(p->k, made, attr_ints(p->k, ATTR_part, pairs, 2 * n));
  if (!op->nresults) return made;
  made->results[0].name = op->results[0].name, made->results[0].varying = op->results[0].varying;
  ir_set_layout(p->k, &made->results[0], op->results[0].layout);
  return made;
}

/* The part of an operand that a part of the op needs. */
static Value *operand_part(const Parts *p, const Op *user, Value *v, const int *at) {
  const Sym *mine[PART_DIMS], *dims[PART_DIMS];
  const Op *op = v->def;
  const Cut *cut = op && op->id < p->nops ? p->cut[op->id] : NULL;
  int n = parts_dims(user, mine), i = 0;
  if (!cut || !cut->parts) return v;
  for (int d = 0, all = parts_dims(op, dims); d < all; d++)
    for (int m = 0; m < n; m++)
      if (dim_base(mine[m]) == dim_base(dims[d])) i = i * cut->of[d] + (cut->of[d] > 1 ? at[m] : 0);
  return &cut->parts[i]->results[0];
}

/* Each part takes its parts of the first `n` operands. */
static void make_parts(Parts *p, Op *op, int nargs) {
  Cut *cut = p->cut[op->id];
  int n = count(op, cut), at[PART_DIMS];
  cut->parts = ARENA_ARRAY(p->arena, Op *, n);
  for (int i = 0; i < n; i++) {
    Op *part = cut->parts[i] = make_part(p, op, cut, i);
    number(op, cut, i, at);
    for (int a = 0; a < nargs; a++) part->args[a] = operand_part(p, op, op->args[a], at);
  }
}

static bool names_part(const Parts *p, const OpNames *names, int i, const Op *part) {
  OpList found = schedule_find(p->arena, p->k, part->parent->owner, names->at[i]);
  for (int j = 0; j < found.n; j++)
    if (found.at[j] == part) return true;
  return false;
}

/* Where the order lists a part; the last place: nowhere. */
static int64_t listed_at(const Parts *p, const Op *part) {
  const OpNames *names = p->order ? schedule_ops(p->order) : NULL;
  for (int i = 0; names && i < names->n; i++)
    if (names_part(p, names, i, part)) return i;
  return INT32_MAX;
}

/* The stage and the cycle of a part, as one number; -1: no row places it. */
static int64_t placed_at(const Parts *p, const Op *part) {
  EACH_ROW(p->k, place, row) {
    if (!schedule_is_for(row, p->cx->target)) continue;
    if (!schedule_is_called(part->parent->owner, row->place.loop)) continue;
    for (int i = 0; i < row->place.ops.n; i++)
      if (names_part(p, &row->place.ops, i, part))
        return ((int64_t)row->place.to.stage << 32) + row->place.to.cycle;
  }
  return -1;
}

typedef int64_t PartKeyFn(const Parts *p, const Op *part);

/* Parts of one key keep their order; a part without one stays with that before it. */
static void sort_parts(const Parts *p, Op **parts, int n, PartKeyFn *key_of) {
  int64_t *key = ARENA_ARRAY(p->arena, int64_t, n), before = 0;
  for (int i = 0; i < n; i++) {
    Op *part = parts[i];
    int64_t mine = key_of(p, part);
    int at = i;
    if (mine < 0) mine = before;
    before = mine;
    for (; at > 0 && key[at - 1] > mine; at--) key[at] = key[at - 1], parts[at] = parts[at - 1];
    key[at] = mine, parts[at] = part;
  }
}

/* Along k the sum has an order. Finds two parts that are not in it. */
static bool breaks_sum(Op *const *parts, int n, const Op **first, const Op **second) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) {
      int k = parts[i]->results[0].type->rank;
      bool same = parts_along(parts[i], k).at < parts_along(parts[j], k).at;
      for (int d = 0; d < k; d++)
        same &= parts_along(parts[i], d).at == parts_along(parts[j], d).at;
      *first = parts[j], *second = parts[i];
      if (same) return true;
    }
  return false;
}

/* Parts add to sums one after the other: as rows place them, then as the order lists them. Places that
 * break a sum are reported with those of other ops (stages_order). */
static bool order_parts(const Parts *p, Op **parts, int n) {
  Op **placed = arena_copy(p->arena, parts, sizeof *parts * (size_t)n);
  const Op *first, *second;
  sort_parts(p, placed, n, placed_at);
  if (!breaks_sum(placed, n, &first, &second))
    for (int i = 0; i < n; i++) parts[i] = placed[i];
  if (!p->order) return true;
  sort_parts(p, parts, n, listed_at);
  if (!breaks_sum(parts, n, &first, &second)) return true;
  int k = first->results[0].type->rank;
  Diags *diags = &p->k->cx->diags;
  Diag *d = diag_add(diags, DIAG_E0620, p->order->at,
                     "part %d of the sum is listed before part %d: that would change the result",
                     parts_along(first, k).at, parts_along(second, k).at);
  diag_note(diags, d, second->at, "the matmul");
  return diag_hint(diags, d, "list the parts along the sum in ascending order");
}

static bool divide_product(Parts *p, Op *op) {
  Cut *cut = p->cut[op->id];
  int n = count(op, cut), acc = product_acc(op);
  make_parts(p, op, acc);
  if (!order_parts(p, cut->parts, n)) return false;
  for (int i = 0; i < n; i++) {
    ir_remove(cut->parts[i]);
    ir_insert_before(op, cut->parts[i]);
    if (i) cut->parts[i]->args[acc] = &cut->parts[i - 1]->results[0];
  }
  ir_replace_uses(p->k, &op->results[0], &cut->parts[n - 1]->results[0]);
  return true;
}

static const Constraint *order_of(const Parts *p, const Op *loop) {
  EACH_ROW(p->k, order, row)
    if (schedule_is_for(row, p->cx->target) && schedule_is_called(loop, row->order.loop))
      return row;
  return NULL;
}

static bool divide(Parts *p, Op *op) {
  if (op->id >= p->nops || !p->cut[op->id] || p->cut[op->id]->parts) return true;
  p->order = order_of(p, op->parent->owner);
  if (op_is_product(op)) return divide_product(p, op);
  make_parts(p, op, is_copy(op) ? 0 : op->nargs);
  return true;
}

bool pass_parts(Kernel *k, PassCtx *cx) {
  Parts p = {.k = k, .cx = cx, .arena = cx->scratch, .nops = k->nops};
  bool any = false;
  if (!cx->machine || !cx->target || !kernel_has_schedule(k)) return cx->idle = true;
  p.cut = ARENA_ARRAY(p.arena, Cut *, k->nops);
  for (int i = 0; i < k->constraints.n; i++) {
    const Constraint *row = &k->constraints.at[i];
    if (schedule_is_row(row) && schedule_is_for(row, cx->target) && !add_names(&p, row))
      return false;
  }
  for (Op *op = ir_first(k), *next; op; op = next) {
    next = ir_next(op);
    if (!divide(&p, op)) return false;
  }
  for (Op *op = ir_first(k), *next; op; op = next) {
    next = ir_next(op);
    if (op->id < p.nops && p.cut[op->id] && p.cut[op->id]->parts) ir_remove(op), any = true;
  }
  cx->idle = !any;
  return true;
}
