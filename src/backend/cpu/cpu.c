/* cpu.c: the text of a kernel for CPUs: its function, arguments, ids. The other files of this folder
 * and of backend/llvm emit the ops. */
#include <string.h>

#include "backend/cpu/cpu_dot.h"
#include "backend/cpu/lanes/cpu_lanes.h"
#include "ir/launch_facts.h"

/* ---- hosts ---- */
CpuHost cpu_host(const HostWords *words) {
  const char *triple = words->triple, *features = words->features;
  bool arm = strncmp(triple, "aarch64", 7) == 0 || strncmp(triple, "arm64", 5) == 0;
  const CpuInfo *row = cpu_of_host(words);
  bool scalable = row && cpu_is_scalable(row);
  return (CpuHost){.arch = arm ? CPU_AARCH64 : CPU_X86_64,
                   .vector_bits = row ? row->vector_bytes * 8 : 128,
                   .scalable = scalable,
                   .f16 = arm || cpu_has_feature(features, "f16c"),
                   .fma = arm || cpu_has_feature(features, "fma"),
                   .features = features,
                   .native_masks = scalable || (row && row->vector_bytes == 64)};
}

bool cpu_host_named(const char *target, CpuHost *out) {
#if defined(__aarch64__)
  const char *here = "cpu_neon";
#else
  const char *here = "cpu_avx2";
#endif
  const CpuInfo *p = cpu_named(target);
  if (p && !*p->arch) p = cpu_named(here);
  if (p) *out = cpu_host(&(HostWords){p->arch, p->features, p->vector_bytes});
  return p != NULL;
}

/* ---- arguments ---- */

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

static const char *launch_value(Llvm *p, const Sym *value) {
  return llvm_slot(p, (LlvmSlot){.kind = LLVM_VALUE, .value = value, .bytes = 8});
}

static const char *least_of(Llvm *p, const char *a, const char *b) {
  const char *less = llvm_let(p, "icmp slt i64 %s, %s", a, b);
  return llvm_let(p, "select i1 %s, i64 %s, i64 %s", less, a, b);
}

static const char *divided_up(Llvm *p, const char *n, const char *by) {
  n = llvm_let(p, "sub i64 %s, 1", llvm_let(p, "add i64 %s, %s", n, by));
  return llvm_let(p, "udiv i64 %s, %s", n, by);
}

/* The slots of many threads compete for the cache that they share: 16 were slower in bands. */
enum { MOST_IN_BANDS = 4 };

/* The number of rows of a band: as many as are wanted, but so few that each thread has a band; or all
 * rows of the grid, if that gives too many bands. */
static const char *choose_band(Llvm *p, const LaunchSpec *launch, const char *rows) {
  const char *wanted = launch_value(p, launch->band), *most = launch_value(p, launch->bands);
  const char *threads = llvm_let(p, "load i64, ptr %%watch, align 8"); /* CpuWatch */
  const char *band = least_of(p, wanted, divided_up(p, rows, threads));
  const char *some = llvm_let(p, "icmp sgt i64 %s, 0", band);
  band = llvm_let(p, "select i1 %s, i64 %s, i64 1", some, band);
  const char *bands = divided_up(p, rows, band);
  const char *few = llvm_let(p, "icmp sle i64 %s, %s", bands, most);
  const char *near = llvm_let(p, "icmp sle i64 %s, %d", threads, MOST_IN_BANDS);
  const char *used = llvm_let(p, "and i1 %s, %s", llvm_let(p, "and i1 %s, %s", some, few), near);
  const char *in_bands = llvm_let(p, "zext i1 %s to i64", used);
  llvm_define(p, sym_symbol(p->sym, IN_BANDS, true), index_named(in_bands));
  return llvm_let(p, "select i1 %s, i64 %s, i64 %s", used, band, rows);
}

/* The first two ids of workgroup number `rest` of a grid in bands, of which the last may be smaller.
 * Gives the number of its plane, which is the third id. */
