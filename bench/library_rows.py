"""The rows of bench_library.py: what is measured, beside what, and the bar of each."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

import gpu_kernels as kernels
import library_peers as peers
from bench_gemm import SIZES
from library_cases import Bar, Case, Maker, Row
from library_peers import Peer, backward_peers, torch
from library_products import product_rows
from wave_lang import WaveCompileOptions, ops, wave_compile
from wave_lang.kernel.wave.constraints import MMAType
from wave_lang.kernel.wave.templates.attention_common import AttentionShape
from wave_lang.kernel.wave.templates.extend_attention import get_extend_attention_kernel
from wave_lang.kernel.wave.templates.paged_decode_attention import (
    get_paged_decode_attention_kernels,
    get_paged_decode_intermediate_arrays_shapes,
    paged_decode_attention_shape,
)
from wave_lang.kernel.wave.templates.prefill_attention import get_prefill_attention_kernel

MMA = (MMAType.F32_16x16x16_F16, MMAType.F32_16x16x16_F16)
PAGE = 16

FULL = SimpleNamespace(
    batch=4, length=4096, heads=(32, 8), sizes=(64, 128, 256),
    forward=((16, 64), (8, 128), (4, 256)), lengths=(1024, 2048, 4096, 8192, 16384), tokens=32768,
    ragged=(4096, 100, 2500, 1, 3333, 900),
    extend=(16, 2048, 512), verify=(64, 1024, 16), decode=(64, 4096), single=(1, 8192),
    many_heads=(32, 2048), latent=(128, 576, 512), flex=(2, 16, 8192), window=1024,
    grouped=((8, 16384, 14336, 4096, 0.92, 778), (128, 32768, 1536, 2048, 1.0, 557),
             (256, 32768, 2048, 7168, 1.1, 432), (128, 1024, 1536, 2048, 1.2, None)),
    experts=((128, 8, 4096, 2048, 768), (8, 2, 8192, 4096, 14336)), gate=(8192, 128, 8),
    blocks=((4096, 7168, 2048, 1101), (4096, 4096, 7168, 1246), (8192, 8192, 8192, 1284),
            (64, 7168, 2048, None)),
    square=8192, int8=4096, w4=4096,
    w4_rows=((1, 1.2, 10.0), (16, 2.0, 19.0), (64, 1.5, 18.5), (256, 1.0, 24.3)),
    rows=(16384, 4096, 14336), rope_heads=(32, 8), loss=(8192, 128256), draw=(64, 128256, 50),
    products=SIZES, ordered=(8192, 4096, 2048), products_batch=(32, 2048),
    epilogues=((4096, 4096, 4096), (8192, 4096, 1024), (8192, 14336, 4096)),
    long=((4096, 32768), (1024, 65536), (512, 131072), (512, 262144)), moved=8192,
)  # fmt: skip
SMALL = SimpleNamespace(
    batch=2, length=64, heads=(4, 2), sizes=(64,), ragged=(32, 1, 20),
    forward=((2, 64),), lengths=(64,), tokens=128,
    extend=(2, 64, 32), verify=(2, 32, 4), decode=(4, 128), single=(1, 128), many_heads=(2, 64),
    latent=(8, 96, 64), flex=(1, 2, 128), window=32, grouped=((4, 64, 64, 64, 1.0, None),),
    experts=((4, 2, 16, 64, 32),), gate=(64, 16, 2), blocks=((128, 128, 256, None),),
    square=128, int8=128, w4=128, w4_rows=((1, 1.2, None),), rows=(64, 512, 512), rope_heads=(4, 2),
    loss=(32, 1024), draw=(4, 1024, 5),
    products=((64, 64, 64),), ordered=(64,), products_batch=(2, 64), epilogues=((64, 64, 64),),
    long=((4, 2048),), moved=128,
)  # fmt: skip


def compiled(kernel, subs, dynamic):
    return wave_compile(WaveCompileOptions(subs=subs, dynamic_symbols=dynamic), kernel)


def pairs(lengths, causal):
    """Queries times keys that they see, about."""
    return sum(n * n for n in lengths) / (2 if causal else 1)


# Attention


CUDNN = {(64, False): 459, (64, True): 436, (128, False): 597, (128, True): 517,
         (256, False): 646, (256, True): 616}  # fmt: skip


def packed_data(make, lengths, heads, size):
    tokens = sum(lengths)
    q, k, v = (make.random(tokens, n, size) for n in (heads[0], heads[1], heads[1]))
    return q, k, v, make.array(np.cumsum([0, *lengths]))


def prefill(make, lengths, heads, size, causal, equal=None):
    """Beside cuDNN; with `equal`, beside our own rate for these lengths."""

    def call(q, k, v, ends):
        most = max(lengths)
        return ops.attention_varlen(q, k, v, ends, ends, most, most, causal=causal, splits=1)

    work = 4.0 * heads[0] * size * pairs(lengths, causal)
    args = packed_data(make, lengths, heads, size)
    if equal:
        other = prefill(make, equal, heads, size, causal)
        peer = Peer("equal", other.call, other.args, amount=other.amount)
        return Case(call, args, work, "TF/s", [peer])
    split = lambda x: x.reshape(len(lengths), lengths[0], *x.shape[1:]).swapaxes(1, 2)
    heads_first = tuple(map(split, args[:3]))
    peer = Peer(peers.SDPA, peers.sdpa(causal), heads_first, rate=CUDNN.get((size, causal)))
    return Case(call, args, work, "TF/s", [peer])


def prefill_template(make, lengths, heads, size, causal):
    """As SGLang calls it, beside our op."""
    other = prefill(make, lengths, heads, size, causal)
    q, k, v, ends = other.args
    shape = AttentionShape(*heads, size, size, num_seqs=len(lengths), max_seq_len=max(lengths))
    shapes = [tuple(x.shape) for x in (q, k, v, q)]
    types = dict(input_dtype=make.half, output_dtype=make.half)
    made = get_prefill_attention_kernel(shape, MMA, *shapes, **types, is_causal=causal)
    args = (q, k, v, ends[:-1], make.array(lengths), make.random(*q.shape))
    peer = Peer("our op", other.call, other.args)
    return Case(compiled(*made, []), args, other.amount, "TF/s", [peer])


def dense_data(make, batch, length, heads, size, layout):
    shapes = [(batch, length, n, size) for n in (heads[0], heads[1], heads[1])]
    if layout == "bhsd":
        shapes = [(b, n, s, d) for b, s, n, d in shapes]
    return tuple(make.random(*shape) for shape in shapes)


def dense(make, batch, length, heads, size, layout, causal):
    call = lambda q, k, v: ops.attention(q, k, v, causal=causal, layout=layout)
    args = dense_data(make, batch, length, heads, size, layout)
    heads_first = args if layout == "bhsd" else tuple(x.swapaxes(1, 2) for x in args)
    peer = Peer(peers.SDPA, peers.sdpa(causal), heads_first, rate=CUDNN.get((size, causal)))
    work = 4.0 * heads[0] * size * pairs([length] * batch, causal)
    return Case(call, args, work, "TF/s", [peer])


def special(make, batch, heads, length, kind, window):
    """A causal window or a soft cap, beside FlexAttention."""
    size, wide = 128, kind == "window"
    options = dict(window=(window - 1, 0)) if wide else dict(softcap=30.0)
    call = lambda q, k, v: ops.attention(q, k, v, causal=True, layout="bhsd", **options)
    seen = length * window - window * window / 2 if wide else length * length / 2
    other = peers.flex(window) if wide else peers.flex(softcap=30.0)
    peer = Peer("flex", other, rate=330 if wide else 186, graph=False, compiled=True)
    args = dense_data(make, batch, length, (heads, heads), size, "bhsd")
    return Case(call, args, 4.0 * batch * heads * seen * size, "TF/s", [peer])


def gradients(make, batch, length, heads, size, causal, packed):
    lengths = [length] * batch
    work = 2.5 * 4.0 * heads[0] * size * pairs(lengths, causal)
    if packed:
        q, k, v, ends = packed_data(make, lengths, heads, size)
        where = (ends, ends, length, length)
        out, lse = ops.attention_varlen(q, k, v, *where, causal=causal, splits=1)
        call = lambda *args: ops.attention_varlen_backward(*args, *where, causal=causal)
    else:
        q, k, v = dense_data(make, batch, length, heads, size, "bshd")
        out, lse = ops.attention(q, k, v, causal=causal, return_lse=True)
        call = lambda *args: ops.attention_backward(*args, causal=causal)
    dout = make.random(*out.shape)
    split = lambda x: x.reshape(batch, length, *x.shape[-2:]).swapaxes(1, 2)
    given = tuple(map(split, (dout, q, k, v)))
    rate = 428 if causal else 549
    peer = Peer(peers.SDPA, peers.backward(peers.sdpa(causal)), given, rate=rate, graph=False)
    return Case(call, (dout, q, k, v, out, lse), work, "TF/s", [peer])


def extend_data(make, batch, before, new, heads, size):
    tokens, pool = batch * new, batch * before
    q, k, v = (make.random(tokens, n, size) for n in (heads[0], heads[1], heads[1]))
    caches = make.random(pool, heads[1], size), make.random(pool, heads[1], size)
    ends = (make.array(np.arange(batch + 1) * n) for n in (new, before))
    work = 4.0 * batch * heads[0] * new * (before + new / 2) * size
    return (q, k, v, *caches, *ends, make.order(pool), new), work


def extend(make, batch, before, new, heads, rate, template=False):
    """Our op, or the template as SGLang calls it."""
    args, work = extend_data(make, batch, before, new, heads, 128)
    call = ops.attention_extend
    if template:
        shape = AttentionShape(*heads, 128, 128, num_seqs=batch, max_seq_len=new)
        args = (*args, make.random(*args[0].shape))
        shapes = [tuple(x.shape) for x in (*args[:5], args[-1])]
        types = dict(input_dtype=make.half, output_dtype=make.half)
        call = compiled(*get_extend_attention_kernel(shape, MMA, *shapes, **types, is_causal=True))
    return Case(call, args, work, "TF/s", [Peer("Triton", rate=rate)])


def tree(make, batch, before, new, heads):
    """The same visible keys, those of new tokens by a mask of bytes, beside our extend without one."""
    args, work = extend_data(make, batch, before, new, heads, 128)
    mask = np.concatenate([np.ones((new, before), np.uint8), np.tri(new, dtype=np.uint8)], 1)
    starts = make.array(np.arange(batch + 1) * mask.size, np.int64)
    masks = make.array(np.tile(mask.ravel(), batch), np.uint8)
    peer = Peer("extend", ops.attention_extend, args)
    call = lambda *given: ops.attention_extend(*given, mask_prefix=False, mask_future=False)
    return Case(call, (*args, masks, starts), work, "TF/s", [peer])


def paged_data(make, batch, length, heads, size):
    pool = batch * length
    q, k = make.random(batch, heads[0], size), make.random(pool // PAGE, PAGE, heads[1], size)
    pages = make.order(pool // PAGE).reshape(batch, -1)
    return q, k, pages, make.array([length] * batch), make.array(np.arange(batch + 1))


def decode(make, batch, length, heads, us, small=False):
    """bf16 beside Triton, or keys of 8 bits beside our bf16."""
    q, k, *where = paged_data(make, batch, length, heads, 128)
    v = make.random(*k.shape)
    moved = 4.0 * batch * length * heads[1] * 128
    call = lambda *args, **more: ops.attention_paged(*args, 1, length, causal=True, **more)
    args = (q, k, v, *where)
    if not small:
        return Case(call, args, moved, "TB/s", [Peer("Triton", us=us)])
    one = make.array([1.0], np.float32)
    k8, v8 = (x.to(torch.float8_e4m3fn) for x in (k, v))
    scaled = lambda *args: call(*args, k_scale=one, v_scale=one)
    return Case(scaled, (q, k8, v8, *where), moved / 2, "TB/s", [Peer("our bf16", call, args)])


def latent(make, batch, length, heads, size, columns, us):
    q, k, *where = paged_data(make, batch, length, (heads, 1), size)
    call = lambda *args: ops.mla_decode(*args, 1, length, dv=columns, causal=True)
    moved = 2.0 * batch * length * size
    return Case(call, (q, k[:, :, 0], *where), moved, "TB/s", [Peer("Triton", us=us)])


def decode_template(make, batch, length, heads, size, columns, us, splits=16):
    """SGLang's form: pages of one token, two kernels."""
    pool = batch * length
    q, k = make.random(batch, heads[0], size), make.random(pool, heads[1], size)
    v = k[..., :columns] if columns < size else make.random(pool, heads[1], columns)
    shape = paged_decode_attention_shape(*heads, size, columns, 1, batch)
    types = dict(input_dtype=make.half, output_dtype=make.half)
    made = get_paged_decode_attention_kernels(shape, MMA, splits, **types)
    first, second = compiled(made[0], made[2], made[4]), compiled(made[1], made[3], made[5])
    parts = [make.single(*s) for s in get_paged_decode_intermediate_arrays_shapes(shape, splits)]

    def both(q, k, v, ends, table, one, two, out):
        first(q, k, v, ends, table, one, two)
        second(one, two, ends, out)

    ends, out = make.array(np.arange(batch + 1) * length), make.random(batch, heads[0], columns)
    moved = 2.0 * pool * heads[1] * (size + columns * (columns == size))
    args = (q, k, v, ends, make.order(pool), *parts, out)
    return Case(both, args, moved, "TB/s", [Peer("Triton", us=us)])


