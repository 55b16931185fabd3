/* lower_access.c: reads and writes of tiles as loads and stores of one lane.
 *
 *     read %a {mask = [$x0 < M]}, 8 registers along the contiguous dim     1 load of vec<8>
 *
 * Each access of `width` registers has an offset; those that differ from an earlier one by a
 * constant share its address and carry the difference as an immediate. A width is taken only where
 * analysis has shown that the elements are adjacent, aligned and tested alike (AccessBounds.run).
 * Coordinates that come from registers (dynamic values) make an address of their own for every
 * element. */
#include "ir/attr.h"
#include "ir/dtype.h"
#include "lower/lower.h"

/* ---- offsets ---- */

/* An allocation knows where its elements lie. An argument is row-major, by its sizes; where only
 * the tensor itself knows them, or it is a view, by its strides. */
const Sym *access_offset(Lower *l, const AccessBounds *b) {
  const Value *memory = b->access.memory;
  const Sym *offset = sym_int(l->sym, 0), *stride = sym_int(l->sym, 1);
  bool known = true;
  MemLayout m;
  if (memory_layout(memory, &m)) return memory_offset(l, &m, memory, b->access.op, b->coords);
  for (int d = 1; d < memory->type->rank; d++) known = known && b->sizes[d];
  if (memory_is_view(l->k, memory)) known = false;
  if (!known && memory_is_scratch(memory)) return NULL;
  for (int d = memory->type->rank - 1; d >= 0; d--) {
    if (!known) stride = lower_param_symbol(l, memory->index, "STRIDE", d);
    offset = sym_add(l->sym, offset, sym_mul(l->sym, b->coords[d], stride));
    if (known && d) stride = sym_mul(l->sym, stride, b->sizes[d]);
  }
  return offset;
}

/* ---- values that coordinates take from registers ---- */

/* Dynamic value i is looked up at the element's own coordinates, and lies as the tile does. */
static bool is_looked_up_in_place(const MemAccess *a, int i) {
  if (a->op->kind == OP_copy) return false;
  if (!a->mapping || i >= a->mapping->ndynamic) return true;
  SymPairs where = a->mapping->dynamic[i];
  for (int p = 0; p < where.n; p++) {
    bool same = false;
    for (int j = 0; j < a->iterated.n; j++)
      same = same || (a->iterated.at[j].key == where.at[p].key &&
                      a->iterated.at[j].value == where.at[p].value);
    if (!same) return false;
  }
  return true;
}

static bool take_dynamic(Lower *l, LaneAccess *a, Value *v) {
  if (a->ndynamic == LANE_DYNAMIC) return lower_refuse(l, a->op, "more than 4 dynamic values");
  a->dynamic[a->ndynamic++] = v;
  return v != NULL;
}

/* Dynamic values, and the coordinate that an operand replaces, become $APPLY_EXPR_ARG_i. */
static bool open_dynamic(Lower *l, LaneAccess *a, SymBinding *to, int *n) {
  const MemAccess *m = a->access;
  for (int i = 0; i < m->ndynamic; i++) {
    to[(*n)++] = (SymBinding){access_dynamic(l->sym, i, false), emit_arg(l, a->ndynamic)};
    Value *v = is_looked_up_in_place(m, i) ? lower_operand(l, m->dynamic[i], m->tile, a->layout)
                                           : lower_lookup(l, a, i);
    if (!take_dynamic(l, a, v)) return false;
  }
  if (m->replaced < 0) return true;
  to[(*n)++] = (SymBinding){sym_symbol(l->sym, "$replaced", false), emit_arg(l, a->ndynamic)};
  return take_dynamic(l, a, lower_operand(l, a->op->args[1], m->tile, a->layout));
}

/* ---- opening ---- */

static bool open_place(Lower *l, LaneAccess *a) {
  const Type *t = a->access->tile;
  for (int i = 0; i < t->rank; i++) {
    DimRange here;
    if (!standing_range(&l->standing, a->op, t->dims[i], &here)) return false;
    a->start[i] = here.start;
    a->x[i] = sym_add(l->sym, here.start, lane_coord(l, a->layout, i));
  }
  return true;
}

