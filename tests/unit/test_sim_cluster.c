/* test_sim_cluster.c: workgroups of a cluster access each other's shared memory: loads, stores,
 * atomics, arrivals, tensor copies to several; and every misuse is detected under every schedule,
 * including access to a peer that may have ended. */
#include "unit/sim_kit.h"

static void fill(Lab *l) {
  lab_tensor(l, DTYPE_f32, 2, 16, 32);
  lab_fill(l, lab_tensor(l, DTYPE_i32, 1, 128), 0);
  lab_tensor(l, DTYPE_f32, 1, 128);
}

#define HEAD                                                                                       \
  "thread kernel @k(%a: mem<16, 32, f32>, %b: mem<128, i32>, %g: mem<128, f32>)\n"                 \
  "  launch grid (4) block (32) wave 32 shared 2064 cluster (2)\n{\n"

static bool finds(const char *text, const char *from, const char *to, const char *code,
                  const char *blamed, const char *noted) {
  Trial t = trial_edited(trial_text(text), fill, from, to);
  return trial_finds(&t, code, blamed, noted);
}

static bool passes(const char *text, bool (*check)(const Lab *l)) {
  Trial t = trial_text(text);
  t.fill = fill;
  return trial_passes(&t, check);
}

/* ---- loads, stores, atomics ---- */

static const char swap[] = HEAD
    "  %s = alloc : mem<32, i32, shared>\n  %i = expr $T0 : i32\n  %x = expr 32*$WG0 + $T0 : i32\n"
    "  store %x, %s, %i\n  barrier cluster\n"
    "  %y = load %s, %i {peer = 1 - Mod($WG0, 2)} : i32\n  store %y, %b, %x\n  barrier "
    "cluster\n}\n";

static bool is_swapped(const Lab *l) {
  for (int i = 0; i < 128; i++)
    if (get(l, 1, i) != (i ^ 32)) return false;
  return true;
}

TEST(remote_loads) {
  CHECK(passes(swap, is_swapped));
  CHECK(finds(swap, "  barrier cluster\n", "", "E0803 E0804", "%y", NULL));
  CHECK(finds(swap, "  barrier cluster\n", "  barrier workgroup\n", "E0803 E0804", "%y", NULL));
  CHECK(finds(swap, "  store %y, %b, %x\n  barrier cluster\n", "  store %y, %b, %x\n", "E0816",
              "load %s", "store %y"));
  CHECK(
      finds(swap, "peer = 1 - Mod($WG0, 2)", "peer = 2 - Mod($WG0, 2)", "E0801", "load %s", NULL));
  CHECK(finds(swap, "peer = 1 - Mod($WG0, 2)", "peer = -1", "E0801", "load %s", NULL));
  CHECK(finds(swap, "  store %x, %s, %i\n", "", "E0804", "store %y", NULL));
  /* the peer overwrites what is being read */
  CHECK(finds(swap, "  store %y, %b, %x\n", "  store %y, %b, %x\n  store %x, %s, %i\n", "E0803",
              "store %x, %s, %i", "load %s"));
}

TEST(remote_machines) {
  Trial t = trial_text(swap);
  t.fill = fill;
  t.options.machine = target_find("sm_80").machine;
  CHECK(trial_finds(&t, "E0813", "peer", NULL));
}

static const char push[] = HEAD
    "  %s = alloc : mem<33, i32, shared>\n  %i = expr $T0 : i32\n  %x = expr 32*$WG0 + $T0 : i32\n"
    "  %last = expr 32 : i32\n  %zero = expr 0 : i32\n  %one = expr 1 : i32\n"
    "  if ($T0 < 1) {\n    store %zero, %s, %last\n  }\n  barrier cluster\n"
    "  store %x, %s, %i {peer = 1 - Mod($WG0, 2)}\n"
    "  %o = atomic add %one, %s, %last {peer = 0}\n  barrier cluster\n"
    "  %y = load %s, %i : i32\n  %c = load %s, %last : i32\n  %z = add %y, %c\n"
    "  store %z, %b, %x\n}\n";

static bool is_pushed(const Lab *l) {
  for (int i = 0; i < 128; i++)
    if (get(l, 1, i) != (i ^ 32) + (i / 32 % 2 ? 0 : 64)) return false;
  return true;
}

TEST(remote_stores) {
  CHECK(passes(push, is_pushed));
  CHECK(finds(push, "  barrier cluster\n  %y", "  %y", "E0803 E0804", "%y", NULL));
  CHECK(finds(push, "{peer = 1 - Mod($WG0, 2)}", "{peer = 0}", "E0803", "store %x", "store %x"));
  CHECK(finds(push, "  barrier cluster\n  store", "  barrier workgroup\n  store", "E0803 E0804",
              "atomic", NULL));
}

/* ---- mbarriers ---- */

