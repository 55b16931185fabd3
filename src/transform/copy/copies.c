/* copies: decides how staged tiles are laid out in shared memory, and how copies fill them.
 *
 *     %s = alloc {physical = [64, 64]}       %s = alloc {physical = [64, 64], memory = ... xor ...}
 *     copy %a, %s                      =>    copy %a, %s {mode = async}
 *     %x = read %s : ... @ ...               %x = read %s : ... @ ...
 *
 * An allocation is laid out by counting: every layout of banks.h is judged by what all reads,
 * writes and copies of it cost, each weighted by its trip count, within the shared memory that the
 * other allocations leave. Operands that a matrix instruction reads from shared memory get a
 * swizzle that it supports: the widest of 128, 64 and 32 bytes that divides a row and the part that
 * one instruction reads, in boxes of that width if a row is longer; pieces of 16 bytes without a
 * swizzle if none does (descriptor.h).
 *
 * copy_mode decides how a copy is done. Both choices are remarks. The copies of a region are moved
 * next to each other, so that one barrier serves them all. Allocations that the author laid out, or
 * that a loop carries, are left alone.
 *
 * Needs DISTRIBUTE, BOUNDS, MEMORY; breaks what counts ops. Does nothing without a target or before
 * layouts. */
#include "analysis/memory_uses.h"
#include "target/banks.h"
#include "target/descriptor.h"
#include "target/matrices.h"
#include "transform/copy/copy_mode.h"
#include "transform/copy/copy_order.h"
#include "transform/copy/copy_plan.h"

/* A narrower asynchronous copy issues more accesses to global memory. */
enum { UNKNOWN_TRIPS = 16, MOST_WEIGHT = 1 << 12, ISSUE = 1, ISSUE_ASYNC = 8 };

typedef struct Copies {
  Kernel *k;
  Arena *arena;
  const Distribution *d;
  const MemoryUses *m;
  const AccessBounds *const *bounds;
  const Machine *machine;
  CopyModes modes;
} Copies;

/* ---- what an access does ---- */

/* One access to the allocation: which lane touches what, `vector` elements at a time. */
typedef struct Visit {
  Layout layout;
  int vector;
  int axis[LAYOUT_DIMS]; /* for each dim of the allocation, the dim of the layout; -1: it stays
                          * at 0 */
  const CopyOrder *order;
  int matrix;   /* bytes of a matrix's row that a lane addresses; 0: it reads its own elements */
  int issue;    /* cost of an access besides the banks */
  int *element; /* by step and lane: its row-major index, or -1 */
  int lanes;
} Visit;

static int visit_element(const void *cx, int step, int lane) {
  const Visit *v = cx;
  return v->element[step * v->lanes + lane];
}

static int element_at(const Visit *v, const int coord[LAYOUT_DIMS]) {
  int number = 0;
  if (layout_number(&v->layout, coord) < 0) return -1;
  for (int i = 0; i < v->order->n; i++) {
    const Digit *digit = &v->order->at[i];
    int at = v->axis[digit->dim] >= 0 ? coord[v->axis[digit->dim]] : 0;
    if (at >= v->order->extent[digit->dim]) return -1;
    number = number * digit->radix + at / digit->stride % digit->radix;
  }
  return number;
}

/* Computed once for all layouts that are judged. */
static void find_elements(Copies *c, Visit *v, int steps) {
  int(*lane_at)[LAYOUT_DIMS] = arena_alloc(c->arena, sizeof *lane_at * (size_t)v->lanes);
  v->element = ARENA_ARRAY(c->arena, int, steps * v->lanes);
  for (int lane = 0; lane < v->lanes; lane++) layout_at(&v->layout, 0, lane, 0, lane_at[lane]);
  for (int step = 0; step < steps; step++) {
    int first[LAYOUT_DIMS], coord[LAYOUT_DIMS];
    layout_at(&v->layout, step * v->vector, 0, 0, first);
    for (int lane = 0; lane < v->lanes; lane++) {
      for (int d = 0; d < LAYOUT_DIMS; d++) coord[d] = first[d] + lane_at[lane][d];
      v->element[step * v->lanes + lane] = element_at(v, coord);
    }
  }
}

