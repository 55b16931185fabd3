/* isa_wait.c: which operations a wave has waited for, and which registers that makes ready.
 *
 * Operations of a counter complete in the order of their issue, except for scalar loads, of which
 * only the wait for all says anything. `lgkmcnt` counts LDS operations and scalar loads together:
 * if at most n remain, at most n LDS operations remain. Counters have few bits, and LLVM omits waits
 * for operations that cannot be in flight any more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa/isa_state.h"

/* The most operations that a counter can count. */
static uint32_t most_in_flight(const IsaWave *w, IsaCounter c) {
  return c == ISA_DS && w->k->generation == ISA_GFX9 ? 15 : 63;
}

/* While a counter is at its maximum, the hardware issues no further operation: the oldest one is
 * then complete, although no instruction waited for it. */
uint32_t isa_issue(IsaWave *w, IsaCounter c) {
  uint32_t number = ++w->issued[c], most = most_in_flight(w, c);
  IsaDone *d = &w->done[c];
  if (c == ISA_SMEM || number <= most) return number;
  if ((int32_t)(number - most - d->most) > 0) d->most = number - most;
  if ((int32_t)(number - most - d->others) > 0) d->others = number - most;
  return number;
}

IsaCounter isa_store_counter(const IsaWave *w) {
  return w->k->generation == ISA_GFX9 ? ISA_LOADS : ISA_STORES;
}

void isa_fill(IsaWave *w, const IsaArg *d, int count, IsaCounter c, uint32_t number) {
  int first = d->index + (d->kind == ISA_S ? ISA_VGPRS : 0);
  if (d->kind == ISA_S && d->index >= ISA_GENERAL) return; /* VCC, M0: always ready */
  for (int r = first; r < first + count; r++) {
    w->reg[r] = ISA_PENDING;
    w->pending[r] =
        (IsaPending){.number = number, .counter = (uint8_t)c, .at = (uint32_t)w->pc - 1};
  }
}

/* ---- before an instruction ---- */

static const char *register_name(bool has_agprs, int r, char *text, size_t room) {
  bool is_scalar = r >= ISA_VGPRS, is_acc = has_agprs && !is_scalar && r >= 256;
  int number = is_scalar ? r - ISA_VGPRS : is_acc ? r - 256 : r;
  snprintf(text, room, "%c%d", is_scalar ? 's' : is_acc ? 'a' : 'v', number);
  return text;
}

static bool settle(IsaWave *w, int r) {
  const IsaPending *p = &w->pending[r];
  char name[16];
  if (isa_is_done(w, &w->done[p->counter], p->number)) {
    w->reg[r] = p->unset ? ISA_NEVER : ISA_READY;
    w->written[r] = ~p->unset;
    return true;
  }
  const IsaInstr *load = &w->k->code[p->at];
  isa_fault(w, ISA_EARLY, -1, "%s is touched before a wait for `%.80s` at pc 0x%llx",
            register_name(!w->k->is_1250, r, name, sizeof name), load->text,
            (unsigned long long)load->pc);
  return false;
}

/* No lane executes the instruction. */
static bool is_idle(const IsaWave *w, const IsaInstr *i) { return i->by_lane && !isa_exec(w); }

static bool check_read(IsaWave *w, const IsaInstr *i, int r, bool *unset) {
  char name[16];
  if (w->reg[r] == ISA_PENDING && !settle(w, r)) return false;
  if (w->reg[r] == ISA_READY) return true;
  if (i->carries || is_idle(w, i)) return *unset = true;
  isa_fault(w, ISA_UNSET, -1, "%s is used, but was never written",
            register_name(!w->k->is_1250, r, name, sizeof name));
  return false;
}

/* Loads of one counter complete in order: a second one may fill the same register, or its other
 * half, without a wait in between. */
static bool may_overwrite(IsaWave *w, const IsaInstr *i, int r) {
  return w->pending[r].counter + 1 == i->fills || settle(w, r);
}

static bool write_all(IsaWave *w, const IsaInstr *i) {
  for (int n = 0; n < i->nwrites; n++) {
    const IsaSpan *s = &i->writes[n];
    for (int r = s->first; r < s->first + s->count; r++) {
      if (WV_UNLIKELY(w->reg[r] == ISA_PENDING) && !may_overwrite(w, i, r)) return false;
      w->reg[r] = ISA_READY;
    }
  }
  return true;
}

/* Masks of lanes are written although no lane executes: they are 0 then. */
static bool write_masks(IsaWave *w, const IsaInstr *i) {
  for (int n = 0; n < i->nwrites; n++) {
    const IsaSpan *s = &i->writes[n];
    for (int r = s->first; r < s->first + s->count && s->first >= ISA_VGPRS; r++) {
      if (w->reg[r] == ISA_PENDING && !may_overwrite(w, i, r)) return false;
      w->reg[r] = ISA_READY;
    }
  }
  return true;
}

