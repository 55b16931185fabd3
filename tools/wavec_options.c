/* wavec_options.c: the command line: a table of options, which also has the help text. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wavec.h"

typedef enum OptionKind { OPTION_FLAG, OPTION_WORD, OPTION_LIST } OptionKind;

typedef enum Command { COMPILES = 1, RUNS = 2, COUNTS = 4 } Command;

typedef struct Option {
  const char *name, *value;
  OptionKind kind;
  size_t field;        /* offset in Options */
  unsigned commands;   /* Command: the commands that accept it */
  const char *choices; /* "a|b", or NULL: anything */
  const char *help;
} Option;

#define FLAG(field) OPTION_FLAG, offsetof(Options, field)
#define WORD(field) OPTION_WORD, offsetof(Options, field)
#define LIST(field) OPTION_LIST, offsetof(Options, field)
#define BOTH (COMPILES | RUNS)
#define EVERY (COMPILES | RUNS | COUNTS)
#define HEADING(text, commands)                                                                    \
  { text, NULL, OPTION_FLAG, 0, commands, NULL, NULL }

static const Option options[] = {
    HEADING("Output:", EVERY),
    {"emit", "KIND", WORD(emit), BOTH,
     "wave|schedule|schedule-html|schedule-svg|schedule-json|explain|explain-html|ptx|llvm|asm|obj|"
     "hsaco|c|program|none",
     "wave: the kernel as text (default without run); schedule: how its loops are pipelined "
     "(docs/schedules.md), -html, -svg, -json: drawn; explain: what was decided about each line, "
     "and why, "
     "-html: as a page; ptx: for an NVIDIA target; llvm, asm, obj: "
     "for a CPU, not necessarily this one, or an AMD GPU; hsaco: a code object for an AMD GPU; c: "
     "compiled for the target, as a pair of C files (docs/gpu.md); program: the same, but write "
     "nothing; none: only check"},
    {"fast-math", NULL, FLAG(fast_math), EVERY, NULL,
     "faster, less accurate math functions on devices (docs/numerics.md)"},
    {"o", "FILE", WORD(output), EVERY, NULL, "write to FILE instead of standard output"},
    {"proof", NULL, FLAG(proof), BOTH, NULL,
     "for each access, print which bounds are proved and which are checked; after the pass `sync`, "
     "also whether each loop orders its accesses"},
    {"set", "SYM=EXPR", LIST(set), EVERY, NULL,
     "bind a symbol; overrides a `bind` row of the header"},

    HEADING("Running:", RUNS),
    {"target", "NAME", WORD(target), RUNS, NULL,
     "eval (default): the reference evaluator; sim:NAME: simulate a machine of --list=targets lane "
     "by lane, with every check; sim: simulate gfx942; emu:NAME: AMD machine code, executed here; "
     "cpu: the CPU of this machine; cuda, sm_90a: "
     "a GPU"},
    {"arg", "NAME=VALUE", LIST(arg), BOTH, NULL,
     "an argument: a .npy file (row- or column-major), or a number, for a scalar or for every "
     "element of a tensor; types that NumPy lacks (bf16, f8e4m3fn) are stored as integers of the "
     "same width"},
    {"seed", "N", WORD(seed), BOTH, NULL,
     "random seed for arguments that are not given (default 1)"},
    {"data", "KIND", WORD(data), BOTH, "distinct|exact",
     "values of those arguments: distinct (default): all elements differ; exact: small multiples "
     "of 1/8, whose sums are exact in any order"},
    {"out", "NAME=FILE", LIST(out), RUNS, NULL, "write a tensor to a .npy file after the run"},
    {"show", "NAME", LIST(show), RUNS, NULL, "print the elements of a tensor or log"},

    HEADING("Simulating:", RUNS),
    {"schedule", "HOW", WORD(schedule), RUNS, NULL,
     "order of the waves: round (default), reverse, first, last, random or random:SEED"},
    {"nonfinite", NULL, FLAG(nonfinite), RUNS, NULL, "report where infinities and NaNs appear"},
    {"costs", NULL, FLAG(costs), RUNS, NULL, "print the cost of each source line"},
    {"json", "FILE", WORD(json), RUNS, NULL,
     "write findings and counters as JSON (-: standard output)"},
    {"html", "FILE", WORD(html), RUNS, NULL, "write a self-contained HTML report"},

    HEADING("Passes:", EVERY),
    {"target", "NAME", WORD(target), COMPILES | COUNTS, NULL,
     "compile for this target; see --list=targets"},
    {"schedule", "FILE", WORD(schedule), COMPILES | COUNTS, NULL,
     "pin how loops are pipelined: rows that --emit=schedule wrote, or edited ones"},
    {"schedules", "N", WORD(schedules), COMPILES, NULL,
     "print the N best schedules that are found for its loops, each as a file for --schedule"},
    {"choices", "N", WORD(choices), COMPILES, NULL,
     "print N of the tiles that are compared where symbols of tiles have no value"},
    {"passes", "A,B", WORD(passes), BOTH, NULL,
     "run these passes in this order; `all`: the whole pipeline"},
    {"start-after", "PASS", WORD(start_after), EVERY, NULL,
     "the file is a dump made after this pass: run the passes after it"},
    {"stop-after", "PASS", WORD(stop_after), BOTH, NULL, "stop after this pass"},
    {"dump", "A,B", WORD(dump), BOTH, NULL,
     "print the kernel after these passes; `all`: after every pass"},
    {"dump-before", "A,B", WORD(dump_before), BOTH, NULL, "print the kernel before these passes"},
    {"verify", "WHEN", WORD(verify), BOTH, "each|last",
     "verify the kernel after each pass, or after the last"},
    {"time", NULL, FLAG(time), BOTH, NULL, "print the time of each pass"},
    {"check-passes", NULL, FLAG(check_passes), COMPILES, NULL,
     "run the kernel after each pass and compare the results"},

    HEADING("Information:", EVERY),
    {"list", "TABLE", WORD(list), BOTH,
     "ops|passes|targets|devices|diagnostics|mma|dtypes|environment", "print a table"},
    {"explain", "CODE", WORD(explain), BOTH, NULL, "explain a diagnostic, such as E0203"},
    {"version", NULL, FLAG(version), BOTH, NULL, "print the version"},
    {"help", NULL, FLAG(help), EVERY, NULL,
     "print this help; `wavec run --help`: options for running"},
};
enum { NOPTIONS = sizeof options / sizeof *options };