# Experts and matmuls


def grouped(make, experts, tokens, n, k, rate, us=None):
    call = lambda a, w, offs: ops.grouped_gemm(a, w, offs, trans=True)
    ends = make.array((np.arange(experts) + 1) * tokens // experts)
    args = (make.random(tokens, k), make.random(experts, n, k), ends)
    peer = Peer("grouped_mm", peers.grouped_mm, rate=rate, us=us)
    return Case(call, args, 2.0 * tokens * n * k, "TF/s", [peer])


def fused(make, experts, top, tokens, k, n):
    """Beside its two grouped products alone, of tokens that are in order already."""
    ids = np.argsort(make.rng.random((tokens, experts)), 1)[:, :top]
    ends = make.array(np.cumsum(np.bincount(ids.ravel(), minlength=experts)))
    w1, w2 = make.random(experts, 2 * n, k), make.random(experts, k, n)
    args = (make.random(tokens, k), w1, w2, make.single(tokens, top), make.array(ids))

    def products(a, h, w1, w2, ends):
        ops.grouped_gemm(a, w1, ends, trans=True)
        ops.grouped_gemm(h, w2, ends, trans=True)

    rows = tokens * top
    alone = (make.random(rows, k), make.random(rows, n), w1, w2, ends)
    peer = Peer("products", products, alone)
    return Case(ops.fused_experts, args, 6.0 * rows * n * k, "TF/s", [peer])


def gate(make, tokens, experts, top):
    call = lambda logits: ops.topk_gate(logits, top)
    logits = make.single(tokens, experts)
    peer = Peer("eager", peers.gate(top), us=67)
    return Case(call, (logits,), tokens * (4.0 * experts + 8 * top), "TB/s", [peer])


def align(make, tokens, experts, top):
    ids = make.array(np.argsort(make.rng.random((tokens, experts)), 1)[:, :top])
    call = lambda ids: ops.moe_align(ids, experts, 64)
    peer = Peer("sort", lambda ids: torch.sort(ids.flatten(), stable=True))
    return Case(call, (ids,), 8.0 * tokens * top, "TB/s", [peer])


def fp8(make, m, n, k, by, rate, fast=False):
    scales = {"tensor": ((), ()), "row": ((m, 1), (1, n))}
    scales["block"] = ((m, k // 128), (n // 128, k // 128))
    a, b = (make.random(*shape).to(torch.float8_e4m3fn) for shape in ((m, k), (n, k)))
    sa, sb = (make.single(*shape).abs() for shape in scales[by])
    if by == "block":  # columns are contiguous, as cuBLAS needs them
        sa = sa.t().contiguous().t()
    call = lambda a, b, sa, sb: ops.gemm_fp8(a, b, sa, sb, fast_accum=fast)
    peer = Peer("cuBLAS", peers.scaled_mm(fast), rate=rate)
    return Case(call, (a, b, sa, sb), 2.0 * m * n * k, "TF/s", [peer])


def int8(make, n):
    a, b = (make.array(make.rng.integers(-128, 128, (n, n)), np.int8) for _ in range(2))
    scales = make.single(n, 1), make.single(1, n)
    peer = Peer("_int_mm", peers.int_mm, rate=839)
    return Case(ops.gemm_w8a8, (a, b, *scales), 2.0 * n**3, "TF/s", [peer])


def w4(make, m, n, us):
    a, b = make.random(m, n), make.array(make.rng.integers(0, 256, (n, n // 2)), np.uint8)
    scales = make.random(n, n // 128)
    other = Peer("cuBLAS bf16", lambda a, w: a @ w.t(), (a, make.random(n, n)), us=us)
    found = [Peer("tinygemm", peers.tinygemm(128)), other]
    return Case(ops.gemm_w4a16, (a, b, scales), n * n / 2.0, "TB/s", found)


# Rows


def row(make, call, shapes, moved, others=()):
    return Case(call, tuple(make.random(*s) for s in shapes), moved, "TB/s", list(others))


def rope(make, tokens, heads):
    q, turns = make.random(tokens, sum(heads), 128), make.random(tokens, 128)
    call = lambda q, turns, at: ops.rope(q[:, : heads[0]], q[:, heads[0] :], turns, at)
    args = (q, turns, make.array(np.arange(tokens)))
    return Case(call, args, 4.0 * tokens * sum(heads) * 128, "TB/s", [Peer("compile", us=102)])


def loss(make, rows, columns, with_backward):
    targets = make.array(make.rng.integers(0, columns, rows), np.int64)
    args, once = (make.random(rows, columns), targets), 2.0 * rows * columns
    other = lambda x, t: torch.nn.functional.cross_entropy(x, t)
    if not with_backward:
        fast = Peer("compile", peers.compiled(other), us=1349, graph=False, compiled=True)
        return Case(ops.cross_entropy, args, once, "TB/s", [fast])
    fast = peers.both_passes(peers.compiled(other))
    found = [Peer("compile", fast, us=1349 + 1246, graph=False, compiled=True)]
    return Case(peers.both_passes(ops.cross_entropy), args, 3 * once, "TB/s", found)


def drawing(make, rows, columns, kind, limit, us):
    limits = make.array([limit] * rows, np.int32 if kind == "top_k" else np.float32)
    call = lambda logits, limits: ops.sample(logits, **{kind: limits})
    other = peers.top_k_by_topk(limit) if kind == "top_k" else peers.top_p_by_sort
    args = (make.single(rows, columns), limits)
    peer = Peer("eager", other, us=us, graph=False)
    return Case(call, args, 4.0 * rows * columns, "TB/s", [peer])


def moved(make, kernel, shape, turned):
    """A permute by a kernel of its own."""
    x, y = make.random(*shape), make.random(*turned)
    return Case(kernel(make.half), (x, y), 4.0 * np.prod(shape), "TB/s")


# The table


def attention_rows(s):
    h, kinds = s.heads, ((False, "all"), (True, "causal"))
    equal, name = [s.length] * s.batch, f"{s.batch}x{s.length} {s.heads[0]}/{s.heads[1]}"
    for size in s.sizes:
        for causal, kind in kinds:
            args = (equal, h, size, causal)
            yield Row(f"prefill {name} d{size} {kind}", Bar("peer", 0.9), prefill, args)
    middle = s.sizes[len(s.sizes) // 2]
    for causal, kind in kinds:
        args = (equal, h, middle, causal)
        row = f"prefill template {name} d{middle} {kind}"
        yield Row(row, Bar("peer", 0.8), prefill_template, args)
    for causal, kind in kinds:
        args = (s.ragged, h, middle, causal, equal)
        yield Row(f"prefill ragged d{middle} {kind}", Bar("peer", 0.85), prefill, args)
    for layout in ("bshd", "bhsd"):
        for causal, kind in kinds:
            args = (s.batch, s.length, h, middle, layout, causal)
            yield Row(f"dense {name} {layout} {kind}", Bar("peer", 0.9), dense, args)
    for packed in (False, True):
        for causal, kind in kinds:
            args = (s.batch, s.length, h, middle, causal, packed)
            form = "varlen" if packed else "dense"
            yield Row(f"backward {form} {name} {kind}", Bar("peer", 0.9), gradients, args)
    for heads, size in s.forward:
        for length in s.lengths:
            batch, bar = s.tokens // length, Bar("peer", 0.95 if length < 4096 else 1.0)
            for causal, kind in kinds:
                args = (batch, length, (heads, heads), size, "bhsd", causal)
                yield Row(f"forward {batch}x{length} {heads} d{size} {kind}", bar, dense, args)
    b, n, length = s.flex
    for kind, bar in (("window", 1.2), ("softcap", 2.0)):
        words = f"window {s.window} of" if kind == "window" else "softcap causal"
        yield Row(f"{words} {length}", Bar("peer", bar), special, (b, n, length, kind, s.window))


def serving_rows(s):
    h = s.heads
    for (b, before, new), rate, bar in ((s.extend, 153, Bar("peer", 2.0)), (s.verify, 17, None)):
        name = f"{b}x({before}+{new})"
        yield Row(f"extend {name}", bar, extend, (b, before, new, h, rate))
        yield Row(f"extend template {name}", bar, extend, (b, before, new, h, rate, True))
    b, before, new = s.extend
    yield Row(f"extend tree mask {b}x({before}+{new})", Bar("peer", 0.9), tree, (*s.extend, h))
    single, copy, (n, size, columns) = Bar("peer", 2.0), Bar("copy", 0.92), s.latent
    name, one = ("{}x{}".format(*x) for x in (s.decode, s.single))
    yield Row(f"decode paged {name}", copy, decode, (*s.decode, h, 294))
    yield Row(f"decode paged {one}", single, decode, (*s.single, h, 50.8))
    yield Row(f"decode f8 {name}", Bar("peer", 1.7), decode, (*s.decode, h, None, True), True)
    yield Row(f"decode mla {name}", Bar("peer", 4.0), latent, (*s.decode, *s.latent, 844))
    template = "decode template"
    yield Row(f"{template} {name}", copy, decode_template, (*s.decode, h, 128, 128, 294))
    yield Row(f"{template} {one}", single, decode_template, (*s.single, h, 128, 128, 50.8))
    args = (*s.decode, (n, 1), size, columns, 844)
    yield Row(f"{template} mla {name}", Bar("peer", 4.0), decode_template, args)
    both = (h[0], h[0])
    args = (*s.many_heads, both, 128, 128, 411)
    yield Row("{} {}x{} mha".format(template, *s.many_heads), None, decode_template, args)


def expert_rows(s):
    for e, tokens, n, k, bar, rate in s.grouped:
        args = (e, tokens, n, k, rate, None if rate else 267)
        yield Row(f"grouped {e}x{tokens} {n}x{k}", Bar("peer", bar), grouped, args)
    for args in s.experts:
        name = "experts {} top {} {} tokens {}x{}".format(*args)
        yield Row(name, Bar("peer", 0.9), fused, args)
    tokens, experts, top = s.gate
    yield Row(f"gate {tokens} top {top} of {experts}", Bar("us", 10), gate, s.gate)
    yield Row(f"align {tokens * top} ids", Bar("us", 10), align, s.gate)


def matmul_rows(s):
    n, op = s.square, "gemm_fp8"
    for by, bar, fast in (("tensor", None, 0), ("row", 0.9, 0), ("row fast", 0.9, 1)):
        args = (n, n, n, by.split()[0], 1381 if fast else None, bool(fast))
        yield Row(f"{op} {by} {n}", bar and Bar("peer", bar), fp8, args, True)
    for m, n, k, rate in s.blocks:
        args = (m, n, k, "block", rate)
        yield Row(f"{op} block {m}x{n}x{k}", Bar("peer", 0.85), fp8, args, True)
    yield Row(f"gemm_w8a8 {s.int8}", Bar("peer", 1.1), int8, (s.int8,))
    for m, bar, us in s.w4_rows:
        yield Row(f"gemm_w4a16 {m}x{s.w4}", Bar("peer", bar), w4, (m, s.w4, us))


def element_rows(s):
    t, c, inner = s.rows
    x, w, wide, once = (t, c), (c,), (t, 2 * inner), 2.0 * t * c
    copy, back = Bar("copy", 0.92), Bar("peer", 1.5)
    both = lambda call, us: [Peer("eager", call, us=us[0]), Peer("compile", us=us[1])]
    add = lambda x, w, r: ops.rms_norm(x, w, residual=r)
    fast = lambda us: [Peer("compile", us=us)]

    def of(name, call, shapes, moved, others=(), bar=copy):
        return Row(name, bar, row, (call, shapes, moved, others))

    yield of("rms_norm", ops.rms_norm, (x, w), 2 * once, both(peers.rms_norm, (83, 77)))
    yield of("add_rms_norm", add, (x, w, x), 4 * once, fast(137))
    others = both(peers.layer_norm, (106, 96))
    yield of("layer_norm", ops.layer_norm, (x, w, w), 2 * once, others)
    others = both(peers.swiglu, (1219, 327))
    yield of("silu_and_mul", ops.silu_and_mul, (wide,), 6.0 * t * inner, others)
    yield Row("rope", copy, rope, (t, s.rope_heads))
    for by, reads, others in (("token", 1, fast(91)), ("group", 1, fast(63)), ("tensor", 2, ())):
        call = lambda x, by=by: ops.quantize_fp8(x, by)
        yield of(f"quantize_fp8 {by}", call, (x,), once * (reads + 0.5), others)
    yield of("quantize_int8", ops.quantize_int8, (x,), 1.5 * once)
    yield of("quantize_mx", ops.quantize_mx, (x,), 1.5 * once)
    peer = [Peer("eager", lambda x: torch.softmax(x, -1), us=59)]
    m, v, k = s.draw
    yield of(f"softmax {m}x{v}", ops.softmax, ((m, v),), 4.0 * m * v, peer, None)
    others = backward_peers(peers.rms_norm, (229, 205))
    yield of("rms_norm backward", ops.rms_norm_backward, (x, x, w), 3 * once, others, back)
    others = backward_peers(peers.layer_norm, (233, 370))
    others = [replace(p, call=lambda dy, x, w, p=p: p.call(dy, x, w, w)) for p in others]  # a bias
    yield of("layer_norm backward", ops.layer_norm_backward, (x, x, w), 3 * once, others, back)
    call, others = ops.silu_and_mul_backward, backward_peers(peers.swiglu, (3889, 921))
    shapes, moved = ((t, inner), wide), 10.0 * t * inner
    yield of("silu_and_mul backward", call, shapes, moved, others, back)
    for rows, columns in s.long:
        x, w, once = (rows, columns), (columns,), 2.0 * rows * columns
        at_least = Bar("copy", 0.95)
        for call, shapes in ((ops.softmax, (x,)), (ops.rms_norm, (x, w)), (ops.layer_norm, (x, w, w))):
            yield of(f"{call.__name__} {rows}x{columns}", call, shapes, 2 * once, bar=at_least)
    rows, columns = s.loss
    name = f"cross_entropy {rows}x{columns}"
    yield Row(f"{name} forward", Bar("peer", 2.4), loss, (*s.loss, False))
    yield Row(f"{name} with backward", Bar("peer", 1.6), loss, (*s.loss, True), True)
    yield Row(f"sample top_p {m}x{v}", Bar("us", 60), drawing, (m, v, "top_p", 0.9, 1107))
    yield Row(f"sample top_k {m}x{v}", Bar("us", 60), drawing, (m, v, "top_k", k, 350))


def moving_rows(s):
    n = s.moved
    thin = (n // 128, n // 8, n // 8)
    for order, shape in (((1, 0), (n, n)), *((o, thin) for o in ((0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0)))):
        name = "{} to {}".format("x".join(map(str, shape)), "".join(map(str, order)))
        kernel = lambda dtype, order=order: kernels.permute(order, dtype)
        bar = Bar("copy", 0.9 if len(order) == 2 else 0.85)
        yield Row(f"permute {name}", bar, moved, (kernel, shape, tuple(shape[d] for d in order)))


def all_rows(s):
    parts = (
        attention_rows, serving_rows, expert_rows, matmul_rows, product_rows, element_rows, moving_rows,
    )  # fmt: skip
    for part in parts:
        yield from part(s)
