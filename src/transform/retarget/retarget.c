/* retarget: fits a kernel to a machine.
 *
 *     hardware threads 64, mma F32_16x16x16_F16         hardware threads 64, mma F32_16x16x16_F16
 *     ...                                        =>     machine lanes 32 waves 8
 *     %n = mma %x, %y, %acc                             %n = mma %x, %y, %acc
 *                                                         {mma = mma_m16n8k16_f32_f16}
 *
 * Decides whether the declared waves and lanes may be regrouped (contract.h), how many waves the
 * machine runs, and which of the machine's instructions each product uses. Operand types that no
 * instruction takes are widened exactly, and multiplied by their scales if no instruction does
 * that. Waves that share the tile of a loop divide the sum of a product (retarget_parts.h). Does
 * nothing without a target.
 *
 * Needs DISTRIBUTE and UNIFORM. The header keeps what the user declared; the `machine` row says
 * what runs. Each decision is a remark. */
#include "anchors/anchors.h"
#include "anchors/contract.h"
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/ops/access.h"
#include "ir/ops/reductions.h"
#include "ir/schedule/schedule.h"
#include "target/chain.h"
#include "target/descriptor.h"
#include "transform/pass.h"
#include "transform/retarget/retarget_cluster.h"
#include "transform/retarget/retarget_parts.h"
#include "transform/retarget/retarget_runs.h"
#include "transform/retarget/retarget_scales.h"
#include "transform/retarget/retarget_threads.h"

typedef struct Retarget {
  Kernel *k;
  PassCtx *cx;
  const TargetInfo *target;
  int waves;   /* of the machine, that share the tiles of a workgroup */
  int cluster; /* workgroups that they are divided among */
  bool observable;
} Retarget;

#define DIAGS(r) (&(r)->k->cx->diags)

/* ---- waves ----------------------------------------------------------------------------------- */

static bool declared(Retarget *r, const Sym *s, int *out) {
  int64_t v;
  if (s && sym_is_int(s, &v) && v > 0 && v <= 1 << 16) return *out = (int)v, true;
  if (s && sym_is_int(s, &v))
    return diag_fail(DIAGS(r), DIAG_E0606, r->k->at,
                     "the constraints make %lld waves along one dimension, expected 1 to %d",
                     (long long)v, 1 << 16);
  return diag_fail(DIAGS(r), DIAG_E0606, r->k->at, "the number of threads `%s` is not a constant",
                   s ? sym_text(DIAGS(r)->arena, s) : "?");
}

/* A given number of waves must agree with the wave rows. */
static bool check_waves(Retarget *r) {
  const HardwareSpec *hardware = kernel_hardware(r->k);
  const Distribution *d = r->cx->facts.distribute;
  EACH_ROW(r->k, wave, c) {
    int axis = kernel_wave_axis(r->k, c->wave.dim);
    if (axis < 0 || axis > 2 || !hardware->waves[axis]) continue;
    const Sym *derived = distribute_waves(d, c->wave.dim), *given = d->waves[axis];
    if (derived == given) continue;
    Diag *e =
        diag_add(DIAGS(r), DIAG_E0609, c->at,
                 "this makes %s waves along workgroup dimension %d, but the hardware row says %s",
                 sym_text(DIAGS(r)->arena, derived), axis, sym_text(DIAGS(r)->arena, given));
    diag_note(DIAGS(r), e, kernel_constraint(r->k, CONSTRAINT_hardware, NULL)->at,
              "the hardware row");
    return false;
  }
  return true;
}

static bool fail_small(Retarget *r, int threads) {
  Diag *d =
      diag_add(DIAGS(r), DIAG_E0608, r->k->at,
               "`%s` declares %d threads in waves of %d; %s supports at most %d in waves of %d",
               r->k->name, threads, kernel_hardware(r->k)->threads, r->target->name,
               r->target->threads, r->target->lanes);
  return diag_hint(DIAGS(r), d, "declare fewer waves, or waves of %d threads", r->target->lanes);
}

/* Tile-pure kernels run on as many threads as they declare, up to the machine's limit: that of a
 * workgroup, or of a cluster if the kernel can be divided among workgroups. */
