"""Priorities as whole numbers of 64 bits that keep their order."""

import struct
import sys
from array import array
from collections.abc import Iterable
from typing import Final

KEY_BYTES: Final = 8
KEY_MIN: Final = -(1 << 63)
KEY_MAX: Final = (1 << 63) - 1

_FLOAT: Final = struct.Struct(">d")


def of_float(number: float) -> int:
    """The key of a fraction: greater for a greater one. `ValueError` for what is no number.

    >>> row = [float("-inf"), -2.5, -1e-300, 0.0, 1e-300, 2.5, float("inf")]
    >>> keys = [of_float(one) for one in row]
    >>> keys == sorted(keys), [to_float(one) for one in keys] == row, of_float(-0.0)
    (True, True, 0)
    """
    if number != number:  # noqa: PLR0124 - only what is no number differs from itself
        raise ValueError("nan has no place in any order")
    bits = int.from_bytes(_FLOAT.pack(number + 0.0), signed=True)
    return bits if bits >= 0 else KEY_MIN - bits


def to_float(key: int) -> float:
    """The fraction that has it."""
    bits = key if key >= 0 else KEY_MIN - key
    (number,) = _FLOAT.unpack(bits.to_bytes(KEY_BYTES, signed=True))
    return float(number)


def packed(keys: Iterable[int]) -> bytes:
    """Several keys, as they travel.

    >>> unpacked(packed([3, -1]))
    (3, -1)
    """
    row = tuple(keys)
    return struct.pack(f">{len(row)}q", *row)


def unpacked(row: bytes) -> tuple[int, ...]:
    """The keys in a row."""
    return struct.unpack(f">{len(row) // KEY_BYTES}q", row)


def column(row: bytes) -> "array[int]":
    """The same, for whoever keeps many.

    >>> column(packed([3, -1]))
    array('q', [3, -1])
    """
    keys = array("q", row)
    if sys.byteorder == "little":
        keys.byteswap()
    return keys


def part(row: bytes, start: int, stop: int) -> bytes:
    """Those from one index to another."""
    return row[start * KEY_BYTES : stop * KEY_BYTES]


def key_at(row: bytes, at: int) -> int:
    """That of one element.

    >>> key_at(packed([3, -1]), 1)
    -1
    """
    return int.from_bytes(row[at * KEY_BYTES : (at + 1) * KEY_BYTES], signed=True)
