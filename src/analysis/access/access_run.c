/* access_run.c: the addresses of an access: do offsets fit into 32 bits, and how many elements can
 * one instruction move?
 *
 *     read %a: mem<M, K, f16>, K a multiple of 8     8 elements along K: 16 bytes, aligned
 *     read through {K: $index1/8*8 + ...}            as many as the mapping keeps adjacent
 *
 * A run begins where the tile's coordinate is a multiple of its length. Every element of the run is
 * compared with the first, so the answer holds for any mapping, including floors and remainders. */
#include "analysis/access/in_bounds.h"
#include "ir/dtype.h"
#include "ir/ops/alloc_layout.h"

enum { RUN_BITS = 128 }; /* the widest load of any machine considered, but see load_bits */

typedef struct Address {
  AccessBounds *b;
  const Standing *s;
  const SymFacts *facts, *tested; /* of every element; of those that pass the tests */
  const Sym *const *coords, *const *sizes;
  const SymBinding *position;
  SymCtx *sym;
  const Sym *offset;       /* in elements, over the $x; NULL: unknown */
  const MemLayout *memory; /* of an allocation, or NULL: row-major */
  bool view;               /* an argument addressed by its strides */
} Address;

static const Sym *argument_symbol(const Address *ad, const char *what, int dim) {
  return memory_symbol(ad->s->d->k, ad->b->access.memory, what, dim);
}

static const Sym *strided_offset(const Address *ad) {
  const Sym *offset = sym_int(ad->sym, 0);
  for (int m = 0; m < ad->b->access.memory->type->rank; m++) {
    const Sym *by = sym_mul(ad->sym, ad->coords[m], argument_symbol(ad, "STRIDE", m));
    offset = sym_add(ad->sym, offset, by);
  }
  return offset;
}

/* Row-major: no stride depends on the size of the first dimension. */
static const Sym *linear_offset(const Address *ad) {
  const Type *t = ad->b->access.memory->type;
  if (ad->view) return strided_offset(ad);
  const Sym *offset = sym_int(ad->sym, 0), *stride = sym_int(ad->sym, 1);
  for (int m = t->rank - 1; m >= 0; m--) {
    offset = sym_add(ad->sym, offset, sym_mul(ad->sym, ad->coords[m], stride));
    if (m) stride = sym_mul(ad->sym, stride, ad->sizes[m]);
  }
  return offset;
}

static const Sym *in_bytes(const Address *ad, const Sym *elements) {
  int bits = dtype_memory_bits(ad->b->access.memory->type->dtype);
  return sym_ceil(ad->sym, sym_mul(ad->sym, elements, sym_rational(ad->sym, bits, 8)));
}

/* Arithmetic of 32 bits wraps around for other elements. */
static void find_offset_bits(const Address *ad) {
  const MemAccess *a = &ad->b->access;
  const Type *t = a->memory->type;
  const Sym *all = sym_int(ad->sym, 1);
  for (int m = 0; m < t->rank; m++) all = sym_mul(ad->sym, all, ad->sizes[m]);
  ad->b->bytes = in_bytes(ad, all);
  SymRange used =
      sym_range(ad->sym, ad->tested,
                in_bytes(ad, sym_subst(ad->sym, ad->offset, ad->position, a->tile->rank)));
  if (used.lo >= INT32_MIN && used.hi <= INT32_MAX - RUN_BITS / 8) ad->b->offset_bits = 32;
}

/* ---- runs ---- */

/* e with $x(axis) = $q * run + r and the other coordinates at the tile's position. */
static const Sym *at_run(const Address *ad, const Sym *e, int axis, int run, int r) {
  SymBinding to[IR_MAX_RANK];
  int rank = ad->b->access.tile->rank;
  for (int i = 0; i < rank; i++) to[i] = ad->position[i];
  const Sym *q = sym_symbol(ad->sym, "$q", false);
  to[axis].to = sym_add(ad->sym, sym_mul(ad->sym, q, sym_int(ad->sym, run)), sym_int(ad->sym, r));
  return sym_subst(ad->sym, e, to, rank);
}

static bool is_multiple(const Address *ad, const Sym *e, int run) {
  return sym_divides(ad->sym, ad->facts, run, e);
}

/* Whether e moves by `by` from the first element of a run to element r. */
static bool moves_by(const Address *ad, const Sym *e, int axis, int run, int r, int by) {
  const Sym *step = sym_sub(ad->sym, at_run(ad, e, axis, run, r), at_run(ad, e, axis, run, 0));
  return sym_equal(ad->sym, ad->facts, step, sym_int(ad->sym, by)) == SYM_ALWAYS;
}

/* Whether e moves by `each` from every element of a run to the next. */
static bool moves_evenly(const Address *ad, const Sym *e, int axis, int run, int each) {
  const Sym *x = ad->position[axis].from, *coeff, *rest;
  int64_t by;
  if (sym_linear(ad->sym, e, &x, 1, &coeff, &rest) && sym_is_int(coeff, &by)) return by == each;
  for (int r = 1; r < run; r++)
    if (!moves_by(ad, e, axis, run, r, r * each)) return false;
  return true;
}

