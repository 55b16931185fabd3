/* isa_modifier.c: the words after the operands: offsets, DPP, SDWA, op_sel and the like.
 *
 * A word that is not known is an error: it could change what the instruction does. */
#include <stdlib.h>
#include <string.h>

#include "isa/isa_state.h"

static bool has_prefix(const char *word, const char *prefix, const char **rest) {
  size_t n = strlen(prefix);
  if (strncmp(word, prefix, n) != 0) return false;
  *rest = word + n;
  return true;
}

/* [1,0,1]: element n is bit n. */
static uint8_t bits_of(const char *list) {
  uint8_t bits = 0;
  for (int n = 0; *list == '[' || *list == ','; n++) {
    char *end;
    if (strtol(list + 1, &end, 0)) bits |= (uint8_t)(1 << n);
    list = end;
  }
  return bits;
}

/* ---- DPP ---- */

static IsaDpp *dpp_of(Arena *a, IsaInstr *i) {
  if (!i->dpp) {
    IsaDpp *d = ARENA_NEW(a, IsaDpp);
    d->write = UINT64_MAX;
    for (int l = 0; l < ISA_LANES; l++) d->from[l] = (int8_t)l;
    i->dpp = d;
  }
  return (IsaDpp *)i->dpp;
}

typedef enum DppKind {
  DPP_SHL,
  DPP_SHR,
  DPP_ROR,
  DPP_MIRROR,
  DPP_HALF_MIRROR,
  DPP_SHARE,
  DPP_XMASK,
  DPP_WAVE_SHL,
  DPP_WAVE_SHR,
  DPP_WAVE_ROL,
  DPP_WAVE_ROR,
  DPP_BCAST
} DppKind;

/* The lane that `l` reads; rows have 16 lanes. -1: none. */
static int dpp_source(DppKind kind, int l, int n, int lanes) {
  int row = l & ~15, at = l & 15;
  switch (kind) {
  case DPP_SHL: return at + n < 16 ? l + n : -1;
  case DPP_SHR: return at - n >= 0 ? l - n : -1;
  case DPP_ROR: return row | ((at - n) & 15);
  case DPP_MIRROR: return row | (15 - at);
  case DPP_HALF_MIRROR: return (l & ~7) | (7 - (l & 7));
  case DPP_SHARE: return row | n;
  case DPP_XMASK: return row | (at ^ n);
  case DPP_WAVE_SHL: return l + 1 < lanes ? l + 1 : -1;
  case DPP_WAVE_SHR: return l - 1;
  case DPP_WAVE_ROL: return (l + 1) % lanes;
  case DPP_WAVE_ROR: return (l + lanes - 1) % lanes;
  case DPP_BCAST: break; /* the last lane of a row (15) or of half a wave (31), to what follows */
  }
  if (n == 15) return row ? row - 1 : -1;
  return l >= 32 ? 31 : -1;
}

static bool dpp_word(Arena *a, IsaInstr *i, const char *word, int lanes) {
  static const struct {
    const char *name;
    DppKind kind;
  } kinds[] = {
      {"row_shl:", DPP_SHL},
      {"row_shr:", DPP_SHR},
      {"row_ror:", DPP_ROR},
      {"row_mirror", DPP_MIRROR},
      {"row_half_mirror", DPP_HALF_MIRROR},
      {"row_share:", DPP_SHARE},
      {"row_newbcast:", DPP_SHARE},
      {"row_xmask:", DPP_XMASK},
      {"wave_shl:", DPP_WAVE_SHL},
      {"wave_shr:", DPP_WAVE_SHR},
      {"wave_rol:", DPP_WAVE_ROL},
      {"wave_ror:", DPP_WAVE_ROR},
      {"row_bcast:", DPP_BCAST},
  };
  const char *rest;
  for (size_t k = 0; k < WV_LEN(kinds); k++) {
    if (!has_prefix(word, kinds[k].name, &rest)) continue;
    int n = *rest ? atoi(rest) : 0;
    IsaDpp *d = dpp_of(a, i);
    for (int l = 0; l < ISA_LANES; l++) d->from[l] = (int8_t)dpp_source(kinds[k].kind, l, n, lanes);
    return true;
  }
  return false;
}

