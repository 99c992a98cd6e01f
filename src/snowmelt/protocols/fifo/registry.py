"""Where each queue is at home; kept by the coordinator of the cluster, on its disk.

A *home* is a term, a master, and the mirrors that keep the journal with it. Rules:

1. Homes of a queue have growing terms; each is on the disk before anybody hears of it. So a term
   has one master, whatever crashes.
2. A new term is made when the master begins anew (it asks, by `Claim`), and when a view has no
   place for one of the home's keepers and another can take its place.
3. A new home is not *active*: it names the keepers of the last active one, from whom the master
   must bring the journal over. When it has, it says `Activate`, and serves when it has heard that
   this too is on the disk.
4. A queue whose journal keepers are all away has nobody to bring it over; it waits for them.
"""

from typing import Final
from zlib import crc32

import msgspec

from snowmelt.core.instant import Duration, later, milliseconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Halt, Started
from snowmelt.core.record import Write
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.messages import (
    Activate,
    Claim,
    Home,
    Nowhere,
    Roll,
    Rolled,
    Where,
)
from snowmelt.protocols.fifo.settings import QueueSettings, differences
from snowmelt.protocols.fifo.streams import Presence, node_of

AGAIN_AFTER: Final[Duration] = milliseconds(500)


class Registry:
    """The homes of all queues; it answers only on the coordinator."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._homes: dict[str, Home] = {}
        self._asleep: dict[str, None] = {}
        """Whose home is not active: they are told again, and no other costs a tick anything."""
        self._writing: dict[str, int] = {}

    def begin(self, started: Started) -> None:
        """From the disk, where each home stands twice: losing one would lose a queue."""
        for record in started.records:
            if record.key[:1] in (b"h", b"i"):
                self._keep(msgspec.msgpack.decode(record.value, type=Home))
        for hurt in started.damaged:
            if hurt[:1] in (b"h", b"i") and hurt[1:].decode() not in self._homes:
                text = f"where queue {hurt[1:].decode()!r} is at home can't be read on this disk"
                self._desk.effect(Halt(text))

    def _keep(self, home: Home) -> None:
        self._homes[home.queue] = home
        if home.active:
            self._asleep.pop(home.queue, None)
        else:
            self._asleep[home.queue] = None

    @property
    def _presence(self) -> Presence | None:
        """Who is here, if it is for this node to decide."""
        presence = self._desk.presence
        if presence is None or presence.view.coordinator != self._desk.me:
            return None
        return presence

    # --- questions --------------------------------------------------------------------------------

    def where(self, source: NodeId, message: Where) -> None:
        """Where a queue is at home; it is made if that is asked for."""
        presence = self._presence
        if presence is None:
            return
        if message.queue in self._writing:
            return  # it is asked again
        home, settings = self._homes.get(message.queue), message.settings
        if home is None and settings is None:
            text = f"there is no queue {message.queue!r}"
            self._desk.send(source, Nowhere(message.queue, "NoSuchQueue", text))
        elif home is None:
            assert settings is not None
            self._found(source, message.queue, settings, presence)
        elif settings is not None and settings != home.settings:
            other = differences(home.settings, settings)
            text = f"queue {message.queue!r} is there with other settings: {other}"
            self._desk.send(source, Nowhere(message.queue, "QueueExists", text))
        else:
            self._desk.send(source, home)

    def roll(self, source: NodeId, message: Roll) -> None:
        """Which queues there are."""
        if self._presence is not None:
            self._desk.send(source, Rolled(message.number, tuple(sorted(self._homes))))

    def _found(
        self, source: NodeId, queue: str, settings: QueueSettings, presence: Presence
    ) -> None:
        here = len(presence.keepers)
        if settings.replicas > here:
            text = f"replicas is {settings.replicas}; allowed: at most {here}, the nodes present"
            self._desk.send(source, Nowhere(queue, "BadOption", text))
            return
        if len(self._homes) >= self._desk.limits.queues:
            text = f"there are {self._desk.limits.queues} queues; no cluster keeps more"
            self._desk.send(source, Nowhere(queue, "BadOption", text))
            return
        # By rank of a checksum: queues spread over the nodes, and everybody finds the same.
        master = max(presence.keepers, key=lambda keeper: crc32(f"{queue}/{keeper}".encode()))
        mirrors = presence.after(master, settings.replicas - 1)
        home = Home(queue, 1, master, mirrors, settings, presence.run_of(master))
        self._decide(home, also=source)

    # --- terms ------------------------------------------------------------------------------------

    def claim(self, message: Claim) -> None:
        """A master began anew (rule 2)."""
        home = self._homes.get(message.queue)
        if self._presence is None or home is None:
            return
        if not message.run.startswith(home.master + "/") or message.queue in self._writing:
            return
        if message.term < home.term:  # it was given one already
            self._tell(home)
        else:
            self._renew(home, home.master, home.mirrors, message.run)

    def activate(self, source: NodeId, message: Activate) -> None:
        """A master has the journal (rule 3)."""
        home = self._homes.get(message.queue)
        if self._presence is None or home is None or home.term != message.term:
            return
        if home.active:
            self._desk.send(source, home)
        elif message.queue not in self._writing:
            self._decide(msgspec.structs.replace(home, active=True, before=()))

    def viewed(self) -> None:
        """A new view: homes whose keepers are away get others (rule 2)."""
        presence = self._presence
        if presence is None:
            return
        for home in list(self._homes.values()):
            if home.queue not in self._writing:
                self._rehouse(home, presence)
        self._desk.wake(later(self._desk.now, AGAIN_AFTER))

    def _rehouse(self, home: Home, presence: Presence) -> None:
        old = (home.master, *home.mirrors)
        stay = [keeper for keeper in old if keeper in presence.keepers]
        if len(stay) == len(old):
            return
        candidates = [keeper for keeper in home.before or old if keeper in presence.keepers]
        if not candidates:
            return  # rule 4
        master = stay[0] if stay else candidates[0]
        ring = presence.after(master, len(presence.keepers))
        away = [keeper for keeper in old if keeper not in presence.keepers]
        others = [*stay, *ring, *away]
        mirrors = list(dict.fromkeys(one for one in others if one != master))[: len(old) - 1]
        if (master, *mirrors) != old:
            self._renew(home, master, tuple(mirrors), presence.run_of(master))

    def _renew(self, home: Home, master: str, mirrors: tuple[str, ...], run: str) -> None:
        before = (home.master, *home.mirrors) if home.active else home.before
        self._decide(
            Home(home.queue, home.term + 1, master, mirrors, home.settings, run, before=before)
        )

    def _decide(self, home: Home, also: NodeId | None = None) -> None:
        """Rule 1: onto the disk, then told."""
        self._writing[home.queue] = home.term

        def flushed() -> None:
            del self._writing[home.queue]
            self._keep(home)
            self._desk.note(f"{home.queue}: term {home.term} with {home.master}")
            self._tell(home, also)
            if self._presence is not None:  # a view may have come meanwhile
                self._rehouse(home, self._presence)

        name, value = home.queue.encode(), msgspec.msgpack.encode(home)
        self._desk.write((Write(b"h" + name, value), Write(b"i" + name, value)), flushed)

    def _tell(self, home: Home, also: NodeId | None = None) -> None:
        nodes = [node_of(keeper) for keeper in (home.master, *home.mirrors, *home.before)]
        if also is not None:
            nodes.append(also)
        for node in dict.fromkeys(nodes):
            self._desk.send(node, home)
        self._desk.wake(later(self._desk.now, AGAIN_AFTER))

    def tick(self) -> None:
        """Tells masters again of homes that they have not brought to life."""
        if self._presence is None:
            return
        for queue in self._asleep:
            home = self._homes[queue]
            if queue not in self._writing:
                self._desk.send(node_of(home.master), home)
                self._desk.wake(later(self._desk.now, AGAIN_AFTER))
