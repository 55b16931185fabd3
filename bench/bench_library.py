"""The kernel library on the GPU of this machine, or in small sizes on its CPU (make bench-library).

    bench_library.py [--only WORD] [--json FILE] [--small]

Times are medians with cold caches; on a GPU, from CUDA graphs. The last columns are what others
took for the same shape on an H200 (PyTorch 2.11, Triton 3.6), and how much longer that is; they are
not measured here. Results are not checked: the tests do that.
"""

import argparse
import json
import sys

import numpy as np

from wave_lang import WaveCompileOptions, ops, wave_compile
from wave_lang.benchmark import bench
from wave_lang.kernel import lang as tkl
from wave_lang.kernel.wave.constraints import MMAType
from wave_lang.kernel.wave.templates.attention_common import AttentionShape
from wave_lang.kernel.wave.templates.extend_attention import get_extend_attention_kernel
from wave_lang.kernel.wave.templates.paged_decode_attention import (
    get_paged_decode_attention_kernels,
    get_paged_decode_intermediate_arrays_shapes,
    paged_decode_attention_shape,
)

try:
    import torch
except ImportError:
    torch = None

MMA = (MMAType.F32_16x16x16_F16, MMAType.F32_16x16x16_F16)
# Microseconds on an H200: cuDNN or SGLang's Triton kernels for attention, torch.compile for rows.
OTHERS = {
    "decode 64x4096 32/8": ("Triton", 294),
    "decode 1x8192 32/8": ("Triton", 50.8),
    "decode 32x2048 32/32": ("Triton", 411),
    "decode 64x4096 128/1 576": ("Triton", 844),
    "latent decode 64x4096 128/1 576": ("Triton", 844),
    "paged decode 64x4096 32/8": ("Triton", 294),
    "extend 16x(2048+512) 32/8": ("Triton", 4.0 * 16 * 32 * 512 * (2048 + 256) * 128 / 153e6),
    "rms_norm": ("compile", 77),
    "add_rms_norm": ("compile", 137),
    "layer_norm": ("compile", 96),
    "quantize_fp8 token": ("compile", 91),
    "quantize_fp8 group": ("compile", 63),
    "rope": ("compile", 102),
    "silu_and_mul": ("compile", 327),
    "softmax 64x128256": ("eager", 59),
}


class Maker:
    """Makes tensors: on the GPU if there is one, else NumPy's."""

    def __init__(self):
        self.gpu = torch is not None and torch.cuda.is_available()
        self.half = tkl.bf16 if self.gpu else tkl.f16

    def random(self, *shape, dtype=None):
        if self.gpu:
            return torch.randn(*shape, device="cuda").to(dtype or torch.bfloat16)
        return np.random.default_rng(0).standard_normal(shape).astype(dtype or np.float16)

    def empty(self, *shape):
        return torch.empty(*shape, device="cuda") if self.gpu else np.empty(shape, np.float32)

    def numbers(self, values):
        array = np.asarray(values, np.int32)
        return torch.from_numpy(array).cuda() if self.gpu else array


class Table:
    def __init__(self, only, full):
        self.only, self.full, self.rows = only, full, []

    def add(self, name, call, args, amount, unit):
        """`amount`: bytes or operations of a call."""
        if self.only not in name:
            return
        timing = bench(call, args)
        rate = timing.rate(amount) / 1e12
        row = {"name": name, "us": timing.median, unit: rate}
        words = f"{name:34} {timing.median:10.1f} us {rate:8.3f} {unit}"
        if self.full and name in OTHERS:
            who, other = OTHERS[name]
            row[who] = other
            words += f" {who:>9} {other:8.1f} us {other / timing.median:6.2f}"
        self.rows.append(row)
        print(words, flush=True)


def compiled(kernel, subs, dynamic):
    return wave_compile(WaveCompileOptions(subs=subs, dynamic_symbols=dynamic), kernel)


