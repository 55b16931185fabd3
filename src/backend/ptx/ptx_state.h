/* ptx_state.h: what the files of the PTX emitter share.
 *
 * A value of n elements is *held* in registers in one or both of two forms:
 *
 *     elements   one register each: pred, b16 (16-bit floats), b32, b64, f32, f64
 *     words      elements of less than 32 bits packed into b32 registers, the first lowest
 *
 * Loads, stores, matrix instructions and shuffles use words, arithmetic uses elements. A form is
 * created on first use and kept; moving parts of values is only renaming if the parts are whole
 * registers of the form at hand. */
#ifndef WV_PTX_STATE_H
#define WV_PTX_STATE_H

#include "backend/ptx/ptx.h"
#include "base/vec.h"

typedef enum RegClass { REG_P, REG_H, REG_R, REG_RD, REG_F, REG_FD, REG_CLASSES } RegClass;

typedef struct Reg {
  const char *name; /* a register, or a constant */
  RegClass class;
} Reg;

typedef struct Held {
  DType dtype;
  int n;
  const Reg *elem, *word; /* NULL: not in this form yet */
  int elem_in, word_in;   /* the region that created the form; it is not valid outside */
  bool own;               /* no other value shares these registers */
} Held;

/* A symbol's register, inside the region that defines it. */
typedef struct SymReg {
  const char *name;
  Reg reg;
} SymReg;

/* A computed address, inside the region that computed it. */
typedef struct Address {
  const Value *memory, *offset; /* no memory: the byte offset alone */
  Reg reg;
  int scale; /* for byte offsets: bytes per element, negative in shared memory */
} Address;

/* A conditional that whole waves decide. */
typedef struct WaveTest {
  const Sym *sym; /* the condition, the same in all lanes of a wave; NULL: not by waves */
  bool one;       /* one lane of the wave executes it */
} WaveTest;

enum { PTX_EXCHANGES = 8, PTX_PEERS = 8 };

/* A workgroup of the cluster: addresses there of an address here, and of the barrier of an exchange. */
typedef struct PtxPeer {
  const Sym *rank; /* NULL: none yet */
  const char *here;
  Reg there, arrived;
  int exchange;
} PtxPeer;

typedef struct Ptx {
  Kernel *k;
  const TargetInfo *target;
  Arena *arena;
  SymCtx *sym;
  const SymFacts *entry; /* facts that hold throughout the kernel */
  const SymFacts *facts; /* facts that also hold here */
  StrBuf body;
  int regs[REG_CLASSES];
  int labels;
  Held **held;             /* by value id; memories: their base address in elem[0] */
  int *uses;               /* by value id: operands that mention it */
  const SymRange **ranges; /* by value id: of what an expression computes; NULL: not known */
  Map inline_regs;         /* inline_ptx with several results that wrote its text -> Reg of all */
  const Op *
      *fused; /* by op id: the op that computes this one as well: the last step of the reduction
                     * that it is a step of, or its user; NULL: none */
  const WaveTest *tests; /* by op id: of conditionals; NULL: there are none */
  Vec(PtxArg) args;
  Vec(Reg) arg_regs; /* of each argument, loaded at entry */
  Vec(SymReg) symbols;
  Vec(Address) addresses;
  Vec(int) regions; /* the open regions, by number; 0, the body, always is open */
  int nregions;
  Reg shared;     /* address of shared memory */
  Reg policy;     /* for copies whose data is not reused soon; no name: there are none */
  Reg zero;       /* 0, which the assembler does not know; no name: not computed */
  Reg zero_after; /* the same, after `zero_of` is computed */
  const Value *zero_of;
  Reg wave;            /* $T0 / 32, known to be uniform over the lanes; no name: not computed */
  Vec(uint32_t) files; /* source files of instructions, numbered from 1 in the text */
  Span at, last;       /* source locations: of the current op, of the last .loc */
  bool lines;          /* emit source locations */
  int version;         /* required PTX version: 78 is 7.8 */
  bool fast;           /* PTX_FAST of ptx.def */
  bool clustered;      /* workgroups access each other's shared memory */
  const Op *started;   /* the barrier that says that all workgroups of a cluster have started */
  bool started_orders; /* it also orders the accesses of the workgroup's own threads */
  const int *exchange; /* by op id: of stores and barriers, the number of the exchange, from 1 */
  int nexchanges;
  int64_t sent[PTX_EXCHANGES]; /* bytes that arrive at a workgroup */
  PtxPeer to[PTX_PEERS];       /* where stores of exchanges were sent, the latest ones */
  int nto;                     /* counts all of them */
  bool exchanges;  /* ... and exchange values: barriers order memory for the whole cluster */
  bool lanes_read; /* ... and lanes may be loading from shared memory when they arrive there */
  bool publishes;  /* the copy engine and threads pass values on outside shared memory, too */
  bool multiplies; /* uses matrix instructions, whose accumulators fill the registers */
  bool failed;
} Ptx;

