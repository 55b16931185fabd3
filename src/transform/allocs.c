/* allocs: assigns addresses in shared memory to allocations; those that never hold values at the same
 * time may share bytes.
 *
 *     %s = alloc : mem<M, K, f16, shared>      %s = alloc {physical = [64, 32], base = 0} : ...
 *     copy %a, %s                              copy %a, %s
 *     %x = read %s                      =>     %x = read %s
 *     %t = alloc : mem<M, N, f32, shared>      %t = alloc {physical = [64, 64], base = 0} : ...
 *     write %r, %t                             write %r, %t
 *
 * Liveness is computed backwards over the regions: a read or atomic needs the content, a write or
 * copy of the whole allocation redefines it, one of a part does neither. A loop's body may follow
 * itself, and any body may not run. The copy engine needs what it writes to a tensor until it is
 * waited for. Two allocations interfere if one is written or needed while the other is still needed.
 * Large ones come first, each at the lowest address free of those it
 * interferes with. Allocations of one loop are kept apart as long as there is room, since sharing
 * would cost barriers in every iteration, and so are small ones; with `overlap 0` all are. The addresses are recorded
 * (`base`), so that `sync` orders accesses that share bytes. Needs memory_uses, distribute. */
#include "analysis/memory_uses.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/region_facts.h"
#include "transform/pass.h"

typedef struct Block {
  Op *alloc;
  int memory; /* in MemoryUses; -1: never used */
  int64_t bytes, base;
  int align;
  bool assigned; /* `base` is known */
} Block;

typedef struct Allocs {
  Kernel *k;
  Arena *arena;
  const Distribution *d;
  const MemoryUses *m;
  Block *blocks; /* in program order */
  int *block;    /* by memory; -1: it has none */
  int n;
  bool *whole;    /* by use: it writes the whole allocation */
  bool *together; /* n * n: both hold values at some point */
  bool *in_loop;  /* n * n: both are used in one loop */
  bool apart;     /* `overlap 0`: all are kept apart */
  bool crowded;   /* there is no room to keep those apart */
} Allocs;

/* ---- blocks ---- */
/* An allocation without extents takes those of the tile at its position. */
static bool give_extents(Allocs *p, Op *alloc) {
  const Type *t = alloc->results[0].type;
  int extent[IR_MAX_RANK];
  if (op_has(alloc, ATTR_physical)) return true;
  if (!op_has(alloc, ATTR_memory) && !distribute_extents(p->d, alloc, t, extent)) return false;
  const Sym **dims = ARENA_ARRAY(p->k->arena, const Sym *, t->rank);
  for (int i = 0; i < t->rank; i++) {
    const Sym *given = alloc_extent(p->k, alloc, i);
    dims[i] = given ? given : sym_int(p->k->cx->sym, extent[i]);
  }
  op_set_attr(p->k, alloc, (Attr){.key = ATTR_physical, .n = t->rank, .exprs = dims});
  return true;
}

static int memory_of(const Allocs *p, const Op *alloc) {
  for (int i = 0; i < p->m->memories.n; i++)
    if (p->m->memories.at[i] == &alloc->results[0]) return i;
  return -1;
}

/* Wide copies require aligned rows. */
static int alignment_of(const Allocs *p, const Op *alloc, int memory) {
  int align = alloc_align(alloc);
  for (int i = 0; i < p->m->uses.n && align < ALLOC_COPY_ALIGN; i++)
    if (p->m->uses.at[i].memory == memory && p->m->uses.at[i].op->kind == OP_copy)
      align = ALLOC_COPY_ALIGN;
  return align;
}

/* A size that is not a number, or together too many elements. */
static bool fail_size(const Allocs *p, const Op *alloc) {
  Diags *diags = &p->k->cx->diags;
  const Type *t = alloc->results[0].type;
  StrBuf shape = {.arena = diags->arena};
  for (int i = 0; i < t->rank; i++) {
    const Sym *e = op_attr(alloc, ATTR_physical)->exprs[i];
    const char *text = sym_text(diags->arena, e);
    int64_t n;
    sb_printf(&shape, "%s%s", i ? " x " : "", text);
    if (sym_is_int(e, &n)) continue;
    Diag *d = diag_add(diags, DIAG_E0606, alloc->at, "the allocation has `%s` elements along `%s`",
                       text, sym_text(diags->arena, t->dims[i]));
    return diag_hint(diags, d,
                     "shared memory is allocated at compile time: bind the symbols of the size");
  }
  Diag *d = diag_add(diags, DIAG_E0613, alloc->at,
                     "the allocation has %s elements, more than any shared memory holds",
                     sb_text(&shape));
  return diag_hint(diags, d, "use smaller tiles, or do not stage the tile in shared memory");
}