static const char *open_band(Llvm *p, const LaunchSpec *launch, const char *rest) {
  const char *rows = launch_value(p, launch->grid[0]), *columns = launch_value(p, launch->grid[1]),
             *most = choose_band(p, launch, rows);
  const char *all = llvm_let(p, "mul i64 %s, %s", rows, columns);
  const char *plane = llvm_let(p, "udiv i64 %s, %s", rest, all);
  const char *inside = llvm_let(p, "urem i64 %s, %s", rest, all);
  const char *size = llvm_let(p, "mul i64 %s, %s", most, columns);
  const char *band = llvm_let(p, "udiv i64 %s, %s", inside, size);
  inside = llvm_let(p, "urem i64 %s, %s", inside, size);
  const char *first = llvm_let(p, "mul i64 %s, %s", band, most);
  const char *left = llvm_let(p, "sub i64 %s, %s", rows, first);
  const char *last = llvm_let(p, "icmp ult i64 %s, %s", left, most);
  const char *here = llvm_let(p, "select i1 %s, i64 %s, i64 %s", last, left, most);
  const char *column = llvm_let(p, "udiv i64 %s, %s", inside, here);
  const char *row = llvm_let(p, "urem i64 %s, %s", inside, here);
  row = llvm_let(p, "add i64 %s, %s", first, row);
  llvm_define(p, ir_numbered_symbol(p->k->cx, "$WG", 0, true), index_named(row));
  llvm_define(p, ir_numbered_symbol(p->k->cx, "$WG", 1, true), index_named(column));
  return plane;
}

/* Splits the number of a workgroup into its three ids. */
static void open_ids(Llvm *p, const LaunchSpec *launch) {
  const char *rest = p->cpu->lanes ? lanes_open_wave(p, "%group") : "%group";
  int last = 2;
  if (launch->band) rest = open_band(p, launch, rest);
  while (last > 0 && sym_is_int(launch->grid[last], &(int64_t){0}) &&
         launch->grid[last] == sym_int(p->sym, 1))
    last--;
  for (int i = 0; i < 3; i++) {
    const Sym *id = ir_numbered_symbol(p->k->cx, "$WG", i, true);
    llvm_define(p, ir_numbered_symbol(p->k->cx, "$T", i, true), index_named("0"));
    if (i < 2 && launch->band) continue;
    if (i >= last) {
      llvm_define(p, id, index_named(i == last ? rest : "0"));
      continue;
    }
    const char *size = launch_value(p, launch->grid[i]);
    llvm_define(p, id, index_named(llvm_let(p, "urem i64 %s, %s", rest, size)));
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
      int id = op->args[i]->id, n = rows ? cpu_dot_repeats(p, cpu_dot_for(p, op)) : 0;
      otherwise[id] |= !n || (repeated[id] && repeated[id] != n);
      repeated[id] = n;
    }
  bool free = p->cpu->host->arch == CPU_X86_64 || p->cpu->host->scalable;
  for (int i = 0; i < p->k->nvalues; i++)
    if (otherwise[i] || !free || p->cpu->lanes) repeated[i] = 0;
  return repeated;
}

/* ---- ops ---- */

/* A workgroup is one thread, so it never waits for itself. */
static void no_wait(Llvm *p, const Op *op) { llvm_nothing(p, op); }

/* Nothing is measured on a CPU: lanes are iterations of loops there, and take turns. */
static void no_time(Llvm *p, const Op *op) {
  const char *zero = "0";
  Held *h = llvm_held_new(p, &op->results[0]);
  llvm_held_set(p, h, 1, arena_copy(p->arena, &zero, sizeof zero));
}

static LlvmFn *const writer[OP_COUNT] = {
    [OP_alloc] = cpu_alloc,
    [OP_clock] = no_time,
    [OP_load] = cpu_load,
    [OP_store] = cpu_store,
    [OP_load_rows] = cpu_load_rows,
    [OP_store_rows] = cpu_store_rows,
    [OP_prefetch] = cpu_prefetch,
    [OP_atomic] = cpu_atomic,
    [OP_wave_mma] = cpu_wave_mma,
    [OP_barrier] = no_wait,
    [OP_workgroup_barrier] = no_wait,
    [OP_shared_barrier] = no_wait,
    [OP_barrier_signal] = no_wait,
    [OP_barrier_wait] = no_wait,
    [OP_counter_wait] = no_wait, /* for copies, which are complete when they are issued */
    [OP_counter_barrier] = no_wait,
    [OP_yield] = no_wait,
};

bool cpu_op_waits(const Op *op) {
  return writer[op->kind] == no_wait || op_info[op->kind].flags & OPF_HINT;
}

bool cpu_writes(OpKind kind) { return writer[kind] || llvm_writes_op(kind) || lanes_writes(kind); }

/* ---- the whole ---- */

/* Vectors of the SVE length use SVE registers if the length is known. */
static const char *length_words(const Llvm *p) {
  int n = p->cpu->host->vector_bits / CPU_SEGMENT_BITS;
  return p->cpu->host->scalable ? arena_printf(p->arena, " vscale_range(%d,%d)", n, n) : "";
}

