/* os.h: files and clocks. The only place with platform differences outside the runtime. */
#ifndef WV_OS_H
#define WV_OS_H

#include "base/arena.h"

char *os_read_file(Arena *a, const char *path, size_t *len); /* NULL: cannot be read */
double os_seconds(void);                                     /* monotonic */

#endif
