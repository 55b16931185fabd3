/* anchor_mma.c: a matrix instruction tiled over a workgroup's whole tile.
 *
 *     the instruction       16x16, lanes as mma.def says
 *     copies of it          registers, as many as one wave's part needs
 *     waves                 a grid over m and n; each wave that needs an operand holds it. With
 *                           `into` such a grid for each part of k; with waves along a dim of a
 *                           batch, one for each part of it
 *
 * The three tiles agree because they are built from the same grid: wave number = n part + m part *
 * (parts along n), with the waves of one instruction innermost. In a lane-observable kernel each
 * declared wave has its own part of the tile, and the grid divides that part among the machine's
 * waves that make up the declared one. */
#include "anchors/anchors.h"
#include "ir/layout_links.h"

typedef struct Grid {
  int along_m, along_n, idle; /* groups of waves; idle groups hold copies */
  int tile_m, tile_n;         /* per group: whole instructions */
  /* Lane-observable kernels: the grid describes one declared wave, and these count the declared
   * waves. */
  struct {
    int count, step; /* waves along a workgroup dimension, and elements from one to the next */
    char dim;        /* 'm', 'n', 'k' or 'b'atch; otherwise the waves hold copies */
  } declared[3];
} Grid;

typedef struct Tiling {
  Product of;
  const MmaInfo *row;
  const MmaChoice *choice;
  MmaRoles roles;          /* the program's dims along the instruction's */
  int m, n;                /* extents of the workgroup's tile */
  int parts;               /* into which waves divide the sum over k */
  int k;                   /* the k of one wave: the whole tile, or one such part */
  const Sym *batch;        /* a dim of separate products that waves divide; NULL: none */
  int each;                /* such products of one wave */
  int together;            /* waves of one instruction */
  const Digits *order;     /* of k; NULL: unchanged */
  const Digits *across[2]; /* of a group's part of m and n; NULL: unchanged */
  bool keep_m, keep_n;     /* waves should not divide this dim if the other one is as good */
  bool ends_m, ends_n;     /* what follows along this dim is another declared wave's */
  Grid grid;
} Tiling;

static const MmaInfo *row_of(Arena *a, const MmaChoice *c, int lanes) {
  if (c->name) return mma_find(c->name);
  MmaDot dot = {c->out_vec, c->k_vec, c->k_mult, c->along == 'M' ? MMA_ALONG_M : MMA_ALONG_N};
  return mma_dot(a, dot, lanes);
}

/* Waves divide the dims that wave rows name, if those include one of the two. */
static bool may_divide(const Distribution *d, const Sym *dim, const Sym *other) {
  return kernel_constraint(d->k, CONSTRAINT_wave, dim_base(dim)) ||
         !kernel_constraint(d->k, CONSTRAINT_wave, dim_base(other));
}

static Grid grid_of(const Tiling *p, int along_m, int along_n, int idle) {
  int m = ceil_div(ceil_div(p->m, p->row->m), along_m) * p->row->m;
  int n = ceil_div(ceil_div(p->n, p->row->n), along_n) * p->row->n;
  return (Grid){.along_m = along_m, .along_n = along_n, .idle = idle, .tile_m = m, .tile_n = n};
}

/* Prefers, in this order: dims that may be divided, the fewest products per wave, dims that should
 * be kept whole, the fewest operand elements per wave, more waves along m. */
static int64_t grid_cost(const Distribution *d, const Tiling *p, const Grid *g) {
  bool astray = (g->along_m > 1 && !may_divide(d, p->roles.m, p->roles.n)) ||
                (g->along_n > 1 && !may_divide(d, p->roles.n, p->roles.m));
  int kept = (p->keep_m && g->along_m > 1) + (p->keep_n && g->along_n > 1);
  return ((int64_t)astray << 56) + ((int64_t)g->tile_m * g->tile_n << 24) + ((int64_t)kept << 20) +
         g->tile_m + g->tile_n;
}

