/* cpu_lanes_mma.c: matrix instructions of the lanes of a wave.
 *
 * What the lanes have kept is gathered into dense matrices by the layouts of the instruction's row
 * (mma.h) and multiplied, and each lane adds the products of the elements it holds to its own
 * accumulators, with the same rounding as the simulator: products of floats are summed in f64 and
 * rounded once per instruction; integers wrap. Everything is a loop, so the size of the code does
 * not depend on the instruction. */
#include <inttypes.h>

#include "backend/cpu/lanes/cpu_lanes.h"
#include "ir/dtype.h"
#include "target/mma.h"

enum { SCALE_GROUP = 32 }; /* elements of K that share a scale */

/* The fragment of an operand: the number of registers of a lane, and the position of each in the
 * matrix. */
typedef struct Fragment {
  const Type *type;
  int64_t offset;    /* in scratch memory, of what lanes keep */
  int regs;          /* of one instance of the instruction */
  const char *table; /* of i32, by lane and register; -1: no element */
} Fragment;

typedef struct Matrix {
  Llvm *p;
  const Op *op;
  const MmaInfo *row;
  int copies[3]; /* along m, n, k */
  Fragment part[MMA_OPERANDS];
  DType sum;                    /* f64 or i64 */
  int64_t a, b, product, scale; /* matrices in scratch, of type `sum`; b also has k innermost */
  const char *wave;             /* the index of the loop over waves */
  int64_t all;                  /* bytes of the matrices; each wave that runs apart has its own */
} Matrix;

/* ---- the row ---- */

static const MmaInfo *find_row(const Matrix *m) {
  const MmaChoice *c = op_attr(m->op, ATTR_mma)->mma;
  Arena *a = m->p->arena;
  int lanes = m->p->cpu->lanes->wave;
  if (c->name) return mma_named(a, c->name);
  if (c->out_vec < 1 || c->k_vec < 1 || c->k_mult < 1 || lanes % c->k_mult) return NULL;
  MmaDot dot = {c->out_vec, c->k_vec, c->k_mult, c->along == 'M' ? MMA_ALONG_M : MMA_ALONG_N};
  return mma_dot(a, dot, lanes);
}

static const char *index_table(Matrix *m, MmaOperand operand, const Layout *l) {
  Llvm *p = m->p;
  const int *index = layout_table(p->arena, l);
  int n = layout_positions(l);
  const char *name = arena_printf(p->arena, "@\"place.%s.%d\"", m->row->name, (int)operand);
  StrBuf out = {.arena = p->arena};
  sb_printf(&out, "%s = private unnamed_addr constant [%d x i32] [", name, n);
  for (int i = 0; i < n; i++) sb_printf(&out, "%si32 %d", i ? ", " : "", index[i]);
  sb_putc(&out, ']');
  llvm_declare(p, sb_text(&out));
  return name;
}

static bool open_fragment(Matrix *m, MmaOperand operand, int arg, int copies) {
  Layout l;
  if (!mma_fragment(m->row, operand, &l)) return false;
  Fragment *f = &m->part[operand];
  f->type = m->op->args[arg]->type;
  f->regs = layout_size(&l, LAYOUT_REG);
  if (f->type->n != (int64_t)f->regs * copies) return false;
  f->table = index_table(m, operand, &l);
  return true;
}

static bool open_fragments(Matrix *m) {
  const int *c = m->copies;
  if (m->op->nargs == 5 &&
      (m->row->form != MMA_SCALED || m->row->k % SCALE_GROUP ||
       !open_fragment(m, MMA_SA, 3, c[0] * c[2]) || !open_fragment(m, MMA_SB, 4, c[1] * c[2])))
    return false;
  return (m->op->nargs == 5 || m->row->form != MMA_SCALED) &&
         open_fragment(m, MMA_A, 0, c[0] * c[2]) && open_fragment(m, MMA_B, 1, c[1] * c[2]) &&
         open_fragment(m, MMA_C, 2, c[0] * c[1]);
}

/* One staging area serves all instructions of a program in turn. */
static void open_staging(Matrix *m) {
  Lanes *l = m->p->cpu->lanes;
  int64_t a = 8 * (int64_t)m->row->m * m->row->k, b = 8 * (int64_t)m->row->n * m->row->k;
  int64_t product = 8 * (int64_t)m->row->m * m->row->n, all = a + b + product + (a > b ? a : b);
  if (l->staging == LANES_NOWHERE || l->staged < all) {
    l->staging = lanes_reserve(m->p, all * l->apart);
    l->staged = all;
  }
  m->all = all;
  m->a = l->staging;
  m->b = m->a + a;
  m->product = m->b + b;
  m->scale = m->product + product;
}

/* ---- elements ---- */

static const char *sum_type(const Matrix *m) { return m->sum == DTYPE_f64 ? "double" : "i64"; }