typedef void PtxFn(Ptx *p, const Op *op);

/* ---- ptx.c ---- */

bool ptx_fail(Ptx *p, const Op *op, const char *what); /* E0601; always false */
Reg ptx_new(Ptx *p, RegClass class);
void ptx_line(Ptx *p, const char *format, ...) WV_PRINTF(2, 3); /* one instruction */
/* An instruction and its operands; the new register that it writes is inserted before them. */
Reg ptx_let(Ptx *p, RegClass class, const char *format, ...) WV_PRINTF(3, 4);
void ptx_text(Ptx *p, const char *text); /* several instructions, with their terminators */
void ptx_set(Ptx *p, const Value *v, Held held);
Held *ptx_get(Ptx *p, const Value *v);
Reg ptx_argument(Ptx *p, PtxArg arg); /* the register that holds it, shared by equal arguments */
void ptx_needs(Ptx *p, int version);  /* the text requires this version */
void ptx_label(Ptx *p, const char *word, int n);
void ptx_ops(Ptx *p, const Op *from,
             const Op *end); /* of one region; end: not this one; NULL: all */
void ptx_region(Ptx *p, const Region *r);

/* ---- ptx_region.c ---- */

PtxFn ptx_for, ptx_while, ptx_if;

/* ---- ptx_waves.c ---- */

void ptx_find_wave_tests(Ptx *p);
/* Branches to label `end` in waves, or lanes, that do not execute `op`, if whole waves decide that.
 * False: they do not. */
bool ptx_branch_by_wave(Ptx *p, const Op *op, int end);

/* ---- ptx_held.c ---- */

RegClass ptx_class_of(DType t);
bool ptx_is_packed(DType t); /* several elements per word */
Held held_new(Ptx *p, DType t, int n, bool words);
const Reg *ptx_elems_of(Ptx *p, Held *h);
const Reg *ptx_words_of(Ptx *p, Held *h);
bool ptx_has_elems(const Ptx *p, const Held *h); /* without a conversion */
bool ptx_has_words(const Ptx *p, const Held *h);
int ptx_word_count(DType t, int n);
Held *held_spread(Ptx *p, const Value *v, int n); /* a scalar as n elements */
void ptx_move_held(Ptx *p, const Held *to,
                   Held *from); /* skips registers that are already the same */

/* Whether the one user of `v` may overwrite its registers, because their contents are not needed
 * elsewhere. */
bool ptx_may_overwrite(Ptx *p, const Op *user, const Value *v);
PtxFn ptx_splat, ptx_after, ptx_join, ptx_pick, ptx_shuffle, ptx_shuffle_idx, ptx_bitcast;

/* ---- ptx_expr.c ---- */

typedef struct ExprRegs {
  const Value *const *args; /* $APPLY_EXPR_ARG_i */
  int nargs;
} ExprRegs;

Reg ptx_expr(Ptx *p, const Op *op, const Sym *e, DType dtype, const ExprRegs *args);
/* Of the expression here, where facts about loops hold, for those that have it as an operand; NULL: not
 * known to have 32 bits. */
const SymRange *ptx_range(Ptx *p, const Sym *e, DType dtype, const ExprRegs *args);
void ptx_define(Ptx *p, const Sym *symbol, Reg reg);

/* ---- ptx_elem.c ---- */

PtxFn ptx_elementwise, ptx_select;
bool ptx_has_elementwise(OpKind kind);
void ptx_find_masked(Ptx *p);          /* needs `fused` */
bool ptx_masked(Ptx *p, const Op *op); /* true: the op and an operand were one instruction */
Reg ptx_apply(Ptx *p, OpKind kind, DType t, Reg a, Reg b); /* one element, by its template */

/* ---- ptx_inline.c ---- */

PtxFn ptx_inline;
void ptx_forget_meanings(Ptx *p); /* removes from `uses` what only the meanings of inline_ptx use */
bool ptx_is_forgotten(const Ptx *p, const Op *op);

/* ---- ptx_divide.c ---- */

bool ptx_divide(Ptx *p, const Op *op); /* true: it was a division by a constant */
/* The integer that all elements of v have; false: v is not a constant. */
bool ptx_constant(const Value *v, int64_t *out);

/* ---- cluster/ptx_exchange.c ---- */

const char *ptx_list_of(Ptx *p, const Reg *regs, int n); /* ptx_memory.c */
const char *ptx_vector_of(int n);
bool ptx_reads_tensor(const Op *op); /* ptx.c */
bool ptx_writes_tensor(const Op *op);
bool ptx_lanes_read(const Ptx *p);                         /* ptx_reads.c */
void ptx_find_exchanges(Ptx *p, const LaunchSpec *launch); /* at the beginning of the text */
bool ptx_send(Ptx *p, const Op *op); /* true: the store was part of an exchange */
PtxFn ptx_cluster_barrier;

