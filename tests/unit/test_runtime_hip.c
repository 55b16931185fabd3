/* test_runtime_hip.c: AMD devices, loaded programs and launches, on a library without a GPU. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "unit/hip_kit.h"

static const char scale_text[] = "kernel @scale(%a: mem<M, N, f32>, %b: mem<M, N, f32>, %s: f32)\n"
                                 "  dynamic M; dynamic N\n"
                                 "  hardware threads 64\n"
                                 "  workgroup M by 4 on 0; workgroup N by 64 on 1; wave M by 1\n"
                                 "{\n"
                                 "  %x = read %a : tile<M, N, f32>\n"
                                 "  %t = broadcast %s : tile<M, N, f32>\n"
                                 "  %y = mul %x, %t\n"
                                 "  write %y, %b\n"
                                 "}\n";

/* Its workgroups wait for each other. */
static const char flag_text[] = "thread kernel @wait(%flag: mem<N, i32>)\n"
                                "  dynamic N\n"
                                "  launch grid (N) block (32) wave 32\n"
                                "{\n"
                                "  %zero = scalar 0 : index\n"
                                "  while F as signed(F.2) (%f) from %zero cond signed(F.2) < 1 {\n"
                                "    %v = load %flag, %zero {volatile} : i32\n"
                                "    %n = cast %v : index\n"
                                "    yield %n\n"
                                "  }\n"
                                "}\n";

enum { A = 0x10000, B = 0x20000 };

typedef struct ScaleArgs {
  Tensor a, b;
  wv_launch_arg arg[3];
} ScaleArgs;

static Tensor *hip_tensor(Tensor *t, uintptr_t address, const char *dtype, int rank,
                          const int64_t *shape) {
  tensor(t, address, dtype, rank, shape)->t.device.kind = WV_HIP;
  return t;
}

static ScaleArgs *scale_args(ScaleArgs *s, int64_t m, int64_t n) {
  hip_tensor(&s->a, A, "f32", 2, (int64_t[]){m, n});
  hip_tensor(&s->b, B, "f32", 2, (int64_t[]){m, n});
  s->arg[0] = (wv_launch_arg){.tensor = &s->a.t};
  s->arg[1] = (wv_launch_arg){.tensor = &s->b.t};
  s->arg[2] = (wv_launch_arg){.number = 2.5};
  return s;
}

static bool launch_on(HipBench *b, const ScaleArgs *s, void *stream) {
  wv_diag_clear(b->cx);
  return wv_launch(b->p, b->cx, s->arg, 3, stream, 0);
}

static bool launch(HipBench *b, const ScaleArgs *s) { return launch_on(b, s, (void *)70); }

/* What a graph may launch again stays. */
static void check_kept(Harness *harness, HipBench *b, int allocated) {
  const FakeHip *fake = b->fake;
  hip_close(b);
  CHECK_INT(fake->unloads, 0);
  CHECK_INT(fake->allocated, allocated);
}

/* What a test leaves behind. */
static void check_tidy(Harness *harness, const FakeHip *fake) {
  CHECK_STR(fake->broken ? fake->broken : "", "");
  CHECK_INT(fake->unloads, fake->loads);
  CHECK_INT(fake->allocated, 0);
}

/* ---- the library and its devices ---- */

TEST(library_is_absent) {
  setenv("WAVE_HIP_LIB", "/nowhere/libamdhip64.so", 1);
  wv_ctx *cx = wv_ctx_new();
  wv_device_info info;
  CHECK_INT(wv_device_count(cx, WV_HIP), 0);
  CHECK_INT(wv_diag_count(cx), 0);
  CHECK(!wv_device_get(cx, (wv_device){WV_HIP, 0}, &info));
  CHECK(has(said(cx, "E0901"), "no HIP runtime found"));
  CHECK(has(said(cx, "E0901"), "/nowhere/libamdhip64.so"));
  CHECK(has(said(cx, "E0901"), "WAVE_HIP_LIB") && has(said(cx, "E0901"), "sim:gfx942"));
  wv_ctx_free(cx);
}

