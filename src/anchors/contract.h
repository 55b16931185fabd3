/* contract.h: may a kernel's tiles be divided over threads differently than declared?
 *
 * A kernel is lane-observable if its result depends on which thread holds what (docs/language.md,
 * section 13.1): it
 *
 *   (a) mentions $T0, $T1, $T2, in an expression or through a bound symbol
 *   (b) reduces, scans or takes top-k without `block` along a dim that several waves share
 *   (c) does an atomic with `ept`: that many times in every thread, even if threads hold the same
 *       element
 *   (d) takes elements of what a thread holds, or branches on or sets a symbol from a value that
 *       differs between lanes
 *
 * All others are tile-pure. */
#ifndef WV_CONTRACT_H
#define WV_CONTRACT_H

#include "analysis/uniform.h"

typedef struct Contract {
  const Op *op;    /* the first op that makes the kernel lane-observable; NULL: tile-pure */
  const char *why; /* completes the sentence "it ..." */
} Contract;

/* Whether threads that hold the same coordinate may get different results from this op although its
 * operands agree: lanes of one wave (VARYING), or whole waves (WAVE); otherwise neither. */
UniformLevel contract_parts(const Distribution *d, const Op *op, Arena *scratch);

Contract contract_of(const Distribution *d, const Uniformity *u, Arena *scratch);

#endif
