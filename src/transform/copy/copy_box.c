/* copy_box.c: see copy_box.h. */
#include "transform/copy/copy_box.h"

#include <string.h>

#include "ir/dtype.h"
#include "target/descriptor.h"
#include "target/maps/clip.h"

enum {
  MOST_RANK = 5,
  MOST_EXTENT = 256,
  PIECE = 16,           /* bytes: rows of a box consist of whole pieces and begin at one */
  ALIGN = 128,          /* bytes, of a box in shared memory; if swizzled: */
  ALIGN_SWIZZLED = 8,   /* spans */
  MOST_BYTES = 1 << 20, /* one more than a barrier can count */
  MOST_SYMBOLS = 16
};

/* ---- the tensor's side ---- */

static bool is_version_uniform(const Kernel *k, const Sym *version) {
  for (const Op *op = k->body->first; op; op = ir_next(op)) {
    const Attr *opened = op_attr(op, ATTR_version);
    if (opened && opened->sym == version) return op->kind == OP_set_symbol && !op->args[0]->varying;
  }
  return false;
}

/* Whether e is the same for all threads, apart from coordinates of the tile. Starts of tiles are;
 * what a mapping adds may not be. */
static bool is_uniform(const Distribution *d, const Sym *e) {
  const Sym *symbols[MOST_SYMBOLS];
  int n = sym_free_symbols(e, symbols, MOST_SYMBOLS);
  for (int i = 0; i < n && i < MOST_SYMBOLS; i++) {
    const char *name = sym_name(symbols[i]);
    bool fixed = strncmp(name, "$WG", 3) == 0 || strncmp(name, "$ARG", 4) == 0;
    fixed = fixed || strncmp(name, "$x", 2) == 0;
    if (name[0] == '$' && !fixed) return false;
    if (strchr(name, '.') && !is_version_uniform(d->k, symbols[i])) return false;
  }
  return n <= MOST_SYMBOLS;
}

const Sym *copy_box_coord(const Distribution *d, const AccessBounds *b, const CopyBox *box, int m) {
  if (m < box->join.dim) return sym_int(d->k->cx->sym, 0);
  return box->join.dim && m == box->join.dim ? box->join.coord : b->coords[m];
}

/* A coordinate of the tensor is a coordinate of the tile plus something uniform over the tile. Along a
 * dimension of one element, any multiple of the coordinate is 0. */
static bool find_axis(const Distribution *d, const AccessBounds *b, const int *extent, int m,
                      CopyBox *out) {
  SymCtx *sym = d->k->cx->sym;
  const Sym *x[IR_MAX_RANK], *coeff[IR_MAX_RANK], *rest, *coord = copy_box_coord(d, b, out, m);
  int rank = b->access.tile->rank;
  for (int i = 0; i < rank; i++) x[i] = access_x(sym, i);
  out->axis[m] = -1;
  if (!coord || !sym_linear(sym, coord, x, rank, coeff, &rest)) return false;
  for (int i = 0; i < rank; i++) {
    if (coeff[i] == sym_int(sym, 0)) continue;
    if (extent[i] == 1 && coeff[i] != sym_int(sym, 1)) continue;
    if (coeff[i] != sym_int(sym, 1) || out->axis[m] >= 0) return false;
    out->axis[m] = i;
  }
  for (int before = 0; before < m && out->axis[m] >= 0; before++)
    if (out->axis[before] == out->axis[m]) return false;
  return rest && is_uniform(d, rest);
}

static bool find_axes(const Distribution *d, const AccessBounds *b, const int *extent,
                      CopyBox *out) {
  unsigned found = 0;
  for (int m = 0; m < out->rank; m++) {
    if (!find_axis(d, b, extent, m, out)) return false;
    if (out->axis[m] >= 0) found |= 1u << out->axis[m];
  }
  for (int i = 0; i < b->access.tile->rank; i++)
    if (extent[i] > 1 && !(found >> i & 1)) return false;
  return true;
}

