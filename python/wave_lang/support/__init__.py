"""Support modules that kernels and tests import by name."""

from pkgutil import extend_path as _extend_path

__path__ = _extend_path(__path__, __name__)  # including its part of public/
