/* api_environment.c: environment variables, through wave.h. */
#include "base/environment/environment.h"
#include "driver/api/api.h"

bool wv_variable_row(int i, wv_variable_info *out) {
  API_PLAIN;
  static const char *const readers[] = {"any", "Python", "tools", "none"};
  static const char *const kinds[] = {"text", "switch", "count", "some", "size"};
  if (i < 0 || i >= VARIABLE_COUNT) return false;
  const VariableInfo *row = &environment_table[i];
  *out = (wv_variable_info){row->name, readers[row->reader], kinds[row->kind], row->text};
  return true;
}

const char *wv_variable_text(const char *name) {
  API_PLAIN;
  Variable v = name ? environment_find(name) : VARIABLE_COUNT;
  return v == VARIABLE_COUNT ? NULL : environment_text(v);
}

int64_t wv_variable_number(const char *name, int64_t otherwise) {
  API_PLAIN;
  Variable v = name ? environment_find(name) : VARIABLE_COUNT;
  return v == VARIABLE_COUNT ? otherwise : environment_number(v, otherwise);
}

void wv_variables_check(wv_ctx *cx) {
  API_CHANGES(cx);
  environment_check(&cx->cx->diags);
}
