/* test_loop_order.c: what a loop's program orders, compared with its iterations unrolled. */
#include "schedule/loop_order.h"
#include "unit/harness.h"

#define N(list) (int)(sizeof(list) / sizeof(list)[0])

enum { EVENTS = 4, EDGES = 6 };

static uint64_t state;
static int below(int n) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((state >> 33) % (uint64_t)n);
}

/* One wave copies into a ring of two slots and waits before it reads: read, then copy ahead. */
enum { WAIT, READ, ISSUE, DONE, ORDER_EVENTS };

TEST(a_wait_orders_a_read_after_its_copy) {
  Arena *a = arena_new();
  int cycle[ORDER_EVENTS + 1];
  Order enforced[] = {{WAIT, READ, 0},
                      {READ, ISSUE, 0},
                      {ISSUE, DONE, 0},
                      {ISSUE, WAIT, 1},
                      {DONE, WAIT, 1}}; /* waits for the copy one iteration ago */
  OrderTable *t = order_table(a, ORDER_EVENTS, enforced, N(enforced));
  CHECK_INT(order_deadlock(t, cycle), 0);
  CHECK(order_holds(t, (Order){DONE, READ, 1}));
  CHECK(!order_holds(t, (Order){DONE, READ, 0}));
  CHECK(order_holds(t, (Order){READ, ISSUE, 1})); /* before the slot is filled again */
  CHECK_INT(order_least(t, DONE, READ), 1);
  arena_free(a);
}

TEST(without_the_wait_nothing_orders_the_copy) {
  Arena *a = arena_new();
  Order enforced[] = {{WAIT, READ, 0}, {READ, ISSUE, 0}, {ISSUE, DONE, 0}, {ISSUE, WAIT, 1}};
  OrderTable *t = order_table(a, ORDER_EVENTS, enforced, N(enforced));
  CHECK(!order_holds(t, (Order){DONE, READ, 1}));
  arena_free(a);
}

/* A producer waits for the consumer to release the only slot, in the iteration before it fills
 * it. */
TEST(a_cycle_without_a_token_is_a_deadlock) {
  Arena *a = arena_new();
  int cycle[4];
  Order enforced[] = {{0, 1, 0}, {1, 2, 0}, {2, 0, 0}};
  CHECK_INT(order_deadlock(order_table(a, 3, enforced, 3), cycle), 3);
  CHECK(cycle[1] == (cycle[0] + 1) % 3 && cycle[2] == (cycle[0] + 2) % 3); /* in order */
  enforced[2].distance = 1;
  CHECK_INT(order_deadlock(order_table(a, 3, enforced, 3), cycle), 0);
  enforced[0].distance = -1; /* a lag that eats the token */
  CHECK_INT(order_deadlock(order_table(a, 3, enforced, 3), cycle), 3);
  CHECK_INT(order_deadlock(order_table(a, 1, &(Order){0, 0, 0}, 1), cycle), 1);
  arena_free(a);
}

/* The iterations unrolled: `to` of iteration i + distance is reached from `from` of iteration i. */
static bool reaches(const Order *enforced, int n, int events, Order want) {
  enum { SPAN = 24, FIRST = 8 };
  bool seen[SPAN * EVENTS] = {false};
  seen[FIRST * events + want.from] = true;
  for (int round = 0; round < SPAN * EVENTS; round++)
    for (int e = 0; e < n; e++)
      for (int i = 0; i < SPAN; i++) {
        int to = i + enforced[e].distance;
        if (to >= 0 && to < SPAN && seen[i * events + enforced[e].from])
          seen[to * events + enforced[e].to] = true;
      }
  for (int i = 0; i <= FIRST + want.distance; i++) /* it follows itself */
    if (seen[i * events + want.to] && (i != FIRST || want.to != want.from)) return true;
  return false;
}

TEST(orders_hold_as_in_unrolled_loops) {
  int cycle[EVENTS + 1], held = 0, broken = 0;
  state = 3;
  for (int i = 0; i < 3000; i++) {
    Arena *a = arena_new();
    Order enforced[EDGES];
    int events = 2 + below(EVENTS - 1), n = below(EDGES + 1);
    for (int j = 0; j < n; j++) enforced[j] = (Order){below(events), below(events), below(4) - 1};
    OrderTable *t = order_table(a, events, enforced, n);
    Order want = {below(events), below(events), below(4)};
    if (!order_deadlock(t, cycle) && want.from != want.to) {
      bool holds = order_holds(t, want);
      CHECK(holds == reaches(enforced, n, events, want));
      holds ? held++ : broken++;
    }
    arena_free(a);
  }
  CHECK(held > 100 && broken > 100);
}

TESTS_MAIN(RUN(a_wait_orders_a_read_after_its_copy) RUN(without_the_wait_nothing_orders_the_copy)
               RUN(a_cycle_without_a_token_is_a_deadlock) RUN(orders_hold_as_in_unrolled_loops))
