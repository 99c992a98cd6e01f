"""How many bytes messages take, of arrays of them: as the machines would send them."""

from typing import Any, Final

import msgspec
import numpy as np

from snowmelt_lab.machines.overlay import messages
from snowmelt_lab.machines.overlay.labels import CIRCLE, Place
from snowmelt_lab.machines.overlay.routing import Route, point
from snowmelt_lab.overlay.arrays import Indices, name

_encode: Final = msgspec.msgpack.Encoder().encode
_LARGE: Final = CIRCLE - 1
"""As a point: all but one of four thousand million take as many bytes."""
_PLACE: Final = Place(name(0), 0)
"""All names are of one length."""
_LIMITS: Final = ((128, 1), (1 << 8, 2), (1 << 16, 3), (1 << 32, 5))
_BELOW: Final = ((32, 1), (1 << 7, 2), (1 << 15, 3), (1 << 31, 5))


def of_numbers(numbers: Indices) -> Indices:
    """Bytes of whole numbers.

    >>> of_numbers(np.array([0, 127, 128, 65535, 1 << 40, -32, -33])).tolist()
    [1, 1, 2, 3, 9, 1, 2]
    """
    sizes = np.full(len(numbers), 9)
    for limit, size in reversed(_LIMITS):
        sizes[(numbers >= 0) & (numbers < limit)] = size
    for limit, size in reversed(_BELOW):
        sizes[(numbers < 0) & (numbers >= -limit)] = size
    return sizes


def word(body: messages.Body) -> int:
    """Bytes of one between two nodes."""
    return len(_encode(messages.Word(0, _PLACE, _PLACE, body)))


def visit(body: Any, *, edge: bool) -> int:
    """Bytes of one on its way to a point; along an edge with the point that it comes from."""
    route = Route(point(_LARGE), 0, _LARGE)
    return word(messages.Routed(route, messages.Visit(_LARGE, body, _LARGE if edge else None)))


def letter(body: Any) -> int:
    """Bytes of one to a node."""
    return len(_encode(messages.Told(body)))


def up(number: int, batch: Any) -> int:
    """Bytes of a batch of a wave."""
    return word(messages.Climb(number, messages.Wave(batch)))


def down(number: int, step: Any) -> int:
    """Bytes of the answer to it."""
    return word(messages.Granted(number, step))
