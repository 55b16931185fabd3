/* isa_state.h: decoded instructions, and the state of a wave. Private to isa/. */
#ifndef WV_ISA_STATE_H
#define WV_ISA_STATE_H

#include <stdatomic.h>

#include "isa/isa.h"

enum {
  ISA_LANES = 64,
  ISA_VGPRS = 1024,   /* accumulation registers a0.. are 256..511 */
  ISA_SGPRS = 128,    /* including the special ones below */
  ISA_GENERAL = 106,  /* SGPRs that hold what programs put there */
  ISA_PRELOADED = 32, /* SGPRs that a wave may start with arguments in, at most */
  ISA_VCC = 106,
  ISA_TTMP = 108, /* ttmp0 */
  ISA_M0 = 124,
  ISA_NULL = 125, /* reads as 0 */
  ISA_EXEC = 126,
  ISA_ARGS = 6,
  ISA_SPANS = 8,
  ISA_ANY = 0xffff,
};

/* ---- instructions ---- */

typedef enum IsaArgKind {
  ISA_NONE,
  ISA_V,
  ISA_S,
  ISA_IMM,
  ISA_REAL,
  ISA_OFF,
  ISA_SPECIAL
} IsaArgKind;

typedef enum IsaSpecial {
  ISA_SCC,
  ISA_VCCZ,
  ISA_EXECZ,
  ISA_SHARED_BASE,
  ISA_PRIVATE_BASE
} IsaSpecial;

typedef struct IsaArg {
  uint8_t kind;   /* IsaArgKind */
  uint8_t count;  /* registers */
  uint16_t index; /* of the first one, or IsaSpecial */
  bool neg, abs, sext;
  bool is_literal; /* written as hexadecimal digits: a whole word, not an inline constant */
  bool is_wide;    /* two words */
  char half;       /* 'l', 'h': 16 bits of a register; 0: all of it */
  char type;       /* of the row */
  uint8_t select;  /* SDWA: which bits, IsaSelect */
  bool plain;      /* nothing is to be done after reading the registers */
  uint64_t value;  /* of constants, in the operand's type */
  double real;     /* ISA_REAL, until the type is known */
} IsaArg;

typedef enum IsaSelect {
  ISA_DWORD,
  ISA_BYTE_0,
  ISA_BYTE_1,
  ISA_BYTE_2,
  ISA_BYTE_3,
  ISA_WORD_0,
  ISA_WORD_1,
} IsaSelect;

typedef enum IsaUnused { ISA_PAD, ISA_SEXT, ISA_PRESERVE } IsaUnused;

/* Which lane each lane reads its first operand from. */
typedef struct IsaDpp {
  int8_t from[ISA_LANES]; /* -1: there is no such lane */
  uint64_t write;         /* lanes of the row and bank masks */
  bool zero;              /* bound_ctrl: what is missing reads as 0 */
  bool inactive;          /* fi: lanes may be read that do not execute */
} IsaDpp;

typedef struct IsaSpan {
  uint16_t first, count; /* VGPRs, or ISA_VGPRS + SGPRs */
} IsaSpan;

typedef struct IsaWave IsaWave;
typedef struct IsaInstr IsaInstr;
typedef struct IsaRow IsaRow;
typedef void IsaStep(IsaWave *w, const IsaInstr *i);

/* What a vector instruction reads and writes: one array of lanes for each register. */
typedef struct IsaLanes {
  const uint32_t *lo[4], *hi[4];
  uint32_t *to_lo, *to_hi; /* not one of the above */
  uint64_t mask[4];        /* operands with one bit per lane */
  uint64_t to_mask;
  int n;
  IsaWave *w;
  const IsaInstr *i;
} IsaLanes;

typedef void IsaBody(IsaLanes *x);
typedef void IsaScalarBody(IsaWave *w, const IsaInstr *i, uint64_t *d, const uint64_t *s);

struct IsaRow {
  const char *name;    /* without the suffixes of encodings */
  const char *aliases; /* names in other generations, separated by spaces */
  const char *types;   /* "f=ff": destinations and sources, see isa.def */
  IsaStep *step;
  IsaBody *body;
  IsaScalarBody *scalar;
  int param[4]; /* of the step */
};

