/* llvm.c: lines of text, and the arguments of a kernel. The other files of this folder emit the ops
 * that all machines have in common. */
#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "backend/llvm/llvm_state.h"

/* ---- writing ---- */

bool llvm_fail(Llvm *p, const Op *op, const char *what) {
  if (!p->failed)
    diag_add(&p->k->cx->diags, DIAG_E0601, op ? op->at : p->k->at,
             "`%s`: %s is not supported on %s yet", op ? op_info[op->kind].name : p->k->name, what,
             p->machine->called);
  p->failed = true;
  return false;
}

const char *llvm_new(Llvm *p) { return arena_printf(p->arena, "%%v%d", p->names++); }

WV_PRINTF(3, 0)
static void write_line(Llvm *p, const char *name, const char *format, va_list ap) {
  sb_puts(&p->body, "  ");
  if (name) sb_printf(&p->body, "%s = ", name);
  sb_puts(&p->body, arena_vprintf(p->arena, format, ap));
  sb_puts(&p->body, p->place);
  sb_putc(&p->body, '\n');
  p->lines++;
}

void llvm_line(Llvm *p, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  write_line(p, NULL, format, ap);
  va_end(ap);
}

const char *llvm_let(Llvm *p, const char *format, ...) {
  const char *name = llvm_new(p);
  va_list ap;
  va_start(ap, format);
  write_line(p, name, format, ap);
  va_end(ap);
  return name;
}

void llvm_declare(Llvm *p, const char *text) {
  for (int i = 0; i < p->declared.n; i++)
    if (strcmp(p->declared.at[i], text) == 0) return;
  vec_push(p->arena, &p->declared, text);
}

const char *llvm_call(Llvm *p, const char *result, const char *name, const char *types,
                      const char *args) {
  llvm_declare(p, arena_printf(p->arena, "declare %s @%s(%s)", result, name, types));
  return llvm_let(p, "call %s @%s(%s)", result, name, args);
}

void llvm_call_void(Llvm *p, const char *name, const char *types, const char *args) {
  llvm_declare(p, arena_printf(p->arena, "declare void @%s(%s)", name, types));
  llvm_line(p, "call void @%s(%s)", name, args);
}

const char *llvm_label(Llvm *p, const char *what) {
  return arena_printf(p->arena, "%s%d", what, p->labels++);
}

void llvm_block(Llvm *p, const char *label) {
  sb_printf(&p->body, "%s:\n", label);
  p->block = label;
  p->lines = 0;
}

/* LLVM merges blocks that only a `br` separates, but never across inline assembly. */
void llvm_limit_block(Llvm *p) {
  if (!p->most_lines || p->lines < p->most_lines) return;
  const char *next = llvm_label(p, "more");
  llvm_line(p, "callbr void asm sideeffect \"\", \"\"() to label %%%s []", next);
  llvm_block(p, next);
}

/* ---- arguments ---- */

static bool same_slot(const LlvmSlot *a, const LlvmSlot *b) {
  return a->kind == b->kind && a->param == b->param && a->value == b->value && a->bytes == b->bytes;
}

const char *llvm_slot(Llvm *p, LlvmSlot slot) {
  int i = 0;
  while (i < p->slots.n && !same_slot(&p->slots.at[i], &slot)) i++;
  if (i == p->slots.n) vec_push(p->arena, &p->slots, slot);
  return arena_printf(p->arena, "%%arg%d", i);
}

void llvm_open_params(Llvm *p) {
  const Region *body = p->k->body;
  for (int i = 0; i < body->nargs; i++) {
    const Value *v = body->args[i];
    Held *h = llvm_held_new(p, v);
    if (v->type->kind == TYPE_mem) {
      h->space = p->machine->global;
      h->base = llvm_slot(p, (LlvmSlot){.kind = LLVM_POINTER, .param = i, .bytes = 8});
      continue;
    }
    DType t = v->type->dtype;
    int bytes = p->machine->narrow && llvm_elem_bits(t) <= 32 ? 4 : 8;
    const char *name =
        llvm_slot(p, (LlvmSlot){.kind = LLVM_SCALAR, .param = i, .dtype = t, .bytes = bytes});
    llvm_held_set(p, h, 1, arena_copy(p->arena, &name, sizeof name));
    if (p->k->params.at[i].binds) llvm_define(p, p->k->params.at[i].binds, llvm_number_of(p, v));
  }
}

/* Any name may be quoted; characters that cannot be quoted are dropped. */
const char *llvm_entry_name(Llvm *p) {
  char *name = arena_printf(p->arena, "wave_%s", p->k->name);
  for (char *at = name; *at; at++)
    if (!isalnum((unsigned char)*at)) *at = '_';
  return name;
}
