/* eval_memory.c: reads, writes, atomics, scatters and scratch memory.
 *
 * Scratch is addressed with coordinates of the workgroup's tile; accesses outside it are dropped,
 * and reading what was never written is an error. */
#include "backend/eval/eval.h"
#include "backend/eval/scalar.h"
#include "base/failures.h"
#include "ir/ops/access.h"
#include "ir/ops/alloc_layout.h"
#include "ir/ops/atomics.h"

/* ---- elements ---- */

static bool load(Eval *ev, const Memory *m, int64_t offset, Tile *t, int64_t e) {
  if (m->written && !m->written[offset])
    return eval_fail(ev, DIAG_E0704, "element %lld of this allocation is used before it is written",
                     (long long)offset);
  uint64_t bits = dtype_load(m->dtype, m->data, offset);
  if (t->f) t->f[e] = dtype_decode(m->dtype, bits);
  else t->i[e] = dtype_wrap(m->dtype, (int64_t)bits);
  return true;
}

static void store(Eval *ev, Memory *m, int64_t offset, const Tile *t, int64_t e) {
  uint64_t bits = t->f ? dtype_encode(m->dtype, t->f[e]) : dtype_int_bits(m->dtype, t->i[e]);
  if (m->written && !m->written[offset]) m->written[offset] = 1, ev->changes++;
  bool same = dtype_load(m->dtype, m->data, offset) == bits;
  dtype_store(m->dtype, m->data, offset, bits); /* a bool that holds 77 becomes 1 */
  if (!same) ev->changes++;
}

bool memory_write(Eval *ev, Memory *m, const int64_t *offsets, const Tile *value) {
  if (!offsets) return false;
  EACH_ELEMENT(ev, e, 0, box_count(&value->box))
    if (offsets[e] != EVAL_INACTIVE) store(ev, m, offsets[e], value, e);
  return true;
}

/* ---- accesses ---- */

typedef enum Orientation {
  MEMORY_IS_INPUT, /* reads and atomics: the register has the mapping's outputs */
  MEMORY_IS_OUTPUT /* writes and scatters */
} Orientation;

/* `memory` is operand number `at`; dynamic values follow it. */
static Access open_access(Eval *ev, const Op *op, int at, const Box *box, Orientation orientation) {
  const Memory *m = ev->values[op->args[at]->id].memory;
  const Attr *mapping = op_attr(op, ATTR_mapping);
  Access a = {.op = op, .box = box, .memory = m, .local = m->written != NULL, .replaced = -1};
  a.test_extents = !a.local;
  a.dynamic = op->args + at + 1;
  a.ndynamic = op->nargs - at - 1;
  if (!mapping) return a;
  a.mapping = mapping->mapping;
  a.coords = orientation == MEMORY_IS_INPUT ? a.mapping->inputs : a.mapping->outputs;
  a.iterated = orientation == MEMORY_IS_INPUT ? a.mapping->outputs : a.mapping->inputs;
  return a;
}

/* The slot of a ring that the op names. */
static Memory *memory_slot(Eval *ev, const Op *op, Memory *m) {
  const Attr *slot = op_attr(op, ATTR_slot);
  int64_t n = 0;
  if (slot && !expr_value(ev, slot->sym, &n)) return NULL;
  if (n < 0 || n >= m->slots) {
    eval_fail(ev, DIAG_E0706, "slot %lld of a ring of %d", (long long)n, m->slots);
    return NULL;
  }
  Memory *view = arena_copy(ev->arena, m, sizeof *m);
  view->data = (unsigned char *)m->data + dtype_bytes(m->dtype, n * m->slot_elements);
  view->written = m->written + n * m->slot_elements;
  return view;
}

/* NULL after reporting. */
static Memory *memory_arg(Eval *ev, const Op *op, int i) {
  Memory *m = ev->values[op->args[i]->id].memory;
  return m->slots > 1 ? memory_slot(ev, op, m) : m;
}

/* The result of a read outside the memory. */
static Tile *outside(Eval *ev, const Op *op, const Box *box) {
  const Attr *other = op_attr(op, ATTR_other);
  DType t = op->results[0].type->dtype;
  if (!other) return tile_new(ev, t, box);
  Op fill = {.kind = OP_fill, .results = op->results, .nresults = 1, .nattrs = 1};
  Attr value = *other;
  value.key = ATTR_value;
  fill.attrs = &value;
  return compute_fill(ev, &fill, box);
}

