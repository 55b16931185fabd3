/* isa_table.c: finds the row of an instruction by its name. */
#include <string.h>

#include "isa/isa_state.h"

static bool is_among(const char *words, const char *name, size_t n) {
  for (const char *at = words; *at;) {
    size_t length = strcspn(at, " ");
    if (length == n && strncmp(at, name, n) == 0) return true;
    at += length;
    at += *at == ' ';
  }
  return false;
}

const IsaRow *isa_find(const char *name, size_t n) {
  IsaRows (*const families[])(void) = {
      isa_scalar_rows, isa_vector_rows, isa_compare_rows, isa_lane_rows, isa_memory_rows,
      isa_lds_rows,    isa_wait_rows,   isa_matrix_rows,  isa_flow_rows,
  };
  for (size_t f = 0; f < WV_LEN(families); f++) {
    IsaRows rows = families[f]();
    for (int r = 0; r < rows.n; r++) {
      const IsaRow *row = &rows.at[r];
      bool same = strncmp(row->name, name, n) == 0 && !row->name[n];
      if (same || is_among(row->aliases, name, n)) return row;
    }
  }
  return NULL;
}
