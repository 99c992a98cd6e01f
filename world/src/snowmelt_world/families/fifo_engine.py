"""What a life of queues knows of the inside of a family: its machine, and what its disks show.

All else is said in `fifo.calls`. So a family that speaks them needs an engine, and a life on
`QueueLife` with its `name` and `engine`.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.names import NodeId
from snowmelt.core.node import Node
from snowmelt.core.record import BULK, Damaged, Record
from snowmelt.protocols import queue as machines
from snowmelt.protocols.queue.limits import QueueLimits
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.state.segments import lacks, unstored
from snowmelt.protocols.queue.store.copy import HOME, kept_in
from snowmelt.protocols.queue.streams import node_of
from snowmelt_world.disk import Disk
from snowmelt_world.families.fifo_planted import machine
from snowmelt_world.planted import Bug

BYTES_MAX: Final = 1 << 40


class Role(Enum):
    """What a record is to a queue."""

    BODY = "body"
    """Read when somebody wants it."""
    EARLY = "early"
    """Of the queue's log, and read when a process begins."""
    NONE = "none"


class Engine:
    """The queue's; another family that speaks its calls overrides all of it."""

    name = "fifo"
    """How its keys begin on a disk that families share."""
    moves = True
    """Whether nodes join late and leave in order, some without their disks, and clients die while
    they put."""
    messages: tuple[type[msgspec.Struct], ...] = machines.MESSAGES

    def machine(
        self, bug: Bug | None, me: NodeId, chance: Random, limits: QueueLimits, *, on_disk: bool
    ) -> Node[Any]:
        """Its machine, with this bug in it if it is one of its own."""
        return machine(bug, me, chance, limits, on_disk=on_disk, secrets=Random(me))

    def role(self, key: bytes, queue: str) -> Role:
        """What the record of this key is to a queue."""
        name = queue.encode()
        if key.startswith(b"~fifo/" + name + b"\0"):
            return Role.BODY
        early = key.startswith(b"fifo/j" + name + b"\0")
        return Role.EARLY if early or key in (b"fifo/m" + name, b"fifo/k" + name) else Role.NONE

    def has(self, disk: Disk, queue: str) -> bool:
        """Whether anything of a queue's copy lies there."""
        records = [one.key for one in disk.start().records]
        return any(
            self.role(key, queue) is Role.EARLY and key[:6] == b"fifo/j" for key in records
        ) or any(True for _ in _segments(disk, queue))

    def unneeded(self, disks: Mapping[NodeId, Disk], queue: str) -> list[NodeId]:
        """Who has a copy that its home does not name: the latest that one of these tells."""
        homes: dict[NodeId, Assignment | None] = {}
        own, name = b"fifo/j" + queue.encode() + b"\0", b"fifo/m" + queue.encode()
        for node, disk in disks.items():
            there = {one.key: one.value for one in disk.start().records}
            home, kept = there.get(own + HOME), there.get(name)
            if kept is not None and kept_in(queue, kept).left:
                continue
            if any(key.startswith(own) for key in there):
                homes[node] = (
                    None if home is None else msgspec.msgpack.decode(home, type=Assignment)
                )
        told = [home for home in homes.values() if home is not None]
        last = max(told, key=lambda home: home.term, default=None)
        if last is None:
            return []
        return [node for node in homes if node not in {node_of(one) for one in last.keepers}]

    def kept(self, disk: Disk, queue: str) -> list[str] | None:
        """Which items of a queue lie there; None where a record can't be read."""
        records = list(_segments(disk, queue))
        if any(isinstance(one, Damaged) for one in records):
            return None
        return [value for one in records if isinstance(one, Record) for _, value in _placed(one)]

    def bodies(self, disks: Iterable[Disk], queue: str, term: int) -> dict[int, str]:
        """Which items of a queue lie there that were put in one term, by where they lie."""
        return {
            place: value
            for disk in disks
            for one in _segments(disk, queue)
            if isinstance(one, Record) and int.from_bytes(one.key[-12:-8]) == term
            for place, value in _placed(one)
        }


FIFO: Final = Engine()


def _segments(disk: Disk, queue: str) -> Iterator[Record | Damaged]:
    prefix = BULK + b"fifo/" + queue.encode()
    start, stop = prefix + b"\0", prefix + b"\1"
    while found := disk.scan(start, stop, BYTES_MAX):
        yield from found
        start = found[-1].key + b"\0"


def _placed(record: Record) -> Iterator[tuple[int, str]]:
    segment = unstored(record.value, int.from_bytes(record.key[-8:]))
    bodies = enumerate(Batch(segment.offsets, segment.blob), start=segment.first)
    return ((at, bytes(body).decode()) for at, body in bodies if not lacks(segment, at, at + 1))