/* ---- ptx_cast.c ---- */

PtxFn ptx_cast, ptx_scalar, ptx_clock;
bool ptx_is_native_f8(const Ptx *p, DType t); /* there are instructions that convert to it */
bool ptx_is_small_float(DType t);             /* computed in f32 and rounded */
const Reg *ptx_floats_of(Ptx *p, Held *h);    /* a small float's elements as f32 */
Held ptx_from_floats(Ptx *p, DType t, const Reg *f, int n);
Reg ptx_truth(Ptx *p, const Value *v);        /* a predicate: the value, of one element, is not 0 */
Reg ptx_wrap_integer(Ptx *p, DType t, Reg r); /* wraps a 32-bit integer to the width of t */

/* ---- ptx_fused.c ---- */

void ptx_find_redux(Ptx *p);
bool ptx_redux(Ptx *p, const Op *op); /* true: the op was a step; the last step emits the
                                       * instruction */
/* What a cast to an 8-bit float converts after it was clipped to the range of that; NULL: it was not. */
const Value *ptx_clipped(const Op *cast);
void ptx_find_clipped(Ptx *p); /* needs `fused` */

/* ---- ptx_remainder.c ---- */

PtxFn ptx_remainder; /* of f64 */

/* ---- ptx_small.c ---- */

void small_to_f32(Ptx *p, DType t, Reg code, Reg to);
Reg small_from_f32(Ptx *p, DType t, Reg f);
Held ptx_f4_to_words(Ptx *p, Held *h, DType to); /* to f16 or bf16, an even number */

/* ---- ptx_address.c ---- */

bool ptx_is_shared(const Ptx *p, const Value *memory);
/* In bytes, without the base of an allocation. */
Reg ptx_address(Ptx *p, const Value *memory, const Value *offset);
/* The same in units of 16 bytes, without the constant term of the offset, which is added to *added in bytes. */
Reg ptx_address_unit(Ptx *p, const Value *memory, const Value *offset, int64_t *added);
bool ptx_can_address(Ptx *p, const Value *memory, const Value *offset); /* the rest is computed */
Reg ptx_address_of(Ptx *p, const Value *memory, Reg offset, int size);  /* scaled by bytes per
                                                                        * element */
void ptx_addresses_before(Ptx *p, const Region *body); /* emits address parts that the loop does not
                                                        * change */

/* ---- ptx_memory.c ---- */

PtxFn ptx_load, ptx_store, ptx_ldmatrix, ptx_stmatrix;
int64_t ptx_alloc_base(const Value *memory);
const char *ptx_operand(Ptx *p, const Value *memory, const Value *offset); /* [register+bytes] */
const char *ptx_operand_at(Ptx *p, const Value *memory, const Value *offset, int64_t elements);
/* The same in the shared memory of the op's `peer`. */
const char *ptx_peer_access(Ptx *p, const Op *store); /* [address] of a store to a peer */
const char *ptx_peer_operand(Ptx *p, const Op *op, const Value *memory, const Value *offset);

const char *ptx_space(const Ptx *p, const Op *op, const Value *memory); /* of an access */
/* The address of one element of an access whose memory is operand `at`; *nibble: its half of the
 * byte. */
Reg ptx_element_address(Ptx *p, const Op *op, int at, int element, Reg *nibble);
void ptx_clear(Ptx *p, Reg r); /* sets it to 0 */

/* ---- ptx_atomic.c ---- */

PtxFn ptx_atomic;
/* Stores an element smaller than a word without changing its neighbours. */
void ptx_exchange(Ptx *p, const char *space, Reg address, Reg nibble, DType t, Reg value);

/* ---- ptx_async.c ---- */

PtxFn ptx_barrier, ptx_barrier_wait, ptx_sched_barrier, ptx_wave_registers, ptx_fence_proxy,
    ptx_copy_async, ptx_async_commit, ptx_async_wait, ptx_mbar_init, ptx_mbar_inval,
    ptx_mbar_expect, ptx_mbar_arrive, ptx_mbar_arrive_async, ptx_mbar_wait;
const char *ptx_word(Ptx *p, const Value *v); /* an integer in a 32-bit register */
void ptx_open_policy(Ptx *p);
const char *ptx_policy(Ptx *p, const Op *op); /* ", policy" for a copy with a cache hint, or "" */

/* ---- ptx_tensor.c ---- */

PtxFn ptx_tma_load, ptx_tma_store, ptx_tma_prefetch, ptx_bulk_commit, ptx_bulk_wait;

/* ---- ptx_mma.c ---- */

PtxFn ptx_prepare_wgmma; /* of the op, a wait */
PtxFn ptx_wave_mma, ptx_wgmma, ptx_wgmma_fence, ptx_wgmma_commit, ptx_wgmma_wait;
bool ptx_is_late_wait(const Op *op); /* for products that what is computed before it overlaps */

#endif
