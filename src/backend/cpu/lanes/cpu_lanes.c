/* cpu_lanes.c: loops over the threads of a workgroup, what threads keep, and phases. */
#include "backend/cpu/lanes/cpu_lanes.h"

#include <inttypes.h>

/* ---- loops ---- */
static CountLoop count_to(Llvm *p, const char *count) {
  CountLoop l = {llvm_new(p),
                 llvm_new(p),
                 llvm_label(p, "each"),
                 llvm_label(p, "next"),
                 llvm_label(p, "through"),
                 count};
  const char *before = p->block;
  llvm_line(p, "br label %%%s", l.head);
  llvm_block(p, l.head);
  llvm_line(p, "%s = phi i64 [ 0, %%%s ], [ %s, %%%s ]", l.index, before, l.next, l.latch);
  return l;
}

CountLoop lanes_count(Llvm *p, int64_t count) {
  return count_to(p, arena_printf(p->arena, "%" PRId64, count));
}

void lanes_count_end(Llvm *p, const CountLoop *l) {
  llvm_line(p, "br label %%%s", l->latch);
  llvm_block(p, l->latch);
  llvm_line(p, "%s = add nuw nsw i64 %s, 1", l->next, l->index);
  const char *more = llvm_let(p, "icmp ult i64 %s, %s", l->next, l->count);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", more, l->head, l->end);
  llvm_block(p, l->end);
}

/* The last wave may have fewer lanes. */
const char *lanes_open_wave(Llvm *p, const char *number) {
  Lanes *l = p->cpu->lanes;
  l->own = l->from = "0";
  l->size = arena_printf(p->arena, "%d", l->threads);
  if (l->apart == 1) return number;
  l->own = llvm_let(p, "urem i64 %s, %d", number, l->apart);
  l->from = llvm_let(p, "mul i64 %s, %d", l->own, l->wave);
  l->size = arena_printf(p->arena, "%d", l->wave);
  if (l->threads % l->wave) {
    const char *rest = llvm_let(p, "sub i64 %d, %s", l->threads, l->from);
    l->size = llvm_call(p, "i64", "llvm.umin.i64", "i64, i64",
                        arena_printf(p->arena, "i64 %s, i64 %d", rest, l->wave));
  }
  return llvm_let(p, "udiv i64 %s, %d", number, l->apart);
}

/* Splits the number of a thread into its three ids, the first fastest. */
static void define_ids(Llvm *p) {
  const Lanes *l = p->cpu->lanes;
  const char *rest = l->thread;
  for (int i = 0; i < 3; i++) {
    const Sym *id = ir_numbered_symbol(p->k->cx, "$T", i, true);
    if (l->block[i] == 1) {
      llvm_define(p, id, index_named("0"));
    } else if (l->block[i] == l->threads) {
      llvm_define(p, id, index_named(l->thread));
    } else {
      llvm_define(p, id, index_named(llvm_let(p, "urem i64 %s, %" PRId64, rest, l->block[i])));
      rest = llvm_let(p, "udiv i64 %s, %" PRId64, rest, l->block[i]);
    }
  }
}

/* Unused ones are removed again by LLVM. */
static void define_symbols(Llvm *p) {
  const Lanes *l = p->cpu->lanes;
  for (int i = 0; i < l->symbols.n; i++) {
    const LaneSymbol *s = &l->symbols.at[i];
    if (s->value) {
      lanes_read(p, s->value);
      llvm_define(p, s->symbol, llvm_number_of(p, s->value));
    } else {
      const char *at = lanes_at(p, s->offset, 8, l->thread);
      llvm_define(p, s->symbol, index_named(llvm_let(p, "load i64, ptr %s, align 8", at)));
    }
  }
}

LaneLoop lanes_open(Llvm *p) {
  Lanes *l = p->cpu->lanes;
  LaneLoop loop = {.mark = llvm_scope_open(p)};
  loop.count = count_to(p, l->size);
  l->thread = loop.count.index;
  if (l->apart > 1) l->thread = llvm_let(p, "add nuw nsw i64 %s, %s", l->from, l->thread);
  l->loops++;
  if (l->mask != LANES_NOWHERE) {
    const char *inside = llvm_label(p, "active"), *at = lanes_at(p, l->mask, 1, l->thread);
    const char *byte = llvm_let(p, "load i8, ptr %s, align 1", at);
    const char *test = llvm_let(p, "icmp ne i8 %s, 0", byte);
    llvm_line(p, "br i1 %s, label %%%s, label %%%s", test, inside, loop.count.latch);
    llvm_block(p, inside);
  }
  define_ids(p);
  define_symbols(p);
  return loop;
}

