"""Ops of the language (wave_ops) and of schedules (wave_schedule_ops)."""
