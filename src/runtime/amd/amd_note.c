/* amd_note.c: reads the metadata note, which is MessagePack: a map with a list of maps. */
#include "runtime/amd/amd_note.h"

#include <string.h>

typedef struct Pack {
  AmdFile *file;
  const uint8_t *at, *end;
} Pack;

enum { DEPTH = 16, MOST_KERNELS = 4096, MOST_ARGS = 4096 };

/* ---- MessagePack ---- */

static bool wrong(Pack *p, const char *what) {
  uint64_t offset = (uint64_t)(p->at - p->file->bytes);
  if (!p->file->error) amd_file_fail(p->file, offset, "the metadata note is damaged: %s", what);
  return false;
}

static bool take(Pack *p, size_t n, uint64_t *value) { /* big-endian */
  if ((size_t)(p->end - p->at) < n) return wrong(p, "it ends too early");
  *value = 0;
  for (size_t i = 0; i < n; i++) *value = *value << 8 | *p->at++;
  return true;
}

typedef enum PackKind { PACK_OTHER, PACK_INT, PACK_TEXT, PACK_ARRAY, PACK_MAP } PackKind;

/* The head of the next value: its number, or how much follows. PACK_OTHER: nil, truth values,
 * floats, bytes; `n` bytes follow. */
static bool head(Pack *p, PackKind *kind, uint64_t *n) {
  static const struct {
    uint8_t first, kind, size;
  } forms[] = {
      {0xc4, PACK_OTHER, 1}, {0xc5, PACK_OTHER, 2}, {0xc6, PACK_OTHER, 4}, {0xcc, PACK_INT, 1},
      {0xcd, PACK_INT, 2},   {0xce, PACK_INT, 4},   {0xcf, PACK_INT, 8},   {0xd0, PACK_INT, 1},
      {0xd1, PACK_INT, 2},   {0xd2, PACK_INT, 4},   {0xd3, PACK_INT, 8},   {0xd9, PACK_TEXT, 1},
      {0xda, PACK_TEXT, 2},  {0xdb, PACK_TEXT, 4},  {0xdc, PACK_ARRAY, 2}, {0xdd, PACK_ARRAY, 4},
      {0xde, PACK_MAP, 2},   {0xdf, PACK_MAP, 4},
  };
  uint64_t b;
  if (!take(p, 1, &b)) return false;
  *n = 0, *kind = PACK_OTHER;
  if (b < 0x80 || b >= 0xe0) return *kind = PACK_INT, *n = b, true;
  if (b < 0x90) return *kind = PACK_MAP, *n = b & 15, true;
  if (b < 0xa0) return *kind = PACK_ARRAY, *n = b & 15, true;
  if (b < 0xc0) return *kind = PACK_TEXT, *n = b & 31, true;
  if (b == 0xc0 || b == 0xc2 || b == 0xc3) return true;
  if (b == 0xca || b == 0xcb) return *n = b == 0xca ? 4 : 8, true;
  for (size_t i = 0; i < WV_LEN(forms); i++)
    if (forms[i].first == b) return *kind = (PackKind)forms[i].kind, take(p, forms[i].size, n);
  return wrong(p, "a value of unknown type");
}

static bool skip_bytes(Pack *p, uint64_t n) {
  if ((uint64_t)(p->end - p->at) < n) return wrong(p, "it ends too early");
  p->at += n;
  return true;
}

static bool skip(Pack *p, int depth) {
  PackKind kind;
  uint64_t n;
  if (depth == DEPTH) return wrong(p, "it is nested too deeply");
  if (!head(p, &kind, &n)) return false;
  if (kind == PACK_INT) return true;
  if (kind == PACK_TEXT || kind == PACK_OTHER) return skip_bytes(p, n);
  for (uint64_t i = 0; i < (kind == PACK_MAP ? 2 * n : n); i++)
    if (!skip(p, depth + 1)) return false;
  return true;
}

static bool open_list(Pack *p, PackKind wanted, uint64_t *n) {
  PackKind kind;
  return head(p, &kind, n) && (kind == wanted || wrong(p, "a list was expected"));
}

static bool text(Pack *p, const char **out) {
  PackKind kind;
  uint64_t n;
  if (!head(p, &kind, &n)) return false;
  if (kind != PACK_TEXT) return wrong(p, "a name was expected");
  const char *at = (const char *)p->at;
  if (!skip_bytes(p, n)) return false;
  *out = arena_strndup(p->file->arena, at, (size_t)n);
  return true;
}

static bool number(Pack *p, uint32_t *out) {
  PackKind kind;
  uint64_t n;
  if (!head(p, &kind, &n)) return false;
  if (kind != PACK_INT || n > UINT32_MAX) return wrong(p, "a number was expected");
  *out = (uint32_t)n;
  return true;
}

