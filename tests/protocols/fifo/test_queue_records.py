"""A queue that is written down at any moment and read again is the same queue."""

from random import Random

import msgspec
import pytest
from whole_records import records, restored

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.fifo.groups import Group
from snowmelt.protocols.fifo.journal import Journal
from snowmelt.protocols.fifo.limits import Limits
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.records import record
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.fifo.staged import StagedBatch

KEEPERS = ("n1/1", "n2/1")


class Play:
    """Random things that happen to a queue, with the journal kept beside as a map."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.now = Instant(0)
        bound = self.chance.choice((0, 1 << 20))
        settings = QueueSettings(lease=seconds(3), deliveries_max=3, bytes_max=bound)
        limits = Limits(run_items=40, run_strips=9, run_lanes=2, drop_items=5)
        self.queue = Queue("q", settings, limits)
        self.journal = Journal(self.queue, 1, 0, ())
        self.written: dict[bytes, bytes] = {}
        self.first = 0
        self.calls = 0

    def step(self) -> None:
        """One thing, and then what it changed is written."""
        acts = [self.put, self.put, self.get, self.get, self.settle, self.settle, self.back]
        acts += [self.wait, self.odd, self.assign, self.assign, self.release]
        acts += [self.stage, self.stage, self.publish]
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
        items_max, ahead = self.chance.randrange(1, 12), self.calls % 2 == 0
        self.queue.lease(operation, items_max, 1 << 20, self.now, ahead=ahead)

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

    def assign(self) -> None:
        """As `grouping.py` does: a group passes by some, and takes more when it holds nothing."""
        queue, name = self.queue, self.chance.choice(["g", "h", "g.h-1"])
        group = queue.groups.named(name)
        if group is None:
            group = Group(self.chance.randrange(1, 2**53), "r", 0, [], self.now)
        done = self.chance.randrange(group.done, group.given + 1)
        for passed in group.pass_by(done):
            for part in queue.alive.common(passed):
                queue.gone(part)
        if not group.held:
            group.held = list(queue.take(self.chance.randrange(1, 9), 1 << 20, pieces_max=3))
        queue.groups.keep(name, group)

    def release(self) -> None:
        if self.chance.random() < 0.3:
            for name, group in self.queue.groups:
                for piece in group.held:
                    for part in self.queue.alive.common(piece):
                        self.queue.ready.add(part)
                self.queue.groups.forget(name)
                return

    def stage(self) -> None:
        count = self.chance.randrange(1, 8)
        stream = self.chance.choice(["n1/1/1", "n2/1/1"])
        due = self.chance.choice([0, self.now + 10**9])
        until = self.now + self.chance.randrange(1, 5 * 10**9)
        batch = StagedBatch(self.first + count, 10 * count, KEEPERS, due, until)
        self.queue.staged.keep((stream, self.first), batch)
        self.first += count

    def publish(self) -> None:
        """Some are published, and those whose time is over go."""
        queue = self.queue
        for (stream, first), batch in queue.staged:
            if self.chance.random() < 0.3:
                size = batch.stop - first
                where = queue.admit(stream, first, size, batch.bytes, batch.keepers)
                queue.staged.forget((stream, first))
                if batch.due > self.now:
                    queue.delay(where, batch.due)
                else:
                    queue.show(where)
        for name, batch in queue.staged.over(self.now):
            queue.staged.dropped(name, batch)

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
    leases = [
        (one.token, one.operation, list(one.left), one.kept, one.ahead) for one in queue.leases
    ]
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
        [(run.interval, run.columns(), run.dropped, run.held, run.lanes) for run in queue.runs],
        queue.runs.housed,
        sorted((name, msgspec.to_builtins(group)) for name, group in queue.groups),
        sorted(queue.staged, key=lambda one: one[0]),
        (queue.groups.items, queue.staged.items),
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


def test_a_group_whose_run_is_lost_from_the_journal_still_counts() -> None:
    queue = Queue("q", QueueSettings())
    queue.show(queue.admit("n1/1/1", 0, 10, 10, KEEPERS))
    group = Group(7, "r", 0, list(queue.take(6, 100)), 0)
    queue.groups.keep("g", group)
    pairs = tuple((key, value) for key, value in records(queue) if key[:1] not in (b"x", b"s"))
    again = restored("q", queue.settings, pairs, Instant(0))
    again.check()
    kept = again.groups.named("g")
    assert kept is not None
    assert (kept.given, kept.pass_by(2)) == (6, [Interval(0, 2)])


def test_a_position_is_not_given_again_though_the_record_of_the_tail_is_lost() -> None:
    queue = Queue("q", QueueSettings())
    where = queue.admit("n1/1/1", 0, 10, 10, KEEPERS)
    queue.producers.note("loader", 7, where, wall=0)
    pairs = tuple((key, value) for key, value in records(queue) if key[:1] not in (b"x", b"s"))
    assert restored("q", queue.settings, pairs, Instant(0)).tail == queue.tail == 10


def test_what_two_records_claim_is_the_groups() -> None:
    """No step writes this; a record that was lost may leave it behind."""
    queue = Queue("q", QueueSettings())
    queue.show(queue.admit("n1/1/1", 0, 10, 10, KEEPERS))
    queue.lease(OperationId(NodeId("c-1"), 1), 6, 100, Instant(0))
    queue.groups.keep("g", Group(9, "r", 0, [Interval(4, 8)], 0))
    again = restored("q", queue.settings, records(queue), Instant(0))
    again.check()
    (lease,) = again.leases
    assert (list(lease.left), list(again.ready)) == ([Interval(0, 4)], [Interval(8, 10)])


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
