"""LocationCaptureConfig: the type of an option."""

from wave_lang.kernel.wave.option_types import LocationCaptureConfig, LocationCaptureLevel

__all__ = ["LocationCaptureConfig", "LocationCaptureLevel"]
