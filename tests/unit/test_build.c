/* test_build.c: the builder, type inference and the verifier: what they accept and what they
 * report.
 */
#include "ir/attr.h"
#include "ir/build/build.h"
#include "unit/harness.h"

typedef struct Fixture {
  Context *cx;
  Builder *b;
  const Sym *m, *n, *k, *bm;
  Value *a, *bt, *c; /* mem<M, K, f16>, mem<N, K, f16>, mem<M, N, f32> */
} Fixture;

static const Sym *sy(Fixture *f, const char *name) { return sym_symbol(f->cx->sym, name, true); }
static const Sym *num(Fixture *f, int64_t v) { return sym_int(f->cx->sym, v); }

static const Type *tile2(Fixture *f, const Sym *x, const Sym *y, DType d) {
  return type_tile(f->cx, (const Sym *[]){x, y}, 2, d);
}
static const Type *tile1(Fixture *f, const Sym *x, DType d) {
  return type_tile(f->cx, (const Sym *[]){x}, 1, d);
}
static const Type *mem2(Fixture *f, const Sym *x, const Sym *y, DType d) {
  return type_mem(f->cx, (const Sym *[]){x, y}, 2, d, NULL, NULL);
}

/* Rows of a plain GEMM: 64x64 workgroups of 2x2 waves, K by 32. */
static void gemm_rows(Fixture *f) {
  Constraint rows[] = {
      {.kind = CONSTRAINT_workgroup, .workgroup = {.dim = f->m, .size = num(f, 64), .axis = 0}},
      {.kind = CONSTRAINT_workgroup, .workgroup = {.dim = f->n, .size = num(f, 64), .axis = 1}},
      {.kind = CONSTRAINT_tile, .tile = {.dim = f->k, .size = num(f, 32)}},
      {.kind = CONSTRAINT_wave, .wave = {.dim = f->m, .size = num(f, 32)}},
      {.kind = CONSTRAINT_wave, .wave = {.dim = f->n, .size = num(f, 32)}},
      {.kind = CONSTRAINT_hardware,
       .hardware = {.threads = 64, .mma = {.name = "F32_16x16x16_F16"}}},
  };
  for (size_t i = 0; i < WV_LEN(rows); i++) build_constraint(f->b, rows[i]);
}

static void begin(Fixture *f, bool rows) {
  *f = (Fixture){.cx = context_new()};
  f->b = builder_new(f->cx, "test", (Span){0});
  f->m = sy(f, "M"), f->n = sy(f, "N"), f->k = sy(f, "K"), f->bm = sy(f, "BLOCK_M");
  if (rows) gemm_rows(f);
  f->a = build_param(f->b, "a", mem2(f, f->m, f->k, DTYPE_f16), NULL, (Span){0});
  f->bt = build_param(f->b, "b", mem2(f, f->n, f->k, DTYPE_f16), NULL, (Span){0});
  f->c = build_param(f->b, "c", mem2(f, f->m, f->n, DTYPE_f32), NULL, (Span){0});
}

static Value *op_(Fixture *f, OpKind kind, Value **args, int n, const Attr *attrs, int nattrs,
                  const Type *given) {
  Op *op = build_op(f->b, kind, (Span){0}, args, n, attrs, nattrs, given);
  return op && op->nresults ? &op->results[0] : NULL;
}
static Value *op0(Fixture *f, OpKind kind, Attr attr, const Type *given) {
  return op_(f, kind, NULL, 0, &attr, 1, given);
}
static Value *op1(Fixture *f, OpKind kind, Value *x, const Type *given) {
  return op_(f, kind, &x, 1, NULL, 0, given);
}
static Value *op2(Fixture *f, OpKind kind, Value *x, Value *y) {
  return op_(f, kind, (Value *[]){x, y}, 2, NULL, 0, NULL);
}
static Value *fill(Fixture *f, double v, const Type *t) {
  return op0(f, OP_fill, (Attr){.key = ATTR_value, .number = v}, t);
}
static Attr attr_dim(AttrKey key, const Sym *d) { return (Attr){.key = key, .sym = d}; }

