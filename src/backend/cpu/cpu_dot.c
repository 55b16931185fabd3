/* cpu_dot.c: register tiles by instructions that multiply small elements and add neighbours.
 *
 * A lane, as wide as a sum, holds a *unit*: as many elements of k as fit. Rows of the accumulator
 * are vectors along n; each is updated with a row's unit, broadcast, times a vector of units of b.
 * SVE registers consist of segments of 128 bits; a unit of a is then part of a *quad*, 128 bits of
 * a that are repeated in every segment. LLVM has two types for such a register: one of known
 * length, which all other code here uses, and one that its instructions take. They have the same
 * contents. */
#include "backend/cpu/cpu_dot.h"

#include "ir/dtype.h"
#include "target/target.h"

static const CpuDot dots[] = {
#define CPU_DOT(kind, dtype, arch, feature, bits, name, type)                                      \
  {DOT_KIND_##kind, DTYPE_##dtype, CPU_##arch, feature, bits, name, type},
#include "backend/cpu/cpu_dots.def"
};

static int register_bits(const Llvm *p, const CpuDot *d) {
  return d->bits ? d->bits : p->cpu->host->vector_bits;
}

/* Whether the row's fragments have the form that the instruction reads. */
static bool suits(const Llvm *p, const MmaInfo *row, const CpuDot *d) {
  const DotInfo *form = dot_info(row->tile);
  bool even = row->m % 2 == 0 && row->n % 2 == 0, full = row->m % 16 == 0 && row->n % 16 == 0;
  int segments = register_bits(p, d) / CPU_SEGMENT_BITS;
  if (d->kind == DOT_KIND_MATRIX) return form->grain == 16 && full;
  if (d->kind == DOT_KIND_SQUARE) return form->squares && even && row->n / 2 % segments == 0;
  bool whole = d->dtype == DTYPE_f32 || d->dtype == DTYPE_f64;
  return (row->tile == DOT_tile) == whole && !(form->squares && even);
}

static bool host_has(const Llvm *p, const CpuDot *d) {
  const CpuHost *h = p->cpu->host;
  bool edges = h->scalable && d->kind == DOT_KIND_SQUARE && d->bits == CPU_SEGMENT_BITS;
  bool length = d->bits ? d->bits == h->vector_bits : h->scalable;
  return d->arch == h->arch && (length || edges) && cpu_has_feature(h->features, d->feature);
}

static DType sums_of(DType operands) {
  if (!dtype_is_float(operands)) return DTYPE_i32;
  return operands == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
}

const CpuDot *cpu_dot_of(const Llvm *p, const MmaInfo *row, DType operands, DType acc) {
  for (size_t i = 0; acc == sums_of(operands) && i < WV_LEN(dots); i++)
    if (dots[i].dtype == operands && host_has(p, &dots[i]) && suits(p, row, &dots[i]))
      return &dots[i];
  return NULL;
}

int cpu_dot_repeats(const Llvm *p, const CpuDot *dot) {
  if (!dot) return p->cpu->host->scalable ? 0 : 1;
  if (p->cpu->host->scalable) return CPU_SEGMENT_BITS / llvm_elem_bits(dot->dtype);
  if (dot->kind == DOT_KIND_SQUARE || dot->kind == DOT_KIND_MATRIX) return 0;
  return llvm_elem_bits(sums_of(dot->dtype)) / llvm_elem_bits(dot->dtype);
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

/* ---- the two types of a register ---- */

static const char *scalable_type(Llvm *p, const char *elem, int bits) {
  return arena_printf(p->arena, "<vscale x %d x %s>", CPU_SEGMENT_BITS / bits, elem);
}

/* n elements of `bits` each, starting with the first; the rest is undefined. */
static const char *to_scalable(Llvm *p, const char *elem, int bits, int n, const char *v) {
  const char *type = scalable_type(p, elem, bits), *from = llvm_vec_type(p, elem, n);
  const char *name =
      arena_printf(p->arena, "llvm.vector.insert.nx%s.%s",
                   llvm_suffix(p, elem, CPU_SEGMENT_BITS / bits), llvm_suffix(p, elem, n));
  return llvm_call(p, type, name, arena_printf(p->arena, "%s, %s, i64", type, from),
                   arena_printf(p->arena, "%s poison, %s %s, i64 0", type, from, v));
}

static const char *from_scalable(Llvm *p, const char *elem, int bits, int n, const char *v) {
  const char *type = scalable_type(p, elem, bits);
  const char *name = arena_printf(p->arena, "llvm.vector.extract.%s.nx%s", llvm_suffix(p, elem, n),
                                  llvm_suffix(p, elem, CPU_SEGMENT_BITS / bits));
  return llvm_call(p, llvm_vec_type(p, elem, n), name, arena_printf(p->arena, "%s, i64", type),
                   arena_printf(p->arena, "%s %s, i64 0", type, v));
}

/* A register of n elements in the type that the instruction takes. */
static const char *operand(Llvm *p, const CpuDot *dot, const char *elem, int n, const char *v) {
  const char *type = llvm_vec_type(p, elem, n);
  if (!dot->bits) {
    int bits = register_bits(p, dot) / n;
    v = to_scalable(p, elem, bits, n, v);
    type = scalable_type(p, elem, bits);
  }
  return bitcast(p, type, v, dot->type);
}

/* ---- units ---- */

static int unit_of(const TileMma *t) {
  return llvm_elem_bits(t->acc) / llvm_elem_bits(t->a->dtype);
}

int cpu_index_in(int rows, int k_group, int row, int k) {
  return k / k_group * rows * k_group + row * k_group + k % k_group;
}

/* The unit of A that begins at element `at`, broadcast to all lanes of a register. */
static const char *unit_splat(TileMma *t, const CpuDot *dot, int at) {
  Llvm *p = t->p;
  int unit = unit_of(t), width = llvm_form_width(t->a);
  if (width % unit) width = llvm_memory_width(p, t->a->dtype);
  int part = at / width, size = part_size(t->a->n, width, part), lanes = t->width;
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

/* The 128 bits of A that contain element `at`, repeated in all segments of a register. */
static const char *quad_of(TileMma *t, const CpuDot *dot, int at) {
  Llvm *p = t->p;
  DType held = t->a->dtype;
  int bits = llvm_elem_bits(held), width = CPU_SEGMENT_BITS / bits, part = at / width;
  const char *elem = llvm_elem_type(held), *type = scalable_type(p, elem, bits);
  const char *v = llvm_parts_of(p, t->a, width)[part];
  v = resize(p, elem, v, part_size(t->a->n, width, part), width);
  v = to_scalable(p, elem, bits, width, v);
  const char *name =
      arena_printf(p->arena, "llvm.aarch64.sve.dupq.lane.nx%s", llvm_suffix(p, elem, width));
  v = llvm_call(p, type, name, arena_printf(p->arena, "%s, i64", type),
                arena_printf(p->arena, "%s %s, i64 0", type, v));
  return bitcast(p, type, v, dot->type);
}

/* Units of b from k on, as registers; the last one may contain undefined elements. */
static const char **unit_columns(TileMma *t, const CpuDot *dot, int k) {
  Llvm *p = t->p;
  int unit = unit_of(t), width = t->width * unit, count = part_count(t->n * unit, width);
  Held *columns = ARENA_NEW(p->arena, Held);
  Source *from = ARENA_ARRAY(p->arena, Source, t->n * unit);
  const char **out = ARENA_ARRAY(p->arena, const char *, count);
  *columns = (Held){.dtype = t->b->dtype, .n = t->n * unit};
  for (int j = 0; j < t->n; j++)
    for (int e = 0; e < unit; e++)
      from[j * unit + e] = (Source){t->b, cpu_index_in(t->n, t->k_group[1], j, k + e)};
  llvm_held_gather(p, columns, from, width);
  const char *elem = llvm_elem_type(t->b->dtype);
  for (int i = 0; i < count; i++) {
    const char *v = llvm_parts_of(p, columns, width)[i];
    v = resize(p, elem, v, part_size(columns->n, width, i), width);
    out[i] = operand(p, dot, elem, width, v);
  }
  return out;
}

/* ---- products ---- */

/* On registers in the instruction's types; lane >= 0: it is passed after them. */
static const char *call_product(Llvm *p, const CpuDot *dot, const char *sums, const char *c,
                                const char *x, const char *y, int lane) {
  const char *in = dot->type, *more = lane < 0 ? "" : ", i32";
  const char *index = lane < 0 ? "" : arena_printf(p->arena, ", i32 %d", lane);
  return llvm_call(p, sums, dot->name, arena_printf(p->arena, "%s, %s, %s%s", sums, in, in, more),
                   arena_printf(p->arena, "%s %s, %s %s, %s %s%s", sums, c, in, x, in, y, index));
}

/* c + a * b on whole registers, with c in the type used elsewhere; lane >= 0: by that lane of a. */
static const char *multiply(TileMma *t, const CpuDot *dot, const char *a, const char *b,
                            const char *c, int lane) {
  Llvm *p = t->p;
  int bits = llvm_elem_bits(t->acc), n = register_bits(p, dot) / bits;
  const char *sums = llvm_vec_type(p, t->elem, n), *in = dot->type;
  if (dot->kind == DOT_KIND_MADD) {
    const char *both = arena_printf(p->arena, "%s, %s", in, in);
    a = llvm_call(p, sums, dot->name, both, arena_printf(p->arena, "%s %s, %s %s", in, a, in, b));
    return llvm_let(p, "add %s %s, %s", sums, c, a);
  }
  if (dot->bits) return call_product(p, dot, sums, c, a, b, -1);
  const char *first = lane < 0 ? a : b, *second = lane < 0 ? b : a;
  c = call_product(p, dot, scalable_type(p, t->elem, bits), to_scalable(p, t->elem, bits, n, c),
                   first, second, lane);
  return from_scalable(p, t->elem, bits, n, c);
}

void cpu_dot_rows(TileMma *t, const CpuDot *dot, const char ***rows) {
  int count = part_count(t->n, t->width), unit = unit_of(t);
  int quad = CPU_SEGMENT_BITS / llvm_elem_bits(t->a->dtype);
  bool by_lane = dot->kind == DOT_KIND_LANE;
  for (int k = 0; k < t->k; k += unit) {
    const char **columns = unit_columns(t, dot, k);
    for (int i = 0; i < t->m; i++) {
      int at = cpu_index_in(t->m, t->k_group[0], i, k), lane = by_lane ? at % quad / unit : -1;
      const char *a = by_lane ? quad_of(t, dot, at) : unit_splat(t, dot, at);
      for (int j = 0; j < count; j++) {
        int n = part_size(t->n, t->width, j);
        const char *c = resize(t->p, t->elem, rows[i][j], n, t->width);
        rows[i][j] = resize(t->p, t->elem, multiply(t, dot, a, columns[j], c, lane), t->width, n);
      }
    }
  }
}

int cpu_square_sums(const Llvm *p, const CpuDot *dot) { return register_bits(p, dot) / 32; }

/* Two rows of a form a segment, and pairs of columns of b are the segments of a register, as
 * stored. */
void cpu_dot_squares(TileMma *t, const CpuDot *dot, const char **sums) {
  Llvm *p = t->p;
  int bits = llvm_elem_bits(t->a->dtype), width = register_bits(p, dot) / bits;
  int quad = CPU_SEGMENT_BITS / bits, across = t->n / 2 / (width / quad);
  const char *elem = llvm_elem_type(t->a->dtype);
  for (int i = 0; i < t->m / 2; i++)
    for (int j = 0; j < across; j++) {
      const char *a = dot->bits ? operand(p, dot, elem, quad, llvm_parts_of(p, t->a, quad)[i])
                                : quad_of(t, dot, i * quad);
      const char *b = operand(p, dot, elem, width, llvm_parts_of(p, t->b, width)[j]);
      sums[i * across + j] = multiply(t, dot, a, b, sums[i * across + j], -1);
    }
}