void lanes_close(Llvm *p, const LaneLoop *l) {
  lanes_count_end(p, &l->count);
  llvm_scope_close(p, l->mark);
}

/* ---- kept values ---- */

int64_t lanes_reserve(Llvm *p, int64_t bytes) {
  enum { ALIGN = 64 };
  int64_t at = (p->cpu->scratch + ALIGN - 1) / ALIGN * ALIGN;
  p->cpu->scratch = at + bytes;
  return at;
}

/* Truth values are stored as bytes. */
static const char *kept_elem(DType t) { return t == DTYPE_i1 ? "i8" : llvm_elem_type(t); }
static int kept_elem_bytes(DType t) { return t == DTYPE_i1 ? 1 : llvm_elem_bits(t) / 8; }

int64_t lanes_bytes(const Type *t) {
  return t->kind == TYPE_mem ? 8 : (int64_t)t->n * kept_elem_bytes(t->dtype);
}

const char *lanes_at(Llvm *p, int64_t offset, int64_t bytes, const char *who) {
  const char *all = llvm_let(p, "getelementptr i8, ptr %%scratch, i64 %" PRId64, offset);
  return llvm_let(p, "getelementptr [%" PRId64 " x i8], ptr %s, i64 %s", bytes, all, who);
}

void lanes_load(Llvm *p, Held *h, const Value *from, const char *who) {
  const char *at = lanes_at(p, p->cpu->lanes->offset[from->id], lanes_bytes(from->type), who);
  if (h->memory) {
    h->base = llvm_let(p, "load ptr, ptr %s, align 8", at);
    return;
  }
  int width = llvm_memory_width(p, h->dtype), bytes = kept_elem_bytes(h->dtype);
  int count = part_count(h->n, width);
  const char **part = ARENA_ARRAY(p->arena, const char *, count), *elem = kept_elem(h->dtype);
  for (int i = 0; i < count; i++) {
    const char *type = llvm_vec_type(p, elem, part_size(h->n, width, i)), *there = at;
    if (i) there = llvm_let(p, "getelementptr %s, ptr %s, i64 %d", elem, at, i * width);
    part[i] = llvm_let(p, "load %s, ptr %s, align %d", type, there, bytes);
    if (h->dtype == DTYPE_i1)
      part[i] = llvm_let(p, "icmp ne %s %s, zeroinitializer", type, part[i]);
  }
  llvm_held_set(p, h, width, part);
}

Held *lanes_read(Llvm *p, const Value *v) {
  Lanes *l = p->cpu->lanes;
  if (l->uniform[v->id] || l->read_in[v->id] == l->loops) return llvm_held_get(p, v);
  l->read_in[v->id] = l->loops;
  Held *h = llvm_held_new(p, v);
  llvm_limit_block(p);
  lanes_load(p, h, v, l->thread);
  return h;
}

void lanes_keep(Llvm *p, Held *h, int64_t offset) {
  int64_t all = h->memory ? 8 : (int64_t)h->n * kept_elem_bytes(h->dtype);
  llvm_limit_block(p);
  const char *at = lanes_at(p, offset, all, p->cpu->lanes->thread);
  if (h->memory) {
    llvm_line(p, "store ptr %s, ptr %s, align 8", h->base, at);
    return;
  }
  int width = llvm_memory_width(p, h->dtype), bytes = kept_elem_bytes(h->dtype);
  const char *const *part = llvm_parts_of(p, h, width);
  const char *elem = kept_elem(h->dtype);
  for (int i = 0; i < part_count(h->n, width); i++) {
    int n = part_size(h->n, width, i);
    const char *type = llvm_vec_type(p, elem, n), *there = at, *v = part[i];
    if (i) there = llvm_let(p, "getelementptr %s, ptr %s, i64 %d", elem, at, i * width);
    if (h->dtype == DTYPE_i1)
      v = llvm_let(p, "zext %s %s to %s", llvm_vec_type(p, "i1", n), v, type);
    llvm_line(p, "store %s %s, ptr %s, align %d", type, v, there, bytes);
  }
}

/* Reads `from` in the type of `to`: the counter of a while loop is an index, whatever integer it
 * starts from. */
static Held *read_for(Llvm *p, const Value *to, const Value *from) {
  Held *h = lanes_read(p, from);
  if (h->memory || to->type->dtype == h->dtype) return h;
  const char *wide = llvm_index_of(p, from);
  Held *index = llvm_held_new(p, to);
  llvm_held_set(p, index, 1, arena_copy(p->arena, &wide, sizeof wide));
  return index;
}

