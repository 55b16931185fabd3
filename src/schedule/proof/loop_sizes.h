/* loop_sizes.h: sizes for which the loops inside another have 0, 1, 2, ... iterations.
 *
 * Symbols of which these numbers depend get values: for each number of iterations the largest one
 * that the kernel's assumptions allow. A loop whose end the kernel computes has any number. */
#ifndef WV_SCHEDULE_LOOP_SIZES_H
#define WV_SCHEDULE_LOOP_SIZES_H

#include "analysis/distribute.h"

typedef struct LoopSizes LoopSizes;

/* Of the loops inside `outer`. They have `most` iterations at least once, unless they are never as many;
 * if they always have more, as few as possible. */
LoopSizes *loop_sizes(Arena *a, const Distribution *d, const Op *outer, int most);

/* The next combination of values; false: there is none. The first call is for the first one. */
bool loop_sizes_next(LoopSizes *s);

/* Gives a loop's counter a value, in expressions that are evaluated from then on. */
void loop_sizes_count(LoopSizes *s, const Op *loop, int64_t iteration);

/* The value of a symbol; NULL: it has none. Expressions whose symbols have the same ones are equal. */
const Sym *loop_sizes_value(const LoopSizes *s, const Sym *symbol);

/* The value of an expression; false: it depends on something that has none. */
bool loop_sizes_eval(const LoopSizes *s, const Sym *e, int64_t *value);

/* The iterations of a loop. */
int64_t loop_sizes_iterations(const LoopSizes *s, const Op *loop);

#endif