bool run_read(Eval *ev, Op *op) {
  Box box;
  if (!position_box(ev, op->results[0].type, &box)) return false;
  Access a = open_access(ev, op, 0, &box, MEMORY_IS_INPUT);
  const Memory *m = memory_arg(ev, op, 0);
  const int64_t *offsets = m ? access_offsets(ev, &a) : NULL;
  if (!offsets) return false;
  Tile *t = outside(ev, op, &box);
  EACH_ELEMENT(ev, e, 0, t ? box_count(&box) : 0)
    if (offsets[e] != EVAL_INACTIVE && !load(ev, m, offsets[e], t, e)) return false;
  ev->values[op->results[0].id].tile = t;
  return t != NULL;
}

/* It changes nothing, but its tile must have a position. */
bool run_prefetch(Eval *ev, Op *op) {
  Box box;
  return position_box(ev, op->args[0]->type, &box);
}

bool run_inside(Eval *ev, Op *op) {
  Box box;
  if (!position_box(ev, op->results[0].type, &box)) return false;
  Access a = open_access(ev, op, 0, &box, MEMORY_IS_INPUT);
  const int64_t *offsets = access_offsets(ev, &a);
  if (!offsets) return false;
  Tile *t = tile_new(ev, DTYPE_i1, &box);
  EACH_ELEMENT(ev, e, 0, box_count(&box)) t->i[e] = offsets[e] != EVAL_INACTIVE;
  ev->values[op->results[0].id].tile = t;
  return true;
}

/* The elements that a write or an atomic covers: this workgroup's tile along dims that its register
 * lacks. */
static bool spread_box(Eval *ev, const Op *op, Box *out) {
  return position_box(ev, access_spread(ev->cx, op), out);
}

bool run_write(Eval *ev, Op *op) {
  Box box;
  Memory *m = memory_arg(ev, op, 1);
  if (!m || !spread_box(ev, op, &box)) return false;
  Tile *value = tile_at(ev, op->args[0], &box);
  if (!value) return false;
  Access a = open_access(ev, op, 1, &box, MEMORY_IS_OUTPUT);
  a.made = &value->box;
  if (op_has(op, ATTR_peer)) return gang_write(ev, &a, tile_convert(ev, value, m->dtype));
  return memory_write(ev, m, access_offsets(ev, &a), tile_convert(ev, value, m->dtype));
}

/* ---- copies ---- */

/* The coordinates of the workgroup's tile of a memory. */
static bool tile_of_memory(Eval *ev, const Memory *m, Box *out) {
  int64_t all = 1;
  out->rank = m->rank;
  for (int i = 0; i < m->rank; i++) {
    if (!position_axis(ev, m->dims[i], &out->axis[i])) return false;
    int64_t n = out->axis[i].n;
    if (n > 0 && all > TILE_MOST / n)
      return eval_fail(ev, DIAG_E0706, "a workgroup's tile of `%s` has more than %d elements",
                       m->name, TILE_MOST);
    all *= n;
  }
  return true;
}

/* A read and a write at once. The op's attributes apply to the argument's side; the allocation is
 * addressed by name. */
bool run_copy(Eval *ev, Op *op) {
  static const Op by_name;
  Memory *from = memory_arg(ev, op, 0), *to = memory_arg(ev, op, 1);
  if (!from || !to) return false;
  bool in = to->written != NULL;
  Box box;
  if (!tile_of_memory(ev, in ? to : from, &box)) return false;
  Access a = open_access(ev, op, in ? 0 : 1, &box, in ? MEMORY_IS_INPUT : MEMORY_IS_OUTPUT);
  a.dynamic = op->args + 2;
  a.ndynamic = copy_barriers(op) ? 0 : op->nargs - 2;
  Access local = {
      .op = &by_name, .box = &box, .memory = in ? to : from, .local = true, .replaced = -1};
  const int64_t *source = access_offsets(ev, in ? &a : &local);
  const int64_t *target = source ? access_offsets(ev, in ? &local : &a) : NULL;
  if (!target) return false;
  Tile *t = tile_new(ev, from->dtype, &box);
  EACH_ELEMENT(ev, e, 0, box_count(&box))
    if (source[e] != EVAL_INACTIVE && !load(ev, from, source[e], t, e)) return false;
  return memory_write(ev, to, target, t);
}

/* ---- read-modify-write ---- */

