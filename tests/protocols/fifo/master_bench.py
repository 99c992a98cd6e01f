"""A master on a bench: its journal's flushes and its clock are turned by hand."""

from random import Random
from typing import Any

from whole_records import restored

from snowmelt.core.instant import Instant
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import Reply, Send
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.journal import Journal
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.limits import LIMITS, Limits
from snowmelt.protocols.fifo.master import Master
from snowmelt.protocols.fifo.messages import Admit, Drop, Entry, Home
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.fifo.streams import Presence, keeper_of, stream_of
from snowmelt.protocols.membership import Member, View

WALL = 10**18
MEMBERS = tuple(
    Member(NodeId(f"n{number}"), Address("127.0.0.1", 4410 + number), birth=1, start=1)
    for number in (1, 2, 3)
)
KEEPERS = tuple(map(keeper_of, MEMBERS))
OWN, OTHER, THIRD = map(stream_of, MEMBERS)


class Row(Random):
    """Draws 1, 2, 3: so a test can name the lease that comes next."""

    drawn = 0

    def randrange(self, *_: Any) -> int:
        Row.drawn += 1
        return Row.drawn


class Bench:
    """The master of queue `q` on n1. Nothing it does is safe until `flush`."""

    def __init__(
        self, queue: Queue | None = None, limits: Limits = LIMITS, **settings: Any
    ) -> None:
        if queue is None:
            Row.drawn = 0
        self.queue = queue or Queue("q", QueueSettings(**settings), limits)
        desk = self.desk = Desk(NodeId("n1"), Row(), limits)
        desk.set_wall(WALL, Instant(0))
        desk.set_presence(Presence(View(1, 1, NodeId("n1"), MEMBERS)))
        self.written: dict[bytes, bytes] = {}
        home = Home("q", 1, KEEPERS[0], (), self.queue.settings)
        self.journal = Journal(self.queue, 1, 0, ())
        self.master = Master(desk, Keeper(desk, lambda _: None), home, self.journal)
        self.told: list[Any] = []
        self.sent: list[tuple[str, Any]] = []
        self.calls = 0
        self._under_way: list[tuple[bytes, bytes | None]] = []

    def ask(self, act: Any, request: Any) -> Any:
        """Calls, flushes, and returns the one answer."""
        before = len(self.told)
        self.begin(act, request)
        self.flush()
        (answer,) = self.told[before:]
        return answer

    def begin(self, act: Any, request: Any) -> None:
        """Calls, and nothing is safe yet."""
        self.calls += 1
        act(OperationId(NodeId("c-1"), self.calls), request)
        self.collect()

    def stage(
        self, first: int, stop: int, stream: str = OTHER, hold: int = 10**9, **more: Any
    ) -> None:
        """A node offers a batch with a hold; its verdict is not safe yet."""
        self.offer(first, stop, stream, hold=hold, **more)

    def offer(self, first: int, stop: int, stream: str = OTHER, **more: Any) -> None:
        """A node offers a batch."""
        entry = {"producer": "p", "sequence": first, "due": 0, "patience": 0, "keepers": KEEPERS}
        size = 10 * (stop - first)
        self.master.admission.admit(
            Admit("q", stream, (Entry(first, stop, size, **{**entry, **more}),))
        )

    def write(self) -> None:
        """The journal makes its step, and it is on its way to the disk."""
        self._under_way += self.journal.write()

    def flush(self) -> None:
        """All steps are on the disk, and safe."""
        self.write()
        self.arrive()

    def arrive(self) -> None:
        """What is on its way to the disk is there, and safe."""
        under_way, self._under_way = self._under_way, []
        for key, value in under_way:
            if value is None:
                self.written.pop(key, None)
            else:
                self.written[key] = value
        self.journal.here = self.journal.step
        for then in self.journal.due():
            then()
        self.queue.check()
        self.collect()

    def crashed(self) -> "Bench":
        """What a later master finds: the steps that were flushed, and no more."""
        pairs = tuple(self.written.items())
        later = Bench(restored("q", self.queue.settings, pairs, self.desk.now))
        later.desk.now = self.desk.now
        later.written = dict(self.written)
        later.queue.check()
        return later

    def pass_time(self, seconds: float) -> None:
        """The clock goes on, and the master looks round."""
        self.desk.now = Instant(self.desk.now + round(seconds * 10**9))
        self.master.tick()

    def dropped(self) -> list[tuple[str, int, int]]:
        """What keepers were told to erase."""
        drops = [message for _, message in self.sent if isinstance(message, Drop)]
        extents = {
            (one.stream, one.first, one.stop): None for drop in drops for one in drop.extents
        }
        return list(extents)

    def collect(self) -> None:
        """What went out."""
        for effect in self.desk.taken():
            match effect:
                case Reply(_, message):
                    self.told.append(message)
                case Send(target, message):
                    self.sent.append((target, message))
        while self.desk.inside:
            self.sent.append((self.desk.me, self.desk.inside.popleft()))
