"""Where a map of many numbers stays where it is: Anderson's mixing of what was tried so far."""

from collections.abc import Callable
from typing import Final

import numpy as np

from snowmelt_lab.pool.models.chain import Array

TRIED_MAX: Final = 8
"""So many of the last steps are mixed."""
STEPS_MAX: Final = 1_000
STRIDE_MAX: Final = 1.0
PART_MOST: Final = 0.5
PART_LEAST: Final = 0.02
PATIENCE: Final = 30
EXACT: Final = 1e-13


def fixed_point(map_: Callable[[Array], Array], start: Array) -> Array:
    """The point, or the nearest to one that was found.

    Each step goes to the mixture of the last points whose moves cancel best, and a part of the way
    on. Where that leads away it is forgotten, and begun again from the best point with a smaller
    part, which in the end is plain damping.

    >>> round(float(fixed_point(np.cos, np.array([0.0]))[0]), 9)
    0.739085133
    """
    part, at, move, since = PART_MOST, start, map_(start) - start, 0
    best, best_move = at, move
    points: list[Array] = []
    moves: list[Array] = []
    for _ in range(STEPS_MAX):
        if _size(best_move) <= EXACT:
            break
        points, moves = [*points, at][-TRIED_MAX:], [*moves, move][-TRIED_MAX:]
        stride = _mixed(points, moves, part)
        at = at + stride * min(1.0, STRIDE_MAX / max(_size(stride), EXACT))
        move = map_(at) - at
        if _size(move) < _size(best_move):
            best, best_move, since = at, move, 0
            continue
        since += 1
        if since > PATIENCE or not _size(move) < 10 * _size(best_move):
            part = part / 2 if part > PART_LEAST else PART_MOST
            at, move, points, moves, since = best, best_move, [], [], 0
    return best


def _mixed(points: list[Array], moves: list[Array], part: float) -> Array:
    if len(points) < 2:
        return part * moves[-1]
    by_points = np.diff(np.array(points), axis=0).T
    by_moves = np.diff(np.array(moves), axis=0).T
    mixture = np.linalg.lstsq(by_moves, moves[-1], rcond=1e-12)[0]
    return part * moves[-1] - (by_points + part * by_moves) @ mixture


def _size(move: Array) -> float:
    return float(np.max(np.abs(move)))