static bool goes_on(const Tiling *p, const Grid *g) {
  return (p->ends_m && g->along_m > 1 && g->along_m * g->tile_m > p->m) ||
         (p->ends_n && g->along_n > 1 && g->along_n * g->tile_n > p->n);
}

/* The best way to divide the groups; groups that would get no instruction stay idle. */
static Grid choose_grid(const Distribution *d, const Tiling *p, int groups) {
  Grid best = grid_of(p, 1, 1, groups);
  for (int along_n = 1; along_n <= groups; along_n++)
    for (int along_m = 1; groups % along_n == 0 && along_m <= groups / along_n; along_m++) {
      if (groups / along_n % along_m) continue;
      if (along_m > ceil_div(p->m, p->row->m) || along_n > ceil_div(p->n, p->row->n)) continue;
      Grid now = grid_of(p, along_m, along_n, groups / along_n / along_m);
      if (!goes_on(p, &now) && grid_cost(d, p, &now) < grid_cost(d, p, &best)) best = now;
    }
  return best;
}

/* The grid that the wave rows declare, if the machine's waves are the declared ones. */
static bool declared_grid(const Distribution *d, const Tiling *p, int groups, Grid *out) {
  int64_t m, n;
  const Sym *along_m = distribute_waves(d, p->roles.m), *along_n = distribute_waves(d, p->roles.n);
  if (!along_m || !along_n || !sym_is_int(along_m, &m) || !sym_is_int(along_n, &n)) return false;
  if (m * n != groups || p->m % m || p->n % n) return false;
  int tile_m = p->m / (int)m, tile_n = p->n / (int)n;
  if (tile_m % p->row->m || tile_n % p->row->n) return false;
  *out =
      (Grid){.along_m = (int)m, .along_n = (int)n, .idle = 1, .tile_m = tile_m, .tile_n = tile_n};
  return true;
}

/* ---- k, m and n in another order ---- */

int mma_order_at(const Digits *order, int position) {
  int element = 0;
  for (int i = 0; order && i < order->n; i++) {
    element += position % order->at[i].radix * order->at[i].stride;
    position /= order->at[i].radix;
  }
  return order ? element : position;
}

/* Converts the digit, which counts positions along a dim, to digits that count elements; false: this is
 * not possible. */
static bool push_ordered(Layout *l, LayoutPart part, int dim, Digit g, const Digits *order) {
  for (int i = 0, weight = 1; i < order->n && g.radix > 1; weight *= order->at[i++].radix) {
    int next = weight * order->at[i].radix;
    if (g.stride >= next) continue;
    int room = next / g.stride, taken = g.radix < room ? g.radix : room;
    if (g.stride % weight || next % g.stride || g.radix % taken) return false;
    layout_push(l, part, dim, taken, g.stride / weight * order->at[i].stride);
    g.radix /= taken;
    g.stride *= taken;
  }
  return g.radix == 1;
}

static void move_digit(Digits *d, int from, int to) {
  Digit moved = d->at[from];
  for (; from > to; from--) d->at[from] = d->at[from - 1];
  d->at[to] = moved;
}

/* Moves the register digits along a dim to the front, so that neighbours are adjacent. */
static Layout in_runs(const Layout *l, int dim) {
  Layout out = *l;
  Digits *regs = &out.part[LAYOUT_REG];
  for (int i = 0, front = 0; i < regs->n; i++) {
    if (!regs->at[i].stride || regs->at[i].dim != dim) continue;
    int to = front++;
    while (to > 0 && regs->at[to - 1].stride > regs->at[i].stride) to--;
    move_digit(regs, i, to);
  }
  return out;
}

