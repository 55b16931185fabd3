/* isa_decode.c: the text of a disassembler to instructions.
 *
 *     v_add_f32_e64 v0, -v1, |s2| mul:2          mnemonic, operands, modifiers
 *
 * Operands are separated by commas, modifiers by spaces. The row of isa.def says how many results
 * come first and of which type each operand is. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "isa/isa_number.h"
#include "isa/isa_state.h"

typedef struct Decode {
  Arena *arena;
  const IsaKernel *k;
  const char *why; /* what is not understood */
  uint8_t msb;     /* of the instructions that follow, see below */
} Decode;

enum { WORDS = 16 };

typedef struct Words {
  char *operand[WORDS], *modifier[WORDS];
  int operands, modifiers;
} Words;

/* ---- operands ---- */

static bool special_name(const char *s, IsaArg *a) {
  static const struct {
    const char *name;
    int kind, index, count;
  } names[] = {
      {"vcc", ISA_S, ISA_VCC, 2},
      {"vcc_lo", ISA_S, ISA_VCC, 1},
      {"vcc_hi", ISA_S, ISA_VCC + 1, 1},
      {"exec", ISA_S, ISA_EXEC, 2},
      {"exec_lo", ISA_S, ISA_EXEC, 1},
      {"exec_hi", ISA_S, ISA_EXEC + 1, 1},
      {"m0", ISA_S, ISA_M0, 1},
      {"null", ISA_S, ISA_NULL, 1},
      {"flat_scratch", ISA_S, 102, 2},
      {"flat_scratch_lo", ISA_S, 102, 1},
      {"flat_scratch_hi", ISA_S, 103, 1},
      {"xnack_mask", ISA_S, 104, 2},
      {"off", ISA_OFF, 0, 0},
      {"scc", ISA_SPECIAL, ISA_SCC, 1},
      {"src_scc", ISA_SPECIAL, ISA_SCC, 1},
      {"src_vccz", ISA_SPECIAL, ISA_VCCZ, 1},
      {"src_execz", ISA_SPECIAL, ISA_EXECZ, 1},
  };
  for (size_t n = 0; n < WV_LEN(names); n++)
    if (strcmp(s, names[n].name) == 0) {
      a->kind = (uint8_t)names[n].kind, a->index = (uint16_t)names[n].index;
      a->count = (uint8_t)names[n].count;
      return true;
    }
  return false;
}

/* v7, v[0:3], s2, a[0:1], ttmp9, v3.l */
static bool register_name(const char *s, IsaArg *a) {
  int base = *s == 'a' ? 256 : 0, most = ISA_GENERAL, beyond = *s == 'v' ? 63 : 0;
  a->kind = *s == 's' ? ISA_S : ISA_V;
  if (strncmp(s, "ttmp", 4) == 0) base = ISA_TTMP, a->kind = ISA_S, most = 16, s += 4;
  else if (*s == 'v' || *s == 'a') most = 256, s++;
  else if (*s == 's') s++;
  else return false;
  bool is_list = *s == '[';
  char *end;
  if (!isdigit((unsigned char)s[is_list])) return false;
  long first = strtol(s + is_list, &end, 10), last = first;
  if (is_list && *end == ':') last = strtol(end + 1, &end, 10);
  if (is_list && *end++ != ']') return false;
  if (*end == '.') a->half = end[1], end += 2;
  if (*end || first < 0 || last < first || first >= most || last - first >= 64) return false;
  if (last >= most + beyond) return false; /* v[252:259] is a name on gfx1250 */
  a->index = (uint16_t)(base + first);
  a->count = (uint8_t)(last - first + 1);
  return true;
}

bool isa_scalar_name(const char *s, size_t n, IsaArg *a) {
  char name[32];
  if (n >= sizeof name) return false;
  memcpy(name, s, n), name[n] = 0;
  return (special_name(name, a) || register_name(name, a)) && a->kind == ISA_S && a->count == 1;
}

static bool number_name(const char *s, IsaArg *a) {
  char *end;
  const char *digits = s + (*s == '-');
  a->is_literal = strncmp(digits, "0x", 2) == 0;
  a->kind = ISA_IMM;
  if (!isdigit((unsigned char)*digits)) return false;
  if (!a->is_literal && strpbrk(digits, ".e")) {
    a->kind = ISA_REAL;
    a->real = strtod(s, &end);
  } else a->value = (uint64_t)strtoll(s, &end, 0);
  if (a->is_literal && *s != '-') a->value = strtoull(s, &end, 0);
  return !*end;
}

