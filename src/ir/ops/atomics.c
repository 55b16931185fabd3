/* atomics.c: see atomics.h. */
#include "ir/ops/atomics.h"

#include <string.h>

#define OP_none OP_COUNT
static const struct {
  OpKind op;
  AtomicMode mode;
} atomics[] = {
#define ATOMIC(op, word, combine) {OP_##op, {#word, OP_##combine}},
#include "ir/ops/atomics.def"
    {OP_scatter_add, {"add", OP_add}},
};

AtomicMode atomic_mode(OpKind kind) {
  for (size_t i = 0; i < WV_LEN(atomics); i++)
    if (atomics[i].op == kind) return atomics[i].mode;
  WV_BUG("not an atomic");
}

OpKind atomic_combine(const char *word) {
  for (size_t i = 0; i < WV_LEN(atomics); i++)
    if (strcmp(atomics[i].mode.word, word) == 0) return atomics[i].mode.combine;
  WV_BUG("not a word of an atomic");
}
