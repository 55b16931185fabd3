"""Classes of ops for schedules, which select nodes by them or insert one."""

from __future__ import annotations

from typing import Any


class CustomOp:
    """An op as schedules name it: a class to filter by, or an instance to insert."""

    def __init__(self, *args: Any, **kwargs: Any):
        self.args, self.kwargs = args, kwargs

    def __repr__(self) -> str:
        given = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"{type(self).__name__}({', '.join(given)})"


class Read(CustomOp):
    """read"""


class Write(CustomOp):
    """write"""


class MMA(CustomOp):
    """mma"""


class ScaledMMA(CustomOp):
    """scaled_mma"""


class NewRegister(CustomOp):
    """register"""


class NewScalar(CustomOp):
    """scalar"""


class Allocate(CustomOp):
    """allocate"""


class SelfIndex(CustomOp):
    """self_index"""


class ApplyExpr(CustomOp):
    """apply_expr"""


class SetSymbol(CustomOp):
    """set_symbol"""


class AtomicOp(CustomOp):
    """atomic_add, atomic_min"""


class ScatterAdd(CustomOp):
    """scatter_add"""


class UnaryPyOp(CustomOp):
    """an elementwise op of one operand"""


class BinaryPyOp(CustomOp):
    """an elementwise op of two operands"""


class ComparisonPyOp(BinaryPyOp):
    """a comparison"""


class SelectOp(CustomOp):
    """select"""


class CastOp(CustomOp):
    """cast"""


class BitcastOp(CustomOp):
    """bitcast"""


class Broadcast(CustomOp):
    """broadcast"""


class Permute(CustomOp):
    """permute"""


class Extract(CustomOp):
    """extract"""


class ExtractSlice(CustomOp):
    """extract_slice"""


class Reshape(CustomOp):
    """reshape"""


class ReduceOp(CustomOp):
    """sum, max, min, reduce"""


class ScanOp(CustomOp):
    """cumsum, scan"""


class TopkOp(CustomOp):
    """topk"""


class ShuffleOp(CustomOp):
    """an exchange between lanes"""


class DebugLog(CustomOp):
    """debug_log"""


class NestedRegionOp(CustomOp):
    """iterate, conditional"""


class Iterate(NestedRegionOp):
    """iterate"""


class Conditional(NestedRegionOp):
    """conditional"""


class Placeholder(CustomOp):
    """an argument"""


class IterArg(Placeholder):
    """a carried argument"""


class Output(CustomOp):
    """what a region returns"""


class GetResult(CustomOp):
    """one of several results"""


class WorkgroupBarrier(CustomOp):
    """workgroup_barrier"""


class SharedMemoryBarrier(CustomOp):
    """shared_memory_barrier"""


class SharedMemoryBarrierSignal(CustomOp):
    """shared_memory_barrier_signal"""


class SharedMemoryBarrierWait(CustomOp):
    """shared_memory_barrier_wait"""


class MemoryCounterWait(CustomOp):
    """memory_counter_wait"""


class MemoryCounterWaitBarrier(CustomOp):
    """memory_counter_wait_barrier"""


class TensorCounterWait(CustomOp):
    """tensor_counter_wait"""


class SetWavePrio(CustomOp):
    """set_wave_prio"""


class SchedulingBarrier(CustomOp):
    """scheduling_barrier"""


class SchedulingGroupBarrier(CustomOp):
    """scheduling_group_barrier"""


class GatherToLDS(CustomOp):
    """a copy from global to shared memory"""


class TensorLoadToLDS(CustomOp):
    """a tensor copy from global to shared memory"""


Reduction = Iterate


def get_custom(node: Any) -> Any:
    """The op of a node; here nodes are ops."""
    return node


__all__ = [
    name
    for name, value in globals().items()
    if getattr(value, "__module__", None) == __name__ and not name.startswith("_")
]
