/* build_id.h: which build of the compiler this is. */
#ifndef WV_BUILD_ID_H
#define WV_BUILD_ID_H

#include "base/arena.h"

/* Differs between builds that might compile differently: the linker's build id of the binary this
 * code is in; without one, the size and time of its file. */
const char *build_id(Arena *a);

#endif
