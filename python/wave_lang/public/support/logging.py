"""get_logger: a logger whose level WAVE_LOG_LEVEL sets."""

import logging

from wave_lang import _wave


def get_logger(name: str) -> logging.Logger:
    """The logger of a module; WAVE_LOG_LEVEL sets its level."""
    logger = logging.getLogger(name)
    level = _wave.variable_text("WAVE_LOG_LEVEL")
    if level:
        logger.setLevel(level.upper())
    return logger
