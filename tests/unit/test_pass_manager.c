/* test_pass_manager.c: everything around a pass: analyses, verification, dumps, times, options. */
#include "transform/pass_manager.h"
#include "unit/harness.h"

static const char *const text = "kernel @k(%a: mem<M, f32>)\n"
                                "  workgroup M by B on 0\n"
                                "  hardware threads 64\n"
                                "  bind B = 16\n"
                                "{\n"
                                "  %x = read %a : tile<M, f32>\n"
                                "  %y = neg %x : tile<M, f32>\n"
                                "  %z = add %y, %x : tile<M, f32>\n"
                                "  write %x, %a\n"
                                "}\n";

static Kernel *parse(Context *cx, const char *source) {
  KernelList list = ir_parse(cx, "<test>", source, cx->arena);
  return list.n == 1 ? list.at[0] : NULL;
}

typedef struct Written {
  Arena *arena;
  StrBuf passes; /* their names, in order */
  const char *last, *times;
} Written;

static void collect(void *user, const char *pass, const char *written) {
  Written *w = user;
  if (!pass) {
    w->times = arena_strdup(w->arena, written);
    return;
  }
  sb_printf(&w->passes, "%s ", pass);
  w->last = arena_strdup(w->arena, written);
}

static bool run(Kernel *k, PassOptions o, Written *w) {
  *w = (Written){.arena = k->cx->arena, .passes = {.arena = k->cx->arena}};
  o.write = collect;
  o.user = w;
  return passes_run(k, &o);
}

TEST(dumps_parse_again) {
  Context *cx = context_new();
  Kernel *k = parse(cx, text);
  Written w;
  CHECK(run(k, (PassOptions){.passes = "bind,dce", .dump = "all", .time = true}, &w));
  CHECK_STR(sb_text(&w.passes), "bind dce ");
  CHECK(strncmp(w.last, "# after dce\n", 12) == 0);
  CHECK(strstr(w.last, "workgroup M by 16 on 0") && !strstr(w.last, "neg"));
  CHECK(strstr(w.times, "bind") && strstr(w.times, "dce") && strstr(w.times, "total"));
  Kernel *again = parse(cx, w.last);
  CHECK(again && ir_equal(k, again));
  kernel_free(again);
  kernel_free(k);
  context_free(cx);
}

TEST(stops_where_asked) {
  Context *cx = context_new();
  Kernel *k = parse(cx, text);
  Written w;
  PassOptions o = {.passes = "dce,bind,cse", .stop_after = "bind", .dump = "dce,bind,cse"};
  CHECK(run(k, o, &w));
  CHECK_STR(sb_text(&w.passes), "dce bind ");
  kernel_free(k);
  context_free(cx);
}

/* A name in several rows: those of the right level run; the pipeline stops at the first of them. */
TEST(a_name_in_several_rows) {
  static const char *const lane = "thread kernel @k(%a: mem<M, f32>)\n"
                                  "  launch grid (1) block (1) wave 1\n"
                                  "{\n"
                                  "  %o = expr 0*$T0 + 3 : i32\n"
                                  "  %p = expr 3 : i32\n"
                                  "  %x = load %a, %o : f32\n"
                                  "  store %x, %a, %p\n"
                                  "}\n";
  Context *cx = context_new();
  Kernel *k = parse(cx, text), *thread = parse(cx, lane);
  Written w;
  CHECK(run(k, (PassOptions){.passes = "bind,cse,dce", .dump = "all"}, &w));
  CHECK_STR(sb_text(&w.passes), "bind cse dce ");
  CHECK(run(k, (PassOptions){.stop_after = "cse", .dump = "all"}, &w));
  CHECK_STR(sb_text(&w.passes), "choose logs split bind simplify padding cse ");
  CHECK(run(thread, (PassOptions){.stop_after = "cse", .dump = "all"}, &w));
  CHECK_STR(sb_text(&w.passes),
            "bind simplify skip peel unroll guards legalise once fold wheels share cse ");
  CHECK(w.last && !strstr(w.last, "%p"));
  kernel_free(k);
  kernel_free(thread);
  context_free(cx);
}

/* A row for other machines is skipped: it gives no dump, and the last that runs is verified. */
TEST(two_pipelines) {
  static const char *const both = "logs,bind,promote,layouts,mask,version,lower_tiles,sync,fold";
  static const struct {
    const char *target, *run;
  } cases[] = {{NULL, "logs bind promote layouts mask version sync "},
               {"sm_90a", "logs bind promote layouts mask version sync "},
               {"cpu", "logs bind mask lower_tiles fold "}};
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    Context *cx = context_new();
    Kernel *k = parse(cx, text);
    Written w;
    CHECK(run(k, (PassOptions){.passes = both, .dump = "all", .target = cases[i].target}, &w));
    CHECK_STR(sb_text(&w.passes), cases[i].run);
    kernel_free(k);
    context_free(cx);
  }
}

TEST(unknown_passes_are_reported) {
  Context *cx = context_new();
  Kernel *k = parse(cx, text);
  Written w;
  CHECK(!run(k, (PassOptions){.passes = "bind,dcee"}, &w));
  CHECK(cx->diags.last && cx->diags.last->code == DIAG_E0604);
  CHECK_STR(cx->diags.last->hint, "did you mean `dce`?");
  CHECK(!run(k, (PassOptions){.dump = "everything"}, &w));
  CHECK(!run(k, (PassOptions){.passes = "bind", .stop_after = "cse"}, &w));
  CHECK_INT(cx->diags.errors, 3);
  kernel_free(k);
  context_free(cx);
}

