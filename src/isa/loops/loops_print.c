/* loops_print.c: the loops of a kernel as text. */
#include <string.h>

#include "isa/loops/loops.h"

static const struct {
  const char *name;
  int unit; /* LoopUnit that it occupies; -1: none of its own */
} kind_rows[LOOP_KINDS] = {{"matrix", LOOP_UNIT_MATRIX},
                           {"VALU", LOOP_UNIT_VALU},
                           {"SALU", LOOP_UNIT_SALU},
                           {"LDS", LOOP_UNIT_LDS},
                           {"memory", LOOP_UNIT_MEMORY},
                           {"scalar memory", -1},
                           {"waits", -1},
                           {"barriers", -1},
                           {"branches", -1},
                           {"other", -1}};

static const char *const unit_names[LOOP_UNITS] = {
    "the matrix unit", "the VALU", "the SALU", "LDS", "the vector cache", "issue"};

static void print_row(StrBuf *out, const char *name, int count, int matrices,
                      const double *cycles) {
  sb_printf(out, "    %-14s %7d %11.2f", name, count, (double)count / matrices);
  if (cycles) sb_printf(out, " %9.0f", *cycles);
  sb_putc(out, '\n');
}

/* Each matrix instruction of the loop, and how often it occurs. */
static void print_matrices(StrBuf *out, const LoopCode *code, int loop) {
  for (int i = 0; i < code->n; i++) {
    const LoopInstr *one = &code->at[i];
    int times = 0, before = 0;
    if (one->loop != loop || one->kind != LOOP_MATRIX) continue;
    for (int j = 0; j < code->n; j++) {
      const LoopInstr *other = &code->at[j];
      bool same = other->loop == loop && other->kind == LOOP_MATRIX && other->name == one->name &&
                  strncmp(other->text, one->text, (size_t)one->name) == 0;
      times += same, before += same && j < i;
    }
    if (!before) sb_printf(out, ", %d %.*s", times, one->name, one->text);
  }
  sb_putc(out, '\n');
}

static void print_bound(StrBuf *out, const LoopMix *m) {
  double bound = m->cycles[m->bound], matrix = m->cycles[LOOP_UNIT_MATRIX];
  if (m->unknown) sb_printf(out, "  the duration of `%s` is not known: no bound\n", m->unknown);
  else
    sb_printf(out, "  bound: %s, %.0f cycles per iteration; matrix share %.2f\n",
              unit_names[m->bound], bound, bound > 0 ? matrix / bound : 0);
}

static void print_loop(StrBuf *out, const LoopKernel *k, const LoopRoom *room, const LoopCode *code,
                       int loop) {
  const LoopRange *l = &code->loops[loop];
  LoopMix m = loops_count(k, room, code, loop);
  int matrices = m.count[LOOP_MATRIX];
  if (!matrices) return;
  sb_printf(out, "\n  loop 0x%x to 0x%x", l->first, l->last);
  print_matrices(out, code, loop);
  sb_printf(out, "    %-14s %7s %11s %9s\n", "", "count", "per matrix", "cycles");
  for (int i = 0; i < LOOP_KINDS; i++) {
    int unit = kind_rows[i].unit;
    print_row(out, kind_rows[i].name, m.count[i], matrices, unit < 0 ? NULL : &m.cycles[unit]);
  }
  print_row(out, "all", m.n, matrices, &m.cycles[LOOP_UNIT_ISSUE]);
  sb_printf(out, "  of VALU: %d slow, %d accumulator copies; of memory: %d scratch\n",
            m.transcendental, m.copies, m.scratch);
  if (m.count[LOOP_LDS])
    sb_printf(out, "  of LDS: %d cycles of bank conflicts; %d accesses at unknown addresses\n",
              m.conflicts, m.unknown_lds);
  print_bound(out, &m);
}

void loops_print(StrBuf *out, const LoopKernel *k, const LoopCode *code) {
  LoopRoom room = loops_room(k);
  int n = 0;
  sb_printf(out, "kernel %s: %s, %u threads, %d waves\n", k->image->name, k->image->chip,
            k->threads, room.waves_per_group);
  sb_printf(out,
            "  registers: %u vector (%u of them accumulation), %u scalar; spills: %u vector, %u "
            "scalar\n",
            k->vector, k->accumulation, k->scalar, k->vector_spills, k->scalar_spills);
  sb_printf(out, "  LDS %u bytes, scratch %u bytes; waves per SIMD: %d, limited by %s\n",
            k->image->group_bytes, k->image->private_bytes, room.waves, room.limit);
  for (int i = 0; i < code->nloops; i++) {
    size_t before = out->n;
    print_loop(out, k, &room, code, i);
    n += out->n > before;
  }
  if (!n) sb_puts(out, "  no loop contains matrix instructions\n");
}
