# SPDX-License-Identifier: Apache-2.0
"""Every scalar bit for bit, against struct and NumPy; and what is refused."""
import ctypes
import enum
import math
import struct

import ml_dtypes
import numpy as np
import pytest
import slipstream as slip
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import SCALARS

ZERO = {d: False if d == "bool" else 0.0 if d[0] in "fb" else 0 for d in SCALARS}
INTS = {d: (int(d[1:]), d[0] == "i") for d in SCALARS if d[0] in "iu"}
FLOATS = ("f16", "bf16", "f32", "f64")


@pytest.fixture(scope="module")
def bits(artifacts):
    """bits(dtype, value): the 64 bits that the callable receives."""
    out = np.zeros(13, np.uint64)
    with slip.kernel.open() as context:
        f = context.prepare(artifacts("scalars"))

        def get(dtype, value):
            out[:] = 0xdead
            f(out, *[value if d == dtype else ZERO[d] for d in SCALARS])
            assert all(out[i] == 0 for i, d in enumerate(SCALARS) if d != dtype)
            return int(out[SCALARS.index(dtype)])
        get.callable = f
        yield get


def expected_int(dtype, value):
    width, _ = INTS[dtype]
    return value & ((1 << width) - 1)


def limits(dtype):
    width, signed = INTS[dtype]
    return (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)


@pytest.mark.parametrize("dtype", INTS)
def test_int_limits(bits, dtype):
    low, high = limits(dtype)
    for value in (low, high, 0, 1, high // 2):
        assert bits(dtype, value) == expected_int(dtype, value)
    for value in (low - 1, high + 1, -(1 << 63) - 1, 1 << 64, 1 << 200, -(1 << 200)):
        with pytest.raises(slip.InvalidArgumentError, match="%s_" % dtype):
            bits(dtype, value)


@settings(max_examples=200)
@given(st.sampled_from(sorted(INTS)), st.integers(-(1 << 66), 1 << 66))
def test_int_property(bits, dtype, value):
    low, high = limits(dtype)
    if low <= value <= high:
        assert bits(dtype, value) == expected_int(dtype, value)
    else:
        with pytest.raises(slip.InvalidArgumentError):
            bits(dtype, value)


def expected_float(dtype, value):
    if dtype == "f64":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    with np.errstate(over="ignore"):
        array = np.array(value, {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype])
    return int(array.view({4: np.uint32, 2: np.uint16}[array.itemsize]))


@settings(max_examples=300)
@given(st.sampled_from(("f32", "f64", "f16")), st.floats(allow_nan=False))
def test_float_property(bits, dtype, value):
    want = expected_float(dtype, value)
    infinite = {"f32": 0x7f800000, "f64": 0x7ff << 52, "f16": 0x7c00}[dtype]
    mask = {"f32": 0x7fffffff, "f64": (1 << 63) - 1, "f16": 0x7fff}[dtype]
    if math.isfinite(value) and want & mask == infinite:
        with pytest.raises(slip.InvalidArgumentError, match="overflows"):
            bits(dtype, value)
    else:
        assert bits(dtype, value) == want


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_special(bits, dtype):
    for value in (math.inf, -math.inf, 0.0, -0.0, 1.0, -2.5):
        assert bits(dtype, value) == expected_float(dtype, value)
    assert bits(dtype, math.nan) & expected_float(dtype, math.inf) == expected_float(dtype, math.inf)
    assert bits(dtype, 3) == expected_float(dtype, 3.0)  # an int for a float is exact or rounded
    with pytest.raises(slip.InvalidArgumentError):
        bits(dtype, 10 ** 400)


def test_bool(bits):
    assert bits("bool", True) == 1 and bits("bool", False) == 0
    assert bits("bool", np.bool_(True)) == 1
    for value in (0, 1, 2, 1.0, np.int8(1), "True", None):
        with pytest.raises(slip.ArgumentTypeError, match="bool_"):
            bits("bool", value)


@pytest.mark.parametrize("dtype", [d for d in SCALARS if d != "bool"])
def test_bool_is_no_number(bits, dtype):
    for value in (True, False, np.bool_(True)):
        with pytest.raises(slip.ArgumentTypeError, match="int\\(value\\)"):
            bits(dtype, value)


@pytest.mark.parametrize("dtype", INTS)
def test_float_is_no_int(bits, dtype):
    for value in (3.0, 0.5, math.nan, np.float32(3), np.float64(3), ml_dtypes.bfloat16(3)):
        with pytest.raises(slip.ArgumentTypeError, match="int\\(value\\)"):
            bits(dtype, value)


@pytest.mark.parametrize("dtype", INTS)
def test_numpy_ints(bits, dtype):
    for kind in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
        assert bits(dtype, kind(100)) == 100
    with pytest.raises(slip.InvalidArgumentError):
        bits("u64", np.int64(-1))
    assert bits("u64", np.uint64(2 ** 64 - 1)) == 2 ** 64 - 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_numpy_floats(bits, dtype):
    for kind in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int32):
        assert bits(dtype, kind(1.5 if kind is not np.int32 else 2)) == expected_float(dtype, 1.5 if kind is not np.int32 else 2.0)


BOXES = {"bool": ctypes.c_bool, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "u8": ctypes.c_uint8,
         "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "f32": ctypes.c_float, "f64": ctypes.c_double}


@pytest.mark.parametrize("dtype", SCALARS)
def test_boxes_match_exactly(bits, dtype):
    for kind, box in BOXES.items():
        if kind == dtype:
            assert bits(dtype, box(1)) == (expected_float(dtype, 1.0) if dtype in FLOATS else 1)
        else:
            with pytest.raises(slip.ArgumentTypeError, match="ctypes"):
                bits(dtype, box(1))


def test_box_is_copied(context, artifacts):
    """Changing the box after an asynchronous call changes nothing."""
    f = context.prepare(artifacts("axpy"))
    x, y, box = np.ones(4, np.float32), np.zeros(4, np.float32), ctypes.c_float(2)
    with slip.Stream() as stream:
        tickets = [f.launch(stream, x, y, box) for _ in range(3)]
        box.value = 100
        for ticket in tickets:
            ticket.wait()
    assert list(y) == [6, 6, 6, 6]


def test_index_objects(bits):
    class Five:
        def __index__(self):
            return 5

    class Enum(enum.IntEnum):
        SEVEN = 7
    assert bits("i32", Five()) == 5 and bits("u8", Enum.SEVEN) == 7
    with pytest.raises(ZeroDivisionError):
        bits("i32", type("Bad", (), {"__index__": lambda self: 1 // 0})())


@pytest.mark.parametrize("value", ["1", b"1", None, [1], (1,), {}, 1j, object(), np.zeros(()), np.zeros(1, np.float32), range(3)], ids=repr)
@pytest.mark.parametrize("dtype", ["i32", "f32", "bool"])
def test_refused_types(bits, dtype, value):
    with pytest.raises(slip.ArgumentTypeError, match="%s_" % dtype):
        bits(dtype, value)
