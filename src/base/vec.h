/* vec.h: a growing array in an arena.
 *
 *     Vec(Op *) ops = {0};
 *     vec_push(a, &ops, op);
 *     for (int i = 0; i < ops.n; i++) use(ops.at[i]);
 */
#ifndef WV_VEC_H
#define WV_VEC_H

#include "base/arena.h"

#define Vec(T)                                                                                     \
  struct {                                                                                         \
    T *at;                                                                                         \
    int n, cap;                                                                                    \
  }

#define vec_push(a, v, x)                                                                          \
  ((v)->at = vec_room((a), (v)->at, (v)->n, &(v)->cap, sizeof *(v)->at), (v)->at[(v)->n++] = (x))

/* Makes room for one more element: returns the same array, or a copy twice as large. */
void *vec_room(Arena *a, void *at, int n, int *cap, size_t elem);

#endif
