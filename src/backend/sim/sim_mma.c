/* sim_mma.c: matrix instructions on true fragments.
 *
 * Lanes' registers are gathered into dense A[m][k], B[n][k] and C[m][n] by the layouts of the
 * instruction's row (mma.h), multiplied, and C is scattered back. Products are summed in double and
 * rounded once per instruction; integers wrap.
 *
 * wgmma: a wave computes its own quarter of the rows. The shared operands are read by the wave's
 * wgmma unit, so that overwriting them, or reading the result, before the wait is found. */
#include <string.h>

#include "backend/sim/sim_state.h"

/* Elements of K that share a scale, and the extents of the largest tile. */
enum { SCALE_GROUP = 32 };

typedef struct Fragment {
  const int *element; /* [(wave * lanes + lane) * regs + reg]: row * columns + column, -1: none */
  int regs, rows, columns;
} Fragment;

typedef struct MmaPlan {
  const MmaInfo *row;
  Fragment part[MMA_OPERANDS];
  int copies[3]; /* m, n, k */
  bool a_shared;
  double *a, *b, *c; /* scratch; sums in double hold every integer product of 8 bits */
  bool *a_undef, *b_undef;
} MmaPlan;

/* ---- making ready ---- */

static bool read_fragment(Sim *s, const MmaInfo *row, MmaOperand operand, Fragment *out) {
  Layout l;
  if (!mma_fragment(row, operand, &l)) return false;
  *out =
      (Fragment){layout_table(s->home, &l), layout_size(&l, LAYOUT_REG), l.extent[0], l.extent[1]};
  return true;
}

static bool check_regs(Sim *s, const SimOp *x, int arg, int wanted) {
  const Value *v = x->op->args[arg];
  if (v->type->n == wanted) return true;
  return fail_setup(
      s, DIAG_E0813, x->op->at, "operand %d of `%s` is %s; the instruction holds %d registers",
      arg + 1, op_info[x->op->kind].name, type_text(s->cx->diags.arena, s->cx, v->type), wanted);
}

static const MmaInfo *find_row(Sim *s, const SimOp *x) {
  const MmaChoice *m = op_attr(x->op, ATTR_mma)->mma;
  const MmaInfo *row = m->name ? mma_find(m->name) : NULL;
  int lanes = x->op->kind == OP_wgmma ? 4 * s->wave : s->wave;
  if (row && row->lanes == lanes) return row;
  fail_setup(s, DIAG_E0813, x->op->at, "`%s` does not run on %d lanes", m->name ? m->name : "dot",
             lanes);
  return NULL;
}

static bool read_parts(Sim *s, SimOp *x, MmaPlan *p) {
  bool wg = x->op->kind == OP_wgmma;
  p->a_shared = wg && x->op->args[1]->type->kind == TYPE_mem;
  if (!p->a_shared && !read_fragment(s, p->row, MMA_A, &p->part[MMA_A])) return false;
  if (!wg && !read_fragment(s, p->row, MMA_B, &p->part[MMA_B])) return false;
  if (x->op->nargs == 5 && !wg &&
      (!read_fragment(s, p->row, MMA_SA, &p->part[MMA_SA]) ||
       !read_fragment(s, p->row, MMA_SB, &p->part[MMA_SB])))
    return false;
  return read_fragment(s, p->row, MMA_C, &p->part[MMA_C]);
}

bool mma_plan(Sim *s, SimOp *x) {
  MmaPlan *p = x->mma = ARENA_NEW(s->home, MmaPlan);
  p->row = find_row(s, x);
  if (!p->row) return false;
  if (!read_parts(s, x, p))
    return fail_setup(s, DIAG_E0813, x->op->at, "`%s` has no such fragments", p->row->name);
  const Attr *copies = op_attr(x->op, ATTR_copies);
  for (int i = 0; i < 3; i++) {
    int64_t v = 1;
    if (copies) sym_is_int(copies->dims[i], &v);
    p->copies[i] = (int)v;
  }
  size_t m = (size_t)p->row->m, n = (size_t)p->row->n, k = (size_t)p->row->k;
  p->a = ARENA_ARRAY(s->home, double, m *k);
  p->b = ARENA_ARRAY(s->home, double, n *k);
  p->c = ARENA_ARRAY(s->home, double, m *n);
  p->a_undef = ARENA_ARRAY(s->home, bool, m);
  p->b_undef = ARENA_ARRAY(s->home, bool, n);
  int cm = p->copies[0], cn = p->copies[1], ck = p->copies[2];
  if (x->op->kind == OP_wgmma)
    return check_regs(s, x, 0, p->part[MMA_C].regs) &&
           (p->a_shared || check_regs(s, x, 1, p->part[MMA_A].regs));
  return check_regs(s, x, 0, cm * ck * p->part[MMA_A].regs) &&
         check_regs(s, x, 1, cn * ck * p->part[MMA_B].regs) &&
         check_regs(s, x, 2, cm * cn * p->part[MMA_C].regs);
}

