"""Which queues there are: every node knows all of them, and has them on its disk (`roll.py`).

Rules
-----
1. A queue is made by the node where its anchor will be, which has all members write it down before
   it says that it is made. Whoever knows it before that tells no client of it: another node would
   say that there is none.
2. In a new view everybody tells everybody which queues it knows; and no client is told of any
   before all have heard that: who is still in the view before may know less.
3. When a view ends a queue may be half made, with a node that is away next; another may be made
   under its name meanwhile. So each node notes *since* which view all members know a queue, in
   which it was made, or, where it was half made, the first that begins with somebody who has it.
   Of two with other settings the earlier counts: clients were told of it first. One that is half
   made counts less, as nobody was told of it; of two of those that which was begun last, since
   nobody who was there knew the other, so not all had written that one down. All members hear the
   same of all, and choose alike.
4. No client is told of a queue before this node's disk has it, and since when it is known: whoever
   else knows it may be gone for good when this node begins again, or have had another made.
5. Where another's settings count, what lies here under the name is the queue's all the same; but
   not where it can't be, of a priority that it has not or without a key. That stays on the disk.
6. Views may come after one another that no node is in both of, or none that has heard who knows a
   queue; so members might all say that there is none, and make another. But who coordinates knows
   all that clients were told of in views before. It is always the same node, and in all views,
   where its disk decides. Where etcd does, all queues are there, too: who coordinates writes down
   none without it, and tells what it keeps (rule 2) only when it has heard what etcd has, and etcd
   has all that it knows besides. A view whose coordinator has left is waited through.
"""

from collections.abc import Iterable
from typing import Final

from snowmelt.core.errors import BadOption
from snowmelt.core.names import NodeId, OperationId, queue_name
from snowmelt.protocols.membership import Leads, LeadsNoMore, RecordsKept
from snowmelt.protocols.overlay.tree import FlatTree
from snowmelt.protocols.priority.calls import Open, Opened, QueuesAre
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import Declare, Declared, Made, Make
from snowmelt.protocols.priority.placing import home_of
from snowmelt.protocols.priority.queue import Queue
from snowmelt.protocols.priority.roll import Roll
from snowmelt.protocols.priority.sending import Sending
from snowmelt.protocols.priority.settings import QueueSettings, Registered, differences

FINDING_OUT: Final = "Unavailable", "this node is finding out what its cluster keeps"


