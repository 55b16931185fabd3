"""The ops of schedules. They record requests; no target reorders instructions yet.

Nodes are not known while a schedule is recorded, so every selection is a NodeList that represents
whatever matches: it can be sliced, joined and iterated like a list.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Iterable, Sequence


class Recording:
    """The requests of a schedule, in order."""

    def __init__(self, hardware: Any = None):
        self.hardware = hardware
        self.steps: list[tuple[str, tuple, dict]] = []


current_recording: ContextVar[Recording] = ContextVar("wave_lang_schedule")


def _record(op: str, *args: Any, **kwargs: Any) -> None:
    recording = current_recording.get(None)
    if recording is None:
        raise RuntimeError(f"`{op}` may only be used in a function decorated with @wave_schedule()")
    recording.steps.append((op, args, kwargs))


class NodeList(list):
    """A selection of a kernel's ops. Its items appear when instructions exist."""

    def __init__(self, items: Iterable[Any] = (), what: str = ""):
        super().__init__(items)
        self.what = what

    def __add__(self, other: Any) -> "NodeList":
        return NodeList([*self, *other], self.what)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return NodeList(super().__getitem__(key), self.what)
        return super().__getitem__(key) if self else self

    def __repr__(self) -> str:
        return f"<nodes {self.what}>" if not self else super().__repr__()


def _select(op: str, what: str, *args: Any, **kwargs: Any) -> NodeList:
    _record(op, *args, **kwargs)
    return NodeList(what=what)


def get_node_by_tag(tag: Any) -> NodeList:
    """The ops with this tag."""
    return _select("get_node_by_tag", f"tagged {tag}", tag)


def get_node_by_tag_and_type(tag: Any, node_type: type) -> NodeList:
    """The ops of this class with this tag."""
    return _select("get_node_by_tag_and_type", f"{node_type.__name__} tagged {tag}", tag, node_type)


def get_node_by_tag_and_iteration(tag: Any, iteration: int = 0) -> NodeList:
    """The ops with this tag of one iteration of an unrolled loop."""
    return _select(
        "get_node_by_tag_and_iteration",
        f"tagged {tag} of iteration {iteration}",
        tag,
        iteration=iteration,
    )


def filter_nodes(nodes: NodeList, subgraph: Any = None, node_type: type | None = None) -> NodeList:
    """The ops that are in a stage, or of a class."""
    return _select(
        "filter_nodes", getattr(nodes, "what", ""), nodes, subgraph=subgraph, node_type=node_type
    )


def partition_by_address_space(nodes: NodeList, address_space: Any) -> tuple[NodeList, NodeList]:
    """The ops that access this address space, and the others."""
    return (
        _select(
            "partition_by_address_space", f"{nodes!r} in {address_space}", nodes, address_space
        ),
        NodeList(what=f"{nodes!r} elsewhere"),
    )


def partition_by_dim(nodes: NodeList, dim: Any, num_partitions: int) -> list[NodeList]:
    """The ops in equal parts along a dimension."""
    _record("partition_by_dim", nodes, dim=dim, num_partitions=num_partitions)
    return [NodeList(what=f"part {i} of {nodes!r}") for i in range(num_partitions)]


class PipelinedLoop:
    """A loop cut into stages: `with pipeline(loop) as p: p.set_stage([...])`."""

    def __init__(self, loop: Any):
        self.KERNEL = NodeList(what="the steady state of a pipelined loop")
        self.PROLOGUE = NodeList(what="the prologue of a pipelined loop")
        self.EPILOGUE = NodeList(what="the epilogue of a pipelined loop")
        self.loop = loop

    def set_stage(self, stage: Sequence[Any]) -> None:
        """Adds a stage: one tuple of ops per cycle."""
        _record("set_stage", self.loop, stage)

    def unroll(self, factor: int) -> None:
        """Unrolls the steady state."""
        _record("unroll", self.KERNEL, factor)

    def __enter__(self) -> "PipelinedLoop":
        return self

    def __exit__(self, *exc: Any) -> None:
        return None


def pipeline(
    loop: Any, eliminate_epilogue: bool = False, multi_buffer_count: int | None = None
) -> PipelinedLoop:
    """Software-pipelines a loop."""
    _record(
        "pipeline",
        loop,
        eliminate_epilogue=eliminate_epilogue,
        multi_buffer_count=multi_buffer_count,
    )
    return PipelinedLoop(loop)


def unroll(loop: Any, factor: int) -> None:
    """Unrolls a loop."""
    _record("unroll", loop, factor)


def cluster(nodes: Sequence[Any]) -> NodeList:
    """Ops and hints that are kept together, in this order."""
    _record("cluster", nodes)
    return NodeList(nodes, "a cluster")


def reorder_graph(loop: Any, clusters: Sequence[Any]) -> None:
    """Puts the clusters of a loop in this order."""
    _record("reorder_graph", loop, clusters)


def interleave_operations(
    base_ops: Sequence[Any],
    interleaved_ops: Sequence[Sequence[Any]],
    intervals: Sequence[int],
    start_offsets: Sequence[int] | None = None,
    start_after_groups: Sequence[Sequence[int]] | None = None,
) -> NodeList:
    """`base_ops` with an op of each group inserted at its interval."""
    _record(
        "interleave_operations",
        base_ops,
        interleaved_ops,
        intervals=intervals,
        start_offsets=start_offsets,
        start_after_groups=start_after_groups,
    )
    return NodeList(what=f"{base_ops!r}, interleaved")


def insert_before(target: Any, op: Any) -> None:
    """Puts an op before the target."""
    _record("insert_before", target, op)


def insert_after(target: Any, op: Any) -> None:
    """Puts an op after the target."""
    _record("insert_after", target, op)


def insert_at_start(region: Any, op: Any) -> None:
    """Puts an op first in a region."""
    _record("insert_at_start", region, op)


def insert_at_end(region: Any, op: Any) -> None:
    """Puts an op last in a region."""
    _record("insert_at_end", region, op)


def insert_cond_barrier_before(condition: Any, target: Any) -> None:
    """A barrier before the target for the threads where the condition holds."""
    _record("insert_cond_barrier_before", condition, target)


def insert_cond_barrier_after(condition: Any, target: Any) -> None:
    """A barrier after the target for the threads where the condition holds."""
    _record("insert_cond_barrier_after", condition, target)


def stagger(loop: Any) -> None:
    """Lets half of the waves run one cluster ahead."""
    _record("stagger", loop)


def get_hardware_constraint() -> Any:
    """The hardware constraint of the kernel being scheduled."""
    _record("get_hardware_constraint")
    return current_recording.get().hardware


__all__ = [
    "NodeList",
    "PipelinedLoop",
    "cluster",
    "filter_nodes",
    "get_hardware_constraint",
    "get_node_by_tag",
    "get_node_by_tag_and_iteration",
    "get_node_by_tag_and_type",
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
