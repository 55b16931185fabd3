/* llvm.c: the text of a kernel: its function, arguments, ids. The other files of this folder emit
 * the ops. */
#include "backend/llvm/llvm.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "backend/llvm/lanes/llvm_lanes.h"
#include "backend/llvm/llvm_dot.h"
#include "ir/dtype.h"
#include "ir/launch_facts.h"

/* ---- hosts ---- */

LlvmHost llvm_host(const HostWords *words) {
  const char *triple = words->triple, *features = words->features;
  bool arm = strncmp(triple, "aarch64", 7) == 0 || strncmp(triple, "arm64", 5) == 0;
  const Processor *row = processor_of_host(words);
  bool scalable = row && processor_is_scalable(row);
  return (LlvmHost){.arch = arm ? LLVM_AARCH64 : LLVM_X86_64,
                    .vector_bits = row ? row->vector_bytes * 8 : 128,
                    .scalable = scalable,
                    .f16 = arm || processor_has_word(features, "f16c"),
                    .fma = arm || processor_has_word(features, "fma"),
                    .features = features,
                    .native_masks = scalable || (row && row->vector_bytes == 64)};
}

bool llvm_host_named(const char *target, LlvmHost *out) {
#if defined(__aarch64__)
  const char *here = "cpu_neon";
#else
  const char *here = "cpu_avx2";
#endif
  const Processor *p = processor_named(target);
  if (p && !*p->arch) p = processor_named(here);
  if (p) *out = llvm_host(&(HostWords){p->arch, p->features, p->vector_bytes});
  return p != NULL;
}

/* ---- writing ---- */

bool llvm_fail(Llvm *p, const Op *op, const char *what) {
  if (!p->failed)
    diag_add(&p->k->cx->diags, DIAG_E0601, op ? op->at : p->k->at,
             "`%s`: %s is not supported on CPUs yet", op ? op_info[op->kind].name : p->k->name,
             what);
  p->failed = true;
  return false;
}

const char *llvm_new(Llvm *p) { return arena_printf(p->arena, "%%v%d", p->names++); }

WV_PRINTF(3, 0)
static void write_line(Llvm *p, const char *name, const char *format, va_list ap) {
  sb_puts(&p->body, "  ");
  if (name) sb_printf(&p->body, "%s = ", name);
  sb_puts(&p->body, arena_vprintf(p->arena, format, ap));
  sb_puts(&p->body, p->place);
  sb_putc(&p->body, '\n');
}

void llvm_line(Llvm *p, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  write_line(p, NULL, format, ap);
  va_end(ap);
}

const char *llvm_let(Llvm *p, const char *format, ...) {
  const char *name = llvm_new(p);
  va_list ap;
  va_start(ap, format);
  write_line(p, name, format, ap);
  va_end(ap);
  return name;
}

void llvm_declare(Llvm *p, const char *text) {
  for (int i = 0; i < p->declared.n; i++)
    if (strcmp(p->declared.at[i], text) == 0) return;
  vec_push(p->arena, &p->declared, text);
}

const char *llvm_call(Llvm *p, const char *result, const char *name, const char *types,
                      const char *args) {
  llvm_declare(p, arena_printf(p->arena, "declare %s @%s(%s)", result, name, types));
  return llvm_let(p, "call %s @%s(%s)", result, name, args);
}

void llvm_call_void(Llvm *p, const char *name, const char *types, const char *args) {
  llvm_declare(p, arena_printf(p->arena, "declare void @%s(%s)", name, types));
  llvm_line(p, "call void @%s(%s)", name, args);
}

const char *llvm_label(Llvm *p, const char *what) {
  return arena_printf(p->arena, "%s%d", what, p->labels++);
}

void llvm_block(Llvm *p, const char *label) {
  sb_printf(&p->body, "%s:\n", label);
  p->block = label;
}

/* ---- arguments ---- */

static bool same_slot(const LlvmSlot *a, const LlvmSlot *b) {
  return a->kind == b->kind && a->param == b->param && a->value == b->value;
}

const char *llvm_slot(Llvm *p, LlvmSlot slot) {
  int i = 0;
  while (i < p->slots.n && !same_slot(&p->slots.at[i], &slot)) i++;
  if (i == p->slots.n) vec_push(p->arena, &p->slots, slot);
  return arena_printf(p->arena, "%%arg%d", i);
}

