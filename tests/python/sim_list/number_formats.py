"""Element types as NumPy arrays: their storage, their exact values and their rounding.

Written from the definitions of the formats, not from the compiler's tables, so that a reference
does not repeat the compiler's mistakes. Types NumPy lacks are held as integers of the same width.
"""

import numpy as np

import wave_lang.kernel.lang as tkl

STORAGE = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": np.uint16,
    "f8e4m3fn": np.uint8,
    "f8e4m3fnuz": np.uint8,
    "f8e5m2": np.uint8,
    "f8e5m2fnuz": np.uint8,
    "i32": np.int32,
    "i8": np.int8,
    "u32": np.uint32,
    "u8": np.uint8,
}
FP8 = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz")

# How far a result may be from the exact one, relative to the sum of the magnitudes of its terms:
# half a unit in the last place of the stored type, and some intermediate roundings of f32. Integers
# are exact.
TOLERANCE = {"f64": 1e-13, "f32": 4e-6, "f16": 2**-10, "bf16": 2**-7}


def wave_type(name):
    return getattr(tkl, name)


def _fp8_values(name):
    """The value of each of the 256 codes."""
    mantissa = 3 if "e4m3" in name else 2
    bias = (7 if mantissa == 3 else 15) + name.endswith("fnuz")
    code = np.arange(256)
    exponent, fraction = (code & 127) >> mantissa, code & ((1 << mantissa) - 1)
    normal = (1 + fraction / 2.0**mantissa) * 2.0 ** (exponent - bias)
    small = fraction / 2.0**mantissa * 2.0 ** (1 - bias)
    value = np.where(exponent > 0, normal, small) * np.where(code & 128, -1, 1)
    if name.endswith("fnuz"):
        value[128] = np.nan
    elif name == "f8e4m3fn":
        value[[127, 255]] = np.nan
    else:
        value[124:128], value[252:256] = np.nan, np.nan
        value[[124, 252]] = np.inf, -np.inf
    return value


FP8_VALUES = {name: _fp8_values(name) for name in FP8}


def decode(name, stored):
    """The exact values, in float64."""
    if name == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if name in FP8:
        return FP8_VALUES[name][stored]
    return stored.astype(np.float64)


def _bf16(values):
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _fp8(name, values):
    """The nearest finite code; halves to the even one. For values inside the format's range."""
    table = FP8_VALUES[name]
    codes = np.flatnonzero(np.isfinite(table))
    if not name.endswith("fnuz"):
        codes = codes[codes != 128]  # one zero
    distance = np.abs(values[..., None] - table[codes])
    near = distance == distance.min(-1, keepdims=True)
    even = near & (codes % 2 == 0)
    return codes[np.argmax(np.where(even.any(-1, keepdims=True), even, near), -1)].astype(np.uint8)


def encode(name, values):
    """Rounded to nearest, halves to even; integers truncate."""
    values = np.asarray(values, np.float64)
    if name == "bf16":
        return _bf16(values)
    if name in FP8:
        return _fp8(name, values)
    return values.astype(STORAGE[name])


def sample(name, shape, rng):
    """Stored values that distinguish elements: about ±2, or all bytes."""
    if name == "i8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    if name in ("u32", "u8"):
        return rng.integers(0, np.iinfo(STORAGE[name]).max, shape, STORAGE[name], True)
    if name == "i32":
        return rng.integers(-1000, 1000, shape).astype(np.int32)
    if name in FP8:
        table = FP8_VALUES[name]
        codes = np.flatnonzero((np.abs(table) >= 0.25) & (np.abs(table) <= 3))
        return codes[rng.integers(0, len(codes), shape)].astype(np.uint8)
    return encode(name, rng.standard_normal(shape))


def unwritten(name, shape):
    """The initial contents of an output: elements that still have them after the run were not
    written."""
    if name in ("f64", "f32", "f16"):
        return np.full(shape, np.nan, STORAGE[name])
    return np.full(shape, 0x55 if name not in ("i32", "u32") else 0x55555555, STORAGE[name])
