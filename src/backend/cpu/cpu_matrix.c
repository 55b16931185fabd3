/* cpu_matrix.c: registers of 16 rows of 64 bytes (AMX).
 *
 * LLVM has a type for them, x86_amx, which only loads, stores, products and phi nodes support; it
 * allocates registers and configures them. A value that products read, or accumulate into, is held
 * in as many of them as its bytes fill, as parts of a matrix of `rows` rows of `bytes`:
 *
 *     A  m x 32 bf16       m rows of 64 bytes
 *     B  32 x n bf16       16 rows of n pairs
 *     C  m x n sums        m rows of n sums
 *
 * Converting to and from vectors goes through memory: where a matrix is loaded or stored as it is,
 * that memory; otherwise a block on the stack. */
#include <string.h>

#include "backend/cpu/cpu_dot.h"
#include "ir/dtype.h"

enum { ROWS = 16, BYTES = 64 };

static const char *zero_tile(Llvm *p) {
  return llvm_call(p, "x86_amx", "llvm.x86.tilezero.internal", "i16, i16",
                   arena_printf(p->arena, "i16 %d, i16 %d", ROWS, BYTES));
}

int cpu_matrix_count(const MatrixShape *s) { return s->rows / ROWS * (s->bytes / BYTES); }

/* A matrix in memory. */
typedef struct TileMemory {
  const MatrixShape *shape;
  const char *at, *apart; /* its first byte; bytes from one row to the next */
} TileMemory;

static TileMemory memory_at(Llvm *p, const MatrixShape *s, const char *at, const char *apart) {
  return (TileMemory){s, at, apart ? apart : arena_printf(p->arena, "%d", s->bytes)};
}

/* The address of tile i. */
static const char *tile_address(Llvm *p, const TileMemory *m, int i) {
  int across = m->shape->bytes / BYTES, down = i / across * ROWS;
  const char *at = m->at;
  if (down) {
    const char *bytes = llvm_let(p, "mul i64 %s, %d", m->apart, down);
    at = llvm_let(p, "getelementptr i8, ptr %s, i64 %s", at, bytes);
  }
  return i % across ? llvm_let(p, "getelementptr i8, ptr %s, i64 %d", at, i % across * BYTES) : at;
}

void cpu_matrix_load(Llvm *p, Held *h, const MatrixShape *s, const char *at, const char *apart) {
  int count = cpu_matrix_count(s);
  TileMemory m = memory_at(p, s, at, apart);
  const char **tile = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count; i++)
    tile[i] = llvm_call(p, "x86_amx", "llvm.x86.tileloadd64.internal", "i16, i16, ptr, i64",
                        arena_printf(p->arena, "i16 %d, i16 %d, ptr %s, i64 %s", ROWS, BYTES,
                                     tile_address(p, &m, i), m.apart));
  cpu_matrix_set(p, h, s, tile);
}

void cpu_matrix_store(Llvm *p, const Held *h, const char *at, const char *apart) {
  TileMemory m = memory_at(p, &h->matrix, at, apart);
  for (int i = 0; i < cpu_matrix_count(&h->matrix); i++)
    llvm_call_void(p, "llvm.x86.tilestored64.internal", "i16, i16, ptr, i64, x86_amx",
                   arena_printf(p->arena, "i16 %d, i16 %d, ptr %s, i64 %s, x86_amx %s", ROWS, BYTES,
                                tile_address(p, &m, i), m.apart, h->tiles[i]));
}

void cpu_matrix_set(Llvm *p, Held *h, const MatrixShape *s, const char *const *tile) {
  h->tiles = tile;
  h->matrix = *s;
  vec_push(p->arena, &p->made, ((Made){h, MADE_TILES}));
}

/* ---- through the stack ---- */

static const char *stack_part(Llvm *p, const Held *h, int width, int i) {
  int bytes = i * width * llvm_elem_bits(h->dtype) / 8;
  p->cpu->has_tiles = true;
  return bytes ? llvm_let(p, "getelementptr i8, ptr %s, i64 %d", CPU_TILES, bytes) : CPU_TILES;
}

static bool is_zero(Llvm *p, Held *h, int width, const char *const *part) {
  bool zero = true;
  const char *none = dtype_is_float(h->dtype) ? llvm_float_literal(p, h->dtype, 0) : "0";
  for (int i = 0; zero && i < part_count(h->n, width); i++) {
    int n = part_size(h->n, width, i);
    zero = part[i][0] != '%' &&
           strcmp(part[i], llvm_splat_of(p, llvm_elem_type(h->dtype), none, n)) == 0;
  }
  return zero;
}