static bool gather_blocks(Allocs *p) {
  p->blocks = ARENA_ARRAY(p->arena, Block, p->k->nops);
  for (Op *op = ir_first(p->k); op; op = ir_next(op)) {
    if (op->kind != OP_alloc) continue;
    if (!give_extents(p, op)) return false;
    int memory = memory_of(p, op);
    Block b = {op, memory, alloc_bytes(op), 0, alignment_of(p, op, memory), false};
    if (b.bytes < 0) return fail_size(p, op);
    p->blocks[p->n++] = b;
  }
  return true;
}

static void number_blocks(Allocs *p) {
  p->block = ARENA_ARRAY(p->arena, int, p->m->memories.n);
  for (int i = 0; i < p->m->memories.n; i++) p->block[i] = -1;
  for (int i = p->n - 1; i >= 0; i--)
    if (p->blocks[i].memory >= 0) p->block[p->blocks[i].memory] = i;
}

static int block_of(const Allocs *p, int memory) { return p->block[memory]; }

/* ---- liveness ---- */

static const Type *tile_of(const Allocs *p, const MemoryUse *use) {
  if (use->op->kind == OP_write) return use->op->args[0]->type;
  return use->op->kind == OP_read ? use->op->results[0].type : p->m->memories.at[use->memory]->type;
}

/* The extent of the tile of a use by name along a dim of its memory; NULL: unknown. */
static const Sym *extent_of(const Allocs *p, const MemoryUse *use, const Sym *dim) {
  TileRange range;
  int64_t n;
  if (!use->by_name || use->part || !type_has_dim(tile_of(p, use), dim)) return NULL;
  if (sym_is_int(dim, &n)) return dim;
  return distribute_dim(p->d, use->op, dim, &range) ? range.extent : NULL;
}

/* Whether all uses of a memory have tiles of this extent along the dim: what is beyond, as the padding
 * of rows is, holds no value. */
static bool is_all_that_is_used(const Allocs *p, int memory, const Sym *dim, const Sym *extent) {
  for (int i = 0; i < p->m->uses.n; i++)
    if (p->m->uses.at[i].memory == memory && extent_of(p, &p->m->uses.at[i], dim) != extent)
      return false;
  return true;
}

/* The tile of a write or copy by name covers the allocation if it has the same extents, or those of
 * all tiles there, unless the op is only a part of the copy. What is written to the memory of another workgroup
 * of a cluster does not: that one may be behind, so the allocation is kept apart from all before. */
static bool is_whole(const Allocs *p, const MemoryUse *use) {
  const Value *memory = p->m->memories.at[use->memory];
  if (use->how != TOUCH_WRITE || !use->by_name || !memory->def) return false;
  if (alloc_slots(memory->def) > 1 || op_has(use->op, ATTR_peer)) return false;
  const Attr *physical = op_attr(memory->def, ATTR_physical);
  for (int i = 0; i < memory->type->rank; i++) {
    const Sym *dim = memory->type->dims[i], *extent = extent_of(p, use, dim);
    if (!extent) return false;
    if (extent != physical->exprs[i] && !is_all_that_is_used(p, use->memory, dim, extent))
      return false;
  }
  return true;
}

static void note_together(Allocs *p, const bool *live) {
  for (int i = 0; i < p->n; i++)
    for (int j = 0; j < p->n; j++)
      if (live[i] && live[j]) p->together[i * p->n + j] = true;
}

/* Backwards over one op: what it touches holds values while it runs, together with what is needed
 * later. A wait for the copy engine keeps nothing alive before the copy, which may be conditional;
 * keep_in_flight handles what follows it. */
static void live_op(Allocs *p, bool *live, const Op *op) {
  bool *now = arena_copy(p->arena, live, sizeof *live * (size_t)p->n);
  bool touched = false;
  if (op->kind == OP_bulk_wait) return;
  for (int i = 0; i < p->m->uses.n; i++) {
    const MemoryUse *use = &p->m->uses.at[i];
    int block = use->op == op ? block_of(p, use->memory) : -1;
    if (block < 0) continue;
    now[block] = touched = true;
    live[block] = !p->whole[i] && (live[block] || use->how != TOUCH_WRITE);
  }
  if (touched) note_together(p, now);
}

