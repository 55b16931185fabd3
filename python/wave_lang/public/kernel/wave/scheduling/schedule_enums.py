"""SchedulingType under the path that kernels import it from."""

from wave_lang.kernel.wave.option_types import SchedulingType

__all__ = ["SchedulingType"]
