"""Numbers drawn by chance, the same on every machine: xoshiro256++, and times drawn from it.

An exponential time comes from a ziggurat: the area under exp(-x) is cut into 256 layers of the same
area, of which one is drawn, and a place in it; hardly ever has the curve itself to be looked at.
Neither then nor for the layers is the machine's own `exp` asked, whose last digit may differ from
another's.
"""

from decimal import Decimal, localcontext
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.pool.kernel.compiled import compiled

EXPONENTIAL: Final = 0
UNIFORM: Final = 1
CONSTANT: Final = 2

MASK: Final = 2**64 - 1
LAYERS: Final = 256
EDGE: Final = Decimal("7.69711747013104971404462804811408")
"""Where the lowest layer's rectangle ends, for that 256 layers come out even."""
UNIT: Final = 2.0**-53

_LAYER = np.uint64(LAYERS - 1)
_UP, _DOWN = np.uint64(23), np.uint64(41)
_SHIFT, _TURN, _BACK = np.uint64(17), np.uint64(45), np.uint64(19)
_REST = np.uint64(11)


def _layers() -> tuple[NDArray[Any], NDArray[Any]]:
    """How wide each layer is, and how high the curve is at its end."""
    with localcontext(prec=40):
        area = (EDGE + 1) * (-EDGE).exp()
        widths = [EDGE + 1, EDGE]
        for _ in range(2, LAYERS):
            widths.append(-((-widths[-1]).exp() + area / widths[-1]).ln())
        widths.append(Decimal(0))
        heights = [(-width).exp() for width in widths]
    return np.array([float(one) for one in widths]), np.array([float(one) for one in heights])


WIDTHS, HEIGHTS = _layers()
EDGE_WIDTH: Final = float(EDGE)


def seeded(seed: int) -> NDArray[Any]:
    """A generator's state, by splitmix64.

    >>> hex(int(seeded(0)[0]))
    '0xe220a8397b1dcdaf'
    """
    words = []
    for _ in range(4):
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        word = ((seed ^ seed >> 30) * 0xBF58476D1CE4E5B9) & MASK
        word = ((word ^ word >> 27) * 0x94D049BB133111EB) & MASK
        words.append(word ^ word >> 31)
    return np.array(words, dtype=np.uint64)


@compiled
def bits(state: NDArray[Any]) -> Any:
    """The next 64 bits."""
    first, second, third, fourth = state[0], state[1], state[2], state[3]
    word = first + fourth
    word = ((word << _UP) | (word >> _DOWN)) + first
    shifted = second << _SHIFT
    third ^= first
    fourth ^= second
    second ^= third
    first ^= fourth
    third ^= shifted
    fourth = (fourth << _TURN) | (fourth >> _BACK)
    state[0], state[1], state[2], state[3] = first, second, third, fourth
    return word


@compiled
def fraction(state: NDArray[Any]) -> float:
    """Evenly from 0 up to 1."""
    return float(np.int64(bits(state) >> _REST)) * UNIT


@compiled
def _below(height: float, x: float) -> bool:
    """Whether the height is below exp(-x), by its series and eight squares."""
    z = -x / 256
    value = 1 + z * (1 + z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5 * (1 + z / 6)))))
    for _ in range(8):
        value *= value
    return height < value


@compiled
def exponential(state: NDArray[Any]) -> float:
    """With mean 1."""
    begin = 0.0
    while True:
        word = bits(state)
        layer = np.int64(word & _LAYER)
        x: float = np.int64(word >> _REST) * UNIT * WIDTHS[layer]
        if x < WIDTHS[layer + 1]:
            return begin + x
        if layer == 0:
            begin += EDGE_WIDTH  # beyond the edge it goes on as at the beginning
            continue
        low, high = HEIGHTS[layer], HEIGHTS[layer + 1]
        if _below(low + fraction(state) * (high - low), x):
            return begin + x


@compiled
def spent(kind: int, mean: float, state: NDArray[Any]) -> float:
    """How long work takes that takes `mean` on average."""
    if kind == EXPONENTIAL:
        return mean * exponential(state)
    if kind == UNIFORM:
        return mean * (2.0 + 2.0 * fraction(state)) / 3.0
    return mean
