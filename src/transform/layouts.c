/* layouts: gives every tile a layout, and inserts a conversion wherever two layouts meet.
 *
 *     %x = read %a                  %x = read %a : tile<M, N, f32> @ [2, 512] reg d1/4:1 | lane ...
 *     %i0 = read %i           =>    %i0 = read %i : tile<M, f32> @ [2] lane ~/32 | wave ~/4 d0/2:1
 *     %r = sum %x, %i0              %r = sum %x, %i0 {dim = N} : tile<M, f32> @ [2] lane ~/32 ...
 *
 * Layouts come from anchors (anchors.h) and spread along links (spread.h). An operand that an op
 * needs in another layout is converted before it; constants, coordinates and broadcasts are
 * recomputed instead, next to the original if a symbol in them means something else later. A result
 * that follows from its operand (a reduction's, a bitcast's) gets the corresponding layout, and a
 * cast to fewer bits is done before a conversion rather than after it, so that less data moves. A tile
 * that threads would write to scattered elements is converted to the layout that suits the write.
 *
 * Needs DISTRIBUTE. Runs once, on a kernel with a `machine` row; otherwise it does nothing. */
#include "anchors/spread.h"
#include "ir/attr.h"
#include "ir/dtype.h"
#include "ir/layout_links.h"
#include "ir/ops/access.h"
#include "layout/convert.h"
#include "transform/pass.h"

typedef struct Layouts {
  Kernel *k;
  PassCtx *cx;
  const Distribution *d;
  const Machine *machine;
  bool products; /* the kernel has some */
  bool failed;
} Layouts;

/* ---- values recomputed elsewhere ------------------------------------------------------------- */

/* Cheap enough to be recomputed, wherever and in whatever layout it is needed. */
static bool is_remade(const Op *op) {
  return op && (op->kind == OP_fill || op->kind == OP_self_index || op->kind == OP_exists ||
                op->kind == OP_broadcast);
}

static Op *insert_like(Layouts *l, const Op *op, Op *before) {
  Op *copy = ir_op_new(l->k, op->kind, op->at, op->args, op->nargs);
  const Type *type = op->results[0].type;
  for (int i = 0; i < op->nattrs; i++) op_set_attr(l->k, copy, attr_copy(l->k, &op->attrs[i]));
  ir_set_results(l->k, copy, &type, 1);
  copy->results[0].name = op->results[0].name;
  copy->results[0].varying = op->results[0].varying;
  ir_insert_before(before, copy);
  return copy;
}

/* ---- tiles that are larger outside a loop than inside ---------------------------------------- */

static bool same_range(Layouts *l, const Op *a, const Op *b, const Sym *dim) {
  TileRange x, y;
  return distribute_dim(l->d, a, dim, &x) && distribute_dim(l->d, b, dim, &y) &&
         x.start == y.start && x.extent == y.extent;
}

static bool same_ranges(Layouts *l, const Op *a, const Op *b, const Type *t) {
  for (int i = 0; i < t->rank; i++)
    if (!same_range(l, a, b, t->dims[i])) return false;
  return true;
}

static bool same_extents(Layouts *l, const Op *a, const Op *b, const Type *t, bool *same) {
  *same = true;
  for (int i = 0; i < t->rank; i++) {
    TileRange x, y;
    if (!distribute_dim(l->d, a, t->dims[i], &x) || !distribute_dim(l->d, b, t->dims[i], &y))
      return false;
    *same = *same && x.extent == y.extent;
  }
  return true;
}

/* A sum, product or scan along a dimension needs all of it. What a thread holds depends on the
 * layout, and so on the whole tile. */
static bool needs_whole(Layouts *l, const Op *op, const Op *where) {
  const Attr *along = op_attr(op, ATTR_dim);
  bool holds = op->kind == OP_extract || op->kind == OP_extract_slice || op->kind == OP_reshape;
  for (int i = 0; !holds && i < op->nargs; i++)
    for (int j = 0; j < op->args[i]->type->rank; j++) {
      const Sym *dim = op->args[i]->type->dims[j];
      bool stays = type_has_dim(op->results[0].type, dim) && !(along && along->sym == dim);
      if (!stays && !same_range(l, op, where, dim)) return true;
    }
  return holds;
}

static bool is_before(const Op *a, const Op *b) {
  if (a->parent != b->parent) return false;
  while (a && a != b) a = a->next;
  return a != NULL;
}

