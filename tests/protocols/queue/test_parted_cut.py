"""Queues with partitions where two nodes never hear each other, and whoever decides hears both."""

import pytest
from cluster_bench import ClusterBench

from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api import calls

BOTH, THERE, BACK = ("both", "there", "back")


class Cut:
    """Partition and anchor are led by n2 and n3; n1 decides on homes."""

    def __init__(self, **settings: int) -> None:
        self.bench = ClusterBench(3)
        for number in range(20):
            self.queue = f"q{number}"
            self.bench.open(self.queue, partitions=6, replicas=1, **settings)
            at = {self.leader(part): part for part in range(1, 6)}
            if self.leader(0) == "n3" and "n2" in at:
                self.part = f"{self.queue}/{at['n2']}"
                break
        else:
            raise AssertionError("no queue has its anchor on n3")
        self.puts = 0

    def begin(self, lost: str) -> None:
        links = {BOTH: ("23", "32"), THERE: ("23",), BACK: ("32",)}[lost]
        self.bench.drops.append(lambda source, to, _: source[1:] + to[1:] in links)

    def leader(self, part: int) -> str:
        return str(self.bench.home(f"{self.queue}/{part}").master.partition("/")[0])

    def put(self, within: float = 2) -> calls.PutDone | None:
        self.puts += 1
        batch = Batch.of([b"some"])
        put = calls.Put(self.part, "p", self.puts, bytes(batch.offsets), bytes(batch.blob))
        told: calls.PutDone | None = self.bench.ask("n2", put, within)
        return told

    def get(self, door: str, within: float = 4):
        return self.bench.ask(door, calls.Get(self.queue, 10, 1 << 20, seconds(0), None), within)


LOST = pytest.mark.parametrize("lost", [BOTH, THERE, BACK])
DOORS = pytest.mark.parametrize("door", ["n1", "n2", "n3"])


@LOST
def test_a_put_is_answered(lost: str) -> None:
    cut = Cut()
    cut.begin(lost)
    for _ in range(3):
        assert isinstance(cut.put(), calls.PutDone)


@LOST
@DOORS
def test_a_get_is_answered_at_each_door_and_what_it_has_is_settled(lost: str, door: str) -> None:
    cut = Cut()
    done = cut.put()
    assert isinstance(done, calls.PutDone)
    cut.begin(lost)
    (given,) = cut.get(door).pieces
    where = Interval(done.start, done.stop)
    assert [part.start for part in given.leased.parts] == [done.start]
    settle = calls.Settle(cut.part, given.leased.token, done=(where,), secret=given.leased.secret)
    assert isinstance(cut.bench.ask("n2", settle), calls.Settled)
    assert not cut.get(door).pieces


@LOST
@DOORS
def test_a_get_that_waits_is_answered_and_another_leaves(lost: str, door: str) -> None:
    cut = Cut()
    cut.begin(lost)
    get = calls.Get(cut.queue, 10, 1 << 20, seconds(60), None)
    waits, other = cut.bench.call(door, get), cut.bench.call(door, get)
    leave = calls.CancelGet(cut.queue, other.number)
    assert isinstance(cut.bench.ask(door, leave, 4), calls.GetCancelled)
    assert cut.bench.ask_again(waits, door, get, 2) is None
    assert isinstance(cut.put(), calls.PutDone)
    assert cut.bench.ask_again(waits, door, get, 4).pieces


@LOST
def test_a_put_is_answered_that_was_to_lie_where_it_is_never_heard_of(lost: str) -> None:
    cut = Cut(inline_max=0)
    cut.begin(lost)
    for _ in range(10):
        assert isinstance(cut.put(within=9), calls.PutDone)
