"""How leaks are told from caches that fill."""

import gc
import resource
import sys

WINDOWS = 8


def counts():
    gc.collect()
    return sys.getallocatedblocks(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def assert_no_leak(work, calls, most_kib):
    """Calls work in windows of this many calls until one window adds less than an object per two
    calls and less than most_kib KiB. Caches fill, so that later windows add less and less; a leak
    adds the same to each, and is an error after the last one."""
    blocks, peak = counts()
    for _ in range(WINDOWS):
        for _ in range(calls):
            work()
        last_blocks, last_peak, (blocks, peak) = blocks, peak, counts()
        if blocks - last_blocks < calls / 2 and peak - last_peak < most_kib:
            return
    raise AssertionError(
        f"{work.__name__}: {blocks - last_blocks} objects and {peak - last_peak} KiB more"
        f" after {calls} calls, {WINDOWS} times in turn"
    )
