/* isa_flow.c: branches, barriers, the end of a program, the MODE register; and hints, which do
 * nothing here. */
#include <stdlib.h>
#include <string.h>

#include "isa/isa_state.h"

void isa_nothing_step(IsaWave *w, const IsaInstr *i) { (void)w, (void)i; }

/* ---- branches ---- */

typedef enum FlowIf {
  FLOW_ALWAYS,
  FLOW_SCC0,
  FLOW_SCC1,
  FLOW_VCCZ,
  FLOW_VCCNZ,
  FLOW_EXECZ,
  FLOW_EXECNZ
} FlowIf;

static bool holds(const IsaWave *w, FlowIf condition) {
  uint64_t vcc = w->s[ISA_VCC] | (w->k->lanes == 64 ? (uint64_t)w->s[ISA_VCC + 1] << 32 : 0);
  switch (condition) {
  case FLOW_ALWAYS: return true;
  case FLOW_SCC0: return !w->scc;
  case FLOW_SCC1: return w->scc;
  case FLOW_VCCZ: return !vcc;
  case FLOW_VCCNZ: return vcc;
  case FLOW_EXECZ: return !isa_exec(w);
  case FLOW_EXECNZ: return isa_exec(w);
  }
  return false;
}

static void step_branch(IsaWave *w, const IsaInstr *i) {
  if (holds(w, (FlowIf)i->row->param[0])) w->pc = i->target;
}

/* To an address: branches that are longer than their 16 bits allow. */
static void step_jump(IsaWave *w, const IsaInstr *i) {
  const IsaKernel *k = w->k;
  uint64_t to = isa_read_scalar(w, &i->s[0]) - (uint64_t)(uintptr_t)k->image.code;
  int low = 0, high = k->n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (k->code[middle].pc < to) low = middle + 1;
    else high = middle;
  }
  if (low < k->n && k->code[low].pc == to && k->code[low].msb == i->msb) w->pc = low;
  else isa_fault(w, ISA_OUTSIDE, -1, "a jump to where no instruction of the kernel begins");
}

bool isa_is_branch(const IsaRow *row) { return row->step == step_branch; }

static void step_end(IsaWave *w, const IsaInstr *i) {
  (void)i;
  w->state = ISA_ENDED;
  w->stop = true;
}

static void step_trap(IsaWave *w, const IsaInstr *i) {
  (void)i;
  isa_fault(w, ISA_UNKNOWN, -1, "the program stops itself");
}

/* ---- barriers ---- */

static void arrive(IsaWave *w) {
  memcpy(w->settled[w->epoch & 1], w->done, sizeof w->done);
  w->has_signalled = true;
}

static void step_barrier(IsaWave *w, const IsaInstr *i) {
  isa_note(w->k, (int)(i - w->k->code), ISA_EXECUTED);
  arrive(w);
  w->state = ISA_WAITING;
  w->stop = true;
}

static bool is_workgroup(const IsaInstr *i) {
  return i->s[0].kind == ISA_IMM && (int16_t)i->s[0].value == -1;
}

/* Those of clusters and traps. */
static void fail_barrier(IsaWave *w, const IsaInstr *i) {
  isa_fault(w, ISA_UNKNOWN, -1,
            "the executor does not know barrier %d: -1 is the workgroup's, 1 to %d are named",
            (int16_t)isa_read_scalar(w, &i->s[0]), ISA_BARRIERS - 1);
}

/* The number of a named barrier, and how many waves meet there: constants, or bits of M0; 0 after
 * reporting another kind. */
static uint32_t barrier_number(IsaWave *w, const IsaInstr *i, uint32_t *members) {
  uint32_t word = (uint32_t)isa_read_scalar(w, &i->s[0]);
  bool is_named = i->s[0].kind != ISA_IMM || (word > 0 && word < ISA_BARRIERS);
  uint32_t number = is_named ? word % ISA_BARRIERS : 0;
  *members = i->s[0].kind == ISA_IMM ? 0 : word >> 16 & 127;
  if (!number) fail_barrier(w, i);
  return number;
}

static void step_signal(IsaWave *w, const IsaInstr *i) {
  uint32_t members, number;
  isa_note(w->k, (int)(i - w->k->code), ISA_EXECUTED | ISA_NEEDED); /* the wait fails without it */
  if (is_workgroup(i)) arrive(w);
  else if ((number = barrier_number(w, i, &members))) isa_named_signal(w, number, members);
}

