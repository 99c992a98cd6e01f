"""What each process tells of how it fares, with its introductions."""

from random import Random

import msgspec
import pytest

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, milliseconds, seconds
from snowmelt.core.names import Address, NodeId, OperationId, contact
from snowmelt.core.node import Announced, Expired, Received, Reply, Requested, Send
from snowmelt.protocols.calling import Answer, Call
from snowmelt.protocols.pool import calls
from snowmelt.protocols.pool.introductions import (
    Acquaintance,
    Introduce,
    Introduced,
    PeerReport,
    PoolStatus,
)
from snowmelt.protocols.pool.messages import ObjectsLent, Request
from snowmelt.protocols.pool.peer import PoolPeer
from snowmelt.protocols.pool.settings import Access, AccessKind, Delivery, PoolSettings

HERE = Address("127.0.0.1", 5000)
NODE = contact(HERE)
MAKER, EATER = NodeId("c-maker"), NodeId("c-eater")
FRAME = Batch.of([b"a frame"])


class Desk:
    """One process, and what it says to its node."""

    def __init__(self, **settings):
        self.now = Instant(0)
        settings = PoolSettings(**settings)
        self.peer = PoolPeer(EATER, "frames", settings, Random(1), contacts=(NODE,))
        self.calls = 0
        self.sent = []
        self.give(Announced(calls.ListensAt(HERE)))

    def give(self, event):
        effects = self.peer.handle(event, self.now)
        self.sent += [one.message for one in effects if isinstance(one, Send)]
        return [one.message for one in effects if isinstance(one, Reply)]

    def call(self, body):
        self.calls += 1
        return self.give(Requested(OperationId(EATER, self.calls), body))

    def after(self, milli):
        self.now = Instant(self.now + milliseconds(milli))
        self.give(Expired(None))

    def report(self):
        """What it says now."""
        self.give(Announced(calls.ListensAt(HERE)))
        words = [one.body for one in self.sent if isinstance(one, Call)]
        return words[-1].report

    def put(self):
        return self.call(calls.PoolPut(bytes(FRAME.offsets), bytes(FRAME.blob), seconds(60)))

    def get(self):
        return self.call(calls.PoolGet(1, 1 << 20, seconds(60)))

    def meets(self, producer):
        told = calls.Acquaintance(producer, producer, HERE)
        self.give(Announced(calls.PoolMembers((told,), (producer,))))

    def finds(self, token, hop=2):
        want = [one for one in self.sent if isinstance(one, Request)][-1]
        spans = (msgspec.convert((0, bytes(FRAME.offsets)), calls.ObjectSpan),)
        found = ObjectsLent(
            want.number, want.attempt, hop, token, seconds(30), 5.0, spans, bytes(FRAME.blob)
        )
        return self.give(Received(MAKER, found))


def test_a_producer_tells_what_it_made_and_how_long_it_was_held_up():
    desk = Desk(buffers=1)
    desk.after(1000)
    desk.put()
    desk.put()
    desk.after(300)
    report = desk.report()
    assert (report.age, report.buffers) == (milliseconds(1300), 1)
    assert (report.put, report.put_bytes) == (1, 7)
    assert report.blocked == milliseconds(300), "one that waits still counts, too"


def test_a_wait_for_room_that_ends_without_any_was_a_wait():
    desk = Desk(buffers=1)
    desk.put()
    desk.call(calls.AwaitRoom(seconds(1)))
    desk.after(1000)
    desk.after(500)
    assert desk.report().blocked == seconds(1)


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_consumer_tells_how_long_it_waited_and_how_long_it_used(delivery):
    desk = Desk(delivery=delivery, max_hops=4, access=Access(AccessKind.UNIFORM))
    desk.meets(MAKER)
    desk.get()
    desk.after(20)
    (got,) = desk.finds(77)
    desk.after(100)
    if got.token:
        desk.call(calls.Ack(got.token, (), milliseconds(0)))
    desk.get()
    desk.after(30)
    report = desk.report()
    assert (report.gets, report.got, report.probes) == (1, 1, 2)
    assert (report.waited, report.using) == (milliseconds(20), milliseconds(100))
    assert (report.max_hops, report.access) == (4, "uniform")


def test_a_consumer_tells_how_much_it_takes_and_hears_what_all_take():
    desk = Desk(access=Access(AccessKind.ADAPTIVE))
    desk.meets(MAKER)
    desk.report()
    for token in range(20):
        desk.get()
        desk.after(100)
        (got,) = desk.finds(token + 1)
        desk.call(calls.Ack(got.token, (), milliseconds(0)))
        desk.report()
    asked = [one for one in desk.sent if isinstance(one, Call)][-1]
    assert asked.body.taking == pytest.approx(5, rel=0.3)  # half of ten: it began two seconds ago
    rates = [Acquaintance(one, one, HERE, rate) for one, rate in ((MAKER, 900.0), (EATER, 30.0))]
    told = Introduced(1, True, seconds(1), tuple(rates), (MAKER, EATER), taken=60.0)
    desk.give(Received(NODE, Answer(asked.number, told)))
    known = desk.call(calls.DescribePeer())[0].producers
    assert [round(one.weight, 3) for one in known] == [0.667, 0.333]


def test_who_asks_ahead_uses_what_it_has():
    desk = Desk()
    desk.meets(MAKER)
    desk.get()
    desk.finds(77)
    desk.get()
    desk.after(50)
    assert desk.report().using == milliseconds(50)


def test_an_older_process_reports_nothing_and_is_understood():
    word = Introduce("frames", HERE, "", produces=False, consumes=True, report=PeerReport(age=5))
    older = msgspec.to_builtins(word)[:-2]
    assert msgspec.convert(older, Introduce).report == PeerReport()
    newer = [*msgspec.to_builtins(word), "of a later release"]
    assert msgspec.convert(newer, Introduce) == word
    assert msgspec.convert(["pool.status", "frames", [], [], []], PoolStatus).made == ()
