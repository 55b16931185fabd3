"""CoalescingType and KernelLaunchInfo: types of options."""

from ..launch_info import KernelLaunchInfo
from ..option_types import CoalescingType

__all__ = ["CoalescingType", "KernelLaunchInfo"]
