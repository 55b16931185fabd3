/* loops_walk.c: where the lanes of a wave access LDS in a loop, and how many cycles that takes.
 *
 * The integer arithmetic on one path from the kernel's entry around the loop is executed for the
 * first wave. What memory holds is unknown, and so is everything computed from it; addresses in LDS
 * seldom depend on it. */
#include <string.h>

#include "isa/isa_state.h"
#include "isa/loops/loops.h"
#include "target/banks.h"

typedef struct Walk {
  IsaWave *w;
  bool knows_vcc, knows_scc;
  const TargetInfo *machine;
} Walk;

/* ---- one instruction ---- */

static bool is_vcc(const IsaArg *a) {
  return a->kind == ISA_S && (a->index == ISA_VCC || a->index == ISA_VCC + 1);
}

static bool is_exec(const IsaArg *a) {
  return a->kind == ISA_S && (a->index == ISA_EXEC || a->index == ISA_EXEC + 1);
}

static bool reads_scc(const IsaInstr *i) {
  return strstr(i->row->name, "cselect") || strstr(i->row->name, "addc") ||
         strstr(i->row->name, "subb") || strstr(i->row->name, "s_cmov");
}

static bool is_known(const Walk *x, const IsaInstr *i) {
  for (int n = 0; n < i->nreads; n++)
    for (int r = i->reads[n].first; r < i->reads[n].first + i->reads[n].count; r++)
      if (x->w->reg[r] != ISA_READY) return false;
  for (int n = 0; n < i->ns; n++)
    if (is_vcc(&i->s[n]) && !x->knows_vcc) return false;
  return x->knows_scc || !reads_scc(i);
}

static void set_results(Walk *x, const IsaInstr *i, bool known) {
  for (int n = 0; n < i->nwrites; n++)
    for (int r = i->writes[n].first; r < i->writes[n].first + i->writes[n].count; r++)
      x->w->reg[r] = known ? ISA_READY : ISA_NEVER;
  for (int n = 0; n < i->nd; n++)
    if (is_vcc(&i->d[n])) x->knows_vcc = known;
  if (i->row->scalar) x->knows_scc = known;
}

/* Arithmetic; all lanes stay active. */
static void compute(Walk *x, const IsaInstr *i) {
  bool known = (i->row->body || i->row->scalar || i->step == isa_vector_step) && is_known(x, i);
  for (int n = 0; n < i->nd; n++)
    if (is_exec(&i->d[n])) return;
  if (strstr(i->row->name, "saveexec") || strncmp(i->row->name, "v_cmpx", 6) == 0) known = false;
  else if (strncmp(i->row->name, "v_readfirstlane", 15) == 0) known = is_known(x, i);
  if (known) i->step(x->w, i);
  set_results(x, i, known);
  if (i->other) set_results(x, i->other, known);
}

/* Cycles of an access whose addresses are known; 0: they are not. */
static int bank_cycles(Walk *x, const IsaInstr *i, bool is_read) {
  uint32_t at[ISA_LANES];
  int address[BANK_LANES], cycles = 0, bytes = i->row->param[0];
  if (!i->ns || i->s[0].kind != ISA_V || x->w->reg[i->s[0].index] != ISA_READY) return 0;
  if (bytes & (bytes - 1)) return 0;
  for (int e = 0; isa_lds_addresses(x->w, i, e, at); e++) {
    for (int l = 0; l < x->w->k->lanes; l++) {
      address[l] = (int)(at[l] & 0xfffff);
      if (address[l] % bytes) return 0; /* split by the hardware */
    }
    cycles += bank_cost(x->machine, address, x->w->k->lanes, bytes, is_read).cycles;
  }
  return cycles;
}

/* Two addresses are served like stores. */
static bool is_plain_read(const char *text) {
  bool is_read = strncmp(text, "ds_read", 7) == 0 || strncmp(text, "ds_load", 7) == 0;
  return is_read && strncmp(text, "ds_read2", 8) != 0 && strncmp(text, "ds_load_2", 9) != 0;
}

static void step(Walk *x, const LoopInstr *at, const IsaInstr *i, int *lds) {
  switch (at->kind) {
  case LOOP_LDS:
    *lds = bank_cycles(x, i, is_plain_read(at->text));
    set_results(x, i, false);
    break;
  case LOOP_VALU:
  case LOOP_SALU: compute(x, i); break;
  case LOOP_MATRIX:
  case LOOP_MEMORY:
  case LOOP_SCALAR_MEMORY: set_results(x, i, false); break;
  case LOOP_WAIT:
  case LOOP_BARRIER:
  case LOOP_BRANCH:
  case LOOP_OTHER:
  case LOOP_KINDS: break;
  }
}

/* ---- the path ---- */

/* before[i]: the instruction before `i` on a shortest path from the entry; -1: the entry. */
static void find_paths(const LoopCode *code, int *before, int *queue, bool *seen) {
  int n = 0;
  queue[n++] = 0, seen[0] = true, before[0] = -1;
  for (int head = 0; head < n; head++) {
    const LoopInstr *i = &code->at[queue[head]];
    int next[2] = {i->target, i->ends ? -1 : queue[head] + 1};
    for (int e = 0; e < 2; e++) {
      if (next[e] < 0 || next[e] >= code->n || seen[next[e]]) continue;
      seen[next[e]] = true, before[next[e]] = queue[head];
      queue[n++] = next[e];
    }
  }
}

/* From the entry to the loop, then through it in the order of the code. */
static int path_of(const LoopCode *code, int loop, const int *before, int *path) {
  int n = 0;
  for (int i = before[code->loops[loop].header]; i >= 0; i = before[i]) path[n++] = i;
  for (int i = 0; i < n / 2; i++) {
    int other = path[i];
    path[i] = path[n - 1 - i], path[n - 1 - i] = other;
  }
  for (int i = 0; i < code->n; i++)
    if (code->at[i].loop == loop) path[n++] = i;
  return n;
}

/* ---- loops ---- */

static IsaMachine *machine_for(Arena *a, const IsaLaunch *l) {
  uint8_t *memory = arena_alloc(a, isa_machine_bytes(l) + 64);
  return isa_machine(memory + (64 - (uintptr_t)memory % 64) % 64, l);
}

void loops_walk(Arena *a, const IsaKernel *k, LoopCode *code) {
  if (k->n != code->n) return;
  static const uint64_t args[512];
  IsaLaunch l = {.kernel = k, .grid = {1, 1, 1}, .block = {(unsigned)k->lanes, 1, 1}};
  l.args = args, l.args_bytes = sizeof args;
  IsaMachine *m = machine_for(a, &l);
  IsaFault fault;
  size_t n = (size_t)code->n + 1;
  int *lds = ARENA_ARRAY(a, int, n), *before = ARENA_ARRAY(a, int, n);
  int *path = ARENA_ARRAY(a, int, 2 * n), *queue = ARENA_ARRAY(a, int, n);
  find_paths(code, before, queue, ARENA_ARRAY(a, bool, n));
  for (int loop = 0; loop < code->nloops; loop++) {
    Walk x = {.w = m->group.waves,
              .machine = target_find(k->image.chip).machine};
    isa_start(&m->group, &l, (unsigned[3]){0}, &fault);
    int steps = path_of(code, loop, before, path);
    for (int i = 0; i < steps; i++) step(&x, &code->at[path[i]], &k->code[path[i]], &lds[path[i]]);
  }
  code->lds = lds;
}