static bool choose_waves(Retarget *r) {
  const Distribution *d = r->cx->facts.distribute;
  const HardwareSpec *hardware = kernel_hardware(r->k);
  int threads = hardware->threads, lanes = r->target->lanes, most = target_waves(r->target);
  for (int i = 0; i < 3; i++) {
    int n;
    if (!declared(r, d->waves[i], &n)) return false;
    threads = n > INT32_MAX / threads ? INT32_MAX : threads * n;
  }
  r->waves = ceil_div(threads, lanes);
  if (r->observable && (hardware->threads % lanes || r->waves > most))
    return fail_small(r, threads);
  r->cluster = r->observable ? 1 : retarget_cluster(r->k, r->cx, &r->waves);
  if (r->waves > most * r->cluster) r->waves = most * r->cluster;
  return true;
}

static void add_machine(Retarget *r) {
  Constraint row = {
      .kind = CONSTRAINT_machine,
      .at = r->k->at,
      .machine = {r->target->lanes, r->waves, r->observable, 0, r->cluster > 1 ? r->cluster : 0}};
  vec_push(r->k->arena, &r->k->constraints, row);
}

static void decide_contract(Retarget *r) {
  Contract c = contract_of(r->cx->facts.distribute, r->cx->facts.uniform, r->cx->scratch);
  r->observable = c.op != NULL;
  if (c.op)
    diag_add(DIAGS(r), DIAG_R0601, c.op->at, "`%s` is lane-observable: `%s` %s", r->k->name,
             op_info[c.op->kind].name, c.why);
  else
    diag_add(DIAGS(r), DIAG_R0601, r->k->at, "`%s` is tile-pure: its tiles may be redistributed",
             r->k->name);
}

/* ---- what threads do together ---------------------------------------------------------------- */

/* Ops that a wave, or all waves of a workgroup, execute together. */
static bool check_together(Retarget *r, const Op *op) {
  const Uniformity *u = r->cx->facts.uniform;
  switch (op->kind) {
  case OP_mma:
  case OP_scaled_mma: return uniform_require(u, op, UNIFORM_WAVE);
  case OP_workgroup_barrier:
  case OP_shared_barrier:
  case OP_counter_barrier: return uniform_require(u, op, UNIFORM_WORKGROUP);
  default: return !op_has(op, ATTR_block) || uniform_require(u, op, UNIFORM_WORKGROUP);
  }
}

/* Waves that share the tile of a loop reduce it together, whether or not threads are observable. */
static void combine_together(Retarget *r, Op *op) {
  if (op_is_reduction(op) &&
      anchor_shares_loop(r->cx->facts.distribute, op_attr(op, ATTR_dim)->sym))
    op_set_attr(r->k, op, (Attr){.key = ATTR_block});
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* A product for which an instruction is sought. */
typedef struct Search {
  Op *op;
  Product of;
  MmaType a, b, c;            /* element types */
  int m, n, k;                /* of the workgroup's tile */
  int extent[2][IR_MAX_RANK]; /* of lhs and rhs */
  const MmaChoice *asked;     /* by the op or the hardware row; NULL: nothing */
} Search;

static int extent_of(const Type *t, const int *extent, const Sym *dim) {
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] == dim) return extent[i];
  return 1;
}

static bool open_search(const Retarget *r, Op *op, Search *p) {
  *p = (Search){.op = op};
  if (product_of(r->k, op, &p->of)) return false; /* the verifier has reported it */
  const Type *lhs = p->of.lhs->type, *rhs = p->of.rhs->type;
  int *left = p->extent[0], *right = p->extent[1];
  const Distribution *d = r->cx->facts.distribute;
  if (!distribute_extents(d, op, lhs, left) || !distribute_extents(d, op, rhs, right)) return false;
  p->m = extent_of(lhs, left, p->of.roles.m);
  p->n = extent_of(rhs, right, p->of.roles.n);
  p->k = extent_of(lhs, left, p->of.roles.k);
  p->a = dtype_mma(lhs->dtype), p->b = dtype_mma(rhs->dtype);
  p->c = dtype_mma(p->of.acc->type->dtype);
  const HardwareSpec *hardware = kernel_hardware(r->k);
  const Attr *given = op_attr(op, ATTR_mma);
  p->asked = given ? given->mma : mma_given(&hardware->mma) ? &hardware->mma : NULL;
  return true;
}

static bool is_scaled(const Search *p) { return p->of.lhs_scale != NULL; }

/* An operand that comes directly from an argument can be laid out in shared memory as an
 * instruction of `rows` x `k` reads it, and stay there. */
