/* loop_order.h: whether a loop's program orders what must be ordered, for any number of iterations.
 *
 * An order (from, to, distance) says: in iteration i + distance, `to` happens after `from` of
 * iteration i. The program *enforces* some: each event follows those before it on the same wave and
 * itself in the previous iteration, a wait follows what it waits for, a barrier follows the arrival
 * of each wave. Accesses of the same memory or registers *require* some: the read of a tile follows
 * its copy (distance 0), and the copy that overwrites a slot of a ring of n follows its last read
 * (distance n).
 *
 * A required order holds in every iteration if a path of enforced ones leads from one event to the
 * other with at most the same distance. A cycle of enforced orders whose distances add up to 0 or
 * less is a deadlock: an event that waits for itself. */
#ifndef WV_SCHEDULE_LOOP_ORDER_H
#define WV_SCHEDULE_LOOP_ORDER_H

#include "base/arena.h"
#include "base/vec.h"

typedef struct Order {
  int from, to, distance;
} Order;

typedef Vec(Order) OrderList;

typedef struct OrderTable OrderTable;

/* The least distance between all events; events^3 steps. */
OrderTable *order_table(Arena *a, int events, const Order *enforced, int n);

/* The events of a cycle that waits for itself, in order, and their number; 0: there is none. `cycle`
 * has room for all events and one more. */
int order_deadlock(const OrderTable *t, int *cycle);

/* The rest is for tables without a deadlock. */
bool order_holds(const OrderTable *t, Order required);

/* The least distance at which `to` follows `from`; ORDER_NONE. */
#define ORDER_NONE INT32_MAX
int order_least(const OrderTable *t, int from, int to);

#endif
