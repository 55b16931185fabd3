"""LocationCaptureConfig: the type of an option."""

from ..kernel.wave.option_types import LocationCaptureConfig, LocationCaptureLevel

__all__ = ["LocationCaptureConfig", "LocationCaptureLevel"]
