"""Ops of the language (wave_ops) and of schedules (wave_schedule_ops)."""

from pkgutil import extend_path as _extend_path

__path__ = _extend_path(__path__, __name__)  # including its part of public/
