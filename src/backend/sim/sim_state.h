/* sim_state.h: what the files of the simulator share.
 *
 *   sim.c          arguments, grid, schedules, deadlock
 *   sim_setup.c    preparing a kernel: registers, symbols, buffers
 *   sim_overlap.c  tensors that share memory
 *   sim_wave.c     one wave: regions, masks, the table of ops
 *   sim_value.c    arithmetic, expressions, register moves, shuffles
 *   sim_memory.c   loads, stores, atomics: bounds, alignment, banks, sectors
 *   sim_matrix.c   8x8 matrices between shared memory and registers
 *   sim_clock.c    happens-before: vector clocks, races, fences between proxies
 *   sim_barrier.c  barriers of waves, workgroups and clusters, named ones, mbarriers
 *   sim_flag.c     words with which threads signal each other
 *   sim_async.c    copies, tensor copies
 *   sim_cluster.c  shared memory of other workgroups of a cluster
 *   sim_mma.c      matrix instructions, sim_wgmma.c those of four waves
 *   sim_report.c   findings, counters
 *
 * A Sim runs gangs: workgroups that are live together (one; a cluster; the whole grid if workgroups
 * communicate through memory). A wave has one program counter, a stack of regions and a mask of
 * active lanes; an op is executed for all its lanes at once. Inactive lanes compute too, which has
 * no effect: values leave an op's region only through masked copies. */
#ifndef WV_SIM_STATE_H
#define WV_SIM_STATE_H

#include "backend/sim/sim.h"
#include "ir/dtype.h"

/* The contents of a byte of shared memory: a value in its low and in its high half, an mbarrier. */
enum { SIM_LOW = 1, SIM_HIGH = 2, SIM_BYTE = 3, SIM_BARRIER = 4 };

enum { SIM_NAMED = 16, SIM_MBARS = 1024, SIM_SECTOR = 32, SIM_LINE = 128 };

typedef union Reg {
  double f;  /* floats */
  int64_t i; /* everything else */
} Reg;

/* ---- happens-before (sim_clock.c) ------------------------------------------------------------ */

/* A unit is something within which program order holds: a lane (on lock-step machines a wave), an
 * asynchronous queue of a lane, the wgmma of a wave, an mbarrier's copies. Its clock counts its
 * releases. */
typedef struct Clock {
  int refs;
  uint64_t number;  /* unique among the clocks of a run */
  uint64_t joined;  /* the clock that was joined into this one last */
  uint32_t floor;   /* every lane of the gang is known up to here */
  uint32_t *at;     /* by unit: what is known of it */
  uint32_t *fenced; /* by unit: what of it asynchronous operations may read */
} Clock;

/* An access that later ones must be ordered after. stamp 0: none. */
typedef struct Access {
  uint32_t unit, clock, op, stamp, gang;
} Access;

/* Accesses by units first .. first + 63. */
typedef struct Readers {
  struct Readers *next;
  uint64_t mask;
  uint32_t first, clock, op, gang;
  bool atomic;
} Readers;

typedef struct Cell {
  Access write;     /* the last ordinary one */
  Readers *atomics; /* atomic writes since then */
  Readers *readers; /* since the last write of either kind */
} Cell;

/* Cells of one memory, `grain` half bytes each; NULL cells: never written. Half bytes, because a
 * store of a 4-bit element leaves the other half of its byte to other threads. */
typedef struct Shadow {
  Cell *cells;
  int grain, shift; /* 1 << shift */
} Shadow;

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct Buffer {
  const char *name;
  const Type *type;
  DType dtype;
  int rank, bytes; /* of an element; two 4-bit elements share a byte */
  int param;       /* global: its number */
  bool shared, contiguous;
  int64_t size[IR_MAX_RANK], stride[IR_MAX_RANK], elements;
  int64_t base;            /* shared: first byte */
  const MemLayout *memory; /* shared, and not row-major: where elements are */
  const int *element_at;   /* for `memory`: by offset, the row-major index of an element, or -1 */
  unsigned char *data;     /* global */
  Shadow shadow;           /* global; shared memory has one shadow per workgroup */
  int family;              /* global: overlapping buffers have the same, and one shadow ... */
  int64_t shadow_base;     /* ... in which this one begins at this many bytes */
} Buffer;

/* ---- expressions ----------------------------------------------------------------------------- */

typedef struct SimExpr {
  const Sym *sym;
  SymProgram *program;
  int nvars;
  int *var;       /* a symbol's slot; operand i is -1 - i */
  bool varies;    /* between lanes */
  int64_t *fixed; /* by thread: its value, if it depends on the thread alone; NULL: on more */
  bool *known;    /* by wave: its part of `fixed` has been computed */
} SimExpr;

