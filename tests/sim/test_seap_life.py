"""Lives of queues with any priorities, and the known bugs of their own machine."""

import pytest

from snowmelt.client.overlay import steps
from snowmelt.sim.families import family
from snowmelt.sim.life import Ending, live
from snowmelt.sim.planted import Bug
from snowmelt.sim.scenario import drawn, kinds_of

# Whoever changes what nodes say to each other changes lives too, so there are several of each.
FOUND_BY = {
    Bug.REUSED_RANK: (0, 1),
    Bug.ONE_SHORT: (23, 10),
    Bug.FORGOTTEN_KEYS: (17,),
    Bug.OPEN_PHASE: (28, 10),
    Bug.EARLIER_PHASE: (4, 7),
    Bug.UNCONFIRMED: (5045,),
}


def lived(seed, bug=None):
    return live(drawn("seap", seed, kinds_of("seap"), bug), family("seap"))


@pytest.mark.parametrize(
    ("bug", "seeds"), FOUND_BY.items(), ids=lambda one: getattr(one, "value", "")
)
def test_a_life_of_any_priorities_finds_it(bug, seeds, monkeypatch):
    monkeypatch.setattr(steps, "_WEIGHT_MAX", steps._WEIGHT)  # as when they were found
    assert any(lived(seed, bug).ending is not Ending.SETTLED for seed in seeds)


# 12: what a word says is done was to be renewed by it, too, and was said to be lost.
# 1274 also: what went back while its lease was renewed was said to be missed.
# 7: a look had a greater number than the gets that waited for it; 15: what came back was gone
# before all knew it.
# 1274, 1450: what a get passed was with another, whose first answer nobody heard.
# 325, 3935: a flipped bit took what a queue is from the only disk, and with it all that was in it
# 193: those who empty a queue gave up before what they asked for was selected, each time.
# 106, 128: what was fetched while the disk was busy was never copied, as the exam found.
# 5045: who slept while its clock stood still said that there is nothing, in a view that was over.
# 20191: what an older disk of the coordinator brought back was kept for good, by nobody any more.
# 50294: what a group had was kept for good, whose notes were lost with the only disk they were on.
SEEDS = (7, 12, 15, 106, 128, 193, 325, 1054, 1274, 1450, 3935, 5045, 20191, 50294)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_them_these_lives_go_well(seed):
    assert lived(seed).ending is Ending.SETTLED