static int trips_of(const Copies *c, const Op *op) {
  int64_t all = 1, n;
  for (const Op *loop = op->parent->owner; loop; loop = loop->parent->owner) {
    if (loop->kind == OP_if) continue;
    const Sym *trips = loop->kind == OP_for ? distribute_trips(c->d, loop) : NULL;
    if (!trips || !sym_is_int(trips, &n) || n < 1) n = UNKNOWN_TRIPS;
    all *= n < MOST_WEIGHT ? n : MOST_WEIGHT;
    if (all > MOST_WEIGHT) return MOST_WEIGHT;
  }
  return (int)all;
}

/* Rows of matrices: each lane addresses one, and each instruction is a step. */
static bool visit_matrices(const Copies *c, int bits, Visit *v) {
  MatrixPlan plan;
  int along = v->axis[v->order->inner];
  if (along < 0 || !matrix_plan(c->machine->target, &v->layout, bits, along, &plan)) return false;
  v->layout = plan.rows;
  v->matrix = plan.form ? plan.form->row / 8 : MATRIX_ROW_BITS / 8;
  return true;
}

/* The layout with which an op accesses an allocation by name; false: unknown. */
static bool visit_of(Copies *c, const MemoryUse *use, int bits, const CopyOrder *o, Visit *out) {
  const Op *op = use->op;
  const Type *tile, *memory = c->m->memories.at[use->memory]->type;
  CopyPlan plan;
  *out = (Visit){.order = o, .issue = ISSUE};
  if (op->kind == OP_copy) {
    if (!copy_plan(c->d, c->machine, c->bounds[op->id], &plan)) return false;
    out->layout = plan.layout;
    if (!copy_why_not_async(&c->modes, op, &plan)) out->issue = ISSUE_ASYNC;
    tile = memory;
  } else {
    const Value *v = op->kind == OP_read ? &op->results[0] : op->args[0];
    if (op_has(op, ATTR_mapping) || !v->layout || op->kind == OP_scatter_add) return false;
    out->layout = *v->layout;
    tile = v->type;
  }
  for (int d = 0; d < memory->rank; d++) {
    out->axis[d] = -1;
    for (int i = 0; i < tile->rank; i++)
      if (dim_base(tile->dims[i]) == dim_base(memory->dims[d])) out->axis[d] = i;
  }
  bool by_columns = op->kind != OP_copy && o->inner != memory->rank - 1;
  return !by_columns || visit_matrices(c, bits, out);
}

/* LLVM joins two reads of 8 bytes, which are then served like stores, by fewer banks. */
static bool is_joined(const Copies *c, const Visit *v, int bytes) {
  return c->machine->target->wide && bytes == 8 && !v->matrix;
}

/* Patterns of all uses, with accesses of at most `bytes`; -1: one of them cannot be judged. */
static int find_patterns(Copies *c, int memory, int bits, const CopyOrder *o, int bytes,
                         BankPattern *out) {
  int n = 0;
  for (int i = 0; i < c->m->uses.n; i++) {
    const MemoryUse *use = &c->m->uses.at[i];
    Visit *v = ARENA_NEW(c->arena, Visit);
    if (use->memory != memory) continue;
    if (!visit_of(c, use, bits, o, v)) return -1;
    int inner = v->axis[o->inner];
    v->vector = inner >= 0 && !v->matrix ? layout_vector(&v->layout, inner, bits, bytes) : 1;
    int each = v->matrix ? v->matrix : v->vector * bits / 8;
    if (each < 1) return -1;
    int steps = layout_size(&v->layout, LAYOUT_REG) / v->vector;
    v->lanes = c->machine->lanes;
    find_elements(c, v, steps);
    out[n++] = (BankPattern){.element = visit_element,
                             .cx = v,
                             .steps = steps,
                             .lanes = v->lanes,
                             .bytes = each,
                             .is_read = use->how == TOUCH_READ && !is_joined(c, v, each),
                             .weight = trips_of(c, use->op)};
  }
  return n;
}

