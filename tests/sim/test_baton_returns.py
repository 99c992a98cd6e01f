"""Lives in which a few users take turns quickly, and a node is back before others know.

Nothing reaches one node for a while, so it does not know that what it sent has come; meanwhile the
process that it sent it to ends, and is there again at once.
"""

from random import Random

import pytest

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt_world.families import baton, baton_callers, baton_users
from snowmelt_world.families.baton_load import DROWSY, Load
from snowmelt_world.faults import Crash, Partition
from snowmelt_world.life import Ending, live
from snowmelt_world.network import LinkStyle
from snowmelt_world.scenario import Scenario

SEEDS = (
    177,  # a value that had been confirmed gave way to an older one
    259,  # a grant had a smaller fence than one that had acted
    305,  # two users were granted one fence
)
END = Instant(seconds(30))


def scenario(seed: int) -> Scenario:
    chance = Random(f"{seed}/revived")
    nodes = tuple(NodeId(f"n{number + 1}") for number in range(chance.randint(3, 4)))
    faults: list[Partition | Crash] = []
    for _ in range(4):
        at = Instant(chance.randrange(seconds(5), seconds(28)))
        victim = chance.choice(nodes)
        deaf = chance.choice([node for node in nodes if node != victim])
        healed = later(at, milliseconds(chance.randrange(500, 4000)))
        faults.append(Partition(at, min(healed, END), "one-way", (deaf,), True, Duration(0)))
        ends = later(at, milliseconds(chance.randrange(50, 2000)))
        back = later(ends, milliseconds(chance.randrange(20, 400)))
        faults.append(Crash(ends, min(back, END), victim, False))
    return Scenario(
        protocol="baton",
        seed=seed,
        nodes=nodes,
        faults_end=END,
        style=LinkStyle(Duration(100_000), Duration(500_000)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
    )


class OneBaton(baton.BatonLife):
    """All users want the same."""

    def __init__(self, scenario, chance):
        super().__init__(scenario, chance)
        self._ledgers = {"b1": self._ledgers["b1"]}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_handed_on_is_not_taken_again_by_a_process_that_began_since(seed, monkeypatch):
    quick = {"hold": milliseconds(100), "pause": milliseconds(40), "short": milliseconds(20)}

    def load(chance, _):
        return Load(users=(2, 3), awake=chance.choice(DROWSY), **quick)

    monkeypatch.setattr(baton, "load_of", load)
    for name, span in {"DYING": 40, "HOG": 1000, "SHORT": 20}.items():
        for module in (baton_users, baton_callers):
            monkeypatch.setattr(module, name, milliseconds(span), raising=False)
    report = live(scenario(seed), OneBaton)
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")
