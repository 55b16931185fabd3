"""The simulator from Python: findings, reports, schedules, checks of kernels, threads, Ctrl-C."""

import json
import linecache
import os
import signal
import threading
import time
from html.parser import HTMLParser

import numpy as np
import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import CompileError, SimulationError, _wave, testing
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile
from wave_lang.testing import check, simulate

M, N = tkl.sym.M, tkl.sym.N

TURN = """
thread kernel @turn(%a: mem<M, N, f32>, %b: mem<N, M, f32>)
  launch grid (1) block (8, 8) wave 32 shared 256
  bind M = 8; bind N = 8
{
  %s = alloc : mem<8, 8, f32, shared>
  %from = expr 8*$T1 + $T0 : index
  %x = load %a, %from : f32
  store %x, %s, %from
  barrier workgroup
  %at = expr 8*$T0 + $T1 : index
  %y = load %s, %at : f32
  store %y, %b, %from
}
"""
RACE = TURN.replace("  barrier workgroup\n", "")
SPIN = """
thread kernel @spin(%a: mem<M, f32>)
  launch grid (1000000) block (32) wave 32
  bind M = 32
{
  %i = expr $T0 : index
  %x = load %a, %i : f32
}
"""


def pair():
    return np.arange(64, dtype="f4").reshape(8, 8), np.zeros((8, 8), "f4")


def test_a_right_kernel_gives_a_report():
    a, b = pair()
    report = simulate(TURN, a, b, target="sim:sm_90a", name="turn.wave")
    assert (b == a.T).all() and report.findings == []
    assert "thread kernel @turn" in report.ir and "barrier workgroup" in report.text()
    loads = [c for c in report.lines if c.line == 12]
    assert loads[0].file == "turn.wave" and loads[0].shared == 2 and loads[0].conflicts == 2
    assert report.total.instructions == sum(c.instructions for c in report.lines) == 14
    assert repr(report) == "<report of turn: 0 findings>"


@pytest.mark.parametrize("schedule", testing.SCHEDULES)
def test_findings_are_records(schedule):
    with pytest.raises(SimulationError, match="E0803") as e:
        simulate(RACE, *pair(), target="sim:sm_90a", schedule=schedule, name="race.wave")
    assert isinstance(e.value, CompileError) and e.value.report.findings is e.value.findings
    (first,) = [f for f in e.value.findings if f.code == "E0803"]
    assert {first.line, first.other.line} == {11, 9}
    assert first.file == first.other.file == "race.wave" and first.workgroup == (0, 0, 0)
    assert first.buffer == "s" and first.address == 4 * (8 * first.index[0] + first.index[1])
    assert first.wave in (0, 1) and 0 <= first.lane < 32 and first.other.wave in (0, 1)
    assert f"lane {first.lane}" in first.message and "^^^" in first.rendered
    assert [d.code for d in e.value.diagnostics] == [f.code for f in e.value.findings]


def test_a_pair_of_lines_is_one_finding_with_a_count():
    """The second of the two lines gets the finding: 56 of 64 lanes race."""
    with pytest.raises(SimulationError) as e:
        simulate(RACE, *pair(), target="sim:sm_90a")
    race, unset = e.value.findings
    assert (race.code, race.count, unset.code) == ("E0803", 56, "E0804")
    assert "note: found 56 times on these lines; the first is described" in race.rendered
    assert unset.count == 1 and "times" not in unset.rendered
    assert [f["count"] for f in json.loads(e.value.report.json())["findings"]] == [56, 1]


@pytest.mark.parametrize("extent", (31, 20))
def test_a_count_is_of_instances(extent):
    text = SPIN.replace("1000000", "1").replace("M = 32", f"M = {extent}")
    with pytest.raises(SimulationError) as e:
        simulate(text, np.zeros(extent, "f4"))
    (bounds,) = e.value.findings
    assert (bounds.code, bounds.count, bounds.lane) == ("E0801", 32 - extent, extent)
    assert ("on this line" in bounds.rendered) == (bounds.count > 1)