/* What the mask says in terms of tile coordinates. */
static bool open_tests(Lower *l, LaneAccess *a, const AccessBounds *b, const SymBinding *dynamic,
                       int ndynamic) {
  const Attr *mask = op_attr(a->op, ATTR_mask);
  const Value *memory = a->access->memory;
  SymBinding to[2 * IR_MAX_RANK];
  int rank = memory->type->rank;
  if (!mask) return lower_refuse(l, a->op, "an access whose mask was not found yet");
  if (mask->n > MAX_BOUNDS) return lower_refuse(l, a->op, "a mask of so many tests");
  for (int m = 0; m < rank; m++) {
    const Sym *size = b->sizes[m];
    if (!size && !memory_is_scratch(memory)) size = lower_param_symbol(l, memory->index, "SIZE", m);
    if (!size || !a->coords[m]) return lower_refuse(l, a->op, "a memory of unknown size");
    to[2 * m] = (SymBinding){access_y(l->sym, m), a->coords[m]};
    to[2 * m + 1] = (SymBinding){access_n(l->sym, m), size};
  }
  for (int i = 0; i < mask->n; i++) {
    const Sym *test = sym_subst(l->sym, mask->dims[i], to, 2 * rank);
    a->tests[a->ntests++] = sym_subst(l->sym, test, dynamic, ndynamic);
  }
  return true;
}

static int access_width(const Lower *l, const AccessBounds *b, const Layout *layout) {
  const Type *t = b->access.memory->type;
  bool shared = memory_is_scratch(b->access.memory);
  int bytes = shared ? l->machine.target->shared_access : l->machine.target->global_access;
  if (b->run_axis < 0) return 1;
  int width = layout_vector(layout, b->run_axis, dtype_memory_bits(t->dtype), bytes);
  return width < b->run ? width : b->run;
}

bool open_access(Lower *l, const Op *op, const AccessBounds *b, const Layout *layout,
                 LaneAccess *out) {
  LaneAccess *a = out;
  SymBinding dynamic[LANE_DYNAMIC + 1];
  int ndynamic = 0;
  *a = (LaneAccess){.op = op, .access = &b->access, .layout = layout};
  a->memory = l->value[b->access.memory->id];
  a->width = access_width(l, b, layout);
  a->offset_dtype = b->offset_bits == 32 ? DTYPE_i32 : DTYPE_index;
  if (!open_place(l, a) || !open_dynamic(l, a, dynamic, &ndynamic)) return false;
  for (int m = 0; m < b->access.memory->type->rank; m++)
    a->coords[m] = sym_subst(l->sym, b->coords[m], dynamic, ndynamic);
  a->offset = sym_subst(l->sym, access_offset(l, b), dynamic, ndynamic);
  if (!a->offset) return lower_refuse(l, op, "an address that cannot be written down");
  if (!open_tests(l, a, b, dynamic, ndynamic)) return false;
  memory_add_slot(l, b->access.memory, op, a->coords);
  return true;
}

/* ---- one access of `width` registers ---- */

/* An address that was emitted; others are it plus a constant. */
typedef struct Base {
  FormPlace place; /* where it lies */
  const Sym *offset;
  Value *value;
} Base;

/* A test of a walk: a condition, or `whole` <= 0 where many places are compared with a number. */
typedef struct Test {
  TileForm *form;
  bool repeated; /* at several places */
  bool compares;
} Test;

/* A test at a place. */
typedef struct Tested {
  int test;
  FormPlace place;
  Value *value; /* NULL: it always holds */
} Tested;

typedef struct Walk {
  Lower *l;
  const LaneAccess *a;
  TileForm *offset, *coords[IR_MAX_RANK];
  Test tests[MAX_BOUNDS];
  const Sym *owner; /* only one thread of those that hold an element acts; NULL: all do */
  const DimHolders *several[LAYOUT_DIMS]; /* dims along which digits overlap, if one acts */
  int nseveral;
  Vec(Base) bases;
  Vec(Tested) tested;
  int reg;                   /* the first of the registers that are accessed now */
  Value *args[LANE_DYNAMIC]; /* dynamic values of `reg` */
} Walk;

/* Only one holder of each element acts. */
static void find_owner(Walk *w) {
  Lower *l = w->l;
  const Layout *layout = w->a->layout;
  w->owner = lane_is_first(l, layout);
  if (w->owner) w->owner = cheaper(l, w->owner);
  for (int d = 0; d < layout->dims; d++) {
    DimHolders h = dim_holders(l, layout, d);
    if (h.kind == HOLDERS_SINGLE) continue;
    if (h.kind == HOLDERS_TANGLED) l->refused = "a layout that holds elements several times";
    w->several[w->nseveral++] = arena_copy(l->arena, &h, sizeof h);
  }
}