/* Takes the word apart in place: -|v1|, neg(1.0), sext(v2), lit(0x0). */
static bool operand(char *s, IsaArg *a) {
  size_t n = strlen(s);
  if (*s == '-' && !isdigit((unsigned char)s[1])) a->neg = true, s++, n--;
  if (strncmp(s, "neg(", 4) == 0) a->neg = true, s += 4, s[n -= 5] = 0;
  if (strncmp(s, "sext(", 5) == 0) a->sext = true, s += 5, s[n -= 6] = 0;
  if (strncmp(s, "abs(", 4) == 0) a->abs = true, s += 4, s[n -= 5] = 0;
  if (strncmp(s, "lit(", 4) == 0) s += 4, s[n -= 5] = 0;
  if (strncmp(s, "lit64(", 6) == 0) a->is_wide = true, s += 6, s[n -= 7] = 0;
  if (*s == '|' && n > 2) a->abs = true, s++, s[n - 2] = 0;
  return special_name(s, a) || register_name(s, a) || number_name(s, a);
}

/* Constants in the type of their operand. */
static void settle(IsaArg *a, char type) {
  bool is_wide = strchr("qldm", type) != NULL;
  a->type = type;
  a->plain = a->kind == ISA_V && !a->neg && !a->abs && !a->half && !a->select;
  if (a->kind == ISA_REAL) {
    if (strchr("hwtp", type)) a->value = isa_to_f16((float)a->real);
    else if (type == 'b') a->value = isa_to_bf16((float)a->real);
    else a->value = is_wide ? isa_bits64(a->real) : isa_bits((float)a->real);
    a->kind = ISA_IMM;
  } else if (a->kind == ISA_IMM && a->is_literal) {
    if (type == 'd' && !a->is_wide && !(a->value >> 32)) a->value <<= 32;
    if (type == 'k') a->value = (uint64_t)(int64_t)(int16_t)a->value;
    if (type == 'l' && !a->is_wide && !(a->value >> 32))
      a->value = (uint64_t)(int64_t)(int32_t)a->value;
  }
}

/* ---- lines ---- */

/* An operand is followed by a comma unless it is the last one; s[0:1] and the like are operands,
 * offset:4 is not. */
static bool is_modifier(const char *word) {
  const char *colon = strchr(word, ':'), *bracket = strchr(word, '[');
  return colon && !(bracket && bracket < colon);
}

/* Cuts the next word off; NULL: there is none. */
static char *next_word(char **rest) {
  char *word = *rest + strspn(*rest, " \t"), *end = word + strcspn(word, " \t");
  *rest = *end ? end + 1 : end;
  *end = 0;
  return *word ? word : NULL;
}

static bool split(char *rest, bool has_operands, Words *w) {
  bool more = has_operands;
  for (char *word = next_word(&rest); word; word = next_word(&rest)) {
    size_t n = strlen(word);
    bool comma = word[n - 1] == ',';
    if (comma) word[n - 1] = 0;
    if (w->operands == WORDS || w->modifiers == WORDS) return false;
    if (more && !is_modifier(word)) w->operand[w->operands++] = word;
    else w->modifier[w->modifiers++] = word;
    more = comma;
  }
  return true;
}

/* Without the suffixes that name an encoding. */
static size_t base_length(const char *name, size_t n) {
  static const char *const suffixes[] = {"_dpp8", "_dpp", "_sdwa", "_e32", "_e64", "_gfx9"};
  for (size_t s = 0; s < WV_LEN(suffixes); s++) {
    size_t length = strlen(suffixes[s]);
    if (n > length && strncmp(name + n - length, suffixes[s], length) == 0) n -= length;
  }
  return n;
}

static const IsaRow *row_of(const char *name, size_t n) {
  if (n > 7 && strncmp(name, "v_dual_", 7) == 0) { /* VOPD: the names of plain instructions */
    char plain[64] = "v_";
    if (n - 7 + 2 >= sizeof plain) return NULL;
    memcpy(plain + 2, name + 7, n - 7);
    return isa_find(plain, n - 7 + 2);
  }
  return isa_find(name, base_length(name, n));
}

/* Results and sources by the row's types. A result with a question mark may be missing (v_cmpx,
 * loads to LDS, atomics that return nothing), and so may a mask that comes last (VCC). */
