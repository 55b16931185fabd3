"""Launches on a GPU: streams, graphs, threads, views, mistakes, errors of the device."""

import threading

import torch

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from gpu_utils import raises, run_child
from wave_lang import CompileError, LaunchError, WaveCompileOptions, _wave, wave_compile
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.kernel.lang.global_symbols import SHARED_ADDRESS_SPACE as S

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K


def scaled(dtype=tkl.f32, *extra):
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: 128}),
            tkw.WorkgroupConstraint(M, 1, 1),
            tkw.WorkgroupConstraint(N, 128, 0),
            *extra,
        ]
    )
    def scaled(x: tkl.Memory[M, N, G, dtype], factor: dtype, y: tkl.Memory[M, N, G, dtype]):
        tkw.write(tkw.read(x) * tkw.broadcast(factor, [M, N]), y)

    return scaled


def dynamic(kernel=None, **options):
    options = {"dynamic_symbols": [M, N], **options}
    return wave_compile(WaveCompileOptions(**options), kernel or scaled())


def pair(*shape, **named):
    return torch.randn(*shape, device="cuda", **named), torch.full(shape, torch.nan, device="cuda")


def check(kernel, x, y, factor=2.0, **named):
    kernel(x, factor, y, **named)
    assert torch.equal(y, x * factor)


def test_default_target_is_the_gpu():
    kernel = dynamic()
    assert kernel.machine.kind == "cuda" and kernel.target == _wave.devices()[0].target
    check(kernel, *pair(3, 200))


def test_sizes():
    kernel = dynamic()
    for shape in ((1, 1), (1, 127), (2, 128), (3, 129), (70, 1000), (0, 5), (5, 0)):
        check(kernel, *pair(*shape))


def test_views():
    kernel = dynamic()
    x = torch.randn(8, 300, device="cuda")
    for view in (x[::2], x[:, ::3], x.T, x[1:, 1:], x[:, 4:].T, x[:1].expand(5, 300)):
        check(kernel, view, torch.zeros_like(view, memory_format=torch.contiguous_format))
        whole = torch.full((view.shape[0] * 2, view.shape[1] * 2), -1.0, device="cuda")
        check(kernel, view, whole[::2, 1::2])
        assert (whole[1::2] == -1).all() and (whole[:, ::2] == -1).all()


def compiled_facts(kernel):
    return {v.facts for v in kernel.program.variants if v.compiled}


def test_offsets_beyond_32_bits():
    """More than 2**31 bytes and elements: the same with 64-bit addresses."""
    kernel = dynamic(scaled(tkl.i8))
    rows, columns = 60000, 40000
    assert rows * columns > 2**31
    x = torch.randint(-60, 60, (rows, columns), device="cuda", dtype=torch.int8)
    y = torch.zeros_like(x)
    assert all("32-bit offsets" in facts for facts in compiled_facts(kernel))
    kernel(x, 2, y)
    torch.cuda.synchronize()
    assert torch.equal(y, x * 2)
    assert any("32-bit" not in facts for facts in compiled_facts(kernel))
    y.zero_()
    kernel(x[:, 1:-6], 2, y[:, 1:-6])  # any alignment: the last variant
    assert "" in compiled_facts(kernel)
    assert torch.equal(y[:, 1:-6], x[:, 1:-6] * 2) and (y[:, 0] == 0).all()
    assert (y[:, -6:] == 0).all()
    del x, y
    torch.cuda.empty_cache()


def test_host_tensors_compile_for_the_host():
    kernel = dynamic()
    x, y = torch.randn(3, 40), torch.zeros(3, 40)
    check(kernel, x, y)
    check(kernel, *pair(3, 40))


def test_every_way_of_taking_tensors():
    kernel = dynamic()
    for exchange in (True, False):
        _wave.use_exchange(exchange)
        try:
            check(kernel, *pair(3, 40))
        finally:
            _wave.use_exchange(True)

    class Interface:
        def __init__(self, tensor):
            self.tensor = tensor

        @property
        def __cuda_array_interface__(self):
            return self.tensor.__cuda_array_interface__

    x, y = pair(3, 40)
    kernel(Interface(x), 2.0, Interface(y))
    assert torch.equal(y, 2 * x)


def test_dlpack_alone():
    class Capsule:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, stream=None):
            assert stream == -1
            return self.tensor.__dlpack__(stream=-1)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    x, y = pair(3, 40)
    dynamic()(Capsule(x), 2.0, Capsule(y))
    assert torch.equal(y, 2 * x)


