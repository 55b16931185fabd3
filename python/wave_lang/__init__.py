"""Wave: a kernel language for machine learning.

    from wave_lang import *

brings in everything a kernel needs. The module tree of the public `wave_lang` package is here too:

    import wave_lang.kernel.lang as tkl
    import wave_lang.kernel.wave as tkw
    from wave_lang.kernel.lang.global_symbols import *
    from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile
"""

import os.path as _path
from typing import Any as _Any
from warnings import warn as _warn

_here = _path.dirname(_path.abspath(__file__))
__path__.append(_path.join(_here, "public"))  # modules that only public code imports

from . import _wave
from .support.variable_names import assigned_names as _assigned_names

_templates = _path.join(_here, "kernel", "wave", "templates")
_wave.set_package(_here, _templates, _assigned_names)

from ._wave import ArgumentError, CompileError, DataType, DeviceAssertError, Diagnostic, Expr
from ._wave import Finding, InternalError, Kernel, LaunchError, Report, SimulationError, Value
from ._wave import __version__, explain
from . import kernel
from .kernel.lang import *
from .kernel.lang.global_symbols import *
from .kernel.wave import *
from .kernel.wave.compile import WaveCompileOptions, WaveKernel, wave_compile
from .kernel.wave.option_types import SchedulingType
from .kernel.wave.utils.general_utils import get_default_scheduling_params
from .kernel.wave.utils.run_utils import get_default_arch, set_default_run_config
from .support.builtin_names import or_builtin as _or_builtin

# `from wave_lang import *` hides these builtins: on ordinary objects they behave as before.
abs, max, min, round, sum = map(_or_builtin, (abs, max, min, round, sum))  # type: ignore[arg-type]


def replace(model: _Any, *, verbose: _Any = True) -> _Any:
    """Replaces the modules of a PyTorch model by those of `wave_lang.nn`, in place; prints (if
    `verbose`) and returns what it replaced, and why not the rest."""
    from .nn.replacement import replace

    return replace(model, verbose=verbose)


for _found in _wave.check_variables():
    _warn(f"{_found.message}; {_found.hint}" if _found.hint else _found.message, stacklevel=2)

# `bool` and the submodules would hide builtins and modules of the importing file, `replace` that of
# dataclasses.
__all__ = [
    _n
    for _n, _v in list(globals().items())
    if not _n.startswith("_")
    and _n
    not in {
        "bool",
        "compile",
        "global_symbols",
        "index",
        "kernel",
        "replace",
        "support",
        "wave_schedule",
    }
]
