"""Lives in which nodes join late and leave in order, for good or not, and clients die in them."""

import pytest
from test_queue_life import lived

from snowmelt_world.families import family, fifo_moves
from snowmelt_world.life import Ending
from snowmelt_world.scenario import kinds_of
from wide import wide


def test_nodes_join_and_leave_in_lives_of_queues():
    assert family("queue").engine.moves


# 16, 31, 33: what lay on one node alone left with it.
@pytest.mark.parametrize("seed", [*wide(0, 1, 2, 3, 4, 16), 31, 33])
def test_such_a_life_goes_well(seed):
    for kinds in ((), kinds_of("queue")):
        report = lived(seed, kinds)
        assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [1, 2, *wide(0, 3, 5, 8)])
def test_a_life_in_which_nodes_are_drained_goes_well(seed, monkeypatch):
    """Who says that it is empty is scrapped at once, half the time; that excuses nothing."""
    monkeypatch.setattr(fifo_moves, "DRAINS_SHARE", 1.0)
    scrapped = []
    drained = fifo_moves.Moves.drained

    def seen(self, at, node, told):
        drained(self, at, node, told)
        scrapped.extend([node] if told.empty else [])

    monkeypatch.setattr(fifo_moves.Moves, "drained", seen)
    report = lived(seed, kinds_of("queue"))
    assert report.ending is Ending.SETTLED, report.sentence
    assert scrapped, "no node was empty: the seed shows nothing"
