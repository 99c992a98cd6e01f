"""How many copies there are is altered: they are made while puts go on, and who dies meanwhile."""

from typing import Any

import pytest
from cluster_bench import ClusterBench
from three_bench import without_steps

from snowmelt.core.batch import Batch
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import Alter, Changed, Describe, PutDone
from snowmelt.protocols.queue.messages.home_words import Activate


class Bench(ClusterBench):
    """Some nodes with a queue that the one which decides does not keep, if it can be."""

    def __init__(self, nodes: int, **settings: Any) -> None:
        super().__init__(nodes)
        self.queue, self.master, *self.others = self.beside(**settings)
        self.run(2)

    def alter(self, **some: int) -> Any:
        return self.ask(self.leads, Alter(self.queue, tuple(some.items())), within=8)

    def told(self, number: int, within: float = 2) -> Any:
        return self.put(self.leads, number, self.queue, within)

    @property
    def leads(self) -> str:
        return str(self.home(self.queue).master.partition("/")[0])

    @property
    def keepers(self) -> list[str]:
        home = self.home(self.queue)
        return [one.partition("/")[0] for one in (home.master, *home.mirrors)]

    @property
    def status(self) -> Any:
        return self.ask(self.leads, Describe(self.queue), within=8)

    def got(self) -> list[bytes]:
        leased = self.get(self.leads, queue=self.queue, within=8)
        return [body for part in leased.parts for body in Batch(part.offsets, part.blob)]


def items(*numbers: int) -> list[bytes]:
    return [b"item %d" % number for number in numbers]


def test_copies_are_made_while_puts_go_on() -> None:
    bench = Bench(4, replicas=1)
    bench.told(1)
    without_steps(bench, *[name for name in bench.slots if name != bench.master])
    assert bench.alter(replicas=3) == Changed(0)
    put = bench.told(2)
    assert isinstance(put, PutDone)
    assert put.copies == 1, "the others have none yet"
    told = bench.status
    assert (told.settings.replicas, told.settings.durable_copies) == (3, 1)
    assert told.short_of_copies == 2
    bench.drops.clear()
    bench.run(10)
    told = bench.status
    assert (told.settings.replicas, told.settings.durable_copies) == (3, 2)
    assert told.short_of_copies == 0
    assert len(set(bench.keepers)) == 3
    bench.kill(bench.leads)
    bench.view()
    bench.run(8)
    assert bench.got() == items(1, 2)


@pytest.mark.parametrize("after", [0, 0.3, 2])
def test_the_leader_is_killed_in_the_middle_and_is_back(after: float) -> None:
    bench = Bench(4, replicas=1)
    bench.told(1)
    master = bench.master
    bench.call(master, Alter(bench.queue, (("replicas", 3),)))
    bench.run(after)
    bench.told(2)
    bench.kill(master)
    bench.view()
    bench.run(3)
    bench.start(master)
    bench.view()
    bench.run(20)
    told = bench.status
    assert (told.settings.replicas, told.settings.durable_copies) in {(1, 1), (3, 2)}
    assert told.short_of_copies == 0
    assert bench.got() == items(1, 2)


@pytest.mark.parametrize(("old", "new"), [(2, 3), (3, 5), (5, 3), (3, 2), (3, 1), (2, 1)])
def test_each_way_goes_on_at_once_and_loses_nothing(old: int, new: int) -> None:
    bench = Bench(5, replicas=old)
    for number in range(3):
        bench.told(number)
    assert bench.alter(replicas=new) == Changed(0)
    assert isinstance(bench.told(3), PutDone)
    bench.run(10)
    told = bench.status
    assert (told.settings.replicas, told.settings.durable_copies) == (new, new // 2 + 1)
    assert len(set(bench.keepers)) == new
    for _ in range((new - 1) // 2):
        bench.kill(next(one for one in bench.keepers if one != "n1" and bench.slots[one].node))
        bench.view()
        bench.run(8)
    assert bench.got() == items(0, 1, 2, 3)


def test_more_must_be_safe_once_all_have_what_the_leader_has() -> None:
    bench = Bench(3, replicas=3)
    far = next(one for one in bench.others if one != "n1")
    bench.told(1)
    without_steps(bench, far)
    assert bench.alter(durable_copies=3) == Changed(0)
    assert isinstance(bench.told(2), PutDone)
    assert bench.status.settings.durable_copies == 2
    bench.drops.clear()
    bench.run(10)
    assert bench.status.settings.durable_copies == 3
    without_steps(bench, far)
    assert bench.told(3) is None


def test_fewer_with_the_only_other_away_goes_on() -> None:
    bench = Bench(3, replicas=2)
    bench.told(1)
    other = bench.others[0]
    bench.kill(other)
    without_steps(bench, *[one for one in bench.slots if one != bench.master])
    bench.run(1)
    assert bench.alter(replicas=1) == Changed(0)
    assert isinstance(bench.told(2), PutDone)
    assert bench.got() == items(1, 2)


def test_altered_again_while_copies_are_made() -> None:
    bench = Bench(4, replicas=1)
    bench.told(1)
    without_steps(bench, *[name for name in bench.slots if name != bench.master])
    bench.alter(replicas=3)
    assert bench.alter(replicas=2, items_max=5) == Changed(0)
    bench.told(2)
    bench.drops.clear()
    bench.run(10)
    settings = bench.status.settings
    assert (settings.replicas, settings.durable_copies, settings.items_max) == (2, 2, 5)
    assert bench.got() == items(1, 2)


def test_more_than_there_are_nodes_is_refused() -> None:
    bench = Bench(2, replicas=1)
    told = bench.alter(replicas=3)
    assert isinstance(told, Declined)
    assert "at most 2, the nodes present" in told.text


def test_the_newest_is_sought_of_as_many_as_the_old_settings_ask_for() -> None:
    """By the new ones its own copy would do, of which two of three were told without it."""
    bench = Bench(3, replicas=3)
    bench.told(1)
    bench.drops.append(lambda _s, _t, one: isinstance(one, Activate))
    bench.call(bench.leads, Alter(bench.queue, (("durable_copies", 3),)))
    bench.run(3)
    home = bench.home(bench.queue)
    assert (home.active, home.settings.copies_needed, home.answers_needed) == (False, 2, 2)
    bench.drops.clear()
    bench.drops.append(lambda _s, _t, one: isinstance(one, Activate) and one.term > home.term)
    bench.run(5)
    home = bench.home(bench.queue)
    assert (home.active, home.settings.copies_needed, home.answers_needed) == (False, 3, 2)
