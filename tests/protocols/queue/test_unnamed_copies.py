"""A node erases its copy when an active home does not name it, and what is known of that later."""

from typing import Any

import pytest
from cluster_bench import ClusterBench

from snowmelt.core.batch import Batch
from snowmelt.core.instant import later, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced
from snowmelt.protocols.membership import Leaving
from snowmelt.protocols.queue.api.calls import Alter, Changed, Describe, PutDone
from snowmelt.protocols.queue.messages.home_words import Activate, Assignment
from snowmelt.protocols.queue.messages.words import Fence, SnapshotChunk
from snowmelt.protocols.queue.store.copy import HOME


class Bench(ClusterBench):
    """Some nodes, and a queue that the one which decides has no copy of, if it can be."""

    def __init__(self, nodes: int, **settings: Any) -> None:
        super().__init__(nodes)
        self.queue, self.master, *self.others = self.beside(**settings)
        self.put(self.master, 1, self.queue)
        self.run(1)

    @property
    def leads(self) -> str:
        return str(self.home(self.queue).master.partition("/")[0])

    @property
    def named(self) -> list[str]:
        return [one.partition("/")[0] for one in self.home(self.queue).keepers]

    def records(self, name: str) -> list[bytes]:
        """Of the queue's copy at this node: what is on its disk."""
        keys = [one.key for one in self.slots[NodeId(name)].disk.start().records]
        own = b"j" + self.queue.encode() + b"\0"
        return [key.removeprefix(own) for key in keys if key.startswith(own)]

    @property
    def have(self) -> set[str]:
        """Who has a copy."""
        return {name for name in self.slots if set(self.records(name)) - {HOME}}

    def alter(self, **some: int) -> Any:
        return self.ask(self.leads, Alter(self.queue, tuple(some.items())), within=8)

    def got(self) -> list[bytes]:
        leased = self.get(self.leads, queue=self.queue, within=8)
        return [body for part in leased.parts for body in Batch(part.offsets, part.blob)]

    def moved(self) -> tuple[str, str]:
        """The queue's only copy is moved; who had it, and who has it."""
        before = self.leads
        leaving = Leaving(later(self.now, seconds(5)))
        self._give(self.slots[NodeId(before)], Announced(leaving))
        self.run(2)
        assert self.leads != before
        return before, self.leads


def test_with_fewer_copies_those_are_erased_that_are_not_named() -> None:
    bench = Bench(4, replicas=3)
    assert len(bench.have) == 3
    assert bench.alter(replicas=1) == Changed(0)
    bench.run(3)
    assert bench.have == set(bench.named) == {bench.leads}
    assert bench.got() == [b"item 1"]


def test_who_was_away_erases_its_copy_when_it_is_back() -> None:
    bench = Bench(4, replicas=3)
    away = bench.others[0]
    bench.kill(away)
    bench.view()
    bench.run(5)
    assert away not in bench.named
    assert away in bench.have
    bench.start(away)
    bench.view()
    bench.run(3)
    assert bench.have == set(bench.named)
    assert bench.got() == [b"item 1"]


def test_it_is_not_erased_before_the_home_is_active_and_asked_for_until_then() -> None:
    bench = Bench(4, replicas=3)
    bench.drops.append(lambda _source, _target, word: isinstance(word, Activate))
    bench.call(bench.leads, Alter(bench.queue, (("replicas", 1),)))
    bench.run(3)
    assert not bench.home(bench.queue).active
    assert len(bench.have) == 3
    left_out = [name for name in bench.have if name not in bench.named]
    deaf = [
        lambda _source, target, word: (
            isinstance(word, Assignment) and word.active and target in left_out
        )
    ]
    bench.drops[:] = deaf
    bench.run(3)
    assert bench.home(bench.queue).active
    assert len(bench.have) == 3
    bench.drops.clear()
    bench.run(3)
    assert bench.have == {bench.leads}


def test_only_who_decides_is_believed() -> None:
    bench = Bench(4, replicas=3)
    home = bench.home(bench.queue)
    forged = Assignment(
        bench.queue, home.term + 1, "n9/1", (), home.settings, active=True, since=home.since
    )
    for name in bench.others:
        bench.receive("n9", name, forged)
    bench.run(1)
    assert bench.have == set(bench.named)


