"""Lives with those who stage and publish, and those who keep what they lease: see the theme."""

import pytest

from snowmelt.sim.families import family
from snowmelt.sim.faults import KINDS
from snowmelt.sim.life import Ending, live
from snowmelt.sim.planted import Bug
from snowmelt.sim.scenario import drawn

SEEDS = (4, 14, 24, 94)
FOUND = {
    Bug.LAPSED_KEEPING: 34,  # "was kept, and is not shown"
    Bug.PUBLISHED_TWICE: 34,  # "was leased again while it was held"
    Bug.UNSTAGED: 24,  # "is shown, and nobody published it"
}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_published_comes_once_and_what_is_kept_is_held(seed: int) -> None:
    scenario = drawn("priority", seed, KINDS, theme=None)
    assert scenario.theme == "batches"
    report = live(scenario, family("priority"))
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")


@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.value)
def test_the_world_finds_what_publishes_or_keeps_wrongly(bug: Bug) -> None:
    report = live(drawn("priority", FOUND[bug], KINDS, bug, None), family("priority"))
    assert report.ending is Ending.INVARIANT_BROKEN
