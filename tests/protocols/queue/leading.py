"""A node that leads one partition, with one follower, and a test that plays all others."""

from random import Random

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import (
    Announced,
    Expired,
    Persist,
    Persisted,
    Received,
    Requested,
    Send,
    Started,
)
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.queue import QueueNode
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.messages import words
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt_world.disk import Disk

N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
TERM = 5


def keeper(node):
    return f"{node}/1"


class Leading:
    """`n1` leads `queue`, `n2` follows and decides; `n3` may be anything else."""

    def __init__(self, queue, **settings):
        self.queue = queue
        self.settings = QueueSettings(**{"replicas": 2, "partitions": 3, **settings})
        self.now, self.sent, self.calls = Instant(1), [], 0
        self.disk = Disk(Random(1))
        self.node = QueueNode(N1, Random(2))
        members = tuple(
            Member(node, Address("127.0.0.1", 4410 + at), birth=1, start=1)
            for at, node in enumerate((N1, N2, N3))
        )
        self.give(Started((), (), 10**18))
        self.give(Announced(View(1, 1, N2, members)))
        for active in (False, True):
            self.hear(N2, self.home(queue, N1, TERM, active=active))
            self.wait(seconds(1))
            self.agree()
        self.wait(seconds(1))
        self.agree()
        self.sent.clear()

    def home(self, queue, leader, term, *, active=True):
        master, mirror = (N1, N2) if leader == N1 else (leader, N1)
        return Assignment(
            queue, term, keeper(master), (keeper(mirror),), self.settings,
            run=f"{keeper(master)}/1", active=active,
        )  # fmt: skip

    def give(self, event):
        for effect in self.node.handle(event, self.now):
            match effect:
                case Persist():
                    self.disk.ask(effect)
                case Send(target, message):
                    self.sent.append((target, message))
        self.node.check()

    def hear(self, source, message):
        self.give(Received(source, message))

    def flush(self):
        while told := self.disk.flush():
            for one in told:
                self.give(Persisted(one) if isinstance(one, int) else one)

    def wait(self, time):
        self.now = later(self.now, time)
        self.give(Expired(None))

    def agree(self):
        """The own disk flushes, and the follower says yes to all that it was asked."""
        self.flush()
        asked, self.sent = self.sent, []
        for target, word in asked:
            match word:
                case words.Append() if target == N2:
                    self.hear(N2, words.Appended(word.queue, word.term, keeper(N2), word.head))
                case words.Fence() if target == N2:
                    self.hear(N2, words.Fenced(word.queue, word.term, keeper(N2), words.NOTHING))
                case words.Confirm() if target == N2:
                    self.hear(N2, words.Confirmed(word.queue, word.term, keeper(N2), word.number))
                case _:
                    self.sent.append((target, word))
            self.flush()
        kinds = words.Append | words.Confirm | words.Fence
        if any(isinstance(word, kinds) for _, word in self.sent):
            self.agree()

    def told(self, kind):
        """All of one kind that was said since this was last asked."""
        some = [word for _, word in self.sent if isinstance(word, kind)]
        self.sent = [one for one in self.sent if not isinstance(one[1], kind)]
        return some

    def put(self, number, count=1):
        batch = Batch.of([b"item"] * count)
        body = calls.Put(self.queue, "p", number, bytes(batch.offsets), bytes(batch.blob))
        self.calls += 1
        self.give(Requested(OperationId(NodeId("c-1"), self.calls), body))
