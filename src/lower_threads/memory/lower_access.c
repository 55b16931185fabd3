/* lower_access.c: reads and writes of tiles as loads and stores of one lane.
 *
 *     read %a {mask = [$x0 < M]}, 8 registers along the contiguous dim     1 load of vec<8>
 *
 * lower_open.c describes the access, lower_walk.c goes through its registers. */
#include "ir/dtype.h"
#include "ir/schedule/op_parts.h"
#include "lower_threads/memory/lower_walk.h"

/* Registers of other parts are undefined: anything that is there anyway. */
void lane_fill_up(Value **parts, int n) {
  Value *any = NULL;
  for (int i = 0; i < n && !any; i++) any = parts[i];
  for (int i = 0; i < n; i++)
    if (!parts[i]) parts[i] = any;
}

Value *lane_load(Lower *l, const LaneAccess *a) {
  Walk w = walk_begin(l, a, 0);
  int regs = layout_size(a->layout, LAYOUT_REG), n = regs / a->width;
  const int *first = lane_first_twins(l, a->layout);
  DType dtype = a->access->memory->type->dtype;
  Value **parts = ARENA_ARRAY(l->arena, Value *, n);
  for (int i = 0; i < n; i++) {
    int twin = first[i * a->width];
    if (!parts_have(a->op, a->layout, i * a->width, a->width)) continue;
    if (twin < i * a->width && twin % a->width == 0) {
      parts[i] = parts[twin / a->width];
      continue;
    }
    WalkStep s = walk_step(&w, i * a->width);
    parts[i] = emit_op(l, OP_load, s.args + 1, s.nargs, s.attrs, s.nattrs,
                       type_vec(l->k->cx, a->width, dtype));
  }
  lane_fill_up(parts, n);
  return emit_join(l, parts, n);
}

LaneOffset *lane_offsets(Lower *l, const LaneAccess *a) {
  Walk w = walk_begin(l, a, 0);
  int n = layout_size(a->layout, LAYOUT_REG);
  LaneOffset *all = ARENA_ARRAY(l->arena, LaneOffset, n);
  for (int i = 0; i < n; i++) {
    Attr imm = {.key = ATTR_imm};
    walk_to(&w, i);
    all[i].base = walk_offset(&w, &imm);
    all[i].imm = imm.integer;
  }
  return all;
}

/* One of the threads that hold an element stores it; if that is not known to be safe, each one
 * does. */
static bool first_may_store(const Lower *l, const Op *op) {
  if (!l->machine.observable) return true;
  if (op->kind == OP_write) return uniform_store(l->uniform, op);
  return uniform_around(l->uniform, op).level <= UNIFORM_WORKGROUP;
}

/* The workgroup of the cluster that a lane stores to, if all lanes of a wave hold the same elements;
 * NULL: the lane that stores an element does so for all workgroups. */
static const Sym *peer_of_lane(Lower *l, const LaneAccess *a) {
  int peers = op_peers(a->op);
  const Digits *lanes = &a->layout->part[LAYOUT_LANE];
  bool copies = lanes->n == 1 && !lanes->at[0].stride && lanes->at[0].radix >= peers;
  if (peers < 2 || !copies || layout_wave_copies(a->layout, l->machine.waves) > 1) return NULL;
  return lane_digit(l, a->layout, LAYOUT_LANE, 0);
}

/* To the memory of each workgroup of a cluster, of the one that holds the element, or to this one's. */
static void emit_store(Lower *l, const LaneAccess *a, WalkStep *s) {
  const Sym *peer = peer_of_lane(l, a);
  if (op_has(a->op, ATTR_peer)) {
    emit_op(l, OP_store, s->args, s->nargs + 1, s->attrs, s->nattrs, NULL);
    s->nargs = 0;
    return;
  }
  int peers = op_peers(a->op), stores = peer ? 1 : peers;
  for (int rank = 0; rank < stores; rank++) {
    const Sym *to = peer ? peer : sym_int(l->sym, rank);
    if (peers > 1) s->attrs[s->nattrs] = (Attr){.key = ATTR_peer, .sym = to};
    emit_op(l, OP_store, s->args, s->nargs + 1, s->attrs, s->nattrs + (peers > 1), NULL);
  }
  s->nargs = 0;
}

/* Stores that differ by an immediate only follow each other: one instruction may perform two. */
static void emit_grouped(Lower *l, const LaneAccess *a, WalkStep *s, int n) {
  for (int i = 0; i < n; i++) {
    const Value *base = s[i].args[2];
    for (int j = i; j < n; j++)
      if (s[j].nargs && s[j].args[2] == base) emit_store(l, a, &s[j]);
  }
}

/* The stores of a copy to shared memory are to different elements: their order does not matter. */
static bool may_group(const LaneAccess *a) {
  return memory_is_scratch(a->memory) && (a->op->kind == OP_copy || op_has(a->op, ATTR_iteration));
}