/* ---- shared operands of matrix instructions ---- */

/* The dim along which the tensor copied there is contiguous; -1: there is no such copy. */
static int contiguous_dim(const Copies *c, int memory) {
  for (int i = 0; i < c->m->uses.n; i++) {
    const MemoryUse *use = &c->m->uses.at[i];
    if (use->memory == memory && use->op->kind == OP_copy && use->how == TOUCH_WRITE)
      return c->bounds[use->op->id]->piece_axis;
  }
  return -1;
}

typedef Vec(DescriptorTile) Operands;

/* The tile as the product reads it; false: unknown. */
static bool operand_of(Copies *c, Op *mma, int memory, const MemLayout *rows, DescriptorTile *out) {
  const Type *t = c->m->memories.at[memory]->type;
  MmaDivision div;
  if (!anchor_mma_division(c->d, c->machine, c->arena, mma, &div)) return false;
  int m = type_base_dim(t, div.m);
  *out = (DescriptorTile){.dims = rows->dims, .bits = rows->bits, .k_dim = type_base_dim(t, div.k)};
  out->row_dim = m >= 0 ? m : type_base_dim(t, div.n);
  out->rows = m >= 0 ? div.row->m : div.row->n;
  out->k = div.row->k;
  for (int i = 0; i < rows->dims; i++) out->extent[i] = rows->extent[i];
  return out->k_dim >= 0 && out->row_dim >= 0;
}

/* The same for all products whose instructions read the allocation directly. */
static bool find_operands(Copies *c, int memory, const MemLayout *rows, Operands *out) {
  for (Op *op = ir_first(c->k); op; op = ir_next(op)) {
    DescriptorTile tile;
    if (!anchor_takes_from(op, c->m->memories.at[memory])) continue;
    if (!operand_of(c, op, memory, rows, &tile)) return false;
    vec_push(c->arena, out, tile);
  }
  return true;
}

static bool lay_out_along(Operands *o, int inner, MemLayout *out) {
  for (int i = 0; i < o->n; i++) o->at[i].inner = inner;
  return descriptor_layout(o->at, o->n, out);
}

/* Contiguous like the tensor, so that many bytes are copied at once, if the instructions can read
 * it that way. */
static bool lay_out_operand(Copies *c, Operands *o, int memory, MemLayout *out) {
  int inner = contiguous_dim(c, memory);
  return (inner >= 0 && lay_out_along(o, inner, out)) || lay_out_along(o, o->at->dims - 1, out);
}

/* Swizzled boxes with rows along dim `inner`, with the widest swizzle that divides the rows. */
static bool swizzled_boxes(const Copies *c, const MemLayout *rows, int inner, MemLayout *out) {
  if (distribute_is_off(c->d, CONSTRAINT_swizzle)) return false;
  for (int span = 128; span >= 32; span /= 2) {
    if (rows->extent[inner] * rows->bits % (span * 8)) continue;
    *out = descriptor_boxes(rows->dims, rows->extent, rows->bits, inner, span);
    return true;
  }
  return false;
}

/* ---- fragments that are read by columns ---- */

/* All reads fill their fragments with ldmatrix with dim `inner` contiguous, and only copies
 * write. */
static bool reads_by_columns(const Copies *c, int memory, int bits, int inner) {
  const Type *t = c->m->memories.at[memory]->type;
  for (int i = 0; i < c->m->uses.n; i++) {
    const MemoryUse *use = &c->m->uses.at[i];
    MatrixPlan plan;
    if (use->memory != memory || use->op->kind == OP_copy) continue;
    const Value *v = use->op->kind == OP_read ? &use->op->results[0] : NULL;
    if (!v || op_has(use->op, ATTR_mapping) || !v->layout || v->type->rank != t->rank) return false;
    for (int d = 0; d < t->rank; d++)
      if (v->type->dims[d] != t->dims[d]) return false;
    if (!matrix_plan(c->machine->target, v->layout, bits, inner, &plan) || !plan.transposed)
      return false;
  }
  return true;
}