/* Registers lie at several places along the dims that the test is about. */
static bool is_repeated(Lower *l, const LaneAccess *a, const Sym *test) {
  const Digits *regs = &a->layout->part[LAYOUT_REG];
  for (int i = 0, weight = 1; i < regs->n; weight *= regs->at[i++].radix)
    if (regs->at[i].stride && weight * regs->at[i].radix > a->width &&
        sym_contains(test, access_x(l->sym, regs->at[i].dim)))
      return true;
  return false;
}

static bool only_adds(const TileForm *f) {
  for (int i = 0; i < f->layout->part[LAYOUT_REG].n; i++)
    if (f->step[i].of > 1) return false;
  return true;
}

static Test open_test(Lower *l, const LaneAccess *a, const Sym *test) {
  test = lower_sound(l, test);
  bool repeated = !a->ndynamic && is_repeated(l, a, test);
  const Sym *e = repeated ? below_zero(l, test) : NULL;
  TileForm *f = e ? form_of(l, e, a->layout) : NULL;
  bool compares = f && only_adds(f);
  return (Test){compares ? f : form_of(l, test, a->layout), repeated, compares};
}

static Walk begin_walk(Lower *l, const LaneAccess *a, bool owner) {
  Walk w = {.l = l, .a = a};
  w.offset = form_of(l, a->offset, a->layout);
  for (int m = 0; m < a->memory->type->rank; m++) w.coords[m] = form_of(l, a->coords[m], a->layout);
  for (int i = 0; i < a->ntests; i++) w.tests[i] = open_test(l, a, a->tests[i]);
  if (owner) find_owner(&w);
  return w;
}

static void go_to(Walk *w, int reg) {
  w->reg = reg;
  for (int i = 0; i < w->a->ndynamic; i++) w->args[i] = emit_pick(w->l, w->a->dynamic[i], &reg, 1);
}

static const Sym *there(Walk *w, TileForm *f) { return form_at(w->l, f, w->a->x, w->reg); }

/* An immediate in bytes fits 32 bits, whatever an element is. */
static bool fits_immediate(int64_t by) { return by > INT32_MIN / 16 && by < INT32_MAX / 16; }

static const Base *base_of(Walk *w, FormPlace p, int reg);

/* A new address: rows of unknown length follow each other by a sum, not by a product for each. */
static Base step_from(Walk *w, FormPlace p, const Sym *e, int reg) {
  Lower *l = w->l;
  const Sym *step;
  int before = form_before(l, w->offset, reg, &step);
  if (before < 0) return (Base){p, e, emit_address(l, e, w->a->offset_dtype)};
  Base b = *base_of(w, form_place(l, w->offset, w->a->x, before), before);
  b.place.known = p.known, b.place.more = p.more;
  b.offset = lower_sound(l, sym_add(l->sym, b.offset, step));
  b.value = emit_step(l, b.value, step, b.offset, w->a->offset_dtype);
  return b;
}

/* An address that differs by a number; it then stands for this place as well. */
static const Base *base_of(Walk *w, FormPlace p, int reg) {
  SymCtx *sym = w->l->sym;
  int64_t by;
  for (int i = 0; i < w->bases.n; i++) {
    const Base *b = &w->bases.at[i];
    bool same = b->place.known == p.known && b->place.more == p.more;
    if (same && fits_immediate(p.by - b->place.by)) return b;
  }
  const Sym *e = form_sum(w->l, p);
  for (int i = 0; i < w->bases.n; i++) {
    Base b = w->bases.at[i];
    const Sym *d = b.place.known == p.known ? NULL : sym_sub(sym, e, b.offset);
    if (!d || !sym_is_int(d, &by) || !fits_immediate(by)) continue;
    b.place = (FormPlace){p.known, p.more, p.by - by};
    return vec_push(w->l->arena, &w->bases, b), &w->bases.at[w->bases.n - 1];
  }
  Base b = step_from(w, p, e, reg);
  return vec_push(w->l->arena, &w->bases, b), &w->bases.at[w->bases.n - 1];
}

static Value *offset_of(Walk *w, Attr *imm) {
  Lower *l = w->l;
  FormPlace p = form_place(l, w->offset, w->a->x, w->reg);
  if (w->a->ndynamic)
    return emit_expr_of(l, form_sum(l, p), w->a->offset_dtype, w->args, w->a->ndynamic);
  const Base *b = base_of(w, p, w->reg);
  imm->integer = p.by - b->place.by;
  return b->value;
}