/* Element `at` of a dense matrix. */
static const char *dense(Matrix *m, int64_t matrix, const char *at) {
  const char *there = lanes_at(m->p, matrix, 8, at);
  if (m->p->cpu->lanes->apart == 1) return there;
  return llvm_let(m->p, "getelementptr [%" PRId64 " x i8], ptr %s, i64 %s", m->all, there,
                  m->p->cpu->lanes->own);
}

static const char *load_dense(Matrix *m, int64_t matrix, const char *at) {
  return llvm_let(m->p, "load %s, ptr %s, align 8", sum_type(m), dense(m, matrix, at));
}

static void store_dense(Matrix *m, int64_t matrix, const char *at, const char *v) {
  llvm_line(m->p, "store %s %s, ptr %s, align 8", sum_type(m), v, dense(m, matrix, at));
}

/* a * n + b */
static const char *index_in(Llvm *p, const char *a, int64_t n, const char *b) {
  return llvm_let(p, "add i64 %s, %s", llvm_let(p, "mul i64 %s, %" PRId64, a, n), b);
}

/* tf32 keeps 10 bits of the mantissa. */
static const char *narrowed(Matrix *m, DType t, const char *v) {
  Llvm *p = m->p;
  if (t != DTYPE_f32 || m->row->operand_types & MMA_f32) return v;
  const char *bits = llvm_let(p, "bitcast float %s to i32", v);
  return llvm_let(p, "bitcast i32 %s to float", llvm_let(p, "and i32 %s, -8192", bits));
}

/* A loop over the elements of a fragment that lie in the matrix: the address of what is kept, and
 * the position in the matrix. */
typedef struct Elements {
  CountLoop loop;
  const char *kept, *index;
} Elements;

static Elements each_element(Matrix *m, MmaOperand operand, const char *copy) {
  Llvm *p = m->p;
  const Fragment *f = &m->part[operand];
  int lanes = p->cpu->lanes->wave, bytes = llvm_elem_bits(f->type->dtype) / 8;
  Elements e = {.loop = lanes_count(p, (int64_t)lanes * f->regs)};
  const char *lane = llvm_let(p, "udiv i64 %s, %d", e.loop.index, f->regs),
             *reg = llvm_let(p, "urem i64 %s, %d", e.loop.index, f->regs);
  const char *who = index_in(p, m->wave, lanes, lane);
  const char *kept = lanes_at(p, f->offset, lanes_bytes(f->type), who);
  e.kept = llvm_let(p, "getelementptr [%d x i8], ptr %s, i64 %s", bytes, kept,
                    index_in(p, copy, f->regs, reg));
  const char *entry = llvm_let(p, "getelementptr i32, ptr %s, i64 %s", f->table, e.loop.index);
  const char *index = llvm_let(p, "load i32, ptr %s, align 4", entry);
  const char *is_there = llvm_let(p, "icmp sge i32 %s, 0", index), *then = llvm_label(p, "some");
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", is_there, then, e.loop.latch);
  llvm_block(p, then);
  e.index = llvm_let(p, "zext i32 %s to i64", index);
  return e;
}

static void gather(Matrix *m, MmaOperand operand, const char *copy, int64_t to) {
  Llvm *p = m->p;
  DType t = m->part[operand].type->dtype;
  Elements e = each_element(m, operand, copy);
  const char *x =
      llvm_let(p, "load %s, ptr %s, align %d", llvm_elem_type(t), e.kept, llvm_elem_bits(t) / 8);
  store_dense(m, to, e.index, llvm_cast_vector(p, t, m->sum, 1, narrowed(m, t, x)));
  lanes_count_end(p, &e.loop);
}

/* Multiplies rows of `matrix`, of k elements each, by their scales. */
static void apply_scales(Matrix *m, int64_t matrix, int rows) {
  Llvm *p = m->p;
  CountLoop each = lanes_count(p, (int64_t)rows * m->row->k);
  const char *group = llvm_let(p, "udiv i64 %s, %d", each.index, SCALE_GROUP);
  const char *x = load_dense(m, matrix, each.index), *s = load_dense(m, m->scale, group);
  store_dense(m, matrix, each.index, llvm_let(p, "fmul double %s, %s", x, s));
  lanes_count_end(p, &each);
}

/* ---- the instruction ---- */

/* Sums stay in memory: LLVM promotes them to registers. */
static void multiply(Matrix *m) {
  Llvm *p = m->p;
  bool is_float = m->sum == DTYPE_f64;
  const char *type = sum_type(m), *mul = is_float ? "fmul" : "mul",
             *add = is_float ? "fadd" : "add";
  int columns = m->row->n, k = m->row->k;
  CountLoop i = lanes_count(p, m->row->m), j = lanes_count(p, columns);
  const char *to = index_in(p, i.index, columns, j.index);
  store_dense(m, m->product, to, is_float ? "0.0" : "0");
  CountLoop e = lanes_count(p, k);
  const char *a = load_dense(m, m->a, index_in(p, i.index, k, e.index)),
             *b = load_dense(m, m->b, index_in(p, j.index, k, e.index));
  const char *product = llvm_let(p, "%s %s %s, %s", mul, type, a, b),
             *sum = load_dense(m, m->product, to);
  store_dense(m, m->product, to, llvm_let(p, "%s %s %s, %s", add, type, sum, product));
  lanes_count_end(p, &e);
  lanes_count_end(p, &j);
  lanes_count_end(p, &i);
}