/* The dim of the memory whose neighbours are contiguous. */
static int contiguous_dim(const Address *ad) {
  int last = ad->b->access.memory->type->rank - 1, best = last;
  for (int m = last - 1; ad->memory && m >= 0; m--)
    if (mem_vector(ad->memory, m) > mem_vector(ad->memory, best)) best = m;
  return best;
}

static bool is_adjacent(const Address *ad, int axis, int run) {
  const MemAccess *a = &ad->b->access;
  int along = contiguous_dim(ad);
  const Sym *one = sym_int(ad->sym, 1);
  if (ad->view &&
      !sym_proves(ad->sym, ad->facts, sym_eq(ad->sym, argument_symbol(ad, "STRIDE", along), one)))
    return false;
  for (int i = 0; i < a->ndynamic; i++)
    if (!access_dynamic_is_even(a, ad->s, i, axis, run)) return false;
  for (int m = 0; m < a->memory->type->rank; m++)
    if (!moves_evenly(ad, ad->coords[m], axis, run, m == along)) return false;
  return true;
}

/* A test whose outcome changes within a run cannot be made once for the whole run. What a copy engine
 * tests counts, too: threads may have to copy instead. */
static bool is_tested_alike(const Address *ad, int axis, int run) {
  for (int i = 0; i < ad->b->nbounds; i++) {
    const Bound *b = &ad->b->bounds[i];
    bool tested = b->verdict == BOUND_tested || b->verdict == BOUND_filled;
    if (!tested || moves_by(ad, b->coord, axis, run, run - 1, 0)) continue;
    if (!is_multiple(ad, at_run(ad, b->coord, axis, run, 0), run)) return false;
    if (b->limit && !is_multiple(ad, b->limit, run)) return false;
  }
  return true;
}

/* The run begins at a multiple of its length in memory. */
static bool begins_aligned(const Address *ad, int axis, int run) {
  int64_t bytes = (int64_t)run * dtype_memory_bits(ad->b->access.memory->type->dtype) / 8;
  if (ad->view && bytes > 1 &&
      !sym_divides(ad->sym, ad->facts, bytes, argument_symbol(ad, "BASE", -1)))
    return false;
  if (!ad->memory) return is_multiple(ad, at_run(ad, ad->offset, axis, run, 0), run);
  int along = contiguous_dim(ad);
  return mem_vector(ad->memory, along) >= run &&
         is_multiple(ad, at_run(ad, ad->coords[along], axis, run, 0), run);
}

/* The tile begins and ends on whole, aligned runs. */
static bool is_aligned(const Address *ad, int axis, int run) {
  DimRange here;
  if (!standing_range(ad->s, ad->b->access.op, ad->b->access.tile->dims[axis], &here)) return false;
  return is_multiple(ad, here.start, run) && is_multiple(ad, here.size, run) &&
         begins_aligned(ad, axis, run);
}

static int longest_run(const Address *ad) {
  const HardwareSpec *hardware = kernel_hardware(ad->s->d->k);
  int bits = hardware && hardware->load_bits ? hardware->load_bits : RUN_BITS;
  int run = bits / dtype_info[ad->b->access.memory->type->dtype].bits, power = 1;
  while (2 * power <= run) power *= 2;
  return power;
}

/* Finds the longest run, and the longest piece, along any axis; ties go to the inner axis. */
static void find_run(const Address *ad) {
  AccessBounds *b = ad->b;
  for (int axis = b->access.tile->rank - 1; axis >= 0; axis--)
    for (int run = longest_run(ad); run > b->run; run /= 2) {
      if (!is_aligned(ad, axis, run) || !is_adjacent(ad, axis, run)) continue;
      if (run > b->piece) b->piece = run, b->piece_axis = axis;
      if (is_tested_alike(ad, axis, run)) b->run = run, b->run_axis = axis;
    }
}

void find_addresses(AccessBounds *b, const Standing *s, const SymFacts *inside,
                    const SymFacts *tested, const Sym *const *coords, const Sym *const *sizes,
                    const SymBinding *position) {
  Address ad = {.b = b,
                .s = s,
                .facts = inside,
                .tested = tested,
                .coords = coords,
                .sizes = sizes,
                .position = position,
                .sym = s->d->k->cx->sym};
  const Op *alloc = b->access.memory->def;
  MemLayout memory;
  if (alloc && alloc->kind == OP_alloc && alloc_slot_layout(alloc, &memory)) ad.memory = &memory;
  ad.view = memory_is_view(s->d->k, b->access.memory);
  ad.offset = linear_offset(&ad);
  find_offset_bits(&ad);
  if (ad.offset) find_run(&ad);
}
