/* descriptor.c: see descriptor.h. */
#include "target/descriptor.h"

enum { PIECE = 16, CORE = 8 }; /* bytes of a piece; rows or k of a core matrix */

bool descriptor_equal(const Descriptor *a, const Descriptor *b) {
  return a->leading == b->leading && a->stride == b->stride && a->span == b->span &&
         a->transposed == b->transposed;
}

int64_t descriptor_offset(const Descriptor *d, int bytes, int64_t row, int64_t k) {
  int64_t piece = PIECE / bytes, wide = d->span ? d->span / bytes : piece;
  int64_t pitch = d->span ? d->span : PIECE;
  if (!d->transposed && d->span) return row % CORE * pitch + row / CORE * d->stride + k * bytes;
  if (!d->transposed)
    return row % CORE * pitch + row / CORE * d->stride + k % piece * bytes + k / piece * d->leading;
  int64_t across = d->span ? d->leading : d->stride, along = d->span ? d->stride : d->leading;
  return row % wide * bytes + row / wide * across + k % CORE * pitch + k / CORE * along;
}

int64_t descriptor_swizzle(int64_t address, int span) {
  int64_t mask = span == 128 ? 7 : span == 64 ? 3 : span == 32 ? 1 : 0;
  return address ^ (address >> 7 & mask) << 4;
}

int descriptor_span(const MemLayout *m) {
  static const int spans[] = {32, 64, 128};
  int64_t bytes = m->bits / 8;
  if (!m->swizzle.mask) return 0;
  for (size_t i = 0; i < WV_LEN(spans); i++) {
    int64_t bits = spans[i] == 128 ? 7 : spans[i] == 64 ? 3 : 1;
    if (m->swizzle.mask * bytes == bits << 4 && m->swizzle.shift == 3) return spans[i];
  }
  return -1;
}

/* Before the swizzle. */
static int64_t byte_of(const DescriptorPart *p, int row, int k) {
  int coord[LAYOUT_DIMS];
  for (int i = 0; i < LAYOUT_DIMS; i++) coord[i] = p->at[i];
  coord[p->row_dim] += row;
  coord[p->k_dim] += k;
  return (int64_t)mem_linear_offset(p->tile, coord) * (p->tile->bits / 8);
}

/* The distance between two elements of the operand; 0 if it has only one such group. */
static int64_t distance(const DescriptorPart *p, int row, int k) {
  return row < p->rows && k < p->k ? byte_of(p, row, k) - byte_of(p, 0, 0) : PIECE;
}

/* Both addresses are sums of a row's and a k's contribution, since each digit belongs to one dim.
 * So they agree everywhere if they agree along the first row and the first k. */
static bool reads_all(const DescriptorPart *p, const Descriptor *d, int64_t first) {
  int bytes = p->tile->bits / 8;
  if (p->row_dim == p->k_dim) return false;
  for (int row = 0; row < p->rows; row++)
    if (first + descriptor_offset(d, bytes, row, 0) != byte_of(p, row, 0)) return false;
  for (int k = 0; k < p->k; k++)
    if (first + descriptor_offset(d, bytes, 0, k) != byte_of(p, 0, k)) return false;
  return true;
}

bool descriptor_find(const DescriptorPart *p, Descriptor *out, int64_t *first) {
  int span = descriptor_span(p->tile), bytes = p->tile->bits / 8;
  if (span < 0 || p->tile->bits % 8 || bytes > PIECE) return false;
  int piece = PIECE / bytes;
  *first = byte_of(p, 0, 0);
  bool transposed = p->rows > 1 && byte_of(p, 1, 0) - *first == bytes;
  *out = (Descriptor){.span = span, .transposed = transposed};
  if (!transposed) {
    out->stride = distance(p, CORE, 0);
    out->leading = span ? PIECE : distance(p, 0, piece);
  } else if (span) {
    out->leading = distance(p, span / bytes, 0);
    out->stride = distance(p, 0, CORE);
  } else {
    out->leading = distance(p, 0, CORE);
    out->stride = distance(p, piece, 0);
  }
  bool whole = *first % PIECE == 0 && out->stride % PIECE == 0 && out->leading % PIECE == 0;
  return whole && reads_all(p, out, *first);
}

MemLayout descriptor_boxes(int dims, const int *extent, int bits, int inner, int span) {
  int from[LAYOUT_DIMS], turned[LAYOUT_DIMS], n = 0;
  for (int i = 0; i < dims; i++)
    if (i != inner) from[n++] = i;
  from[n++] = inner;
  for (int i = 0; i < n; i++) turned[i] = extent[from[i]];
  MemLayout m =
      span ? mem_nvidia(n, turned, bits, span) : mem_boxes(n, turned, bits, PIECE * 8 / bits);
  for (int i = 0; i < n; i++) m.extent[i] = extent[i];
  for (int i = 0; i < m.digits.n; i++) m.digits.at[i].dim = from[m.digits.at[i].dim];
  return m;
}

static bool is_whole(int bits, int span) { return bits % ((span ? span : PIECE) * 8) == 0; }

/* The instruction reads the layout correctly wherever it begins: a transposed part consists of
 * whole spans, or a whole number of parts fill one. */
static bool reads_everywhere(const DescriptorTile *t, const MemLayout *m, int span) {
  DescriptorPart part = {m, t->row_dim, t->k_dim, t->rows, t->k, {0}};
  Descriptor d;
  int64_t first;
  int bits = t->rows * t->bits;
  bool transposed = t->row_dim == t->inner;
  if (transposed && !is_whole(bits, span) && span * 8 % bits) return false;
  return descriptor_find(&part, &d, &first);
}

static bool is_readable(const DescriptorTile *t) {
  if (t->row_dim != t->inner && t->k_dim != t->inner) return false;
  if (t->row_dim == t->inner && t->bits != 16) return false;
  return t->extent[t->row_dim] % t->rows == 0 && t->extent[t->k_dim] % t->k == 0;
}

bool descriptor_layout(const DescriptorTile *t, int n, MemLayout *out) {
  static const int spans[] = {128, 64, 32, 0};
  for (int i = 0; i < n; i++)
    if (!is_readable(&t[i])) return false;
  for (size_t i = 0; i < WV_LEN(spans); i++) {
    bool all = is_whole(t->extent[t->inner] * t->bits, spans[i]);
    if (all) *out = descriptor_boxes(t->dims, t->extent, t->bits, t->inner, spans[i]);
    for (int use = 0; all && use < n; use++) all = reads_everywhere(&t[use], out, spans[i]);
    if (all) return true;
  }
  return false;
}
