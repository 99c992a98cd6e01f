"""Where a rising function crosses zero."""

from collections.abc import Callable
from typing import Final

STEPS_MAX: Final = 200
EXACT: Final = 1e-14


def root(rising: Callable[[float], float], start: float) -> float:
    """The crossing, sought from `start`: by strides that double, then between the ends they left.

    Between them by chords; an end that stays twice counts half (the Illinois rule), and what is
    slow for all that is halved.

    >>> round(root(lambda x: x**3 - 8, 0.0), 12)
    2.0
    """
    low, high, value_low, value_high = _ends(rising, start)
    kept = 0
    for step in range(STEPS_MAX):
        if high - low <= EXACT * max(1.0, abs(low), abs(high)):
            break
        at = low - value_low * (high - low) / (value_high - value_low)
        if step % 4 == 3 or not low < at < high:
            at = (low + high) / 2
        value = rising(at)
        if value == 0:
            return at
        if value < 0:
            low, value_low = at, value
            value_high = value_high / 2 if kept < 0 else value_high
            kept = -1
        else:
            high, value_high = at, value
            value_low = value_low / 2 if kept > 0 else value_low
            kept = 1
    return high


def _ends(rising: Callable[[float], float], start: float) -> tuple[float, float, float, float]:
    """Two places, and the values there: the first below zero, the second not."""
    stride = 0.5
    at, value = start, rising(start)
    down = value >= 0
    for _ in range(STEPS_MAX):
        beyond = at - stride if down else at + stride
        there = rising(beyond)
        if (there >= 0) != down:
            return (beyond, at, there, value) if down else (at, beyond, value, there)
        at, value, stride = beyond, there, 2 * stride
    raise AssertionError(f"no crossing from {start} on")
