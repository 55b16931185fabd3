/* isa_operand.c: reading and writing the operands of instructions.
 *
 * A vector operand is an array of lanes. If it is a register without modifiers, it is read in
 * place; everything else is prepared in the wave's `room`: constants and SGPRs are repeated for
 * every lane, halves and bytes are extracted, DPP moves values between lanes, signs are changed. */
#include <string.h>

#include "isa/isa_number.h"
#include "isa/isa_state.h"

/* ---- scalar ---- */

static uint64_t read_special(const IsaWave *w, int special) {
  switch ((IsaSpecial)special) {
  case ISA_SCC: return w->scc;
  case ISA_VCCZ: return !(w->s[ISA_VCC] | w->s[ISA_VCC + 1]);
  case ISA_EXECZ: return !isa_exec(w);
  case ISA_SHARED_BASE:
  case ISA_PRIVATE_BASE: break;
  }
  return 0;
}

uint64_t isa_read_scalar(const IsaWave *w, const IsaArg *a) {
  if (a->kind == ISA_SPECIAL) return read_special(w, a->index);
  if (a->kind != ISA_S) return a->value;
  if (a->index == ISA_NULL) return 0;
  uint64_t v = w->s[a->index];
  if (a->count > 1) v |= (uint64_t)w->s[a->index + 1] << 32;
  return v;
}

void isa_write_scalar(IsaWave *w, const IsaArg *a, uint64_t value) {
  if (a->index == ISA_NULL) return;
  w->s[a->index] = (uint32_t)value;
  if (a->count > 1) w->s[a->index + 1] = (uint32_t)(value >> 32);
}

uint64_t isa_read_mask(const IsaWave *w, const IsaArg *a) { return isa_read_scalar(w, a); }

void isa_write_mask(IsaWave *w, const IsaArg *a, uint64_t mask) {
  isa_write_scalar(w, a, mask & (w->k->lanes == 64 ? UINT64_MAX : UINT32_MAX));
}

/* ---- one lane of an operand ---- */

bool isa_is_half(char type) { return type == 'h' || type == 'w' || type == 't'; }
static bool is_pair(char type) { return type && strchr("qldPLH", type); }

static uint32_t select_bits(uint32_t v, uint8_t select, bool sext) {
  switch ((IsaSelect)select) {
  case ISA_DWORD: break;
  case ISA_BYTE_0:
  case ISA_BYTE_1:
  case ISA_BYTE_2:
  case ISA_BYTE_3: v = v >> 8 * (select - ISA_BYTE_0) & 0xff; return sext ? (uint32_t)(int8_t)v : v;
  case ISA_WORD_0:
  case ISA_WORD_1:
    v = v >> 16 * (select - ISA_WORD_0) & 0xffff;
    return sext ? (uint32_t)(int16_t)v : v;
  }
  return v;
}

/* Denormals of f32 are zero if the mode says so. */
static uint32_t flush(uint32_t v) { return v & 0x7f800000u ? v : v & 0x80000000u; }

static bool flushes(const IsaWave *w, char type) { return type == 'f' && !(w->mode >> 4 & 3); }

static uint32_t change(const IsaWave *w, const IsaArg *a, int word, uint32_t v) {
  if (strchr("MpybPLH", a->type)) return v; /* the body does this */
  if (a->half == 'h') v >>= 16;
  if (a->select) v = select_bits(v, a->select, a->sext);
  uint32_t sign = isa_is_half(a->type) ? 0x8000u : 0x80000000u;
  bool has_sign = !is_pair(a->type) || word == 1;
  if (a->abs && has_sign) v &= ~sign;
  if (a->neg && has_sign) v ^= sign;
  return flushes(w, a->type) ? flush(v) : v;
}

/* ---- all lanes ---- */

/* Constants and SGPRs have neither DPP nor parts. */
static const uint32_t *repeat(IsaWave *w, const IsaInstr *i, int arg, int word) {
  const IsaArg *a = &i->s[arg];
  uint32_t *to = w->room[arg][word];
  uint32_t v = (uint32_t)(isa_read_scalar(w, a) >> 32 * word);
  v = change(w, a, word, v);
  for (int l = 0; l < ISA_LANES; l++) to[l] = v;
  return to;
}

