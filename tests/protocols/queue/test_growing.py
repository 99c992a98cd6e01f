"""A queue of which nobody said how many copies there are has more as nodes join."""

from typing import Any

import pytest
from cluster_bench import ClusterBench
from three_bench import without_steps

from snowmelt.core.batch import Batch
from snowmelt.core.instant import later, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced
from snowmelt.protocols.membership import HandedOver, Leaving
from snowmelt.protocols.queue.api.calls import Alter, Changed, Describe, Open, Opened, PutDone
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.controller.growing import AT_ONCE

UNSAID = QueueSettings(replicas=0)


class Bench(ClusterBench):
    """So many nodes; at first some of them are here."""

    def __init__(self, count: int, here: int = 1) -> None:
        super().__init__(count)
        for name in list(self.slots)[here:]:
            self.kill(name)
        self.view()
        self.run(1)

    def join(self, *names: str) -> None:
        for name in names:
            self.start(name)
        self.view()

    def leave(self, name: str) -> None:
        slot = self.slots[NodeId(name)]
        self._give(slot, Announced(Leaving(later(self.now, seconds(5)))))
        while not slot.facts:
            self.run(0.1)

    def make(self, settings: QueueSettings = UNSAID, queue: str = "q") -> None:
        assert isinstance(self.ask("n1", Open(queue, settings)), Opened)
        self.put("n1", 1, queue)

    def copies(self, queue: str = "q") -> tuple[int, int, int]:
        """How many there are, how many must be safe, and how many are named."""
        home = self.home(queue)
        return home.settings.replicas, home.settings.copies_needed, len(home.keepers)

    def alter(self, **some: int) -> Any:
        return self.ask("n1", Alter("q", tuple(some.items())), within=8)

    def got(self) -> list[bytes]:
        leased = self.get("n1", within=8)
        return [body for part in leased.parts for body in Batch(part.offsets, part.blob)]


def test_it_has_one_more_with_each_node_up_to_three_and_a_majority_must_be_safe() -> None:
    bench = Bench(4)
    bench.make()
    assert bench.copies() == (1, 1, 1)
    for joins, copies in (("n2", (2, 2, 2)), ("n3", (3, 2, 3)), ("n4", (3, 2, 3))):
        bench.join(joins)
        bench.run(4)
        assert bench.copies() == copies
    assert bench.ask("n1", Describe("q")).copied == 100
    bench.put("n1", 2)
    for name in ("n2", "n3"):
        bench.kill(name)
        bench.view()
        bench.run(5)
    assert bench.got() == [b"item 1", b"item 2"]


def test_many_nodes_at_once_and_one_copy_at_a_time() -> None:
    """The second is not begun before the first is there, and puts go on."""
    bench = Bench(4)
    bench.make()
    without_steps(bench, "n2", "n3", "n4")
    bench.join("n2", "n3", "n4")
    bench.run(6)
    assert bench.copies() == (2, 1, 2)
    assert isinstance(bench.put("n1", 2), PutDone)
    assert bench.ask("n1", Describe("q")).copied < 100
    bench.drops.clear()
    bench.run(8)
    assert bench.copies() == (3, 2, 3)
    assert bench.got() == [b"item 1", b"item 2"]


@pytest.mark.parametrize("said", [1, 2])
def test_what_somebody_said_stays(said: int) -> None:
    bench = Bench(4, here=2)
    bench.make(QueueSettings(replicas=said))
    bench.join("n3", "n4")
    bench.run(5)
    assert bench.copies()[0] == said


@pytest.mark.parametrize("said", [1, 2])
def test_what_somebody_says_later_stays_too_though_it_was_so(said: int) -> None:
    bench = Bench(4, here=2)
    bench.make()
    bench.run(3)
    assert bench.alter(replicas=said) == Changed(0)
    bench.join("n3", "n4")
    bench.run(5)
    assert bench.copies()[0] == said


def test_how_many_must_be_safe_may_be_said_alone() -> None:
    bench = Bench(3)
    bench.make(QueueSettings(replicas=0, durable_copies=1))
    bench.join("n2", "n3")
    bench.run(8)
    assert bench.copies() == (3, 1, 3)
    home = bench.home()
    assert set(home.counted) == set(home.keepers)
    for queue in ("q", "more"):  # as it was made, it can be opened
        opened = bench.ask("n1", Open(queue, QueueSettings(replicas=0, durable_copies=1)))
        assert isinstance(opened, Opened)


def test_few_grow_at_once() -> None:
    bench = Bench(2)
    for number in range(3 * AT_ONCE):
        bench.make(queue=f"q{number}")
    bench.join("n2")
    grown = []
    for _ in range(6):
        bench.run(0.2)
        grown.append(sum(bench.copies(f"q{one}")[0] == 2 for one in range(3 * AT_ONCE)))
    steps = [later - sooner for sooner, later in zip([0, *grown], grown, strict=False)]
    assert max(steps) <= AT_ONCE
    assert grown[-1] == 3 * AT_ONCE


def test_who_decides_begins_anew_in_the_middle() -> None:
    bench = Bench(3, here=3)
    bench.kill("n3")
    bench.kill("n2")
    bench.view()
    bench.make()
    bench.join("n2", "n3")
    bench.run(0.3)
    bench.kill("n1")
    bench.run(1)
    bench.join("n1")
    bench.run(10)
    assert bench.copies() == (3, 2, 3)
    assert bench.got() == [b"item 1"]


def test_with_orderly_leaves_it_has_fewer_again_and_all_is_there() -> None:
    bench = Bench(3, here=3)
    bench.make()
    bench.run(2)
    assert bench.copies() == (3, 2, 3)
    for name, copies in (("n3", 3), ("n2", 1)):
        bench.leave(name)
        assert bench.slots[NodeId(name)].facts[-1] == HandedOver("")
        bench.kill(name)
        bench.view()
        bench.run(3)
        assert bench.copies()[0] == copies
    assert bench.got() == [b"item 1"]
    bench.join("n2")
    bench.run(3)
    assert bench.copies() == (2, 2, 2)


def test_who_comes_back_is_not_sent_some_steps_of_those_it_lacks() -> None:
    """Its leader made steps while it had no followers, and kept none of these."""
    bench = Bench(2, here=2)
    bench.make()
    bench.run(3)
    bench.leave("n2")
    bench.kill("n2")
    bench.view()
    bench.run(2)
    for number in range(2, 8):
        assert isinstance(bench.put("n1", number), PutDone)
    bench.sent.clear()
    bench.join("n2")
    bench.run(3)
    assert bench.copies() == (2, 2, 2)
    assert not bench.messages("AppendRejected")


def test_while_one_that_has_a_copy_is_away_the_last_but_one_may_not_leave() -> None:
    bench = Bench(3, here=3)
    bench.make()
    bench.run(2)
    bench.kill("n3")
    bench.view()
    bench.run(1)
    bench.leave("n2")
    told = bench.slots[NodeId("n2")].facts[-1]
    assert isinstance(told, HandedOver)
    assert "need as many nodes as there are" in told.refused


def test_of_a_number_that_was_said_as_many_must_stay() -> None:
    bench = Bench(2, here=2)
    bench.make(QueueSettings(replicas=2))
    bench.run(1)
    bench.leave("n2")
    assert bench.slots[NodeId("n2")].facts[-1] != HandedOver("")