/* All are read before any is written: a loop may exchange the values it carries. */
void lanes_copy(Llvm *p, Value *const *to, Value *const *from, int n) {
  Held **held = ARENA_ARRAY(p->arena, Held *, n + 1);
  if (!n) return;
  LaneLoop loop = lanes_open(p);
  for (int i = 0; i < n; i++) held[i] = read_for(p, to[i], from[i]);
  for (int i = 0; i < n; i++) lanes_keep(p, held[i], p->cpu->lanes->offset[to[i]->id]);
  lanes_close(p, &loop);
}

/* ---- phases ---- */

/* Reads the operands of these ops that other phases made. */
static void read_operands(Llvm *p, const Op *op, int phase) {
  const Lanes *l = p->cpu->lanes;
  bool shuffles = op->kind == OP_shuffle || op->kind == OP_shuffle_idx;
  for (int i = shuffles ? 1 : 0; i < op->nargs; i++) {
    const Value *v = op->args[i];
    bool own = v->def && l->phase[v->def->id] == phase;
    if (!own && l->offset[v->id] != LANES_NOWHERE) lanes_read(p, v);
  }
  for (const Op *in = op->body ? op->body->first : NULL; in; in = in->next)
    read_operands(p, in, phase);
}

static void keep_results(Llvm *p, const Op *op) {
  for (int i = 0; i < op->nresults; i++) {
    const Value *v = &op->results[i];
    int64_t offset = p->cpu->lanes->offset[v->id];
    if (offset != LANES_NOWHERE) lanes_keep(p, llvm_held_get(p, v), offset);
  }
}

/* Ops that a thread cannot do alone. */
static LlvmFn *const lane_writer[OP_COUNT] = {
    [OP_shuffle] = lanes_shuffle, [OP_shuffle_idx] = lanes_shuffle_idx};

bool lanes_writes(OpKind kind) { return lane_writer[kind] != NULL; }

static void write_op(Llvm *p, const Op *op) {
  LlvmFn *fn = lane_writer[op->kind] ? lane_writer[op->kind] : llvm_op;
  fn(p, op);
}

static void run_phase(Llvm *p, const Op *first, const Op *end, int phase) {
  Lanes *l = p->cpu->lanes;
  LaneLoop loop = lanes_open(p);
  for (const Op *op = first; op != end; op = op->next)
    if (l->phase[op->id] == phase) read_operands(p, op, phase);
  for (const Op *op = first; op != end && !p->failed; op = op->next)
    if (l->phase[op->id] == phase) write_op(p, op);
  for (const Op *op = first; op != end && !p->failed; op = op->next)
    if (l->phase[op->id] == phase) keep_results(p, op);
  lanes_close(p, &loop);
  for (const Op *op = first; op != end; op = op->next)
    if (op->kind == OP_set_symbol && l->phase[op->id] == phase)
      vec_push(p->arena, &l->symbols,
               ((LaneSymbol){op_attr(op, ATTR_version)->sym, op->args[0], LANES_NOWHERE}));
}

/* From `first` to the end of its phase, preceded by what is uniform; returns the next op. */
static const Op *run_ops(Llvm *p, const Op *first) {
  const Lanes *l = p->cpu->lanes;
  const Op *end = first;
  int phase = 0;
  for (; end && l->phase[end->id] != LANES_ALONE; end = end->next) {
    int own = l->phase[end->id];
    if (phase && own && own != phase) break;
    if (own) phase = own;
    else llvm_op(p, end);
  }
  if (phase && !p->failed) run_phase(p, first, end, phase);
  return end;
}

void lanes_region(Llvm *p, const Region *r) {
  static LlvmFn *const alone[OP_COUNT] = {[OP_for] = lanes_for,
                                          [OP_while] = lanes_while,
                                          [OP_if] = lanes_if,
                                          [OP_wave_mma] = lanes_mma};
  for (const Op *op = r->first; op && !p->failed;) {
    if (p->cpu->lanes->phase[op->id] != LANES_ALONE) {
      op = run_ops(p, op);
      continue;
    }
    if (alone[op->kind]) alone[op->kind](p, op);
    else if (!cpu_op_waits(op)) llvm_fail(p, op, "this op");
    else if (p->cpu->lanes->apart > 1) lanes_barrier(p, op);
    op = op->next;
  }
}