/* Each name that was tried is reported, unless the machine has ROCm. */
TEST(every_name_is_tried) {
  static const char *const names[] = {"`libamdhip64.so.7`", "`libamdhip64.so.6`",
                                      "`libamdhip64.so.5`", "`libamdhip64.so`",
                                      "`/opt/rocm/lib/libamdhip64.so`"};
  unsetenv("WAVE_HIP_LIB");
  wv_ctx *cx = wv_ctx_new();
  wv_device_info info;
  bool found = wv_device_get(cx, (wv_device){WV_HIP, 0}, &info);
  bool absent = *said(cx, "E0901") != '\0';
  for (size_t i = 0; absent && i < sizeof names / sizeof *names; i++)
    CHECK(has(said(cx, "E0901"), names[i]));
  CHECK(!absent || !found);
  wv_ctx_free(cx);
}

/* PyTorch brings a library of its own: a second one would know neither its streams nor its memory. */
TEST(library_is_in_use_already) {
  fake_hip_open(FAKE_HIP_OLD)->devices = 1;
  unsetenv("WAVE_HIP_LIB");
  wv_ctx *cx = wv_ctx_new();
  CHECK_INT(wv_device_count(cx, WV_HIP), 1);
  wv_ctx_free(cx);
}

TEST(library_is_another) {
  setenv("WAVE_HIP_LIB", "libm.so.6", 1);
  wv_ctx *cx = wv_ctx_new();
  wv_device_info info;
  CHECK(!wv_device_get(cx, (wv_device){WV_HIP, 0}, &info));
  CHECK(has(said(cx, "E0901"), "`libm.so.6` lacks `hipInit`"));
  CHECK(has(said(cx, "E0901"), "ROCm 5.0 or newer"));
  wv_ctx_free(cx);
}

static void check_device(Harness *harness, const char *path, int version, const char *chip,
                         const char *target, const char *name) {
  FakeHip *fake = fake_hip_open(path);
  fake->chip = chip;
  wv_ctx *cx = wv_ctx_new();
  wv_device_info info;
  CHECK(wv_device_get(cx, (wv_device){WV_HIP, 1}, &info));
  CHECK_STR(info.name, name);
  CHECK_STR(info.target ? info.target : "", target);
  CHECK_INT(info.units, 4);
  CHECK(info.memory == INT64_C(3) << 30);
  CHECK_INT(info.driver, version);
  wv_ctx_free(cx);
  CHECK_INT(fake->sets, 0); /* querying does not change what is current */
}

TEST(devices_of_two_ages) {
  check_device(harness, FAKE_HIP, 60241133, "gfx942:sramecc+:xnack-", "gfx942", "Fake Instinct");
  check_device(harness, FAKE_HIP_OLD, 50221153, "gfx90a:sramecc+:xnack+", "gfx90a",
               "Fake Instinct");
  check_device(harness, FAKE_HIP, 60241133, "gfx1201", "gfx1201", "Fake Instinct");
  check_device(harness, FAKE_HIP_OLD, 50221153, "gfx1030", "", "Fake Instinct (gfx1030)");
  check_device(harness, FAKE_HIP, 60241133, "sm_90a", "", "Fake Instinct (sm_90a)"); /* nonsense */
  check_device(harness, FAKE_HIP, 60241133, "", "", "Fake Instinct ()");
}

TEST(kinds_of_devices) {
  CHECK_INT(wv_device_kind(0), WV_CUDA);
  CHECK_INT(wv_device_kind(1), WV_HIP);
  CHECK_INT(wv_device_kind(2), WV_HOST);
  CHECK_INT(wv_device_kind(3), 0);
  CHECK_INT(wv_device_kind(-1), 0);
  CHECK_STR(wv_device_kind_name(WV_HIP), "hip");
  CHECK(!wv_device_kind_name(3));
}

static void check_no_device(Harness *harness, const char *path) {
  FakeHip *fake = fake_hip_open(path);
  fake->devices = 0;
  wv_ctx *cx = wv_ctx_new();
  wv_device_info info;
  CHECK_INT(wv_device_count(cx, WV_HIP), 0);
  CHECK(!wv_device_get(cx, (wv_device){WV_HIP, 0}, &info));
  CHECK(has(said(cx, "E0902"), "there is no HIP device 0: 0 available"));
  CHECK(has(said(cx, "E0902"), "/dev/kfd") && has(said(cx, "E0902"), "sim:gfx942"));
  CHECK_INT(fake->pending, 0); /* PyTorch does not find an error that is not its own */
  wv_ctx_free(cx);
}

TEST(no_device) {
  check_no_device(harness, FAKE_HIP);
  check_no_device(harness, FAKE_HIP_OLD);
}

