"""The linear layer of the public package: by default of float16, and on a GPU if there is one."""

from typing import Any

import torch

from wave_lang.nn.functional import DTYPES
from wave_lang.nn.modules import Linear


def default_device(device: Any) -> Any:
    return device or torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def checked_dtype(dtype: Any) -> torch.dtype:
    found = dtype or torch.float16
    if found not in DTYPES:
        raise ValueError(f"`dtype` is {found}, expected float16, bfloat16 or float32")
    return found


class WaveLinear(Linear):
    """torch.nn.Linear."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__(
            in_features, out_features, bias, default_device(device), checked_dtype(dtype)
        )