# ---- streams, graphs, threads --------------------------------------------------------------------


def slow(x):
    """Work that keeps a stream busy for a while."""
    for _ in range(20):
        x = x @ x * 1e-3
    return x


def test_current_stream():
    kernel, (x, y) = dynamic(), pair(64, 1000)
    check(kernel, x, y)
    stream = torch.cuda.Stream()
    for exchange in (True, False):
        _wave.use_exchange(exchange)
        y.fill_(torch.nan)
        x.fill_(0)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            slow(torch.randn(2048, 2048, device="cuda"))
            x.fill_(3.0)  # after the slow work: a kernel on another stream would not see it
            kernel(x, 2.0, y)
        stream.synchronize()
        assert (y == 6).all(), exchange
    _wave.use_exchange(True)


def test_a_stream_that_is_given():
    kernel, (x, y) = dynamic(), pair(64, 1000)
    check(kernel, x, y)
    stream = torch.cuda.Stream()
    for given in (stream, stream.cuda_stream):
        x.fill_(0)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            slow(torch.randn(2048, 2048, device="cuda"))
            x.fill_(4.0)
        kernel(x, 2.0, y, stream=given)
        stream.synchronize()
        assert (y == 8).all()
        kernel.launch(x, 3.0, y, stream=given)
        stream.synchronize()
        assert (y == 12).all()
    with raises(TypeError, "stream"):
        kernel(x, 2.0, y, stream="s")


def test_graphs():
    kernel, (x, y) = dynamic(), pair(64, 1000)
    kernel(x, 2.0, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, 3.0, y)
    for _ in range(3):
        x.normal_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, 3 * x)


def test_what_was_not_compiled_yet_cannot_be_captured():
    kernel, (x, y) = dynamic(), pair(4, 128)
    kernel(x, 2.0, y)
    torch.cuda.synchronize()
    whole = torch.zeros(9, 301, device="cuda")
    odd = whole[1:, 1:]  # another variant
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            kernel(odd, 2.0, odd)
    except LaunchError as error:
        assert "captur" in str(error) and "launch it once" in str(error) or "warm" in str(error)
    torch.cuda.synchronize()
    check(kernel, x, y)