static bool assign(Decode *x, IsaInstr *i, const Words *w) {
  const char *types = i->row->types, *sources = strchr(types, '=') + 1;
  bool optional = *types == '?';
  int nd = (int)(sources - 1 - types) - optional, ns = (int)strlen(sources);
  bool accumulates = ns && sources[ns - 1] == '+', has_mask = ns && sources[ns - 1] == 'C';
  int given = w->operands, wanted = ns - accumulates;
  if (has_mask && given == nd + ns - 1) wanted--;
  if (optional && given == wanted) nd = 0;
  if (given != nd + wanted) return x->why = "an unexpected number of operands", false;
  for (int n = 0; n < given; n++) {
    IsaArg *a = n < nd ? &i->d[n] : &i->s[n - nd];
    bool ok = operand(w->operand[n], a), is_register = a->kind == ISA_V || a->kind == ISA_S;
    if (!ok || (n < nd && !is_register)) return x->why = w->operand[n], false;
  }
  i->nd = (uint8_t)nd, i->ns = (uint8_t)ns;
  if (has_mask && wanted < ns)
    i->s[ns - 1] = (IsaArg){.kind = ISA_S, .index = ISA_VCC, .count = x->k->lanes == 64 ? 2 : 1};
  if (accumulates) i->s[ns - 1] = i->d[0];
  for (int n = 0; n < nd; n++) i->d[n].type = types[n + optional];
  return true;
}

static void note_span(IsaSpan *spans, uint8_t *n, const IsaArg *a) {
  bool is_general = a->kind == ISA_V || (a->kind == ISA_S && a->index < ISA_GENERAL);
  if (!is_general || !a->count || *n == ISA_SPANS) return;
  spans[(*n)++] = (IsaSpan){(uint16_t)(a->index + (a->kind == ISA_S ? ISA_VGPRS : 0)), a->count};
}

/* gfx1250 has 1024 VGPRs, and instructions name them by eight bits: s_set_vgpr_msb gives the other
 * two bits for the operands src0, src1, src2 and the destination of what follows. Loads, stores and
 * LDS operations have an address, data and a destination there; buffers have their data in the
 * place of the destination, and asynchronous copies their address in the LDS. Scales are always
 * below v256. */
static bool widen(const Decode *x, IsaArg *a, int place) {
  if (a->kind != ISA_V) return true;
  if (!x->k->is_1250) return a->index >= 256 || a->index + a->count <= 256;
  a->index = (uint16_t)(a->index + 256 * (x->msb >> 2 * place & 3));
  return a->index + a->count <= ISA_VGPRS;
}

static bool widen_all(Decode *x, IsaInstr *i) {
  static const uint8_t usual[ISA_ARGS] = {0, 1, 2}, stored[ISA_ARGS] = {3, 0};
  bool is_store = strncmp(i->row->name, "buffer_", 7) == 0 && i->row->types[0] == '=', there = true;
  is_store |= strncmp(i->row->name, "global_load_async_", 18) == 0;
  for (int n = 0; n < i->ns && n < 3; n++)
    there &= widen(x, &i->s[n], (is_store ? stored : usual)[n]);
  for (int n = 0; n < i->nd; n++) there &= widen(x, &i->d[n], 3);
  if (strchr(i->row->types, '+')) i->s[i->ns - 1].index = i->d[0].index;
  isa_sets_msb(i, &x->msb);
  return there || (x->why = "the chip lacks such a register", false);
}

static void note_registers(IsaInstr *i) {
  for (int n = 0; n < i->ns; n++) note_span(i->reads, &i->nreads, &i->s[n]);
  for (int n = 0; n < i->nd; n++) note_span(i->writes, &i->nwrites, &i->d[n]);
}

/* Spills. On gfx9 those are buffer stores without an offset register, as stores to a constant place
 * of a tensor are: in kernels with scratch memory, what the latter store is not checked, and what was
 * spilled counts as written when it is loaded again. */
static bool is_spill(const IsaKernel *k, const IsaInstr *i) {
  if (strncmp(i->row->name, "scratch_store_", 14) == 0) return true;
  bool is_buffer = strncmp(i->row->name, "buffer_store_", 13) == 0;
  return is_buffer && !i->offen && !i->idxen && k->image.private_bytes;
}

/* Arithmetic, except comparisons, moves between lanes, and spills. */
static IsaCarries carries(const IsaKernel *k, const IsaInstr *i) {
  if (strncmp(i->row->name, "v_writelane", 11) == 0) return ISA_DROPS;
  bool is_move = strncmp(i->row->name, "v_read", 6) == 0 || strncmp(i->row->name, "v_perm", 6) == 0;
  if (is_spill(k, i)) return ISA_CARRIES;
  bool computes = i->row->body || i->row->scalar || is_move;
  return computes && i->nd && i->d[0].type != 'C' ? ISA_CARRIES : ISA_USES;
}

