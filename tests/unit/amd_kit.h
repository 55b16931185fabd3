/* amd_kit.h: kernels run twice: by the simulator, and as machine code for an AMD GPU, by the
 * executor of isa/.
 *
 *     CHECK(amd_agrees(text, "gfx942", fill, 0));       `fill` makes the arguments
 *
 * Without a libLLVM that knows the chip every test here passes with a line that says so. */
#ifndef WV_AMD_KIT_H
#define WV_AMD_KIT_H

#include "backend/amd/amd.h"
#include "runtime/amd/amd_compile.h"
#include "transform/pass_manager.h"
#include "unit/cpu_kit.h"
#include "unit/isa_kit.h"

/* To one lane's program for the chip, if it is not one already. */
static inline bool amd_lower(Lab *l, const char *chip) {
  PassOptions o = {.target = chip};
  if (l->k && l->k->level == LEVEL_THREAD) o.passes = "legalise";
  if (l->k && passes_run(l->k, &o) && l->k->level == LEVEL_THREAD) return true;
  lab_print_errors(l);
  return false;
}

static inline bool amd_load(IsaKit *kit, const LlvmLibrary *l, const char *chip,
                            const AmdKernel *k) {
  LlvmCode object;
  AmdCode linked;
  if (!amd_compile(l, kit->a, k->text, chip_named(chip), false, &object, &kit->error) ||
      !amd_object_link(kit->a, object.bytes, object.size, &linked, &kit->error) ||
      !amd_image_load(kit->a, linked.bytes, linked.size, &kit->image, &kit->error) ||
      !amd_image_kernel(kit->a, &kit->image, k->entry, &kit->code, &kit->error))
    return false;
  kit_decode(kit, l);
  kit->ranges[kit->nranges++] =
      (IsaRange){"the code object", (uint64_t)(uintptr_t)kit->image.memory, kit->image.size, false};
  return kit->kernel != NULL;
}

static inline void amd_arguments(IsaKit *kit, Lab *l, const KitEnv *env, const AmdKernel *k) {
  for (int i = 0; i < k->nslots; i++) {
    const LlvmSlot *s = &k->slots[i];
    uint64_t v = slot_value(l, env, s);
    isa_kit_number(kit, &v, (size_t)s->bytes);
    if (s->kind != LLVM_POINTER) continue;
    const EvalBuffer *b = &l->tensors[s->param];
    kit->ranges[kit->nranges++] =
        (IsaRange){"a tensor", v, dtype_bytes(b->dtype, lab_count(b)), true};
  }
}

static inline bool amd_workgroups(IsaKit *kit, const KitEnv *env, const AmdKernel *k) {
  kit->ranges[kit->nranges++] =
      (IsaRange){"the arguments", (uint64_t)(uintptr_t)kit->args, sizeof kit->args, false};
  IsaLaunch l = {.kernel = kit->kernel,
                 .args = kit->args,
                 .args_bytes = kit->nargs,
                 .ranges = kit->ranges,
                 .nranges = kit->nranges,
                 .most = 1 << 24};
  for (int i = 0; i < 3; i++) {
    l.grid[i] = (unsigned)env_value(env, k->grid[i]);
    l.block[i] = (unsigned)env_value(env, k->block[i]);
  }
  char *memory = calloc(1, isa_machine_bytes(&l) + 64);
  IsaMachine *m = isa_machine(memory + (64 - (uintptr_t)memory % 64) % 64, &l);
  bool ok = true;
  for (unsigned z = 0; ok && z < l.grid[2]; z++)
    for (unsigned y = 0; ok && y < l.grid[1]; y++)
      for (unsigned x = 0; ok && x < l.grid[0]; x++)
        ok = isa_run(m, &l, (unsigned[3]){x, y, z}, &kit->fault);
  free(memory);
  if (!ok) kit->error = isa_fault_text(kit->a, kit->kernel, &kit->fault);
  return ok;
}

/* Machine code for a kernel that is one lane's program. */
static inline bool amd_run(Lab *l, const char *chip, bool *skipped) {
  IsaKit kit = {.a = arena_new()};
  KitEnv env = env_of(l);
  AmdKernel k = {0};
  const LlvmLibrary *library = amd_library_open(kit.a, chip_named(chip), &kit.error);
  *skipped = !library;
  bool ok = library != NULL;
  if (ok) {
    AmdOptions o = {.llvm = library->version};
    ok = amd_emit(l->k, target_find(chip).machine, &o, kit.a, &k);
    if (!ok) lab_print_errors(l);
    ok = ok && amd_load(&kit, library, chip, &k);
    if (ok) amd_arguments(&kit, l, &env, &k);
    ok = ok && amd_workgroups(&kit, &env, &k);
  }
  if (!ok) printf("%s: %s\n%s", chip, kit.error ? kit.error : "", k.text ? k.text : "");
  arena_free(kit.a);
  return ok || *skipped;
}

/* Both ways on the same arguments; `tolerance` is relative, 0: equal. */
static inline bool amd_agrees(const char *text, const char *chip, void (*fill)(Lab *l),
                              double tolerance) {
  Lab sim = lab_open(text), amd = lab_open(text);
  if (!sim.k || !amd.k) return false;
  fill(&sim), fill(&amd);
  SimOptions o = {.machine = target_find(chip).machine};
  bool skipped = false;
  bool ok = amd_lower(&sim, chip) && sim_lab(&sim, &o, NULL);
  if (!ok) lab_print_errors(&sim);
  ok = ok && amd_lower(&amd, chip) && amd_run(&amd, chip, &skipped);
  for (int t = 0; ok && !skipped && t < sim.nargs; t++)
    for (int64_t e = 0; ok && sim.args[t].buffer && e < lab_count(&sim.tensors[t]); e++) {
      ok = kit_close(get(&sim, t, e), get(&amd, t, e), tolerance);
      if (!ok)
        printf("%s: argument %d, element %lld: %.17g, expected %.17g\n", chip, t, (long long)e,
               get(&amd, t, e), get(&sim, t, e));
    }
  lab_close(&sim);
  lab_close(&amd);
  return ok;
}

#endif