static bool can_stay(const Search *p, bool rhs, int rows, int k) {
  const Value *v = rhs ? p->of.rhs : p->of.lhs;
  const Sym *row = rhs ? p->of.roles.n : p->of.roles.m;
  if (!v->def || v->def->kind != OP_read || memory_is_scratch(v->def->args[0])) return false;
  DescriptorTile t = {.dims = v->type->rank, .bits = dtype_info[v->type->dtype].bits};
  t.rows = rows, t.k = k, t.row_dim = t.k_dim = -1, t.inner = t.dims - 1;
  for (int i = 0; i < t.dims; i++) {
    t.extent[i] = p->extent[rhs][i];
    if (v->type->dims[i] == row) t.row_dim = i;
    else if (v->type->dims[i] == p->of.roles.k) t.k_dim = i;
    else if (t.extent[i] != 1) return false; /* a batch: one product for each */
  }
  MemLayout m;
  return t.row_dim >= 0 && t.k_dim >= 0 && descriptor_layout(&t, 1, &m);
}

/* The extent of the program's product along the instruction's m. */
static int rows_of(const Search *p, bool swap) { return swap ? p->n : p->m; }
static int columns_of(const Search *p, bool swap) { return swap ? p->m : p->n; }

static Machine machine_of(const Retarget *r) {
  return (Machine){r->target, r->target->lanes, r->waves, r->observable, 0, r->cluster};
}

/* How the waves divide the product among instructions of several waves. */
static bool divide(const Retarget *r, const Search *p, const MmaInfo *row, bool swap,
                   MmaDivision *out) {
  Machine machine = machine_of(r);
  MmaChoice choice = {.name = row->name, .swap = swap};
  return anchor_mma_division_by(r->cx->facts.distribute, &machine, r->cx->scratch, p->op, &choice,
                                out);
}

/* Every group of waves has the same number of instructions, and none computes anything superfluous:
 * what it would read past the tile is not in shared memory. */
static bool divides_evenly(const Retarget *r, const Search *p, const MmaInfo *row, bool swap) {
  MmaDivision div;
  return divide(r, p, row, swap, &div) && div.along[0] * div.tile[0] == rows_of(p, swap) &&
         div.along[1] * div.tile[1] == columns_of(p, swap);
}

static bool is_wide(const Retarget *r, const MmaInfo *row) { return row->lanes > r->target->lanes; }

static bool takes_scales(const Retarget *r, const Search *p, const MmaInfo *row) {
  for (int i = 0; i < 4; i += 2)
    if (p->op->args[i + 1]->type->dtype != DTYPE_f8e8m0fnu ||
        ir_scale_block(r->k, p->op, i) != mma_k_block(row))
      return false;
  return true;
}

/* Swapped, the instruction's B is the program's lhs. Instructions of several waves take their B
 * from shared memory, and only whole tiles. */
static bool takes(const Retarget *r, const Search *p, const MmaInfo *row, bool swap) {
  if (!target_has_mma(r->target, row) || (row->form == MMA_SCALED) != is_scaled(p)) return false;
  if (is_scaled(p) && !takes_scales(r, p, row)) return false;
  unsigned types = target_mma_types(r->target, row);
  if (!mma_allows(row, swap ? p->b : p->a, swap ? p->a : p->b, p->c)) return false;
  if (!(types & p->a) || !(types & p->b)) return false;
  int together = row->lanes / r->target->lanes;
  if (together == 0 || row->lanes % r->target->lanes || r->waves % together) return false;
  if (!(row->storage_b & MMA_REGISTERS) && (r->observable || !can_stay(p, !swap, row->n, row->k)))
    return false;
  return together == 1 || (rows_of(p, swap) % row->m == 0 && columns_of(p, swap) % row->n == 0 &&
                           p->k % row->k == 0);
}

/* The sums must be in registers, and ptxas refuses 128 of them with fewer than 154. */
static bool has_registers(const Retarget *r, const Search *p) {
  enum { OTHERS = 26 };
  int64_t bits = dtype_info[p->op->results[0].type->dtype].bits;
  int64_t sums = bits * p->m * p->n / 32 / ((int64_t)r->waves * r->target->lanes);
  return sums + OTHERS <= target_most_registers(r->target, r->waves);
}

static bool fits(const Retarget *r, const Search *p, const MmaInfo *row, bool swap) {
  if (!takes(r, p, row, swap)) return false;
  return !is_wide(r, row) || (divides_evenly(r, p, row, swap) && has_registers(r, p));
}

/* Products that one group of waves computes, including superfluous ones; then instructions. */
static int64_t cost_of(const Retarget *r, const Search *p, const MmaInfo *row, bool swap) {
  int copies = ceil_div(rows_of(p, swap), row->m) * ceil_div(columns_of(p, swap), row->n);
  int each = ceil_div(copies, r->waves);
  MmaDivision div;
  if (is_wide(r, row) && divide(r, p, row, swap, &div)) each = div.copies[0] * div.copies[1];
  int64_t n = (int64_t)each * ceil_div(p->k, row->k);
  return n * row->m * row->n * row->k * 4096 + n * (row->form == MMA_VIRTUAL ? 2 : 1);
}

