/* base.h: attributes, assertions and the few macros every layer uses. */
#ifndef WV_BASE_H
#define WV_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WV_LEN(array) (sizeof(array) / sizeof((array)[0]))

#if defined(__GNUC__)
#define WV_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define WV_NORETURN __attribute__((noreturn))
#define WV_LIKELY(x) __builtin_expect(!!(x), 1)
#define WV_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define WV_NOINLINE __attribute__((noinline))
#else
#define WV_PRINTF(fmt, first)
#define WV_NORETURN
#define WV_LIKELY(x) (x)
#define WV_UNLIKELY(x) (x)
#define WV_NOINLINE
#endif

static inline bool is_power_of_two(int n) { return (n & (n - 1)) == 0; } /* n > 0 */

/* Rounds up; b > 0. */
static inline int64_t ceil_div64(int64_t a, int64_t b) { return a / b + (a % b > 0); }
static inline int64_t floor_div64(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static inline int ceil_div(int64_t a, int64_t b) { return (int)ceil_div64(a, b); }

/* The index of the lowest set bit; x is not 0. */
static inline int lowest_bit(uint64_t x) {
#if defined(__GNUC__)
  return __builtin_ctzll(x);
#else
  int n = 0;
  for (; !(x & 1); x >>= 1) n++;
  return n;
#endif
}

/* A violated invariant of the compiler, never a user's mistake (those are diagnostics). Always
 * compiled in. It ends the current call of wave.h with an error (landing.h). */
#ifdef WAVE_FAULTS /* lets tests make valid assertions fail */
bool base_fault(const char *file, int line);
#define WV_HOLDS(cond) ((cond) && !base_fault(__FILE__, __LINE__))
#else
#define WV_HOLDS(cond) WV_LIKELY(cond)
#endif
#define WV_ASSERT(cond) (WV_HOLDS(cond) ? (void)0 : base_bug(__FILE__, __LINE__, #cond))
#define WV_BUG(what) base_bug(__FILE__, __LINE__, what)

WV_NORETURN void base_bug(const char *file, int line, const char *what);

#endif
