/* isa_unset.c: values of which bits were never written.
 *
 * Compilers copy and combine registers of which only a part is used later. A result that depends on
 * what was never written counts as never written itself; it is an error where it is used as an
 * address, stored or compared. Bits of logic depend on the same bits, except where the other operand
 * decides: LLVM merges masks of lanes as `(old & ~exec) | (new & exec)` even if `old` was never
 * written. Bits of sums and products depend on lower bits, too, and shifts move them: LLVM
 * computes in 64 bits, with an upper word that was never written, what it uses 36 bits of. A choice
 * depends on what is chosen. Of other operations, all of the result depends on all of the operands.
 * Packed operands name their words or halves. */
#include <string.h>

#include "isa/isa_number.h"
#include "isa/isa_state.h"

#define ALL UINT64_MAX

uint32_t isa_unset_word(const IsaWave *w, int r) {
  return w->reg[r] == ISA_NEVER ? ~w->written[r] : 0;
}

/* Bits of an operand that were never written. Of a mask of lanes, those that execute count, and every
 * bit of a result depends on them. */
static uint64_t unset(const IsaWave *w, const IsaArg *a) {
  int r = a->index + (a->kind == ISA_S ? ISA_VGPRS : 0);
  if (a->kind != ISA_V && (a->kind != ISA_S || a->index >= ISA_GENERAL)) return 0;
  uint64_t bits =
      isa_unset_word(w, r) | (a->count > 1 ? (uint64_t)isa_unset_word(w, r + 1) << 32 : 0);
  if (a->type == 'C') return bits & isa_exec(w) ? ALL : 0;
  if (a->half == 'h') bits >>= 16;
  return isa_is_half(a->type) ? bits & 0xffff : bits;
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

static uint64_t of_or_not(const IsaWave *w, const IsaInstr *i) {
  const IsaArg *a = &i->s[0], *b = &i->s[1];
  return (unset(w, a) & ones(w, b)) | (unset(w, b) & zeros(w, a));
}

static uint64_t of_and_or(const IsaWave *w, const IsaInstr *i) {
  return of_and(w, i) | unset(w, &i->s[2]);
}

/* The first operand says for each bit whether it is one of the second or of the third. */
static uint64_t of_insertion(const IsaWave *w, const IsaInstr *i) {
  const IsaArg *by = &i->s[0];
  return unset(w, by) | (unset(w, &i->s[1]) & ones(w, by)) | (unset(w, &i->s[2]) & zeros(w, by));
}

/* Each byte of the third operand names a byte of the other two; 12 and above are constants. */
static uint64_t of_bytes(const IsaWave *w, const IsaInstr *i) {
  if (i->s[2].kind == ISA_V || unset(w, &i->s[2])) return all_bits(w, i);
  uint32_t select = (uint32_t)isa_read_scalar(w, &i->s[2]);
  for (int n = 0; n < 32; n += 8)
    if ((select >> n & 0xff) > 12) select = (select & ~(0xffu << n)) | 12u << n;
  return isa_perm((uint32_t)unset(w, &i->s[0]), (uint32_t)unset(w, &i->s[1]), select);
}

static uint64_t of_lane_choice(const IsaWave *w, const IsaInstr *i) {
  uint64_t exec = isa_exec(w), mask = isa_read_mask(w, &i->s[2]);
  return unset(w, &i->s[2]) | (exec & ~mask ? unset(w, &i->s[0]) : 0) |
         (exec & mask ? unset(w, &i->s[1]) : 0);
}

static uint64_t of_choice(const IsaWave *w, const IsaInstr *i) {
  return unset(w, &i->s[w->scc ? 0 : 1]);
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
    {"s_orn2_b", of_or_not},
    {"s_nand_b", of_and},
    {"s_nor_b", of_or},
    {"v_or_b", of_or},
    {"v_add", of_sum},
    {"v_sub", of_sum},
    {"v_mul_lo_", of_sum},
    {"v_mul_u32_u24", of_sum},
    {"v_mad_u", of_sum},
    {"v_mad_i", of_sum},
    {"v_and_or_", of_and_or},
    {"v_or", same_bits},
    {"v_xor_", same_bits},
    {"v_xad_", of_sum},
    {"v_not_", same_bits},
    {"v_mov_", same_bits},
    {"v_cndmask_", of_lane_choice},
    {"v_bfi_", of_insertion},
    {"v_perm_", of_bytes},
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
    {"s_cselect", of_choice},
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

/* Two halves of 16 bits. */
static bool is_halves(const IsaInstr *i) {
  return i->nd && i->d[0].type && strchr("pyb", i->d[0].type);
}

static uint64_t of_halves(const IsaWave *w, const IsaInstr *i) {
  uint64_t bits = 0;
  for (int n = 0; n < i->ns; n++) {
    uint64_t own = unset(w, &i->s[n]);
    if (own >> (i->op_sel >> n & 1 ? 16 : 0) & 0xffff) bits |= 0xffff;
    if (own >> (i->op_sel_hi >> n & 1 ? 16 : 0) & 0xffff) bits |= 0xffff0000;
  }
  return bits;
}

/* ---- results ---- */

/* What is written is half of a register: the other one is as it was. */
static uint64_t beside(const IsaWave *w, const IsaInstr *i, uint64_t bits) {
  bool high, keeps = isa_keeps_half(w, i, &high);
  if (!keeps) return isa_is_half(i->d[0].type) && !i->is_sdwa ? bits & 0xffff : bits;
  uint64_t old = isa_unset_word(w, i->d[0].index);
  return high ? (bits & 0xffff) << 16 | (old & 0xffff) : (bits & 0xffff) | (old & 0xffff0000);
}

uint64_t isa_unset_result(const IsaWave *w, const IsaInstr *i) {
  if (is_packed(i)) return of_packed(w, i);
  return is_halves(i) ? of_halves(w, i) : beside(w, i, rule_of(i)(w, i));
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
