/* sim_mma.c: matrix instructions on true fragments.
 *
 * Lanes' registers are gathered into dense matrices by the layouts of the instruction's row (mma.h)
 * and multiplied, and each lane adds the products of the elements it holds to its own accumulators.
 * Products are summed in double and rounded once per instruction; integers wrap. A dot product is
 * the same: the sum over the lanes that share a result is part of the instruction, and every lane
 * that holds a copy of it gets the whole sum. */
#include "backend/sim/sim_mma.h"

#include <string.h>

enum { SCALE_GROUP = 32 }; /* elements of K that share a scale */

/* ---- preparation: the row ---- */

static const MmaInfo *dot_row(Sim *s, const SimOp *x, const MmaChoice *m, int lanes) {
  bool small = m->out_vec <= IR_MAX_VEC && m->k_vec <= IR_MAX_VEC && m->k_mult <= lanes;
  MmaDot dot = {m->out_vec, m->k_vec, m->k_mult, m->along == 'M' ? MMA_ALONG_M : MMA_ALONG_N};
  const MmaInfo *row = small ? mma_dot(s->home, dot, lanes) : NULL;
  if (!row)
    sim_fail_setup(
        s, DIAG_E0813, x->op->at,
        "`dot(%d, %d, %d, %c)` cannot run on %d lanes: vectors must have 1 to %d elements, "
        "and the number of lanes that share a result must divide the wave",
        m->out_vec, m->k_vec, m->k_mult, m->along, lanes, IR_MAX_VEC);
  return row;
}

static const MmaInfo *find_row(Sim *s, const SimOp *x) {
  const MmaChoice *m = op_attr(x->op, ATTR_mma)->mma;
  bool wg = x->op->kind == OP_wgmma;
  int lanes = wg ? 4 * s->wave : s->wave;
  if (!m->name && !wg) return dot_row(s, x, m, lanes);
  const MmaInfo *row = m->name ? mma_named(s->home, m->name) : NULL;
  bool fits = row && row->lanes == lanes && (row->storage_b == MMA_SHARED) == wg;
  if (fits && target_has_mma(s->machine, row)) return row;
  if (fits)
    sim_fail_setup(s, DIAG_E0813, x->op->at, "`%s` does not have `%s`", s->machine->name,
                   row->name);
  else
    sim_fail_setup(s, DIAG_E0813, x->op->at, "`%s` is not an instruction of `%s` on %d lanes",
                   row ? row->name : "dot", op_info[x->op->kind].name, lanes);
  return NULL;
}

/* ---- preparation: types ---- */

static unsigned admitted(DType t) {
  return (unsigned)dtype_mma(t) | (t == DTYPE_f32 ? (unsigned)MMA_tf32 : 0);
}

/* Floats and integers do not mix; products of each are summed in their own way. */
static bool check_types(Sim *s, const SimOp *x, const MmaInfo *row) {
  bool wg = x->op->kind == OP_wgmma;
  int first = wg ? 1 : 0, second = wg ? (x->mma->a_shared ? 3 : 2) : 1;
  DType a = x->op->args[first]->type->dtype, b = x->op->args[second]->type->dtype;
  DType c = x->op->args[wg ? 0 : 2]->type->dtype;
  unsigned types = target_mma_types(s->machine, row);
  if (row->form == MMA_DOT || row->form == MMA_TILE) types = row->operand_types;
  bool fits = (types & admitted(a)) && (types & admitted(b)) && (row->mixed || a == b) &&
              (row->acc_types & (unsigned)dtype_mma(c)) && dtype_is_float(a) == dtype_is_float(c) &&
              dtype_is_float(b) == dtype_is_float(c);
  if (row->form == MMA_TILE && c == DTYPE_i64) fits = a == c && b == c; /* on CPUs only */
  for (int i = 3; fits && !wg && i < x->op->nargs; i++)
    fits = x->op->args[i]->type->dtype == DTYPE_f8e8m0fnu;
  if (fits) return true;
  return sim_fail_setup(s, DIAG_E0813, x->op->at, "`%s` on `%s` cannot multiply %s by %s into %s%s",
                        row->name, s->machine->name, dtype_info[a].name, dtype_info[b].name,
                        dtype_info[c].name, x->op->nargs == 5 && !wg ? " with these scales" : "");
}

/* ---- preparation: fragments ---- */

