"""The ops of schedule functions.

Selections are lists of Node, one for each instruction of an op with a tag. What they mean, and which
requests a machine obeys, is decided by the compiler: a function here only passes numbers of nodes.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Iterable, Sequence

from ..._wave import Construct, Expr


class Recording:
    """The kernel that a schedule function is being run for."""

    def __init__(self, construct: Construct, hardware: Any = None):
        self.construct = construct
        self.hardware = hardware


current_recording: ContextVar[Recording] = ContextVar("wave_lang_schedule")


def _construct(op: str) -> Construct:
    recording = current_recording.get(None)
    if recording is None:
        raise RuntimeError(f"`{op}` may only be used in a function decorated with @wave_schedule()")
    return recording.construct


class Node:
    """An instruction of an op, as schedule functions select it."""

    __slots__ = ("_construct", "_number")

    def __init__(self, construct: Construct, number: int):
        self._construct = construct
        self._number = number

    @property
    def name(self) -> str:
        """Its op and which instruction of it; copies in a prologue or epilogue end like `_1_2`."""
        return self._construct.describe(self._number)[0]

    @property
    def tkw_op_name(self) -> str:
        """The name of its op in the IR."""
        return self._construct.describe(self._number)[1]

    @property
    def iteration(self) -> int:
        """Which copy of an unrolled body it is in, counted from 0."""
        return self._construct.describe(self._number)[4]

    @property
    def expanded_dims(self) -> dict[Expr, int]:
        """Its position among the instructions of its op along each dimension."""
        return self._construct.describe(self._number)[5]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        return self._construct is other._construct and self._number == other._number

    def __hash__(self) -> int:
        return hash(self._number)

    def __repr__(self) -> str:
        return f"<node {self.name}>"


class Segment:
    """The steady state of a pipelined loop, or what runs before or after it."""

    def __init__(self, name: str, loop: list[Node]):
        self.name = name
        self.loop = loop

    def __repr__(self) -> str:
        return f"<the {self.name} of a pipelined loop>"


def _nodes(construct: Construct, numbers: Iterable[int]) -> list[Node]:
    return [Node(construct, number) for number in numbers]


def _flat(items: Any) -> list[Any]:
    """Nodes and inserted ops of nested lists; a segment stands for its loop."""
    if isinstance(items, Segment):
        return items.loop
    if isinstance(items, (list, tuple)):
        return [item for inner in items if inner is not None for item in _flat(inner)]
    return [items]


def _numbers(op: str, items: Any) -> list[int]:
    """The numbers of nodes."""
    found = _flat(items)
    for item in found:
        if not isinstance(item, Node):
            raise TypeError(f"`{op}` takes nodes, not {item!r}")
    return [item._number for item in found]


def _inserted(op: Any) -> tuple[str, int, str]:
    """The class of an op that is inserted, its number if it has one, and its arguments as text."""
    args, kwargs = getattr(op, "args", ()), getattr(op, "kwargs", {})
    first = next(iter(args), 0)
    args = [len(x) if isinstance(x, (list, tuple)) else x for x in args]
    given = [f"{x:d}" if isinstance(x, int) else "none" for x in args]
    given += [f"{name}={x:d}" for name, x in kwargs.items() if isinstance(x, int)]
    return type(op).__name__, first if isinstance(first, int) else 0, " ".join(given)


def _insert(op: str, item: Any, where: str | None = None, target: Any = ()) -> None:
    """Records an op that the function inserts."""
    _construct(op).insert(_inserted(item), where, _numbers(op, target))


def get_node_by_tag(tag: str | set[str]) -> list[Node]:
    """The nodes with this tag; with exactly these tags if it is a set."""
    construct = _construct("get_node_by_tag")
    exact = not isinstance(tag, str)
    return _nodes(construct, construct.find(sorted(tag) if exact else [tag], exact))


def get_node_by_tag_and_type(tag: str | set[str], node_type: type) -> list[Node]:
    """The nodes of this class with this tag."""
    return filter_nodes(get_node_by_tag(tag), node_type=node_type)


def get_node_by_tag_and_iteration(tag: str | set[str], iteration: int = 0) -> list[Node]:
    """The nodes with this tag of one copy of an unrolled body."""
    construct = _construct("get_node_by_tag_and_iteration")
    found = _numbers("get_node_by_tag_and_iteration", get_node_by_tag(tag))
    return _nodes(construct, construct.filter(found, "any", None, iteration))


def filter_nodes(
    nodes: Sequence[Any], subgraph: Segment | None = None, node_type: type | None = None
) -> list[Node]:
    """Those in a segment of a pipelined loop, or of a class."""
    construct = _construct("filter_nodes")
    found = _numbers("filter_nodes", nodes)
    where = "any" if subgraph is None else subgraph.name
    type_name = None if node_type is None else node_type.__name__
    return _nodes(construct, construct.filter(found, where, type_name, -1))


def partition_by_address_space(nodes: Sequence[Any], address_space: Any) -> tuple[list, list]:
    """Those that access this address space, and the others."""
    construct = _construct("partition_by_address_space")
    found = _numbers("partition_by_address_space", nodes)
    name = str(address_space)
    space = next((s for s in ("shared", "global") if s.upper() in name), name)
    inside, others = construct.by_space(found, space)
    return _nodes(construct, inside), _nodes(construct, others)


def partition_by_dim(nodes: Sequence[Any], dim: Any, num_partitions: int) -> list[list[Node]]:
    """Lists of neighbours along a dimension, the first ones longer. If a machine has fewer
    instructions than that, the last ones are empty."""
    construct = _construct("partition_by_dim")
    found = construct.by_dim(_numbers("partition_by_dim", nodes), dim, num_partitions)
    return [_nodes(construct, part) for part in found]


def getitem(nodes: Sequence[Any], index: Any) -> Any:
    """`nodes[index]`."""
    return nodes[index]


class PipelinedLoop:
    """A loop cut into stages: `with pipeline(loop) as p: p.set_stage([...])`."""

    def __init__(self, loop: Any, eliminate_epilogue: bool, multi_buffer_count: int | None):
        self._construct = _construct("pipeline")
        self._number = self._construct.pipeline(_numbers("pipeline", loop))
        self._lists: list[list] = []
        self._masked = eliminate_epilogue
        self.loop = _flat(loop)
        self.multi_buffer_count = multi_buffer_count
        self.unroll_factor = 1
        self.KERNEL: Segment | None = None
        self.PROLOGUE: Segment | None = None
        self.EPILOGUE: Segment | None = None

    def set_stage(self, stage: Sequence[Any]) -> None:
        """Adds a stage: for each cycle a tuple of lists."""
        cycles = [_numbers("set_stage", cycle) for cycle in stage]
        self._construct.stage(self._number, cycles)
        self._lists += [item for cycle in stage for item in cycle if isinstance(item, list)]

    def unroll(self, factor: int) -> None:
        """Unrolls the steady state."""
        unroll(self.loop, factor)

    def __enter__(self) -> "PipelinedLoop":
        return self

    def __exit__(self, kind: Any, *exc: Any) -> None:
        if kind is not None:
            return
        self._construct.close(self._number, self.multi_buffer_count or 0, self._masked)
        for nodes in self._lists:
            nodes[:] = _nodes(self._construct, self._construct.copies(_numbers("pipeline", nodes)))
        self.KERNEL = Segment("kernel", self.loop)
        self.PROLOGUE = Segment("prologue", self.loop)
        self.EPILOGUE = None if self._masked else Segment("epilogue", self.loop)


def pipeline(
    loop: Any, eliminate_epilogue: bool = False, multi_buffer_count: int | None = None
) -> PipelinedLoop:
    """Software-pipelines a loop. On leaving the `with`, every list that was given to `set_stage`
    also holds the copies of its nodes in PROLOGUE and EPILOGUE."""
    return PipelinedLoop(loop, eliminate_epilogue, multi_buffer_count)


def unroll(loop: Any, factor: int) -> None:
    """Repeats the body of a loop, or of a KERNEL."""
    _construct("unroll").unroll(_numbers("unroll", loop), factor)


def cluster(nodes: Sequence[Any]) -> list[Any]:
    """Nodes and ops that are kept together, in this order."""
    construct, items = _construct("cluster"), _flat(nodes)
    construct.cluster([item._number if isinstance(item, Node) else _inserted(item) for item in items])
    return [item for item in items if isinstance(item, Node)]


def reorder_graph(loop: Any, clusters: Sequence[Any]) -> None:
    """Puts the nodes of a pipelined loop in this order."""
    construct = _construct("reorder_graph")
    construct.reorder(_numbers("reorder_graph", clusters))


def interleave_operations(
    base_ops: Sequence[Any],
    interleaved_ops: Sequence[Sequence[Any]],
    intervals: int | Sequence[int] = 1,
    start_offsets: Sequence[int] | None = None,
    start_after_groups: Sequence[Sequence[int]] | None = None,
) -> list[Node]:
    """`base_ops` with a node of each group inserted at its interval."""
    construct = _construct("interleave_operations")
    n = len(interleaved_ops)
    every = [intervals] * n if isinstance(intervals, int) else intervals
    groups = zip(
        [_numbers("interleave_operations", group) for group in interleaved_ops],
        every,
        start_offsets or [0] * n,
        start_after_groups or [()] * n,
        strict=True,
    )
    base = _numbers("interleave_operations", base_ops)
    return _nodes(construct, construct.interleave(base, list(groups)))


def insert_before(target: Any, op: Any) -> None:
    """Puts an op before the target."""
    _insert("insert_before", op, "before", target)


def insert_after(target: Any, op: Any) -> None:
    """Puts an op after the target."""
    _insert("insert_after", op, "after", target)


def insert_at_start(region: Any, op: Any) -> None:
    """Puts an op first in a region."""
    _insert("insert_at_start", op, "start", region)


def insert_at_end(region: Any, op: Any) -> None:
    """Puts an op last in a region."""
    _insert("insert_at_end", op, "end", region)


def insert_cond_barrier_before(condition: Any, target: Any) -> None:
    """A barrier before the target for the threads where the condition holds."""
    _construct("insert_cond_barrier_before").insert(("WorkgroupBarrier", 0, ""), None, [])


def insert_cond_barrier_after(condition: Any, target: Any) -> None:
    """A barrier after the target for the threads where the condition holds."""
    _construct("insert_cond_barrier_after").insert(("WorkgroupBarrier", 0, ""), None, [])


def stagger(loop: Any) -> None:
    """Lets half of the waves run one cluster ahead."""
    _construct("stagger").stagger(_numbers("stagger", loop))


def get_hardware_constraint() -> Any:
    """The hardware constraint of the kernel being scheduled."""
    _construct("get_hardware_constraint")
    return current_recording.get().hardware


__all__ = [
    "Node",
    "PipelinedLoop",
    "Segment",
    "cluster",
    "filter_nodes",
    "get_hardware_constraint",
    "get_node_by_tag",
    "get_node_by_tag_and_iteration",
    "get_node_by_tag_and_type",
    "getitem",
    "insert_after",
    "insert_at_end",
    "insert_at_start",
    "insert_before",
    "insert_cond_barrier_after",
    "insert_cond_barrier_before",
    "interleave_operations",
    "partition_by_address_space",
    "partition_by_dim",
    "pipeline",
    "reorder_graph",
    "stagger",
    "unroll",
]
