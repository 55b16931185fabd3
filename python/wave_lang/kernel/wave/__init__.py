"""Ops, constraints and compilation (usually imported as `tkw`)."""

from pkgutil import extend_path as _extend_path

__path__ = _extend_path(__path__, __name__)  # including its part of public/

from .._support.dtype import DataType, f4e2m1fn, i1, i32
from ..._wave import CompileError, DeviceAssertError, Expr, SimulationError, Value
from ..lang.global_symbols import *
from ..lang.kernel_buffer import AddressSpace
from ..lang.wave_types import IndexMapping, Memory, Register
from .assumptions import *
from .constraints import *
from .symbolic_constraints import *
from ..ops.wave_ops import *
from ..ops.wave_schedule_ops import *
from . import wave_schedule
from . import compile
from .._support.unknown_names import unknown_name as _unknown_name
from .wave import LaunchableWave, wave, wave_trace_only

globals().update(MMAType.__members__)
globals().update(ScaledMMAType.__members__)

__getattr__ = _unknown_name(__name__, "tkw", globals())
