"""Lives in which one node is alone, for good or at times, where the machine takes short cuts."""

import pytest

from snowmelt.client.overlay import steps
from snowmelt.protocols.membership import View
from snowmelt.sim.families import family
from snowmelt.sim.families.priority import PriorityLife
from snowmelt.sim.life import Ending, live
from snowmelt.sim.planted import Bug
from snowmelt.sim.scenario import drawn, kinds_of

# Whoever changes what nodes say to each other changes lives too, so there are several of each.
FOUND_BY = {
    ("priority", Bug.EARLY_LONE): (29, 71, 209),
    ("priority", Bug.UNWRITTEN_LEASE): (91, 111, 309),
    ("priority", Bug.RESTARTED_COUNT): (29, 89, 151),
    ("priority", Bug.TAKEN_FOR_ALONE): (7, 51, 309),
    ("seap", Bug.EARLY_LONE): (51, 331, 369),
    ("seap", Bug.UNWRITTEN_LEASE): (229, 589, 689),
    ("seap", Bug.RESTARTED_COUNT): (9, 49, 111),
    ("seap", Bug.TAKEN_FOR_ALONE): (4, 7, 11),
}


def lived(protocol, seed, bug=None, life=None):
    scenario = drawn(protocol, seed, kinds_of(protocol), bug)
    return live(scenario, life or family(protocol))


class Watched(PriorityLife):
    """How many are in each view, and in which of them processes ended."""

    last: "Watched"

    def __init__(self, scenario, chance):
        super().__init__(scenario, chance)
        Watched.last = self
        self.sizes = {}
        self.ends = []

    def announced(self, at, node, effect):
        super().announced(at, node, effect)
        if isinstance(effect.fact, View):
            self.sizes[effect.fact.epoch] = len(effect.fact.members)

    def ended(self, at, node):
        super().ended(at, node)
        self.ends.append((node, max(self.sizes, default=0)))


@pytest.mark.parametrize(
    ("protocol", "bug", "seeds"),
    [(*which, seeds) for which, seeds in FOUND_BY.items()],
    ids=lambda one: getattr(one, "value", ""),
)
def test_a_life_finds_what_a_lone_node_does_wrong(protocol, bug, seeds):
    assert any(lived(protocol, seed, bug).ending is not Ending.SETTLED for seed in seeds)


# 4169: a group waited for ever for an item that was damaged on the one disk.
# 5229: the disk was put back, a view came again, and a receipt of before named what another staged.
@pytest.mark.parametrize("seed", [4169, 5229])
def test_a_lone_nodes_disk_that_is_hurt_ends_no_life(seed, monkeypatch):
    monkeypatch.setattr(steps, "_WEIGHT_MAX", steps._WEIGHT)  # as when they were found
    report = lived("seap", seed)
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")


@pytest.mark.parametrize(
    ("protocol", "seed"), [("priority", 51), ("priority", 309), ("seap", 11), ("seap", 289)]
)
def test_without_them_these_lives_go_well(protocol, seed):
    report = lived(protocol, seed)
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")


def test_a_node_begins_alone_is_joined_is_alone_again_and_crashes_then():
    assert lived("priority", 51, life=Watched).ending is Ending.SETTLED
    sizes, ends = Watched.last.sizes, Watched.last.ends
    several = [epoch for epoch, size in sizes.items() if size > 1]
    assert sizes[1] == 1
    assert any(node == "n1" and sizes[at] == 1 and at > min(several) for node, at in ends)


def test_who_is_in_the_process_of_a_lone_node_ends_with_it_and_goes_on_at_once():
    scenario = drawn("priority", 369, kinds_of("priority"))
    assert scenario.theme == "alone"
    assert live(scenario, Watched).ending is Ending.SETTLED
    ends = Watched.last.ends
    assert len([1 for node, _ in ends if node == "k1"]) == len(
        [1 for node, _ in ends if node == "n1"]
    )