/* Whether two elements have the same bits. */
static bool same_bits(const Tile *a, const Tile *b, int64_t e) {
  if (!a->f) return a->i[e] == b->i[e];
  return dtype_encode(a->dtype, a->f[e]) == dtype_encode(b->dtype, b->f[e]);
}

/* Combines element e of `value` with the memory; the previous content is left in `old`. With
 * `expected`, memory that holds something else is unchanged. */
static bool update(Eval *ev, Memory *m, int64_t offset, OpKind kind, const Tile *value,
                   const Tile *expected, Tile *old, Tile *next, int64_t e) {
  if (!load(ev, m, offset, old, e)) return false;
  if (expected && !same_bits(old, expected, e)) return true;
  OpKind combine = atomic_mode(kind).combine;
  if (next->f && combine != OP_COUNT)
    next->f[e] = dtype_round(next->dtype, scalar_fn[combine].f2(old->f[e], value->f[e]));
  else if (next->f) next->f[e] = value->f[e];
  else if (combine != OP_COUNT)
    next->i[e] = scalar_ints(combine, value->dtype)(old->i[e], value->i[e]);
  else next->i[e] = value->i[e];
  store(ev, m, offset, next, e);
  return true;
}

/* Every element once, in row-major order: updates to the same address accumulate. */
static bool update_all(Eval *ev, Memory *m, const int64_t *offsets, OpKind kind, const Tile *value,
                       const Tile *expected, Tile *old) {
  if (!m || !offsets) return false;
  Tile *next = tile_new(ev, value->dtype, &value->box);
  EACH_ELEMENT(ev, e, 0, box_count(&value->box))
    if (offsets[e] != EVAL_INACTIVE &&
        !update(ev, m, offsets[e], kind, value, expected, old, next, e))
      return false;
  return true;
}

/* An atomic that acts once, or several times, per thread that holds an element cannot be expressed
 * on tiles. */
static bool acts_by_tile(Eval *ev, const Op *op) {
  if (atomic_by(op) == ATOMIC_BY_OWNER) return true;
  return eval_fail(ev, DIAG_E0701, "`%s` is applied once by each %s that holds an element%s",
                   op_info[op->kind].name, atomic_by(op) == ATOMIC_BY_WAVE ? "wave" : "thread",
                   op_has(op, ATTR_ept) ? ": it specifies the elements per thread" : "");
}

/* There is no single result if there are several old values. */
static bool has_one_result(Eval *ev, const Op *op, const Box *box) {
  const Type *t = op->results[0].type;
  for (int i = t->rank; i < box->rank; i++) {
    if (box->axis[i].n == 1 || !value_is_used(ev->k, &op->results[0])) continue;
    eval_fail(ev, DIAG_E0304,
              "the result of `%s` lacks dimension `%s`, along which the tile has %lld elements",
              op_info[op->kind].name, eval_text(ev, box->axis[i].dim), (long long)box->axis[i].n);
    eval_hint(ev, "`broadcast` the register to all dimensions of the memory");
    return false;
  }
  return true;
}

bool run_atomic(Eval *ev, Op *op) {
  Box box;
  if (!acts_by_tile(ev, op)) return false;
  if (!spread_box(ev, op, &box) || !has_one_result(ev, op, &box)) return false;
  int first = atomic_operands(op->kind);
  Tile *value = tile_at(ev, op->args[0], &box);
  Tile *expected = value && first > 2 ? tile_at(ev, op->args[2], &box) : NULL;
  if (!value || (first > 2 && !expected)) return false;
  Access a = open_access(ev, op, 1, &box, MEMORY_IS_INPUT);
  a.made = &value->box;
  a.dynamic = op->args + first;
  a.ndynamic = op->nargs - first;
  a.test_extents = true; /* an element that does not exist adds nothing, whatever its address */
  Tile *old = tile_new(ev, value->dtype, &box);
  Tile *result = arena_copy(ev->arena, old, sizeof *old);
  result->box.rank = op->results[0].type->rank; /* the others have one element */
  ev->values[op->results[0].id].tile = result;
  return update_all(ev, memory_arg(ev, op, 1), access_offsets(ev, &a), op->kind, value, expected,
                    old);
}

