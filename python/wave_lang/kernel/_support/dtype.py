"""Element types. Each is one object: compare with `is` or `==`."""

from ..._wave import DataType, dtypes as _all

f64: DataType = _all["f64"]
f32: DataType = _all["f32"]
f16: DataType = _all["f16"]
bf16: DataType = _all["bf16"]
f8e4m3fn: DataType = _all["f8e4m3fn"]
f8e4m3fnuz: DataType = _all["f8e4m3fnuz"]
f8e5m2: DataType = _all["f8e5m2"]
f8e5m2fnuz: DataType = _all["f8e5m2fnuz"]
f8e8m0fnu: DataType = _all["f8e8m0fnu"]
f6e2m3fn: DataType = _all["f6e2m3fn"]
f4e2m1fn: DataType = _all["f4e2m1fn"]
i64: DataType = _all["i64"]
i32: DataType = _all["i32"]
i16: DataType = _all["i16"]
i8: DataType = _all["i8"]
i4: DataType = _all["i4"]
u64: DataType = _all["u64"]
u32: DataType = _all["u32"]
u16: DataType = _all["u16"]
u8: DataType = _all["u8"]
i1: DataType = _all["i1"]
bool: DataType = i1
index: DataType = _all["index"]

__all__ = [
    "DataType",
    "bf16",
    "bool",
    "f16",
    "f32",
    "f4e2m1fn",
    "f64",
    "f6e2m3fn",
    "f8e4m3fn",
    "f8e4m3fnuz",
    "f8e5m2",
    "f8e5m2fnuz",
    "f8e8m0fnu",
    "i1",
    "i16",
    "i32",
    "i4",
    "i64",
    "i8",
    "index",
    "u16",
    "u32",
    "u64",
    "u8",
]
