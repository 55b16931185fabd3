/* isa_unset.c: values of which bits were never written.
 *
 * Compilers copy and combine registers of which only a part is used later. A result that depends on
 * what was never written counts as never written itself; it is an error where it is used as an
 * address, stored or compared. Bits of logic depend on the same bits, except where the other operand
 * decides: LLVM merges masks of lanes as `(old & ~exec) | (new & exec)`, although nobody may have
 * written `old`. Bits of sums and products depend on lower bits, too, and shifts move them: LLVM
 * computes in 64 bits, with an upper word that nobody has written, what it uses 36 bits of. Of other
 * operations, all of the result depends on all of the operands. Packed operands name their words. */
#include <string.h>

#include "isa/isa_state.h"

#define ALL UINT64_MAX

static uint64_t unset_word(const IsaWave *w, int r) {
  return w->reg[r] == ISA_NEVER ? ~w->written[r] : 0;
}

/* Bits of an operand that were never written. Of a mask of lanes, those that execute count, and every
 * bit of a result depends on them. */
static uint64_t unset(const IsaWave *w, const IsaArg *a) {
  int r = a->index + (a->kind == ISA_S ? ISA_VGPRS : 0);
  if (a->kind != ISA_V && (a->kind != ISA_S || a->index >= ISA_GENERAL)) return 0;
  uint64_t bits = unset_word(w, r) | (a->count > 1 ? unset_word(w, r + 1) << 32 : 0);
  if (a->type == 'C') return bits & isa_exec(w) ? ALL : 0;
  return a->half == 'h' ? bits >> 16 : bits;
}

/* Bits that may be 1: not those that are known to be 0 in every lane. */
static uint64_t ones(const IsaWave *w, const IsaArg *a) {
  return a->kind == ISA_V ? ALL : isa_read_scalar(w, a) | unset(w, a);
}

static uint64_t zeros(const IsaWave *w, const IsaArg *a) {
  return a->kind == ISA_V ? ALL : ~isa_read_scalar(w, a) | unset(w, a);
}

/* ---- rules: the bits of a result that depend on what was never written ---- */

typedef uint64_t Rule(const IsaWave *w, const IsaInstr *i);

static uint64_t same_bits(const IsaWave *w, const IsaInstr *i) {
  uint64_t bits = 0;
  for (int n = 0; n < i->ns; n++) bits |= unset(w, &i->s[n]);
  return bits;
}

static uint64_t all_bits(const IsaWave *w, const IsaInstr *i) { return same_bits(w, i) ? ALL : 0; }

static uint64_t and_above(uint64_t bits) { return bits | (0 - bits); }

static uint64_t of_sum(const IsaWave *w, const IsaInstr *i) { return and_above(same_bits(w, i)); }

/* A bit of one operand matters where the other one does not decide the result. */
static uint64_t of_and(const IsaWave *w, const IsaInstr *i) {
  const IsaArg *a = &i->s[0], *b = &i->s[1];
  return (unset(w, a) & ones(w, b)) | (unset(w, b) & ones(w, a));
}

static uint64_t of_and_not(const IsaWave *w, const IsaInstr *i) {
  const IsaArg *a = &i->s[0], *b = &i->s[1];
  return (unset(w, a) & zeros(w, b)) | (unset(w, b) & ones(w, a));
}

static uint64_t of_or(const IsaWave *w, const IsaInstr *i) {
  const IsaArg *a = &i->s[0], *b = &i->s[1];
  return (unset(w, a) & zeros(w, b)) | (unset(w, b) & zeros(w, a));
}

/* The result is EXEC as it was; EXEC keeps lanes that the operand has, too. */
static uint64_t of_saved(const IsaWave *w, const IsaInstr *i) {
  return unset(w, &i->s[0]) & isa_exec(w) ? ALL : 0;
}

/* Up by a constant, and a third operand added. */
static uint64_t moved_up(const IsaWave *w, const IsaInstr *i, int value, int by) {
  if (i->s[by].kind != ISA_IMM) return all_bits(w, i);
  uint64_t bits = unset(w, &i->s[value]) << (i->s[by].value & 63);
  return i->ns > 2 ? and_above(bits | unset(w, &i->s[2])) : bits;
}

static uint64_t moved_down(const IsaWave *w, const IsaInstr *i, int value, int by) {
  return i->s[by].kind == ISA_IMM ? unset(w, &i->s[value]) >> (i->s[by].value & 63)
                                  : all_bits(w, i);
}

/* The sign is repeated above. */
static uint64_t sign_down(const IsaWave *w, const IsaInstr *i, int value, int by) {
  uint64_t sign = i->s[value].count > 1 ? UINT64_C(1) << 63 : UINT64_C(1) << 31;
  uint64_t bits = moved_down(w, i, value, by);
  return unset(w, &i->s[value]) & sign && bits != ALL ? and_above(bits) : bits;
}

