"""Known bugs of the priority queue's own machine, each found by a life."""

import pytest

from snowmelt.sim.families import family
from snowmelt.sim.life import Ending, live
from snowmelt.sim.planted import Bug
from snowmelt.sim.scenario import drawn, kinds_of

# Whoever changes what nodes say to each other changes lives too, so there are several of each.
FOUND_BY = {
    Bug.REUSED_POSITION: (2, 3, 1),
    Bug.LAST_FIRST: (0, 2, 4),
    Bug.IGNORED_TOKEN: (16, 34),
    Bug.SILENT_RETURN: (2, 5),
    Bug.HASTY_DOOR: (1, 2),
    Bug.LONE_COPY: (40, 87, 74),
    Bug.IDLE_REPAIR: (13, 17, 47),
    Bug.SCANT_REPAIR: (7, 11),
    Bug.UNTOLD_SHORTAGE: (6, 7),
    Bug.EAGER_ELEMENT: (2, 0),
    Bug.SHORT_LEASE: (3,),
    Bug.DEAF_SETTLING: (11, 18),
    Bug.REVIVED_ELEMENT: (7, 2, 4),
    Bug.FORGOTTEN_OPERATION: (1, 2),
    Bug.OLD_FLUSH: (18, 26),
}


def lived(seed, bug=None):
    return live(drawn("priority", seed, kinds_of("priority"), bug), family("priority"))


@pytest.mark.parametrize(
    ("bug", "seeds"), FOUND_BY.items(), ids=lambda one: getattr(one, "value", "")
)
def test_a_life_of_the_priority_queue_finds_it(bug, seeds):
    assert any(lived(seed, bug).ending is not Ending.SETTLED for seed in seeds)


def test_the_exam_finds_on_the_disks_that_a_copy_was_never_made():
    report = lived(23, Bug.SCANT_REPAIR)
    assert "nothing is short of copies, it says, and n4 lacks" in report.sentence


# 12: what a word says is done was to be renewed by it, too, and was said to be lost.
# 13: an acknowledgement was told to be known by a get that found no queue.
# 15: one was said to be missed that was told while its lease was renewed.
# 24: what went back meanwhile was said so, too.
# 67: the judge took a renewal of the rest of a lease for one of what had been refused of it.
# 1006: the exam waited for ever for copies of what no disk has to read any more.
@pytest.mark.parametrize("seed", [1, 7, 12, 13, 15, 24, 67, 87, 1006])
def test_without_them_these_lives_go_well(seed):
    assert lived(seed).ending is Ending.SETTLED