def test_lines_of_two_codes_are_two_findings():
    """The same line reads outside `s`, and an uninitialised value."""
    text = TURN.replace("%y = load %s, %at : f32", "%y = load %s, %at {imm = 8} : f32")
    with pytest.raises(SimulationError) as e:
        simulate(text.replace("store %x, %s, %from", ""), *pair())
    assert [(f.code, f.line, f.count > 1) for f in e.value.findings][:1] == [("E0801", 12, True)]
    assert len({(f.code, f.line) for f in e.value.findings}) == len(e.value.findings) == 2


def test_findings_without_memory_have_none():
    text = TURN.replace("store %x, %s, %from", "store %x, %s, %from {imm = 1}")
    with pytest.raises(SimulationError) as e:
        simulate(text, *pair())
    bounds = next(f for f in e.value.findings if f.code == "E0801")
    assert (bounds.buffer, bounds.address, bounds.index, bounds.other) == ("s", 256, None, None)
    unset = next(f for f in e.value.findings if f.code == "E0804")
    assert unset.buffer is unset.index is unset.address is unset.other is None


def test_a_report_outlives_its_kernel_and_error():
    try:
        simulate(RACE, *pair())
    except SimulationError as error:
        report = error.report
    assert "store %x" in report.text() and report.findings[0].rendered


@pytest.mark.parametrize(
    "given, code, words",
    [
        ({"target": "sim:sm_91a"}, "E0603", "did you mean `sim:sm_90a`?"),
        ({"target": "sim:eval"}, "E0603", "no lanes"),
        ({"target": "sim:gfx942"}, "E0813", "the wave has 32 lanes, but those of `gfx942` have"),
        ({"schedule": "rondom"}, "E0602", "did you mean `random`?"),
        ({"schedule": "random:"}, "E0602", "random:SEED"),
    ],
)
def test_mistakes_are_diagnostics(given, code, words):
    with pytest.raises(CompileError) as e:
        simulate(TURN, *pair(), **given)
    assert e.value.diagnostics[0].code == code and words in str(e.value)
    assert not isinstance(e.value, SimulationError)


def test_wrong_arguments():
    a, b = pair()
    with pytest.raises(TypeError, match=r"turn\(\) takes 2 arguments \(a, b\), 1 given"):
        simulate(TURN, a)
    with pytest.raises(TypeError, match="argument `b` must be a tensor"):
        simulate(TURN, a, 3)
    with pytest.raises(CompileError, match="E0702"):
        simulate(TURN, a, np.zeros(8, "f4"))
    with pytest.raises(ValueError, match="`b` is written by the kernel but is read-only"):
        b.setflags(write=False)
        simulate(TURN, a, b)
    with pytest.raises(ValueError, match="one kernel, got 2"):
        simulate(TURN + RACE.replace("@turn", "@race"), a, b)
    with pytest.raises(CompileError, match="E0501"):
        simulate("thread kernel", a, b)


NEIGHBOUR = """
thread kernel @next(%a: mem<M, DTYPE>, %b: mem<M, DTYPE>)
  launch grid (1) block (32) wave 32
  bind M = 32
{
  %at = expr $T0 : index
  %from = expr Mod($T0 + BY, 32) : index
  %x = load %a, %from : DTYPE
  store %x, %b, %at
}
"""


def neighbour(by, dtype="i32"):
    return NEIGHBOUR.replace("BY", str(by)).replace("DTYPE", dtype)


@pytest.mark.parametrize("schedule", ["round", "reverse", "first", "random:5"])
def test_arrays_that_share_memory_are_one(schedule):
    """An array passed twice, and two overlapping parts of one; in-place use is not a race."""
    whole = np.arange(40, dtype="i4")
    for a, b, by in ((whole[:32], whole[:32], 1), (whole[:32], whole[8:], 0)):
        with pytest.raises(SimulationError, match="E0803"):
            simulate(neighbour(by), a, b, target="sim:sm_90a", schedule=schedule)
    simulate(neighbour(0), whole[:32], whole[:32], target="sim:sm_90a", schedule=schedule)
    other = np.arange(72, dtype="i4")
    simulate(neighbour(1), other[:32], other[32:64], target="sim:sm_90a", schedule=schedule)


