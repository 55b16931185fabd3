/* api_copy.c: copies a kernel to another context.
 *
 * A context belongs to one thread. A kernel that is to run while others are still being built gets
 * a context of its own: it is printed and parsed there, and what text does not carry (places in the
 * user's sources, missing names) is copied from the original, op by op. */
#include "driver/api.h"

typedef struct Copying {
  const Context *from;
  Context *to;
  uint32_t *file; /* by file of `from`: its number in `to` + 1 */
} Copying;

static Span span_of(Copying *c, Span at) {
  if (!at.file || at.file > (uint32_t)c->from->sources.files.n) return (Span){0};
  uint32_t *file = &c->file[at.file];
  if (!*file) {
    const SourceFile *f = &c->from->sources.files.at[at.file - 1];
    *file = 1 + sources_file(&c->to->sources, f->name, f->given ? f->text : NULL);
  }
  at.file = *file - 1;
  return at;
}

static void copy_name(Kernel *k, Value *to, const Value *from) {
  to->name = from->name ? arena_strdup(k->arena, from->name) : NULL;
}

static void copy_op(Copying *c, Kernel *k, Op *to, const Op *from) {
  to->at = span_of(c, from->at);
  for (int i = 0; i < to->nresults; i++) copy_name(k, &to->results[i], &from->results[i]);
  for (int i = 0; to->body && i < to->body->nargs; i++)
    copy_name(k, to->body->args[i], from->body->args[i]);
}

static void copy_places(Copying *c, Kernel *k, const Kernel *from) {
  k->at = span_of(c, from->at);
  for (int i = 0; i < k->params.n; i++) k->params.at[i].at = span_of(c, from->params.at[i].at);
  for (int i = 0; i < k->constraints.n; i++)
    k->constraints.at[i].at = span_of(c, from->constraints.at[i].at);
  const Op *other = ir_first(from);
  for (Op *op = ir_first(k); op; op = ir_next(op), other = ir_next(other)) {
    WV_ASSERT(other && op->kind == other->kind); /* every print parses to an equal kernel */
    copy_op(c, k, op, other);
  }
}

static Kernel *copy_kernel(Copying *c, const Kernel *from) {
  Arena *a = arena_new();
  StrBuf text = {.arena = a};
  ir_print(&text, from);
  Diag *before = c->to->diags.last;
  KernelList list = ir_parse(c->to, from->name, sb_text(&text));
  arena_free(a);
  if (list.n != 1) return NULL;
  diags_cut(&c->to->diags, before); /* warnings were given for the original */
  copy_places(c, list.at[0], from);
  return list.at[0];
}

static wv_kernel *refuse_broken(const wv_kernel *from, wv_ctx *to) {
  diag_add(&to->cx->diags, DIAG_E0002, (Span){0}, "this kernel can no longer be used: %s",
           from->cx->trouble.text);
  return NULL;
}

wv_kernel *wv_kernel_copy(wv_kernel *from, wv_ctx *to) {
  API_CHANGES(to, NULL);
  if (!api_expected(to, api_is(from, HANDLE_KERNEL), "a kernel")) return NULL;
  if (from->is_broken) return refuse_broken(from, to);
  api_attempt(to, from->k, "--emit=none");
  Arena *a = arena_new();
  Copying c = {from->k->cx, to->cx, NULL};
  c.file = ARENA_ARRAY(a, uint32_t, c.from->sources.files.n + 1);
  Kernel *k = copy_kernel(&c, from->k);
  wv_kernel *handle = k ? api_kernel(to, k) : NULL;
  if (handle && from->tiles) handle->tiles = copy_kernel(&c, from->tiles);
  if (handle && from->plain && (handle->plain = copy_kernel(&c, from->plain)))
    handle->plain_target = arena_strdup(k->arena, from->plain_target);
  arena_free(a);
  return handle;
}
