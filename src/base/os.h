/* os.h: files and clocks. Outside the runtime, the only place with platform differences. */
#ifndef WV_OS_H
#define WV_OS_H

#include "base/arena.h"

char *os_read_file(Arena *a, const char *path, size_t *len); /* NULL: cannot be read */
char *os_read_descriptor(Arena *a, int fd, size_t *len);     /* the same; closes it */
int64_t os_file_stamp(const char *path); /* changes when the file does; 0: no such regular file */
bool os_is_folder(const char *path);
bool os_make_folder(const char *path); /* with those above it; true if it exists already */
/* False: it could not be written; errno says why. Allocates nothing. */
bool os_write_file(const char *path, const void *bytes, size_t n);
/* The folder that a file is in, or would be in, from the root on. */
char *os_folder_of(Arena *a, const char *path);
double os_seconds(void); /* monotonic */

#endif