/* One test where the registers lie; NULL: it always holds. Most registers share it. */
static Value *tested(Walk *w, int test) {
  Lower *l = w->l;
  const Test *how = &w->tests[test];
  FormPlace p = form_place(l, how->form, w->a->x, w->reg);
  for (int i = 0; i < w->tested.n; i++) {
    const Tested *t = &w->tested.at[i];
    if (t->test == test && t->place.known == p.known && t->place.more == p.more &&
        t->place.by == p.by)
      return t->value;
  }
  Tested t = {.test = test, .place = p};
  if (how->compares) t.value = emit_below(l, sym_add(l->sym, p.known, p.more), -p.by);
  else t.value = how->repeated ? emit_bound(l, form_sum(l, p)) : emit_test(l, form_sum(l, p));
  vec_push(l->arena, &w->tested, t);
  return t.value;
}

static Value *both(Lower *l, Value *a, Value *b) {
  return !a ? b : !b ? a : emit_binary(l, OP_and, a, b);
}

/* This thread acts for the registers from `reg` on; NULL: always. */
static const Sym *acts_for(Walk *w, int reg) {
  Lower *l = w->l;
  const Sym *all = w->owner;
  if (!w->nseveral) return all;
  for (int i = 0; i < w->nseveral; i++) {
    const Sym *counts = holder_counts(l, w->several[i], reg);
    all = all ? sym_and(l->sym, all, counts) : counts;
  }
  return cheaper(l, all);
}

/* NULL: it is always active. */
static Value *mask_of(Walk *w, int reg) {
  Lower *l = w->l;
  const Sym *inside = lane_is_inside(l, w->a->layout, reg, ALL_DIMS), *all = sym_bool(l->sym, true);
  const Sym *owner = acts_for(w, reg);
  Value *v = NULL;
  if (!w->a->ndynamic) {
    for (int i = 0; i < w->a->ntests; i++) v = both(l, v, tested(w, i));
    if (inside) v = both(l, v, emit_test(l, inside));
    return owner ? both(l, v, emit_test(l, owner)) : v;
  }
  for (int i = 0; i < w->a->ntests; i++) all = sym_and(l->sym, all, there(w, w->tests[i].form));
  if (inside) all = sym_and(l->sym, all, inside);
  if (owner) all = sym_and(l->sym, all, owner);
  all = sym_simplify(l->sym, lower_facts(l), all);
  if (all == sym_bool(l->sym, true)) return NULL;
  return emit_expr_of(l, all, DTYPE_i1, w->args, w->a->ndynamic);
}

/* offset, immediate, mask and coordinates of the registers from `reg` on. */
typedef struct Step {
  Value *args[4];
  int nargs; /* memory, offset [, mask] behind a free slot for the value */
  Attr attrs[4];
  int nattrs;
} Step;

static void add_flag(Step *s, const Op *op, AttrKey key) {
  if (op_has(op, key)) s->attrs[s->nattrs++] = (Attr){.key = key};
}

/* The registers from `reg` on step along the memory's last dim, as coordinates of an access do.
 * They need not where that dim has one element. */
static bool steps_along_last(Walk *w, int reg) {
  if (w->a->width == 1) return true;
  TileForm *last = w->coords[w->a->memory->type->rank - 1];
  FormPlace first = form_place(w->l, last, w->a->x, reg);
  FormPlace second = form_place(w->l, last, w->a->x, reg + 1);
  if (first.known == second.known && first.more == second.more) return second.by - first.by == 1;
  const Sym *by = sym_sub(w->l->sym, form_sum(w->l, second), form_sum(w->l, first));
  return by == sym_int(w->l->sym, 1);
}

static Step step_at(Walk *w, int reg) {
  Lower *l = w->l;
  Step s = {.nargs = 2};
  Attr imm = {.key = ATTR_imm};
  go_to(w, reg);
  s.args[1] = w->a->memory;
  s.args[2] = offset_of(w, &imm);
  s.args[3] = mask_of(w, reg);
  if (s.args[3]) s.nargs = 3;
  if (imm.integer) s.attrs[s.nattrs++] = imm;
  add_flag(&s, w->a->op, ATTR_volatile);
  add_flag(&s, w->a->op, ATTR_nontemporal);
  if (w->a->ndynamic || !steps_along_last(w, reg)) return s;
  int rank = w->a->memory->type->rank;
  const Sym **coords = ARENA_ARRAY(l->arena, const Sym *, rank);
  for (int m = 0; m < rank; m++) coords[m] = at_entry(l, there(w, w->coords[m]));
  s.attrs[s.nattrs++] = (Attr){.key = ATTR_coords, .n = rank, .dims = coords};
  return s;
}

