/* ptx_state.h: what the files of the PTX emitter share.
 *
 * A value of n elements is *held* in registers in one or both of two forms:
 *
 *     elements   one register each: pred, b16 (16-bit floats), b32, b64, f32, f64
 *     words      elements of less than 32 bits packed into b32 registers, the first lowest
 *
 * Loads, stores, matrix instructions and shuffles want words, arithmetic wants elements. A form is
 * made when it is first asked for and kept; moving parts of values around is renaming wherever the
 * parts are whole registers of the form at hand. */
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
  bool own;               /* no other value is held in these registers */
} Held;

/* A symbol's register, inside of the region that defines it. */
typedef struct SymReg {
  const char *name;
  Reg reg;
} SymReg;

/* An address that was computed, inside of the region that computed it. */
typedef struct Address {
  const Value *memory, *offset;
  Reg reg;
} Address;

typedef struct Ptx {
  Kernel *k;
  const TargetInfo *target;
  Arena *arena;
  SymCtx *sym;
  const SymFacts *facts;
  StrBuf body;
  int regs[REG_CLASSES];
  int labels;
  Held **held; /* by value id; memories: their base address in elem[0] */
  int *uses;   /* by value id: operands that mention it */
  Vec(PtxArg) args;
  Vec(Reg) arg_regs; /* of each argument, loaded at entry */
  Vec(SymReg) symbols;
  Vec(Address) addresses;
  Reg shared;     /* address of shared memory */
  int version;    /* of PTX that is needed: 78 is 7.8 */
  bool clustered; /* workgroups reach each other's shared memory */
  bool failed;
} Ptx;

typedef void PtxFn(Ptx *p, const Op *op);

/* ---- ptx.c ---- */

bool ptx_fail(Ptx *p, const Op *op, const char *what); /* E0601; always false */
Reg ptx_new(Ptx *p, RegClass class);
void ptx_line(Ptx *p, const char *format, ...) WV_PRINTF(2, 3); /* one instruction */
void ptx_set(Ptx *p, const Value *v, Held held);
Held *ptx_get(Ptx *p, const Value *v);
Reg ptx_argument(Ptx *p, PtxArg arg); /* the register that holds it; one for equal ones */
void ptx_needs(Ptx *p, int version);  /* the text uses what this version brought */
void ptx_label(Ptx *p, const char *word, int n);
void ptx_region(Ptx *p, const Region *r);

/* ---- ptx_region.c ---- */

PtxFn ptx_for, ptx_while, ptx_if;

/* ---- ptx_held.c ---- */

RegClass class_of(DType t);
bool is_packed(DType t); /* its words hold several elements */
Held held_new(Ptx *p, DType t, int n, bool words);
const Reg *elems_of(Ptx *p, Held *h);
const Reg *words_of(Ptx *p, Held *h);
int word_count(DType t, int n);
void move_held(Ptx *p, const Held *to, Held *from); /* registers that are the same stay */

/* The registers of `v` may be written by its one user, because nobody else needs what they hold. */
bool may_overwrite(Ptx *p, const Value *v);
PtxFn ptx_splat, ptx_join, ptx_pick, ptx_shuffle, ptx_shuffle_idx, ptx_bitcast;

/* ---- ptx_expr.c ---- */

typedef struct ExprRegs {
  const Value *const *args; /* $APPLY_EXPR_ARG_i */
  int nargs;
} ExprRegs;

Reg ptx_expr(Ptx *p, const Op *op, const Sym *e, DType dtype, const ExprRegs *args);
void ptx_define(Ptx *p, const Sym *symbol, Reg reg);

/* ---- ptx_elem.c ---- */

PtxFn ptx_elementwise, ptx_cast, ptx_select, ptx_scalar;
bool has_elementwise(OpKind kind);

/* ---- ptx_memory.c ---- */

PtxFn ptx_load, ptx_store, ptx_ldmatrix, ptx_stmatrix, ptx_atomic;
Reg ptx_address(Ptx *p, const Value *memory, const Value *offset); /* in bytes, without the base
                                                                      of an allocation */
int64_t ptx_alloc_base(const Value *memory);
const char *ptx_place(Ptx *p, const Value *memory, const Value *offset); /* [register+bytes] */
/* The same in the shared memory of the op's `peer`. */
const char *ptx_peer_place(Ptx *p, const Op *op, const Value *memory, const Value *offset);

/* ---- ptx_async.c ---- */

PtxFn ptx_barrier, ptx_barrier_wait, ptx_fence_proxy, ptx_copy_async, ptx_async_commit,
    ptx_async_wait, ptx_mbar_init, ptx_mbar_inval, ptx_mbar_expect, ptx_mbar_arrive,
    ptx_mbar_arrive_async, ptx_mbar_wait, ptx_tma_load, ptx_tma_store, ptx_bulk_commit,
    ptx_bulk_wait;

/* ---- ptx_mma.c ---- */

PtxFn ptx_wave_mma, ptx_wgmma, ptx_wgmma_fence, ptx_wgmma_commit, ptx_wgmma_wait;

#endif
