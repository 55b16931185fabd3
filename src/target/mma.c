/* mma.c: the rows of mma.def, their fragments, and rows generated for machines without matrix
 * instructions. */
#include "target/mma.h"

#include <stdio.h>
#include <string.h>

#include "target/target.h"

/* ---- the table ------------------------------------------------------------------------------- */

enum {
  f64 = MMA_f64,
  f32 = MMA_f32,
  tf32 = MMA_tf32,
  f16 = MMA_f16,
  bf16 = MMA_bf16,
  i32 = MMA_i32,
  i8 = MMA_i8,
  i16 = MMA_i16,
  f4e2m1fn = MMA_f4e2m1fn,
  F8_OCP = MMA_f8e4m3fn | MMA_f8e5m2,
  F8 = F8_OCP | MMA_f8e4m3fnuz | MMA_f8e5m2fnuz,
  F6F4 = MMA_f6e2m3fn | MMA_f4e2m1fn,
  SAME = false,
  MIXED = true,
  ROWS = false,
  SQUARES = true,
  ALL_TYPES = (MMA_i16 << 1) - 1,
  ACC_TYPES = MMA_f64 | MMA_f32 | MMA_f16 | MMA_i32,
};

/* The texts of the fragments, by name. */
#define FRAGMENT(name, text) static const char frag_##name[] = text;
#define MMA(...)
#define WGMMA(...)
#include "target/mma.def"
#define frag_none NULL