typedef struct Symbol {
  const char *name;
  bool varies, known; /* between lanes; it has been given a value */
  bool constant;      /* it has one value for the launch */
  int64_t value;
} Symbol;

/* ---- ops ------------------------------------------------------------------------------------- */

typedef struct Sim Sim;
typedef struct Gang Gang;
typedef struct Group Group;
typedef struct Wave Wave;
typedef struct SimOp SimOp;
typedef struct Flag Flag;

typedef enum Step {
  STEP_NEXT,  /* continue after the op */
  STEP_JUMP,  /* the op set the program counter */
  STEP_AGAIN, /* blocked: retry this op when something has happened */
  STEP_PARK,  /* blocked after the op until the wave is woken */
} Step;

typedef Step StepFn(Wave *w, SimOp *s);

struct SimOp {
  const Op *op;
  StepFn *run;
  SimExpr *expr;    /* expr, trips, bytes or count */
  SimExpr *peer;    /* ranks in the cluster that it accesses, or a mask of them; for a named
                     * barrier, which of a row; or NULL */
  SimExpr **coords; /* one per dimension, or NULL */
  struct MmaPlan *mma;
  struct AccessCost *last; /* what its last access of memory cost */
  int counter;             /* slot of a loop's counter or version */
  int *iter_slot;          /* for a while loop: slot of each argument, -1: unused */
  SimLine cost;
  SimAccess *dearest; /* NULL: none yet */
};

/* ---- waves ----------------------------------------------------------------------------------- */

typedef struct SimFrame {
  const Op *op;
  uint64_t mask;            /* of the lanes that entered */
  int64_t *counter, *trips; /* of a for loop, per lane */
  uint64_t events;          /* of a while loop: at the start of this iteration */
} SimFrame;

/* A lane's own view, ahead of the clock it shares with others. */
typedef struct Lane {
  Clock *known;
  uint32_t own, fenced;         /* its clock; the clock at which it fenced its writes */
  uint32_t settled;             /* the clock up to which others can see its stores */
  bool pending[2];              /* stores since then, of global and of shared memory */
  uint32_t copying, done;       /* copies: clock of the next; complete up to here */
  uint32_t fenced_copies;       /* complete when it fenced its writes */
  Vec(uint32_t) groups;         /* copies: by group, the clock of its last */
  uint32_t bulk, read, written; /* the same for tensor stores, sources and destinations */
  uint32_t stored;              /* tensor stores: clock of the last, and its op */
  const SimOp *store;
} Lane;

struct Wave {
  Sim *sim;
  Group *group;
  int index;            /* in the workgroup */
  uint32_t unit;        /* of its first lane */
  uint64_t lanes, mask; /* that exist; that are active */
  const Op *pc;         /* NULL: after the last op */
  SimFrame *frames;     /* one per region that may be open */
  int depth;
  bool parked, ended;
  const SimOp *divided; /* the last op that divided an integer by zero, and the lanes that ever
                         * did */
  uint64_t divided_lanes;
  const SimOp *wrapped; /* the same of an expression of operands that did not fit in its type */
  uint64_t wrapped_lanes;
  uint64_t tried; /* sim->events when it last got stuck; it is retried when that has changed */
  bool stuck;
  Lane *lane;
  Reg *regs;        /* [register][lane] */
  uint64_t *undef;  /* by register: lanes in which it is undefined */
  uint32_t *flight; /* by value: the wgmma group that will write it; 0: none */
  int64_t *sym;     /* [slot][lane] */
  uint32_t wgmma_group, wgmma_issued, wgmma_done; /* being filled; last with an op; complete */
  bool wgmma_fenced;                              /* since the last wait */
  uint64_t fence_step, wgmma_steps; /* the step of that fence; wgmma, fences, commits and waits so
                                     * far */
  uint64_t *made;                   /* by value: the step in which an ordinary op wrote it */
  bool wgmma_lost;                  /* it diverged from the other waves of its warpgroup */
  uint32_t counted;                 /* copies issued that are counted per wave */
  int64_t registers;                /* of a thread; 0: as in the beginning */
  uint32_t signalled; /* split barriers: a bit for each signalled and not yet waited for */
  uint64_t steps;
};

