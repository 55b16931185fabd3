/* sim_matrix.c: moves matrices between shared memory and registers: 8x8 ones of 16-bit units, and
 * those of target/matrices.c.
 *
 * Lane 8i + r addresses row r of matrix i: 16 bytes. Register i of lane 4r + c holds units 2c and
 * 2c + 1 of row r of matrix i; transposed, unit r of rows 2c and 2c + 1. For ordering, a unit is
 * read or written by the lane that holds it, not by the one that addressed its row: the lanes of a
 * wave are separate threads. */
#include "backend/sim/sim_state.h"
#include "target/banks.h"
#include "target/matrices.h"

enum { ROWS = 8, ROW_BYTES = 16 };

typedef struct Matrices {
  Wave *w;
  SimOp *s;
  const Buffer *b;
  const Value *v;
  int count, per; /* matrices; elements of a lane in each */
  int64_t row[64];
  uint64_t named; /* lanes that address an accessible row */
  bool transposed;
  const MatrixForm *form; /* NULL: 8x8 matrices */
} Matrices;

static int row_bytes(const Matrices *m) { return m->form ? m->form->row / 8 : ROW_BYTES; }

static void count_cost(const Matrices *m) {
  int address[BANK_LANES];
  Sim *sim = m->w->sim;
  for (int l = 0; l < sim->wave; l++)
    address[l] = m->named >> l & 1 ? (int)buffer_address(m->b, m->row[l]) : -1;
  bool is_read = op_info[m->s->op->kind].flags & OPF_READS;
  m->s->cost.shared++;
  m->s->cost.conflicts +=
      (uint64_t)bank_cost(sim->machine, address, sim->wave, row_bytes(m), is_read).conflicts;
}

/* Memory and offset are operands `at` and `at` + 1. */
static Matrices open_matrices(Wave *w, SimOp *s, const Value *v, int at) {
  const Op *op = s->op;
  Matrices m = {.w = w, .s = s, .b = w->sim->buffer[op->args[at]->id], .v = v};
  int bits = dtype_info[m.b->dtype].bits;
  if (op_has(op, ATTR_columns)) m.form = matrix_form(w->sim->wave, bits);
  int elements = 8 * row_bytes(&m) / bits;
  m.per = 32 / bits;
  m.count = v->type->n / m.per;
  m.transposed = op_has(op, ATTR_transposed);
  wave_full(w, s);
  const Attr *imm = op_attr(op, ATTR_imm);
  uint64_t naming = m.form ? w->mask : w->mask & ((UINT64_C(1) << ROWS * m.count) - 1);
  wave_check_use(w, s, op->args[at + 1], naming, "an address");
  EACH_LANE(l, naming & ~wave_undef(w, op->args[at + 1])[0]) {
    m.row[l] = wave_regs(w, op->args[at + 1])[l].i + (imm ? imm->integer : 0);
    bool fits = access_inside(w, s, m.b, m.row[l], l) &&
                access_inside(w, s, m.b, m.row[l] + elements - 1, l) &&
                access_aligned(w, s, m.b, m.row[l], row_bytes(&m), l);
    m.named |= (uint64_t)fits << l;
  }
  count_cost(&m);
  w->sim->stamp++;
  return m;
}

/* The element of memory that register e of a lane corresponds to; -1: its row is not accessible. */
static int64_t element_of(const Matrices *m, int lane, int e) {
  int matrix = e / m->per, within = e % m->per, unit = m->per / 2;
  int row = lane / 4, column = lane % 4 * m->per + within;
  if (m->form) {
    MatrixSource from = matrix_source(m->form, e, lane);
    return m->named >> from.lane & 1 ? m->row[from.lane] + from.element : -1;
  }
  if (m->transposed) {
    row = lane % 4 * 2 + within / unit;
    column = lane / 4 * unit + within % unit;
  }
  int naming = ROWS * matrix + row;
  return m->named >> naming & 1 ? m->row[naming] + column : -1;
}

Step step_ldmatrix(Wave *w, SimOp *s) {
  const Value *v = &s->op->results[0];
  Matrices m = open_matrices(w, s, v, 0);
  const unsigned char *data = buffer_bytes(w->group, m.b);
  for (int e = 0; e < v->type->n; e++) {
    Reg *r = wave_regs(w, v) + (size_t)e * (size_t)w->sim->wave;
    uint64_t undef = 0;
    EACH_LANE(l, w->mask) {
      int64_t element = element_of(&m, l, e);
      r[l] = reg_from_bits(m.b->dtype, element < 0 ? 0 : dtype_load(m.b->dtype, data, element));
      if (element < 0) continue;
      Actor a = actor_lane(w, s, l, false);
      shadow_read(&a, m.b, element);
      undef |= (uint64_t)!sim_is_written(w->group, m.b, element) << l;
    }
    wave_undef(w, v)[e] = undef;
  }
  return STEP_NEXT;
}

Step step_stmatrix(Wave *w, SimOp *s) {
  const Value *v = s->op->args[0];
  Matrices m = open_matrices(w, s, v, 1);
  unsigned char *data = buffer_bytes(w->group, m.b);
  DType t = m.b->dtype;
  wave_check_use(w, s, v, w->mask, "a stored value");
  for (int e = 0; e < v->type->n; e++) {
    const Reg *r = wave_regs(w, v) + (size_t)e * (size_t)w->sim->wave;
    EACH_LANE(l, w->mask) {
      int64_t element = element_of(&m, l, e);
      if (element < 0) continue;
      uint64_t bits = reg_bits(t, r[l]);
      Actor a = actor_lane(w, s, l, false);
      bool same = sim_is_written(w->group, m.b, element) && dtype_load(t, data, element) == bits;
      shadow_write(&a, m.b, element, same);
      w->sim->events += !same;
      dtype_store(t, data, element, bits);
      sim_mark_written(w->group, m.b, element);
    }
  }
  return STEP_NEXT;
}
