"""Types, element types and symbols of the kernel language (usually imported as `tkl`)."""

from . import global_symbols
from .._support.dtype import *
from .._support.dtype import bool, index
from ...support.indexing import Eq, Max, Min, Ne, Piecewise, ceiling
from ...support.indexing import IndexExpr, IndexSymbol, index_symbol, sym
from .kernel_buffer import AddressSpace, KernelBufferUsage, MemoryLayout
from .wave_types import IndexMapping, Memory, Register, SymbolBind
from .._support.unknown_names import unknown_name as _unknown_name

__getattr__ = _unknown_name(__name__, "tkl", globals())