def test_parts_of_elements_that_share_memory():
    """Elements of different sizes that partly overlap."""
    text = neighbour(0, "i32").replace("%b: mem<M, i32>", "%b: mem<M, i8>")
    text = text.replace("store %x", "%y = cast %x : i8\n  store %y")
    bytes_ = np.zeros(200, "i1")
    with pytest.raises(SimulationError, match="E0803"):
        simulate(text, bytes_[:128].view("i4"), bytes_[3:35], target="sim:sm_90a")
    simulate(text, bytes_[:128].view("i4"), bytes_[131:163], target="sim:sm_90a")


def test_the_same_text_is_one_name_per_run():
    """Two texts under one name show their own lines."""
    a, b = pair()
    for text, line in ((RACE, "store %x, %s, %from"), (RACE.replace("%x", "%zz"), "store %zz")):
        with pytest.raises(SimulationError) as e:
            simulate(text, a, b, name="k.wave")
        assert line in str(e.value)


# ---- threads and signals


def test_others_run_meanwhile():
    results, done = [], threading.Event()

    def work():
        for _ in range(20):
            try:
                simulate(RACE, *pair())
            except SimulationError as error:
                results.append(len(error.findings))
        done.set()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for w in workers:
        w.start()
    made = 0
    while not done.is_set() or made < 200:  # the module's own context is busy at the same time
        assert str(tkl.sym.M * made + made) and _wave.parse(TURN)[0].name == "turn"
        made += 1
    for w in workers:
        w.join()
    assert results == [2] * 60


def test_a_simulation_releases_the_lock():
    stop = threading.Event()
    ticks = []

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    text = SPIN.replace("1000000", "20000")
    start = time.monotonic()
    simulate(text, np.zeros(32, "f4"))
    took = time.monotonic() - start
    stop.set()
    thread.join()
    during = [t for t in ticks if start < t < start + took]
    assert took < 0.02 or len(during) > 3