/* Rows of the tile are pixels, its columns are channels. */
static bool find_pixels(const Distribution *d, const AccessBounds *b, const int *extent,
                        CopyBox *out) {
  if (!copy_pixels(d, b, extent, &out->pixels)) return false;
  for (int m = 0; m < b->access.memory->type->rank; m++)
    if (!is_uniform(d, b->coords[m])) return out->pixels.walk.dims = 0, false;
  out->rank = 2;
  out->axis[0] = out->pixels.pixel, out->axis[1] = out->pixels.channel;
  return true;
}

/* Whether a test concerns the iteration that the copy acts for, rather than elements. */
static bool is_of_iteration(const Bound *t) { return t->at == t->coord; }

static bool is_of_tensor(const Distribution *d, const AccessBounds *b, const Bound *t,
                         const CopyBox *box) {
  const CopyPixels *p = &box->pixels;
  if (t->of_memory) return true;
  if (box->join.dim && t->limit && t->coord == box->join.coord)
    return sym_equal(d->k->cx->sym, d->facts, t->limit, box->join.extent) == SYM_ALWAYS;
  for (int m = 0; m < b->access.memory->type->rank; m++)
    if (t->limit && t->coord == b->coords[m] && t->limit == b->sizes[m]) return true;
  return p->walk.dims && t->limit && t->limit == p->count; /* past the last image */
}

/* The test ends the rows along one dim of the tensor. */
static bool clip(const Distribution *d, const AccessBounds *b, const Bound *t, CopyBox *out) {
  SymCtx *sym = d->k->cx->sym;
  if (!t->limit || out->pixels.walk.dims || out->join.dim || out->rank > CLIP_RANK) return false;
  for (int m = 0; m + 1 < out->rank; m++) {
    if (out->axis[m] < 0 || !b->sizes[m]) continue;
    const Sym *x = access_x(sym, out->axis[m]), *rest = sym_sub(sym, b->coords[m], t->coord);
    if (!sym_contains(t->coord, x) || !rest || !is_uniform(d, rest) || sym_contains(rest, x))
      continue;
    const Sym *end = sym_min(sym, sym_add(sym, t->limit, rest), b->sizes[m]);
    if (!end || !is_uniform(d, end) || (out->clip >= 0 && out->clip != m)) return false;
    out->end = out->end ? sym_min(sym, out->end, end) : end;
    out->clip = m;
    return out->end != NULL;
  }
  return false;
}

/* The first row of a box that is clipped must exist: NULL, or why it may not. */
static const char *begins_inside(const AccessBounds *b, const CopyBox *box) {
  for (int i = 0; box->clip >= 0 && i < b->nbounds; i++) {
    const Bound *t = &b->bounds[i];
    bool proved = t->verdict == BOUND_proved || t->verdict == BOUND_promised;
    if (t->of_memory && !t->limit && t->coord == b->coords[box->clip] && !proved)
      return "its rows end before the tensor does and are not known to begin inside it";
  }
  return NULL;
}

/* Elements are skipped where the tensor has none, or past the end of the rows. */
static const char *find_tests(const Distribution *d, const AccessBounds *b, CopyBox *out) {
  for (int i = 0; i < b->nbounds; i++) {
    const Bound *t = &b->bounds[i];
    if (t->verdict != BOUND_tested || is_of_iteration(t) || is_of_tensor(d, b, t, out)) continue;
    if (!clip(d, b, t, out)) return "its bounds differ from those of the tensor";
  }
  return begins_inside(b, out);
}

/* Rows of the tile are those of several dims, and end where these do. */
static bool find_joined(const Distribution *d, const AccessBounds *b, const int *extent,
                        CopyBox *out) {
  for (int dim = out->rank - 2; dim > 0; dim--)
    if (copy_join(d, b, dim, &out->join) && find_axes(d, b, extent, out) && !find_tests(d, b, out))
      return true;
  out->join.dim = 0;
  return false;
}

