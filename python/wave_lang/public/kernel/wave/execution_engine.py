"""Tests skip what needs the MLIR execution engine: there is none here."""


def is_execution_engine_available() -> bool:
    """False: there is no such engine."""
    return False
