"""Lives in which nodes join late and leave in order, for good or not, and clients die in them."""

import pytest
from test_queue_life import lived

from snowmelt_world.families import family
from snowmelt_world.life import Ending
from snowmelt_world.scenario import kinds_of


def test_nodes_join_and_leave_in_lives_of_queues():
    assert family("queue").engine.moves


# 16, 31, 33: what lay on one node alone left with it.
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 16, 31, 33])
def test_such_a_life_goes_well(seed):
    for kinds in ((), kinds_of("queue")):
        report = lived(seed, kinds)
        assert report.ending is Ending.SETTLED, report.sentence