/* An op that may change the memory after it was read, or how far it extends; NULL: there is none. */
static const Op *changed_after(Layouts *l, const Op *read) {
  const Value *memory = memory_root(read->args[0]);
  const Type *types[] = {read->args[0]->type, read->results[0].type};
  for (const Op *op = ir_first(l->k); op; op = ir_next(op)) {
    const Value *written = memory_written(op);
    const Attr *symbol = op->kind == OP_set_symbol ? op_attr(op, ATTR_symbol) : NULL;
    bool changes = written && memory_root(written) == memory;
    for (int i = 0; symbol && i < 2; i++) changes |= type_has_dim(types[i], symbol->sym);
    if (changes && !is_before(op, read)) return op;
  }
  return NULL;
}

/* One tile of the result can be computed before `where`, with the same value. */
static bool can_be_made(Layouts *l, const Op *op, const Op *where) {
  return op_is_pure(op) && op->nresults == 1 && !needs_whole(l, op, where) &&
         op_same_before(l->d, op, where);
}

/* Coordinates of scratch memory are relative to the tile, which is another one inside the loop. So
 * is a mask: it may leave out what the whole tile does not need. */
static bool can_be_read_again(Layouts *l, const Op *op, const Op *where) {
  return op->kind == OP_read && !op_has(op, ATTR_mask) && !memory_is_scratch(op->args[0]) &&
         !needs_whole(l, op, where) && op_same_before(l->d, op, where) && !changed_after(l, op);
}

/* The loop whose iterations each use a part of a dimension of v. */
static const Op *dividing_loop(const Op *op, const Value *v) {
  for (const Op *loop = op->parent->owner; loop; loop = loop->parent->owner)
    if (loop->kind == OP_for && type_has_dim(v->type, op_attr(loop, ATTR_axis)->sym)) return loop;
  return NULL;
}

static void hint_part(Layouts *l, Diag *d, const Op *op, const Op *made) {
  Diags *diags = &l->k->cx->diags;
  bool staged = made->kind == OP_read && memory_is_scratch(made->args[0]);
  const Op *changed = made->kind == OP_read && !staged ? changed_after(l, made) : NULL;
  if (!op_same_before(l->d, made, op)) {
    diag_hint(diags, d,
              "compute it inside the loop, from a scalar computed before its symbols change");
  } else if (!changed) {
    diag_hint(diags, d, "%s it inside the loop%s", staged ? "read" : "compute",
              staged ? ", or without staging it through shared memory" : "");
  } else {
    diag_note(diags, d, changed->at, "what was read is changed here, so it is not read again");
    diag_hint(diags, d, "read it inside the loop, or copy it to memory that is not written later");
  }
}

static bool fail_part(Layouts *l, const Op *op, const Op *made) {
  Diags *diags = &l->k->cx->diags;
  const Op *loop = dividing_loop(op, &made->results[0]);
  const char *dim = loop ? sym_name(op_attr(loop, ATTR_axis)->sym) : NULL;
  Diag *d = diag_add(diags, DIAG_E0610, op->at,
                     "`%s` uses part of a tile that is computed outside its loop%s%s%s",
                     op_info[op->kind].name, dim ? ": a tile of `" : "", dim ? dim : "",
                     dim ? "` per iteration" : "");
  diag_note(diags, d, made->at, "the tile is computed here, by `%s`", op_info[made->kind].name);
  if (loop) diag_note(diags, d, loop->at, "the loop is here");
  hint_part(l, d, op, made);
  return false;
}

/* A `fill` of a tile over K is all of K outside `for K`, but one tile of it inside: pure values are
 * recomputed where they are used, and what does not change is read again. A tile that only has
 * another position (one coordinate of a batch dimension) is recomputed if possible; constants are
 * unaffected, and reads are not moved. */
static bool localise_operand(Layouts *l, Op *op, int i) {
  Value *v = op->args[i];
  bool same;
  if (v->type->kind != TYPE_tile || !v->def || v->def->parent == op->parent) return true;
  if (!same_extents(l, op, v->def, v->type, &same)) return false;
  bool can = can_be_made(l, v->def, op);
  if (same && (!can || same_ranges(l, v->def, op, v->type))) return true;
  if (!can && !can_be_read_again(l, v->def, op)) return fail_part(l, op, v->def);
  Op *copy = insert_like(l, v->def, op);
  op->args[i] = &copy->results[0];
  for (int j = 0; j < copy->nargs; j++)
    if (!localise_operand(l, copy, j)) return false;
  return true;
}

/* An op that was recomputed everywhere is not needed any more; it may even have no size where it
 * was. */
