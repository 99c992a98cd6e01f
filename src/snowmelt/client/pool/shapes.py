"""How large an array is, and how memory is seen as one."""

import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import Any, Final

from snowmelt.core.errors import BadOption
from snowmelt.protocols.pool.settings import OBJECT_BYTES_MAX

Shape = int | Sequence[int]
_LETTERS: Final = "?bBhHiIlLqQfd"
_SIDES: Final = f"sides of 1 and more, {OBJECT_BYTES_MAX} bytes in all"


def letter_of(dtype: Any) -> str:
    """What Python's `struct` calls a kind of number.

    >>> letter_of("d")
    'd'
    >>> letter_of("object")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: dtype is 'object'; allowed: one of ?bBhHiIlLqQfd, or numpy's ...
    """
    letter = dtype if isinstance(dtype, str) and len(dtype) == 1 else _numpy_letter(dtype)
    if not letter or letter not in _LETTERS:
        raise BadOption("dtype", dtype, f"one of {_LETTERS}, or numpy's dtype of one")
    return letter


def _numpy_letter(dtype: Any) -> str:
    """As numpy has it, if the program uses that; nothing for what is none of its own."""
    numpy = None if dtype is None else sys.modules.get("numpy")
    with suppress(TypeError, ValueError, AttributeError):
        kind = numpy.dtype(dtype)  # type: ignore[union-attr]
        return str(kind.char) if kind.isnative else ""
    return ""


def bytes_of(shape: Shape, dtype: Any) -> int:
    """How many bytes an array has.

    >>> bytes_of((480, 640), "H")
    614400
    >>> bytes_of(-1, "B")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: shape is -1; allowed: sides of 1 and more, 268435456 bytes ...
    """
    item = struct.calcsize(letter_of(dtype))
    sides = shape if isinstance(shape, list | tuple) else (shape,)
    whole = bool(sides) and all(type(side) is int and side > 0 for side in sides)
    size = item * prod(sides) if whole else 0
    if not 0 < size <= OBJECT_BYTES_MAX:
        raise BadOption("shape", shape, _SIDES)
    return size


def shaped(room: memoryview, shape: Shape, dtype: Any) -> memoryview:
    """Memory as an array.

    >>> shaped(memoryview(bytearray(12)), (2, 3), "h").shape
    (2, 3)
    """
    sides = [shape] if isinstance(shape, int) else list(shape)
    view: memoryview = room.cast(letter_of(dtype), sides)  # type: ignore[call-overload]  # one of these
    return view
