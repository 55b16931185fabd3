/* artefact_whole.c: a compiled kernel with all its variants as bytes, for programs that embed it.
 *
 *     magic 8 bytes · hash of the rest 8 · version text, 0 · for each variant: length 8, artefact
 */
#include <string.h>

#include "base/map.h"
#include "runtime/cache/artefact.h"
#include "wave.h"

enum { HEAD_BYTES = 16 };

static const char magic[8] = "WAVEPROG";

void artefact_write_whole(StrBuf *out, const Artefact *art) {
  StrBuf rest = {.arena = out->arena};
  const char *version = wv_version();
  sb_write(&rest, version, strlen(version) + 1);
  for (int i = 0; i < art->nvariants; i++) {
    StrBuf part = {.arena = out->arena};
    artefact_write(&part, art, i);
    sb_put_u64(&rest, part.n);
    sb_write(&rest, part.at, part.n);
  }
  sb_write(out, magic, sizeof magic);
  sb_put_u64(out, hash_bytes(rest.at, rest.n));
  sb_write(out, rest.at, rest.n);
}

/* Moves the variant of a part to `to`; if it is the first part, that becomes the result. */
static Artefact *take_part(Arena *a, const char *bytes, size_t n, int expected, Artefact *to) {
  int variant;
  Artefact *part = artefact_read(a, bytes, n, &variant);
  if (!part || variant != expected || (to && part->nvariants != to->nvariants)) return NULL;
  if (!to) return part;
  to->variant[variant] = part->variant[variant];
  return to;
}

static Artefact *take_parts(Arena *a, const char *at, const char *end) {
  Artefact *art = NULL;
  for (int i = 0; !art || i < art->nvariants; i++) {
    uint64_t n = end - at < 8 ? UINT64_MAX : sb_get_u64(at);
    if (end - at < 8 || n > (uint64_t)(end - at - 8)) return NULL;
    if (!(art = take_part(a, at + 8, (size_t)n, i, art))) return NULL;
    at += 8 + n;
  }
  return at == end ? art : NULL;
}

Artefact *artefact_read_whole(Arena *a, const char *bytes, size_t n, const char **damage) {
  *damage = "it is not a compiled kernel";
  if (n < HEAD_BYTES || memcmp(bytes, magic, sizeof magic) != 0) return NULL;
  *damage = "its checksum is wrong";
  const char *at = bytes + HEAD_BYTES, *end = bytes + n, *version = wv_version();
  if (sb_get_u64(bytes + sizeof magic) != hash_bytes(at, (size_t)(end - at))) return NULL;
  *damage = "it was made by another version of Wave";
  size_t len = strlen(version) + 1;
  if ((size_t)(end - at) < len || memcmp(at, version, len) != 0) return NULL;
  Artefact *art = take_parts(a, at + len, end);
  *damage = art ? NULL : "its contents are invalid";
  return art;
}
