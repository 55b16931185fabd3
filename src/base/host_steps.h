/* host_steps.h: straight-line programs of checked integer operations.
 *
 * This is the form in which index expressions are computed on the host: sym/program.c compiles them
 * and runs them many points at a time, launches run them once (runtime/launch/launch_expr.c). */
#ifndef WV_HOST_STEPS_H
#define WV_HOST_STEPS_H

#include "base/base.h"

typedef enum HostStepKind {
#define HOST_STEP(name, doc) HOST_##name,
#include "base/host_steps.def"
  HOST_COUNT
} HostStepKind;

typedef struct HostStep {
  HostStepKind kind;
  int a, b, c;
  int64_t value;
} HostStep;

#endif
