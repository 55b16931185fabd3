/* landing.h: contains internal errors, so that they do not end the user's process.
 *
 * Every function of wave.h is a *landing*: a failed WV_ASSERT, a WV_BUG or running out of memory
 * anywhere below it releases what the call holds (newest first), then jumps back to the landing,
 * which reports the failure and returns it to its caller. Without a landing the process ends.
 *
 * A jump crosses only frames of the compiler. Code that calls out (a user's callback) does so
 * between landing_call_out and landing_back: functions of wave.h called from the callback are
 * landings of their own, and any other failure there ends the process. Compiler code that runs
 * without a landing (LLVM's handlers, the kernels' threads) neither asserts nor allocates from
 * arenas.
 *
 * What a call holds is a per-thread list, the only state here. Arenas enter it themselves;
 * everything else (locks, files, devices, code) is entered with landing_hold. Release functions run
 * before the jump, so a Held may be on the stack; it may use only what is older than itself. What
 * is stored in something that outlives the call is let go of, and freed by its owner. */
#ifndef WV_LANDING_H
#define WV_LANDING_H

#include <setjmp.h>

#include "base/base.h"

/* ---- what a call holds ---- */

typedef struct Held {
  struct Held *older, *newer;
  void (*release)(void *what); /* NULL: not in the list */
  void *what;
} Held;

void landing_hold(Held *h, void (*release)(void *what), void *what); /* does nothing without a
                                                                      * landing */
void landing_let_go(Held *h);                                        /* does nothing if not held */

/* ---- landings ---- */

typedef struct Landing {
  jmp_buf back;
  struct Landing *outer;
  Held *held;                    /* the newest thing held before */
  const struct Attempt *attempt; /* the attempt before this landing */
  bool is_here;                  /* false: nested in another call of ours, which handles failures */
  bool is_foreign;               /* code that is not ours is running */
} Landing;

/* True: the caller must set `back`. */
bool landing_enter(Landing *l);
/* What is held now passes to the caller. Runs at the end of a WV_LANDING's scope. */
void landing_leave(Landing *l);

#if defined(__GNUC__)
#define WV_LANDING(name) __attribute__((cleanup(landing_leave))) Landing name
#define WV_IF_LANDED(name)                                                                         \
  if (landing_enter(&name))                                                                        \
    if (setjmp(name.back) != 0)
#else /* leaving the scope cannot be detected: internal errors end the process */
#define WV_LANDING(name) Landing name = {.is_here = false}
#define WV_IF_LANDED(name) if (name.is_here)
#endif

void landing_call_out(Landing *l);
void landing_back(Landing *l);

/* ---- the failure ---- */

enum { FAILURE_TEXT = 640 };

typedef struct Failure {
  bool is_memory; /* out of memory; otherwise an assertion failed */
  char text[FAILURE_TEXT];
  char saved[FAILURE_TEXT]; /* the file that records what was being done; "": none */
} Failure;

/* The failure of the last landing in this thread. */
const Failure *landing_failure(void);

/* What a call is about to do. After a failure, before anything is released, `save` writes it down
 * without allocating from arenas and returns the name of the file; false: it failed. */
typedef struct Attempt Attempt;
struct Attempt {
  bool (*save)(const Attempt *a, const char *why, char path[FAILURE_TEXT]);
};

void landing_attempt(const Attempt *a); /* until this call ends or makes another attempt; NULL:
                                         * none */

WV_NORETURN void landing_no_memory(size_t bytes);

/* ---- faults, for tests ---- */

/* Faults that can be injected: a malloc of base/ in every build; with WAVE_FAULTS also each
 * allocation from an arena, each assertion that is evaluated, and each that is evaluated for the
 * first time. */
typedef enum Fault { FAULT_NONE, FAULT_MALLOC, FAULT_ALLOC, FAULT_ASSERT, FAULT_SITE } Fault;

/* The n-th from now fails, in this thread. Returns how many there were since the last call. */
long landing_set_fault(Fault what, long n);
bool landing_fault(Fault what); /* counts one more: does it fail? */

#endif
