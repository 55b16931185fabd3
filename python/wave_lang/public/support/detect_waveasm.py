"""Tests skip what needs the WaveASM back end: there is none here."""


def is_waveasm_available() -> bool:
    """False: there is no such back end."""
    return False