static void remove_unused(Layouts *l) {
  int *uses = ARENA_ARRAY(l->cx->scratch, int, l->k->nvalues);
  Vec(Op *) ops = {0};
  for (Op *op = ir_first(l->k); op; op = ir_next(op)) {
    vec_push(l->cx->scratch, &ops, op);
    for (int i = 0; i < op->nargs; i++) uses[op->args[i]->id]++;
  }
  for (int n = ops.n - 1; n >= 0; n--) {
    Op *op = ops.at[n];
    bool removable = op_is_pure(op) || op->kind == OP_read;
    if (!removable || op->nresults != 1 || uses[op->results[0].id]) continue;
    for (int i = 0; i < op->nargs; i++) uses[op->args[i]->id]--;
    ir_remove(op);
  }
}

/* A tile along a loop's own axis that it carries is reported later. */
static bool is_of_own_axis(const Op *op, const Value *v) {
  const Op *loop = op->kind == OP_yield ? op->parent->owner : NULL;
  return loop && loop->kind == OP_for && v->type->kind == TYPE_tile &&
         type_has_dim(v->type, op_attr(loop, ATTR_axis)->sym);
}

static bool localise(Layouts *l) {
  for (Op *op = ir_first(l->k); op; op = ir_next(op))
    for (int i = op->body ? op_carried(op) : 0; i < op->nargs; i++)
      if (!is_of_own_axis(op, op->args[i]) && !localise_operand(l, op, i)) return false;
  remove_unused(l);
  ir_renumber(l->k);
  return true;
}

/* ---- conversions ----------------------------------------------------------------------------- */

static void convert_operand(Layouts *l, Op *op, int i, const Layout *wanted);

/* The links of `op` at operand i, with the layout of the other end. */
static void fit_parts(Layouts *l, Op *op) {
  LayoutLinks links = {0};
  layout_links(l->cx->scratch, op, &links);
  for (int i = 0; i < links.n; i++) {
    const LayoutLink *link = &links.at[i];
    Layout wanted;
    if (link->user != op || link->operand < 0 || !link->whole->layout || !link->part->layout)
      continue;
    if (layout_of_part(link, link->whole->layout, link->part->layout->extent, &wanted))
      convert_operand(l, op, link->operand, &wanted);
  }
}

/* Each thread has what it needs, or each wave, whose lanes hold every element once: no thread takes
 * an element that another thread has with a different value. */
static bool stays_in_waves(Layouts *l, const Value *v, const Layout *wanted) {
  const Digits *lanes = &v->layout->part[LAYOUT_LANE];
  bool once = true;
  for (int i = 0; i < lanes->n; i++) once = once && lanes->at[i].stride;
  int bits = dtype_info[v->type->dtype].bits;
  ConvertKind kind = convert_plan_in_waves(l->cx->scratch, v->layout, wanted, bits).kind;
  return kind == CONVERT_NOTHING || kind == CONVERT_REGISTERS || (kind == CONVERT_SHUFFLE && once);
}

static void convert_operand(Layouts *l, Op *op, int i, const Layout *wanted) {
  Value *v = op->args[i];
  if (!v->layout || layout_equal(v->layout, wanted)) return;
  Op *made;
  if (v->varying && (is_remade(v->def) || !stays_in_waves(l, v, wanted))) {
    l->failed = true;
    diag_add(&l->k->cx->diags, DIAG_E0612, op->at,
             "`%s` would need values of other threads that differ between threads",
             op_info[op->kind].name);
    return;
  }
  if (is_remade(v->def)) {
    bool same = op_same_before(l->d, v->def, op);
    made = insert_like(l, v->def, same ? op : v->def->next);
    ir_set_layout(l->k, &made->results[0], wanted);
    fit_parts(l, made);
  } else {
    made = ir_insert(l->k, op, OP_convert, op->at, &v, 1, v->type);
    made->results[0].varying = v->varying;
    ir_set_layout(l->k, &made->results[0], wanted);
  }
  op->args[i] = &made->results[0];
}

/* ---- results that follow --------------------------------------------------------------------- */

static bool is_narrowing(const Op *op) {
  return op->kind == OP_cast && op->results[0].layout && op->args[0]->layout &&
         dtype_info[op->results[0].type->dtype].bits < dtype_info[op->args[0]->type->dtype].bits;
}

/* If the required layout does not consist of blocks, each lane repeats what it holds, and users
 * convert. */