TEST(library_fails) {
  FakeHip *fake = fake_hip_open(FAKE_HIP);
  wv_ctx *cx = wv_ctx_new();
  wv_device_info info;
  fake->fail = "hipInit", fake->fail_error = 999;
  CHECK(!wv_device_get(cx, (wv_device){WV_HIP, 0}, &info));
  CHECK(has(said(cx, "E0902"), "cannot initialise the HIP runtime") &&
        has(said(cx, "E0902"), "999"));
  wv_diag_clear(cx);
  fake->fail = "hipGetDevicePropertiesR0600";
  CHECK(!wv_device_get(cx, (wv_device){WV_HIP, 0}, &info));
  CHECK(has(said(cx, "E0902"), "cannot query a device"));
  CHECK_INT(fake->pending, 0);
  wv_ctx_free(cx);
}

TEST(device_memory) {
  FakeHip *fake = fake_hip_open(FAKE_HIP);
  wv_ctx *cx = wv_ctx_new();
  wv_device d = {WV_HIP, 1};
  int from[4] = {1, 2, 3, 4}, to[4] = {0};
  void *memory = wv_device_alloc(cx, d, sizeof from);
  CHECK(memory && wv_device_copy(cx, d, memory, from, sizeof from));
  CHECK(wv_device_copy(cx, d, to, memory, sizeof to) && memcmp(from, to, sizeof to) == 0);
  CHECK(wv_device_wait(cx, d, NULL));
  wv_device_release(cx, d, memory);
  CHECK_INT(fake->current(-1), 0); /* the thread's device is as it was */
  fake->fail = "hipMalloc", fake->fail_error = 2;
  CHECK(!wv_device_alloc(cx, d, 1) && has(said(cx, "E0902"), "out of memory (hipError2)"));
  fake->fail = "hipStreamSynchronize", fake->fail_error = 700;
  wv_diag_clear(cx);
  CHECK(!wv_device_wait(cx, d, NULL));
  CHECK(has(said(cx, "E0902"), "an illegal memory access") && has(said(cx, "E0902"), "sim:gfx942"));
  CHECK_INT(fake->pending, 0);
  CHECK_INT(fake->current(-1), 0);
  wv_ctx_free(cx);
  check_tidy(harness, fake);
}

/* ---- loading ---- */

/* Chips of one generation do not run each other's code. */
TEST(code_for_another_chip) {
  static const struct {
    const char *compiled, *device, *note, *hint;
  } rows[] = {
      {"gfx90a", "gfx942:sramecc+:xnack-", "for `gfx90a`, and the device is `gfx942:sramecc",
       "compile it for target `gfx942`"},
      {"gfx1100", "gfx1101", "for `gfx1100`, and the device is `gfx1101`",
       "compile it for target `gfx1101`"},
      {"gfx1201", "gfx1200", "for `gfx1201`, and the device is `gfx1200`",
       "compile it for target `gfx1200`"},
      {"gfx942", "gfx1036", "for `gfx942`, and the device is `gfx1036`",
       "no code is generated for `gfx1036`"},
  };
  for (size_t i = 0; i < WV_LEN(rows); i++) {
    FakeHip *fake = fake_hip_open(FAKE_HIP);
    Arena *a = arena_new();
    wv_ctx *cx = wv_ctx_new();
    fake->chip = rows[i].device;
    StrBuf bytes = hip_bytes(a, cx, scale_text, rows[i].compiled, NULL);
    CHECK(!wv_program_load(cx, bytes.at, bytes.n, 0));
    CHECK(has(said(cx, "E0903"), "the driver rejects `scale`: no kernel image is available"));
    CHECK(has(said(cx, "E0903"), rows[i].note) && has(said(cx, "E0903"), rows[i].hint));
    CHECK_INT(fake->pending, 0);
    wv_ctx_free(cx);
    arena_free(a);
    check_tidy(harness, fake);
  }
}

static Elf64_Ehdr *head_of(Artefact *art) { return (Elf64_Ehdr *)art->variant[0].code; }