/* If lanes hold longer runs than the instruction requires, accesses can move whole runs. */
static bool put_in_order(Layout *l, int dim, const Digits *order) {
  Layout out = layout_of(l->dims, l->extent);
  EACH_DIGIT(l, p, g) {
    if (!g->stride || g->dim != dim) layout_push(&out, p, g->dim, g->radix, g->stride);
    else if (!push_ordered(&out, p, dim, *g, order)) return false;
  }
  Layout runs = in_runs(&out, dim);
  *l = layout_run(&runs, dim) > layout_run(l, dim) ? runs : out;
  return true;
}

static int covered_by(const Digits *order) {
  int covered = order->n > 0;
  for (int i = 0; i < order->n; i++) covered *= order->at[i].radix;
  return covered;
}

/* The order, if both operands, including copies along k, can be held in it. */
static const Digits *usable_order(const Tiling *p, const Digits *order, int k) {
  if (covered_by(order) != k || k % p->row->k) return NULL;
  for (MmaOperand part = MMA_A; part <= MMA_B; part++) {
    Layout l;
    if (!mma_fragment(p->row, part, &l)) return NULL;
    layout_push(&l, LAYOUT_REG, 1, k / p->row->k, p->row->k);
    if (!put_in_order(&l, 1, order)) return NULL;
  }
  return order;
}

/* The order of m (axis 0) or n, if the operand and the result of one wave, with all copies, can be held in
 * it. */
static const Digits *usable_across(const Tiling *p, int axis) {
  const Digits *order = &p->choice->across[axis];
  int tile = axis ? p->grid.tile_n : p->grid.tile_m, step = axis ? p->row->n : p->row->m;
  if (covered_by(order) != tile || p->together != 1 || p->of.lhs_scale) return NULL;
  for (int i = 0; i < 2; i++) {
    int dim = i ? axis : 0;
    Layout l;
    if (!mma_fragment(p->row, i ? MMA_C : axis ? MMA_B : MMA_A, &l)) return NULL;
    layout_push(&l, LAYOUT_REG, dim, tile / step, step);
    if (!put_in_order(&l, dim, order)) return NULL;
  }
  return order;
}

/* Some product contracts this dim, so its operands enumerate copies along it first. */
static bool is_contracted(Kernel *k, const Sym *dim) {
  for (const Op *op = ir_first(k); op; op = ir_next(op)) {
    Product p;
    if (op->kind == OP_mma && !product_of(k, op, &p) && p.roles.k == dim) return true;
  }
  return false;
}

/* Some op needs the whole dim: a product or a reduction along it. */
static bool is_taken_whole(const Distribution *d, const Sym *dim) {
  for (const Op *op = ir_first(d->k); op; op = ir_next(op)) {
    const Attr *along = op_attr(op, ATTR_dim);
    if (along && along->sym == dim) return true;
  }
  return is_contracted(d->k, dim);
}

/* Avoids exchanges between the machine's waves of one declared wave. They arise when a dim that
 * some op needs whole is divided, and when an operand that is computed is needed whole by several
 * waves. */
static void keep_together(const Distribution *d, Tiling *p) {
  bool made[2]; /* [0]: the operand with m, [1]: the operand with n */
  for (int i = 0; i < 2; i++) {
    const Value *v = i == (p->choice->swap ? 1 : 0) ? p->of.lhs : p->of.rhs;
    made[i] = !v->def || v->def->kind != OP_read;
  }
  p->keep_m = made[1] || is_taken_whole(d, p->roles.m);
  p->keep_n = made[0] || is_taken_whole(d, p->roles.n);
}

