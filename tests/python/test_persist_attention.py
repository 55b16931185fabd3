"""Attention whose workgroups compute several tiles one after another: queries are copied before the loop, and under a
mask the loop is not as long for each tile. Kernels as users write them, of odd sizes, on a simulated H100, in several
orders of waves, compared with float64.
"""

import re

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from test_roles import parsed
from wave_lang import SimulationError, WaveCompileOptions, ops, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S
from wave_lang.kernel.lang.global_symbols import WORKGROUP_0, WORKGROUP_3
from wave_lang.ops import programs

H, HK, GROUP, M, N, D, KEY = (getattr(tkl.sym, name) for name in ("H", "HK", "GROUP", "M", "N", "D", "KEY"))
ROWS, KEYS = 64, 64  # of a tile
ORDERS = ("round", "reverse", "last", "first", "random:3")
TARGET = "sim:sm_90a"
NOTHING, HIDDEN = -1e5, -1e6  # the largest score before the first, and what replaces one that is not seen
i, j, k = (tkw.IndexMapping.iterator(n) for n in range(3))


def visited(causal, window):
    """The first tile of keys that rows of a tile see, and how many there are: row r sees keys up to r + KEY - M, and
    from `window` keys before that."""
    behind = KEY - M
    first = tkl.Max(ROWS * WORKGROUP_0 + behind - window, 0) // KEYS if window is not None else 0
    last = tkl.ceiling(KEY / KEYS)
    if causal:
        last = tkl.Min(last, tkl.Max(tkl.ceiling((ROWS * (WORKGROUP_0 + 1) + behind) / KEYS), 0))
    return first, tkl.Max(last - first, 0) if first != 0 else last


def attention(head, causal=False, window=None, group=1, bias=False, sums=False):
    """`group` heads of queries share one of keys; `bias` has a number for each row; `sums` are a second output."""
    first, count = visited(causal, window)
    own = H if group == 1 else HK  # a workgroup has one head of keys, and one of the group that shares it
    rows = [
        tkw.HardwareConstraint(threads_per_wave=128, vector_shapes={H: 0, HK: 0, GROUP: 0}),
        tkw.WorkgroupConstraint(M, ROWS, 0),
        tkw.WorkgroupConstraint(N, head, 1),
        tkw.WorkgroupConstraint(own, 1, 2),
        *([tkw.WorkgroupConstraint(GROUP, 1, 3)] if group > 1 else []),
        tkw.TilingConstraint(KEY, KEYS, iters=count, start=KEYS * first),
        tkw.WaveConstraint(M, ROWS),
        tkw.Assumption(KEY >= 1),  # the copy engine reads no tensor that may be empty
        tkw.Assumption(H >= 1),
    ]
    place = i if group == 1 else group * i + WORKGROUP_3
    of_queries = tkw.IndexMapping(3, inputs={H: place, M: j, D: k}, outputs={own: i, M: j, D: k})
    of_rows = tkw.IndexMapping(2, inputs={H: place, M: j}, outputs={own: i, M: j})
    to_rows = tkw.IndexMapping(2, inputs={own: i, M: j}, outputs={H: place, M: j})
    to_out = tkw.IndexMapping(3, inputs={own: i, M: j, N: k}, outputs={H: place, M: j, N: k})
    of_values = tkw.IndexMapping(3, inputs={own: i, KEY: k, N: j}, outputs={own: i, N: j, KEY: k})

    @tkw.wave(rows)
    def attention(
        q: tkl.Memory[H, M, D, S, tkl.f16],
        keys: tkl.Memory[own, KEY, D, S, tkl.f16],
        values: tkl.Memory[own, KEY, N, S, tkl.f16],
        extra: tkl.Memory[H, M, G, tkl.f32],
        out: tkl.Memory[H, M, N, G, tkl.f32],
        total: tkl.Memory[H, M, G, tkl.f32],
    ):
        queries = tkw.read(q, mapping=of_queries)
        added = tkw.read(extra, mapping=of_rows) if bias else None
        most = tkl.Register[own, M, tkl.f32](NOTHING)
        none = tkl.Register[own, M, tkl.f32](0.0)
        zero = tkl.Register[own, M, N, tkl.f32](0.0)

        @tkw.iterate(KEY, init_args=[most, none, zero])
        def loop(old, sum_, acc):
            x = tkw.mma(queries, tkw.read(keys), tkl.Register[own, M, KEY, tkl.f32](0.0))
            if bias:
                x = x + tkw.broadcast(added, [own, M, KEY])
            row = tkw.broadcast(tkw.self_index(M, tkl.i64) + tkw.scalar(KEY - M, tkl.i64), [M, KEY])
            key = tkw.broadcast(tkw.self_index(KEY, tkl.i64), [M, KEY])
            seen = []
            if causal:
                seen.append(key <= row)
            if window is not None:
                seen.append(key >= row - window)
            for one in seen:
                x = tkw.select(tkw.broadcast(one, [own, M, KEY]), x, tkl.Register[own, M, KEY, tkl.f32](HIDDEN))
            new = tkw.max(x, old, dim=KEY)
            shrink = tkw.exp2(old - new)
            e = tkw.exp2(x - tkw.broadcast(new, [own, M, KEY]))
            sum_ = tkw.sum(e, sum_ * shrink, dim=KEY)
            acc = acc * tkw.broadcast(shrink, [own, M, N])
            return new, sum_, tkw.mma(tkw.cast(e, tkl.f16), tkw.read(values, mapping=of_values), acc)

        _, sum_, acc = loop
        if sums:
            tkw.write(sum_, total, mapping=to_rows)
        least = tkw.maximum(sum_, tkl.Register[own, M, tkl.f32](1e-30))
        tkw.write(acc * tkw.broadcast(tkw.reciprocal(least), [own, M, N]), out, mapping=to_out)

    return attention