static void put_function(Llvm *p, StrBuf *out) {
  sb_printf(out,
            "define i32 @%s(ptr nocapture readonly %%slots, i64 %%first, i64 %%last, ptr noalias "
            "nocapture %%scratch, ptr %%watch) nounwind%s%s {\nentry:\n",
            llvm_entry_name(p), length_words(p), llvm_debug_function(p));
  sb_puts(out, "  " CPU_NOWHERE " = alloca i64, align 8\n");
  if (p->cpu->has_tiles) sb_puts(out, "  " CPU_TILES " = alloca [16384 x i8], align 64\n");
  put_slots(p, out);
  sb_puts(out, sb_text(&p->cpu->opening));
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
  cpu_round(p, 1);
  llvm_line(p, "br label %%groups");
}

static const char *module_text(Llvm *p) {
  StrBuf out = {.arena = p->arena};
  sb_puts(&out, CPU_ZERO " = internal constant i64 0, align 8\n");
  put_function(p, &out);
  for (int i = 0; i < p->declared.n; i++) sb_printf(&out, "%s\n", p->declared.at[i]);
  llvm_debug_close(p, &out);
  return sb_text(&out);
}

enum { MOST_SCRATCH = 1 << 28 }; /* bytes of a workgroup */

/* LLVM orders the instructions of a block in a time that is more than quadratic if many of them
 * share a mask. Programs of one thread, whose tiles are in loops, seldom have half as many. */
enum { MOST_LINES = 2000 };

/* LLVM allocates registers in a time that is proportional to the number of values times the number
 * of blocks, if values live long: here, two seconds. Each masked store of a lane is a block, so this
 * concerns lanes with a thousand elements. Such programs are rarely run for their speed. */
enum { MOST_WORK = 10 * 1000 * 1000 };

static bool is_large(const Llvm *p) {
  return p->cpu->lanes && (int64_t)p->names * p->labels > MOST_WORK;
}

static const LlvmTiles tiles = {cpu_matrix_count, cpu_tiles_of, cpu_matrix_set,
                                cpu_matrix_to_vectors};

static LlvmMachine machine_of(const CpuHost *host, const LlvmWatch *watch) {
  return (LlvmMachine){.called = "CPUs",
                       .vector_bits = host->vector_bits,
                       .f16 = host->f16,
                       .fma = host->fma,
                       .keeps_nan = host->arch == CPU_AARCH64,
                       .library = true,
                       .fast_math = host->fast_math,
                       .writer = writer,
                       .tiles = &tiles,
                       .watch = watch};
}

static void one_round(Llvm *p) { cpu_round(p, 1); }

bool cpu_emit(Kernel *k, const CpuHost *host, Arena *a, CpuKernel *out) {
  const LaunchSpec *launch = kernel_launch(k);
  Cpu cpu = {.host = host, .opening = {.arena = a}};
  LlvmWatch watch = {.ask = cpu_ask, .round = one_round, .end_of_while = cpu_end_of_while};
  LlvmMachine machine = machine_of(host, &watch);
  Llvm p = {.k = k, .machine = &machine, .cpu = &cpu, .arena = a, .sym = k->cx->sym};
  p.body = (StrBuf){.arena = a};
  p.place = "";
  if (k->level != LEVEL_THREAD || !launch)
    return llvm_fail(&p, NULL, "a kernel that is not lowered to THREAD level");
  p.held = ARENA_ARRAY(a, Held *, k->nvalues);
  cpu.scratch = launch->shared;
  bool alone = launch->lanes == 1 && launch_threads(launch) == 1;
  if (!alone && !(cpu.lanes = lanes_plan(&p, launch)))
    return llvm_fail(&p, NULL, "a workgroup of this many threads");
  cpu.repeated = find_repeated(&p);
  p.matrices = cpu_find_matrices(&p);
  p.entry = p.facts = launch_facts(p.arena, p.k, launch);
  watch.rounds = cpu_find_long(&p);
  p.block = "groups";
  p.most_lines = MOST_LINES;
  llvm_debug_open(&p);
  llvm_open_params(&p);
  open_ids(&p, launch);
  if (alone) llvm_region(&p, k->body);
  else lanes_region(&p, k->body);
  if (!p.failed && cpu.scratch > MOST_SCRATCH)
    return llvm_fail(&p, NULL, "this much per-thread memory");
  if (p.failed) return false;
  close_groups(&p);
  *out = (CpuKernel){.text = module_text(&p),
                     .entry = llvm_entry_name(&p),
                     .slots = p.slots.at,
                     .nslots = p.slots.n,
                     .scratch = cpu.scratch,
                     .waves = cpu.lanes ? cpu.lanes->apart : 1,
                     .waits = cpu.waits.at,
                     .nwaits = cpu.waits.n,
                     .large = is_large(&p)};
  for (int i = 0; i < 3; i++) out->grid[i] = launch->grid[i];
  return true;
}
