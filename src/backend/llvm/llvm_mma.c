/* llvm_mma.c: register tiles: acc[m, n] += sum over k of a[m, k] * b[n, k].
 *
 * Rows of the accumulator are vectors along n; each is updated with a row's element in all
 * places times a vector of b. */
#include "backend/llvm/llvm_state.h"
#include "ir/dtype.h"
#include "target/mma.h"

typedef struct Tile {
  Llvm *p;
  int m, n, k;
  DType acc;
  int width;        /* elements of a vector of acc */
  const char *elem; /* of acc */
} Tile;

/* An operand in the type of the accumulator, one vector for each k: element i of vector k is
 * (i, k). */
static Held **columns_of(Tile *t, Held *h, int rows) {
  Llvm *p = t->p;
  Held **out = ARENA_ARRAY(p->arena, Held *, t->k);
  for (int k = 0; k < t->k; k++) {
    Held *column = ARENA_NEW(p->arena, Held), *cast = ARENA_NEW(p->arena, Held);
    *column = (Held){.dtype = h->dtype, .n = rows};
    *cast = (Held){.dtype = t->acc, .n = rows};
    Source *from = ARENA_ARRAY(p->arena, Source, rows);
    for (int i = 0; i < rows; i++) from[i] = (Source){h, i * t->k + k};
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

static const char *multiply_add(Tile *t, const char *a, const char *b, const char *c, int n) {
  Llvm *p = t->p;
  const char *type = llvm_vec_type(p, t->elem, n);
  if (!dtype_is_float(t->acc)) {
    const char *product = llvm_let(p, "mul %s %s, %s", type, a, b);
    return llvm_let(p, "add %s %s, %s", type, product, c);
  }
  const char *suffix = t->acc == DTYPE_f64 ? "f64" : "f32";
  const char *name = n == 1 ? arena_printf(p->arena, "llvm.fma.%s", suffix)
                            : arena_printf(p->arena, "llvm.fma.v%d%s", n, suffix);
  return llvm_call(p, type, name, arena_printf(p->arena, "%s, %s, %s", type, type, type),
                   arena_printf(p->arena, "%s %s, %s %s, %s %s", type, a, type, b, type, c));
}

/* One element of a column in all places of a vector: a shuffle of the vector it is in, which
 * instructions that multiply by a lane take as it is. */
static const char *lane_splat(Tile *t, Held *column, int i, int n) {
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

/* The accumulator as rows, each in vectors of `width`. */
static const char ***open_rows(Tile *t, Held *acc) {
  Llvm *p = t->p;
  int count = part_count(t->n, t->width);
  const char ***rows = ARENA_ARRAY(p->arena, const char **, t->m);
  for (int i = 0; i < t->m; i++) {
    Held *row = ARENA_NEW(p->arena, Held);
    *row = (Held){.dtype = acc->dtype, .n = t->n};
    Source *from = ARENA_ARRAY(p->arena, Source, t->n);
    for (int j = 0; j < t->n; j++) from[j] = (Source){acc, i * t->n + j};
    llvm_held_gather(p, row, from, t->width);
    rows[i] = arena_copy(p->arena, row->forms->part, sizeof(char *) * (size_t)count);
  }
  return rows;
}

static void close_rows(Tile *t, const char ***rows, Held *to) {
  Llvm *p = t->p;
  Source *from = ARENA_ARRAY(p->arena, Source, to->n);
  for (int i = 0; i < t->m; i++) {
    Held *row = ARENA_NEW(p->arena, Held);
    *row = (Held){.dtype = to->dtype, .n = t->n};
    llvm_held_set(p, row, t->width, rows[i]);
    for (int j = 0; j < t->n; j++) from[i * t->n + j] = (Source){row, j};
  }
  llvm_held_gather(p, to, from, llvm_memory_width(p, to->dtype));
}

static void outer_product(Tile *t, Held **a, Held **b, const char ***rows) {
  for (int k = 0; k < t->k; k++) {
    const char *const *columns = llvm_parts_of(t->p, b[k], t->width);
    for (int i = 0; i < t->m; i++)
      for (int j = 0; j < part_count(t->n, t->width); j++) {
        int n = part_size(t->n, t->width, j);
        rows[i][j] = multiply_add(t, lane_splat(t, a[k], i, n), columns[j], rows[i][j], n);
      }
  }
}

void llvm_wave_mma(Llvm *p, const Op *op) {
  const MmaChoice *choice = op_attr(op, ATTR_mma)->mma;
  const MmaInfo *row = choice->name ? mma_named(p->arena, choice->name) : NULL;
  Held *a = llvm_held_get(p, op->args[0]), *b = llvm_held_get(p, op->args[1]),
       *acc = llvm_held_get(p, op->args[2]);
  if (!row || row->form != MMA_TILE || op->nargs > 3 || op_has(op, ATTR_copies)) {
    llvm_fail(p, op, "this matrix instruction");
    return;
  }
  Tile t = {p, row->m, row->n, row->k, acc->dtype, llvm_compute_width(p, acc->dtype), NULL};
  t.elem = llvm_elem_type(t.acc);
  if (a->n != t.m * t.k || b->n != t.n * t.k || acc->n != t.m * t.n || llvm_elem_bits(t.acc) < 32) {
    llvm_fail(p, op, "a fragment of this size or type");
    return;
  }
  const char ***rows = open_rows(&t, acc);
  outer_product(&t, columns_of(&t, a, t.m), columns_of(&t, b, t.n), rows);
  close_rows(&t, rows, llvm_held_new(p, &op->results[0]));
}
