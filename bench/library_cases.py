"""What a row of bench_library.py is: a call, what it is measured beside, and the bar to be reached."""

from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

from library_peers import Peer, torch
from wave_lang.kernel import lang as tkl


@dataclass(frozen=True)
class Bar:
    """`kind`: "peer" (the best peer's time, or rate, by ours), "copy" (a part of the bandwidth of a
    copy), "us" (at most this long)."""

    kind: str
    value: float


@dataclass
class Case:
    """A call and its `amount` of bytes ("TB/s") or operations ("TF/s")."""

    call: Callable[..., Any]
    args: tuple
    amount: float
    unit: str
    peers: list[Peer] = field(default_factory=list)
    graph: bool = True


@dataclass
class Row:
    name: str
    bar: Bar | None
    build: Callable[..., Case]
    args: tuple = ()
    needs_torch: bool = False


class Maker:
    """Makes tensors: PyTorch's, on a GPU if there is one, or NumPy's."""

    def __init__(self):
        self.gpu = torch is not None and torch.cuda.is_available()
        self.device = "cuda" if self.gpu else "cpu"
        self.half = tkl.bf16 if torch else tkl.f16
        self.rng = np.random.default_rng(0)
        # A generator of our own: a peer that fails in a graph may leave PyTorch's useless.
        self.seeds = torch.Generator(self.device).manual_seed(0) if torch else None

    def random(self, *shape):
        if torch:
            return self.single(*shape, dtype=torch.bfloat16)
        return self.rng.standard_normal(shape, np.float32).astype(np.float16)

    def single(self, *shape, **more):
        """In f32."""
        if torch:
            return torch.randn(shape, device=self.device, generator=self.seeds, **more)
        return self.rng.standard_normal(shape, np.float32)

    def array(self, values, dtype=np.int32):
        values = np.asarray(values).astype(dtype)
        return torch.from_numpy(values).to(self.device) if torch else values

    def order(self, count):
        return self.array(self.rng.permutation(count))
