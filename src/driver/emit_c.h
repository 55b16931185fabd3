/* emit_c.h: a compiled kernel as a pair of C files. */
#ifndef WV_EMIT_C_H
#define WV_EMIT_C_H

#include "runtime/cache/artefact.h"

void emit_c_header(StrBuf *out, const Artefact *art);
/* `header`: the file it includes; `bytes`: from artefact_write_whole. */
void emit_c_source(StrBuf *out, const Artefact *art, const char *header, const StrBuf *bytes);

#endif
