/* loops_copies.c: which moves of a loop only carry accumulators from one register to another.
 *
 * The instructions are followed in the order of the code, around the loop; branches inside it are
 * ignored. */
#include <stdlib.h>
#include <string.h>

#include "isa/loops/loops.h"

enum { FILES = 2, REGISTERS = 1024 }; /* v and a */

typedef struct Registers {
  int file, first, last; /* file -1: not registers */
} Registers;

/* v5, v[4:7], a0: operand `n` of an instruction. */
static Registers operand_of(const char *text, int n) {
  static const Registers none = {-1, 0, 0};
  const char *at = text + strcspn(text, " ");
  for (; n && *at; n--) at += 1 + strcspn(at + 1, ",");
  at += strspn(at, " ,");
  if (*at != 'v' && *at != 'a') return none;
  const char *digits = at + 1 + (at[1] == '[');
  char *end;
  Registers r = {*at == 'a', (int)strtol(digits, &end, 10), 0};
  if (end == digits) return none;
  r.last = *end == ':' ? (int)strtol(end + 1, NULL, 10) : r.first;
  return r.first >= 0 && r.last < REGISTERS ? r : none;
}

static bool overlap(Registers a, Registers b) {
  return a.file >= 0 && a.file == b.file && a.first <= b.last && b.first <= a.last;
}

static bool is_move(const char *text) {
  bool moves = strncmp(text, "v_accvgpr_", 10) == 0 || strncmp(text, "v_mov_b", 7) == 0;
  return moves && operand_of(text, 1).file >= 0;
}

/* What the instruction writes. */
static Registers result_of(const LoopInstr *i) {
  bool stores = strstr(i->text, "_store") || strncmp(i->text, "ds_write", 8) == 0;
  return stores ? (Registers){-1, 0, 0} : operand_of(i->text, 0);
}

/* Does a matrix instruction accumulate in the register before anything else touches it? */
static bool is_accumulated(const LoopCode *code, int loop, int from, Registers r) {
  enum { OPERANDS = 4, ACCUMULATOR = 3 };
  for (int n = 1; n < code->n; n++) {
    const LoopInstr *i = &code->at[(from + n) % code->n];
    if (i->loop != loop) continue;
    if (i->kind == LOOP_MATRIX && overlap(operand_of(i->text, ACCUMULATOR), r)) return true;
    for (int o = 0; o < OPERANDS; o++)
      if (overlap(operand_of(i->text, o), r)) return false;
  }
  return false;
}

typedef struct Products {
  bool has[FILES][REGISTERS]; /* written last by a matrix instruction */
} Products;

static bool has_product(const Products *p, Registers r) {
  for (int i = r.first; r.file >= 0 && i <= r.last; i++)
    if (p->has[r.file][i]) return true;
  return false;
}

static void set_product(Products *p, Registers r, bool is_product) {
  for (int i = r.first; r.file >= 0 && i <= r.last; i++) p->has[r.file][i] = is_product;
}

int loops_copies(const LoopCode *code, int loop) {
  Products p = {0};
  int copies = 0;
  for (int round = 0; round < 2; round++) /* the first only finds what the second begins with */
    for (int i = 0; i < code->n; i++) {
      const LoopInstr *at = &code->at[i];
      if (at->loop != loop) continue;
      bool moves = is_move(at->text), carries = moves && has_product(&p, operand_of(at->text, 1));
      if (round && moves)
        copies += carries || is_accumulated(code, loop, i, operand_of(at->text, 0));
      set_product(&p, result_of(at), at->kind == LOOP_MATRIX || carries);
    }
  return copies;
}