static void scatter(Matrix *m, const char *copy) {
  Llvm *p = m->p;
  DType t = m->part[MMA_C].type->dtype;
  const char *elem = llvm_elem_type(t), *type = sum_type(m);
  Elements e = each_element(m, MMA_C, copy);
  const char *old = llvm_let(p, "load %s, ptr %s, align %d", elem, e.kept, llvm_elem_bits(t) / 8);
  const char *sum =
      llvm_let(p, "%s %s %s, %s", m->sum == DTYPE_f64 ? "fadd" : "add", type,
               llvm_cast_vector(p, t, m->sum, 1, old), load_dense(m, m->product, e.index));
  llvm_line(p, "store %s %s, ptr %s, align %d", elem, llvm_cast_vector(p, m->sum, t, 1, sum),
            e.kept, llvm_elem_bits(t) / 8);
  lanes_count_end(p, &e.loop);
}

/* Copies of an operand are stored with k innermost, those of the result with n innermost. */
static void one_instruction(Matrix *m, const char *at_m, const char *at_n, const char *at_k) {
  Llvm *p = m->p;
  const char *of_a = index_in(p, at_m, m->copies[2], at_k),
             *of_b = index_in(p, at_n, m->copies[2], at_k);
  gather(m, MMA_A, of_a, m->a);
  gather(m, MMA_B, of_b, m->b);
  if (m->op->nargs == 5) {
    gather(m, MMA_SA, of_a, m->scale);
    apply_scales(m, m->a, m->row->m);
    gather(m, MMA_SB, of_b, m->scale);
    apply_scales(m, m->b, m->row->n);
  }
  multiply(m);
  scatter(m, index_in(p, at_m, m->copies[1], at_n));
}

/* Waves that take no part compute results that are never read. */
static void all_instructions(Matrix *m) {
  Llvm *p = m->p;
  bool apart = p->cpu->lanes->apart > 1;
  CountLoop wave = lanes_count(p, apart ? 1 : p->cpu->lanes->copies / p->cpu->lanes->wave);
  m->wave = apart ? p->cpu->lanes->own : wave.index;
  CountLoop k = lanes_count(p, m->copies[2]), i = lanes_count(p, m->copies[0]),
            j = lanes_count(p, m->copies[1]);
  one_instruction(m, i.index, j.index, k.index);
  lanes_count_end(p, &j);
  lanes_count_end(p, &i);
  lanes_count_end(p, &k);
  lanes_count_end(p, &wave);
}

/* Lanes exchange uniform values too: a copy is made for each. */
static void keep_uniform(Matrix *m, MmaOperand operand, const Value *v) {
  Llvm *p = m->p;
  Fragment *f = &m->part[operand];
  f->offset = p->cpu->lanes->offset[v->id];
  if (!p->cpu->lanes->uniform[v->id] || operand == MMA_C) return;
  f->offset = lanes_reserve(p, p->cpu->lanes->copies * lanes_bytes(v->type));
  LaneLoop loop = lanes_open(p);
  lanes_keep(p, llvm_held_get(p, v), f->offset);
  lanes_close(p, &loop);
}

void lanes_mma(Llvm *p, const Op *op) {
  Value *result = &op->results[0];
  Matrix m = {.p = p, .op = op, .copies = {1, 1, 1}};
  const Attr *copies = op_attr(op, ATTR_copies);
  static const MmaOperand operands[] = {MMA_A, MMA_B, MMA_C, MMA_SA, MMA_SB};
  m.row = find_row(&m);
  for (int i = 0; copies && i < 3; i++) {
    int64_t n = copies->ints[i];
    m.copies[i] = n >= 1 && n <= IR_MAX_VEC ? (int)n : 1;
  }
  if (!m.row || m.row->lanes != p->cpu->lanes->wave || !open_fragments(&m)) {
    llvm_fail(p, op, "this matrix instruction");
    return;
  }
  m.sum = dtype_is_float(result->type->dtype) ? DTYPE_f64 : DTYPE_i64;
  open_staging(&m);
  for (int i = 0; i < op->nargs; i++) keep_uniform(&m, operands[i], op->args[i]);
  lanes_copy(p, &result, &op->args[2], 1);
  m.part[MMA_C].offset = p->cpu->lanes->offset[result->id];
  all_instructions(&m);
}
