/* cpu_rows.c: blocks in memory whose rows are strided. Matrix registers are loaded and stored
 * directly; anything else goes row by row. */
#include <inttypes.h>

#include "backend/cpu/cpu_state.h"

typedef struct Rows {
  DType dtype;
  int n, per;             /* rows, and elements of one */
  const char *at, *apart; /* the first element; the row stride in bytes */
} Rows;

/* Memory, offset and stride are operands `at` and those after it. */
static bool open_rows(Llvm *p, const Op *op, int at, int elements, Rows *out) {
  Held *memory = llvm_held_get(p, op->args[at]);
  const Attr *imm = op_attr(op, ATTR_imm);
  int bits = llvm_elem_bits(memory->dtype);
  if (bits % 8 || dtype_info[memory->dtype].bits < 8)
    return llvm_fail(p, op, "rows of sub-byte elements");
  *out = (Rows){.dtype = memory->dtype, .n = (int)op_attr(op, ATTR_rows)->integer};
  out->per = elements / out->n;
  const char *index = llvm_index_of(p, op->args[at + 1]);
  if (imm && imm->integer) index = llvm_let(p, "add i64 %s, %" PRId64, index, imm->integer);
  out->at = llvm_let(p, "getelementptr %s, ptr %s, i64 %s", llvm_elem_type(out->dtype),
                     memory->base, index);
  out->apart = llvm_let(p, "mul i64 %s, %d", llvm_index_of(p, op->args[at + 2]), bits / 8);
  return true;
}

static bool is_matrix(const Rows *r, const MatrixShape *s) {
  return s->rows == r->n && s->bytes == r->per * llvm_elem_bits(r->dtype) / 8;
}

/* The address of part i of a row. */
static const char *address_of(Llvm *p, const Rows *r, int row, int width, int i) {
  const char *at = r->at;
  if (row) {
    const char *bytes = llvm_let(p, "mul i64 %s, %d", r->apart, row);
    at = llvm_let(p, "getelementptr i8, ptr %s, i64 %s", at, bytes);
  }
  if (!i) return at;
  return llvm_let(p, "getelementptr %s, ptr %s, i64 %d", llvm_elem_type(r->dtype), at, i * width);
}

void cpu_load_rows(Llvm *p, const Op *op) {
  Held *h = llvm_held_new(p, &op->results[0]);
  Rows r;
  if (!open_rows(p, op, 0, h->n, &r)) return;
  if (is_matrix(&r, &h->matrix)) {
    cpu_matrix_load(p, h, &h->matrix, r.at, r.apart);
    return;
  }
  int width = llvm_memory_width(p, r.dtype), count = part_count(r.per, width);
  Source *from = ARENA_ARRAY(p->arena, Source, h->n);
  for (int row = 0; row < r.n; row++) {
    Held *one = ARENA_NEW(p->arena, Held);
    const char **part = ARENA_ARRAY(p->arena, const char *, count);
    *one = (Held){.dtype = r.dtype, .n = r.per};
    for (int i = 0; i < count; i++)
      part[i] = llvm_let(p, "load %s, ptr %s, align %d",
                         llvm_held_type(p, r.dtype, part_size(r.per, width, i)),
                         address_of(p, &r, row, width, i), llvm_elem_bits(r.dtype) / 8);
    llvm_held_set(p, one, width, part);
    for (int i = 0; i < r.per; i++) from[row * r.per + i] = (Source){one, i};
  }
  llvm_held_gather(p, h, from, width);
}

void cpu_store_rows(Llvm *p, const Op *op) {
  Held *h = llvm_held_get(p, op->args[0]);
  Rows r;
  if (!open_rows(p, op, 1, h->n, &r)) return;
  if (h->tiles && is_matrix(&r, &h->matrix)) {
    cpu_matrix_store(p, h, r.at, r.apart);
    return;
  }
  int width = llvm_memory_width(p, r.dtype), count = part_count(r.per, width);
  for (int row = 0; row < r.n; row++) {
    Held *one = ARENA_NEW(p->arena, Held);
    Source *from = ARENA_ARRAY(p->arena, Source, r.per);
    *one = (Held){.dtype = r.dtype, .n = r.per};
    for (int i = 0; i < r.per; i++) from[i] = (Source){h, row * r.per + i};
    llvm_held_gather(p, one, from, width);
    for (int i = 0; i < count; i++)
      llvm_line(p, "store %s %s, ptr %s, align %d",
                llvm_held_type(p, r.dtype, part_size(r.per, width, i)),
                llvm_parts_of(p, one, width)[i], address_of(p, &r, row, width, i),
                llvm_elem_bits(r.dtype) / 8);
  }
}
