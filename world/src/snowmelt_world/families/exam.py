"""The last exam of a life: when nothing lacks a copy, nodes are lost with their disks, once more.

A disk that is lost while there is load is excused until all is whole again, and so is whatever was
lost with it because a copy was never made, or was said to be made. So when the load is over and
all is said to be whole, disks are lost that nothing is excused by. Who loses one is replaced, as
in the lives' other losses; or, the last time, is gone for good.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt_world.families.membership import SETTINGS
from snowmelt_world.scenario import DISK, Scenario
from snowmelt_world.world import World

SHARE: Final = 0.8
"""In how many of the lives that may have one there is an exam."""
TWICE: Final = 0.6
FOR_GOOD: Final = 0.5
NAMED: Final = 0.7
"""How often one of those is lost who were named."""
EACH: Final = Duration(3 * (SETTINGS.patience + SETTINGS.lease) + seconds(30))
"""How long it takes at most until nodes are missed, and back, and all is whole again."""


class Losses:
    """Who is lost, and how often, in one life: `most` at once, of whom `spare` can be done without.

    Chance is its own: what was drawn before there were exams is what it was.
    """

    def __init__(self, scenario: Scenario, most: int, spare: int) -> None:
        dice = self._dice = Random(f"{scenario.seed}/{scenario.protocol}/exam")
        self.gone: dict[NodeId, None] = {}
        """Who never comes back."""
        # Without the coordinator's disk the cluster can't go on.
        self._candidates = scenario.nodes[1 if scenario.coordinator == DISK else 0 :]
        self._most = min(most, len(self._candidates))
        self._spare = spare
        held = dice.random() < SHARE and self._most > 0
        self.left = (2 if dice.random() < TWICE else 1) if held else 0
        """How often nodes will be lost."""
        self._for_good = dice.random() < FOR_GOOD
        self.bound = Duration(self.left * EACH)
        """How much longer such a life may take."""

    def lose(self, world: World, at: Instant, named: Sequence[NodeId] = ()) -> None:
        """Some nodes are gone then, with their disks; mostly one of those who are named."""
        dice, candidates = self._dice, self._candidates
        some = [one for one in candidates if one in named] or candidates
        first = dice.choice(some if dice.random() < NAMED else candidates)
        others = [one for one in candidates if one != first]
        lost = [first, *dice.sample(others, dice.randrange(self._most))]
        self.left -= 1
        if not self.left and self._for_good and len(lost) <= self._spare:
            self.gone.update(dict.fromkeys(lost))
        for node in lost:
            world.at(at, _lose, world, node)


def _lose(world: World, node: NodeId) -> None:
    world.slots[node].wanted = False
    world.replace_disk(node)
