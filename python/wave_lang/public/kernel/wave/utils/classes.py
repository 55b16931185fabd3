"""CoalescingType and KernelLaunchInfo: the types of two options."""

from wave_lang.kernel.wave.launch_info import KernelLaunchInfo
from wave_lang.kernel.wave.option_types import CoalescingType

__all__ = ["CoalescingType", "KernelLaunchInfo"]
