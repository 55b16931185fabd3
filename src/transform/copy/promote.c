/* promote: stages reads that request shared memory through an allocation.
 *
 *     %x = read %a {mapping = m}    =>    %s = alloc {physical = [64, 64]} : mem<M, K, f16, shared>
 *                                         ...
 *                                         copy %a, %s {mapping = m}
 *                                         %x = read %s
 *
 * if the address space of %a is shared, or a matrix instruction reads %x from shared memory. The
 * copy takes the attributes that concern the argument: mapping, dynamic values, bounds; it writes
 * zeros where the argument has no element, so values never change. If coordinates come from memory
 * it is a read and a write instead, which `gathers` joins again. A read that repeats one whose copy
 * is still valid (nothing has been stored to an argument since) shares that copy. Allocations go to
 * the beginning of the kernel and have the extents of the tile at the read; a tile without a known
 * size is not staged, with a remark. A copy that every iteration of a loop would repeat is moved
 * before it. Volatile reads are not staged. Allocations made by the author are left alone. Needs
 * distribute; breaks all that counts ops. For machines with lanes: `lower_tiles` packs operands
 * itself. */
#include "ir/attr.h"
#include "ir/ops/access.h"
#include "transform/pass.h"

/* A copy made by this pass, valid in its region from there on. */
typedef struct Staged {
  const Op *read; /* as it was */
  Value *memory;  /* the allocation */
  const struct Staged *next;
} Staged;

typedef struct Promote {
  Kernel *k;
  Arena *arena;
  const Distribution *d;
  Op *first;   /* of the kernel: allocations go before it */
  int made;    /* ops from this number on were made by this pass */
  bool failed; /* a mistake was reported */
} Promote;

/* ---- which reads ---- */

/* A matrix instruction reads it from shared memory. */
static bool is_shared_operand(const Promote *p, const Value *v) {
  for (const Op *op = ir_first(p->k); op; op = ir_next(op)) {
    const Attr *mma = op->kind == OP_mma ? op_attr(op, ATTR_mma) : NULL;
    if (mma &&
        ((mma->mma->shared_lhs && op->args[0] == v) || (mma->mma->shared_rhs && op->args[1] == v)))
      return true;
  }
  return false;
}

static bool wants_shared(const Promote *p, const Op *op) {
  if (op->kind != OP_read || op_has(op, ATTR_volatile)) return false;
  const Value *memory = op->args[0];
  if (memory->def || memory->owner->owner) return false;
  if (is_shared_operand(p, &op->results[0])) return true;
  if (!memory->type->space) return false;
  return distribute_expr(p->d, NULL, memory->type->space) == p->k->cx->shared_space;
}

/* The tile's extents as numbers, or the reason why not; "" after reporting a mistake. */
static const char *find_extents(const Promote *p, const Op *op, const Sym **out) {
  const Type *t = op->results[0].type;
  for (int i = 0; i < t->rank; i++) {
    TileRange range;
    int64_t n;
    if (!distribute_dim(p->d, op, t->dims[i], &range)) return "";
    out[i] = sym_simplify(p->k->cx->sym, p->d->facts, range.extent);
    if (!out[i] || !sym_is_int(out[i], &n))
      return arena_printf(p->arena, "its tile along `%s` has no fixed size",
                          sym_text(p->arena, t->dims[i]));
  }
  return NULL;
}

/* ---- sharing ---- */

static bool same_ranges(const Promote *p, const Op *a, const Op *b, const Type *t) {
  for (int i = 0; i < t->rank; i++) {
    TileRange x, y;
    if (!distribute_dim(p->d, a, t->dims[i], &x) || !distribute_dim(p->d, b, t->dims[i], &y))
      return false;
    if (x.start != y.start || x.extent != y.extent || x.size != y.size) return false;
  }
  return true;
}

static bool same_attr(const Op *a, const Op *b, AttrKey key) {
  const Attr *x = op_attr(a, key), *y = op_attr(b, key);
  return x == y || (x && y && attr_equal(x, y));
}

/* The same elements: memory, coordinates, dynamic values, bounds. */
static bool same_read(const Promote *p, const Op *a, const Op *b) {
  if (a->nargs != b->nargs || a->results[0].type != b->results[0].type) return false;
  for (int i = 0; i < a->nargs; i++)
    if (a->args[i] != b->args[i]) return false;
  return same_attr(a, b, ATTR_mapping) && same_attr(a, b, ATTR_bounds) &&
         same_ranges(p, a, b, a->results[0].type) && same_ranges(p, a, b, a->args[0]->type);
}

