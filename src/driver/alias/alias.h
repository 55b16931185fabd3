/* alias.h: a tensor that may be the first columns of another one.
 *
 *     %k = read %keys, %token {mapping = map 3 {POOL: $dynamic_val0, H: $index0, D: $index2} -> ...}
 *     %v = read %values, %token {mapping = map 3 {POOL: $dynamic_val0, H: $index0, E: $index2} -> ...}
 *
 * If a launch passes the first columns of `keys` as `values`, as attention with latent keys does, both reads
 * give the same tile: it is copied to shared memory once, and has room for twice as many slots. So there is a
 * variant for such launches, in which the second read is the first. */
#ifndef WV_ALIAS_H
#define WV_ALIAS_H

#include "driver/launch_code.h"

/* Two parameters. */
typedef struct Alias {
  bool found;
  int whole, part;
} Alias;

/* Parameters that are only read, the second by reads that each follow the same one of the first. */
Alias alias_find(const Kernel *k);

/* The condition that the second tensor is the first columns of the first one, if they have the same address;
 * over slots, which do not have whole addresses. */
const Sym *alias_condition(const LaunchSymbols *s, Alias a);

/* Replaces the reads of the second by those of the first. */
void alias_merge(Kernel *k, Alias a);

#endif
