/* mem_layout.c: the arithmetic of mem_layout.h. */
#include "layout/mem_layout.h"

static void push(MemLayout *m, int dim, int radix, int stride) {
  WV_ASSERT(m->digits.n < LAYOUT_DIGITS && radix >= 1 && stride >= 1);
  m->digits.at[m->digits.n++] = (Digit){dim, radix, stride};
}

static MemLayout empty(int dims, const int *extent, int bits) {
  WV_ASSERT(dims >= 0 && dims <= LAYOUT_DIMS);
  MemLayout m = {.dims = dims, .bits = bits};
  for (int d = 0; d < dims; d++) m.extent[d] = extent[d];
  return m;
}

MemLayout mem_rows(int dims, const int *extent, int bits, int pad) {
  MemLayout m = empty(dims, extent, bits);
  int stride = 1;
  for (int d = dims - 1; d >= 0; d--) {
    push(&m, d, extent[d], stride);
    stride *= extent[d];
    if (d == dims - 1) stride += pad;
  }
  return m;
}

MemLayout mem_boxes(int dims, const int *extent, int bits, int width) {
  MemLayout m = empty(dims, extent, bits);
  if (dims == 0) return m;
  int last = dims - 1, boxes = (extent[last] + width - 1) / width, stride = width;
  push(&m, last, width, 1);
  for (int d = last - 1; d >= 0; d--) {
    push(&m, d, extent[d], stride);
    stride *= extent[d];
  }
  if (boxes > 1) push(&m, last, boxes, stride);
  return m;
}

MemLayout mem_swizzled(const MemLayout *m, int unit, int n, int shift) {
  WV_ASSERT(unit > 0 && (unit & (unit - 1)) == 0 && n > 0 && n <= shift);
  MemLayout out = *m;
  out.swizzle = (Swizzle){((1u << n) - 1) * (unsigned)unit, shift};
  return out;
}

MemLayout mem_nvidia(int dims, const int *extent, int bits, int span) {
  int unit = 16 * 8 / bits, n = span == 128 ? 3 : span == 64 ? 2 : 1;
  WV_ASSERT(span == 16 << n);
  MemLayout m = mem_boxes(dims, extent, bits, span * 8 / bits);
  return mem_swizzled(&m, unit, n, 3);
}

MemLayout mem_ring(const MemLayout *m, int slots, int align) {
  WV_ASSERT(m->dims < LAYOUT_DIMS && align * 8 % m->bits == 0);
  int step = align * 8 / m->bits, stage = (mem_size(m) + step - 1) / step * step;
  MemLayout out = *m;
  out.dims++;
  for (int d = 0; d < m->dims; d++) out.extent[d + 1] = m->extent[d];
  for (int i = 0; i < m->digits.n; i++) out.digits.at[i].dim++;
  out.extent[0] = slots;
  push(&out, 0, slots, stage);
  return out;
}

int mem_swizzle(Swizzle s, int offset) {
  return (int)((unsigned)offset ^ ((unsigned)offset >> s.shift & s.mask));
}

int mem_linear_offset(const MemLayout *m, const int coord[LAYOUT_DIMS]) {
  int rest[LAYOUT_DIMS], offset = 0;
  for (int d = 0; d < m->dims; d++) rest[d] = coord[d];
  for (int i = 0; i < m->digits.n; i++) {
    Digit g = m->digits.at[i];
    offset += rest[g.dim] % g.radix * g.stride;
    rest[g.dim] /= g.radix;
  }
  return offset;
}

int mem_offset(const MemLayout *m, const int coord[LAYOUT_DIMS]) {
  return mem_swizzle(m->swizzle, mem_linear_offset(m, coord));
}

int mem_offset_of(const MemLayout *m, int element) {
  int coord[LAYOUT_DIMS];
  for (int d = m->dims - 1; d >= 0; d--) {
    coord[d] = element % m->extent[d];
    element /= m->extent[d];
  }
  return mem_offset(m, coord);
}

