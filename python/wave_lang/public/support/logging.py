"""get_logger: a logger whose level WAVE_LOG_LEVEL sets."""

import logging
import os


def get_logger(name: str) -> logging.Logger:
    """The logger of a module; WAVE_LOG_LEVEL sets its level."""
    logger = logging.getLogger(name)
    level = os.environ.get("WAVE_LOG_LEVEL")
    if level:
        logger.setLevel(level.upper())
    return logger
