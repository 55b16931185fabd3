/* repacker.c: the kernel that copies a tensor to one with other strides; see repack.h. It is compiled like
 * any kernel, for the sizes of elements and the ranks that occur, when it is first needed. */
#include "driver/compiled.h"
#include "driver/repack/repack.h"

enum { PIECE_BITS = 128 };

/* A workgroup copies 16 rows of 512 elements: each lane loads 32 of them, in runs of neighbours, before it
 * stores the first. Rows of the copy are aligned, so that a store has 16 bytes, except where rows end. */
static const char *text_of(Arena *a, int rank, int bits) {
  bool planes = rank > REPACK_RANK_LEAST;
  const char *outer = planes ? "B, " : "";
  StrBuf out = {.arena = a};
  sb_printf(&out, "kernel @repack(%%from: mem<%sM, N, u%d>, %%to: mem<%sM, N, u%d>)\n", outer, bits,
            outer, bits);
  sb_printf(&out, "  hardware threads 32, vector {%sM: 2, N: 512}\n", planes ? "B: 1, " : "");
  sb_puts(&out, "  workgroup M by 16 on 0; workgroup N by 512 on 1; wave M by 2\n"
                "  dynamic M; dynamic N\n");
  if (planes) sb_puts(&out, "  workgroup B by 1 on 2; dynamic B\n");
  sb_printf(&out, "  assume Eq($STRIDE_from_%d, 1); assume Eq($STRIDE_to_%d, 1)\n", rank - 1,
            rank - 1);
  for (int d = 0; d + 1 < rank && bits < PIECE_BITS; d++)
    sb_printf(&out, "  assume Eq(Mod($STRIDE_to_%d, %d), 0)\n", d, PIECE_BITS / bits);
  sb_printf(&out, "  assume Eq(Mod($BASE_to, %d), 0)\n", PIECE_BITS / 8);
  sb_printf(&out, "{\n  %%0 = read %%from : tile<%sM, N, u%d>\n  write %%0, %%to\n}\n", outer,
            bits);
  return sb_text(&out);
}

/* Under the program's lock; NULL after reporting to its own context. */
static wv_program *new_repacker(wv_program *p, int rank, int bits) {
  CompileOptions o = p->options;
  wv_kernel *k = NULL;
  Arena *a = arena_new();
  int n = wv_parse(p->own, "repack", text_of(a, rank, bits), &k, 1);
  arena_free(a);
  WV_ASSERT(n == 1);
  o.start_after = NULL;
  wv_program *made = program_new(k, &o);
  wv_kernel_free(k);
  made->cache = p->cache;
  if (made->kernel && program_describe(made, false)) return made;
  program_forward(made, &p->own->cx->diags);
  program_free(made);
  return NULL;
}

static wv_program *repacker_of(wv_program *p, Diags *diags, int rank, int size) {
  _Atomic(wv_program *) *at = &p->repacker[rank - REPACK_RANK_LEAST][size];
  wv_program *found = atomic_load_explicit(at, memory_order_acquire);
  if (found) return found;
  ProgramLock lock;
  program_lock(p, &lock);
  found = atomic_load(at);
  if (!found && api_usable(p->own) && (found = new_repacker(p, rank, 8 << size))) {
    arena_owned(found->arena);
    atomic_store_explicit(at, found, memory_order_release);
  }
  program_forward(p, diags);
  program_unlock(&lock);
  return found;
}

bool repack_run(Launcher *l, Diags *diags, const wv_tensor *from, const wv_tensor *to,
                void *stream) {
  static const char *const names[REPACK_SIZES] = {"u8", "u16", "u32", "u64"};
  wv_tensor both[2] = {*from, *to};
  wv_launch_arg args[2] = {{.tensor = &both[0]}, {.tensor = &both[1]}};
  LaunchCall call = {.args = args, .nargs = 2, .stream = stream};
  int bits = 8, size = 0;
  wv_dtype_name(from->dtype, &bits, NULL);
  while (8 << size < bits) size++;
  both[0].dtype = both[1].dtype = wv_dtype_find(names[size]);
  wv_program *repacker = repacker_of(program_of(l), diags, from->rank, size);
  return repacker && launch_run(&repacker->launcher, diags, &call);
}

void repack_free(wv_program *p) {
  for (int r = 0; r < REPACK_RANKS; r++)
    for (int s = 0; s < REPACK_SIZES; s++)
      if (atomic_load(&p->repacker[r][s])) program_free(atomic_load(&p->repacker[r][s]));
}