static void open_params(Llvm *p) {
  const Region *body = p->k->body;
  for (int i = 0; i < body->nargs; i++) {
    const Value *v = body->args[i];
    Held *h = llvm_held_new(p, v);
    if (v->type->kind == TYPE_mem) {
      h->base = llvm_slot(p, (LlvmSlot){.kind = LLVM_POINTER, .param = i});
      continue;
    }
    const char *name =
        llvm_slot(p, (LlvmSlot){.kind = LLVM_SCALAR, .param = i, .dtype = v->type->dtype});
    llvm_held_set(p, h, 1, arena_copy(p->arena, &name, sizeof name));
    if (p->k->params.at[i].binds) llvm_define(p, p->k->params.at[i].binds, llvm_index_of(p, v));
  }
}

static const char *slot_type(const LlvmSlot *s) {
  return s->kind == LLVM_POINTER  ? "ptr"
         : s->kind == LLVM_SCALAR ? llvm_elem_type(s->dtype)
                                  : "i64";
}

/* All slots are read at entry: they do not change while the kernel runs. */
static void put_slots(const Llvm *p, StrBuf *out) {
  for (int i = 0; i < p->slots.n; i++) {
    const LlvmSlot *s = &p->slots.at[i];
    const char *type = slot_type(s);
    bool truth = strcmp(type, "i1") == 0;
    sb_printf(out, "  %%slot%d = getelementptr i64, ptr %%slots, i64 %d\n", i, i);
    sb_printf(out, "  %%arg%d%s = load %s, ptr %%slot%d, align 8\n", i, truth ? ".byte" : "",
              truth ? "i8" : type, i);
    if (truth) sb_printf(out, "  %%arg%d = trunc i8 %%arg%d.byte to i1\n", i, i);
  }
}

/* ---- ids ---- */

/* Splits the number of a workgroup into its three ids. */
static void open_ids(Llvm *p, const LaunchSpec *launch) {
  const char *rest = p->lanes ? lanes_open_wave(p, "%group") : "%group";
  int last = 2;
  while (last > 0 && sym_is_int(launch->grid[last], &(int64_t){0}) &&
         launch->grid[last] == sym_int(p->sym, 1))
    last--;
  for (int i = 0; i < 3; i++) {
    const Sym *id = ir_numbered_symbol(p->k->cx, "$WG", i, true);
    llvm_define(p, ir_numbered_symbol(p->k->cx, "$T", i, true), "0");
    if (i >= last) {
      llvm_define(p, id, i == last ? rest : "0");
      continue;
    }
    const char *size = llvm_slot(p, (LlvmSlot){.kind = LLVM_VALUE, .value = launch->grid[i]});
    llvm_define(p, id, llvm_let(p, "urem i64 %s, %s", rest, size));
    rest = llvm_let(p, "udiv i64 %s, %s", rest, size);
  }
}

/* ---- uses ---- */

/* Rows of a register tile are loaded piecewise where broadcasting is free: x86 and SVE do it in the
 * load, while NEON multiplies by an element of a vector. */
static int *find_repeated(Llvm *p) {
  int *repeated = ARENA_ARRAY(p->arena, int, p->k->nvalues);
  bool *otherwise = ARENA_ARRAY(p->arena, bool, p->k->nvalues);
  for (const Op *op = ir_first(p->k); op; op = ir_next(op))
    for (int i = 0; i < op->nargs; i++) {
      bool rows = op->kind == OP_wave_mma && i == 0;
      int id = op->args[i]->id, n = rows ? llvm_dot_repeats(p, llvm_dot_for(p, op)) : 0;
      otherwise[id] |= !n || (repeated[id] && repeated[id] != n);
      repeated[id] = n;
    }
  bool free = p->host->arch == LLVM_X86_64 || p->host->scalable;
  for (int i = 0; i < p->k->nvalues; i++)
    if (otherwise[i] || !free || p->lanes) repeated[i] = 0;
  return repeated;
}

/* ---- the whole ---- */

/* Any name may be quoted; characters that cannot be quoted are dropped. */
static const char *entry_name(Llvm *p) {
  char *name = arena_printf(p->arena, "wave_%s", p->k->name);
  for (char *at = name; *at; at++)
    if (!isalnum((unsigned char)*at)) *at = '_';
  return name;
}