typedef struct Instruction {
  const MmaInfo *row; /* NULL: none */
  bool swap;
  Digits order; /* of k; n 0: unchanged */
} Instruction;

static bool is_better(const Retarget *r, const Search *p, Instruction x, Instruction y) {
  if (!y.row || x.row->lanes != y.row->lanes) return !y.row || x.row->lanes > y.row->lanes;
  return cost_of(r, p, x.row, x.swap) < cost_of(r, p, y.row, y.swap);
}

/* The requested instruction if the machine has it, otherwise the cheapest. Instructions of several
 * waves, which read shared memory themselves, are preferred to those of one; unswapped to
 * swapped. */
static Instruction choose_row(const Retarget *r, const Search *p) {
  Instruction best = {0};
  const MmaInfo *asked = p->asked && p->asked->name ? mma_find(p->asked->name) : NULL;
  if (asked && is_scaled(p)) asked = mma_for_type(asked, p->a);
  if (asked && fits(r, p, asked, false)) return (Instruction){.row = asked};
  for (int swap = 0; swap < 2; swap++)
    for (int i = 0; i < mma_count(); i++) {
      Instruction now = {.row = mma_at(i), .swap = swap};
      if ((!swap || is_wide(r, now.row)) && fits(r, p, now.row, swap) && is_better(r, p, now, best))
        best = now;
    }
  return best;
}

/* Without an instruction: dot products, with the lanes along the longer side of the result. */
static MmaChoice choose_dot(const Retarget *r, const Search *p) {
  bool own = p->asked && !p->asked->name && r->target->lanes % p->asked->k_mult == 0;
  if (own) return *p->asked;
  MmaChoice dot = {.out_vec = 1, .k_vec = 1, .k_mult = 1, .along = p->n >= p->m ? 'N' : 'M'};
  while (dot.k_vec < 4 && p->k % (2 * dot.k_vec) == 0) dot.k_vec *= 2;
  return dot;
}

static bool is_narrow(MmaType t) {
  return (t & (MMA_f8e4m3fn | MMA_f8e5m2 | MMA_f8e4m3fnuz | MMA_f8e5m2fnuz | MMA_f6e2m3fn |
               MMA_f4e2m1fn)) != 0;
}

static void widen_operand(Retarget *r, Op *op, int i) {
  Value *v = op->args[i];
  const Type *to = type_with_dtype(r->k->cx, v->type, DTYPE_f16);
  op->args[i] = &ir_insert(r->k, op, OP_cast, op->at, &v, 1, to)->results[0];
  diag_add(DIAGS(r), DIAG_R0603, op->at,
           "%s has no instruction for %s: operand %d is converted exactly to f16", r->target->name,
           dtype_info[v->type->dtype].name, i + 1);
}

/* Every value of a narrow float is a value of f16. */
static Instruction widen(Retarget *r, Search *p) {
  Search wide = *p;
  wide.a = is_narrow(p->a) ? MMA_f16 : p->a;
  wide.b = is_narrow(p->b) ? MMA_f16 : p->b;
  if (is_scaled(p) || (wide.a == p->a && wide.b == p->b)) return (Instruction){0};
  if (!choose_row(r, &wide).row) return (Instruction){0};
  if (wide.a != p->a) widen_operand(r, p->op, 0);
  if (wide.b != p->b) widen_operand(r, p->op, product_rhs(p->op));
  product_of(r->k, p->op, &wide.of);
  *p = wide;
  return choose_row(r, &wide); /* again: the operands are no longer what was read */
}

static void set_instruction(Retarget *r, const Search *p, Instruction i) {
  MmaChoice *choice = ARENA_NEW(r->k->arena, MmaChoice);
  if (i.row) {
    bool shared_b = !(i.row->storage_b & MMA_REGISTERS),
         shared_a = shared_b && can_stay(p, i.swap, i.row->m, i.row->k);
    choice->name = i.row->name;
    choice->swap = i.swap;
    choice->order = i.order;
    choice->shared_lhs = i.swap ? shared_b : shared_a;
    choice->shared_rhs = i.swap ? shared_a : shared_b;
  } else {
    *choice = choose_dot(r, p);
  }
  op_set_attr(r->k, p->op, (Attr){.key = ATTR_mma, .mma = choice});
}