def decode(table, make, batch, length, heads, kv_heads, size=128, columns=128, splits=16):
    """SGLang's form (pages of one token), and ours with pages of 16."""
    pool = batch * length
    q, k = make.random(batch, heads, size), make.random(pool, kv_heads, size)
    v = k[..., :columns] if columns < size else make.random(pool, kv_heads, columns)
    rng = np.random.default_rng(0)
    ends, table_ = make.numbers(np.arange(batch + 1) * length), make.numbers(rng.permutation(pool))
    shape = paged_decode_attention_shape(heads, kv_heads, size, columns, 1, batch)
    made = get_paged_decode_attention_kernels(
        shape, MMA, splits, input_dtype=make.half, output_dtype=make.half
    )
    first, second = compiled(made[0], made[2], made[4]), compiled(made[1], made[3], made[5])
    parts = [make.empty(*s) for s in get_paged_decode_intermediate_arrays_shapes(shape, splits)]
    out = make.random(batch, heads, columns)

    def both(q, k, v, ends, table_, one, two, out):
        first(q, k, v, ends, table_, one, two)
        second(one, two, ends, out)

    moved = 2.0 * pool * kv_heads * (size + columns * (columns == size))
    name = f"decode {batch}x{length} {heads}/{kv_heads}" + f" {size}" * (size != 128)
    table.add(name, both, [q, k, v, ends, table_, *parts, out], moved, "TB/s")
    if length % 16:
        return
    pages = make.numbers(rng.permutation(pool // 16).reshape(batch, -1))
    lengths, one_each = make.numbers([length] * batch), make.numbers(np.arange(batch + 1))
    keys = k.reshape(pool // 16, 16, kv_heads, size)
    if columns < size:  # values are columns of the keys
        call = lambda *args: ops.mla_decode(*args, 1, length, dv=columns, causal=True)
        args = [q, keys[:, :, 0], pages, lengths, one_each]
        table.add(f"latent {name}", call, args, moved, "TB/s")
        return
    call = lambda *args: ops.attention_paged(*args, 1, length, causal=True)
    args = [q, keys, v.reshape(keys.shape), pages, lengths, one_each]
    table.add(f"paged {name}", call, args, moved, "TB/s")
    if make.gpu:
        one, e4m3 = torch.ones(1, device="cuda"), torch.float8_e4m3fn
        args = [q, *(x.to(e4m3) for x in args[1:3]), *args[3:]]
        call = lambda *args: ops.attention_paged(
            *args, 1, length, causal=True, k_scale=one, v_scale=one
        )
        table.add(f"f8 {name}", call, args, moved / 2, "TB/s")


def extend(table, make, batch, before, new, heads, kv_heads, size=128):
    pool, tokens = batch * before, batch * new
    q = make.random(tokens, heads, size)
    k, v = make.random(tokens, kv_heads, size), make.random(tokens, kv_heads, size)
    k_cache, v_cache = make.random(pool, kv_heads, size), make.random(pool, kv_heads, size)
    qo, kv = (make.numbers(np.arange(batch + 1) * n) for n in (new, before))
    table_ = make.numbers(np.random.default_rng(0).permutation(pool))
    c = make.random(tokens, heads, size)
    shape = AttentionShape(heads, kv_heads, size, size, num_seqs=batch, max_seq_len=new)
    shapes = [tuple(x.shape) for x in (q, k, v, k_cache, v_cache, c)]
    made = get_extend_attention_kernel(
        shape, MMA, *shapes, input_dtype=make.half, output_dtype=make.half, is_causal=True
    )
    work = 4.0 * batch * heads * new * (before + new / 2) * size
    name = f"extend {batch}x({before}+{new}) {heads}/{kv_heads}"
    args = [q, k, v, k_cache, v_cache, qo, kv, table_, new, c]
    table.add(name, compiled(*made), args, work, "TF/s")


def prefill(table, make, lengths, heads, kv_heads, size, causal):
    tokens, most = sum(lengths), max(lengths)
    q, ends = make.random(tokens, heads, size), make.numbers(np.cumsum([0, *lengths]))
    k, v = make.random(tokens, kv_heads, size), make.random(tokens, kv_heads, size)
    call = lambda q, k, v, ends: ops.attention_varlen(
        q, k, v, ends, ends, most, most, causal=causal, splits=1
    )
    work = sum(4.0 * heads * n * n * size for n in lengths) / (2 if causal else 1)
    kind = "causal" if causal else "all"
    name = f"varlen {len(lengths)}x{most} {heads}/{kv_heads} {size} {kind}"
    table.add(name, call, [q, k, v, ends], work, "TF/s")


def dense(table, make, batch, length, heads, kv_heads, size, layout):
    shapes = [(batch, length, n, size) for n in (heads, kv_heads, kv_heads)]
    if layout == "bhsd":
        shapes = [(b, n, s, d) for b, s, n, d in shapes]
    q, k, v = (make.random(*shape) for shape in shapes)
    for causal in (False, True):
        call = lambda q, k, v: ops.attention(q, k, v, causal=causal, layout=layout)
        work = 4.0 * batch * heads * length * length * size / (2 if causal else 1)
        name = f"dense {batch}x{length} {heads}/{kv_heads} {size} {layout}"
        table.add(f"{name} {'causal' if causal else 'all'}", call, [q, k, v], work, "TF/s")


def rows(table, make, count, columns, inner, vocabulary):
    x, w, r = make.random(count, columns), make.random(columns), make.random(count, columns)
    once, size = 2.0 * count * columns, 2
    table.add("rms_norm", ops.rms_norm, [x, w], 2 * once, "TB/s")
    add = lambda x, w, r: ops.rms_norm(x, w, residual=r)
    table.add("add_rms_norm", add, [x, w, r], 4 * once, "TB/s")
    table.add("layer_norm", ops.layer_norm, [x, w, w], 2 * once, "TB/s")
    for by in ("token", "group", "tensor"):
        call = lambda x: ops.quantize_fp8(x, by)
        table.add(f"quantize_fp8 {by}", call, [x], once * (1.5 if by != "tensor" else 2.5), "TB/s")
    gated = make.random(count, 2 * inner)
    table.add("silu_and_mul", ops.silu_and_mul, [gated], 3 * size * count * inner, "TB/s")
    q, at = make.random(count, 40, 128), make.numbers(np.arange(count))
    turns = make.random(count, 128)
    call = lambda q, turns, at: ops.rope(q[:, :32], q[:, 32:], turns, at)
    table.add("rope", call, [q, turns, at], 2 * size * count * 40 * 128, "TB/s")
    logits = make.random(64, vocabulary)
    table.add(f"softmax 64x{vocabulary}", ops.softmax, [logits], 2 * size * 64 * vocabulary, "TB/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--json", help="writes all rows there")
    parser.add_argument("--small", action="store_true", help="small sizes, as without a GPU")
    options = parser.parse_args()
    make = Maker()
    table = Table(options.only, full=make.gpu and not options.small)
    if not table.full:
        decode(table, make, 4, 256, 8, 2)
        extend(table, make, 2, 64, 32, 4, 2)
        prefill(table, make, [128, 128], 4, 2, 64, True)
        dense(table, make, 2, 128, 4, 2, 64, "bshd")
        rows(table, make, 64, 512, 512, 4096)
    else:
        for batch, length, heads in ((64, 4096, (32, 8)), (1, 8192, (32, 8)), (32, 2048, (32, 32))):
            decode(table, make, batch, length, *heads)
        decode(table, make, 64, 4096, 128, 1, 576, 512)
        extend(table, make, 16, 2048, 512, 32, 8)
        extend(table, make, 64, 1024, 16, 32, 8)
        for size, causal in ((128, False), (128, True), (64, True), (256, True)):
            prefill(table, make, [4096] * 4, 32, 8, size, causal)
        prefill(table, make, [4096, 100, 2500, 1, 3333, 900], 32, 8, 128, True)
        for layout in ("bshd", "bhsd"):
            dense(table, make, 4, 4096, 32, 8, 128, layout)
        rows(table, make, 16384, 4096, 14336, 128256)
    if options.json:
        with open(options.json, "w") as out:
            json.dump(table.rows, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
