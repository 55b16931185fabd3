/* ops_kit.h: one op on vectors of any type, over all kinds of bit patterns. */
#ifndef OPS_KIT_H
#define OPS_KIT_H

#include "unit/eval_kit.h"

static int fill_count; /* elements of each tensor */

/* Two operands and a result, of the kernel's types. Divisors of integers are not 0. */
static inline void fill_bits(Lab *l) {
  for (int t = 0; t < 3; t++) {
    DType type = l->k->body->args[t]->type->dtype;
    lab_tensor(l, type, 1, fill_count);
    for (int64_t e = 0; t < 2 && e < fill_count; e++) {
      l->seed = l->seed * 6364136223846793005u + 1442695040888963407u;
      uint64_t bits = l->seed >> 13;
      if (e % 3 == 0) bits = l->seed >> 60;
      if (dtype_is_float(type)) bits = e % 3 ? dtype_encode(type, lab_random(l) * 0.375) : bits;
      if (dtype_info[type].bits < 64) bits &= (UINT64_C(1) << dtype_info[type].bits) - 1;
      if (!dtype_is_float(type) && t == 1 && !bits) bits = 3;
      dtype_store(type, l->tensors[t].data, e, bits);
    }
  }
}

static inline const char *vector_text(char *out, size_t size, const char *type, int n) {
  if (n == 1) snprintf(out, size, "%s", type);
  else snprintf(out, size, "vec<%d, %s>", n, type);
  return out;
}

/* The elements of a vector of about n: four-bit ones come in pairs. */
static inline int whole_bytes(const char *in, const char *out, int n) {
  DType a, b;
  dtype_parse(in, &a), dtype_parse(out, &b);
  return n % 2 && (dtype_info[a].bits == 4 || dtype_info[b].bits == 4) ? 2 * n : n;
}

#endif
