/* environment.h: the environment variables of environment.def, and their values. Variables are read
 * when they are needed: nothing is remembered. An empty value is the same as none. */
#ifndef WV_ENVIRONMENT_H
#define WV_ENVIRONMENT_H

#include "base/diag.h"

typedef enum Variable {
#define VARIABLE(reader, kind, name, text) VARIABLE_##name,
#include "base/environment/environment.def"
  VARIABLE_COUNT
} Variable;

typedef enum VariableReader { READER_ANY, READER_PYTHON, READER_TOOLS, READER_NONE } VariableReader;
typedef enum VariableKind { KIND_TEXT, KIND_SWITCH, KIND_COUNT, KIND_SOME, KIND_SIZE } VariableKind;

typedef struct VariableInfo {
  const char *name; /* with WAVE_ */
  VariableReader reader;
  VariableKind kind;
  const char *text;
} VariableInfo;

extern const VariableInfo environment_table[VARIABLE_COUNT];

Variable environment_find(const char *name); /* VARIABLE_COUNT: there is none */

const char *environment_text(Variable v); /* NULL: it is not set */
/* The value of one that is not TEXT; `otherwise` if it is not set, or not valid. */
int64_t environment_number(Variable v, int64_t otherwise);
bool environment_is_valid(Variable v); /* also if it is not set */

/* "200M": an integer number of bytes, or of K, M or G (1024, ...). False: not a size. */
bool environment_parse_size(const char *text, int64_t *bytes);

/* Reports names that begin with WAVE_ and are unknown, and values that are not valid (W0902). */
void environment_check(Diags *diags);

#endif