/* quad_perm:[3,2,1,0], dpp8:[7,6,5,4,3,2,1,0] */
static bool dpp_list(Arena *a, IsaInstr *i, const char *word) {
  const char *rest;
  int group = has_prefix(word, "quad_perm:", &rest) ? 4 : has_prefix(word, "dpp8:", &rest) ? 8 : 0;
  if (!group) return false;
  IsaDpp *d = dpp_of(a, i);
  if (group == 8) d->zero = true;
  for (int n = 0; n < group && (*rest == '[' || *rest == ','); n++) {
    char *end;
    int from = (int)strtol(rest + 1, &end, 10) & (group - 1);
    for (int l = n; l < ISA_LANES; l += group) d->from[l] = (int8_t)(l - n + from);
    rest = end;
  }
  return true;
}

static bool dpp_mask(Arena *a, IsaInstr *i, const char *word) {
  const char *rest;
  bool is_row = has_prefix(word, "row_mask:", &rest);
  if (!is_row && !has_prefix(word, "bank_mask:", &rest)) {
    if (has_prefix(word, "bound_ctrl:", &rest)) return dpp_of(a, i)->zero = true;
    if (has_prefix(word, "fi:", &rest)) return dpp_of(a, i)->inactive = true;
    return false;
  }
  long mask = strtol(rest, NULL, 0);
  for (int l = 0; l < ISA_LANES; l++)
    if (!(mask >> (is_row ? l / 16 : l / 4 % 4) & 1)) dpp_of(a, i)->write &= ~(UINT64_C(1) << l);
  return true;
}

/* ---- SDWA ---- */

static bool select_of(const char *name, uint8_t *out) {
  static const char *const names[] = {"DWORD",  "BYTE_0", "BYTE_1", "BYTE_2",
                                      "BYTE_3", "WORD_0", "WORD_1"};
  for (size_t n = 0; n < WV_LEN(names); n++)
    if (strcmp(name, names[n]) == 0) return *out = (uint8_t)n, true;
  return false;
}

static bool sdwa_word(IsaInstr *i, const char *word) {
  const char *rest;
  if (has_prefix(word, "dst_sel:", &rest)) return i->is_sdwa = select_of(rest, &i->select);
  if (has_prefix(word, "src0_sel:", &rest)) return select_of(rest, &i->s[0].select);
  if (has_prefix(word, "src1_sel:", &rest)) return select_of(rest, &i->s[1].select);
  if (!has_prefix(word, "dst_unused:UNUSED_", &rest)) return false;
  i->unused = strcmp(rest, "PAD") == 0    ? ISA_PAD
              : strcmp(rest, "SEXT") == 0 ? ISA_SEXT
                                          : ISA_PRESERVE;
  return true;
}

/* ---- the pattern of ds_swizzle, as the 16 bits of its encoding ---- */

static int bitmask(int and, int or, int xor) { return and | or << 5 | xor << 10; }

/* BITMASK_PERM,"01pi0": for each bit of the lane's number, highest first: 0, 1, kept or inverted. */
static int swizzle_bits(const char *s) {
  int and = 0, or = 0, xor = 0;
  for (int bit = 4; bit >= 0; bit--, s++) {
    if (!*s || !strchr("01pi", *s)) return -1;
    and |= (*s == 'p' || *s == 'i') << bit, or |= (*s == '1') << bit, xor |= (*s == 'i') << bit;
  }
  return bitmask(and, or, xor);
}

static int swizzle_of(const char *s) {
  int n[4] = {0}, count = 0;
  const char *comma = strchr(s, ',');
  if (strncmp(s, "BITMASK_PERM", 12) == 0)
    return comma && comma[1] == '"' ? swizzle_bits(comma + 2) : -1;
  for (const char *at = comma; at && *at == ',' && count < 4; at = strchr(at + 1, ','))
    n[count++] = atoi(at + 1);
  if (strncmp(s, "QUAD_PERM", 9) == 0 && count == 4)
    return 0x8000 | n[0] | n[1] << 2 | n[2] << 4 | n[3] << 6;
  if (strncmp(s, "SWAP", 4) == 0) return bitmask(31, 0, n[0]);
  if (strncmp(s, "REVERSE", 7) == 0) return bitmask(31, 0, n[0] - 1);
  if (strncmp(s, "BROADCAST", 9) == 0) return bitmask(32 - n[0], n[1], 0);
  return -1;
}

