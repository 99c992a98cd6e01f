"""What does the work of an experiment on the overlay: the machines themselves, or arrays."""

from enum import Enum
from typing import Final

from snowmelt.core.errors import BadOption

MACHINES_MAX: Final = 2_000
"""So many nodes can be machines."""


class Engine(Enum):
    MACHINES = "machines"
    ARRAYS = "arrays"


def engine_for(asked: Engine | None, nodes: int, *, at_ease: bool) -> Engine:
    """The one that is asked for, if it can do it; else the machines, where they are at ease.

    >>> engine_for(None, 9, at_ease=True), engine_for(None, 9_999, at_ease=False)
    (<Engine.MACHINES: 'machines'>, <Engine.ARRAYS: 'arrays'>)
    >>> engine_for(Engine.MACHINES, 9_999, at_ease=False)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --engine is 'machines'; allowed: arrays with more than 2000 n...
    """
    if asked is None:
        return Engine.MACHINES if at_ease and nodes <= MACHINES_MAX else Engine.ARRAYS
    if asked is Engine.MACHINES and nodes > MACHINES_MAX:
        raise BadOption("--engine", asked.value, f"arrays with more than {MACHINES_MAX} nodes")
    return asked
