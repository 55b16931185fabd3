"""Kernels as operators of PyTorch."""

from fractions import Fraction

import pytest

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang import WaveCompileOptions, wave_compile
from wave_lang._wave import op
from wave_lang.kernel.lang.global_symbols import GLOBAL_ADDRESS_SPACE as G
from wave_lang.support.expr_eval import evaluate

torch = pytest.importorskip("torch")
from wave_lang.torch_op import torch_op  # needs PyTorch

M, N, K = tkl.sym.M, tkl.sym.N, tkl.sym.K
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def rows(*extra):
    return [
        tkw.HardwareConstraint(threads_per_wave=32, vector_shapes={M: 1, N: 64}),
        tkw.WorkgroupConstraint(M, 1, 1),
        tkw.WorkgroupConstraint(N, 64, 0),
        *extra,
    ]


def scaled_add():
    @tkw.wave(rows())
    def scaled_add(
        x: tkl.Memory[M, N, G, tkl.f32],
        y: tkl.Memory[M, N, G, tkl.f32],
        z: tkl.Memory[M, N, G, tkl.f32],
        factor: tkl.f32,
    ):
        tkw.write(tkw.read(x) + tkw.read(y) * tkw.broadcast(factor, [M, N]), z)

    return scaled_add


def both():
    @tkw.wave(rows())
    def both(
        x: tkl.Memory[M, N, G, tkl.f32],
        half: tkl.Memory[M, N, G, tkl.f16],
        twice: tkl.Memory[M, N, G, tkl.f32],
    ):
        tkw.write(tkw.cast(tkw.read(x) * 0.5, tkl.f16), half)
        tkw.write(tkw.read(x) * 2.0, twice)

    return both


def accumulate():
    @tkw.wave(rows())
    def accumulate(x: tkl.Memory[M, N, G, tkl.f32], total: tkl.Memory[M, N, G, tkl.f32]):
        tkw.write(tkw.read(total) + tkw.read(x), total)

    return accumulate


def dynamic():
    return WaveCompileOptions(dynamic_symbols=[M, N])


def random(*shape, **named):
    return torch.randn(*shape, device=DEVICE, **named)


def test_results_are_made():
    add = torch_op("wave_test::add", scaled_add(), dynamic())
    assert add.schema == "wave_test::add(Tensor x, Tensor y, float factor) -> Tensor"
    x, y = random(3, 70), random(3, 70)
    assert torch.allclose(add(x, y, 2.0), x + 2 * y)
    assert torch.allclose(torch.ops.wave_test.add(x, y, 2.0), x + 2 * y)
    z = torch.full((3, 70), torch.nan, device=DEVICE)
    assert add.out(x, y, z, 0.5) is None
    assert torch.allclose(z, x + 0.5 * y)


def test_several_results():
    op = torch_op("wave_test::both", both(), dynamic())
    x = random(2, 5)
    half, twice = op(x)
    assert half.dtype == torch.float16 and torch.allclose(half.float(), x / 2, atol=1e-2)
    assert torch.equal(twice, 2 * x)


def test_what_is_read_and_written_is_changed_in_place():
    op = torch_op("wave_test::accumulate", accumulate(), dynamic())
    assert op.schema == "wave_test::accumulate(Tensor x, Tensor(b!) total) -> ()" and op.out is None
    x, total = random(2, 5), torch.ones(2, 5, device=DEVICE)
    op(x, total)
    assert torch.allclose(total, x + 1)


def test_mutates_names_what_is_given():
    op = torch_op("wave_test::given", scaled_add(), dynamic(), mutates=["z"])
    assert op.schema == "wave_test::given(Tensor x, Tensor y, Tensor(c!) z, float factor) -> ()"
    with pytest.raises(ValueError, match="`w` is not a parameter"):
        torch_op("wave_test::given", scaled_add(), dynamic(), mutates=["w"])


@pytest.mark.parametrize("shape", [(3, 70), (1, 1), (4, 0)])
def test_opcheck(shape):
    add = torch_op("wave_test::checked", scaled_add(), dynamic())
    x, y, z = (random(*shape) for _ in range(3))
    torch.library.opcheck(add.default, (x, y, 2.0))
    torch.library.opcheck(add.out, (x, y, z, 2.0))
    total = torch_op("wave_test::checked_total", accumulate(), dynamic())
    torch.library.opcheck(total.default, (x, y))


def test_fixed_sizes_and_other_types():
    options = WaveCompileOptions(subs={M: 2, N: 5})
    op = torch_op("wave_test::fixed", both(), options)
    torch.library.opcheck(op.default, (random(2, 5),))


def test_compiled():
    add = torch_op("wave_test::compiled", scaled_add(), dynamic())
    total = torch_op("wave_test::compiled_total", accumulate(), dynamic())

    def step(x, y, sum):
        z = add(x.relu(), y, 3.0)
        total(z, sum)
        return z * 2

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=True)
    for shape in ((3, 70), (4, 33)):
        x, y = random(*shape), random(*shape)
        first, second = torch.zeros_like(x), torch.zeros_like(x)
        assert torch.allclose(compiled(x, y, first), step(x, y, second))
        assert torch.allclose(first, second) and first.abs().sum() > 0


def test_a_gradient_can_be_added():
    double = torch_op("wave_test::double", both(), dynamic())

    def backward(ctx, half, twice):
        return 0.5 * half.float() + 2 * twice

    torch.library.register_autograd("wave_test::double", backward)
    x = random(2, 5, requires_grad=True)
    double(x)[1].sum().backward()
    assert torch.allclose(x.grad, torch.full_like(x, 2.0))


def test_a_name_is_defined_anew():
    for factor, kernel in ((2.0, both()), (3.0, scaled_add())):
        op = torch_op("wave_test::again", kernel, dynamic())
    x = random(2, 3)
    assert torch.allclose(op(x, x, 1.0), 2 * x)


def test_mistakes():
    with pytest.raises(ValueError, match="library::operator"):
        torch_op("softmax", both(), dynamic())

    @tkw.wave(rows(tkw.TilingConstraint(K, 1)))
    def unknown(x: tkl.Memory[M, N, G, tkl.f32], y: tkl.Memory[M, N, K, G, tkl.f32]):
        tkw.write(tkw.broadcast(tkw.read(x), [M, N, K]), y)

    options = WaveCompileOptions(dynamic_symbols=[M, N, K], target="eval")
    with pytest.raises(ValueError, match="the shape of `y` needs `K`"):
        torch_op("wave_test::unknown", unknown, options)


def test_a_compiled_kernel_will_do():
    kernel = wave_compile(dynamic(), both())
    assert torch_op("wave_test::ready", kernel).kernel is kernel


def test_shapes_are_computed():
    sizes = {M: 7, N: 12}
    cases = {
        M / 1 + N / 2: 13,
        op("ceil", M / 4): 2,
        M // 4 * 3: 3,
        op("max", M, N) - op("min", M, N): 5,
        op("mod", N, 5): 2,
        M**2: 49,
        op("select", M < N, 1, 2): 1,
        op("xor", M, 2): 5,
    }
    for expr, value in cases.items():
        assert evaluate(expr, sizes) == value == int(expr.subs(sizes)), expr
    with pytest.raises(ValueError, match="7/2"):
        evaluate(M / 2, sizes)
    assert Fraction(1, 2) == Fraction(str(M / M / 2))
