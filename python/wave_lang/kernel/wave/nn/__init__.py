"""Modules of PyTorch under the names of the public package; `wave_lang.nn` has more of them.

Importing this package imports PyTorch.
"""

from . import functional
from .linear import WaveLinear
from .quant_linear import WaveQuantLinear

__all__ = ["WaveLinear", "WaveQuantLinear", "functional"]
