"""Convolution of images as a matmul whose operands are mapped: nothing is copied."""

from typing import Any

from wave_lang.kernel import lang as tkl
from wave_lang.kernel import wave as tkw
from wave_lang.kernel.lang.global_symbols import *

from .attention_tiles import check_sizes
from .gemm_tiles import operand_type

N, C, H, W, HF, WF, NF = (getattr(tkl.sym, name) for name in "N C H W HF WF NF".split())
BLOCK_M, BLOCK_N, BLOCK_K = tkl.sym.BLOCK_M, tkl.sym.BLOCK_N, tkl.sym.BLOCK_K

# The order of the dimensions of the image, of the filters, and of the result.
LAYOUTS = {
    "nchw_fchw": ((N, C, H, W), (NF, C, HF, WF), "nchw"),
    "nhwc_hwcf": ((N, H, W, C), (HF, WF, C, NF), "nhwc"),
}


def get_igemm_conv2d(
    layout: str,
    n: int,
    h: int,
    w: int,
    c: int,
    hf: int,
    wf: int,
    nf: int,
    stride: int,
    input_dtype: Any,
    output_dtype: Any,
    mem_space: Any = SHARED_ADDRESS_SPACE,
    block_m: int | None = None,
    block_n: int | None = None,
    block_k: int | None = None,
    ratio_m: int | None = None,
    ratio_n: int | None = None,
) -> tuple[Any, dict[Any, Any]]:
    """`conv(x, we, out)` without padding: `n` images of `h` x `w` x `c` and `nf` filters of
    `hf` x `wf` x `c`. `ratio_m` and `ratio_n` are the numbers of waves that divide a tile."""
    if layout not in LAYOUTS:
        raise ValueError(f"`layout` is {layout!r}, expected one of {', '.join(LAYOUTS)}")
    check_sizes(n=n, h=h, w=w, c=c, hf=hf, wf=wf, nf=nf, stride=stride)
    if hf > h or wf > w:
        raise ValueError(f"`hf` x `wf` is {hf} x {wf}, expected at most the image, {h} x {w}")
    dtype = operand_type("input_dtype", input_dtype)
    out_dtype = operand_type("output_dtype", output_dtype)
    x_dims, f_dims, order = LAYOUTS[layout]
    h_out, w_out = (H - HF) // stride + 1, (W - WF) // stride + 1
    size = h_out * w_out
    rows, terms = N * size, HF * WF * C
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    row, column = (i % size) // w_out, (i % size) % w_out
    at = {HF: (j // C) // WF, WF: (j // C) % WF, C: j % C, NF: i}
    pixel = {N: i // size, H: row * stride + at[HF], W: column * stride + at[WF], C: at[C]}
    x_of = tkw.IndexMapping(2, inputs={d: pixel[d] for d in x_dims}, outputs={rows: i, terms: j})
    f_of = tkw.IndexMapping(2, inputs={d: at[d] for d in f_dims}, outputs={NF: i, terms: j})
    place = {"n": (N, i // size), "c": (NF, j), "h": (h_out, row), "w": (w_out, column)}
    out_of = tkw.IndexMapping(
        2, inputs={rows: i, NF: j}, outputs=dict(place[letter] for letter in order)
    )
    waves_m, waves_n = ratio_m or 2, ratio_n or 2

    @tkw.wave([
        tkw.WorkgroupConstraint(rows, BLOCK_M, 1),
        tkw.WorkgroupConstraint(NF, BLOCK_N, 0),
        tkw.TilingConstraint(terms, BLOCK_K),
        tkw.WaveConstraint(rows, BLOCK_M / waves_m),
        tkw.WaveConstraint(NF, BLOCK_N / waves_n),
        tkw.HardwareConstraint(threads_per_wave=64, mma_type=tkw.MMAType.F32_16x16x16_F16),
    ])
    def conv(
        x: tkl.Memory[(*x_dims, mem_space, dtype)],
        we: tkl.Memory[(*f_dims, mem_space, dtype)],
        out: tkl.Memory[(*(place[d][0] for d in order), GLOBAL_ADDRESS_SPACE, out_dtype)],
    ):
        @tkw.iterate(terms, init_args=[tkw.register([rows, NF], tkl.f32, 0.0)])
        def loop(acc):
            return tkw.mma(tkw.read(x, mapping=x_of), tkw.read(we, mapping=f_of), acc)

        tkw.write(tkw.cast(loop, out_dtype), out, mapping=out_of)

    symbols = {N: n, C: c, W: w, H: h, NF: nf, WF: wf, HF: hf}
    symbols |= {BLOCK_M: block_m or 64, BLOCK_N: block_n or 128, BLOCK_K: block_k or 32}
    return conv, symbols
