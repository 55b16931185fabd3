/* build_id.h: identifies the build of the compiler. */
#ifndef WV_BUILD_ID_H
#define WV_BUILD_ID_H

#include "base/arena.h"

/* Differs between builds that might compile differently: the linker's build id of the binary that
 * contains this code; without one, the size and time of its file. */
const char *build_id(Arena *a);

#endif
