/* lower_walk.c: offsets, masks and coordinates of the accesses of one lane. */
#include "lower_threads/memory/lower_walk.h"

/* Only one holder of each element acts. */
static void find_owner(Walk *w, int waves) {
  Lower *l = w->l;
  const Layout *layout = w->a->layout;
  w->owner = lane_is_first(l, layout, waves);
  if (w->owner) w->owner = emit_cheaper(l, w->owner);
  for (int d = 0; d < layout->dims; d++) {
    DimHolders h = holders_of_dim(l, layout, d);
    if (h.kind == HOLDERS_SINGLE) continue;
    if (h.kind == HOLDERS_TANGLED) l->refused = "a layout that replicates elements";
    w->several[w->nseveral++] = arena_copy(l->arena, &h, sizeof h);
  }
}

/* Registers are at several positions along the dims that the test is about. */
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
  test = emit_sound(l, test);
  bool repeated = !a->dynamic.n && is_repeated(l, a, test);
  const Sym *e = repeated ? emit_below_zero(l, test) : NULL;
  TileForm *f = e ? form_of(l, e, a->layout) : NULL;
  bool compares = f && only_adds(f);
  return (Test){compares ? f : form_of(l, test, a->layout), repeated, compares};
}

Walk walk_begin(Lower *l, const LaneAccess *a, int waves) {
  Walk w = {.l = l, .a = a};
  w.offset = form_of(l, a->offset, a->layout);
  for (int m = 0; m < a->memory->type->rank; m++) w.coords[m] = form_of(l, a->coords[m], a->layout);
  for (int i = 0; i < a->tests.n; i++) w.tests[i] = open_test(l, a, a->tests.at[i]);
  if (waves) find_owner(&w, waves);
  return w;
}

void walk_to(Walk *w, int reg) {
  w->reg = reg;
  for (int i = 0; i < w->a->dynamic.n; i++)
    w->args[i] = emit_pick(w->l, w->a->dynamic.value[i], &reg, 1);
}

static const Sym *there(Walk *w, TileForm *f) { return form_at(w->l, f, w->a->x, w->reg); }

/* An immediate in bytes fits in 32 bits, whatever the element size. */
static bool fits_immediate(int64_t by) { return by > INT32_MIN / 16 && by < INT32_MAX / 16; }

static const Base *base_of(Walk *w, FormParts p, int reg);

/* A new address: rows of unknown length are reached by adding, not by a multiplication for each. */
static Base step_from(Walk *w, FormParts p, const Sym *e, int reg) {
  Lower *l = w->l;
  const Sym *step;
  int before = form_before(l, w->offset, reg, &step);
  if (before < 0) return (Base){p, e, emit_address(l, e, w->a->offset_dtype)};
  Base b = *base_of(w, form_parts(l, w->offset, w->a->x, before), before);
  b.parts.known = p.known, b.parts.more = p.more;
  b.offset = emit_sound(l, sym_add(l->sym, b.offset, step));
  b.value = emit_step(l, b.value, step, b.offset, w->a->offset_dtype);
  return b;
}

/* An address that differs by a number; it is then recorded with these parts too. */
static const Base *base_of(Walk *w, FormParts p, int reg) {
  int64_t by;
  for (int i = 0; i < w->bases.n; i++) {
    const Base *b = &w->bases.at[i];
    bool same = b->parts.known == p.known && b->parts.more == p.more;
    if (same && fits_immediate(p.by - b->parts.by)) return b;
  }
  const Sym *e = form_sum(w->l, p);
  for (int i = 0; i < w->bases.n; i++) {
    Base b = w->bases.at[i];
    if (b.parts.known == p.known || !sym_differ_by(e, b.offset, &by) || !fits_immediate(by))
      continue;
    b.parts = (FormParts){p.known, p.more, p.by - by};
    return vec_push(w->l->arena, &w->bases, b), &w->bases.at[w->bases.n - 1];
  }
  Base b = step_from(w, p, e, reg);
  return vec_push(w->l->arena, &w->bases, b), &w->bases.at[w->bases.n - 1];
}

Value *walk_offset(Walk *w, Attr *imm) {
  Lower *l = w->l;
  FormParts p = form_parts(l, w->offset, w->a->x, w->reg);
  if (w->a->dynamic.n)
    return emit_expr_of(l, form_sum(l, p), w->a->offset_dtype, w->args, w->a->dynamic.n);
  const Base *b = base_of(w, p, w->reg);
  imm->integer = p.by - b->parts.by;
  return b->value;
}

