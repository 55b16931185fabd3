"""Building blocks shared by the language and the compiler interface."""

from pkgutil import extend_path as _extend_path

__path__ = _extend_path(__path__, __name__)  # including its part of public/
