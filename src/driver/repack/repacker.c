/* repacker.c: the kernel that copies a tensor to one with other strides; see repack.h. It is compiled like
 * any kernel, for the sizes of elements and the ranks that occur, when it is first needed. */
#include "driver/compiled.h"
#include "driver/repack/repack.h"

/* A workgroup copies four rows of 2048 elements: neighbouring lanes have neighbouring elements, and each
 * has 32 of them to load before it stores the first. */
static const char *text_of(Arena *a, int rank, int bits) {
  bool planes = rank > REPACK_RANK_LEAST;
  const char *outer = planes ? "B, " : "";
  return arena_printf(a,
                      "kernel @repack(%%from: mem<%sM, N, u%d>, %%to: mem<%sM, N, u%d>)\n"
                      "  hardware threads 32, vector {%sM: 4, N: 256}\n"
                      "  workgroup N by 2048 on 0; workgroup M by 4 on 1\n"
                      "  wave N by 256; dynamic M; dynamic N\n"
                      "%s"
                      "{\n"
                      "  %%0 = read %%from : tile<%sM, N, u%d>\n"
                      "  write %%0, %%to\n"
                      "}\n",
                      outer, bits, outer, bits, planes ? "B: 1, " : "",
                      planes ? "  workgroup B by 1 on 2; dynamic B\n" : "", outer, bits);
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
