/* dot_kit.h: register tiles as lower_tiles uses them. */
#ifndef WV_DOT_KIT_H
#define WV_DOT_KIT_H

#include "unit/cpu_kit.h"

/* A loop over k that adds products to a block, as lower_tiles writes it. */
static inline const char *loop_text(Arena *a, const MmaInfo *row, DType operands, DType sums,
                                    int steps) {
  const char *t = dtype_info[operands].name, *s = dtype_info[sums].name;
  int as = row->m * row->k, bs = row->n * row->k, cs = row->m * row->n;
  return arena_printf(
      a,
      "thread kernel @tile(%%a: mem<%d, %s>, %%b: mem<%d, %s>, %%c: mem<%d, %s>)\n"
      "  launch grid (1) block (1) wave 1\n"
      "{\n  %%zero = scalar 0 : index\n  %%start = load %%c, %%zero : vec<%d, %s>\n"
      "  %%r = for K with {trips = %d} carry %%acc = %%start {\n"
      "    %%i = expr $ARGK*%d : index\n    %%j = expr $ARGK*%d : index\n"
      "    %%x = load %%a, %%i : vec<%d, %s>\n    %%y = load %%b, %%j : vec<%d, %s>\n"
      "    %%s = wave_mma %s %%x, %%y, %%acc\n    yield %%s\n  }\n"
      "  store %%r, %%c, %%zero\n}\n",
      as * steps, t, bs * steps, t, cs, s, cs, s, steps, as, bs, as, t, bs, t, row->name);
}

static inline DType operands_of(DotForm form) {
  unsigned types = form == DOT_tile ? MMA_f32 : dot_info(form)->types;
  for (int t = 0; t < DTYPE_COUNT; t++)
    if (types == (unsigned)dtype_mma((DType)t)) return (DType)t;
  return DTYPE_f32;
}

static inline DType sums_of(DType operands) {
  if (!dtype_is_float(operands)) return DTYPE_i32;
  return operands == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
}

#endif
