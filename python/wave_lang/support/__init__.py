"""Support modules that kernels and tests import by name."""
