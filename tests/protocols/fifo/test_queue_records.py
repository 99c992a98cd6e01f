"""A queue that is written down at any moment and read again is the same queue."""

from random import Random

import pytest

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.fifo.journal import Journal, record, records, restored
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.settings import QueueSettings

KEEPERS = ("n1/1", "n2/1")


class Play:
    """Random things that happen to a queue, with the journal kept beside as a map."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.now = Instant(0)
        settings = QueueSettings(lease=seconds(3), deliveries_max=3)
        self.queue = Queue("q", settings)
        self.journal = Journal(self.queue, 1, 0, ())
        self.written: dict[bytes, bytes] = {}
        self.first = 0
        self.calls = 0

    def step(self) -> None:
        """One thing, and then what it changed is written."""
        acts = [self.put, self.put, self.get, self.get, self.settle, self.settle, self.back]
        acts += [self.wait, self.odd]
        self.chance.choice(acts)()
        for key, value in self.journal.write():
            if value is None:
                self.written.pop(key, None)
            else:
                self.written[key] = value
        self.queue.check()

    def put(self) -> None:
        count = self.chance.randrange(1, 8)
        stream = self.chance.choice(["n1/1/1", "n1/1/1", "n2/1/1"])
        where = self.queue.admit(stream, self.first, count, 10 * count, KEEPERS)
        self.first += count
        self.queue.show(where)

    def get(self) -> None:
        self.calls += 1
        operation = OperationId(NodeId("c-1"), self.calls)
        self.queue.lease(operation, self.chance.randrange(1, 12), 1 << 20, self.now)

    def settle(self) -> None:
        for lease in self.queue.leases:
            part = self._some(list(lease.left))
            self.queue.settle(lease, part)
            return

    def back(self) -> None:
        for lease in self.queue.leases:
            due = self.chance.choice([0, self.now + 10**9])
            reason = self.chance.choice(["", "it broke"])
            self.queue.give_back(lease, self._some(list(lease.left)), due, reason)
            return

    def wait(self) -> None:
        self.now = Instant(self.now + self.chance.randrange(2 * 10**9))
        self.queue.expire(self.now, self.now)

    def odd(self) -> None:
        act = self.chance.randrange(4)
        if act == 0:
            self.queue.redrive(2)
        elif act == 1:
            self.queue.purge(dead=self.chance.random() < 0.5)
        elif act == 2:
            self.queue.pause(paused=self.chance.random() < 0.3)
        elif self.queue.tail:
            start = self.chance.randrange(self.queue.tail)
            self.queue.give_up(Interval(start, start + 1))

    def _some(self, parts: list[Interval]) -> list[Interval]:
        part = self.chance.choice(parts)
        start = self.chance.randrange(part.start, part.stop)
        return [Interval(start, self.chance.randrange(start, part.stop) + 1)]


def seen(queue: Queue) -> tuple[object, ...]:
    """All that a queue would do from here on, but for when its leases end."""
    leases = [(one.token, one.operation, list(one.left), one.kept) for one in queue.leases]
    return (
        list(queue.alive),
        list(queue.ready),
        list(queue.dead),
        list(queue.delays),
        list(queue.failures),
        leases,
        queue.tail,
        queue.leases.next_token,
        queue.paused,
        (queue.done, queue.lost, queue.bytes),
        [(run.interval, run.stream, run.first, run.dropped, run.keepers) for run in queue.runs],
    )


@pytest.mark.parametrize("seed", range(40))
def test_what_is_read_is_what_was_written(seed: int) -> None:
    play = Play(seed)
    for _ in range(120):
        play.step()
        if play.chance.random() < 0.1:
            pairs = tuple(play.written.items())
            again = restored("q", play.queue.settings, pairs, play.now)
            assert seen(again) == seen(play.queue)


@pytest.mark.parametrize("seed", range(10))
def test_the_steps_and_the_whole_agree(seed: int) -> None:
    play = Play(seed)
    for _ in range(150):
        play.step()
    assert dict(records(play.queue)) == {
        key: record(play.queue, key) for key in play.written | {b"s": b"", b"t": b""}
    }


def test_items_go_back_to_their_own_positions() -> None:
    queue = Queue("q", QueueSettings())
    queue.show(queue.admit("n1/1/1", 0, 10, 10, KEEPERS))
    lease = queue.lease(OperationId(NodeId("c-1"), 1), 4, 100, Instant(0))
    assert lease is not None
    queue.give_back(lease, [Interval(1, 3)], 0, "it broke")
    again = queue.lease(OperationId(NodeId("c-2"), 1), 4, 100, Instant(0))
    assert again is not None
    assert list(again.left) == [Interval(1, 3), Interval(4, 6)]


def test_what_fails_too_often_is_dead_until_it_is_driven_back() -> None:
    queue = Queue("q", QueueSettings(deliveries_max=2))
    queue.show(queue.admit("n1/1/1", 0, 1, 10, KEEPERS))
    for call in range(2):
        lease = queue.lease(OperationId(NodeId("c-1"), call), 1, 100, Instant(0))
        assert lease is not None
        queue.give_back(lease, list(lease.left), 0, f"failure {call}")
    assert list(queue.dead) == [Interval(0, 1)]
    assert [failure.reason for _, failure in queue.failures] == ["failure 1"]
    assert queue.redrive(5) == 1
    assert (list(queue.ready), queue.failures.count) == ([Interval(0, 1)], 0)


def test_bounds_are_exact() -> None:
    queue = Queue("q", QueueSettings(items_max=10, bytes_max=100))
    assert queue.fits(10, 100)
    assert not queue.fits(11, 1)
    assert not queue.fits(1, 101)
    queue.admit("n1/1/1", 0, 6, 60, KEEPERS)
    assert queue.fits(4, 40)
    assert not queue.fits(5, 40)
    assert not queue.fits(4, 41)