/* In a lane-observable kernel each wave computes its own part alone: in whole instructions, or
 * neighbours would compute each other's elements. */
static bool check_part(Retarget *r, const Op *op, const Sym *dim, int extent, int step) {
  const Distribution *d = r->cx->facts.distribute;
  int axis = anchor_wave_axis(d, dim), waves = axis < 0 ? 1 : anchor_waves_on(d, axis);
  if (waves == 1 || (extent % waves == 0 && extent / waves % step == 0)) return true;
  Diag *e = diag_add(
      DIAGS(r), DIAG_E0611, op->at,
      "the part of each wave along `%s`, %d of %d, is not a multiple of the instruction's %d",
      sym_text(DIAGS(r)->arena, dim), ceil_div(extent, waves), extent, step);
  int whole = ceil_div(ceil_div(extent, waves), step) * step;
  return diag_hint(
      DIAGS(r), e,
      "use a tile of %d, %d for each of the %d waves: in a lane-observable kernel each wave "
      "computes its own part",
      whole * waves, whole, waves);
}

static bool check_parts(Retarget *r, const Search *p, Instruction i) {
  const Op *op = p->op;
  const MmaRoles roles = p->of.roles;
  MmaChoice dot = choose_dot(r, p);
  MmaDot form = {dot.out_vec, dot.k_vec, dot.k_mult, dot.along == 'M' ? MMA_ALONG_M : MMA_ALONG_N};
  const MmaInfo *row = i.row ? i.row : mma_dot(r->cx->scratch, form, r->target->lanes);
  if (!row) return false;
  return check_part(r, op, roles.m, p->m, i.swap ? row->n : row->m) &&
         check_part(r, op, roles.n, p->n, i.swap ? row->m : row->n) &&
         (anchor_shares_loop(r->cx->facts.distribute, roles.k) ||
          check_part(r, op, roles.k, p->k, row->k));
}

/* Whether an op stores a value that differs between threads and has the product's elements. */
static bool stores_varying(const Op *op, const Op *product) {
  const Value *v = op->kind == OP_write || op_is_atomic(op) ? op->args[0] : NULL;
  const Type *t = product->results[0].type;
  for (int i = 0; v && i < t->rank; i++)
    if (!type_has_dim(v->type, t->dims[i])) return false;
  return v && v->varying;
}

/* A declared wave may be several waves of the machine. If its part has too few instructions for
 * them, or they do not divide it, some hold copies of others' elements: these may not be stored once
 * threads have made them differ. */
static bool check_copies(Retarget *r, const Machine *m, Op *product) {
  MmaDivision div;
  int waves = kernel_hardware(r->k)->threads / m->lanes;
  if (!anchor_mma_division(r->cx->facts.distribute, m, r->cx->scratch, product, &div)) return true;
  int groups = waves / (div.row->lanes / m->lanes), used = div.along[0] * div.along[1];
  for (const Op *op = ir_first(r->k); op && used < groups; op = ir_next(op)) {
    if (!stores_varying(op, product)) continue;
    Diag *e = diag_add(DIAGS(r), DIAG_E0611, product->at,
                       "the %d waves of the machine in each wave cannot divide its part: %d hold "
                       "copies, which `%s` would store",
                       waves, waves - waves / groups * used, op_info[op->kind].name);
    return diag_hint(DIAGS(r), e,
                     "use wave tiles that are multiples of the instruction's %d and %d for each of "
                     "the %d waves: the stored value differs between threads",
                     div.row->m, div.row->n, groups);
  }
  return true;
}

/* The type for operands multiplied by their scales: exact, and fast if there are instructions for
 * it. */
static DType scaled_type(const Retarget *r, const Search *p) {
  for (int i = 0; i < mma_count(); i++) {
    const MmaInfo *row = mma_at(i);
    if (row->form != MMA_SCALED && row->lanes == r->target->lanes &&
        target_has_mma(r->target, row) && (target_mma_types(r->target, row) & MMA_bf16) &&
        mma_allows(row, MMA_bf16, MMA_bf16, p->c))
      return DTYPE_bf16;
  }
  return DTYPE_f32;
}

/* Replaces the op by a product of operands multiplied by their scales. */
static Instruction multiply_scales(Retarget *r, Search *p) {
  Op *op = p->op;
  int a = dtype_info[op->args[0]->type->dtype].bits, b = dtype_info[op->args[2]->type->dtype].bits;
  retarget_apply_scales(r->k, op, scaled_type(r, p), r->target);
  if (!open_search(r, op, p)) return (Instruction){0};
  Instruction i = choose_row(r, p);
  if (i.row && !r->observable) i.order = retarget_order_in_runs(i.row, p->k, a < b ? a : b);
  return i;
}