def expected(q, keys, values, extra, causal, window):
    """The output, and the logarithms of sums, whatever the largest score was."""
    q, keys, values = (x.astype("f8") for x in (q, keys, values))
    group = len(q) // len(keys)
    x = q @ np.repeat(keys, group, 0).swapaxes(1, 2)
    if extra is not None:
        x = x + extra[:, :, None]
    row = np.arange(q.shape[1])[:, None] + keys.shape[1] - q.shape[1]
    key = np.arange(keys.shape[1])
    hidden = (key > row) & causal
    if window is not None:
        hidden |= key < row - window
    x = np.where(hidden, -np.inf, x)
    most = np.max(x, 2, keepdims=True, initial=NOTHING)
    e = np.exp2(x - most)
    total = e.sum(2, keepdims=True)
    out = e @ np.repeat(values, group, 0) / np.where(total > 0, total, 1)
    return out, np.where(total > 0, total, 0)[:, :, 0]


def compiled(kernel, head, workgroups, sizes=None, group=1):
    subs = {D: head, N: head, GROUP: group, **(sizes or {})}
    dynamic = [] if sizes else [H, HK, M, KEY]
    options = WaveCompileOptions(subs=subs, dynamic_symbols=dynamic, target=TARGET)
    options.persistent_workgroups = workgroups
    return wave_compile(options, kernel)