/* B is stored with K outermost, so that products walk it in order. */
static bool read_fragment(Sim *s, const MmaInfo *row, MmaOperand operand, Fragment *out) {
  Layout l;
  if (!mma_fragment(row, operand, &l)) return false;
  int n = layout_positions(&l), rows = l.extent[0], columns = l.extent[1];
  int regs = layout_size(&l, LAYOUT_REG), lanes = s->wave;
  const int *table = layout_table(s->home, &l);
  int *index = ARENA_ARRAY(s->home, int, n), *line = ARENA_ARRAY(s->home, int, n);
  bool all = true;
  for (int i = 0; i < n; i++) {
    int wave = i / regs / lanes, at = (wave * regs + i % regs) * lanes + i / regs % lanes;
    line[at] = table[i] < 0 ? 0 : table[i] / columns;
    index[at] = operand != MMA_B || table[i] < 0 ? table[i] : table[i] % columns * rows + line[at];
    all &= table[i] >= 0;
  }
  *out = (Fragment){index, line, regs, rows * columns, layout_replication(&l) > 1, all};
  return true;
}

static bool read_parts(Sim *s, SimOp *x, MmaPlan *p) {
  bool wg = x->op->kind == OP_wgmma;
  if (!p->a_shared && !read_fragment(s, p->row, MMA_A, &p->part[MMA_A])) return false;
  if (!wg && !read_fragment(s, p->row, MMA_B, &p->part[MMA_B])) return false;
  if (x->op->nargs == 5 && !wg &&
      (!read_fragment(s, p->row, MMA_SA, &p->part[MMA_SA]) ||
       !read_fragment(s, p->row, MMA_SB, &p->part[MMA_SB])))
    return false;
  return read_fragment(s, p->row, MMA_C, &p->part[MMA_C]);
}

static bool check_regs(Sim *s, const SimOp *x, int arg, int64_t copies, int64_t times,
                       MmaOperand part) {
  const Value *v = x->op->args[arg];
  int regs = x->mma->part[part].regs;
  bool small = copies <= IR_MAX_VEC && times <= IR_MAX_VEC; /* no overflow below */
  if (small && v->type->n == copies * times * regs) return true;
  return sim_fail_setup(
      s, DIAG_E0813, x->op->at,
      "operand %d of `%s` is %s; the instruction expects %d registers for each of "
      "%lld x %lld copies",
      arg + 1, op_info[x->op->kind].name, type_text(s->cx->diags.arena, s->cx, v->type), regs,
      (long long)copies, (long long)times);
}

static bool read_copies(Sim *s, SimOp *x, MmaPlan *p) {
  const Attr *copies = op_attr(x->op, ATTR_copies);
  int64_t c[3] = {1, 1, 1};
  for (int i = 0; copies && i < 3; i++) c[i] = copies->ints[i];
  bool ok =
      x->op->kind == OP_wgmma
          ? check_regs(s, x, 0, 1, 1, MMA_C) && (p->a_shared || check_regs(s, x, 1, 1, 1, MMA_A))
          : check_regs(s, x, 0, c[0], c[2], MMA_A) && check_regs(s, x, 1, c[1], c[2], MMA_B) &&
                check_regs(s, x, 2, c[0], c[1], MMA_C);
  if (ok && p->part[MMA_SA].index)
    ok = check_regs(s, x, 3, c[0], c[2], MMA_SA) && check_regs(s, x, 4, c[1], c[2], MMA_SB);
  for (int i = 0; ok && i < 3; i++) p->copies[i] = (int)c[i];
  return ok;
}

bool mma_plan(Sim *s, SimOp *x) {
  MmaPlan *p = x->mma = ARENA_NEW(s->home, MmaPlan);
  bool wg = x->op->kind == OP_wgmma;
  p->a_shared = wg && x->op->args[1]->type->kind == TYPE_mem;
  p->is_float = dtype_is_float(x->op->results[0].type->dtype);
  p->row = find_row(s, x);
  p->narrows = p->row && !(p->row->operand_types & MMA_f32);
  if (!p->row || !check_types(s, x, p->row)) return false;
  if (!read_parts(s, x, p))
    return sim_fail_setup(s, DIAG_E0813, x->op->at, "`%s` has no such fragments", p->row->name);
  if (!read_copies(s, x, p) || (wg && !wgmma_check(s, x))) return false;
  size_t m = (size_t)p->row->m, n = (size_t)p->row->n, k = (size_t)p->row->k;
  p->a = ARENA_ARRAY(s->home, double, m *k);
  p->b = ARENA_ARRAY(s->home, double, n *k);
  p->product = ARENA_ARRAY(s->home, Reg, m * n);
  p->a_undef = ARENA_ARRAY(s->home, bool, m);
  p->b_undef = ARENA_ARRAY(s->home, bool, n);
  p->scale = ARENA_ARRAY(s->home, double, (m > n ? m : n) * (k / SCALE_GROUP + 1));
  p->holder = ARENA_ARRAY(s->home, int, (m > n ? m : n) * k);
  return true;
}