/* A tensor that is contiguous along another dim than its tile is stored as it is, so that many
 * bytes are copied at once: ldmatrix transposes what it reads. Returns the dim that is then
 * contiguous. */
static int inner_dim(const Copies *c, int memory, const MemLayout *rows) {
  int inner = contiguous_dim(c, memory), last = rows->dims - 1;
  if (!matrix_is_read(c->machine->target) || inner < 0 || inner == last) return last;
  return reads_by_columns(c, memory, rows->bits, inner) ? inner : last;
}

/* As a copy engine delivers them. */
static bool lay_out_boxes(const Copies *c, const MemLayout *rows, int inner, MemLayout *out) {
  return target_has(c->machine->target, FEATURE_LDMATRIX) && swizzled_boxes(c, rows, inner, out);
}

/* ---- allocations ---- */

/* Cycles of the banks, plus the cost of issuing each access. */
static int64_t cost_of(const BankTile *tile, const BankChoice *choice) {
  int64_t cost = choice->cycles;
  for (int i = 0; i < tile->npatterns; i++) {
    const Visit *v = tile->patterns[i].cx;
    cost += (int64_t)tile->patterns[i].steps * tile->patterns[i].weight * v->issue;
  }
  return cost;
}

/* The cheapest layout; if a copy engine cannot fill it, boxes that cost no more. */
static BankChoice choose_layout(const Copies *c, const BankTile *tile, const MemLayout *rows) {
  const TargetInfo *t = c->machine->target;
  BankChoice best = bank_choose(t, tile), boxes;
  MemLayout swizzled;
  bool fillable = descriptor_span(&best.layout) >= 0 && best.bytes == mem_bytes(rows);
  if (!best.found || fillable || !target_has(t, FEATURE_TMA)) return best;
  if (!swizzled_boxes(c, rows, rows->dims - 1, &swizzled)) return best;
  boxes = bank_judge(t, tile, &swizzled);
  return boxes.found && cost_of(tile, &boxes) <= cost_of(tile, &best) ? boxes : best;
}

/* Tries the widest accesses first. Narrower ones may be cheaper: keeping more elements together
 * spreads fewer of them over the banks. */
static bool lay_out_by_banks(Copies *c, Op *alloc, int memory, const MemLayout *natural,
                             const CopyOrder *order, BankChoice *best, BankChoice *plain) {
  MemLayout ordered = copy_order_rows(order, natural->bits);
  const MemLayout *rows = &ordered;
  BankTile tile = {.dims = rows->dims, .bits = rows->bits};
  tile.is_plain = distribute_is_off(c->d, CONSTRAINT_swizzle);
  BankPattern *patterns = ARENA_ARRAY(c->arena, BankPattern, c->m->uses.n + 1);
  int64_t slots = alloc_slots(alloc), own = mem_bytes(rows), least = 0;
  tile.budget = (c->machine->target->shared_most - alloc_bytes_beside(c->k, alloc)) / slots;
  tile.is_dense = copy_wants_direct(&c->modes);
  if (tile.budget < own) tile.budget = own;
  for (int d = 0; d < rows->dims; d++) tile.extent[d] = rows->extent[d];
  tile.patterns = patterns;
  best->found = plain->found = false;
  for (int bytes = c->machine->target->shared_access; bytes >= 1; bytes /= 2) {
    if (best->found && (best->conflicts == 0 || bytes < BANK_BYTES)) break;
    tile.npatterns = find_patterns(c, memory, rows->bits, order, bytes, patterns);
    if (tile.npatterns < 1) return false;
    BankChoice choice = choose_layout(c, &tile, rows);
    int64_t cost = cost_of(&tile, &choice);
    if (!plain->found) *plain = bank_judge(c->machine->target, &tile, rows);
    if (choice.found && (!best->found || cost < least)) *best = choice, least = cost;
  }
  best->layout = copy_order_undo(order, &best->layout);
  plain->layout = copy_order_undo(order, &plain->layout);
  return best->found;
}

