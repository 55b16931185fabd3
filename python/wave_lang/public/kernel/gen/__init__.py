"""TestLaunchContext: older tests call kernels in a `with` block, which compiles and runs them."""

from __future__ import annotations

from typing import Any, Mapping

from wave_lang.kernel.wave.compile import WaveCompileOptions, wave_compile
from wave_lang.kernel.wave.wave import current_launch


class TestLaunchContext:
    """Within the block, calling a kernel compiles it with these options and runs it."""

    __test__ = False  # not a test: the name misleads pytest

    def __init__(
        self,
        subs: Mapping[Any, Any],
        *,
        run_config: Mapping[str, Any] | None = None,
        schedule: Any = False,
        dynamic_symbols: Any = (),
        **options: Any,
    ):
        for old in ("run", "dynamic_symbols_map"):  # not compile options
            options.pop(old, None)
        config = {k: v for k, v in (run_config or {}).items() if k in ("device", "target")}
        self.options = WaveCompileOptions(
            subs=dict(subs),
            schedule=schedule,
            dynamic_symbols=list(dynamic_symbols),
            **config,
            **options,
        )

    def run(self, kernel: Any, args: tuple) -> None:
        wave_compile(self.options, kernel)(*args)

    def __enter__(self) -> "TestLaunchContext":
        self._token = current_launch.set(self.run)
        return self

    def __exit__(self, *exc: Any) -> None:
        current_launch.reset(self._token)


__all__ = ["TestLaunchContext"]