def test_one_that_heard_of_a_later_term_is_not_erased_by_an_earlier_home() -> None:
    bench = Bench(4, replicas=3)
    assert bench.alter(replicas=1) == Changed(0)
    bench.run(3)
    old = bench.home(bench.queue)
    assert bench.alter(replicas=3) == Changed(0)
    bench.run(5)
    assert len(bench.have) == 3
    for name in bench.named[1:]:
        bench.receive("n1", name, old)
    bench.run(1)
    assert len(bench.have) == 3


@pytest.mark.parametrize("restarts", [False, True])
def test_who_is_named_again_has_a_copy_again_and_counts(restarts: bool) -> None:
    bench = Bench(3, replicas=3)
    assert bench.alter(replicas=1) == Changed(0)
    bench.run(3)
    if restarts:
        for name in bench.slots:
            if name not in ("n1", bench.leads):
                bench.kill(name)
                bench.start(name)
        bench.view()
        bench.run(1)
    assert bench.alter(replicas=3) == Changed(0)
    bench.run(8)
    assert isinstance(bench.put(bench.leads, 2, bench.queue), PutDone)
    assert bench.have == set(bench.named) == set(bench.slots)
    if bench.leads != "n1":
        bench.kill(bench.leads)
        bench.view()
        bench.run(5)
    assert bench.got() == [b"item 1", b"item 2"]


def test_who_was_named_again_and_has_nothing_yet_says_so_to_the_next_leader() -> None:
    """Else one of three that is away would be too many."""
    bench = Bench(4, replicas=3)
    third = bench.others[1]
    bench.kill(third)
    bench.view()
    bench.run(5)
    bench.start(third)
    bench.view()
    bench.run(3)
    assert bench.records(third) == [HOME]
    bench.drops.append(lambda _s, target, word: target == third and isinstance(word, SnapshotChunk))
    gone = next(one for one in bench.named if one not in {bench.leads, "n1"})
    bench.kill(gone)
    bench.view()
    bench.run(2)
    assert third in bench.named
    bench.put(bench.leads, 2, bench.queue)
    leader = bench.leads
    bench.kill(leader)
    bench.view()
    bench.run(2)
    bench.drops.clear()
    bench.run(8)
    assert bench.leads != leader
    assert bench.got() == [b"item 1", b"item 2"]


@pytest.mark.parametrize("back", [True, False])
def test_an_older_disk_of_who_decides_hears_where_the_queue_is(back: bool) -> None:
    """It knows the home of before: who led then has nothing any more, and knows who has it."""
    bench = Bench(3, replicas=1)
    old = bench.slots[NodeId("n1")].disk.copy()
    before, now = bench.moved()
    bench.put(bench.leads, 2, bench.queue)
    assert bench.have == {now}
    if now == "n1":
        pytest.skip("who decides has the only copy")
    bench.kill(now)
    bench.kill("n1")
    bench.slots[NodeId("n1")].disk.put_back(old)
    bench.start("n1")
    bench.view("n1", before)
    bench.run(5)
    assert bench.ask(before, Describe(bench.queue)).error == "Unavailable"
    home = bench.home(bench.queue)
    assert (home.active, home.master.partition("/")[0]) == (False, now)
    if back:
        bench.start(now)
        bench.view()
        bench.run(5)
        assert bench.got() == [b"item 1", b"item 2"]


def test_who_seeks_the_newest_of_an_earlier_term_is_told_nothing() -> None:
    bench = Bench(4, replicas=3)
    home = bench.home(bench.queue)
    assert bench.alter(replicas=1) == Changed(0)
    bench.run(3)
    left = next(name for name in bench.others if name not in bench.named)
    keeper = next(one for one in home.keepers if one.startswith(f"{left}/"))
    bench.sent.clear()
    later = bench.home(bench.queue).term + 5
    for sought, answers in ((home.term, 0), (later - 1, 1)):
        fence = Fence(bench.queue, later, keeper, since=home.since, sought=sought)
        bench.receive("n1", left, fence)
        assert len(bench.messages("Fenced")) == answers