typedef struct Mbar {
  int64_t address; /* in shared memory; -1: free */
  bool live;
  int64_t count, pending, bytes;
  int64_t phase;    /* completed phases */
  int64_t earlier;  /* phases of earlier mbarriers at this address */
  Clock *gathering; /* what the arrivals of this phase released */
  Clock *complete;  /* what threads that wait for the last phase acquire */
  int64_t *waited;  /* by thread: the phase it last waited for */
  int waiting;
  const Op *init;
  int64_t loading,
      observed;      /* phases: up to that of the last tensor copy; that a thread waited for */
  const SimOp *load; /* the copy */
} Mbar;

typedef struct Rendezvous {
  int arrived, wanted; /* threads; `wanted` as given by the first of them */
  Clock *gathering;
  Wave **parked;
  int nparked;
  uint64_t came; /* waves, at a named barrier */
  const Op *op;
} Rendezvous;

struct Group {
  Gang *gang;
  int index; /* in its gang */
  int64_t id[3];
  Wave *waves;
  int live;
  unsigned char *shared, *written; /* bytes; their contents, bits of SIM_LOW .. SIM_BARRIER */
  Shadow shadow;
  Rendezvous workgroup, named[SIM_NAMED], *wave; /* wave: one per wave */
  Vec(Mbar) mbars;
  struct Warpgroup *warpgroups; /* the wgmma that their waves executed */
  const SimOp *takes;           /* an op by which a wave took registers */
  int64_t taken;                /* registers of a lane that waves have more than in the beginning */
  Rendezvous cluster;           /* in the first workgroup of a cluster: shared by all of it */
  struct Remote *remote;        /* accesses to this shared memory by other workgroups */
  Map remote_of;                /* unit + 1 -> its last one */
};

struct Gang {
  Group *groups;
  int ngroups, waves_live, ended; /* workgroups that have ended */
  uint32_t number;
};

/* Where the units of a workgroup begin. */
typedef struct Units {
  int lanes, copies, reads, writes, wgmma, mbars, all;
} Units;

struct Sim {
  Kernel *k;
  Context *cx;
  const EvalArg *args;
  const SimOptions *o;
  const TargetInfo *machine;
  Arena *home, *gang_home, *scratch;

  int64_t grid[3], block[3], cluster[3];
  int wave, nwaves, threads; /* lanes of a wave, waves and threads of a workgroup */
  int64_t shared_bytes;
  int shared_grain; /* half bytes */
  int per_unit;     /* lanes per unit */
  Units units;
  int nunits; /* of a gang */

  SimOp *ops;         /* by op id */
  int *reg_of;        /* by value id: its first register */
  Buffer **buffer;    /* by value id */
  int nregs, depth;   /* registers per lane; maximum nesting of regions */
  int64_t *expr_work; /* space for the expression that needs most of it */
  size_t expr_room;
  Vec(Symbol) symbols;
  Map symbol_of;
  int t_slot[3], wg_slot[3];

  bool talks;       /* workgroups communicate through memory: all are live ... */
  int64_t resident; /* ... of which the machine runs this many concurrently */
  Map flags;        /* address -> Flag */
  Gang gang;
  uint64_t events; /* anything that may let a stuck wave continue */
  uint32_t stamp;  /* executions of memory ops */
  uint64_t random;
  Clock *free_clocks;
  uint64_t clocks;          /* made so far */
  Readers *free_readers[2]; /* of global and of shared memory */
  int findings;
  Vec(SimFinding) found;
  SimFinding
      subject; /* of the next finding: filled in by sim_who() and buffer_index() as its text is made */
  bool stop, interrupted;
  unsigned turns; /* since the last check for an interrupt */
};