/* The parameter of a vector instruction whose body does what `clamp` says. */
enum { ISA_OWN_CLAMP = 3 };

/* What an instruction does with values that were never written. */
typedef enum IsaCarries {
  ISA_USES,    /* using them is an error */
  ISA_CARRIES, /* its result, in a register or in scratch memory, is such a value, too */
  ISA_DROPS    /* its result has other parts that are not */
} IsaCarries;

struct IsaInstr {
  IsaStep *step;
  const IsaRow *row;
  IsaArg d[2], s[ISA_ARGS];
  uint8_t nd, ns, nreads, nwrites;
  IsaSpan reads[ISA_SPANS], writes[3];
  int32_t offset, offset1;
  int target; /* of a branch: the index of an instruction; -1: none */
  uint64_t pc, next_pc;
  uint8_t carries; /* IsaCarries */
  bool by_lane;    /* does nothing in lanes that do not execute */
  uint8_t msb;     /* the upper bits of VGPRs, see isa_decode.c */
  uint8_t fills;   /* the counter of a load, plus one; 0: not a load that completes in order */
  bool clamp, offen, idxen, lds, returns, gds;
  bool scales; /* the register of the offset counts elements, not bytes */
  int8_t omod; /* 1: times 2, 2: times 4, -1: half */
  uint8_t op_sel, op_sel_hi, neg_lo, neg_hi;
  uint8_t cbsz, abid, blgp;
  uint8_t table;          /* of bitop3: the result for each combination of three bits */
  uint8_t select, unused; /* SDWA: of the destination */
  bool is_sdwa;
  uint16_t wait[5]; /* by IsaCounter: operations that may remain; ISA_ANY: no wait */
  const IsaDpp *dpp;
  const IsaInstr *other; /* VOPD: the second instruction, executed at the same time */
  const void *plan;      /* of a matrix instruction */
  const char *text;
};

typedef enum IsaGeneration { ISA_GFX9 = 9, ISA_GFX11 = 11, ISA_GFX12 = 12 } IsaGeneration;

struct IsaKernel {
  IsaImage image;
  IsaGeneration generation;
  int lanes;       /* of a wave */
  bool is_fnuz;    /* fp8 without infinities and negative zero: gfx942 */
  bool is_1250;    /* offsets of lanes have a sign, buffers and VGPRs have larger numbers */
  bool has_named;  /* barriers for some of the waves */
  bool keeps_high; /* 16-bit results keep the upper half of the register */
  IsaInstr *code;
  int n;
  _Atomic(uint8_t) *use; /* IsaUse, of each instruction; workgroups run in several threads */
  int removed;           /* an instruction; -1: none */
  IsaInstr kept;         /* as it was */
};

static inline void isa_note(const IsaKernel *k, int at, IsaUse use) {
  if (at >= 0 && !(atomic_load_explicit(&k->use[at], memory_order_relaxed) & use))
    atomic_fetch_or_explicit(&k->use[at], (uint8_t)use, memory_order_relaxed);
}

/* ---- counters ---- */

typedef enum IsaCounter {
  ISA_LOADS,  /* vmcnt, loadcnt; on gfx9 also stores */
  ISA_STORES, /* vscnt, storecnt */
  ISA_DS,     /* LDS: lgkmcnt, dscnt */
  ISA_SMEM,   /* scalar loads: lgkmcnt, kmcnt */
  ISA_ASYNC,  /* copies between memory and LDS: asynccnt */
  ISA_COUNTERS
} IsaCounter;

/* Of the operations of a counter, by number: all up to `most` were waited for, those up to `others`
 * by another instruction than `by` as well. */
typedef struct IsaDone {
  uint32_t most, others;
  int by;
} IsaDone;

/* What had been waited for when a wave signalled a named barrier. */
typedef struct IsaSignal {
  uint32_t time; /* IsaGroup.time */
  IsaDone done[ISA_COUNTERS];
} IsaSignal;

enum { ISA_SIGNALS = 16 };

/* The last atomic operation on LDS of an epoch (+ 1; 0: none). */
typedef struct IsaUpdate {
  uint32_t epoch, number;
} IsaUpdate;