static void rename_entry(Artefact *art) { art->variant[0].entry = "other"; }
static void cut_code(Artefact *art) { art->variant[0].code_bytes = 40; }
static void cut_sections(Artefact *art) { art->variant[0].code_bytes -= 1; }
static void spoil_magic(Artefact *art) { memcpy(head_of(art)->e_ident + 1, "FLE", 3); }
static void spoil_machine(Artefact *art) { head_of(art)->e_machine = 62; }
static void spoil_type(Artefact *art) { head_of(art)->e_type = ET_REL; }
static void spoil_count(Artefact *art) { head_of(art)->e_shnum = 60000; }
static void spoil_place(Artefact *art) { head_of(art)->e_shoff = ~0ull; }
static void spoil_section(Artefact *art) {
  Elf64_Ehdr *e = head_of(art);
  Elf64_Shdr *s = (Elf64_Shdr *)(void *)((char *)e + e->e_shoff);
  s[1].sh_size = ~0ull - 8;
}
static void spoil_note(Artefact *art) { ((char *)head_of(art))[sizeof(Elf64_Ehdr) + 20] = 0x11; }
static void add_arg(Artefact *art) { art->variant[0].nargs--; }
static void move_arg(Artefact *art) { art->variant[0].args[2].bytes = 8; }
static void add_threads(Artefact *art) { art->variant[0].block[1] = 5; }