class Queues:
    def __init__(self, desk: Desk, limits: Limits, *, on_disk: bool = True) -> None:
        self._desk = desk
        self._limits = limits
        self._sending = Sending(desk, "")
        self.all: dict[str, Queue] = {}
        self.roll = Roll(desk, on_disk=on_disk)
        self.settled = False
        """Whether this node has heard all that others keep, in this view."""
        self._opens: dict[str, list[tuple[OperationId, Open]]] = {}
        self._making: dict[str, int] = {}
        """How many members have yet to write down a queue that is made here."""
        self._fresh: dict[str, None] = {}
        """Known here since this view began, and maybe not to all."""
        self._written: dict[int, tuple[NodeId | None, str]] = {}
        """Who waits for which queue to be written down here: a node, or this one's own making."""
        self._unkept: dict[str, dict[NodeId | None, None]] = {}
        """It is written down, and they wait until etcd has it, too (rule 6)."""

    def restore(self, values: Iterable[bytes]) -> None:
        self.roll.restore(values)
        for name, one in self.roll.known.items():
            self.all[name] = Queue(self._desk, one.settings, self._limits)

    def by_etcd(self, fact: Leads | LeadsNoMore | RecordsKept) -> None:
        """Of etcd, what this node hears if it leads (rule 6)."""
        for name in self.roll.told(fact):
            self._confirm(name)

    # --- clients ----------------------------------------------------------------------------------

    def open(self, operation: OperationId, call: Open) -> None:
        queue_name(call.queue)
        known = self.all.get(call.queue)
        if known is not None and self._is_told(call.queue):
            self._opened(operation, call, known.settings)
        elif known is not None:
            self._wait(operation, call, known.settings)
        elif call.settings is None and not call.make:
            self.missing(operation, call.queue)
        else:
            settings = _wanted(call, len(self._desk.members))
            if settings.queue != call.queue:
                raise BadOption("settings.queue", settings.queue, f"{call.queue}, which is opened")
            self._wait(operation, call, settings)

    def answer(self, operation: OperationId) -> None:
        if self.settled:
            settings = [queue.settings for queue in self.all.values()]
            self._desk.reply(operation, QueuesAre(tuple(settings)))
        else:
            self._desk.decline(operation, *FINDING_OUT)

    def missing(self, operation: OperationId, name: str) -> None:
        """There is none: but only who has heard of all queues can tell."""
        none = "NoSuchQueue", f"there is no queue {name}"
        self._desk.decline(operation, *(none if self.settled else FINDING_OUT))

    def _is_told(self, name: str) -> bool:
        """Whether all members know this queue, which is known here, and safely (rule 4)."""
        return self.settled and name not in self._fresh and self.roll.is_safe(name)

    def _wait(self, operation: OperationId, call: Open, settings: QueueSettings) -> None:
        """It is to be made, or being made: whoever opens it waits, if there is room."""
        opens, known = self._opens.get(call.queue, []), call.queue in self.all
        if any(one == operation for one, _ in opens):
            return  # asked again
        full = len(self.all) + len(self._opens) >= self._limits.queues
        if full and not opens and not known:
            self._desk.decline(operation, *_full(self._limits))
        elif len(opens) >= self._limits.opens:
            text = f"{len(opens)} wait already until queue {call.queue} is made; ask again"
            self._desk.decline(operation, "Unavailable", text)
        else:
            self._opens[call.queue] = [*opens, (operation, call)]
            self._ask(settings)

    def _ask(self, settings: QueueSettings) -> None:
        root = FlatTree(self._desk.members, settings.queue, 1).root.node
        era = self._desk.era
        self._sending.send(root, (), lambda _: Make(era, settings))

    def _opened(self, operation: OperationId, call: Open, settings: QueueSettings) -> None:
        asked = call.settings.filled(call.said, settings) if call.settings else settings
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

    def _tell(self, name: str) -> None:
        """Whoever opens it hears that it is there, as soon as that may be told."""
        if self._is_told(name):
            for operation, call in self._opens.pop(name, []):
                self._opened(operation, call, self.all[name].settings)

    # --- making -----------------------------------------------------------------------------------

    def make(self, door: NodeId, message: Make) -> None:
        name = message.settings.queue
        if not self.settled:
            return
        if name in self._making:
            return  # all hear when it is made
        if name in self.all:
            self._desk.send(door, Made(self._desk.era, self.all[name].settings))
        elif len(self.all) < self._limits.queues:
            others = [node for node in self._desk.members if node != self._desk.me]
            self._making[name] = 1 + len(others)
            self._write_down(message.settings, None)
            declare = Declare(self._desk.era, message.settings)

            def make(_: int) -> Declare:
                return declare

            for node in others:
                self._sending.send(node, (), make)

    def declared_here(self, source: NodeId, message: Declare) -> None:
        self._write_down(message.settings, source)

    def declared(self, source: NodeId, message: Declared) -> None:
        if self._sending.answered_by(source, Declare, message.queue):
            self._count(message.queue)

    def made(self, message: Made) -> None:
        """It is, and all know it: whoever opens it hears so."""
        name = message.settings.queue
        self._sending.answered_by(None, Make, name)
        self._fresh.pop(name, None)
        if name in self.roll.known:
            self._known_to_all(name)
            self._tell(name)

    def written(self, number: int) -> None:
        safe = self.roll.written(number)
        if safe:
            self._tell(safe)
        source, name = self._written.pop(number, (None, ""))
        if name:
            self._unkept.setdefault(name, {})[source] = None
            self._confirm(name)

    def _confirm(self, name: str) -> None:
        """It is written down, and kept by whom it has to be: whoever waits for that goes on."""
        if not self.roll.is_kept(name):
            return
        for source in self._unkept.pop(name, ()):
            if source is None:
                self._count(name)
            else:
                self._desk.send(source, Declared(self._desk.era, name))

    def learn(self, several: Iterable[Registered]) -> None:
        """All that members know, as of a new view, and which of it counts (rule 3)."""
        for one in several:
            known = self.roll.known.get(one.queue)
            if known is None or one.rank < known.rank:
                self._register(one)

    def viewed(self) -> None:
        """What was to be made is asked for again."""
        self.settled = False
        self._sending.clear()
        self._making, self._written, self._unkept, self._fresh = {}, {}, {}, {}
        for queue in self.all.values():
            queue.viewed()

    def settle(self) -> None:
        """This node has heard all: what waits to be opened goes on."""
        self.settled = True
        for name in self.roll.known:
            if name not in self._fresh:
                self._known_to_all(name)
        for name, opens in list(self._opens.items()):
            known = self.all.get(name)
            if known is not None and self._is_told(name):
                self._tell(name)
            else:
                made = _wanted(opens[0][1], len(self._desk.members))
                self._ask(known.settings if known is not None else made)

    def tick(self) -> None:
        """The clock goes on; there may be room for no more meanwhile, wherever they were made."""
        if len(self.all) >= self._limits.queues:
            for name in [one for one in self._opens if one not in self.all]:
                self._sending.answered_by(None, Make, name)
                for operation, _ in self._opens.pop(name):
                    self._desk.decline(operation, *_full(self._limits))
        self._sending.again()

    def _register(self, one: Registered) -> None:
        """A queue, or other settings of one that is there (rule 5)."""
        old = self.all.get(one.queue)
        self.roll.note_down(one)
        if old is None or old.settings != one.settings:
            queue = self.all[one.queue] = Queue(self._desk, one.settings, self._limits, old)
            queue.viewed()
            if old is not None:
                text = differences(one.settings, old.settings)
                self._desk.note(f"queue {one.queue} was made elsewhere with {text} here")

    def _known_to_all(self, name: str) -> None:
        """All members of this view know it (rule 3)."""
        one = self.roll.known[name]
        if one.since < 0:
            self.roll.note_down(Registered.of(one.settings, self._desk.epoch))

    def _write_down(self, settings: QueueSettings, source: NodeId | None) -> None:
        if settings.queue not in self.all:
            self._register(Registered.of(settings, -self._desk.epoch))
            self._fresh[settings.queue] = None
            if self.settled:  # nobody can have anything of it
                self.all[settings.queue].settled({})
        self._written[self.roll.await_flush()] = source, settings.queue

    def _count(self, name: str) -> None:
        if name not in self._making:
            return
        self._making[name] -= 1
        if not self._making[name]:
            del self._making[name]
            for node in self._desk.members:
                self._desk.send(node, Made(self._desk.era, self.all[name].settings))


def _wanted(call: Open, nodes: int) -> QueueSettings:
    """What a queue is made with that is not there."""
    settings = call.settings or QueueSettings(queue=call.queue, replicas=0)
    return settings.made_on(nodes)


def _full(limits: Limits) -> tuple[str, str]:
    text = f"there are {limits.queues} priority queues, or asked for; there is room for no more"
    return "Unavailable", text