/* ---- gathering ---- */

static double number(DType t, Reg r) { return dtype_is_float(t) ? r.f : (double)r.i; }

/* What the instruction reads of a register: tf32 keeps 10 bits of the mantissa. */
static double operand_number(const MmaInfo *row, DType t, Reg r) {
  if (t != DTYPE_f32 || !(row->operand_types & MMA_tf32)) return number(t, r);
  uint64_t bits = dtype_encode(DTYPE_f32, r.f) & ~UINT64_C(0x1fff);
  return dtype_decode(DTYPE_f32, bits);
}

/* Registers from `first` on of all lanes into a dense matrix; `wave`: of those that execute it. */
static void gather(Wave *w, const MmaPlan *p, MmaOperand part, const Value *v, int first, int wave,
                   double *to, bool *undef) {
  const Fragment *f = &p->part[part];
  int lanes = w->sim->wave;
  for (int r = 0; r < f->regs; r++) {
    const Reg *x = wave_regs(w, v) + (size_t)(first + r) * (size_t)lanes;
    uint64_t holes = wave_undef(w, v)[first + r];
    for (int l = 0; l < lanes; l++) {
      int element = f->element[(wave * lanes + l) * f->regs + r];
      if (element < 0) continue;
      to[element] = part == MMA_C ? number(v->type->dtype, x[l])
                                  : operand_number(p->row, v->type->dtype, x[l]);
      if (undef && holes >> l & 1) undef[element / f->columns] = true;
    }
  }
}

static double rounded(DType t, double v) {
  return dtype_is_float(t) ? dtype_round(t, v) : (double)dtype_wrap(t, (int64_t)v);
}

static void scatter(Wave *w, const MmaPlan *p, const Value *v, int first, int wave,
                    uint64_t *acc_undef) {
  const Fragment *f = &p->part[MMA_C];
  int lanes = w->sim->wave;
  DType t = v->type->dtype;
  for (int r = 0; r < f->regs; r++) {
    Reg *x = wave_regs(w, v) + (size_t)(first + r) * (size_t)lanes;
    uint64_t holes = acc_undef ? acc_undef[r] : 0;
    for (int l = 0; l < lanes; l++) {
      int element = f->element[(wave * lanes + l) * f->regs + r];
      if (element < 0) continue;
      double c = rounded(t, p->c[element]);
      if (dtype_is_float(t)) x[l].f = c;
      else x[l].i = (int64_t)c;
      bool hole = p->a_undef[element / f->columns] || p->b_undef[element % f->columns];
      holes |= (uint64_t)hole << l;
    }
    wave_undef(w, v)[first + r] = holes;
  }
}

/* c += a * b for rows [from, to). */
static void multiply(const MmaPlan *p, int from, int to) {
  int n = p->row->n, k = p->row->k;
  for (int i = from; i < to; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int e = 0; e < k; e++) sum += p->a[i * k + e] * p->b[j * k + e];
      p->c[i * n + j] += sum;
    }
}

/* ---- wave_mma ---- */

static void apply_scales(Wave *w, const MmaPlan *p, MmaOperand part, const Value *v, int first,
                         double *to, int rows) {
  double scale[1024];
  const Fragment *f = &p->part[part];
  int k = p->row->k;
  WV_ASSERT(f->rows * f->columns <= 1024);
  gather(w, p, part, v, first, 0, scale, NULL);
  for (int i = 0; i < rows; i++)
    for (int e = 0; e < k; e++) to[i * k + e] *= scale[i * f->columns + e / SCALE_GROUP];
}

