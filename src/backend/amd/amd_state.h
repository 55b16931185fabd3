/* amd_state.h: what the files of the emitter for AMD GPUs share. */
#ifndef WV_AMD_STATE_H
#define WV_AMD_STATE_H

#include "backend/amd/amd.h"
#include "backend/llvm/llvm_state.h"

/* LLVM's address spaces. */
enum { AMD_GLOBAL = 1, AMD_LDS = 3 };

/* A buffer resource: a descriptor through which accesses past a limit do nothing. */
typedef struct AmdBuffer {
  const char *base, *name; /* the tensor's pointer; a `ptr addrspace(8)` */
} AmdBuffer;

typedef struct Amd {
  const TargetInfo *target;
  unsigned llvm;
  int64_t lds;    /* bytes */
  int64_t idle;   /* where inactive lanes read the LDS; -1: nowhere, it is full */
  bool idles;     /* some do: the LDS then ends after these bytes */
  StrBuf opening; /* the first instructions of the kernel */
  Vec(AmdBuffer) buffers;
  bool direct;         /* copies end in the LDS ... */
  bool around;         /* ... except for some that go through registers: they are not counted */
  bool waits_all;      /* so waits are for all of them */
  const Sym **offset;  /* by value id: its expression without operands; NULL: not known yet */
  bool shares_tensors; /* barriers order accesses to tensors, not only to the LDS */
  bool all_buffers;    /* accesses without a mask go through buffers, too */
  bool negative,
      splits;       /* some offsets have a negative part; some have none, and were not hidden */
  bool hides;       /* so all are hidden */
  const Op **first; /* by value id: an access at just this offset, without an immediate; or NULL */
} Amd;

/* Of the widest access. */
enum { AMD_IDLE_BYTES = 16 };
/* All allocations of a workgroup. */
#define AMD_LDS_NAME "@lds"

/* ---- amd.c ---- */

/* The same bits as another type. */
const char *amd_recast(Llvm *p, const char *from, const char *v, const char *to);
/* The same value, of which LLVM knows nothing. */
const char *amd_hidden(Llvm *p, const char *type, const char *v);
/* The same, computed here: LLVM moves instructions that combine lanes into a branch in which only
 * some lanes use the result, and the lanes that do not enter it then contribute nothing. */
const char *amd_pinned(Llvm *p, const char *type, const char *v);

/* ---- amd_address.c ---- */

void amd_find_offsets(Llvm *p); /* fills in `first` */
/* An integer operand as an expression of symbols only, as far as possible. */
const Sym *amd_expression(Llvm *p, const Value *v);
/* The same, if its symbols have the same values at the op; or NULL. */
const Sym *amd_expression_at(Llvm *p, const Op *use, const Value *v);
/* The tensor's buffer resource; NULL: it has none. */
const char *amd_buffer(Llvm *p, const Held *memory);
/* An offset in a buffer where nothing is read or written. */
#define AMD_NOWHERE "-1073741824"

/* Where an access begins. */
typedef struct AmdAddress {
  const Held *memory;
  bool shared;
  int64_t imm;        /* bytes to add to the offset */
  const char *near;   /* the offset in bytes, in i32; NULL: it may be larger */
  const char *far;    /* if so: in i64 */
  const char *common; /* to be added to `near`: the same in all lanes, not negative; or NULL */
  bool counts;        /* the offset is not negative, even without `imm`, in active lanes */
  bool splits;        /* no part of the offset is negative: LLVM may split it anywhere */
  int align;          /* in bytes: a power of two, at most 16 */
} AmdAddress;

/* Of an access whose memory is operand `at`, `imm` elements after its offset. */
AmdAddress amd_address(Llvm *p, const Op *op, int at, int64_t imm);
AmdAddress amd_address_after(AmdAddress from, int64_t bytes);
const char *amd_pointer(Llvm *p, const AmdAddress *a);

/* ---- amd_atomic.c ---- */

/* As llvm_atomic_element, of fewer than 32 bits. */
const char *amd_atomic_part(Llvm *p, const Op *op, DType t, LlvmCell cell, const char *v,
                            const char *expected);
/* Clears the bits of a byte that are not in `hole`, then sets `bits`: two steps, each atomic. */
void amd_set_bits(Llvm *p, LlvmCell cell, const char *hole, const char *bits);

/* ---- amd_known.c ---- */

typedef enum AmdHabit {
#define INTRINSIC(name, first, feature)
#define MATRIX(feature, first)
#define HABIT(name, first) AMD_##name,
#include "backend/amd/amd_known.def"
} AmdHabit;

/* Whether LLVM has the intrinsic, named without `llvm.amdgcn.`, and the chip an instruction. */
bool amd_knows(const Amd *amd, const char *name);
bool amd_knows_matrix(const Amd *amd, const struct MmaInfo *row);
bool amd_has_habit(unsigned llvm, AmdHabit habit);
/* Whether everything that the text declares is known. False after reporting (E0601). */
bool amd_check_known(Llvm *p);

/* ---- amd_loop.c ---- */

int amd_unroll(Llvm *p, const Op *loop);

/* ---- amd_math.c ---- */

extern const char *const amd_f32_templates[OP_COUNT], *const amd_fast_templates[OP_COUNT];
const char *amd_reduce_angle(Llvm *p, int n, const char *x);

/* ---- amd_remainder.c ---- */

const char *amd_remainder(Llvm *p, int n, const char *a, const char *b);

/* ---- amd_memory.c ---- */

LlvmFn amd_alloc, amd_load, amd_ldmatrix, amd_store, amd_atomic, amd_copy_async;
void amd_find_idle(Llvm *p); /* fills in `idle`; `lds` is known */

/* ---- amd_mma.c ---- */

LlvmFn amd_wave_mma;

/* ---- amd_table.c ---- */

bool amd_cast_packed(Llvm *p, Held *from, Held *to);

/* ---- amd_registers.c ---- */

/* Where the registers of a program with matrix instructions are: it needs only those that all
 * instructions can access, or its sums need more, or LLVM decides. */
typedef enum AmdHalves { AMD_ANY_HALF, AMD_LOWER_HALF, AMD_BOTH_HALVES } AmdHalves;
AmdHalves amd_halves(Llvm *p);

/* ---- amd_direct.c ---- */

bool amd_is_direct(const Op *op);
bool amd_copy_direct(Llvm *p, const Op *op, int64_t bytes); /* false: not possible */
void amd_wait_loads(Llvm *p, int64_t left);

/* Attached to copies and to reads of the LDS: they do not overlap. */
const char *amd_apart(const Llvm *p, bool is_copy);
void amd_put_scopes(const Llvm *p, StrBuf *out);

/* ---- amd_lanes.c ---- */

LlvmFn amd_shuffle, amd_shuffle_idx;
/* A value that all lanes of the wave have in common, as LLVM then knows. */
const char *amd_uniform(Llvm *p, const char *word);

/* ---- amd_sync.c ---- */

/* Whether a tensor is both read and written, or waited for. */
bool amd_shares_tensors(const Kernel *k);
LlvmFn amd_barrier, amd_bare_barrier, amd_barrier_signal, amd_barrier_wait, amd_counter_wait,
    amd_counter_barrier, amd_wave_prio, amd_clock, amd_sched_barrier, amd_sched_group;

#endif
