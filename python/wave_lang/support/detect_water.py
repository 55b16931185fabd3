"""The Water middle end of the reference implementation; it has no counterpart here."""


def is_water_available() -> bool:
    """False: there is no such back end."""
    return False


def is_water_binary_available() -> bool:
    """False: there is no such back end."""
    return False