static const MmaInfo mma_rows[] = {
#define FRAGMENT(name, text)
#define MMA(name, code, form, m, n, k, lanes, operand, acc, types, pairs, acc_types, needs, a, b,  \
            c, s, emit)                                                                            \
  {#name,                                                                                          \
   code,                                                                                           \
   MMA_##form,                                                                                     \
   m,                                                                                              \
   n,                                                                                              \
   k,                                                                                              \
   lanes,                                                                                          \
   operand,                                                                                        \
   acc,                                                                                            \
   types,                                                                                          \
   acc_types,                                                                                      \
   pairs,                                                                                          \
   MMA_REGISTERS,                                                                                  \
   MMA_REGISTERS,                                                                                  \
   FEATURE_##needs,                                                                                \
   0,                                                                                              \
   {frag_##a, frag_##b, frag_##c, frag_##s, frag_##s},                                             \
   emit},
#define WGMMA_ROW(n, n8, k, acc, word, types, pairs, acc_types, a)                                 \
  {"wgmma_m64n" #n "k" #k "_" #acc "_" #word,                                                      \
   0,                                                                                              \
   MMA_NATIVE,                                                                                     \
   64,                                                                                             \
   n,                                                                                              \
   k,                                                                                              \
   128,                                                                                            \
   k / 2,                                                                                          \
   n / 2,                                                                                          \
   types,                                                                                          \
   acc_types,                                                                                      \
   pairs,                                                                                          \
   MMA_REGISTERS | MMA_SHARED,                                                                     \
   MMA_SHARED,                                                                                     \
   FEATURE_WGMMA,                                                                                  \
   0,                                                                                              \
   {frag_##a, NULL, "reg d1/2:1 d0/2:8 d1/" #n8 ":8 | lane d1/4:2 d0/8:1 | wave d0/4:16", NULL,    \
    NULL},                                                                                         \
   "wgmma.mma_async.sync.aligned.m64n" #n "k" #k ".%d.%a.%b"},
#define WGMMA(k, acc, word, types, pairs, acc_types, steps, a)                                     \
  steps(WGMMA_ROW, k, acc, word, types, pairs, acc_types, a)
#include "target/mma.def"
};

int mma_count(void) { return (int)WV_LEN(mma_rows); }

const MmaInfo *mma_at(int i) { return i >= 0 && i < mma_count() ? &mma_rows[i] : NULL; }

const MmaInfo *mma_find(const char *name) {
  for (size_t i = 0; i < WV_LEN(mma_rows); i++)
    if (strcmp(mma_rows[i].name, name) == 0) return &mma_rows[i];
  return NULL;
}

const char *mma_plain_name(const char *spelled) {
  static const char prefix[] = "MFMA_";
  const char *dot = strrchr(spelled, '.'), *name = dot ? dot + 1 : spelled;
  return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

/* ---- questions about a row ------------------------------------------------------------------- */

enum { SCALE_BLOCK = 32 }; /* elements of K with one MX scale */

void mma_extents(const MmaInfo *row, MmaOperand operand, int extent[2]) {
  bool b = operand == MMA_B || operand == MMA_SB, scale = operand == MMA_SA || operand == MMA_SB;
  extent[0] = b ? row->n : row->m;
  extent[1] = operand == MMA_C ? row->n : scale ? row->k / SCALE_BLOCK : row->k;
}

bool mma_fragment(const MmaInfo *row, MmaOperand operand, Layout *out) {
  const char *text = row->layout[operand];
  int extent[2];
  if (!text) return false;
  mma_extents(row, operand, extent);
  *out = layout_of(2, extent);
  const char *wrong = layout_parse_digits(&text, out);
  WV_ASSERT(!wrong && !*text);
  layout_normalise(out);
  return true;
}

int mma_k_block(const MmaInfo *row) { return row->form == MMA_SCALED ? SCALE_BLOCK : row->k; }

bool mma_allows(const MmaInfo *row, MmaType a, MmaType b, MmaType acc) {
  return (row->operand_types & a) && (row->operand_types & b) && (row->acc_types & acc) &&
         (row->mixed || a == b);
}

const MmaInfo *mma_for_type(const MmaInfo *row, MmaType type) {
  if (row->operand_types & type) return row;
  for (size_t i = 0; i < WV_LEN(mma_rows); i++) {
    const MmaInfo *other = &mma_rows[i];
    if (other != row && (other->operand_types & type) && strcmp(other->emit, row->emit) == 0)
      return other;
  }
  return NULL;
}

/* ---- made rows ------------------------------------------------------------------------------- */

/* Along N:  A in every lane   k_vec of K, then the out_vec rows
 *           B                 k_vec of K, lane = n * k_mult + slice of K
 *           C                 the out_vec rows, the same sum in the k_mult lanes of n
 * Along M the roles of A and B, and the dims of C, are exchanged. */
const MmaInfo *mma_dot(Arena *a, MmaDot dot, int lanes) {
  if (dot.out_vec < 1 || dot.k_vec < 1 || dot.k_mult < 1 || lanes % dot.k_mult) return NULL;
  int across = lanes / dot.k_mult, k = dot.k_vec * dot.k_mult, out = dot.along == MMA_ALONG_M;
  const char *shared = arena_printf(a, "reg d1/%d:1 d0/%d:1 | lane d1/%d:%d ~/%d", dot.k_vec,
                                    dot.out_vec, dot.k_mult, dot.k_vec, across);
  const char *spread = arena_printf(a, "reg d1/%d:1 | lane d1/%d:%d d0/%d:1", dot.k_vec, dot.k_mult,
                                    dot.k_vec, across);
  MmaInfo *row = ARENA_NEW(a, MmaInfo);
  *row = (MmaInfo){
      .name = arena_printf(a, "dot_%c%d_k%dx%d_l%d", out ? 'm' : 'n', dot.out_vec, dot.k_vec,
                           dot.k_mult, lanes),
      .form = MMA_DOT,
      .m = out ? across : dot.out_vec,
      .n = out ? dot.out_vec : across,
      .k = k,
      .lanes = lanes,
      .operand_types = ALL_TYPES,
      .acc_types = ACC_TYPES,
      .mixed = true,
      .storage_a = MMA_REGISTERS,
      .storage_b = MMA_REGISTERS,
      .layout = {out ? spread : shared, out ? shared : spread,
                 arena_printf(a, "reg d%d/%d:1 | lane ~/%d d%d/%d:1", out, dot.out_vec, dot.k_mult,
                              1 - out, across)},
      .emit = "",
  };
  return row;
}

const DotInfo *dot_info(DotForm form) {
  static const DotInfo rows[] = {
#define REGISTER_TILE(word, k, a, b, grain, blocks, types, from, sums, doc)                        \
  {#word, doc, k, a, b, grain, blocks, types, from, sums},
#include "target/register_tile.def"
  };
  return &rows[form];
}

/* `k_group` elements of K, then rows, then the rest of K. */
static const char *k_group_layout(Arena *a, int rows, int k, int k_group) {
  if (k_group == k) return arena_printf(a, "reg d1/%d:1 d0/%d:1", k, rows);
  return arena_printf(a, "reg d1/%d:1 d0/%d:1 d1/%d:%d", k_group, rows, k / k_group, k_group);
}

static const char *sums_layout(Arena *a, const DotInfo *t, int m, int n) {
  if (!t->squares || m % 2 || n % 2) return arena_printf(a, "reg d1/%d:1 d0/%d:1", n, m);
  return arena_printf(a, "reg d1/2:1 d0/2:1 d1/%d:2 d0/%d:2", n / 2, m / 2);
}

const MmaInfo *mma_register_tile(Arena *a, DotForm form, int m, int n, int k) {
  const DotInfo *t = dot_info(form);
  MmaInfo *row = ARENA_NEW(a, MmaInfo);
  bool any_k = form == DOT_tile && k > 0;
  if (!any_k) k = t->k;
  *row = (MmaInfo){
      .name = arena_printf(a, "%s_%dx%dx%d", t->word, m, n, k),
      .form = MMA_TILE,
      .m = m,
      .n = n,
      .k = k,
      .lanes = 1,
      .operand_elems = m * k,
      .acc_elems = m * n,
      .operand_types = t->types,
      .acc_types = t->sums,
      .storage_a = MMA_REGISTERS,
      .storage_b = MMA_REGISTERS,
      .needs = FEATURE_REGISTER_TILES,
      .tile = form,
      .layout = {k_group_layout(a, m, k, any_k ? k : t->k_group_a),
                 k_group_layout(a, n, k, any_k ? k : t->k_group_b), sums_layout(a, t, m, n)},
      .emit = "",
  };
  return row;
}

enum { MOST_ELEMENTS = 4096 }; /* that a register tile holds */

/* The form that the name begins with; returns the text after it. */
static const char *behind_word(const char *name, DotForm *form) {
  for (int i = 0; i < DOT_COUNT; i++) {
    const char *word = dot_info((DotForm)i)->word;
    size_t n = strlen(word);
    if (strncmp(name, word, n) != 0 || name[n] != '_') continue;
    *form = (DotForm)i;
    return name + n + 1;
  }
  return "";
}

const MmaInfo *mma_named(Arena *a, const char *name) {
  const MmaInfo *row = mma_find(name);
  DotForm form = DOT_tile;
  int m, n, k;
  if (row || sscanf(behind_word(name, &form), "%dx%dx%d", &m, &n, &k) != 3) return row;
  bool fits = m > 0 && n > 0 && k > 0 && m <= MOST_ELEMENTS && n <= MOST_ELEMENTS &&
              k <= MOST_ELEMENTS && m * n <= MOST_ELEMENTS && m * k <= MOST_ELEMENTS &&
              n * k <= MOST_ELEMENTS;
  row = fits ? mma_register_tile(a, form, m, n, k) : NULL;
  return row && strcmp(row->name, name) == 0 ? row : NULL;
}