/* The last atomic operation of a wave on a word of LDS, since the first one of its epoch. */
typedef struct IsaAdded {
  bool any;
  uint32_t time; /* IsaGroup.time */
  uint32_t number;
} IsaAdded;

typedef enum IsaReg { ISA_NEVER, ISA_READY, ISA_PENDING } IsaReg;

typedef struct IsaPending {
  uint32_t number; /* of the operation, counted by its counter from 1 */
  uint8_t counter;
  uint32_t unset; /* bits that it loads and that were never written */
  uint32_t at;    /* index of the instruction */
} IsaPending;

/* ---- waves and workgroups ---- */

typedef enum IsaWaveState {
  ISA_RUNNING,
  ISA_WAITING, /* for the workgroup */
  ISA_MEETING, /* at a named barrier */
  ISA_ENDED
} IsaWaveState;

enum { ISA_WAVES = 32, ISA_BARRIERS = 64 }; /* of a workgroup, at most */

typedef struct IsaGroup IsaGroup;

struct IsaWave {
  uint32_t (*v)[ISA_LANES];
  uint32_t s[ISA_SGPRS];
  bool scc;
  int pc; /* index of the next instruction */
  const IsaKernel *k;
  IsaGroup *group;
  int index;
  IsaWaveState state;
  bool stop; /* back to the scheduler */
  bool has_signalled;
  uint32_t mode;                           /* MODE register: rounding and denormals */
  uint64_t live;                           /* lanes that exist */
  uint8_t reg[ISA_VGPRS + ISA_SGPRS];      /* IsaReg */
  uint32_t written[ISA_VGPRS + ISA_SGPRS]; /* ISA_NEVER: bits that were written all the same */
  IsaPending pending[ISA_VGPRS + ISA_SGPRS];
  uint32_t issued[ISA_COUNTERS];
  IsaDone done[ISA_COUNTERS];
  IsaDone settled[2][ISA_COUNTERS]; /* `done` at the barrier that ended the last even and odd
                                     * epoch */
  uint32_t epoch;                   /* barriers passed */
  int joined;                       /* a named barrier; 0: none */
  uint32_t phase;                   /* of that barrier, when the wave signalled it last; + 1 */
  uint32_t met[ISA_WAVES];          /* of each wave: what it did before this time is ordered
                                     * before what this wave does */
  IsaSignal signals[ISA_SIGNALS];   /* the last ones to named barriers; a ring */
  uint32_t nsignals;
  IsaUpdate updates[2]; /* of the last even and odd epoch */
  uint64_t executed;
  uint8_t *scratch; /* private memory, lane by lane */
  uint32_t *unset;  /* bits of its words, lane by lane, that were never written */
  uint32_t room[ISA_ARGS][2][ISA_LANES]; /* operands that are not plain registers */
  uint32_t out[2][2][ISA_LANES];
};

/* A word of LDS, or a byte: the wave that wrote it last, and the one that has read it since. */
typedef struct IsaShadow {
  uint32_t number;        /* of the write, by `counter` */
  uint32_t wrote, read;   /* epochs + 1; 0: never */
  uint32_t write_time;    /* IsaGroup.time */
  uint8_t writer, reader; /* waves; ISA_MANY: several */
  uint8_t counter;
  uint8_t readers; /* as `reader`, of all epochs since IsaGroup.run */
  bool is_split;   /* of a word: its bytes count */
  bool is_atomic;  /* the last write */
} IsaShadow;

enum { ISA_MANY = 255 };

/* A barrier for some of the waves. */
typedef struct IsaBarrier {
  uint32_t members, signals; /* waves that complete a phase; that have signalled */
  uint32_t phase;
  uint32_t met[ISA_WAVES]; /* of the waves that have signalled, as IsaWave.met */
} IsaBarrier;

