/* landing.c: see landing.h. This is the compiler's only thread-local state: an assertion deep
 * inside it is not given anything that identifies the call it belongs to. */
#include "base/landing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SITES = 256 };

typedef struct Site {
  const char *file;
  int line;
} Site;

typedef struct Thread {
  Landing *here; /* the innermost */
  Held *held;    /* the newest */
  const Attempt *attempt;
  bool is_failing; /* a failure in a release function is ignored: only the first failure counts */
  Failure failure;
  Fault fault;
  long until, counted; /* the fault; since it was set */
#ifdef WAVE_FAULTS
  Site site[SITES];
  int nsites;
#endif
} Thread;

static _Thread_local Thread thread;

/* ---- what a call holds ---- */

void landing_hold(Held *h, void (*release)(void *what), void *what) {
  *h = (Held){0};
  if (!thread.here || thread.here->is_foreign) return;
  *h = (Held){.older = thread.held, .release = release, .what = what};
  if (h->older) h->older->newer = h;
  thread.held = h;
}

void landing_let_go(Held *h) {
  if (!h->release) return;
  if (h->older) h->older->newer = h->newer;
  if (h->newer) h->newer->older = h->older;
  else thread.held = h->older;
  *h = (Held){0};
}

/* ---- landings ---- */

bool landing_enter(Landing *l) {
  l->outer = thread.here;
  l->held = thread.held;
  l->attempt = thread.attempt;
  l->is_foreign = false;
  l->is_here = !thread.here || thread.here->is_foreign;
  if (l->is_here) thread.here = l;
  return l->is_here;
}

void landing_leave(Landing *l) {
  if (!l->is_here) return;
  while (thread.held != l->held) landing_let_go(thread.held);
  thread.here = l->outer;
  thread.attempt = l->attempt;
}

void landing_call_out(Landing *l) {
  l->outer = thread.here;
  l->is_foreign = true;
  thread.here = l;
}

void landing_back(Landing *l) { thread.here = l->outer; }

const Failure *landing_failure(void) { return &thread.failure; }

void landing_attempt(const Attempt *a) { thread.attempt = a; }

static void write_down(bool is_memory, const char *text) {
  Failure *f = &thread.failure;
  f->is_memory = is_memory;
  snprintf(f->text, sizeof f->text, "%s", text);
  if (!thread.attempt || !thread.attempt->save(thread.attempt, f->text, f->saved)) *f->saved = '\0';
}

/* Ends the current call or, without a landing, the process. */
static WV_NORETURN void landing_fail(bool is_memory, const char *text) {
  Landing *l = thread.here;
  if (!l || l->is_foreign) {
    fprintf(stderr, "wave: %s\n", text);
    abort();
  }
  if (!thread.is_failing) {
    thread.is_failing = true;
    write_down(is_memory, text);
  }
  while (thread.held != l->held) {
    Held *h = thread.held, kept = *h;
    landing_let_go(h);
    kept.release(kept.what);
  }
  thread.is_failing = false;
  longjmp(l->back, 1);
}

void landing_no_memory(size_t bytes) {
  char text[80];
  snprintf(text, sizeof text, "out of memory (%zu bytes requested)", bytes);
  landing_fail(true, text);
}

/* ---- faults ---- */

long landing_set_fault(Fault what, long n) {
  long counted = thread.counted;
  thread.fault = what;
  thread.until = n;
  thread.counted = 0;
#ifdef WAVE_FAULTS
  thread.nsites = 0;
#else
  if (what > FAULT_MALLOC) return -1;
#endif
  return counted;
}

/* Fails only once: the code that handles the failure must be able to proceed. */
bool landing_fault(Fault what) {
  if (WV_LIKELY(thread.fault != what) || !thread.here || thread.here->is_foreign) return false;
  thread.counted++;
  return thread.until > 0 && --thread.until == 0;
}

#ifdef WAVE_FAULTS
static bool is_first(const char *file, int line) {
  for (int i = 0; i < thread.nsites; i++)
    if (thread.site[i].line == line && strcmp(thread.site[i].file, file) == 0) return false;
  if (thread.nsites < SITES) thread.site[thread.nsites++] = (Site){file, line};
  return true;
}

bool base_fault(const char *file, int line) {
  if (WV_LIKELY(thread.fault < FAULT_ASSERT)) return false;
  if (thread.fault == FAULT_SITE) return is_first(file, line) && landing_fault(FAULT_SITE);
  return landing_fault(FAULT_ASSERT);
}
#endif

/* ---- base.h ---- */

void base_bug(const char *file, int line, const char *what) {
  char text[256];
  snprintf(text, sizeof text, "internal error at %s:%d: %s", file, line, what);
  landing_fail(false, text);
}
