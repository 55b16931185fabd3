"""The assembler back end of the reference implementation; it has no counterpart here."""


def is_waveasm_available() -> bool:
    """False: there is no such back end."""
    return False
