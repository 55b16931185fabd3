/* tiles_copy.c: copies between an argument and an allocation, as loads and stores.
 *
 * A single thread waits for no other, so an asynchronous copy is done immediately. The argument's
 * side is an access like that of a read or write; the allocation is addressed by the coordinates of
 * the tile, relative to its start. Elements that do not fit into it are dropped. */
#include "ir/dtype.h"
#include "lower_tiles/tiles.h"
#include "transform/copy/copy_plan.h"

typedef struct Copy {
  const Op *op;
  const Value *scratch;
  Tile tile;     /* of the allocation's dims */
  MemLayout m;   /* of the allocation */
  bool laid_out; /* m is known; otherwise it is dense */
} Copy;

/* The index of an element of the allocation; NULL: there is no expression for it. */
static const Sym *scratch_offset(Tiles *t, const Copy *c, const Point *p, const Sym *within) {
  SymCtx *sym = t->l.sym;
  const Type *made = t->l.value[c->scratch->id]->type;
  const Sym *coords[IR_MAX_RANK], *offset = sym_int(sym, 0), *stride = sym_int(sym, 1);
  for (int i = 0; i < p->n; i++) {
    coords[i] = sym_sub(sym, p->at[i], c->tile.start[i]);
    if (within && i == p->along) coords[i] = sym_add(sym, coords[i], within);
    coords[i] = sym_simplify(sym, emit_facts(&t->l), coords[i]);
  }
  if (c->laid_out) return memory_offset(&t->l, &c->m, c->scratch, c->op, coords);
  for (int i = p->n - 1; i >= 0; i--) {
    offset = sym_add(sym, offset, sym_mul(sym, coords[i], stride));
    stride = sym_mul(sym, stride, made->dims[i]);
  }
  return offset;
}

/* The elements of the point are contiguous in the allocation too. */
static bool is_together(Tiles *t, const Copy *c, const Point *p) {
  SymCtx *sym = t->l.sym;
  const Sym *within = sym_symbol(sym, "$within", true);
  SymFacts *f = sym_facts_new(t->l.arena, sym, emit_facts(&t->l));
  sym_assume_range(f, within, 0, p->width - 1);
  const Sym *first = scratch_offset(t, c, p, NULL), *any = scratch_offset(t, c, p, within);
  const Sym *by = first && any ? sym_sub(sym, any, first) : NULL;
  return by && sym_simplify(sym, f, by) == within;
}

/* A load, or with `v` a store, of `width` elements from number `element` of the point on. */
static Value *scratch_access(Tiles *t, const Copy *c, const Point *p, int element, int width,
                             Value *v) {
  Lower *l = &t->l;
  const Sym *at = scratch_offset(t, c, p, element ? sym_int(l->sym, element) : NULL);
  Value *memory = l->value[c->scratch->id];
  Value *args[] = {v, memory, emit_address(l, emit_sound(l, at), DTYPE_index)};
  if (v) emit_op(l, OP_store, args, 3, NULL, 0, NULL);
  else
    v = emit_op(l, OP_load, args + 1, 2, NULL, 0, type_vec(l->k->cx, width, memory->type->dtype));
  return v;
}

static Value *scratch_load(Tiles *t, const Copy *c, const Point *p) {
  if (p->width == 1 || is_together(t, c, p)) return scratch_access(t, c, p, 0, p->width, NULL);
  Value **parts = ARENA_ARRAY(t->l.arena, Value *, p->width);
  for (int i = 0; i < p->width; i++) parts[i] = scratch_access(t, c, p, i, 1, NULL);
  return emit_join(&t->l, parts, p->width);
}

static void scratch_store(Tiles *t, const Copy *c, const Point *p, Value *v) {
  if (p->width == 1 || is_together(t, c, p)) {
    scratch_access(t, c, p, 0, p->width, v);
    return;
  }
  for (int i = 0; i < p->width; i++)
    scratch_access(t, c, p, i, 1, v->type->n > 1 ? emit_pick(&t->l, v, &i, 1) : v);
}

static bool copy_at(Tiles *t, const Point *p, void *user) {
  const Copy *c = user;
  if (!copy_is_in(c->op)) return access_store(t, c->op, p, scratch_load(t, c, p));
  Value *v = access_load(t, c->op, p);
  if (v) scratch_store(t, c, p, v);
  return v != NULL;
}

/* As much of the tile as the allocation has room for. */
static bool open_copy(Tiles *t, Copy *c, NestBox *b) {
  const Type *memory = c->scratch->type, *made = t->l.value[c->scratch->id]->type;
  const Type *type = type_tile(t->l.k->cx, memory->dims, memory->rank, memory->dtype);
  c->laid_out = memory_layout(c->scratch, &c->m);
  if (!type || !tile_set_ranges(t, c->op, type, &c->tile)) return false;
  *b = nest_box(t, type, &c->tile);
  for (int i = 0; i < b->rank; i++) {
    int64_t room;
    if (!sym_is_int(made->dims[made->rank - b->rank + i], &room))
      return tiles_refuse(t, c->op, "a copy to an allocation of unknown size");
    if (room < b->extent[i]) b->extent[i] = (int)room;
  }
  nest_choose_moved(t, b, access_contiguous(t, c->op), dtype_memory_bits(memory->dtype) / 8);
  return true;
}

bool tiles_copy(Tiles *t, const Op *op) {
  Copy c = {.op = op, .scratch = op->args[copy_is_in(op) ? 1 : 0]};
  NestBox b;
  if (copy_barriers(op)) return tiles_refuse(t, op, "a copy that signals a barrier");
  if (!t->l.value[c.scratch->id]) return tiles_refuse(t, op, "a copy of a loop-carried allocation");
  return open_copy(t, &c, &b) && nest_run(t, &b, copy_at, &c);
}
