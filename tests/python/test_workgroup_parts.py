"""Parts that one workgroup or wave has: reductions of a part give a warning (W0404), and the ids of
workgroup dimensions that the grid folds."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from kernel_utils import rng
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import *

A, B, C, D, M, N, P = (getattr(tkl.sym, s) for s in "ABCDMNP")
G = GLOBAL_ADDRESS_SPACE
LOWERED = ["cpu", "sim:sm_80", "sim:sm_90a", "sim:gfx942"]
TARGETS = pytest.mark.parametrize("target", ["eval", *LOWERED])
# `warn_once` shows a text once in a process; the tests look at `remarks` instead
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def compiled(kernel, target, subs=(), dynamic=(), **options):
    asked = WaveCompileOptions(
        subs=dict(subs), dynamic_symbols=list(dynamic), target=target, **options
    )
    return wave_compile(asked, kernel)


def parts(made):
    return [r for r in made.remarks if getattr(r, "code", "") == "W0404"]


# ---- reductions of a part ----


def rows(tile, wave=None, shape=None, lanes=32):
    return [
        tkw.HardwareConstraint(threads_per_wave=lanes, vector_shapes={M: 1, N: shape or tile}),
        tkw.WorkgroupConstraint(M, 1, 1),
        tkw.WorkgroupConstraint(N, tile, 0),
        *([tkw.WaveConstraint(N, wave)] if wave else []),
    ]


def row_sums(constraints, block=False):
    @tkw.wave(constraints)
    def kernel(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, G, tkl.f32]):
        v = tkw.read(x)
        tkw.write(tkw.broadcast(tkw.sum(v, dim=N, block=block), [M, N]), y)

    return kernel


@TARGETS
@pytest.mark.parametrize("dynamic", [False, True])
def test_sum_over_several_workgroups_says_so(target, dynamic):
    kernel = row_sums(rows(64))
    made = compiled(kernel, target, {} if dynamic else {M: 3, N: 150}, [M, N] if dynamic else [])
    (found,) = parts(made)
    wanted = "unless `ceiling(N/64)` is 1" if dynamic else "each of 3 workgroups"
    assert found.severity == "warning" and wanted in found.message
    assert "loop over the dimension" in found.rendered and "block=True" in found.rendered
    assert "tkw.sum" in found.rendered  # the line
    x, y = rng(1).integers(-9, 9, (3, 150)).astype("f4"), np.zeros((3, 150), "f4")
    made(x, y)
    sums = [x[:, i : i + 64].sum(1, keepdims=True) for i in range(0, 150, 64)]
    want = np.concatenate([np.broadcast_to(s, (3, 64)) for s in sums], 1)[:, :150]
    assert np.array_equal(y, want)  # what the public package means by it


@TARGETS
@pytest.mark.parametrize(
    "constraints, subs",
    [
        (rows(64), {M: 3, N: 64}),
        (rows(64), {M: 3, N: 37}),
        (rows(64, wave=64), {M: 3, N: 50}),
        (rows(64)[:2], {M: 3, N: 50}),  # nothing cuts N
    ],
)
def test_sum_of_the_whole_says_nothing(target, constraints, subs):
    made = compiled(row_sums(constraints), target, subs)
    assert not parts(made)
    x, y = rng(2).integers(-9, 9, (3, subs[N])).astype("f4"), np.zeros((3, subs[N]), "f4")
    made(x, y)
    assert np.array_equal(y, np.broadcast_to(x.sum(1, keepdims=True), y.shape))


@TARGETS
def test_block_states_the_part(target):
    assert not parts(compiled(row_sums(rows(64, wave=32, shape=32), True), target, {M: 3, N: 150}))


@pytest.mark.parametrize("target", LOWERED)
def test_sum_over_several_waves_says_so(target):
    lanes = 64 if target == "sim:gfx942" else 32
    constraints = rows(2 * lanes, wave=lanes, shape=lanes, lanes=lanes)
    (found,) = parts(compiled(row_sums(constraints), target, {M: 3, N: 50}))
    assert "each of 2 waves" in found.message and "combine the waves" in found.rendered


@TARGETS
def test_atomics_combine_the_parts(target):
    @tkw.wave(rows(64))
    def total(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
        tkw.atomic_add(tkw.sum(tkw.read(x), dim=N), y)

    made = compiled(total, target, dynamic=[M, N])
    assert not parts(made)
    x, y = rng(3).integers(-9, 9, (5, 333)).astype("f4"), np.zeros(5, "f4")
    made(x, y)
    assert np.array_equal(y, x.sum(1))


@TARGETS
def test_a_loop_combines_the_parts(target):
    @tkw.wave([*rows(64)[:2], tkw.TilingConstraint(N, 64)])
    def total(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
        @tkw.iterate(N, init_args=[tkl.Register[M, tkl.f32](0.0)])
        def loop(acc):
            return tkw.sum(tkw.read(x), acc, dim=N)

        tkw.write(loop, y)

    made = compiled(total, target, dynamic=[M, N])
    assert not parts(made)
    x, y = rng(4).integers(-9, 9, (5, 333)).astype("f4"), np.zeros(5, "f4")
    made(x, y)
    assert np.array_equal(y, x.sum(1))


@TARGETS
@pytest.mark.parametrize("op", ["max", "min", "prod", "cumsum"])
def test_every_reduction_says_so(target, op):
    @tkw.wave(rows(32))
    def kernel(x: tkl.Memory[M, N, G, tkl.i32], y: tkl.Memory[M, N, G, tkl.i32]):
        r = getattr(tkw, op)(tkw.read(x), dim=N)
        tkw.write(r if op == "cumsum" else tkw.broadcast(r, [M, N]), y)

    (found,) = parts(compiled(kernel, target, {M: 2, N: 70}))
    assert f"`{op}` along `N` gives each of 3 workgroups" in found.message


# ---- workgroup dimensions 3 and 4 ----


def five(tile=32):
    shapes = {A: 0, B: 0, C: 0, D: 0, N: tile}
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes=shapes),
        tkw.WorkgroupConstraint(N, tile, 0),
        tkw.WorkgroupConstraint(A, 1, 1),
        tkw.WorkgroupConstraint(B, 1, 2),
        tkw.WorkgroupConstraint(C, 1, 3),
        tkw.WorkgroupConstraint(D, 1, 4),
    ]


SIZES = {A: 2, B: 3, C: 5, D: 2, N: 45}
SHAPE = tuple(SIZES.values())


def grid_of(dim):
    at = list(SIZES).index(dim)
    return np.arange(SHAPE[at]).reshape([-1 if i == at else 1 for i in range(5)])


BOTH = pytest.mark.parametrize("dynamic", [False, True])


def run_five(kernel, target, dynamic, *arrays):
    sizes = {} if dynamic else SIZES
    compiled(kernel, target, sizes, list(SIZES) if dynamic else [])(*arrays)


@TARGETS
@BOTH
def test_ids_of_folded_dimensions_are_values(target, dynamic):
    @tkw.wave(five())
    def kernel(y: tkl.Memory[A, B, C, D, N, G, tkl.i32]):
        tkw.write(tkw.Register[A, B, C, D, N, tkl.i32](WORKGROUP_3 * 10 + WORKGROUP_4), y)

    y = np.full(SHAPE, -1, "i4")
    run_five(kernel, target, dynamic, y)
    assert np.array_equal(y, np.broadcast_to(10 * grid_of(C) + grid_of(D), SHAPE))


@TARGETS
@BOTH
def test_a_mapping_picks_the_slope_of_a_folded_dimension(target, dynamic):
    a, b, c, d, n = (tkw.IndexMapping.iterator(i) for i in range(5))
    turned = tkw.IndexMapping(5, {P: 4 - WORKGROUP_3}, {A: a, B: b, C: c, D: d, N: n})

    @tkw.wave(five())
    def kernel(s: tkl.Memory[P, G, tkl.f32], y: tkl.Memory[A, B, C, D, N, G, tkl.f32]):
        tkw.write(tkw.read(s, mapping=turned), y)

    s, y = rng(5).standard_normal(5).astype("f4"), np.zeros(SHAPE, "f4")
    subs = {P: 5} if dynamic else {**SIZES, P: 5}
    compiled(kernel, target, subs, list(SIZES) if dynamic else [])(s, y)
    assert np.array_equal(y, np.broadcast_to(s[4 - grid_of(C)], SHAPE))


@TARGETS
@BOTH
def test_a_condition_on_a_folded_dimension(target, dynamic):
    @tkw.wave(five())
    def kernel(x: tkl.Memory[A, B, C, D, N, G, tkl.f32], y: tkl.Memory[A, B, C, D, N, G, tkl.f32]):
        @tkw.conditional(WORKGROUP_3 + 2 * WORKGROUP_4 < 4)
        def _():
            tkw.write(tkw.read(x), y)

    x, y = rng(6).standard_normal(SHAPE).astype("f4"), np.zeros(SHAPE, "f4")
    run_five(kernel, target, dynamic, x, y)
    assert np.array_equal(y, np.where(grid_of(C) + 2 * grid_of(D) < 4, x, 0))


@TARGETS
@BOTH
def test_a_bound_symbol_that_holds_a_folded_id(target, dynamic):
    OFFSET = tkl.sym.OFFSET

    @tkw.wave(five())
    def kernel(y: tkl.Memory[A, B, C, D, N, G, tkl.i32]):
        at = tkw.Register[A, B, C, D, N, tkl.i32](OFFSET)
        tkw.write(at + tkw.self_index(N, tkl.i32), y)

    y = np.full(SHAPE, -1, "i4")
    subs = {OFFSET: 7 * WORKGROUP_4 + 100 * WORKGROUP_0, **({} if dynamic else SIZES)}
    compiled(kernel, target, subs, list(SIZES) if dynamic else [])(y)
    want = 7 * grid_of(D) + grid_of(N) + 100 * (grid_of(N) // 32)
    assert np.array_equal(y, np.broadcast_to(want, SHAPE))


@TARGETS
@BOTH
def test_reordering_changes_positions_not_ids(target, dynamic):
    turned = tkw.ReorderingConstraint(29 - WORKGROUP_2, 2)

    @tkw.wave([*five(), turned])
    def kernel(y: tkl.Memory[A, B, C, D, N, G, tkl.i32]):
        tkw.write(tkw.Register[A, B, C, D, N, tkl.i32](WORKGROUP_3), y)

    y = np.full(SHAPE, -1, "i4")
    run_five(kernel, target, dynamic, y)
    assert np.array_equal(y, np.broadcast_to(4 - grid_of(C), SHAPE))


@TARGETS
def test_an_id_that_no_constraint_uses_is_zero(target):
    lanes = tkw.HardwareConstraint(32, vector_shapes={N: 32})

    @tkw.wave([lanes, tkw.WorkgroupConstraint(N, 32, 0)])
    def kernel(y: tkl.Memory[N, G, tkl.i32]):
        tkw.write(tkw.Register[N, tkl.i32](WORKGROUP_4 + 1), y)

    y = np.zeros(45, "i4")
    compiled(kernel, target, {N: 45})(y)
    assert (y == 1).all()


@TARGETS
def test_an_empty_folded_dimension(target):
    @tkw.wave(five())
    def kernel(y: tkl.Memory[A, B, C, D, N, G, tkl.i32]):
        tkw.write(tkw.Register[A, B, C, D, N, tkl.i32](WORKGROUP_3), y)

    compiled(kernel, target, dynamic=list(SIZES))(np.zeros((2, 3, 0, 2, 45), "i4"))
    compiled(kernel, target, {**SIZES, C: 0})(np.zeros((2, 3, 0, 2, 45), "i4"))


# ---- fractions ----


@TARGETS
@BOTH
@pytest.mark.parametrize("tile", [4, 3])
def test_a_reordered_id_that_is_a_fraction(target, dynamic, tile):
    """The position of a tile is rounded down, not its id."""
    rows = [
        tkw.HardwareConstraint(64, vector_shapes={N: tile}),
        tkw.WorkgroupConstraint(N, tile, 0),
        tkw.WaveConstraint(N, tile),
        tkw.ReorderingConstraint(WORKGROUP_0 / 2, 0),
    ]

    @tkw.wave(rows)
    def kernel(y: tkl.Memory[N, G, tkl.i32]):
        tkw.atomic_add(tkw.Register[N, tkl.i32](1), y)

    y, want = np.zeros(17, "i4"), np.zeros(17, "i4")
    for i in range(-(-17 // tile)):
        want[i * tile // 2 : i * tile // 2 + tile] += 1
    compiled(kernel, target, {} if dynamic else {N: 17}, [N] if dynamic else [])(y)
    assert np.array_equal(y, want)


@TARGETS
@BOTH
def test_a_folded_id_that_is_a_fraction(target, dynamic):
    @tkw.wave([*five(), tkw.ReorderingConstraint(WORKGROUP_2 / 2, 2)])
    def kernel(y: tkl.Memory[A, B, C, D, N, G, tkl.i32]):
        tkw.atomic_add(tkw.Register[A, B, C, D, N, tkl.i32](1 + WORKGROUP_2), y)

    y, want = np.zeros(SHAPE, "i4"), np.zeros(SHAPE, "i4")
    run_five(kernel, target, dynamic, y)
    for z in range(30):
        j = z // 2
        want[:, j // 10, j // 2 % 5, j % 2] += 1 + z
    assert np.array_equal(y, want)


@TARGETS
@BOTH
def test_a_start_that_is_a_fraction(target, dynamic):
    rows = [
        tkw.HardwareConstraint(64, vector_shapes={N: 4}),
        tkw.WorkgroupConstraint(N, 4, 0, apply_fn=lambda i: 5 * i / 2),
        tkw.WaveConstraint(N, 4),
    ]

    @tkw.wave(rows)
    def kernel(y: tkl.Memory[N, G, tkl.i32]):
        tkw.atomic_add(tkw.Register[N, tkl.i32](1), y)

    y, want = np.zeros(17, "i4"), np.zeros(17, "i4")
    for i in range(5):
        want[5 * i // 2 : 5 * i // 2 + 4] += 1
    compiled(kernel, target, {} if dynamic else {N: 17}, [N] if dynamic else [])(y)
    assert np.array_equal(y, want)