def arguments(heads, rows, keys, head, group=1):
    rng = np.random.default_rng(rows * 1000 + keys)
    q = (rng.standard_normal((heads, rows, head)) / head**0.5).astype("f2")
    k_, v = (rng.standard_normal((heads // group, *shape)).astype("f2") for shape in ((keys, head), (keys, head)))
    extra = rng.standard_normal((heads, rows)).astype("f4")
    return q, k_, v, extra, np.full((heads, rows, head), np.nan, "f4"), np.full((heads, rows), np.nan, "f4")


def check(kernel, heads, rows, keys, head, *, causal=False, window=None, group=1, bias=False, sums=False, order="round"):
    args = arguments(heads, rows, keys, head, group)
    kernel.simulate(*args, schedule=order)
    q, k_, v, extra, out, total = args
    want, want_total = expected(q, k_, v, extra if bias else None, causal, window)
    np.testing.assert_allclose(out, want, atol=4e-3)
    if sums:
        np.testing.assert_allclose(total, want_total, rtol=2e-3)


SIZES = [(1, 8), (127, 400), (129, 64), (300, 128), (300, 72), (64, 392)]


def is_persistent(kernel):
    return "for $TILES" in str(kernel.lowered)


@pytest.mark.parametrize("workgroups", [1, 2, 3, 5])
@pytest.mark.parametrize("causal", [False, True])
def test_sizes(causal, workgroups):
    """Sizes that are known at launch; with more queries than keys, the first tiles have no iterations."""
    kernel = compiled(attention(64, causal), 64, workgroups)
    assert is_persistent(kernel)
    for number, (rows, keys) in enumerate(SIZES):
        check(kernel, 2, rows, keys, 64, causal=causal, order=ORDERS[(number + workgroups) % len(ORDERS)])


@pytest.mark.parametrize("rows, keys", [(300, 128), (300, 72), (129, 400)])
@pytest.mark.parametrize("causal", [False, True])
def test_known_sizes(causal, rows, keys):
    """Short loops, too: a later iteration may always be the last one."""
    kernel = compiled(attention(64, causal), 64, 3, {H: 3, M: rows, KEY: keys})
    assert is_persistent(kernel)
    for order in ORDERS[::2]:
        check(kernel, 3, rows, keys, 64, causal=causal, order=order)


FORMS = [
    (128, {"causal": True}),
    (64, {"causal": True, "window": 70}),
    (64, {"window": 40}),
    (64, {"causal": True, "group": 2}),
    (128, {"group": 2, "bias": True, "causal": True}),
    (64, {"bias": True, "causal": True, "sums": True}),
    (64, {"bias": True, "sums": True}),
]


@pytest.mark.parametrize("head, form", FORMS)
def test_forms(head, form):
    """Wide heads, a window, heads that share keys, a bias that is read before the loop, two outputs."""
    kernel = compiled(attention(head, **form), head, 3, group=form.get("group", 1))
    assert is_persistent(kernel)
    for number, (rows, keys) in enumerate([(300, 129), (127, 400), (130, 8)]):
        check(kernel, 4, rows, keys, head, order=ORDERS[number + 1], **form)


LIBRARY = [
    {"causal": True},
    {"causal": True, "window": (60, 0)},
    {"window": (30, 50)},
    {},
]


@pytest.mark.parametrize("workgroups", [1, 3])
@pytest.mark.parametrize("options", LIBRARY)
def test_library(options, workgroups, monkeypatch):
    """`ops.attention`, which decides otherwise for so few tiles."""
    made = programs.wave_compile

    seen = []

    def persistent(given, kernel):
        given.persistent_workgroups = workgroups
        seen.append(made(given, kernel))
        return seen[-1]

    monkeypatch.setattr(programs, "wave_compile", persistent)
    programs._compiled.cache_clear()
    rng = np.random.default_rng(3)
    for rows, keys in ((130, 200), (1, 300), (200, 70)):
        q = (rng.standard_normal((2, rows, 4, 64)) / 8).astype("f2")
        k_, v = (rng.standard_normal((2, keys, 4, 64)).astype("f2") for _ in range(2))
        with ops.on_target(TARGET):
            found = ops.attention(q, k_, v, scale=1.0, **options)
        for b in range(2):
            heads = [x[b].astype("f8").swapaxes(0, 1) for x in (q, k_, v)]
            want = library_expected(*heads, options)
            np.testing.assert_allclose(found[b].swapaxes(0, 1), want, atol=4e-3)
    assert any(is_persistent(kernel) for kernel in seen)
    programs._compiled.cache_clear()


def library_expected(q, keys, values, options):
    left, right = options.get("window", (-1, -1))
    right = 0 if options.get("causal") else right
    group = len(q) // len(keys)
    row = np.arange(q.shape[1])[:, None] + keys.shape[1] - q.shape[1]
    key = np.arange(keys.shape[1])
    hidden = np.zeros((q.shape[1], keys.shape[1]), bool)
    if right >= 0:
        hidden |= key > row + right
    if left >= 0:
        hidden |= key < row - left
    x = np.where(hidden, -np.inf, q @ np.repeat(keys, group, 0).swapaxes(1, 2))
    e = np.exp(x - np.max(x, 2, keepdims=True, initial=NOTHING))
    total = e.sum(2, keepdims=True)
    return e @ np.repeat(values, group, 0) / np.where(total > 0, total, 1)


def without(text, pattern, count=1):
    """The text without each line that has the pattern, one at a time."""
    lines = text.split("\n")
    found = [n for n, line in enumerate(lines) if re.search(pattern, line)]
    for n in found[:count]:
        yield lines[n].strip(), "\n".join(lines[:n] + lines[n + 1 :])


def faults(text):
    """Programs of one lane without one thing that orders waves from tile to tile."""
    yield from without(text, "mbar_wait %empty", 8)
    yield from without(text, "mbar_wait %full", 8)
    yield from without(text, "mbar_arrive %empty", 8)
    counted = re.sub(r"= runs KEY \{.*\} : i64", "= scalar $RUN.2 + 2 : i64", text)
    yield "$RUN is not counted on", re.sub(r"(= scalar )\$RUN\.2 \+ .*( : i64)", r"\1$RUN.2\2", counted)
    yield "one iteration too many", re.sub(r"(= scalar )\$RUN\.2 \+ (.*)( : i64)", r"\1$RUN.2 + 1 + \2\3", counted)
    if "= runs KEY {" in text:
        yield "the iterations of another step", text.replace("= runs KEY {", "= runs KEY {step = 3, ")
    for old in sorted(set(re.findall(r"Mod\(floor\(\$ARG\$TILES/2\)(?: \+ 1)?, 2\)", text))):
        new = old.replace(", 2)", " + 1, 2)") if "+" not in old else old.replace(" + 1", "")
        yield f"the phase of another tile: {old}", text.replace(old, new)
    yield "the slot of another tile", text.replace("Mod($ARG$TILES, 2)", "Mod($ARG$TILES + 1, 2)", 1)


def proved(kernel):
    return [said.startswith("all ") for said in re.findall(r"^loop .*\n  (.*)$", kernel.proof().text, re.M)]


def test_proof_notices_faults():
    """Not only in the orders of waves that are simulated."""
    kernel = parsed(str(compiled(attention(64, True), 64, 1).ir))
    kernel.run_passes(target="sm_90a", stop_after="sync")
    assert proved(kernel) == [True, True]
    found = list(faults(str(kernel)))
    assert len(found) >= 14
    for what, fault in found:
        assert fault != str(kernel) and not all(proved(parsed(fault))), what


def is_found(text, rows, keys):
    for order in ORDERS:
        try:
            parsed(text).sim(arguments(1, rows, keys, 64), TARGET, order)
        except SimulationError:
            return True
    return False


def test_faults_are_found():
    """In some order of waves: with few iterations, queries go round their slots before keys do; with many, keys do."""
    sizes = (320, 320), (640, 96)
    text = str(compiled(attention(64, True), 64, 1).lowered)
    assert not any(is_found(text, *size) for size in sizes)
    found = list(faults(text))
    early = [n for n, (what, _) in enumerate(found) if "mbar_arrive %empty.1" in what]
    del found[early[-1]]  # of the last iteration, after which there is none to release early
    assert len(found) >= 20
    for what, fault in found:
        assert fault != text and any(is_found(fault, *size) for size in sizes), what


def test_symbols_that_are_set_again_after_the_loop():
    """How often the loop ran is counted as it was at the loop."""
    length = tkl.sym.LENGTH
    rows = [
        tkw.HardwareConstraint(threads_per_wave=128),
        tkw.WorkgroupConstraint(M, 64, 0),
        tkw.WorkgroupConstraint(N, 64, 1),
        tkw.TilingConstraint(KEY, 32, iters=tkl.Min(length + WORKGROUP_0, tkl.ceiling(KEY / 32))),
        tkw.WaveConstraint(M, 64),
    ]

    @tkw.wave(rows)
    def staircase(
        a: tkl.Memory[M, KEY, S, tkl.f16], b: tkl.Memory[N, KEY, S, tkl.f16], c: tkl.Memory[M, N, G, tkl.f32]
    ):
        tkw.set_symbol(length, tkw.scalar(1, tkl.i32))

        @tkw.iterate(KEY, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.set_symbol(length, tkw.scalar(0, tkl.i32))
        tkw.write(product, c)

    options = WaveCompileOptions(subs={M: 300, N: 200, KEY: 136}, target=TARGET, persistent_workgroups=3)
    kernel = wave_compile(options, staircase)
    assert is_persistent(kernel) and "$RUN" in str(kernel.lowered)
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, (n, 136)).astype("f2") for n in (300, 200))
    seen = np.arange(136) < 32 * (np.arange(300)[:, None] // 64 + 1)
    for order in ORDERS:
        c = np.full((300, 200), np.nan, "f4")
        kernel.simulate(a, b, c, schedule=order)
        np.testing.assert_array_equal(c, np.where(seen, a, 0).astype("f4") @ b.T.astype("f4"))


@pytest.mark.parametrize("workgroups", [0, 1, 3])
def test_a_window_for_each_row_of_tiles(workgroups):
    """A loop begins elsewhere for each tile; all have as many iterations."""
    rows = [
        tkw.HardwareConstraint(threads_per_wave=128),
        tkw.WorkgroupConstraint(M, 64, 0),
        tkw.WorkgroupConstraint(N, 64, 1),
        tkw.TilingConstraint(KEY, 32, iters=2, start=WORKGROUP_0 * 32),
        tkw.WaveConstraint(M, 64),
    ]

    @tkw.wave(rows)
    def window(
        a: tkl.Memory[M, KEY, S, tkl.f16], b: tkl.Memory[N, KEY, S, tkl.f16], c: tkl.Memory[M, N, G, tkl.f32]
    ):
        @tkw.iterate(KEY, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    options = WaveCompileOptions(subs={M: 300, N: 200, KEY: 136}, target=TARGET, persistent_workgroups=workgroups)
    kernel = wave_compile(options, window)
    assert is_persistent(kernel) == bool(workgroups)
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-3, 4, (n, 136)).astype("f2") for n in (300, 200))
    first, key = 32 * (np.arange(300)[:, None] // 64), np.arange(136)
    c = np.full((300, 200), np.nan, "f4")
    kernel(a, b, c)
    np.testing.assert_array_equal(c, np.where((key >= first) & (key < first + 64), a, 0).astype("f4") @ b.T.astype("f4"))