/* Divides the part of a declared wave among the machine's waves that make it up. */
static Grid grid_of_wave(const Distribution *d, const Machine *m, const Tiling *p) {
  int axis_m = anchor_wave_axis(d, p->roles.m), axis_n = anchor_wave_axis(d, p->roles.n);
  int axis_k = p->parts > 1 ? anchor_wave_axis(d, p->roles.k) : -1;
  const HardwareSpec *hardware = kernel_hardware(d->k);
  Tiling wave = *p;
  if (axis_m >= 0) wave.m = ceil_div(p->m, anchor_waves_on(d, axis_m));
  if (axis_n >= 0) wave.n = ceil_div(p->n, anchor_waves_on(d, axis_n));
  wave.ends_m = wave.m < p->m;
  wave.ends_n = wave.n < p->n;
  Grid g = choose_grid(d, &wave, hardware->threads / m->lanes);
  for (int axis = 0; axis < 3; axis++) {
    g.declared[axis].count = anchor_waves_on(d, axis);
    g.declared[axis].dim = axis == axis_m ? 'm' : axis == axis_n ? 'n' : axis == axis_k ? 'k' : 0;
    g.declared[axis].step = axis == axis_m ? wave.m : wave.n;
  }
  return g;
}

/* The number of parts into which waves divide the sum over k: what the op says, or in an observable
 * kernel the declared waves. Waves that share the tile of a loop divide it only if the op says so. */
static int parts_of(const Distribution *d, const Machine *m, const Op *op, const Tiling *p) {
  const Attr *into = op_attr(op, ATTR_into);
  int axis = anchor_wave_axis(d, p->roles.k);
  int64_t n;
  if (into) return sym_is_int(into->sym, &n) ? (int)n : 1;
  if (!m->observable || axis < 0 || anchor_shares_loop(d, p->roles.k)) return 1;
  return anchor_waves_on(d, axis);
}

/* The dim of a batch, which is neither m nor n, that wave rows divide evenly among the groups; returns
 * the number of its parts, 1 if there is none. */
static int divide_batch(const Distribution *d, const int *extent, int groups, Tiling *p) {
  const Type *t = p->of.acc->type;
  int64_t n;
  for (int i = 0; i < t->rank && p->parts == 1; i++) {
    const Sym *dim = t->dims[i], *waves = distribute_waves(d, dim);
    if (dim == p->roles.m || dim == p->roles.n || !waves || !sym_is_int(waves, &n)) continue;
    if (n < 2 || n > groups || groups % n || extent[i] % n) continue;
    p->batch = dim;
    p->each = extent[i] / (int)n;
    return (int)n;
  }
  return 1;
}

/* The grid of a tile-pure kernel: each part of the sum or batch gets the same number of waves. */
static Grid grid_of_parts(const Distribution *d, const Tiling *p, int batches, int groups) {
  Grid g;
  groups /= p->parts * batches;
  if (p->together != 1 || !declared_grid(d, p, groups, &g)) g = choose_grid(d, p, groups);
  if (p->parts > 1) g.declared[0].count = p->parts, g.declared[0].dim = 'k';
  if (batches > 1) g.declared[0].count = batches, g.declared[0].dim = 'b';
  return g;
}

/* Whether the machine's waves form whole groups of the instruction's. Only a machine row in a text
 * has others. */
static bool has_groups(const Machine *m, const Tiling *p) {
  Layout fragment;
  if (p->together == 1) return true;
  return p->together && m->waves % p->together == 0 && mma_fragment(p->row, MMA_C, &fragment) &&
         layout_size(&fragment, LAYOUT_WAVE) == p->together;
}

