/* options.h: the options of a compile by name: what they do, and which contradict each other. */
#ifndef WV_OPTIONS_H
#define WV_OPTIONS_H

#include "base/diag.h"
#include "wave.h"

typedef enum OptionKind { OPTION_WORKS, OPTION_HOLDS, OPTION_IDLE, OPTION_RESULT } OptionKind;
typedef enum OptionFile {
  OPTION_NO_FILE,
  OPTION_READ,
  OPTION_WRITTEN,
  OPTION_READ_OR_IR,
  OPTION_READ_OR_ROWS
} OptionFile;
/* Kinds of machines. */
enum { ON_SIM = 1, ON_CPU = 2, ON_CUDA = 4, ON_HIP = 8, ON_GPU = ON_CUDA | ON_HIP };

/* A row of options.def. */
typedef struct OptionInfo {
  const char *name;
  OptionKind kind;
  const char *text;
  unsigned on; /* 0: all */
  const char *same, *choices, *off, *row;
  OptionFile file;
  bool is_number, is_truth, is_text, is_key;
} OptionInfo;

const OptionInfo *option_at(int i);                /* NULL past the end */
const OptionInfo *option_called(const char *name); /* NULL: there is none */
/* The option that is probably meant by a name that is none's; NULL: it resembles none. */
const char *option_meant(const char *name);

const wv_option *option_given(const wv_options *o, const char *name); /* NULL: it has its default */
const char *option_value(const wv_options *o, const char *name);      /* the same */
const char *option_text(const wv_options *o, const char *name);       /* NULL if it is not on */
bool option_is(const wv_options *o, const char *name, const char *value);
bool option_is_on(const wv_options *o, const char *name);
/* Of READ_OR_IR and READ_OR_ROWS: the text, not the name of a file. */
bool option_is_content(const OptionInfo *row, const char *value);

/* The first value that is not allowed, or two that exclude each other, as a sentence; NULL: none. */
const char *options_mistake(Arena *a, const wv_options *o);
/* Reports a file, or the folder of one, that does not exist (E0618). */
bool options_find_files(Diags *diags, Span at, const wv_options *o);

/* A sentence for each option that was set and changes nothing on this machine, in `out`, which has
 * room for one more than there are options. Returns how many. Names without a row are left out. */
int options_unused(Arena *a, const wv_options *o, const wv_machine *m, const char **out);

#endif
