"""Keys and values that a table of pages names, in rings: any number of tokens, pages out of order."""

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE, SHARED_ADDRESS_SPACE

K, M, N, D, E, T = (getattr(tkl.sym, name) for name in "KMNDET")
ROW, BLOCK = tkl.sym.ROW, tkl.sym.BLOCK
TILE, PAGE = 16, 4
# Iterations: none, one, and more than a ring has slots and the table is ahead of them.
LENGTHS = (0, 1, TILE, 2 * TILE + 1, 5 * TILE - 1, 9 * TILE + 3)


def paged():
    i, j = (tkw.IndexMapping.iterator(n) for n in range(2))
    page = tkw.IndexMapping.dynamic_val(0)
    table_of = tkw.IndexMapping(1, inputs={BLOCK: i // PAGE}, outputs={T: i})
    row = {ROW: page * PAGE + i % PAGE}
    k_of = tkw.IndexMapping(
        2, inputs={**row, D: j}, outputs={T: i, D: j}, dynamic_val_mappings={T: i}
    )
    v_of = tkw.IndexMapping(
        2, inputs={ROW: page * PAGE + j % PAGE, E: i}, outputs={E: i, T: j},
        dynamic_val_mappings={T: j},
    )  # fmt: skip
    constraints = [
        tkw.WorkgroupConstraint(M, 16, 0),
        tkw.TilingConstraint(T, TILE),
        tkw.WaveConstraint(M, 16),
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
    ]

    @tkw.wave(constraints)
    def kernel(
        q: tkl.Memory[M, D, GLOBAL_ADDRESS_SPACE, tkl.f16],
        k: tkl.Memory[ROW, D, SHARED_ADDRESS_SPACE, tkl.f16],
        v: tkl.Memory[ROW, E, SHARED_ADDRESS_SPACE, tkl.f16],
        table: tkl.Memory[BLOCK, GLOBAL_ADDRESS_SPACE, tkl.i32],
        out: tkl.Memory[M, E, GLOBAL_ADDRESS_SPACE, tkl.f32],
        length: tkl.i32,
    ):
        tkw.set_symbol(T, length)
        rows = tkw.read(q)

        @tkw.iterate(T, init_args=[tkl.Register[M, E, tkl.f32](0.0)])
        def loop(acc):
            at = tkw.read(table, mapping=table_of)
            keys = tkw.read(k, mapping=k_of, mapping_dynamic_vals=(at,))
            values = tkw.read(v, mapping=v_of, mapping_dynamic_vals=(at,))
            scores = tkw.mma(rows, keys, tkl.Register[M, T, tkl.f32](0.0))
            return tkw.mma(tkw.cast(scores, tkl.f16), values, acc)

        tkw.write(loop, out)

    return kernel


@pytest.mark.parametrize("columns", (32, 20))
@pytest.mark.parametrize("target", ("cpu", "sim:sm_90a", "sim:sm_80", "sim:gfx942"))
def test_pages(target, columns):
    """Numbers are exact. Pages that no token names, and what is past the last token, are NaN; numbers
    past the last token, and some of tokens, name no page: those rows are zero."""
    rng = np.random.default_rng(columns)
    subs = {M: 16, D: 32, E: columns}
    run = wave_compile(
        WaveCompileOptions(subs=subs, dynamic_symbols=[ROW, BLOCK], target=target), paged()
    )
    if target != "cpu":
        assert any(r.code == "R0608" and " keeps " in r.message for r in run.remarks)
    for length in LENGTHS:
        pages = -(-length // PAGE)
        q = rng.integers(-2, 3, (16, 32)).astype("f2")
        k = np.full(((pages + 3) * PAGE, 32), np.nan, "f2")
        v = np.full(((pages + 3) * PAGE, columns), np.nan, "f2")
        table = rng.permutation(pages + 3).astype("i4")
        table[pages:] = 1 << 30
        expected = np.zeros((16, columns))
        if pages > 2:
            table[1], table[2] = -1, pages + 3
        for token in range(length):
            at = table[token // PAGE] * PAGE + token % PAGE
            if not 0 <= at < len(k):
                continue
            k[at], v[at] = rng.integers(-1, 2, 32), rng.integers(-2, 3, columns)
            expected += np.outer(q.astype("f8") @ k[at], v[at])
        out = np.full((16, columns), np.nan, "f4")
        run(q, k, v, table, out, length)
        np.testing.assert_array_equal(out, expected)


def hashed(rounds):
    """Rows of `b` that a hash of `ids` names: each round uses what came before it twice."""
    i, j = (tkw.IndexMapping.iterator(n) for n in range(2))
    row_of = tkw.IndexMapping(
        2, inputs={ROW: tkw.IndexMapping.dynamic_val(0), E: j}, outputs={T: i, E: j},
        dynamic_val_mappings={T: i},
    )  # fmt: skip
    constraints = [
        tkw.WorkgroupConstraint(M, 64, 0),
        tkw.WorkgroupConstraint(E, 64, 1),
        tkw.TilingConstraint(T, 64),
        tkw.WaveConstraint(M, 32),
        tkw.WaveConstraint(E, 32),
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
    ]

    @tkw.wave(constraints)
    def kernel(
        a: tkl.Memory[M, T, SHARED_ADDRESS_SPACE, tkl.f16],
        ids: tkl.Memory[T, GLOBAL_ADDRESS_SPACE, tkl.i32],
        b: tkl.Memory[ROW, E, SHARED_ADDRESS_SPACE, tkl.f16],
        out: tkl.Memory[M, E, GLOBAL_ADDRESS_SPACE, tkl.f32],
    ):
        @tkw.iterate(T, init_args=[tkl.Register[M, E, tkl.f32](0.0)])
        def loop(acc):
            x = tkw.read(ids)
            for _ in range(rounds):
                x = x ^ (x + x * 3)
            rows = tkw.read(b, mapping=row_of, mapping_dynamic_vals=(x & 127,))
            return tkw.mma(tkw.read(a), tkw.permute(rows, target_shape=[E, T]), acc)

        tkw.write(loop, out)

    return kernel


# All paths through the hash are far too many to visit.
@pytest.mark.parametrize("target", ["cpu", "sim:sm_90a", "sim:gfx942"])
@pytest.mark.parametrize("tokens, rounds", [(200, 30), (70, 1)])
def test_hash_of_rows(tokens, rounds, target):
    rng = np.random.default_rng(tokens)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((130, tokens), (128, 100)))
    ids = rng.integers(-(2**31), 2**31 - 1, tokens).astype(np.int32)
    subs = {M: 130, E: 100, T: tokens, ROW: 128}
    kernel = wave_compile(WaveCompileOptions(subs=subs, target=target), hashed(rounds))
    out = np.zeros((130, 100), np.float32)
    kernel(a, ids, b, out)
    for _ in range(rounds):
        ids = ids ^ (ids + ids * np.int32(3))
    np.testing.assert_allclose(out, a.astype(float) @ b[ids & 127], atol=1e-3)


@pytest.mark.parametrize("target", ["eval", "cpu", "sim:sm_80", "sim:sm_90a", "sim:gfx942"])
def test_rows_whose_addresses_do_not_fit(target):
    """Operands of a matmul, gathered through a table: rows that do not exist are 0, also where their address would
    not fit 32 bits, which nothing reads."""
    table, row, column = ROW, tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    looked_up = tkw.IndexMapping(
        num_iterators=2,
        inputs={table: tkw.IndexMapping.dynamic_val(0), K: column},
        outputs={M: row, K: column},
        dynamic_val_mappings={M: row},
    )
    rows = [
        tkw.WorkgroupConstraint(M, 32, 0),
        tkw.WorkgroupConstraint(N, 32, 1),
        tkw.TilingConstraint(K, 16),
        tkw.WaveConstraint(M, 32),
        tkw.HardwareConstraint(threads_per_wave=32),
    ]

    @tkw.wave(rows)
    def gathered(
        a: tkl.Memory[table, K, SHARED_ADDRESS_SPACE, tkl.f16],
        at: tkl.Memory[M, GLOBAL_ADDRESS_SPACE, tkl.i32],
        b: tkl.Memory[N, K, SHARED_ADDRESS_SPACE, tkl.f16],
        c: tkl.Memory[M, N, GLOBAL_ADDRESS_SPACE, tkl.f32],
    ):
        found = tkw.read(at)

        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            x = tkw.read(a, mapping=looked_up, mapping_dynamic_vals=(found,))
            return tkw.mma(x, tkw.read(b), acc)

        tkw.write(product, c)

    rng = np.random.default_rng(5)
    at = np.array([2**27, 0, -(2**31), 6, 2**31 - 1, 7, -1], "i4")
    a, b = rng.integers(-3, 4, (7, 16)).astype("f2"), rng.integers(-3, 4, (5, 16)).astype("f2")
    c = np.ones((7, 5), "f4")
    wave_compile(WaveCompileOptions(subs={M: 7, N: 5, K: 16, table: 7}, target=target), gathered)(a, at, b, c)
    exist = (at >= 0) & (at < 7)
    want = np.where(exist[:, None], a.astype("f4")[np.where(exist, at, 0)], 0) @ b.astype("f4").T
    np.testing.assert_array_equal(c, want)