/* An op that uses a value defined after it, as a careless pass might leave it. */
static void break_order(Kernel *k) {
  Op *read = ir_first(k), *neg = read->next;
  ir_remove(read);
  ir_insert_before(neg->next, read);
}

TEST(invalid_ir_names_the_pass) {
  Context *cx = context_new();
  Kernel *k = parse(cx, text);
  break_order(k);
  Written w;
  CHECK(!run(k, (PassOptions){.passes = "bind,licm", .verify_each = true}, &w));
  const Diag *d = cx->diags.last;
  CHECK(d && d->code == DIAG_I0001);
  CHECK_STR(d->text, "invalid IR after `bind`");
  CHECK(d->notes && strstr(d->notes->text, "%y = neg %x"));
  kernel_free(k);
  context_free(cx);
}

/* Without verify_each only the result of the last pass is verified. */
TEST(the_last_pass_is_always_verified) {
  Context *cx = context_new();
  Kernel *k = parse(cx, text);
  break_order(k);
  Written w;
  CHECK(!run(k, (PassOptions){.passes = "bind,licm"}, &w));
  CHECK_STR(cx->diags.last->text, "invalid IR after `licm`");
  kernel_free(k);
  context_free(cx);
}

TEST(facts_are_kept_until_broken) {
  Context *cx = context_new();
  Kernel *k = parse(cx, text);
  ir_renumber(k);
  Facts f = {.arena = arena_new()};
  facts_supply(&f, k, FACT_uses);
  const int *uses = f.uses;
  CHECK_INT(uses[k->body->args[0]->id], 2);                   /* %a: read, write */
  CHECK_INT(uses[ir_first(k)->results[0].id], 3);             /* %x: neg, add, write */
  CHECK_INT(uses[ir_first(k)->next->next->results[0].id], 0); /* %z */
  facts_supply(&f, k, FACT_uses | FACT_header);
  CHECK(f.uses == uses && f.header);
  facts_drop(&f, FACT_header);
  CHECK(f.uses == uses && !f.header);
  facts_drop(&f, FACT_ALL);
  CHECK(!f.uses && !f.valid);
  arena_free(f.arena);
  kernel_free(k);
  context_free(cx);
}

/* An analysis brings what it needs, and is dropped with it; a pass sees only what its row names. */
TEST(facts_depend_on_each_other) {
  Context *cx = context_new();
  Kernel *k = parse(cx, text);
  ir_renumber(k);
  Facts f = facts_of(k, arena_new(), FACT_in_bounds);
  CHECK(f.in_bounds && f.standing && f.distribute && f.header && !f.uniform && !f.uses);
  CHECK(f.standing->d == f.distribute && f.distribute->facts == f.header); /* computed once */
  const Distribution *d = f.distribute;
  facts_supply(&f, k, FACT_uniform);
  CHECK(f.uniform && f.distribute == d);
  Facts only = facts_only(&f, FACT_uniform | FACT_uses);
  CHECK(only.uniform && !only.distribute && !only.in_bounds && only.valid == FACT_uniform);
  facts_drop(&f, FACT_standing);
  CHECK(f.uniform && f.distribute && !f.standing && !f.in_bounds);
  facts_drop(&f, FACT_header);
  CHECK(!f.valid && !f.uniform);
  arena_free(f.arena);
  kernel_free(k);
  context_free(cx);
}

/* A tile that takes most registers, so that `divide` lowers a copy. */
static const char *const large =
    "kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f16>)\n"
    "  workgroup M by 256 on 0; workgroup N by 192 on 1; tile K by 32; wave M by 64\n"
    "  hardware threads 128; bind M = 4096; bind N = 4096; bind K = 1000\n"
    "{\n"
    "  %z = fill 0.0 : tile<M, N, f32>\n"
    "  %r = for K carry %acc = %z {\n"
    "    %x = read %a\n"
    "    %y = read %b\n"
    "    %n = mma %x, %y, %acc\n"
    "    yield %n\n"
    "  }\n"
    "  %h = cast %r : tile<M, N, f16>\n"
    "  write %h, %c\n"
    "}\n";

static void count_pass(void *user, Kernel *k) {
  (void)k;
  ++*(int *)user;
}

static int count_diags(const Context *cx) {
  int n = 0;
  for (const Diag *d = cx->diags.first; d; d = d->next) n++;
  return n;
}

/* What a pass has lowered on a copy is taken as it is, unless somebody looks at what is between. */
TEST(a_lowered_copy_is_the_kernel) {
  int passes = 0;
  Context *cx = context_new(), *other = context_new();
  Kernel *k = parse(cx, large), *each = parse(other, large);
  CHECK(k && each);
  CHECK(passes_run(k, &(PassOptions){.target = "sm_90a"}));
  CHECK(passes_run(each, &(PassOptions){.target = "sm_90a", .after = count_pass, .user = &passes}));
  CHECK(passes > 40);
  CHECK_INT(k->level, LEVEL_THREAD);
  StrBuf one = {.arena = cx->arena}, two = {.arena = other->arena};
  ir_print(&one, k);
  ir_print(&two, each);
  CHECK_STR(sb_text(&one), sb_text(&two));
  CHECK_INT(count_diags(cx), count_diags(other));
  kernel_free(k);
  kernel_free(each);
  context_free(cx);
  context_free(other);
}

TESTS_MAIN(RUN(dumps_parse_again) RUN(stops_where_asked) RUN(a_name_in_several_rows)
               RUN(two_pipelines) RUN(unknown_passes_are_reported) RUN(invalid_ir_names_the_pass)
                   RUN(the_last_pass_is_always_verified) RUN(facts_are_kept_until_broken)
                       RUN(facts_depend_on_each_other) RUN(a_lowered_copy_is_the_kernel))
