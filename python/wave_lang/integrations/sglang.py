"""The entry point `sglang.srt.plugins`: `--attention-backend wave` is the backend of this package.

Until the backend is chosen, only SGLang's registry is imported, and nothing is compiled.
"""

from typing import Any

BACKEND = "wave"


def register() -> None:
    """Registers the backend. It may be called more than once."""
    from sglang.srt.layers.attention.attention_registry import register_attention_backend

    register_attention_backend(BACKEND)(_create)


def _create(runner: Any) -> Any:
    from .sglang_backend import WaveBackend

    return WaveBackend(runner)