/* Why no instruction of several waves can be taken, although some take the operands: each leaves some
 * waves without a part, or needs more registers than there are. NULL: one can, or none takes them. */
static const char *why_not_wide(const Retarget *r, const Search *p) {
  bool some = false, even = false;
  for (int i = 0; i < mma_count(); i++)
    for (int swap = 0; swap < 2; swap++) {
      if (!is_wide(r, mma_at(i)) || !takes(r, p, mma_at(i), swap)) continue;
      some = true;
      even |= divides_evenly(r, p, mma_at(i), swap);
    }
  if (even) return has_registers(r, p) ? NULL : "need more registers than a thread has with";
  return some ? "do not divide it evenly among" : NULL;
}

static bool choose_instruction(Retarget *r, Op *op) {
  Search p;
  if (!open_search(r, op, &p)) return false;
  Instruction i = choose_row(r, &p);
  if (!i.row) i = is_scaled(&p) ? multiply_scales(r, &p) : widen(r, &p);
  if (r->observable && !check_parts(r, &p, i)) return false;
  set_instruction(r, &p, i);
  Diag *d = diag_add(DIAGS(r), DIAG_R0602, op->at, "%dx%dx%d by `%s` on %s", p.m, p.n, p.k,
                     i.row ? i.row->name : "dot products", r->target->name);
  const char *why = i.row && !is_wide(r, i.row) ? why_not_wide(r, &p) : NULL;
  if (why) diag_note(DIAGS(r), d, (Span){0}, "multi-wave instructions %s %d waves", why, r->waves);
  return true;
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* The product that `v` is the result of, through elementwise ops; NULL: none. */
static Op *product_behind(const Value *v) {
  while (v->def && v->def->kind != OP_mma) {
    const Op *op = v->def;
    const Value *next = NULL;
    bool each = op->kind == OP_permute || op_is_elementwise(op);
    for (int i = 0; each && !next && i < op->nargs; i++)
      if (op->args[i]->type->rank == v->type->rank) next = op->args[i];
    if (!next) return NULL;
    v = next;
  }
  return v->def;
}

static const MmaInfo *row_of(const Op *op) {
  const Attr *a = op_attr(op, ATTR_mma);
  return a && a->mma->name ? mma_find(a->mma->name) : NULL;
}

typedef struct Pairing {
  Search first, second;
  const MmaInfo *a, *b;
  int operand;      /* of the second */
  bool contracts_m; /* the second contracts the first's m; else its n */
} Pairing;

static bool open_pairing(Retarget *r, Op *first, Op *second, int operand, Pairing *p) {
  *p = (Pairing){.a = row_of(first), .b = row_of(second), .operand = operand};
  if (!p->a || !p->b || first->kind != OP_mma) return false;
  if (!open_search(r, first, &p->first) || !open_search(r, second, &p->second)) return false;
  const MmaRoles *f = &p->first.of.roles, *s = &p->second.of.roles;
  p->contracts_m = s->k == f->m;
  return s->k == f->m || s->k == f->n;
}

/* The elements of k after which both fragments repeat, so that a chain of that many serves all. k
 * itself if it ends in between; 0: then it is too long to be enumerated. */
static int chain_period(const Pairing *p) {
  enum { MOST = 4096 };
  int period = p->b->k, k = p->second.k;
  while (period % p->a->m || period % p->a->n) period += p->b->k;
  return k % period == 0 ? period : k <= MOST ? k : 0;
}

/* A permutation of `period` elements in mixed radix, repeated up to k; false: it is not of that
 * form. */
static bool find_order(const int *pi, int period, int k, Digits *out) {
  if (pi[0]) return false;
  for (int n = 1; n < period;) {
    int stride = pi[n], radix = 1;
    for (bool more = true; more && n * (radix + 1) <= period; radix += more)
      for (int i = 0; more && i < n; i++) more = pi[n * radix + i] == pi[i] + radix * stride;
    if (radix == 1 || period % (n * radix) || out->n == LAYOUT_DIGITS) return false;
    out->at[out->n++] = (Digit){0, radix, stride};
    n *= radix;
  }
  if (k > period && out->n == LAYOUT_DIGITS) return false;
  if (k > period) out->at[out->n++] = (Digit){0, k / period, period};
  return true;
}

/* With the second product swapped or not, the first swapped according to *swap_first, and k of the
 * second in another order. */
static bool is_chained(Retarget *r, const Pairing *p, bool swap_second, bool *swap_first,
                       Digits *order) {
  int rows = p->a->m;
  while (rows % p->a->n || rows % p->b->m || rows % p->b->n) rows += p->a->m;
  int period = chain_period(p);
  if (!period) return false;
  ChainUse use = {.first = p->a,
                  .second = p->b,
                  .contracts_m = p->contracts_m,
                  .as_rhs = (p->operand == 1) != swap_second,
                  .rows = rows,
                  .k = period};
  Chain chain = chain_find(r->cx->scratch, &use);
  *swap_first = chain.swap_first;
  *order = (Digits){0};
  bool ordered = chain.found && !chain.identity && (p->b->storage_b & MMA_REGISTERS) &&
                 p->second.k % p->b->k == 0 && find_order(chain.pi, period, p->second.k, order);
  return chain.found && (chain.identity || ordered) && !chain.swap_second &&
         fits(r, &p->first, p->a, chain.swap_first) && fits(r, &p->second, p->b, swap_second);
}

/* Makes the first result an operand of the second without data movement: one or both products are
 * computed transposed, if that helps. It is better still if the dim that stays is the instruction's
 * m in both results, or its n in both: then what is computed per row suits both. */
static void try_chain(Retarget *r, Op *first, Op *second, int operand) {
  Pairing p;
  Instruction a = {0}, b = {0};
  int best = 0; /* k unchanged first, then what suits both */
  if (!open_pairing(r, first, second, operand, &p)) return;
  for (int swap = 0; swap < 2; swap++) {
    bool swap_first;
    Digits order;
    if (!is_chained(r, &p, swap, &swap_first, &order)) continue;
    bool suits = (p.contracts_m == swap_first) == ((operand == 1) == swap);
    int worth = 1 + 2 * !order.n + suits;
    if (worth <= best) continue;
    best = worth;
    a = (Instruction){.row = p.a, .swap = swap_first};
    b = (Instruction){.row = p.b, .swap = swap, .order = order};
  }
  if (!a.row) return;
  set_instruction(r, &p.first, a);
  set_instruction(r, &p.second, b);
}

static void match_chains(Retarget *r) {
  for (Op *op = ir_first(r->k); op; op = ir_next(op))
    for (int i = 0; op->kind == OP_mma && i < 2; i++) {
      Op *first = product_behind(op->args[i]);
      if (first) try_chain(r, first, op, i);
    }
}

/* ---- waves that would only repeat what others compute ---------------------------------------- */

/* Marks the products that `v` is computed from, element by element; false: there are none. */
static bool mark_behind(const Value *v, bool *seen, bool *chained) {
  const Op *op = v->def;
  bool found = op && op->kind == OP_mma;
  if (!op || seen[op->id]) return op && chained[op->id];
  seen[op->id] = true;
  for (int i = 0; (op->kind == OP_permute || op_is_elementwise(op)) && i < op->nargs; i++)
    if (op->args[i]->type->rank == v->type->rank) found |= mark_behind(op->args[i], seen, chained);
  return chained[op->id] |= found;
}

/* The waves among which an instruction divides the rows of an operand that they hold in registers, as
 * they do if it is computed from the result of another product. More waves could only divide the
 * columns, and all of these would compute the whole operand. 0: the instruction is that of one
 * wave. */
static int waves_for_rows(const Retarget *r, Op *op, int operand) {
  Search p;
  if (!open_search(r, op, &p)) return 0;
  const MmaInfo *row = choose_row(r, &p).row;
  int rows = operand == 0 ? p.m : p.n;
  if (!row || !is_wide(r, row) || rows % row->m) return 0;
  return rows / row->m * (row->lanes / r->target->lanes);
}

/* The waves that divide all products of the kernel; those that it declares if one of them is not part
 * of a chain, and may be divided further. */
static int dividing_waves(const Retarget *r) {
  bool *seen = ARENA_ARRAY(r->cx->scratch, bool, r->k->nops);
  bool *chained = ARENA_ARRAY(r->cx->scratch, bool, r->k->nops);
  int most = 0;
  for (Op *op = ir_first(r->k); op; op = ir_next(op))
    for (int i = 0; op->kind == OP_mma && i < 2; i++) {
      if (!mark_behind(op->args[i], seen, chained)) continue;
      int waves = waves_for_rows(r, op, i);
      chained[op->id] = waves > 0;
      if (waves > most) most = waves;
    }
  for (const Op *op = ir_first(r->k); op; op = ir_next(op))
    if (op_is_product(op) && !chained[op->id]) return r->waves;
  return most && most < r->waves ? most : r->waves;
}

/* Whether fewer waves have instructions as wide, and registers for all results of products. */
static bool can_compute_all(const Retarget *fewer) {
  enum { BESIDES = 96 }; /* operands, what is computed early, addresses and the like */
  int64_t sums = 0, threads = (int64_t)fewer->waves * fewer->target->lanes;
  for (Op *op = ir_first(fewer->k); op; op = ir_next(op)) {
    Search p;
    if (!op_is_product(op)) continue;
    if (!open_search(fewer, op, &p)) return false;
    const MmaInfo *row = choose_row(fewer, &p).row;
    if (!row || !is_wide(fewer, row)) return false;
    sums += (int64_t)dtype_info[op->results[0].type->dtype].bits * p.m * p.n / 32 / threads;
  }
  return sums + BESIDES <= target_most_registers(fewer->target, fewer->waves);
}

/* Whether `waves` that compute can obey the rows `roles`, whose first group only copies, and `turns`,
 * whose groups each execute instructions of several waves. */
static bool suits_groups(const Retarget *r, int waves) {
  for (int i = 0; i < r->k->constraints.n; i++) {
    const Constraint *c = &r->k->constraints.at[i];
    if (!schedule_is_row(c) || !schedule_is_for(c, r->target)) continue;
    int computing = 0;
    for (int g = 1; c->kind == CONSTRAINT_roles && g < c->roles.groups.n; g++)
      computing += c->roles.groups.at[g].waves;
    if (c->kind == CONSTRAINT_roles && computing != waves) return false;
    if (c->kind == CONSTRAINT_turns && waves < c->turns.groups * SERVICE_WAVES) return false;
  }
  return true;
}

static void drop_waves(Retarget *r) {
  Retarget fewer = *r;
  if (r->observable) return;
  fewer.waves = dividing_waves(r);
  if (fewer.waves == r->waves || !suits_groups(r, fewer.waves) || !can_compute_all(&fewer)) return;
  diag_add(DIAGS(r), DIAG_R0622, r->k->at,
           "%d of the %d waves would repeat what others compute: `%s` runs with %d",
           r->waves - fewer.waves, r->waves, r->k->name, fewer.waves);
  r->waves = fewer.waves;
}

/* CPUs compute in f32. */
static void apply_all_scales(Retarget *r) {
  for (Op *op = ir_first(r->k); op; op = ir_next(op))
    if (op->kind == OP_scaled_mma) retarget_apply_scales(r->k, op, DTYPE_f32, r->target);
}

/* Loops over tiles have no lanes: a CPU emulates those that a kernel's result depends on. */
static void play_lanes(Retarget *r) {
  int declared = kernel_hardware(r->k)->threads;
  TargetInfo *played = ARENA_NEW(r->cx->scratch, TargetInfo);
  *played = target_playing(r->target, target_played_lanes(declared));
  r->target = played;
}

bool pass_retarget(Kernel *k, PassCtx *cx) {
  bool fitted = k->level != LEVEL_TILE || cx->machine;
  if (!cx->target || fitted) return true;
  Retarget r = {.k = k, .cx = cx, .target = cx->target};
  decide_contract(&r);
  if (pass_machines(cx->target) == PASS_LOOPS) {
    if (!r.observable) return apply_all_scales(&r), true;
    play_lanes(&r);
  }
  if (!check_waves(&r) || !choose_waves(&r)) return false;
  drop_waves(&r);
  for (Op *op = ir_first(k); op; op = ir_next(op)) {
    if (r.observable) combine_together(&r, op);
    if (!check_together(&r, op) || (op_is_product(op) && !choose_instruction(&r, op))) return false;
  }
  Machine machine = machine_of(&r);
  if (r.observable) retarget_mark_threads(k, cx);
  else match_chains(&r);
  for (Op *op = ir_first(k); op && r.observable; op = ir_next(op))
    if (op_is_product(op) && !check_copies(&r, &machine, op)) return false;
  for (Op *op = ir_first(k); op && !r.observable; op = ir_next(op))
    retarget_order_converted(k, cx->facts.distribute, &machine, op);
  retarget_share_products(k, cx, &machine);
  for (Op *op = ir_first(k); op && !r.observable; op = ir_next(op))
    retarget_order_across(k, cx->facts.distribute, &machine, cx->scratch, op);
  add_machine(&r);
  return true;
}
