/* cpu_mma.c: register tiles: acc[m, n] += sum over k of a[m, k] * b[n, k].
 *
 * If the host has no instruction for the operands' type, rows of the accumulator are vectors along
 * n; each is updated with a row's element, broadcast, times a vector of b. */
#include "backend/cpu/cpu_dot.h"
#include "ir/dtype.h"

/* An operand in the type of the accumulator, one vector per k: element i of vector k is (i, k). */
static Held **columns_of(TileMma *t, Held *h, int rows, int k_group) {
  Llvm *p = t->p;
  Held **out = ARENA_ARRAY(p->arena, Held *, t->k);
  for (int k = 0; k < t->k; k++) {
    Held *column = ARENA_NEW(p->arena, Held), *cast = ARENA_NEW(p->arena, Held);
    *column = (Held){.dtype = h->dtype, .n = rows};
    *cast = (Held){.dtype = t->acc, .n = rows};
    Source *from = ARENA_ARRAY(p->arena, Source, rows);
    for (int i = 0; i < rows; i++) from[i] = (Source){h, cpu_index_in(rows, k_group, i, k)};
    if (t->k == 1 && h->dtype == t->acc) {
      out[k] = h;
      continue;
    }
    llvm_held_gather(p, column, from, t->width);
    const char **part = ARENA_ARRAY(p->arena, const char *, part_count(rows, t->width));
    for (int i = 0; i < part_count(rows, t->width); i++)
      part[i] = llvm_cast_vector(p, h->dtype, t->acc, part_size(rows, t->width, i),
                                 llvm_parts_of(p, column, t->width)[i]);
    llvm_held_set(p, cast, t->width, part);
    out[k] = cast;
  }
  return out;
}

static const char *multiply_add(TileMma *t, const char *a, const char *b, const char *c, int n) {
  Llvm *p = t->p;
  if (dtype_is_float(t->acc)) return llvm_multiply_add(p, t->elem, n, a, b, c);
  const char *type = llvm_vec_type(p, t->elem, n), *product;
  product = llvm_let(p, "mul %s %s, %s", type, a, b);
  return llvm_let(p, "add %s %s, %s", type, product, c);
}

/* One element of a column, broadcast: a shuffle of the vector that contains it, which instructions
 * that multiply by a lane absorb. */
static const char *lane_splat(TileMma *t, Held *column, int i, int n) {
  Llvm *p = t->p;
  const Form *f = column->forms;
  int part = i / f->width, size = part_size(column->n, f->width, part);
  if (size == 1) return llvm_splat_of(p, t->elem, f->part[part], n);
  const char *lane = arena_printf(p->arena, "i32 %d", i % f->width);
  StrBuf mask = {.arena = p->arena};
  for (int e = 0; e < n; e++) sb_printf(&mask, "%s%s", e ? ", " : "", lane);
  const char *type = llvm_vec_type(p, t->elem, size);
  if (n == 1) return llvm_element_of(p, column, i);
  return llvm_let(p, "shufflevector %s %s, %s poison, <%d x i32> <%s>", type, f->part[part], type,
                  n, sb_text(&mask));
}

/* The positions of the sums (i, j). */
static void sum_at(const TileMma *t, const Layout *c, int *regs) {
  int at[LAYOUT_DIMS];
  for (int r = 0; r < t->m * t->n; r++) {
    layout_at(c, r, 0, 0, at);
    regs[at[0] * t->n + at[1]] = r;
  }
}

/* The accumulator as rows, each in vectors of `width`. */
static const char ***open_rows(TileMma *t, Held *acc, const int *regs) {
  Llvm *p = t->p;
  int count = part_count(t->n, t->width);
  const char ***rows = ARENA_ARRAY(p->arena, const char **, t->m);
  for (int i = 0; i < t->m; i++) {
    Held *row = ARENA_NEW(p->arena, Held);
    *row = (Held){.dtype = acc->dtype, .n = t->n};
    Source *from = ARENA_ARRAY(p->arena, Source, t->n);
    for (int j = 0; j < t->n; j++) from[j] = (Source){acc, regs[i * t->n + j]};
    llvm_held_gather(p, row, from, t->width);
    rows[i] = arena_copy(p->arena, row->forms->part, sizeof(char *) * (size_t)count);
  }
  return rows;
}