static bool open_tiling(const Distribution *d, const Machine *m, Arena *a, Op *op,
                        const MmaChoice *choice, Tiling *p) {
  int extent[IR_MAX_RANK];
  if (!choice) return false;
  *p = (Tiling){.choice = choice, .row = row_of(a, choice, m->lanes)};
  if (!p->row || product_of(d->k, op, &p->of)) return false;
  const Type *t = p->of.acc->type, *lhs = p->of.lhs->type;
  if (!distribute_extents(d, op, t, extent)) return false;
  p->roles = p->of.roles;
  if (choice->swap) p->roles.m = p->of.roles.n, p->roles.n = p->of.roles.m;
  p->m = extent[type_dim(t, p->roles.m)];
  p->n = extent[type_dim(t, p->roles.n)];
  p->together = p->row->lanes / m->lanes;
  if (!has_groups(m, p)) return false;
  int groups = m->waves / p->together, k_extent[IR_MAX_RANK];
  p->k = distribute_extents(d, op, lhs, k_extent) ? k_extent[type_base_dim(lhs, p->roles.k)] : 0;
  p->parts = parts_of(d, m, op, p);
  /* Only whole instructions: k elements taken from the next part would be added twice. */
  if (p->parts > 1 && p->k % (p->parts * p->row->k)) return false;
  p->k /= p->parts;
  p->order = op->kind == OP_mma ? usable_order(p, &p->choice->order, p->k) : NULL;
  if (m->observable) keep_together(d, p), p->grid = grid_of_wave(d, m, p);
  else p->grid = grid_of_parts(d, p, divide_batch(d, extent, groups, p), groups);
  for (int i = 0; i < 2; i++) p->across[i] = m->observable ? NULL : usable_across(p, i);
  return true;
}

static const MmaChoice *choice_of(const Op *op) {
  const Attr *choice = op_attr(op, ATTR_mma);
  return choice ? choice->mma : NULL;
}

static void push_fragment(Layout *l, const Layout *fragment, const int to[2]) {
  EACH_DIGIT(fragment, p, g) layout_push(l, p, g->stride ? to[g->dim] : 0, g->radix, g->stride);
}

/* Adds registers for the copies along a dim, up to `tile` elements of it. */
static void push_copies(Layout *l, int dim, int tile, int step) {
  layout_push(l, LAYOUT_REG, dim, ceil_div(tile, step), step);
}

static void push_wave_digit(Layout *l, int dim, int count, int step) {
  if (dim >= 0) layout_push(l, LAYOUT_WAVE, dim, count, step);
  else layout_repeat(l, LAYOUT_WAVE, count);
}

/* `part_k`: the k, or the batch, of one declared wave, in units of dim_k. */
static void push_waves(Layout *l, const Grid *g, int dim_m, int dim_n, int dim_k, int part_k) {
  push_wave_digit(l, dim_n, g->along_n, g->tile_n);
  push_wave_digit(l, dim_m, g->along_m, g->tile_m);
  layout_repeat(l, LAYOUT_WAVE, g->idle);
  for (int i = 0; i < 3 && g->declared[i].count; i++) {
    char of = g->declared[i].dim;
    bool part = of == 'k' || of == 'b';
    int dim = of == 'm' ? dim_m : of == 'n' ? dim_n : part ? dim_k : -1;
    push_wave_digit(l, dim, g->declared[i].count, part ? part_k : g->declared[i].step);
  }
}

/* The instruction's operand for operand number `operand` of the op. */
static MmaOperand role_of(const Op *op, int operand, bool swap) {
  static const MmaOperand plain[] = {MMA_A, MMA_B}, scaled[] = {MMA_A, MMA_SA, MMA_B, MMA_SB};
  static const MmaOperand swapped[] = {[MMA_A] = MMA_B, MMA_A, MMA_C, MMA_SB, MMA_SA};
  if (operand < 0) return MMA_C;
  MmaOperand role = op->kind == OP_scaled_mma ? scaled[operand] : plain[operand];
  return swap ? swapped[role] : role;
}

static bool stays_shared(const Op *op, int operand, const MmaChoice *c) {
  return (operand == 0 && c->shared_lhs) || (operand == product_rhs(op) && c->shared_rhs);
}

bool anchor_takes_from(const Op *op, const Value *memory) {
  if (op->kind != OP_mma || !op_has(op, ATTR_mma)) return false;
  const MmaChoice *choice = op_attr(op, ATTR_mma)->mma;
  return (choice->shared_lhs && value_is_read_of(op->args[0], memory)) ||
         (choice->shared_rhs && value_is_read_of(op->args[1], memory));
}