struct IsaGroup {
  const IsaLaunch *launch;
  unsigned id[3];
  uint8_t *lds;
  uint32_t lds_bytes;
  IsaShadow *shadow; /* of words */
  IsaShadow *bytes;  /* of split words */
  uint32_t *reads;   /* if there are named barriers: of each shadow and wave, the time + 1 of the
                      * wave's last read in the epoch `IsaShadow.read`; 0: none */
  IsaAdded *added;   /* if there are named barriers: of each word and wave */
  IsaWave *waves;
  int nwaves;
  int barrier;   /* the instruction that ended the last epoch; -1: waves waited at several */
  uint32_t run;  /* the first epoch since which `barrier` ended all of them */
  uint32_t time; /* signals to named barriers */
  IsaBarrier named[ISA_BARRIERS];
  const IsaRange *last; /* that was accessed: accesses come in clusters */
  IsaFault *fault;
};

struct IsaMachine {
  IsaGroup group;
};

/* ---- isa_run.c ---- */

/* Sets the registers with which the waves of a workgroup start. */
void isa_start(IsaGroup *g, const IsaLaunch *l, const unsigned id[3], IsaFault *fault);

/* ---- isa_table.c ---- */

const IsaRow *isa_find(const char *name, size_t n);

/* ---- the rows of each family ---- */

typedef struct IsaRows {
  const IsaRow *at;
  int n;
} IsaRows;

IsaRows isa_scalar_rows(void);
IsaRows isa_vector_rows(void);
IsaRows isa_compare_rows(void);
IsaRows isa_lane_rows(void);
IsaRows isa_memory_rows(void);
IsaRows isa_lds_rows(void);
IsaRows isa_wait_rows(void);
IsaRows isa_matrix_rows(void);
IsaRows isa_flow_rows(void);

/* ---- isa_decode.c ---- */

bool isa_modifier(Arena *a, IsaInstr *i, const char *word, int lanes);
bool isa_matrix_plan(Arena *a, const IsaKernel *k, IsaInstr *i);
void isa_matrix_step(IsaWave *w, const IsaInstr *i);
/* Operands that are not registers and numbers: what s_waitcnt waits for, the field of s_setreg. */
bool isa_parse_own(IsaInstr *i, const char *rest);
bool isa_scalar_name(const char *s, size_t n, IsaArg *a); /* s7, vcc_lo: a register of 32 bits */
bool isa_parse_wait(IsaInstr *i, const char *rest);
bool isa_is_branch(const IsaRow *row);
/* Whether `i` is s_set_vgpr_msb or the like; if so, its two bits for each of four operands. */
bool isa_sets_msb(const IsaInstr *i, uint8_t *msb);
void isa_nothing_step(IsaWave *w, const IsaInstr *i);

/* ---- isa_operand.c ---- */

static inline uint64_t isa_exec(const IsaWave *w) {
  return w->s[ISA_EXEC] | (uint64_t)w->s[ISA_EXEC + 1] << 32;
}

uint64_t isa_read_scalar(const IsaWave *w, const IsaArg *a);
void isa_write_scalar(IsaWave *w, const IsaArg *a, uint64_t value);
uint64_t isa_read_mask(const IsaWave *w, const IsaArg *a);
void isa_write_mask(IsaWave *w, const IsaArg *a, uint64_t mask);
/* Word `word` of a vector operand, for all lanes. */
const uint32_t *isa_lanes(IsaWave *w, const IsaInstr *i, int arg, int word);
bool isa_is_half(char type); /* 16 bits of a register */
/* Whether the result is a half of a VGPR whose other half is kept. */
bool isa_keeps_half(const IsaWave *w, const IsaInstr *i, bool *high);
/* Writes the lanes of `mask`. */
void isa_commit(IsaWave *w, const IsaArg *d, int word, const uint32_t *from, uint64_t mask);
void isa_vector_step(IsaWave *w, const IsaInstr *i);
/* Reads the operands of a vector instruction and calls its body; results stay in w->out[which]. */
uint64_t isa_compute(IsaWave *w, const IsaInstr *i, int which, uint64_t *mask);

/* ---- ready/isa_wait.c ---- */

uint32_t isa_issue(IsaWave *w, IsaCounter c);
/* The destination's registers are filled by operation `number`. */
void isa_fill(IsaWave *w, const IsaArg *d, int count, IsaCounter c, uint32_t number);
/* Are all registers that the instruction touches ready? False after reporting. */
bool isa_ready(IsaWave *w, const IsaInstr *i);
IsaCounter isa_store_counter(const IsaWave *w);
/* Has operation `number` been waited for? A wait is noted as needed if it is the only one. */
static inline bool isa_is_done(const IsaWave *w, const IsaDone *d, uint32_t number) {
  if ((int32_t)(d->most - number) < 0) return false;
  if ((int32_t)(d->others - number) < 0) isa_note(w->k, d->by, ISA_NEEDED);
  return true;
}