static void one_instruction(Wave *w, SimOp *s, int m, int n, int k) {
  MmaPlan *p = s->mma;
  const Op *op = s->op;
  int ck = p->copies[2];
  memset(p->a_undef, 0, sizeof *p->a_undef * (size_t)p->row->m);
  memset(p->b_undef, 0, sizeof *p->b_undef * (size_t)p->row->n);
  gather(w, p, MMA_A, op->args[0], (m * ck + k) * p->part[MMA_A].regs, 0, p->a, p->a_undef);
  gather(w, p, MMA_B, op->args[1], (n * ck + k) * p->part[MMA_B].regs, 0, p->b, p->b_undef);
  if (op->nargs == 5) {
    apply_scales(w, p, MMA_SA, op->args[3], (m * ck + k) * p->part[MMA_SA].regs, p->a, p->row->m);
    apply_scales(w, p, MMA_SB, op->args[4], (n * ck + k) * p->part[MMA_SB].regs, p->b, p->row->n);
  }
  int first = (m * p->copies[1] + n) * p->part[MMA_C].regs;
  const Value *acc = &op->results[0];
  gather(w, p, MMA_C, acc, first, 0, p->c, NULL);
  multiply(p, 0, p->row->m);
  scatter(w, p, acc, first, 0, wave_undef(w, acc) + first);
}

Step step_wave_mma(Wave *w, SimOp *s) {
  const Value *acc = s->op->args[2], *out = &s->op->results[0];
  wave_whole(w, s);
  memcpy(wave_regs(w, out), wave_regs(w, acc),
         sizeof(Reg) * (size_t)out->type->n * (size_t)w->sim->wave);
  memcpy(wave_undef(w, out), wave_undef(w, acc), sizeof(uint64_t) * (size_t)out->type->n);
  for (int k = 0; k < s->mma->copies[2]; k++)
    for (int m = 0; m < s->mma->copies[0]; m++)
      for (int n = 0; n < s->mma->copies[1]; n++) one_instruction(w, s, m, n, k);
  return STEP_NEXT;
}

/* ---- wgmma: shared operands ---- */

typedef struct Descriptor {
  const Buffer *b;
  int64_t first; /* byte address */
  int64_t leading, stride, span;
  bool transposed;
} Descriptor;

static Descriptor descriptor(Wave *w, SimOp *s, int arg, AttrKey key) {
  const Attr *a = op_attr(s->op, key);
  int64_t v[4] = {0};
  for (int i = 0; i < 4; i++) sym_is_int(a->dims[i], &v[i]);
  Descriptor d = {.b = w->sim->buffer[s->op->args[arg]->id],
                  .leading = v[0],
                  .stride = v[1],
                  .span = v[2],
                  .transposed = v[3] != 0};
  wave_check_use(w, s, s->op->args[arg + 1], w->mask, "an address");
  d.first = buffer_address(d.b, wave_regs(w, s->op->args[arg + 1])[0].i);
  if (d.first % 16)
    report(w, s, DIAG_E0806, NULL,
           "a wgmma operand in `%s` at address %lld, which is no multiple of 16", d.b->name,
           (long long)d.first);
  return d;
}

/* Element (row, k) of an operand. Core matrices are 8 rows of 16 bytes; a swizzle of S bytes makes
 * rows of S bytes of them. Transposed: rows run along the row dimension, 8 of them along k. */
static int64_t operand_address(const Descriptor *d, int64_t row, int64_t k) {
  int64_t size = d->b->bytes, piece = 16 / size, wide = d->span ? d->span / size : piece;
  if (!d->transposed && d->span)
    return d->first + row % 8 * d->span + row / 8 * d->stride + k * size;
  if (!d->transposed)
    return d->first + row % 8 * 16 + row / 8 * d->stride + k % piece * size +
           k / piece * d->leading;
  int64_t across = d->span ? d->leading : d->stride, along = d->span ? d->stride : d->leading;
  return d->first + row % wide * size + row / wide * across + k % 8 * (d->span ? d->span : 16) +
         k / 8 * along;
}