const char *const *cpu_tiles_of(Llvm *p, Held *h, const MatrixShape *s) {
  int width = llvm_memory_width(p, h->dtype), count = cpu_matrix_count(s);
  if (h->tiles && h->matrix.rows == s->rows && h->matrix.bytes == s->bytes) return h->tiles;
  const char *const *part = llvm_parts_of(p, h, width);
  if (is_zero(p, h, width, part)) {
    const char **tile = ARENA_ARRAY(p->arena, const char *, count);
    for (int i = 0; i < count; i++) tile[i] = zero_tile(p);
    cpu_matrix_set(p, h, s, tile);
    return h->tiles;
  }
  for (int i = 0; i < part_count(h->n, width); i++)
    llvm_line(p, "store %s %s, ptr %s, align 64",
              llvm_held_type(p, h->dtype, part_size(h->n, width, i)), part[i],
              stack_part(p, h, width, i));
  cpu_matrix_load(p, h, s, CPU_TILES, NULL);
  return h->tiles;
}

void cpu_matrix_to_vectors(Llvm *p, Held *h) {
  int width = llvm_memory_width(p, h->dtype), count = part_count(h->n, width);
  const char **part = ARENA_ARRAY(p->arena, const char *, count);
  p->cpu->has_tiles = true;
  cpu_matrix_store(p, h, CPU_TILES, NULL);
  for (int i = 0; i < count; i++)
    part[i] = llvm_let(p, "load %s, ptr %s, align 64",
                       llvm_held_type(p, h->dtype, part_size(h->n, width, i)),
                       stack_part(p, h, width, i));
  llvm_held_set(p, h, width, part);
}

/* ---- products ---- */

/* The matrix shape of operand `i` of such a product. */
static MatrixShape matrix_shape(const MmaInfo *row, int i) {
  enum { SUM_BYTES = 4 };
  return i == 0 ? (MatrixShape){row->m, BYTES}
                : (MatrixShape){i == 1 ? ROWS : row->m, row->n * SUM_BYTES};
}

void cpu_matrix_product(TileMma *t, const CpuDot *dot, Held *acc, Held *to) {
  Llvm *p = t->p;
  MatrixShape shape[3];
  for (int i = 0; i < 3; i++) shape[i] = matrix_shape(t->row, i);
  const char *const *a = cpu_tiles_of(p, t->a, &shape[0]), *const * b, *const * c;
  b = cpu_tiles_of(p, t->b, &shape[1]);
  c = cpu_tiles_of(p, acc, &shape[2]);
  int count = cpu_matrix_count(&shape[2]), across = t->n / ROWS;
  const char **sums = ARENA_ARRAY(p->arena, const char *, count);
  for (int i = 0; i < count; i++)
    sums[i] = llvm_call(p, "x86_amx", dot->name, "i16, i16, i16, x86_amx, x86_amx, x86_amx",
                        arena_printf(p->arena,
                                     "i16 %d, i16 %d, i16 %d, x86_amx %s, x86_amx %s, x86_amx %s",
                                     ROWS, BYTES, BYTES, c[i], a[i / across], b[i % across]));
  cpu_matrix_set(p, to, &shape[2], sums);
}

/* ---- which values are held in them ---- */

MatrixShape *cpu_find_matrices(Llvm *p) {
  MatrixShape *found = ARENA_ARRAY(p->arena, MatrixShape, p->k->nvalues);
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    const CpuDot *dot = op->kind == OP_wave_mma ? cpu_dot_for(p, op) : NULL;
    if (!dot || dot->kind != DOT_KIND_MATRIX) continue;
    const MmaInfo *row = mma_named(p->arena, op_attr(op, ATTR_mma)->mma->name);
    for (int i = 0; i < 3; i++) found[op->args[i]->id] = matrix_shape(row, i);
    found[op->results[0].id] = matrix_shape(row, 2);
  }
  for (const Op *op = ir_first(p->k); op; op = ir_next(op))
    if (op->kind == OP_for || op->kind == OP_while)
      for (int i = 0; i < op->nresults; i++) { /* as its body carries them */
        int shift = op->body->nargs - op->nresults;
        const Value *init = op->args[op_carried(op) + i];
        found[op->results[i].id] = found[op->body->args[i + shift]->id];
        if (init->def && init->def->kind == OP_load_rows)
          found[init->id] = found[op->results[i].id];
      }
  return found;
}