bool anchor_mma(const Distribution *d, const Machine *m, Arena *a, Op *op, int operand,
                Layout *out) {
  Tiling p;
  Layout fragment;
  int extent[IR_MAX_RANK];
  const Type *t = operand < 0 ? op->results[0].type : op->args[operand]->type;
  if (!open_tiling(d, m, a, op, choice_of(op), &p) || stays_shared(op, operand, p.choice))
    return false;
  MmaOperand role = role_of(op, operand, p.choice->swap);
  if (!mma_fragment(p.row, role, &fragment)) return false;
  if (!distribute_extents(d, op, t, extent)) return false;
  bool is_lhs = role == MMA_A || role == MMA_SA, is_acc = role == MMA_C;
  int dim_m = is_lhs || is_acc ? type_base_dim(t, p.roles.m) : -1;
  int dim_n = !is_lhs ? type_base_dim(t, p.roles.n) : -1,
      dim_k = is_acc ? -1 : type_base_dim(t, p.roles.k);
  int to[2] = {is_lhs || is_acc ? dim_m : dim_n, is_acc ? dim_n : dim_k};
  int part_k = dim_k >= 0 ? extent[dim_k] / p.parts : 0;
  int dim_part = is_acc && op_has(op, ATTR_into) ? 0 : -1;
  *out = layout_of(t->rank, extent);
  push_fragment(out, &fragment, to);
  if (dim_k >= 0) push_copies(out, dim_k, part_k, fragment.extent[1]);
  if (dim_k >= 0 && p.order && !put_in_order(out, dim_k, p.order)) return false;
  bool m_first = is_acc && is_contracted(d->k, p.roles.m);
  if (m_first) push_copies(out, dim_m, p.grid.tile_m, p.row->m);
  if (dim_n >= 0) push_copies(out, dim_n, p.grid.tile_n, p.row->n);
  if (dim_m >= 0 && !m_first) push_copies(out, dim_m, p.grid.tile_m, p.row->m);
  if (dim_m >= 0 && p.across[0] && !put_in_order(out, dim_m, p.across[0])) return false;
  if (dim_n >= 0 && p.across[1] && !put_in_order(out, dim_n, p.across[1])) return false;
  int dim_batch = p.batch ? type_base_dim(t, p.batch) : -1;
  for (int i = t->rank - 1; i >= 0; i--)
    if (i != to[0] && i != to[1] && i != dim_part)
      layout_push(out, LAYOUT_REG, i, i == dim_batch ? p.each : extent[i], 1);
  WV_ASSERT(layout_size(&fragment, LAYOUT_WAVE) == p.together);
  if (dim_part >= 0) push_waves(out, &p.grid, dim_m, dim_n, dim_part, 1);
  else if (p.batch) push_waves(out, &p.grid, dim_m, dim_n, dim_batch, p.each);
  else push_waves(out, &p.grid, dim_m, dim_n, dim_k, part_k);
  return true;
}

bool anchor_mma_division(const Distribution *d, const Machine *m, Arena *a, Op *op,
                         MmaDivision *out) {
  return anchor_mma_division_by(d, m, a, op, choice_of(op), out);
}

bool anchor_mma_division_by(const Distribution *d, const Machine *m, Arena *a, Op *op,
                            const MmaChoice *choice, MmaDivision *out) {
  Tiling p;
  if (!open_tiling(d, m, a, op, choice, &p)) return false;
  *out = (MmaDivision){.row = p.row, .m = p.roles.m, .n = p.roles.n, .k = p.roles.k};
  out->along[0] = p.grid.along_m, out->along[1] = p.grid.along_n;
  out->tile[0] = p.grid.tile_m, out->tile[1] = p.grid.tile_n;
  out->order = p.order;
  out->batch = p.batch, out->each = p.each;
  for (int i = 0; i < 2; i++) out->across[i] = p.across[i];
  out->copies[0] = p.grid.tile_m / p.row->m;
  out->copies[1] = p.grid.tile_n / p.row->n;
  out->copies[2] = ceil_div(p.k, p.row->k);
  return true;
}