/* One test at the registers' position; NULL: it always holds. Most registers share it. */
static Value *tested(Walk *w, int test) {
  Lower *l = w->l;
  const Test *how = &w->tests[test];
  FormParts p = form_parts(l, how->form, w->a->x, w->reg);
  for (int i = 0; i < w->tested.n; i++) {
    const Tested *t = &w->tested.at[i];
    if (t->test == test && t->parts.known == p.known && t->parts.more == p.more &&
        t->parts.by == p.by)
      return t->value;
  }
  Tested t = {.test = test, .parts = p};
  if (how->compares) t.value = emit_below(l, sym_add(l->sym, p.known, p.more), -p.by);
  else t.value = how->repeated ? emit_bound(l, form_sum(l, p)) : emit_test(l, form_sum(l, p));
  vec_push(l->arena, &w->tested, t);
  return t.value;
}

/* Whether this thread acts for the registers from `reg` on; NULL: always. */
static const Sym *acts_for(Walk *w, int reg) {
  Lower *l = w->l;
  const Sym *all = w->owner;
  if (!w->nseveral) return all;
  for (int i = 0; i < w->nseveral; i++) {
    const Sym *counts = holder_counts(l, w->several[i], reg);
    all = all ? sym_and(l->sym, all, counts) : counts;
  }
  return emit_cheaper(l, all);
}

/* NULL: it is always active. */
Value *walk_mask(Walk *w, int reg) {
  Lower *l = w->l;
  const Sym *inside = lane_is_inside(l, w->a->layout, reg, ALL_DIMS), *all = sym_bool(l->sym, true);
  const Sym *owner = acts_for(w, reg);
  Value *v = NULL;
  if (!w->a->dynamic.n) {
    for (int i = 0; i < w->a->tests.n; i++) v = emit_both(l, v, tested(w, i));
    if (inside) v = emit_both(l, v, emit_test(l, inside));
    return owner ? emit_both(l, v, emit_test(l, owner)) : v;
  }
  for (int i = 0; i < w->a->tests.n; i++) all = sym_and(l->sym, all, there(w, w->tests[i].form));
  if (inside) all = sym_and(l->sym, all, inside);
  if (owner) all = sym_and(l->sym, all, owner);
  all = sym_simplify(l->sym, emit_facts(l), all);
  Value *near = w->a->dynamic.near ? emit_pick(l, w->a->dynamic.near, &reg, 1) : NULL;
  if (all == sym_bool(l->sym, true)) return near;
  return emit_both(l, near, emit_expr_of(l, all, DTYPE_i1, w->args, w->a->dynamic.n));
}

static void add_flag(WalkStep *s, const Op *op, AttrKey key) {
  if (op_has(op, key)) s->attrs[s->nattrs++] = (Attr){.key = key};
}

/* The registers from `reg` on advance along the memory's last dim, as the coordinates of an access
 * do. They need not if that dim has one element. */
static bool steps_along_last(Walk *w, int reg) {
  if (w->a->width == 1) return true;
  TileForm *last = w->coords[w->a->memory->type->rank - 1];
  FormParts first = form_parts(w->l, last, w->a->x, reg);
  FormParts second = form_parts(w->l, last, w->a->x, reg + 1);
  if (first.known == second.known && first.more == second.more) return second.by - first.by == 1;
  int64_t by;
  return sym_differ_by(form_sum(w->l, second), form_sum(w->l, first), &by) && by == 1;
}

bool walk_coords(Walk *w, int reg, Attr *out) {
  int rank = w->a->memory->type->rank;
  if (w->a->dynamic.n || !steps_along_last(w, reg)) return false;
  const Sym **coords = ARENA_ARRAY(w->l->arena, const Sym *, rank);
  for (int m = 0; m < rank; m++) coords[m] = emit_at_entry(w->l, there(w, w->coords[m]));
  *out = (Attr){.key = ATTR_coords, .n = rank, .exprs = coords};
  return true;
}

WalkStep walk_step(Walk *w, int reg) {
  WalkStep s = {.nargs = 2};
  Attr imm = {.key = ATTR_imm};
  walk_to(w, reg);
  s.args[1] = w->a->memory;
  s.args[2] = walk_offset(w, &imm);
  s.args[3] = walk_mask(w, reg);
  if (s.args[3]) s.nargs = 3;
  if (imm.integer) s.attrs[s.nattrs++] = imm;
  add_flag(&s, w->a->op, ATTR_volatile);
  add_flag(&s, w->a->op, ATTR_nontemporal);
  add_flag(&s, w->a->op, ATTR_agreed);
  if (walk_coords(w, reg, &s.attrs[s.nattrs])) s.nattrs++;
  return s;
}

bool walk_is_idle(Walk *w, int reg) { return acts_for(w, reg) == sym_bool(w->l->sym, false); }