/* Not scalar instructions, those that read or write given lanes, and matrix instructions, which need
 * all of them. */
static bool is_by_lane(const IsaInstr *i) {
  static const char *const lanes[] = {"v_", "ds_", "global_", "buffer_", "scratch_"};
  const char *name = i->row->name;
  if (strncmp(name, "v_read", 6) == 0 || strncmp(name, "v_writelane", 11) == 0) return false;
  for (size_t n = 0; n < WV_LEN(lanes); n++)
    if (strncmp(name, lanes[n], strlen(lanes[n])) == 0) return i->row->step != isa_matrix_step;
  return false;
}

static int fills(const char *name) {
  static const char *const loads[] = {"global_load_", "buffer_load_", "scratch_load_"};
  if (strncmp(name, "ds_", 3) == 0) return ISA_DS + 1;
  for (size_t n = 0; n < WV_LEN(loads); n++)
    if (strncmp(name, loads[n], strlen(loads[n])) == 0) return ISA_LOADS + 1;
  return 0;
}

static bool modify(Decode *x, IsaInstr *i, const Words *w) {
  bool is_packed = strncmp(i->row->name, "v_pk_", 5) == 0 || strncmp(i->row->name, "v_dot", 5) == 0;
  i->op_sel_hi = is_packed ? 7 : 0;
  for (int n = 0; n < w->modifiers; n++)
    if (!isa_modifier(x->arena, i, w->modifier[n], x->k->lanes))
      return x->why = w->modifier[n], false;
  const char *sources = strchr(i->row->types, '=') + 1;
  for (int n = 0; n < i->ns; n++) {
    char type = sources[n] == '+' ? i->d[0].type : sources[n];
    if (isa_is_half(type) && i->op_sel >> n & 1) i->s[n].half = 'h';
    settle(&i->s[n], type);
  }
  return true;
}

static bool parse_line(Decode *x, const char *line, IsaInstr *i) {
  while (isspace((unsigned char)*line)) line++;
  size_t n = strcspn(line, " \t");
  char *rest = arena_strdup(x->arena, line + n);
  i->row = row_of(line, n);
  if (!i->row) return x->why = "the executor does not know this instruction", false;
  i->step = i->row->step;
  if (i->row->types[0] == '!') {
    if (!isa_parse_own(i, rest)) return false;
    note_registers(i);
    if (x->k->is_1250) isa_sets_msb(i, &x->msb);
    return true;
  }
  Words w = {0};
  bool has_operands = strcmp(i->row->types, "=") != 0;
  if (!split(rest, has_operands, &w)) return x->why = "too many words", false;
  if (!assign(x, i, &w) || !modify(x, i, &w)) return false;
  if (!widen_all(x, i)) return false;
  note_registers(i);
  i->carries = (uint8_t)carries(x->k, i);
  i->by_lane = is_by_lane(i);
  i->fills = (uint8_t)fills(i->row->name);
  return i->row->step != isa_matrix_step || isa_matrix_plan(x->arena, x->k, i) ||
         (x->why = "a form of this matrix instruction that is not implemented", false);
}

/* VOPD: two instructions in one, both read before either writes. */
static bool parse_text(Decode *x, const char *text, IsaInstr *i) {
  const char *second = strstr(text, " :: ");
  i->text = arena_strdup(x->arena, text + strspn(text, " \t"));
  if (!second) return parse_line(x, text, i);
  IsaInstr *other = ARENA_NEW(x->arena, IsaInstr);
  i->other = other;
  if (!parse_line(x, arena_strndup(x->arena, text, (size_t)(second - text)), i)) return false;
  if (!parse_line(x, second + 4, other)) return false;
  for (int n = 0; n < other->nreads && i->nreads < ISA_SPANS; n++)
    i->reads[i->nreads++] = other->reads[n];
  for (int n = 0; n < other->nwrites && i->nwrites < 3; n++)
    i->writes[i->nwrites++] = other->writes[n];
  return true;
}

/* ---- kernels ---- */

static void describe(IsaKernel *k) {
  enum { WAVE32 = 1 << 10 };
  const char *digits = k->image.chip + 3; /* gfx942, gfx90a, gfx1100 */
  k->generation = strlen(digits) == 3 ? ISA_GFX9 : digits[1] == '1' ? ISA_GFX11 : ISA_GFX12;
  k->lanes = k->image.properties & WAVE32 ? 32 : 64;
  k->is_fnuz = strcmp(digits, "942") == 0 || strcmp(digits, "940") == 0;
  k->is_1250 = strcmp(digits, "1250") == 0;
  k->keeps_high = k->generation != ISA_GFX9;
}

