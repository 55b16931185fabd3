/* llvm_debug.c: the source line of each instruction, for debuggers and profilers.
 *
 * Metadata with fixed numbers: 0 the compile unit, 1 and 2 versions, 3 a type, 4 the function; then
 * files, each with a scope, and source locations. A kernel without a source has none of it. */
#include <ctype.h>

#include "backend/llvm/llvm_state.h"

enum { UNIT, VERSION, DWARF, TYPE, FUNCTION, FIRST };

/* A name that can be written between quotes. */
static bool is_plain(const char *name) {
  for (; *name; name++)
    if (*name == '"' || *name == '\\' || iscntrl((unsigned char)*name)) return false;
  return true;
}

static const char *name_of(const Llvm *p, uint32_t file) {
  return sources_name(&p->k->cx->sources, file);
}

static bool is_known(const Llvm *p, Span at) {
  return at.file && at.line && is_plain(name_of(p, at.file));
}

/* Each file takes two numbers, each place one. */
static int next_number(const Llvm *p) { return FIRST + 2 * p->files.n + p->places.n; }

static int file_number(Llvm *p, uint32_t file) {
  for (int i = 0; i < p->files.n; i++)
    if (p->files.at[i].file == file) return p->files.at[i].number;
  DebugFile new = {file, next_number(p)};
  vec_push(p->arena, &p->files, new);
  return new.number;
}

void llvm_at(Llvm *p, const Op *op) {
  Span at = op->at;
  if (!p->has_lines || !is_known(p, at)) return;
  for (int i = p->places.n; i-- > 0;) {
    const DebugPlace *was = &p->places.at[i];
    if (was->at.file != at.file || was->at.line != at.line || was->at.col != at.col) continue;
    p->place = was->text;
    return;
  }
  file_number(p, at.file);
  DebugPlace new = {at, next_number(p), NULL};
  new.text = p->place = arena_printf(p->arena, ", !dbg !%d", new.number);
  vec_push(p->arena, &p->places, new);
}

void llvm_debug_open(Llvm *p) {
  p->has_lines = is_known(p, p->k->at);
  if (p->has_lines) file_number(p, p->k->at.file);
}

const char *llvm_debug_function(Llvm *p) {
  return p->has_lines ? arena_printf(p->arena, " !dbg !%d", FUNCTION) : "";
}

/* The flags of the module, with that of the machine, whose number is the next. */
static void put_flags(const Llvm *p, StrBuf *out) {
  int own = p->has_lines ? next_number(p) : 0;
  if (p->has_lines) sb_printf(out, "!llvm.module.flags = !{!%d, !%d", VERSION, DWARF);
  else if (p->machine->flag) sb_puts(out, "!llvm.module.flags = !{");
  if (p->machine->flag) sb_printf(out, "%s!%d", p->has_lines ? ", " : "", own);
  if (p->has_lines || p->machine->flag) sb_puts(out, "}\n");
  if (p->machine->flag) sb_printf(out, "!%d = %s\n", own, p->machine->flag);
}

static void put_loops(const Llvm *p, StrBuf *out) {
  for (int i = 0; i < p->unrolled.n; i++) {
    int loop = LLVM_LOOPS + 2 * i;
    sb_printf(out, "!%d = distinct !{!%d, !%d}\n", loop, loop, loop + 1);
    sb_printf(out, "!%d = !{!\"llvm.loop.unroll.count\", i32 %d}\n", loop + 1, p->unrolled.at[i]);
  }
}

const char *llvm_nontemporal(Llvm *p) {
  p->streams = true;
  return arena_printf(p->arena, ", !nontemporal !%d", LLVM_STREAMED);
}

void llvm_debug_close(Llvm *p, StrBuf *out) {
  put_loops(p, out);
  if (p->streams) sb_printf(out, "!%d = !{i32 1}\n", LLVM_STREAMED);
  int file = p->has_lines ? file_number(p, p->k->at.file) : 0;
  if (p->has_lines) sb_printf(out, "!llvm.dbg.cu = !{!%d}\n", UNIT);
  put_flags(p, out);
  if (!p->has_lines) return;
  sb_printf(out,
            "!%d = distinct !DICompileUnit(language: DW_LANG_C99, file: !%d, producer: \"wave\", "
            "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)\n",
            UNIT, file);
  sb_printf(out, "!%d = !{i32 2, !\"Debug Info Version\", i32 3}\n", VERSION);
  sb_printf(out, "!%d = !{i32 7, !\"Dwarf Version\", i32 4}\n", DWARF);
  sb_printf(out, "!%d = !DISubroutineType(types: !{})\n", TYPE);
  sb_printf(
      out,
      "!%d = distinct !DISubprogram(name: \"%s\", scope: !%d, file: !%d, line: %u, type: !%d, "
      "scopeLine: %u, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !%d)\n",
      FUNCTION, is_plain(p->k->name) ? p->k->name : "kernel", file, file, p->k->at.line, TYPE,
      p->k->at.line, UNIT);
  for (int i = 0; i < p->files.n; i++) {
    const DebugFile *f = &p->files.at[i];
    sb_printf(out, "!%d = !DIFile(filename: \"%s\", directory: \"\")\n", f->number,
              name_of(p, f->file));
    sb_printf(out, "!%d = !DILexicalBlockFile(scope: !%d, file: !%d, discriminator: 0)\n",
              f->number + 1, FUNCTION, f->number);
  }
  for (int i = 0; i < p->places.n; i++) {
    const DebugPlace *at = &p->places.at[i];
    sb_printf(out, "!%d = !DILocation(line: %u, column: %u, scope: !%d)\n", at->number, at->at.line,
              at->at.col, file_number(p, at->at.file) + 1);
  }
}