static void follow_repeat(Layouts *l, Op *op, const LayoutLink *link) {
  Layout out;
  const Value *from = op->args[0];
  if (!from->layout || !link->whole->layout) return;
  if (layout_of_part(link, link->whole->layout, from->layout->extent, &out)) return;
  if (layout_of_whole(link, from->layout, link->whole->layout->extent, &out))
    ir_set_layout(l->k, &op->results[0], &out);
}

/* Some lane's elements of the operand are not whole elements of the result: they are converted, to
 * what the result needs or, if its elements are not whole groups either, to groups. */
static void fit_groups(Layouts *l, Op *op, const LayoutLink *link) {
  Layout whole, part;
  const Layout *from = link->whole->layout, *to = link->part->layout;
  if (!layout_of_whole(link, to, from->extent, &whole)) {
    whole = layout_of_groups(link, from, l->machine->lanes, l->machine->waves);
    if (layout_of_part(link, &whole, to->extent, &part)) ir_set_layout(l->k, link->part, &part);
  }
  convert_operand(l, op, 0, &whole);
}

/* Links between operands and results where nothing can be converted in between. */
static void follow_operands(Layouts *l, Op *op) {
  LayoutLinks links = {0};
  if (is_narrowing(op)) ir_set_layout(l->k, &op->results[0], op->args[0]->layout);
  layout_links(l->cx->scratch, op, &links);
  for (int i = 0; i < links.n; i++) {
    const LayoutLink *link = &links.at[i];
    Layout out;
    if (link->repeats) follow_repeat(l, op, link);
    if (link->operand >= 0 || !link->whole->layout || !link->part->layout) continue;
    if (layout_of_part(link, link->whole->layout, link->part->layout->extent, &out))
      ir_set_layout(l->k, link->part, &out);
    else if (link->group > 1) fit_groups(l, op, link);
  }
}

/* ---- ops ------------------------------------------------------------------------------------- */

static void fit_product(Layouts *l, Op *op) {
  Layout wanted;
  for (int i = 0; i < product_acc(op); i++)
    if (anchor_mma(l->d, l->machine, l->cx->scratch, op, i, &wanted)) {
      layout_normalise(&wanted);
      convert_operand(l, op, i, &wanted);
    }
  if (anchor_mma(l->d, l->machine, l->cx->scratch, op, -1, &wanted))
    ir_set_layout(l->k, &op->results[0], &wanted);
}

/* A yield passes on what its loop carries. */
static void fit_yield(Layouts *l, Op *op) {
  Op *owner = op->parent->owner;
  int axis = owner->kind == OP_while ? 1 : 0;
  for (int i = 0; i < owner->nresults; i++)
    if (owner->results[i].layout) convert_operand(l, op, axis + i, owner->results[i].layout);
}

/* ---- writes ---------------------------------------------------------------------------------- */

enum { WIDE_BYTES = 8, TIMES_WIDER = 4 };

/* Lanes that follow each other write elements that do, `vector` each. */
static bool are_neighbours(const Layout *l, int dim, int vector) {
  const Digits *lanes = &l->part[LAYOUT_LANE];
  return lanes->n && lanes->at[0].dim == dim && lanes->at[0].stride == vector &&
         lanes->at[0].radix > 1;
}

/* Whether threads would write elements that are far apart, one by one, and could write many at once in
 * the layout `own`: then it pays to pass the tile through shared memory. */
static bool is_scattered(const Layouts *l, const Value *v, const Layout *own) {
  const Digits *regs = &own->part[LAYOUT_REG];
  int bits = dtype_memory_bits(v->type->dtype), most = l->machine->target->global_access;
  bool fits = layout_elements(own) * bits / 8 <= l->machine->target->shared_most / 2;
  if (!regs->n || !regs->at[0].stride || !fits) return false;
  int dim = regs->at[0].dim, wide = layout_vector(own, dim, bits, most);
  int now = layout_vector(v->layout, dim, bits, most);
  return wide * bits / 8 >= WIDE_BYTES && wide >= TIMES_WIDER * now &&
         !are_neighbours(v->layout, dim, now);
}

/* A tile that is written in another order than it was read, as by a transpose. Results of products are
 * written by other means, and in loops the barriers would cost more. */
static void fit_write(Layouts *l, Op *op) {
  const Value *v = op->args[0], *memory = op->args[1];
  int extent[IR_MAX_RANK];
  bool plain = !l->products && !l->machine->observable && op->parent == l->k->body;
  if (!plain || !v->layout || v->varying || memory_is_scratch(memory)) return;
  if (!distribute_extents(l->d, op, v->type, extent)) return;
  Layout own = anchor_access(l->d, l->machine, op, v->type, memory->type, extent);
  layout_normalise(&own);
  if (is_scattered(l, v, &own)) convert_operand(l, op, 0, &own);
}