static void read_operand(Wave *w, SimOp *s, const Descriptor *d, int from, int to, double *out,
                         bool *undef) {
  int k = s->mma->row->k;
  Actor a = actor_async(w, s, 0, w->sim->units.wgmma + w->index, w->wgmma_group);
  for (int i = from; i < to; i++)
    for (int e = 0; e < k; e++) {
      int64_t address = swizzled(operand_address(d, i, e), d->span);
      int64_t element = (address - d->b->base) / d->b->bytes;
      if (address < d->b->base || !buffer_inside(d->b, element)) {
        report(w, s, DIAG_E0801, NULL,
               "element (%d, %d) of a wgmma operand lies at address %lld, outside of `%s`", i, e,
               (long long)address, d->b->name);
        return;
      }
      shadow_read(&a, d->b, element);
      undef[i] |= !is_written(w, d->b, element);
      Reg r = reg_from_bits(d->b->dtype, dtype_load(d->b->dtype, buffer_bytes(w, d->b), element));
      out[i * k + e] = operand_number(s->mma->row, d->b->dtype, r);
    }
}

/* ---- wgmma ---- */

Step step_wgmma_fence(Wave *w, SimOp *s) {
  wave_whole(w, s);
  w->wgmma_fenced = true;
  return STEP_NEXT;
}

static void check_fence(Wave *w, SimOp *s) {
  const Value *acc = s->op->args[0];
  bool chained = w->flight[acc->id] > w->wgmma_done;
  if (w->wgmma_fenced || chained) return;
  Diag *d = report(w, s, DIAG_E0812, NULL,
                   "`wgmma` uses registers that were written since the last `wgmma_fence`");
  if (d)
    diag_hint(&w->sim->cx->diags, d, "execute `wgmma_fence` before the first wgmma of a batch");
}

Step step_wgmma(Wave *w, SimOp *s) {
  MmaPlan *p = s->mma;
  const Op *op = s->op;
  const Value *out = &op->results[0];
  int quarter = w->index % 4, from = p->row->m / 4 * quarter, to = from + p->row->m / 4;
  int b = p->a_shared ? 3 : 2;
  wave_whole(w, s);
  check_fence(w, s);
  w->sim->stamp++;
  memset(p->a_undef, 0, sizeof *p->a_undef * (size_t)p->row->m);
  memset(p->b_undef, 0, sizeof *p->b_undef * (size_t)p->row->n);
  if (p->a_shared) {
    Descriptor a = descriptor(w, s, 1, ATTR_desc_a);
    read_operand(w, s, &a, from, to, p->a, p->a_undef);
  } else {
    gather(w, p, MMA_A, op->args[1], 0, quarter, p->a, p->a_undef);
  }
  Descriptor d = descriptor(w, s, b, ATTR_desc_b);
  read_operand(w, s, &d, 0, p->row->n, p->b, p->b_undef);
  const Value *keep = op->nargs > b + 2 ? op->args[b + 2] : NULL;
  bool adds = !keep || wave_regs(w, keep)[lowest_bit(w->mask)].i != 0;
  if (adds) gather(w, p, MMA_C, op->args[0], 0, quarter, p->c, NULL);
  else memset(p->c, 0, sizeof *p->c * (size_t)(p->row->m * p->row->n));
  multiply(p, from, to);
  scatter(w, p, out, 0, quarter, adds ? wave_undef(w, op->args[0]) : NULL);
  w->flight[out->id] = w->wgmma_issued = w->wgmma_group;
  return STEP_NEXT;
}

Step step_wgmma_commit(Wave *w, SimOp *s) {
  wave_whole(w, s);
  w->wgmma_group++;
  return STEP_NEXT;
}

Step step_wgmma_wait(Wave *w, SimOp *s) {
  int64_t pending = op_attr(s->op, ATTR_pending)->integer;
  uint32_t committed = w->wgmma_group - 1;
  wave_whole(w, s);
  if (committed > pending && w->wgmma_done < committed - (uint32_t)pending)
    w->wgmma_done = committed - (uint32_t)pending;
  w->wgmma_fenced = false;
  return STEP_NEXT;
}
