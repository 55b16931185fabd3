/* landing.h: where an internal error ends, so that it does not end the user's process.
 *
 * Every function of wave.h is a *landing*: a failed WV_ASSERT, a WV_BUG or memory that has run out
 * anywhere below it releases what the call holds (newest first), then jumps back to the landing,
 * which reports the failure and returns it to its caller. Without a landing the process ends.
 *
 * A jump crosses only frames of ours. Whoever calls out (a user's callback) does it between
 * landing_call_out and landing_back: functions of wave.h called from there are landings of their
 * own, and everything else that fails there ends the process. Code of ours that others call without
 * a landing (LLVM's handlers, the kernels' threads) neither asserts nor allocates from arenas.
 *
 * What a call holds is a list for each thread, the only state here: arenas enter it by themselves,
 * everything else (locks, files, devices, code) with landing_hold. A release function runs before
 * the jump, so a Held may stand on the stack; it may use only what is older than itself. What is
 * stored in something that outlives the call is let go, and freed by its owner. */
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

void landing_hold(Held *h, void (*release)(void *what), void *what); /* no landing: nothing */
void landing_let_go(Held *h);                                        /* not held: nothing */

/* ---- landings ---- */

typedef struct Landing {
  jmp_buf back;
  struct Landing *outer;
  Held *held;                    /* the newest thing that was held before */
  const struct Attempt *attempt; /* landing_attempt's before */
  bool is_here;    /* false: a call within a call of ours, which the outer one answers for */
  bool is_foreign; /* code that is not ours runs */
} Landing;

/* True: the caller must set `back`. */
bool landing_enter(Landing *l);
/* What is held now belongs to the caller. Runs at the end of the scope of a WV_LANDING. */
void landing_leave(Landing *l);

#if defined(__GNUC__)
#define WV_LANDING(name) __attribute__((cleanup(landing_leave))) Landing name
#define WV_IF_LANDED(name)                                                                         \
  if (landing_enter(&name))                                                                        \
    if (setjmp(name.back) != 0)
#else /* who leaves the scope is not seen: internal errors end the process */
#define WV_LANDING(name) Landing name = {.is_here = false}
#define WV_IF_LANDED(name) if (name.is_here)
#endif

void landing_call_out(Landing *l);
void landing_back(Landing *l);

/* ---- what failed ---- */

enum { FAILURE_TEXT = 640 };

typedef struct Failure {
  bool is_memory; /* there was none left; else an assertion failed */
  char text[FAILURE_TEXT];
  char saved[FAILURE_TEXT]; /* the file with what was being done; "": there is none */
} Failure;

/* Of the last landing in this thread. */
const Failure *landing_failure(void);

/* What a call is about to do. After a failure, before anything is released, `save` writes it down,
 * without memory of ours, and says in which file; false: it could not. */
typedef struct Attempt Attempt;
struct Attempt {
  bool (*save)(const Attempt *a, const char *why, char path[FAILURE_TEXT]);
};

void landing_attempt(const Attempt *a); /* until this call ends, or another attempt; NULL: none */

/* Ends the call in progress, or the process. */
WV_NORETURN void landing_fail(bool is_memory, const char *text);
WV_NORETURN void landing_no_memory(size_t bytes);

/* ---- faults, for tests ---- */

/* What can be made to fail: a malloc of base/ in every build; with WAVE_FAULTS also each piece of
 * an arena, each assertion that is evaluated, and each that is evaluated for the first time. */
typedef enum Fault { FAULT_NONE, FAULT_MALLOC, FAULT_ALLOC, FAULT_ASSERT, FAULT_SITE } Fault;

/* The n-th from now on fails, in this thread. How many there were since the last call. */
long landing_set_fault(Fault what, long n);
bool landing_fault(Fault what); /* another one: does it fail? */

#endif