static bool steps_in_pieces(const Distribution *d, const AccessBounds *b, int bits) {
  for (int m = 0; m + 1 < b->access.memory->type->rank; m++) {
    const Sym *stride = copy_stride(d, b, m);
    if (!stride || !sym_divides(d->k->cx->sym, d->facts, PIECE * 8 / bits, stride)) return false;
  }
  return true;
}

/* ---- the side of shared memory ---- */

/* Boxes of n elements along the dim, with `stride` between elements, all beginning aligned. */
static bool is_cut(const MemLayout *slot, int dim, int n, int64_t stride, int align) {
  for (int x = 0; x < slot->extent[dim]; x++) {
    int64_t first = copy_along(slot, dim, x - x % n);
    if (first * slot->bits / 8 % align) return false;
    if (copy_along(slot, dim, x) - first != x % n * stride) return false;
  }
  return true;
}

/* The longest boxes along the dim that divide `extent`, at most `most` elements; 0: there are none. */
static int longest_cut(const MemLayout *slot, int dim, int extent, int most, int64_t stride,
                       int align) {
  for (int n = extent < most ? extent : most; n >= 1; n--)
    if (extent % n == 0 && is_cut(slot, dim, n, stride, align)) return n;
  return 0;
}

/* From the inner dim outwards; swizzled rows are as long as the swizzle. */
static bool cut(const MemLayout *slot, const CopySlice *s, CopyBox *out) {
  int align = out->span ? ALIGN_SWIZZLED * out->span : ALIGN, row = out->span * 8 / slot->bits;
  int64_t stride = 1;
  for (int m = out->rank - 1; m >= 0; m--) {
    int dim = out->axis[m], most = m == out->rank - 1 && row ? row : MOST_EXTENT;
    if (out->pixels.walk.dims && m == 0) most = IM2COL_PIXELS;
    int extent = dim < 0 ? 1 : slot->extent[dim] / s->of[dim];
    out->extent[m] = dim < 0 ? 1 : longest_cut(slot, dim, extent, most, stride, align);
    if (!out->extent[m] || (m == out->rank - 1 && row && out->extent[m] != row)) return false;
    out->count[m] = extent / out->extent[m];
    out->first[m] = dim < 0 ? 0 : s->at[dim] * out->count[m];
    stride *= out->extent[m];
  }
  return out->extent[out->rank - 1] * slot->bits / 8 % PIECE == 0;
}

int copy_box_share(CopyBox *box, const MemLayout *slot, int peers) {
  int align = box->span ? ALIGN_SWIZZLED * box->span : ALIGN;
  for (int m = 0; !box->pixels.walk.dims && m + 1 < box->rank; m++) {
    int64_t stride = 1;
    int part = box->extent[m] / peers;
    for (int inner = m + 1; inner < box->rank; inner++) stride *= box->extent[inner];
    if (box->axis[m] < 0) continue;
    if (box->count[m] % peers == 0) return m;
    if (box->extent[m] % peers || !is_cut(slot, box->axis[m], part, stride, align)) continue;
    box->extent[m] = part, box->count[m] *= peers, box->first[m] *= peers;
    return m;
  }
  return -1;
}

int copy_box_offset(const CopyBox *box, const MemLayout *slot, const int *number) {
  int64_t offset = 0;
  for (int m = 0; m < box->rank; m++)
    if (box->axis[m] >= 0) offset += copy_along(slot, box->axis[m], number[m] * box->extent[m]);
  return (int)offset;
}

/* ---- both ---- */

static bool has_extents(const MemLayout *slot, const int *extent) {
  for (int i = 0; i < slot->dims; i++)
    if (slot->extent[i] != extent[i]) return false;
  return true;
}

const char *copy_box(const Distribution *d, const AccessBounds *b, const MemLayout *slot,
                     CopyBox *out) {
  CopySlice s = copy_slice(b->access.op);
  return copy_box_slice(d, b, slot, &s, out);
}

