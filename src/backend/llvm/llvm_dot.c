/* llvm_dot.c: register tiles by instructions that multiply small elements and add neighbours.
 *
 * A lane of 32 bits holds a *unit*: as many elements of k as fit. Rows of the accumulator are
 * vectors along n; each is updated with a row's unit in all places times a vector of units of b. */
#include "backend/llvm/llvm_dot.h"

#include "ir/dtype.h"
#include "target/target.h"

enum { LANE_BITS = 32 };

static const LlvmDot dots[] = {
#define LLVM_DOT(kind, dtype, arch, feature, bits, name, type)                                     \
  {DOT_KIND_##kind, DTYPE_##dtype, LLVM_##arch, feature, bits, name, type},
#include "backend/llvm/llvm_dots.def"
};

/* Whether the row's fragments are such as the instruction reads. */
static bool suits(const MmaInfo *row, DotKind kind) {
  const DotInfo *form = dot_info(row->tile);
  bool even = row->m % 2 == 0 && row->n % 2 == 0, full = row->m % 16 == 0 && row->n % 16 == 0;
  if (kind == DOT_KIND_MATRIX) return form->grain == 16 && full;
  if (kind == DOT_KIND_SQUARE) return form->squares && even;
  return row->tile != DOT_tile && !(form->squares && even);
}

const LlvmDot *llvm_dot_of(const Llvm *p, const MmaInfo *row, DType operands, DType acc) {
  bool sums = acc == (dtype_is_float(operands) ? DTYPE_f32 : DTYPE_i32);
  for (size_t i = 0; sums && i < WV_LEN(dots); i++) {
    const LlvmDot *d = &dots[i];
    if (d->dtype == operands && d->arch == p->host->arch && d->bits == p->host->vector_bits &&
        has_feature_word(p->host->features, d->feature) && suits(row, d->kind))
      return d;
  }
  return NULL;
}

/* ---- vectors of another length ---- */

static const char *resize(Llvm *p, const char *elem, const char *v, int from, int to) {
  StrBuf mask = {.arena = p->arena};
  const char *type = llvm_vec_type(p, elem, from);
  if (from == to) return v;
  if (from == 1)
    return llvm_let(p, "insertelement %s poison, %s %s, i32 0", llvm_vec_type(p, elem, to), elem,
                    v);
  if (to == 1) return llvm_let(p, "extractelement %s %s, i32 0", type, v);
  for (int i = 0; i < to; i++)
    if (i < from) sb_printf(&mask, "%si32 %d", i ? ", " : "", i);
    else sb_puts(&mask, ", i32 undef");
  return llvm_let(p, "shufflevector %s %s, %s poison, <%d x i32> <%s>", type, v, type, to,
                  sb_text(&mask));
}

static const char *bitcast(Llvm *p, const char *from, const char *v, const char *to) {
  return llvm_let(p, "bitcast %s %s to %s", from, v, to);
}

/* ---- units ---- */

static int unit_of(const TileMma *t) { return LANE_BITS / llvm_elem_bits(t->a->dtype); }

int llvm_place_in(int rows, int side, int row, int k) {
  return k / side * rows * side + row * side + k % side;
}

/* The unit of A that begins at element `at`, in all lanes of a register. */
static const char *unit_splat(TileMma *t, const LlvmDot *dot, int at) {
  Llvm *p = t->p;
  int unit = unit_of(t), width = llvm_form_width(t->a);
  if (width % unit) width = llvm_memory_width(p, t->a->dtype);
  int part = at / width, size = part_size(t->a->n, width, part), lanes = dot->bits / LANE_BITS;
  const char *type = llvm_held_type(p, t->a->dtype, size), *words = llvm_vec_type(p, "i32", lanes);
  const char *v = llvm_parts_of(p, t->a, width)[part];
  const char *held = llvm_vec_type(p, "i32", size / unit), *all;
  v = bitcast(p, type, v, held);
  if (size == unit) {
    all = llvm_splat_of(p, "i32", v, lanes);
  } else {
    StrBuf mask = {.arena = p->arena};
    for (int i = 0; i < lanes; i++) sb_printf(&mask, "%si32 %d", i ? ", " : "", at % width / unit);
    all = llvm_let(p, "shufflevector %s %s, %s poison, <%d x i32> <%s>", held, v, held, lanes,
                   sb_text(&mask));
  }
  return bitcast(p, words, all, dot->type);
}

/* Units of b from k on, as registers; the last one may have elements that mean nothing. */
static const char **unit_columns(TileMma *t, const LlvmDot *dot, int k) {
  Llvm *p = t->p;
  int unit = unit_of(t), width = t->width * unit, count = part_count(t->n * unit, width);
  Held *columns = ARENA_NEW(p->arena, Held);
  Source *from = ARENA_ARRAY(p->arena, Source, t->n * unit);
  const char **out = ARENA_ARRAY(p->arena, const char *, count);
  *columns = (Held){.dtype = t->b->dtype, .n = t->n * unit};
  for (int j = 0; j < t->n; j++)
    for (int e = 0; e < unit; e++)
      from[j * unit + e] = (Source){t->b, llvm_place_in(t->n, t->side[1], j, k + e)};
  llvm_held_gather(p, columns, from, width);
  const char *elem = llvm_elem_type(t->b->dtype), *type = llvm_vec_type(p, elem, width);
  for (int i = 0; i < count; i++) {
    const char *v = llvm_parts_of(p, columns, width)[i];
    out[i] =
        bitcast(p, type, resize(p, elem, v, part_size(columns->n, width, i), width), dot->type);
  }
  return out;
}

/* ---- products ---- */

static const char *multiply(TileMma *t, const LlvmDot *dot, const char *a, const char *b,
                            const char *c) {
  Llvm *p = t->p;
  const char *sums = llvm_vec_type(p, t->elem, t->width), *in = dot->type;
  if (dot->kind == DOT_KIND_MADD) {
    const char *both = arena_printf(p->arena, "%s, %s", in, in);
    a = llvm_call(p, sums, dot->name, both, arena_printf(p->arena, "%s %s, %s %s", in, a, in, b));
    return llvm_let(p, "add %s %s, %s", sums, c, a);
  }
  return llvm_call(p, sums, dot->name, arena_printf(p->arena, "%s, %s, %s", sums, in, in),
                   arena_printf(p->arena, "%s %s, %s %s, %s %s", sums, c, in, a, in, b));
}

void llvm_dot_rows(TileMma *t, const LlvmDot *dot, const char ***rows) {
  int count = part_count(t->n, t->width);
  for (int k = 0; k < t->k; k += unit_of(t)) {
    const char **columns = unit_columns(t, dot, k);
    for (int i = 0; i < t->m; i++) {
      const char *a = unit_splat(t, dot, llvm_place_in(t->m, t->side[0], i, k));
      for (int j = 0; j < count; j++) {
        int n = part_size(t->n, t->width, j);
        const char *c = resize(t->p, t->elem, rows[i][j], n, t->width);
        rows[i][j] = resize(t->p, t->elem, multiply(t, dot, a, columns[j], c), t->width, n);
      }
    }
  }
}

/* Two rows of a, and two columns of b, are a register each, as they lie. */
void llvm_dot_squares(TileMma *t, const LlvmDot *dot, const char **sums) {
  Llvm *p = t->p;
  int width = dot->bits / llvm_elem_bits(t->a->dtype);
  const char *type = llvm_held_type(p, t->a->dtype, width);
  for (int i = 0; i < t->m / 2; i++)
    for (int j = 0; j < t->n / 2; j++) {
      const char *a = bitcast(p, type, llvm_parts_of(p, t->a, width)[i], dot->type);
      const char *b = bitcast(p, type, llvm_parts_of(p, t->b, width)[j], dot->type);
      int at = i * (t->n / 2) + j;
      sums[at] = multiply(t, dot, a, b, sums[at]);
    }
}