bool isa_ready(IsaWave *w, const IsaInstr *i) {
  bool unset = false;
  for (int n = 0; n < i->nreads; n++) {
    const IsaSpan *s = &i->reads[n];
    for (int r = s->first; r < s->first + s->count; r++)
      if (WV_UNLIKELY(w->reg[r] != ISA_READY) && !check_read(w, i, r, &unset)) return false;
  }
  if (WV_LIKELY(!unset)) return write_all(w, i);
  if (is_idle(w, i)) return write_masks(w, i);
  uint64_t own = isa_unset_result(w, i), other = i->other ? isa_unset_result(w, i->other) : 0;
  if (!write_all(w, i)) return false;
  isa_unset_set(w, i, own);
  if (i->other) isa_unset_set(w, i->other, other);
  return true;
}

/* ---- waits ---- */

static void wait_for(IsaWave *w, IsaCounter c, uint32_t remain, int by) {
  uint32_t done = w->issued[c] < remain ? 0 : w->issued[c] - remain;
  IsaDone *d = &w->done[c];
  if (c == ISA_SMEM && remain) return;
  if (by == d->by) d->most = done > d->most ? done : d->most;
  else if (done > d->most) *d = (IsaDone){.most = done, .others = d->most, .by = by};
  else if (done > d->others) d->others = done;
}

static void step_wait(IsaWave *w, const IsaInstr *i) {
  int at = (int)(i - w->k->code);
  isa_note(w->k, at, ISA_EXECUTED);
  for (int c = 0; c < ISA_COUNTERS; c++)
    if (i->wait[c] != ISA_ANY) wait_for(w, (IsaCounter)c, i->wait[c], at);
}

typedef enum WaitForm {
  WAIT_CNT,
  WAIT_VSCNT,
  WAIT_LOAD,
  WAIT_STORE,
  WAIT_DS,
  WAIT_KM,
  WAIT_LOAD_DS,
  WAIT_STORE_DS,
  WAIT_ASYNC,
  WAIT_IDLE,
  WAIT_NOTHING
} WaitForm;

/* vmcnt(0) lgkmcnt(2) */
static bool parse_counts(IsaInstr *i, const char *rest) {
  const char *vm = strstr(rest, "vmcnt("), *lgkm = strstr(rest, "lgkmcnt(");
  if (vm) i->wait[ISA_LOADS] = (uint16_t)atoi(vm + 6);
  if (lgkm) i->wait[ISA_DS] = i->wait[ISA_SMEM] = (uint16_t)atoi(lgkm + 8);
  return vm || lgkm || strstr(rest, "expcnt(");
}

bool isa_parse_wait(IsaInstr *i, const char *rest) {
  for (int c = 0; c < ISA_COUNTERS; c++) i->wait[c] = ISA_ANY;
  WaitForm form = (WaitForm)i->row->param[0];
  const char *number = strrchr(rest, ' ') ? strrchr(rest, ' ') + 1 : rest;
  uint16_t n = (uint16_t)strtoul(number, NULL, 0), low = n & 0x3f, high = n >> 8 & 0x3f;
  switch (form) {
  case WAIT_CNT: return parse_counts(i, rest);
  case WAIT_VSCNT:
  case WAIT_STORE: i->wait[ISA_STORES] = n; break;
  case WAIT_LOAD: i->wait[ISA_LOADS] = n; break;
  case WAIT_DS: i->wait[ISA_DS] = n; break;
  case WAIT_KM: i->wait[ISA_SMEM] = n; break;
  case WAIT_LOAD_DS: i->wait[ISA_LOADS] = high, i->wait[ISA_DS] = low; break;
  case WAIT_STORE_DS: i->wait[ISA_STORES] = high, i->wait[ISA_DS] = low; break;
  case WAIT_ASYNC: i->wait[ISA_ASYNC] = n; break;
  case WAIT_IDLE: memset(i->wait, 0, sizeof i->wait); break;
  case WAIT_NOTHING: break; /* exports, images: the executor has none */
  }
  return true;
}

IsaRows isa_wait_rows(void) {
  static const IsaRow rows[] = {
      {"s_waitcnt", "", "!wait", step_wait, NULL, NULL, {WAIT_CNT}},
      {"s_waitcnt_vscnt", "", "!wait", step_wait, NULL, NULL, {WAIT_VSCNT}},
      {"s_wait_loadcnt", "", "!wait", step_wait, NULL, NULL, {WAIT_LOAD}},
      {"s_wait_storecnt", "", "!wait", step_wait, NULL, NULL, {WAIT_STORE}},
      {"s_wait_dscnt", "", "!wait", step_wait, NULL, NULL, {WAIT_DS}},
      {"s_wait_kmcnt", "", "!wait", step_wait, NULL, NULL, {WAIT_KM}},
      {"s_wait_loadcnt_dscnt", "", "!wait", step_wait, NULL, NULL, {WAIT_LOAD_DS}},
      {"s_wait_storecnt_dscnt", "", "!wait", step_wait, NULL, NULL, {WAIT_STORE_DS}},
      {"s_wait_asynccnt", "", "!wait", step_wait, NULL, NULL, {WAIT_ASYNC}},
      {"s_wait_idle", "", "!wait", step_wait, NULL, NULL, {WAIT_IDLE}},
      {"s_wait_expcnt",
       "s_wait_samplecnt s_wait_bvhcnt s_wait_alu s_waitcnt_depctr s_wait_xcnt",
       "!wait",
       step_wait,
       NULL,
       NULL,
       {WAIT_NOTHING}},
  };
  return (IsaRows){rows, WV_LEN(rows)};
}
