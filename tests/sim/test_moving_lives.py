"""Lives in which nodes join late and leave in order, some for good, and clients die while they put.

A family whose `Engine.moves` lives so, as the one engine does. The old fifo does not have to: what
a queue's only copy lay on leaves with it, and nobody refuses.
"""

import pytest

from snowmelt.sim.families.fifo import FifoLife
from snowmelt.sim.families.fifo_engine import Engine
from snowmelt.sim.life import Ending, live
from snowmelt.sim.scenario import drawn, kinds_of


class Moving(Engine):
    moves = True


class MovingLife(FifoLife):
    engine = Moving()


class Red(Exception):
    """A life ends badly."""


def lived(seed, kinds=()):
    report = live(drawn("fifo", seed, kinds), MovingLife)
    if report.ending is not Ending.SETTLED:
        raise Red(report.sentence)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4])
def test_such_a_life_goes_well(seed):
    lived(seed)
    lived(seed, kinds_of("fifo"))


@pytest.mark.xfail(strict=True, raises=Red, reason="the only copies leave, and nobody refuses")
@pytest.mark.parametrize("seed", [16, 31, 33])
def test_the_old_fifo_loses_what_leaves_in_order(seed):
    lived(seed)
