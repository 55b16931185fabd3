"""Viewers for debug logs."""
