"""Known bugs of the priority queue's own machine, each found by a life."""

import pytest

from snowmelt.sim.families import family
from snowmelt.sim.life import Ending, live
from snowmelt.sim.planted import PRIORITY_BUGS, Bug
from snowmelt.sim.scenario import drawn, kinds_of

# Mostly the first that does; of some a later one, which is quick.
FOUND_BY = {
    Bug.REUSED_POSITION: 1,
    Bug.LAST_FIRST: 4,
    Bug.IGNORED_TOKEN: 44,
    Bug.SILENT_RETURN: 0,
    Bug.HASTY_DOOR: 1,
    Bug.LONE_COPY: 19,
    Bug.IDLE_REPAIR: 47,
    Bug.EAGER_ELEMENT: 2,
    Bug.SHORT_LEASE: 0,
    Bug.DEAF_SETTLING: 5,
    Bug.REVIVED_ELEMENT: 4,
    Bug.FORGOTTEN_OPERATION: 4,
    Bug.OLD_FLUSH: 9,
}


@pytest.mark.parametrize(
    ("bug", "seed"), FOUND_BY.items(), ids=lambda one: getattr(one, "value", "")
)
def test_a_life_of_the_priority_queue_finds_it(bug, seed):
    report = live(drawn("priority", seed, kinds_of("priority"), bug), family("priority"))
    assert report.ending is not Ending.SETTLED


def test_all_of_them_are_known_to_be_found():
    assert set(FOUND_BY) == set(PRIORITY_BUGS)
