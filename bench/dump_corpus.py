"""Dumps the index expressions of our kernels, for bench_sym.

    PYTHONPATH=python python bench/dump_corpus.py          writes bench/corpus/*.txt

For each kernel family: the position of a thread along every dimension (workgroup, wave, lane, copy
of the instruction, element), through the kernel's own constraints and index mappings, and the
linear offset in each tensor it touches, before any simplification.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import wave_lang.kernel.lang as tkl
import wave_lang.kernel.wave as tkw
from wave_lang.kernel.lang.global_symbols import (
    THREAD_0, THREAD_1, WORKGROUP_0, WORKGROUP_1, WORKGROUP_2, index_symbol)
from wave_lang.support import sympy_shim as sp

sym = tkl.sym
LANE = THREAD_0 % 64
FACTS = ["$T0 >= 0", "$T0 < 256", "$T1 >= 0", "$T1 < 4", "$WG0 >= 0", "$WG1 >= 0", "$WG2 >= 0"]


class Corpus:
    def __init__(self):
        self.lines, self.facts = {}, list(FACTS)  # a dict: in order, each once

    def add(self, *exprs):
        self.lines.update((str(e), None) for e in exprs)

    def assume(self, *facts):
        self.facts += [f for f in facts if f not in self.facts]


# ---- the position of a thread
# ----------------------------------------------------------------------


def counter(dim):
    return index_symbol(f"$ARG{dim}")


def wave_id(workgroup_dim):
    return THREAD_0 // 64 if workgroup_dim == 0 else THREAD_1


def start(constraints, dim, ids=(WORKGROUP_0, WORKGROUP_1, WORKGROUP_2)):
    """The part of a position that all lanes of a wave share."""
    position = 0
    wg = next((c for c in constraints if isinstance(c, tkw.WorkgroupConstraint) and c.dim == dim), None)
    for c in constraints:
        if getattr(c, "dim", None) != dim:
            continue
        if isinstance(c, tkw.WorkgroupConstraint):
            position += c.apply_fn(c.wg_dim) if c.apply_fn else ids[c.workgroup_dim] * c.tile_size
        elif isinstance(c, tkw.WaveConstraint):
            position += c.tile_size * wave_id(wg.workgroup_dim)
        elif isinstance(c, tkw.TilingConstraint):
            position += c.start + counter(dim) * c.tile_size
    return position


class Fragment:
    """Lane and element parts of a 16x16x16 or 32x32x8 matrix instruction."""

    def __init__(self, size, k):
        self.size, self.k = size, k

    def row(self):
        return LANE % self.size

    def k_of(self, j):
        return 4 * (LANE // self.size) + j

    def acc_row(self, j):
        if self.size == 16:
            return 4 * (LANE // 16) + j
        return (8 * (j // 4)) % 32 + 4 * (LANE // 32) + j % 4


FRAGMENTS = [Fragment(16, 16), Fragment(32, 8)]


def linear(coords, sizes):
    offset = 0
    for c, n in zip(coords, sizes):
        offset = offset * n + c
    return offset


# ---- kernel families ----------------------------------------------------------------------------


def gemm_constraints(M, N, K, bm, bn, bk):
    return [tkw.WorkgroupConstraint(M, bm, 0), tkw.WorkgroupConstraint(N, bn, 1),
            tkw.TilingConstraint(K, bk), tkw.WaveConstraint(M, bm / 2), tkw.WaveConstraint(N, bn / 2)]


def gemm(out: Corpus):
    M, N, K = sym.M, sym.N, sym.K
    BM, BN, BK = sym.BLOCK_M, sym.BLOCK_N, sym.BLOCK_K
    cons = gemm_constraints(M, N, K, BM, BN, BK)
    out.assume("M >= 1", "N >= 1", "K >= 1", "$ARGK >= 0")
    for f, tiles in itertools.product(FRAGMENTS, ((64, 64, 32), (128, 128, 64), (96, 80, 48))):
        static = dict(zip((BM, BN, BK), tiles))
        for m, k in itertools.product(range(3), range(3)):
            row = (start(cons, M) + f.row() + f.size * m).subs(static)
            col = (start(cons, K) + f.k_of(0) + f.k * k).subs(static)
            out.add(row, col, linear((row, col), (M, K)))
            row = (start(cons, N) + f.row() + f.size * m).subs(static)
            out.add(row, linear((row, col), (N, K)))
        for m, n, j in itertools.product(range(3), range(2), (0, 3)):
            row = (start(cons, M) + f.acc_row(j) + f.size * m).subs(static)
            col = (start(cons, N) + f.row() + f.size * n).subs(static)
            out.add(row, linear((row, col), (M, N)))


def batched(out: Corpus):
    B, M, N, K = sym.B, sym.M, sym.N, sym.K
    cons = gemm_constraints(M, N, K, sym.BLOCK_M, sym.BLOCK_N, sym.BLOCK_K)
    cons.append(tkw.WorkgroupConstraint(B, 1, 2))
    static = {sym.BLOCK_M: 64, sym.BLOCK_N: 128, sym.BLOCK_K: 32}
    out.assume("B >= 1")
    for f, m, k in itertools.product(FRAGMENTS, range(2), range(2)):
        row = (start(cons, M) + f.row() + f.size * m).subs(static)
        col = (start(cons, K) + f.k_of(1) + f.k * k).subs(static)
        out.add(linear((start(cons, B), row, col), (B, M, K)))
        acc = (start(cons, M) + f.acc_row(2)).subs(static)
        out.add(linear((start(cons, B), acc, (start(cons, N) + f.row()).subs(static)), (B, M, N)))


def conv(out: Corpus):
    """Implicit GEMM over NHWC through index mappings, two strides, 1x1 and 3x3 filters."""
    N, C, H, W, HF, WF, NF = sym.N, sym.C, sym.H, sym.W, sym.HF, sym.WF, sym.NF
    i, j = tkw.IndexMapping.iterator(0), tkw.IndexMapping.iterator(1)
    out.assume("C >= 1", "H >= 1", "W >= 1", "NF >= 1", "$ARGK >= 0", "Mod(C, 4) == 0")
    for stride, filter_size, f in itertools.product((1, 2), (1, 3), FRAGMENTS):
        h_out, w_out = (H - HF) // stride + 1, (W - WF) // stride + 1
        sz_out = h_out * w_out
        M, K = sym.M, sym.K
        x_map = tkw.IndexMapping(2, inputs={
            N: i // sz_out, C: j % C,
            H: (i % sz_out) % w_out * stride + (j // C) % WF,
            W: (i % sz_out) // w_out * stride + (j // C) // WF}, outputs={M: i, K: j})
        w_map = tkw.IndexMapping(2, inputs={NF: i % NF, C: j % C, HF: (j // C) % WF, WF: (j // C) // WF},
                                 outputs={NF: i, K: j})
        cons = gemm_constraints(M, NF, K, sym.BLOCK_M, sym.BLOCK_N, sym.BLOCK_K)
        static = {sym.BLOCK_M: 64, sym.BLOCK_N: 64, sym.BLOCK_K: 32, HF: filter_size, WF: filter_size}
        for m, k in itertools.product(range(2), range(2)):
            row = (start(cons, M) + f.row() + f.size * m).subs(static)
            col = (start(cons, K) + f.k_of(0) + f.k * k).subs(static)
            coords = {d: e.subs({i: row, j: col}).subs(static) for d, e in x_map.input_mapping.items()}
            out.add(*coords.values(), linear([coords[d] for d in (N, H, W, C)], (N, H, W, C)))
            row = (start(cons, NF) + f.row() + f.size * m).subs(static)
            coords = {d: e.subs({i: row, j: col}).subs(static) for d, e in w_map.input_mapping.items()}
            out.add(coords[HF], linear([coords[d] for d in (HF, WF, C, NF)],
                                       (filter_size, filter_size, C, NF)))


def attention(out: Corpus):
    """Queries times keys, then values read transposed; grouped heads on one workgroup dimension."""
    B, M, N, K1, K2, H = sym.B, sym.M, sym.N, sym.K1, sym.K2, sym.H
    cons = [tkw.WorkgroupConstraint(M, sym.BLOCK_M, 0), tkw.WorkgroupConstraint(N, sym.BLOCK_N, 1),
            tkw.WorkgroupConstraint(H, 1, 2), tkw.TilingConstraint(K2, sym.BLOCK_K2),
            tkw.WaveConstraint(M, sym.BLOCK_M / 4), tkw.WaveConstraint(N, sym.BLOCK_N)]
    static = {sym.BLOCK_M: 128, sym.BLOCK_N: 64, sym.BLOCK_K2: 64}
    out.assume("K1 >= 1", "K2 >= 1", "H >= 1", "$ARGK2 >= 0")
    heads = (WORKGROUP_2 // 8, WORKGROUP_2 % 8)
    for f, a, b in itertools.product(FRAGMENTS, range(3), range(3)):
        q_row = (start(cons, M) + f.row() + f.size * a).subs(static)
        k_row = (start(cons, K2) + f.row() + f.size * b).subs(static)
        inner = f.k_of(0) + f.k * a
        out.add(linear((q_row, heads[0], inner), (M, H, K1)), linear((k_row, heads[1], inner), (K2, H, K1)))
        v_col = (start(cons, K2) + f.k_of(1) + f.k * b).subs(static)
        v_row = (start(cons, N) + f.row() + f.size * a).subs(static)
        out.add(linear((v_col, heads[1], v_row), (K2, H, N)))
        o_row = (start(cons, N) + f.acc_row(1) + f.size * a).subs(static)
        out.add(linear((q_row, heads[0], o_row), (M, H, N)))
        out.add(q_row - v_col, sp.Piecewise((v_col, v_col < K2), (K2 - 1, True)))


def paged_attention(out: Corpus):
    """Keys and values through a page table; a split of the sequence per workgroup."""
    K2, D, H, PAGE = sym.K2, sym.D, sym.H, sym.PAGE
    SPLIT = sp.ceiling(K2 / 4)
    page = tkw.IndexMapping.dynamic_val(0)
    cons = [tkw.TilingConstraint(K2, 64, start=WORKGROUP_1 * SPLIT,
                                 iters=sp.ceiling(sp.Min(SPLIT, K2 - WORKGROUP_1 * SPLIT) / 64))]
    out.assume("D >= 1", "PAGE >= 1", "Mod(PAGE, 16) == 0", "$dynamic_val0 >= 0")
    for f, a, b in itertools.product(FRAGMENTS, range(3), range(3)):
        token = start(cons, K2) + f.row() + f.size * a
        inner = f.k_of(0) + f.k * b
        out.add(token // PAGE, token % PAGE, linear((page, token % PAGE, WORKGROUP_0, inner),
                                                    (PAGE, PAGE, H, D)))
        out.add(sp.Min(token, K2 - 1), cons[0].iters if a == b == 0 else token % 16 + inner)


def reordered(out: Corpus):
    """GEMM whose workgroups are ordered in groups of rows."""
    M, N, K = sym.M, sym.N, sym.K
    cons = gemm_constraints(M, N, K, sym.BLOCK_M, sym.BLOCK_N, sym.BLOCK_K)
    for (bm, bn, bk), group in itertools.product(((128, 256, 64), (256, 128, 64)), (4, 8, 16)):
        nm, nn = sp.ceiling(M / bm), sp.ceiling(N / bn)
        flat = WORKGROUP_0 + WORKGROUP_1 * nm
        first = flat // (group * nn) * group
        rows = sp.Max(1, sp.Min(group, nm - first))
        ids = (first + flat % rows, flat % (group * nn) // rows, WORKGROUP_2)
        static = {sym.BLOCK_M: bm, sym.BLOCK_N: bn, sym.BLOCK_K: bk}
        out.add(*ids[:2])
        for f in FRAGMENTS:
            row = (start(cons, M, ids) + f.row()).subs(static)
            col = (start(cons, N, ids) + f.row()).subs(static)
            k = (start(cons, K, ids) + f.k_of(0)).subs(static)
            out.add(row, col, linear((row, k), (M, K)), linear((col, k), (N, K)))
            out.add(linear(((start(cons, M, ids) + f.acc_row(3)).subs(static), col), (M, N)))


def stream_k(out: Corpus):
    """A fixed number of workgroups share the iterations of all tiles."""
    M, N, K = sym.M, sym.N, sym.K
    bm, bn, bk = 128, 128, 64
    for ctas in (108, 132, 304):
        nm, nn, nk = sp.ceiling(M / bm), sp.ceiling(N / bn), sp.ceiling(K / bk)
        total = nm * nn * nk
        per = total // ctas
        first = WORKGROUP_0 * per + sp.Min(WORKGROUP_0, total % ctas)
        last = first + per + sp.Piecewise((1, WORKGROUP_0 < total % ctas), (0, True))
        it = first + index_symbol("$ARGI")
        tile = it // nk
        out.add(first, last, last - first, tile, it % nk, sp.Min(last, (tile + 1) * nk))
        for f in FRAGMENTS:
            row = tile // nn * bm + THREAD_0 // 64 * 64 + f.row()
            col = tile % nn * bn + THREAD_1 * 64 + f.row()
            k = it % nk * bk + f.k_of(0)
            out.add(row, col, linear((row, k), (M, K)), linear((col, k), (N, K)),
                    linear((tile // nn * bm + f.acc_row(1), col), (M, N)))
    out.assume("$ARGI >= 0")


def preshuffled_scales(out: Corpus):
    """MX scales stored so that 32 rows by 8 groups are 256 contiguous bytes."""
    M, K = sym.M, sym.K
    scales = K / 32
    out.assume("Mod(K, 256) == 0", "Mod(M, 32) == 0", "$ARGK >= 0")
    for m, k, wave_m in itertools.product(range(4), range(3), (32, 64)):
        row = WORKGROUP_0 * 4 * wave_m + THREAD_0 // 64 * wave_m + LANE % 16 + 16 * m
        col = counter(K) * 8 + LANE // 16 + 4 * k
        flat = (row // 32 * (scales * 32) + col // 8 * 256 + col % 4 * 64 + row % 16 * 4
                + col // 4 % 2 * 2 + row // 16 % 2)
        out.add(flat, flat // scales, flat % scales)


FAMILIES = [gemm, batched, conv, attention, paged_attention, reordered, stream_k, preshuffled_scales]


def main():
    corpus = Corpus()
    for family in FAMILIES:
        before = len(corpus.lines)
        family(corpus)
        print(f"{family.__name__:20} {len(corpus.lines) - before:4} expressions")
    folder = Path(__file__).parent / "corpus"
    folder.mkdir(exist_ok=True)
    (folder / "expressions.txt").write_text("\n".join(corpus.lines) + "\n")
    (folder / "facts.txt").write_text("\n".join(corpus.facts) + "\n")
    print(f"{'all':20} {len(corpus.lines):4} expressions, {len(corpus.facts)} facts")


if __name__ == "__main__":
    main()