TEST(code_objects_that_are_damaged) {
  const struct {
    void (*edit)(Artefact *art);
    const char *why;
  } rows[] = {{cut_code, "offset 0x0: the header of 64 bytes, but the file ends at 0x28"},
              {cut_sections, "the section headers of 128 bytes, but the file ends"},
              {spoil_magic, "offset 0x0: not a 64-bit ELF file"},
              {spoil_machine, "for machine 62, not an AMD GPU"},
              {spoil_type, "expected a code object"},
              {spoil_count, "the section headers of"},
              {spoil_place, "the section headers of"},
              {spoil_section, "a section of"},
              {spoil_note, "the metadata note is damaged"},
              {rename_entry, "it contains no kernel `other`"},
              {add_arg, "arguments, expected"},
              {move_arg, "argument 2 has 4 bytes at offset 16, expected 8 at 16"},
              {add_threads, "its workgroups have at most 1024 threads, not 1280"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    HipBench b = hip_open(FAKE_HIP, scale_text, rows[i].edit);
    CHECK(!b.p && has(said(b.cx, "E0903"), rows[i].why));
    CHECK_INT(b.fake->loads, 0);
    hip_close(&b);
    check_tidy(harness, b.fake);
  }
}

/* Every byte of a code object may be wrong: nothing is read beyond its end, or stays loaded. */
TEST(code_objects_with_any_damage) {
  FakeHip *fake = fake_hip_open(FAKE_HIP);
  Arena *a = arena_new();
  wv_ctx *cx = wv_ctx_new();
  StrBuf bytes = hip_bytes(a, cx, scale_text, "gfx942", NULL);
  const char *damage;
  Artefact *art = artefact_read_whole(a, bytes.at, bytes.n, &damage);
  ArtVariant *v = &art->variant[0];
  Device *d = device_open(&device_hip, &(DeviceReport){.diags = &(Diags){.arena = a}});
  int loaded = 0;
  for (int i = 0; d && i < v->code_bytes; i++) {
    char *copy = malloc((size_t)v->code_bytes), was = v->code[i];
    memcpy(copy, v->code, (size_t)v->code_bytes);
    copy[i] = (char)(i % 3 ? was ^ 0x80 : i % 2 ? 0 : was + 1);
    ArtVariant spoilt = *v;
    spoilt.code = copy;
    if (i % 5 == 0) spoilt.code_bytes = i;
    Diags diags = {.arena = arena_new()};
    DeviceCode code;
    if (d->kind->load(d, 0, &spoilt, &code, &(DeviceReport){&diags, {0}, "scale"}))
      loaded++, d->kind->unload(d, &code);
    else CHECK(diags.errors > 0);
    arena_free(diags.arena);
    free(copy);
  }
  CHECK(d && loaded < v->code_bytes / 2); /* names and flags may be anything */
  device_close(d);
  wv_ctx_free(cx);
  arena_free(a);
  check_tidy(harness, fake);
}

/* A program without a library, or without a device: loading it is enough to say so. */
TEST(programs_that_cannot_run_here) {
  Arena *a = arena_new();
  wv_ctx *cx = wv_ctx_new();
  FakeHip *fake = fake_hip_open(FAKE_HIP);
  StrBuf bytes = hip_bytes(a, cx, scale_text, "gfx942", NULL);
  ScaleArgs s;
  fake->devices = 0;
  CHECK(!wv_program_load(cx, bytes.at, bytes.n, 0));
  CHECK(has(said(cx, "E0902"), "there is no HIP device 0: 0 available"));
  wv_diag_clear(cx);
  setenv("WAVE_HIP_LIB", "/nowhere/libamdhip64.so", 1);
  wv_program *p = wv_program_load(cx, bytes.at, bytes.n, -1); /* a launch says what is missing */
  CHECK(p && !wv_launch(p, cx, scale_args(&s, 4, 64)->arg, 3, NULL, 0));
  CHECK(has(said(cx, "E0901"), "no HIP runtime found") && has(said(cx, "E0901"), "sim:gfx942"));
  wv_program_free(p);
  wv_ctx_free(cx);
  arena_free(a);
}

TEST(resources_and_spills) {
  HipBench b = hip_open(FAKE_HIP, scale_text, NULL);
  wv_resources r;
  b.fake->spilled = 24;
  CHECK(b.p && wv_program_resources(b.p, b.cx, 0, 1, &r)); /* loads it there */
  CHECK_INT(r.registers, 96);
  CHECK_INT(r.spilled, 24);
  CHECK(r.occupancy == 0.5);
  CHECK(has(said(b.cx, "R0901"), "24 bytes per thread are spilled"));
  hip_close(&b);
  check_tidy(harness, b.fake);
}

/* ---- launches ---- */

static void check_scale(Harness *harness, const FakeHip *fake, int64_t m, int64_t n, float by) {
  float number;
  bool seen_m = false, seen_n = false;
  CHECK_INT(hip_arg(fake, 0), A);
  CHECK_INT(hip_arg(fake, 1), B);
  memcpy(&number, fake->last.arg[2], 4);
  CHECK(number == by);
  for (int i = 3; i < fake->last.nargs; i++) {
    seen_m |= hip_arg(fake, i) == m;
    seen_n |= hip_arg(fake, i) == n;
  }
  CHECK(seen_m && seen_n);
}

TEST(launch_passes_a_block) {
  static const char *const paths[] = {FAKE_HIP, FAKE_HIP_OLD};
  for (int i = 0; i < 2; i++) {
    HipBench b = hip_open(paths[i], scale_text, NULL);
    ScaleArgs s;
    CHECK(b.p != NULL);
    CHECK_INT(wv_program_kind(b.p), WV_HIP);
    CHECK_STR(wv_program_target(b.p), "gfx942");
    CHECK_INT(b.fake->loads, 1); /* nothing is left for the first launch */
    CHECK(launch(&b, scale_args(&s, 12, 128)));
    CHECK(b.fake->last.block_bytes > 0 && !b.fake->last.together);
    CHECK_INT(b.fake->last.grid[0], 3);
    CHECK_INT(b.fake->last.grid[1], 2);
    CHECK_INT(b.fake->last.shared, 0);
    CHECK(b.fake->last.stream == (void *)70);
    check_scale(harness, b.fake, 12, 128, 2.5f);
    s.arg[2].number = -1;
    CHECK(launch(&b, &s)); /* the fast path */
    check_scale(harness, b.fake, 12, 128, -1);
    CHECK(launch(&b, scale_args(&s, 40, 128)));
    check_scale(harness, b.fake, 40, 128, 2.5f);
    CHECK_INT(b.fake->launches, 3);
    CHECK_INT(b.fake->sets, 0);
    hip_close(&b);
    check_tidy(harness, b.fake);
  }
}

/* An integer of 4 bytes before one of 8: the block has a gap. */
TEST(blocks_have_gaps) {
  static const char text[] = "thread kernel @gap(%n: i32, %a: mem<N, i32>, %m: i32)\n"
                             "  dynamic N\n"
                             "  launch grid (1) block (32) wave 32\n"
                             "{\n"
                             "  %zero = scalar 0 : index\n"
                             "  store %n, %a, %zero\n"
                             "  store %m, %a, %zero\n"
                             "}\n";
  HipBench b = hip_open(FAKE_HIP, text, NULL);
  Tensor t;
  wv_launch_arg args[] = {
      {.integer = -5}, {.tensor = &hip_tensor(&t, A, "i32", 1, (int64_t[]){4})->t}, {.integer = 7}};
  CHECK(b.p && wv_launch(b.p, b.cx, args, 3, NULL, 0));
  bool found = false;
  for (int i = 0; i < b.fake->last.nargs; i++) found |= hip_arg(b.fake, i) == A;
  CHECK(found && b.fake->last.block_bytes % 4 == 0 && b.fake->last.nargs >= 3);
  hip_close(&b);
  check_tidy(harness, b.fake);
}

TEST(launch_on_another_device) {
  HipBench b = hip_open(FAKE_HIP, scale_text, NULL);
  ScaleArgs s;
  scale_args(&s, 4, 64);
  s.a.t.device.index = s.b.t.device.index = 1;
  CHECK(launch_on(&b, &s, NULL)); /* loads there, and sets the device back */
  CHECK_INT(b.fake->last.device, 1);
  CHECK_INT(b.fake->current(-1), 0);
  CHECK_INT(b.fake->loads, 2);
  int sets = b.fake->sets;
  CHECK(launch_on(&b, &s, (void *)71)); /* a stream of that device */
  CHECK_INT(b.fake->sets, sets);
  b.fake->current(1);
  CHECK(launch_on(&b, &s, NULL) && launch_on(&b, &s, (void *)2));
  CHECK_INT(b.fake->sets, sets);
  CHECK_INT(b.fake->current(-1), 1);
  CHECK(!launch_on(&b, &s, (void *)70)); /* a stream of another device */
  CHECK(has(said(b.cx, "E0902"), "the launch failed") && has(said(b.cx, "E0902"), "hipError101"));
  CHECK_INT(b.fake->pending, 0);
  b.fake->current(0);
  s.a.t.device.index = s.b.t.device.index = 5;
  CHECK(!launch(&b, &s) && has(said(b.cx, "E0902"), "there is no HIP device 5: 2 available"));
  hip_close(&b);
  check_tidy(harness, b.fake);
}

TEST(tensors_of_another_kind) {
  HipBench b = hip_open(FAKE_HIP, scale_text, NULL);
  ScaleArgs s;
  scale_args(&s, 4, 64)->b.t.device.kind = WV_CUDA;
  CHECK(!launch(&b, &s));
  CHECK(has(said(b.cx, "E0702"), "argument `b` is on `cuda`, expected `hip`"));
  scale_args(&s, 4, 64)->a.t.device.kind = WV_HOST;
  CHECK(!launch(&b, &s));
  CHECK(has(said(b.cx, "E0702"), "argument `a` is on `cpu`, expected `hip`"));
  CHECK_INT(b.fake->launches, 0);
  hip_close(&b);
}

/* HIP counts threads along a dimension, in 32 bits. */
TEST(grid_is_too_large) {
  HipBench b = hip_open(FAKE_HIP, scale_text, NULL);
  ScaleArgs s;
  int64_t threads = 256; /* of a workgroup: four waves of 64 */
  CHECK(launch(&b, scale_args(&s, 4, 64 * 65536)));
  CHECK(!launch(&b, scale_args(&s, 4, INT64_C(64) * 65537)));
  CHECK(has(said(b.cx, "E0905"), "a grid of (1, 65537, 1)"));
  CHECK(launch(&b, scale_args(&s, (UINT32_MAX / threads) * 4, 1)));
  CHECK(!launch(&b, scale_args(&s, (UINT32_MAX / threads + 1) * 4, 1)));
  CHECK(has(said(b.cx, "E0905"), "at most 4294967295 threads along a dimension"));
  CHECK(launch(&b, scale_args(&s, 0, 64))); /* nothing to do */
  CHECK_INT(b.fake->launches, 2);
  hip_close(&b);
  check_tidy(harness, b.fake);
}

TEST(launch_fails) {
  HipBench b = hip_open(FAKE_HIP, scale_text, NULL);
  ScaleArgs s;
  b.fake->fail = "hipModuleLaunchKernel", b.fake->fail_error = 2;
  CHECK(!launch(&b, scale_args(&s, 4, 64)));
  CHECK(has(said(b.cx, "E0902"), "`scale`: the launch failed: out of memory (hipError2)"));
  CHECK(has(said(b.cx, "E0902"), "grid (1, 1, 1)"));
  CHECK_INT(b.fake->pending, 0);
  b.fake->fail = NULL;
  CHECK(launch(&b, &s) && launch(&b, &s));
  b.fake->fail = "hipSetDevice", b.fake->fail_error = 101;
  s.a.t.device.index = s.b.t.device.index = 1;
  CHECK(!launch_on(&b, &s, NULL) && has(said(b.cx, "E0902"), "cannot use the device"));
  hip_close(&b);
  check_tidy(harness, b.fake);
}

/* ---- programs that were compiled here ---- */

/* A program by LLVM, loaded on device 0; without an LLVM for AMD GPUs the test is skipped. */
static HipBench compiled(const char *path, const char *text, const wv_compile_options *o) {
  HipBench b = {.fake = fake_hip_open(path), .cx = wv_ctx_new()};
  wv_kernel *k = kit_parse(b.cx, text);
  if (k) b.p = wv_compile(k, o);
  wv_kernel_free(k);
  if (!b.p && *said(b.cx, "E0901")) printf("skipped: %s\n", said(b.cx, "E0901"));
  return b;
}

static bool is_skipped(const HipBench *b) { return !b->p && *said(b->cx, "E0901"); }

TEST(compiled_for_the_device) {
  static const char *const paths[] = {FAKE_HIP, FAKE_HIP_OLD};
  for (int i = 0; i < 4; i++) {
    HipBench b = compiled(paths[i % 2], scale_text,
                          &(wv_compile_options){.target = i < 2 ? "hip" : "gfx942"});
    ScaleArgs s;
    if (!is_skipped(&b)) {
      CHECK(b.p != NULL);
      CHECK_STR(wv_program_target(b.p), "gfx942");
      CHECK_INT(b.fake->loads, 1);
      CHECK(launch(&b, scale_args(&s, 12, 128)) && launch(&b, &s));
      CHECK_INT(b.fake->last.grid[0], 3);
      CHECK_INT(b.fake->last.block[0], 256);
      CHECK_INT(hip_arg(b.fake, 0), A);
      s.a.t.data = (void *)(A + 4);
      CHECK(launch(&b, &s)); /* compiles another variant */
      CHECK_INT(hip_arg(b.fake, 0), A + 4);
      CHECK_INT(b.fake->launches, 3);
      CHECK(has(wv_program_text(b.p, b.cx, 0, "llvm"), "amdgpu_kernel"));
    }
    hip_close(&b);
    check_tidy(harness, b.fake);
  }
}

/* Compiling takes no library; a launch says what is missing. */
TEST(compiled_without_a_device) {
  HipBench b = compiled("/nowhere/libamdhip64.so", scale_text,
                        &(wv_compile_options){.target = "gfx942", .device = -1});
  ScaleArgs s;
  if (!is_skipped(&b)) {
    CHECK(b.p && !launch(&b, scale_args(&s, 4, 64)));
    CHECK(has(said(b.cx, "E0901"), "no HIP runtime found"));
    CHECK(has(said(b.cx, "E0901"), "/nowhere/libamdhip64.so"));
    CHECK(has(said(b.cx, "E0901"), "sim:gfx942"));
  }
  hip_close(&b);
}

/* ---- captures, and workgroups that wait for each other ---- */

TEST(captures) {
  HipBench b = hip_open(FAKE_HIP, scale_text, NULL);
  ScaleArgs s;
  b.fake->captured = (void *)70;
  CHECK(launch(&b, scale_args(&s, 4, 64))); /* it is loaded already */
  s.a.t.data = (void *)(A + 4);             /* this needs another variant */
  CHECK(!launch(&b, &s));
  CHECK(has(said(b.cx, "E0904"), "the stream is being captured"));
  b.fake->captured = NULL;
  CHECK(launch(&b, &s));
  b.fake->captured = (void *)70;
  CHECK(launch(&b, &s));
  b.fake->captured = NULL;
  check_kept(harness, &b, 0);
}

static bool launch_flag(HipBench *b, int64_t n, void *stream) {
  Tensor flag;
  wv_launch_arg arg = {.tensor = &hip_tensor(&flag, A, "i32", 1, (int64_t[]){n})->t};
  wv_diag_clear(b->cx);
  return b->p && wv_launch(b->p, b->cx, &arg, 1, stream, 0);
}

TEST(workgroups_that_wait) {
  HipBench b = hip_open(FAKE_HIP, flag_text, NULL);
  CHECK(launch_flag(&b, 16, (void *)70));
  CHECK(b.fake->last.together && b.fake->last.block_bytes == 0);
  CHECK_INT(hip_arg(b.fake, 0), A);
  CHECK(!launch_flag(&b, 17, (void *)70));
  CHECK(has(said(b.cx, "E0905"), "do not all fit on the device at once"));
  CHECK_INT(b.fake->pending, 0);
  b.fake->captured = (void *)70;
  CHECK(!launch_flag(&b, 16, (void *)70));
  CHECK(has(said(b.cx, "E0905"), "HIP cannot capture such a launch"));
  CHECK(launch_flag(&b, 16, (void *)80)); /* another stream */
  b.fake->captured = NULL;
  hip_close(&b);
  check_tidy(harness, b.fake);
  b = hip_open(FAKE_HIP_OLD, flag_text, NULL);
  CHECK(!launch_flag(&b, 16, (void *)70));
  CHECK(has(said(b.cx, "E0905"), "`wait` needs a cooperative launch, which `"));
  hip_close(&b);
  check_tidy(harness, b.fake);
}

/* HIP cannot overlap launches: the permission is not used. */
TEST(overlapping_launches) {
  HipBench b = hip_open(FAKE_HIP, scale_text, NULL);
  ScaleArgs s;
  scale_args(&s, 4, 64);
  CHECK(b.p && wv_launch(b.p, b.cx, s.arg, 3, (void *)70, WV_LAUNCH_OVERLAP));
  CHECK(b.fake->last.block_bytes > 0);
  hip_close(&b);
  check_tidy(harness, b.fake);
}

/* ---- memory besides the arguments ---- */

TEST(workspace) {
  static const char text[] = "thread kernel @count(%a: mem<N, i32>, %w: mem<N, i32> workspace)\n"
                             "  launch grid (N) block (32) wave 32\n"
                             "  dynamic N\n"
                             "{\n"
                             "  %zero = scalar 0 : i32\n"
                             "  %one = scalar 1 : i32\n"
                             "  %n = atomic add %one, %w, %zero : i32\n"
                             "  store %n, %a, %zero\n"
                             "}\n";
  HipBench b = hip_open(FAKE_HIP, text, NULL);
  CHECK(launch_flag(&b, 100, NULL));
  int64_t block = hip_arg(b.fake, 1);
  const int *words = (const int *)(intptr_t)block;
  CHECK_INT(block % 256, 0);
  for (int i = 0; i < 100; i++) CHECK_INT(words[i], 0);
  CHECK(launch_flag(&b, 50, NULL) && hip_arg(b.fake, 1) == block);
  CHECK(launch_flag(&b, 50, (void *)70) && hip_arg(b.fake, 1) != block);
  CHECK_INT(b.fake->allocated, 2);
  b.fake->captured = (void *)80;
  CHECK(launch_flag(&b, 50, (void *)80));
  CHECK_INT(b.fake->allocated, 3);
  b.fake->captured = NULL;
  check_kept(harness, &b, 3);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 200 };

typedef struct Worker {
  HipBench *b;
  int device, failed;
} Worker;

static void *work(void *worker) {
  Worker *w = worker;
  wv_ctx *cx = wv_ctx_new();
  ScaleArgs s;
  scale_args(&s, 4, 64);
  s.a.t.device.index = s.b.t.device.index = w->device;
  w->b->fake->current(1 - w->device); /* the launch changes it, and sets it back */
  for (int i = 0; i < ROUNDS; i++) {
    w->failed += !wv_launch(w->b->p, cx, s.arg, 3, NULL, 0);
    w->failed += w->b->fake->current(-1) != 1 - w->device;
  }
  wv_ctx_free(cx);
  return NULL;
}

TEST(threads_with_devices_of_their_own) {
  HipBench b = hip_open(FAKE_HIP, scale_text, NULL);
  Worker workers[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (Worker){.b = &b, .device = i % 2};
    pthread_create(&threads[i], NULL, work, &workers[i]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) CHECK_INT(workers[i].failed, 0);
  CHECK_INT(b.fake->launches, THREADS * ROUNDS);
  hip_close(&b);
  check_tidy(harness, b.fake);
}

TESTS_MAIN(RUN(library_is_absent) RUN(every_name_is_tried) RUN(library_is_in_use_already)
               RUN(library_is_another) RUN(devices_of_two_ages) RUN(kinds_of_devices) RUN(no_device)
                   RUN(library_fails) RUN(device_memory) RUN(code_for_another_chip)
                       RUN(code_objects_that_are_damaged) RUN(code_objects_with_any_damage)
                           RUN(programs_that_cannot_run_here) RUN(resources_and_spills)
                               RUN(launch_passes_a_block) RUN(blocks_have_gaps)
                                   RUN(launch_on_another_device) RUN(tensors_of_another_kind)
                                       RUN(grid_is_too_large) RUN(launch_fails)
                                           RUN(compiled_for_the_device)
                                               RUN(compiled_without_a_device) RUN(captures)
                                                   RUN(workgroups_that_wait)
                                                       RUN(overlapping_launches) RUN(workspace)
                                                           RUN(threads_with_devices_of_their_own))
