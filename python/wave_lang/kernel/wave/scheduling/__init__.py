"""Instruction scheduling options."""