static void live_region(Allocs *p, bool *live, const Region *r);

static void live_body(Allocs *p, bool *live, const Op *op) {
  bool again;
  do {
    bool *inside = arena_copy(p->arena, live, sizeof *live * (size_t)p->n);
    live_region(p, inside, op->body);
    again = false;
    for (int i = 0; i < p->n; i++) {
      again |= inside[i] && !live[i] && op->kind != OP_if;
      live[i] |= inside[i];
    }
  } while (again);
}

static void live_region(Allocs *p, bool *live, const Region *r) {
  for (const Op *op = r->last; op; op = op->prev) {
    if (op->body) live_body(p, live, op);
    else live_op(p, live, op);
  }
}

static void find_together(Allocs *p) {
  p->together = ARENA_ARRAY(p->arena, bool, p->n * p->n);
  p->whole = ARENA_ARRAY(p->arena, bool, p->m->uses.n);
  for (int i = 0; i < p->m->uses.n; i++) p->whole[i] = is_whole(p, &p->m->uses.at[i]);
  live_region(p, ARENA_ARRAY(p->arena, bool, p->n), p->k->body);
}

/* Service waves (stages_roles.h) fill their rings from the start, whatever the others do by then, and
 * arrive on barriers until the end. In a loop inside another one they fill them for its next run while
 * the others do what follows it. */
static void keep_served(Allocs *p) {
  bool *before = ARENA_ARRAY(p->arena, bool, p->n), *served = ARENA_ARRAY(p->arena, bool, p->n);
  for (int i = 0; i < p->m->uses.n; i++)
    if (op_is_served(p->k, p->m->uses.at[i].op) && block_of(p, p->m->uses.at[i].memory) >= 0)
      served[block_of(p, p->m->uses.at[i].memory)] = true;
  for (int i = 0; i < p->m->uses.n; i++) { /* in program order */
    const MemoryUse *use = &p->m->uses.at[i];
    int b = block_of(p, use->memory);
    if (b < 0) continue;
    before[b] = true;
    if (!served[b]) continue;
    bool barriers = use->how == TOUCH_ATOMIC;
    const Op *loop = op_outermost_loop(use->op);
    for (int j = 0; loop && j < p->m->uses.n; j++) {
      int other =
          op_is_inside(p->m->uses.at[j].op, loop) ? block_of(p, p->m->uses.at[j].memory) : -1;
      if (other >= 0) p->together[b * p->n + other] = p->together[other * p->n + b] = true;
    }
    for (int j = 0; j < p->n; j++)
      if (before[j] || barriers || served[j])
        p->together[b * p->n + j] = p->together[j * p->n + b] = true;
  }
}

static bool have_common_loop(const Op *a, const Op *b) {
  for (const Op *loop = a->parent->owner; loop; loop = loop->parent->owner)
    if (loop->kind != OP_if && op_is_inside(b, loop)) return true;
  return false;
}

static void find_in_loop(Allocs *p) {
  p->in_loop = ARENA_ARRAY(p->arena, bool, p->n * p->n);
  for (int i = 0; i < p->m->uses.n; i++) {
    const MemoryUse *x = &p->m->uses.at[i];
    int a = block_of(p, x->memory);
    for (int j = 0; a >= 0 && j < p->m->uses.n; j++) {
      const MemoryUse *y = &p->m->uses.at[j];
      int b = block_of(p, y->memory);
      if (b < 0 || p->in_loop[a * p->n + b]) continue;
      p->in_loop[a * p->n + b] = have_common_loop(x->op, y->op);
    }
  }
}

static bool is_later(const Op *op, const Op *than) {
  for (const Op *at = than; at; at = ir_next(at))
    if (at == op) return op != than;
  return false;
}

/* The copy engine reads what it writes to a tensor after the op that tells it to, until a thread waits for
 * it: before the next run of the loop around both, or at the end of the kernel (`stores`). */