const char *copy_box_slice(const Distribution *d, const AccessBounds *b, const MemLayout *slot,
                           const CopySlice *s, CopyBox *out) {
  const MemAccess *a = &b->access;
  int extent[IR_MAX_RANK], bits = dtype_memory_bits(a->tile->dtype);
  *out = (CopyBox){.rank = a->memory->type->rank, .span = descriptor_span(slot), .clip = -1};
  if (out->rank < 1 || out->rank > MOST_RANK) return "a box must have 1 to 5 dimensions";
  if (bits % 8) return "its elements are not whole bytes";
  if (slot->dims != a->tile->rank || !distribute_extents(d, a->op, a->tile, extent) ||
      !has_extents(slot, extent))
    return "its tile is not the whole allocation";
  if (!find_axes(d, b, extent, out) && !find_joined(d, b, extent, out) &&
      !find_pixels(d, b, extent, out))
    return "the region it copies is not a box of the tensor";
  const char *why = find_tests(d, b, out);
  if (why) return why;
  if (out->span < 0 || !cut(slot, s, out))
    return "its tile's shared-memory layout does not match a box";
  int64_t bytes = bits / 8;
  for (int i = 0; i < slot->dims; i++) bytes *= extent[i];
  bytes /= copy_slices(s);
  out->bytes = (int)bytes;
  return bytes < MOST_BYTES ? NULL : "it has more bytes than a barrier can count";
}

/* ---- tiles that are not copied ---- */

/* `n` elements as few boxes of equal length. */
static void cut_evenly(CopyBox *out, int m, int n) {
  int longest = n < MOST_EXTENT ? n : MOST_EXTENT;
  while (n % longest) longest--;
  out->extent[m] = longest, out->count[m] = n / longest;
}

const char *copy_box_of_tile(const Distribution *d, const AccessBounds *b, CopyBox *out) {
  const MemAccess *a = &b->access;
  int extent[IR_MAX_RANK], bits = dtype_memory_bits(a->tile->dtype), bytes = bits / 8;
  *out = (CopyBox){.rank = a->memory->type->rank, .clip = -1};
  if (out->rank < 1 || out->rank > MOST_RANK) return "a box must have 1 to 5 dimensions";
  if (bits % 8) return "its elements are not whole bytes";
  if (!distribute_extents(d, a->op, a->tile, extent)) return "its extents are not known";
  if (!find_axes(d, b, extent, out) && !find_joined(d, b, extent, out))
    return "it is not a box of the tensor";
  const char *why = find_tests(d, b, out);
  if (why) return why;
  if (out->clip >= 0) return "its rows end before the tensor does";
  for (int m = 0; m < out->rank; m++) {
    cut_evenly(out, m, out->axis[m] < 0 ? 1 : extent[out->axis[m]]);
    bytes *= out->extent[m] * out->count[m];
  }
  out->bytes = bytes;
  return out->extent[out->rank - 1] * bits / 8 % PIECE ? "its rows are not whole pieces" : NULL;
}

int copy_box_divide(CopyBox *box, int parts) {
  for (int m = 0; m + 1 < box->rank; m++) {
    int n = box->extent[m] * box->count[m];
    if (n == 1) continue;
    if (n % parts) return -1;
    cut_evenly(box, m, n / parts);
    return m;
  }
  return -1;
}

const char *copy_box_tensor(const Distribution *d, const AccessBounds *b, const CopyBox *box) {
  int bits = dtype_memory_bits(b->access.tile->dtype), inner = box->axis[box->rank - 1];
  for (int m = 0; m < b->access.memory->type->rank; m++) /* a clipped dim may have no rows */
    if (m != box->clip && !(b->inhabited >> m & 1)) return "the tensor may be empty";
  if (inner < 0 || b->piece_axis != inner || b->piece * bits / 8 < PIECE ||
      !steps_in_pieces(d, b, bits))
    return "its rows are not known to be multiples of 16 bytes";
  return NULL;
}