/* ---- gathering ---- */

/* tf32 keeps 10 bits of the mantissa. */
double mma_number(const MmaPlan *p, DType t, Reg r) {
  if (!p->is_float) return (double)r.i;
  if (!p->narrows || t != DTYPE_f32) return r.f;
  return dtype_decode(DTYPE_f32, dtype_encode(DTYPE_f32, r.f) & ~UINT64_C(0x1fff));
}

static void check_copy(Wave *w, const SimOp *s, int arg, int lane, int other, double x, double y) {
  if (other < 0 || x == y || (x != x && y != y)) return;
  sim_report(
      w, s, DIAG_E0815, NULL,
      "operand %d of `%s`: lanes %d and %d hold the same element with different values, %g and %g",
      arg + 1, op_info[s->op->kind].name, other, lane, y, x);
}

/* One register of all lanes, the general case: undefined elements, copies, lanes that hold
 * nothing. */
static void gather_checked(Wave *w, const SimOp *s, const Fragment *f, int arg, int reg, int at,
                           double *to, bool *undef) {
  const MmaPlan *p = s->mma;
  const Value *v = s->op->args[arg];
  int lanes = w->sim->wave;
  const Reg *x = wave_regs(w, v) + (size_t)reg * (size_t)lanes;
  uint64_t holes = wave_undef(w, v)[reg];
  for (int l = 0; l < lanes; l++) {
    int index = f->index[at + l];
    if (index < 0) continue;
    double number = mma_number(p, v->type->dtype, x[l]);
    if (holes >> l & 1) undef[f->line[at + l]] = true;
    else if (f->copied) {
      check_copy(w, s, arg, l, p->holder[index] - 1, number, to[index]);
      p->holder[index] = l + 1;
    }
    to[index] = number;
  }
}

void mma_gather(Wave *w, const SimOp *s, MmaOperand part, int arg, int first, int wave, double *to,
                bool *undef) {
  const MmaPlan *p = s->mma;
  const Fragment *f = &p->part[part];
  const Value *v = s->op->args[arg];
  int lanes = w->sim->wave;
  bool plain = p->is_float && !p->narrows && !f->copied && f->whole;
  if (f->copied) memset(p->holder, 0, sizeof *p->holder * (size_t)f->size);
  for (int r = 0; r < f->regs; r++) {
    const Reg *x = wave_regs(w, v) + (size_t)(first + r) * (size_t)lanes;
    int at = (wave * f->regs + r) * lanes;
    if (!plain || wave_undef(w, v)[first + r])
      gather_checked(w, s, f, arg, first + r, at, to, undef);
    else
      for (int l = 0; l < lanes; l++) to[f->index[at + l]] = x[l].f;
  }
}

void mma_forget_holes(MmaPlan *p) {
  memset(p->a_undef, 0, sizeof *p->a_undef * (size_t)p->row->m);
  memset(p->b_undef, 0, sizeof *p->b_undef * (size_t)p->row->n);
}

/* ---- multiplying ---- */

/* Four columns at a time, whose sums stay in registers. */
static void multiply_row(const double *restrict a, const double *restrict b, Reg *restrict to,
                         int n, int k) {
  int j = 0;
  for (; j + 4 <= n; j += 4) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int e = 0; e < k; e++) {
      const double *row = b + e * n + j;
      s0 += a[e] * row[0], s1 += a[e] * row[1], s2 += a[e] * row[2], s3 += a[e] * row[3];
    }
    to[j].f = s0, to[j + 1].f = s1, to[j + 2].f = s2, to[j + 3].f = s3;
  }
  for (; j < n; j++) {
    to[j].f = 0;
    for (int e = 0; e < k; e++) to[j].f += a[e] * b[e * n + j];
  }
}

static void multiply_integers(const double *restrict a, const double *restrict b, Reg *restrict to,
                              int n, int k) {
  for (int j = 0; j < n; j++) {
    uint64_t sum = 0;
    for (int e = 0; e < k; e++) sum += (uint64_t)(int64_t)a[e] * (uint64_t)(int64_t)b[e * n + j];
    to[j].i = (int64_t)sum;
  }
}