static void step_join(IsaWave *w, const IsaInstr *i) {
  uint32_t members;
  w->joined = (int)barrier_number(w, i, &members);
  w->phase = 0;
}

static void step_wait_barrier(IsaWave *w, const IsaInstr *i) {
  isa_note(w->k, (int)(i - w->k->code), ISA_EXECUTED);
  if (i->s[0].kind == ISA_IMM && (int16_t)i->s[0].value > 0) {
    isa_named_wait(w);
    return;
  }
  if (!is_workgroup(i)) {
    fail_barrier(w, i);
    return;
  }
  if (!w->has_signalled)
    isa_fault(w, ISA_BARRIER, -1, "the wave waits for a barrier it never signals");
  w->state = ISA_WAITING;
  w->stop = true;
}

/* ---- the MODE register ---- */

static void step_denorm_mode(IsaWave *w, const IsaInstr *i) {
  w->mode = (w->mode & ~0xf0u) | ((uint32_t)i->s[0].value & 15) << 4;
}

static void step_round_mode(IsaWave *w, const IsaInstr *i) {
  w->mode = (w->mode & ~15u) | ((uint32_t)i->s[0].value & 15);
  if (w->mode & 15) isa_fault(w, ISA_UNKNOWN, -1, "rounding other than to nearest");
}

/* hwreg(HW_REG_MODE, 4, 2), 3: the field is kept in offset and offset1, the value in s[0]. */
static bool parse_hwreg(IsaInstr *i, const char *rest) {
  const char *mode = strstr(rest, "_MODE"), *value = strrchr(rest, ' ');
  if (!mode || !value) return false;
  char *end;
  i->offset = 0, i->offset1 = 32;
  if (mode[5] == ',') {
    i->offset = (int32_t)strtol(mode + 6, &end, 0);
    i->offset1 = *end == ',' ? (int32_t)strtol(end + 1, &end, 0) : 0;
  }
  if (i->offset < 0 || i->offset1 < 1 || i->offset + i->offset1 > 32) return false;
  i->s[0] = (IsaArg){0};
  if (isa_scalar_name(value + 1, strlen(value + 1), &i->s[0])) return true;
  i->s[0] = (IsaArg){.kind = ISA_IMM, .value = strtoull(value + 1, &end, 0)};
  return end > value + 1 && !*end;
}

static void step_setreg(IsaWave *w, const IsaInstr *i) {
  uint32_t mask = (uint32_t)(((UINT64_C(1) << i->offset1) - 1) << i->offset);
  uint32_t value = (uint32_t)isa_read_scalar(w, &i->s[0]) << i->offset;
  w->mode = (w->mode & ~mask) | (value & mask);
  if (w->mode & 15) isa_fault(w, ISA_UNKNOWN, -1, "rounding other than to nearest");
}

/* A constant that is moved to MODE also sets these bits, from its bits 12 to 19: there the
 * destination comes first. */
bool isa_sets_msb(const IsaInstr *i, uint8_t *msb) {
  uint32_t value = (uint32_t)i->s[0].value;
  bool moves = i->row->step == step_setreg && i->s[0].kind == ISA_IMM;
  bool is = strcmp(i->row->name, "s_set_vgpr_msb") == 0;
  if (is) *msb = (uint8_t)value; /* the upper byte is what it was before */
  if (moves) *msb = (uint8_t)((value >> 14 & 63) | (value >> 12 & 3) << 6);
  return is || moves;
}

/* What s_getreg_b32 can read. A wave's time is the number of instructions that it has executed. */
static const struct {
  const char *text;
  int shift;
  uint32_t mask;
} hardware[] = {
    {"hwreg(HW_REG_IB_STS2, 6, 4)", 0,
     0}, /* the place of the workgroup in its cluster: there is none */
    {"hwreg(HW_REG_SHADER_CYCLES, 0, 20)", 0, 0xfffff},
    {"hwreg(HW_REG_SHADER_CYCLES_LO)", 0, UINT32_MAX},
    {"hwreg(HW_REG_SHADER_CYCLES_HI)", 32, UINT32_MAX},
};