/* ---- ready/isa_unset.c ---- */

/* The bits of a result that depend on what was never written; before the instruction. */
uint64_t isa_unset_result(const IsaWave *w, const IsaInstr *i);
uint32_t isa_unset_word(const IsaWave *w, int r); /* the bits of a register */
void isa_unset_set(IsaWave *w, const IsaInstr *i,
                   uint64_t bits); /* after its registers are ready */

/* ---- isa_named.c ---- */

void isa_named_signal(IsaWave *w, uint32_t which, uint32_t members);
void isa_named_wait(IsaWave *w);
/* Lets waves whose barriers are complete continue; false: there are none. */
bool isa_named_release(IsaGroup *g);
void isa_named_stuck(IsaWave *w); /* reports what it waits for */
/* What `other` had waited for when it last signalled, as far as this wave knows. */
const IsaDone *isa_named_done(const IsaWave *w, const IsaWave *other);
/* Has the wave met `other` at a named barrier since that time? */
static inline bool isa_has_met(const IsaWave *w, int other, uint32_t time) {
  return other < ISA_WAVES && (int32_t)(w->met[other] - time) > 0;
}

/* ---- isa_report.c ---- */

void isa_fault(IsaWave *w, IsaFaultKind kind, int lane, const char *fmt, ...) WV_PRINTF(4, 5);

/* ---- memory/ ---- */

/* NULL after reporting that the bytes are not the launch's. */
uint8_t *isa_memory(IsaWave *w, int lane, uint64_t at, uint32_t bytes, bool write);
typedef enum IsaAccess { ISA_READS, ISA_WRITES, ISA_UPDATES /* atomically */ } IsaAccess;
/* LDS, checked and noted as accessed by operation `number` of a counter. */
uint8_t *isa_lds(IsaWave *w, int lane, uint32_t at, uint32_t bytes, IsaAccess access, IsaCounter c,
                 uint32_t number);
/* The addresses of the lanes for the first or second element of a load or store; false: there is no
 * such element. */
bool isa_lds_addresses(const IsaWave *w, const IsaInstr *i, int element, uint32_t *at);
uint64_t isa_scratch_base(void); /* of the buffer that is a wave's scratch memory on gfx9 */

typedef enum IsaAtomic {
  ATOMIC_ADD,
  ATOMIC_SUB,
  ATOMIC_SMIN,
  ATOMIC_UMIN,
  ATOMIC_SMAX,
  ATOMIC_UMAX,
  ATOMIC_AND,
  ATOMIC_OR,
  ATOMIC_XOR,
  ATOMIC_INC,
  ATOMIC_DEC,
  ATOMIC_SWAP,
  ATOMIC_CAS,
  ATOMIC_FADD,
  ATOMIC_FMIN,
  ATOMIC_FMAX,
  ATOMIC_PKF16,
  ATOMIC_PKBF16
} IsaAtomic;

/* False after reporting that an atomic operation cannot be executed on these bytes. */
bool isa_atomic_aligned(IsaWave *w, int lane, const uint8_t *at, int bytes);
/* An operation on 4 or 8 aligned bytes; returns the value before. Other threads of the host may
 * execute atomic operations on the same memory. */
uint64_t isa_atomic(int op, uint8_t *at, int bytes, uint64_t value, uint64_t compare);
/* The bytes that the operation may change: one bit for each. */
unsigned isa_atomic_changes(int op, int bytes, uint64_t value, uint64_t compare);
/* Whether an operation that changes these bytes of a word can be executed on a part of the word. */
bool isa_atomic_splits(unsigned changed);
/* An operation on the bytes `inside` of an aligned word, which include those that it changes. The
 * other bytes are not accessed, and are zero in the result. */
uint64_t isa_atomic_part(int op, uint8_t *at, unsigned inside, uint64_t value, uint64_t compare);

#endif
