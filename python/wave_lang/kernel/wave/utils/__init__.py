"""Helpers that kernels and tests import by name."""