static bool is_heading(const Option *o) { return !o->help; }

bool complain(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fputs("wavec: ", stderr);
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  va_end(ap);
  return false;
}

bool split_word(const char *word, const char *name, const char **rest) {
  size_t n = strlen(name);
  if (strncmp(word, name, n) != 0 || (word[n] != '=' && word[n])) return false;
  *rest = word[n] ? word + n + 1 : word + n;
  return true;
}

void push_word(WordList *list, const char *word) {
  const char **at = realloc(list->at, sizeof *at * ((size_t)list->n + 1));
  if (!at) abort();
  at[list->n++] = word;
  list->at = at;
}

static const Option *find_option(const char *name, size_t len, unsigned commands) {
  for (int i = 0; i < NOPTIONS; i++)
    if (!is_heading(&options[i]) && options[i].commands & commands &&
        strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0)
      return &options[i];
  return NULL;
}

static bool unknown_option(const char *word, const char *name, size_t len, unsigned command) {
  const char *names[NOPTIONS];
  int n = 0;
  const Option *elsewhere = find_option(name, len, EVERY);
  if (elsewhere && command == COMPILES)
    return complain("--%s is an option of `run`: use wavec run FILE --%s", elsewhere->name,
                    elsewhere->name);
  if (elsewhere)
    return complain("--%s is not an option of `%s`", elsewhere->name,
                    command == RUNS ? "run" : "loops");
  for (int i = 0; i < NOPTIONS; i++)
    if (!is_heading(&options[i])) names[n++] = options[i].name;
  char typed[64];
  snprintf(typed, sizeof typed, "%.*s", (int)len, name);
  const char *near = wv_nearest(typed, names, n);
  if (near) return complain("unknown option %s: did you mean --%s?", word, near);
  return complain("unknown option %s: see wavec --help", word);
}

/* One of the words of "a|b|c". */
static bool is_choice(const Option *o, const char *value) {
  size_t n = strlen(value);
  for (const char *at = o->choices; at; at = strchr(at, '|'), at = at ? at + 1 : NULL)
    if (strcspn(at, "|") == n && memcmp(at, value, n) == 0) return true;
  return !o->choices || complain("--%s must be one of %s, not `%s`", o->name, o->choices, value);
}

static bool store(Options *all, const Option *o, const char *value) {
  void *field = (char *)all + o->field;
  if (o->kind == OPTION_FLAG) return *(bool *)field = true;
  if (!is_choice(o, value)) return false;
  if (o->kind == OPTION_LIST) push_word(field, value);
  else *(const char **)field = value;
  return true;
}

static unsigned command_of(const Options *o) {
  return o->run ? RUNS : o->loops ? COUNTS : COMPILES;
}

/* --name, --name=value, --name value, -o value; *i advances past what was consumed. */
static bool take_option(Options *all, int argc, char **argv, int *i) {
  const char *word = argv[*i], *name = word + (word[1] == '-' ? 2 : 1);
  size_t len = strcspn(name, "=");
  unsigned command = command_of(all);
  if (strcmp(word, "-h") == 0) name = "help", len = 4;
  const Option *o = find_option(name, len, command);
  if (!o) return unknown_option(word, name, len, command);
  const char *value = name[len] ? name + len + 1 : NULL;
  if (o->kind == OPTION_FLAG && value) return complain("--%s takes no value", o->name);
  if (o->kind != OPTION_FLAG && !value) {
    if (*i + 1 >= argc) return complain("--%s needs a value: %s", o->name, o->value);
    value = argv[++*i];
  }
  return store(all, o, value);
}

