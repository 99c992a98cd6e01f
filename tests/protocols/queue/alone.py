"""A node alone with its disk, which flushes when it is told to, and a client."""

from random import Random

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, later, seconds
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
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.queue import QueueNode
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.limits import QueueLimits
from snowmelt_world.disk import Disk, Ending

ME = NodeId("n1")
WALL = 10**18
NONE_AT_HAND = QueueLimits(recent_bytes=0)


class Alone:
    def __init__(self, limits=NONE_AT_HAND):
        self.disk = Disk(Random(1))
        self.now = Instant(1)
        self.calls = 0
        self.limits = limits
        self.start()

    @classmethod
    def of(cls, limits=NONE_AT_HAND, **settings):
        """With a queue."""
        alone = cls(limits)
        alone.ask(calls.Open("q", QueueSettings(**settings)))
        alone.flush()
        return alone

    def start(self):
        self.answers, self.due = {}, None
        self.node = QueueNode(ME, Random(2), alone=True, limits=self.limits)
        found = self.disk.start()
        self.give(Started(found.records, found.damaged, WALL + self.now))
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

    def said(self, request):
        """What is answered when all is flushed."""
        self.ask(request)
        self.flush()
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