/* A place has the same numbering of registers however it is reached: LLVM sets it to zero before
 * branches. */
static bool agree(const IsaInstr *from, const IsaInstr *to) { return from->msb == to->msb; }

/* Branches name how many words to skip, as 16 bits. */
static bool find_targets(IsaKernel *k, Decode *x, int *bad) {
  for (int n = 0; n < k->n; n++) {
    IsaInstr *i = &k->code[n];
    i->target = -1;
    if (!isa_is_branch(i->row)) continue;
    uint64_t to = i->next_pc + (uint64_t)(4 * (int64_t)(int16_t)i->s[0].value);
    for (int t = 0; t < k->n && i->target < 0; t++)
      if (k->code[t].pc == to) i->target = t;
    if (i->target < 0) return *bad = n, x->why = "a branch out of the kernel", false;
    if (!agree(i, &k->code[i->target]))
      return *bad = n, x->why = "a branch to where VGPRs are numbered differently", false;
  }
  return true;
}

static int count_instructions(const IsaImage *image, IsaDisassemble *next, void *user) {
  char text[256];
  int n = 0;
  for (size_t at = 0; at < image->bytes; n++) {
    size_t size = next(user, image->code + at, image->bytes - at, at, text, sizeof text);
    at += size ? size : 4;
  }
  return n;
}

static const char *complain(Arena *a, const IsaKernel *k, uint64_t pc, const char *text,
                            const char *why) {
  return arena_printf(a, "kernel `%s` (%s), pc 0x%llx: `%s`: %s", k->image.name, k->image.chip,
                      (unsigned long long)pc, text, why);
}

IsaKernel *isa_decode(Arena *a, const IsaImage *image, IsaDisassemble *next, void *user,
                      const char **error) {
  IsaKernel *k = ARENA_NEW(a, IsaKernel);
  k->image = *image;
  if (strncmp(image->chip, "gfx", 3) != 0 || strlen(image->chip) < 6)
    return *error = arena_printf(a, "`%s` is not a chip that can be executed", image->chip), NULL;
  if ((image->preload & 127) > ISA_PRELOADED)
    return *error =
               arena_printf(a, "kernel `%s` starts with %d arguments in registers, of at most %d",
                            image->name, image->preload & 127, ISA_PRELOADED),
           NULL;
  describe(k);
  k->code = ARENA_ARRAY(a, IsaInstr, count_instructions(image, next, user) + 1);
  k->removed = -1;
  Decode x = {.arena = a, .k = k};
  char text[256];
  for (size_t at = 0; at < image->bytes;) {
    IsaInstr *i = &k->code[k->n];
    size_t size = next(user, image->code + at, image->bytes - at, at, text, sizeof text);
    if (!size) return *error = complain(a, k, at, "?", "not an instruction"), NULL;
    i->pc = at, i->next_pc = at += size, i->msb = x.msb;
    if (!parse_text(&x, text, i))
      return *error = complain(a, k, i->pc, i->text, x.why ? x.why : "not understood"), NULL;
    k->n++;
  }
  int bad = 0;
  if (!find_targets(k, &x, &bad))
    return *error = complain(a, k, k->code[bad].pc, k->code[bad].text, x.why), NULL;
  for (int n = 0; n < k->n; n++)
    k->has_named |= strcmp(k->code[n].row->name, "s_barrier_join") == 0;
  k->use = arena_alloc(a, (size_t)k->n + 1);
  return k;
}

int isa_wave_size(const IsaKernel *k) { return k->lanes; }
int isa_instructions(const IsaKernel *k) { return k->n; }

const char *isa_text(const IsaKernel *k, int i, uint64_t *offset) {
  *offset = k->code[i].pc;
  return k->code[i].text;
}

void isa_remove(IsaKernel *k, int i) {
  if (k->removed >= 0) k->code[k->removed] = k->kept;
  k->removed = i;
  if (i < 0) return;
  k->kept = k->code[i];
  k->code[i].step = isa_nothing_step;
  k->code[i].nreads = k->code[i].nwrites = 0;
}

unsigned isa_use(const IsaKernel *k, int i) {
  return atomic_load_explicit(&k->use[i], memory_order_relaxed);
}