/* The odd workgroup writes into the even one and arrives there; the even one waits. */
static const char arrive[] =
    HEAD "  %s = alloc {base = 0} : mem<32, i32, shared>\n  %m = alloc {base = 2048} : mem<1, i64, "
         "shared>\n"
         "  %z = expr 0 : i32\n  %i = expr $T0 : i32\n  %x = expr 32*$WG0 + $T0 : i32\n"
         "  if ($T0 < 1) {\n    mbar_init %m, %z {count = 32}\n  }\n  barrier cluster\n"
         "  if (Mod($WG0, 2) > 0) {\n    store %x, %s, %i {peer = 0}\n"
         "    mbar_arrive %m, %z {peer = 0}\n  }\n"
         "  if (Mod($WG0, 2) < 1) {\n    mbar_wait %m, %z, %z\n    %y = load %s, %i : i32\n"
         "    store %y, %b, %x\n  }\n}\n";

static bool is_received(const Lab *l) {
  for (int i = 0; i < 128; i++)
    if (get(l, 1, i) != (i / 32 % 2 ? 0 : i + 32)) return false;
  return true;
}

TEST(remote_arrivals) {
  CHECK(passes(arrive, is_received));
  CHECK(finds(arrive, "    mbar_wait %m, %z, %z\n", "", "E0803 E0804 E0816", "", NULL));
  CHECK(finds(arrive, "    mbar_arrive %m, %z {peer = 0}\n", "", "E0807", "mbar_wait", NULL));
  CHECK(finds(arrive, "mbar_arrive %m, %z {peer = 0}", "mbar_arrive %m, %z", "E0807", "mbar_wait",
              NULL));
  CHECK(finds(arrive, "    store %x, %s, %i {peer = 0}\n    mbar_arrive %m, %z {peer = 0}\n",
              "    mbar_arrive %m, %z {peer = 0}\n    store %x, %s, %i {peer = 0}\n",
              "E0803 E0804 E0816", "", NULL));
  /* before the peer has initialised its barrier */
  CHECK(
      finds(arrive, "  barrier cluster\n", "  barrier workgroup\n", "E0803 E0809", "mbar_", NULL));
  /* no wave waits: the peer may have ended when the arrival comes */
  CHECK(finds(arrive,
              "    mbar_wait %m, %z, %z\n    %y = load %s, %i : i32\n    store %y, %b, %x\n",
              "    store %x, %b, %x\n", "E0816", "{peer = 0}", NULL));
}

/* ---- tensor copies to several ---- */

static const char multicast[] =
    HEAD "  %s = alloc {base = 0} : mem<16, 32, f32, shared>\n  %m = alloc {base = 2048} : mem<1, "
         "i64, shared>\n"
         "  %z = expr 0 : i32\n  %i = expr 32*$WG0 + $T0 : i32\n"
         "  if ($T0 < 1) {\n    mbar_init %m, %z {count = 1}\n    mbar_arrive %m, %z {bytes = "
         "2048}\n  }\n"
         "  barrier cluster\n"
         "  if (64*Mod($WG0, 2) + $T0 < 1) {\n"
         "    tma_load %s, %z, %m, %z, %a, %z, %z {box = [16, 32], multicast = 3}\n  }\n"
         "  mbar_wait %m, %z, %z\n  %x = load %s, %i : f32\n  store %x, %g, %i\n}\n";

static bool is_cast(const Lab *l) {
  for (int i = 0; i < 128; i++)
    if (get(l, 2, i) != get(l, 0, i)) return false;
  return true;
}

TEST(multicasts) {
  CHECK(passes(multicast, is_cast));
  CHECK(finds(multicast, "  mbar_wait %m, %z, %z\n", "", "E0803 E0804", "%x", NULL));
  CHECK(finds(multicast, "multicast = 3", "multicast = 7", "E0801", "tma_load", NULL));
  CHECK(finds(multicast, "multicast = 3", "multicast = -1", "E0801", "tma_load", NULL));
  CHECK(finds(multicast, "multicast = 3", "multicast = 1", "E0807", "mbar_wait", NULL));
  CHECK(finds(multicast, "{bytes = 2048}", "{bytes = 1024}", "E0809 E0803 E0807", "", NULL));
  CHECK(finds(multicast, "  barrier cluster\n", "  barrier workgroup\n", "E0803 E0809", "", NULL));
  /* the other workgroup ends without having waited for the copy */
  CHECK(finds(multicast, "  mbar_wait %m, %z, %z\n  %x = load %s, %i : f32\n  store %x, %g, %i\n",
              "  if (Mod($WG0, 2) < 1) {\n    mbar_wait %m, %z, %z\n    %x = load %s, %i : f32\n"
              "    store %x, %g, %i\n  }\n",
              "E0816", "tma_load", NULL));
}

/* All workgroups are resident together if they communicate through memory; clusters stay
 * clusters. */
TEST(clusters_of_a_live_grid) {
  Trial t = trial_text(swap);
  t.fill = fill;
  trial_replace(&t, "  %s = alloc",
                "  %zero = expr 0 : i32\n  %none = expr $T0 < 0 : i1\n"
                "  %old = atomic add %zero, %b, %zero, %none\n  %s = alloc");
  CHECK(trial_passes(&t, is_swapped));
}

TESTS_MAIN(RUN(remote_loads) RUN(remote_machines) RUN(remote_stores) RUN(remote_arrivals)
               RUN(multicasts) RUN(clusters_of_a_live_grid))