/* ---- keys ---- */

typedef struct Field {
  const char *key;
  size_t at;
  bool is_text;
} Field;

/* Reads a map into a struct; `other` reads keys that are not in the table, and skips them. */
typedef bool Other(Pack *p, const char *key, void *into);

static bool read_map(Pack *p, const Field *fields, size_t n, void *into, Other *other) {
  uint64_t pairs;
  if (!open_list(p, PACK_MAP, &pairs)) return false;
  for (; pairs > 0; pairs--) {
    const char *key;
    size_t i = 0;
    if (!text(p, &key)) return false;
    while (i < n && strcmp(fields[i].key, key) != 0) i++;
    char *at = i < n ? (char *)into + fields[i].at : NULL;
    bool ok = !at                 ? other(p, key, into)
              : fields[i].is_text ? text(p, (const char **)(void *)at)
                                  : number(p, (uint32_t *)(void *)at);
    if (!ok) return false;
  }
  return true;
}

static bool skip_key(Pack *p, const char *key, void *into) {
  (void)key, (void)into;
  return skip(p, 0);
}

static bool read_arg(Pack *p, AmdArg *arg) {
  static const Field fields[] = {{".offset", offsetof(AmdArg, offset), false},
                                 {".size", offsetof(AmdArg, size), false},
                                 {".value_kind", offsetof(AmdArg, kind), true}};
  return read_map(p, fields, WV_LEN(fields), arg, skip_key);
}

/* As many bytes as elements follow at least: a damaged count does not allocate much. */
static bool open_array(Pack *p, uint64_t most, uint64_t *n) {
  if (!open_list(p, PACK_ARRAY, n)) return false;
  return (*n <= most && *n <= (uint64_t)(p->end - p->at)) || wrong(p, "a list is too long");
}

static bool read_args(Pack *p, const char *key, void *into) {
  AmdKernelNote *k = into;
  uint64_t n;
  if (strcmp(key, ".args") != 0) return skip(p, 0);
  if (!open_array(p, MOST_ARGS, &n)) return false;
  AmdArg *args = ARENA_ARRAY(p->file->arena, AmdArg, n + 1);
  k->args = args, k->nargs = (int)n;
  for (uint64_t i = 0; i < n; i++)
    if (!read_arg(p, &args[i])) return false;
  return true;
}

static bool read_kernel(Pack *p, AmdKernelNote *k) {
#define NUMBER(key, field)                                                                         \
  { key, offsetof(AmdKernelNote, field), false }
  static const Field fields[] = {
      {".name", offsetof(AmdKernelNote, name), true},
      {".symbol", offsetof(AmdKernelNote, symbol), true},
      NUMBER(".kernarg_segment_size", args_bytes),
      NUMBER(".kernarg_segment_align", args_align),
      NUMBER(".group_segment_fixed_size", group_bytes),
      NUMBER(".private_segment_fixed_size", private_bytes),
      NUMBER(".sgpr_count", sgprs),
      NUMBER(".vgpr_count", vgprs),
      NUMBER(".agpr_count", agprs),
      NUMBER(".sgpr_spill_count", sgpr_spills),
      NUMBER(".vgpr_spill_count", vgpr_spills),
      NUMBER(".wavefront_size", wave),
      NUMBER(".max_flat_workgroup_size", threads),
  };
#undef NUMBER
  if (!read_map(p, fields, WV_LEN(fields), k, read_args)) return false;
  return (k->name && k->symbol) || wrong(p, "a kernel without a name");
}

static bool read_kernels(Pack *p, const char *key, void *into) {
  AmdNote *note = into;
  uint64_t n;
  if (strcmp(key, "amdhsa.kernels") != 0) return skip(p, 0);
  if (!open_array(p, MOST_KERNELS, &n)) return false;
  AmdKernelNote *kernels = ARENA_ARRAY(p->file->arena, AmdKernelNote, n + 1);
  note->kernels = kernels, note->nkernels = (int)n;
  for (uint64_t i = 0; i < n; i++)
    if (!read_kernel(p, &kernels[i])) return false;
  return true;
}

bool amd_note_read(AmdFile *f, AmdNote *out) {
  static const Field fields[] = {{"amdhsa.target", offsetof(AmdNote, target), true}};
  size_t n;
  const uint8_t *at = amd_file_note(f, &n);
  if (!at) return false;
  Pack p = {.file = f, .at = at, .end = at + n};
  *out = (AmdNote){0};
  return read_map(&p, fields, WV_LEN(fields), out, read_kernels);
}

const AmdKernelNote *amd_note_find(const AmdNote *n, const char *name) {
  for (int i = 0; i < n->nkernels; i++)
    if (strcmp(n->kernels[i].name, name) == 0) return &n->kernels[i];
  return NULL;
}
