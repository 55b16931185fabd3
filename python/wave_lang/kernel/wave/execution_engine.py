"""The MLIR execution engine of the reference implementation; it has no counterpart here."""


def is_execution_engine_available() -> bool:
    """False: there is no such engine."""
    return False
