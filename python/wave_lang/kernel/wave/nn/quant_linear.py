"""A linear layer whose inputs and weights are rounded to 8 bits before they are multiplied."""

from typing import Any

import torch

from wave_lang.ops.matmul import quantized_matmul

from .linear import WaveLinear

KEYS = ("weight_scale", "weight_scale_shape", "input_scale", "input_scale_shape", "qdtype")


class WaveQuantLinear(WaveLinear):
    """x and the weights are divided by `quant_params["input_scale"]` and `["weight_scale"]`, one
    number each, and rounded to `["qdtype"]`; results are scaled back. It has no gradient."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        quant_params: dict[str, Any],
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        missing = [key for key in KEYS if key not in quant_params]
        if missing:
            raise ValueError(f"`quant_params` has no `{missing[0]}`")
        super().__init__(in_features, out_features, bias, device, dtype)
        self.qdtype = quant_params["qdtype"]
        if not (self.qdtype.is_floating_point and self.qdtype.itemsize == 1):
            raise ValueError(f"`qdtype` is {self.qdtype}, expected a float of 8 bits")
        for name in ("weight_scale", "input_scale"):
            scale = quant_params[name].clone().detach().view(quant_params[f"{name}_shape"])
            if scale.numel() != 1:
                raise ValueError(f"`{name}` has {scale.numel()} elements, expected 1")
            setattr(self, name, scale)
        # They are arguments of the kernel: reading them from a GPU in each call would wait for it.
        self._scales = float(self.input_scale), float(self.weight_scale)

    def forward(self, input: Any) -> Any:
        rows = input.reshape(-1, input.shape[-1])
        if torch.is_grad_enabled() and input.requires_grad:
            raise NotImplementedError("`input` needs a gradient, but WaveQuantLinear has none")
        largest = torch.finfo(self.qdtype).max
        with torch.no_grad():
            out = quantized_matmul(
                rows, self.weight, *self._scales, self.qdtype, largest, self.bias
            )
        return out.view(*input.shape[:-1], self.out_features)