static const uint32_t *prepare(IsaWave *w, const IsaInstr *i, int arg, int word) {
  const IsaArg *a = &i->s[arg];
  const uint32_t *from = w->v[a->index + word];
  const IsaDpp *dpp = arg == 0 ? i->dpp : NULL;
  uint32_t *to = w->room[arg][word];
  uint64_t exec = isa_exec(w);
  for (int l = 0; l < w->k->lanes; l++) {
    int source = dpp ? dpp->from[l] : l;
    bool there = source >= 0 && (!dpp || dpp->inactive || exec >> source & 1);
    to[l] = change(w, a, word, there ? from[source] : 0);
  }
  return to;
}

const uint32_t *isa_lanes(IsaWave *w, const IsaInstr *i, int arg, int word) {
  const IsaArg *a = &i->s[arg];
  if (a->kind != ISA_V) return repeat(w, i, arg, word);
  bool plain = a->plain && !(arg == 0 && i->dpp);
  if (plain && !flushes(w, a->type)) return w->v[a->index + word];
  return prepare(w, i, arg, word);
}

/* ---- results ---- */

void isa_commit(IsaWave *w, const IsaArg *d, int word, const uint32_t *from, uint64_t mask) {
  if (d->kind == ISA_S) {
    if (d->index != ISA_NULL) w->s[d->index + word] = from[0];
    return;
  }
  uint32_t *to = w->v[d->index + word];
  if (mask == UINT64_MAX || (w->k->lanes == 32 && (uint32_t)mask == UINT32_MAX)) {
    memcpy(to, from, sizeof *to * (size_t)w->k->lanes);
    return;
  }
  for (int l = 0; l < w->k->lanes; l++) to[l] = mask >> l & 1 ? from[l] : to[l];
}

bool isa_keeps_half(const IsaWave *w, const IsaInstr *i, bool *high) {
  const IsaArg *d = &i->d[0];
  if (!i->nd || d->kind != ISA_V || i->is_sdwa || !isa_is_half(d->type)) return false;
  *high = d->half == 'h' || i->op_sel >> i->ns & 1;
  return *high || d->half == 'l' || w->k->keeps_high;
}

/* 16 bits into a register whose other half is kept or cleared. */
static void merge_half(IsaWave *w, const IsaInstr *i, uint32_t *out) {
  bool high, keeps = isa_keeps_half(w, i, &high);
  const uint32_t *old = w->v[i->d[0].index];
  for (int l = 0; keeps && l < w->k->lanes; l++)
    out[l] = high ? out[l] << 16 | (old[l] & 0xffff) : (out[l] & 0xffff) | (old[l] & 0xffff0000u);
}

static void merge_sdwa(IsaWave *w, const IsaInstr *i, uint32_t *out) {
  if (i->select == ISA_DWORD) return;
  const uint32_t *old = w->v[i->d[0].index];
  bool is_byte = i->select >= ISA_BYTE_0 && i->select <= ISA_BYTE_3;
  int shift = is_byte ? 8 * (i->select - ISA_BYTE_0) : 16 * (i->select - ISA_WORD_0);
  uint32_t bits = is_byte ? 0xff : 0xffff, mask = bits << shift;
  for (int l = 0; l < w->k->lanes; l++) {
    uint32_t v = (out[l] & bits) << shift, rest = 0;
    if (i->unused == ISA_PRESERVE) rest = old[l] & ~mask;
    if (i->unused == ISA_SEXT && v >> (shift + (is_byte ? 7 : 15)) & 1) rest = ~(mask | (mask - 1));
    out[l] = v | rest;
  }
}

static float scale_and_clamp(const IsaInstr *i, float v) {
  v *= i->omod == 1 ? 2.0f : i->omod == 2 ? 4.0f : i->omod < 0 ? 0.5f : 1.0f;
  return i->clamp ? (v > 0 ? (v < 1 ? v : 1.0f) : 0.0f) : v;
}

static uint32_t clamp_bf16(const IsaInstr *i, uint32_t v) {
  return isa_to_bf16(scale_and_clamp(i, isa_from_bf16(v)));
}

