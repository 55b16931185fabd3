/* py_scratch: arrays that live until the end of one call into the extension. */
#include "ext.h"

typedef struct ScratchBlock {
  struct ScratchBlock *next;
  max_align_t data[];
} ScratchBlock;

void *py_scratch_alloc(Scratch *s, size_t count, size_t size) {
  ScratchBlock *b = PyMem_Calloc(1, sizeof *b + (count ? count : 1) * size);
  if (!b) return PyErr_NoMemory();
  b->next = s->first;
  s->first = b;
  return b->data;
}

void py_scratch_free(Scratch *s) {
  while (s->first) {
    ScratchBlock *next = s->first->next;
    PyMem_Free(s->first);
    s->first = next;
  }
}
