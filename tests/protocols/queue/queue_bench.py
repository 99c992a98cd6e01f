"""Nodes of the one engine on a bench: their disks, messages and clocks are turned by hand."""

from random import Random

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import (
    Expired,
    Load,
    Loaded,
    Persist,
    Persisted,
    Received,
    Reply,
    Requested,
    Send,
)
from snowmelt.core.record import Damaged, Missing, Record, Write
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.limits import LIMITS
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.node import QueueNode, QueueTimer
from snowmelt.protocols.queue.streams import Presence, keeper_of

MEMBERS = tuple(
    Member(NodeId(f"n{number}"), Address("127.0.0.1", 4410 + number), birth=1, start=1)
    for number in (1, 2, 3)
)
KEEPERS = tuple(map(keeper_of, MEMBERS))
TOLD_SAFE = Duration(400_000_000)


class One:
    """A node, and what its disk holds."""

    def __init__(self, member, limits):
        self.id = member.id
        self.machine = QueueNode(member.id, Random(1), limits=limits)
        self.disk = {}
        self.hurt = {}
        self.machine._outbox.set_presence(Presence(View(1, 1, MEMBERS[0].id, MEMBERS)))

    def found(self, key):
        if key in self.hurt:
            return Damaged(key)
        return Record(key, self.disk[key]) if key in self.disk else Missing(key)

    def apply(self, changes):
        for change in changes:
            if isinstance(change, Write):
                self.disk[change.key] = change.value
                self.hurt.pop(change.key, None)
            else:
                gone = [key for key in self.disk if change.start <= key < change.stop]
                for key in gone:
                    del self.disk[key]

    @property
    def bodies(self):
        return [key for key in self.disk if key[:1] == b"~"]


class Bench:
    """One queue on some nodes; the first of them leads it."""

    def __init__(self, nodes=1, limits=LIMITS, **settings):
        self.now = Instant(10**9)
        self.nodes = {one.id: One(one, limits) for one in MEMBERS[:nodes]}
        self.settings = QueueSettings(replicas=nodes, **settings)
        self.told = {}
        self.dumb = set()
        """Whose disks do not answer."""
        self.away = set()
        """Who hears nothing."""
        self._writes = []
        self._numbers = 0
        self.leads("n1", 1)

    def leads(self, node, term):
        """From now on this one does."""
        names = [keeper_of(one) for one in MEMBERS if one.id in self.nodes]
        mine = next(name for name in names if name.startswith(f"{node}/"))
        others = tuple(name for name in names if name != mine)
        before = (mine,) if term == 1 else tuple(names)
        home = Assignment("q", term, mine, others, self.settings, before=before)
        self.leader_id = NodeId(node)
        self.one.machine._terms._take_over(home)
        self.turn(node, Expired(QueueTimer.TICK))
        self.run()
        self.leader.serving = True

    @property
    def one(self):
        return self.nodes[self.leader_id]

    @property
    def leader(self):
        return self.one.machine._terms.leaders["q"]

    @property
    def state(self):
        return self.leader.state

    def turn(self, node, event):
        """Gives a node an event; its effects go on their way."""
        one = self.nodes[node]
        for effect in one.machine.handle(event, self.now):
            match effect:
                case Send(target, message) if target in self.nodes:
                    self._writes.append((target, Received(NodeId(node), message), ()))
                case Persist(ticket, changes):
                    self._writes.append((node, Persisted(ticket), changes))
                case Load(ticket, keys):
                    found = tuple(one.found(key) for key in keys)
                    self._writes.append((node, Loaded(ticket, found), ()))
                case Reply(operation, message):
                    self.told[operation] = message

    def run(self):
        """All that is on its way arrives, but what silent disks and nodes have."""
        while ready := [one for one in self._writes if not self._stuck(one)]:
            node, event, changes = ready[0]
            self._writes.remove(ready[0])
            if node not in self.away:
                self.nodes[node].apply(changes)
                self.turn(node, event)

    def _stuck(self, one):
        node, event, _ = one
        return isinstance(event, Persisted) and node in self.dumb

    def later(self, by=TOLD_SAFE):
        self.now = Instant(self.now + by)
        for node in self.nodes:
            self.turn(node, Expired(QueueTimer.TICK))
        self.run()

    def begin(self, message, node=None):
        """Somebody calls; what comes of it is not waited for."""
        self._numbers += 1
        operation = OperationId(NodeId("c-1"), self._numbers)
        self.turn(self.leader_id if node is None else node, Requested(operation, message))
        return operation

    def ask(self, message, node=None):
        """Somebody calls, and is told; None where nothing is said."""
        operation = self.begin(message, node)
        self.run()
        return self.told.get(operation)

    def put(self, *bodies, number=None, **more):
        self._numbers += 1
        batch = Batch.of(list(bodies))
        number = self._numbers if number is None else number
        offsets, blob = bytes(batch.offsets), bytes(batch.blob)
        return self.ask(calls.Put("q", "loader", number, offsets, blob, **more))

    def forget(self):
        """Nothing is at hand any more: all is read from the disks."""
        for one in self.nodes.values():
            one.machine._copies.bodies._found.clear()


def values(parts):
    """The bodies in some parts."""
    return [bytes(body).decode() for part in parts for body in Batch(part.offsets, part.blob)]
