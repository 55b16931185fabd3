"""set_default_compile_config: tests of IR set the target gfx942 with it."""

from wave_lang.kernel.wave.compile_options import WaveCompileOptions


def set_default_compile_config(options: WaveCompileOptions) -> WaveCompileOptions:
    """Sets the target to gfx942; returns the options."""
    options.device = "hip"
    options.target = "gfx942"
    return options
