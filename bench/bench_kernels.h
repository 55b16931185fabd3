/* bench_kernels.h: the kernels of bench/kernels, with sizes. */
#ifndef WV_BENCH_KERNELS_H
#define WV_BENCH_KERNELS_H

#include <stdio.h>
#include <stdlib.h>

#include "base/os.h"
#include "ir/ir.h"

enum { MOST_BINDINGS = 8 };

typedef struct Binding {
  const char *name; /* NULL: the end of the list */
  int value;
} Binding;

/* The kernel of a file, with these symbols bound; ends the program if there is none. */
static inline Kernel *load_kernel(Context *cx, const char *path, const Binding *bind) {
  size_t n;
  const char *text = os_read_file(cx->arena, path, &n);
  KernelList list = text ? ir_parse(cx, path, text, cx->arena) : (KernelList){0};
  if (list.n != 1) {
    fprintf(stderr, "cannot read a kernel from %s\n", path);
    exit(2);
  }
  Kernel *k = list.at[0];
  for (int i = 0; i < MOST_BINDINGS && bind[i].name; i++) {
    Constraint row = {.kind = CONSTRAINT_bind, .at = k->at};
    row.bind.symbol = sym_symbol(cx->sym, bind[i].name, true);
    row.bind.value = sym_int(cx->sym, bind[i].value);
    vec_push(k->arena, &k->constraints, row);
  }
  return k;
}

#endif