static bool parse_getreg(IsaInstr *i, const char *rest) {
  rest += strspn(rest, " ");
  size_t n = strcspn(rest, ",");
  if (strncmp(rest + n, ", ", 2) != 0 || !isa_scalar_name(rest, n, &i->d[0])) return false;
  i->nd = 1;
  for (size_t h = 0; h < WV_LEN(hardware); h++) {
    i->offset = (int32_t)h;
    if (strcmp(rest + n + 2, hardware[h].text) == 0) return true;
  }
  return false;
}

static void step_getreg(IsaWave *w, const IsaInstr *i) {
  uint64_t value = w->executed >> hardware[i->offset].shift;
  isa_write_scalar(w, &i->d[0], value & hardware[i->offset].mask);
}

static void step_cycles(IsaWave *w, const IsaInstr *i) {
  isa_write_scalar(w, &i->d[0], w->executed);
}

bool isa_parse_own(IsaInstr *i, const char *rest) {
  if (strcmp(i->row->types, "!wait") == 0) return isa_parse_wait(i, rest);
  if (strcmp(i->row->types, "!hwreg") == 0) return parse_hwreg(i, rest);
  if (strcmp(i->row->types, "!getreg") == 0) return parse_getreg(i, rest);
  return true;
}

IsaRows isa_flow_rows(void) {
  static const IsaRow rows[] = {
      {"s_branch", "", "=u", step_branch, NULL, NULL, {FLOW_ALWAYS}},
      {"s_cbranch_scc0", "", "=u", step_branch, NULL, NULL, {FLOW_SCC0}},
      {"s_cbranch_scc1", "", "=u", step_branch, NULL, NULL, {FLOW_SCC1}},
      {"s_cbranch_vccz", "", "=u", step_branch, NULL, NULL, {FLOW_VCCZ}},
      {"s_cbranch_vccnz", "", "=u", step_branch, NULL, NULL, {FLOW_VCCNZ}},
      {"s_cbranch_execz", "", "=u", step_branch, NULL, NULL, {FLOW_EXECZ}},
      {"s_cbranch_execnz", "", "=u", step_branch, NULL, NULL, {FLOW_EXECNZ}},
      {"s_setpc_b64", "", "=q", step_jump, NULL, NULL, {0}},
      {"s_endpgm", "", "!skip", step_end, NULL, NULL, {0}},
      {"s_trap", "s_sethalt", "!skip", step_trap, NULL, NULL, {0}},
      {"s_barrier", "", "=", step_barrier, NULL, NULL, {0}},
      {"s_barrier_signal", "", "=u", step_signal, NULL, NULL, {0}},
      {"s_barrier_join", "", "=u", step_join, NULL, NULL, {0}},
      {"s_barrier_wait", "", "=u", step_wait_barrier, NULL, NULL, {0}},
      {"s_denorm_mode", "", "=u", step_denorm_mode, NULL, NULL, {0}},
      {"s_round_mode", "", "=u", step_round_mode, NULL, NULL, {0}},
      {"s_setreg_b32", "s_setreg_imm32_b32", "!hwreg", step_setreg, NULL, NULL, {0}},
      {"s_getreg_b32", "", "!getreg", step_getreg, NULL, NULL, {0}},
      {"s_get_shader_cycles_u64", "", "q=", step_cycles, NULL, NULL, {0}},
      {"s_set_vgpr_msb", "", "=u", isa_nothing_step, NULL, NULL, {0}},
      /* Hints, and what concerns caches. */
      {"s_nop",
       "s_sleep s_setprio s_clause s_delay_alu s_inst_prefetch s_icache_inv s_sendmsg "
       "s_set_inst_prefetch_distance s_code_end s_dcache_inv s_dcache_wb s_ttracedata "
       "s_incperflevel s_decperflevel s_prefetch_inst s_prefetch_data s_version "
       "s_sleep_var s_prefetch_inst_pc_rel s_monitor_sleep",
       "!skip",
       isa_nothing_step,
       NULL,
       NULL,
       {0}},
      {"buffer_wbl2",
       "buffer_inv buffer_wbinvl1 buffer_wbinvl1_vol buffer_gl0_inv buffer_gl1_inv "
       "buffer_invl2 global_inv global_wb global_wbinv global_prefetch_b8",
       "!skip",
       isa_nothing_step,
       NULL,
       NULL,
       {0}},
      {"v_nop", "v_pipeflush", "!skip", isa_nothing_step, NULL, NULL, {0}},
  };
  return (IsaRows){rows, WV_LEN(rows)};
}