void lane_store(Lower *l, const LaneAccess *a, Value *v) {
  Walk w = walk_begin(l, a, first_may_store(l, a->op) ? l->machine.waves : 0);
  const Sym *peer = peer_of_lane(l, a);
  if (peer) w.owner = emit_cheaper(l, sym_lt(l->sym, peer, sym_int(l->sym, op_peers(a->op))));
  int regs = layout_size(a->layout, LAYOUT_REG), n = 0;
  const int *first = lane_first_twins(l, a->layout);
  WalkStep *later = ARENA_ARRAY(l->arena, WalkStep, regs / a->width);
  const Sym *rank = access_peer(a->access, &l->standing);
  TileForm *to = rank ? form_of(l, sym_floor(l->sym, rank), a->layout) : NULL;
  for (int r = 0; r < regs; r += a->width) {
    if (!parts_have(a->op, a->layout, r, a->width)) continue;
    if (w.nseveral ? walk_is_idle(&w, r) : first[r] < r) continue;
    WalkStep s = walk_step(&w, r);
    s.args[0] = emit_range(l, v, r, a->width);
    const Sym *at = to ? emit_at_entry(l, form_at(l, to, a->x, r)) : NULL;
    if (at) s.attrs[s.nattrs++] = (Attr){.key = ATTR_peer, .sym = at};
    if (may_group(a)) later[n++] = s;
    else emit_store(l, a, &s);
  }
  emit_grouped(l, a, later, n);
}

void lane_copy_async(Lower *l, const LaneAccess *to, const LaneAccess *from) {
  Walk dst = walk_begin(l, to, 0), src = walk_begin(l, from, 0);
  int regs = layout_size(to->layout, LAYOUT_REG);
  int bytes = to->width * dtype_memory_bits(to->memory->type->dtype) / 8;
  for (int r = 0; r < regs; r += to->width) {
    Attr into = {.key = ATTR_imm}, out_of = {.key = ATTR_imm_from}, attrs[5];
    int n = 0;
    if (!parts_have(from->op, from->layout, r, to->width)) continue;
    walk_to(&dst, r), walk_to(&src, r);
    Value *args[5] = {to->memory, walk_offset(&dst, &into), from->memory,
                      walk_offset(&src, &out_of)};
    args[4] = walk_mask(&src, r);
    attrs[n++] = (Attr){.key = ATTR_bytes, .sym = sym_int(l->sym, bytes)};
    if (into.integer) attrs[n++] = into;
    if (out_of.integer) attrs[n++] = out_of;
    if (op_has(from->op, ATTR_nontemporal)) attrs[n++] = (Attr){.key = ATTR_nontemporal};
    if (walk_coords(&src, r, &attrs[n])) n++;
    emit_op(l, OP_copy_async, args, args[4] ? 5 : 4, attrs, n, NULL);
  }
}

/* ---- ops ---- */
bool lower_read(Lower *l, const Op *op) {
  const Value *out = &op->results[0];
  LaneAccess a;
  if (!out->layout && out->type->kind == TYPE_tile) return true; /* matrix instructions read it */
  Layout whole = lane_undivided(l);
  Value *v = lower_read_matrices(l, op);
  if (!v) {
    if (!open_access(l, op, l->bounds[op->id], out->layout ? out->layout : &whole, &a))
      return false;
    v = lane_load(l, &a);
  }
  v->name = out->name;
  l->value[out->id] = v;
  return true;
}

bool lower_inside(Lower *l, const Op *op) {
  const Value *out = &op->results[0];
  LaneAccess a;
  Layout whole = lane_undivided(l);
  const Layout *layout = out->layout ? out->layout : &whole;
  if (!open_access(l, op, l->bounds[op->id], layout, &a)) return false;
  Walk w = walk_begin(l, &a, false);
  int n = layout_size(layout, LAYOUT_REG);
  Value **parts = ARENA_ARRAY(l->arena, Value *, n), *all = emit_number(l, DTYPE_i1, 1);
  for (int r = 0; r < n; r++) {
    walk_to(&w, r);
    parts[r] = walk_mask(&w, r);
    if (!parts[r]) parts[r] = all;
  }
  l->value[out->id] = emit_join(l, parts, n);
  return true;
}

bool lower_write(Lower *l, const Op *op) {
  const Value *v = op->args[0];
  Layout whole = lane_undivided(l);
  LaneAccess a;
  if (!lower_write_matrices(l, op)) {
    if (!open_access(l, op, l->bounds[op->id], v->layout ? v->layout : &whole, &a)) return false;
    lane_store(l, &a, l->value[v->id]);
  }
  lower_publish(l, l->bounds[op->id]->access.memory);
  return true;
}
