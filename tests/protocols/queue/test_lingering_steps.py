"""Where flushes may linger: what is told before, what a crash costs, and what it never costs."""

from random import Random

import pytest

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import (
    Announced,
    Expired,
    Load,
    Persist,
    Persisted,
    Reply,
    Requested,
    SetTimer,
    Started,
)
from snowmelt.protocols.fifo import calls
from snowmelt.protocols.fifo.limits import Limits
from snowmelt.protocols.fifo.messages import Home
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.queue import QueueNode
from snowmelt.protocols.queue.copy import Copy
from snowmelt.protocols.queue.log import BOUND_AHEAD
from snowmelt.protocols.queue.takeover import TakeOver
from snowmelt.protocols.queue.words import Head
from snowmelt.sim.disk import Disk, Ending

ME = NodeId("n1")
LINGER = milliseconds(50)


class Alone:
    """One node, its disk, and a client; the disk flushes when it is told to."""

    def __init__(self):
        self.disk = Disk(Random(1))
        self.now = Instant(1)
        self.calls = 0
        self.start()

    def start(self):
        self.answers, self.due = {}, None
        self.node = QueueNode(ME, Random(2), alone=True, limits=Limits(recent_bytes=0))
        found = self.disk.start()
        self.give(Started(found.records, found.damaged, 10**18))
        member = Member(ME, Address("127.0.0.1", 4410), birth=1, start=self.now)
        self.give(Announced(View(1, self.now, ME, (member,))))
        self.flush()

    def give(self, event):
        for effect in self.node.handle(event, self.now):
            match effect:
                case SetTimer(_, at):
                    self.due = at
                case Persist():
                    self.disk.ask(effect)
                case Load():
                    self.give(self.disk.answer(effect))
                case Reply(operation, message):
                    self.answers[operation.number] = message
        self.node.check()

    def flush(self):
        while told := self.disk.flush():
            for one in told:
                self.give(Persisted(one) if isinstance(one, int) else one)

    def ask(self, request):
        """What is answered without any flush; None when nothing is."""
        self.calls += 1
        self.give(Requested(OperationId(NodeId("c-1"), self.calls), request))
        return self.answers.get(self.calls)

    def put(self, number):
        batch = Batch.of([b"item %d" % number])
        return self.ask(calls.Put("q", "p", number, bytes(batch.offsets), bytes(batch.blob)))

    def get(self):
        return self.ask(calls.Get("q", 9, 1 << 20, seconds(0), None))

    def wait(self, time):
        end = later(self.now, time)
        while self.due is not None and self.due <= end:
            self.now, self.due = max(self.now, self.due), None
            self.give(Expired(None))
        self.now = end

    def killed(self):
        self.disk.end(Ending.POWER)
        self.now = later(self.now, seconds(1))
        self.start()


@pytest.fixture
def alone():
    alone = Alone()
    alone.ask(calls.Open("q", QueueSettings(linger=LINGER)))
    alone.flush()
    alone.put(0)
    alone.wait(LINGER)
    alone.flush()
    return alone


def test_a_put_is_told_before_it_is_flushed_and_says_so(alone):
    told = alone.put(1)
    assert (told.start, told.flushed) == (1, False)
    assert alone.put(1).repeated


def test_it_is_flushed_within_its_time(alone):
    alone.put(1)
    alone.wait(LINGER)
    alone.flush()
    alone.killed()
    assert [bytes(part.blob) for part in alone.get().parts] == [b"item 0item 1"]


def test_what_a_crash_costs_and_that_no_position_is_given_again(alone):
    assert alone.put(1).start == 1
    alone.killed()
    again = alone.put(1)
    assert not again.repeated
    assert again.start >= BOUND_AHEAD
    assert [bytes(part.blob) for part in alone.get().parts] == [b"item 0", b"item 1"]


def test_a_body_that_lingers_is_read_before_it_is_on_the_disk(alone):
    for number in (1, 2):
        alone.put(number)
    assert [bytes(part.blob) for part in alone.get().parts] == [b"item 0item 1item 2"]


def test_without_lingering_nothing_is_told_before_its_flush():
    alone = Alone()
    alone.ask(calls.Open("q", QueueSettings()))
    alone.flush()
    assert alone.put(0) is None
    alone.flush()
    assert alone.answers[alone.calls].flushed


# --- copies that were read from a disk ------------------------------------------------------------


def test_a_copy_from_a_disk_is_sure_when_it_has_what_its_leader_had():
    copy = Copy("q")
    copy.head, copy.reach = Head(5, 90), Head(6, 0)
    assert not copy.sure
    copy.reach = min(copy.reach, Head(5, 100))  # its leader had so many when this run had begun
    copy.head = Head(5, 100)
    assert copy.sure
    copy.head, copy.reach = Head(6, 91), Head(6, 0)  # or a later term has begun
    assert copy.sure


def test_copies_that_may_lack_what_they_told_are_not_enough():
    settings = QueueSettings(replicas=3, linger=LINGER)
    before = ("n1/1", "n2/1", "n3/1")
    taking = TakeOver(Home("q", 6, "n1/1", before[1:], settings, before=before))
    taking.fenced = True
    taking.told("n1/1", Head(5, 90), sure=False)
    taking.told("n2/1", Head(5, 80), sure=True)
    assert taking.newest("n1/1", ()) is None
    taking.told("n3/1", Head(5, 100), sure=True)
    assert taking.newest("n1/1", ()) == ("n3/1", Head(5, 100))