def test_debug_logs():
    """The same logs as the evaluator's; on any stream, but not in a capture."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: 128}),
            tkw.WorkgroupConstraint(M, 1, 1),
            tkw.WorkgroupConstraint(N, 128, 0),
        ]
    )
    def logging(x: tkl.Memory[M, N, G, tkl.f32]):
        v = tkw.read(x)
        tkw.debug_log(v, "before", printer=None)
        tkw.debug_log(v > 0.0, "positive", printer=None)
        tkw.debug_log(tkw.cast(v, tkl.bf16), "short", printer=None)
        tkw.write(v + 1.0, x)

    kernel, reference = dynamic(logging), dynamic(logging, target="eval")
    for shape in ((1, 1), (5, 70), (64, 256), (0, 3)):
        x, logs, expected = torch.randn(*shape, device="cuda"), {}, {}
        reference(x.cpu(), debug_logs=expected)
        kernel(x, debug_logs=logs, stream=torch.cuda.Stream())
        assert list(logs) == list(expected)
        for label, log in expected.items():
            value = logs[label]["value"]  # where the tensors of the call are
            assert value.device == x.device and torch.equal(value.cpu(), log["value"]), label
        assert torch.equal(x.cpu(), expected["before"]["value"] + 1)
    with raises(LaunchError, "E0905", "has debug logs"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            kernel(x, debug_logs={})


def test_threads():
    kernel, failed = dynamic(), []

    def work(seed):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for i in range(50):
                    x, y = pair(1 + (seed + i) % 7, 100 + i)
                    kernel(x, float(seed), y)
                    torch.cuda.current_stream().synchronize()
                    assert torch.equal(y, x * seed)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed, failed[0]


def test_compiled_by_several_threads():
    made, failed = [], []

    def work(i):
        try:
            made.append(dynamic(scaled(), subs={M: 1 + i}, dynamic_symbols=[N]))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed, failed[0]
    for kernel in made:
        rows = kernel.options.subs[M]
        check(kernel, *pair(rows, 77))


# ---- inspection ----------------------------------------------------------------------------


def test_looking():
    kernel = dynamic()
    assert ".entry scaled" in kernel.ptx and kernel.asm == kernel.ptx or ".entry" in kernel.asm
    r = kernel.resources
    assert 0 < r.registers <= 255 and r.spilled == 0 and r.threads >= 32
    assert 0 < r.occupancy <= 1 and r.workgroups >= 1
    assert kernel.program.variants and kernel.program.kind == "cuda"
    assert "load" in kernel.ir_after("lower_threads")


def test_other_targets():
    for target in ("sm_80", "sm_90a", "cuda", "hip/gfx942", "gfx942"):
        kernel = dynamic(target=target)
        check(kernel, *pair(3, 200))
        assert ("no AMD device" in str(kernel.remarks)) == ("gfx" in target)


def test_edited_ir_runs():
    text = str(dynamic().ir)
    x, y = pair(3, 200)
    kernel = dynamic(override_mlir=text.replace(" mul ", " add "))
    kernel(x, 2.0, y)
    assert torch.equal(y, x + 2)


# ---- mistakes: nothing is launched ---------------------------------------------------------------


def test_mistakes_name_argument_expected_and_found():
    kernel, (x, y) = dynamic(), pair(3, 200)
    y.fill_(7)
    with raises(CompileError, "x", "f16"):
        kernel(x.half(), 2.0, y)
    with raises(CompileError, "x", "3", "2"):
        kernel(x[None], 2.0, y)
    with raises(CompileError, "y"):
        kernel(x, 2.0, y[:, :-1])
    with raises((CompileError, ValueError), "y"):
        kernel(x, 2.0, y.cpu())
    with raises((CompileError, ValueError), "x"):
        kernel(x.cpu(), 2.0, y)
    with raises(TypeError, "factor"):
        kernel(x, "two", y)
    with raises(TypeError, "takes 3 arguments"):
        kernel(x, y)
    torch.cuda.synchronize()
    assert (y == 7).all()


def test_fixed_sizes_are_checked():
    kernel = wave_compile(WaveCompileOptions(subs={M: 3, N: 200}), scaled())
    check(kernel, *pair(3, 200))
    with raises(CompileError, "x", "200", "201"):
        kernel(*pair(3, 201)[:1], 2.0, pair(3, 201)[1])


def test_assumptions_are_checked():
    kernel = scaled(tkl.f32, tkw.Assumption(N > 100))
    x, y = pair(3, 50)
    y.fill_(7)
    with raises(CompileError, "N"):
        dynamic(kernel, strict=True)(x, 2.0, y)
    torch.cuda.synchronize()
    assert (y == 7).all()
    for made in dynamic(kernel), dynamic(kernel, assume="ignore"):
        check(made, *pair(3, 50))
        check(made, *pair(3, 101))


def test_prepared_kernels_are_captured():
    """Also for arguments that violate the assumptions or have unusual strides."""
    kernel = dynamic(scaled(tkl.f32, tkw.Assumption(N > 100)))
    kernel.prepare()
    x, y = pair(3, 50)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, 2.0, y)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * x)


def test_explicit_targets_refuse_host_tensors():
    x, y = torch.randn(3, 40), torch.zeros(3, 40)
    with raises((ValueError, CompileError), "sm_80"):
        dynamic(target="sm_80")(x, 2.0, y)


GATHER = """
import torch, sys
import wave_lang.kernel.lang as tkl, wave_lang.kernel.wave as tkw
from wave_lang import *
M, N, S = tkl.sym.M, tkl.sym.N, tkl.sym.S
G = GLOBAL_ADDRESS_SPACE
i, d0 = tkw.IndexMapping.iterator(0), tkw.IndexMapping.dynamic_val(0)
far = tkw.IndexMapping(num_iterators=1, inputs={S: d0}, outputs={M: i}, dynamic_val_mappings={M: i})
@tkw.wave([tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 32}),
           tkw.WorkgroupConstraint(M, 32, 0)])
def gather(at: tkl.Memory[M, G, tkl.i32], x: tkl.Memory[S, G, tkl.f32], y: tkl.Memory[M, G, tkl.f32]):
    where = tkw.read(at)
    tkw.write(tkw.read(x, mapping=far, mapping_dynamic_vals=(where,), bounds={}), y)
kernel = wave_compile(WaveCompileOptions(dynamic_symbols=[M, S]), gather)
x, y = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
at = torch.zeros(64, dtype=torch.int32, device="cuda")
kernel(at, x, y)
torch.cuda.synchronize()
assert (y == 1).all()
at += 1 << 30
kernel(at, x, y)
try:
    torch.cuda.synchronize()
except Exception as error:
    print("PyTorch:", type(error).__name__)
try:
    kernel(at, x, y)
except CompileError as error:
    print("Wave:", str(error))
