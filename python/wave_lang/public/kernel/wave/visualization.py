"""visualize_graph: writes the IR of a kernel, where the public package draws its graph."""

from typing import Any


def visualize_graph(graph: Any, file_name: str) -> None:
    """Writes the IR of a kernel to a file."""
    with open(file_name, "w") as out:
        out.write(str(graph))