/* The rows that the lanes address in the first read of the allocation. */
static bool find_rows(const Copies *c, int memory, int bits, int inner, Layout *out) {
  MatrixPlan plan;
  for (int i = 0; i < c->m->uses.n; i++) {
    const MemoryUse *use = &c->m->uses.at[i];
    if (use->memory != memory || use->op->kind != OP_read) continue;
    const Layout *l = use->op->results[0].layout;
    return matrix_plan(c->machine->target, l, bits, inner, &plan) && (*out = plan.rows, true);
  }
  return false;
}

/* With dim `inner` contiguous. If that gives conflicts, rows that are read together are stored
 * together, unless copies without registers need them in order. */
static bool lay_out_by_columns(Copies *c, Op *alloc, int memory, const MemLayout *rows, int inner,
                               BankChoice *best, BankChoice *plain) {
  CopyOrder order = copy_order_with(rows, inner);
  BankChoice other, other_plain;
  Layout lanes;
  if (!target_has(c->machine->target, FEATURE_DS_TRANSPOSE)) return false;
  if (!lay_out_by_banks(c, alloc, memory, rows, &order, best, plain)) return false;
  if (!best->conflicts || copy_wants_direct(&c->modes)) return true;
  if (!find_rows(c, memory, rows->bits, inner, &lanes)) return true;
  if (!copy_order_by_lanes(rows, &lanes, inner, &order)) return true;
  bool found = lay_out_by_banks(c, alloc, memory, rows, &order, &other, &other_plain);
  if (found && other.cycles < best->cycles) *best = other;
  return true;
}

static void set_layout(Copies *c, Op *alloc, const MemLayout *m) {
  const MemLayout *copy = arena_copy(c->k->arena, m, sizeof *m);
  op_set_attr(c->k, alloc, (Attr){.key = ATTR_memory, .memory = copy});
}

static const char *layout_text(const Copies *c, const MemLayout *m) {
  StrBuf text = {.arena = c->k->cx->diags.arena};
  mem_print(&text, m);
  return sb_text(&text);
}

static bool is_used_directly(const Copies *c, int memory) {
  const Value *v = c->m->memories.at[memory];
  for (int i = 0; i < c->m->uses.n; i++) {
    const Op *op = c->m->uses.at[i].op;
    bool direct = false;
    for (int a = 0; a < op->nargs; a++)
      direct |= op->args[a] == v || value_is_read_of(op->args[a], v);
    if (c->m->uses.at[i].memory == memory && !direct) return false;
  }
  return true;
}

static void set_operand(Copies *c, Op *alloc, const Value *v, const MemLayout *m) {
  set_layout(c, alloc, m);
  if (m->swizzle.mask) return;
  Diag *d = diag_add(&c->k->cx->diags, DIAG_R0606, alloc->at, "`%s` has the layout %s",
                     memory_name(c->k, v), layout_text(c, m));
  diag_note(&c->k->cx->diags, d, (Span){0},
            "no swizzle: one instruction does not read a multiple of 32 bytes of a row");
}

