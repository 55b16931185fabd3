"""What ptxas says about the candidates of `kernel.schedules(n)`: no matrix instructions that wait for
each other, and no spilled registers. Either makes the prediction worthless."""

import os
import re
import sys
from pathlib import Path

import pytest

from wave_lang import _wave

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tools"))

import ptxas  # noqa: E402

# Attention of two warpgroups: a product that takes its left operand from registers is in flight while
# the next operand is computed. Its tiles need most of the registers of a thread.
ATTENTION = """
kernel @attention(%q: mem<M, D, f16>, %k: mem<K, D, f16, shared>, %v: mem<K, D, f16, shared>,
                  %c: mem<M, D, f32>)
  hardware threads 128, load_bits 128
  workgroup M by 128 on 0
  workgroup D by 128 on 1
  tile K by KEYS
  wave M by 64
  wave D by 128
  bind M = 4096; bind K = 4096; bind D = 128; bind KEYS = {keys}
  {rows}
{{
  %low = fill -1e+06 : tile<M, f32>
  %none = fill 0.0 : tile<M, f32>
  %zero = fill 0.0 : tile<D, M, f32>
  %a, %b, %o = for K carry %largest = %low, %sums = %none, %acc = %zero : tile<M, f32>, tile<M, f32>, tile<D, M, f32> {{
    %0 = read %k : tile<K, D, f16>
    %1 = read %q : tile<M, D, f16>
    %2 = fill 0.0 : tile<K, M, f32>
    %scores = mma %0, %1, %2 : tile<K, M, f32>
    %x = permute %scores : tile<M, K, f32>
    %larger = max %x, %largest {{dim = K}} : tile<M, f32>
    %3 = sub %largest, %larger : tile<M, f32>
    %kept = exp2 %3 : tile<M, f32>
    %4 = sub %x, %larger : tile<M, K, f32>
    %e = exp2 %4 : tile<M, K, f32>
    %5 = mul %sums, %kept : tile<M, f32>
    %total = sum %e, %5 {{dim = K}} : tile<M, f32>
    %p = cast %e : tile<M, K, f16>
    %6 = read %v {{mapping = map 2 {{K: $index1, D: $index0}} -> {{D: $index0, K: $index1}}}} : tile<D, K, f16>
    %7 = mul %acc, %kept : tile<D, M, f32>
    %8 = mma %6, %p, %7 : tile<D, M, f32>
    yield %larger, %total, %8
  }}
  %whole = div %o, %b : tile<D, M, f32>
  %out = permute %whole : tile<M, D, f32>
  write %out, %c
}}
"""


needs_ptxas = pytest.mark.skipif(
    not ptxas.find(), reason="no ptxas: `make setup` installs one if it can"
)


def rows_of(text):
    lines = (line for line in text.splitlines() if re.match("schedule|ring|at|order|roles|turns", line))
    return "\n  ".join(re.sub(r" hash x\w+", "", line) for line in lines)


def advices(text):
    kernel = _wave.parse(text, "candidate.wave")[0]
    result = ptxas.assemble(kernel.compile("sm_90a").text("ptx"))
    assert result.ok, result.log
    return [str(advice) for advice in result.advices]


@needs_ptxas
@pytest.mark.parametrize("keys", [128, 64])
def test_ptxas_finds_no_fault_with_candidates(keys):
    kernel = _wave.parse(ATTENTION.format(rows="", keys=keys), "plain.wave")[0]
    texts = kernel.schedules("sm_90a", 16)
    assert len(texts) >= 12
    candidates = (ATTENTION.format(rows=rows_of(text), keys=keys) for text in texts)
    found = {i + 1: advices(candidate) for i, candidate in enumerate(candidates)}
    assert not any(found.values()), found


# Lanes load row sums in this loop, and need registers for their addresses.
@needs_ptxas
@pytest.mark.parametrize(
    "name, loop, sizes",
    [("attention_backward", "M", {"M": 4096, "L": 4096}), ("attention", "K2", {"B": 2, "M": 4096, "K2": 4096})],
)
def test_ptxas_finds_no_fault_with_solved_schedules(name, loop, sizes):
    text = Path(ROOT, "bench/kernels", f"{name}.wave").read_text()
    rows = [f"bind {size} = {value}" for size, value in sizes.items()] + [f"schedule {loop} kind modulo"]
    assert not advices(text.replace("\n{", "\n  " + "\n  ".join(rows) + "\n{", 1))
