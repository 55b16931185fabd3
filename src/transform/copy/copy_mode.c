/* copy_mode.c: see copy_mode.h. */
#include "transform/copy/copy_mode.h"

#include "ir/dtype.h"
#include "ir/region_facts.h"
#include "transform/copy/copy_box.h"

CopyModes copy_modes(Kernel *k, const PassCtx *cx) {
  return (CopyModes){
      .k = k,
      .d = cx->facts.distribute,
      .m = cx->facts.memory_uses,
      .bounds = cx->facts.in_bounds,
      .machine = cx->machine,
  };
}

bool copy_slot_layout(const Distribution *d, const Op *alloc, MemLayout *out) {
  const Type *t = alloc->results[0].type;
  int extent[IR_MAX_RANK];
  if (alloc_slot_layout(alloc, out)) return true;
  if (op_has(alloc, ATTR_physical)) return false;
  for (int i = 0; i < t->rank; i++) {
    TileRange range;
    int64_t n;
    if (!distribute_dim(d, alloc, t->dims[i], &range)) return false;
    const Sym *e = sym_simplify(d->k->cx->sym, d->facts, range.extent);
    if (!e || !sym_is_int(e, &n) || n < 1 || n > 1 << 16) return false;
    extent[i] = (int)n;
  }
  *out = mem_rows(t->rank, extent, dtype_memory_bits(t->dtype), 0);
  return true;
}

/* ---- whether a mode is possible ---- */

bool copy_wants_direct(const CopyModes *w) {
  return target_has(w->machine->target, FEATURE_DIRECT_LDS) &&
         distribute_is_on(w->d, CONSTRAINT_boxes);
}

const char *copy_why_not_async(const CopyModes *w, const Op *copy, const CopyPlan *plan) {
  if (!target_has(w->machine->target, FEATURE_CP_ASYNC))
    return "the machine has no asynchronous copies";
  if (!copy_is_in(copy)) return "only copies to shared memory can be asynchronous";
  return plan->exact ? NULL : "the tile does not divide evenly among the threads";
}

static void set_mode(const CopyModes *w, Op *copy, const char *mode) {
  op_set_attr(w->k, copy, (Attr){.key = ATTR_mode, .text = intern(&w->k->cx->names, mode)});
}

/* NULL: it may be direct. */
static const char *why_not_direct(const CopyModes *w, const Op *copy, const MemLayout *slot,
                                  DirectPlan *plan) {
  if (!copy_is_in(copy)) return "it copies from shared memory";
  if (copy->nargs > 2) return "its coordinates come from memory";
  if (!slot) return "its tile size is unknown";
  *plan = copy_direct(w->machine, w->bounds[copy->id], slot);
  return plan->bytes ? NULL : "lanes cannot copy 4 bytes of whole elements each";
}

/* Whether loads that end in shared memory are requested and possible. */
static bool choose_direct(const CopyModes *w, Op *copy, const MemLayout *slot, const char **why) {
  Diags *diags = &w->k->cx->diags;
  DirectPlan plan;
  if (!copy_wants_direct(w)) return false;
  if ((*why = why_not_direct(w, copy, slot, &plan))) return false;
  set_mode(w, copy, "direct");
  const AccessBounds *b = w->bounds[copy->id];
  const char *narrow = copy_why_not_wider(diags->arena, w->machine, b, slot);
  diag_add(diags, DIAG_R0607, copy->at, "`%s` is copied by %d-byte loads to shared memory%s%s",
           memory_name(w->k, b->access.memory), plan.bytes, narrow ? ": " : "",
           narrow ? narrow : "");
  return true;
}

/* Whether waves that only copy may make it before they fill the rings of a loop that follows. */
static bool may_be_served(const Op *copy) {
  if (op_outermost_loop(copy)) return false;
  for (const Op *op = copy->next; op; op = op->next)
    for (const Op *in = op->kind == OP_for ? op->body->first : NULL; in; in = in->next)
      if (in->kind == OP_copy && copy_is_in(in)) return true;
  return false;
}

static bool is_in_for(const Op *copy) {
  return copy->parent->owner && copy->parent->owner->kind == OP_for;
}

