"""Which queues there are: every node knows all of them, and has them on its disk.

A queue is made by the node where its anchor will be, which has all members write it down before it
says that it is made. Whoever knows it before that tells no client of it: another node would say
that there is none. In a new view everybody tells everybody which queues it knows; and no client is
told of any before all have heard that: who is still in the view before may know less.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.record import Change, Write
from snowmelt.protocols.overlay.tree import FlatTree
from snowmelt.protocols.priority.calls import Open, Opened, QueuesAre
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import Declare, Declared, Made, Make
from snowmelt.protocols.priority.placing import home_of
from snowmelt.protocols.priority.queue import Queue
from snowmelt.protocols.priority.sending import Sending
from snowmelt.protocols.priority.settings import QueueSettings, differences, queue_name
from snowmelt.protocols.priority.writing import Part

SETTINGS: Final = b"s/", b"t/"
"""What a queue is, is written twice: without it all that is in the queue would be of none."""
FINDING_OUT: Final = "Unavailable", "this node is finding out what its cluster keeps"
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(QueueSettings).decode


class _Making(msgspec.Struct):
    """A queue that not all have written down yet."""

    waits: int
    doors: list[NodeId]


class Queues:
    """All queues, at one node."""

    def __init__(self, desk: Desk, limits: Limits) -> None:
        self._desk = desk
        self._limits = limits
        self._sending = Sending(desk, "")
        self.all: dict[str, Queue] = {}
        self.known: dict[str, QueueSettings] = {}
        """The settings of each."""
        self.settled = False
        """Whether this node has heard all that others keep, in this view."""
        self._unwritten: list[QueueSettings] = []
        self._opens: dict[str, list[tuple[OperationId, Open]]] = {}
        self._making: dict[str, _Making] = {}
        self._fresh: dict[str, None] = {}
        """Known here since this view began, and maybe not to all."""
        self._number = 0
        self._written: dict[int, tuple[NodeId | None, str]] = {}
        """Who waits for which queue to be written down here: a node, or this one's own making."""

    def restore(self, values: Iterable[bytes]) -> None:
        """The queues on the disk, each twice; what is hurt in one place is written anew."""
        counts = Counter(values)
        for value, count in counts.items():
            settings = _DECODE(value)
            self.all[settings.queue] = Queue(self._desk, settings, self._limits)
            self.known[settings.queue] = settings
            if count < len(SETTINGS):
                self._unwritten.append(settings)

    def settings(self) -> list[QueueSettings]:
        """Of all of them."""
        return [queue.settings for queue in self.all.values()]

    def changes(self) -> list[Change]:
        """What is to be written down."""
        new, self._unwritten = self._unwritten, []
        return [Write(key + one.queue.encode(), _ENCODE(one)) for one in new for key in SETTINGS]

    # --- clients ----------------------------------------------------------------------------------

    def open(self, operation: OperationId, call: Open) -> None:
        """A client opens a queue, and may make it."""
        queue_name(call.queue)
        known = self.known.get(call.queue)
        if known is not None and self._is_told(call.queue):
            self._opened(operation, call, known)
        elif known is not None:
            self._wait(operation, call, known)
        elif call.settings is None and not call.make:
            self.missing(operation, call.queue)
        else:
            settings = (call.settings or QueueSettings(queue=call.queue)).checked()
            if settings.queue != call.queue:
                raise BadOption("settings.queue", settings.queue, f"{call.queue}, which is opened")
            self._wait(operation, call, settings)

    def answer(self, operation: OperationId) -> None:
        """A client asks which there are."""
        if self.settled:
            self._desk.reply(operation, QueuesAre(tuple(self.settings())))
        else:
            self._desk.decline(operation, *FINDING_OUT)

    def missing(self, operation: OperationId, name: str) -> None:
        """There is none: but only who has heard of all queues can tell."""
        none = "NoSuchQueue", f"there is no queue {name}"
        self._desk.decline(operation, *(none if self.settled else FINDING_OUT))

    def _is_told(self, name: str) -> bool:
        """Whether all members know this queue, which is known here."""
        return self.settled and name not in self._fresh

    def _wait(self, operation: OperationId, call: Open, settings: QueueSettings) -> None:
        """It is to be made, or being made: whoever opens it waits, if there is room."""
        opens, known = self._opens.get(call.queue, []), call.queue in self.all
        if any(one == operation for one, _ in opens):
            return  # asked again
        full = len(self.all) + len(self._opens) >= self._limits.queues
        if full and not opens and not known:
            self._no_room(operation)
        elif len(opens) >= self._limits.opens:
            text = f"{len(opens)} wait already until queue {call.queue} is made; ask again"
            self._desk.decline(operation, "Unavailable", text)
        else:
            self._opens[call.queue] = [*opens, (operation, call)]
            self._ask(settings)

    def _no_room(self, operation: OperationId) -> None:
        most = self._limits.queues
        text = f"there are {most} priority queues, or asked for; there is room for no more"
        self._desk.decline(operation, "Unavailable", text)

    def _ask(self, settings: QueueSettings) -> None:
        root = FlatTree(self._desk.members, settings.queue, 1).root.node
        era = self._desk.era
        self._sending.send(root, (), lambda _: Make(era, settings))

    def _opened(self, operation: OperationId, call: Open, settings: QueueSettings) -> None:
        asked = call.settings or settings
        if call.said:
            asked = asked.filled(call.said, settings)
        if asked != settings:
            text = f"queue {call.queue} is there with {differences(settings, asked)}"
            self._desk.decline(operation, "QueueExists", text)
        else:
            view, me = self._desk.view, self._desk.me
            here = view.member(me) if view is not None else None
            if view is not None and here is not None:
                home = home_of(self._desk.members, settings.queue, settings.replicas)
                other = view.member(home) if home is not None and home != me else None
                address = other.address if other is not None else None
                self._desk.reply(operation, Opened(settings, self._desk.via, here.address, address))

    # --- making -----------------------------------------------------------------------------------

    def make(self, door: NodeId, message: Make) -> None:
        """A door wants a queue to be."""
        name = message.settings.queue
        if not self.settled:
            return
        making = self._making.get(name)
        if making is not None:
            making.doors.append(door)
        elif name in self.all:
            self._desk.send(door, Made(self._desk.era, self.all[name].settings))
        elif len(self.all) < self._limits.queues:
            others = [node for node in self._desk.members if node != self._desk.me]
            self._making[name] = _Making(1 + len(others), [door])
            self._write_down(message.settings, None)
            declare = Declare(self._desk.era, message.settings)

            def make(_: int) -> Declare:
                return declare

            for node in others:
                self._sending.send(node, (), make)

    def declared_here(self, source: NodeId, message: Declare) -> None:
        """There is a queue."""
        self._write_down(message.settings, source)

    def declared(self, source: NodeId, message: Declared) -> None:
        """Another has written it down."""
        if self._sending.answered_by(source, Declare, message.queue):
            self._count(message.queue)

    def made(self, message: Made) -> None:
        """It is: whoever opens it hears so."""
        self._sending.answered_by(None, Make, message.settings.queue)
        self._fresh.pop(message.settings.queue, None)
        for operation, call in self._opens.pop(message.settings.queue, []):
            self._opened(operation, call, message.settings)

    def written(self, number: int) -> None:
        """It is on this node's disk."""
        source, name = self._written.pop(number, (self._desk.me, ""))
        if source is None:
            self._count(name)
        elif name:
            self._desk.send(source, Declared(self._desk.era, name))

    def learn(self, settings: QueueSettings) -> None:
        """Another knows of it, as of a new view."""
        known = self.all.get(settings.queue)
        if known is None or _ENCODE(known.settings) < _ENCODE(settings):
            self._create(settings)

    def viewed(self) -> None:
        """What was to be made is asked for again."""
        self.settled = False
        self._sending.clear()
        self._making, self._written, self._fresh = {}, {}, {}
        for queue in self.all.values():
            queue.viewed()

    def settle(self) -> None:
        """This node has heard all: what waits to be opened goes on."""
        self.settled = True
        for name, opens in list(self._opens.items()):
            known = self.known.get(name)
            if known is not None and self._is_told(name):
                del self._opens[name]
                for operation, call in opens:
                    self._opened(operation, call, known)
            else:
                self._ask(known or opens[0][1].settings or QueueSettings(queue=name))

    def tick(self) -> None:
        """The clock goes on; there may be room for no more meanwhile, wherever they were made."""
        if len(self.all) >= self._limits.queues:
            for name in [one for one in self._opens if one not in self.all]:
                self._sending.answered_by(None, Make, name)
                for operation, _ in self._opens.pop(name):
                    self._no_room(operation)
        self._sending.again()

    def _create(self, settings: QueueSettings) -> Queue:
        queue = Queue(self._desk, settings, self._limits)
        old = self.all.get(settings.queue)
        if old is not None:
            queue.shelf = old.shelf
        self.all[settings.queue], self.known[settings.queue] = queue, settings
        self._unwritten.append(settings)
        queue.viewed()
        return queue

    def _write_down(self, settings: QueueSettings, source: NodeId | None) -> None:
        if settings.queue not in self.all:
            queue = self._create(settings)
            self._fresh[settings.queue] = None
            if self.settled:  # nobody can have anything of it
                queue.settled({})
        self._number += 1
        self._written[self._number] = source, settings.queue
        self._desk.await_flush(Part.QUEUES, "", self._number)

    def _count(self, name: str) -> None:
        making = self._making.get(name)
        if making is None:
            return
        making.waits -= 1
        if making.waits == 0:
            del self._making[name]
            self._fresh.pop(name, None)
            for door in dict.fromkeys(making.doors):
                self._desk.send(door, Made(self._desk.era, self.all[name].settings))