print("alive")
"""


def test_illegal_addresses_come_back_as_exceptions():
    done = run_child(GATHER)
    assert "alive" in done.stdout, done.stdout + done.stderr
    assert "Wave:" in done.stdout and "gather" in done.stdout, done.stdout


TICKETS = """
thread kernel @tickets(%order: mem<N, i32>, %w: mem<N, i32> workspace, %count: mem<1, i32> workspace)
  launch grid (N) block (32) wave 32
  dynamic N
{
  if ($T0 < 1) {
    %zero = scalar 0 : i32
    %one = scalar 1 : i32
    %ticket = atomic add %one, %count, %zero : i32
    %more = atomic add %one, %w, %ticket : i32
    %sum = add %ticket, %more
    store %sum, %order, %ticket
    %back = atomic xchg %zero, %w, %ticket : i32
    %last = expr $APPLY_EXPR_ARG_0 + 1 >= N %ticket : i1
    if %last {
      %left = atomic xchg %zero, %count, %zero : i32
    }
  }
}
"""


def numbers():
    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={N: 32}),
            tkw.WorkgroupConstraint(N, 32, 0),
        ]
    )
    def numbers(order: tkl.Memory[N, G, tkl.i32]):
        tkw.write(tkw.read(order), order)

    return numbers


def test_workspace():
    """Every workgroup draws a ticket: none twice, launch after launch, on two streams at once."""
    options = WaveCompileOptions(dynamic_symbols=[N], override_mlir=TICKETS, target="cuda")
    kernel = wave_compile(options, numbers())
    streams = [torch.cuda.Stream() for _ in range(2)]
    orders = [torch.full((5000,), -1, device="cuda", dtype=torch.int32) for _ in streams]
    torch.cuda.synchronize()
    for _ in range(20):
        for stream, order in zip(streams, orders):
            with torch.cuda.stream(stream):
                order.fill_(-1)
                kernel(order)
    torch.cuda.synchronize()
    expected = torch.arange(5000, device="cuda", dtype=torch.int32)
    assert all(torch.equal(order, expected) for order in orders)
    larger = torch.full((20000,), -1, device="cuda", dtype=torch.int32)
    kernel(larger)
    assert torch.equal(larger, torch.arange(20000, device="cuda", dtype=torch.int32))
    graph = torch.cuda.CUDAGraph()
    fresh = torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=fresh):  # which has no workspace yet
        kernel(larger)
    for _ in range(5):
        larger.fill_(-1)
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(larger, torch.arange(20000, device="cuda", dtype=torch.int32))


def test_operands_copied_to_aligned_rows():
    """Rows of any pitch, views that begin anywhere, also in a graph; nothing around them is read."""

    @tkw.wave(
        [
            tkw.HardwareConstraint(threads_per_wave=128),
            tkw.WorkgroupConstraint(M, 64, 0),
            tkw.WorkgroupConstraint(N, 64, 1),
            tkw.TilingConstraint(K, 64),
            tkw.WaveConstraint(M, 64),
        ]
    )
    def gemm(a: tkl.Memory[M, K, S, tkl.bf16], b: tkl.Memory[N, K, S, tkl.bf16], c: tkl.Memory[M, N, G, tkl.f32]):
        @tkw.iterate(K, init_args=[tkl.Register[M, N, tkl.f32](0.0)])
        def product(acc):
            return tkw.mma(tkw.read(a), tkw.read(b), acc)

        tkw.write(product, c)

    def view(rows, columns, past, before):
        around = torch.full((rows, before + columns + past), torch.nan, device="cuda", dtype=torch.bfloat16)
        around[:, before : before + columns] = torch.randn(rows, columns, device="cuda")
        return around[:, before : before + columns]

    options = WaveCompileOptions(dynamic_symbols=[M, N, K], target="cuda", repack_rows=True)
    kernel = wave_compile(options, gemm)
    for m, n, k, past, before in ((65, 130, 71, 0, 0), (300, 64, 257, 3, 1), (1, 3, 5, 8, 7), (513, 257, 640, 1, 0)):
        a, b = view(m, k, past, before), view(n, k, past, 0)
        c, want = torch.zeros(m, n, device="cuda"), a.float() @ b.float().T
        kernel(a, b, c)
        torch.testing.assert_close(c, want, atol=1e-3, rtol=1e-3)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernel(a, b, c)
        c.fill_(torch.nan)
        graph.replay()
        torch.testing.assert_close(c, want, atol=1e-3, rtol=1e-3)
    assert any("operands copied" in v.facts and v.compiled for v in kernel.program.variants)