bool parse_options(Options *all, int argc, char **argv) {
  int i = 1;
  if (argc > 1 && strcmp(argv[1], "run") == 0) all->run = true, i++;
  else if (argc > 1 && strcmp(argv[1], "loops") == 0) all->loops = true, i++;
  for (; i < argc; i++) {
    if (argv[i][0] != '-' || !argv[i][1]) push_word(&all->files, argv[i]);
    else if (!take_option(all, argc, argv, &i)) return false;
  }
  return true;
}

void free_options(Options *o) {
  WordList *lists[] = {&o->set, &o->arg, &o->out, &o->show, &o->files};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free(lists[i]->at);
}

/* ---- help ---- */

/* A help text in lines of at most 76 columns, all except the first indented. */
/* Breaks lines between words, which `between` separates. */
static void print_wrapped(const char *text, char between) {
  enum { INDENT = 23, WIDTH = 76 };
  int at = 0;
  while (*text) {
    int word = (int)strcspn(text, (char[]){between, '\0'});
    bool breaks = at && at + 1 + word > WIDTH;
    if (at && !(breaks && between == ' ')) at += printf("%c", between);
    if (breaks) printf("\n%*s", INDENT, ""), at = 0;
    at += printf("%.*s", word, text);
    text += word + (text[word] == between);
  }
  putchar('\n');
}

static void print_option(const Option *o) {
  char left[64];
  const char *dashes = o->name[1] ? "--" : "-";
  const char *gap = o->kind == OPTION_LIST || !o->name[1] ? " " : "=";
  snprintf(left, sizeof left, "%s%s%s%s", dashes, o->name, o->value ? gap : "",
           o->value ? o->value : "");
  printf("  %-20s ", left);
  print_wrapped(o->help, ' ');
  if (!o->choices || strlen(o->choices) <= 12) return;
  printf("  %-20s ", "");
  print_wrapped(o->choices, '|');
}

static const char compile_help[] =
    "wavec [options] FILE.wave...        check and print kernels in text form (docs/ir.md)\n"
    "wavec run FILE.wave... [options]    run them; see `wavec run --help`\n"
    "wavec loops FILE.hsaco|FILE.wave    what limits loops of AMD code; see `wavec loops --help`\n"
    "wavec cache list|verify|clear       manage the cache of compiled programs\n"
    "wavec again FILE.wave               repeat a call that failed with an internal error\n"
    "\n"
    "If FILE is -, read standard input.\n";
static const char compile_examples[] =
    "  wavec gemm.wave                            check and print it\n"
    "  wavec gemm.wave --passes=bind,simplify     print it after these passes\n"
    "  wavec gemm.wave --target=cpu --passes=all --emit=llvm     code for this CPU\n"
    "  wavec gemm.wave --dump=all --time          print every step and its time\n"
    "  wavec run gemm.wave --target sim:gfx942    simulate it with every check\n"
    "  wavec --explain E0203                      explain a diagnostic\n";
static const char run_help[] =
    "wavec run FILE.wave... [options]\n"
    "\n"
    "Run kernels and summarise the results. Arguments that are not given are generated from a\n"
    "seed; sizes that the header does not bind come from --set or from the .npy files. A tile\n"
    "kernel is lowered for the target first; a `thread kernel` runs as it is.\n";
static const char run_examples[] =
    "  wavec run gemm.wave --set M=64 --set N=64 --set K=32 --show c\n"
    "  wavec run gemm.wave --target cpu --arg a=a.npy --arg b=b.npy --out c=c.npy\n"
    "  wavec run gemm.wave --target sim:gfx942    simulate it with every check\n"
    "  wavec run gemm.wave --target sim:sm_90a --html=report.html --schedule=random:7\n"
    "  wavec run gemm.wave --target cuda          run it on the first GPU\n";

static const char loops_help[] =
    "wavec loops FILE.hsaco|FILE.wave... [options]\n"
    "\n"
    "Print the loops with matrix instructions of code objects for AMD GPUs: instructions by kind,\n"
    "registers, waves per SIMD, and for how many cycles an iteration of a wave occupies each unit\n"
    "of the machine (docs/amd.md). Any code object is read; kernels in text form are compiled for\n"
    "--target first.\n";
static const char loops_examples[] = "  wavec loops gemm.wave --target gfx942\n"
                                     "  wavec loops gemm.hsaco\n";

void print_help(const Options *o) {
  unsigned command = command_of(o);
  const char *help = o->run ? run_help : o->loops ? loops_help : compile_help;
  const char *examples = o->run ? run_examples : o->loops ? loops_examples : compile_examples;
  puts(help);
  for (int i = 0, shown = 0; i < NOPTIONS; i++) {
    const Option *row = &options[i];
    if (!(row->commands & command)) continue;
    if (is_heading(row)) printf("%s%s\n", shown++ ? "\n" : "", row->name);
    else print_option(row);
  }
  printf("\nExamples:\n%s", examples);
  puts("\nExit status: 0 success, 1 errors were reported, 2 invalid command line.");
}