static inline Reg *wave_regs(Wave *w, const Value *v) {
  return w->regs + (size_t)w->sim->reg_of[v->id] * (size_t)w->sim->wave;
}
static inline uint64_t *wave_undef(Wave *w, const Value *v) {
  return w->undef + w->sim->reg_of[v->id];
}
static inline int mask_count(uint64_t mask) {
#if defined(__GNUC__)
  return __builtin_popcountll(mask);
#else
  int n = 0;
  for (; mask; mask &= mask - 1) n++;
  return n;
#endif
}
/* For each lane of a mask, in order; no `break`. */
#define EACH_LANE(l, mask)                                                                         \
  for (uint64_t left_##l = (mask); left_##l; left_##l &= left_##l - 1)                             \
    for (int l = lowest_bit(left_##l), once_##l = 1; once_##l; once_##l = 0)

/* ---- sim_setup.c ----------------------------------------------------------------------------- */

bool sim_setup(Sim *s, int nargs);

/* ---- sim_overlap.c --------------------------------------------------------------------------- */

void overlap_open(Sim *s); /* shadows of the tensors */

/* ---- sim_wave.c ------------------------------------------------------------------------------ */

extern StepFn *const sim_step[OP_COUNT]; /* NULL: not an op of one lane's program */
Step wave_step(Wave *w);
bool wave_expr(Wave *w, const SimOp *s, const SimExpr *e, uint64_t mask, int64_t *out);
bool wave_uniform(Wave *w, const SimOp *s, const SimExpr *e, int64_t *out);
bool wave_whole(Wave *w, const SimOp *s); /* reports a convergent op under a partial mask */
bool wave_full(Wave *w, const SimOp *s);  /* ... and in a wave that lacks lanes */
/* Reports registers of an operand that are undefined or in flight although something depends on
 * them. */
void wave_check_use(Wave *w, const SimOp *s, const Value *v, uint64_t mask, const char *what);

/* ---- sim_value.c ----------------------------------------------------------------------------- */

StepFn step_clock, step_scalar, step_unary, step_test, step_binary, step_compare, step_select,
    step_inline, step_cast, step_bitcast, step_softsign, step_expr, step_splat, step_after,
    step_join, step_pick, step_shuffle, step_shuffle_idx;

/* ---- sim_memory.c ---------------------------------------------------------------------------- */

StepFn step_load, step_store, step_atomic;
int buffer_halves(const Buffer *b); /* of an element: half bytes */
int64_t buffer_address(const Buffer *b,
                       int64_t element); /* in bytes, from the buffer's or shared 0 */
bool buffer_inside(const Buffer *b, int64_t element);
int64_t sim_element_after(int64_t element, int64_t n);              /* never wraps */
const char *buffer_index(Sim *s, const Buffer *b, int64_t element); /* "(3, 4)" */
Reg reg_from_bits(DType t, uint64_t bits);
uint64_t reg_bits(DType t, Reg r);
unsigned char *buffer_bytes(const Group *g, const Buffer *b); /* where element 0 lies */
void sim_mark_written(const Group *g, const Buffer *b, int64_t element);
bool sim_is_written(const Group *g, const Buffer *b, int64_t element);
/* Reports an element outside its buffer, or an address that is not a multiple of `align`. */
bool access_inside(Wave *w, const SimOp *s, const Buffer *b, int64_t element, int lane);
/* The lanes whose n elements from `first` on agree with the op's `coords`; all if it has none. The
 * others are reported. */
uint64_t access_at_coords(Wave *w, SimOp *s, const Buffer *b, const int64_t first[64], int n,
                          uint64_t lanes);
bool access_aligned(Wave *w, const SimOp *s, const Buffer *b, int64_t element, int64_t align,
                    int lane);

/* ---- sim_matrix.c ---------------------------------------------------------------------------- */

StepFn step_ldmatrix, step_stmatrix, step_load_rows, step_store_rows;

/* ---- sim_clock.c ----------------------------------------------------------------------------- */

Clock *clock_new(Sim *s);
Clock *clock_keep(Clock *c);
void clock_drop(Sim *s, Clock *c);
void clock_join(Sim *s, Clock *into, const Clock *from);
/* Releases everything these lanes know and did into c; what they do from now on is not included. */
void clock_release(Wave *w, uint64_t lanes, Clock *c);
/* The same, except for stores that were not waited for, on a machine where others see them only
 * after a wait. */
void clock_release_settled(Wave *w, uint64_t lanes, Clock *c);
/* Releases only that the copies a lane has issued are complete. */
void clock_release_copies(Wave *w, int lane, Clock *c);
void clock_acquire(Wave *w, uint64_t lanes, const Clock *c);
void clock_finish(Sim *s, Clock *c);                          /* computes the floor */
uint32_t clock_known(const Wave *w, int lane, uint32_t unit); /* what a lane knows of a unit */

/* The origin of an access: a lane, or an asynchronous operation it issued. */
typedef struct Actor {
  Wave *w;
  const SimOp *s;
  Group *home; /* the workgroup whose shared memory it accesses */
  int lane;
  uint32_t unit, clock;
  bool async;  /* an operation that runs concurrently with its lane: it has a unit of its own */
  bool proxy;  /* it uses the asynchronous proxy: ordinary writes must be fenced first */
  bool atomic; /* or volatile */
  bool issues; /* it only issues a copy, which accesses the other workgroup */
} Actor;

static inline uint32_t unit_of_lane(const Wave *w, int lane) {
  return w->unit + (w->sim->per_unit == 1 ? (uint32_t)lane : 0);
}
static inline Actor actor_lane(Wave *w, const SimOp *s, int lane, bool atomic) {
  return (Actor){.w = w,
                 .s = s,
                 .home = w->group,
                 .lane = lane,
                 .unit = unit_of_lane(w, lane),
                 .clock = w->lane[lane].own,
                 .atomic = atomic};
}
Actor sim_actor_async(Wave *w, const SimOp *s, int lane, int unit, uint32_t clock);
/* Reports an element whose bytes are an mbarrier, which other accesses must not touch. */
void access_not_barrier(const Actor *a, const Buffer *b, int64_t element, bool writes);
uint32_t sim_unit_in(const Group *g, int local);
Shadow shadow_new(Arena *a, int64_t cells, int grain);
void shadow_read(const Actor *a, const Buffer *b, int64_t element);
/* same: the element already holds these bits. */
void shadow_write(const Actor *a, const Buffer *b, int64_t element, bool same);

/* ---- sim_barrier.c --------------------------------------------------------------------------- */

StepFn step_barrier, step_workgroup_barrier, step_fence_proxy, step_mbar_init, step_mbar_inval,
    step_mbar_expect, step_mbar_arrive, step_mbar_arrive_async, step_mbar_wait, step_barrier_signal,
    step_barrier_wait, step_counter_wait, step_counter_barrier, step_shared_barrier,
    step_wave_registers;
Mbar *mbar_at(const Actor *a, const Buffer *b, int64_t index);
void mbar_complete_bytes(Group *g, Mbar *m, int64_t bytes);
int mbar_unit(const Group *g, const Mbar *m);
uint32_t mbar_clock(const Mbar *m, int64_t phase); /* of its unit */
void sim_group_check_end(Group *g);

/* ---- sim_cluster.c --------------------------------------------------------------------------- */

Group *cluster_peer(const Group *g, int64_t rank); /* NULL: the cluster has no such rank */
int cluster_size(const Sim *s);
/* The workgroups that these lanes access; returns the lanes whose peer exists. */
uint64_t cluster_homes(Wave *w, const SimOp *s, uint64_t lanes, Group **home);
bool cluster_alive(Wave *w, const SimOp *s, const Group *peer, int lane);
void cluster_note(const Actor *a); /* records an access to another workgroup's shared memory */
void cluster_check_end(Group *g);  /* checks that all of them are ordered before its end */

/* ---- sim_flag.c ------------------------------------------------------------------------------ */

/* A volatile load of an element that currently holds `bits`: returns the bits that the lane
 * sees. */
uint64_t flag_load(const Actor *a, const Buffer *b, int64_t element, uint64_t bits);
void flag_store(const Actor *a, const Buffer *b, int64_t element, uint64_t before, uint64_t after);
void flag_atomic(const Actor *a, const Buffer *b, int64_t element, uint64_t before, uint64_t after);
void flag_change(const Actor *a, const Buffer *b, int64_t element, uint64_t after);

/* ---- sim_async.c ----------------------------------------------------------------------------- */

StepFn step_copy_async, step_async_commit, step_async_wait, step_tma_load, step_tma_store,
    step_tma_prefetch, step_bulk_commit, step_bulk_wait;
void sim_wait_for_copies(Wave *w); /* all copies issued by its lanes */

/* ---- sim_mma.c ------------------------------------------------------------------------------- */

StepFn step_wave_mma;
bool mma_plan(Sim *s, SimOp *op);

/* ---- sim_wgmma.c ----------------------------------------------------------------------------- */

StepFn step_wgmma_fence, step_wgmma, step_wgmma_commit, step_wgmma_wait;
bool wgmma_check(Sim *s, const SimOp *op); /* checks its descriptors */
void wgmma_open(Sim *s, Group *g);
void wgmma_check_end(Group *g); /* checks that all waves of a warpgroup executed the same */

/* ---- sim_report.c ---------------------------------------------------------------------------- */

/* A finding at an op: one diagnostic for each code and pair of lines. NULL if there is one already,
 * whose count is increased. */
Diag *sim_report(Wave *w, const SimOp *s, DiagCode code, const Op *other, const char *fmt, ...)
    WV_PRINTF(5, 6);
bool sim_fail_setup(Sim *s, DiagCode code, Span at, const char *fmt, ...) WV_PRINTF(4, 5);
const char *sim_who(Wave *w, int lane); /* "workgroup (0, 1), wave 2, lane 5" */
void sim_note_counts(Sim *s); /* after the run: appends to each diagnostic how often it was found */
void sim_forget_subject(Sim *s);
/* Counts an execution of a memory op: returns where to describe it, or NULL if a more expensive one
 * is known. */
SimAccess *sim_note_access(SimOp *s, Arena *a, int cost);
void sim_make_report(Sim *s, SimReport *out);

#endif
