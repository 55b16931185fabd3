"""Reserved symbols, and `sympy`: kernels get all of it by `import *`."""

from __future__ import annotations

from ..._wave import Expr as _Expr, symbol as _symbol
from ...support import sympy_bridge as _sympy_bridge
from ...support.indexing import index_symbol

sympy = _sympy_bridge.load()

GLOBAL_ADDRESS_SPACE = index_symbol("$GLOBAL_ADDRESS_SPACE")
SHARED_ADDRESS_SPACE = index_symbol("$SHARED_ADDRESS_SPACE")
GLOBAL_MEMORY = GLOBAL_ADDRESS_SPACE
SHARED_MEMORY = SHARED_ADDRESS_SPACE

WORKGROUP_0 = index_symbol("$WG0")
WORKGROUP_1 = index_symbol("$WG1")
WORKGROUP_2 = index_symbol("$WG2")
WORKGROUP_3 = index_symbol("$WG3")
WORKGROUP_4 = index_symbol("$WG4")
THREAD_0 = index_symbol("$T0")
THREAD_1 = index_symbol("$T1")
THREAD_2 = index_symbol("$T2")
DEVICE_DIM_0 = index_symbol("$DD0")
DEVICE_DIM_1 = index_symbol("$DD1")
DEVICE_DIM_2 = index_symbol("$DD2")

GPR_NUM = index_symbol("$GPR_NUM")
MMA_LHS = index_symbol("$MMA_LHS")
MMA_RHS = index_symbol("$MMA_RHS")
MMA_ACC = index_symbol("$MMA_ACC")
MMA_LHS_SCALE = index_symbol("$MMA_LHS_SCALE")
MMA_RHS_SCALE = index_symbol("$MMA_RHS_SCALE")
MMA_SCALE_FP4 = index_symbol("$MMA_SCALE_FP4")
INPUT_SELECTOR = index_symbol("$INPUT_SELECTOR")
LINEAR_INDEX = index_symbol("$LINEAR_INDEX")

# Latencies and units of the instruction scheduler, given through `subs`.
READ_SHARED_DELAY = index_symbol("$READ_SHARED_DELAY")
WRITE_SHARED_DELAY = index_symbol("$WRITE_SHARED_DELAY")
READ_GLOBAL_DELAY = index_symbol("$READ_GLOBAL_DELAY")
WRITE_GLOBAL_DELAY = index_symbol("$WRITE_GLOBAL_DELAY")
GLOBAL_TO_SHARED_DELAY = index_symbol("$GLOBAL_TO_SHARED_DELAY")
MMA_DELAY = index_symbol("$MMA_DELAY")
VALU_DELAY = index_symbol("$VALU_DELAY")
SHUFFLE_DELAY = index_symbol("$SHUFFLE_DELAY")
SHARED_MEMORY_UNITS = index_symbol("$SHARED_MEMORY_UNITS")
GLOBAL_MEMORY_UNITS = index_symbol("$GLOBAL_MEMORY_UNITS")
MMA_UNITS = index_symbol("$MMA_UNITS")
VALU_UNITS = index_symbol("$VALU_UNITS")
SHUFFLE_UNITS = index_symbol("$SHUFFLE_UNITS")


def get_workgroup_symbol(i: int) -> _Expr:
    """The id of a workgroup along dimension i. The grid folds 3 and 4 into 2: `WORKGROUP_2` is then
    the id of all three, while `WORKGROUP_3` and `WORKGROUP_4` are those of their dimensions."""
    return index_symbol(f"$WG{i}")


def GET_ITER_ARG(i: int) -> _Expr:
    """In the condition of a while loop: the current value of carried argument i."""
    return _symbol(f"$GET_ITER_ARG_{i}", False)