/* Output modifiers of floats. */
static void modify(IsaWave *w, const IsaInstr *i, char type, uint32_t *lo, uint32_t *hi) {
  for (int l = 0; l < w->k->lanes; l++) {
    if (type == 'f') lo[l] = isa_bits(scale_and_clamp(i, isa_float(lo[l])));
    if (type == 'h') lo[l] = isa_to_f16(scale_and_clamp(i, isa_from_f16(lo[l])));
    if (type == 'p') {
      float a = scale_and_clamp(i, isa_from_f16(lo[l] & 0xffff));
      float b = scale_and_clamp(i, isa_from_f16(lo[l] >> 16));
      lo[l] = isa_to_f16(a) | isa_to_f16(b) << 16;
    }
    if (type == 'b') lo[l] = clamp_bf16(i, lo[l] & 0xffff) | clamp_bf16(i, lo[l] >> 16) << 16;
    if (type == 'P') {
      lo[l] = isa_bits(scale_and_clamp(i, isa_float(lo[l])));
      hi[l] = isa_bits(scale_and_clamp(i, isa_float(hi[l])));
    }
  }
  if (!strchr("fhpbP", type))
    isa_fault(w, ISA_UNKNOWN, -1, "results of this type that are clamped are not implemented");
}

static void finish(IsaWave *w, const IsaInstr *i, uint32_t *lo, uint32_t *hi) {
  char type = i->d[0].type;
  bool clamps = i->clamp && !i->row->param[ISA_OWN_CLAMP];
  if (clamps || i->omod) modify(w, i, type, lo, hi);
  if (flushes(w, type))
    for (int l = 0; l < w->k->lanes; l++) lo[l] = flush(lo[l]);
  if (i->d[0].kind != ISA_V) return;
  if (i->is_sdwa) merge_sdwa(w, i, lo);
  else merge_half(w, i, lo);
}

/* Lanes that are written: DPP leaves those alone that have no source, unless they read 0. */
static uint64_t written(const IsaWave *w, const IsaInstr *i) {
  uint64_t exec = isa_exec(w), mask = exec;
  if (!i->dpp) return mask;
  mask &= i->dpp->write;
  for (int l = 0; !i->dpp->zero && l < w->k->lanes; l++) {
    int from = i->dpp->from[l];
    bool there = from >= 0 && (i->dpp->inactive || exec >> from & 1);
    if (!there) mask &= ~(UINT64_C(1) << l);
  }
  return mask;
}

uint64_t isa_compute(IsaWave *w, const IsaInstr *i, int which, uint64_t *mask) {
  IsaLanes x = {.n = w->k->lanes, .w = w, .i = i};
  x.to_lo = w->out[which][0], x.to_hi = w->out[which][1];
  for (int n = 0; n < i->ns; n++) {
    const IsaArg *a = &i->s[n];
    if (a->type == 'C') x.mask[n] = isa_read_mask(w, a);
    else x.lo[n] = isa_lanes(w, i, n, 0);
    if (is_pair(a->type)) x.hi[n] = isa_lanes(w, i, n, 1);
  }
  i->row->body(&x);
  *mask = x.to_mask;
  if (i->nd && i->d[0].type != 'C') finish(w, i, x.to_lo, x.to_hi);
  return written(w, i);
}

static void store(IsaWave *w, const IsaInstr *i, int which, uint64_t active, uint64_t mask) {
  const IsaArg *d = &i->d[0];
  if (d->type == 'C') {
    isa_write_mask(w, d, mask & active);
    return;
  }
  isa_commit(w, d, 0, w->out[which][0], active);
  if (is_pair(d->type)) isa_commit(w, d, 1, w->out[which][1], active);
  if (i->nd > 1) isa_write_mask(w, &i->d[1], mask & active);
}

void isa_vector_step(IsaWave *w, const IsaInstr *i) {
  uint64_t mask[2] = {0}, active = isa_compute(w, i, 0, &mask[0]);
  if (i->other) isa_compute(w, i->other, 1, &mask[1]);
  store(w, i, 0, active, mask[0]);
  if (i->other) store(w, i->other, 1, active, mask[1]);
}