static void keep_in_flight(Allocs *p) {
  for (int i = 0; i < p->m->uses.n; i++) {
    const MemoryUse *from = &p->m->uses.at[i];
    int a = from->how == TOUCH_READ ? block_of(p, from->memory) : -1;
    if (a < 0 || from->op->kind != OP_copy || !copy_goes_by(from->op, "bulk")) continue;
    for (int j = 0; j < p->m->uses.n; j++) {
      const MemoryUse *use = &p->m->uses.at[j];
      int b = block_of(p, use->memory);
      if (b < 0 || !(is_later(use->op, from->op) || have_common_loop(use->op, from->op))) continue;
      p->together[a * p->n + b] = p->together[b * p->n + a] = true;
    }
  }
}

/* ---- addresses ---- */

/* Sharing bytes costs a barrier, and with so few of them saves nothing. */
static bool is_small(const Block *b) {
  enum { SMALL = 1024 };
  return b->bytes <= SMALL;
}

static bool are_apart(const Allocs *p, int a, int b) {
  bool small = is_small(&p->blocks[a]) && is_small(&p->blocks[b]);
  return p->together[a * p->n + b] ||
         (!p->crowded && (p->apart || small || p->in_loop[a * p->n + b]));
}

static int64_t align_up(int64_t v, int align) { return (v + align - 1) / align * align; }

/* The end of a block with an address that overlaps `b` at `base`; 0: none does. */
static int64_t in_the_way(const Allocs *p, int b, int64_t base) {
  int64_t end = 0;
  for (int i = 0; i < p->n; i++) {
    const Block *other = &p->blocks[i];
    if (!other->assigned || !are_apart(p, b, i)) continue;
    bool meet = base < other->base + other->bytes && other->base < base + p->blocks[b].bytes;
    if (meet && (!end || other->base + other->bytes < end)) end = other->base + other->bytes;
  }
  return end;
}

static void assign(Allocs *p, int b) {
  int64_t base = 0;
  for (int64_t end; (end = in_the_way(p, b, base));) base = align_up(end, p->blocks[b].align);
  p->blocks[b].base = base;
  p->blocks[b].assigned = true;
}

static int largest_left(const Allocs *p) {
  int best = -1;
  for (int i = 0; i < p->n; i++)
    if (!p->blocks[i].assigned && (best < 0 || p->blocks[i].bytes > p->blocks[best].bytes))
      best = i;
  return best;
}

/* Assigns an address to every block; returns the bytes they need. */
static int64_t assign_all(Allocs *p) {
  int64_t total = 0;
  for (int i = 0; i < p->n; i++) p->blocks[i].assigned = false;
  for (int b; (b = largest_left(p)) >= 0;) {
    assign(p, b);
    int64_t end = p->blocks[b].base + p->blocks[b].bytes;
    total = end > total ? end : total;
  }
  return total;
}

static bool find_bases(Allocs *p, const TargetInfo *target) {
  int64_t total = assign_all(p);
  p->crowded = target && total > target->shared_most;
  if (p->crowded) total = assign_all(p);
  if (!target || total <= target->shared_most) return true;
  Diags *diags = &p->k->cx->diags;
  Diag *d =
      diag_add(diags, DIAG_E0613, p->k->at, "`%s` needs %lld bytes of shared memory, %s has %d",
               p->k->name, (long long)total, target->name, target->shared_most);
  for (int i = 0; i < p->n; i++)
    diag_note(diags, d, p->blocks[i].alloc->at, "%lld bytes at %lld for %s",
              (long long)p->blocks[i].bytes, (long long)p->blocks[i].base,
              type_text(diags->arena, p->k->cx, p->blocks[i].alloc->results[0].type));
  return diag_hint(diags, d, "use smaller tiles");
}

bool pass_allocs(Kernel *k, PassCtx *cx) {
  Allocs p = {.k = k, .arena = cx->scratch, .d = cx->facts.distribute, .m = cx->facts.memory_uses};
  p.apart = distribute_is_off(p.d, CONSTRAINT_overlap);
  if (!gather_blocks(&p)) return false;
  number_blocks(&p);
  find_together(&p);
  keep_served(&p);
  keep_in_flight(&p);
  find_in_loop(&p);
  if (!find_bases(&p, cx->target)) return false;
  for (int i = 0; i < p.n; i++)
    op_set_attr(k, p.blocks[i].alloc, (Attr){.key = ATTR_base, .integer = p.blocks[i].base});
  return true;
}
