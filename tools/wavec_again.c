/* wavec_again.c: `wavec again FILE`: repeats a call that ended with an internal error. The first
 * line of the file is a comment with the options:
 *
 *     # wavec again: --passes=all --target=sm_90a */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wavec.h"

static const char head[] = "# wavec again:";
enum { LINE = 4096 };

/* The words of the line, which point into it; the program's name first, the file last. */
static char **split_line(char *line, char *program, char *path, int *n) {
  char **words = calloc(strlen(line) + 3, sizeof *words);
  if (!words) abort();
  words[(*n)++] = program;
  for (char *word = strtok(line, " \t\r\n"); word; word = strtok(NULL, " \t\r\n"))
    words[(*n)++] = word;
  words[(*n)++] = path;
  return words;
}

bool again_words(int argc, char **argv, Again *out) {
  if (argc != 3) return complain("`again` takes one file, saved by an internal error");
  FILE *f = fopen(argv[2], "r");
  if (!f) return complain("cannot read %s: %s", argv[2], strerror(errno));
  out->line = calloc(1, LINE);
  bool read = out->line && fgets(out->line, LINE, f);
  fclose(f);
  if (!read || strncmp(out->line, head, strlen(head)) != 0)
    return complain("%s does not begin with `%s`", argv[2], head);
  out->argc = 0;
  out->argv = split_line(out->line + strlen(head), argv[0], argv[2], &out->argc);
  return true;
}

void again_free(Again *a) {
  free(a->argv);
  free(a->line);
}
