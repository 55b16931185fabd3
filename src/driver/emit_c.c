/* emit_c.c: a compiled kernel as a pair of C files: its bytes, and functions that load it and
 * launch it with the kernel's own parameters. */
#include "driver/emit_c.h"

#include <ctype.h>
#include <string.h>

/* Words that cannot name a parameter: C's keywords, and names used in the functions themselves. */
static const char *const taken[] = {
    "auto",     "break",  "case",   "char",     "const",    "continue", "default",  "do",
    "double",   "else",   "enum",   "extern",   "float",    "for",      "goto",     "if",
    "inline",   "int",    "long",   "register", "restrict", "return",   "short",    "signed",
    "sizeof",   "static", "struct", "switch",   "typedef",  "union",    "unsigned", "void",
    "volatile", "while",  "bool",   "p",        "cx",       "stream",   "args"};

/* A C identifier: other characters become `_`. */
static const char *c_name(Arena *a, const char *name) {
  char *out = arena_strdup(a, name);
  for (char *at = out; *at; at++)
    if (!isalnum((unsigned char)*at)) *at = '_';
  for (size_t i = 0; i < WV_LEN(taken); i++)
    if (strcmp(out, taken[i]) == 0) return arena_printf(a, "%s_", out);
  return isdigit((unsigned char)*out) ? arena_printf(a, "_%s", out) : out;
}

static bool is_float(const ArtParam *p) {
  return p->scalar == ART_F32 || p->scalar == ART_F64 || p->scalar == ART_SMALL_FLOAT;
}

static const char *c_type(const ArtParam *p) {
  return p->rank >= 0 ? "const wv_tensor *" : is_float(p) ? "double " : "int64_t ";
}

static void put_launch(StrBuf *out, const Artefact *art, const char *name) {
  sb_printf(out, "bool %s_launch(wv_program *p, wv_ctx *cx", name);
  for (int i = 0; i < art->ngiven; i++)
    sb_printf(out, ", %s%s", c_type(&art->params[i]), c_name(out->arena, art->params[i].name));
  sb_puts(out, ", void *stream)");
}

void emit_c_header(StrBuf *out, const Artefact *art) {
  const char *name = c_name(out->arena, art->name);
  sb_printf(out, "/* `%s` for %s, compiled by Wave. */\n", art->name, art->target);
  sb_printf(out, "#ifndef WAVE_KERNEL_%s\n#define WAVE_KERNEL_%s\n\n#include \"wave.h\"\n\n", name,
            name);
  sb_puts(out, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  sb_puts(out, "/* To be freed with wv_program_free. NULL: cx says why. */\n");
  sb_printf(out, "wv_program *%s_load(wv_ctx *cx);\n\n", name);
  sb_puts(out, "/* As wv_launch; parameters of the kernel:");
  for (int i = 0; i < art->ngiven; i++)
    sb_printf(out, "\n *   %s: %s", art->params[i].name, art->params[i].type);
  sb_puts(out, " */\n");
  put_launch(out, art, name);
  sb_puts(out, ";\n\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

/* As numbers, which every compiler accepts in any quantity. */
static void put_bytes(StrBuf *out, const StrBuf *bytes) {
  enum { EACH_LINE = 24 };
  sb_puts(out, "static const unsigned char artefact[] = {");
  for (size_t i = 0; i < bytes->n; i++)
    sb_printf(out, "%s%d,", i % EACH_LINE ? "" : "\n    ", (unsigned char)bytes->at[i]);
  sb_puts(out, "\n};\n\n");
}

void emit_c_source(StrBuf *out, const Artefact *art, const char *header, const StrBuf *bytes) {
  const char *name = c_name(out->arena, art->name);
  sb_printf(out, "/* `%s` for %s, compiled by Wave. */\n#include \"%s\"\n\n", art->name,
            art->target, header);
  put_bytes(out, bytes);
  sb_printf(out,
            "wv_program *%s_load(wv_ctx *cx) {\n"
            "  return wv_program_load(cx, artefact, sizeof artefact, 0);\n}\n\n",
            name);
  put_launch(out, art, name);
  sb_printf(out, " {\n  wv_launch_arg args[%d] = {{0}};\n", art->ngiven ? art->ngiven : 1);
  for (int i = 0; i < art->ngiven; i++) {
    const ArtParam *p = &art->params[i];
    const char *field = p->rank >= 0 ? "tensor" : is_float(p) ? "number" : "integer";
    sb_printf(out, "  args[%d].%s = %s;\n", i, field, c_name(out->arena, p->name));
  }
  sb_printf(out, "  return wv_launch(p, cx, args, %d, stream, 0);\n}\n", art->ngiven);
}