static void lay_out(Copies *c, int memory) {
  const Value *v = c->m->memories.at[memory];
  Op *alloc = v->def;
  MemLayout rows, swizzled;
  BankChoice best, plain;
  Operands operands = {0};
  if (!alloc || op_has(alloc, ATTR_memory) || !is_used_directly(c, memory)) return;
  if (!copy_slot_layout(c->d, alloc, &rows)) return;
  if (mem_bytes(&rows) > c->machine->target->shared_most) return; /* `allocs` will refuse it */
  if (!find_operands(c, memory, &rows, &operands)) return;
  if (operands.n) {
    if (lay_out_operand(c, &operands, memory, &swizzled)) set_operand(c, alloc, v, &swizzled);
    return;
  }
  int inner = inner_dim(c, memory, &rows), last = rows.dims - 1;
  if (inner != last && lay_out_boxes(c, &rows, inner, &swizzled)) {
    set_layout(c, alloc, &swizzled);
    diag_add(&c->k->cx->diags, DIAG_R0606, alloc->at, "`%s` has the layout %s, like its tensor",
             memory_name(c->k, v), layout_text(c, &swizzled));
    return;
  }
  bool by_columns =
      inner != last && lay_out_by_columns(c, alloc, memory, &rows, inner, &best, &plain);
  CopyOrder natural = copy_order_with(&rows, last);
  if (!by_columns && !lay_out_by_banks(c, alloc, memory, &rows, &natural, &best, &plain)) return;
  if (mem_equal(&best.layout, &rows) && !best.conflicts) return;
  if (!mem_equal(&best.layout, &rows)) set_layout(c, alloc, &best.layout);
  Diag *d = diag_add(&c->k->cx->diags, DIAG_R0606, alloc->at, "`%s` has the layout %s%s",
                     memory_name(c->k, v), layout_text(c, &best.layout),
                     by_columns ? ", like its tensor" : "");
  diag_note(&c->k->cx->diags, d, (Span){0}, "%lld bank conflicts in %lld cycles",
            (long long)best.conflicts, (long long)best.cycles);
  if (plain.found && !mem_equal(&best.layout, &plain.layout))
    diag_note(&c->k->cx->diags, d, (Span){0}, "unpadded rows: %lld conflicts in %lld cycles",
              (long long)plain.conflicts, (long long)plain.cycles);
}

/* ---- order ---- */

/* Whether a copy may move before the previous op: they are independent of each other. */
static bool may_pass(const Op *copy, const Op *before) {
  MemAccess a;
  const Value *to = copy->args[1];
  if (before->body || !(op_is_pure(before) || before->kind == OP_read)) return false;
  if (op_has(before, ATTR_volatile)) return false; /* a flag: what follows must stay after it */
  if (access_of(before, &a) && memory_root(a.memory) == memory_root(to)) return false;
  for (int i = 0; i < before->nresults; i++)
    for (int j = 0; j < copy->nargs; j++)
      if (copy->args[j] == &before->results[i]) return false;
  for (int i = 0; i < before->nargs; i++) /* a product that reads the copy's destination */
    if (value_is_read_of(before->args[i], to)) return false;
  return true;
}

/* Moves the copies of a region next to each other if possible, so that one barrier publishes them
 * all. Their tiles are then live at the same time. */
static void gather(Op *copy) {
  Op *at = copy->prev;
  if (!copy_is_in(copy)) return;
  while (at && at->kind != OP_copy && may_pass(copy, at)) at = at->prev;
  if (!at || at->kind != OP_copy || at == copy->prev || !copy_is_in(at)) return;
  Op *behind = at->next;
  ir_remove(copy);
  ir_insert_before(behind, copy);
}

bool pass_copies(Kernel *k, PassCtx *cx) {
  if (!cx->machine || !cx->target || !ir_has_layouts(k)) return true;
  Copies c = {.k = k, .arena = cx->scratch, .d = cx->facts.distribute};
  c.m = cx->facts.memory_uses;
  c.bounds = cx->facts.in_bounds;
  c.machine = cx->machine;
  c.modes = copy_modes(k, cx);
  for (int i = 0; i < c.m->memories.n; i++) lay_out(&c, i);
  for (Op *op = ir_first(k); op; op = ir_next(op))
    if (op->kind == OP_copy && !op_has(op, ATTR_mode) && !copy_choose_mode(&c.modes, op, NULL))
      return false;
  bool roomy = alloc_bytes_beside(k, NULL) <= cx->target->shared_most;
  for (Op *op = ir_first(k), *next; op; op = next) {
    next = ir_next(op);
    if (op->kind == OP_copy && roomy) gather(op);
  }
  return true;
}