void mma_multiply(const MmaPlan *p, int from, int to) {
  int n = p->row->n, k = p->row->k;
  for (int i = from; i < to; i++)
    if (p->is_float) multiply_row(p->a + i * k, p->b, p->product + i * n, n, k);
    else multiply_integers(p->a + i * k, p->b, p->product + i * n, n, k);
}

static Reg accumulate(DType t, bool is_float, Reg acc, Reg product) {
  if (is_float) return (Reg){.f = dtype_round(t, acc.f + product.f)};
  return (Reg){.i = dtype_wrap(t, (int64_t)((uint64_t)acc.i + (uint64_t)product.i))};
}

void mma_scatter(Wave *w, const SimOp *s, const Value *acc, int first, int wave) {
  const MmaPlan *p = s->mma;
  const Fragment *f = &p->part[MMA_C];
  const Value *v = &s->op->results[0];
  int lanes = w->sim->wave, n = p->row->n;
  bool any_holes =
      memchr(p->a_undef, true, (size_t)p->row->m) || memchr(p->b_undef, true, (size_t)n);
  for (int r = 0; r < f->regs; r++) {
    size_t at = (size_t)(first + r) * (size_t)lanes;
    Reg *x = wave_regs(w, v) + at;
    const Reg *old = acc ? wave_regs(w, acc) + at : NULL;
    uint64_t holes = acc ? wave_undef(w, acc)[first + r] : 0;
    const int *indices = f->index + (wave * f->regs + r) * lanes;
    for (int l = 0; l < lanes; l++) {
      int index = indices[l];
      if (index < 0) continue;
      x[l] = accumulate(v->type->dtype, p->is_float, old ? old[l] : (Reg){0}, p->product[index]);
      if (any_holes) holes |= (uint64_t)(p->a_undef[index / n] || p->b_undef[index % n]) << l;
    }
    wave_undef(w, v)[first + r] = holes;
  }
}

/* ---- wave_mma ---- */

static void scale_rows(Wave *w, const SimOp *s, int first) {
  const MmaPlan *p = s->mma;
  int k = p->row->k, groups = k / SCALE_GROUP;
  mma_gather(w, s, MMA_SA, 3, first, 0, p->scale, p->a_undef);
  for (int i = 0; i < p->row->m; i++)
    for (int e = 0; e < k; e++) p->a[i * k + e] *= p->scale[i * groups + e / SCALE_GROUP];
}

static void scale_columns(Wave *w, const SimOp *s, int first) {
  const MmaPlan *p = s->mma;
  int k = p->row->k, n = p->row->n, groups = k / SCALE_GROUP;
  mma_gather(w, s, MMA_SB, 4, first, 0, p->scale, p->b_undef);
  for (int j = 0; j < n; j++)
    for (int e = 0; e < k; e++) p->b[e * n + j] *= p->scale[j * groups + e / SCALE_GROUP];
}

/* Copies of an operand are stored with k innermost, those of the result with n innermost. */
static void one_instruction(Wave *w, SimOp *s, int m, int n, int k) {
  MmaPlan *p = s->mma;
  int ck = p->copies[2];
  mma_forget_holes(p);
  mma_gather(w, s, MMA_A, 0, (m * ck + k) * p->part[MMA_A].regs, 0, p->a, p->a_undef);
  mma_gather(w, s, MMA_B, 1, (n * ck + k) * p->part[MMA_B].regs, 0, p->b, p->b_undef);
  if (p->part[MMA_SA].index) {
    scale_rows(w, s, (m * ck + k) * p->part[MMA_SA].regs);
    scale_columns(w, s, (n * ck + k) * p->part[MMA_SB].regs);
  }
  mma_multiply(p, 0, p->row->m);
  mma_scatter(w, s, &s->op->results[0], (m * p->copies[1] + n) * p->part[MMA_C].regs, 0);
}

Step step_wave_mma(Wave *w, SimOp *s) {
  const Value *acc = s->op->args[2], *out = &s->op->results[0];
  wave_full(w, s);
  memcpy(wave_regs(w, out), wave_regs(w, acc),
         sizeof(Reg) * (size_t)out->type->n * (size_t)w->sim->wave);
  memcpy(wave_undef(w, out), wave_undef(w, acc), sizeof(uint64_t) * (size_t)out->type->n);
  for (int k = 0; k < s->mma->copies[2]; k++)
    for (int m = 0; m < s->mma->copies[0]; m++)
      for (int n = 0; n < s->mma->copies[1]; n++) one_instruction(w, s, m, n, k);
  return STEP_NEXT;
}
