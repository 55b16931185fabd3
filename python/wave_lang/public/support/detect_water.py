"""Tests skip what needs the Water middle end: there is none here."""


def is_water_available() -> bool:
    """False: there is no such back end."""
    return False


def is_water_binary_available() -> bool:
    """False: there is no such back end."""
    return False
