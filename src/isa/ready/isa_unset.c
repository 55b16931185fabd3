/* isa_unset.c: values that were never written, or only their low bits.
 *
 * Compilers copy and combine registers of which only a part is used later. A result that depends on
 * what was never written counts as never written itself; it is an error where it is used as an
 * address, stored or compared. Low bits of sums, products and logic depend on low bits only, and
 * shifts move them: LLVM computes in 64 bits, with an upper word that nobody has written, what it
 * uses 36 bits of. Of other operations, all of the result depends on all of the operands. Packed
 * operands name their words. */
#include <string.h>

#include "isa/isa_state.h"

enum { ALL = 64 };

static int least(int a, int b) { return a < b ? a : b; }

/* Low bits of an operand that were written; ALL: there are no others. */
static int known(const IsaWave *w, const IsaArg *a) {
  int r = a->index + (a->kind == ISA_S ? ISA_VGPRS : 0);
  if (a->kind != ISA_V && (a->kind != ISA_S || a->index >= ISA_GENERAL)) return ALL;
  if (w->reg[r] == ISA_NEVER && a->half == 'h') return w->low[r] > 16 ? w->low[r] - 16 : 0;
  if (w->reg[r] == ISA_NEVER) return w->low[r];
  for (int word = 1; word < a->count; word++)
    if (w->reg[r + word] == ISA_NEVER) return least(32 * word + w->low[r + word], ALL - 1);
  return ALL;
}

/* ---- rules ---- */

typedef int Rule(const IsaWave *w, const IsaInstr *i);

static int none(const IsaWave *w, const IsaInstr *i) {
  for (int n = 0; n < i->ns; n++)
    if (known(w, &i->s[n]) < ALL) return 0;
  return ALL;
}

static int of_all(const IsaWave *w, const IsaInstr *i) {
  int bits = ALL;
  for (int n = 0; n < i->ns; n++) bits = least(bits, known(w, &i->s[n]));
  return bits;
}

/* A mask clears what it has no bits for. */
static int of_and(const IsaWave *w, const IsaInstr *i) {
  for (int n = 0; n < 2 && i->ns == 2; n++) {
    int bits = known(w, &i->s[1 - n]);
    if (i->s[n].kind == ISA_IMM && (bits >= ALL || !(i->s[n].value >> bits))) return ALL;
  }
  return of_all(w, i);
}

/* Up by a constant, and a third operand added. */
static int moved_up(const IsaWave *w, const IsaInstr *i, int value, int by) {
  if (i->s[by].kind != ISA_IMM) return none(w, i);
  int bits = known(w, &i->s[value]), rest = i->ns > 2 ? known(w, &i->s[2]) : ALL;
  return least(bits == ALL ? ALL : least(bits + (int)(i->s[by].value & 63), ALL), rest);
}

static int moved_down(const IsaWave *w, const IsaInstr *i, int value, int by) {
  int bits = known(w, &i->s[value]), n = (int)(i->s[by].value & 63);
  if (i->s[by].kind != ISA_IMM) return none(w, i);
  return bits == ALL ? ALL : bits > n ? bits - n : 0;
}

static int up_by_first(const IsaWave *w, const IsaInstr *i) { return moved_up(w, i, 1, 0); }
static int up_by_second(const IsaWave *w, const IsaInstr *i) { return moved_up(w, i, 0, 1); }
static int down_by_first(const IsaWave *w, const IsaInstr *i) { return moved_down(w, i, 1, 0); }
static int down_by_second(const IsaWave *w, const IsaInstr *i) { return moved_down(w, i, 0, 1); }

/* 32 bits of two words, from a constant on. */
static int of_two_words(const IsaWave *w, const IsaInstr *i) {
  int high = known(w, &i->s[0]), low = known(w, &i->s[1]), n = (int)(i->s[2].value & 31);
  if (i->s[2].kind != ISA_IMM) return none(w, i);
  int bits = low < ALL ? low : 32 + least(high, 32);
  return bits > n ? bits - n : 0;
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
    {"v_ashrrev_i", down_by_first},
    {"s_lshr_b", down_by_second},
    {"s_ashr_i", down_by_second},
    {"v_alignbit", of_two_words},
    {"v_and_b", of_and},
    {"s_and_b", of_and},
    {"v_add", of_all},
    {"v_sub", of_all},
    {"v_mul_lo_", of_all},
    {"v_mul_u32_u24", of_all},
    {"v_mad_u", of_all},
    {"v_mad_i", of_all},
    {"v_and_or_", of_all},
    {"v_or", of_all},
    {"v_xor_", of_all},
    {"v_xad_", of_all},
    {"v_not_", of_all},
    {"v_mov_", of_all},
    {"v_cndmask_", of_all},
    {"v_bfi_", of_all},
    {"v_accvgpr_", of_all},
    {"v_read", of_all},
    {"s_add", of_all},
    {"s_sub", of_all},
    {"s_mul_i32", of_all},
    {"s_mul_u64", of_all},
    {"s_and", of_all},
    {"s_or", of_all},
    {"s_xor", of_all},
    {"s_not", of_all},
    {"s_mov", of_all},
    {"s_cselect", of_all},
};

static Rule *rule_of(const IsaInstr *i) {
  bool is_float = strstr(i->row->name, "_f16") || strstr(i->row->name, "_f32") ||
                  strstr(i->row->name, "_f64") || strstr(i->row->name, "_bf16");
  for (size_t n = 0; n < WV_LEN(rules) && !is_float && !i->is_sdwa; n++)
    if (strncmp(i->row->name, rules[n].prefix, strlen(rules[n].prefix)) == 0) return rules[n].rule;
  return none;
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

static IsaLow of_packed(const IsaWave *w, const IsaInstr *i) {
  IsaLow low = ISA_WHOLE;
  for (int n = 0; n < i->ns; n++) {
    const IsaArg *a = &i->s[n];
    for (int word = 0; word < a->count && word < 2; word++) {
      IsaArg one = *a;
      one.index = (uint16_t)(a->index + word), one.count = 1;
      for (int result = 0; result < 2 && known(w, &one) < ALL; result++)
        if (depends(i, n, word, result)) low.word[result] = 0;
    }
  }
  return low;
}

/* ---- results ---- */

IsaLow isa_low_result(const IsaWave *w, const IsaInstr *i) {
  if (is_packed(i)) return of_packed(w, i);
  int bits = rule_of(i)(w, i);
  return (IsaLow){{(uint8_t)least(bits, 32), (uint8_t)(bits > 32 ? bits - 32 : 0)}};
}

void isa_low_set(IsaWave *w, const IsaInstr *i, IsaLow low) {
  const IsaArg *d = &i->d[0];
  int first = d->index + (d->kind == ISA_S ? ISA_VGPRS : 0);
  if (!i->nd || i->carries == ISA_DROPS || (d->kind == ISA_S && d->index >= ISA_GENERAL)) return;
  for (int word = 0; word < d->count && word < 2; word++) {
    if (low.word[word] == 32) continue;
    w->reg[first + word] = ISA_NEVER;
    w->low[first + word] = low.word[word];
  }
}