static void close_rows(TileMma *t, const char ***rows, const int *regs, Held *to) {
  Llvm *p = t->p;
  Source *from = ARENA_ARRAY(p->arena, Source, to->n);
  for (int i = 0; i < t->m; i++) {
    Held *row = ARENA_NEW(p->arena, Held);
    *row = (Held){.dtype = to->dtype, .n = t->n};
    llvm_held_set(p, row, t->width, rows[i]);
    for (int j = 0; j < t->n; j++) from[regs[i * t->n + j]] = (Source){row, j};
  }
  llvm_held_gather(p, to, from, llvm_memory_width(p, to->dtype));
}

static void outer_product(TileMma *t, const char ***rows) {
  Held **a = columns_of(t, t->a, t->m, t->k_group[0]),
       **b = columns_of(t, t->b, t->n, t->k_group[1]);
  for (int k = 0; k < t->k; k++) {
    const char *const *columns = llvm_parts_of(t->p, b[k], t->width);
    for (int i = 0; i < t->m; i++)
      for (int j = 0; j < part_count(t->n, t->width); j++) {
        int n = part_size(t->n, t->width, j);
        rows[i][j] = multiply_add(t, lane_splat(t, a[k], i, n), columns[j], rows[i][j], n);
      }
  }
}

static void multiply_rows(TileMma *t, const CpuDot *dot, Held *acc, Held *to) {
  Layout c;
  int *regs = ARENA_ARRAY(t->p->arena, int, t->m * t->n);
  mma_fragment(t->row, MMA_C, &c);
  sum_at(t, &c, regs);
  const char ***rows = open_rows(t, acc, regs);
  if (dot) cpu_dot_rows(t, dot, rows);
  else outer_product(t, rows);
  close_rows(t, rows, regs, to);
}

/* Squares are registers as they are stored. */
static void multiply_squares(TileMma *t, const CpuDot *dot, Held *acc, Held *to) {
  Llvm *p = t->p;
  int width = cpu_square_sums(p, dot), count = part_count(acc->n, width);
  const char **sums =
      arena_copy(p->arena, llvm_parts_of(p, acc, width), sizeof *sums * (size_t)count);
  cpu_dot_squares(t, dot, sums);
  llvm_held_set(p, to, width, sums);
}

static bool open_tile(TileMma *t, const Op *op, const Held *acc) {
  const MmaChoice *choice = op_attr(op, ATTR_mma)->mma;
  Llvm *p = t->p;
  t->row = choice->name ? mma_named(p->arena, choice->name) : NULL;
  if (!t->row || t->row->form != MMA_TILE || op->nargs > 3 || op_has(op, ATTR_copies))
    return llvm_fail(p, op, "this matrix instruction");
  const DotInfo *form = dot_info(t->row->tile);
  t->m = t->row->m, t->n = t->row->n, t->k = t->row->k;
  t->k_group[0] = t->row->tile == DOT_tile ? t->k : form->k_group_a;
  t->k_group[1] = t->row->tile == DOT_tile ? t->k : form->k_group_b;
  t->acc = acc->dtype;
  t->width = llvm_compute_width(p, acc->dtype);
  t->elem = llvm_elem_type(t->acc);
  if (t->a->n != t->m * t->k || t->b->n != t->n * t->k || acc->n != t->m * t->n ||
      llvm_elem_bits(t->acc) < 32)
    return llvm_fail(p, op, "a fragment of this size or type");
  return true;
}

const CpuDot *cpu_dot_for(Llvm *p, const Op *op) {
  const MmaChoice *choice = op_attr(op, ATTR_mma)->mma;
  const MmaInfo *row = choice->name ? mma_named(p->arena, choice->name) : NULL;
  DType a = op->args[0]->type->dtype;
  if (!row || row->form != MMA_TILE || op->args[1]->type->dtype != a) return NULL;
  return cpu_dot_of(p, row, a, op->args[2]->type->dtype);
}

void cpu_wave_mma(Llvm *p, const Op *op) {
  Held *acc = llvm_held_get(p, op->args[2]);
  TileMma t = {.p = p, .a = llvm_held_get(p, op->args[0]), .b = llvm_held_get(p, op->args[1])};
  if (!open_tile(&t, op, acc)) return;
  const CpuDot *dot = cpu_dot_for(p, op);
  Held *to = llvm_held_new(p, &op->results[0]);
  if (dot && dot->kind == DOT_KIND_MATRIX) cpu_matrix_product(&t, dot, acc, to);
  else if (dot && dot->kind == DOT_KIND_SQUARE) multiply_squares(&t, dot, acc, to);
  else multiply_rows(&t, dot, acc, to);
}
