/* isa_report.c: what went wrong, and where. */
#include <stdio.h>
#include <string.h>

#include "isa/isa_state.h"

/* The first fault of a workgroup counts: what follows it is not to be trusted. */
void isa_fault(IsaWave *w, IsaFaultKind kind, int lane, const char *fmt, ...) {
  IsaFault *f = w->group->fault;
  w->stop = true;
  if (f->kind != ISA_OK) return;
  const IsaInstr *i = &w->k->code[w->pc > 0 ? w->pc - 1 : 0];
  *f = (IsaFault){.kind = kind, .pc = i->pc, .wave = w->index, .lane = lane};
  memcpy(f->group, w->group->id, sizeof f->group);
  snprintf(f->at, sizeof f->at, "%s", i->text);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(f->text, sizeof f->text, fmt, ap);
  va_end(ap);
}

const IsaLine *isa_line(const IsaImage *image, uint64_t pc) {
  const IsaLine *last = NULL;
  for (int i = 0; i < image->nlines; i++)
    if (image->lines[i].pc <= pc && (!last || image->lines[i].pc >= last->pc))
      last = &image->lines[i];
  return last;
}

const char *isa_fault_text(Arena *a, const IsaKernel *k, const IsaFault *f) {
  const IsaLine *line = isa_line(&k->image, f->pc);
  const char *place = line ? arena_printf(a, ", %s:%u", line->file, line->line) : "";
  const char *lane = f->lane < 0 ? "" : arena_printf(a, ", lane %d", f->lane);
  return arena_printf(a, "kernel `%s`%s, pc 0x%llx (`%s`), workgroup (%u, %u, %u), wave %d%s: %s",
                      k->image.name, place, (unsigned long long)f->pc, f->at, f->group[0],
                      f->group[1], f->group[2], f->wave, lane, f->text);
}