static const char *why_no_box(const CopyModes *w, const Op *copy, const MemLayout *slot,
                              CopyBox *box) {
  const AccessBounds *b = w->bounds[copy->id];
  if (distribute_is_off(w->d, CONSTRAINT_boxes)) return "the kernel disables it";
  if (!copy_is_in(copy)) return "it copies from shared memory";
  if (!is_in_for(copy) && !may_be_served(copy)) return "it is not prefetched by a loop";
  if (copy->nargs > 2) return "its coordinates come from memory";
  if (b->access.memory->def || b->access.memory->owner != w->k->body) return "it is loop-carried";
  /* The copy engine reads what was there before the kernel began. */
  if (memory_is_stored_to(w->m, b->access.memory, NULL)) return "the kernel writes to it";
  const char *why = copy_box(w->d, b, slot, box);
  return why ? why : copy_box_tensor(w->d, b, box);
}

/* ---- the choice ---- */

static void remark_boxes(const CopyModes *w, const Op *copy, const CopyBox *box) {
  Diags *diags = &w->k->cx->diags;
  StrBuf text = {.arena = diags->arena};
  for (int m = 0; m < box->rank; m++) sb_printf(&text, "%s%d", m ? " x " : "", box->extent[m]);
  const char *swizzle =
      box->span ? arena_printf(diags->arena, ", swizzled over %d bytes", box->span) : "";
  const char *end = box->clip >= 0
                        ? arena_printf(diags->arena, ", up to %s", sym_text(diags->arena, box->end))
                        : "";
  diag_add(diags, DIAG_R0607, copy->at, "`%s` is copied by TMA in boxes of %s %s%s%s",
           memory_name(w->k, w->bounds[copy->id]->access.memory), sb_text(&text),
           box->pixels.walk.dims ? "pixels and channels (im2col)" : "elements", swizzle, end);
}

void copy_remark_box(const CopyModes *w, const Op *copy) {
  MemLayout slot;
  CopyBox box;
  if (copy_slot_layout(w->d, copy->args[1]->def, &slot) && !why_no_box(w, copy, &slot, &box))
    remark_boxes(w, copy, &box);
}

static void remark_threads(const CopyModes *w, const Op *copy, int bytes, const char *why,
                           const char *no_box) {
  Diags *diags = &w->k->cx->diags;
  const char *name = memory_name(w->k, w->bounds[copy->id]->access.memory);
  Diag *d = why ? diag_add(diags, DIAG_R0607, copy->at,
                           "`%s` is copied by %d-byte loads and stores: %s", name, bytes, why)
                : diag_add(diags, DIAG_R0607, copy->at,
                           "`%s` is copied asynchronously, %d bytes at a time", name, bytes);
  if (no_box) diag_note(diags, d, (Span){0}, "not by TMA: %s", no_box);
}

/* Boxes begin at multiples of 128 bytes, in every slot of a ring, as allocations with a `memory`
 * do. */
static void set_box(const CopyModes *w, Op *copy, Op *alloc, const MemLayout *slot) {
  set_mode(w, copy, "tma");
  if (op_has(alloc, ATTR_memory)) return;
  const MemLayout *memory = arena_copy(w->k->arena, slot, sizeof *slot);
  op_set_attr(w->k, alloc, (Attr){.key = ATTR_memory, .memory = memory});
}

bool copy_choose_mode(const CopyModes *w, Op *copy, const char *no_box) {
  const AccessBounds *b = w->bounds[copy->id];
  const Value *scratch = copy->args[copy_is_in(copy) ? 1 : 0];
  CopyPlan plan;
  CopyBox box;
  MemLayout slot;
  bool known = scratch->def && copy_slot_layout(w->d, scratch->def, &slot);
  if (!no_box && target_has(w->machine->target, FEATURE_TMA)) {
    no_box = known ? why_no_box(w, copy, &slot, &box) : "its tile size is unknown";
    if (!no_box) set_box(w, copy, scratch->def, &slot);
    if (!no_box && is_in_for(copy)) remark_boxes(w, copy, &box); /* of others, `stages` decides */
    if (!no_box) return true;
  }
  const char *no_direct = NULL;
  if (choose_direct(w, copy, known ? &slot : NULL, &no_direct)) return true;
  if (!copy_plan(w->d, w->machine, b, &plan)) return false;
  int width = known ? copy_width(&plan, b, &slot) : 1;
  int bits = dtype_memory_bits(scratch->type->dtype);
  const char *why = no_direct ? no_direct : copy_why_not_async(w, copy, &plan);
  if (!why && width * bits / 8 < 4) why = "4 contiguous bytes are not guaranteed";
  set_mode(w, copy, why ? "load" : "async");
  remark_threads(w, copy, why ? (plan.width * bits + 7) / 8 : width * bits / 8, why, no_box);
  return true;
}