/* The code of the only diagnostic, and the end of a test. */
#define EXPECT_ERROR(f, want)                                                                      \
  do {                                                                                             \
    CHECK_INT((f)->cx->diags.errors, 1);                                                           \
    if ((f)->cx->diags.first) CHECK_STR(diag_info[(f)->cx->diags.first->code].code, #want);        \
    if ((f)->b) builder_free((f)->b);                                                              \
    context_free((f)->cx);                                                                         \
  } while (0)

static Kernel *finish(Fixture *f) {
  Kernel *k = build_finish(f->b);
  f->b = NULL;
  return k;
}

TEST(gemm_builds_and_verifies) {
  Fixture f;
  begin(&f, true);
  Value *zero = fill(&f, 0, tile2(&f, f.m, f.n, DTYPE_f32));
  Attr axis = attr_dim(ATTR_axis, f.k);
  CHECK(build_begin(f.b, OP_for, (Span){0}, &zero, 1, &axis, 1));
  Value *x = op1(&f, OP_read, f.a, NULL), *y = op1(&f, OP_read, f.bt, NULL);
  CHECK(x && x->type == tile2(&f, f.m, f.k, DTYPE_f16));
  Value *acc = op_(&f, OP_mma, (Value *[]){x, y, build_region(f.b)->args[0]}, 3, NULL, 0, NULL);
  Op *loop = build_end(f.b, &acc, 1, (Span){0});
  CHECK(loop && loop->nresults == 1);
  if (loop)
    build_op(f.b, OP_write, (Span){0}, (Value *[]){&loop->results[0], f.c}, 2, NULL, 0, NULL);
  Kernel *k = finish(&f);
  CHECK(k != NULL);
  CHECK_INT(f.cx->diags.errors, 0);
  Kernel *copy = kernel_clone(k);
  CHECK(ir_equal(k, copy));
  op_set_attr(copy, copy->body->last, (Attr){.key = ATTR_ept, .sym = num(&f, 4)});
  CHECK(!ir_equal(k, copy));
  kernel_free(k);
  CHECK(ir_verify(copy)); /* a clone owns everything it needs */
  kernel_free(copy);
  context_free(f.cx);
}

TEST(types_are_interned_and_checked) {
  Fixture f;
  begin(&f, true);
  CHECK(tile2(&f, f.m, f.n, DTYPE_f32) == tile2(&f, f.m, f.n, DTYPE_f32));
  CHECK(tile2(&f, f.m, f.n, DTYPE_f32) != tile2(&f, f.n, f.m, DTYPE_f32));
  CHECK(tile2(&f, f.m, f.m, DTYPE_f32) == NULL); /* matched by name: not twice */
  const Sym *half = sym_div(f.cx->sym, f.k, num(&f, 2));
  CHECK(dim_base(half) == f.k);
  CHECK(tile2(&f, f.k, half, DTYPE_i8) == NULL);
  const Sym *product = sym_mul(f.cx->sym, f.m, f.n);
  CHECK(dim_base(product) == product); /* a dimension of its own */
  const Sym *many[IR_MAX_RANK + 1];
  for (int i = 0; i <= IR_MAX_RANK; i++) many[i] = sy(&f, (char[]){(char)('a' + i), 0});
  CHECK(type_tile(f.cx, many, IR_MAX_RANK, DTYPE_f32) != NULL);
  CHECK(type_tile(f.cx, many, IR_MAX_RANK + 1, DTYPE_f32) == NULL);
  CHECK(type_tile(f.cx, NULL, 0, DTYPE_f32) == type_scalar(f.cx, DTYPE_f32));
  Arena *s = arena_new();
  const Type *mem = type_mem(f.cx, (const Sym *[]){f.m, half}, 2, DTYPE_i8, sy(&f, "SPACE"),
                             (const Sym *[]){NULL, num(&f, 64)});
  CHECK_STR(type_text(s, f.cx, mem), "mem<M, K/2, i8, space(SPACE), layout(_, 64)>");
  arena_free(s);
  builder_free(f.b);
  context_free(f.cx);
}

/* ---- shapes ---- */

TEST(elementwise_takes_the_larger_shape) {
  Fixture f;
  begin(&f, true);
  const Type *mn = tile2(&f, f.m, f.n, DTYPE_f32), *nm = tile2(&f, f.n, f.m, DTYPE_f32);
  Value *big = fill(&f, 1, mn), *row = fill(&f, 1, tile1(&f, f.n, DTYPE_f32));
  Value *turned = fill(&f, 1, nm);
  Value *one =
      op0(&f, OP_scalar, (Attr){.key = ATTR_value, .number = 1}, type_scalar(f.cx, DTYPE_f32));
  CHECK(op2(&f, OP_add, big, row)->type == mn);
  CHECK(op2(&f, OP_add, row, big)->type == mn);
  CHECK(op2(&f, OP_add, big, turned)->type == nm); /* the same dims: the second order */
  CHECK(op2(&f, OP_mul, big, one)->type == mn);
  CHECK(op2(&f, OP_mul, one, big)->type == mn);
  CHECK(op2(&f, OP_lt, big, row)->type == tile2(&f, f.m, f.n, DTYPE_i1));
  CHECK_INT(f.cx->diags.errors, 0);
  builder_free(f.b);
  context_free(f.cx);
}

TEST(disjoint_shapes_are_an_error) {
  Fixture f;
  begin(&f, true);
  op2(&f, OP_add, fill(&f, 1, tile1(&f, f.m, DTYPE_f32)), fill(&f, 1, tile1(&f, f.n, DTYPE_f32)));
  EXPECT_ERROR(&f, E0302);
}

TEST(overlapping_shapes_are_joined) {
  Fixture f;
  begin(&f, true);
  Value *r = op2(&f, OP_add, fill(&f, 1, tile2(&f, f.m, f.k, DTYPE_f32)),
                 fill(&f, 1, tile2(&f, f.k, f.n, DTYPE_f32)));
  const Type *all = type_tile(f.cx, (const Sym *[]){f.k, f.n, f.m}, 3, DTYPE_f32);
  CHECK(r && r->type == all);
  builder_free(f.b);
  context_free(f.cx);
}

TEST(conditions_of_apply_expr_are_truth_values) {
  Fixture f;
  begin(&f, true);
  Value *i = fill(&f, 1, tile1(&f, f.m, DTYPE_i32));
  const Sym *x = sym_symbol(f.cx->sym, "$APPLY_EXPR_ARG_0", false);
  Attr less = {.key = ATTR_expr, .sym = sym_lt(f.cx->sym, x, f.m)};
  Attr more = {.key = ATTR_expr, .sym = sym_add(f.cx->sym, x, f.m)};
  CHECK(op_(&f, OP_apply_expr, &i, 1, &less, 1, NULL)->type == tile1(&f, f.m, DTYPE_i1));
  CHECK(op_(&f, OP_apply_expr, &i, 1, &more, 1, NULL)->type == tile1(&f, f.m, DTYPE_i32));
  builder_free(f.b);
  context_free(f.cx);
}

TEST(dtypes_are_never_promoted) {
  Fixture f;
  begin(&f, true);
  op2(&f, OP_add, fill(&f, 1, tile1(&f, f.m, DTYPE_f32)), fill(&f, 1, tile1(&f, f.m, DTYPE_f16)));
  EXPECT_ERROR(&f, E0301);
}

TEST(float_ops_refuse_integers) {
  Fixture f;
  begin(&f, true);
  op1(&f, OP_exp2, fill(&f, 1, tile1(&f, f.m, DTYPE_i32)), NULL);
  EXPECT_ERROR(&f, E0311);
}

TEST(memory_is_not_a_value) {
  Fixture f;
  begin(&f, true);
  op2(&f, OP_add, f.a, f.a);
  EXPECT_ERROR(&f, E0310);
}

TEST(mma_roles_are_found_by_name) {
  Fixture f;
  begin(&f, true);
  const Type *lhs = tile2(&f, f.m, f.k, DTYPE_f16), *rhs = tile2(&f, f.n, f.k, DTYPE_f16);
  const Sym *batch = sy(&f, "B");
  const Type *blhs = type_tile(f.cx, (const Sym *[]){batch, f.m, f.k}, 3, DTYPE_f16);
  const Type *bacc = type_tile(f.cx, (const Sym *[]){batch, f.m, f.n}, 3, DTYPE_f32);
  MmaRoles roles;
  Kernel *k = builder_kernel(f.b);
  CHECK(!ir_mma_roles(k, lhs, rhs, tile2(&f, f.m, f.n, DTYPE_f32), &roles) && roles.k == f.k);
  CHECK(!ir_mma_roles(k, blhs, rhs, bacc, &roles) && roles.m == f.m && roles.n == f.n);
  CHECK(ir_mma_roles(k, lhs, rhs, tile2(&f, f.n, f.m, DTYPE_f32), &roles) != NULL);
  CHECK(ir_mma_roles(k, lhs, lhs, tile2(&f, f.m, f.n, DTYPE_f32), &roles) != NULL);
  CHECK(ir_mma_roles(k, lhs, rhs, tile1(&f, f.m, DTYPE_f32), &roles) != NULL);
  builder_free(f.b);
  context_free(f.cx);
}

TEST(mma_that_does_not_fit_is_an_error) {
  Fixture f;
  begin(&f, true);
  Value *x = op1(&f, OP_read, f.a, NULL), *y = op1(&f, OP_read, f.bt, NULL);
  Value *acc = fill(&f, 0, tile2(&f, f.n, f.m, DTYPE_f32));
  op_(&f, OP_mma, (Value *[]){x, y, acc}, 3, NULL, 0, NULL);
  EXPECT_ERROR(&f, E0303);
}

TEST(unknown_matrix_instruction_names_the_nearest) {
  Fixture f;
  begin(&f, true);
  Value *x = op1(&f, OP_read, f.a, NULL), *y = op1(&f, OP_read, f.bt, NULL);
  Value *acc = fill(&f, 0, tile2(&f, f.m, f.n, DTYPE_f32));
  MmaChoice choice = {.name = "F32_16x16x15_F16"};
  Attr attr = {.key = ATTR_mma, .mma = &choice};
  op_(&f, OP_mma, (Value *[]){x, y, acc}, 3, &attr, 1, NULL);
  CHECK_STR(f.cx->diags.first->hint, "did you mean `F32_16x16x16_F16`?");
  EXPECT_ERROR(&f, E0210);
}

TEST(reductions_drop_their_dim) {
  Fixture f;
  begin(&f, true);
  Value *x = fill(&f, 1, tile2(&f, f.m, f.n, DTYPE_f32));
  Attr along = attr_dim(ATTR_dim, f.n), first = attr_dim(ATTR_dim, f.m);
  CHECK(op_(&f, OP_sum, &x, 1, &along, 1, NULL)->type == tile1(&f, f.m, DTYPE_f32));
  CHECK(op_(&f, OP_sum, &x, 1, &first, 1, NULL)->type == tile1(&f, f.n, DTYPE_f32));
  Value *row = fill(&f, 1, tile1(&f, f.n, DTYPE_f32));
  CHECK(op_(&f, OP_max, &row, 1, &along, 1, NULL)->type == type_scalar(f.cx, DTYPE_f32));
  Value *args[] = {x, row};
  CHECK(op_(&f, OP_sum, args, 2, &along, 1, NULL) == NULL);
  EXPECT_ERROR(&f, E0317);
}

TEST(reductions_need_a_dim_they_have) {
  Fixture f;
  begin(&f, true);
  Value *x = fill(&f, 1, tile2(&f, f.m, f.n, DTYPE_f32));
  Attr along = attr_dim(ATTR_dim, f.k);
  op_(&f, OP_sum, &x, 1, &along, 1, NULL);
  EXPECT_ERROR(&f, E0308);
}

TEST(bitcast_scales_the_last_dim) {
  Fixture f;
  begin(&f, true);
  const Sym *half = sym_div(f.cx->sym, f.k, num(&f, 2));
  Value *packed = fill(&f, 0, tile2(&f, f.m, half, DTYPE_i8));
  Value *wide = op1(&f, OP_bitcast, packed, type_scalar(f.cx, DTYPE_f4e2m1fn));
  CHECK(wide && wide->type == tile2(&f, f.m, f.k, DTYPE_f4e2m1fn));
  const Sym *three = sym_mul(f.cx->sym, f.k, sym_rational(f.cx->sym, 3, 4));
  Value *bytes = fill(&f, 0, tile2(&f, f.m, three, DTYPE_i8));
  Value *sixes = op1(&f, OP_bitcast, bytes, type_scalar(f.cx, DTYPE_f6e2m3fn));
  CHECK(sixes && sixes->type == tile2(&f, f.m, f.k, DTYPE_f6e2m3fn));
  op1(&f, OP_bitcast, packed, type_scalar(f.cx, DTYPE_f32));
  EXPECT_ERROR(&f, E0307);
}

TEST(bitcast_of_sixes_is_checked) {
  Fixture f;
  begin(&f, true);
  Value *sixes = fill(&f, 0, tile2(&f, f.m, f.k, DTYPE_f6e2m3fn));
  op1(&f, OP_bitcast, sixes, type_scalar(f.cx, DTYPE_f4e2m1fn));
  EXPECT_ERROR(&f, E0307);
}

TEST(broadcast_and_permute_are_checked) {
  Fixture f;
  begin(&f, true);
  const Type *mn = tile2(&f, f.m, f.n, DTYPE_f32);
  Value *row = fill(&f, 1, tile1(&f, f.n, DTYPE_f32)), *x = fill(&f, 1, mn);
  CHECK(op1(&f, OP_broadcast, row, mn)->type == mn);
  CHECK(op1(&f, OP_permute, x, tile2(&f, f.n, f.m, DTYPE_f32)) != NULL);
  CHECK(op1(&f, OP_permute, x, tile2(&f, f.n, f.k, DTYPE_f32)) == NULL);
  EXPECT_ERROR(&f, E0306);
}

TEST(broadcast_to_fewer_dims_is_an_error) {
  Fixture f;
  begin(&f, true);
  op1(&f, OP_broadcast, fill(&f, 1, tile2(&f, f.m, f.n, DTYPE_f32)), tile1(&f, f.n, DTYPE_f32));
  EXPECT_ERROR(&f, E0305);
}

TEST(select_needs_a_truth_value) {
  Fixture f;
  begin(&f, true);
  Value *x = fill(&f, 1, tile1(&f, f.m, DTYPE_i32));
  op_(&f, OP_select, (Value *[]){x, x, x}, 3, NULL, 0, NULL);
  EXPECT_ERROR(&f, E0312);
}

TEST(write_of_extra_dims_is_an_error) {
  Fixture f;
  begin(&f, true);
  const Type *mnk = type_tile(f.cx, (const Sym *[]){f.m, f.n, f.k}, 3, DTYPE_f32);
  build_op(f.b, OP_write, (Span){0}, (Value *[]){fill(&f, 1, mnk), f.c}, 2, NULL, 0, NULL);
  EXPECT_ERROR(&f, E0304);
}

TEST(write_may_drop_dims_of_one_element) {
  Fixture f;
  begin(&f, false);
  const Sym *s = sy(&f, "S");
  SymPair shapes[] = {{s, num(&f, 1)}};
  Constraint hw = {.kind = CONSTRAINT_hardware, .hardware = {.threads = 64, .vector = {shapes, 1}}};
  build_constraint(f.b, hw);
  Value *row = fill(&f, 1, tile2(&f, s, f.n, DTYPE_f32));
  CHECK(build_op(f.b, OP_write, (Span){0}, (Value *[]){row, f.c}, 2, NULL, 0, NULL));
  CHECK_INT(f.cx->diags.errors, 0);
  builder_free(f.b);
  context_free(f.cx);
}

TEST(write_converts_only_what_the_language_converts) {
  Fixture f;
  begin(&f, true);
  Value *half = fill(&f, 1, tile2(&f, f.m, f.n, DTYPE_f16));
  CHECK(build_op(f.b, OP_write, (Span){0}, (Value *[]){half, f.c}, 2, NULL, 0, NULL));
  Value *small = fill(&f, 1, tile2(&f, f.m, f.n, DTYPE_f8e5m2));
  build_op(f.b, OP_write, (Span){0}, (Value *[]){small, f.c}, 2, NULL, 0, NULL);
  EXPECT_ERROR(&f, E0301);
}

/* ---- literals ---- */

TEST(one_constant_has_one_spelling) {
  Fixture f;
  begin(&f, true);
  Value *a =
      op0(&f, OP_fill, (Attr){.key = ATTR_value, .sym = num(&f, 0)}, tile1(&f, f.m, DTYPE_f32));
  Value *b = op0(&f, OP_fill, (Attr){.key = ATTR_value, .number = 1e6}, tile1(&f, f.m, DTYPE_i32));
  CHECK(op_attr(a->def, ATTR_value)->sym == NULL);
  CHECK(op_attr(b->def, ATTR_value)->sym == num(&f, 1000000));
  CHECK(fill(&f, 300, tile1(&f, f.m, DTYPE_i8)) == NULL);
  EXPECT_ERROR(&f, E0315);
}

TEST(literals_take_the_dtype_of_the_other_operand) {
  Fixture f;
  begin(&f, true);
  Value *x = fill(&f, 1, tile1(&f, f.m, DTYPE_f16)), *i = fill(&f, 1, tile1(&f, f.m, DTYPE_i32));
  Value *two = build_literal(f.b, (Number){.is_integer = true, .integer = 2}, x, (Span){0});
  CHECK(two->type == type_scalar(f.cx, DTYPE_f16) && op_attr(two->def, ATTR_value)->number == 2);
  CHECK(build_literal(f.b, (Number){.real = 2.5}, i, (Span){0}) == NULL);
  EXPECT_ERROR(&f, E0315);
}

/* ---- regions ---- */

static bool begin_for(Fixture *f, Value **init, int n) {
  Attr axis = attr_dim(ATTR_axis, f->k);
  return build_begin(f->b, OP_for, (Span){0}, init, n, &axis, 1);
}

TEST(carried_type_must_stay) {
  Fixture f;
  begin(&f, true);
  Value *x = fill(&f, 0, tile1(&f, f.m, DTYPE_f32));
  begin_for(&f, &x, 1);
  Value *half = op1(&f, OP_cast, build_region(f.b)->args[0], type_scalar(f.cx, DTYPE_f16));
  CHECK(build_end(f.b, &half, 1, (Span){0}) == NULL);
  CHECK_STR(f.cx->diags.first->hint, "use `cast` to f32");
  EXPECT_ERROR(&f, E0401);
}

TEST(carried_order_is_put_right) {
  Fixture f;
  begin(&f, true);
  Value *x = fill(&f, 0, tile2(&f, f.m, f.n, DTYPE_f32));
  begin_for(&f, &x, 1);
  Value *turned = op1(&f, OP_permute, build_region(f.b)->args[0], tile2(&f, f.n, f.m, DTYPE_f32));
  Op *loop = build_end(f.b, &turned, 1, (Span){0});
  CHECK(loop && loop->body->last->args[0]->def->kind == OP_permute);
  Kernel *k = finish(&f);
  CHECK(k != NULL);
  kernel_free(k);
  context_free(f.cx);
}

/* Decode kernels loop over U one at a time and return [U, M] for a carried [M]. */
TEST(carried_value_drops_dims_of_one_element) {
  Fixture f;
  begin(&f, true);
  const Sym *u = sy(&f, "U");
  Constraint tile = {.kind = CONSTRAINT_tile, .tile = {.dim = u, .size = num(&f, 1)}};
  build_constraint(f.b, tile);
  Value *x = fill(&f, 0, tile1(&f, f.m, DTYPE_f32));
  Attr axis = attr_dim(ATTR_axis, u);
  build_begin(f.b, OP_for, (Span){0}, &x, 1, &axis, 1);
  Value *wide =
      op2(&f, OP_add, build_region(f.b)->args[0], fill(&f, 1, tile2(&f, u, f.m, DTYPE_f32)));
  Op *loop = build_end(f.b, &wide, 1, (Span){0});
  CHECK(loop && loop->body->last->args[0]->def->kind == OP_squeeze);
  Kernel *k = finish(&f);
  CHECK(k != NULL);
  kernel_free(k);
  context_free(f.cx);
}

TEST(wrong_number_of_results) {
  Fixture f;
  begin(&f, true);
  Value *x = fill(&f, 0, tile1(&f, f.m, DTYPE_f32));
  begin_for(&f, &x, 1);
  CHECK(build_end(f.b, NULL, 0, (Span){0}) == NULL);
  EXPECT_ERROR(&f, E0404);
}

TEST(value_outside_its_region) {
  Fixture f;
  begin(&f, true);
  begin_for(&f, NULL, 0);
  Value *inside = fill(&f, 0, tile1(&f, f.m, DTYPE_f32));
  build_end(f.b, NULL, 0, (Span){0});
  op1(&f, OP_exp2, inside, NULL);
  EXPECT_ERROR(&f, E0402);
}

TEST(loop_over_an_untiled_dim) {
  Fixture f;
  begin(&f, true);
  Attr axis = attr_dim(ATTR_axis, f.n);
  build_begin(f.b, OP_for, (Span){0}, NULL, 0, &axis, 1);
  build_end(f.b, NULL, 0, (Span){0});
  CHECK(finish(&f) == NULL);
  EXPECT_ERROR(&f, E0211);
}

TEST(mistakes_are_reported_once) {
  Fixture f;
  begin(&f, true);
  Value *bad = op2(&f, OP_add, f.a, f.a);
  Value *more = op1(&f, OP_exp2, bad, NULL);
  CHECK(op2(&f, OP_add, more, bad) == NULL);
  CHECK(finish(&f) == NULL);
  EXPECT_ERROR(&f, E0310);
}

/* ---- symbols ---- */

static Value *integer(Fixture *f, int64_t v) {
  return op0(f, OP_scalar, (Attr){.key = ATTR_value, .sym = num(f, v)},
             type_scalar(f->cx, DTYPE_i32));
}

static Op *set_symbol(Fixture *f, const Sym *s, Value *v) {
  Attr attr = attr_dim(ATTR_symbol, s);
  return build_op(f->b, OP_set_symbol, (Span){0}, &v, 1, &attr, 1, NULL);
}

static const Sym *scalar_meaning(Fixture *f, const Sym *s) {
  Value *v = op0(f, OP_scalar, (Attr){.key = ATTR_value, .sym = s}, type_scalar(f->cx, DTYPE_i32));
  return op_attr(v->def, ATTR_value)->sym;
}

TEST(set_symbol_opens_versions_with_scope) {
  Fixture f;
  begin(&f, true);
  const Sym *len = sy(&f, "LEN");
  CHECK(scalar_meaning(&f, len) == len);
  set_symbol(&f, len, integer(&f, 3));
  CHECK_STR(sym_name(scalar_meaning(&f, len)), "LEN.2");
  begin_for(&f, NULL, 0);
  CHECK_STR(sym_name(scalar_meaning(&f, len)), "LEN.2");
  set_symbol(&f, len, integer(&f, 4));
  CHECK_STR(sym_name(scalar_meaning(&f, len)), "LEN.3");
  build_end(f.b, NULL, 0, (Span){0});
  CHECK_STR(sym_name(scalar_meaning(&f, len)), "LEN.2"); /* the outer one is back */
  set_symbol(&f, len, integer(&f, 5));
  CHECK_STR(sym_name(scalar_meaning(&f, len)), "LEN.4");
  Kernel *k = finish(&f);
  CHECK(k != NULL);
  kernel_free(k);
  context_free(f.cx);
}

TEST(scalar_of_the_axis_is_the_iteration) {
  Fixture f;
  begin(&f, true);
  begin_for(&f, NULL, 0);
  CHECK_STR(sym_name(scalar_meaning(&f, f.k)), "$ARGK");
  build_end(f.b, NULL, 0, (Span){0});
  CHECK(scalar_meaning(&f, f.k) == f.k);
  builder_free(f.b);
  context_free(f.cx);
}

static bool begin_while(Fixture *f, Value *start) {
  Attr attrs[] = {attr_dim(ATTR_axis, f->k),
                  {.key = ATTR_expr, .sym = sym_lt(f->cx->sym, f->k, num(f, 10))}};
  return build_begin(f->b, OP_while, (Span){0}, &start, 1, attrs, 2);
}

TEST(while_loop_carries_its_axis) {
  Fixture f;
  begin(&f, true);
  CHECK(begin_while(&f, integer(&f, 0)));
  CHECK_STR(sym_name(scalar_meaning(&f, f.k)), "K.2");
  Value *next = integer(&f, 7);
  set_symbol(&f, f.k, next);
  Op *loop = build_end(f.b, NULL, 0, (Span){0});
  CHECK(loop && loop->nresults == 0 && loop->body->last->args[0] == next);
  CHECK_STR(sym_text(builder_kernel(f.b)->arena, op_attr(loop, ATTR_expr)->sym),
            "signed(K.2) < 10");
  Kernel *k = finish(&f);
  CHECK(k != NULL);
  kernel_free(k);
  context_free(f.cx);
}

TEST(while_loop_must_advance) {
  Fixture f;
  begin(&f, true);
  begin_while(&f, integer(&f, 0));
  build_end(f.b, NULL, 0, (Span){0});
  EXPECT_ERROR(&f, E0405);
}

TEST(the_compilers_own_symbols_cannot_be_set) {
  Fixture f;
  begin(&f, true);
  set_symbol(&f, sy(&f, "$T0"), integer(&f, 1));
  EXPECT_ERROR(&f, E0407);
}

TEST(set_symbol_takes_integers) {
  Fixture f;
  begin(&f, true);
  set_symbol(&f, sy(&f, "X"), fill(&f, 1, tile1(&f, f.m, DTYPE_f32)));
  EXPECT_ERROR(&f, E0407);
}

/* ---- mappings ---- */

TEST(mapping_iterators_may_rename_dimensions) {
  Fixture f;
  begin(&f, true);
  const Sym *i = sy(&f, "$index0"), *j = sy(&f, "$index1");
  SymPair in[] = {{f.m, i}, {f.k, j}}, out[] = {{f.n, i}, {f.k, j}};
  CHECK(build_check_mapping(f.cx, &(Mapping){2, {in, 2}, {out, 2}, NULL, 0}, (Span){0}));
  SymPair both[] = {{f.m, i}, {f.n, i}};
  CHECK(build_check_mapping(f.cx, &(Mapping){1, {both, 2}, {out, 1}, NULL, 0}, (Span){0}));
  CHECK(build_check_mapping(f.cx, &(Mapping){1, {out, 1}, {both, 2}, NULL, 0}, (Span){0}));
  CHECK_INT(f.cx->diags.errors, 0);
  builder_free(f.b);
  context_free(f.cx);
}

TEST(mapping_iterators_are_one_dimension_of_the_register) {
  Fixture f;
  begin(&f, true);
  const Sym *i = sy(&f, "$index0");
  SymPair both[] = {{f.m, i}, {f.n, i}};
  CHECK(!build_check_mapping(f.cx, &(Mapping){1, {both, 2}, {both, 2}, NULL, 0}, (Span){0}));
  EXPECT_ERROR(&f, E0313);
}

TEST(mapping_iterator_without_extent) {
  Fixture f;
  begin(&f, true);
  const Sym *i = sy(&f, "$index0"), *j = sy(&f, "$index1");
  SymPair in[] = {{f.m, i}, {f.k, sym_add(f.cx->sym, j, num(&f, 1))}}, out[] = {{f.m, i}};
  Mapping m = {2, {in, 2}, {out, 1}, NULL, 0};
  CHECK(!build_check_mapping(f.cx, &m, (Span){0}));
  EXPECT_ERROR(&f, E0313);
}

TEST(mapping_must_reach_every_memory_dim) {
  Fixture f;
  begin(&f, true);
  const Sym *i = sy(&f, "$index0");
  SymPair in[] = {{f.m, i}};
  Mapping m = {1, {in, 1}, {in, 1}, NULL, 0};
  Attr attr = {.key = ATTR_mapping, .mapping = &m};
  op_(&f, OP_read, &f.a, 1, &attr, 1, NULL);
  EXPECT_ERROR(&f, E0314);
}

TEST(mapping_gives_the_result_its_dims) {
  Fixture f;
  begin(&f, true);
  const Sym *i = sy(&f, "$index0"), *j = sy(&f, "$index1");
  SymPair in[] = {{f.m, j}, {f.k, i}}, out[] = {{f.k, i}, {f.m, j}};
  Mapping m = {2, {in, 2}, {out, 2}, NULL, 0};
  Attr attr = {.key = ATTR_mapping, .mapping = &m};
  CHECK(op_(&f, OP_read, &f.a, 1, &attr, 1, NULL)->type == tile2(&f, f.k, f.m, DTYPE_f16));
  Value *args[] = {f.a, integer(&f, 1)};
  op_(&f, OP_read, args, 2, &attr, 1, NULL);
  EXPECT_ERROR(&f, E0320);
}

/* ---- headers ---- */

typedef struct HeaderCase {
  const char *code;
  Constraint rows[4];
  int n;
} HeaderCase;

TEST(header_mistakes) {
  Fixture f;
  begin(&f, false);
  Constraint hw = {.kind = CONSTRAINT_hardware, .hardware = {.threads = 64}};
  Constraint wg = {.kind = CONSTRAINT_workgroup, .workgroup = {.dim = f.m, .size = num(&f, 64)}};
  Constraint wgn = {.kind = CONSTRAINT_workgroup, .workgroup = {.dim = f.n, .size = num(&f, 64)}};
  Constraint zero = {.kind = CONSTRAINT_workgroup, .workgroup = {.dim = f.m, .size = f.bm}};
  Constraint bind0 = {.kind = CONSTRAINT_bind, .bind = {.symbol = f.bm, .value = num(&f, 0)}};
  Constraint loop = {.kind = CONSTRAINT_bind,
                     .bind = {.symbol = f.bm, .value = sym_add(f.cx->sym, f.bm, f.m)}};
  Constraint wave = {.kind = CONSTRAINT_wave, .wave = {.dim = f.m, .size = num(&f, 48)}};
  Constraint waven = {.kind = CONSTRAINT_wave, .wave = {.dim = f.n, .size = num(&f, 32)}};
  Constraint far = {.kind = CONSTRAINT_workgroup,
                    .workgroup = {.dim = f.n, .size = num(&f, 1), .axis = 2}};
  Constraint bad = {.kind = CONSTRAINT_workgroup,
                    .workgroup = {.dim = f.n, .size = num(&f, 1), .axis = 7}};
  Constraint nothreads = {.kind = CONSTRAINT_hardware, .hardware = {0}};
  Constraint name = {.kind = CONSTRAINT_hardware,
                     .hardware = {.threads = 64, .mma = {.name = "NOPE"}}};
  Constraint own = {.kind = CONSTRAINT_bind,
                    .bind = {.symbol = sy(&f, "$index0"), .value = num(&f, 1)}};
  Constraint id = {.kind = CONSTRAINT_bind, .bind = {.symbol = f.bm, .value = sy(&f, "$WG0")}};
  Constraint assume = {.kind = CONSTRAINT_assume, .assume = {.condition = f.m}};
  const HeaderCase cases[] = {
      {"E0201", {wg}, 1},
      {"E0202", {wg, hw, hw}, 3},
      {"E0203", {wg, hw, wave}, 3},
      {"E0204", {zero, hw, bind0}, 3},
      {"E0205", {wg, hw, waven}, 3},
      {"E0206", {wg, hw, wgn}, 3},
      {"E0207", {wg, hw, far}, 3},
      {"E0207", {wg, hw, bad}, 3},
      {"E0208", {zero, hw, bind0, bind0}, 4},
      {"E0209", {hw}, 1},
      {"E0210", {wg, name}, 2},
      {"E0212", {wg, nothreads}, 2},
      {"E0212", {wg, hw, assume}, 3},
      {"E0212", {wg, hw, own}, 3},
      {"E0212", {zero, hw, id}, 3},
      {"E0104", {wg, hw, loop}, 3},
  };
  Kernel *k = builder_kernel(f.b);
  for (size_t i = 0; i < WV_LEN(cases); i++) {
    k->constraints.n = 0;
    diags_clear(&f.cx->diags);
    for (int j = 0; j < cases[i].n; j++) build_constraint(f.b, cases[i].rows[j]);
    CHECK(!ir_verify_constraints(k));
    CHECK_INT(f.cx->diags.errors, 1);
    CHECK_STR(diag_info[f.cx->diags.first->code].code, cases[i].code);
  }
  builder_free(f.b);
  context_free(f.cx);
}

/* ---- the verifier on IR that no builder makes ---- */

TEST(verifier_finds_broken_structure) {
  Fixture f;
  begin(&f, true);
  Value *x = fill(&f, 0, tile1(&f, f.m, DTYPE_f32));
  begin_for(&f, &x, 1);
  Value *y = op1(&f, OP_exp2, build_region(f.b)->args[0], NULL);
  Op *loop = build_end(f.b, &y, 1, (Span){0});
  Value *z = op1(&f, OP_exp2, &loop->results[0], NULL);
  Kernel *k = finish(&f);
  CHECK(k && ir_verify(k));

  z->def->args[0] = y; /* made inside the loop */
  CHECK(!ir_verify(k));
  CHECK_INT(f.cx->diags.first->code, DIAG_E0402);
  z->def->args[0] = &loop->results[0];

  diags_clear(&f.cx->diags);
  z->type = tile1(&f, f.m, DTYPE_f16);
  CHECK(!ir_verify(k));
  CHECK_INT(f.cx->diags.first->code, DIAG_E0316);
  z->type = tile1(&f, f.m, DTYPE_f32);

  diags_clear(&f.cx->diags);
  op_set_attr(k, z->def, (Attr){.key = ATTR_axis, .sym = f.k});
  CHECK(!ir_verify(k));
  CHECK_INT(f.cx->diags.first->code, DIAG_E0318);
  op_drop_attr(z->def, ATTR_axis);

  diags_clear(&f.cx->diags);
  k->level = LEVEL_THREAD;
  CHECK(!ir_verify(k));
  CHECK_INT(f.cx->diags.first->code, DIAG_E0409);
  k->level = LEVEL_TILE;

  diags_clear(&f.cx->diags);
  ir_remove(loop->body->last);
  CHECK(!ir_verify(k));
  CHECK_INT(f.cx->diags.first->code, DIAG_E0404);
  kernel_free(k);
  context_free(f.cx);
}

TEST(verifier_finds_symbols_that_were_set) {
  Fixture f;
  begin(&f, true);
  set_symbol(&f, f.n, integer(&f, 1));
  Value *x =
      op0(&f, OP_scalar, (Attr){.key = ATTR_value, .sym = f.n}, type_scalar(f.cx, DTYPE_i32));
  Kernel *k = finish(&f);
  CHECK(k && ir_verify(k));
  op_set_attr(k, x->def, (Attr){.key = ATTR_value, .sym = f.n}); /* and not its version */
  CHECK(!ir_verify(k));
  CHECK_INT(f.cx->diags.first->code, DIAG_E0408);
  kernel_free(k);
  context_free(f.cx);
}

TESTS_MAIN(
    RUN(gemm_builds_and_verifies) RUN(types_are_interned_and_checked) RUN(
        elementwise_takes_the_larger_shape) RUN(disjoint_shapes_are_an_error)
        RUN(overlapping_shapes_are_joined) RUN(conditions_of_apply_expr_are_truth_values) RUN(
            dtypes_are_never_promoted) RUN(float_ops_refuse_integers) RUN(memory_is_not_a_value)
            RUN(mma_roles_are_found_by_name) RUN(mma_that_does_not_fit_is_an_error) RUN(
                unknown_matrix_instruction_names_the_nearest) RUN(reductions_drop_their_dim)
                RUN(reductions_need_a_dim_they_have) RUN(bitcast_scales_the_last_dim) RUN(
                    bitcast_of_sixes_is_checked) RUN(broadcast_and_permute_are_checked)
                    RUN(broadcast_to_fewer_dims_is_an_error) RUN(select_needs_a_truth_value) RUN(
                        write_of_extra_dims_is_an_error) RUN(write_may_drop_dims_of_one_element)
                        RUN(write_converts_only_what_the_language_converts) RUN(
                            one_constant_has_one_spelling)
                            RUN(literals_take_the_dtype_of_the_other_operand) RUN(
                                carried_type_must_stay) RUN(carried_order_is_put_right)
                                RUN(carried_value_drops_dims_of_one_element) RUN(
                                    wrong_number_of_results) RUN(value_outside_its_region)
                                    RUN(loop_over_an_untiled_dim) RUN(mistakes_are_reported_once) RUN(
                                        set_symbol_opens_versions_with_scope)
                                        RUN(scalar_of_the_axis_is_the_iteration) RUN(
                                            while_loop_carries_its_axis) RUN(while_loop_must_advance)
                                            RUN(set_symbol_takes_integers) RUN(
                                                the_compilers_own_symbols_cannot_be_set)
                                                RUN(mapping_iterators_may_rename_dimensions) RUN(
                                                    mapping_iterators_are_one_dimension_of_the_register)
                                                    RUN(mapping_iterator_without_extent) RUN(
                                                        mapping_must_reach_every_memory_dim)
                                                        RUN(mapping_gives_the_result_its_dims) RUN(
                                                            header_mistakes)
                                                            RUN(verifier_finds_broken_structure) RUN(
                                                                verifier_finds_symbols_that_were_set))