@pytest.fixture
def interruptible():
    """The process that started the tests may ignore the signal, as shells do for background
    jobs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("run", ["sim", "eval"])
def test_interrupt(run, interruptible):
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    start = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        if run == "sim":
            simulate(SPIN, np.zeros(32, "f4"))
        else:
            kernel = wave_compile(
                WaveCompileOptions(subs={M: 1 << 14, N: 1 << 12}, target="eval"), scale
            )
            x = np.zeros((1 << 14, 1 << 12), "f4")
            kernel(x, x.copy())
    assert time.monotonic() - start < 10
    timer.join()


# ---- kernels


@tkw.wave(
    [
        tkw.HardwareConstraint(threads_per_wave=64, vector_shapes={M: 1, N: 64}),
        tkw.WorkgroupConstraint(M, 4, 0),
        tkw.WorkgroupConstraint(N, 64, 1),
        tkw.WaveConstraint(M, 4),
        tkw.WaveConstraint(N, 64),
    ]
)
def scale(a: tkl.Memory[M, N, G, tkl.f32], b: tkl.Memory[M, N, G, tkl.f32]):
    x = tkw.read(a)
    tkw.write(x + x, b)


def options(target="eval", **sizes):
    subs = {M: sizes.get("m", 6), N: sizes.get("n", 100)}
    return WaveCompileOptions(subs=subs, target=target)


def lowers():
    try:
        wave_compile(options("sim"), scale)
    except CompileError as error:
        assert error.diagnostics[-1].code == "E0601"
        return False
    return True


lowered = pytest.mark.skipif(not lowers(), reason="nothing lowers tiles to threads yet")


def tensors(m=6, n=100):
    return np.arange(m * n, dtype="f4").reshape(m, n), np.zeros((m, n), "f4")


def test_unknown_simulated_target_is_named():
    with pytest.raises(CompileError) as e:
        wave_compile(options("sim:gfx943"), scale)
    assert e.value.diagnostics[0].code == "E0603"
    assert "did you mean `sim:gfx942`?" in str(e.value)


def test_what_is_not_simulated_has_no_report():
    kernel = wave_compile(options(), scale)
    with pytest.raises(ValueError, match="has not been simulated"):
        kernel.report()
    with pytest.raises(ValueError, match="compile it with target='sim:gfx942'"):
        kernel.simulate(*tensors())
    assert kernel.lowered is None


def test_ir_after_a_pass():
    kernel = wave_compile(options("gfx942"), scale)
    assert "machine" not in kernel.asm and "machine" in kernel.ir_after("retarget")
    assert "reg" in kernel.ir_after("layouts")
    assert kernel.ir_after("bind") == kernel.ir_after("bind")
    with pytest.raises(CompileError, match="did you mean `layouts`?"):
        kernel.ir_after("layout")


@lowered
@pytest.mark.parametrize("target", ["sim", "sim:gfx942", "sim:sm_80", "sim:sm_90a", "sim:toy8"])
def test_kernels_run_simulated(target):
    kernel = wave_compile(options(target), scale)
    a, b = tensors()
    kernel(a, b)
    assert (b == 2 * a).all() and kernel.lowered.level == "thread"
    assert kernel.report().total.sectors > 0
    assert kernel.simulate(a, b, schedule="reverse").findings == []
    assert "thread kernel @scale" in kernel.report().ir


@lowered
def test_edited_ir_is_simulated():
    a, b = tensors()
    text = str(wave_compile(options("sim"), scale).lowered)
    assert simulate(text, a, b).findings == [] and (b == 2 * a).all()
    less = [line for line in text.splitlines() if " add " not in line]
    assert len(less) < len(text.splitlines())
    with pytest.raises(CompileError):
        simulate("\n".join(less), a, b)


@lowered
def test_check_passes_and_fails():
    a, b = tensors()
    reports = check(scale, (a, b), 2 * a, options=options())
    assert len(reports) == 2 * len(testing.SCHEDULES) and not b.any()
    assert len(check(scale, (a, b), options=options(), targets="sim", schedules="round")) == 1
    compiled = wave_compile(options(), scale)
    assert check(compiled, (a, b), {"b": 2 * a}, targets=["sim:sm_80"], schedules=["random:3"])
    with pytest.raises(AssertionError) as e:
        check(scale, (a, b), 2 * a + (a == 7), options=options(), rtol=0, atol=1e-6)
    assert str(e.value) == (
        "scale on sim:gfx942, schedule round: 1 of 600 elements of `b` are wrong; the worst is "
        "b[0, 7] = 14, expected 15 (rtol 0, atol 1e-06)"
    )


@lowered
@pytest.mark.parametrize(
    "expected, words",
    [
        ({"a": 0}, "`a` is not an output; outputs are b"),
        ([1, 2], "got 2 values for the outputs b"),
    ],
)
def test_check_refuses(expected, words):
    with pytest.raises(ValueError, match=words):
        check(scale, tensors(), expected, options=options())


@lowered
def test_check_of_a_wrong_shape():
    with pytest.raises(AssertionError, match=r"`b` has shape \(6, 100\), expected \(3,\)"):
        check(scale, tensors(), np.zeros(3), options=options())


def test_check_wants_a_kernel():
    with pytest.raises(TypeError, match="expected a kernel"):
        check(print, ())


# ---- reports


class Page(HTMLParser):
    """The ids and links of a page; AssertionError if its tags do not match."""

    EMPTY = {"meta", "input", "path", "rect"}

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.tags, self.text = [], [], [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        assert not {"src", "action", "srcset"} & set(attrs)
        self.tags.append(tag)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if "href" in attrs:
            self.links.append(attrs["href"])
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data


def check_page(text):
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert all(link[0] == "#" and link[1:] in page.ids for link in page.links)
    return page


def test_json_says_what_the_records_say():
    with pytest.raises(SimulationError) as e:
        simulate(RACE, *pair(), target="sim:sm_90a", schedule="random:3", name="race.wave")
    data = json.loads(e.value.report.json())
    assert data["schema"] == "wave-simulation/1" and data["kernel"] == "turn" and not data["ok"]
    assert data["machine"]["name"] == "sm_90a" and data["launch"]["schedule"] == "random:3"
    assert data["launch"]["block"] == [8, 8, 1] and data["launch"]["waves"] == 2
    assert len(data["findings"]) == len(e.value.findings)
    for one, record in zip(data["findings"], e.value.findings):
        for name in ("code", "message", "file", "line", "col", "wave", "lane", "buffer", "address"):
            assert one[name] == getattr(record, name)
        assert tuple(one["workgroup"]) == record.workgroup
        assert (one["other"] or {}).get("line") == (record.other and record.other.line)
    total = data["total"]
    for name in total:
        assert total[name] == sum(line[name] for line in data["lines"])
    assert data["lines"][-1]["source"].strip() == "store %y, %b, %from"
    assert data["shared"] == [
        {"name": "s", "type": "mem<8, 8, f32, shared>", "line": 6, "offset": 0, "bytes": 256}
    ]
    shared = [a for a in data["accesses"] if a["space"] == "shared"]
    assert [a["op"] for a in shared] == ["store", "load"] and len(shared[0]["addresses"]) == 32
    assert _wave.parse(data["ir"])[0] == _wave.parse(RACE)[0]


def test_page_of_findings():
    with pytest.raises(SimulationError) as e:
        simulate(RACE, *pair(), target="sim:sm_90a", name="race.wave")
    page = check_page(e.value.report.html())
    assert "finding2" in page.ids and "finding3" not in page.ids
    assert "data race" in page.text and "race.wave" in page.text
    assert "layouts" not in page.ids


def test_odd_names_are_shown_as_they_are():
    name = "a <b> & \"c\" 'd' é.wave"
    report = simulate(TURN, *pair(), name=name)
    assert json.loads(report.json())["lines"][0]["file"] == name
    assert name in check_page(report.html()).text


def test_the_same_run_gives_the_same_page():
    one, two = (simulate(TURN, *pair()) for _ in range(2))
    assert one.html() == two.html() and one.json() == two.json()


def test_a_source_python_alone_knows_is_shown():
    """A notebook's cell."""
    code = TURN.strip()
    linecache.cache["<cell>"] = (len(code), None, code.splitlines(True), "<cell>")
    assert "barrier workgroup" in check_page(simulate(code, *pair(), name="<cell>").html()).text


@lowered
@pytest.mark.parametrize("target", ["sim:gfx942", "sim:sm_90a", "sim:toy8"])
def test_page_of_a_kernel_shows_its_tiles(target):
    kernel = wave_compile(options(target), scale)
    kernel(*tensors())
    page = check_page(kernel.report().html())
    assert "layouts" in page.ids and "tkw.write(x + x, b)" in page.text
    layouts = json.loads(kernel.report().json())["layouts"]
    assert layouts and all(layout["layout"].startswith("[") for layout in layouts)
    assert any(v["name"] == "x" for layout in layouts for v in layout["values"])


@lowered
def test_large_kernels_are_cut():
    body = "\n".join(f"  %v{i} = expr $T0 + {i} : i32" for i in range(5000))
    head = "thread kernel @k(%a: mem<M, f32>)\n  launch grid (1) block (32) wave 32\n  bind M = 1\n"
    text = head + "{\n" + body + "\n}\n"
    html = simulate(text, np.zeros(1, "f4")).html()
    assert html.count("The first 2000 lines are shown.") == 2 and len(html) < 2_000_000
    check_page(html)