static uint64_t up_by_first(const IsaWave *w, const IsaInstr *i) { return moved_up(w, i, 1, 0); }
static uint64_t up_by_second(const IsaWave *w, const IsaInstr *i) { return moved_up(w, i, 0, 1); }
static uint64_t down_by_first(const IsaWave *w, const IsaInstr *i) {
  return moved_down(w, i, 1, 0);
}
static uint64_t down_by_second(const IsaWave *w, const IsaInstr *i) {
  return moved_down(w, i, 0, 1);
}
static uint64_t sign_down_by_first(const IsaWave *w, const IsaInstr *i) {
  return sign_down(w, i, 1, 0);
}
static uint64_t sign_down_by_second(const IsaWave *w, const IsaInstr *i) {
  return sign_down(w, i, 0, 1);
}

/* 32 bits of two words, from a constant on. */
static uint64_t of_two_words(const IsaWave *w, const IsaInstr *i) {
  if (i->s[2].kind != ISA_IMM) return all_bits(w, i);
  uint64_t bits = unset(w, &i->s[0]) << 32 | (uint32_t)unset(w, &i->s[1]);
  return bits >> (i->s[2].value & 31);
}

/* The first that a name begins with. */
static const struct {
  const char *prefix;
  Rule *rule;
} rules[] = {
    {"v_lshlrev_b", up_by_first},
    {"s_lshl_b", up_by_second},
    {"v_lshl_", up_by_second},
    {"v_lshrrev_b", down_by_first},
    {"v_ashrrev_i", sign_down_by_first},
    {"s_lshr_b", down_by_second},
    {"s_ashr_i", sign_down_by_second},
    {"v_alignbit", of_two_words},
    {"v_and_b", of_and},
    {"s_and_b", of_and},
    {"s_and_saveexec_", of_saved},
    {"s_andn2_b", of_and_not},
    {"s_or_b", of_or},
    {"v_or_b", of_or},
    {"v_add", of_sum},
    {"v_sub", of_sum},
    {"v_mul_lo_", of_sum},
    {"v_mul_u32_u24", of_sum},
    {"v_mad_u", of_sum},
    {"v_mad_i", of_sum},
    {"v_and_or_", same_bits},
    {"v_or", same_bits},
    {"v_xor_", same_bits},
    {"v_xad_", of_sum},
    {"v_not_", same_bits},
    {"v_mov_", same_bits},
    {"v_cndmask_", same_bits},
    {"v_bfi_", same_bits},
    {"v_accvgpr_", same_bits},
    {"v_read", same_bits},
    {"s_add", of_sum},
    {"s_sub", of_sum},
    {"s_mul_i32", of_sum},
    {"s_mul_u64", of_sum},
    {"s_and", same_bits},
    {"s_or", same_bits},
    {"s_xor", same_bits},
    {"s_not", same_bits},
    {"s_mov", same_bits},
    {"s_cselect", same_bits},
};

static Rule *rule_of(const IsaInstr *i) {
  bool is_float = strstr(i->row->name, "_f16") || strstr(i->row->name, "_f32") ||
                  strstr(i->row->name, "_f64") || strstr(i->row->name, "_bf16");
  for (size_t n = 0; n < WV_LEN(rules) && !is_float && !i->is_sdwa; n++)
    if (strncmp(i->row->name, rules[n].prefix, strlen(rules[n].prefix)) == 0) return rules[n].rule;
  return all_bits;
}

/* ---- packed operands ---- */

static bool is_packed(const IsaInstr *i) {
  for (int n = 0; n < i->ns; n++)
    if (i->s[n].type && strchr("LHP", i->s[n].type)) return true;
  return false;
}

/* Whether a word of the result depends on a word of an operand. */
static bool depends(const IsaInstr *i, int arg, int word, int result) {
  const IsaArg *a = &i->s[arg];
  bool is_low = (i->op_sel >> arg & 1) == word, is_high = (i->op_sel_hi >> arg & 1) == word;
  switch (a->type) {
  case 'L': return is_low && result == 0;
  case 'H': return is_low && result == 1;
  case 'P': return result ? is_high : is_low;
  default: return result >= word;
  }
}

static uint64_t of_packed(const IsaWave *w, const IsaInstr *i) {
  uint64_t bits = 0;
  for (int n = 0; n < i->ns; n++) {
    const IsaArg *a = &i->s[n];
    for (int word = 0; word < a->count && word < 2; word++) {
      IsaArg one = *a;
      one.index = (uint16_t)(a->index + word), one.count = 1;
      for (int result = 0; result < 2 && unset(w, &one); result++)
        if (depends(i, n, word, result)) bits |= (uint64_t)UINT32_MAX << 32 * result;
    }
  }
  return bits;
}

/* ---- results ---- */

uint64_t isa_unset_result(const IsaWave *w, const IsaInstr *i) {
  return is_packed(i) ? of_packed(w, i) : rule_of(i)(w, i);
}

void isa_unset_set(IsaWave *w, const IsaInstr *i, uint64_t bits) {
  const IsaArg *d = &i->d[0];
  int first = d->index + (d->kind == ISA_S ? ISA_VGPRS : 0);
  if (!i->nd || i->carries == ISA_DROPS || (d->kind == ISA_S && d->index >= ISA_GENERAL)) return;
  for (int word = 0; word < d->count && word < 2; word++) {
    uint32_t unset = (uint32_t)(bits >> 32 * word);
    if (!unset) continue;
    w->reg[first + word] = ISA_NEVER;
    w->written[first + word] = ~unset;
  }
}
