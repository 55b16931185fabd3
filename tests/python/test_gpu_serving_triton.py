"""The backend of SGLang's plugin beside SGLang's Triton kernels, on a GPU: both are compared with
float64. Needs SGLANG_SOURCE=CHECKOUT."""

import itertools
import unittest

import torch

import serving_standins
from gpu_utils import DEVICE
from plain_tests import MonkeyPatch
from serving_standins import Mode, host
from test_sglang_plugin import SOURCE, Server, masked, tree_batch

SHARED = {"h": 8, "hk": 2, "d": 64, "dv": 64}
FORMS = {
    "shared heads": {"h": 32, "hk": 8, "d": 128, "dv": 128, "dtype": torch.bfloat16},
    "heads of their own, pages": {"h": 4, "hk": 4, "d": 64, "dv": 64, "page": 16},
    "window": SHARED | {"sliding_window_size": 40},
    "cap and sinks": SHARED | {"logit_cap": 5.0, "sinks": torch.linspace(-1, 2, 8)},
    "8-bit cache": SHARED
    | {
        "cache": torch.float8_e4m3fn,
        "k_scale": torch.tensor(0.5),
        "v_scale": torch.tensor(0.25),
    },
    "MLA": {"h": 16, "hk": 1, "d": 576, "dv": 512, "latent": True, "dtype": torch.bfloat16},
}
STEP = {torch.float16: 2**-11, torch.bfloat16: 2**-8, torch.float8_e4m3fn: 2**-4}
SPLITS = 4


class Triton:
    """SGLang's Triton kernels on the cache of a server."""

    def __init__(self, server):
        self.server, self.layer = server, server.layer

    def ends(self, counts, dtype=torch.int32):
        made = [0, *itertools.accumulate(counts)]
        return torch.tensor(made, dtype=dtype, device=self.server.device)

    def places(self, lengths, window=-1):
        """Where the places of the first tokens of requests start, and the places."""
        rows = [self.server.table[request, :count] for request, count in lengths.items()]
        rows = [row[-window - 1 :] if window >= 0 else row for row in rows]
        return self.ends(map(len, rows)), torch.cat(rows)

    def result(self, q):
        return q.new_zeros(len(q), self.layer.tp_q_head_num, self.layer.v_head_dim)

    def options(self):
        return {"logit_cap": self.layer.logit_cap, "sinks": self.server.sinks}

    def decode(self, q, lengths):
        """A window is cut from the places, as SGLang does."""
        from sglang.kernels.ops.attention.decode_attention import decode_attention_fwd

        layer, pool, o = self.layer, self.server.pool, self.result(q)
        parts = o.new_zeros(*o.shape[:2], SPLITS, layer.v_head_dim, dtype=torch.float32)
        decode_attention_fwd(
            q,
            pool.keys,
            pool.values,
            o,
            *self.places(lengths, layer.sliding_window_size),
            parts,
            parts[..., 0].contiguous(),
            torch.full((len(q),), SPLITS, dtype=torch.int32, device=q.device),
            SPLITS,
            layer.scaling,
            *(1.0 if scale is None else scale.item() for scale in (layer.k_scale, layer.v_scale)),
            **self.options(),
        )
        return o.flatten(1)

    def extend(self, q, k, v, lengths, new, mask=None):
        """`lengths` are those before the new tokens."""
        from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd

        pool, o, counts = self.server.pool, self.result(q), list(new.values())
        squares = [(lengths[r] + count) * count for r, count in new.items()]
        extend_attention_fwd(
            q,
            k,
            v.contiguous(),
            o,
            pool.keys,
            pool.values,
            self.ends(counts),
            *self.places({r: lengths[r] for r in new}),
            mask,
            True,
            None if mask is None else self.ends(squares, torch.int64),
            max(counts),
            1.0,
            1.0,
            sm_scale=self.layer.scaling,
            sliding_window_size=self.layer.sliding_window_size,
            window_kv_offsets=torch.zeros_like(self.ends(counts)),  # places are not cut
            **self.options(),
        )
        return o.flatten(1)


def compare(name, server, mine, theirs, exact):
    """The error is at most 1.5 times that of the Triton kernel, or a few roundings. Triton kernels
    round queries to the type of the cache."""
    errors = [abs(host(x) - exact).max() for x in (mine, theirs)]
    print(f"  {name}: error {errors[0]:.1e}, Triton {errors[1]:.1e}")
    most, step = max(abs(exact).max(), 1), STEP[server.dtype]
    assert errors[1] <= 16 * STEP[server.pool.keys.dtype] * most  # the same is computed
    assert errors[0] <= max(min(1.5 * errors[1], 16 * step * most), 2 * step * most)


def run_form(patch, name, form):
    form = {"dtype": torch.float16, "scaling": form["d"] ** -0.5} | form
    server = Server(patch, drafts=4, topk=2, tokens=2048, context=1024, **form)
    serving_standins.sglang_source(patch, SOURCE)  # for Triton's kernels: the backend is made
    triton, lengths = Triton(server), {2: 300, 0: 1, 5: 77}
    server.step(Mode.EXTEND, lengths)

    def run(batch, *given):
        server.backend.init_forward_metadata(batch)
        return server.run(batch, *given)

    new = dict.fromkeys(lengths, 1)
    batch, *given = server.batch(Mode.DECODE, new)
    mine, lengths = run(batch, *given), {r: count + 1 for r, count in lengths.items()}
    theirs, exact = triton.decode(given[0], lengths), server.wanted(given[0], new)
    compare(f"{name}, decoding", server, mine, theirs, exact)
    if "cache" in form:
        return  # the Triton kernels below read new keys before they are rounded
    new = {5: 100, 0: 3}
    batch, *given = server.batch(Mode.EXTEND, new)
    mine, theirs = run(batch, *given), triton.extend(*given, lengths, new)
    compare(f"{name}, prompts", server, mine, theirs, server.wanted(given[0], new))
    lengths = {r: count + new.get(r, 0) for r, count in lengths.items()}
    new = {2: 4, 0: 4}
    masks, (batch, *given) = tree_batch(server, new)
    mine = run(batch, *given)
    theirs = triton.extend(*given, lengths, new, batch.spec_info.custom_mask)
    compare(f"{name}, drafts", server, mine, theirs, masked(server, *given, new, masks))


def test_forms():
    if not SOURCE:
        raise unittest.SkipTest("SGLANG_SOURCE is not set")
    failed = []
    for name, form in FORMS.items():
        patch = MonkeyPatch()
        try:
            with serving_standins.on(DEVICE):
                run_form(patch, name, form)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
        finally:
            patch.undo()
    assert not failed, "\n".join(failed)