/* ---- everything else ---- */

/* Caching, and hints: no effect on what is computed, but atomics return a value. */
static bool hint_word(IsaInstr *i, const char *word) {
  static const char *const hints[] = {"glc", "slc", "dlc", "sc0", "sc1", "nt", "nv"};
  const char *rest;
  i->returns |= strcmp(word, "glc") == 0 || strcmp(word, "sc0") == 0 ||
                strstr(word, "TH_ATOMIC_RETURN"); /* of atomics: the value before */
  for (size_t n = 0; n < WV_LEN(hints); n++)
    if (strcmp(word, hints[n]) == 0) return true;
  return has_prefix(word, "scope:", &rest) || has_prefix(word, "th:", &rest);
}

static bool flag_word(IsaInstr *i, const char *word) {
  static const struct {
    const char *name;
    size_t at;
  } flags[] = {{"clamp", offsetof(IsaInstr, clamp)},
               {"offen", offsetof(IsaInstr, offen)},
               {"idxen", offsetof(IsaInstr, idxen)},
               {"lds", offsetof(IsaInstr, lds)},
               {"scale_offset", offsetof(IsaInstr, scales)}};
  for (size_t n = 0; n < WV_LEN(flags); n++)
    if (strcmp(word, flags[n].name) == 0) return *((bool *)((char *)i + flags[n].at)) = true;
  return false;
}

static bool number_word(IsaInstr *i, const char *word) {
  const char *rest;
  if (has_prefix(word, "offset1:", &rest)) return i->offset1 = (int32_t)strtol(rest, NULL, 0), true;
  if (has_prefix(word, "offset:swizzle(", &rest))
    return i->offset = swizzle_of(rest), i->offset >= 0;
  if (has_prefix(word, "offset0:", &rest) || has_prefix(word, "offset:", &rest))
    return i->offset = (int32_t)strtol(rest, NULL, 0), true;
  if (has_prefix(word, "mul:", &rest)) return i->omod = *rest == '2' ? 1 : 2, true;
  if (has_prefix(word, "div:", &rest)) return i->omod = -1, true;
  if (has_prefix(word, "cbsz:", &rest)) return i->cbsz = (uint8_t)atoi(rest), true;
  if (has_prefix(word, "abid:", &rest)) return i->abid = (uint8_t)atoi(rest), true;
  if (has_prefix(word, "blgp:", &rest)) return i->blgp = (uint8_t)atoi(rest), true;
  if (has_prefix(word, "bitop3:", &rest)) return i->table = (uint8_t)strtoul(rest, NULL, 0), true;
  return false;
}

static bool bits_word(IsaInstr *i, const char *word) {
  const char *rest;
  if (has_prefix(word, "op_sel_hi:", &rest)) return i->op_sel_hi = bits_of(rest), true;
  if (has_prefix(word, "op_sel:", &rest)) return i->op_sel = bits_of(rest), true;
  if (has_prefix(word, "neg_lo:", &rest)) return i->neg_lo = bits_of(rest), true;
  if (has_prefix(word, "neg_hi:", &rest)) return i->neg_hi = bits_of(rest), true;
  return false;
}

/* The types of the operands of a matrix instruction, numbered as in cbsz and blgp. */
static bool format_word(IsaInstr *i, const char *word) {
  static const char *const names[] = {"FP8", "BF8", "FP6", "BF6", "FP4"};
  const char *rest;
  bool is_a = has_prefix(word, "matrix_a_fmt:MATRIX_FMT_", &rest);
  if (!is_a && !has_prefix(word, "matrix_b_fmt:MATRIX_FMT_", &rest)) return false;
  for (size_t n = 0; n < WV_LEN(names); n++)
    if (strcmp(rest, names[n]) == 0) return *(is_a ? &i->cbsz : &i->blgp) = (uint8_t)n, true;
  return false;
}

bool isa_modifier(Arena *a, IsaInstr *i, const char *word, int lanes) {
  return hint_word(i, word) || flag_word(i, word) || number_word(i, word) || bits_word(i, word) ||
         dpp_word(a, i, word, lanes) || dpp_list(a, i, word) || dpp_mask(a, i, word) ||
         sdwa_word(i, word) || format_word(i, word);
}
