/* amd_lines.c: see amd_lines.h.
 *
 * The section holds programs for a small machine, which appends a row whenever its address or line
 * has changed (DWARF 4, section 6.2). */
#include "runtime/amd/amd_lines.h"

#include <string.h>

#include "base/vec.h"

/* Reads past the end give zeros and stop the program. */
typedef struct Bytes {
  const uint8_t *at, *end;
  bool damaged;
} Bytes;

static uint64_t take(Bytes *b, int n) {
  uint64_t value = 0;
  if (b->end - b->at < n) return b->damaged = true, b->at = b->end, 0;
  for (int i = 0; i < n; i++) value |= (uint64_t)b->at[i] << 8 * i;
  b->at += n;
  return value;
}

/* LEB128: seven bits of each byte, the lowest first. */
static uint64_t take_number(Bytes *b, bool is_signed) {
  uint64_t value = 0;
  int shift = 0;
  uint8_t byte;
  do {
    byte = (uint8_t)take(b, 1);
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    shift += 7;
  } while (byte & 0x80 && !b->damaged);
  if (is_signed && shift < 64 && byte & 0x40) value |= ~UINT64_C(0) << shift;
  return value;
}

static const char *take_text(Bytes *b) {
  const uint8_t *at = b->at, *end = memchr(at, 0, (size_t)(b->end - at));
  if (!end) return b->damaged = true, b->at = b->end, "";
  b->at = end + 1;
  return (const char *)at;
}

enum { STANDARD = 13 }; /* opcodes below this one have the meaning of the standard */

typedef struct Lines {
  Arena *arena;
  Bytes bytes; /* of the unit */
  uint64_t from, to;
  uint8_t least, opcode_base, operands[256];
  int8_t line_base;
  uint8_t line_range;
  Vec(const char *) files;
  uint64_t address, line, file;
  Vec(IsaLine) rows;
} Lines;

/* Each file is in a folder of the list before them, or (0) where it was compiled. */
static void read_files(Lines *l) {
  Bytes *b = &l->bytes;
  Vec(const char *) folders = {0};
  l->files.n = 0;
  for (const char *name = take_text(b); *name; name = take_text(b))
    vec_push(l->arena, &folders, name);
  for (const char *name = take_text(b); *name; name = take_text(b)) {
    uint64_t folder = take_number(b, false);
    take_number(b, false), take_number(b, false); /* time and size */
    bool has_folder = folder && folder <= (uint64_t)folders.n && *name != '/';
    name = has_folder ? arena_printf(l->arena, "%s/%s", folders.at[folder - 1], name)
                      : arena_strdup(l->arena, name);
    vec_push(l->arena, &l->files, name);
  }
}

/* The header, up to the program; false: not understood. */
static bool read_header(Lines *l) {
  Bytes *b = &l->bytes;
  unsigned version = (unsigned)take(b, 2);
  uint64_t length = take(b, 4);
  const uint8_t *program = b->at + (length <= (uint64_t)(b->end - b->at) ? length : 0);
  if (version < 2 || version > 4) return false;
  l->least = (uint8_t)take(b, 1);
  take(b, version < 4 ? 1 : 2); /* operations of an instruction; is it a statement? */
  l->line_base = (int8_t)take(b, 1), l->line_range = (uint8_t)take(b, 1);
  l->opcode_base = (uint8_t)take(b, 1);
  for (int i = 1; i < l->opcode_base; i++) l->operands[i] = (uint8_t)take(b, 1);
  read_files(l);
  if (!b->damaged) b->at = program;
  return !b->damaged && l->line_range && l->opcode_base;
}

static void add_row(Lines *l) {
  bool is_known = l->line && l->file && l->file <= (uint64_t)l->files.n;
  if (!is_known || l->address < l->from || l->address >= l->to) return;
  IsaLine row = {l->address - l->from, l->files.at[l->file - 1], (uint32_t)l->line};
  vec_push(l->arena, &l->rows, row);
}

static void extended(Lines *l) {
  enum { END = 1, SET_ADDRESS = 2 };
  Bytes *b = &l->bytes;
  uint64_t n = take_number(b, false);
  if (!n || n > (uint64_t)(b->end - b->at)) {
    b->damaged = true;
    return;
  }
  const uint8_t *next = b->at + n;
  uint64_t opcode = take(b, 1);
  if (opcode == SET_ADDRESS && n == 9) l->address = take(b, 8);
  if (opcode == END) l->address = 0, l->line = l->file = 1;
  b->at = next;
}

/* One that advances address and line, and appends a row. */
static void special(Lines *l, unsigned opcode) {
  unsigned by = opcode - l->opcode_base;
  l->address += (uint64_t)(by / l->line_range) * l->least;
  l->line += (uint64_t)(int64_t)(l->line_base + (int)(by % l->line_range));
  add_row(l);
}

static void standard(Lines *l, unsigned opcode) {
  enum { COPY = 1, ADVANCE_PC, ADVANCE_LINE, SET_FILE, CONST_ADD_PC = 8, FIXED_ADVANCE_PC };
  Bytes *b = &l->bytes;
  switch (opcode) {
  case COPY: add_row(l); break;
  case ADVANCE_PC: l->address += take_number(b, false) * l->least; break;
  case ADVANCE_LINE: l->line += take_number(b, true); break;
  case SET_FILE: l->file = take_number(b, false); break;
  case CONST_ADD_PC:
    l->address += (uint64_t)((255 - l->opcode_base) / l->line_range) * l->least;
    break;
  case FIXED_ADVANCE_PC: l->address += take(b, 2); break;
  default:
    for (int i = 0; i < l->operands[opcode]; i++) take_number(b, false);
  }
}

static void run_program(Lines *l) {
  l->address = 0, l->line = l->file = 1;
  while (l->bytes.at < l->bytes.end && !l->bytes.damaged) {
    unsigned opcode = (unsigned)take(&l->bytes, 1);
    if (!opcode) extended(l);
    else if (opcode >= l->opcode_base) special(l, opcode);
    else standard(l, opcode);
  }
}

const IsaLine *amd_lines(Arena *a, const uint8_t *section, size_t n, uint64_t address,
                         uint64_t size, int *count) {
  Lines l = {.arena = a, .from = address, .to = address + size};
  Bytes all = {section, section + n, false};
  while (all.at < all.end && !all.damaged) {
    uint64_t length = take(&all, 4);
    if (length > (uint64_t)(all.end - all.at)) break; /* also the mark of 64-bit DWARF */
    l.bytes = (Bytes){all.at, all.at + length, false};
    if (read_header(&l)) run_program(&l);
    all.at += length;
  }
  *count = l.rows.n;
  return l.rows.at;
}
