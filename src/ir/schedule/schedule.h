/* schedule.h: rows that pin how loops are pipelined, and the ops that they name.
 *
 *     schedule K on sm_90a depth 3
 *     ring K read_a slots 4
 *     at K 0.0 read_a.copy
 *     prio K 1 mma
 *     roles K load 4 x 40, math 8 x 232
 *     in K load read_a.copy
 *     turns K 2 mma
 *     order K read_a.fetch[K 0/2] read_b.copy read_a.fetch[K 1/2] mma
 *
 * A loop is called by its tags or, if it has none, by its axis. An op is called by its tags, by its
 * value, by the memory that it accesses, or by its kind: by the first of these that any op of the
 * loop has. A name stands for all ops that have it. A word of schedule.def after a dot selects a
 * class: `read_a.copy` and `read_a.fetch` are what became of `read_a`. In brackets, `K 0/2` selects the
 * first of two parts along K, and `1/3` the second of three ops that a name stands for, in the order of
 * the source. Names never depend on other positions, so that rows outlive changes of other ops.
 *
 * The passes `stages`, `turns` and `prio` obey the rows; schedule_check reports what no machine could
 * obey. */
#ifndef WV_IR_SCHEDULE_H
#define WV_IR_SCHEDULE_H

#include "base/vec.h"
#include "ir/ir.h"
#include "target/target.h"

enum {
  PRIO_MOST = 3,
  ROLE_REGISTERS_LEAST = 24, /* of a thread, in steps of ... */
  ROLE_REGISTERS_STEP = 8,
  ROLE_REGISTERS_MOST = 256,
  SERVICE_WAVES = 4, /* as many as exchange registers together */
  SERVICE_SLOTS = 3, /* of a ring: one is filled, one is read, and one by a product in flight */
  SERVICE_SLOTS_EARLY = 2, /* if a product begins an iteration early instead */
  SCHEDULE_STAGES = 64,    /* maximum of `depth`, `slots` and of the row `stages` */
  SCHEDULE_PARTS = 256,    /* maximum of an op along a dimension, and of ops with one name */
  NAME_PARTS = 4,          /* dimensions in a name */
  PLACE_MOST = 9999        /* stages and cycles of a row */
};

typedef enum OpClass {
  OP_CLASS_none, /* elementwise, or any */
#define OP_CLASS(name, doc) OP_CLASS_##name,
#include "ir/schedule/schedule.def"
  OP_CLASS_COUNT
} OpClass;

extern const char *const op_class_name[OP_CLASS_COUNT];

/* ---- rows ---- */

static inline bool schedule_is_row(const Constraint *c) {
  return c->kind == CONSTRAINT_schedule || c->kind == CONSTRAINT_ring ||
         c->kind == CONSTRAINT_place || c->kind == CONSTRAINT_prio || c->kind == CONSTRAINT_fence ||
         c->kind == CONSTRAINT_roles || c->kind == CONSTRAINT_member ||
         c->kind == CONSTRAINT_turns || c->kind == CONSTRAINT_order;
}
const char *schedule_target(const Constraint *row); /* after `on`; NULL: all machines */
bool schedule_is_for(const Constraint *row, const TargetInfo *t);
const OpNames *schedule_ops(const Constraint *row); /* that it names; NULL: it is about the loop */
/* The `roles` row of a loop that applies to a machine; NULL: there is none. */
const Constraint *schedule_roles(const Kernel *k, const Op *loop, const TargetInfo *t);
/* A `roles` row with waves that copy besides the `waves` that compute. */
Constraint schedule_service_row(Arena *a, const Kernel *k, const char *loop, int waves);
/* The stages that a kind of schedule.def means; 0: any number. */
int schedule_kind_depth(const char *kind);
int schedule_depth(const Constraint *row);  /* of a `schedule` row; 0: not pinned */
bool schedule_peels(const Constraint *row); /* its last iterations run in a loop of their own */
bool kernel_has_schedule(const Kernel *k);

/* ---- names ---- */

/* A tag, or else the axis. */
const char *schedule_loop_name(Arena *a, const Op *loop);
bool schedule_is_called(const Op *loop, const char *name);
/* The first loop that is called so, after loop `from` if that is not NULL; name NULL: any loop. */
Op *schedule_next_loop(const Kernel *k, const Op *from, const char *name);

OpClass schedule_class(const Op *op);
/* How many iterations ahead of its loop an op acts. */
int schedule_ahead(Kernel *k, const Op *loop, const Op *op);
/* The load or the store of a copy through registers, as `stages` makes them. */
bool schedule_is_half(const Op *op);
/* The memory in shared memory that an op fills, also by way of a write of its result; NULL: none. */
const Value *schedule_fills(const Op *op);

/* Part `at` of `of` along a dimension. */
typedef struct NamePart {
  const char *dim;
  int at, of;
} NamePart;

/* `read_a.fetch[1/3, K 0/2]`, split. */
typedef struct OpName {
  const char *plain;     /* `read_a` */
  const char *called;    /* `read_a.fetch` */
  const char *selection; /* `[1/3, K 0/2]`, or empty */
  OpClass class;
  NamePart parts[NAME_PARTS];
  int nparts;
  int at, of; /* which of the ops; of 0: all */
} OpName;

OpName schedule_split_name(Arena *a, const char *text);
/* The part that it selects along a dimension, of how many; 0 of 1: all of it. */
int schedule_named_part(const OpName *name, const char *dim, int *of);

/* The class of `x.copy`, and `x`. */
OpClass schedule_named_class(const char *name);
const char *schedule_plain_name(Arena *a, const char *name);

typedef Vec(Op *) OpList;
/* The ops of a loop that `name`, with or without a class, stands for. */
OpList schedule_find(Arena *a, const Kernel *k, const Op *loop, const char *name);
/* Whether any loop of a row has such an op. */
bool schedule_finds(Arena *a, const Kernel *k, const Constraint *row, const char *name);
/* A name for which schedule_find returns ops that `same` accepts, and no others; NULL: none does. */
typedef bool SameOpFn(const void *user, const Op *op);
const char *schedule_name_of(Arena *a, const Kernel *k, const Op *loop, const Op *op,
                             SameOpFn *same, const void *user);

/* A name that stands for this op alone, and that `accepts` takes, if it is not NULL; NULL: there is none. */
typedef bool NameFn(const void *user, const char *name);
const char *schedule_exact_name(Arena *a, const Kernel *k, const Op *loop, const Op *op,
                                NameFn *accepts, const void *user);

/* ---- checks ---- */

/* Of a kernel as its author wrote it: rows about loops, ops and machines that do not exist, and rows
 * that contradict each other. */
bool schedule_check(Kernel *k);
/* Warns about rows that were written for another version of their loop. */
void schedule_warn(Kernel *k);
/* Identifies what a loop computes, regardless of names: `x0123456789abcdef`. */
const char *schedule_hash(Arena *a, const Op *loop);

#endif