/* Of each register the first that holds the same element: itself, or one before. */
static const int *first_twins(Lower *l, const Layout *layout) {
  int n = layout_size(layout, LAYOUT_REG), coord[LAYOUT_DIMS];
  int *first = ARENA_ARRAY(l->arena, int, n);
  const RegisterIndex *x = register_index(l, layout, ALL_DIMS);
  for (int r = 0; r < n; r++) {
    layout_at(layout, r, 0, 0, coord);
    first[r] = register_at(x, coord);
  }
  return first;
}

Value *lane_load(Lower *l, const LaneAccess *a) {
  Walk w = begin_walk(l, a, false);
  int regs = layout_size(a->layout, LAYOUT_REG), n = regs / a->width;
  const int *first = first_twins(l, a->layout);
  DType dtype = a->access->memory->type->dtype;
  Value **parts = ARENA_ARRAY(l->arena, Value *, n);
  for (int i = 0; i < n; i++) {
    int twin = first[i * a->width];
    if (twin < i * a->width && twin % a->width == 0) {
      parts[i] = parts[twin / a->width];
      continue;
    }
    Step s = step_at(&w, i * a->width);
    parts[i] = emit(l, OP_load, s.args + 1, s.nargs, s.attrs, s.nattrs,
                    type_vec(l->k->cx, a->width, dtype));
  }
  return emit_join(l, parts, n);
}

LaneOffset *lane_offsets(Lower *l, const LaneAccess *a) {
  Walk w = begin_walk(l, a, false);
  int n = layout_size(a->layout, LAYOUT_REG);
  LaneOffset *all = ARENA_ARRAY(l->arena, LaneOffset, n);
  for (int i = 0; i < n; i++) {
    Attr imm = {.key = ATTR_imm};
    go_to(&w, i);
    all[i].base = offset_of(&w, &imm);
    all[i].imm = imm.integer;
  }
  return all;
}

/* One of the threads that hold an element stores it, if it is sure to come here and holds what the
 * others do; else each does. */
static bool first_may_store(const Lower *l, const Op *op) {
  if (!l->machine.observable) return true;
  if (op->kind == OP_write && op->args[0]->varying) return false;
  return uniform_around(l->uniform, op).level <= UNIFORM_WORKGROUP;
}

static bool never_acts(Walk *w, int reg) { return acts_for(w, reg) == sym_bool(w->l->sym, false); }

void lane_store(Lower *l, const LaneAccess *a, Value *v) {
  Walk w = begin_walk(l, a, first_may_store(l, a->op));
  int regs = layout_size(a->layout, LAYOUT_REG);
  const int *first = first_twins(l, a->layout);
  for (int r = 0; r < regs; r += a->width) {
    if (w.nseveral ? never_acts(&w, r) : first[r] < r) continue;
    Step s = step_at(&w, r);
    s.args[0] = emit_range(l, v, r, a->width);
    emit(l, OP_store, s.args, s.nargs + 1, s.attrs, s.nattrs, NULL);
  }
}

