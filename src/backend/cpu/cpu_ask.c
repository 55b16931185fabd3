/* cpu_ask.c: what a kernel asks its launch while it runs (runtime/cpu/cpu_watch.h): whether to
 * continue, at intervals during a loop; and, where it waits, whether any thread is left that could
 * end the wait. */
#include "backend/cpu/cpu_state.h"

/* ---- rounds ---- */
/* Returns from the function unless `go`. */
static void go_on_if(Llvm *p, const char *go, const char *result) {
  const char *on = llvm_label(p, "on"), *stop = llvm_label(p, "stop");
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", go, on, stop);
  llvm_block(p, stop);
  llvm_line(p, "ret i32 %s", result);
  llvm_block(p, on);
}

/* The number of iterations until the next check. The call does not access the kernel's memory, so
 * values may stay in registers across it. */
static const char *ask_after(Llvm *p, const char *rounds) {
  llvm_declare(p, "declare i64 @cpu_watch_ask(ptr, i64) cold nounwind willreturn "
                  "memory(argmem: readwrite, inaccessiblemem: readwrite)");
  const char *next = llvm_let(p, "call i64 @cpu_watch_ask(ptr %%watch, i64 %s)", rounds);
  go_on_if(p, llvm_let(p, "icmp ne i64 %s, 0", next),
           arena_printf(p->arena, "%d", CPU_CODE_GIVEN_UP));
  return next;
}

void cpu_ask(Llvm *p) { ask_after(p, "1"); }

/* A stack slot initialised to `value`, which LLVM promotes to a register. */
static const char *new_counter(Llvm *p, const char *name, int value) {
  const char *slot = arena_printf(p->arena, "%%%s%d", name, p->cpu->counters);
  sb_printf(&p->cpu->opening, "  %s = alloca i64, align 8\n  store i64 %d, ptr %s, align 8\n", slot,
            value, slot);
  return slot;
}

void cpu_round(Llvm *p, int ask) {
  const char *left = new_counter(p, "left", ask), *span = new_counter(p, "span", ask);
  const char *asking = llvm_label(p, "ask"), *again = llvm_label(p, "again");
  p->cpu->counters++;
  const char *before = llvm_let(p, "load i64, ptr %s, align 8", left);
  const char *rest = llvm_let(p, "sub i64 %s, 1", before);
  llvm_line(p, "store i64 %s, ptr %s, align 8", rest, left);
  const char *more = llvm_let(p, "icmp ne i64 %s, 0", rest);
  llvm_line(p, "br i1 %s, label %%%s, label %%%s", more, again, asking);
  llvm_block(p, asking);
  const char *next = ask_after(p, llvm_let(p, "load i64, ptr %s, align 8", span));
  llvm_line(p, "store i64 %s, ptr %s, align 8", next, left);
  llvm_line(p, "store i64 %s, ptr %s, align 8", next, span);
  llvm_line(p, "br label %%%s", again);
  llvm_block(p, again);
}

/* ---- waiting ---- */

/* The loop whose iterations repeat an op in its region. */
static const Op *loop_around(const Op *op) {
  const Op *outer = op->parent->owner;
  while (outer && outer->kind != OP_while) outer = outer->parent->owner;
  return outer;
}

static bool looks_for(const Region *r, const Op *loop) {
  for (const Op *op = r->first; op; op = op->next) {
    bool looks = op->kind == OP_load || op->kind == OP_atomic;
    if (looks && op_has(op, ATTR_volatile) && loop_around(op) == loop) return true;
    if (op->body && looks_for(op->body, loop)) return true;
  }
  return false;
}

bool cpu_is_waiting(const Op *op) { return op->kind == OP_while && looks_for(op->body, op); }

/* Nothing visible to others changes; symbols are private to the thread. */
static bool changes_nothing(const Region *r) {
  for (const Op *op = r->first; op; op = op->next) {
    bool own = op->kind == OP_set_symbol;
    if (!own && op_info[op->kind].flags & (OPF_WRITES | OPF_SYNC)) return false;
    if (op->body && !changes_nothing(op->body)) return false;
  }
  return true;
}

bool cpu_only_looks(const Op *op) {
  for (int i = 0; i < op->body->nargs; i++)
    if (!llvm_is_integer(op->body->args[i]) || !llvm_is_integer(op->body->last->args[i]))
      return false;
  return changes_nothing(op->body);
}

static int new_wait(Llvm *p, const Op *op, const char *what) {
  vec_push(p->arena, &p->cpu->waits, ((CpuWait){op->at, what}));
  return p->cpu->waits.n - 1;
}

static void go_on_unless(Llvm *p, const char *result) {
  go_on_if(p, llvm_let(p, "icmp eq i32 %s, 0", result), result);
}

void cpu_wait(Llvm *p, const Op *op, const char *changed) {
  int wait = new_wait(p, op, "waits for memory that no other thread changes");
  llvm_declare(p, "declare i32 @cpu_watch_wait(ptr, i32, i32) nounwind");
  const char *flag = llvm_let(p, "zext i1 %s to i32", changed);
  go_on_unless(p, llvm_let(p, "call i32 @cpu_watch_wait(ptr %%watch, i32 %s, i32 %d)", flag, wait));
}

void cpu_meet(Llvm *p, const Op *op, const char *bar, int members, bool arrive) {
  int wait = new_wait(p, op, "waits at a barrier that not all waves reach");
  llvm_declare(p, "declare i32 @cpu_watch_meet(ptr, i32, i32, i32, i32) nounwind");
  const char *which = llvm_let(p, "trunc i64 %s to i32", bar);
  go_on_unless(p,
               llvm_let(p, "call i32 @cpu_watch_meet(ptr %%watch, i32 %s, i32 %d, i32 %d, i32 %d)",
                        which, members, arrive, wait));
}

/* For a loop that waits: the last iteration found something new. */
static const char *has_changed(Llvm *p, const Op *op) {
  const char *all = "false";
  if (!cpu_only_looks(op)) return "true";
  for (int i = 0; i < op->body->nargs; i++) {
    const char *a = llvm_index_of(p, op->body->args[i]);
    const char *b = llvm_index_of(p, op->body->last->args[i]);
    all = llvm_let(p, "or i1 %s, %s", all, llvm_let(p, "icmp ne i64 %s, %s", a, b));
  }
  return all;
}

void cpu_end_of_while(Llvm *p, const Op *op) {
  if (!p->failed && cpu_is_waiting(op)) cpu_wait(p, op, has_changed(p, op));
  cpu_round(p, 16);
}