bool run_scatter(Eval *ev, Op *op) {
  Box box;
  if (!acts_by_tile(ev, op)) return false;
  if (!position_box(ev, op->args[0]->type, &box)) return false;
  Tile *value = tile_at(ev, op->args[0], &box);
  Tile *index = value ? tile_at(ev, op->args[1], &box) : NULL;
  if (!index) return false;
  Access a = open_access(ev, op, 2, &box, MEMORY_IS_OUTPUT);
  a.made = &value->box;
  a.test_extents = true;
  a.replaced = (int)op_attr(op, ATTR_pos)->integer;
  a.replacement = index;
  Tile *old = tile_new(ev, value->dtype, &box);
  return update_all(ev, memory_arg(ev, op, 2), access_offsets(ev, &a), op->kind, value, NULL, old);
}

/* ---- reports ---- */

static int64_t *word_at(const Memory *m, int64_t offset) { return (int64_t *)m->data + offset; }

/* Counts the failure, and describes it if there is a row left. */
static void report_one(const Memory *m, int64_t table, Tile *const *words, int n, int64_t e) {
  int64_t row = ++*word_at(m, table);
  for (int i = 0; row < FAILURE_ROWS && i < n; i++)
    *word_at(m, table + row * FAILURE_COLUMNS + i) = words[i]->i[e];
}

bool run_report(Eval *ev, Op *op) {
  Box box;
  Tile *words[FAILURE_COLUMNS];
  if (!acts_by_tile(ev, op) || !position_box(ev, op->args[0]->type, &box)) return false;
  Tile *cond = tile_at(ev, op->args[0], &box);
  for (int i = 2; cond && i < op->nargs; i++)
    if (!(words[i - 2] = tile_at(ev, op->args[i], &box))) return false;
  Access a = open_access(ev, op, 1, &box, MEMORY_IS_INPUT);
  a.made = cond ? &cond->box : NULL;
  a.test_extents = true;
  a.ndynamic = 0;
  const int64_t *offsets = cond ? access_offsets(ev, &a) : NULL;
  const Memory *m = memory_arg(ev, op, 1);
  EACH_ELEMENT(ev, e, 0, m && offsets ? box_count(&box) : 0) {
    if (offsets[e] == EVAL_INACTIVE || cond->i[e]) continue;
    if (offsets[e] + FAILURE_WORDS > m->size[0])
      return eval_fail(ev, DIAG_E0703, "the table of `report` is outside `%s`", m->name);
    report_one(m, offsets[e], words, op->nargs - 2, e);
  }
  return m && offsets;
}

/* ---- scratch ---- */

/* The declared extents, else those of the workgroup's tile. */
static bool scratch_sizes(Eval *ev, const Op *op, Memory *m) {
  const Type *t = op->results[0].type;
  for (int i = 0; i < t->rank; i++) {
    const Sym *given = alloc_extent(ev->k, op, i);
    Axis here;
    if (given ? !expr_value(ev, given, &m->size[i]) : !position_axis(ev, t->dims[i], &here))
      return false;
    if (!given) m->size[i] = here.n;
    if (m->size[i] < 0)
      return eval_fail(ev, DIAG_E0706, "the allocation has %lld elements along `%s`",
                       (long long)m->size[i], eval_text(ev, t->dims[i]));
  }
  return true;
}

static bool scratch_strides(Eval *ev, Memory *m) {
  int64_t n = 1;
  for (int i = m->rank - 1; i >= 0; i--) {
    m->stride[i] = n;
    if (n && m->size[i] > TILE_MOST / n / m->slots)
      return eval_fail(ev, DIAG_E0706, "the allocation has more than %d elements", TILE_MOST);
    n *= m->size[i];
  }
  m->slot_elements = n + n % 2; /* whole bytes of four-bit elements */
  return true;
}

/* One allocation per workgroup, however often the op is reached. */
bool run_alloc(Eval *ev, Op *op) {
  const Type *t = op->results[0].type;
  Memory *m = ev->scratch[op->id];
  if (!m) {
    m = ARENA_NEW(ev->group, Memory);
    *m = (Memory){.name = "scratch", .dims = t->dims, .dtype = t->dtype, .rank = t->rank};
    if (!scratch_sizes(ev, op, m)) return false;
    m->slots = alloc_slots(op);
    if (!scratch_strides(ev, m)) return false;
    int64_t n = m->slot_elements * m->slots;
    m->data = arena_alloc(ev->group, dtype_bytes(t->dtype, n) + 1);
    m->written = arena_alloc(ev->group, (size_t)n + 1);
    ev->scratch[op->id] = m;
  }
  ev->values[op->results[0].id].memory = m;
  return true;
}