static bool stores_to(const Op *op, const Value *argument) {
  const Value *written = memory_written(op);
  if (written && memory_root(written) == argument) return true;
  for (const Op *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    if (stores_to(inner, argument)) return true;
  return false;
}

/* The copies that are still up to date after op has run. */
static const Staged *still_true(const Promote *p, const Staged *staged, const Op *op) {
  if (!staged) return NULL;
  const Staged *rest = still_true(p, staged->next, op);
  if (stores_to(op, staged->read->args[0])) return rest;
  if (rest == staged->next) return staged;
  Staged *s = arena_copy(p->arena, staged, sizeof *s);
  s->next = rest;
  return s;
}

/* ---- staging ---- */

static Value *new_alloc(Promote *p, const Op *read, const Sym *const *extents) {
  const Type *t = read->results[0].type;
  const Type *mem = type_mem(p->k->cx, t->dims, t->rank, t->dtype, p->k->cx->shared_space, NULL);
  Op *alloc = ir_insert(p->k, p->first, OP_alloc, read->at, NULL, 0, mem);
  Attr physical = {.key = ATTR_physical, .n = t->rank};
  physical.exprs = arena_copy(p->k->arena, extents, sizeof *extents * (size_t)t->rank);
  op_set_attr(p->k, alloc, physical);
  alloc->results[0].name = read->args[0]->name;
  return &alloc->results[0];
}

static void insert_copy(Promote *p, Op *read, Value *memory) {
  static const AttrKey moved[] = {ATTR_mapping, ATTR_bounds, ATTR_nontemporal};
  Value **args = ARENA_ARRAY(p->arena, Value *, read->nargs + 1);
  args[0] = read->args[0];
  args[1] = memory;
  for (int i = 1; i < read->nargs; i++) args[i + 1] = read->args[i];
  Op *copy = ir_insert(p->k, read, OP_copy, read->at, args, read->nargs + 1, NULL);
  for (size_t i = 0; i < WV_LEN(moved); i++)
    if (op_has(read, moved[i])) op_set_attr(p->k, copy, attr_copy(p->k, op_attr(read, moved[i])));
}

/* What remains of a read: the allocation, accessed by name. */
static void read_local(Op *read, Value *memory) {
  static const AttrKey gone[] = {ATTR_mapping, ATTR_bounds, ATTR_nontemporal, ATTR_mask};
  for (size_t i = 0; i < WV_LEN(gone); i++) op_drop_attr(read, gone[i]);
  read->args[0] = memory;
  read->nargs = 1;
}

static const Op *remember(Promote *p, const Op *read) {
  Op *was = arena_copy(p->arena, read, sizeof *read);
  was->args = arena_copy(p->arena, read->args, sizeof *read->args * (size_t)read->nargs);
  was->attrs = arena_copy(p->arena, read->attrs, sizeof *read->attrs * (size_t)read->nattrs);
  return was;
}

static const Staged *stage(Promote *p, Op *read, const Staged *staged) {
  const Sym *extents[IR_MAX_RANK];
  for (const Staged *s = staged; s; s = s->next)
    if (same_read(p, s->read, read)) return read_local(read, s->memory), staged;
  const char *why = find_extents(p, read, extents);
  if (why && !*why) p->failed = true;
  else if (why)
    diag_add(&p->k->cx->diags, DIAG_R0605, read->at, "`%s` is read directly, not staged: %s",
             memory_name(p->k, read->args[0]), why);
  if (why) return staged;
  Staged *s = ARENA_NEW(p->arena, Staged);
  *s = (Staged){remember(p, read), new_alloc(p, read, extents), staged};
  insert_copy(p, read, s->memory);
  read_local(read, s->memory);
  return s;
}

/* A copy that is valid at the start of a loop's body must still be valid when the body repeats. */
static void promote_region(Promote *p, const Region *r, const Staged *staged) {
  for (Op *op = r->first, *next; op; op = next) {
    next = op->next;
    if (wants_shared(p, op)) staged = stage(p, op, staged);
    if (op->body)
      promote_region(p, op->body, op->kind == OP_if ? staged : still_true(p, staged, op));
    staged = still_true(p, staged, op);
  }
}

/* ---- copies that every iteration repeats ---- */

static bool has_kind_in(const Op *op, OpKind kind) {
  for (const Op *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    if (inner->kind == kind || has_kind_in(inner, kind)) return true;
  return false;
}

/* What it reads may change while it runs: it waits for another workgroup. */
static bool waits_for_others(const Op *op) {
  for (const Op *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    if (op_has(inner, ATTR_volatile) || waits_for_others(inner)) return true;
  return false;
}

static const Sym *without(void *user, const Sym *s) { /* NULL: it mentions the counter */
  return sym_contains(s, user) ? NULL : s;
}

static bool mentions(const Promote *p, const Op *op, const Sym *counter) {
  bool ok = true;
  for (int i = 0; ok && i < op->nattrs; i++) {
    Attr a = attr_copy(p->k, &op->attrs[i]);
    ok = attr_rewrite(p->k, &a, without, (void *)counter);
  }
  return !ok;
}

/* Each iteration would copy the same elements. */
static bool is_repeated(const Promote *p, const Op *loop, const Op *copy) {
  const Sym *counter = ir_loop_counter(p->k, op_attr(loop, ATTR_axis)->sym);
  return copy->nargs == 2 && copy->args[1]->def && !mentions(p, copy, counter) &&
         same_ranges(p, copy, loop, copy->args[0]->type) &&
         same_ranges(p, copy, loop, copy->args[1]->type) && !stores_to(loop, copy->args[0]);
}

/* Only for allocations made by this pass, which have no other copies. From the inside out. */
static void hoist_copies(Promote *p, const Region *r) {
  for (Op *op = r->first; op; op = op->next) {
    if (op->body) hoist_copies(p, op->body);
    if (op->kind != OP_for || has_kind_in(op, OP_set_symbol) || waits_for_others(op)) continue;
    for (Op *copy = op->body->first, *next; copy; copy = next) {
      next = copy->next;
      if (copy->kind != OP_copy || copy->id < p->made || !is_repeated(p, op, copy)) continue;
      ir_remove(copy);
      ir_insert_before(op, copy);
    }
  }
}

/* ---- copies whose coordinates come from memory ---- */

static void move_attrs(Promote *p, const Op *copy, Op *to) {
  static const AttrKey moved[] = {ATTR_mapping, ATTR_bounds, ATTR_mask, ATTR_nontemporal, ATTR_tag};
  for (size_t i = 0; i < WV_LEN(moved); i++)
    if (op_has(copy, moved[i])) op_set_attr(p->k, to, attr_copy(p->k, op_attr(copy, moved[i])));
}

/* The tile passes through registers, so that the values its coordinates are computed from get a
 * matching layout. */
static void split_copy(Promote *p, Op *copy) {
  bool in = memory_is_scratch(copy->args[1]);
  const Type *t = copy->args[in ? 1 : 0]->type;
  const Type *tile = type_tile(p->k->cx, t->dims, t->rank, t->dtype);
  Value **args = ARENA_ARRAY(p->arena, Value *, copy->nargs + 1);
  args[0] = copy->args[0];
  for (int i = 2; i < copy->nargs; i++) args[i - 1] = copy->args[i];
  Op *read = ir_insert(p->k, copy, OP_read, copy->at, args, in ? copy->nargs - 1 : 1, tile);
  args[0] = &read->results[0];
  args[1] = copy->args[1];
  for (int i = 2; i < copy->nargs; i++) args[i] = copy->args[i];
  Op *write = ir_insert(p->k, copy, OP_write, copy->at, args, in ? 2 : copy->nargs, NULL);
  move_attrs(p, copy, in ? read : write);
  ir_remove(copy);
}

static void split_copies(Promote *p) {
  for (Op *op = ir_first(p->k), *next; op; op = next) {
    next = ir_next(op);
    if (op->kind == OP_copy && op->nargs > 2 && !copy_barriers(op)) split_copy(p, op);
  }
}

bool pass_promote(Kernel *k, PassCtx *cx) {
  Promote p = {.k = k, .arena = cx->scratch, .d = cx->facts.distribute, .first = k->body->first};
  p.made = k->nops;
  if (p.first) promote_region(&p, k->body, NULL);
  if (!p.failed) hoist_copies(&p, k->body);
  split_copies(&p);
  return !p.failed;
}