/* Vectors of the SVE length use SVE registers if the length is known. */
static const char *length_words(const Llvm *p) {
  int n = p->host->vector_bits / LLVM_SEGMENT_BITS;
  return p->host->scalable ? arena_printf(p->arena, " vscale_range(%d,%d)", n, n) : "";
}

static void put_function(Llvm *p, StrBuf *out) {
  sb_printf(out,
            "define i32 @%s(ptr nocapture readonly %%slots, i64 %%first, i64 %%last, ptr noalias "
            "nocapture %%scratch, ptr %%watch) nounwind%s%s {\nentry:\n",
            entry_name(p), length_words(p), llvm_debug_function(p));
  sb_puts(out, "  " LLVM_NOWHERE " = alloca i64, align 8\n");
  if (p->has_tiles) sb_puts(out, "  " LLVM_TILES " = alloca [16384 x i8], align 64\n");
  put_slots(p, out);
  sb_puts(out, sb_text(&p->opening));
  sb_puts(out, "  %some = icmp slt i64 %first, %last\n"
               "  br i1 %some, label %groups, label %done\n");
  sb_printf(out, "groups:\n  %%group = phi i64 [ %%first, %%entry ], [ %%group.next, %%%s ]\n",
            p->block);
  sb_puts(out, sb_text(&p->body));
  sb_puts(out, "done:\n  ret i32 0\n}\n");
}

/* Continues with the next workgroup, if there is one and the launch has not been stopped. */
static void close_groups(Llvm *p) {
  llvm_line(p, "%%group.next = add i64 %%group, 1");
  llvm_line(p, "%%more = icmp slt i64 %%group.next, %%last");
  llvm_line(p, "br i1 %%more, label %%another, label %%done");
  llvm_block(p, "another");
  llvm_round(p, 1);
  llvm_line(p, "br label %%groups");
}

static const char *module_text(Llvm *p) {
  StrBuf out = {.arena = p->arena};
  sb_puts(&out, LLVM_ZERO " = internal constant i64 0, align 8\n");
  put_function(p, &out);
  for (int i = 0; i < p->declared.n; i++) sb_printf(&out, "%s\n", p->declared.at[i]);
  llvm_debug_close(p, &out);
  return sb_text(&out);
}

enum { MOST_SCRATCH = 1 << 28 }; /* bytes of a workgroup */

bool llvm_emit(Kernel *k, const LlvmHost *host, Arena *a, LlvmKernel *out) {
  const LaunchSpec *launch = kernel_launch(k);
  Llvm p = {.k = k, .host = host, .arena = a, .sym = k->cx->sym, .body = {.arena = a}};
  p.opening = (StrBuf){.arena = a};
  p.place = "";
  if (k->level != LEVEL_THREAD || !launch)
    return llvm_fail(&p, NULL, "a kernel that is not lowered to THREAD level");
  p.held = ARENA_ARRAY(a, Held *, k->nvalues);
  p.scratch = launch->shared;
  bool alone = launch->lanes == 1 && launch_threads(launch) == 1;
  if (!alone && !(p.lanes = lanes_plan(&p, launch)))
    return llvm_fail(&p, NULL, "a workgroup of this many threads");
  p.repeated = find_repeated(&p);
  p.matrices = llvm_find_matrices(&p);
  p.entry = p.facts = launch_facts(p.arena, p.k, launch);
  p.rounds = llvm_find_long(&p);
  p.block = "groups";
  llvm_debug_open(&p);
  open_params(&p);
  open_ids(&p, launch);
  if (alone) llvm_region(&p, k->body);
  else lanes_region(&p, k->body);
  if (!p.failed && p.scratch > MOST_SCRATCH)
    return llvm_fail(&p, NULL, "this much per-thread memory");
  if (p.failed) return false;
  close_groups(&p);
  *out = (LlvmKernel){.text = module_text(&p),
                      .entry = entry_name(&p),
                      .slots = p.slots.at,
                      .nslots = p.slots.n,
                      .scratch = p.scratch,
                      .waves = p.lanes ? p.lanes->apart : 1,
                      .waits = p.waits.at,
                      .nwaits = p.waits.n};
  for (int i = 0; i < 3; i++) out->grid[i] = launch->grid[i];
  return true;
}