/* A swizzle permutes aligned blocks up to its highest flipped bit; the last block must be
 * complete. */
int mem_size(const MemLayout *m) {
  int size = 1;
  unsigned block = 1;
  for (int i = 0; i < m->digits.n; i++)
    size += (m->digits.at[i].radix - 1) * m->digits.at[i].stride;
  while (block <= m->swizzle.mask) block *= 2;
  return (int)(((unsigned)size + block - 1) / block * block);
}

int64_t mem_bytes(const MemLayout *m) { return ((int64_t)mem_size(m) * m->bits + 7) / 8; }

bool mem_is_valid(const MemLayout *m) {
  enum { MOST = 1 << 28 };
  int64_t reach[LAYOUT_DIMS], size = 1;
  for (int d = 0; d < LAYOUT_DIMS; d++) reach[d] = 1;
  for (int i = 0; i < m->digits.n; i++) {
    Digit g = m->digits.at[i];
    size += (int64_t)(g.radix - 1) * g.stride;
    if (g.stride < 1 || (reach[g.dim] *= g.radix) > MOST || size > MOST) return false;
  }
  for (int d = 0; d < m->dims; d++)
    if (reach[d] < m->extent[d]) return false;
  Swizzle s = m->swizzle;
  if (s.mask && (s.shift < 1 || s.shift > 30 || s.mask > MOST)) return false;
  return m->bits > 0 && (s.mask & (s.mask << s.shift)) == 0;
}

bool mem_equal(const MemLayout *a, const MemLayout *b) {
  if (a->dims != b->dims || a->bits != b->bits || a->digits.n != b->digits.n) return false;
  if (a->swizzle.mask != b->swizzle.mask || a->swizzle.shift != b->swizzle.shift) return false;
  for (int d = 0; d < a->dims; d++)
    if (a->extent[d] != b->extent[d]) return false;
  for (int i = 0; i < a->digits.n; i++) {
    Digit x = a->digits.at[i], y = b->digits.at[i];
    if (x.dim != y.dim || x.radix != y.radix || x.stride != y.stride) return false;
  }
  return true;
}

/* Each digit steps past everything that smaller strides can reach, so no two digit strings collide;
 * and a swizzle permutes. */
static bool is_nested(const MemLayout *m) {
  int64_t reach = 0;
  bool used[LAYOUT_DIGITS] = {false};
  for (int n = 0; n < m->digits.n; n++) {
    int next = -1;
    for (int i = 0; i < m->digits.n; i++)
      if (!used[i] && (next < 0 || m->digits.at[i].stride < m->digits.at[next].stride)) next = i;
    Digit g = m->digits.at[next];
    used[next] = true;
    if (g.radix > 1 && g.stride <= reach) return false;
    reach += (int64_t)(g.radix - 1) * g.stride;
  }
  return true;
}

bool mem_is_injective(Arena *scratch, const MemLayout *m) {
  if (is_nested(m)) return true;
  ArenaMark mark = arena_mark(scratch);
  int elements = 1, size = mem_size(m);
  for (int d = 0; d < m->dims; d++) elements *= m->extent[d];
  uint8_t *used = ARENA_ARRAY(scratch, uint8_t, size);
  bool ok = true;
  for (int e = 0; ok && e < elements; e++) {
    int at = mem_offset_of(m, e);
    ok = at < size && !used[at]++;
  }
  arena_rewind(scratch, mark);
  return ok;
}

int mem_vector(const MemLayout *m, int dim) {
  int run = 1, v = 1, strides = 0;
  for (int i = 0; i < m->digits.n; i++) {
    Digit g = m->digits.at[i];
    if (g.dim == dim && g.stride == run) run *= g.radix;
    else if (g.radix > 1) strides |= g.stride;
  }
  int limit = strides | (int)m->swizzle.mask | run;
  while (v < run && (limit & v) == 0) v *= 2;
  return v;
}