void lane_copy_async(Lower *l, const LaneAccess *to, const LaneAccess *from) {
  Walk dst = begin_walk(l, to, false), src = begin_walk(l, from, false);
  int regs = layout_size(to->layout, LAYOUT_REG);
  int bytes = to->width * dtype_memory_bits(to->memory->type->dtype) / 8;
  for (int r = 0; r < regs; r += to->width) {
    Attr into = {.key = ATTR_imm}, out_of = {.key = ATTR_imm_from}, attrs[4];
    int n = 0;
    go_to(&dst, r), go_to(&src, r);
    Value *args[5] = {to->memory, offset_of(&dst, &into), from->memory, offset_of(&src, &out_of)};
    args[4] = mask_of(&src, r);
    attrs[n++] = (Attr){.key = ATTR_bytes, .sym = sym_int(l->sym, bytes)};
    if (into.integer) attrs[n++] = into;
    if (out_of.integer) attrs[n++] = out_of;
    if (op_has(from->op, ATTR_nontemporal)) attrs[n++] = (Attr){.key = ATTR_nontemporal};
    emit(l, OP_copy_async, args, args[4] ? 5 : 4, attrs, n, NULL);
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

bool lower_write(Lower *l, const Op *op) {
  const Value *v = op->args[0];
  Layout whole = lane_undivided(l);
  LaneAccess a;
  if (!open_access(l, op, l->bounds[op->id], v->layout ? v->layout : &whole, &a)) return false;
  lane_store(l, &a, l->value[v->id]);
  lower_publish(l, a.access->memory);
  return true;
}

/* Registers of one vector of a thread. */
static int vector_length(const Layout *layout) {
  const Digits *regs = &layout->part[LAYOUT_REG];
  return regs->n && regs->at[0].stride == 1 ? regs->at[0].radix : 1;
}

/* The op may say how many elements of each vector are acted on: the first ones. */
static bool is_acted_on(const Lower *l, const LaneAccess *a, int reg) {
  const Attr *ept = op_attr(a->op, ATTR_ept);
  int64_t each;
  if (!ept || !sym_is_int(distribute_expr(l->d, a->op, ept->sym), &each)) return true;
  return reg % vector_length(a->layout) < each;
}

/* The lane that holds the same element and comes first; NULL: every lane is that one. */
static const Sym *first_lane(Lower *l, const Layout *layout) {
  const Digits *lanes = &layout->part[LAYOUT_LANE];
  const Sym *lane = l->lane, *zero = sym_int(l->sym, 0);
  int weight = 1;
  for (int i = 0; i < lanes->n; i++) {
    int radix = lanes->at[i].radix;
    const Sym *above = sym_floordiv(l->sym, l->lane, sym_int(l->sym, weight));
    const Sym *digit = sym_mod(l->sym, above, sym_int(l->sym, radix));
    if (!lanes->at[i].stride)
      lane = sym_sub(l->sym, lane, sym_mul(l->sym, digit, sym_int(l->sym, weight)));
    weight *= radix;
  }
  lane = sym_simplify(l->sym, lower_facts(l), lane);
  return sym_sub(l->sym, lane, l->lane) == zero ? NULL : lane;
}

/* In every thread that holds it: what is only stored, the thread that acted stores. */
static bool is_used(const Lower *l, const Value *v) {
  for (const Op *op = ir_first(l->k); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++)
      if (op->args[i] == v && (op->kind != OP_write || i > 0)) return true;
  return false;
}

/* Of threads that hold the same element one has acted, and the others get what it was told. */
static bool share_result(Lower *l, const Op *op, const Layout *layout, Value **v) {
  const Digits *waves = &layout->part[LAYOUT_WAVE];
  if (l->machine.observable || !is_used(l, &op->results[0])) return true;
  for (int i = 0; i < waves->n; i++)
    if (!waves->at[i].stride)
      return lower_refuse(l, op, "the result for an element that several waves hold");
  const Sym *from = first_lane(l, layout);
  if (!from) return true;
  Value *args[] = {*v, emit_expr(l, from, DTYPE_i32)};
  *v = emit(l, OP_shuffle_idx, args, 2, NULL, 0, (*v)->type);
  return true;
}

/* Every thread acts for itself in an observable kernel; else one thread for each element. */
bool lower_atomic(Lower *l, const Op *op) {
  const Value *v = op->args[0];
  Layout whole = lane_undivided(l);
  LaneAccess a;
  if (!open_access(l, op, l->bounds[op->id], v->layout ? v->layout : &whole, &a)) return false;
  a.width = 1; /* an atomic acts on one element */
  Walk w = begin_walk(l, &a, !l->machine.observable);
  int n = layout_size(a.layout, LAYOUT_REG);
  Value **old = ARENA_ARRAY(l->arena, Value *, n);
  for (int r = 0; r < n; r++) {
    old[r] = emit_pick(l, l->value[v->id], &r, 1);
    if (!is_acted_on(l, &a, r) || never_acts(&w, r)) continue;
    Step s = step_at(&w, r);
    s.args[0] = old[r];
    const char *mode = op->kind == OP_atomic_min ? "min" : "add";
    s.attrs[s.nattrs++] = (Attr){.key = ATTR_mode, .text = intern(&l->k->cx->names, mode)};
    old[r] = emit(l, OP_atomic, s.args, s.nargs + 1, s.attrs, s.nattrs, s.args[0]->type);
  }
  if (!op->nresults) return true;
  Value *all = emit_join(l, old, n);
  if (w.nseveral && is_used(l, &op->results[0]))
    return lower_refuse(l, op, "the result for an element that several threads hold");
  bool shared = share_result(l, op, a.layout, &all);
  l->value[op->results[0].id] = all;
  return shared;
}