static void fit(Layouts *l, Op *op) {
  if (op->kind == OP_write) fit_write(l, op);
  if (op_is_product(op)) fit_product(l, op);
  follow_operands(l, op);
  if (op->kind == OP_yield) fit_yield(l, op);
  else fit_parts(l, op);
}

static bool assign(Layouts *l) {
  Anchors anchors = {0};
  if (!find_anchors(l->d, l->machine, l->cx->scratch, &anchors)) return false;
  const Layout **layout = spread_layouts(l->d, l->machine, &anchors, l->cx->scratch);
  for (Op *op = layout ? ir_first(l->k) : NULL; op; op = ir_next(op)) {
    for (int i = 0; i < op->nresults; i++)
      ir_set_layout(l->k, &op->results[i], layout[op->results[i].id]);
    for (int i = 0; op->body && i < op->body->nargs; i++)
      ir_set_layout(l->k, op->body->args[i], layout[op->body->args[i]->id]);
  }
  return layout != NULL;
}

/* A carried tile has the same extents inside the loop and after it; along the loop's own axis it
 * does not. */
static bool check_carried(Layouts *l, const Op *op) {
  int first = op->kind == OP_while ? 1 : 0;
  for (int i = 0; op->body && i < op->nresults; i++) {
    const Layout *in = op->body->args[first + i]->layout, *out = op->results[i].layout;
    for (int d = 0; in && out && d < in->dims; d++) {
      if (in->extent[d] == out->extent[d]) continue;
      return diag_fail(&l->k->cx->diags, DIAG_E0601, op->at,
                       "`%s`: a tile along the loop's own axis that is carried is not lowered yet",
                       op_info[op->kind].name);
    }
  }
  return true;
}

/* A lane-observable kernel runs on exactly the threads that it declares; each of its waves is one
 * machine wave or several. An author's `machine` row may say otherwise. */
static bool check_machine(const Layouts *l) {
  const Machine *m = l->machine;
  const HardwareSpec *hardware = kernel_hardware(l->k);
  int64_t wave = (int64_t)m->lanes * m->waves; /* threads of one declared wave */
  bool divides = hardware->threads % m->lanes == 0;
  for (int i = 0; i < 3; i++) {
    divides = divides && wave % anchor_waves_on(l->d, i) == 0;
    wave /= anchor_waves_on(l->d, i);
  }
  if (!m->observable || (divides && wave == hardware->threads)) return true;
  Diag *d =
      diag_add(&l->k->cx->diags, DIAG_E0212, kernel_constraint(l->k, CONSTRAINT_machine, NULL)->at,
               "%d x %d lanes are not the threads that the kernel declares, in waves of %d",
               m->waves, m->lanes, hardware->threads);
  diag_note(&l->k->cx->diags, d, kernel_constraint(l->k, CONSTRAINT_hardware, NULL)->at,
            "the hardware row");
  return false;
}

/* Products of a loop that begin with the same constant each get their own: a schedule may compute one of
 * them in an earlier iteration than the other. */
static void part_constants(Layouts *l, Op *op) {
  Value **acc = op_is_product(op) ? &op->args[product_acc(op)] : NULL;
  Op *fill = acc ? (*acc)->def : NULL;
  if (!fill || fill->kind != OP_fill || fill->parent != op->parent || op->parent == l->k->body)
    return;
  if (ir_count_uses(op->parent, *acc) < 2) return;
  Op *own = insert_like(l, fill, op);
  ir_set_layout(l->k, &own->results[0], (*acc)->layout);
  *acc = &own->results[0];
}

bool pass_layouts(Kernel *k, PassCtx *cx) {
  if (!cx->machine || !cx->target || k->level != LEVEL_TILE) return true;
  Layouts l = {.k = k, .cx = cx, .machine = cx->machine, .d = cx->facts.distribute};
  for (const Op *op = ir_first(k); op; op = ir_next(op)) l.products |= op_is_product(op);
  if (!check_machine(&l) || !localise(&l) || !assign(&l)) return false;
  for (const Op *op = ir_first(k); op; op = ir_next(op))
    if (!check_carried(&l, op)) return false;
  for (Op *op = ir_first(k); op; op = ir_next(op)) fit(&l, op);
  for (Op *op = ir_first(k); op; op = ir_next(op)) part_constants(&l, op);
  return !l.failed;
}
